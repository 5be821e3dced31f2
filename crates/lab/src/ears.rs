//! What a process writes that its target's `[log]` names: heard as it is read, line by line, and kept until somebody asks. It must
//! not know what the lines mean.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use experiment::manifest::LogTexts;

use crate::process_log::readable;

/// Of one process and text, so many lines are told of; the others are counted. What is written a thousand times a second says no
/// more, and would fill the records.
const MOST: u64 = 20;
/// Of a line that is told of.
const LINE_BYTES: usize = 500;
/// What of it comes before the text, if the text is further on.
const BEFORE_BYTES: usize = 100;

/// Hears for one process, however often it is started again. The default hears nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ears(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    texts: Vec<Text>,
    heard: Mutex<State>,
}

#[derive(Debug)]
struct Text {
    text: String,
    alarming: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Not asked for yet.
    heard: Vec<Heard>,
    /// Of each text: how many lines, and the last that was not told of.
    counts: Vec<(u64, Option<(Instant, String)>)>,
}

/// A line that was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heard {
    /// When it was read.
    pub at: Instant,
    /// The text that it has in it.
    pub text: String,
    /// Whether the target calls that alarming.
    pub alarming: bool,
    /// The line.
    pub line: String,
    /// Above 0: it is the last of so many that are told of by this alone.
    pub left_out: u64,
}

impl PartialEq for Ears {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Ears {}

impl Ears {
    /// For these texts. Of a line with several the first counts, and what is alarming comes first.
    pub fn of(log: &LogTexts) -> Self {
        let text = |text: &String, alarming| Text { text: text.clone(), alarming };
        let alarming = log.alarming.iter().map(|one| text(one, true));
        let texts: Vec<Text> = alarming.chain(log.notable.iter().map(|one| text(one, false))).collect();
        let counts = texts.iter().map(|_| (0, None)).collect();
        Self(Arc::new(Inner { texts, heard: Mutex::new(State { heard: Vec::new(), counts }) }))
    }

    /// Whether there is anything to hear.
    pub fn listens(&self) -> bool {
        !self.0.texts.is_empty()
    }

    /// A whole line was read.
    pub fn hear(&self, line: &[u8]) {
        let whole = String::from_utf8_lossy(line);
        let found =
            self.0.texts.iter().enumerate().find_map(|(index, text)| Some((index, text, whole.find(&text.text)?)));
        let Some((index, text, at)) = found else { return };
        let line = quoted(&whole, at, text.text.len());
        let now = Instant::now();
        let mut state = self.state();
        let Some((count, last)) = state.counts.get_mut(index) else { return };
        *count += 1;
        if *count > MOST {
            *last = Some((now, line));
            return;
        }
        state.heard.push(Heard { at: now, text: text.text.clone(), alarming: text.alarming, line, left_out: 0 });
    }

    /// What was heard since somebody asked.
    pub fn take(&self) -> Vec<Heard> {
        std::mem::take(&mut self.state().heard)
    }

    /// At the end: how much was not told of, by text.
    pub fn take_left_out(&self) -> Vec<Heard> {
        let mut state = self.state();
        let left = self.0.texts.iter().zip(&mut state.counts).filter_map(|(text, (count, last))| {
            let (at, line) = last.take()?;
            let left_out = count.saturating_sub(MOST);
            // Whoever asks again is told of what came since.
            *count = MOST;
            Some(Heard { at, text: text.text.clone(), alarming: text.alarming, line, left_out })
        });
        left.collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As much of a line as is told, with the text in it.
fn quoted(line: &str, at: usize, length: usize) -> String {
    let from = if at + length <= LINE_BYTES { 0 } else { boundary(line, at.saturating_sub(BEFORE_BYTES)) };
    let until = boundary(line, from + LINE_BYTES);
    let (before, after) = (if from > 0 { "…" } else { "" }, if until < line.len() { "…" } else { "" });
    readable(format!("{before}{}{after}", &line[from..until]).as_bytes())
}

/// The last place up to `at` where a character begins, or the end.
fn boundary(line: &str, at: usize) -> usize {
    (0..=at.min(line.len())).rev().find(|place| line.is_char_boundary(*place)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ears() -> Ears {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Ears::of(&LogTexts { notable: texts(&["waits for", "cannot"]), alarming: texts(&["inconsistent_database"]) })
    }

    #[test]
    fn only_lines_with_a_text_are_heard_and_each_once() {
        let ears = ears();
        ears.hear(b"all is well");
        ears.hear(b"\tit waits for n2 since it cannot start\x1b[0m");
        ears.hear("cannot: {inconsistent_database, 'n2@h\u{f6}st'}".as_bytes());
        let heard: Vec<_> = ears.take().into_iter().map(|one| (one.text, one.alarming, one.line)).collect();
        let expected = [
            ("waits for", false, " it waits for n2 since it cannot start\\u{1b}[0m"),
            ("inconsistent_database", true, "cannot: {inconsistent_database, 'n2@höst'}"),
        ];
        assert_eq!(heard, expected.map(|(text, alarming, line)| (text.to_owned(), alarming, line.to_owned())));
        assert!(ears.take().is_empty() && ears.take_left_out().is_empty());
        assert!(!Ears::default().listens() && ears.listens());
        Ears::default().hear(b"cannot");
    }

    #[test]
    fn what_is_said_too_often_is_counted() {
        let ears = ears();
        for number in 1..=50 {
            ears.hear(format!("cannot {number}").as_bytes());
        }
        ears.hear(b"waits for it");
        let heard = ears.take();
        assert_eq!((heard.len(), heard[19].line.as_str(), heard[20].text.as_str()), (21, "cannot 20", "waits for"));
        let left = ears.take_left_out();
        assert_eq!((left.len(), left[0].left_out, left[0].line.as_str()), (1, 30, "cannot 50"));
        ears.hear(b"cannot any more");
        assert!(ears.take().is_empty());
        assert_eq!((ears.take_left_out()[0].left_out, ears.take_left_out().len()), (1, 0));
    }

    #[test]
    fn a_long_line_is_cut_around_its_text() {
        let ears = ears();
        ears.hear(format!("cannot {}", "x".repeat(2000)).as_bytes());
        ears.hear(format!("{} cannot {}", "é".repeat(2000), "y".repeat(2000)).as_bytes());
        for line in ears.take().into_iter().map(|heard| heard.line) {
            assert!(line.contains("cannot") && line.len() <= 520 && line.ends_with('…'), "{line}");
        }
    }
}
