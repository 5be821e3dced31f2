//! Simulated unsteady loads: how often a falling throughput is found, and how often a warm-up
//! distorts the mean.

use analysis::noise::autoregressive;
use experiment::plan::Warmup;
use record::results::Trial;

use super::synthetic_run::{SyntheticTrial, planned};
use super::{Bench, Job, Rows, at_least, at_most, row};

/// Length of a bin, seconds.
const BIN_S: f64 = 0.1;
/// Mean number of operations in a bin.
const IN_BIN: f64 = 2_000.0;

/// Returns the settings.
pub fn jobs() -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for (leak, time_s) in [(0.12, 10.0), (0.2, 10.0), (0.12, 20.0), (0.25, 60.0)] {
        jobs.push(Box::new(move |bench| leaking(bench, leak, time_s)));
    }
    for (time_s, slower, fades_s) in
        [(20.0, 0.3, 6.0), (20.0, 0.3, 3.0), (10.0, 0.3, 2.0), (60.0, 0.1, 15.0), (60.0, 0.3, 5.0)]
    {
        jobs.push(Box::new(move |bench| warming_up(bench, time_s, slower, fades_s)));
    }
    jobs
}

/// Simulates trials whose relative throughput over time is `level`. The noise has the standard
/// deviation `spread` and an autocorrelation of 0.5.
fn played(
    bench: &Bench<'_>,
    setting: &str,
    time_s: f64,
    spread: f64,
    level: impl Fn(f64) -> f64,
) -> Result<Vec<Trial>, crate::exit::Failure> {
    let mut random = bench.random(setting);
    let trials: Vec<SyntheticTrial> = (1..=bench.replicates(100))
        .map(|number| {
            let bins = autoregressive(&mut random, (time_s / BIN_S).round() as usize, 0.5);
            let mut ok = Vec::new();
            for (bin, noise) in bins.iter().enumerate() {
                let level = level((bin as f64 + 0.5) * BIN_S) * (1.0 + spread * noise);
                ok.push((level.max(0.0) * IN_BIN + random.f64()) as u32);
            }
            SyntheticTrial::of(planned(number, time_s, Warmup::Auto), BIN_S, ok)
        })
        .collect();
    Ok(bench.analyzed(&trials)?.trials)
}

/// Simulates throughput that falls evenly by the share `leak` over the trial.
fn leaking(bench: &Bench<'_>, leak: f64, time_s: f64) -> Rows {
    let setting = format!("{:.0} % less over {time_s} s", 100.0 * leak);
    let trials = played(bench, &setting, time_s, 0.03, |at_s| 1.0 - leak * at_s / time_s)?;
    let mut steady = row("a leak", &setting, "called steady", at_most(0.05));
    let mut noticed = row("a leak", &setting, "called unsteady, or a faster start", at_least(0.5));
    for trial in &trials {
        let Some(found) = &trial.steady else { continue };
        steady.count(Some(found.is == Some(true) && found.faster_start.is_none()));
        noticed.count(Some(found.is == Some(false) || found.faster_start.is_some()));
    }
    Ok(vec![steady, noticed])
}

/// Simulates throughput that is at first lower by the share `slower`. The difference decays with
/// the time constant `fades_s`.
fn warming_up(bench: &Bench<'_>, time_s: f64, slower: f64, fades_s: f64) -> Rows {
    let setting = format!("{time_s} s, {:.0} % less at first, fading in {fades_s} s", 100.0 * slower);
    let trials = played(bench, &setting, time_s, 0.02, |at_s| 1.0 - slower * (-at_s / fades_s).exp())?;
    let truth = IN_BIN / BIN_S;
    let mut held = row("a warm-up", &setting, "interval holds the final rate, or unsteady", at_least(0.92));
    for trial in &trials {
        let is_unsteady = trial.steady.as_ref().is_some_and(|steady| steady.is == Some(false));
        let ci95 = trial.throughput.operations_per_s_ci95;
        held.count(ci95.map(|[low, high]| is_unsteady || (low <= truth && truth <= high)));
    }
    Ok(vec![held])
}
