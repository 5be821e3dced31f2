//! URLs of recorded requests: the service, and the path with its query.

use experiment::authority;

use crate::placeholder::has_placeholder;

/// URL of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAddress {
    /// Scheme, host and port: `https://shop.example:8443`.
    pub service: String,
    /// Path and query, from the first `/`.
    pub path: String,
    /// User and password of the URL, if it has a user.
    pub login: Option<String>,
}

impl WebAddress {
    /// Parses an absolute URL. A URL without a scheme counts as `http`, as with curl.
    ///
    /// # Errors
    /// Returns the reason why Plimsoll cannot send requests to this URL.
    pub fn parse(url: &str) -> Result<Self, String> {
        let url = url.trim();
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.bytes().all(is_in_scheme) && !scheme.is_empty() => {
                (scheme.to_ascii_lowercase(), rest)
            }
            _ => match url.split_once(':') {
                Some((scheme @ ("data" | "blob" | "about" | "javascript" | "mailto" | "file"), _)) => {
                    return Err(format!("{scheme}:"));
                }
                _ => ("http".to_owned(), url),
            },
        };
        if !["http", "https", "h2", "h2c"].contains(&scheme.as_str()) {
            return Err(format!("{scheme}://"));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?', '\\']).unwrap_or(rest.len()));
        let (login, host) = match authority.rsplit_once('@') {
            Some((login, host)) => (Some(login.to_owned()), host),
            None => (None, authority),
        };
        if has_placeholder(host) {
            return Err("a host that is not known".to_owned());
        }
        let usual = if ["http", "h2c"].contains(&scheme.as_str()) { ":80" } else { ":443" };
        let host = host.strip_suffix(usual).unwrap_or(host).trim_end_matches(':').to_ascii_lowercase();
        authority::check(&host).map_err(|problem| problem.what.to_owned())?;
        if host.bytes().any(|byte| byte <= b' ' || b"\"'<>\\^`{|}\x7f".contains(&byte)) {
            return Err("a host name with characters that no host has".to_owned());
        }
        Ok(Self { service: format!("{scheme}://{host}"), path: sendable_path(path), login })
    }
}

fn is_in_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

/// Returns a path that HTTP can send: it begins with `/`, and blanks and control characters are
/// percent-encoded.
pub fn sendable_path(path: &str) -> String {
    let mut sendable = String::with_capacity(path.len() + 1);
    if !path.starts_with('/') {
        sendable.push('/');
    }
    for character in path.chars() {
        match character {
            ' ' => sendable.push_str("%20"),
            '\u{0}'..='\u{1f}' | '\u{7f}' => sendable.push_str(&format!("%{:02X}", u32::from(character))),
            other => sendable.push(other),
        }
    }
    sendable
}

/// Whether the service is on this machine.
pub fn is_loopback(service: &str) -> bool {
    let authority = service.split_once("://").map_or(service, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    let host = match authority.rfind(']') {
        Some(end) => &authority[..=end],
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost"
        || host.ends_with(".localhost")
        || host == "[::1]"
        || host.parse::<core::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_service_and_a_path() {
        for (url, service, path) in [
            ("https://Shop.example:443/a?b=c#d", "https://shop.example", "/a?b=c"),
            ("localhost:8080", "http://localhost:8080", "/"),
            ("http://h?q=1 2", "http://h", "/?q=1%202"),
            ("http://[::1]:80/", "http://[::1]", "/"),
        ] {
            let parsed = WebAddress::parse(url).unwrap();
            assert_eq!((parsed.service.as_str(), parsed.path.as_str()), (service, path));
        }
        assert_eq!(WebAddress::parse("http://u:p@h/").unwrap().login.as_deref(), Some("u:p"));
    }

    #[test]
    fn a_url_that_cannot_be_sent_has_a_reason() {
        for url in [
            "ws://h/",
            "data:text/plain,a",
            "http://",
            "http://a b/",
            "http://h:0/",
            "http://é/",
            "chrome-extension://a/b",
        ] {
            assert!(WebAddress::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn loopback_addresses_are_on_this_machine() {
        for service in ["http://localhost:80", "https://127.0.0.2", "http://[::1]:3000/base", "http://a.localhost"] {
            assert!(is_loopback(service), "{service}");
        }
        for service in ["http://localhost.example", "http://10.0.0.1", "http://[::2]", "https://example.com"] {
            assert!(!is_loopback(service), "{service}");
        }
    }
}
