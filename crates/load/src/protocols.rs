//! Wire formats of requests and answers, one protocol per file. Pure functions from bytes to bytes,
//! without sockets, clocks, threads and retries, and independent of the scheduling of agents.

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

/// All protocols, sorted by name.
pub static KINDS: &[&ProtocolKind] = &[
    &ProtocolKind::of::<command::Command>(),
    &ProtocolKind::of::<http::Http>(),
    &ProtocolKind::of::<lines::Lines>(),
    &ProtocolKind::of::<redis::Redis>(),
    &ProtocolKind::of::<vsns::Vsns>(),
];

/// Returns the protocol with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static ProtocolKind> {
    KINDS.iter().copied().find(|kind| kind.info.name == name)
}

/// A protocol, with the engine and the client compiled for it.
#[derive(Debug)]
pub struct ProtocolKind {
    /// Description for experiment files.
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

/// A protocol, opened for one service. The engine is compiled separately for each protocol.
pub trait Protocol: Sized + Send + Sync + 'static {
    /// Description for experiment files.
    const INFO: &'static catalog::Protocol;

    /// Answers by which a target refuses or fails an operation. [`AttemptCause::Answer`] holds an
    /// index into this list.
    const REFUSALS: &'static [Refusal];

    /// Names of the protocol in the TLS handshake (ALPN, RFC 7301).
    const ALPN: &'static [&'static [u8]] = &[];
    /// Whether an operation runs a program on this machine instead of using a network.
    const RUNS_PROGRAMS: bool = false;

    /// A compiled step.
    type Request: Send + Sync + 'static;

    /// State of a connection between pieces of an answer. It must be small and must hold no heap
    /// memory between answers.
    type Decoder: Default + Send + 'static;

    /// State of a thread between answers.
    type Memory: Default + Send + 'static;

    /// Opens a service: `host:port` or a URL.
    fn open(service: &str) -> Result<Self, String>;

    /// Returns the `host:port` to connect to. If operations are programs, returns the service as
    /// passed to them.
    fn authority(&self) -> &str;

    /// Returns the host name for the server's certificate, or `None` without TLS.
    fn tls_host(&self) -> Option<&str> {
        None
    }

    /// Whether a target that sends this byte before any request refuses the connection. Otherwise
    /// the byte is an invalid answer.
    fn may_refuse_unasked(_first: u8) -> bool {
        false
    }

    /// Returns advice for the reader on attempts that failed with this cause.
    fn advice(_failure: AttemptCause) -> Option<&'static str> {
        None
    }

    /// Appends an excerpt of an answer for readers, without values that may be secret.
    fn show_answer(answer: &[u8], out: &mut Vec<u8>) {
        const SHOWN: usize = 200;
        out.extend_from_slice(&answer[..answer.len().min(SHOWN)]);
    }

    /// Returns the greeting of each connection, if the protocol has one.
    fn greeting(&self) -> Option<&Greeting> {
        None
    }

    /// Decodes all bytes received after the greeting. A result other than [`AttemptCause::Ok`]
    /// means that the target refuses the connection.
    fn greeted(_greeting: &Greeting, _input: &[u8]) -> Progress {
        Progress::Bad(AttemptCause::BadAnswer)
    }

    /// Compiles a step.
    fn compile(&self, call: &Call<'_>) -> Result<Self::Request, String>;

    /// Whether the request may change data. If so, the answer may reflect a change by an earlier
    /// attempt.
    fn may_change(request: &Self::Request) -> bool;

    /// Returns the statement of a failing answer about the data, if it makes one and does not
    /// indicate a fault of the server. The operation then had no effect. If the step expects
    /// otherwise, the operation counts as wrong.
    fn about_data(failure: AttemptCause) -> Option<AboutData>;

    /// Appends the request. `id` is its number on this connection.
    ///
    /// # Errors
    /// Returns an error if the protocol cannot hold the values. The appended bytes must then not be
    /// sent.
    fn encode(
        request: &Self::Request,
        id: u32,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), NotSendable>;

    /// Decodes received bytes. `ended` is true if the stream has ended. The next call gets the
    /// unused bytes and the bytes received since.
    fn decode(
        asked: &RequestContext<'_, Self>,
        decoder: &mut Self::Decoder,
        memory: &mut Self::Memory,
        input: &[u8],
        ended: bool,
    ) -> Progress;

    /// Returns the requested field number `want` of the answer that [`Protocol::decode`] just found
    /// in `input`, or `None` if the answer does not have it. `scratch` is empty and may be used.
    fn field<'a>(
        request: &'a Self::Request,
        decoder: &'a Self::Decoder,
        want: usize,
        input: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]>;

    /// Resets the decoder and returns its memory, after an answer has been processed or the
    /// connection is gone.
    fn rest(decoder: &mut Self::Decoder, memory: &mut Self::Memory);

    /// Returns the status and the destination of an answer that is a redirect.
    fn redirect<'a>(_decoder: &'a Self::Decoder, _input: &'a [u8]) -> Option<(u16, Option<&'a [u8]>)> {
        None
    }

    /// Returns the numeric status of the answer, if the protocol has one.
    fn status_code(_decoder: &Self::Decoder) -> Option<u16> {
        None
    }

    /// Returns the status of the answer in the protocol's terms: `ok`, `not_found`, `200`.
    fn status<'a>(decoder: &'a Self::Decoder, input: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8];
}

/// The exchange on a new connection before any request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// First bytes to send; empty if the target speaks first.
    pub bytes: Vec<u8>,
    /// Number of answers to wait for before the first request; at least one.
    pub answers: u32,
}

/// A step to be compiled.
pub struct Call<'a> {
    /// Index of the step.
    pub number: usize,
    pub operation: &'static catalog::Operation,
    pub arguments: &'a [Argument],
    /// Requested fields of the answer. The index is the field's number.
    pub wants: &'a [String],
    /// The program on a member's host that implements the operation, with the values of `{NAME}` on
    /// that host.
    pub program: Option<(&'a MemberProgram, &'a BTreeMap<String, String>)>,
    /// Whether the connection ends after the answer. The request says so to the server if the
    /// protocol supports it.
    pub closes: bool,
}

impl Call<'_> {
    /// Returns the index of an argument.
    pub fn argument(&self, name: &str) -> Option<usize> {
        self.arguments.iter().position(|argument| argument.name == name)
    }

    /// Checks that the operation knows every name and that every required name is present.
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

/// Returns the field with this name. `header.*` matches every name that begins with `header.`.
fn named<'a>(fields: &'a [catalog::Field], name: &str) -> Option<&'a catalog::Field> {
    fields.iter().find(|field| match field.name.strip_suffix('*') {
        Some(start) => name.len() > start.len() && name.starts_with(start),
        None => field.name == name,
    })
}

/// The parts of a request that decoding its answer depends on.
pub struct RequestContext<'a, P: Protocol> {
    pub request: &'a P::Request,
    /// Number of the request on this connection.
    pub id: u32,
}

/// Result of [`Protocol::decode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The answer is not complete.
    More {
        /// Bytes that the decoder has consumed and does not need again.
        used: usize,
    },
    /// The answer is complete.
    Answer(Answer),
    /// The bytes are not a valid answer. The connection cannot be used any more.
    Bad(AttemptCause),
}

/// A complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Bytes of the input that belong to the answer.
    pub used: usize,
    /// [`AttemptCause::Ok`], or the reason why the answer is a failure.
    pub result: AttemptCause,
    /// Whether the connection can take another request.
    pub reusable: bool,
}

/// Statement of a failing answer about the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AboutData {
    /// The data do not exist.
    Missing,
    /// The data are not in the state that the request assumes.
    Different,
}

/// An answer by which a target refuses or fails an operation.
#[derive(Debug)]
pub struct Refusal {
    /// The name after `answer: `.
    pub name: &'static str,
    /// Whether the operation certainly had no effect.
    pub harmless: bool,
}

/// Result of an attempt. Its text is made when records are written, not for each operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptCause {
    /// Answered as expected.
    Ok,
    /// Answered as expected, with a status other than 200.
    OkStatus(u16),
    /// Answered, but the answer contradicts an expectation.
    Wrong,
    /// No answer in time.
    Timeout,
    /// Connection refused: the target does not listen at this address.
    ConnectRefused,
    /// No connection in time.
    ConnectTimeout,
    /// No route to the host.
    ConnectUnreachable,
    /// Connecting failed in another way.
    ConnectFailed,
    /// The request was not sent, because the protocol cannot hold one of its values.
    NotSent(NotSendable),
    /// No attempt was made: the connection was cut, and the agent does not reconnect yet.
    NotConnected,
    /// No local port left on this machine.
    NoPort,
    /// No file descriptor left in this process.
    NoFile,
    /// Connection reset by the peer during the operation.
    Reset,
    /// Connection closed by the peer during the operation.
    Closed,
    /// Connection broken in another way.
    Broken,
    /// The target's certificate is not trusted.
    TlsCertificate,
    /// The target does not speak TLS, or no version and cipher suite that this client supports.
    TlsHandshake,
    /// The target ended the connection during the handshake.
    TlsClosed,
    /// The target refused the handshake with this alert. In TLS 1.3 the alert may arrive after the
    /// client has sent its first data. The target has not read that data.
    TlsAlert(u8),
    /// A record after the handshake failed decryption or was an alert.
    TlsBroken,
    /// The proxy opened no tunnel. Holds the status of its answer, or 0 if the answer has no
    /// status.
    Proxy(u16),
    /// The received bytes are not a valid answer of the protocol.
    BadAnswer,
    /// An invalid answer with a known defect.
    Malformed(Malformation),
    /// The answer exceeds the limit for one answer.
    TooLong,
    /// All incomplete answers together exceed the memory budget.
    TooLarge,
    /// Redirect. Only the attempt is recorded with this result; its operation is `ok`.
    Redirect(u16),
    /// Refused with an answer of [`Protocol::REFUSALS`]. Higher numbers index [`ERROR_WORDS`].
    Answer(u8),
    /// The same as `Answer`, but in answer to the greeting, before any request.
    Greeted(u8),
    /// HTTP status of 400 or more.
    Status(u16),
}

impl AttemptCause {
    /// Returns the text for `attempts.csv`.
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

/// Returns the name of an answer that refuses an operation.
pub(crate) fn word_of(refusals: &[Refusal], number: u8) -> &'static str {
    let number = usize::from(number);
    match refusals.get(number) {
        Some(refusal) => refusal.name,
        None => ERROR_WORDS.word(number - refusals.len()).unwrap_or("?"),
    }
}

/// Returns the number of a server's error word. The numbers follow those of the refusals. `None` if
/// the text is not a word, or if the list is full.
pub(crate) fn open_word(refusals: &[Refusal], word: &[u8]) -> Option<u8> {
    u8::try_from(refusals.len() + ERROR_WORDS.number(word)?).ok()
}

/// A defect of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Malformation {
    /// A header continues on the next line (obs-fold; RFC 9112, 5.2).
    FoldedHeader,
    /// More headers than the limit.
    TooManyHeaders,
    /// A header block longer than the limit.
    LongHead,
    /// The server switches to another protocol without a request for it.
    Switched,
    /// HTTP/2 frames (RFC 9113, 4.1).
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

    /// Result of decoding some bytes.
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

    /// Compiles a step. If `closes`, the connection ends after the answer.
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

    /// Returns the bytes of a request.
    pub fn encode<P: Protocol>(compiled: &Compiled<P>, id: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let values = OperationValues { source: source(3, 12), arguments: &compiled.arguments };
        P::encode(&compiled.request, id, &values, &mut out).unwrap();
        out
    }

    /// Decodes the pieces one after the other, and then the end of the connection if `ends`.
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

    /// Decodes the bytes in one piece, in every split into two pieces, and byte by byte. All
    /// results must be equal.
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
    fn causes_have_descriptions() {
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
