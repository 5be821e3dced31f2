//! The distribution of times as bars for a terminal. It must not leave a time out: what is slower than the last range has a row of its own.

use hdrhistogram::Histogram;

use crate::numbers;

const NS_PER_US: f64 = 1e3;

/// Edges in each decade, from the finest grid to the coarsest: round numbers, so that a row means the same in every run.
const GRIDS: [&[f64]; 4] =
    [&[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0]];
/// From a nanosecond to over an hour.
const DECADES: i32 = 13;
/// What the ranges are fitted to; what is faster or slower than these goes into the first and the last row.
const FITTED: [f64; 2] = [0.01, 0.99];
/// Columns between a range, its bar, its share and its count.
const GAP: &str = "  ";
/// Columns of a share: `> 99.9 %`.
const SHARE: usize = 8;
const SHORTEST: usize = 5;

/// A row: the upper edge of its range, and how many times are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    /// Nanoseconds; `None`: slower than the row above.
    up_to_ns: Option<u64>,
    count: u64,
}

/// A line for each range of times, at most `most` lines of at most `width` characters: its upper edge, a bar, its share, its count.
/// Empty if there are no times. `most` is at least 3.
#[must_use]
pub fn bars(times_ns: &Histogram<u64>, most: usize, width: usize) -> Vec<String> {
    let rows = rows(times_ns, most.max(3));
    let all: u64 = rows.iter().map(|row| row.count).sum();
    let largest = rows.iter().map(|row| row.count).max().unwrap_or(0).max(1);
    let cells: Vec<[String; 3]> = rows
        .iter()
        .map(|row| [range(row, times_ns.max()), numbers::share(row.count, all), numbers::count(row.count)])
        .collect();
    let wide = |column: usize| cells.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let (ranges, counts) = (wide(0), wide(2));
    let room = width.saturating_sub(ranges + SHARE + counts + 3 * GAP.len()).max(SHORTEST);
    rows.iter()
        .zip(&cells)
        .map(|(row, [range, share, count])| {
            let bar = bar(row.count as f64 / largest as f64, room);
            format!("{range:>ranges$}{GAP}{bar:room$}{GAP}{share:>SHARE$}{GAP}{count:>counts$}")
        })
        .collect()
}

fn range(row: &Row, slowest_ns: u64) -> String {
    match row.up_to_ns {
        Some(up_to_ns) => format!("≤ {}", numbers::micros(up_to_ns as f64 / NS_PER_US)),
        None => format!("up to {}", numbers::micros(slowest_ns as f64 / NS_PER_US)),
    }
}

fn rows(times_ns: &Histogram<u64>, most: usize) -> Vec<Row> {
    if times_ns.is_empty() {
        return Vec::new();
    }
    let edges = edges(FITTED.map(|q| times_ns.lowest_equivalent(times_ns.value_at_quantile(q))), most - 1);
    let mut rows: Vec<Row> = edges.iter().map(|edge| Row { up_to_ns: Some(*edge), count: 0 }).collect();
    rows.push(Row { up_to_ns: None, count: 0 });
    for bucket in times_ns.iter_recorded() {
        // A time on an edge belongs below it, though its bucket reaches beyond.
        let at_ns = times_ns.lowest_equivalent(bucket.value_iterated_to());
        let place = edges.partition_point(|edge| *edge < at_ns);
        if let Some(row) = rows.get_mut(place) {
            row.count += bucket.count_at_value();
        }
    }
    if rows.last().is_some_and(|row| row.count == 0) {
        rows.pop();
    }
    rows
}

/// Upper edges on the finest grid of which so many reach over these times.
fn edges([low_ns, high_ns]: [u64; 2], most: usize) -> Vec<u64> {
    let on = |grid: &[f64]| -> Vec<u64> {
        let points = (0..DECADES).flat_map(|decade| grid.iter().map(move |point| point * 10_f64.powi(decade)));
        let mut edges: Vec<u64> = points.map(|point| point.round() as u64).collect();
        edges.dedup();
        let first = edges.partition_point(|edge| *edge < low_ns);
        let last = edges.partition_point(|edge| *edge < high_ns).min(edges.len() - 1);
        edges[first.min(last)..=last].to_vec()
    };
    let mut fitting = GRIDS.iter().map(|grid| on(grid));
    let mut edges = fitting.next().unwrap_or_default();
    while edges.len() > most {
        match fitting.next() {
            Some(coarser) => edges = coarser,
            // More decades than rows: the fastest share one.
            None => drop(edges.drain(..edges.len() - most)),
        }
    }
    edges
}

/// As long as its part of the room, to an eighth of a character; what is there at all is seen.
fn bar(part: f64, room: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part * room as f64 * 8.0).round() as usize;
    let eighths = if part > 0.0 { eighths.max(1) } else { 0 };
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
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
}
