//! Header blocks (HPACK, RFC 7541) without a dynamic table. Plimsoll announces a table of size 0,
//! so a block depends on no earlier block, and fields that no step needs are skipped by their
//! length.

use super::huffman;

/// Names and values of the static table (RFC 7541, appendix A). The first has the index 1.
#[rustfmt::skip]
static STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Indexes of the static table.
const STATUS: usize = 8;
const LAST_STATUS: usize = 14;

/// Largest length or index that is read.
const LARGEST: u32 = 1 << 24;

/// A defect of a header block. The block cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadBlock;

/// The rest of a header block, read from its beginning.
#[derive(Debug, Clone, Copy)]
pub struct HeaderBlock<'a>(&'a [u8]);

/// A field of a header block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderField<'a> {
    /// Index of the name in the static table: of the first entry with the name. 0 if the name is a
    /// literal.
    index: usize,
    name: HeaderText<'a>,
    pub value: HeaderText<'a>,
}

/// A name or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderText<'a> {
    bytes: &'a [u8],
    is_huffman: bool,
}

/// A name in all its encodings, to find its field without decoding the other names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderName {
    index: usize,
    plain: Box<[u8]>,
    huffman: Box<[u8]>,
}

impl HeaderName {
    /// Makes a name, which is in lower case.
    pub fn new(name: &str) -> Self {
        let mut huffman = Vec::new();
        huffman::encode(name.as_bytes(), &mut huffman);
        Self { index: name_index(name), plain: name.as_bytes().into(), huffman: huffman.into() }
    }

    /// Returns the name as text.
    pub fn plain(&self) -> &[u8] {
        &self.plain
    }
}

impl<'a> HeaderField<'a> {
    /// Whether the field has this name.
    #[inline]
    pub fn is(&self, name: &HeaderName) -> bool {
        if self.index != 0 {
            return self.index == name.index;
        }
        *self.name.bytes == **if self.name.is_huffman { &name.huffman } else { &name.plain }
    }

    /// Whether the name is that of the entry `index` in the static table. A literal name is never
    /// equal, because only indexes are compared.
    #[inline]
    pub fn has_index(&self, index: usize) -> bool {
        self.index == index
    }

    /// Returns the name.
    pub fn name(&self) -> HeaderText<'a> {
        self.name
    }
}

impl<'a> HeaderText<'a> {
    fn plain(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), is_huffman: false }
    }

    /// Appends the decoded text.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), BadBlock> {
        if !self.is_huffman {
            out.extend_from_slice(self.bytes);
            return Ok(());
        }
        if huffman::decode(self.bytes, out) { Ok(()) } else { Err(BadBlock) }
    }

    /// Returns the text as a number in decimal digits, or `None` if it is no such number. `scratch`
    /// may be used.
    pub fn number(&self, scratch: &mut Vec<u8>) -> Option<u64> {
        const DIGITS: usize = 20;
        if self.bytes.is_empty() || self.bytes.len() > DIGITS {
            return None;
        }
        scratch.clear();
        self.write(scratch).ok()?;
        scratch.iter().try_fold(0_u64, |number, byte| {
            let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
            number.checked_mul(10)?.checked_add(digit)
        })
    }
}

impl<'a> HeaderBlock<'a> {
    /// Begins to read a block.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Reads the first field of an answer, `:status` (RFC 9113, 8.3.2). Returns `None` if the block
    /// begins with another field, or if the value is no status. `scratch` may be used.
    #[inline]
    pub fn status(&mut self, scratch: &mut Vec<u8>) -> Result<Option<u16>, BadBlock> {
        const OK: u8 = 0x88;
        if let Some((&OK, rest)) = self.0.split_first() {
            self.0 = rest;
            return Ok(Some(200));
        }
        self.any_status(scratch)
    }

    fn any_status(&mut self, scratch: &mut Vec<u8>) -> Result<Option<u16>, BadBlock> {
        let Some(field) = self.next_field()? else { return Ok(None) };
        if field.index != STATUS && field.name.is_huffman {
            scratch.clear();
            field.name.write(scratch)?;
        }
        let is_status = match field.index {
            STATUS => true,
            _ if field.name.is_huffman => scratch == b":status",
            _ => field.name.bytes == b":status",
        };
        let status = field.value.number(scratch).filter(|status| is_status && (100..1000).contains(status));
        Ok(status.and_then(|status| u16::try_from(status).ok()))
    }

    /// Reads the next field. Returns `None` at the end of the block.
    #[inline]
    pub fn next_field(&mut self) -> Result<Option<HeaderField<'a>>, BadBlock> {
        loop {
            let Some(first) = self.0.first() else { return Ok(None) };
            let index = match first {
                0x80.. => {
                    let index = self.integer(7)?;
                    let (name, value) = index.checked_sub(1).and_then(|at| STATIC.get(at)).ok_or(BadBlock)?;
                    let (name, value) = (HeaderText::plain(name), HeaderText::plain(value));
                    return Ok(Some(HeaderField { index: first_index(index), name, value }));
                }
                // An entry that is added to a table of size 0 is dropped (RFC 7541, 4.4).
                0x40..0x80 => self.integer(6)?,
                0x20..0x40 => {
                    self.integer(5)?;
                    continue;
                }
                _ => self.integer(4)?,
            };
            let name = match index {
                0 => self.text()?,
                index => HeaderText::plain(STATIC.get(index - 1).ok_or(BadBlock)?.0),
            };
            return Ok(Some(HeaderField { index: first_index(index), name, value: self.text()? }));
        }
    }

    /// Reads an integer (RFC 7541, 5.1).
    #[inline]
    fn integer(&mut self, prefix: u32) -> Result<usize, BadBlock> {
        let (first, rest) = self.0.split_first().ok_or(BadBlock)?;
        self.0 = rest;
        let most = (1_u32 << prefix) - 1;
        let mut number = u32::from(*first) & most;
        if number < most {
            return Ok(number as usize);
        }
        let mut shift = 0;
        loop {
            let (byte, rest) = self.0.split_first().ok_or(BadBlock)?;
            self.0 = rest;
            number = number.checked_add(u32::from(byte & 0x7f) << shift).ok_or(BadBlock)?;
            if number > LARGEST {
                return Err(BadBlock);
            }
            if byte & 0x80 == 0 {
                return Ok(number as usize);
            }
            shift += 7;
            if shift > 21 {
                return Err(BadBlock);
            }
        }
    }

    /// Reads a string (RFC 7541, 5.2).
    #[inline]
    fn text(&mut self) -> Result<HeaderText<'a>, BadBlock> {
        let is_huffman = self.0.first().ok_or(BadBlock)? & 0x80 != 0;
        let length = self.integer(7)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(BadBlock)?;
        self.0 = rest;
        Ok(HeaderText { bytes, is_huffman })
    }
}

/// Returns the index of the first entry with the same name.
#[inline]
fn first_index(index: usize) -> usize {
    match index {
        STATUS..=LAST_STATUS => STATUS,
        3 | 5 | 7 => index - 1,
        _ => index,
    }
}

fn name_index(name: &str) -> usize {
    STATIC.iter().position(|(known, _)| *known == name).map_or(0, |at| at + 1)
}

/// Appends a field with a constant value, in its shortest form without a dynamic table.
pub fn write_field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    let whole = STATIC.iter().position(|(known, text)| *known == name && text.as_bytes() == value);
    match whole.filter(|_| !value.is_empty()) {
        Some(at) => write_integer(7, 0x80, at + 1, out),
        None => {
            write_name(name, out);
            write_string(value, out);
        }
    }
}

/// Appends the beginning of a field without its value: a literal without indexing. The name is in
/// lower case.
pub fn write_name(name: &str, out: &mut Vec<u8>) {
    let index = name_index(name);
    write_integer(4, 0, index, out);
    if index == 0 {
        write_string(name.as_bytes(), out);
    }
}

/// Appends a string, with the Huffman code if that is shorter.
pub fn write_string(text: &[u8], out: &mut Vec<u8>) {
    let length = huffman::encoded_length(text);
    if length < text.len() {
        write_integer(7, 0x80, length, out);
        huffman::encode(text, out);
    } else {
        write_integer(7, 0, text.len(), out);
        out.extend_from_slice(text);
    }
}

/// The beginning of a `cookie` field: a literal without indexing, up to the gap for the length of
/// the value.
pub const COOKIE: &[u8] = &[0x0f, 32 - 15, 0];

/// Sets the length of a plain string that was appended behind a gap of one byte. The string moves
/// if the length needs more. Returns the place of the string.
#[inline]
pub fn set_length(gap: usize, out: &mut Vec<u8>) -> usize {
    let (begin, end) = (gap + 1, out.len());
    let length = end - begin;
    if length < 0x7f {
        out[gap] = length as u8;
        return begin;
    }
    let mut more = [0; 5];
    let mut count = 0;
    let mut rest = length - 0x7f;
    loop {
        more[count] = rest as u8 & 0x7f | if rest >= 0x80 { 0x80 } else { 0 };
        rest >>= 7;
        count += 1;
        if rest == 0 {
            break;
        }
    }
    out[gap] = 0x7f;
    out.extend_from_slice(&more[..count]);
    out.copy_within(begin..end, begin + count);
    out[begin..begin + count].copy_from_slice(&more[..count]);
    begin + count
}

/// Appends an integer behind the bits `above` of its first byte (RFC 7541, 5.1).
#[inline]
pub fn write_integer(prefix: u32, above: u8, number: usize, out: &mut Vec<u8>) {
    let most = (1_usize << prefix) - 1;
    if number < most {
        out.push(above | number as u8);
        return;
    }
    out.push(above | most as u8);
    let mut rest = number - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
    }

    fn fields(block: &[u8]) -> Result<Vec<(String, String)>, BadBlock> {
        let (mut block, mut fields) = (HeaderBlock::new(block), Vec::new());
        while let Some(field) = block.next_field()? {
            let (mut name, mut value) = (Vec::new(), Vec::new());
            field.name().write(&mut name)?;
            field.value.write(&mut value)?;
            assert!(field.is(&HeaderName::new(std::str::from_utf8(&name).unwrap())));
            fields.push((String::from_utf8(name).unwrap(), String::from_utf8(value).unwrap()));
        }
        Ok(fields)
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// The examples of RFC 7541, C.2 and the first of C.3 to C.6, which use no dynamic table.
    #[test]
    fn the_examples_of_the_rfc() {
        let request =
            pairs(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")]);
        let answer = pairs(&[
            (":status", "302"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("location", "https://www.example.com"),
        ]);
        for (block, expected) in [
            (
                "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
                pairs(&[("custom-key", "custom-header")]),
            ),
            ("040c 2f73 616d 706c 652f 7061 7468", pairs(&[(":path", "/sample/path")])),
            ("1008 7061 7373 776f 7264 0673 6563 7265 74", pairs(&[("password", "secret")])),
            ("82", pairs(&[(":method", "GET")])),
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", request.clone()),
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", request),
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 \
                 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                answer.clone(),
            ),
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad \
                 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                answer,
            ),
        ] {
            assert_eq!(fields(&bytes(block)), Ok(expected), "{block}");
        }
    }

    /// The examples of RFC 7541, C.1.
    #[test]
    fn integers() {
        for (prefix, number, hex) in
            [(5, 10, "0a"), (5, 1337, "1f9a0a"), (8, 42, "2a"), (7, 127, "7f00"), (7, 126, "7e")]
        {
            let mut out = Vec::new();
            write_integer(prefix, 0, number, &mut out);
            assert_eq!(out, bytes(hex));
            assert_eq!(HeaderBlock::new(&out).integer(prefix), Ok(number));
        }
        for endless in ["ffffffffffff", "ff8080808000", "ff", "ffff"] {
            assert_eq!(HeaderBlock::new(&bytes(endless)).integer(7), Err(BadBlock), "{endless}");
        }
    }

    #[test]
    fn a_length_is_set_afterwards() {
        for length in [0, 1, 126, 127, 128, 254, 255, 300, 70_000, 3_000_000] {
            let text = vec![b'x'; length];
            let mut out = [b"ab\0", text.as_slice()].concat();
            let begin = set_length(2, &mut out);
            assert_eq!((&out[begin..], &out[..2]), (text.as_slice(), &b"ab"[..]));
            let mut block = HeaderBlock::new(&out[2..]);
            assert_eq!(block.text(), Ok(HeaderText { bytes: &text, is_huffman: false }));
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        let long = "x".repeat(300);
        for (name, value) in [
            (":method", "GET"),
            (":method", "PATCH"),
            (":path", "/"),
            ("accept", ""),
            ("x-own", "a b"),
            ("user-agent", long.as_str()),
            ("x", "\u{7f}\u{1}"),
        ] {
            let mut out = Vec::new();
            write_field(name, value.as_bytes(), &mut out);
            assert_eq!(fields(&out), Ok(pairs(&[(name, value)])));
        }
        let mut get = Vec::new();
        write_field(":method", b"GET", &mut get);
        assert_eq!(get, [0x82]);
    }

    #[test]
    fn a_status_is_the_first_field() {
        for (block, status) in [
            ("88", Ok(Some(200))),
            ("3f e1 1f 88", Ok(Some(200))),
            ("08 03 343039", Ok(Some(409))),
            ("48 82 6402", Ok(Some(302))),
            ("00 07 3a737461747573 03 323034", Ok(Some(204))),
            ("08 02 3230", Ok(None)),
            ("08 05 3230303030", Ok(None)),
            ("08 03 32 78 30", Ok(None)),
            ("82", Ok(None)),
            ("", Ok(None)),
            ("be", Err(BadBlock)),
            ("80", Err(BadBlock)),
            ("7e 00", Err(BadBlock)),
            ("08 05 3230", Err(BadBlock)),
        ] {
            assert_eq!(HeaderBlock::new(&bytes(block)).status(&mut Vec::new()), status, "{block}");
        }
    }
}
