//! What is left of a run: its processes, found by the mark in their environment and by their
//! process groups, and ended.

use std::fs;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::linux;
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
    /// Process groups. They hold those that wrote over their environment.
    pub groups: Vec<Group>,
}

/// The process group of a process that we started, which leads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The leader; also the group's number.
    pub pid: u32,
    /// When that started, clock ticks since boot.
    pub started_ticks: u64,
    /// The pipes that got its output, by their inodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipes: Vec<u64>,
}

impl Group {
    /// The group of a process that was started and not waited for yet: until then it is in /proc, dead or alive.
    pub fn of(pid: u32, pipes: Vec<u64>) -> Self {
        Self { pid, started_ticks: procfs::stat(pid).map_or(0, |stat| stat.started_ticks), pipes }
    }

    /// Whose of it are alive. `variables` are in the environment of each process that it began with.
    pub fn members(&self, variables: &[String]) -> Vec<Stat> {
        let all = procfs::alive();
        if !self.is_still_ours(&all, variables) {
            return Vec::new();
        }
        all.into_iter().filter(|stat| stat.group == self.pid).collect()
    }

    /// Whether the number is still that of this group. The kernel gives it to no new process while any member is alive, but once
    /// all are gone it may be that of others. So the leader is to be the one that we started; when it is gone, a member is to be
    /// one that it or its children started, which it shows by what it inherited: the mark, or the pipe for its output.
    fn is_still_ours(&self, all: &[Stat], variables: &[String]) -> bool {
        if let Some(leader) = procfs::stat(self.pid) {
            return leader.started_ticks == self.started_ticks;
        }
        let has_inherited = |stat: &Stat| is_marked(stat, variables) || self.writes_to_us(stat);
        all.iter().filter(|stat| stat.group == self.pid).any(has_inherited)
    }

    fn writes_to_us(&self, stat: &Stat) -> bool {
        let leads_to = |number: u32| fs::read_link(format!("/proc/{}/fd/{number}", stat.pid)).ok();
        let ours = |pipe: &u64| format!("pipe:[{pipe}]");
        let names: Vec<String> = self.pipes.iter().map(ours).collect();
        [1, 2]
            .into_iter()
            .filter_map(leads_to)
            .any(|to| to.to_str().is_some_and(|to| names.iter().any(|name| name == to)))
    }
}

/// A pipe's inode: no other pipe has it as long as one end is open.
pub fn pipe_inode(end: impl AsFd) -> Option<u64> {
    rustix::fs::fstat(end).ok().map(|found| found.st_ino)
}

/// Whether all of these are in the environment of a process; none are in none.
fn is_marked(stat: &Stat, variables: &[String]) -> bool {
    !variables.is_empty() && variables.iter().all(|variable| procfs::was_started_with(stat.pid, variable))
}

impl Marks {
    /// Every process of the run that is alive, without ourselves and those that we come from.
    pub fn find(&self) -> Vec<Stat> {
        let all = procfs::alive();
        let is_ours = |group: &&Group| group.is_still_ours(&all, &self.variables);
        let groups: Vec<u32> = self.groups.iter().filter(is_ours).map(|group| group.pid).collect();
        let us = lineage(&all);
        all.into_iter()
            .filter(|stat| !us.contains(&stat.pid))
            .filter(|stat| groups.contains(&stat.group) || is_marked(stat, &self.variables))
            .collect()
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
                    linux::signal(stat, signal);
                    signalled.push(who);
                }
                if !seen.iter().any(|seen| (seen.pid, seen.started_ticks) == who) {
                    seen.push(stat.clone());
                }
            }
            if found.is_empty() || Instant::now() >= until {
                return found;
            }
            linux::await_end(found[0].pid, GLANCE);
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
