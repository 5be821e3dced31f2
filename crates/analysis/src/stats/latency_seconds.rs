//! Latency of `ok` operations per second, as coarse histograms: enough to see when clients waited
//! far longer than before. The histograms must not be used for latencies that are shown to users:
//! their steps are 4.4 % wide.
//!
//! A second is **slow** if its median, p90 or p99 is more than 1.5 times as high as in the slowest
//! second before the fault. A single slow second proves nothing, since a stall of the machine
//! occasionally causes one. So the median and p90, which a stall shorter than a tenth of a second
//! hardly moves, must be high in two consecutive seconds, and p99 in three. The share of slow
//! operations in the first and the last second of such a spell shows where in that second it begins
//! or ends.

use std::borrow::Cow;

use experiment::plan::samples_for;
use record::hlog::HistogramCounts;

use super::quantiles::{largest, mean};

/// Number of histogram steps for each doubling of latency.
const STEPS: f64 = 16.0;

/// Factor by which a slow second exceeds the slowest second before the fault.
const FAR: f64 = 1.5;

/// Tolerance for the edges of seconds.
const EDGE_S: f64 = 1e-6;

/// Fewest seconds before the fault that show the usual latency.
const FEWEST: usize = 3;

/// Fewest windows whose counts show bunches longer than a second.
const WINDOWS: usize = 8;

/// Quantiles that are checked, each with the number of consecutive seconds in which it must be
/// high.
const QUANTILES: [(f64, usize); 3] = [(0.5, 2), (0.9, 2), (0.99, 3)];

/// Seconds in time order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LatencySeconds {
    seconds: Vec<SecondLatency>,
}

#[derive(Debug, Clone, PartialEq)]
struct SecondLatency {
    from_s: f64,
    until_s: f64,
    /// Steps that contain operations, with their counts; in order.
    counts: Vec<(u16, u64)>,
}

impl LatencySeconds {
    /// Adds the `ok` latencies of an operation in one interval, nanoseconds. Latencies of other
    /// operations in the same interval are merged.
    pub fn add(&mut self, from_s: f64, length_s: f64, counts: &HistogramCounts) {
        let index = match self.seconds.binary_search_by(|second| second.from_s.total_cmp(&from_s)) {
            Ok(index) => index,
            Err(index) => {
                let second = SecondLatency { from_s, until_s: from_s + length_s, counts: Vec::new() };
                self.seconds.insert(index, second);
                index
            }
        };
        let merged = &mut self.seconds[index].counts;
        for bucket in &counts.buckets {
            let step = step_of(bucket.highest as f64);
            match merged.binary_search_by_key(&step, |(other, _)| *other) {
                Ok(at) => merged[at].1 += bucket.count,
                Err(at) => merged.insert(at, (step, bucket.count)),
            }
        }
        merged.shrink_to_fit();
    }

    /// Returns the approximate quantile over the seconds between two times for which `belongs` is
    /// true, nanoseconds. Returns `None` if too few operations support it.
    pub fn quantile_of(&self, quantile: f64, between_s: [f64; 2], belongs: impl Fn(f64) -> bool) -> Option<f64> {
        self.together(between_s, belongs).quantile(quantile)
    }

    /// Returns the approximate share of operations that take longer than a limit, over the seconds
    /// between two times for which `belongs` is true. Returns `None` without operations.
    pub fn share_over(&self, limit_ns: f64, between_s: [f64; 2], belongs: impl Fn(f64) -> bool) -> Option<f64> {
        self.together(between_s, belongs).share_above(step_of(limit_ns))
    }

    /// Returns the estimated number of separate bunches of operations with at least this latency
    /// between two times. Returns `None` if there are no such operations.
    ///
    /// Operations that wait for the same cause come together, so each bunch is one observation. The
    /// number of bunches is the number of operations divided by the mean size of a bunch. For
    /// bunches at random times, the mean size is the index of dispersion: the variance of the
    /// counts per second, as a multiple of that of independent operations (D. R. Cox and P. A. W.
    /// Lewis, "The Statistical Analysis of Series of Events", 1966, section 4.5; its inverse
    /// estimates the extremal index, see C. A. T. Ferro and J. Segers, "Inference for clusters of
    /// extreme values", Journal of the Royal Statistical Society B 65, 2003). Bunches that last for
    /// seconds show in the counts per 2, 4, … seconds.
    pub fn moments(&self, at_least_ns: f64, between_s: [f64; 2]) -> Option<u64> {
        let step = step_of(at_least_ns);
        let counts: Vec<[u64; 2]> =
            self.between(between_s).iter().map(|second| [second.count_from(step), second.count_from(0)]).collect();
        let [long, all] = sums(&counts);
        let share = long / all;
        if share.is_nan() || share <= 0.0 {
            return None;
        }
        let lengths = std::iter::successors(Some(1), |length| Some(2 * length));
        let lengths = lengths.take_while(|length| *length == 1 || counts.len() / length >= WINDOWS);
        // If all these operations are in one second, they may be one bunch.
        let worst = lengths.map(|length| dispersion(counts.chunks(length), share)).reduce(f64::max);
        let worst = worst.filter(|worst| worst.is_finite()).unwrap_or(f64::INFINITY);
        Some((long / worst.max(1.0)).max(1.0) as u64)
    }

    /// Returns the index of the first second that begins at this time or later.
    fn place(&self, at_s: f64) -> usize {
        self.seconds.partition_point(|second| second.from_s < at_s - EDGE_S)
    }

    /// Returns the seconds that begin between two times.
    fn between(&self, [from_s, until_s]: [f64; 2]) -> &[SecondLatency] {
        let from = self.place(from_s);
        &self.seconds[from..self.place(until_s).max(from)]
    }

    /// Merges the seconds between two times for which `belongs` is true.
    fn together(&self, [from_s, until_s]: [f64; 2], belongs: impl Fn(f64) -> bool) -> Cow<'_, SecondLatency> {
        let seconds = self.between([from_s, until_s]);
        let belongs = |second: &&SecondLatency| belongs(second.from_s + EDGE_S);
        if let [second] = seconds
            && belongs(&second)
        {
            return Cow::Borrowed(second);
        }
        let mut merged = vec![0_u64; 64 * STEPS as usize + 1];
        for second in seconds.iter().filter(belongs) {
            for (step, count) in &second.counts {
                merged[usize::from(*step)] += count;
            }
        }
        let counts = (0..).zip(merged).filter(|(_, count)| *count > 0).collect();
        Cow::Owned(SecondLatency { from_s, until_s, counts })
    }

    /// Refines start and end of a spell of whole seconds in which latencies beyond the limit are
    /// usual. Each edge may lie within the first or last second, or its neighbour.
    pub fn edges(&self, [from_s, until_s]: [f64; 2], limit_ns: f64) -> [f64; 2] {
        const BEFORE_S: f64 = 10.0;
        let seconds: Vec<&SecondLatency> = self.seconds.iter().collect();
        let [begin, first, end] = [from_s - BEFORE_S, from_s, until_s].map(|at_s| self.place(at_s));
        if first >= end {
            return [from_s, until_s];
        }
        let limit = LatencyBound { quantile: 0.5, step: step_of(limit_ns), usual: 0.0 };
        limit.over(&seconds[begin..first.saturating_sub(1).max(begin)]).edges(&seconds, [first, end])
    }

    /// Returns the seconds that lie wholly between two times.
    fn whole_seconds(&self, [from_s, until_s]: [f64; 2]) -> Vec<&SecondLatency> {
        let near = self.seconds.partition_point(|second| second.from_s < from_s - 2.0 * EDGE_S);
        self.seconds[near..]
            .iter()
            .take_while(|second| second.from_s <= until_s)
            .filter(|second| second.from_s >= from_s - EDGE_S && second.until_s <= until_s + EDGE_S)
            .collect()
    }

    /// Whether a baseline has enough seconds to detect slow ones.
    pub fn is_known(&self, baseline_s: [f64; 2]) -> bool {
        let medians = self.whole_seconds(baseline_s).into_iter().filter_map(|second| second.quantile(QUANTILES[0].0));
        medians.count() >= FEWEST
    }

    /// Returns the spells within `[at_s, until_s]` that are slow relative to the seconds of the
    /// baseline, seconds since load start.
    pub fn slow(&self, [from_s, baseline_until_s]: [f64; 2], [at_s, until_s]: [f64; 2]) -> Vec<[f64; 2]> {
        let before = self.whole_seconds([from_s, baseline_until_s]);
        let begun = self.seconds.partition_point(|second| second.until_s <= at_s);
        let after: Vec<&SecondLatency> = self.seconds[begun..]
            .iter()
            .take_while(|second| second.from_s < until_s)
            .filter(|second| second.until_s > at_s + EDGE_S && second.from_s < until_s - EDGE_S)
            .collect();
        let mut spells: Vec<[f64; 2]> = Vec::new();
        for (quantile, in_a_row) in QUANTILES {
            let usual: Vec<f64> = before.iter().filter_map(|second| second.quantile(quantile)).collect();
            let Some(slowest) = largest(usual.iter().copied()).filter(|_| usual.len() >= FEWEST) else { continue };
            let quantile = LatencyBound { quantile, step: step_of(slowest * FAR), usual: 0.0 };
            spells.extend(quantile.over(&before).spells(&after, in_a_row));
        }
        spells.iter_mut().for_each(|spell| *spell = spell.map(|edge_s| edge_s.clamp(at_s, until_s)));
        spells.retain(|[from_s, until_s]| until_s > from_s);
        spells
    }
}

/// Returns the variance of the number of long operations per window, as a multiple of that of
/// independent operations. Each second has its numbers of long operations and of all operations;
/// `share` is the share of long operations overall.
fn dispersion(windows: std::slice::Chunks<'_, [u64; 2]>, share: f64) -> f64 {
    let freedom = windows.len() as f64 - 1.0;
    let squares = windows.map(|window| {
        let [long, all] = sums(window);
        let expected = share * all;
        // A second may be empty.
        if expected > 0.0 { (long - expected).powi(2) / expected } else { 0.0 }
    });
    squares.sum::<f64>() / freedom
}

fn sums(counts: &[[u64; 2]]) -> [f64; 2] {
    [0, 1].map(|which| counts.iter().map(|both| both[which]).sum::<u64>() as f64)
}

/// Limit that a second is compared with.
struct LatencyBound {
    quantile: f64,
    /// Operations in later steps are slow.
    step: u16,
    /// Share of slow operations before the fault.
    usual: f64,
}

impl LatencyBound {
    fn over(self, before: &[&SecondLatency]) -> Self {
        let shares: Vec<f64> = before.iter().filter_map(|second| second.share_above(self.step)).collect();
        Self { usual: mean(&shares).unwrap_or(0.0), ..self }
    }

    fn is_slow(&self, second: &SecondLatency) -> bool {
        second.quantile(self.quantile).is_some_and(|value| step_of(value) > self.step)
    }

    fn spells(&self, seconds: &[&SecondLatency], in_a_row: usize) -> Vec<[f64; 2]> {
        let mut spells = Vec::new();
        let mut next = 0;
        while next < seconds.len() {
            let first = next;
            while next < seconds.len() && self.is_slow(seconds[next]) && (next == first || follows(seconds, next)) {
                next += 1;
            }
            if next - first >= in_a_row {
                spells.push(self.edges(seconds, [first, next]));
            }
            next = next.max(first + 1);
        }
        spells
    }

    /// Returns start and end of a spell of the seconds `first..end`. The seconds at its edges, and
    /// their neighbours, may be slow in part.
    fn edges(&self, seconds: &[&SecondLatency], [first, end]: [usize; 2]) -> [f64; 2] {
        let inner = seconds.get(first + 1..end - 1).unwrap_or_default();
        let inner: Vec<f64> = inner.iter().map(|second| self.excess(second)).collect();
        let full = mean(&inner).unwrap_or_else(|| self.excess(seconds[first]).max(self.excess(seconds[end - 1])));
        let slow_s = |index: usize| (self.excess(seconds[index]) / full).clamp(0.0, 1.0) * seconds[index].length_s();
        let before_s = if first > 0 && follows(seconds, first) { slow_s(first - 1) } else { 0.0 };
        let after_s = if end < seconds.len() && follows(seconds, end) { slow_s(end) } else { 0.0 };
        [seconds[first].until_s - slow_s(first) - before_s, seconds[end - 1].from_s + slow_s(end - 1) + after_s]
    }

    /// Returns the share of slow operations of a second beyond the usual share.
    fn excess(&self, second: &SecondLatency) -> f64 {
        second.share_above(self.step).unwrap_or(0.0) - self.usual
    }
}

/// Whether a second begins where the previous one ends.
fn follows(seconds: &[&SecondLatency], index: usize) -> bool {
    let gap_s = seconds[index].from_s - seconds[index - 1].until_s;
    gap_s.abs() < seconds[index].length_s() / 2.0
}

impl SecondLatency {
    fn length_s(&self) -> f64 {
        self.until_s - self.from_s
    }

    /// Returns the number of operations in this step or later ones.
    fn count_from(&self, step: u16) -> u64 {
        self.counts.iter().filter(|(other, _)| *other >= step).map(|(_, count)| count).sum()
    }

    /// Returns the approximate middle of the step that contains the quantile, nanoseconds. Returns
    /// `None` if too few operations support it.
    fn quantile(&self, quantile: f64) -> Option<f64> {
        let count = self.count_from(0);
        if count < samples_for(quantile) {
            return None;
        }
        let rank = (quantile * count as f64).ceil() as u64;
        let mut seen = 0;
        let step = self.counts.iter().find(|(_, count)| {
            seen += *count;
            seen >= rank
        })?;
        Some(((f64::from(step.0) + 0.5) / STEPS).exp2())
    }

    fn share_above(&self, step: u16) -> Option<f64> {
        let count = self.count_from(0);
        (count > 0).then(|| self.count_from(step + 1) as f64 / count as f64)
    }
}

fn step_of(ns: f64) -> u16 {
    (ns.max(1.0).log2() * STEPS) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{SyntheticLoad, near};

    fn taking(seed: u64, latency_us: impl Fn(f64) -> f64) -> LatencySeconds {
        SyntheticLoad::even(30.0, |_| 3_000.0).taking(seed, latency_us).latency
    }

    #[test]
    fn a_spell_is_found_with_its_edges() {
        for (seed, from_s, until_s) in [(1, 12.0, 17.0), (2, 12.3, 16.8), (3, 15.5, 19.2)] {
            let latency = taking(seed, |at_s| if (from_s..until_s).contains(&at_s) { 3_000.0 } else { 1_000.0 });
            let spells = latency.slow([2.0, 12.0], [12.0, 30.0]);
            let first = spells.iter().map(|spell| spell[0]).min_by(f64::total_cmp);
            let last = spells.iter().map(|spell| spell[1]).max_by(f64::total_cmp);
            assert!(near(first, from_s, 0.1) && near(last, until_s, 0.1), "{spells:?}");
        }
    }

    #[test]
    fn usual_or_single_slow_seconds_are_no_spell() {
        for latency in [
            taking(4, |_| 1_000.0),
            taking(5, |at_s| if (14.0..15.0).contains(&at_s) { 9_000.0 } else { 1_000.0 }),
            taking(6, |at_s| if (5.0..6.0).contains(&at_s) || at_s > 20.0 { 3_000.0 } else { 1_000.0 }),
        ] {
            assert_eq!(latency.slow([2.0, 12.0], [12.0, 30.0]), [[0.0; 2]; 0]);
        }
    }

    #[test]
    fn a_short_baseline_gives_no_spells() {
        let latency = taking(7, |at_s| if at_s > 12.0 { 9_000.0 } else { 1_000.0 });
        assert_eq!(latency.slow([10.0, 12.0], [12.0, 30.0]), [[0.0; 2]; 0]);
        assert_ne!(latency.slow([9.0, 12.0], [12.0, 30.0]), [[0.0; 2]; 0]);
    }

    #[test]
    fn operations_of_one_second_are_added_up() {
        let mut histogram = hdrhistogram::Histogram::<u64>::new(3).unwrap();
        histogram.record_n(1_000_000, 3).unwrap();
        histogram.record_n(1_001_000, 4).unwrap();
        histogram.record_n(80_000_000, 2).unwrap();
        let mut latency = LatencySeconds::default();
        (0..2).for_each(|_| latency.add(4.0, 1.0, &HistogramCounts::of(&histogram)));
        assert_eq!(latency.seconds.len(), 1);
        assert_eq!(latency.seconds[0].count_from(0), 18);
    }

    #[test]
    fn chance_makes_no_spell() {
        // 30 loads of 50 operations per second, whose quantiles are noisy.
        for seed in 0..30 {
            let made = SyntheticLoad::random(seed, 30.0, |_| 50.0).taking(seed, |_| 1_000.0);
            assert_eq!(made.latency.slow([2.0, 12.0], [12.0, 30.0]), [[0.0; 2]; 0], "{seed}");
        }
    }

    /// 2,000 operations per second. Each takes 1 ms, or until the end of a stall of the server.
    fn stalling(length_s: f64, stalls_s: &[[f64; 2]]) -> LatencySeconds {
        let made = SyntheticLoad::even(length_s, |_| 2_000.0).taking(9, |at_s| {
            let stall = stalls_s.iter().find(|[from_s, until_s]| (*from_s..*until_s).contains(&at_s));
            stall.map_or(1_000.0, |[_, until_s]| 1_000.0 + 1e6 * (until_s - at_s))
        });
        made.latency
    }

    #[test]
    fn a_bunch_of_slow_operations_is_one_moment() {
        // Two stalls of 200 ms are 800 of 20,000 operations, and p99.9 is the slowest operation of
        // one stall.
        let two = stalling(10.0, &[[2.1, 2.3], [6.4, 6.6]]);
        assert!(two.moments(150e6, [0.0, 10.0]).unwrap() <= 3, "{:?}", two.moments(150e6, [0.0, 10.0]));
        let slow = stalling(20.0, &[[8.0, 12.0]]);
        assert!(slow.moments(50e6, [0.0, 20.0]).unwrap() <= 3, "four seconds in a row are not four moments");
        let made = SyntheticLoad::random(3, 20.0, |_| 2_000.0);
        let mut random = fastrand::Rng::with_seed(3);
        let tails: Vec<f64> = (0..50_000).map(|_| -1_000.0 * random.f64().max(1e-9).ln()).collect();
        let next = std::cell::Cell::new(0);
        let independent = made.taking(3, |_| {
            next.set(next.get() + 1);
            tails[next.get() % tails.len()]
        });
        let p999_ns = 1e6 * 1_000.0_f64.ln();
        let moments = independent.latency.moments(p999_ns, [0.0, 20.0]).unwrap();
        assert!((20..=200).contains(&moments), "{moments} of about 100 independent ones");
        let mut alike = LatencySeconds::default();
        let mut histogram = hdrhistogram::Histogram::<u64>::new(3).unwrap();
        histogram.record_n(1_000_000, 500).unwrap();
        (0..10).for_each(|second| alike.add(f64::from(second), 1.0, &HistogramCounts::of(&histogram)));
        assert_eq!(alike.moments(1e6, [0.0, 10.0]), Some(5_000), "as long as the quantile counts, too");
        assert_eq!(independent.latency.moments(1e12, [0.0, 20.0]), None);
        let mut with_pause = independent.latency.clone();
        with_pause.add(20.0, 1.0, &HistogramCounts::default());
        assert!(with_pause.moments(p999_ns, [0.0, 21.0]).unwrap() >= 20, "a second without operations");
        assert_eq!(stalling(1.0, &[]).moments(1e3, [0.0, 1.0]), Some(1), "one second may be one moment");
    }
}
