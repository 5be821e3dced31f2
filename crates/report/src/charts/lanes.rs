//! Chart: the hosts of a lab below each other on one clock, a lane each, so that it is seen which of them was busy when.

use record::rows::{Sample, THIS_MACHINE};

use super::{ChartKind, TrialView, lines_with_values};
use crate::drawing::chart::{Chart, ChartLine, Ink, LineStyle, Panel, PanelUnit};
use crate::drawing::path::{thinned, thinned_together};

pub const KIND: ChartKind = ChartKind { name: "lanes", place: 4, draw };

/// Height of a lane.
const LANE: f64 = 30.0;

/// What a row measures, if it does.
type LaneValue = fn(&Sample) -> Option<f64>;

/// A chart with a line or two in every lane.
struct Lanes {
    title: &'static str,
    note: &'static str,
    unit: PanelUnit,
    /// All lanes reach at least so far; without it each is as high as the highest of them.
    at_least_to: Option<f64>,
    lines: &'static [(&'static str, Ink, LineStyle, LaneValue)],
}

const ALL: [Lanes; 6] = [
    Lanes {
        title: "CPU of each host",
        note: "Percent of what the host has by its profile. Throttled: kept from running by its quota.",
        unit: PanelUnit::Percent,
        at_least_to: Some(100.0),
        lines: &[
            ("user", Ink::One, LineStyle::Stacked, |row| row.cpu_user_pct),
            ("system", Ink::Two, LineStyle::Stacked, |row| row.cpu_system_pct),
            ("throttled", Ink::Steal, LineStyle::Dashed, |row| row.cpu_throttled_pct),
        ],
    },
    Lanes {
        title: "Load average of each host",
        note: "Over 1 minute.",
        unit: PanelUnit::Plain,
        at_least_to: None,
        lines: &[("load", Ink::One, LineStyle::Solid, |row| row.load1)],
    },
    Lanes {
        title: "Memory of each host",
        note: "",
        unit: PanelUnit::Bytes,
        at_least_to: None,
        lines: &[("used", Ink::Five, LineStyle::Filled, |row| row.memory_used_bytes.map(|bytes| bytes as f64))],
    },
    Lanes {
        title: "Disk of each host",
        note: "",
        unit: PanelUnit::BytesPerSecond,
        at_least_to: None,
        lines: &[
            ("written", Ink::Four, LineStyle::Solid, |row| row.disk_write_bytes.map(|bytes| bytes as f64)),
            ("read", Ink::One, LineStyle::Dashed, |row| row.disk_read_bytes.map(|bytes| bytes as f64)),
        ],
    },
    Lanes {
        title: "Network of each host",
        note: "",
        unit: PanelUnit::BytesPerSecond,
        at_least_to: None,
        lines: &[
            ("sent", Ink::Four, LineStyle::Solid, |row| row.net_tx_bytes.map(|bytes| bytes as f64)),
            ("received", Ink::One, LineStyle::Dashed, |row| row.net_rx_bytes.map(|bytes| bytes as f64)),
        ],
    },
    Lanes {
        title: "Pressure on each host",
        note: "Share of each second in which some task of the host waited for it.",
        unit: PanelUnit::Percent,
        at_least_to: Some(10.0),
        lines: &[
            ("CPU", Ink::One, LineStyle::Solid, |row| row.psi_cpu_some_pct),
            ("I/O", Ink::Iowait, LineStyle::Dashed, |row| row.psi_io_some_pct),
            ("memory", Ink::Five, LineStyle::Dotted, |row| row.psi_memory_some_pct),
        ],
    },
];

fn draw(view: &TrialView) -> Vec<Chart> {
    let hosts = of_lab(view);
    if hosts.is_empty() {
        return Vec::new();
    }
    let charts = ALL.iter().map(|lanes| {
        let panels = hosts.iter().map(|host| lane(view, lanes, host)).collect();
        let mut chart = view.chart(lanes.title, lanes.note, panels);
        // Lanes are compared with each other, so they share an axis.
        let highest = chart.panels.iter().map(top).fold(lanes.at_least_to.unwrap_or(0.0), f64::max);
        chart.panels.iter_mut().for_each(|panel| panel.at_least_to = Some(highest));
        chart
    });
    charts.filter(Chart::has_values).collect()
}

/// The hosts of the lab; none where the target ran on the machine that made the load.
pub fn of_lab<'a>(view: &TrialView<'a>) -> Vec<&'a str> {
    let hosts = view.trial.hosts.iter().filter(|host| host.kind.as_deref().is_some_and(|kind| kind != THIS_MACHINE));
    hosts.map(|host| host.name.as_str()).collect()
}

fn lane(view: &TrialView, lanes: &Lanes, host: &str) -> Panel {
    let sampled = |value: &LaneValue| {
        let mut points = view.sampled(host, "", value);
        points.iter_mut().for_each(|point| point.0 = (point.0 - 0.5).max(0.0));
        points
    };
    let line = |(name, ink, shape, value): &(&str, Ink, LineStyle, LaneValue)| ChartLine {
        name: (*name).to_owned(),
        ink: *ink,
        shape: *shape,
        points: sampled(value),
    };
    let mut lines = lines_with_values(lanes.lines.iter().map(line).collect());
    let is_stacked = |line: &ChartLine| line.shape == LineStyle::Stacked;
    let stacked: Vec<_> = lines.iter().filter(|line| is_stacked(line)).map(|line| line.points.clone()).collect();
    let mut together = thinned_together(&stacked, view.points).into_iter();
    for line in &mut lines {
        line.points =
            if is_stacked(line) { together.next() } else { None }.unwrap_or_else(|| thinned(&line.points, view.points));
    }
    let mut panel = Panel::linear(host, lanes.unit, LANE, lines);
    "not sampled".clone_into(&mut panel.remark);
    panel
}

/// The highest value, stacked ones taken alone: an axis that is a little low is raised when it is drawn.
fn top(panel: &Panel) -> f64 {
    let values = panel.lines.iter().flat_map(|line| line.points.iter().filter_map(|point| point.1));
    values.fold(0.0, f64::max)
}
