//! Bytes that a protocol allows in a value. Constant text is checked when it is compiled. Text from
//! feeds, answers and scripts is checked each time it is filled in, so that a service or a file
//! cannot inject requests.

use std::fmt;

use crate::slot_names::SlotName;

/// The reason why a request cannot be sent. All but the last concern a value that the protocol
/// cannot represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotSendable {
    /// A path with a blank or a control character.
    InPath,
    /// A path without a valid beginning.
    PathBeginning,
    /// A header with a control character.
    InHeader,
    /// A part of a line with a line end in it.
    InLine,
    /// A JSON string with bytes that are not UTF-8.
    InJson,
    /// A message of text with bytes that are not UTF-8.
    InMessage,
    /// A message without the value by which its answer is found.
    NoMatch,
    /// A part of a multipart body with the boundary between the parts in it.
    InPart,
    /// A text field with bytes that are not UTF-8.
    InText,
    /// A number field with a text that is no number of its type.
    NotNumber,
    /// A field of bytes with a text that is not base64.
    NotBase64,
    /// A value that is too long for its length field.
    TooLong,
    /// A slot that this cycle has not filled.
    NoSlot(SlotName),
}

/// Formats the reason, which follows `not sent: `.
impl fmt::Display for NotSendable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InPath => out.write_str("a byte that a path cannot hold"),
            Self::PathBeginning => out.write_str("a path that does not begin with /"),
            Self::InHeader => out.write_str("a byte that a header cannot hold"),
            Self::InLine => out.write_str("a byte that a line cannot hold"),
            Self::InJson => out.write_str("bytes that are not UTF-8 in a JSON string"),
            Self::InMessage => out.write_str("bytes that are not UTF-8 in a message of text"),
            Self::NoMatch => out.write_str("no value at the place of `match`"),
            Self::InPart => out.write_str("the boundary of the parts in a part"),
            Self::InText => out.write_str("bytes that are not UTF-8 in a text field"),
            Self::NotNumber => out.write_str("a text that is no value of its field's type"),
            Self::NotBase64 => out.write_str("a text that is not base64 in a field of bytes"),
            Self::TooLong => out.write_str("a value that is longer than its length field can say"),
            Self::NoSlot(slot) => write!(out, "no {slot}"),
        }
    }
}

/// The bytes that a value may contain.
#[derive(Debug, Clone, PartialEq)]
pub struct AllowedBytes {
    is_allowed: [bool; 256],
    /// A byte sequence that the value may not contain. If empty, no sequence is forbidden.
    without: Box<[u8]>,
    refusal: NotSendable,
}

impl Default for AllowedBytes {
    /// Allows all bytes.
    fn default() -> Self {
        Self::which(|_| true, NotSendable::InLine)
    }
}

impl AllowedBytes {
    /// Allows the bytes for which `is_allowed` is true.
    pub fn which(is_allowed: impl Fn(u8) -> bool, refusal: NotSendable) -> Self {
        let mut table = [false; 256];
        (0..=u8::MAX).for_each(|byte| table[usize::from(byte)] = is_allowed(byte));
        Self { is_allowed: table, without: Box::default(), refusal }
    }

    /// Also forbids this byte sequence.
    pub fn without(self, bytes: &[u8]) -> Self {
        Self { without: bytes.into(), ..self }
    }

    /// Checks a text.
    #[inline]
    pub fn check(&self, text: &[u8]) -> Result<(), NotSendable> {
        let is_row = |bytes: &[u8]| *bytes == *self.without;
        let is_fine = text.iter().all(|byte| self.is_allowed[usize::from(*byte)])
            && (self.without.is_empty() || !text.windows(self.without.len()).any(is_row));
        if is_fine { Ok(()) } else { Err(self.refusal) }
    }
}
