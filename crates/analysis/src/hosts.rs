//! Hosts and the machine over the load, from the samples of each second. It must not fill in what was not sampled.

use std::collections::BTreeSet;

use record::events::{Event, HostFigures, What};
use record::results::{Host, Machine};
use record::rows::{Sample, THIS_MACHINE};

use crate::stats::order::{largest, mean};

/// `process` of the generator's own row.
pub(crate) const GENERATOR: &str = "generator";

/// Samples of one moment may lie this far apart.
const SAME_MOMENT_S: f64 = 0.25;

/// The samples whose second lies (for the most part) in the load.
pub(crate) fn during(samples: &[Sample], until_s: f64) -> Vec<&Sample> {
    between(samples, 0.0, until_s)
}

/// The samples whose second lies, for the most part, between two times.
pub(crate) fn between(samples: &[Sample], from_s: f64, until_s: f64) -> Vec<&Sample> {
    samples.iter().filter(|sample| (from_s + 0.5..=until_s + 0.5).contains(&sample.at_s)).collect()
}

/// Mean CPU of a host over these samples, percent of what its cores can do: of a host that was made, of its profile's cores at
/// their speed, `lab.speed` included.
pub(crate) fn cpu_pct(name: &str, samples: &[&Sample]) -> Option<f64> {
    let whole = samples.iter().copied().filter(|sample| sample.host == name && sample.process.is_empty());
    mean_of(&whole.collect::<Vec<_>>(), busy_pct)
}

/// Every host of the lab, in its order, and any other that was sampled. Where hosts were made or reached, the machine that
/// makes the load is none of them.
pub(crate) fn hosts(events: &[Event], samples: &[&Sample]) -> Vec<Host> {
    let mut names: Vec<&str> = ups(events).map(|(name, ..)| name).collect();
    let is_lab = is_lab(events);
    let sampled = samples.iter().map(|sample| sample.host.as_str());
    for name in sampled.filter(|name| !(is_lab && *name == THIS_MACHINE)) {
        names.push(name);
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    names.into_iter().map(|name| with_figures(host(name, samples), events)).collect()
}

/// Hosts that came up: name, and the rest of the event. One that was booted again is there more than once.
fn ups(events: &[Event]) -> impl Iterator<Item = (&str, &str, Option<&String>, &HostFigures)> {
    events.iter().filter_map(|event| match &event.what {
        What::HostUp { host, kind, profile, is } => Some((host.as_str(), kind.as_str(), profile.as_ref(), is)),
        _ => None,
    })
}

/// Whether the target ran on hosts other than the machine that makes the load.
fn is_lab(events: &[Event]) -> bool {
    ups(events).any(|(_, kind, ..)| kind != THIS_MACHINE)
}

/// What it got when it first came up.
fn with_figures(host: Host, events: &[Event]) -> Host {
    let found = ups(events).find(|(name, ..)| *name == host.name);
    let Some((_, kind, profile, figures)) = found else { return host };
    Host { kind: Some(kind.to_owned()), profile: profile.cloned(), figures: Some(figures.clone()), ..host }
}

fn host(name: &str, samples: &[&Sample]) -> Host {
    let of_host: Vec<&Sample> = samples.iter().copied().filter(|sample| sample.host == name).collect();
    let whole: Vec<&Sample> = of_host.iter().copied().filter(|sample| sample.process.is_empty()).collect();
    let target: Vec<&Sample> = of_host.iter().copied().filter(|sample| is_target(sample)).collect();
    let total =
        |value: fn(&Sample) -> Option<u64>| whole.iter().filter_map(|sample| value(sample)).reduce(|a, b| a + b);
    let highest = |value: fn(&Sample) -> Option<f64>| largest(whole.iter().filter_map(|sample| value(sample)));
    Host {
        name: name.to_owned(),
        cpu_pct: mean_of(&whole, busy_pct),
        target_cpu_pct: mean(&sums(&target, busy_pct)),
        throttled_pct: mean_of(&whole, |sample| sample.cpu_throttled_pct),
        run_delay_pct: mean_of(&whole, |sample| sample.run_delay_pct)
            .or_else(|| mean(&sums(&target, |sample| sample.run_delay_pct))),
        load1_max: highest(|sample| sample.load1),
        load5_max: highest(|sample| sample.load5),
        load15_max: highest(|sample| sample.load15),
        oom_kills: total(|sample| sample.oom_kills),
        io_wait_threads: whole.iter().filter_map(|sample| sample.io_wait_threads).max(),
        rss_max_bytes: largest(sums(&target, |sample| sample.rss_bytes.map(|bytes| bytes as f64)))
            .map(|bytes| bytes as u64),
        disk_write_bytes: total(|sample| sample.disk_write_bytes),
        net_bytes: total(|sample| match (sample.net_rx_bytes, sample.net_tx_bytes) {
            (None, None) => None,
            (received, sent) => Some(received.unwrap_or(0) + sent.unwrap_or(0)),
        }),
        ..Host::default()
    }
}

/// The machine that makes the load as a whole: the mean over its own rows that have a figure. Without a lab that is the one
/// host there is.
pub(crate) fn machine(events: &[Event], samples: &[&Sample]) -> Machine {
    let is_lab = is_lab(events);
    let of_machine = |sample: &&Sample| sample.process.is_empty() && (!is_lab || sample.host == THIS_MACHINE);
    let whole: Vec<&Sample> = samples.iter().copied().filter(of_machine).collect();
    let shares = events.iter().rev().find_map(|event| match &event.what {
        What::CpuShares { target_processes, other_processes, not_judged } => {
            Some((target_processes.clone(), other_processes.clone(), not_judged.clone()))
        }
        _ => None,
    });
    let (target_processes, other_processes, not_judged) = shares.unwrap_or_default();
    Machine {
        iowait_pct: mean_of(&whole, |sample| sample.cpu_iowait_pct),
        steal_pct: mean_of(&whole, |sample| sample.cpu_steal_pct),
        strangers_cpu_pct: mean_of(&whole, |sample| sample.cpu_strangers_pct),
        other_processes,
        target_processes,
        not_judged,
    }
}

/// Largest fall of the target's resident memory, all its processes together, from the last sample before `at_s` to the lowest
/// within `within_s` after it; 0 if it grew, `None` if it was not sampled on both sides.
pub(crate) fn memory_released_bytes(samples: &[Sample], at_s: f64, within_s: f64) -> Option<u64> {
    let target: Vec<&Sample> = samples.iter().filter(|sample| is_target(sample)).collect();
    let moments = moments(&target, |sample| sample.rss_bytes.map(|bytes| bytes as f64));
    let before = moments.iter().rfind(|(moment_s, _)| *moment_s < at_s)?.1;
    let after = moments.iter().filter(|(moment_s, _)| *moment_s >= at_s && *moment_s <= at_s + within_s);
    let lowest = after.map(|(_, bytes)| *bytes).min_by(f64::total_cmp)?;
    Some((before - lowest).max(0.0) as u64)
}

fn is_target(sample: &Sample) -> bool {
    !sample.process.is_empty() && sample.process != GENERATOR
}

fn busy_pct(sample: &Sample) -> Option<f64> {
    match (sample.cpu_user_pct, sample.cpu_system_pct) {
        (None, None) => None,
        (user, system) => Some(user.unwrap_or(0.0) + system.unwrap_or(0.0)),
    }
}

fn mean_of(samples: &[&Sample], value: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
    mean(&samples.iter().filter_map(|sample| value(sample)).collect::<Vec<_>>())
}

fn sums(samples: &[&Sample], value: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
    moments(samples, value).into_iter().map(|(_, sum)| sum).collect()
}

/// Each moment and the sum of a figure over the processes sampled then, in time order.
fn moments(samples: &[&Sample], value: impl Fn(&Sample) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut figures: Vec<(f64, f64)> =
        samples.iter().filter_map(|sample| Some((sample.at_s, value(sample)?))).collect();
    figures.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut moments: Vec<(f64, f64)> = Vec::new();
    for (at_s, figure) in figures {
        match moments.last_mut() {
            Some((moment_s, sum)) if at_s - *moment_s < SAME_MOMENT_S => *sum += figure,
            _ => moments.push((at_s, figure)),
        }
    }
    moments
}

#[cfg(test)]
mod tests;
