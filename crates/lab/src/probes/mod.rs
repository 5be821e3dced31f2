//! What the machine and the target's processes do, read from /proc each whole second of the trial's clock. It must not
//! guess: what this kernel does not say is null. The thread sleeps until absolute deadlines, so it does not drift.
//!
//! Measured on a virtual machine with 2 cores, 90 processes and an Erlang VM of 21 threads as target: 0.6 ms of CPU time for
//! a reading, so 0.06 % of a core.

mod cpu;
mod disk;
mod load_average;
mod memory;
mod network;
mod pressure;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use record::clock::Clock;
use record::rows::Sample;

use crate::Error;
use crate::linux::procfs;
use crate::process_tree::Forest;
use crate::site::Watched;
pub(crate) use memory::bytes as memory_bytes;

/// A kind of figure about the machine.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// One line.
    pub help: &'static str,
    make: fn() -> Box<dyn Probe>,
}

/// Every kind, sorted by name.
pub static KINDS: &[&Kind] =
    &[&cpu::KIND, &disk::KIND, &load_average::KIND, &memory::KIND, &network::KIND, &pressure::KIND];

/// Reads figures of the machine. Counters are taken as differences from the reading before.
trait Probe: Send {
    /// Fills its fields of `host`; those that `/proc` does not offer, or that need a reading before, stay empty.
    fn read(&mut self, proc: &Proc, interval_s: f64, host: &mut Sample);
}

/// `/proc`, or a recorded one.
pub(crate) struct Proc(PathBuf);

impl Proc {
    pub fn at(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn text(&self, name: &str) -> Option<String> {
        procfs::text(&self.0.join(name))
    }
}

/// How much a counter grew; `None` without a reading before, or if it was set back.
fn grown(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    now?.checked_sub(before?)
}

/// The thread that reads.
#[derive(Debug)]
pub struct Probes {
    stop: Sender<()>,
    reader: JoinHandle<()>,
}

impl Probes {
    /// Reads at each whole second of `clock` from now on (the first reading is only the base of the next, unless it is due
    /// before second 0), until stopped or until nobody takes the samples any more.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(watched: Watched, clock: Clock, sink: SyncSender<Sample>) -> Result<Self, Error> {
        let (stop, stopped) = channel();
        let read = move || run(&watched, clock, &sink, &stopped);
        let reader = std::thread::Builder::new().name("probes".to_owned()).spawn(read);
        Ok(Self { stop, reader: reader.map_err(Error::system("start the probes"))? })
    }

    /// Stops reading; the samples' other end is let go of.
    pub fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.reader.join();
    }
}

fn run(watched: &Watched, clock: Clock, sink: &SyncSender<Sample>, stopped: &Receiver<()>) {
    let mut reader = Reader::new(Proc::at(Path::new("/proc")));
    // At second 0 or, if that is past, now.
    let mut due_s = clock.at_s().max(0.0);
    loop {
        if !sleep_until(clock, due_s, stopped) {
            return;
        }
        for sample in reader.read(watched, clock) {
            if sink.send(sample).is_err() {
                return;
            }
        }
        // Seconds that were slept through are not made up for: the next row covers them.
        due_s = (clock.at_s() + LEEWAY_S).floor() + 1.0;
    }
}

/// A reading so little before a whole second is that second's.
const LEEWAY_S: f64 = 0.001;

/// False once stopped.
fn sleep_until(clock: Clock, at_s: f64, stopped: &Receiver<()>) -> bool {
    loop {
        let left = Duration::try_from_secs_f64(at_s - clock.at_s()).unwrap_or_default();
        match stopped.recv_timeout(left) {
            Err(RecvTimeoutError::Timeout) if left.is_zero() => return true,
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

/// All probes, and the processes.
struct Reader {
    proc: Proc,
    probes: Vec<Box<dyn Probe>>,
    forest: Forest,
    last: Option<Instant>,
}

impl Reader {
    fn new(proc: Proc) -> Self {
        let probes = KINDS.iter().map(|kind| (kind.make)()).collect();
        Self { proc, probes, forest: Forest::default(), last: None }
    }

    /// A row for the host, one for each running role, one for this program; nothing at the first reading.
    fn read(&mut self, watched: &Watched, clock: Clock) -> Vec<Sample> {
        let now = Instant::now();
        let interval_s = self.last.replace(now).map(|last| now.duration_since(last).as_secs_f64());
        let mut host = Sample {
            at_s: (clock.at_s_of(now) * 1000.0).round() / 1000.0,
            host: watched.host().to_owned(),
            ..Sample::default()
        };
        for probe in &mut self.probes {
            probe.read(&self.proc, interval_s.unwrap_or(f64::NAN), &mut host);
        }
        let processes = self.forest.read(&self.proc, &watched.members(), interval_s.unwrap_or(f64::NAN), &host);
        if interval_s.is_none() {
            return Vec::new();
        }
        host.cpu_strangers_pct = strangers_pct(&host, &processes);
        std::iter::once(host).chain(processes).collect()
    }
}

/// What is busy and neither the target nor Plimsoll. The kernel counts both sides in clock ticks, so a small difference
/// is noise and one below 0 is none.
fn strangers_pct(host: &Sample, processes: &[Sample]) -> Option<f64> {
    let busy = host.cpu_user_pct? + host.cpu_system_pct?;
    let ours =
        processes.iter().map(|sample| Some(sample.cpu_user_pct? + sample.cpu_system_pct?)).sum::<Option<f64>>()?;
    Some((busy - ours).max(0.0))
}

#[cfg(test)]
mod tests;
