//! Slow cores: each core of the host is a group with a quota of its own, and this spreads the
//! threads over them, as a scheduler would over cores.
//!
//! A thread belongs to one slot and so gets no more than one core's share. Only a slot that its
//! quota stops is looked into, so a host that does not use its cores up costs no more than
//! reading a line per slot and tick; and looking that leads to nothing is done ever more
//! rarely, a thousandth of the time if that is often enough. Threads that sleep are read more
//! rarely still, because a host may have thousands. Threads are moved only from a core on which
//! more than one of them waits: a move brings fresh quota, so a needless one makes the core
//! faster than it is.
//!
//! What it cannot tell from two busy threads is one piece of work that two threads hand to and
//! fro within a period: of both, one or the other always waits for quota. They are spread, and
//! each gets a core's.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linux::cgroup::{Cgroup, Throttling};
use linux::procfs;

use crate::stoppable_thread::{StopSignal, StoppableThread};

/// Between two looks at the slots; every second one is left out while nothing changes.
const TICK: Duration = Duration::from_millis(50);
/// Nothing changes if for so long no slot became full and nothing was moved.
const CALM: Duration = Duration::from_secs(1);
/// A thread that was moved stays so long.
const STAYS: Duration = Duration::from_millis(500);
/// Longest pause between two scans that lead to nothing, if they are cheap.
const RARELY: Duration = Duration::from_millis(800);
/// Least pause between two scans, in times of what a scan takes.
const COST: u32 = 1000;
/// Longest pause because of that: demands mean nothing if the last scan is older than [`AWAKE`].
const LONGEST: Duration = Duration::from_secs(1);

/// Spreads threads over these slots from now on, until it is dropped.
///
/// # Errors
/// If a slot cannot be read, or no thread can be started.
pub fn balance(slots: &[Cgroup]) -> io::Result<StoppableThread> {
    let slots = slots.iter().map(CoreFiles::of).collect::<io::Result<Vec<_>>>()?;
    StoppableThread::start("cores", move |stop| run(CoreBalance::new(slots), stop))
}

fn run(mut spread: CoreBalance, stop: &StopSignal) {
    let mut due = Instant::now();
    loop {
        // Ticks that were slept through are not made up for.
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
    /// Opened anew for each scan: a list that is open does not grow.
    threads: PathBuf,
    last: Throttling,
}

impl CoreFiles {
    fn of(slot: &Cgroup) -> io::Result<Self> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let threads = slot.threads_file().ok_or_else(missing)?;
        let stat = File::open(threads.with_file_name("cpu.stat"))?;
        Ok(Self { stat, threads, last: Throttling::default() })
    }

    /// Whether its quota has stopped it since the last look, in as many periods as it was not.
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

/// The balancer's state.
#[derive(Debug)]
struct CoreBalance {
    slots: Vec<CoreFiles>,
    demands: Demands,
    /// Which slots were full at the last tick.
    full: Vec<bool>,
    /// When the next scan is due …
    next_scan: Instant,
    /// … and when it may be at the earliest, if something has been started.
    affordable: Instant,
    /// Time until the scan after that, if the next leads to nothing.
    patience: Duration,
    /// Threads that were moved, and when.
    moved: BTreeMap<u32, Instant>,
    /// When something last changed.
    changed: Instant,
}

impl CoreBalance {
    fn new(slots: Vec<CoreFiles>) -> Self {
        let full = vec![false; slots.len()];
        let now = Instant::now();
        let (demands, moved) = (Demands::default(), BTreeMap::new());
        Self { slots, demands, full, next_scan: now, affordable: now, patience: TICK, moved, changed: now }
    }

    /// Until the next tick.
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
        // What was learned about how rarely to look holds as long as the same slots are full.
        if newly_full {
            self.patience = TICK;
            self.next_scan = self.next_scan.min(now);
            self.changed = now;
        }
        if now >= self.next_scan || (now >= self.affordable && self.has_new_threads()) {
            self.scan(now);
        } else if now >= self.affordable {
            // The kernel makes the list anew for each reader.
            self.affordable = now + 2 * self.pause(now);
        }
    }

    /// Short-lived children are gone before it is clear what they want; like a scheduler, a place is chosen when they start.
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
            // One that has ended meanwhile is not there to be moved.
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
        let thread = |id: &u32| {
            let demand = self.demands.of(*id);
            let stays = demand.is_none() || self.moved.contains_key(id);
            CoreThread { id: *id, demand: demand.unwrap_or(0.0), stays }
        };
        CoreSlot { threads: list.iter().map(thread).collect() }
    }
}

fn listed(threads: &Path) -> Vec<u32> {
    fs::read_to_string(threads).unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect()
}

// Which threads go to which core. Pure.

/// A core, and what is on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CoreSlot {
    pub threads: Vec<CoreThread>,
}

/// A thread.
#[derive(Debug, Clone, PartialEq)]
pub struct CoreThread {
    pub id: u32,
    /// Share of the time in which it ran or waited to run, 0 to 1.
    pub demand: f64,
    /// It was moved lately, or is new, and stays.
    pub stays: bool,
}

/// A thread goes to another core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadMove {
    pub thread: u32,
    pub to: usize,
}

/// The sum of the demands on a core is the mean number of threads that want it. Up to this, it is one at a time, and another
/// core would not help it: it would only add its quota to that of the first.
const ONE_AT_A_TIME: f64 = 1.35;
/// A move must make the fuller of the two cores that much emptier.
const WORTH_IT: f64 = 0.3;
/// Moves at once; the rest is for the next look.
const AT_ONCE: usize = 32;

/// Moves that make the fullest core emptier, one after the other: from the fullest to the emptiest, that thread which leaves
/// the two most equal; of those that do, the one that runs least, for it takes the least of the other core's quota with it.
fn moves(slots: &[CoreSlot]) -> Vec<ThreadMove> {
    let mut slots = slots.to_vec();
    let mut moves = Vec::new();
    while moves.len() < AT_ONCE {
        let Some((from, to)) = extremes(&slots) else { break };
        let (full, empty) = (demand(&slots[from]), demand(&slots[to]));
        let after = |thread: &CoreThread| (full - thread.demand).max(empty + thread.demand);
        let movable = slots[from].threads.iter().enumerate().filter(|(_, thread)| !thread.stays);
        let best = movable.min_by(|(_, a), (_, b)| {
            after(a).total_cmp(&after(b)).then(a.demand.total_cmp(&b.demand)).then(a.id.cmp(&b.id))
        });
        let Some((index, _)) = best.filter(|(_, thread)| full - after(thread) >= WORTH_IT) else { break };
        let mut thread = slots[from].threads.swap_remove(index);
        moves.push(ThreadMove { thread: thread.id, to });
        thread.stays = true;
        slots[to].threads.push(thread);
    }
    moves
}

/// The fullest slot and the emptiest, if there is something to be had.
fn extremes(slots: &[CoreSlot]) -> Option<(usize, usize)> {
    let by_demand = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
    let demands = || slots.iter().map(demand).enumerate();
    let (to, _) = demands().min_by(by_demand)?;
    let (from, full) = demands().max_by(by_demand)?;
    (full > ONE_AT_A_TIME && from != to).then_some((from, to))
}

fn demand(slot: &CoreSlot) -> f64 {
    slot.threads.iter().map(|thread| thread.demand).sum()
}

// How much each thread wants to run, from `/proc`.

/// A thread that did not run for so long is asleep and not only waiting for its turn.
const AWAKE: Duration = Duration::from_secs(2);
/// Weight of the newest reading in a thread's demand.
const NEWEST: f64 = 0.5;
/// Readings until that means something: one is blurred by what was waited before it and is counted in it.
const ENOUGH: u32 = 2;

/// A thread that wanted less, and last wanted nothing, is asleep. It is read again when reading all of them is affordable.
const ASLEEP: f64 = 0.01;

/// What is known about the threads of all slots.
#[derive(Debug, Default)]
pub struct Demands {
    known: BTreeMap<u32, TrackedThreads>,
    at: Option<Instant>,
    /// Readings since the first of those that follow each other closely.
    readings: u32,
    /// When threads that sleep are read again.
    sleepers_due: Option<Instant>,
    /// Time that the last reading took for threads that sleep.
    sleepers_took: Duration,
}

#[derive(Debug, Clone, Copy)]
struct TrackedThreads {
    /// Time on a CPU and waiting for one, nanoseconds.
    wanted_ns: u64,
    /// Time of the last reading.
    at: Instant,
    /// Time of the last reading at which `wanted_ns` had grown.
    awake: Instant,
    /// Readings since the first.
    readings: u32,
    /// It was not there at a reading before.
    is_new: bool,
    demand: f64,
}

impl TrackedThreads {
    fn is_asleep(&self) -> bool {
        self.readings > 0 && self.demand == 0.0
    }
}

impl Demands {
    /// Reads them. Returns whether there are enough readings before, not too long ago: else the demands mean nothing yet.
    pub fn read(&mut self, lists: &[Vec<u32>], now: Instant) -> bool {
        let has_base = self.at.replace(now).is_some_and(|before| now.duration_since(before) < AWAKE);
        self.readings = if has_base { self.readings.saturating_add(1) } else { 0 };
        if !has_base {
            self.known.clear();
            self.sleepers_due = None;
        }
        let is_asleep = |id: &u32| self.known.get(id).is_some_and(TrackedThreads::is_asleep);
        let (asleep, awake): (Vec<u32>, Vec<u32>) = lists.iter().flatten().partition(|id| is_asleep(id));
        let reading = |id: u32| Some((id, self.reading(id, has_base, now)?));
        let start = Instant::now();
        let mut known: BTreeMap<u32, TrackedThreads> = awake.into_iter().filter_map(reading).collect();
        let awake_took = start.elapsed();
        let due = self.sleepers_due.is_none_or(|due| now >= due);
        let last = |id: u32| Some((id, *self.known.get(&id)?));
        known.extend(asleep.into_iter().filter_map(|id| if due { reading(id) } else { last(id) }));
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
            // A base for the next. What has just been started and runs, wants to.
            let demand = if has_base && is_runnable(id) { 1.0 } else { 0.0 };
            return Some(TrackedThreads { wanted_ns, at: now, awake: now, readings: 0, is_new: has_base, demand });
        };
        let interval_ns = now.duration_since(before.at).as_secs_f64() * 1e9;
        let grown_ns = wanted_ns.saturating_sub(before.wanted_ns);
        // The time waited is counted when the waiting ends. A thread that has waited all the time, for its group's next
        // quota or for its turn among many, seems to have wanted nothing.
        let is_waiting = || grown_ns == 0 && now.duration_since(before.awake) < AWAKE && is_runnable(id);
        let wanted = if is_waiting() { 1.0 } else { (grown_ns as f64 / interval_ns).clamp(0.0, 1.0) };
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

    /// Whether it was there at the last reading.
    pub fn knows(&self, id: u32) -> bool {
        self.known.contains_key(&id)
    }

    /// Share of the time in which it ran or waited to run; `None` if that is not clear yet.
    pub fn of(&self, id: u32) -> Option<f64> {
        self.known.get(&id).filter(|known| known.is_new || known.readings >= ENOUGH).map(|known| known.demand)
    }
}

/// Nanoseconds: the first two figures of a task's `schedstat`, on a CPU and waiting for one.
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

    /// Slots of threads, numbered from 1 through all of them, with these demands.
    fn slots(demands: &[&[f64]]) -> Vec<CoreSlot> {
        let mut id = 0;
        let mut thread = |demand: &f64| {
            id += 1;
            CoreThread { id, demand: *demand, stays: false }
        };
        demands.iter().map(|slot| CoreSlot { threads: slot.iter().map(&mut thread).collect() }).collect()
    }

    fn sums(slots: &[CoreSlot], moves: &[ThreadMove]) -> Vec<f64> {
        let demand_on = |to: usize| {
            let stays = |thread: &&CoreThread| moves.iter().all(|m| m.thread != thread.id);
            let own = slots[to].threads.iter().filter(stays);
            let came = moves.iter().filter(|m| m.to == to);
            let came =
                came.filter_map(|m| slots.iter().flat_map(|slot| &slot.threads).find(|thread| thread.id == m.thread));
            own.chain(came).map(|thread| thread.demand).sum()
        };
        (0..slots.len()).map(demand_on).collect()
    }

    #[test]
    fn what_gains_nothing_is_not_moved() {
        let table: [&[&[f64]]; 8] = [
            &[&[], &[]],
            // One thread that wants more than a core gets one core.
            &[&[1.0], &[], &[], &[]],
            // Beside something small.
            &[&[1.0, 0.1], &[]],
            // Two that take turns are one thing: two cores would be too much for them.
            &[&[0.5, 0.5], &[]],
            &[&[0.3, 0.3, 0.3], &[0.1]],
            // As even as it gets.
            &[&[1.0, 1.0], &[1.0], &[1.0]],
            &[&[1.0, 1.0], &[1.0, 1.0]],
            // Nowhere to go.
            &[&[1.0, 1.0, 1.0]],
        ];
        for demands in table {
            assert_eq!(moves(&slots(demands)), [], "{demands:?}");
        }
    }

    #[test]
    fn crowds_are_spread() {
        let table: [(&[&[f64]], &[f64]); 6] = [
            (&[&[1.0, 1.0], &[]], &[1.0, 1.0]),
            (&[&[1.0, 1.0, 1.0, 1.0], &[], &[], &[]], &[1.0, 1.0, 1.0, 1.0]),
            (&[&[1.0, 1.0, 1.0], &[1.0], &[1.0], &[1.0]], &[2.0, 2.0, 1.0, 1.0]),
            (&[&[1.0; 8], &[]], &[4.0, 4.0]),
            // The small one goes, and takes less of the new core's quota with it.
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
    fn what_was_moved_lately_stays() {
        let mut slots = slots(&[&[1.0, 1.0], &[]]);
        slots[0].threads[0].stays = true;
        assert_eq!(moves(&slots), [ThreadMove { thread: 2, to: 1 }]);
        slots[0].threads[1].stays = true;
        assert_eq!(moves(&slots), []);
    }

    /// Reading thousands of threads took so long that the next reading came too late to say anything,
    /// and two busy threads shared a core for ever.
    #[test]
    fn thousands_of_threads_that_sleep_hide_none_that_are_busy() {
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
        let is_there = |id: &u32| Path::new("/proc").join(id.to_string()).exists();
        while lists[0].iter().any(is_there) {
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
