//! What a trial is like apart from its times: lab, preparation, clients, operations. Of several trials, what they share
//! is said once, and of what differs the values.

use super::thousands;
use crate::duration::show;
use crate::plan::{Backlog, Lab, Load, Order, Overflow, Port, Rate, Retry, Stage, Trial};
use crate::quantity::show_bits_per_s;

/// A line: its head, and the parts that may differ between trials.
type Line = (&'static str, Vec<String>);

/// The traits of several trials, merged.
pub(super) fn lines(trials: &[&Trial]) -> Vec<String> {
    let all: Vec<Vec<Line>> = trials.iter().map(|trial| of(trial)).collect();
    let Some(first) = all.first() else { return Vec::new() };
    let mut lines = Vec::new();
    for (row, (head, parts)) in first.iter().enumerate() {
        let merged: Vec<String> = (0..parts.len())
            .map(|column| merge(all.iter().filter_map(|lines| lines.get(row)?.1.get(column)).map(String::as_str)))
            .filter(|part| !part.is_empty())
            .collect();
        if !merged.is_empty() {
            lines.push(format!("{head:<8} {}", merged.join(", ")));
        }
    }
    lines
}

/// Every part of a trial's traits; the same number for every trial.
pub(super) fn parts(trial: &Trial) -> Vec<String> {
    of(trial).into_iter().flat_map(|(_, parts)| parts).collect()
}

/// Different values: all of a few, else the first and the last.
fn merge<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    match distinct.as_slice() {
        [first, .., last] if distinct.len() > 3 => format!("{first} … {last}"),
        _ => distinct.join(" or "),
    }
}

fn of(trial: &Trial) -> Vec<Line> {
    let before: Vec<String> = trial
        .prepare
        .iter()
        .map(|prepare| match prepare.count {
            1 => prepare.step.name.clone(),
            count => format!("{} × {}", thousands(count), prepare.step.name),
        })
        .collect();
    let load = trial.load.as_ref();
    vec![
        ("lab", vec![lab(&trial.lab)]),
        ("", vec![trial.lab.ports.iter().map(port).collect::<Vec<_>>().join(", ")]),
        ("", vec![dilation(&trial.lab)]),
        ("before", vec![before.join(", ")]),
        ("load", load.map_or_else(|| vec![String::new(); 5], clients)),
        ("", vec![load.map_or_else(String::new, operations)]),
    ]
}

fn lab(lab: &Lab) -> String {
    let mut profiles: Vec<&str> = lab.hosts.iter().filter_map(|host| host.profile.as_deref()).collect();
    profiles.dedup();
    let profiles = if profiles.is_empty() { String::new() } else { format!(" ({})", profiles.join(", ")) };
    let real = if lab.hosts.iter().all(|host| host.ssh.is_some()) { " over ssh" } else { "" };
    let roles = roles(lab);
    match lab.hosts.len() {
        0 => String::new(),
        1 => format!("1 host{roles}{profiles}{real}"),
        count => format!("{count} hosts{roles}{profiles}{real}"),
    }
}

/// What a port has of the links, at the lab's own speed.
fn port(port: &Port) -> String {
    let rate = port.link.rate_bits_per_s.map(show_bits_per_s);
    let delay = port.link.delay_s.map(|delay_s| format!("{} late", show(delay_s)));
    let limits: Vec<String> = rate.into_iter().chain(delay).collect();
    format!("port {} at {}", port.name, limits.join(" and "))
}

/// Who runs what, where hosts are not all alike: `: proxy, 3 × member`.
fn roles(lab: &Lab) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for role in lab.hosts.iter().map(|host| host.role.as_deref().unwrap_or("with all roles")) {
        match counted.iter_mut().find(|(known, _)| *known == role) {
            Some((_, count)) => *count += 1,
            None => counted.push((role, 1)),
        }
    }
    if lab.hosts.iter().all(|host| host.role.is_none()) {
        return String::new();
    }
    let counted: Vec<String> = (counted.into_iter())
        .map(|(role, count)| if count == 1 { role.to_owned() } else { format!("{count} × {role}") })
        .collect();
    format!(": {}", counted.join(", "))
}

/// What `lab.speed` has done to the times below.
fn dilation(lab: &Lab) -> String {
    if lab.hosts.is_empty() || (lab.speed - 1.0).abs() < f64::EPSILON {
        return String::new();
    }
    let named = [(0.5, "half"), (0.25, "a quarter of the"), (0.2, "a fifth of the"), (0.1, "a tenth of the")];
    let named = named.iter().find(|(speed, _)| (lab.speed - speed).abs() < 1e-9);
    let speed = named.map_or_else(|| format!("{} of the", lab.speed), |(_, words)| (*words).to_owned());
    let times = (1000.0 / lab.speed).round() / 1000.0;
    format!("at {speed} speed: every time below is {times} × the file's, every rate {} ×", lab.speed)
}

fn clients(load: &Load) -> Vec<String> {
    let agents =
        if load.agents == 1 { "1 agent".to_owned() } else { format!("{} agents", thousands(load.agents.into())) };
    let pace = match &load.rate {
        Some(rate) => open_loop(rate),
        None if load.think_s > 0.0 && load.think_spread_pct > 0.0 => {
            format!("thinking {} ± {} %", show(load.think_s), load.think_spread_pct)
        }
        None if load.think_s > 0.0 => format!("thinking {}", show(load.think_s)),
        None => "no pause".to_owned(),
    };
    let retry = match load.retry {
        Retry::FailFast => "no retries".to_owned(),
        Retry::Wait { wait_s } => format!("retries every {} until it works", show(wait_s)),
        Retry::Tries { tries, wait_s } => format!("{tries} tries, {} apart", show(wait_s)),
    };
    let backlog = load.backlog.map_or_else(String::new, bound);
    vec![agents, pace, backlog, format!("timeout {}", show(load.timeout_s)), retry]
}

fn open_loop(rate: &Rate) -> String {
    match rate {
        Rate::Constant(per_s) => format!("{per_s} operations/s (open loop)"),
        Rate::Poisson { poisson } => format!("{poisson} operations/s at random (open loop)"),
        Rate::Replay { replay, .. } => format!("operations as recorded in {replay} (open loop)"),
        Rate::Stages(stages) => match stages.as_slice() {
            [first, second, .., last] if stages.len() > STAGES_SHOWN => {
                let [first, second, last] = [first, second, last].map(stage);
                format!("{first}, then {second}, … then {last} (open loop, {} stages)", stages.len())
            }
            all => format!("{} (open loop)", all.iter().map(stage).collect::<Vec<_>>().join(", then ")),
        },
    }
}

/// More stages than that fill more than a line.
const STAGES_SHOWN: usize = 5;

fn stage(stage: &Stage) -> String {
    let over = show(stage.over_s);
    if (stage.from - stage.to).abs() < f64::EPSILON {
        format!("{} operations/s for {over}", stage.to)
    } else {
        format!("{} to {} operations/s in {over}", stage.from, stage.to)
    }
}

fn bound(backlog: Backlog) -> String {
    let most = thousands(backlog.most.into());
    match backlog.overflow {
        Overflow::Drop => format!("at most {most} waiting and the rest dropped"),
        Overflow::Stop => format!("stopped when more than {most} wait"),
    }
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
