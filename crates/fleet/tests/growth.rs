//! Measurement of a conductor's cost for 10, 100 and 1,000 generators. Another process replays
//! intervals of a real generator for each of them, and the conductor receives them as in a trial,
//! with its records on disk. Run by hand, in a release build, with some thousand open files
//! allowed:
//! `cargo test --profile quick -p plimsoll-fleet --test growth -- --ignored --nocapture
//! cost_of_a_generator`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, Write, pipe};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use experiment::plan::{Load, Rate, Step, Warmup};
use fixture::{KilledAtEnd, TestDir};
use fleet::generator::{monotonic_ns, serve};
use fleet::messages::{GeneratorMessage, GeneratorOrder, GeneratorSetup, VERSION};
use fleet::session::{FleetSession, GeneratorStream};
use load::recorder::Recorder;
use load::{IntervalText, LoadSlice, Summary};
use record::clock::Clock;
use record::folder::TrialFolder;
use rustix::time::{ClockId, clock_gettime};

/// Length of a load, seconds.
const SECONDS: u64 = 12;
/// Threads of each generator.
const THREADS: u32 = 2;
/// Operations/s of each thread. Operations are of two kinds.
const RATE: f64 = 1_000.0;
const SLOT_S: f64 = 0.001;
/// Variable with the path of the generators' socket, set for the process that plays them.
const SOCKET: &str = "PLIMSOLL_TEST_GENERATORS";

/// Starts a thread with a small stack, because there are thousands.
fn named<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().name(name.to_owned()).stack_size(256 << 10).spawn(body).unwrap()
}

fn setup(service: &str, threads: u32, time_s: f64) -> GeneratorSetup {
    let steps = ["save", "find"].map(|name| Step {
        call: "send".into(),
        name: name.into(),
        with: [("line".to_owned(), "x".into())].into(),
        ..Step::default()
    });
    GeneratorSetup {
        version: VERSION,
        purpose: load::LoadPurpose::Measure,
        slice: LoadSlice { threads, first: 0, count: THREADS },
        protocol: "lines".into(),
        services: vec![service.to_owned()],
        load: Load {
            agents: threads * 8,
            time_s,
            timeout_s: 60.0,
            drain_s: 60.0,
            warmup: Warmup::Seconds(0.0),
            rate: Some(Rate::Constant(RATE * f64::from(threads))),
            steps: steps.to_vec(),
            ..Load::default()
        },
        seed: 7,
        tls: Default::default(),
        files: std::env::temp_dir(),
        slot_s: SLOT_S,
    }
}

/// Starts a server that answers each line with a line, until the process ends.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    named("test-server", move || {
        for stream in listener.incoming() {
            named("test-answer", move || answer(stream.unwrap()));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|read| read > 0) && stream.write_all(b"ok\n").is_ok() {
        line.clear();
    }
}

fn tell(output: &mut impl Write, message: &impl serde::Serialize) {
    // The reader may be gone.
    let _ = writeln!(output, "{}", serde_json::to_string(message).unwrap());
}

/// Returns one second of each thread of a real generator.
fn recorded() -> Vec<IntervalText> {
    let ((input, mut orders), (messages, output)) = (pipe().unwrap(), pipe().unwrap());
    let generator = named("test-generator", move || serve(BufReader::new(input), output, None));
    tell(&mut orders, &GeneratorOrder::Setup(Box::new(setup(&server(), THREADS, 3.0))));
    tell(&mut orders, &GeneratorOrder::Begin { at_ns: monotonic_ns() + 500_000_000 });
    let mut seconds = Vec::new();
    for line in BufReader::new(messages).lines() {
        match serde_json::from_str(&line.unwrap()).unwrap() {
            GeneratorMessage::Interval { of, .. } if of.start_s == 1.0 => seconds.push(*of),
            GeneratorMessage::Summary { .. } => break,
            GeneratorMessage::Refused { reason } | GeneratorMessage::Failed { reason } => panic!("{reason}"),
            _ => {}
        }
    }
    drop(orders);
    generator.join().unwrap().unwrap();
    assert_eq!(seconds.len(), THREADS as usize);
    seconds
}

/// Plays a generator that sends the recorded second repeatedly.
fn replay(stream: UnixStream, seconds: &Arc<Vec<IntervalText>>) {
    let output = Arc::new(Mutex::new(stream.try_clone().unwrap()));
    let mut slice = LoadSlice { threads: 0, first: 0, count: 0 };
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let t1_ns = monotonic_ns();
        match serde_json::from_str(&line).unwrap() {
            GeneratorOrder::Setup(setup) => {
                slice = setup.slice;
                tell(&mut *output.lock().unwrap(), &GeneratorMessage::Ready { version: VERSION, cores: 1 });
            }
            GeneratorOrder::Ping { t0_ns } => {
                let mut output = output.lock().unwrap();
                tell(&mut *output, &GeneratorMessage::Pong { t0_ns, t1_ns, t2_ns: monotonic_ns() });
            }
            GeneratorOrder::Begin { at_ns } => {
                let (output, seconds) = (Arc::clone(&output), Arc::clone(seconds));
                named("test-load", move || replay_load(&output, &seconds, slice, at_ns));
            }
            GeneratorOrder::End => return,
            _ => {}
        }
    }
}

fn replay_load(output: &Mutex<UnixStream>, seconds: &[IntervalText], slice: LoadSlice, at_ns: u64) {
    let (mut crc, mut number) = (crc32fast::Hasher::new(), 0);
    for second in 0..SECONDS {
        let end_ns = at_ns + (second + 1) * 1_000_000_000;
        while let Some(left_ns @ 1..) = end_ns.checked_sub(monotonic_ns()) {
            std::thread::park_timeout(std::time::Duration::from_nanos(left_ns));
        }
        for (thread, recorded) in slice.mine().zip(seconds) {
            number += 1;
            let mut of = recorded.clone();
            (of.thread, of.threads, of.is_last) = (thread, slice.threads, second + 1 == SECONDS);
            (of.start_s, of.end_s) = (second as f64, (second + 1) as f64);
            of.first_slot = second * 1_000;
            (of.generator.at_s, of.generator.thread) = (of.end_s, thread);
            let mut line = serde_json::to_string(&GeneratorMessage::Interval { number, of: Box::new(of) }).unwrap();
            line.push('\n');
            crc.update(line.as_bytes());
            let _ = output.lock().unwrap().write_all(line.as_bytes());
        }
    }
    let last_word =
        GeneratorMessage::Summary { came: Summary::default(), intervals: number, crc: crc.clone().finalize() };
    tell(&mut *output.lock().unwrap(), &last_word);
}

/// Main function of the other process. Plays as many generators as connect.
#[test]
#[ignore = "what the measurement starts for its generators"]
fn the_generators() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let seconds = Arc::new(recorded());
    let listener = UnixListener::bind(socket).unwrap();
    for stream in listener.incoming() {
        let (stream, seconds) = (stream.unwrap(), Arc::clone(&seconds));
        named("test-generator", move || replay(stream, &seconds));
    }
}

/// Process that plays the generators. It ends with the test.
struct Generators {
    _process: KilledAtEnd,
    folder: TestDir,
}

impl Generators {
    fn start() -> Self {
        let folder = TestDir::new();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "the_generators"]).env(SOCKET, folder.join("socket"));
        Self { _process: KilledAtEnd(command.stdout(std::process::Stdio::null()).spawn().unwrap()), folder }
    }

    fn connect(&self) -> UnixStream {
        loop {
            match UnixStream::connect(self.folder.join("socket")) {
                Ok(stream) => return stream,
                Err(_) => std::thread::park_timeout(std::time::Duration::from_millis(20)),
            }
        }
    }
}

fn cpu_s() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1e3
}

/// Cost of a number of generators.
struct FleetCost {
    generators: usize,
    set_up_s: f64,
    cpu_pct: f64,
    resident_mb: f64,
    /// Longest time from the end of a second to its recording.
    lag_s: f64,
    error_us: f64,
    records_bytes: u64,
}

fn cost(generators: &Generators, count: usize, folder: &Path) -> FleetCost {
    std::fs::create_dir_all(folder).unwrap();
    let streams = (1..=count).map(|number| {
        let stream = generators.connect();
        GeneratorStream {
            name: format!("g{number}"),
            orders: Box::new(stream.try_clone().unwrap()),
            messages: Box::new(BufReader::new(stream)),
        }
    });
    let mut session = FleetSession::begin(streams.collect()).unwrap();
    let begun = Instant::now();
    let threads = u32::try_from(count).unwrap() * THREADS;
    session.set_up(&setup("127.0.0.1:1", threads, SECONDS as f64), THREADS, &|| false).unwrap();
    let set_up_s = begun.elapsed().as_secs_f64();
    let clock = Clock::starting_in(session.lead());
    let (sink, intervals) = sync_channel(64);
    let (clocks, compared) = sync_channel(64);
    let trial = TrialFolder::at(folder);
    let bounds = {
        let path = trial.fleet();
        named("test-clocks", move || {
            let mut worst_us = 0.0_f64;
            let seen =
                compared.into_iter().inspect(|row: &record::rows::FleetSecond| worst_us = worst_us.max(row.error_us));
            record::rows::write_all(&path, seen).unwrap();
            worst_us
        })
    };
    let mut recorder = Recorder::create(&trial, clock, SECONDS as f64).unwrap();
    let running = session.start(clock, THREADS, sink, clocks).unwrap();
    let (mut lag_s, mut from, mut until) = (0.0_f64, None, None);
    for interval in intervals {
        // Leave out the first and the last second, which differ from the others.
        if interval.start_s == 1.0 && from.is_none() {
            from = Some((clock.at_s(), cpu_s()));
        }
        if interval.is_last && until.is_none() {
            until = Some((clock.at_s(), cpu_s(), resident_mb()));
        }
        let end_s = interval.end_s;
        recorder.take(interval).unwrap();
        lag_s = lag_s.max(clock.at_s() - end_s);
    }
    recorder.finish().unwrap();
    let (_, session) = running.join().unwrap();
    session.dismiss();
    let ((from_s, cpu_from_s), (until_s, cpu_until_s, resident_mb)) = (from.unwrap(), until.unwrap());
    let sizes = folder.read_dir().unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    FleetCost {
        generators: count,
        set_up_s,
        cpu_pct: 100.0 * (cpu_until_s - cpu_from_s) / (until_s - from_s),
        resident_mb,
        lag_s,
        error_us: bounds.join().unwrap(),
        records_bytes: sizes.sum::<u64>() / SECONDS,
    }
}

/// Returns the slope and intercept of a line fitted by least squares.
fn fitted(points: &[(f64, f64)]) -> (f64, f64) {
    let x = points.iter().map(|point| point.0).sum::<f64>() / points.len() as f64;
    let y = points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64;
    let over: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let slope = over / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>();
    (slope, y - slope * x)
}

#[test]
#[ignore = "a minute, in a release build, with some thousand open files"]
fn cost_of_a_generator() {
    let generators = Generators::start();
    // The recording is complete when the process accepts connections.
    drop(generators.connect());
    let costs: Vec<FleetCost> = [10, 100, 300, 1_000]
        .into_iter()
        .map(|count| {
            let cost = cost(&generators, count, &generators.folder.join(format!("of-{count}")));
            let FleetCost { generators, set_up_s, cpu_pct, resident_mb, lag_s, error_us, records_bytes } = cost;
            eprintln!(
                "{generators} generators: set up in {set_up_s:.1} s, {cpu_pct:.1} % of a core, {resident_mb:.0} MB, at most {lag_s:.2} s \
                 behind, clocks true to {error_us:.0} µs, {records_bytes} B/s of records"
            );
            cost
        })
        .collect();
    // A conductor that lags by seconds uses the CPU time that it gets, not the time that it needs.
    let (mut cpu, mut memory) = (Vec::new(), Vec::new());
    for cost in costs.iter().filter(|cost| cost.lag_s < 1.0) {
        cpu.push((cost.generators as f64, cost.cpu_pct));
        memory.push((cost.generators as f64, cost.resident_mb));
    }
    let (cpu_pct, base_pct) = fitted(&cpu);
    let (mb, base_mb) = fitted(&memory);
    eprintln!(
        "CPU {base_pct:.1} % + {cpu_pct:.4} % of a core for each generator; memory {base_mb:.1} MB + {mb:.3} MB for each"
    );
    assert!(cpu_pct > 0.0 && costs.iter().all(|cost| cost.cpu_pct > 0.0));
}
