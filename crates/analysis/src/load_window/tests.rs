//! Checks of what is measured of a load: warm-up, ramp, interruption, faults.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use record::events::Event;
use record::rows::OutcomeSlot;

use super::*;
use crate::made_up;

/// 1,000 operations a second for so long, in slots of 10 ms.
fn evidence(length_s: f64) -> Evidence {
    let slots = (0..(length_s * 100.0) as u32).map(|number| OutcomeSlot {
        at_s: f64::from(number) / 100.0,
        slot_s: 0.01,
        ok: 10,
        ..OutcomeSlot::default()
    });
    Evidence { slots: slots.collect(), ..Evidence::default() }
}

fn window(load: &Load, evidence: &Evidence) -> LoadWindow {
    LoadWindow::of(load, evidence, &Timeline::of(&evidence.slots).unwrap()).unwrap()
}

fn fault(at_s: f64) -> Event {
    Event { at_s, what: What::FaultBegun { fault: "oops".into(), number: 1, kind: "call".into(), on: "n1".into() } }
}

#[test]
fn a_given_warm_up_is_taken_as_it_is() {
    let load = Load { warmup: Warmup::Seconds(3.0), ..made_up::load(10, 20.0) };
    let found = window(&load, &evidence(20.5));
    assert_eq!((found.from_s, found.until_s, found.steady), (3.0, 20.0, None), "the drain is not measured");
    assert_eq!(found.calm(), Some((3.0, 20.0)));
}

#[test]
fn what_was_cut_off_or_interrupted_is_measured_up_to_there() {
    let load = made_up::load(10, 20.0);
    assert!((window(&load, &evidence(7.5)).until_s - 7.5).abs() < 1e-9);
    let mut interrupted = evidence(9.0);
    interrupted.events.push(Event { at_s: 6.0, what: What::Phase { phase: Phase::Draining } });
    assert_eq!(window(&load, &interrupted).until_s, 6.0);
    let late = Load { warmup: Warmup::Seconds(30.0), ..load };
    assert_eq!(window(&late, &evidence(7.0)).length_s(), 0.0);
}

#[test]
fn the_warm_up_never_ends_before_the_ramp_nor_after_the_first_fault() {
    let load = Load { warmup: Warmup::Auto, ramp_s: 4.0, ..made_up::load(10, 30.0) };
    let mut faulty = evidence(30.0);
    faulty.events = vec![fault(20.0), fault(12.0), fault(45.0)];
    let found = window(&load, &faulty);
    assert_eq!(found.first_fault_s, Some(12.0));
    assert!((4.0..8.5).contains(&found.from_s), "{found:?}");
    assert_eq!(found.steady, Some(true));
    assert_eq!(found.calm(), Some((found.from_s, 12.0)));
}

#[test]
fn a_load_that_never_started_has_no_window() {
    let mut before = evidence(0.01);
    before.slots.clear();
    before.events.push(Event { at_s: -2.0, what: What::Phase { phase: Phase::Starting } });
    let timeline = Timeline::of(&evidence(1.0).slots).unwrap();
    assert_eq!(LoadWindow::of(&made_up::load(10, 20.0), &before, &timeline), None);
}
