//! Charts of the target's own metrics that its manifest keeps: one per metric, with a line for each
//! host.

use record::rows::MetricKind;

use super::{TrialView, lines_with_values, with_gaps};
use crate::drawing::chart::{Chart, ChartLine, Ink, Panel, PanelUnit};
use crate::drawing::path::thinned;
use crate::series::MetricSeries;

const GAUGE: &str = "As the target told it; labels are added up.";
const COUNTER: &str = "Growth of the counter; labels are added up.";

/// Draws the charts, ordered by name. A metric that was always 0 has no chart, because its row in
/// the table is sufficient.
pub fn draw(view: &TrialView) -> Vec<Chart> {
    let metrics = view.series.metrics.chunk_by(|one, next| one.name == next.name);
    let has_moved =
        |hosts: &&[MetricSeries]| hosts.iter().flat_map(|host| &host.points).any(|point| point.1 != Some(0.0));
    metrics.filter(has_moved).map(|hosts| of_metric(view, hosts)).filter(Chart::has_values).collect()
}

fn of_metric(view: &TrialView, hosts: &[MetricSeries]) -> Chart {
    let line = |(index, host): (usize, &MetricSeries)| {
        let (ink, shape) = Ink::nth(index);
        let points = thinned(&with_gaps(host.points.clone(), view.end_s()), view.points);
        ChartLine { name: host.host.clone(), ink, shape, points }
    };
    let lines = lines_with_values(hosts.iter().enumerate().map(line).collect());
    let MetricSeries { name, kind, .. } = &hosts[0];
    let (note, label) = match kind {
        MetricKind::Gauge => (GAUGE, ""),
        MetricKind::Counter => (COUNTER, "per second"),
    };
    view.chart("metric", name, note, vec![Panel::linear(label, unit(name, *kind), 90.0, lines)])
}

/// Returns the unit, derived from the end of the name as Prometheus recommends.
fn unit(name: &str, kind: MetricKind) -> PanelUnit {
    let is = |unit: &str| name.strip_suffix("_total").unwrap_or(name).ends_with(unit);
    match kind {
        MetricKind::Gauge if is("_bytes") => PanelUnit::Bytes,
        MetricKind::Gauge if is("_pct") || is("_percent") => PanelUnit::Percent,
        MetricKind::Gauge => PanelUnit::Plain,
        MetricKind::Counter if is("_bytes") => PanelUnit::BytesPerSecond,
        MetricKind::Counter => PanelUnit::PerSecond,
    }
}
