//! Where the warm-up ends, and whether what follows is steady: on throughput in bins of 100 ms and on latency each second. It must
//! not know of faults; the caller ends the part that is looked at before the first one.
//!
//! **Cut**: the marginal standard error rule cuts off as many observations as make the standard error of the mean of the rest
//! smallest; MSER-5 applies it to means of 5 observations (K. P. White, "An effective truncation heuristic for bias
//! reduction in simulation output", Simulation 69, 1997; K. P. White, M. J. Cobb, S. C. Spratt, "A comparison of five
//! steady-state truncation heuristics for simulation", Winter Simulation Conference 2000). At most half is cut off. A stall is no
//! warm-up: observations are drawn in to three robust standard deviations first, and of latencies the logarithm is taken. A cut
//! that would hardly change the mean is not made, because it costs time and buys nothing. Of the two cuts the later one holds.
//!
//! **Steady**: the rule's minimum lies in the second half also of noise whose neighbours resemble each other (of AR(1) with φ = 0.9 in a
//! tenth of all series), so that alone is no verdict. Something is unsteady if its level has shifted within what is left (see
//! [`super::level_shift`]), by more than chance and by more than machines drift of their own accord; or, where the minimum lies in
//! the second half, within the whole, because half a climb is no steadier than all of it.

use record::results::Steady;

use super::effective_samples::MOST;
use super::level_shift::level_shift;
use super::order::{mean, median, nearest_rank};
use super::timeline::Timeline;

/// Bin of throughput, seconds.
const BIN_S: f64 = 0.1;

/// Observations in a batch.
const BATCH: usize = 5;

/// Fewest batches that can show anything, and fewest seconds of latency.
const FEWEST: usize = 10;

/// Standard deviations (by the median absolute deviation, which is 0.6745 of one) to which an observation counts.
const DRAWN_IN: f64 = 3.0 / 0.6745;

/// How much is looked for, as shares.
#[derive(Debug, Clone, Copy)]
struct Matters {
    /// A cut that changes the mean by less is not made.
    bias: f64,
    /// A shift of the level by less is drift.
    shift: f64,
}

/// The machines that this was built on drift by 5 to 10 % within minutes.
const OF_THROUGHPUT: Matters = Matters { bias: 0.01, shift: 0.15 };

/// Within less than five seconds chance alone moves it further.
const OF_SHORT_THROUGHPUT: Matters = Matters { bias: 0.01, shift: 0.25 };

/// Near saturation a drift of 10 % moves the latency by several times as much, and in an open loop a single stall is in the mean of
/// its second many times over. A queue that grows does more than double; in a closed loop throughput shows the rest.
const OF_LATENCY: Matters = Matters { bias: 0.05, shift: 1.0 };

/// The mean latency of a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MeanLatency {
    /// It begins, seconds since load start.
    pub at_s: f64,
    /// Of the operations that ended in it, seconds.
    pub mean_s: f64,
}

/// What became of one series.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Judged {
    /// Observations cut off.
    cut: usize,
    steady: bool,
}

/// From when on a load is steady between the end of its ramp and `until_s`, and whether it is. Too short to tell: the warm-up is
/// the ramp alone. `latency` is by second and in order; where it is too short, throughput is judged alone.
pub(crate) fn steady_from(timeline: &Timeline, latency: &[MeanLatency], ramp_s: f64, until_s: f64) -> Steady {
    // Of a long load the bins are longer: there are as many of them as can be looked at.
    let longer = ((until_s - ramp_s) / BIN_S / MOST as f64).ceil().max(1.0);
    let bin_s = BIN_S * longer;
    let rates = timeline.ok_rates(ramp_s, until_s, bin_s);
    let Some(throughput) = judged_rates(&rates) else {
        return Steady { from_s: ramp_s, method: "too short to tell".to_owned(), is: None, unsteady: None };
    };
    let inside: Vec<MeanLatency> = latency
        .iter()
        .copied()
        .filter(|second| second.at_s >= ramp_s - BIN_S / 2.0 && second.at_s + 1.0 <= until_s + BIN_S / 2.0)
        .filter(|second| second.mean_s > 0.0)
        .collect();
    let inside = gathered_times(inside);
    let times = judged_times(&inside);
    let from_s = ramp_s + throughput.cut as f64 * bin_s;
    let latency_from_s = times.filter(|times| times.cut > 0).and_then(|times| Some(inside.get(times.cut)?.at_s));
    let moving = [("throughput", Some(throughput)), ("latency", times)];
    let moving: Vec<&str> = moving
        .into_iter()
        .filter(|(_, judged)| judged.is_some_and(|judged| !judged.steady))
        .map(|(name, _)| name)
        .collect();
    Steady {
        from_s: latency_from_s.map_or(from_s, |latency_from_s| latency_from_s.max(from_s)),
        method: "MSER-5".to_owned(),
        is: Some(moving.is_empty()),
        unsteady: (!moving.is_empty()).then(|| moving.join(" and ")),
    }
}

/// Means of neighbouring seconds, where there are more than can be looked at.
fn gathered_times(seconds: Vec<MeanLatency>) -> Vec<MeanLatency> {
    let of_each = seconds.len().div_ceil(MOST);
    if of_each <= 1 {
        return seconds;
    }
    let mean_s =
        |seconds: &[MeanLatency]| seconds.iter().map(|second| second.mean_s).sum::<f64>() / seconds.len() as f64;
    let each = seconds.chunks_exact(of_each);
    each.map(|seconds| MeanLatency { at_s: seconds[0].at_s, mean_s: mean_s(seconds) }).collect()
}

/// Of throughput in bins; `None` with too few.
fn judged_rates(rates: &[f64]) -> Option<Judged> {
    // Less than five seconds: the rule without batches, which is coarser but better than none.
    let long = rates.len() >= FEWEST * BATCH;
    let (batch, matters) = if long { (BATCH, OF_THROUGHPUT) } else { (1, OF_SHORT_THROUGHPUT) };
    let means: Vec<f64> = rates.chunks_exact(batch).filter_map(mean).collect();
    if means.len() < FEWEST {
        return None;
    }
    let (cut, late) = truncation(&drawn_in(&means));
    let bias = mean(&means)? / mean(&means[cut..])? - 1.0;
    let cut = if bias.abs() < matters.bias { 0 } else { cut * batch };
    let rest = if late { rates } else { &rates[cut..] };
    let shifted = level_shift(rest).is_some_and(|shift| {
        let ratio = shift.before.max(shift.after) / shift.before.min(shift.after);
        shift.significant && ratio > 1.0 + matters.shift
    });
    Some(Judged { cut, steady: !shifted })
}

/// Of latency by second; `None` with too few.
fn judged_times(seconds: &[MeanLatency]) -> Option<Judged> {
    if seconds.len() < FEWEST {
        return None;
    }
    let logs: Vec<f64> = seconds.iter().map(|second| second.mean_s.ln()).collect();
    let calm = drawn_in(&logs);
    let (cut, late) = truncation(&calm);
    let bias = mean(&calm)? - mean(&calm[cut..])?;
    let cut = if bias.abs() < OF_LATENCY.bias { 0 } else { cut };
    let rest = if late { &logs[..] } else { &logs[cut..] };
    let shifted = level_shift(rest).filter(|shift| shift.significant).is_some_and(|shift| {
        // Stalls come in bunches, and the median of a few seconds may be one. They do not raise the quicker seconds; a queue does.
        let quick = |seconds: &[f64]| nearest_rank(seconds, 0.25).unwrap_or(0.0);
        (quick(&rest[shift.split..]) - quick(&rest[..shift.split])).abs() > (1.0 + OF_LATENCY.shift).ln()
    });
    Some(Judged { cut, steady: !shifted })
}

/// Observations far off the median, brought nearer to it.
fn drawn_in(observations: &[f64]) -> Vec<f64> {
    let Some(middle) = median(observations) else { return Vec::new() };
    let off: Vec<f64> = observations.iter().map(|value| (value - middle).abs()).collect();
    let within = median(&off).unwrap_or(0.0) * DRAWN_IN;
    // Where more than half are the same, what is far off cannot be told from what is.
    if within <= 0.0 {
        return observations.to_vec();
    }
    observations.iter().map(|value| value.clamp(middle - within, middle + within)).collect()
}

/// How many observations the rule cuts off the front, at most half, and whether it would rather cut off more.
fn truncation(observations: &[f64]) -> (usize, bool) {
    let errors = squared_errors(observations);
    let smallest = |upto: usize| (0..upto).min_by(|&a, &b| errors[a].total_cmp(&errors[b])).unwrap_or(0);
    let half = observations.len() / 2;
    // The last few are left out: a handful of equal values has no spread at all, and says nothing.
    let anywhere = smallest(observations.len().saturating_sub(BATCH - 1).max(half + 1));
    (smallest(half + 1), anywhere > half)
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
