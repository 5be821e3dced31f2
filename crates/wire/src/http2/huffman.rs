//! The Huffman code of HPACK (RFC 7541, 5.2 and appendix B).

/// Length of each symbol's code, bits. The code is canonical, so it follows from the lengths. The
/// last symbol is the end of the string, which no string contains.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const SYMBOLS: usize = 257;
const LONGEST: usize = 30;
/// Number of bits that select an entry of [`SHORT`].
const SHORT_BITS: u32 = 8;

/// The code, derived from [`LENGTHS`].
struct Code {
    /// Code of each symbol, right-aligned.
    codes: [u32; SYMBOLS],
    /// Symbols in the order of their codes.
    symbols: [u16; SYMBOLS],
    /// First code of each length, right-aligned.
    first: [u32; LONGEST + 1],
    /// Place in `symbols` of the first code of each length.
    place: [u16; LONGEST + 1],
    /// Limit of the codes of each length: all 32-bit texts below it begin with such a code or a
    /// shorter one.
    limit: [u64; LONGEST + 1],
}

static CODE: Code = Code::new();

/// Symbol and code length for each beginning of eight bits. The length is 0 if the code is longer.
static SHORT: [(u8, u8); 1 << SHORT_BITS] = short();

impl Code {
    const fn new() -> Self {
        let mut code = Self {
            codes: [0; SYMBOLS],
            symbols: [0; SYMBOLS],
            first: [0; LONGEST + 1],
            place: [0; LONGEST + 1],
            limit: [0; LONGEST + 1],
        };
        let (mut length, mut next, mut place) = (1, 0_u32, 0);
        while length <= LONGEST {
            next <<= 1;
            code.first[length] = next;
            code.place[length] = place as u16;
            let mut symbol = 0;
            while symbol < SYMBOLS {
                if LENGTHS[symbol] as usize == length {
                    code.codes[symbol] = next;
                    code.symbols[place] = symbol as u16;
                    next += 1;
                    place += 1;
                }
                symbol += 1;
            }
            code.limit[length] = (next as u64) << (32 - length);
            length += 1;
        }
        code
    }
}

const fn short() -> [(u8, u8); 1 << SHORT_BITS] {
    let code = Code::new();
    let mut table = [(0, 0); 1 << SHORT_BITS];
    let mut symbol = 0;
    while symbol < SYMBOLS - 1 {
        let length = LENGTHS[symbol] as u32;
        if length <= SHORT_BITS {
            let shift = SHORT_BITS - length;
            let mut rest = 0;
            while rest < 1 << shift {
                table[((code.codes[symbol] << shift) + rest) as usize] = (symbol as u8, length as u8);
                rest += 1;
            }
        }
        symbol += 1;
    }
    table
}

/// Returns the length of the encoded text, bytes.
pub fn encoded_length(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the encoded text.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u64, 0_u32);
    for byte in text {
        let symbol = usize::from(*byte);
        bits = bits << LENGTHS[symbol] | u64::from(CODE.codes[symbol]);
        count += u32::from(LENGTHS[symbol]);
        while count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    if count > 0 {
        // The padding is the beginning of the code of the end.
        out.push((bits << (8 - count)) as u8 | 0xff >> count);
    }
}

/// Appends the decoded text. Returns false if the text is not valid; some bytes may have been
/// appended then.
#[must_use]
pub fn decode(encoded: &[u8], out: &mut Vec<u8>) -> bool {
    let mut rest = encoded.iter();
    // The next bits, left-aligned. The bits behind the end of the text are ones.
    let (mut bits, mut count) = (u64::MAX, 0_u32);
    loop {
        while count <= 56
            && let Some(byte) = rest.next()
        {
            bits &= !(0xff << (56 - count));
            bits |= u64::from(*byte) << (56 - count);
            count += 8;
        }
        let (symbol, length) = match SHORT[(bits >> 56) as usize] {
            (_, 0) => long(bits),
            (symbol, length) => (u16::from(symbol), u32::from(length)),
        };
        if length > count {
            // Only the padding is left, if the text is valid: less than a byte of ones.
            return count < 8 && bits == u64::MAX;
        }
        let Ok(symbol) = u8::try_from(symbol) else { return false };
        out.push(symbol);
        bits = bits << length | ((1 << length) - 1);
        count -= length;
    }
}

/// Returns the symbol and the length of a code of more than eight bits.
fn long(bits: u64) -> (u16, u32) {
    let text = bits >> 32;
    for length in SHORT_BITS as usize + 1..=LONGEST {
        if text < CODE.limit[length] {
            let above = (text >> (32 - length)) as usize - CODE.first[length] as usize;
            return (CODE.symbols[usize::from(CODE.place[length]) + above], length as u32);
        }
    }
    (SYMBOLS as u16 - 1, LONGEST as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text, &mut out);
        assert_eq!(out.len(), encoded_length(text));
        out
    }

    fn decoded(encoded: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(encoded, &mut out).then_some(out)
    }

    /// The examples of RFC 7541, C.4 and C.6.
    #[test]
    fn the_examples_of_the_rfc() {
        for (text, code) in [
            ("www.example.com", "f1e3c2e5f23a6ba0ab90f4ff"),
            ("no-cache", "a8eb10649cbf"),
            ("custom-key", "25a849e95ba97d7f"),
            ("custom-value", "25a849e95bb8e8b4bf"),
            ("302", "6402"),
            ("private", "aec3771a4b"),
            ("Mon, 21 Oct 2013 20:13:21 GMT", "d07abe941054d444a8200595040b8166e082a62d1bff"),
            ("https://www.example.com", "9d29ad171863c78f0b97c8e9ae82ae43d3"),
            ("307", "640eff"),
            ("gzip", "9bd9ab"),
        ] {
            let hex: String = encoded(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, code, "{text}");
            assert_eq!(decoded(&encoded(text.as_bytes())).as_deref(), Some(text.as_bytes()));
        }
    }

    #[test]
    fn every_byte_and_any_text_comes_back() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        assert_eq!(decoded(&encoded(&all)), Some(all));
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..2000 {
            let text: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
            assert_eq!(decoded(&encoded(&text)), Some(text));
        }
    }

    #[test]
    fn wrong_padding_and_the_end_of_the_string_are_refused() {
        assert_eq!(decoded(b""), Some(Vec::new()));
        assert_eq!(decoded(&[0b0001_1111]), Some(b"a".to_vec()));
        for wrong in [&[0b0001_1110][..], &[0b0001_1000], &[0xff], &[0b0001_1111, 0xff], &[0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(decoded(wrong), None, "{wrong:02x?}");
        }
        // `a` and the code of the end, 30 bits.
        assert_eq!(decoded(&[0b0001_1111, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
