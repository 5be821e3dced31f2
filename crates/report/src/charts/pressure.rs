//! Chart: pressure, the share of each second in which some task of a host waited for a resource.

use super::{Kind, View, lines_with_values};
use crate::drawing::chart::{Chart, Ink, Line, Panel, Shape, Unit};

pub const KIND: Kind = Kind { name: "pressure", place: 10, draw };

const NOTE: &str =
    "Share of each second in which some task waited for a CPU, for a disk or for memory (the kernel's PSI, some).";

fn draw(view: &View) -> Vec<Chart> {
    view.chart_per_host("Pressure", NOTE, |host| {
        let line = |name: &str, ink, shape, value: fn(&record::rows::Sample) -> Option<f64>| Line {
            name: name.to_owned(),
            ink,
            shape,
            points: view.over_seconds(host, "", value),
        };
        let lines = lines_with_values(vec![
            line("CPU", Ink::One, Shape::Solid, |sample| sample.psi_cpu_some_pct),
            line("I/O", Ink::Iowait, Shape::Dashed, |sample| sample.psi_io_some_pct),
            line("memory", Ink::Three, Shape::Dotted, |sample| sample.psi_memory_some_pct),
        ]);
        vec![Panel::linear("% of the second", Unit::Percent, 80.0, lines)]
    })
}
