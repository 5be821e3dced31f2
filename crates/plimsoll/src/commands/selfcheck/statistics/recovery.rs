//! Simulated recovery after a fault without effect, and after planted outages, in loads that vary
//! by themselves. Also checks the intervals of the baseline and of the number of operations that a
//! fault cost.

use analysis::noise::{autoregressive, poisson};
use experiment::plan::Warmup;
use fastrand::Rng;
use record::results::Outage;

use super::synthetic_run::{SyntheticTrial, planned, with_fault};
use super::{Bench, COVERAGE, Job, Rows, at_least, row};

/// Length of a slot, seconds.
const SLOT_S: f64 = 0.005;
/// Mean rate of a load, operations per second.
const PER_S: f64 = 5_000.0;
/// Time of the fault, seconds since load start.
const FAULT_S: f64 = 15.0;
/// Length of the load, seconds.
const UNTIL_S: f64 = 30.0;

/// Relative rate of a load in each slot. The mean is 1, apart from pauses.
type Levels = Vec<f64>;
/// Function that draws a load's own variation.
type LoadNoise = fn(&mut Rng) -> Levels;

/// Names and functions of the kinds of noise. The last two vary by 15 % within 100 ms.
const NOISES: [(&str, LoadNoise); 12] = [
    ("Poisson", |_| even()),
    ("4 %, AR 0.8", |random| correlated(random, 0.04, 0.8)),
    ("4 %, AR 0.95", |random| correlated(random, 0.04, 0.95)),
    ("15 %, AR 0.6", |random| correlated(random, 0.15, 0.6)),
    ("wave of 6 % in 8 s", |random| {
        let phase = random.f64();
        leveled(|at_s| 1.0 + 0.06 * (std::f64::consts::TAU * (at_s / 8.0 + phase)).sin())
    }),
    ("pauses of 50 ms every 1 s", |random| periodic(random, 1.0, 0.05, 0.0)),
    ("pauses of 100 ms every 2 s", |random| periodic(random, 2.0, 0.1, 0.0)),
    ("pauses of 100 ms every 5 s", |random| periodic(random, 5.0, 0.1, 0.0)),
    ("pauses of 40 ms at random, every 2 s", |random| at_random(random, 2.0, 0.04)),
    ("pauses of 100 ms at random, every 3 s", |random| at_random(random, 3.0, 0.1)),
    ("40 % less for 250 ms every 3 s", |random| periodic(random, 3.0, 0.25, 0.6)),
    ("30 % less for 2 s every 12 s", |random| periodic(random, 12.0, 2.0, 0.7)),
];

fn slots() -> usize {
    (UNTIL_S / SLOT_S).round() as usize
}

fn leveled(level: impl Fn(f64) -> f64) -> Levels {
    (0..slots()).map(|slot| level((slot as f64 + 0.5) * SLOT_S)).collect()
}

fn even() -> Levels {
    vec![1.0; slots()]
}

/// Returns levels with noise of this standard deviation and autocorrelation, in bins of 100 ms.
fn correlated(random: &mut Rng, spread: f64, phi: f64) -> Levels {
    let bins = autoregressive(random, (UNTIL_S / 0.1).round() as usize, phi);
    leveled(|at_s| (1.0 + spread * bins[(at_s / 0.1) as usize]).max(0.02))
}

/// Returns levels that fall to the share `left` for `long_s`, once in each period.
fn periodic(random: &mut Rng, period_s: f64, long_s: f64, left: f64) -> Levels {
    let phase_s = period_s * random.f64();
    leveled(|at_s| if (at_s + phase_s) % period_s < long_s { left } else { 1.0 })
}

/// Returns levels that fall to 0 for `long_s` at random times, about once in each `period_s`.
fn at_random(random: &mut Rng, period_s: f64, long_s: f64) -> Levels {
    let mut levels = even();
    let pauses = poisson(random, UNTIL_S / period_s);
    for _ in 0..pauses {
        let from = random.usize(..levels.len());
        let until = (from + (long_s / SLOT_S).round() as usize).min(levels.len());
        levels[from..until].fill(0.0);
    }
    levels
}

/// A planted outage: its length in seconds, and the share of the throughput that remains.
type Planted = (f64, f64);

const NOTHING: Planted = (0.0, 1.0);

fn trial(number: u32, mut levels: Levels, (long_s, left): Planted, random: &mut Rng) -> SyntheticTrial {
    let from = (FAULT_S / SLOT_S).round() as usize;
    let until = from + (long_s / SLOT_S).round() as usize;
    levels[from..until].iter_mut().for_each(|level| *level *= left);
    let ok = levels.iter().map(|level| poisson(random, level * PER_S * SLOT_S)).collect();
    SyntheticTrial::of(with_fault(planned(number, UNTIL_S, Warmup::Seconds(0.0)), FAULT_S), SLOT_S, ok)
}

/// Returns the settings.
pub fn jobs() -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for (name, noise) in NOISES {
        jobs.push(Box::new(move |bench| no_operation(bench, name, noise)));
        for left in [0.0, 0.3, 0.6, 0.8] {
            jobs.push(Box::new(move |bench| outages(bench, name, noise, left)));
        }
    }
    for (baseline_s, outage_s, phi) in [
        (10.0, 1.0, 0.0),
        (10.0, 1.0, 0.8),
        (10.0, 5.0, 0.8),
        (10.0, 1.0, 0.95),
        (2.0, 1.0, 0.8),
        (2.0, 5.0, 0.8),
        (1.0, 2.0, 0.8),
    ] {
        jobs.push(Box::new(move |bench| intervals(bench, baseline_s, outage_s, phi)));
    }
    jobs
}

fn felt(bench: &Bench<'_>, trials: &[SyntheticTrial]) -> Result<Vec<Outage>, crate::exit::Failure> {
    let found = bench.analyzed(trials)?;
    let outages = found.trials.into_iter().map(|trial| trial.faults.into_iter().next()?.outage);
    Ok(outages.map(Option::unwrap_or_default).collect())
}

fn no_operation(bench: &Bench<'_>, name: &str, noise: LoadNoise) -> Rows {
    let mut random = bench.random(name);
    let trials: Vec<SyntheticTrial> = (1..=bench.replicates(100))
        .map(|number| {
            let levels = noise(&mut random);
            trial(number, levels, NOTHING, &mut random)
        })
        .collect();
    let mut none = row("a fault without effect", name, "recovered after 0 s", at_least(0.95));
    for outage in felt(bench, &trials)? {
        none.count(answer(&outage, |back_s| back_s == Some(0.0)));
    }
    Ok(vec![none])
}

/// Returns whether the reported recovery is right, or `None` if the results say that it cannot be
/// determined.
fn answer(outage: &Outage, is_right: impl Fn(Option<f64>) -> bool) -> Option<bool> {
    outage.cannot_tell.is_none().then(|| is_right(outage.back_to_baseline_s))
}

/// Whether the outage is larger than the drop from which, by the results, an outage is
/// distinguished from the load's own variation.
fn is_beyond_the_bound(outage: &Outage, (long_s, left): Planted) -> bool {
    let known = outage.baseline_per_s.zip(outage.bound_per_s.zip(outage.bound_window_s));
    known.is_some_and(|(level, (bound, window_s))| (1.0 - left) * (long_s / window_s).min(1.0) > 1.0 - bound / level)
}

fn outages(bench: &Bench<'_>, name: &str, noise: LoadNoise, left: f64) -> Rows {
    let mut random = bench.random(&format!("{name} {left}"));
    let mut rows = Vec::new();
    for long_s in [0.1, 1.0, 5.0] {
        let trials: Vec<SyntheticTrial> = (1..=bench.replicates(20))
            .map(|number| {
                let levels = noise(&mut random);
                trial(number, levels, (long_s, left), &mut random)
            })
            .collect();
        let felt = felt(bench, &trials)?;
        let planted = format!("{long_s} s at {:.0} % of the throughput", 100.0 * left);
        for (of, setting) in [("recovery, by noise", name), ("recovery, by outage", &planted)] {
            for (asked, within_s, share) in [("within 0.1 s", 0.1, 0.5), ("within 0.5 s", 0.5, 0.9)] {
                let mut near = row(of, setting, asked, at_least(share));
                // Recorded times have the resolution of a slot, so a slot of difference is allowed.
                for outage in &felt {
                    let is_near = answer(outage, |back_s| {
                        back_s.is_some_and(|back_s| (back_s - long_s).abs() < within_s + SLOT_S)
                    });
                    near.count(is_near.filter(|_| is_beyond_the_bound(outage, (long_s, left))));
                }
                rows.push(near);
            }
        }
    }
    Ok(rows)
}

/// Simulates 5 % of noise in bins of 100 ms and a total outage, and checks the intervals.
fn intervals(bench: &Bench<'_>, baseline_s: f64, outage_s: f64, phi: f64) -> Rows {
    let setting = format!("baseline of {baseline_s} s, outage of {outage_s} s, AR {phi}");
    let mut random = bench.random(&setting);
    let from = ((FAULT_S - baseline_s) / SLOT_S).round() as usize;
    let slots = (outage_s / SLOT_S).round() as usize;
    let mut lost = Vec::new();
    let trials: Vec<SyntheticTrial> = (1..=bench.replicates(100))
        .map(|number| {
            let levels = correlated(&mut random, 0.05, phi);
            let mut one = trial(number, levels, NOTHING, &mut random);
            // A shorter load has a shorter baseline.
            one.ok.drain(..from);
            let begin = (baseline_s / SLOT_S).round() as usize;
            lost.push(one.ok[begin..begin + slots].iter().map(|ok| f64::from(*ok)).sum::<f64>());
            one.ok[begin..begin + slots].fill(0);
            one.planned = with_fault(planned(number, UNTIL_S - FAULT_S + baseline_s, Warmup::Seconds(0.0)), baseline_s);
            one
        })
        .collect();
    let mut of_baseline = row("baseline of a fault", &setting, "interval holds the long-run rate", COVERAGE);
    let mut of_lost = row("operations lost by a fault", &setting, "interval holds them", COVERAGE);
    for (outage, lost) in felt(bench, &trials)?.iter().zip(lost) {
        of_baseline.count_interval(outage.baseline_ci95, PER_S);
        of_lost.count_interval(outage.lost_operations_ci95, lost);
    }
    Ok(vec![of_baseline, of_lost])
}
