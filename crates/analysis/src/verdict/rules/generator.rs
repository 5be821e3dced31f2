//! Rules about the generator: whether what was measured is the target, or who measured it. Pure; the figures come from the trial.

use record::rows::GeneratorSecond;

use super::{Facts, Weighed};

/// Lateness below this share of the median latency does not matter.
const LATE_SHARE: f64 = 0.1;

/// A generator that did not run for so long, microseconds, stood still: shorter ones are the scheduler's daily bread.
const STALL_US: f64 = 50_000.0;

/// The same where operations wait for timers: shorter ones are in their lateness.
const PACED_STALL_US: f64 = 200_000.0;

/// Rows of one second may lie this far apart.
const SAME_SECOND_S: f64 = 0.25;

pub(super) fn dropped_starts(facts: &Facts<'_>) -> Weighed {
    let dropped = facts.trial.generator.dropped? as f64;
    let outcomes = facts.trial.outcomes;
    let ended = outcomes.ok + outcomes.failed + outcomes.timeout + outcomes.wrong + outcomes.unfinished;
    let due = dropped + ended as f64;
    let pct = if due > 0.0 { 100.0 * dropped / due } else { return None };
    Some((pct, format!("{dropped:.0} operations ({pct:.1} %) were due and were dropped: the backlog was full")))
}

pub(super) fn failed_connects(facts: &Facts<'_>) -> Weighed {
    let failed = failed_before_any_fault(facts);
    let others = failed.connects - failed.handshakes;
    let when = failed.when;
    Some((others as f64, format!("{others} connects failed {when}: agents could not reach the target")))
}

pub(super) fn failed_handshakes(facts: &Facts<'_>) -> Weighed {
    let failed = failed_before_any_fault(facts);
    let (handshakes, when) = (failed.handshakes, failed.when);
    let what = match failed.worst {
        Some("tls: bad certificate") => "its certificate is not one that is trusted",
        _ => "it speaks no TLS, or none that both sides know",
    };
    Some((handshakes as f64, format!("{handshakes} TLS handshakes failed {when}: the target was reached, but {what}")))
}

/// Results of attempts whose connection ended in the handshake, as `attempts.csv` names them. A `tls: broken` is of later.
const OF_HANDSHAKES: [&str; 4] =
    ["tls: bad certificate", "tls: closed in the handshake", "tls: handshake failed", "tls: refused by the target"];

/// Connects that failed before any fault.
struct FailedConnects<'a> {
    connects: u64,
    /// … of these by a handshake. Where agents share connections, several attempts fail by one: no more than failed connects.
    handshakes: u64,
    /// The result that most of the handshakes had.
    worst: Option<&'a str>,
    /// In words.
    when: &'static str,
}

fn failed_before_any_fault<'a>(facts: &Facts<'a>) -> FailedConnects<'a> {
    let first_fault_s = facts.window.and_then(|window| window.first_fault_s).unwrap_or(f64::INFINITY);
    let before = facts.evidence.generator.iter().filter(|row| row.at_s <= first_fault_s);
    let connects = before.map(|row| row.connect_failures).sum();
    let by = |result: &str| -> u64 {
        let rows = facts.evidence.attempts.iter().filter(|row| row.at_s <= first_fault_s && row.result == result);
        rows.map(|row| row.count).sum()
    };
    let counts = OF_HANDSHAKES.map(|result| (by(result), result));
    FailedConnects {
        connects,
        handshakes: counts.iter().map(|(count, _)| count).sum::<u64>().min(connects),
        worst: counts.into_iter().max().filter(|(count, _)| *count > 0).map(|(_, result)| result),
        when: if first_fault_s.is_finite() { "before any fault" } else { "without a fault" },
    }
}

pub(super) fn generator_cpu(facts: &Facts<'_>) -> Weighed {
    let pct = facts.trial.generator.cpu_pct?;
    let what = "the generator's busiest thread used";
    Some((
        pct,
        format!("{what} {pct:.0} % of a core: the load may have been held back by the generator, not by the target"),
    ))
}

/// Whether operations start when a timer says so, and not when the one before has ended.
fn is_paced(facts: &Facts<'_>) -> bool {
    facts.planned.load.as_ref().is_some_and(|load| load.rate.is_some() || load.think_s > 0.0)
}

pub(super) fn generator_lateness(facts: &Facts<'_>) -> Weighed {
    let late_us = facts.trial.generator.late_us_p99.filter(|_| is_paced(facts))?;
    let median_us = facts.trial.latency_us.and_then(|latency| latency.p50);
    if median_us.is_some_and(|median_us| late_us <= LATE_SHARE * median_us) {
        return None;
    }
    let late_ms = late_us / 1e3;
    let what = "operations started late by";
    Some((
        late_us,
        format!(
            "{what} {late_ms:.1} ms (99th percentile of the worst second): the generator did not run when they were due"
        ),
    ))
}

/// A second in which an engine thread stood still.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stall {
    /// Its end, seconds since load start.
    pub at_s: f64,
    /// For how long, microseconds.
    pub late_us: f64,
    /// How much of that it was waiting for a CPU, microseconds; `None` where the kernel does not say.
    pub waited_us: Option<f64>,
}

/// Seconds of the measured part in which the generator stood still, by its worst thread. Where operations wait for timers, a late
/// timer may also mean more work than time; then the thread was busy.
pub(super) fn stalls(facts: &Facts<'_>) -> Vec<Stall> {
    let Some(window) = facts.window else { return Vec::new() };
    let is_paced = is_paced(facts);
    let shortest_us = if is_paced { PACED_STALL_US } else { STALL_US };
    let mut worst: Vec<Stall> = Vec::new();
    for row in &facts.evidence.generator {
        let Some(late_us) = row.late_us_max.filter(|late_us| *late_us >= shortest_us) else { continue };
        // A timer that was due before the load's end may fire after it.
        let is_measured = row.at_s > window.from_s && row.at_s - late_us / 1e6 < window.until_s;
        let (idle_us, waited_us) = meanwhile(facts, row, late_us);
        if !is_measured || (is_paced && idle_us < late_us / 2.0) {
            continue;
        }
        let stall = Stall { at_s: row.at_s, late_us, waited_us };
        match worst.iter_mut().find(|other| (other.at_s - row.at_s).abs() < SAME_SECOND_S) {
            Some(other) if other.late_us >= late_us => {}
            Some(other) => *other = stall,
            None => worst.push(stall),
        }
    }
    worst
}

/// What a row's thread did in the seconds that a stall in it may reach back to: neither run nor wait, or only wait; microseconds.
fn meanwhile(facts: &Facts<'_>, row: &GeneratorSecond, late_us: f64) -> (f64, Option<f64>) {
    let from_s = row.at_s - row.interval_s - late_us / 1e6;
    // Rows come in the order of time, to within a second.
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

pub(super) fn generator_stall(facts: &Facts<'_>) -> Weighed {
    let stalls = stalls(facts);
    let longest = stalls.iter().max_by(|a, b| a.late_us.total_cmp(&b.late_us))?;
    let pct = stalls.iter().map(|stall| stall.late_us / 1e6).sum::<f64>() / facts.window?.length_s() * 100.0;
    let (longest_ms, at_s) = (longest.late_us / 1e3, longest.at_s);
    let why = match longest.waited_us {
        Some(waited_us) if waited_us < longest.late_us / 2.0 => {
            "it was not waiting for a CPU, so it had been stopped, or the whole machine had"
        }
        Some(_) => "it was waiting for a CPU",
        None => "it was stopped, or waited for a CPU",
    };
    let what = format!(
        "the generator stood still for {pct:.1} % of the time ({longest_ms:.0} ms at worst, near {at_s:.0} s): {why}. What clients \
         seem to have felt then is not the target's doing"
    );
    Some((pct, what))
}

pub(super) fn generator_preempted(facts: &Facts<'_>) -> Weighed {
    let pct = facts.trial.generator.preempted_pct?;
    let what = format!(
        "for {:.0} % of the time strangers ran on the generator's CPUs while it could have run: answers seem late that were \
         only not taken",
        // A second whose figures were read late holds more than a second of waiting.
        pct.min(100.0)
    );
    Some((pct, what))
}

pub(super) fn generator_throttled(facts: &Facts<'_>) -> Weighed {
    let pct = facts.trial.generator.throttled_pct?;
    Some((
        pct,
        format!(
            "a CPU quota stopped the control group that Plimsoll runs in for {pct:.1} % of the time, summed over CPUs"
        ),
    ))
}

pub(super) fn littles_law(facts: &Facts<'_>) -> Weighed {
    let pct = facts.trial.generator.littles_law_error_pct?;
    Some((
        pct,
        format!("the generator's books are off by {pct:.1} %: operations in flight do not match rate times latency"),
    ))
}
