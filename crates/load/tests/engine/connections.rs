//! Connections that are not kept: one for each operation, counted, and in the latency.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use experiment::plan::{Connections, Load, Rate};
use load::LoadOrder;
use record::events::Outcome;
use record::hlog::Time;

use crate::server::{Reply, Server, nobody};
use crate::setting::{LoadRun, load, orders, play, step};

fn anew(load: Load) -> Load {
    Load { connections: Connections { keep_alive: false, pipeline: 1 }, ..load }
}

/// Returns the opened connections and the failed connects, as counted by the generator.
fn connects(run: &LoadRun) -> (u64, u64) {
    let rows = || run.intervals.iter().map(|interval| &interval.generator);
    (rows().map(|row| row.connects).sum(), rows().map(|row| row.connect_failures).sum())
}

#[test]
fn http_without_keep_alive_uses_a_connection_per_operation() {
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&heads);
    // The server keeps connections nevertheless, so the client has to close them.
    let server = Server::http(move |request| {
        assert_eq!(request.number, 1, "a second request on connection {}", request.connection);
        seen.lock().unwrap().push(String::from_utf8_lossy(&request.body).into_owned());
        Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec())
    });
    let load = anew(load(3, 0.1, vec![step("get", &["path=/x"])]));
    let run = play(LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) });
    assert!(run.summary.ok > 3 && run.summary.failed == 0, "{:?}", run.summary);
    assert_eq!(connects(&run), (run.summary.ok, 0));
    assert_eq!(server.connections.load(Ordering::SeqCst) as u64, run.summary.ok);
    assert!(heads.lock().unwrap().iter().all(|head| head.contains("\r\nConnection: close\r\n")));
    // Connecting counts towards the latency, and not towards the service time.
    let sum = |time| run.times_ns(Outcome::Ok, time).iter().sum::<u64>();
    assert!(sum(Time::Latency) > sum(Time::Service));
    assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
}

#[test]
fn vsns_without_keep_alive_uses_a_connection_per_operation() {
    let server = Server::names();
    let steps = vec![step("save", &["key={agent}", "value={seq}"]), step("load", &["key={agent}"])];
    let run = play(orders(&server.service(), anew(load(2, 0.1, steps))));
    assert!(run.summary.ok > 4 && run.summary.failed + run.summary.wrong == 0, "{:?}", run.summary);
    assert_eq!(connects(&run), (run.summary.ok, 0));
    assert!(run.notices().is_empty(), "{:?}", run.notices());
}

#[test]
fn refused_connects_pause_without_keep_alive_too() {
    let run = play(orders(&nobody(), anew(load(2, 0.35, vec![step("ping", &[])]))));
    assert!(run.summary.failed >= 2 && run.summary.failed <= 2 * 4, "{:?}", run.summary);
    assert_eq!(connects(&run), (0, run.summary.failed));
}

#[test]
fn operations_fail_while_a_reconnect_is_delayed() {
    for pipeline in [1, 2] {
        for (reconnect_s, fails) in [(0.02, true), (0.2, false)] {
            let server = Server::frames(|request| match (request.connection, request.number) {
                (1 | 2, 5..) => Reply::Close,
                _ => Reply::Frame(0, Vec::new()),
            });
            let mut load = load(2 * pipeline, 1.0, vec![step("ping", &[])]);
            (load.think_s, load.reconnect_s, load.reconnects.delay_s) = (0.001, reconnect_s, 0.2);
            load.connections.pipeline = pipeline;
            let run = play(orders(&server.service(), load));
            assert_eq!(connects(&run), (4, 0), "each is made again once, and none is tried in vain");
            // If requests were left unread, the connection ends with a reset.
            let cut = run.attempts("connection closed") + run.attempts("connection reset");
            let (late, agents) = (run.attempts("not connected"), u64::from(2 * pipeline));
            assert_eq!(cut + late, run.summary.failed, "{:?}", run.results());
            assert!((2..=agents).contains(&cut), "{cut}");
            assert!(if fails { (1..=10 * agents).contains(&late) } else { late == 0 }, "{late}");
            assert!(run.summary.ok > 8, "{:?}", run.summary);
            assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
        }
    }
}

#[test]
fn new_connections_work_off_a_backlog_in_the_drain() {
    let asked = AtomicU32::new(0);
    let server = Server::http(move |_| {
        if asked.fetch_add(1, Ordering::SeqCst) == 0 {
            let (_sender, nothing) = std::sync::mpsc::channel::<()>();
            assert!(nothing.recv_timeout(Duration::from_millis(700)).is_err());
        }
        Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi".to_vec())
    });
    let mut load = anew(load(1, 0.5, vec![step("get", &["path=/"])]));
    load.rate = Some(Rate::Constant(200.0));
    load.drain_s = 60.0;
    let orders = LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) };
    let run = play(orders);
    assert_eq!((run.summary.ok, run.summary.unfinished), (100, 0));
    assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
}
