//! `[[require]]` and `[[claim]]`, and the limits of a search: what is asked of the results. They are checked against the names that the
//! trials use; nothing is measured here.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::catalog::Catalog;
use crate::nearest;
use crate::overlay::Sweep;
use crate::plan::{Claim, Range, Requirement, metric};
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::{Entry, Node, Place};

/// What metrics and filters may name.
pub(super) struct Names<'a> {
    pub catalog: &'a Catalog,
    pub variants: Vec<&'a str>,
    pub sweeps: &'a [Sweep],
    /// Of all trials; `None` if `--set` gave them: what the file asks of its own faults stays right then.
    pub faults: Option<Vec<String>>,
    /// Names of the operations of all trials; `None` as with faults.
    pub operations: Option<Vec<String>>,
}

pub(super) fn requirements(root: &Section<'_>, names: &Names<'_>, problems: &mut Vec<Problem>) -> Vec<Requirement> {
    let read = |section: &Section<'_>| Requirement {
        metric: metric(section, names, problems),
        range: range(section, section.place("metric"), problems),
        filter: filter(section, names, problems),
    };
    root.sections("require").iter().map(read).collect()
}

pub(super) fn claims(root: &Section<'_>, names: &Names<'_>, problems: &mut Vec<Problem>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for section in root.sections("claim") {
        claims.push(Claim {
            says: section.text("says").unwrap_or_default().to_owned(),
            source: section.text("source").unwrap_or_default().to_owned(),
            metric: metric(&section, names, problems),
            range: section.section("holds").map(|holds| range(&holds, holds.place, problems)).unwrap_or_default(),
            filter: filter(&section, names, problems),
        });
    }
    claims
}

/// The limits of a search: as gates, but of every trial.
pub(super) fn limits(sections: &[Section<'_>], names: &Names<'_>, problems: &mut Vec<Problem>) -> Vec<Requirement> {
    let limit = |part: &Section<'_>| Requirement {
        metric: metric(part, names, problems),
        range: range(part, part.place("metric"), problems),
        filter: BTreeMap::new(),
    };
    sections.iter().map(limit).collect()
}

fn metric(section: &Section<'_>, names: &Names<'_>, problems: &mut Vec<Problem>) -> String {
    let Some(node) = section.node("metric") else { return String::new() };
    let Some(text) = node.text() else { return String::new() };
    problems.extend(metric::check(text, node, names));
    text.to_owned()
}

/// Reads the bounds; `place` is where to say that there are none, or that nothing fits them.
fn range(section: &Section<'_>, place: &Place, problems: &mut Vec<Problem>) -> Range {
    let range = Range {
        below: section.number("below"),
        above: section.number("above"),
        at_most: section.number("at_most"),
        at_least: section.number("at_least"),
        equals: section.number("equals"),
    };
    const KEYS: [&str; 5] = ["below", "above", "at_most", "at_least", "equals"];
    if !KEYS.iter().any(|key| section.has(key)) {
        problems.push(
            Problem::absent(place, "nothing says which values are right")
                .expected("no range")
                .hint("add `below`, `above`, `at_most`, `at_least` or `equals`"),
        );
    } else if is_empty(&range) {
        let key = KEYS.iter().rev().find(|key| section.has(key)).unwrap_or(&"below");
        let problem = Problem::new(section.place(key), "no value satisfies this range");
        problems.push(problem.expected("contradicts the other bounds").hint("all bounds that are given must hold"));
    }
    range
}

fn is_empty(range: &Range) -> bool {
    if let Some(equals) = range.equals {
        return !range.holds(equals);
    }
    let low = range.above.into_iter().chain(range.at_least).fold(f64::NEG_INFINITY, f64::max);
    let high = range.below.into_iter().chain(range.at_most).fold(f64::INFINITY, f64::min);
    low > high || (low >= high && !range.holds(low))
}

/// `where`: a variant, and values of swept paths.
fn filter(section: &Section<'_>, names: &Names<'_>, problems: &mut Vec<Problem>) -> BTreeMap<String, Json> {
    let mut filter = BTreeMap::new();
    for entry in section.entries("where") {
        problems.extend(if entry.key == "variant" { variant(&entry, names) } else { swept(&entry.key, &entry, names) });
        filter.insert(entry.key, entry.node.json());
    }
    filter
}

fn variant(entry: &Entry, names: &Names<'_>) -> Option<Problem> {
    let text = entry.node.text()?;
    if names.variants.contains(&text) {
        return None;
    }
    let hint = nearest::hint(text, names.variants.iter().copied())
        .unwrap_or_else(|| "this file has no [[variant]]".to_owned());
    let problem = Problem::absent(&entry.node.place, format!("there is no variant \"{text}\""));
    Some(problem.expected("unknown variant").hint(hint))
}

fn swept(path: &str, entry: &Entry, names: &Names<'_>) -> Option<Problem> {
    let Some(sweep) = names.sweeps.iter().find(|sweep| sweep.path == path) else {
        let known = names.sweeps.iter().map(|sweep| sweep.path.as_str()).chain(["variant"]);
        let problem =
            Problem::absent(&entry.key_place, format!("`{path}` is not swept")).expected("the same in all trials");
        return Some(problem.maybe(nearest::hint(path, known)));
    };
    let json = entry.node.json();
    // What the file asks of its own values stays right when `--set` gives others.
    if sweep.listed.iter().any(|node| node.place.rank > 0) {
        return None;
    }
    let same = |node: &Node| node.json() == json || (node.number().is_some() && node.number() == entry.node.number());
    if sweep.listed.iter().chain(&sweep.values).any(same) {
        return None;
    }
    let values: Vec<String> = sweep.listed.iter().map(|node| node.json().to_string()).collect();
    Some(
        Problem::absent(&entry.node.place, format!("`{path}` is never {json}"))
            .expected("not in its sweep")
            .related(&sweep.path_place, "swept here")
            .hint(format!("it is {}", nearest::listed(&values, "or"))),
    )
}
