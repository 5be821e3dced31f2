//! Counters that all agents share, against servers that collect their numbers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use experiment::plan::{Load, Retry, Step};
use load::{LoadOrder, LoadSlice};

use crate::server::{Reply, Server};
use crate::setting::{load, orders, pairs, play, step};

/// Numbers that a server has received, by the first word of the path.
type Numbers = BTreeMap<String, Vec<u64>>;

/// Returns the numbers of all requests of this load, sorted, by the first word of their path.
fn numbers(load: &Load, slices: &[Option<LoadSlice>]) -> Numbers {
    let numbers: Arc<Mutex<Numbers>> = Arc::default();
    let seen = Arc::clone(&numbers);
    let server = Server::http(move |request| {
        let text = String::from_utf8_lossy(&request.body).into_owned();
        let mut words = text.split(' ').nth(1).unwrap().trim_matches('/').split('/').map(str::to_owned);
        let (name, number) = (words.next().unwrap(), words.next().unwrap());
        assert_eq!(words.next(), Some(number.clone()), "an operation has one number");
        seen.lock().unwrap().entry(name).or_default().push(number.parse().unwrap());
        let status = if text.contains("/refused/") { 503 } else { 200 };
        Reply::Bytes(format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n").into_bytes())
    });
    for slice in slices {
        play(LoadOrder { protocol: "http".into(), slice: *slice, ..orders(&server.service(), load.clone()) });
    }
    drop(server);
    let mut numbers = std::mem::take(&mut *numbers.lock().unwrap());
    numbers.values_mut().for_each(|numbers| numbers.sort_unstable());
    numbers
}

/// Returns a step that sends a number of the counter `counter` twice in its path.
fn counted(name: &str, counter: &str) -> Step {
    let path = format!("path=/{name}/{{counter:{counter}}}/{{{counter}}}");
    Step { name: name.into(), set: pairs(&[&format!("{counter}={{counter:{counter}}}")]), ..step("get", &[&path]) }
}

#[test]
fn each_operation_takes_the_next_number() {
    let steps = vec![counted("a", "orders"), counted("b", "orders"), counted("c", "carts")];
    let numbers = numbers(&Load { count: Some(50), ..load(4, 10.0, steps) }, &[None]);
    let mut orders: Vec<u64> = numbers["a"].iter().chain(&numbers["b"]).copied().collect();
    orders.sort_unstable();
    assert_eq!(orders, (1..=100).collect::<Vec<_>>(), "two steps share the counter");
    assert_eq!(numbers["c"], (1..=50).collect::<Vec<_>>());
}

#[test]
fn a_retry_sends_the_same_number() {
    let retry = Retry::Tries { tries: 3, wait_s: 0.001 };
    let numbers = numbers(&Load { count: Some(4), retry, ..load(1, 10.0, vec![counted("refused", "n")]) }, &[None]);
    assert_eq!(numbers["refused"], [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]);
}

#[test]
fn threads_and_generators_share_a_counter() {
    let load = Load { iterations: Some(20), threads: Some(2), ..load(8, 10.0, vec![counted("a", "n")]) };
    let of_threads = numbers(&load, &[None])["a"].clone();
    assert_eq!(of_threads, (1..=160).collect::<Vec<_>>(), "each thread has half of the agents");
    let slices: Vec<_> = LoadSlice::deal(4, 1).map(Some).collect();
    assert_eq!(numbers(&load, &slices)["a"], of_threads);
}
