//! A blocking client for single calls, over the same protocols as the load: preparation checks, the fault `call`, readiness and the
//! read-back. It must not retry: whoever calls decides.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::protocols::{Answer as Whole, Asked, Call, Cause, Progress, Protocol};
use crate::values::{Argument, Source, Template, Values};

const BUFFER: usize = 64 * 1024;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
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
    /// What came is no answer.
    #[error("bad answer")]
    BadAnswer,
}

/// The answer to a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Whether the target did what it was asked. `not_found` is an answer and so `ok`.
    pub ok: bool,
    /// The protocol's word: `ok`, `not_found`, `busy`, `200`.
    pub status: String,
    fields: BTreeMap<String, Vec<u8>>,
}

impl Answer {
    /// A field of the answer, by its name in the protocol's catalog; `None` if this answer has none. Headers of an HTTP answer are
    /// not here.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.get(name).map(Vec::as_slice)
    }
}

/// A connection to a service.
pub struct Client(Box<dyn Conversation>);

/// What a protocol's client can do.
pub trait Conversation: Send {
    /// Sends a call and waits for its answer; connects first if the last call lost the connection.
    fn call(&mut self, operation: &str, with: &BTreeMap<String, String>) -> Result<Answer, CallError>;
}

/// A client's conversation, or why there is none.
pub type Connected = Result<Box<dyn Conversation>, CallError>;

impl Client {
    /// Connects to `service`. `timeout` bounds the connect and each call.
    ///
    /// # Errors
    /// If there is no such protocol or no connection.
    pub fn connect(protocol: &str, service: &str, timeout: Duration) -> Result<Self, CallError> {
        let kind = crate::protocols::find(protocol)
            .ok_or_else(|| CallError::Invalid(format!("there is no protocol `{protocol}`")))?;
        (kind.connect)(service, timeout).map(Self)
    }

    /// Sends a call and waits for its answer. The values are taken as they are: no templates.
    ///
    /// # Errors
    /// If there is none. The next call connects again.
    pub fn call(&mut self, operation: &str, with: &BTreeMap<String, String>) -> Result<Answer, CallError> {
        self.0.call(operation, with)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// [`Client::connect`] for a protocol.
pub fn connect<P: Protocol>(service: &str, timeout: Duration) -> Connected {
    let protocol = P::open(service).map_err(|reason| CallError::Connect { service: service.to_owned(), reason })?;
    let mut talk = Talk {
        protocol,
        timeout,
        stream: None,
        decoder: P::Decoder::default(),
        memory: P::Memory::default(),
        last_id: 0,
    };
    talk.stream = Some(talk.open()?);
    Ok(Box::new(talk))
}

struct Talk<P: Protocol> {
    protocol: P,
    timeout: Duration,
    stream: Option<TcpStream>,
    decoder: P::Decoder,
    memory: P::Memory,
    last_id: u32,
}

impl<P: Protocol> Conversation for Talk<P> {
    fn call(&mut self, operation: &str, with: &BTreeMap<String, String>) -> Result<Answer, CallError> {
        let wants = wants::<P>(operation)?;
        let (request, arguments) = self.compile(operation, with, &wants)?;
        // Each call compiles its own request, so what was remembered of the last one's answer is of no use.
        self.memory = P::Memory::default();
        self.last_id = self.last_id.wrapping_add(1).max(1);
        let source = Source { agent: 0, seq: 0, draw: 0, slots: &[], kept: 0, feeds: &[], rows: &[] };
        let mut bytes = Vec::new();
        P::encode(&request, self.last_id, &Values { source, arguments: &arguments }, &mut bytes);
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.open()?,
        };
        let answer = self.exchange(&stream, &request, &bytes);
        let answer = answer.map(|(input, whole)| {
            let answer = self.read_fields(&request, &wants, &input, whole);
            if whole.reusable && whole.used == input.len() {
                self.stream = Some(stream);
            }
            answer
        });
        P::rest(&mut self.decoder, &mut self.memory);
        answer
    }
}

/// Every field that answers to this operation have. Headers can only be asked for by name, so they are left out.
fn wants<P: Protocol>(operation: &str) -> Result<Vec<String>, CallError> {
    let known = P::INFO.operations.iter().find(|known| known.name == operation);
    let known =
        known.ok_or_else(|| CallError::Invalid(format!("`{}` has no operation `{operation}`", P::INFO.name)))?;
    Ok(known.answers.iter().filter(|field| !field.name.ends_with('*')).map(|field| field.name.to_owned()).collect())
}

impl<P: Protocol> Talk<P> {
    fn open(&self) -> Result<TcpStream, CallError> {
        let authority = self.protocol.authority();
        let wrong = |reason: String| CallError::Connect { service: authority.to_owned(), reason };
        let address = crate::engine::resolve(authority).map_err(|error| wrong(error.to_string()))?;
        let stream = TcpStream::connect_timeout(&address, self.timeout).map_err(|error| wrong(error.to_string()))?;
        stream.set_nodelay(true).map_err(|error| wrong(error.to_string()))?;
        Ok(stream)
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
            .map(|(name, value)| Argument { name: name.clone(), template: Template::constant(value.as_bytes()) })
            .collect();
        let call = Call { number: 0, operation: known, arguments: &arguments, wants };
        let request = self.protocol.compile(&call).map_err(CallError::Invalid)?;
        Ok((request, arguments))
    }

    /// Sends and receives; the bytes that the answer's fields are in.
    fn exchange(
        &mut self,
        mut stream: &TcpStream,
        request: &P::Request,
        bytes: &[u8],
    ) -> Result<(Vec<u8>, Whole), CallError> {
        let deadline = Instant::now() + self.timeout;
        self.limit(stream, deadline)?;
        stream.write_all(bytes).map_err(|error| self.lost(&error))?;
        let asked = Asked { request, id: self.last_id };
        let mut input = Vec::new();
        let mut buffer = vec![0; BUFFER];
        loop {
            self.limit(stream, deadline)?;
            let count = match stream.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.lost(&error)),
            };
            input.extend_from_slice(&buffer[..count]);
            match P::decode(&asked, &mut self.decoder, &mut self.memory, &input, count == 0) {
                Progress::Answer(answer) => return Ok((input, answer)),
                Progress::Bad(_) => return Err(CallError::BadAnswer),
                Progress::More { .. } if count == 0 => {
                    return Err(CallError::Lost("the connection was closed before the answer".to_owned()));
                }
                Progress::More { used } => drop(input.drain(..used)),
            }
        }
    }

    fn limit(&self, stream: &TcpStream, deadline: Instant) -> Result<(), CallError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(CallError::Timeout(self.timeout));
        }
        let set = stream.set_read_timeout(Some(left)).and_then(|()| stream.set_write_timeout(Some(left)));
        set.map_err(|error| CallError::Lost(error.to_string()))
    }

    fn lost(&self, error: &std::io::Error) -> CallError {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => CallError::Timeout(self.timeout),
            _ => CallError::Lost(error.to_string()),
        }
    }

    fn read_fields(&self, request: &P::Request, wants: &[String], input: &[u8], whole: Whole) -> Answer {
        let mut scratch = Vec::new();
        let status = String::from_utf8_lossy(P::status(&self.decoder, input, &mut scratch)).into_owned();
        let mut fields = BTreeMap::new();
        for (number, name) in wants.iter().enumerate() {
            scratch.clear();
            if let Some(value) = P::field(request, &self.decoder, number, input, &mut scratch) {
                fields.insert(name.clone(), value.to_vec());
            }
        }
        Answer { ok: whole.result == Cause::Ok, status, fields }
    }
}
