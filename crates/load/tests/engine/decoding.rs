//! Coded answers under the engine: decoded for expectations, kept values and examples, and left as
//! they are otherwise.

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use experiment::plan::Step;
use flate2::Compression;
use flate2::write::GzEncoder;
use load::LoadOrder;

use crate::server::{Reply, Server};
use crate::setting::{LoadRun, load, orders, pairs, play, step};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn answer(status: u16, coding: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} x\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn run(server: &Server, steps: Vec<Step>) -> LoadRun {
    play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load(2, 0.1, steps)) })
}

/// Plays steps that expect `hello` against a server that always gives this answer.
fn expecting(answer: Vec<u8>, expect: &[&str]) -> LoadRun {
    let server = Server::http(move |_| Reply::Bytes(answer.clone()));
    run(&server, vec![Step { expect: pairs(expect), ..step("get", &["path=/"]) }])
}

#[test]
fn a_value_from_a_coded_answer_goes_into_the_next_request() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let server = Server::http(move |request| {
        let text = String::from_utf8(request.body.clone()).unwrap();
        let is_asked_for = text.to_ascii_lowercase().contains("accept-encoding: gzip, zstd");
        let path = text.split(' ').nth(1).unwrap().to_owned();
        noted.lock().unwrap().push(path.clone());
        let json = format!(r#"{{"token": "t{}", "more": "{}"}}"#, request.number, "x".repeat(200_000));
        match path.as_str() {
            "/login" if is_asked_for => {
                let coded = zstd::encode_all(gzip(json.as_bytes()).as_slice(), 1).unwrap();
                Reply::Bytes(answer(200, "gzip, zstd", &coded))
            }
            _ => Reply::Bytes(answer(200, "gzip", &gzip(path.as_bytes()))),
        }
    });
    let mut login = step("get", &["path=/login", "header.accept-encoding=gzip, zstd"]);
    login.keep = pairs(&["token=answer.body/token"]);
    let mut look = step("get", &["path=/look/{token}"]);
    (look.name, look.expect) = ("look".into(), pairs(&["body=/look/{token}", "header.content-encoding=gzip"]));
    let run = run(&server, vec![login, look]);
    assert!(run.summary.cycles > 0 && (run.summary.failed, run.summary.wrong) == (0, 0), "{:?}", run.summary);
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|path| path == "/login" || path.starts_with("/look/t")), "{seen:?}");
}

#[test]
fn nothing_is_decoded_without_need() {
    let run = expecting(answer(200, "compress", b"x"), &["status=200", "header.content-encoding=compress"]);
    assert!(run.summary.ok > 0 && (run.summary.failed, run.summary.wrong) == (0, 0), "{:?}", run.summary);
}

#[test]
fn bodies_that_cannot_be_decoded_have_causes() {
    let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
    (0..70).for_each(|_| bomb.write_all(&vec![0; 1024 * 1024]).unwrap());
    let cut = gzip(b"hello");
    for (coding, body, cause) in [
        ("aes128gcm", b"x".to_vec(), "bad answer: unknown content-encoding"),
        ("gzip", cut[..cut.len() - 3].to_vec(), "bad answer: gzip is broken or cut off"),
        ("zstd", b"no zstd".to_vec(), "bad answer: zstd is broken or cut off"),
        ("gzip", bomb.finish().unwrap(), "answer too long: more than 64 MiB when decoded"),
    ] {
        let server = Server::http(move |_| Reply::Bytes(answer(200, coding, &body)));
        let expected = Step { expect: pairs(&["status=200", "body=hello"]), ..step("get", &["path=/"]) };
        let mut load = load(1, 0.1, vec![expected]);
        load.count = Some(2);
        load.timeout_s = 60.0;
        load.drain_s = 60.0;
        let run = play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) });
        assert!(run.summary.failed > 0 && run.summary.wrong == 0, "{cause}: {:?}", run.summary);
        assert_eq!(run.attempts(cause), run.summary.failed, "{:?}", run.results());
        assert_eq!(run.notices().len(), usize::from(coding == "aes128gcm"), "{:?}", run.notices());
        let connections = server.connections.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(connections, 1, "the connection is used again");
    }
}

#[test]
fn an_example_shows_the_decoded_body() {
    for (status, expect) in [(200, "body=bye"), (500, "status=200")] {
        let run = expecting(answer(status, "gzip", &gzip(b"a clear message")), &[expect]);
        let examples: Vec<_> = run.intervals.iter().flat_map(|interval| &interval.examples).collect();
        let shown = examples[0].answer.as_deref().unwrap();
        assert!(shown.ends_with("body: a clear message"), "{shown}");
    }
}
