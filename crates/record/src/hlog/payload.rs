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

/// The histogram.
///
/// # Errors
/// What is wrong with it.
pub fn histogram(payload: &[u8], deserializer: &mut Deserializer) -> Result<Histogram<u64>, String> {
    let plain = inflated(payload)?;
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
    deserializer.deserialize(&mut plain.as_slice()).map_err(|error| error.to_string())
}

fn inflated(payload: &[u8]) -> Result<Vec<u8>, String> {
    let cookie = payload.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes));
    let Some(stream) = payload.get(AROUND..).filter(|_| cookie == Some(COMPRESSED_COOKIE)) else {
        return Err("not a compressed histogram".to_owned());
    };
    let mut inflate = Decompress::new(true);
    let mut plain = Vec::new();
    loop {
        let (taken, made) = (inflate.total_in(), plain.len());
        plain.reserve(STEP);
        let rest = usize::try_from(taken).ok().and_then(|taken| stream.get(taken..)).unwrap_or_default();
        let status = inflate.decompress_vec(rest, &mut plain, FlushDecompress::None);
        match status.map_err(|error| error.to_string())? {
            _ if plain.len() > LONGEST => return Err("a histogram without end".to_owned()),
            // Only then is its check sum right.
            Status::StreamEnd => return Ok(plain),
            _ if (inflate.total_in(), plain.len()) == (taken, made) => {
                return Err("a histogram that was cut off".to_owned());
            }
            Status::Ok | Status::BufError => {}
        }
    }
}

#[cfg(test)]
mod tests;
