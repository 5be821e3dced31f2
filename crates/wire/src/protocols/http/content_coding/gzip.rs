//! Header and trailer of a gzip member (RFC 1952, 2.3).

/// Flags of the header: a checksum of the header, extra fields, a name, a comment.
const HEADER_CRC: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;

/// Returns the length of the header at the start of the input, or `None` if there is no complete
/// header.
pub fn header_length(input: &[u8]) -> Option<usize> {
    let [0x1f, 0x8b, 8, flags, ..] = *input else { return None };
    let mut length = 10;
    if flags & EXTRA != 0 {
        let size = input.get(length..length + 2)?;
        length += 2 + usize::from(u16::from_le_bytes([size[0], size[1]]));
    }
    for flag in [NAME, COMMENT] {
        if flags & flag != 0 {
            length += memchr::memchr(0, input.get(length..)?)? + 1;
        }
    }
    Some(length + if flags & HEADER_CRC != 0 { 2 } else { 0 })
}

/// Checks the checksum and the length that follow the compressed data. Returns the input after
/// them, or `None` if they are cut off or do not match the decoded bytes.
pub fn check_trailer<'a>(input: &'a [u8], decoded: &[u8]) -> Option<&'a [u8]> {
    let (trailer, rest) = input.split_first_chunk::<8>()?;
    let expected = [crc32fast::hash(decoded).to_le_bytes(), (decoded.len() as u32).to_le_bytes()].concat();
    (trailer.as_slice() == expected).then_some(rest)
}
