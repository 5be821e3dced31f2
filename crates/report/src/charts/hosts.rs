//! Charts of the hosts: what each host and the processes on it used, one table of signals. Each signal has a chart for each host, and
//! in a lab one with a lane for each host, so that it is seen which of them was busy when; those of each host are folded then.

use record::rows::{Sample, THIS_MACHINE};

use super::{TrialView, lines_with_values};
use crate::drawing::chart::{Chart, ChartLine, Ink, LineStyle, Panel, PanelUnit};
use crate::drawing::path::{thinned, thinned_together};

/// Hosts of a lab that have charts of their own, at most.
const DETAILED: usize = 4;

/// The signal of which the first host has a chart in a lab of any size.
const LOAD_AVERAGE: &str = "load_average";

/// Height of a lane.
const LANE: f64 = 30.0;

/// What a sample measures, if it does.
type SampleValue = fn(&Sample) -> Option<f64>;

/// Something that is sampled of each host.
struct HostSignal {
    /// Its name in the ids of its charts.
    id: &'static str,
    title: &'static str,
    /// Below the chart of a host, and below the lanes of all hosts.
    notes: [&'static str; 2],
    /// The first panel of a host, and the lanes, reach at least so far. All lanes are as high as the highest of them.
    at_least_to: [Option<f64>; 2],
    /// Whether a sample is over the second before it, and not of the moment.
    is_over_second: bool,
    /// Label, unit, height and lines of each panel of a host's chart.
    panels: &'static [(&'static str, PanelUnit, f64, SignalLines)],
}

enum SignalLines {
    OfHost(&'static [SignalLine]),
    /// A line for each process.
    OfProcesses(SampleValue),
}

/// A line of a host: name, colour, shape, where it is drawn, and its value.
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

/// In page order.
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

/// For each signal a chart with a lane for each host of the lab.
pub fn lanes(view: &TrialView) -> Vec<Chart> {
    let hosts = of_lab(view);
    if hosts.is_empty() {
        return Vec::new();
    }
    SIGNALS.iter().map(|signal| lanes_of(view, signal, &hosts)).filter(Chart::has_values).collect()
}

fn lanes_of(view: &TrialView, signal: &HostSignal, hosts: &[&str]) -> Chart {
    let (unit, lines) = lane_lines(signal);
    let lane = |host: &&str| {
        let mut panel = Panel::linear(host, unit, LANE, host_lines(view, signal, host, lines, DrawnIn::Lane));
        "not sampled".clone_into(&mut panel.remark);
        panel
    };
    let panels = hosts.iter().map(lane).collect();
    let mut chart = view.chart("lanes", &format!("{} of each host", signal.title), signal.notes[1], panels);
    // Lanes are compared with each other, so they share an axis.
    let highest = chart.panels.iter().map(Panel::highest).fold(signal.at_least_to[1].unwrap_or(0.0), f64::max);
    chart.panels.iter_mut().for_each(|panel| panel.at_least_to = Some(highest));
    chart
}

/// Unit and lines of the first panel of hosts: those that lanes may have.
fn lane_lines(signal: &HostSignal) -> (PanelUnit, &'static [SignalLine]) {
    let of_host = signal.panels.iter().find_map(|(_, unit, _, lines)| match lines {
        OfHost(lines) => Some((*unit, *lines)),
        OfProcesses(_) => None,
    });
    of_host.unwrap_or((Plain, &[]))
}

/// The hosts of the lab; none where the target ran on the machine that made the load.
fn of_lab<'a>(view: &TrialView<'a>) -> Vec<&'a str> {
    let hosts = view.trial.hosts.iter().filter(|host| host.kind.as_deref().is_some_and(|kind| kind != THIS_MACHINE));
    hosts.map(|host| host.name.as_str()).collect()
}

/// Signals that say why something is slow rather than what it takes.
const WAITED: [&str; 2] = [LOAD_AVERAGE, "pressure"];

/// What each host and its processes used, where no lanes show it.
pub fn used(view: &TrialView) -> Vec<Chart> {
    each(view, |signal| is_open(view, signal))
}

/// Each host by itself: what it waited for, and what it used where lanes show that of all hosts.
pub fn folded(view: &TrialView) -> Vec<Chart> {
    each(view, |signal| !is_open(view, signal))
}

fn is_open(view: &TrialView, signal: &HostSignal) -> bool {
    !WAITED.contains(&signal.id) && !has_lanes(view, signal)
}

fn has_lanes(view: &TrialView, signal: &HostSignal) -> bool {
    let hosts = of_lab(view);
    let (_, lines) = lane_lines(signal);
    let is_drawn = |row: &Sample| lines.iter().any(|line| line.3 != DrawnIn::Chart && line.4(row).is_some());
    let of_hosts = |row: &&Sample| row.process.is_empty() && hosts.contains(&row.host.as_str());
    view.series.samples.iter().filter(of_hosts).any(is_drawn)
}

/// What these charts are: `Load generator; CPU and Memory of this machine, n1 and n2`.
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
    let listed = |names: &[&str]| text::listed(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), "and");
    let words = together.iter().map(|(hosts, titles)| match hosts.as_slice() {
        [] => listed(titles),
        hosts => listed(titles) + OF + &listed(hosts),
    });
    words.collect::<Vec<_>>().join("; ")
}

/// Between what a chart shows and the host it is of, in its title.
const OF: &str = " of ";

/// For each of these signals a chart for each host; the title names the host where there are several. Of a large lab only the machine
/// that makes the load has them, and the first host one of its load averages: the others are seen in their lanes.
fn each(view: &TrialView, is_asked: impl Fn(&HostSignal) -> bool) -> Vec<Chart> {
    let (hosts, of_lab) = (view.hosts(), of_lab(view));
    let several = hosts.len() > 1;
    let is_drawn = |signal: &HostSignal, host: &str| {
        let is_first = || signal.id == LOAD_AVERAGE && of_lab.first() == Some(&host);
        of_lab.len() <= DETAILED || host == THIS_MACHINE || is_first()
    };
    let of = |signal: &HostSignal, host: &str| {
        let name = if host == THIS_MACHINE { "this machine" } else { host };
        let title = if several { format!("{}{OF}{name}", signal.title) } else { signal.title.to_owned() };
        chart_of(view, signal, host, &title)
    };
    let asked = SIGNALS.iter().filter(|signal| is_asked(signal));
    let drawn = asked.flat_map(|signal| hosts.iter().map(move |host| (signal, *host)));
    let charts = drawn.filter(|(signal, host)| is_drawn(signal, host)).map(|(signal, host)| of(signal, host));
    let mut charts: Vec<Chart> = charts.filter(Chart::has_values).collect();
    // What holds for all hosts is said once.
    for index in (1..charts.len()).rev() {
        if charts[index].id == charts[index - 1].id {
            charts[index].note.clear();
        }
    }
    charts
}

/// The load averages of the first host of the lab.
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
            let lines = view.processes(host).into_iter().enumerate().map(|(index, process)| {
                let (ink, shape) = Ink::nth(index);
                let points = thinned(&sampled(view, signal, host, process, *value), view.points);
                ChartLine { name: process.to_owned(), ink, shape, points }
            });
            lines_with_values(lines.collect())
        }
    };
    Panel::linear(label, *unit, *height, lines)
}

/// The lines of a host that are drawn there and have values; stacked ones are thinned together.
fn host_lines(
    view: &TrialView,
    signal: &HostSignal,
    host: &str,
    lines: &[SignalLine],
    drawn: DrawnIn,
) -> Vec<ChartLine> {
    let here = lines.iter().filter(|line| line.3 == drawn || line.3 == DrawnIn::Both);
    let line = |(name, ink, shape, _, value): &SignalLine| ChartLine {
        name: (*name).to_owned(),
        ink: *ink,
        shape: *shape,
        points: sampled(view, signal, host, "", *value),
    };
    let mut lines = lines_with_values(here.map(line).collect());
    let is_stacked = |line: &ChartLine| line.shape == Stacked;
    let stacked: Vec<_> = lines.iter().filter(|line| is_stacked(line)).map(|line| line.points.clone()).collect();
    let mut together = thinned_together(&stacked, view.points).into_iter();
    for line in &mut lines {
        line.points =
            if is_stacked(line) { together.next() } else { None }.unwrap_or_else(|| thinned(&line.points, view.points));
    }
    lines
}

/// What is over a second stands in its middle.
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
