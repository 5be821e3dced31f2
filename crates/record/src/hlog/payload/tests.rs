//! Damaged histograms: each is an error, and none takes what it asks for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
