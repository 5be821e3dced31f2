//! Usual failures of a load: their rate, the number that chance puts into a stretch of time, the
//! start of unusual failures, and the failures of an outage beyond the usual ones.
//!
//! **Rate**: the mean of the middle half of all quarters of a second. If most quarters have no
//! failure, the rate is instead the frequency with which failures begin after a quarter without
//! failures: an outage then counts as one beginning, however long it lasts. If there are fewer than
//! [`FEWEST`] beginnings, failures are not usual, and the rate is 0.
//!
//! **Chance**: that of a Poisson stream of this rate, for all windows of the load together. If
//! seconds differ by more than in such a stream, the distance from the mean grows with their
//! standard deviation.
//!
//! **Onset**: a window with too many failures may begin with an unrelated failure. Within the
//! window, the search finds the stretch that a higher rate explains best: for `k` failures in `n`
//! slots, with `b` usual ones each, by the likelihood ratio `k ln(k / (n b)) − k + n b` (M.
//! Kulldorff, "A spatial scan statistic", Communications in Statistics 26, 1997). It moves the two
//! ends of the stretch in turn.
//!
//! **Excess**: a share `p` of the `n` operations would also have failed without the outage, but no
//! operation fails twice. So `(f − p n) / (1 − p)` of the `f` failures belong to the outage (W. S.
//! Abbott, "A method of computing the effectiveness of an insecticide", Journal of Economic
//! Entomology 18, 1925).

use statrs::function::gamma::gamma_lr;

use super::quantiles::{interquartile_range, mean, nearest_rank};

/// Bins per second.
pub(crate) const BINS_PER_S: usize = 4;

/// Fewest beginnings of failures that count as usual.
const FEWEST: usize = 4;

/// Chance of a false alarm in the whole load.
const CHANCE: f64 = 0.01;

/// Interquartile range of a normal distribution with standard deviation 1.
const NORMAL_IQR: f64 = 1.349;

/// Failures per second from which the spread of seconds shows how much failures cluster.
const SPREADS: f64 = 3.0;

/// Usual failures of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct UsualFailures {
    pub per_s: f64,
    /// Standard deviation of the failures per second, as a multiple of that of a Poisson stream.
    spread: f64,
    /// Number of windows that are examined: one for each failure.
    windows: f64,
}

impl UsualFailures {
    /// Derives the usual failures from the counts per bin of a load, with about [`BINS_PER_S`] bins
    /// per second.
    pub fn of(bins: &[f64], bin_s: f64) -> Self {
        let median = nearest_rank(bins, 0.5).unwrap_or(0.0);
        let per_bin = if median > 0.0 { middle_mean(bins) } else { seldom(bins) };
        let seconds: Vec<f64> = bins.chunks_exact(BINS_PER_S).map(|bins| bins.iter().sum()).collect();
        let per_second = per_bin * BINS_PER_S as f64;
        let range = interquartile_range(&seconds).filter(|_| per_second >= SPREADS).unwrap_or(0.0);
        let spread = if range > 0.0 { (range / NORMAL_IQR / per_second.sqrt()).max(1.0) } else { 1.0 };
        Self { per_s: per_bin / bin_s, spread, windows: (per_bin * bins.len() as f64).max(1.0) }
    }

    /// Returns the largest number of failures that chance explains in a stretch of `long_s` seconds
    /// that begins with a failure.
    pub fn most(&self, long_s: f64) -> u64 {
        // The relative standard error of the rate is that of the number of failures behind it.
        let mean = self.per_s * long_s * (1.0 + 1.0 / self.windows.sqrt());
        if mean <= 0.0 {
            return 0;
        }
        let (mut low, mut high) = (0.0, (20.0 + mean + 12.0 * mean.sqrt()).ceil());
        while high - low > 1.0 {
            let middle = f64::midpoint(low, high).floor();
            // Failures besides the first: the chance of at least this many more.
            let is_too_seldom = self.windows * gamma_lr(middle, mean) <= CHANCE;
            if is_too_seldom { high = middle } else { low = middle }
        }
        (mean + (high - mean) * self.spread).ceil() as u64
    }
}

/// Returns the mean of the middle half of the sorted bins. It is nearly as precise as the mean, and
/// an outage of a quarter of the load does not change it.
fn middle_mean(bins: &[f64]) -> f64 {
    let mut sorted = bins.to_vec();
    sorted.sort_by(f64::total_cmp);
    mean(&sorted[sorted.len() / 4..sorted.len() - sorted.len() / 4]).unwrap_or(0.0)
}

/// Returns the rate of events that occur in less than half of the bins.
fn seldom(bins: &[f64]) -> f64 {
    let quiet = bins.iter().filter(|bin| **bin == 0.0).count();
    let begun = bins.windows(2).filter(|pair| pair[0] == 0.0 && pair[1] > 0.0).count()
        + usize::from(bins.first().is_some_and(|first| *first > 0.0));
    let chance = begun as f64 / quiet.max(1) as f64;
    if begun < FEWEST { 0.0 } else { -(1.0 - chance.min(0.99)).ln() }
}

/// Returns the start of the stretch that an increased failure rate explains best. `failures` are
/// the slots of a window with their counts, in order; the window ends at `end`; `usual` failures
/// are expected per slot. If there is only one failure, its slot is returned.
pub(crate) fn onset(failures: &[(usize, u64)], end: usize, usual: f64) -> Option<usize> {
    let last = failures.len().checked_sub(1)?;
    let mut sums = vec![0.0];
    sums.extend(failures.iter().scan(0.0, |sum, (_, count)| {
        *sum += *count as f64;
        Some(*sum)
    }));
    // The stretch may continue beyond its last failure in the window, which is unknown. So it ends
    // there.
    let ratio = |from: usize, until: usize| {
        let slots = (failures[until].0 + 1).min(end).saturating_sub(failures[from].0).max(1) as f64;
        let (held, expected) = (sums[until + 1] - sums[from], slots * usual);
        if held > expected { held * (held / expected).ln() - held + expected } else { 0.0 }
    };
    let (mut from, mut until) = (0, last);
    for _ in 0..4 {
        let best_until = (from..=last).max_by(|&a, &b| ratio(from, a).total_cmp(&ratio(from, b)))?;
        let best_from =
            (0..=best_until).rev().max_by(|&a, &b| ratio(a, best_until).total_cmp(&ratio(b, best_until)))?;
        if (best_from, best_until) == (from, until) {
            break;
        }
        (from, until) = (best_from, best_until);
    }
    Some(failures[from].0)
}

/// Returns the failures that the usual share does not explain.
pub(crate) fn excess(failed: u64, ended: u64, usual_share: f64) -> f64 {
    let share = usual_share.clamp(0.0, 0.999);
    ((failed as f64 - share * ended as f64) / (1.0 - share)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::poisson;

    fn bins(random: &mut fastrand::Rng, seconds: usize, rate: f64) -> Vec<f64> {
        (0..seconds * BINS_PER_S).map(|_| f64::from(poisson(random, rate / BINS_PER_S as f64))).collect()
    }

    fn usual(bins: &[f64]) -> UsualFailures {
        UsualFailures::of(bins, 1.0 / BINS_PER_S as f64)
    }

    #[test]
    fn the_rate_excludes_the_outage() {
        let mut random = fastrand::Rng::with_seed(1);
        for rate in [0.1, 0.4, 0.8, 2.0, 8.0, 200.0] {
            let mut bins = bins(&mut random, 600, rate);
            bins[400..640].fill(500.0);
            let found = usual(&bins).per_s;
            assert!((found / rate - 1.0).abs() < 0.3, "{found} and not {rate}");
        }
    }

    #[test]
    fn a_few_failures_are_not_usual() {
        let mut bins = vec![0.0; 240];
        for at in [20, 80, 160] {
            bins[at] = 1.0;
        }
        assert_eq!((usual(&bins).per_s, usual(&bins).most(1.0)), (0.0, 0));
        bins[200] = 1.0;
        assert!(usual(&bins).most(1.0) > 1);
        assert_eq!(usual(&[]).per_s, 0.0);
    }

    #[test]
    fn chance_seldom_exceeds_the_maximum() {
        for rate in [0.4, 1.0, 3.0, 8.0, 300.0] {
            let mut random = fastrand::Rng::with_seed(2);
            let mut alarms = 0;
            for _ in 0..100 {
                let bins = bins(&mut random, 60, rate);
                let most = usual(&bins).most(1.0) as f64;
                alarms += u32::from(bins.windows(BINS_PER_S).any(|second| second.iter().sum::<f64>() > most));
            }
            assert!(alarms <= 2, "{rate}: {alarms} of 100");
        }
    }

    #[test]
    fn clumped_failures_raise_the_maximum() {
        let clumps: Vec<f64> = (0..240).map(|at| [5.0, 25.0, 45.0][at / BINS_PER_S % 3]).collect();
        let (clumped, even) = (usual(&clumps).most(1.0), usual(&[25.0; 240]).most(1.0));
        assert!(even < 170 && clumped > 250, "{even} {clumped}");
    }

    #[test]
    fn a_stray_failure_is_not_the_onset() {
        // Usually one slot of a hundred has a failure; from 840 on, every second slot.
        let stray = [(0, 1), (130, 1), (420, 1), (700, 1)];
        let spell = (840..1_000).step_by(2).map(|slot| (slot, 1));
        let failures: Vec<(usize, u64)> = stray.into_iter().chain(spell).collect();
        assert_eq!(onset(&failures, 1_000, 0.01), Some(840));
        // A stretch in the middle of the window.
        let short: Vec<(usize, u64)> = stray.into_iter().chain((840..900).map(|slot| (slot, 3))).collect();
        assert_eq!(onset(&short, 1_500, 0.01), Some(840));
        assert_eq!(onset(&[(7, 1)], 1_000, 0.01), Some(7));
        assert_eq!(onset(&[], 1_000, 0.01), None);
    }

    #[test]
    fn usual_failures_are_excluded_from_the_excess() {
        // Usually two of a hundred operations fail. If all of 920 fail, all belong to the outage.
        assert!((excess(920, 920, 0.02) - 920.0).abs() < 1e-9);
        // The outage fails 30 % of 1,000 operations, and 2 % of the others fail as usual.
        assert!((excess(314, 1_000, 0.02) - 300.0).abs() < 1e-9);
        assert_eq!((excess(3, 1_000, 0.02), excess(7, 7, 0.0)), (0.0, 7.0));
    }
}
