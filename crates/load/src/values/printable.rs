//! Printable bytes that differ each time and cost little: eight at once from one random number, without a table. They are
//! letters, digits, `-` and `_`, so they need no quoting in a URL, in JSON or in a header. It must not be used for secrets.

use fastrand::Rng;

const EACH: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x80 * EACH;

/// Appends `count` printable bytes: 6 random bits each.
pub fn write(count: usize, random: &mut Rng, out: &mut Vec<u8>) {
    out.reserve(count + 8);
    let end = out.len() + count;
    while out.len() < end {
        out.extend_from_slice(&eight(random.u64(..)).to_le_bytes());
    }
    out.truncate(end);
}

/// Maps the low 6 bits of each byte to the alphabet `A-Z a-z 0-9 - _`, all eight bytes in parallel ("SIMD within a register"):
/// every range of the alphabet adds its offset to the bytes that lie above its start.
fn eight(random: u64) -> u64 {
    let index = random & (0x3f * EACH);
    let mut text = index + 0x41 * EACH;
    // From 26 on: 'a' - 26 - 'A' = 6 more.
    text += above(index, 26) * 6;
    // From 52 on: '0' - 52 is 75 less than 'a' - 26.
    text -= above(index, 52) * 75;
    // 62 is '-': 13 less than the digits go on. 63 is '_': 49 more than that goes on.
    text -= above(index, 62) * 13;
    text += above(index, 63) * 49;
    text
}

/// 1 in each byte of `index` that is at least `from`; bytes and `from` are below 64.
fn above(index: u64, from: u64) -> u64 {
    ((index + (0x80 - from) * EACH) & HIGH) >> 7
}

#[cfg(test)]
mod tests {
    //! The alphabet, and that values differ.

    use super::*;

    #[test]
    fn every_index_has_its_letter() {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        for (index, letter) in alphabet.iter().enumerate() {
            let text = eight((index as u64 * EACH) | 0xc0c0_c0c0_c0c0_c0c0).to_le_bytes();
            assert_eq!(text, [*letter; 8], "index {index}");
        }
        let mixed = eight(u64::from_le_bytes([0, 63, 62, 26, 25, 52, 51, 61])).to_le_bytes();
        assert_eq!(&mixed, b"A_-aZ0z9");
    }

    #[test]
    fn length_is_exact_and_values_differ() {
        let mut random = Rng::with_seed(1);
        let mut seen = std::collections::BTreeSet::new();
        for count in [0, 1, 7, 8, 9, 100] {
            let mut out = b"x".to_vec();
            write(count, &mut random, &mut out);
            assert_eq!(out.len(), count + 1);
        }
        for _ in 0..1000 {
            let mut out = Vec::new();
            write(16, &mut random, &mut out);
            assert!(seen.insert(out));
        }
    }
}
