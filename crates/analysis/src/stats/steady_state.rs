//! Where the warm-up ends: MSER-5 on throughput in bins of 100 ms. It must not know of faults; the caller ends the part that
//! is looked at before the first one.
//!
//! The marginal standard error rule cuts off as many observations as make the standard error of the mean of the rest
//! smallest; MSER-5 applies it to means of 5 observations (K. P. White, "An effective truncation heuristic for bias
//! reduction in simulation output", Simulation 69, 1997; K. P. White, M. J. Cobb, S. C. Spratt, "A comparison of five
//! steady-state truncation heuristics for simulation", Winter Simulation Conference 2000). A cut in the second half means that the rest
//! is still moving: no steady state.

use super::timeline::Timeline;

/// Bin of throughput, seconds.
const BIN_S: f64 = 0.1;

/// Observations in a batch.
const BATCH: usize = 5;

/// Fewest batches that can show anything.
const FEWEST: usize = 10;

/// From when on throughput is steady between the end of the ramp and `until_s`, and whether it is; `None` if that is too
/// short to tell, and then the warm-up is the ramp alone.
pub(crate) fn steady_from(timeline: &Timeline, ramp_s: f64, until_s: f64) -> (f64, Option<bool>) {
    let bins = timeline.ok_rates(ramp_s, until_s, BIN_S);
    // Less than five seconds: the rule without batches, which is coarser but better than none.
    let batch = if bins.len() >= FEWEST * BATCH { BATCH } else { 1 };
    let means: Vec<f64> = bins.chunks_exact(batch).map(|chunk| chunk.iter().sum::<f64>() / batch as f64).collect();
    if means.len() < FEWEST {
        return (ramp_s, None);
    }
    let (cut, steady) = truncation(&means);
    (ramp_s + (cut * batch) as f64 * BIN_S, Some(steady))
}

/// How many observations the rule cuts off the front, at most half, and whether that leaves a steady rest.
fn truncation(observations: &[f64]) -> (usize, bool) {
    let errors = squared_errors(observations);
    let smallest = |upto: usize| (0..upto).min_by(|&a, &b| errors[a].total_cmp(&errors[b])).unwrap_or(0);
    let half = observations.len() / 2;
    // The last few are left out: a handful of equal values has no spread at all, and says nothing.
    let anywhere = smallest(observations.len().saturating_sub(BATCH - 1).max(half + 1));
    (smallest(half + 1), anywhere <= half)
}

/// Squared standard error of the mean of `observations[cut..]`, for each cut; from the end, so that it takes one pass.
fn squared_errors(observations: &[f64]) -> Vec<f64> {
    let mut errors = vec![f64::INFINITY; observations.len()];
    let (mut mean, mut squares) = (0.0, 0.0);
    for (number, (&value, error)) in observations.iter().zip(errors.iter_mut()).rev().enumerate() {
        let count = (number + 1) as f64;
        let off = value - mean;
        mean += off / count;
        squares += off * (value - mean);
        *error = squares / (count * count);
    }
    errors
}

#[cfg(test)]
mod tests;
