//! `load.hlog`: a HdrHistogram V2 interval log (log format 1.3) that the standard readers open; values are nanoseconds.
//! It must not merge or judge histograms.
//!
//! The format is that of `HistogramLogWriter` in the Java HdrHistogram: header comments, then a line
//! `Tag=…,start,length,max,payload` per interval, the payload being a compressed V2 histogram in base64. The third number is
//! for people only and, as there, in milliseconds. With a `StartTime` and no `BaseTime`, readers take starts that are
//! much smaller than it as seconds after it.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogHistogram, IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};

use crate::events::Outcome;
use crate::whole_lines::{LineFile, ReadError, read_lines};

mod payload;

use payload::Decoder;
pub use payload::{Bucket, Counts};

const NS_PER_MS: f64 = 1e6;

/// Which of its two times a histogram holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Time {
    /// From the intended start to the answer.
    Latency,
    /// From the send to the answer.
    Service,
}

/// What the histogram of an interval is about: `save/ok/latency`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// Name of the operation: `[a-z0-9_-]+`.
    pub operation: String,
    /// How these operations ended.
    pub outcome: Outcome,
    /// Which time.
    pub time: Time,
}

impl Tag {
    /// The tag for this text; `None` if it is not one of ours.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let (operation, outcome, time) = (parts.next()?, parts.next()?, parts.next()?);
        let named = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if parts.next().is_some() || operation.is_empty() || !operation.bytes().all(named) {
            return None;
        }
        let outcome = Outcome::ALL.into_iter().find(|known| known.name() == outcome)?;
        let time = match time {
            "latency" => Time::Latency,
            "service" => Time::Service,
            _ => return None,
        };
        Some(Self { operation: operation.to_owned(), outcome, time })
    }
}

impl std::fmt::Display for Tag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = match self.time {
            Time::Latency => "latency",
            Time::Service => "service",
        };
        write!(f, "{}/{}/{time}", self.operation, self.outcome.name())
    }
}

/// Writes an interval log.
pub struct Writer {
    file: LineFile,
    serializer: V2DeflateSerializer,
    payload: Vec<u8>,
    line: String,
}

impl Writer {
    /// Begins a log whose intervals count from the Unix time `unix_start_s`.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path, unix_start_s: f64) -> io::Result<Self> {
        let mut file = LineFile::create(path)?;
        file.write(header(unix_start_s).as_bytes())?;
        file.flush()?;
        Ok(Self { file, serializer: V2DeflateSerializer::new(), payload: Vec::new(), line: String::new() })
    }

    /// Adds the histogram of an interval; `start_s` counts from the log's start and is not negative.
    ///
    /// # Errors
    /// If the tag or a time cannot stand in such a log, or the file not be written.
    pub fn write(&mut self, tag: &str, start_s: f64, length_s: f64, histogram: &Histogram<u64>) -> io::Result<()> {
        let lone = tag.is_empty() || tag.contains([',', ' ', '\r', '\n']);
        if lone || !(start_s >= 0.0 && start_s.is_finite() && length_s >= 0.0 && length_s.is_finite()) {
            let what = format!("`{tag}` at {start_s} s for {length_s} s cannot stand in an interval log");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.payload.clear();
        self.serializer.serialize(histogram, &mut self.payload).map_err(|error| io::Error::other(error.to_string()))?;
        self.line.clear();
        let max_ms = histogram.max() as f64 / NS_PER_MS;
        write!(self.line, "Tag={tag},{start_s:.3},{length_s:.3},{max_ms:.3},").map_err(io::Error::other)?;
        BASE64.encode_string(&self.payload, &mut self.line);
        self.line.push('\n');
        self.file.write(self.line.as_bytes())
    }

    /// Hands everything to the kernel: after that a SIGKILL of this process loses nothing.
    ///
    /// # Errors
    /// If the file cannot be written. What was not yet on its way is lost then; the file still ends in a whole line.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn header(unix_start_s: f64) -> String {
    let date = jiff::Timestamp::from_millisecond((unix_start_s * 1e3).round() as i64)
        .map_or_else(|_| "?".to_owned(), |at| at.strftime("%a %b %d %H:%M:%S UTC %Y").to_string());
    format!(
        "#[Values are nanoseconds; Interval_Max is in milliseconds]\n\
         #[Histogram log format version 1.3]\n\
         #[StartTime: {unix_start_s:.3} (seconds since epoch), {date}]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"HdrHistogram_CompressedBase64\"\n"
    )
}

/// An interval log, as far as it is whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Log {
    /// The intervals, in file order; empty after [`visit`], which has handed them over.
    pub intervals: Vec<Interval>,
    /// Unix time that the intervals count from, seconds; `None` if the file is missing or was cut off before it.
    pub start_unix_s: Option<f64>,
    /// Whether a last line was cut off and dropped.
    pub torn: bool,
}

/// One line of an interval log.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// The tag as written, empty if there is none; see [`Tag::parse`].
    pub tag: String,
    /// Start, seconds since the log's start.
    pub start_s: f64,
    /// Length, seconds.
    pub length_s: f64,
    /// The values, nanoseconds.
    pub histogram: Histogram<u64>,
}

/// One line of an interval log with what its histogram holds, and not the histogram itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counted {
    /// The tag as written, empty if there is none; see [`Tag::parse`].
    pub tag: String,
    /// Start, seconds since the log's start.
    pub start_s: f64,
    /// Length, seconds.
    pub length_s: f64,
    /// The values, nanoseconds.
    pub counts: Counts,
}

impl From<&Interval> for Counted {
    fn from(interval: &Interval) -> Self {
        Self {
            tag: interval.tag.clone(),
            start_s: interval.start_s,
            length_s: interval.length_s,
            counts: Counts::of(&interval.histogram),
        }
    }
}

/// Reads an interval log and shows its intervals one by one, in file order. One is held at a time, and no histogram at all: one of
/// these takes some 200 KB, and a night has a hundred thousand. A missing file is an empty one; a last line that was cut off is dropped and flagged.
///
/// # Errors
/// If the file cannot be read, or a line other than the last one is broken.
pub fn visit(path: &Path, mut take: impl FnMut(&Counted)) -> Result<Log, ReadError> {
    let mut counted = Counted::default();
    visit_lines(path, |line, payload, decoder| {
        decoder.counts(payload, &mut counted.counts)?;
        counted.tag.clear();
        counted.tag.push_str(line.tag().map_or("", |tag| tag.as_str()));
        counted.start_s = line.start_timestamp().as_secs_f64();
        counted.length_s = line.duration().as_secs_f64();
        take(&counted);
        Ok(())
    })
}

/// Reads an interval log whole; for short ones.
///
/// # Errors
/// As [`visit`].
pub fn read(path: &Path) -> Result<Log, ReadError> {
    let mut intervals = Vec::new();
    let mut deserializer = Deserializer::new();
    let log = visit_lines(path, |line, payload, decoder| {
        intervals.push(Interval {
            tag: line.tag().map_or_else(String::new, |tag| tag.as_str().to_owned()),
            start_s: line.start_timestamp().as_secs_f64(),
            length_s: line.duration().as_secs_f64(),
            histogram: decoder.histogram(payload, &mut deserializer)?,
        });
        Ok(())
    })?;
    Ok(Log { intervals, ..log })
}

/// Hands over each interval's line and its payload.
fn visit_lines(
    path: &Path,
    mut take: impl FnMut(&IntervalLogHistogram<'_>, &[u8], &mut Decoder) -> Result<(), String>,
) -> Result<Log, ReadError> {
    let mut log = Log::default();
    let mut decoder = Decoder::new();
    let (mut ended, mut payload) = (Vec::new(), Vec::new());
    let lines = read_lines(path, |line| {
        ended.clear();
        ended.extend_from_slice(line);
        ended.push(b'\n');
        let Some(entry) = IntervalLogIterator::new(&ended).next() else { return Ok(None) };
        match entry.map_err(|_| "not a line of an interval log".to_owned())? {
            LogEntry::StartTime(at) => log.start_unix_s = Some(at.as_secs_f64()),
            LogEntry::BaseTime(_) => {}
            LogEntry::Interval(interval) => {
                payload.clear();
                let encoded = interval.encoded_histogram();
                BASE64.decode_vec(encoded, &mut payload).map_err(|error| error.to_string())?;
                take(&interval, &payload, &mut decoder)?;
            }
        }
        Ok(None::<()>)
    })?;
    log.torn = lines.torn;
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn histogram(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        for &value in values {
            histogram.record(value).unwrap();
        }
        histogram
    }

    fn written(scratch: &Scratch) -> std::path::PathBuf {
        let path = scratch.path("load.hlog");
        let mut writer = Writer::create(&path, 1_795_170_665.25).unwrap();
        writer.write("save/ok/latency", 0.0, 1.0, &histogram(&[1_000, 2_000_000, 2_000_000])).unwrap();
        writer.write("save/ok/service", 0.0, 1.0, &histogram(&[900])).unwrap();
        writer.write("save/failed/latency", 1.0, 1.0, &histogram(&[59_000_000_000])).unwrap();
        writer.flush().unwrap();
        path
    }

    #[test]
    fn what_is_written_is_read_with_exact_counts() {
        let scratch = Scratch::new("hlog");
        let log = read(&written(&scratch)).unwrap();
        assert_eq!(log.start_unix_s, Some(1_795_170_665.25));
        assert!(!log.torn);
        let seen: Vec<_> = log
            .intervals
            .iter()
            .map(|one| (one.tag.as_str(), one.start_s, one.length_s, one.histogram.len()))
            .collect();
        assert_eq!(
            seen,
            [("save/ok/latency", 0.0, 1.0, 3), ("save/ok/service", 0.0, 1.0, 1), ("save/failed/latency", 1.0, 1.0, 1)]
        );
        assert_eq!(log.intervals[0].histogram, histogram(&[1_000, 2_000_000, 2_000_000]));
    }

    #[test]
    fn the_text_is_that_of_the_standard_log_writer() {
        let scratch = Scratch::new("hlog");
        let text = std::fs::read_to_string(written(&scratch)).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "#[Values are nanoseconds; Interval_Max is in milliseconds]",
                "#[Histogram log format version 1.3]",
                "#[StartTime: 1795170665.250 (seconds since epoch), Fri Nov 20 10:31:05 UTC 2026]",
                "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"HdrHistogram_CompressedBase64\"",
            ]
        );
        // `HISTFAAA` is how a compressed V2 histogram begins in base64; other readers know it by that.
        assert!(lines[4].starts_with("Tag=save/ok/latency,0.000,1.000,2.001,HISTFAAA"), "{}", lines[4]);
        assert_eq!(lines.len(), 7);
    }

    #[test]
    fn a_file_cut_off_at_any_byte_is_readable_up_to_there() {
        let scratch = Scratch::new("hlog");
        let path = written(&scratch);
        let (whole, all) = (std::fs::read(&path).unwrap(), read(&path).unwrap());
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let lines = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
            let log = read(&path).unwrap();
            assert_eq!(log.intervals, all.intervals[..lines.saturating_sub(4)], "cut at {cut}");
            assert_eq!(log.start_unix_s.is_some(), lines >= 3, "cut at {cut}");
            assert_eq!(log.torn, cut > 0 && whole[cut - 1] != b'\n', "cut at {cut}");
        }
    }

    #[test]
    fn a_broken_line_in_the_middle_is_an_error() {
        let scratch = Scratch::new("hlog");
        let path = written(&scratch);
        let text = std::fs::read_to_string(&path).unwrap();
        for broken in ["Tag=save/ok/service,0.000,1.000,0.001,HISTFA", "nonsense"] {
            let mut lines: Vec<_> = text.lines().collect();
            lines[5] = broken;
            std::fs::write(&path, lines.join("\n") + "\n").unwrap();
            let message = read(&path).unwrap_err().to_string();
            assert!(message.contains("load.hlog:6: "), "{message}");
        }
    }

    #[test]
    fn what_a_log_line_cannot_hold_is_refused() {
        let scratch = Scratch::new("hlog");
        let mut writer = Writer::create(&scratch.path("load.hlog"), 0.0).unwrap();
        let empty = histogram(&[]);
        for (tag, start_s) in
            [("a,b", 0.0), ("", 0.0), ("a b", 0.0), ("a", -1.0), ("a", f64::NAN), ("a", f64::INFINITY)]
        {
            assert!(writer.write(tag, start_s, 1.0, &empty).is_err(), "{tag} {start_s}");
        }
        writer.write("a", 0.0, 1.0, &empty).unwrap();
    }

    #[test]
    fn tags_are_read_as_they_are_written() {
        for outcome in Outcome::ALL {
            for time in [Time::Latency, Time::Service] {
                let tag = Tag { operation: "save_for-good2".into(), outcome, time };
                assert_eq!(Tag::parse(&tag.to_string()), Some(tag));
            }
        }
        for foreign in
            ["", "save", "save/ok", "save/ok/latency/x", "save/good/latency", "save/ok/time", "Save/ok/latency"]
        {
            assert_eq!(Tag::parse(foreign), None, "{foreign}");
        }
    }
}
