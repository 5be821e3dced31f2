//! Frames of HTTP/2 (RFC 9113, 4.1 and 6): their heads, kinds, flags and codes.

/// Length of a frame's head, bytes.
pub const HEAD: usize = 9;
/// Longest accepted frame without its head, bytes: the default, which Plimsoll does not change.
pub const LONGEST: usize = 16 * 1024;
/// Largest window of flow control, bytes.
pub const LARGEST_WINDOW: u32 = (1 << 31) - 1;
/// Window of a connection or a stream before any setting, bytes.
pub const FIRST_WINDOW: u32 = 65_535;

/// The first bytes of a client.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Kinds of frames.
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// Flags of frames.
pub mod flag {
    pub const ACK: u8 = 1;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 0x20;
}

/// Settings (RFC 9113, 6.5.2).
pub mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// Codes of errors (RFC 9113, 7).
pub mod code {
    pub const NO_ERROR: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    pub const FRAME_SIZE_ERROR: u32 = 6;
    pub const REFUSED_STREAM: u32 = 7;
    pub const CANCEL: u32 = 8;
    pub const COMPRESSION_ERROR: u32 = 9;
    pub const ENHANCE_YOUR_CALM: u32 = 11;
}

/// Names of the codes of errors, in the order of the codes.
static CODES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

/// Returns the name of an error's code.
pub fn code_name(code: u8) -> &'static str {
    CODES.get(usize::from(code)).copied().unwrap_or("an unknown code")
}

/// Head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// Length without the head, bytes.
    pub length: usize,
    pub kind: u8,
    pub flags: u8,
    /// Stream of the frame, or 0 for the connection.
    pub stream: u32,
}

impl FrameHead {
    /// Returns the head at the beginning of the input, if it is complete.
    #[inline]
    pub fn read(input: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, d, e, f, g] = *input.first_chunk::<HEAD>()?;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        Some(Self { length, kind, flags, stream: u32::from_be_bytes([d & 0x7f, e, f, g]) })
    }

    /// Whether the frame has this flag.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the bytes of the head.
    #[inline]
    pub fn bytes(&self) -> [u8; HEAD] {
        let [_, a, b, c] = (self.length as u32).to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, d, e, f, g]
    }
}

/// Appends a frame.
pub fn write(kind: u8, flags: u8, stream: u32, body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&FrameHead { length: body.len(), kind, flags, stream }.bytes());
    out.extend_from_slice(body);
}

/// Appends an RST_STREAM frame.
pub fn write_reset(stream: u32, code: u32, out: &mut Vec<u8>) {
    write(kind::RST_STREAM, 0, stream, &code.to_be_bytes(), out);
}

/// Appends a GOAWAY frame of a client that has begun no stream of the server.
pub fn write_goaway(code: u32, out: &mut Vec<u8>) {
    let [a, b, c, d] = code.to_be_bytes();
    write(kind::GOAWAY, 0, 0, &[0, 0, 0, 0, a, b, c, d], out);
}

/// Appends a WINDOW_UPDATE frame. Stream 0 is the connection.
pub fn write_window(stream: u32, more: u32, out: &mut Vec<u8>) {
    write(kind::WINDOW_UPDATE, 0, stream, &more.to_be_bytes(), out);
}

/// Returns the number in the first four bytes, if they are there.
pub fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
}
