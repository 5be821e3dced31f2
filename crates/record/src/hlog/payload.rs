//! What is behind the base64 of an interval's line: a compressed histogram. A damaged one must be an error, whatever it asks for: the
//! decoder that it is given to takes its lengths and bounds on trust. It must not know of lines or tags.
//!
//! V2 of the HdrHistogram encoding: cookie, length of what follows (4 bytes each), a deflated stream of cookie, length of the counts,
//! normalizing offset, significant digits (4 bytes each), lowest and highest value, ratio (8 bytes each), and the counts as LEB128 in
//! zigzag, of at most 9 bytes each. All numbers have their most significant byte first.

use flate2::{Decompress, FlushDecompress, Status};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

const COMPRESSED_COOKIE: u32 = 0x1c84_9314;
const PLAIN_COOKIE: u32 = 0x1c84_9313;
/// Cookie and length around the deflated stream.
const AROUND: usize = 8;
/// Up to the counts.
const HEAD: usize = 40;
/// The longest that is taken for a histogram; of an hour in nanoseconds with three digits, less than a hundredth is possible.
const LONGEST: usize = 32 * 1024 * 1024;
/// Room that is made at a time.
const STEP: usize = 64 * 1024;
/// The largest value that histograms can be asked for without overflowing.
const HIGHEST: u64 = 1 << 62;
/// A count of 2^63, below zero: nothing that any encoder writes, and what the decoder cannot turn around.
const IMPOSSIBLE: [u8; 9] = [0xff; 9];

/// Values of a bucket, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The lowest value that falls into it.
    pub lowest: u64,
    /// The highest.
    pub highest: u64,
    /// Values in it.
    pub count: u64,
}

/// What a histogram holds, without the room for what it does not: a second of a load has some hundreds of buckets of tens of thousands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Buckets that hold anything, lowest first.
    pub buckets: Vec<Bucket>,
    /// Lowest value that is told from zero, highest value, and significant digits of the histogram that it was.
    bounds: (u64, u64, u8),
}

impl Counts {
    /// What a histogram holds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let bucket = |value: u64, count| Bucket {
            lowest: histogram.lowest_equivalent(value),
            highest: histogram.highest_equivalent(value),
            count,
        };
        let recorded = histogram.iter_recorded();
        let buckets = recorded.map(|step| bucket(step.value_iterated_to(), step.count_at_value())).collect();
        Self { buckets, bounds: (histogram.low(), histogram.high(), histogram.sigfig()) }
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.count).fold(0, u64::saturating_add)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Adds them to a sum, which is made of their bounds if there is none. It grows as far as it has to: no count is lost.
    pub fn add_to(&self, sum: &mut Option<Histogram<u64>>) {
        let (low, high, digits) = self.bounds;
        if sum.is_none() {
            *sum = Histogram::new_with_bounds(low, high, digits).ok();
            sum.iter_mut().for_each(|sum| sum.auto(true));
        }
        let Some(sum) = sum else { return };
        for bucket in &self.buckets {
            // Cannot fail: the sum grows with what is added, and values have at most 64 bits.
            let _ = sum.record_n(bucket.lowest, bucket.count);
        }
    }
}

/// Reads payloads one after the other, with the same memory.
#[derive(Debug)]
pub struct Decoder {
    inflate: Decompress,
    plain: Vec<u8>,
}

impl Decoder {
    /// A new one.
    pub fn new() -> Self {
        Self { inflate: Decompress::new(true), plain: Vec::new() }
    }

    /// The histogram.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn histogram(&mut self, payload: &[u8], deserializer: &mut Deserializer) -> Result<Histogram<u64>, String> {
        self.inflate_checked(payload)?;
        deserializer.deserialize(&mut self.plain.as_slice()).map_err(|error| error.to_string())
    }

    /// What the histogram holds, into `counts`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn counts(&mut self, payload: &[u8], counts: &mut Counts) -> Result<(), String> {
        let length = self.inflate_checked(payload)?;
        let word = |at: usize| self.plain.get(at..)?.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes));
        let long = |at: usize| self.plain.get(at..)?.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes));
        let head = (word(8), word(12).and_then(|digits| u8::try_from(digits).ok()), long(16), long(24), long(32));
        let (Some(0), Some(digits @ 0..=5), Some(low @ 1..), Some(high), Some(ratio)) = head else {
            return Err("a histogram of a kind that is not known".to_owned());
        };
        if high / 2 < low || f64::from_bits(ratio) != 1.0 {
            return Err("a histogram of a kind that is not known".to_owned());
        }
        counts.bounds = (low, high, digits);
        counts.buckets.clear();
        let layout = Layout::of(low, high, digits).ok_or("a histogram of a kind that is not known")?;
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
            // Less than zero: so many buckets without anything.
            index =
                index.checked_add(if number < 0 { number.unsigned_abs() } else { 1 }).ok_or("a damaged histogram")?;
            if index > layout.length {
                return Err("a histogram with more counts than it has room for".to_owned());
            }
        }
        Ok(())
    }

    /// Inflates into `plain`, and checks what the decoder takes on trust; length of the counts in bytes.
    fn inflate_checked(&mut self, payload: &[u8]) -> Result<usize, String> {
        self.inflate(payload)?;
        let plain = &self.plain;
        let word = |at: usize| plain.get(at..)?.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes));
        let long = |at: usize| plain.get(at..)?.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes));
        let (Some(PLAIN_COOKIE), Some(length), Some(highest)) = (word(0), word(4), long(24)) else {
            return Err("not a histogram".to_owned());
        };
        let counts = plain.get(HEAD..).unwrap_or_default();
        if length as usize > counts.len() || highest > HIGHEST {
            return Err("a damaged histogram".to_owned());
        }
        if counts.windows(IMPOSSIBLE.len()).any(|window| *window == IMPOSSIBLE) {
            return Err("a histogram with a count that cannot be".to_owned());
        }
        Ok(length as usize)
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
                _ if plain.len() > LONGEST => return Err("a histogram without end".to_owned()),
                // Only then is its check sum right.
                Status::StreamEnd => return Ok(()),
                _ if (inflate.total_in(), plain.len()) == (taken, made) => {
                    return Err("a histogram that was cut off".to_owned());
                }
                Status::Ok | Status::BufError => {}
            }
        }
    }
}

/// Which values a place in the counts stands for, as in HdrHistogram: buckets that double, of equal sub-buckets.
struct Layout {
    unit_magnitude: u32,
    /// Sub-buckets of a bucket are two to the power of this, twice.
    half_magnitude: u32,
    /// Places.
    length: u64,
}

impl Layout {
    fn of(low: u64, high: u64, digits: u8) -> Option<Self> {
        let unit_magnitude = low.ilog2();
        // Sub-buckets of a unit tell so many digits apart.
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

    /// Lowest and highest value of a place.
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

/// A number in zigzag LEB128, of which the ninth byte has eight bits, and its length in bytes.
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

    use super::*;

    /// A stream as it is in a payload.
    fn payload(plain: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(plain).unwrap();
        let stream = encoder.finish().unwrap();
        [&COMPRESSED_COOKIE.to_be_bytes()[..], &u32::try_from(stream.len()).unwrap().to_be_bytes(), &stream].concat()
    }

    /// A histogram with these counts, of values up to an hour in nanoseconds.
    fn plain(counts: &[u8]) -> Vec<u8> {
        let length = u32::try_from(counts.len()).unwrap();
        let words = [PLAIN_COOKIE, length, 0, 3].map(u32::to_be_bytes).concat();
        let longs = [1_u64, 3_600_000_000_000].map(u64::to_be_bytes).concat();
        [&words[..], &longs, &1_f64.to_be_bytes(), counts].concat()
    }

    /// Both ways of reading agree on what they read and on what they refuse.
    fn read(payload: &[u8]) -> Result<Histogram<u64>, String> {
        let mut decoder = Decoder::new();
        let histogram = decoder.histogram(payload, &mut Deserializer::new());
        let mut counts = Counts::default();
        let counted = decoder.counts(payload, &mut counts);
        assert_eq!(counted.is_ok(), histogram.is_ok(), "{counted:?}");
        if let Ok(histogram) = &histogram {
            let mut sum = None;
            counts.add_to(&mut sum);
            assert_eq!(sum.as_ref(), Some(histogram));
            assert_eq!((counts.len(), counts.clone()), (histogram.len(), Counts::of(histogram)));
        }
        histogram
    }

    #[test]
    fn counts_are_those_of_the_histogram_whatever_its_bounds() {
        for (low, high, digits) in
            [(1, 2, 0), (1, 3_600_000_000_000, 3), (1000, 60_000_000, 2), (7, 5_000_000, 5), (1, 1 << 61, 1)]
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
            assert_eq!(read(&bytes).unwrap(), written, "{low} {high} {digits}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut written = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        for value in [1, 1000, 1_000_000_000] {
            written.record(value).unwrap();
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&written, &mut bytes).unwrap();
        assert_eq!(read(&bytes).unwrap(), written);
        // Two values of 1, by hand.
        assert_eq!(read(&payload(&plain(&[1, 4]))).unwrap().count_at(1), 2);
    }

    /// The decoder made room for what a length said before it looked for the bytes: up to 4 GB.
    #[test]
    fn a_length_is_not_taken_on_trust() {
        let mut long = plain(&[1, 4]);
        long[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(read(&payload(&long)), Err("a damaged histogram".to_owned()));
    }

    /// The decoder turned the sign of the lowest number, which overflows.
    #[test]
    fn a_count_that_cannot_be_is_an_error() {
        assert!(read(&payload(&plain(&[0xff; 9]))).unwrap_err().contains("cannot be"));
    }

    #[test]
    fn bounds_are_not_taken_on_trust() {
        let mut far = plain(&[1, 4]);
        far[24..32].copy_from_slice(&u64::MAX.to_be_bytes());
        assert!(read(&payload(&far)).is_err());
        for at in [8, 12, 16] {
            let mut odd = plain(&[1, 4]);
            odd[at..at + 4].copy_from_slice(&u32::MAX.to_be_bytes());
            assert!(read(&payload(&odd)).is_err(), "at {at}");
        }
    }

    #[test]
    fn a_stream_that_unfolds_without_end_is_cut_off() {
        let bomb = payload(&plain(&vec![0; LONGEST + 1_000_000]));
        assert!(bomb.len() < 1024 * 1024 && read(&bomb).is_err());
    }

    /// The decoder alone never came to the check sum behind the stream.
    #[test]
    fn a_flipped_bit_is_an_error() {
        let whole = payload(&plain(&[1, 4, 2, 2, 7]));
        let right = read(&whole).unwrap();
        for at in 0..whole.len() {
            // The length of the stream is not needed: the stream has an end of its own.
            if (4..AROUND).contains(&at) {
                continue;
            }
            let mut flipped = whole.clone();
            flipped[at] ^= 0x40;
            // A few bits are there to fill a byte.
            assert!(read(&flipped).is_err() || read(&flipped).as_ref() == Ok(&right), "at {at}");
            assert!(read(&whole[..at]).is_err(), "cut at {at}");
        }
    }
}
