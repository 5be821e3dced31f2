//! The faults of a trial, each with its outage, and the disturbances between them; and the
//! distribution of each fault's effects over all its occurrences. `stats` defines the figures of an
//! outage.
//!
//! If service was never back, the time to recover is unknown but longer than that of other
//! occurrences; leaving it out would make the worst fault look best. So this time counts as the
//! longest (a right-censored value in an ordered sample), and a quantile that falls on such a value
//! is null.
//!
//! A quantile needs as many occurrences as in `stats::quantiles`: 5 for the median, 29 for p90, 299
//! for p99.

use std::collections::BTreeMap;

use experiment::plan::{self, samples_for};
use record::events::{Event, What};
use record::results::{Disturbance, Fault, OperatorAction, Outage, OutageDistribution, Spread, Trial};

use crate::disturbances::{self, FaultlessStretch, NormalLoad};
use crate::evidence::Evidence;
use crate::load_window::LoadWindow;
use crate::stats::baseline::BASELINE_S;
use crate::stats::outage::{FaultTimes, horizon_s, outage};
use crate::stats::quantiles::{median, median_ci95, nearest_rank};
use crate::stats::timeline::Timeline;
use crate::trial_groups::{TrialGroup, repeats};

/// Time for which service must have been back before it serves as the baseline of the next fault,
/// seconds.
const SETTLED_S: f64 = 1.0;

/// Time after a fault within which released memory counts as its effect, seconds.
pub(crate) const MEMORY_WITHIN_S: f64 = 5.0;

/// Faults and disturbances of a trial.
#[derive(Debug, Default)]
pub(crate) struct FaultOutcomes {
    /// Every occurrence of a fault, in time order, with its outage if there was load.
    pub faults: Vec<Fault>,
    /// Outages and slow phases that no fault explains, in time order.
    pub disturbances: Vec<Disturbance>,
}

/// Returns every occurrence of a fault with its outage, and the disturbances between the faults.
pub(crate) fn happened(
    planned: &plan::Trial,
    evidence: &Evidence,
    timeline: Option<&Timeline>,
    window: Option<&LoadWindow>,
) -> FaultOutcomes {
    let mut faults = occurrences(&evidence.events, &planned.all_faults());
    let (Some(timeline), Some(window)) = (timeline, window) else {
        return FaultOutcomes { faults, ..FaultOutcomes::default() };
    };
    // A standing fault is a condition of the trial: clients do not notice its start.
    let mut felt: Vec<&mut Fault> = faults
        .iter_mut()
        .filter(|fault| fault.failed.is_none() && fault.at_s < window.until_s)
        .filter(|fault| !planned.faults.iter().any(|plan| plan.standing && plan.name == fault.name))
        .collect();
    let mut walk = FaultWalk::new(planned, evidence, timeline, window, &felt);
    let begun: Vec<f64> = felt.iter().map(|fault| fault.at_s).collect();
    walk.undisturbed_until(begun.first().copied());
    for (number, fault) in felt.iter_mut().enumerate() {
        let next_s = begun.get(number + 1).copied();
        fault.outage = Some(walk.fault(fault.at_s, fault.healed_s, next_s));
        walk.undisturbed_until(next_s);
    }
    let (found, timeout_s, changes) = (walk.disturbances, walk.timeout_s, walk.changes);
    let disturbances = match changes {
        true => found,
        false => disturbances::with_slow_phases(found, &faults, evidence, timeline, window, timeout_s),
    };
    FaultOutcomes { faults, disturbances }
}

/// Tolerance of times, seconds. Times since a fault are rounded to the microsecond, but the fault's
/// time is finer, so their sum may be this far before the intended slot.
const TOLD_S: f64 = 1e-6;

/// State of a walk through the load, from fault to fault.
struct FaultWalk<'a> {
    evidence: &'a Evidence,
    timeline: &'a Timeline,
    window: &'a LoadWindow,
    timeout_s: f64,
    usual: NormalLoad,
    /// Time from which no fault explains events; `None` if service is not back from the last fault.
    clear_from_s: Option<f64>,
    /// Time from which service serves as a baseline.
    baseline_from_s: Option<f64>,
    /// Whether the plan changes the rate, so that earlier service is no baseline later.
    changes: bool,
    /// The longest undisturbed part of the load so far, for faults that follow too closely to have
    /// their own baseline.
    undisturbed_s: Option<[f64; 2]>,
    disturbances: Vec<Disturbance>,
}

impl<'a> FaultWalk<'a> {
    fn new(
        planned: &plan::Trial,
        evidence: &'a Evidence,
        timeline: &'a Timeline,
        window: &'a LoadWindow,
        felt: &[&mut Fault],
    ) -> Self {
        let populations = planned.load.iter().flat_map(plan::Load::populations);
        let timeout_s = populations.map(|load| load.timeout_s).fold(0.0, f64::max);
        let changes = planned.load.as_ref().is_some_and(plan::Load::changes);
        let faulty: Vec<[f64; 2]> =
            felt.iter().map(|fault| [fault.at_s, horizon_s(fault.at_s, fault.healed_s, timeout_s)]).collect();
        Self {
            evidence,
            timeline,
            window,
            timeout_s,
            usual: NormalLoad::of(timeline, &evidence.load.latency, [window.from_s, window.until_s], &faulty, changes),
            clear_from_s: Some(window.from_s),
            baseline_from_s: Some(window.from_s),
            changes,
            undisturbed_s: None,
            disturbances: Vec::new(),
        }
    }

    /// Returns the latest end of an outage, and the end of counting. Both are the start of the next
    /// fault; without a next fault, they are the ends of the load and of the drain.
    fn until_s(&self, next_s: Option<f64>) -> [f64; 2] {
        let load_s = self.window.until_s;
        let drain_s = self.evidence.last_s().unwrap_or(load_s).max(load_s) + self.timeline.slot_s();
        next_s.map_or([load_s, drain_s], |next_s| [next_s, next_s])
    }

    fn fault(&mut self, at_s: f64, healed_s: Option<f64>, next_s: Option<f64>) -> Outage {
        let [until_s, counted_until_s] = self.until_s(next_s);
        self.was_undisturbed(at_s);
        // If the rate changes, older throughput does not show the present variation.
        let recent_s = if self.changes { at_s - BASELINE_S } else { 0.0 };
        let baseline_from_s = self.baseline_from_s.map(|from_s| from_s.max(recent_s));
        let earlier_baseline_s = self.undisturbed_s;
        let (timeout_s, usual_failures_per_s) = (self.timeout_s, self.usual.failures_per_s());
        let times = FaultTimes {
            at_s,
            healed_s,
            baseline_from_s,
            earlier_baseline_s,
            until_s,
            counted_until_s,
            timeout_s,
            usual_failures_per_s,
        };
        let mut felt = outage(self.timeline, &self.evidence.load.latency, times);
        felt.memory_released_bytes = self.evidence.sampled.memory_released_bytes(at_s, MEMORY_WITHIN_S);
        // The drain of a backlog after an outage is no baseline either.
        let drained_s = felt.overshoot_until_s.unwrap_or(0.0);
        self.clear_from_s = felt.back_to_baseline_s.map(|back_s| at_s + back_s.max(drained_s) + TOLD_S);
        self.baseline_from_s = match felt.baseline_per_s {
            Some(_) => self.clear_from_s.map(|clear_s| clear_s + SETTLED_S),
            // The time at which service was back is unknown. So the baseline begins after the last
            // expected effect and after the last failure.
            None => {
                let last_s = at_s + felt.last_failure_s.unwrap_or(0.0) + SETTLED_S;
                Some(horizon_s(at_s, healed_s, timeout_s).max(last_s))
            }
        };
        felt
    }

    /// Records the undisturbed part of the load that ends at `until_s`, if no earlier part is
    /// longer. Parts longer than [`BASELINE_S`] are first shortened to this length.
    fn was_undisturbed(&mut self, until_s: f64) {
        let from_s = self.baseline_from_s.map(|from_s| from_s.max(until_s - BASELINE_S));
        let Some(from_s) = from_s.filter(|from_s| *from_s < until_s && !self.changes) else { return };
        let longest_s = self.undisturbed_s.map_or(0.0, |[from_s, until_s]| until_s - from_s);
        if until_s - from_s + TOLD_S >= longest_s {
            self.undisturbed_s = Some([from_s, until_s]);
        }
    }

    /// Continues to the next fault, or to the load's end, and records the disturbances until then.
    fn undisturbed_until(&mut self, next_s: Option<f64>) {
        let (Some(from_s), Some(baseline_from_s)) = (self.clear_from_s, self.baseline_from_s) else { return };
        let [until_s, counted_until_s] = self.until_s(next_s);
        // Events that a clock error puts before a fault may belong to the fault.
        let until_s = if next_s.is_some() { until_s - self.timeline.clock_error_s() } else { until_s };
        let stretch =
            FaultlessStretch { from_s, until_s, counted_until_s, timeout_s: self.timeout_s, settled_s: SETTLED_S };
        let (found, settled_s) =
            disturbances::between(self.timeline, self.evidence, &self.usual, &stretch, baseline_from_s);
        if let Some(first) = found.first() {
            self.was_undisturbed(first.at_s);
        }
        self.disturbances.extend(found);
        self.baseline_from_s = settled_s;
    }
}

/// Returns every occurrence of an operator's action, in time order.
pub(crate) fn actions(events: &[Event], planned: &[plan::Fault]) -> Vec<OperatorAction> {
    let mut actions = Vec::new();
    for event in events {
        let at_s = event.at_s;
        match event.what.clone() {
            What::ActionTaken { action: name, number, kind, on } => {
                actions.push(OperatorAction { name, kind, on, number, at_s, failed: None });
            }
            What::ActionFailed { action: name, number, reason } => {
                let plan = planned.iter().find(|plan| plan.name == name);
                let (kind, on) = plan.map(|plan| (plan.kind.clone(), plan.on.to_string())).unwrap_or_default();
                actions.push(OperatorAction { name, kind, on, number, at_s, failed: Some(reason) });
            }
            _ => {}
        }
    }
    actions
}

fn occurrences(events: &[Event], planned: &[plan::Fault]) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    for event in events {
        match &event.what {
            What::FaultBegun { fault, number, kind, on } => {
                let occurrence = occurrence(&mut faults, planned, fault, *number, event.at_s);
                occurrence.kind.clone_from(kind);
                occurrence.on.clone_from(on);
            }
            What::FaultHealed { fault, number } => {
                occurrence(&mut faults, planned, fault, *number, event.at_s).healed_s = Some(event.at_s);
            }
            What::FaultFailed { fault, number, reason } => {
                occurrence(&mut faults, planned, fault, *number, event.at_s).failed = Some(reason.clone());
            }
            _ => {}
        }
    }
    faults.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    faults
}

/// Returns the entry of a fault's occurrence. Creates it at the first event that mentions it.
fn occurrence<'a>(
    faults: &'a mut Vec<Fault>,
    planned: &[plan::Fault],
    name: &str,
    number: u32,
    at_s: f64,
) -> &'a mut Fault {
    let known = faults.iter().position(|fault| fault.name == name && fault.number == number);
    let index = known.unwrap_or_else(|| {
        let of_plan = planned.iter().find(|fault| fault.name == name).map(|plan| Fault {
            kind: plan.kind.clone(),
            on: plan.on.to_string(),
            label: plan.label.clone(),
            colour: plan.colour.clone(),
            ..Fault::default()
        });
        faults.push(Fault { name: name.to_owned(), number, at_s, ..of_plan.unwrap_or_default() });
        faults.len() - 1
    });
    &mut faults[index]
}

/// Function that returns a figure of an occurrence: infinite if it is longer than the trial shows,
/// `None` if unknown.
type OccurrenceFigure = fn(&Outage) -> Option<f64>;

const FIGURES: [(&str, OccurrenceFigure); 12] = [
    ("back_to_baseline_s", back_s),
    ("degraded_s", |outage| outage.degraded_s),
    ("failed", |outage| Some(outage.failed as f64)),
    ("first_failure_s", |outage| outage.first_failure_s),
    ("first_ok_s", |outage| Some(outage.first_ok_s.unwrap_or(f64::INFINITY))),
    ("lost_operations", |outage| outage.lost_operations),
    ("memory_released_bytes", |outage| outage.memory_released_bytes.map(|bytes| bytes as f64)),
    ("overshoot_ratio", |outage| outage.overshoot_ratio),
    ("overshoot_until_s", |outage| outage.overshoot_until_s),
    ("partial_s", |outage| outage.partial_s),
    ("total_s", |outage| outage.total_s),
    ("wrong", |outage| Some(outage.wrong as f64)),
];

/// Returns the distribution of every fault for each variant and point, in the order in which the
/// faults first occurred, over the trials that are not void.
pub(crate) fn distributions(trials: &[Trial]) -> Vec<OutageDistribution> {
    let groups = repeats(trials.iter().filter(|trial| trial.counts()));
    groups.iter().flat_map(of_group).collect()
}

fn of_group<'a>(group: &'a TrialGroup<'_>) -> impl Iterator<Item = OutageDistribution> + use<'a> {
    let felt = || group.trials.iter().flat_map(|trial| &trial.faults).filter_map(felt);
    text::distinct(felt().map(|(fault, _)| &fault.name)).into_iter().map(move |name| {
        let of = OutageDistribution {
            fault: name.clone(),
            variant: group.variant.map(str::to_owned),
            point: group.point.clone(),
            ..OutageDistribution::default()
        };
        let outages: Vec<&Outage> = felt().filter(|(fault, _)| fault.name == *name).map(|(_, outage)| outage).collect();
        let mut members: BTreeMap<&String, Vec<&Outage>> = BTreeMap::new();
        for member in felt().filter(|(fault, _)| fault.name == *name).flat_map(|(fault, _)| &fault.members) {
            members.entry(&member.name).or_default().push(&member.outage);
        }
        let members = members.into_iter().map(|(member, outages)| (member.clone(), figures(&outages))).collect();
        OutageDistribution { members, ..distribution(of, &outages) }
    })
}

fn felt(fault: &Fault) -> Option<(&Fault, &Outage)> {
    fault.outage.as_ref().filter(|_| fault.failed.is_none()).map(|outage| (fault, outage))
}

fn back_s(outage: &Outage) -> Option<f64> {
    // Without a baseline, recovery is unknown.
    outage.baseline_per_s.map(|_| outage.back_to_baseline_s.unwrap_or(f64::INFINITY))
}

fn distribution(of: OutageDistribution, outages: &[&Outage]) -> OutageDistribution {
    let never_back = outages.iter().filter(|outage| back_s(outage) == Some(f64::INFINITY)).count();
    OutageDistribution { count: outages.len() as u64, never_back: never_back as u64, figures: figures(outages), ..of }
}

fn figures(outages: &[&Outage]) -> BTreeMap<String, Spread> {
    let mut figures = BTreeMap::new();
    for (name, figure) in FIGURES {
        let values: Vec<f64> = outages.iter().filter_map(|outage| figure(outage)).collect();
        if !values.is_empty() {
            figures.insert(name.to_owned(), spread(&values));
        }
    }
    figures
}

fn spread(values: &[f64]) -> Spread {
    let count = values.len() as u64;
    let [p90, p99] = [0.9, 0.99].map(|share| nearest_rank(values, share).filter(|_| count >= samples_for(share)));
    let mut spread = Spread {
        count,
        min: nearest_rank(values, 0.0),
        p50: median(values).filter(|_| count >= samples_for(0.5)),
        p50_ci95: median_ci95(values).filter(|[low, high]| low.is_finite() && high.is_finite()),
        p90,
        p99,
        max: nearest_rank(values, 1.0),
    };
    for value in [&mut spread.min, &mut spread.p50, &mut spread.p90, &mut spread.p99, &mut spread.max] {
        *value = value.filter(|value| value.is_finite());
    }
    spread
}

#[cfg(test)]
mod tests {
    use record::results::{MemberOutage, Trust, Verdict};
    use record::rows::OutcomeSlot;

    use super::*;
    use crate::synthetic;

    fn begun(at_s: f64, fault: &str, number: u32) -> Event {
        Event { at_s, what: What::FaultBegun { fault: fault.into(), number, kind: "kill".into(), on: "n2".into() } }
    }

    fn healed(at_s: f64, fault: &str, number: u32) -> Event {
        Event { at_s, what: What::FaultHealed { fault: fault.into(), number } }
    }

    /// 10 operations in each millisecond of 40 s, except in these times.
    fn evidence(down: &[(f64, f64)], events: Vec<Event>) -> Evidence {
        let slots = (0..40_000).map(|number| f64::from(number) / 1e3);
        let up = slots.filter(|at_s| !down.iter().any(|(from_s, until_s)| (from_s..until_s).contains(&at_s)));
        let slots = up.map(|at_s| OutcomeSlot { at_s, slot_s: 0.001, ok: 10, ..OutcomeSlot::default() }).collect();
        Evidence { slots, events, ..Evidence::default() }
    }

    fn found(evidence: &Evidence, until_s: f64) -> Vec<Fault> {
        all(evidence, until_s).faults
    }

    fn all(evidence: &Evidence, until_s: f64) -> FaultOutcomes {
        all_by(evidence, until_s, 0.0)
    }

    /// Returns the outcomes if clocks may be off by `clock_error_s`.
    fn all_by(evidence: &Evidence, until_s: f64, clock_error_s: f64) -> FaultOutcomes {
        let planned =
            plan::Trial { faults: vec![synthetic::fault("oops", 10.0)], ..synthetic::trial(synthetic::load(10, 40.0)) };
        let window = LoadWindow { from_s: 2.0, until_s, first_fault_s: None, steady: None, is_over: false };
        let timeline = Timeline::of(&evidence.slots).map(|timeline| timeline.with_clock_error(clock_error_s));
        happened(&planned, evidence, timeline.as_ref(), Some(&window))
    }

    fn back_s(fault: &Fault) -> Option<f64> {
        fault.outage.as_ref().unwrap().back_to_baseline_s
    }

    #[test]
    fn each_occurrence_has_its_own_outage() {
        let events =
            vec![begun(10.0, "oops", 1), healed(11.0, "oops", 1), begun(20.0, "oops", 2), begun(30.0, "kill", 1)];
        let faults = found(&evidence(&[(10.0, 10.5), (20.0, 21.0), (30.0, 30.25)], events), 40.0);
        let known: Vec<_> = faults.iter().map(|fault| (fault.name.as_str(), fault.number, fault.healed_s)).collect();
        assert_eq!(known, [("oops", 1, Some(11.0)), ("oops", 2, None), ("kill", 1, None)]);
        assert_eq!(faults.iter().map(back_s).collect::<Vec<_>>(), [Some(0.5), Some(1.0), Some(0.25)]);
        assert_eq!((faults[0].kind.as_str(), faults[0].on.as_str()), ("kill", "n2"), "as the event says");
        assert_eq!((faults[0].label.as_str(), faults[0].colour.as_str()), ("a call", "#cc0000"), "as the plan says");
        assert_eq!(faults[0].outage.as_ref().unwrap().memory_released_bytes, None);
    }

    #[test]
    fn the_last_failure_of_an_outage_is_no_disturbance() {
        // Back at 10.500 s: 0.499999 s after a fault at 10.0000006 s, as recorded.
        let mut evidence = evidence(&[(10.0, 10.499)], vec![begun(10.000_000_6, "oops", 1)]);
        evidence.slots.iter_mut().find(|slot| (slot.at_s - 10.499).abs() < 1e-9).unwrap().failed = 3;
        let all = all(&evidence, 40.0);
        assert_eq!(back_s(&all.faults[0]), Some(0.499_999));
        assert_eq!((all.faults[0].outage.as_ref().unwrap().failed, all.disturbances), (3, vec![]));
    }

    /// A clock error of a generator may have put the failures before the fault.
    #[test]
    fn failures_within_the_clock_error_belong_to_the_fault() {
        let mut evidence = evidence(&[(10.0, 10.5)], vec![begun(10.0, "oops", 1)]);
        evidence.slots.iter_mut().find(|slot| (slot.at_s - 9.998).abs() < 1e-9).unwrap().failed = 3;
        for (clock_error_s, failed, first_failure_s, disturbances) in [(0.0, 0, None, 1), (0.002, 3, Some(0.0), 0)] {
            let all = all_by(&evidence, 40.0, clock_error_s);
            let felt = all.faults[0].outage.as_ref().unwrap();
            assert_eq!((felt.failed, felt.first_failure_s), (failed, first_failure_s));
            assert_eq!((felt.back_to_baseline_s, all.disturbances.len()), (Some(0.5), disturbances));
        }
    }

    fn baseline_s(fault: &Fault) -> Option<[f64; 2]> {
        fault.outage.as_ref().unwrap().baseline_s
    }

    #[test]
    fn overlapping_faults_share_the_earlier_baseline() {
        let events = vec![begun(10.0, "oops", 1), begun(12.0, "oops", 2)];
        let faults = found(&evidence(&[(10.0, 15.0)], events), 40.0);
        assert_eq!((back_s(&faults[0]), back_s(&faults[1])), (None, Some(3.0)));
        assert_eq!((baseline_s(&faults[0]), baseline_s(&faults[1])), (Some([2.0, 10.0]), Some([2.0, 10.0])));
        let second = faults[1].outage.as_ref().unwrap();
        assert_eq!((second.baseline_per_s, second.lost_operations), (Some(10_000.0), Some(30_000.0)));
    }

    #[test]
    fn close_crashes_use_the_longest_undisturbed_baseline() {
        // Service is back after half a second each time, and counts as settled a second later: 0.3
        // s is too short for a baseline.
        let begins = [10.0, 11.8, 13.6, 20.0, 21.8];
        let down = begins.map(|at_s| (at_s, at_s + 0.5));
        let events = (1..).zip(begins).map(|(number, at_s)| begun(at_s, "oops", number)).collect();
        let faults = found(&evidence(&down, events), 40.0);
        assert!(faults.iter().all(|fault| back_s(fault) == Some(0.5)), "{faults:?}");
        let taken: Vec<_> = faults.iter().map(|fault| baseline_s(fault).unwrap().map(f64::round)).collect();
        assert_eq!(taken, [[2.0, 10.0], [2.0, 10.0], [2.0, 10.0], [15.0, 20.0], [2.0, 10.0]]);
    }

    #[test]
    fn a_fault_without_undisturbed_time_has_no_baseline() {
        let events = vec![begun(2.2, "oops", 1), begun(6.0, "oops", 2), begun(25.0, "oops", 3)];
        let faults = found(&evidence(&[(2.2, 3.0), (25.0, 26.0)], events), 40.0);
        assert_eq!((baseline_s(&faults[0]), back_s(&faults[0])), (None, None));
        assert_eq!(baseline_s(&faults[1]), None, "nobody knows whether service was back");
        assert_eq!((baseline_s(&faults[2]), back_s(&faults[2])), (Some([16.0, 25.0]), Some(1.0)));
    }

    #[test]
    fn a_failed_injection_has_no_outage() {
        let what = What::FaultFailed { fault: "oops".into(), number: 1, reason: "no such process".into() };
        let faults = found(&evidence(&[], vec![Event { at_s: 10.0, what }]), 40.0);
        assert_eq!(faults[0].failed.as_deref(), Some("no such process"));
        assert_eq!((faults[0].kind.as_str(), &faults[0].outage), ("call", &None));
    }

    #[test]
    fn a_fault_after_the_load_has_no_outage() {
        let faults = found(&evidence(&[], vec![begun(35.0, "oops", 1)]), 30.0);
        assert_eq!(faults[0].outage, None);
    }

    #[test]
    fn unexplained_failures_are_disturbances_and_no_baseline() {
        let down = [(6.0, 6.4), (10.0, 10.5), (15.0, 15.4), (25.0, 26.0)];
        let found = all(&evidence(&down, vec![begun(10.0, "oops", 1), begun(30.0, "oops", 2)]), 40.0);
        let at_s: Vec<f64> = found.disturbances.iter().map(|one| one.at_s).collect();
        assert_eq!(at_s, [6.0, 25.0], "what follows a fault within 10 s may be its own");
        assert_eq!(back_s(&found.faults[0]), Some(5.4));
        assert_eq!(found.disturbances[1].outage.back_to_baseline_s, Some(1.0));
        let baselines: Vec<f64> =
            found.faults.iter().filter_map(|fault| fault.outage.as_ref()?.baseline_per_s).collect();
        assert_eq!(baselines, [10_000.0, 10_000.0]);
    }

    fn occurrence(number: u32, back_s: Option<f64>) -> Fault {
        let outage = Outage {
            baseline_per_s: Some(1_000.0),
            back_to_baseline_s: back_s,
            first_ok_s: back_s.map(|back_s| back_s / 2.0),
            failed: u64::from(number),
            lost_operations: Some(f64::from(number)),
            ..Outage::default()
        };
        Fault { name: "oops".into(), number, outage: Some(outage), ..Fault::default() }
    }

    fn trial(variant: &str, is: Trust, backs_s: impl IntoIterator<Item = Option<f64>>) -> Trial {
        let faults = (1..).zip(backs_s).map(|(number, back_s)| occurrence(number, back_s)).collect();
        Trial {
            variant: Some(variant.into()),
            verdict: Verdict { is, ..Verdict::default() },
            faults,
            ..Trial::default()
        }
    }

    fn seconds(count: u32) -> impl Iterator<Item = Option<f64>> {
        (1..=count).map(|number| Some(f64::from(number)))
    }

    #[test]
    fn each_fault_and_variant_has_one_distribution() {
        let trials = [
            trial("a", Trust::Valid, seconds(3)),
            trial("b", Trust::Suspect, seconds(2)),
            trial("a", Trust::Void, seconds(9)),
            trial("a", Trust::Valid, seconds(4)),
        ];
        let found = distributions(&trials);
        let seen: Vec<_> = found.iter().map(|of| (of.variant.as_deref().unwrap(), of.count, of.never_back)).collect();
        assert_eq!(seen, [("a", 7, 0), ("b", 2, 0)]);
        assert_eq!(found[0].fault, "oops");
        let back = &found[0].figures["back_to_baseline_s"];
        assert_eq!((back.min, back.p50, back.max), (Some(1.0), Some(2.0), Some(4.0)));
        assert!(!found[0].figures.contains_key("total_s"), "no occurrence has it");
    }

    #[test]
    fn each_member_has_its_own_figures() {
        let mut one = trial("a", Trust::Valid, seconds(2));
        for (fault, failed) in one.faults.iter_mut().zip([7, 9]) {
            let members = [("n1", 0), ("n2", failed)].map(|(name, failed)| MemberOutage {
                name: name.into(),
                outage: Outage { failed, ..Outage::default() },
            });
            fault.members = members.to_vec();
        }
        let found = distributions(&[one]);
        let [first, second] = ["n1", "n2"].map(|name| &found[0].members[name]["failed"]);
        assert_eq!((first.max, second.min, second.max), (Some(0.0), Some(7.0), Some(9.0)));
        assert_eq!(found[0].figures["failed"].max, Some(2.0), "the sum over all is another figure");
    }

    #[test]
    fn a_quantile_of_too_few_occurrences_is_null() {
        let [four, five, ten, few, enough, many] = [4, 5, 10, 28, 29, 300].map(|count| {
            distributions(&[trial("a", Trust::Valid, seconds(count))])[0].figures["back_to_baseline_s"].clone()
        });
        assert_eq!((four.p50, four.min, four.max), (None, Some(1.0), Some(4.0)));
        assert_eq!((five.p50, five.p50_ci95), (Some(3.0), None));
        assert_eq!((ten.p50, ten.p50_ci95), (Some(5.5), Some([2.0, 9.0])));
        assert_eq!((few.p90, enough.p90, enough.p99), (None, Some(27.0), None));
        assert_eq!(many.p99, Some(297.0));
    }

    #[test]
    fn a_missing_recovery_counts_as_the_longest() {
        let [two, six] = [2, 6].map(|never| {
            let backs_s = seconds(6).chain(std::iter::repeat_n(None, never));
            distributions(&[trial("a", Trust::Valid, backs_s)]).remove(0)
        });
        let back = &two.figures["back_to_baseline_s"];
        assert_eq!((two.never_back, back.count, back.min), (2, 8, Some(1.0)));
        assert_eq!((back.p50, back.max), (Some(4.5), None), "the largest is not known");
        assert_eq!(back.p50_ci95, None, "its upper end is not known");
        assert_eq!(six.figures["back_to_baseline_s"].p50, None, "the median falls between known and unknown");
        assert_eq!(six.figures["failed"].max, Some(12.0), "a count is known whatever followed");
    }

    #[test]
    fn recovery_is_unknown_without_a_baseline() {
        let mut unknown = trial("a", Trust::Valid, seconds(2));
        unknown.faults[1].outage = Some(Outage { failed: 3, first_ok_s: Some(1.0), ..Outage::default() });
        let found = distributions(&[unknown]);
        assert_eq!((found[0].count, found[0].never_back, found[0].figures["back_to_baseline_s"].count), (2, 0, 1));
    }

    #[test]
    fn failed_injections_are_not_counted() {
        let mut refused = trial("a", Trust::Valid, seconds(2));
        refused.faults[0].failed = Some("no such process".into());
        refused.faults[1].outage = None;
        assert_eq!(distributions(&[refused]), []);
    }

    #[test]
    fn modes_and_points_are_not_pooled() {
        let mut trials = Vec::new();
        for repeat in 0..2 {
            for mode in ["sync", "dirty"] {
                for rate in ["1gbit", "5mbit"] {
                    let mut one = trial(mode, Trust::Valid, seconds(5 + repeat));
                    one.point.insert("lab.port.distribution.rate".to_owned(), rate.into());
                    trials.push(one);
                }
            }
        }
        let found = distributions(&trials);
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|of| of.count == 11 && of.point.len() == 1), "{found:?}");
    }
}
