//! When faults begin and heal, by table. Not here: anything that breaks something.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use experiment::catalog::Heals;
use experiment::plan::{Fault, When};

use super::{Occurrence, Schedule};

fn fault(name: &str, when: When, for_s: Option<f64>) -> Fault {
    Fault {
        name: name.to_owned(),
        kind: "kill".to_owned(),
        on: "one".to_owned(),
        with: BTreeMap::new(),
        when,
        for_s,
        seed: 1,
        label: name.to_owned(),
        colour: "#000000".to_owned(),
        standing: false,
    }
}

#[test]
fn a_fault_at_a_time_begins_once_and_heals_after_for() {
    let mut schedule = Schedule::new([(fault("a", When::At(5.0), Some(2.0)), Heals::AfterFor)], 60.0);
    assert_eq!(schedule.next_s(), Some(5.0));
    assert!(schedule.due(4.999).is_empty());
    let occurrence = Occurrence { fault: 0, number: 1 };
    assert_eq!(schedule.due(5.01), [occurrence]);
    assert_eq!(schedule.next_s(), None);
    schedule.begun(occurrence, 5.01);
    assert_eq!(schedule.next_s(), Some(7.01));
    assert!(schedule.heal_due(7.0).is_empty());
    assert_eq!(schedule.heal_due(7.02), [occurrence]);
    assert!(schedule.heal_all().is_empty());
}

#[test]
fn a_periodic_fault_ends_with_the_load() {
    let every = When::Every { first_s: 10.0, every_s: 10.0 };
    let mut schedule = Schedule::new([(fault("a", every, None), Heals::ByItself)], 30.0);
    let mut begun = Vec::new();
    for second in 0..100 {
        for occurrence in schedule.due(f64::from(second)) {
            schedule.begun(occurrence, f64::from(second));
            begun.push((second, occurrence.number));
        }
    }
    assert_eq!(begun, [(10, 1), (20, 2)]);
}

#[test]
fn a_fault_follows_another_that_began_or_healed() {
    let after = |healed| When::After { fault: "first".to_owned(), healed, plus_s: 1.0 };
    let faults = [
        (fault("first", When::At(5.0), Some(3.0)), Heals::AfterFor),
        (fault("on_begun", after(false), None), Heals::ByItself),
        (fault("on_healed", after(true), None), Heals::ByItself),
    ];
    let mut schedule = Schedule::new(faults, 60.0);
    let first = schedule.due(5.0)[0];
    schedule.begun(first, 5.0);
    assert_eq!(schedule.next_s(), Some(6.0));
    assert_eq!(schedule.due(6.0), [Occurrence { fault: 1, number: 1 }]);
    assert_eq!(schedule.heal_due(8.0), [first]);
    assert_eq!(schedule.next_s(), None);
    schedule.healed(first, 8.0);
    assert_eq!(schedule.due(9.0), [Occurrence { fault: 2, number: 1 }]);
}

#[test]
fn a_fault_that_heals_by_itself_counts_as_healed_when_it_has_begun() {
    let after = When::After { fault: "first".to_owned(), healed: true, plus_s: 0.0 };
    let faults =
        [(fault("first", When::At(1.0), None), Heals::ByItself), (fault("next", after, None), Heals::ByItself)];
    let mut schedule = Schedule::new(faults, 60.0);
    let first = schedule.due(1.0)[0];
    schedule.begun(first, 1.0);
    assert_eq!(schedule.due(1.0), [Occurrence { fault: 1, number: 1 }]);
}

#[test]
fn what_was_broken_last_is_healed_first() {
    let faults =
        [(fault("a", When::At(1.0), None), Heals::AfterFor), (fault("b", When::At(2.0), Some(50.0)), Heals::AfterFor)];
    let mut schedule = Schedule::new(faults, 60.0);
    let due = schedule.due(2.0);
    for occurrence in &due {
        schedule.begun(*occurrence, 2.0);
    }
    assert_eq!(schedule.heal_all(), [due[1], due[0]]);
}
