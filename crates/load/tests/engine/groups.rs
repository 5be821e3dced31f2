//! Several groups of agents in one load: each with its own operations and pace, in the same
//! threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use experiment::plan::{Backlog, Connections, Feed, Load, Overflow, Rate, Retry, Step, StepOrder};
use record::events::Outcome;
use record::hlog::Time;

use crate::server::{Reply, Server, text};
use crate::setting::{LoadRun, load, orders, play, step, try_play};

fn group(name: &str, agents: u32, steps: Vec<Step>) -> Load {
    Load { name: Some(name.into()), timeout_s: 5.0, ..load(agents, 0.0, steps) }
}

fn groups(time_s: f64, threads: u32, groups: Vec<Load>) -> Load {
    let agents = groups.iter().map(|group| group.agents).sum();
    Load { groups, threads: Some(threads), drain_s: 60.0, ..load(agents, time_s, Vec::new()) }
}

fn named(name: &str, step: Step) -> Step {
    Step { name: name.into(), ..step }
}

fn good() -> Server {
    Server::frames(|request| Reply::Frame(0, if request.opcode == 3 { vec![1] } else { Vec::new() }))
}

/// Counts operations with this name and outcome.
fn ended(run: &LoadRun, name: &str, outcome: Outcome) -> u64 {
    let sheets = run.intervals.iter().flat_map(|interval| interval.sheet.histograms());
    let own = sheets.filter(|(of, is, time, _)| (*of, *is, *time) == (name, outcome, Time::Latency));
    own.map(|(.., histogram)| histogram.len()).sum()
}

#[test]
fn an_open_loop_keeps_its_rate_beside_a_closed_loop() {
    let server = good();
    for (threads, agents) in [(1, [1, 1]), (2, [3, 2]), (3, [4, 5])] {
        let paced = Load { rate: Some(Rate::Constant(200.0)), ..group("paced", agents[0], vec![step("ping", &[])]) };
        let busy =
            group("busy", agents[1], vec![step("save", &["key={agent}", "value=v"]), step("remove", &["key=k"])]);
        for order in [[paced.clone(), busy.clone()], [busy, paced]] {
            let run = play(orders(&server.service(), groups(0.5, threads, order.to_vec())));
            let found = format!("{threads} threads: {:?} {:?}", run.summary, run.results());
            assert_eq!(ended(&run, "ping", Outcome::Ok), 100, "{found}");
            assert!(ended(&run, "remove", Outcome::Ok) > 0);
            assert_eq!(
                run.summary.ok,
                ["ping", "save", "remove"].map(|name| ended(&run, name, Outcome::Ok)).iter().sum::<u64>()
            );
            assert_eq!(run.summary.unfinished + run.summary.failed, 0);
            assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
            let cycles = run.intervals.iter().flat_map(|interval| &interval.agent_cycles);
            let numbers: BTreeSet<u32> = cycles.map(|row| row.agent).collect();
            assert_eq!(numbers, (1..=agents[0] + agents[1]).collect(), "each agent once, over all threads");
        }
    }
}

#[test]
fn groups_have_own_steps_and_consecutive_agent_numbers() {
    let keys: Arc<Mutex<BTreeMap<u8, BTreeSet<String>>>> = Arc::default();
    let seen = Arc::clone(&keys);
    let server = Server::frames(move |request| {
        let (_, rest) = text(&request.body);
        let key = String::from_utf8_lossy(text(rest).0).into_owned();
        seen.lock().unwrap().entry(request.opcode).or_default().insert(key);
        Reply::Frame(0, if request.opcode == 3 { vec![1] } else { Vec::new() })
    });
    let writers = group("writers", 2, vec![step("save", &["key={agent}", "value=v"])]);
    let mix = vec![step("load", &["key={agent}"]), step("remove", &["key={agent}"])];
    let others = Load { order: StepOrder::Mix, ..group("others", 3, mix) };
    play(orders(&server.service(), groups(0.3, 2, vec![writers, others])));
    let keys = keys.lock().unwrap();
    let expected = |agents: &[&str]| agents.iter().map(|agent| (*agent).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(keys[&1], expected(&["1", "2"]), "saved");
    assert_eq!((&keys[&2], &keys[&3]), (&expected(&["3", "4", "5"]), &expected(&["3", "4", "5"])));
}

#[test]
fn agents_of_a_copy_share_its_number() {
    let keys: Arc<Mutex<BTreeMap<u8, BTreeSet<String>>>> = Arc::default();
    let seen = Arc::clone(&keys);
    let server = Server::frames(move |request| {
        let (_, rest) = text(&request.body);
        let key = String::from_utf8_lossy(text(rest).0).into_owned();
        seen.lock().unwrap().entry(request.opcode).or_default().insert(key);
        Reply::Frame(0, if request.opcode == 3 { vec![1] } else { Vec::new() })
    });
    // Two writers and one other agent in each of three copies.
    let of_three = |group: Load| Load { copies: 3, ..group };
    let writers = of_three(group("writers", 6, vec![step("save", &["key={agent}:{copy}", "value=v"])]));
    let others = of_three(group("others", 3, vec![step("load", &["key={agent}:{copy}:{copy%2}"])]));
    play(orders(&server.service(), of_three(groups(0.3, 2, vec![writers, others]))));
    let keys = keys.lock().unwrap();
    let expected = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(keys[&1], expected(&["1:1", "2:2", "3:3", "4:1", "5:2", "6:3"]), "saved");
    assert_eq!(keys[&2], expected(&["7:1:1", "8:2:0", "9:3:1"]), "loaded");
}

#[test]
fn the_load_ends_with_its_counted_groups() {
    let server = good();
    for threads in [1, 2] {
        let counted = |name: &str, agents, count| {
            let steps = vec![named(name, step("save", &["key=k", "value=v"]))];
            Load { count: Some(count), ..group(name, agents, steps) }
        };
        let beside = group("beside", 2, vec![step("ping", &[])]);
        let paced =
            Load { rate: Some(Rate::Constant(100.0)), ..group("paced", 1, vec![named("paced", step("ping", &[]))]) };
        let load = groups(600.0, threads, vec![counted("one", 3, 100), beside, counted("two", 2, 7), paced]);
        let run = play(orders(&server.service(), load));
        assert_eq!((ended(&run, "one", Outcome::Ok), ended(&run, "two", Outcome::Ok)), (100, 7));
        assert_eq!(run.summary.unfinished, 0, "what was open has its drain");
        assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
    }
}

#[test]
fn backlogs_and_retries_apply_per_group() {
    // A ping is not answered in time, and a removal fails.
    let server = Server::frames(|request| match request.opcode {
        1 => Reply::Frame(0, Vec::new()),
        3 => Reply::Frame(4, Vec::new()),
        _ => Reply::Silence,
    });
    let bound = Backlog { most: 3, overflow: Overflow::Drop };
    let crowded = Load {
        rate: Some(Rate::Constant(100.0)),
        backlog: Some(bound),
        timeout_s: 30.0,
        ..group("crowded", 1, vec![step("ping", &[])])
    };
    let retry = Retry::Tries { tries: 3, wait_s: 0.0 };
    let patient = Load { retry, ..group("patient", 2, vec![step("remove", &["key=k"])]) };
    let busy = group("busy", 2, vec![step("save", &["key=k", "value=v"])]);
    let load = Load { drain_s: 0.1, ..groups(0.5, 2, vec![busy, crowded, patient]) };
    let run = play(orders(&server.service(), load));
    assert_eq!(ended(&run, "ping", Outcome::Unfinished), 4, "one, and as many as may wait");
    assert!(run.summary.dropped > 0 && run.notices().iter().any(|notice| notice.contains("3 others already waited")));
    let (failed, attempts) = (ended(&run, "remove", Outcome::Failed), run.attempts("answer: busy"));
    // At the end, each of the two agents may have made two attempts of an open operation.
    assert!(failed > 0 && (3 * failed..=3 * failed + 4).contains(&attempts), "{attempts} attempts, {failed} failed");
    assert!(ended(&run, "save", Outcome::Ok) > 0);
}

#[test]
fn a_feed_is_read_only_by_groups_that_use_it() {
    let keys: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&keys);
    let server = Server::frames(move |request| {
        if request.opcode == 1 {
            let (_, rest) = text(&request.body);
            seen.lock().unwrap().push(String::from_utf8_lossy(text(rest).0).into_owned());
        }
        Reply::Frame(0, Vec::new())
    });
    let folder = fixture::TestDir::new();
    let rows: String = (0..1000).map(|row| format!("{row}\n")).collect();
    let corpus = folder.write("corpus.csv", format!("id\n{rows}"));
    let producers =
        Load { count: Some(1000), ..group("producers", 2, vec![step("save", &["key={feed.corpus.id}", "value=v"])]) };
    let consumers = group("consumers", 2, vec![step("ping", &[])]);
    let mut load = groups(600.0, 1, vec![consumers, producers]);
    load.feeds = vec![Feed {
        name: "corpus".into(),
        file: "corpus.csv".into(),
        random: false,
        stream: false,
        batch: 1,
        before: None,
        ends: false,
        ..Feed::default()
    }];
    let mut orders = orders(&server.service(), load);
    orders.files = load::InputFiles::below(corpus.parent().unwrap());
    play(orders);
    let mut keys: Vec<u32> = keys.lock().unwrap().iter().map(|key| key.parse().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..1000).collect::<Vec<_>>(), "each row once: consumers take none");
}

#[test]
fn invalid_groups_are_refused() {
    let one = || group("one", 2, vec![step("ping", &[])]);
    let of = |load: Load| try_play(orders("127.0.0.1:1", load)).err().unwrap().to_string();
    let sum = Load { agents: 3, ..groups(1.0, 1, vec![one()]) };
    assert!(of(sum).contains("the sum of its groups"));
    let shared = Load { connections: Connections { keep_alive: true, pipeline: 2 }, ..groups(1.0, 1, vec![one()]) };
    assert!(of(shared).contains("cannot be combined with `pipeline`"));
    let idle = groups(1.0, 1, vec![one(), group("idle", 1, Vec::new())]);
    assert!(of(idle).contains("at least one agent and one step"));
}
