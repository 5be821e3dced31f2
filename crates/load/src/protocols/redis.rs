//! Redis: a command asks, one reply answers. It must not know what a key means.
//!
//! Replies of RESP3 are understood as well; they come where a step says `HELLO 3`. What a server pushes in between is passed over.

use experiment::catalog;

use super::{AboutData, Answer, Asked, Call, Cause, Greeting, Progress, Protocol, Refusal};
use crate::values::{Values, write_decimal};

mod operations;
mod place;
mod replies;
mod request;

pub use operations::INFO;
use place::Place;
use replies::{Reply, Walk};
use request::Part;

/// The longest answer to a greeting, bytes.
const GREETED_LIMIT: usize = 64 * 1024;

/// A Redis server.
#[derive(Debug)]
pub struct Redis {
    place: Place,
}

/// A compiled step.
#[derive(Debug)]
pub struct Request {
    verb: Verb,
    parts: Box<[Part]>,
    wants: Box<[Want]>,
}

/// The operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Get,
    Set,
    Del,
    Incr,
    Ping,
    Command,
}

/// A field of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Status,
    Text,
    Value,
    Count,
    Removed,
}

/// Where in the input the reply is.
#[derive(Debug, Default)]
pub struct Decoder {
    walk: Walk,
    /// It begins here, behind what was pushed.
    at: usize,
    length: usize,
    status: &'static str,
}

/// First words of errors, in small letters; the last stands for all others. All but that one are said before a command is carried
/// out, or of a script or transaction before any of it is.
const REFUSALS: &[Refusal] = &[
    refusal("ask"),
    refusal("busy"),
    refusal("clusterdown"),
    refusal("crossslot"),
    refusal("denied"),
    refusal("execabort"),
    refusal("loading"),
    refusal("masterdown"),
    refusal("maxclients"),
    refusal("misconf"),
    refusal("moved"),
    refusal("noauth"),
    refusal("noperm"),
    refusal("noreplicas"),
    refusal("noscript"),
    refusal("oom"),
    refusal("readonly"),
    refusal("tryagain"),
    refusal("wrongpass"),
    Refusal { name: "err", harmless: false },
];
/// After these the server closes the connection.
const LAST_WORDS: [&str; 2] = ["denied", "maxclients"];

const fn refusal(name: &'static str) -> Refusal {
    Refusal { name, harmless: true }
}

impl Protocol for Redis {
    const INFO: &'static catalog::Protocol = &INFO;
    const REFUSALS: &'static [Refusal] = REFUSALS;
    type Request = Request;
    type Decoder = Decoder;
    type Memory = ();

    fn open(service: &str) -> Result<Self, String> {
        Place::parse(service).map(|place| Self { place })
    }

    fn authority(&self) -> &str {
        &self.place.authority
    }

    fn greeting(&self) -> Option<&Greeting> {
        self.place.greeting.as_ref()
    }

    fn greeted(greeting: &Greeting, input: &[u8]) -> Progress {
        let mut used = 0;
        for _ in 0..greeting.answers {
            let length = match Walk::default().on(&input[used..]) {
                Ok(Some(length)) => length,
                Ok(None) if input.len() > GREETED_LIMIT => return Progress::Bad(Cause::TooLong),
                Ok(None) => return Progress::More { used: 0 },
                Err(cause) => return Progress::Bad(cause),
            };
            let reply = Reply(&input[used..][..length]);
            used += length;
            if reply.is_error() {
                let result = Cause::Answer(refused(reply));
                return Progress::Answer(Answer { used, result, reusable: false });
            }
        }
        Progress::Answer(Answer { used, result: Cause::Ok, reusable: true })
    }

    fn compile(&self, call: &Call<'_>) -> Result<Request, String> {
        request::compile(call)
    }

    fn may_change(request: &Request) -> bool {
        !matches!(request.verb, Verb::Get | Verb::Ping)
    }

    /// Its only answer about data, `not_found`, fails nothing: it contradicts where a value is expected, and is `ok` elsewhere.
    fn about_data(_failure: Cause) -> Option<AboutData> {
        None
    }

    fn encode(request: &Request, _id: u32, values: &Values<'_>, out: &mut Vec<u8>) {
        request::write(&request.parts, values, out);
    }

    fn decode(asked: &Asked<'_, Self>, decoder: &mut Decoder, (): &mut (), input: &[u8], _ended: bool) -> Progress {
        let mut used = 0;
        loop {
            let length = match decoder.walk.on(&input[used..]) {
                Ok(Some(length)) => length,
                Ok(None) => return Progress::More { used },
                Err(cause) => return Progress::Bad(cause),
            };
            let reply = Reply(&input[used..][..length]);
            if reply.is_aside() {
                decoder.walk = Walk::default();
                used += length;
                continue;
            }
            (decoder.at, decoder.length) = (used, length);
            return decoder.judge(asked.request.verb, reply, used + length);
        }
    }

    fn field<'a>(
        request: &'a Request,
        decoder: &'a Decoder,
        want: usize,
        input: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        let reply = Reply(input.get(decoder.at..)?.get(..decoder.length)?);
        match request.wants.get(want)? {
            Want::Status => Some(decoder.status.as_bytes()),
            Want::Text => reply.text().filter(|_| reply.is_error()),
            _ if reply.is_error() => None,
            Want::Count => {
                write_decimal(reply.count()?, scratch);
                Some(scratch)
            }
            Want::Value if reply.count().is_some() => {
                reply.write_list(scratch);
                Some(scratch)
            }
            Want::Value | Want::Removed => reply.text(),
        }
    }

    fn rest(decoder: &mut Decoder, (): &mut ()) {
        *decoder = Decoder::default();
    }

    fn status<'a>(decoder: &'a Decoder, _input: &'a [u8], _scratch: &'a mut Vec<u8>) -> &'a [u8] {
        decoder.status.as_bytes()
    }
}

impl Decoder {
    fn judge(&mut self, verb: Verb, reply: Reply<'_>, used: usize) -> Progress {
        if reply.is_error() {
            let number = refused(reply);
            self.status = REFUSALS[usize::from(number)].name;
            let reusable = !LAST_WORDS.contains(&self.status);
            return Progress::Answer(Answer { used, result: Cause::Answer(number), reusable });
        }
        if !verb.fits(reply) {
            return Progress::Bad(Cause::BadAnswer);
        }
        self.status = match verb {
            _ if !reply.is_nothing() => "ok",
            Verb::Get => "not_found",
            _ => "nil",
        };
        Progress::Answer(Answer { used, result: Cause::Ok, reusable: true })
    }
}

/// Which of the refusals an error is.
fn refused(reply: Reply<'_>) -> u8 {
    let text = reply.text().unwrap_or_default();
    // Said to a connection that is one too many, before anything was asked on it.
    let word: &[u8] = if text.starts_with(b"ERR max number of clients") {
        b"maxclients"
    } else {
        text.split(|byte| *byte == b' ').next().unwrap_or_default()
    };
    let others = REFUSALS.len() - 1;
    let place = REFUSALS.iter().position(|refusal| refusal.name.as_bytes().eq_ignore_ascii_case(word));
    u8::try_from(place.unwrap_or(others)).unwrap_or(u8::MAX)
}

impl Verb {
    fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "get" => Self::Get,
            "set" => Self::Set,
            "del" => Self::Del,
            "incr" => Self::Incr,
            "ping" => Self::Ping,
            "command" => Self::Command,
            _ => return Err(format!("there is no operation `{name}`")),
        })
    }

    /// Whether a reply may be one to it: what is not has been asked for by somebody else. In a transaction all are `+QUEUED`.
    fn fits(self, reply: Reply<'_>) -> bool {
        match reply.kind() {
            b'+' => true,
            b'$' | b'=' | b'_' if self == Self::Get => true,
            b'$' | b'_' if self == Self::Set => reply.is_nothing(),
            b'$' => matches!(self, Self::Ping | Self::Command),
            b':' => matches!(self, Self::Del | Self::Incr | Self::Command),
            _ => self == Self::Command,
        }
    }
}

impl Want {
    fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "status" => Self::Status,
            "text" => Self::Text,
            "value" => Self::Value,
            "count" => Self::Count,
            "removed" => Self::Removed,
            _ => return Err(format!("an answer has no `{name}`")),
        })
    }
}

#[cfg(test)]
mod tests;
