//! The house rules, each with its reason and a canary that it must catch. Rules with tables are in
//! separate files. A rule reads a [`Tree`] and never the disk, so that tests can check it.

use crate::source::words;
use crate::studies;
use crate::tree::{File, Tree};

mod comments;
mod imports;
mod purity;
mod shelves;
mod type_names;

/// A house rule.
#[derive(Debug)]
pub struct HouseRule {
    /// Printed in brackets after each offence.
    pub name: &'static str,
    /// Printed under each offence, after "because".
    pub reason: &'static str,
    /// Finds every offence.
    pub check: fn(&Tree) -> Vec<Violation>,
    /// Files (path, text) that the rule must complain about: proof that the alarm works.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the tests"))]
    pub canary: &'static [(&'static str, &'static str)],
}

/// Something that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub path: String,
    /// Line, from 1, if the violation is about a line.
    pub line: Option<usize>,
    /// Description of the violation.
    pub what: String,
}

impl Violation {
    /// Makes a violation in one line of a file.
    pub fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), what: what.into() }
    }

    /// Makes a violation of a whole file or folder.
    pub fn of(path: &str, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, what: what.into() }
    }
}

/// Every rule, sorted by name.
pub const KINDS: &[HouseRule] = &[
    BANNED_WORDS,
    comments::KIND,
    imports::CRATE_TABLE,
    FILE_LENGTH,
    imports::KIND,
    LEFTOVERS,
    LINKS,
    OPENING,
    purity::KIND,
    shelves::KIND,
    studies::KIND,
    type_names::KIND,
];

const BANNED_NAMES: [&str; 7] = ["common", "helper", "helpers", "manager", "misc", "util", "utils"];

const BANNED_WORDS: HouseRule = HouseRule {
    name: "banned_words",
    reason: "a room called `util` says nothing about what belongs in it, so everything ends up there",
    check: banned_words,
    canary: &[("crates/load/src/string_utils.rs", "//! x\n")],
};

fn banned_words(tree: &Tree) -> Vec<Violation> {
    let mut offences = Vec::new();
    for file in &tree.files {
        let words = file.path.split(|c: char| !c.is_ascii_alphanumeric());
        for word in words.filter(|word| BANNED_NAMES.contains(&word.to_ascii_lowercase().as_str())) {
            offences.push(Violation::of(&file.path, format!("`{word}` in its name: call it what it is")));
        }
    }
    offences
}

const FILE_LIMIT: usize = 1_000;
const CODE: [&str; 6] = ["css", "erl", "hrl", "js", "py", "rs"];

const FILE_LENGTH: HouseRule = HouseRule {
    name: "file_length",
    reason: "a file of more than 1,000 lines has more than one subject: find the seam and give each part its own state",
    check: file_length,
    canary: &[("crates/load/src/long.rs", LONG_FILE)],
};

/// Text of 1,001 lines.
const LONG_FILE: &str = {
    const LINES: [u8; 1_001] = [b'\n'; 1_001];
    match str::from_utf8(&LINES) {
        Ok(text) => text,
        Err(_) => "",
    }
};

fn file_length(tree: &Tree) -> Vec<Violation> {
    let code = tree.files.iter().filter(|file| CODE.contains(&file.extension()));
    code.filter_map(|file| {
        let lines = file.text.lines().count();
        (lines > FILE_LIMIT).then(|| Violation::of(&file.path, format!("{lines} lines; at most {FILE_LIMIT}")))
    })
    .collect()
}

/// Each word is spelled in two parts, so that this file does not break the rule itself.
const PROMISES: [&str; 4] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];
const PLACES: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

const LEFTOVERS: HouseRule = HouseRule {
    name: "leftovers",
    reason: "a promise in a comment is kept by nobody (open an issue), and a path of one machine fails on the next",
    check: leftovers,
    canary: &[("crates/load/src/lib.rs", concat!("//! x\n// TO", "DO: later\n"))],
};

fn leftovers(tree: &Tree) -> Vec<Violation> {
    let mut offences = Vec::new();
    for file in &tree.files {
        for promise in PROMISES {
            let found = words(&file.text, promise);
            offences.extend(found.map(|(_, line)| Violation::at(&file.path, line, format!("`{promise}`"))));
        }
        for (index, line) in file.text.lines().enumerate() {
            for banned in PLACES.into_iter().filter(|banned| line.contains(banned)) {
                offences.push(Violation::at(&file.path, index + 1, format!("`{banned}`")));
            }
        }
    }
    offences
}

const LINKS: HouseRule = HouseRule {
    name: "links",
    reason: "a page that sends its reader to a file that is not there costs more trust than it gives help",
    check: links,
    canary: &[("docs/page.md", "see [there](../gone.md)\n")],
};

fn links(tree: &Tree) -> Vec<Violation> {
    tree.files.iter().filter(|file| file.extension() == "md").flat_map(|file| broken(file, tree)).collect()
}

fn broken(file: &File, tree: &Tree) -> Vec<Violation> {
    let mut offences = Vec::new();
    let mut in_code = false;
    for (index, line) in file.text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code || line.starts_with("    ") {
            continue;
        }
        for link in targets(line).filter(|link| !leads_somewhere(file, link, tree)) {
            offences.push(Violation::at(&file.path, index + 1, format!("the link to `{link}` leads nowhere")));
        }
    }
    offences
}

/// Returns the texts between `](` and `)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link))
}

fn leads_somewhere(file: &File, link: &str, tree: &Tree) -> bool {
    let path = link.split('#').next().unwrap_or_default().trim_end_matches('/');
    if path.is_empty() || link.contains("://") || link.starts_with("mailto:") {
        return true;
    }
    let whole = resolve(file.folder(), path);
    tree.has(&whole)
}

fn resolve(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

const OPENING: HouseRule = HouseRule {
    name: "opening",
    reason: "who opens a file wants to know first what it is for, not whom it belongs to",
    check: opening,
    canary: &[
        ("crates/load/src/lib.rs", "use std::fmt;\n//! too late\n"),
        ("targets/x/src/x.erl", "-module(x).\n"),
        ("scripts/x.sh", "#!/bin/sh\nset -eu\n"),
    ],
};

fn opening(tree: &Tree) -> Vec<Violation> {
    tree.files.iter().filter_map(judge_opening).collect()
}

fn judge_opening(file: &File) -> Option<Violation> {
    let mut lines = file.text.lines();
    let first = lines.next().unwrap_or_default();
    let (found, wanted) = match file.extension() {
        "rs" => (says(first, "//!"), "line 1 must be a `//!` that says what the room is for"),
        "erl" | "hrl" => (says(first, "%"), "line 1 must be a `%%` that says what the room is for"),
        _ if first.starts_with("#!") => {
            let second = lines.next().unwrap_or_default();
            // `#!/usr/bin/env escript` is followed by a `%` comment, other interpreters by `#`.
            (
                says(second, "#") || says(second, "%") || says(second, "\"\"\""),
                "line 2 must be a comment that says what it is for",
            )
        }
        _ => return None,
    };
    (!found).then(|| Violation::at(&file.path, 1, wanted))
}

fn says(line: &str, mark: &str) -> bool {
    line.strip_prefix(mark).is_some_and(|rest| rest.chars().any(char::is_alphabetic))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{HouseRule, KINDS};
    use crate::tree::Tree;

    const CLEAN: &[(&str, &str)] = &[
        ("README.md", "See [the table](crates/lab/src/faults.rs#x) and [us](https://example.org).\n"),
        ("crates/lab/src/faults/call.rs", "//! Asks.\npub fn f<'a>(x: &'a str) -> &'a str {\n    x\n}\n"),
        (
            "crates/lab/src/faults/kill.rs",
            "//! Kills: \"unsafe\" in a text is no offence.\nconst X: &str = \"unsafe println!\";\n",
        ),
        (
            "crates/lab/src/faults.rs",
            "//! x\nmod call;\nmod kill;\npub const KINDS: &[K] = &[&call::KIND, &kill::KIND];\n",
        ),
        ("crates/linux/src/pidfd.rs", "//! Home of it.\nfn f() { unsafe { g() } }\n"),
        ("scripts/x.sh", "#!/bin/sh\n# Says what it does.\n"),
        ("targets/x/src/x.erl", "%% What it is.\n-module(x).\n"),
    ];

    fn rule(name: &str) -> &'static HouseRule {
        KINDS.iter().find(|rule| rule.name == name).unwrap_or_else(|| panic!("no rule {name}"))
    }

    #[test]
    fn every_canary_is_caught() {
        for rule in KINDS.iter().filter(|rule| !rule.canary.is_empty()) {
            let found = (rule.check)(&Tree::of(rule.canary));
            assert!(!found.is_empty(), "{} does not see its canary", rule.name);
        }
    }

    #[test]
    fn every_file_of_a_canary_that_stands_for_itself_is_caught() {
        for name in ["comments", "opening"] {
            for file in rule(name).canary {
                assert!(!(rule(name).check)(&Tree::of(&[*file])).is_empty(), "{name}: {}", file.0);
            }
        }
    }

    #[test]
    fn clean_files_are_left_alone() {
        for rule in KINDS {
            assert_eq!((rule.check)(&Tree::of(CLEAN)), [], "{}", rule.name);
        }
    }

    #[test]
    fn rules_are_sorted_and_give_a_reason() {
        assert!(KINDS.is_sorted_by_key(|rule| rule.name));
        for rule in KINDS {
            assert!(!rule.reason.is_empty() && !rule.reason.ends_with('.'), "{}", rule.name);
        }
    }

    /// A workspace of `load` and `lab` in which the first depends on the second.
    fn wrong_way(kind: Option<&str>, to: &str) -> Tree {
        let dependency = json!({ "name": to, "path": "/x", "kind": kind });
        let mut tree = Tree::default();
        tree.add_crates(&json!({ "packages": [
        { "name": "load", "dependencies": [dependency] },
        { "name": to, "dependencies": [{ "name": "serde", "path": null, "kind": null }] },
    ] }));
        tree
    }

    #[test]
    fn a_wrong_import_is_caught() {
        assert_eq!((rule("imports").check)(&wrong_way(None, "lab"))[0].what, "load must not depend on lab");
        assert_eq!((rule("imports").check)(&wrong_way(Some("dev"), "lab")).len(), 1);
        assert_eq!((rule("imports").check)(&wrong_way(None, "echo")).len(), 1);
        assert_eq!((rule("imports").check)(&wrong_way(Some("dev"), "echo")), []);
        assert_eq!((rule("imports").check)(&wrong_way(None, "record")), []);
    }

    #[test]
    fn a_crate_without_a_place_is_caught() {
        let found = (rule("crate_table").check)(&wrong_way(None, "attic"));
        assert_eq!(found[0].what, "the crate `attic` is missing in the table");
        assert!(found.iter().any(|offence| offence.what == "there is no crate `conduct` any more"));
    }

    #[test]
    fn a_table_out_of_order_is_caught() {
        let shelf = "//! x\nmod a;\nmod b;\npub static KINDS: &[(&str, F)] = &[(\"b\", b::new), (\"a\", a::new)];\n";
        let tree = Tree::of(&[("f.rs", shelf), ("f/a.rs", "//! a\n"), ("f/b.rs", "//! b\n")]);
        assert_eq!((rule("shelves").check)(&tree)[0].what, "KINDS is not sorted");
    }

    #[test]
    fn rooms_declared_for_tests_only_are_tests() {
        let lib = "//! x\n#[cfg(test)]\nmod scratch;\n";
        let reads = "//! x\nfn f() { std::fs::read(\"x\"); }\n";
        let scratch = Tree::of(&[("crates/analysis/src/lib.rs", lib), ("crates/analysis/src/scratch.rs", reads)]);
        assert_eq!((rule("purity").check)(&scratch), []);
        let other = Tree::of(&[("crates/analysis/src/lib.rs", lib), ("crates/analysis/src/scratches.rs", reads)]);
        assert_eq!((rule("purity").check)(&other).len(), 1);
    }

    #[test]
    fn inline_tests_are_tests_and_what_is_behind_them_is_not() {
        let inline = "//! x\n#[cfg(test)]\nmod tests {\n    fn f() { std::fs::read(\"}\"); }\n}\n";
        let check = |text: &str| (rule("purity").check)(&Tree::of(&[("crates/analysis/src/lib.rs", text)]));
        assert_eq!(check(inline), []);
        let behind = check(&format!("{inline}fn g() {{ std::fs::read(\"x\"); }}\n"));
        assert_eq!(behind.iter().map(|offence| offence.line).collect::<Vec<_>>(), [Some(6)]);
    }

    #[test]
    fn links_in_code_are_not_links() {
        let page = "```toml\n[x](gone.md)\n```\n\n    [x](gone.md)\n";
        assert_eq!((rule("links").check)(&Tree::of(&[("a.md", page)])), []);
    }
}
