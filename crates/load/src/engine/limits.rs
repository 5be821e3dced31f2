//! The limits of this process and machine, held against the number of agents before anything starts. It must not change anything
//! but the soft limit on open files of this very process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Error;

/// Descriptors beside the agents' connections: standard streams, record files, probes, the lab's pipes.
const OTHERS: u64 = 128;
/// Linux's default, for where the setting cannot be read.
const DEFAULT_PORTS: (u32, u32) = (32768, 60999);

/// Checks that so many agents can connect to one address, with so many threads.
pub fn check(agents: u32, threads: u32) -> Result<(), Error> {
    files(agents, u64::from(agents) + u64::from(threads) + OTHERS)?;
    let (first, last) = port_range();
    let ports = last.saturating_sub(first) + 1;
    if agents > ports {
        return Err(Error::Ports { agents, ports });
    }
    Ok(())
}

fn files(agents: u32, needed: u64) -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    let enough = |bound: Option<u64>| bound.is_none_or(|bound| bound >= needed);
    if enough(limit.current) {
        return Ok(());
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if !enough(limit.maximum) || setrlimit(Resource::Nofile, raised).is_err() {
        return Err(Error::Files { agents, needed, limit: limit.maximum.or(limit.current).unwrap_or(needed) });
    }
    Ok(())
}

fn port_range() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut words = text.split_whitespace().map(str::parse);
    match (words.next(), words.next()) {
        (Some(Ok(first)), Some(Ok(last))) => (first, last),
        _ => DEFAULT_PORTS,
    }
}
