//! Whether it is a Poisson process: counts, gaps and independence, each held against its distribution with fixed seeds. Bounds are four
//! standard deviations and more, so that they say something and no seed had to be looked for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::super::tests::{S, all_starts, due, starts};
use super::*;

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
    (mean, variance)
}

/// How many of the starts lie in each window of that length.
fn counts(starts: &[u64], window_ns: u64, windows: u64) -> Vec<f64> {
    let mut counts = vec![0.0; windows as usize];
    for at in starts {
        if let Some(count) = counts.get_mut((at / window_ns) as usize) {
            *count += 1.0;
        }
    }
    counts
}

#[test]
fn the_table_is_that_of_the_distribution() {
    let below = below();
    let share = |place: usize| below[place] as f64 / 2.0_f64.powi(64);
    // P(N > 0) = 1 - 1/e, P(N > 1) = 1 - 2/e, P(N > 2) = 1 - 2.5/e; the mean is the sum of all tails.
    for (place, expected) in [(0, 0.632_120_558_8), (1, 0.264_241_117_7), (2, 0.080_301_397_1), (9, 1.114_254_783e-7)] {
        assert!((share(place) / expected - 1.0).abs() < 1e-8, "{place}: {}", share(place));
    }
    assert!(((0..MOST).map(share).sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(below.is_sorted_by(|one, next| one > next) && below[MOST - 1] > 0);
}

#[test]
fn mean_and_variance_of_counts_are_those_of_the_rate_at_any_window() {
    for (agents, rate, seed) in [(1, 1000.0, 1), (2, 1000.0, 2), (7, 333.3, 3), (64, 5000.0, 4), (300, 100.0, 5)] {
        let all = all_starts(&Poisson::new(agents, rate, 0, 60 * S, seed), agents);
        let total = rate * 60.0;
        assert!((all.len() as f64 - total).abs() < 4.0 * total.sqrt(), "{} of {total}", all.len());
        // Shorter than a cell, a few cells, many cells.
        for cells in [0.3, 2.5, 40.0] {
            let window_ns = (cells / rate * 1e9) as u64;
            let windows = 60 * S / window_ns;
            let (mean, variance) = mean_and_variance(&counts(&all, window_ns, windows));
            let expected = window_ns as f64 * rate / 1e9;
            let sure = (windows as f64).sqrt();
            assert!((mean - expected).abs() < 4.5 * expected.sqrt() / sure, "{cells} cells: mean {mean}");
            // The variance of a Poisson count's variance: (mean + 2 mean²) / windows.
            let spread = (expected + 2.0 * expected * expected).sqrt() / sure;
            assert!((variance - expected).abs() < 4.5 * spread, "{cells} cells: variance {variance} of {expected}");
        }
    }
}

#[test]
fn gaps_are_exponential_and_do_not_remember() {
    let all = all_starts(&Poisson::new(20, 2000.0, 0, 60 * S, 11), 20);
    let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9 * 2000.0).collect();
    let count = gaps.len() as f64;
    // The largest distance between the two distributions, by Kolmogorov and Smirnov: 1.95 is exceeded once in a thousand times.
    let mut sorted = gaps.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let distance = sorted.iter().enumerate().map(|(rank, gap)| (rank as f64 / count - (1.0 - (-gap).exp())).abs());
    let distance = distance.fold(0.0, f64::max);
    assert!(distance * count.sqrt() < 1.95, "{distance} of {count}");
    // A gap says nothing about the next one.
    let (mean, variance) = mean_and_variance(&gaps);
    let together = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / count;
    assert!((together / variance).abs() < 4.0 / count.sqrt(), "{}", together / variance);
}

#[test]
fn the_seed_decides_and_nothing_else() {
    let of = |seed: u64| Poisson::new(5, 700.0, 0, 3 * S, seed);
    assert_eq!(all_starts(&of(1), 5), all_starts(&of(1), 5));
    assert_ne!(all_starts(&of(1), 5), all_starts(&of(2), 5));
    // Whoever begins in the middle finds the same.
    let own = starts(&of(1), 3);
    let later: Vec<u64> = due(&of(1), 3, S, 2 * S).iter().map(|due| due.first_ns).collect();
    assert_eq!(later, own.into_iter().filter(|at| (S..2 * S).contains(at)).collect::<Vec<_>>());
}

#[test]
fn what_starts_close_together_is_different_agents() {
    // A Poisson process of each agent's own would have 1 - exp(-0.1) = 9.5 % of gaps below a tenth of the agent's mean.
    let agents = 100;
    let schedule = Poisson::new(agents, 1000.0, 0, 100 * S, 9);
    let short_ns = u64::from(agents) * S / 1000 / 10;
    let (mut gaps, mut short) = (0, 0);
    for agent in 0..agents {
        let own = starts(&schedule, agent);
        gaps += own.len();
        short += own.windows(2).filter(|pair| pair[1] - pair[0] < short_ns).count();
    }
    assert!(gaps > 90_000 && (short as f64) < 0.01 * gaps as f64, "{short} of {gaps}");
}

#[test]
fn with_a_ramp_agents_join_and_keep_to_the_same_moments() {
    let (all, ramped) = (Poisson::new(4, 80.0, 0, 2 * S, 3), Poisson::new(4, 80.0, S, 2 * S, 3));
    for agent in 0..4 {
        let joins_ns = S * u64::from(agent) / 4;
        let expected: Vec<u64> = starts(&all, agent).into_iter().filter(|at| *at >= joins_ns).collect();
        assert_eq!(starts(&ramped, agent), expected, "agent {agent}");
    }
}

#[test]
fn the_fastest_and_the_slowest_rate() {
    let fast = Poisson::new(1, 1e7, 0, S / 1000, 1);
    let count = starts(&fast, 0).len() as f64;
    assert!((count - 1e4).abs() < 4.0 * 100.0, "{count}");
    let slow = Poisson::new(3, 1e-6, 0, u64::MAX, 1);
    assert!((0..3).all(|agent| slow.next_ns(agent, slow.first_ns(agent), 0) > 0));
}
