//! List of old offences against the rules of length. An entry may shrink or be removed, but must
//! not grow. No tool adds an entry, so that a reviewer sees each new one.

use crate::rules::Violation;

/// Path of the list.
pub const PATH: &str = "xtask/ratchet.txt";

/// An entry of the list.
#[derive(Debug, PartialEq, Eq)]
pub struct Allowance<'a> {
    /// `file` or `function`.
    pub what: &'a str,
    /// Path, or path and name of a function after `#`.
    pub which: &'a str,
    /// Allowed number of lines.
    pub lines: usize,
    /// Line of the entry in the list, from 1.
    pub at: usize,
}

/// Parses the list. An entry is `file 512 crates/a/src/b.rs` or `function 90
/// crates/a/src/b.rs#name`. A line that begins with `#` is a comment. Any other line is returned as
/// an offence.
pub fn parse(text: &str) -> (Vec<Allowance<'_>>, Vec<Violation>) {
    let mut allowances = Vec::new();
    let mut offences = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let at = index + 1;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split(' ');
        match (words.next(), words.next().map(str::parse), words.next(), words.next()) {
            (Some(what @ ("file" | "function")), Some(Ok(lines)), Some(which), None) => {
                allowances.push(Allowance { what, which, lines, at });
            }
            _ => offences.push(Violation::at(PATH, at, "expected `file LINES PATH` or `function LINES PATH#NAME`")),
        }
    }
    (allowances, offences)
}

/// Compares `measured` (name, line, length) with the limit and the list.
pub fn judge(what: &str, limit: usize, measured: &[(String, usize, usize)], list: &str) -> Vec<Violation> {
    let (allowances, mut offences) = parse(list);
    let mine: Vec<_> = allowances.iter().filter(|allowance| allowance.what == what).collect();
    for (which, line, length) in measured {
        let allowed = mine.iter().find(|allowance| allowance.which == which);
        let path = which.split('#').next().unwrap_or(which);
        if *length > allowed.map_or(limit, |allowance| allowance.lines.max(limit)) {
            let told = allowed.map_or(limit, |allowance| allowance.lines);
            offences.push(Violation::at(path, *line, format!("{what} of {length} lines; {told} are allowed")));
        }
    }
    for allowance in mine {
        let which = allowance.which;
        let length = measured.iter().find(|(name, ..)| name == which).map_or(0, |(.., length)| *length);
        if length <= limit {
            offences.push(Violation::at(
                PATH,
                allowance.at,
                format!("{which} is within the limit now: remove its line"),
            ));
        } else if length < allowance.lines {
            offences.push(Violation::at(
                PATH,
                allowance.at,
                format!("{which} has shrunk to {length}: lower its number"),
            ));
        }
    }
    offences
}

#[cfg(test)]
mod tests {
    use super::judge;

    fn offences(length: usize, list: &str) -> Vec<String> {
        judge("file", 10, &[("a.rs".to_owned(), 1, length)], list).into_iter().map(|offence| offence.what).collect()
    }

    #[test]
    fn a_new_offender_fails() {
        assert_eq!(offences(11, ""), ["file of 11 lines; 10 are allowed"]);
        assert_eq!(offences(10, ""), [""; 0]);
    }

    #[test]
    fn an_old_offender_may_stay_but_not_grow() {
        assert_eq!(offences(12, "# why\nfile 12 a.rs\n"), [""; 0]);
        assert_eq!(offences(13, "file 12 a.rs\n"), ["file of 13 lines; 12 are allowed"]);
    }

    #[test]
    fn shrunk_files_must_lower_their_limit() {
        assert_eq!(offences(11, "file 12 a.rs\n"), ["a.rs has shrunk to 11: lower its number"]);
        assert_eq!(offences(9, "file 12 a.rs\n"), ["a.rs is within the limit now: remove its line"]);
        assert_eq!(offences(9, "file 12 gone.rs\n"), ["gone.rs is within the limit now: remove its line"]);
    }

    #[test]
    fn malformed_lines_are_reported() {
        assert_eq!(offences(9, "file many a.rs\n").len(), 1);
    }
}
