//! Sites: steps of a session that go to other servers than the target. The servers count their
//! connections and requests.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use experiment::plan::{AgentStage, Connections, Failover, Load, Rate, Reconnects, Site, Step, StepOrder, Tls};
use load::LoadOrder;

use crate::secret::{Authority, Secret};
use crate::server::{Reply, Server, nobody};
use crate::setting::{LoadRun, load, orders, pairs, play, step, try_play};

/// Requests that a server has received, as text.
type Seen = Arc<Mutex<Vec<String>>>;

/// Returns a server that answers each request by its path, and the requests.
fn serving(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> (Server, Seen) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    let server = Server::http(move |request| {
        let text = String::from_utf8(request.body.clone()).unwrap();
        let path = text.split(' ').nth(1).unwrap().to_owned();
        noted.lock().unwrap().push(text);
        answer(&path)
    });
    (server, seen)
}

fn ok(headers: &str, body: &str) -> Reply {
    Reply::Bytes(format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

fn hello() -> (Server, Seen) {
    serving(|_| ok("", "hello"))
}

/// Returns a step of this name, at a site if one is given.
fn at(site: Option<&str>, name: &str, with: &[&str]) -> Step {
    Step { name: name.to_owned(), site: site.map(ToOwned::to_owned), ..step("get", with) }
}

/// Returns the sites with these names and URLs.
fn sites(urls: &[(&str, &str)]) -> BTreeMap<String, Site> {
    urls.iter().map(|(name, url)| ((*name).to_owned(), Site { url: (*url).to_owned(), tls: None })).collect()
}

fn ordered(target: &Server, load: Load) -> LoadOrder {
    LoadOrder { protocol: "http".into(), ..orders(&format!("http://{}", target.service()), load) }
}

fn connects(run: &LoadRun) -> (u64, u64) {
    let rows = || run.intervals.iter().map(|interval| &interval.generator);
    (rows().map(|row| row.connects).sum(), rows().map(|row| row.connect_failures).sum())
}

fn count(seen: &Seen) -> u64 {
    seen.lock().unwrap().len() as u64
}

/// Returns the number of agents' connections to the server, without those that end the server.
fn connections(server: &Server) -> usize {
    server.connections.load(Ordering::SeqCst)
}

#[test]
fn steps_go_to_their_sites_on_connections_of_their_own() {
    let (shop, pages) = hello();
    let (auth, logins) = serving(|_| ok("", "t-7"));
    let (files, images) = hello();
    let (auth_url, files_url) = (format!("http://{}", auth.service()), format!("http://{}/v1", files.service()));
    let mut login = at(Some("auth"), "login", &["path=/token"]);
    (login.once, login.keep) = (true, pairs(&["token=answer.body"]));
    let steps = vec![
        login,
        at(None, "page", &["path=/p/{seq}", "header.x={token}"]),
        at(Some("files"), "image", &["path=/i/{seq}", "header.x={token}"]),
        at(None, "more", &["path=/m"]),
    ];
    let load = Load { sites: sites(&[("auth", &auth_url), ("files", &files_url)]), ..load(3, 0.2, steps) };
    let run = play(ordered(&shop, load));
    assert!(run.summary.cycles > 6 && run.summary.ok == run.summary.attempts, "{:?}", run.summary);
    assert_eq!((count(&logins), count(&pages) + count(&images) + 3), (3, run.summary.ok));
    // One connection for each agent and server.
    assert_eq!([&shop, &auth, &files].map(connections), [3, 3, 3]);
    assert_eq!(connects(&run), (9, 0));
    let images = images.lock().unwrap();
    let host = format!("\r\nHost: {}\r\nx: t-7\r\n", files.service());
    assert!(images.iter().all(|image| image.starts_with("GET /v1/i/") && image.contains(&host)), "{images:?}");
    let host = format!("\r\nHost: {}\r\n", shop.service());
    assert!(pages.lock().unwrap().iter().all(|page| page.contains(&host)));
    assert!(run.books_error_pct() < 0.2 && run.notices().is_empty(), "{:?}", run.notices());
    // Outcomes at sites are the last place of each slot.
    let places = run.intervals.iter().flat_map(|interval| interval.slots.chunks(interval.services as usize));
    let (mut at_target, mut at_sites) = (0, 0);
    for place in places {
        (at_target, at_sites) = (at_target + u64::from(place[0].ok), at_sites + u64::from(place[1].ok));
    }
    assert_eq!((at_target, at_sites), (count(&pages), run.summary.ok - count(&pages)));
}

#[test]
fn without_keep_alive_each_server_gets_a_connection_per_operation() {
    let ((shop, pages), (files, images)) = (hello(), hello());
    let url = format!("http://{}", files.service());
    let steps = vec![at(None, "page", &["path=/"]), at(Some("files"), "image", &["path=/"])];
    let connections = Connections { keep_alive: false, pipeline: 1 };
    let run = play(ordered(&shop, Load { sites: sites(&[("files", &url)]), connections, ..load(2, 0.1, steps) }));
    assert!(run.summary.ok > 2 && run.summary.failed == 0, "{:?}", run.summary);
    assert_eq!((connects(&run).0, count(&pages) + count(&images)), (run.summary.ok, run.summary.ok));
}

#[test]
fn groups_and_mixes_use_only_their_sites() {
    let ((shop, _), (files, images), (auth, _)) = (hello(), hello(), hello());
    let urls = [format!("http://{}", files.service()), format!("http://{}", auth.service())];
    let all = sites(&[("files", &urls[0]), ("auth", &urls[1])]);
    let group = |name: &str, agents, order, steps| Load {
        name: Some(name.to_owned()),
        order,
        sites: all.clone(),
        ..load(agents, 0.2, steps)
    };
    let readers = vec![at(None, "read", &["path=/"])];
    let mixed = vec![at(Some("files"), "image", &["path=/"]), at(Some("auth"), "login", &["path=/"])];
    let groups = vec![group("readers", 2, StepOrder::Cycle, readers), group("mixed", 2, StepOrder::Mix, mixed)];
    let run = play(ordered(&shop, Load { groups, sites: all, ..load(4, 0.2, Vec::new()) }));
    assert!(run.summary.ok > 8 && run.summary.failed == 0 && count(&images) > 0, "{:?}", run.summary);
    assert_eq!([&shop, &files, &auth].map(connections), [2, 2, 2]);
}

#[test]
fn rates_start_operations_at_sites_too() {
    let ((shop, pages), (files, images)) = (hello(), hello());
    let url = format!("http://{}", files.service());
    let steps = || vec![at(None, "page", &["path=/"]), at(Some("files"), "image", &["path=/"])];
    for rate in [Rate::Constant(100.0), Rate::Sessions { sessions: Box::new(Rate::Constant(50.0)) }] {
        for seen in [&pages, &images] {
            seen.lock().unwrap().clear();
        }
        let load = Load { sites: sites(&[("files", &url)]), drain_s: 60.0, ..load(20, 1.0, steps()) };
        let is_of_sessions = matches!(rate, Rate::Sessions { .. });
        let run = play(ordered(&shop, Load { rate: Some(rate), ..load }));
        assert_eq!((run.summary.failed, count(&pages) + count(&images)), (0, run.summary.ok));
        // The end of the load cuts sessions, and each has at least its first operation.
        let cut = if is_of_sessions { 50 } else { 0 };
        assert!((100 - cut..=100).contains(&run.summary.ok), "{:?}", run.summary);
        assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
    }
}

#[test]
fn a_dead_site_fails_only_its_steps() {
    let ((shop, pages), url) = (hello(), format!("http://{}", nobody()));
    let steps = vec![at(None, "page", &["path=/"]), at(Some("files"), "image", &["path=/"])];
    let reconnects = Reconnects { failover: Failover::Next, ..Reconnects::default() };
    let load = Load { sites: sites(&[("files", &url)]), reconnects, reconnect_s: 0.01, ..load(2, 0.3, steps) };
    let run = play(LoadOrder {
        services: vec![format!("http://{}", shop.service()), format!("http://localhost:{}", port(&shop))],
        ..ordered(&shop, load)
    });
    assert!(run.summary.failed > 2, "{:?}", run.summary);
    assert_eq!((run.summary.ok, run.summary.cycles), (count(&pages), 0));
    assert_eq!((run.attempts("connect refused"), connects(&run)), (run.summary.failed, (2, run.summary.failed)));
}

fn port(server: &Server) -> String {
    server.service().rsplit_once(':').unwrap().1.to_owned()
}

#[test]
fn a_lost_connection_to_a_site_is_opened_again_when_a_step_needs_it() {
    let (shop, pages) = hello();
    let files = Server::http(|request| match request.number {
        3 => Reply::Close,
        // The client sees the end of the connection while it is at the target.
        2 => Reply::Last(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
        _ => Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
    });
    let url = format!("http://{}", files.service());
    let steps = vec![at(None, "page", &["path=/"]), at(Some("files"), "image", &["path=/"])];
    let run = play(ordered(&shop, Load { sites: sites(&[("files", &url)]), ..load(1, 0.3, steps) }));
    let images = run.summary.ok - count(&pages);
    assert!(images > 4, "{:?}", run.summary);
    assert_eq!(connections(&shop), 1);
    assert!(connections(&files) as u64 >= images / 2, "{} connections for {images}", connections(&files));
    assert_eq!(connects(&run).0, 1 + connections(&files) as u64);
}

#[test]
fn cookies_go_to_the_host_that_has_set_them() {
    // Two names of one address: cookies do not depend on the port.
    let cookie = |name: &'static str| move |_: &str| ok(&format!("Set-Cookie: {name}=1\r\n"), "");
    let ((shop, pages), (auth, logins), (files, images)) =
        (serving(cookie("page")), serving(cookie("login")), serving(cookie("image")));
    let same = format!("http://{}", auth.service());
    let other = format!("http://localhost:{}", port(&files));
    let steps = vec![
        at(None, "page", &["path=/1"]),
        at(Some("same"), "login", &["path=/2"]),
        at(Some("other"), "image", &["path=/3"]),
        at(None, "page-again", &["path=/4"]),
        at(Some("other"), "image-again", &["path=/5"]),
    ];
    let load = Load { sites: sites(&[("same", &same), ("other", &other)]), cookies: true, ..load(1, 0.1, steps) };
    let run = play(ordered(&shop, load));
    assert!(run.summary.cycles > 0 && run.summary.failed == 0, "{:?}", run.summary);
    let cookies = |seen: &Seen, path: &str| {
        let seen = seen.lock().unwrap();
        let of_path = seen.iter().find(|text| text.starts_with(&format!("GET {path} "))).unwrap();
        of_path.lines().find_map(|line| line.strip_prefix("Cookie: ")).unwrap_or_default().to_owned()
    };
    assert_eq!(cookies(&pages, "/1"), "");
    assert_eq!(cookies(&logins, "/2"), "page=1");
    assert_eq!(cookies(&images, "/3"), "");
    assert_eq!(cookies(&pages, "/4"), "page=1; login=1");
    assert_eq!(cookies(&images, "/5"), "image=1");
}

#[test]
fn a_site_has_tls_settings_of_its_own() {
    let (shop, _) = hello();
    let (trusted, other) = (Authority::new(), Authority::new());
    let secret = |authority: &Authority| {
        Secret::serve(authority.vouch(&["127.0.0.1"], |_| {}), |stream, _| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").is_ok()
        })
    };
    let (first, second) = (secret(&trusted), secret(&other));
    let site = |server: &Secret, tls| Site { url: server.service(), tls };
    let steps = vec![
        at(None, "page", &["path=/"]),
        at(Some("first"), "first", &["path=/"]),
        at(Some("second"), "second", &["path=/"]),
    ];
    let run = |tls: Option<Tls>| {
        let sites = [("first", site(&first, Some(trusted.trusted()))), ("second", site(&second, tls))];
        let sites = sites.into_iter().map(|(name, site)| (name.to_owned(), site)).collect();
        play(ordered(&shop, Load { sites, reconnect_s: 0.01, ..load(2, 0.3, steps.clone()) }))
    };
    let all = run(Some(other.trusted()));
    assert!(all.summary.ok > 5 && all.summary.failed == 0, "{:?} {:?}", all.summary, all.results());
    assert_eq!(connects(&all), (6, 0));
    let refused = run(Some(trusted.trusted()));
    assert_eq!(refused.attempts("tls: bad certificate"), refused.summary.failed);
    assert!(refused.summary.failed > 0 && refused.summary.ok >= 2 * refused.summary.failed);
}

#[test]
fn an_agent_that_leaves_closes_all_its_connections() {
    let ((shop, _), (files, _)) = (hello(), hello());
    let url = format!("http://{}", files.service());
    let steps = vec![at(None, "page", &["path=/"]), at(Some("files"), "image", &["path=/"])];
    let stage = |agents, over_s| AgentStage { from: agents, to: agents, over_s };
    let agent_stages = vec![stage(2, 0.3), stage(0, 0.5), stage(2, 0.3)];
    let mut load = Load { sites: sites(&[("files", &url)]), agent_stages, ..load(2, 1.1, steps) };
    load.think_s = 0.01;
    let run = play(ordered(&shop, load));
    assert!(run.summary.ok > 4 && run.summary.failed == 0, "{:?}", run.summary);
    // An agent that is late to leave may miss its absence. A cycle that is cut opens only one.
    let counts = [&shop, &files].map(connections);
    assert!(counts.iter().all(|count| (2..=4).contains(count)) && counts[0].abs_diff(counts[1]) <= 2, "{counts:?}");
    assert_eq!(connects(&run).0, counts.iter().sum::<usize>() as u64);
}

#[test]
fn preparations_may_go_to_sites() {
    let ((shop, pages), (auth, logins)) = (hello(), hello());
    let url = format!("http://{}", auth.service());
    let load = Load {
        sites: sites(&[("auth", &url)]),
        ..load(2, 5.0, vec![at(Some("auth"), "user", &["path=/users/{seq}"])])
    };
    let purpose = load::LoadPurpose::Prepare { count: 5 };
    let run = play(LoadOrder { purpose, ..ordered(&shop, load) });
    assert_eq!((run.summary.ok, count(&pages), count(&logins)), (5, 0, 5));
}

#[test]
fn invalid_sites_are_refused() {
    let (shop, _) = hello();
    let refused = |load: Load| try_play(ordered(&shop, load)).err().unwrap().to_string();
    let steps = vec![at(Some("auth"), "login", &["path=/"])];
    let good = Load { sites: sites(&[("auth", "http://127.0.0.1:1")]), ..load(2, 0.1, steps) };
    let connections = Connections { keep_alive: true, pipeline: 2 };
    assert!(refused(Load { connections, ..good.clone() }).contains("`sites` and `pipeline`"));
    assert!(
        refused(Load { sites: sites(&[("other", "http://127.0.0.1:1")]), ..good.clone() }).contains("no site `auth`")
    );
    let error = refused(Load { sites: sites(&[("auth", "http://127.0.0.1:1/?x")]), ..good });
    assert!(error.contains("without user, query or fragment"), "{error}");
}
