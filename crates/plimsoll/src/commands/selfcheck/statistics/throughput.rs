//! Simulated throughput in a trial: how often its interval contains the long-run rate, and how
//! often a constant load is called unsteady.

use analysis::noise::autoregressive;
use experiment::plan::Warmup;
use fastrand::Rng;

use super::synthetic_run::{SyntheticTrial, planned};
use super::{Bench, COVERAGE, Job, at_most, row};

/// Length of a bin, seconds.
const BIN_S: f64 = 0.1;
/// Mean number of operations in a bin.
const IN_BIN: f64 = 2_000.0;

/// A load whose long-run rate is known.
#[derive(Clone)]
struct RateSetting {
    name: String,
    time_s: f64,
    noise: BinNoise,
}

/// Variation of the throughput from bin to bin, as a share of its mean.
#[derive(Clone, Copy)]
enum BinNoise {
    /// 3 % of autoregressive noise with this coefficient.
    Correlated(f64),
    /// Alternately 1 % and 8 % of autoregressive noise with this coefficient, each for 3 s.
    Unequal(f64),
    /// 3 % of autoregressive noise with this coefficient, and stalls of 200 ms about every 5 s.
    Stalls(f64),
    /// 2 % of uncorrelated noise, and every 2 s a bin with 60 % less.
    Pauses,
}

impl BinNoise {
    /// Returns the relative throughput of a load in each bin, and its long-run mean.
    fn bins(self, count: usize, random: &mut Rng) -> (Vec<f64>, f64) {
        let phi = match self {
            Self::Correlated(phi) | Self::Unequal(phi) | Self::Stalls(phi) => phi,
            Self::Pauses => 0.0,
        };
        let mut bins = autoregressive(random, count, phi);
        for (bin, value) in bins.iter_mut().enumerate() {
            let spread = match self {
                Self::Unequal(_) if (bin / 30).is_multiple_of(2) => 0.01,
                Self::Unequal(_) => 0.08,
                Self::Pauses => 0.02,
                _ => 0.03,
            };
            *value = 1.0 + spread * *value;
        }
        match self {
            Self::Stalls(_) => {
                let starts: Vec<bool> = (0..=count).map(|_| random.f64() < 0.02).collect();
                for bin in (0..count).filter(|&bin| starts[bin] || starts[bin + 1]) {
                    bins[bin] = 0.0;
                }
                (bins, 0.98 * 0.98)
            }
            Self::Pauses => {
                bins.iter_mut().skip(random.usize(..20)).step_by(20).for_each(|value| *value *= 0.4);
                (bins, 1.0 - 0.6 / 20.0)
            }
            _ => (bins, 1.0),
        }
    }
}

/// Returns the settings.
pub fn jobs() -> Vec<Job> {
    let mut settings = Vec::new();
    for time_s in [5.0, 10.0, 20.0, 60.0] {
        for phi in [0.0, 0.5, 0.8, 0.95] {
            settings.push(RateSetting {
                name: format!("AR {phi}, {time_s} s"),
                time_s,
                noise: BinNoise::Correlated(phi),
            });
        }
    }
    for time_s in [10.0, 30.0] {
        for phi in [0.0, 0.8] {
            let unequal = format!("unequal spread, AR {phi}, {time_s} s");
            settings.push(RateSetting { name: unequal, time_s, noise: BinNoise::Unequal(phi) });
            settings.push(RateSetting {
                name: format!("stalls, AR {phi}, {time_s} s"),
                time_s,
                noise: BinNoise::Stalls(phi),
            });
        }
        settings.push(RateSetting { name: format!("periodic pauses, {time_s} s"), time_s, noise: BinNoise::Pauses });
    }
    settings.into_iter().map(|setting| -> Job { Box::new(move |bench| setting.play(bench)) }).collect()
}

impl RateSetting {
    fn play(&self, bench: &Bench<'_>) -> super::Rows {
        let mut random = bench.random(&self.name);
        let count = (self.time_s / BIN_S).round() as usize;
        let mut truths = Vec::new();
        let trials: Vec<SyntheticTrial> = (1..=bench.replicates(200))
            .map(|number| {
                let (bins, truth) = self.noise.bins(count, &mut random);
                truths.push(truth * IN_BIN / BIN_S);
                let ok = bins.iter().map(|level| (level.max(0.0) * IN_BIN + random.f64()) as u32).collect();
                SyntheticTrial::of(planned(number, self.time_s, Warmup::Seconds(0.0)), BIN_S, ok)
            })
            .collect();
        let found = bench.analyzed(&trials)?;
        let mut held = row("throughput", &self.name, "interval holds the long-run rate", COVERAGE);
        let mut unsteady = row("steadiness", &self.name, "called unsteady", at_most(0.05));
        for (trial, truth) in found.trials.iter().zip(truths) {
            held.count_interval(trial.throughput.operations_per_s_ci95, truth);
            unsteady.count(trial.steady.as_ref().and_then(|steady| steady.is).map(|is| !is));
        }
        Ok(vec![held, unsteady])
    }
}
