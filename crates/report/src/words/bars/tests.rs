//! Tests of the bars: no time is left out, edges are round, lines fit.
#![allow(clippy::unwrap_used)]

use super::*;

fn of(times_us: impl IntoIterator<Item = (u64, u64)>) -> Histogram<u64> {
    let mut times = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
    for (us, count) in times_us {
        times.record_n(us * 1_000, count).unwrap();
    }
    times
}

#[test]
fn every_time_is_in_one_row() {
    let shapes = [
        of([(1_000, 1)]),
        of((1..=10_000).map(|us| (us, 1))),
        of([(100, 1_000), (2_000_000, 3)]),
        of([(1, 1), (1_000_000_000, 1)]),
        of((0..31).map(|power| (1 << power, 5))),
    ];
    for times in &shapes {
        for most in [3, 8, 12] {
            let rows = rows(times, most);
            assert!(rows.len() <= most, "{rows:?}");
            assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), times.len(), "{rows:?}");
            let edges: Vec<u64> = rows.iter().filter_map(|row| row.up_to_ns).collect();
            assert!(edges.is_sorted() && edges.windows(2).all(|pair| pair[0] < pair[1]), "{edges:?}");
        }
    }
    assert!(bars(&of([]), 8, 80).is_empty());
}

#[test]
fn a_time_on_an_edge_is_below_it() {
    let rows = rows(&of([(1_000, 50), (1_150, 30), (1_900, 20)]), 8);
    let told: Vec<(Option<u64>, u64)> = rows.iter().map(|row| (row.up_to_ns, row.count)).collect();
    assert_eq!(told, [(Some(1_000_000), 50), (Some(1_200_000), 30), (Some(1_500_000), 0), (Some(2_000_000), 20)]);
}

#[test]
fn lines_fit_and_the_largest_bar_is_the_longest() {
    let times = of([(300, 400), (450, 90_000), (700, 8_000), (1_200, 1_500), (48_000, 2)]);
    for width in [40, 80] {
        let lines = bars(&times, 8, width);
        assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
        let full = |line: &str| line.chars().filter(|character| *character == '█').count();
        let longest = lines.iter().max_by_key(|line| full(line)).unwrap();
        assert!(longest.contains("≤ 500 µs"), "{lines:#?}");
    }
    insta::assert_snapshot!(bars(&times, 8, 80).join("\n"));
}

#[test]
fn what_is_there_is_seen() {
    assert_eq!([bar(0.0, 10), bar(1e-9, 10), bar(0.5, 10), bar(1.0, 10)], ["", "▏", "█████", "██████████"]);
}
