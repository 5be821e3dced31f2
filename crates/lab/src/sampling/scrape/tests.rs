//! Tests of the asking, against servers that answer as servers do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
