//! Chart: load averages of a host.

use super::{ChartKind, TrialView, lines_with_values};
use crate::drawing::chart::{Chart, ChartLine, Ink, LineStyle, Panel, PanelUnit};
use crate::drawing::path::thinned;

pub const KIND: ChartKind = ChartKind { name: "load_average", place: 6, draw };

const NOTE: &str = "Threads that run or want to, and those that wait for a disk, damped over 1, 5 and 15 minutes.";

fn draw(view: &TrialView) -> Vec<Chart> {
    view.chart_per_host("Load average", NOTE, |host| {
        let line = |name: &str, ink, shape, value: fn(&record::rows::Sample) -> Option<f64>| ChartLine {
            name: name.to_owned(),
            ink,
            shape,
            points: thinned(&view.sampled(host, "", value), view.points),
        };
        let lines = lines_with_values(vec![
            line("1 min", Ink::One, LineStyle::Solid, |sample| sample.load1),
            line("5 min", Ink::Two, LineStyle::Dashed, |sample| sample.load5),
            line("15 min", Ink::Three, LineStyle::Dotted, |sample| sample.load15),
        ]);
        vec![Panel::linear("threads", PanelUnit::Plain, 90.0, lines)]
    })
}
