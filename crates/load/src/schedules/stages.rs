//! Open loop whose rate rises, falls and stays in stages.
//!
//! The k-th operation of all agents starts when the integral of the rate reaches k. If the rate is
//! r at the beginning of a stage of length D and r' at its end, then r × t + (r' − r) × t² / 2D
//! operations are due after time t of the stage. The formula is inverted in whole numbers; the
//! square root is only a first guess. So counts over any window are exact, no matter how time is
//! divided. Starts are exact to a nanosecond, except that a start within the first microseconds of
//! a rise from 0 may be early by microseconds. Agents take the operations in turn. After the last
//! stage, its final rate continues.

use experiment::plan::RateStage;

use super::{Due, Schedule, own_from};

/// Unit of rates: millionths of an operation per second.
const PARTS_PER_S: f64 = 1e6;
/// Number of fractional bits of a squared time divided by a length. The resolution is 2^-20 ns.
const FRACTION_BITS: u32 = 20;
/// One operation, in the unit of counts: millionths of an operation/s × nanoseconds × 2^-21.
const OPERATION: u128 = (1_000_000 * 1_000_000_000) << (FRACTION_BITS + 1);
/// Longest load: 104 days. No computation within this time overflows: 2^21 × 10^15 (10^9/s) × 2^53
/// < 2^124.
const FOREVER_NS: u64 = 1 << 53;
/// Maximum error of a row's middle start if the row counts as evenly spaced, nanoseconds.
const EVEN_NS: u64 = 1;

/// A stretch of time in which the rate is constant or changes linearly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StageStretch {
    from_ns: u64,
    length_ns: u64,
    /// Rate at the beginning, in millionths of an operation per second.
    from_rate: u64,
    /// Rate at the end, in millionths of an operation per second.
    to_rate: u64,
    /// Count that is due before the stretch, in the unit of [`OPERATION`].
    before: u128,
}

impl StageStretch {
    /// Returns the count that becomes due in the first `ns` of the stretch. The count never falls
    /// as `ns` grows.
    fn count(&self, ns: u64) -> u128 {
        if self.from_rate <= self.to_rate {
            risen(self.from_rate, self.to_rate, ns, self.length_ns)
        } else {
            // A falling rate rises when seen from the end.
            self.total() - risen(self.to_rate, self.from_rate, self.length_ns - ns, self.length_ns)
        }
    }

    fn total(&self) -> u128 {
        let (low, high) = (self.from_rate.min(self.to_rate), self.from_rate.max(self.to_rate));
        risen(low, high, self.length_ns, self.length_ns)
    }

    /// Returns the last nanosecond of the stretch at which at most `count` is due.
    fn when(&self, count: u128) -> u64 {
        let guess = if self.from_rate <= self.to_rate {
            guess(self.from_rate, self.to_rate, count, self.length_ns)
        } else {
            let left = self.total().saturating_sub(count);
            self.length_ns - guess(self.to_rate, self.from_rate, left, self.length_ns)
        };
        let fits = |ns: u64| ns <= self.length_ns && self.count(ns) <= count;
        // Widens the interval around the guess in growing steps, until `low` fits and `high` does
        // not.
        let (mut low, mut high, mut step) = (guess, guess + 1, 1);
        while low > 0 && !fits(low) {
            high = low;
            low = low.saturating_sub(step);
            step *= 2;
        }
        step = 1;
        while fits(high) {
            low = high;
            high += step;
            step *= 2;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Returns the count that becomes due in the first `ns` of a stretch with a rising rate.
fn risen(low: u64, high: u64, ns: u64, length_ns: u64) -> u128 {
    let (long, length) = (u128::from(ns), u128::from(length_ns.max(1)));
    // Rounded up, so that the first nanosecond counts if the rate begins at 0.
    let square = ((long * long) << FRACTION_BITS).div_ceil(length);
    ((u128::from(low) * long) << (FRACTION_BITS + 1)) + u128::from(high - low) * square
}

/// Returns approximately when `count` is due: the root of a quadratic equation, in a form that
/// stays precise if the rate hardly changes.
fn guess(low: u64, high: u64, count: u128, length_ns: u64) -> u64 {
    let due = count as f64 / f64::from(1_u32 << (FRACTION_BITS + 1));
    let (low, steepness) = (low as f64, (high - low) as f64 / length_ns.max(1) as f64);
    let rate = low + (low * low + 2.0 * steepness * due).sqrt();
    let ns = match (rate > 0.0, high > 0) {
        (true, _) => 2.0 * due / rate,
        (false, true) => 0.0,
        (false, false) => length_ns as f64,
    };
    (ns as u64).min(length_ns)
}

/// An open loop whose rate changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Stages {
    agents: u32,
    /// Consecutive stretches without gaps. The last one never ends.
    stretches: Vec<StageStretch>,
    end_ns: u64,
}

impl Stages {
    /// Creates a schedule of consecutive stages. The last rate continues until the end.
    pub fn new(agents: u32, stages: &[RateStage], end_ns: u64) -> Self {
        let parts = |per_s: f64| (per_s.clamp(0.0, *super::constant::RATES.end()) * PARTS_PER_S).round() as u64;
        let mut stretches: Vec<StageStretch> = Vec::new();
        let mut add = |length_ns: u64, from_rate: u64, to_rate: u64| {
            let (from_ns, before) =
                stretches.last().map_or((0, 0), |last| (last.from_ns + last.length_ns, last.before + last.total()));
            let length_ns = length_ns.min(FOREVER_NS - from_ns);
            if length_ns > 0 {
                stretches.push(StageStretch { from_ns, length_ns, from_rate, to_rate, before });
            }
        };
        for stage in stages {
            let length_ns = (stage.over_s.max(0.0) * 1e9).round() as u64;
            add(length_ns, parts(stage.from), parts(stage.to));
        }
        let last = stages.last().map_or(0, |stage| parts(stage.to));
        add(FOREVER_NS, last, last);
        Self { agents: agents.max(1), stretches, end_ns }
    }

    /// Returns the intended start of operation `number`, counted over all agents. Returns
    /// `u64::MAX` if the rate stays 0 before this operation.
    fn start_ns(&self, number: u128) -> u64 {
        let count = number.saturating_mul(OPERATION);
        let place = self.stretches.partition_point(|stretch| stretch.before <= count);
        let Some(stretch) = place.checked_sub(1).and_then(|place| self.stretches.get(place)) else { return u64::MAX };
        let at_ns = stretch.from_ns + stretch.when(count - stretch.before);
        if at_ns < FOREVER_NS { at_ns } else { u64::MAX }
    }

    /// Returns the index of the first operation, counted over all agents, that is intended at
    /// `from_ns` or later.
    fn number_from(&self, from_ns: u64) -> u128 {
        let from_ns = from_ns.min(FOREVER_NS);
        let place = self.stretches.partition_point(|stretch| stretch.from_ns <= from_ns);
        let stretch = place.checked_sub(1).and_then(|place| self.stretches.get(place));
        let due = stretch.map_or(0, |stretch| stretch.before + stretch.count(from_ns - stretch.from_ns));
        due.div_ceil(OPERATION)
    }

    /// Passes the agent's operations from `first` on to `take`, in evenly spaced rows. A row is
    /// split if its middle start is off because the rate changes. Rows have more operations at a
    /// higher rate, so a second costs no more time there.
    fn rows(&self, first: u128, count: u128, take: &mut dyn FnMut(Due)) {
        let at_ns = |place: u128| self.start_ns(first + place * u128::from(self.agents));
        let due =
            Due { count: u64::try_from(count).unwrap_or(u64::MAX), first_ns: at_ns(0), last_ns: at_ns(count - 1) };
        let middle = count / 2;
        let is_even =
            count <= 2 || at_ns(middle).abs_diff(due.at_ns(u64::try_from(middle).unwrap_or(u64::MAX))) <= EVEN_NS;
        if is_even {
            take(due);
        } else {
            self.rows(first, middle, take);
            self.rows(first + middle * u128::from(self.agents), count - middle, take);
        }
    }
}

impl Schedule for Stages {
    fn first_ns(&self, agent: u32) -> u64 {
        self.start_ns(u128::from(agent))
    }

    fn next_ns(&self, _agent: u32, intended_ns: u64, _ended_ns: u64) -> u64 {
        self.start_ns(self.number_from(intended_ns) + u128::from(self.agents))
    }

    fn end_ns(&self) -> u64 {
        self.end_ns
    }

    fn due(&self, agent: u32, from_ns: u64, until_ns: u64, take: &mut dyn FnMut(Due)) {
        let (from, until) = (self.number_from(from_ns), self.number_from(until_ns));
        for (place, stretch) in self.stretches.iter().enumerate() {
            let ends = self.stretches.get(place + 1).map_or(until, |next| next.before.div_ceil(OPERATION).min(until));
            let first = own_from(agent, self.agents, from.max(stretch.before.div_ceil(OPERATION)));
            let count = ends.saturating_sub(first).div_ceil(u128::from(self.agents));
            if count > 0 {
                self.rows(first, count, take);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::super::constant::Constant;
    use super::super::tests::{S, all_starts, due, stage, starts};
    use super::*;

    /// Returns the number of operations due by `until_s`: the integral of the rate.
    fn integral(stages: &[RateStage], until_s: f64) -> f64 {
        let (mut begun_s, mut due) = (0.0, 0.0);
        for stage in stages {
            let long_s = (until_s - begun_s).clamp(0.0, stage.over_s);
            due += stage.from * long_s + (stage.to - stage.from) * long_s * long_s / (2.0 * stage.over_s);
            begun_s += stage.over_s;
        }
        due + stages.last().unwrap().to * (until_s - begun_s).max(0.0)
    }

    #[test]
    fn a_ramp_a_hold_and_a_fall() {
        // A rise from 0 to 8/s in a second has 4 operations, the k-th at √(k / 4). Then 8 in a
        // second, then 4 in the fall to 0.
        let stages = [stage(0.0, 8.0, 1.0), stage(8.0, 8.0, 1.0), stage(8.0, 0.0, 1.0)];
        let schedule = Stages::new(1, &stages, 10 * S);
        let expected_s: [f64; 16] = [
            0.0,
            0.5,
            0.5_f64.sqrt(),
            0.75_f64.sqrt(),
            1.0,
            1.125,
            1.25,
            1.375,
            1.5,
            1.625,
            1.75,
            1.875,
            2.0,
            3.0 - 0.75_f64.sqrt(),
            3.0 - 0.5_f64.sqrt(),
            2.5,
        ];
        let got = starts(&schedule, 0);
        assert_eq!(got.len(), 16, "after the end at rate 0 nothing starts any more: {got:?}");
        for (at, expected_s) in got.iter().zip(expected_s) {
            assert!((*at as f64 - expected_s * 1e9).abs() <= 1.0, "{at} and {expected_s}");
        }
        assert_eq!(schedule.next_ns(0, 2_500_000_000, 0), u64::MAX);
    }

    #[test]
    fn the_last_rate_holds_and_a_pause_has_no_starts() {
        let stages = [stage(10.0, 10.0, 1.0), stage(0.0, 0.0, 1.0), stage(20.0, 20.0, 0.5)];
        let schedule = Stages::new(3, &stages, 4 * S);
        let all = all_starts(&schedule, 3);
        let inside = |from_s: f64, until_s: f64| {
            all.iter().filter(|at| (from_s..until_s).contains(&(**at as f64 / 1e9))).count()
        };
        assert_eq!([inside(0.0, 1.0), inside(1.0, 2.0), inside(2.0, 2.5), inside(2.5, 4.0)], [10, 0, 10, 30]);
        assert_eq!(all[10], 2 * S, "what would be due as the pause begins is due when it ends");
    }

    #[test]
    fn a_flat_stage_equals_a_constant_rate() {
        let (staged, constant) =
            (Stages::new(7, &[stage(333.0, 333.0, 2.0)], 5 * S), Constant::new(7, 333.0, 0, 5 * S));
        for agent in 0..7 {
            assert_eq!(starts(&staged, agent), starts(&constant, agent));
        }
    }

    #[test]
    fn counts_in_any_window_equal_the_integral_of_the_rate() {
        let mut random = Rng::with_seed(8);
        for _ in 0..200 {
            let mut rate = || if random.u8(0..4) == 0 { 0.0 } else { random.f64() * 3000.0 };
            let mut rates: Vec<(f64, f64)> = (0..5).map(|_| (rate(), rate())).collect();
            // Some stages continue the rate before, others jump.
            rates[2].0 = rates[1].1;
            rates[3].1 = rates[3].0;
            let stages: Vec<RateStage> =
                rates.into_iter().map(|(from, to)| stage(from, to, random.f64() * 3.0 + 0.001)).collect();
            let agents = random.u32(1..9);
            let schedule = Stages::new(agents, &stages, 20 * S);
            for _ in 0..20 {
                let (one, other) = (random.u64(0..16 * S), random.u64(0..16 * S));
                let (from, until) = (one.min(other), one.max(other));
                let counted: u64 =
                    (0..agents).flat_map(|agent| due(&schedule, agent, from, until)).map(|due| due.count).sum();
                // The k-th operation is due when the integral reaches k, so the first is due at
                // once.
                let by = |at_ns: u64| integral(&stages, at_ns as f64 / 1e9);
                let expected = by(until).ceil() - by(from).ceil();
                // Rates are whole millionths, and floating-point sums may miss a whole number.
                assert!((counted as f64 - expected).abs() <= 1.0, "{counted} and {expected} for {stages:?}");
            }
        }
    }

    #[test]
    fn each_start_is_exact_to_the_nanosecond() {
        let mut random = Rng::with_seed(9);
        let hour = 3600.0;
        for (low, high, over_s) in [
            (0.0, 100.0, 10.0),
            (0.0, 1e9, 1.0),
            (0.3, 0.300_001, 1e6),
            (1e6, 1.000_001e6, hour),
            (0.0, 1.0, 90.0 * 86_400.0),
        ] {
            for (from, to) in [(low, high), (high, low)] {
                let schedule = Stages::new(1, &[stage(from, to, over_s)], u64::MAX);
                let stretch = &schedule.stretches[0];
                let most = u64::try_from(stretch.total() / OPERATION).unwrap();
                for number in (0..50).map(|_| random.u64(0..=most)).chain([0, most]) {
                    let at_ns = schedule.start_ns(u128::from(number));
                    if at_ns == u64::MAX {
                        assert_eq!((to, number), (0.0, most), "only where it ends at 0 the last is never due");
                        continue;
                    }
                    assert_eq!(schedule.number_from(at_ns), u128::from(number), "{from} to {to} in {over_s} s");
                    assert_eq!(schedule.number_from(at_ns + 1), u128::from(number) + 1, "{from} to {to} in {over_s} s");
                }
            }
        }
    }

    #[test]
    fn fast_operations_are_merged_into_long_rows() {
        let slow = Stages::new(8, &[stage(0.0, 1000.0, 10.0)], 10 * S);
        let fast = Stages::new(8, &[stage(0.0, 5e6, 10.0)], 10 * S);
        let rows = |schedule: &Stages| {
            let rows = due(schedule, 3, 7 * S, 8 * S);
            (rows.len(), rows.iter().map(|due| due.count).sum::<u64>())
        };
        let ((slow_rows, slow_count), (fast_rows, fast_count)) = (rows(&slow), rows(&fast));
        assert!(
            slow_count.abs_diff(750 / 8) <= 1 && fast_count.abs_diff(3_750_000 / 8) <= 1,
            "{slow_count} {fast_count}"
        );
        assert!(slow_rows <= 94 && fast_rows < 20_000, "{slow_rows} and {fast_rows}");
        // At a constant rate, a second is one row.
        let flat = Stages::new(8, &[stage(0.0, 5e6, 1.0), stage(5e6, 5e6, 1.0)], 10 * S);
        assert_eq!(due(&flat, 3, 2 * S, 3 * S).len(), 1);
    }
}
