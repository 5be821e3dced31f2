//! Disturbances without a planned fault: outages with another cause, and times in which the target
//! was slow.
//!
//! Two signs begin an outage. **Operations that failed, timed out or were wrong**: more of them
//! within a second than usual in this load (see [`UsualFailures`]). So a service that always fails
//! a little is not disturbed all the time, and a service that seldom fails is disturbed by a single
//! failure. The outage begins with the first failure that the usual failures do not explain. **A
//! silence**, a time without any success: chance makes one as long in less than one of a hundred
//! such loads, at the rate of the load and at the rate around the silence. In addition, there must
//! be a failure next to the silence, or it must last at least a quarter of a second and at least
//! the median latency, and must not recur in the load: fewer than three other silences last a third
//! as long, apart from those that chance makes. Machines stall for tens of milliseconds now and
//! then, which is no outage. Operations that take seconds and began together also end together, and
//! none ends in between. If the plan changes the load's rate, only a silence with a failure next to
//! it counts.
//!
//! The effects are measured as after a fault, with the time before as the baseline. Effects of one
//! disturbance do not begin another.
//!
//! Service is **slow** if its throughput is 15 % lower than usual, or its median or third quartile
//! of latency 1.5 times as high, for several seconds (see [`slow_phases`]). Outages and effects of
//! a fault are left out.

use record::results::{Disturbance, DisturbanceKind, Fault, Outage};

use crate::evidence::Evidence;
use crate::load_window::LoadWindow;
use crate::stats::latency_seconds::LatencySeconds;
use crate::stats::outage::{CHANCE, FAR_LONGER, FaultTimes, HOLD_S, change, horizon_s, outage};
use crate::stats::quantiles::mean;
use crate::stats::slow_phases::{SlowPhase, slow_phases};
use crate::stats::timeline::Timeline;
use crate::stats::usual_failures::{BINS_PER_S, UsualFailures, onset};

/// Number of other silences, nearly as long, that make a silence usual.
const RECURRING: f64 = 3.0;

/// Shortest silence that counts without a failure: a stall of a quarter of a second, less a few
/// slots in which answers may still arrive.
const SHORTEST_SILENCE_S: f64 = 0.24;

/// Time before and after a silence from which the rate around it is taken.
const AROUND_S: f64 = 2.0;

/// Time after load start within which a disturbance counts as caused by the start.
const STARTED_S: f64 = 0.5;

/// Largest number of disturbances that are listed for a stretch.
const LISTED: usize = 200;

/// Usual failures of a trial's load, and the silences that are not usual.
pub(crate) struct NormalLoad {
    /// Number of slots for which service must hold to be back.
    hold: usize,
    usual: UsualFailures,
    /// Largest usual number of operations that go wrong within a hold.
    failures: u64,
    /// Times without success that begin a disturbance, in time order.
    silences: Vec<UnusualSilence>,
}

/// A run of slots without any success that is longer than chance and the load's usual silences
/// explain.
#[derive(Debug, Clone, Copy)]
struct UnusualSilence {
    from: usize,
    until: usize,
    /// Slot from which the silence is long enough to be unusual.
    shown: usize,
}

impl NormalLoad {
    /// Analyzes the load between two times. Latencies and silences in the `faulty` times may be
    /// effects of a fault, so they do not count as usual. If `changes`, the plan changes the rate
    /// and may cause silences.
    pub fn of(
        timeline: &Timeline,
        latency: &LatencySeconds,
        [from_s, until_s]: [f64; 2],
        faulty: &[[f64; 2]],
        changes: bool,
    ) -> Self {
        let (from, until) = (timeline.slot_of(from_s), timeline.slot_of(until_s));
        let hold = timeline.slots_in(HOLD_S).max(1);
        let bin = (hold / BINS_PER_S).max(1);
        let bins = (from..until.saturating_sub(bin - 1)).step_by(bin);
        let bins: Vec<f64> = bins.map(|slot| timeline.bad_between(slot, slot + bin) as f64).collect();
        let usual = UsualFailures::of(&bins, bin as f64 * timeline.slot_s());
        let median_ns =
            latency.quantile_of(0.5, [from_s, until_s], |at_s| !faulty.iter().any(|span| within(*span, at_s)));
        let alone_s = (!changes).then(|| SHORTEST_SILENCE_S.max(median_ns.unwrap_or(0.0) / 1e9));
        let silences = unusual(timeline, [from, until], usual, faulty, alone_s);
        Self { hold, usual, failures: usual.most(HOLD_S), silences }
    }

    /// Returns the usual number of failures per second.
    pub fn failures_per_s(&self) -> f64 {
        self.usual.per_s
    }

    /// Returns the first slot of `from..until` in which a disturbance begins.
    fn first(&self, timeline: &Timeline, [from, until]: [usize; 2]) -> Option<usize> {
        // A silence that becomes unusual only after `until` belongs to the fault that begins there:
        // the last success came shortly before the fault.
        let mut here = self.silences.iter().filter(|silence| silence.from >= from && silence.shown <= until);
        let silent = here.next().map(|silence| silence.from);
        let mut slot = from;
        let failing = loop {
            let Some(first) = first_bad(timeline, slot, until) else { break None };
            if silent.is_some_and(|silent| silent <= first) {
                break Some(first);
            }
            if timeline.bad_between(first, (first + self.hold).min(until)) > self.failures {
                break Some(self.sharpened(timeline, [first, (first + self.hold).min(until)]));
            }
            slot = first + 1;
        };
        [silent, failing].into_iter().flatten().min()
    }

    /// Returns the slot where excess failures begin, in a window that begins with a failure and has
    /// too many.
    fn sharpened(&self, timeline: &Timeline, [first, until]: [usize; 2]) -> usize {
        if self.failures == 0 {
            return first;
        }
        let slots = std::iter::successors(Some(first), |slot| first_bad(timeline, slot + 1, until));
        let failures: Vec<(usize, u64)> = slots.map(|slot| (slot, timeline.bad_between(slot, slot + 1))).collect();
        onset(&failures, until, self.usual.per_s * timeline.slot_s()).unwrap_or(first)
    }

    /// Returns the slot after the last sign of a disturbance, each of whose signs follows the
    /// previous one within a hold.
    fn last_of(&self, timeline: &Timeline, [first, until]: [usize; 2]) -> usize {
        let mut end = first + 1;
        loop {
            let near = (end + self.hold).min(until);
            let silence = self.silences.iter().find(|silence| silence.until > end && silence.from < near);
            let silent = silence.map(|silence| silence.until.min(until));
            let fails = timeline.bad_between(end, near) > self.failures;
            let counts = [timeline.failed(), timeline.wrong()].into_iter().filter(|_| fails);
            let failing = counts.filter_map(|counts| counts.last_in(end, near)).map(|slot| slot + 1);
            match failing.chain(silent).max() {
                // A silence may last beyond the stretch, whose end is the limit.
                Some(later) if later > end => end = later,
                _ => return end,
            }
        }
    }

    /// Returns start and end of each disturbance between two times of a load without faults, by its
    /// signs alone. A disturbance at the start of the load is left out.
    pub fn spells(
        timeline: &Timeline,
        latency: &LatencySeconds,
        [from_s, until_s]: [f64; 2],
        changes: bool,
    ) -> Vec<[f64; 2]> {
        let usual = Self::of(timeline, latency, [from_s, until_s], &[], changes);
        let (mut next, until) = (timeline.slot_of(from_s), timeline.slot_of(until_s));
        let mut found = Vec::new();
        while let Some(first) = usual.first(timeline, [next, until]).filter(|_| found.len() < LISTED) {
            next = usual.last_of(timeline, [first, until]);
            found.push([timeline.at_s(first), timeline.at_s(next)]);
        }
        found.retain(|[at_s, _]| *at_s >= STARTED_S);
        found
    }
}

fn first_bad(timeline: &Timeline, from: usize, until: usize) -> Option<usize> {
    [timeline.failed(), timeline.wrong()].into_iter().filter_map(|counts| counts.first_in(from, until)).min()
}

fn within([from_s, until_s]: [f64; 2], at_s: f64) -> bool {
    (from_s..until_s).contains(&at_s)
}

/// Returns silences that neither chance nor the usual silences of the load explain. A silence
/// without a failure next to it counts if it lasts at least `alone_s`, and never if `alone_s` is
/// `None`.
fn unusual(
    timeline: &Timeline,
    [from, until]: [usize; 2],
    usual: UsualFailures,
    faulty: &[[f64; 2]],
    alone_s: Option<f64>,
) -> Vec<UnusualSilence> {
    let ok = timeline.ok().between(from, until);
    if ok == 0 {
        return Vec::new();
    }
    let slot_s = timeline.slot_s();
    let ok_per_slot = ok as f64 / (until - from) as f64;
    let all: Vec<[usize; 2]> = timeline.ok().silences(from, until).collect();
    let own = all.iter().filter(|[begin, _]| !faulty.iter().any(|span| within(*span, timeline.at_s(*begin))));
    let mut lengths: Vec<usize> = own.map(|silence| silence[1] - silence[0]).collect();
    lengths.sort_unstable();
    let around = timeline.slots_in(AROUND_S);
    let mut unusual = Vec::new();
    for [begin, end] in all {
        let length = end - begin;
        let sides = [[begin.saturating_sub(around).max(from), begin], [end, (end + around).min(until)]];
        let beside: u64 = sides.iter().map(|[from, until]| timeline.ok().between(*from, *until)).sum();
        let slots: usize = sides.iter().map(|[from, until]| until.saturating_sub(*from)).sum();
        let there = beside as f64 / slots.max(1) as f64;
        // A slightly lower rate may be chance, so the rate of the load is used instead.
        let rate = if there < ok_per_slot / 2.0 { there } else { ok_per_slot };
        let by_chance = (ok as f64 / CHANCE).ln() / rate;
        let failures_beside =
            timeline.bad_between(begin.saturating_sub(1), end + 1) > usual.most((length + 2) as f64 * slot_s);
        // Shortest possible length of the silence, given the clock errors of the recording
        // processes.
        let sure = length.saturating_sub(timeline.unsure()) as f64;
        let is_long = alone_s.is_some_and(|alone_s| sure * slot_s >= alone_s);
        if sure > by_chance && (failures_beside || (is_long && !recurs(length, &lengths, ok as f64, ok_per_slot))) {
            let long = alone_s.filter(|_| !failures_beside).map_or(0.0, |alone_s| alone_s / slot_s);
            let shown = begin + by_chance.max(long).ceil() as usize + timeline.unsure();
            unusual.push(UnusualSilence { from: begin, until: end, shown: shown.min(end) });
        }
    }
    unusual
}

/// Whether the load has more silences of nearly this length than chance makes. `lengths` are those
/// of all silences outside of faulty times, in ascending order.
fn recurs(length: usize, lengths: &[usize], ok: f64, ok_per_slot: f64) -> bool {
    let near = length.div_ceil(FAR_LONGER);
    // The silence itself is among the nearly equal ones, unless it is in a faulty time.
    let others = (lengths.len() - lengths.partition_point(|&other| other < near)).saturating_sub(1);
    let chance = ok * (-ok_per_slot * near as f64).exp();
    others as f64 >= RECURRING + chance + 3.0 * chance.sqrt()
}

/// A stretch of time without a fault.
pub(crate) struct FaultlessStretch {
    /// Start of the time that no fault explains.
    pub from_s: f64,
    /// End of the time that no fault explains.
    pub until_s: f64,
    /// End of the time in which operations are counted: `until_s`, or the end of the drain.
    pub counted_until_s: f64,
    /// Timeout of the operations.
    pub timeout_s: f64,
    /// Time for which service must have been back before it serves as a baseline.
    pub settled_s: f64,
}

/// Returns the disturbances of a stretch of time without a fault, and the time from which service
/// serves as a baseline again (`None` if the last disturbance was not over).
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
            usual_failures_per_s: usual.failures_per_s(),
        };
        let mut felt = outage(timeline, &evidence.load.latency, times);
        if felt.baseline_per_s.is_none() {
            // Without a baseline, the disturbance ends with its last sign.
            let end_s = timeline.at_s(usual.last_of(timeline, [first, until]));
            let counted_until_s = end_s + timeline.slot_s();
            felt = outage(timeline, &evidence.load.latency, FaultTimes { until_s: end_s, counted_until_s, ..times });
            next = timeline.slot_of(end_s);
        } else {
            next = felt.back_to_baseline_s.map_or(until, |back_s| timeline.slot_of(at_s + back_s));
        }
        felt.memory_released_bytes = evidence.sampled.memory_released_bytes(at_s, crate::faults::MEMORY_WITHIN_S);
        found.push(Disturbance { at_s, outage: felt, ..Disturbance::default() });
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

/// Smallest drop of throughput that counts, as a logarithm: 15 %.
const SLOWER: f64 = 0.1625;

/// Smallest rise of a latency that counts, as a logarithm: to 1.5 times.
const LONGER: f64 = 0.405;

/// Number of operations that a bin of throughput should hold.
const BIN_OPERATIONS: f64 = 30.0;

/// Standard deviation of the logarithm of a latency that is rounded to a coarse step.
const STEP: f64 = 0.045;

/// Number of bins on either side of a phase that show the usual level: half an hour of seconds.
const NEAR: usize = 1_800;

/// Quantiles of latency that are examined. A stall of a fifth of a second changes neither.
const LATENCIES: [f64; 2] = [0.5, 0.75];

/// Share of the operations that must take longer than usual. In a mix of fast and slow kinds of
/// operations, a quantile between the two jumps from one to the other if there are a few more slow
/// ones.
const MOVED: f64 = 0.1;

/// Share of the usual throughput below which the drop is reported.
pub(crate) const TOLD_LOWER: f64 = 0.95;

/// Multiple of the usual latency above which the rise is reported.
pub(crate) const TOLD_HIGHER: f64 = 1.1;

/// Adds slow phases to the disturbances of a trial. Effects of outages and faults are left out.
pub(crate) fn with_slow_phases(
    mut found: Vec<Disturbance>,
    faults: &[Fault],
    evidence: &Evidence,
    timeline: &Timeline,
    window: &LoadWindow,
    timeout_s: f64,
) -> Vec<Disturbance> {
    let mut outages: Vec<[f64; 2]> =
        found.iter().map(|one| [one.at_s, one.at_s + counted_s(&one.outage) + HOLD_S]).collect();
    for fault in faults {
        let Some(felt) = &fault.outage else { continue };
        let horizon_s = horizon_s(fault.at_s, fault.healed_s, timeout_s);
        outages.push([fault.at_s, (fault.at_s + counted_s(felt) + HOLD_S).max(horizon_s)]);
    }
    let load = SlowLoad::of(timeline, &evidence.load.latency, [window.from_s, window.until_s], &outages);
    found.extend(load.into_iter().flat_map(|load| load.disturbances()));
    found.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    found
}

/// Returns the time for which an outage lasts, with its overshoot; infinite if service was not
/// back.
fn counted_s(felt: &Outage) -> f64 {
    let back_s = felt.back_to_baseline_s.map(|back_s| back_s.max(felt.overshoot_until_s.unwrap_or(0.0)));
    back_s.or(felt.last_failure_s.filter(|_| felt.baseline_per_s.is_none())).unwrap_or(f64::INFINITY)
}

/// A load in bins of whole seconds, in which slow phases are searched.
struct SlowLoad<'a> {
    timeline: &'a Timeline,
    latency: &'a LatencySeconds,
    /// Start of the first bin, whole seconds since load start.
    from_s: f64,
    /// Length of a bin, seconds.
    bin_s: f64,
    /// Whether each bin is left out because of an outage or a fault.
    left_out: Vec<bool>,
}

impl<'a> SlowLoad<'a> {
    fn of(
        timeline: &'a Timeline,
        latency: &'a LatencySeconds,
        [from_s, until_s]: [f64; 2],
        outages: &[[f64; 2]],
    ) -> Option<Self> {
        let from_s = (from_s - 1e-6).ceil();
        let rate = timeline.ok_per_s(from_s, until_s).filter(|rate| *rate > 0.0)?;
        let bin_s = (BIN_OPERATIONS / rate).ceil().max(1.0);
        let bins = ((until_s - from_s + 1e-6) / bin_s).max(0.0) as usize;
        let begins_s = (0..bins).map(|bin| from_s + bin as f64 * bin_s);
        let left_out = begins_s
            .map(|at_s| outages.iter().any(|[begin_s, end_s]| at_s < *end_s && at_s + bin_s > *begin_s))
            .collect();
        Some(Self { timeline, latency, from_s, bin_s, left_out })
    }

    fn at_s(&self, bin: usize) -> f64 {
        self.from_s + bin as f64 * self.bin_s
    }

    fn slot(&self, bin: usize) -> usize {
        self.timeline.slot_of(self.at_s(bin))
    }

    /// Returns a figure of each bin; NaN if the bin is left out or lacks the figure.
    fn series(&self, figure: impl Fn(usize) -> Option<f64>) -> Vec<f64> {
        let figures =
            self.left_out.iter().enumerate().map(|(bin, left_out)| if *left_out { None } else { figure(bin) });
        figures.map(|figure| figure.unwrap_or(f64::NAN)).collect()
    }

    fn ok(&self, bin: usize) -> f64 {
        self.timeline.ok().between(self.slot(bin), self.slot(bin + 1)) as f64
    }

    fn disturbances(&self) -> Vec<Disturbance> {
        // Negated, so that slow bins have high values. An empty bin counts as half an operation,
        // because 0 has no logarithm.
        let rates = self.series(|bin| Some(-self.ok(bin).max(0.5).ln()));
        let counts: Vec<f64> =
            self.series(|bin| Some(self.ok(bin))).into_iter().filter(|count| count.is_finite()).collect();
        let by_chance = mean(&counts).unwrap_or(1.0).max(1.0).powf(-0.5);
        let mut phases = slow_phases(&rates, SLOWER, by_chance);
        let by_rate = phases.clone();
        for share in LATENCIES {
            let logs = self.series(|bin| {
                let between_s = [self.at_s(bin), self.at_s(bin + 1)];
                Some(self.latency.quantile_of(share, between_s, |_| true)?.ln())
            });
            let longer = slow_phases(&logs, LONGER, STEP);
            phases.extend(longer.into_iter().filter(|phase| self.has_moved(share, *phase)));
        }
        let phases = united(phases);
        let mut usual: Vec<bool> = self.left_out.iter().map(|is_left_out| !is_left_out).collect();
        for phase in &phases {
            usual[phase.from..phase.until].fill(false);
        }
        phases.iter().filter_map(|phase| self.disturbance(*phase, &by_rate, &usual)).collect()
    }

    /// Returns the range of bins around a phase that shows the usual level: up to [`NEAR`] on
    /// either side.
    fn near(&self, phase: SlowPhase) -> [usize; 2] {
        [phase.from.saturating_sub(NEAR), (phase.until + NEAR).min(self.left_out.len())]
    }

    fn bin_of(&self, at_s: f64) -> usize {
        ((at_s - self.from_s) / self.bin_s) as usize
    }

    /// Whether many more operations than usual are slow in a phase whose quantile is higher.
    /// Otherwise the quantile has only jumped between two kinds of operations.
    fn has_moved(&self, quantile: f64, phase: SlowPhase) -> bool {
        let (near, inner) =
            (self.near(phase).map(|bin| self.at_s(bin)), [phase.from, phase.until].map(|bin| self.at_s(bin)));
        let is_usual = |at_s| {
            let bin = self.bin_of(at_s);
            !self.left_out[bin] && !(phase.from..phase.until).contains(&bin)
        };
        let usual_ns = self.latency.quantile_of(quantile, near, is_usual);
        let Some((usual_ns, slow_ns)) = usual_ns.zip(self.latency.quantile_of(quantile, inner, |_| true)) else {
            return true;
        };
        let limit_ns = (usual_ns * slow_ns).sqrt();
        let over_inside = self.latency.share_over(limit_ns, inner, |_| true).unwrap_or(0.0);
        let over_usually = self.latency.share_over(limit_ns, near, is_usual).unwrap_or(0.0);
        over_inside - over_usually >= MOVED
    }

    /// Returns the disturbance, or `None` if neither throughput nor latency shows it over the whole
    /// phase.
    fn disturbance(&self, phase: SlowPhase, by_rate: &[SlowPhase], is_usual: &[bool]) -> Option<Disturbance> {
        let near = self.near(phase);
        let usual: Vec<f64> = (near[0]..near[1]).filter(|&bin| is_usual[bin]).map(|bin| self.ok(bin)).collect();
        let usual_per_s = mean(&usual)? / self.bin_s;
        // The first and the last bin of a longer phase may be only partly slow.
        let inner =
            if phase.until - phase.from > 3 { [phase.from + 1, phase.until - 1] } else { [phase.from, phase.until] };
        let longer = LATENCIES.map(|quantile| {
            let [near_s, inner_s] = [near, inner].map(|bins| bins.map(|bin| self.at_s(bin)));
            let usual_ns = self.latency.quantile_of(quantile, near_s, |at_s| is_usual[self.bin_of(at_s)])?;
            let slow_ns = self.latency.quantile_of(quantile, inner_s, |_| true)?;
            Some(LongerLatency { quantile, usual_ns, ratio: slow_ns / usual_ns })
        });
        let longer = longer.into_iter().flatten().find(|longer| longer.ratio.ln() >= LONGER).or(longer[0]);
        let of_rate = by_rate.iter().find(|other| other.from < phase.until && other.until > phase.from);
        let [at_s, end_s] = match (of_rate, longer) {
            (Some(phase), _) => self.edges_of_rate(*phase, usual_per_s),
            (None, Some(longer)) if self.bin_s <= 1.0 => {
                let limit_ns = longer.usual_ns * longer.ratio.sqrt();
                self.latency.edges([self.at_s(phase.from), self.at_s(phase.until)], limit_ns)
            }
            _ => [self.at_s(phase.from), self.at_s(phase.until)],
        };
        let [begin, end] = [self.timeline.slot_of(at_s), self.timeline.slot_of(end_s)];
        let long_s = end_s - at_s;
        let ok = self.timeline.ok().between(begin, end) as f64;
        let is_over = phase.until < self.left_out.len();
        let throughput_ratio = ok / long_s / usual_per_s;
        (throughput_ratio < TOLD_LOWER || longer.is_some_and(|longer| longer.ratio > TOLD_HIGHER)).then(|| {
            Disturbance {
                at_s,
                kind: DisturbanceKind::Slow,
                throughput_ratio: Some(throughput_ratio),
                latency_ratio: longer.map(|longer| longer.ratio),
                latency_quantile: longer.map(|longer| longer.quantile),
                outage: Outage {
                    baseline_per_s: Some(usual_per_s),
                    failed: self.timeline.failed().between(begin, end),
                    wrong: self.timeline.wrong().between(begin, end),
                    back_to_baseline_s: is_over.then_some(long_s),
                    degraded_s: Some(long_s),
                    lost_operations: Some(usual_per_s * long_s - ok),
                    ..Outage::default()
                },
            }
        })
    }

    /// Returns start and end of a phase of lower throughput, to the slot. Neither lies in a bin
    /// that is left out.
    fn edges_of_rate(&self, phase: SlowPhase, usual_per_s: f64) -> [f64; 2] {
        let (slot_s, ok) = (self.timeline.slot_s(), self.timeline.ok());
        let [begin, end] = [self.slot(phase.from), self.slot(phase.until)];
        let slow = (ok.between(begin, end) as f64).max(0.5) / (end - begin) as f64;
        let usual = usual_per_s * slot_s;
        let half = (end - begin) / 2;
        let bin = self.timeline.slots_in(self.bin_s);
        let [is_left_out_before, is_left_out_after] = [phase.from.checked_sub(1), Some(phase.until)]
            .map(|bin| bin.and_then(|bin| self.left_out.get(bin)).is_some_and(|out| *out));
        let first = if is_left_out_before { begin } else { begin.saturating_sub(bin) };
        let until = (begin + bin).min(begin + half);
        let at = change(|from, until| ok.between(from, until), [first, until], [usual, slow]);
        let load_end = self.slot(self.left_out.len());
        let last = if is_left_out_after { end } else { (end + bin).min(load_end) };
        let over = match end < load_end {
            true => change(|from, until| ok.between(from, until), [end - bin.min(half), last], [slow, usual]),
            false => end,
        };
        [self.timeline.at_s(at), self.timeline.at_s(over)]
    }
}

/// Rise of a latency quantile in a phase.
#[derive(Debug, Clone, Copy)]
struct LongerLatency {
    quantile: f64,
    usual_ns: f64,
    ratio: f64,
}

/// Merges phases that overlap or touch.
fn united(mut phases: Vec<SlowPhase>) -> Vec<SlowPhase> {
    phases.sort_by_key(|phase| phase.from);
    let mut united: Vec<SlowPhase> = Vec::new();
    for phase in phases {
        match united.last_mut().filter(|last| phase.from <= last.until) {
            Some(last) => last.until = last.until.max(phase.until),
            None => united.push(phase),
        }
    }
    united
}

#[cfg(test)]
mod tests;
