//! Rules about dependencies between crates: the allowed ones, and that every crate is in the table
//! below. The table is the flow of the pipeline, and is compared with `cargo metadata`.

use crate::rules::{HouseRule, Violation};
use crate::tree::{Edge, Tree};

pub const KIND: HouseRule = HouseRule {
    name: "imports",
    reason: "the run folder is the only way from the live half (load, linux, runner, lab, conduct) to the cold half (analysis, report), and \
             one careless edge ends that",
    check,
    // The canary consists of edges and not of files: see the tests.
    canary: &[],
};

/// Allowed dependencies of each crate. `echo` is a target: it must not depend on the bench that
/// measures it.
pub const ALLOWED: &[(&str, &[&str])] = &[
    ("analysis", &["experiment", "linearizability", "record", "text"]),
    ("conduct", &["analysis", "experiment", "fleet", "lab", "linux", "load", "record"]),
    ("doctor", &["experiment", "lab", "linux", "record", "runner", "text"]),
    ("echo", &[]),
    ("experiment", &["text"]),
    ("fixture", &[]),
    ("fleet", &["experiment", "linux", "load", "record"]),
    ("fuzzing", &["experiment", "fleet", "import", "linearizability", "load", "record", "runner", "wire"]),
    ("import", &["experiment", "text"]),
    ("lab", &["experiment", "linux", "record", "runner", "text", "transport", "wire"]),
    ("linearizability", &[]),
    ("linux", &["experiment", "text"]),
    ("load", &["experiment", "record", "transport", "wire"]),
    (
        "plimsoll",
        &[
            "analysis",
            "conduct",
            "doctor",
            "echo",
            "experiment",
            "fleet",
            "import",
            "lab",
            "linearizability",
            "linux",
            "load",
            "record",
            "report",
            "runner",
            "text",
        ],
    ),
    ("record", &[]),
    ("report", &["analysis", "experiment", "record", "text"]),
    ("runner", &["experiment", "linux", "record", "text"]),
    ("text", &[]),
    ("transport", &["experiment", "wire"]),
    ("wire", &["experiment"]),
    ("xtask", &["text"]),
];

/// Tests may also use the echo server, their shared helpers, and test features of their own crate.
const ALLOWED_IN_TESTS: &[&str] = &["echo", "fixture"];

fn check(tree: &Tree) -> Vec<Violation> {
    tree.edges.iter().filter(|edge| !allowed(edge)).map(offence).collect()
}

fn allowed(edge: &Edge) -> bool {
    let listed = ALLOWED.iter().find(|(from, _)| *from == edge.from);
    listed.is_some_and(|(_, to)| to.contains(&edge.to.as_str()))
        || (edge.only_tests && (ALLOWED_IN_TESTS.contains(&edge.to.as_str()) || edge.to == edge.from))
}

fn offence(edge: &Edge) -> Violation {
    let folder = if edge.from == "xtask" { String::new() } else { "crates/".to_owned() };
    Violation::of(&format!("{folder}{}/Cargo.toml", edge.from), format!("{} must not depend on {}", edge.from, edge.to))
}

pub const CRATE_TABLE: HouseRule = HouseRule {
    name: "crate_table",
    reason: "a crate that the table of import directions does not know is a crate whose place nobody has thought about",
    check: crate_table,
    // The canary is a crate and not a file: see the tests.
    canary: &[],
};

fn crate_table(tree: &Tree) -> Vec<Violation> {
    let unknown = tree.crates.iter().filter(|name| !ALLOWED.iter().any(|(known, _)| known == name));
    let gone =
        ALLOWED.iter().filter(|(known, _)| !tree.crates.is_empty() && !tree.crates.iter().any(|name| name == known));
    let table = "xtask/src/rules/imports.rs";
    unknown
        .map(|name| Violation::of(table, format!("the crate `{name}` is missing in the table")))
        .chain(gone.map(|(known, _)| Violation::of(table, format!("there is no crate `{known}` any more"))))
        .collect()
}
