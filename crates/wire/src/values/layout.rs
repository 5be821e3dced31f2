//! Requests encoded before the load: constant bytes with gaps for values, lengths and the request's
//! id. Writing a request is mostly copying.

use std::ops::Range;

use super::allowed::{AllowedBytes, NotSendable};
use crate::cookies::RequestCookies;
use crate::http2::hpack;
use crate::protobuf::{varint_length, write_varint};

use super::{Argument, CompiledTemplate, OperationValues};

/// A pre-encoded request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestLayout {
    segments: Box<[Segment]>,
}

/// The format of a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthWidth {
    /// Two bytes, big-endian.
    U16,
    /// Four bytes, big-endian.
    U32,
    /// Decimal digits, right-aligned with spaces in ten places. A constant length is written
    /// without spaces.
    Decimal,
    /// A varint of protobuf, directly before its span. A long span is moved by the further bytes of
    /// its length.
    Varint,
}

/// A part of the request whose length is written before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthSpan(usize);

#[derive(Debug, Clone, PartialEq)]
enum Segment {
    Bytes(Vec<u8>),
    Id,
    Value {
        argument: usize,
        fixed: Option<usize>,
    },
    Checked {
        argument: usize,
        check: Box<ValueCheck>,
    },
    /// A whole number, as a varint of protobuf.
    Number(usize),
    Length {
        span: usize,
        width: LengthWidth,
    },
    Begin(usize),
    End(usize),
    Cookies {
        host: Box<str>,
        is_secure: bool,
        begin: CookieBegin,
    },
    /// The destination of a redirect.
    Target,
    /// A string of a header block of HTTP/2, behind its length.
    HeaderString {
        text: RequestLayout,
        is_target: bool,
    },
}

/// Place of a session's cookies in an HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CookieBegin {
    /// The cookies are a header of their own.
    Header,
    /// The cookies follow the value of a header.
    Value,
    /// The cookies are a field of their own in a header block of HTTP/2.
    Field,
}

/// Rules for a value with variable text. By default, only text that is not UTF-8 in a JSON string
/// is refused.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ValueCheck {
    /// Allowed bytes of the variable text.
    pub allowed: AllowedBytes,
    /// Allowed beginnings of the value. If empty, any beginning is allowed.
    pub begins: &'static [&'static [u8]],
    /// Bytes that the value does not contain. If empty, there are none.
    pub without: Box<[u8]>,
}

/// Maximum number of spans in one request.
const SPANS: usize = 12;

/// Builds a [`RequestLayout`].
#[derive(Debug, Default)]
pub struct LayoutBuilder {
    segments: Vec<Segment>,
    spans: usize,
}

impl LayoutBuilder {
    /// Adds constant bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        match self.segments.last_mut() {
            Some(Segment::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.segments.push(Segment::Bytes(bytes.to_vec())),
        }
        self
    }

    /// Adds the id of the request: four bytes, big-endian.
    pub fn id(&mut self) -> &mut Self {
        self.segments.push(Segment::Id);
        self
    }

    /// Adds the value of the argument with index `place`.
    pub fn value(&mut self, arguments: &[Argument], place: usize) -> &mut Self {
        let template = arguments.get(place).map(|argument| &argument.template);
        if let Some(constant) = template.and_then(|template| template.as_constant()) {
            return self.bytes(constant);
        }
        let fixed = template.and_then(|template| template.fixed_length());
        self.segments.push(Segment::Value { argument: place, fixed });
        self
    }

    /// Adds the value of the argument with index `place`. The value's variable text is checked
    /// whenever it is written, if the check can fail.
    pub fn checked(&mut self, arguments: &[Argument], place: usize, check: ValueCheck) -> &mut Self {
        let can_fail = |template: &CompiledTemplate| {
            template.has_json() || (template.is_from_outside() && check != ValueCheck::default())
        };
        if arguments.get(place).is_none_or(|argument| !can_fail(&argument.template)) {
            return self.value(arguments, place);
        }
        self.segments.push(Segment::Checked { argument: place, check: Box::new(check) });
        self
    }

    /// Adds a whole number from 0 as a varint of protobuf: the value of the argument with index
    /// `place`. Returns a message if the value is constant and no such number.
    pub fn number(&mut self, arguments: &[Argument], place: usize) -> Result<&mut Self, String> {
        let argument = arguments.get(place);
        let Some(constant) = argument.and_then(|argument| argument.template.as_constant()) else {
            self.segments.push(Segment::Number(place));
            return Ok(self);
        };
        let name = argument.map_or("", |argument| &argument.name);
        let number = whole_number(constant).ok_or_else(|| format!("`{name}` must be a whole number from 0"))?;
        let mut bytes = Vec::new();
        write_varint(number, &mut bytes);
        Ok(self.bytes(&bytes))
    }

    /// Adds the cookies of the session for this host and the request's target: the string that is
    /// marked as the target, or the second word of the request.
    pub fn cookies(&mut self, host: &str, is_secure: bool, begin: CookieBegin) -> &mut Self {
        self.segments.push(Segment::Cookies { host: host.into(), is_secure, begin });
        self
    }

    /// Adds a string of a header block of HTTP/2, behind its length. `is_target` marks the
    /// request's target, for the cookies.
    pub fn header_string(&mut self, text: RequestLayout, is_target: bool) -> &mut Self {
        match &*text.segments {
            [] if !is_target => self.bytes(&[0]),
            [Segment::Bytes(bytes)] if !is_target => {
                let mut string = Vec::new();
                hpack::write_string(bytes, &mut string);
                self.bytes(&string)
            }
            _ => {
                self.segments.push(Segment::HeaderString { text, is_target });
                self
            }
        }
    }

    /// Adds the destination of the redirect that the request follows.
    pub fn target(&mut self) -> &mut Self {
        self.segments.push(Segment::Target);
        self
    }

    /// Adds the length of a span that begins later.
    pub fn length(&mut self, width: LengthWidth) -> LengthSpan {
        let span = self.spans;
        self.spans += 1;
        self.segments.push(Segment::Length { span, width });
        LengthSpan(span)
    }

    /// Begins the span.
    pub fn begin(&mut self, span: LengthSpan) -> &mut Self {
        self.segments.push(Segment::Begin(span.0));
        self
    }

    /// Ends the span.
    pub fn end(&mut self, span: LengthSpan) -> &mut Self {
        self.segments.push(Segment::End(span.0));
        self
    }

    /// Builds the layout. Constant lengths become constant bytes. Returns a message if there are
    /// too many spans or a length does not fit.
    pub fn finish(&mut self) -> Result<RequestLayout, String> {
        if self.spans > SPANS {
            return Err("too many parts of variable length".to_owned());
        }
        for span in (0..self.spans).rev() {
            self.fold(span)?;
        }
        let mut merged = Self::default();
        for segment in std::mem::take(&mut self.segments) {
            match segment {
                Segment::Bytes(bytes) => drop(merged.bytes(&bytes)),
                other => merged.segments.push(other),
            }
        }
        Ok(RequestLayout { segments: merged.segments.into() })
    }

    /// Replaces the length of a span by bytes, if the length is constant.
    fn fold(&mut self, span: usize) -> Result<(), String> {
        let place = |wanted: &Segment| self.segments.iter().position(|segment| segment == wanted);
        let (Some(begin), Some(end)) = (place(&Segment::Begin(span)), place(&Segment::End(span))) else {
            return Ok(());
        };
        let length = self.segments[begin..end].iter().try_fold(0, |sum, segment| match segment {
            Segment::Bytes(bytes) => Some(sum + bytes.len()),
            Segment::Id => Some(sum + 4),
            Segment::Value { fixed, .. } => fixed.map(|fixed| sum + fixed),
            Segment::Checked { .. }
            | Segment::Cookies { .. }
            | Segment::Number(_)
            | Segment::Target
            | Segment::HeaderString { .. } => None,
            Segment::Length { width, .. } => width.places().map(|places| sum + places),
            Segment::Begin(_) | Segment::End(_) => Some(sum),
        });
        let Some(length) = length else { return Ok(()) };
        for segment in &mut self.segments {
            if let Segment::Length { span: of, width } = *segment
                && of == span
            {
                *segment = Segment::Bytes(width.constant(length)?);
            }
        }
        self.segments.retain(|segment| *segment != Segment::Begin(span) && *segment != Segment::End(span));
        Ok(())
    }
}

impl LengthWidth {
    const DECIMAL_PLACES: usize = 10;

    /// Returns the size of the gap for an unknown length, or `None` if the size changes when the
    /// length is known.
    fn places(self) -> Option<usize> {
        match self {
            Self::U16 => Some(2),
            Self::U32 => Some(4),
            Self::Decimal | Self::Varint => None,
        }
    }

    fn constant(self, length: usize) -> Result<Vec<u8>, String> {
        let too_long = |_| format!("{length} bytes do not fit");
        Ok(match self {
            Self::U16 => u16::try_from(length).map_err(too_long)?.to_be_bytes().to_vec(),
            Self::U32 => u32::try_from(length).map_err(too_long)?.to_be_bytes().to_vec(),
            Self::Decimal => length.to_string().into_bytes(),
            Self::Varint => {
                let mut bytes = Vec::new();
                write_varint(length as u64, &mut bytes);
                bytes
            }
        })
    }

    fn open(self, out: &mut Vec<u8>) {
        match self {
            Self::U16 => out.extend_from_slice(&[0; 2]),
            Self::U32 => out.extend_from_slice(&[0; 4]),
            Self::Decimal => out.extend_from_slice(&[b' '; Self::DECIMAL_PLACES]),
            Self::Varint => out.push(0),
        }
    }

    /// Fills the gap of a length at `hole`. A truncated length would make the rest of the value
    /// part of the next field, so it is an error.
    fn fill(self, out: &mut Vec<u8>, hole: usize, length: usize) -> Result<(), NotSendable> {
        if self == Self::Varint {
            fill_varint(out, hole, length);
            return Ok(());
        }
        let hole = &mut out[hole..];
        match self {
            Self::Varint => {}
            Self::U16 => {
                hole[..2].copy_from_slice(&u16::try_from(length).map_err(|_| NotSendable::TooLong)?.to_be_bytes())
            }
            Self::U32 => {
                hole[..4].copy_from_slice(&u32::try_from(length).map_err(|_| NotSendable::TooLong)?.to_be_bytes())
            }
            Self::Decimal => {
                let mut rest = length;
                for place in hole[..Self::DECIMAL_PLACES].iter_mut().rev() {
                    *place = b'0' + (rest % 10) as u8;
                    rest /= 10;
                    if rest == 0 {
                        break;
                    }
                }
                if rest > 0 {
                    return Err(NotSendable::TooLong);
                }
            }
        }
        Ok(())
    }
}

/// The parts of a request that are written so far, on which later parts depend.
struct WrittenParts {
    /// Beginning of the request.
    start: usize,
    /// Range of the request's target, if it is marked.
    target: Option<Range<usize>>,
    /// Beginning of the string of a header block that is being written.
    string: Option<usize>,
}

impl RequestLayout {
    /// Appends the request. After an error, the appended bytes must not be sent.
    pub fn write(&self, id: u32, values: &OperationValues<'_>, out: &mut Vec<u8>) -> Result<(), NotSendable> {
        let mut parts = WrittenParts { start: out.len(), target: None, string: None };
        self.write_parts(id, values, &mut parts, out)
    }

    fn write_parts(
        &self,
        id: u32,
        values: &OperationValues<'_>,
        parts: &mut WrittenParts,
        out: &mut Vec<u8>,
    ) -> Result<(), NotSendable> {
        let mut holes = [(0_usize, LengthWidth::U16); SPANS];
        let mut begins = [0_usize; SPANS];
        for segment in &self.segments {
            match segment {
                Segment::Bytes(bytes) => out.extend_from_slice(bytes),
                Segment::Id => out.extend_from_slice(&id.to_be_bytes()),
                Segment::Value { argument, .. } => values.write(*argument, out),
                Segment::Number(argument) => {
                    let begin = out.len();
                    values.write(*argument, out);
                    let number = whole_number(&out[begin..]).ok_or(NotSendable::NotNumber)?;
                    out.truncate(begin);
                    write_varint(number, out);
                }
                Segment::Checked { argument, check } => check.write(*argument, values, out)?,
                Segment::Length { span, width } => {
                    holes[*span] = (out.len(), *width);
                    width.open(out);
                }
                Segment::Begin(span) => begins[*span] = out.len(),
                Segment::Cookies { host, is_secure, begin } => {
                    if let Some(cookies) = &values.cookies {
                        write_cookies(cookies, (host.as_bytes(), *is_secure), parts, *begin, out);
                    }
                }
                Segment::Target => {
                    out.extend_from_slice(values.redirection.map_or(b"/", |redirection| &redirection.target));
                }
                Segment::HeaderString { text, is_target } => {
                    let gap = out.len();
                    out.push(0);
                    parts.string = Some(out.len());
                    text.write_parts(id, values, parts, out)?;
                    let length = out.len() - gap - 1;
                    let begin = hpack::set_length(gap, out);
                    if *is_target {
                        parts.target = Some(begin..begin + length);
                    }
                }
                Segment::End(span) => {
                    let length = out.len() - begins[*span];
                    let (hole, width) = holes[*span];
                    width.fill(out, hole, length)?;
                }
            }
        }
        Ok(())
    }
}

/// Reads a whole number in decimal digits. Protobuf's signed numbers end at 2^63 - 1.
fn whole_number(text: &[u8]) -> Option<u64> {
    let number = std::str::from_utf8(text).ok()?.parse().ok()?;
    i64::try_from(number).is_ok().then_some(number)
}

/// Fills the gap of one byte at `hole` with the length of the bytes after it.
fn fill_varint(out: &mut Vec<u8>, hole: usize, length: usize) {
    let more = varint_length(length as u64) - 1;
    if more > 0 {
        let end = out.len();
        out.resize(end + more, 0);
        out.copy_within(hole + 1..end, hole + 1 + more);
    }
    let mut rest = length;
    for byte in &mut out[hole..hole + more] {
        *byte = rest as u8 | 0x80;
        rest >>= 7;
    }
    out[hole + more] = rest as u8;
}

impl ValueCheck {
    /// Appends a value if its text passes the check.
    fn write(&self, argument: usize, values: &OperationValues<'_>, out: &mut Vec<u8>) -> Result<(), NotSendable> {
        let begin = out.len();
        values.write_allowed(argument, &self.allowed, out)?;
        let value = &out[begin..];
        if !self.begins.is_empty() && !self.begins.iter().any(|begins| value.starts_with(begins)) {
            return Err(NotSendable::PathBeginning);
        }
        if !self.without.is_empty() && memchr::memmem::find(value, &self.without).is_some() {
            return Err(NotSendable::InPart);
        }
        Ok(())
    }
}

/// Appends the cookies for the request to this host.
fn write_cookies(
    cookies: &RequestCookies<'_>,
    to: (&[u8], bool),
    parts: &WrittenParts,
    begin: CookieBegin,
    out: &mut Vec<u8>,
) {
    if cookies.jar.is_empty() {
        return;
    }
    let target = parts.target.clone().unwrap_or_else(|| {
        let word_end = |from: usize| memchr::memchr(b' ', &out[from..]).map_or(out.len(), |length| from + length);
        let target = (word_end(parts.start) + 1).min(out.len());
        target..word_end(target)
    });
    let is_empty = parts.string.map_or(out.ends_with(b": "), |string| string == out.len());
    let before: &[u8] = match begin {
        CookieBegin::Header => b"Cookie: ",
        CookieBegin::Value if is_empty => b"",
        CookieBegin::Value => b"; ",
        CookieBegin::Field => hpack::COOKIE,
    };
    let gap = out.len() + hpack::COOKIE.len() - 1;
    let is_any = cookies.jar.write(to, target, cookies.now_s, before, out);
    match begin {
        CookieBegin::Header if is_any => out.extend_from_slice(b"\r\n"),
        CookieBegin::Field if is_any => drop(hpack::set_length(gap, out)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{names, source};

    fn arguments(texts: &[&str]) -> Vec<Argument> {
        let compile = |(stream, text): (usize, &&str)| Argument {
            name: format!("a{stream}"),
            template: CompiledTemplate::compile(text, stream as u64, &names()).unwrap(),
        };
        texts.iter().enumerate().map(compile).collect()
    }

    fn written(layout: &RequestLayout, arguments: &[Argument]) -> Vec<u8> {
        let mut out = Vec::new();
        layout
            .write(7, &OperationValues { source: source(3, 12), arguments, cookies: None, redirection: None }, &mut out)
            .unwrap();
        out
    }

    #[test]
    fn a_frame_with_lengths() {
        let arguments = arguments(&["k-{seq}", "{agent}"]);
        let mut builder = LayoutBuilder::default();
        let frame = builder.length(LengthWidth::U32);
        builder.begin(frame).id().bytes(&[9]);
        let key = builder.length(LengthWidth::U16);
        builder.begin(key).value(&arguments, 0).end(key);
        let value = builder.length(LengthWidth::U32);
        builder.begin(value).value(&arguments, 1).end(value).end(frame);
        let layout = builder.finish().unwrap();
        assert_eq!(written(&layout, &arguments), b"\0\0\0\x10\0\0\0\x07\x09\0\x04k-12\0\0\0\x013");
    }

    #[test]
    fn constant_lengths_are_literal() {
        let arguments = arguments(&["key", "{bytes:5}"]);
        let mut builder = LayoutBuilder::default();
        let frame = builder.length(LengthWidth::U32);
        builder.begin(frame);
        let key = builder.length(LengthWidth::U16);
        builder.begin(key).value(&arguments, 0).end(key).value(&arguments, 1).end(frame);
        let layout = builder.finish().unwrap();
        assert_eq!(layout.segments.len(), 2, "{layout:?}");
        let out = written(&layout, &arguments);
        assert_eq!(&out[..9], b"\0\0\0\x0a\0\x03key");
        assert_eq!(out.len(), 14);
    }

    #[test]
    fn decimal_lengths() {
        for (body, expected) in [("", "n: 0\r\n"), ("{bytes:12}", "n: 12\r\n"), ("s{seq}", "n:          3\r\n")] {
            let arguments = arguments(&[body]);
            let mut builder = LayoutBuilder::default();
            builder.bytes(b"n: ");
            let length = builder.length(LengthWidth::Decimal);
            builder.bytes(b"\r\n").begin(length).value(&arguments, 0).end(length);
            let layout = builder.finish().unwrap();
            let out = written(&layout, &arguments);
            assert!(out.starts_with(expected.as_bytes()), "{:?}", String::from_utf8_lossy(&out));
        }
    }

    #[test]
    fn varint_lengths() {
        for (text, length) in
            [("{bytes:127}", &[127][..]), ("{bytes:128}", &[0x80, 1]), ("{bytes:20000}", &[0xa0, 0x9c, 1])]
        {
            for constant in [true, false] {
                // The arguments have a fixed length, unless a slot's value precedes them.
                let arguments = arguments(&[text, "s{seq}"]);
                let mut builder = LayoutBuilder::default();
                let outer = builder.length(LengthWidth::Varint);
                builder.begin(outer).bytes(b"\x0a");
                let inner = builder.length(LengthWidth::Varint);
                builder.begin(inner).value(&arguments, 0);
                if !constant {
                    builder.value(&arguments, 1);
                }
                builder.end(inner).bytes(b"\x12\0").end(outer);
                let out = written(&builder.finish().unwrap(), &arguments);
                let field = |message: &[u8]| message.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
                let message = &out[field(&out)..];
                let inner_length = field(&message[1..]);
                if constant {
                    assert_eq!(&message[1..=inner_length], length);
                }
                let fields: Vec<_> = crate::protobuf::ProtobufFields::of(message).map(Result::unwrap).collect();
                let [(1, crate::protobuf::ProtobufValue::Bytes(value)), (2, _)] = fields[..] else {
                    panic!("{fields:?}")
                };
                assert!(constant || value.ends_with(b"s12"));
                assert_eq!(message.len(), 1 + inner_length + value.len() + 2);
                let mut prefix = Vec::new();
                write_varint(message.len() as u64, &mut prefix);
                assert!(out.starts_with(&prefix) && out.len() == prefix.len() + message.len());
            }
        }
    }

    #[test]
    fn numbers() {
        let arguments = arguments(&["300", "{seq}", "x{seq}", "-1", "9223372036854775808"]);
        let layout =
            LayoutBuilder::default().number(&arguments, 0).unwrap().number(&arguments, 1).unwrap().finish().unwrap();
        assert_eq!(written(&layout, &arguments), b"\xac\x02\x0c");
        for place in [3, 4] {
            assert!(LayoutBuilder::default().number(&arguments, place).is_err());
        }
        let layout = LayoutBuilder::default().number(&arguments, 2).unwrap().finish().unwrap();
        let values = OperationValues { source: source(3, 12), arguments: &arguments, cookies: None, redirection: None };
        assert_eq!(layout.write(7, &values, &mut Vec::new()), Err(NotSendable::NotNumber));
    }

    #[test]
    fn a_value_too_long_for_its_length_is_refused() {
        let arguments = arguments(&["{bytes:70000}"]);
        let mut builder = LayoutBuilder::default();
        let key = builder.length(LengthWidth::U16);
        builder.begin(key).value(&arguments, 0).end(key);
        assert!(builder.finish().is_err());
    }
}
