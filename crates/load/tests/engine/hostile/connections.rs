//! Connections that are refused, never accepted, closed and reset in every state, by targets that
//! read, that do not read and that send first.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};

use rustix::net::{AddressFamily, SocketType, bind, listen, socket};

use super::server::PeerAction::{Again, Deaf, Fin, Hear, Reset, Say, Stay, Wait};
use super::{Case, IMPATIENCE_S, OK, balance, begun, each, http, in_time};
use crate::server::nobody;
use crate::setting::{load, orders, play, step};

/// Answer after which the connection is not used again.
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";

pub static CASES: &[Case] = &[
    http("ends when it is opened", &[], &[]).or(&["connection closed", "connection reset"]),
    http("ends its side when it is opened", &[Fin, Wait], &["connection closed"]),
    http("resets when it is opened", &[Reset], &[]).or(&["connection reset", "connect failed"]),
    http("hears and ends", &[Hear], &["connection closed"]),
    http("hears and ends its side", &[Hear, Fin, Wait], &["connection closed"]),
    http("hears and resets", &[Hear, Reset], &["connection reset"]),
    http("hears and is silent", &[Hear, Wait], &["timeout"]),
    http("does not listen", &[Deaf, Stay], &["timeout"]),
    http("does not hear a long request", &[Stay], &["timeout"]).asked("post", &["path=/x", "body={bytes:12000000}"]),
    http("speaks first", &[Say(LAST), Wait], &[]).or(&["ok", "bad answer"]),
    http("speaks first and ends", &[Say(LAST), Fin, Wait], &[]).or(&["ok", "bad answer"]),
    http("answers and ends its side", &[Hear, Say(LAST), Fin, Wait], &["ok"]),
    http("answers and ends its side unsaid", &[Hear, Say(OK), Fin, Wait], &["ok"]).or(&["connection closed"]),
    http("answers and resets", &[Hear, Say(OK), Reset], &["ok"]).or(&["connection reset", "connect failed"]),
    http("answers once, and then no more", &[Hear, Say(OK), Wait], &[]).or(&["ok", "timeout"]),
    http("answers", &[Hear, Say(OK), Again], &["ok"]),
];

#[test]
fn connections() {
    each(CASES, false, Case::check);
}

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
