//! Charts of a whole run other than its sweep: comparison of variants and points, recovery times of
//! faults, trials of a search, and load averages of an exercise.

use std::collections::BTreeMap;

use analysis::trial_groups::{self, Group, label, outages, repeated, short};
use experiment::plan::{Find, MetricRange as Limits, Requirement};
use record::results::{OutageDistribution, Results, SafeLoad, counting};
use text::{distinct, numbers};

use crate::charts::{TrialView, hosts, numbered};
use crate::drawing::axis::Spacing;
use crate::drawing::bar_rows::{BarColumn, BarRow, BarRows};
use crate::drawing::chart::{AxisRange, Chart, ChartLine, Ink, LineStyle, Mark, Panel, PanelUnit};
use crate::drawing::path::DataPoint;
use crate::tables::comparison;
use crate::tables::sweeps::condition;
use crate::{ReportInput, tables};

/// Draws the key columns of the comparison as bars.
pub fn comparison(input: &ReportInput) -> Option<BarRows> {
    let groups = trial_groups::groups(input.results, input.plan);
    if groups.len() < 2 || comparison::is_long(&groups) {
        return None;
    }
    let mut columns = Vec::new();
    for measure in comparison::measured(&groups).filter(|measure| measure.bars) {
        let spreads = groups.iter().map(|group| group.spread(measure.value));
        let values = spreads.map(|spread| spread.map(|spread| [spread.median, spread.least, spread.most])).collect();
        columns.push(BarColumn { head: measure.head.to_owned(), values, write: measure.write, loss: measure.loss });
    }
    // The variants' order is the order of the curves over a load, so that the colours agree.
    let variants = distinct(counting(&input.results.trials).into_iter().map(|trial| trial.variant.as_deref()));
    let rows = groups.iter().enumerate().map(|(index, group)| BarRow {
        name: group.name(),
        begins: tables::begins(index, &groups),
        ink: Ink::of_curve(variants.iter().position(|known| *known == variant(group)).unwrap_or(0)),
    });
    let rows = rows.collect();
    (!columns.is_empty()).then(|| BarRows {
        id: "comparison".to_owned(),
        title: "The same as bars".to_owned(),
        note: "Medians; the whiskers run from the smallest to the largest repeat.".to_owned(),
        rows,
        columns,
    })
}

/// Returns the variant of a group's trials, if any.
fn variant<'a>(group: &Group<'a>) -> Option<&'a str> {
    group.trials.first()?.variant.as_deref()
}

/// Maximum number of lines in a chart; more would not be distinguishable.
const LINES: usize = 15;

/// Returns a chart for each fault that occurred often enough for a distribution.
pub fn recoveries(input: &ReportInput) -> Vec<Chart> {
    let faults = distinct(repeated(input.results).map(|of| of.fault.as_str()));
    numbered("", faults.iter().filter_map(|fault| chart(fault, input)).collect())
}

fn chart(fault: &str, input: &ReportInput) -> Option<Chart> {
    let of_fault = repeated(input.results).filter(|of| of.fault == fault);
    let backs: Vec<(String, RecoveryTimes)> =
        of_fault.take(LINES).map(|of| (label(of, input.plan), RecoveryTimes::of(of, input.results))).collect();
    let longest = backs.iter().filter_map(|(_, backs)| backs.known.last().copied()).reduce(f64::max)?;
    let to = if longest > 0.0 { 1.05 * longest } else { 1.0 };
    let lines = backs.iter().enumerate().map(|(number, (name, backs))| {
        let name = if name.is_empty() { fault } else { name };
        ChartLine::new(format!("{name} ({})", backs.all), Ink::nth(number), backs.steps(to))
    });
    let label = "share of occurrences after which service had recovered";
    let mut panel = Panel::linear(label, PanelUnit::Percent, 180.0, lines.collect());
    panel.at_least_to = Some(100.0);
    let never = backs.iter().any(|(_, backs)| backs.known.len() < backs.all);
    let note = if never { " A line that does not reach 100 % has occurrences without recovery." } else { "" };
    Some(Chart::new(
        "recovery",
        format!("Recovery from {fault}: distribution over its occurrences"),
        format!("Each step is an occurrence; their number follows the name.{note}"),
        AxisRange::new(Spacing::Linear, 0.0, to, "s"),
        vec![panel],
    ))
}

/// Recovery times of a fault's occurrences.
struct RecoveryTimes {
    /// Recovery times of the occurrences that ended, sorted.
    known: Vec<f64>,
    /// Number of occurrences, including those that did not end.
    all: usize,
}

impl RecoveryTimes {
    fn of(of: &OutageDistribution, results: &Results) -> Self {
        let counting = results.trials.iter().filter(|trial| trial.counts());
        let trials = counting.filter(|trial| trial.variant == of.variant && trial.point == of.point);
        let felt: Vec<_> = trials
            .flat_map(outages)
            .filter(|(fault, outage)| fault.name == of.fault && outage.baseline_per_s.is_some())
            .collect();
        let all = felt.len();
        let mut known: Vec<f64> = felt.iter().filter_map(|(_, outage)| outage.back_to_baseline_s).collect();
        known.sort_by(f64::total_cmp);
        Self { known, all }
    }

    /// Returns the empirical distribution as a staircase.
    fn steps(&self, to: f64) -> Vec<DataPoint> {
        let mut points = vec![(0.0, Some(0.0))];
        for (index, back_s) in self.known.iter().enumerate() {
            points.push((*back_s, Some(self.share_pct(index))));
            points.push((*back_s, Some(self.share_pct(index + 1))));
        }
        points.push((to, Some(self.share_pct(self.known.len()))));
        points
    }

    fn share_pct(&self, count: usize) -> f64 {
        100.0 * count as f64 / self.all.max(1) as f64
    }
}

/// Maximum number of limits with panels; the table has all of them.
const PANELS: usize = 4;

/// Returns a chart for each search that has trials.
pub fn searches(input: &ReportInput) -> Vec<Chart> {
    let Some(find) = &input.plan.find else { return Vec::new() };
    let lines = input.results.safe_loads.iter().filter(|line| !line.steps.is_empty());
    numbered("", lines.map(|line| search_chart(find, line)).filter(Chart::has_values).collect())
}

fn search_chart(find: &Find, line: &SafeLoad) -> Chart {
    let variant = line.variant.as_ref().map_or_else(String::new, |variant| format!(", {variant}"));
    let values = line.steps.iter().map(|step| step.value);
    let (least, most) = (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max));
    let title = format!("The search: {}{variant}", condition(&line.surviving));
    let note = "A dot for each trial: whether all limits held, and the figure of this limit. Shaded: the 95 % \
                interval of the edge.";
    let x = AxisRange::new(Spacing::Log, least / 1.2, most * 1.2, short(&line.over));
    let panels = find.limits.iter().take(PANELS).map(|limit| panel(limit, line)).collect();
    let marks = mark(line, most * 1.2).into_iter().collect();
    Chart { marks, ..Chart::new("search", title, note, x, panels) }
}

/// Returns the mark of the edge and its interval. Without an edge, the mark is at the start of the
/// interval. If the end of the interval is unknown, it is the end of the chart.
fn mark(line: &SafeLoad, end: f64) -> Option<Mark> {
    let at = line.value.or(line.ci95[0])?;
    let label = line.value.map_or_else(String::new, |value| format!("edge near {}", numbers::number(value)));
    Some(Mark { since: line.ci95[0], until: Some(line.ci95[1].unwrap_or(end)), ..Mark::new(at, label) })
}

fn panel(limit: &Requirement, line: &SafeLoad) -> Panel {
    let mut lines = Vec::new();
    for (name, ink, held) in
        [("held", Ink::Ok, Some(true)), ("broke", Ink::Failed, Some(false)), ("no result", Ink::Steal, None)]
    {
        let steps = line.steps.iter().filter(|step| step.held == held);
        let mut points: Vec<DataPoint> =
            steps.map(|step| (step.value, step.figures.get(&*limit.metric).copied())).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        lines.push(ChartLine::new(name, (ink, LineStyle::Dots), points));
    }
    lines.retain(|line| !line.points.is_empty());
    let mut panel = Panel::linear(&limit.metric, unit(&limit.metric), 150.0, lines);
    // Beyond the edge, latency quickly reaches a hundred times the limit.
    let positive = panel.lines.iter().flat_map(ChartLine::values).all(|value| value > 0.0);
    if positive && limit.metric.contains("_us") {
        panel.spacing = Spacing::Log;
    }
    // These percentages may exceed 100: delays are summed over threads, and an error has no upper
    // bound.
    if ["run_delay_pct", "throttled_pct", "error_pct"].iter().any(|sum| limit.metric.contains(sum)) {
        panel.at_most_to = None;
    }
    panel.levels = levels(&limit.range, panel.unit);
    panel
}

fn levels(range: &Limits, unit: PanelUnit) -> Vec<(String, f64)> {
    range.bounds().map(|(word, bound)| (format!("limit: {word} {}", unit.tick(bound)), bound)).collect()
}

fn unit(metric: &str) -> PanelUnit {
    if metric.contains("_us") {
        PanelUnit::Micros
    } else if metric.ends_with("_pct") {
        PanelUnit::Percent
    } else if metric.ends_with("_per_s") {
        PanelUnit::PerSecond
    } else if metric.ends_with("_bytes") {
        PanelUnit::Bytes
    } else {
        PanelUnit::Plain
    }
}

/// Maximum number of cases whose load averages are shown side by side.
const PICTURES: usize = 8;
/// Maximum number of points of a line in these charts, which are at most half as wide as a trial's.
const PICTURE_POINTS: usize = 400;

/// Returns the load averages of the first host in an exercise, one chart per case, all with the
/// same axes. Without clients, the target's use of a host is the result. Of several repeats, the
/// first one that counts is drawn.
pub fn load_averages(input: &ReportInput) -> Vec<Chart> {
    let groups = trial_groups::groups(input.results, input.plan);
    let is_exercise = input.results.trials.iter().any(|trial| !trial.steps.is_empty())
        && input.plan.trials.iter().all(|trial| trial.load.is_none());
    if !is_exercise || !(2..=PICTURES).contains(&groups.len()) {
        return Vec::new();
    }
    let mut charts: Vec<Chart> = groups.iter().filter_map(|group| load_average(input, group)).collect();
    let panels = charts.iter().flat_map(|chart| &chart.panels);
    let mut highest: BTreeMap<String, f64> = BTreeMap::new();
    for panel in panels {
        let highest = highest.entry(panel.label.clone()).or_default();
        *highest = highest.max(panel.highest());
    }
    for panel in charts.iter_mut().flat_map(|chart| &mut chart.panels) {
        panel.at_least_to = highest.get(&panel.label).copied();
    }
    let to = charts.iter().map(|chart| chart.x.to).fold(0.0, f64::max);
    charts.iter_mut().for_each(|chart| chart.x.to = to);
    numbered("", charts)
}

fn load_average(input: &ReportInput, group: &Group) -> Option<Chart> {
    let trial = group.counting().next()?;
    let series = input.trials.iter().find(|series| series.trial == trial.id)?;
    let chart = hosts::load_averages(&TrialView { trial, series, points: PICTURE_POINTS })?;
    Some(Chart { title: format!("{}, {}", chart.title, group.name()), ..chart })
}

#[cfg(test)]
mod tests {
    use record::results::{Host, PlayedStep, SearchStep, Trust};

    use super::*;
    use crate::example;

    #[test]
    fn the_mark_of_a_search_is_at_its_value() {
        let mut line = SafeLoad {
            over: "load.rate".to_owned(),
            value: Some(306.0),
            ci95: [Some(211.0), Some(427.0)],
            ..SafeLoad::default()
        };
        let found = mark(&line, 600.0).unwrap();
        assert_eq!((found.at, found.since, found.until), (306.0, Some(211.0), Some(427.0)));
        assert_eq!(found.label, "edge near 306");
        line.value = None;
        let found = mark(&line, 600.0).unwrap();
        assert_eq!((found.at, found.label.as_str()), (211.0, ""), "no value, no claim of one");
        // Dots without a line have a name in the legend.
        line.steps = [(200.0, true), (400.0, false)]
            .map(|(value, held)| SearchStep {
                value,
                held: Some(held),
                figures: [("latency_us.p90".to_owned(), value)].into(),
                ..SearchStep::default()
            })
            .to_vec();
        let limits = serde_json::json!([{ "metric": "latency_us.p90", "range": {}, "filter": {} }]);
        let find: Find = serde_json::from_value(serde_json::json!({ "limits": limits })).unwrap();
        let svg = crate::drawing::render::drawn(&search_chart(&find, &line)).svg;
        assert!(svg.contains(">held</text>") && svg.contains(">broke</text>"));
    }

    #[test]
    fn bars_of_variants_differ_in_colour_except_losses() {
        let plan = example::plan(&["slow", "fast"], &[("load.agents", &["8", "32"])], 1);
        let mut results = example::results(&plan);
        results.trials.iter_mut().for_each(example::crash);
        let input = ReportInput::without_records(&results, &plan);
        let bars = comparison(&input).unwrap();
        let rows: Vec<(&str, Ink)> = bars.rows.iter().map(|row| (row.name.as_str(), row.ink)).collect();
        let (slow, fast) = (Ink::of_curve(0), Ink::of_curve(1));
        assert_eq!(
            rows,
            [("slow, agents 8", slow), ("slow, agents 32", slow), ("fast, agents 8", fast), ("fast, agents 32", fast)]
        );
        let svg = crate::drawing::bar_rows::drawn(&bars).svg;
        let drawn = |ink: Ink| svg.matches(&format!("class=\"area {}\"", ink.class())).count();
        assert!(drawn(slow) > 0 && drawn(slow) == drawn(fast), "{svg}");
        assert_eq!(drawn(Ink::Failed) % 4, 0, "{svg}");
    }

    #[test]
    fn load_averages_of_an_exercise_share_one_axis() {
        let loaded = example::plan(&[], &[("lab.hosts", &["4", "16"])], 2);
        let mut plan = loaded.clone();
        plan.trials.iter_mut().for_each(|trial| trial.load = None);
        let mut results = example::results(&plan);
        let step = PlayedStep { name: "Flip".to_owned(), at_s: 2.0, ended_s: Some(9.0), ..PlayedStep::default() };
        let host = Host { name: "n1".to_owned(), kind: Some("netns".to_owned()), ..Host::default() };
        for trial in &mut results.trials {
            trial.hosts = vec![host.clone()];
            trial.steps = vec![step.clone()];
        }
        // The second size is busier and takes longer. The first repeat of the first size does not
        // count.
        results.trials[0].verdict.is = Trust::Void;
        let mut trials = Vec::new();
        for trial in &results.trials {
            let is_large = trial.point["lab.hosts"] == "16";
            let mut series = example::series(trial, if is_large { 40 } else { 20 });
            for sample in &mut series.samples {
                sample.host = "n1".to_owned();
                sample.load1 = Some(if is_large { 3.0 } else { 1.0 });
                [sample.load5, sample.load15] = [Some(0.5); 2];
            }
            trials.push(series);
        }
        let mut input =
            ReportInput { results: &results, plan: &plan, environment: None, folder: String::new(), trials };
        let charts = load_averages(&input);
        let seen: Vec<_> = charts.iter().map(|chart| (chart.title.as_str(), chart.marks[0].label.as_str())).collect();
        assert_eq!(seen, [("Load average of n1, hosts 4", "Flip"), ("Load average of n1, hosts 16", "Flip")]);
        let axes: Vec<_> = charts.iter().map(|chart| (chart.x.to.round(), chart.panels[0].at_least_to)).collect();
        assert_eq!(axes, [(40.0, Some(3.0)); 2], "each would have had its own");
        input.plan = &loaded;
        assert_eq!(load_averages(&input), [], "with clients, what they saw comes first");
    }

    #[test]
    fn each_recovered_occurrence_is_a_step() {
        let plan = example::plan(&[], &[], 4);
        let mut results = example::results(&plan);
        for (trial, back_s) in results.trials.iter_mut().zip([Some(0.3), Some(0.1), None, Some(0.2)]) {
            example::crash(trial);
            trial.faults[0].outage.as_mut().unwrap().back_to_baseline_s = back_s;
        }
        results.trials[3].verdict.is = Trust::Void;
        let point = results.trials[0].point.clone();
        results.outages = vec![example::distribution(None, &point, 3)];
        let input = ReportInput::without_records(&results, &plan);
        let charts = recoveries(&input);
        assert_eq!(charts.len(), 1);
        let line = &charts[0].panels[0].lines[0];
        assert_eq!(line.name, "oops (3)");
        let third = 100.0 / 3.0;
        let steps = [(0.0, 0.0), (0.1, 0.0), (0.1, third), (0.3, third), (0.3, 2.0 * third), (1.05 * 0.3, 2.0 * third)];
        assert_eq!(line.points, steps.map(|(at, share)| (at, Some(share))));
        assert!(charts[0].note.contains("does not reach 100 %"), "{}", charts[0].note);
        results.outages[0].count = 2;
        let input = ReportInput::without_records(&results, &plan);
        assert_eq!(recoveries(&input), []);
    }
}
