//! The limit of this process on open files. Before a load starts, the number of its connections is
//! checked against this limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wire::session::SessionProtocol;

use super::script::Script;
use crate::Error;

/// Number of file descriptors besides the agents' connections: standard streams, record files,
/// probes, the lab's pipes.
const OTHERS: u64 = 128;
/// Number of file descriptors of an agent that runs programs: both ends of its socket, the program,
/// both ends of three pipes.
const OF_PROGRAM: u64 = 9;

/// Checks that the process may open the files that the load needs.
pub fn check<P: SessionProtocol>(script: &Script<P>) -> Result<(), Error> {
    let connections = script.places.connections_in(script.mine.clone()) + script.further_connections();
    let each = if P::RUNS_PROGRAMS { OF_PROGRAM } else { 1 };
    files(script.places.agents, u64::from(connections) * each + script.mine.len() as u64 + OTHERS)
}

fn files(agents: u32, needed: u64) -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    let is_enough = |bound: Option<u64>| bound.is_none_or(|bound| bound >= needed);
    if is_enough(limit.current) {
        return Ok(());
    }
    // A privileged process (mostly root) raises the hard limit, but only as far as needed, because
    // child processes inherit it.
    let maximum = if is_enough(limit.maximum) { limit.maximum } else { Some(needed) };
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    raised.map_err(|_| Error::Files { agents, needed, limit: limit.maximum.or(limit.current).unwrap_or(needed) })
}
