//! What a run's records weigh: before it begins, from its plan, and whether there is room for more while it is played.

use std::path::Path;
use std::time::{Duration, Instant};

use experiment::plan::{Load, Plan, Trial, UnitAmount};

/// Bytes of a row of `outcomes.csv`.
const OUTCOME: f64 = 24.0;
/// … of `samples.csv`: of each host itself and its processes.
const SAMPLE: f64 = 130.0;
/// … of `generator.csv`.
const GENERATOR: f64 = 110.0;
/// … of `attempts.csv`.
const ATTEMPT: f64 = 20.0;
/// … of `history.jsonl`.
const AUDITED: f64 = 250.0;
/// A line of `load.hlog` is so long at least, grows so much with each operation of its second, and has an end.
const LOG: (f64, f64, f64) = (150.0, 3.0, 2_400.0);
/// Of an audited closed loop nobody knows how fast it will be; this is a quick one for each agent.
const PER_AGENT: f64 = 200.0;
/// Each host has a row of its own, and one for a process.
const ROWS: f64 = 2.0;

/// Audited operations that are recorded of a trial, about: the check of them is made in memory.
const MOST_AUDITED: f64 = 500_000.0;

/// A run folder heavier than this is worth a word …
const HEAVY_BYTES: f64 = 1e9;
/// … or one that takes this share of what is free.
const HEAVY_SHARE: f64 = 0.1;

/// About how many bytes the run folder of this plan will have: the records of all its trials.
#[must_use]
pub fn weight_bytes(plan: &Plan) -> f64 {
    plan.trials.iter().map(of_trial).sum()
}

fn of_trial(trial: &Trial) -> f64 {
    let Some(load) = &trial.load else { return 0.0 };
    let length_s = load.time_s + load.drain_s;
    let operations = load.all_steps().count().max(1) as f64;
    let rates = load.populations().iter().map(|population| population.rate.as_ref()?.per_s());
    let per_s = rates.sum::<Option<f64>>();
    let (least, each, most) = LOG;
    let line = per_s.map_or(most, |per_s| (least + each * per_s / operations).min(most));
    // Latency and service time.
    let log = 2.0 * operations * line;
    // The machine and the generator have rows of their own.
    let samples = SAMPLE * ROWS * (trial.lab.hosts.len() as f64 + 1.0);
    let threads = f64::from(load.threads.unwrap_or(1));
    let each_second = log + samples + GENERATOR * threads + ATTEMPT * operations;
    let outcomes = OUTCOME * outcome_rows(load, per_s, trial.lab.hosts.len());
    each_second * length_s + outcomes + AUDITED * audited(load).min(MOST_AUDITED)
}

/// Of so many audited keys one is recorded.
pub(crate) fn audits_one_in(load: &Load) -> u64 {
    (audited(load) / MOST_AUDITED).ceil().max(1.0) as u64
}

/// In calm loads, of all members together and of each where there are `members`; faults and failures add to them.
fn outcome_rows(load: &Load, per_s: Option<f64>, members: usize) -> f64 {
    let [_, wide_us] = load::recorder::widths_us(load.time_s);
    let slots_per_s = 1e6 / wide_us as f64;
    // No more slots are filled than operations end.
    let rows = |files: f64| per_s.map_or(files * slots_per_s, |per_s| per_s.min(files * slots_per_s)) * load.time_s;
    rows(1.0) + if members > 1 { rows(members as f64) } else { 0.0 }
}

fn audited(load: &Load) -> f64 {
    load.populations().iter().map(audited_of).sum()
}

fn audited_of(load: &Load) -> f64 {
    let per_s = load.rate.as_ref().and_then(|rate| rate.per_s());
    let per_s = per_s.unwrap_or(PER_AGENT * f64::from(load.agents));
    let share = |step: &experiment::plan::Step| f64::from(step.weight.max(1)) / f64::from(step.every.max(1));
    let all: f64 = load.steps.iter().map(share).sum();
    // A request with many keys has a line for each; how many they are is only known where its units are a number.
    let lines = |step: &experiment::plan::Step| match (&step.audit_as, &step.units) {
        (Some(audit), Some(UnitAmount::Fixed(units))) if audit.keys.is_some() => *units as f64,
        _ => 1.0,
    };
    let audited = load.steps.iter().filter(|step| step.audit);
    let audited: f64 = audited.map(|step| share(step) * lines(step)).sum();
    if audited > 0.0 { per_s * load.time_s * audited / all } else { 0.0 }
}

/// What is to be said of a run folder in `out` that will be large: `None` if it will not.
#[must_use]
pub fn heavy(plan: &Plan, out: &Path) -> Option<String> {
    let bytes = weight_bytes(plan);
    let free_bytes = DiskSpace::of(out).map(|space| space.free_bytes as f64);
    let is_heavy = bytes > HEAVY_BYTES || free_bytes.is_some_and(|free_bytes| bytes > HEAVY_SHARE * free_bytes);
    is_heavy.then(|| {
        let free =
            free_bytes.map_or_else(String::new, |free_bytes| format!(", and {} are free there", size(free_bytes)));
        format!("the run folder will have about {}{free}", size(bytes))
    })
}

/// `1.4 GB`
fn size(bytes: f64) -> String {
    if bytes >= 1e9 { format!("{:.1} GB", bytes / 1e9) } else { format!("{:.0} MB", (bytes / 1e6).max(1.0)) }
}

/// How much fits on a file system.
struct DiskSpace {
    /// What may still be written, bytes.
    free_bytes: u64,
    /// All of it, bytes.
    size_bytes: u64,
}

impl DiskSpace {
    /// Where a folder is, or will be; `None` if nobody can say.
    fn of(folder: &Path) -> Option<Self> {
        let folder = std::path::absolute(folder).ok()?;
        let found = folder.ancestors().find_map(|folder| rustix::fs::statvfs(folder).ok())?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Some(Self { free_bytes: bytes(found.f_bavail), size_bytes: bytes(found.f_blocks) })
    }
}

/// The disk is looked at so often.
const GLANCE: Duration = Duration::from_secs(1);
/// On a smaller file system nothing is kept free: there, what is written fits or it does not.
const SMALLEST_BYTES: u64 = 16 << 20;
/// Kept for the last records and the report: this, or a share of the file system if that is less.
const KEPT_BYTES: u64 = 64 << 20;
const KEPT_SHARE: u64 = 8;

/// Watches the file system that records go to.
pub(crate) struct DiskWatch {
    looked: Option<Instant>,
}

impl DiskWatch {
    /// Has not looked yet.
    pub fn new() -> Self {
        Self { looked: None }
    }

    /// Why the trial has to end, if there is no room for more; looks once a second at most.
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
                "the disk of the run folder is nearly full: {free} are free, and {kept} are kept for the end of the run"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_disk_with_room_is_no_reason_to_end_and_is_not_asked_all_the_time() {
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
