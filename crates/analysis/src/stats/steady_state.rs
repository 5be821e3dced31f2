//! End of the warm-up and steadiness of the rest, by throughput in bins of 100 ms and by latency of
//! each second.
//!
//! **Cut**: the marginal standard error rule cuts off the number of observations that minimizes the
//! standard error of the mean of the rest. MSER-5 applies the rule to means of 5 observations (K.
//! P. White, "An effective truncation heuristic for bias reduction in simulation output",
//! Simulation 69, 1997; K. P. White, M. J. Cobb, S. C. Spratt, "A comparison of five steady-state
//! truncation heuristics for simulation", Winter Simulation Conference 2000). At most a third is
//! cut off. A stall is no warm-up: observations are first limited to three robust standard
//! deviations from the median, and latencies are taken as logarithms. A cut that changes the mean
//! by less than 1 % and by less than half the width of the mean's interval is not made, because it
//! costs time and gains nothing; the interval covers the remaining bias. A beginning that is better
//! than the rest is no warm-up: it is reported and not cut off. The later of the two cuts, by
//! throughput and by latency, is used. Outages are left out, so that none looks like a warm-up.
//!
//! **Not over**: a minimum of the standard error beyond the first third shows that the load is too
//! short (K. P. White and S. Robinson, "The problem of the initial transient (again), or why MSER
//! works", Journal of Simulation 4, 2010). If the kept part then still rises, by the 95 % interval
//! of its trend, the difference between its last and its first third is the bias that may be left.
//! For an exponential warm-up this is more than the bias if the kept part is longer than 1.6 time
//! constants.
//!
//! **Steady**: two one-sided tests (D. J. Schuirmann, "A comparison of the two one-sided tests
//! procedure and the power approach for assessing the equivalence of average bioavailability",
//! Journal of Pharmacokinetics and Biopharmaceutics 15, 1987): the 90 % interval of the change over
//! the load lies within a margin, and no level has shifted. A series is unsteady if the kept part
//! has a trend (see [`super::trend`]) or a shift of level (see [`super::level_shift`]) that is
//! larger than chance and larger than the usual drift of machines. If the rule would cut off more
//! than it may, the whole series is tested, because half a climb is no steadier than all of it. A
//! late minimum alone decides nothing: it also occurs in noise whose neighbours resemble each other
//! (in a tenth of all AR(1) series with φ = 0.9). In all other cases steadiness cannot be
//! determined.

use record::results::{FasterStart, Steady};

use super::effective_samples::MOST;
use super::level_shift::level_shift;
use super::quantiles::{mean, median, nearest_rank};
use super::sectioning::{SHORTEST_S, mean_ci95};
use super::timeline::Timeline;
use super::trend::{Trend, trend};

/// Bin of throughput, seconds.
const BIN_S: f64 = 0.1;

/// Observations in a batch.
const BATCH: usize = 5;

/// Fewest batches of throughput, and fewest seconds of latency, that are analyzed.
const FEWEST: usize = 10;

/// Distance from the median to which observations are limited, in median absolute deviations.
/// Equals three standard deviations of a normal distribution, each of which is 1/0.6745 median
/// absolute deviations.
const DRAWN_IN: f64 = 3.0 / 0.6745;

/// Limits of the tests, as shares.
#[derive(Debug, Clone, Copy)]
struct Sensitivity {
    /// Smallest change of the mean for which a cut is made.
    bias: f64,
    /// Smallest shift of the level that is not drift.
    shift: f64,
    /// Smallest change over the load by a trend that is not drift.
    trend: f64,
    /// Largest change over the load of a steady series, down and up.
    margin: [f64; 2],
}

/// Limits for throughput. The machines used in development drift by 5 to 10 % within minutes.
const OF_THROUGHPUT: Sensitivity = Sensitivity { bias: 0.01, shift: 0.15, trend: 0.083, margin: [-0.08, 0.08] };

/// Smallest trend that counts in a load of less than twenty seconds, where a temporary drift looks
/// like a trend.
const SHORT_TREND: f64 = 0.2;

/// Bins in twenty seconds.
const SHORT_BINS: usize = 200;

/// Limits for the throughput of loads of less than five seconds, which chance alone changes by
/// more.
const OF_SHORT_THROUGHPUT: Sensitivity = Sensitivity { shift: 0.25, trend: 0.25, ..OF_THROUGHPUT };

/// Limits for latency. Near saturation a drift of 10 % changes latency by several times as much,
/// and in an open loop a single stall counts many times in the mean of its second. A growing queue
/// more than doubles latency. In a closed loop throughput shows the rest.
const OF_LATENCY: Sensitivity = Sensitivity { bias: 0.05, shift: 1.0, trend: 0.5, margin: [-1.0 / 3.0, 0.5] };

/// Number of bins of the shortest load whose mean has an interval.
const INTERVAL_BINS: usize = (SHORTEST_S / BIN_S) as usize;

/// Smallest advantage of a faster beginning that is reported, as a share.
const NAMED: f64 = 0.01;

/// Smallest bias that is worth a cut, however narrow the interval.
const SMALLEST_BIAS: f64 = 0.001;

/// Largest share of the load that may be cut off.
const CUT: f64 = 1.0 / 3.0;

/// The mean latency of a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MeanLatency {
    /// Start of the stretch, seconds since load start.
    pub at_s: f64,
    /// Mean latency of the operations that ended in the stretch, seconds.
    pub mean_s: f64,
}

/// The analyzed part of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadStretch<'a> {
    /// End of the ramp, or of a given warm-up; seconds since load start.
    pub from_s: f64,
    /// End of the load, or start of the first fault.
    pub until_s: f64,
    /// Whether a warm-up may be cut off.
    pub cuts: bool,
    /// Times of outages, which are left out.
    pub outages: &'a [[f64; 2]],
}

impl LoadStretch<'_> {
    fn is_left_out(&self, [from_s, until_s]: [f64; 2]) -> bool {
        self.outages.iter().any(|[begin_s, end_s]| from_s < *end_s && until_s > *begin_s)
    }

    /// Returns the observations of the stretch, each with the time at which it begins.
    fn observed(&self, observations: impl IntoIterator<Item = (f64, f64)>, long_s: f64) -> ObservedSeries {
        let mut series = ObservedSeries::default();
        for (at_s, value) in observations {
            if !self.is_left_out([at_s, at_s + long_s]) {
                series.at_s.push(at_s);
                series.values.push(value);
            }
        }
        series
    }
}

/// Observations in time order.
#[derive(Debug, Clone, Default)]
struct ObservedSeries {
    at_s: Vec<f64>,
    values: Vec<f64>,
}

/// Result of the analysis of a series of the load.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SeriesResult {
    beginning: Beginning,
    /// Whether the series is steady; `None` if this cannot be determined.
    steady: Option<bool>,
    /// Change per second: of the logarithm of latency, or of throughput as a share of its mean.
    trend: Option<Trend>,
    /// Bias of the mean that may be left because the warm-up is not over, as a share.
    remaining: Option<f64>,
}

/// Beginning of a series.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Beginning {
    /// Number of observations cut off.
    cut: usize,
    /// Number of first observations that were better than the rest, and by how much, as a share.
    better: Option<(usize, f64)>,
    /// Bias of the mean by a worse beginning that was left in, as a share.
    tolerated: Option<f64>,
}

impl Beginning {
    /// Decides whether the cut that the rule proposes is made. The beginning worsens the mean by
    /// `bias` (improves it, if negative), and is better than the rest by `better`.
    fn of(cut: usize, bias: f64, tolerance: f64, better: f64) -> Self {
        match bias {
            _ if cut == 0 => Self::default(),
            bias if bias.abs() < tolerance => {
                Self { tolerated: Some(bias).filter(|bias| *bias > 0.0), ..Self::default() }
            }
            bias if bias > 0.0 => Self { cut, ..Self::default() },
            _ => Self { better: Some((cut, better)).filter(|_| better >= NAMED), ..Self::default() },
        }
    }
}

/// Returns the time from which a load is measured, and whether it is steady from then on. A load
/// that is too short to tell counts from its beginning. `latency` has one value per second, in
/// order; if there are too few values, throughput is judged alone.
pub(crate) fn steady_from(timeline: &Timeline, latency: &[MeanLatency], stretch: LoadStretch<'_>) -> Steady {
    let LoadStretch { from_s, until_s, cuts, .. } = stretch;
    // Long loads have longer bins, so that there are at most `MOST` of them.
    let longer = ((until_s - from_s) / BIN_S / MOST as f64).ceil().max(1.0);
    let bin_s = BIN_S * longer;
    let rates = timeline.ok_rates(from_s, until_s, bin_s);
    let rates = rates.into_iter().enumerate().map(|(bin, rate)| (from_s + bin as f64 * bin_s, rate));
    let rates = stretch.observed(rates, bin_s);
    let Some(throughput) = judged_rates(&rates, cuts) else {
        let method = if cuts { "too short to tell" } else { "given" };
        return Steady { from_s, method: method.to_owned(), ..Steady::default() };
    };
    let inside: Vec<MeanLatency> = latency
        .iter()
        .copied()
        .filter(|second| second.at_s >= from_s - BIN_S / 2.0 && second.at_s + 1.0 <= until_s + BIN_S / 2.0)
        .filter(|second| second.mean_s > 0.0)
        .collect();
    let seconds = gathered_times(inside).into_iter().map(|second| (second.at_s, second.mean_s.ln()));
    let seconds = stretch.observed(seconds, 1.0);
    let times = judged_times(&seconds, cuts);
    let mut steady = Steady {
        from_s,
        method: if cuts { "MSER-5" } else { "given" }.to_owned(),
        remaining_bias_pct: throughput.remaining.filter(|_| cuts).map(|share| 100.0 * share),
        ..answered(throughput, times, until_s - from_s)
    };
    for (name, series, judged) in [("throughput", &rates, Some(throughput)), ("latency", &seconds, times)] {
        let Some(SeriesResult { beginning: Beginning { cut, better, .. }, .. }) = judged else { continue };
        if cut > 0 {
            steady.from_s = series.at_s.get(cut).copied().unwrap_or(from_s).max(steady.from_s);
        }
        if let Some((count, share)) = better.filter(|_| steady.faster_start.is_none()) {
            let long_s = series.at_s.get(count).map_or(0.0, |at_s| at_s - from_s);
            steady.faster_start = Some(FasterStart { of: name.to_owned(), long_s, pct: 100.0 * share });
        }
    }
    // If latency cuts off the beginning, the mean throughput has no tolerated bias.
    let tolerated = throughput.beginning.tolerated.filter(|_| steady.from_s <= from_s);
    Steady { tolerated_bias_pct: tolerated.map(|share| 100.0 * share), ..steady }
}

/// Combines the results of throughput and latency (`times`). The changes are those over `long_s`
/// seconds.
fn answered(throughput: SeriesResult, times: Option<SeriesResult>, long_s: f64) -> Steady {
    let pct = |slope: f64| 100.0 * (slope * long_s).exp_m1();
    let (mut moving, mut doubts) = (Vec::new(), Vec::new());
    for (name, judged, limits) in [("throughput", Some(throughput), OF_THROUGHPUT), ("latency", times, OF_LATENCY)] {
        let Some(SeriesResult { steady, trend, .. }) = judged else { continue };
        match (steady, trend) {
            (Some(true), _) => {}
            (Some(false), _) => moving.push(name),
            (None, None) => doubts.push(format!("{name} has too few values")),
            (None, Some(trend)) => {
                let ([low, high], [down, up]) = (trend.ci90.map(pct), limits.margin.map(|share| 100.0 * share));
                doubts.push(format!(
                    "{name} changed by {:+.1} % over the load (90 % interval {low:+.1} to {high:+.1} %), but steady \
                     means {down:+.0} to {up:+.0} %",
                    pct(trend.slope)
                ));
            }
        }
    }
    let [of_throughput, of_latency] = [Some(throughput), times].map(|judged| judged?.trend);
    Steady {
        is: if moving.is_empty() { doubts.is_empty().then_some(true) } else { Some(false) },
        unsteady: (!moving.is_empty()).then(|| moving.join(" and ")),
        cannot_tell: (moving.is_empty() && !doubts.is_empty()).then(|| doubts.join("; ")),
        throughput_change_pct: of_throughput.map(|trend| pct(trend.slope)),
        throughput_change_ci95: of_throughput.map(|trend| trend.ci95.map(pct)),
        throughput_change_ci90: of_throughput.map(|trend| trend.ci90.map(pct)),
        latency_change_pct: of_latency.map(|trend| pct(trend.slope)),
        latency_change_ci95: of_latency.map(|trend| trend.ci95.map(pct)),
        latency_change_ci90: of_latency.map(|trend| trend.ci90.map(pct)),
        ..Steady::default()
    }
}

/// Returns means of neighbouring seconds, if there are more seconds than can be analyzed.
fn gathered_times(seconds: Vec<MeanLatency>) -> Vec<MeanLatency> {
    let of_each = seconds.len().div_ceil(MOST);
    if of_each <= 1 {
        return seconds;
    }
    let gathered = seconds.chunks_exact(of_each).map(|seconds| {
        let sum_s: f64 = seconds.iter().map(|second| second.mean_s).sum();
        MeanLatency { at_s: seconds[0].at_s, mean_s: sum_s / seconds.len() as f64 }
    });
    gathered.collect()
}

/// Judges throughput in bins. Returns `None` with too few bins.
fn judged_rates(series: &ObservedSeries, cuts: bool) -> Option<SeriesResult> {
    let rates = &series.values;
    // Loads of less than five seconds use the rule without batches, which is coarser but better
    // than nothing.
    let long = rates.len() >= FEWEST * BATCH;
    let (batch, mut matters) = if long { (BATCH, OF_THROUGHPUT) } else { (1, OF_SHORT_THROUGHPUT) };
    if rates.len() < SHORT_BINS {
        matters.trend = matters.trend.max(SHORT_TREND);
    }
    let means: Vec<f64> = rates.chunks_exact(batch).filter_map(mean).collect();
    if means.len() < FEWEST {
        return None;
    }
    let (cut, late) = if cuts { truncation(&drawn_in(&means), CUT) } else { (0, false) };
    let begun = mean(&means[..cut]).zip(mean(&means[cut..])).map_or(0.0, |(first, rest)| first / rest - 1.0);
    let bias = 1.0 - mean(&means)? / mean(&means[cut..])?;
    let cut = cut * batch;
    let beginning = Beginning::of(
        cut,
        bias,
        matters.bias.min(half_width(&rates[cut..]).unwrap_or(f64::INFINITY).max(SMALLEST_BIAS)),
        begun,
    );
    let kept = if late { 0 } else { beginning.cut };
    let rest = &rates[kept..];
    let shifted = level_shift(rest).is_some_and(|shift| {
        let ratio = shift.before.max(shift.after) / shift.before.min(shift.after);
        shift.significant && ratio > 1.0 + matters.shift
    });
    // With few operations a bin may be empty and has no logarithm. So the trend is that of the
    // rates, as a share of their mean.
    let level = mean(rest).filter(|level| *level > 0.0);
    let shares: Option<Vec<f64>> =
        level.map(|level| drawn_in(rates).into_iter().map(|rate| rate / level - 1.0).collect());
    let trend = shares.as_ref().and_then(|shares| trend_of(&series.at_s, shares, kept));
    let remaining = shares.filter(|_| late).and_then(|shares| still_rising(&series.at_s, &shares, beginning.cut));
    let steady = if shifted { Some(false) } else { answer(trend, series, matters) };
    Some(SeriesResult { beginning, steady, trend, remaining })
}

/// Returns half of the width of the 95 % interval of the mean, as a share of the mean. Returns
/// `None` if the load is too short for an interval.
fn half_width(rates: &[f64]) -> Option<f64> {
    let [low, high] = mean_ci95(rates).filter(|_| rates.len() >= INTERVAL_BINS)?;
    Some((high - low) / (high + low)).filter(|half| half.is_finite())
}

/// Returns the rise from the first third of the kept part to the last, or `None` if it does not
/// rise by more than chance.
fn still_rising(at_s: &[f64], shares: &[f64], cut: usize) -> Option<f64> {
    let kept = &shares[cut..];
    let third = kept.len() / 3;
    let rise = mean(&kept[kept.len() - third..])? - mean(&kept[..third])?;
    trend(&at_s[cut..], kept).filter(|trend| trend.ci95[0] > 0.0 && rise > 0.0).map(|_| rise)
}

/// Returns the trend of the kept part. If this trend is certain, the trend of the whole series
/// describes it better, because the apparent warm-up is then part of the trend.
fn trend_of(at_s: &[f64], values: &[f64], kept: usize) -> Option<Trend> {
    let rest = trend(&at_s[kept..], &values[kept..])?;
    if !rest.is_sure {
        return Some(rest);
    }
    let whole = trend(at_s, values).filter(|whole| whole.is_sure && whole.slope * rest.slope > 0.0);
    Some(whole.unwrap_or(rest))
}

/// Whether a series is steady, by its trend: not if it certainly changes by more than the limit;
/// yes if the change is certainly within the margin; `None` otherwise.
fn answer(trend: Option<Trend>, series: &ObservedSeries, matters: Sensitivity) -> Option<bool> {
    let long_s = series.at_s.last().zip(series.at_s.first()).map_or(0.0, |(last_s, first_s)| last_s - first_s);
    let trend = trend?;
    if trend.is_sure && (trend.slope * long_s).abs() > matters.trend {
        return Some(false);
    }
    let ([low, high], [down, up]) = (trend.ci90.map(|slope| (slope * long_s).exp_m1()), matters.margin);
    (down < low && high < up).then_some(true)
}

/// Judges the logarithm of latency by second. Returns `None` with too few seconds.
fn judged_times(series: &ObservedSeries, cuts: bool) -> Option<SeriesResult> {
    let logs = &series.values;
    if logs.len() < FEWEST {
        return None;
    }
    let calm = drawn_in(logs);
    let (cut, late) = if cuts { truncation(&calm, CUT) } else { (0, false) };
    let bias = mean(&calm)? - mean(&calm[cut..])?;
    let begun = mean(&calm[..cut]).zip(mean(&calm[cut..])).map_or(0.0, |(first, rest)| 1.0 - (first - rest).exp());
    let beginning = Beginning::of(cut, bias, OF_LATENCY.bias, begun);
    let kept = if late { 0 } else { beginning.cut };
    let rest = &logs[kept..];
    let shifted = level_shift(rest).filter(|shift| shift.significant).is_some_and(|shift| {
        // Stalls cluster, and the median of a few seconds may be a stall. Stalls do not raise the
        // faster seconds; a queue does.
        let (before, after) = rest.split_at(shift.split);
        let [before, after] = [before, after].map(|seconds| nearest_rank(seconds, 0.25).unwrap_or(0.0));
        (after - before).abs() > (1.0 + OF_LATENCY.shift).ln()
    });
    let trend = trend_of(&series.at_s, &calm, kept);
    let matters = Sensitivity { trend: (1.0 + OF_LATENCY.trend).ln(), ..OF_LATENCY };
    let steady = match trend {
        _ if shifted => Some(false),
        // Loads of less than 20 s have no trend.
        None => Some(true),
        trend => answer(trend, series, matters),
    };
    Some(SeriesResult { beginning, steady, trend, remaining: None })
}

/// Limits observations that are far from the median.
fn drawn_in(observations: &[f64]) -> Vec<f64> {
    let Some(middle) = median(observations) else { return Vec::new() };
    let off: Vec<f64> = observations.iter().map(|value| (value - middle).abs()).collect();
    let within = median(&off).unwrap_or(0.0) * DRAWN_IN;
    // If more than half of the observations are equal, outliers cannot be told from the rest.
    if within <= 0.0 {
        return observations.to_vec();
    }
    observations.iter().map(|value| value.clamp(middle - within, middle + within)).collect()
}

/// Returns the number of observations that the rule cuts off the front, limited to the share
/// `most`, and whether the rule would cut off more.
fn truncation(observations: &[f64], most: f64) -> (usize, bool) {
    let errors = squared_errors(observations);
    let bound = (observations.len() as f64 * most) as usize;
    // Cuts that leave only a few observations are not tried: a handful of equal values has no
    // spread and proves nothing.
    let last = observations.len().saturating_sub(BATCH - 1).max(bound + 1);
    let [cut, anywhere] =
        [bound + 1, last].map(|end| (0..end).min_by(|&a, &b| errors[a].total_cmp(&errors[b])).unwrap_or(0));
    (cut, anywhere > bound)
}

/// Returns the squared standard error of the mean of `observations[cut..]` for each cut. Works from
/// the end, so that one pass is enough.
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
mod tests {
    use record::rows::OutcomeSlot;
    use serde_json::Value;

    use super::*;
    use crate::synthetic::{autoregressive, normal, numbers};

    /// A timeline of 10 ms slots with the rate `rate` at each moment, and up to `noise` (relative)
    /// on each slot.
    fn timeline(length_s: f64, noise: f64, rate: impl Fn(f64) -> f64) -> Timeline {
        let mut random = fastrand::Rng::with_seed(7);
        let starts_s = (0..(length_s * 100.0) as usize).map(|slot| slot as f64 / 100.0);
        let rows = starts_s.map(|at_s| {
            let ok = rate(at_s) * 0.01 * (1.0 + noise * (2.0 * random.f64() - 1.0));
            OutcomeSlot { at_s, slot_s: 0.01, ok: ok.round() as u32, ..OutcomeSlot::default() }
        });
        Timeline::of(&rows.collect::<Vec<_>>()).unwrap()
    }

    fn whole(from_s: f64, until_s: f64) -> LoadStretch<'static> {
        LoadStretch { from_s, until_s, cuts: true, outages: &[] }
    }

    fn throughput_alone(timeline: &Timeline, ramp_s: f64, until_s: f64) -> (f64, Option<bool>) {
        let steady = steady_from(timeline, &[], whole(ramp_s, until_s));
        (steady.from_s, steady.is)
    }

    fn of_rates(rates: &[f64]) -> ObservedSeries {
        ObservedSeries { at_s: (0..rates.len()).map(|bin| bin as f64 * BIN_S).collect(), values: rates.to_vec() }
    }

    fn of_latency(seconds: &[MeanLatency]) -> ObservedSeries {
        ObservedSeries {
            at_s: seconds.iter().map(|second| second.at_s).collect(),
            values: seconds.iter().map(|second| second.mean_s.ln()).collect(),
        }
    }

    fn seconds(latency_s: impl Fn(f64) -> f64, length_s: u32) -> Vec<MeanLatency> {
        (0..length_s).map(f64::from).map(|at_s| MeanLatency { at_s, mean_s: latency_s(at_s) }).collect()
    }

    #[test]
    fn the_cut_matches_a_reference_program() {
        let cases: Vec<Value> =
            serde_json::from_str(include_str!("../../tests/golden_stats/steady_state.json")).unwrap();
        assert_eq!(cases.len(), 4);
        for case in &cases {
            let series = numbers(&case["series"]);
            let average = mean(&series).unwrap();
            let batches: Vec<f64> = series.chunks_exact(BATCH).filter_map(mean).map(|value| value / average).collect();
            for (found, known) in squared_errors(&batches).iter().zip(numbers(&case["errors"])) {
                // The reference computes in single precision.
                assert!((found * 1e6 / known - 1.0).abs() < 1e-3, "{}: {found} and not {known}", case["name"]);
            }
            assert_eq!((truncation(&batches, 0.5).0 * BATCH) as u64, case["cut"].as_u64().unwrap(), "{}", case["name"]);
        }
    }

    #[test]
    fn a_flat_load_is_steady_from_the_end_of_the_ramp() {
        assert_eq!(throughput_alone(&timeline(30.0, 0.1, |_| 20_000.0), 2.0, 30.0), (2.0, Some(true)));
    }

    #[test]
    fn a_warm_up_is_cut_off() {
        for noise in [0.0, 0.05, 0.3] {
            let warm = |at_s: f64| 20_000.0 * (1.0 - 0.5 * (-at_s / 2.0).exp());
            let (from_s, steady) = throughput_alone(&timeline(60.0, noise, warm), 0.0, 60.0);
            assert_ne!(steady, Some(false), "noise {noise}");
            assert!((3.0..20.1).contains(&from_s), "noise {noise}: {from_s}");
            let two_levels = timeline(30.0, noise, |at_s| if at_s < 5.0 { 8_000.0 } else { 20_000.0 });
            let (from_s, steady) = throughput_alone(&two_levels, 1.0, 30.0);
            assert_ne!(steady, Some(false), "noise {noise}");
            assert!((4.9..10.0).contains(&from_s), "noise {noise}: {from_s}");
        }
    }

    #[test]
    fn a_warm_up_in_latency_alone_is_cut_off() {
        let flat = timeline(30.0, 0.05, |_| 2_000.0);
        let warm = seconds(|at_s| if at_s < 6.0 { 0.004 } else { 0.001 + 0.0001 * (at_s % 3.0) }, 30);
        let found = steady_from(&flat, &warm, whole(0.0, 30.0));
        assert_eq!((found.from_s, found.is, found.unsteady), (6.0, Some(true), None));
    }

    #[test]
    fn rising_throughput_is_not_steady() {
        for noise in [0.0, 0.05] {
            let (from_s, steady) = throughput_alone(&timeline(30.0, noise, |at_s| 5_000.0 + 500.0 * at_s), 0.0, 30.0);
            assert_eq!(steady, Some(false), "noise {noise}");
            assert!(from_s <= 10.0, "at most a third is cut off: {from_s}");
        }
    }

    #[test]
    fn late_shifts_in_either_direction_are_unsteady() {
        for (factor, at_s) in [(0.8, 15.0), (1.2, 15.0), (0.8, 24.0), (1.2, 24.0)] {
            let shifted = timeline(30.0, 0.1, |now_s| 20_000.0 * if now_s < at_s { 1.0 } else { factor });
            let found = steady_from(&shifted, &[], whole(0.0, 30.0));
            assert_eq!(found.unsteady.as_deref(), Some("throughput"), "{factor} from {at_s} s");
        }
    }

    #[test]
    fn a_growing_queue_is_not_steady() {
        let flat = timeline(30.0, 0.05, |_| 2_000.0);
        // An open loop a little above capacity, from the start and from the middle.
        for from_s in [0.0, 15.0] {
            let queue = seconds(|at_s| 0.002 + 0.02 * (at_s - from_s).max(0.0), 30);
            let found = steady_from(&flat, &queue, whole(0.0, 30.0));
            assert_eq!((found.is, found.unsteady.as_deref()), (Some(false), Some("latency")), "from {from_s} s");
        }
        let both = steady_from(
            &timeline(30.0, 0.0, |at_s| 900.0 - 20.0 * at_s),
            &seconds(|at_s| 1.0 + at_s, 30),
            whole(0.0, 30.0),
        );
        assert_eq!(both.unsteady.as_deref(), Some("throughput and latency"));
    }

    #[test]
    fn short_loads_are_judged_without_batches() {
        let two_levels = timeline(3.0, 0.05, |at_s| if at_s < 0.5 { 0.0 } else { 9_000.0 });
        let (from_s, steady) = throughput_alone(&two_levels, 0.0, 3.0);
        assert_ne!(steady, Some(false));
        assert!((0.49..1.5).contains(&from_s), "{from_s}");
        let short = steady_from(&timeline(0.9, 0.0, |_| 9_000.0), &[], whole(0.0, 0.9));
        assert_eq!((short.from_s, short.method.as_str(), short.is), (0.0, "too short to tell", None));
        assert_eq!(throughput_alone(&timeline(5.0, 0.0, |_| 9_000.0), 6.0, 5.0), (6.0, None));
        assert_ne!(throughput_alone(&timeline(2.0, 0.3, |_| 9_000.0), 0.0, 2.0).1, Some(false));
    }

    /// Throughput and latency of a load that is as steady as a shared machine allows:
    /// autocorrelated noise, a stall of 60 to 80 ms every few seconds, and a drift that comes and
    /// goes within 40 s.
    fn restless(random: &mut fastrand::Rng, length_s: usize, phi: f64, drift: f64) -> (Vec<f64>, Vec<MeanLatency>) {
        let bins = length_s * 10;
        let phase = random.f64();
        let drifted: Vec<f64> = (0..bins)
            .map(|at| 1.0 + drift / 2.0 * (std::f64::consts::TAU * (at as f64 / 400.0 + phase)).sin())
            .collect();
        let mut rates = autoregressive(random, bins, phi);
        for (rate, drifted) in rates.iter_mut().zip(&drifted) {
            *rate = 20_000.0 * drifted * (1.0 + 0.05 * *rate);
            if random.f64() < 0.03 {
                *rate *= 1.0 - (0.6 + 0.2 * random.f64());
            }
        }
        // An open loop at two thirds of the capacity: latency follows the drift threefold, and a
        // stall delays the operations that arrive during it.
        let seconds = rates.chunks(10).zip(drifted.chunks(10)).enumerate().map(|(second, (rates, drifted))| {
            let stalled = rates.iter().filter(|rate| **rate < 12_000.0).count() as f64;
            let usual = 0.0005 * (3.0 * (1.0 - drifted[0]) + 0.15 * normal(random)).exp();
            MeanLatency { at_s: second as f64, mean_s: usual + stalled * 0.07 * 0.035 }
        });
        let latency = seconds.collect();
        (rates, latency)
    }

    /// Returns the share of such loads that are called unsteady, and the mean part that is cut off.
    fn false_alarms(length_s: usize, phi: f64, drift: f64) -> (f64, f64) {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut alarms, mut cut) = (0, 0.0);
        for _ in 0..40 {
            let (rates, latency) = restless(&mut random, length_s, phi, drift);
            let (throughput, times) =
                (judged_rates(&of_rates(&rates), true).unwrap(), judged_times(&of_latency(&latency), true));
            alarms +=
                u32::from([Some(throughput), times].into_iter().flatten().any(|judged| judged.steady == Some(false)));
            let times_cut = times.map_or(0, |times| times.beginning.cut * 10);
            cut += throughput.beginning.cut.max(times_cut) as f64 / rates.len() as f64;
        }
        (f64::from(alarms) / 40.0, cut / 40.0)
    }

    /// `no_steady_state` may be wrong in 3 %, and in 5 % if each bin resembles the last; 40 series
    /// each.
    #[test]
    fn false_alarms_are_rare() {
        for (length_s, phi, drift) in [(3, 0.5, 0.05), (10, 0.5, 0.1), (10, 0.9, 0.05), (30, 0.5, 0.05), (60, 0.9, 0.1)]
        {
            let (alarms, cut) = false_alarms(length_s, phi, drift);
            println!("{length_s} s, φ = {phi}, drift {drift}: {alarms} unsteady, {cut:.3} cut off");
            assert!(
                alarms <= 0.1 && cut <= 0.3,
                "{length_s} s, φ = {phi}, drift {drift}: {alarms} unsteady, {cut} cut off"
            );
        }
    }

    /// Counterpart: nine of ten of the same loads are caught if they lose a fifth from four fifths
    /// on.
    #[test]
    fn late_drops_are_usually_detected() {
        let mut random = fastrand::Rng::with_seed(2);
        for (phi, least) in [(0.5, 0.85), (0.9, 0.7)] {
            let mut caught = 0;
            for _ in 0..40 {
                let (mut rates, _) = restless(&mut random, 30, phi, 0.0);
                rates[240..].iter_mut().for_each(|rate| *rate *= 0.8);
                caught += u32::from(judged_rates(&of_rates(&rates), true).unwrap().steady == Some(false));
            }
            let power = f64::from(caught) / 40.0;
            println!("φ = {phi}: {power}");
            assert!(power >= least, "φ = {phi}: {power}");
        }
    }

    /// Returns the share of evenly declining loads that are called unsteady: with a warm-up to be
    /// found, and with a given warm-up.
    fn declining(decline: f64, length_s: usize, noise: f64, phi: f64) -> [f64; 2] {
        let mut random = fastrand::Rng::with_seed(3);
        let mut called = [0, 0];
        for _ in 0..30 {
            let mut rates = autoregressive(&mut random, length_s * 10, phi);
            let count = rates.len() as f64;
            for (at, rate) in rates.iter_mut().enumerate() {
                *rate = 1_000.0 * (1.0 - decline * at as f64 / count) * (1.0 + noise * *rate);
            }
            for (called, cuts) in called.iter_mut().zip([true, false]) {
                *called += u32::from(judged_rates(&of_rates(&rates), cuts).unwrap().steady == Some(false));
            }
        }
        called.map(|called| f64::from(called) / 30.0)
    }

    #[test]
    fn a_decline_over_the_load_is_called_unsteady() {
        for (decline, length_s, noise, phi) in
            [(0.1, 40, 0.03, 0.5), (0.12, 60, 0.1, 0.0), (0.25, 20, 0.1, 0.5), (0.25, 60, 0.05, 0.9)]
        {
            let called = declining(decline, length_s, noise, phi);
            println!("-{decline} over {length_s} s, noise {noise}, φ = {phi}: {called:?}");
            assert!(
                called.iter().all(|share| *share >= 0.8),
                "-{decline} in {length_s} s of {noise}, {phi}: {called:?}"
            );
        }
    }

    #[test]
    fn the_trend_is_reported_with_its_interval() {
        let falling = timeline(40.0, 0.05, |at_s| 1_000.0 * (1.0 - 0.25 * at_s / 40.0));
        let found = steady_from(&falling, &seconds(|at_s| 0.004 * (1.0 + 1.5 * at_s / 40.0), 40), whole(0.0, 40.0));
        assert_eq!(found.unsteady.as_deref(), Some("throughput and latency"));
        let ([low, high], change) = (found.throughput_change_ci95.unwrap(), found.throughput_change_pct.unwrap());
        assert!(low < change && change < high && high - low < 4.0 && (change + 25.0).abs() < 2.0, "{found:?}");
        assert!((found.latency_change_pct.unwrap() - 150.0).abs() < 30.0, "{found:?}");
        assert!(found.from_s <= 13.4, "{found:?}");
        let given = LoadStretch { cuts: false, ..whole(5.0, 40.0) };
        let given = steady_from(&falling, &[], given);
        assert_eq!((given.from_s, given.method.as_str(), given.is), (5.0, "given", Some(false)));
    }

    #[test]
    fn an_outage_is_no_warm_up() {
        let broken = timeline(20.0, 0.05, |at_s| if (3.0..6.0).contains(&at_s) { 0.0 } else { 1_000.0 });
        assert!(steady_from(&broken, &[], whole(0.0, 20.0)).from_s >= 5.9, "taken for a warm-up");
        let told = LoadStretch { outages: &[[3.0, 6.0]], ..whole(0.0, 20.0) };
        let found = steady_from(&broken, &[], told);
        assert_eq!((found.from_s, found.is), (0.0, Some(true)));
    }

    /// A load of 1,000/s with correlated noise: 2 % for each bin.
    fn noisy(random: &mut fastrand::Rng, length_s: usize, level: impl Fn(f64) -> f64) -> ObservedSeries {
        let noise = autoregressive(random, length_s * 10, 0.5);
        let rates =
            (0_u32..).zip(noise).map(|(at, noise)| 1_000.0 * level(f64::from(at) / 10.0) * (1.0 + 0.02 * noise));
        of_rates(&rates.collect::<Vec<_>>())
    }

    #[test]
    fn a_fast_start_is_no_warm_up() {
        let mut random = fastrand::Rng::with_seed(4);
        // CPU credits for two and a half seconds.
        let series = noisy(&mut random, 20, |at_s| if at_s < 2.5 { 1.09 } else { 1.0 });
        let found = judged_rates(&series, true).unwrap();
        let (until, share) = found.beginning.better.unwrap();
        assert!(found.beginning.cut == 0 && (23..=30).contains(&until) && (share - 0.09).abs() < 0.02, "{found:?}");
        let load = timeline(30.0, 0.0, |at_s| if at_s < 2.5 { 1_090.0 } else { 1_000.0 });
        let named = steady_from(&load, &[], whole(0.0, 30.0));
        let faster = named.faster_start.unwrap();
        assert_eq!((named.from_s, faster.of.as_str(), faster.long_s), (0.0, "throughput", 2.5));
        // A leak looks like a good beginning.
        for _ in 0..20 {
            let leak = judged_rates(&noisy(&mut random, 10, |at_s| 1.0 - 0.012 * at_s), true).unwrap();
            assert!(leak.beginning.cut == 0 && leak.steady != Some(true), "{leak:?}");
        }
        let slower = seconds(|at_s| if at_s < 8.0 { 0.001 } else { 0.0015 + 0.0001 * (at_s % 3.0) }, 30);
        let judged = judged_times(&of_latency(&slower), true).unwrap();
        assert!(judged.beginning.cut == 0 && judged.beginning.better.is_some(), "{judged:?}");
    }

    #[test]
    fn an_unfinished_warm_up_is_reported_with_its_bias() {
        let mut random = fastrand::Rng::with_seed(5);
        for (length_s, depth, tau_s) in [(60, 0.1, 15.0), (20, 0.3, 6.0)] {
            let series = noisy(&mut random, length_s, |at_s| 1.0 - depth * (-at_s / tau_s).exp());
            let found = judged_rates(&series, true).unwrap();
            let bias = 1.0 - mean(&series.values[found.beginning.cut..]).unwrap() / 1_000.0;
            assert!(found.remaining.is_some_and(|remaining| remaining >= 0.9 * bias), "{bias}: {found:?}");
        }
        let flat =
            (0..40).filter(|_| judged_rates(&noisy(&mut random, 20, |_| 1.0), true).unwrap().remaining.is_some());
        assert!(flat.count() <= 2, "of 40 loads without a warm-up");
        let times = of_rates(&[0.0; 100]).at_s;
        let rising =
            (0..60).filter(|_| still_rising(&times, &autoregressive(&mut random, 100, 0.5), 0).is_some()).count();
        assert!(rising <= 8, "{rising} of 60 series of noise");
    }

    #[test]
    fn a_slow_start_is_kept_within_half_the_interval() {
        let mut random = fastrand::Rng::with_seed(6);
        let mut series = noisy(&mut random, 60, |_| 1.0);
        for (bin, rate) in series.values.iter_mut().enumerate() {
            *rate = 1_000.0 + (*rate - 1_000.0) / 10.0 - 100.0 * (-(bin as f64) / 50.0).exp();
        }
        let precise = judged_rates(&series, true).unwrap().beginning;
        assert!(precise.cut > 0 && precise.tolerated.is_none(), "0.8 % is more than the interval: {precise:?}");
        let low = (0..300).map(|bin| if bin < 20 { 9.95 } else { 10.0 + 0.002 * f64::from(bin % 3) });
        let tiny = judged_rates(&of_rates(&low.collect::<Vec<f64>>()), true).unwrap().beginning;
        assert!(
            tiny.cut == 0 && tiny.tolerated.is_some_and(|bias| bias < 0.001),
            "however narrow the interval: {tiny:?}"
        );
        let coarse = Beginning::of(30, 0.004, 0.005, -0.08);
        assert_eq!(coarse, Beginning { tolerated: Some(0.004), ..Beginning::default() });
        assert_eq!(Beginning::of(30, 0.006, 0.005, -0.08), Beginning { cut: 30, ..Beginning::default() });
        assert_eq!(Beginning::of(30, -0.004, 0.005, 0.08), Beginning::default(), "chance");
    }

    /// Shares of 60 loads that are called steady, unsteady, or neither.
    fn answers(length_s: usize, change: f64) -> [f64; 3] {
        let mut random = fastrand::Rng::with_seed(8);
        let mut counts = [0.0; 3];
        for _ in 0..60 {
            let series = noisy(&mut random, length_s, |at_s| 1.0 + change * (at_s / length_s as f64 - 0.5));
            let steady = judged_rates(&series, false).unwrap().steady;
            counts[[Some(true), Some(false), None].iter().position(|one| *one == steady).unwrap()] += 1.0 / 60.0;
        }
        counts
    }

    #[test]
    fn steadiness_needs_evidence() {
        let [steady, unsteady, _] = answers(30, 0.0);
        assert!(steady >= 0.9 && unsteady <= 0.05, "flat: {steady} {unsteady}");
        for change in [-0.083, 0.083] {
            let [steady, ..] = answers(30, change);
            assert!(steady <= 0.12, "a change of the margin, {change}: {steady}");
        }
        let [steady, unsteady, neither] = answers(5, -0.12);
        assert!(steady <= 0.05 && neither >= 0.5, "12 % in 5 s: {steady} {unsteady} {neither}");
        let mut random = fastrand::Rng::with_seed(9);
        let noise = autoregressive(&mut random, 100, 0.5);
        let load = timeline(10.0, 0.0, |at_s| 9_000.0 * (1.0 + 0.1 * noise[(at_s * 10.0) as usize]));
        let found = steady_from(&load, &[], LoadStretch { cuts: false, ..whole(0.0, 10.0) });
        let why = found.cannot_tell.unwrap();
        assert!(
            found.is.is_none() && why.contains("90 % interval") && why.contains("steady means -8 to +8 %"),
            "{why}"
        );
    }

    #[test]
    fn a_cut_by_latency_leaves_no_throughput_bias() {
        let begins_low =
            timeline(30.0, 0.0, |at_s| if at_s < 2.0 { 199_000.0 } else { 200_000.0 + 100.0 * (at_s % 0.3) });
        let alone = steady_from(&begins_low, &[], whole(0.0, 30.0));
        assert!(alone.from_s == 0.0 && alone.tolerated_bias_pct.is_some_and(|pct| pct < 0.1), "{alone:?}");
        let slow = seconds(|at_s| if at_s < 6.0 { 0.004 } else { 0.001 + 0.0001 * (at_s % 3.0) }, 30);
        let later = steady_from(&begins_low, &slow, whole(0.0, 30.0));
        assert_eq!((later.from_s, later.tolerated_bias_pct), (6.0, None));
    }
}
