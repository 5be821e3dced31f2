//! Rule: which crate may depend on which. The table below is the flow of the pipeline, read from `cargo metadata`.

use super::{Offence, Rule};
use crate::tree::{Edge, Tree};

pub const KIND: Rule = Rule {
    name: "imports",
    reason: "the run folder is the only way from the live half (load, lab, conduct) to the cold half (analysis, report), and \
             one careless edge ends that",
    check,
    // The canary is made of edges, not of files: see the tests.
    canary: &[],
};

/// Crate to the crates it may depend on. `echo` is a target: it must know nothing of the bench that measures it.
pub const ALLOWED: &[(&str, &[&str])] = &[
    ("analysis", &["experiment", "record"]),
    ("conduct", &["analysis", "experiment", "lab", "load", "record"]),
    ("echo", &[]),
    ("experiment", &[]),
    ("fuzzing", &["experiment", "lab", "load", "record"]),
    ("lab", &["experiment", "record"]),
    ("load", &["experiment", "record"]),
    ("plimsoll", &["analysis", "conduct", "echo", "experiment", "lab", "load", "record", "report"]),
    ("record", &[]),
    ("report", &["experiment", "record"]),
    ("xtask", &["analysis", "experiment", "lab", "load", "record"]),
];

/// Tests may also play against the echo server.
const ALLOWED_IN_TESTS: &[&str] = &["echo"];

fn check(tree: &Tree) -> Vec<Offence> {
    tree.edges.iter().filter(|edge| !allowed(edge)).map(offence).collect()
}

fn allowed(edge: &Edge) -> bool {
    let listed = ALLOWED.iter().find(|(from, _)| *from == edge.from);
    listed.is_some_and(|(_, to)| to.contains(&edge.to.as_str()))
        || (edge.only_tests && ALLOWED_IN_TESTS.contains(&edge.to.as_str()))
}

fn offence(edge: &Edge) -> Offence {
    let folder = if edge.from == "xtask" { String::new() } else { "crates/".to_owned() };
    Offence::of(&format!("{folder}{}/Cargo.toml", edge.from), format!("{} must not depend on {}", edge.from, edge.to))
}
