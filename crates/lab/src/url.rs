//! The little that the lab must know of a URL: where to connect, and what to GET. It must not check more than that.

/// Parts of a URL, or of a bare `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// `http`, …; empty in a bare `host:port`.
    pub scheme: String,
    /// Name or address, without brackets.
    pub host: String,
    /// Port, also where it follows from the scheme.
    pub port: u16,
    /// Path and query, at least `/`.
    pub path: String,
}

impl Place {
    /// Takes a URL apart; in words why it cannot.
    pub fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(format!("`{url}` names no host"));
        }
        let port = match (port, scheme) {
            (Some(port), _) => port.parse().map_err(|_| format!("`{port}` in `{url}` is not a port"))?,
            (None, "http") => 80,
            (None, "https") => 443,
            (None, _) => return Err(format!("`{url}` names no port")),
        };
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { scheme: scheme.to_owned(), host: host.to_owned(), port, path })
    }

    /// Scheme, host and port: what a path is put behind.
    pub fn origin(&self) -> String {
        let brackets = if self.host.contains(':') { ["[", "]"] } else { ["", ""] };
        format!("{}://{}{}{}:{}", self.scheme, brackets[0], self.host, brackets[1], self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let place = |url: &str| Place::parse(url).map(|place| (place.scheme, place.host, place.port, place.path));
        let is = |scheme: &str, host: &str, port, path: &str| {
            Ok((scheme.to_owned(), host.to_owned(), port, path.to_owned()))
        };
        assert_eq!(place("http://10.0.0.7:8080/a?b#c"), is("http", "10.0.0.7", 8080, "/a?b"));
        assert_eq!(place("http://example.org"), is("http", "example.org", 80, "/"));
        assert_eq!(place("https://user:secret@example.org?x"), is("https", "example.org", 443, "/?x"));
        assert_eq!(place("127.0.0.1:7000"), is("", "127.0.0.1", 7000, "/"));
        assert_eq!(place("http://[::1]:81/"), is("http", "::1", 81, "/"));
        assert_eq!(place("http://[::1]/"), is("http", "::1", 80, "/"));
        assert_eq!(place("vsns://n1"), Err("`vsns://n1` names no port".to_owned()));
        assert_eq!(place("http://:80/"), Err("`http://:80/` names no host".to_owned()));
        assert_eq!(place("n1:many"), Err("`many` in `n1:many` is not a port".to_owned()));
    }
}
