//! JSON Lines files, with one JSON object per line: `events.jsonl` and `history.jsonl`.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::marker::PhantomData;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::checked_file::{LineFile, open, read_lines, refuse_later_head};
use crate::events::{Event, What};
use crate::folder::FORMAT;

pub use crate::checked_file::{ReadError, Records};

/// Maximum length of a first line in which `format` is looked for, bytes. The first event is short.
const FIRST_LINE: u64 = 64 << 10;

/// Writes items as lines. Lines go to the kernel on [`JsonLinesWriter::flush`], or when the buffer
/// is full.
#[derive(Debug)]
pub struct JsonLinesWriter<T> {
    file: LineFile,
    line: Vec<u8>,
    items: PhantomData<fn(&T)>,
}

impl<T: Serialize> JsonLinesWriter<T> {
    /// Creates a file; empties an existing file.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: LineFile::create(path)?, line: Vec::new(), items: PhantomData })
    }

    /// Opens a file for appending; creates it if missing. Removes a last line that was cut off.
    pub fn append(path: &Path) -> io::Result<Self> {
        Ok(Self { file: LineFile::append(path)?, line: Vec::new(), items: PhantomData })
    }

    /// Adds an item.
    pub fn write(&mut self, item: &T) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, item)?;
        self.line.push(b'\n');
        self.file.write(&self.line)
    }

    /// Passes all data to the kernel. After that, a SIGKILL of this process loses nothing.
    ///
    /// # Errors
    /// If the file cannot be written. The buffered lines are lost then; the file still ends in a
    /// whole line.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Reads a file of items. A missing file has no items. A last line that was cut off is dropped, and
/// [`Records::torn`] is set.
///
/// # Errors
/// If the file cannot be read, or a line other than the last one is broken.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Records<T>, ReadError> {
    read_lines(path, |line| serde_json::from_slice(line).map(Some).map_err(|error| error.to_string()))
}

/// Reads `events.jsonl` as [`read`] does, without events of kinds that this version does not know.
///
/// # Errors
/// The errors of [`read`]; [`ReadError::Later`] if the first line has a `format` later than this
/// version's.
pub fn read_events(path: &Path) -> Result<Records<Event>, ReadError> {
    let mut beginning = Vec::new();
    if let Some(file) = open(path)? {
        let read = BufReader::new(file.take(FIRST_LINE)).read_until(b'\n', &mut beginning);
        read.map_err(|source| ReadError::Io { path: path.to_path_buf(), source })?;
    }
    // A line that was cut off is not read, so its format does not matter.
    if beginning.ends_with(b"\n") {
        refuse_later_head(path, &beginning, FORMAT)?;
    }
    let mut records = read::<Event>(path)?;
    records.items.retain(|event| event.what != What::Unknown);
    Ok(records)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fixture::TestDir;

    use super::*;
    use crate::events::{By, Ending, HistoryEntry, Outcome, Phase};

    fn events() -> Vec<Event> {
        let what = [
            What::Clock { unix_s: 1_795_170_665.25 },
            What::Phase { phase: Phase::Load },
            What::FaultBegun { fault: "oops".into(), number: 1, kind: "call".into(), on: "n1".into() },
            What::ProcessDown {
                host: "n1".into(),
                process: "server".into(),
                how: "signal 9".into(),
                expected: true,
                last_lines: Vec::new(),
            },
            What::Log {
                host: "n1".into(),
                process: "server".into(),
                line: "Störung: \"名\"\nzwei".into(),
                text: "Störung".into(),
                alarming: true,
                left_out: 3,
            },
            What::Inspected { when: "after_load".into(), says: serde_json::json!({ "names": 12, "tables": ["a"] }) },
            What::Ended { how: Ending::Done, reason: None },
        ];
        what.into_iter().enumerate().map(|(number, what)| Event { at_s: number as f64 - 1.5, what }).collect()
    }

    #[test]
    fn events_are_read_back() {
        let scratch = TestDir::new();
        let path = scratch.join("events.jsonl");
        let mut writer = JsonLinesWriter::create(&path).unwrap();
        for event in events() {
            writer.write(&event).unwrap();
        }
        writer.flush().unwrap();
        assert_eq!(read::<Event>(&path).unwrap(), Records { items: events(), torn: false });
    }

    #[test]
    fn a_file_cut_off_at_any_byte_is_readable_up_to_there() {
        let scratch = TestDir::new();
        let path = scratch.join("events.jsonl");
        let mut writer = JsonLinesWriter::create(&path).unwrap();
        for event in events() {
            writer.write(&event).unwrap();
        }
        drop(writer);
        let whole = fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let lines = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
            let records = read::<Event>(&path).unwrap();
            assert_eq!(records.items, events()[..lines], "cut at {cut}");
            assert_eq!(records.torn, cut > 0 && whole[cut - 1] != b'\n', "cut at {cut}");
        }
    }

    #[test]
    fn unknown_kinds_and_fields_of_later_versions_are_skipped() {
        let scratch = TestDir::new();
        let path = scratch.join("events.jsonl");
        let content = "{\"at_s\":0,\"event\":\"clock\",\"unix_s\":1.5,\"zone\":\"UTC\"}\n\
                   {\"at_s\":1,\"event\":\"eclipse\",\"of\":{\"the\":\"sun\"}}\n\
                   {\"at_s\":2,\"event\":\"notice\",\"text\":\"on\"}\n";
        fs::write(&path, content).unwrap();
        let what: Vec<_> = read_events(&path).unwrap().items.into_iter().map(|event| event.what).collect();
        assert_eq!(what, [What::Clock { unix_s: 1.5 }, What::Notice { text: "on".into() }]);
        assert_eq!(read::<Event>(&path).unwrap().items.len(), 3);
    }

    #[test]
    fn a_known_kind_without_its_fields_is_an_error() {
        let scratch = TestDir::new();
        let path = scratch.join("events.jsonl");
        let content = "{\"at_s\":0,\"event\":\"clock\"}\n{\"at_s\":2,\"event\":\"notice\",\"text\":\"on\"}\n";
        fs::write(&path, content).unwrap();
        let message = read::<Event>(&path).unwrap_err().to_string();
        assert!(message.contains("events.jsonl:1:") && message.contains("unix_s"), "{message}");
    }

    #[test]
    fn the_format_of_a_torn_first_line_is_ignored() {
        let scratch = TestDir::new();
        let path = scratch.join("events.jsonl");
        fs::write(&path, r#"{"format":"f"}"#).unwrap();
        let read = read_events(&path).unwrap();
        assert!(read.items.is_empty() && read.torn);
        fs::write(&path, "{\"format\":\"f\"}\n").unwrap();
        assert!(read_events(&path).is_err());
    }

    #[test]
    fn history_distinguishes_unknown_from_not_applied() {
        let scratch = TestDir::new();
        let path = scratch.join("history.jsonl");
        let line = |applied, outcome| HistoryEntry {
            at_s: 1.0,
            start_s: Some(0.5),
            by: By::Load,
            agent: Some(3),
            effect: "write".into(),
            space: "kept-3".into(),
            key: "kept-200".into(),
            value: Some("v".into()),
            outcome,
            applied,
            ..HistoryEntry::default()
        };
        let items =
            vec![line(Some(true), Outcome::Ok), line(Some(false), Outcome::Failed), line(None, Outcome::Timeout)];
        let mut writer = JsonLinesWriter::append(&path).unwrap();
        for item in &items {
            writer.write(item).unwrap();
        }
        drop(writer);
        assert_eq!(read::<HistoryEntry>(&path).unwrap().items, items);
    }
}
