//! Tests of the arithmetic on two looks; that this machine can be looked at is tested with the rest of the doctor.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn look_with(stat: &str, programs: &[(u32, &str, u64)]) -> Look {
    Look {
        machine: Ticks::parse(stat, "cpu ").unwrap(),
        programs: programs.iter().map(|(pid, name, ticks)| ((*pid, 7), ((*name).to_owned(), *ticks))).collect(),
    }
}

#[test]
fn our_own_time_is_not_that_of_others() {
    let before = look_with("cpu  100 0 100 1000 0 0 0 0", &[(1, "plimsoll", 10), (2, "rustc", 50), (3, "rustc", 5)]);
    let after = look_with("cpu  150 0 110 1130 0 0 0 10", &[(1, "plimsoll", 20), (2, "rustc", 80), (3, "rustc", 15)]);
    let noise = between(&before, &after, 1).unwrap();
    // 60 of 200 ticks were busy, 10 of them ours.
    assert_eq!((noise.others_pct, noise.steal_pct), (25.0, Some(5.0)));
    assert_eq!(noise.busiest, [("rustc".to_owned(), 20.0)]);
}

#[test]
fn a_machine_that_stands_still_tells_nothing() {
    let look = || look_with("cpu  100 0 100 1000", &[]);
    assert_eq!(between(&look(), &look(), 1), None);
    let later = look_with("cpu  100 0 100 1100", &[]);
    let noise = between(&look(), &later, 1).unwrap();
    assert_eq!((noise.others_pct, noise.steal_pct), (0.0, None));
}

#[test]
fn a_pid_that_is_used_again_counts_from_its_start() {
    let before = look_with("cpu  0 0 0 0 0 0 0 0", &[(2, "old", 1000)]);
    let mut after = look_with("cpu  50 0 0 50 0 0 0 0", &[]);
    after.programs.insert((2, 9), ("new".to_owned(), 40));
    assert_eq!(between(&before, &after, 1).unwrap().busiest, [("new".to_owned(), 40.0)]);
}
