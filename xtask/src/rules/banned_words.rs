//! Rule: no file or folder is named after what it is not. Looks at names only.

use super::{Offence, Rule};
use crate::tree::Tree;

const BANNED: [&str; 7] = ["common", "helper", "helpers", "manager", "misc", "util", "utils"];

pub const KIND: Rule = Rule {
    name: "banned_words",
    reason: "a room called `util` says nothing about what belongs in it, so everything ends up there",
    check,
    canary: &[("crates/load/src/string_utils.rs", "//! x\n")],
};

fn check(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in &tree.files {
        let words = file.path.split(|c: char| !c.is_ascii_alphanumeric());
        for word in words.filter(|word| BANNED.contains(&word.to_ascii_lowercase().as_str())) {
            offences.push(Offence::of(&file.path, format!("`{word}` in its name: call it what it is")));
        }
    }
    offences
}
