//! Tests of sets against the reference verdict, and on simulated histories.

use fastrand::Rng;

use super::*;
use crate::oracle::extends;
use crate::simulation::proof_of;

/// Shape of a simulated history of a set.
#[derive(Debug, Clone, Copy)]
struct SetShape {
    processes: usize,
    operations: usize,
    finds: f64,
    reads: f64,
    removes: f64,
    unknown: f64,
    duration_ns: i64,
}

/// Makes a correct history, sorted by the moments of effect. Elements are numbered from 0.
fn correct_history(shape: SetShape, rng: &mut Rng) -> Vec<SetOperation> {
    let mut free_at = vec![0_i64; shape.processes];
    let mut planned: Vec<(i64, SetOperation, bool)> = Vec::new();
    for _ in 0..shape.operations {
        let process = rng.usize(0..shape.processes);
        let start_ns = free_at[process] + rng.i64(1..=shape.duration_ns);
        let end = start_ns + rng.i64(0..=shape.duration_ns);
        free_at[process] = end;
        let is_unknown = rng.f64() < shape.unknown;
        let last = if is_unknown { start_ns + shape.duration_ns * 6 } else { end };
        let (status, end_ns) = if is_unknown { (Status::Unknown, None) } else { (Status::Applied, Some(end)) };
        let element = rng.u64(0..=shape.operations as u64 / 2);
        let kind = rng.f64();
        let access = if kind < shape.reads {
            SetAccess::Read { elements: Vec::new() }
        } else if kind < shape.reads + shape.finds {
            SetAccess::Find { element, is_present: false }
        } else if kind < shape.reads + shape.finds + shape.removes {
            SetAccess::Remove { element }
        } else {
            SetAccess::Add { element }
        };
        let operation = SetOperation { start_ns, end_ns, access, status };
        planned.push((rng.i64(start_ns..=last), operation, !is_unknown || rng.bool()));
    }
    planned.sort_by_key(|(effect, ..)| *effect);
    let mut state: Vec<u64> = Vec::new();
    let play = |(_, mut operation, happens): (i64, SetOperation, bool)| {
        match &mut operation.access {
            SetAccess::Add { element } if happens && !state.contains(element) => state.push(*element),
            SetAccess::Remove { element } if happens => state.retain(|other| other != element),
            SetAccess::Find { element, is_present } => *is_present = state.contains(element),
            SetAccess::Read { elements } => elements.clone_from(&state),
            SetAccess::Add { .. } | SetAccess::Remove { .. } => {}
        }
        operation
    };
    planned.into_iter().map(play).collect()
}

fn random_shape(operations: usize, removes: f64, rng: &mut Rng) -> SetShape {
    SetShape {
        processes: rng.usize(1..=5),
        operations,
        finds: *rng.choice(&[0.0, 0.2, 0.4]).unwrap(),
        reads: *rng.choice(&[0.0, 0.1, 0.3]).unwrap(),
        removes,
        unknown: *rng.choice(&[0.0, 0.1, 0.4]).unwrap(),
        duration_ns: rng.i64(1..=12),
    }
}

/// Changes answers and times of a few operations.
fn spoil(history: &mut [SetOperation], rng: &mut Rng) {
    for _ in 0..rng.usize(0..=4) {
        let place = rng.usize(0..history.len());
        let operation = &mut history[place];
        match &mut operation.access {
            SetAccess::Find { is_present, .. } if rng.bool() => *is_present = !*is_present,
            SetAccess::Read { elements } if rng.bool() => {
                let element = rng.u64(0..4);
                match elements.iter().position(|other| *other == element) {
                    Some(place) => {
                        elements.remove(place);
                    }
                    None => elements.push(element),
                }
            }
            _ => {
                let shift = rng.i64(-9..=9);
                operation.start_ns += shift;
                operation.end_ns = operation.end_ns.map(|end| end + shift);
            }
        }
    }
}

fn reference(operations: &[SetOperation]) -> bool {
    reference_from(0, operations)
}

/// Whether any order of the operations is possible if the set held these elements before.
fn reference_from(initial: u64, operations: &[SetOperation]) -> bool {
    let spans: Vec<(usize, (i64, i64))> =
        operations.iter().enumerate().filter_map(|(place, it)| Some((place, it.span(0)?))).collect();
    let times: Vec<(i64, i64)> = spans.iter().map(|(_, span)| *span).collect();
    let step = |state: &u64, place: usize| -> Vec<u64> {
        let bits = |elements: &[u64]| elements.iter().fold(0, |bits, element| bits | 1_u64 << element);
        match &operations[spans[place].0].access {
            SetAccess::Add { element } => vec![state | 1 << element],
            SetAccess::Remove { element } => vec![state & !(1 << element)],
            SetAccess::Find { element, is_present } => {
                if (state >> element & 1 == 1) == *is_present {
                    vec![*state]
                } else {
                    Vec::new()
                }
            }
            SetAccess::Read { elements } => {
                if *state == bits(elements) {
                    vec![*state]
                } else {
                    Vec::new()
                }
            }
        }
    };
    extends(&times, &mut vec![false; times.len()], &initial, &step)
}

fn lines(operations: &[SetOperation]) -> String {
    operations.iter().enumerate().map(|(place, operation)| format!("\n{place}: {operation:?}")).collect()
}

/// Returns the operations of a proof. Reads show only the elements that the proof adds, those that
/// are never added, and those that are older than the history.
fn core_of(proof: &Proof, history: &[SetOperation], older: &[u64]) -> Vec<SetOperation> {
    let mut core: Vec<SetOperation> = proof.core.iter().map(|&place| history[place].clone()).collect();
    let adds = |operations: &[SetOperation]| -> Vec<u64> {
        let added = operations.iter().filter(|operation| matches!(operation.access, SetAccess::Add { .. }));
        added.filter_map(SetOperation::element).collect()
    };
    let (shown, all) = (adds(&core), adds(history));
    show_only(&mut core, |element| [&shown, older].concat().contains(&element) || !all.contains(&element));
    core
}

fn show_only(operations: &mut [SetOperation], is_shown: impl Fn(u64) -> bool) {
    for operation in operations {
        if let SetAccess::Read { elements } = &mut operation.access {
            elements.retain(|element| is_shown(*element));
        }
    }
}

/// Whether the operations of a proof contradict each other, as far as they tell of one element.
fn contradicts_for_one_element(proof: &Proof, history: &[SetOperation]) -> bool {
    (0..8).any(|element| {
        let mut core: Vec<SetOperation> = proof.core.iter().map(|&place| history[place].clone()).collect();
        core.retain(|operation| operation.element().is_none_or(|other| other == element));
        show_only(&mut core, |other| other == element);
        !reference(&core)
    })
}

/// Returns whether the history is a violation.
fn assert_matches_reference(seed: u64) -> bool {
    let mut rng = Rng::with_seed(seed);
    let operations = rng.usize(1..=8);
    let removes = *rng.choice(&[0.0, 0.0, 0.2]).unwrap();
    let mut history = correct_history(random_shape(operations, removes, &mut rng), &mut rng);
    spoil(&mut history, &mut rng);
    let expected = reference(&history);
    let found = check_set(&history, Settings::default());
    let is_right = match &found {
        Linearizability::Linearizable => expected,
        Linearizability::Violation(_) => !expected,
        Linearizability::Unknown { .. } => removes > 0.0,
    };
    assert!(is_right, "seed {seed}: {found:?}{}", lines(&history));
    if let Linearizability::Violation(proof) = found {
        let core = core_of(&proof, &history, &[]);
        let is_proof = !reference(&core) || removes > 0.0 && contradicts_for_one_element(&proof, &history);
        assert!(is_proof, "seed {seed}: {}{} of {}", proof.explanation, lines(&core), lines(&history));
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
    for seed in 0..2_000 {
        let mut rng = Rng::with_seed(seed);
        let removes = if rng.bool() { 0.0 } else { 0.1 };
        let operations = rng.usize(1..=100);
        let shape = random_shape(operations, removes, &mut rng);
        let history = correct_history(shape, &mut rng);
        for clock_error_ns in [0, 3] {
            let found = check_set(&history, Settings { clock_error_ns, ..Settings::default() });
            let is_right = match found {
                Linearizability::Linearizable => true,
                Linearizability::Violation(_) => false,
                Linearizability::Unknown { .. } => removes > 0.0,
            };
            assert!(is_right, "seed {seed}: {found:?} {shape:?}{}", lines(&history));
        }
    }
}

fn at(access: SetAccess, start_ns: i64, end_ns: i64) -> SetOperation {
    SetOperation { start_ns, end_ns: Some(end_ns), access, status: Status::Applied }
}

fn add(element: u64, start_ns: i64, end_ns: i64) -> SetOperation {
    at(SetAccess::Add { element }, start_ns, end_ns)
}

fn read(elements: &[u64], start_ns: i64, end_ns: i64) -> SetOperation {
    at(SetAccess::Read { elements: elements.to_vec() }, start_ns, end_ns)
}

fn proved(operations: &[SetOperation]) -> (String, Vec<usize>) {
    proof_of(check_set(operations, Settings::default()))
}

#[test]
fn violations_are_explained() {
    let two = [add(1, 0, 1), add(2, 2, 9)];
    let with = |more: &[SetOperation]| proved(&[&two, more].concat());
    assert_eq!(
        with(&[read(&[2], 4, 5)]),
        (
            "operation 2 did not read value 1, which was there when operation 0 ended, before it started".to_owned(),
            vec![0, 2]
        )
    );
    assert_eq!(with(&[read(&[1, 3], 4, 5)]), ("operation 2 found value 3, which was never added".to_owned(), vec![2]));
    assert_eq!(with(&[read(&[1, 2], 0, 1)]).0, "operation 2 read value 2 before operation 1 started without it");
    assert_eq!(
        with(&[read(&[1, 2], 4, 5), read(&[1], 6, 7)]),
        ("operation 2 read value 2, but operation 3 started later and did not".to_owned(), vec![1, 2, 3])
    );
    assert_eq!(
        proved(&[add(1, 0, 9), add(2, 0, 9), read(&[1], 0, 9), read(&[2], 0, 9)]),
        (
            "operation 2 read value 1 without value 2, but operation 3 read value 2 without value 1".to_owned(),
            vec![0, 1, 2, 3]
        )
    );
    assert_eq!(
        proved(&[add(1, 4, 9), add(2, 2, 3), read(&[1], 0, 9)]).0,
        "operation 2 read value 1 without value 2, but operation 1 ended with value 2 there before operation 0 started \
         without value 1"
    );
}

/// The set may have held any of the five elements, or another one.
#[test]
fn elements_may_be_older_than_the_history() {
    let settings = Settings { initial: InitialValue::Seen, ..Settings::default() };
    let mut violations = 0;
    for seed in 0..10_000 {
        let mut rng = Rng::with_seed(seed);
        let mut history = correct_history(random_shape(rng.usize(1..=7), 0.0, &mut rng), &mut rng);
        let older = rng.u64(0..8);
        for operation in &mut history {
            if let SetAccess::Read { elements } = &mut operation.access
                && rng.u8(0..8) > 0
                && !elements.contains(&older)
            {
                elements.push(older);
            }
        }
        spoil(&mut history, &mut rng);
        let expected = (0..1 << 8).any(|initial| reference_from(initial, &history));
        violations += usize::from(!expected);
        match check_set(&history, settings) {
            Linearizability::Linearizable => assert!(expected, "seed {seed}:{}", lines(&history)),
            Linearizability::Violation(proof) => {
                let reads = history.iter().filter_map(SetOperation::elements);
                let core = core_of(&proof, &history, reads.min_by_key(|read| read.len()).unwrap_or_default());
                let words = format!("seed {seed}: {}{} of {}", proof.explanation, lines(&core), lines(&history));
                let has_finds = history.iter().any(|operation| matches!(operation.access, SetAccess::Find { .. }));
                let is_proof = has_finds || (0..1 << 8).all(|initial| !reference_from(initial, &core));
                assert!(!expected && is_proof, "{words}");
            }
            Linearizability::Unknown { why } => panic!("{why}"),
        }
    }
    assert!(violations > 1_000, "{violations}");
}

#[test]
fn elements_that_are_removed_are_checked_one_by_one() {
    let remove = |element, start, end| at(SetAccess::Remove { element }, start, end);
    let find = |element, is_present, start, end| at(SetAccess::Find { element, is_present }, start, end);
    let history = [add(1, 0, 1), add(2, 0, 1), remove(1, 2, 3), find(1, false, 4, 5), find(2, true, 4, 5)];
    assert_eq!(check_set(&history, Settings::default()), Linearizability::Linearizable);
    let (_, core) = proved(&[&history[..4], &[find(2, false, 4, 5)]].concat());
    assert_eq!(core, [1, 4]);
    let (_, core) = proved(&[&history, &[read(&[1, 2], 6, 7)][..]].concat());
    assert_eq!(core, [3, 5]);
}
