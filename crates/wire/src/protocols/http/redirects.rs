//! Destinations of redirects (RFC 9110, 15.4): the next request of a step that follows redirects.

use super::HttpAddress;
use super::framing::{ResponseHead, headers};
use super::request::Request;
use crate::protocols::Call;
use crate::redirection::{Redirection, Unfollowed};
use crate::values::OperationValues;
use crate::values::encoding::encode_percent;

/// Longest target of a request that follows a redirect, bytes.
const TARGET_LIMIT: usize = 8 * 1024;

/// The requests that follow redirects of a step, with a gap for their target.
#[derive(Debug)]
pub struct FollowingRequests<L> {
    /// Maximum number of redirects in a row.
    most: u32,
    /// The step's request itself.
    same: L,
    /// The same request as GET or HEAD without a body.
    without_body: L,
    method: RedirectedMethod,
    /// Prefix of the path, and the index of the path among the arguments.
    base: Box<str>,
    path: usize,
    /// Host and port in the URL of the service.
    host: Box<str>,
    is_secure: bool,
    /// Index of the argument that replaces the `Host` header, if any.
    host_argument: Option<usize>,
}

/// Kinds of methods with regard to redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RedirectedMethod {
    Post,
    Head,
    Other,
}

impl<L> FollowingRequests<L> {
    /// Compiles the requests of a step that follows redirects. `layout` compiles a request whose
    /// target is the destination of a redirect, with or without its body.
    pub fn compile(
        place: &HttpAddress,
        call: &Call<'_>,
        method: &str,
        layout: impl Fn(bool) -> Result<L, String>,
    ) -> Result<Option<Box<Self>>, String> {
        let Some(path) = call.argument("path").filter(|_| call.follow > 0) else { return Ok(None) };
        Ok(Some(Box::new(Self {
            most: call.follow,
            same: layout(true)?,
            without_body: layout(false)?,
            method: match method {
                "POST" => RedirectedMethod::Post,
                "HEAD" => RedirectedMethod::Head,
                _ => RedirectedMethod::Other,
            },
            base: place.base.as_str().into(),
            path,
            host: place.host.as_str().into(),
            is_secure: place.tls_host.is_some(),
            host_argument: call.arguments.iter().position(|argument| argument.name.eq_ignore_ascii_case("header.host")),
        })))
    }

    /// Returns the layout of the next request.
    pub fn layout(&self, redirection: &Redirection) -> &L {
        if redirection.drops_body { &self.without_body } else { &self.same }
    }

    /// Whether the next request has no body, after an answer with this status (RFC 9110, 15.4.2 to
    /// 15.4.4; 301 and 302 as all browsers do).
    fn drops_body(&self, status: u16) -> bool {
        match status {
            303 => true,
            301 | 302 => self.method == RedirectedMethod::Post,
            _ => false,
        }
    }

    /// Whether the service itself has this scheme and authority. Only the service is followed.
    fn is_here(&self, is_secure: bool, authority: &[u8], values: &OperationValues<'_>, scratch: &mut Vec<u8>) -> bool {
        if is_secure != self.is_secure {
            return false;
        }
        if is_same_authority(self.host.as_bytes(), authority, is_secure) {
            return true;
        }
        let Some(argument) = self.host_argument else { return false };
        scratch.clear();
        values.write(argument, scratch);
        is_same_authority(scratch, authority, is_secure)
    }
}

/// Returns the status and the destination of an answer that can be followed.
pub fn destination(head: ResponseHead, block: &[u8]) -> Option<(u16, &[u8])> {
    let is_redirect = matches!(head.status, 301..=303 | 307 | 308);
    is_redirect.then(|| headers(block, "location").next().map(|to| (head.status, to)))?
}

/// Sets the request that follows the redirect to `location`. `scratch` may be used.
pub fn follow<L>(
    request: &Request<L>,
    (status, location): (u16, &[u8]),
    values: &OperationValues<'_>,
    redirection: &mut Redirection,
    scratch: &mut Vec<u8>,
) -> Option<Result<u16, Unfollowed>> {
    let following = request.following.as_deref()?;
    if redirection.count >= following.most {
        return Some(Err(Unfollowed::TooMany));
    }
    if redirection.count == 0 {
        redirection.target.clear();
        redirection.target.extend_from_slice(following.base.as_bytes());
        values.write(following.path, &mut redirection.target);
    }
    let reference = Reference::parse(location);
    let mut is_here =
        |is_secure: bool, authority: &[u8]| following.is_here(is_secure, authority, values, &mut *scratch);
    let (origin, current) = split_origin(&redirection.target);
    // The target of a request to a forward proxy is a whole URL, whose host is its own service.
    let own = origin.map(|origin| &origin[HTTP.len()..]);
    let scheme_is_secure = match reference.scheme {
        None => following.is_secure && own.is_none(),
        Some(scheme) if scheme.eq_ignore_ascii_case(b"https") => true,
        Some(scheme) if scheme.eq_ignore_ascii_case(b"http") => false,
        Some(_) => return Some(Err(Unfollowed::Elsewhere)),
    };
    let is_here = match (reference.authority, own) {
        // A scheme without an authority, such as `http:x`, has no meaning.
        (None, _) => reference.scheme.is_none(),
        (Some(authority), Some(own)) => !scheme_is_secure && is_same_authority(own, authority, false),
        (Some(authority), None) => is_here(scheme_is_secure, authority),
    };
    if !is_here {
        return Some(Err(Unfollowed::Elsewhere));
    }
    let mut target = origin.unwrap_or_default().to_vec();
    reference.resolve(current, &mut target);
    if target.len() > TARGET_LIMIT {
        return Some(Err(Unfollowed::TooLong));
    }
    redirection.target.clear();
    redirection.target.extend_from_slice(&target);
    redirection.count += 1;
    redirection.drops_body |= following.drops_body(status);
    Some(Ok(status))
}

const HTTP: &[u8] = b"http://";

/// Splits a request's target into scheme and authority, if it is a whole URL, and the rest.
fn split_origin(target: &[u8]) -> (Option<&[u8]>, &[u8]) {
    if !target.starts_with(HTTP) {
        return (None, target);
    }
    let end = target[HTTP.len()..].iter().position(|byte| b"/?#".contains(byte));
    let (origin, rest) = target.split_at(end.map_or(target.len(), |end| HTTP.len() + end));
    (Some(origin), rest)
}

/// A parsed reference (RFC 3986, 4.1), without its fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reference<'a> {
    scheme: Option<&'a [u8]>,
    authority: Option<&'a [u8]>,
    path: &'a [u8],
    /// Query with its question mark.
    query: &'a [u8],
}

impl<'a> Reference<'a> {
    fn parse(text: &'a [u8]) -> Self {
        let text = text.split(|byte| *byte == b'#').next().unwrap_or_default();
        let is_scheme = |scheme: &[u8]| {
            scheme.first().is_some_and(u8::is_ascii_alphabetic)
                && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
        };
        let colon = text.iter().position(|byte| *byte == b':').filter(|colon| is_scheme(&text[..*colon]));
        let (scheme, rest) = colon.map_or((None, text), |colon| (Some(&text[..colon]), &text[colon + 1..]));
        let (authority, rest) = match rest.strip_prefix(b"//") {
            Some(rest) => {
                let end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
                (Some(&rest[..end]), &rest[end..])
            }
            None => (None, rest),
        };
        let (path, query) = rest.split_at(rest.iter().position(|byte| *byte == b'?').unwrap_or(rest.len()));
        Self { scheme, authority, path, query }
    }

    /// Appends the path and query of the destination (RFC 3986, 5.2.2), seen from the target
    /// `current`. Bytes that a path cannot hold are percent-encoded.
    fn resolve(self, current: &[u8], out: &mut Vec<u8>) {
        let current = current.split(|byte| *byte == b'#').next().unwrap_or_default();
        let (base, base_query) =
            current.split_at(current.iter().position(|byte| *byte == b'?').unwrap_or(current.len()));
        let mut path = Vec::new();
        let mut query = self.query;
        if self.authority.is_some() || self.path.starts_with(b"/") {
            path.extend_from_slice(self.path);
        } else if self.path.is_empty() {
            path.extend_from_slice(base);
            query = if self.query.is_empty() { base_query } else { self.query };
        } else {
            let directory = base.iter().rposition(|byte| *byte == b'/').map_or(&b"/"[..], |slash| &base[..=slash]);
            path.extend_from_slice(directory);
            path.extend_from_slice(self.path);
        }
        let begin = out.len();
        without_dots(&path, out);
        if out.len() == begin {
            out.push(b'/');
        }
        out.extend_from_slice(query);
        // The target of a request cannot hold other bytes.
        encode_percent(out, begin, |byte| !byte.is_ascii_graphic());
    }
}

/// Appends a path without its segments `.` and `..` (RFC 3986, 5.2.4).
fn without_dots(path: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    let absolute = path.strip_prefix(b"/").unwrap_or(path);
    let mut segments = absolute.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            b"." | b".." => {
                if segment == b".." {
                    let parent = out[begin..].iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                    out.truncate(begin + parent);
                }
                if is_last {
                    out.push(b'/');
                }
            }
            segment => {
                out.push(b'/');
                out.extend_from_slice(segment);
            }
        }
    }
}

/// Whether two authorities name the same host and port. A user name has no meaning here.
fn is_same_authority(one: &[u8], other: &[u8], is_secure: bool) -> bool {
    let usual = if is_secure { 443 } else { 80 };
    let parts = |authority| -> Option<(&[u8], u16)> {
        let text: &[u8] = authority;
        let host_and_port = text.rsplit(|byte| *byte == b'@').next().unwrap_or_default();
        let bracket = host_and_port.iter().rposition(|byte| *byte == b']').unwrap_or(0);
        let Some(colon) = host_and_port[bracket..].iter().position(|byte| *byte == b':') else {
            return Some((host_and_port, usual));
        };
        let (host, port) = host_and_port.split_at(bracket + colon);
        let port = std::str::from_utf8(&port[1..]).ok()?;
        Some((host, if port.is_empty() { usual } else { port.parse().ok()? }))
    };
    match (parts(one), parts(other)) {
        (Some((host, port)), Some((other_host, other_port))) => {
            !host.is_empty() && host.eq_ignore_ascii_case(other_host) && port == other_port
        }
        _ => false,
    }
}

/// Returns the target to which a location leads on the same host.
#[cfg(any(test, feature = "testing"))]
pub fn resolved(current: &[u8], location: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Reference::parse(location).resolve(current, &mut out);
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The examples of RFC 3986, 5.4, for references on the same host.
    #[test]
    fn references_are_resolved_as_in_the_rfc() {
        for (reference, target) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            ("#s", "/b/c/d;p?q"),
            ("g#s", "/b/c/g"),
            ("g?y#s", "/b/c/g?y"),
            (";x", "/b/c/;x"),
            ("", "/b/c/d;p?q"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../g", "/g"),
            ("../../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            ("..g", "/b/c/..g"),
            ("./g/.", "/b/c/g/"),
            ("g/../h", "/b/c/h"),
            ("g;x=1/../y", "/b/c/y"),
            ("g?y/../x", "/b/c/g?y/../x"),
            ("http://a/g?x", "/g?x"),
            ("//a", "/"),
            ("http://a?x", "/?x"),
            ("/caf\u{e9} 1?a b", "/caf%C3%A9%201?a%20b"),
        ] {
            let resolved = String::from_utf8(resolved(b"/b/c/d;p?q", reference.as_bytes())).unwrap();
            assert_eq!(resolved, target, "{reference}");
        }
    }

    #[test]
    fn authorities_are_compared_with_their_usual_ports() {
        for (one, other, is_secure, is_same) in [
            ("Shop.example", "shop.example:80", false, true),
            ("shop.example:443", "shop.example", true, true),
            ("shop.example", "shop.example:443", false, false),
            ("shop.example", "user@shop.example:", false, true),
            ("[::1]:8080", "[::1]:8080", false, true),
            ("[::1]", "[::1]:80", false, true),
            ("h:1", "h:x", false, false),
            ("h", "h.example", false, false),
            ("", "", false, false),
        ] {
            assert_eq!(is_same_authority(one.as_bytes(), other.as_bytes(), is_secure), is_same, "{one} {other}");
        }
    }
}
