//! How much each thread wants to run, from `/proc`. It must not move any.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::linux::procfs;

/// A thread that did not run for so long is asleep and not only waiting for its turn.
const AWAKE: Duration = Duration::from_secs(2);
/// Weight of the newest reading in a thread's demand.
const NEWEST: f64 = 0.5;
/// Readings until that means something: one is blurred by what was waited before it and is counted in it.
const ENOUGH: u32 = 2;

/// What is known about the threads of all slots.
#[derive(Debug, Default)]
pub struct Demands {
    known: BTreeMap<u32, Known>,
    at: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    /// Time on a CPU and waiting for one, nanoseconds.
    wanted_ns: u64,
    /// When that was last seen to grow.
    awake: Instant,
    /// Readings since the first.
    readings: u32,
    /// It was not there at a reading before.
    is_new: bool,
    demand: f64,
}

impl Demands {
    /// Reads them. Whether there is a reading before, not too long ago: else the demands mean nothing yet.
    pub fn read(&mut self, lists: &[Vec<u32>], now: Instant) -> bool {
        let interval = self.at.replace(now).map(|before| now.duration_since(before)).filter(|since| *since < AWAKE);
        if interval.is_none() {
            self.known.clear();
        }
        let interval_ns = interval.map_or(f64::NAN, |interval| interval.as_secs_f64() * 1e9);
        let ids = lists.iter().flatten();
        let reading = |id: &u32| Some((*id, self.reading(*id, interval_ns, now)?));
        self.known = ids.filter_map(reading).collect();
        interval.is_some()
    }

    fn reading(&self, id: u32, interval_ns: f64, now: Instant) -> Option<Known> {
        let wanted_ns = wanted_ns(&procfs::text(&Path::new("/proc").join(id.to_string()).join("schedstat"))?)?;
        let Some(before) = self.known.get(&id) else {
            // A base for the next. What has just been started and runs, wants to.
            let is_new = interval_ns.is_finite();
            let demand = if is_new && is_runnable(id) { 1.0 } else { 0.0 };
            return Some(Known { wanted_ns, awake: now, readings: 0, is_new, demand });
        };
        let grown_ns = wanted_ns.saturating_sub(before.wanted_ns);
        // The time waited is counted when the waiting ends. A thread that has waited all the time, for its group's next
        // quota or for its turn among many, seems to have wanted nothing.
        let is_waiting = || grown_ns == 0 && now.duration_since(before.awake) < AWAKE && is_runnable(id);
        let wanted = if is_waiting() { 1.0 } else { (grown_ns as f64 / interval_ns).clamp(0.0, 1.0) };
        let newest = if before.readings == 0 && !before.is_new { 1.0 } else { NEWEST };
        Some(Known {
            wanted_ns,
            awake: if grown_ns > 0 { now } else { before.awake },
            readings: before.readings.saturating_add(1),
            is_new: before.is_new,
            demand: newest * wanted + (1.0 - newest) * before.demand,
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
pub fn wanted_ns(text: &str) -> Option<u64> {
    let mut figures = text.split_ascii_whitespace().map_while(|figure| figure.parse::<u64>().ok());
    Some(figures.next()? + figures.next()?)
}

fn is_runnable(id: u32) -> bool {
    let id = id.to_string();
    procfs::stat_at(&Path::new("/proc").join(&id).join("task").join(&id)).is_some_and(|stat| stat.state == 'R')
}
