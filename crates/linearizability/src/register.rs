//! Sequential model of a register with reads, writes and compare-and-set.

use crate::operation::{Act, Item};
use crate::search::SequentialModel;

/// Register whose states are the positions of the values in a sorted list.
#[derive(Debug)]
pub(crate) struct Register {
    values: Vec<u64>,
    acts: Vec<DenseAct>,
}

#[derive(Debug, Clone, Copy)]
enum DenseAct {
    Read(u32),
    Write(u32),
    Swap(u32, u32),
    Differs(u32),
}

impl Register {
    /// Makes the model of these operations. `others` are further values of the initial states.
    pub fn new(items: &[Item], others: impl Iterator<Item = u64>) -> Self {
        let mut values: Vec<u64> = others.collect();
        for item in items {
            match item.act {
                Act::Read(value) | Act::Write(value) | Act::Differs(value) => values.push(value),
                Act::Swap { from, to } => values.extend([from, to]),
            }
        }
        values.sort_unstable();
        values.dedup();
        let dense = |value: u64| values.partition_point(|other| *other < value) as u32;
        let acts = items.iter().map(|item| match item.act {
            Act::Read(value) => DenseAct::Read(dense(value)),
            Act::Write(value) => DenseAct::Write(dense(value)),
            Act::Swap { from, to } => DenseAct::Swap(dense(from), dense(to)),
            Act::Differs(value) => DenseAct::Differs(dense(value)),
        });
        let acts = acts.collect();
        Self { values, acts }
    }

    /// Returns the state in which the register has this value, which must be known to the model.
    pub fn state(&self, value: u64) -> u32 {
        self.values.partition_point(|other| *other < value) as u32
    }

    /// Returns the state of a value that no operation names.
    pub fn other_state(&self) -> u32 {
        self.values.len() as u32
    }

    /// Returns the value of a state, or `None` for the one that no operation names.
    pub fn value(&self, state: u32) -> Option<u64> {
        self.values.get(state as usize).copied()
    }

    /// Returns the values that operations name.
    pub fn values(&self) -> &[u64] {
        &self.values
    }
}

impl SequentialModel for Register {
    fn step(&mut self, state: u32, call: usize) -> Option<u32> {
        match self.acts[call] {
            DenseAct::Read(value) => (state == value).then_some(state),
            DenseAct::Write(value) => Some(value),
            DenseAct::Swap(from, to) => (state == from).then_some(to),
            DenseAct::Differs(value) => (state != value).then_some(state),
        }
    }

    fn observes(&self, call: usize) -> bool {
        match self.acts[call] {
            DenseAct::Read(_) | DenseAct::Differs(_) => true,
            DenseAct::Write(_) => false,
            DenseAct::Swap(from, to) => from == to,
        }
    }

    fn depends(&self, call: usize) -> bool {
        !matches!(self.acts[call], DenseAct::Write(_))
    }

    fn needs(&self, call: usize) -> Option<u32> {
        match self.acts[call] {
            DenseAct::Read(value) | DenseAct::Swap(value, _) => Some(value),
            DenseAct::Write(_) | DenseAct::Differs(_) => None,
        }
    }

    fn makes(&self, call: usize) -> Option<u32> {
        match self.acts[call] {
            DenseAct::Write(value) | DenseAct::Swap(_, value) => Some(value),
            DenseAct::Read(_) | DenseAct::Differs(_) => None,
        }
    }

    fn label(&self, call: usize) -> Option<u64> {
        match self.acts[call] {
            DenseAct::Write(value) => Some(u64::from(value)),
            DenseAct::Swap(from, to) => Some((u64::from(from) + 1) << 32 | u64::from(to)),
            DenseAct::Read(_) | DenseAct::Differs(_) => None,
        }
    }
}
