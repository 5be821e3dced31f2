//! Checks of a URL's host and port, and workarounds for unsupported schemes.

/// A mistake in the host and port of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthorityProblem {
    /// Description of the mistake.
    pub what: &'static str,
    /// Suggested fix.
    pub remedy: &'static str,
}

const FORM: &str = "write a URL such as http://localhost:8080/path";

/// Checks a `HOST` or `HOST:PORT` that has no user.
pub fn check(authority: &str) -> Result<(), AuthorityProblem> {
    let problem = |what, remedy| Err(AuthorityProblem { what, remedy });
    // An IPv6 address contains colons, inside brackets.
    let (host, port) = match authority.rfind(']') {
        Some(end) => (&authority[..=end], authority[end + 1..].strip_prefix(':')),
        None if authority.matches(':').count() > 1 => {
            return problem("an IPv6 address must be in brackets", "write http://[::1]:8080/");
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return problem("this URL names no host", FORM);
    }
    if host.starts_with('[') && host.contains('%') {
        return problem(
            "an IPv6 address with a zone, such as %eth0, is not supported",
            "give an address that is valid on every network, or a name",
        );
    }
    if !host.is_ascii() {
        return problem(
            "a host name with non-ASCII letters is not supported",
            "write the name's DNS form, which begins with xn-- (`idn2 NAME` prints it)",
        );
    }
    match port {
        Some(port) if !port.parse::<u16>().is_ok_and(|port| port > 0) => {
            problem("its port is not a number from 1 to 65535", FORM)
        }
        _ => Ok(()),
    }
}

/// Returns a workaround for a known but unsupported scheme, or `None` for other schemes.
#[must_use]
pub fn way_round(scheme: &str) -> Option<&'static str> {
    Some(match scheme {
        "http2" => "write h2:// for HTTP/2 over TLS, or h2c:// without TLS",
        "h3" | "http3" => "HTTP/3 is not supported: most servers also speak HTTP/2 (h2://) or HTTP/1.1 (https://)",
        "postgres" | "postgresql" | "mysql" | "mariadb" | "mongodb" | "mongodb+srv" | "cassandra" | "amqp"
        | "amqps" | "kafka" | "mqtt" | "mqtts" | "nats" | "ldap" | "ldaps" => {
            "this protocol is not supported: run a client of it as an operation (`command` in \
             docs/reference/protocols.md), or a benchmark whose own count gives the `units`"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_invalid_host_has_its_own_message() {
        for (authority, what) in [
            ("", "names no host"),
            (":80", "names no host"),
            ("::1:80", "brackets"),
            ("fe80::1", "brackets"),
            ("[fe80::1%25eth0]:80", "zone"),
            ("[::1%lo]", "zone"),
            ("bücher.example", "ASCII"),
            ("h:0", "port"),
            ("h:", "port"),
            ("[::1]:x", "port"),
        ] {
            let problem = check(authority).unwrap_err();
            assert!(problem.what.contains(what), "{authority}: {problem:?}");
        }
        for authority in ["h", "h:80", "[::1]", "[::1]:80", "127.1:65535", "xn--bcher-kva.example"] {
            assert_eq!(check(authority), Ok(()), "{authority}");
        }
    }
}
