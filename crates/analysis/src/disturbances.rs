//! Outages that no fault explains: something else broke, or the target did so of its own accord.
//!
//! Two things begin one. **Operations that failed, timed out or were wrong**, more of them within a second than is usual in this load:
//! the median of its seconds, with 4.5 standard deviations of chance. So a service that always fails a little is not
//! disturbed all the time, and one that seldom fails is by a single failure. **A time without any success**: with a failure beside
//! it, one that chance would show in less than one of a hundred such loads; without one, also one as long as a window of throughput (250 ms,
//! longer for a slow target), and not something the load shows again and again: fewer than three other silences last a third
//! as long. Machines stall for tens of milliseconds now and then, and that is nobody's outage. Where the load's rate was to change, only a
//! silence with a failure beside it counts.
//!
//! What follows is measured as after a fault, with the time before it as the baseline, and what it accounts for begins no further one.

use record::results::Disturbance;

use crate::evidence::Evidence;
use crate::stats::outage::{CHANCE, FAR_LONGER, FaultTimes, HOLD_S, WINDOW_OPERATIONS, WINDOW_S, outage, tolerated};
use crate::stats::quantiles::nearest_rank;
use crate::stats::timeline::{CumulativeCounts, Timeline};

/// So many others that are nearly as long make a silence usual.
const RECURRING: usize = 3;

/// More than this many in a stretch are not listed: its first ones say enough.
const LISTED: usize = 200;

/// What is usual in a trial's load, and the silences that are not.
pub(crate) struct NormalLoad {
    /// Slots in which service must hold.
    hold: usize,
    /// Operations that may go wrong within them.
    failures: u64,
    /// Times without success that begin a disturbance, in time order.
    silences: Vec<[usize; 2]>,
}

impl NormalLoad {
    /// Of the load between two times. What happens in the `faulty` ones may be a fault's, so that it makes nothing usual. Where the rate
    /// `changes`, a silence alone may be what was asked for.
    pub fn of(timeline: &Timeline, [from_s, until_s]: [f64; 2], faulty: &[[f64; 2]], changes: bool) -> Self {
        let (from, until) = (timeline.slot_of(from_s), timeline.slot_of(until_s));
        let slots = |long_s: f64| ((long_s / timeline.slot_s()).round() as usize).max(1);
        let hold = slots(HOLD_S);
        let seconds: Vec<f64> = (from..until.saturating_sub(hold - 1))
            .step_by(hold)
            .map(|slot| bad(timeline, slot, slot + hold) as f64)
            .collect();
        let usual = nearest_rank(&seconds, 0.5).unwrap_or(0.0);
        let failures = tolerated(usual);
        Self { hold, failures, silences: unusual(timeline, [from, until], failures, faulty, changes) }
    }

    /// The first slot of `from..until` with which a disturbance begins.
    fn first(&self, timeline: &Timeline, [from, until]: [usize; 2]) -> Option<usize> {
        let silent =
            self.silences.iter().find(|silence| silence[0] >= from && silence[0] < until).map(|silence| silence[0]);
        let mut slot = from;
        let failing = loop {
            let failed = timeline.failed().first_in(slot, until);
            let wrong = timeline.wrong().first_in(slot, until);
            let Some(first) = [failed, wrong].into_iter().flatten().min() else { break None };
            if silent.is_some_and(|silent| silent <= first)
                || bad(timeline, first, (first + self.hold).min(until)) > self.failures
            {
                break Some(first);
            }
            slot = first + 1;
        };
        [silent, failing].into_iter().flatten().min()
    }

    /// The slot after the last of the signs that follow each other within a hold.
    fn last_of(&self, timeline: &Timeline, [first, until]: [usize; 2]) -> usize {
        let mut end = first + 1;
        loop {
            let near = (end + self.hold).min(until);
            let silence = self.silences.iter().find(|silence| silence[1] > end && silence[0] < near);
            let silent = silence.map(|silence| silence[1].min(until));
            let last = |counts: &CumulativeCounts| counts.last_in(end, near).map(|slot| slot + 1);
            match [silent, last(timeline.failed()), last(timeline.wrong())].into_iter().flatten().max() {
                // A silence may last beyond the stretch, whose end is as far as one goes.
                Some(later) if later > end => end = later,
                _ => return end,
            }
        }
    }
}

fn bad(timeline: &Timeline, from: usize, until: usize) -> u64 {
    timeline.failed().between(from, until) + timeline.wrong().between(from, until)
}

/// Silences that neither chance nor the load's own ways explain.
fn unusual(
    timeline: &Timeline,
    [from, until]: [usize; 2],
    failures: u64,
    faulty: &[[f64; 2]],
    changes: bool,
) -> Vec<[usize; 2]> {
    let ok = timeline.ok().between(from, until);
    if ok == 0 {
        return Vec::new();
    }
    let ok_per_slot = ok as f64 / (until - from) as f64;
    let by_chance = (ok as f64 / CHANCE).ln() / ok_per_slot;
    let window_s = (WINDOW_OPERATIONS * timeline.slot_s() / ok_per_slot).clamp(WINDOW_S[0], WINDOW_S[1]);
    let window = (window_s / timeline.slot_s()).round() as usize;
    let all: Vec<[usize; 2]> = timeline.ok().silences(from, until).collect();
    let is_faulty =
        |slot: usize| faulty.iter().any(|[from_s, until_s]| (*from_s..*until_s).contains(&timeline.at_s(slot)));
    let own = all.iter().filter(|silence| !is_faulty(silence[0]));
    let mut lengths: Vec<usize> = own.map(|silence| silence[1] - silence[0]).collect();
    lengths.sort_unstable();
    // The silence itself is among those that are nearly as long.
    let recurs =
        |length: usize| lengths.len() - lengths.partition_point(|&other| other * FAR_LONGER < length) > RECURRING;
    let is_unusual = |&[begin, end]: &[usize; 2]| {
        let length = end - begin;
        let failures_beside = bad(timeline, begin.saturating_sub(1), end + 1) > failures;
        length as f64 > by_chance && (failures_beside || (!changes && length > window && !recurs(length)))
    };
    all.into_iter().filter(is_unusual).collect()
}

/// What a stretch of time is held against.
pub(crate) struct FaultlessStretch {
    /// No fault accounts for what happens from here …
    pub from_s: f64,
    /// … until here.
    pub until_s: f64,
    /// Nothing is counted after this.
    pub counted_until_s: f64,
    /// The operations' timeout.
    pub timeout_s: f64,
    /// Service must have been back for so long before it serves as a baseline.
    pub settled_s: f64,
}

/// The disturbances of a stretch of time that no fault accounts for, and from when on what follows them serves as a baseline
/// (`None`: the last was not over).
pub(crate) fn between(
    timeline: &Timeline,
    evidence: &Evidence,
    usual: &NormalLoad,
    stretch: &FaultlessStretch,
    mut baseline_from_s: f64,
) -> (Vec<Disturbance>, Option<f64>) {
    let mut found = Vec::new();
    let until = timeline.slot_of(stretch.until_s);
    let mut next = timeline.slot_of(stretch.from_s);
    while let Some(first) = usual.first(timeline, [next, until]) {
        let at_s = timeline.at_s(first);
        let times = FaultTimes {
            at_s,
            healed_s: None,
            baseline_from_s: Some(baseline_from_s),
            earlier_baseline_s: None,
            until_s: stretch.until_s,
            counted_until_s: stretch.counted_until_s,
            timeout_s: stretch.timeout_s,
        };
        let mut felt = outage(timeline, &evidence.load.latency, times);
        if felt.baseline_per_s.is_none() {
            // Without one, its end is that of its signs.
            let end_s = timeline.at_s(usual.last_of(timeline, [first, until]));
            let counted_until_s = end_s + timeline.slot_s();
            felt = outage(timeline, &evidence.load.latency, FaultTimes { until_s: end_s, counted_until_s, ..times });
            next = timeline.slot_of(end_s);
        } else {
            next = felt.back_to_baseline_s.map_or(until, |back_s| timeline.slot_of(at_s + back_s));
        }
        felt.memory_released_bytes = evidence.sampled.memory_released_bytes(at_s, crate::faults::MEMORY_WITHIN_S);
        found.push(Disturbance { at_s, outage: felt });
        next = next.max(first + 1);
        baseline_from_s = timeline.at_s(next) + stretch.settled_s;
        if next >= until {
            return (found, None);
        }
        if found.len() >= LISTED {
            break;
        }
    }
    (found, Some(baseline_from_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{SyntheticLoad, near};

    fn found(made: &SyntheticLoad, from_s: f64) -> Vec<Disturbance> {
        found_at(made, from_s, false)
    }

    /// The same of a load whose rate was to change, or not.
    fn found_at(made: &SyntheticLoad, from_s: f64, changes: bool) -> Vec<Disturbance> {
        let timeline = made.timeline();
        let until_s = made.rows.len() as f64 * timeline.slot_s();
        let usual = NormalLoad::of(&timeline, [from_s, until_s], &[], changes);
        let stretch = FaultlessStretch { from_s, until_s, counted_until_s: until_s, timeout_s: 1.0, settled_s: 1.0 };
        between(&timeline, &Evidence::default(), &usual, &stretch, from_s).0
    }

    #[test]
    fn errors_for_a_while_are_one_disturbance_with_the_figures_of_an_outage() {
        let made = SyntheticLoad::random(1, 9.0, |at_s| if (5.0..7.3).contains(&at_s) { 0.0 } else { 4_000.0 });
        let found = found(&made.failing(9_200, 5.0, 7.3), 0.0);
        assert_eq!(found.len(), 1, "{found:?}");
        let felt = &found[0].outage;
        assert!((found[0].at_s - 5.0).abs() <= 0.0011, "{found:?}");
        assert_eq!((felt.failed, felt.wrong), (9_200, 0));
        assert!(near(felt.total_s, 2.3, 0.003) && near(felt.back_to_baseline_s, 2.3, 0.003), "{felt:?}");
        assert!(near(felt.lost_operations, 9_200.0, 300.0), "{felt:?}");
    }

    #[test]
    fn a_single_failure_is_one_and_each_spell_is_one() {
        let made = SyntheticLoad::random(2, 60.0, |_| 4_000.0)
            .failing(1, 20.0, 20.001)
            .failing(30, 40.0, 41.0)
            .failing(7, 41.5, 41.6);
        let found = found(&made, 5.0);
        let seen: Vec<(f64, u64)> = found.iter().map(|one| (one.at_s, one.outage.failed)).collect();
        assert_eq!(seen, [(20.0, 1), (40.0, 37)], "half a second apart is not over: {found:?}");
    }

    #[test]
    fn a_freeze_is_one_from_its_beginning_though_its_timeouts_come_later() {
        let made = SyntheticLoad::random(3, 30.0, |at_s| if (12.0..14.0).contains(&at_s) { 0.0 } else { 4_000.0 });
        for made in [
            made.failing(16, 13.0, 13.1),
            SyntheticLoad::random(3, 30.0, |at_s| if (12.0..14.0).contains(&at_s) { 0.0 } else { 4_000.0 }),
        ] {
            let found = found(&made, 2.0);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!((found[0].at_s - 12.0).abs() < 0.002 && near(found[0].outage.total_s, 2.0, 0.004), "{found:?}");
        }
    }

    #[test]
    fn a_silence_that_may_have_been_asked_for_is_none_without_a_failure() {
        let made = SyntheticLoad::random(3, 30.0, |at_s| if (12.0..14.0).contains(&at_s) { 0.0 } else { 4_000.0 });
        assert_eq!((found_at(&made, 2.0, false).len(), found_at(&made, 2.0, true).len()), (1, 0));
        let failing = SyntheticLoad::random(3, 30.0, |at_s| if (12.0..14.0).contains(&at_s) { 0.0 } else { 4_000.0 });
        assert_eq!(found_at(&failing.failing(16, 13.0, 13.1), 2.0, true).len(), 1);
    }

    #[test]
    fn one_that_comes_too_early_for_a_baseline_is_counted_all_the_same() {
        let found = found(&SyntheticLoad::random(4, 20.0, |_| 4_000.0).failing(50, 2.2, 2.7).failing(3, 9.0, 9.1), 2.0);
        let seen: Vec<(f64, u64, Option<f64>)> =
            found.iter().map(|one| (one.at_s, one.outage.failed, one.outage.baseline_per_s)).collect();
        assert_eq!((seen[0], seen.len()), ((2.2, 50, None), 2), "{found:?}");
        assert!(seen[1].1 == 3 && seen[1].2.is_some(), "{found:?}");
    }

    #[test]
    fn one_that_is_not_over_at_the_end_goes_on_to_it() {
        let made =
            SyntheticLoad::random(5, 20.0, |at_s| if at_s < 15.0 { 4_000.0 } else { 0.0 }).failing(5_000, 15.0, 20.0);
        let found = found(&made, 2.0);
        assert_eq!((found.len(), found[0].outage.failed, found[0].outage.back_to_baseline_s), (1, 5_000, None));
    }

    #[test]
    fn what_always_fails_a_little_is_not_disturbed_all_the_time() {
        let usual = SyntheticLoad::random(6, 60.0, |_| 4_000.0).failing(2_400, 0.0, 60.0);
        assert_eq!(found(&usual, 2.0), []);
        let more = SyntheticLoad::random(6, 60.0, |_| 4_000.0).failing(2_400, 0.0, 60.0).failing(400, 30.0, 31.0);
        let found = found(&more, 2.0);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn what_the_load_shows_again_and_again_is_no_disturbance() {
        let every_s = |at_s: f64| if at_s.rem_euclid(10.0) < 0.5 { 0.0 } else { 4_000.0 };
        assert_eq!(found(&SyntheticLoad::random(7, 60.0, every_s), 2.0), []);
        let longer = |at_s: f64| if (33.0..35.0).contains(&at_s) { 0.0 } else { every_s(at_s) };
        let found = found(&SyntheticLoad::random(7, 60.0, longer), 2.0);
        assert_eq!(found.len(), 1, "four times as long is another thing: {found:?}");
    }

    #[test]
    fn stalls_of_a_machine_and_chance_raise_no_alarm() {
        // 200 loads of 40 s, from 3 to 3,000 operations a second; half of them have a stall of 60 to 80 ms every 3 s or so, half a single
        // one.
        let mut alarms = 0;
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let rate = 10_f64.powf(0.5 + 3.0 * random.f64());
            let stalls: Vec<(f64, f64)> = (0..if seed % 2 == 0 { 13 } else { 1 })
                .map(|_| (40.0 * random.f64(), 0.06 + 0.02 * random.f64()))
                .collect();
            let stalled = |at_s: f64| stalls.iter().any(|(from_s, long_s)| (0.0..*long_s).contains(&(at_s - from_s)));
            let made = SyntheticLoad::random(seed, 40.0, |at_s| if stalled(at_s) { 0.0 } else { rate });
            alarms += found(&made, 2.0).len();
        }
        // Chance makes such a silence in one of a hundred loads, and it counts only if it is no usual one.
        assert!(alarms <= 2, "{alarms} false alarms in 200 loads");
    }

    /// The end of the silence was looked for beyond the end of the stretch, for ever.
    #[test]
    fn a_silence_that_outlasts_its_stretch_ends_with_it() {
        let made = SyntheticLoad::random(5, 6.0, |at_s| if at_s < 0.3 { 1_500.0 } else { 0.0 });
        let timeline = made.timeline();
        let usual = NormalLoad::of(&timeline, [0.0, 6.0], &[[2.0, 12.5]], false);
        let stretch =
            FaultlessStretch { from_s: 0.0, until_s: 2.0, counted_until_s: 2.0, timeout_s: 1.0, settled_s: 1.0 };
        let (found, settled_s) = between(&timeline, &Evidence::default(), &usual, &stretch, 0.0);
        assert_eq!((found.len(), settled_s), (1, None), "{found:?}");
        assert!(found[0].at_s < 0.4, "{found:?}");
    }
}
