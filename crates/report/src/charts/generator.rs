//! Chart of the load generator's own health. If the generator is the bottleneck, the other charts
//! show its limits and not the target's.

use std::collections::BTreeMap;
use std::ops::Range;

use record::rows::GeneratorSecond;

use super::{TrialView, lines_with_values, with_gaps};
use crate::drawing::axis::Spacing;
use crate::drawing::chart::{Chart, ChartLine, Ink, LineStyle, Panel, PanelUnit};
use crate::drawing::path::{DataPoint, thinned};

const NOTE: &str = "CPU of the busiest thread, lateness of timers, operations in flight. A generator that fills its core is the bottleneck.";

pub fn draw(view: &TrialView) -> Vec<Chart> {
    let seconds = by_second(&view.series.generator);
    let line = |name: &str, ink, shape, points: Vec<DataPoint>| {
        let points = thinned(&with_gaps(points, view.end_s()), view.points);
        ChartLine { name: name.to_owned(), ink, shape, points }
    };
    let of = |value: fn(&[&GeneratorSecond]) -> Option<f64>| -> Vec<DataPoint> {
        seconds.iter().map(|(at, threads)| (*at, value(threads))).collect()
    };
    let cpu = of(|threads| threads.iter().map(|thread| thread.cpu_pct).reduce(f64::max));
    let late_p99 = of(|threads| threads.iter().filter_map(|thread| thread.late_us_p99).reduce(f64::max));
    let late_max = of(|threads| threads.iter().filter_map(|thread| thread.late_us_max).reduce(f64::max));
    let in_flight = of(|threads| Some(threads.iter().map(|thread| thread.in_flight_mean).sum()));
    let agents = of(|threads| Some(threads.iter().map(|thread| f64::from(thread.agents)).sum()));
    let mut busy = Panel::linear(
        "CPU of the busiest thread, % of a core",
        PanelUnit::Percent,
        60.0,
        lines_with_values(vec![line("busiest thread", Ink::One, LineStyle::Solid, cpu)]),
    );
    busy.at_least_to = Some(100.0);
    let mut late = Panel::linear(
        "lateness of timers, log scale",
        PanelUnit::Micros,
        60.0,
        lines_with_values(vec![
            line("p99", Ink::Three, LineStyle::Solid, late_p99),
            line("max", Ink::Four, LineStyle::Dotted, late_max),
        ]),
    );
    late.spacing = Spacing::Log;
    let flight = Panel::linear(
        "at once",
        PanelUnit::Plain,
        60.0,
        lines_with_values(vec![
            line("operations in flight", Ink::One, LineStyle::Solid, in_flight),
            line("agents started", Ink::Five, LineStyle::Dashed, agents),
        ]),
    );
    // Feeds that are read ahead, if there are any.
    let feed_bytes = of(|threads| {
        threads
            .iter()
            .filter_map(|thread| Some(thread.feed_bytes? as f64 / thread.interval_s.max(0.01)))
            .reduce(f64::max)
    });
    let feed_waits = of(|threads| {
        threads.iter().filter_map(|thread| Some(thread.feed_wait_s? / thread.interval_s.max(0.01))).reduce(|a, b| a + b)
    });
    let feed_lines = vec![line("read of the feed", Ink::Two, LineStyle::Solid, feed_bytes)];
    let feed = Panel::linear("feed, bytes per second", PanelUnit::BytesPerSecond, 60.0, lines_with_values(feed_lines));
    let wait_lines = vec![line("agents", Ink::Failed, LineStyle::Solid, feed_waits)];
    let waits = Panel::linear("agents that waited for the feed", PanelUnit::Plain, 40.0, lines_with_values(wait_lines));
    let carried = by_generator(view, &seconds);
    let panels: Vec<Panel> = [carried, busy, late, flight, feed, waits].into_iter().filter(Panel::has_values).collect();
    if panels.is_empty() { Vec::new() } else { vec![view.chart("generator", "Load generator", NOTE, panels)] }
}

/// Maximum number of lines; more would not be readable.
const MOST_LINES: usize = 12;

/// Returns the throughput of each generator of a fleet and of all together. Empty if one process
/// made the load.
fn by_generator(view: &TrialView, seconds: &[(f64, Vec<&GeneratorSecond>)]) -> Panel {
    let each = &view.trial.generator.each;
    let threads = view.series.generator.iter().map(|row| row.thread + 1).max().unwrap_or(0) as usize;
    let threads_each = threads.checked_div(each.len()).unwrap_or(0);
    let carried = |(at_s, rows): &(f64, Vec<&GeneratorSecond>), own: Range<usize>| {
        let own = rows.iter().filter(|row| own.contains(&(row.thread as usize)));
        let per_s: f64 = own.map(|row| row.operations as f64 / row.interval_s.max(0.01)).sum();
        (*at_s, Some(per_s))
    };
    let line = |number: usize, name: &str, own: Range<usize>| {
        let points = seconds.iter().map(|second| carried(second, own.clone())).collect();
        let (ink, shape) = Ink::nth(number);
        ChartLine { name: name.to_owned(), ink, shape, points: thinned(&with_gaps(points, view.end_s()), view.points) }
    };
    let of_each = each.iter().enumerate().take(MOST_LINES).filter(|_| each.len() > 1 && threads_each > 0);
    let of_each =
        of_each.map(|(place, one)| line(place + 1, &one.name, place * threads_each..(place + 1) * threads_each));
    let mut lines: Vec<ChartLine> = of_each.collect();
    if !lines.is_empty() {
        lines.insert(0, line(0, "all together", 0..threads));
    }
    Panel::linear("operations, by generator", PanelUnit::PerSecond, 60.0, lines_with_values(lines))
}

/// Returns the rows of all threads for each interval, with the middle of the interval. Leaves out
/// the last milliseconds of a load, which round to the same second and would otherwise be added to
/// it.
fn by_second(rows: &[GeneratorSecond]) -> Vec<(f64, Vec<&GeneratorSecond>)> {
    let mut seconds: BTreeMap<i64, Vec<&GeneratorSecond>> = BTreeMap::new();
    let is_whole = super::whole(rows.iter().map(|row| row.interval_s));
    for row in rows.iter().filter(|row| is_whole(row.interval_s)) {
        let second = seconds.entry(row.at_s.round() as i64).or_default();
        if second.iter().all(|of_second| of_second.thread != row.thread) {
            second.push(row);
        }
    }
    let middle = |threads: &[&GeneratorSecond]| threads.first().map_or(0.0, |row| row.at_s - row.interval_s / 2.0);
    seconds.into_values().map(|threads| (middle(&threads), threads)).collect()
}

#[cfg(test)]
mod tests {
    use record::results::{GeneratorFigures, Trial};

    use super::*;
    use crate::series::TrialSeries;

    #[test]
    fn agents_do_not_double_in_the_last_second() {
        let row = |at_s: f64, interval_s: f64, thread| GeneratorSecond {
            at_s,
            interval_s,
            thread,
            agents: 4,
            cpu_pct: if interval_s < 0.5 { 900.0 } else { 20.0 },
            in_flight_mean: 4.0,
            ..GeneratorSecond::default()
        };
        let mut rows = Vec::new();
        for thread in 0..2 {
            rows.extend((1..=10).map(|second| row(f64::from(second), 1.0, thread)));
            rows.push(row(10.0076, 0.0076, thread));
        }
        let series = TrialSeries { generator: rows, ..TrialSeries::default() };
        let trial = Trial::default();
        let charts = draw(&TrialView { trial: &trial, series: &series, points: 100 });
        let lines = charts[0].panels.iter().flat_map(|panel| &panel.lines);
        let agents = lines.clone().find(|line| line.name == "agents started").unwrap();
        assert_eq!(agents.points.len(), 10);
        assert!(agents.points.iter().all(|point| point.1 == Some(8.0)), "{:?}", agents.points);
        let busiest = lines.clone().find(|line| line.name == "busiest thread").unwrap();
        assert!(busiest.points.iter().all(|point| point.1 == Some(20.0)), "a share of 8 ms says nothing");
    }

    #[test]
    fn each_generator_and_the_total_have_a_curve() {
        let row = |at_s: f64, thread: u32| {
            let operations = u64::from(thread + 1) * 100;
            GeneratorSecond { at_s, interval_s: 1.0, thread, operations, ..GeneratorSecond::default() }
        };
        let rows = (1..=10).flat_map(|second| (0..4).map(move |thread| row(f64::from(second), thread)));
        let series = TrialSeries { generator: rows.collect(), ..TrialSeries::default() };
        let one = |name: &str| GeneratorFigures { name: name.to_owned(), ..GeneratorFigures::default() };
        let mut trial = Trial::default();
        let lines = |trial: &Trial| {
            let charts = draw(&TrialView { trial, series: &series, points: 100 });
            let panel = charts[0].panels.iter().find(|panel| panel.label == "operations, by generator");
            panel.map_or_else(Vec::new, |panel| {
                panel.lines.iter().map(|line| (line.name.clone(), line.points[0].1)).collect::<Vec<_>>()
            })
        };
        assert_eq!(lines(&trial), []);
        trial.generator.each = vec![one("gen1"), one("gen2")];
        let curve = |name: &str, per_s| (name.to_owned(), Some(per_s));
        assert_eq!(lines(&trial), [curve("all together", 1000.0), curve("gen1", 300.0), curve("gen2", 700.0)]);
    }
}
