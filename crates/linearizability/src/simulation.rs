//! Histories for tests: of a correct register with random moments of effect, and with planted
//! violations.

use fastrand::Rng;

use crate::key_history::Linearizability;
use crate::operation::{Access, Operation, Status};

/// Returns the sentence and the operations of the proof of a violation. Panics at another verdict.
pub(crate) fn proof_of(found: Linearizability) -> (String, Vec<usize>) {
    let Linearizability::Violation(proof) = found else { panic!("{found:?}") };
    (proof.explanation.to_string(), proof.core)
}

/// Shape of a simulated history of one key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub processes: u32,
    pub operations: usize,
    pub reads: f64,
    pub swaps: f64,
    pub deletes: f64,
    /// Share of writing operations with unknown outcome.
    pub unknown: f64,
    /// Whether answers carry versions.
    pub versions: bool,
    /// Number of values, or 0 for values that are written once.
    pub values: u64,
    /// Greatest duration. The pause between two operations of a process is up to as long.
    pub duration_ns: i64,
}

impl Shape {
    pub const PLAIN: Self = Self {
        processes: 4,
        operations: 100,
        reads: 0.5,
        swaps: 0.0,
        deletes: 0.0,
        unknown: 0.0,
        versions: false,
        values: 0,
        duration_ns: 100,
    };
}

/// Makes a correct history of one key, sorted by the moments of effect.
pub(crate) fn correct_history(shape: Shape, key: u64, rng: &mut Rng) -> Vec<Operation> {
    let mut free_at = vec![0_i64; shape.processes.max(1) as usize];
    let mut planned: Vec<(i64, Operation, bool)> = Vec::with_capacity(shape.operations);
    for _ in 0..shape.operations {
        let process = rng.u32(0..shape.processes.max(1));
        let start = free_at[process as usize] + rng.i64(1..=shape.duration_ns);
        let end = start + rng.i64(0..=shape.duration_ns);
        free_at[process as usize] = end;
        let access = random_access(shape, rng);
        let is_unknown = !matches!(access, Access::Read { .. }) && rng.f64() < shape.unknown;
        let mut effect = rng.i64(start..=end);
        let mut happens = true;
        if is_unknown {
            happens = rng.bool();
            effect = start + rng.i64(0..=shape.duration_ns * 6);
        }
        let (status, end_ns) = if is_unknown { (Status::Unknown, None) } else { (Status::Applied, Some(end)) };
        let operation = Operation { process, key, start_ns: start, end_ns, access, status, version: None };
        planned.push((effect, operation, happens));
    }
    planned.sort_by_key(|(effect, ..)| *effect);
    play(shape, planned, rng)
}

fn random_access(shape: Shape, rng: &mut Rng) -> Access {
    let kind = rng.f64();
    if kind < shape.reads {
        Access::Read { value: None }
    } else if kind < shape.reads + shape.swaps {
        Access::CompareAndSet { from: None, to: None }
    } else if kind < shape.reads + shape.swaps + shape.deletes {
        Access::Delete
    } else {
        Access::Write { value: 0 }
    }
}

/// Lets the operations take effect one after the other.
fn play(shape: Shape, planned: Vec<(i64, Operation, bool)>, rng: &mut Rng) -> Vec<Operation> {
    let (mut state, mut version, mut written) = (None, 0, 0);
    let mut past = vec![None];
    let mut history = Vec::with_capacity(planned.len());
    for (_, mut operation, happens) in planned {
        written += 1;
        let fresh = if shape.values == 0 { written } else { rng.u64(0..shape.values) };
        let mut change = None;
        match &mut operation.access {
            Access::Read { value } => {
                *value = state;
                operation.version = (shape.versions && state.is_some()).then_some(version);
            }
            Access::Write { value } => {
                *value = fresh;
                change = Some(Some(fresh));
            }
            Access::Delete => change = Some(None),
            Access::CompareAndSet { from, to } => {
                *from = if rng.f64() < 0.7 { state } else { past[rng.usize(0..past.len())] };
                *to = Some(fresh);
                if *from == state {
                    change = Some(Some(fresh));
                } else if operation.status == Status::Applied {
                    operation.status = Status::Unequal;
                }
            }
        }
        if let Some(after) = change.filter(|_| happens) {
            (state, version) = (after, version + 1);
            past.push(after);
            operation.version = (shape.versions && operation.status == Status::Applied).then_some(version);
        }
        history.push(operation);
    }
    history
}

/// Kind of a planted violation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Plant {
    /// A read returns a value that had been overwritten before it started.
    StaleRead,
    /// A write that was acknowledged has no effect.
    LostWrite,
    /// Two reads of one process see two writes in the wrong order.
    Reordering,
    /// Two clients each see only their own writes for some time.
    SplitBrain,
}

pub(crate) const PLANTS: [Plant; 4] = [Plant::StaleRead, Plant::LostWrite, Plant::Reordering, Plant::SplitBrain];

/// Returns operations that together violate linearizability of a key after `start_ns`. Their values
/// begin at `value`, which nothing else writes.
pub(crate) fn planted(plant: Plant, key: u64, start_ns: i64, value: u64) -> Vec<Operation> {
    let at = |process, from: i64, to: i64, access| Operation {
        process,
        key,
        start_ns: start_ns + from,
        end_ns: Some(start_ns + to),
        access,
        status: Status::Applied,
        version: None,
    };
    let write = |process, from, to, offset| at(process, from, to, Access::Write { value: value + offset });
    let read = |process, from, to, offset| at(process, from, to, Access::Read { value: Some(value + offset) });
    match plant {
        Plant::StaleRead => vec![write(0, 0, 10, 0), write(1, 20, 30, 1), read(2, 40, 50, 0)],
        Plant::LostWrite => {
            vec![write(0, 0, 10, 0), read(1, 12, 18, 0), write(0, 20, 30, 1), read(2, 40, 50, 0), read(1, 60, 70, 0)]
        }
        Plant::Reordering => {
            vec![write(0, 0, 100, 0), write(1, 20, 30, 1), read(2, 40, 50, 1), read(2, 60, 70, 0), read(2, 110, 120, 1)]
        }
        Plant::SplitBrain => vec![
            write(0, 0, 10, 0),
            write(1, 0, 10, 1),
            read(0, 20, 30, 0),
            read(1, 20, 30, 1),
            read(0, 40, 50, 0),
            read(1, 40, 50, 1),
        ],
    }
}
