//! What can be wrong with `[find]`. It must not read it.

use super::{AGENTS, NOTHING_LOST, ONE_MEMBER_DOWN, RATE, members};
use crate::catalog::Catalog;
use crate::nearest;
use crate::plan::When;
use crate::plan::gates::Names;
use crate::plan::trial::Parts;
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::Place;

/// Finest interval that is searched for, percent: values have three digits, and trials of one value differ by as much.
const PRECISION_MIN_PCT: f64 = 1.0;
const PRECISION_MAX_PCT: f64 = 100.0;

/// What does not go with a search.
pub(super) fn alone(root: &Section<'_>, section: &Section<'_>, names: &Names<'_>, problems: &mut Vec<Problem>) {
    if let Some(sweep) = names.sweeps.first() {
        problems.push(
            Problem::new(section.place, "[find] and [sweep] exclude each other")
                .expected("searches for a value")
                .related(&sweep.path_place, "goes through given values")
                .hint("variants go with both"),
        );
    }
    if root.whole::<u32>("repeat").is_some_and(|repeat| repeat > 1) {
        problems.push(
            Problem::new(root.place("repeat"), "[find] and `repeat` exclude each other")
                .expected("given for all trials")
                .related(section.place, "plays each value as often as it has to")
                .hint("remove `repeat`"),
        );
    }
}

/// The path: one of two, and with a value to begin with.
pub(super) fn raised(section: &Section<'_>, highest: &str, parts: &[Option<Parts>], problems: &mut Vec<Problem>) {
    let Some(place) = section.node("highest").map(|node| &node.place) else { return };
    if ![RATE, AGENTS].contains(&highest) {
        let problem = Problem::new(place, format!("`{highest}` cannot be searched"))
            .expected("neither `load.rate` nor `load.agents`")
            .hint("a search raises one of these two; values of other paths are compared by [sweep]");
        problems.push(problem);
        return;
    }
    let parts: Vec<&Parts> = parts.iter().flatten().collect();
    if !parts.is_empty() && parts.iter().any(|parts| parts.load.is_none()) {
        let problem = Problem::absent(place, "a search needs a load").expected("there is no [load]");
        problems.push(problem.hint("add [load] with `agents`, `time` and a [[load.cycle]]"));
        return;
    }
    if highest != RATE {
        return;
    }
    let loads = || parts.iter().filter_map(|parts| parts.load.as_ref());
    if !section.has("from") && loads().any(|load| load.rate.is_none()) {
        let problem = Problem::absent(place, "nothing says with which rate to begin");
        problems
            .push(problem.expected("no first value").hint("add `from = …` here, in operations/s, or `rate` to [load]"));
    }
    if loads().any(|load| load.rate.as_ref().is_some_and(|rate| rate.constant().is_none())) {
        let problem = Problem::new(place, "a search raises a plain rate");
        problems.push(problem.expected("`rate` in [load] is no plain number").hint(
            "write `rate = 1000` in [load], the first value tried; starts at random, in stages or as recorded are compared by variants",
        ));
    }
    if loads().any(|load| load.backlog.is_some()) {
        let problem = Problem::new(place, "`backlog` and a searched rate exclude each other");
        problems.push(
            problem
                .expected(
                    "a trial that drops operations is void, and says neither that the limits hold nor that they break",
                )
                .hint("remove `backlog` from [load]: what the target cannot keep up with then shows as latency"),
        );
    }
    if loads().any(|load| load.think_s > 0.0) {
        let problem = Problem::new(place, "`think` and a searched rate exclude each other");
        problems.push(problem.expected("operations start on a schedule").hint("remove `think` from [load]"));
    }
}

/// The numbers.
pub(super) fn bounds(section: &Section<'_>, whole: bool, parts: &[Option<Parts>], problems: &mut Vec<Problem>) {
    for key in ["from", "up_to"] {
        let Some(value) = section.number(key).filter(|value| *value > 0.0) else { continue };
        if whole && (value.fract() != 0.0 || value > f64::from(u32::MAX)) {
            let problem = Problem::new(section.place(key), "agents are whole");
            problems.push(problem.expected("a whole number of agents, 1 or more"));
        }
    }
    if let Some(up_to) = section.number("up_to") {
        let own = |parts: &Parts| {
            let load = parts.load.as_ref()?;
            if whole { Some(f64::from(load.agents)) } else { Some(load.rate.as_ref()?.constant()? / parts.lab.speed) }
        };
        let first = section.number("from").or_else(|| parts.iter().flatten().find_map(own));
        if first.is_some_and(|first| first > up_to) {
            let problem = Problem::new(section.place("up_to"), "the search would begin above its bound");
            let from = if section.has("from") { "the first value" } else { "the first value is that of [load]" };
            problems.push(problem.expected("below the first value").related(section.place("from"), from));
        }
    }
    if let Some(pct) = section.number("precision_pct")
        && pct > 0.0
        && !(PRECISION_MIN_PCT..=PRECISION_MAX_PCT).contains(&pct)
    {
        let problem = Problem::new(section.place("precision_pct"), "no search is that fine or that coarse");
        let range = format!("from {PRECISION_MIN_PCT} to {PRECISION_MAX_PCT}");
        problems.push(problem.expected(range).hint("trials of the same load differ by a few percent themselves"));
    }
}

/// The conditions, in every variant.
pub(super) fn conditions(
    given: &[(&str, &Place)],
    parts: &[Option<Parts>],
    catalog: &Catalog,
    problems: &mut Vec<Problem>,
) {
    for (index, (name, place)) in given.iter().enumerate() {
        if let Some((_, first)) = given[..index].iter().find(|(other, _)| other == name) {
            let problem = Problem::new(place, format!("\"{name}\" is searched twice"));
            problems.push(problem.expected("the second").related(first, "the first"));
            continue;
        }
        // A machine that is alone may stand beside a cluster: that it carries nothing when it is down is an answer.
        let count = |parts: &Parts| members(&parts.lab, &parts.target.kind, catalog).1.len();
        let beside_a_cluster = *name == ONE_MEMBER_DOWN && parts.iter().flatten().any(|parts| count(parts) > 1);
        // What is wrong in one variant need not be said of the next.
        let mut asked = parts.iter().flatten().filter(|parts| !(beside_a_cluster && count(parts) == 1));
        problems.extend(asked.find_map(|parts| condition(name, place, parts, catalog)));
    }
}

fn condition(name: &str, place: &Place, parts: &Parts, catalog: &Catalog) -> Option<Problem> {
    match name {
        NOTHING_LOST => None,
        ONE_MEMBER_DOWN => {
            let count = members(&parts.lab, &parts.target.kind, catalog).1.len();
            let what = match count {
                0 => "there are no hosts of ours here, so no member can be down".to_owned(),
                1 => "there is one member, and nothing is left when it is down".to_owned(),
                _ => return None,
            };
            let problem = Problem::new(place, what).expected("needs two members at least");
            Some(problem.hint("add [lab] with `hosts = 2` or more, or name a [[fault]] instead"))
        }
        name => {
            let names = parts.faults.iter().map(|fault| fault.name.as_str());
            let Some(fault) = parts.faults.iter().find(|fault| fault.name == name) else {
                let known = [NOTHING_LOST, ONE_MEMBER_DOWN].into_iter().chain(names);
                let problem = Problem::absent(place, format!("there is no fault called \"{name}\""));
                return Some(problem.expected("unknown condition").maybe(nearest::hint(name, known)));
            };
            let When::After { fault: other, .. } = &fault.when else { return None };
            let problem = Problem::new(place, format!("`{name}` follows `{other}`, which is not played then"));
            let hint = "leave `surviving` out to have all faults as written, or give this one an `at`";
            Some(problem.expected("only this fault is played").hint(hint))
        }
    }
}
