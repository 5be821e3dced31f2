//! Values that a server can check: times, digests.

use std::sync::{Arc, Mutex};

use experiment::plan::Retry;
use load::LoadOrder;

use crate::server::{Reply, Server};
use crate::setting::{load, orders, pairs, play, step};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const BUSY: &[u8] = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";

/// Returns the calendar's time in milliseconds.
fn now_ms() -> u128 {
    record::clock::calendar().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()
}

#[test]
fn an_operation_has_one_time_also_when_it_is_tried_again() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let server = Server::http(move |request| {
        let mut seen = noted.lock().unwrap();
        seen.push(String::from_utf8(request.body.clone()).unwrap());
        Reply::Bytes(if seen.len() % 2 == 1 { BUSY.to_vec() } else { OK.to_vec() })
    });
    let mut post = step("post", &["path=/{now:%s%3f}/{start}/{now:%F %T}", "header.x-day={now+1d:%F}", "body={start}"]);
    post.set = pairs(&["start={now:%s%3f}"]);
    let mut load = load(1, 60.0, vec![post]);
    load.count = Some(20);
    load.retry = Retry::Tries { tries: 2, wait_s: 0.002 };
    // The load begins when the clock's zero has passed, and the calendar is read once for it.
    let before_ms = now_ms() - 1;
    let run = play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) });
    let after_ms = now_ms() + 1;
    assert_eq!((run.summary.ok, run.summary.attempts), (20, 40));
    let seen = seen.lock().unwrap();
    let mut last_ms = 0;
    for tries in seen.chunks(2) {
        assert_eq!(tries[0], tries[1]);
        let path: Vec<&str> = tries[0].split(' ').nth(1).unwrap()[1..].split('/').collect();
        let ms: u128 = path[0].parse().unwrap();
        assert!((before_ms..=after_ms).contains(&ms) && ms >= last_ms, "{ms} is in {before_ms}..={after_ms}");
        last_ms = ms;
        // The blank and the colons are encoded for their place.
        assert!(path[1] == path[0] && path[2].contains("%20") && path[2].contains("%3A"), "{path:?}");
        assert!(tries[0].ends_with(&format!("\r\n\r\n{ms}")), "{}", tries[0]);
    }
    assert!(last_ms > 0);
}

#[test]
fn a_server_can_check_what_an_operation_signs() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let server = Server::http(move |request| {
        let text = String::from_utf8(request.body.clone()).unwrap();
        let body = if text.starts_with("GET ") { "Jefe" } else { "" };
        noted.lock().unwrap().push(text);
        Reply::Bytes(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
    });
    let mut login = step("get", &["path=/key"]);
    login.keep = pairs(&["key=answer.body"]);
    let with = [
        "path=/s?sum={body|md5}&mac={body|hmac_sha256:key|unhex|base64}",
        "header.x-signature={body|hmac_sha256:key}",
        "header.x-chained={date|hmac_sha256:first}",
        "body={body}",
    ];
    let mut signed = step("post", &with);
    signed.set = pairs(&["body=what do ya want for {what}?", "what={choice:nothing,nothing}", "date=20150830"]);
    signed.set.insert("first".into(), "{body|hmac_sha256:key|unhex}".into());
    let mut load = load(1, 60.0, vec![login, signed]);
    load.count = Some(3);
    let run = play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) });
    assert_eq!(run.summary.ok, 6);
    let seen = seen.lock().unwrap();
    for request in seen.iter().filter(|request| request.starts_with("POST ")) {
        // RFC 4231, 4.3; the others were computed by Python.
        for part in [
            "x-signature: 5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843\r\n",
            "/s?sum=d03cb659cbf9192dcd066272249f8412&mac=W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM%3D ",
            "x-chained: 7879a364d87dc9cadfb54ba337ffed31186d62864392e10cf3ebdcb52d59f503\r\n",
            "Content-Length:         28\r\n\r\nwhat do ya want for nothing?",
        ] {
            assert!(request.contains(part), "{part}: {request}");
        }
    }
}
