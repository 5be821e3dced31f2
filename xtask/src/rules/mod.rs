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
mod tests;
