//! Chart of the latency of `ok` operations over time, as bands between quantiles.

use super::{TrialView, lines_with_values};
use crate::drawing::chart::{Chart, Ink, LineStyle, Panel, PanelUnit};

pub fn draw(view: &TrialView) -> Vec<Chart> {
    let is_whole = super::whole(view.series.latency.iter().map(|second| second.length_s));
    let slowest_us = view.series.latency.iter().filter_map(|second| second.max_us).reduce(f64::max);
    let seconds = view.series.latency.iter();
    // Quantiles of the last few milliseconds cover only a few slow operations. The overall maximum
    // is always drawn.
    let whole = seconds.clone().filter(|second| is_whole(second.length_s));
    let or_slowest = seconds.filter(|second| is_whole(second.length_s) || second.max_us >= slowest_us);
    let lines = lines_with_values(vec![
        view.latency_line("p50", (Ink::One, LineStyle::Solid), whole.clone(), |second| second.p50_us),
        view.latency_line("p90", (Ink::Two, LineStyle::Band), whole.clone(), |second| second.p90_us),
        view.latency_line("p99", (Ink::Three, LineStyle::Band), whole, |second| second.p99_us),
        view.latency_line("max", (Ink::Four, LineStyle::Dotted), or_slowest, |second| second.max_us),
    ]);
    if lines.is_empty() {
        return Vec::new();
    }
    let panel = Panel::log("log scale", PanelUnit::Micros, 190.0, lines);
    let note = "From the intended start to the answer, of ok operations: failures are often fast, and would make it look better.";
    vec![view.chart_with_warmup("latency", "Latency", note, vec![panel])]
}

#[cfg(test)]
mod tests {
    use analysis::LatencySecond;
    use record::results::Trial;
    use record::rows::OutcomeSlot;

    use super::*;
    use crate::drawing::chart::ChartLine;
    use crate::series::TrialSeries;

    /// Draws ten seconds and a rest of a few milliseconds with this maximum.
    fn line(name: &str, rest_max_us: f64) -> ChartLine {
        let second = LatencySecond { length_s: 1.0, count: 100, p50_us: Some(400.0), ..LatencySecond::default() };
        let mut latency: Vec<_> =
            (0..10).map(|at| LatencySecond { at_s: f64::from(at), max_us: Some(2_000.0), ..second }).collect();
        let (p50_us, max_us) = (Some(9_000.0), Some(rest_max_us));
        latency.push(LatencySecond { at_s: 10.0, length_s: 0.0076, p50_us, max_us, ..second });
        let outcomes = vec![OutcomeSlot { at_s: 10.0, slot_s: 0.01, ok: 1, ..OutcomeSlot::default() }];
        let series = TrialSeries { latency, outcomes, ..TrialSeries::default() };
        let mut charts = draw(&TrialView { trial: &Trial::default(), series: &series, points: 100 });
        let lines = &mut charts[0].panels[0].lines;
        lines.remove(lines.iter().position(|line| line.name == name).unwrap())
    }

    #[test]
    fn p50_does_not_jump_at_the_right_edge() {
        assert_eq!(line("p50", 9_000.0).points.last(), Some(&(9.5, Some(400.0))));
        assert_eq!(line("max", 9_000.0).points.last().unwrap().1, Some(9_000.0), "the slowest is not left out");
        assert_eq!(line("max", 100.0).points.len(), 10, "nor does it dip");
    }
}
