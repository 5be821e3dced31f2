//! Simulated curves of throughput over the load. Checks the intervals of a curve's peak, of its
//! knee, of the load from which it is level, of the crossing of two curves, and of their ratio at
//! each load.

use analysis::noise::normal;
use experiment::plan::{Claim, MetricRange, Warmup};
use fastrand::Rng;
use record::results::{Holds, Results};
use serde_json::json;

use super::synthetic_run::{SimulatedPlan, SyntheticTrial, planned};
use super::{Bench, COVERAGE, Job, Rows, at_least, at_most, row};

const LOADS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const LOAD: &str = "load.agents";
/// Length of a trial, seconds.
const TIME_S: f64 = 10.0;
/// Length of a slot, seconds.
const SLOT_S: f64 = 1.0;
/// Number of trials at each load.
const REPEATS: u32 = 3;
/// Number of trials at each load of each curve, in the settings that check ratios.
const REPEATS_OF_RATIO: u32 = 2;
/// Planted ratios of two curves.
const RATIOS: [f64; 4] = [0.25, 0.7, 1.0, 1.8];

/// Standard deviation of trials' throughput as a share of the mean, at loads below and above the
/// knee.
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

const SPREADS_OF_RATIO: [LoadSpread; 3] = [
    LoadSpread { name: "5 %", light: 0.05, heavy: 0.05 },
    LoadSpread { name: "15 %", light: 0.15, heavy: 0.15 },
    LoadSpread { name: "5 % light, 15 % saturated", light: 0.05, heavy: 0.15 },
];

/// Returns the settings.
pub fn jobs() -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for spread in SPREADS {
        jobs.push(Box::new(move |bench| of_one(bench, spread)));
        jobs.push(Box::new(move |bench| of_two(bench, spread)));
    }
    for (spread, ratio) in SPREADS_OF_RATIO.into_iter().flat_map(|spread| RATIOS.map(|ratio| (spread, ratio))) {
        jobs.push(Box::new(move |bench| of_ratio(bench, spread, ratio)));
    }
    jobs
}

/// Simulates the trials of one variant at all loads.
fn swept(
    variant: Option<&str>,
    repeats: u32,
    spread: LoadSpread,
    random: &mut Rng,
    per_s: impl Fn(f64) -> f64,
) -> Vec<SyntheticTrial> {
    let mut trials = Vec::new();
    for (repeat, load) in (1..=repeats).flat_map(|repeat| LOADS.map(|load| (repeat, load))) {
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
    claims: &[Claim],
    mut trials: Vec<SyntheticTrial>,
) -> Result<Results, crate::exit::Failure> {
    for (trial, number) in trials.iter_mut().zip(1..) {
        trial.planned.id = format!("{number:03}");
    }
    bench.analyzed_sweep(&SimulatedPlan { variants, swept: &[LOAD], claims }, &trials)
}

/// Returns the claim that a metric is in this range, at the load `at` if it is given.
fn claim(metric: &str, range: MetricRange, at: Option<u32>) -> Claim {
    Claim {
        says: metric.to_owned(),
        source: "the simulation".to_owned(),
        metric: metric.into(),
        range,
        filter: at.map(|load| (LOAD.to_owned(), json!(load))).into_iter().collect(),
        // Only the statistics are checked, so void trials count, too.
        on_void: true,
    }
}

/// Checks a curve that rises linearly up to load 6. The lowest simulated load on its level part is
/// 8.
fn of_one(bench: &Bench<'_>, spread: LoadSpread) -> Rows {
    let setting = format!("spread {}, {REPEATS} repeats", spread.name);
    let mut random = bench.random(&setting);
    let mut peak = row("curve", &setting, "interval of the peak holds it", COVERAGE);
    let mut knee = row("curve", &setting, "interval of the knee holds it", COVERAGE);
    let mut level = row("curve", &setting, "claim of the true level is not refuted", at_least(0.95));
    let true_level = MetricRange { equals: Some(8.0), ..MetricRange::default() };
    let claims = [claim("level_from(load.agents)", true_level, None)];
    for _ in 0..bench.replicates(40) {
        let trials = swept(None, REPEATS, spread, &mut random, |load| 1_000.0 * load.min(6.0));
        let found = played(bench, &[], &claims, trials)?;
        let holds = found.claims.first().map(|claim| claim.holds).filter(|holds| *holds != Holds::NotMeasured);
        level.count(holds.map(|holds| holds != Holds::No));
        let Some(curve) = found.scaling.first() else { continue };
        peak.count_interval(curve.peak_ci95, 6_000.0);
        knee.count_interval(curve.knee_ci95, 6.0);
    }
    Ok(vec![peak, knee, level])
}

/// Checks two curves. The lead of one over the other is linear in the logarithm of the load, and is
/// 0 at load 8.
fn of_two(bench: &Bench<'_>, spread: LoadSpread) -> Rows {
    let setting = format!("spread {}, {REPEATS} repeats", spread.name);
    let mut random = bench.random(&format!("crossing, {setting}"));
    let mut crossing = row("curve", &setting, "interval of the crossing holds it", COVERAGE);
    let lead = |load: f64| (load.log2() - 3.0) / 9.0;
    for _ in 0..bench.replicates(40) {
        let mut trials = swept(Some("a"), REPEATS, spread, &mut random, |load| 1_000.0 * (1.0 + lead(load)));
        trials.extend(swept(Some("b"), REPEATS, spread, &mut random, |load| 1_000.0 * (1.0 - lead(load))));
        let found = played(bench, &["a", "b"], &[], trials)?;
        let ends = found.crossings.first().and_then(|crossing| crossing.ci95);
        crossing.count(ends.map(|[low, high]| low.is_none_or(|low| low <= 8.0) && high.is_none_or(|high| 8.0 <= high)));
    }
    Ok(vec![crossing])
}

/// Checks two curves with this ratio at each load.
fn of_ratio(bench: &Bench<'_>, spread: LoadSpread, ratio: f64) -> Rows {
    let setting = format!("spread {}, {REPEATS_OF_RATIO} repeats", spread.name);
    let mut random = bench.random(&format!("ratio {ratio}, {setting}"));
    let mut held = row("ratio at a load", &setting, "interval of the ratio holds it", COVERAGE);
    let with_ratio = format!("ratio {ratio}, {setting}");
    let mut shown = row(
        "ratio at a load",
        &with_ratio,
        "said to differ from 1",
        match ratio {
            1.0 => at_most(0.05),
            0.25 => at_least(0.95),
            _ => [None; 2],
        },
    );
    let metric = "ratio(throughput.operations_per_s, a, b)";
    let claims =
        LOADS.map(|load| claim(metric, MetricRange { equals: Some(1.0), ..MetricRange::default() }, Some(load)));
    for _ in 0..bench.replicates(10) {
        let rate = |load: f64| 1_000.0 * load.min(6.0);
        let mut trials = swept(Some("a"), REPEATS_OF_RATIO, spread, &mut random, |load| ratio * rate(load));
        trials.extend(swept(Some("b"), REPEATS_OF_RATIO, spread, &mut random, rate));
        let found = played(bench, &["a", "b"], &claims, trials)?;
        for claim in &found.claims {
            held.count_interval(claim.range, ratio);
            shown.count(claim.range.map(|_| claim.holds == Holds::No));
        }
    }
    Ok(vec![held, shown])
}
