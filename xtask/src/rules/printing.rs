//! Rule: only the binary and this crate print.

use super::{Offence, Rule};
use crate::source::{code_only, words};
use crate::tree::Tree;

const PRINTERS: [&str; 2] = ["plimsoll", "xtask"];
const BANNED: [&str; 7] = ["print", "println", "eprint", "eprintln", "dbg", "stdout", "stderr"];

pub const KIND: Rule = Rule {
    name: "printing",
    reason: "a library that prints cannot be silenced, redirected or tested; it returns, and the binary prints",
    check,
    canary: &[("crates/load/src/lib.rs", "//! x\nfn f() { println!(\"x\") }\n")],
};

fn check(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in tree.rust_without_tests().filter(|file| !PRINTERS.contains(&file.owner())) {
        let code = code_only(&file.text);
        for word in BANNED {
            for (at, line) in words(&code, word) {
                let rest = &code[at + word.len()..];
                // `Command::stdout(…)` has arguments, `io::stdout()` has none.
                let prints = if word.starts_with("std") { rest.starts_with("()") } else { rest.starts_with('!') };
                if prints {
                    offences.push(Offence::at(
                        &file.path,
                        line,
                        format!("`{word}` outside {}", PRINTERS.join(" and ")),
                    ));
                }
            }
        }
    }
    offences
}
