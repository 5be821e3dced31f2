//! Session guarantees, after Terry and others (1994). They are weaker than linearizability: one
//! client alone can notice that they are broken.
//!
//! A value is older than another one if its version is lower, or else if its write ended before
//! the write of the other one started. Values that several operations write are left out.

use std::collections::HashMap;

use crate::explanation::explained;
use crate::operation::{ABSENT, Act, BEFORE_ALL, Item, Operation};
use crate::proof::{Proof, name, operation_name};

/// A promise to each client about its own operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarantee {
    /// A read returns the client's last write, or a later one.
    ReadYourWrites,
    /// A read returns no older value than the client's reads before it.
    MonotonicReads,
}

/// A read that breaks a guarantee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionViolation {
    pub guarantee: Guarantee,
    pub process: u32,
    pub key: u64,
    /// The two operations of the client, and the writes of both values.
    pub proof: Proof,
}

/// Write of a value.
#[derive(Debug, Clone, Copy)]
struct Origin {
    start: i64,
    end: i64,
    /// Version plus one, or 0 without a version.
    version: u64,
    operation: usize,
}

/// Value that a client knows to be written: by which of its operations, and the write.
#[derive(Debug, Clone, Copy)]
struct Known {
    by: usize,
    value: u64,
    origin: Origin,
}

/// Newest values that a client knows: by start of the write, and by version.
#[derive(Debug, Clone, Copy, Default)]
struct Newest {
    by_time: Option<Known>,
    by_version: Option<Known>,
}

impl Newest {
    fn add(&mut self, known: Known) {
        if self.by_time.is_none_or(|other| known.origin.start > other.origin.start) {
            self.by_time = Some(known);
        }
        if self.by_version.is_none_or(|other| known.origin.version > other.origin.version) {
            self.by_version = Some(known);
        }
    }

    /// Returns a known value that is newer than one with this origin.
    fn newer_than(&self, origin: Origin) -> Option<Known> {
        let newer = |known: &Known| match (known.origin.version, origin.version) {
            (0, _) | (_, 0) => origin.end < known.origin.start,
            (known, version) => version < known,
        };
        [self.by_version, self.by_time].into_iter().flatten().find(newer)
    }
}

/// Knowledge of a client about a key.
#[derive(Debug, Default)]
struct ClientMemory {
    written: Newest,
    read: Newest,
    /// Operations that may overlap with the next one.
    recent: Vec<(Item, Origin)>,
}

/// Returns the reads that break a session guarantee: at most one violation for each read and
/// guarantee. Keys are absent at first. `clock_error_ns` is the greatest difference between a
/// client's clock and the common one.
pub fn check_sessions(operations: &[Operation], clock_error_ns: i64) -> Vec<SessionViolation> {
    let origins = origins(operations, clock_error_ns);
    let mut order: Vec<usize> = (0..operations.len()).collect();
    order.sort_by_key(|&place| operations[place].start_ns);
    let mut sessions: HashMap<(u32, u64), ClientMemory> = HashMap::new();
    let mut violations = Vec::new();
    for place in order {
        let operation = &operations[place];
        let Some(item) = operation.item(place, 0).filter(|item| !item.is_optional()) else { continue };
        let session = sessions.entry((operation.process, operation.key)).or_default();
        session.learn_before(item.start);
        let value = item.act.seen().or(item.act.written());
        let Some(value) = value else { continue };
        let Some(&Some(mut origin)) = origins.get(&(operation.key, value)) else { continue };
        if let Act::Read(_) = item.act {
            if item.version != 0 {
                origin.version = item.version;
            }
            for (guarantee, newest) in
                [(Guarantee::ReadYourWrites, &session.written), (Guarantee::MonotonicReads, &session.read)]
            {
                if let Some(known) = newest.newer_than(origin) {
                    let proof = proof(guarantee, &item, value, origin, known);
                    let (process, key) = (operation.process, operation.key);
                    violations.push(SessionViolation { guarantee, process, key, proof });
                }
            }
        }
        session.recent.push((item, origin));
        if let Act::Swap { to, .. } = item.act
            && let Some(&Some(origin)) = origins.get(&(operation.key, to))
        {
            session.recent.push((Item { act: Act::Write(to), ..item }, origin));
        }
    }
    violations
}

impl ClientMemory {
    /// Adds the operations that ended before a time to what the client knows.
    fn learn_before(&mut self, time: i64) {
        let Self { written, read, recent } = self;
        recent.retain(|(item, origin)| {
            let is_over = item.end < time;
            if is_over {
                let known = |value| Known { by: item.operation, value, origin: *origin };
                match item.act {
                    Act::Write(value) => written.add(known(value)),
                    Act::Read(value) | Act::Swap { from: value, .. } => read.add(known(value)),
                    Act::Differs(_) => {}
                }
            }
            !is_over
        });
    }
}

/// Returns the write of each key and value, or `None` if there are several.
fn origins(operations: &[Operation], clock_error_ns: i64) -> HashMap<(u64, u64), Option<Origin>> {
    let mut origins: HashMap<(u64, u64), Option<Origin>> = HashMap::with_capacity(operations.len());
    let first = Origin { start: BEFORE_ALL, end: BEFORE_ALL, version: 0, operation: usize::MAX };
    for (place, operation) in operations.iter().enumerate() {
        origins.entry((operation.key, ABSENT)).or_insert(Some(first));
        let Some(item) = operation.item(place, clock_error_ns) else { continue };
        let Some(value) = item.act.written() else { continue };
        let origin = Origin { start: item.start, end: item.end, version: item.version, operation: place };
        origins.entry((operation.key, value)).and_modify(|known| *known = None).or_insert(Some(origin));
    }
    origins
}

fn proof(guarantee: Guarantee, item: &Item, value: u64, origin: Origin, known: Known) -> Proof {
    let (read, by) = (operation_name(item.operation), operation_name(known.by));
    let did = match guarantee {
        Guarantee::ReadYourWrites => " of the same client had written the newer ",
        Guarantee::MonotonicReads => " of the same client had read the newer ",
    };
    let text = explained![read, " returned ", name(value), ", but ", by, did, name(known.value)];
    Proof::new([item.operation, known.by, origin.operation, known.origin.operation], text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Access, Status};
    use crate::simulation::{Shape, correct_history};

    fn at(process: u32, start: i64, end: i64, access: Access) -> Operation {
        let status = Status::Applied;
        Operation { process, key: 3, start_ns: start, end_ns: Some(end), access, status, version: None }
    }

    fn write(process: u32, start: i64, end: i64, value: u64) -> Operation {
        at(process, start, end, Access::Write { value })
    }

    fn read(process: u32, start: i64, end: i64, value: Option<u64>) -> Operation {
        at(process, start, end, Access::Read { value })
    }

    fn found(operations: &[Operation]) -> Vec<(Guarantee, Vec<usize>)> {
        check_sessions(operations, 0).into_iter().map(|violation| (violation.guarantee, violation.proof.core)).collect()
    }

    #[test]
    fn a_client_that_misses_its_write_is_found() {
        let history = [write(0, 0, 10, 1), write(1, 20, 30, 2), read(0, 40, 50, Some(1)), read(1, 40, 50, Some(1))];
        assert_eq!(found(&history), [(Guarantee::ReadYourWrites, vec![0, 1, 3])]);
        let history = [write(0, 0, 10, 1), read(0, 20, 30, None)];
        assert_eq!(found(&history), [(Guarantee::ReadYourWrites, vec![0, 1])]);
    }

    #[test]
    fn a_client_that_reads_backwards_is_found() {
        let mut history =
            vec![write(0, 0, 10, 1), write(1, 20, 30, 2), read(2, 22, 24, Some(2)), read(2, 26, 28, Some(1))];
        assert_eq!(found(&history), [(Guarantee::MonotonicReads, vec![0, 1, 2, 3])]);
        assert_eq!(check_sessions(&history, 5), []);
        // The order of overlapping writes is not known.
        history[0].end_ns = Some(25);
        assert_eq!(found(&history), []);
        // Versions tell it.
        (history[0].version, history[1].version) = (Some(5), Some(6));
        assert_eq!(found(&history), [(Guarantee::MonotonicReads, vec![0, 1, 2, 3])]);
        assert_eq!(
            check_sessions(&history, 0)[0].proof.explanation.to_string(),
            "operation 3 returned value 1, but operation 2 of the same client had read the newer value 2"
        );
    }

    #[test]
    fn correct_histories_keep_the_guarantees() {
        for seed in 0..1_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (versions, deletes) = (rng.bool(), if rng.bool() { 0.1 } else { 0.0 });
            let shape = Shape { swaps: 0.2, unknown: 0.1, deletes, versions, ..Shape::PLAIN };
            assert_eq!(check_sessions(&correct_history(shape, 0, &mut rng), 0), [], "seed {seed}");
        }
    }
}
