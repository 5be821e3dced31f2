//! Rule: every crate of the workspace has its place in the table of import directions, and every row there its crate.

use super::imports::ALLOWED;
use super::{Offence, Rule};
use crate::tree::Tree;

pub const KIND: Rule = Rule {
    name: "crate_table",
    reason: "a crate that the table of import directions does not know is a crate whose place nobody has thought about",
    check,
    // The canary is a crate, not a file: see the tests.
    canary: &[],
};

fn check(tree: &Tree) -> Vec<Offence> {
    let unknown = tree.crates.iter().filter(|name| !ALLOWED.iter().any(|(known, _)| known == name));
    let gone =
        ALLOWED.iter().filter(|(known, _)| !tree.crates.is_empty() && !tree.crates.iter().any(|name| name == known));
    let table = "xtask/src/rules/imports.rs";
    unknown
        .map(|name| Offence::of(table, format!("the crate `{name}` is missing in the table")))
        .chain(gone.map(|(known, _)| Offence::of(table, format!("there is no crate `{known}` any more"))))
        .collect()
}
