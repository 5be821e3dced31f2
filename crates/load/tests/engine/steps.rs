//! Steps of agents: cycles, mixes, `every`, captures, feeds, ramp and think time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use experiment::plan::{Feed, Rate, Step, StepOrder};
use fixture::TestDir;
use load::LoadOrder;

use crate::server::{Reply, Server, text};
use crate::setting::{load, orders, pairs, play, step};

type Keys = Arc<Mutex<Vec<(u8, String)>>>;

/// Returns a server that records operations and keys.
fn witness() -> (Server, Keys) {
    let keys = Keys::default();
    let seen = Arc::clone(&keys);
    let server = Server::frames(move |request| {
        let (_, rest) = text(&request.body);
        let key = String::from_utf8_lossy(text(rest).0).into_owned();
        seen.lock().unwrap().push((request.opcode, key));
        Reply::Frame(0, if request.opcode == 3 { vec![1] } else { Vec::new() })
    });
    (server, keys)
}

fn named(name: &str, step: Step) -> Step {
    Step { name: name.into(), ..step }
}

#[test]
fn steps_run_in_order_and_every_nth_cycle() {
    let (server, keys) = witness();
    let rare = Step { every: 3, ..named("rare", step("remove", &["key={seq}"])) };
    let steps = vec![step("save", &["key={seq}", "value=v"]), rare, step("load", &["key={seq}"])];
    let run = play(orders(&server.service(), load(1, 0.1, steps)));
    assert!(run.summary.cycles > 3);
    let keys = keys.lock().unwrap();
    let expected = (1_u64..).flat_map(|seq| {
        let opcodes: &[u8] = if seq.is_multiple_of(3) { &[1, 3, 2] } else { &[1, 2] };
        opcodes.iter().map(move |opcode| (*opcode, seq.to_string()))
    });
    for (seen, expected) in keys.iter().zip(expected) {
        assert_eq!(*seen, expected);
    }
}

#[test]
fn cycles_without_a_step_are_skipped() {
    let (server, keys) = witness();
    let steps = vec![
        Step { every: 4, ..step("save", &["key={seq}", "value=v"]) },
        Step { every: 6, ..step("load", &["key={seq}"]) },
    ];
    play(orders(&server.service(), load(1, 0.05, steps)));
    let keys = keys.lock().unwrap();
    let expected = [(1, "4"), (2, "6"), (1, "8"), (1, "12"), (2, "12"), (1, "16"), (2, "18")];
    for (seen, expected) in keys.iter().zip(expected) {
        assert_eq!((seen.0, seen.1.as_str()), expected);
    }
    assert!(keys.len() > 7);
}

#[test]
fn a_mix_by_weight() {
    let (server, keys) = witness();
    let steps = vec![
        Step { weight: 1, ..step("save", &["key={seq}", "value=v"]) },
        Step { weight: 3, ..step("load", &["key={seq}"]) },
    ];
    let mut load = load(2, 0.3, steps);
    load.order = StepOrder::Mix;
    let run = play(orders(&server.service(), load));
    assert_eq!(run.summary.cycles, run.summary.ok, "each is a cycle of its own");
    let keys = keys.lock().unwrap();
    let (total, saves) = (keys.len() as f64, keys.iter().filter(|(opcode, _)| *opcode == 1).count() as f64);
    assert!((saves - total / 4.0).abs() < 6.0 * (total * 0.1875).sqrt(), "{saves} of {total}");
}

#[test]
fn kept_values_are_used_within_their_cycle() {
    let server = Server::names();
    let mut save = step("save", &["key=k{agent}", "value={bytes:30}"]);
    save.keep = pairs(&["saved=request.value"]);
    save.expect = pairs(&["status=ok"]);
    let mut read = step("load", &["key=k{agent}"]);
    read.expect = pairs(&["value={saved}"]);
    read.keep = pairs(&["found=answer.value"]);
    let copy = named("copy", step("save", &["key=c{agent}", "value=<{found}>"]));
    let mut check = named("check", step("load", &["key=c{agent}"]));
    check.expect = pairs(&["value=<{saved}>"]);
    let run = play(orders(&server.service(), load(5, 0.2, vec![save, read, copy, check])));
    assert!(run.summary.cycles > 0 && run.summary.wrong == 0 && run.summary.failed == 0, "{:?}", run.summary);
}

#[test]
fn an_expectation_with_an_empty_slot_is_ignored() {
    let server = Server::names();
    let mut save = step("save", &["key=k{agent}", "value={seq}"]);
    save.every = 2;
    save.keep = pairs(&["saved=request.value"]);
    let mut read = step("load", &["key=k{agent}"]);
    read.expect = pairs(&["value={saved}"]);
    let run = play(orders(&server.service(), load(2, 0.1, vec![save, read])));
    assert!(run.summary.cycles > 4 && run.summary.wrong == 0);
}

#[test]
fn a_step_may_expect_what_it_sent() {
    let server = Server::http(|request| {
        let body = request.body.split(|byte| *byte == b'\n').next_back().unwrap();
        Reply::Bytes([format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat())
    });
    let mut echo = step("post", &["path=/", "body={bytes:20}"]);
    echo.keep = pairs(&["sent=request.body"]);
    echo.expect = pairs(&["body={sent}"]);
    let mut orders = orders(&server.service(), load(2, 0.1, vec![echo]));
    orders.protocol = "http".into();
    let run = play(orders);
    assert!(run.summary.ok > 0 && run.summary.wrong == 0);
}

#[test]
fn feeds_in_order_and_at_random() {
    let folder = TestDir::new();
    let rows: String = (0..1000).map(|row| format!("r{row}\n")).collect();
    let path = folder.write("names.csv", format!("name\n{rows}"));
    let feed = |name: &str, random| Feed {
        name: name.into(),
        file: path.to_string_lossy().into_owned(),
        random,
        ..Feed::default()
    };
    let (server, keys) = witness();
    let steps = vec![step("save", &["key={feed.next.name}", "value=v"]), step("load", &["key={feed.any.name}"])];
    let mut load = load(3, 0.1, steps);
    load.threads = Some(2);
    load.feeds = vec![feed("next", false), feed("any", true)];
    let played = play(orders(&server.service(), load));
    assert!(played.summary.cycles > 10);
    let keys = keys.lock().unwrap();
    let of =
        |wanted: u8| keys.iter().filter(move |(opcode, _)| *opcode == wanted).map(|(_, key)| key.as_str()).take(400);
    let next: BTreeSet<&str> = of(1).collect();
    assert_eq!(next.len(), of(1).count(), "no row is taken twice before all are");
    assert!(of(2).all(|key| key.starts_with('r')));
}

#[test]
fn no_agent_starts_before_its_time_in_the_ramp() {
    let (told, starts) = channel();
    let told = Mutex::new(told);
    let server = Server::frames(move |request| {
        if request.number == 1 {
            told.lock().unwrap().send(Instant::now()).unwrap();
        }
        Reply::Frame(0, Vec::new())
    });
    let mut load = load(4, 0.3, vec![step("ping", &[])]);
    load.ramp_s = 0.2;
    let begun = Instant::now();
    let run = play(orders(&server.service(), load));
    for (agent, start) in starts.try_iter().enumerate() {
        assert!(start - begun >= Duration::from_millis(50) * u32::try_from(agent).unwrap());
    }
    assert_eq!(run.intervals.last().unwrap().generator.agents, 4);
}

#[test]
fn think_time_limits_an_agent() {
    let (server, _) = witness();
    let mut load = load(2, 0.5, vec![step("ping", &[])]);
    load.think_s = 0.1;
    let run = play(orders(&server.service(), load));
    assert!((1..=10).contains(&run.summary.ok), "{:?}", run.summary);
    assert!(run.intervals.iter().any(|interval| interval.generator.late_us_p99.is_some()));
}

#[test]
fn the_same_seed_gives_the_same_values() {
    let values = |seed: u64| {
        let (server, keys) = witness();
        let mut orders =
            orders(&server.service(), load(2, 0.1, vec![step("load", &["key={agent}:{bytes:8}{zipf:1..1000}"])]));
        orders.seed = seed;
        play(orders);
        let mut by_agent: BTreeMap<char, Vec<String>> = BTreeMap::new();
        for (_, key) in keys.lock().unwrap().iter() {
            by_agent.entry(key.chars().next().unwrap()).or_default().push(key.clone());
        }
        by_agent.into_values().map(|keys| keys[..5].to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(values(1), values(1));
    assert_ne!(values(1), values(2));
}

#[test]
fn a_value_that_is_set_is_drawn_once_for_the_operation() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let server = Server::http(move |request| {
        let request = String::from_utf8(request.body.clone()).unwrap();
        noted.lock().unwrap().push(request);
        Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
    });
    let mut search = step("post", &["path=/{day}/{last}", "header.x-day={day}", "form.id={id}"]);
    // The names are not in the order in which the values depend on each other.
    search.set = pairs(&["day={uniform:base..20}", "base={uniform:10..20}", "last={uniform:day+1..21}", "id={uuid}"]);
    let mut load = load(2, 60.0, vec![search]);
    load.count = Some(50);
    let run = play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) });
    assert_eq!((run.summary.ok, run.summary.attempts), (50, 50));
    let seen = seen.lock().unwrap();
    let mut ids = BTreeSet::new();
    for request in seen.iter() {
        let path = request.split(' ').nth(1).unwrap();
        let days: Vec<u64> = path[1..].split('/').map(|day| day.parse().unwrap()).collect();
        assert!((10..=20).contains(&days[0]) && days[0] < days[1] && days[1] <= 21, "{request}");
        assert!(request.contains(&format!("x-day: {}\r\n", days[0])), "{request}");
        ids.insert(request.split_once("\r\n\r\nid=").unwrap().1.to_owned());
    }
    assert_eq!(ids.len(), 50);
}

#[test]
fn repeated_steps_count_their_repetitions() {
    let (server, keys) = witness();
    let key = "key={seq}:{repeat}";
    let repeated = Step { repeat: 3, ..step("save", &[key, "value=v"]) };
    let run = play(orders(&server.service(), load(1, 0.1, vec![repeated, step("load", &[key])])));
    assert!(run.summary.cycles > 1);
    let expected =
        (1_u64..).flat_map(|seq| [(1, 1), (1, 2), (1, 3), (2, 1)].map(|(op, at)| (op, format!("{seq}:{at}"))));
    for (seen, expected) in keys.lock().unwrap().iter().zip(expected) {
        assert_eq!(*seen, expected);
    }
}

#[test]
fn a_failure_ends_the_repetitions_of_its_cycle() {
    let keys = Keys::default();
    let seen = Arc::clone(&keys);
    let server = Server::frames(move |request| {
        let key = String::from_utf8_lossy(text(text(&request.body).1).0).into_owned();
        let is_bad = key == "2:2";
        seen.lock().unwrap().push((request.opcode, key));
        Reply::Frame(if is_bad { 4 } else { 0 }, Vec::new())
    });
    let repeated = Step { repeat: 3, ..step("load", &["key={seq}:{repeat}"]) };
    play(orders(&server.service(), load(1, 0.1, vec![repeated])));
    let keys: Vec<String> = keys.lock().unwrap().iter().map(|(_, key)| key.clone()).take(8).collect();
    assert_eq!(keys, ["1:1", "1:2", "1:3", "2:1", "2:2", "3:1", "3:2", "3:3"]);
}

#[test]
fn steps_with_a_probability_are_drawn_in_each_cycle() {
    let (server, keys) = witness();
    let rare = Step { probability_pct: Some(20.0), repeat: 2, ..step("load", &["key={agent}-{seq}"]) };
    let run =
        play(orders(&server.service(), load(2, 0.3, vec![step("save", &["key={agent}-{seq}", "value=v"]), rare])));
    let mut cycles: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for (opcode, key) in keys.lock().unwrap().iter() {
        cycles.entry(key.clone()).or_default().push(*opcode);
    }
    let all = cycles.len() as f64;
    let drawn = cycles.values().filter(|opcodes| opcodes.len() > 1).count() as f64;
    assert!(cycles.values().all(|opcodes| [1, 2, 2].starts_with(opcodes)), "{cycles:?}");
    assert!((drawn - all / 5.0).abs() < 6.0 * (all * 0.16).sqrt(), "{drawn} of {all}");
    assert!(run.summary.cycles + 2 >= cycles.len() as u64);
}

/// Returns a mix of a single step, and of a sequence that saves and loads.
fn mixed() -> Vec<Step> {
    let key = "key={agent}-{seq}";
    let mut save = Step { weight: 3, ..step("save", &[key, "value={bytes:9}"]) };
    save.keep = pairs(&["saved=request.value"]);
    let mut read = Step { weight: 3, follows: true, ..step("load", &[key]) };
    read.expect = pairs(&["value={saved}"]);
    vec![Step { weight: 1, ..step("remove", &[key]) }, save, read]
}

#[test]
fn a_mix_draws_whole_sequences() {
    for rate in [None, Some(Rate::Constant(400.0)), Some(Rate::Sessions { sessions: Box::new(Rate::Constant(200.0)) })]
    {
        let seen = Arc::new(Mutex::new(BTreeMap::<String, Vec<u8>>::new()));
        let keys = Arc::clone(&seen);
        let names: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::default();
        let server = Server::frames(move |request| {
            let (key, rest) = text(text(&request.body).1);
            let key = String::from_utf8_lossy(key).into_owned();
            keys.lock().unwrap().entry(key.clone()).or_default().push(request.opcode);
            match request.opcode {
                1 => drop(names.lock().unwrap().insert(key, rest[4..].to_vec())),
                2 => return Reply::Frame(0, names.lock().unwrap().get(&key).cloned().unwrap_or_default()),
                _ => return Reply::Frame(0, vec![1]),
            }
            Reply::Frame(0, Vec::new())
        });
        let mut load = load(5, 1.0, mixed());
        (load.order, load.rate) = (StepOrder::Mix, rate);
        let run = play(orders(&server.service(), load));
        assert_eq!((run.summary.wrong, run.summary.failed), (0, 0), "slots last for the sequence");
        let seen = seen.lock().unwrap();
        let is_whole = |opcodes: &Vec<u8>| [&[3][..], &[1, 2], &[1]].contains(&opcodes.as_slice());
        assert!(seen.values().all(is_whole), "{seen:?}");
        let (all, alone) = (seen.len() as f64, seen.values().filter(|opcodes| **opcodes == [3]).count() as f64);
        assert!((alone - all / 4.0).abs() < 6.0 * (all * 0.1875).sqrt(), "{alone} of {all}");
        assert!(run.summary.cycles <= seen.len() as u64 && run.summary.cycles + 10 >= seen.len() as u64);
    }
}

#[test]
fn each_agent_ends_after_its_iterations() {
    let (server, keys) = witness();
    let mut load =
        load(5, 60.0, vec![step("save", &["key={agent}-{seq}", "value=v"]), step("load", &["key={agent}-{seq}"])]);
    (load.iterations, load.threads) = (Some(3), Some(2));
    let run = play(orders(&server.service(), load));
    assert_eq!((run.summary.ok, run.summary.cycles), (30, 15));
    let seen: BTreeSet<String> = keys.lock().unwrap().iter().map(|(_, key)| key.clone()).collect();
    let expected = (1..=5).flat_map(|agent| (1..=3).map(move |seq| format!("{agent}-{seq}")));
    assert_eq!(seen, expected.collect());
}

#[test]
fn agents_do_the_steps_of_their_start_once() {
    let sessions = Rate::Sessions { sessions: Box::new(Rate::Constant(100.0)) };
    for (rate, order) in [
        (None, StepOrder::Cycle),
        (None, StepOrder::Mix),
        (Some(Rate::Constant(200.0)), StepOrder::Cycle),
        (Some(sessions), StepOrder::Cycle),
    ] {
        let seen = Arc::new(Mutex::new(BTreeMap::<usize, Vec<(u8, String)>>::new()));
        let requests = Arc::clone(&seen);
        let server = Server::frames(move |request| {
            let key = String::from_utf8_lossy(text(text(&request.body).1).0).into_owned();
            let mut seen = requests.lock().unwrap();
            let own = seen.entry(request.connection).or_default();
            own.push((request.opcode, key));
            // The first login fails. The token is the number of the connection.
            match request.opcode {
                2 if own.len() == 1 => Reply::Frame(4, Vec::new()),
                2 => Reply::Frame(0, format!("t{}", request.connection).into_bytes()),
                _ => Reply::Frame(0, vec![1]),
            }
        });
        let mut login = Step { once: true, ..step("load", &["key=login-{seq}"]) };
        login.keep = pairs(&["token=answer.value"]);
        let hello = Step { once: true, ..named("hello", step("remove", &["key=hello-{token}"])) };
        let work = named("work", step("remove", &["key={token}-{seq}"]));
        let mut load = load(3, 0.5, vec![login, hello, work]);
        (load.rate, load.order, load.drain_s) = (rate, order, 60.0);
        let run = play(orders(&server.service(), load));
        drop(server);
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 3);
        assert_eq!((run.summary.failed, run.summary.wrong), (3, 0));
        let mut cycles = 0;
        for (connection, requests) in &*seen {
            let mut keys = requests.iter().map(|(_, key)| key.as_str());
            assert_eq!([keys.next(), keys.next()], [Some("login-0"); 2], "{requests:?}");
            assert!(keys.next().is_none_or(|key| key == format!("hello-t{connection}")), "{requests:?}");
            for (number, key) in keys.enumerate() {
                assert_eq!(key, format!("t{connection}-{}", number + 1));
                cycles += 1;
            }
        }
        assert!(cycles > 3);
        assert_eq!(run.summary.cycles, cycles);
    }
}
