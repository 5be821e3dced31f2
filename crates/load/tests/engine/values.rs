//! Values that a server can check: times, digests, bytes of files.

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

/// Returns all bytes, NUL and bytes that are not UTF-8 included.
fn all_bytes() -> Vec<u8> {
    (0..=u8::MAX).cycle().take(100_000).collect()
}

#[test]
fn bytes_of_files_arrive_unchanged() {
    let folder = fixture::TestDir::new();
    std::fs::write(folder.join("a {1}.bin"), all_bytes()).unwrap();
    std::fs::write(folder.join("text.txt"), "say \"hi\"\n").unwrap();
    let seen: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let server = Server::http(move |request| {
        noted.lock().unwrap().push(request.body.clone());
        Reply::Bytes(OK.to_vec())
    });
    let with = ["path=/binary", r"header.x-sum={file:a \{1\}.bin|md5}", r"body={file:a \{1\}.bin}"];
    let json = ["path=/json", "header.content-type=application/json", r#"body={{"text": "{file:text.txt}"}}"#];
    let around = ["path=/around", r"body={seq}:{file:a \{1\}.bin}:{random_bytes:100000}"];
    let named = |name: &str, with: &[&str]| experiment::plan::Step { name: name.into(), ..step("post", with) };
    let steps = vec![named("binary", &with), named("json", &json), named("around", &around)];
    let mut load = load(2, 60.0, steps);
    load.threads = Some(2);
    load.count = Some(6);
    assert_eq!(load.files(), ["a {1}.bin", "text.txt"]);
    let mut orders = LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) };
    orders.files = load::InputFiles::below(&*folder);
    let run = play(orders);
    assert_eq!((run.summary.ok, run.summary.attempts), (18, 18));
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let mut random = std::collections::BTreeSet::new();
    for request in &seen {
        let head = memchr::memmem::find(request, b"\r\n\r\n").unwrap();
        let (head, body) = (String::from_utf8(request[..head].to_vec()).unwrap(), &request[head + 4..]);
        if head.starts_with("POST /binary ") {
            assert!(head.contains("\r\nx-sum: 7007d9ba10b9a5e64a9f92df87e94a06\r\n"), "{head}");
            assert!(head.contains("\r\nContent-Length: 100000") && body == all_bytes());
        } else if head.starts_with("POST /json ") {
            assert_eq!(body, br#"{"text": "say \"hi\"\n"}"#);
        } else {
            let body = body.splitn(2, |byte| *byte == b':').nth(1).unwrap();
            assert!(body[..100_000] == all_bytes() && body[100_000] == b':' && body.len() == 200_001);
            let values: std::collections::BTreeSet<&u8> = body[100_001..].iter().collect();
            assert_eq!(values.len(), 256);
            random.insert(body[100_001..].to_vec());
        }
    }
    assert_eq!((seen.len(), random.len()), (18, 6));
}

#[test]
fn files_that_cannot_be_values_are_refused_before_the_load() {
    let folder = fixture::TestDir::new();
    folder.write("lines.txt", "a\nb");
    for (with, reason) in [
        ("body={file:none.bin}", "none.bin`: No such file"),
        ("body={file:.}", "it is not a regular file"),
        ("header.x-lines={file:lines.txt}", "a character that HTTP does not allow"),
    ] {
        let load = load(1, 1.0, vec![step("post", &["path=/", with])]);
        let mut orders = LoadOrder { protocol: "http".into(), ..orders("127.0.0.1:9", load) };
        orders.files = load::InputFiles::below(&*folder);
        let mistakes = load::mistakes(&orders);
        assert!(mistakes.iter().any(|mistake| mistake.reason.contains(reason)), "{with}: {mistakes:?}");
    }
}
