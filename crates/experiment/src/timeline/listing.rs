//! The list of trials: their number, their order, and what tells them apart.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{plain, target_name};
use crate::plan::{Plan, TargetKind, Trial};

/// As many trials as are listed one by one.
const LISTED: usize = 12;

pub(super) fn trials(plan: &Plan) -> String {
    let mut text = count(plan);
    text.push('\n');
    text.push_str(&targets(plan));
    if plan.swept.is_empty() && plan.variants.is_empty() {
        return text;
    }
    for path in &plan.swept {
        let _ = writeln!(text, "  sweep    {path} = {}", values(plan, path).join(", "));
    }
    text.push_str(&order(plan));
    text
}

fn count(plan: &Plan) -> String {
    let repeats = plan.trials.iter().map(|trial| trial.repeat).max().unwrap_or(1);
    let trials = if plan.trials.len() == 1 { "1 trial".to_owned() } else { format!("{} trials", plan.trials.len()) };
    let mut factors = Vec::new();
    for path in &plan.swept {
        factors.push(format!("{} of {path}", values(plan, path).len()));
    }
    if !plan.variants.is_empty() {
        factors.push(format!("{} variants", plan.variants.len()));
    }
    if repeats > 1 {
        factors.push(format!("{repeats} repeats"));
    }
    if plan.find.is_some() {
        factors.push("searching from there".to_owned());
    }
    if factors.is_empty() { trials } else { format!("{trials}: {}", factors.join(" × ")) }
}

/// Values of a swept path, in the order of the plan.
fn values(plan: &Plan, path: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for value in plan.trials.iter().filter_map(|trial| trial.point.get(path)) {
        let value = plain(value);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// The target and its parameters: what all trials share once, and per variant what differs.
fn targets(plan: &Plan) -> String {
    let mut text = String::new();
    let Some(first) = plan.trials.first() else { return text };
    let same_target = plan.trials.iter().all(|trial| target_name(&trial.target.kind) == target_name(&first.target.kind));
    if same_target {
        let shared = shared(plan);
        let _ = writeln!(text, "  target   {}{}", target_name(&first.target.kind), brackets(&shared));
    }
    for variant in &plan.variants {
        let of_it = |trial: &&Trial| trial.variant.as_ref() == Some(variant);
        let Some(trial) = plan.trials.iter().find(of_it) else { continue };
        let own = own(plan, trial);
        let name = if same_target { String::new() } else { format!("{} ", target_name(&trial.target.kind)) };
        let width = plan.variants.iter().map(|variant| variant.chars().count()).max().unwrap_or(0);
        let line = format!("  variant  {variant:width$}  {name}{}", pairs(&own));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn with(trial: &Trial) -> BTreeMap<&str, &str> {
    match &trial.target.kind {
        TargetKind::Folder { with, .. } => with.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        TargetKind::Running { .. } | TargetKind::Started { .. } => BTreeMap::new(),
    }
}

/// Parameters that are the same in every trial.
fn shared(plan: &Plan) -> BTreeMap<&str, &str> {
    let mut trials = plan.trials.iter().map(with);
    let mut shared = trials.next().unwrap_or_default();
    for other in trials {
        shared.retain(|name, value| other.get(name) == Some(value));
    }
    shared
}

/// Parameters that a variant's trials share, and that are not the same in every trial.
fn own<'a>(plan: &'a Plan, trial: &'a Trial) -> BTreeMap<&'a str, &'a str> {
    let mut own = with(trial);
    let everywhere = shared(plan);
    own.retain(|name, _| !everywhere.contains_key(name));
    for other in plan.trials.iter().filter(|other| other.variant == trial.variant).map(with) {
        own.retain(|name, value| other.get(name) == Some(value));
    }
    own
}

fn pairs(with: &BTreeMap<&str, &str>) -> String {
    with.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
}

fn brackets(with: &BTreeMap<&str, &str>) -> String {
    if with.is_empty() { String::new() } else { format!(" ({})", pairs(with)) }
}

/// The order in which trials run: all of a few, the beginning of many.
fn order(plan: &Plan) -> String {
    let mut text = String::new();
    let shown = if plan.trials.len() > LISTED { LISTED - 3 } else { plan.trials.len() };
    let repeats = plan.trials.iter().any(|trial| trial.repeat > 1);
    let width = plan.variants.iter().map(|variant| variant.chars().count()).max().unwrap_or(0);
    for (index, trial) in plan.trials.iter().take(shown).enumerate() {
        let mut words = Vec::new();
        if let Some(variant) = &trial.variant {
            words.push(format!("{variant:width$}"));
        }
        words.extend(plan.swept.iter().filter_map(|path| Some(format!("{path} = {}", plain(trial.point.get(path)?)))));
        if repeats {
            words.push(format!("repeat {}", trial.repeat));
        }
        let head = if index == 0 { "order" } else { "" };
        let line = format!("  {head:<8} {}  {}", trial.id, words.join("  "));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if shown < plan.trials.len() {
        let _ = writeln!(text, "           … and so on to {}", plan.trials.last().map_or("", |trial| &trial.id));
    }
    text
}

/// `001–004, 007`
pub(super) fn runs(ids: &[&str]) -> String {
    let numbers: Vec<usize> = ids.iter().filter_map(|id| id.parse().ok()).collect();
    let mut runs: Vec<String> = Vec::new();
    let mut start = 0;
    for index in 0..numbers.len() {
        if numbers.get(index + 1) == Some(&(numbers[index] + 1)) {
            continue;
        }
        let (first, last) = (ids[start], ids[index]);
        runs.push(if first == last { first.to_owned() } else { format!("{first}–{last}") });
        start = index + 1;
    }
    crate::nearest::listed(&runs, "and")
}
