//! Chart: what the processors of a host did, and for whom.

use record::rows::Sample;

use super::{ChartKind, TrialView, lines_with_values};
use crate::drawing::chart::{Chart, ChartLine, Ink, LineStyle, Panel, PanelUnit};
use crate::drawing::path::thinned_together;

pub const KIND: ChartKind = ChartKind { name: "cpu", place: 5, draw };

/// What a row measures, if it does.
type CpuRowValue = fn(&Sample) -> Option<f64>;

const NOTE: &str = "Percent of all cores. Strangers are processes that are neither the target nor Plimsoll; their time is part of \
                    user and system.";

fn draw(view: &TrialView) -> Vec<Chart> {
    view.chart_per_host("CPU", NOTE, |host| {
        let mut panels = vec![by_mode(view, host)];
        let processes = by_process(view, host);
        if processes.has_values() {
            panels.push(processes);
        }
        panels
    })
}

fn by_mode(view: &TrialView, host: &str) -> Panel {
    let modes: [(&str, Ink, CpuRowValue); 4] = [
        ("user", Ink::One, |sample| sample.cpu_user_pct),
        ("system", Ink::Two, |sample| sample.cpu_system_pct),
        ("I/O wait", Ink::Iowait, |sample| sample.cpu_iowait_pct),
        ("steal", Ink::Steal, |sample| sample.cpu_steal_pct),
    ];
    let measured: Vec<_> = modes
        .into_iter()
        .map(|(name, ink, value)| (name, ink, view.sampled(host, "", value)))
        .filter(|(_, _, points)| points.iter().any(|point| point.1.is_some()))
        .collect();
    let points: Vec<_> = measured.iter().map(|(_, _, points)| centred(points)).collect();
    let stacked = thinned_together(&points, view.points);
    let mut lines: Vec<ChartLine> = measured
        .into_iter()
        .zip(stacked)
        .map(|((name, ink, _), points)| ChartLine { name: name.to_owned(), ink, shape: LineStyle::Stacked, points })
        .collect();
    lines.extend(lines_with_values(vec![ChartLine {
        name: "strangers".to_owned(),
        ink: Ink::Strangers,
        shape: LineStyle::Dashed,
        points: view.over_seconds(host, "", |sample| sample.cpu_strangers_pct),
    }]));
    let mut panel = Panel::linear("% of the host", PanelUnit::Percent, 120.0, lines);
    panel.at_least_to = Some(100.0);
    panel
}

fn centred(points: &[(f64, Option<f64>)]) -> Vec<(f64, Option<f64>)> {
    points.iter().map(|point| ((point.0 - 0.5).max(0.0), point.1)).collect()
}

fn by_process(view: &TrialView, host: &str) -> Panel {
    let used = |sample: &Sample| Some(sample.cpu_user_pct? + sample.cpu_system_pct?);
    let lines = view.processes(host).into_iter().enumerate().map(|(index, process)| {
        let (ink, shape) = Ink::nth(index);
        ChartLine { name: process.to_owned(), ink, shape, points: view.over_seconds(host, process, used) }
    });
    Panel::linear("by process, % of the host", PanelUnit::Percent, 80.0, lines_with_values(lines.collect()))
}
