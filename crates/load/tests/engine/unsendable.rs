//! External values that the protocol cannot represent, and values that are missing: the operation
//! fails before it is sent, and no other bytes reach the target.

use std::sync::{Arc, Mutex};

use experiment::plan::{Feed, Retry, Step};
use fixture::TestDir;
use load::LoadOrder;

use crate::server::{Reply, Server};
use crate::setting::{LoadRun, load, orders, pairs, play, step};

type Seen = Arc<Mutex<Vec<Vec<u8>>>>;

/// Returns a server that records its requests and answers each with this text.
fn noting(text: &'static str) -> (Server, Seen) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    let server = Server::http(move |request| {
        noted.lock().unwrap().push(request.body.clone());
        Reply::Bytes(format!("HTTP/1.1 200 x\r\ncontent-length: {}\r\n\r\n{text}", text.len()).into_bytes())
    });
    (server, seen)
}

/// Plays a load that keeps the answer to `/login` and sends it in the step `next`.
fn sent_on(text: &'static str, next: Step, pipeline: u32) -> (LoadRun, usize, Vec<Vec<u8>>) {
    let (server, seen) = noting(text);
    let mut login = step("get", &["path=/login"]);
    login.keep = pairs(&["id=answer.body"]);
    let mut load = load(4, 0.05, vec![login, next]);
    load.threads = Some(1);
    load.connections.pipeline = pipeline;
    let run = play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) });
    let (logins, others) = seen
        .lock()
        .unwrap()
        .drain(..)
        .partition::<Vec<_>, _>(|request| request.starts_with(b"GET /login HTTP/1.1\r\n"));
    (run, logins.len(), others)
}

const SMUGGLED: &str = "abc\r\nX-Injected: 1\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn an_answer_cannot_inject_requests() {
    for text in [SMUGGLED, "a\nb", "a\rb", "a\0b", "a\x1b[0m", "a\x7f"] {
        for pipeline in [1, 4] {
            for (with, cause) in [
                (&["path=/n/{id|raw}"][..], "not sent: a byte that a path cannot hold"),
                (&["path=/n", "header.x-id={id}"], "not sent: a byte that a header cannot hold"),
                (&["path={id}"], "not sent: a byte that a path cannot hold"),
            ] {
                let (run, logins, others) = sent_on(text, step("post", with), pipeline);
                assert_eq!(others, Vec::<Vec<u8>>::new(), "{text:?} in {with:?}");
                assert_eq!(
                    (run.summary.ok, run.attempts("ok")),
                    (logins as u64, logins as u64),
                    "{text:?} in {with:?}"
                );
                assert!(run.attempts(cause) > 0 && run.summary.failed == run.attempts(cause), "{:?}", run.results());
            }
        }
    }
}

#[test]
fn blanks_are_refused_only_in_paths() {
    let (run, _, others) = sent_on("two words", step("get", &["path=/q?{id|raw}"]), 1);
    assert!(others.is_empty() && run.summary.failed > 0);
    let (run, _, others) = sent_on("two words", step("get", &["path=/", "header.x={id}"]), 1);
    assert!(!others.is_empty() && run.summary.failed == 0);
    let (run, _, others) = sent_on("č", step("get", &["path=/{id|raw}"]), 1);
    assert!(others[0].starts_with("GET /č HTTP/1.1\r\n".as_bytes()) && run.summary.failed == 0);
    let (run, _, others) = sent_on("x", step("get", &["path={id}"]), 1);
    assert!(others.is_empty() && run.attempts("not sent: a path that does not begin with /") > 0);
}

#[test]
fn a_body_may_hold_anything() {
    let (run, logins, others) = sent_on(SMUGGLED, step("post", &["path=/n", "body={id}"]), 1);
    assert_eq!((run.summary.failed, others.len() + logins), (0, run.summary.ok as usize));
    assert!(others.iter().all(|request| request.ends_with(SMUGGLED.as_bytes())));
}

#[test]
fn unsent_operations_had_no_effect() {
    let (server, _) = noting("a\nb");
    let mut login = step("get", &["path=/login"]);
    login.keep = pairs(&["id=answer.body"]);
    let told = experiment::plan::AuditAs {
        effect: experiment::plan::AuditEffect::Remove,
        key: "k".into(),
        ..experiment::plan::AuditAs::default()
    };
    let next = Step { audit: true, audit_as: Some(told), ..step("delete", &["path=/{id|raw}"]) };
    let run =
        play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load(1, 0.05, vec![login, next])) });
    let history = run.history();
    assert!(!history.is_empty() && history.iter().all(|line| line.applied == Some(false)), "{history:?}");
}

#[test]
fn a_slot_that_was_not_filled_is_never_sent_empty() {
    for what in ["answer.header.x-id", "answer.body/id"] {
        for with in [
            &["path=/n/{id}"][..],
            &["path=/n", "header.x-id=id {id}"],
            &["path=/n", "body={pad:8:{id}}"],
            &["path=/n", "header.authorization=Basic {base64:{agent}:{id}}"],
        ] {
            let (server, seen) = noting("{}");
            let mut login = step("get", &["path=/login"]);
            login.keep = pairs(&[&format!("id={what}")]);
            let mut load = load(4, 0.05, vec![login, Step { name: "next".into(), ..step("post", with) }]);
            load.retry = Retry::Tries { tries: 3, wait_s: 0.0 };
            let run = play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) });
            let seen = seen.lock().unwrap();
            assert!(seen.iter().all(|request| request.starts_with(b"GET /login ")), "{with:?}");
            let failed = run.attempts("not sent: no id");
            assert!(failed > 0 && run.results().into_iter().eq(["not sent: no id", "ok"]), "{:?}", run.results());
            assert_eq!(
                (run.summary.ok, run.summary.failed, run.summary.attempts),
                (seen.len() as u64, failed, seen.len() as u64 + failed),
                "{with:?}"
            );
            let mut examples = run.intervals.iter().flat_map(|interval| &interval.examples);
            let example = examples.find(|example| example.result == "not sent: no id").unwrap();
            assert_eq!((example.operation.as_str(), example.answer.as_ref()), ("next", None));
            assert!(example.request.contains("(not filled)"), "{}", example.request);
        }
    }
}

#[test]
fn an_empty_answer_fills_a_slot() {
    let (run, _, others) = sent_on("", step("get", &["path=/n/{id}"]), 1);
    assert!(!others.is_empty() && run.summary.failed == 0 && others[0].starts_with(b"GET /n/ HTTP"));
}

/// Returns a feed of one record, in column `text`.
fn feed_of(folder: &TestDir, text: &str) -> Feed {
    let file = folder
        .write(
            "texts.csv",
            format!(
                "text
\"{text}\"
"
            ),
        )
        .display()
        .to_string();
    Feed { name: "f".into(), file, ..Feed::default() }
}

/// Returns the number of requests that a server of lines received, and the results.
fn lines_with(text: &str, with: &[&str]) -> (usize, Vec<String>) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    let server = Server::lines("", move |request| {
        noted.lock().unwrap().push(request.body.clone());
        Reply::Bytes(b"ok\n".to_vec())
    });
    let folder = TestDir::new();
    let mut load = load(1, 0.05, vec![step("send", with)]);
    load.feeds = vec![feed_of(&folder, text)];
    let run = play(LoadOrder { protocol: "lines".into(), ..orders(&server.service(), load) });
    let count = seen.lock().unwrap().len();
    (count, run.results().into_iter().map(str::to_owned).collect())
}

#[test]
fn external_values_cannot_add_lines() {
    for text in ["a\nFLUSH", "a\r\nFLUSH", "a\rFLUSH"] {
        for with in [&["line=get {feed.f.text}"][..], &["line=set k\r\n{feed.f.text}", "end=\r\n"]] {
            let (sent, results) = lines_with(text, with);
            assert_eq!((sent, results), (0, vec!["not sent: a byte that a line cannot hold".to_owned()]), "{text:?}");
        }
    }
    let (sent, results) = lines_with("a b", &["line=get {feed.f.text}"]);
    assert!(sent > 0 && results == ["ok"], "{results:?}");
}

#[test]
fn a_value_that_is_too_long_for_its_length_field_is_not_cut() {
    let server = Server::frames(|_| Reply::Frame(0, Vec::new()));
    let folder = TestDir::new();
    let feed = feed_of(&folder, &"k".repeat(70_000));
    let mut load = load(1, 0.05, vec![step("remove", &["key={feed.f.text}"])]);
    load.feeds = vec![feed];
    let run = play(orders(&server.service(), load));
    assert_eq!(run.summary.ok, 0);
    assert!(run.attempts("not sent: a value that is longer than its length field can say") > 0, "{:?}", run.results());
}
