//! The Plimsoll line in words: what is carried under each condition, how sure that is, and what breaks beyond. It must not
//! call a limit of the generator or of the search one of the target.

use record::results::SafeLoad;

use super::{capital, listed, quoted, stopped};
use crate::numbers;
use crate::tables::nowhere;

/// A sentence for each variant.
pub fn findings(lines: &[SafeLoad]) -> Vec<String> {
    let mut variants: Vec<&Option<String>> = Vec::new();
    for line in lines {
        if !variants.contains(&&line.variant) {
            variants.push(&line.variant);
        }
    }
    let of = |variant: &Option<String>| lines.iter().filter(|line| line.variant == *variant).collect::<Vec<_>>();
    variants.into_iter().map(|variant| finding(variant.as_deref(), &of(variant))).collect()
}

fn finding(variant: Option<&str>, lines: &[&SafeLoad]) -> String {
    let who = variant.map_or_else(|| "it".to_owned(), quoted);
    let carried: Vec<String> = lines.iter().map(|line| format!("{} {}", carried(line), condition(line))).collect();
    let mut limits: Vec<String> = Vec::new();
    for limit in lines.iter().filter(|line| met(line)).map(|line| quoted(&line.limited_by)) {
        if !limits.contains(&limit) {
            limits.push(limit);
        }
    }
    let place = if lines.iter().all(|line| nowhere(line).is_some()) { "there" } else { "beyond it" };
    let beyond = match limits.as_slice() {
        [] => String::new(),
        [only] => format!("; {place} {only} breaks"),
        _ => format!("; {place} {} break", listed(&limits)),
    };
    let mut text = stopped(&capital(&format!("{who} carries {}{beyond}", listed(&carried))));
    // What kept a search from an edge is a sentence of its own: it may be long.
    for line in lines.iter().filter(|line| !met(line) && !line.limited_by.is_empty()) {
        let what = line.limited_by.trim_start_matches("the search: ");
        let what = match line.limited_by.strip_prefix("the generator: ") {
            Some(reason) => format!("the generator could not make more: {reason}"),
            None => format!("no edge was found: {what}"),
        };
        text.push(' ');
        text.push_str(&stopped(&format!("{} {what}", capital(&format!("{},", condition(line))))));
    }
    text
}

/// Whether a limit was met, and nothing else.
fn met(line: &SafeLoad) -> bool {
    !(line.limited_by.is_empty()
        || line.limited_by.starts_with("the generator: ")
        || line.limited_by.starts_with("the search: "))
}

/// `12,300 operations/s (95 % interval 11,900–12,700)`, `at least 16,000 operations/s`.
fn carried(line: &SafeLoad) -> String {
    let unit = if line.over == "load.agents" { "agents" } else { "operations/s" };
    let wide = if line.complete { "" } else { ", wider than asked for" };
    let [low, high] = line.ci95.map(|end| end.map(numbers::number));
    match (line.value.map(numbers::number), low, high) {
        (Some(value), Some(low), Some(high)) if low == high => format!("{value} {unit} (95 % sure)"),
        (Some(value), Some(low), Some(high)) => {
            format!("{value} {unit} (95 % interval {}{wide})", numbers::from_to(&low, &high))
        }
        (Some(value), None, Some(high)) => format!("{value} {unit} (95 % interval up to {high}{wide})"),
        (Some(value), Some(low), None) if low != value => {
            format!("at least {value} {unit} (95 % sure of {low})")
        }
        (Some(value), _, None) => format!("at least {value} {unit}"),
        (None, _, Some(high)) if high == "1" => format!("not even 1 {}", unit.replace("agents", "agent")),
        (None, _, Some(high)) => format!("not even {high} {unit}"),
        (None, ..) => "an unknown load".to_owned(),
    }
}

fn condition(line: &SafeLoad) -> String {
    match line.surviving.as_str() {
        "" => "with its faults".to_owned(),
        "nothing lost" => "healthy".to_owned(),
        "one member down" => "with one member down".to_owned(),
        fault => format!("with the fault {}", quoted(fault)),
    }
}
