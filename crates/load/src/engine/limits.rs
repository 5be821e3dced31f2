//! The limits of this process and machine, held against the number of agents before anything starts. It must not change anything
//! but the soft limit on open files of this very process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::script::Script;
use crate::Error;
use crate::protocols::Protocol;

/// Descriptors beside the agents' connections: standard streams, record files, probes, the lab's pipes.
const OTHERS: u64 = 128;
/// Linux's default, for where the setting cannot be read.
const DEFAULT_PORTS: (u32, u32) = (32768, 60999);

/// Checks that so many agents can connect to so many addresses, with so many threads.
pub fn check<P: Protocol>(script: &Script<P>) -> Result<(), Error> {
    let agents = script.agents;
    files(agents, u64::from(agents) + u64::from(script.threads) + OTHERS)?;
    let (first, last) = port_range();
    let ports = last.saturating_sub(first) + 1;
    // The kernel may give one port to several connections as long as they lead to different addresses.
    let to_one = (agents as usize).div_ceil(script.authorities.len().max(1));
    if to_one > ports as usize {
        return Err(Error::Ports { agents: u32::try_from(to_one).unwrap_or(agents), ports });
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
