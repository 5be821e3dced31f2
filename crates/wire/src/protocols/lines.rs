//! Text lines over TCP. A request is a line; an answer is all lines up to the line that ends it.
//!
//! A line ends with `\n`. A `\r` before the `\n` belongs to the line end.

use experiment::catalog::{self, Effect, Field, Operation};

use super::{AboutData, Call, Protocol};
use crate::cause::{AttemptCause, Refusal};
use crate::in_order::{InOrderProtocol, Progress};
use crate::session::{Answer, Opening, RequestContext};
use crate::values::OperationValues;
use crate::values::allowed::{AllowedBytes, NotSendable};
use crate::values::layout::{LayoutBuilder, RequestLayout, ValueCheck};

/// Description for experiment files.
pub static INFO: catalog::Protocol = catalog::Protocol {
    name: "lines",
    schemes: &["tcp"],
    help: "lines of text over TCP, as in memcached and SMTP; tcp://host:port, or tcp://host:port?banner=N if the \
           server first sends N lines",
    operations: &[Operation {
        name: "send",
        help: "sends a line and reads the lines of the answer",
        takes: &[
            Field { name: "line", help: "the text to send; it may contain line ends", required: true },
            Field {
                name: "end",
                help: "the line end after the text, such as \"\\r\\n\"; default: \"\\n\"",
                required: false,
            },
            Field {
                name: "until",
                help: "the beginning of the answer's last line, several separated by |; default: the answer is one \
                       line",
                required: false,
            },
            Field {
                name: "fails",
                help: "the beginning of a line that also ends the answer, as a refusal: \"ERROR|SERVER_ERROR\"",
                required: false,
            },
        ],
        answers: &[
            Field { name: "line", help: "the first line of the answer, without its end", required: false },
            Field { name: "last", help: "the last line, without its end", required: false },
            Field { name: "text", help: "all lines, without the last one's end", required: false },
            Field { name: "status", help: "`ok`, or `refused` if the last line begins as in `fails`", required: false },
        ],
        effect: Effect::None,
    }],
};

/// Longest accepted line with its end, bytes.
const LINE_LIMIT: usize = 1024 * 1024;
/// Longest accepted answer, bytes.
const ANSWER_LIMIT: usize = 16 * 1024 * 1024;
/// Maximum number of lines of a banner.
const BANNER_LINES: u32 = 1000;
/// Number in [`AttemptCause::Answer`] for a line that fails the operation.
const REFUSED: u8 = 0;

/// A server that speaks in lines.
#[derive(Debug)]
pub struct Lines {
    authority: String,
    /// Number of lines that the server sends before the first request.
    banner: Option<u32>,
}

/// A compiled step.
#[derive(Debug)]
pub struct Request {
    layout: RequestLayout,
    /// Possible beginnings of the last line. If empty, the answer has one line.
    until: Box<[Vec<u8>]>,
    /// Possible beginnings of the last line of a failed answer.
    fails: Box<[Vec<u8>]>,
    wants: Box<[Want]>,
}

/// A field of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Line,
    Last,
    Text,
    Status,
}

/// Positions of the lines in the input.
#[derive(Debug, Clone, Copy, Default)]
pub struct Decoder {
    /// Start of the current line.
    at: usize,
    /// End of the bytes already searched for a line end.
    searched: usize,
    /// End of the first line.
    first_end: Option<usize>,
    /// End of the last line.
    end: usize,
    is_refused: bool,
}

impl Protocol for Lines {
    const INFO: &'static catalog::Protocol = &INFO;
    const REFUSALS: &'static [Refusal] = &[Refusal { name: "refused", harmless: false }];
    type Request = Request;

    fn open(service: &str) -> Result<Self, String> {
        const FORM: &str = "write tcp://host:port, or tcp://host:port?banner=1 if the server sends a line first";
        let rest = service.strip_prefix("tcp://").unwrap_or(service);
        let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
        let authority = place.strip_suffix('/').unwrap_or(place);
        match authority.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() => {}
            _ => return Err(FORM.to_owned()),
        }
        let banner = match query {
            None => None,
            Some(query) => {
                let lines = query.strip_prefix("banner=").and_then(|lines| lines.parse().ok());
                Some(lines.filter(|lines| (1..=BANNER_LINES).contains(lines)).ok_or(FORM)?)
            }
        };
        Ok(Self { authority: authority.to_owned(), banner })
    }

    fn authority(&self) -> &str {
        &self.authority
    }

    fn speaks_first(&self) -> bool {
        self.banner.is_some()
    }

    fn compile(&self, call: &Call<'_>) -> Result<Request, String> {
        call.check()?;
        let line = call.argument("line").ok_or("`send` needs a `line`")?;
        let mut builder = LayoutBuilder::default();
        let end = constant(call, "end")?.unwrap_or(b"\n");
        builder.checked(call.arguments, line, within_line(end)).bytes(end);
        Ok(Request {
            layout: builder.finish()?,
            until: beginnings(call, "until")?,
            fails: beginnings(call, "fails")?,
            wants: call.wants.iter().map(|want| Want::named(want)).collect::<Result<_, _>>()?,
        })
    }

    /// A line may change data; Plimsoll cannot tell.
    fn may_change(_request: &Request) -> bool {
        true
    }

    fn about_data(_failure: AttemptCause) -> Option<AboutData> {
        None
    }
}

impl InOrderProtocol for Lines {
    type Decoder = Decoder;
    type Memory = ();

    fn greet(&self, _decoder: &mut Decoder, _out: &mut Vec<u8>) -> Opening {
        if self.banner.is_some() { Opening::Wait { used: 0 } } else { Opening::Open { used: 0 } }
    }

    fn greeted(&self, _decoder: &mut Decoder, input: &[u8], _out: &mut Vec<u8>) -> Opening {
        let before_last = self.banner.unwrap_or_default() as usize - 1;
        match memchr::memchr_iter(b'\n', input).nth(before_last) {
            Some(end) => Opening::Open { used: end + 1 },
            None if input.len() >= LINE_LIMIT => Opening::Refused(AttemptCause::TooLong),
            None => Opening::Wait { used: 0 },
        }
    }

    fn encode(request: &Request, id: u32, values: &OperationValues<'_>, out: &mut Vec<u8>) -> Result<(), NotSendable> {
        request.layout.write(id, values, out)
    }

    fn decode(
        asked: &RequestContext<'_, Self>,
        decoder: &mut Decoder,
        (): &mut (),
        input: &[u8],
        _ended: bool,
    ) -> Progress {
        decoder.decode(asked.request, input).unwrap_or_else(Progress::Bad)
    }

    fn field<'a>(
        request: &'a Request,
        decoder: &'a Decoder,
        want: usize,
        input: &'a [u8],
        _scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        match request.wants.get(want)? {
            Want::Line => input.get(..decoder.first_end?),
            Want::Last => input.get(decoder.at..decoder.end),
            Want::Text => input.get(..decoder.end),
            Want::Status => Some(decoder.word().as_bytes()),
        }
    }

    fn rest(decoder: &mut Decoder, (): &mut ()) {
        *decoder = Decoder::default();
    }

    fn status<'a>(decoder: &'a Decoder, _input: &'a [u8], _scratch: &'a mut Vec<u8>) -> &'a [u8] {
        decoder.word().as_bytes()
    }
}

/// Restricts variable text so that the text cannot end the line and begin another line. If a
/// message ends with more than a line end, its text may contain line ends.
fn within_line(end: &[u8]) -> ValueCheck {
    let is_text = end.len() > 1 && end.iter().any(|byte| !b"\r\n".contains(byte));
    let is_end = |byte: u8| b"\r\n".contains(&byte) || end == [byte];
    let allowed = AllowedBytes::which(|byte| is_text || !is_end(byte), NotSendable::InLine);
    let allowed = if is_text { allowed.without(end) } else { allowed };
    ValueCheck { allowed, ..ValueCheck::default() }
}

impl Decoder {
    fn decode(&mut self, request: &Request, input: &[u8]) -> Result<Progress, AttemptCause> {
        loop {
            let from = self.at.max(self.searched);
            let Some(found) = input[from..].iter().position(|byte| *byte == b'\n') else {
                self.searched = input.len();
                let is_too_long = input.len() - self.at >= LINE_LIMIT || input.len() >= ANSWER_LIMIT;
                return if is_too_long { Err(AttemptCause::TooLong) } else { Ok(Progress::More { used: 0 }) };
            };
            let behind = from + found + 1;
            if behind - self.at > LINE_LIMIT || behind > ANSWER_LIMIT {
                return Err(AttemptCause::TooLong);
            }
            let line = &input[self.at..behind - 1];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let end = self.at + line.len();
            self.first_end.get_or_insert(end);
            self.is_refused = begins(line, &request.fails);
            if self.is_refused || request.until.is_empty() || begins(line, &request.until) {
                self.end = end;
                let result = if self.is_refused { AttemptCause::Answer(REFUSED) } else { AttemptCause::Ok };
                return Ok(Progress::Answer(Answer { used: behind, result, reusable: true, is_costly: false }));
            }
            self.at = behind;
        }
    }

    fn word(&self) -> &'static str {
        if self.is_refused { "refused" } else { "ok" }
    }
}

fn begins(line: &[u8], beginnings: &[Vec<u8>]) -> bool {
    beginnings.iter().any(|beginning| line.starts_with(beginning))
}

/// Returns an argument that must be constant.
fn constant<'a>(call: &Call<'a>, name: &str) -> Result<Option<&'a [u8]>, String> {
    let Some(place) = call.argument(name) else { return Ok(None) };
    let text = call.arguments[place].template.as_constant();
    text.map(Some).ok_or_else(|| format!("`{name}` must have no placeholders: it is the same for all operations"))
}

/// Splits an argument at `|` into beginnings of lines.
fn beginnings(call: &Call<'_>, name: &str) -> Result<Box<[Vec<u8>]>, String> {
    let Some(text) = constant(call, name)? else { return Ok(Box::default()) };
    let all: Box<[Vec<u8>]> = text.split(|byte| *byte == b'|').map(<[u8]>::to_vec).collect();
    if all.iter().any(Vec::is_empty) {
        return Err(format!("`{name}` contains an empty text, which would match every line"));
    }
    Ok(all)
}

impl Want {
    fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "line" => Self::Line,
            "last" => Self::Last,
            "text" => Self::Text,
            "status" => Self::Status,
            _ => return Err(format!("an answer has no `{name}`")),
        })
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::exchange::{Compiled, Seen, compile, encode, feed, is_the_same_in_pieces};

    const WANTS: [&str; 4] = ["line", "last", "text", "status"];

    fn lines() -> Lines {
        Lines::open("tcp://127.0.0.1:11211").unwrap()
    }

    fn compiled(with: &[(&str, &str)]) -> Compiled<Lines> {
        compile(&lines(), "send", with, &WANTS).unwrap()
    }

    fn seen(line: &str, last: &str, text: &str) -> Seen {
        Seen::answer(AttemptCause::Ok, true, "ok", &[line, last, text, "ok"].map(Some))
    }

    fn refused(line: &str, last: &str, text: &str) -> Seen {
        Seen::answer(AttemptCause::Answer(REFUSED), true, "refused", &[line, last, text, "refused"].map(Some))
    }

    #[test]
    fn services() {
        for (service, authority, banner) in [
            ("127.0.0.1:25", "127.0.0.1:25", None),
            ("tcp://host:25", "host:25", None),
            ("tcp://[::1]:25/", "[::1]:25", None),
            ("tcp://host:25?banner=1", "host:25", Some(1)),
            ("tcp://host:25/?banner=3", "host:25", Some(3)),
        ] {
            let lines = Lines::open(service).unwrap();
            assert_eq!((lines.authority(), lines.banner), (authority, banner));
        }
        for service in [
            "",
            "host",
            "tcp://host",
            "tcp://:25",
            "host:70000",
            "http://host:1",
            "tcp://host:25/mail",
            "tcp://host:25?banner=0",
            "tcp://host:25?banner=1001",
            "tcp://host:25?banner",
            "tcp://host:25?greet=1",
        ] {
            assert!(Lines::open(service).is_err(), "{service}");
        }
    }

    #[test]
    fn requests_byte_for_byte() {
        for (with, expected) in [
            (&[("line", "version")][..], "version\n"),
            (&[("line", "get k{agent}"), ("end", "\r\n")], "get k3\r\n"),
            (&[("line", "set k 0 0 2\r\n{seq}"), ("end", "\r\n")], "set k 0 0 2\r\n12\r\n"),
            (&[("line", ""), ("end", "")], ""),
        ] {
            assert_eq!(String::from_utf8(encode(&compiled(with), 1)).unwrap(), expected);
        }
    }

    #[test]
    fn invalid_requests_are_refused() {
        for with in [
            &[][..],
            &[("line", "x"), ("path", "/")],
            &[("line", "x"), ("end", "{seq}")],
            &[("line", "x"), ("until", "{agent}")],
            &[("line", "x"), ("until", "")],
            &[("line", "x"), ("fails", "ERROR|")],
        ] {
            assert!(compile(&lines(), "send", with, &[]).is_err(), "{with:?}");
        }
        assert!(compile(&lines(), "send", &[("line", "x")], &["value"]).is_err());
    }

    #[test]
    fn answers() {
        let one = compiled(&[("line", "x")]);
        let failing = compiled(&[("line", "x"), ("fails", "ERROR|SERVER_ERROR")]);
        let many = compiled(&[("line", "x"), ("until", "END|OK"), ("fails", "ERROR")]);
        let mail = compiled(&[("line", "EHLO x"), ("until", "250 ")]);
        let table = [
            (&one, "STORED\r\n", seen("STORED", "STORED", "STORED")),
            (&one, "STORED\n", seen("STORED", "STORED", "STORED")),
            (&one, "\n", seen("", "", "")),
            (&one, "\r\n", seen("", "", "")),
            (&one, "a\rb\r\r\n", seen("a\rb\r", "a\rb\r", "a\rb\r")),
            (&one, "ERROR\r\n", seen("ERROR", "ERROR", "ERROR")),
            (&failing, "STORED\r\n", seen("STORED", "STORED", "STORED")),
            (&failing, "SERVER_ERROR out\r\n", refused("SERVER_ERROR out", "SERVER_ERROR out", "SERVER_ERROR out")),
            (&many, "END\r\n", seen("END", "END", "END")),
            (&many, "VALUE k 0 2\r\nhi\r\nEND\r\n", seen("VALUE k 0 2", "END", "VALUE k 0 2\r\nhi\r\nEND")),
            (&many, "a\n\nOK then\n", seen("a", "OK then", "a\n\nOK then")),
            (&many, "a\nERROR b\r\n", refused("a", "ERROR b", "a\nERROR b")),
            (
                &mail,
                "250-one\r\n250-two\r\n250 three\r\n",
                seen("250-one", "250 three", "250-one\r\n250-two\r\n250 three"),
            ),
        ];
        for (request, bytes, expected) in table {
            assert_eq!(is_the_same_in_pieces(request, 1, bytes.as_bytes(), false), expected, "{bytes:?}");
        }
    }

    #[test]
    fn bytes_after_an_answer_are_left() {
        let one = compiled(&[("line", "x")]);
        let Seen::Answer { surplus, .. } = is_the_same_in_pieces(&one, 1, b"a\nb\n", false) else {
            panic!("no answer")
        };
        assert_eq!(surplus, b"b\n");
    }

    #[test]
    fn endless_answers_are_too_long() {
        let many = compiled(&[("line", "x"), ("until", "END")]);
        let line = vec![b'x'; LINE_LIMIT];
        assert_eq!(feed(&many, &mut (), 1, &[&line], false), Seen::Bad(AttemptCause::TooLong));
        assert_eq!(feed(&many, &mut (), 1, &[&line[1..], b"\n", b"END\n"], false), {
            let text = "x".repeat(LINE_LIMIT - 1);
            seen(&text, "END", &format!("{text}\nEND"))
        });
        let short = [&line[..1023], b"\n"].concat();
        let pieces: Vec<&[u8]> = std::iter::repeat_n(short.as_slice(), ANSWER_LIMIT / 1024 + 1).collect();
        assert_eq!(feed(&many, &mut (), 1, &pieces, false), Seen::Bad(AttemptCause::TooLong));
    }

    #[test]
    fn truncated_answers_are_incomplete() {
        let many = compiled(&[("line", "x"), ("until", "END")]);
        for bytes in ["", "a", "a\n", "a\r\nEND", "a\r\nEND\r"] {
            assert_eq!(is_the_same_in_pieces(&many, 1, bytes.as_bytes(), true), Seen::More, "{bytes:?}");
        }
    }

    #[test]
    fn a_banner_has_a_fixed_number_of_lines() {
        let lines = Lines::open("tcp://host:25?banner=2").unwrap();
        let greeted = |input: &[u8]| lines.greeted(&mut Decoder::default(), input, &mut Vec::new());
        for not_whole in [&b""[..], b"220-a\r\n", b"220-a\r\n220 b\r"] {
            assert_eq!(greeted(not_whole), Opening::Wait { used: 0 });
        }
        assert_eq!(greeted(b"220-a\r\n220 b\r\n"), Opening::Open { used: 14 });
        assert_eq!(greeted(b"\n\nx"), Opening::Open { used: 2 });
        assert_eq!(greeted(&vec![b'x'; LINE_LIMIT]), Opening::Refused(AttemptCause::TooLong));
    }

    proptest! {
        #[test]
        fn nonsense_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), cut in 0_usize..64, ends: bool) {
            let (left, right) = bytes.split_at(cut.min(bytes.len()));
            for with in [&[("line", "x")][..], &[("line", "x"), ("until", "E|F"), ("fails", "G")]] {
                feed(&compiled(with), &mut (), 1, &[left, right], ends);
            }
        }

        #[test]
        fn lines_are_decoded_unchanged(texts in prop::collection::vec("[a-z]{0,10}", 1..20)) {
            let many = compiled(&[("line", "x"), ("until", "END")]);
            let text = texts.join("\r\n");
            let expected = seen(&texts[0], "END", &format!("{text}\r\nEND"));
            prop_assert_eq!(is_the_same_in_pieces(&many, 1, format!("{text}\r\nEND\r\n").as_bytes(), false), expected);
        }
    }
}
