//! The request side: where the service is, and steps compiled to pre-encoded requests. It must not look at answers.

use super::Request;
use crate::protocols::Call;
use crate::values::layout::{Builder, Layout, Width};

/// Where a service is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What to connect to: `host:port`.
    pub authority: String,
    /// Whom its certificate names, where it is spoken to by TLS: without port and brackets.
    pub tls_host: Option<String>,
    /// What goes into the `Host` header.
    host: String,
    /// What every path is put behind, without a `/` at its end.
    base: String,
}

impl Place {
    /// Reads `host:port`, `http://host[:port][/base]`, `https://…`.
    pub fn parse(service: &str) -> Result<Self, String> {
        let (scheme, rest) = service.split_once("://").map_or((None, service), |(scheme, rest)| (Some(scheme), rest));
        let usual_port = match scheme {
            Some("http") => Some(80),
            Some("https") => Some(443),
            Some(_) => return Err("write http://host:port or https://host:port".to_owned()),
            None => None,
        };
        let (host, base) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if host.is_empty()
            || host.contains(['@', ' '])
            || base.starts_with(['?', '#'])
            || base.contains(['?', '#', ' '])
        {
            return Err("write http://host:port/path or https://…, without user, query or fragment".to_owned());
        }
        // The port's colon comes after the bracket of an IPv6 address.
        let bracket = host.rfind(']').unwrap_or(0);
        let port = host[bracket..].rsplit_once(':').map(|(_, port)| port);
        let authority = match (port, usual_port) {
            (Some(port), _) if port.parse::<u16>().is_ok() => host.to_owned(),
            (Some(port), _) => return Err(format!("`{port}` is not a port")),
            (None, Some(usual)) => format!("{host}:{usual}"),
            (None, None) => return Err("write host:port, such as 127.0.0.1:8080".to_owned()),
        };
        let name = port.map_or(host, |port| &host[..host.len() - port.len() - 1]);
        let tls_host = (scheme == Some("https")).then(|| name.trim_matches(['[', ']']).to_owned());
        Ok(Self { authority, tls_host, host: host.to_owned(), base: base.trim_end_matches('/').to_owned() })
    }
}

/// A field of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// The status code.
    Status,
    /// The body.
    Body,
    /// A header, its name in lower case.
    Header(String),
}

impl Want {
    fn named(name: &str) -> Self {
        match name.strip_prefix("header.") {
            Some(header) => Self::Header(header.to_ascii_lowercase()),
            None if name == "body" => Self::Body,
            None => Self::Status,
        }
    }
}

/// Compiles a step.
pub fn compile(place: &Place, call: &Call<'_>) -> Result<Request, String> {
    call.check()?;
    let wants: Vec<Want> = call.wants.iter().map(|want| Want::named(want)).collect();
    Ok(Request {
        number: call.number,
        layout: layout(place, call)?,
        is_head: call.operation.name == "head",
        is_safe: matches!(call.operation.name, "get" | "head"),
        wants_head: wants.iter().any(|want| matches!(want, Want::Header(_))),
        wants_body: wants.contains(&Want::Body),
        wants,
    })
}

fn layout(place: &Place, call: &Call<'_>) -> Result<Layout, String> {
    let mut builder = Builder::default();
    let path = call.argument("path").ok_or("a request needs a `path`")?;
    builder.bytes(call.operation.name.to_ascii_uppercase().as_bytes()).bytes(b" ").bytes(place.base.as_bytes());
    check_text("path", call, path, |byte| byte > b' ' && byte != 0x7f)?;
    if let Some(text) = call.arguments[path].template.as_constant()
        && !text.starts_with(b"/")
    {
        return Err("`path` begins with `/`".to_owned());
    }
    builder.value(call.arguments, path).bytes(b" HTTP/1.1\r\n");
    if call.argument("header.host").or(call.argument("header.Host")).is_none() {
        builder.bytes(format!("Host: {}\r\n", place.host).as_bytes());
    }
    if call.closes {
        builder.bytes(b"Connection: close\r\n");
    }
    for (number, argument) in call.arguments.iter().enumerate() {
        let Some(name) = argument.name.strip_prefix("header.") else { continue };
        check_header_name(name)?;
        check_text(&argument.name, call, number, |byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))?;
        builder.bytes(name.as_bytes()).bytes(b": ").value(call.arguments, number).bytes(b"\r\n");
    }
    add_body(&mut builder, call);
    builder.finish()
}

fn add_body(builder: &mut Builder, call: &Call<'_>) {
    // These methods have a body by nature, even an empty one.
    let by_nature = matches!(call.operation.name, "post" | "put" | "patch");
    match call.argument("body") {
        Some(body) => {
            builder.bytes(b"Content-Length: ");
            let length = builder.length(Width::Decimal);
            builder.bytes(b"\r\n\r\n").begin(length).value(call.arguments, body).end(length);
        }
        None if by_nature => drop(builder.bytes(b"Content-Length: 0\r\n\r\n")),
        None => drop(builder.bytes(b"\r\n")),
    }
}

/// Constant texts are checked here. What is only known under load is sent as it is.
fn check_text(name: &str, call: &Call<'_>, place: usize, fine: impl Fn(u8) -> bool) -> Result<(), String> {
    match call.arguments[place].template.as_constant() {
        Some(text) if !text.iter().all(|byte| fine(*byte)) => {
            Err(format!("`{name}` has a character that HTTP does not allow there"))
        }
        _ => Ok(()),
    }
}

fn check_header_name(name: &str) -> Result<(), String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("`{name}` is not the name of a header"));
    }
    if ["content-length", "transfer-encoding", "connection"].contains(&name.to_ascii_lowercase().as_str()) {
        return Err(format!("`{name}` is written by the engine itself"));
    }
    Ok(())
}
