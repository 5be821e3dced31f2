//! Protocol Buffers (protobuf): the wire format, types of messages from `.proto` files and from
//! descriptors, messages that are compiled from JSON before the load, and fields that are read from
//! answers.
//!
//! A message is a sequence of fields. A field is a key, which is the field's number and the form of
//! its value, and the value.

pub mod descriptors;
pub mod example_message;
pub mod field_path;
pub mod json_text;
mod json_tree;
pub mod message_layout;
pub mod proto_text;
pub mod sources;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod types;
mod well_known;

pub use well_known::file as well_known_file;

/// Iterator over the fields of a message, in their order. Ends after malformed bytes.
#[derive(Debug, Clone)]
pub struct ProtobufFields<'a> {
    rest: &'a [u8],
}

/// The value of a field. Nested messages, strings and packed lists are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtobufValue<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
    /// A message between two keys instead of behind a length, as only version 2 schemas have it.
    Group(&'a [u8]),
}

/// Forms of values on the wire, as they are in a key.
pub const VARINT: u8 = 0;
pub const FIXED64: u8 = 1;
pub const BYTES: u8 = 2;
pub const GROUP: u8 = 3;
pub const GROUP_END: u8 = 4;
pub const FIXED32: u8 = 5;

/// Maximum depth of groups in each other.
const GROUPS: usize = 64;

/// The bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedMessage;

/// Maximum length of a varint, bytes.
const VARINT_BYTES: usize = 10;

impl<'a> ProtobufFields<'a> {
    /// Returns the fields of a message.
    #[must_use]
    pub fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn varint(&mut self) -> Result<u64, MalformedMessage> {
        read_varint(&mut self.rest).ok_or(MalformedMessage)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], MalformedMessage> {
        let length = usize::try_from(length).map_err(|_| MalformedMessage)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(MalformedMessage)?;
        self.rest = rest;
        Ok(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], MalformedMessage> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(MalformedMessage)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Reads a key: the number of a field and the form of its value.
    fn key(&mut self) -> Result<(u32, u8), MalformedMessage> {
        let key = u32::try_from(self.varint()?).map_err(|_| MalformedMessage)?;
        match key >> 3 {
            0 => Err(MalformedMessage),
            number => Ok((number, (key & 7) as u8)),
        }
    }

    fn read(&mut self) -> Result<(u32, ProtobufValue<'a>), MalformedMessage> {
        let (number, form) = self.key()?;
        let value = match form {
            VARINT => ProtobufValue::Varint(self.varint()?),
            FIXED64 => ProtobufValue::Fixed64(u64::from_le_bytes(self.chunk()?)),
            BYTES => {
                let length = self.varint()?;
                ProtobufValue::Bytes(self.take(length)?)
            }
            GROUP => ProtobufValue::Group(self.group(number)?),
            FIXED32 => ProtobufValue::Fixed32(u32::from_le_bytes(self.chunk()?)),
            _ => return Err(MalformedMessage),
        };
        Ok((number, value))
    }

    /// Reads the content of a group up to its end.
    fn group(&mut self, number: u32) -> Result<&'a [u8], MalformedMessage> {
        let begin = self.rest;
        let (mut open, mut depth) = ([number; GROUPS], 1);
        loop {
            let here = self.rest;
            let (number, form) = self.key()?;
            match form {
                GROUP => {
                    *open.get_mut(depth).ok_or(MalformedMessage)? = number;
                    depth += 1;
                }
                GROUP_END if open[depth - 1] != number => return Err(MalformedMessage),
                GROUP_END if depth == 1 => return Ok(&begin[..begin.len() - here.len()]),
                GROUP_END => depth -= 1,
                _ => {
                    self.rest = here;
                    self.read()?;
                }
            }
        }
    }
}

impl<'a> Iterator for ProtobufFields<'a> {
    type Item = Result<(u32, ProtobufValue<'a>), MalformedMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Takes a varint from the beginning of the bytes. Returns `None` if the bytes end, or if the
/// number has more than 64 bits.
#[inline]
pub fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for (place, byte) in bytes.iter().take(VARINT_BYTES).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            // The tenth byte has one bit.
            let is_valid = place < VARINT_BYTES - 1 || *byte <= 1;
            *bytes = &bytes[place + 1..];
            return is_valid.then_some(value);
        }
    }
    None
}

/// Appends a varint.
#[inline]
pub fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns the length of a varint, bytes.
#[must_use]
pub fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends a key.
pub fn write_key(number: u32, form: u8, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | u64::from(form), out);
}

/// Maps a signed number to an unsigned one, so that small negative numbers are short.
#[must_use]
pub fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// Reverses [`zigzag`].
#[must_use]
pub fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ProtobufValue::{Bytes, Fixed32, Fixed64, Group, Varint};
    use super::*;

    fn fields(message: &[u8]) -> Result<Vec<(u32, ProtobufValue<'_>)>, MalformedMessage> {
        ProtobufFields::of(message).collect()
    }

    #[test]
    fn fields_of_each_wire_type() {
        // The examples of the encoding's documentation.
        assert_eq!(fields(b"\x08\x96\x01"), Ok(vec![(1, Varint(150))]));
        assert_eq!(fields(b"\x12\x07testing"), Ok(vec![(2, Bytes(b"testing"))]));
        assert_eq!(fields(b"\x1a\x03\x08\x96\x01"), Ok(vec![(3, Bytes(b"\x08\x96\x01"))]));
        let fixed = b"\x09\x01\0\0\0\0\0\0\x80\x15\x02\0\0\0";
        assert_eq!(fields(fixed), Ok(vec![(1, Fixed64(0x8000_0000_0000_0001)), (2, Fixed32(2))]));
        assert_eq!(fields(b""), Ok(vec![]));
        assert_eq!(fields(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Ok(vec![(1, Varint(u64::MAX))]));
        // Varints may be longer than needed.
        assert_eq!(fields(b"\x88\x80\0\x81\0"), Ok(vec![(1, Varint(1))]));
    }

    #[test]
    fn malformed_messages_are_refused() {
        for message in [
            &b"\x08"[..],
            b"\x08\x80",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x12\x02t",
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01t",
            b"\x09\x01\0\0",
            b"\x15\x01",
            b"\0\x01",
            b"\x0b",
            b"\x0c",
            b"\x0b\x14",
            &[0x0b; 1000],
            b"\x0e\x01",
            b"\xff\xff\xff\xff\xff\x01\x01",
        ] {
            assert_eq!(fields(message), Err(MalformedMessage), "{message:x?}");
            // A malformed field is the last one.
            assert_eq!(ProtobufFields::of(message).count(), 1, "{message:x?}");
        }
    }

    #[test]
    fn groups_end_with_their_own_number() {
        assert_eq!(fields(&[0x0b, 0x10, 0x05, 0x0c]), Ok(vec![(1, Group(&[0x10, 0x05]))]));
        let nested = fields(&[0x0b, 0x13, 0x14, 0x0c, 0x08, 0x01]);
        assert_eq!(nested, Ok(vec![(1, Group(&[0x13, 0x14])), (1, Varint(1))]));
        assert_eq!(fields(&[0x0b, 0x0c]), Ok(vec![(1, Group(&[]))]));
    }

    #[test]
    fn small_negative_numbers_are_short() {
        assert_eq!((zigzag(0), zigzag(-1), zigzag(1), zigzag(i64::MIN)), (0, 1, 2, u64::MAX));
    }

    proptest! {
        #[test]
        fn signed_numbers_are_read_as_written(number: i64) {
            prop_assert_eq!(unzigzag(zigzag(number)), number);
        }

        #[test]
        fn varints_are_read_as_written(value: u64) {
            let mut message = vec![0x08];
            write_varint(value, &mut message);
            prop_assert_eq!(message.len() - 1, varint_length(value));
            prop_assert_eq!(fields(&message), Ok(vec![(1, Varint(value))]));
        }

        #[test]
        fn random_bytes_never_panic(message in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = fields(&message);
        }
    }
}
