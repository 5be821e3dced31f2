//! CPU time of the machine: user, system, I/O wait, steal, and tasks that wait for a disk or a CPU.
//! For a virtual host: the use of its control group, and the time for which its quota stopped it.

use std::time::Instant;

use linux::cgroup::CpuTime;
use record::rows::Sample;

use super::{Probe, ProbeKind, grown};
use crate::process_tree::TICKS_PER_S;
use crate::sample_source::{HostBounds, SampleSource};

pub static KIND: ProbeKind = ProbeKind {
    name: "cpu",
    help: "CPU time by use, I/O wait, steal, throttling, run delay: /proc/stat, /proc/schedstat, a host's control group",
    make: || Box::new(CpuProbe::default()),
};

#[derive(Default)]
struct CpuProbe {
    last: Option<(Instant, CpuTicks)>,
    last_run_delay_ns: Option<u64>,
    last_time: Option<CpuTime>,
    last_throttled_ns: Option<u64>,
}

/// A line of `/proc/stat` about all CPUs or one. Old kernels have fewer columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTicks {
    user: u64,
    system: u64,
    idle: u64,
    iowait: Option<u64>,
    /// Time that the hypervisor gave to other machines.
    pub steal: Option<u64>,
}

impl CpuTicks {
    /// Parses the line that begins with `cpu ` or `cpu3 `. User time already includes guest time.
    pub fn parse(stat: &str, begins: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix(begins))?;
        let columns: Vec<u64> = line.split_ascii_whitespace().map_while(|column| column.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal] =
            std::array::from_fn(|at| columns.get(at).copied());
        Some(Self {
            user: user? + nice?,
            system: system? + irq.unwrap_or(0) + softirq.unwrap_or(0),
            idle: idle?,
            iowait,
            steal,
        })
    }

    /// CPU time that is neither idle nor stolen, without I/O wait.
    pub fn busy(&self) -> u64 {
        self.user + self.system
    }

    /// Sum of all columns.
    pub fn total(&self) -> u64 {
        self.user + self.system + self.idle + self.iowait.unwrap_or(0) + self.steal.unwrap_or(0)
    }
}

impl Probe for CpuProbe {
    fn read(&mut self, source: &SampleSource, interval_s: f64, host: &mut Sample) {
        match &source.host {
            Some(bounds) => self.read_host(bounds, interval_s, host),
            None => self.read_machine(source, interval_s, host),
        }
    }
}

impl CpuProbe {
    fn read_machine(&mut self, source: &SampleSource, interval_s: f64, host: &mut Sample) {
        let stat = source.proc.text("stat").unwrap_or_default();
        let now = CpuTicks::parse(&stat, "cpu ").map(|ticks| (Instant::now(), ticks));
        if let (Some((then, last)), Some((at, now))) = (self.last, now) {
            let cpus = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
            fill(last, now, TICKS_PER_S * at.duration_since(then).as_secs_f64() * cpus as f64, host);
        }
        self.last = now;
        host.io_wait_threads = line_value(&stat, "procs_blocked ");
        let run_delay_ns = source.proc.text("schedstat").and_then(|text| run_delay_ns(&text));
        if let Some(waited_ns) = grown(self.last_run_delay_ns, run_delay_ns) {
            host.run_delay_pct = Some(waited_ns as f64 / 1e9 / interval_s * 100.0);
        }
        self.last_run_delay_ns = run_delay_ns;
    }

    /// Reads the control group. The process tree has already filled in run delay and disk waits
    /// and, for hosts without a control group, CPU time.
    fn read_host(&mut self, bounds: &HostBounds, interval_s: f64, host: &mut Sample) {
        let percent = 100.0 / (interval_s * 1e9 * bounds.capacity);
        let now = bounds.usage.cpu;
        if let Some(last) = self.last_time {
            let share =
                |of: fn(&CpuTime) -> u64| grown(Some(of(&last)), now.as_ref().map(of)).map(|ns| ns as f64 * percent);
            (host.cpu_user_pct, host.cpu_system_pct) = (share(|time| time.user_ns), share(|time| time.system_ns));
        }
        self.last_time = now;
        let throttled_ns = bounds.usage.throttled_ns;
        host.cpu_throttled_pct = grown(self.last_throttled_ns, throttled_ns).map(|ns| {
            // The kernel adds up the CPUs on which a group waits, so a slow core may seem to wait
            // longer than the interval.
            (ns as f64 / (interval_s * 1e9 * f64::from(bounds.usage.cores)) * 100.0).min(100.0)
        });
        self.last_throttled_ns = throttled_ns;
    }
}

/// Difference between counted and elapsed ticks from which elapsed time is not used, as a share of
/// the elapsed ticks.
const TICKS_OFF: f64 = 0.2;

/// Fills in the CPU columns. Work that begins with a timer tick, such as the work of a group whose
/// quota is renewed at the tick, is present at every tick and seems to take more time than it does.
/// Idle time is measured exactly (`get_idle_time` in the kernel's `fs/proc/stat.c`), so the rest of
/// the elapsed time is divided between user and system by their ticks.
fn fill(last: CpuTicks, now: CpuTicks, went_by: f64, host: &mut Sample) {
    let counted = now.total().saturating_sub(last.total()) as f64;
    if counted == 0.0 {
        return;
    }
    // The kernel's idle and iowait may decrease slightly (documented in proc(5)). That counts as 0,
    // not as unknown.
    let grown = |before: u64, after: u64| after.saturating_sub(before) as f64;
    let (user, system) = (grown(last.user, now.user), grown(last.system, now.system));
    let ticks = user + system;
    let has_time = (counted - went_by).abs() < TICKS_OFF * went_by;
    let (total, busy) = if has_time { (went_by, (ticks + went_by - counted).max(0.0)) } else { (counted, ticks) };
    let share = |ticks: f64| ticks / total * 100.0;
    let scale = if ticks > 0.0 { busy / ticks } else { 0.0 };
    host.cpu_user_pct = Some(share(user * scale));
    host.cpu_system_pct = Some(share(system * scale));
    host.cpu_iowait_pct = last.iowait.zip(now.iowait).map(|(before, after)| share(grown(before, after)));
    host.cpu_steal_pct = last.steal.zip(now.steal).map(|(before, after)| share(grown(before, after)));
}

fn line_value(text: &str, start: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(start))?.trim().parse().ok()
}

/// Returns the sum over the CPUs of the time that tasks waited for them: the eighth figure of a
/// `cpuN` line (scheduler documentation, sched-stats).
fn run_delay_ns(schedstat: &str) -> Option<u64> {
    let cpus = schedstat.lines().filter(|line| line.starts_with("cpu"));
    let delays: Vec<u64> =
        cpus.map(|line| line.split_ascii_whitespace().nth(8)?.parse().ok()).collect::<Option<_>>()?;
    (!delays.is_empty()).then(|| delays.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_aligned_with_ticks_is_not_overcounted() {
        let ticks = |user, system, idle| CpuTicks { user, system, idle, iowait: Some(0), steal: Some(0) };
        let read = |now: CpuTicks, went_by: f64| {
            let mut host = Sample::default();
            fill(ticks(1_000, 1_000, 1_000), now, went_by, &mut host);
            (host.cpu_user_pct, host.cpu_system_pct)
        };
        // 200 ticks elapsed, 156 of them idle. 60 were counted as busy.
        assert_eq!(read(ticks(1_045, 1_015, 1_156), 200.0), (Some(16.5), Some(5.5)));
        assert_eq!(read(ticks(1_050, 1_010, 1_140), 200.0), (Some(25.0), Some(5.0)));
        assert_eq!(
            read(ticks(1_050, 1_010, 1_140), 2_000.0),
            (Some(25.0), Some(5.0)),
            "time and ticks have nothing in common"
        );
        assert_eq!(read(ticks(1_000, 1_000, 1_200), 202.0), (Some(0.0), Some(0.0)));
    }
}
