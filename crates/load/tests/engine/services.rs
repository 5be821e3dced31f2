//! Several services: who goes where, and what one of them being down does to the others.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use experiment::plan::Step;
use load::{Error, LoadOrder, LoadPurpose};
use record::events::Outcome;

use crate::server::{Reply, Server, nobody};
use crate::setting::{load, orders, play, step, try_play};

fn to(services: &[String], agents: u32, steps: Vec<Step>) -> LoadOrder {
    let mut load = load(agents, 0.2, steps);
    load.threads = Some(2);
    LoadOrder { services: services.to_vec(), ..orders("", load) }
}

#[test]
fn agents_are_spread_evenly() {
    let servers = [(); 3].map(|()| Server::frames(|_| Reply::Frame(0, Vec::new())));
    let services: Vec<String> = servers.iter().map(Server::service).collect();
    let came = play(to(&services, 7, vec![step("ping", &[])]));
    assert!(came.summary.ok >= 7 && came.summary.failed == 0);
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
    let came = play(LoadOrder { purpose: LoadPurpose::Prepare { count: 2 }, ..orders });
    assert_eq!(came.summary.ok, 4);
    let expected = servers.each_ref().map(|server| format!("{} /base/last", server.service()));
    assert_eq!(*hosts.lock().unwrap(), expected.into_iter().enumerate().collect());
}

#[test]
fn one_that_is_down_fails_only_its_agents() {
    let servers = [Server::names(), Server::names()];
    let services = [servers[0].service(), nobody(), servers[1].service()];
    let save = Step { audit: true, ..step("save", &["key={agent}", "value=v"]) };
    let came = play(to(&services, 6, vec![save]));
    let mut outcomes: BTreeMap<u32, Vec<Outcome>> = BTreeMap::new();
    for line in came.history() {
        let seen = outcomes.entry(line.agent.unwrap()).or_default();
        if !seen.contains(&line.outcome) {
            seen.push(line.outcome);
        }
    }
    let expected = |agent| if agent % 3 == 2 { Outcome::Failed } else { Outcome::Ok };
    assert_eq!(outcomes, (1..=6).map(|agent| (agent, vec![expected(agent)])).collect());
    let ended = |service| {
        let slots = came.intervals.iter().flat_map(|interval| interval.slots.iter().skip(service).step_by(3));
        slots.fold((0, 0), |(ok, failed), slot| (ok + slot.ok, failed + slot.failed))
    };
    let [first, down, last] = [0, 1, 2].map(ended);
    assert!(first.0 > 0 && last.0 > 0 && down.1 > 0, "{first:?} {down:?} {last:?}");
    assert_eq!((first.1, down.0, last.1), (0, 0, 0), "what ended is counted where it ended");
    assert_eq!((first.0 + last.0, down.1), (came.summary.ok as u32, came.summary.failed as u32));
}

#[test]
fn one_without_an_address_is_named() {
    let services = ["127.0.0.1:1".to_owned(), "no-such-host.invalid:1".to_owned()];
    let error = try_play(to(&services, 2, vec![step("ping", &[])])).err().unwrap();
    assert!(matches!(&error, Error::Service { service, .. } if service == "no-such-host.invalid:1"), "{error}");
}

#[test]
fn agents_connect_from_the_addresses_that_are_named() {
    let server = Server::frames(|_| Reply::Frame(0, Vec::new()));
    let mut load = load(5, 0.2, vec![step("ping", &[])]);
    load.from = ["127.0.0.9", "127.0.0.7"].map(Into::into).into();
    let came = play(orders(&server.service(), load));
    assert!(came.summary.ok >= 5 && came.summary.failed == 0);
    let mut peers: Vec<String> = server.peers.lock().unwrap().iter().map(ToString::to_string).collect();
    peers.sort_unstable();
    assert_eq!(peers, ["127.0.0.7", "127.0.0.7", "127.0.0.7", "127.0.0.9", "127.0.0.9"]);
    assert!(came.notices().is_empty(), "what was asked for is no news: {:?}", came.notices());
}

#[test]
fn an_address_of_another_machine_is_refused_before_the_load() {
    let server = Server::frames(|_| Reply::Frame(0, Vec::new()));
    let mut load = load(2, 0.2, vec![step("ping", &[])]);
    load.from = vec!["192.0.2.1".into()];
    let error = try_play(orders(&server.service(), load)).err().unwrap();
    assert!(matches!(&error, Error::From { address, .. } if address == "192.0.2.1"), "{error}");
    assert_eq!(server.connections.load(Ordering::SeqCst), 0);
}
