//! Chart of the latency of `ok` operations over time, as bands between quantiles.

use analysis::LatencySecond;

use super::{TrialView, lines_with_values, with_gaps};
use crate::drawing::axis::Spacing;
use crate::drawing::chart::{Chart, ChartLine, Ink, LineStyle, Panel, PanelUnit};
use crate::drawing::path::thinned;

pub fn draw(view: &TrialView) -> Vec<Chart> {
    let is_whole = super::whole(view.series.latency.iter().map(|second| second.length_s));
    let slowest_us = view.series.latency.iter().filter_map(|second| second.max_us).reduce(f64::max);
    let line = |name: &str, ink, shape, value: fn(&LatencySecond) -> Option<f64>| {
        // Quantiles of the last few milliseconds cover only a few slow operations. The overall
        // maximum is always kept.
        let is_drawn =
            |second: &&LatencySecond| is_whole(second.length_s) || (name == "max" && second.max_us >= slowest_us);
        let seconds = view.series.latency.iter().filter(is_drawn);
        let points = seconds.map(|second| (second.at_s + second.length_s / 2.0, value(second)));
        // The outcomes define the end; the last interval may extend beyond it.
        let points = with_gaps(points.collect(), view.end_s());
        ChartLine { name: name.to_owned(), ink, shape, points: thinned(&points, view.points) }
    };
    let lines = lines_with_values(vec![
        line("p50", Ink::One, LineStyle::Solid, |second| second.p50_us),
        line("p90", Ink::Two, LineStyle::Band, |second| second.p90_us),
        line("p99", Ink::Three, LineStyle::Band, |second| second.p99_us),
        line("max", Ink::Four, LineStyle::Dotted, |second| second.max_us),
    ]);
    if lines.is_empty() {
        return Vec::new();
    }
    let mut panel = Panel::linear("log scale", PanelUnit::Micros, 190.0, lines);
    panel.spacing = Spacing::Log;
    let note = "From the intended start to the answer, of ok operations: failures are often fast, and would make it look better.";
    vec![view.chart_with_warmup("latency", "Latency", note, vec![panel])]
}

#[cfg(test)]
mod tests {
    use record::results::Trial;
    use record::rows::OutcomeSlot;

    use super::*;
    use crate::series::TrialSeries;

    #[test]
    fn p50_does_not_jump_at_the_right_edge() {
        let second = |at_s: f64, length_s: f64, p50_us: f64, max_us: f64| LatencySecond {
            at_s,
            length_s,
            count: 100,
            p50_us: Some(p50_us),
            max_us: Some(max_us),
            ..LatencySecond::default()
        };
        let mut latency: Vec<_> = (0..10).map(|at| second(f64::from(at), 1.0, 400.0, 2_000.0)).collect();
        latency.push(second(10.0, 0.0076, 9_000.0, 9_000.0));
        let outcomes = vec![OutcomeSlot { at_s: 10.0, slot_s: 0.01, ok: 1, ..OutcomeSlot::default() }];
        let series = TrialSeries { latency, outcomes, ..TrialSeries::default() };
        let trial = Trial::default();
        let charts = draw(&TrialView { trial: &trial, series: &series, points: 100 });
        let last = |name: &str| {
            let line = charts[0].panels[0].lines.iter().find(|line| line.name == name).unwrap();
            *line.points.last().unwrap()
        };
        assert_eq!(last("p50"), (9.5, Some(400.0)));
        assert_eq!(last("max").1, Some(9_000.0), "the slowest is not left out");
        let quick = |max_us| {
            let mut series = series.clone();
            series.latency.last_mut().unwrap().max_us = Some(max_us);
            draw(&TrialView { trial: &trial, series: &series, points: 100 }).remove(0)
        };
        let lines = &quick(100.0).panels[0].lines;
        assert_eq!(lines.iter().find(|line| line.name == "max").unwrap().points.len(), 10, "nor does it dip");
    }
}
