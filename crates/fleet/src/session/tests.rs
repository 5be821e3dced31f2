//! Tests of a fleet in this process: its total results, and the loss of a generator.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufReader, PipeReader, PipeWriter, pipe};
use std::sync::mpsc::sync_channel;

use load::TlsTrust;
use load::client::{CallError, ClientAnswer};

use super::*;
use crate::generator::tests::server;
use crate::generator::{self, serve};
use crate::messages::VERSION;

/// Time to wait for an answer. Long, because a busy machine is not a bug.
const PATIENCE: Duration = Duration::from_secs(60);

fn setup(service: &str, time_s: f64) -> GeneratorSetup {
    let mut setup = generator::tests::setup(service, LoadSlice { threads: 0, first: 0, count: 0 }, 90.0);
    setup.load.time_s = time_s;
    setup
}

/// Makes a generator stream whose other end runs `body`.
fn stream(name: &str, body: impl FnOnce(PipeReader, PipeWriter) + Send + 'static) -> GeneratorStream {
    let ((input, orders), (messages, output)) = (pipe().unwrap(), pipe().unwrap());
    named("test-generator", move || body(input, output)).unwrap();
    GeneratorStream { name: name.to_owned(), orders: Box::new(orders), messages: Box::new(BufReader::new(messages)) }
}

fn real(name: &str) -> GeneratorStream {
    stream(name, |input, output| serve(BufReader::new(input), output, None).unwrap())
}

/// Behaviour of a generator after the load has begun.
type Fate = fn(&mut PipeWriter, &mut dyn BufRead);

/// Makes a generator that behaves correctly until the load begins, and then runs `then`.
fn fake(name: &str, then: impl FnOnce(&mut PipeWriter, &mut dyn BufRead) + Send + 'static) -> GeneratorStream {
    stream(name, move |input, mut output| {
        let mut input = BufReader::new(input);
        loop {
            let mut line = String::new();
            input.read_line(&mut line).unwrap();
            let answer = match serde_json::from_str(&line).unwrap() {
                GeneratorOrder::Setup(_) => GeneratorMessage::Ready { version: VERSION, cores: 1 },
                GeneratorOrder::Ping { t0_ns } => {
                    GeneratorMessage::Pong { t0_ns, t1_ns: monotonic_ns(), t2_ns: monotonic_ns() }
                }
                _ => return then(&mut output, &mut input),
            };
            writeln!(output, "{}", serde_json::to_string(&answer).unwrap()).unwrap();
        }
    })
}

type Played = (Result<(Summary, FleetSession), SessionError>, Vec<ThreadInterval>);

fn play(session: FleetSession, each: u32) -> Played {
    let (sink, intervals) = sync_channel(10_000);
    let clock = Clock::starting_in(session.lead());
    let (clocks, compared) = sync_channel(10_000);
    let names = session.offsets().iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>();
    let running = session.start(clock, each, sink, clocks).unwrap();
    let ended = running.join();
    let compared: Vec<FleetSecond> = compared.iter().collect();
    // A load that is lost before its start may have none.
    assert!(ended.is_err() || compared.len() >= names.len(), "{compared:?}");
    assert!(compared.iter().zip(names.iter().cycle()).all(|(row, name)| row.generator == *name), "{compared:?}");
    for row in compared {
        // All generators use this same clock.
        assert!(row.offset_us.abs() <= row.bound_us && row.bound_us <= row.error_us, "{row:?}");
    }
    (ended, intervals.iter().collect())
}

fn ok(intervals: &[ThreadInterval]) -> u64 {
    intervals.iter().flat_map(|interval| &interval.slots).map(|slot| u64::from(slot.ok)).sum()
}

#[test]
fn three_generators_play_successive_loads() {
    let service = server();
    let mut session = FleetSession::begin(["g1", "g2", "g3"].map(real).into()).unwrap();
    for each in [1, 2] {
        session.set_up(&setup(&service, 2.0), each, &|| false).unwrap();
        for (name, offset) in session.offsets() {
            let offset = offset.unwrap();
            assert!(offset.offset_ns.unsigned_abs() <= u128::from(offset.bound_ns), "{name} has this very clock");
        }
        let (ended, intervals) = play(session, each);
        let (summary, back) = ended.unwrap();
        assert_eq!((summary.ok, summary.attempts, ok(&intervals)), (180, 180, 180));
        assert_eq!(intervals.iter().filter(|interval| interval.is_last).count(), 3 * each as usize);
        session = back;
    }
}

#[test]
fn a_refusal_names_the_generator_and_the_remedy() {
    let mut session = FleetSession::begin(["g1", "g2"].map(real).into()).unwrap();
    let refused = session.set_up(&setup("127.0.0.1:1", 2.0), 50, &|| false).unwrap_err().to_string();
    assert!(refused.starts_with("generator g") && refused.contains("use fewer generators"), "{refused}");
}

#[test]
fn a_lost_generator_ends_the_load() {
    let service = server();
    let fates: [(&str, Fate); 3] = [
        ("its stream ended", |_, _| {}),
        ("it sent nothing for 3 s", |_, input| drop(io::copy(input, &mut io::sink()))),
        ("its stream ended", |output, _| output.write_all(b"{\"says\":\"inter").unwrap()),
    ];
    for (reason, fate) in fates {
        let streams = vec![real("g1"), fake("g2", fate), real("g3")];
        let mut session = FleetSession::begin(streams).unwrap();
        // A day: the test ends only if the other generators are ended.
        session.set_up(&setup(&service, 86_400.0), 1, &|| false).unwrap();
        let (ended, _) = play(session, 1);
        match ended.err().unwrap() {
            SessionError::Lost { name, reason: told, .. } => assert_eq!((name.as_str(), told), ("g2", reason)),
            other => panic!("{other}"),
        }
    }
}

/// Regression test: a set-up longer than a pipe's buffer blocked the conductor until the generator
/// read it. This generator never reads.
#[test]
fn an_unread_setup_does_not_block() {
    let (end, ended) = channel::<()>();
    let deaf = stream("g1", move |input, output| {
        // Until the test ends.
        let _ = ended.recv();
        drop((input, output));
    });
    let mut session = FleetSession::begin(vec![deaf]).unwrap();
    let mut long = setup("127.0.0.1:1", 1.0);
    long.load.steps[0].with.insert("line".into(), "x".repeat(4 << 20));
    let asked = std::cell::Cell::new(0);
    let refused = session.set_up(&long, 1, &|| asked.replace(asked.get() + 1) > 2);
    assert!(matches!(refused, Err(SessionError::GivenUp)));
    drop(end);
}

#[test]
fn a_generator_that_does_not_read_orders_is_lost() {
    let streams = vec![fake("g1", |output, _| {
        let word = serde_json::to_string(&GeneratorMessage::Stored).unwrap();
        while writeln!(output, "{word}").is_ok() {
            std::thread::park_timeout(GLANCE);
        }
    })];
    let mut session = FleetSession::begin(streams).unwrap();
    let mut long = setup("127.0.0.1:1", 86_400.0);
    session.set_up(&long, 1, &|| false).unwrap();
    // The generator reads nothing after `begin`. Pings alone would take minutes to fill the pipe.
    session.members[0].orders.tell(&GeneratorOrder::Begin { at_ns: 0 });
    long.load.steps[0].with.insert("line".into(), "x".repeat(4 << 20));
    session.members[0].orders.tell(&GeneratorOrder::Setup(Box::new(long)));
    let (ended, _) = play(session, 1);
    let error = ended.err().unwrap().to_string();
    assert!(error.contains("g1 was lost") && error.contains("does not read its orders"), "{error}");
}

#[test]
fn an_answer_to_a_ping_that_was_not_sent_is_refused() {
    let streams = vec![fake("g1", |output, _| {
        let pong = GeneratorMessage::Pong { t0_ns: 12345, t1_ns: 1, t2_ns: 1 };
        let _ = writeln!(output, "{}", serde_json::to_string(&pong).unwrap());
    })];
    let mut session = FleetSession::begin(streams).unwrap();
    session.set_up(&setup("127.0.0.1:1", 60.0), 1, &|| false).unwrap();
    let error = play(session, 1).0.err().unwrap().to_string();
    assert!(error.contains("g1: it answered a ping that was not sent"), "{error}");
}

#[test]
fn a_start_too_far_ahead_is_refused() {
    let ((input, mut orders), (messages, output)) = (pipe().unwrap(), pipe().unwrap());
    named("test-generator", move || serve(BufReader::new(input), output, None).unwrap()).unwrap();
    let setup = GeneratorSetup { slice: LoadSlice { threads: 1, first: 0, count: 1 }, ..setup("127.0.0.1:1", 1.0) };
    let begin = GeneratorOrder::Begin { at_ns: 1 << 63 };
    for order in [GeneratorOrder::Setup(Box::new(setup)), begin, GeneratorOrder::End] {
        writeln!(orders, "{}", serde_json::to_string(&order).unwrap()).unwrap();
    }
    // The reading thread keeps the stream open.
    drop(orders);
    let received: Vec<String> = BufReader::new(messages).lines().map(Result::unwrap).collect();
    assert!(received.last().unwrap().contains("more than an hour away"), "{received:?}");
}

#[test]
fn long_reasons_are_shortened() {
    let shown = shortened(&"é".repeat(1_000_000));
    assert_eq!(shown.chars().count(), LONGEST_REASON + 1);
    assert_eq!(shortened("no room"), "no room");
}

#[test]
fn a_generator_that_loses_an_interval_is_detected() {
    let streams = vec![fake("g1", |output, input| {
        let last_word = GeneratorMessage::Summary { came: Summary::default(), intervals: 1, crc: 0 };
        writeln!(output, "{}", serde_json::to_string(&last_word).unwrap()).unwrap();
        drop(io::copy(input, &mut io::sink()));
    })];
    let mut session = FleetSession::begin(streams).unwrap();
    session.set_up(&setup("127.0.0.1:1", 1.0), 1, &|| false).unwrap();
    let (ended, _) = play(session, 1);
    let error = ended.err().unwrap().to_string();
    assert!(error.contains("g1 was lost") && error.contains("incomplete"), "{error}");
}

fn send(caller: &GeneratorCaller, service: &str, within: Duration) -> Result<ClientAnswer, CallError> {
    let with = [("line".to_owned(), "x".to_owned())].into();
    caller.call(("lines", service), &TlsTrust::default(), within, ("send", &with), &|| false)
}

#[test]
fn single_calls_work_before_during_and_after_a_load() {
    let service = server();
    let mut session = FleetSession::begin(vec![real("g1"), real("g2")]).unwrap();
    let caller = session.caller().unwrap();
    assert!(send(&caller, &service, PATIENCE).is_ok_and(|answer| answer.ok));
    session.set_up(&setup(&service, 1.0), 1, &|| false).unwrap();
    let (sink, intervals) = sync_channel(10_000);
    let (clocks, _compared) = sync_channel(10_000);
    let clock = Clock::starting_in(session.lead());
    let running = session.start(clock, 1, sink, clocks).unwrap();
    for _ in 0..3 {
        assert!(send(&caller, &service, PATIENCE).is_ok_and(|answer| answer.ok));
    }
    let (summary, session) = running.join().unwrap();
    // Single operations do not count for the load.
    assert_eq!((summary.ok, ok(&intervals.iter().collect::<Vec<_>>())), (90, 90));
    assert!(send(&caller, &service, PATIENCE).is_ok_and(|answer| answer.ok));
    let nobody = fixture::refusing_address().to_string();
    assert!(matches!(send(&caller, &nobody, PATIENCE), Err(CallError::Connect { .. })));
    session.dismiss();
    assert_eq!(send(&caller, &service, PATIENCE), Err(CallError::Lost("the generator g1 is gone".to_owned())));
}

#[test]
fn a_waiting_call_fails_when_the_generator_goes() {
    let goes = fake("g1", |_, _| ());
    let session = FleetSession::begin(vec![goes]).unwrap();
    let outcome = send(&session.caller().unwrap(), "127.0.0.1:1", Duration::from_secs(600));
    assert_eq!(outcome, Err(CallError::Lost("the generator g1 is gone".to_owned())));
}

/// Regression test: feeds had to exist on each generator's machine, which for a pod means in its
/// image.
#[test]
fn files_of_a_load_are_sent_to_generators() {
    let service = server();
    // Longer than one part.
    let rows: String = (0..400_000).map(|row| format!("{row}\n")).collect();
    let users = format!("name\n{rows}");
    let mut setup = setup(&service, 1.0);
    setup.files = "/nowhere".into();
    setup.load.feeds =
        vec![serde_json::from_str(r#"{"name": "users", "file": "users.csv", "random": false}"#).unwrap()];
    setup.load.steps[0].with = [("line".to_owned(), "{feed.users.name}".into())].into();
    let mut session = FleetSession::begin(vec![real("g1"), real("g2")]).unwrap();
    let refused = session.set_up(&setup, 1, &|| false).err().unwrap().to_string();
    assert!(refused.contains("/nowhere/users.csv"), "{refused}");
    let mut session = FleetSession::begin(vec![real("g1"), real("g2")]).unwrap();
    session.hand_over("users.csv", users.as_bytes(), &|| false).unwrap();
    session.set_up(&setup, 1, &|| false).unwrap();
    let (ended, intervals) = play(session, 1);
    assert_eq!((ended.unwrap().0.ok, ok(&intervals)), (90, 90));
}
