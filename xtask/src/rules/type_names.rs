//! Rule: a type's name is unique in the workspace, so that a search finds one type. The list of
//! exceptions may only shrink.

use std::collections::BTreeMap;

use super::{HouseRule, Violation};
use crate::source::{code_only, without_inline_tests};
use crate::tree::Tree;

pub const KIND: HouseRule = HouseRule {
    name: "type_names",
    reason: "two types of one name are one name too few: who searches for it finds the wrong one",
    check,
    canary: &[
        ("crates/transport/src/ring.rs", "//! x\npub struct Gathering;\n"),
        ("crates/lab/src/site.rs", "//! x\nenum Gathering {\n}\n"),
    ],
};

/// Names of several types: items that each protocol has, items of the plan and of the results, and
/// substitutes for types of a disabled feature.
const SHARED: &[&str] = &[
    "Claim",
    "Command",
    "Connection",
    "Decoder",
    "Error",
    "Fault",
    "Function",
    "Host",
    "Operation",
    "Profile",
    "Program",
    "Protocol",
    "Request",
    "Requirement",
    "Run",
    "Runner",
    "Trial",
    "Want",
];

const LIST: &str = "xtask/src/rules/type_names.rs";

fn check(tree: &Tree) -> Vec<Violation> {
    let mut places: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    for file in tree.rust_without_tests() {
        let code = without_inline_tests(&code_only(&file.text));
        for (index, line) in code.lines().enumerate() {
            if let Some(name) = declared(line) {
                places.entry(name.to_owned()).or_default().push((&file.path, index + 1));
            }
        }
    }
    let mut violations = Vec::new();
    for (name, places) in places.iter().filter(|(name, _)| !SHARED.contains(&name.as_str())) {
        for (path, line) in &places[1..] {
            let (first, at) = places[0];
            violations.push(Violation::at(path, *line, format!("`{name}` is also a type in {first}:{at}")));
        }
    }
    // The tree of a canary has none of these names.
    if tree.files.iter().any(|file| file.path == LIST) {
        let alone = SHARED.iter().filter(|name| places.get(**name).is_none_or(|places| places.len() < 2));
        violations.extend(alone.map(|name| Violation::of(LIST, format!("`{name}` is not shared any more: remove it"))));
    }
    violations
}

/// Returns the type that a line declares, at the outermost level or in a `section!`.
fn declared(line: &str) -> Option<&str> {
    let is_in_section = line.starts_with("    pub struct ") && line.contains(" = ");
    if line.starts_with(char::is_whitespace) && !is_in_section {
        return None;
    }
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub") || *word == "unsafe");
    matches!(words.next(), Some("struct" | "enum" | "trait" | "type" | "union")).then_some(())?;
    words.next()?.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

#[cfg(test)]
mod tests {
    use super::declared;

    #[test]
    fn types_of_every_kind_are_seen() {
        assert_eq!(declared("pub(crate) struct Ring<'a> {"), Some("Ring"));
        assert_eq!(declared("type Count = usize;"), Some("Count"));
        assert_eq!(declared("    pub struct Feed = FEED {"), Some("Feed"));
        assert_eq!(declared("    type Item = u8;"), None);
        assert_eq!(declared("pub fn structure() {"), None);
    }
}
