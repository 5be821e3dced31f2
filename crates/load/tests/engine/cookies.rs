//! Cookie jars under the engine: against servers that count their sessions and check each request's
//! cookies.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use experiment::plan::{Connections, Load, Retry, Step};
use load::LoadOrder;

use crate::server::{Reply, Server};
use crate::setting::{LoadRun, load, orders, pairs, play, step};

/// Sessions of the shop's server, and what it has counted.
#[derive(Debug, Default)]
struct Shop {
    open: BTreeSet<u64>,
    logins: u64,
    pages: u64,
    logouts: u64,
    /// Requests with cookies that a client must not send.
    faults: Vec<String>,
}

/// Returns the path of a request, and its cookies as they were sent.
fn path_and_cookies(request: &[u8]) -> (String, Option<String>) {
    let text = String::from_utf8(request.to_vec()).unwrap();
    let path = text.split(' ').nth(1).unwrap().to_owned();
    let mut cookies = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("cookie").then(|| value.to_owned())
    });
    let found = cookies.next();
    assert_eq!(cookies.next(), None, "two headers with cookies");
    (path, found)
}

fn answer(status: u16, cookies: &[&str]) -> Reply {
    let set: String = cookies.iter().map(|cookie| format!("Set-Cookie: {cookie}\r\n")).collect();
    Reply::Bytes(format!("HTTP/1.1 {status} x\r\n{set}Content-Length: 2\r\n\r\nhi").into_bytes())
}

impl Shop {
    fn serve(&mut self, request: &[u8]) -> Reply {
        let (path, cookies) = path_and_cookies(request);
        let sent = cookies.clone().unwrap_or_default();
        let session = sent.strip_prefix("lang=en; sid=").and_then(|sid| sid.parse::<u64>().ok());
        let session = session.filter(|sid| self.open.contains(sid));
        match (path.as_str(), session) {
            ("/login", _) => {
                if cookies.is_some() {
                    self.faults.push(format!("{path}: {sent}"));
                }
                self.logins += 1;
                self.open.insert(self.logins);
                answer(200, &["lang=en; Path=/; Max-Age=3600", &format!("sid={}; Path=/; HttpOnly", self.logins)])
            }
            ("/page", Some(_)) => {
                self.pages += 1;
                answer(200, &[])
            }
            ("/logout", Some(sid)) => {
                self.logouts += 1;
                self.open.remove(&sid);
                answer(200, &["sid=gone; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT"])
            }
            ("/home", _) if sent == "lang=en" => answer(200, &[]),
            _ => {
                self.faults.push(format!("{path}: {sent}"));
                answer(403, &[])
            }
        }
    }
}

fn shop() -> (Server, Arc<Mutex<Shop>>) {
    let shop: Arc<Mutex<Shop>> = Arc::default();
    let serving = Arc::clone(&shop);
    (Server::http(move |request| serving.lock().unwrap().serve(&request.body)), shop)
}

fn steps(paths: &[&str]) -> Vec<Step> {
    let step = |path: &&str| Step { name: (*path).to_owned(), ..step("get", &[&format!("path={path}")]) };
    paths.iter().map(step).collect()
}

fn run(server: &Server, load: Load) -> LoadRun {
    play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) })
}

const SESSION: [&str; 5] = ["/login", "/page", "/page", "/logout", "/home"];

#[test]
fn sessions_of_a_shop() {
    for pipeline in [1, 4] {
        let (server, shop) = shop();
        let connections = Connections { keep_alive: true, pipeline };
        let run = run(&server, Load { cookies: true, connections, ..load(4, 0.3, steps(&SESSION)) });
        let shop = shop.lock().unwrap();
        assert_eq!(shop.faults, Vec::<String>::new());
        assert!(run.summary.cycles > 4 && (run.summary.failed, run.summary.wrong) == (0, 0), "{:?}", run.summary);
        assert_eq!(shop.logouts, shop.logins - shop.open.len() as u64);
        assert!(shop.open.len() <= 4 && shop.pages >= 2 * shop.logouts, "{shop:?}");
    }
}

#[test]
fn cookies_from_before_the_cycles_last() {
    let (server, shop) = shop();
    let mut steps = steps(&["/login", "/page", "/page"]);
    steps[0].once = true;
    steps[2].name = "/again".into();
    let run = run(&server, Load { cookies: true, ..load(3, 0.3, steps) });
    let shop = shop.lock().unwrap();
    assert_eq!((shop.faults.as_slice(), shop.logins, run.summary.failed), (&[][..], 3, 0));
    assert!(run.summary.cycles > 6, "{:?}", run.summary);
}

#[test]
fn without_a_jar_no_cookie_is_sent() {
    let (server, shop) = shop();
    let run = run(&server, load(2, 0.1, steps(&SESSION)));
    let shop = shop.lock().unwrap();
    assert!(shop.faults.iter().all(|fault| fault == "/page: ") && !shop.faults.is_empty(), "{:?}", shop.faults);
    assert_eq!(run.summary.failed, shop.faults.len() as u64);
}

#[test]
fn groups_have_jars_of_their_own() {
    let (server, shop) = shop();
    let group = |name: &str, cookies, paths: &[&str]| Load {
        name: Some(name.to_owned()),
        cookies,
        ..load(2, 0.2, steps(paths))
    };
    let groups = vec![group("users", true, &SESSION), group("robots", false, &["/robots.txt"])];
    let run = run(&server, Load { agents: 4, steps: Vec::new(), groups, ..load(4, 0.2, Vec::new()) });
    let shop = shop.lock().unwrap();
    assert!(shop.faults.iter().all(|fault| fault == "/robots.txt: "), "{:?}", shop.faults);
    assert!(shop.logouts > 1 && run.summary.failed == shop.faults.len() as u64, "{:?}", run.summary);
}

type Sent = (String, Option<String>);

/// Plays a load whose server answers with `reply`, and returns the cookies of each request.
fn cookies_sent(
    load: Load,
    service: &str,
    reply: impl Fn(&str, Option<&str>) -> Reply + Send + Sync + 'static,
) -> (Vec<Sent>, LoadRun) {
    let seen: Arc<Mutex<Vec<Sent>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let server = Server::http(move |request| {
        let (path, cookies) = path_and_cookies(&request.body);
        let reply = reply(&path, cookies.as_deref());
        noted.lock().unwrap().push((path, cookies));
        reply
    });
    let service = service.replace("{address}", &server.service());
    let run = play(LoadOrder { protocol: "http".into(), ..orders(&service, Load { cookies: true, ..load }) });
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (seen, run)
}

#[test]
fn a_failed_answer_sets_cookies_too() {
    let once = Load { retry: Retry::Tries { tries: 2, wait_s: 0.0 }, ..load(1, 0.1, steps(&["/login", "/page"])) };
    let (seen, run) = cookies_sent(once, "{address}", |path, cookies| match (path, cookies) {
        ("/login", None) => answer(503, &["node=b2"]),
        (_, Some("node=b2")) => answer(200, &[]),
        _ => answer(500, &[]),
    });
    assert!(run.summary.cycles > 1 && run.summary.failed == 0, "{:?} {seen:?}", run.summary);
    assert!(run.attempts("status 503") >= run.summary.cycles && run.attempts("status 500") == 0, "{:?}", run.results());
}

#[test]
fn cookies_go_to_their_paths() {
    let paths = ["/app/login?to=/x", "/app/items", "/app", "/other", "/app/items/7"];
    let (seen, _) = cookies_sent(load(1, 0.1, steps(&paths)), "http://{address}/base", |path, _| {
        let cookies: &[&str] = match path {
            "/base/app/login?to=/x" => &["a=1", "b=2; Path=/", "c=3; Path=/base/app/items", "d=4; Path=/x"],
            _ => &[],
        };
        answer(200, cookies)
    });
    let expected: [(&str, Option<&str>); 5] = [
        ("/base/app/login?to=/x", None),
        ("/base/app/items", Some("c=3; a=1; b=2")),
        ("/base/app", Some("a=1; b=2")),
        ("/base/other", Some("b=2")),
        ("/base/app/items/7", Some("c=3; a=1; b=2")),
    ];
    assert!(seen.len() > 5);
    for ((path, cookies), expected) in seen.iter().zip(expected.iter().cycle()) {
        assert_eq!((path.as_str(), cookies.as_deref()), *expected);
    }
}

#[test]
fn a_path_from_a_slot_gives_the_default_path() {
    let mut login = step("get", &["path=/login"]);
    login.keep = pairs(&["area=answer.body"]);
    // The answer overwrites the slot from which its request was made.
    let mut enter = step("get", &["path=/{area}/enter"]);
    enter.name = "enter".into();
    enter.keep = pairs(&["area=answer.header.x"]);
    let mut look = step("get", &["path=/hi/look"]);
    look.name = "look".into();
    let (seen, _) = cookies_sent(load(1, 0.1, vec![login, enter, look]), "{address}", |path, _| match path {
        "/hi/enter" => {
            Reply::Bytes(b"HTTP/1.1 200 x\r\nX: no\r\nSet-Cookie: a=1\r\nContent-Length: 0\r\n\r\n".to_vec())
        }
        _ => answer(200, &[]),
    });
    assert!(seen.len() > 2);
    assert!(seen.iter().all(|(path, cookies)| (path == "/hi/look") == (cookies.as_deref() == Some("a=1"))), "{seen:?}");
}

#[test]
fn a_literal_header_comes_first() {
    for (own, expected) in [("theme=dark", "theme=dark; sid=1"), ("{base64:}", "sid=1"), ("{seq}={agent}", "; sid=1")] {
        let cookie = format!("header.Cookie={own}");
        let mut steps = steps(&["/login"]);
        steps.push(Step { name: "page".into(), ..step("post", &["path=/page", &cookie, "body=x"]) });
        let (seen, _) = cookies_sent(load(1, 0.1, steps), "{address}", |_, _| answer(200, &["sid=1"]));
        let mut pages = seen.iter().filter(|(path, _)| path == "/page");
        let sent = pages.next().unwrap().1.as_deref().unwrap();
        assert!(if own.starts_with("{seq") { sent.ends_with(expected) } else { sent == expected }, "{own}: {sent}");
    }
}

#[test]
fn a_cookie_in_pieces_of_a_long_answer_is_kept() {
    let (seen, run) = cookies_sent(load(1, 0.2, steps(&["/login", "/page"])), "{address}", |_, _| {
        let body = "x".repeat(400_000);
        Reply::Bytes(
            format!("HTTP/1.1 200 x\r\nSet-Cookie: sid=1\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes(),
        )
    });
    assert!(run.summary.cycles > 0 && run.summary.failed == 0, "{:?}", run.summary);
    assert!(seen.iter().all(|(path, cookies)| (path == "/page") == cookies.is_some()), "{seen:?}");
}

#[test]
fn cookies_are_not_recorded() {
    let (_, run) = cookies_sent(load(1, 0.1, steps(&["/login", "/page"])), "{address}", |path, _| match path {
        "/login" => answer(200, &["sid=s3cr3t"]),
        _ => answer(403, &["sid=s3cr3t-too"]),
    });
    let examples: Vec<_> = run.intervals.iter().flat_map(|interval| &interval.examples).collect();
    assert!(!examples.is_empty() && run.summary.failed > 0);
    let records = format!("{examples:?} {:?} {:?}", run.notices(), run.results());
    assert!(!records.contains("s3cr3t"), "{records}");
}
