//! Rows of a trial's CSV files. The field names are the column names. A value that was not measured
//! is empty. CPU percentages are of the whole host: 100 means that all its cores are busy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::table::{CsvWriter, read, visit, write_all};

/// Time of a row in any of these files, and its source in a file of samples. Serves to find how far
/// a file reaches.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// Seconds since load start.
    pub at_s: f64,
    /// Name of the sampled host.
    pub host: String,
    /// Name of the sampled process. Empty for the host as a whole.
    pub process: String,
}

/// Name of the row, beside a lab's hosts, of the machine that makes the load.
pub const THIS_MACHINE: &str = "local";

/// `samples.csv`: a host (`process` is empty) or a process, once a second. Rates cover the second
/// that ends at `at_s`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Seconds since load start.
    pub at_s: f64,
    /// Name of the host. In a lab, `local` is the machine that runs the hosts or makes the load.
    pub host: String,
    /// Role of the target's process, or `generator`. Empty for the host as a whole.
    pub process: String,
    /// CPU time in user mode (with nice).
    pub cpu_user_pct: Option<f64>,
    /// CPU time in the kernel (with interrupts).
    pub cpu_system_pct: Option<f64>,
    /// CPU time idle while a task of the host waited for a disk.
    pub cpu_iowait_pct: Option<f64>,
    /// CPU time taken by the hypervisor.
    pub cpu_steal_pct: Option<f64>,
    /// CPU time of processes that are neither the target nor Plimsoll. In the generator's row, only
    /// of the CPUs reserved for clients.
    pub cpu_strangers_pct: Option<f64>,
    /// Share of wall time in which the CPU quota kept the host from running, mean over its cores.
    /// In the generator's row: the quotas of the control groups that contain Plimsoll itself,
    /// summed over CPUs.
    pub cpu_throttled_pct: Option<f64>,
    /// Share of wall time in which threads were runnable but did not run, summed over threads.
    /// Source: `schedstat`.
    pub run_delay_pct: Option<f64>,
    /// CPU time of the busiest thread, percent of one core of the host.
    pub busiest_thread_pct: Option<f64>,
    /// Load average over 1 minute.
    pub load1: Option<f64>,
    /// Load average over 5 minutes.
    pub load5: Option<f64>,
    /// Load average over 15 minutes.
    pub load15: Option<f64>,
    /// Number of threads in uninterruptible sleep, which most likely wait for a disk.
    pub io_wait_threads: Option<u64>,
    /// Share of wall time blocked on I/O, summed over threads. Source: delay accounting, if the
    /// kernel does it (`kernel.task_delayacct`).
    pub io_delay_pct: Option<f64>,
    /// Used memory of the host.
    pub memory_used_bytes: Option<u64>,
    /// Memory available without swapping.
    pub memory_available_bytes: Option<u64>,
    /// Resident set of the process.
    pub rss_bytes: Option<u64>,
    /// Processes that the kernel killed for lack of memory in this second.
    pub oom_kills: Option<u64>,
    /// Bytes read from disks in this second.
    pub disk_read_bytes: Option<u64>,
    /// Bytes written to disks in this second. For a virtual host without its own disk: writes that
    /// its processes caused, even if they reach the disk later.
    pub disk_write_bytes: Option<u64>,
    /// Bytes received in this second on all interfaces, with loopback. For a virtual host, without
    /// loopback.
    pub net_rx_bytes: Option<u64>,
    /// Bytes sent in this second.
    pub net_tx_bytes: Option<u64>,
    /// CPU pressure: share of the second in which some task waited for a CPU.
    pub psi_cpu_some_pct: Option<f64>,
    /// I/O pressure: share of the second in which some task waited for I/O.
    pub psi_io_some_pct: Option<f64>,
    /// Memory pressure: share of the second in which some task waited for memory.
    pub psi_memory_some_pct: Option<f64>,
    /// Number of threads of the process. For a virtual host, all threads that run there.
    pub threads: Option<u64>,
    /// Number of open file descriptors, likewise.
    pub fds: Option<u64>,
    /// Processes of the target that ended and were replaced in this second by a process of the same
    /// name and parent.
    pub processes_replaced: Option<u64>,
    /// Lead of this machine's calendar clock over the time it would show if it had not been set
    /// since load start, seconds.
    pub calendar_ahead_s: Option<f64>,
}

/// `programs.csv`: a program, named in the target's manifest, in the process tree of a role, once a
/// second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramSample {
    /// Seconds since load start.
    pub at_s: f64,
    /// Name of the host.
    pub host: String,
    /// Role of the process in whose tree the program runs.
    pub process: String,
    /// Name of the program's file.
    pub program: String,
    /// Number of the program's processes; 0 after the program is gone.
    pub processes: Option<u64>,
    /// User time of these processes, percent of all cores of the host. Excludes children that
    /// ended.
    pub cpu_user_pct: Option<f64>,
    /// Kernel time, likewise.
    pub cpu_system_pct: Option<f64>,
    /// Resident set size.
    pub rss_bytes: Option<u64>,
    /// Proportional set size: a page shared by n processes counts 1/n for each. Read every few
    /// seconds.
    pub pss_bytes: Option<u64>,
    /// Number of threads.
    pub threads: Option<u64>,
    /// Processes of the program that ended and were replaced in this second by a process of the
    /// same name and parent.
    pub processes_replaced: Option<u64>,
}

/// `metrics.csv`: a metric as the target reported it, once a second. See `[metrics]` of the
/// manifest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metric {
    /// Time of the query, seconds since load start.
    pub at_s: f64,
    /// Name of the host that reported the metric.
    pub host: String,
    /// Name of the metric with its labels: `http_requests_total{code="200"}`.
    pub name: String,
    /// Value. A value that is not finite has no row.
    pub value: f64,
    /// Kind of the metric. Empty if an older version wrote the row.
    pub kind: Option<MetricKind>,
}

/// Kind of a target's metric.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    /// The value rises and falls.
    #[default]
    Gauge,
    /// The value only rises, until the process restarts.
    Counter,
}

/// Returns the increase of a counter between two values. A lower value means that the counter
/// restarted at 0.
#[must_use]
pub fn counter_growth(before: f64, now: f64) -> f64 {
    if now < before { now } else { now - before }
}

impl MetricKind {
    /// Derives the kind from the name, for a metric without a declared kind. Prometheus counters
    /// end in `_total`.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        if name.ends_with("_total") { Self::Counter } else { Self::Gauge }
    }
}

impl Metric {
    /// Returns the name without labels, and the labels in braces if there are any.
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        self.name.split_at(self.name.find('{').unwrap_or(self.name.len()))
    }

    /// Returns the kind, derived from the name if it was not declared.
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
    /// Time in which the thread was runnable and did not run, percent. Empty if the kernel does not
    /// report it.
    pub run_delay_pct: Option<f64>,
    /// Delay of the thread's timers, 99th percentile, microseconds. Empty if none fired.
    pub late_us_p99: Option<f64>,
    /// Largest delay of the thread's timers, microseconds.
    pub late_us_max: Option<f64>,
    /// Number of agents that have started and not left.
    pub agents: u32,
    /// Number of open operations, mean over the interval.
    pub in_flight_mean: f64,
    /// Operations that ended with any outcome but unfinished.
    pub operations: u64,
    /// Sum of the latencies of these operations, seconds. Little's law:
    /// `in_flight_mean ≈ latency_sum_s / interval_s`.
    pub latency_sum_s: f64,
    /// Number of full cycles.
    pub cycles: u64,
    /// Number of connections opened.
    pub connects: u64,
    /// Number of connects that failed.
    pub connect_failures: u64,
    /// Operations of an open loop that were due and were not started.
    pub dropped: u64,
    /// Operations that were due in the interval, whether they started or not. Empty if an older
    /// version wrote the row.
    pub due: Option<u64>,
    /// Bytes of answers. Headers are included; TLS data counts decrypted. Empty if an older version
    /// wrote the row.
    pub received_bytes: Option<u64>,
    /// Time for which the thread's agents waited for records of feeds that are read ahead, summed
    /// over agents, seconds. This and the next columns are empty without such a feed.
    pub feed_wait_s: Option<f64>,
    /// Bytes read from these feeds' files, counted as stored (compressed). The row of thread 0 has
    /// the sum of all threads.
    pub feed_bytes: Option<u64>,
    /// Records read from these feeds, likewise.
    pub feed_records: Option<u64>,
    /// Time for which the feeds' readers waited for the disk, percent, summed over readers,
    /// likewise.
    pub feed_read_pct: Option<f64>,
    /// Messages of the target that answered no operation. Empty if the protocol has none, and if an
    /// older version wrote the row.
    pub pushed_messages: Option<u64>,
}

/// `fleet.csv`: the clock of a fleet's generator, compared with this machine's clock once a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetSecond {
    /// Time of the comparison, seconds since load start.
    pub at_s: f64,
    /// Name of the generator.
    pub generator: String,
    /// Lead of the generator's monotonic clock over this machine's, microseconds.
    pub offset_us: f64,
    /// Largest possible error of `offset_us`, microseconds.
    pub bound_us: f64,
    /// Largest possible error of times that the generator recorded, on the trial's clock,
    /// microseconds: the change of the offset since the start, plus the bound.
    pub error_us: f64,
}

/// `agents.csv`: an agent that started to work, as of the end of the load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentCycles {
    /// Number of the agent, from 1.
    pub agent: u32,
    /// Number of full cycles.
    pub cycles: u64,
    /// End of the last full cycle, seconds since load start. Empty if there is none.
    pub last_cycle_s: Option<f64>,
}

/// `attempts.csv`: attempts that ended in a second, by operation and result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Attempts {
    /// End of the interval, seconds since load start.
    pub at_s: f64,
    /// Name of the operation.
    pub operation: String,
    /// `ok`, `ok 201` or `redirect 301` (HTTP status other than 200), `followed 303` (a redirect
    /// that another attempt of the operation follows), `wrong`, `timeout`, or the cause of a
    /// failure: `connect refused`, `connection reset`, `connection closed`, `answer: unavailable`,
    /// `status 503`, `bad answer`, …
    pub result: String,
    /// Number of attempts.
    pub count: u64,
}

/// Whether an attempt with this result belongs to an operation that ended `ok`.
#[must_use]
pub fn is_ok(result: &str) -> bool {
    result == "ok" || ["ok ", "redirect "].iter().any(|start| result.starts_with(start))
}

/// Whether an attempt with this result is a redirect that the operation has followed.
#[must_use]
pub fn is_followed(result: &str) -> bool {
    result.starts_with("followed ")
}

/// `units.csv`: work done by the `ok` operations that ended in a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitSecond {
    /// End of the interval, seconds since load start.
    pub at_s: f64,
    /// Length of the interval, seconds.
    pub interval_s: f64,
    /// Name of the operation.
    pub operation: String,
    /// Empty for units of work. For parts of answers: their status, such as `201` or `429`.
    pub status: String,
    /// Number of units or parts.
    pub count: u64,
}

/// `messages.csv`: messages of streams that arrived in a second, whatever the outcome of their
/// operations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageSecond {
    /// End of the interval, seconds since load start.
    pub at_s: f64,
    /// Length of the interval, seconds.
    pub interval_s: f64,
    /// Name of the operation.
    pub operation: String,
    /// Number of messages.
    pub count: u64,
}

/// `checks.csv`: answers that were compared with an operation's expectations in a second, or the
/// failures of one expectation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckSecond {
    /// End of the interval, seconds since load start.
    pub at_s: f64,
    /// Length of the interval, seconds.
    pub interval_s: f64,
    /// Name of the operation.
    pub operation: String,
    /// Field whose expectation failed, such as `body`. Empty for all expectations of the operation
    /// together.
    pub expectation: String,
    /// Number of answers that were compared. Empty in the row of one expectation.
    pub answers: Option<u64>,
    /// Number of answers that contradict the expectation, or any expectation of the operation.
    pub failed: u64,
}

/// `outcomes.csv`: operations that ended in a slot of a few milliseconds. A slot without any has no
/// row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct OutcomeSlot {
    /// Start of the slot, seconds since load start.
    pub at_s: f64,
    /// Length of the slot, seconds. Equal in all rows of a trial.
    pub slot_s: f64,
    /// Operations that ended `ok`.
    pub ok: u32,
    /// Operations that ended `failed`.
    pub failed: u32,
    /// Operations that ended `timeout`.
    pub timeout: u32,
    /// Operations that ended `wrong`.
    pub wrong: u32,
}
