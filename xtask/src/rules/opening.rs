//! Rule: line 1 of a source file says what the room is for.

use super::{Offence, Rule};
use crate::tree::{File, Tree};

pub const KIND: Rule = Rule {
    name: "opening",
    reason: "who opens a file wants to know first what it is for, not whom it belongs to",
    check,
    canary: &[
        ("crates/load/src/lib.rs", "use std::fmt;\n//! too late\n"),
        ("targets/x/src/x.erl", "-module(x).\n"),
        ("scripts/x.sh", "#!/bin/sh\nset -eu\n"),
    ],
};

fn check(tree: &Tree) -> Vec<Offence> {
    tree.files.iter().filter_map(judge).collect()
}

fn judge(file: &File) -> Option<Offence> {
    let mut lines = file.text.lines();
    let first = lines.next().unwrap_or_default();
    let (found, wanted) = match file.extension() {
        "rs" => (says(first, "//!"), "line 1 must be a `//!` that says what the room is for"),
        "erl" | "hrl" => (says(first, "%"), "line 1 must be a `%%` that says what the room is for"),
        _ if first.starts_with("#!") => {
            let second = lines.next().unwrap_or_default();
            // `#!/usr/bin/env escript` is followed by a `%` comment, every other interpreter here by `#`.
            (
                says(second, "#") || says(second, "%") || says(second, "\"\"\""),
                "line 2 must be a comment that says what it is for",
            )
        }
        _ => return None,
    };
    (!found).then(|| Offence::at(&file.path, 1, wanted))
}

fn says(line: &str, mark: &str) -> bool {
    line.strip_prefix(mark).is_some_and(|rest| rest.chars().any(char::is_alphabetic))
}
