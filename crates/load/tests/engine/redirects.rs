//! Redirects that steps follow: methods, bodies and cookies of each request, limits, destinations
//! that are refused, and what is counted.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use experiment::plan::{AuditAs, AuditEffect, Connections, Load, Retry, Step};
use load::LoadOrder;

use crate::server::{Reply, Server};
use crate::setting::{LoadRun, load, orders, pairs, play, step};

type Seen = Arc<Mutex<Vec<String>>>;

/// Starts a server that notes each request: method, target, body, and its headers `cookie`,
/// `content-type` and `x-a`.
fn noting(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> (Server, Seen) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    let server = Server::http(move |request| {
        let text = String::from_utf8(request.body.clone()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let mut lines = head.lines();
        let line = lines.next().unwrap().strip_suffix(" HTTP/1.1").unwrap().to_owned();
        let mut told = if body.is_empty() { line.clone() } else { format!("{line} {body}") };
        for header in lines.filter_map(|header| header.split_once(": ")) {
            let name = header.0.to_ascii_lowercase();
            if ["cookie", "content-type", "x-a"].contains(&name.as_str()) {
                told.push_str(&format!(" {name}={}", header.1));
            }
            assert!(name != "content-length" || !line.starts_with("GET"), "{text}");
        }
        noted.lock().unwrap().push(told);
        reply(&line)
    });
    (server, seen)
}

fn to(status: u16, location: &str, more: &str) -> Reply {
    let head = format!("HTTP/1.1 {status} x\r\nLocation: {location}\r\n{more}Content-Length: 2\r\n\r\nno");
    Reply::Bytes(head.into_bytes())
}

fn page(status: u16, body: &str) -> Reply {
    Reply::Bytes(format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

fn following(call: &str, with: &[&str], expect: &[&str]) -> Step {
    Step { follow: Some(10), expect: pairs(expect), ..step(call, with) }
}

fn run(service: &str, load: Load) -> LoadRun {
    play(LoadOrder { protocol: "http".into(), ..orders(service, load) })
}

/// Plays one cycle of the steps with one agent. Returns the requests that the server has noted.
fn once(server: &(Server, Seen), base: &str, steps: Vec<Step>) -> (Vec<String>, LoadRun) {
    let load = Load { cookies: true, count: Some(1), ..load(1, 10.0, steps) };
    let run = run(&format!("http://{}{base}", server.0.service()), load);
    (std::mem::take(&mut *server.1.lock().unwrap()), run)
}

#[test]
fn a_login_is_followed_to_its_page() {
    let site = || {
        noting(|line| match line {
            "POST /login" => to(303, "/account", "Set-Cookie: sid=7; Path=/\r\n"),
            "GET /account" => to(302, "inside/?x=1#top", "Set-Cookie: a=1\r\nContent-Encoding: gzip\r\n"),
            "GET /inside/?x=1" => to(301, "../hello", "Connection: close\r\n"),
            "GET /hello" => page(200, "hello"),
            _ => page(200, line),
        })
    };
    let login = || Step {
        keep: pairs(&["word=answer.body"]),
        ..following("post", &["path=/login", "form.user=u", "header.x-a=1"], &["status=200", "body=hello"])
    };
    let look = || Step { name: "look".into(), ..step("get", &["path=/look/{word}"]) };
    let server = site();
    let (seen, run) = once(&server, "", vec![login(), look()]);
    let expected = [
        "POST /login user=u x-a=1 content-type=application/x-www-form-urlencoded",
        "GET /account x-a=1 cookie=sid=7",
        "GET /inside/?x=1 x-a=1 cookie=sid=7; a=1",
        "GET /hello x-a=1 cookie=sid=7; a=1",
        "GET /look/hello cookie=sid=7; a=1",
    ];
    let sorted = |text: &str| {
        let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        words[2..].sort();
        words
    };
    assert_eq!(seen.iter().map(|text| sorted(text)).collect::<Vec<_>>(), expected.map(sorted));
    assert_eq!((run.summary.ok, run.summary.failed, run.summary.attempts), (2, 0, 5));
    for result in ["followed 303", "followed 302", "followed 301"] {
        assert_eq!(run.attempts(result), 1, "{:?}", run.results());
    }
    assert_eq!(server.0.connections.load(Ordering::SeqCst), 2, "one redirect closed its connection");
    assert_eq!(run.notices(), [""; 0]);
    // Many agents, on connections of their own and shared.
    for pipeline in [1, 3] {
        let server = site();
        let connections = Connections { keep_alive: true, pipeline };
        let load = Load { cookies: true, connections, ..load(6, 0.2, vec![login(), look()]) };
        let run = self::run(&server.0.service(), load);
        assert!(run.summary.cycles > 0 && (run.summary.failed, run.summary.wrong) == (0, 0), "{:?}", run.summary);
    }
}

#[test]
fn methods_change_as_the_rfc_says() {
    for (call, status, method) in [
        ("post", 301, "GET"),
        ("post", 302, "GET"),
        ("put", 302, "PUT"),
        ("put", 303, "GET"),
        ("post", 307, "POST"),
        ("patch", 308, "PATCH"),
        ("delete", 301, "DELETE"),
    ] {
        let server = noting(move |line| if line.ends_with("/a") { to(status, "/b", "") } else { page(200, "hi") });
        let with = ["path=/a", "body=text", "header.content-type=text/plain", "header.x-a=b"];
        let (seen, run) = once(&server, "", vec![following(call, &with, &["body=hi"])]);
        let rest = if method == "GET" { "x-a=b" } else { "text content-type=text/plain x-a=b" };
        assert_eq!(seen[1..], [format!("{method} /b {rest}")], "{call} {status}");
        assert_eq!(run.summary.ok, 1);
    }
    let head = |status: &str| Reply::Bytes(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n").into_bytes());
    let server = noting(move |line| head(if line.ends_with("/a") { "303 x\r\nLocation: /b" } else { "200 x" }));
    let (seen, run) = once(&server, "", vec![following("head", &["path=/a"], &["status=200"])]);
    assert_eq!((seen, run.summary.ok), (vec!["HEAD /a".to_owned(), "HEAD /b".to_owned()], 1));
}

#[test]
fn another_method_goes_along() {
    let server = noting(|line| if line.ends_with("/a") { to(301, "/b", "") } else { page(207, "hi") });
    let find = following("request", &["method=PROPFIND", "path=/a"], &["status=207"]);
    let (seen, run) = once(&server, "", vec![find]);
    assert_eq!((seen, run.summary.ok), (vec!["PROPFIND /a".to_owned(), "PROPFIND /b".to_owned()], 1));
}

#[test]
fn a_loop_ends_at_the_limit() {
    let server = noting(|_| to(302, "/loop", ""));
    let loops = Step { follow: Some(3), ..step("get", &["path=/loop"]) };
    let (seen, run) = once(&server, "", vec![loops]);
    assert_eq!(seen, ["GET /loop"; 4]);
    assert_eq!((run.summary.ok, run.summary.failed), (0, 1));
    assert_eq!((run.attempts("followed 302"), run.attempts("not followed: too many redirects in a row")), (3, 1));
}

#[test]
fn only_the_service_itself_is_followed() {
    let elsewhere = "not followed: a redirect to another scheme, host or port";
    for (location, follows) in [
        ("http://{here}/b", true),
        ("//{here}/b", true),
        ("HTTP://{HERE}/b", true),
        ("http://shop.example/b", true),
        ("https://{here}/b", false),
        ("http://127.0.0.1:1/b", false),
        ("//example.org/b", false),
        ("ftp://{here}/b", false),
        ("mailto:me@example.org", false),
    ] {
        let here = Arc::<Mutex<String>>::default();
        let known = Arc::clone(&here);
        let server = noting(move |line| {
            let here = known.lock().unwrap();
            let location = location.replace("{here}", &here).replace("{HERE}", &here.to_ascii_uppercase());
            if line.ends_with("/a") { to(302, &location, "") } else { page(200, "hi") }
        });
        *here.lock().unwrap() = server.0.service();
        let (seen, run) = once(&server, "", vec![following("get", &["path=/a", "header.host=shop.example"], &[])]);
        assert_eq!(seen.len(), if follows { 2 } else { 1 }, "{location}: {seen:?}");
        assert_eq!(run.attempts(elsewhere), u64::from(!follows), "{:?}", run.results());
        assert_eq!((run.summary.ok, run.summary.failed), (u64::from(follows), u64::from(!follows)));
    }
}

#[test]
fn paths_are_resolved_below_the_base() {
    let server = noting(|line| match line {
        "GET /base/a/b?q" => to(302, "c d", ""),
        "GET /base/a/c%20d" => to(302, "?x", ""),
        "GET /base/a/c%20d?x" => to(302, "/top", ""),
        _ => page(200, "hi"),
    });
    let (seen, run) = once(&server, "/base", vec![following("get", &["path=/a/b?q"], &["body=hi"])]);
    assert_eq!(seen.last().map(String::as_str), Some("GET /top"), "{seen:?}");
    assert_eq!((run.summary.ok, seen.len()), (1, 4));
}

#[test]
fn a_step_may_differ_from_its_load() {
    let server = noting(|line| if line.ends_with("/a") { to(302, "/b", "") } else { page(200, "hi") });
    let follows = step("get", &["path=/a"]);
    let stays = Step { follow: Some(0), name: "stays".into(), expect: pairs(&["status=302"]), ..follows.clone() };
    let load = Load { follow: 2, count: Some(1), ..load(1, 10.0, vec![follows, stays]) };
    let run = run(&server.0.service(), load);
    assert_eq!(*server.1.lock().unwrap(), ["GET /a", "GET /b", "GET /a"]);
    assert_eq!((run.summary.ok, run.attempts("ok 302"), run.attempts("followed 302")), (2, 1, 1));
}

#[test]
fn a_retry_repeats_the_last_request() {
    let server = noting(|line| match line {
        "POST /a" => to(303, "/b", ""),
        _ => page(503, "busy"),
    });
    let retry = Retry::Tries { tries: 3, wait_s: 0.0 };
    let load = Load { retry, count: Some(1), ..load(1, 10.0, vec![following("post", &["path=/a"], &[])]) };
    let run = run(&server.0.service(), load);
    assert_eq!(*server.1.lock().unwrap(), ["POST /a", "GET /b", "GET /b", "GET /b"]);
    assert_eq!((run.summary.failed, run.attempts("status 503"), run.attempts("followed 303")), (1, 3, 1));
}

/// The first request may have had the effect, so the last one's send time would be too late.
#[test]
fn an_audited_operation_starts_before_its_first_redirect() {
    let server = noting(|line| if line.starts_with("PUT") { to(303, "/done", "") } else { page(200, "done") });
    let told = AuditAs {
        effect: AuditEffect::Write,
        key: "k".into(),
        value: Some("request.body".into()),
        ..AuditAs::default()
    };
    let write = Step { audit_as: Some(told), ..following("put", &["path=/k", "body={seq}"], &[]) };
    let run = run(&format!("http://{}", server.0.service()), Load { count: Some(9), ..load(1, 10.0, vec![write]) });
    let history = run.history();
    assert_eq!((history.len(), run.summary.ok), (9, 9));
    assert!(history.windows(2).all(|pair| pair[1].start_s.unwrap() <= pair[0].at_s), "when the one before ended");
}
