//! JSONL: one JSON object a line, for `events.jsonl` and `history.jsonl`. It must not know which objects.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::marker::PhantomData;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::events::{Event, What};
use crate::folder::FORMAT;
use crate::whole::refuse_later_head;
use crate::whole_lines::{LineFile, open, read_lines};

pub use crate::whole_lines::{ReadError, Records};

/// The first event is short; a longer line has no format to be looked for.
const FIRST_LINE: u64 = 64 << 10;

/// Writes items as lines. They are on their way to the disk after [`Writer::flush`], or when enough have come together.
#[derive(Debug)]
pub struct Writer<T> {
    file: LineFile,
    line: Vec<u8>,
    items: PhantomData<fn(&T)>,
}

impl<T: Serialize> Writer<T> {
    /// Begins a file; one that exists is emptied.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: LineFile::create(path)?, line: Vec::new(), items: PhantomData })
    }

    /// Goes on at the end of a file, which is created if missing. A last line that was cut off is removed first.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn append(path: &Path) -> io::Result<Self> {
        Ok(Self { file: LineFile::append(path)?, line: Vec::new(), items: PhantomData })
    }

    /// Adds an item.
    ///
    /// # Errors
    /// If the item cannot be written as JSON, or the file not be written.
    pub fn write(&mut self, item: &T) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, item)?;
        self.line.push(b'\n');
        self.file.write(&self.line)
    }

    /// Hands everything to the kernel: after that a SIGKILL of this process loses nothing.
    ///
    /// # Errors
    /// If the file cannot be written. What was not yet on its way is lost then; the file still ends in a whole line.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Reads a file of items. A missing file is an empty one; a last line that was cut off is dropped and flagged.
///
/// # Errors
/// If the file cannot be read, or a line other than the last one is broken.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Records<T>, ReadError> {
    read_lines(path, |line| serde_json::from_slice(line).map(Some).map_err(|error| error.to_string()))
}

/// Reads `events.jsonl` as [`read`] does, without the kinds of events that this version does not know.
///
/// # Errors
/// As [`read`]; [`ReadError::Later`] if the first line has a `format` that is later than this version's.
pub fn read_events(path: &Path) -> Result<Records<Event>, ReadError> {
    let mut beginning = Vec::new();
    if let Some(file) = open(path)? {
        let read = BufReader::new(file.take(FIRST_LINE)).read_until(b'\n', &mut beginning);
        read.map_err(|source| ReadError::Io { path: path.to_path_buf(), source })?;
    }
    refuse_later_head(path, &beginning, FORMAT)?;
    let mut records = read::<Event>(path)?;
    records.items.retain(|event| event.what != What::Unknown);
    Ok(records)
}

#[cfg(test)]
mod tests;
