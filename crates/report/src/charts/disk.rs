//! Chart: what a host reads from and writes to its disks.

use super::{Kind, View, lines_with_values};
use crate::drawing::chart::{Chart, Ink, Line, Panel, Shape, Unit};

pub const KIND: Kind = Kind { name: "disk", place: 8, draw };

fn draw(view: &View) -> Vec<Chart> {
    view.chart_per_host("Disk", "", |host| {
        let waiting = Line {
            name: "threads that wait for a disk".to_owned(),
            ink: Ink::Iowait,
            shape: Shape::Solid,
            points: view.over_seconds(host, "", |sample| sample.io_wait_threads.map(|threads| threads as f64)),
        };
        let lines = lines_with_values(vec![
            Line {
                name: "read".to_owned(),
                ink: Ink::One,
                shape: Shape::Dashed,
                points: view.over_seconds(host, "", |sample| sample.disk_read_bytes.map(|bytes| bytes as f64)),
            },
            Line {
                name: "written".to_owned(),
                ink: Ink::Four,
                shape: Shape::Solid,
                points: view.over_seconds(host, "", |sample| sample.disk_write_bytes.map(|bytes| bytes as f64)),
            },
        ]);
        let panels = [
            Panel::linear("bytes per second", Unit::BytesPerSecond, 80.0, lines),
            Panel::linear("threads that wait for a disk", Unit::Count, 36.0, lines_with_values(vec![waiting])),
        ];
        panels.into_iter().filter(Panel::has_values).collect()
    })
}
