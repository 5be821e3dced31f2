//! The rows of a trial's CSV files. The field names are the column names; what was not measured is empty.
//! Percentages of CPU are of the whole host: 100 is all its cores busy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::table::{CsvWriter, read, visit, write_all};

/// When a row of any of these files is of, for whoever wants to know how far a file goes, and of whom if it is a sample.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// Seconds since load start.
    pub at_s: f64,
    /// The host that was sampled.
    pub host: String,
    /// The process that was; empty: the host as a whole.
    pub process: String,
}

/// In a lab, the name under which the machine that makes the load has its own row, beside those of the hosts.
pub const THIS_MACHINE: &str = "local";

/// `samples.csv`: a host (`process` empty) or a process, once a second. Rates are over the second that ends at `at_s`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Seconds since load start.
    pub at_s: f64,
    /// Name of the host; beside a lab's hosts, `local` is the machine that plays them or loads them.
    pub host: String,
    /// Role of the target's process, `generator`, or empty for the host as a whole.
    pub process: String,
    /// User time (with nice).
    pub cpu_user_pct: Option<f64>,
    /// Kernel time (with interrupts).
    pub cpu_system_pct: Option<f64>,
    /// Idle while a task of the host waited for a disk.
    pub cpu_iowait_pct: Option<f64>,
    /// Taken away by the hypervisor.
    pub cpu_steal_pct: Option<f64>,
    /// Used by processes that are neither the target nor Plimsoll; in the generator's row, of the CPUs that are the clients' alone.
    pub cpu_strangers_pct: Option<f64>,
    /// Kept from running by its CPU quota, of wall time, the mean over the host's cores; in the generator's row, by those of the
    /// control groups that Plimsoll itself is in, summed over CPUs.
    pub cpu_throttled_pct: Option<f64>,
    /// Runnable but not running, of wall time, summed over threads: `schedstat`.
    pub run_delay_pct: Option<f64>,
    /// CPU time of the busiest of its threads, percent of one core of the host.
    pub busiest_thread_pct: Option<f64>,
    /// Load average over 1 minute.
    pub load1: Option<f64>,
    /// Over 5 minutes.
    pub load5: Option<f64>,
    /// Over 15 minutes.
    pub load15: Option<f64>,
    /// Threads in uninterruptible sleep: they wait for a disk, most likely.
    pub io_wait_threads: Option<u64>,
    /// Blocked on I/O, of wall time, summed over threads: delay accounting, where the kernel does it (`kernel.task_delayacct`).
    pub io_delay_pct: Option<f64>,
    /// Used memory of the host.
    pub memory_used_bytes: Option<u64>,
    /// Memory available without swapping.
    pub memory_available_bytes: Option<u64>,
    /// Resident set of the process.
    pub rss_bytes: Option<u64>,
    /// Processes that the kernel killed for want of memory in this second.
    pub oom_kills: Option<u64>,
    /// Read from disks in this second.
    pub disk_read_bytes: Option<u64>,
    /// Written to disks in this second; of a virtual host without a disk of its own, what its processes caused to be
    /// written, be it later.
    pub disk_write_bytes: Option<u64>,
    /// Received in this second (all interfaces; loopback included, but for a virtual host).
    pub net_rx_bytes: Option<u64>,
    /// Sent in this second.
    pub net_tx_bytes: Option<u64>,
    /// Pressure: share of the second in which some task waited for a CPU.
    pub psi_cpu_some_pct: Option<f64>,
    /// … for I/O.
    pub psi_io_some_pct: Option<f64>,
    /// … for memory.
    pub psi_memory_some_pct: Option<f64>,
    /// Threads of the process; of a virtual host, all that run there.
    pub threads: Option<u64>,
    /// Open file descriptors, likewise.
    pub fds: Option<u64>,
    /// Processes of the target that ended, and in this second were replaced by one of the same name and parent.
    pub processes_replaced: Option<u64>,
    /// How far this machine's calendar clock is ahead of where it would be had nobody set it since load start, seconds.
    pub calendar_ahead_s: Option<f64>,
}

/// `programs.csv`: once a second, what of a role's processes a program is that the target's manifest names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramSample {
    /// Seconds since load start.
    pub at_s: f64,
    /// Name of the host.
    pub host: String,
    /// Role of the process in whose tree it runs.
    pub process: String,
    /// Its file's name.
    pub program: String,
    /// How many processes of it run; none of a program that is gone.
    pub processes: Option<u64>,
    /// User time of these, percent of all cores of the host; without children that ended.
    pub cpu_user_pct: Option<f64>,
    /// Kernel time.
    pub cpu_system_pct: Option<f64>,
    /// Resident set.
    pub rss_bytes: Option<u64>,
    /// Proportional set: of pages that several processes share, each has its part. Read every few seconds.
    pub pss_bytes: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Processes of it that ended, and in this second were replaced by one of the same name and parent.
    pub processes_replaced: Option<u64>,
}

/// `metrics.csv`: a figure of the target's own, once a second, as it gave it; see `[metrics]` of its manifest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metric {
    /// When it was asked, seconds since load start.
    pub at_s: f64,
    /// Name of the host that gave it.
    pub host: String,
    /// Its name with its labels: `http_requests_total{code="200"}`.
    pub name: String,
    /// Its value; a figure that is not finite has no row.
    pub value: f64,
    /// What it is; empty where an older version wrote.
    pub kind: Option<MetricKind>,
}

/// What a figure of the target's own is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    /// It rises and falls.
    #[default]
    Gauge,
    /// It only rises, until its process starts again.
    Counter,
}

/// By how much a counter has grown from one value to the next. What is less than before has begun again at 0.
#[must_use]
pub fn counter_growth(before: f64, now: f64) -> f64 {
    if now < before { now } else { now - before }
}

impl MetricKind {
    /// By the name, where nothing else tells: Prometheus' counters end in `_total`.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        if name.ends_with("_total") { Self::Counter } else { Self::Gauge }
    }
}

impl Metric {
    /// Its name without labels, and its labels in braces, if there are any.
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        self.name.split_at(self.name.find('{').unwrap_or(self.name.len()))
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> MetricKind {
        self.kind.unwrap_or_else(|| MetricKind::of_name(self.parts().0))
    }
}

/// `generator.csv`: an engine thread, once a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GeneratorSecond {
    /// End of the interval, seconds since load start.
    pub at_s: f64,
    /// Length of the interval, seconds.
    pub interval_s: f64,
    /// Number of the thread, from 0.
    pub thread: u32,
    /// CPU time used by the thread, percent of one core.
    pub cpu_pct: f64,
    /// Time in which the thread could run and did not, percent; empty where the kernel does not say.
    pub run_delay_pct: Option<f64>,
    /// How late its timers fired, 99th percentile, microseconds; empty if none fired.
    pub late_us_p99: Option<f64>,
    /// … and at worst.
    pub late_us_max: Option<f64>,
    /// Agents that have started.
    pub agents: u32,
    /// Operations open, averaged over the interval by time.
    pub in_flight_mean: f64,
    /// Operations that ended (any outcome but unfinished).
    pub operations: u64,
    /// Sum of their latencies, seconds (Little's law: `in_flight_mean ≈ latency_sum_s / interval_s`).
    pub latency_sum_s: f64,
    /// Full cycles done.
    pub cycles: u64,
    /// Connections opened.
    pub connects: u64,
    /// Connects that failed.
    pub connect_failures: u64,
    /// Operations that should have started and did not (open loop).
    pub dropped: u64,
    /// Operations that were intended to start in the interval, whether they could or not; empty where an older version wrote.
    pub due: Option<u64>,
    /// Bytes of answers, headers included and by TLS decrypted; empty where an older version wrote.
    pub received_bytes: Option<u64>,
    /// Time for which the thread's agents waited for records of feeds that are read ahead, added up, seconds; empty without one,
    /// as are the next ones.
    pub feed_wait_s: Option<f64>,
    /// Bytes read of such feeds' files, packed as they are; of thread 0, for all.
    pub feed_bytes: Option<u64>,
    /// Records read of them, likewise.
    pub feed_records: Option<u64>,
    /// Time for which their readers waited for the disk, percent, added up, likewise.
    pub feed_read_pct: Option<f64>,
}

/// `fleet.csv`: how the clock of a fleet's generator compares with this machine's, once a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetSecond {
    /// When they were compared, seconds since load start.
    pub at_s: f64,
    /// What the generator is called.
    pub generator: String,
    /// How far its monotonic clock is ahead of this machine's, microseconds.
    pub offset_us: f64,
    /// The true offset is no farther from that, microseconds.
    pub bound_us: f64,
    /// Times that it recorded are no farther off than this from the trial's clock, microseconds: how far the offset is from the one that it
    /// began with, and the bound.
    pub error_us: f64,
}

/// `agents.csv`: an agent that began to work, as it was when the load had ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentCycles {
    /// Its number, from 1.
    pub agent: u32,
    /// Full cycles that it finished.
    pub cycles: u64,
    /// When it finished the last of them, seconds since load start; empty: it finished none.
    pub last_cycle_s: Option<f64>,
}

/// `attempts.csv`: attempts that ended in a second, by operation and result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Attempts {
    /// End of the interval, seconds since load start.
    pub at_s: f64,
    /// Name of the operation.
    pub operation: String,
    /// `ok`, also `ok 201` or `redirect 301` for an HTTP status other than 200, `wrong`, `timeout`, or the cause of the failure: `connect refused`, `connection reset`,
    /// `connection closed`, `answer: unavailable`, `status 503`, `bad answer`, …
    pub result: String,
    /// How many.
    pub count: u64,
}

/// Whether a result of an attempt is that of an operation that ended `ok`.
#[must_use]
pub fn is_ok(result: &str) -> bool {
    result == "ok" || ["ok ", "redirect "].iter().any(|start| result.starts_with(start))
}

/// `units.csv`: what the `ok` operations that ended in a second did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitSecond {
    /// End of the interval, seconds since load start.
    pub at_s: f64,
    /// Length of the interval, seconds.
    pub interval_s: f64,
    /// Name of the operation.
    pub operation: String,
    /// Empty: units of work. Else parts of its answers that had this status: `201`, `429`.
    pub status: String,
    /// How many.
    pub count: u64,
}

/// `outcomes.csv`: what ended in a slot of a few milliseconds. Slots in which nothing ended have no row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct OutcomeSlot {
    /// Start of the slot, seconds since load start.
    pub at_s: f64,
    /// Length of the slot, seconds; the same in every row of a trial.
    pub slot_s: f64,
    /// Operations that ended `ok`.
    pub ok: u32,
    /// … `failed`.
    pub failed: u32,
    /// … `timeout`.
    pub timeout: u32,
    /// … `wrong`.
    pub wrong: u32,
}
