//! Chart of the load generator's own health. If the generator is the bottleneck, the other charts
//! show its limits and not the target's.

use std::collections::BTreeMap;
use std::ops::Range;

use record::rows::GeneratorSecond;

use super::{TrialView, lines_with_values};
use crate::drawing::axis::Spacing;
use crate::drawing::chart::{Chart, ChartLine, Ink, LineStyle, Panel, PanelUnit};

const NOTE: &str = "CPU of the busiest thread, lateness of timers, operations in flight. A generator that fills its core is the bottleneck.";

/// A second: its middle, and the rows of all threads.
type ThreadRows<'a> = (f64, Vec<&'a GeneratorSecond>);

pub fn draw(view: &TrialView) -> Vec<Chart> {
    let seconds = by_second(&view.series.generator);
    let busiest = line(view, &seconds, "busiest thread", (Ink::One, LineStyle::Solid), |threads| {
        threads.iter().map(|thread| thread.cpu_pct).reduce(f64::max)
    });
    let late_p99 = line(view, &seconds, "p99", (Ink::Three, LineStyle::Solid), |threads| {
        threads.iter().filter_map(|thread| thread.late_us_p99).reduce(f64::max)
    });
    let late_max = line(view, &seconds, "max", (Ink::Four, LineStyle::Dotted), |threads| {
        threads.iter().filter_map(|thread| thread.late_us_max).reduce(f64::max)
    });
    let in_flight = line(view, &seconds, "operations in flight", (Ink::One, LineStyle::Solid), |threads| {
        Some(threads.iter().map(|thread| thread.in_flight_mean).sum())
    });
    let agents = line(view, &seconds, "agents", (Ink::Five, LineStyle::Dashed), |threads| {
        Some(threads.iter().map(|thread| f64::from(thread.agents)).sum())
    });
    // Feeds that are read ahead, if there are any.
    let feed = line(view, &seconds, "read of the feed", (Ink::Two, LineStyle::Solid), |threads| {
        let per_s = threads.iter().filter_map(|thread| Some(thread.feed_bytes? as f64 / thread.interval_s.max(0.01)));
        per_s.reduce(f64::max)
    });
    let waiting = line(view, &seconds, "agents", (Ink::Failed, LineStyle::Solid), |threads| {
        let shares = threads.iter().filter_map(|thread| Some(thread.feed_wait_s? / thread.interval_s.max(0.01)));
        shares.reduce(|a, b| a + b)
    });
    let panels = [
        by_generator(view, &seconds),
        Panel {
            at_least_to: Some(100.0),
            ..panel("CPU of the busiest thread, % of a core", PanelUnit::Percent, 60.0, vec![busiest])
        },
        Panel {
            spacing: Spacing::Log,
            ..panel("lateness of timers, log scale", PanelUnit::Micros, 60.0, vec![late_p99, late_max])
        },
        panel("at once", PanelUnit::Plain, 60.0, vec![in_flight, agents]),
        panel("feed, bytes per second", PanelUnit::BytesPerSecond, 60.0, vec![feed]),
        panel("agents that waited for the feed", PanelUnit::Plain, 40.0, vec![waiting]),
    ];
    let panels: Vec<Panel> = panels.into_iter().filter(Panel::has_values).collect();
    if panels.is_empty() { Vec::new() } else { vec![view.chart("generator", "Load generator", NOTE, panels)] }
}

fn line(
    view: &TrialView,
    seconds: &[ThreadRows],
    name: &str,
    pen: (Ink, LineStyle),
    value: impl Fn(&[&GeneratorSecond]) -> Option<f64>,
) -> ChartLine {
    view.sampled_line(name, pen, seconds.iter().map(|(at, threads)| (*at, value(threads))).collect())
}

fn panel(label: &str, unit: PanelUnit, height: f64, lines: Vec<ChartLine>) -> Panel {
    Panel::linear(label, unit, height, lines_with_values(lines))
}

/// Maximum number of lines; more would not be readable.
const MOST_LINES: usize = 12;

/// Returns the throughput of each generator of a fleet and of all together. Empty if one process
/// made the load.
fn by_generator(view: &TrialView, seconds: &[ThreadRows]) -> Panel {
    let each = &view.trial.generator.each;
    let threads = view.series.generator.iter().map(|row| row.thread + 1).max().unwrap_or(0) as usize;
    let threads_each = threads.checked_div(each.len()).unwrap_or(0);
    let mut lines = Vec::new();
    if each.len() > 1 && threads_each > 0 {
        lines.push(carried(view, seconds, 0, "all together", 0..threads));
        for (place, one) in each.iter().enumerate().take(MOST_LINES) {
            let own = place * threads_each..(place + 1) * threads_each;
            lines.push(carried(view, seconds, place + 1, &one.name, own));
        }
    }
    panel("operations, by generator", PanelUnit::PerSecond, 60.0, lines)
}

/// Returns the operations per second of the threads in `own`.
fn carried(view: &TrialView, seconds: &[ThreadRows], number: usize, name: &str, own: Range<usize>) -> ChartLine {
    line(view, seconds, name, Ink::nth(number), |rows| {
        let own = rows.iter().filter(|row| own.contains(&(row.thread as usize)));
        Some(own.map(|row| row.operations as f64 / row.interval_s.max(0.01)).sum())
    })
}

/// Returns the rows of all threads for each interval, with the middle of the interval. Leaves out
/// the last milliseconds of a load, which round to the same second and would otherwise be added to
/// it.
fn by_second(rows: &[GeneratorSecond]) -> Vec<ThreadRows<'_>> {
    let mut seconds: BTreeMap<i64, Vec<&GeneratorSecond>> = BTreeMap::new();
    let is_whole = super::whole(rows.iter().map(|row| row.interval_s));
    for row in rows.iter().filter(|row| is_whole(row.interval_s)) {
        let second = seconds.entry(row.at_s.round() as i64).or_default();
        if second.iter().all(|of_second| of_second.thread != row.thread) {
            second.push(row);
        }
    }
    let mut rows = Vec::new();
    for threads in seconds.into_values() {
        rows.push((threads.first().map_or(0.0, |row| row.at_s - row.interval_s / 2.0), threads));
    }
    rows
}

#[cfg(test)]
mod tests {
    use record::results::{GeneratorFigures, Trial};

    use super::*;
    use crate::series::TrialSeries;

    fn lines(rows: Vec<GeneratorSecond>, each: Vec<GeneratorFigures>, panel: &str) -> Vec<ChartLine> {
        let series = TrialSeries { generator: rows, ..TrialSeries::default() };
        let mut trial = Trial::default();
        trial.generator.each = each;
        let charts = draw(&TrialView { trial: &trial, series: &series, points: 100 });
        let mut panels = charts.into_iter().flat_map(|chart| chart.panels);
        panels.find(|known| known.label == panel).map(|panel| panel.lines).unwrap_or_default()
    }

    #[test]
    fn agents_do_not_double_in_the_last_second() {
        let mut rows = Vec::new();
        for thread in 0..2 {
            let agents = GeneratorSecond { thread, agents: 4, in_flight_mean: 4.0, ..GeneratorSecond::default() };
            rows.extend((1..=10).map(|second| GeneratorSecond {
                at_s: f64::from(second),
                interval_s: 1.0,
                cpu_pct: 20.0,
                ..agents.clone()
            }));
            rows.push(GeneratorSecond { at_s: 10.0076, interval_s: 0.0076, cpu_pct: 900.0, ..agents });
        }
        let agents = &lines(rows.clone(), Vec::new(), "at once")[1];
        assert_eq!((agents.name.as_str(), agents.points.len()), ("agents", 10));
        assert!(agents.points.iter().all(|point| point.1 == Some(8.0)), "{:?}", agents.points);
        let busiest = &lines(rows, Vec::new(), "CPU of the busiest thread, % of a core")[0];
        assert!(busiest.points.iter().all(|point| point.1 == Some(20.0)), "a share of 8 ms says nothing");
    }

    #[test]
    fn each_generator_and_the_total_have_a_curve() {
        let mut rows = Vec::new();
        for second in 1..=10 {
            rows.extend((0..4).map(|thread| GeneratorSecond {
                at_s: f64::from(second),
                interval_s: 1.0,
                thread,
                operations: u64::from(thread + 1) * 100,
                ..GeneratorSecond::default()
            }));
        }
        let panel = "operations, by generator";
        assert_eq!(lines(rows.clone(), Vec::new(), panel), []);
        let each = ["gen1", "gen2"].map(|name| GeneratorFigures { name: name.to_owned(), ..Default::default() });
        let lines = lines(rows, each.to_vec(), panel);
        let curves: Vec<_> = lines.iter().map(|line| (line.name.as_str(), line.points[0].1)).collect();
        assert_eq!(curves, [("all together", Some(1000.0)), ("gen1", Some(300.0)), ("gen2", Some(700.0))]);
    }
}
