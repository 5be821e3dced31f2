//! Checks of CSV that the lenient `csv` reader does not make: unclosed quotes and repeated column
//! names.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use csv::StringRecord;

/// A reader that passes the bytes of a CSV file through and tracks quotes.
pub struct CsvText<R> {
    input: R,
    delimiter: u8,
    place: CsvPlace,
    line: u64,
    /// Line in which the last quotes began.
    opened: u64,
    /// Number of bytes of a byte order mark seen at the beginning.
    mark: usize,
    has_ended: bool,
}

/// Position of a byte in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CsvPlace {
    FieldStart,
    Field,
    Quoted,
    /// A quote inside quotes: the closing quote, or the first half of a doubled quote.
    QuoteInQuoted,
}

const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

impl<R> CsvText<R> {
    /// Wraps `input`. `delimiter` is the byte between two columns.
    pub fn new(input: R, delimiter: u8) -> Self {
        Self { input, delimiter, place: CsvPlace::FieldStart, line: 1, opened: 0, mark: 0, has_ended: false }
    }

    /// Returns an error if the text has ended inside quotes. The error names the line in which the
    /// quotes begin.
    pub fn check_end(&self) -> Result<(), String> {
        if self.has_ended && self.place == CsvPlace::Quoted {
            return Err(format!("line {}: a quote is opened and never closed", self.opened));
        }
        Ok(())
    }

    fn see(&mut self, byte: u8) {
        if self.mark < BYTE_ORDER_MARK.len() && byte == BYTE_ORDER_MARK[self.mark] {
            self.mark += 1;
            return;
        }
        self.mark = BYTE_ORDER_MARK.len();
        self.line += u64::from(byte == b'\n');
        self.place = match (self.place, byte) {
            (CsvPlace::Quoted, b'"') => CsvPlace::QuoteInQuoted,
            (CsvPlace::Quoted, _) => CsvPlace::Quoted,
            (CsvPlace::QuoteInQuoted, b'"') => CsvPlace::Quoted,
            (_, b'\r' | b'\n') => CsvPlace::FieldStart,
            (_, other) if other == self.delimiter => CsvPlace::FieldStart,
            (CsvPlace::FieldStart, b'"') => {
                self.opened = self.line;
                CsvPlace::Quoted
            }
            _ => CsvPlace::Field,
        };
    }
}

impl<R: Read> Read for CsvText<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        buffer[..count].iter().for_each(|byte| self.see(*byte));
        self.has_ended |= count == 0 && !buffer.is_empty();
        Ok(count)
    }
}

/// Opens a CSV file. The reader removes the blanks around cells.
pub fn open(path: &Path) -> io::Result<csv::Reader<CsvText<File>>> {
    let file = File::open(path)?;
    Ok(csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(CsvText::new(file, b',')))
}

/// Returns the names of the columns.
///
/// # Errors
/// Returns an error if two columns have the same name.
pub fn columns(header: &StringRecord) -> Result<Vec<String>, String> {
    let columns: Vec<String> = header.iter().map(str::to_owned).collect();
    let twice = columns.iter().enumerate().find(|(place, name)| columns[..*place].contains(name));
    match twice {
        Some((_, name)) => Err(format!("line 1 names the column `{name}` twice")),
        None => Ok(columns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(text: &str) -> Result<(), String> {
        let mut input = CsvText::new(text.as_bytes(), b',');
        let mut read = Vec::new();
        input.read_to_end(&mut read).unwrap();
        assert_eq!(read, text.as_bytes());
        input.check_end()
    }

    #[test]
    fn unclosed_quotes_are_reported_with_their_line() {
        for (text, line) in [
            ("id,name\n1,\"a\n2,b\n", 2),
            ("\"id", 1),
            ("\u{feff}\"id\n", 1),
            ("a\r\n\"x\"\r\n\"y\"\"\r\n", 3),
            ("a,b\n1,\"x\ny\"\n2,\"\n", 4),
            ("a\n\"\"\"\n", 2),
        ] {
            assert_eq!(ends(text), Err(format!("line {line}: a quote is opened and never closed")), "{text:?}");
        }
        for text in [
            "",
            "a\n1\n",
            "a\n\"1\"",
            "a\n\"\"",
            "a\n\"x\n\"\"y\"\"\"\n",
            "a\n5\" pipe\n",
            "a\n\"x\"y\"\n",
            "\u{feff}\"a\"\n",
        ] {
            assert_eq!(ends(text), Ok(()), "{text:?}");
        }
    }

    #[test]
    fn unclosed_quotes_match_the_csv_reader() {
        // A line end after the text belongs to the last cell only inside quotes.
        for number in 0..4_u32.pow(7) {
            let text: String =
                (0..7).map(|digit| [b'"', b',', b'\n', b'x'][(number >> (2 * digit)) as usize % 4] as char).collect();
            let cells = |text: &str| {
                let mut reader =
                    csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
                reader
                    .records()
                    .map(|record| record.unwrap())
                    .last()
                    .and_then(|record| record.iter().next_back().map(str::len))
            };
            let (bare, more) = (cells(&format!("{text}\u{1}")), cells(&format!("{text}\u{1}\n")));
            assert_eq!(ends(&format!("{text}\u{1}")).is_err(), bare != more, "{text:?}");
        }
    }
}
