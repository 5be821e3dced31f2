//! What is left of a run: its processes, found by the mark in their environment and by their process groups, and ended.
//! It must not decide whether a run is over.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::linux::pidfd;
use crate::linux::procfs::{self, Stat};

/// Given to processes between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// Until a process that got SIGKILL is said to hang.
const PATIENCE: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(5);

/// How the processes of a run are told from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// `PLIMSOLL_RUN=…`, and what else is in the environment of every process meant; none: only the groups count.
    pub variables: Vec<String>,
    /// Process groups: the leader's pid, and when it started. They hold those that wrote over their environment.
    pub groups: Vec<(u32, u64)>,
}

impl Marks {
    /// Every process of the run that is alive, without ourselves and those that we come from.
    pub fn find(&self) -> Vec<Stat> {
        let all = procfs::alive();
        let groups: Vec<u32> =
            self.groups.iter().filter(|group| is_still(**group, &all)).map(|group| group.0).collect();
        let us = lineage(&all);
        all.into_iter()
            .filter(|stat| !us.contains(&stat.pid))
            .filter(|stat| groups.contains(&stat.group) || self.is_marked(stat))
            .collect()
    }

    fn is_marked(&self, stat: &Stat) -> bool {
        let has = |variable: &String| procfs::was_started_with(stat.pid, variable);
        !self.variables.is_empty() && self.variables.iter().all(has)
    }

    /// Ends them all: SIGTERM first if `gently`, then SIGKILL. What it ended, and what it could not.
    pub fn end(&self, gently: bool) -> (Vec<Stat>, Vec<Stat>) {
        let mut ended: Vec<Stat> = Vec::new();
        let left = if gently { self.signal_until(Signal::TERM, GRACE, &mut ended) } else { self.find() };
        if left.is_empty() {
            return (ended, left);
        }
        let left = self.signal_until(Signal::KILL, PATIENCE, &mut ended);
        ended.retain(|stat| !left.iter().any(|left| left.pid == stat.pid));
        (ended, left)
    }

    /// Signals what it finds, also what appears meanwhile, until nothing is left or the time is over.
    fn signal_until(&self, signal: Signal, within: Duration, seen: &mut Vec<Stat>) -> Vec<Stat> {
        let until = Instant::now() + within;
        let mut signalled: Vec<(u32, u64)> = Vec::new();
        loop {
            let found = self.find();
            for stat in &found {
                let who = (stat.pid, stat.started_ticks);
                if !signalled.contains(&who) {
                    pidfd::signal(stat, signal);
                    signalled.push(who);
                }
                if !seen.iter().any(|seen| (seen.pid, seen.started_ticks) == who) {
                    seen.push(stat.clone());
                }
            }
            if found.is_empty() || Instant::now() >= until {
                return found;
            }
            pidfd::await_end(found[0].pid, GLANCE);
        }
    }
}

/// This process, its parent, and so on.
fn lineage(all: &[Stat]) -> Vec<u32> {
    let mut line = vec![std::process::id()];
    let parent = |of: u32| all.iter().find(|stat| stat.pid == of).map(|stat| stat.parent);
    while let Some(parent) = line.last().and_then(|last| parent(*last))
        && parent != 0
        && !line.contains(&parent)
    {
        line.push(parent);
    }
    line
}

/// Whether the group is the one that was registered: the kernel gives its number to no new process while any member is
/// alive, so only a leader with another start time says that the number went to somebody else.
fn is_still((leader, started_ticks): (u32, u64), all: &[Stat]) -> bool {
    all.iter().find(|stat| stat.pid == leader).is_none_or(|stat| stat.started_ticks == started_ticks)
}
