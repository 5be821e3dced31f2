//! The experiments of `experiments/coming-from`, which say what scripts of other tools say, against
//! their sites: the sites count sessions, steps and cookies, and refuse what is not right.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::sandbox::{Sandbox, number};

/// A request as the site saw it.
struct Seen {
    at_s: f64,
    session: String,
    call: String,
    status: u64,
    row: Value,
}

/// An experiment that was played, and its requests in the order of arrival.
struct PlayedSite {
    trial: Value,
    seen: Vec<Seen>,
}

impl PlayedSite {
    /// Plays an experiment with these changes. Every operation must be `ok`, and must have arrived.
    fn play(name: &str, site: &str, changes: &[&str]) -> Self {
        let sandbox = Sandbox::new();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/coming-from");
        let file = format!("{folder}/{name}.toml");
        let port = fs::read_to_string(&file).unwrap().split("127.0.0.1:").nth(1).unwrap()[..5].to_owned();
        let log = sandbox.path().join("log.jsonl");
        let start = format!("target.start=exec python3 {folder}/server.py {port} {site} --log {}", log.display());
        let sets = changes.iter().copied().chain([start.as_str()]).flat_map(|change| ["--set", change]);
        let words: Vec<&str> = [file.as_str()].into_iter().chain(sets).collect();
        let trial = sandbox.run(&words).json()["trials"][0].clone();
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let log = fs::read_to_string(log).unwrap();
        let rows = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let seen: Vec<Seen> = rows
            .map(|row| Seen {
                at_s: number(&row, "/at"),
                session: text(&row, "session"),
                call: format!("{} {}", text(&row, "method"), text(&row, "path")),
                status: row["status"].as_u64().unwrap(),
                row,
            })
            .collect();
        let refused = seen.iter().find(|seen| seen.status >= 400);
        assert!(refused.is_none(), "{:#}", refused.unwrap().row);
        let outcomes = &trial["outcomes"];
        let results = trial["attempt_results"].as_object().unwrap().iter();
        let followed: f64 =
            results.filter(|(result, _)| result.starts_with("followed ")).filter_map(|(_, count)| count.as_f64()).sum();
        assert_eq!((number(outcomes, "/ok") + followed) as usize, seen.len(), "{outcomes:#}");
        for outcome in ["failed", "timeout", "wrong", "unfinished"] {
            assert_eq!(number(outcomes, &format!("/{outcome}")), 0.0, "{outcomes:#}");
        }
        assert_eq!(sandbox.leftovers(), Vec::<String>::new());
        Self { trial, seen }
    }

    /// Returns the requests of each session, in the order of their arrival.
    fn sessions(&self) -> BTreeMap<&str, Vec<&Seen>> {
        let mut sessions: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
        self.seen.iter().for_each(|seen| sessions.entry(&seen.session).or_default().push(seen));
        sessions
    }

    /// Counts the requests whose method and path begin like this.
    fn count(&self, call: &str) -> f64 {
        self.seen.iter().filter(|seen| seen.call.starts_with(call)).count() as f64
    }

    /// Returns the number of `ok` operations of this name.
    fn ok(&self, operation: &str) -> f64 {
        number(&self.trial, &format!("/operations/{operation}/outcomes/ok"))
    }
}

#[test]
fn k6_customers_log_in_with_cookie_token_and_encoded_password() {
    let played = PlayedSite::play("k6-shop", "shop", &["load.time=5s", "load.group.visitors.ramp=1s"]);
    let sessions = played.sessions();
    let customers = sessions.values().filter(|steps| steps[0].call == "GET /login");
    let order = ["GET /login", "POST /login", "GET /account", "POST /orders"];
    let mut started = 0.0;
    for steps in customers {
        started += 1.0;
        let calls: Vec<&str> = steps.iter().map(|step| step.call.as_str()).collect();
        assert!(order.starts_with(&calls), "a session in another order: {calls:?}");
    }
    assert_eq!((started, played.ok("login_page")), (50.0, 50.0), "10 sessions/s for 5 s");
    assert_eq!(played.count("POST /orders"), played.ok("order"));
    let mut users: Vec<&str> = played.seen.iter().filter_map(|seen| seen.row["form"]["user"].as_str()).collect();
    users.sort_unstable();
    users.dedup();
    assert_eq!(users, ["ann", "bob smith", "čeněk"]);
}

#[test]
fn locust_users_begin_at_home_and_finish_their_sequences() {
    let played = PlayedSite::play(
        "locust-boutique",
        "boutique",
        &["load.time=6s", "load.think={ uniform = [\"10ms\", \"200ms\"] }"],
    );
    let sessions = played.sessions();
    assert_eq!(sessions.len(), 50, "one session for each user");
    for steps in sessions.values() {
        assert_eq!(steps[0].call, "GET /");
        let mut cart = false;
        for pair in steps.windows(2) {
            // Before a check-out the same user has put something into the cart.
            assert!(pair[1].call != "POST /cart/checkout" || pair[0].call == "POST /cart", "{:#}", pair[1].row);
            cart |= pair[0].call == "POST /cart";
        }
        assert!(cart || !steps.iter().any(|step| step.call == "POST /cart/checkout"));
    }
    assert_eq!(played.count("GET /product/"), played.ok("browse"));
    assert_eq!(played.count("POST /cart/checkout"), played.ok("checkout"));
    let share = played.ok("browse") / played.seen.len() as f64;
    assert!((0.4..0.65).contains(&share), "12 of some 22 requests: {share}");
}

#[test]
fn wrk2_requests_have_dates_and_passwords_that_belong_together() {
    let played = PlayedSite::play("wrk2-hotels", "hotels", &["load.time=5s"]);
    assert_eq!(played.seen.len(), 1000, "200/s for 5 s");
    let calls = [
        ("search", "GET /hotels"),
        ("recommend", "GET /recommendations"),
        ("login", "POST /user"),
        ("reserve", "POST /reservation"),
    ];
    for (operation, call) in calls {
        let ok = played.trial.pointer(&format!("/operations/{operation}/outcomes/ok")).and_then(Value::as_f64);
        assert_eq!(ok.unwrap_or(0.0), played.count(call), "{operation}");
    }
}

#[test]
fn gatling_users_arrive_browse_with_pauses_and_leave() {
    let played = PlayedSite::play(
        "gatling-computers",
        "computers",
        &[
            "load.time=6s",
            "load.think=200ms",
            "load.rate={ sessions = [{ from = 1, to = 10, over = \"2s\" }, { at = 10, for = \"4s\" }] }",
        ],
    );
    let sessions = played.sessions();
    assert_eq!(sessions.len(), 51, "11 sessions in the ramp, 40 later");
    let (mut edits, mut complete) = (0.0, 0.0);
    for steps in sessions.values() {
        let pages: Vec<&str> = steps.iter().filter_map(|step| step.row["query"]["p"].as_str()).collect();
        assert!(["0", "1", "2", "3"].starts_with(&pages), "{pages:?}");
        let calls: Vec<&str> = steps.iter().take(3).map(|step| step.call.split_at(14).0).collect();
        assert!(["GET /computers", "GET /computers", "GET /computers"].starts_with(&calls), "{calls:?}");
        for pair in steps.windows(2) {
            assert!(pair[1].at_s - pair[0].at_s >= 0.19, "a pause of 0.2 s: {:#}", pair[1].row);
        }
        complete += f64::from(u8::from(pages.len() == 4));
        edits += f64::from(u8::from(steps.last().unwrap().call == "POST /computers"));
    }
    assert!(edits > 0.0 && edits < complete * 0.6, "every fifth user edits: {edits} of {complete}");
    assert_eq!(played.count("POST /computers"), edits);
}

#[test]
fn vegeta_targets_are_played_in_turn() {
    let played = PlayedSite::play("vegeta-targets", "targets", &["load.time=3s"]);
    assert_eq!(played.seen.len(), 300, "100/s for 3 s");
    for call in ["GET /goku", "GET /users/1", "POST /things"] {
        assert!((90.0..=110.0).contains(&played.count(call)), "{call}: {}", played.count(call));
    }
}

#[test]
fn jmeter_threads_loop_twice_with_a_new_cookie_each_time() {
    let changes = ["load.ramp=1s", "load.cycle.home.think=100ms", "load.cycle.reserve.think=100ms"];
    let played = PlayedSite::play("jmeter-blazedemo", "blazedemo", &changes);
    let sessions = played.sessions();
    assert_eq!(sessions.len(), 40, "20 threads, two loops");
    for steps in sessions.values() {
        let calls: Vec<&str> = steps.iter().map(|step| step.call.as_str()).collect();
        assert_eq!(calls, ["GET /", "POST /reserve.php", "POST /purchase.php"]);
    }
    assert_eq!((played.ok("home"), played.ok("purchase")), (40.0, 40.0));
}
