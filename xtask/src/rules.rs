//! The house rules: one file each, with the reason it exists and a canary that it must catch. A rule reads a
//! [`Tree`] and never the disk, so that it can be shown to work.

mod banned_words;
mod crate_table;
mod file_length;
mod function_length;
mod imports;
mod leftovers;
mod links;
mod opening;
mod printing;
mod purity;
mod shelves;
mod unsafety;
mod whitespace;

use crate::tree::Tree;

/// A house rule.
#[derive(Debug)]
pub struct Rule {
    /// Printed in brackets after each offence.
    pub name: &'static str,
    /// Printed under each offence, after "because".
    pub reason: &'static str,
    /// Finds every offence.
    pub check: fn(&Tree) -> Vec<Offence>,
    /// Files (path, text) that the rule must complain about: proof that the alarm works.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the tests"))]
    pub canary: &'static [(&'static str, &'static str)],
}

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Offence {
    /// The file.
    pub path: String,
    /// The line, from 1, if it is about one.
    pub line: Option<usize>,
    /// What is wrong, in words.
    pub what: String,
}

impl Offence {
    /// About a line.
    pub fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), what: what.into() }
    }

    /// About a file or folder as a whole.
    pub fn of(path: &str, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, what: what.into() }
    }
}

/// Every rule, sorted by name.
pub const KINDS: &[Rule] = &[
    banned_words::KIND,
    crate_table::KIND,
    file_length::KIND,
    function_length::KIND,
    imports::KIND,
    leftovers::KIND,
    links::KIND,
    opening::KIND,
    printing::KIND,
    purity::KIND,
    shelves::KIND,
    unsafety::KIND,
    whitespace::KIND,
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{KINDS, Rule};
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
        ("crates/lab/src/linux/pidfd.rs", "//! Home of it.\nfn f() { unsafe { g() } }\n"),
        ("scripts/x.sh", "#!/bin/sh\n# Says what it does.\n"),
        ("targets/x/src/x.erl", "%% What it is.\n-module(x).\n"),
    ];

    fn rule(name: &str) -> &'static Rule {
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
        for name in ["opening", "whitespace"] {
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
