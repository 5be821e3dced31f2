//! Sums, extremes and a few short columns of `samples.csv`, collected in one pass. A lab records
//! millions of rows in a night, so only one row is held at a time. This module must not judge, nor
//! fill in missing samples.

use std::collections::BTreeMap;

use record::rows::Sample;

/// Value of `process` in the generator's rows.
pub(crate) const GENERATOR: &str = "generator";

/// Largest time between samples that are added up as simultaneous, seconds.
const SAME_MOMENT_S: f64 = 0.25;

/// Largest time between rows that belong to the same second, seconds.
const SAME_SECOND_S: f64 = 0.5;

/// Largest number of rows held until the generator's first row, which comes within the first
/// second. It limits memory for a file without generator rows.
const MOST_UNDECIDED: usize = 4_096;

/// A running mean.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct RunningMean {
    sum: f64,
    count: u64,
}

impl RunningMean {
    pub fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.sum += value;
            self.count += 1;
        }
    }

    /// Combines two means.
    pub fn with(self, other: Self) -> Self {
        Self { sum: self.sum + other.sum, count: self.count + other.count }
    }

    /// Returns the mean, or `None` without values.
    pub fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// Sum of a figure over all processes of the target, at each sampling time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct TargetSeries {
    /// Current sampling time, and the sum so far.
    now: Option<(f64, f64)>,
    sums: RunningMean,
    largest: Option<f64>,
}

impl TargetSeries {
    fn add(&mut self, at_s: f64, value: Option<f64>) {
        let Some(value) = value else { return };
        match &mut self.now {
            Some((moment_s, sum)) if at_s - *moment_s < SAME_MOMENT_S => *sum += value,
            now => {
                let over = now.replace((at_s, value));
                self.take(over);
            }
        }
    }

    fn take(&mut self, over: Option<(f64, f64)>) {
        if let Some((_, sum)) = over {
            self.sums.add(Some(sum));
            self.largest = larger(self.largest, Some(sum));
        }
    }

    fn ended(mut self) -> Self {
        let over = self.now.take();
        self.take(over);
        self
    }
}

/// Time constant of the load average over 1 minute: the kernel's `EXP_1` is 1/exp(5 s/1 min) every
/// 5 s (`include/linux/sched/loadavg.h`).
const LOAD1_S: f64 = 60.0;

/// Mean number of threads that waited for a CPU, damped over time in the same way as the load
/// average over 1 minute.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct DampedRunDelay {
    last_s: Option<f64>,
    threads: f64,
}

impl DampedRunDelay {
    /// Adds the run delay since the previous row, summed over all threads. Returns the average at
    /// `at_s`, or `None` at the first row.
    fn after(&mut self, at_s: f64, run_delay_pct: f64) -> Option<f64> {
        let last_s = self.last_s.replace(at_s)?;
        let kept = (-(at_s - last_s).max(0.0) / LOAD1_S).exp();
        self.threads = self.threads * kept + run_delay_pct / 100.0 * (1.0 - kept);
        Some(self.threads)
    }
}

/// Sums of a host over the load.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HostSums {
    pub name: String,
    /// CPU use of the whole host.
    pub busy_pct: RunningMean,
    /// CPU use of the whole host in the measured part alone.
    pub measured_busy_pct: RunningMean,
    pub throttled_pct: RunningMean,
    pub run_delay_pct: RunningMean,
    pub iowait_pct: RunningMean,
    pub io_pressure_pct: RunningMean,
    pub io_delay_pct: RunningMean,
    pub steal_pct: RunningMean,
    pub strangers_pct: RunningMean,
    pub load1_max: Option<f64>,
    pub load1_own_max: Option<f64>,
    pub load5_max: Option<f64>,
    pub load15_max: Option<f64>,
    pub io_wait_threads: Option<u64>,
    pub oom_kills: Option<u64>,
    pub disk_write_bytes: Option<u64>,
    pub net_bytes: Option<u64>,
    target_busy_pct: TargetSeries,
    /// CPU use of the busiest thread, by role of the target.
    busiest_thread_pct: BTreeMap<String, RunningMean>,
    target_run_delay_pct: TargetSeries,
    target_rss_bytes: TargetSeries,
    damped_run_delay: DampedRunDelay,
}

impl HostSums {
    /// Returns the mean CPU use of all of the target's processes together.
    pub fn target_busy_pct(&self) -> Option<f64> {
        self.target_busy_pct.ended().sums.value()
    }

    /// Returns the mean CPU use of the busiest thread, for the role with the highest mean; percent
    /// of a core.
    pub fn busiest_thread_pct(&self) -> Option<f64> {
        self.busiest_thread_pct.values().filter_map(|mean| mean.value()).max_by(f64::total_cmp)
    }

    /// Returns the mean run delay of all of the target's processes together.
    pub fn target_run_delay_pct(&self) -> Option<f64> {
        self.target_run_delay_pct.ended().sums.value()
    }

    /// Returns the largest resident memory of all of the target's processes together.
    pub fn target_rss_max_bytes(&self) -> Option<f64> {
        self.target_rss_bytes.ended().largest
    }

    fn add_whole(&mut self, sample: &Sample) {
        // The run delay before the first row is unknown. Its share of the load average is therefore
        // not subtracted.
        let waiting = sample.run_delay_pct.and_then(|pct| self.damped_run_delay.after(sample.at_s, pct));
        let load1_own = sample.load1.zip(waiting).map(|(load1, waiting)| (load1 - waiting).max(0.0));
        self.busy_pct.add(busy_pct(sample));
        self.throttled_pct.add(sample.cpu_throttled_pct);
        self.run_delay_pct.add(sample.run_delay_pct);
        self.iowait_pct.add(sample.cpu_iowait_pct);
        self.io_pressure_pct.add(sample.psi_io_some_pct);
        self.io_delay_pct.add(sample.io_delay_pct);
        self.steal_pct.add(sample.cpu_steal_pct);
        self.strangers_pct.add(sample.cpu_strangers_pct);
        self.load1_max = larger(self.load1_max, sample.load1);
        self.load1_own_max = larger(self.load1_own_max, load1_own);
        self.load5_max = larger(self.load5_max, sample.load5);
        self.load15_max = larger(self.load15_max, sample.load15);
        self.io_wait_threads = self.io_wait_threads.max(sample.io_wait_threads);
        self.oom_kills = total(self.oom_kills, sample.oom_kills);
        self.disk_write_bytes = total(self.disk_write_bytes, sample.disk_write_bytes);
        self.net_bytes = total(self.net_bytes, total(sample.net_rx_bytes, sample.net_tx_bytes));
    }

    fn add_target(&mut self, sample: &Sample) {
        self.target_busy_pct.add(sample.at_s, busy_pct(sample));
        self.busiest_thread_pct.entry(sample.process.clone()).or_default().add(sample.busiest_thread_pct);
        self.target_run_delay_pct.add(sample.at_s, sample.run_delay_pct);
        self.target_rss_bytes.add(sample.at_s, sample.rss_bytes.map(|bytes| bytes as f64));
    }
}

/// CPU use in a row of the generator or of its machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BusyCpu {
    pub at_s: f64,
    /// User and system CPU use together, if both were sampled.
    pub busy_pct: Option<f64>,
    pub strangers_pct: Option<f64>,
}

/// Number of a role's processes that were replaced in a second.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RestartedProcesses {
    pub at_s: f64,
    pub host: String,
    pub process: String,
    pub count: u64,
}

/// Summary of `samples.csv`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sampled {
    /// Start of the measured part, and end of the load.
    measured_from_s: f64,
    until_s: f64,
    /// Hosts in the order of their first row in the load.
    pub hosts: Vec<HostSums>,
    /// Rows of the generator, and rows of its machine, in file order.
    own: Vec<BusyCpu>,
    machine: Vec<BusyCpu>,
    /// Name of the generator's host, and host rows that came before the first generator row.
    own_host: Option<String>,
    undecided: Vec<(String, BusyCpu)>,
    /// Times of rows that are later than all previous rows.
    later_s: Vec<f64>,
    throttled_pct: RunningMean,
    ahead_s: f64,
    clock_jump_s: Option<f64>,
    /// Times and resident memory of the target: for each process as sampled; after `settle`, for
    /// all processes together.
    rss_bytes: Vec<(f64, f64)>,
    pub replaced: Vec<RestartedProcesses>,
}

impl Default for Sampled {
    fn default() -> Self {
        Self::over(0.0, f64::INFINITY)
    }
}

impl Sampled {
    /// Creates empty sums for a load that is measured between two times, seconds since its start.
    pub fn over(measured_from_s: f64, until_s: f64) -> Self {
        Self {
            measured_from_s,
            until_s,
            hosts: Vec::new(),
            own: Vec::new(),
            machine: Vec::new(),
            own_host: None,
            undecided: Vec::new(),
            later_s: Vec::new(),
            throttled_pct: RunningMean::default(),
            ahead_s: 0.0,
            clock_jump_s: None,
            rss_bytes: Vec::new(),
            replaced: Vec::new(),
        }
    }

    /// Adds the next row.
    pub fn add(&mut self, sample: &Sample) {
        self.add_own(sample);
        if is_target(sample)
            && let Some(bytes) = sample.rss_bytes
        {
            self.rss_bytes.push((sample.at_s, bytes as f64));
        }
        if let Some(count) = sample.processes_replaced.filter(|count| *count > 0) {
            let (host, process) = (sample.host.clone(), sample.process.clone());
            self.replaced.push(RestartedProcesses { at_s: sample.at_s, host, process, count });
        }
        // A row covers the second before it. At least half of this second must lie in the load.
        if !(0.5..=self.until_s + 0.5).contains(&sample.at_s) {
            return;
        }
        let is_measured = sample.at_s >= self.measured_from_s + 0.5;
        let host = match self.hosts.iter().position(|host| host.name == sample.host) {
            Some(index) => &mut self.hosts[index],
            None => {
                self.hosts.push(HostSums { name: sample.host.clone(), ..HostSums::default() });
                let last = self.hosts.len() - 1;
                &mut self.hosts[last]
            }
        };
        if sample.process.is_empty() {
            host.add_whole(sample);
            if is_measured {
                host.measured_busy_pct.add(busy_pct(sample));
            }
        } else if sample.process == GENERATOR {
            self.throttled_pct.add(sample.cpu_throttled_pct);
        } else {
            host.add_target(sample);
        }
    }

    fn add_own(&mut self, sample: &Sample) {
        if self.later_s.last().is_none_or(|last_s| sample.at_s > *last_s) {
            self.later_s.push(sample.at_s);
        }
        let busy = BusyCpu {
            at_s: sample.at_s,
            busy_pct: sample.cpu_user_pct.zip(sample.cpu_system_pct).map(|(user, system)| user + system),
            strangers_pct: sample.cpu_strangers_pct,
        };
        if sample.process == GENERATOR {
            self.own.push(busy);
            let own_host = self.own_host.get_or_insert_with(|| sample.host.clone());
            let earlier = self.undecided.drain(..).filter(|(host, _)| host == own_host);
            self.machine.extend(earlier.map(|(_, busy)| busy));
        } else if sample.process.is_empty() {
            match &self.own_host {
                Some(own_host) if *own_host == sample.host => self.machine.push(busy),
                Some(_) => {}
                None if self.undecided.len() < MOST_UNDECIDED => self.undecided.push((sample.host.clone(), busy)),
                None => {}
            }
        }
        if let Some(ahead_s) = sample.calendar_ahead_s {
            let jump_s = (ahead_s - std::mem::replace(&mut self.ahead_s, ahead_s)).abs();
            self.clock_jump_s = larger(self.clock_jump_s, Some(jump_s));
        }
    }

    /// Sums the target's memory over its processes, after the last row.
    pub fn settle(&mut self) {
        self.rss_bytes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut moments: Vec<(f64, f64)> = Vec::new();
        for &(at_s, bytes) in &self.rss_bytes {
            match moments.last_mut() {
                Some((moment_s, sum)) if at_s - *moment_s < SAME_MOMENT_S => *sum += bytes,
                _ => moments.push((at_s, bytes)),
            }
        }
        self.rss_bytes = moments;
    }

    pub fn host(&self, name: &str) -> Option<&HostSums> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// Returns the largest fall of the target's resident memory, over all its processes, from the
    /// last sample before `at_s` to the lowest within `within_s` after it. Returns 0 if it grew,
    /// and `None` if it was not sampled on both sides.
    pub fn memory_released_bytes(&self, at_s: f64, within_s: f64) -> Option<u64> {
        let split = self.rss_bytes.partition_point(|(moment_s, _)| *moment_s < at_s);
        let before = self.rss_bytes[..split].last()?.1;
        let after = self.rss_bytes[split..].iter().take_while(|(moment_s, _)| *moment_s <= at_s + within_s);
        let lowest = after.map(|(_, bytes)| *bytes).min_by(f64::total_cmp)?;
        Some((before - lowest).max(0.0) as u64)
    }

    /// Returns the CPU use of the generator and of its machine in the second that ends at `at_s`,
    /// if sampled. If the probes missed a second, the next row covers it.
    pub fn in_second(&self, at_s: f64) -> Option<(BusyCpu, Option<BusyCpu>)> {
        let next = self.later_s.partition_point(|later_s| *later_s < at_s - SAME_SECOND_S);
        let at_s = *self.later_s.get(next)?;
        let same = |rows: &[BusyCpu]| {
            let first = rows.partition_point(|row| row.at_s <= at_s - SAME_SECOND_S);
            rows.get(first).copied().filter(|row| (row.at_s - at_s).abs() < SAME_SECOND_S)
        };
        Some((same(&self.own)?, same(&self.machine)))
    }

    /// Returns the mean share of the load's time in which a CPU quota throttled the generator.
    pub fn throttled_pct(&self) -> Option<f64> {
        self.throttled_pct.value()
    }

    /// Returns the largest step of this machine's calendar clock from one reading to the next.
    pub fn clock_jump_s(&self) -> Option<f64> {
        self.clock_jump_s
    }
}

fn is_target(sample: &Sample) -> bool {
    !sample.process.is_empty() && sample.process != GENERATOR
}

fn busy_pct(sample: &Sample) -> Option<f64> {
    match (sample.cpu_user_pct, sample.cpu_system_pct) {
        (None, None) => None,
        (user, system) => Some(user.unwrap_or(0.0) + system.unwrap_or(0.0)),
    }
}

fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    [a, b].into_iter().flatten().max_by(f64::total_cmp)
}

fn total(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
    }
}
