//! The limits of this process and machine, held against the number of connections before anything starts. It must not change anything
//! but the limit on open files of this very process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::script::Script;
use crate::Error;
use crate::protocols::Protocol;

/// Descriptors beside the agents' connections: standard streams, record files, probes, the lab's pipes.
const OTHERS: u64 = 128;
/// Of an agent that runs programs: both ends of its socket, the program, both ends of three pipes.
const OF_PROGRAM: u64 = 9;
/// Linux's default, for where the setting cannot be read.
const DEFAULT_PORTS: (u32, u32) = (32768, 60999);

/// Checks that there may be so many connections, with so many threads.
pub fn check<P: Protocol>(script: &Script<P>) -> Result<(), Error> {
    let connections = script.places.connections;
    let each = if P::RUNS_PROGRAMS { OF_PROGRAM } else { 1 };
    files(script.agents, u64::from(connections) * each + u64::from(script.threads) + OTHERS)
}

fn files(agents: u32, needed: u64) -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    let is_enough = |bound: Option<u64>| bound.is_none_or(|bound| bound >= needed);
    if is_enough(limit.current) {
        return Ok(());
    }
    // Whoever may (root, mostly) goes beyond the hard limit, no farther than needed: what is started from here inherits it.
    let maximum = if is_enough(limit.maximum) { limit.maximum } else { Some(needed) };
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    raised.map_err(|_| Error::Files { agents, needed, limit: limit.maximum.or(limit.current).unwrap_or(needed) })
}

/// Local ports that the kernel hands out, for each local address and each service.
pub fn ports() -> u32 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut words = text.split_whitespace().map(str::parse);
    let (first, last) = match (words.next(), words.next()) {
        (Some(Ok(first)), Some(Ok(last))) => (first, last),
        _ => DEFAULT_PORTS,
    };
    last.saturating_sub(first) + 1
}
