//! The allowance: a twentieth of the time, whoever asks how often.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

/// Spends all it may in a time with starts so far apart; how much that was.
fn spent_ns(length_ns: u64, gap_ns: u64) -> u64 {
    let (mut allowance, mut spent_ns) = (Allowance::default(), 0);
    for now_ns in (0..length_ns).step_by(usize::try_from(gap_ns).unwrap()) {
        if allowance.is_enough(now_ns) {
            allowance.spend(EARLY_NS.min(gap_ns));
            spent_ns += EARLY_NS.min(gap_ns);
        }
    }
    spent_ns
}

#[test]
fn no_more_than_a_twentieth_is_spent() {
    for gap_ns in [1_000, 20_000, 50_000, 100_000, 333_333, 625_000, 1_000_000, 40_000_000] {
        let second_ns = 1_000_000_000;
        let spent_ns = spent_ns(second_ns, gap_ns);
        assert!(spent_ns <= second_ns / ONE_IN, "{spent_ns} ns at a start every {gap_ns} ns");
        // What may be spent is spent, where there is enough to wait for.
        let wanted_ns = second_ns / gap_ns * EARLY_NS.min(gap_ns);
        assert!(spent_ns * 10 >= wanted_ns.min(second_ns / ONE_IN) * 9, "{spent_ns} of {wanted_ns}");
    }
}

#[test]
fn the_fewer_are_awaited_the_less_is_gathered() {
    let gathered = |open, connections| {
        let Gathering { arrivals, within_us } = gathering(open, connections);
        (arrivals, within_us)
    };
    assert_eq!(gathered(0, 64), (1, 0));
    assert_eq!(gathered(7, 64), (1, 1));
    assert_eq!(gathered(64, 64), (16, 16));
    assert_eq!(gathered(1000, 1000), (32, 50));
    // Many on few connections are answered by few arrivals.
    assert_eq!(gathered(256, 4), (1, 1));
}

#[test]
fn up_to_1600_starts_a_second_each_is_waited_for() {
    let mut allowance = Allowance::default();
    for start in 1..=1600_u64 {
        assert!(allowance.is_enough(start * 625_000), "start {start}");
        allowance.spend(EARLY_NS);
    }
}

#[test]
fn an_idle_hour_is_not_saved_up() {
    let mut allowance = Allowance::default();
    let hour_ns = 3_600_000_000_000;
    assert!(allowance.is_enough(hour_ns));
    for _ in 0..20 {
        assert!(allowance.is_enough(hour_ns));
        allowance.spend(EARLY_NS);
    }
    assert!(!allowance.is_enough(hour_ns));
    // A clock that seems to stand or go back gives nothing.
    assert!(!allowance.is_enough(hour_ns - 5));
}
