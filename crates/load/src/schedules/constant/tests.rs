//! Starts against tables, sums against each other: nothing drifts, nothing is counted twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::super::tests::{S, all_starts, due, starts};
use super::*;

#[test]
fn each_agent_has_its_turn() {
    let table: [(u32, f64, u64, u32, &[u64]); 6] = [
        (1, 10.0, S / 2, 0, &[0, 100_000_000, 200_000_000, 300_000_000, 400_000_000]),
        (2, 10.0, S / 2, 0, &[0, 200_000_000, 400_000_000]),
        (2, 10.0, S / 2, 1, &[100_000_000, 300_000_000]),
        (3, 3.0, 3 * S, 2, &[666_666_666, 1_666_666_666, 2_666_666_666]),
        (5, 2.0, S, 3, &[]),
        (1, 0.25, 9 * S, 0, &[0, 4 * S, 8 * S]),
    ];
    for (agents, rate, end_ns, agent, expected) in table {
        let constant = Constant::new(agents, rate, 0, end_ns);
        assert_eq!(starts(&constant, agent), expected, "agent {agent} of {agents} at {rate}/s");
    }
}

#[test]
fn with_a_ramp_agents_join_and_keep_to_the_same_moments() {
    let (all, ramped) = (Constant::new(4, 8.0, 0, 2 * S), Constant::new(4, 8.0, S, 2 * S));
    for agent in 0..4 {
        let joins_ns = S * u64::from(agent) / 4;
        let expected: Vec<u64> = starts(&all, agent).into_iter().filter(|at| *at >= joins_ns).collect();
        assert_eq!(starts(&ramped, agent), expected, "agent {agent}");
    }
    assert_eq!(ramped.first_ns(3), 875_000_000);
}

#[test]
fn rate_times_time_and_no_drift() {
    for (agents, rate, time_s, expected) in
        [(7, 1000.0, 10, 10_000), (3, 333.3, 10, 3333), (200, 13_000.0, 3, 39_000), (16, 0.5, 10, 5)]
    {
        let all = all_starts(&Constant::new(agents, rate, 0, time_s * S), agents);
        assert_eq!(all.len(), expected, "{rate}/s by {agents}");
        for (number, at) in all.iter().enumerate() {
            assert!((number as f64 / rate * 1e9 - *at as f64).abs() <= 1.0, "number {number} of {rate}/s at {at}");
        }
    }
}

#[test]
fn after_a_year_at_any_rate_the_next_is_the_next() {
    let year_ns = 365 * 86_400 * S;
    for rate in [1e-6, 0.3, 1.0, 7.7, 99_999.9, 1e9] {
        let constant = Constant::new(13, rate, 0, u64::MAX);
        let mut at = due(&constant, 5, year_ns, u64::MAX)[0].first_ns;
        for _ in 0..100 {
            let next = constant.next_ns(5, at, 0);
            assert!(((next - at) as f64 - 13e9 / rate).abs() <= 1.0, "{at} and {next} at {rate}/s");
            assert_eq!(due(&constant, 5, at + 1, next), []);
            assert_eq!(due(&constant, 5, at + 1, next + 1)[0].first_ns, next);
            at = next;
        }
    }
}

#[test]
fn a_second_is_one_row_at_any_rate() {
    let constant = Constant::new(3, 5e8, 0, 100 * S);
    assert_eq!(due(&constant, 1, 7 * S, 8 * S).iter().map(|due| due.count).collect::<Vec<_>>(), [166_666_666]);
}
