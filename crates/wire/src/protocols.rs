//! Wire formats of requests and answers, one protocol per file. Pure functions from bytes to bytes,
//! without sockets, clocks, threads and retries, and independent of the scheduling of agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use experiment::catalog;
use experiment::example::DescribedCall;
use experiment::plan::{MemberProgram, StreamEnd};

use crate::cause::{AttemptCause, Refusal};
use crate::protobuf::types::MessageTypes;
use crate::values::Argument;
use crate::values::encoding::ValuePlace;

pub mod command;
pub mod etcd;
pub mod grpc;
pub mod http;
pub mod http2;
pub mod lines;
pub mod memcached;
pub mod redis;
pub mod vsns;
pub mod websocket;

/// A protocol, opened for one service: names, addresses and requests. The exchange of bytes on a
/// connection is defined by [`SessionProtocol`](crate::session::SessionProtocol), or more simply by
/// [`InOrderProtocol`](crate::in_order::InOrderProtocol). The engine is compiled separately for
/// each protocol.
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

    /// Opens a service: `host:port` or a URL.
    fn open(service: &str) -> Result<Self, String>;

    /// Returns the `host:port` of the service. If operations are programs, returns the service's
    /// text as it is passed to the programs.
    fn authority(&self) -> &str;

    /// Returns the host name for the server's certificate, or `None` without TLS.
    fn tls_host(&self) -> Option<&str> {
        None
    }

    /// Whether the target sends the first bytes on a connection.
    fn speaks_first(&self) -> bool {
        false
    }

    /// Whether a target that sends this byte before any request refuses the connection. Otherwise
    /// the byte is an invalid answer.
    fn may_refuse_unasked(_first: u8) -> bool {
        false
    }

    /// Returns the name whose types of messages are needed to compile a step with these arguments,
    /// and are not known yet.
    fn lacks_types(&self, _arguments: &BTreeMap<String, String>) -> Option<String> {
        None
    }

    /// Takes the types of the target's messages.
    fn learn_types(&mut self, _types: &Arc<MessageTypes>) {}

    /// Asks the target for the types of these names. `call` performs an operation with its
    /// arguments, and returns a field of the answer.
    ///
    /// # Errors
    /// If the target does not describe its messages.
    fn ask_types(_names: &[String], _call: &mut DescribingCall<'_>) -> Result<MessageTypes, String> {
        Err("it does not describe its messages".to_owned())
    }

    /// Returns the calls that these types describe, each with an example of its messages.
    fn described_calls(_types: &MessageTypes) -> Vec<DescribedCall> {
        Vec::new()
    }

    /// Returns advice for the reader on attempts that failed with this cause.
    fn advice(_failure: AttemptCause) -> Option<&'static str> {
        None
    }

    /// Appends an excerpt of an answer for readers, without values that may be secret.
    fn show_answer(answer: ShownAnswer<'_>, out: &mut Vec<u8>) {
        const SHOWN: usize = 200;
        out.extend_from_slice(&answer.bytes[..answer.bytes.len().min(SHOWN)]);
    }

    /// Returns the part of the request that an argument fills. `arguments` are the texts of all
    /// arguments of the step, by name.
    fn value_place(_argument: &str, _arguments: &BTreeMap<String, String>) -> ValuePlace {
        ValuePlace::Plain
    }

    /// Compiles a step.
    fn compile(&self, call: &Call<'_>) -> Result<Self::Request, String>;

    /// Whether the request may change data. If so, the answer may reflect a change by an earlier
    /// attempt.
    fn may_change(request: &Self::Request) -> bool;

    /// Whether the answer is a stream of messages. The engine then records the time to its first
    /// message, the number of messages and the gaps between them.
    fn is_stream(_request: &Self::Request) -> bool {
        false
    }

    /// Returns what a failing answer states about the data, or `None` if the answer makes no
    /// statement or indicates a fault of the server. With a statement, the operation had no effect.
    /// If the step expects otherwise, the operation counts as wrong.
    fn about_data(failure: AttemptCause) -> Option<AboutData>;
}

/// Performs an operation that asks a target for a description.
pub type DescribingCall<'a> = dyn FnMut(&'static str, &BTreeMap<String, String>) -> Result<Description, String> + 'a;

/// Answer to an operation that asks for a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The status in the protocol's terms.
    pub status: String,
    /// The content, if there is any.
    pub message: Option<Vec<u8>>,
}

/// The bytes of an answer, for an excerpt.
#[derive(Debug, Clone, Copy)]
pub struct ShownAnswer<'a> {
    pub bytes: &'a [u8],
    /// Whether a coded body is decoded.
    pub is_decoded: bool,
}

/// A step to be compiled.
pub struct Call<'a> {
    /// Index of the step in the load.
    pub number: usize,
    pub operation: &'static catalog::Operation,
    pub arguments: &'a [Argument],
    /// Requested fields of the answer. Other functions refer to a field by its index here.
    pub wants: &'a [String],
    /// The program on a member's host that implements the operation, with the values of `{NAME}` on
    /// that host.
    pub program: Option<(&'a MemberProgram, &'a BTreeMap<String, String>)>,
    /// Whether the connection ends after the answer. The request says so to the server if the
    /// protocol supports it.
    pub closes: bool,
    /// Whether the session has a cookie jar.
    pub cookies: bool,
    /// Host whose cookies the request sends, in lower case. Empty if the session has one host.
    pub cookie_host: &'a str,
    /// Maximum number of redirects in a row that the operation follows.
    pub follow: u32,
    /// End of the stream of messages that the answer is read as, if it is.
    pub stream: Option<&'a StreamEnd>,
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

/// Statement of a failing answer about the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AboutData {
    /// The data do not exist.
    Missing,
    /// The data are not in the state that the request assumes.
    Different,
}
