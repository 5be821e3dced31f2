//! Failures that a load always has: how many each second, how many of them chance puts into a stretch of time, when more than these
//! began, and how many of those in an outage are the outage's.
//!
//! **Rate**: the mean of the middle half of all quarters of a second. Where most of these have none, how often failures begin after one
//! without: an outage is then one beginning, however long it lasts. Fewer than [`FEWEST`] beginnings are no habit, and each counts for
//! itself.
//!
//! **Chance**: that of a Poisson stream of this rate, for all windows of the load together. Where the seconds differ by more than such a
//! stream's do, the distance from the mean grows as their standard deviation does.
//!
//! **Onset**: the window that holds too many begins with whichever failure is near. Within it, the stretch is looked for that a higher
//! rate explains best: of `k` failures in `n` slots where `b` each are usual, by the likelihood ratio `k ln(k / (n b)) − k + n b`
//! (M. Kulldorff, "A spatial scan statistic", Communications in Statistics 26, 1997), its two ends in turns.
//!
//! **Excess**: of `n` operations a share `p` would have failed without the outage, too, but none of them fails twice: of `f` that did,
//! `(f − p n) / (1 − p)` are the outage's (W. S. Abbott, "A method of computing the effectiveness of an insecticide", Journal of
//! Economic Entomology 18, 1925).

use statrs::function::gamma::gamma_lr;

use super::quantiles::{interquartile_range, mean, nearest_rank};

/// Bins of a second.
pub(crate) const BINS_PER_S: usize = 4;

/// Fewer beginnings are no habit of the load.
const FEWEST: usize = 4;

/// Chance of a false alarm in the whole load.
const CHANCE: f64 = 0.01;

/// Interquartile range of a normal distribution with standard deviation 1.
const NORMAL_IQR: f64 = 1.349;

/// From so many a second on their spread says how much they clump.
const SPREADS: f64 = 3.0;

/// What usually goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct UsualFailures {
    pub per_s: f64,
    /// Standard deviation of a second as a multiple of a Poisson stream's.
    spread: f64,
    /// Windows that are looked at: one for each failure.
    windows: f64,
}

impl UsualFailures {
    /// Of a load whose bins of this length, [`BINS_PER_S`] about, had so many.
    pub fn of(bins: &[f64], bin_s: f64) -> Self {
        let median = nearest_rank(bins, 0.5).unwrap_or(0.0);
        let per_bin = if median > 0.0 { middle_mean(bins) } else { seldom(bins) };
        let seconds: Vec<f64> = bins.chunks_exact(BINS_PER_S).map(|bins| bins.iter().sum()).collect();
        let per_second = per_bin * BINS_PER_S as f64;
        let range = interquartile_range(&seconds).filter(|_| per_second >= SPREADS).unwrap_or(0.0);
        let spread = if range > 0.0 { (range / NORMAL_IQR / per_second.sqrt()).max(1.0) } else { 1.0 };
        Self { per_s: per_bin / bin_s, spread, windows: (per_bin * bins.len() as f64).max(1.0) }
    }

    /// The most that chance makes of a stretch of so many seconds that begins with a failure.
    pub fn most(&self, long_s: f64) -> u64 {
        // The rate is known to about a standard error of as many failures as it comes from.
        let mean = self.per_s * long_s * (1.0 + 1.0 / self.windows.sqrt());
        if mean <= 0.0 {
            return 0;
        }
        // Beside the first: at least so many more.
        let too_seldom = |count: f64| self.windows * gamma_lr(count, mean) <= CHANCE;
        let (mut low, mut high) = (0.0, (20.0 + mean + 12.0 * mean.sqrt()).ceil());
        while high - low > 1.0 {
            let middle = f64::midpoint(low, high).floor();
            if too_seldom(middle) { high = middle } else { low = middle }
        }
        (mean + (high - mean) * self.spread).ceil() as u64
    }
}

/// The mean of the middle half: nearly as sure as the mean, and an outage of a quarter of the load does not move it.
fn middle_mean(bins: &[f64]) -> f64 {
    let mut sorted = bins.to_vec();
    sorted.sort_by(f64::total_cmp);
    mean(&sorted[sorted.len() / 4..sorted.len() - sorted.len() / 4]).unwrap_or(0.0)
}

/// The rate of what happens in less than half of the bins.
fn seldom(bins: &[f64]) -> f64 {
    let quiet = bins.iter().filter(|bin| **bin == 0.0).count();
    let begun = bins.windows(2).filter(|pair| pair[0] == 0.0 && pair[1] > 0.0).count()
        + usize::from(bins.first().is_some_and(|first| *first > 0.0));
    let chance = begun as f64 / quiet.max(1) as f64;
    if begun < FEWEST { 0.0 } else { -(1.0 - chance.min(0.99)).ln() }
}

/// Where the stretch begins that more failures than usual explain best, in a window whose slots hold `failures` (the slot and how many,
/// in order) and end at `end`; `usual` for each slot. The first of them, if there is only one.
pub(crate) fn onset(failures: &[(usize, u64)], end: usize, usual: f64) -> Option<usize> {
    let last = failures.len().checked_sub(1)?;
    let mut sums = vec![0.0];
    sums.extend(failures.iter().scan(0.0, |sum, (_, count)| {
        *sum += *count as f64;
        Some(*sum)
    }));
    // Whether the stretch goes on to the end of the window is not known: what ends with its last failure ends there.
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

/// Of so many that failed, those that the usual share does not explain.
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
    fn the_rate_is_that_of_the_time_without_an_outage() {
        let mut random = fastrand::Rng::with_seed(1);
        for rate in [0.1, 0.4, 0.8, 2.0, 8.0, 200.0] {
            let mut bins = bins(&mut random, 600, rate);
            bins[400..640].fill(500.0);
            let found = usual(&bins).per_s;
            assert!((found / rate - 1.0).abs() < 0.3, "{found} and not {rate}");
        }
    }

    #[test]
    fn a_few_failures_are_no_habit() {
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
    fn chance_seldom_makes_more_than_the_most() {
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
    fn what_clumps_is_allowed_to_clump() {
        let clumps: Vec<f64> = (0..240).map(|at| [5.0, 25.0, 45.0][at / BINS_PER_S % 3]).collect();
        let (clumped, even) = (usual(&clumps).most(1.0), usual(&[25.0; 240]).most(1.0));
        assert!(even < 170 && clumped > 250, "{even} {clumped}");
    }

    #[test]
    fn the_onset_is_not_the_stray_failure_before_it() {
        // One of a hundred slots fails usually, every second one from 840 on.
        let stray = [(0, 1), (130, 1), (420, 1), (700, 1)];
        let spell = (840..1_000).step_by(2).map(|slot| (slot, 1));
        let failures: Vec<(usize, u64)> = stray.into_iter().chain(spell).collect();
        assert_eq!(onset(&failures, 1_000, 0.01), Some(840));
        // … and in the middle of the window.
        let short: Vec<(usize, u64)> = stray.into_iter().chain((840..900).map(|slot| (slot, 3))).collect();
        assert_eq!(onset(&short, 1_500, 0.01), Some(840));
        assert_eq!(onset(&[(7, 1)], 1_000, 0.01), Some(7));
        assert_eq!(onset(&[], 1_000, 0.01), None);
    }

    #[test]
    fn what_would_have_failed_anyway_is_not_the_outages() {
        // Two of a hundred fail usually. All of 920 failed: all of them were the outage's.
        assert!((excess(920, 920, 0.02) - 920.0).abs() < 1e-9);
        // Of 1,000, 30 % by the outage, and 2 % of the others.
        assert!((excess(314, 1_000, 0.02) - 300.0).abs() < 1e-9);
        assert_eq!((excess(3, 1_000, 0.02), excess(7, 7, 0.0)), (0.0, 7.0));
    }
}
