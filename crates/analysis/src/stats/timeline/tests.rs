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

/// Wide slots of 100 ms with ten operations each, but for those that `holds` says something else of.
fn wide(count: u32, holds: impl Fn(u32) -> (u32, u32)) -> Vec<OutcomeSlot> {
    let row = |number: u32| {
        let (ok, failed) = holds(number);
        OutcomeSlot { at_s: f64::from(number) / 10.0, slot_s: 0.1, ok, failed, ..OutcomeSlot::default() }
    };
    (0..count).map(row).filter(|row| row.ok + row.failed > 0).collect()
}

/// A second's narrow slots say to the millisecond what the wide ones around it do not.
#[test]
fn narrow_slots_refine_wide_ones() {
    let wide = wide(40, |number| if number == 21 { (3, 2) } else { (10, 0) });
    let narrow = [slot(2.0, 10, 0), slot(2.103, 3, 0), slot(2.107, 0, 2), slot(2.299, 10, 0)];
    let timeline = Timeline::refined(&wide, &narrow).unwrap();
    assert_eq!((timeline.slot_s(), timeline.whole().unwrap().slot_s()), (0.001, 0.1));
    assert_eq!(timeline.ok().between(0, 4_000), 393);
    assert_eq!(timeline.failed().first_in(0, 4_000), Some(2_107));
    assert_eq!(timeline.failed().last_in(0, 4_000), Some(2_107));
    let silences: Vec<_> = timeline.ok().silences(0, 4_000).collect();
    assert_eq!(silences, [[2_001, 2_103], [2_104, 2_299]], "none is made up within a wide slot");
    // Within a wide one, evenly.
    assert_eq!(timeline.ok().between(1_000, 1_050), 5);
    assert_eq!(timeline.ok().first_in(1_051, 4_000), Some(1_060));
    assert_eq!(timeline.ok_rates(0.0, 4.0, 0.1).iter().sum::<f64>().round(), 3_930.0);
}

/// A crash may have kept a part of the narrow ones from the disk.
#[test]
fn narrow_slots_that_hold_less_than_the_wide_one_are_not_believed() {
    let wide = wide(40, |_| (10, 0));
    let timeline = Timeline::refined(&wide, &[slot(2.0, 9, 0), slot(3.05, 10, 0)]).unwrap();
    assert_eq!(timeline.ok().between(2_000, 2_050), 5, "spread");
    assert_eq!(timeline.ok().between(3_000, 3_050), 0, "known");
    let odd = OutcomeSlot { at_s: 1.0, slot_s: 0.03, ok: 10, ..OutcomeSlot::default() };
    assert_eq!(Timeline::refined(&wide, &[odd]), Timeline::of(&wide), "slots that do not fit");
    assert_eq!(Timeline::refined(&wide, &[]), Timeline::of(&wide));
}
