//! Outages that no fault explains: something else broke, or the target did so of its own accord. It must not look at time that a fault
//! accounts for; it is told which time that is.
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
use crate::stats::order::nearest_rank;
use crate::stats::outage::{CHANCE, FAR_LONGER, HOLD_S, Times, WINDOW_OPERATIONS, WINDOW_S, outage, tolerated};
use crate::stats::timeline::{Counts, Timeline};

/// So many others that are nearly as long make a silence usual.
const RECURRING: usize = 3;

/// More than this many in a stretch are not listed: its first ones say enough.
const LISTED: usize = 200;

/// What is usual in a trial's load, and the silences that are not.
pub(crate) struct Usual {
    /// Slots in which service must hold.
    hold: usize,
    /// Operations that may go wrong within them.
    failures: u64,
    /// Times without success that begin a disturbance, in time order.
    silences: Vec<[usize; 2]>,
}

impl Usual {
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
            let last = |counts: &Counts| counts.last_in(end, near).map(|slot| slot + 1);
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
pub(crate) struct Stretch {
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
    usual: &Usual,
    stretch: &Stretch,
    mut baseline_from_s: f64,
) -> (Vec<Disturbance>, Option<f64>) {
    let mut found = Vec::new();
    let until = timeline.slot_of(stretch.until_s);
    let mut next = timeline.slot_of(stretch.from_s);
    while let Some(first) = usual.first(timeline, [next, until]) {
        let at_s = timeline.at_s(first);
        let times = Times {
            at_s,
            healed_s: None,
            baseline_from_s: Some(baseline_from_s),
            until_s: stretch.until_s,
            counted_until_s: stretch.counted_until_s,
            timeout_s: stretch.timeout_s,
        };
        let mut felt = outage(timeline, &evidence.load.latency, times);
        if felt.baseline_per_s.is_none() {
            // Without one, its end is that of its signs.
            let end_s = timeline.at_s(usual.last_of(timeline, [first, until]));
            let counted_until_s = end_s + timeline.slot_s();
            felt = outage(timeline, &evidence.load.latency, Times { until_s: end_s, counted_until_s, ..times });
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
mod tests;
