//! Tests of the server with readers that read, readers that do not read, and readers that must get
//! nothing.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use super::*;

/// Longer than any test, so that no reader is disconnected for being slow.
const ENDLESS: Duration = Duration::from_secs(600);

fn begin(patience: Duration) -> HttpServer {
    let text = || Arc::from(b"plimsoll_load_seconds 7\n".as_slice());
    let metrics = (SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Box::new(text) as MetricsText);
    HttpServer::begin(Doors { metrics: Some(metrics), page: Some((0, "<!doctype html>".to_owned())), patience })
        .unwrap()
}

/// Returns the host and the path of the page.
fn page(server: &HttpServer) -> (String, String) {
    let url = server.url.as_deref().unwrap().strip_prefix("http://").unwrap();
    let (host, path) = url.split_once('/').unwrap();
    (host.to_owned(), format!("/{path}"))
}

fn asked(host: &str, head: &str) -> String {
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A reader that follows the page.
struct Follower(BufReader<TcpStream>);

impl Follower {
    fn of(server: &HttpServer, more: &str) -> Self {
        let (host, path) = page(server);
        let mut stream = TcpStream::connect(&host).unwrap();
        stream.write_all(format!("GET {path}events HTTP/1.1\r\nHost: {host}\r\n{more}\r\n").as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line, "HTTP/1.1 200 OK\r\n");
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        Self(reader)
    }

    /// Returns the next event's id, name and data; `None` at the end.
    fn next(&mut self) -> Option<(String, String, String)> {
        let mut event = <[String; 3]>::default();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                let [id, name, data] = event;
                return (!line.is_empty()).then_some((id, name, data));
            };
            event[["id", "event", "data"].iter().position(|known| *known == name).unwrap()] = value.to_owned();
        }
    }
}

fn publish(server: &HttpServer, name: &'static str, part: &str) {
    server.publisher().publish([(name, part.to_owned())]);
}

#[test]
fn slow_clients_do_not_block_others() {
    let server = begin(ENDLESS);
    let host = server.metrics.unwrap().to_string();
    // More connections than the limit. Each has sent a byte, and would send the next one a second
    // later.
    let slow: Vec<TcpStream> = (0..READERS + 40)
        .map(|_| {
            let mut stream = TcpStream::connect(&host).unwrap();
            stream.write_all(b"G").unwrap();
            stream
        })
        .collect();
    let answer = asked(&host, &format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("plimsoll_load_seconds 7\n"), "{answer}");
    // The latest of them sends the rest, and gets an answer.
    let mut slow = slow.into_iter().next_back().unwrap();
    for byte in format!("ET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").bytes() {
        slow.write_all(&[byte]).unwrap();
    }
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[test]
fn a_request_that_takes_too_long_is_ended() {
    let server = begin(Duration::from_millis(20));
    let mut stream = TcpStream::connect(server.metrics.unwrap()).unwrap();
    stream.write_all(b"GET /met").unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
}

#[test]
fn readers_get_every_update_beside_stalled_readers() {
    let server = begin(ENDLESS);
    let stopped: Vec<Follower> = (0..100).map(|_| Follower::of(&server, "")).collect();
    let mut reading: Vec<Follower> = (0..100).map(|_| Follower::of(&server, "")).collect();
    for number in 1..=30 {
        let text = format!("{number} {}", "x".repeat(10_000));
        publish(&server, "figures", &text);
        for follower in &mut reading {
            let (id, name, data) = follower.next().unwrap();
            assert_eq!((id, name.as_str()), (number.to_string(), "parts"));
            assert!(data.starts_with(&format!("{{\"figures\":\"{number} x")));
        }
    }
    assert!(server.publisher().followers() <= 200);
    drop(stopped);
}

#[test]
fn a_disconnected_slow_reader_resumes_with_the_newest_state() {
    let server = begin(ENDLESS);
    let (mut slow, mut quick) = (Follower::of(&server, ""), Follower::of(&server, ""));
    publish(&server, "plan", "of nine");
    quick.next().unwrap();
    for number in 0..60 {
        publish(&server, "figures", &format!("{number} {}", "x".repeat(100_000)));
        quick.next().unwrap();
    }
    let (mut taken, mut last) = (0, slow.next());
    while let Some(next) = slow.next() {
        (taken, last) = (taken + 1, Some(next));
    }
    let (_, name, data) = last.unwrap();
    assert_eq!((name.as_str(), data.as_str()), ("behind", "\"this reader took updates too slowly\""));
    assert!(taken < 50, "{taken} updates were kept for a reader that took none");
    let mut back = Follower::of(&server, "Last-Event-ID: 9\r\n");
    let (id, _, data) = back.next().unwrap();
    assert_eq!(id, "61");
    assert!(
        data.starts_with("{\"figures\":\"59 x") && data.ends_with("\"plan\":\"of nine\"}"),
        "all of it, and the newest"
    );
}

#[test]
fn an_unchanged_state_sends_nothing() {
    let server = begin(ENDLESS);
    let mut follower = Follower::of(&server, "");
    publish(&server, "plan", "of nine");
    assert_eq!(follower.next().unwrap().2, "{\"plan\":\"of nine\"}");
    publish(&server, "plan", "of nine");
    let mut other = Follower::of(&server, "");
    assert_eq!(other.next().unwrap().0, "1", "the mail before was seen");
    // A reader that was disconnected and has the newest state does not get it again.
    let mut back = Follower::of(&server, "Last-Event-ID: 1\r\n");
    server.publisher().publish([("plan", "of nine".to_owned()), ("faults", "none".to_owned())]);
    for reader in [&mut follower, &mut other, &mut back] {
        assert_eq!(reader.next().unwrap(), ("2".to_owned(), "parts".to_owned(), "{\"faults\":\"none\"}".to_owned()));
    }
}

#[test]
fn the_page_needs_its_secret_url_and_own_origin() {
    let server = begin(ENDLESS);
    let (host, path) = page(&server);
    let status =
        |path: &str, headers: &str| asked(&host, &format!("GET {path} HTTP/1.1\r\n{headers}\r\n"))[9..12].to_owned();
    let own = format!("Host: {host}\r\n");
    assert_eq!(status(&path, &own), "200");
    assert_eq!(status(&path, &format!("{own}Origin: http://{host}\r\n")), "200");
    let wrong = format!("{}0/", &path[..path.len() - 2]);
    let wrong = if wrong == path { format!("{}1/", &path[..path.len() - 2]) } else { wrong };
    for other in ["/", "/events", "/metrics", &wrong, &format!("{wrong}events"), &path[..9], "", "/ä"] {
        assert_eq!(status(other, &own), "404", "{other}");
    }
    for headers in [
        "Host: evil.example.com\r\n",
        "",
        &format!("{own}Origin: http://evil.example.com\r\n"),
        &format!("{own}Origin: null\r\n"),
    ] {
        assert_eq!(status(&path, headers), "403", "{headers}");
        assert_eq!(status(&format!("{path}events"), headers), "403", "{headers}");
    }
    let posted = asked(&host, &format!("POST {path} HTTP/1.1\r\n{own}\r\n"));
    assert!(posted.starts_with("HTTP/1.1 405 ") && !posted.contains("Access-Control"), "{posted}");
    let page = asked(&host, &format!("GET {path} HTTP/1.1\r\n{own}\r\n"));
    assert!(
        page.contains("Content-Security-Policy: default-src 'none'") && page.ends_with("<!doctype html>"),
        "{page}"
    );
}

#[test]
fn metrics_are_served_only_under_local_host_names() {
    let server = begin(ENDLESS);
    let host = server.metrics.unwrap().to_string();
    let rebound = asked(&host, "GET /metrics HTTP/1.1\r\nhost: evil.example.com\r\n\r\n");
    assert!(rebound.starts_with("HTTP/1.1 403"), "{rebound}");
    assert!(asked(&host, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    let (own, open) = ("127.0.0.1:9464".parse().unwrap(), "0.0.0.0:9464".parse().unwrap());
    for host in ["127.0.0.1:9464", "localhost", "LOCALHOST:1", "[::1]:9464", "x.localhost:9464"] {
        assert!(is_meant(host, own), "{host}");
    }
    for host in ["evil.example.com", "evil.example.com:9464", "10.0.0.1:9464", "", "localhost.evil.com"] {
        assert!(!is_meant(host, own), "{host}");
        assert!(is_meant(host, open), "{host}");
    }
}

#[test]
fn readers_beyond_the_limit_are_refused() {
    let server = begin(ENDLESS);
    let mut all: Vec<Follower> = (0..READERS).map(|_| Follower::of(&server, "")).collect();
    let (host, path) = page(&server);
    let refused = asked(&host, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    publish(&server, "plan", "of nine");
    assert!(all.iter_mut().all(|one| one.next().is_some()));
}

#[test]
fn the_report_is_sent_without_waiting_for_stalled_readers() {
    let server = begin(ENDLESS);
    let (mut quick, stopped) = (Follower::of(&server, ""), Follower::of(&server, ""));
    // The queue of the stopped reader fills up.
    for number in 0..10 {
        publish(&server, "figures", &format!("{number} {}", "x".repeat(100_000)));
        quick.next().unwrap();
    }
    server.publisher().publish_report("<!doctype html>\n<p>done".to_owned());
    let reader = thread::Builder::new().spawn(move || (quick.next(), quick.next())).unwrap();
    drop(server);
    let (report, after) = reader.join().unwrap();
    assert_eq!(report.unwrap().2, "\"<!doctype html>\\n<p>done\"");
    assert_eq!(after, None);
    drop(stopped);
}

#[test]
fn updates_are_compressed_for_readers_that_accept_gzip() {
    let server = begin(ENDLESS);
    publish(&server, "charts", &"long ".repeat(20_000));
    publish(&server, "plan", "of nine");
    let mut packed = Follower::of(&server, "Accept-Encoding: deflate, gzip\r\n");
    let mut plain = Follower::of(&server, "Accept-Encoding: br\r\n");
    let whole = plain.next().unwrap();
    drop(server);
    let mut bytes = Vec::new();
    packed.0.read_to_end(&mut bytes).unwrap();
    let mut text = String::new();
    let _ = flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text);
    assert!(text.contains(&whole.2) && bytes.len() * 20 < text.len(), "{} bytes of {}", bytes.len(), text.len());
}
