//! Rule: a source file is at most 400 lines. Old offenders stand in the ratchet list.

use super::{Offence, Rule};
use crate::ratchet;
use crate::tree::Tree;

const LIMIT: usize = 400;
const CODE: [&str; 6] = ["css", "erl", "hrl", "js", "py", "rs"];

pub const KIND: Rule = Rule {
    name: "file_length",
    reason: "a file of more than 400 lines has more than one thing to say: find the seam and make two rooms",
    check,
    canary: &[("crates/load/src/long.rs", LONG)],
};

/// 401 lines.
const LONG: &str = {
    const LINES: [u8; 401] = [b'\n'; 401];
    match str::from_utf8(&LINES) {
        Ok(text) => text,
        Err(_) => "",
    }
};

fn check(tree: &Tree) -> Vec<Offence> {
    let code = tree.files.iter().filter(|file| CODE.contains(&file.extension()));
    let measured: Vec<_> = code.map(|file| (file.path.clone(), 1, file.text.lines().count())).collect();
    ratchet::judge("file", LIMIT, &measured, tree.text_of(ratchet::PATH))
}
