//! The finding of a load without a fault: throughput, latency, and whether anything failed.

use experiment::plan::Plan;
use record::results::Trial;

use super::quoted;
use crate::facts::{Figure, Group, counted, operations, planned};
use crate::numbers;

/// In one sentence.
pub fn finding(group: &Group, plan: &Plan) -> String {
    let mut text = repeats(group);
    let rate = group.spread(|trial| trial.throughput.operations_per_s);
    let load = group.trials.first().and_then(|trial| planned(plan, &trial.id)).and_then(|trial| trial.load.as_ref());
    let who = match load.map(|load| (load.agents, &load.rate)) {
        Some((_, Some(asked))) => match asked.per_s() {
            Some(per_s) => format!("asked for {} calls/s, the target answered", numbers::number(per_s)),
            None => "asked for calls on a schedule, the target answered".to_owned(),
        },
        Some((1, None)) => "1 agent got".to_owned(),
        Some((agents, None)) => format!("{} agents got", numbers::count(u64::from(agents))),
        None => "the load got".to_owned(),
    };
    text.push_str(&match rate {
        Some(rate) => format!("{who} {} calls/s", rate.text(numbers::number)),
        None => format!("{who} answers at a rate that was not measured"),
    });
    let quantiles: [(&str, Figure); 2] =
        [("p50", |trial| trial.latency_us?.p50), ("p99", |trial| trial.latency_us?.p99)];
    let latency: Vec<String> = quantiles
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} {}", group.spread(value)?.text(numbers::micros))))
        .collect();
    if !latency.is_empty() {
        text.push_str(&format!(" at a latency of {}", latency.join(" and ")));
    }
    text.push_str(&format!("; {}", failures(group)));
    if let Some(lost) = losses(group) {
        text.push_str(&format!("; {lost}"));
    }
    super::capital(&super::stopped(&text))
}

/// `median of 3 repeats (range): `, or nothing.
pub fn repeats(group: &Group) -> String {
    match group.usable().count() {
        0 | 1 => String::new(),
        several => format!("medians of {several} repeats (and their ranges): "),
    }
}

/// `none of 11.2 million calls failed`, or how many did.
fn failures(group: &Group) -> String {
    let failed = group.spread(|trial| counted(trial, |trial| trial.outcomes.failed + trial.outcomes.timeout));
    let all = group.spread(|trial| counted(trial, operations));
    let all = all.map_or_else(|| numbers::NONE.to_owned(), |all| all.text(numbers::median_count_in_words));
    match failed {
        Some(failed) if failed.most > 0.0 => {
            format!("{} of {all} calls failed", failed.text(numbers::median_count_in_words))
        }
        _ => format!("none of {all} calls failed"),
    }
}

/// What the consistency checks found, if they looked.
pub fn losses(group: &Group) -> Option<String> {
    let mut parts = Vec::new();
    let wrong = group.spread(|trial| trial.consistency.wrong.map(|count| count as f64));
    if let Some(wrong) = wrong.filter(|wrong| wrong.most > 0.0) {
        parts.push(format!("{} answers were wrong", wrong.text(numbers::median_count_in_words)));
    }
    let lost = group.spread(|trial| trial.consistency.lost_writes.map(|count| count as f64));
    let checked = group.spread(|trial| trial.consistency.checked.map(|count| count as f64));
    let checked = checked.map(|checked| checked.text(numbers::median_count_in_words));
    match (lost, checked) {
        (Some(lost), Some(checked)) if lost.most > 0.0 => {
            parts.push(format!(
                "{} of {checked} acknowledged writes were lost",
                lost.text(numbers::median_count_in_words)
            ));
        }
        (Some(_), Some(checked)) => parts.push(format!("no acknowledged write was lost ({checked} checked)")),
        _ => {}
    }
    let diverged = group.spread(|trial| trial.consistency.diverged_keys.map(|count| count as f64));
    if let Some(diverged) = diverged.filter(|diverged| diverged.most > 0.0) {
        parts.push(format!("members differed on {} keys in the end", diverged.text(numbers::median_count_in_words)));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The fault's name and victim: `the fault ‹oops› on ‹n1›`.
pub fn fault(trial: &Trial) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut victims: Vec<String> = Vec::new();
    for fault in trial.faults.iter().filter(|fault| fault.outage.is_some()) {
        let (name, on) = (quoted(&fault.name), quoted(&fault.on));
        if !names.contains(&name) {
            names.push(name);
        }
        if !fault.on.is_empty() && !victims.contains(&on) {
            victims.push(on);
        }
    }
    let on = match victims.as_slice() {
        [one] => format!(" on {one}"),
        _ => String::new(),
    };
    match (names.as_slice(), trial.faults.len()) {
        ([one], 1) => format!("the fault {one}{on}"),
        ([one], times) => format!("the fault {one}{on}, {times} times,"),
        (names, _) => format!("the faults {}{on}", super::listed(names)),
    }
}
