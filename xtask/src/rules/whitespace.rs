//! Rule: no tabs, nothing after the last word of a line, one newline at the end of a file.

use super::{Offence, Rule};
use crate::tree::{File, Tree};

pub const KIND: Rule = Rule {
    name: "whitespace",
    reason: "what nobody sees should not make a diff",
    check,
    canary: &[("README.md", "x \n"), ("crates/load/src/lib.rs", "//! x\n\tfn f() {}\n"), ("LICENCE.md", "x")],
};

fn check(tree: &Tree) -> Vec<Offence> {
    // A golden file is what a program wrote, to the letter, and perhaps cut off on purpose.
    tree.files.iter().filter(|file| !file.path.contains("/golden/")).flat_map(judge).collect()
}

fn judge(file: &File) -> Vec<Offence> {
    let tabs_mean_something = file.name() == "Makefile" || file.extension() == "mk";
    let mut offences = Vec::new();
    for (index, line) in file.text.split('\n').enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            offences.push(Offence::at(&file.path, index + 1, "whitespace at the end of the line"));
        }
        if !tabs_mean_something && line.contains('\t') {
            offences.push(Offence::at(&file.path, index + 1, "a tab"));
        }
    }
    if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
        offences.push(Offence::of(&file.path, "must end with one newline"));
    }
    offences
}
