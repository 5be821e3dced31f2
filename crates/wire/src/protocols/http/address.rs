//! Addresses of HTTP services.

use experiment::socket_url;

/// Prefix of an authority that is the path of a socket.
pub const IN_FILES: &str = "unix:";

/// Address of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAddress {
    /// Address to connect to: `host:port`, or the path of a socket after [`IN_FILES`].
    pub authority: String,
    /// Host name for the server's certificate, without port and brackets. `None` without TLS.
    pub tls_host: Option<String>,
    /// Value of the `Host` header.
    pub host: String,
    /// Prefix of every path, without a `/` at its end.
    pub base: String,
}

impl HttpAddress {
    /// Reads `host:port`, `http://host[:port][/base]`, `https://…`, `http+unix://…`.
    pub fn parse(service: &str) -> Result<Self, String> {
        if let Some(path) = socket_url::socket_of(service) {
            let path: String = path?;
            return Self::of_socket(service, &path);
        }
        let (scheme, rest) = service.split_once("://").map_or((None, service), |(scheme, rest)| (Some(scheme), rest));
        let usual_port = match scheme {
            Some("http") => Some(80),
            Some("https") => Some(443),
            Some(_) => return Err("write http://host:port or https://host:port".to_owned()),
            None => None,
        };
        let (host, base) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let is_blank = |byte: u8| byte <= b' ' || byte == 0x7f;
        if host.is_empty()
            || host.contains('@')
            || base.starts_with(['?', '#'])
            || base.contains(['?', '#'])
            || rest.bytes().any(is_blank)
        {
            return Err("write http://host:port/path or https://…, without user, query or fragment".to_owned());
        }
        // The colon before the port comes after the closing bracket of an IPv6 address.
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

    /// Reads the address of a Unix socket. A socket has no host name; clients send `localhost` by
    /// convention.
    fn of_socket(service: &str, path: &str) -> Result<Self, String> {
        let base = service.splitn(4, '/').nth(3).map_or_else(String::new, |base| format!("/{base}"));
        if base.contains(['?', '#']) || base.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err("write http+unix://%2Fpath%2Fof.sock/path, without query or fragment".to_owned());
        }
        let (host, base) = ("localhost".to_owned(), base.trim_end_matches('/').to_owned());
        Ok(Self { authority: format!("{IN_FILES}{path}"), tls_host: None, host, base })
    }
}
