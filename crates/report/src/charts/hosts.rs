//! Charts of the hosts: resource use of each host and its processes. A table defines the signals.
//! Each signal has a chart per host. In a lab, each signal also has a chart with one lane per host,
//! so that busy hosts can be compared, and the charts per host are folded.

use record::rows::{Sample, THIS_MACHINE};

use super::{TrialView, lines_with_values};
use crate::drawing::chart::{Chart, ChartLine, Ink, LineStyle, Panel, PanelUnit};
use crate::drawing::path::{thinned, thinned_together};

/// Maximum number of lab hosts with separate charts.
const DETAILED: usize = 4;

/// Id of the signal for which the first host has a chart in a lab of any size.
const LOAD_AVERAGE: &str = "load_average";

const LANE: f64 = 30.0;

/// Returns a measured value of a sample, if it has one.
type SampleValue = fn(&Sample) -> Option<f64>;

/// A signal that is sampled for each host.
struct HostSignal {
    /// Name in the ids of the signal's charts.
    id: &'static str,
    title: &'static str,
    /// Notes below the chart of a host, and below the lanes of all hosts.
    notes: [&'static str; 2],
    /// Minimum end of the axis in the first panel of a host, and in the lanes. All lanes share the
    /// highest axis.
    at_least_to: [Option<f64>; 2],
    /// Whether a sample covers the second before it, rather than a point in time.
    is_over_second: bool,
    /// Label, unit, height and lines of each panel in a host's chart.
    panels: &'static [(&'static str, PanelUnit, f64, SignalLines)],
}

enum SignalLines {
    OfHost(&'static [SignalLine]),
    /// One line per process.
    OfProcesses(SampleValue),
}

/// A line of a host: name, colour, style, where it is drawn, and value.
type SignalLine = (&'static str, Ink, LineStyle, DrawnIn, SampleValue);

#[derive(Clone, Copy, PartialEq)]
enum DrawnIn {
    Both,
    Chart,
    Lane,
}

use LineStyle::{Dashed, Dotted, Solid, Stacked};
use PanelUnit::{Bytes, BytesPerSecond, Count, Percent, Plain};
use SignalLines::{OfHost, OfProcesses};

/// Signals in page order.
const SIGNALS: [HostSignal; 6] = [
    HostSignal {
        id: "cpu",
        title: "CPU",
        notes: [
            "Percent of all cores. Other processes, neither target nor Plimsoll, are part of user and system.",
            "Percent of what the host has by its profile. Throttled: kept from running by its quota.",
        ],
        at_least_to: [Some(100.0); 2],
        is_over_second: true,
        panels: &[
            ("% of the host", Percent, 120.0, OfHost(CPU)),
            ("by process, % of the host", Percent, 80.0, OfProcesses(busy)),
        ],
    },
    HostSignal {
        id: LOAD_AVERAGE,
        title: "Load average",
        notes: [
            "Runnable threads, and those that wait for a disk, damped over 1, 5 and 15 minutes. Run delay: time in \
             which threads could run and did not, all added up; on virtual hosts that wait for each other's CPUs it is a part of \
             the load.",
            "Over 1, 5 and 15 minutes.",
        ],
        at_least_to: [None; 2],
        is_over_second: false,
        panels: &[("threads", Plain, 90.0, OfHost(LOAD)), (RUN_DELAY, Percent, 60.0, OfHost(DELAYED))],
    },
    HostSignal {
        id: "memory",
        title: "Memory",
        notes: [""; 2],
        at_least_to: [None; 2],
        is_over_second: false,
        panels: &[
            ("resident, by process", Bytes, 90.0, OfProcesses(|row| row.rss_bytes.map(|bytes| bytes as f64))),
            ("used on the host", Bytes, 60.0, OfHost(MEMORY)),
        ],
    },
    HostSignal {
        id: "disk",
        title: "Disk",
        notes: ["", "Bytes per second."],
        at_least_to: [None; 2],
        is_over_second: true,
        panels: &[("bytes per second", BytesPerSecond, 80.0, OfHost(DISK)), (WAITING, Count, 36.0, OfHost(DISK_WAITS))],
    },
    HostSignal {
        id: "network",
        title: "Network",
        notes: ["All interfaces, loopback included.", "Bytes per second, all interfaces."],
        at_least_to: [None; 2],
        is_over_second: true,
        panels: &[("bytes per second", BytesPerSecond, 80.0, OfHost(NETWORK))],
    },
    HostSignal {
        id: "pressure",
        title: "Pressure",
        notes: [
            "Share of each second in which some task waited for a CPU, for a disk or for memory (the kernel's PSI, some).",
            "Share of a second that tasks waited.",
        ],
        at_least_to: [None, Some(10.0)],
        is_over_second: true,
        panels: &[("% of the second", Percent, 80.0, OfHost(PRESSURE))],
    },
];

const CPU: &[SignalLine] = &[
    ("user", Ink::One, Stacked, DrawnIn::Both, |row| row.cpu_user_pct),
    ("system", Ink::Two, Stacked, DrawnIn::Both, |row| row.cpu_system_pct),
    ("I/O wait", Ink::Iowait, Stacked, DrawnIn::Chart, |row| row.cpu_iowait_pct),
    ("steal", Ink::Steal, Stacked, DrawnIn::Chart, |row| row.cpu_steal_pct),
    ("other processes", Ink::Strangers, Dashed, DrawnIn::Chart, |row| row.cpu_strangers_pct),
    ("throttled", Ink::Steal, Dashed, DrawnIn::Lane, |row| row.cpu_throttled_pct),
];
const LOAD: &[SignalLine] = &[
    ("1 min", Ink::One, Solid, DrawnIn::Both, |row| row.load1),
    ("5 min", Ink::Two, Dashed, DrawnIn::Both, |row| row.load5),
    ("15 min", Ink::Three, Dotted, DrawnIn::Both, |row| row.load15),
];
const RUN_DELAY: &str = "run delay, % of the second";
const DELAYED: &[SignalLine] = &[(RUN_DELAY, Ink::Steal, Solid, DrawnIn::Chart, |row| row.run_delay_pct)];
const MEMORY: &[SignalLine] =
    &[("used", Ink::Five, Solid, DrawnIn::Both, |row| row.memory_used_bytes.map(|bytes| bytes as f64))];
const DISK: &[SignalLine] = &[
    ("read", Ink::One, Dashed, DrawnIn::Both, |row| row.disk_read_bytes.map(|bytes| bytes as f64)),
    ("written", Ink::Four, Solid, DrawnIn::Both, |row| row.disk_write_bytes.map(|bytes| bytes as f64)),
];
const WAITING: &str = "threads that wait for a disk";
const DISK_WAITS: &[SignalLine] =
    &[(WAITING, Ink::Iowait, Solid, DrawnIn::Chart, |row| row.io_wait_threads.map(|threads| threads as f64))];
const NETWORK: &[SignalLine] = &[
    ("received", Ink::One, Dashed, DrawnIn::Both, |row| row.net_rx_bytes.map(|bytes| bytes as f64)),
    ("sent", Ink::Four, Solid, DrawnIn::Both, |row| row.net_tx_bytes.map(|bytes| bytes as f64)),
];
const DELAY: &str = "I/O, all threads added up (delay accounting)";
const PRESSURE: &[SignalLine] = &[
    ("CPU", Ink::One, Solid, DrawnIn::Both, |row| row.psi_cpu_some_pct),
    ("I/O", Ink::Iowait, Dashed, DrawnIn::Both, |row| row.psi_io_some_pct),
    ("memory", Ink::Three, Dotted, DrawnIn::Both, |row| row.psi_memory_some_pct),
    (DELAY, Ink::Five, Solid, DrawnIn::Both, |row| row.io_delay_pct),
];

fn busy(row: &Sample) -> Option<f64> {
    Some(row.cpu_user_pct? + row.cpu_system_pct?)
}

/// Returns a chart for each signal, with a lane for each host of the lab.
pub fn lanes(view: &TrialView) -> Vec<Chart> {
    let hosts = of_lab(view);
    if hosts.is_empty() {
        return Vec::new();
    }
    SIGNALS.iter().map(|signal| lanes_of(view, signal, &hosts)).filter(Chart::has_values).collect()
}

fn lanes_of(view: &TrialView, signal: &HostSignal, hosts: &[&str]) -> Chart {
    let (unit, lines) = lane_lines(signal);
    let mut panels = Vec::new();
    for host in hosts {
        let lane = Panel::linear(host, unit, LANE, host_lines(view, signal, host, lines, DrawnIn::Lane));
        panels.push(Panel { remark: "not sampled".to_owned(), ..lane });
    }
    Panel::share_axis(&mut panels, signal.at_least_to[1].unwrap_or(0.0));
    view.chart("lanes", &format!("{} of each host", signal.title), signal.notes[1], panels)
}

/// Returns unit and lines of the first panel of hosts, for the lanes.
fn lane_lines(signal: &HostSignal) -> (PanelUnit, &'static [SignalLine]) {
    let of_host = signal.panels.iter().find_map(|(_, unit, _, lines)| match lines {
        OfHost(lines) => Some((*unit, *lines)),
        OfProcesses(_) => None,
    });
    of_host.unwrap_or((Plain, &[]))
}

/// Returns the hosts of the lab. Empty if the target ran on the machine that made the load.
fn of_lab<'a>(view: &TrialView<'a>) -> Vec<&'a str> {
    let hosts = view.trial.hosts.iter().filter(|host| host.kind.as_deref().is_some_and(|kind| kind != THIS_MACHINE));
    hosts.map(|host| host.name.as_str()).collect()
}

/// Signals that explain why a host is slow, rather than show its use.
const WAITED: [&str; 2] = [LOAD_AVERAGE, "pressure"];

/// Returns resource use of each host and its processes, for signals without lanes.
pub fn used(view: &TrialView) -> Vec<Chart> {
    each(view, |signal| is_open(view, signal))
}

/// Returns the folded charts of each host: waiting times, and use that the lanes show for all
/// hosts.
pub fn folded(view: &TrialView) -> Vec<Chart> {
    each(view, |signal| !is_open(view, signal))
}

fn is_open(view: &TrialView, signal: &HostSignal) -> bool {
    !WAITED.contains(&signal.id) && !has_lanes(view, signal)
}

fn has_lanes(view: &TrialView, signal: &HostSignal) -> bool {
    let hosts = of_lab(view);
    let (_, lines) = lane_lines(signal);
    let mut of_hosts =
        view.series.samples.iter().filter(|row| row.process.is_empty() && hosts.contains(&row.host.as_str()));
    of_hosts.any(|row| lines.iter().any(|line| line.3 != DrawnIn::Chart && line.4(row).is_some()))
}

/// Returns the names of the charts: `Load generator; CPU and Memory of this machine, n1 and n2`.
pub fn in_words(charts: &[Chart]) -> String {
    let mut signals: Vec<(&str, Vec<&str>)> = Vec::new();
    for chart in charts {
        let (title, host) =
            chart.title.rsplit_once(OF).map_or((&*chart.title, None), |(title, host)| (title, Some(host)));
        match signals.iter_mut().find(|(known, _)| *known == title) {
            Some((_, hosts)) => hosts.extend(host),
            None => signals.push((title, host.into_iter().collect())),
        }
    }
    let mut together: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for (title, hosts) in signals {
        match together.iter_mut().find(|(known, _)| *known == hosts) {
            Some((_, titles)) => titles.push(title),
            None => together.push((hosts, vec![title])),
        }
    }
    let words = together.iter().map(|(hosts, titles)| match hosts.as_slice() {
        [] => listed(titles),
        hosts => listed(titles) + OF + &listed(hosts),
    });
    words.collect::<Vec<_>>().join("; ")
}

fn listed(names: &[&str]) -> String {
    text::listed(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), "and")
}

/// Text between signal and host in the title of a chart.
const OF: &str = " of ";

/// Returns a chart for each host and each signal that `is_asked` selects. The title names the host
/// if there are several. In a large lab, only the machine that makes the load has these charts, and
/// the first host has one of its load averages; lanes show the other hosts.
fn each(view: &TrialView, is_asked: impl Fn(&HostSignal) -> bool) -> Vec<Chart> {
    let (hosts, of_lab) = (view.hosts(), of_lab(view));
    let several = hosts.len() > 1;
    let mut charts = Vec::new();
    for signal in SIGNALS.iter().filter(|signal| is_asked(signal)) {
        for host in hosts.iter().copied() {
            let is_first = signal.id == LOAD_AVERAGE && of_lab.first() == Some(&host);
            if of_lab.len() > DETAILED && host != THIS_MACHINE && !is_first {
                continue;
            }
            let name = if host == THIS_MACHINE { "this machine" } else { host };
            let title = if several { format!("{}{OF}{name}", signal.title) } else { signal.title.to_owned() };
            charts.push(chart_of(view, signal, host, &title));
        }
    }
    charts.retain(Chart::has_values);
    // A note that applies to all hosts is shown once.
    for index in (1..charts.len()).rev() {
        if charts[index].id == charts[index - 1].id {
            charts[index].note.clear();
        }
    }
    charts
}

/// Returns the load averages of the first host of the lab.
pub fn load_averages(view: &TrialView) -> Option<Chart> {
    let signal = SIGNALS.iter().find(|signal| signal.id == LOAD_AVERAGE)?;
    let first = *of_lab(view).first()?;
    let chart = chart_of(view, signal, first, &format!("{} of {first}", signal.title));
    Some(chart).filter(Chart::has_values)
}

fn chart_of(view: &TrialView, signal: &HostSignal, host: &str, title: &str) -> Chart {
    let mut panels: Vec<Panel> = signal.panels.iter().map(|panel| panel_of(view, signal, panel, host)).collect();
    panels[0].at_least_to = signal.at_least_to[0];
    panels.retain(Panel::has_values);
    view.chart(signal.id, title, signal.notes[0], panels)
}

fn panel_of(
    view: &TrialView,
    signal: &HostSignal,
    (label, unit, height, lines): &(&str, PanelUnit, f64, SignalLines),
    host: &str,
) -> Panel {
    let lines = match lines {
        OfHost(lines) => host_lines(view, signal, host, lines, DrawnIn::Chart),
        OfProcesses(value) => {
            let processes = view.processes(host).into_iter().enumerate();
            let lines = processes.map(|(index, process)| {
                view.line(process, Ink::nth(index), &sampled(view, signal, host, process, *value))
            });
            lines_with_values(lines.collect())
        }
    };
    Panel::linear(label, *unit, *height, lines)
}

/// Returns the lines of a host that are drawn in `drawn` and have values. Stacked lines are thinned
/// together.
fn host_lines(
    view: &TrialView,
    signal: &HostSignal,
    host: &str,
    lines: &[SignalLine],
    drawn: DrawnIn,
) -> Vec<ChartLine> {
    let here = lines.iter().filter(|line| line.3 == drawn || line.3 == DrawnIn::Both);
    let lines = here.map(|&(name, ink, shape, _, value)| {
        ChartLine::new(name, (ink, shape), sampled(view, signal, host, "", value))
    });
    let mut lines = lines_with_values(lines.collect());
    let stacked: Vec<_> = lines.iter().filter(|line| line.shape == Stacked).map(|line| line.points.clone()).collect();
    let mut together = thinned_together(&stacked, view.points).into_iter();
    for line in &mut lines {
        let stacked = if line.shape == Stacked { together.next() } else { None };
        line.points = stacked.unwrap_or_else(|| thinned(&line.points, view.points));
    }
    lines
}

/// Returns a value's samples. A value that covers a second is placed at the middle of the second.
fn sampled(
    view: &TrialView,
    signal: &HostSignal,
    host: &str,
    process: &str,
    value: SampleValue,
) -> Vec<(f64, Option<f64>)> {
    let mut points = view.sampled(host, process, value);
    if signal.is_over_second {
        points.iter_mut().for_each(|point| point.0 = (point.0 - 0.5).max(0.0));
    }
    points
}
