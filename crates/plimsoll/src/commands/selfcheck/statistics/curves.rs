//! Curves of throughput over the load: the intervals of their peak, of their knee and of the crossing of two.

use analysis::noise::normal;
use experiment::plan::Warmup;
use fastrand::Rng;
use record::results::Results;
use serde_json::json;

use super::synthetic_run::{SyntheticTrial, planned};
use super::{Bench, COVERAGE, Job, Rows, row};

const LOADS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const LOAD: &str = "load.agents";
/// Length of a trial and of a slot, seconds.
const TIME_S: f64 = 10.0;
const SLOT_S: f64 = 1.0;
/// Trials of each load.
const REPEATS: u32 = 3;

/// Standard deviation of a trial, as a share, below and above the knee.
#[derive(Clone, Copy)]
struct LoadSpread {
    name: &'static str,
    light: f64,
    heavy: f64,
}

const SPREADS: [LoadSpread; 3] = [
    LoadSpread { name: "4 %", light: 0.04, heavy: 0.04 },
    LoadSpread { name: "1 % light, 8 % saturated", light: 0.01, heavy: 0.08 },
    LoadSpread { name: "8 % light, 1 % saturated", light: 0.08, heavy: 0.01 },
];

/// The settings.
pub fn jobs() -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for spread in SPREADS {
        jobs.push(Box::new(move |bench| of_one(bench, spread)));
        jobs.push(Box::new(move |bench| of_two(bench, spread)));
    }
    jobs
}

/// Trials of a variant at all loads.
fn swept(
    variant: Option<&str>,
    spread: LoadSpread,
    random: &mut Rng,
    per_s: impl Fn(f64) -> f64,
) -> Vec<SyntheticTrial> {
    let mut trials = Vec::new();
    for (repeat, load) in (1..=REPEATS).flat_map(|repeat| LOADS.map(|load| (repeat, load))) {
        let noise = if load <= 8 { spread.light } else { spread.heavy };
        let rate = per_s(f64::from(load)) * (1.0 + noise * normal(random)).max(0.1);
        let ok = (0..(TIME_S / SLOT_S) as usize).map(|_| (rate * SLOT_S + random.f64()) as u32).collect();
        let mut planned = planned(1, TIME_S, Warmup::Seconds(0.0));
        planned.repeat = repeat;
        planned.variant = variant.map(str::to_owned);
        planned.point = [(LOAD.to_owned(), json!(load))].into();
        trials.push(SyntheticTrial::of(planned, SLOT_S, ok));
    }
    trials
}

fn played(
    bench: &Bench<'_>,
    variants: &[&str],
    mut trials: Vec<SyntheticTrial>,
) -> Result<Results, crate::exit::Failure> {
    for (trial, number) in trials.iter_mut().zip(1..) {
        trial.planned.id = format!("{number:03}");
    }
    bench.analyzed_sweep(variants, &[LOAD], &trials)
}

/// A curve that rises evenly to a corner at six.
fn of_one(bench: &Bench<'_>, spread: LoadSpread) -> Rows {
    let setting = format!("spread {}, {REPEATS} repeats", spread.name);
    let mut random = bench.random(&setting);
    let mut peak = row("curve", &setting, "interval of the peak holds it", COVERAGE);
    let mut knee = row("curve", &setting, "interval of the knee holds it", COVERAGE);
    for _ in 0..bench.replicates(40) {
        let trials = swept(None, spread, &mut random, |load| 1_000.0 * load.min(6.0));
        let found = played(bench, &[], trials)?;
        let Some(curve) = found.scaling.first() else { continue };
        peak.count_interval(curve.peak_ci95, 6_000.0);
        knee.count_interval(curve.knee_ci95, 6.0);
    }
    Ok(vec![peak, knee])
}

/// Two curves whose lead changes evenly with the logarithm of the load, and is 0 at 8.
fn of_two(bench: &Bench<'_>, spread: LoadSpread) -> Rows {
    let setting = format!("spread {}, {REPEATS} repeats", spread.name);
    let mut random = bench.random(&format!("crossing, {setting}"));
    let mut crossing = row("curve", &setting, "interval of the crossing holds it", COVERAGE);
    let lead = |load: f64| (load.log2() - 3.0) / 9.0;
    for _ in 0..bench.replicates(40) {
        let mut trials = swept(Some("a"), spread, &mut random, |load| 1_000.0 * (1.0 + lead(load)));
        trials.extend(swept(Some("b"), spread, &mut random, |load| 1_000.0 * (1.0 - lead(load))));
        let found = played(bench, &["a", "b"], trials)?;
        let ends = found.crossings.first().and_then(|crossing| crossing.ci95);
        crossing.count(ends.map(|[low, high]| low.is_none_or(|low| low <= 8.0) && high.is_none_or(|high| 8.0 <= high)));
    }
    Ok(vec![crossing])
}
