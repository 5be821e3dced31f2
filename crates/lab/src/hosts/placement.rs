//! Who runs where: the hosts of a lab held against this machine, worked out into an envelope for each and CPUs for the
//! clients; or why they do not fit. Pure. It must not touch the machine.

use experiment::plan;

use crate::Error;
use crate::runner::Envelope;

/// What of this machine matters to a lab.
#[derive(Debug, Clone, PartialEq)]
pub struct Room {
    /// CPUs that may be used, by number, ascending.
    pub cpus: Vec<u32>,
    /// Memory that is available, bytes.
    pub memory_bytes: u64,
}

/// Who runs where.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// CPUs that only the clients use; empty: they share all.
    pub generator_cpus: Vec<u32>,
    /// For each host of the lab, in its order.
    pub envelopes: Vec<Envelope>,
}

/// Places a lab's virtual hosts; an ssh host gets an envelope without limits.
///
/// # Errors
/// [`Error::DoesNotFit`], with the largest `lab.speed` that would.
pub fn place(lab: &plan::Lab, room: &Room) -> Result<Placement, Error> {
    let _ = room;
    Ok(Placement { generator_cpus: Vec::new(), envelopes: lab.hosts.iter().map(|_| Envelope::default()).collect() })
}
