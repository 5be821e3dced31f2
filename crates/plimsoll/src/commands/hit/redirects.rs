//! `plimsoll hit --location`: follows redirects before the load, one request each, to find the URL
//! to load. Under load, redirects are not followed, because a request and its redirect would
//! be reported as one request.

use std::time::Duration;

use experiment::catalog::Protocol;
use experiment::duration;
use load::TlsTrust;

use super::debug;
use super::options::{self, HitOptions, HitTarget};
use crate::exit::Failure;
use crate::output;

/// Maximum number of redirects that are followed.
const MOST: usize = 10;
/// Status codes of redirects to another location (RFC 9110, 15.4).
const ELSEWHERE: [&str; 5] = ["301", "302", "303", "307", "308"];
/// Default time limit for the answer to each request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Follows the redirects of the options' URL, and returns the target to which they lead.
pub fn followed(asked: &HitOptions, protocol: &Protocol) -> Result<HitTarget, Failure> {
    if !matches!(asked.method.as_str(), "get" | "head") {
        return Err(Failure::Bad {
            what: format!(
                "--location with the method {}: the request itself would be sent to find redirects",
                asked.shown_method()
            ),
            remedy: "hit the URL that the redirects lead to".to_owned(),
        });
    }
    let mut asked = asked.clone();
    for _ in 0..MOST {
        let Some(location) = location(&asked, protocol)? else { return Ok(asked.place) };
        let from = &asked.place;
        let url = resolved(from, &location);
        let place = options::place(&url, protocol.schemes).map_err(|wrong| Failure::Bad {
            what: format!("--location: {}{} leads to {}", from.service, from.path, wrong.what),
            remedy: wrong.remedy,
        })?;
        if origin(&place.service) != origin(&from.service) && !asked.headers.is_empty() {
            return Err(Failure::Bad {
                what: format!(
                    "--location: {} leads to {}, which has another scheme, host or port and does not get the headers \
                     of -H",
                    from.service, place.service
                ),
                remedy: "hit that URL directly, with the headers for it".to_owned(),
            });
        }
        output::say(&format!("redirected to {}{}", place.service, place.path));
        asked.place = HitTarget { path: options::literal(&place.path), ..place };
    }
    Err(Failure::Bad {
        what: format!(
            "--location: more than {MOST} redirects, the last to {}{}",
            asked.place.service, asked.place.path
        ),
        remedy: "hit one of these URLs without --location, or correct the server".to_owned(),
    })
}

/// Sends a request and returns the location in its answer; `None` if the answer is no redirect.
fn location(asked: &HitOptions, protocol: &Protocol) -> Result<Option<String>, Failure> {
    let service = &asked.place.service;
    let unanswered = |error: &load::client::CallError| Failure::Unanswered {
        what: format!("no answer from {service}: {error}"),
        remedy: debug::remedy(service, &error.to_string(), b"").to_owned(),
    };
    let trust = TlsTrust { tls: asked.connections.tls.settings(), ..TlsTrust::default() };
    let timeout = asked.timeout.as_deref().and_then(|text| duration::parse_s(text).ok());
    let timeout = timeout.map_or(PATIENCE, Duration::from_secs_f64);
    let mut client =
        load::client::connect_trusting(protocol.name, service, &trust, timeout).map_err(|error| unanswered(&error))?;
    let answer = client.call(&asked.method, &debug::values(asked)).map_err(|error| unanswered(&error))?;
    if !ELSEWHERE.contains(&answer.status.as_str()) {
        return Ok(None);
    }
    Ok(header(&client.exchanged().received, "location"))
}

fn header(received: &[u8], name: &str) -> Option<String> {
    let head = received.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(received, |end| &received[..end]);
    let text = String::from_utf8_lossy(head);
    text.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

/// Resolves a location against the URL whose answer had it (RFC 3986, 5.2). Leaves `..` to servers,
/// which resolve it themselves.
fn resolved(from: &HitTarget, location: &str) -> String {
    let (scheme, _) = from.service.split_once("://").unwrap_or(("http", ""));
    if location.contains("://") {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{}{location}", from.service)
    } else {
        let path = from.path.split('?').next().unwrap_or_default();
        let path = if location.starts_with('?') { path } else { &path[..path.rfind('/').map_or(0, |at| at + 1)] };
        format!("{}{path}{location}", from.service)
    }
}

/// Returns scheme, host and port of a service. Headers of -H are sent only while all three stay the
/// same (as in curl from 7.83 on).
fn origin(service: &str) -> (String, String, &str) {
    let (scheme, authority) = service.split_once("://").unwrap_or(("http", service));
    let scheme = scheme.to_ascii_lowercase();
    let host_end = authority.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match authority[host_end..].rfind(':') {
        Some(colon) => (&authority[..host_end + colon], &authority[host_end + colon + 1..]),
        None => (authority, if options::is_encrypted(service) { "443" } else { "80" }),
    };
    (scheme, host.to_ascii_lowercase(), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_resolved_against_the_request_url() {
        let from = HitTarget { service: "http://h:8080".into(), path: "/a/b?c=d".into() };
        for (location, url) in [
            ("https://other/x", "https://other/x"),
            ("//other/x", "http://other/x"),
            ("/x", "http://h:8080/x"),
            ("x?y", "http://h:8080/a/x?y"),
            ("?z", "http://h:8080/a/b?z"),
        ] {
            assert_eq!(resolved(&from, location), url);
        }
    }

    #[test]
    fn header_names_are_case_insensitive() {
        let answer = b"HTTP/1.1 301 Moved\r\nlOcation:  /there \r\n\r\nLocation: /body";
        assert_eq!(header(answer, "location").as_deref(), Some("/there"));
        assert_eq!(header(b"HTTP/1.1 301 Moved\r\n\r\nLocation: /body", "location"), None);
    }

    #[test]
    fn headers_are_kept_only_within_the_same_origin() {
        for (one, other, is_same) in [
            ("http://h", "http://h:80", true),
            ("https://H", "https://h:443", true),
            ("https://[::1]", "https://[::1]:443", true),
            ("http://h:1", "http://h:2", false),
            ("https://h", "http://h", false),
            ("https://h:8443", "http://h:8443", false),
            ("http://h", "http://other", false),
            ("http://[::1]:1", "http://[::2]:1", false),
        ] {
            assert_eq!(origin(one) == origin(other), is_same, "{one} {other}");
        }
    }
}
