//! What processes use: for each role of the target the process that the lab started, or that was found behind the target's address,
//! and all that came of it, added up; this program itself; and, in a host that Plimsoll made, all that run there. It must not know
//! how rows are timed or written.

mod shares;
mod staff;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use record::events::ProcessShare;
use record::rows::Sample;

use crate::linux::procfs::{self, Stat};
use crate::listeners::{Finder, ServerProcesses, Whereabouts};
use crate::sampling::{Proc, Source};
use crate::site::Member;
use shares::{Before, Shares};
use staff::Staff;

/// Of `/proc/stat` and `/proc/PID/stat`: USER_HZ, which is 100 wherever Linux runs today, whatever the kernel's own rate.
const TICKS_PER_S: f64 = 100.0;
/// With more threads than this in one tree they are not looked at one by one: their run delay and I/O wait stay empty.
const THREADS_MAX: u64 = 2000;

/// The trees of all roles, and what was read of them last time.
#[derive(Default)]
pub struct Forest {
    /// By host and role.
    trees: BTreeMap<(String, String), Tree>,
    /// This program.
    own: Tree,
    /// Everything but this program and the host's first process.
    whole: Tree,
    /// After the first reading, a process that was not there before has used all its time since.
    has_base: bool,
    /// Of every process.
    before: Before,
    sought: Option<Sought>,
    shares: Option<Shares>,
}

/// A target that is not, or not only, what the lab has started.
pub struct Sought {
    /// Finds its processes; `None` where there is no address to find them by.
    finder: Option<Finder>,
    /// Host and role of its row.
    name: (String, String),
    /// What was found last. A server that was found and does not listen any more is one that is down.
    pub found: Option<Whereabouts>,
}

impl Sought {
    /// Of whoever answers there, if that is known, by the name of its row: host and role.
    pub fn new(address: Result<SocketAddr, String>, name: (String, String)) -> Self {
        match address {
            Ok(address) => Self { finder: Some(Finder::new(address, std::process::id())), name, found: None },
            Err(why) => Self { finder: None, name, found: Some(Whereabouts::Unknown(why)) },
        }
    }

    fn look(&mut self, proc: &Proc, all: &HashMap<u32, Stat>) -> Option<ServerProcesses> {
        let was_here = matches!(self.found, Some(Whereabouts::Here(_)));
        if let Some(finder) = &mut self.finder {
            self.found = Some(match finder.look(proc, all) {
                Whereabouts::Unknown(_) if was_here => Whereabouts::Here(ServerProcesses::default()),
                found => found,
            });
        }
        match &self.found {
            Some(Whereabouts::Here(found)) => Some(found.clone()),
            _ => None,
        }
    }
}

/// What a reading found.
pub struct Reading {
    /// A row for each role that runs.
    pub roles: Vec<Sample>,
    /// One for this program, `process` being empty.
    pub own: Option<Sample>,
    /// CPU time of all that belongs to the run, user and system, percent of the machine.
    pub run: Option<(f64, f64)>,
}

/// Whose tree it is: what the lab has started, what was found, or both.
#[derive(Default)]
struct Roots {
    started: Option<u32>,
    found: ServerProcesses,
}

impl Forest {
    /// Also tells what the run and each other process of the machine used: of a target that has to be found, and beside a lab in
    /// this control group.
    pub fn share_out(&mut self, sought: Option<Sought>, lab: Option<String>) {
        (self.sought, self.shares) = (sought, Some(Shares::beside(lab)));
    }

    /// The target that has to be found.
    pub fn sought(&self) -> Option<&Sought> {
        self.sought.as_ref()
    }

    /// What each process of the target used so far, and each other one, the busiest first.
    pub fn told(&self) -> (Vec<ProcessShare>, Vec<ProcessShare>) {
        let told = |of_target: bool| self.shares.as_ref().map(|shares| shares.told(of_target)).unwrap_or_default();
        (told(true), told(false))
    }

    /// Reads the processes of `members` and this program. `host` gives time, and host of this program's row; where the
    /// source is a host that Plimsoll made, what runs there is added up into it.
    pub fn read(&mut self, source: &Source, members: &[Member], interval_s: f64, host: &mut Sample) -> Reading {
        let proc = &source.proc;
        let all: HashMap<u32, Stat> =
            procfs::numbers(proc.path()).into_iter().filter_map(|pid| Some((pid, stat(proc, pid)?))).collect();
        let scale = Scale { interval_s, cores: source.capacity().filter(|_| self.has_base) };
        let before = std::mem::take(&mut self.before);
        let mut scan = Scan { proc, all: &all, before: &before, threads: HashMap::new() };
        let row = |on: &str, process: &str| Sample {
            at_s: host.at_s,
            host: on.to_owned(),
            process: process.to_owned(),
            ..Sample::default()
        };
        let us = std::process::id();
        let roots = self.roots(proc, members, &all);
        self.trees.retain(|tree, _| roots.iter().any(|(name, _)| name == tree));
        let (mut roles, mut target) = (Vec::new(), HashSet::new());
        for (name, roots) in roots {
            let tree = self.trees.entry(name.clone()).or_default();
            let mut pids = descendants(&roots, us, &all, &tree.seen);
            let family: HashSet<u32> = pids.iter().copied().collect();
            pids.extend(roots.found.more.iter().filter(|pid| !family.contains(pid)));
            if !pids.is_empty() {
                let mut sample = row(&name.0, &name.1);
                tree.read(&mut scan, &pids, scale, &mut sample);
                // The others came with what they are beside, and go with it.
                tree.seen.retain(|pid, _| family.contains(pid));
                pids.retain(|pid| family.contains(pid));
                tree.staff.read(&pids, &all, &mut sample);
                roles.push(sample);
            }
            target.extend(family);
            target.extend(roots.found.more);
        }
        // Only itself: its children are the target.
        let own = all.contains_key(&us).then(|| {
            let mut sample = row(&host.host, "");
            self.own.own_only = true;
            self.own.read(&mut scan, &[us], scale, &mut sample);
            sample
        });
        if source.host.is_some() {
            // The first process of a host only waits for this one.
            let others: Vec<u32> = all.keys().copied().filter(|pid| *pid != us && *pid != 1).collect();
            self.whole.read(&mut scan, &others, scale, host);
            self.whole.read_io(&mut scan, &others, scale, host);
            // Pages that are shared are in there several times; the host's memory is in columns of its own.
            host.rss_bytes = None;
        }
        let run = self.shares.as_mut().and_then(|shares| {
            // Programs that are operations are its children, too.
            let ours = descendants(&Roots { started: Some(us), ..Roots::default() }, us, &all, &HashMap::new());
            shares.read(proc, &all, &before, (target.iter().copied().chain(ours).collect(), &target), scale)
        });
        self.before = all.iter().map(|(pid, stat)| (*pid, (stat.started_ticks, Ticks::of(stat)))).collect();
        self.has_base = true;
        Reading { roles, own, run }
    }

    /// Of each tree that there is now: those of the members, and the one that was found.
    fn roots(&mut self, proc: &Proc, members: &[Member], all: &HashMap<u32, Stat>) -> Vec<((String, String), Roots)> {
        let started = |member: &Member| {
            let roots = Roots { started: Some(member.pid), ..Roots::default() };
            ((member.host.clone(), member.role.clone()), roots)
        };
        let mut trees: Vec<((String, String), Roots)> = members.iter().map(started).collect();
        let Some(sought) = &mut self.sought else { return trees };
        let Some(found) = sought.look(proc, all) else { return trees };
        match trees.iter_mut().find(|(name, _)| *name == sought.name) {
            Some((_, roots)) => roots.found = found,
            None => trees.push((sought.name.clone(), Roots { started: None, found })),
        }
        trees
    }
}

/// One look at all processes.
struct Scan<'a> {
    proc: &'a Proc,
    all: &'a HashMap<u32, Stat>,
    before: &'a Before,
    /// Process to its threads, once they were looked at.
    threads: HashMap<u32, Vec<Thread>>,
}

struct Thread {
    number: u32,
    waits_for_disk: bool,
    run_delay_ns: Option<u64>,
}

impl Scan<'_> {
    fn threads(&mut self, pid: u32) -> &[Thread] {
        let proc = self.proc;
        self.threads.entry(pid).or_insert_with(|| {
            let threads = threads(proc, pid).into_iter().filter_map(|(number, folder)| {
                // A thread that ended meanwhile is none that waits.
                let stat = procfs::stat_at(&folder)?;
                let run_delay_ns = procfs::text(&folder.join("schedstat")).and_then(|text| run_delay_ns(&text));
                Some(Thread { number, waits_for_disk: stat.state == 'D', run_delay_ns })
            });
            threads.collect()
        })
    }
}

fn stat(proc: &Proc, pid: u32) -> Option<Stat> {
    procfs::stat_at(&proc.path().join(pid.to_string())).filter(|stat| !stat.is_dead())
}

/// The roots and all that came of them: children of children, the process group of what the lab has started, and what was in the
/// tree before and has been adopted by init since; but never `us`, unless that is what was started.
fn descendants(roots: &Roots, us: u32, all: &HashMap<u32, Stat>, seen: &HashMap<u32, u64>) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for stat in all.values() {
        children.entry(stat.parent).or_default().push(stat.pid);
    }
    let was_seen = |stat: &Stat| seen.get(&stat.pid) == Some(&stat.started_ticks);
    let is_started = |stat: &Stat| roots.started.is_some_and(|root| stat.pid == root || stat.group == root);
    let is_root = |stat: &&Stat| is_started(stat) || roots.found.roots.contains(&stat.pid) || was_seen(stat);
    let mut open: Vec<u32> = all.values().filter(is_root).map(|stat| stat.pid).collect();
    let mut found = HashSet::new();
    while let Some(pid) = open.pop() {
        if (pid != us || roots.started == Some(us)) && found.insert(pid) {
            open.extend(children.get(&pid).into_iter().flatten());
        }
    }
    let mut found: Vec<u32> = found.into_iter().collect();
    found.sort_unstable();
    found
}

#[derive(Clone, Copy)]
struct Scale {
    interval_s: f64,
    /// `None` also at the first reading, when there is nothing to scale yet.
    cores: Option<f64>,
}

/// What was read of a tree last time.
#[derive(Default)]
struct Tree {
    /// Pid to start: a pid alone is no name.
    seen: HashMap<u32, u64>,
    ticks: HashMap<u32, Ticks>,
    /// Thread to the time it waited for a CPU so far, nanoseconds.
    run_delay_ns: HashMap<u32, u64>,
    /// Who is there since when, and who went.
    staff: Staff,
    /// Process to bytes read and written so far.
    io_bytes: HashMap<u32, (u64, u64)>,
    /// Children that ended are somebody else's.
    own_only: bool,
}

/// CPU time of a process, user and system, and of those of its children that ended and were waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ticks {
    own: (u64, u64),
    children: (u64, u64),
}

impl Tree {
    fn read(&mut self, scan: &mut Scan<'_>, pids: &[u32], scale: Scale, row: &mut Sample) {
        let (proc, all) = (scan.proc, scan.all);
        let stats: Vec<&Stat> = pids.iter().filter_map(|pid| all.get(pid)).collect();
        row.threads = Some(stats.iter().map(|stat| stat.threads).sum());
        let page_bytes = rustix::param::page_size() as u64;
        // Pages that several processes share are counted for each of them.
        row.rss_bytes = Some(stats.iter().map(|stat| stat.resident_pages * page_bytes).sum());
        let joined = self.joined(scan.before, &stats);
        row.fds = stats.iter().map(|stat| open_files(&proc.path().join(stat.pid.to_string()))).sum();
        let ticks = stats.iter().map(|stat| (stat.pid, Ticks::of(stat))).collect();
        if let Some(cores) = scale.cores {
            let (user, system) = used(&self.ticks, &ticks, self.own_only);
            let percent = |ticks: u64| ticks as f64 / TICKS_PER_S / scale.interval_s / cores * 100.0;
            row.cpu_user_pct = Some(percent(user));
            row.cpu_system_pct = Some(percent(system));
        }
        self.ticks = ticks;
        self.seen = stats.iter().map(|stat| (stat.pid, stat.started_ticks)).collect();
        self.read_threads(scan, &stats, (scale, joined), row);
    }

    /// Those that were there before and were not known to be of this tree: what they had used by then is not the tree's.
    fn joined(&mut self, before: &Before, stats: &[&Stat]) -> BTreeSet<u32> {
        let mut joined = BTreeSet::new();
        for stat in stats {
            let then = before.get(&stat.pid).filter(|(started, _)| *started == stat.started_ticks);
            if let (Some((_, ticks)), Entry::Vacant(free)) = (then, self.ticks.entry(stat.pid)) {
                free.insert(*ticks);
                joined.insert(stat.pid);
            }
        }
        joined
    }

    fn read_threads(
        &mut self,
        scan: &mut Scan<'_>,
        stats: &[&Stat],
        (scale, joined): (Scale, BTreeSet<u32>),
        row: &mut Sample,
    ) {
        let mut delays = HashMap::new();
        let mut waiting = 0;
        let mut has_schedstat = true;
        if row.threads.is_some_and(|threads| threads <= THREADS_MAX) {
            for stat in stats {
                for thread in scan.threads(stat.pid) {
                    waiting += u64::from(thread.waits_for_disk);
                    match thread.run_delay_ns {
                        Some(delay_ns) => {
                            delays.insert(thread.number, delay_ns);
                            if joined.contains(&stat.pid) {
                                self.run_delay_ns.insert(thread.number, delay_ns);
                            }
                        }
                        None => has_schedstat = false,
                    }
                }
            }
            row.io_wait_threads = Some(waiting);
            if scale.cores.is_some() && has_schedstat {
                let waited_ns: u64 = delays
                    .iter()
                    .map(|(thread, now)| now.saturating_sub(self.run_delay_ns.get(thread).copied().unwrap_or(0)))
                    .sum();
                row.run_delay_pct = Some(waited_ns as f64 / 1e9 / scale.interval_s * 100.0);
            }
        }
        self.run_delay_ns = delays;
    }

    /// What the processes had read from disks, and what they caused to be written, whenever that comes to pass. What one
    /// that ended had done since the last reading is lost.
    fn read_io(&mut self, scan: &mut Scan<'_>, pids: &[u32], scale: Scale, row: &mut Sample) {
        let folder = |pid: &u32| scan.proc.path().join(pid.to_string());
        let now: HashMap<u32, (u64, u64)> =
            pids.iter().filter_map(|pid| Some((*pid, io_bytes(&procfs::text(&folder(pid).join("io"))?)?))).collect();
        if scale.cores.is_some() && !now.is_empty() {
            let (mut read, mut written) = (0, 0);
            for (pid, (read_now, written_now)) in &now {
                let (read_before, written_before) = self.io_bytes.get(pid).copied().unwrap_or_default();
                read += read_now.saturating_sub(read_before);
                written += written_now.saturating_sub(written_before);
            }
            (row.disk_read_bytes, row.disk_write_bytes) = (Some(read), Some(written));
        }
        self.io_bytes = now;
    }
}

impl Ticks {
    fn of(stat: &Stat) -> Self {
        Self {
            own: (stat.user_ticks, stat.system_ticks),
            children: (stat.children_user_ticks, stat.children_system_ticks),
        }
    }
}

/// Ticks used since last time, user and system. A child that ended and was waited for is in its parent's account now, with
/// all it ever used; what it had used by last time is taken off again.
fn used(before: &HashMap<u32, Ticks>, now: &HashMap<u32, Ticks>, own_only: bool) -> (u64, u64) {
    let one = |pick: fn(&Ticks) -> (u64, u64)| {
        let (mut own, mut children, mut gone) = (0, 0, 0);
        for (pid, ticks) in now {
            let (own_now, children_now) = pick(ticks);
            let (own_before, children_before) = before.get(pid).map_or((0, 0), pick);
            own += own_now.saturating_sub(own_before);
            children += children_now.saturating_sub(children_before);
        }
        for (_, ticks) in before.iter().filter(|(pid, _)| !now.contains_key(pid)) {
            let (own_before, children_before) = pick(ticks);
            gone += own_before + children_before;
        }
        own + if own_only { 0 } else { u64::saturating_sub(children, gone) }
    };
    (one(|ticks| (ticks.own.0, ticks.children.0)), one(|ticks| (ticks.own.1, ticks.children.1)))
}

fn threads(proc: &Proc, pid: u32) -> Vec<(u32, PathBuf)> {
    let folder = proc.path().join(pid.to_string()).join("task");
    procfs::numbers(&folder).into_iter().map(|thread| (thread, folder.join(thread.to_string()))).collect()
}

/// The second figure of `/proc/PID/task/TID/schedstat`.
fn run_delay_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// `/proc/PID/io`. What was written and then thrown away, before it got to the disk, is taken off.
fn io_bytes(io: &str) -> Option<(u64, u64)> {
    let figure = |name: &str| io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Some((figure("read_bytes:")?, figure("write_bytes:")?.saturating_sub(figure("cancelled_write_bytes:")?)))
}

/// Open file descriptors. Many are not counted one by one: since Linux 6.2 the folder's size is their number (before, it
/// is 0), give or take the threads that wait in `accept`, for which a number is taken already.
fn open_files(process: &Path) -> Option<u64> {
    const MANY: u64 = 256;
    let folder = process.join("fd");
    match fs::metadata(&folder).ok()?.len() {
        0..MANY => fs::read_dir(&folder).ok().map(|files| files.flatten().count() as u64),
        count => Some(count),
    }
}

#[cfg(test)]
mod tests;
