//! Agents that share a connection: several operations in flight on it, answered in order, each to
//! its agent.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use experiment::plan::{Connections, Load, Rate, Step};
use load::LoadOrder;
use record::events::Outcome;
use record::hlog::Time;

use crate::secret::{Authority, Secret};
use crate::server::{Reply, Server, frame};
use crate::setting::{LoadRun, load, orders, pairs, play, step};

/// Action of a server once a batch is complete.
type Batch = fn(&mut TcpStream, &[u32]) -> bool;

/// A name service that waits for `count` requests, or until no more arrive, and then performs its
/// action with their numbers. It notes how many requests arrived at once, by connection.
struct Batches {
    service: String,
    at_once: Arc<Mutex<Vec<Vec<usize>>>>,
}

impl Batches {
    fn of(count: usize, answer: Batch) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = listener.local_addr().unwrap().to_string();
        let at_once: Arc<Mutex<Vec<Vec<usize>>>> = Arc::default();
        let seen = Arc::clone(&at_once);
        // The thread ends with the process. A listener without clients does no harm.
        let accept = move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let seen = Arc::clone(&seen);
                seen.lock().unwrap().push(Vec::new());
                let note = move |count| seen.lock().unwrap()[number].push(count);
                std::thread::Builder::new().spawn(move || serve(stream, count, answer, &note)).unwrap();
            }
        };
        std::thread::Builder::new().spawn(accept).unwrap();
        Self { service, at_once }
    }
}

fn serve(mut stream: TcpStream, count: usize, answer: Batch, note: &dyn Fn(usize)) {
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let (mut bytes, mut buffer, mut ids) = (Vec::new(), [0; 4096], Vec::new());
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if !ids.is_empty() && !answer(&mut stream, &std::mem::take(&mut ids)) {
                    return;
                }
                continue;
            }
            // When a stopped process continues, a read with a timeout is interrupted.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        }
        let before = ids.len();
        while let Some(length) = bytes.first_chunk::<4>().map(|length| u32::from_be_bytes(*length) as usize)
            && bytes.len() >= 4 + length
        {
            ids.push(u32::from_be_bytes(*bytes[4..].first_chunk::<4>().unwrap()));
            bytes.drain(..4 + length);
        }
        note(ids.len() - before);
        if ids.len() >= count && !answer(&mut stream, &std::mem::take(&mut ids)) {
            return;
        }
    }
}

fn ok(ids: &[u32]) -> Vec<u8> {
    ids.iter().flat_map(|id| frame(*id, 0, b"")).collect()
}

fn sharing(pipeline: u32, load: Load) -> Load {
    Load { connections: Connections { keep_alive: true, pipeline }, ..load }
}

fn ping(agents: u32, pipeline: u32) -> Load {
    sharing(pipeline, load(agents, 0.15, vec![step("ping", &[])]))
}

fn connects(run: &LoadRun) -> u64 {
    run.intervals.iter().map(|interval| interval.generator.connects).sum()
}

fn assert_books_balance(run: &LoadRun) {
    assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
    let sum = &run.summary;
    assert_eq!(sum.unfinished, 0, "{sum:?}");
    assert_eq!(sum.attempts, sum.ok + sum.failed + sum.timeout + sum.wrong, "{sum:?}");
}

#[test]
fn requests_and_answers_travel_in_batches() {
    let server = Batches::of(4, |stream, ids| stream.write_all(&ok(ids)).is_ok());
    let run = play(orders(&server.service, ping(8, 4)));
    assert!(run.summary.ok > 16 && run.summary.failed == 0, "{:?} {:?}", run.summary, run.results());
    assert_eq!(connects(&run), 2);
    assert_books_balance(&run);
    let at_once = server.at_once.lock().unwrap();
    assert!(at_once.iter().all(|counts| counts[0] == 4), "all that waited for the connection: {at_once:?}");
}

#[test]
fn each_agent_gets_its_own_answers() {
    let server = Server::names();
    let mut save = step("save", &["key={agent}", "value={agent}-{seq}"]);
    save.keep = pairs(&["saved=request.value"]);
    let read = Step { expect: pairs(&["value={saved}"]), ..step("load", &["key={agent}"]) };
    let run = play(orders(&server.service(), sharing(5, load(13, 0.2, vec![save, read]))));
    assert!(run.summary.ok > 26 && run.summary.wrong + run.summary.failed == 0, "{:?}", run.summary);
    assert_eq!(server.connections.load(Ordering::SeqCst), 3, "of 4 or 5 agents each");
    assert_books_balance(&run);
    assert!(run.notices().is_empty(), "{:?}", run.notices());
}

/// Answers with the requested path, chunked if the length of the path is odd.
fn path(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request).into_owned();
    let path = text.split(' ').nth(1).unwrap();
    match path.len() % 2 {
        0 => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len()),
        _ => format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{path}\r\n0\r\n\r\n", path.len()),
    }
    .into_bytes()
}

fn get_own_path() -> Step {
    Step { expect: pairs(&["body=/{agent}/{seq}"]), ..step("get", &["path=/{agent}/{seq}"]) }
}

#[test]
fn http_pipelines_work_with_and_without_tls() {
    let clear = Server::http(|request| Reply::Bytes(path(&request.body)));
    let authority = Authority::new();
    let secret = Secret::serve(authority.vouch(&["127.0.0.1"], |_| {}), |stream, request| {
        stream.write_all(&path(request)).and_then(|()| stream.flush()).is_ok()
    });
    for service in [clear.service(), secret.service()] {
        let orders = orders(&service, sharing(8, load(20, 0.2, vec![get_own_path()])));
        let run = play(LoadOrder { protocol: "http".into(), tls: authority.trusted(), ..orders });
        assert!(run.summary.ok > 40 && run.summary.wrong + run.summary.failed == 0, "{:?}", run.summary);
        assert_eq!(connects(&run), 3);
        assert_books_balance(&run);
    }
}

#[test]
fn a_broken_connection_fails_its_open_operations() {
    // Two answers, and part of the third.
    let server = Batches::of(4, |stream, ids| {
        let _ = stream.write_all(&ok(ids)[..25.min(ids.len() * 9)]);
        false
    });
    let run = play(orders(&server.service, ping(4, 4)));
    assert!(run.summary.ok > 0 && run.summary.failed > 0, "{:?}", run.summary);
    let broken = run.attempts("connection closed") + run.attempts("connection reset");
    assert_eq!(broken, run.summary.failed);
    assert!(connects(&run) > 1);
    assert_books_balance(&run);
}

#[test]
fn answers_out_of_order_are_bad_answers() {
    let server = Batches::of(3, |stream, ids| {
        let reversed: Vec<u32> = ids.iter().rev().copied().collect();
        stream.write_all(&ok(&reversed)).is_ok()
    });
    let run = play(orders(&server.service, ping(3, 3)));
    assert!(run.summary.failed >= 3, "{:?}", run.summary);
    assert_eq!(run.attempts("bad answer"), run.summary.failed);
    assert_books_balance(&run);
}

#[test]
fn surplus_answers_close_the_connection() {
    let server = Batches::of(4, |stream, ids| {
        let mut answers = ok(ids);
        answers.extend_from_slice(&frame(1_000_000, 0, b""));
        stream.write_all(&answers).is_ok()
    });
    let run = play(orders(&server.service, ping(4, 4)));
    assert!(run.summary.ok > 4, "{:?}", run.summary);
    // If the last answer arrives by itself, it is taken for the answer to the next request.
    assert_eq!(run.attempts("bad answer"), run.summary.failed);
    assert!(connects(&run) > 1);
    assert_eq!(run.notices().len(), 1, "{:?}", run.notices());
    assert_books_balance(&run);
}

#[test]
fn a_timeout_closes_the_connection_for_all_agents() {
    // The first request on each connection is answered, and no other.
    let server = Batches::of(4, |stream, ids| ids.len() < 4 || stream.write_all(&ok(&ids[..1])).is_ok());
    let mut load = ping(4, 4);
    load.timeout_s = 0.05;
    let run = play(orders(&server.service, load));
    assert!(run.summary.ok > 0 && run.summary.timeout > 0 && run.summary.failed > 0, "{:?}", run.summary);
    assert_eq!(run.attempts("timeout"), run.summary.timeout);
    assert_eq!(run.attempts("connection closed"), run.summary.failed);
    assert_books_balance(&run);
}

#[test]
fn requests_unanswered_at_an_announced_close_are_resent() {
    // Three answers on each connection. The last one announces the end.
    let server = Server::http(|request| match request.number % 3 {
        0 => {
            let answer = String::from_utf8(path(&request.body)).unwrap();
            Reply::Last(answer.replacen("OK\r\n", "OK\r\nConnection: close\r\n", 1).into_bytes())
        }
        _ => Reply::Bytes(path(&request.body)),
    });
    let orders = orders(&server.service(), sharing(8, load(8, 0.2, vec![get_own_path()])));
    let run = play(LoadOrder { protocol: "http".into(), ..orders });
    assert!(run.summary.ok > 8 && run.results().into_iter().eq(["ok"]), "{:?}, {:?}", run.summary, run.results());
    assert_eq!(run.summary.attempts, run.summary.ok, "being asked again is no attempt");
    assert!(connects(&run) >= run.summary.ok / 3);
    assert_eq!(run.notices().len(), 1, "{:?}", run.notices());
    assert_books_balance(&run);
}

#[test]
fn shared_connections_keep_the_rate() {
    let server = Server::frames(|_| Reply::Frame(0, Vec::new()));
    let mut load = sharing(4, Load { rate: Some(Rate::Constant(1000.0)), ..load(10, 0.5, vec![step("ping", &[])]) });
    load.drain_s = 60.0;
    load.threads = Some(2);
    let run = play(orders(&server.service(), load));
    assert_eq!((run.summary.ok, connects(&run)), (500, 3));
    assert_eq!(run.times_ns(Outcome::Ok, Time::Latency).len(), 500);
    assert_books_balance(&run);
}

#[test]
fn services_have_equal_numbers_of_connections() {
    let servers = [(); 2].map(|()| Server::frames(|_| Reply::Frame(0, Vec::new())));
    let mut orders = orders("", ping(11, 3));
    orders.services = servers.iter().map(Server::service).collect();
    orders.load.threads = Some(3);
    let run = play(orders);
    assert!(run.summary.ok > 11 && run.summary.failed == 0, "{:?}", run.summary);
    assert_eq!(servers.each_ref().map(|server| server.connections.load(Ordering::SeqCst)), [2, 2]);
    assert_books_balance(&run);
}

#[test]
fn invalid_pipeline_settings_are_refused() {
    for connections in [
        Connections { keep_alive: true, pipeline: 0 },
        Connections { keep_alive: false, pipeline: 2 },
        Connections { keep_alive: false, pipeline: 0 },
    ] {
        let load = Load { connections, ..ping(4, 1) };
        let error = load::check(&orders("127.0.0.1:1", load)).unwrap_err();
        assert!(error.to_string().contains("`pipeline`"), "{error}");
    }
    // A pipeline needs fewer file descriptors and ports.
    assert!(load::check(&orders("127.0.0.1:1", ping(1_000_000, 1000))).is_ok());
}
