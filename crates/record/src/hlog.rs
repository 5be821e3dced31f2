//! `load.hlog`: an HdrHistogram V2 interval log (log format 1.3) that standard readers can open.
//! Values are nanoseconds.
//!
//! The format is that of `HistogramLogWriter` in the Java HdrHistogram: header comments, then a
//! line `Tag=…,start,length,max,payload` per interval. The payload is a compressed V2 histogram in
//! base64. The maximum is for people only and, as in Java, in milliseconds. If there is a
//! `StartTime` and no `BaseTime`, readers treat starts that are much smaller than `StartTime` as
//! seconds since `StartTime`.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::{Decompress, FlushDecompress, Status};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogHistogram, IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};

use crate::checked_file::{LineFile, ReadError, read_lines};
use crate::events::Outcome;

const NS_PER_MS: f64 = 1e6;

/// Kind of time in a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Time {
    /// Time from the intended start to the answer.
    Latency,
    /// Time from the send to the answer.
    Service,
    /// Latency minus the generator's own delay in starting the operation. Recorded only if a timer
    /// starts operations.
    Punctual,
    /// Time from the send to the first byte of the answer. Recorded only for steps that ask for it
    /// or whose answers are streams.
    FirstByte,
    /// Time from the intended start to the first byte of the answer, likewise.
    FirstByteLatency,
    /// Time from the send to the first message of a stream.
    FirstMessage,
    /// Time from the intended start to the first message of a stream.
    FirstMessageLatency,
    /// Time between two messages of a stream. Recorded when the later message arrives, as `ok`: the
    /// outcome of the operation is not known yet.
    Gap,
}

impl Time {
    /// All kinds, each at the index of its discriminant.
    pub const ALL: [Self; 8] = [
        Self::Latency,
        Self::Service,
        Self::Punctual,
        Self::FirstByte,
        Self::FirstByteLatency,
        Self::FirstMessage,
        Self::FirstMessageLatency,
        Self::Gap,
    ];

    /// Returns the last part of a tag.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Service => "service",
            Self::Punctual => "punctual",
            Self::FirstByte => "first_byte",
            Self::FirstByteLatency => "first_byte_latency",
            Self::FirstMessage => "first_message",
            Self::FirstMessageLatency => "first_message_latency",
            Self::Gap => "gap",
        }
    }
}

/// Subject of an interval's histogram: `save/ok/latency`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// Name of the operation: `[a-z0-9_-]+`.
    pub operation: String,
    /// Outcome of the operations.
    pub outcome: Outcome,
    /// Kind of time.
    pub time: Time,
}

impl Tag {
    /// Parses a tag; `None` if it is not in Plimsoll's form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let (operation, outcome, time) = (parts.next()?, parts.next()?, parts.next()?);
        let is_name = operation.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'));
        if parts.next().is_some() || operation.is_empty() || !is_name {
            return None;
        }
        let outcome = Outcome::ALL.into_iter().find(|known| known.name() == outcome)?;
        let time = Time::ALL.into_iter().find(|known| known.name() == time)?;
        Some(Self { operation: operation.to_owned(), outcome, time })
    }
}

impl std::fmt::Display for Tag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.operation, self.outcome.name(), self.time.name())
    }
}

/// Writes an interval log.
pub struct HlogWriter {
    file: LineFile,
    serializer: V2DeflateSerializer,
    payload: Vec<u8>,
    line: String,
}

impl HlogWriter {
    /// Creates a log whose times count from the Unix time `unix_start_s`.
    pub fn create(path: &Path, unix_start_s: f64) -> io::Result<Self> {
        let mut file = LineFile::create(path)?;
        file.write(header(unix_start_s).as_bytes())?;
        file.flush()?;
        Ok(Self { file, serializer: V2DeflateSerializer::new(), payload: Vec::new(), line: String::new() })
    }

    /// Adds the histogram of an interval. `start_s` counts from the log's start and is not
    /// negative.
    ///
    /// # Errors
    /// If the log format does not allow the tag or a time, or the file cannot be written.
    pub fn write(&mut self, tag: &str, start_s: f64, length_s: f64, histogram: &Histogram<u64>) -> io::Result<()> {
        let lone = tag.is_empty() || tag.contains([',', ' ', '\r', '\n']);
        if lone || !(start_s >= 0.0 && start_s.is_finite() && length_s >= 0.0 && length_s.is_finite()) {
            let what = format!("`{tag}` at {start_s} s for {length_s} s is not allowed in an interval log");
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

    /// Passes all data to the kernel. After that, a SIGKILL of this process loses nothing.
    ///
    /// # Errors
    /// If the file cannot be written. The buffered lines are lost then; the file still ends in a
    /// whole line.
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

/// An interval log, up to a last line that was cut off.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IntervalLog {
    /// The intervals, in file order. Empty after [`visit`], which passes intervals to its caller
    /// one by one.
    pub intervals: Vec<Interval>,
    /// Unix time from which the intervals' starts count, seconds. `None` if the file is missing or
    /// was cut off before the line with this time.
    pub start_unix_s: Option<f64>,
    /// Whether the last line was cut off and dropped.
    pub torn: bool,
}

/// One line of an interval log.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// The tag as written, or empty without a tag; see [`Tag::parse`].
    pub tag: String,
    /// Start, seconds since the log's start.
    pub start_s: f64,
    /// Length, seconds.
    pub length_s: f64,
    /// The values, nanoseconds.
    pub histogram: Histogram<u64>,
}

/// One line of an interval log, with a histogram's counts instead of the histogram itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counted {
    /// The tag as written, or empty without a tag; see [`Tag::parse`].
    pub tag: String,
    /// Start, seconds since the log's start.
    pub start_s: f64,
    /// Length, seconds.
    pub length_s: f64,
    /// Counts of the values, which are nanoseconds.
    pub counts: HistogramCounts,
}

impl From<&Interval> for Counted {
    fn from(interval: &Interval) -> Self {
        Self {
            tag: interval.tag.clone(),
            start_s: interval.start_s,
            length_s: interval.length_s,
            counts: HistogramCounts::of(&interval.histogram),
        }
    }
}

/// Reads an interval log and passes its intervals to `take` one by one, in file order.
///
/// Only one interval is in memory at a time, as counts: a histogram takes about 200 KB, and the log
/// of one night has a hundred thousand histograms. A missing file has no intervals. A last line
/// that was cut off is dropped, and `torn` is set.
///
/// # Errors
/// If the file cannot be read, or a line other than the last one is broken.
pub fn visit(path: &Path, mut take: impl FnMut(&Counted)) -> Result<IntervalLog, ReadError> {
    let mut counted = Counted::default();
    let (mut tags, mut bytes) = (HashSet::new(), 0);
    visit_lines(path, |line, payload, decoder| {
        let room = decoder.counts(payload, &mut counted.counts)?;
        counted.tag.clear();
        counted.tag.push_str(line.tag().map_or("", |tag| tag.as_str()));
        if !tags.contains(&counted.tag) {
            tags.insert(counted.tag.clone());
            bytes += room * 8;
        }
        if bytes > MOST_OF_ALL_TAGS {
            return Err(format!("the histograms of {} tags take more than {} MiB", tags.len(), MOST_OF_ALL_TAGS >> 20));
        }
        counted.start_s = line.start_timestamp().as_secs_f64();
        counted.length_s = line.duration().as_secs_f64();
        take(&counted);
        Ok(())
    })
}

/// Reads a whole interval log into memory; for short logs.
pub fn read(path: &Path) -> Result<IntervalLog, ReadError> {
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
    Ok(IntervalLog { intervals, ..log })
}

/// Passes the line and the payload of each interval to `take`.
fn visit_lines(
    path: &Path,
    mut take: impl FnMut(&IntervalLogHistogram<'_>, &[u8], &mut PayloadDecoder) -> Result<(), String>,
) -> Result<IntervalLog, ReadError> {
    let mut log = IntervalLog::default();
    let mut decoder = PayloadDecoder::new();
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

// V2 of the HdrHistogram encoding: cookie and length of the rest (4 bytes each), then a deflated
// stream. The stream has a cookie, the length of the counts, the normalizing offset and the
// significant digits (4 bytes each), the lowest and the highest value and the ratio (8 bytes each),
// and the counts as zigzag LEB128 of at most 9 bytes each. All numbers are big-endian.

const COMPRESSED_COOKIE: u32 = 0x1c84_9314;
const PLAIN_COOKIE: u32 = 0x1c84_9313;
/// Length of the cookie and the length field before the deflated stream, bytes.
const AROUND: usize = 8;
/// Length of the fields before the counts in the inflated stream, bytes.
const HEAD: usize = 40;
/// Maximum length of an inflated histogram, bytes. A histogram of an hour in nanoseconds with three
/// digits takes less than a hundredth of this.
const LONGEST: usize = 32 * 1024 * 1024;
/// Size by which the buffer for inflated bytes grows.
const STEP: usize = 64 * 1024;
/// Maximum of the highest value that a histogram may declare, nanoseconds: 2.4 hours. Plimsoll's
/// histograms reach an hour; a sum with longer times can exceed that.
const HIGHEST: u64 = 1 << 43;
/// Maximum number of significant digits of a histogram. Plimsoll writes three; each further digit
/// takes ten times the memory.
const MOST_DIGITS: u8 = 3;
/// Maximum memory, bytes, for the histograms of a log's tags, one for each tag. A line of only a
/// hundred bytes can require a quarter of a megabyte.
const MOST_OF_ALL_TAGS: u64 = 512 << 20;
/// The count −2^63 as zigzag LEB128. No encoder writes it, and hdrhistogram's decoder cannot negate
/// it.
const IMPOSSIBLE: [u8; 9] = [0xff; 9];

/// A range of values and the number of values in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Lowest value of the bucket.
    pub lowest: u64,
    /// Highest value of the bucket.
    pub highest: u64,
    /// Number of values in the bucket.
    pub count: u64,
}

/// The counts of a histogram without its empty buckets. One second of load fills a few hundred of
/// tens of thousands of buckets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistogramCounts {
    /// Buckets that are not empty, lowest first.
    pub buckets: Vec<Bucket>,
    /// Bounds of the original histogram: lowest value that differs from zero, highest value, and
    /// number of significant digits.
    bounds: (u64, u64, u8),
}

impl HistogramCounts {
    /// Returns the counts of a histogram.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let buckets = histogram.iter_recorded().map(|step| Bucket {
            lowest: histogram.lowest_equivalent(step.value_iterated_to()),
            highest: histogram.highest_equivalent(step.value_iterated_to()),
            count: step.count_at_value(),
        });
        Self { buckets: buckets.collect(), bounds: (histogram.low(), histogram.high(), histogram.sigfig()) }
    }

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.count).fold(0, u64::saturating_add)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Adds the counts to a sum. Creates the sum with the same bounds if it is `None`. The sum
    /// grows as needed, so that no count is lost.
    pub fn add_to(&self, sum: &mut Option<Histogram<u64>>) {
        let (low, high, digits) = self.bounds;
        if sum.is_none() {
            *sum = Histogram::new_with_bounds(low, high, digits).ok();
            sum.iter_mut().for_each(|sum| sum.auto(true));
        }
        let Some(sum) = sum else { return };
        for bucket in &self.buckets {
            // Cannot fail: the sum grows as needed, and values have at most 64 bits.
            let _ = sum.record_n(bucket.lowest, bucket.count);
        }
    }
}

/// Returns a histogram encoded as in the log (compressed, in base64), for sending to another
/// process.
///
/// # Errors
/// If the histogram cannot be serialized.
pub fn payload(histogram: &Histogram<u64>) -> Result<String, String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).map_err(|error| error.to_string())?;
    Ok(BASE64.encode(bytes))
}

/// Returns the histogram of a text from [`payload`], with exactly the same counts.
///
/// # Errors
/// The reason why the text is wrong.
pub fn histogram_of(payload: &str) -> Result<Histogram<u64>, String> {
    let bytes = BASE64.decode(payload).map_err(|error| error.to_string())?;
    PayloadDecoder::new().histogram(&bytes, &mut Deserializer::new())
}

/// Decoder of payloads that reuses its buffers.
#[derive(Debug)]
struct PayloadDecoder {
    inflate: Decompress,
    plain: Vec<u8>,
}

impl PayloadDecoder {
    fn new() -> Self {
        Self { inflate: Decompress::new(true), plain: Vec::new() }
    }

    /// Decodes a payload into a histogram.
    fn histogram(&mut self, payload: &[u8], deserializer: &mut Deserializer) -> Result<Histogram<u64>, String> {
        self.inflate_checked(payload)?;
        deserializer.deserialize(&mut self.plain.as_slice()).map_err(|error| error.to_string())
    }

    /// Decodes a payload into `counts`. Returns the number of buckets in the histogram's layout.
    fn counts(&mut self, payload: &[u8], counts: &mut HistogramCounts) -> Result<u64, String> {
        let length = self.inflate_checked(payload)?;
        let digits = self.word(12).and_then(|digits| u8::try_from(digits).ok());
        let head = (self.word(8), digits, self.long(16), self.long(24), self.long(32));
        let (Some(0), Some(digits @ 0..=MOST_DIGITS), Some(low @ 1..), Some(high), Some(ratio)) = head else {
            return Err("a histogram of an unknown kind".to_owned());
        };
        if high / 2 < low || f64::from_bits(ratio) != 1.0 {
            return Err("a histogram of an unknown kind".to_owned());
        }
        counts.bounds = (low, high, digits);
        counts.buckets.clear();
        let layout = BucketLayout::of(low, high, digits).ok_or("a histogram of an unknown kind")?;
        let mut index: u64 = 0;
        let mut rest = self.plain.get(HEAD..HEAD + length).unwrap_or_default();
        while !rest.is_empty() {
            let (number, used) = varint(rest).ok_or("a histogram that was cut off")?;
            rest = &rest[used..];
            if number > 0 {
                if index >= layout.length {
                    return Err("a histogram with more counts than it has room for".to_owned());
                }
                let (lowest, highest) = layout.values(index);
                counts.buckets.push(Bucket { lowest, highest, count: number.unsigned_abs() });
            }
            // A negative number stands for a run of empty buckets.
            index =
                index.checked_add(if number < 0 { number.unsigned_abs() } else { 1 }).ok_or("a damaged histogram")?;
            if index > layout.length {
                return Err("a histogram with more counts than it has room for".to_owned());
            }
        }
        Ok(layout.length)
    }

    /// Inflates the payload into `plain` and checks fields that hdrhistogram's decoder does not
    /// check. Returns the length of the counts in bytes.
    fn inflate_checked(&mut self, payload: &[u8]) -> Result<usize, String> {
        self.inflate(payload)?;
        let head = (self.word(0), self.word(4), self.word(12), self.long(24));
        let (Some(PLAIN_COOKIE), Some(length), Some(digits), Some(highest)) = head else {
            return Err("not a histogram".to_owned());
        };
        let counts = self.plain.get(HEAD..).unwrap_or_default();
        if length as usize > counts.len() || highest > HIGHEST || digits > u32::from(MOST_DIGITS) {
            return Err("a damaged histogram".to_owned());
        }
        if counts.windows(IMPOSSIBLE.len()).any(|window| *window == IMPOSSIBLE) {
            return Err("a histogram with an impossible count".to_owned());
        }
        Ok(length as usize)
    }

    /// Returns the 4-byte number at offset `at` of the inflated payload.
    fn word(&self, at: usize) -> Option<u32> {
        self.plain.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// Returns the 8-byte number at offset `at` of the inflated payload.
    fn long(&self, at: usize) -> Option<u64> {
        self.plain.get(at..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
    }

    fn inflate(&mut self, payload: &[u8]) -> Result<(), String> {
        let cookie = payload.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes));
        let Some(stream) = payload.get(AROUND..).filter(|_| cookie == Some(COMPRESSED_COOKIE)) else {
            return Err("not a compressed histogram".to_owned());
        };
        let (inflate, plain) = (&mut self.inflate, &mut self.plain);
        inflate.reset(true);
        plain.clear();
        loop {
            let (taken, made) = (inflate.total_in(), plain.len());
            plain.reserve(STEP);
            let rest = usize::try_from(taken).ok().and_then(|taken| stream.get(taken..)).unwrap_or_default();
            let status = inflate.decompress_vec(rest, plain, FlushDecompress::None);
            match status.map_err(|error| error.to_string())? {
                _ if plain.len() > LONGEST => return Err("a histogram that is too long".to_owned()),
                // The checksum is verified only at the end of the stream.
                Status::StreamEnd => return Ok(()),
                _ if (inflate.total_in(), plain.len()) == (taken, made) => {
                    return Err("a histogram that was cut off".to_owned());
                }
                Status::Ok | Status::BufError => {}
            }
        }
    }
}

/// Mapping from an index of the counts to values, as in HdrHistogram: each bucket is twice as wide
/// as the previous bucket and has equal sub-buckets.
struct BucketLayout {
    unit_magnitude: u32,
    /// Logarithm to base 2 of half the number of sub-buckets in a bucket.
    half_magnitude: u32,
    /// Number of counts in the layout.
    length: u64,
}

impl BucketLayout {
    fn of(low: u64, high: u64, digits: u8) -> Option<Self> {
        let unit_magnitude = low.ilog2();
        // The sub-buckets must distinguish values to this number of significant digits.
        let sub_buckets = (2 * 10_u64.pow(u32::from(digits))).next_power_of_two();
        let half_magnitude = sub_buckets.ilog2() - 1;
        if unit_magnitude + half_magnitude + 1 > 62 {
            return None;
        }
        let mut reached = sub_buckets << unit_magnitude;
        let mut buckets = 1;
        while reached <= high {
            buckets += 1;
            reached = reached.saturating_mul(2);
        }
        Some(Self { unit_magnitude, half_magnitude, length: (buckets + 1) << half_magnitude })
    }

    /// Returns the lowest and the highest value that the count at `index` covers.
    fn values(&self, index: u64) -> (u64, u64) {
        let half = 1 << self.half_magnitude;
        let (bucket, sub) = match index >> self.half_magnitude {
            0 | 1 => (0, index),
            bucket => (bucket - 1, (index & (half - 1)) + half),
        };
        let shift = bucket as u32 + self.unit_magnitude;
        let lowest = sub << shift;
        (lowest, lowest + ((1 << shift) - 1))
    }
}

/// Decodes a zigzag LEB128 number, whose ninth byte has eight bits of data. Returns the number and
/// its length in bytes.
fn varint(bytes: &[u8]) -> Option<(i64, usize)> {
    let mut number: u64 = 0;
    for (place, byte) in bytes.iter().take(9).enumerate() {
        let bits = if place == 8 { u64::from(*byte) } else { u64::from(byte & 0x7f) };
        number |= bits << (7 * place);
        if place == 8 || byte & 0x80 == 0 {
            let half = i64::try_from(number >> 1).ok()?;
            return Some((if number & 1 == 0 { half } else { -half - 1 }, place + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

    use fixture::TestDir;

    use super::*;

    fn histogram(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        for &value in values {
            histogram.record(value).unwrap();
        }
        histogram
    }

    fn written(scratch: &TestDir) -> std::path::PathBuf {
        let path = scratch.join("load.hlog");
        let mut writer = HlogWriter::create(&path, 1_795_170_665.25).unwrap();
        writer.write("save/ok/latency", 0.0, 1.0, &histogram(&[1_000, 2_000_000, 2_000_000])).unwrap();
        writer.write("save/ok/service", 0.0, 1.0, &histogram(&[900])).unwrap();
        writer.write("save/failed/latency", 1.0, 1.0, &histogram(&[59_000_000_000])).unwrap();
        writer.flush().unwrap();
        path
    }

    #[test]
    fn logs_are_read_back_with_exact_counts() {
        let scratch = TestDir::new();
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
    fn the_text_matches_the_standard_log_writer() {
        let scratch = TestDir::new();
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
        // A compressed V2 histogram in base64 starts with `HISTFAAA`, by which other readers
        // recognise it.
        assert!(lines[4].starts_with("Tag=save/ok/latency,0.000,1.000,2.001,HISTFAAA"), "{}", lines[4]);
        assert_eq!(lines.len(), 7);
    }

    #[test]
    fn a_file_cut_off_at_any_byte_is_readable_up_to_there() {
        let scratch = TestDir::new();
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
        let scratch = TestDir::new();
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
    fn invalid_tags_and_start_times_are_refused() {
        let scratch = TestDir::new();
        let mut writer = HlogWriter::create(&scratch.join("load.hlog"), 0.0).unwrap();
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
            for time in Time::ALL {
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

    /// Returns the payload with this stream.
    fn payload(plain: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(plain).unwrap();
        let stream = encoder.finish().unwrap();
        [&COMPRESSED_COOKIE.to_be_bytes()[..], &u32::try_from(stream.len()).unwrap().to_be_bytes(), &stream].concat()
    }

    /// Returns an uncompressed histogram with these counts, of values up to an hour in nanoseconds.
    fn plain(counts: &[u8]) -> Vec<u8> {
        let length = u32::try_from(counts.len()).unwrap();
        let words = [PLAIN_COOKIE, length, 0, 3].map(u32::to_be_bytes).concat();
        let longs = [1_u64, 3_600_000_000_000].map(u64::to_be_bytes).concat();
        [&words[..], &longs, &1_f64.to_be_bytes(), counts].concat()
    }

    /// Reads a payload in both ways and checks that they agree on the values and on errors.
    fn read_payload(payload: &[u8]) -> Result<Histogram<u64>, String> {
        let mut decoder = PayloadDecoder::new();
        let histogram = decoder.histogram(payload, &mut Deserializer::new());
        let mut counts = HistogramCounts::default();
        let counted = decoder.counts(payload, &mut counts);
        assert_eq!(counted.is_ok(), histogram.is_ok(), "{counted:?}");
        if let Ok(histogram) = &histogram {
            let mut sum = None;
            counts.add_to(&mut sum);
            assert_eq!(sum.as_ref(), Some(histogram));
            assert_eq!((counts.len(), counts.clone()), (histogram.len(), HistogramCounts::of(histogram)));
        }
        histogram
    }

    #[test]
    fn counts_match_the_histogram_for_any_bounds() {
        for (low, high, digits) in
            [(1, 2, 0), (1, 3_600_000_000_000, 3), (1000, 60_000_000, 2), (7, 5_000_000, 3), (1, 1 << 43, 1)]
        {
            let mut written = Histogram::<u64>::new_with_bounds(low, high, digits).unwrap();
            let mut value = 1_u64;
            while value <= high {
                for near in [value - 1, value, value + 1] {
                    written.saturating_record_n(near, near % 5_000 + 1);
                }
                value = value * 3 + 1;
            }
            written.saturating_record(high);
            let mut bytes = Vec::new();
            V2DeflateSerializer::new().serialize(&written, &mut bytes).unwrap();
            assert_eq!(read_payload(&bytes).unwrap(), written, "{low} {high} {digits}");
        }
    }

    #[test]
    fn payloads_are_read_back() {
        let mut written = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        for value in [1, 1000, 1_000_000_000] {
            written.record(value).unwrap();
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&written, &mut bytes).unwrap();
        assert_eq!(read_payload(&bytes).unwrap(), written);
        // Two values of 1, encoded by hand.
        assert_eq!(read_payload(&payload(&plain(&[1, 4]))).unwrap().count_at(1), 2);
    }

    /// The `hdrhistogram` decoder allocates the length in the header, up to 4 GB, before it looks
    /// for the bytes.
    #[test]
    fn an_excessive_length_is_an_error() {
        let mut long = plain(&[1, 4]);
        long[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(read_payload(&payload(&long)), Err("a damaged histogram".to_owned()));
    }

    /// The `hdrhistogram` decoder negates the lowest number, which overflows.
    #[test]
    fn an_impossible_count_is_an_error() {
        assert!(read_payload(&payload(&plain(&[0xff; 9]))).unwrap_err().contains("impossible count"));
    }

    #[test]
    fn impossible_bounds_are_an_error() {
        let mut far = plain(&[1, 4]);
        far[24..32].copy_from_slice(&u64::MAX.to_be_bytes());
        assert!(read_payload(&payload(&far)).is_err());
        for at in [8, 12, 16] {
            let mut odd = plain(&[1, 4]);
            odd[at..at + 4].copy_from_slice(&u32::MAX.to_be_bytes());
            assert!(read_payload(&payload(&odd)).is_err(), "at {at}");
        }
    }

    #[test]
    fn small_lines_cannot_demand_much_memory() {
        let mut wide = plain(&[1, 4]);
        wide[12..16].copy_from_slice(&5_u32.to_be_bytes());
        assert!(read_payload(&payload(&wide)).is_err(), "five digits");
        let mut far = plain(&[1, 4]);
        far[24..32].copy_from_slice(&(1_u64 << 62).to_be_bytes());
        assert!(read_payload(&payload(&far)).is_err(), "a century");
        let scratch = TestDir::new();
        let line = BASE64.encode(payload(&plain(&[1, 4])));
        let log = |tags: u64| {
            let lines =
                (0..tags).map(|tag| format!("Tag=op{tag}/ok/latency,0.000,1.000,1.0,{line}\n")).collect::<String>();
            std::fs::write(scratch.join("load.hlog"), header(0.0) + &lines).unwrap();
            visit(&scratch.join("load.hlog"), |_| {})
        };
        assert!(log(1000).is_ok());
        let most = MOST_OF_ALL_TAGS / 8 / BucketLayout::of(1, 3_600_000_000_000, 3).unwrap().length;
        assert!(log(most + 2).unwrap_err().to_string().contains("more than 512 MiB"));
    }

    #[test]
    fn a_decompression_bomb_is_refused() {
        let bomb = payload(&plain(&vec![0; LONGEST + 1_000_000]));
        assert!(bomb.len() < 1024 * 1024 && read_payload(&bomb).is_err());
    }

    /// The `hdrhistogram` decoder alone does not reach the checksum after the stream.
    #[test]
    fn a_flipped_bit_is_an_error() {
        let whole = payload(&plain(&[1, 4, 2, 2, 7]));
        let right = read_payload(&whole).unwrap();
        for at in 0..whole.len() {
            // The length of the stream is not needed, because the stream marks its own end.
            if (4..AROUND).contains(&at) {
                continue;
            }
            let mut flipped = whole.clone();
            flipped[at] ^= 0x40;
            // A few bits are padding.
            assert!(read_payload(&flipped).is_err() || read_payload(&flipped).as_ref() == Ok(&right), "at {at}");
            assert!(read_payload(&whole[..at]).is_err(), "cut at {at}");
        }
    }
}
