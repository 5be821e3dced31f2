//! Hosts and the machine over the load, from the samples of each second. It must not fill in what was not sampled.

use std::collections::BTreeSet;

use record::events::{Event, HostFigures, What};
use record::results::{Host, Machine};
use record::rows::THIS_MACHINE;

use crate::sampled::{HostSums, Mean, Sampled};

/// Every host of the lab, in its order, and any other that was sampled. Where hosts were made or reached, the machine that
/// makes the load is none of them.
pub(crate) fn hosts(events: &[Event], sampled: &Sampled) -> Vec<Host> {
    let mut names: Vec<&str> = ups(events).map(|(name, ..)| name).collect();
    let is_lab = is_lab(events);
    names.extend(sampled.hosts.iter().map(|host| host.name.as_str()).filter(|name| !(is_lab && *name == THIS_MACHINE)));
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    names.into_iter().map(|name| with_figures(host(name, sampled.host(name)), events)).collect()
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

fn host(name: &str, sums: Option<&HostSums>) -> Host {
    let name = name.to_owned();
    let Some(sums) = sums else { return Host { name, ..Host::default() } };
    Host {
        name,
        cpu_pct: sums.busy_pct.value(),
        target_cpu_pct: sums.target_busy_pct(),
        throttled_pct: sums.throttled_pct.value(),
        run_delay_pct: sums.run_delay_pct.value().or_else(|| sums.target_run_delay_pct()),
        load1_max: sums.load1_max,
        load5_max: sums.load5_max,
        load15_max: sums.load15_max,
        oom_kills: sums.oom_kills,
        io_wait_threads: sums.io_wait_threads,
        rss_max_bytes: sums.target_rss_max_bytes().map(|bytes| bytes as u64),
        disk_write_bytes: sums.disk_write_bytes,
        net_bytes: sums.net_bytes,
        ..Host::default()
    }
}

/// The machine that makes the load as a whole: the mean over its own rows that have a figure. Without a lab that is the one
/// host there is.
pub(crate) fn machine(events: &[Event], sampled: &Sampled) -> Machine {
    let is_lab = is_lab(events);
    let shares = events.iter().rev().find_map(|event| match &event.what {
        What::CpuShares { target_processes, other_processes, not_judged } => {
            Some((target_processes.clone(), other_processes.clone(), not_judged.clone()))
        }
        _ => None,
    });
    let (target_processes, other_processes, not_judged) = shares.unwrap_or_default();
    let mean_of = |figure: fn(&HostSums) -> Mean| {
        let of_machine = sampled.hosts.iter().filter(|host| !is_lab || host.name == THIS_MACHINE);
        of_machine.map(figure).reduce(Mean::with).and_then(|mean| mean.value())
    };
    Machine {
        iowait_pct: mean_of(|host| host.iowait_pct),
        steal_pct: mean_of(|host| host.steal_pct),
        strangers_cpu_pct: mean_of(|host| host.strangers_pct),
        other_processes,
        target_processes,
        not_judged,
    }
}

#[cfg(test)]
mod tests;
