//! Starts against tables, sums against each other: nothing drifts, nothing is counted twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

const S: u64 = 1_000_000_000;

fn starts(open: &Open, agent: u32) -> Vec<u64> {
    let first = Some(open.first_ns(agent)).filter(|first| *first < open.end_ns());
    std::iter::successors(first, |at| Some(open.next_ns(*at, u64::MAX)).filter(|next| *next < open.end_ns())).collect()
}

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
        let open = Open::new(agents, rate, 0, end_ns);
        assert_eq!(starts(&open, agent), expected, "agent {agent} of {agents} at {rate}/s");
    }
}

#[test]
fn with_a_ramp_agents_join_and_keep_to_the_same_moments() {
    let (all, ramped) = (Open::new(4, 8.0, 0, 2 * S), Open::new(4, 8.0, S, 2 * S));
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
        let open = Open::new(agents, rate, 0, time_s * S);
        let mut all: Vec<u64> = (0..agents).flat_map(|agent| starts(&open, agent)).collect();
        all.sort_unstable();
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
        let open = Open::new(13, rate, 0, u64::MAX);
        let mut at = open.due(5, year_ns, u64::MAX).first_ns;
        for _ in 0..100 {
            let next = open.next_ns(at, 0);
            assert!(((next - at) as f64 - 13e9 / rate).abs() <= 1.0, "{at} and {next} at {rate}/s");
            assert_eq!(open.due(5, at + 1, next), Due::default());
            assert_eq!(open.due(5, at + 1, next + 1).first_ns, next);
            at = next;
        }
    }
}

#[test]
fn what_is_due_is_counted_once_wherever_time_is_cut() {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..200 {
        let agents = random.u32(1..20);
        let open = Open::new(agents, random.f64() * 500.0 + 0.1, random.u64(0..4) * S / 2, 4 * S);
        for agent in 0..agents {
            let own = starts(&open, agent);
            let mut cuts: Vec<u64> = (0..6).map(|_| random.u64(0..4 * S)).chain([0, 4 * S]).collect();
            cuts.sort_unstable();
            for cut in cuts.windows(2) {
                let inside: Vec<u64> = own.iter().copied().filter(|at| (cut[0]..cut[1]).contains(at)).collect();
                let due = open.due(agent, cut[0], cut[1]);
                assert_eq!(due.count, inside.len() as u64);
                for (place, at) in inside.iter().enumerate() {
                    assert!(due.at_ns(place as u64).abs_diff(*at) <= 1);
                }
                let waited: i64 = inside.iter().map(|at| (5 * S - at).cast_signed()).sum();
                assert!(due.waited_ns(5 * S).abs_diff(waited) <= due.count);
            }
        }
    }
}
