//! Charts of throughput and latency of each agent group, one lane per group. The total over all
//! groups hides how it is distributed.

use analysis::LatencySecond;

use super::{TrialView, lines_with_values};
use crate::drawing::chart::{Chart, Ink, LineStyle, Panel, PanelUnit};

const LANE: f64 = 50.0;

pub fn draw(view: &TrialView) -> Vec<Chart> {
    if view.series.groups.is_empty() {
        return Vec::new();
    }
    let (mut throughput, mut latency) = (Vec::new(), Vec::new());
    for (name, seconds) in &view.series.groups {
        let ok = view.latency_line("ok", (Ink::Ok, LineStyle::Filled), seconds, per_s);
        let p50 = view.latency_line("p50", (Ink::One, LineStyle::Solid), seconds, |second| second.p50_us);
        let p99 = view.latency_line("p99", (Ink::Three, LineStyle::Solid), seconds, |second| second.p99_us);
        throughput.push(Panel::linear(name, PanelUnit::PerSecond, LANE, lines_with_values(vec![ok])));
        latency.push(Panel::linear(name, PanelUnit::Micros, LANE, lines_with_values(vec![p50, p99])));
    }
    let of_throughput = "ok operations per second of each group's agents.";
    let of_latency = "Intended start to answer, of the ok operations of each second.";
    vec![
        view.chart_with_warmup("group-throughput", "Throughput by group", of_throughput, throughput),
        view.chart_with_warmup("group-latency", "Latency by group", of_latency, latency),
    ]
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

    fn group(name: &str, count: u64, p99_us: f64) -> (String, Vec<LatencySecond>) {
        let second = LatencySecond { length_s: 1.0, count, p99_us: Some(p99_us), ..LatencySecond::default() };
        (name.to_owned(), [0.0, 1.0, 2.0].map(|at_s| LatencySecond { at_s, ..second }).to_vec())
    }

    #[test]
    fn each_group_has_a_lane_of_throughput_and_one_of_latency() {
        let outcomes = vec![OutcomeSlot { at_s: 2.8, slot_s: 0.2, ok: 1, ..OutcomeSlot::default() }];
        let mut series = TrialSeries { outcomes, ..TrialSeries::default() };
        let trial = Trial::default();
        assert_eq!(draw(&TrialView { trial: &trial, series: &series, points: 100 }), []);
        series.groups = vec![group("writers", 40, 900.0), group("readers", 7, 80.0)];
        let charts = draw(&TrialView { trial: &trial, series: &series, points: 100 });
        let found: Vec<_> = charts.iter().map(|chart| [0, 1].map(|lane| chart.panels[lane].highest())).collect();
        assert_eq!(found, [[40.0, 7.0], [900.0, 80.0]]);
        assert_eq!(charts[0].panels[1].label, "readers");
    }
}
