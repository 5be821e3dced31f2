//! Rule: only one file of the binary, and this crate, print.

use super::{Offence, Rule};
use crate::source::{code_only, without_inline_tests, words};
use crate::tree::Tree;

/// The one place that what is printed cannot make panic, and a crate that nobody runs in a measurement.
const PRINTERS: [&str; 2] = ["crates/plimsoll/src/output.rs", "xtask/"];
/// Speaks to cargo.
const BUILD: &str = "/build.rs";
const BANNED: [&str; 7] = ["print", "println", "eprint", "eprintln", "dbg", "stdout", "stderr"];

pub const KIND: Rule = Rule {
    name: "printing",
    reason: "a library that prints cannot be silenced, redirected or tested; it returns, and the binary prints. There, `output` does: \
             `eprintln!` panics when the terminal is gone, and a run has to end in order then",
    check,
    canary: &[
        ("crates/load/src/lib.rs", "//! x\nfn f() { println!(\"x\") }\n"),
        ("crates/plimsoll/src/progress.rs", "//! x\nfn f() { eprintln!(\"x\") }\n"),
        ("crates/plimsoll/src/commands/run.rs", "//! x\nfn f() { std::io::stderr(); }\n"),
    ],
};

fn check(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    let may_print = |path: &str| path.ends_with(BUILD) || PRINTERS.iter().any(|printer| path.starts_with(printer));
    for file in tree.rust_without_tests().filter(|file| !may_print(&file.path)) {
        let code = without_inline_tests(&code_only(&file.text));
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
