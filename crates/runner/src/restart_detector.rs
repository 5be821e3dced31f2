//! Restarts of processes in a tree. A process was replaced if it had existed for a while and ended,
//! and another with the same name and parent started.

use std::collections::HashMap;

use linux::procfs::{self, Stat};
use record::rows::Sample;

/// Number of readings after which a process counts as settled. A program that is started for each
/// request never settles.
const SETTLED: u32 = 2;
/// Number of readings after a process's end in which a new process counts as its replacement.
const PATIENCE: u32 = 10;

/// Processes of a tree and their replacements.
#[derive(Debug, Default)]
pub struct RestartDetector {
    /// Current processes, by process id.
    there: HashMap<u32, TrackedProcess>,
    /// Settled processes that have ended and were not replaced, with the number of readings since
    /// their end.
    gone: Vec<(TrackedProcess, u32)>,
    /// Names of the processes that were replaced at the last reading.
    replaced: Vec<String>,
    readings: u64,
}

#[derive(Debug, Clone)]
struct TrackedProcess {
    name: String,
    parent: u32,
    started_ticks: u64,
    /// Number of readings that found this process.
    readings: u32,
}

impl TrackedProcess {
    fn replaces(&self, other: &Self) -> bool {
        (self.name.as_str(), self.parent) == (other.name.as_str(), other.parent)
    }
}

impl RestartDetector {
    /// Reads the tree again and fills in the number of processes replaced since the last reading.
    /// Fills in nothing at the first reading.
    pub fn read(&mut self, pids: &[u32], all: &HashMap<u32, Stat>, row: &mut Sample) {
        let mut before = std::mem::take(&mut self.there);
        let mut appeared = Vec::new();
        for stat in pids.iter().filter_map(|pid| all.get(pid)) {
            // A process id can be reused, so the start time is compared too.
            let known = before.remove(&stat.pid).filter(|worker| worker.started_ticks == stat.started_ticks);
            let mut worker = known.unwrap_or_else(|| TrackedProcess {
                name: stat.name.clone(),
                parent: stat.parent,
                started_ticks: stat.started_ticks,
                readings: 0,
            });
            if worker.readings == 0 {
                appeared.push(worker.clone());
            }
            worker.readings += 1;
            self.there.insert(stat.pid, worker);
        }
        self.gone.retain_mut(|(_, readings)| {
            *readings += 1;
            *readings <= PATIENCE
        });
        // A process whose parent has also ended was not replaced by that parent.
        let settled = before.into_values().filter(|worker| worker.readings >= SETTLED);
        self.gone.extend(settled.filter(|worker| self.there.contains_key(&worker.parent)).map(|worker| (worker, 0)));
        appeared.retain(|worker| self.is_replacement(worker));
        self.readings += 1;
        row.processes_replaced = (self.readings > 1).then_some(appeared.len() as u64);
        self.replaced = appeared.into_iter().map(|worker| worker.name).collect();
    }

    /// Returns the number of replaced processes that run this program, or `None` at the first
    /// reading.
    pub fn replaced(&self, program: &str) -> Option<u64> {
        (self.readings > 1).then(|| self.replaced.iter().filter(|name| procfs::is_called(name, program)).count() as u64)
    }

    fn is_replacement(&mut self, worker: &TrackedProcess) -> bool {
        let place = self.gone.iter().position(|(gone, _)| worker.replaces(gone));
        place.map(|place| self.gone.swap_remove(place)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads processes given as id, parent and name. The id also determines the start time. Returns
    /// the number of replaced processes.
    fn look(restarts: &mut RestartDetector, processes: &[(u32, u32, &str)]) -> Option<u64> {
        let stat = |pid: u32, parent: u32, name: &str| {
            Stat::parse(&format!("{pid} ({name}) S {parent} 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 2 0 1{pid} 1000 7 0"))
                .unwrap()
        };
        let all: HashMap<u32, Stat> =
            processes.iter().map(|(pid, parent, name)| (*pid, stat(*pid, *parent, name))).collect();
        let pids: Vec<u32> = all.keys().copied().collect();
        let mut row = Sample::default();
        restarts.read(&pids, &all, &mut row);
        row.processes_replaced
    }

    const MASTER: (u32, u32, &str) = (10, 1, "master");

    #[test]
    fn a_restarted_worker_counts_as_replaced() {
        let mut restarts = RestartDetector::default();
        assert_eq!(look(&mut restarts, &[MASTER, (11, 10, "worker"), (12, 10, "worker")]), None, "no base yet");
        assert_eq!(look(&mut restarts, &[MASTER, (11, 10, "worker"), (12, 10, "worker")]), Some(0));
        assert_eq!(look(&mut restarts, &[MASTER, (12, 10, "worker"), (20, 10, "worker")]), Some(1));
        assert_eq!(look(&mut restarts, &[MASTER, (12, 10, "worker"), (20, 10, "worker")]), Some(0), "once");
    }

    #[test]
    fn a_worker_may_be_replaced_after_a_delay() {
        let mut restarts = RestartDetector::default();
        look(&mut restarts, &[MASTER, (11, 10, "worker")]);
        look(&mut restarts, &[MASTER, (11, 10, "worker")]);
        for _ in 0..3 {
            assert_eq!(look(&mut restarts, &[MASTER]), Some(0));
        }
        assert_eq!(look(&mut restarts, &[MASTER, (20, 10, "worker")]), Some(1));
    }

    #[test]
    fn per_request_processes_do_not_count_as_replaced() {
        let mut restarts = RestartDetector::default();
        look(&mut restarts, &[MASTER]);
        for pid in 20..30 {
            assert_eq!(look(&mut restarts, &[MASTER, (pid, 10, "cgi")]), Some(0));
        }
    }

    #[test]
    fn an_unrelated_process_is_no_replacement() {
        let mut restarts = RestartDetector::default();
        look(&mut restarts, &[MASTER, (11, 10, "worker")]);
        look(&mut restarts, &[MASTER, (11, 10, "worker")]);
        assert_eq!(look(&mut restarts, &[MASTER, (11, 10, "worker"), (12, 10, "worker")]), Some(0));
        assert_eq!(look(&mut restarts, &[MASTER, (12, 10, "worker"), (13, 12, "worker"), (14, 10, "logger")]), Some(0));
    }

    #[test]
    fn a_restarted_target_counts_no_replaced_workers() {
        let mut restarts = RestartDetector::default();
        look(&mut restarts, &[MASTER, (11, 10, "worker")]);
        look(&mut restarts, &[MASTER, (11, 10, "worker")]);
        assert_eq!(look(&mut restarts, &[(30, 1, "master"), (31, 30, "worker")]), Some(0));
    }

    #[test]
    fn replacements_are_counted_by_program() {
        let mut restarts = RestartDetector::default();
        look(&mut restarts, &[MASTER, (11, 10, "worker"), (12, 10, "logger")]);
        assert_eq!((restarts.replaced("worker"), restarts.replaced("")), (None, None), "no base yet");
        look(&mut restarts, &[MASTER, (11, 10, "worker"), (12, 10, "logger")]);
        look(&mut restarts, &[MASTER, (20, 10, "worker"), (12, 10, "logger")]);
        assert_eq!((restarts.replaced("worker"), restarts.replaced("logger")), (Some(1), Some(0)));
    }
}
