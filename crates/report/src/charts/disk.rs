//! Chart: what a host reads from and writes to its disks.

use super::{ChartKind, TrialView, lines_with_values};
use crate::drawing::chart::{Chart, ChartLine, Ink, LineStyle, Panel, PanelUnit};

pub const KIND: ChartKind = ChartKind { name: "disk", place: 8, draw };

fn draw(view: &TrialView) -> Vec<Chart> {
    view.chart_per_host("Disk", "", |host| {
        let waiting = ChartLine {
            name: "threads that wait for a disk".to_owned(),
            ink: Ink::Iowait,
            shape: LineStyle::Solid,
            points: view.over_seconds(host, "", |sample| sample.io_wait_threads.map(|threads| threads as f64)),
        };
        let lines = lines_with_values(vec![
            ChartLine {
                name: "read".to_owned(),
                ink: Ink::One,
                shape: LineStyle::Dashed,
                points: view.over_seconds(host, "", |sample| sample.disk_read_bytes.map(|bytes| bytes as f64)),
            },
            ChartLine {
                name: "written".to_owned(),
                ink: Ink::Four,
                shape: LineStyle::Solid,
                points: view.over_seconds(host, "", |sample| sample.disk_write_bytes.map(|bytes| bytes as f64)),
            },
        ]);
        let panels = [
            Panel::linear("bytes per second", PanelUnit::BytesPerSecond, 80.0, lines),
            Panel::linear("threads that wait for a disk", PanelUnit::Count, 36.0, lines_with_values(vec![waiting])),
        ];
        panels.into_iter().filter(Panel::has_values).collect()
    })
}
