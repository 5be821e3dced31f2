//! Sizes and rates, to numbers and back.

use super::{Quantity, QuantityError, parse_bits_per_s, parse_bytes, parse_bytes_per_s};
use super::{show_bits_per_s, show_bytes, show_bytes_per_s};

#[test]
fn every_kind_of_unit() {
    for (text, bytes) in
        [("1GiB", 1 << 30), ("512 MiB", 512 << 20), ("1.5kB", 1500), ("32GB", 32_000_000_000), ("7B", 7)]
    {
        assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
    }
    for (text, bits) in [("100mbit", 1e8), ("1Gbit/s", 1e9), ("2.5 gbit", 2.5e9), ("9600bit", 9600.0)] {
        assert_eq!(parse_bits_per_s(text), Ok(bits), "{text}");
    }
    for (text, bytes) in [("20MB/s", 2e7), ("1MiB/s", 1_048_576.0)] {
        assert_eq!(parse_bytes_per_s(text), Ok(bytes), "{text}");
    }
}

#[test]
fn what_is_not_a_quantity() {
    assert_eq!(parse_bytes("1024"), Err(QuantityError::NoUnit));
    assert_eq!(parse_bytes("0MiB"), Err(QuantityError::NotPositive));
    assert_eq!(parse_bytes("-1MiB"), Err(QuantityError::NotPositive));
    assert_eq!(parse_bytes("9999999999TB"), Err(QuantityError::TooLarge));
    assert_eq!(parse_bytes("much"), Err(QuantityError::NotANumber));
    // Bits or bytes, or thousandths: nobody should have to guess.
    assert_eq!(parse_bytes("1Mb"), Err(QuantityError::UnknownUnit));
    assert_eq!(parse_bytes("1MB/s"), Err(QuantityError::UnknownUnit));
    assert_eq!(parse_bytes_per_s("1MB"), Err(QuantityError::UnknownUnit));
    assert_eq!(parse_bits_per_s("100MB/s"), Err(QuantityError::UnknownUnit));
    assert_eq!(Quantity::BitRate.parse("100m"), Err(QuantityError::UnknownUnit));
}

#[test]
fn shown_as_written() {
    assert_eq!([1 << 30, 512 << 20, 3 << 29, 7, 0].map(show_bytes), ["1GiB", "512MiB", "1.5GiB", "7B", "0B"]);
    assert_eq!([1e8, 1e9, 2.5e9, 1234.0].map(show_bits_per_s), ["100mbit", "1gbit", "2.5gbit", "1.23kbit"]);
    assert_eq!([2e7, 1.819e6].map(show_bytes_per_s), ["20MB/s", "1.82MB/s"]);
}
