//! Charts of throughput and latency of each agent group, one lane per group. The total over all
//! groups hides how it is distributed.

use analysis::LatencySecond;

use super::{TrialView, lines_with_values, with_gaps};
use crate::drawing::chart::{Chart, ChartLine, Ink, LineStyle, Panel, PanelUnit};
use crate::drawing::path::thinned;

const LANE: f64 = 50.0;

pub fn draw(view: &TrialView) -> Vec<Chart> {
    if view.series.groups.is_empty() {
        return Vec::new();
    }
    let line = |name: &str, ink, shape, seconds: &[LatencySecond], value: fn(&LatencySecond) -> Option<f64>| {
        let points = seconds.iter().map(|second| (second.at_s + second.length_s / 2.0, value(second)));
        ChartLine {
            name: name.to_owned(),
            ink,
            shape,
            points: thinned(&with_gaps(points.collect(), view.end_s()), view.points),
        }
    };
    let lanes = |unit: PanelUnit, lines: &dyn Fn(&[LatencySecond]) -> Vec<ChartLine>| -> Vec<Panel> {
        let groups = view.series.groups.iter();
        groups.map(|(name, seconds)| Panel::linear(name, unit, LANE, lines_with_values(lines(seconds)))).collect()
    };
    let throughput =
        lanes(PanelUnit::PerSecond, &|seconds| vec![line("ok", Ink::Ok, LineStyle::Filled, seconds, per_s)]);
    let latency = lanes(PanelUnit::Micros, &|seconds| {
        vec![
            line("p50", Ink::One, LineStyle::Solid, seconds, |second| second.p50_us),
            line("p99", Ink::Three, LineStyle::Solid, seconds, |second| second.p99_us),
        ]
    });
    let charts = [
        ("group-throughput", "Throughput by group", "ok operations per second of each group's agents.", throughput),
        (
            "group-latency",
            "Latency by group",
            "Intended start to answer, of the ok operations of each second.",
            latency,
        ),
    ];
    charts.into_iter().map(|(id, title, note, panels)| view.chart_with_warmup(id, title, note, panels)).collect()
}

/// Returns the rate of a second, or `None` for an incomplete second.
fn per_s(second: &LatencySecond) -> Option<f64> {
    (second.length_s > 0.5).then(|| second.count as f64 / second.length_s)
}

#[cfg(test)]
mod tests {
    use record::results::Trial;
    use record::rows::OutcomeSlot;

    use super::*;
    use crate::series::TrialSeries;

    #[test]
    fn each_group_has_a_lane_of_throughput_and_one_of_latency() {
        let seconds = |count: u64, p99_us: f64| {
            let second = |at: u32| LatencySecond {
                at_s: f64::from(at),
                length_s: 1.0,
                count,
                p99_us: Some(p99_us),
                ..LatencySecond::default()
            };
            (0..3).map(second).collect::<Vec<_>>()
        };
        let outcomes = vec![OutcomeSlot { at_s: 2.8, slot_s: 0.2, ok: 1, ..OutcomeSlot::default() }];
        let mut series = TrialSeries { outcomes, ..TrialSeries::default() };
        let trial = Trial::default();
        assert_eq!(draw(&TrialView { trial: &trial, series: &series, points: 100 }), []);
        series.groups = vec![("writers".to_owned(), seconds(40, 900.0)), ("readers".to_owned(), seconds(7, 80.0))];
        let charts = draw(&TrialView { trial: &trial, series: &series, points: 100 });
        let highest = |chart: &Chart, lane: usize| {
            let lines = chart.panels[lane].lines.iter().flat_map(|line| &line.points);
            lines.filter_map(|point| point.1).fold(0.0, f64::max)
        };
        let found: Vec<_> = charts.iter().map(|chart| [0, 1].map(|lane| highest(chart, lane))).collect();
        assert_eq!(found, [[40.0, 7.0], [900.0, 80.0]]);
        assert_eq!(charts[0].panels[1].label, "readers");
    }
}
