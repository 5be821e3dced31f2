//! Values that a server can check: times, digests, bytes of files, parts.

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

/// Splits a multipart body by the boundary of its request. Returns the head and the value of each
/// part.
fn parts_of(request: &[u8]) -> Vec<(String, Vec<u8>)> {
    let at = memchr::memmem::find(request, b"\r\n\r\n").unwrap();
    let head = String::from_utf8(request[..at].to_vec()).unwrap();
    let boundary = head.split_once("boundary=").unwrap().1.split("\r\n").next().unwrap();
    let (mut rest, mut parts) = (&request[at + 4..], Vec::new());
    loop {
        rest = rest.strip_prefix(format!("--{boundary}").as_bytes()).unwrap();
        if rest == b"--\r\n" {
            return parts;
        }
        let rest_of_part = rest.strip_prefix(b"\r\n").unwrap();
        let at = memchr::memmem::find(rest_of_part, b"\r\n\r\n").unwrap();
        let value = &rest_of_part[at + 4..];
        let end = memchr::memmem::find(value, format!("\r\n--{boundary}").as_bytes()).unwrap();
        parts.push((String::from_utf8_lossy(&rest_of_part[..at]).into_owned(), value[..end].to_vec()));
        rest = &value[end + 2..];
    }
}

#[test]
fn a_server_reads_the_parts_of_a_multipart_body() {
    let folder = fixture::TestDir::new();
    std::fs::create_dir(folder.join("in")).unwrap();
    std::fs::write(folder.join("in/photo \"1\".JPG"), all_bytes()).unwrap();
    let seen: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let server = Server::http(move |request| {
        let mut seen = noted.lock().unwrap();
        let mut body = b"a\r\n--x\r\n\0\xff \"q\"".to_vec();
        if request.body.starts_with(b"POST ") {
            seen.push(request.body.clone());
        } else if let Some(last) = seen.last()
            && request.body.starts_with(b"GET /boundary ")
        {
            let text = String::from_utf8_lossy(last).into_owned();
            body = text.split_once("boundary=").unwrap().1.split("\r\n").next().unwrap().as_bytes().to_vec();
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        Reply::Bytes([head.into_bytes(), body].concat())
    });
    let mut fetch = step("get", &["path=/value"]);
    fetch.keep = pairs(&["v=answer.body"]);
    let with = [
        "path=/upload",
        "multipart.title={v}",
        "multipart.b \"\r\n=x",
        r#"multipart.photo={file:in/photo "1".JPG}"#,
        r#"multipart.again={file:in/photo "1".JPG}"#,
        "filename.again={seq} {v}.bin",
        "type.again=text/x-{seq}",
        r#"multipart.field={file:in/photo "1".JPG}"#,
        "filename.field=",
    ];
    let mut load = load(1, 60.0, vec![fetch.clone(), step("post", &with)]);
    load.count = Some(3);
    let play_in_folder = |load| {
        let mut orders = LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) };
        orders.files = load::InputFiles::below(&*folder);
        play(orders)
    };
    assert_eq!(play_in_folder(load.clone()).summary.ok, 6);
    let value = b"a\r\n--x\r\n\0\xff \"q\"";
    for (number, request) in (1..).zip(seen.lock().unwrap().iter()) {
        let parts = parts_of(request);
        let part = |head: &str| &parts.iter().find(|(known, _)| known == head).expect(head).1;
        let form = "Content-Disposition: form-data; name=";
        assert_eq!(part(&format!("{form}\"title\"")), value);
        assert_eq!(part(&format!("{form}\"b %22%0D%0A\"")), b"x");
        assert!(*part(&format!("{form}\"field\"")) == all_bytes());
        let photo = format!("{form}\"photo\"; filename=\"photo %221%22.JPG\"\r\nContent-Type: image/jpeg");
        assert!(*part(&photo) == all_bytes());
        assert!(parts[3].0.contains("name=\"again\"; filename") && parts[3].0.contains(&format!("text/x-{number}")));
        assert_eq!(parts.len(), 5);
    }
    // A value with the boundary in it is not sent.
    fetch.with = pairs(&["path=/boundary"]);
    load.steps[0] = fetch;
    let run = play_in_folder(load);
    assert_eq!((run.summary.ok, run.summary.failed), (3, 3));
    assert_eq!(run.attempts("not sent: the boundary of the parts in a part"), 3, "{:?}", run.results());
}

#[test]
fn parts_of_a_body_that_exclude_each_other_are_refused() {
    for (with, reason) in [
        (&["multipart.a=1", "body=x"][..], "exclude each other"),
        (&["multipart.a=1", "form.b=x"], "exclude each other"),
        (&["multipart.a=1", "header.Content-Type=text/plain"], "Plimsoll itself sets the type of a multipart body"),
        (&["multipart.a=1", "filename.b=x"], "there is no `multipart.b`"),
        (&["multipart.a=1", "type.a=text/plain\r\nx: y"], "`type.a` has a character that HTTP does not allow in it"),
    ] {
        let load = load(1, 1.0, vec![step("post", &[&["path=/"], with].concat())]);
        let mistakes = load::mistakes(&LoadOrder { protocol: "http".into(), ..orders("127.0.0.1:9", load) });
        assert!(mistakes.iter().any(|mistake| mistake.reason.contains(reason)), "{with:?}: {mistakes:?}");
    }
}
