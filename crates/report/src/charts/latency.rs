//! Chart: latency of `ok` operations over time, as bands between quantiles.

use analysis::LatencySecond;

use super::{TrialView, lines_with_values, with_gaps};
use crate::drawing::axis::Spacing;
use crate::drawing::chart::{Chart, ChartLine, Ink, LineStyle, Panel, PanelUnit};
use crate::drawing::path::thinned;

/// Draws it.
pub fn draw(view: &TrialView) -> Vec<Chart> {
    let line = |name: &str, ink, shape, value: fn(&LatencySecond) -> Option<f64>| {
        let points = view.series.latency.iter().map(|second| (second.at_s + second.length_s / 2.0, value(second)));
        // The end is that of the outcomes; the last interval may reach beyond it.
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
    let mut panel = Panel::linear("intended start to answer, log scale", PanelUnit::Micros, 170.0, lines);
    panel.spacing = Spacing::Log;
    let note = "Of the ok operations that ended in each second. Failures are left out: they are often fast, and would make latency \
                look better.";
    vec![view.chart_with_warmup("latency", "Latency", note, vec![panel])]
}
