//! A protocol whose target answers in any order and speaks by itself: order, parts, pings, limits
//! of open requests, cancelled requests, refusals, draining and logins.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use experiment::plan::{Connections, Load, Step};
use load::LoadOrder;
use load::client;
use record::events::Outcome;
use record::hlog::Time;
use wire::testing::multiplexed::{Multiplexed, frame};
use wire::testing::{ReceivedRequest, TestedProtocol as _};

use crate::setting::{LoadRun, load, orders, pairs, play, step};

/// A target on its own port, with a function for each frame that it reads. A connection ends when
/// the function returns false.
struct Target {
    address: String,
    connections: Arc<AtomicUsize>,
}

impl Target {
    fn start<S: Default>(
        act: impl Fn(&mut S, &mut TcpStream, ReceivedRequest) -> bool + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (connections, act) = (Arc::new(AtomicUsize::new(0)), Arc::new(act));
        let count = Arc::clone(&connections);
        let serve = move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                let (mut stream, act) = (stream.unwrap(), Arc::clone(&act));
                stream.set_nodelay(true).unwrap();
                let answer_all = move || {
                    let mut state = S::default();
                    while let Some(request) = Multiplexed::read_request(&mut stream) {
                        if !act(&mut state, &mut stream, request) {
                            return;
                        }
                    }
                };
                std::thread::Builder::new().spawn(answer_all).unwrap();
            }
        };
        std::thread::Builder::new().spawn(serve).unwrap();
        Self { address, connections }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Returns a load whose agents share a connection and check that they get their own text back.
fn own_texts(agents: u32) -> Load {
    let echo = Step { expect: pairs(&["text={agent}-{seq}"]), ..step("echo", &["text={agent}-{seq}"]) };
    Load { connections: Connections { keep_alive: true, pipeline: agents }, ..load(agents, 0.3, vec![echo]) }
}

/// Returns a load of [`own_texts`] that ends after 1,200 operations, so that a target that waits
/// for a request of each agent gets one until the end.
fn counted_texts(agents: u32) -> Load {
    Load { count: Some(1_200), time_s: 60.0, ..own_texts(agents) }
}

fn run(service: &str, load: Load) -> LoadRun {
    let run = play(LoadOrder { protocol: "multiplexed".into(), ..orders(&format!("mux://{service}"), load) });
    assert!(run.books_error_pct() < 0.2, "{}", run.books_error_pct());
    assert_eq!(run.summary.unfinished, 0, "{:?}", run.summary);
    run
}

fn is_all_ok(run: &LoadRun) -> bool {
    run.summary.ok > 8 && run.results().into_iter().eq(["ok"])
}

#[test]
fn answers_out_of_order_reach_their_agents() {
    let target = Target::start(|waiting: &mut Vec<ReceivedRequest>, stream, request| {
        waiting.push(request);
        if waiting.len() < 4 {
            return true;
        }
        let answers: Vec<u8> =
            waiting.drain(..).rev().flat_map(|request| frame(b'a', request.id, &request.body)).collect();
        stream.write_all(&answers).is_ok()
    });
    let run = run(&target.address, counted_texts(4));
    assert!(is_all_ok(&run), "{:?} {:?}", run.summary, run.results());
    assert_eq!(target.connections(), 1);
}

#[test]
fn parts_of_several_answers_are_put_together() {
    let pongs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&pongs);
    let target = Target::start(move |waiting: &mut Vec<ReceivedRequest>, stream, request| {
        if request.opcode == b'o' {
            counted.fetch_add(1, Ordering::SeqCst);
            return true;
        }
        waiting.push(request);
        if waiting.len() < 3 {
            return true;
        }
        let mut bytes = frame(b'i', 0, b"ping");
        for request in waiting.iter() {
            bytes.extend(frame(b'p', request.id, &request.body[..1]));
        }
        for request in waiting.drain(..) {
            bytes.extend(frame(b'a', request.id, &request.body[1..]));
        }
        // Pieces end within frames.
        bytes.chunks(5).all(|piece| stream.write_all(piece).is_ok())
    });
    let run = run(&target.address, counted_texts(3));
    assert!(is_all_ok(&run), "{:?} {:?}", run.summary, run.results());
    let is_read = || pongs.load(Ordering::SeqCst) as u64 == run.summary.ok / 3;
    fixture::until("the target has read an answer to each of its pings", is_read);
    assert_eq!(target.connections(), 1, "{:?}", run.summary);
}

#[test]
fn requests_beyond_the_window_wait_for_an_answer() {
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let target = Target::start(move |waiting: &mut Vec<ReceivedRequest>, stream, request| match request.opcode {
        b'h' => stream.write_all(&frame(b'c', 0, b"abc")).is_ok(),
        b'l' => request.body == b"cba" && stream.write_all(&frame(b'w', 0, &[2])).is_ok(),
        _ => {
            waiting.push(request);
            seen.fetch_max(waiting.len(), Ordering::SeqCst);
            // The target answers as soon as its window is full.
            let answered = if waiting.len() == 2 { Some(waiting.remove(0)) } else { None };
            answered.is_none_or(|request| stream.write_all(&frame(b'a', request.id, &request.body)).is_ok())
        }
    });
    let mut load = own_texts(6);
    load.timeout_s = 0.5;
    let run = run(&format!("{}?login", target.address), load);
    assert!(run.summary.ok > 8 && run.summary.wrong + run.summary.failed == 0, "{:?}", run.summary);
    assert_eq!((most.load(Ordering::SeqCst), target.connections()), (2, 1));
}

#[test]
fn a_timeout_cancels_one_request_and_keeps_the_connection() {
    let cancelled = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = Arc::clone(&cancelled);
    let target = Target::start(move |(): &mut (), stream, request| match request.opcode {
        b'x' => {
            noted.lock().unwrap().insert(request.id);
            // The answer comes all the same, too late.
            stream.write_all(&frame(b'a', request.id, b"late")).is_ok()
        }
        _ if request.body.starts_with(b"1-") => true,
        _ => stream.write_all(&frame(b'a', request.id, &request.body)).is_ok(),
    });
    let mut load = own_texts(4);
    load.timeout_s = 0.05;
    load.think_s = 0.001;
    let run = run(&target.address, load);
    assert!(run.summary.ok > 8 && run.summary.timeout > 1, "{:?}", run.summary);
    assert_eq!((run.summary.failed, run.summary.wrong, target.connections()), (0, 0, 1), "{:?}", run.results());
    let is_read = || cancelled.lock().unwrap().len() as u64 == run.summary.timeout;
    fixture::until("the target has read that each request was cancelled", is_read);
}

#[test]
fn a_draining_connection_answers_what_it_has() {
    let target = Target::start(|count: &mut usize, stream, request| {
        *count += 1;
        let mut bytes = if *count == 6 { frame(b'g', 0, b"") } else { Vec::new() };
        // The target begins no request that arrives after its announcement.
        let kind = if *count > 6 { b'r' } else { b'a' };
        bytes.extend(frame(kind, request.id, if kind == b'a' { &request.body } else { b"" }));
        stream.write_all(&bytes).is_ok()
    });
    let run = run(&target.address, own_texts(4));
    assert!(is_all_ok(&run), "{:?} {:?}", run.summary, run.results());
    assert_eq!(run.summary.attempts, run.summary.ok, "a request that was not begun is no attempt");
    assert!(target.connections() as u64 >= run.summary.ok / 6);
}

#[test]
fn a_request_that_was_not_begun_is_sent_again() {
    let target = Target::start(|refuses: &mut bool, stream, request| {
        *refuses = !*refuses;
        let (kind, body) = if *refuses { (b'r', &b""[..]) } else { (b'a', &request.body[..]) };
        stream.write_all(&frame(kind, request.id, body)).is_ok()
    });
    let run = run(&target.address, own_texts(3));
    assert!(is_all_ok(&run) && target.connections() == 1, "{:?} {:?}", run.summary, run.results());
}

#[test]
fn a_refused_login_is_a_failed_connect() {
    let is_asked = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_asked);
    let target = Target::start(move |(): &mut (), stream, request| {
        asked.fetch_or(request.opcode == b'q', Ordering::SeqCst);
        let (kind, body) = if request.opcode == b'h' { (b'c', &b"abc"[..]) } else { (b'e', &b""[..]) };
        stream.write_all(&frame(kind, 0, body)).is_ok()
    });
    let run = run(&format!("{}?login", target.address), own_texts(2));
    assert_eq!((run.summary.ok, run.attempts("answer: no")), (0, run.summary.failed));
    assert!(run.summary.failed > 0 && !is_asked.load(Ordering::SeqCst));
}

#[test]
fn single_operations_are_answered_out_of_order_too() {
    let target = Target::start(|waiting: &mut Vec<ReceivedRequest>, stream, request| match request.opcode {
        b'h' => stream.write_all(&[frame(b'c', 0, b"abc"), frame(b'w', 0, &[2])].concat()).is_ok(),
        b'l' => true,
        _ => {
            waiting.push(request);
            let answers = waiting.len() == 2 || waiting.first().is_some_and(|first| first.body == b"last");
            let mut bytes = frame(b'i', 0, b"");
            for request in waiting.drain(..if answers { waiting.len() } else { 0 }).rev() {
                bytes.extend(frame(b'a', request.id, &request.body));
            }
            stream.write_all(&bytes).is_ok()
        }
    });
    let service = format!("mux://{}?login", target.address);
    let mut client = client::connect("multiplexed", &service, Duration::from_secs(20)).unwrap();
    let texts = ["text=a", "text=b", "text=last"].map(|text| pairs(&[text]));
    let answers = client.call_all("echo", &texts);
    let texts: Vec<_> = answers.iter().map(|answer| answer.as_ref().unwrap().field("text").unwrap()).collect();
    assert_eq!(texts, [b"a".as_slice(), b"b", b"last"]);
    assert!(client.call("echo", &pairs(&["text=last"])).unwrap().ok && target.connections() == 1);
}

/// Returns a load whose agents share a connection, and take turns between a stream and an echo.
fn streams(agents: u32, count: u64) -> Load {
    let steps = [step("listen", &["text=listen"]), step("echo", &["text=echo"])];
    Load { steps: steps.into(), count: Some(count), ..own_texts(agents) }
}

/// Sends messages of a stream.
fn send_messages(stream: &mut TcpStream, request: &ReceivedRequest, count: usize) -> bool {
    (0..count).all(|_| stream.write_all(&frame(b'm', request.id, b"x")).is_ok())
}

#[test]
fn messages_of_streams_are_counted_and_timed() {
    let target = Target::start(|(): &mut (), stream, request| {
        let is_echo = request.body.starts_with(b"echo");
        let sent = is_echo || send_messages(stream, &request, 3);
        // The last message arrives together with the end.
        let end = [frame(b'm', request.id, b"y"), frame(b'a', request.id, b"z")].concat();
        let end = if is_echo { frame(b'a', request.id, &request.body) } else { end };
        sent && stream.write_all(&end).is_ok()
    });
    let run = run(&target.address, streams(3, 60));
    assert!(is_all_ok(&run), "{:?} {:?}", run.summary, run.results());
    let streams = run.summary.ok / 2;
    assert_eq!(run.messages(), [("listen".to_owned(), 4 * streams)].into());
    for time in [Time::FirstByte, Time::FirstByteLatency, Time::FirstMessage, Time::FirstMessageLatency] {
        assert_eq!(run.times_ns(Outcome::Ok, time).len() as u64, streams, "{time:?}");
    }
    assert_eq!(run.times_ns(Outcome::Ok, Time::Gap).len() as u64, 3 * streams);
    let of_listen = |time| run.times_ns(Outcome::Ok, time).into_iter().sum::<u64>();
    assert!(of_listen(Time::FirstMessage) <= of_listen(Time::FirstMessageLatency));
}

#[test]
fn messages_of_a_stream_without_end_count_until_its_timeout() {
    let target = Target::start(|(): &mut (), stream, request| match request.opcode {
        b'x' => true,
        _ => send_messages(stream, &request, 2),
    });
    let mut load = streams(2, 4);
    load.steps.truncate(1);
    load.timeout_s = 0.1;
    let run = run(&target.address, load);
    assert_eq!((run.summary.timeout, run.summary.ok), (4, 0), "{:?}", run.results());
    assert_eq!(run.messages(), [("listen".to_owned(), 8)].into());
    assert_eq!(run.times_ns(Outcome::Timeout, Time::FirstMessage).len(), 4);
    assert_eq!(run.times_ns(Outcome::Ok, Time::Gap).len(), 4);
}
