//! Charts of a trial over the trial's clock.

mod distribution;
mod generator;
mod groups;
pub mod hosts;
mod latency;
mod members;
mod messages;
mod metrics;
mod operations;
mod outcomes;
mod units;
mod zoom;

use std::collections::BTreeMap;

use analysis::LatencySecond;
use record::events::{Ending, What};
use record::results::{DisturbanceKind, Fault, Steady, Trial};
use record::rows::{Sample, THIS_MACHINE};
use text::{distinct, numbers};

use crate::drawing;
use crate::drawing::axis::Spacing;
use crate::drawing::chart::{AxisRange, Chart, ChartLine, Ink, LineStyle, Mark, Panel};
use crate::drawing::path::{DataPoint, thinned};
use crate::series::TrialSeries;

/// Maximum number of events listed with the charts of a trial.
const NOTICES: usize = 60;

/// Maximum number of disturbances marked on a chart; more would hide it.
const DISTURBANCES: usize = 20;

/// Draws charts of a trial: none without records for them, several with several hosts or faults.
pub type TrialChart = fn(&TrialView) -> Vec<Chart>;

/// Input of a trial's charts.
pub struct TrialView<'a> {
    pub trial: &'a Trial,
    pub series: &'a TrialSeries,
    /// Maximum number of points per line.
    pub points: usize,
}

/// Charts in page order: results that clients saw, side by side; further results and resource use,
/// small; explanations, folded.
pub const CHARTS: [&[TrialChart]; 3] = [
    &[outcomes::draw, latency::draw],
    &[
        distribution::draw,
        zoom::draw,
        members::draw,
        groups::draw,
        operations::draw,
        units::draw,
        messages::draw,
        hosts::lanes,
        hosts::used,
        metrics::draw,
    ],
    &[generator::draw, hosts::folded],
];

/// Returns the charts of a trial, in the order of the list. Ids are unique on the page if each kind
/// is in only one list.
pub fn of_trial(kinds: &[TrialChart], view: &TrialView) -> Vec<Chart> {
    let charts = kinds.iter().flat_map(|draw| draw(view)).collect();
    numbered(&format!("t{}-", view.trial.id), charts)
}

/// Makes the ids of charts, which name their kind, unique on the page: `t001-memory-2`.
pub fn numbered(before: &str, mut charts: Vec<Chart>) -> Vec<Chart> {
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    for chart in &mut charts {
        let number = numbers.entry(chart.id.clone()).or_default();
        *number += 1;
        chart.id = format!("{before}{}-{number}", chart.id);
    }
    charts
}

impl TrialView<'_> {
    /// Returns the end of the load's records or of the last step, seconds since load start.
    pub fn end_s(&self) -> f64 {
        let slots = self.series.outcomes.last().map(|slot| slot.at_s + slot.slot_s);
        let samples = self.series.samples.last().map(|sample| sample.at_s);
        let seconds = self.series.generator.last().map(|second| second.at_s);
        let steps_s = self.trial.steps.iter().filter_map(|step| step.ended_s).fold(1.0, f64::max);
        slots.or(seconds).or(samples).unwrap_or(1.0).max(steps_s)
    }

    /// Returns a chart over the whole load.
    pub fn chart(&self, id: &str, title: &str, note: &str, panels: Vec<Panel>) -> Chart {
        let x = AxisRange::new(Spacing::Linear, 0.0, self.end_s(), "s");
        let (marks, measured) = (self.marks(), self.trial.measured_s);
        Chart { marks, measured, ..Chart::new(id, title, note, x, panels) }
    }

    /// Returns a chart over the whole load with the end of the warm-up marked, for figures that
    /// exclude the warm-up.
    pub fn chart_with_warmup(&self, id: &str, title: &str, note: &str, panels: Vec<Panel>) -> Chart {
        let mut chart = self.chart(id, title, note, panels);
        if let Some(steady) = self.trial.steady.as_ref().filter(|steady| steady.from_s > 0.0) {
            // The first mark gets its label first, so the label of a fault moves to another row if
            // both would overlap.
            chart.marks.insert(0, Mark::new(steady.from_s, warmup_label(steady)));
        }
        chart
    }

    /// Returns the marks of steps and faults. A fault is shaded until it was healed and throughput
    /// was back, whichever was later. Faults of a step are within the step's band and have no mark.
    fn marks(&self) -> Vec<Mark> {
        let faults = self.trial.faults.iter().filter(|fault| fault.failed.is_none() && !self.is_in_step(fault));
        let faults = faults.map(|fault| {
            let back = fault.outage.as_ref().and_then(|outage| outage.back_to_baseline_s).map(|back| fault.at_s + back);
            Mark {
                until: [fault.healed_s, back].into_iter().flatten().reduce(f64::max),
                colours: Some(drawing::legible(&fault.colour)),
                ..Mark::new(fault.at_s, fault_label(fault))
            }
        });
        self.steps().chain(faults).chain(self.actions()).chain(self.disturbed()).collect()
    }

    /// Whether a step injects the fault. Such a fault has the step's name, perhaps followed by a
    /// number.
    fn is_in_step(&self, fault: &Fault) -> bool {
        let mut rests = self.trial.steps.iter().filter_map(|step| fault.name.strip_prefix(&step.name));
        rests.any(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok()))
    }

    /// Returns each action as a line in the colour of the axis.
    fn actions(&self) -> impl Iterator<Item = Mark> {
        let actions = self.trial.actions.iter().filter(|action| action.failed.is_none());
        actions.map(|action| Mark::new(action.at_s, format!("{} ({} on {})", action.name, action.kind, action.on)))
    }

    /// Returns each step as a band in the colour of its result.
    fn steps(&self) -> impl Iterator<Item = Mark> {
        self.trial.steps.iter().map(|step| {
            let (label, colour) = match step.failed {
                0 => (step.name.clone(), "#3c7d5a"),
                _ => (format!("{}: {}", step.name, step.result.words()), "#a8483f"),
            };
            Mark { until: step.ended_s, colours: Some(drawing::legible(colour)), ..Mark::new(step.at_s, label) }
        })
    }

    /// Returns disturbances that no fault explains, in the colour of the axis.
    fn disturbed(&self) -> impl Iterator<Item = Mark> {
        self.trial.disturbances.iter().take(DISTURBANCES).map(|one| Mark {
            until: one.outage.back_to_baseline_s.or(one.outage.last_failure_s).map(|until| one.at_s + until),
            ..Mark::new(one.at_s, if one.kind == DisturbanceKind::Slow { "slow" } else { "disturbance" })
        })
    }

    /// Returns the hosts in the samples: this machine, then the lab's hosts in the lab's order. The
    /// order of the samples is arbitrary.
    pub fn hosts(&self) -> Vec<&str> {
        let mut hosts = distinct(self.series.samples.iter().map(|sample| sample.host.as_str()));
        hosts.sort_by_key(|host| {
            (*host != THIS_MACHINE, self.trial.hosts.iter().position(|of_lab| of_lab.name == *host))
        });
        hosts
    }

    /// Returns the processes in the samples of a host, in the order of their first row.
    pub fn processes(&self, host: &str) -> Vec<&str> {
        let samples = self.series.samples.iter().filter(|sample| sample.host == host && !sample.process.is_empty());
        distinct(samples.map(|sample| sample.process.as_str()))
    }

    /// Returns a line, thinned to the maximum number of points.
    pub fn line(&self, name: &str, pen: (Ink, LineStyle), points: &[DataPoint]) -> ChartLine {
        ChartLine::new(name, pen, thinned(points, self.points))
    }

    /// Returns a thinned line within the load, with gaps for missing samples.
    pub fn sampled_line(&self, name: &str, pen: (Ink, LineStyle), points: Vec<DataPoint>) -> ChartLine {
        self.line(name, pen, &with_gaps(points, self.end_s()))
    }

    /// Returns a line of a latency figure per second, placed at the middle of each second.
    pub fn latency_line<'s>(
        &self,
        name: &str,
        pen: (Ink, LineStyle),
        seconds: impl IntoIterator<Item = &'s LatencySecond>,
        value: fn(&LatencySecond) -> Option<f64>,
    ) -> ChartLine {
        let points = seconds.into_iter().map(|second| (second.at_s + second.length_s / 2.0, value(second)));
        // The outcomes define the end of the load; the last latency interval may extend beyond it.
        self.sampled_line(name, pen, points.collect())
    }

    /// Returns a value of a host (`process` empty) or a process over time, with gaps for missing
    /// samples.
    pub fn sampled(&self, host: &str, process: &str, value: impl Fn(&Sample) -> Option<f64>) -> Vec<DataPoint> {
        let samples = self.series.samples.iter().filter(|sample| sample.host == host && sample.process == process);
        with_gaps(samples.map(|sample| (sample.at_s, value(sample))).collect(), self.end_s())
    }
}

/// Returns `warm-up until 4 s (MSER-5)`, or names the figure that is not steady afterwards. Both
/// together are too long for a chart.
fn warmup_label(steady: &Steady) -> String {
    let until = numbers::moment(steady.from_s);
    match &steady.unsteady {
        Some(what) => format!("warm-up until {until}, {what} not steady"),
        None => format!("warm-up until {until} ({})", steady.method),
    }
}

/// Returns `oops (call on n1.server)`: name in the experiment, kind and victim.
pub fn fault_label(fault: &Fault) -> String {
    let label = if fault.label.is_empty() { &fault.kind } else { &fault.label };
    let on = if fault.on.is_empty() { String::new() } else { format!(" on {}", fault.on) };
    let times = if fault.number > 1 { format!(" #{}", fault.number) } else { String::new() };
    format!("{}{times} ({label}{on})", fault.name)
}

/// Returns the notices that are listed with the charts, each with its time: log lines, messages,
/// and starts and ends of processes.
pub fn notices(series: &TrialSeries) -> Vec<(String, String)> {
    let said = series.events.iter().filter_map(|event| Some((numbers::moment(event.at_s), notice(&event.what)?)));
    said.take(NOTICES).collect()
}

/// Returns the text of a notice, if the event is one.
fn notice(what: &What) -> Option<String> {
    match what {
        What::FaultBegun { fault, on, kind, .. } => Some(format!("fault {fault} ({kind}) began on {on}")),
        What::FaultHealed { fault, .. } => Some(format!("fault {fault} healed")),
        What::FaultFailed { fault, reason, .. } => Some(format!("fault {fault} could not be injected: {reason}")),
        What::ActionTaken { action, on, kind, .. } => Some(format!("action {action} ({kind}) on {on}")),
        What::ActionFailed { action, reason, .. } => Some(format!("action {action} failed: {reason}")),
        What::StepBegun { step } => Some(format!("step {step} began")),
        What::StepEnded { step, result, why, .. } => Some(format!(
            "step {step} {}{}",
            result.words(),
            why.iter().map(|why| format!(": {why}")).collect::<String>()
        )),
        What::StepAudited { step, audit, host, failed: Some(why) } => {
            Some(format!("after step {step} audit {audit} failed on {host}: {why}"))
        }
        What::TargetRebuilt { after } => Some(format!("the target was restarted empty after step {after}")),
        What::ProcessDown { host, process, how, expected, last_lines } => {
            let meant = if *expected { "" } else { " (unplanned)" };
            let last = if last_lines.is_empty() {
                String::new()
            } else {
                format!("; it wrote last: {}", last_lines.join(" / "))
            };
            Some(format!("{process} on {host} ended: {how}{meant}{last}"))
        }
        What::StartShared { of, .. } => Some(format!("the target has been running since trial {of}")),
        What::ProcessUp { host, process, .. } => Some(format!("{process} on {host} started")),
        What::HostDown { host, expected } => {
            Some(format!("host {host} went down{}", if *expected { "" } else { " (unplanned)" }))
        }
        What::Log { host, process, line, left_out: 0, .. } => Some(format!("{process} on {host} wrote: {line}")),
        What::Log { host, process, line, left_out, .. } => {
            Some(format!("{process} on {host} wrote {} more such lines, the last: {line}", numbers::count(*left_out)))
        }
        What::Notice { text } => Some(text.clone()),
        What::CpuShares { not_judged: Some(why), .. } => Some(format!("other processes were not judged: {why}")),
        What::Ended { how, reason: Some(reason) } if *how != Ending::Done => Some(format!("the trial ended: {reason}")),
        _ => None,
    }
}

/// Returns a function that says whether an interval is whole, and not the short last one of a load.
/// A few milliseconds give no valid figure per second.
pub fn whole(lengths_s: impl Iterator<Item = f64>) -> impl Fn(f64) -> bool {
    let longest_s = lengths_s.fold(0.0, f64::max);
    move |length_s| length_s >= 0.5 * longest_s
}

/// Returns the lines that have at least one value.
pub fn lines_with_values(lines: Vec<ChartLine>) -> Vec<ChartLine> {
    lines.into_iter().filter(ChartLine::has_values).collect()
}

/// Cuts points to `0..=end_s`, and adds a gap if more than two samples in a row are missing.
pub fn with_gaps(points: Vec<DataPoint>, end_s: f64) -> Vec<DataPoint> {
    let points: Vec<DataPoint> = points.into_iter().filter(|point| (0.0..=end_s + 1e-9).contains(&point.0)).collect();
    let mut steps: Vec<f64> = points.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    steps.sort_by(f64::total_cmp);
    let usual = steps.get(steps.len() / 2).copied().unwrap_or(f64::INFINITY);
    let mut gapped: Vec<DataPoint> = Vec::with_capacity(points.len());
    for point in points {
        if let Some(last) = gapped.last()
            && point.0 - last.0 > 2.5 * usual
        {
            let at = (last.0 + point.0) / 2.0;
            gapped.push((at, None));
        }
        gapped.push(point);
    }
    gapped
}

#[cfg(test)]
mod tests {
    use record::results::{Host, Trial};

    use super::*;
    use crate::drawing::chart::LineStyle;
    use crate::example;

    fn crash() -> (Trial, TrialSeries) {
        let trial = example::one_crash().1.trials.remove(0);
        let series = example::series(&trial, 30);
        (trial, series)
    }

    fn viewed<'a>(trial: &'a Trial, series: &'a TrialSeries) -> TrialView<'a> {
        TrialView { trial, series, points: 1_500 }
    }

    fn titles(charts: &[Chart]) -> Vec<&str> {
        charts.iter().map(|chart| chart.title.as_str()).collect()
    }

    fn names(panel: &Panel) -> Vec<&str> {
        panel.lines.iter().map(|line| line.name.as_str()).collect()
    }

    fn of_signal(id: &str, view: &TrialView) -> Vec<Chart> {
        [hosts::used(view), hosts::folded(view)].concat().into_iter().filter(|chart| chart.id == id).collect()
    }

    #[test]
    fn all_charts_of_a_trial_in_page_order() {
        let (trial, series) = crash();
        let charts = of_trial(&CHARTS.concat(), &viewed(&trial, &series));
        let expected = [
            "Operations by outcome",
            "Latency",
            "Latency distribution",
            "Latency by percentile",
            "Around the fault, in steps of 5 ms",
            "CPU",
            "Memory",
            "Disk",
            "Network",
            "Load generator",
            "Load average",
            "Pressure",
        ];
        assert_eq!(titles(&charts), expected);
    }

    #[test]
    fn no_records_no_charts() {
        let trial = Trial::default();
        assert_eq!(of_trial(&CHARTS.concat(), &viewed(&trial, &TrialSeries::default())), Vec::new());
    }

    #[test]
    fn failures_have_their_own_lanes_and_count_once() {
        let (trial, mut series) = crash();
        let view = viewed(&trial, &series);
        let chart = &outcomes::draw(&view)[0];
        let labels: Vec<&str> = chart.panels.iter().map(|panel| panel.label.as_str()).collect();
        assert_eq!(
            labels,
            ["ok operations per second", "failed in each 0.2 s: 104 in all", "wrong in each 0.2 s: 10 in all"]
        );
        let failed: f64 = chart.panels[1].lines[0].points.iter().filter_map(|point| point.1).sum();
        assert_eq!(failed, 104.0);
        for slot in &mut series.outcomes {
            (slot.failed, slot.wrong) = (0, 0);
        }
        let chart = &outcomes::draw(&viewed(&trial, &series))[0];
        assert_eq!(chart.panels[1].remark, "none in this trial");
    }

    #[test]
    fn a_last_bin_that_was_cut_short_has_no_rate() {
        let (trial, mut series) = crash();
        series.outcomes.retain(|slot| slot.at_s < 12.05);
        let chart = &outcomes::draw(&viewed(&trial, &series))[0];
        let points = &chart.panels[0].lines[0].points;
        assert_eq!(points.last().unwrap().1, None);
        assert!(points[points.len() - 2].1.unwrap() > 50_000.0);
    }

    /// Returns the first marks of outcomes, latency and CPU.
    fn first_marks(steady: Steady) -> [String; 3] {
        let (mut trial, series) = crash();
        trial.steady = Some(steady);
        let charts = of_trial(&CHARTS.concat(), &viewed(&trial, &series));
        ["Operations by outcome", "Latency", "CPU"].map(|title| {
            let chart = charts.iter().find(|chart| chart.title == title).unwrap();
            chart.marks[0].label.clone()
        })
    }

    #[test]
    fn the_end_of_the_warm_up_is_marked() {
        let steady = Steady { from_s: 4.0, method: "MSER-5".to_owned(), is: Some(true), ..Steady::default() };
        assert_eq!(first_marks(steady.clone())[..2], ["warm-up until 4 s (MSER-5)"; 2]);
        assert!(first_marks(steady.clone())[2].starts_with("oops"));
        let unsteady = Steady { unsteady: Some("latency".to_owned()), ..steady };
        assert_eq!(first_marks(unsteady.clone())[0], "warm-up until 4 s, latency not steady");
        assert!(first_marks(Steady { from_s: 0.0, ..unsteady })[0].starts_with("oops"), "nothing is cut off");
    }

    #[test]
    fn the_zoom_is_as_wide_as_the_outage_needs() {
        let (mut trial, series) = crash();
        let chart = zoom::draw(&viewed(&trial, &series)).remove(0);
        assert_eq!((chart.x.from, chart.x.to), (-0.5, 0.5));
        assert_eq!(chart.marks[0].until, Some(0.12));
        let failed = chart.panels.iter().find(|panel| panel.label.starts_with("failed")).unwrap();
        assert_eq!(failed.lines[0].points.iter().filter_map(|point| point.1).sum::<f64>(), 104.0);
        trial.faults[0].outage.as_mut().unwrap().back_to_baseline_s = Some(8.0);
        let chart = zoom::draw(&viewed(&trial, &series)).remove(0);
        assert_eq!((chart.x.from, chart.x.to), (-2.0, 10.0));
        // After the end of the records there is a gap, not 0.
        trial.faults[0].at_s = 25.0;
        assert_eq!(zoom::draw(&viewed(&trial, &series))[0].panels[0].lines[0].points.last().unwrap().1, None);
        trial.faults[0].failed = Some("no such member".to_owned());
        assert!(zoom::draw(&viewed(&trial, &series)).is_empty());
    }

    #[test]
    fn missing_samples_stay_a_gap() {
        let (trial, series) = crash();
        let view = viewed(&trial, &series);
        let points = view.sampled("local", "", |sample| sample.load1);
        let gaps: Vec<f64> = points.iter().filter(|point| point.1.is_none()).map(|point| point.0).collect();
        assert_eq!(gaps, [21.0]);
        let points = with_gaps(vec![(-2.0, Some(1.0)), (1.0, Some(1.0)), (2.0, None), (99.0, Some(1.0))], 30.0);
        assert_eq!(points, [(1.0, Some(1.0)), (2.0, None)]);
    }

    #[test]
    fn unmeasured_signals_have_no_line() {
        let (trial, mut series) = crash();
        for sample in &mut series.samples {
            (sample.cpu_iowait_pct, sample.psi_cpu_some_pct) = (None, None);
            (sample.psi_io_some_pct, sample.psi_memory_some_pct) = (None, None);
        }
        let view = viewed(&trial, &series);
        let chart = &of_signal("cpu", &view)[0];
        assert_eq!(names(&chart.panels[0]), ["user", "system", "steal", "other processes"]);
        assert_eq!(chart.panels[0].lines[2].shape, LineStyle::Stacked);
        assert!(of_signal("pressure", &view).is_empty());
    }

    #[test]
    fn several_hosts_have_a_chart_each() {
        let (trial, mut series) = crash();
        let second: Vec<_> = series.samples.iter().cloned().map(|s| Sample { host: "n2".to_owned(), ..s }).collect();
        series.samples.extend(second);
        let view = viewed(&trial, &series);
        assert_eq!(titles(&of_signal("memory", &view)), ["Memory of this machine", "Memory of n2"]);
        let is_noted: Vec<bool> = of_signal("cpu", &view).iter().map(|chart| !chart.note.is_empty()).collect();
        assert_eq!(is_noted, [true, false], "what holds for all hosts is said once");
    }

    /// Returns a trial on this number of virtual hosts, and its records.
    fn lab(hosts: usize) -> (Trial, TrialSeries) {
        let (mut trial, mut series) = crash();
        let names: Vec<String> = (1..=hosts).map(|number| format!("n{number}")).collect();
        let host = Host { kind: Some("netns".to_owned()), ..Host::default() };
        trial.hosts = names.iter().map(|name| Host { name: name.clone(), ..host.clone() }).collect();
        let rows = series.samples.clone();
        for name in &names {
            let of_host = rows.iter().filter(|row| row.process != "generator");
            series.samples.extend(of_host.cloned().map(|row| Sample { host: name.clone(), ..row }));
        }
        (trial, series)
    }

    #[test]
    fn hosts_are_in_the_order_of_the_lab() {
        let (trial, mut series) = lab(3);
        series.samples.reverse();
        let view = viewed(&trial, &series);
        assert_eq!(view.hosts(), [THIS_MACHINE, "n1", "n2", "n3"]);
    }

    #[test]
    fn the_hosts_of_a_lab_have_a_lane_each() {
        let (trial, series) = lab(2);
        let view = viewed(&trial, &series);
        let charts = hosts::lanes(&view);
        assert_eq!(charts[0].title, "CPU of each host");
        let labels: Vec<&str> = charts[0].panels.iter().map(|panel| panel.label.as_str()).collect();
        assert_eq!(labels, ["n1", "n2"], "the machine that makes the load is none of them");
        assert_eq!(titles(&of_signal("memory", &view)).len(), 3, "and charts of their own as long as they are few");
        let (trial, series) = lab(16);
        let view = viewed(&trial, &series);
        assert_eq!(hosts::lanes(&view)[0].panels.len(), 16);
        assert_eq!(titles(&of_signal("memory", &view)), ["Memory of this machine"]);
        let averages = of_signal("load_average", &view);
        assert_eq!(titles(&averages), ["Load average of this machine", "Load average of n1"]);
        assert_eq!(names(&averages[1].panels[0]), ["1 min", "5 min", "15 min"]);
        let (trial, series) = crash();
        assert!(hosts::lanes(&viewed(&trial, &series)).is_empty(), "no lab");
    }

    #[test]
    fn charts_of_signals_in_lanes_are_folded() {
        let (trial, mut series) = lab(2);
        for sample in series.samples.iter_mut().filter(|sample| sample.process.is_empty()) {
            sample.memory_used_bytes = None;
        }
        let view = viewed(&trial, &series);
        let open = of_trial(CHARTS[1], &view);
        let of_hosts: Vec<&str> =
            titles(&open).into_iter().filter(|title| title.contains(" of ") && !title.starts_with("Around")).collect();
        // Memory is known only for processes, which have no lane.
        let of_memory = ["Memory of this machine", "Memory of n1", "Memory of n2"];
        let lanes =
            ["CPU", "Load average", "Disk", "Network", "Pressure"].map(|signal| format!("{signal} of each host"));
        assert_eq!(of_hosts, [lanes.iter().map(String::as_str).collect(), of_memory.to_vec()].concat());
        let folded = of_trial(CHARTS[2], &view);
        assert_eq!(titles(&folded)[..4], ["Load generator", "CPU of this machine", "CPU of n1", "CPU of n2"]);
        assert_eq!(
            hosts::in_words(&folded),
            "Load generator; CPU, Load average, Disk, Network and Pressure of this machine, n1 and n2"
        );
        let (trial, series) = lab(16);
        let folded = of_trial(CHARTS[2], &viewed(&trial, &series));
        assert_eq!(
            hosts::in_words(&folded),
            "Load generator; CPU, Memory, Disk, Network and Pressure of this machine; Load average of this machine and n1"
        );
        let (trial, series) = crash();
        let folded = of_trial(CHARTS[2], &viewed(&trial, &series));
        assert_eq!(hosts::in_words(&folded), "Load generator, Load average and Pressure");
    }

    #[test]
    fn target_metrics_have_a_chart_each_and_lines_for_hosts() {
        let (trial, mut series) = crash();
        use record::rows::MetricKind::{Counter, Gauge};
        let metrics = [
            ("calls_total", "n1", Counter, 90.0),
            ("memory_bytes", "n1", Gauge, 1e6),
            ("memory_bytes", "n2", Gauge, 2e6),
            ("overloads_total", "n1", Counter, 0.0),
        ];
        series.metrics = metrics
            .map(|(name, host, kind, value)| crate::series::MetricSeries {
                name: name.to_owned(),
                host: host.to_owned(),
                kind,
                points: (0..30).map(|second| (f64::from(second), Some(value))).collect(),
            })
            .to_vec();
        let charts = metrics::draw(&viewed(&trial, &series));
        assert_eq!(titles(&charts), ["calls_total", "memory_bytes"], "what stood at 0 has none");
        let lines: Vec<Vec<&str>> = charts.iter().map(|chart| names(&chart.panels[0])).collect();
        assert_eq!(lines, [vec!["n1"], vec!["n1", "n2"]]);
        assert_eq!(charts[1].panels[0].unit.tick(1e6), "1 MB");
        assert!(charts[0].marks[0].label.starts_with("oops"));
    }

    #[test]
    fn notices_list_process_and_fault_events() {
        let (_, series) = crash();
        let notices = notices(&series);
        let words: Vec<&str> = notices.iter().map(|(_, words)| words.as_str()).collect();
        assert_eq!(words[..2], ["server on local started", "fault oops (call) began on local.server"]);
        assert_eq!(notices[1].0, "15.002 s");
    }

    #[test]
    fn disturbances_are_marked_beside_the_faults() {
        let (mut trial, series) = crash();
        trial.disturbances = vec![example::disturbance()];
        let chart = &outcomes::draw(&viewed(&trial, &series))[0];
        let marks: Vec<_> = chart.marks.iter().map(|mark| (mark.label.as_str(), mark.at, mark.until)).collect();
        assert_eq!(marks[1], ("disturbance", 22.5, Some(23.7)));
        assert_eq!(marks.len(), 2);
    }
}
