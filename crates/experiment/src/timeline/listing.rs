//! The list of trials: their number, their order, and what tells them apart.

use std::fmt::Write as _;

use super::{plain, traits};
use crate::plan::{Plan, Range, Requirement, TargetKind, Trial};

/// As many trials as are listed one by one.
const LISTED: usize = 12;
/// Characters of a line.
const WIDTH: usize = 110;
/// Characters before the words of a line.
const INDENT: usize = 11;

pub(super) fn trials(plan: &Plan) -> String {
    let mut text = count(plan);
    text.push('\n');
    if let Some(first) = plan.trials.first() {
        let shared = shared(&plan.trials.iter().collect::<Vec<_>>());
        text.push_str(&wrapped("target", &format!("{}{}", target_name(first, plan), brackets(&shared))));
    }
    for variant in &plan.variants {
        text.push_str(&wrapped("variant", &format!("{variant}: {}", own(plan, variant))));
    }
    for path in &plan.swept {
        text.push_str(&wrapped("sweep", &format!("{path} = {}", values(plan, path).join(", "))));
    }
    if let Some(find) = &plan.find {
        let limits: Vec<String> = find.limits.iter().map(limit).collect();
        let surviving =
            if find.surviving.is_empty() { String::new() } else { format!("; {}", find.surviving.join(", ")) };
        text.push_str(&wrapped("find", &format!("highest {} while {}{surviving}", find.highest, limits.join(", "))));
    }
    text.push_str(&asked(plan));
    if plan.trials.len() > 1 {
        text.push_str(&order(plan));
    }
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
    let search = if plan.find.is_some() { " to begin a search with" } else { "" };
    if factors.is_empty() { format!("{trials}{search}") } else { format!("{trials}{search}: {}", factors.join(" × ")) }
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

/// The target of all trials, or that it depends on the variant.
fn target_name<'a>(first: &'a Trial, plan: &Plan) -> &'a str {
    let same = plan.trials.iter().all(|trial| name(trial) == name(first));
    if same { name(first) } else { "by variant" }
}

fn name(trial: &Trial) -> &str {
    match &trial.target.kind {
        TargetKind::Folder { name, .. } => name,
        TargetKind::Running { url } | TargetKind::Started { url, .. } => url,
    }
}

/// The target's parameters, `name = value`.
fn parameters(trial: &Trial) -> Vec<String> {
    let pair = |(name, value): (&String, &String)| {
        if value.is_empty() { format!("{name} = \"\"") } else { format!("{name} = {value}") }
    };
    match &trial.target.kind {
        TargetKind::Folder { with, .. } => with.iter().map(pair).collect(),
        TargetKind::Running { .. } | TargetKind::Started { .. } => Vec::new(),
    }
}

/// Parameters that are the same in all of these trials.
fn shared(trials: &[&Trial]) -> Vec<String> {
    common(trials.iter().map(|trial| parameters(trial)))
}

/// What every one of the lists contains.
fn common(mut lists: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let mut common = lists.next().unwrap_or_default();
    for other in lists {
        common.retain(|item| other.contains(item));
    }
    common
}

/// What a variant's trials have in common, and not with all the others: target, parameters, lab, clients.
fn own(plan: &Plan, variant: &str) -> String {
    let facts = |trial: &Trial| {
        let mut facts = vec![name(trial).to_owned()];
        facts.extend(parameters(trial));
        facts.extend(traits::parts(trial).into_iter().filter(|part| !part.is_empty()));
        facts
    };
    let everywhere = common(plan.trials.iter().map(facts));
    let of_it = plan.trials.iter().filter(|trial| trial.variant.as_deref() == Some(variant));
    let mut own = common(of_it.map(facts));
    own.retain(|fact| !everywhere.contains(fact));
    if own.is_empty() { "as the file says".to_owned() } else { own.join(", ") }
}

fn brackets(words: &[String]) -> String {
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

/// How many gates and claims the results are held against.
fn asked(plan: &Plan) -> String {
    let counted = |count: usize, one: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{count} {one}s")),
    };
    let gates: Vec<String> = plan.requirements.iter().map(limit).collect();
    let claims =
        counted(plan.claims.len(), "claim").map(|claims| wrapped("claims", &format!("{claims} of the source")));
    let gates = if gates.is_empty() { String::new() } else { wrapped("gates", &gates.join(", ")) };
    gates + &claims.unwrap_or_default()
}

fn limit(requirement: &Requirement) -> String {
    format!("{} {}", requirement.metric, bounds(&requirement.range))
}

fn bounds(range: &Range) -> String {
    let bounds =
        [("<", range.below), (">", range.above), ("≤", range.at_most), ("≥", range.at_least), ("=", range.equals)];
    let bounds = bounds.iter().filter_map(|(sign, bound)| bound.map(|bound| format!("{sign} {bound}")));
    bounds.collect::<Vec<_>>().join(" and ")
}

/// The order in which trials run: all of a few, the beginning of many.
fn order(plan: &Plan) -> String {
    let mut text = String::new();
    let shown = if plan.trials.len() > LISTED { LISTED - 3 } else { plan.trials.len() };
    let repeats = plan.trials.iter().any(|trial| trial.repeat > 1);
    let rows: Vec<Vec<String>> = plan.trials.iter().take(shown).map(|trial| row(plan, trial, repeats)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    for (index, row) in rows.iter().enumerate() {
        let head = if index == 0 { "order" } else { "" };
        let cells: Vec<String> =
            row.iter().enumerate().map(|(column, cell)| format!("{cell:0$}", width(column))).collect();
        // Writing into a String does not fail.
        let _ = writeln!(text, "{}", format!("  {head:<8} {}", cells.join("  ")).trim_end());
    }
    if shown < plan.trials.len() {
        let _ = writeln!(text, "           … and so on to {}", plan.trials.last().map_or("", |trial| &trial.id));
    }
    text
}

fn row(plan: &Plan, trial: &Trial, repeats: bool) -> Vec<String> {
    let mut row = vec![trial.id.clone()];
    row.extend(trial.variant.clone());
    row.extend(plan.swept.iter().filter_map(|path| Some(format!("{path} = {}", plain(trial.point.get(path)?)))));
    row.extend(repeats.then(|| format!("repeat {}", trial.repeat)));
    row
}

/// A line under a head, broken at commas where it grows too long.
fn wrapped(head: &str, words: &str) -> String {
    let mut lines = vec![format!("  {head:<8} ")];
    for (index, word) in words.split(", ").enumerate() {
        let fits = lines.last().is_some_and(|line| line.chars().count() + word.chars().count() + 2 <= WIDTH);
        if index > 0 {
            if let Some(line) = lines.last_mut() {
                line.push_str(if fits { ", " } else { "," });
            }
            if !fits {
                lines.push(" ".repeat(INDENT));
            }
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
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
