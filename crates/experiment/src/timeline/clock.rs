//! A trial's clock: ramp, load and drain as a bar, the faults at their times, the steps of an exercise.

use super::{estimate, plain};
use crate::duration::show;
use crate::plan::{Exercise, Fault, Trial, Warmup, When};

/// Characters of a bar.
const BAR: usize = 60;

/// What happens when.
pub(super) fn lines(trial: &Trial) -> Vec<String> {
    let mut lines = Vec::new();
    if trial.load.is_some() || !trial.faults.is_empty() {
        lines.push(format!("         {}", bar(trial)));
        lines.push(format!("         {}", legend(trial)));
    }
    lines.extend(trial.faults.iter().map(|fault| format!("fault    {}", fault_line(fault))));
    lines.extend(trial.steps.iter().map(|step| format!("step     {}", step_line(step))));
    lines
}

fn bar(trial: &Trial) -> String {
    let end_s = estimate::load_s(trial);
    let drain_s = trial.load.as_ref().map_or(0.0, |load| load.drain_s);
    let span_s = (end_s + drain_s).max(f64::MIN_POSITIVE);
    let column = |at_s: f64| cell(at_s / span_s);
    let mut cells = vec!['━'; BAR];
    if let Some(load) = &trial.load {
        let ramped = column(load.ramp_s);
        cells[..ramped].fill('╱');
        if let Warmup::Seconds(warmup_s) = load.warmup {
            cells[ramped..column(warmup_s).max(ramped)].fill('─');
        }
        cells[column(end_s)..].fill('·');
    }
    for fault in trial.faults.iter().filter(|fault| !fault.standing) {
        for at_s in estimate::moments(fault, &trial.faults, end_s) {
            cells[column(at_s).min(BAR - 1)] = '╳';
        }
    }
    cells.into_iter().collect()
}

/// The cell of a share of the bar.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "0 to BAR")]
fn cell(share: f64) -> usize {
    (share.clamp(0.0, 1.0) * BAR as f64).round() as usize
}

fn legend(trial: &Trial) -> String {
    let mut words = Vec::new();
    if let Some(load) = &trial.load {
        if load.ramp_s > 0.0 {
            words.push(format!("╱ ramp {}", show(load.ramp_s)));
        }
        if let Warmup::Seconds(warmup_s) = load.warmup {
            words.push(format!("─ warm-up to {}", show(warmup_s)));
        }
        words.push(format!("━ load to {}", show(load.time_s)));
        words.push(format!("· drain, up to {}", show(load.drain_s)));
    }
    if trial.faults.iter().any(|fault| !fault.standing) {
        words.push("╳ fault".to_owned());
    }
    words.join("   ")
}

fn fault_line(fault: &Fault) -> String {
    let when = match &fault.when {
        When::At(at_s) => format!("at {}", show(*at_s)),
        When::Every { first_s, every_s } if (first_s - every_s).abs() < f64::EPSILON => {
            format!("every {}", show(*every_s))
        }
        When::Every { first_s, every_s } => format!("at {}, then every {}", show(*first_s), show(*every_s)),
        When::After { fault, healed, plus_s } => {
            let plus = if *plus_s > 0.0 { format!("{} ", show(*plus_s)) } else { String::new() };
            format!("{plus}after {fault} {}", if *healed { "is healed" } else { "has begun" })
        }
    };
    let when = if fault.standing { "from before the load to its end".to_owned() } else { when };
    let with: Vec<String> = fault.with.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect();
    let with = if with.is_empty() { String::new() } else { format!(" ({})", with.join(", ")) };
    let until = fault.for_s.map(|for_s| format!(", for {}", show(for_s))).unwrap_or_default();
    format!("{}: {}{with} on {} {when}{until}", fault.name, fault.kind, fault.on)
}

fn step_line(step: &Exercise) -> String {
    let does: Vec<String> = step.does.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect();
    let until = step.until.as_ref().map(|until| format!(", until {until}")).unwrap_or_default();
    format!("{}: {}{until}, within {}", step.name, does.join(", "), show(step.within_s))
}
