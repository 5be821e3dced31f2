//! Chunked bodies, at whatever byte they are cut: sizes, data, trailers. It must not keep the data: it says where it is.

use super::BODY_LIMIT;
use crate::protocols::Cause;

/// The longest line with a chunk's size and extensions.
const SIZE_LINE_LIMIT: usize = 4 * 1024;
/// The longest trailer line.
const TRAILER_LIMIT: usize = 16 * 1024;
/// Most trailer lines.
const TRAILERS: u16 = 128;

/// Where in a chunked body the next byte is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Chunks {
    /// Before a chunk's size.
    #[default]
    Size,
    /// In a chunk's data, of which so much is left.
    Data(u64),
    /// Between a chunk's data and the line end behind it.
    DataEnd,
    /// In the trailers, after so many.
    Trailers(u16),
    /// Behind the body.
    End,
}

/// One step through a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// More bytes are needed.
    More,
    /// So many bytes of framing.
    Framing(usize),
    /// So many bytes of the body.
    Data(usize),
    /// The body has ended.
    End,
}

impl Chunks {
    /// What the input begins with. The caller skips that much before it asks again.
    pub fn step(&mut self, input: &[u8]) -> Result<Piece, Cause> {
        match *self {
            Self::End => Ok(Piece::End),
            Self::Data(left) => {
                let here = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                if here == 0 {
                    return Ok(Piece::More);
                }
                let left = left - here as u64;
                *self = if left == 0 { Self::DataEnd } else { Self::Data(left) };
                Ok(Piece::Data(here))
            }
            Self::DataEnd => match input {
                [b'\r', b'\n', ..] => {
                    *self = Self::Size;
                    Ok(Piece::Framing(2))
                }
                [] | [b'\r'] => Ok(Piece::More),
                _ => Err(Cause::BadAnswer),
            },
            Self::Size => self.size(input),
            Self::Trailers(count) => self.trailer(count, input),
        }
    }

    fn size(&mut self, input: &[u8]) -> Result<Piece, Cause> {
        match input.first() {
            None => return Ok(Piece::More),
            Some(first) if !first.is_ascii_hexdigit() => return Err(Cause::BadAnswer),
            Some(_) => {}
        }
        let line = &input[..input.len().min(SIZE_LINE_LIMIT)];
        match httparse::parse_chunk_size(line) {
            // However few of its bytes come, it would end in that.
            Ok(httparse::Status::Complete((_, size))) if size > BODY_LIMIT => Err(Cause::TooLong),
            Ok(httparse::Status::Complete((length, size))) => {
                *self = if size == 0 { Self::Trailers(0) } else { Self::Data(size) };
                Ok(Piece::Framing(length))
            }
            Ok(httparse::Status::Partial) if line.len() < SIZE_LINE_LIMIT => Ok(Piece::More),
            Ok(httparse::Status::Partial) | Err(_) => Err(Cause::BadAnswer),
        }
    }

    fn trailer(&mut self, count: u16, input: &[u8]) -> Result<Piece, Cause> {
        let Some(end) = input.iter().take(TRAILER_LIMIT).position(|byte| *byte == b'\n') else {
            return if input.len() < TRAILER_LIMIT { Ok(Piece::More) } else { Err(Cause::TooLong) };
        };
        if input[..end] == *b"\r" || end == 0 {
            *self = Self::End;
        } else if count == TRAILERS {
            return Err(Cause::TooLong);
        } else {
            *self = Self::Trailers(count + 1);
        }
        Ok(Piece::Framing(end + 1))
    }
}
