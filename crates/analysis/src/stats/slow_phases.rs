//! Stretches of a series that lie above the rest and then end: times in which service was slow.
//! This module must not know what the series measures.
//!
//! The first stretch is the one with the largest sum of distances from the median, each less half
//! of the relevant distance. It is the stretch that a shift by this distance explains best (E. S.
//! Page, "Continuous inspection schemes", Biometrika 41, 1954; over all stretches: J. Bentley,
//! "Programming Pearls", Communications of the ACM 27, 1984). The next largest stretches outside of
//! it follow, one after the other, as in circular binary segmentation (A. B. Olshen, E. S.
//! Venkatraman, R. Lucito, M. Wigler, Biostatistics 5, 2004).
//!
//! A stretch counts if three conditions hold: its mean is off by the relevant distance; three
//! quarters of its observations are off by half of this distance, so that two stalls with a good
//! second between them do not count; and its mean is [`SURE`] standard errors from the median. The
//! standard error is derived from the median absolute deviation. Correlation of neighbours widens
//! the error (see [`super::effective_samples`]), but not beyond that of a single observation. A
//! stretch at the start of the series is a warm-up. A stretch that continues to the end of the
//! series counts if two levels explain the series better than a straight line, which would be a
//! trend and no slow phase.
//!
//! Each hour of a long series is analyzed by itself, so that the hours of a day are not compared
//! with each other.

use super::effective_samples::inflation;
use super::quantiles::{mean, median};
use super::sectioning::batches;

/// Fewest observations that show the usual level.
const FEWEST: usize = 8;

/// Fewest consecutive observations of a phase.
const IN_A_ROW: usize = 2;

/// Standard errors by which the mean of a phase must be off. The number is high because a series
/// has many stretches.
const SURE: f64 = 5.0;

/// The median absolute deviation of a normal distribution with standard deviation 1.
const NORMAL_MAD: f64 = 0.6745;

/// Observations in a part that is analyzed by itself: an hour of seconds.
const PART: usize = 3_600;

/// Distance from the median to which an observation is limited, standard deviations.
const DRAWN_IN: f64 = 3.0;

/// Largest number of stretches that are examined in a part.
const LOOKS: usize = 60;

/// A slow stretch of a series: observations `from..until`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SlowPhase {
    pub from: usize,
    pub until: usize,
}

/// Returns the phases of a series in which it is higher by `least` than usual, in order. NaN marks
/// times without a measurement. `chance` is the smallest standard deviation of an observation.
pub(crate) fn slow_phases(series: &[f64], least: f64, chance: f64) -> Vec<SlowPhase> {
    let mut found: Vec<SlowPhase> = Vec::new();
    let mut begin = 0;
    for part in batches(series, (series.len() / PART).max(1)) {
        for SlowPhase { from, until } in in_part(part, least, chance, begin > 0) {
            let phase = SlowPhase { from: begin + from, until: begin + until };
            match found.last_mut().filter(|last| last.until == phase.from) {
                Some(last) => last.until = phase.until,
                None => found.push(phase),
            }
        }
        begin += part.len();
    }
    found
}

fn in_part(series: &[f64], least: f64, chance: f64, goes_on: bool) -> Vec<SlowPhase> {
    let known: Vec<f64> = series.iter().copied().filter(|value| value.is_finite()).collect();
    let Some(usual) = median(&known).filter(|_| known.len() >= FEWEST) else { return Vec::new() };
    let off: Vec<f64> = series.iter().map(|value| value - usual).collect();
    let away: Vec<f64> = known.iter().map(|value| (value - usual).abs()).collect();
    let spread = (median(&away).unwrap_or(0.0) / NORMAL_MAD).max(chance);
    let first = off.iter().position(|value| value.is_finite()).unwrap_or(0);
    let end = off.iter().rposition(|value| value.is_finite()).map_or(0, |last| last + 1);
    // Limited to `least`; otherwise a deep phase would extend into the next one.
    let mut scores: Vec<f64> = off.iter().map(|value| value.clamp(-least, least) - least / 2.0).collect();
    let mut found = Vec::new();
    for _ in 0..LOOKS {
        let Some((phase, sum)) = largest(&scores) else { break };
        // Three quarters of the score of [`IN_A_ROW`] observations that are off by `least`.
        if sum < 0.75 * least * IN_A_ROW as f64 / 2.0 {
            break;
        }
        scores[phase.from..phase.until].fill(f64::NAN);
        let is_warmup = phase.from == first && !goes_on;
        if !is_warmup && counts(&off, phase, least, spread) && !(phase.until == end && is_line(&off, phase)) {
            found.push(phase);
        }
    }
    found.sort_by_key(|phase| phase.from);
    found
}

/// Returns the stretch with the largest sum that contains no NaN.
fn largest(scores: &[f64]) -> Option<(SlowPhase, f64)> {
    let (mut best, mut from, mut sum) = (None, 0, 0.0);
    let mut most = 0.0;
    for (at, score) in scores.iter().enumerate() {
        sum += score;
        if sum.is_nan() || sum <= 0.0 {
            (from, sum) = (at + 1, 0.0);
        } else if sum > most {
            most = sum;
            best = Some((SlowPhase { from, until: at + 1 }, sum));
        }
    }
    best
}

/// Whether a stretch is off by the relevant distance, on average and in most observations, and by
/// more than chance.
fn counts(off: &[f64], phase: SlowPhase, least: f64, spread: f64) -> bool {
    let inside = &off[phase.from..phase.until];
    let far = inside.iter().filter(|value| **value >= least / 2.0).count();
    let Some(level) = mean(inside).filter(|level| *level >= least && inside.len() >= IN_A_ROW) else { return false };
    let length = inside.len() as f64;
    if 4 * far < 3 * inside.len() || level < SURE * spread / length.sqrt() {
        return false;
    }
    if level >= SURE * spread {
        return true;
    }
    let mut rest = off.to_vec();
    rest[phase.from..phase.until].iter_mut().for_each(|value| *value -= level);
    rest.retain(|value| value.is_finite());
    rest.iter_mut().for_each(|value| *value = value.clamp(-DRAWN_IN * spread, DRAWN_IN * spread));
    // Slow wander, over longer times than the phase, shifts all observations of the phase together.
    level >= SURE * spread * (inflation(&rest).min(length) / length).sqrt()
}

/// Whether a straight line explains the series better than two levels, of which the second begins
/// with the phase.
fn is_line(off: &[f64], phase: SlowPhase) -> bool {
    let (times, values): (Vec<f64>, Vec<f64>) =
        off.iter().enumerate().filter(|(_, value)| value.is_finite()).map(|(at, value)| (at as f64, *value)).unzip();
    let (before, after) = values.split_at(times.partition_point(|at| *at < phase.from as f64));
    let levels = squared_deviations(before) + squared_deviations(after);
    let centre = mean(&times).unwrap_or(0.0);
    let together: f64 = times.iter().zip(&values).map(|(at, value)| (at - centre) * value).sum();
    squared_deviations(&values) - together * together / squared_deviations(&times) < levels
}

/// Returns the sum of squared deviations from the mean.
fn squared_deviations(values: &[f64]) -> f64 {
    let centre = mean(values).unwrap_or(0.0);
    values.iter().map(|value| (value - centre).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::autoregressive;

    /// A fifth less throughput, as negative logarithms of rates.
    const LEAST: f64 = 0.16;

    fn series(seed: u64, length: usize, noise: f64, phi: f64, slow: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut series = autoregressive(&mut random, length, phi);
        series.iter_mut().enumerate().for_each(|(at, value)| *value = *value * noise + slow(at));
        series
    }

    /// Returns the phases in noise of 3 % with these additions.
    fn located(seed: u64, length: usize, phi: f64, slow: impl Fn(usize) -> f64) -> Vec<[usize; 2]> {
        let found = slow_phases(&series(seed, length, 0.03, phi, slow), LEAST, 0.0);
        found.iter().map(|phase| [phase.from, phase.until]).collect()
    }

    #[test]
    fn a_phase_is_located() {
        assert_eq!(located(1, 20, 0.0, |at| if (8..13).contains(&at) { 0.69 } else { 0.0 }), [[8, 13]]);
        assert_eq!(located(2, 60, 0.3, |at| if matches!(at, 8..13 | 30..34) { 0.5 } else { 0.0 }), [[8, 13], [30, 34]]);
    }

    #[test]
    fn stalls_warm_up_and_trends_are_no_phases() {
        assert_eq!(located(3, 40, 0.0, |at| if [7, 9, 22].contains(&at) { 2.0 } else { 0.0 }), [[0; 2]; 0]);
        assert_eq!(located(4, 40, 0.0, |at| if at < 6 { 0.7 } else { 0.0 }), [[0; 2]; 0]);
        assert_eq!(located(5, 40, 0.0, |at| 0.015 * at as f64), [[0; 2]; 0]);
        assert_eq!(located(6, 40, 0.0, |at| if at >= 30 { 0.5 } else { 0.0 }), [[30, 40]]);
        assert_eq!(slow_phases(&[1.0; 5], LEAST, 0.0), []);
        assert_eq!(slow_phases(&[f64::NAN; 50], LEAST, 0.0), []);
    }

    #[test]
    fn each_hour_is_analysed_separately() {
        let day = series(7, 3 * PART, 0.03, 0.5, |at| {
            0.1 * (at as f64 / PART as f64) + if (5_000..5_006).contains(&at) { 0.4 } else { 0.0 }
        });
        let found = slow_phases(&day, LEAST, 0.0);
        assert!(
            found.iter().any(|phase| phase.from.abs_diff(5_000) <= 1 && phase.until.abs_diff(5_006) <= 1),
            "{found:?}"
        );
    }

    /// Noise of a second and its correlation with the next; how many of 100 series may have a
    /// phase; and how many must.
    #[test]
    fn noise_has_no_phases_and_hides_few() {
        for (noise, phi, least_found) in
            [(0.01, 0.0, 99), (0.03, 0.0, 99), (0.03, 0.7, 95), (0.05, 0.5, 90), (0.1, 0.0, 90), (0.1, 0.7, 0)]
        {
            let (mut alarms, mut found) = (0, 0);
            for seed in 0..100 {
                alarms += slow_phases(&series(seed, 60, noise, phi, |_| 0.0), LEAST, 0.0).len();
                let slow = series(seed, 60, noise, phi, |at| if (20..28).contains(&at) { 0.5 } else { 0.0 });
                let phases = slow_phases(&slow, LEAST, 0.0);
                found += usize::from(phases.iter().any(|phase| phase.from < 28 && phase.until > 20));
            }
            println!("noise {noise}, φ = {phi}: {alarms} alarms, {found} found");
            assert!(alarms <= 1 && found >= least_found, "noise {noise}, φ = {phi}: {alarms} alarms, {found} found");
        }
    }
}
