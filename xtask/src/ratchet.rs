//! The list of old offenders against the rules of length. An entry may shrink or go; it may not grow, and no new one
//! is made by the tool: whoever adds a line to the list does it in sight of a reviewer.

use crate::rules::Offence;

/// Where the list lies.
pub const PATH: &str = "xtask/ratchet.txt";

/// What one entry allows.
#[derive(Debug, PartialEq, Eq)]
pub struct Allowance<'a> {
    /// `file` or `function`.
    pub what: &'a str,
    /// A path, or a path and a function's name after `#`.
    pub which: &'a str,
    /// Lines.
    pub lines: usize,
    /// Where in the list it stands, from 1.
    pub at: usize,
}

/// The entries of the list: `file 512 crates/a/src/b.rs` or `function 90 crates/a/src/b.rs#name`; `#` at the start of
/// a line opens a comment. A line of any other form is given back as an offence.
pub fn parse(text: &str) -> (Vec<Allowance<'_>>, Vec<Offence>) {
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
            _ => offences.push(Offence::at(PATH, at, "expected `file LINES PATH` or `function LINES PATH#NAME`")),
        }
    }
    (allowances, offences)
}

/// Holds `measured` (name, line, length) against the limit and the list.
pub fn judge(what: &str, limit: usize, measured: &[(String, usize, usize)], list: &str) -> Vec<Offence> {
    let (allowances, mut offences) = parse(list);
    let mine: Vec<_> = allowances.iter().filter(|allowance| allowance.what == what).collect();
    for (which, line, length) in measured {
        let allowed = mine.iter().find(|allowance| allowance.which == which);
        let path = which.split('#').next().unwrap_or(which);
        if *length > allowed.map_or(limit, |allowance| allowance.lines.max(limit)) {
            let told = allowed.map_or(limit, |allowance| allowance.lines);
            offences.push(Offence::at(path, *line, format!("{what} of {length} lines; {told} are allowed")));
        }
    }
    for allowance in mine {
        let which = allowance.which;
        let length = measured.iter().find(|(name, ..)| name == which).map_or(0, |(.., length)| *length);
        if length <= limit {
            offences.push(Offence::at(PATH, allowance.at, format!("{which} is within the limit now: remove its line")));
        } else if length < allowance.lines {
            offences.push(Offence::at(PATH, allowance.at, format!("{which} has shrunk to {length}: lower its number")));
        }
    }
    offences
}

#[cfg(test)]
mod tests;
