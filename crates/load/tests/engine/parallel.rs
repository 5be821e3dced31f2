//! Operations that an agent sends at once, such as the resources of a page. The servers count their
//! connections, and hold answers back until all requests of a block have arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use experiment::plan::{Connections, Load, Pause, Rate, Reconnects, Site, Step, StepOrder, WhenFailed};
use load::LoadOrder;

use crate::open::rest;
use crate::server::{Reply, Server, nobody};
use crate::setting::{LoadRun, load, orders, pairs, play, step, try_play};

fn ok(headers: &str, body: &str) -> Reply {
    Reply::Bytes(format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

/// Holds requests back until this number of them has arrived.
struct Gate {
    most: usize,
    /// Number of waiting requests, and number of times that the gate has opened.
    state: Mutex<(usize, usize)>,
    opened: Condvar,
}

impl Gate {
    fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default(), opened: Condvar::new() })
    }

    /// Waits for the other requests. Returns false if they do not come.
    fn pass(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        if state.0 == self.most {
            *state = (0, state.1 + 1);
            self.opened.notify_all();
            return true;
        }
        let times = state.1;
        let (_state, waited) =
            self.opened.wait_timeout_while(state, Duration::from_secs(20), |state| state.1 == times).unwrap();
        !waited.timed_out()
    }
}

/// Paths of requests in the order of their arrival, with the number of their connection.
type Seen = Arc<Mutex<Vec<(String, usize)>>>;

fn serving(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> (Server, Seen) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    let server = Server::http(move |request| {
        let text = String::from_utf8(request.body.clone()).unwrap();
        let path = text.split(' ').nth(1).unwrap().to_owned();
        noted.lock().unwrap().push((path.clone(), request.connection));
        let cookie = text.lines().find_map(|line| line.strip_prefix("Cookie: ")).unwrap_or_default();
        answer(&format!("{path} {cookie}"))
    });
    (server, seen)
}

fn get(name: &str, path: &str) -> Step {
    Step { name: name.to_owned(), ..step("get", &[&format!("path={path}")]) }
}

/// Returns the steps as operations that are sent at once.
fn at_once(most: u32, steps: Vec<Step>) -> Vec<Step> {
    let beside = |(place, step)| Step { at_once: most, beside: place > 0, ..step };
    steps.into_iter().enumerate().map(beside).collect()
}

/// Returns a page with these resources, and a step after it.
fn page(most: u32, resources: Vec<Step>) -> Vec<Step> {
    [vec![get("page", "/page/{agent}/{seq}")], at_once(most, resources), vec![get("after", "/after/{agent}/{seq}")]]
        .concat()
}

fn images(count: usize) -> Vec<Step> {
    (0..count).map(|number| get(&format!("image-{number}"), &format!("/{number}/{{agent}}/{{seq}}"))).collect()
}

fn ordered(server: &Server, load: Load) -> LoadOrder {
    LoadOrder { protocol: "http".into(), ..orders(&format!("http://{}", server.service()), load) }
}

fn connects(run: &LoadRun) -> (u64, u64) {
    let rows = || run.intervals.iter().map(|interval| &interval.generator);
    (rows().map(|row| row.connects).sum(), rows().map(|row| row.connect_failures).sum())
}

fn assert_books(run: &LoadRun) {
    assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
}

#[test]
fn resources_of_a_page_are_sent_at_once() {
    let gate = Gate::new(4);
    let held = Arc::clone(&gate);
    let (server, seen) = serving(move |path| match path.starts_with("/page") || path.starts_with("/after") {
        true => ok("", "x"),
        // Each answer waits until the requests of the whole block have arrived.
        false if held.pass() => ok("", "x"),
        false => Reply::Close,
    });
    let run =
        play(ordered(&server, Load { timeout_s: 60.0, iterations: Some(20), ..load(1, 60.0, page(6, images(4))) }));
    assert_eq!((run.summary.cycles, run.summary.ok), (20, 120));
    assert_eq!((server.connections.load(Ordering::SeqCst), connects(&run)), (4, (4, 0)));
    assert_books(&run);
    // Each cycle has the page, then its resources, then the step after them.
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len() as u64, run.summary.ok);
    for (number, cycle) in seen.chunks(6).enumerate() {
        let seq = number + 1;
        assert_eq!((&cycle[0].0, &cycle[5].0), (&format!("/page/1/{seq}"), &format!("/after/1/{seq}")));
        let paths: BTreeSet<&str> = cycle[1..5].iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(
            paths,
            (0..4).map(|image| format!("/{image}/1/{seq}")).collect::<Vec<_>>().iter().map(String::as_str).collect()
        );
        let connections: BTreeSet<usize> = cycle[1..5].iter().map(|(_, connection)| *connection).collect();
        assert_eq!(connections.len(), 4, "each has a connection of its own");
    }
    let row = run.intervals.iter().map(|interval| interval.generator.agents).max();
    assert_eq!(row, Some(1), "the operations of an agent are no agents");
    assert_eq!(run.intervals.iter().flat_map(|interval| &interval.agent_cycles).count(), 1);
}

#[test]
fn further_operations_begin_when_one_has_ended() {
    let gate = Gate::new(2);
    let held = Arc::clone(&gate);
    let (server, seen) = serving(move |path| match path.starts_with("/i") {
        false => ok("", "x"),
        true if held.pass() => ok("", "x"),
        true => Reply::Close,
    });
    let steps = vec![Step { repeat: 6, ..get("image", "/i/{agent}/{seq}/{repeat}") }];
    let run = play(ordered(&server, Load { timeout_s: 60.0, iterations: Some(10), ..load(3, 60.0, page(2, steps)) }));
    // The gate lets pairs pass, perhaps of two agents: none of them has more than two open.
    assert_eq!((run.summary.cycles, run.summary.ok), (30, 240));
    assert_eq!(connects(&run), (6, 0));
    let mut cycles: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (path, _) in seen.lock().unwrap().iter().filter(|(path, _)| path.starts_with("/i")) {
        let (cycle, repeat) = path.trim().rsplit_once('/').unwrap();
        cycles.entry(cycle.to_owned()).or_default().push(repeat.parse().unwrap());
    }
    for repeats in cycles.values_mut() {
        repeats.sort_unstable();
        assert_eq!(*repeats, [1, 2, 3, 4, 5, 6]);
    }
    assert_eq!(cycles.len(), 30);
    assert_books(&run);
}

#[test]
fn values_and_cookies_are_those_of_the_agent() {
    let (server, seen) = serving(|path| match path.split(['/', ' ']).nth(1).unwrap() {
        "page" => ok("Set-Cookie: sid=7\r\n", "token"),
        "first" if path == "/first/token sid=7" => ok("Set-Cookie: a=1; Path=/\r\n", "one"),
        "second" if path.starts_with("/second/token sid=7") => ok("Set-Cookie: b=2; Path=/\r\n", "two"),
        "after" if path.starts_with("/after/one/two sid=7; ") && path.contains("a=1") && path.contains("b=2") => {
            ok("", "")
        }
        _ => Reply::Bytes(b"HTTP/1.1 400 x\r\nContent-Length: 0\r\n\r\n".to_vec()),
    });
    let keep = |name: &str, step: Step| Step { keep: pairs(&[&format!("{name}=answer.body")]), ..step };
    let block = vec![keep("one", get("first", "/first/{token}")), keep("two", get("second", "/second/{token}"))];
    let steps =
        [vec![keep("token", get("page", "/page"))], at_once(1, block), vec![get("after", "/after/{one}/{two}")]];
    for most in [1, 2] {
        seen.lock().unwrap().clear();
        let mut steps = steps.concat();
        steps.iter_mut().filter(|step| step.at_once > 0).for_each(|step| step.at_once = most);
        // The second of two requests at once may or may not have the first one's cookie.
        let run = play(ordered(&server, Load { cookies: true, ..load(2, 0.2, steps) }));
        assert!(run.summary.cycles > 2 && run.summary.failed == 0, "{most}: {:?} {:?}", run.summary, run.results());
    }
}

#[test]
fn a_value_of_a_parallel_operation_is_not_there_for_the_others() {
    let (server, _) = serving(|_| ok("", "x"));
    let block = vec![Step { keep: pairs(&["one=answer.body"]), ..get("first", "/a") }, get("second", "/{one}")];
    let error = try_play(ordered(&server, load(1, 0.1, page(2, block)))).err().unwrap().to_string();
    assert!(error.contains("no earlier step of the cycle keeps `one`"), "{error}");
}

#[test]
fn a_failed_resource_ends_the_cycle_after_the_block() {
    let (server, seen) = serving(|path| match path.starts_with("/1/") {
        true => Reply::Bytes(b"HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n".to_vec()),
        false => ok("", "x"),
    });
    let run = play(ordered(&server, load(2, 0.2, page(6, images(3)))));
    let seen = seen.lock().unwrap();
    let count = |begin: &str| seen.iter().filter(|(path, _)| path.starts_with(begin)).count() as u64;
    assert!(count("/1/") > 2 && run.summary.cycles == 0 && count("/after") == 0, "{:?}", run.summary);
    assert_eq!((run.summary.failed, run.summary.ok), (count("/1/"), count("/page") + count("/0/") + count("/2/")));
    drop(seen);
    // A wrong answer ends the cycle only if the load says so.
    for (when_failed, goes_on) in [(WhenFailed::GoOn, true), (WhenFailed::NextCycle, false)] {
        let (server, seen) = serving(|_| ok("", "x"));
        let mut resources = images(3);
        resources[1].expect = pairs(&["body=y"]);
        let run = play(ordered(&server, Load { when_failed, ..load(1, 0.1, page(6, resources)) }));
        assert!(run.summary.wrong > 0, "{:?}", run.summary);
        let is_after = seen.lock().unwrap().iter().any(|(path, _)| path.starts_with("/after"));
        assert_eq!((is_after, run.summary.cycles > 0), (goes_on, goes_on), "{:?}", run.summary);
    }
}

#[test]
fn sessions_at_a_rate_have_parallel_steps() {
    let (server, _) = serving(|_| ok("", "x"));
    let rate = Rate::Sessions { sessions: Box::new(Rate::Constant(40.0)) };
    let think = Some(Pause::Fixed(0.01));
    let mut steps = page(3, images(5));
    steps[5].think = think;
    let load = Load { rate: Some(rate), drain_s: 60.0, ..load(40, 1.0, steps) };
    let run = play(ordered(&server, load));
    assert_eq!((run.summary.failed, run.summary.unfinished), (0, 0));
    // 40 sessions begin; those that the end of the load cuts lack some operations.
    assert!(run.summary.ok <= 40 * 7 && run.summary.cycles <= 40 && run.summary.cycles > 0, "{:?}", run.summary);
    assert!(run.summary.ok >= run.summary.cycles * 7);
    assert_books(&run);
}

#[test]
fn the_end_of_the_load_cuts_a_block() {
    let (server, _) = serving(|_| {
        rest(Duration::from_millis(20));
        ok("", "x")
    });
    let steps = vec![Step { repeat: 1000, ..get("image", "/{repeat}") }];
    let run = play(ordered(&server, load(2, 0.2, at_once(4, steps))));
    assert!(run.summary.ok > 0 && run.summary.ok < 2000 && run.summary.cycles == 0, "{:?}", run.summary);
    assert_eq!((run.summary.failed, run.summary.unfinished), (0, 0));
    assert!(connects(&run).0 <= 8 && connects(&run).1 == 0, "{:?}", connects(&run));
}

#[test]
fn parallel_steps_at_sites_have_connections_there() {
    let ((shop, _), (files, images)) = (serving(|_| ok("", "x")), serving(|_| ok("", "x")));
    let site = Site { url: format!("http://{}", files.service()), tls: None };
    let at_files = |name: &str| Step { site: Some("files".into()), ..get(name, "/{seq}") };
    let block = vec![at_files("a"), get("b", "/b"), at_files("c")];
    let steps = [vec![get("page", "/page")], at_once(3, block)].concat();
    let sites = BTreeMap::from([("files".to_owned(), site)]);
    let run = play(ordered(&shop, Load { sites, iterations: Some(5), ..load(2, 20.0, steps) }));
    assert_eq!((run.summary.ok, run.summary.cycles, images.lock().unwrap().len()), (40, 10, 20));
    // At most one connection for each lane and server.
    let counts = [&shop, &files].map(|server| server.connections.load(Ordering::SeqCst));
    assert!((2..=6).contains(&counts[0]) && (2..=6).contains(&counts[1]), "{counts:?}");
    assert_eq!(connects(&run), (counts.iter().sum::<usize>() as u64, 0));
}

#[test]
fn connections_are_made_anew_and_refused_ones_pause() {
    let (server, seen) = serving(|_| ok("", "x"));
    let connections = Connections { keep_alive: false, pipeline: 1 };
    let run = play(ordered(&server, Load { connections, ..load(2, 0.1, page(6, images(3))) }));
    assert!(run.summary.cycles > 0 && run.summary.failed == 0, "{:?}", run.summary);
    assert_eq!(connects(&run), (seen.lock().unwrap().len() as u64, 0));
    let reconnects = Reconnects::default();
    let refused = Load { reconnects, reconnect_s: 0.05, ..load(1, 0.4, at_once(3, images(3))) };
    let time_s = refused.time_s;
    let run = play(LoadOrder { protocol: "http".into(), ..orders(&nobody(), refused) });
    assert!(run.summary.failed >= 3 && run.summary.ok == 0, "{:?}", run.summary);
    assert!(run.summary.failed as f64 <= 3.0 * (time_s / 0.05 + 2.0), "{:?}", run.summary);
}

#[test]
fn blocks_in_a_mix_and_before_the_cycles() {
    let (server, seen) = serving(|_| ok("", "x"));
    let once = at_once(2, images(2)).into_iter().map(|step| Step { once: true, ..step });
    let sequence = page(6, vec![get("a", "/a"), Step { probability_pct: Some(50.0), ..get("b", "/b") }]);
    let sequence = sequence.into_iter().enumerate().map(|(place, step)| Step { follows: place > 0, ..step });
    let steps = once.chain(sequence).chain([get("alone", "/alone")]).collect();
    let load = Load { order: StepOrder::Mix, iterations: Some(40), ..load(2, 20.0, steps) };
    let run = play(ordered(&server, load));
    let seen = seen.lock().unwrap();
    let count = |path: &str| seen.iter().filter(|(seen, _)| seen.trim().starts_with(path)).count() as u64;
    assert_eq!((run.summary.cycles, run.summary.failed), (80, 0));
    assert_eq!((count("/0/"), count("/1/")), (2, 2));
    assert_eq!(
        (count("/page") + count("/alone"), count("/a") - count("/after") - count("/alone")),
        (80, count("/page"))
    );
    assert!(count("/b") > 0 && count("/b") < count("/page") && count("/after") == count("/page"));
}

#[test]
fn combinations_that_cannot_be_are_refused() {
    let (server, _) = serving(|_| ok("", "x"));
    let refused = |load: Load| try_play(ordered(&server, load)).err().unwrap().to_string();
    let good = load(4, 0.1, page(6, images(2)));
    let error = refused(Load { rate: Some(Rate::Constant(10.0)), ..good.clone() });
    assert!(error.contains("`parallel` and a `rate` of operations"), "{error}");
    let connections = Connections { keep_alive: true, pipeline: 2 };
    assert!(refused(Load { connections, ..good.clone() }).contains("`parallel` and `pipeline`"));
    let rate = Some(Rate::Sessions { sessions: Box::new(Rate::Constant(10.0)) });
    let error = refused(Load { rate, steps: at_once(2, images(2)), ..good });
    assert!(error.contains("begins with one operation"), "{error}");
}
