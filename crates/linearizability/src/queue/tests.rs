//! Tests of queues against the reference verdict, and on simulated histories.

use std::collections::VecDeque;

use fastrand::Rng;

use super::*;
use crate::oracle::extends;
use crate::simulation::proof_of;

/// Shape of a simulated history of a queue.
#[derive(Debug, Clone, Copy)]
struct QueueShape {
    processes: usize,
    operations: usize,
    enqueues: f64,
    unknown: f64,
    duration_ns: i64,
    is_ordered: bool,
}

/// Makes a correct history, sorted by the moments of effect. Values are numbered from 0.
fn correct_history(shape: QueueShape, rng: &mut Rng) -> Vec<QueueOperation> {
    let mut free_at = vec![0_i64; shape.processes];
    let mut planned: Vec<(i64, QueueOperation, bool)> = Vec::new();
    for _ in 0..shape.operations {
        let process = rng.usize(0..shape.processes);
        let start_ns = free_at[process] + rng.i64(1..=shape.duration_ns);
        let end = start_ns + rng.i64(0..=shape.duration_ns);
        free_at[process] = end;
        let is_unknown = rng.f64() < shape.unknown;
        let last = if is_unknown { start_ns + shape.duration_ns * 6 } else { end };
        let (status, end_ns) = if is_unknown { (Status::Unknown, None) } else { (Status::Applied, Some(end)) };
        let access = if rng.f64() < shape.enqueues {
            QueueAccess::Enqueue { value: 0 }
        } else {
            QueueAccess::Dequeue { value: None }
        };
        let operation = QueueOperation { start_ns, end_ns, access, status };
        planned.push((rng.i64(start_ns..=last), operation, !is_unknown || rng.bool()));
    }
    planned.sort_by_key(|(effect, ..)| *effect);
    let (mut queue, mut next) = (VecDeque::new(), 0);
    let mut history = Vec::with_capacity(planned.len());
    for (_, mut operation, happens) in planned {
        match &mut operation.access {
            QueueAccess::Enqueue { value } => {
                *value = next;
                next += 1;
                if happens {
                    queue.push_back(*value);
                }
            }
            QueueAccess::Dequeue { value } if happens => {
                let place = if shape.is_ordered || queue.is_empty() { 0 } else { rng.usize(0..queue.len()) };
                let taken = queue.remove(place);
                *value = taken.filter(|_| operation.status == Status::Applied);
            }
            QueueAccess::Dequeue { .. } => {}
        }
        history.push(operation);
    }
    history
}

fn random_shape(operations: usize, rng: &mut Rng) -> QueueShape {
    QueueShape {
        processes: rng.usize(1..=5),
        operations,
        enqueues: *rng.choice(&[0.4, 0.5, 0.6, 0.8]).unwrap(),
        unknown: *rng.choice(&[0.0, 0.1, 0.3, 0.5]).unwrap(),
        duration_ns: rng.i64(1..=12),
        is_ordered: rng.bool(),
    }
}

/// Changes values and times of a few operations.
fn spoil(history: &mut [QueueOperation], rng: &mut Rng) {
    for _ in 0..rng.usize(0..=4) {
        let values = history.len() as u64;
        let place = rng.usize(0..history.len());
        let operation = &mut history[place];
        match &mut operation.access {
            QueueAccess::Dequeue { value } if rng.bool() => *value = Some(rng.u64(0..=values)).filter(|_| rng.bool()),
            _ => {
                let shift = rng.i64(-9..=9);
                operation.start_ns += shift;
                operation.end_ns = operation.end_ns.map(|end| end + shift);
            }
        }
    }
}

fn reference(operations: &[QueueOperation], is_ordered: bool) -> bool {
    let spans: Vec<(usize, EffectSpan)> =
        operations.iter().enumerate().filter_map(|(place, it)| Some((place, it.span(place, 0)?))).collect();
    let times: Vec<(i64, i64)> = spans.iter().map(|(_, span)| (span.start, span.end)).collect();
    let step = |state: &Vec<u64>, place: usize| -> Vec<Vec<u64>> {
        let operation = &operations[spans[place].0];
        let without = |place: usize| [&state[..place], &state[place + 1..]].concat();
        let places = if is_ordered { 0..state.len().min(1) } else { 0..state.len() };
        match operation.access {
            QueueAccess::Enqueue { value } => vec![[state.as_slice(), &[value]].concat()],
            QueueAccess::Dequeue { .. } if operation.status == Status::Unknown => places.map(without).collect(),
            QueueAccess::Dequeue { value: None } => {
                if state.is_empty() {
                    vec![Vec::new()]
                } else {
                    Vec::new()
                }
            }
            QueueAccess::Dequeue { value: Some(value) } => {
                places.filter(|&place| state[place] == value).map(without).collect()
            }
        }
    };
    extends(&times, &mut vec![false; times.len()], &Vec::new(), &step)
}

fn lines(operations: &[QueueOperation]) -> String {
    operations.iter().enumerate().map(|(place, operation)| format!("\n{place}: {operation:?}")).collect()
}

/// Returns whether the history is a violation.
fn assert_matches_reference(seed: u64) -> bool {
    let mut rng = Rng::with_seed(seed);
    let operations = rng.usize(1..=8);
    let shape = random_shape(operations, &mut rng);
    let mut history = correct_history(shape, &mut rng);
    spoil(&mut history, &mut rng);
    let settings = QueueSettings { is_ordered: shape.is_ordered, ..QueueSettings::default() };
    let found = check_queue(&history, settings);
    let expected = reference(&history, shape.is_ordered);
    let is_found = found == Linearizability::Linearizable;
    assert_eq!(is_found, expected, "seed {seed}: {settings:?} {found:?}{}", lines(&history));
    if let Linearizability::Violation(proof) = found {
        let core: Vec<QueueOperation> = proof.core.iter().map(|&place| history[place]).collect();
        assert!(!reference(&core, shape.is_ordered), "seed {seed}: {}{}", proof.explanation, lines(&core));
    }
    !expected
}

#[test]
fn verdicts_match_all_orders() {
    let violations = (0..40_000).filter(|&seed| assert_matches_reference(seed)).count();
    assert!(violations > 7_000, "{violations}");
}

#[test]
#[ignore = "takes a minute"]
fn many_verdicts_match_all_orders() {
    let violations = (1_000_000..3_000_000).filter(|&seed| assert_matches_reference(seed)).count();
    assert!(violations > 300_000, "{violations}");
}

#[test]
fn correct_histories_raise_no_alarm() {
    for seed in 0..4_000 {
        let mut rng = Rng::with_seed(seed);
        let operations = rng.usize(1..=300);
        let shape = random_shape(operations, &mut rng);
        let history = correct_history(shape, &mut rng);
        for clock_error_ns in [0, 3] {
            let settings = QueueSettings { is_ordered: shape.is_ordered, clock_error_ns, ..QueueSettings::default() };
            let found = check_queue(&history, settings);
            assert_eq!(found, Linearizability::Linearizable, "seed {seed}: {shape:?}{}", lines(&history));
        }
    }
}

fn at(access: QueueAccess, start_ns: i64, end_ns: i64) -> QueueOperation {
    QueueOperation { start_ns, end_ns: Some(end_ns), access, status: Status::Applied }
}

fn enqueue(value: u64, start_ns: i64, end_ns: i64) -> QueueOperation {
    at(QueueAccess::Enqueue { value }, start_ns, end_ns)
}

fn dequeue(value: Option<u64>, start_ns: i64, end_ns: i64) -> QueueOperation {
    at(QueueAccess::Dequeue { value }, start_ns, end_ns)
}

fn unanswered(operation: QueueOperation) -> QueueOperation {
    QueueOperation { end_ns: None, status: Status::Unknown, ..operation }
}

#[test]
fn violations_are_explained() {
    let fifo = QueueSettings::default();
    let two = [enqueue(1, 0, 1), enqueue(2, 2, 3)];
    let with = |more: &[QueueOperation]| [&two, more].concat();
    let says = |more: &[QueueOperation]| proof_of(check_queue(&with(more), fifo));
    assert_eq!(
        says(&[dequeue(Some(2), 4, 5), dequeue(Some(1), 6, 7)]).0,
        "value 1 was in the queue before operation 1 enqueued value 2, but operation 2 took that one before operation 3 \
         took value 1"
    );
    assert_eq!(
        says(&[dequeue(Some(2), 4, 5)]),
        (
            "value 1 was in the queue before operation 1 enqueued value 2, but operation 2 took that one before value 1 \
             was taken"
                .to_owned(),
            vec![0, 1, 2]
        )
    );
    assert_eq!(says(&[dequeue(None, 4, 5)]).0, "operation 2 found the queue empty, but value 1 was in it all the time");
    assert_eq!(
        says(&[dequeue(Some(1), 4, 6), dequeue(None, 2, 7), dequeue(Some(1), 8, 9)]).0,
        "operation 2 and operation 4 both took value 1, which was enqueued once"
    );
    assert_eq!(
        says(&[dequeue(Some(3), 4, 5)]),
        ("operation 2 took value 3, which was never enqueued".to_owned(), vec![2])
    );
    assert_eq!(
        proof_of(check_queue(&[dequeue(Some(1), 0, 1), enqueue(1, 2, 3)], fifo)).0,
        "operation 0 took value 1 before its enqueue by operation 1 started"
    );
    let relay =
        [enqueue(1, 0, 1), enqueue(2, 2, 5), dequeue(Some(1), 8, 9), dequeue(None, 3, 9), dequeue(Some(2), 11, 12)];
    assert_eq!(
        proof_of(check_queue(&relay, fifo)).0,
        "operation 3 found the queue empty, but one of value 1, value 2 was in it at every moment"
    );
}

#[test]
fn dequeues_without_an_answer_excuse_as_many_values() {
    let lost = unanswered(dequeue(None, 4, 5));
    let history = [enqueue(1, 0, 1), enqueue(2, 2, 3), lost, lost, dequeue(None, 6, 7)];
    assert_eq!(check_queue(&history, QueueSettings::default()), Linearizability::Linearizable);
    let (says, core) = proof_of(check_queue(&[history[0], history[1], lost, history[4]], QueueSettings::default()));
    assert_eq!(core, [0, 1, 2, 3]);
    assert_eq!(
        says,
        "operation 3 found the queue empty, but value 2 was in it all the time: the 2 values up to this one were enqueued \
         first, and dequeues without an answer can have taken only 1 of them by then"
    );
}

#[test]
fn values_from_before_the_history_come_first() {
    let before = QueueSettings { starts_empty: false, ..QueueSettings::default() };
    let history = [dequeue(Some(8), 0, 1), enqueue(1, 2, 3), dequeue(Some(9), 4, 5), dequeue(Some(1), 6, 7)];
    assert_eq!(check_queue(&history, before), Linearizability::Linearizable);
    let swapped = [history[0], history[1], dequeue(Some(1), 4, 5), dequeue(Some(9), 6, 7)];
    assert!(matches!(check_queue(&swapped, before), Linearizability::Violation(_)));
}

#[test]
fn values_that_are_enqueued_twice_give_no_verdict() {
    let history = [enqueue(1, 0, 1), enqueue(1, 2, 3), dequeue(Some(1), 4, 5)];
    assert!(matches!(check_queue(&history, QueueSettings::default()), Linearizability::Unknown { .. }));
}
