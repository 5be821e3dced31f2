//! The reference pages under docs/reference, each made from a table or type in the code, so that neither can be
//! right alone. A page returns its text and writes nothing.

mod doctor;
mod experiment;
mod faults;
mod metrics;
mod profile;
mod protocols;
mod results;
mod verdicts;

use std::fs;
use std::path::Path;

/// A page of the reference.
#[derive(Debug)]
pub struct Page {
    /// Its file in docs/reference, without `.md`.
    pub name: &'static str,
    /// Its text.
    pub text: fn() -> String,
}

/// Every page, sorted by name.
pub const KINDS: &[Page] = &[
    doctor::KIND,
    experiment::KIND,
    faults::KIND,
    metrics::KIND,
    profile::KIND,
    protocols::KIND,
    results::KIND,
    verdicts::KIND,
];

const FOLDER: &str = "docs/reference";

/// Writes every page, and says which have changed.
///
/// # Errors
/// A file that cannot be written, in words.
pub fn write(root: &Path) -> Result<Vec<String>, String> {
    let stale = stale(root);
    let failed = |path: &str, problem: std::io::Error| format!("{path}: {problem}");
    fs::create_dir_all(root.join(FOLDER)).map_err(|problem| failed(FOLDER, problem))?;
    for page in KINDS {
        let path = path(page);
        fs::write(root.join(&path), text(page)).map_err(|problem| failed(&path, problem))?;
    }
    Ok(stale)
}

/// The pages that are not what the code says.
pub fn stale(root: &Path) -> Vec<String> {
    let fresh = |page: &&Page| fs::read_to_string(root.join(path(page))).is_ok_and(|found| found == text(page));
    KINDS.iter().filter(|page| !fresh(page)).map(path).collect()
}

fn path(page: &Page) -> String {
    format!("{FOLDER}/{}.md", page.name)
}

fn text(page: &Page) -> String {
    let made = "<!-- Made by `cargo xtask docs` from the code. Edit it there. -->";
    format!("{made}\n\n{}\n", (page.text)().trim_end())
}

/// A line of help as a sentence.
fn sentence(help: &str) -> String {
    let mut letters = help.trim_end_matches('.').chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).chain(['.']).collect())
}

/// A text in a cell of a table: one line, and no bar that would end the cell.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::{KINDS, cell};

    #[test]
    fn pages_are_sorted_and_say_something() {
        assert!(KINDS.is_sorted_by_key(|page| page.name));
        for page in KINDS {
            let text = (page.text)();
            assert!(text.starts_with("# "), "{}", page.name);
            assert!(text.lines().filter(|line| line.starts_with('|')).count() > 3, "{} has no table", page.name);
        }
    }

    #[test]
    fn rows_have_as_many_cells_as_their_heading() {
        for page in KINDS {
            let mut cells = 0;
            for line in (page.text)().lines() {
                let here = line.replace("\\|", "").matches('|').count();
                assert!(cells == 0 || here == 0 || cells == here, "{}: {line}", page.name);
                cells = here;
            }
        }
    }

    #[test]
    fn bars_and_lines_stay_inside_a_cell() {
        assert_eq!(cell("a | b\nc"), "a \\| b c");
    }

    /// What the doctor says that a verdict would see, some rule of that name does see.
    #[test]
    fn the_doctor_names_rules_that_exist() {
        for rule in lab::checkups::KINDS.iter().flat_map(|kind| kind.caught_by) {
            assert!(analysis::rules().iter().any(|known| known.name == *rule), "no rule `{rule}`");
        }
    }
}
