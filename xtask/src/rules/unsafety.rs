//! Rule: `unsafe` lives in two folders.

use super::{Offence, Rule};
use crate::source::{code_only, words};
use crate::tree::Tree;

const HOMES: [&str; 2] = ["crates/lab/src/linux", "crates/load/src/ring"];

pub const KIND: Rule = Rule {
    name: "unsafety",
    reason: "unsafe code is reviewed as a whole, and has two places: crates/lab/src/linux for system calls without a safe form, crates/load/src/ring for memory shared with the kernel",
    check,
    canary: &[("crates/load/src/lib.rs", "//! x\nfn f() { unsafe { g() } }\n")],
};

fn check(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in tree.rust().filter(|file| !HOMES.iter().any(|home| file.path.starts_with(home))) {
        let code = code_only(&file.text);
        offences.extend(
            words(&code, "unsafe")
                .map(|(_, line)| Offence::at(&file.path, line, format!("`unsafe` outside {}", HOMES.join(" and ")))),
        );
    }
    offences
}
