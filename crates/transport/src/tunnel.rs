//! Tunnels through a forward proxy to services with TLS. The client requests a tunnel (CONNECT; RFC
//! 9110, 9.3.6) before the TLS handshake. This file does no I/O.

use wire::protocols::http::HttpAddress;

/// Longest accepted answer of a proxy, bytes.
const LONGEST: usize = 16 * 1024;

/// A proxy, and the request for a tunnel through it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelRequest {
    /// `host:port` of the proxy.
    pub proxy: String,
    /// Bytes of the request.
    pub bytes: Vec<u8>,
}

/// Result of parsing a proxy's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TunnelAnswer {
    /// The answer is not complete.
    More,
    /// The tunnel is open: all further bytes go to the service.
    Open,
    /// The proxy refused the tunnel.
    Refused {
        /// Status of the proxy's answer. 0 if the answer has no status.
        status: u16,
        /// The reason, as text.
        why: String,
    },
}

impl TunnelRequest {
    /// Makes the request for a tunnel through `proxy` to `host:port`. Returns a message if the
    /// proxy's address is not valid.
    pub fn of(proxy: &str, authority: &str) -> Result<Self, String> {
        let proxy = HttpAddress::parse(proxy)?.authority;
        let bytes = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n").into_bytes();
        Ok(Self { proxy, bytes })
    }
}

impl TunnelAnswer {
    /// Parses the bytes received so far. A TLS server does not speak first, so bytes after the
    /// answer's header block are an error.
    pub fn of(bytes: &[u8]) -> Self {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return if bytes.len() > LONGEST { Self::refused(0, bytes) } else { Self::More };
        };
        let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let mut words = line.split(|byte| *byte == b' ');
        let is_http = words.next().is_some_and(|version| version.starts_with(b"HTTP/1."));
        let status = words.next().filter(|word| is_http && word.len() == 3);
        let status: u16 = status.and_then(|word| std::str::from_utf8(word).ok()?.parse().ok()).unwrap_or(0);
        let is_open = (200..300).contains(&status) && end + 4 == bytes.len();
        if is_open { Self::Open } else { Self::refused(status, bytes) }
    }

    fn refused(status: u16, bytes: &[u8]) -> Self {
        let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(&line[..line.len().min(100)]);
        let login = if status == 407 { ": it requires a login, which Plimsoll does not send" } else { "" };
        let why = format!("the proxy opened no tunnel and answered `{}`{login}", line.escape_debug());
        Self::Refused { status, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_request_names_the_service_host_and_port() {
        let asked = TunnelRequest::of("http://proxy.example:3128", "shop.example:443").unwrap();
        assert_eq!(asked.proxy, "proxy.example:3128");
        assert_eq!(asked.bytes, b"CONNECT shop.example:443 HTTP/1.1\r\nHost: shop.example:443\r\n\r\n");
        assert!(TunnelRequest::of("ftp://proxy.example", "shop.example:443").is_err());
    }

    #[test]
    fn only_a_bare_2xx_head_opens_a_tunnel() {
        let head = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n";
        for length in 0..head.len() {
            assert_eq!(TunnelAnswer::of(&head[..length]), TunnelAnswer::More, "{length}");
        }
        assert_eq!(TunnelAnswer::of(head), TunnelAnswer::Open);
        assert_eq!(TunnelAnswer::of(b"HTTP/1.0 204 x\r\n\r\n"), TunnelAnswer::Open);
        for refused in [
            &b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\n\r\nhello",
            b"SSH-2.0-x\r\n\r\n",
            b"\r\n\r\n",
            &[b'x'; LONGEST + 1],
        ] {
            assert!(matches!(TunnelAnswer::of(refused), TunnelAnswer::Refused { .. }), "{refused:?}");
        }
        let answer = TunnelAnswer::of(b"HTTP/1.1 403 No\x1b[31m\r\n\r\n");
        let TunnelAnswer::Refused { status: 403, why } = answer else { panic!("{answer:?}") };
        assert_eq!(why, "the proxy opened no tunnel and answered `HTTP/1.1 403 No\\u{1b}[31m`");
    }
}
