//! Values with syntax in them, in each place of a request: the server receives the value, or the
//! operation is not sent and says why.

use std::sync::{Arc, Mutex};

use load::LoadOrder;

use crate::server::{Reply, Server};
use crate::setting::{load, orders, pairs, play, step};

/// Returns 40 values: syntax of each place, control characters, UTF-8, other bytes, and long ones.
fn values() -> Vec<Vec<u8>> {
    let texts = [
        "plain",
        "",
        "two words",
        " ",
        "a\nb",
        "a\r\nb",
        "\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
        "a\rb",
        "\"",
        "\\",
        "\\\"",
        "'",
        "a&b=c",
        "p&w=2+3%",
        "&",
        "=",
        "?",
        "#",
        "/",
        "../../etc",
        "a/b?c#d",
        "%",
        "%2F",
        "%zz",
        "+",
        "1+1",
        ";",
        "{}",
        "{seq}",
        "\0",
        "a\0b",
        "\t",
        "\x1b[0m",
        "\x7f",
        "naïve café",
        "日本語",
        "🦀",
        "<b>&amp;</b>",
    ];
    let mut values: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    values.push(b"not UTF-8: \xff\xfe".to_vec());
    values.push("0123456789abc&\"\n".repeat(4096).into_bytes());
    values
}

/// Decodes percent-encoding, and `+` if the text is a form.
fn decoded(text: &[u8], is_form: bool) -> Vec<u8> {
    let (mut bytes, mut at) = (Vec::new(), 0);
    while at < text.len() {
        match text[at] {
            b'%' => {
                let digits = std::str::from_utf8(&text[at + 1..at + 3]).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                at += 2;
            }
            b'+' if is_form => bytes.push(b' '),
            byte => bytes.push(byte),
        }
        at += 1;
    }
    bytes
}

/// Returns the value in a request, by the request's place, as a server reads it.
fn received(request: &[u8]) -> Vec<u8> {
    let head = memchr::memmem::find(request, b"\r\n\r\n").unwrap();
    let (head, body) = (&request[..head], &request[head + 4..]);
    let line_end = head.iter().position(|byte| *byte == b'\r').unwrap();
    let path = head[..line_end].split(|byte| *byte == b' ').nth(1).unwrap();
    assert!(head[..line_end].ends_with(b" HTTP/1.1"), "{}", String::from_utf8_lossy(&head[..line_end]));
    match &path[..3] {
        b"/p/" => decoded(&path[3..], false),
        b"/q?" => decoded(path.strip_prefix(b"/q?a=1&v=").unwrap().strip_suffix(b"&z=2").unwrap(), false),
        b"/f/" => {
            assert!(memchr::memmem::find(head, b"Content-Type: application/x-www-form-urlencoded").is_some());
            decoded(body.strip_prefix(b"v=").unwrap().strip_suffix(b"&z=1+%26+2").unwrap(), true)
        }
        b"/t/" => decoded(body.strip_prefix(b"v=").unwrap(), true),
        b"/j/" => {
            let body: serde_json::Value = serde_json::from_slice(body).unwrap();
            body["v"].as_str().unwrap().as_bytes().to_vec()
        }
        _ => {
            let at = memchr::memmem::find(head, b"x-v: ").unwrap() + 5;
            let end = head[at..].windows(2).position(|two| two == b"\r\n").unwrap_or(head.len() - at);
            head[at..at + end].to_vec()
        }
    }
}

#[test]
fn values_with_syntax_arrive_as_they_are_or_are_not_sent() {
    let seen: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let server = Server::http(move |request| {
        let asked = request.body.strip_prefix(b"GET /value/").map(|rest| {
            let digits: String =
                rest.iter().take_while(|byte| byte.is_ascii_digit()).map(|byte| *byte as char).collect();
            digits.parse::<usize>().unwrap()
        });
        let body = match asked {
            Some(number) => values()[number - 1].clone(),
            None => {
                noted.lock().unwrap().push(request.body.clone());
                Vec::new()
            }
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        Reply::Bytes([head.into_bytes(), body].concat())
    });
    let count = values().len();
    assert_eq!(count, 40);
    let places: [(&str, &str, &[&str]); 6] = [
        ("get", "path", &["path=/p/{v}"]),
        ("get", "query", &["path=/q?a=1&v={v}&z=2"]),
        ("post", "form", &["path=/f/", "form.v={v}", "form.z=1 & 2"]),
        ("post", "typed form", &["path=/t/", "header.content-type=application/x-www-form-urlencoded", "body=v={v}"]),
        ("post", "json", &["path=/j/", r#"body={{"n": {seq}, "v": "{v}"}}"#]),
        ("get", "header", &["path=/h/", "header.x-v={v}"]),
    ];
    for (call, place, with) in places {
        let mut fetch = step("get", &["path=/value/{seq}"]);
        fetch.keep = pairs(&["v=answer.body"]);
        let mut load = load(1, 60.0, vec![fetch, step(call, with)]);
        load.count = Some(count as u64);
        let run = play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) });
        let mut requests = std::mem::take(&mut *seen.lock().unwrap()).into_iter();
        let mut unsent = 0;
        for value in values() {
            let can_hold = match place {
                "header" => !value.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f),
                "json" => std::str::from_utf8(&value).is_ok(),
                _ => true,
            };
            if can_hold {
                let received = received(&requests.next().unwrap());
                let sent = String::from_utf8_lossy(&value[..value.len().min(60)]).into_owned();
                // A server may drop blanks around a header's value (RFC 9110, 5.5).
                let is_same = received == value || (place == "header" && received.trim_ascii() == value.trim_ascii());
                assert!(is_same, "{place}: {sent:?} arrived as {:?}", String::from_utf8_lossy(&received));
            } else {
                unsent += 1;
            }
        }
        assert_eq!(requests.len(), 0, "{place}: requests that no operation sent");
        assert_eq!((run.summary.failed, run.summary.wrong), (unsent, 0), "{place}: {:?}", run.results());
        let is_known = |result: &&str| {
            ["ok", "not sent: a byte that a header cannot hold", "not sent: bytes that are not UTF-8 in a JSON string"]
                .contains(result)
        };
        assert!(run.results().iter().all(is_known), "{place}: {:?}", run.results());
    }
}
