//! CSV files that values come from, read whole before the load. It must not be touched by a thread that runs, other than to
//! read a cell.

use std::path::Path;

use experiment::plan;

use crate::Error;

/// A CSV file in memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Feed {
    name: String,
    random: bool,
    columns: Vec<String>,
    text: Vec<u8>,
    /// Where each cell ends in `text`, row by row.
    ends: Vec<usize>,
}

impl Feed {
    /// Reads the feed; its file is relative to `folder`.
    ///
    /// # Errors
    /// If the file cannot be read, is not CSV, or has no row.
    pub fn read(feed: &plan::Feed, folder: &Path) -> Result<Self, Error> {
        let path = folder.join(&feed.file);
        let wrong = |reason: String| Error::Feed { feed: feed.name.clone(), reason };
        let mut reader =
            csv::Reader::from_path(&path).map_err(|error| wrong(format!("{}: {error}", path.display())))?;
        let columns = reader.headers().map_err(|error| wrong(error.to_string()))?;
        let mut read = Self {
            name: feed.name.clone(),
            random: feed.random,
            columns: columns.iter().map(str::to_owned).collect(),
            ..Self::default()
        };
        for row in reader.byte_records() {
            for cell in &row.map_err(|error| wrong(error.to_string()))? {
                read.text.extend_from_slice(cell);
                read.ends.push(read.text.len());
            }
        }
        if read.rows() == 0 {
            return Err(wrong(format!("{} has no row below its header line", path.display())));
        }
        Ok(read)
    }

    /// Its name in templates.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether each cycle takes a random row instead of the next one.
    pub fn is_random(&self) -> bool {
        self.random
    }

    /// The words of its header line.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The number of a column.
    pub fn column(&self, name: &str) -> Option<u16> {
        self.columns.iter().position(|column| column == name).and_then(|place| u16::try_from(place).ok())
    }

    /// Rows below the header line.
    pub fn rows(&self) -> u32 {
        let rows = self.ends.len().checked_div(self.columns.len()).unwrap_or(0);
        u32::try_from(rows).unwrap_or(u32::MAX)
    }

    /// The cell in that row and column.
    pub fn cell(&self, row: u32, column: u16) -> &[u8] {
        let place = row as usize * self.columns.len() + usize::from(column);
        let start = place.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(place).and_then(|end| self.text.get(start..*end)).unwrap_or(b"")
    }
}
