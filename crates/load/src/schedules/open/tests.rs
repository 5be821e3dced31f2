//! Starts at a rate: exact, without drift, and rising over a ramp.

use super::*;

const NS_PER_S: u64 = 1_000_000_000;

/// Intended starts of all agents until the end, in order.
fn starts(schedule: &Open) -> Vec<u64> {
    let mut starts = Vec::new();
    for agent in 0..schedule.agents {
        let mut at_ns = schedule.first_ns(agent);
        while at_ns < schedule.end_ns {
            starts.push(at_ns);
            // However long it took.
            at_ns = schedule.next_ns(at_ns, at_ns + 7 * NS_PER_S);
        }
    }
    starts.sort_unstable();
    starts
}

#[test]
fn agents_take_turns_at_the_rate() {
    let table: [(u32, f64, &[u64]); 3] = [
        (2, 4.0, &[0, 250_000_000, 500_000_000, 750_000_000]),
        (1, 2.0, &[0, 500_000_000]),
        (7, 3.0, &[0, 333_333_333, 666_666_666]),
    ];
    for (agents, rate, expected) in table {
        assert_eq!(starts(&Open::new(agents, rate, 0, NS_PER_S)), expected, "{agents} agents at {rate}");
    }
}

#[test]
fn nothing_drifts_and_nothing_is_left_out() {
    for (agents, rate, time_s) in [(64, 12_345.0, 20), (3, 99_999.7, 5), (1, 0.3, 100), (1000, 777.0, 30), (17, 1e6, 1)]
    {
        let schedule = Open::new(agents, rate, 0, time_s * NS_PER_S);
        let starts = starts(&schedule);
        let expected = (rate * time_s as f64).ceil();
        assert!((starts.len() as f64 - expected).abs() <= 1.0, "{rate}/s for {time_s} s: {} operations", starts.len());
        for (number, at_ns) in starts.iter().enumerate() {
            let due_ns = number as f64 / rate * NS_PER_S as f64;
            // A picosecond an operation is rounded up.
            assert!(
                (*at_ns as f64 - due_ns).abs() < 1.0 + number as f64 / 1e3,
                "operation {number} at {rate}/s: {at_ns}, due {due_ns}"
            );
        }
    }
}

#[test]
fn over_the_ramp_the_rate_rises_in_a_straight_line() {
    for agents in [1, 5, 300] {
        let schedule = Open::new(agents, 1000.0, 10 * NS_PER_S, 20 * NS_PER_S);
        let starts = starts(&schedule);
        let before = |at_s: u64| starts.iter().filter(|at_ns| **at_ns < at_s * NS_PER_S).count() as i64;
        // A quarter of the ramp's operations in its first half; and 5,000 in all of it.
        for (at_s, expected) in [(5, 1250), (10, 5000), (15, 10_000), (20, 15_000)] {
            assert!((before(at_s) - expected).abs() <= 1, "{agents} agents, {at_s} s: {}", before(at_s));
        }
    }
}

#[test]
fn an_operation_is_found_again_by_its_start() {
    for schedule in [Open::new(9, 123.4, 0, NS_PER_S), Open::new(9, 250_000.0, 3 * NS_PER_S, NS_PER_S)] {
        for number in (0..2_000).chain([1_000_000, 123_456_789]) {
            assert_eq!(schedule.number(schedule.at_ns(number)), number);
        }
    }
}
