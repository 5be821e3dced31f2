//! Checks of the timeline's counting, against counting by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn slot(at_s: f64, ok: u32, failed: u32) -> OutcomeSlot {
    OutcomeSlot { at_s, slot_s: 0.001, ok, failed, ..OutcomeSlot::default() }
}

#[test]
fn counts_are_those_of_the_rows() {
    let timeline = Timeline::of(&[slot(0.001, 5, 0), slot(0.003, 2, 1), slot(0.003, 1, 0)]).unwrap();
    assert_eq!(timeline.ok().between(0, 4), 8);
    assert_eq!(timeline.ok().between(2, 1_000), 3);
    assert_eq!(timeline.ok().between(9, 20), 0);
    assert_eq!(timeline.failed().between(3, 4), 1);
    assert_eq!(timeline.ok().first_in(0, 4), Some(1));
    assert_eq!(timeline.ok().first_in(2, 4), Some(3));
    assert_eq!(timeline.ok().first_in(2, 3), None);
    assert_eq!(timeline.ok().first_in(4, 9), None);
    assert_eq!(timeline.ok().first_in(40, 90), None);
    assert_eq!(timeline.ok().last_in(0, 3), Some(1));
    assert_eq!(timeline.ok().last_in(0, 99), Some(3));
    assert_eq!(timeline.ok().last_in(2, 3), None);
}

#[test]
fn slots_are_found_where_fractions_are_not_exact() {
    let timeline = Timeline::of(&[slot(0.0, 1, 0)]).unwrap();
    for number in 0..5_000_u32 {
        assert_eq!(timeline.slot_of(f64::from(number) * 0.001), number as usize);
    }
    assert_eq!(timeline.slot_of(-3.0), 0);
}

#[test]
fn rates_are_per_second() {
    let rows: Vec<_> = (0..1000).map(|number| slot(f64::from(number) / 1e3, 2, 0)).collect();
    let timeline = Timeline::of(&rows).unwrap();
    assert_eq!(timeline.ok_per_s(0.0, 1.0), Some(2000.0));
    assert_eq!(timeline.ok_per_s(0.5, 1.5), Some(1000.0));
    assert_eq!(timeline.ok_per_s(0.5, 0.5), None);
    assert_eq!(timeline.ok_rates(0.0, 1.05, 0.1), [2000.0; 10]);
}

#[test]
fn impossible_rows_are_no_reason_to_fill_the_memory() {
    assert_eq!(Timeline::of(&[]), None);
    assert_eq!(Timeline::of(&[OutcomeSlot::default()]), None);
    let far = Timeline::of(&[slot(0.0, 1, 0), slot(1e15, 1, 0), slot(-5.0, 1, 0), slot(f64::NAN, 1, 0)]).unwrap();
    assert_eq!(far.ok().between(0, usize::MAX), 1);
}

#[test]
fn however_late_a_time_is_said_to_be_the_way_to_it_has_an_end() {
    let timeline = Timeline::of(&[slot(0.0, 1, 0), slot(2.0, 1, 0)]).unwrap();
    for at_s in [4_294_967_296.0, 1e15, f64::INFINITY] {
        assert_eq!(timeline.slot_of(at_s), timeline.slots() + SLOTS_AFTER, "{at_s}");
    }
    assert_eq!((timeline.slot_of(f64::NAN), timeline.slot_of(-5.0)), (0, 0));
    assert_eq!(timeline.slot_of(200.0), 200_000, "the longest load of 1 ms slots");
}
