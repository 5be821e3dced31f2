//! Chart: what a host receives and sends.

use super::{ChartKind, TrialView, lines_with_values};
use crate::drawing::chart::{Chart, ChartLine, Ink, LineStyle, Panel, PanelUnit};

pub const KIND: ChartKind = ChartKind { name: "network", place: 9, draw };

fn draw(view: &TrialView) -> Vec<Chart> {
    view.chart_per_host("Network", "All interfaces, loopback included.", |host| {
        let line = |name: &str, ink, shape, value: fn(&record::rows::Sample) -> Option<u64>| ChartLine {
            name: name.to_owned(),
            ink,
            shape,
            points: view.over_seconds(host, "", |sample| value(sample).map(|bytes| bytes as f64)),
        };
        let lines = lines_with_values(vec![
            line("received", Ink::One, LineStyle::Dashed, |sample| sample.net_rx_bytes),
            line("sent", Ink::Four, LineStyle::Solid, |sample| sample.net_tx_bytes),
        ]);
        vec![Panel::linear("bytes per second", PanelUnit::BytesPerSecond, 80.0, lines)]
    })
}
