//! Lines under the engine: single lines, several lines, a server that sends first.

use std::sync::atomic::Ordering;

use experiment::plan::Step;
use load::{Error, LoadOrder};

use crate::server::{Reply, Server};
use crate::setting::{load, orders, pairs, play, step, try_play};

fn to(service: &str, steps: Vec<Step>) -> LoadOrder {
    LoadOrder { protocol: "lines".into(), ..orders(service, load(2, 0.2, steps)) }
}

/// Returns a server that echoes each line. It answers `list` with three lines and an end, and
/// `fail` with an error.
fn echo(banner: &'static str) -> Server {
    Server::lines(banner, |request| {
        let line = String::from_utf8_lossy(&request.body).into_owned();
        let answer = match line.as_str() {
            "list" => "one\r\ntwo\r\nthree\r\nEND\r\n".to_owned(),
            "fail" => "ERROR as asked\r\n".to_owned(),
            line => format!("{line}\n"),
        };
        Reply::Bytes(answer.into_bytes())
    })
}

#[test]
fn lines_of_each_kind() {
    let server = echo("");
    let tell = Step {
        expect: pairs(&["line=hello 1-{seq}"]),
        keep: pairs(&["told=answer.line"]),
        ..step("send", &["line=hello 1-{seq}"])
    };
    let again = Step { expect: pairs(&["text={told}"]), ..step("send", &["line={told}"]) };
    let list = Step { expect: pairs(&["line=one", "last=END"]), ..step("send", &["line=list", "until=END"]) };
    let run = play(to(&server.service(), vec![tell, again, list]));
    assert!(run.summary.ok > 3 && run.summary.failed == 0 && run.summary.wrong == 0);
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
}

#[test]
fn a_line_that_fails_is_a_refusal() {
    let server = echo("");
    let run = play(to(&server.service(), vec![step("send", &["line=fail", "until=END", "fails=ERROR"])]));
    assert!(run.summary.failed > 0 && run.summary.ok == 0);
    assert_eq!(run.attempts("answer: refused"), run.summary.failed);
    assert_eq!(server.connections.load(Ordering::SeqCst), 2, "it is an answer, and the connection is good");
}

#[test]
fn a_banner_is_read_before_the_first_request() {
    let server = echo("220-welcome\r\n220 go on\r\n");
    let hello = || vec![Step { expect: pairs(&["line=hello"]), ..step("send", &["line=hello"]) }];
    let run = play(to(&format!("tcp://{}?banner=2", server.service()), hello()));
    assert!(run.summary.ok > 2 && run.summary.failed == 0 && run.summary.wrong == 0);
    // A client without knowledge of the banner takes its first line for an answer, or for
    // unsolicited bytes.
    let run = play(to(&format!("tcp://{}", server.service()), hello()));
    assert!(run.summary.failed + run.summary.wrong > 0);
}

#[test]
fn invalid_steps_and_addresses_are_refused_before_the_load() {
    let error = try_play(to("tcp://127.0.0.1:1", vec![step("send", &["line=x", "until={seq}"])])).err().unwrap();
    assert!(matches!(&error, Error::Step { reason, .. } if reason.contains("until")), "{error}");
    let error = try_play(to("tcp://127.0.0.1:1/path", vec![step("send", &["line=x"])])).err().unwrap();
    assert!(
        matches!(&error, Error::Transport(transport::error::Error::Service { reason, .. }) if reason.contains("banner")),
        "{error}"
    );
}
