//! The comparison for a pull request: short, what matters first. A name out of an experiment must not break the table.

use record::compared::{Compared, Gated, Judged};

use super::{finding, name, outcome};
use crate::numbers;
use crate::words::differing;

/// Surroundings that are listed at most.
const LISTED: usize = 10;
/// Comparisons that are listed at most; those that differ come first.
const SHOWN: usize = 30;

/// All of it, ending in a newline.
#[must_use]
pub fn markdown(compared: &Compared) -> String {
    let mut text = format!("### Plimsoll: {}\n\n", escaped(outcome(compared).trim_end_matches('.')));
    for judged in compared.gated(Gated::Fails) {
        text.push_str(&format!("- **{}**: {}\n", escaped(&name(judged)), escaped(&finding(judged))));
    }
    if compared.gated(Gated::Fails).next().is_some() {
        text.push('\n');
    }
    text.push_str("| figure | before | after | ratio | verdict |\n|---|---:|---:|---:|---|\n");
    let mut ordered: Vec<&Judged> = compared.comparisons.iter().collect();
    ordered.sort_by_key(|judged| !judged.comparison.significant);
    ordered.iter().take(SHOWN).for_each(|judged| text.push_str(&row(judged, compared.sides.len() != 2)));
    if ordered.len() > SHOWN {
        text.push_str(&format!("\n{} more comparisons are not listed.\n", ordered.len() - SHOWN));
    }
    text.push_str(&surroundings(compared));
    if !compared.warnings.is_empty() {
        text.push('\n');
        compared.warnings.iter().for_each(|warning| text.push_str(&format!("> {}\n>\n", escaped(warning))));
    }
    text
}

fn row(judged: &Judged, several: bool) -> String {
    let one = &judged.comparison;
    let write = |value: Option<f64>| numbers::or_none(value, |value| numbers::by_metric(&one.metric, value));
    let (estimate, interval) = differing::estimate(one);
    let estimate = if interval.is_empty() { estimate } else { format!("{estimate} ({interval})") };
    let of = if several { format!("{} against {}: ", one.b, one.a) } else { String::new() };
    let verdict = differing::verdict(one).0.replace('`', "");
    let verdict = if judged.gate == Some(Gated::Fails) { format!("**{verdict}**") } else { verdict };
    let cells = [format!("{of}{}", name(judged)), write(one.a_value), write(one.b_value), estimate];
    format!("| {} | {} |\n", cells.map(|cell| escaped(&cell)).join(" | "), verdict.replace('|', "\\|"))
}

fn surroundings(compared: &Compared) -> String {
    if compared.surroundings.is_empty() {
        return String::new();
    }
    let mut text = "\nNot the same on both sides:\n".to_owned();
    for one in compared.surroundings.iter().take(LISTED) {
        text.push_str(&format!("- {} {}: {} → {}\n", one.of, escaped(&one.field), escaped(&one.a), escaped(&one.b)));
    }
    if compared.surroundings.len() > LISTED {
        text.push_str(&format!("- and {} more\n", compared.surroundings.len() - LISTED));
    }
    text
}

/// Text that Markdown leaves alone, on one line.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '|' | '*' | '`' | '[' | ']' | '<' | '>' | '\\' => escaped.extend(['\\', character]),
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}
