//! Rule: `unsafe` lives in one folder.

use super::{Offence, Rule};
use crate::source::{code_only, words};
use crate::tree::Tree;

const HOME: &str = "crates/lab/src/linux/";

pub const KIND: Rule = Rule {
    name: "unsafety",
    reason: "unsafe code is reviewed as a whole, and a whole has one place: crates/lab/src/linux",
    check,
    canary: &[("crates/load/src/lib.rs", "//! x\nfn f() { unsafe { g() } }\n")],
};

fn check(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in tree.rust().filter(|file| !file.path.starts_with(HOME)) {
        let code = code_only(&file.text);
        offences.extend(
            words(&code, "unsafe").map(|(_, line)| Offence::at(&file.path, line, format!("`unsafe` outside {HOME}"))),
        );
    }
    offences
}
