//! Expectations beyond equality, and captures, under the engine: JSON places, patterns, lists, and
//! failures that expectations turn into answers.

use std::sync::{Arc, Mutex};

use experiment::plan::{AuditAs, AuditEffect, Expected, SlotContent, Step, TextCondition};
use load::LoadOrder;

use crate::server::{Reply, Server};
use crate::setting::{LoadRun, load, orders, pairs, play, step};

fn answer(status: u16, body: &str) -> Reply {
    Reply::Bytes(format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

fn http(server: &Server, steps: Vec<Step>) -> LoadOrder {
    LoadOrder { protocol: "http".into(), ..orders(&server.service(), load(2, 0.1, steps)) }
}

/// Plays a load of GETs with these expectations against a server with this answer.
fn get(status: u16, body: &'static str, expect: &[(&str, Expected)]) -> LoadRun {
    let server = Server::http(move |_| answer(status, body));
    let mut step = step("get", &["path=/x"]);
    step.expect = expect.iter().map(|(field, expected)| ((*field).to_owned(), expected.clone())).collect();
    play(http(&server, vec![step]))
}

fn outcomes(run: &LoadRun) -> (bool, bool, bool) {
    (run.summary.ok > 0, run.summary.failed > 0, run.summary.wrong > 0)
}

const OK: (bool, bool, bool) = (true, false, false);
const FAILED: (bool, bool, bool) = (false, true, false);
const WRONG: (bool, bool, bool) = (false, false, true);

fn one_of(texts: &[&str]) -> Expected {
    let texts = texts.iter().map(|text| (*text).to_owned()).collect();
    Expected::Compared(TextCondition { one_of: Some(texts), ..TextCondition::default() })
}

fn matches(pattern: &str) -> Expected {
    Expected::Compared(TextCondition { matches: Some(pattern.into()), ..TextCondition::default() })
}

fn not(expected: Expected) -> Expected {
    Expected::Compared(TextCondition { not: Some(Box::new(expected)), ..TextCondition::default() })
}

const ITEMS: &str = r#"{"items": [{"id": 7, "name": "a\"b"}, {"id": null}], "ok": true}"#;

#[test]
fn places_in_a_body() {
    for (place, value) in [
        ("body/items/0/id", "7"),
        ("body/items/0/name", "a\"b"),
        ("body/items/1/id", "null"),
        ("body/ok", "true"),
        ("body/items/1", r#"{{"id": null}}"#),
    ] {
        assert_eq!(outcomes(&get(200, ITEMS, &[(place, value.into())])), OK, "{place}");
    }
    let both = [("body/ok", "true".into()), ("body/items/0/id", not("8".into())), ("status", "200".into())];
    assert_eq!(outcomes(&get(200, ITEMS, &both)), OK);
    assert_eq!(outcomes(&get(200, ITEMS, &[("body/items/0/id", "8".into())])), WRONG);
    assert_eq!(outcomes(&get(200, ITEMS, &[("body/items/2/id", not("8".into()))])), WRONG, "there is no such place");
    assert_eq!(outcomes(&get(200, "so sorry", &[("body/ok", "true".into())])), WRONG, "no JSON");
    assert_eq!(outcomes(&get(503, "so sorry", &[("body/ok", "true".into())])), FAILED, "a server error is a failure");
}

#[test]
fn statuses_by_list_and_pattern() {
    let expect = [("status", one_of(&["200", "404"]))];
    assert_eq!(outcomes(&get(200, "", &expect)), OK);
    assert_eq!(outcomes(&get(404, "", &expect)), OK, "that very status is expected");
    assert_eq!(outcomes(&get(201, "", &expect)), WRONG);
    assert_eq!(outcomes(&get(503, "", &expect)), FAILED);
    assert_eq!(outcomes(&get(418, "", &[("status", matches("^(2..|418)$"))])), OK);
    let expect = [("status", not("304".into()))];
    assert_eq!(outcomes(&get(200, "", &expect)), OK);
    assert_eq!(outcomes(&get(304, "", &expect)), WRONG);
    assert_eq!(outcomes(&get(503, "", &expect)), FAILED, "what it is not makes no failure an answer");
    assert_eq!(outcomes(&get(404, "", &expect)), FAILED, "nothing is contradicted");
}

#[test]
fn a_missing_field_contradicts_every_expectation() {
    for expected in ["x".into(), matches(".*"), not("x".into())] {
        assert_eq!(outcomes(&get(200, "", &[("header.etag", expected)])), WRONG);
    }
}

#[test]
fn all_values_of_a_repeated_header_are_seen() {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nSet-Cookie: lang=en; Path=/\r\nX: 1\r\nset-cookie: sid=42; Path=/\r\n\
        Content-Length: 0\r\n\r\n";
    let got = |expect: &[(&str, Expected)]| {
        let server = Server::http(|_| Reply::Bytes(ANSWER.to_vec()));
        let mut get = step("get", &["path=/"]);
        get.expect = expect.iter().map(|(field, expected)| ((*field).to_owned(), expected.clone())).collect();
        outcomes(&play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load(1, 0.05, vec![get])) }))
    };
    let field = "header.set-cookie";
    for expected in ["lang=en; Path=/".into(), "sid=42; Path=/".into(), matches("^sid=[0-9]+;"), not("sid=42".into())] {
        assert_eq!(got(&[(field, expected.clone())]), OK, "{expected:?}");
    }
    for expected in ["sid=42".into(), matches("^Path"), not(matches("^sid=")), not(matches("^lang="))] {
        assert_eq!(got(&[(field, expected.clone())]), WRONG, "{expected:?}");
    }
    for (cookie, expected, is_right) in [
        ("sid", "42".into(), true),
        ("lang", not("de".into()), true),
        ("SID", "42".into(), false),
        ("sid", "4".into(), false),
    ] {
        assert_eq!(got(&[(&format!("cookie.{cookie}"), expected)]) == OK, is_right, "{cookie}");
    }
}

#[test]
fn cookies_of_an_answer_are_kept() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let server = Server::http(move |request| {
        noted.lock().unwrap().push(String::from_utf8_lossy(&request.body).into_owned());
        Reply::Bytes(
            b"HTTP/1.1 200 OK\r\nSet-Cookie: lang=en\r\nSet-Cookie: sid=41\r\nSet-Cookie: sid=42; Path=/\r\n\
            Content-Length: 0\r\n\r\n"
                .to_vec(),
        )
    });
    let mut login = step("get", &["path=/login"]);
    login.keep = pairs(&["sid=answer.cookie.sid"]);
    let part = SlotContent::Part { from: "answer.header.set-cookie".into(), matches: "^sid=([^;]+);".into() };
    login.keep.insert("same".into(), part);
    let next = step("get", &["path=/{sid}/{same}"]);
    let orders = orders(&server.service(), load(1, 0.05, vec![login, next]));
    assert_eq!(outcomes(&play(LoadOrder { protocol: "http".into(), ..orders })), OK);
    let seen = seen.lock().unwrap();
    assert!(seen.iter().skip(1).step_by(2).all(|request| request.starts_with("GET /42/42 ")), "{seen:?}");
}

#[test]
fn parts_and_places_are_kept() {
    let paths: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&paths);
    let server = Server::http(move |request| {
        let text = String::from_utf8_lossy(&request.body);
        let path = text.split(' ').nth(1).unwrap().to_owned();
        let reply = match path.as_str() {
            "/new" => answer(201, r#"{"case": {"id": "x/1"}, "see": "/cases?n=42&m=1"}"#),
            _ => answer(200, "plain"),
        };
        seen.lock().unwrap().push(path);
        reply
    });
    let mut create = step("post", &["path=/new", "body=name=j{agent}"]);
    create.keep = pairs(&["id=answer.body/case/id", "none=answer.body/case/version"]);
    let part = |from: &str, pattern: &str| SlotContent::Part { from: from.into(), matches: pattern.into() };
    create.keep.insert("n".into(), part("answer.body/see", "n=([0-9]+)"));
    create.keep.insert("whom".into(), part("request.body", "j[0-9]+"));
    create.keep.insert("nobody".into(), part("answer.body", "z([0-9]+)"));
    let mut look = step("get", &["path=/{id}/{n}/{whom}"]);
    // Neither slot is filled, so both expectations are skipped.
    look.expect = pairs(&["body={none}", "status={nobody}"]);
    let mut load = load(1, 0.05, vec![create, look]);
    load.threads = Some(1);
    let run = play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) });
    assert_eq!(outcomes(&run), OK);
    let paths = paths.lock().unwrap();
    assert!(paths.len() > 2);
    assert!(paths.chunks_exact(2).all(|cycle| cycle == ["/new", "/x%2F1/42/j1"]), "{:?}", &paths[..2]);
}

#[test]
fn a_place_in_a_field_of_any_protocol() {
    let server = Server::frames(|_| Reply::Frame(0, br#"[{"v": 1}]"#.to_vec()));
    let mut read = step("load", &["key=k"]);
    read.expect = pairs(&["value/0/v=1"]);
    let run = play(orders(&server.service(), load(1, 0.05, vec![read])));
    assert_eq!(outcomes(&run), OK);
}

#[test]
fn an_audited_read_may_use_a_json_place() {
    let server = Server::http(|_| answer(200, r#"{"kvs": [{"value": "v1"}]}"#));
    let told = AuditAs {
        effect: AuditEffect::Read,
        key: "k".into(),
        value: Some("answer.body/kvs/0/value".into()),
        ..AuditAs::default()
    };
    let read = Step { audit: true, audit_as: Some(told), ..step("get", &["path=/x"]) };
    let run = play(http(&server, vec![read]));
    assert!(run.summary.ok > 0);
    assert!(run.history().iter().all(|line| line.value.as_deref() == Some("v1")));
}

/// Plays a bulk of three documents. Returns its keys, and whether each took effect after this
/// answer.
fn audited_bulk(
    effect: AuditEffect,
    parts: Option<&str>,
    status: u16,
    said: &'static str,
) -> Vec<(String, String, Option<bool>)> {
    let server = Server::http(move |_| answer(status, said));
    let key = |place: u8| format!("{{{{\"index\":{{{{\"_id\":\"{{seq}}-{place}\"}}}}}}}}");
    let document = "{{\"n\":{seq}}}";
    let lines = match effect {
        AuditEffect::Remove => [1, 2, 3].map(|place| format!("{}\n", key(place))).concat(),
        _ => [1, 2, 3].map(|place| format!("{}\n{document}\n", key(place))).concat(),
    };
    let told = AuditAs { effect, keys: Some("request.body/*/_id".into()), ..AuditAs::default() };
    let bulk = step("post", &["path=/_bulk", &format!("body={lines}")]);
    let bulk = Step { audit: true, audit_as: Some(told), parts: parts.map(Into::into), ..bulk };
    let run = play(http(&server, vec![bulk]));
    let of_first = run.history().into_iter().filter(|line| line.key.starts_with("1-")).cloned();
    of_first.take(3).map(|line| (line.key, line.value.unwrap_or_default(), line.applied)).collect()
}

#[test]
fn a_failed_read_of_a_missing_key_has_found_that_it_is_absent() {
    for (status, applied) in [(404, Some(true)), (410, Some(true)), (400, None), (503, None)] {
        let server = Server::http(move |_| answer(status, "none"));
        let told = AuditAs {
            effect: AuditEffect::Read,
            key: "k-{seq}".into(),
            value: Some("answer.body".into()),
            ..AuditAs::default()
        };
        let run = play(http(&server, vec![Step { audit_as: Some(told), ..step("get", &["path=/k"]) }]));
        let history = run.history();
        assert!(!history.is_empty() && run.summary.failed > 0);
        assert!(history.iter().all(|line| (line.applied, line.value.as_deref()) == (applied, None)), "{status}");
    }
}

#[test]
fn each_key_of_a_bulk_is_audited_with_the_status_of_its_part() {
    const SAID: &str = r#"{"errors": true, "items": [{"index": {"status": 201}}, {"index": {"status": 429}}, {"index": {"status": 503}}]}"#;
    let line = |place: u8, applied| (format!("1-{place}"), "{\"n\":1}".to_owned(), applied);
    let parts = Some("answer.body/items/*/*/status");
    let (write, yes, no) = (AuditEffect::Write, Some(true), Some(false));
    assert_eq!(audited_bulk(write, parts, 200, SAID), [line(1, yes), line(2, no), line(3, None)]);
    // Without parts, the answer counts for all keys.
    assert_eq!(audited_bulk(write, None, 200, SAID), [line(1, yes), line(2, yes), line(3, yes)]);
    // If there are fewer parts than keys, or if the whole request fails, the effect on each key is
    // unknown.
    let fewer = r#"{"items": [{"index": {"status": 201}}]}"#;
    assert_eq!(audited_bulk(write, parts, 200, fewer), [line(1, None), line(2, None), line(3, None)]);
    assert_eq!(audited_bulk(write, parts, 503, SAID), [line(1, None), line(2, None), line(3, None)]);
    let removed = audited_bulk(AuditEffect::Remove, parts, 200, SAID);
    assert!(removed.iter().all(|(_, value, _)| value.is_empty()) && removed[0].2 == yes, "{removed:?}");
}

#[test]
fn invalid_expectations_are_refused() {
    let server = Server::http(|_| answer(200, ""));
    let refused = |field: &str, expected: Expected| {
        let mut step = step("get", &["path=/x"]);
        step.expect.insert(field.into(), expected);
        load::check(&http(&server, vec![step])).unwrap_err().to_string()
    };
    for (error, about) in [
        (refused("body/~", "x".into()), "`/~`"),
        (refused("bdy/x", "x".into()), "no `bdy`"),
        (refused("body", matches("(")), "`(`"),
        (refused("body", one_of(&["{other}"])), "keeps `other`"),
    ] {
        assert!(error.contains(about), "`{error}` should contain `{about}`");
    }
}
