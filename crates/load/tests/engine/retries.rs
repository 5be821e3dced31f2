//! The three designs of the article: fail at once, try a few times, wait until it works.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use experiment::plan::{Rate, Retry, Step};

use crate::server::{Reply, Server, nobody};
use crate::setting::{load, orders, play, step};

fn save() -> Step {
    Step { audit: true, ..step("save", &["key={agent}-{seq}", "value={bytes:12}{uniform:1..1000000}"]) }
}

#[test]
fn a_retry_sends_the_same_request() {
    let bodies: Mutex<BTreeMap<Vec<u8>, usize>> = Mutex::default();
    let server = Server::frames(move |request| {
        let mut bodies = bodies.lock().unwrap();
        let times = bodies.entry(request.body.clone()).or_default();
        *times += 1;
        match *times {
            1 => Reply::Frame(3, Vec::new()),
            2 => Reply::Close,
            _ => Reply::Frame(0, Vec::new()),
        }
    });
    let mut load = load(3, 0.2, vec![save()]);
    load.retry = Retry::Tries { tries: 3, wait_s: 0.001 };
    let run = play(orders(&server.service(), load));
    assert!(run.summary.ok > 0 && run.summary.failed == 0);
    assert_eq!(run.summary.attempts, 3 * run.summary.ok);
    assert_eq!(run.attempts("answer: unavailable"), run.summary.ok);
    assert!(run.history().iter().all(|line| line.applied == Some(true)));
}

#[test]
fn an_operation_fails_after_its_last_try() {
    let server = Server::frames(|_| Reply::Frame(4, Vec::new()));
    let mut load = load(1, 0.1, vec![save()]);
    load.retry = Retry::Tries { tries: 4, wait_s: 0.001 };
    let run = play(orders(&server.service(), load));
    assert!(run.summary.failed > 0);
    assert_eq!(run.summary.attempts, 4 * run.summary.failed);
    // The operation was refused four times, so it certainly had no effect.
    assert!(run.history().iter().all(|line| line.applied == Some(false)));
}

#[test]
fn one_doubtful_attempt_makes_the_operation_doubtful() {
    let server =
        Server::frames(
            |request| if request.number == 1 { Reply::Frame(3, Vec::new()) } else { Reply::Frame(4, Vec::new()) },
        );
    let mut load = load(1, 0.05, vec![save()]);
    load.retry = Retry::Tries { tries: 2, wait_s: 0.001 };
    let run = play(orders(&server.service(), load));
    assert_eq!(run.history()[0].applied, None);
    assert!(run.history()[1..].iter().all(|line| line.applied == Some(false)));
}

#[test]
fn a_waiting_retry_repeats_each_operation_until_it_succeeds() {
    let seen = AtomicUsize::new(0);
    let server = Server::frames(move |_| match seen.fetch_add(1, Ordering::SeqCst) {
        10..50 => Reply::Close,
        _ => Reply::Frame(0, Vec::new()),
    });
    // Fifty operations, however long they take.
    let mut load = load(2, 0.5, vec![save()]);
    load.rate = Some(Rate::Constant(100.0));
    load.drain_s = 60.0;
    load.retry = Retry::Wait { wait_s: 0.001 };
    let run = play(orders(&server.service(), load));
    assert_eq!((run.summary.ok, run.summary.failed, run.summary.attempts), (50, 0, 90));
}

#[test]
fn an_operation_retried_until_the_end_is_unfinished() {
    let mut load = load(2, 0.1, vec![save()]);
    load.retry = Retry::Wait { wait_s: 0.001 };
    load.drain_s = 0.1;
    let run = play(orders(&nobody(), load));
    assert_eq!((run.summary.unfinished, run.summary.failed), (2, 0));
    assert!(run.attempts("connect refused") >= 2);
    assert!(run.history().iter().all(|line| line.applied == Some(false)), "nothing was ever sent");
}

#[test]
fn a_timed_out_attempt_is_retried_on_a_new_connection() {
    // The first attempt is never answered. The second attempt, on another connection, is answered.
    let server =
        Server::frames(|request| if request.connection == 1 { Reply::Silence } else { Reply::Frame(0, Vec::new()) });
    let mut load = load(1, 0.2, vec![save()]);
    // Longer than any answer takes on a busy machine.
    load.timeout_s = 3.0;
    load.drain_s = 60.0;
    load.retry = Retry::Tries { tries: 2, wait_s: 0.0 };
    let run = play(orders(&server.service(), load));
    assert_eq!(run.attempts("timeout"), 1);
    assert!(run.summary.ok > 0 && run.summary.timeout == 0);
}
