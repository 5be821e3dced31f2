//! Protobuf's wire format: the fields of a message as they stand in its bytes, without a schema.

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
}

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
        let mut value = 0_u64;
        for (place, byte) in self.rest.iter().take(VARINT_BYTES).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                // The tenth byte has one bit.
                let is_valid = place < VARINT_BYTES - 1 || *byte <= 1;
                self.rest = &self.rest[place + 1..];
                return is_valid.then_some(value).ok_or(MalformedMessage);
            }
        }
        Err(MalformedMessage)
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

    fn read(&mut self) -> Result<(u32, ProtobufValue<'a>), MalformedMessage> {
        let tag = u32::try_from(self.varint()?).map_err(|_| MalformedMessage)?;
        let value = match tag & 7 {
            0 => ProtobufValue::Varint(self.varint()?),
            1 => ProtobufValue::Fixed64(u64::from_le_bytes(self.chunk()?)),
            2 => {
                let length = self.varint()?;
                ProtobufValue::Bytes(self.take(length)?)
            }
            5 => ProtobufValue::Fixed32(u32::from_le_bytes(self.chunk()?)),
            // Groups (3 and 4) are deprecated, and no version 3 schema has them.
            _ => return Err(MalformedMessage),
        };
        match tag >> 3 {
            0 => Err(MalformedMessage),
            number => Ok((number, value)),
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

/// Appends a varint.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ProtobufValue::{Bytes, Fixed32, Fixed64, Varint};
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
            b"\x0b\x0c",
            b"\x0e\x01",
            b"\xff\xff\xff\xff\xff\x01\x01",
        ] {
            assert_eq!(fields(message), Err(MalformedMessage), "{message:x?}");
            // A malformed field is the last one.
            assert_eq!(ProtobufFields::of(message).count(), 1, "{message:x?}");
        }
    }

    proptest! {
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
