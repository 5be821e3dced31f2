//! Tests of spreading threads over slow cores.

use super::balance::{Move, Slot, Thread, moves};
use super::threads::wanted_ns;

/// Slots of threads, numbered from 1 through all of them, with these demands.
fn slots(demands: &[&[f64]]) -> Vec<Slot> {
    let mut id = 0;
    let mut thread = |demand: &f64| {
        id += 1;
        Thread { id, demand: *demand, stays: false }
    };
    demands.iter().map(|slot| Slot { threads: slot.iter().map(&mut thread).collect() }).collect()
}

fn sums(slots: &[Slot], moves: &[Move]) -> Vec<f64> {
    let demand_on = |to: usize| {
        let stays = |thread: &&Thread| moves.iter().all(|m| m.thread != thread.id);
        let own = slots[to].threads.iter().filter(stays);
        let came = moves.iter().filter(|m| m.to == to);
        let came =
            came.filter_map(|m| slots.iter().flat_map(|slot| &slot.threads).find(|thread| thread.id == m.thread));
        own.chain(came).map(|thread| thread.demand).sum()
    };
    (0..slots.len()).map(demand_on).collect()
}

#[test]
fn what_gains_nothing_is_not_moved() {
    let table: [&[&[f64]]; 8] = [
        &[&[], &[]],
        // One thread that wants more than a core gets one core.
        &[&[1.0], &[], &[], &[]],
        // Beside something small.
        &[&[1.0, 0.1], &[]],
        // Two that take turns are one thing: two cores would be too much for them.
        &[&[0.5, 0.5], &[]],
        &[&[0.3, 0.3, 0.3], &[0.1]],
        // As even as it gets.
        &[&[1.0, 1.0], &[1.0], &[1.0]],
        &[&[1.0, 1.0], &[1.0, 1.0]],
        // Nowhere to go.
        &[&[1.0, 1.0, 1.0]],
    ];
    for demands in table {
        assert_eq!(moves(&slots(demands)), [], "{demands:?}");
    }
}

#[test]
fn crowds_are_spread() {
    let table: [(&[&[f64]], &[f64]); 6] = [
        (&[&[1.0, 1.0], &[]], &[1.0, 1.0]),
        (&[&[1.0, 1.0, 1.0, 1.0], &[], &[], &[]], &[1.0, 1.0, 1.0, 1.0]),
        (&[&[1.0, 1.0, 1.0], &[1.0], &[1.0], &[1.0]], &[2.0, 2.0, 1.0, 1.0]),
        (&[&[1.0; 8], &[]], &[4.0, 4.0]),
        // The small one goes, and takes less of the new core's quota with it.
        (&[&[1.0, 0.6], &[0.0]], &[1.0, 0.6]),
        (&[&[0.8, 0.8], &[0.5], &[0.1]], &[0.8, 0.5, 0.9]),
    ];
    for (demands, wanted) in table {
        let slots = slots(demands);
        let moves = moves(&slots);
        let mut got = sums(&slots, &moves);
        let mut wanted = wanted.to_vec();
        got.sort_by(f64::total_cmp);
        wanted.sort_by(f64::total_cmp);
        let is_close = got.iter().zip(&wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-9);
        assert!(is_close, "{demands:?}: {moves:?} gives {got:?}");
    }
}

#[test]
fn no_thread_is_moved_twice_at_once() {
    let moves = moves(&slots(&[&[1.0; 20], &[], &[], &[]]));
    let mut ids: Vec<u32> = moves.iter().map(|m| m.thread).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), moves.len());
    assert_eq!(moves.len(), 15);
}

#[test]
fn what_was_moved_lately_stays() {
    let mut slots = slots(&[&[1.0, 1.0], &[]]);
    slots[0].threads[0].stays = true;
    assert_eq!(moves(&slots), [Move { thread: 2, to: 1 }]);
    slots[0].threads[1].stays = true;
    assert_eq!(moves(&slots), []);
}

#[test]
fn a_line_of_schedstat() {
    assert_eq!(wanted_ns("5000 700 12\n"), Some(5700));
    assert_eq!(wanted_ns("0\n"), None);
}
