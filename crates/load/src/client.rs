//! A blocking client for single calls, over the same protocols as the load: preparation checks, the
//! fault `call`, readiness and the read-back. It does not retry: whoever calls decides.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::TlsTrust;
use crate::excerpt;
use crate::protocols::{Answer as Whole, AttemptCause, Call, Progress, Protocol, RequestContext};
use crate::service_address::ServiceAddress;
use crate::tls::{NO_PROTOCOL, TlsPeers, TlsSession};
use crate::tunnel::{TunnelAnswer, TunnelRequest};
use crate::values::{Argument, CompiledTemplate, OperationValues, ValueSource};

const BUFFER: usize = 64 * 1024;

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallError {
    /// The call makes no sense; nothing was sent.
    #[error("{0}")]
    Invalid(String),
    /// No connection; nothing was sent.
    #[error("cannot connect to {service}: {reason}")]
    Connect {
        /// Where.
        service: String,
        /// Why.
        reason: String,
    },
    /// No answer in time; the call may have taken effect.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The connection ended before the answer; the call may have taken effect.
    #[error("{0}")]
    Lost(String),
    /// The received data is not a valid answer; the reason, as in `attempts.csv`.
    #[error("{0}")]
    BadAnswer(String),
}

/// The answer to a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientAnswer {
    /// Whether the target did what it was asked. `not_found` is an answer and so `ok`.
    pub ok: bool,
    /// The protocol's word: `ok`, `not_found`, `busy`, `200`.
    pub status: String,
    fields: BTreeMap<String, Vec<u8>>,
}

impl ClientAnswer {
    /// A field of the answer, by its name in the protocol's catalog; `None` if this answer has none. Headers of an HTTP answer are
    /// not here.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.get(name).map(Vec::as_slice)
    }
}

/// What went over the connection for a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExchangedBytes {
    /// The request.
    pub sent: Vec<u8>,
    /// What came, whether or not it is an answer.
    pub received: Vec<u8>,
}

/// A connection to a service.
pub struct Client(Box<dyn ProtocolClient>);

/// What a protocol's client can do.
pub trait ProtocolClient: Send {
    /// Sends calls one behind the other, and waits for their answers in that order. Where one has none, those behind it have none.
    /// Connects first if the last call lost the connection.
    fn call_all(&mut self, operation: &str, calls: &[BTreeMap<String, String>])
    -> Vec<Result<ClientAnswer, CallError>>;

    /// What went over the connection for the last call.
    fn exchanged(&self) -> &ExchangedBytes;
}

/// A client's conversation, or why there is none.
pub type ConnectResult = Result<Box<dyn ProtocolClient>, CallError>;

impl Client {
    /// Connects to `service`. `timeout` bounds the connect and each call. By TLS, whom this machine trusts is trusted.
    ///
    /// # Errors
    /// If there is no such protocol or no connection.
    pub fn connect(protocol: &str, service: &str, timeout: Duration) -> Result<Self, CallError> {
        Self::connect_trusting(protocol, service, &TlsTrust::default(), timeout)
    }

    /// The same, where it is said whom to trust by TLS.
    ///
    /// # Errors
    /// As [`Self::connect`], or if it cannot be found out whom to trust.
    pub fn connect_trusting(
        protocol: &str,
        service: &str,
        trust: &TlsTrust,
        timeout: Duration,
    ) -> Result<Self, CallError> {
        let kind = crate::protocols::find(protocol)
            .ok_or_else(|| CallError::Invalid(format!("there is no protocol `{protocol}`")))?;
        (kind.connect)(service, trust, timeout).map(Self)
    }

    /// Sends a call and waits for its answer. The values are taken as they are: no templates.
    ///
    /// # Errors
    /// If there is none. The next call connects again.
    pub fn call(&mut self, operation: &str, with: &BTreeMap<String, String>) -> Result<ClientAnswer, CallError> {
        let answer = self.0.call_all(operation, std::slice::from_ref(with)).pop();
        answer.unwrap_or_else(|| Err(CallError::Invalid("nothing is called".to_owned())))
    }

    /// Sends calls one behind the other and waits for their answers in that order, each for as long as a single one. Where one has no
    /// answer, those behind it have none. They are to be few and short: nothing is received while they are sent.
    pub fn call_all(
        &mut self,
        operation: &str,
        calls: &[BTreeMap<String, String>],
    ) -> Vec<Result<ClientAnswer, CallError>> {
        self.0.call_all(operation, calls)
    }

    /// What went over the connection for the last call, in the clear.
    #[must_use]
    pub fn exchanged(&self) -> &ExchangedBytes {
        self.0.exchanged()
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// [`Client::connect_trusting`] for a protocol.
pub fn connect<P: Protocol>(service: &str, trust: &TlsTrust, timeout: Duration) -> ConnectResult {
    if P::RUNS_PROGRAMS {
        return Err(CallError::Invalid(format!("`{}` has no single calls: programs are run by a load", P::INFO.name)));
    }
    let wrong = |reason| CallError::Connect { service: service.to_owned(), reason };
    let protocol = P::open(service).map_err(wrong)?;
    let peers = TlsPeers::of(trust, P::ALPN, &[protocol.tls_host()]).map_err(wrong)?;
    let proxy = trust.tls.proxy.as_deref().filter(|_| protocol.tls_host().is_some());
    let tunnel = proxy.map(|proxy| TunnelRequest::of(proxy, protocol.authority())).transpose().map_err(wrong)?;
    let mut talk = ClientExchange {
        protocol,
        peers,
        tunnel,
        timeout,
        pipe: None,
        decoder: P::Decoder::default(),
        memory: P::Memory::default(),
        last_id: 0,
        exchanged: ExchangedBytes::default(),
    };
    talk.pipe = Some(talk.open()?);
    Ok(Box::new(talk))
}

struct ClientExchange<P: Protocol> {
    protocol: P,
    peers: Option<TlsPeers>,
    /// The way to the service, where it leads through a proxy.
    tunnel: Option<TunnelRequest>,
    timeout: Duration,
    pipe: Option<ClientConnection>,
    decoder: P::Decoder,
    memory: P::Memory,
    last_id: u32,
    exchanged: ExchangedBytes,
}

impl<P: Protocol> ProtocolClient for ClientExchange<P> {
    fn call_all(
        &mut self,
        operation: &str,
        calls: &[BTreeMap<String, String>],
    ) -> Vec<Result<ClientAnswer, CallError>> {
        let mut answers = Vec::new();
        if let Err(error) = self.answer_all(operation, calls, &mut answers) {
            answers.resize(calls.len(), Err(error));
        }
        answers
    }

    fn exchanged(&self) -> &ExchangedBytes {
        &self.exchanged
    }
}

/// Every field that answers to this operation have. Headers can only be asked for by name, so they are left out.
fn wants<P: Protocol>(operation: &str) -> Result<Vec<String>, CallError> {
    let known = P::INFO.operations.iter().find(|known| known.name == operation);
    let known =
        known.ok_or_else(|| CallError::Invalid(format!("`{}` has no operation `{operation}`", P::INFO.name)))?;
    Ok(known.answers.iter().filter(|field| !field.name.ends_with('*')).map(|field| field.name.to_owned()).collect())
}

impl<P: Protocol> ClientExchange<P> {
    fn open(&self) -> Result<ClientConnection, CallError> {
        let authority = self.tunnel.as_ref().map_or(self.protocol.authority(), |tunnel| tunnel.proxy.as_str());
        let wrong = |reason: String| CallError::Connect { service: authority.to_owned(), reason };
        let address = ServiceAddress::resolve(authority).map_err(|error| wrong(error.to_string()))?;
        let session = self.peers.as_ref().and_then(|peers| peers.session(0)).transpose();
        let session = session.map_err(|cause| wrong(cause.text(&[])))?;
        let opened =
            ClientConnection::open(&address, self.tunnel.as_ref(), session, self.timeout).map_err(|error| match error
                .kind()
            {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => wrong(format!("not within {:?}", self.timeout)),
                _ => wrong(error.to_string()),
            });
        let mut pipe = opened?;
        self.greet(&mut pipe)?;
        Ok(pipe)
    }

    /// What the protocol says first, and the answers to that.
    fn greet(&self, pipe: &mut ClientConnection) -> Result<(), CallError> {
        let Some(greeting) = self.protocol.greeting() else { return Ok(()) };
        let refused = |why: String| CallError::Connect { service: self.protocol.authority().to_owned(), reason: why };
        // Nothing was asked yet, so nothing can have taken effect.
        let unasked = |error: io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => refused(format!("not within {:?}", self.timeout)),
            _ => refused(error.to_string()),
        };
        let deadline = Instant::now() + self.timeout;
        pipe.send(&greeting.bytes, deadline).map_err(unasked)?;
        let mut input = Vec::new();
        let mut buffer = vec![0; BUFFER];
        loop {
            match P::greeted(greeting, &input) {
                Progress::Answer(answer) if answer.result == AttemptCause::Ok && answer.used == input.len() => {
                    return Ok(());
                }
                Progress::Answer(Whole { result: AttemptCause::Ok, .. }) => {
                    return Err(refused("more than one answer to the greeting".to_owned()));
                }
                Progress::Answer(Whole { result: cause, .. }) | Progress::Bad(cause) => {
                    return Err(refused(format!(
                        "{}: it said `{}`",
                        cause.text(P::REFUSALS),
                        excerpt::last_line(&input)
                    )));
                }
                Progress::More { .. } => {}
            }
            if pipe.receive(&mut buffer, &mut input, deadline).map_err(unasked)? {
                return Err(refused("the connection was closed before the greeting was answered".to_owned()));
            }
        }
    }

    fn compile(
        &self,
        operation: &str,
        with: &BTreeMap<String, String>,
        wants: &[String],
    ) -> Result<(P::Request, Vec<Argument>), CallError> {
        let known = P::INFO.operations.iter().find(|known| known.name == operation);
        let known = known.ok_or_else(|| CallError::Invalid(format!("there is no operation `{operation}`")))?;
        let arguments: Vec<Argument> = with
            .iter()
            .map(|(name, value)| Argument {
                name: name.clone(),
                template: CompiledTemplate::constant(value.as_bytes()),
            })
            .collect();
        let call = Call { number: 0, operation: known, arguments: &arguments, wants, program: None, closes: false };
        let request = self.protocol.compile(&call).map_err(CallError::Invalid)?;
        Ok((request, arguments))
    }

    /// Sends all calls, and appends their answers until one is missing.
    fn answer_all(
        &mut self,
        operation: &str,
        calls: &[BTreeMap<String, String>],
        answers: &mut Vec<Result<ClientAnswer, CallError>>,
    ) -> Result<(), CallError> {
        let wants = wants::<P>(operation)?;
        let source = ValueSource { agent: 0, seq: 0, copy: 1, draw: 0, slots: &[], kept: 0, feeds: &[], records: &[] };
        let (mut requests, mut bytes) = (Vec::new(), Vec::new());
        for with in calls {
            let (request, arguments) = self.compile(operation, with, &wants)?;
            self.last_id = self.last_id.wrapping_add(1).max(1);
            let written =
                P::encode(&request, self.last_id, &OperationValues { source, arguments: &arguments }, &mut bytes);
            written.map_err(|refusal| CallError::Invalid(refusal.text().to_owned()))?;
            requests.push((request, self.last_id));
        }
        let mut pipe = match self.pipe.take().and_then(ClientConnection::if_silent) {
            Some(pipe) => pipe,
            None => self.open()?,
        };
        let mut deadline = Instant::now() + self.timeout;
        self.exchanged = ExchangedBytes { sent: bytes, received: Vec::new() };
        pipe.send(&self.exchanged.sent, deadline).map_err(|error| self.lost(&error))?;
        let (mut input, mut buffer) = (Vec::new(), vec![0; BUFFER]);
        for (number, (request, id)) in requests.iter().enumerate() {
            self.memory = P::Memory::default();
            let asked = RequestContext { request, id: *id };
            let whole = self.await_answer(&mut pipe, &asked, (&mut input, &mut buffer), deadline);
            deadline = Instant::now() + self.timeout;
            let answer = whole.map(|whole| (self.read_fields(request, &wants, &input, whole), whole));
            P::rest(&mut self.decoder, &mut self.memory);
            let (answer, whole) = answer?;
            answers.push(Ok(answer));
            input.drain(..whole.used);
            if !whole.reusable && number + 1 < requests.len() {
                return Err(CallError::Lost("the connection was closed before the answer".to_owned()));
            }
            if whole.reusable && number + 1 == requests.len() && input.is_empty() {
                self.pipe = Some(pipe);
                break;
            }
        }
        Ok(())
    }

    /// Receives until the answer is whole.
    fn await_answer(
        &mut self,
        pipe: &mut ClientConnection,
        asked: &RequestContext<'_, P>,
        (input, buffer): (&mut Vec<u8>, &mut [u8]),
        deadline: Instant,
    ) -> Result<Whole, CallError> {
        let mut ended = false;
        loop {
            match P::decode(asked, &mut self.decoder, &mut self.memory, input, ended) {
                Progress::Answer(answer) => return Ok(answer),
                Progress::Bad(cause) => return Err(CallError::BadAnswer(cause.text(P::REFUSALS))),
                Progress::More { .. } if ended => {
                    return Err(CallError::Lost("the connection was closed before the answer".to_owned()));
                }
                Progress::More { used } => drop(input.drain(..used)),
            }
            let before = input.len();
            ended = pipe.receive(buffer, input, deadline).map_err(|error| self.lost(&error))?;
            self.exchanged.received.extend_from_slice(&input[before..]);
        }
    }

    fn lost(&self, error: &io::Error) -> CallError {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => CallError::Timeout(self.timeout),
            _ => CallError::Lost(error.to_string()),
        }
    }

    fn read_fields(&self, request: &P::Request, wants: &[String], input: &[u8], whole: Whole) -> ClientAnswer {
        let mut scratch = Vec::new();
        let status = String::from_utf8_lossy(P::status(&self.decoder, input, &mut scratch)).into_owned();
        let mut fields = BTreeMap::new();
        for (number, name) in wants.iter().enumerate() {
            scratch.clear();
            if let Some(value) = P::field(request, &self.decoder, number, input, &mut scratch) {
                fields.insert(name.clone(), value.to_vec());
            }
        }
        ClientAnswer { ok: whole.result == AttemptCause::Ok, status, fields }
    }
}

/// An open connection.
pub struct ClientConnection {
    socket: TcpStream,
    session: Option<Box<TlsSession>>,
}

impl ClientConnection {
    /// Connects, asks for a tunnel if that is the way, and agrees on keys if there is a session.
    pub fn open(
        address: &ServiceAddress,
        tunnel: Option<&TunnelRequest>,
        session: Option<TlsSession>,
        timeout: Duration,
    ) -> io::Result<Self> {
        let deadline = Instant::now() + timeout;
        let mut pipe = Self { socket: address.open(timeout)?, session: None };
        if let Some(tunnel) = tunnel {
            pipe.enter(tunnel, deadline)?;
        }
        pipe.session = session.map(Box::new);
        pipe.shake(deadline)?;
        Ok(pipe)
    }

    fn enter(&mut self, tunnel: &TunnelRequest, deadline: Instant) -> io::Result<()> {
        self.send_clear(&tunnel.bytes, deadline)?;
        let (mut buffer, mut answer) = ([0; 4096], Vec::new());
        loop {
            let has_ended = self.receive(&mut buffer, &mut answer, deadline)?;
            match TunnelAnswer::of(&answer) {
                TunnelAnswer::Open => return Ok(()),
                TunnelAnswer::Refused { why, .. } => return Err(io::Error::other(why)),
                TunnelAnswer::More if has_ended => return Err(ErrorKind::UnexpectedEof.into()),
                TunnelAnswer::More => {}
            }
        }
    }

    fn shake(&mut self, deadline: Instant) -> io::Result<()> {
        let mut buffer = [0; 4096];
        while self.session.as_ref().is_some_and(|session| session.is_handshaking()) {
            self.write(deadline)?;
            if self.receive(&mut buffer, &mut Vec::new(), deadline)? {
                return Err(in_words(AttemptCause::TlsClosed));
            }
        }
        self.write(deadline)
    }

    /// Sends all of the bytes.
    pub fn send(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        match &mut self.session {
            Some(session) => {
                session.write_plaintext(bytes).map_err(in_words)?;
                self.write(deadline)
            }
            None => self.send_clear(bytes, deadline),
        }
    }

    /// The deadline holds for the whole, however little the target takes at a time.
    fn send_clear(&mut self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            self.limit(deadline)?;
            match self.socket.write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Itself, if nothing came since the last answer, not even the end. What came would be taken for the next answer. By TLS it may be
    /// the session's own, which means nothing.
    fn if_silent(mut self) -> Option<Self> {
        self.socket.set_nonblocking(true).ok()?;
        let is_silent = match &mut self.session {
            Some(session) => means_nothing(&self.socket, session),
            None => is_empty(&self.socket.peek(&mut [0])),
        };
        (is_silent && self.socket.set_nonblocking(false).is_ok()).then_some(self)
    }

    /// Sends what the session has to send.
    fn write(&mut self, deadline: Instant) -> io::Result<()> {
        while self.session.as_ref().is_some_and(|session| session.wants_write()) {
            self.limit(deadline)?;
            let Some(session) = &mut self.session else { break };
            match session.write_to(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for bytes and appends what they mean to the input, which may be nothing yet; whether no more will come.
    pub fn receive(&mut self, buffer: &mut [u8], input: &mut Vec<u8>, deadline: Instant) -> io::Result<bool> {
        self.limit(deadline)?;
        let count = match self.socket.read(buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(error),
        };
        let Some(session) = &mut self.session else {
            input.extend_from_slice(&buffer[..count]);
            return Ok(count == 0);
        };
        if count == 0 && session.is_handshaking() {
            return Ok(true);
        }
        if count == 0 {
            // Nobody can say whether more was to come (RFC 9112, 9.8).
            let why = match session.has_no_protocol() && input.is_empty() {
                true => NO_PROTOCOL,
                false => "the connection was closed without a word",
            };
            return Err(io::Error::new(ErrorKind::UnexpectedEof, why));
        }
        let mut sealed = &buffer[..count];
        let mut clear = [0; 4096];
        while !sealed.is_empty() {
            if let Err(cause) = session.take(&mut sealed) {
                return Err(match session.refused() {
                    Some(why) => io::Error::other(format!("tls: bad certificate: {why}")),
                    None => in_words(cause),
                });
            }
            while let Some(count) = session.read(&mut clear) {
                if count == 0 {
                    return Ok(true);
                }
                input.extend_from_slice(&clear[..count]);
            }
        }
        self.write(deadline)?;
        Ok(false)
    }

    /// The next wait ends at the deadline.
    fn limit(&self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        self.socket.set_write_timeout(Some(left))
    }
}

/// Whether what has come by now, if anything has, is for the session itself.
fn means_nothing(mut socket: &TcpStream, session: &mut TlsSession) -> bool {
    let mut buffer = [0; 4096];
    // As much as a session may say of itself; who says more is not trusted to stop.
    for _ in 0..16 {
        let count = match socket.read(&mut buffer) {
            Ok(count @ 1..) => count,
            other => return is_empty(&other),
        };
        let mut sealed = &buffer[..count];
        while !sealed.is_empty() {
            if session.take(&mut sealed).is_err() || session.read(&mut [0]).is_some() {
                return false;
            }
        }
    }
    false
}

/// Whether there was nothing to be read, and no end.
fn is_empty(read: &io::Result<usize>) -> bool {
    matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

fn in_words(cause: AttemptCause) -> io::Error {
    io::Error::other(cause.text(&[]))
}
