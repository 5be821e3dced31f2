//! The page of the rules of the verdict, from the analysis.

use std::fmt::Write as _;

use analysis::{Rule, Threshold};

use super::{Page, cell, sentence};

pub const KIND: Page = Page { name: "verdicts", text };

fn text() -> String {
    let mut page = String::from(
        "# Verdicts\n\nThe rules that are held against every trial. One that speaks against it makes it `suspect` or `void` and \
         gives a reason. How they make a verdict is told in [verdict](../verdict.md).\n\n\
         | rule | looks at | suspect | void |\n|---|---|---|---|\n",
    );
    for rule in analysis::rules() {
        let (suspect, void) = bounds(rule);
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| [`{0}`](#{0}) | {1} | {suspect} | {void} |", rule.name, cell(rule.looks_at));
    }
    for rule in analysis::rules() {
        let (why, remedy) = (rule.why, sentence(rule.remedy));
        let _ = write!(page, "\n## `{}`\n\n{why}\n\n*What to do:* {remedy}\n", rule.name);
    }
    page
}

/// From where on it is suspect, and void.
fn bounds(rule: &Rule) -> (String, String) {
    let (word, suspect, void) = match rule.threshold {
        Threshold::From { suspect, void } => ("from", suspect, void),
        Threshold::Under { suspect, void } => ("below", suspect, void),
    };
    let bound = |at: f64| match rule.unit {
        _ if at.is_infinite() => String::new(),
        "" => "if so".to_owned(),
        unit => format!("{word} {at} {unit}"),
    };
    if suspect == void { (String::new(), bound(void)) } else { (bound(suspect), bound(void)) }
}
