//! Feeds: files of records for values, as CSV or JSON lines, optionally compressed. A feed is held
//! in memory completely, unless it is a stream. `feed_stream` reads streams ahead, so only a few
//! records of a stream are in memory.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use csv::ByteRecord;
use experiment::plan::{self, FeedFormat, FeedPacking};
use serde::de::IgnoredAny;

use crate::error::Error;
use crate::feed_stream::FeedQueue;
use crate::input_files::InputFiles;
use crate::pointer::CompiledPointer;
use crate::values::csv_text::{self, CsvText};

/// Longest record, bytes. Without this limit, a file without line ends would use up the machine's
/// memory.
const LONGEST: u64 = 64 * 1024 * 1024;
/// Number of bytes read at a time.
const AT_ONCE: usize = 64 * 1024;

/// Uncompressed bytes of a file.
type Unpacked = Box<dyn Read + Send>;

/// Reads the records of a file one after the other.
pub struct RecordReader {
    records: RecordSource,
    batch: u32,
    before: Vec<u8>,
}

enum RecordSource {
    /// CSV, with the names of the columns if the file has no header line.
    Csv {
        reader: Box<csv::Reader<CsvText<Unpacked>>>,
        record: ByteRecord,
        columns: Vec<String>,
    },
    Json {
        input: BufReader<Unpacked>,
        line: u64,
    },
}

impl RecordReader {
    /// Makes a reader for the feed. `packed` reads the feed's file.
    ///
    /// # Errors
    /// Returns an error if the compression format is not valid.
    pub fn of(feed: &plan::Feed, packed: impl Read + Send + 'static) -> io::Result<Self> {
        let (format, packing) = feed.format();
        let input: Unpacked = match packing {
            FeedPacking::Plain => Box::new(packed),
            FeedPacking::Gzip => Box::new(flate2::read::MultiGzDecoder::new(packed)),
            FeedPacking::Zstd => Box::new(zstd::Decoder::new(packed)?),
            FeedPacking::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(packed)),
        };
        let records = match format {
            FeedFormat::Csv => {
                let mut builder = csv::ReaderBuilder::new();
                builder.buffer_capacity(AT_ONCE).delimiter(feed.delimiter_byte()).has_headers(feed.columns.is_empty());
                RecordSource::Csv {
                    reader: Box::new(builder.from_reader(CsvText::new(input, feed.delimiter_byte()))),
                    record: ByteRecord::new(),
                    columns: feed.columns.clone(),
                }
            }
            FeedFormat::JsonLines => RecordSource::Json { input: BufReader::with_capacity(AT_ONCE, input), line: 0 },
        };
        let before = feed.before.as_ref().map(|before| format!("{before}\n").into_bytes()).unwrap_or_default();
        Ok(Self { records, batch: feed.batch.max(1), before })
    }

    /// Returns the names of the cells in each record.
    fn columns(&mut self) -> Result<Vec<String>, String> {
        match &mut self.records {
            RecordSource::Csv { columns, .. } if !columns.is_empty() => Ok(columns.clone()),
            RecordSource::Csv { reader, .. } => {
                let columns = csv_text::columns(reader.headers().map_err(|error| broken_csv(&error))?)?;
                reader.get_ref().check_end()?;
                Ok(columns)
            }
            RecordSource::Json { .. } => Ok(vec!["lines".to_owned()]),
        }
    }

    /// Appends the next record, or for JSON lines the next batch of records, to `text`, and the end
    /// of each cell to `ends`. Returns the number of records, 0 at the end of the file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or the record is not valid.
    pub fn next(&mut self, text: &mut Vec<u8>, ends: &mut Vec<usize>) -> Result<u64, String> {
        match &mut self.records {
            RecordSource::Csv { reader, record, columns } => next_row(reader, record, columns, text, ends),
            RecordSource::Json { input, line } => {
                let mut count = 0;
                while count < u64::from(self.batch) {
                    let from = text.len();
                    text.extend_from_slice(&self.before);
                    if !next_line(input, line, text)? {
                        text.truncate(from);
                        break;
                    }
                    count += 1;
                }
                if count > 0 {
                    ends.push(text.len());
                }
                Ok(count)
            }
        }
    }
}

/// Appends the next row. `columns` are the names that a file without a header line was given.
fn next_row(
    reader: &mut csv::Reader<CsvText<Unpacked>>,
    record: &mut ByteRecord,
    columns: &[String],
    text: &mut Vec<u8>,
    ends: &mut Vec<usize>,
) -> Result<u64, String> {
    let read = reader.read_byte_record(record);
    // The reader treats all text after an unclosed quote as one cell.
    reader.get_ref().check_end()?;
    match read {
        Ok(false) => Ok(0),
        Ok(true) if !columns.is_empty() && record.len() != columns.len() => {
            let line = record.position().map_or(0, csv::Position::line);
            Err(format!("line {line} has {} columns, and `columns` names {}", record.len(), columns.len()))
        }
        Ok(true) => {
            for cell in record.iter() {
                text.extend_from_slice(cell);
                ends.push(text.len());
            }
            Ok(1)
        }
        Err(error) => {
            let is_last = matches!(reader.read_byte_record(record), Ok(false));
            Err(match error.kind() {
                csv::ErrorKind::UnequalLengths { expected_len, len, pos } if is_last && len < expected_len => {
                    let line = pos.as_ref().map_or(0, csv::Position::line);
                    format!("it ends in mid-line: line {line} has {len} of {expected_len} columns")
                }
                _ => broken_csv(&error),
            })
        }
    }
}

/// Appends the next line that is not blank, with a line end. Returns false if no such line is left.
fn next_line(input: &mut BufReader<Unpacked>, number: &mut u64, text: &mut Vec<u8>) -> Result<bool, String> {
    loop {
        let from = text.len();
        let read = input.by_ref().take(LONGEST).read_until(b'\n', text).map_err(|error| broken(&error))?;
        if read == 0 {
            return Ok(false);
        }
        *number += 1;
        let is_whole = text.last() == Some(&b'\n');
        let line = text[from..].trim_ascii();
        if line.is_empty() {
            text.truncate(from);
            continue;
        }
        if !is_whole && read as u64 == LONGEST {
            return Err(format!("line {number} is longer than {} MiB", LONGEST >> 20));
        }
        if !is_whole && serde_json::from_slice::<IgnoredAny>(line).is_err() {
            return Err(format!("it ends in mid-line: line {number} is no whole JSON"));
        }
        if !(line.starts_with(b"{") && line.ends_with(b"}")) {
            return Err(format!("line {number} is no JSON object, of which each line has one"));
        }
        let length = text[from..].trim_ascii_end().len();
        text.truncate(from + length);
        text.push(b'\n');
        return Ok(true);
    }
}

fn broken(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("it is cut off in mid-file: {error}"),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other => {
            format!("it cannot be unpacked: {error}")
        }
        _ => error.to_string(),
    }
}

fn broken_csv(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Io(error) => broken(error),
        _ => error.to_string(),
    }
}

/// A feed, with its records if they are held in memory.
#[derive(Debug)]
pub struct FeedRows {
    name: String,
    random: bool,
    format: FeedFormat,
    batch: u32,
    /// Length of the feed's constant line before each record, bytes.
    before: usize,
    columns: Vec<String>,
    /// All records, or the first record of a stream.
    text: Vec<u8>,
    /// End of each cell in `text`, record by record.
    ends: Vec<usize>,
    /// Source of a stream's records.
    stream: Option<Arc<FeedQueue>>,
    /// Whether a template has used the feed since the last check.
    is_used: AtomicBool,
}

/// The record that an agent has taken from a feed.
#[derive(Debug, Clone, Default)]
pub struct TakenRecord {
    /// Index of the record, for a feed in memory.
    pub row: u32,
    /// Text of a stream's record.
    pub text: Vec<u8>,
    /// End of each cell in `text`.
    pub ends: Vec<usize>,
}

/// A part of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum FeedPart {
    /// A cell: a column of CSV, or all lines of a batch of JSON lines.
    Cell(u16),
    /// A single JSON line, without its end.
    Line,
    /// A value in a single JSON line.
    Place(CompiledPointer),
}

impl FeedRows {
    /// Reads the feed, or the first record of a stream.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, does not match its format, or has no record.
    pub fn read(feed: &plan::Feed, files: &InputFiles) -> Result<Self, Error> {
        let path = files.path(&feed.file);
        let wrong =
            |reason: String| Error::Feed { feed: feed.name.clone(), reason: format!("{}: {reason}", path.display()) };
        let file = std::fs::File::open(&path).map_err(|error| wrong(error.to_string()))?;
        // Only a regular file can be read twice.
        if feed.stream && !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(wrong("a stream takes a regular file".to_owned()));
        }
        let mut reader = RecordReader::of(feed, file).map_err(|error| wrong(broken(&error)))?;
        let mut read = Self {
            name: feed.name.clone(),
            random: feed.random,
            format: feed.format().0,
            batch: feed.batch,
            before: reader.before.len(),
            columns: reader.columns().map_err(wrong)?,
            text: Vec::new(),
            ends: Vec::new(),
            stream: feed.stream.then(|| Arc::new(FeedQueue::new(feed.clone(), path.clone()))),
            is_used: AtomicBool::new(false),
        };
        while reader.next(&mut read.text, &mut read.ends).map_err(wrong)? > 0 && !feed.stream {}
        if read.rows() == 0 {
            return Err(wrong(match read.format {
                FeedFormat::Csv => "it has no row of values".to_owned(),
                FeedFormat::JsonLines => "it has no record".to_owned(),
            }));
        }
        Ok(read)
    }

    /// Reads the feed, or returns `None` if the file is not a regular file, because other files may
    /// give their bytes only once.
    pub fn read_regular(feed: &plan::Feed, files: &InputFiles) -> Result<Option<Self>, Error> {
        let is_other = std::fs::metadata(files.path(&feed.file)).is_ok_and(|file| !file.is_file());
        if is_other { Ok(None) } else { Self::read(feed, files).map(Some) }
    }

    /// Returns the feed's name in templates.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether each cycle takes a random record instead of the next one.
    pub fn is_random(&self) -> bool {
        self.random
    }

    /// Returns the source of a stream's records.
    pub fn stream(&self) -> Option<&Arc<FeedQueue>> {
        self.stream.as_ref()
    }

    /// Returns the number of records in memory.
    pub fn rows(&self) -> u32 {
        let rows = self.ends.len().checked_div(self.columns.len()).unwrap_or(0);
        u32::try_from(rows).unwrap_or(u32::MAX)
    }

    /// Whether a template has used the feed since the last call.
    pub fn take_use(&self) -> bool {
        self.is_used.swap(false, Ordering::Relaxed)
    }

    /// Returns the part of a record with this name.
    pub fn part(&self, name: &str) -> Result<FeedPart, String> {
        let feed = &self.name;
        self.is_used.store(true, Ordering::Relaxed);
        match (self.format, name) {
            (FeedFormat::Csv, _) => {
                let place = self.columns.iter().position(|column| column == name);
                let place = place.and_then(|place| u16::try_from(place).ok()).map(FeedPart::Cell);
                place.ok_or_else(|| format!("feed `{feed}` has no column `{name}`; it has {}", self.columns.join(", ")))
            }
            (FeedFormat::JsonLines, "lines") => Ok(FeedPart::Cell(0)),
            (FeedFormat::JsonLines, _) if self.batch > 1 => Err(format!(
                "feed `{feed}` is taken {} records at a time, and only {{feed.{feed}.lines}} is of all of them",
                self.batch
            )),
            (FeedFormat::JsonLines, "line") => Ok(FeedPart::Line),
            (FeedFormat::JsonLines, _) => {
                let place = CompiledPointer::compile(&format!("/{name}"))?;
                match place.find(self.line(self.cell(&self.text, &self.ends, 0, 0)), &mut Vec::new()) {
                    Some(_) => Ok(FeedPart::Place(place)),
                    None => Err(format!("the first record of feed `{feed}` has no `{name}`")),
                }
            }
        }
    }

    /// Appends a part of the taken record.
    pub fn write(&self, taken: &TakenRecord, part: &FeedPart, out: &mut Vec<u8>) {
        let cell = |column: u16| match self.stream {
            Some(_) => self.cell(&taken.text, &taken.ends, 0, column),
            None => self.cell(&self.text, &self.ends, taken.row, column),
        };
        match part {
            FeedPart::Cell(column) => out.extend_from_slice(cell(*column)),
            FeedPart::Line => out.extend_from_slice(self.line(cell(0))),
            FeedPart::Place(place) => {
                out.extend_from_slice(place.find(self.line(cell(0)), &mut Vec::new()).unwrap_or_default());
            }
        }
    }

    /// Returns the first of the values in memory for which `is_wanted` is true. Looks at no more
    /// than 10,000 records.
    pub fn first_value(&self, name: &str, is_wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let part = self.part(name).ok()?;
        let first = TakenRecord { row: 0, text: self.text.clone(), ends: self.ends.clone() };
        let mut taken = if self.stream.is_some() { first } else { TakenRecord::default() };
        (0..self.rows().min(10_000)).find_map(|row| {
            taken.row = row;
            let mut value = Vec::new();
            self.write(&taken, &part, &mut value);
            is_wanted(&value).then_some(value)
        })
    }

    fn cell<'a>(&self, text: &'a [u8], ends: &[usize], row: u32, column: u16) -> &'a [u8] {
        let place = row as usize * self.columns.len() + usize::from(column);
        let start = place.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
        ends.get(place).and_then(|end| text.get(start..*end)).unwrap_or(b"")
    }

    /// Returns the record without the line before it and without its line end.
    fn line<'a>(&self, lines: &'a [u8]) -> &'a [u8] {
        lines.get(self.before..lines.len().saturating_sub(1)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use fixture::TestDir;

    use super::*;
    use crate::testing::{feed, source};
    use crate::values::{CompiledTemplate, TemplateNames, ValueSource};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn bzip2(bytes: &[u8]) -> Vec<u8> {
        let mut packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    /// Returns the records of a file, or the reason why they cannot be read.
    fn records(feed: &plan::Feed, bytes: &[u8]) -> Result<Vec<String>, String> {
        let mut reader = RecordReader::of(feed, io::Cursor::new(bytes.to_vec())).unwrap();
        reader.columns()?;
        let mut records = Vec::new();
        loop {
            let (mut text, mut ends) = (Vec::new(), Vec::new());
            if reader.next(&mut text, &mut ends)? == 0 {
                return Ok(records);
            }
            records.push(String::from_utf8(text).unwrap());
        }
    }

    #[test]
    fn columns_have_any_delimiter_and_need_no_header_line() {
        let feed = |delimiter: &str, columns: &[&str]| plan::Feed {
            delimiter: Some(delimiter.to_owned()),
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            ..feed("d.csv")
        };
        let (named, unnamed) = (feed(";", &[]), feed("\t", &["id", "name"]));
        assert_eq!(records(&named, b"id;name\n1;\"a;b\"\n2;c,d\n").unwrap(), ["1a;b", "2c,d"]);
        assert_eq!(records(&unnamed, b"1\ta b\n2\t\"c\td\"\n").unwrap(), ["1a b", "2c\td"]);
        assert_eq!(records(&named, b"id;name\n1;\"a\n"), Err("line 2: a quote is opened and never closed".to_owned()));
        let error = records(&unnamed, b"1\ta\tb\n").unwrap_err();
        assert_eq!(error, "line 1 has 3 columns, and `columns` names 2");
    }

    #[test]
    fn compressed_files_give_the_same_records() {
        let lines: String = (0..2_000).map(|number| format!("{{\"id\": {number}}}\n")).collect();
        let plain = records(&feed("d.json"), lines.as_bytes()).unwrap();
        assert_eq!((plain.len(), plain[7].as_str()), (2_000, "{\"id\": 7}\n"));
        // A file compressed in several pieces is read as one.
        let (one, other) = lines.as_bytes().split_at(lines.len() / 2);
        let zst = |bytes| zstd::encode_all(bytes, 3).unwrap();
        let packings =
            [("gz", [gzip(one), gzip(other)]), ("zst", [zst(one), zst(other)]), ("bz2", [bzip2(one), bzip2(other)])];
        for (end, parts) in packings {
            let feed = feed(&format!("d.ndjson.{end}"));
            let packed = parts.concat();
            assert_eq!(records(&feed, &packed).as_ref(), Ok(&plain), "{end}");
            let cut = records(&feed, &packed[..packed.len() - 20]).unwrap_err();
            assert!(cut.contains("cut off in mid-file"), "{end}: {cut}");
            let other = records(&feed, lines.as_bytes()).unwrap_err();
            assert!(other.contains("cannot be unpacked"), "{end}: {other}");
        }
    }

    #[test]
    fn malformed_files_are_reported_with_their_line() {
        for (file, text, told) in [
            ("d.json", "{\"a\": 1}\n{\"a\": ", "it ends in mid-line: line 2"),
            ("d.json", "{\"a\": 1}\n\n {\"a\": 2}\r\n{\"a\": 3}x", "it ends in mid-line: line 4"),
            ("d.jsonl", "[\n", "line 1 is no JSON object"),
            ("d.csv", "a,b\n1,2\n3", "it ends in mid-line: line 3 has 1 of 2 columns"),
            ("d.csv", "a,b\n3\n1,2\n", "found record with 1 fields"),
            ("d.csv", "id,name\n1,\"a\n2,b\n", "line 2: a quote is opened and never closed"),
            ("d.csv", "id,name\n1,a\n\"2", "line 3: a quote is opened and never closed"),
            ("d.csv", "id,\"name\n1,a\n", "line 1: a quote is opened and never closed"),
            ("d.csv", "id,name,id\n1,a,2\n", "line 1 names the column `id` twice"),
        ] {
            let said = records(&feed(file), text.as_bytes()).unwrap_err();
            assert!(said.contains(told), "{text:?}: {said}");
        }
        let whole = records(&feed("d.json"), b"{\"a\": 1}\r\n\n {\"b\": 2}").unwrap();
        assert_eq!(whole, ["{\"a\": 1}\n", " {\"b\": 2}\n"], "the last line need not have an end");
    }

    #[test]
    fn batched_records_have_a_line_before_each() {
        let feed = plan::Feed { batch: 2, before: Some("{\"index\":{}}".into()), ..feed("d.json") };
        let records = records(&feed, b"{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n").unwrap();
        let line = |number| format!("{{\"index\":{{}}}}\n{{\"a\":{number}}}\n");
        assert_eq!(records, [line(1) + &line(2), line(3)], "the last ones are fewer");
    }

    fn written(feed: FeedRows, text: &str, taken: TakenRecord) -> Result<String, String> {
        let feeds = [feed];
        let names = TemplateNames { feeds: &feeds, ..TemplateNames::default() };
        let template = CompiledTemplate::compile(text, 0, &names)?;
        let mut out = Vec::new();
        template.write(&ValueSource { feeds: &feeds, records: &[taken], ..source(1, 1) }, &mut out);
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn parts_of_rows_in_memory() {
        let scratch = TestDir::new();
        fs::write(scratch.join("users.csv"), "name,mail\nann,a@x\n\"b,ob\",b@x\n").unwrap();
        fs::write(scratch.join("empty.csv"), "name\n").unwrap();
        fs::write(scratch.join("docs.json"), "{\"id\": 1, \"a\": {\"b\": \"x\"}}\n{\"id\": 2, \"a\": {}}\n").unwrap();
        fs::write(scratch.join("docs.json.gz"), gzip(b"\n")).unwrap();
        let read = |file: &str| FeedRows::read(&feed(file), &InputFiles::below(&*scratch));
        let row = |row| TakenRecord { row, ..TakenRecord::default() };
        let of = |file: &str, text: &str, taken: u32| written(read(file).unwrap(), text, row(taken));
        assert_eq!(of("users.csv", "{feed.docs.mail}:{feed.docs.name}", 0).unwrap(), "a@x:ann");
        assert_eq!(of("users.csv", "{feed.docs.mail}:{feed.docs.name}", 1).unwrap(), "b@x:b,ob");
        assert!(of("users.csv", "{feed.docs.age}", 0).unwrap_err().contains("name, mail"));
        assert!(of("users.csv", "{feed.cities.name}", 0).is_err());
        assert_eq!(of("docs.json", "{feed.docs.id} {feed.docs.a/b}", 0).unwrap(), "1 x");
        assert_eq!(
            of("docs.json", "{feed.docs.id} {feed.docs.a/b}|{feed.docs.line}", 1).unwrap(),
            "2 |{\"id\": 2, \"a\": {}}"
        );
        assert_eq!(of("docs.json", "{feed.docs.lines}", 1).unwrap(), "{\"id\": 2, \"a\": {}}\n");
        assert!(
            of("docs.json", "{feed.docs.titel}", 0).unwrap_err().contains("first record of feed `docs` has no `titel`")
        );
        for (file, told) in [("empty.csv", "no row"), ("none.csv", "No such file"), ("docs.json.gz", "no record")] {
            let said = read(file).unwrap_err().to_string();
            assert!(said.contains(told) && said.contains(file), "{said}");
        }
    }

    #[test]
    fn parts_of_a_stream() {
        let scratch = TestDir::new();
        fs::write(scratch.join("docs.json"), "{\"id\": 1}\n{\"id\": 2}\n{\"id\"").unwrap();
        let stream = plan::Feed { stream: true, before: Some("-".into()), ..feed("docs.json") };
        let read = FeedRows::read(&stream, &InputFiles::below(&*scratch)).unwrap();
        assert_eq!(read.rows(), 1, "the rest is read later");
        let taken = TakenRecord { text: b"-\n{\"id\": 9}\n".to_vec(), ends: vec![12], ..TakenRecord::default() };
        let said = written(read, "{feed.docs.id}|{feed.docs.line}|{feed.docs.lines}", taken).unwrap();
        assert_eq!(said, "9|{\"id\": 9}|-\n{\"id\": 9}\n");
        let many = FeedRows::read(&plan::Feed { batch: 2, ..stream.clone() }, &InputFiles::below(&*scratch)).unwrap();
        assert!(written(many, "{feed.docs.id}", TakenRecord::default()).unwrap_err().contains("2 records at a time"));
        let folder =
            FeedRows::read(&plan::Feed { file: ".".into(), ..stream }, &InputFiles::below(&*scratch)).unwrap_err();
        assert!(folder.to_string().contains("regular file"), "{folder}");
    }
}
