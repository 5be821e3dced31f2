//! Connections that are refused, or never accepted.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};

use rustix::net::{AddressFamily, SocketType, bind, listen, socket};

use super::{IMPATIENCE_S, balance, begun, in_time};
use crate::server::nobody;
use crate::setting::{load, orders, play, step};

#[test]
fn refused_connects_are_reported() {
    let service = nobody();
    let run = begun(|time_s| {
        let mut load = load(2, time_s, vec![step("ping", &[])]);
        load.drain_s = 30.0;
        let orders = orders(&service, load);
        in_time("nobody listens", move || play(orders))
    });
    assert_eq!(run.results().into_iter().collect::<Vec<_>>(), ["connect refused"]);
    balance("nobody listens", &run);
}

/// The kernel completes the first connects without the target, and then no more.
#[test]
fn connections_that_are_never_accepted_time_out() {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    listen(&socket, 1).unwrap();
    let listener = TcpListener::from(socket);
    let service = listener.local_addr().unwrap().to_string();
    let run = begun(|time_s| {
        let mut load = load(4, time_s, vec![step("ping", &[])]);
        (load.timeout_s, load.drain_s) = (IMPATIENCE_S, 30.0);
        let orders = orders(&service, load);
        in_time("nobody accepts", move || play(orders))
    });
    let words = run.results();
    assert!(words.iter().all(|word| ["timeout", "connect timeout"].contains(word)), "{words:?}");
    assert!(!words.is_empty());
}
