//! Results of `plimsoll selfcheck --statistics`: error rates of intervals, tests and recovery times
//! on simulated runs whose truth is known. A public format: fields are only ever added.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the format.
pub const FORMAT: u32 = 1;

/// Coverage and error rates of the statistics.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Calibration {
    /// Version of this format: 1.
    pub format: u32,
    /// Version of Plimsoll.
    pub plimsoll: String,
    /// Start, Unix time in seconds.
    pub unix_s: f64,
    /// Duration, seconds.
    pub took_s: f64,
    /// Seed of the simulations.
    pub seed: u64,
    /// Factor of the numbers of replicates: 1 in the short form.
    pub rounds: u32,
    /// Rows, by subject.
    pub rows: Vec<CalibrationRow>,
}

/// A share that was counted over simulated runs of one setting.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CalibrationRow {
    /// Subject: `throughput`, `recovery`, …
    pub of: String,
    /// Setting: noise, length, …
    pub setting: String,
    /// Event that was counted.
    pub asked: String,
    /// Number of replicates, including refused ones.
    pub replicates: u32,
    /// Replicates in which the result gives no figure, interval or decision. They count neither as
    /// hit nor as miss.
    pub refused: u32,
    /// Replicates in which the event happened.
    pub hits: u32,
    /// Lowest and highest acceptable share. Null without a bound.
    pub goal: [Option<f64>; 2],
    /// Whether the share keeps its goal. In the short form, deviations that chance explains are
    /// allowed.
    pub is_met: bool,
}

/// Standard errors by which a share of the short form may miss its goal. Chance exceeds that in one
/// of a thousand cases.
const BY_CHANCE: f64 = 3.1;

impl CalibrationRow {
    /// Counts a replicate. `None` means that it was refused.
    pub fn count(&mut self, hit: Option<bool>) {
        self.replicates += 1;
        match hit {
            Some(hit) => self.hits += u32::from(hit),
            None => self.refused += 1,
        }
    }

    /// Counts whether an interval contains the truth. `None` means that it was refused.
    pub fn count_interval(&mut self, ci95: Option<[f64; 2]>, truth: f64) {
        self.count(ci95.map(|[low, high]| low <= truth && truth <= high));
    }

    /// Returns the hits as a share of the replicates that were not refused. `None` without any.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let judged = self.replicates - self.refused;
        (judged > 0).then(|| f64::from(self.hits) / f64::from(judged))
    }

    /// Decides whether the goal is met, with or without an allowance for chance.
    pub fn judge(&mut self, allows_chance: bool) {
        let judged = f64::from(self.replicates - self.refused);
        let beyond = |bound: f64| {
            let error = (bound * (1.0 - bound) / judged).sqrt() * BY_CHANCE + 0.5 / judged;
            if allows_chance { error } else { 0.0 }
        };
        self.is_met = self.share().is_none_or(|share| {
            let [low, high] = self.goal;
            low.is_none_or(|low| share >= low - beyond(low)) && high.is_none_or(|high| share <= high + beyond(high))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(hits: u32, misses: u32, refused: u32, goal: [Option<f64>; 2]) -> CalibrationRow {
        let mut row = CalibrationRow { goal, ..CalibrationRow::default() };
        (0..hits).for_each(|_| row.count(Some(true)));
        (0..misses).for_each(|_| row.count(Some(false)));
        (0..refused).for_each(|_| row.count(None));
        row
    }

    #[test]
    fn a_refused_replicate_counts_neither_way() {
        let mut one = row(93, 7, 300, [Some(0.92), Some(0.98)]);
        one.judge(false);
        assert_eq!((one.share(), one.replicates, one.is_met), (Some(0.93), 400, true));
        one.count_interval(Some([1.0, 2.0]), 2.0);
        one.count_interval(Some([1.0, 2.0]), 2.1);
        one.count_interval(None, 2.0);
        assert_eq!((one.hits, one.replicates, one.refused), (94, 403, 301));
        let mut none = row(0, 0, 10, [Some(0.92), None]);
        none.judge(false);
        assert_eq!((none.share(), none.is_met), (None, true));
    }

    #[test]
    fn only_the_short_form_allows_for_chance() {
        for (hits, is_met) in [(90, [true, false]), (80, [false, false]), (100, [true, false])] {
            let judged = [true, false].map(|allows_chance| {
                let mut one = row(hits, 100 - hits, 0, [Some(0.92), Some(0.98)]);
                one.judge(allows_chance);
                one.is_met
            });
            assert_eq!(judged, is_met, "{hits} of 100");
        }
    }
}
