//! Balancer for slow cores. Each core of the host is a group with its own quota, and the balancer
//! distributes threads over the cores as a scheduler would.
//!
//! A thread belongs to one slot and so gets at most one core's share. A slot is examined only if
//! its quota stops it, so a host with idle capacity costs one line read per slot and tick. Scans
//! that move no thread become rarer, until they take a thousandth of the time. Sleeping threads are
//! read even less often, because a host may have thousands. A thread is moved only from a core on
//! which more than one thread waits: a move brings fresh quota, so a needless move makes the core
//! too fast.
//!
//! The balancer cannot distinguish two busy threads from one piece of work that two threads pass
//! back and forth within a period: in both cases one of them always waits for quota. The two
//! threads are then spread, and each gets a core's share.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linux::cgroup::{Cgroup, Throttling};
use linux::procfs;

use crate::stoppable_thread::{StopSignal, StoppableThread};

/// Interval of checks of the slots. Every second check is skipped while nothing changes.
const TICK: Duration = Duration::from_millis(50);
/// Time since the last newly full slot or move after which checks are skipped.
const CALM: Duration = Duration::from_secs(1);
/// Minimum time between two moves of a thread.
const STAYS: Duration = Duration::from_millis(500);
/// Longest pause between two cheap scans that move no thread.
const RARELY: Duration = Duration::from_millis(800);
/// Minimum pause between two scans, in multiples of the duration of a scan.
const COST: u32 = 1000;
/// Longest pause due to the cost of a scan. Demands are meaningless if the last scan is older than
/// [`AWAKE`].
const LONGEST: Duration = Duration::from_secs(1);

/// Distributes threads over these slots until the result is dropped.
///
/// # Errors
/// A slot cannot be read, or no thread can be started.
pub fn balance(slots: &[Cgroup]) -> io::Result<StoppableThread> {
    let slots = slots.iter().map(CoreFiles::of).collect::<io::Result<Vec<_>>>()?;
    StoppableThread::start("cores", move |stop| run(CoreBalance::new(slots), stop))
}

fn run(mut spread: CoreBalance, stop: &StopSignal) {
    let mut due = Instant::now();
    loop {
        // Missed ticks are not made up for.
        due = (due + spread.pause(due)).max(Instant::now());
        if !stop.waits(due.saturating_duration_since(Instant::now())) {
            return;
        }
        spread.tick(Instant::now());
    }
}

/// A slot's control files.
#[derive(Debug)]
struct CoreFiles {
    stat: File,
    /// Thread list of the slot. Opened for each scan, because an open list does not show new
    /// threads.
    threads: PathBuf,
    last: Throttling,
}

impl CoreFiles {
    fn of(slot: &Cgroup) -> io::Result<Self> {
        let threads = slot.threads_file().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let stat = File::open(threads.with_file_name("cpu.stat"))?;
        Ok(Self { stat, threads, last: Throttling::default() })
    }

    /// Whether the quota stopped the slot in at least half of the periods in which it ran since the
    /// last check.
    fn is_full(&mut self) -> bool {
        let mut text = [0; 512];
        let Some(now) = self.stat.read_at(&mut text, 0).ok().and_then(|end| {
            let text = str::from_utf8(text.get(..end)?).ok()?;
            Throttling::parse(text)
        }) else {
            return false;
        };
        let ran = now.periods.saturating_sub(self.last.periods);
        let stopped = now.throttled_periods.saturating_sub(self.last.throttled_periods);
        self.last = now;
        stopped > 0 && 2 * stopped >= ran
    }
}

/// State of the balancer.
#[derive(Debug)]
struct CoreBalance {
    slots: Vec<CoreFiles>,
    demands: Demands,
    /// Whether each slot was full at the last tick.
    full: Vec<bool>,
    /// Time of the next scan.
    next_scan: Instant,
    /// Earliest time of a scan that new threads cause. It limits the cost of scans.
    affordable: Instant,
    /// Pause after the next scan, if that scan moves no thread.
    patience: Duration,
    /// Times of moves, by thread.
    moved: BTreeMap<u32, Instant>,
    /// Time of the last newly full slot or move.
    changed: Instant,
}

impl CoreBalance {
    fn new(slots: Vec<CoreFiles>) -> Self {
        let full = vec![false; slots.len()];
        let now = Instant::now();
        let (demands, moved) = (Demands::default(), BTreeMap::new());
        Self { slots, demands, full, next_scan: now, affordable: now, patience: TICK, moved, changed: now }
    }

    /// Returns the time until the next tick.
    fn pause(&self, now: Instant) -> Duration {
        if now.saturating_duration_since(self.changed) < CALM { TICK } else { 2 * TICK }
    }

    fn tick(&mut self, now: Instant) {
        let full: Vec<bool> = self.slots.iter_mut().map(CoreFiles::is_full).collect();
        let newly_full = full.iter().zip(&self.full).any(|(now, before)| *now && !before);
        self.full = full;
        if !self.full.contains(&true) {
            return;
        }
        // The pause between scans applies as long as the same slots are full.
        if newly_full {
            self.patience = TICK;
            self.next_scan = self.next_scan.min(now);
            self.changed = now;
        }
        if now >= self.next_scan || (now >= self.affordable && self.has_new_threads()) {
            self.scan(now);
        } else if now >= self.affordable {
            // Reading a thread list is expensive, because the kernel makes the list for each
            // reader.
            self.affordable = now + 2 * self.pause(now);
        }
    }

    /// Whether a full slot has new threads. Short-lived children end before their demand is known,
    /// so, as in a scheduler, they are placed at their start.
    fn has_new_threads(&self) -> bool {
        let full = self.slots.iter().zip(&self.full).filter(|(_, full)| **full);
        full.flat_map(|(slot, _)| listed(&slot.threads)).any(|id| !self.demands.knows(id))
    }

    fn scan(&mut self, now: Instant) {
        self.moved.retain(|_, at| now.duration_since(*at) < STAYS);
        let lists: Vec<Vec<u32>> = self.slots.iter().map(|slot| listed(&slot.threads)).collect();
        let has_base = self.demands.read(&lists, now);
        let slots: Vec<CoreSlot> = lists.iter().map(|list| self.slot(list)).collect();
        let moves = moves(&slots);
        for ThreadMove { thread, to } in &moves {
            // The thread may have ended meanwhile.
            let done = self.slots.get(*to).map(|slot| fs::write(&slot.threads, thread.to_string()));
            if matches!(done, Some(Ok(()))) {
                self.moved.insert(*thread, now);
            }
        }
        let cost = COST * now.elapsed().saturating_sub(self.demands.sleepers_took);
        self.affordable = now + cost;
        if !has_base || !moves.is_empty() {
            self.patience = TICK;
            self.next_scan = now;
            self.changed = now;
            return;
        }
        self.next_scan = now + self.patience.max(cost.min(LONGEST));
        self.patience = (2 * self.patience).min(RARELY);
    }

    fn slot(&self, list: &[u32]) -> CoreSlot {
        let mut threads = Vec::new();
        for id in list {
            let demand = self.demands.of(*id);
            let stays = demand.is_none() || self.moved.contains_key(id);
            threads.push(CoreThread { id: *id, demand: demand.unwrap_or(0.0), stays });
        }
        CoreSlot { threads }
    }
}

fn listed(threads: &Path) -> Vec<u32> {
    fs::read_to_string(threads).unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect()
}

// Assignment of threads to cores. Pure.

/// A core and its threads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CoreSlot {
    pub threads: Vec<CoreThread>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CoreThread {
    pub id: u32,
    /// Share of the time in which the thread ran or waited to run, 0 to 1.
    pub demand: f64,
    /// Whether the thread is not moved, because it is new or was moved recently.
    pub stays: bool,
}

/// A move of a thread to another core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadMove {
    pub thread: u32,
    pub to: usize,
}

/// Demand up to which a core is not relieved. The sum of demands on a core is the mean number of
/// threads that want it. Up to this value, the threads run mostly one at a time: another core would
/// only add its quota.
const ONE_AT_A_TIME: f64 = 1.35;
/// Minimum reduction of the fuller core's demand that justifies a move.
const WORTH_IT: f64 = 0.3;
/// Maximum number of moves per scan. Further moves wait for the next scan.
const AT_ONCE: usize = 32;

/// Returns moves that relieve the fullest core, one after the other. Each moves a thread from the
/// fullest to the emptiest core: the thread whose move makes the two cores' demands most equal. Of
/// equally good threads, the one that runs least is moved, because it takes the least of the other
/// core's quota.
fn moves(slots: &[CoreSlot]) -> Vec<ThreadMove> {
    let mut slots = slots.to_vec();
    let mut moves = Vec::new();
    while moves.len() < AT_ONCE {
        let Some((from, to)) = extremes(&slots) else { break };
        let (full, empty) = (demand(&slots[from]), demand(&slots[to]));
        let movable = slots[from].threads.iter().enumerate().filter(|(_, thread)| !thread.stays);
        let moved = movable.map(|(index, thread)| (index, thread, (full - thread.demand).max(empty + thread.demand)));
        let best = moved.min_by(|(_, a, after_a), (_, b, after_b)| {
            after_a.total_cmp(after_b).then(a.demand.total_cmp(&b.demand)).then(a.id.cmp(&b.id))
        });
        let Some((index, ..)) = best.filter(|(_, _, after)| full - after >= WORTH_IT) else { break };
        let mut thread = slots[from].threads.swap_remove(index);
        moves.push(ThreadMove { thread: thread.id, to });
        thread.stays = true;
        slots[to].threads.push(thread);
    }
    moves
}

/// Returns the indexes of the fullest and the emptiest slot, if a move could help.
fn extremes(slots: &[CoreSlot]) -> Option<(usize, usize)> {
    let demands = slots.iter().map(demand).enumerate();
    let (to, _) = demands.clone().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (from, full) = demands.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (full > ONE_AT_A_TIME && from != to).then_some((from, to))
}

fn demand(slot: &CoreSlot) -> f64 {
    slot.threads.iter().map(|thread| thread.demand).sum()
}

// Demand of each thread, from `/proc`.

/// Time without running after which a thread counts as asleep, not as waiting for its turn.
const AWAKE: Duration = Duration::from_secs(2);
/// Weight of the newest reading in a thread's demand.
const NEWEST: f64 = 0.5;
/// Number of readings after which a demand is meaningful. A single reading also contains time that
/// was waited before its interval.
const ENOUGH: u32 = 2;

/// Demand below which a thread counts as asleep if its last reading was zero. Sleeping threads are
/// read again when reading all of them is affordable.
const ASLEEP: f64 = 0.01;

/// Demands of the threads of all slots.
#[derive(Debug, Default)]
pub struct Demands {
    known: BTreeMap<u32, TrackedThreads>,
    at: Option<Instant>,
    /// Number of readings since the last long gap.
    readings: u32,
    /// Time at which sleeping threads are read again.
    sleepers_due: Option<Instant>,
    /// Time that the last reading spent on sleeping threads.
    sleepers_took: Duration,
}

#[derive(Debug, Clone, Copy)]
struct TrackedThreads {
    /// Time on a CPU and waiting for a CPU, nanoseconds.
    wanted_ns: u64,
    /// Time of the last reading.
    at: Instant,
    /// Time of the last reading at which `wanted_ns` had grown.
    awake: Instant,
    /// Number of readings after the first.
    readings: u32,
    /// Whether the thread started after the first reading of all threads.
    is_new: bool,
    demand: f64,
}

impl TrackedThreads {
    fn is_asleep(&self) -> bool {
        self.readings > 0 && self.demand == 0.0
    }
}

impl Demands {
    /// Reads the threads in `lists`. Returns whether there are enough recent readings; otherwise
    /// the demands are not yet meaningful.
    pub fn read(&mut self, lists: &[Vec<u32>], now: Instant) -> bool {
        let has_base = self.at.replace(now).is_some_and(|before| now.duration_since(before) < AWAKE);
        self.readings = if has_base { self.readings.saturating_add(1) } else { 0 };
        if !has_base {
            self.known.clear();
            self.sleepers_due = None;
        }
        let (asleep, awake): (Vec<u32>, Vec<u32>) =
            lists.iter().flatten().partition(|id| self.known.get(id).is_some_and(TrackedThreads::is_asleep));
        let start = Instant::now();
        let mut known = BTreeMap::new();
        for id in awake {
            known.extend(self.reading(id, has_base, now).map(|thread| (id, thread)));
        }
        let awake_took = start.elapsed();
        let due = self.sleepers_due.is_none_or(|due| now >= due);
        for id in asleep {
            let thread = if due { self.reading(id, has_base, now) } else { self.known.get(&id).copied() };
            known.extend(thread.map(|thread| (id, thread)));
        }
        let took = start.elapsed();
        self.sleepers_took = took.saturating_sub(awake_took);
        if due {
            self.sleepers_due = Some(now + COST * took);
        }
        self.known = known;
        self.readings >= ENOUGH
    }

    fn reading(&self, id: u32, has_base: bool, now: Instant) -> Option<TrackedThreads> {
        let wanted_ns = wanted_ns(&procfs::text(&Path::new("/proc").join(id.to_string()).join("schedstat"))?)?;
        let Some(before) = self.known.get(&id) else {
            // First reading of this thread. A new thread that is runnable wants to run.
            let demand = if has_base && is_runnable(id) { 1.0 } else { 0.0 };
            return Some(TrackedThreads { wanted_ns, at: now, awake: now, readings: 0, is_new: has_base, demand });
        };
        let interval_ns = now.duration_since(before.at).as_secs_f64() * 1e9;
        let grown_ns = wanted_ns.saturating_sub(before.wanted_ns);
        // The kernel counts waiting time only when the waiting ends. A thread that has waited all
        // the time, for its group's next quota or for its turn, seems to have wanted nothing.
        let is_waiting = grown_ns == 0 && now.duration_since(before.awake) < AWAKE && is_runnable(id);
        let wanted = if is_waiting { 1.0 } else { (grown_ns as f64 / interval_ns).clamp(0.0, 1.0) };
        let newest = if before.readings == 0 && !before.is_new { 1.0 } else { NEWEST };
        let demand = newest * wanted + (1.0 - newest) * before.demand;
        Some(TrackedThreads {
            wanted_ns,
            at: now,
            awake: if grown_ns > 0 { now } else { before.awake },
            readings: before.readings.saturating_add(1),
            is_new: before.is_new,
            demand: if wanted == 0.0 && demand < ASLEEP { 0.0 } else { demand },
        })
    }

    /// Whether the thread was in the last reading.
    pub fn knows(&self, id: u32) -> bool {
        self.known.contains_key(&id)
    }

    /// Returns the share of time in which the thread ran or waited to run, or `None` if it is not
    /// known yet.
    pub fn of(&self, id: u32) -> Option<f64> {
        self.known.get(&id).filter(|known| known.is_new || known.readings >= ENOUGH).map(|known| known.demand)
    }
}

/// Returns the sum of the first two figures of a task's `schedstat`, in nanoseconds: time on a CPU
/// and waiting for one.
fn wanted_ns(text: &str) -> Option<u64> {
    let mut figures = text.split_ascii_whitespace().map_while(|figure| figure.parse::<u64>().ok());
    Some(figures.next()? + figures.next()?)
}

fn is_runnable(id: u32) -> bool {
    let id = id.to_string();
    procfs::stat_at(&Path::new("/proc").join(&id).join("task").join(&id)).is_some_and(|stat| stat.state == 'R')
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    use rustix::thread::gettid;

    use super::{CoreSlot, CoreThread, Demands, ThreadMove, TrackedThreads, moves, wanted_ns};

    /// Makes slots of threads with these demands. Thread ids count from 1 across all slots.
    fn slots(demands: &[&[f64]]) -> Vec<CoreSlot> {
        let mut id = 0;
        let mut thread = |demand: &f64| {
            id += 1;
            CoreThread { id, demand: *demand, stays: false }
        };
        demands.iter().map(|slot| CoreSlot { threads: slot.iter().map(&mut thread).collect() }).collect()
    }

    fn sums(slots: &[CoreSlot], moves: &[ThreadMove]) -> Vec<f64> {
        (0..slots.len())
            .map(|to| {
                let own = slots[to].threads.iter().filter(|thread| moves.iter().all(|m| m.thread != thread.id));
                let moved = moves.iter().filter(|m| m.to == to);
                let moved = moved
                    .filter_map(|m| slots.iter().flat_map(|slot| &slot.threads).find(|thread| thread.id == m.thread));
                own.chain(moved).map(|thread| thread.demand).sum()
            })
            .collect()
    }

    #[test]
    fn threads_are_not_moved_without_a_gain() {
        let table: [&[&[f64]]; 8] = [
            &[&[], &[]],
            // One thread that wants more than a core gets one core.
            &[&[1.0], &[], &[], &[]],
            // A busy thread with a small one.
            &[&[1.0, 0.1], &[]],
            // Two threads that take turns are one piece of work: two cores would be too much for
            // them.
            &[&[0.5, 0.5], &[]],
            &[&[0.3, 0.3, 0.3], &[0.1]],
            // Already as even as possible.
            &[&[1.0, 1.0], &[1.0], &[1.0]],
            &[&[1.0, 1.0], &[1.0, 1.0]],
            // No other core.
            &[&[1.0, 1.0, 1.0]],
        ];
        for demands in table {
            assert_eq!(moves(&slots(demands)), [], "{demands:?}");
        }
    }

    #[test]
    fn threads_of_crowded_cores_are_spread() {
        let table: [(&[&[f64]], &[f64]); 6] = [
            (&[&[1.0, 1.0], &[]], &[1.0, 1.0]),
            (&[&[1.0, 1.0, 1.0, 1.0], &[], &[], &[]], &[1.0, 1.0, 1.0, 1.0]),
            (&[&[1.0, 1.0, 1.0], &[1.0], &[1.0], &[1.0]], &[2.0, 2.0, 1.0, 1.0]),
            (&[&[1.0; 8], &[]], &[4.0, 4.0]),
            // The small thread moves, and takes less of the new core's quota.
            (&[&[1.0, 0.6], &[0.0]], &[1.0, 0.6]),
            (&[&[0.8, 0.8], &[0.5], &[0.1]], &[0.8, 0.5, 0.9]),
        ];
        for (demands, wanted) in table {
            let slots = slots(demands);
            let moves = moves(&slots);
            let mut got = sums(&slots, &moves);
            let mut wanted = wanted.to_vec();
            got.sort_by(f64::total_cmp);
            wanted.sort_by(f64::total_cmp);
            let is_close = got.iter().zip(&wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-9);
            assert!(is_close, "{demands:?}: {moves:?} gives {got:?}");
        }
    }

    #[test]
    fn no_thread_is_moved_twice_at_once() {
        let moves = moves(&slots(&[&[1.0; 20], &[], &[], &[]]));
        let mut ids: Vec<u32> = moves.iter().map(|m| m.thread).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), moves.len());
        assert_eq!(moves.len(), 15);
    }

    #[test]
    fn recently_moved_threads_stay() {
        let mut slots = slots(&[&[1.0, 1.0], &[]]);
        slots[0].threads[0].stays = true;
        assert_eq!(moves(&slots), [ThreadMove { thread: 2, to: 1 }]);
        slots[0].threads[1].stays = true;
        assert_eq!(moves(&slots), []);
    }

    /// Regression test: reading thousands of threads took so long that the next reading came too
    /// late to be meaningful, and two busy threads shared a core for ever.
    #[test]
    fn sleeping_threads_are_read_less_often() {
        let (say, said) = channel();
        let sleeper = || {
            let ((wake, woken), say) = (channel::<()>(), say.clone());
            let sleep = move || {
                say.send(gettid().as_raw_pid() as u32).unwrap();
                woken.recv().is_ok()
            };
            (wake, std::thread::Builder::new().spawn(sleep).unwrap())
        };
        let sleepers: Vec<_> = (0..30).map(|_| sleeper()).collect();
        let lists = [said.iter().take(30).collect::<Vec<u32>>()];
        let mut demands = Demands::default();
        let mut now = Instant::now();
        let mut read = |demands: &mut Demands, after_ms: u64| {
            now += Duration::from_millis(after_ms);
            (demands.read(&lists, now), now)
        };
        assert_eq!([0, 1, 1].map(|after_ms| read(&mut demands, after_ms).0), [false, false, true]);
        while !demands.known.values().all(TrackedThreads::is_asleep) {
            read(&mut demands, 50);
        }
        for (wake, thread) in sleepers {
            drop(wake);
            thread.join().unwrap();
        }
        while lists[0].iter().any(|id| Path::new("/proc").join(id.to_string()).exists()) {
            std::thread::yield_now();
        }
        let due = demands.sleepers_due.unwrap();
        while read(&mut demands, 1).1 < due {
            assert!(demands.knows(lists[0][0]), "it is not read, and so was not missed");
        }
        assert!(!demands.knows(lists[0][0]));
    }

    #[test]
    fn a_line_of_schedstat() {
        assert_eq!(wanted_ns("5000 700 12\n"), Some(5700));
        assert_eq!(wanted_ns("0\n"), None);
    }
}
