//! How requests and answers look on the wire, one kind per file. Sans-I/O: bytes in, bytes out. No socket, clock, thread or
//! retry is known here, and nothing of how agents take turns.

use std::collections::BTreeMap;
use std::time::Duration;

use experiment::catalog;
use experiment::mistake::Mistake;
use experiment::plan::MemberProgram;

use crate::client::ConnectResult;
use crate::open_words::ERROR_WORDS;
use crate::tls::{self, TlsTrust};
use crate::values::allowed::NotSendable;
use crate::values::{Argument, OperationValues};
use crate::{Error, LoadOrder, StartLoad};

pub(crate) mod command;
pub(crate) mod http;
pub(crate) mod lines;
pub(crate) mod redis;
pub(crate) mod vsns;

/// Every protocol, by name.
pub static KINDS: &[&ProtocolKind] = &[
    &ProtocolKind::of::<command::Command>(),
    &ProtocolKind::of::<http::Http>(),
    &ProtocolKind::of::<lines::Lines>(),
    &ProtocolKind::of::<redis::Redis>(),
    &ProtocolKind::of::<vsns::Vsns>(),
];

/// The protocol of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static ProtocolKind> {
    KINDS.iter().copied().find(|kind| kind.info.name == name)
}

/// A protocol, and the engine and client compiled for it.
#[derive(Debug)]
pub struct ProtocolKind {
    /// What an experiment may say in it.
    pub info: &'static catalog::Protocol,
    pub(crate) check: fn(&LoadOrder) -> Result<(), Error>,
    pub(crate) mistakes: fn(&LoadOrder) -> Vec<Mistake>,
    pub(crate) compile: fn(&LoadOrder) -> Result<StartLoad, Error>,
    pub(crate) connect: fn(&str, &TlsTrust, Duration) -> ConnectResult,
}

impl ProtocolKind {
    const fn of<P: Protocol>() -> Self {
        Self {
            info: P::INFO,
            check: crate::engine::check::<P>,
            mistakes: crate::engine::script::Script::<P>::mistakes,
            compile: crate::engine::compile::<P>,
            connect: crate::client::connect::<P>,
        }
    }
}

/// A protocol, opened for one service. The engine is compiled once for each.
pub trait Protocol: Sized + Send + Sync + 'static {
    /// What an experiment may say in it.
    const INFO: &'static catalog::Protocol;

    /// Answers that refuse or fail an operation in the protocol's own words; [`AttemptCause::Answer`] counts along it.
    const REFUSALS: &'static [Refusal];

    /// What it is called in a TLS handshake (ALPN, RFC 7301), if anything.
    const ALPN: &'static [&'static [u8]] = &[];
    /// Whether an operation is a program of this machine, and nothing goes over a network.
    const RUNS_PROGRAMS: bool = false;

    /// A step, compiled.
    type Request: Send + Sync + 'static;

    /// What a connection remembers between pieces of an answer. Small, and without memory of its own while nothing is open.
    type Decoder: Default + Send + 'static;

    /// What a thread remembers between answers.
    type Memory: Default + Send + 'static;

    /// Opens a service: `host:port` or a URL.
    fn open(service: &str) -> Result<Self, String>;

    /// The `host:port` to connect to; where programs are run, what they are told.
    fn authority(&self) -> &str;

    /// The host that its certificate is made out to, if the service is spoken to by TLS.
    fn tls_host(&self) -> Option<&str> {
        None
    }

    /// Whether a target that sends this byte before it was asked anything refuses the connection. Otherwise it is no answer.
    fn may_refuse_unasked(_first: u8) -> bool {
        false
    }

    /// Returns advice for the reader on attempts that failed with this cause.
    fn advice(_failure: AttemptCause) -> Option<&'static str> {
        None
    }

    /// Appends the beginning of an answer as a reader may see it: without values that may be secret.
    fn show_answer(answer: &[u8], out: &mut Vec<u8>) {
        const SHOWN: usize = 200;
        out.extend_from_slice(&answer[..answer.len().min(SHOWN)]);
    }

    /// What each connection begins with, if not with a request.
    fn greeting(&self) -> Option<&Greeting> {
        None
    }

    /// Looks at all that came in answer to the greeting. A result that is not [`AttemptCause::Ok`] refuses the connection.
    fn greeted(_greeting: &Greeting, _input: &[u8]) -> Progress {
        Progress::Bad(AttemptCause::BadAnswer)
    }

    /// Compiles a step.
    fn compile(&self, call: &Call<'_>) -> Result<Self::Request, String>;

    /// Whether the request may change data, so that the answer to it may be about what an earlier attempt of it has changed.
    fn may_change(request: &Self::Request) -> bool;

    /// What an answer that fails an operation says about the data, if it is about them and comes from a server that is well. The
    /// operation had no effect then, and where its step expects otherwise it was answered wrong.
    fn about_data(failure: AttemptCause) -> Option<AboutData>;

    /// Appends the request; `id` is its number on this connection.
    ///
    /// # Errors
    /// If the protocol cannot hold the values. What was appended is then not to be sent.
    fn encode(
        request: &Self::Request,
        id: u32,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), NotSendable>;

    /// Looks at the bytes that came; `ended` if no more will. Called again with what was not used and what came since.
    fn decode(
        asked: &RequestContext<'_, Self>,
        decoder: &mut Self::Decoder,
        memory: &mut Self::Memory,
        input: &[u8],
        ended: bool,
    ) -> Progress;

    /// The wanted field number `want` of the answer that [`Protocol::decode`] just found in `input`; `None` if it has none.
    /// `scratch` is empty and may be used.
    fn field<'a>(
        request: &'a Self::Request,
        decoder: &'a Self::Decoder,
        want: usize,
        input: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]>;

    /// The answer has been dealt with, or the connection is gone: the decoder starts over and gives back its memory.
    fn rest(decoder: &mut Self::Decoder, memory: &mut Self::Memory);

    /// The status and the destination of an answer that only says where another one is to be had.
    fn redirect<'a>(_decoder: &'a Self::Decoder, _input: &'a [u8]) -> Option<(u16, Option<&'a [u8]>)> {
        None
    }

    /// The number of an answer's status, where the protocol has such.
    fn status_code(_decoder: &Self::Decoder) -> Option<u16> {
        None
    }

    /// The word for the answer's status: `ok`, `not_found`, `200`.
    fn status<'a>(decoder: &'a Self::Decoder, input: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8];
}

/// What is said on a fresh connection before any request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// What is sent first; nothing where the target speaks first.
    pub bytes: Vec<u8>,
    /// So many answers come before a request may be sent; at least one.
    pub answers: u32,
}

/// A step to be compiled.
pub struct Call<'a> {
    /// Its place among the steps.
    pub number: usize,
    /// The operation.
    pub operation: &'static catalog::Operation,
    /// Its arguments.
    pub arguments: &'a [Argument],
    /// Fields of the answer that will be asked for, in the order of their numbers.
    pub wants: &'a [String],
    /// The program on a member's host that the operation is, with what `{NAME}` stands for there.
    pub program: Option<(&'a MemberProgram, &'a BTreeMap<String, String>)>,
    /// Whether the connection ends with the answer, and the server is to be told so where the protocol has a word for it.
    pub closes: bool,
}

impl Call<'_> {
    /// The place of an argument.
    pub fn argument(&self, name: &str) -> Option<usize> {
        self.arguments.iter().position(|argument| argument.name == name)
    }

    /// Every name must be one that the operation knows, and every required one must be there.
    pub fn check(&self) -> Result<(), String> {
        let Self { operation, .. } = self;
        for argument in self.arguments {
            named(operation.takes, &argument.name)
                .ok_or_else(|| format!("`{}` takes no `{}`", operation.name, argument.name))?;
        }
        for field in operation.takes.iter().filter(|field| field.required) {
            self.argument(field.name).ok_or_else(|| format!("`{}` needs `{}`", operation.name, field.name))?;
        }
        for want in self.wants {
            named(operation.answers, want)
                .ok_or_else(|| format!("the answer to `{}` has no `{want}`", operation.name))?;
        }
        Ok(())
    }
}

/// The field of that name; `header.*` is every name that begins with `header.`.
fn named<'a>(fields: &'a [catalog::Field], name: &str) -> Option<&'a catalog::Field> {
    fields.iter().find(|field| match field.name.strip_suffix('*') {
        Some(start) => name.len() > start.len() && name.starts_with(start),
        None => field.name == name,
    })
}

/// What was asked, as far as the answer depends on it.
pub struct RequestContext<'a, P: Protocol> {
    /// The request.
    pub request: &'a P::Request,
    /// Its number on this connection.
    pub id: u32,
}

/// What [`Protocol::decode`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The answer is not whole; so many bytes need not be shown again.
    More {
        /// Bytes used up.
        used: usize,
    },
    /// The answer is whole.
    Answer(Answer),
    /// These bytes are no answer; the connection is of no use any more.
    Bad(AttemptCause),
}

/// A whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Bytes of the input that belong to it.
    pub used: usize,
    /// [`AttemptCause::Ok`], or why the answer is a failure.
    pub result: AttemptCause,
    /// Whether the connection takes another request.
    pub reusable: bool,
}

/// What a failing answer says about the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AboutData {
    /// There are none.
    Missing,
    /// They are not as the request takes them to be.
    Different,
}

/// An answer by which a target fails an operation.
#[derive(Debug)]
pub struct Refusal {
    /// The word after `answer: `.
    pub name: &'static str,
    /// Whether the operation certainly had no effect.
    pub harmless: bool,
}

/// What became of an attempt. Texts for them are made when records are written, not per operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptCause {
    /// Answered as it should be.
    Ok,
    /// The same, with another status than 200.
    OkStatus(u16),
    /// Answered, and contradicted an expectation.
    Wrong,
    /// Not answered in time.
    Timeout,
    /// Nobody listens.
    ConnectRefused,
    /// Not connected in time.
    ConnectTimeout,
    /// No way to the host.
    ConnectUnreachable,
    /// Connecting failed in another way.
    ConnectFailed,
    /// The request could not be written: the protocol cannot hold one of its values.
    NotSent(NotSendable),
    /// Nothing was tried: the connection was cut, and the agent does not make a new one yet.
    NotConnected,
    /// This machine has no local port left.
    NoPort,
    /// This process has no file descriptor left.
    NoFile,
    /// Reset by the peer in mid-operation.
    Reset,
    /// Closed by the peer in mid-operation.
    Closed,
    /// The connection broke in another way.
    Broken,
    /// The target showed a certificate that it is not trusted by.
    TlsCertificate,
    /// The target does not speak TLS, or none that both know.
    TlsHandshake,
    /// The target ended the connection before there were keys.
    TlsClosed,
    /// The target refused the handshake with this alert. By TLS 1.3 it may come when the client has begun to speak, and nothing that
    /// the client said was read then.
    TlsAlert(u8),
    /// What came later was not sealed with the keys that were agreed on, or an alert.
    TlsBroken,
    /// A proxy opened no tunnel, and answered with this status; 0: with none.
    Proxy(u16),
    /// What came is no answer of the protocol.
    BadAnswer,
    /// The same, where it is known what is wrong with it.
    Malformed(Malformation),
    /// What came is longer than any answer may be.
    TooLong,
    /// All answers together hold more than they may.
    TooLarge,
    /// Answered with the place of another answer, as an attempt is told of: its operation is `ok`.
    Redirect(u16),
    /// One of [`Protocol::REFUSALS`], or behind those one of [`ERROR_WORDS`].
    Answer(u8),
    /// The same, in answer to the greeting: nothing was asked yet.
    Greeted(u8),
    /// A status of 400 or more.
    Status(u16),
}

impl AttemptCause {
    /// The word in `attempts.csv`.
    pub fn text(self, refusals: &[Refusal]) -> String {
        match self {
            Self::Ok => "ok",
            Self::Wrong => "wrong",
            Self::Timeout => "timeout",
            Self::ConnectRefused => "connect refused",
            Self::ConnectTimeout => "connect timeout",
            Self::ConnectUnreachable => "connect unreachable",
            Self::ConnectFailed => "connect failed",
            Self::NotConnected => "not connected",
            Self::NoPort => "connect: no local port left",
            Self::NoFile => "connect: no file descriptor left",
            Self::Reset => "connection reset",
            Self::Closed => "connection closed",
            Self::Broken => "connection broken",
            Self::TlsCertificate => "tls: bad certificate",
            Self::TlsHandshake => "tls: handshake failed",
            Self::TlsClosed => "tls: closed in the handshake",
            Self::TlsBroken => "tls: broken",
            Self::BadAnswer => "bad answer",
            Self::Malformed(malformation) => malformation.text(),
            Self::Proxy(0) => "proxy: bad answer",
            Self::TooLong => "answer too long",
            Self::TooLarge => "answer too large",
            Self::NotSent(why) => return format!("not sent: {}", why.text()),
            Self::OkStatus(status) => return format!("ok {status}"),
            Self::Redirect(status) => return format!("redirect {status}"),
            Self::Answer(number) | Self::Greeted(number) => {
                return format!("answer: {}", word_of(refusals, number));
            }
            Self::TlsAlert(alert) => return format!("tls: refused by the target: {}", tls::alert_name(alert)),
            Self::Proxy(status) => return format!("proxy: {status}"),
            Self::Status(status) => return format!("status {status}"),
        }
        .to_owned()
    }

    /// Whether the operation certainly had no effect.
    pub fn is_harmless(self, refusals: &[Refusal]) -> bool {
        match self {
            Self::ConnectRefused
            | Self::ConnectTimeout
            | Self::ConnectUnreachable
            | Self::ConnectFailed
            | Self::NotSent(_)
            | Self::NotConnected
            | Self::NoPort
            | Self::NoFile
            | Self::TlsCertificate
            | Self::TlsHandshake
            | Self::TlsClosed
            | Self::TlsAlert(_)
            | Self::Proxy(_)
            | Self::Greeted(_) => true,
            Self::Answer(number) => refusals.get(usize::from(number)).is_some_and(|refusal| refusal.harmless),
            _ => false,
        }
    }
}

/// The word of an answer that refuses an operation.
pub(crate) fn word_of(refusals: &[Refusal], number: u8) -> &'static str {
    let number = usize::from(number);
    match refusals.get(number) {
        Some(refusal) => refusal.name,
        None => ERROR_WORDS.word(number - refusals.len()).unwrap_or("?"),
    }
}

/// The number of an answer's word behind all refusals; `None` where that is no word, or one too many.
pub(crate) fn open_word(refusals: &[Refusal], word: &[u8]) -> Option<u8> {
    u8::try_from(refusals.len() + ERROR_WORDS.number(word)?).ok()
}

/// A defect of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Malformation {
    /// A header goes on in the next line (obs-fold; RFC 9112, 5.2).
    FoldedHeader,
    /// More headers than are read.
    TooManyHeaders,
    /// The header block is longer than any that is read.
    LongHead,
    /// The server switches to a protocol that was not asked for.
    Switched,
    /// Frames of HTTP/2 (RFC 9113, 4.1).
    Http2,
}

impl Malformation {
    fn text(self) -> &'static str {
        match self {
            Self::FoldedHeader => "bad answer: a header is folded",
            Self::TooManyHeaders => "answer too long: more than 128 headers",
            Self::LongHead => "answer too long: headers of more than 64 KiB",
            Self::Switched => "bad answer: 101, which was not asked for",
            Self::Http2 => "bad answer: HTTP/2",
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::values::CompiledTemplate;
    use crate::values::tests::{names, source};

    /// A compiled request with its arguments.
    pub struct Compiled<P: Protocol> {
        pub request: P::Request,
        pub arguments: Vec<Argument>,
        wants: usize,
    }

    /// What a decoder made of some bytes.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum Seen {
        More,
        Bad(AttemptCause),
        Answer { result: AttemptCause, reusable: bool, surplus: Vec<u8>, fields: Vec<Option<String>>, status: String },
    }

    /// Compiles a step.
    pub fn compile<P: Protocol>(
        protocol: &P,
        operation: &str,
        with: &[(&str, &str)],
        wants: &[&str],
    ) -> Result<Compiled<P>, String> {
        compile_for(protocol, operation, with, wants, false)
    }

    /// The same, for a connection that ends with the answer if it `closes`.
    pub fn compile_for<P: Protocol>(
        protocol: &P,
        operation: &str,
        with: &[(&str, &str)],
        wants: &[&str],
        closes: bool,
    ) -> Result<Compiled<P>, String> {
        let operation = P::INFO.operations.iter().find(|known| known.name == operation).unwrap();
        let arguments: Vec<Argument> = with
            .iter()
            .enumerate()
            .map(|(stream, (name, text))| Argument {
                name: (*name).to_owned(),
                template: CompiledTemplate::compile(text, stream as u64, &names()).unwrap(),
            })
            .collect();
        let wants: Vec<String> = wants.iter().map(|want| (*want).to_owned()).collect();
        let call = Call { number: 0, operation, arguments: &arguments, wants: &wants, program: None, closes };
        let request = protocol.compile(&call)?;
        Ok(Compiled { request, arguments, wants: wants.len() })
    }

    /// The bytes of a request.
    pub fn encode<P: Protocol>(compiled: &Compiled<P>, id: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let values = OperationValues { source: source(3, 12), arguments: &compiled.arguments };
        P::encode(&compiled.request, id, &values, &mut out).unwrap();
        out
    }

    /// Feeds the pieces one after the other, and then the end of the connection if `ends`.
    pub fn feed<P: Protocol>(
        compiled: &Compiled<P>,
        memory: &mut P::Memory,
        id: u32,
        pieces: &[&[u8]],
        ends: bool,
    ) -> Seen {
        let asked = RequestContext { request: &compiled.request, id };
        let mut decoder = P::Decoder::default();
        let mut input = Vec::new();
        let mut fed = pieces.iter().map(|piece| (*piece, false)).chain(ends.then_some((&[][..], true)));
        let seen = loop {
            let Some((piece, ended)) = fed.next() else { break Seen::More };
            input.extend_from_slice(piece);
            match P::decode(&asked, &mut decoder, memory, &input, ended) {
                Progress::More { used } => drop(input.drain(..used)),
                Progress::Bad(cause) => break Seen::Bad(cause),
                Progress::Answer(answer) => {
                    let field = |want| {
                        let mut scratch = Vec::new();
                        P::field(&compiled.request, &decoder, want, &input, &mut scratch)
                            .map(|value| String::from_utf8_lossy(value).into_owned())
                    };
                    let mut scratch = Vec::new();
                    let status = String::from_utf8_lossy(P::status(&decoder, &input, &mut scratch)).into_owned();
                    let mut surplus = input[answer.used..].to_vec();
                    fed.for_each(|(piece, _)| surplus.extend_from_slice(piece));
                    let fields = (0..compiled.wants).map(field).collect();
                    break Seen::Answer { result: answer.result, reusable: answer.reusable, surplus, fields, status };
                }
            }
        };
        P::rest(&mut decoder, memory);
        seen
    }

    /// Whatever the place at which the bytes are cut in two, and byte by byte: the same is seen as in one piece.
    pub fn is_the_same_in_pieces<P: Protocol>(compiled: &Compiled<P>, id: u32, bytes: &[u8], ends: bool) -> Seen {
        let whole = feed(compiled, &mut P::Memory::default(), id, &[bytes], ends);
        let mut memory = P::Memory::default();
        for cut in 0..=bytes.len() {
            let (left, right) = bytes.split_at(cut);
            assert_eq!(feed(compiled, &mut memory, id, &[left, right], ends), whole, "cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(feed(compiled, &mut memory, id, &single, ends), whole, "byte by byte");
        whole
    }

    #[test]
    fn kinds_are_sorted_and_described() {
        assert!(KINDS.windows(2).all(|pair| pair[0].info.name < pair[1].info.name));
        for kind in KINDS {
            assert!(std::ptr::eq(find(kind.info.name).unwrap(), *kind));
            assert!(!kind.info.help.is_empty());
            let mut names: Vec<&str> = kind.info.operations.iter().map(|operation| operation.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), kind.info.operations.len());
            for operation in kind.info.operations {
                assert!(operation.takes.iter().chain(operation.answers).all(|field| !field.help.is_empty()));
            }
        }
        assert!(find("gopher").is_none());
    }

    #[test]
    fn causes_have_words() {
        let refusals = vsns::Vsns::REFUSALS;
        for (cause, text) in [
            (AttemptCause::Ok, "ok"),
            (AttemptCause::ConnectRefused, "connect refused"),
            (AttemptCause::Reset, "connection reset"),
            (AttemptCause::Answer(1), "answer: unavailable"),
            (AttemptCause::Answer(2), "answer: busy"),
            (AttemptCause::Status(503), "status 503"),
            (AttemptCause::OkStatus(201), "ok 201"),
            (AttemptCause::BadAnswer, "bad answer"),
        ] {
            assert_eq!(cause.text(refusals), text);
        }
        assert!(AttemptCause::Answer(2).is_harmless(refusals) && AttemptCause::ConnectTimeout.is_harmless(refusals));
        assert!(!AttemptCause::Answer(1).is_harmless(refusals) && !AttemptCause::Timeout.is_harmless(refusals));
    }
}
