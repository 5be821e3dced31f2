//! Chart: memory of a host and of the processes on it.

use super::{ChartKind, TrialView, lines_with_values};
use crate::drawing::chart::{Chart, ChartLine, Ink, LineStyle, Panel, PanelUnit};
use crate::drawing::path::thinned;

pub const KIND: ChartKind = ChartKind { name: "memory", place: 7, draw };

fn draw(view: &TrialView) -> Vec<Chart> {
    view.chart_per_host("Memory", "", |host| {
        let processes = view.processes(host).into_iter().enumerate().map(|(index, process)| {
            let (ink, shape) = Ink::nth(index);
            let points = view.sampled(host, process, |sample| sample.rss_bytes.map(|bytes| bytes as f64));
            ChartLine { name: process.to_owned(), ink, shape, points: thinned(&points, view.points) }
        });
        let used = view.sampled(host, "", |sample| sample.memory_used_bytes.map(|bytes| bytes as f64));
        let host = ChartLine {
            name: "used".to_owned(),
            ink: Ink::Five,
            shape: LineStyle::Solid,
            points: thinned(&used, view.points),
        };
        let panels = [
            Panel::linear("resident, by process", PanelUnit::Bytes, 90.0, lines_with_values(processes.collect())),
            Panel::linear("used on the host", PanelUnit::Bytes, 60.0, lines_with_values(vec![host])),
        ];
        panels.into_iter().filter(Panel::has_values).collect()
    })
}
