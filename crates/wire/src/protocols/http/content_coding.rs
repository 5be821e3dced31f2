//! Content codings of answers (RFC 9110, 8.4): gzip, deflate, br and zstd, also several in a row. A
//! body is decoded only if a step needs it. The memory of the decoders is kept for the next body.

mod brotli;
mod gzip;

use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation as _};

use self::brotli::BrotliMemory;
use super::BODY_LIMIT;
use crate::answer_budget::BudgetShare;
use crate::cause::{AttemptCause, Malformation};

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContentCoding {
    Gzip,
    /// The format of zlib (RFC 1950). Some servers send its compressed data alone (RFC 1951).
    Deflate,
    Brotli,
    Zstd,
    /// A coding that is not known here, or more codings than the limit.
    Unknown,
}

impl ContentCoding {
    fn named(name: &[u8]) -> Self {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match () {
            () if is("gzip") || is("x-gzip") => Self::Gzip,
            () if is("deflate") => Self::Deflate,
            () if is("br") => Self::Brotli,
            () if is("zstd") => Self::Zstd,
            () => Self::Unknown,
        }
    }

    const ALL: [Self; 5] = [Self::Gzip, Self::Deflate, Self::Brotli, Self::Zstd, Self::Unknown];
}

/// The codings of a body, in the order in which the server applied them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContentCodings {
    /// Three bits for each coding, the last coding in the lowest bits. 0 is none.
    packed: u16,
}

impl ContentCodings {
    /// Maximum number of codings.
    const MOST: u32 = 5;
    const BITS: u32 = 3;

    /// Whether the body is coded.
    #[inline]
    pub fn is_any(self) -> bool {
        self.packed != 0
    }

    /// Adds the codings of a `Content-Encoding` header.
    pub fn note(&mut self, value: &[u8]) {
        for name in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if name.is_empty() || name.eq_ignore_ascii_case(b"identity") {
                continue;
            }
            let coding = ContentCoding::named(name);
            let number = ContentCoding::ALL.iter().position(|known| *known == coding).unwrap_or(0) as u16 + 1;
            let is_full = self.packed >> (Self::BITS * (Self::MOST - 1)) != 0;
            let unknown = ContentCoding::ALL.len() as u16;
            self.packed = if is_full { unknown } else { self.packed << Self::BITS | number };
        }
    }

    /// Returns the codings, the last one first: the order in which they are decoded.
    pub fn last_first(self) -> impl Iterator<Item = ContentCoding> {
        let codes = (0..Self::MOST).map(move |place| self.packed >> (Self::BITS * place) & 0b111);
        codes.take_while(|code| *code != 0).filter_map(|code| ContentCoding::ALL.get(usize::from(code) - 1).copied())
    }
}

/// Size of a piece of decoded bytes.
const PIECE_BYTES: usize = 32 * 1024;
/// Largest spare buffer that is kept, bytes.
const SPARE_BYTES: usize = 1024 * 1024;
/// Logarithm of the largest window of zstd (RFC 9659, 3).
const ZSTD_WINDOW_LOG: u32 = 23;

/// A decoder of bodies, with the memory that it keeps between two bodies.
#[derive(Default)]
pub struct BodyDecoder {
    inflate: Option<Decompress>,
    zstd: Option<ZstdDecoder<'static>>,
    brotli: BrotliMemory,
    /// A piece of decoded bytes.
    piece: Vec<u8>,
    /// The body between two codings.
    between: Vec<u8>,
}

impl std::fmt::Debug for BodyDecoder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("BodyDecoder").finish_non_exhaustive()
    }
}

/// Destination of decoded bytes, with its limits.
struct DecodedBody<'a> {
    out: &'a mut Vec<u8>,
    /// Length of `out` before the body.
    start: usize,
    most: usize,
    held: &'a mut BudgetShare,
    /// Bytes that the answer holds elsewhere.
    beside: usize,
}

impl DecodedBody<'_> {
    fn push(&mut self, bytes: &[u8]) -> Result<(), AttemptCause> {
        let room = self.most - (self.out.len() - self.start);
        if bytes.len() > room {
            self.out.extend_from_slice(&bytes[..room]);
            return Err(AttemptCause::Malformed(Malformation::LongWhenDecoded));
        }
        if !self.held.grow_to(self.beside + self.out.len() + bytes.len()) {
            return Err(AttemptCause::TooLarge);
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }
}

/// Limit for a decoded body.
#[derive(Debug, Clone, Copy)]
struct DecodingLimit {
    /// Maximum length, bytes.
    most: usize,
    /// Whether the part before an error is decoded further.
    may_be_cut: bool,
}

/// Result of a step of a decoder.
struct CodingStep {
    /// Number of bytes read.
    read: usize,
    /// Number of bytes written.
    written: usize,
    /// Whether the coded data have ended.
    has_ended: bool,
}

impl BodyDecoder {
    /// Appends the decoded body to `out`. `held` is the answer's share of the memory budget, of
    /// which the answer uses `beside` bytes for other things than `out`.
    ///
    /// # Errors
    /// A coding that is unknown or broken, or a limit. `out` then has the part before the error.
    pub fn decode(
        &mut self,
        codings: ContentCodings,
        coded: &[u8],
        out: &mut Vec<u8>,
        held: &mut BudgetShare,
        beside: usize,
    ) -> Result<(), AttemptCause> {
        let most = usize::try_from(BODY_LIMIT).unwrap_or(usize::MAX);
        self.decode_up_to(codings, coded, out, (held, beside), DecodingLimit { most, may_be_cut: false })
    }

    /// Appends the beginning of the decoded body. Returns false if nothing can be decoded.
    pub fn decode_beginning(codings: ContentCodings, coded: &[u8], out: &mut Vec<u8>) -> bool {
        let (mut decoder, mut held) = (Self::default(), BudgetShare::default());
        let before = out.len();
        let limit = DecodingLimit { most: PIECE_BYTES, may_be_cut: true };
        let decoded = decoder.decode_up_to(codings, coded, out, (&mut held, 0), limit);
        decoded.is_ok() || out.len() > before
    }

    fn decode_up_to(
        &mut self,
        codings: ContentCodings,
        coded: &[u8],
        out: &mut Vec<u8>,
        (held, beside): (&mut BudgetShare, usize),
        limit: DecodingLimit,
    ) -> Result<(), AttemptCause> {
        if codings.last_first().any(|coding| coding == ContentCoding::Unknown) {
            return Err(AttemptCause::Malformed(Malformation::UnknownCoding));
        }
        let start = out.len();
        self.piece.resize(PIECE_BYTES, 0);
        let mut between = std::mem::take(&mut self.between);
        let mut result = Ok(());
        for (number, coding) in codings.last_first().enumerate() {
            between.clear();
            if number > 0 {
                between.extend_from_slice(&out[start..]);
                out.truncate(start);
            }
            let coded = if number > 0 { between.as_slice() } else { coded };
            let beside = beside + coded.len();
            let body = DecodedBody { out: &mut *out, start, most: limit.most, held: &mut *held, beside };
            result = self.decode_one(coding, coded, body);
            if result.is_err() && !limit.may_be_cut {
                break;
            }
        }
        if between.capacity() <= SPARE_BYTES {
            self.between = between;
        }
        result
    }

    fn decode_one(&mut self, coding: ContentCoding, coded: &[u8], body: DecodedBody<'_>) -> Result<(), AttemptCause> {
        match coding {
            ContentCoding::Gzip => self.gzip(coded, body),
            ContentCoding::Deflate => self.deflate(coded, body),
            ContentCoding::Brotli => self.brotli(coded, body),
            ContentCoding::Zstd => self.zstd(coded, body),
            ContentCoding::Unknown => Err(AttemptCause::Malformed(Malformation::UnknownCoding)),
        }
    }

    /// Decodes the compressed data at the start of `coded`. Returns their length, or `None` if they
    /// are broken.
    fn inflate(
        &mut self,
        has_zlib_header: bool,
        coded: &[u8],
        body: &mut DecodedBody<'_>,
    ) -> Result<Option<usize>, AttemptCause> {
        let inflate = self.inflate.get_or_insert_with(|| Decompress::new(has_zlib_header));
        inflate.reset(has_zlib_header);
        pump(coded, &mut self.piece, body, |input, piece| {
            let before = (inflate.total_in(), inflate.total_out());
            let status = inflate.decompress(input, piece, FlushDecompress::None).ok()?;
            Some(CodingStep {
                read: (inflate.total_in() - before.0) as usize,
                written: (inflate.total_out() - before.1) as usize,
                has_ended: status == Status::StreamEnd,
            })
        })
    }

    fn deflate(&mut self, coded: &[u8], mut body: DecodedBody<'_>) -> Result<(), AttemptCause> {
        // A header of zlib: method 8, and a check of both bytes (RFC 1950, 2.2).
        let is_zlib = matches!(coded, [method, flags, ..] if method & 15 == 8 && (u32::from(*method) * 256 + u32::from(*flags)).is_multiple_of(31));
        match self.inflate(is_zlib, coded, &mut body)? {
            Some(read) if read == coded.len() => Ok(()),
            _ => Err(broken(ContentCoding::Deflate)),
        }
    }

    fn gzip(&mut self, coded: &[u8], mut body: DecodedBody<'_>) -> Result<(), AttemptCause> {
        let broken = broken(ContentCoding::Gzip);
        let mut rest = coded;
        // Several members in a row are one body (RFC 1952, 2.2).
        while !rest.is_empty() {
            let compressed = gzip::header_length(rest).and_then(|length| rest.get(length..)).ok_or(broken)?;
            let begin = body.out.len();
            let length = self.inflate(false, compressed, &mut body)?.ok_or(broken)?;
            rest = gzip::check_trailer(&compressed[length..], &body.out[begin..]).ok_or(broken)?;
        }
        Ok(())
    }

    fn zstd(&mut self, coded: &[u8], mut body: DecodedBody<'_>) -> Result<(), AttemptCause> {
        let broken = broken(ContentCoding::Zstd);
        let decoder = match &mut self.zstd {
            Some(decoder) => decoder,
            none => {
                let mut decoder = ZstdDecoder::new().map_err(|_| broken)?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG)).map_err(|_| broken)?;
                none.insert(decoder)
            }
        };
        let mut rest = coded;
        // Several frames in a row are one body (RFC 8878, 3.1).
        while !rest.is_empty() {
            decoder.reinit().map_err(|_| broken)?;
            let length = pump(rest, &mut self.piece, &mut body, |input, piece| {
                let status = decoder.run_on_buffers(input, piece).ok()?;
                Some(CodingStep {
                    read: status.bytes_read,
                    written: status.bytes_written,
                    has_ended: status.remaining == 0,
                })
            })?;
            rest = &rest[length.ok_or(broken)?..];
        }
        Ok(())
    }

    fn brotli(&mut self, coded: &[u8], mut body: DecodedBody<'_>) -> Result<(), AttemptCause> {
        let mut stream = self.brotli.begin();
        match pump(coded, &mut self.piece, &mut body, |input, piece| stream.step(input, piece))? {
            Some(read) if read == coded.len() => Ok(()),
            _ => Err(broken(ContentCoding::Brotli)),
        }
    }
}

const fn broken(coding: ContentCoding) -> AttemptCause {
    AttemptCause::Malformed(Malformation::BrokenCoding(coding))
}

/// Decodes piece by piece with `step` until the coded data end. Returns the number of bytes read,
/// or `None` if the data are broken or cut off.
fn pump(
    coded: &[u8],
    piece: &mut [u8],
    body: &mut DecodedBody<'_>,
    mut step: impl FnMut(&[u8], &mut [u8]) -> Option<CodingStep>,
) -> Result<Option<usize>, AttemptCause> {
    let mut read = 0;
    loop {
        let Some(done) = step(&coded[read..], piece) else { return Ok(None) };
        read += done.read;
        body.push(&piece[..done.written])?;
        if done.has_ended {
            return Ok(Some(read));
        }
        if done.read == 0 && done.written == 0 {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests;
