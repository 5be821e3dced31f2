//! Server-Sent Events: counts the events of a `text/event-stream` (WHATWG HTML, 9.2.6) in pieces of
//! any size, and finds the event with which an operation ends.

use experiment::plan::StreamEnd;

use super::content_coding::ContentCodings;
use super::framing::headers;
use crate::cause::Malformation;

/// The byte order mark that a stream may begin with.
const MARK: &[u8] = b"\xef\xbb\xbf";
/// Name of the field with an event's data.
const DATA: &[u8] = b"data";

/// The event with which an operation ends, if the stream does not end before.
#[derive(Debug, Default)]
pub struct EventEnd {
    events: Option<u32>,
    until: Option<SoughtText>,
}

impl EventEnd {
    /// Compiles the end of a step's stream.
    pub fn compile(end: &StreamEnd) -> Self {
        Self { events: end.messages, until: end.until.as_deref().map(SoughtText::new) }
    }

    /// Whether the operation ends before the stream.
    fn is_any(&self) -> bool {
        self.events.is_some() || self.until.is_some()
    }
}

/// A text that is sought byte by byte (Knuth, Morris, Pratt 1977).
#[derive(Debug)]
struct SoughtText {
    text: Box<[u8]>,
    /// Length of the longest shorter beginning of the text that ends after each number of matched
    /// bytes.
    shorter: Box<[u16]>,
}

impl SoughtText {
    fn new(text: &str) -> Self {
        let text = &text.as_bytes()[..text.len().min(usize::from(u16::MAX))];
        let mut sought = Self { text: text.into(), shorter: vec![0; text.len() + 1].into() };
        let mut matched = 0;
        for (place, byte) in text.iter().enumerate().skip(1) {
            matched = sought.next(matched, *byte);
            sought.shorter[place + 1] = matched;
        }
        sought
    }

    /// Returns the number of bytes of the text that match after this byte.
    fn next(&self, mut matched: u16, byte: u8) -> u16 {
        loop {
            match self.text.get(usize::from(matched)) {
                Some(expected) if *expected == byte => return matched + 1,
                _ if matched == 0 => return 0,
                _ => matched = self.shorter[usize::from(matched)],
            }
        }
    }

    fn is_found(&self, matched: u16) -> bool {
        usize::from(matched) == self.text.len()
    }
}

/// Reading of an answer's body as a stream of events.
#[derive(Debug, Clone, Copy, Default)]
pub enum EventBody {
    /// The body is not such a stream.
    #[default]
    None,
    /// The stream is coded, and is not read.
    Coded,
    Read(EventReader),
}

impl EventBody {
    /// Begins a body after its header block.
    pub fn begin(block: &[u8]) -> Self {
        let is_events = |kind: &[u8]| {
            let name = kind.split(|byte| *byte == b';').next().unwrap_or_default();
            name.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
        };
        if !headers(block, "content-type").last().is_some_and(is_events) {
            return Self::None;
        }
        let mut codings = ContentCodings::default();
        headers(block, "content-encoding").for_each(|value| codings.note(value));
        if codings.is_any() { Self::Coded } else { Self::Read(EventReader::default()) }
    }

    /// Whether the event with which the operation ends was read.
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Read(events) if events.has_ended)
    }

    /// Returns the defect of an answer that should be a complete stream of events, if it has one.
    pub fn defect(&self, end: &EventEnd) -> Option<Malformation> {
        match self {
            Self::None => Some(Malformation::NotEventStream),
            Self::Coded => Some(Malformation::CodedStream),
            Self::Read(events) => (end.is_any() && !events.has_ended).then_some(Malformation::EndedEarly),
        }
    }
}

/// Position in a stream of events.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventReader {
    place: LinePlace,
    /// Whether the current event has data. An event without data does not count.
    has_data: bool,
    /// Number of bytes of the sought text that match at this place.
    matched: u16,
    /// Whether the current event has the sought text.
    is_last: bool,
    events: u32,
    has_ended: bool,
}

/// Position in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinePlace {
    /// The beginning of the stream, behind this many bytes of the byte order mark.
    Mark(u8),
    Start,
    /// The beginning of a line, behind a carriage return to which a line feed may belong.
    AfterReturn,
    /// In a field's name, behind this many bytes of `data`.
    Name(u8),
    /// Behind the colon of `data`, where one space is skipped.
    Colon,
    /// In data.
    Data,
    /// In another field or a comment.
    Other,
}

impl Default for LinePlace {
    fn default() -> Self {
        Self::Mark(0)
    }
}

impl EventReader {
    /// Reads the next bytes of the stream. Returns the number of events that end in them, up to the
    /// event with which the operation ends.
    pub fn read(&mut self, end: &EventEnd, bytes: &[u8]) -> u32 {
        let (before, mut rest) = (self.events, bytes);
        while let Some((byte, behind)) = rest.split_first()
            && !self.has_ended
        {
            let is_skipped = self.place == LinePlace::Other || self.place == LinePlace::Data && end.until.is_none();
            if is_skipped && !matches!(byte, b'\r' | b'\n') {
                rest = &rest[memchr::memchr2(b'\r', b'\n', rest).unwrap_or(rest.len())..];
            } else {
                self.read_byte(end, *byte);
                rest = behind;
            }
        }
        self.events.wrapping_sub(before)
    }

    fn read_byte(&mut self, end: &EventEnd, byte: u8) {
        if self.place == LinePlace::AfterReturn {
            self.place = LinePlace::Start;
            if byte == b'\n' {
                return;
            }
        }
        let is_next = |of: &[u8], place: u8| of.get(usize::from(place)) == Some(&byte);
        self.place = match (self.place, byte) {
            (_, b'\r' | b'\n') => {
                self.end_line(end);
                if byte == b'\r' { LinePlace::AfterReturn } else { LinePlace::Start }
            }
            (LinePlace::Mark(2), _) if is_next(MARK, 2) => LinePlace::Start,
            (LinePlace::Mark(count), _) if is_next(MARK, count) => LinePlace::Mark(count + 1),
            (LinePlace::Mark(0) | LinePlace::Start, _) if is_next(DATA, 0) => LinePlace::Name(1),
            (LinePlace::Name(4), b':') => {
                self.begin_data(end);
                LinePlace::Colon
            }
            (LinePlace::Name(count), _) if is_next(DATA, count) => LinePlace::Name(count + 1),
            (LinePlace::Colon, b' ') => LinePlace::Data,
            (LinePlace::Colon | LinePlace::Data, _) => {
                self.seek(end, byte);
                LinePlace::Data
            }
            _ => LinePlace::Other,
        };
    }

    /// Ends a line. An empty line ends the event.
    fn end_line(&mut self, end: &EventEnd) {
        match self.place {
            LinePlace::Name(4) => self.begin_data(end),
            LinePlace::Mark(0) | LinePlace::Start => self.end_event(end),
            _ => {}
        }
    }

    fn end_event(&mut self, end: &EventEnd) {
        if self.has_data {
            self.events = self.events.wrapping_add(1);
            self.has_ended = self.is_last || end.events.is_some_and(|events| self.events >= events);
        }
        (self.has_data, self.matched, self.is_last) = (false, 0, false);
    }

    /// Begins a line of data. Lines of data are joined by line feeds.
    fn begin_data(&mut self, end: &EventEnd) {
        if self.has_data {
            self.seek(end, b'\n');
        }
        self.has_data = true;
    }

    fn seek(&mut self, end: &EventEnd, byte: u8) {
        if let Some(until) = &end.until {
            self.matched = until.next(self.matched, byte);
            self.is_last |= until.is_found(self.matched);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(messages: Option<u32>, until: Option<&str>) -> EventEnd {
        EventEnd::compile(&StreamEnd { messages, until: until.map(str::to_owned) })
    }

    /// Returns the number of events and whether the operation has ended, which no split may change.
    fn read(stream: &[u8], end: &EventEnd) -> (u32, bool) {
        let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let mut reader = EventReader::default();
            let events = pieces.map(|piece| reader.read(end, piece)).sum::<u32>();
            (events, reader.has_ended)
        };
        let whole = read(&mut std::iter::once(stream));
        for cut in 0..stream.len() {
            let (left, right) = stream.split_at(cut);
            assert_eq!(read(&mut [left, right].into_iter()), whole, "cut at {cut}");
        }
        assert_eq!(read(&mut stream.chunks(1)), whole, "byte by byte");
        whole
    }

    #[test]
    fn the_examples_of_the_standard() {
        let never = EventEnd::default();
        for (stream, events) in [
            ("data: This is the first message.\n\ndata: This is the second message, it\ndata: has two lines.\n\n", 2),
            ("event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\n", 2),
            ("data: YHOO\ndata: +2\ndata: 10\n\n", 1),
            (": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n", 2),
            // An event with empty data, one with two empty lines, and one that is not complete.
            ("data\n\ndata\ndata\n\ndata:", 2),
            ("data:test\n\ndata: test\n\n", 2),
        ] {
            for line_end in ["\n", "\r", "\r\n"] {
                for mark in ["", "\u{feff}"] {
                    let stream = format!("{mark}{}", stream.replace('\n', line_end));
                    assert_eq!(read(stream.as_bytes(), &never), (events, false), "{stream:?}");
                }
            }
        }
    }

    #[test]
    fn lines_that_are_no_data_make_no_event() {
        let never = EventEnd::default();
        for stream in [
            "",
            "\n\n\n",
            ":\n\n",
            "event: x\n\n",
            "dat: x\n\n",
            "datas: x\n\n",
            " data: x\n\n",
            "Data: x\n\n",
            "retry: 10\nid: 7\n\n",
            "data: x\n",
            "\u{feff}\u{feff}data: x\n\n",
            "d\n\n",
            ":data: x\n\n",
        ] {
            assert_eq!(read(stream.as_bytes(), &never), (0, false), "{stream:?}");
        }
        assert_eq!(read(b"\xef\xbbdata: x\n\ndata: y\n\n", &never), (1, false), "half a mark is a name");
    }

    #[test]
    fn an_operation_ends_with_its_last_event() {
        let answer = b"data: {\"text\": \"one\"}\n\ndata: two\n\ndata: [DONE]\n\ndata: late\n\n";
        assert_eq!(read(answer, &end(Some(2), None)), (2, true));
        assert_eq!(read(answer, &end(Some(9), None)), (4, false));
        assert_eq!(read(answer, &end(None, Some("[DONE]"))), (3, true));
        assert_eq!(read(answer, &end(None, Some("text\": \"one"))), (1, true));
        assert_eq!(read(answer, &end(Some(2), Some("[DONE]"))), (2, true));
        assert_eq!(read(answer, &end(None, Some("[done]"))), (4, false));
        // The text may overlap itself, and may span lines of data, but not fields or events.
        assert_eq!(read(b"data: aaab\n\n", &end(None, Some("aab"))), (1, true));
        assert_eq!(read(b"data: abac\ndata: abab\n\n", &end(None, Some("abab"))), (1, true));
        assert_eq!(read(b"data: a\ndata: b\n\n", &end(None, Some("a\nb"))), (1, true));
        assert_eq!(read(b"data: a\n\ndata: b\n\n", &end(None, Some("ab"))), (2, false));
        assert_eq!(read(b"event: end\ndata: x\n\n", &end(None, Some("end"))), (1, false));
    }
}
