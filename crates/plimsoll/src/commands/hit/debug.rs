//! `plimsoll hit --debug`: sends one request instead of a load, and prints the request and its
//! answer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use experiment::plan::Plan;
use load::TlsTrust;
use load::client::ExchangedBytes;
use text::numbers;

use super::message_protocols::MessageProtocol;
use super::options::HitOptions;
use crate::commands::hit;
use crate::exit::{Exit, Failure};
use crate::output;

/// Maximum number of bytes of a body that are printed.
const SHOWN_BYTES: usize = 64 << 10;

/// Sends the request of the plan's only trial, and prints the request and its answer.
pub fn once(asked: &HitOptions, plan: &Plan) -> Result<Exit, Failure> {
    let trial = plan.trials.first().ok_or_else(|| Failure::Ours("a load without a trial".to_owned()))?;
    let timeout_s = trial.load.as_ref().map_or(10.0, |load| load.timeout_s);
    let service = &asked.place.service;
    let unanswered = |error: &load::client::CallError, received: &[u8]| Failure::Unanswered {
        what: hit::words_in_options(&format!("no answer from {service}: {error}")),
        remedy: remedy(service, &error.to_string(), received).to_owned(),
    };
    let trust = TlsTrust { tls: trial.target.tls.clone(), ..TlsTrust::default() };
    let mut client =
        load::client::connect_trusting(&trial.target.protocol, service, &trust, Duration::from_secs_f64(timeout_s))
            .map_err(|error| unanswered(&error, b""))?;
    let begun = Instant::now();
    let answer = client.call(&asked.method, &values(asked));
    let took = begun.elapsed();
    if asked.messages().is_some() {
        // The bytes are frames, so the message is shown as JSON.
        let field = |name: &str| answer.as_ref().ok().and_then(|answer| answer.field(name)).unwrap_or_default();
        let shown = [field("text"), field("message")].map(|field| escaped(&String::from_utf8_lossy(field)));
        output::text(
            &shown.map(|line| if line.is_empty() { line } else { format!("{}\n", text::visible(&line)) }).concat(),
        )?;
    } else {
        let body = answer.as_ref().ok().and_then(|answer| answer.field("body"));
        output::text(&told(client.exchanged(), body))?;
    }
    let answer = answer.map_err(|error| unanswered(&error, &client.exchanged().received))?;
    let took = numbers::micros(took.as_secs_f64() * 1e6);
    output::text(&format!("status {} after {took}, connecting not included\n", answer.status))?;
    Ok(Exit::Well)
}

/// Returns the path, headers and body of the request, by field name, without template syntax.
pub fn values(asked: &HitOptions) -> BTreeMap<String, String> {
    let templates = asked.arguments().into_iter();
    templates.map(|(name, template)| (name, template.replace("{{", "{").replace("}}", "}"))).collect()
}

/// Formats a request and its answer. Lines of the request begin with `>`, lines of the answer's
/// head with `<`. The answer's body has no mark; `body` replaces it if it is coded.
fn told(exchanged: &ExchangedBytes, body: Option<&[u8]>) -> String {
    let received = &exchanged.received;
    let head = received.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(received.len(), |at| at + 4);
    let (head, received_body) = received.split_at(head);
    let is_coded = String::from_utf8_lossy(head).to_ascii_lowercase().contains("\ncontent-encoding:");
    let body = body.filter(|_| is_coded).unwrap_or(received_body);
    let shown = &body[..body.len().min(SHOWN_BYTES)];
    let more = if shown.len() < body.len() {
        format!("\n… and {} more\n", numbers::bytes((body.len() - shown.len()) as f64))
    } else {
        String::new()
    };
    let body = text::visible(&escaped(&String::from_utf8_lossy(shown))).trim_end().to_owned();
    let body = if body.is_empty() { String::new() } else { format!("{body}{more}\n\n") };
    format!("{}\n{}\n{body}", marked(">", &exchanged.sent), marked("<", head))
}

fn marked(sign: &str, bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().map(text::without_controls);
    lines.map(|line| format!("{sign} {line}").trim_end().to_owned() + "\n").collect()
}

/// Escapes control characters except line breaks and tabs, because a terminal would obey them.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.replace("\r\n", "\n").chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            other if other.is_control() => shown.extend(other.escape_debug()),
            other => shown.push(other),
        }
    }
    shown
}

/// Returns the remedy for a request without a valid answer. `received` has the bytes that came.
pub fn remedy(service: &str, why: &str, received: &[u8]) -> &'static str {
    let is_tls = super::options::is_encrypted(service);
    let messages = MessageProtocol::of(service);
    if why.contains("lookup address") {
        lab::UNKNOWN_NAME
    } else if messages == Some(MessageProtocol::Grpc) && (why.contains("HTTP/2") || why.contains("cannot learn")) {
        "give the port of the gRPC server, grpcs:// if it uses TLS, and --proto if it has no server reflection"
    } else if why.contains("HTTP/2") || why.contains("no application protocol") {
        if super::options::is_http2(service) { "leave out --http2" } else { "add --http2" }
    } else if why.contains("the proxy opened no tunnel") {
        "allow this machine in the proxy, or connect without the proxy"
    } else if received.starts_with(b"HTTP/1.") {
        "the answer above breaks a rule or a limit of HTTP/1.1: correct the server"
    } else if is_tls && why.contains("bad certificate") {
        "trust its CA with --cacert ca.pem, or skip the check with -k"
    } else if is_tls && why.contains("refused by the target") {
        "if the server requires a client certificate, give one with --cert client.pem"
    } else if is_tls && why.contains("tls:") {
        match messages {
            None => "if the server speaks no TLS at this port, write http://",
            Some(MessageProtocol::Grpc) => "if the server speaks no TLS at this port, write grpc://",
            Some(MessageProtocol::Websocket) => "if the server speaks no TLS at this port, write ws://",
        }
    } else if !is_tls && (why.contains("closed") || why.contains("reset") || why.contains("bad answer")) {
        match messages {
            None => "if the server speaks TLS at this port, write https://",
            Some(MessageProtocol::Grpc) => "if the server speaks TLS at this port, write grpcs://",
            Some(MessageProtocol::Websocket) => "if the server speaks TLS at this port, write wss://",
        }
    } else {
        "start the server first, or correct the URL"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_and_answer_have_different_prefixes() {
        let exchanged = ExchangedBytes {
            sent: b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(),
            received: b"HTTP/1.1 404 Not Found\r\nX: \x1b[2J\r\n\r\nno such\nthing\n".to_vec(),
        };
        let told = told(&exchanged, None);
        assert!(told.starts_with("> GET / HTTP/1.1\n> Host: h\n>\n\n< HTTP/1.1 404 Not Found\n"), "{told}");
        assert!(told.ends_with("<\n\nno such\nthing\n\n") && !told.contains('\x1b'), "{told}");
        let long =
            ExchangedBytes { received: [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &[b'x'; 70_000]].concat(), ..exchanged };
        assert!(super::told(&long, None).contains("… and 4.46 kB more"));
    }

    #[test]
    fn a_coded_body_is_shown_decoded() {
        let received = b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n\x0b\x02\x80hello\x03".to_vec();
        let exchanged = ExchangedBytes { sent: Vec::new(), received };
        assert!(told(&exchanged, Some(b"hello")).ends_with("<\n\nhello\n\n"));
    }

    #[test]
    fn control_characters_in_a_body_are_escaped() {
        let body = b"HTTP/1.1 200 OK\r\n\r\na\tb\r\n\x1b]0;owned\x07 \xc2\x9b31m\x08 \rover\n";
        let told = told(&ExchangedBytes { received: body.to_vec(), ..ExchangedBytes::default() }, None);
        assert!(told.ends_with("a\tb\n\\u{1b}]0;owned\\u{7} \\u{9b}31m\\u{8} \\rover\n\n"), "{told:?}");
    }

    #[test]
    fn the_remedy_matches_the_failure() {
        for (service, why, words) in [
            ("http://h", "cannot connect to h: failed to lookup address information", "DNS"),
            ("https://h", "cannot connect to h: tls: bad certificate", "--cacert"),
            ("https://h", "cannot connect to h: tls: handshake failed", "http://"),
            ("https://h", "cannot connect to h: tls: refused by the target", "--cert"),
            ("http://h", "the connection was closed before the answer", "https://"),
            ("http://h", "cannot connect to h: Connection refused", "start the server"),
        ] {
            assert!(remedy(service, why, b"").contains(words), "{why}");
        }
        let folded = remedy("http://h", "bad answer: a header is folded", b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n");
        assert!(!folded.contains("https") && folded.contains("HTTP/1.1"), "{folded}");
        assert!(!remedy("http://h", "bad answer: HTTP/2", b"\0").contains("https://"));
    }
}
