//! Tests of content codings. The bytes of brotli are from node's encoder, all others from encoders
//! that run here.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;
use crate::answer_budget::Budget;

const LIMIT: usize = 1024 * 1024;

fn text() -> Vec<u8> {
    "The decoder gives the answer back as it was written: hello, hello, hello.\n".repeat(60).into_bytes()
}

/// The text, coded by node's encoder of brotli.
const BROTLI_TEXT: &[u8] = &[
    0x1b, 0x57, 0x11, 0x00, 0x1c, 0x07, 0x76, 0x2c, 0x36, 0xe6, 0x56, 0x68, 0xfd, 0xc3, 0xb2, 0x8c, 0x4a, 0xa1, 0xc9,
    0xd0, 0xd2, 0xe8, 0x34, 0x88, 0x8b, 0x8e, 0x5c, 0x0f, 0xb8, 0xf8, 0x51, 0x84, 0x7a, 0x71, 0xe6, 0x4c, 0x1f, 0x70,
    0xc8, 0x71, 0x9c, 0xb4, 0xdd, 0xc2, 0xc7, 0x82, 0xee, 0xdf, 0x5b, 0xb0, 0x90, 0x25, 0xf8, 0x36, 0x6c, 0xcd, 0x83,
    0xa3, 0x72, 0x64, 0x04, 0x80, 0x5a, 0x03,
];
/// 70 MiB of zeros, coded by node's encoder of brotli.
const BROTLI_BOMB: &[u8] = &[
    0xcb, 0xff, 0xff, 0x3f, 0xf8, 0x27, 0x00, 0xe2, 0xb1, 0x40, 0x20, 0xf7, 0xfe, 0x8f, 0xff, 0xff, 0x7f, 0xf0, 0x4f,
    0x00, 0xc4, 0x61, 0x11, 0x80, 0xee, 0xfd, 0x1f, 0xff, 0xff, 0xff, 0xe0, 0x9f, 0x00, 0x88, 0xc3, 0x02, 0x00, 0xdd,
    0xfb, 0x3f, 0xfe, 0xff, 0xff, 0xc1, 0x3f, 0x01, 0x10, 0x87, 0x05, 0x00, 0xba, 0xf7, 0x7f, 0xfc, 0xff, 0xff, 0x83,
    0x7f, 0x02, 0x20, 0x0e, 0x0b, 0x00, 0x74, 0xef, 0xff, 0xf8, 0xff, 0xff, 0x07, 0xff, 0x04, 0x40, 0x1c, 0x16, 0x00,
    0xe8, 0xde, 0xff, 0xf1, 0xff, 0xff, 0x0f, 0xfe, 0x09, 0x80, 0x38, 0x2c, 0x00, 0xd0, 0xbd, 0xff, 0xe3, 0xff, 0xff,
    0x1f, 0xfc, 0x13, 0x00, 0x71, 0x58, 0x00, 0xa0, 0x7b, 0xff, 0x97, 0xff, 0xff, 0x5f, 0xf8, 0x27, 0x00, 0xe2, 0xb0,
    0x00, 0x40, 0xf7, 0xfe, 0x0b,
];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn raw_deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(bytes, 3).unwrap()
}

fn codings(value: &str) -> ContentCodings {
    let mut codings = ContentCodings::default();
    codings.note(value.as_bytes());
    codings
}

/// Decodes a body with a decoder that was used before.
fn decoded(decoder: &mut BodyDecoder, value: &str, coded: &[u8]) -> Result<Vec<u8>, AttemptCause> {
    let mut out = b"head".to_vec();
    let limit = DecodingLimit { most: LIMIT, may_be_cut: false };
    let result = decoder.decode_up_to(codings(value), coded, &mut out, (&mut BudgetShare::default(), 0), limit);
    assert!(out.starts_with(b"head") && out.len() <= 4 + LIMIT);
    result.map(|()| out.split_off(4))
}

/// Returns the text in each coding: name of the coding, and coded bytes.
fn all_coded() -> Vec<(&'static str, Vec<u8>)> {
    let text = text();
    vec![
        ("gzip", gzip(&text)),
        ("X-Gzip", gzip(&text)),
        ("deflate", zlib(&text)),
        ("deflate", raw_deflate(&text)),
        ("br", BROTLI_TEXT.to_vec()),
        ("zstd", zstd(&text)),
        ("gzip, zstd", zstd(&gzip(&text))),
        ("br , gzip,deflate, zstd", zstd(&zlib(&gzip(BROTLI_TEXT)))),
        ("identity, gzip", gzip(&text)),
        ("gzip", [gzip(&text[..50]), gzip(&text[50..])].concat()),
        ("zstd", [zstd(&text[..50]), zstd(&text[50..])].concat()),
    ]
}

#[test]
fn every_coding_is_decoded() {
    let mut decoder = BodyDecoder::default();
    for _ in 0..2 {
        for (name, coded) in all_coded() {
            assert_eq!(decoded(&mut decoder, name, &coded).map(|body| body == text()), Ok(true), "{name}");
        }
    }
}

#[test]
fn a_body_that_is_cut_off_or_changed_is_broken() {
    let mut decoder = BodyDecoder::default();
    for (name, coded) in all_coded() {
        for end in 1..coded.len() {
            let whole_member = name.ends_with("gzip") || name == "zstd";
            let result = decoded(&mut decoder, name, &coded[..end]);
            let is_a_whole_part = whole_member && result.as_ref().is_ok_and(|body| *body == text()[..50]);
            assert!(
                is_a_whole_part || matches!(result, Err(AttemptCause::Malformed(Malformation::BrokenCoding(_)))),
                "{name} up to {end}: {result:?}"
            );
        }
        let more = [&coded[..], b"x"].concat();
        assert!(decoded(&mut decoder, name, &more).is_err(), "{name} with surplus");
    }
    let mut changed = gzip(&text());
    let last = changed.len() - 6;
    changed[last] ^= 1;
    let broken = Err(AttemptCause::Malformed(Malformation::BrokenCoding(ContentCoding::Gzip)));
    assert_eq!(decoded(&mut decoder, "gzip", &changed), broken, "the checksum");
}

#[test]
fn headers_of_gzip_may_have_fields() {
    let plain = gzip(b"hello");
    let mut long = vec![0x1f, 0x8b, 8, 2 | 4 | 8 | 16, 0, 0, 0, 0, 0, 3];
    long.extend_from_slice(b"\x03\0abcname\0comment\0\x12\x34");
    long.extend_from_slice(&plain[10..]);
    assert_eq!(decoded(&mut BodyDecoder::default(), "gzip", &long), Ok(b"hello".to_vec()));
}

#[test]
fn unknown_codings_are_not_decoded() {
    let unknown = Err(AttemptCause::Malformed(Malformation::UnknownCoding));
    for name in ["compress", "gzip, aes128gcm", "gzip, gzip, gzip, gzip, gzip, gzip", "gzi p"] {
        assert_eq!(decoded(&mut BodyDecoder::default(), name, b"x"), unknown, "{name}");
    }
    assert!(!codings("identity").is_any() && !codings("").is_any() && codings("br").is_any());
    let five: Vec<_> = codings("gzip, br, zstd, deflate, gzip").last_first().collect();
    use ContentCoding::{Brotli, Deflate, Gzip, Zstd};
    assert_eq!(five, [Gzip, Deflate, Zstd, Brotli, Gzip]);
}

#[test]
fn a_bomb_ends_at_the_limit() {
    let mut decoder = BodyDecoder::default();
    let zeros = vec![0; 5 * LIMIT];
    for (name, coded) in [
        ("gzip", gzip(&zeros)),
        ("deflate", zlib(&zeros)),
        ("zstd", zstd(&zeros)),
        ("br", BROTLI_BOMB.to_vec()),
        ("gzip, gzip", gzip(&gzip(&zeros))),
    ] {
        let result = decoded(&mut decoder, name, &coded);
        assert_eq!(result, Err(AttemptCause::Malformed(Malformation::LongWhenDecoded)), "{name}");
    }
}

#[test]
fn decoded_bytes_count_in_the_budget() {
    static SMALL: Budget = Budget::of(2 * 1024 * 1024);
    let mut decoder = BodyDecoder::default();
    let mut held = BudgetShare::of(&SMALL);
    let coded = zstd(&vec![0; 5 * LIMIT]);
    let result = decoder.decode(codings("zstd"), &coded, &mut Vec::new(), &mut held, 0);
    assert_eq!(result, Err(AttemptCause::TooLarge));
}

#[test]
fn the_beginning_of_a_cut_body_is_shown() {
    for (name, coded) in all_coded().into_iter().filter(|(name, _)| !name.contains(',')) {
        let mut out = Vec::new();
        let is_decoded = BodyDecoder::decode_beginning(codings(name), &coded[..coded.len() - 1], &mut out);
        assert!(!is_decoded || text().starts_with(&out), "{name}");
        // These decode whole blocks.
        assert!(is_decoded || ["br", "zstd"].contains(&name), "{name}");
    }
    assert!(!BodyDecoder::decode_beginning(codings("gzip"), b"no gzip", &mut Vec::new()));
}
