//! Problems of a text, each with its place and a suggestion ("did you mean"), and their formatting
//! for a terminal.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use ariadne::{Cache, Color, Config, IndexType, Label, Report, ReportKind};

use crate::source::Source;
use crate::tree::TextSpan;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Place of the problem.
    pub place: TextSpan,
    /// Description of the problem: one sentence without a full stop.
    pub what: String,
    /// Expectation at this place, in a few words; shown below the underlined text.
    pub expected: String,
    /// Suggested fix, such as ``did you mean `agents`?``.
    pub hint: Option<String>,
    /// Other places that are related to the problem, each with a short label.
    pub related: Vec<(TextSpan, String)>,
    /// Whether the problem is a missing part or an unknown name. Not shown if there are syntax
    /// errors, which may be the cause.
    pub(crate) absence: bool,
}

impl Problem {
    /// Returns a problem at `place`.
    pub(crate) fn new(place: &TextSpan, what: impl Into<String>) -> Self {
        Self {
            place: place.clone(),
            what: what.into(),
            expected: String::new(),
            hint: None,
            related: Vec::new(),
            absence: false,
        }
    }

    /// Returns a problem for a missing part at `place`, or for an unknown name there.
    pub(crate) fn absent(place: &TextSpan, what: impl Into<String>) -> Self {
        Self { absence: true, ..Self::new(place, what) }
    }

    pub(crate) fn expected(mut self, words: impl Into<String>) -> Self {
        self.expected = words.into();
        self
    }

    pub(crate) fn hint(mut self, words: impl Into<String>) -> Self {
        self.hint = Some(words.into());
        self
    }

    /// Sets the hint, if there is one.
    pub(crate) fn maybe(mut self, words: Option<String>) -> Self {
        self.hint = words.or(self.hint);
        self
    }

    pub(crate) fn related(mut self, place: &TextSpan, words: impl Into<String>) -> Self {
        self.related.push((place.clone(), words.into()));
        self
    }
}

impl fmt::Display for Problem {
    /// Formats the problem on one line: `file:line:column: what`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.place.line_and_column();
        write!(out, "{}:{line}:{column}: {}", self.place.source.name, text::plain(&self.what))
    }
}

/// All problems, in the order of the text: the file first, then each `--set`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Sorts the problems and removes duplicates, because a mistake in the file appears in each of
    /// its trials. If there are syntax errors, also removes missing parts and unknown names.
    pub(crate) fn new(mut problems: Vec<Problem>, syntax_is_broken: bool) -> Self {
        if syntax_is_broken {
            problems.retain(|problem| !problem.absence);
        }
        problems.sort_by_key(|problem| problem.place.order());
        let mut seen = std::collections::HashSet::new();
        problems.retain(|problem| seen.insert((problem.place.order(), problem.what.clone())));
        Self(problems)
    }

    #[must_use]
    pub fn as_slice(&self) -> &[Problem] {
        &self.0
    }

    /// Formats the problems for a terminal: each with its line, the wrong text underlined, and a
    /// suggestion. Ends with a newline.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let shown = &self.0[..self.0.len().min(SHOWN)];
        // All problems share these texts, because the renderer scans a whole text to find its
        // lines.
        let mut texts = ariadne::sources(texts(shown));
        let mut text = String::new();
        for problem in shown {
            text.push_str(render(problem, colour, &mut texts).trim_end());
            text.push_str("\n\n");
        }
        if self.0.len() > SHOWN {
            text.push_str(&format!("{} problems, of which these are the first {SHOWN}\n", self.0.len()));
        } else if self.0.len() > 1 {
            text.push_str(&format!("{} problems\n", self.0.len()));
        } else {
            text.pop();
        }
        text
    }
}

impl fmt::Display for Problems {
    /// Formats each problem on a line, up to a limit: to find a line number, the text before it
    /// must be scanned.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().take(SHOWN).enumerate() {
            if index > 0 {
                out.write_str("\n")?;
            }
            problem.fmt(out)?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(out, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Problems {}

/// Maximum number of problems that are shown. A file with more is probably not an experiment.
pub(crate) const SHOWN: usize = 100;

type ProblemLocation = (String, Range<usize>);

/// Returns the texts that problems refer to, by name.
fn texts(problems: &[Problem]) -> Vec<(String, Arc<str>)> {
    let mut texts: Vec<(String, Arc<str>)> = Vec::new();
    let related = problems.iter().flat_map(|problem| problem.related.iter().map(|(place, _)| place));
    for place in problems.iter().map(|problem| &problem.place).chain(related) {
        if texts.iter().all(|(name, _)| *name != place.source.name) {
            texts.push((place.source.name.clone(), Arc::from(visible(&place.source).as_ref())));
        }
    }
    texts
}

fn render(problem: &Problem, colour: bool, texts: &mut impl Cache<String>) -> String {
    let config = Config::new().with_color(colour).with_index_type(IndexType::Byte).with_tab_width(4);
    let main = spot(&problem.place);
    let words = if problem.expected.is_empty() { "here" } else { problem.expected.as_str() };
    let mut report =
        Report::build(ReportKind::Error, main.clone()).with_config(config).with_message(text::plain(&problem.what));
    let mut labels = vec![(&problem.place, Label::new(main).with_message(text::plain(words)).with_color(Color::Red))];
    for (place, words) in &problem.related {
        labels.push((place, Label::new(spot(place)).with_message(text::plain(words)).with_color(Color::Cyan)));
    }
    // The renderer needs labels sorted by text and position; it would draw others as a separate
    // text. The text that contains the problem comes first.
    labels.sort_by_key(|(place, _)| (place.source.name != problem.place.source.name, place.span.start));
    report.add_labels(labels.into_iter().map(|(_, label)| label));
    if let Some(hint) = &problem.hint {
        report.set_help(text::plain(hint));
    }
    let mut written = Vec::new();
    match report.finish().write(texts, &mut written) {
        Ok(()) => String::from_utf8_lossy(&written).lines().map(|line| format!("{}\n", line.trim_end())).collect(),
        // Writing into memory does not fail. If the renderer refuses, the plain line has all the
        // facts.
        Err(_) => format!("{problem}\n"),
    }
}

/// Returns the text for display. An empty text becomes an empty line, so that there is a line to
/// underline. Control characters are replaced.
fn visible(source: &Source) -> Cow<'_, str> {
    if source.text.is_empty() { "\n".into() } else { text::plain_in_place(&source.text) }
}

fn spot(place: &TextSpan) -> ProblemLocation {
    (place.source.name.clone(), place.span.clone())
}

/// Returns the most similar name in `known`, if it is similar enough.
pub(crate) fn nearest_name<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    let length = wanted.chars().count();
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, &name.to_lowercase()), name))
        .filter(|(distance, name)| {
            let longest = length.max(name.chars().count());
            *distance <= 1.max(longest / 3).min(longest / 2)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns ``did you mean `agents`?``, or else the list of known names.
pub(crate) fn nearest_hint<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let known: Vec<&str> = known.into_iter().collect();
    if let Some(name) = nearest_name(wanted, known.iter().copied()) {
        return Some(format!("did you mean `{name}`?"));
    }
    match known.as_slice() {
        [] => None,
        [only] => Some(format!("the only choice is `{only}`")),
        _ => {
            let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            Some(format!("the choices are {}", join_words(&quoted, "and")))
        }
    }
}

/// Joins names: `a, b or c`. Only the first 16 names of a long list are given.
pub(crate) fn join_words(names: &[String], conjunction: &str) -> String {
    const SHOWN: usize = 16;
    match names.get(..SHOWN) {
        Some(first) if names.len() > SHOWN => format!("{}, … ({} in all)", first.join(", "), names.len()),
        _ => text::listed(names, conjunction),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_contain_no_terminal_control_characters() {
        let text = "title = \"\u{1b}]0;owned\u{7}\u{9b}2J \u{202e}t\" # here\n".to_owned();
        let source = Arc::new(Source { name: "x.toml".to_owned(), text });
        let span = source.text.find("here").map(|at| at..at + 4).unwrap();
        let place = TextSpan { source, span, rank: 0 };
        let problem = Problem::new(&place, "no \u{1b}[2J").expected("\u{1b}").hint("\u{202e}");
        let shown = Problems::new(vec![problem], false).render(false);
        assert!(shown.contains("x.toml:1:") && !shown.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']), "{shown:?}");
    }
}
