//! Protocols of `plimsoll hit` whose requests are messages: gRPC and WebSocket. Says what their
//! URLs and options mean, and which options they do not have.

use experiment::catalog::{Operation, Protocol};

use super::options::{HitTarget, OptionProblem, scheme_of};
use crate::cli;

/// A protocol whose requests are messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageProtocol {
    Grpc,
    Websocket,
}

/// All of them, each with its schemes.
const ALL: [(MessageProtocol, [&str; 2]); 2] =
    [(MessageProtocol::Grpc, ["grpc", "grpcs"]), (MessageProtocol::Websocket, ["ws", "wss"])];

/// Returns the schemes of their URLs.
pub fn schemes() -> impl Iterator<Item = &'static str> {
    ALL.iter().flat_map(|(_, schemes)| schemes.iter().copied())
}

impl MessageProtocol {
    /// Returns the protocol of a URL, if it is one of these.
    pub fn of(url: &str) -> Option<Self> {
        let scheme = scheme_of(url);
        ALL.iter().find(|(_, schemes)| schemes.contains(&scheme.as_str())).map(|(this, _)| *this)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Grpc => "gRPC",
            Self::Websocket => "WebSocket",
        }
    }

    fn form(self) -> &'static str {
        match self {
            Self::Grpc => "write grpc://HOST:PORT/package.Service/Method",
            Self::Websocket => "write ws://HOST:PORT/path -d MESSAGE",
        }
    }

    /// Returns the operation for `-m METHOD`.
    pub fn operation(self, words: &cli::Hit, protocol: &Protocol) -> Result<&'static Operation, OptionProblem> {
        let named = match (self, &words.method) {
            (Self::Grpc, None) => "rpc",
            (Self::Grpc, Some(method)) => {
                return Err(OptionProblem::new(format!("-m {method}: a call of gRPC has no HTTP method"), self.form()));
            }
            (Self::Websocket, None) if words.body.is_some() => "send",
            (Self::Websocket, None) => "receive",
            (Self::Websocket, Some(method)) => method.as_str(),
        };
        let operations = protocol.operations.iter();
        let found = operations.clone().find(|operation| operation.name.eq_ignore_ascii_case(named));
        let found = found.ok_or_else(|| {
            let known: Vec<&str> = operations.map(|operation| operation.name).collect();
            let what = format!("-m {named}: {} has no such operation", self.name());
            OptionProblem::new(what, format!("write one of {}", known.join(", ")))
        })?;
        let takes_message = found.takes.iter().any(|field| field.name == "message");
        match (&words.body, takes_message) {
            (Some(_), false) => {
                let what = format!("-m {named} with -d: the operation sends no message");
                Err(OptionProblem::new(what, "remove one of the two"))
            }
            (None, true) if self == Self::Websocket => {
                Err(OptionProblem::new(format!("-m {named}: the message is missing"), "add -d MESSAGE"))
            }
            _ => Ok(found),
        }
    }

    /// Returns the problem of an option or a URL that the protocol does not have.
    pub fn problem(self, words: &cli::Hit, place: Option<&HitTarget>) -> Option<OptionProblem> {
        let path = place?.path.as_str();
        let is_method = path.trim_start_matches('/').split('/').filter(|name| !name.is_empty()).count() == 2;
        if self == Self::Grpc && !is_method {
            return Some(OptionProblem::new(format!("{}: expected the method as the path", words.url), self.form()));
        }
        if self == Self::Websocket && !words.proto.is_empty() {
            return not_of(words);
        }
        let is_socket = self == Self::Websocket;
        let given = [
            (words.unix_socket.is_some(), "--unix-socket"),
            (words.proxy.is_some(), "--proxy"),
            (words.location, "--location"),
            (is_socket && words.http2, "--http2"),
            (is_socket && words.stream.is_some(), "--stream"),
            (is_socket && words.first_byte, "--first-byte"),
            (!is_socket && words.match_at.is_some(), "--match"),
        ];
        let (_, option) = given.into_iter().find(|(is_given, _)| *is_given)?;
        let what = format!("{} with {option}: this is not supported", self.name());
        Some(OptionProblem::new(what, format!("remove {option}")))
    }
}

/// Returns the problem of an option that only another protocol has.
pub fn not_of(words: &cli::Hit) -> Option<OptionProblem> {
    let file = words.proto.first().map(|file| (format!("--proto {file}"), MessageProtocol::Grpc));
    let place = words.match_at.as_ref().map(|place| (format!("--match {place}"), MessageProtocol::Websocket));
    let (option, protocol) = file.or(place)?;
    Some(OptionProblem::new(format!("{option}: the URL is not one of {}", protocol.name()), protocol.form()))
}

/// Returns the URL of a WebSocket with the headers of its handshake, which follow a `#`. If
/// `is_literal`, braces are no placeholders.
pub fn socket_url(place: &HitTarget, headers: &[(String, String)], is_literal: bool) -> String {
    let HitTarget { service, path } = place;
    let braces = |text: &str| match is_literal {
        true => text.replace('{', "%7B").replace('}', "%7D"),
        false => text.to_owned(),
    };
    let mut url = format!("{service}{}", braces(path));
    for (name, value) in headers {
        let sign = if url.contains('#') { '&' } else { '#' };
        url.push_str(&format!("{sign}{}={}", braces(&encoded(name)), braces(&encoded(value))));
    }
    url
}

/// Encodes the bytes that end a header, or that are no part of a URL.
fn encoded(text: &str) -> String {
    text::percent_encoded(text, |byte| text::is_unreserved(byte) || b":/,;@(){}".contains(&byte))
}
