//! `[sweep]`: which paths, and which values each takes.

use super::sets::Set;
use super::{TRIAL_SECTIONS, Variant};
use crate::keys::experiment::EXPERIMENT;
use crate::nearest;
use crate::path::{self, Step};
use crate::problem::Problem;
use crate::tree::{Entry, Node, Place, Table};

/// One line of `[sweep]`.
pub(crate) struct Sweep {
    /// As written.
    pub path: String,
    pub path_place: Place,
    /// What it takes in this run; a single one if `--set` gave it.
    pub values: Vec<Node>,
    /// What the file lists.
    pub listed: Vec<Node>,
}

impl Sweep {
    /// The way of its path through the tree of a trial.
    pub fn way(&self, tree: &Table, problems: &mut Vec<Problem>) -> Option<Vec<Step>> {
        match path::resolve(&self.path, EXPERIMENT, tree) {
            Ok(steps) => Some(steps),
            Err(lost) => {
                let problem = Problem::absent(&self.path_place, format!("this path leads nowhere: {}", lost.what));
                problems.push(problem.expected("unknown path").maybe(lost.hint));
                None
            }
        }
    }
}

/// Reads `[sweep]`. A `--set` of a swept path collapses that sweep to its one value.
pub(super) fn read(base: &Table, sets: &[Set], problems: &mut Vec<Problem>) -> Vec<Sweep> {
    let entries = base.table("sweep").map(Table::flattened).unwrap_or_default();
    let sweep = |entry: Entry| {
        let values = entry.node.list()?.to_vec();
        Some(Sweep { path: entry.key, path_place: entry.key_place, listed: values.clone(), values })
    };
    let mut sweeps: Vec<Sweep> = entries.into_iter().filter_map(sweep).collect();
    sweeps.retain(|sweep| is_in_a_trial(sweep, problems));
    sweeps.retain(|sweep| {
        check_values(sweep, problems);
        // Without this path the trials are still there to be checked.
        !sweep.values.is_empty()
    });
    for sweep in &mut sweeps {
        let steps = path::resolve(&sweep.path, EXPERIMENT, base).ok();
        for set in sets.iter().filter(|set| set.path == sweep.path || Some(&set.steps) == steps.as_ref()) {
            sweep.values = vec![set.value.clone()];
        }
    }
    sweeps
}

fn is_in_a_trial(sweep: &Sweep, problems: &mut Vec<Problem>) -> bool {
    let root = sweep.path.split('.').next().unwrap_or_default();
    if TRIAL_SECTIONS.contains(&root) {
        return true;
    }
    let mut problem = Problem::new(&sweep.path_place, format!("`{}` cannot be swept", sweep.path))
        .expected("a path inside a trial")
        .maybe(nearest::hint(root, TRIAL_SECTIONS));
    if root == "repeat" {
        problem = problem.hint("`repeat = 3` at the top of the file repeats every point");
    }
    problems.push(problem);
    false
}

fn check_values(sweep: &Sweep, problems: &mut Vec<Problem>) {
    if sweep.values.is_empty() {
        problems.push(
            Problem::new(&sweep.path_place, format!("the sweep of `{}` has no values", sweep.path))
                .expected("an empty list")
                .hint("without values there are no trials: list at least one, or remove the line"),
        );
    }
    // Curves, and the names of points, are over numbers.
    let other = sweep.values.iter().find(|value| sweep.path == "load.rate" && value.number().is_none());
    if let Some(value) = other {
        problems.push(
            Problem::new(&value.place, "`load.rate` is swept over plain numbers")
                .expected("no number of operations/s")
                .hint(
                    "sweep `load.rate.poisson` for starts at random; put stages and recorded schedules into variants",
                ),
        );
    }
    let json: Vec<_> = sweep.values.iter().map(Node::json).collect();
    for (index, value) in json.iter().enumerate() {
        if let Some(first) = json[..index].iter().position(|other| other == value) {
            problems.push(
                Problem::new(&sweep.values[index].place, format!("`{}` is swept over {value} twice", sweep.path))
                    .expected("again")
                    .related(&sweep.values[first].place, "first here")
                    .hint("`repeat = 2` at the top of the file runs every point twice"),
            );
        }
    }
}

/// A variant and a sweep that set the same path: neither can be meant to win.
pub(super) fn against_variants(sweeps: &[Sweep], variants: &[Variant], problems: &mut Vec<Problem>) {
    for sweep in sweeps {
        for variant in variants {
            let node = path::resolve(&sweep.path, EXPERIMENT, &variant.overlay)
                .ok()
                .and_then(|steps| path::get(&variant.overlay, &steps));
            if let Some(node) = node {
                problems.push(
                    Problem::new(
                        &node.place,
                        format!("the variant \"{}\" sets `{}`, which is swept", variant.name, sweep.path),
                    )
                    .expected("set here")
                    .related(&sweep.path_place, "swept here")
                    .hint("remove one of the two, or write the values as variants only"),
                );
            }
        }
    }
}
