//! Lines of text: one is sent, and lines are taken until one ends the answer. It must not know what they mean.
//!
//! A line ends with `\n`; a `\r` before that belongs to the end.

use experiment::catalog;

use super::{AboutData, Answer, Asked, Call, Cause, Greeting, Progress, Protocol, Refusal};
use crate::values::Values;
use crate::values::layout::{Builder, Layout};

mod operations;

pub use operations::INFO;

/// The longest line that is taken for one, bytes with its end.
const LINE_LIMIT: usize = 1024 * 1024;
/// The longest answer that is taken for one, bytes.
const ANSWER_LIMIT: usize = 16 * 1024 * 1024;
/// Most lines that a server says first.
const BANNER_LINES: u32 = 1000;
/// [`Cause::Answer`] of a line that fails the operation.
const REFUSED: u8 = 0;

/// A server of lines.
#[derive(Debug)]
pub struct Lines {
    authority: String,
    banner: Option<Greeting>,
}

/// A compiled step.
#[derive(Debug)]
pub struct Request {
    layout: Layout,
    /// What the last line begins with; nothing: the first line is the last.
    until: Box<[Vec<u8>]>,
    /// What the last line of a failure begins with.
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

/// Where in the input the lines are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Decoder {
    /// The line at hand begins here.
    at: usize,
    /// There is no line's end between that and here.
    searched: usize,
    /// The first line ends here.
    first_end: Option<usize>,
    /// The last line ends here.
    end: usize,
    is_refused: bool,
}

impl Protocol for Lines {
    const INFO: &'static catalog::Protocol = &INFO;
    const REFUSALS: &'static [Refusal] = &[Refusal { name: "refused", harmless: false }];
    type Request = Request;
    type Decoder = Decoder;
    type Memory = ();

    fn open(service: &str) -> Result<Self, String> {
        const FORM: &str = "write tcp://host:port, or tcp://host:port?banner=1 where the server speaks first";
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
                let answers = lines.filter(|lines| (1..=BANNER_LINES).contains(lines)).ok_or(FORM)?;
                Some(Greeting { bytes: Vec::new(), answers })
            }
        };
        Ok(Self { authority: authority.to_owned(), banner })
    }

    fn authority(&self) -> &str {
        &self.authority
    }

    fn greeting(&self) -> Option<&Greeting> {
        self.banner.as_ref()
    }

    fn greeted(greeting: &Greeting, input: &[u8]) -> Progress {
        let mut ends = input.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
        let last = (greeting.answers as usize).checked_sub(1).and_then(|others| ends.nth(others));
        match last {
            Some(end) => Progress::Answer(Answer { used: end + 1, result: Cause::Ok, reusable: true }),
            None if input.len() >= LINE_LIMIT => Progress::Bad(Cause::TooLong),
            None => Progress::More { used: 0 },
        }
    }

    fn compile(&self, call: &Call<'_>) -> Result<Request, String> {
        call.check()?;
        let line = call.argument("line").ok_or("`send` needs a `line`")?;
        let mut builder = Builder::default();
        builder.value(call.arguments, line).bytes(constant(call, "end")?.unwrap_or(b"\n"));
        Ok(Request {
            layout: builder.finish()?,
            until: beginnings(call, "until")?,
            fails: beginnings(call, "fails")?,
            wants: call.wants.iter().map(|want| Want::named(want)).collect::<Result<_, _>>()?,
        })
    }

    /// Nobody knows.
    fn may_change(_request: &Request) -> bool {
        true
    }

    fn about_data(_failure: Cause) -> Option<AboutData> {
        None
    }

    fn encode(request: &Request, id: u32, values: &Values<'_>, out: &mut Vec<u8>) {
        request.layout.write(id, values, out);
    }

    fn decode(asked: &Asked<'_, Self>, decoder: &mut Decoder, (): &mut (), input: &[u8], _ended: bool) -> Progress {
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

impl Decoder {
    fn decode(&mut self, request: &Request, input: &[u8]) -> Result<Progress, Cause> {
        loop {
            let from = self.at.max(self.searched);
            let Some(found) = input[from..].iter().position(|byte| *byte == b'\n') else {
                self.searched = input.len();
                let is_too_long = input.len() - self.at >= LINE_LIMIT || input.len() >= ANSWER_LIMIT;
                return if is_too_long { Err(Cause::TooLong) } else { Ok(Progress::More { used: 0 }) };
            };
            let behind = from + found + 1;
            if behind - self.at > LINE_LIMIT || behind > ANSWER_LIMIT {
                return Err(Cause::TooLong);
            }
            let line = &input[self.at..behind - 1];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let end = self.at + line.len();
            self.first_end.get_or_insert(end);
            self.is_refused = begins(line, &request.fails);
            if self.is_refused || request.until.is_empty() || begins(line, &request.until) {
                self.end = end;
                let result = if self.is_refused { Cause::Answer(REFUSED) } else { Cause::Ok };
                return Ok(Progress::Answer(Answer { used: behind, result, reusable: true }));
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

/// An argument that never changes.
fn constant<'a>(call: &Call<'a>, name: &str) -> Result<Option<&'a [u8]>, String> {
    let Some(place) = call.argument(name) else { return Ok(None) };
    let text = call.arguments[place].template.as_constant();
    text.map(Some).ok_or_else(|| format!("`{name}` is the same for all requests, without placeholders"))
}

/// Texts with `|` between.
fn beginnings(call: &Call<'_>, name: &str) -> Result<Box<[Vec<u8>]>, String> {
    let Some(text) = constant(call, name)? else { return Ok(Box::default()) };
    let all: Box<[Vec<u8>]> = text.split(|byte| *byte == b'|').map(<[u8]>::to_vec).collect();
    if all.iter().any(Vec::is_empty) {
        return Err(format!("`{name}` has an empty text in it, which every line begins with"));
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

#[cfg(test)]
mod tests;
