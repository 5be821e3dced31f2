//! What the doctor found, in words for a terminal of 100 columns: the worst first, what is good in a line each, what cannot
//! be told in a line for each reason. It must not judge.

use std::fmt::Write as _;

use lab::checkups::{State, commands};
use lab::doctor::Examined;

/// Columns.
const WIDTH: usize = 100;
/// Before what was found: two blanks, the name of a check-up, two blanks.
const INDENT: usize = 27;

/// The whole table. `with_article` adds what the tunings of the article are worth today.
#[must_use]
pub fn words(examined: &[Examined], with_article: bool) -> String {
    let mut text = String::new();
    let of = |state: State| examined.iter().filter(move |one| one.finding.state == state);
    for (state, heading) in [(State::Bad, "Bad: spoils a measurement"), (State::Notice, "Notice: changes figures")] {
        if of(state).next().is_some() {
            let _ = write!(text, "{heading}\n\n");
        }
        for one in of(state) {
            text.push_str(&in_full(one));
        }
    }
    if of(State::Good).next().is_some() {
        text.push_str("Good\n\n");
    }
    for one in of(State::Good) {
        text.push_str(&row(one.kind.name, &one.finding.found));
    }
    text.push_str(&unknown(of(State::Unknown)));
    text.push_str(&if with_article { article(examined) } else { String::new() });
    let _ = write!(text, "\n{}\n", sum(examined));
    text
}

/// `1 bad, 2 to notice, 30 good, 4 unknown`
fn sum(examined: &[Examined]) -> String {
    let states =
        [(State::Bad, "bad"), (State::Notice, "to notice"), (State::Good, "good"), (State::Unknown, "unknown")];
    let count = |state: State| examined.iter().filter(|one| one.finding.state == state).count();
    let parts: Vec<String> = states.iter().map(|(state, word)| format!("{} {word}", count(*state))).collect();
    let fixable = examined.iter().filter(|one| !one.finding.fixes.is_empty()).count();
    let fixable = match fixable {
        0 => String::new(),
        some => format!("; --fix can change {some} of them, --undo puts them back"),
    };
    format!("{}{fixable}", parts.join(", "))
}

/// What was found, why it matters, what to do, and who would notice.
fn in_full(one: &Examined) -> String {
    let (kind, finding) = (one.kind, &one.finding);
    let mut text = row(kind.name, &finding.found);
    text.push_str(&row("", kind.why));
    if let Some(remedy) = &finding.remedy {
        text.push_str(&row("", &format!("-> {remedy}")));
    }
    for command in commands(&finding.fixes) {
        // In one line, however long: it is to be copied.
        let _ = writeln!(text, "{:width$}{command}", "", width = INDENT + 3);
    }
    if !kind.caught_by.is_empty() {
        text.push_str(&row("", &format!("in a trial, the verdict says: {}", kind.caught_by.join(", "))));
    }
    text.push('\n');
    text
}

/// A name, and beside it a text of as many lines as it needs.
fn row(name: &str, text: &str) -> String {
    let mut rows = String::new();
    for (index, line) in wrapped(text, WIDTH - INDENT).iter().enumerate() {
        let name = if index == 0 { name } else { "" };
        let line = format!("  {name:<width$}{line}", width = INDENT - 2);
        let _ = writeln!(rows, "{}", line.trim_end());
    }
    rows
}

/// Lines of at most so many letters, broken between words; what follows an arrow stays below what stood behind it.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let below = if text.starts_with("-> ") { "   " } else { "" };
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_ascii_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => {
                let lead = if lines.is_empty() { "" } else { below };
                lines.push(format!("{lead}{word}"));
            }
        }
    }
    lines
}

/// One line for each reason.
fn unknown<'a>(examined: impl Iterator<Item = &'a Examined>) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in examined {
        let name = one.kind.name.trim_start_matches("Erlang: ");
        match reasons.iter_mut().find(|(why, _)| *why == one.finding.found) {
            Some((_, names)) => names.push(name),
            None => reasons.push((&one.finding.found, vec![name])),
        }
    }
    let mut text = if reasons.is_empty() { String::new() } else { "\nUnknown\n\n".to_owned() };
    for (why, names) in reasons {
        for (index, line) in wrapped(&format!("{why}: {}", names.join(", ")), WIDTH - 4).iter().enumerate() {
            let _ = writeln!(text, "{}{line}", if index == 0 { "  " } else { "    " });
        }
    }
    text
}

fn article(examined: &[Examined]) -> String {
    let mut tunings: Vec<_> = examined.iter().filter_map(|one| Some((one.kind.article?, &one.finding))).collect();
    tunings.sort_by_key(|(tuning, _)| (tuning.number, tuning.says));
    let mut text = "\nThe six tunings of the article on the name service vsns, today\n\n".to_owned();
    for (tuning, finding) in tunings {
        let says = wrapped(tuning.says, WIDTH - 5).join("\n     ");
        let _ = writeln!(text, "  {}  {says}", tuning.number);
        text.push_str(&row("", tuning.worth));
        text.push_str(&row("", &format!("here: {}", finding.found)));
    }
    text
}

#[cfg(test)]
mod tests;
