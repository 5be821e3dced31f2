//! Rules about the generator: whether it kept up, and what prevented it from running.

use experiment::plan;
use record::results::FigureClass::{
    self, Counts, ExtremeLatency, HostFigures, MedianLatency, Outages, TailLatency, Throughput, UpperLatency,
};
use record::rows::GeneratorSecond;
use text::numbers;

use super::{Evaluation, RuleInput, has_other_points};
use crate::generator::lateness_pct;
use crate::verdict::UNPACKING_PCT;
use crate::verdict::figures::{class_of, quantiles};

/// Share of the median latency up to which lateness does not matter, for records that lack the
/// effect of lateness.
const LATE_SHARE: f64 = 0.1;

/// Lateness from which a trial is suspect, microseconds; for records that lack the effect of
/// lateness.
const LATE_US: f64 = 1_000.0;

/// Lateness from which a trial is void, microseconds; for records that lack the effect of lateness.
const VERY_LATE_US: f64 = 50_000.0;

/// Shortest time without running that counts as a stall, microseconds. Shorter ones are normal
/// scheduling.
const STALL_US: f64 = 50_000.0;

/// Shortest stall if operations wait for timers, microseconds. Shorter ones show in their lateness.
const PACED_STALL_US: f64 = 200_000.0;

/// Largest distance between rows of the same second, seconds.
const SAME_SECOND_S: f64 = 0.25;

/// CPU use of a target's thread over the measured part from which it has no time left, percent of a
/// core. By the utilization law (Denning and Buzen 1978) the thread's throughput is then within a
/// twentieth of its maximum, even if other threads are busy too.
const TARGET_FULL_PCT: f64 = 95.0;

/// Highest figure of the rule `generator_cpu` that is suspect and not void.
const GENERATOR_SUSPECT_PCT: f64 = 97.9;

pub(super) fn dropped_starts(facts: &RuleInput<'_>) -> Evaluation {
    let dropped = facts.trial.generator.dropped? as f64;
    let outcomes = facts.trial.outcomes;
    let ended = outcomes.ok + outcomes.failed + outcomes.timeout + outcomes.wrong + outcomes.unfinished;
    // The mean takes sessions of all groups as equally long.
    let sessions = facts.planned.load.as_ref().and_then(operations_of_a_session);
    let (things, each) = sessions.map_or(("operations", 1.0), |each| ("sessions", each));
    let due = dropped * each + ended as f64;
    let pct = if due > 0.0 { 100.0 * dropped * each / due } else { return None };
    Some((pct, format!("{dropped:.0} {things} ({pct:.1} %) were due but were dropped: the backlog was full")))
}

/// Returns the mean number of operations in a session, if a schedule starts sessions.
fn operations_of_a_session(load: &plan::Load) -> Option<f64> {
    let is_of_sessions = |load: &&plan::Load| load.rate.as_ref().is_some_and(plan::Rate::is_of_sessions);
    let each: Vec<f64> =
        load.populations().iter().filter(is_of_sessions).map(plan::Load::operations_per_cycle).collect();
    (!each.is_empty()).then(|| each.iter().sum::<f64>() / each.len() as f64)
}

pub(super) fn generator_cpu(facts: &RuleInput<'_>, class: FigureClass) -> Evaluation {
    let pct = facts.trial.generator.cpu_pct?;
    let what = "the generator's busiest thread used";
    if is_paced(facts) {
        return Some((
            pct,
            format!("{what} {pct:.0} % of a core: the generator, not the target, may have limited the load"),
        ))
        .filter(|_| class != HostFigures);
    }
    let target_pct = facts.trial.hosts.iter().filter_map(|host| host.busiest_thread_pct).fold(0.0, f64::max);
    let target_is_full = target_pct >= TARGET_FULL_PCT;
    let whose = match target_is_full {
        true => format!(", and the target's {target_pct:.0} %: throughput is the target's"),
        false => ": throughput is the generator's limit, and the target can do at least as much".to_owned(),
    };
    let what = format!("{what} {pct:.0} % of a core{whose}; part of the latency is waiting for the generator");
    match class {
        MedianLatency | UpperLatency | TailLatency | ExtremeLatency => Some((pct.min(GENERATOR_SUSPECT_PCT), what)),
        Throughput if !target_is_full && asks_what_the_target_can_do(facts) => Some((pct, what)),
        _ => None,
    }
}

/// Whether the run searches, compares loads or variants, or asks for a metric of throughput.
fn asks_what_the_target_can_do(facts: &RuleInput<'_>) -> bool {
    has_other_points(facts)
        || facts.run.plan.is_some_and(|plan| plan.metrics().any(|metric| class_of(metric) == Throughput))
}

/// Whether timers start operations, rather than the end of the previous operation.
fn is_paced(facts: &RuleInput<'_>) -> bool {
    facts.planned.load.as_ref().is_some_and(plan::Load::is_paced)
}

pub(super) fn generator_lateness(facts: &RuleInput<'_>, class: FigureClass) -> Evaluation {
    let trial = facts.trial;
    let Some(worst_pct) = trial.generator.lateness_effect_pct else { return lateness_estimate(facts) };
    let what = "of the latency is the generator's own lateness";
    let Some((all, punctual)) = trial.latency_us.as_ref().zip(trial.punctual_latency_us.as_ref()) else {
        return Some((worst_pct, format!("{worst_pct:.0} % {what}: it did not run when operations were due")));
    };
    let late = quantiles(class).iter().filter_map(|(name, of)| {
        let (all_us, punctual_us) = (of(all), of(punctual));
        Some((lateness_pct(all_us, punctual_us)?, name, all_us?, punctual_us?))
    });
    let (pct, name, all_us, punctual_us) = late.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let instead = format!("{name} would be {} instead of {}", numbers::micros(punctual_us), numbers::micros(all_us));
    Some((pct, format!("{pct:.0} % {what} ({instead}): it did not run when operations were due")))
}

/// Estimates the effect of lateness from the worst second, for records without this effect. The
/// estimate is rather too high than too low.
fn lateness_estimate(facts: &RuleInput<'_>) -> Evaluation {
    let late_us = facts.trial.generator.late_us_p99.filter(|_| is_paced(facts))?;
    let median_us = facts.trial.latency_us.as_ref().and_then(|latency| latency.p50);
    if late_us < LATE_US || median_us.is_some_and(|median_us| late_us <= LATE_SHARE * median_us) {
        return None;
    }
    let share = median_us.map_or(1.0, |median_us| late_us / (late_us + median_us));
    let pct = if late_us >= VERY_LATE_US { 100.0 } else { 100.0 * share.min(0.49) };
    let late_ms = late_us / 1e3;
    Some((pct, format!("operations started up to {late_ms:.1} ms behind schedule (p99 of the worst second)")))
}

/// A second in which an engine thread stalled.
#[derive(Debug, Clone, Copy)]
struct ThreadStall {
    /// End, seconds since load start.
    pub at_s: f64,
    /// Duration, microseconds.
    pub late_us: f64,
    /// Time within the stall in which the thread did not run, microseconds.
    pub idle_us: f64,
    /// Time within the stall in which the thread waited for a CPU, microseconds; `None` if the
    /// kernel does not report it.
    pub waited_us: Option<f64>,
}

/// Returns the seconds of the measured part in which the generator stalled, by its worst thread. If
/// operations wait for timers, a late timer on a busy thread only means too much work and is left
/// out.
fn stalls(facts: &RuleInput<'_>) -> Vec<ThreadStall> {
    let Some(window) = facts.window else { return Vec::new() };
    let is_paced = is_paced(facts);
    let shortest_us = if is_paced { PACED_STALL_US } else { STALL_US };
    let mut worst: Vec<ThreadStall> = Vec::new();
    for row in &facts.evidence.generator {
        let Some(late_us) = row.late_us_max.filter(|late_us| *late_us >= shortest_us) else { continue };
        // A timer that was due before the load's end may fire after it.
        let is_measured = row.at_s > window.from_s && row.at_s - late_us / 1e6 < window.until_s;
        let (idle_us, waited_us) = meanwhile(facts, row, late_us);
        if !is_measured || (is_paced && idle_us < late_us / 2.0) {
            continue;
        }
        let stall = ThreadStall { at_s: row.at_s, late_us, idle_us, waited_us };
        match worst.iter_mut().find(|other| (other.at_s - row.at_s).abs() < SAME_SECOND_S) {
            Some(other) if other.late_us >= late_us => {}
            Some(other) => *other = stall,
            None => worst.push(stall),
        }
    }
    worst
}

/// Returns for how long a row's thread did not run, and for how long it waited for a CPU,
/// microseconds. Covers all rows of the thread that a stall of length `late_us` may span.
fn meanwhile(facts: &RuleInput<'_>, row: &GeneratorSecond, late_us: f64) -> (f64, Option<f64>) {
    let from_s = row.at_s - row.interval_s - late_us / 1e6;
    // Rows are sorted by time.
    let rows = &facts.evidence.generator;
    let near = &rows[rows.partition_point(|other| other.at_s <= from_s - 2.0)..];
    let reached = near
        .iter()
        .take_while(|other| other.at_s <= row.at_s + 2.0)
        .filter(|other| other.thread == row.thread && other.at_s > from_s && other.at_s <= row.at_s);
    let mut idle_us = 0.0;
    let mut waited_us = Some(0.0);
    for other in reached {
        let percent_us = other.interval_s * 1e4;
        idle_us += percent_us * (100.0 - other.cpu_pct);
        waited_us = waited_us.zip(other.run_delay_pct).map(|(sum, pct)| sum + percent_us * pct);
    }
    (idle_us, waited_us)
}

pub(super) fn generator_stall(facts: &RuleInput<'_>, class: FigureClass) -> Evaluation {
    let stalls = stalls(facts);
    let longest = stalls.iter().max_by(|a, b| a.late_us.total_cmp(&b.late_us))?;
    let pct = stalls.iter().map(|stall| stall.late_us / 1e6).sum::<f64>() / facts.window?.length_s() * 100.0;
    let (longest_ms, at_s) = (longest.late_us / 1e3, longest.at_s);
    let why = match longest.waited_us {
        _ if longest.idle_us < longest.late_us / 2.0 => {
            "it was busy by itself, such as with very long requests or answers"
        }
        Some(waited_us) if waited_us < longest.late_us / 2.0 => {
            "it was not waiting for a CPU, so it or the whole machine was stopped"
        }
        Some(_) => "it was waiting for a CPU",
        None => "it was stopped, or waited for a CPU",
    };
    let what = format!(
        "the generator stalled for {pct:.1} % of the time ({longest_ms:.0} ms at worst, near {at_s:.0} s): {why}. The \
         target did not cause the latency and errors of that time"
    );
    let held_pct = if is_paced(facts) { pct } else { pct.min(held_pct(facts, stalls.len())?) };
    let counted = match class {
        Counts if fails_nothing(facts) => return None,
        MedianLatency | UpperLatency => above_a_percent(held_pct),
        TailLatency => held_pct / 2.0,
        ExtremeLatency => held_pct,
        Outages => pct,
        _ => above_a_percent(pct),
    };
    Some((counted, what))
}

/// Returns the operations that this number of stalls delayed, percent of those that succeeded. Each
/// stall delays one operation of every agent, because agents wait for answers.
fn held_pct(facts: &RuleInput<'_>, stalls: usize) -> Option<f64> {
    let agents = facts.planned.load.as_ref()?.agents;
    let ok = facts.trial.outcomes.ok.max(1);
    Some(100.0 * stalls as f64 * f64::from(agents) / ok as f64)
}

/// Whether no operation failed or timed out, so that a pause of the generator cannot have changed a
/// count.
fn fails_nothing(facts: &RuleInput<'_>) -> bool {
    facts.trial.outcomes.failed + facts.trial.outcomes.timeout == 0
}

/// Returns 0 for a share below 1 %, which is too small to change a mean or a median.
fn above_a_percent(pct: f64) -> f64 {
    if pct < 1.0 { 0.0 } else { pct }
}

pub(super) fn generator_throttled(facts: &RuleInput<'_>, class: FigureClass) -> Evaluation {
    let pct = facts.trial.generator.throttled_pct?;
    if class == Counts && fails_nothing(facts) {
        return None;
    }
    let counted = if [TailLatency, ExtremeLatency, Outages].contains(&class) { pct } else { above_a_percent(pct) };
    Some((
        counted,
        format!(
            "a CPU quota stopped the control group that Plimsoll runs in for {pct:.1} % of the time, summed over CPUs"
        ),
    ))
}

pub(super) fn littles_law(facts: &RuleInput<'_>) -> Evaluation {
    let pct = facts.trial.generator.littles_law_error_pct?;
    Some((
        pct,
        format!("the generator's counts are off by {pct:.1} %: operations in flight do not match rate times latency"),
    ))
}

pub(super) fn slow_feed(facts: &RuleInput<'_>) -> Evaluation {
    let feed = facts.trial.generator.feed?;
    let pct = feed.wait_pct?;
    let of = match facts.planned.load.as_ref().is_some_and(plan::Load::is_open) {
        true => "of the latency was waiting for the load's own feed",
        false => "of the agents' time was waiting for the load's own feed",
    };
    let read = match (feed.bytes_per_s, feed.read_pct) {
        (Some(bytes_per_s), Some(read_pct)) if read_pct < UNPACKING_PCT => format!(
            ": {} were read, and the reader was busy unpacking rather than waiting for its disk",
            numbers::by_metric("bytes_per_s", bytes_per_s)
        ),
        (Some(bytes_per_s), Some(read_pct)) => format!(
            ": {} delivered {}, and the reader waited for it {:.0} % of the time",
            feed_device(facts.planned),
            numbers::by_metric("bytes_per_s", bytes_per_s),
            read_pct
        ),
        _ => String::new(),
    };
    Some((pct, format!("{pct:.0} % {of}{read}")))
}

/// Returns the source of a feed: its disk, or the tier whose slow reads were emulated.
fn feed_device(planned: &plan::Trial) -> String {
    let mut feeds = planned.load.iter().flat_map(|load| &load.feeds);
    match feeds.find_map(|feed| feed.tier.as_ref().filter(|_| !feed.limits.is_none())) {
        Some(tier) => format!("the emulated tier `{tier}`"),
        None => "its disk".to_owned(),
    }
}

pub(super) fn stall_in_outage(facts: &RuleInput<'_>) -> Evaluation {
    let ThreadStall { at_s, late_us, .. } = stalls(facts).into_iter().find(|stall| {
        facts.trial.faults.iter().any(|fault| {
            let back_s = fault.outage.as_ref().and_then(|outage| outage.back_to_baseline_s);
            stall.at_s > fault.at_s && stall.at_s - 1.0 <= fault.at_s + back_s.unwrap_or(f64::INFINITY)
        })
    })?;
    let late_ms = late_us / 1e3;
    Some((
        1.0,
        format!(
            "the generator stalled for {late_ms:.0} ms near {at_s:.0} s, during an outage: the outage may be shorter than measured"
        ),
    ))
}
