//! A real memcached under the engine: values that are kept, added, counted and removed, and errors.

use std::process::Command;
use std::time::{Duration, Instant};

use fixture::{KilledAtEnd, free_address};
use load::LoadOrder;
use load::client::{self, Client};
use record::events::{HistoryEntry, Outcome};

use experiment::plan::Step;

use crate::setting::{load, orders, pairs, play, step};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server that ends with the test.
struct Memcached {
    _process: KilledAtEnd,
    service: String,
}

impl Memcached {
    fn start(options: &[&str]) -> Self {
        let address = free_address();
        let process = Command::new("memcached")
            .args(["-l", "127.0.0.1", "-p", &address.port().to_string(), "-U", "0", "-u", "nobody"])
            .args(options)
            .spawn()
            .expect("needs memcached: scripts/need.sh memcached");
        let server = Self { _process: KilledAtEnd(process), service: format!("memcached://{address}") };
        let begin = Instant::now();
        while client::connect("memcached", &server.service, PATIENCE).is_err() {
            assert!(begin.elapsed() < PATIENCE, "memcached does not listen");
            std::thread::yield_now();
        }
        server
    }

    fn client(&self) -> Client {
        client::connect("memcached", &self.service, PATIENCE).unwrap()
    }

    fn orders(&self, agents: u32, steps: Vec<Step>) -> LoadOrder {
        LoadOrder { protocol: "memcached".into(), ..orders(&self.service, load(agents, 0.2, steps)) }
    }
}

#[test]
fn values_are_kept_and_removed() {
    let server = Memcached::start(&[]);
    let key = "key={agent}-{seq}";
    let steps = [
        ("set", &[key, "value={seq} {bytes:20}"][..], &[][..]),
        ("get", &[key], &["value={saved}"]),
        ("add", &[key, "value=other", "expires=60"], &["status=exists"]),
        ("delete", &[key], &["status=ok"]),
        ("get", &[key], &["status=not_found"]),
    ];
    let mut steps = steps.map(|(call, with, expect)| Step { audit: true, expect: pairs(expect), ..step(call, with) });
    steps[0].keep = pairs(&["saved=request.value"]);
    let run = play(server.orders(4, steps.to_vec()));
    assert!(run.summary.ok > 10 && run.summary.wrong == 0 && run.summary.failed == 0, "{:?}", run.summary);
    for entry in run.history() {
        let is_refused = entry.value.as_deref() == Some("other");
        assert_eq!((entry.outcome, entry.applied), (Outcome::Ok, Some(!is_refused)), "{entry:?}");
    }
    for effect in ["write", "read", "remove"] {
        assert!(run.history().iter().any(|entry| entry.effect == effect), "{effect}");
    }
}

#[test]
fn the_history_has_versions_and_compare_and_sets() {
    let server = Memcached::start(&[]);
    let key = "key=k{uniform:1..3}";
    let steps = [("add", &[key, "value={agent}-{seq}-a"][..]), ("set", &[key, "value={agent}-{seq}"]), ("get", &[key])];
    let mut steps = steps.map(|(call, with)| Step { audit: true, ..step(call, with) });
    steps[0].expect = pairs(&["status=exists"]);
    let mut orders = server.orders(4, steps.to_vec());
    // Each read is compared with all writes.
    orders.load.think_s = 0.002;
    let run = play(orders);
    let history = run.history();
    let of = |effect: &str| history.iter().filter(|entry| entry.effect == effect).copied().collect::<Vec<_>>();
    assert!(of("write").len() > 10 && of("write").iter().all(|entry| entry.version > Some(0)));
    for read in of("read").into_iter().filter(|read| read.value.is_some()) {
        let written = history.iter().filter(|entry| entry.effect != "read" && entry.applied == Some(true));
        let versions: Vec<_> = written.filter(|entry| entry.value == read.value).map(|entry| entry.version).collect();
        assert_eq!(versions, [read.version], "{read:?}");
    }
    let (added, refused): (Vec<&HistoryEntry>, Vec<&HistoryEntry>) =
        of("cas").into_iter().partition(|entry| entry.applied == Some(true));
    assert!(added.len() <= 3 && added.iter().all(|entry| entry.equal == Some(true) && entry.version > Some(0)));
    assert!(refused.len() > 10);
    for entry in refused {
        assert_eq!((entry.applied, entry.equal, &entry.from, entry.version), (Some(false), Some(false), &None, None));
    }
}

#[test]
fn answers_and_errors_have_their_own_statuses() {
    let server = Memcached::start(&["-I", "1m"]);
    let mut client = server.client();
    let large = format!("value={}", "x".repeat(2 * 1024 * 1024));
    for (call, with, ok, status, value) in [
        ("get", &["key=k"][..], true, "not_found", None),
        ("delete", &["key=k"], true, "not_found", None),
        ("incr", &["key=k"], false, "not_found", None),
        ("add", &["key=k", "value=41"], true, "ok", None),
        ("add", &["key=k", "value=7"], false, "exists", None),
        ("incr", &["key=k"], true, "ok", Some("42")),
        ("incr", &["key=k", "by=100"], true, "ok", Some("142")),
        ("get", &["key=k"], true, "ok", Some("142")),
        ("set", &["key=k", "value=a b"], true, "ok", None),
        ("incr", &["key=k"], false, "not_a_number", None),
        ("get", &["key=k"], true, "ok", Some("a b")),
        // The server removes the old value, so this error is not harmless.
        ("set", &["key=k", &large], false, "too_large", None),
        ("get", &["key=k"], true, "not_found", None),
    ] {
        let answer = client.call(call, &pairs(with)).unwrap();
        let found = answer.field("value").map(|value| String::from_utf8_lossy(value).into_owned());
        assert_eq!((answer.ok, answer.status.as_str(), found.as_deref()), (ok, status, value), "{call} {:?}", with[0]);
    }
    let long = server.client().call("get", &pairs(&[&format!("key={}", "k".repeat(251))])).unwrap();
    assert_eq!((long.ok, long.status.as_str()), (false, "invalid"));
}

#[test]
fn a_server_with_enough_connections_refuses_more() {
    let server = Memcached::start(&["-c", "40", "-t", "1"]);
    let run = play(server.orders(60, vec![Step { audit: true, ..step("set", &["key=k", "value=v"]) }]));
    assert!(run.attempts("answer: too_many_connections") > 0, "{:?}", run.results());
    let history = run.history();
    assert!(history.iter().all(|entry| entry.applied == Some(entry.outcome == Outcome::Ok)));
}
