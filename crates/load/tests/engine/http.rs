//! HTTP under the engine: keep-alive, chunks, statuses, answers that end with the connection.

use std::sync::atomic::Ordering;

use crate::server::{Reply, Server};
use crate::setting::{LoadRun, load, orders, pairs, play, step};

fn get(server: &Server, expect: &[&str]) -> LoadRun {
    let mut step = step("get", &["path=/x"]);
    step.expect = pairs(expect);
    let mut orders = orders(&format!("http://{}/", server.service()), load(2, 0.1, vec![step]));
    orders.protocol = "http".into();
    play(orders)
}

fn always(answer: &'static str) -> Server {
    Server::http(move |_| Reply::Bytes(answer.as_bytes().to_vec()))
}

#[test]
fn kept_alive() {
    let server = always("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let run = get(&server, &["body=hello", "status=200"]);
    assert!(run.summary.ok > 2 && run.summary.wrong == 0);
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
}

#[test]
fn chunked() {
    let server =
        always("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n");
    let run = get(&server, &["body=hello", "header.x-a=b"]);
    assert!(run.summary.ok > 2 && run.summary.wrong == 0);
}

#[test]
fn statuses() {
    let server = always("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    let failed = get(&server, &[]);
    assert_eq!(failed.attempts("status 503"), failed.summary.failed);
    assert!(failed.summary.failed > 0 && failed.summary.ok == 0);
    let expected = get(&server, &["status=503"]);
    assert!(expected.summary.ok > 0 && expected.summary.failed == 0);
    let other = get(&server, &["status=200"]);
    assert!(other.summary.failed > 0 && other.summary.wrong == 0, "a server error is a failure");
    let created = always("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
    let wrong = get(&created, &["status=200"]);
    assert!(wrong.summary.wrong > 0 && wrong.summary.ok == 0);
}

#[test]
fn answers_that_end_with_the_connection() {
    for answer in
        ["HTTP/1.1 200 OK\r\n\r\nhello", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"]
    {
        let server = Server::http(move |_| Reply::Last(answer.as_bytes().to_vec()));
        let run = get(&server, &["body=hello"]);
        assert!(run.summary.ok > 2 && run.summary.failed == 0 && run.summary.wrong == 0, "{:?}", run.summary);
        assert!(server.connections.load(Ordering::SeqCst) as u64 >= run.summary.ok);
    }
}

#[test]
fn nonsense() {
    let server = always("SSH-2.0-OpenSSH_9.2\r\n");
    let run = get(&server, &[]);
    assert_eq!(run.attempts("bad answer"), run.summary.failed);
    assert!(run.summary.failed > 0);
}

#[test]
fn redirects_have_their_own_result_and_a_notice() {
    let server =
        always("HTTP/1.1 301 Moved Permanently\r\nLocation: https://example.org/new\r\nContent-Length: 0\r\n\r\n");
    let run = get(&server, &[]);
    assert!(run.summary.ok > 0 && run.summary.failed == 0, "{:?}", run.summary);
    assert_eq!(run.attempts("redirect 301"), run.summary.ok);
    assert_eq!(run.attempts("ok"), 0);
    let notices = run.notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(
        notices[0].contains("301 to https://example.org/new") && notices[0].contains("not followed"),
        "{notices:?}"
    );
    // A step that expects the redirect gets no notice.
    let expected = get(&server, &["status=301"]);
    assert_eq!(expected.attempts("ok 301"), expected.summary.ok);
    assert!(expected.notices().is_empty());
    let unchanged = always("HTTP/1.1 304 Not Modified\r\n\r\n");
    let run = get(&unchanged, &[]);
    assert_eq!(run.attempts("ok 304"), run.summary.ok);
}
