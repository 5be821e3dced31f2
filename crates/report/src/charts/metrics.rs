//! Charts of the target's own metrics that its manifest keeps: one per metric, with a line for each
//! host.

use record::rows::MetricKind;

use super::{TrialView, lines_with_values};
use crate::drawing::chart::{Chart, Ink, Panel, PanelUnit};
use crate::series::MetricSeries;

const GAUGE: &str = "As reported by the target, summed over labels.";
const COUNTER: &str = "Growth of the counter, summed over labels.";

/// Draws the charts, ordered by name. A metric that was always 0 has no chart, because its row in
/// the table is sufficient.
pub fn draw(view: &TrialView) -> Vec<Chart> {
    let metrics = view.series.metrics.chunk_by(|one, next| one.name == next.name);
    let moved = metrics.filter(|hosts| hosts.iter().flat_map(|host| &host.points).any(|point| point.1 != Some(0.0)));
    moved.map(|hosts| of_metric(view, hosts)).filter(Chart::has_values).collect()
}

fn of_metric(view: &TrialView, hosts: &[MetricSeries]) -> Chart {
    let lines = hosts.iter().enumerate();
    let lines = lines.map(|(index, host)| view.sampled_line(&host.host, Ink::nth(index), host.points.clone()));
    let lines = lines_with_values(lines.collect());
    let MetricSeries { name, kind, .. } = &hosts[0];
    let (note, label) = match kind {
        MetricKind::Gauge => (GAUGE, ""),
        MetricKind::Counter => (COUNTER, "per second"),
    };
    view.chart("metric", name, note, vec![Panel::linear(label, unit(name, *kind), 90.0, lines)])
}

/// Returns the unit, derived from the end of the name as Prometheus recommends.
fn unit(name: &str, kind: MetricKind) -> PanelUnit {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match kind {
        MetricKind::Gauge if name.ends_with("_bytes") => PanelUnit::Bytes,
        MetricKind::Gauge if name.ends_with("_pct") || name.ends_with("_percent") => PanelUnit::Percent,
        MetricKind::Gauge => PanelUnit::Plain,
        MetricKind::Counter if name.ends_with("_bytes") => PanelUnit::BytesPerSecond,
        MetricKind::Counter => PanelUnit::PerSecond,
    }
}
