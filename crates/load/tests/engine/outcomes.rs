//! Outcomes of operations: each outcome, its result, and its history line.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::time::Duration;

use load::{LoadOrder, LoadPurpose};
use record::events::Outcome;

use crate::server::{Reply, Server, frame, nobody};
use crate::setting::{load, orders, pairs, play, step};

fn audited(call: &str, with: &[&str]) -> experiment::plan::Step {
    experiment::plan::Step { audit: true, ..step(call, with) }
}

#[test]
fn ok() {
    let server = Server::names();
    let run = play(orders(
        &server.service(),
        load(4, 0.2, vec![audited("save", &["key={agent}-{seq}", "value={bytes:9}", "space=s"])]),
    ));
    assert!(run.summary.ok > 0);
    assert_eq!(run.attempts("ok"), run.summary.ok);
    assert_eq!(server.connections.load(Ordering::SeqCst), 4, "connections are kept");
    let history = run.history();
    assert_eq!(history.len() as u64, run.summary.ok);
    let first = history.iter().find(|line| line.agent == Some(3)).unwrap();
    assert_eq!((first.effect.as_str(), first.space.as_str(), first.key.as_str()), ("write", "s", "3-1"));
    assert_eq!(first.value.as_ref().unwrap().len(), 9);
    assert!(history.iter().all(|line| line.outcome == Outcome::Ok && line.applied == Some(true)));
    let of_third: Vec<_> = history.iter().filter(|line| line.agent == Some(3)).collect();
    assert!(of_third.iter().all(|line| line.start_s.unwrap() <= line.at_s));
    assert!(of_third.windows(2).all(|pair| pair[0].at_s <= pair[1].start_s.unwrap()), "one after the other");
}

#[test]
fn a_place_in_a_request_is_audited_and_kept() {
    let server = Server::names();
    let value = "value={{\"party\": \"p-{seq}\", \"sizes\": [{agent}, 2]}}";
    let mut told = step("save", &["key=k-{seq}", value]);
    told.audit_as = Some(experiment::plan::AuditAs {
        effect: experiment::plan::AuditEffect::Write,
        key: "k-{seq}".to_owned(),
        value: Some("request.value/party".to_owned()),
        ..experiment::plan::AuditAs::default()
    });
    told.keep = pairs(&["size=request.value/sizes/0"]);
    let run =
        play(orders(&server.service(), load(1, 0.2, vec![told, audited("save", &["key=s-{seq}", "value={size}"])])));
    let history = run.history();
    assert!(!history.is_empty() && run.summary.failed == 0);
    for line in history {
        let (kind, seq) = line.key.split_once('-').unwrap();
        let expected = if kind == "k" { format!("p-{seq}") } else { "1".to_owned() };
        assert_eq!(line.value, Some(expected));
    }
}

/// The count holds for any number of threads and agents, however fast each is.
#[test]
fn exactly_the_given_number_of_cycles_runs() {
    let server = Server::names();
    for (agents, count) in [(16, 1_000), (7, 3), (1, 1)] {
        let mut load = load(agents, 60.0, vec![step("ping", &[]), step("ping", &[])]);
        (load.count, load.threads) = (Some(count), Some(2));
        let run = play(orders(&server.service(), load));
        assert_eq!((run.summary.cycles, run.summary.ok, run.summary.unfinished), (count, 2 * count, 0));
    }
}

#[test]
fn a_wrong_answer_does_not_end_the_cycle() {
    let server = Server::frames(|request| match request.opcode {
        2 => Reply::Frame(0, b"stale".to_vec()),
        3 => Reply::Frame(0, vec![1]),
        _ => Reply::Frame(0, Vec::new()),
    });
    let mut save = step("save", &["key=k", "value={seq}"]);
    save.keep = pairs(&["saved=request.value"]);
    let mut read = audited("load", &["key=k"]);
    read.expect = pairs(&["value={saved}"]);
    let run = play(orders(&server.service(), load(1, 0.2, vec![save, read, step("remove", &["key=k"])])));
    assert!(run.summary.wrong > 0 && run.summary.failed == 0);
    assert_eq!(run.attempts("wrong"), run.summary.wrong);
    assert!(run.summary.cycles > 0 && run.summary.cycles <= run.summary.wrong);
    let history = run.history();
    assert!(history.iter().all(|line| line.outcome == Outcome::Wrong && line.value.as_deref() == Some("stale")));
}

#[test]
fn not_found_is_an_answer_unless_a_value_is_expected() {
    let server = Server::names();
    let mut expecting = step("load", &["key=none"]);
    expecting.name = "expecting".into();
    expecting.expect = pairs(&["value=x"]);
    let mut accepting = audited("load", &["key=none"]);
    accepting.expect = pairs(&["status=not_found"]);
    let run = play(orders(&server.service(), load(1, 0.1, vec![expecting, accepting])));
    assert!(run.summary.ok > 0 && run.summary.wrong > 0);
    assert!(run.history().iter().all(|line| line.value.is_none() && line.applied == Some(true)));
}

#[test]
fn refused_answers_abandon_the_cycle() {
    let server = Server::frames(|request| match request.opcode {
        2 => Reply::Frame(3, b"down".to_vec()),
        3 => panic!("the step after a failure must not be done"),
        _ => Reply::Frame(0, Vec::new()),
    });
    let steps = vec![step("save", &["key=k", "value=v"]), audited("load", &["key=k"]), step("remove", &["key=k"])];
    let run = play(orders(&server.service(), load(2, 0.1, steps)));
    assert!(run.summary.failed > 0 && run.summary.cycles == 0);
    assert_eq!(run.attempts("answer: unavailable"), run.summary.failed);
    assert_eq!(server.connections.load(Ordering::SeqCst), 2, "such an answer does not cost the connection");
    assert!(run.history().iter().all(|line| line.outcome == Outcome::Failed && line.applied.is_none()));
}

#[test]
fn expected_failures_are_ok() {
    let server = Server::frames(|_| Reply::Frame(3, b"down".to_vec()));
    let mut read = step("load", &["key=k"]);
    read.expect = pairs(&["status=unavailable", "text=down"]);
    let run = play(orders(&server.service(), load(1, 0.1, vec![read])));
    assert!(run.summary.ok > 0 && run.summary.failed == 0);
}

#[test]
fn a_connection_closed_mid_operation_is_reopened_at_once() {
    let server = Server::frames(|request| if request.number == 2 { Reply::Close } else { Reply::Frame(0, Vec::new()) });
    let run = play(orders(&server.service(), load(1, 0.2, vec![audited("save", &["key=k", "value=v"])])));
    // Every second operation of a connection fails. No pause follows, so there are many
    // connections.
    assert!(run.summary.failed > 1 && run.summary.ok >= run.summary.failed);
    assert_eq!(run.attempts("connection closed") + run.attempts("connection reset"), run.summary.failed);
    let doubtful =
        run.history().iter().filter(|line| line.outcome == Outcome::Failed && line.applied.is_none()).count();
    assert_eq!(doubtful as u64, run.summary.failed);
}

#[test]
fn half_an_answer_is_a_closed_connection() {
    let server = Server::frames(|request| Reply::Last(frame(request.id, 0, b"")[..6].to_vec()));
    let run = play(orders(&server.service(), load(1, 0.1, vec![step("ping", &[])])));
    assert_eq!(run.attempts("connection closed"), run.summary.failed);
    assert!(run.summary.failed > 0 && run.summary.ok == 0);
}

#[test]
fn unanswered_operations_time_out() {
    let server = Server::frames(|_| Reply::Silence);
    let mut load = load(3, 0.35, vec![audited("save", &["key=k", "value=v"])]);
    load.timeout_s = 0.1;
    let run = play(orders(&server.service(), load));
    assert!(run.summary.timeout >= 3 && run.summary.failed == 0);
    assert_eq!(run.attempts("timeout"), run.summary.timeout);
    assert!(server.connections.load(Ordering::SeqCst) > 3, "a timeout closes the connection");
    assert!(run.history().iter().all(|line| line.outcome == Outcome::Timeout && line.applied.is_none()));
}

#[test]
fn operations_open_after_the_drain_are_unfinished() {
    let server = Server::frames(|_| Reply::Silence);
    let mut load = load(3, 0.1, vec![audited("save", &["key={agent}", "value=v"])]);
    load.drain_s = 0.1;
    let run = play(orders(&server.service(), load));
    assert_eq!((run.summary.unfinished, run.summary.attempts), (3, 0));
    let histograms: Vec<_> = run.intervals.iter().flat_map(|interval| interval.sheet.histograms()).collect();
    assert!(histograms.iter().all(|(_, outcome, ..)| *outcome == Outcome::Unfinished));
    // Each operation is as old as the load and its drain.
    assert!(histograms.iter().all(|(.., ages)| ages.len() == 3 && ages.min() > 100_000_000));
    assert!(run.history().iter().all(|line| line.outcome == Outcome::Unfinished && line.applied.is_none()));
}

#[test]
fn refused_connects_fail_without_effect() {
    let run = play(orders(&nobody(), load(2, 0.35, vec![audited("save", &["key=k", "value=v"])])));
    assert!(run.summary.failed >= 2);
    assert_eq!(run.attempts("connect refused"), run.summary.failed);
    // After each refused connect an agent pauses for 0.1 s.
    assert!(run.summary.failed <= 2 * 4, "{:?}", run.summary);
    let failures: u64 = run.intervals.iter().map(|interval| interval.generator.connect_failures).sum();
    assert_eq!(failures, run.summary.failed);
    assert!(run.history().iter().all(|line| line.applied == Some(false)));
    let services = run.intervals.iter().flat_map(|interval| interval.sheet.histograms());
    assert!(services.into_iter().all(|(.., time, _)| time == record::hlog::Time::Latency), "nothing was sent");
}

#[test]
fn busy() {
    let server = Server::frames(|_| Reply::Last(frame(0, 4, b"")));
    let run = play(orders(&server.service(), load(1, 0.1, vec![audited("save", &["key=k", "value=v"])])));
    assert_eq!(run.attempts("answer: busy"), run.summary.failed);
    assert!(run.history().iter().all(|line| line.applied == Some(false)));
}

#[test]
fn nonsense_closes_the_connection() {
    let server = Server::frames(|request| Reply::Bytes(frame(request.id + 1, 0, b"")));
    let run = play(orders(&server.service(), load(1, 0.1, vec![step("ping", &[])])));
    assert_eq!(run.attempts("bad answer"), run.summary.failed);
    assert!(run.summary.failed > 0 && server.connections.load(Ordering::SeqCst) as u64 >= run.summary.failed);
}

#[test]
fn surplus_answers_close_the_connection() {
    let server = Server::frames(|request| {
        let answer = frame(request.id, 0, b"");
        Reply::Bytes([answer.clone(), answer].concat())
    });
    let run = play(orders(&server.service(), load(1, 0.1, vec![step("ping", &[])])));
    assert!(run.summary.ok > 0);
    assert_eq!(run.notices().len(), 1, "{:?}", run.notices());
    assert!(server.connections.load(Ordering::SeqCst) > 1);
}

#[test]
fn large_requests_and_answers_in_pieces() {
    let server = Server::frames(|request| match request.opcode {
        1 => Reply::Frame(0, Vec::new()),
        _ => Reply::Frame(0, vec![b'x'; 1_000_000]),
    });
    let mut read = step("load", &["key=k"]);
    read.keep = pairs(&["got=answer.value"]);
    let mut again = step("load", &["key=k"]);
    again.expect = pairs(&["value={got}"]);
    // The request is larger than the socket takes at once.
    let steps = vec![step("save", &["key=k", "value={bytes:8000000}"]), read, again];
    let mut orders = orders(&server.service(), load(2, 0.0, steps));
    orders.purpose = LoadPurpose::Prepare { count: 4 };
    assert_eq!(play(orders).summary.ok, 12);
}

/// Regression: a connection on the ring was only shut down, so the kernel did not reset it for
/// unread bytes. With a closed window, the target's system kept probing for space and held
/// megabytes of each such answer for minutes.
#[test]
fn abandoned_answers_reset_the_connection_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = listener.local_addr().unwrap().to_string();
    let (told, was_told) = std::sync::mpsc::channel();
    let accept = move || {
        for stream in listener.incoming() {
            let (mut stream, told) = (stream.unwrap(), told.clone());
            let serve = move || {
                // At least as large as the window of the other side may become.
                let block = vec![b'x'; 1 << 20];
                let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n";
                let mut sent = stream.read(&mut [0; 4096]).and_then(|_| stream.write_all(head));
                while sent.is_ok() {
                    sent = stream.write_all(&block);
                }
                let _ = told.send(());
            };
            std::thread::Builder::new().spawn(serve).unwrap();
        }
    };
    std::thread::Builder::new().spawn(accept).unwrap();
    let mut load = load(16, 0.1, vec![step("get", &["path=/"])]);
    load.think_s = 60.0;
    let run = play(LoadOrder { protocol: "http".into(), ..orders(&service, load) });
    assert_eq!(run.attempts("answer too long"), 16, "{:?}", run.summary);
    // The system probes for space for minutes.
    for _ in 0..16 {
        was_told.recv_timeout(Duration::from_secs(20)).expect("a target that still sends");
    }
}
