//! Chart: pressure, the share of each second in which some task of a host waited for a resource.

use super::{ChartKind, TrialView, lines_with_values};
use crate::drawing::chart::{Chart, ChartLine, Ink, LineStyle, Panel, PanelUnit};

pub const KIND: ChartKind = ChartKind { name: "pressure", place: 10, draw };

const NOTE: &str =
    "Share of each second in which some task waited for a CPU, for a disk or for memory (the kernel's PSI, some).";

fn draw(view: &TrialView) -> Vec<Chart> {
    view.chart_per_host("Pressure", NOTE, |host| {
        let line = |name: &str, ink, shape, value: fn(&record::rows::Sample) -> Option<f64>| ChartLine {
            name: name.to_owned(),
            ink,
            shape,
            points: view.over_seconds(host, "", value),
        };
        let lines = lines_with_values(vec![
            line("CPU", Ink::One, LineStyle::Solid, |sample| sample.psi_cpu_some_pct),
            line("I/O", Ink::Iowait, LineStyle::Dashed, |sample| sample.psi_io_some_pct),
            line("memory", Ink::Three, LineStyle::Dotted, |sample| sample.psi_memory_some_pct),
        ]);
        vec![Panel::linear("% of the second", PanelUnit::Percent, 80.0, lines)]
    })
}
