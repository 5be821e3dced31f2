//! Rule: the `KINDS` table of a shelf, which is a module with one file for each kind, names every
//! kind in order.

use super::{HouseRule, Violation};
use crate::source::{code_only, line_of};
use crate::tree::{File, Tree};

pub const KIND: HouseRule = HouseRule {
    name: "shelves",
    reason: "a kind that its shelf's table forgets compiles and is never found by a user; the order makes it findable by a reader",
    check,
    canary: &[
        ("crates/lab/src/faults.rs", "//! x\nmod call;\nmod kill;\npub const KINDS: &[K] = &[kill::KIND];\n"),
        ("crates/lab/src/faults/call.rs", "//! x\n"),
        ("crates/lab/src/faults/kill.rs", "//! x\n"),
    ],
};

fn check(tree: &Tree) -> Vec<Violation> {
    let shelves = tree.rust().filter(|file| !matches!(file.name(), "lib.rs" | "main.rs"));
    shelves
        .filter_map(|shelf| Some((shelf, table(shelf)?)))
        .flat_map(|(shelf, table)| judge(shelf, table, tree))
        .collect()
}

/// Returns the line and the names of the `KINDS` table. A name is the first part of a path in the
/// table.
fn table(shelf: &File) -> Option<(usize, Vec<String>)> {
    let code = code_only(&shelf.text);
    let at = code.find(" KINDS:")?;
    let value = code[at..].split_once('=')?.1;
    let end = value.find(';').unwrap_or(value.len());
    let mut names: Vec<String> = Vec::new();
    for part in value[..end].split("::").filter(|part| !part.is_empty()) {
        let name: String = part.chars().rev().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let name: String = name.chars().rev().collect();
        if stands_on(&name, shelf) && names.last() != Some(&name) {
            names.push(name);
        }
    }
    Some((line_of(&code, at), names))
}

/// Whether the shelf's file declares this module.
fn stands_on(name: &str, shelf: &File) -> bool {
    !name.is_empty() && shelf.text.contains(&format!("mod {name};"))
}

fn judge(shelf: &File, (line, named): (usize, Vec<String>), tree: &Tree) -> Vec<Violation> {
    let mut offences = Vec::new();
    for kind in kinds(shelf, tree) {
        if !named.contains(&kind) {
            offences.push(Violation::at(
                &shelf.path,
                line,
                format!("KINDS does not name `{kind}`, which stands on this shelf"),
            ));
        }
    }
    if !named.is_sorted() {
        offences.push(Violation::at(&shelf.path, line, "KINDS is not sorted"));
    }
    offences
}

/// Returns the files and folders in the shelf's folder, without tests.
fn kinds(shelf: &File, tree: &Tree) -> Vec<String> {
    let folder = shelf.rooms();
    let mut kinds: Vec<String> = tree
        .rust()
        .filter_map(|file| file.path.strip_prefix(folder.as_str()))
        .map(|rest| rest.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned())
        .filter(|kind| kind != "tests")
        .collect();
    kinds.dedup();
    kinds.sort();
    kinds.dedup();
    kinds
}
