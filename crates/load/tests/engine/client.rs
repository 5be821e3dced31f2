//! Tests of the client for single operations.

use std::sync::atomic::Ordering;
use std::time::Duration;

use load::client::{self, CallError};

use crate::server::{Reply, Server, frame, nobody};
use crate::setting::pairs;

const PATIENCE: Duration = Duration::from_secs(5);

#[test]
fn calls_and_fields() {
    let server = Server::names();
    let mut client = client::connect("vsns", &server.service(), PATIENCE).unwrap();
    let key = pairs(&["space=s", "key={k}"]);
    let missing = client.call("load", &key).unwrap();
    assert_eq!((missing.ok, missing.status.as_str(), missing.field("value")), (true, "not_found", None));
    let saved = client.call("save", &pairs(&["space=s", "key={k}", "value=a b"])).unwrap();
    assert!(saved.ok && saved.status == "ok");
    let found = client.call("load", &key).unwrap();
    assert_eq!(found.field("value"), Some(&b"a b"[..]), "values are no templates");
    assert_eq!(client.call("remove", &key).unwrap().field("removed"), Some(&b"1"[..]));
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn http_calls() {
    let server = Server::http(|request| {
        let is_get = request.body.starts_with(b"GET /x ");
        let body: &[u8] = if is_get {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
        } else {
            b"HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nwhy"
        };
        Reply::Bytes(body.to_vec())
    });
    let mut client = client::connect("http", &format!("http://{}", server.service()), PATIENCE).unwrap();
    let answer = client.call("get", &pairs(&["path=/x"])).unwrap();
    assert_eq!((answer.ok, answer.status.as_str(), answer.field("body")), (true, "200", Some(&b"hi"[..])));
    let answer = client.call("post", &pairs(&["path=/x", "body=b"])).unwrap();
    assert_eq!((answer.ok, answer.status.as_str(), answer.field("body")), (false, "500", Some(&b"why"[..])));
}

#[test]
fn the_next_call_reopens_a_lost_connection() {
    let server =
        Server::frames(|request| if request.connection == 1 { Reply::Close } else { Reply::Frame(0, Vec::new()) });
    let mut client = client::connect("vsns", &server.service(), PATIENCE).unwrap();
    assert!(matches!(client.call("ping", &pairs(&[])), Err(CallError::Lost(_))));
    assert!(client.call("ping", &pairs(&[])).unwrap().ok);
}

#[test]
fn refusals_and_errors() {
    let server = Server::frames(|request| match request.number {
        1 => Reply::Frame(3, b"down".to_vec()),
        2 => Reply::Bytes(frame(request.id + 7, 0, b"")),
        _ => Reply::Silence,
    });
    let mut client = client::connect("vsns", &server.service(), PATIENCE).unwrap();
    let answer = client.call("ping", &pairs(&[])).unwrap();
    assert_eq!((answer.ok, answer.status.as_str(), answer.field("text")), (false, "unavailable", Some(&b"down"[..])));
    assert!(matches!(client.call("ping", &pairs(&[])), Err(CallError::BadAnswer(_))));
    assert!(matches!(client.call("fetch", &pairs(&[])), Err(CallError::Invalid(_))));
    assert!(matches!(client.call("load", &pairs(&[])), Err(CallError::Invalid(_))));
    assert!(matches!(client::connect("vsns", &nobody(), PATIENCE), Err(CallError::Connect { .. })));
    assert!(matches!(client::connect("vsns", "nonsense", PATIENCE), Err(CallError::Connect { .. })));
    assert!(matches!(client::connect("gopher", "127.0.0.1:1", PATIENCE), Err(CallError::Invalid(_))));
}

#[test]
fn an_unanswered_call_times_out() {
    let server = Server::frames(|_| Reply::Silence);
    let mut client = client::connect("vsns", &server.service(), Duration::from_millis(50)).unwrap();
    assert!(matches!(client.call("ping", &pairs(&[])), Err(CallError::Timeout(_))));
}
