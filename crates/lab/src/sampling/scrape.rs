//! A target's own figures, asked of it over HTTP as Prometheus does, in Prometheus' text
//! format.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use record::rows::Metric;

use crate::plain_text;
use crate::readiness::Place;

/// For everything, from the connection to the last byte.
const PATIENCE: Duration = Duration::from_millis(800);
/// Of an answer; what is longer is not read.
const ANSWER_BYTES: usize = 4 << 20;

/// Of the figures in an answer; a name can stand there with any number of labels.
const FIGURES: usize = 2000;

/// Where a host's figures are, and which of them are recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// The host.
    pub host: String,
    /// Complete: `http://10.83.0.1:9100/metrics`.
    pub url: String,
    /// Names, without labels.
    pub keep: Vec<String>,
}

impl Endpoint {
    /// What it says now; nothing, if it does not answer in time or not with 200.
    pub fn ask(&self, at_s: f64) -> Vec<Metric> {
        let Ok(answer) = fetch(&self.url) else { return Vec::new() };
        let Some(body) = body(&answer) else { return Vec::new() };
        let text = String::from_utf8_lossy(&body);
        let kept = figures(&text).filter(|figure| self.keep.iter().any(|name| name == figure.name));
        let metrics = kept.take(FIGURES).map(|figure| Metric {
            at_s,
            host: self.host.clone(),
            name: plain_text::line(&format!("{}{}", figure.name, figure.labels)),
            value: figure.value,
        });
        metrics.collect()
    }
}

/// The whole answer, head and body.
fn fetch(url: &str) -> io::Result<Vec<u8>> {
    let place = Place::parse(url).map_err(io::Error::other)?;
    let until = Instant::now() + PATIENCE;
    let left = || match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(left),
    };
    let mut addresses = (place.host.as_str(), place.port).to_socket_addrs()?;
    let address = addresses.next().ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
    let mut stream = TcpStream::connect_timeout(&address, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}:{}\r\nAccept: text/plain;version=0.0.4\r\nConnection: close\r\n\r\n",
        place.path, place.host, place.port
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut piece = vec![0; 64 << 10];
    while !is_complete(&answer) {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if answer.len() > ANSWER_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
    }
    Ok(answer)
}

/// Head, without its end, and what follows.
fn parts(answer: &[u8]) -> Option<(&str, &[u8])> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    Some((std::str::from_utf8(&answer[..end]).ok()?, &answer[end + 4..]))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.into_iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

fn is_chunked(head: &str) -> bool {
    header(head, "transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
}

/// Whether nothing more is to come from a server that keeps the connection open all the same.
fn is_complete(answer: &[u8]) -> bool {
    let Some((head, body)) = parts(answer) else { return false };
    if is_chunked(head) {
        return body.ends_with(b"0\r\n\r\n") && unchunked(body).is_some();
    }
    header(head, "content-length")
        .and_then(|length| length.parse().ok())
        .is_some_and(|length: usize| body.len() >= length)
}

/// The body of an answer with status 200; `None` for every other, and for one that was cut off.
fn body(answer: &[u8]) -> Option<Vec<u8>> {
    let (head, body) = parts(answer)?;
    let mut line = head.lines().next()?.split(' ');
    if !line.next()?.starts_with("HTTP/1.") || line.next()? != "200" {
        return None;
    }
    if is_chunked(head) {
        return unchunked(body);
    }
    match header(head, "content-length") {
        Some(length) => body.get(..length.parse().ok()?).map(<[u8]>::to_vec),
        None => Some(body.to_vec()),
    }
}

fn unchunked(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|bytes| bytes == b"\r\n")?;
        let line = std::str::from_utf8(&body[..end]).ok()?;
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        body = &body[end + 2..];
        if size == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(body.get(..size)?);
        body = body.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

// Prometheus' text format, as far as a figure's name and value go: types, help, timestamps and
// exemplars are passed over.

/// A figure: its name, the same with its labels, and its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure<'a> {
    /// `http_requests_total`
    pub name: &'a str,
    /// `{method="get"}`, or nothing.
    pub labels: &'a str,
    /// Finite.
    pub value: f64,
}

/// Every figure that has a finite value: one that is not a number says that there was nothing to measure.
pub fn figures(text: &str) -> impl Iterator<Item = Figure<'_>> {
    text.lines().filter_map(figure)
}

fn figure(line: &str) -> Option<Figure<'_>> {
    let line = line.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let (name, rest) = line.split_at(line.find(|c| !is_name(c))?);
    if !name.starts_with(|c: char| !c.is_ascii_digit()) {
        return None;
    }
    let rest = rest.trim_start();
    let (labels, rest) = rest.split_at(if rest.starts_with('{') { labels_end(rest)? } else { 0 });
    // Without labels there has to be space, which the name's end has shown; after them there need not be.
    let value = rest.split_ascii_whitespace().next()?.parse().ok().filter(|value: &f64| value.is_finite())?;
    Some(Figure { name, labels: if labels == "{}" { "" } else { labels }, value })
}

/// Where the closing brace ends; one within quotes does not close.
fn labels_end(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '}' if !is_quoted => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// A server that gives everyone this answer, and keeps the connection open as long as the sender lives.
    fn server(answer: &str) -> (String, Sender<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics?a=b", listener.local_addr().unwrap());
        let (alive, end) = channel();
        let answer = answer.to_owned();
        let serve = move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let count = stream.read(&mut request).unwrap();
            assert!(request[..count].starts_with(b"GET /metrics?a=b HTTP/1.1\r\nHost: 127.0.0.1:"));
            let _ = stream.write_all(answer.as_bytes());
            let _ = end.recv();
        };
        std::thread::Builder::new().spawn(serve).unwrap();
        (url, alive)
    }

    fn asked(answer: &str, stays_open: bool) -> Vec<Metric> {
        let (url, alive) = server(answer);
        if !stays_open {
            drop(alive);
        }
        let keep = ["up", "queue"].map(str::to_owned).to_vec();
        Endpoint { host: "n1".to_owned(), url, keep }.ask(3.0)
    }

    fn metric(name: &str, value: f64) -> Metric {
        Metric { at_s: 3.0, host: "n1".to_owned(), name: name.to_owned(), value }
    }

    #[test]
    fn what_is_kept_comes_with_its_labels_however_it_is_sent() {
        let body = "# TYPE up gauge\nup 1\nups 2\nqueue{of=\"a\"} 3\nqueue{of=\"b\"} 4.5\nother 6\n";
        let wanted = [metric("up", 1.0), metric("queue{of=\"a\"}", 3.0), metric("queue{of=\"b\"}", 4.5)];
        assert_eq!(asked(&format!("HTTP/1.0 200 OK\r\n\r\n{body}"), false), wanted);
        let sized = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        assert_eq!(asked(&sized, true), wanted);
        let (first, second) = body.split_at(21);
        let chunked = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n15;x=y\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n",
            second.len()
        );
        assert_eq!(asked(&chunked, true), wanted);
    }

    #[test]
    fn what_is_not_an_answer_is_nothing() {
        for answer in [
            "",
            "up 1\n",
            "HTTP/1.1 503 Busy\r\n\r\nup 1\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nup 1\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nup 1",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nup 1",
        ] {
            assert_eq!(asked(answer, false), [], "{answer:?}");
        }
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for url in [format!("http://{nobody}/"), "nonsense".to_owned()] {
            assert_eq!(Endpoint { url, ..Endpoint::default() }.ask(0.0), []);
        }
    }

    fn read(text: &str) -> Vec<(String, f64)> {
        figures(text).map(|figure| (format!("{}{}", figure.name, figure.labels), figure.value)).collect()
    }

    #[test]
    fn the_description_s_own_example_is_read() {
        let text = r#"# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"}    3 1395066363000

# Escaping in label values:
msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find file:\n\"FILE.TXT\""} 1.458255915e9
metric_without_timestamp_and_labels 12.47
something_weird{problem="division by zero"} +Inf -3982045
http_request_duration_seconds_bucket{le="+Inf"} 144320
rpc_duration_seconds{quantile="0.01"} NaN
"#;
        let names: Vec<String> = read(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [
                r#"http_requests_total{method="post",code="200"}"#,
                r#"http_requests_total{method="post",code="400"}"#,
                r#"msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find file:\n\"FILE.TXT\""}"#,
                "metric_without_timestamp_and_labels",
                r#"http_request_duration_seconds_bucket{le="+Inf"}"#,
            ]
        );
        assert_eq!(read(text)[2].1, 1.458_255_915e9);
    }

    #[test]
    fn odd_lines_are_read_or_passed_over() {
        assert_eq!(read("\ta_b:c\t 1\r\n"), [("a_b:c".to_owned(), 1.0)]);
        assert_eq!(read(r#"x{a="}{",b="\\"} -0.5"#), [(r#"x{a="}{",b="\\"}"#.to_owned(), -0.5)]);
        assert_eq!(read("x {a=\"1\"} 2"), [("x{a=\"1\"}".to_owned(), 2.0)]);
        assert_eq!(read("x{} 2 # {trace=\"1\"} 0.5"), [("x".to_owned(), 2.0)]);
        for nothing in [
            "",
            "#",
            "x",
            "x ",
            "x{a=\"1\" 2",
            "x{a=\"1}\" 2",
            "1x 2",
            "x two",
            "<html> 1",
            "é 1",
            "{a=\"1\"} 2",
            "x{é",
        ] {
            assert_eq!(read(nothing), [], "{nothing}");
        }
    }
}
