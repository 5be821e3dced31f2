//! The opening handshake of WebSocket (RFC 6455, 4): a request of HTTP/1.1 with a key, and an
//! answer that proves that the server has read the key.

use std::sync::atomic::{AtomicU32, Ordering};

use experiment::template::base64_in_place;
use sha1::{Digest as _, Sha1};

use super::super::http::{HEAD_LIMIT, HttpAddress, http2_frames};
use crate::cause::{AttemptCause, Refusal};
use crate::session::Opening;
use crate::values::encoding::decode_percent;

/// Text that is appended to a key before it is hashed.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// First 12 bytes of a key. The other four are the connection's number.
const KEY_BEGIN: [u8; 12] = *b"Plimsoll-WS-";
/// Maximum number of headers of an answer.
const HEADERS: usize = 128;
/// Headers that the handshake itself sets.
const OWN: [&str; 8] = [
    "host",
    "upgrade",
    "connection",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-extensions",
    "content-length",
    "transfer-encoding",
];
const FORM: &str = "write ws://host:port/path or wss://host/path; headers of the handshake follow a #, separated by &: \
                    ws://host/path#origin=https://example.com&sec-websocket-protocol=chat";

/// Statuses by which servers refuse a handshake, in the order of [`REFUSALS`].
const STATUSES: [u16; REFUSALS.len() - 1] =
    [200, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 426, 429, 500, 502, 503, 504];
/// Refusals of the handshake. Before it, no message is sent.
pub const REFUSALS: [Refusal; 18] = [
    refusal("http-200"),
    refusal("http-301"),
    refusal("http-302"),
    refusal("http-303"),
    refusal("http-307"),
    refusal("http-308"),
    refusal("http-400"),
    refusal("http-401"),
    refusal("http-403"),
    refusal("http-404"),
    refusal("http-405"),
    refusal("http-426"),
    refusal("http-429"),
    refusal("http-500"),
    refusal("http-502"),
    refusal("http-503"),
    refusal("http-504"),
    refusal("http-other"),
];

const fn refusal(name: &'static str) -> Refusal {
    Refusal { name, harmless: true }
}

/// Number of the last connection.
static CONNECTIONS: AtomicU32 = AtomicU32::new(0);

/// The handshake with a service.
#[derive(Debug)]
pub struct Handshake {
    pub authority: String,
    /// Host name for the server's certificate. `None` without TLS.
    pub tls_host: Option<String>,
    /// The request up to its key.
    before_key: Vec<u8>,
    /// Offered subprotocols, in the form of the header.
    protocols: String,
}

impl Handshake {
    /// Reads `host:port`, or a URL with path, query, user and the headers of the handshake.
    pub fn parse(service: &str) -> Result<Self, String> {
        let (scheme, rest) = match service.split_once("://") {
            None => ("http", service),
            Some(("ws", rest)) => ("http", rest),
            Some(("wss", rest)) => ("https", rest),
            Some(_) => return Err(FORM.to_owned()),
        };
        let (rest, fields) = rest.split_once('#').unwrap_or((rest, ""));
        let (place, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user, host) = place.rsplit_once('@').map_or((None, place), |(user, host)| (Some(user), host));
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err("a path has no blank: write %20".to_owned());
        }
        let address = HttpAddress::parse(&format!("{scheme}://{host}")).map_err(|_| FORM)?;
        let slash = if path.starts_with('/') { "" } else { "/" };
        let mut head = format!(
            "GET {slash}{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\n"
        )
        .into_bytes();
        if let Some(user) = user {
            head.extend_from_slice(b"Authorization: Basic ");
            let begin = head.len();
            head.extend_from_slice(&percent_decoded(user));
            base64_in_place(&mut head, begin);
            head.extend_from_slice(b"\r\n");
        }
        let mut protocols = String::new();
        for field in fields.split('&').filter(|field| !field.is_empty()) {
            let (name, value) = header(field)?;
            if name.eq_ignore_ascii_case("sec-websocket-protocol") {
                value.clone_into(&mut protocols);
            }
            head.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        head.extend_from_slice(b"Sec-WebSocket-Key: ");
        Ok(Self { authority: address.authority, tls_host: address.tls_host, before_key: head, protocols })
    }

    /// Appends the request of a new connection. Returns the connection's number.
    pub fn request(&self, out: &mut Vec<u8>) -> u32 {
        let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        out.extend_from_slice(&self.before_key);
        write_key(number, out);
        out.extend_from_slice(b"\r\n\r\n");
        number
    }

    /// Reads the answer on the connection with this number.
    pub fn answered(&self, number: u32, input: &[u8]) -> Opening {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut answer = httparse::Response::new(&mut headers);
        let used = match answer.parse(&input[..input.len().min(HEAD_LIMIT)]) {
            Ok(httparse::Status::Complete(used)) => used,
            Ok(httparse::Status::Partial) if input.len() < HEAD_LIMIT => return Opening::Wait { used: 0 },
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Opening::Refused(AttemptCause::TooLong);
            }
            Err(_) => {
                return match http2_frames(input) {
                    Err(cause) => Opening::Refused(cause),
                    Ok(_) => Opening::Wait { used: 0 },
                };
            }
        };
        match answer.code {
            Some(101) if self.accepts(number, answer.headers) => Opening::Open { used },
            Some(101) | None => Opening::Refused(AttemptCause::BadAnswer),
            Some(status) => {
                let known = (0..).zip(STATUSES).find(|(_, known)| *known == status);
                let number = known.map_or(STATUSES.len() as u8, |(number, _)| number);
                Opening::Refused(AttemptCause::Greeted(number))
            }
        }
    }

    /// Whether the headers of an answer are those of a handshake with this key.
    fn accepts(&self, number: u32, headers: &[httparse::Header<'_>]) -> bool {
        let values = |name: &'static str| {
            let named = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
            named.map(|header| header.value.trim_ascii())
        };
        let has_word = |name, word: &[u8]| {
            let mut words = values(name).flat_map(|value| value.split(|byte| *byte == b','));
            words.any(|found: &[u8]| found.trim_ascii().eq_ignore_ascii_case(word))
        };
        let mut expected = Vec::with_capacity(64);
        write_accept(number, &mut expected);
        let offered = |chosen: &[u8]| self.protocols.split(',').any(|offered| offered.trim().as_bytes() == chosen);
        has_word("upgrade", b"websocket")
            && has_word("connection", b"upgrade")
            && values("sec-websocket-accept").eq([expected.as_slice()])
            && values("sec-websocket-extensions").all(<[u8]>::is_empty)
            && values("sec-websocket-protocol").all(offered)
    }
}

/// Reads `name=value`, a header of the handshake.
fn header(field: &str) -> Result<(&str, String), String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let (name, value) = field.split_once('=').ok_or_else(|| format!("`{field}` is not a header: {FORM}"))?;
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("`{name}` is not the name of a header: {FORM}"));
    }
    if OWN.iter().any(|own| own.eq_ignore_ascii_case(name)) {
        return Err(format!("the handshake sets `{name}` itself: leave it out"));
    }
    let value = String::from_utf8(percent_decoded(value)).map_err(|_| format!("`{name}` is not UTF-8"))?;
    if value.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f) {
        return Err(format!("`{name}` has a control character, which a header cannot hold"));
    }
    Ok((name, value))
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = text.as_bytes().to_vec();
    decode_percent(&mut decoded);
    decoded
}

fn write_key(number: u32, out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(&KEY_BEGIN);
    out.extend_from_slice(&number.to_be_bytes());
    base64_in_place(out, begin);
}

/// Appends the value of `Sec-WebSocket-Accept` that answers the key of the connection with this
/// number.
pub fn write_accept(number: u32, out: &mut Vec<u8>) {
    let begin = out.len();
    write_key(number, out);
    let accept = accept_of(&out[begin..]);
    out.truncate(begin);
    out.extend_from_slice(&accept);
    base64_in_place(out, begin);
}

/// Returns the hash that answers a key.
pub fn accept_of(key: &[u8]) -> [u8; 20] {
    Sha1::new().chain_update(key).chain_update(GUID).finalize().into()
}

/// Returns the number of the connection with this key, if Plimsoll has made the key.
#[cfg(any(test, feature = "testing"))]
pub fn number_of(key: &str) -> Option<u32> {
    // The last four bytes, in eight digits of which the last two are padding.
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = key.as_bytes().get(16..22)?;
    let mut number = 0_u64;
    for digit in digits {
        let value = DIGITS.iter().position(|known| known == digit)?;
        number = number << 6 | value as u64;
    }
    u32::try_from(number >> 4).ok()
}
