//! Chart: what a host receives and sends.

use super::{Kind, View, lines_with_values};
use crate::drawing::chart::{Chart, Ink, Line, Panel, Shape, Unit};

pub const KIND: Kind = Kind { name: "network", place: 9, draw };

fn draw(view: &View) -> Vec<Chart> {
    view.chart_per_host("Network", "All interfaces, loopback included.", |host| {
        let line = |name: &str, ink, shape, value: fn(&record::rows::Sample) -> Option<u64>| Line {
            name: name.to_owned(),
            ink,
            shape,
            points: view.over_seconds(host, "", |sample| value(sample).map(|bytes| bytes as f64)),
        };
        let lines = lines_with_values(vec![
            line("received", Ink::One, Shape::Dashed, |sample| sample.net_rx_bytes),
            line("sent", Ink::Four, Shape::Solid, |sample| sample.net_tx_bytes),
        ]);
        vec![Panel::linear("bytes per second", Unit::BytesPerSecond, 80.0, lines)]
    })
}
