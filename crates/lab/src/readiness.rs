//! Waiting for a process of the target, until it is ready, has ended, or its time limit has passed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use experiment::socket_url;
use transport::client::{self, CallError};
use transport::tls::TlsTrust;
use wire::protocols::http::Http;

use crate::hooks::Hook;
use crate::host_process::ProcessExit;
use crate::session::HostProcess;
use crate::{Caller, Error, HostTask};

/// Interval between attempts.
const INTERVAL: Duration = Duration::from_millis(20);
/// Interval between attempts that run a program.
const PROGRAM_INTERVAL: Duration = Duration::from_millis(250);
/// Time limit of an attempt over TCP or HTTP.
const PATIENCE: Duration = Duration::from_secs(2);

/// A readiness check with all placeholders filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadinessCheck {
    /// This operation of the target's protocol must return `ok`.
    Call {
        /// `host:port` or URL.
        service: String,
        operation: String,
    },
    /// A server must accept a connection at each `host:port` or URL.
    Tcp(Vec<String>),
    /// A GET of this URL must return 2xx.
    Http(String),
    /// This program must exit with 0 on the host.
    Run(Box<Hook>),
}

impl std::fmt::Display for ReadinessCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call { service, operation } => write!(f, "call `{operation}` to {service}"),
            Self::Tcp(places) => write!(f, "a connection to {}", places.join(", ")),
            Self::Http(url) => write!(f, "GET {url}"),
            Self::Run(hook) => write!(f, "{} to exit with 0", hook.path.display()),
        }
    }
}

/// A wait for a process to become ready.
pub struct ReadinessWait<'a> {
    /// Role of the process, for messages.
    pub role: &'a str,
    pub check: &'a ReadinessCheck,
    /// The program to run, for [`ReadinessCheck::Run`].
    pub program: Option<&'a HostTask>,
    /// Time limit, seconds.
    pub within_s: f64,
    /// Whether the process may end with exit code 0 before it is ready, like a command that starts
    /// a background process.
    pub may_detach: bool,
}

/// Repeats the check every 20 ms (a program every 250 ms) until the process is ready.
pub fn wait(
    waiting: &ReadinessWait<'_>,
    process: &HostProcess,
    caller: &dyn Caller,
    must_stop: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let until = Instant::now() + Duration::try_from_secs_f64(waiting.within_s).unwrap_or(Duration::MAX / 4);
    loop {
        let is_told_to_stop = must_stop();
        let tried = match waiting.program {
            _ if is_told_to_stop => Err(String::new()),
            Some(program) => program.run(must_stop).failed().map_or(Ok(()), Err),
            None => attempt(waiting.check, caller),
        };
        // Checked after the attempt: if the process has ended, another process on its port may have
        // answered.
        match process.ended() {
            Some(ProcessExit::Exit(0)) if waiting.may_detach => {}
            Some(ended) => {
                let (how, log) = (ended.to_string(), process.last_lines());
                return Err(Error::DiedAtStart { role: waiting.role.to_owned(), how, log, hidden: None });
            }
            None => {}
        }
        // A process that ended is reported, even if the wait was stopped.
        if is_told_to_stop {
            return Err(Error::Interrupted);
        }
        let Err(last) = tried else { return Ok(()) };
        if Instant::now() >= until {
            return Err(Error::NotReady {
                role: waiting.role.to_owned(),
                tried: waiting.check.to_string(),
                within_s: waiting.within_s,
                last,
                log: process.last_lines(),
            });
        }
        process.wait(if waiting.program.is_some() { PROGRAM_INTERVAL } else { INTERVAL });
    }
}

fn attempt(check: &ReadinessCheck, caller: &dyn Caller) -> Result<(), String> {
    match check {
        // Connects first: a refused connection fails at once, but a caller would retry for longer.
        ReadinessCheck::Call { service, operation } => {
            reach(service)?;
            caller.call(service, operation, &BTreeMap::new())
        }
        ReadinessCheck::Tcp(places) => places.iter().try_for_each(|place| reach(place)),
        ReadinessCheck::Http(url) => get(url, caller),
        // The caller of `attempt` runs the program on its host.
        ReadinessCheck::Run(_) => Err("the program was not run".to_owned()),
    }
}

/// Checks that a server accepts connections at a URL or `host:port`.
pub fn reach(url: &str) -> Result<(), String> {
    if let Some(socket) = socket_url::socket_of(url) {
        return UnixStream::connect(socket?).map(drop).map_err(|error| in_words(&error));
    }
    connect(&UrlParts::parse(url)?).map(drop)
}

/// Returns the address to which the load's clients connect: the first of the URL's addresses that
/// accepts a connection, or else the first.
pub fn address(url: &str) -> Result<SocketAddr, String> {
    if let Some(Ok(socket)) = socket_url::socket_of(url) {
        return Err(format!("the target listens on the socket {socket}"));
    }
    let place = UrlParts::parse(url)?;
    let found = (place.host.as_str(), place.port).to_socket_addrs().map_err(|error| error.to_string())?;
    let addresses: Vec<SocketAddr> = found.collect();
    let accepts = |address: &&SocketAddr| TcpStream::connect_timeout(address, PATIENCE).is_ok();
    let accepting = if addresses.len() > 1 { addresses.iter().find(accepts) } else { None };
    accepting.or(addresses.first()).copied().ok_or_else(|| format!("`{}` has no address", place.host))
}

/// Returns `host:port` of each URL. Empty if a URL has none or if two URLs have the same.
pub fn places(urls: &[String]) -> Vec<String> {
    let place = |url: &String| UrlParts::parse(url).ok().map(|place| format!("{}:{}", place.host, place.port));
    let places: BTreeSet<String> = urls.iter().filter_map(place).collect();
    if places.len() == urls.len() { urls.iter().filter_map(place).collect() } else { Vec::new() }
}

fn connect(place: &UrlParts) -> Result<TcpStream, String> {
    let addresses = (place.host.as_str(), place.port).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut refused = format!("`{}` has no address", place.host);
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => refused = in_words(&error),
        }
    }
    Err(refused)
}

fn get(url: &str, caller: &dyn Caller) -> Result<(), String> {
    let place = UrlParts::parse(url)?;
    // Connects first, because a refused connection then gives a short error text.
    connect(&place)?;
    match place.scheme.as_str() {
        "http" => {}
        "https" => return caller.get(&place.origin(), &place.path),
        other => return Err(format!("`{other}` is not supported in a readiness check: expected http or https")),
    }
    let with = [("path".to_owned(), place.path.clone())].into();
    let client = client::connect::<Http>(&place.origin(), &TlsTrust::default(), PATIENCE);
    match client.and_then(|mut client| client.call("get", &with)) {
        Ok(answer) if answer.status.starts_with('2') => Ok(()),
        Ok(answer) => Err(format!("status {}", answer.status)),
        Err(CallError::BadAnswer(_)) => Err("an answer that is not HTTP".to_owned()),
        Err(CallError::Timeout(_)) => Err(in_words(&io::ErrorKind::TimedOut.into())),
        Err(error) => Err(error.to_string()),
    }
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => format!("no answer within {} s", PATIENCE.as_secs()),
        _ => error.to_string(),
    }
}

// The parts of a URL that the lab needs: where to connect, and what to GET.

/// Parts of a URL, or of a bare `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlParts {
    /// Scheme, such as `http`. Empty for a bare `host:port`.
    pub scheme: String,
    /// Name or address, without brackets.
    pub host: String,
    /// Port, given or implied by the scheme.
    pub port: u16,
    /// Path and query; at least `/`.
    pub path: String,
}

impl UrlParts {
    /// Splits a URL into its parts.
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
            return Err(format!("`{url}` has no host name"));
        }
        let port = match (port, scheme) {
            (Some(port), _) => port.parse().map_err(|_| format!("`{port}` in `{url}` is not a port"))?,
            (None, "http") => 80,
            (None, "https") => 443,
            (None, _) => return Err(format!("`{url}` has no port")),
        };
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { scheme: scheme.to_owned(), host: host.to_owned(), port, path })
    }

    /// Returns scheme, host and port: the URL before its path.
    pub fn origin(&self) -> String {
        let brackets = if self.host.contains(':') { ["[", "]"] } else { ["", ""] };
        format!("{}://{}{}{}:{}", self.scheme, brackets[0], self.host, brackets[1], self.port)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;

    use super::*;
    use crate::fakes::LineClient;

    /// Starts a server that sends one answer on each connection. Returns its address.
    fn answering(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::Builder::new()
            .spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    let mut line = String::new();
                    let _ = BufReader::new(stream.try_clone().unwrap()).read_line(&mut line);
                    let _ = stream.write_all(answer.as_bytes());
                }
            })
            .unwrap();
        address
    }

    #[test]
    fn http_is_ready_with_2xx_only() {
        let get = |answer| get(&format!("http://{}/health", answering(answer)), &LineClient);
        assert_eq!(get("HTTP/1.1 200 OK\r\n\r\n"), Ok(()));
        assert_eq!(get("HTTP/1.0 204 \r\n\r\n"), Ok(()));
        assert_eq!(get("HTTP/1.1 503 Service Unavailable\r\n\r\n"), Err("status 503".to_owned()));
        assert_eq!(get("HTTP/1.1 302 Found\r\n\r\n"), Err("status 302".to_owned()));
        assert_eq!(get("SSH-2.0-OpenSSH\r\n"), Err("an answer that is not HTTP".to_owned()));
        assert_eq!(get(""), Err("the connection was closed before the answer".to_owned()));
    }

    #[test]
    fn failed_checks_state_their_reason() {
        let other = format!("ftp://{}/", answering(""));
        assert_eq!(
            get(&other, &LineClient),
            Err("`ftp` is not supported in a readiness check: expected http or https".to_owned())
        );
        let secret = format!("https://{}/health?now", answering(""));
        assert_eq!(
            get(&secret, &LineClient),
            Err(format!("asked `/health?now` of {}", secret.trim_end_matches("/health?now")))
        );
        let free = runner::ports::free(1).unwrap()[0];
        assert_eq!(reach(&format!("127.0.0.1:{free}")), Err("connection refused".to_owned()));
        let check = ReadinessCheck::Call { service: format!("127.0.0.1:{free}"), operation: "ping".to_owned() };
        assert_eq!(attempt(&check, &LineClient), Err("connection refused".to_owned()));
        assert_eq!(check.to_string(), format!("call `ping` to 127.0.0.1:{free}"));
    }

    #[test]
    fn a_call_must_be_ok() {
        let check = |answer| ReadinessCheck::Call { service: answering(answer), operation: "ping".to_owned() };
        assert_eq!(attempt(&check("ok\n"), &LineClient), Ok(()));
        assert!(attempt(&check("busy\n"), &LineClient).is_err());
        assert_eq!(attempt(&ReadinessCheck::Tcp(vec![answering("")]), &LineClient), Ok(()));
    }

    #[test]
    fn urls_are_parsed() {
        let place = |url: &str| UrlParts::parse(url).map(|place| (place.scheme, place.host, place.port, place.path));
        let is = |scheme: &str, host: &str, port, path: &str| {
            Ok((scheme.to_owned(), host.to_owned(), port, path.to_owned()))
        };
        assert_eq!(place("http://10.0.0.7:8080/a?b#c"), is("http", "10.0.0.7", 8080, "/a?b"));
        assert_eq!(place("http://example.org"), is("http", "example.org", 80, "/"));
        assert_eq!(place("https://user:secret@example.org?x"), is("https", "example.org", 443, "/?x"));
        assert_eq!(place("127.0.0.1:7000"), is("", "127.0.0.1", 7000, "/"));
        assert_eq!(place("http://[::1]:81/"), is("http", "::1", 81, "/"));
        assert_eq!(place("http://[::1]/"), is("http", "::1", 80, "/"));
        assert_eq!(place("vsns://n1"), Err("`vsns://n1` has no port".to_owned()));
        assert_eq!(place("http://:80/"), Err("`http://:80/` has no host name".to_owned()));
        assert_eq!(place("n1:many"), Err("`many` in `n1:many` is not a port".to_owned()));
    }
}
