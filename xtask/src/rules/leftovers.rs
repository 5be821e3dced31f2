//! Rule: nothing is left for later in the text of a file, and nothing names a path that only one machine has.

use super::{Offence, Rule};
use crate::source::words;
use crate::tree::Tree;

/// Spelled in two parts, so that this file is not its own first offender.
const PROMISES: [&str; 4] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];
const MACROS: [&str; 2] = [concat!("to", "do!"), concat!("unimple", "mented!")];
const PLACES: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

pub const KIND: Rule = Rule {
    name: "leftovers",
    reason: "a promise in a comment is kept by nobody (open an issue), and a path of one machine fails on the next",
    check,
    canary: &[("crates/load/src/lib.rs", concat!("//! x\n// TO", "DO: later\n"))],
};

fn check(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in &tree.files {
        for promise in PROMISES {
            let found = words(&file.text, promise);
            offences.extend(found.map(|(_, line)| Offence::at(&file.path, line, format!("`{promise}`"))));
        }
        for (index, line) in file.text.lines().enumerate() {
            for banned in MACROS.iter().chain(&PLACES).filter(|banned| line.contains(**banned)) {
                offences.push(Offence::at(&file.path, index + 1, format!("`{banned}`")));
            }
        }
    }
    offences
}
