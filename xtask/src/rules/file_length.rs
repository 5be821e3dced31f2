//! Rule: a source file is at most 1,000 lines. Old offenders stand in the ratchet list.

use super::{Offence, Rule};
use crate::ratchet;
use crate::tree::Tree;

const LIMIT: usize = 1_000;
const CODE: [&str; 6] = ["css", "erl", "hrl", "js", "py", "rs"];

pub const KIND: Rule = Rule {
    name: "file_length",
    reason: "a file of more than 1,000 lines has more than one subject: find the seam and give each part its own state",
    check,
    canary: &[("crates/load/src/long.rs", LONG)],
};

/// 1,001 lines.
const LONG: &str = {
    const LINES: [u8; 1_001] = [b'\n'; 1_001];
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
