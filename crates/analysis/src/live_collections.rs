//! Check of the keys that clients use as queues or sets, while the load runs. The operations on a
//! key are kept, and checked again when they have grown by a part.
//!
//! At a moment, all operations that started earlier are known, except for the results of those that
//! are open. If the whole history is linearizable, then so is the part of it up to this moment, in
//! which the open operations may have taken effect.

use std::collections::BTreeMap;

use linearizability::{
    Linearizability, Proof, QueueOperation, QueueSettings, SetAccess, SetOperation, Status, check_queue, check_set,
};

use crate::audit::single_copy;

/// Number of operations up to which a key is checked each time. A check of that many takes about
/// 20 ms.
const ALWAYS_CHECKED: usize = if cfg!(test) { 8 } else { 50_000 };

/// Number of a set's members in an answer that take the memory of an operation.
const MEMBERS_OF_SIZE: usize = 16;

/// Operations on keys, which are checked until a key has no verdict.
#[derive(Debug, Default)]
pub(crate) struct LiveCollections(BTreeMap<u64, CollectionHistory>);

/// An operation on a queue or a set.
#[derive(Debug, Clone)]
pub(crate) enum CollectionOperation {
    Queue(QueueOperation),
    Set(SetOperation),
}

/// A key that is not linearizable.
#[derive(Debug)]
pub(crate) struct CollectionViolation {
    pub key: u64,
    /// Proof, which refers to positions in `places`.
    pub proof: Proof,
    /// Places of the operations.
    pub places: Vec<usize>,
}

/// History of a key.
#[derive(Debug, Default)]
struct CollectionHistory {
    /// Operations, each with its place in the history of all keys.
    operations: Vec<(usize, CollectionOperation)>,
    size: usize,
    /// Number of operations at which to check.
    check_at: usize,
    /// Whether the key has no verdict.
    is_undecided: bool,
}

impl LiveCollections {
    /// Adds an operation that has ended, with its place in the history of all keys.
    pub fn push(&mut self, key: u64, place: usize, operation: CollectionOperation) {
        let history = self.0.entry(key).or_default();
        if !history.is_undecided {
            history.size += operation.size();
            history.operations.push((place, operation));
        }
    }

    /// Forgets a key, which is not checked any more.
    pub fn leave_out(&mut self, key: u64) {
        self.0.entry(key).or_default().give_up();
    }

    /// Checks the keys that have grown enough, given that no operation which is still to be added
    /// starts before `open_since_ns`. Returns the first violation.
    pub fn check(&mut self, open_since_ns: i64) -> Option<CollectionViolation> {
        for (key, history) in &mut self.0 {
            if history.operations.is_empty() || history.operations.len() < history.check_at {
                continue;
            }
            let (places, verdict) = history.verdict(open_since_ns);
            match verdict {
                Linearizability::Linearizable => history.wait(),
                Linearizability::Unknown { .. } => history.give_up(),
                Linearizability::Violation(proof) => return Some(CollectionViolation { key: *key, proof, places }),
            }
        }
        None
    }

    /// Returns the size of the memory, in operations.
    pub fn size(&self) -> usize {
        self.0.values().map(|history| history.size).sum()
    }
}

impl CollectionHistory {
    /// Waits for more operations: for one, or on a large key for a quarter more.
    fn wait(&mut self) {
        let known = self.operations.len();
        self.check_at = known + if known < ALWAYS_CHECKED { 1 } else { known / 4 };
    }

    fn give_up(&mut self) {
        *self = Self { is_undecided: true, ..Self::default() };
    }

    /// Checks the history up to a moment. Returns the places of the operations, and the verdict.
    fn verdict(&self, open_since_ns: i64) -> (Vec<usize>, Linearizability) {
        let (mut queue, mut set, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (place, operation) in &self.operations {
            match operation.until(open_since_ns) {
                Some(CollectionOperation::Queue(operation)) => queue.push(operation),
                Some(CollectionOperation::Set(operation)) => set.push(operation),
                None => continue,
            }
            places.push(*place);
        }
        let settings = QueueSettings { starts_empty: false, ..QueueSettings::default() };
        let verdict = match (queue.as_slice(), set.as_slice()) {
            (queue, []) => check_queue(queue, settings),
            ([], set) => check_set(set, single_copy::settings(0)),
            _ => Linearizability::Unknown { why: "a key is a queue and a set".to_owned() },
        };
        (places, verdict)
    }
}

impl CollectionOperation {
    /// Returns the operation without a start before `not_before_ns`.
    pub fn not_before(mut self, not_before_ns: i64) -> Self {
        let (Self::Queue(QueueOperation { start_ns, .. }) | Self::Set(SetOperation { start_ns, .. })) = &mut self;
        *start_ns = (*start_ns).max(not_before_ns);
        self
    }

    fn size(&self) -> usize {
        match self {
            Self::Set(SetOperation { access: SetAccess::Read { elements }, .. }) => {
                1 + elements.len() / MEMBERS_OF_SIZE
            }
            _ => 1,
        }
    }

    /// Returns what is known of the operation at a moment: nothing if it had not started, and no
    /// result if it had not ended.
    fn until(&self, at_ns: i64) -> Option<Self> {
        let mut operation = self.clone();
        let (Self::Queue(QueueOperation { start_ns, end_ns, status, .. })
        | Self::Set(SetOperation { start_ns, end_ns, status, .. })) = &mut operation;
        if *start_ns >= at_ns {
            return None;
        }
        if end_ns.is_some_and(|end_ns| end_ns >= at_ns) {
            (*end_ns, *status) = (None, Status::Unknown);
        }
        let has_result = !matches!(&operation, Self::Set(SetOperation { access: SetAccess::Read { .. }, status, .. })
            if *status == Status::Unknown);
        has_result.then_some(operation)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use fastrand::Rng;
    use linearizability::QueueAccess;

    use super::*;

    /// Returns a correct history of clients, in the order in which the operations end. Some have no
    /// answer. `before` are the values that the key had before.
    fn correct(is_queue: bool, before: u64, rng: &mut Rng) -> Vec<CollectionOperation> {
        let mut free_at = [0_i64; 4];
        let mut planned: Vec<(i64, i64, i64, bool, bool)> = Vec::new();
        for _ in 0..60 {
            let client = rng.usize(0..free_at.len());
            let start = free_at[client] + rng.i64(1..=9);
            let end = start + rng.i64(1..=20);
            free_at[client] = end;
            let has_answer = rng.u8(0..8) > 0;
            let effect = rng.i64(start..=if has_answer { end } else { end + 30 });
            planned.push((effect, start, end, has_answer, rng.bool()));
        }
        planned.sort_unstable();
        let mut state: VecDeque<u64> = (0..before).collect();
        let mut history = Vec::new();
        for (number, (_, start_ns, end, has_answer, is_addition)) in planned.into_iter().enumerate() {
            let happens = has_answer || rng.bool();
            let value = 100 + number as u64;
            let (end_ns, status) = if has_answer { (Some(end), Status::Applied) } else { (None, Status::Unknown) };
            if is_addition && happens {
                state.push_back(value);
            }
            let operation = if is_queue {
                let taken = if !is_addition && happens { state.pop_front() } else { None };
                let access = match is_addition {
                    true => QueueAccess::Enqueue { value },
                    false => QueueAccess::Dequeue { value: taken.filter(|_| has_answer) },
                };
                CollectionOperation::Queue(QueueOperation { start_ns, end_ns, access, status })
            } else {
                let access = match is_addition {
                    true => SetAccess::Add { element: value },
                    false if has_answer => SetAccess::Read { elements: state.iter().copied().collect() },
                    false => continue,
                };
                CollectionOperation::Set(SetOperation { start_ns, end_ns, access, status })
            };
            history.push((end, operation));
        }
        history.sort_by_key(|(end, _)| *end);
        history.into_iter().map(|(_, operation)| operation).collect()
    }

    fn start_ns(operation: &CollectionOperation) -> i64 {
        match operation {
            CollectionOperation::Queue(operation) => operation.start_ns,
            CollectionOperation::Set(operation) => operation.start_ns,
        }
    }

    /// Adds the operations, with a check before each.
    fn has_violation(history: &[CollectionOperation]) -> bool {
        let mut live = LiveCollections::default();
        for (place, operation) in history.iter().enumerate() {
            let open_since = history[place..].iter().map(start_ns).min().unwrap_or(i64::MAX);
            if live.check(open_since).is_some() {
                return true;
            }
            live.push(7, place, operation.clone());
        }
        live.check(i64::MAX).is_some()
    }

    #[test]
    fn correct_histories_raise_no_alarm() {
        for seed in 0..1_000 {
            let mut rng = Rng::with_seed(seed);
            let history = correct(seed % 2 == 0, rng.u64(0..4), &mut rng);
            assert!(!has_violation(&history), "seed {seed}: {history:?}");
        }
    }

    #[test]
    fn two_values_that_leave_in_the_wrong_order_are_found() {
        let mut found = 0;
        for seed in 0..100 {
            let mut history = correct(true, 0, &mut Rng::with_seed(seed));
            let mut taken: Vec<&mut Option<u64>> = Vec::new();
            for operation in &mut history {
                if let CollectionOperation::Queue(QueueOperation { access: QueueAccess::Dequeue { value }, .. }) =
                    operation
                    && value.is_some()
                {
                    taken.push(value);
                }
            }
            if let [first, .., last] = taken.as_mut_slice() {
                std::mem::swap(*first, *last);
                found += u32::from(has_violation(&history));
            }
        }
        assert!(found > 80, "{found}");
    }
}
