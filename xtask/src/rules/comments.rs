//! Rule: comments open plainly and are at most 100 columns wide.

use super::{HouseRule, Violation};
use crate::tree::{File, Tree};

pub const KIND: HouseRule = HouseRule {
    name: "comments",
    reason: "a doc comment is a noun phrase or starts with a verb (\"Returns the next trial.\"); a fragment that continues the \
             name (\"Of the last second.\") or a clause in place of a noun (\"What is left.\") is read twice",
    check,
    canary: &[
        ("crates/load/src/lib.rs", "//! x\n/// What is left.\nfn f() {}\n"),
        ("crates/load/src/x.rs", "//! So many agents.\n"),
        ("crates/load/src/wide.rs", WIDE),
    ],
};

const WIDE: &str = "//! x\n// It is too long, this comment, which goes on and on and says nothing at all that anybody would want to know.\n";

/// Largest width of a comment line, columns, with its indentation.
const WIDTH: usize = 100;

/// First words that a doc comment may not have.
const OPENINGS: &[&str] = &[
    "After",
    "And",
    "As",
    "At",
    "Before",
    "Both",
    "But",
    "By",
    "For",
    "From",
    "Here",
    "How",
    "If",
    "In what",
    "Into",
    "It",
    "Its",
    "Nobody",
    "None",
    "Not",
    "Nothing",
    "Of",
    "On",
    "Only",
    "Or",
    "Since",
    "So",
    "Such",
    "Than",
    "That",
    "There",
    "They",
    "Those",
    "Till",
    "To",
    "Until",
    "What",
    "Whatever",
    "Where",
    "Which",
    "Whichever",
    "Who",
    "Whoever",
    "Whom",
    "Whose",
    "Why",
    "With",
    "Without",
];

fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust().flat_map(judge).collect()
}

fn judge(file: &File) -> Vec<Violation> {
    let mut offences = Vec::new();
    let mut mark_above = "";
    for (index, line) in file.text.lines().enumerate() {
        let comment = line.trim_start();
        let mark = ["///", "//!", "//"].into_iter().find(|mark| comment.starts_with(mark)).unwrap_or_default();
        let text = comment[mark.len()..].trim_start();
        let is_doc = mark.len() == 3;
        if is_doc
            && mark != mark_above
            && let Some(opening) = opening(text)
        {
            offences.push(Violation::at(&file.path, index + 1, format!("the comment opens with `{opening}`")));
        }
        let width = line.chars().count();
        // A table and an address cannot be wrapped.
        if !mark.is_empty() && width > WIDTH && !text.starts_with('|') && !text.contains("://") {
            let what = format!("a comment of {width} columns; at most {WIDTH}");
            offences.push(Violation::at(&file.path, index + 1, what));
        }
        mark_above = mark;
    }
    offences
}

fn opening(text: &str) -> Option<&'static str> {
    let mut openings = OPENINGS.iter().copied();
    openings.find(|word| text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric)))
}

#[cfg(test)]
mod tests {
    use super::{judge, opening};
    use crate::tree::File;

    #[test]
    fn only_whole_first_words_are_openings() {
        assert_eq!(opening("What is left."), Some("What"));
        assert_eq!(opening("So many agents."), Some("So"));
        assert_eq!(opening("Its: nothing."), Some("Its"));
        for text in ["Whether it is open.", "Sorted by name.", "Items of a list.", "Notes."] {
            assert_eq!(opening(text), None, "{text}");
        }
    }

    #[test]
    fn only_the_first_line_of_a_comment_opens_it() {
        let text =
            "//! x\n/// Returns the time\n/// of the first answer.\n/// For each agent.\nfn f() {} // What it is\n";
        assert_eq!(judge(&File { path: "a.rs".to_owned(), text: text.to_owned() }), []);
    }
}
