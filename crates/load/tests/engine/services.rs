//! Several services: how agents are assigned, and how one failed service affects the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use experiment::plan::{Failover, Load, Step};
use load::{Error, LoadOrder, LoadPurpose};
use record::events::Outcome;

use crate::server::{Reply, Server, nobody};
use crate::setting::{LoadRun, load, orders, play, step, try_play};

fn to(services: &[String], agents: u32, steps: Vec<Step>) -> LoadOrder {
    let mut load = load(agents, 0.2, steps);
    load.threads = Some(2);
    LoadOrder { services: services.to_vec(), ..orders("", load) }
}

#[test]
fn agents_are_spread_evenly() {
    let servers = [(); 3].map(|()| Server::frames(|_| Reply::Frame(0, Vec::new())));
    let services: Vec<String> = servers.iter().map(Server::service).collect();
    let run = play(to(&services, 7, vec![step("ping", &[])]));
    assert!(run.summary.ok >= 7 && run.summary.failed == 0);
    assert_eq!(servers.each_ref().map(|server| server.connections.load(Ordering::SeqCst)), [3, 2, 2]);
}

#[test]
fn each_agent_stays_with_its_service_and_names_it() {
    let hosts: Arc<Mutex<BTreeMap<usize, String>>> = Arc::default();
    let servers = [0, 1].map(|number| {
        let hosts = Arc::clone(&hosts);
        Server::http(move |request| {
            let text = String::from_utf8_lossy(&request.body).into_owned();
            let host = text.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap().to_owned();
            let path = text.split(' ').nth(1).unwrap().to_owned();
            hosts.lock().unwrap().insert(number, format!("{host} {path}"));
            Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
        })
    });
    let services = servers.each_ref().map(|server| format!("http://{}/base", server.service()));
    let steps = vec![step("get", &["path=/first"]), step("get", &["path=/last"])];
    let mut orders = to(&services, 2, steps);
    orders.protocol = "http".into();
    let run = play(LoadOrder { purpose: LoadPurpose::Prepare { count: 2 }, ..orders });
    assert_eq!(run.summary.ok, 4);
    let expected = servers.each_ref().map(|server| format!("{} /base/last", server.service()));
    assert_eq!(*hosts.lock().unwrap(), expected.into_iter().enumerate().collect());
}

#[test]
fn a_service_that_is_down_fails_only_its_agents() {
    let servers = [Server::names(), Server::names()];
    let services = [servers[0].service(), nobody(), servers[1].service()];
    let save = Step { audit: true, ..step("save", &["key={agent}", "value=v"]) };
    let run = play(to(&services, 6, vec![save]));
    let mut outcomes: BTreeMap<u32, Vec<Outcome>> = BTreeMap::new();
    // On a busy machine, the load may end before the system refuses the last connect.
    for line in run.history().into_iter().filter(|line| line.outcome != Outcome::Unfinished) {
        let seen = outcomes.entry(line.agent.unwrap()).or_default();
        if !seen.contains(&line.outcome) {
            seen.push(line.outcome);
        }
    }
    let expected = |agent| if agent % 3 == 2 { Outcome::Failed } else { Outcome::Ok };
    assert_eq!(outcomes, (1..=6).map(|agent| (agent, vec![expected(agent)])).collect());
    let ended = |service| {
        let slots = run.intervals.iter().flat_map(|interval| interval.slots.iter().skip(service).step_by(3));
        slots.fold((0, 0), |(ok, failed), slot| (ok + slot.ok, failed + slot.failed))
    };
    let [first, down, last] = [0, 1, 2].map(ended);
    assert!(first.0 > 0 && last.0 > 0 && down.1 > 0, "{first:?} {down:?} {last:?}");
    assert_eq!((first.1, down.0, last.1), (0, 0, 0), "what ended is counted where it ended");
    assert_eq!((first.0 + last.0, down.1), (run.summary.ok as u32, run.summary.failed as u32));
}

/// Returns the outcomes of each agent's saves, in order.
fn saves(run: &LoadRun) -> BTreeMap<u32, Vec<Outcome>> {
    let mut saves: BTreeMap<u32, Vec<Outcome>> = BTreeMap::new();
    for line in run.history() {
        saves.entry(line.agent.unwrap()).or_default().push(line.outcome);
    }
    saves
}

/// Plays a load on two services. The second service dies during the load and closes its
/// connections.
fn play_with_a_dying_service(load: Load) -> LoadRun {
    let (asked, is_dead) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let lives = Server::names();
    let (counted, dead) = (Arc::clone(&asked), Arc::clone(&is_dead));
    let dies = Server::frames(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        if dead.load(Ordering::SeqCst) { Reply::Close } else { Reply::Frame(0, Vec::new()) }
    });
    let orders = LoadOrder { services: vec![lives.service(), dies.service()], ..orders("", load) };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            fixture::until("the second is asked", || asked.load(Ordering::SeqCst) > 10);
            is_dead.store(true, Ordering::SeqCst);
            drop(dies);
        });
        play(orders)
    })
}

#[test]
fn failover_moves_agents_to_the_next_service_for_good() {
    for pipeline in [1, 2] {
        let load = |failover| {
            let save = Step { audit: true, ..step("save", &["key={agent}", "value=v"]) };
            let mut load = load(4, 1.0, vec![save]);
            (load.think_s, load.connections.pipeline, load.reconnects.failover) = (0.001, pipeline, failover);
            load
        };
        let run = play_with_a_dying_service(load(Failover::None));
        assert!(run.attempts("connect refused") > 2, "{:?}", run.results());
        for (agent, saves) in saves(&run) {
            let expected = if agent % 2 == 0 { Outcome::Failed } else { Outcome::Ok };
            assert_eq!(*saves.last().unwrap(), expected, "agent {agent}");
        }
        let run = play_with_a_dying_service(load(Failover::Next));
        // An idle agent notices the closed connection without an operation.
        assert!(run.attempts("connect refused") <= 2, "{:?}", run.results());
        for (agent, saves) in saves(&run) {
            assert_eq!(*saves.last().unwrap(), Outcome::Ok, "agent {agent}");
            let failed = saves.iter().filter(|outcome| **outcome == Outcome::Failed).count();
            assert!(failed <= if agent % 2 == 0 { 2 } else { 0 }, "agent {agent} failed {failed} times");
        }
        assert!(run.summary.failed > 0, "what its clients felt is not hidden");
    }
}

/// A paused process: its kernel accepts connections, and nothing comes.
#[test]
fn failover_leaves_a_service_that_is_silent_for_two_timeouts() {
    let silent = Server::frames(|_| Reply::Silence);
    let lives = Server::names();
    for pipeline in [1, 2] {
        let save = Step { audit: true, ..step("save", &["key={agent}", "value=v"]) };
        let mut load = Load { timeout_s: 0.1, think_s: 0.01, ..load(4, 1.0, vec![save]) };
        (load.connections.pipeline, load.reconnects.failover) = (pipeline, Failover::Next);
        let run = play(LoadOrder { services: vec![silent.service(), lives.service()], ..orders("", load) });
        for (agent, saves) in saves(&run).into_iter().filter(|(agent, _)| agent % 2 == 1) {
            let (before, after) = saves.split_at(2);
            assert!(!before.contains(&Outcome::Ok) && after.contains(&Outcome::Ok), "agent {agent}: {saves:?}");
        }
        let stays = Load { timeout_s: 0.1, ..self::load(2, 0.5, vec![step("ping", &[])]) };
        let run = play(LoadOrder { services: vec![silent.service(), lives.service()], ..orders("", stays) });
        assert!(run.summary.timeout > 2, "without failover: {:?}", run.summary);
    }
}

#[test]
fn requests_after_a_failover_name_the_new_service() {
    let hosts: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let seen = Arc::clone(&hosts);
    let server = Server::http(move |request| {
        let text = String::from_utf8_lossy(&request.body).into_owned();
        let host = text.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap();
        seen.lock().unwrap().insert(host.to_owned());
        Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
    });
    let services = [nobody(), server.service()].map(|service| format!("http://{service}"));
    let mut orders = to(&services, 4, vec![step("get", &["path=/"])]);
    orders.load.reconnects.failover = Failover::Next;
    let run = play(LoadOrder { protocol: "http".into(), ..orders });
    assert_eq!((run.summary.failed, run.attempts("connect refused")), (2, 2), "each of the first's agents once");
    assert_eq!(*hosts.lock().unwrap(), BTreeSet::from([server.service()]));
}

#[test]
fn failover_pauses_if_all_services_refuse_connects() {
    let mut orders = to(&[nobody(), nobody()], 2, vec![step("ping", &[])]);
    (orders.load.time_s, orders.load.reconnects.failover) = (0.35, Failover::Next);
    let run = play(orders);
    assert!((4..=2 * 2 * 4).contains(&run.summary.failed), "{:?} {:?}", run.summary, run.results());
}

#[test]
fn an_unresolvable_service_is_named() {
    let services = ["127.0.0.1:1".to_owned(), "no-such-host.invalid:1".to_owned()];
    let error = try_play(to(&services, 2, vec![step("ping", &[])])).err().unwrap();
    assert!(
        matches!(&error, Error::Transport(transport::error::Error::Service { service, .. }) if service == "no-such-host.invalid:1"),
        "{error}"
    );
}

#[test]
fn agents_connect_from_the_given_addresses() {
    let server = Server::frames(|_| Reply::Frame(0, Vec::new()));
    let mut load = load(5, 0.2, vec![step("ping", &[])]);
    load.from = ["127.0.0.9", "127.0.0.7"].map(|address| address.parse().unwrap()).into();
    let run = play(orders(&server.service(), load));
    assert!(run.summary.ok >= 5 && run.summary.failed == 0);
    let mut peers: Vec<String> = server.peers.lock().unwrap().iter().map(ToString::to_string).collect();
    peers.sort_unstable();
    assert_eq!(peers, ["127.0.0.7", "127.0.0.7", "127.0.0.7", "127.0.0.9", "127.0.0.9"]);
    assert!(run.notices().is_empty(), "what was asked for is no news: {:?}", run.notices());
}

#[test]
fn an_address_of_another_machine_is_refused_before_the_load() {
    let server = Server::frames(|_| Reply::Frame(0, Vec::new()));
    let mut load = load(2, 0.2, vec![step("ping", &[])]);
    load.from = vec!["192.0.2.1".parse().unwrap()];
    let error = try_play(orders(&server.service(), load)).err().unwrap();
    assert!(
        matches!(&error, Error::Transport(transport::error::Error::From { address, .. }) if address == "192.0.2.1"),
        "{error}"
    );
    assert_eq!(server.connections.load(Ordering::SeqCst), 0);
}
