//! Load averages and samples of a host, as reported by its runner. The load averages are computed
//! as the kernel computes those of a whole machine.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linux::procfs;
use record::rows::{ProgramSample, Sample};

use super::Setup;
use super::control_groups::Groups;
use crate::process_tree::Member;
use crate::sample_reader::{SampleReader, StrangersMeter};
use crate::sample_source::{ProcDir, SampleSource};
use crate::stoppable_thread::StoppableThread;

/// File inside the host, bound over `/proc/loadavg` when the host is made.
const FILE: &str = "/run/plimsoll/loadavg";
/// Interval of thread counts: the kernel's `LOAD_FREQ`.
const EVERY: Duration = Duration::from_secs(5);
/// Id of a host's first process, which starts the runner.
const INIT: u32 = 1;
/// Fractional bits of the kernel's fixed-point numbers.
const FSHIFT: u32 = 11;
const FIXED_1: u64 = 1 << FSHIFT;
/// Decay of an average over 5 s, times `FIXED_1`: 1/exp(5 s/1 min), 1/exp(5 s/5 min), 1/exp(5 s/15
/// min).
const DAMPING: [u64; 3] = [1884, 2014, 2037];

/// Load averages over 1, 5 and 15 minutes, in the kernel's fixed-point numbers
/// (`include/linux/sched/loadavg.h`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LoadAverages([u64; 3]);

impl LoadAverages {
    /// Returns the averages five seconds later, with this many active threads: the kernel's
    /// `calc_load`.
    fn after(self, active: u64) -> Self {
        let active = active * FIXED_1;
        let mut averages = self.0;
        for (average, damping) in averages.iter_mut().zip(DAMPING) {
            let mut sum = *average * damping + active * (FIXED_1 - damping);
            // Round up while the average grows, so that it reaches the target value.
            if active >= *average {
                sum += FIXED_1 - 1;
            }
            *average = sum / FIXED_1;
        }
        Self(averages)
    }

    /// Formats a line of `/proc/loadavg`.
    fn text(self, count: ThreadCount) -> String {
        let [one, five, fifteen] = self.0.map(|average| {
            let average = average + FIXED_1 / 200;
            format!("{}.{:02}", average >> FSHIFT, ((average & (FIXED_1 - 1)) * 100) >> FSHIFT)
        });
        format!("{one} {five} {fifteen} {}/{} {}\n", count.running, count.threads, count.last_pid)
    }
}

/// Thread counts of a host at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ThreadCount {
    /// Threads that run or could run.
    running: u64,
    /// Threads in uninterruptible sleep, such as disk waits.
    waiting: u64,
    threads: u64,
    /// Id of the newest process.
    last_pid: u32,
}

impl ThreadCount {
    /// Counts the threads of all processes in `proc`, except the runner and its parent. A thread
    /// that its CPU quota delays counts as runnable, as on a machine of that speed.
    fn of(proc: &Path, ours: &[u32]) -> Self {
        let pids = procfs::numbers(proc);
        let mut count = Self { last_pid: pids.iter().copied().max().unwrap_or_default(), ..Self::default() };
        for pid in pids.into_iter().filter(|pid| !ours.contains(pid)) {
            let folder = proc.join(pid.to_string()).join("task");
            for thread in procfs::numbers(&folder) {
                let Some(stat) = procfs::stat_at(&folder.join(thread.to_string())) else { continue };
                count.threads += 1;
                count.running += u64::from(stat.state == 'R');
                count.waiting += u64::from(stat.state == 'D');
            }
        }
        if let Some(last) = procfs::text(&proc.join("sys/kernel/ns_last_pid")).and_then(|text| text.trim().parse().ok())
        {
            count.last_pid = last;
        }
        count
    }
}

/// Maintains [`FILE`], which a virtual host shows as its `/proc/loadavg`. Returns `None` if the
/// machine's own averages apply.
pub fn keep_for(setup: &Setup) -> Result<Option<StoppableThread>, String> {
    let shows_it = setup.isolation.is_some() && Path::new(FILE).exists();
    shows_it.then(|| keep(Path::new(FILE))).transpose()
}

/// Writes the averages to `file` now and every 5 s, in place, so that open files and bind mounts of
/// it change too. `/proc` must belong to this program's pid namespace. Dropping the result ends the
/// thread; the last averages stay.
fn keep(file: &Path) -> Result<StoppableThread, String> {
    let unwritten = |error: std::io::Error| format!("cannot write {}: {error}", file.display());
    let opened = File::options().create(true).truncate(false).write(true).open(file);
    let open = opened.map_err(unwritten)?;
    let (proc, ours) = (PathBuf::from("/proc"), [INIT, std::process::id()]);
    show(&open, LoadAverages::default(), ThreadCount::of(&proc, &ours)).map_err(unwritten)?;
    let keeping = StoppableThread::start("load-average", move |stop| {
        let mut averages = LoadAverages::default();
        let mut due = Instant::now() + EVERY;
        while stop.waits(due.saturating_duration_since(Instant::now())) {
            let count = ThreadCount::of(&proc, &ours);
            averages = averages.after(count.running + count.waiting);
            // A failed write is ignored, for example on a full disk. The next one follows in 5 s.
            let _ = show(&open, averages, count);
            due += EVERY;
        }
    });
    keeping.map_err(|error| format!("cannot start a thread: {error}"))
}

/// Writes the line in one call, so that a reader sees either the old or the new line.
fn show(file: &File, averages: LoadAverages, count: ThreadCount) -> std::io::Result<()> {
    let text = averages.text(count);
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

// Samples of one host, read on request: the host's row, then one row per running role.

/// Sampler of a host.
pub struct Sampler {
    reader: SampleReader,
    groups: Arc<Groups>,
    /// Whether programs outside the run may use CPU time here. A virtual host has no such programs.
    has_strangers: bool,
    strangers: StrangersMeter,
}

impl Sampler {
    /// Makes the sampler of a host with this setup and these control groups.
    pub fn new(setup: &Setup, groups: Arc<Groups>) -> Self {
        let source = SampleSource::of(setup, ProcDir::at(Path::new("/proc")));
        Self {
            reader: SampleReader::new(source),
            groups,
            has_strangers: setup.isolation.is_none(),
            strangers: StrangersMeter::default(),
        }
    }

    /// Returns the rows since the last call, or none at the first call. The receiver fills in
    /// `at_s` and `host`.
    pub fn sample(&mut self, members: &[Member]) -> (Vec<Sample>, Vec<ProgramSample>) {
        self.reader.set_usage(self.groups.usage());
        let read = self.reader.read(Instant::now(), members, Sample::default());
        let Some(mut rows) = read else { return (Vec::new(), Vec::new()) };
        if self.has_strangers {
            let ours: Vec<Sample> = rows.roles.iter().chain(&rows.own).cloned().collect();
            rows.host.cpu_strangers_pct = self.strangers.pct(&rows.host, &ours);
        }
        (std::iter::once(rows.host).chain(rows.roles).collect(), rows.programs)
    }
}

#[cfg(test)]
mod tests {
    use fixture::{TestDir, until};

    use super::*;
    use crate::Isolation;

    /// Returns the averages after this many equal counts.
    fn after(times: usize, active: u64) -> LoadAverages {
        (0..times).fold(LoadAverages::default(), |averages, _| averages.after(active))
    }

    fn shown(averages: LoadAverages) -> String {
        averages.text(ThreadCount::default())
    }

    #[test]
    fn averages_match_the_kernels_rounding() {
        // 1 * 2048 * (2048 - 1884), (2048 - 2014), (2048 - 2037), rounded up, over 2048.
        assert_eq!(after(1, 1), LoadAverages([164, 34, 11]));
        // 164 * 1884 + 2048 * 164 + 2047 = 646,895, and so on.
        assert_eq!(after(2, 1), LoadAverages([315, 68, 22]));
        // Rounds down while it falls: 315 * 1884 / 2048.
        assert_eq!(after(2, 1).after(0), LoadAverages([289, 66, 21]));
    }

    #[test]
    fn averages_converge_to_the_load() {
        assert_eq!(shown(after(3000, 3)), "3.00 3.00 3.00 0/0 0\n");
        // After one minute, 1 - 1/e, or 63 % of the way.
        let minute = shown(after(12, 10));
        assert!(minute.starts_with("6.3"), "{minute}");
        let gone = (0..20_000).fold(after(100, 50), |averages, _| averages.after(0));
        assert_eq!(shown(gone), "0.00 0.00 0.00 0/0 0\n");
    }

    #[test]
    fn the_line_has_the_kernels_format() {
        let count = ThreadCount { running: 2, waiting: 1, threads: 95, last_pid: 14759 };
        // 0.24, 0.36 and 5.995, which shows as 6.00.
        let averages = LoadAverages([491, 737, 12278]);
        assert_eq!(averages.text(count), "0.24 0.36 6.00 2/95 14759\n");
    }

    #[test]
    fn running_and_waiting_threads_are_counted() {
        let proc = TestDir::new();
        let thread = |pid: u32, tid: u32, state: char| {
            let line = format!("{tid} (x) {state} 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 1 1 1 1\n");
            proc.write(&format!("{pid}/task/{tid}/stat"), &line);
        };
        thread(1, 1, 'R');
        thread(2, 2, 'R');
        thread(10, 10, 'S');
        thread(10, 11, 'R');
        thread(12, 12, 'D');
        thread(13, 13, 'Z');
        let count = ThreadCount::of(&proc, &[1, 2]);
        assert_eq!(count, ThreadCount { running: 1, waiting: 1, threads: 4, last_pid: 13 });
        proc.write("sys/kernel/ns_last_pid", "77\n");
        assert_eq!(ThreadCount::of(&proc, &[1, 2]).last_pid, 77);
    }

    #[test]
    fn the_file_is_written_at_once() {
        let folder = TestDir::new();
        let file = folder.write("loadavg", "something much longer than any line of averages could ever be\n");
        let keeper = keep(&file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("0.00 0.00 0.00 ") && text.lines().count() == 1, "{text}");
        drop(keeper);
        assert!(keep(&folder.join("no/such/folder")).is_err());
    }

    /// Returns the rows, and whether the host had control groups.
    fn rows(isolation: Option<Isolation>) -> (Vec<Sample>, bool) {
        let folder = TestDir::new();
        let run = folder.file_name().unwrap().to_string_lossy().into_owned();
        let setup = &Setup { host: "n1".to_owned(), run, isolation, ..Setup::default() };
        let us =
            Member { host: "n1".to_owned(), role: "server".to_owned(), pid: std::process::id(), programs: Vec::new() };
        let groups = Arc::new(Groups::make(setup).unwrap().0);
        let mut sampler = Sampler::new(setup, Arc::clone(&groups));
        assert_eq!(sampler.sample(std::slice::from_ref(&us)).0, [], "the base of the next");
        let mut rows = Vec::new();
        // A clock tick is 10 ms. Without one there is no figure.
        until("there are figures", || {
            rows = sampler.sample(std::slice::from_ref(&us)).0;
            rows.iter().all(|row| row.cpu_user_pct.is_some())
        });
        groups.remove().unwrap();
        let _ = linux::cgroup::remove_tree(&crate::control_groups::top_of(&setup.run));
        (rows, groups.are_there())
    }

    #[test]
    fn machine_and_roles_have_rows() {
        let (rows, _) = rows(None);
        let roles: Vec<&str> = rows.iter().map(|row| row.process.as_str()).collect();
        assert_eq!(roles, ["", "server"]);
        assert!(rows[0].cpu_strangers_pct.is_some() && rows[0].memory_available_bytes.is_some());
        assert!(rows.iter().all(|row| row.at_s == 0.0), "whoever asks knows the time");
    }

    #[test]
    fn a_hosts_row_sums_its_processes() {
        let (rows, has_groups) = rows(Some(Isolation::default()));
        assert_eq!(rows.len(), 2);
        // Without its own process namespace, the host contains all processes of this machine.
        assert_eq!(rows[0].io_wait_threads.is_some(), rows[0].threads.unwrap() <= crate::process_tree::THREADS_MAX);
        assert_eq!((rows[0].cpu_strangers_pct, rows[0].cpu_steal_pct), (None, None));
        assert!(!has_groups || rows[0].psi_cpu_some_pct.is_some() || rows[0].memory_used_bytes.is_some());
    }
}
