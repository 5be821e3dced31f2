//! Speed and memory of the check: makes a correct history of many keys and checks it, whole or
//! beside its making; or a history of one queue or one set. Prints the time of the check alone, by
//! the clock and on a CPU, and the peak memory of the process.
//!
//! ```text
//! cargo run --release -p plimsoll-linearizability --example speed -- whole 1000000 10000
//! cargo run --release -p plimsoll-linearizability --example speed -- streamed 10000000 10000
//! cargo run --release -p plimsoll-linearizability --example speed -- queue 1000000
//! cargo run --release -p plimsoll-linearizability --example speed -- set 1000000
//! ```
#![allow(clippy::print_stdout, reason = "an example is a program")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::error::Error;
use std::time::{Duration, Instant};

use fastrand::Rng;
use linearizability::{
    Access, Checker, Linearizability, Operation, QueueAccess, QueueOperation, QueueSettings, SetAccess, SetOperation,
    Settings, Status, check, check_queue, check_set,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [kind, operations] = arguments.as_slice() {
        return check_collection(kind, operations.parse()?);
    }
    let [mode, operations, keys, rest @ ..] = arguments.as_slice() else {
        return Err("usage: speed whole|streamed OPERATIONS KEYS [PROCESSES] [PER MILLION WITH UNKNOWN OUTCOME], or \
                    speed queue|set OPERATIONS"
            .into());
    };
    let number = |place: usize, default: u64| rest.get(place).map_or(Ok(default), |text: &String| text.parse());
    let (operations, keys) = (operations.parse()?, keys.parse()?);
    let (processes, unknown) = (number(0, 64)?, number(1, 100)?);
    let mut load = Load::new(keys, processes as u32, unknown as f64 / 1e6);
    let begin = Instant::now();
    let (verdicts, checked) = if mode == "whole" {
        let mut history = Vec::with_capacity(operations);
        load.run(operations, |operation, _| history.push(operation));
        let start = Watch::start()?;
        let verdicts = check(&history, Settings::default());
        (verdicts, start.elapsed()?)
    } else {
        let mut checker = Checker::new(Settings::default());
        let mut checked = Elapsed::default();
        // The clock is read once for many operations.
        let mut batch = Vec::with_capacity(BATCH);
        load.run(operations, |operation, open_since| {
            batch.push(operation);
            if batch.len() == BATCH {
                let start = Watch::start();
                for operation in batch.drain(..) {
                    checker.push(&operation);
                }
                checker.advance(open_since);
                if let Ok(elapsed) = start.and_then(|start| start.elapsed()) {
                    checked.add(elapsed);
                }
            }
        });
        let start = Watch::start()?;
        batch.iter().for_each(|operation| {
            checker.push(operation);
        });
        let verdicts = checker.finish();
        checked.add(start.elapsed()?);
        (verdicts, checked)
    };
    let bad = verdicts.iter().filter(|key| key.verdict != Linearizability::Linearizable).count();
    for key in verdicts.iter().filter(|key| key.verdict != Linearizability::Linearizable).take(3) {
        println!("key {}: {:?}", key.key, key.verdict);
    }
    println!(
        "{operations} operations, {} keys, {bad} not linearizable: {:.3} s for the check, \
         {:.3} s of them on a CPU, {:.3} s in all, peak {} kB",
        verdicts.len(),
        checked.clock.as_secs_f64(),
        checked.cpu.as_secs_f64(),
        begin.elapsed().as_secs_f64(),
        peak_kb()?
    );
    Ok(())
}

/// Checks a queue or a set.
fn check_collection(kind: &str, operations: usize) -> Result<(), Box<dyn Error>> {
    let mut rng = Rng::with_seed(1);
    let (verdict, checked) = if kind == "queue" {
        let history = queue(operations, &mut rng);
        let start = Watch::start()?;
        (check_queue(&history, QueueSettings::default()), start.elapsed()?)
    } else {
        let history = set(operations, &mut rng);
        let start = Watch::start()?;
        (check_set(&history, Settings::default()), start.elapsed()?)
    };
    println!(
        "{operations} operations, {verdict:?}: {:.3} s for the check, {:.3} s of them on a CPU, peak {} kB",
        checked.clock.as_secs_f64(),
        checked.cpu.as_secs_f64(),
        peak_kb()?
    );
    Ok(())
}

/// Returns the start, the end and the outcome of an operation that takes effect at a moment. About
/// a hundred operations are open at a time, and one in 10,000 gets no answer.
fn times(place: usize, rng: &mut Rng) -> (i64, Option<i64>, Status) {
    let effect = place as i64 * 1_000;
    let (start, end) = (effect - rng.i64(0..100_000), effect + rng.i64(0..100_000));
    if rng.u32(0..10_000) == 0 { (start, None, Status::Unknown) } else { (start, Some(end), Status::Applied) }
}

fn queue(operations: usize, rng: &mut Rng) -> Vec<QueueOperation> {
    let mut queue = VecDeque::new();
    let operation = |place: usize| {
        let (start_ns, end_ns, status) = times(place, rng);
        let access = if rng.bool() {
            queue.push_back(place as u64);
            QueueAccess::Enqueue { value: place as u64 }
        } else {
            QueueAccess::Dequeue { value: queue.pop_front() }
        };
        QueueOperation { start_ns, end_ns, access, status }
    };
    (0..operations).map(operation).collect()
}

/// Makes a history of adds, of as many looks at an element, and of ten reads of the whole set.
fn set(operations: usize, rng: &mut Rng) -> Vec<SetOperation> {
    let mut elements = Vec::new();
    let operation = |place: usize| {
        let (start_ns, end_ns, status) = times(place, rng);
        let access = if (place + 1).is_multiple_of(operations.div_ceil(10)) {
            SetAccess::Read { elements: elements.clone() }
        } else if rng.bool() || elements.is_empty() {
            elements.push(place as u64);
            SetAccess::Add { element: place as u64 }
        } else {
            SetAccess::Find { element: elements[rng.usize(0..elements.len())], is_present: true }
        };
        SetOperation { start_ns, end_ns, access, status }
    };
    (0..operations).map(operation).collect()
}

#[derive(Default)]
struct Elapsed {
    clock: Duration,
    cpu: Duration,
}

impl Elapsed {
    fn add(&mut self, other: Self) {
        self.clock += other.clock;
        self.cpu += other.cpu;
    }
}

struct Watch {
    clock: Instant,
    cpu: Duration,
}

impl Watch {
    fn start() -> Result<Self, Box<dyn Error>> {
        Ok(Self { clock: Instant::now(), cpu: cpu_time()? })
    }

    fn elapsed(&self) -> Result<Elapsed, Box<dyn Error>> {
        Ok(Elapsed { clock: self.clock.elapsed(), cpu: cpu_time()? - self.cpu })
    }
}

/// Returns the time that this thread has spent on a CPU.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(text.split_whitespace().next().unwrap_or_default().parse()?))
}

const BATCH: usize = 1_000;

fn peak_kb() -> Result<String, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(line.unwrap_or_default().trim().trim_end_matches("kB").trim().to_owned())
}

/// Processes that read and write the keys of a correct store.
struct Load {
    rng: Rng,
    /// Value of each key, or 0.
    values: Vec<u64>,
    /// Value before that.
    old_values: Vec<u64>,
    /// Open operation of each process, and whether it takes effect.
    open: Vec<(Operation, bool)>,
    events: BinaryHeap<Reverse<(i64, u32, Moment)>>,
    written: u64,
    unknown: f64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Effect,
    End,
}

impl Load {
    fn new(keys: usize, processes: u32, unknown: f64) -> Self {
        let rng = Rng::with_seed(1);
        let mut load = Self {
            rng,
            values: vec![0; keys],
            old_values: vec![0; keys],
            open: Vec::new(),
            events: BinaryHeap::new(),
            written: 0,
            unknown,
        };
        for process in 0..processes {
            let operation = load.operation(process, 0);
            load.open.push(operation);
        }
        load
    }

    /// Starts an operation of a process.
    fn operation(&mut self, process: u32, after: i64) -> (Operation, bool) {
        let start = after + self.rng.i64(1..1_000);
        let end = start + self.rng.i64(1..100_000);
        self.events.push(Reverse((self.rng.i64(start..=end), process, Moment::Effect)));
        self.events.push(Reverse((end, process, Moment::End)));
        let key = self.rng.u64(0..self.values.len() as u64);
        let access = match self.rng.u8(0..10) {
            0 => Access::CompareAndSet { from: None, to: None },
            1..5 => {
                self.written += 1;
                Access::Write { value: self.written }
            }
            _ => Access::Read { value: None },
        };
        let is_unknown = self.rng.f64() < self.unknown;
        let status = if is_unknown { Status::Unknown } else { Status::Applied };
        let end_ns = Some(end).filter(|_| !is_unknown);
        let happens = !is_unknown || self.rng.bool();
        (Operation { process, key, start_ns: start, end_ns, access, status, version: None }, happens)
    }

    /// Calls `ended` with each operation, in the order of the ends, and the least start of those
    /// that are open then. At last come the open operations.
    fn run(&mut self, operations: usize, mut ended: impl FnMut(Operation, i64)) {
        let mut count = 0;
        let mut open_since = i64::MIN;
        while let Some(Reverse((at, process, moment))) = self.events.pop() {
            if moment == Moment::Effect {
                self.take_effect(process);
                continue;
            }
            let (operation, _) = self.open[process as usize];
            if count % BATCH == BATCH - 1 {
                open_since = self.open.iter().map(|(operation, _)| operation.start_ns).min().unwrap_or(at);
            }
            ended(operation, open_since);
            self.open[process as usize] = self.operation(process, at);
            count += 1;
            if count == operations {
                break;
            }
        }
        for (operation, _) in &self.open {
            ended(Operation { status: Status::Unknown, end_ns: None, ..*operation }, open_since);
        }
    }

    fn take_effect(&mut self, process: u32) {
        let (operation, happens) = &mut self.open[process as usize];
        let state = &mut self.values[operation.key as usize];
        let current = Some(*state).filter(|value| *value != 0);
        let mut after = None;
        match &mut operation.access {
            Access::Read { value } => *value = current,
            Access::Write { value } => after = Some(*value),
            // Every other one compares with an old value.
            Access::CompareAndSet { from, to } => {
                self.written += 1;
                let old = self.old_values[operation.key as usize];
                let is_old = self.written.is_multiple_of(2) && old != 0;
                (*from, *to) = (if is_old { Some(old) } else { current }, Some(self.written));
                if *from == current {
                    after = Some(self.written);
                } else if operation.status == Status::Applied {
                    operation.status = Status::Unequal;
                }
            }
            Access::Delete => {}
        }
        if let Some(after) = after.filter(|_| *happens) {
            self.old_values[operation.key as usize] = *state;
            *state = after;
        }
    }
}
