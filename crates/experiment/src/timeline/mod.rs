//! What `plimsoll check` prints: the trials of a plan in their order, what happens when in each of them, and how long
//! all of it will take. It plans nothing and runs nothing.

use std::fmt::Write as _;

use crate::duration::show;
use crate::plan::{Exercise, Fault, Lab, Load, Order, Plan, Retry, TargetKind, Trial, Warmup, When};

mod estimate;
mod listing;

/// Characters of a timeline bar.
const BAR: usize = 60;

/// The plan, for a person; ends with a newline.
#[must_use]
pub fn print(plan: &Plan) -> String {
    let mut text = String::new();
    // Writing into a String does not fail.
    let _ = writeln!(text, "{}", plan.title);
    if !plan.asks.is_empty() {
        let _ = writeln!(text, "  {}", plan.asks);
    }
    text.push('\n');
    text.push_str(&listing::trials(plan));
    for group in groups(plan) {
        text.push('\n');
        text.push_str(&group.print(plan));
    }
    text.push('\n');
    let _ = writeln!(text, "{}", estimate::total(plan));
    text
}

/// Trials that run alike but for their parameters.
struct Group<'a> {
    first: &'a Trial,
    ids: Vec<&'a str>,
}

/// Trials whose load, faults and steps take place at the same times, in the order of the plan.
fn groups(plan: &Plan) -> Vec<Group<'_>> {
    let mut groups: Vec<(Vec<String>, Group<'_>)> = Vec::new();
    for trial in &plan.trials {
        let lines = lines(trial);
        match groups.iter_mut().find(|(known, _)| *known == lines) {
            Some((_, group)) => group.ids.push(&trial.id),
            None => groups.push((lines, Group { first: trial, ids: vec![&trial.id] })),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

impl Group<'_> {
    fn print(&self, plan: &Plan) -> String {
        let mut text = match self.ids.as_slice() {
            [only] => format!("trial {only}\n"),
            ids if ids.len() == plan.trials.len() => "each trial\n".to_owned(),
            ids => format!("trials {}\n", listing::runs(ids)),
        };
        for line in lines(self.first) {
            let _ = writeln!(text, "  {line}");
        }
        text
    }
}

/// What happens in a trial.
fn lines(trial: &Trial) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(lab(&trial.lab));
    for prepare in &trial.prepare {
        lines.push(format!("before   {} × {}", thousands(prepare.count), prepare.step.name));
    }
    if let Some(load) = &trial.load {
        lines.push(format!("load     {}", clients(load)));
        lines.push(format!("         {}", operations(load)));
    }
    if trial.load.is_some() || !trial.faults.is_empty() {
        lines.extend(bar(trial));
    }
    lines.extend(trial.faults.iter().map(|fault| format!("fault    {}", fault_line(fault))));
    lines.extend(trial.steps.iter().map(step_line));
    lines
}

fn lab(lab: &Lab) -> Option<String> {
    let speed = if (lab.speed - 1.0).abs() < f64::EPSILON { String::new() } else { format!(", at speed {}", lab.speed) };
    let mut profiles: Vec<&str> = lab.hosts.iter().filter_map(|host| host.profile.as_deref()).collect();
    profiles.dedup();
    let profiles = if profiles.is_empty() { String::new() } else { format!(" ({})", profiles.join(", ")) };
    match (lab.hosts.len(), speed.is_empty()) {
        (0, true) => None,
        (0, false) => Some(format!("lab      this machine{speed}")),
        (1, _) => Some(format!("lab      1 host{profiles}{speed}")),
        (count, _) => Some(format!("lab      {count} hosts{profiles}{speed}")),
    }
}

fn clients(load: &Load) -> String {
    let agents = if load.agents == 1 { "1 agent".to_owned() } else { format!("{} agents", thousands(load.agents.into())) };
    let mut words = vec![agents];
    words.push(match load.rate {
        Some(rate) => format!("{rate} operations/s (open loop)"),
        None if load.think_s > 0.0 => format!("thinking {}", show(load.think_s)),
        None => "no pause".to_owned(),
    });
    words.push(format!("timeout {}", show(load.timeout_s)));
    words.push(match load.retry {
        Retry::FailFast => "no retries".to_owned(),
        Retry::Wait { wait_s } => format!("retries every {} until it works", show(wait_s)),
        Retry::Tries { tries, wait_s } => format!("{tries} tries, {} apart", show(wait_s)),
    });
    words.join(", ")
}

fn operations(load: &Load) -> String {
    let steps = load.steps.iter().map(|step| match load.order {
        Order::Cycle if step.every > 1 => format!("{} (every {})", step.name, thousands(step.every.into())),
        Order::Cycle => step.name.clone(),
        Order::Mix => format!("{} {}", step.name, step.weight),
    });
    match load.order {
        Order::Cycle => steps.collect::<Vec<_>>().join(" → "),
        Order::Mix => format!("at random: {}", steps.collect::<Vec<_>>().join(", ")),
    }
}

/// A picture of the trial's clock: ramp, load, drain, and the faults in it.
fn bar(trial: &Trial) -> Vec<String> {
    let end_s = estimate::load_s(trial);
    let drain_s = trial.load.as_ref().map_or(0.0, |load| load.drain_s);
    let span_s = (end_s + drain_s).max(f64::MIN_POSITIVE);
    let column = |at_s: f64| cell(at_s / span_s);
    let mut cells = vec!['━'; BAR];
    if let Some(load) = &trial.load {
        cells[..column(load.ramp_s)].fill('╱');
        if let Warmup::Seconds(warmup_s) = load.warmup {
            cells[column(load.ramp_s)..column(warmup_s).max(column(load.ramp_s))].fill('─');
        }
        cells[column(end_s)..].fill('·');
    }
    for fault in &trial.faults {
        for at_s in estimate::moments(fault, &trial.faults, end_s) {
            cells[column(at_s).min(BAR - 1)] = '╳';
        }
    }
    let mut legend = Vec::new();
    if let Some(load) = &trial.load {
        if load.ramp_s > 0.0 {
            legend.push(format!("╱ ramp {}", show(load.ramp_s)));
        }
        if let Warmup::Seconds(warmup_s) = load.warmup {
            legend.push(format!("warm-up {}", show(warmup_s)));
        }
        legend.push(format!("load {}", show(load.time_s)));
        legend.push(format!("· drain up to {}", show(load.drain_s)));
    }
    if !trial.faults.is_empty() {
        legend.push("╳ fault".to_owned());
    }
    vec![format!("         {}", cells.iter().collect::<String>()), format!("         {}", legend.join("   "))]
}

/// The cell of a share of the bar.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "0 to BAR")]
fn cell(share: f64) -> usize {
    (share.clamp(0.0, 1.0) * BAR as f64).round() as usize
}

fn fault_line(fault: &Fault) -> String {
    let when = match &fault.when {
        When::At(at_s) => format!("at {}", show(*at_s)),
        When::Every { first_s, every_s } if (first_s - every_s).abs() < f64::EPSILON => format!("every {}", show(*every_s)),
        When::Every { first_s, every_s } => format!("at {}, then every {}", show(*first_s), show(*every_s)),
        When::After { fault, healed, plus_s } => {
            let plus = if *plus_s > 0.0 { format!("{} ", show(*plus_s)) } else { String::new() };
            format!("{plus}after {fault} {}", if *healed { "is healed" } else { "has begun" })
        }
    };
    let with: Vec<String> = fault.with.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect();
    let with = if with.is_empty() { String::new() } else { format!(" ({})", with.join(", ")) };
    let until = fault.for_s.map(|for_s| format!(", for {}", show(for_s))).unwrap_or_default();
    format!("{}: {}{with} on {} {when}{until}", fault.name, fault.kind, fault.on)
}

fn step_line(step: &Exercise) -> String {
    let does: Vec<String> = step.does.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect();
    let until = step.until.as_ref().map(|until| format!(", until {until}")).unwrap_or_default();
    format!("step     {}: {}{until}, within {}", step.name, does.join(", "), show(step.within_s))
}

/// A value without the quotes of a text.
fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// `13,000`
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What a target is called.
fn target_name(kind: &TargetKind) -> &str {
    match kind {
        TargetKind::Folder { name, .. } => name,
        TargetKind::Running { url } | TargetKind::Started { url, .. } => url,
    }
}

#[cfg(test)]
mod tests;
