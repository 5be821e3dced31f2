//! What is read of a machine or host: a kind of figure each. It must not guess: what this kernel does not say is null; and it
//! must not know when it is read.

mod cpu;
mod disk;
mod load_average;
mod memory;
mod network;
mod out_of_memory;
mod pressure;

use record::rows::Sample;

use crate::sampling::Source;
pub use crate::sampling::{Endpoint, Probes, Sources};
pub(crate) use cpu::Ticks;
pub(crate) use memory::bytes as memory_bytes;

/// A kind of figure about the machine.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// One line.
    pub help: &'static str,
    pub(crate) make: fn() -> Box<dyn Probe>,
}

/// Every kind, sorted by name.
pub static KINDS: &[&Kind] = &[
    &cpu::KIND,
    &disk::KIND,
    &load_average::KIND,
    &memory::KIND,
    &network::KIND,
    &out_of_memory::KIND,
    &pressure::KIND,
];

/// Reads figures of the machine, or of a host that it plays. Counters are taken as differences from the reading before.
pub(crate) trait Probe: Send {
    /// Fills its fields of `host`; those that the kernel does not offer, or that need a reading before, stay empty.
    fn read(&mut self, source: &Source, interval_s: f64, host: &mut Sample);
}

/// How much a counter grew; `None` without a reading before, or if it was set back.
fn grown(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    now?.checked_sub(before?)
}

#[cfg(test)]
mod tests;
