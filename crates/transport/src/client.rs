//! A blocking client for single operations, over the same protocols as the load. Preparation
//! checks, the fault `call`, readiness checks and the read-back use it. The client does not retry;
//! the caller decides whether to call again.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use experiment::example::DescribedCall;
use serde::{Deserialize, Serialize};
use wire::cause::{AttemptCause, Malformation};
use wire::excerpt;
use wire::input_files::InputFiles;
use wire::protobuf::sources;
use wire::protobuf::types::MessageTypes;
use wire::protocols::{Call, Description};
use wire::session::{Answer, Encoded, OpenRequests, Opening, RequestContext, SessionEvent, SessionProtocol};
use wire::values::{Argument, CompiledTemplate, OperationValues, ValueSource};

use crate::service_address::ServiceAddress;
use crate::tls::TlsTrust;
use crate::tls::{NO_PROTOCOL, TlsPeers, TlsSession};
use crate::tunnel::{TunnelAnswer, TunnelRequest};

const BUFFER: usize = 64 * 1024;
/// Time limit of the bytes that end a connection.
const LEAVE: Duration = Duration::from_millis(100);

/// The reason why an operation has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallError {
    /// The operation is not valid; nothing was sent.
    #[error("{0}")]
    Invalid(String),
    /// No connection; nothing was sent.
    #[error("cannot connect to {service}: {reason}")]
    Connect {
        /// Address of the service or the proxy.
        service: String,
        reason: String,
    },
    /// No answer in time; the operation may have taken effect.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The connection ended before the answer; the operation may have taken effect.
    #[error("{0}")]
    Lost(String),
    /// The received data is not a valid answer. Holds the reason, as in `attempts.csv`.
    #[error("{0}")]
    BadAnswer(String),
}

/// The answer to an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientAnswer {
    /// Whether the target performed the operation. `not_found` also counts as `ok`.
    pub ok: bool,
    /// The status in the protocol's terms: `ok`, `not_found`, `busy`, `200`.
    pub status: String,
    fields: BTreeMap<String, Vec<u8>>,
}

impl ClientAnswer {
    /// Returns a field of the answer by its name in the protocol's catalog, or `None` if the answer
    /// does not have it. Headers of HTTP answers are not included.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.get(name).map(Vec::as_slice)
    }
}

/// The bytes sent and received for an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExchangedBytes {
    pub sent: Vec<u8>,
    /// The bytes received, even if they are not a valid answer.
    pub received: Vec<u8>,
}

/// A connection to a service.
pub struct Client(Box<dyn ProtocolClient>);

/// The operations of a client, for any protocol.
trait ProtocolClient: Send {
    /// Sends all requests in one go and waits for their answers in order. If an answer is missing,
    /// the later answers count as missing too. Connects first if the last operation lost the
    /// connection.
    fn call_all(&mut self, operation: &str, calls: &[BTreeMap<String, String>])
    -> Vec<Result<ClientAnswer, CallError>>;

    /// Returns the bytes sent and received for the last operation.
    fn exchanged(&self) -> &ExchangedBytes;

    fn limit(&mut self, timeout: Duration, answer_bytes: usize);
}

impl Client {
    /// Limits the time of each later operation, and the bytes received for it.
    pub fn limit(&mut self, timeout: Duration, answer_bytes: usize) {
        self.0.limit(timeout, answer_bytes);
    }

    /// Sends a request and waits for its answer. The values are sent as they are, without template
    /// expansion. After an error, the next operation connects again.
    pub fn call(&mut self, operation: &str, with: &BTreeMap<String, String>) -> Result<ClientAnswer, CallError> {
        let answer = self.0.call_all(operation, std::slice::from_ref(with)).pop();
        answer.unwrap_or_else(|| Err(CallError::Invalid("no operation was given".to_owned())))
    }

    /// Sends all requests in one go and waits for their answers in order, with a full timeout for
    /// each. If an answer is missing, the later answers count as missing too. The requests must be
    /// few and short: nothing is received while they are sent.
    pub fn call_all(
        &mut self,
        operation: &str,
        calls: &[BTreeMap<String, String>],
    ) -> Vec<Result<ClientAnswer, CallError>> {
        self.0.call_all(operation, calls)
    }

    /// Returns the bytes sent and received for the last operation, before encryption.
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

/// Connects to `service` with the given trust settings for TLS. `timeout` limits the connect and
/// each operation.
pub fn connect<P: SessionProtocol>(service: &str, trust: &TlsTrust, timeout: Duration) -> Result<Client, CallError> {
    ClientExchange::<P>::connect(service, trust, timeout).map(|exchange| Client(Box::new(exchange)))
}

/// Asks a service for the types of its messages. `names` are those that
/// [`Protocol::lacks_types`](wire::protocols::Protocol::lacks_types) has returned; if there are
/// none, all types are asked for. `timeout` limits the connect and each question.
pub fn ask_types<P: SessionProtocol>(
    service: &str,
    trust: &TlsTrust,
    names: &[String],
    timeout: Duration,
) -> Result<Arc<MessageTypes>, CallError> {
    ClientExchange::<P>::connect(service, trust, timeout)?.ask_types(names)
}

/// Returns the calls of a service, each with an example of its messages. They are described by the
/// files `proto` or, without files, by the service. `timeout` limits the connect and each question.
pub fn described_calls<P: SessionProtocol>(
    service: &str,
    trust: &TlsTrust,
    proto: &[String],
    timeout: Duration,
) -> Result<Vec<DescribedCall>, CallError> {
    if proto.is_empty() {
        return ask_types::<P>(service, trust, &[], timeout).map(|types| P::described_calls(&types));
    }
    let types = sources::read(proto, &InputFiles::default());
    types.map(|types| P::described_calls(&types)).map_err(|why| CallError::Invalid(format!("`load.proto`: {why}")))
}

impl<P: SessionProtocol> ClientExchange<P> {
    fn connect(service: &str, trust: &TlsTrust, timeout: Duration) -> Result<Self, CallError> {
        if P::RUNS_PROGRAMS {
            return Err(CallError::Invalid(format!(
                "`{}` has no single operations: only a load can run programs",
                P::INFO.name
            )));
        }
        let wrong = |reason| CallError::Connect { service: service.to_owned(), reason };
        let protocol = P::open(service).map_err(wrong)?;
        let peers = TlsPeers::of(&[(trust, protocol.tls_host())], P::ALPN).map_err(wrong)?;
        let proxy = trust.tls.proxy.as_deref().filter(|_| protocol.tls_host().is_some());
        let tunnel = proxy.map(|proxy| TunnelRequest::of(proxy, protocol.authority())).transpose().map_err(wrong)?;
        let mut talk = ClientExchange {
            protocol,
            peers,
            tunnel,
            timeout,
            answer_bytes: usize::MAX,
            pipe: None,
            session: P::Session::default(),
            memory: P::Memory::default(),
            input: Vec::new(),
            last_id: 0,
            exchanged: ExchangedBytes::default(),
        };
        talk.pipe = Some(talk.open()?);
        Ok(talk)
    }

    /// Asks for the types of these names.
    fn ask_types(&mut self, names: &[String]) -> Result<Arc<MessageTypes>, CallError> {
        let types = P::ask_types(names, &mut |operation, with| {
            let answer = self.call_all(operation, std::slice::from_ref(with)).pop();
            let answer = answer.unwrap_or_else(|| Err(CallError::Lost("no answer".to_owned())));
            let answer = answer.map_err(|error| error.to_string())?;
            Ok(Description { message: answer.field("message").map(<[u8]>::to_vec), status: answer.status })
        });
        let authority = self.protocol.authority();
        let types = types.map_err(|why| CallError::Invalid(format!("cannot learn the messages of {authority}: {why}")));
        types.map(Arc::new)
    }
}

struct ClientExchange<P: SessionProtocol> {
    protocol: P,
    peers: Option<TlsPeers>,
    /// Request for the tunnel, if a proxy leads to the service.
    tunnel: Option<TunnelRequest>,
    timeout: Duration,
    answer_bytes: usize,
    pipe: Option<ClientConnection>,
    session: P::Session,
    memory: P::Memory,
    /// Received bytes that are not decoded yet.
    input: Vec<u8>,
    last_id: u32,
    exchanged: ExchangedBytes,
}

/// Ends the connection in order, if the protocol has bytes for it.
impl<P: SessionProtocol> Drop for ClientExchange<P> {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            let mut out = Vec::new();
            P::leave(&mut self.session, &mut out);
            if !out.is_empty() {
                let _ = pipe.send(&out, Instant::now() + LEAVE);
            }
        }
    }
}

impl<P: SessionProtocol> ProtocolClient for ClientExchange<P> {
    fn call_all(
        &mut self,
        operation: &str,
        calls: &[BTreeMap<String, String>],
    ) -> Vec<Result<ClientAnswer, CallError>> {
        let mut answers = vec![None; calls.len()];
        let ended = self.answer_all(operation, calls, &mut answers);
        let missing = || Err(ended.clone().err().unwrap_or_else(|| CallError::Lost("no answer".to_owned())));
        answers.into_iter().map(|answer| answer.map_or_else(missing, Ok)).collect()
    }

    fn exchanged(&self) -> &ExchangedBytes {
        &self.exchanged
    }

    fn limit(&mut self, timeout: Duration, answer_bytes: usize) {
        (self.timeout, self.answer_bytes) = (timeout, answer_bytes);
    }
}

/// Returns all fields that answers to the operation can have, except headers. Headers can only be
/// requested by name.
fn wants<P: SessionProtocol>(operation: &str) -> Result<Vec<String>, CallError> {
    let known = P::INFO.operations.iter().find(|known| known.name == operation);
    let known =
        known.ok_or_else(|| CallError::Invalid(format!("`{}` has no operation `{operation}`", P::INFO.name)))?;
    Ok(known.answers.iter().filter(|field| !field.name.ends_with('*')).map(|field| field.name.to_owned()).collect())
}

impl<P: SessionProtocol> ClientExchange<P> {
    fn open(&mut self) -> Result<ClientConnection, CallError> {
        let authority = self.tunnel.as_ref().map_or(self.protocol.authority(), |tunnel| tunnel.proxy.as_str());
        let wrong = |reason: String| CallError::Connect { service: authority.to_owned(), reason };
        let address = ServiceAddress::resolve(authority).map_err(|error| wrong(error.to_string()))?;
        let session = self.peers.as_ref().and_then(|peers| peers.session(0)).transpose();
        let session = session.map_err(|cause| wrong(cause.text(&[])))?;
        let opened =
            ClientConnection::open(&address, self.tunnel.as_ref(), session, self.timeout).map_err(|error| match error
                .kind()
            {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => wrong(format!("timed out after {:?}", self.timeout)),
                _ => wrong(error.to_string()),
            });
        let mut pipe = opened?;
        self.greet(&mut pipe)?;
        Ok(pipe)
    }

    /// Exchanges what the protocol requires before the first request.
    fn greet(&mut self, pipe: &mut ClientConnection) -> Result<(), CallError> {
        let (protocol, timeout) = (&self.protocol, self.timeout);
        let refused = |reason: String| CallError::Connect { service: protocol.authority().to_owned(), reason };
        // No operation has been sent yet, so none can have taken effect.
        let unasked = |error: io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => refused(format!("timed out after {timeout:?}")),
            _ => refused(error.to_string()),
        };
        let deadline = Instant::now() + timeout;
        let (mut input, mut out, mut buffer) = (Vec::new(), Vec::new(), vec![0; BUFFER]);
        P::reset(&mut self.session, &mut self.memory);
        let mut opening = protocol.greet(&mut self.session, &mut out);
        loop {
            pipe.send(&out, deadline).map_err(unasked)?;
            out.clear();
            match opening {
                Opening::Open { used } => {
                    input.drain(..used);
                    if !input.is_empty() && !P::SPEAKS_UNASKED {
                        return Err(refused("more than one answer to the greeting".to_owned()));
                    }
                    self.input = input;
                    return Ok(());
                }
                Opening::Refused(cause) => {
                    let text = excerpt::reason_line(&input);
                    return Err(refused(format!("{}: the server sent `{text}`", cause.text(P::REFUSALS))));
                }
                Opening::Wait { used } => {
                    input.drain(..used);
                    if used > 0 && !input.is_empty() {
                        opening = protocol.greeted(&mut self.session, &input, &mut out);
                        continue;
                    }
                }
            }
            if pipe.receive(&mut buffer, &mut input, deadline).map_err(unasked)? {
                return Err(refused("the connection was closed before the greeting was answered".to_owned()));
            }
            opening = protocol.greeted(&mut self.session, &input, &mut out);
        }
    }

    fn compile(
        &self,
        operation: &str,
        with: &BTreeMap<String, String>,
        wants: &[String],
    ) -> Result<ClientRequest<P>, CallError> {
        let known = P::INFO.operations.iter().find(|known| known.name == operation);
        let known = known.ok_or_else(|| CallError::Invalid(format!("there is no operation `{operation}`")))?;
        let arguments: Vec<Argument> = with
            .iter()
            .map(|(name, value)| Argument {
                name: name.clone(),
                template: CompiledTemplate::constant(value.as_bytes()),
            })
            .collect();
        let call = Call {
            number: 0,
            operation: known,
            arguments: &arguments,
            wants,
            program: None,
            closes: false,
            cookies: false,
            cookie_host: "",
            follow: 0,
            stream: None,
        };
        let request = self.protocol.compile(&call).map_err(CallError::Invalid)?;
        Ok(ClientRequest { request, arguments, id: 0, is_open: false })
    }

    /// Asks for the types that are needed to compile these operations and are not known yet.
    fn learn_types(&mut self, calls: &[BTreeMap<String, String>]) -> Result<(), CallError> {
        let unknown: Vec<String> = calls.iter().filter_map(|with| self.protocol.lacks_types(with)).collect();
        if !unknown.is_empty() {
            let types = self.ask_types(&unknown)?;
            self.protocol.learn_types(&types);
        }
        Ok(())
    }

    /// Takes the open connection if it can be used again, or else opens one.
    fn take_pipe(&mut self) -> Result<ClientConnection, CallError> {
        match self.pipe.take() {
            Some(pipe) if P::SPEAKS_UNASKED => Ok(pipe),
            pipe => pipe.and_then(ClientConnection::if_silent).map_or_else(|| self.open(), Ok),
        }
    }

    /// Sends all requests and stores their answers, up to the first missing answer. `answers` has
    /// an element for each request.
    fn answer_all(
        &mut self,
        operation: &str,
        calls: &[BTreeMap<String, String>],
        answers: &mut [Option<ClientAnswer>],
    ) -> Result<(), CallError> {
        let wants = wants::<P>(operation)?;
        self.learn_types(calls)?;
        let requests = calls.iter().map(|with| self.compile(operation, with, &wants));
        let mut requests = requests.collect::<Result<Vec<_>, _>>()?;
        let mut pipe = self.take_pipe()?;
        self.exchanged = ExchangedBytes::default();
        let (mut out, mut buffer, mut ended) = (Vec::new(), vec![0; BUFFER], false);
        if let Err(error) = self.encode_unsent(&mut requests, &mut out) {
            self.pipe = Some(pipe);
            return Err(error);
        }
        let mut deadline = Instant::now() + self.timeout;
        let (mut is_reusable, mut is_draining) = (true, false);
        loop {
            self.exchanged.sent.extend_from_slice(&out);
            pipe.send(&out, deadline).map_err(|error| self.lost(&error))?;
            out.clear();
            let open = ClientRequests(&requests);
            let used = match P::receive(&mut self.session, &mut self.memory, &open, &self.input, ended, &mut out) {
                SessionEvent::Bad(cause) => return Err(CallError::BadAnswer(cause.text(P::REFUSALS))),
                SessionEvent::More { .. } if ended => {
                    return Err(CallError::Lost("the connection was closed before the answer".to_owned()));
                }
                SessionEvent::More { used } => {
                    self.input.drain(..used);
                    ended = self.receive_more(&mut pipe, (&mut buffer, &mut out), deadline)?;
                    0
                }
                SessionEvent::Control { used } | SessionEvent::Pushed { used } | SessionEvent::Part { used, .. } => {
                    used
                }
                SessionEvent::Drain { used } => {
                    (is_reusable, is_draining) = (false, true);
                    used
                }
                SessionEvent::Untouched { id, used } => {
                    // The target did not begin the request, so it is sent again.
                    for request in requests.iter_mut().filter(|request| request.id == id) {
                        (request.id, request.is_open) = (0, false);
                    }
                    used
                }
                SessionEvent::Answer { answer, .. } if is_no_answer(answer.result) => {
                    return Err(CallError::BadAnswer(answer.result.text(P::REFUSALS)));
                }
                SessionEvent::Answer { id, answer } => {
                    self.take_answer(id, answer, &mut requests, &wants, answers);
                    deadline = Instant::now() + self.timeout;
                    is_reusable &= answer.reusable;
                    if answers.iter().all(Option::is_some) {
                        break;
                    }
                    if !answer.reusable {
                        return Err(CallError::Lost("the connection was closed before the answer".to_owned()));
                    }
                    0
                }
            };
            self.input.drain(..used);
            if !is_draining {
                self.encode_unsent(&mut requests, &mut out)?;
            } else if requests.iter().all(|request| !request.is_open) {
                return Err(CallError::Lost("the target takes no more operations on the connection".to_owned()));
            }
        }
        if is_reusable && (P::SPEAKS_UNASKED || self.input.is_empty()) {
            self.pipe = Some(pipe);
        }
        Ok(())
    }

    /// Sends `out` and the parts of requests that the target takes now, and receives more bytes.
    /// Returns whether the stream has ended.
    fn receive_more(
        &mut self,
        pipe: &mut ClientConnection,
        (buffer, out): (&mut [u8], &mut Vec<u8>),
        deadline: Instant,
    ) -> Result<bool, CallError> {
        P::send_rest(&mut self.session, &mut self.memory, out);
        self.exchanged.sent.extend_from_slice(out);
        pipe.send(out, deadline).map_err(|error| self.lost(&error))?;
        out.clear();
        let before = self.input.len();
        let ended = pipe.receive(buffer, &mut self.input, deadline).map_err(|error| self.lost(&error))?;
        self.exchanged.received.extend_from_slice(&self.input[before..]);
        if self.exchanged.received.len() > self.answer_bytes {
            return Err(CallError::BadAnswer(AttemptCause::TooLong.text(P::REFUSALS)));
        }
        Ok(ended)
    }

    /// Stores the answer that was just received.
    fn take_answer(
        &mut self,
        id: u32,
        answer: Answer,
        requests: &mut [ClientRequest<P>],
        wants: &[String],
        answers: &mut [Option<ClientAnswer>],
    ) {
        for (request, place) in requests.iter_mut().zip(answers).filter(|(request, _)| request.id == id) {
            *place = Some(self.read_fields(&request.request, wants, answer.result == AttemptCause::Ok));
            request.is_open = false;
        }
        P::finish(&mut self.session, &mut self.memory);
        self.input.drain(..answer.used);
    }

    /// Encodes as many of the unsent requests as the protocol takes now.
    fn encode_unsent(&mut self, requests: &mut [ClientRequest<P>], out: &mut Vec<u8>) -> Result<(), CallError> {
        let source = ValueSource::NOTHING;
        for request in requests.iter_mut().filter(|request| request.id == 0) {
            let id = self.last_id.wrapping_add(1).max(1);
            let values = OperationValues { source, arguments: &request.arguments, cookies: None, redirection: None };
            let encoded = P::encode(&mut self.session, &mut self.memory, &request.request, id, &values, out);
            match encoded.map_err(|refusal| CallError::Invalid(refusal.to_string()))? {
                Encoded::NotNow => break,
                Encoded::Done => (self.last_id, request.id, request.is_open) = (id, id, true),
            }
        }
        Ok(())
    }

    fn lost(&self, error: &io::Error) -> CallError {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => CallError::Timeout(self.timeout),
            _ => CallError::Lost(error.to_string()),
        }
    }

    /// Returns the answer that was just received.
    fn read_fields(&self, request: &P::Request, wants: &[String], ok: bool) -> ClientAnswer {
        let mut scratch = Vec::new();
        let status = String::from_utf8_lossy(P::status(&self.session, &self.input, &mut scratch)).into_owned();
        let mut fields = BTreeMap::new();
        for (number, name) in wants.iter().enumerate() {
            scratch.clear();
            if let Some(value) = P::field(request, &self.session, number, &self.input, &mut scratch) {
                fields.insert(name.clone(), value.to_vec());
            }
        }
        ClientAnswer { ok, status, fields }
    }
}

/// Whether the target broke off the answer, or the answer is not valid, although the connection can
/// still be used.
fn is_no_answer(result: AttemptCause) -> bool {
    use Malformation::{Frames, LongHead, TooManyHeaders};
    matches!(
        result,
        AttemptCause::StreamReset(_)
            | AttemptCause::TooLong
            | AttemptCause::Malformed(Frames(_) | LongHead | TooManyHeaders)
    )
}

/// A request of a client.
struct ClientRequest<P: SessionProtocol> {
    request: P::Request,
    arguments: Vec<Argument>,
    /// Id of the request on the connection; 0 before the request is sent.
    id: u32,
    is_open: bool,
}

struct ClientRequests<'a, P: SessionProtocol>(&'a [ClientRequest<P>]);

impl<'a, P: SessionProtocol> ClientRequests<'a, P> {
    fn first(&self, is_it: impl Fn(&ClientRequest<P>) -> bool) -> Option<RequestContext<'a, P>> {
        let found = self.0.iter().find(|request| request.is_open && is_it(request))?;
        Some(RequestContext { request: &found.request, id: found.id })
    }
}

impl<'a, P: SessionProtocol> OpenRequests<'a, P> for ClientRequests<'a, P> {
    fn oldest(&self) -> Option<RequestContext<'a, P>> {
        self.first(|_| true)
    }

    fn get(&self, id: u32) -> Option<RequestContext<'a, P>> {
        self.first(|request| request.id == id)
    }
}

/// An open connection.
pub struct ClientConnection {
    socket: TcpStream,
    session: Option<Box<TlsSession>>,
}

impl ClientConnection {
    /// Connects, opens a tunnel if there is a proxy, and completes the TLS handshake if there is a
    /// session.
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

    pub fn send(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        match &mut self.session {
            Some(session) => {
                session.write_plaintext(bytes).map_err(in_words)?;
                self.write(deadline)
            }
            None => self.send_clear(bytes, deadline),
        }
    }

    /// Sends without encryption. The deadline holds for all bytes together, even if the target
    /// takes few bytes at a time.
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

    /// Returns the connection, unless bytes or the end of the stream have arrived since the last
    /// answer. Such bytes would be read as the next answer. TLS messages that carry no data, such
    /// as session tickets, are allowed.
    fn if_silent(mut self) -> Option<Self> {
        self.socket.set_nonblocking(true).ok()?;
        let is_silent = match &mut self.session {
            Some(session) => means_nothing(&self.socket, session),
            None => is_empty(&self.socket.peek(&mut [0])),
        };
        (is_silent && self.socket.set_nonblocking(false).is_ok()).then_some(self)
    }

    /// Sends the pending TLS records.
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

    /// Waits for bytes and appends their plaintext to the input. The plaintext may be empty.
    /// Returns whether the stream has ended.
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
            // Without a TLS close, the answer may be incomplete (RFC 9112, 9.8).
            let why = match session.has_no_protocol() && input.is_empty() {
                true => NO_PROTOCOL,
                false => "the target closed the connection without an answer",
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

    /// Limits the next read and write to the time left until the deadline.
    fn limit(&self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        self.socket.set_write_timeout(Some(left))
    }
}

/// Whether the bytes received so far, if any, are only TLS messages without data.
fn means_nothing(mut socket: &TcpStream, session: &mut TlsSession) -> bool {
    let mut buffer = [0; 4096];
    // 16 reads are enough for all messages of a session. A peer that sends more may never stop.
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

/// Whether the read would have blocked: no bytes and no end of stream.
fn is_empty(read: &io::Result<usize>) -> bool {
    matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

fn in_words(cause: AttemptCause) -> io::Error {
    io::Error::other(cause.text(&[]))
}
