//! Tests of the whole check against the reference verdict, and on simulated histories.

use fastrand::Rng;

use crate::carry::InitialValue;
use crate::checker::{Checker, KeyVerdict, Linearizability, Settings, check};
use crate::operation::{Access, Operation, Status};
use crate::oracle::has_linearization;
use crate::simulation::{PLANTS, Shape, correct_history, planted, proof_of};

/// Returns the verdict on a history of one key.
fn verdict(operations: &[Operation], settings: Settings) -> Linearizability {
    let verdicts = check(operations, settings);
    verdicts.into_iter().next().map_or(Linearizability::Linearizable, |key| key.verdict)
}

fn streamed(operations: &[Operation], settings: Settings, check_every: usize) -> Linearizability {
    let mut order: Vec<&Operation> = operations.iter().collect();
    // An operation without an answer is pushed late.
    order.sort_by_key(|operation| operation.end_ns.unwrap_or(operation.start_ns + 50));
    let mut checker = Checker::new(settings);
    for (place, operation) in order.iter().enumerate() {
        checker.push(operation);
        let open = order[place + 1..].iter().map(|operation| operation.start_ns).min();
        checker.advance(open.unwrap_or(i64::MAX));
        if place % check_every == 0 {
            checker.check_all();
        }
    }
    checker.finish().into_iter().next().map_or(Linearizability::Linearizable, |key| key.verdict)
}

/// Makes a history of a few random operations, most of which are close to correct ones.
fn random_history(rng: &mut Rng) -> Vec<Operation> {
    let count = rng.usize(1..=7);
    let values = *rng.choice(&[0, 0, 0, 2, 3]).unwrap_or(&0);
    let deletes = *rng.choice(&[0.0, 0.0, 0.2]).unwrap_or(&0.0);
    let swaps = *rng.choice(&[0.0, 0.2, 0.4]).unwrap_or(&0.0);
    let unknown = *rng.choice(&[0.0, 0.3, 0.6]).unwrap_or(&0.0);
    let shape = Shape {
        processes: rng.u32(1..=4),
        operations: count,
        reads: 0.5,
        swaps,
        deletes,
        unknown,
        versions: rng.bool(),
        values,
        duration_ns: rng.i64(2..=12),
    };
    let mut history = correct_history(shape, 0, rng);
    for _ in 0..rng.usize(0..=2) {
        let seen: Vec<Option<u64>> = history
            .iter()
            .map(|operation| match operation.access {
                Access::Write { value } => Some(value),
                Access::CompareAndSet { to: value, .. } | Access::Read { value } => value,
                Access::Delete => None,
            })
            .collect();
        let other = seen[rng.usize(0..seen.len())];
        let place = rng.usize(0..history.len());
        let operation = &mut history[place];
        match &mut operation.access {
            Access::Read { value } => {
                *value = other;
                operation.version = None;
            }
            Access::CompareAndSet { from, .. } => *from = other,
            _ => {
                let shift = rng.i64(-6..=6);
                operation.start_ns += shift;
                operation.end_ns = operation.end_ns.map(|end| end + shift);
            }
        }
    }
    history
}

/// Returns the same history without versions.
fn without_versions(history: &[Operation]) -> Vec<Operation> {
    history.iter().map(|operation| Operation { version: None, ..*operation }).collect()
}

fn assert_matches_oracle(history: &[Operation], seed: u64) {
    let settings = Settings::default();
    let plain = without_versions(history);
    let expected = has_linearization(&plain, settings.initial);
    let found = verdict(&plain, settings);
    assert_eq!(found == Linearizability::Linearizable, expected, "seed {seed}: {found:?} for {}", lines(&plain));
    for check_every in [1, 3] {
        let streamed = streamed(&plain, settings, check_every);
        assert_eq!(
            streamed == Linearizability::Linearizable,
            expected,
            "seed {seed}, streamed: {streamed:?} for {}",
            lines(&plain)
        );
    }
    if let Linearizability::Violation(proof) = found {
        let core: Vec<Operation> = proof.core.iter().map(|&place| plain[place]).collect();
        assert!(!core.is_empty(), "seed {seed}: {proof:?}");
        for read in core.iter().filter(|operation| matches!(operation.access, Access::Read { .. })) {
            let rest: Vec<Operation> = core.iter().copied().filter(|operation| operation != read).collect();
            // A proof may do without the value at the start.
            let is_needed = [settings.initial, InitialValue::Unknown].iter().any(|&at| has_linearization(&rest, at));
            assert!(is_needed, "seed {seed}: without {read:?}: {}", lines(&core));
        }
        let says = &proof.explanation;
        assert!(
            !has_linearization(&core, settings.initial),
            "seed {seed}: {says}: {} of {}",
            lines(&core),
            lines(&plain)
        );
    }
}

#[test]
fn verdicts_match_all_orders() {
    for seed in 0..6_000 {
        let mut rng = Rng::with_seed(seed);
        assert_matches_oracle(&random_history(&mut rng), seed);
    }
}

#[test]
#[ignore = "takes a minute"]
fn many_verdicts_match_all_orders() {
    for seed in 0..2_000_000 {
        let mut rng = Rng::with_seed(1_000_000 + seed);
        assert_matches_oracle(&random_history(&mut rng), seed);
    }
}

/// Makes a history with versions in which a read has the value and version of another one, or an
/// operation is at another time.
fn random_versions(rng: &mut Rng) -> Vec<Operation> {
    let shape = Shape {
        processes: rng.u32(1..=4),
        operations: rng.usize(2..=7),
        swaps: 0.2,
        deletes: if rng.bool() { 0.2 } else { 0.0 },
        unknown: if rng.bool() { 0.2 } else { 0.0 },
        versions: true,
        duration_ns: rng.i64(2..=12),
        ..Shape::PLAIN
    };
    let mut history = correct_history(shape, 0, rng);
    let other = history[rng.usize(0..history.len())];
    let place = rng.usize(0..history.len());
    let operation = &mut history[place];
    match (operation.access, other.access) {
        (Access::Read { .. }, Access::Read { value }) => {
            (operation.access, operation.version) = (Access::Read { value }, other.version);
        }
        (Access::Read { .. }, Access::Write { value }) => {
            (operation.access, operation.version) = (Access::Read { value: Some(value) }, other.version);
        }
        _ => {
            let shift = rng.i64(-9..=9);
            operation.start_ns += shift;
            operation.end_ns = operation.end_ns.map(|end| end + shift);
        }
    }
    history
}

/// Checks versions against the reference. Returns whether a violation was not found.
fn misses_a_violation(history: &[Operation], seed: u64) -> bool {
    let expected = has_linearization(history, InitialValue::Absent);
    let found = [verdict(history, Settings::default()), streamed(history, Settings::default(), 1)];
    for found in &found {
        let is_right = *found == Linearizability::Linearizable || !expected;
        assert!(is_right, "seed {seed}: {found:?}: {}", lines(history));
    }
    if let Linearizability::Violation(proof) = &found[0] {
        let core: Vec<Operation> = proof.core.iter().map(|&place| history[place]).collect();
        let (says, core_lines) = (&proof.explanation, lines(&core));
        let is_proof = !has_linearization(&core, InitialValue::Absent);
        assert!(is_proof, "seed {seed}: {says}: {core_lines} of {}", lines(history));
    }
    let is_found = found[0] != Linearizability::Linearizable;
    let plain = without_versions(history);
    assert!(is_found || has_linearization(&plain, InitialValue::Absent), "seed {seed}: {}", lines(history));
    !expected && !is_found
}

/// Versions are ignored where the search has to decide, so some violations of versions alone are
/// not found.
#[test]
fn verdicts_with_versions_match_all_orders() {
    let histories = 6_000;
    let missed = (0..histories).filter(|&seed| misses_a_violation(&random_versions(&mut Rng::with_seed(seed)), seed));
    let missed = missed.count();
    assert!(missed < 30, "{missed}");
}

#[test]
#[ignore = "takes half a minute"]
fn many_verdicts_with_versions_match_all_orders() {
    let histories = 1_000_000..2_000_000;
    let missed = histories.filter(|&seed| misses_a_violation(&random_versions(&mut Rng::with_seed(seed)), seed));
    let missed = missed.count();
    assert!(missed < 5_000, "{missed}");
}

#[test]
fn an_unknown_initial_value_may_be_any_that_is_not_written() {
    const INITIAL: u64 = 1_000;
    let settings = Settings { initial: InitialValue::Unknown, ..Settings::default() };
    for seed in 0..3_000 {
        let mut rng = Rng::with_seed(seed);
        let mut history = without_versions(&random_history(&mut rng));
        if history.iter().any(|operation| operation.access == Access::Delete) {
            continue;
        }
        for operation in &mut history {
            if let Access::Read { value: value @ None } | Access::CompareAndSet { from: value @ None, .. } =
                &mut operation.access
            {
                *value = Some(INITIAL);
            }
        }
        let found = verdict(&history, settings);
        let mut initial = (0..10).chain([INITIAL, INITIAL + 1]).map(InitialValue::Value);
        if has_linearization(&history, InitialValue::Value(INITIAL)) {
            assert_eq!(found, Linearizability::Linearizable, "seed {seed}: {}", lines(&history));
        } else if !initial.any(|initial| has_linearization(&history, initial)) {
            assert!(found != Linearizability::Linearizable, "seed {seed}: {}", lines(&history));
        }
    }
}

/// Random histories on a key that had a value before, or none, with deletes and failed comparisons.
#[test]
fn an_initial_value_is_found_from_what_was_seen() {
    const INITIAL: u64 = 1_000;
    let settings = Settings { initial: InitialValue::Seen, ..Settings::default() };
    let (mut violations, mut missed) = (0, 0);
    for seed in 0..6_000 {
        let mut rng = Rng::with_seed(seed);
        let mut history = without_versions(&random_history(&mut rng));
        let deleted = history.iter().position(|operation| operation.access == Access::Delete);
        let deleted = deleted.unwrap_or(history.len());
        let before = rng.bool().then_some(INITIAL);
        for operation in &mut history[..deleted] {
            if let Access::Read { value: value @ None } | Access::CompareAndSet { from: value @ None, .. } =
                &mut operation.access
            {
                *value = before;
            }
        }
        for operation in &mut history {
            if let Access::CompareAndSet { from, .. } = &mut operation.access
                && operation.status == Status::Applied
                && rng.u8(0..8) == 0
            {
                (*from, operation.status) = (*rng.choice(&[None, Some(0), Some(INITIAL)]).unwrap(), Status::Unequal);
            }
        }
        let is_written = |value: &u64| {
            let writes = |operation: &Operation| match operation.access {
                Access::Write { value: to } => to == *value,
                Access::CompareAndSet { to, .. } => to == Some(*value),
                Access::Read { .. } | Access::Delete => false,
            };
            history.iter().any(writes)
        };
        let explains = |value: &u64| has_linearization(&history, InitialValue::Value(*value));
        let initial: Vec<u64> = (0..10).chain([INITIAL, INITIAL + 1]).filter(explains).collect();
        let is_of_absent = has_linearization(&history, InitialValue::Absent);
        let is_explained = is_of_absent || initial.iter().any(|value| !is_written(value));
        // A key may also have had one of the values that are written later.
        let is_impossible = !is_of_absent && initial.is_empty();
        for found in [verdict(&history, settings), streamed(&history, settings, 1), streamed(&history, settings, 3)] {
            let is_violation = matches!(found, Linearizability::Violation(_));
            assert!(!is_violation || !is_explained, "seed {seed}: {found:?}: {}", lines(&history));
            violations += u32::from(is_impossible);
            missed += u32::from(is_impossible && !is_violation);
        }
    }
    assert!(violations > 1_000 && missed < violations / 10, "{missed} of {violations}");
}

#[test]
fn streams_have_the_verdict_of_the_whole() {
    let mut violations = 0;
    for seed in 0..900 {
        let mut rng = Rng::with_seed(seed);
        let shapes = shapes();
        let shape = Shape { operations: rng.usize(10..=60), ..shapes[seed as usize % shapes.len()] };
        let mut history = without_versions(&correct_history(shape, 0, &mut rng));
        let place = rng.usize(0..history.len());
        let other = history[rng.usize(0..history.len())].access;
        if let (Access::Read { value }, Access::Read { value: seen } | Access::CompareAndSet { to: seen, .. }) =
            (&mut history[place].access, other)
        {
            *value = seen;
        }
        let whole = verdict(&history, Settings::default());
        let parts = streamed(&history, Settings::default(), rng.usize(1..=5));
        violations += u32::from(matches!(whole, Linearizability::Violation(_)));
        let are_equal = std::mem::discriminant(&whole) == std::mem::discriminant(&parts);
        assert!(are_equal, "seed {seed}: {whole:?}, but {parts:?}: {}", lines(&history));
    }
    assert!(violations > 50, "{violations}");
}

fn shapes() -> Vec<Shape> {
    let plain = Shape::PLAIN;
    vec![
        plain,
        Shape { unknown: 0.2, ..plain },
        Shape { swaps: 0.25, ..plain },
        Shape { swaps: 0.25, unknown: 0.2, ..plain },
        Shape { deletes: 0.15, versions: true, ..plain },
        Shape { deletes: 0.15, swaps: 0.2, unknown: 0.2, versions: true, ..plain },
        Shape { deletes: 0.1, unknown: 0.1, processes: 3, ..plain },
        Shape { values: 5, swaps: 0.2, unknown: 0.05, ..plain },
        Shape { processes: 12, reads: 0.7, unknown: 0.1, ..plain },
    ]
}

fn assert_no_alarm(histories: u64) {
    for seed in 0..histories {
        let mut rng = Rng::with_seed(seed);
        let shapes = shapes();
        let mut shape = shapes[seed as usize % shapes.len()];
        shape.operations = rng.usize(1..=120);
        let history = correct_history(shape, 0, &mut rng);
        let settings = Settings::default();
        let found = verdict(&history, settings);
        assert_eq!(found, Linearizability::Linearizable, "seed {seed}: {shape:?} {}", lines(&history));
        let found = streamed(&history, settings, 7);
        assert_eq!(found, Linearizability::Linearizable, "seed {seed}, streamed: {shape:?} {}", lines(&history));
    }
}

#[test]
fn correct_histories_raise_no_alarm() {
    assert_no_alarm(900);
}

#[test]
#[ignore = "takes half a minute"]
fn ten_thousand_correct_histories_raise_no_alarm() {
    assert_no_alarm(10_000);
}

#[test]
fn planted_violations_are_found() {
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let shape = Shape { operations: 200, swaps: 0.1, unknown: 0.05, ..Shape::PLAIN };
        let mut history = correct_history(shape, 0, &mut rng);
        let plant = PLANTS[seed as usize % PLANTS.len()];
        let start = rng.i64(0..3_000);
        history.extend(planted(plant, 0, start, 1_000_000));
        let settings = Settings::default();
        assert!(matches!(verdict(&history, settings), Linearizability::Violation(_)), "seed {seed}: {plant:?}");
        assert!(matches!(streamed(&history, settings, 1), Linearizability::Violation(_)), "seed {seed}: {plant:?}");
    }
}

#[test]
fn a_stale_read_is_proved_by_three_operations() {
    let [plant, ..] = PLANTS;
    let history = planted(plant, 7, 0, 10);
    let (says, core) = proof_of(verdict(&history, Settings::default()));
    assert_eq!(core, [0, 1, 2]);
    assert_eq!(
        says,
        "operation 0 ended with value 10 before operation 1 on value 11 started, and operation 1 ended with value 11 \
         before operation 2 on value 10 started: neither value can come first"
    );
}

#[test]
fn a_violation_smaller_than_the_clock_error_is_none() {
    let [plant, ..] = PLANTS;
    let history = planted(plant, 7, 0, 10);
    let settings = Settings { clock_error_ns: 10, ..Settings::default() };
    assert_eq!(verdict(&history, settings), Linearizability::Linearizable);
}

#[test]
fn a_refused_write_must_not_be_read() {
    let [plant, ..] = PLANTS;
    let mut history = planted(plant, 7, 0, 10);
    history.truncate(1);
    history[0].status = Status::Failed;
    assert_eq!(verdict(&history, Settings::default()), Linearizability::Linearizable);
    history.push(Operation { status: Status::Applied, access: Access::Read { value: Some(10) }, ..history[0] });
    assert!(matches!(verdict(&history, Settings::default()), Linearizability::Violation(_)));
}

/// Returns a history in short lines.
fn lines(operations: &[Operation]) -> String {
    let line = |(place, operation): (usize, &Operation)| {
        let Operation { start_ns, end_ns, access, status, version, .. } = operation;
        format!("\n{place}: {start_ns}..{end_ns:?} {access:?} {status:?} {version:?}")
    };
    operations.iter().enumerate().map(line).collect()
}

#[test]
#[ignore = "takes minutes"]
fn a_violation_among_a_million_operations_is_found() {
    let shape = Shape { swaps: 0.1, unknown: 0.01, ..Shape::PLAIN };
    let (keys, runs) = (10_000, 100);
    for seed in 0..runs {
        let mut rng = Rng::with_seed(seed);
        let mut history: Vec<Operation> = (0..keys).flat_map(|key| correct_history(shape, key, &mut rng)).collect();
        let key = rng.u64(0..keys);
        let plant = PLANTS[seed as usize % PLANTS.len()];
        history.extend(planted(plant, key, rng.i64(0..3_000), 1 << 40));
        history.sort_by_key(|operation| operation.end_ns.unwrap_or(operation.start_ns + 1_000));
        let bad = |verdicts: Vec<KeyVerdict>| {
            let bad = verdicts.into_iter().filter(|verdict| verdict.verdict != Linearizability::Linearizable);
            bad.map(|verdict| (verdict.key, matches!(verdict.verdict, Linearizability::Violation(_)))).collect()
        };
        let found: Vec<(u64, bool)> = bad(check(&history, Settings::default()));
        assert_eq!(found, [(key, true)], "seed {seed}: {plant:?}");
        let mut checker = Checker::new(Settings::default());
        for operation in &history {
            checker.push(operation);
            // No operation of a simulated history takes longer, and pushes are sorted by end.
            let pushed_at = operation.end_ns.unwrap_or(operation.start_ns + 1_000);
            checker.advance(pushed_at - 1_000);
        }
        let found: Vec<(u64, bool)> = bad(checker.finish());
        assert_eq!(found, [(key, true)], "seed {seed}, streamed: {plant:?}");
    }
}
