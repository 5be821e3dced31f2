//! Size of a run's records: an estimate from the plan before the run, and a check for free disk
//! space during the run.

use std::path::Path;
use std::time::{Duration, Instant};

use experiment::plan::{Load, Plan, Trial, UnitAmount};

/// Bytes of a row of `outcomes.csv`.
const OUTCOME: f64 = 24.0;
/// Bytes of a row of `samples.csv`, which is about a host or a process.
const SAMPLE: f64 = 130.0;
/// Bytes of a row of `generator.csv`.
const GENERATOR: f64 = 110.0;
/// Bytes of a row of `attempts.csv`.
const ATTEMPT: f64 = 20.0;
/// Bytes of a line of `history.jsonl`.
const AUDITED: f64 = 250.0;
/// Bytes of a line of `load.hlog`: minimum, growth per operation in the line's second, and maximum.
const LOG: (f64, f64, f64) = (150.0, 3.0, 2_400.0);
/// Assumed operations/s per agent in an audited closed loop, whose rate is not known in advance.
/// The value is high, so that records are not underestimated.
const PER_AGENT: f64 = 200.0;
/// Rows per host in `samples.csv`: one for the host and one for a process.
const ROWS: f64 = 2.0;

/// Approximate maximum number of audited operations that a trial records. It exists because the
/// analysis checks all of them in memory.
const MOST_AUDITED: f64 = 500_000.0;

/// Estimated size from which the user gets a note about the run folder.
const HEAVY_BYTES: f64 = 1e9;
/// Share of the free disk space from which the user gets a note about the run folder.
const HEAVY_SHARE: f64 = 0.1;

/// Returns the approximate size in bytes of this plan's run folder: the records of all trials.
#[must_use]
pub fn weight_bytes(plan: &Plan) -> f64 {
    plan.trials.iter().map(of_trial).sum()
}

fn of_trial(trial: &Trial) -> f64 {
    let Some(load) = &trial.load else { return 0.0 };
    let length_s = load.time_s + load.drain_s;
    let operations = load.all_steps().count().max(1) as f64;
    let rates = load.populations().iter().map(Load::operations_per_s);
    let per_s = rates.sum::<Option<f64>>();
    let (least, each, most) = LOG;
    let line = per_s.map_or(most, |per_s| (least + each * per_s / operations).min(most));
    // Each second, the log has two lines per kind of operation: latency and service time.
    let log = 2.0 * operations * line;
    // The machine and the generator have separate rows.
    let samples = SAMPLE * ROWS * (trial.lab.hosts.len() as f64 + 1.0);
    let threads = f64::from(load.threads.unwrap_or(1));
    let each_second = log + samples + GENERATOR * threads + ATTEMPT * operations;
    let outcomes = OUTCOME * outcome_rows(load, per_s, trial.lab.hosts.len());
    each_second * length_s + outcomes + AUDITED * audited(load).min(MOST_AUDITED)
}

/// Returns N such that one of N audited keys is recorded.
pub(crate) fn audits_one_in(load: &Load) -> u64 {
    (audited(load) / MOST_AUDITED).ceil().max(1.0) as u64
}

/// Returns the number of rows in all files of outcomes, for a load without faults and failures,
/// which add rows. There is a file for all members and, if there are several, a file for each.
fn outcome_rows(load: &Load, per_s: Option<f64>, members: usize) -> f64 {
    let [_, wide_us] = load::recorder::widths_us(load.time_s);
    let slots_per_s = 1e6 / wide_us as f64;
    let files = if members > 1 { vec![1.0, members as f64] } else { vec![1.0] };
    // No more slots are filled than operations end.
    let rows_per_s = files.iter().map(|files| (files * slots_per_s).min(per_s.unwrap_or(f64::INFINITY)));
    rows_per_s.sum::<f64>() * load.time_s
}

fn audited(load: &Load) -> f64 {
    load.populations().iter().map(audited_of).sum()
}

fn audited_of(load: &Load) -> f64 {
    let per_s = load.operations_per_s().unwrap_or(PER_AGENT * load.mean_agents());
    let (mut all, mut audited) = (0.0, 0.0);
    for step in load.sequences().flatten() {
        let share = f64::from(step.weight.max(1)) * step.times_per_cycle();
        // A request with many keys has a line for each key. The number of keys is known only if
        // `units` is a number.
        let lines = match (&step.audit_as, &step.units) {
            (Some(audit), Some(UnitAmount::Fixed(units))) if audit.keys.is_some() => *units as f64,
            _ => 1.0,
        };
        all += share;
        audited += if step.audit { share * lines } else { 0.0 };
    }
    if audited > 0.0 { per_s * load.time_s * audited / all } else { 0.0 }
}

/// Returns a note if the run folder in `out` will be large.
#[must_use]
pub fn heavy(plan: &Plan, out: &Path) -> Option<String> {
    let bytes = weight_bytes(plan);
    let free_bytes = DiskSpace::of(out).map(|space| space.free_bytes as f64);
    let is_heavy = bytes > HEAVY_BYTES || free_bytes.is_some_and(|free_bytes| bytes > HEAVY_SHARE * free_bytes);
    is_heavy.then(|| {
        let free = free_bytes.map_or_else(String::new, |free_bytes| format!("; {} are free there", size(free_bytes)));
        format!("the run folder will need about {}{free}", size(bytes))
    })
}

/// Formats a size: `1.4 GB`.
fn size(bytes: f64) -> String {
    if bytes >= 1e9 { format!("{:.1} GB", bytes / 1e9) } else { format!("{:.0} MB", (bytes / 1e6).max(1.0)) }
}

/// Space on a file system.
struct DiskSpace {
    /// Free space for this user, bytes.
    free_bytes: u64,
    /// Total size, bytes.
    size_bytes: u64,
}

impl DiskSpace {
    /// Returns the space on a folder's file system; `None` if it cannot be read. The folder need
    /// not exist yet.
    fn of(folder: &Path) -> Option<Self> {
        let folder = std::path::absolute(folder).ok()?;
        let found = folder.ancestors().find_map(|folder| rustix::fs::statvfs(folder).ok())?;
        let [free_bytes, size_bytes] =
            [found.f_bavail, found.f_blocks].map(|blocks| blocks.saturating_mul(found.f_frsize));
        Some(Self { free_bytes, size_bytes })
    }
}

/// Interval between two checks of the disk.
const GLANCE: Duration = Duration::from_secs(1);
/// Size of a file system below which no space is kept free on it.
const SMALLEST_BYTES: u64 = 16 << 20;
/// Space that is kept free for the last records and the report: the smaller of these bytes and one
/// `KEPT_SHARE`th of the file system.
const KEPT_BYTES: u64 = 64 << 20;
const KEPT_SHARE: u64 = 8;

/// Check for free space on the file system of the records.
pub(crate) struct DiskWatch {
    looked: Option<Instant>,
}

impl DiskWatch {
    pub fn new() -> Self {
        Self { looked: None }
    }

    /// Returns the reason to end the trial if there is too little space. Checks at most once per
    /// [`GLANCE`].
    pub fn runs_out(&mut self, folder: &Path) -> Option<String> {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now - looked < GLANCE) {
            return None;
        }
        self.looked = Some(now);
        let space = DiskSpace::of(folder)?;
        let kept_bytes = KEPT_BYTES.min(space.size_bytes / KEPT_SHARE);
        (space.size_bytes >= SMALLEST_BYTES && space.free_bytes < kept_bytes).then(|| {
            let (free, kept) = (size(space.free_bytes as f64), size(kept_bytes as f64));
            format!(
                "the disk of the run folder is nearly full: {free} are free, but {kept} are reserved for the end of \
                 the run"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn free_disk_space_is_checked_at_intervals() {
        let mut watch = DiskWatch::new();
        let folder = std::env::temp_dir();
        let free = DiskSpace::of(&folder).unwrap();
        assert!(free.free_bytes <= free.size_bytes);
        if free.free_bytes > KEPT_BYTES {
            assert_eq!(watch.runs_out(&folder), None);
        }
        let looked = watch.looked.unwrap();
        watch.runs_out(&folder);
        assert_eq!(watch.looked, Some(looked));
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!([2.34e9, 64e6, 10.0].map(size), ["2.3 GB", "64 MB", "1 MB"]);
    }
}
