//! Simulated quantiles of latency in a trial: how often their intervals contain the long-run
//! quantiles of a queue.

use experiment::plan::Warmup;
use fastrand::Rng;
use record::results::QuantileIntervals;

use super::synthetic_run::{SyntheticTrial, histogram, planned};
use super::{Bench, COVERAGE, Job, Rows, row};
use crate::exit::Failure;

/// Capacity of the server, operations per second.
const SERVES_PER_S: f64 = 1_000.0;
/// Length of a slot, seconds.
const SLOT_S: f64 = 0.1;

/// Returns the settings.
pub fn jobs() -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for load in [0.5, 0.9] {
        for time_s in [10_u32, 20, 60] {
            jobs.push(Box::new(move |bench| play(bench, load, time_s)));
        }
    }
    jobs
}

/// Simulates a queue with one server, random arrivals and random service times (M/M/1). Its
/// response times are exponential.
fn play(bench: &Bench<'_>, load: f64, time_s: u32) -> Rows {
    type Interval = fn(&QuantileIntervals) -> Option<[f64; 2]>;
    let asked: [(&str, f64, Interval); 3] = [
        ("interval of the median holds it", 0.5, |found| found.p50_ci95),
        ("interval of p90 holds it", 0.9, |found| found.p90_ci95),
        ("interval of p99 holds it", 0.99, |found| found.p99_ci95),
    ];
    let setting = format!("queue at {:.0} % of its capacity, {time_s} s", 100.0 * load);
    let mut random = bench.random(&setting);
    let trials: Result<Vec<SyntheticTrial>, std::io::Error> =
        (1..=bench.replicates(100)).map(|number| queue(number, load, time_s, &mut random)).collect();
    let found = bench.analyzed(&trials.map_err(Failure::file("cannot make a histogram"))?)?;
    let rows = asked.into_iter().map(|(asked, quantile, interval)| {
        let truth_us = -(1.0 - quantile).ln() / (SERVES_PER_S * (1.0 - load)) * 1e6;
        let mut held = row("quantiles of latency", &setting, asked, COVERAGE);
        for trial in &found.trials {
            let ci95 = trial.latency_intervals_us.as_ref().and_then(interval);
            held.count_interval(ci95, truth_us);
        }
        held
    });
    Ok(rows.collect())
}

fn queue(number: u32, load: f64, time_s: u32, random: &mut Rng) -> std::io::Result<SyntheticTrial> {
    let exponential = |random: &mut Rng, per_s: f64| -random.f64().max(1e-12).ln() / per_s;
    let mut ok = vec![0; (f64::from(time_s) / SLOT_S).round() as usize];
    let mut seconds = (0..time_s).map(|_| histogram()).collect::<std::io::Result<Vec<_>>>()?;
    // The queue starts 20 s before the load, so that it is in its steady state.
    let (mut at_s, mut free_s) = (-20.0_f64, -20.0_f64);
    loop {
        at_s += exponential(random, SERVES_PER_S * load);
        free_s = free_s.max(at_s) + exponential(random, SERVES_PER_S);
        if free_s < 0.0 {
            continue;
        }
        let Some(slot) = ok.get_mut((free_s / SLOT_S) as usize) else { break };
        *slot += 1;
        seconds[free_s as usize].record(((free_s - at_s) * 1e9) as u64).map_err(std::io::Error::other)?;
    }
    let mut trial = SyntheticTrial::of(planned(number, f64::from(time_s), Warmup::Seconds(0.0)), SLOT_S, ok);
    trial.latencies = Some(seconds);
    Ok(trial)
}
