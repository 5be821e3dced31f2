//! Redis (RESP): a request is a command, an answer is a reply.
//!
//! Replies of RESP3 are supported too; a server sends them after a step with `HELLO 3`. Push
//! messages between replies are skipped.

use experiment::catalog::{self, Effect, Field, Operation};

use super::{AboutData, Call, Protocol};
use crate::cause::{AttemptCause, Refusal, open_word, word_of};
use crate::in_order::{InOrderProtocol, Progress};
use crate::session::{Answer, Opening, RequestContext};
use crate::values::allowed::NotSendable;
use crate::values::words::TemplateWords;
use crate::values::{Argument, CompiledTemplate, OperationValues, TemplateNames, write_decimal};

const KEY: Field = Field { name: "key", help: "the key", required: true };
const STATUS: Field = Field {
    name: "status",
    help: "`ok`, `not_found`, `nil`, or the first word of an error in lower case: `err`, `moved`, `readonly`, …",
    required: false,
};
const TEXT: Field = Field { name: "text", help: "the server's text about an error", required: false };

/// Description for experiment files.
pub static INFO: catalog::Protocol = catalog::Protocol {
    name: "redis",
    schemes: &["redis", "rediss"],
    help: "Redis and compatible servers (Valkey, KeyDB, …): RESP over TCP; redis://host:port, redis://host:port/DB, \
           redis://USER:{env:PASSWORD}@host:port; rediss:// for TLS",
    operations: &[
        Operation {
            name: "get",
            help: "GET: reads the value of a key; `not_found` is an answer",
            takes: &[KEY],
            answers: &[Field { name: "value", help: "the stored value", required: false }, STATUS, TEXT],
            effect: Effect::Read,
        },
        Operation {
            name: "set",
            help: "SET: stores a value under a key",
            takes: &[KEY, Field { name: "value", help: "the value to store", required: true }],
            answers: &[STATUS, TEXT],
            effect: Effect::Write,
        },
        Operation {
            name: "del",
            help: "DEL: removes a key",
            takes: &[KEY],
            answers: &[Field { name: "removed", help: "1 if the key existed, else 0", required: false }, STATUS, TEXT],
            effect: Effect::Remove,
        },
        Operation {
            name: "incr",
            help: "INCR: adds 1 to the number under a key; a missing key counts as 0",
            takes: &[KEY],
            answers: &[Field { name: "value", help: "the number afterwards", required: false }, STATUS, TEXT],
            effect: Effect::None,
        },
        Operation {
            name: "enqueue",
            help: "RPUSH: adds a value to the end of a list",
            takes: &[KEY, Field { name: "value", help: "the value to add", required: true }],
            answers: &[Field { name: "length", help: "the list's length afterwards", required: false }, STATUS, TEXT],
            effect: Effect::Enqueue,
        },
        Operation {
            name: "dequeue",
            help: "LPOP: takes the first value from a list; `not_found` is an answer",
            takes: &[KEY],
            answers: &[Field { name: "value", help: "the value taken", required: false }, STATUS, TEXT],
            effect: Effect::Dequeue,
        },
        Operation {
            name: "add_to_set",
            help: "SADD: adds a member to a set",
            takes: &[KEY, Field { name: "value", help: "the member to add", required: true }],
            answers: &[
                Field { name: "added", help: "1 if the set did not have the member, else 0", required: false },
                STATUS,
                TEXT,
            ],
            effect: Effect::AddToSet,
        },
        Operation {
            name: "members",
            help: "SMEMBERS: reads all members of a set; a missing key is an empty set",
            takes: &[KEY],
            answers: &[
                Field { name: "value", help: "the members, as a JSON list of texts", required: false },
                Field { name: "count", help: "number of members", required: false },
                STATUS,
                TEXT,
            ],
            effect: Effect::ReadMembers,
        },
        Operation {
            name: "ping",
            help: "PING: an answer without reading any data",
            takes: &[],
            answers: &[STATUS, TEXT],
            effect: Effect::None,
        },
        Operation {
            name: "command",
            help: "any command with one answer: not SUBSCRIBE, MONITOR and the like",
            takes: &[Field {
                name: "arguments",
                help: "the command and its arguments, split at blanks; '…' and \"…\" group words, a backslash escapes \
                       the next character, and a placeholder's value is never split",
                required: true,
            }],
            answers: &[
                Field {
                    name: "value",
                    help: "the answer; for a list one element per line, nested lists included",
                    required: false,
                },
                Field { name: "count", help: "number of elements of a list, or of pairs of a map", required: false },
                STATUS,
                TEXT,
            ],
            effect: Effect::None,
        },
    ],
};

/// Longest accepted answer to a greeting, bytes.
const GREETED_LIMIT: usize = 64 * 1024;

/// A Redis server.
#[derive(Debug)]
pub struct Redis {
    place: RedisAddress,
}

/// A compiled step.
#[derive(Debug)]
pub struct Request {
    verb: Verb,
    parts: Box<[RequestPart]>,
    wants: Box<[Want]>,
}

/// The operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Get,
    Set,
    Del,
    Incr,
    Enqueue,
    Dequeue,
    AddToSet,
    Members,
    Ping,
    Command,
}

/// A field of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Status,
    Text,
    Value,
    /// The elements of the reply, as a JSON list.
    Members,
    Count,
    /// The number that is the reply.
    Number,
}

/// Position of the reply in the input.
#[derive(Debug, Default)]
pub struct Decoder {
    walk: ReplyProgress,
    /// Start of the reply, after pushed messages.
    at: usize,
    length: usize,
    status: &'static str,
}

/// First words of errors, in lower case, that a server sends before it executes a command, or
/// before it executes any part of a script or transaction. The last two elements are exceptions:
/// `err`, and `other` for text that does not begin with a word. They say nothing about the effect.
/// Any other word is an [`open_word`] and also says nothing about the effect.
const REFUSALS: &[Refusal] = &[
    refusal("ask"),
    refusal("busy"),
    refusal("busygroup"),
    refusal("busykey"),
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
    refusal("nogroup"),
    refusal("noperm"),
    refusal("noproto"),
    refusal("noreplicas"),
    refusal("noscript"),
    refusal("oom"),
    refusal("readonly"),
    refusal("tryagain"),
    refusal("wrongpass"),
    refusal("wrongtype"),
    Refusal { name: "err", harmless: false },
    Refusal { name: "other", harmless: false },
];
/// Text that Redis appends to an error inside a running script.
const IN_A_SCRIPT: &[u8] = b" script: ";
/// Errors after which the server closes the connection.
const LAST_WORDS: [&str; 2] = ["denied", "maxclients"];

const fn refusal(name: &'static str) -> Refusal {
    Refusal { name, harmless: true }
}

impl Protocol for Redis {
    const INFO: &'static catalog::Protocol = &INFO;
    const REFUSALS: &'static [Refusal] = REFUSALS;
    type Request = Request;

    fn open(service: &str) -> Result<Self, String> {
        RedisAddress::parse(service).map(|place| Self { place })
    }

    fn authority(&self) -> &str {
        &self.place.authority
    }

    fn tls_host(&self) -> Option<&str> {
        self.place.tls_host.as_deref()
    }

    /// A server with too many clients sends an error at once.
    fn may_refuse_unasked(first: u8) -> bool {
        first == b'-'
    }

    fn advice(failure: AttemptCause) -> Option<&'static str> {
        let AttemptCause::Answer(number) = failure else { return None };
        matches!(word_of(REFUSALS, number), "ask" | "clusterdown" | "crossslot" | "moved" | "tryagain").then_some(
            "the target is a Redis Cluster, where each member holds a part of the keys; redirects (MOVED, ASK) are \
             not followed: use keys of one member's slots, for example with a {tag} in them, or a proxy that knows \
             the cluster",
        )
    }

    fn compile(&self, call: &Call<'_>) -> Result<Request, String> {
        compile(call)
    }

    fn may_change(request: &Request) -> bool {
        !matches!(request.verb, Verb::Get | Verb::Members | Verb::Ping)
    }

    /// The only answer about data, `not_found`, is not a failure. `not_found` ends the operation as
    /// `wrong` if the step expects a value, and as `ok` otherwise.
    fn about_data(_failure: AttemptCause) -> Option<AboutData> {
        None
    }
}

impl InOrderProtocol for Redis {
    type Decoder = Decoder;
    type Memory = ();

    fn greet(&self, _decoder: &mut Decoder, out: &mut Vec<u8>) -> Opening {
        let Some(greeting) = &self.place.greeting else { return Opening::Open { used: 0 } };
        out.extend_from_slice(&greeting.bytes);
        Opening::Wait { used: 0 }
    }

    fn greeted(&self, _decoder: &mut Decoder, input: &[u8], _out: &mut Vec<u8>) -> Opening {
        let mut used = 0;
        for _ in 0..self.place.greeting.as_ref().map_or(0, |greeting| greeting.replies) {
            let length = match ReplyProgress::default().on(&input[used..]) {
                Ok(Some(length)) => length,
                Ok(None) if input.len() > GREETED_LIMIT => return Opening::Refused(AttemptCause::TooLong),
                Ok(None) => return Opening::Wait { used: 0 },
                Err(cause) => return Opening::Refused(cause),
            };
            let reply = Reply(&input[used..][..length]);
            used += length;
            if reply.is_error() {
                return Opening::Refused(AttemptCause::Greeted(refused(reply)));
            }
        }
        Opening::Open { used }
    }

    /// Writes the length before every value, so a value may hold any bytes.
    fn encode(request: &Request, _id: u32, values: &OperationValues<'_>, out: &mut Vec<u8>) -> Result<(), NotSendable> {
        write(&request.parts, values, out);
        Ok(())
    }

    fn decode(
        asked: &RequestContext<'_, Self>,
        decoder: &mut Decoder,
        (): &mut (),
        input: &[u8],
        _ended: bool,
    ) -> Progress {
        let mut used = 0;
        loop {
            let length = match decoder.walk.on(&input[used..]) {
                Ok(Some(length)) => length,
                Ok(None) => return Progress::More { used },
                Err(cause) => return Progress::Bad(cause),
            };
            let reply = Reply(&input[used..][..length]);
            if reply.is_aside() {
                decoder.walk = ReplyProgress::default();
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
            Want::Members => {
                reply.count()?;
                reply.write_json_list(scratch)?;
                Some(scratch)
            }
            Want::Value if reply.count().is_some() => {
                reply.write_list(scratch);
                Some(scratch)
            }
            Want::Value | Want::Number => reply.text(),
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
            self.status = word_of(REFUSALS, number);
            let reusable = !LAST_WORDS.contains(&self.status);
            return Progress::Answer(Answer { used, result: AttemptCause::Answer(number), reusable, is_costly: false });
        }
        if !verb.fits(reply) {
            return Progress::Bad(AttemptCause::BadAnswer);
        }
        self.status = match verb {
            _ if !reply.is_nothing() => "ok",
            Verb::Get | Verb::Dequeue => "not_found",
            _ => "nil",
        };
        Progress::Answer(Answer { used, result: AttemptCause::Ok, reusable: true, is_costly: false })
    }
}

/// Returns the number by which [`AttemptCause::Answer`] identifies an error's first word.
fn refused(reply: Reply<'_>) -> u8 {
    let text = reply.text().unwrap_or_default();
    // The server sends this error to a connection beyond its limit, before any command.
    let word: &[u8] = if text.starts_with(b"ERR max number of clients") {
        b"maxclients"
    } else {
        text.split(|byte| *byte == b' ').next().unwrap_or_default()
    };
    let known = REFUSALS.iter().position(|refusal| refusal.name.as_bytes().eq_ignore_ascii_case(word));
    let is_midway = memchr::memmem::find(text, IN_A_SCRIPT).is_some();
    let known = known.filter(|number| !(is_midway && REFUSALS[*number].harmless));
    let other = REFUSALS.len() - 1;
    known
        .and_then(|number| u8::try_from(number).ok())
        .or_else(|| open_word(REFUSALS, word))
        .unwrap_or(u8::try_from(other).unwrap_or(u8::MAX))
}

impl Verb {
    fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "get" => Self::Get,
            "set" => Self::Set,
            "del" => Self::Del,
            "incr" => Self::Incr,
            "enqueue" => Self::Enqueue,
            "dequeue" => Self::Dequeue,
            "add_to_set" => Self::AddToSet,
            "members" => Self::Members,
            "ping" => Self::Ping,
            "command" => Self::Command,
            _ => return Err(format!("there is no operation `{name}`")),
        })
    }

    /// Whether a reply can answer the operation. If not, the reply belongs to another request.
    /// Inside a transaction every reply is `+QUEUED`.
    fn fits(self, reply: Reply<'_>) -> bool {
        match reply.kind() {
            b'+' => true,
            b'$' | b'=' | b'_' if matches!(self, Self::Get | Self::Dequeue) => true,
            b'$' | b'_' if self == Self::Set => reply.is_nothing(),
            b'$' => matches!(self, Self::Ping | Self::Command),
            b':' => matches!(self, Self::Del | Self::Incr | Self::Enqueue | Self::AddToSet | Self::Command),
            b'*' | b'~' if self == Self::Members => !reply.is_nothing(),
            _ => self == Self::Command,
        }
    }
}

impl Want {
    fn named(verb: Verb, name: &str) -> Result<Self, String> {
        Ok(match name {
            "status" => Self::Status,
            "text" => Self::Text,
            "value" if verb == Verb::Members => Self::Members,
            "value" => Self::Value,
            "count" => Self::Count,
            "removed" | "length" | "added" => Self::Number,
            _ => return Err(format!("an answer has no `{name}`")),
        })
    }
}

const FORM: &str =
    "write redis://host:port, redis://host:port/DB or redis://USER:{env:PASSWORD}@host:port; rediss:// for TLS";

/// Address of a server, with login and database.
#[derive(Debug)]
pub struct RedisAddress {
    /// `host:port`.
    pub authority: String,
    /// Host name for the server's certificate, or `None` without TLS.
    pub tls_host: Option<String>,
    /// Login and selection of the database, if the address has them.
    pub greeting: Option<Greeting>,
}

/// Commands to send before the first request.
#[derive(Debug)]
pub struct Greeting {
    pub bytes: Vec<u8>,
    /// Number of replies to the commands.
    pub replies: u32,
}

impl RedisAddress {
    /// Reads `host:port`, `redis://[[user]:{env:NAME}@]host:port[/db]`, `rediss://…`.
    pub fn parse(service: &str) -> Result<Self, String> {
        let sealed = service.strip_prefix("rediss://");
        let rest = sealed.or_else(|| service.strip_prefix("redis://")).unwrap_or(service);
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (Some(login), rest),
            None => (None, rest),
        };
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, _) = authority
            .rsplit_once(':')
            .filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
            .ok_or(FORM)?;
        let mut greeting = Greeting { bytes: Vec::new(), replies: 0 };
        if let Some(login) = login {
            let (user, password) = login.split_once(':').ok_or(FORM)?;
            greeting.add(&[b"AUTH".as_slice(), user.as_bytes(), &secret(password)?].map(<[u8]>::to_vec));
        }
        match database.parse::<u32>() {
            // Every connection begins with database 0.
            Ok(0) => {}
            Ok(number) => greeting.add(&[b"SELECT".to_vec(), number.to_string().into_bytes()]),
            Err(_) if database.is_empty() => {}
            Err(_) => return Err(format!("`{database}` is not a database number; {FORM}")),
        }
        Ok(Self {
            authority: authority.to_owned(),
            tls_host: sealed.is_some().then(|| host.trim_matches(['[', ']']).to_owned()),
            greeting: (greeting.replies > 0).then_some(greeting),
        })
    }
}

impl Greeting {
    /// Appends a command. An empty word, such as a missing user name, is left out.
    fn add(&mut self, words: &[Vec<u8>]) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).filter(|word| !word.is_empty()).collect();
        self.bytes.extend(of_words(&words));
        self.replies += 1;
    }
}

/// Returns the value of `{env:NAME}`.
fn secret(text: &str) -> Result<Vec<u8>, String> {
    let is_one = text.starts_with("{env:") && text.find('}') == Some(text.len() - 1);
    if !is_one {
        return Err("the password must come from the environment: redis://:{env:NAME}@host:port".to_owned());
    }
    let nothing = TemplateNames::default();
    let template = CompiledTemplate::compile(text, 0, &nothing)?;
    match template.as_constant() {
        Some(password) if !password.is_empty() => Ok(password.to_vec()),
        _ => Err(format!("{text} is empty in the environment")),
    }
}

// The server accepts only lengths without padding. If a length changes from request to request, the
// text is written first, and the length is then moved before the text.

/// A part of a request.
#[derive(Debug)]
pub enum RequestPart {
    /// Constant bytes.
    Bytes(Vec<u8>),
    /// An argument of constant length. The length is part of the preceding constant bytes.
    Fixed(usize),
    /// An argument of any length.
    Measured(usize),
    /// Words of any length.
    Words(TemplateWords),
}

/// Compiles a step.
pub fn compile(call: &Call<'_>) -> Result<Request, String> {
    call.check()?;
    let verb = Verb::named(call.operation.name)?;
    let (command, names): (&str, &[&str]) = match verb {
        Verb::Get => ("GET", &["key"]),
        Verb::Del => ("DEL", &["key"]),
        Verb::Incr => ("INCR", &["key"]),
        Verb::Dequeue => ("LPOP", &["key"]),
        Verb::Members => ("SMEMBERS", &["key"]),
        Verb::Set => ("SET", &["key", "value"]),
        Verb::Enqueue => ("RPUSH", &["key", "value"]),
        Verb::AddToSet => ("SADD", &["key", "value"]),
        Verb::Ping => ("PING", &[]),
        Verb::Command => return Ok(Request { verb, parts: any_words(call)?, wants: wants(verb, call)? }),
    };
    let mut builder = RequestBuilder::default();
    builder.bytes(format!("*{}\r\n", 1 + names.len()).as_bytes());
    builder.word(command.as_bytes());
    for name in names {
        let place = call.argument(name).ok_or_else(|| format!("`{}` needs `{name}`", call.operation.name))?;
        builder.argument(call.arguments, place);
    }
    Ok(Request { verb, parts: builder.0.into(), wants: wants(verb, call)? })
}

fn wants(verb: Verb, call: &Call<'_>) -> Result<Box<[Want]>, String> {
    call.wants.iter().map(|want| Want::named(verb, want)).collect()
}

/// Compiles a command of the user.
fn any_words(call: &Call<'_>) -> Result<Box<[RequestPart]>, String> {
    let place = call.argument("arguments").ok_or("`command` needs `arguments`")?;
    let words = TemplateWords::cut(&call.arguments[place].template).map_err(|wrong| format!("`arguments`: {wrong}"))?;
    if words.count() == 0 {
        return Err("`arguments` is empty; write a command, such as \"HGET user:{agent} name\"".to_owned());
    }
    Ok(match words.as_constant() {
        Some(words) => {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            Box::new([RequestPart::Bytes(of_words(&words))])
        }
        None => {
            Box::new([RequestPart::Bytes(format!("*{}\r\n", words.count()).into_bytes()), RequestPart::Words(words)])
        }
    })
}

/// Encodes a command of constant words.
fn of_words(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        measured(&mut bytes, |out| out.extend_from_slice(word));
    }
    bytes
}

/// Appends the request.
pub fn write(parts: &[RequestPart], values: &OperationValues<'_>, out: &mut Vec<u8>) {
    for part in parts {
        match part {
            RequestPart::Bytes(bytes) => out.extend_from_slice(bytes),
            RequestPart::Fixed(place) => values.write(*place, out),
            RequestPart::Measured(place) => measured(out, |out| values.write(*place, out)),
            RequestPart::Words(words) => {
                let mut saying = words.say(&values.source);
                for _ in 0..words.count() {
                    measured(out, |out| saying.next_into(out));
                }
            }
        }
    }
}

/// Appends the text's length and then the text.
fn measured(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'$');
    let hole = out.len();
    out.extend_from_slice(b"\r\n");
    let begin = out.len();
    write(out);
    let end = out.len();
    write_decimal((end - begin) as u64, out);
    let digits = out.len() - end;
    out[hole..].rotate_right(digits);
    out.extend_from_slice(b"\r\n");
}

#[derive(Default)]
struct RequestBuilder(Vec<RequestPart>);

impl RequestBuilder {
    fn bytes(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            Some(RequestPart::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.0.push(RequestPart::Bytes(bytes.to_vec())),
        }
    }

    fn word(&mut self, word: &[u8]) {
        self.bytes(format!("${}\r\n", word.len()).as_bytes());
        self.bytes(word);
        self.bytes(b"\r\n");
    }

    fn argument(&mut self, arguments: &[Argument], place: usize) {
        let template = &arguments[place].template;
        match (template.as_constant(), template.fixed_length()) {
            (Some(text), _) => self.word(text),
            (None, Some(length)) => {
                self.bytes(format!("${length}\r\n").as_bytes());
                self.0.push(RequestPart::Fixed(place));
                self.bytes(b"\r\n");
            }
            (None, None) => self.0.push(RequestPart::Measured(place)),
        }
    }
}

/// Longest accepted reply, bytes.
const REPLY_LIMIT: usize = 64 * 1024 * 1024;
/// Longest accepted line, bytes.
const LINE_LIMIT: usize = 64 * 1024;
/// Maximum depth of nested lists.
const DEPTH: usize = 16;
/// First bytes of replies, which are their types: five of RESP2, then ten more of RESP3.
const TYPES: &[u8] = b"+-:$*_#,(!=%~>|";

/// Progress through a reply, so that no byte of a long reply is scanned twice.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReplyProgress {
    /// Number of bytes already scanned.
    at: usize,
    /// Number of missing elements of each open list, outermost first.
    lacking: [u32; DEPTH],
    /// Number of open lists.
    depth: u8,
}

impl ReplyProgress {
    /// Continues through the reply at the start of the input, which has more bytes than in the last
    /// call. Returns the reply's length if it is complete.
    pub fn on(&mut self, input: &[u8]) -> Result<Option<usize>, AttemptCause> {
        loop {
            let rest = &input[self.at..];
            let Some(head) = ReplyHead::read(rest)? else { return Ok(None) };
            let shape = head.shape()?;
            let size = match shape {
                ReplyShape::Bulk(length) => head.size + length + 2,
                ReplyShape::Line | ReplyShape::Nothing | ReplyShape::List(_) => head.size,
            };
            if self.at + size > REPLY_LIMIT {
                return Err(AttemptCause::TooLong);
            }
            let Some(item) = rest.get(..size) else { return Ok(None) };
            if !item.ends_with(b"\r\n") {
                return Err(AttemptCause::BadAnswer);
            }
            self.at += size;
            if head.kind == b'|' {
                // An attribute describes the next element and is not an element itself.
                self.count(1);
            }
            match shape {
                ReplyShape::List(length @ 1..) => self.open(length)?,
                _ => self.close(),
            }
            if self.depth == 0 {
                return Ok(Some(self.at));
            }
        }
    }

    fn open(&mut self, length: u32) -> Result<(), AttemptCause> {
        let place = self.lacking.get_mut(usize::from(self.depth)).ok_or(AttemptCause::TooLong)?;
        *place = length;
        self.depth += 1;
        Ok(())
    }

    /// Adds missing elements to the innermost list.
    fn count(&mut self, more: u32) {
        if let Some(innermost) = usize::from(self.depth).checked_sub(1) {
            self.lacking[innermost] = self.lacking[innermost].saturating_add(more);
        }
    }

    /// Completes an element, and every list of which it was the last element.
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

/// First line of a reply or of an element.
#[derive(Debug, Clone, Copy)]
struct ReplyHead<'a> {
    /// Type of the element.
    kind: u8,
    /// Rest of the line.
    line: &'a [u8],
    /// Size of the type, the line and its end, bytes.
    size: usize,
}

/// Content after the first line.
#[derive(Debug, Clone, Copy)]
enum ReplyShape {
    /// A single line.
    Line,
    /// A null.
    Nothing,
    /// A text of this length in bytes, followed by a line end.
    Bulk(usize),
    /// A list with this number of elements.
    List(u32),
}

impl<'a> ReplyHead<'a> {
    /// Reads the first line, if it is complete.
    fn read(rest: &'a [u8]) -> Result<Option<Self>, AttemptCause> {
        let Some(kind) = rest.first().copied() else { return Ok(None) };
        if !TYPES.contains(&kind) {
            return Err(AttemptCause::BadAnswer);
        }
        let window = &rest[..rest.len().min(LINE_LIMIT)];
        let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
            return if rest.len() < LINE_LIMIT { Ok(None) } else { Err(AttemptCause::TooLong) };
        };
        let line = rest[1..end].strip_suffix(b"\r").ok_or(AttemptCause::BadAnswer)?;
        Ok(Some(Self { kind, line, size: end + 1 }))
    }

    fn shape(&self) -> Result<ReplyShape, AttemptCause> {
        let fits = |fits: bool, shape| if fits { Ok(shape) } else { Err(AttemptCause::BadAnswer) };
        match self.kind {
            b'+' | b'-' | b',' => Ok(ReplyShape::Line),
            b':' | b'(' => fits(is_integer(self.line), ReplyShape::Line),
            b'#' => fits(matches!(self.line, b"t" | b"f"), ReplyShape::Line),
            b'_' => fits(self.line.is_empty(), ReplyShape::Nothing),
            b'$' | b'*' if self.line == b"-1" => Ok(ReplyShape::Nothing),
            b'$' | b'!' => Ok(ReplyShape::Bulk(self.length()?)),
            b'=' => {
                let length = self.length()?;
                // A format of three letters and a colon come first.
                fits(length >= FORMAT, ReplyShape::Bulk(length))
            }
            // Maps and attributes count pairs.
            b'%' | b'|' => list(self.length()? * 2),
            _ => list(self.length()?),
        }
    }

    /// Parses the line as a length.
    fn length(&self) -> Result<usize, AttemptCause> {
        if self.line.is_empty() || !self.line.iter().all(u8::is_ascii_digit) {
            return Err(AttemptCause::BadAnswer);
        }
        let length = std::str::from_utf8(self.line).ok().and_then(|digits| digits.parse().ok());
        length.filter(|length| *length <= REPLY_LIMIT).ok_or(AttemptCause::TooLong)
    }
}

/// Length of `txt:`, the beginning of a verbatim text.
const FORMAT: usize = 4;

fn is_integer(line: &[u8]) -> bool {
    let digits = line.strip_prefix(b"-").or(line.strip_prefix(b"+")).unwrap_or(line);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn list(length: usize) -> Result<ReplyShape, AttemptCause> {
    /// Size of the smallest element, `_\r\n`.
    const LEAST: usize = 3;
    let length = u32::try_from(length).ok().filter(|length| *length as usize <= REPLY_LIMIT / LEAST);
    length.map(ReplyShape::List).ok_or(AttemptCause::TooLong)
}

/// A complete reply.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a>(pub &'a [u8]);

impl<'a> Reply<'a> {
    /// Returns the type of the reply.
    pub fn kind(self) -> u8 {
        self.0.first().copied().unwrap_or(0)
    }

    /// Whether the reply is an error.
    fn is_error(self) -> bool {
        matches!(self.kind(), b'-' | b'!')
    }

    /// Whether the reply is not an answer: a push, or attributes of the next reply.
    fn is_aside(self) -> bool {
        matches!(self.kind(), b'>' | b'|')
    }

    /// Whether the reply is a null.
    pub fn is_nothing(self) -> bool {
        matches!(self.head(), Some((_, ReplyShape::Nothing)))
    }

    /// Returns the text of the reply, or `None` for a null or a list.
    pub fn text(self) -> Option<&'a [u8]> {
        let (head, shape) = self.head()?;
        match shape {
            ReplyShape::Line => Some(head.line),
            ReplyShape::Bulk(length) => {
                let format = if head.kind == b'=' { FORMAT } else { 0 };
                self.0.get(head.size..)?.get(format..length)
            }
            ReplyShape::Nothing | ReplyShape::List(_) => None,
        }
    }

    /// Returns the number of a list's elements or a map's pairs. `None` for other types.
    pub fn count(self) -> Option<u64> {
        let (head, shape) = self.head()?;
        match shape {
            ReplyShape::List(length) if head.kind == b'%' => Some(u64::from(length / 2)),
            ReplyShape::List(length) => Some(u64::from(length)),
            _ => None,
        }
    }

    /// Appends every text of a list, each on its own line.
    fn write_list(self, out: &mut Vec<u8>) {
        for (place, text) in self.texts().enumerate() {
            if place > 0 {
                out.push(b'\n');
            }
            out.extend_from_slice(text);
        }
    }

    /// Appends every text of a list as a JSON list of texts. Bytes that are no UTF-8 are replaced.
    fn write_json_list(self, out: &mut Vec<u8>) -> Option<()> {
        out.push(b'[');
        for (place, text) in self.texts().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            serde_json::to_writer(&mut *out, &String::from_utf8_lossy(text)).ok()?;
        }
        out.push(b']');
        Some(())
    }

    /// Returns every text of a list and of lists in it. A null is an empty text.
    fn texts(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            loop {
                let (head, shape) = Reply(rest).head()?;
                let element = Reply(rest);
                let size = match shape {
                    ReplyShape::Bulk(length) => head.size + length + 2,
                    ReplyShape::Line | ReplyShape::Nothing | ReplyShape::List(_) => head.size,
                };
                rest = rest.get(size..).unwrap_or_default();
                if !matches!(shape, ReplyShape::List(_)) {
                    return Some(element.text().unwrap_or_default());
                }
            }
        })
    }

    fn head(self) -> Option<(ReplyHead<'a>, ReplyShape)> {
        let head = ReplyHead::read(self.0).ok()??;
        Some((head, head.shape().ok()?))
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
