//! CSV files with a header line, for the rows of [`crate::rows`]. It must not know what the columns mean.

use std::io;
use std::marker::PhantomData;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::whole_lines::{LineFile, ReadError, Records, open_lines};

/// Writes rows. They are on their way to the disk after [`Writer::flush`], or when enough have come together.
#[derive(Debug)]
pub struct Writer<T> {
    file: LineFile,
    rows: PhantomData<fn(&T)>,
}

impl<T: Serialize + Default> Writer<T> {
    /// Begins a file with its header line; one that exists is emptied.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut writer = Self { file: LineFile::create(path)?, rows: PhantomData };
        writer.write_header()?;
        Ok(writer)
    }

    /// Goes on at the end of a file, which is created with its header if missing. A last row that was cut off is
    /// removed first.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn append(path: &Path) -> io::Result<Self> {
        let mut writer = Self { file: LineFile::append(path)?, rows: PhantomData };
        if writer.file.is_empty() {
            writer.write_header()?;
        }
        Ok(writer)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, row: &T) -> io::Result<()> {
        self.file.write(&lines_of(row, false)?)
    }

    /// Hands everything to the kernel: after that a SIGKILL of this process loses nothing.
    ///
    /// # Errors
    /// If the file cannot be written. What was not yet on its way is lost then; the file still ends in a whole row.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn write_header(&mut self) -> io::Result<()> {
        let mut header = lines_of(&T::default(), true)?;
        let end = header.iter().position(|&byte| byte == b'\n').map_or(header.len(), |at| at + 1);
        header.truncate(end);
        self.file.write(&header)?;
        self.file.flush()
    }
}

fn lines_of<T: Serialize>(row: &T, with_header: bool) -> io::Result<Vec<u8>> {
    let mut csv = csv::WriterBuilder::new().has_headers(with_header).from_writer(Vec::new());
    csv.serialize(row).map_err(io::Error::other)?;
    csv.into_inner().map_err(|error| error.into_error())
}

/// Reads a file of rows. Columns are found by name and unknown ones ignored. A missing file is an empty one; a last
/// row that was cut off is dropped and flagged.
///
/// # Errors
/// If the file cannot be read, or a row other than the last one is broken.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Records<T>, ReadError> {
    let mut items = Vec::new();
    let torn = visit(path, |row| items.push(row))?;
    Ok(Records { items, torn })
}

/// Reads a file of rows as [`read`] does and hands them over one by one, in file order, so that a long one need not fit into memory;
/// whether a last row was cut off and dropped.
///
/// # Errors
/// As [`read`]. By then `take` has had the rows before.
pub fn visit<T: DeserializeOwned>(path: &Path, mut take: impl FnMut(T)) -> Result<bool, ReadError> {
    let Some(lines) = open_lines(path)? else { return Ok(false) };
    // Not even the header: the file was cut off when it was created.
    let mut torn = lines.torn || lines.length == 0;
    let mut reader = csv::ReaderBuilder::new().from_reader(lines.reader);
    let mut rows = reader.deserialize();
    while let Some(row) = rows.next() {
        match row {
            Ok(row) => take(row),
            Err(error) => {
                if let csv::ErrorKind::Io(_) = error.kind() {
                    return Err(ReadError::Io { path: path.to_path_buf(), source: error.into() });
                }
                let line = error.position().map_or(1, |position| usize::try_from(position.line()).unwrap_or(0));
                if rows.next().is_some() || torn {
                    return Err(ReadError::Line { path: path.to_path_buf(), line, reason: reason(&error) });
                }
                torn = true;
            }
        }
    }
    Ok(torn)
}

fn reason(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => err.to_string(),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} columns where the header has {expected_len}")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
