//! The level of a curve: the lowest load from which throughput stays near its peak. Loads above the
//! last load near the peak are left out, because a system may collapse there.
//!
//! The highest of several equal loads is too high by chance, and the lowest too low. So a curve
//! with repeats is taken to rise to its peak and not to rise again after it, and it is compared
//! with curves of this shape (isotonic regression: R. E. Barlow, D. J. Bartholomew, J. M. Bremner
//! and H. D. Brunk, "Statistical Inference under Order Restrictions", 1972). The interval contains
//! each load from which a curve of this shape may be level: the best such curve fits worse than the
//! best of all by no more than chance (an inverted likelihood-ratio test). The value is the lowest
//! load whose curve is within one standard error of the best. A curve that differs from all such
//! curves by more than chance is read as it was measured, without an interval.

use std::ops::Range;

use super::curve::{LoadCurve, LoadMean, RepeatSpread};
use super::knee::peak;
use super::student::{chance_of_f, quantile_of_t};
use crate::scaling::Estimate;

/// Share of the peak by which the throughput of a level load may be lower.
pub(crate) const LEVEL: f64 = 0.08;

/// Chance of so large a deviation from the shape. Below it, the curve is taken not to have the
/// shape.
const SHAPELESS: f64 = 0.01;

/// Number of steps of the search for the height of the peak. They narrow its range by a factor of
/// 10⁸.
const STEPS: usize = 40;

/// Logarithm of a mean, with the inverse of its variance.
#[derive(Clone, Copy)]
struct LogMean {
    value: f64,
    weight: f64,
}

/// Returns the level. It is infinite if only the highest load of the curve is within [`LEVEL`] of
/// the peak, and `None` with fewer than two loads or if no operation succeeded.
pub(crate) fn level_from(curve: &LoadCurve) -> Option<Estimate> {
    let means = curve.means();
    let near = (1.0 - LEVEL) * means[peak(&means).filter(|_| means.len() > 1)?].rate;
    let end = means.iter().rposition(|mean| mean.rate >= near)?;
    let level = LoadCurve { points: curve.points[..=end].to_vec() };
    let mut found = by_shape(&level, &means[..=end]).unwrap_or_else(|| {
        let outside = means[..=end].iter().rposition(|mean| mean.rate < near);
        Estimate { value: means[outside.map_or(0, |place| place + 1)].load, ci95: None }
    });
    // If the highest load alone is near the peak, the curve may rise beyond it.
    let highest = means[means.len() - 1].load;
    for load in std::iter::once(&mut found.value).chain(found.ci95.iter_mut().flatten()) {
        if *load >= highest {
            *load = f64::INFINITY;
        }
    }
    Some(found)
}

/// Returns the level of the closest curve of the shape, with its interval. Returns `None` if a load
/// has no spread, or if the curve does not have the shape.
fn by_shape(curve: &LoadCurve, means: &[LoadMean]) -> Option<Estimate> {
    let least = means[peak(means)?].rate / 1_000.0;
    let spreads = (0..means.len()).map(|place| curve.spread_at(place).filter(|spread| spread.relative > 0.0));
    let spreads: Vec<RepeatSpread> = spreads.collect::<Option<_>>()?;
    let degrees = spreads.iter().map(|spread| spread.degrees).min()? as f64;
    let logs: Vec<LogMean> = means
        .iter()
        .zip(&spreads)
        .map(|(mean, spread)| LogMean {
            value: mean.rate.max(least).ln(),
            weight: mean.repeats as f64 / spread.relative.powi(2),
        })
        .collect();
    let misfits = misfits(&logs);
    let best = misfits.iter().copied().fold(f64::INFINITY, f64::min);
    let free = (means.len() as f64 - 2.0).max(1.0);
    if !best.is_finite() || chance_of_f(best / free, free, degrees) < SHAPELESS {
        return None;
    }
    let value = means[misfits.iter().position(|misfit| *misfit <= best + 1.0)?].load;
    let most = best + quantile_of_t(0.975, degrees)?.powi(2);
    let low = means[misfits.iter().position(|misfit| *misfit <= most)?].load;
    let high = means[misfits.iter().rposition(|misfit| *misfit <= most)?].load;
    Some(Estimate { value, ci95: Some([low, high]) })
}

/// Returns the least sum of weighted squares between the means and a curve of the shape, for each
/// place at which its level may start.
fn misfits(logs: &[LogMean]) -> Vec<f64> {
    (0..logs.len())
        .map(|start| (start..logs.len()).map(|peak| misfit(logs, start, peak)).fold(f64::INFINITY, f64::min))
        .collect()
}

/// Returns the least sum of weighted squares for curves with this peak that are level from `start`
/// on.
fn misfit(logs: &[LogMean], start: usize, peak: usize) -> f64 {
    let below = -f64::ln(1.0 - LEVEL);
    let rising = [monotone(logs, 0..start, false), monotone(logs, start..peak, false)];
    let falling = monotone(logs, peak + 1..logs.len(), true);
    let lowest = logs.iter().map(|log| log.value).fold(f64::INFINITY, f64::min);
    let highest = logs.iter().map(|log| log.value).fold(f64::NEG_INFINITY, f64::max) + below;
    lowest_of([lowest, highest], |height| {
        let level = [height - below, height];
        squares(logs, &[(peak, height)], [height; 2])
            + squares(logs, &rising[0], [f64::NEG_INFINITY, height - below])
            + squares(logs, &rising[1], level)
            + squares(logs, &falling, level)
    })
}

/// Returns the weighted squares between the means and a curve that is cut off at these bounds. A
/// monotone fit within bounds is the fit without bounds, cut off at them.
fn squares(logs: &[LogMean], fitted: &[(usize, f64)], [low, high]: [f64; 2]) -> f64 {
    fitted.iter().map(|&(place, value)| logs[place].weight * (logs[place].value - value.clamp(low, high)).powi(2)).sum()
}

/// Returns the closest monotone curve through the means at these places. Pools neighbours that are
/// in the wrong order (Barlow et al., section 1.2).
fn monotone(logs: &[LogMean], places: Range<usize>, falls: bool) -> Vec<(usize, f64)> {
    let mut blocks: Vec<(LogMean, usize)> = Vec::new();
    for place in places.clone() {
        let mut block = (logs[place], 1);
        while let Some((before, count)) =
            blocks.pop_if(|(before, _)| if falls { before.value < block.0.value } else { before.value > block.0.value })
        {
            let weight = before.weight + block.0.weight;
            let value = (before.value * before.weight + block.0.value * block.0.weight) / weight;
            block = (LogMean { value, weight }, block.1 + count);
        }
        blocks.push(block);
    }
    let values = blocks.into_iter().flat_map(|(block, count)| std::iter::repeat_n(block.value, count));
    places.zip(values).collect()
}

/// Returns the least value of a convex function between two bounds, by golden-section search (J.
/// Kiefer, "Sequential minimax search for a maximum", Proceedings of the American Mathematical
/// Society 4, 1953).
fn lowest_of([mut low, mut high]: [f64; 2], function: impl Fn(f64) -> f64) -> f64 {
    let golden = (5_f64.sqrt() - 1.0) / 2.0;
    for _ in 0..STEPS {
        let reach = golden * (high - low);
        if function(high - reach) <= function(low + reach) {
            high = low + reach;
        } else {
            low = high - reach;
        }
    }
    function(f64::midpoint(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::normal;

    const LOADS: [f64; 7] = [1.0, 4.0, 16.0, 32.0, 64.0, 128.0, 256.0];
    const LEVEL_FROM_4: [f64; 7] = [0.4, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

    fn curve(rates: [f64; 7], repeats: usize, mut off: impl FnMut() -> f64) -> LoadCurve {
        let points = LOADS.into_iter().zip(rates);
        let measured: Vec<(f64, f64)> = points
            .flat_map(|point| std::iter::repeat_n(point, repeats))
            .map(|(load, rate)| (load, 1_000.0 * rate * (1.0 + off())))
            .collect();
        LoadCurve::of(&measured)
    }

    fn noisy(rates: [f64; 7], repeats: usize, noise: f64, seed: u64) -> Estimate {
        let mut random = fastrand::Rng::with_seed(seed);
        level_from(&curve(rates, repeats, || noise * normal(&mut random))).unwrap()
    }

    #[test]
    fn a_level_without_repeats_uses_the_measured_throughput() {
        for (rates, level) in [
            (LEVEL_FROM_4, 4.0),
            ([0.4, 0.93, 1.0, 1.0, 1.0, 0.95, 0.93], 4.0),
            ([0.4, 0.91, 1.0, 1.0, 1.0, 1.0, 1.0], 16.0),
            ([0.4, 1.0, 1.0, 0.8, 1.0, 1.0, 1.0], 64.0),
            ([1.0; 7], 1.0),
            ([0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0], f64::INFINITY),
            ([0.4, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5], 4.0),
            ([0.4, 0.8, 1.0, 0.1, 0.0, 0.0, 0.0], 16.0),
        ] {
            let found = level_from(&curve(rates, 1, || 0.0)).unwrap();
            assert_eq!((found.value, found.ci95), (level, None), "{rates:?}");
        }
        assert_eq!(level_from(&curve([0.0; 7], 1, || 0.0)), None);
    }

    #[test]
    fn similar_repeats_give_an_interval_of_one_load() {
        for (rates, level) in [
            (LEVEL_FROM_4, 4.0),
            // A collapse does not hide where the level began.
            ([0.4, 1.0, 1.0, 1.0, 1.0, 0.7, 0.4], 4.0),
            ([0.4, 1.0, 1.0, 1.0, 1.0, 0.001, 0.0], 4.0),
            ([0.1, 0.2, 0.3, 0.5, 0.7, 0.85, 1.0], f64::INFINITY),
        ] {
            let found = noisy(rates, 2, 0.01, 1);
            assert_eq!((found.value, found.ci95), (level, Some([level; 2])), "{rates:?}");
        }
    }

    #[test]
    fn a_significant_dip_is_taken_as_measured() {
        let found = noisy([0.4, 1.0, 1.0, 0.6, 1.0, 1.0, 1.0], 2, 0.01, 1);
        assert_eq!((found.value, found.ci95), (64.0, None));
    }

    #[test]
    fn intervals_have_about_the_stated_coverage() {
        for noise in [0.03, 0.1] {
            let intervals = (0..40).filter_map(|seed| noisy(LEVEL_FROM_4, 2, noise, seed).ci95);
            let held = intervals.filter(|[low, high]| *low <= 4.0 && 4.0 <= *high).count();
            assert!(held >= 35, "{noise}: {held} of 40");
        }
    }
}
