//! Period of a trial in which the load runs, and the measured part of this period.

use std::collections::BTreeMap;

use experiment::plan::{Load, Warmup};
use record::events::{Phase, What};
use record::results::Steady;
use record::rows::GeneratorSecond;

use crate::disturbances::NormalLoad;
use crate::evidence::Evidence;
use crate::stats::quantiles::largest;
use crate::stats::steady_state::{self, LoadStretch, MeanLatency};
use crate::stats::timeline::Timeline;

/// Period of the load, seconds since load start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LoadWindow {
    /// Start of the measured part.
    pub from_s: f64,
    /// Time after which no operation starts; the drain follows.
    pub until_s: f64,
    /// Start of the first fault, if one began while the load ran.
    pub first_fault_s: Option<f64>,
    /// Whether the load became steady; `None` if the plan changes the rate, or if the load was too
    /// short to tell.
    pub steady: Option<bool>,
    /// Whether no operation of the load ended after `until_s`. Otherwise `until_s` may lie anywhere
    /// in a slot of the timeline.
    pub is_over: bool,
}

impl LoadWindow {
    /// Returns the window, and how the end of the warm-up was found. Returns `None` if the load
    /// never started.
    pub fn of(load: &Load, evidence: &Evidence, timeline: &Timeline) -> Option<(Self, Steady)> {
        let last_s = evidence.last_s().filter(|&last_s| last_s > 0.0)?;
        let drained_s = evidence.entered_s(Phase::Draining).unwrap_or(f64::INFINITY);
        // A load with a fixed number of cycles ends with its last cycle, and each thread writes a
        // row at that time.
        let counted_s = load.is_counted().then(|| largest(evidence.generator.iter().map(|row| row.at_s))).flatten();
        let until_s = load.time_s.min(drained_s).min(counted_s.unwrap_or(last_s));
        let first_fault_s = evidence
            .events
            .iter()
            // A fault before the load's start is a condition of the load.
            .filter(|event| matches!(event.what, What::FaultBegun { .. }) && (0.0..until_s).contains(&event.at_s))
            .map(|event| event.at_s)
            .min_by(f64::total_cmp);
        let calm_until_s = first_fault_s.unwrap_or(until_s);
        // A load that the plan changes does not become steady.
        let changes = load.changes();
        let judged = |from_s: f64, cuts: bool, outages: &[[f64; 2]]| {
            let stretch = LoadStretch { from_s, until_s: calm_until_s, cuts, outages };
            steady_state::steady_from(timeline, &mean_latency(&evidence.generator), stretch)
        };
        let latency = &evidence.load.latency;
        let outages = |from_s: f64| NormalLoad::spells(timeline, latency, [from_s, calm_until_s], changes);
        let mut steady = match load.warmup {
            Warmup::Seconds(from_s) if changes => Steady { from_s, method: "given".to_owned(), ..Steady::default() },
            Warmup::Seconds(from_s) => judged(from_s, false, &outages(from_s)),
            Warmup::Auto if changes => {
                let what = if load.changes_rate() { "the rate" } else { "the number of agents" };
                Steady { method: format!("none: {what} changes by plan"), ..Steady::default() }
            }
            Warmup::Auto => {
                let outages = outages(load.ramp_s);
                let found = judged(load.ramp_s, true, &outages);
                // A warm-up never hides a disturbance.
                match outages.first().filter(|[at_s, _]| *at_s < found.from_s) {
                    Some([at_s, _]) => {
                        let method = format!("{}, before the disturbance at {at_s:.1} s", found.method);
                        let from_s = (at_s - BEFORE_S).max(load.ramp_s);
                        Steady { method, ..judged(from_s, false, &outages) }
                    }
                    None => found,
                }
            }
        };
        steady.from_s = steady.from_s.clamp(0.0, until_s.max(0.0));
        let is_over = last_s <= until_s || (load.is_counted() && drained_s.is_infinite());
        let window = Self { from_s: steady.from_s, until_s, first_fault_s, steady: steady.is, is_over };
        // If an interruption came before the load, there is no window.
        (until_s > 0.0).then_some((window, steady))
    }

    /// Returns the time from which latencies are taken. Latencies are logged by whole seconds, so
    /// this is the first second that begins in the measured part. If no whole second would be left,
    /// it is the second in which the measured part begins.
    pub fn latency_from_s(&self) -> f64 {
        // Bins of 100 ms begin at times that floating-point numbers only approximate.
        let whole_s = (self.from_s - 1e-6).ceil();
        if self.until_s - whole_s >= 1.0 - 1e-6 { whole_s } else { self.from_s.floor() }
    }

    /// Returns the slots of the timeline from `from_s` to the end of the load.
    pub fn slots(&self, timeline: &Timeline, from_s: f64) -> [usize; 2] {
        let until = if self.is_over { timeline.slots() } else { timeline.slot_of(self.until_s) };
        [timeline.slot_of(from_s), until]
    }

    /// Returns `ok` per second from `from_s` to the end of the load, or `None` if this is less than
    /// a slot.
    pub fn ok_per_s(&self, timeline: &Timeline, from_s: f64) -> Option<f64> {
        let [from, until] = self.slots(timeline, from_s);
        let length_s = if self.is_over { self.until_s - from_s } else { timeline.at_s(until) - timeline.at_s(from) };
        (until > from && length_s > 0.0).then(|| timeline.ok().between(from, until) as f64 / length_s)
    }

    /// Returns the length of the measured part, seconds.
    pub fn length_s(&self) -> f64 {
        self.until_s - self.from_s
    }

    /// Returns the measured part up to the first fault, or all of it without a fault. Returns
    /// `None` if nothing is left.
    pub fn calm(&self) -> Option<(f64, f64)> {
        let until_s = self.first_fault_s.unwrap_or(self.until_s);
        (until_s > self.from_s).then_some((self.from_s, until_s))
    }
}

/// Time before a disturbance that must be measured as its baseline. A warm-up that would reach into
/// this time is shortened.
const BEFORE_S: f64 = 1.0;

/// Returns the mean latency of each whole second with ended operations, over all threads, in order.
fn mean_latency(rows: &[GeneratorSecond]) -> Vec<MeanLatency> {
    let mut seconds: BTreeMap<i64, (f64, u64)> = BTreeMap::new();
    for row in rows.iter().filter(|row| (row.interval_s - 1.0).abs() < 0.25) {
        let (latency_s, operations) = seconds.entry(row.at_s.round() as i64 - 1).or_default();
        *latency_s += row.latency_sum_s;
        *operations += row.operations;
    }
    let ended = seconds.into_iter().filter(|(_, (_, operations))| *operations > 0);
    ended
        .map(|(second, (latency_s, operations))| MeanLatency {
            at_s: second as f64,
            mean_s: latency_s / operations as f64,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use experiment::plan::{AgentStage, Rate, RateStage};
    use record::events::Event;
    use record::rows::OutcomeSlot;

    use super::*;
    use crate::synthetic;

    /// 1,000 operations per second, in slots of 10 ms.
    fn evidence(length_s: f64) -> Evidence {
        let slots = (0..(length_s * 100.0) as u32).map(|number| OutcomeSlot {
            at_s: f64::from(number) / 100.0,
            slot_s: 0.01,
            ok: 10,
            ..OutcomeSlot::default()
        });
        Evidence { slots: slots.collect(), ..Evidence::default() }
    }

    fn window(load: &Load, evidence: &Evidence) -> LoadWindow {
        LoadWindow::of(load, evidence, &Timeline::of(&evidence.slots).unwrap()).unwrap().0
    }

    fn fault(at_s: f64) -> Event {
        Event { at_s, what: What::FaultBegun { fault: "oops".into(), number: 1, kind: "call".into(), on: "n1".into() } }
    }

    #[test]
    fn a_given_warm_up_is_used_unchanged() {
        let load = Load { warmup: Warmup::Seconds(3.0), ..synthetic::load(10, 20.0) };
        let found = window(&load, &evidence(20.5));
        assert_eq!((found.from_s, found.until_s, found.steady), (3.0, 20.0, Some(true)), "the drain is not measured");
        assert_eq!(found.calm(), Some((3.0, 20.0)));
    }

    #[test]
    fn the_warm_up_method_is_reported() {
        let how = |warmup, evidence: &Evidence| {
            let load = Load { warmup, ..synthetic::load(10, 20.0) };
            LoadWindow::of(&load, evidence, &Timeline::of(&evidence.slots).unwrap()).unwrap().1
        };
        let given = how(Warmup::Seconds(30.0), &evidence(7.0));
        assert_eq!(
            (given.from_s, given.method.as_str(), given.is),
            (7.0, "given", None),
            "no later than the load's end"
        );
        let stages = Rate::Stages(vec![RateStage { from: 0.0, to: 2_000.0, over_s: 20.0 }]);
        let load = Load { warmup: Warmup::Auto, rate: Some(stages), ..synthetic::load(10, 20.0) };
        let (evidence_of_20_s, timeline_of_20_s) = (evidence(20.0), Timeline::of(&evidence(20.0).slots).unwrap());
        let changing = LoadWindow::of(&load, &evidence_of_20_s, &timeline_of_20_s).unwrap().1;
        assert_eq!((changing.from_s, changing.is, changing.unsteady), (0.0, None, None));
        assert!(changing.method.contains("the rate changes"));
        let agent_stages = vec![AgentStage { from: 0, to: 10, over_s: 20.0 }];
        let staged = Load { warmup: Warmup::Auto, agent_stages, ..synthetic::load(10, 20.0) };
        let staged = LoadWindow::of(&staged, &evidence_of_20_s, &timeline_of_20_s).unwrap().1;
        assert_eq!((staged.from_s, staged.is), (0.0, None));
        assert_eq!(staged.method, "none: the number of agents changes by plan");
        let flat = how(Warmup::Auto, &evidence(20.0));
        assert_eq!((flat.method.as_str(), flat.is, flat.unsteady), ("MSER-5", Some(true), None));
        let mut growing = evidence(20.0);
        for (second, thread) in (1..=20).flat_map(|second| [(second, 0), (second, 1)]) {
            let at_s = f64::from(second);
            let latency_sum_s = 500.0 * (0.01 + 0.05 * at_s);
            let row =
                GeneratorSecond { at_s, interval_s: 1.0, thread, operations: 500, latency_sum_s, ..Default::default() };
            growing.generator.push(row);
        }
        let growing = how(Warmup::Auto, &growing);
        assert_eq!((growing.is, growing.unsteady.as_deref()), (Some(false), Some("latency")));
    }

    /// The same load with only failures for a while.
    fn failing(length_s: f64, from_s: f64, until_s: f64) -> Evidence {
        let mut evidence = evidence(length_s);
        for slot in evidence.slots.iter_mut().filter(|slot| (from_s..until_s).contains(&slot.at_s)) {
            (slot.ok, slot.failed) = (0, 10);
        }
        evidence
    }

    #[test]
    fn a_warm_up_never_cuts_a_disturbance_away() {
        let load = Load { warmup: Warmup::Auto, ..synthetic::load(10, 20.0) };
        for from_s in [1.0, 2.0, 3.0, 5.0] {
            let found = window(&load, &failing(20.0, from_s, from_s + 3.0));
            assert!(found.from_s < from_s && found.steady == Some(true), "{from_s}: {found:?}");
        }
        // Failures from the first operation on belong to the start.
        assert!(window(&load, &failing(20.0, 0.0, 3.0)).from_s > 2.9);
        let mut warming = failing(20.0, 3.0, 3.5);
        warming.slots.iter_mut().filter(|slot| slot.at_s < 5.0).for_each(|slot| slot.ok /= 4);
        let how = LoadWindow::of(&load, &warming, &Timeline::of(&warming.slots).unwrap()).unwrap().1;
        assert_eq!((how.from_s, how.method.as_str()), (2.0, "MSER-5, before the disturbance at 3.0 s"));
        assert_eq!(how.is, Some(false), "the warm-up is in what is measured");
    }

    #[test]
    fn a_given_warm_up_is_tested_too() {
        let load = Load { warmup: Warmup::Seconds(5.0), ..synthetic::load(10, 20.0) };
        let mut falling = evidence(20.0);
        falling.slots.iter_mut().for_each(|slot| slot.ok = (100.0 - 2.0 * slot.at_s) as u32);
        assert_eq!(window(&load, &falling).steady, Some(false));
    }

    #[test]
    fn latencies_start_at_a_whole_second() {
        let from = |from_s, until_s| {
            LoadWindow { from_s, until_s, first_fault_s: None, steady: None, is_over: false }.latency_from_s()
        };
        assert_eq!(from(2.0, 10.0), 2.0);
        assert_eq!(from(0.1 + 0.2 + 1.7, 10.0), 2.0, "2.0000000000000004 is 2");
        assert_eq!(from(2.3, 10.0), 3.0);
        assert_eq!(from(1.3, 3.0), 2.0);
        assert_eq!(from(1.3, 2.5), 1.0, "only half of the second from 2 on");
        assert_eq!(from(7.0, 7.0), 7.0);
    }

    #[test]
    fn an_interrupted_load_is_measured_to_its_end() {
        let load = synthetic::load(10, 20.0);
        assert!((window(&load, &evidence(7.5)).until_s - 7.5).abs() < 1e-9);
        let mut interrupted = evidence(9.0);
        interrupted.events.push(Event { at_s: 6.0, what: What::Phase { phase: Phase::Draining } });
        assert_eq!(window(&load, &interrupted).until_s, 6.0);
        let late = Load { warmup: Warmup::Seconds(30.0), ..load };
        assert_eq!(window(&late, &evidence(7.0)).length_s(), 0.0);
    }

    #[test]
    fn a_load_with_a_count_ends_after_its_cycles() {
        let mut counted = evidence(0.5);
        counted.last_sample_s = Some(1.0);
        counted.generator = vec![
            GeneratorSecond { at_s: 0.482, thread: 0, ..Default::default() },
            GeneratorSecond { at_s: 0.487, thread: 1, ..Default::default() },
        ];
        let load = Load { count: Some(500), ..synthetic::load(10, 1_800.0) };
        assert_eq!(window(&load, &counted).until_s, 0.487);
        assert_eq!(window(&Load { count: None, ..load }, &counted).until_s, 1.0);
    }

    #[test]
    fn a_finished_load_counts_to_its_exact_end() {
        let mut counted = evidence(0.09);
        counted.last_sample_s = Some(1.0);
        counted.generator = vec![GeneratorSecond { at_s: 0.0873, ..Default::default() }];
        let timeline = Timeline::of(&counted.slots).unwrap();
        let load = Load { count: Some(90), warmup: Warmup::Seconds(0.0), ..synthetic::load(10, 1_800.0) };
        let over = window(&load, &counted);
        assert_eq!((over.is_over, over.slots(&timeline, 0.0)), (true, [0, 9]), "the last slot is one of it");
        assert_eq!(over.ok_per_s(&timeline, 0.0), Some(90.0 / 0.0873));
        counted.events.push(Event { at_s: 0.0873, what: What::Phase { phase: Phase::Draining } });
        let interrupted = window(&load, &counted);
        assert_eq!((interrupted.is_over, interrupted.slots(&timeline, 0.0)), (false, [0, 8]));
        assert_eq!(interrupted.ok_per_s(&timeline, 0.0).map(f64::round), Some(1_000.0));
    }

    #[test]
    fn the_warm_up_ends_between_ramp_and_first_fault() {
        let load = Load { warmup: Warmup::Auto, ramp_s: 4.0, ..synthetic::load(10, 30.0) };
        let mut faulty = evidence(30.0);
        faulty.events = vec![fault(20.0), fault(12.0), fault(45.0)];
        let found = window(&load, &faulty);
        assert_eq!(found.first_fault_s, Some(12.0));
        assert!((4.0..8.5).contains(&found.from_s), "{found:?}");
        assert_eq!(found.steady, Some(true));
        assert_eq!(found.calm(), Some((found.from_s, 12.0)));
    }

    #[test]
    fn a_load_that_never_started_has_no_window() {
        let mut before = evidence(0.01);
        before.slots.clear();
        before.events.push(Event { at_s: -2.0, what: What::Phase { phase: Phase::Starting } });
        let timeline = Timeline::of(&evidence(1.0).slots).unwrap();
        assert_eq!(LoadWindow::of(&synthetic::load(10, 20.0), &before, &timeline), None);
    }
}
