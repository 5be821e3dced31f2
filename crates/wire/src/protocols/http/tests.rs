//! Tests of HTTP: exact bytes of requests, answers of every framing cut at any place, and hostile
//! answers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::plan::StreamEnd;
use proptest::prelude::*;

use super::*;
use crate::answer_budget::BudgetShare;
use crate::cookies::{RequestCookies, SetCookie};
use crate::testing::exchange::{
    Compiled, Seen, compile, compile_for, compile_stream, encode, feed, is_the_same_in_pieces, shown,
};
use crate::testing::{names, source};
use crate::values::{Argument, CompiledTemplate};

fn http() -> Http {
    Http::open("http://127.0.0.1:8080/base/").unwrap()
}

fn compiled(operation: &str, with: &[(&str, &str)], wants: &[&str]) -> Compiled<Http> {
    compile(&http(), operation, with, wants).unwrap()
}

fn get() -> Compiled<Http> {
    compiled("get", &[("path", "/")], &["status", "body", "header.X-Kind"])
}

fn seen(result: AttemptCause, reusable: bool, status: &str, body: &str, kind: Option<&str>) -> Seen {
    Seen::answer(result, reusable, status, &[Some(status), Some(body), kind])
}

#[test]
fn services() {
    for (service, authority) in [
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("http://host", "host:80"),
        ("http://host/", "host:80"),
        ("http://host:81/a/b", "host:81"),
        ("http://[::1]/", "[::1]:80"),
        ("http://[::1]:8080", "[::1]:8080"),
    ] {
        assert_eq!(Http::open(service).unwrap().authority(), authority, "{service}");
    }
    for service in [
        "",
        "host",
        "ftp://host",
        "http://h/\r\nX: y",
        "http://h\tx/",
        "http://",
        "http://host:x",
        "http://u@host",
        "http://host?q",
        "http://host/#f",
    ] {
        assert!(Http::open(service).is_err(), "{service}");
    }
    for (service, authority, host) in [
        ("https://host", "host:443", Some("host")),
        ("https://host.example:8443/a", "host.example:8443", Some("host.example")),
        ("https://[::1]:8443", "[::1]:8443", Some("::1")),
        ("https://[::1]/", "[::1]:443", Some("::1")),
        ("http://host:443", "host:443", None),
        ("host:443", "host:443", None),
    ] {
        let http = Http::open(service).unwrap();
        assert_eq!((http.authority(), http.tls_host()), (authority, host), "{service}");
    }
}

#[test]
fn requests_byte_for_byte() {
    let table = [
        ("get", &[("path", "/")][..], "GET /base/ HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"),
        ("head", &[("path", "/x?a=1")], "HEAD /base/x?a=1 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"),
        (
            "get",
            &[("header.Accept", "text/{agent}"), ("path", "/c/{seq}")],
            "GET /base/c/12 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: text/3\r\n\r\n",
        ),
        (
            "post",
            &[("body", "hello"), ("header.host", "other"), ("path", "/")],
            "POST /base/ HTTP/1.1\r\nhost: other\r\nContent-Length: 5\r\n\r\nhello",
        ),
        (
            "put",
            &[("body", "n{seq}"), ("path", "/")],
            "PUT /base/ HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length:          3\r\n\r\nn12",
        ),
        ("patch", &[("path", "/")], "PATCH /base/ HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: 0\r\n\r\n"),
    ];
    for (operation, with, expected) in table {
        let bytes = encode(&compiled(operation, with, &[]), 1);
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}

#[test]
fn cookies_of_an_answer() {
    let get = compiled("get", &[("path", "/")], &["cookie.sid", "cookie.SID", "header.set-cookie"]);
    let bytes =
        b"HTTP/1.1 200 OK\r\nSet-Cookie: sid=1\r\nx: sid=9\r\nSET-COOKIE: SID=2\r\nSet-Cookie:sid = 3 ;Path=/\r\n\
        Set-Cookie: sid; a=b\r\nContent-Length: 2\r\n\r\nhi";
    let expected = Seen::answer(AttemptCause::Ok, true, "200", &[Some("3"), Some("2"), Some("sid=1")]);
    assert_eq!(is_the_same_in_pieces(&get, 1, bytes, false), expected);
}

#[test]
fn a_jar_adds_its_cookies_to_a_request() {
    let mut jar = CookieJar::default();
    for cookie in ["a=1; Path=/base/x", "b=2; Path=/", "c=3; Path=/; Secure", "d=4; Path=/y"] {
        jar.set(&SetCookie::parse(cookie.as_bytes()).unwrap(), b"", b"/", 100);
    }
    let empty = CookieJar::default();
    let cookies = |jar| Some(RequestCookies { jar, now_s: 100 });
    let line = |service: &str, with: &[(&str, &str)], cookies| {
        let http = Http::open(service).unwrap();
        let argument = |(name, text): &(&str, &str)| Argument {
            name: (*name).to_owned(),
            template: CompiledTemplate::compile(text, 0, &names()).unwrap(),
        };
        let arguments: Vec<Argument> = with.iter().map(argument).collect();
        let operation = &INFO.operations[0];
        let (number, program, closes) = (0, None, false);
        let call = Call {
            number,
            operation,
            arguments: &arguments,
            wants: &[],
            program,
            closes,
            cookies: true,
            cookie_host: "",
            follow: 0,
            stream: None,
        };
        let request = http.compile(&call).unwrap();
        // The buffer already holds another request.
        let mut out = b"GET /other HTTP/1.1\r\n\r\n".to_vec();
        let values = OperationValues { source: source(1, 1), arguments: &arguments, cookies, redirection: None };
        <Http as InOrderProtocol>::encode(&request, 1, &values, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (_, sent) = text.split_once("\r\n\r\n").unwrap();
        assert!(sent.ends_with("\r\n\r\n") && !sent.contains("\r\n\r\n\r\n"), "{sent:?}");
        sent.lines().filter(|line| line.to_ascii_lowercase().starts_with("cookie")).collect::<Vec<_>>().join("|")
    };
    let (plain, secure) = ("http://h:80/base", "https://h/base");
    for (service, with, cookies, expected) in [
        (plain, &[("path", "/x?y")][..], cookies(&jar), "Cookie: a=1; b=2"),
        (plain, &[("path", "/")], cookies(&jar), "Cookie: b=2"),
        (secure, &[("path", "/x")], cookies(&jar), "Cookie: a=1; b=2; c=3"),
        (plain, &[("header.Cookie", "z={seq}"), ("path", "/x")], cookies(&jar), "Cookie: z=1; a=1; b=2"),
        (plain, &[("header.cookie", ""), ("path", "/x")], cookies(&jar), "cookie: a=1; b=2"),
        (plain, &[("header.cookie", "z=1"), ("path", "/x")], cookies(&empty), "cookie: z=1"),
        (plain, &[("path", "/x")], cookies(&empty), ""),
        (plain, &[("path", "/x")], None, ""),
        ("h:80", &[("path", "http://other/base/x/y")], cookies(&jar), "Cookie: a=1; b=2"),
    ] {
        assert_eq!(line(service, with, cookies), expected, "{service} {with:?}");
    }
}

#[test]
fn a_closing_request_sends_connection_close() {
    let closing = compile_for(&http(), "post", &[("path", "/"), ("body", "x")], &[], true).unwrap();
    let expected = "POST /base/ HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(String::from_utf8(encode(&closing, 1)).unwrap(), expected);
}

#[test]
fn invalid_requests_are_refused() {
    for with in [
        &[][..],
        &[("path", "x")],
        &[("path", "/a b")],
        &[("path", "/"), ("query", "x")],
        &[("path", "/"), ("header.", "x")],
        &[("path", "/"), ("header.a b", "x")],
        &[("path", "/"), ("header.x", "a\r\nb: c")],
        &[("path", "/"), ("header.Content-Length", "3")],
        &[("path", "/"), ("header.x-a", "1"), ("header.X-A", "2")],
        // The same values as literal parts of a template.
        &[("path", "x/{seq}")],
        &[("path", "{seq}")],
        &[("path", "/a b/{seq}")],
        &[("path", "/"), ("header.x", "{seq}\n")],
    ] {
        assert!(compile(&http(), "get", with, &[]).is_err(), "{with:?}");
    }
    assert!(compile(&http(), "get", &[("path", "/")], &["colour"]).is_err());
}

#[test]
fn answers_of_every_framing() {
    let table = [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Kind:  a b \r\n\r\nhello",
            false,
            seen(AttemptCause::Ok, true, "200", "hello", Some("a b")),
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", false, seen(AttemptCause::Ok, true, "200", "", None)),
        ("HTTP/1.1 204 No Content\r\nx-kind: n\r\n\r\n", false, seen(AttemptCause::Ok, true, "204", "", Some("n"))),
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
            false,
            seen(AttemptCause::Ok, true, "304", "", None),
        ),
        ("HTTP/1.1 302 Found\r\nContent-Length: 1\r\n\r\nx", false, seen(AttemptCause::Ok, true, "302", "x", None)),
        (
            "HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno",
            false,
            seen(AttemptCause::Status(503), true, "503", "no", None),
        ),
        ("HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n", false, seen(AttemptCause::Status(404), true, "404", "", None)),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Kind: c\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n",
            false,
            seen(AttemptCause::Ok, true, "200", "abc0123456789", Some("c")),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            false,
            seen(AttemptCause::Ok, true, "200", "", None),
        ),
        (
            "HTTP/1.1 200 OK\r\nX-Kind: e\r\n\r\nto the end",
            true,
            seen(AttemptCause::Ok, false, "200", "to the end", Some("e")),
        ),
        ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", false, seen(AttemptCause::Ok, false, "200", "x", None)),
        (
            "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx",
            false,
            seen(AttemptCause::Ok, true, "200", "x", None),
        ),
        (
            "HTTP/1.1 200 OK\r\nConnection: foo, close\r\nContent-Length: 1\r\n\r\nx",
            false,
            seen(AttemptCause::Ok, false, "200", "x", None),
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nX-Kind: i\r\nContent-Length: 2\r\n\r\nhi",
            false,
            seen(AttemptCause::Ok, true, "200", "hi", Some("i")),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nz\r\n0\r\n\r\n",
            false,
            seen(AttemptCause::Ok, false, "200", "z", None),
        ),
    ];
    for (bytes, ends, expected) in table {
        assert_eq!(is_the_same_in_pieces(&get(), 1, bytes.as_bytes(), ends), expected, "{bytes:?}");
    }
}

#[test]
fn an_answer_to_head_has_no_body() {
    let head = compiled("head", &[("path", "/")], &["status"]);
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    let expected = Seen::Answer {
        result: AttemptCause::Ok,
        reusable: true,
        surplus: Vec::new(),
        fields: vec![Some("200".into())],
        status: "200".into(),
        messages: 0,
    };
    assert_eq!(is_the_same_in_pieces(&head, 1, bytes, false), expected);
}

#[test]
fn unwanted_bodies_are_discarded() {
    let plain = compiled("get", &[("path", "/")], &[]);
    for bytes in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ] {
        let Seen::Answer { result, surplus, .. } = is_the_same_in_pieces(&plain, 1, bytes.as_bytes(), false) else {
            panic!("no answer")
        };
        assert_eq!((result, surplus.as_slice()), (AttemptCause::Ok, &b""[..]));
    }
}

#[test]
fn hostile_answers() {
    let many = format!("HTTP/1.1 200 OK\r\n{}", "X: y\r\n".repeat(200));
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(HEAD_LIMIT));
    let table = [
        ("nonsense\r\n\r\n", AttemptCause::BadAnswer),
        ("HTTP/1.1 099 Low\r\n\r\n", AttemptCause::BadAnswer),
        ("HTTP/1.1 101 Switching\r\n\r\n", AttemptCause::Malformed(Malformation::Switched)),
        ("HTTP/1.1 200 OK\r\nX: a\r\n\tb\r\n\r\n", AttemptCause::Malformed(Malformation::FoldedHeader)),
        // The first error counts.
        ("HTTP/1.1 200 OK\r\nX\r\nY: a\r\n b\r\n\r\n", AttemptCause::BadAnswer),
        ("\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x64", AttemptCause::Malformed(Malformation::Http2)),
        ("\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x01", AttemptCause::Malformed(Malformation::Http2)),
        ("\0\0\x08\x07\0\0\0\0\x01", AttemptCause::BadAnswer),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", AttemptCause::BadAnswer),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", AttemptCause::BadAnswer),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", AttemptCause::BadAnswer),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", AttemptCause::TooLong),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", AttemptCause::BadAnswer),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", AttemptCause::BadAnswer),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", AttemptCause::BadAnswer),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFF\r\n", AttemptCause::TooLong),
        (many.as_str(), AttemptCause::Malformed(Malformation::TooManyHeaders)),
    ];
    for (bytes, cause) in table {
        assert_eq!(is_the_same_in_pieces(&get(), 1, bytes.as_bytes(), false), Seen::Bad(cause), "{bytes:?}");
    }
    assert_eq!(
        feed(&get(), &mut HttpScratch::default(), 1, &[endless.as_bytes()], false),
        Seen::Bad(AttemptCause::Malformed(Malformation::LongHead))
    );
    let chunk = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;{}", "e".repeat(5000));
    assert_eq!(
        feed(&get(), &mut HttpScratch::default(), 1, &[chunk.as_bytes()], false),
        Seen::Bad(AttemptCause::BadAnswer)
    );
}

#[test]
fn skipped_bytes_have_a_limit() {
    let interim = "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n".repeat(HEAD_LIMIT / 30);
    assert_eq!(
        feed(&get(), &mut HttpScratch::default(), 1, &[interim.as_bytes()], false),
        Seen::Bad(AttemptCause::TooLong)
    );
    let start: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = format!("1;{}\r\nx\r\n", "e".repeat(4000)).repeat(100);
    let chunks = std::iter::repeat_n(chunks.as_bytes(), BODY_LIMIT as usize / chunks.len() + 1);
    let pieces: Vec<&[u8]> = std::iter::once(start).chain(chunks).collect();
    assert_eq!(feed(&get(), &mut HttpScratch::default(), 1, &pieces, false), Seen::Bad(AttemptCause::TooLong));
}

/// Bytes after the longest allowed header block must not change the result.
#[test]
fn a_head_over_the_limit_fails_in_any_pieces() {
    let head = format!("HTTP/1.1 200 OK\r\nX: {}\0\r\n\r\n", "y".repeat(HEAD_LIMIT));
    for pieces in [&[head.as_bytes()][..], &[&head.as_bytes()[..100], &head.as_bytes()[100..]]] {
        let long = Seen::Bad(AttemptCause::Malformed(Malformation::LongHead));
        assert_eq!(feed(&get(), &mut HttpScratch::default(), 1, pieces, false), long);
    }
}

#[test]
fn a_truncated_answer_is_no_answer() {
    for bytes in [
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
    ] {
        assert_eq!(is_the_same_in_pieces(&get(), 1, bytes.as_bytes(), true), Seen::More, "{bytes:?}");
    }
}

#[test]
fn bytes_after_an_answer_are_left() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1";
    let Seen::Answer { surplus, .. } = is_the_same_in_pieces(&get(), 1, bytes, false) else { panic!("no answer") };
    assert_eq!(surplus, b"HTTP/1.1");
}

#[test]
fn a_cached_head_is_used_only_if_identical() {
    let mut memory = HttpScratch::default();
    for (bytes, body) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", "a"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb", "b"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\ncd", "cd"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX: y\r\n\r\ne", "e"),
    ] {
        let expected = seen(AttemptCause::Ok, true, "200", body, None);
        assert_eq!(feed(&get(), &mut memory, 1, &[bytes.as_bytes()], false), expected);
    }
}

proptest! {
    #[test]
    fn nonsense_never_panics(
        start in "(HTTP/1.[01] [1-5][0-9]{2} ?\r\n)?((Content-Length: [0-9]{1,3}|Transfer-Encoding: chunked|Connection: close)\r\n){0,3}(\r\n)?",
        rest in prop::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'0'), Just(b'5'), any::<u8>()], 0..60),
        cut in 0_usize..120,
        ends: bool,
    ) {
        let bytes = [start.as_bytes(), rest.as_slice()].concat();
        let (left, right) = bytes.split_at(cut.min(bytes.len()));
        let cut = feed(&get(), &mut HttpScratch::default(), 1, &[left, right], ends);
        let whole = feed(&get(), &mut HttpScratch::default(), 1, &[&bytes], ends);
        prop_assert_eq!(cut, whole);
    }

    #[test]
    fn chunked_bodies_are_decoded_unchanged(body in "[ -~]{0,200}", sizes in prop::collection::vec(1_usize..40, 1..8)) {
        let mut chunked = String::from("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let mut rest = body.as_str();
        for size in sizes.iter().cycle() {
            let (chunk, behind) = rest.split_at((*size).min(rest.len()));
            if chunk.is_empty() {
                break;
            }
            chunked.push_str(&format!("{:x}\r\n{chunk}\r\n", chunk.len()));
            rest = behind;
        }
        chunked.push_str("0\r\n\r\n");
        let expected = seen(AttemptCause::Ok, true, "200", &body, None);
        prop_assert_eq!(feed(&get(), &mut HttpScratch::default(), 1, &[chunked.as_bytes()], false), expected.clone());
        let pieces: Vec<&[u8]> = chunked.as_bytes().chunks(7).collect();
        prop_assert_eq!(feed(&get(), &mut HttpScratch::default(), 1, &pieces, false), expected);
    }

    #[test]
    fn lengths_agree_with_bodies(body in "[ -z]{0,300}") {
        let fixed = encode(&compiled("post", &[("path", "/"), ("body", &body)], &[]), 1);
        let open = encode(&compiled("post", &[("path", "/"), ("body", &format!("{body}{{agent}}"))], &[]), 1);
        for (bytes, expected) in [(fixed, body.clone()), (open, format!("{body}3"))] {
            let mut headers = [httparse::EMPTY_HEADER; 8];
            let mut request = httparse::Request::new(&mut headers);
            let length = request.parse(&bytes).unwrap().unwrap();
            let said = request.headers.iter().find(|header| header.name == "Content-Length").unwrap();
            let said: usize = std::str::from_utf8(said.value).unwrap().trim().parse().unwrap();
            prop_assert_eq!(said, expected.len());
            prop_assert_eq!(&bytes[length..], expected.as_bytes());
        }
    }
}

#[test]
fn a_wanted_body_beyond_the_answer_budget_is_too_large() {
    use crate::answer_budget::Budget;
    static SMALL: Budget = Budget::of(2 * 1024 * 1024);
    let (wanting, letting_go) = (compiled("get", &[("path", "/")], &["body"]), compiled("get", &[("path", "/")], &[]));
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 4000000\r\n\r\n";
    let piece = vec![b'x'; 900 * 1024];
    let after = |request: &Request, pieces: usize| {
        let (mut decoder, mut memory) = (Decoder::default(), HttpScratch::default());
        decoder.content.held = BudgetShare::of(&SMALL);
        let first = decoder.decode(request, &mut memory, head, false);
        assert!(matches!(first, Ok(Progress::More { .. })));
        (0..pieces).map(|_| decoder.decode(request, &mut memory, &piece, false)).last().unwrap()
    };
    assert!(matches!(after(&wanting.request, 2), Ok(Progress::More { .. })));
    assert_eq!(after(&wanting.request, 3), Err(AttemptCause::TooLarge));
    assert!(matches!(after(&letting_go.request, 4), Ok(Progress::More { .. })), "what nobody looks into is let go");
    assert!(matches!(after(&wanting.request, 2), Ok(Progress::More { .. })), "and everything was given back");
}

#[test]
fn any_method_is_sent_as_it_is() {
    let sent = |method: &str, more: &[(&str, &str)]| {
        let with = [&[("method", method), ("path", "/x")], more].concat();
        compile(&Http::open("h:1").unwrap(), "request", &with, &["status"])
    };
    for (method, more, request) in [
        ("PROPFIND", &[("header.depth", "1")][..], "PROPFIND /x HTTP/1.1\r\nHost: h:1\r\ndepth: 1\r\n\r\n"),
        ("x-a.b_c~", &[], "x-a.b_c~ /x HTTP/1.1\r\nHost: h:1\r\n\r\n"),
        ("LOCK", &[("body", "hi")], "LOCK /x HTTP/1.1\r\nHost: h:1\r\nContent-Length: 2\r\n\r\nhi"),
        ("PUT", &[], "PUT /x HTTP/1.1\r\nHost: h:1\r\nContent-Length: 0\r\n\r\n"),
    ] {
        assert_eq!(shown(&encode(&sent(method, more).unwrap(), 1)), request);
    }
    let head = sent("HEAD", &[]).unwrap();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let expected = Seen::answer(AttemptCause::Ok, true, "200", &[Some("200")]);
    assert_eq!(is_the_same_in_pieces(&head, 1, answer, false), expected);
    let may_change = |method| Http::may_change(&sent(method, &[]).unwrap().request);
    assert!(!may_change("OPTIONS") && !may_change("PROPFIND") && may_change("PURGE") && may_change("get"));
    for (method, more, why) in [
        ("", &[][..], "not the name of a method"),
        ("GET /", &[], "not the name of a method"),
        ("M\u{c9}THODE", &[], "not the name of a method"),
        ("{seq}", &[], "literal text"),
        ("CONNECT", &[], "tunnel"),
        ("TRACE", &[("body", "x")], "no body"),
    ] {
        let error = sent(method, more).map(|_| ()).unwrap_err();
        assert!(error.contains(why) && error.starts_with("`method`"), "{method}: {error}");
    }
}

/// `hello` in gzip, coded once more by node's encoder of brotli.
const GZIP_BROTLI: &[u8] = &[
    0x0b, 0x0c, 0x80, 0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x07,
    0x00, 0x86, 0xa6, 0x10, 0x36, 0x05, 0x00, 0x00, 0x00, 0x03,
];

/// Returns an answer with this body in the three framings.
fn coded_answers(status: &str, coding: &str, body: &[u8]) -> Vec<(Vec<u8>, bool)> {
    let head = format!("HTTP/1.1 {status} x\r\nX-Kind: k\r\nContent-Encoding: {coding}\r\n");
    let length = format!("Content-Length: {}\r\n\r\n", body.len());
    let (left, right) = body.split_at(body.len() / 2);
    let chunks = [
        format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", left.len()).as_bytes(),
        left,
        format!("\r\n{:x}\r\n", right.len()).as_bytes(),
        right,
        b"\r\n0\r\n\r\n",
    ]
    .concat();
    vec![
        ([head.as_bytes(), length.as_bytes(), body].concat(), false),
        ([head.as_bytes(), &chunks].concat(), false),
        ([head.as_bytes(), b"\r\n", body].concat(), true),
    ]
}

#[test]
fn a_coded_body_is_decoded_if_a_step_needs_it() {
    let plain = compiled("get", &[("path", "/")], &["status", "header.x-kind"]);
    for (answer, ends) in coded_answers("200", "gzip, br", GZIP_BROTLI) {
        let reusable = !ends;
        assert_eq!(
            is_the_same_in_pieces(&get(), 1, &answer, ends),
            seen(AttemptCause::Ok, reusable, "200", "hello", Some("k"))
        );
        let without = Seen::answer(AttemptCause::Ok, reusable, "200", &[Some("200"), Some("k")]);
        assert_eq!(is_the_same_in_pieces(&plain, 1, &answer, ends), without);
    }
}

#[test]
fn a_body_that_cannot_be_decoded_fails_only_who_needs_it() {
    let plain = compiled("get", &[("path", "/")], &["status"]);
    let broken = AttemptCause::Malformed(Malformation::BrokenCoding(ContentCoding::Brotli));
    let unknown = AttemptCause::Malformed(Malformation::UnknownCoding);
    for (coding, cause) in [("br", broken), ("compress", unknown)] {
        for (status, result) in [("200", cause), ("503", AttemptCause::Status(503))] {
            for (answer, ends) in coded_answers(status, coding, b"\xff no brotli") {
                let expected = Seen::answer(result, !ends, status, &[Some(status), None, Some("k")]);
                assert_eq!(is_the_same_in_pieces(&get(), 1, &answer, ends), expected);
                let Seen::Answer { result, .. } = is_the_same_in_pieces(&plain, 1, &answer, ends) else { panic!() };
                assert_ne!(result, cause);
            }
        }
    }
    let empty = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(is_the_same_in_pieces(&get(), 1, empty, false), seen(AttemptCause::Ok, true, "200", "", None));
}

#[test]
fn an_excerpt_shows_the_decoded_body() {
    for (answer, _) in coded_answers("500", "gzip, br", GZIP_BROTLI) {
        let mut out = Vec::new();
        Http::show_answer(ShownAnswer { bytes: &answer, is_decoded: false }, &mut out);
        let shown = String::from_utf8(out).unwrap();
        assert!(shown.starts_with("HTTP/1.1 500 x; content-encoding: gzip, br"), "{shown}");
        assert!(shown.ends_with("; body: hello"), "{shown}");
    }
}

#[test]
fn events_are_the_same_in_pieces() {
    let http = Http::open("127.0.0.1:1").unwrap();
    let all = StreamEnd::default();
    let read = |wants: &[&str], answer: &[u8], ends| {
        let get = compile_stream(&http, "get", &[("path", "/")], wants, &all).unwrap();
        let sent = String::from_utf8(encode(&get, 1)).unwrap();
        assert!(sent.contains("\r\nAccept: text/event-stream\r\n"), "{sent}");
        is_the_same_in_pieces(&get, 1, answer, ends)
    };
    let kind = "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream ; charset=utf-8\r\n";
    let events = "data: one\r\n\r\n: x\n\ndata: two\n\ndata: cut";
    let chunked = format!(
        "{kind}Transfer-Encoding: chunked\r\n\r\n11\r\n{}\r\n15\r\n{}\r\n0\r\n\r\n",
        &events[..17],
        &events[17..]
    );
    let length = format!("{kind}Content-Length: {}\r\n\r\n{events}", events.len());
    for (answer, ends, reusable) in
        [(chunked, false, true), (length, false, true), (format!("{kind}\r\n{events}"), true, false)]
    {
        let Seen::Answer { result, messages, fields, reusable: is_reusable, .. } =
            read(&["status", "body", "header.content-type"], answer.as_bytes(), ends)
        else {
            panic!("no answer")
        };
        assert_eq!((result, messages, is_reusable), (AttemptCause::Ok, 2, reusable));
        assert_eq!(fields[..2], [Some("200".to_owned()), Some(events.to_owned())]);
        let Seen::Answer { messages, .. } = read(&[], answer.as_bytes(), ends) else { panic!("no answer") };
        assert_eq!(messages, 2);
    }
    let plain = format!("{kind}Content-Encoding: identity\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(read(&[], plain.as_bytes(), false), Seen::answer(AttemptCause::Ok, true, "200", &[]));
    let refused = AttemptCause::Malformed(Malformation::NotEventStream);
    let other = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    assert_eq!(read(&[], other, false), Seen::answer(refused, true, "200", &[]));
}
