//! Who works in a tree of processes: when one that had been there for a while is gone and another of the same name under the same
//! parent has come, it was replaced. It must not know why.

use std::collections::HashMap;

use record::rows::Sample;

use crate::linux::procfs::Stat;

/// A process that was not there at so many readings had not settled: a program that is started for each request comes and goes.
const SETTLED: u32 = 2;
/// For so many readings after one is gone another counts as its replacement.
const PATIENCE: u32 = 10;

/// What was seen of a tree.
#[derive(Debug, Default)]
pub struct Staff {
    /// Pid to what it is.
    there: HashMap<u32, Worker>,
    /// Who had settled and went, and at how many readings nobody had taken its place.
    gone: Vec<(Worker, u32)>,
    has_base: bool,
}

#[derive(Debug, Clone)]
struct Worker {
    name: String,
    parent: u32,
    started_ticks: u64,
    /// Readings that saw it.
    readings: u32,
}

impl Worker {
    fn replaces(&self, other: &Self) -> bool {
        (self.name.as_str(), self.parent) == (other.name.as_str(), other.parent)
    }
}

impl Staff {
    /// Looks at the tree again, and says how many were replaced since the last time; nothing at the first.
    pub fn read(&mut self, pids: &[u32], all: &HashMap<u32, Stat>, row: &mut Sample) {
        let mut before = std::mem::take(&mut self.there);
        let mut came = Vec::new();
        for stat in pids.iter().filter_map(|pid| all.get(pid)) {
            // A pid alone is no name.
            let known = before.remove(&stat.pid).filter(|worker| worker.started_ticks == stat.started_ticks);
            let mut worker = known.unwrap_or_else(|| Worker {
                name: stat.name.clone(),
                parent: stat.parent,
                started_ticks: stat.started_ticks,
                readings: 0,
            });
            if worker.readings == 0 {
                came.push(worker.clone());
            }
            worker.readings += 1;
            self.there.insert(stat.pid, worker);
        }
        self.gone.retain_mut(|(_, readings)| {
            *readings += 1;
            *readings <= PATIENCE
        });
        // Whose parent is gone as well was not replaced by it.
        let settled = before.into_values().filter(|worker| worker.readings >= SETTLED);
        self.gone.extend(settled.filter(|worker| self.there.contains_key(&worker.parent)).map(|worker| (worker, 0)));
        let replaced = came.iter().filter(|worker| self.is_replacement(worker)).count();
        row.processes_replaced = self.has_base.then_some(replaced as u64);
        self.has_base = true;
    }

    fn is_replacement(&mut self, worker: &Worker) -> bool {
        let place = self.gone.iter().position(|(gone, _)| worker.replaces(gone));
        place.map(|place| self.gone.swap_remove(place)).is_some()
    }
}

#[cfg(test)]
mod tests;
