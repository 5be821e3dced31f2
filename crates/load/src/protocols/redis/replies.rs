//! Replies of both versions of RESP: where one ends, and what is in it (the Redis serialization protocol specification, versions 2 and
//! 3). It must not know what was asked.

use crate::protocols::Cause;

/// The longest reply that is taken for one, bytes.
const REPLY_LIMIT: usize = 64 * 1024 * 1024;
/// The longest line that is taken for one, bytes.
const LINE_LIMIT: usize = 64 * 1024;
/// How deep lists may lie in lists.
const DEPTH: usize = 16;
/// First bytes of a reply: five of version 2, ten more of version 3.
const TYPES: &[u8] = b"+-:$*_#,(!=%~>|";

/// How far a reply has been looked at, so that no byte of a long one is looked at again and again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Walk {
    /// Bytes that are behind us.
    at: usize,
    /// How many elements the open lists still lack, the outermost first.
    lacking: [u32; DEPTH],
    /// Lists open.
    depth: u8,
}

impl Walk {
    /// Goes on through the reply at the start of the input, of which more is there than last time: its length, if it is whole.
    pub fn on(&mut self, input: &[u8]) -> Result<Option<usize>, Cause> {
        loop {
            let rest = &input[self.at..];
            let Some(head) = Head::read(rest)? else { return Ok(None) };
            let shape = head.shape()?;
            let size = match shape {
                Shape::Bulk(length) => head.size + length + 2,
                Shape::Line | Shape::Nothing | Shape::List(_) => head.size,
            };
            if self.at + size > REPLY_LIMIT {
                return Err(Cause::TooLong);
            }
            let Some(item) = rest.get(..size) else { return Ok(None) };
            if !item.ends_with(b"\r\n") {
                return Err(Cause::BadAnswer);
            }
            self.at += size;
            if head.kind == b'|' {
                // An attribute is about what follows it, and no element itself.
                self.count(1);
            }
            match shape {
                Shape::List(length @ 1..) => self.open(length)?,
                _ => self.close(),
            }
            if self.depth == 0 {
                return Ok(Some(self.at));
            }
        }
    }

    fn open(&mut self, length: u32) -> Result<(), Cause> {
        let place = self.lacking.get_mut(usize::from(self.depth)).ok_or(Cause::TooLong)?;
        *place = length;
        self.depth += 1;
        Ok(())
    }

    /// The innermost list lacks so many more.
    fn count(&mut self, more: u32) {
        if let Some(innermost) = usize::from(self.depth).checked_sub(1) {
            self.lacking[innermost] = self.lacking[innermost].saturating_add(more);
        }
    }

    /// Something is whole: so may be the list that it is in, and the one that that is in.
    fn close(&mut self) {
        while let Some(innermost) = usize::from(self.depth).checked_sub(1) {
            self.lacking[innermost] -= 1;
            if self.lacking[innermost] > 0 {
                return;
            }
            self.depth -= 1;
        }
    }
}

/// What a reply begins with.
#[derive(Debug, Clone, Copy)]
struct Head<'a> {
    /// Its type.
    kind: u8,
    /// What stands in the line behind it.
    line: &'a [u8],
    /// Bytes of both and of the line's end.
    size: usize,
}

/// What follows a head.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// Nothing: the line is all.
    Line,
    /// Nothing: there is no value.
    Nothing,
    /// A text of so many bytes, and a line's end.
    Bulk(usize),
    /// So many elements.
    List(u32),
}

impl<'a> Head<'a> {
    /// The head at the start, if it is whole.
    fn read(rest: &'a [u8]) -> Result<Option<Self>, Cause> {
        let Some(kind) = rest.first().copied() else { return Ok(None) };
        if !TYPES.contains(&kind) {
            return Err(Cause::BadAnswer);
        }
        let window = &rest[..rest.len().min(LINE_LIMIT)];
        let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
            return if rest.len() < LINE_LIMIT { Ok(None) } else { Err(Cause::TooLong) };
        };
        let line = rest[1..end].strip_suffix(b"\r").ok_or(Cause::BadAnswer)?;
        Ok(Some(Self { kind, line, size: end + 1 }))
    }

    fn shape(&self) -> Result<Shape, Cause> {
        let fits = |fits: bool, shape| if fits { Ok(shape) } else { Err(Cause::BadAnswer) };
        match self.kind {
            b'+' | b'-' | b',' => Ok(Shape::Line),
            b':' | b'(' => fits(is_integer(self.line), Shape::Line),
            b'#' => fits(matches!(self.line, b"t" | b"f"), Shape::Line),
            b'_' => fits(self.line.is_empty(), Shape::Nothing),
            b'$' | b'*' if self.line == b"-1" => Ok(Shape::Nothing),
            b'$' | b'!' => Ok(Shape::Bulk(self.length()?)),
            b'=' => {
                let length = self.length()?;
                // A format of three letters and a colon come first.
                fits(length >= FORMAT, Shape::Bulk(length))
            }
            // Pairs.
            b'%' | b'|' => list(self.length()? * 2),
            _ => list(self.length()?),
        }
    }

    /// The line as a length.
    fn length(&self) -> Result<usize, Cause> {
        if self.line.is_empty() || !self.line.iter().all(u8::is_ascii_digit) {
            return Err(Cause::BadAnswer);
        }
        let length = std::str::from_utf8(self.line).ok().and_then(|digits| digits.parse().ok());
        length.filter(|length| *length <= REPLY_LIMIT).ok_or(Cause::TooLong)
    }
}

/// Bytes of `txt:`, what a verbatim text begins with.
const FORMAT: usize = 4;

fn is_integer(line: &[u8]) -> bool {
    let digits = line.strip_prefix(b"-").or(line.strip_prefix(b"+")).unwrap_or(line);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn list(length: usize) -> Result<Shape, Cause> {
    /// `_\r\n`.
    const LEAST: usize = 3;
    let length = u32::try_from(length).ok().filter(|length| *length as usize <= REPLY_LIMIT / LEAST);
    length.map(Shape::List).ok_or(Cause::TooLong)
}

/// A whole reply.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a>(pub &'a [u8]);

impl<'a> Reply<'a> {
    /// Its type.
    pub fn kind(self) -> u8 {
        self.0.first().copied().unwrap_or(0)
    }

    /// Whether it says what went wrong.
    pub fn is_error(self) -> bool {
        matches!(self.kind(), b'-' | b'!')
    }

    /// Whether it answers nothing: a push, or attributes of what follows.
    pub fn is_aside(self) -> bool {
        matches!(self.kind(), b'>' | b'|')
    }

    /// Whether it says that there is no value.
    pub fn is_nothing(self) -> bool {
        matches!(self.head(), Some((_, Shape::Nothing)))
    }

    /// What it says; `None` if that is nothing or a list.
    pub fn text(self) -> Option<&'a [u8]> {
        let (head, shape) = self.head()?;
        match shape {
            Shape::Line => Some(head.line),
            Shape::Bulk(length) => {
                let format = if head.kind == b'=' { FORMAT } else { 0 };
                self.0.get(head.size..)?.get(format..length)
            }
            Shape::Nothing | Shape::List(_) => None,
        }
    }

    /// Elements of a list, pairs of a map; `None` if it is neither.
    pub fn count(self) -> Option<u64> {
        let (head, shape) = self.head()?;
        match shape {
            Shape::List(length) if head.kind == b'%' => Some(u64::from(length / 2)),
            Shape::List(length) => Some(u64::from(length)),
            _ => None,
        }
    }

    /// Appends every text of a list, each on a line.
    pub fn write_list(self, out: &mut Vec<u8>) {
        let (mut rest, mut is_first) = (self.0, true);
        while let Some((head, shape)) = Reply(rest).head() {
            let size = match shape {
                Shape::Bulk(length) => head.size + length + 2,
                Shape::Line | Shape::Nothing | Shape::List(_) => head.size,
            };
            if !matches!(shape, Shape::List(_)) {
                if !std::mem::take(&mut is_first) {
                    out.push(b'\n');
                }
                out.extend_from_slice(Reply(rest).text().unwrap_or_default());
            }
            rest = rest.get(size..).unwrap_or_default();
        }
    }

    fn head(self) -> Option<(Head<'a>, Shape)> {
        let head = Head::read(self.0).ok()??;
        Some((head, head.shape().ok()?))
    }
}
