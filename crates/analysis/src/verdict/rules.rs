//! The table of rules. Each is a pure function of a trial's facts; nothing here reads, and nothing decides what follows.

use experiment::plan::When;
use record::events::{Ending, What};

use super::Threshold::{From, Under};
use super::{Facts, Rule};

const NEVER: f64 = f64::INFINITY;
const NOT_BELOW: f64 = f64::NEG_INFINITY;

/// Lateness below this share of the median latency does not matter.
const LATE_SHARE: f64 = 0.1;

/// A generator that did not run for so long, microseconds, stood still: shorter ones are the scheduler's daily bread.
const STALL_US: f64 = 50_000.0;

/// All rules, sorted by name.
pub(crate) const RULES: &[Rule] = &[
    Rule { name: "coarse_cores", threshold: From { suspect: 1.0, void: NEVER }, weigh: coarse_cores },
    Rule { name: "cut_off", threshold: From { suspect: 1.0, void: NEVER }, weigh: cut_off },
    Rule { name: "dropped_starts", threshold: From { suspect: 0.1, void: 5.0 }, weigh: dropped_starts },
    Rule { name: "failed_connects", threshold: From { suspect: 1.0, void: NEVER }, weigh: failed_connects },
    Rule { name: "failed_fault", threshold: From { suspect: 1.0, void: 1.0 }, weigh: failed_fault },
    Rule { name: "few_operations", threshold: Under { suspect: 100.0, void: NOT_BELOW }, weigh: few_operations },
    Rule { name: "full_disk", threshold: From { suspect: 1.0, void: 1.0 }, weigh: full_disk },
    Rule { name: "generator_cpu", threshold: From { suspect: 90.0, void: 98.0 }, weigh: generator_cpu },
    Rule {
        name: "generator_lateness",
        threshold: From { suspect: 1_000.0, void: 50_000.0 },
        weigh: generator_lateness,
    },
    Rule { name: "generator_stall", threshold: From { suspect: 0.1, void: 5.0 }, weigh: generator_stall },
    Rule { name: "littles_law", threshold: From { suspect: 5.0, void: 20.0 }, weigh: littles_law },
    Rule { name: "lost_host", threshold: From { suspect: 1.0, void: NEVER }, weigh: lost_host },
    Rule { name: "lost_process", threshold: From { suspect: 1.0, void: NEVER }, weigh: lost_process },
    Rule { name: "missing_fault", threshold: From { suspect: 1.0, void: 1.0 }, weigh: missing_fault },
    Rule { name: "no_baseline", threshold: From { suspect: 1.0, void: NEVER }, weigh: no_baseline },
    Rule { name: "no_steady_state", threshold: From { suspect: 1.0, void: NEVER }, weigh: no_steady_state },
    Rule { name: "no_success", threshold: From { suspect: 1.0, void: NEVER }, weigh: no_success },
    Rule { name: "records_disagree", threshold: From { suspect: 1.0, void: NEVER }, weigh: records_disagree },
    Rule { name: "short_measurement", threshold: Under { suspect: 5.0, void: NOT_BELOW }, weigh: short_measurement },
    Rule { name: "stall_in_outage", threshold: From { suspect: 1.0, void: NEVER }, weigh: stall_in_outage },
    Rule { name: "steal", threshold: From { suspect: 2.0, void: 10.0 }, weigh: steal },
    Rule { name: "strangers", threshold: From { suspect: 10.0, void: 30.0 }, weigh: strangers },
    Rule { name: "torn_records", threshold: From { suspect: 1.0, void: NEVER }, weigh: torn_records },
    Rule { name: "unhealed_fault", threshold: From { suspect: 1.0, void: NEVER }, weigh: unhealed_fault },
    Rule { name: "unread_keys", threshold: From { suspect: 1.0, void: NEVER }, weigh: unread_keys },
];

type Weighed = Option<(f64, String)>;

/// A slow core runs at full speed until its quota of a period is used up: a job shorter than that is not slowed at all.
fn coarse_cores(facts: &Facts<'_>) -> Weighed {
    let period_us = facts.trial.emulated.as_ref()?.granularity_s? * 1e6;
    let median_us = facts.trial.latency_us?.p50?;
    let (period_ms, median_ms) = (period_us / 1e3, median_us / 1e3);
    let what = format!(
        "the median latency, {median_ms:.1} ms, is below the {period_ms:.0} ms over which the emulated cores are slow: a job that \
         short runs at the full speed of this machine"
    );
    Some((period_us / median_us, what))
}

fn cut_off(facts: &Facts<'_>) -> Weighed {
    let last_s = facts.evidence.last_s().unwrap_or(0.0);
    let why = |reason: Option<&str>| reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let reason = match facts.evidence.ending() {
        Some((Ending::Done, _)) => return None,
        Some((Ending::Interrupted, reason)) => format!("it was interrupted at {last_s:.1} s{}", why(reason)),
        Some((Ending::Failed, reason)) => format!("it failed at {last_s:.1} s{}", why(reason)),
        None => format!("its records end in the middle, at {last_s:.1} s"),
    };
    Some((1.0, reason))
}

fn dropped_starts(facts: &Facts<'_>) -> Weighed {
    let dropped = facts.trial.generator.dropped? as f64;
    let outcomes = facts.trial.outcomes;
    let ended = outcomes.ok + outcomes.failed + outcomes.timeout + outcomes.wrong + outcomes.unfinished;
    let due = dropped + ended as f64;
    let pct = if due > 0.0 { 100.0 * dropped / due } else { return None };
    Some((pct, format!("the rate was not reached: {dropped:.0} operations ({pct:.1} %) were due and never started")))
}

fn failed_connects(facts: &Facts<'_>) -> Weighed {
    let first_fault_s = facts.window.and_then(|window| window.first_fault_s).unwrap_or(f64::INFINITY);
    let before = facts.evidence.generator.iter().filter(|row| row.at_s <= first_fault_s);
    let failed: u64 = before.map(|row| row.connect_failures).sum();
    let when = if first_fault_s.is_finite() { "before any fault" } else { "without a fault" };
    Some((failed as f64, format!("{failed} connects failed {when}: agents could not reach the target")))
}

fn failed_fault(facts: &Facts<'_>) -> Weighed {
    let (name, reason) = facts.trial.faults.iter().find_map(|fault| Some((&fault.name, fault.failed.as_ref()?)))?;
    Some((1.0, format!("fault `{name}` could not be injected: {reason}")))
}

fn few_operations(facts: &Facts<'_>) -> Weighed {
    let (timeline, window) = (facts.timeline?, facts.window?);
    let (from, until) = (timeline.slot_of(window.from_s), timeline.slot_of(window.until_s));
    let ended = timeline.ok().between(from, until)
        + timeline.failed().between(from, until)
        + timeline.wrong().between(from, until);
    Some((ended as f64, format!("only {ended} operations ended in the measured part; at least 100 are needed")))
}

fn full_disk(facts: &Facts<'_>) -> Weighed {
    let speaks_of_it = |text: &str| {
        let text = text.to_lowercase();
        text.contains("no space left") || text.contains("disk is full") || text.contains("disk full")
    };
    let said = facts.evidence.events.iter().find_map(|event| match &event.what {
        What::Notice { text } if speaks_of_it(text) => Some(text),
        What::Ended { reason: Some(reason), .. } if speaks_of_it(reason) => Some(reason),
        _ => None,
    })?;
    Some((1.0, format!("the disk of the run folder was full, so records are missing: {said}")))
}

fn generator_cpu(facts: &Facts<'_>) -> Weighed {
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

fn generator_lateness(facts: &Facts<'_>) -> Weighed {
    let late_us = facts.trial.generator.late_us_p99.filter(|_| is_paced(facts))?;
    let median_us = facts.trial.latency_us.and_then(|latency| latency.p50);
    if median_us.is_some_and(|median_us| late_us <= LATE_SHARE * median_us) {
        return None;
    }
    let late_ms = late_us / 1e3;
    let what = "operations started late by";
    Some((
        late_us,
        format!("{what} {late_ms:.1} ms (99th percentile of the worst second): the generator was short of CPU"),
    ))
}

/// Seconds of the measured part in which the generator stood still: their end and for how long, microseconds. Only where no
/// operation waits for a timer; there a late timer shows just that.
fn stalls(facts: &Facts<'_>) -> Vec<(f64, f64)> {
    let Some(window) = facts.window.filter(|_| !is_paced(facts)) else { return Vec::new() };
    let measured = |at_s: f64| at_s > window.from_s && at_s <= window.until_s;
    let seconds = facts.evidence.generator.iter().filter(|second| measured(second.at_s));
    seconds
        .filter_map(|second| Some((second.at_s, second.late_us_max.filter(|late_us| *late_us >= STALL_US)?)))
        .collect()
}

/// In percent of the measured time: a tenth of a percent reaches what p99.9 says.
fn generator_stall(facts: &Facts<'_>) -> Weighed {
    let stalls = stalls(facts);
    let longest_ms = stalls.iter().map(|(_, late_us)| late_us / 1e3).max_by(f64::total_cmp)?;
    let length_s = facts.window?.length_s();
    let pct = stalls.iter().map(|(_, late_us)| late_us / 1e6).sum::<f64>() / length_s * 100.0;
    let what = "the generator stood still for";
    Some((
        pct,
        format!("{what} {pct:.1} % of the time ({longest_ms:.0} ms at worst): short of CPU, so that answers seem late"),
    ))
}

fn stall_in_outage(facts: &Facts<'_>) -> Weighed {
    let felt = |at_s: f64| {
        facts.trial.faults.iter().any(|fault| {
            let back_s = fault.outage.as_ref().and_then(|outage| outage.back_to_baseline_s);
            at_s > fault.at_s && at_s - 1.0 <= fault.at_s + back_s.unwrap_or(f64::INFINITY)
        })
    };
    let (at_s, late_us) = stalls(facts).into_iter().find(|(at_s, _)| felt(*at_s))?;
    let late_ms = late_us / 1e3;
    Some((
        1.0,
        format!(
            "the generator stood still for {late_ms:.0} ms near {at_s:.0} s, while a fault was felt: its outage may be shorter"
        ),
    ))
}

fn littles_law(facts: &Facts<'_>) -> Weighed {
    let pct = facts.trial.generator.littles_law_error_pct?;
    Some((
        pct,
        format!("the generator's books are off by {pct:.1} %: operations in flight do not match rate times latency"),
    ))
}

fn lost_host(facts: &Facts<'_>) -> Weighed {
    let (name, at_s) = facts.evidence.events.iter().find_map(|event| match &event.what {
        What::HostDown { host, expected: false } => Some((host, event.at_s)),
        _ => None,
    })?;
    Some((1.0, format!("the host {name} was lost at {at_s:.1} s although nobody meant it to be")))
}

fn lost_process(facts: &Facts<'_>) -> Weighed {
    let (name, how, at_s) = facts.evidence.events.iter().find_map(|event| match &event.what {
        What::ProcessDown { host, process, how, expected: false } => {
            Some((format!("{host}.{process}"), how, event.at_s))
        }
        _ => None,
    })?;
    Some((1.0, format!("the target's process {name} ended at {at_s:.1} s although nobody meant it to ({how})")))
}

fn missing_fault(facts: &Facts<'_>) -> Weighed {
    // Where the trial was cut short, that is reason enough.
    let ended = matches!(facts.evidence.ending(), Some((Ending::Done, _)));
    let missing = facts.planned.faults.iter().find(|planned| {
        let scheduled = !planned.standing && matches!(planned.when, When::At(_) | When::Every { .. });
        scheduled && !facts.trial.faults.iter().any(|fault| fault.name == planned.name)
    });
    let name = &missing.filter(|_| ended)?.name;
    Some((1.0, format!("fault `{name}` never began")))
}

fn no_baseline(facts: &Facts<'_>) -> Weighed {
    let without = |outage: &record::results::Outage| outage.baseline_per_s.is_none();
    let fault = facts.trial.faults.iter().find(|fault| fault.outage.as_ref().is_some_and(without))?;
    let (name, number) = (&fault.name, fault.number);
    Some((1.0, format!("fault `{name}` ({number}) began when there was no steady service to compare with")))
}

fn no_steady_state(facts: &Facts<'_>) -> Weighed {
    let steady = facts.window?.steady?;
    Some((
        f64::from(u8::from(!steady)),
        "throughput never became steady: it was still changing when the load ended or broke".to_owned(),
    ))
}

fn no_success(facts: &Facts<'_>) -> Weighed {
    facts.planned.load.as_ref()?;
    Some((f64::from(u8::from(facts.trial.outcomes.ok == 0)), "no operation succeeded".to_owned()))
}

fn records_disagree(facts: &Facts<'_>) -> Weighed {
    // A trial that was cut off has written one of the two further than the other.
    facts.evidence.ending()?;
    let outcomes = facts.trial.outcomes;
    let logged = outcomes.ok + outcomes.failed + outcomes.timeout + outcomes.wrong;
    let rows = facts.evidence.slots.iter();
    let counted: u64 =
        rows.map(|slot| [slot.ok, slot.failed, slot.timeout, slot.wrong].map(u64::from).iter().sum::<u64>()).sum();
    let what = format!("load.hlog holds {logged} operations and outcomes.csv {counted}: one of them is incomplete");
    Some((logged.abs_diff(counted) as f64, what))
}

fn short_measurement(facts: &Facts<'_>) -> Weighed {
    let length = facts.window?.length_s();
    Some((length, format!("only {length:.1} s were left to measure after the warm-up; at least 5 s are needed")))
}

fn steal(facts: &Facts<'_>) -> Weighed {
    let pct = facts.trial.machine.steal_pct?;
    Some((pct, format!("the hypervisor took {pct:.1} % of the CPU away")))
}

fn strangers(facts: &Facts<'_>) -> Weighed {
    let pct = facts.trial.machine.strangers_cpu_pct?;
    Some((pct, format!("processes that do not belong to the run used {pct:.0} % of the CPU")))
}

fn torn_records(facts: &Facts<'_>) -> Weighed {
    // Without an ending it is no wonder that they are torn.
    facts.evidence.ending()?;
    let torn = &facts.evidence.torn;
    Some((torn.len() as f64, format!("the last line was cut off in {}", torn.join(", "))))
}

fn unhealed_fault(facts: &Facts<'_>) -> Weighed {
    let said = facts.evidence.events.iter().find_map(|event| match &event.what {
        What::Notice { text } if text.contains("could not be healed") => Some(text),
        _ => None,
    })?;
    Some((1.0, said.clone()))
}

fn unread_keys(facts: &Facts<'_>) -> Weighed {
    let (keys, unread) = facts.evidence.events.iter().rev().find_map(|event| match event.what {
        What::Audit { keys, unread } => Some((keys, unread)),
        _ => None,
    })?;
    Some((unread as f64, format!("{unread} of {} audited keys could not be read back", keys + unread)))
}
