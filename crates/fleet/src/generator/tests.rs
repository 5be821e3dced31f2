//! Tests of generators in this process, over pipes, against a minimal server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::io::{BufReader, PipeReader, PipeWriter, pipe};
use std::net::{TcpListener, TcpStream};

use experiment::plan::{Load, Rate, Step, Warmup};
use load::{IntervalTerms, LoadSlice, SlotCounts};

use super::*;

/// Starts a server that answers each line with a line, until the process ends.
pub(crate) fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    named("test-server", move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            named("test-answer", move || answer(stream)).unwrap();
        }
    })
    .unwrap();
    address
}

fn answer(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|read| read > 0) && stream.write_all(b"ok\n").is_ok() {
        line.clear();
    }
}

pub(crate) fn setup(service: &str, slice: LoadSlice, rate: f64) -> GeneratorSetup {
    let with = [("line".to_owned(), "x".into())].into();
    let step = Step { call: "send".into(), name: "send".into(), with, ..Step::default() };
    GeneratorSetup {
        version: VERSION,
        purpose: LoadPurpose::Measure,
        slice,
        protocol: "lines".into(),
        services: vec![service.to_owned()],
        load: Load {
            agents: 12,
            time_s: 2.0,
            timeout_s: 60.0,
            drain_s: 60.0,
            warmup: Warmup::Seconds(0.0),
            rate: Some(Rate::Constant(rate)),
            steps: vec![step],
            ..Load::default()
        },
        seed: 7,
        tls: Default::default(),
        files: std::env::temp_dir(),
        slot_s: 0.01,
    }
}

/// Conductor's end of a generator.
struct Conductor {
    orders: Option<PipeWriter>,
    messages: BufReader<PipeReader>,
    generator: Option<JoinHandle<Result<(), GeneratorError>>>,
}

impl Conductor {
    fn raise() -> Self {
        let ((input, orders), (messages, output)) = (pipe().unwrap(), pipe().unwrap());
        let generator = named("test-generator", move || serve(BufReader::new(input), output, None)).unwrap();
        Self { orders: Some(orders), messages: BufReader::new(messages), generator: Some(generator) }
    }

    fn tell(&mut self, order: &GeneratorOrder) {
        let line = format!("{}\n", serde_json::to_string(order).unwrap());
        self.orders.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.messages.read_line(&mut line).unwrap();
        line
    }

    fn hear(&mut self) -> GeneratorMessage {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Returns the totals and all intervals. Checks that the final message agrees with them.
    fn hear_all(&mut self) -> (Summary, Vec<IntervalText>) {
        let (mut intervals, mut crc) = (Vec::new(), crc32fast::Hasher::new());
        loop {
            let line = self.line();
            match serde_json::from_str(&line).unwrap() {
                GeneratorMessage::Interval { number, of } => {
                    crc.update(line.as_bytes());
                    intervals.push(*of);
                    assert_eq!(number, intervals.len() as u64);
                    self.tell(&GeneratorOrder::Ack { through: number });
                }
                GeneratorMessage::Summary { came, intervals: count, crc: told } => {
                    assert_eq!((count, told), (intervals.len() as u64, crc.finalize()));
                    return (came, intervals);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Ends the stream.
    fn hang_up(&mut self) -> Result<(), GeneratorError> {
        self.orders = None;
        self.generator.take().unwrap().join().unwrap()
    }
}

fn soon_ns() -> u64 {
    monotonic_ns() + 300_000_000
}

/// Runs 100 operations/s for two seconds on this many generators with this many threads each.
fn play(service: &str, generators: u32, each: u32) -> (Summary, Vec<IntervalText>) {
    let mut fleet: Vec<Conductor> = Vec::new();
    for slice in LoadSlice::deal(generators, each) {
        let mut conductor = Conductor::raise();
        conductor.tell(&GeneratorOrder::Setup(Box::new(setup(service, slice, 100.0))));
        assert!(matches!(conductor.hear(), GeneratorMessage::Ready { version: VERSION, cores: 1.. }));
        fleet.push(conductor);
    }
    let at_ns = soon_ns();
    fleet.iter_mut().for_each(|conductor| conductor.tell(&GeneratorOrder::Begin { at_ns }));
    let (mut sum, mut all) = (Summary::default(), Vec::new());
    for mut conductor in fleet {
        let (outcome, mut intervals) = conductor.hear_all();
        (sum.ok, sum.failed, sum.attempts) =
            (sum.ok + outcome.ok, sum.failed + outcome.failed, sum.attempts + outcome.attempts);
        all.append(&mut intervals);
        conductor.tell(&GeneratorOrder::End);
        conductor.generator.take().unwrap().join().unwrap().unwrap();
    }
    (sum, all)
}

#[test]
fn three_generators_equal_a_single_generator() {
    let service = server();
    for (generators, each) in [(1, 1), (3, 1), (3, 2)] {
        let (outcome, intervals) = play(&service, generators, each);
        let due: u64 = intervals.iter().filter_map(|interval| interval.generator.due).sum();
        assert_eq!((outcome.ok, outcome.failed, outcome.attempts, due), (200, 0, 200, 200), "{generators} × {each}");
        let threads: BTreeSet<u32> = intervals.iter().map(|interval| interval.thread).collect();
        assert_eq!(threads, (0..generators * each).collect(), "each thread plays in one of them");
        for thread in threads {
            let own = intervals.iter().filter(|interval| interval.thread == thread);
            let seconds: Vec<f64> = own.clone().map(|interval| interval.start_s).collect();
            assert_eq!(seconds[..2], [0.0, 1.0], "a second each, in order");
            assert!(own.clone().next_back().unwrap().is_last);
        }
        let clock = Clock::starting_in(Duration::ZERO);
        let operations = vec!["send".to_owned()].into();
        let terms = IntervalTerms { operations, threads: generators * each, services: 1, slot_s: 0.01 };
        let slots = intervals.into_iter().flat_map(|interval| interval.into_interval(clock, &terms).unwrap().slots);
        assert_eq!(slots.map(|SlotCounts { ok, .. }| u64::from(ok)).sum::<u64>(), 200);
    }
}

#[test]
fn a_ping_is_answered_with_times() {
    let mut conductor = Conductor::raise();
    for _ in 0..20 {
        let t0 = monotonic_ns();
        conductor.tell(&GeneratorOrder::Ping { t0_ns: t0 });
        let GeneratorMessage::Pong { t0_ns, t1_ns, t2_ns } = conductor.hear() else { panic!("no pong") };
        assert!(t0_ns == t0 && t0 <= t1_ns && t1_ns <= t2_ns && t2_ns <= monotonic_ns());
    }
    conductor.hang_up().unwrap();
}

#[test]
fn impossible_orders_are_refused_with_a_reason() {
    let mut conductor = Conductor::raise();
    let slice = LoadSlice { threads: 2, first: 0, count: 1 };
    let good = setup("127.0.0.1:1", slice, 10.0);
    let newer = GeneratorSetup { version: VERSION + 1, ..good.clone() };
    let many = GeneratorSetup { slice: LoadSlice { threads: 13, ..slice }, ..good.clone() };
    let unknown = GeneratorSetup { protocol: "gopher".into(), ..good.clone() };
    for (order, expected) in [
        (GeneratorOrder::Begin { at_ns: 0 }, "expected `setup`"),
        (GeneratorOrder::Setup(Box::new(newer)), "use the same Plimsoll on both"),
        (GeneratorOrder::Setup(Box::new(many)), "use fewer generators"),
        (GeneratorOrder::Setup(Box::new(unknown)), "gopher"),
    ] {
        conductor.tell(&order);
        let (GeneratorMessage::Refused { reason } | GeneratorMessage::Failed { reason }) = conductor.hear() else {
            panic!("{order:?}")
        };
        assert!(reason.contains(expected), "{reason}");
    }
    // After a refusal, the generator accepts a new set-up. This one begins too late.
    conductor.tell(&GeneratorOrder::Setup(Box::new(good)));
    assert!(matches!(conductor.hear(), GeneratorMessage::Ready { .. }));
    conductor.tell(&GeneratorOrder::Begin { at_ns: 1 });
    assert!(matches!(conductor.hear(), GeneratorMessage::Failed { reason } if reason.contains("already passed")));
    conductor.hang_up().unwrap();
}

#[test]
fn a_generator_ends_with_its_input() {
    let service = server();
    let mut conductor = Conductor::raise();
    let long = setup(&service, LoadSlice { threads: 1, first: 0, count: 1 }, 50.0);
    let long = GeneratorSetup { load: Load { time_s: 86_400.0, ..long.load.clone() }, ..long };
    conductor.tell(&GeneratorOrder::Setup(Box::new(long)));
    assert!(matches!(conductor.hear(), GeneratorMessage::Ready { .. }));
    conductor.tell(&GeneratorOrder::Begin { at_ns: soon_ns() });
    assert!(matches!(conductor.hear(), GeneratorMessage::Interval { number: 1, .. }));
    // Joined: a load that continued would take a day.
    conductor.hang_up().unwrap();
}

#[test]
fn a_generator_ends_when_its_output_closes() {
    let service = server();
    let mut conductor = Conductor::raise();
    let long = setup(&service, LoadSlice { threads: 1, first: 0, count: 1 }, 50.0);
    let long = GeneratorSetup { load: Load { time_s: 86_400.0, ..long.load.clone() }, ..long };
    conductor.tell(&GeneratorOrder::Setup(Box::new(long)));
    assert!(matches!(conductor.hear(), GeneratorMessage::Ready { .. }));
    conductor.tell(&GeneratorOrder::Begin { at_ns: soon_ns() });
    let Conductor { orders, messages, generator } = conductor;
    drop(messages);
    // The input stays open, and a load that continued would take a day.
    let ended = generator.unwrap().join().unwrap();
    assert!(matches!(ended, Err(GeneratorError::Stream(_))), "{ended:?}");
    drop(orders);
}

#[test]
fn a_load_that_is_stopped_ends_with_a_summary() {
    let service = server();
    let mut conductor = Conductor::raise();
    let long = setup(&service, LoadSlice { threads: 1, first: 0, count: 1 }, 50.0);
    let long = GeneratorSetup { load: Load { time_s: 86_400.0, ..long.load.clone() }, ..long };
    for order in [GeneratorOrder::Stop, GeneratorOrder::Abort] {
        // The same generator plays one load after the other.
        conductor.tell(&GeneratorOrder::Setup(Box::new(long.clone())));
        assert!(matches!(conductor.hear(), GeneratorMessage::Ready { .. }));
        conductor.tell(&GeneratorOrder::Begin { at_ns: soon_ns() });
        conductor.tell(&order);
        let (outcome, intervals) = conductor.hear_all();
        assert_eq!((outcome.failed, outcome.timeout), (0, 0));
        assert!(intervals.last().unwrap().is_last);
    }
    conductor.hang_up().unwrap();
}

#[test]
fn an_invalid_order_ends_a_generator() {
    for (text, line) in [("hello\n", 1), ("{\"tells\":\"stop\"}\n{\"tells\":\"dance\"}\n", 2)] {
        let mut conductor = Conductor::raise();
        conductor.orders.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
        let ended = conductor.generator.take().unwrap().join().unwrap();
        assert!(matches!(ended, Err(GeneratorError::Order { line: at, .. }) if at == line), "{ended:?}");
    }
    // A line that is cut off with the stream is neither an order nor an error.
    let mut conductor = Conductor::raise();
    conductor.orders.as_mut().unwrap().write_all(b"{\"tells\":\"sto").unwrap();
    conductor.hang_up().unwrap();
}
