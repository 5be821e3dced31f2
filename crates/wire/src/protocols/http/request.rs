//! Compiled steps of HTTP: what a request asks for in any version of HTTP, and the parts of it that
//! all versions write in the same way.

use super::HttpAddress;
use super::event_stream::EventEnd;
use super::redirects::FollowingRequests;
use crate::protocols::Call;
use crate::values::allowed::{AllowedBytes, NotSendable};
use crate::values::layout::{LayoutBuilder, RequestLayout, ValueCheck};
use crate::values::{Argument, OperationValues};

/// A compiled step. `L` is the layout of its bytes.
#[derive(Debug)]
pub struct Request<L = RequestLayout> {
    pub number: usize,
    layout: L,
    pub is_head: bool,
    /// Whether the method is safe: it changes nothing (RFC 9110, 9.2.1).
    pub is_safe: bool,
    pub wants: Vec<Want>,
    /// Destination of the request, if cookies are kept.
    pub cookie_target: Option<CookieTarget>,
    /// The requests that follow redirects, if the step follows them.
    pub following: Option<Box<FollowingRequests<L>>>,
    pub wants_head: bool,
    pub wants_body: bool,
    /// End of the stream of events that the answer is read as, if it is.
    pub stream: Option<EventEnd>,
}

/// Destination of a request, by which cookies are stored.
#[derive(Debug)]
pub struct CookieTarget {
    /// Host in lower case. Empty if the session has one host.
    pub host: Box<str>,
    /// Prefix of the path.
    pub base: Box<str>,
    /// Index of the path among the arguments.
    pub path: usize,
}

/// A requested field of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    Status,
    Body,
    /// A header, with its name in lower case.
    Header(String),
    /// A cookie.
    Cookie(String),
}

impl Want {
    pub fn named(name: &str) -> Self {
        match name.split_once('.') {
            Some(("header", header)) => Self::Header(header.to_ascii_lowercase()),
            Some(("cookie", cookie)) => Self::Cookie(cookie.to_owned()),
            _ if name == "body" => Self::Body,
            _ => Self::Status,
        }
    }
}

/// Targets of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestTarget {
    /// The step's path.
    Path,
    /// The destination of a redirect. Without a body, the method is GET or HEAD.
    Destination { has_body: bool },
}

impl RequestTarget {
    /// Whether the request has the step's body.
    pub fn has_body(self) -> bool {
        self != Self::Destination { has_body: false }
    }
}

impl<L> Request<L> {
    /// Compiles a step. `layout` lays out a request with its method and its target.
    pub fn compile(
        place: &HttpAddress,
        call: &Call<'_>,
        layout: impl Fn(&str, RequestTarget) -> Result<L, String>,
    ) -> Result<Self, String> {
        call.check()?;
        let wants: Vec<Want> = call.wants.iter().map(|want| Want::named(want)).collect();
        let method = method(call)?;
        let layout = |target: RequestTarget| {
            let method = if target.has_body() || method == "HEAD" { method.as_str() } else { "GET" };
            layout(method, target)
        };
        Ok(Self {
            number: call.number,
            layout: layout(RequestTarget::Path)?,
            is_head: method == "HEAD",
            is_safe: SAFE_METHODS.contains(&method.as_str()),
            following: FollowingRequests::compile(place, call, &method, |has_body| {
                layout(RequestTarget::Destination { has_body })
            })?,
            cookie_target: call.argument("path").filter(|_| call.cookies).map(|path| CookieTarget {
                host: call.cookie_host.into(),
                base: place.base.as_str().into(),
                path,
            }),
            wants_head: call.cookies
                || call.follow > 0
                || call.stream.is_some()
                || wants.iter().any(|want| matches!(want, Want::Header(_) | Want::Cookie(_))),
            wants_body: wants.contains(&Want::Body),
            stream: call.stream.map(EventEnd::compile),
            wants,
        })
    }

    /// Returns the layout of the request with these values.
    #[inline]
    pub fn layout(&self, values: &OperationValues<'_>) -> &L {
        match (&self.following, values.redirection) {
            (Some(following), Some(redirection)) => following.layout(redirection),
            _ => &self.layout,
        }
    }
}

/// Returns the value of the header `accept` by which a request asks for a stream of events, unless
/// the step sets it.
pub fn accepted_type(call: &Call<'_>) -> Option<&'static str> {
    let is_set = call.arguments.iter().any(|argument| argument.name.eq_ignore_ascii_case("header.accept"));
    (call.stream.is_some() && !is_set).then_some("text/event-stream")
}

/// Methods that change nothing (RFC 9110, 9.2.1, and IANA's registry of methods).
const SAFE_METHODS: [&str; 8] = ["GET", "HEAD", "OPTIONS", "PROPFIND", "QUERY", "REPORT", "SEARCH", "TRACE"];

/// Returns the method of a step.
fn method(call: &Call<'_>) -> Result<String, String> {
    let Some(argument) = call.argument("method") else { return Ok(call.operation.name.to_ascii_uppercase()) };
    let Some(method) = call.arguments[argument].template.as_constant() else {
        return Err("`method` must be a literal text, without placeholders".to_owned());
    };
    let shown = String::from_utf8_lossy(method).into_owned();
    if method.is_empty() || !method.iter().all(|byte| is_token_byte(*byte)) {
        return Err(format!("`method`: {shown:?} is not the name of a method: write one word, such as PROPFIND"));
    }
    if shown == "CONNECT" {
        return Err(
            "`method`: CONNECT opens a tunnel and is no request: for a proxy, write `tls.proxy` in [target]".into()
        );
    }
    let is_body = |name: &str| name == "body" || ["form.", "multipart."].iter().any(|start| name.starts_with(start));
    let has_body = call.arguments.iter().any(|argument| is_body(&argument.name));
    if shown == "TRACE" && has_body {
        return Err("`method`: TRACE has no body (RFC 9110, 9.3.8)".to_owned());
    }
    Ok(shown)
}

/// Whether a token of HTTP may have this byte (RFC 9110, 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Adds the path of the request. `begins` are its allowed beginnings.
pub fn add_path(
    builder: &mut LayoutBuilder,
    place: &HttpAddress,
    call: &Call<'_>,
    begins: &'static [&'static [u8]],
) -> Result<(), String> {
    let path = call.argument("path").ok_or("an operation needs a `path`")?;
    builder.bytes(place.base.as_bytes());
    let template = &call.arguments[path].template;
    let begins_with = template.begins_with();
    let is_known = !template.is_from_outside() || !begins_with.is_empty();
    if is_known && !begins.iter().any(|begins| begins_with.starts_with(begins)) {
        let or = if begins.len() > 1 { ", or be a complete http:// URL for a forward proxy" } else { "" };
        return Err(format!("`path` must begin with `/`{or}"));
    }
    let check = ValueCheck {
        allowed: AllowedBytes::which(|byte| byte > b' ' && byte != 0x7f, NotSendable::InPath),
        begins: if is_known { &[] } else { begins },
        ..ValueCheck::default()
    };
    checked(builder, call, path, &check)
}

/// Returns the indexes and names of the arguments that are headers. Without a body, headers that
/// describe it are left out (RFC 9110, 15.4).
pub fn header_arguments<'a>(call: &Call<'a>, has_body: bool) -> Result<Vec<(usize, &'a str)>, String> {
    let mut headers = Vec::new();
    for (number, argument) in call.arguments.iter().enumerate() {
        let Some(name) = argument.name.strip_prefix("header.") else { continue };
        check_header_name(name)?;
        let is_same = |other: &&Argument| {
            other.name.strip_prefix("header.").is_some_and(|other| other.eq_ignore_ascii_case(name))
        };
        if let Some(other) = call.arguments[..number].iter().find(is_same) {
            return Err(format!("`{}` is the same header as `{}`: set it only once", argument.name, other.name));
        }
        if has_body || !name.to_ascii_lowercase().starts_with("content-") {
            headers.push((number, name));
        }
    }
    Ok(headers)
}

/// Returns the check of a header's value.
pub fn header_check() -> ValueCheck {
    let is_in_header = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    ValueCheck { allowed: AllowedBytes::which(is_in_header, NotSendable::InHeader), ..ValueCheck::default() }
}

/// Adds a value. Its literal parts are checked now; its variable parts are checked when they are
/// written.
pub fn checked(builder: &mut LayoutBuilder, call: &Call<'_>, place: usize, check: &ValueCheck) -> Result<(), String> {
    let Argument { name, template } = &call.arguments[place];
    if template.literals().into_iter().any(|text| check.allowed.check(text).is_err()) {
        return Err(format!("`{name}` has a character that HTTP does not allow in it"));
    }
    builder.checked(call.arguments, place, check.clone());
    Ok(())
}

fn check_header_name(name: &str) -> Result<(), String> {
    if name.is_empty() || !name.bytes().all(is_token_byte) {
        return Err(format!("`header.{name}`: `{name}` is not the name of a header"));
    }
    if ["content-length", "transfer-encoding", "connection"].contains(&name.to_ascii_lowercase().as_str()) {
        return Err(format!("`header.{name}`: Plimsoll itself sets `{name}`"));
    }
    Ok(())
}
