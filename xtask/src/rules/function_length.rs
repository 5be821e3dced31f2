//! Rule: a function fits on a screen. Old offenders stand in the ratchet list.

use super::{Offence, Rule};
use crate::ratchet;
use crate::source::{code_only, functions};
use crate::tree::{File, Tree};

const LIMIT: usize = 70;

pub const KIND: Rule = Rule {
    name: "function_length",
    reason: "a function that does not fit on a screen is read in pieces, and its bugs live between the pieces",
    check,
    canary: &[("crates/load/src/long.rs", LONG)],
};

const LONG: &str = "fn long() {\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n}\n";

fn check(tree: &Tree) -> Vec<Offence> {
    let measured: Vec<_> = tree.rust().flat_map(measure).collect();
    ratchet::judge("function", LIMIT, &measured, tree.text_of(ratchet::PATH))
}

fn measure(file: &File) -> Vec<(String, usize, usize)> {
    let File { path, text } = file;
    functions(&code_only(text)).into_iter().map(|f| (format!("{path}#{}", f.name), f.line, f.length)).collect()
}
