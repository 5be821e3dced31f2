//! Frames of WebSocket (RFC 6455, 5): headers, masks, and the bodies of closing frames.

use crate::cause::AttemptCause;

/// Longest body of a control frame, bytes (RFC 6455, 5.5).
pub const CONTROL_LIMIT: usize = 125;

/// Kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

/// Header of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketFrame {
    pub kind: FrameKind,
    /// Whether the frame is the last one of its message.
    pub is_last: bool,
    /// Size of the header, bytes.
    pub head: usize,
    /// Size of the body, bytes.
    pub body: usize,
}

impl SocketFrame {
    /// Reads a header. Returns `None` if it is not complete.
    ///
    /// # Errors
    /// The bytes are not a header that a server may send.
    pub fn read(input: &[u8]) -> Result<Option<Self>, AttemptCause> {
        const BAD: AttemptCause = AttemptCause::BadAnswer;
        let Some(&first) = input.first() else { return Ok(None) };
        let kind = match first & 0x0f {
            0 => FrameKind::Continuation,
            1 => FrameKind::Text,
            2 => FrameKind::Binary,
            8 => FrameKind::Close,
            9 => FrameKind::Ping,
            10 => FrameKind::Pong,
            _ => return Err(BAD),
        };
        // The three reserved bits belong to extensions, and none was offered.
        if first & 0x70 != 0 {
            return Err(BAD);
        }
        let Some(&second) = input.get(1) else { return Ok(None) };
        // A server does not mask.
        if second & 0x80 != 0 {
            return Err(BAD);
        }
        let is_last = first & 0x80 != 0;
        let is_control = first & 0x08 != 0;
        if is_control && (!is_last || usize::from(second) > CONTROL_LIMIT) {
            return Err(BAD);
        }
        let (head, body) = match second {
            126 => match input[2..].first_chunk() {
                Some(length) => (4, u64::from(u16::from_be_bytes(*length))),
                None => return Ok(None),
            },
            127 => match input[2..].first_chunk() {
                Some(length) => (10, u64::from_be_bytes(*length)),
                None => return Ok(None),
            },
            short => (2, u64::from(short)),
        };
        // A length has the shortest form.
        if (head == 4 && body < 126) || (head == 10 && (body <= 0xffff || body >> 63 != 0)) {
            return Err(BAD);
        }
        Ok(Some(Self { kind, is_last, head, body: usize::try_from(body).unwrap_or(usize::MAX) }))
    }
}

/// Longest header of a sent frame, bytes.
const SENT_HEAD: usize = 14;

/// Turns the bytes of `out` from `begin` into a masked frame, which is a whole message.
#[inline]
pub fn wrap(kind: FrameKind, mask: [u8; 4], begin: usize, out: &mut Vec<u8>) {
    let body = out.len() - begin;
    let mut head = [0; SENT_HEAD];
    head[0] = 0x80 | kind as u8;
    let length = match body {
        0..=125 => {
            head[1] = 0x80 | body as u8;
            2
        }
        126..=0xffff => {
            head[1] = 0x80 | 126;
            head[2..4].copy_from_slice(&(body as u16).to_be_bytes());
            4
        }
        _ => {
            head[1] = 0x80 | 127;
            head[2..10].copy_from_slice(&(body as u64).to_be_bytes());
            10
        }
    };
    head[length..length + 4].copy_from_slice(&mask);
    let head = &head[..length + 4];
    apply_mask(&mut out[begin..], mask);
    out.resize(out.len() + head.len(), 0);
    out.copy_within(begin..begin + body, begin + head.len());
    out[begin..begin + head.len()].copy_from_slice(head);
}

/// Appends a masked frame, which is a whole message.
pub fn write(kind: FrameKind, mask: [u8; 4], body: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(body);
    wrap(kind, mask, begin, out);
}

/// Masks a body, or removes its mask: eight bytes at a time.
pub fn apply_mask(body: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut words = body.chunks_exact_mut(8);
    for word in &mut words {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        word.copy_from_slice(&(u64::from_ne_bytes(bytes) ^ wide).to_ne_bytes());
    }
    for (byte, mask) in words.into_remainder().iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

/// Code of a closing frame without one (RFC 6455, 7.1.5).
pub const NO_CODE: u16 = 1005;

/// Reads the body of a closing frame: its code, and a reason in UTF-8.
///
/// # Errors
/// The code is one that no closing frame may have, or the reason is not UTF-8.
pub fn close_code(body: &[u8]) -> Result<u16, AttemptCause> {
    let Some((code, reason)) = body.split_first_chunk() else {
        return if body.is_empty() { Ok(NO_CODE) } else { Err(AttemptCause::BadAnswer) };
    };
    let code = u16::from_be_bytes(*code);
    // 1004 to 1006 and 1015 are never sent; those below 3000 are defined by the standard.
    let is_valid = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
    if is_valid && std::str::from_utf8(reason).is_ok() { Ok(code) } else { Err(AttemptCause::BadAnswer) }
}
