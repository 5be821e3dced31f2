//! When operations start. Arithmetic on nanoseconds since load start, nothing else: no clock is read and no timer is set here.

pub mod closed;

/// Decides when an agent's operations are to start; latency counts from these moments.
pub trait Schedule {
    /// The intended start of the agent's first operation; agents count from 0.
    fn first_ns(&self, agent: u32) -> u64;

    /// The intended start of the operation after the one that was intended at `intended_ns` and ended at `ended_ns`.
    fn next_ns(&self, intended_ns: u64, ended_ns: u64) -> u64;

    /// No operation starts at or after this moment.
    fn end_ns(&self) -> u64;
}
