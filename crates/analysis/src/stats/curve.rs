//! Throughput over load, with repeats: the spread of repeats, and intervals of figures that are
//! read off the curve.
//!
//! Repeats are few (usually two or three per load), too few to show the spread at each load. So the
//! spread is taken from all loads together, as a share of the mean at each load. If thirds of the
//! loads do not have the same spread, by Levene's test (H. Levene, "Robust tests for equality of
//! variances", Contributions to Probability and Statistics, 1960), each third has its own spread,
//! but at least that of all loads: a saturated system varies more than an idle one. These residuals
//! are resampled (Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 6.2),
//! enlarged by `√(n / (n − 1))`, because residuals about a mean of n are smaller than errors. The
//! intervals use Hesterberg's expanded percentiles (What Teachers Should Know About the Bootstrap,
//! 2015, section 5.3): plain percentiles of few repeats are too narrow by the factor for which
//! Student's t corrects.
//!
//! **Crossing**: the load from which one curve stays above another.
//!
//! Between measured loads the lead is taken to change evenly with the logarithm of the load,
//! because loads are usually doubled. No curve is fitted: the law that fits one system need not fit
//! the other, and a crossing of two close fitted curves is an artefact of their misfits.
//!
//! **Flat**: the load up to which each unit of load achieves as much as at the lightest load.
//! Beyond it, throughput per agent or per host falls.
//!
//! Between measured loads the logarithm of throughput per unit is taken to change evenly with that
//! of the load. This is exact on the two asymptotes of a closed system: first it is constant, then
//! it falls as one over the load (Lazowska, Zahorjan, Graham and Sevcik, Quantitative System
//! Performance, 1984, chapter 5). A sharp corner between two loads is cut: with doubled loads the
//! result is up to an eighth too low.

use std::ops::Range;

use statrs::distribution::{ContinuousCDF, Normal};

use super::bootstrap::{RESAMPLES, percentile, replicates};
use super::quantiles::mean;
use super::sectioning::batches;
use super::student::{chance_of_f, quantile_of_t};

/// Number of repeats that an interval needs, not counting the first of each load. With fewer,
/// Student's t is too wide to be useful.
const LEAST_DEGREES: usize = 3;

/// Number of repeats that a third of the loads needs, not counting the first of each load.
const LEAST_OF_THIRD: usize = 2;

/// Largest p-value of Levene's test at which the spreads of thirds count as unequal. It is high,
/// because a wrong assumption of equality is worse.
const UNEQUAL: f64 = 0.2;

/// Fixed seed, so that the same records give the same interval.
const SEED: u64 = 1;

/// A load and the throughput of each repeat.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoadPoint {
    pub load: f64,
    /// Operations per second; at least one value.
    pub rates: Vec<f64>,
}

impl LoadPoint {
    /// Returns the deviations from the mean, as a share of the mean, enlarged to the size of an
    /// error.
    fn residuals(&self) -> Vec<f64> {
        let (count, mean) = (self.rates.len() as f64, mean(&self.rates).unwrap_or(0.0));
        if count < 2.0 || mean <= 0.0 {
            return Vec::new();
        }
        let enlarged = (count / (count - 1.0)).sqrt();
        self.rates.iter().map(|rate| (rate / mean - 1.0) * enlarged).collect()
    }
}

/// Points by rising load, each load once.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LoadCurve {
    pub points: Vec<LoadPoint>,
}

/// Mean throughput at a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LoadMean {
    pub load: f64,
    /// Mean throughput of the repeats at this load.
    pub rate: f64,
    pub repeats: usize,
}

impl LoadMean {
    /// Returns the throughput per unit of load.
    pub(crate) fn per_load(&self) -> f64 {
        self.rate / self.load
    }
}

/// Spread of repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RepeatSpread {
    /// Standard deviation as a share of the mean, over all loads.
    pub relative: f64,
    /// Degrees of freedom: repeats beyond the first of each load.
    pub degrees: usize,
}

/// A third of the loads with its spread.
#[derive(Debug, Clone)]
struct SpreadThird {
    /// Indices of its loads.
    places: Range<usize>,
    /// Spread of the repeats in this third, at least that of all loads.
    spread: RepeatSpread,
    /// An error for each trial in this third, scaled to `spread`.
    errors: Vec<f64>,
}

impl LoadCurve {
    /// Builds a curve from loads and throughputs in any order.
    pub(crate) fn of(measured: &[(f64, f64)]) -> Self {
        let mut points: Vec<LoadPoint> = Vec::new();
        for &(load, rate) in measured {
            match points.iter_mut().find(|point| point.load == load) {
                Some(point) => point.rates.push(rate),
                None => points.push(LoadPoint { load, rates: vec![rate] }),
            }
        }
        points.sort_by(|a, b| a.load.total_cmp(&b.load));
        Self { points }
    }

    /// Returns the mean of each load.
    pub(crate) fn means(&self) -> Vec<LoadMean> {
        let means = self.points.iter().filter_map(|point| {
            Some(LoadMean { load: point.load, rate: mean(&point.rates)?, repeats: point.rates.len() })
        });
        means.collect()
    }

    /// Returns the spread of repeats, or `None` with too few repeats.
    pub(crate) fn spread(&self) -> Option<RepeatSpread> {
        self.squares().filter(|spread| spread.degrees >= LEAST_DEGREES)
    }

    /// Returns the spread of repeats at the load with this index: that of all loads, or that of its
    /// third if the thirds spread unequally.
    pub(crate) fn spread_at(&self, place: usize) -> Option<RepeatSpread> {
        let own = self.thirds().into_iter().flatten().find(|third| third.places.contains(&place));
        own.map_or_else(|| self.spread(), |third| Some(third.spread))
    }

    /// Returns the thirds of the loads, if their spreads differ.
    fn thirds(&self) -> Option<Vec<SpreadThird>> {
        let all = self.spread()?;
        let (mut thirds, mut deviations) = (Vec::new(), Vec::new());
        let mut begin = 0;
        for points in batches(&self.points, 3) {
            let curve = Self { points: points.to_vec() };
            let own = curve.squares()?;
            let spread = if own.relative > all.relative { own } else { all };
            let enlarged = if own.relative > 0.0 { spread.relative / own.relative } else { 1.0 };
            thirds.push(SpreadThird {
                places: begin..begin + points.len(),
                spread,
                errors: curve.errors().into_iter().map(|error| error * enlarged).collect(),
            });
            begin += points.len();
            // As many values as degrees of freedom: two repeats deviate by the same amount.
            deviations
                .push(points.iter().flat_map(|point| point.residuals().into_iter().skip(1).map(f64::abs)).collect());
        }
        (levene(&deviations)? < UNEQUAL).then_some(thirds)
    }

    /// Returns the spread of the residuals, with at least [`LEAST_OF_THIRD`] degrees of freedom.
    fn squares(&self) -> Option<RepeatSpread> {
        let squares: Vec<f64> = self.residuals().iter().map(|residual| residual * residual).collect();
        let degrees: usize = self.points.iter().map(|point| point.rates.len().saturating_sub(1)).sum();
        // Residuals are enlarged so that the mean of a load's squares is their variance.
        (degrees >= LEAST_OF_THIRD).then_some(RepeatSpread { relative: mean(&squares)?.sqrt(), degrees })
    }

    fn residuals(&self) -> Vec<f64> {
        self.points.iter().flat_map(LoadPoint::residuals).collect()
    }

    /// Returns the load and the throughput of each repeat.
    pub(crate) fn repeats(&self) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().flat_map(|point| point.rates.iter().map(|rate| (point.load, *rate)))
    }

    /// Returns one residual per trial. Loads with a single trial have none, so residuals of the
    /// others are repeated.
    fn errors(&self) -> Vec<f64> {
        self.residuals().into_iter().cycle().take(self.repeats().count()).collect()
    }
}

/// Returns the chance of so unequal deviations if all groups spread equally (Levene's test).
/// Returns `None` if a group has fewer than two deviations.
fn levene(groups: &[Vec<f64>]) -> Option<f64> {
    let all = groups.concat();
    let middle = mean(&all)?;
    let (mut between, mut within) = (0.0, 0.0);
    for group in groups {
        let own = mean(group).filter(|_| group.len() >= LEAST_OF_THIRD)?;
        between += group.len() as f64 * (own - middle).powi(2);
        within += group.iter().map(|deviation| (deviation - own).powi(2)).sum::<f64>();
    }
    let (above, below) = (groups.len() as f64 - 1.0, (all.len() - groups.len()) as f64);
    let ratio = between / above / (within / below);
    ratio.is_finite().then(|| chance_of_f(ratio, above, below))
}

/// Returns the 95 % bootstrap interval of a figure of one or more curves. The figure may be
/// infinite. Returns `None` with too few repeats, or if the figure is undefined for most of the
/// resampled curves.
pub(crate) fn interval(curves: &[&LoadCurve], figure: impl Fn(&[Vec<LoadMean>]) -> Option<f64>) -> Option<[f64; 2]> {
    intervals(curves, |means| figure(means).map(|value| [value])).map(|[interval]| interval)
}

/// Returns the intervals of several figures at once, as [`interval`] does.
pub(crate) fn intervals<const N: usize>(
    curves: &[&LoadCurve],
    figures: impl Fn(&[Vec<LoadMean>]) -> Option<[f64; N]>,
) -> Option<[[f64; 2]; N]> {
    let spreads: Option<Vec<RepeatSpread>> = curves.iter().map(|curve| curve.spread()).collect();
    let thirds: Vec<Option<Vec<SpreadThird>>> = curves.iter().map(|curve| curve.thirds()).collect();
    // The curve or third with the fewest degrees of freedom decides.
    let of_thirds = thirds.iter().flatten().flatten().map(|third| third.spread);
    let degrees = spreads?.into_iter().chain(of_thirds).map(|spread| spread.degrees).min()?;
    let means: Vec<Vec<LoadMean>> = curves.iter().map(|curve| curve.means()).collect();
    let mut errors = Vec::new();
    for (curve, thirds) in curves.iter().zip(thirds) {
        match thirds {
            Some(thirds) => errors.extend(thirds.into_iter().map(|third| third.errors)),
            None => errors.push(curve.errors()),
        }
    }
    let drawn = replicates(&errors, SEED, |errors| {
        let mut errors = errors.iter().flatten();
        let redrawn: Vec<Vec<LoadMean>> = means.iter().map(|means| redrawn(means, &mut errors)).collect();
        figures(&redrawn)
    });
    let tail = Normal::standard().cdf(-quantile_of_t(0.975, degrees as f64)?);
    let mut ends = [[0.0; 2]; N];
    for (figure, ends) in ends.iter_mut().enumerate() {
        let values: Vec<f64> = drawn.iter().map(|figures| figures[figure]).collect();
        *ends = percentile(&values, tail).filter(|_| values.len() >= RESAMPLES / 2)?;
    }
    Some(ends)
}

/// Returns a curve as it might have been measured, with an error for each of its trials.
fn redrawn<'a>(means: &[LoadMean], errors: &mut impl Iterator<Item = &'a f64>) -> Vec<LoadMean> {
    let redrawn = means.iter().map(|mean| {
        let sum: f64 = errors.by_ref().take(mean.repeats).sum();
        LoadMean { rate: (mean.rate * (1.0 + sum / mean.repeats as f64)).max(0.0), ..*mean }
    });
    redrawn.collect()
}

/// Returns the load from which `a` stays ahead of `b`. Minus infinity: `a` is ahead at every load
/// that both have. Infinity: `a` is not ahead at the highest such load. `None`: fewer than two such
/// loads.
pub(crate) fn crossing(a: &[LoadMean], b: &[LoadMean]) -> Option<f64> {
    let leads = leads(a, b);
    let (&(_, last), _) = leads.split_last().filter(|(_, before)| !before.is_empty())?;
    if last <= 0.0 {
        return Some(f64::INFINITY);
    }
    let Some(behind) = leads.iter().rposition(|&(_, lead)| lead <= 0.0) else { return Some(f64::NEG_INFINITY) };
    let [(from, lead), (to, next)] = [leads[behind], leads[behind + 1]];
    let share = -lead / (next - lead);
    Some((from.ln() + share * (to / from).ln()).exp())
}

/// Returns the lead of `a` at each load, as a share of the sum of both, so that the height of both
/// does not matter.
fn leads(a: &[LoadMean], b: &[LoadMean]) -> Vec<(f64, f64)> {
    let mut leads = Vec::new();
    for a in a {
        if let Some(b) = b.iter().find(|b| b.load == a.load) {
            let sum = a.rate + b.rate;
            leads.push((a.load, if sum > 0.0 { (a.rate - b.rate) / sum } else { 0.0 }));
        }
    }
    leads
}

/// Smallest share of the throughput per unit at the lightest load that counts as unchanged.
const AS_MUCH: f64 = 0.8;

/// Returns the highest load at which throughput per unit of load is at least [`AS_MUCH`] of that at
/// the lightest. Infinite if this holds at the highest measured load. Returns `None` with fewer
/// than two loads, or without throughput at the lightest.
pub(crate) fn flat_until(means: &[LoadMean]) -> Option<f64> {
    let (first, _) = means.split_first().filter(|(first, rest)| first.rate > 0.0 && !rest.is_empty())?;
    let shares: Vec<f64> = means.iter().map(|mean| mean.per_load() / first.per_load()).collect();
    let last = shares.iter().rposition(|share| *share >= AS_MUCH)?;
    let Some(next) = means.get(last + 1) else { return Some(f64::INFINITY) };
    let (here, there) = (shares[last], shares[last + 1]);
    // If the next load has no throughput, its logarithm is minus infinity and `way` is 0.
    let way = (here / AS_MUCH).ln() / (here / there).ln();
    Some((means[last].load.ln() + way * (next.load / means[last].load).ln()).exp())
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::super::{knee, usl};
    use super::*;
    use crate::scaling::peak;
    use crate::synthetic::normal;

    const DOUBLING: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

    /// A curve whose repeats differ by `noise`, a share.
    fn noisy(rate: impl Fn(f64) -> f64, noise: f64, repeats: usize, random: &mut Rng) -> LoadCurve {
        unevenly_noisy(rate, |_| noise, repeats, random)
    }

    fn unevenly_noisy(
        rate: impl Fn(f64) -> f64,
        noise: impl Fn(f64) -> f64,
        repeats: usize,
        random: &mut Rng,
    ) -> LoadCurve {
        let loads = DOUBLING.into_iter().flat_map(|load| std::iter::repeat_n(load, repeats));
        let measured = loads.map(|load| (load, rate(load) * (1.0 + noise(load) * normal(random))));
        LoadCurve::of(&measured.collect::<Vec<_>>())
    }

    #[test]
    fn points_are_grouped_by_load() {
        let curve = LoadCurve::of(&[(4.0, 3.0), (1.0, 1.0), (4.0, 5.0)]);
        let means = curve.means();
        assert_eq!(
            means.iter().map(|mean| (mean.load, mean.rate, mean.repeats)).collect::<Vec<_>>(),
            [(1.0, 1.0, 1), (4.0, 4.0, 2)]
        );
    }

    #[test]
    fn the_spread_is_pooled_over_all_loads() {
        // Standard deviations of 10 % each, about means of 100 and 1000.
        let measured = [(1.0, 90.0), (1.0, 100.0), (1.0, 110.0), (2.0, 900.0), (2.0, 1_000.0), (2.0, 1_100.0)];
        let spread = LoadCurve::of(&measured).spread().unwrap();
        assert!((spread.relative - 0.1).abs() < 1e-12 && spread.degrees == 4, "{spread:?}");
        assert_eq!(LoadCurve::of(&measured[..3]).spread(), None, "two degrees of freedom");
        assert_eq!(LoadCurve::of(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0)]).spread(), None, "no repeats");
    }

    #[test]
    fn intervals_are_reproducible_and_may_be_infinite() {
        let curve = noisy(|n| n, 0.05, 3, &mut Rng::with_seed(3));
        let [first, again] = [(); 2].map(|()| interval(&[&curve], |means| Some(means[0].first()?.rate)).unwrap());
        assert_eq!(first, again);
        assert!(first[0] < 1.0 && 1.0 < first[1], "{first:?}");
        assert_eq!(interval(&[&curve], |_| Some(f64::INFINITY)), Some([f64::INFINITY; 2]));
        assert_eq!(interval(&[&curve], |_| None), None);
    }

    /// Number of 95 % intervals tried. Fewer than `LEAST` of them contain the truth once in a
    /// thousand times.
    const TRIED: usize = 30;
    const LEAST: usize = 23;

    #[test]
    fn intervals_of_the_law_contain_the_truth() {
        let (sigma, kappa) = (0.04, 6e-4);
        let mut random = Rng::with_seed(41);
        let mut held = [0; 3];
        for _ in 0..TRIED {
            let curve = noisy(|n| usl::FittedLaw { lambda: 500.0, sigma, kappa }.at(n), 0.04, 3, &mut random);
            let found =
                intervals(&[&curve], |means| usl::fitted(&means[0]).map(|law| [law.lambda, law.sigma, law.kappa]));
            for (index, ([low, high], truth)) in found.unwrap().into_iter().zip([500.0, sigma, kappa]).enumerate() {
                held[index] += usize::from((low..=high).contains(&truth));
            }
        }
        assert!(held.iter().all(|held| *held >= LEAST), "of {TRIED}: {held:?}");
    }

    #[test]
    fn intervals_of_the_knee_contain_the_truth() {
        let mut random = Rng::with_seed(42);
        let held = (0..TRIED).filter(|_| {
            let curve = noisy(|n| 100.0 * n.min(6.0), 0.04, 3, &mut random);
            let bend = knee::KneeSplit::of(&curve.means(), curve.spread()).unwrap();
            let [low, high] = interval(&[&curve], |means| bend.knee(&means[0])).unwrap();
            (low..=high).contains(&6.0)
        });
        let held = held.count();
        assert!(held >= LEAST, "{held} of {TRIED}");
    }

    /// Repeats differ by 1 % at light loads and by 8 % at saturated ones.
    fn contended(rate: impl Fn(f64) -> f64, random: &mut Rng) -> LoadCurve {
        unevenly_noisy(rate, |load| if load < 8.0 { 0.01 } else { 0.08 }, 3, random)
    }

    /// The peak of a plateau was too high by 5 %, and its interval contained the truth in 80 of 100
    /// curves, before thirds of the loads had their own spread.
    #[test]
    fn a_noisier_saturated_system_has_a_wider_interval() {
        let mut random = Rng::with_seed(44);
        let (mut held, mut sum) = (0, 0.0);
        for _ in 0..200 {
            let found = peak(&contended(|n| 100.0 * n.min(8.0), &mut random)).unwrap();
            let [low, high] = found.ci95.unwrap();
            held += u32::from(low <= 800.0 && 800.0 <= high);
            sum += found.value / 800.0 - 1.0;
        }
        assert!(held >= 184 && (sum / 200.0_f64).abs() < 0.02, "{held} of 200, off by {}", sum / 200.0);
    }

    #[test]
    fn thirds_have_separate_spreads_only_if_unequal() {
        let mut random = Rng::with_seed(45);
        let unequal = (0..40).filter(|_| contended(|n| n, &mut random).thirds().is_some()).count();
        let equal = (0..40).filter(|_| noisy(|n| n, 0.04, 3, &mut random).thirds().is_some()).count();
        assert!(unequal >= 24 && equal <= 16, "{unequal} and {equal} of 40");
        let curve = contended(|n| n, &mut random);
        let [light, saturated] = [0, 6].map(|place| curve.spread_at(place).unwrap().relative);
        assert!(light >= curve.spread().unwrap().relative && saturated >= light, "{light} {saturated}");
    }

    #[test]
    fn intervals_of_a_crossing_contain_the_truth() {
        let mut random = Rng::with_seed(43);
        let held = (0..TRIED).filter(|_| {
            // The lead changes evenly from −1/3 at 1 to 1/3 at 64, so that it is 0 at 8.
            let [a, b] =
                [1.0, -1.0].map(|sign| noisy(|n| 100.0 * (1.0 + sign * (n.log2() - 3.0) / 9.0), 0.05, 3, &mut random));
            let [low, high] = interval(&[&a, &b], |means| crossing(&means[0], &means[1])).unwrap();
            (low..=high).contains(&8.0)
        });
        let held = held.count();
        assert!(held >= LEAST, "{held} of {TRIED}");
    }

    fn means(rate: impl Fn(f64) -> f64, loads: &[f64]) -> Vec<LoadMean> {
        loads.iter().map(|&load| LoadMean { load, rate: rate(load), repeats: 1 }).collect()
    }

    #[test]
    fn a_plateau_at_eight_is_flat_until_ten() {
        // X = 100 min(N, 8): per unit 100 up to 8, then 800 / N, which is 80 at 10.
        let found = flat_until(&means(|load| 100.0 * load.min(8.0), &DOUBLING));
        assert!((found.unwrap_or(0.0) - 10.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_corner_between_loads_is_found_within_an_eighth() {
        // Throughput per unit falls to four fifths at 1.25 times the corner.
        for corner in [4.5, 5.0, 6.0, 7.0, 7.9] {
            let found = flat_until(&means(|load| load.min(corner), &DOUBLING)).unwrap_or(0.0) / (1.25 * corner);
            assert!((0.875..1.0001).contains(&found), "{corner}: {found}");
        }
    }

    #[test]
    fn a_linear_curve_is_flat_beyond_the_sweep() {
        assert_eq!(flat_until(&means(|load| 7.0 * load, &DOUBLING)), Some(f64::INFINITY));
    }

    #[test]
    fn a_collapse_ends_the_flat_part_one_load_earlier() {
        let found = flat_until(&means(|load| if load > 4.0 { 0.0 } else { load }, &DOUBLING));
        assert!((found.unwrap_or(0.0) - 4.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn one_load_or_no_throughput_gives_no_result() {
        assert_eq!(flat_until(&means(|load| load, &[1.0])), None);
        assert_eq!(flat_until(&means(|_| 0.0, &DOUBLING)), None);
    }

    mod crossing {
        use super::super::*;
        use super::{DOUBLING, means};

        fn of(loads: &[f64], rate: impl Fn(f64) -> f64) -> Vec<LoadMean> {
            means(rate, loads)
        }

        #[test]
        fn a_slow_starter_crosses_at_the_intersection() {
            // 12 slow cores against 2 fast ones: the curves meet where 10 per agent make 200.
            let (pi, xeon) = (of(&DOUBLING, |n| 10.0 * n.min(40.0)), of(&DOUBLING, |n| 100.0 * n.min(2.0)));
            let found = crossing(&pi, &xeon).unwrap();
            assert!((found - 20.0).abs() < 1.0, "{found}");
            assert_eq!(crossing(&xeon, &pi), Some(f64::INFINITY), "it is overtaken");
            let meets = of(&DOUBLING, |n| 160.0_f64.min(100.0 * n));
            assert_eq!(crossing(&pi, &meets).map(f64::round), Some(16.0), "they are equal at a measured load");
        }

        #[test]
        fn power_curves_cross_between_loads() {
            let (a, b) = (of(&[1.0, 64.0], |n| n), of(&[1.0, 64.0], |n| 4.0 * n.sqrt()));
            let found = crossing(&a, &b).unwrap();
            // Only two loads with a very uneven lead: the crossing is still between them.
            assert!((1.0..64.0).contains(&found), "{found}");
            let (a, b) = (of(&[1.0, 4.0], |n| n), of(&[1.0, 4.0], |n| n.powf(-1.0) * 4.0));
            assert!((crossing(&a, &b).unwrap() - 2.0).abs() < 1e-9, "evenly on both sides");
        }

        #[test]
        fn only_the_last_of_several_crossings_counts() {
            let b = of(&DOUBLING, |_| 10.0);
            let a = of(&DOUBLING, |n| if n == 2.0 || n == 8.0 { 5.0 } else { 20.0 });
            let found = crossing(&a, &b).unwrap();
            assert!((8.0..16.0).contains(&found), "{found}");
        }

        #[test]
        fn a_permanent_lead_has_no_crossing() {
            let (high, low) = (of(&DOUBLING, |n| 2.0 * n), of(&DOUBLING, |n| n));
            assert_eq!(crossing(&high, &low), Some(f64::NEG_INFINITY));
            assert_eq!(crossing(&low, &high), Some(f64::INFINITY));
            assert_eq!(crossing(&low, &low), Some(f64::INFINITY), "a tie is no lead");
            let zero = of(&DOUBLING, |_| 0.0);
            assert_eq!(crossing(&zero, &zero), Some(f64::INFINITY));
            assert_eq!(crossing(&low, &zero), Some(f64::NEG_INFINITY));
        }

        #[test]
        fn loads_missing_in_one_curve_are_left_out() {
            let a = of(&[1.0, 3.0, 4.0, 16.0], |n| n);
            let b = of(&[1.0, 2.0, 4.0, 16.0], |_| 8.0);
            let found = crossing(&a, &b).unwrap();
            assert!((4.0..16.0).contains(&found), "{found}");
            assert_eq!(crossing(&a, &of(&[4.0, 5.0], |_| 1.0)), None, "one load in common");
            assert_eq!(crossing(&a, &[]), None);
        }
    }
}
