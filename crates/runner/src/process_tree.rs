//! Resource use of processes: per role of the target, of this program and, in a virtual host, of
//! all processes together. A role's process tree starts at the process that the lab started, or at
//! the processes found behind the target's address.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use linux::procfs::{self, Stat};
use record::events::ProcessShare;
use record::rows::{ProgramSample, Sample};

use crate::external_target::ExternalTarget;
use crate::ports::ServerProcesses;
use crate::restart_detector::RestartDetector;
use crate::sample_source::{ProcDir, SampleSource};

/// A process of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub host: String,
    pub role: String,
    /// Process id on this machine.
    pub pid: u32,
    /// Programs in the process tree that have their own samples.
    pub programs: Vec<String>,
}

/// Unit of `/proc/stat` and `/proc/PID/stat`: USER_HZ, which is 100 on all current Linux systems,
/// whatever the kernel's own rate.
pub const TICKS_PER_S: f64 = 100.0;
/// Maximum number of threads of a tree that are read one by one. With more, their figures stay
/// empty.
pub(crate) const THREADS_MAX: u64 = 2000;

/// Number of tree readings per reading of the proportional set size (PSS), starting with the
/// second. For a PSS, the kernel walks all pages.
const PSS_EVERY: u32 = 5;

/// Process trees of all roles, and their last readings.
#[derive(Default)]
pub struct ProcessForest {
    /// Trees by host and role.
    trees: BTreeMap<(String, String), TreeSnapshot>,
    /// Number of readings so far.
    readings: u32,
    /// Last reading of this program.
    own: TreeSnapshot,
    /// Last reading of all processes except this program and the host's first process.
    whole: TreeSnapshot,
    /// Whether there was an earlier reading. If so, a new process used all its CPU time since that
    /// reading.
    has_base: bool,
    /// CPU time of every process at the last reading.
    before: LastTicks,
    sought: Option<ExternalTarget>,
    shares: Option<CpuShares>,
}

/// Result of a reading.
pub struct TreeReading {
    /// One row per running role.
    pub roles: Vec<Sample>,
    /// One row per program that has its own samples.
    pub programs: Vec<ProgramSample>,
    /// Row of this program, with `process` empty.
    pub own: Option<Sample>,
    /// User and system CPU time of all processes of the run, percent of the machine.
    pub run: Option<(f64, f64)>,
    /// CPU time of programs that run as operations, percent of the machine.
    pub operations_pct: Option<f64>,
}

/// Roots of a tree: the process that the lab started, the processes found by address, or both.
#[derive(Default)]
struct TreeRoots {
    started: Option<u32>,
    found: ServerProcesses,
}

impl ProcessForest {
    /// Enables measurement of CPU time of the run and of each other process of the machine.
    /// `sought` is a target whose processes must be found. `lab` is the lab's control group.
    pub fn share_out(&mut self, sought: Option<ExternalTarget>, lab: Option<String>) {
        (self.sought, self.shares) = (sought, Some(CpuShares::beside(lab)));
    }

    /// Returns the target whose processes must be found.
    pub fn sought(&self) -> Option<&ExternalTarget> {
        self.sought.as_ref()
    }

    /// Returns the CPU use so far of the target's processes, and that of other processes. Each list
    /// is busiest first.
    pub fn told(&self) -> (Vec<ProcessShare>, Vec<ProcessShare>) {
        self.shares.as_ref().map(|shares| (shares.told(true), shares.told(false))).unwrap_or_default()
    }

    /// Returns the CPU time of processes outside the run that started and ended between two
    /// readings, percent of the machine.
    pub fn short_lived_pct(&self) -> Option<f64> {
        self.shares.as_ref().and_then(CpuShares::short_lived_pct)
    }

    /// Reads the processes of `members` and this program. `host` provides the time, and the host
    /// name of this program's row. For a virtual host, adds the use of all its processes to `host`.
    pub fn read(
        &mut self,
        source: &SampleSource,
        members: &[Member],
        interval_s: f64,
        host: &mut Sample,
    ) -> TreeReading {
        let proc = &source.proc;
        let all = all_of(proc);
        let cores = source.capacity().filter(|_| self.has_base);
        let scale = Scale { interval_s, cores, core_speed: source.core_speed() };
        let before = std::mem::take(&mut self.before);
        // Without `task_delayacct` the kernel reports 0.
        let counts_io_delay = proc.text("sys/kernel/task_delayacct").is_some_and(|text| text.trim() == "1");
        let mut scan = ProcessScan { proc, all: &all, before: &before, counts_io_delay, threads: HashMap::new() };
        let at_s = host.at_s;
        let us = std::process::id();
        let roots = self.roots(proc, members, &all);
        self.trees.retain(|tree, _| roots.iter().any(|(name, _)| name == tree));
        let (mut roles, mut programs, mut target) = (Vec::new(), Vec::new(), HashSet::new());
        self.readings = self.readings.wrapping_add(1);
        for (name, roots) in roots {
            let tree = self.trees.entry(name.clone()).or_default();
            let mut pids = descendants(&roots, us, &all, &tree.seen);
            let family: HashSet<u32> = pids.iter().copied().collect();
            pids.extend(roots.found.more.iter().filter(|pid| !family.contains(pid)));
            if !pids.is_empty() {
                let (host, process) = name.clone();
                let mut sample = Sample { at_s, host, process, ..Sample::default() };
                tree.read(&mut scan, &pids, scale, &mut sample);
                // Other processes in `pids` belong to the target only while the family does. They
                // are neither remembered as part of the tree nor counted as restarts.
                tree.seen.retain(|pid, _| family.contains(pid));
                pids.retain(|pid| family.contains(pid));
                tree.restarts.read(&pids, &all, &mut sample);
                let member = members.iter().find(|member| (&member.host, &member.role) == (&name.0, &name.1));
                let now = (scale, self.readings, at_s);
                programs.extend(member.into_iter().flat_map(|of| tree.read_programs(&mut scan, &pids, now, of)));
                roles.push(sample);
            }
            target.extend(family);
            target.extend(roots.found.more);
        }
        // Excludes this program's children, which belong to the target.
        let own = all.contains_key(&us).then(|| {
            let mut sample = Sample { at_s, host: host.host.clone(), ..Sample::default() };
            self.own.own_only = true;
            self.own.read(&mut scan, &[us], scale, &mut sample);
            sample
        });
        if source.host.is_some() {
            // The host's first process only waits for this program.
            let others: Vec<u32> = all.keys().copied().filter(|pid| *pid != us && *pid != 1).collect();
            self.whole.read(&mut scan, &others, scale, host);
            self.whole.read_io(&mut scan, &others, scale, host);
            // The sum would count shared pages several times. Other columns hold the host's memory.
            host.rss_bytes = None;
        }
        let run = self.shares.as_mut().and_then(|shares| {
            // Programs that run as operations are also children of this program.
            let run = target.iter().copied().chain(tree_of(us, &all)).collect();
            shares.read(proc, &all, &before, (run, &target), scale)
        });
        let operations_pct = run.as_ref().and_then(|run| run.operations_pct(own.iter().chain(&roles)));
        self.before = all.iter().map(|(pid, stat)| (*pid, (stat.started_ticks, ProcessTicks::of(stat)))).collect();
        self.has_base = true;
        TreeReading { roles, programs, own, run: run.map(|run| (run.user_pct, run.system_pct)), operations_pct }
    }

    /// Returns the roots of each current tree: those of the members and of the target found by
    /// address.
    fn roots(
        &mut self,
        proc: &ProcDir,
        members: &[Member],
        all: &HashMap<u32, Stat>,
    ) -> Vec<((String, String), TreeRoots)> {
        let mut trees = Vec::new();
        for member in members {
            let roots = TreeRoots { started: Some(member.pid), ..TreeRoots::default() };
            trees.push(((member.host.clone(), member.role.clone()), roots));
        }
        let Some(sought) = &mut self.sought else { return trees };
        let pids: Vec<u32> = members.iter().map(|member| member.pid).collect();
        let Some(found) = sought.look(proc, all, &pids) else { return trees };
        match trees.iter_mut().find(|(name, _)| *name == sought.name) {
            Some((_, roots)) => roots.found = found,
            None => trees.push((sought.name.clone(), TreeRoots { started: None, found })),
        }
        trees
    }
}

/// One reading of all processes.
struct ProcessScan<'a> {
    proc: &'a ProcDir,
    all: &'a HashMap<u32, Stat>,
    before: &'a LastTicks,
    counts_io_delay: bool,
    /// Threads of each process that has been read.
    threads: HashMap<u32, Vec<TrackedThread>>,
}

struct TrackedThread {
    number: u32,
    waits_for_disk: bool,
    has_schedstat: bool,
    times: ThreadTimes,
}

/// CPU and wait time of a thread so far.
#[derive(Debug, Clone, Copy, Default)]
struct ThreadTimes {
    cpu_ticks: u64,
    run_delay_ns: u64,
    io_delay_ticks: u64,
}

impl ProcessScan<'_> {
    fn threads(&mut self, pid: u32) -> &[TrackedThread] {
        let proc = self.proc;
        self.threads.entry(pid).or_insert_with(|| {
            let threads = threads(proc, pid).into_iter().filter_map(|(number, folder)| {
                // Without `stat`, the thread has ended, so it does not wait.
                let stat = procfs::stat_at(&folder)?;
                let run_delay_ns = procfs::text(&folder.join("schedstat"))
                    .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse().ok());
                let times = ThreadTimes {
                    cpu_ticks: stat.user_ticks + stat.system_ticks,
                    run_delay_ns: run_delay_ns.unwrap_or_default(),
                    io_delay_ticks: stat.io_delay_ticks.unwrap_or_default(),
                };
                let has_schedstat = run_delay_ns.is_some();
                Some(TrackedThread { number, waits_for_disk: stat.state == 'D', has_schedstat, times })
            });
            threads.collect()
        })
    }
}

/// Returns all processes that are not dead.
fn all_of(proc: &ProcDir) -> HashMap<u32, Stat> {
    let folders = procfs::numbers(proc.path()).into_iter().map(|pid| proc.path().join(pid.to_string()));
    let alive = folders.filter_map(|folder| procfs::stat_at(&folder)).filter(|stat| !stat.is_dead());
    alive.map(|stat| (stat.pid, stat)).collect()
}

/// Returns the process `root`, which this program started, and its descendants in `all`.
pub(crate) fn tree_of(root: u32, all: &HashMap<u32, Stat>) -> Vec<u32> {
    let roots = TreeRoots { started: Some(root), ..TreeRoots::default() };
    descendants(&roots, std::process::id(), all, &HashMap::new())
}

/// Returns the roots and their descendants: children at any depth, the process group of the started
/// process, and earlier members of the tree that init has adopted. Excludes `us`, unless it is the
/// started process.
fn descendants(roots: &TreeRoots, us: u32, all: &HashMap<u32, Stat>, seen: &HashMap<u32, u64>) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut open = Vec::new();
    for stat in all.values() {
        children.entry(stat.parent).or_default().push(stat.pid);
        let is_started = roots.started.is_some_and(|root| stat.pid == root || stat.group == root);
        let was_seen = seen.get(&stat.pid) == Some(&stat.started_ticks);
        if is_started || was_seen || roots.found.roots.contains(&stat.pid) {
            open.push(stat.pid);
        }
    }
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
    /// Number of cores that count as 100 %. `None` if unknown, as at the first reading.
    cores: Option<f64>,
    /// Speed of one core, in cores of the machine.
    core_speed: f64,
}

impl Scale {
    fn cpu_pct(self, ticks: u64, cores: f64) -> f64 {
        ticks as f64 / TICKS_PER_S / self.interval_s / cores * 100.0
    }

    fn time_pct(self, time_s: f64) -> f64 {
        time_s / self.interval_s * 100.0
    }
}

/// Last reading of a tree.
#[derive(Default)]
struct TreeSnapshot {
    /// Start times by process id. A process id can be reused, so only id and start time together
    /// identify a process.
    seen: HashMap<u32, u64>,
    ticks: HashMap<u32, ProcessTicks>,
    /// CPU and wait times by thread id.
    threads: HashMap<u32, ThreadTimes>,
    /// Processes of the tree and their restarts.
    restarts: RestartDetector,
    /// Readings of programs in the tree.
    programs: BTreeMap<String, TreeSnapshot>,
    /// Bytes read and written so far, by process.
    io_bytes: HashMap<u32, (u64, u64)>,
    /// Whether to ignore the CPU time of ended children, because they belong to another tree.
    own_only: bool,
}

/// User and system CPU time of a process, and of its children that ended and were waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ProcessTicks {
    own: (u64, u64),
    children: (u64, u64),
}

impl TreeSnapshot {
    fn read(&mut self, scan: &mut ProcessScan<'_>, pids: &[u32], scale: Scale, row: &mut Sample) {
        let (proc, all) = (scan.proc, scan.all);
        let stats: Vec<&Stat> = pids.iter().filter_map(|pid| all.get(pid)).collect();
        row.threads = Some(stats.iter().map(|stat| stat.threads).sum());
        let page_bytes = rustix::param::page_size() as u64;
        // Pages shared by several processes are counted for each of them.
        row.rss_bytes = Some(stats.iter().map(|stat| stat.resident_pages * page_bytes).sum());
        let joined = self.joined(scan.before, &stats);
        row.fds = stats.iter().map(|stat| open_files(&proc.path().join(stat.pid.to_string()))).sum();
        let ticks = stats.iter().map(|stat| (stat.pid, ProcessTicks::of(stat))).collect();
        if let Some(cores) = scale.cores {
            let (user, system) = used(&self.ticks, &ticks, self.own_only);
            row.cpu_user_pct = Some(scale.cpu_pct(user, cores));
            row.cpu_system_pct = Some(scale.cpu_pct(system, cores));
        }
        self.ticks = ticks;
        self.seen = stats.iter().map(|stat| (stat.pid, stat.started_ticks)).collect();
        self.read_threads(scan, &stats, (scale, joined), row);
    }

    /// Reads each program of a tree that has its own samples.
    fn read_programs(
        &mut self,
        scan: &mut ProcessScan<'_>,
        tree: &[u32],
        (scale, reading, at_s): (Scale, u32, f64),
        member: &Member,
    ) -> Vec<ProgramSample> {
        let mut rows = Vec::new();
        for program in &member.programs {
            let row = ProgramSample {
                at_s,
                host: member.host.clone(),
                process: member.role.clone(),
                program: program.clone(),
                processes_replaced: self.restarts.replaced(program),
                ..ProgramSample::default()
            };
            let snapshot = self.programs.entry(program.clone()).or_default();
            rows.push(snapshot.read_program(scan, tree, (scale, reading), row));
        }
        rows
    }

    /// Reads the processes of a tree that run a program, without their children.
    fn read_program(
        &mut self,
        scan: &mut ProcessScan<'_>,
        tree: &[u32],
        (scale, reading): (Scale, u32),
        row: ProgramSample,
    ) -> ProgramSample {
        let stats = tree.iter().filter_map(|pid| scan.all.get(pid));
        let stats = stats.filter(|stat| procfs::runs_program(scan.proc.path(), stat, &row.program));
        let pids: Vec<u32> = stats.map(|stat| stat.pid).collect();
        let mut read = Sample::default();
        self.own_only = true;
        self.read(scan, &pids, scale, &mut read);
        let pss = pids.iter().map(|pid| pss_bytes(&scan.proc.text(&format!("{pid}/smaps_rollup"))?));
        let is_due = reading % PSS_EVERY == 2;
        ProgramSample {
            processes: Some(pids.len() as u64),
            cpu_user_pct: read.cpu_user_pct,
            cpu_system_pct: read.cpu_system_pct,
            rss_bytes: read.rss_bytes,
            pss_bytes: if is_due { pss.sum() } else { None },
            threads: read.threads,
            ..row
        }
    }

    /// Returns the processes that existed at the last reading but were not in this tree. Their
    /// earlier use does not count for the tree.
    fn joined(&mut self, before: &LastTicks, stats: &[&Stat]) -> BTreeSet<u32> {
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
        scan: &mut ProcessScan<'_>,
        stats: &[&Stat],
        (scale, joined): (Scale, BTreeSet<u32>),
        row: &mut Sample,
    ) {
        let mut now: HashMap<u32, ThreadTimes> = HashMap::new();
        let mut waiting = 0;
        let mut has_schedstat = true;
        if row.threads.is_some_and(|threads| threads <= THREADS_MAX) {
            for stat in stats {
                for thread in scan.threads(stat.pid) {
                    waiting += u64::from(thread.waits_for_disk);
                    has_schedstat &= thread.has_schedstat;
                    now.insert(thread.number, thread.times);
                    if joined.contains(&stat.pid) {
                        self.threads.insert(thread.number, thread.times);
                    }
                }
            }
            row.io_wait_threads = Some(waiting);
            if scale.cores.is_some() {
                self.fill(&now, scale, (has_schedstat, scan.counts_io_delay), row);
            }
        }
        self.threads = now;
    }

    /// Fills in the threads' CPU and wait times since the last reading, if the kernel counts them.
    fn fill(
        &self,
        now: &HashMap<u32, ThreadTimes>,
        scale: Scale,
        (has_run_delay, has_io_delay): (bool, bool),
        row: &mut Sample,
    ) {
        if has_run_delay {
            let waited_ns: u64 = self.grown(now, |times| times.run_delay_ns).sum();
            row.run_delay_pct = Some(scale.time_pct(waited_ns as f64 / 1e9));
        }
        if has_io_delay {
            let waited_ticks: u64 = self.grown(now, |times| times.io_delay_ticks).sum();
            row.io_delay_pct = Some(scale.time_pct(waited_ticks as f64 / TICKS_PER_S));
        }
        let busiest = self.grown(now, |times| times.cpu_ticks).max();
        row.busiest_thread_pct = busiest.map(|ticks| scale.time_pct(ticks as f64 / TICKS_PER_S / scale.core_speed));
    }

    /// Returns each thread's time since the last reading.
    fn grown(&self, now: &HashMap<u32, ThreadTimes>, of: fn(&ThreadTimes) -> u64) -> impl Iterator<Item = u64> {
        now.iter().map(move |(thread, now)| of(now).saturating_sub(self.threads.get(thread).map_or(0, of)))
    }

    /// Reads the bytes that the processes read from disks and caused to be written, even if the
    /// write happens later. Misses what an ended process read and wrote after the last reading.
    fn read_io(&mut self, scan: &mut ProcessScan<'_>, pids: &[u32], scale: Scale, row: &mut Sample) {
        let now: HashMap<u32, (u64, u64)> =
            pids.iter().filter_map(|pid| Some((*pid, io_bytes(&scan.proc.text(&format!("{pid}/io"))?)?))).collect();
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

impl ProcessTicks {
    fn of(stat: &Stat) -> Self {
        Self {
            own: (stat.user_ticks, stat.system_ticks),
            children: (stat.children_user_ticks, stat.children_system_ticks),
        }
    }
}

/// Returns the user and system ticks used since the last reading. The account of a parent includes
/// the whole use of a child that ended and was waited for. The child's use up to the last reading
/// is therefore subtracted.
fn used(before: &HashMap<u32, ProcessTicks>, now: &HashMap<u32, ProcessTicks>, own_only: bool) -> (u64, u64) {
    let mut used = (0, 0);
    let mut of_children = (0, 0);
    for (pid, ticks) in now {
        let then = before.get(pid).copied().unwrap_or_default();
        used.0 += ticks.own.0.saturating_sub(then.own.0);
        used.1 += ticks.own.1.saturating_sub(then.own.1);
        of_children.0 += ticks.children.0.saturating_sub(then.children.0);
        of_children.1 += ticks.children.1.saturating_sub(then.children.1);
    }
    if own_only {
        return used;
    }
    let gone = before.iter().filter(|(pid, _)| !now.contains_key(pid));
    let gone = gone.fold((0, 0), |sum: (u64, u64), (_, ticks)| {
        (sum.0 + ticks.own.0 + ticks.children.0, sum.1 + ticks.own.1 + ticks.children.1)
    });
    (used.0 + of_children.0.saturating_sub(gone.0), used.1 + of_children.1.saturating_sub(gone.1))
}

/// Returns the user and system ticks that the processes in `is` used since the last reading. `was`
/// is the set at the last reading.
fn used_by(
    (all, before): (&HashMap<u32, Stat>, &LastTicks),
    was: &HashSet<u32>,
    is: &HashSet<u32>,
    own_only: bool,
) -> (u64, u64) {
    let then = before.iter().filter(|(pid, (started, _))| match all.get(pid) {
        Some(stat) => is.contains(pid) && stat.started_ticks == *started,
        // The parent's account now includes the time of ended processes.
        None => was.contains(pid),
    });
    let then = then.map(|(pid, (_, ticks))| (*pid, *ticks)).collect();
    let now = is.iter().filter_map(|pid| Some((*pid, ProcessTicks::of(all.get(pid)?)))).collect();
    used(&then, &now, own_only)
}

fn threads(proc: &ProcDir, pid: u32) -> Vec<(u32, PathBuf)> {
    let folder = proc.path().join(pid.to_string()).join("task");
    procfs::numbers(&folder).into_iter().map(|thread| (thread, folder.join(thread.to_string()))).collect()
}

/// Parses `/proc/PID/io`. Subtracts data that was discarded before it was written to disk.
fn io_bytes(io: &str) -> Option<(u64, u64)> {
    let figures: HashMap<&str, &str> = io.lines().filter_map(|line| line.split_once(": ")).collect();
    let [read, written, cancelled] = ["read_bytes", "write_bytes", "cancelled_write_bytes"]
        .map(|name| figures.get(name)?.trim().parse::<u64>().ok());
    Some((read?, written?.saturating_sub(cancelled?)))
}

/// Parses `/proc/PID/smaps_rollup`. The file's unit is called kB but is KiB.
fn pss_bytes(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Returns the number of open file descriptors. Large numbers are taken from the size of the `fd`
/// folder, which equals the number since Linux 6.2 and was 0 before. The size also counts
/// descriptors reserved by threads that wait in `accept`.
fn open_files(process: &Path) -> Option<u64> {
    const MANY: u64 = 256;
    let folder = process.join("fd");
    match fs::metadata(&folder).ok()?.len() {
        0..MANY => fs::read_dir(&folder).ok().map(|files| files.flatten().count() as u64),
        count => Some(count),
    }
}

// Attribution of this machine's CPU time: to the run as a whole, and to each other process.

/// Maximum number of processes per list, busiest first.
const TOLD: usize = 16;

/// Last reading of all processes, and the CPU time of each since the first reading.
#[derive(Default)]
pub struct CpuShares {
    /// Control group of the lab. Processes in it are accounted for elsewhere.
    lab: Option<String>,
    /// Processes of the run at the last reading.
    run: HashSet<u32>,
    /// Processes of the run that are in the lab.
    in_lab: HashSet<u32>,
    /// Processes outside the run.
    others: HashSet<u32>,
    /// Accounts of the target's and of other busy processes, by process id and start time.
    accounts: BTreeMap<(u32, u64), RoleAccount>,
    /// CPU time of other processes that started and ended between two readings.
    short_lived_ticks: u64,
    time_s: f64,
    cores: f64,
}

#[derive(Default)]
struct RoleAccount {
    name: String,
    ticks: u64,
    is_target: bool,
}

/// CPU time of the run since the last reading, percent of the machine.
struct RunShare {
    user_pct: f64,
    system_pct: f64,
    /// CPU time of the lab's processes.
    lab_pct: f64,
}

impl RunShare {
    /// Returns the CPU time of programs that run as operations: that of the run minus that of this
    /// program, the target and the lab. `rows` contains the rows of this program and of the target.
    fn operations_pct<'a>(&self, rows: impl Iterator<Item = &'a Sample>) -> Option<f64> {
        let known = rows.map(|row| Some(row.cpu_user_pct? + row.cpu_system_pct?)).sum::<Option<f64>>()?;
        Some((self.user_pct + self.system_pct - self.lab_pct - known).max(0.0))
    }
}

/// CPU time of all processes at the last reading: start time and ticks by process id.
type LastTicks = HashMap<u32, (u64, ProcessTicks)>;

impl CpuShares {
    pub fn beside(lab: Option<String>) -> Self {
        Self { lab, ..Self::default() }
    }

    /// Returns the run's CPU time since the last reading, or `None` at the first reading. `run` has
    /// all pids of the run, `target` those of the target.
    fn read(
        &mut self,
        proc: &ProcDir,
        all: &HashMap<u32, Stat>,
        before: &LastTicks,
        (run, target): (HashSet<u32>, &HashSet<u32>),
        scale: Scale,
    ) -> Option<RunShare> {
        let in_lab = self.in_lab(proc, all);
        let others: HashSet<u32> = all.keys().filter(|pid| !run.contains(pid)).copied().collect();
        let (user, system) = used_by((all, before), &self.run, &run, false);
        let lab = used_by((all, before), &self.in_lab, &in_lab, false);
        let with_children = used_by((all, before), &self.others, &others, false);
        let without = used_by((all, before), &self.others, &others, true);
        let ended = (with_children.0 + with_children.1).saturating_sub(without.0 + without.1);
        (self.run, self.in_lab, self.others) = (run, in_lab, others);
        let cores = scale.cores?;
        (self.time_s, self.cores) = (self.time_s + scale.interval_s, cores);
        self.short_lived_ticks += ended;
        for stat in all.values() {
            self.note(proc, stat, before, target.contains(&stat.pid));
        }
        Some(RunShare {
            user_pct: scale.cpu_pct(user, cores),
            system_pct: scale.cpu_pct(system, cores),
            lab_pct: scale.cpu_pct(lab.0 + lab.1, cores),
        })
    }

    /// Returns the children of this program that are hosts of the lab, and their descendants.
    fn in_lab(&self, proc: &ProcDir, all: &HashMap<u32, Stat>) -> HashSet<u32> {
        let us = std::process::id();
        let hosts = all.values().filter(|stat| stat.parent == us && self.is_labs(proc, stat.pid));
        hosts.flat_map(|stat| tree_of(stat.pid, all)).collect()
    }

    fn is_labs(&self, proc: &ProcDir, pid: u32) -> bool {
        self.lab.as_ref().is_some_and(|lab| {
            let groups = proc.text(&format!("{pid}/cgroup")).unwrap_or_default();
            groups.split(['/', '\n']).any(|name| name == lab)
        })
    }

    /// Adds the CPU time of a process, without its children.
    fn note(&mut self, proc: &ProcDir, stat: &Stat, before: &LastTicks, is_target: bool) {
        if self.run.contains(&stat.pid) && !is_target {
            return;
        }
        let then = before.get(&stat.pid).filter(|(started, _)| *started == stat.started_ticks);
        let then = then.map_or(0, |(_, then)| then.own.0 + then.own.1);
        let used = (stat.user_ticks + stat.system_ticks).saturating_sub(then);
        if (used == 0 && !is_target) || self.is_labs(proc, stat.pid) {
            return;
        }
        let account = self.accounts.entry((stat.pid, stat.started_ticks)).or_default();
        account.ticks += used;
        account.is_target = is_target;
        // The process may have executed another program since the last reading.
        account.name.clone_from(&stat.name);
    }

    pub fn short_lived_pct(&self) -> Option<f64> {
        (self.time_s > 0.0).then(|| self.percent(self.short_lived_ticks))
    }

    fn percent(&self, ticks: u64) -> f64 {
        (ticks as f64 / TICKS_PER_S / self.time_s / self.cores * 10_000.0).round() / 100.0
    }

    /// Returns the processes of the target, or the other processes that used CPU time, busiest
    /// first.
    pub fn told(&self, of_target: bool) -> Vec<ProcessShare> {
        let accounts = self.accounts.iter().filter(|(_, account)| account.is_target == of_target);
        let mut shares = Vec::new();
        for ((pid, _), account) in accounts {
            let cpu_pct = self.percent(account.ticks);
            shares.push(ProcessShare { name: account.name.clone(), pid: *pid, cpu_pct });
        }
        shares.sort_by(|a, b| b.cpu_pct.total_cmp(&a.cpu_pct).then(a.pid.cmp(&b.pid)));
        shares.truncate(TOLD);
        shares
    }
}

#[cfg(test)]
mod tests {
    use experiment::plan::AlsoTarget;
    use fixture::TestDir;

    use super::*;
    use crate::control_groups::Usage;
    use crate::ports::TargetLocation;
    use crate::sample_source::HostBounds;

    /// Returns a line of `/proc/PID/stat` as in Linux 6. 22 figures after the state are enough.
    fn stat_line(
        pid: u32,
        parent: u32,
        group: u32,
        (user, system): (u64, u64),
        (children_user, children_system): (u64, u64),
    ) -> String {
        format!(
            "{pid} (a (b) c) S {parent} {group} 1 0 -1 4194304 1 0 0 0 {user} {system} {children_user} {children_system} 20 0 2 0 1{pid} 1000 7 18446744073709551615\n"
        )
    }

    struct Machine(TestDir);

    impl Machine {
        fn with(processes: &[(u32, String)]) -> Self {
            let machine = Self(TestDir::new());
            machine.0.write("stat", "cpu  1 1 1 1\ncpu0 1 1 1 1\ncpu1 1 1 1 1\n");
            for (pid, stat) in processes {
                machine.0.write(&format!("{pid}/stat"), stat);
                machine.0.write(&format!("{pid}/task/{pid}/stat"), stat.replace(" S ", " D "));
                machine.0.write(&format!("{pid}/task/{pid}/schedstat"), format!("5 {}000000 3\n", pid));
            }
            machine
        }

        fn read(&self, forest: &mut ProcessForest) -> Sample {
            let members = [Member { host: "n1".to_owned(), role: "server".to_owned(), pid: 10, programs: Vec::new() }];
            let mut host = Sample { host: "n1".to_owned(), ..Sample::default() };
            let reading = forest.read(&SampleSource::machine(ProcDir::at(&self.0)), &members, 1.0, &mut host);
            assert_eq!(host, Sample { host: "n1".to_owned(), ..Sample::default() }, "the machine is the probes'");
            reading.roles.into_iter().next().unwrap_or_default()
        }

        fn share_out(&self, forest: &mut ProcessForest) -> TreeReading {
            let mut host = Sample::default();
            forest.read(&SampleSource::machine(ProcDir::at(&self.0)), &[], 1.0, &mut host)
        }

        fn reads(&self, pid: u32, bytes: u64) {
            let text = format!("rchar: 9\nread_bytes: {bytes}\nwrite_bytes: 8192\ncancelled_write_bytes: 4096\n");
            self.0.write(&format!("{pid}/io"), &text);
        }

        /// Reads as inside a host of four cores with the capacity of two cores of the machine.
        fn whole(&self, forest: &mut ProcessForest) -> Sample {
            let usage = Usage { cores: 4, ..Usage::default() };
            let host = Some(HostBounds { usage, capacity: 2.0, ..HostBounds::default() });
            let mut sample = Sample::default();
            forest.read(&SampleSource { proc: ProcDir::at(&self.0), host }, &[], 1.0, &mut sample);
            sample
        }
    }

    #[test]
    fn a_stat_line_is_parsed_with_any_program_name() {
        let stat = Stat::parse(&stat_line(10, 1, 9, (3, 4), (5, 6))).unwrap();
        assert_eq!((stat.pid, stat.name.as_str(), stat.state, stat.parent, stat.group), (10, "a (b) c", 'S', 1, 9));
        assert_eq!(
            (stat.user_ticks, stat.system_ticks, stat.children_user_ticks, stat.children_system_ticks),
            (3, 4, 5, 6)
        );
        assert_eq!((stat.threads, stat.started_ticks, stat.resident_pages), (2, 110, 7));
        assert_eq!(Stat::parse("10 (sh"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn children_groups_and_orphans_belong_to_the_tree() {
        let stats = |lines: &[String]| -> HashMap<u32, Stat> {
            lines.iter().map(|line| Stat::parse(line).unwrap()).map(|stat| (stat.pid, stat)).collect()
        };
        let line = |pid, parent, group| stat_line(pid, parent, group, (0, 0), (0, 0));
        let all = stats(&[
            line(10, 1, 10),
            line(11, 10, 10),
            line(12, 11, 12),
            line(13, 1, 10),
            line(20, 1, 20),
            line(21, 20, 20),
        ]);
        let descendants = |root, all: &HashMap<u32, Stat>, seen: &HashMap<u32, u64>| {
            descendants(&TreeRoots { started: Some(root), ..TreeRoots::default() }, 1, all, seen)
        };
        assert_eq!(descendants(10, &all, &HashMap::new()), [10, 11, 12, 13]);
        // 20 was below 10 before its parent died. With another start time it is another process.
        assert_eq!(descendants(10, &all, &HashMap::from([(20, 120)])), [10, 11, 12, 13, 20, 21]);
        assert_eq!(descendants(10, &all, &HashMap::from([(20, 999)])), [10, 11, 12, 13]);
        // The lab's process has ended, but its group has not.
        let orphans = stats(&[line(13, 1, 10)]);
        assert_eq!(descendants(10, &orphans, &HashMap::new()), [13]);
    }

    #[test]
    fn a_tree_is_added_up() {
        let mut forest = ProcessForest::default();
        let line = |pid, parent, user| (pid, stat_line(pid, parent, 10, (user, 10), (0, 0)));
        let first = Machine::with(&[line(10, 1, 100), line(11, 10, 50)]).read(&mut forest);
        assert_eq!((first.cpu_user_pct, first.run_delay_pct), (None, None), "no base yet");
        assert_eq!((first.threads, first.io_wait_threads), (Some(4), Some(2)));
        let second = Machine::with(&[line(10, 1, 130), line(11, 10, 70)]).read(&mut forest);
        // 50 ticks of 100 a second on 2 cores.
        assert_eq!((second.cpu_user_pct, second.cpu_system_pct), (Some(25.0), Some(0.0)));
        assert_eq!(second.run_delay_pct, Some(0.0));
        assert_eq!(second.rss_bytes, Some(14 * rustix::param::page_size() as u64));
    }

    #[test]
    fn all_time_of_a_restarted_role_counts() {
        let mut forest = ProcessForest::default();
        Machine::with(&[]).read(&mut forest);
        let sample = Machine::with(&[(10, stat_line(10, 1, 10, (40, 20), (0, 0)))]).read(&mut forest);
        assert_eq!((sample.cpu_user_pct, sample.cpu_system_pct), (Some(20.0), Some(10.0)));
        assert_eq!(sample.run_delay_pct, Some(1.0));
    }

    /// A target with this search result.
    fn sought(found: TargetLocation) -> ExternalTarget {
        let why = Err("it is not looked for".to_owned());
        let mut target =
            ExternalTarget::new(vec![why], AlsoTarget::default(), ("local".to_owned(), "target".to_owned()));
        target.addresses[0].found = Some(found);
        target
    }

    fn here(roots: &[u32], more: &[u32]) -> TargetLocation {
        let set = |pids: &[u32]| pids.iter().copied().collect();
        TargetLocation::Here(ServerProcesses { roots: set(roots), more: set(more) })
    }

    #[test]
    fn processes_are_split_into_target_and_others() {
        let mut forest = ProcessForest::default();
        forest.share_out(Some(sought(here(&[10], &[30]))), None);
        let line = |pid, parent, user, children| (pid, stat_line(pid, parent, 5, (user, 0), (children, 0)));
        // Master, worker, a process of the same control group with a child elsewhere, and a busy
        // loop with a child.
        let before =
            [line(10, 1, 100, 0), line(11, 10, 50, 0), line(30, 1, 7, 0), line(31, 30, 0, 0), line(20, 1, 0, 0)];
        let first = Machine::with(&before).share_out(&mut forest);
        assert_eq!((first.run, first.roles[0].threads), (None, Some(6)), "no base yet");
        // The worker used 10 more and was waited for. Another replaced it.
        let after =
            [line(10, 1, 130, 60), line(12, 10, 5, 0), line(30, 1, 17, 0), line(31, 30, 20, 0), line(20, 1, 40, 0)];
        let second = Machine::with(&after).share_out(&mut forest);
        // 30 + 10 + 5 + 10 ticks of 200.
        let target = &second.roles[0];
        assert_eq!((target.host.as_str(), target.process.as_str()), ("local", "target"));
        assert!((target.cpu_user_pct.unwrap() - 27.5).abs() < 1e-9 && (second.run.unwrap().0 - 27.5).abs() < 1e-9);
        let share = |pid, cpu_pct| ProcessShare { name: "a (b) c".to_owned(), pid, cpu_pct };
        let shares = forest.told();
        assert_eq!(shares.0, [share(10, 15.0), share(30, 5.0), share(12, 2.5)]);
        assert_eq!(shares.1, [share(20, 20.0), share(31, 10.0)]);
    }

    #[test]
    fn use_before_a_server_was_found_does_not_count() {
        let mut forest = ProcessForest::default();
        forest.share_out(Some(sought(TargetLocation::Unknown("it does not listen yet".to_owned()))), None);
        let line = |pid, user| (pid, stat_line(pid, 1, 5, (user, 0), (0, 0)));
        assert_eq!(Machine::with(&[line(10, 5_000)]).share_out(&mut forest).roles, []);
        forest.sought.as_mut().unwrap().addresses[0].found = Some(here(&[10], &[]));
        let reading = Machine::with(&[line(10, 5_020)]).share_out(&mut forest);
        assert_eq!((reading.roles[0].cpu_user_pct, reading.run), (Some(10.0), Some((10.0, 0.0))));
        assert_eq!(reading.roles[0].run_delay_pct, Some(0.0));
        let shares = forest.told();
        assert_eq!((shares.0[0].cpu_pct, shares.1.len()), (10.0, 0));
    }

    #[test]
    fn processes_of_the_lab_are_not_others() {
        let mut forest = ProcessForest::default();
        forest.share_out(None, Some("plimsoll-run".to_owned()));
        let machine = |user| {
            let line = |pid| (pid, stat_line(pid, 1, 5, (user, 0), (0, 0)));
            let machine = Machine::with(&[line(10), line(20)]);
            machine.0.write("10/cgroup", "4:cpu:/plimsoll-run/n1/server\n0::/\n");
            machine.0.write("20/cgroup", "4:cpu:/plimsoll-run-2/n1/server\n0::/\n");
            machine
        };
        machine(0).share_out(&mut forest);
        machine(20).share_out(&mut forest);
        assert_eq!(forest.told().1.iter().map(|share| share.pid).collect::<Vec<_>>(), [20]);
    }

    #[test]
    fn use_of_short_lived_processes_is_summed() {
        let mut forest = ProcessForest::default();
        forest.share_out(None, None);
        let line = |pid, parent, user, children| (pid, stat_line(pid, parent, 5, (user, 0), (children, 0)));
        Machine::with(&[line(20, 1, 0, 0), line(21, 20, 100, 0)]).share_out(&mut forest);
        // 21 used 5 more and was known. Processes that were never seen used 40.
        Machine::with(&[line(20, 1, 10, 145)]).share_out(&mut forest);
        assert_eq!(
            forest.short_lived_pct(),
            Some(22.5),
            "45 ticks of 200, of which the last 5 of a process that was seen"
        );
        assert_eq!(forest.told().1.iter().map(|share| (share.pid, share.cpu_pct)).collect::<Vec<_>>(), [(20, 5.0)]);
    }

    #[test]
    fn operation_programs_are_counted_separately() {
        let mut forest = ProcessForest::default();
        forest.share_out(Some(sought(here(&[10], &[]))), Some("plimsoll-run".to_owned()));
        let us = std::process::id();
        let line = |pid, parent, user, children| (pid, stat_line(pid, parent, 5, (user, 0), (children, 0)));
        let read = |forest: &mut ProcessForest, processes: &[(u32, String)]| {
            let machine = Machine::with(processes);
            machine.0.write("30/cgroup", "0::/plimsoll-run/n1\n");
            machine.share_out(forest).operations_pct
        };
        let before =
            [line(10, 1, 0, 0), line(us, 1, 0, 0), line(30, us, 0, 0), line(31, 30, 100, 0), line(40, us, 0, 0)];
        assert_eq!(read(&mut forest, &before), None, "no base yet");
        // Target, generator and host used 50 each, a running program 10, and ended programs 30.
        let after =
            [line(10, 1, 50, 0), line(us, 1, 50, 30), line(30, us, 0, 0), line(31, 30, 150, 0), line(40, us, 10, 0)];
        assert_eq!(read(&mut forest, &after), Some(20.0));
        // The host crashed: its total use is in this program's account.
        let down = [line(10, 1, 50, 0), line(us, 1, 50, 180), line(40, us, 10, 0)];
        assert_eq!(read(&mut forest, &down), Some(0.0));
    }

    #[test]
    fn all_processes_of_a_host_are_added_up() {
        let mut forest = ProcessForest::default();
        let line = |pid, user| (pid, stat_line(pid, 1, pid, (user, 0), (0, 0)));
        let machine = Machine::with(&[line(10, 100), line(20, 100)]);
        machine.reads(10, 0);
        let first = machine.whole(&mut forest);
        assert_eq!((first.threads, first.io_wait_threads), (Some(4), Some(2)));
        assert_eq!((first.cpu_user_pct, first.run_delay_pct, first.disk_read_bytes), (None, None, None), "no base yet");
        // These processes have no role. The whole use of a new process counts.
        let machine = Machine::with(&[line(10, 130), line(20, 120), line(30, 10)]);
        machine.reads(10, 512);
        machine.reads(30, 100);
        let second = machine.whole(&mut forest);
        // 60 ticks of 200.
        assert_eq!(second.cpu_user_pct, Some(30.0));
        assert_eq!(second.busiest_thread_pct, Some(60.0), "30 ticks of the 50 that one of its cores has");
        assert_eq!((second.disk_read_bytes, second.disk_write_bytes), (Some(612), Some(4096)));
        assert!((second.run_delay_pct.unwrap() - 3.0).abs() < 1e-9 && second.rss_bytes.is_none());
    }

    #[test]
    fn io_delay_is_unknown_without_kernel_accounting() {
        let machine = |ticks: u64, counts: Option<&str>| {
            let line = |pid| stat_line(pid, 1, pid, (0, 0), (0, 0)).trim_end().to_owned();
            let with = |pid| (pid, format!("{}{} {ticks}\n", line(pid), " 0".repeat(16)));
            let machine = Machine::with(&[with(10), with(20)]);
            if let Some(counts) = counts {
                machine.0.write("sys/kernel/task_delayacct", counts);
            }
            machine
        };
        for (counts, pct) in [(Some("1\n"), Some(80.0)), (Some("0\n"), None), (None, None)] {
            let mut forest = ProcessForest::default();
            assert_eq!(machine(5, counts).whole(&mut forest).io_delay_pct, None, "no base yet");
            assert_eq!(machine(45, counts).whole(&mut forest).io_delay_pct, pct, "{counts:?}");
        }
    }

    #[test]
    fn a_child_that_ended_is_counted_once() {
        let ticks = |own: u64, children: u64| ProcessTicks { own: (own, 0), children: (children, 0) };
        let before = HashMap::from([(10, ticks(100, 0)), (11, ticks(50, 0))]);
        // 11 used 5 more, ended and was waited for: its 55 are in 10's account.
        let after = HashMap::from([(10, ticks(103, 55))]);
        assert_eq!(used(&before, &after, false), (8, 0));
        // 11 was not waited for: its last use is lost, and nothing is below 0.
        assert_eq!(used(&before, &HashMap::from([(10, ticks(103, 0))]), false), (3, 0));
        // A process that started and ended in between is also in the account.
        assert_eq!(used(&before, &HashMap::from([(10, ticks(100, 7)), (11, ticks(50, 0))]), false), (7, 0));
        // This program's children are the target.
        assert_eq!(used(&before, &after, true), (3, 0));
    }
}
