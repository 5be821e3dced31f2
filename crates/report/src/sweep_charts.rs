//! Charts of a whole sweep, over the swept load instead of time, and the grouping of curves into
//! charts. All values come from the results.

use std::collections::BTreeMap;

use analysis::trial_groups::{curve_name, operations, short};
use experiment::plan::{group_of, is_offered, is_offered_in_sessions};
use record::results::{Crossing, Lead, Quantiles, Results, Scaling, ScalingPoint, Trial, Usl, counting};
use serde_json::Value;
use text::{distinct, numbers, of_json};

use crate::charts::numbered;
use crate::drawing::axis::Spacing;
use crate::drawing::chart::{AxisRange, Chart, ChartLine, Ink, LineStyle, Mark, Panel, PanelUnit};
use crate::drawing::path::DataPoint;

/// Minimum ratio of neighbouring loads for a logarithmic axis with ticks at the loads.
const FACTOR: f64 = 1.4;
/// Maximum number of curves distinguished by colour alone; more curves also have line patterns.
const COLOURS: usize = 5;
/// Cycles per operation above which a chart of cycles would only repeat that of operations.
const ONE_EACH: f64 = 0.95;

/// Draws a chart of curves, or returns `None` if it would show nothing.
pub type SweepChart = fn(&CurveSheet) -> Option<Chart>;

/// Charts in page order.
pub const CHARTS: &[SweepChart] = &[scaling, latency, by_value, per_unit, units, service, by_group, not_ok, cost];

/// Returns all charts of a run's sweeps, for each sheet in the order of the list. Empty without a
/// sweep.
pub fn of_run(kinds: &[SweepChart], results: &Results) -> Vec<Chart> {
    let sheets = sheets(results);
    numbered("sweep-", sheets.iter().flat_map(|sheet| kinds.iter().filter_map(|draw| draw(sheet))).collect())
}

/// Maximum number of curves in a chart. With more, each point of the other swept paths has a
/// separate chart.
const CURVES: usize = 8;
/// Maximum number of curves of one point in a chart: the number of distinct patterns and colours.
const PATTERNS: usize = 15;
/// Maximum number of charts of a kind for each swept path; the table has all figures.
const SHEETS: usize = 6;

/// Curves that are drawn in one chart.
pub struct CurveSheet<'a> {
    pub results: &'a Results,
    /// The swept path.
    pub over: &'a str,
    /// Values of the path if they are texts, in the order of the file. Empty for numbers.
    pub names: Vec<String>,
    pub curves: Vec<SweepCurve<'a>>,
    /// Subject of the sheet, if there are several sheets; may be empty.
    pub of: String,
    /// Number of curves that did not fit into the chart.
    pub left_out: usize,
}

/// A variant at one point of the other swept paths.
pub struct SweepCurve<'a> {
    /// Name that distinguishes the curve from the others.
    pub name: String,
    /// The variant; empty without variants.
    pub variant: &'a str,
    /// Values of the other swept paths.
    pub at: BTreeMap<String, Value>,
    /// Scaling from the analysis. `None` over texts.
    pub scaling: Option<&'a Scaling>,
    /// Usable trials at each load, or at each index of the names.
    pub points: Vec<(f64, Vec<&'a Trial>)>,
}

/// Returns the sheets of a run's sweeps; sheets over numbers come first.
fn sheets(results: &Results) -> Vec<CurveSheet<'_>> {
    let paths = distinct(results.scaling.iter().map(|scaling| scaling.over.as_str()));
    let over_numbers = paths.into_iter().flat_map(|over| sorted(results, over, Vec::new(), over_loads(results, over)));
    over_numbers.chain(over_texts(results)).collect()
}

fn without(point: &BTreeMap<String, Value>, path: &str) -> BTreeMap<String, Value> {
    point.iter().filter(|(key, _)| *key != path).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn over_loads<'a>(results: &'a Results, over: &str) -> Vec<SweepCurve<'a>> {
    let mut curves = Vec::new();
    for scaling in results.scaling.iter().filter(|scaling| scaling.over == over) {
        let own: Vec<&Trial> = counting(&results.trials)
            .into_iter()
            .filter(|trial| trial.variant.as_deref().unwrap_or_default() == scaling.variant)
            .filter(|trial| without(&trial.point, over) == scaling.at)
            .collect();
        let mut points = Vec::new();
        for ScalingPoint { load, .. } in &scaling.points {
            let here = own.iter().filter(|trial| trial.point.get(over).and_then(Value::as_f64) == Some(*load));
            points.push((*load, here.copied().collect()));
        }
        let (variant, at) = (scaling.variant.as_str(), scaling.at.clone());
        curves.push(SweepCurve { name: String::new(), variant, at, scaling: Some(scaling), points });
    }
    curves
}

/// Returns sheets over paths whose values are amounts as texts, such as `5mbit`. Other texts are
/// choices without an order.
fn over_texts(results: &Results) -> Vec<CurveSheet<'_>> {
    let mut values: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for (path, value) in results.trials.iter().flat_map(|trial| &trial.point) {
        let known = values.entry(path).or_default();
        if !known.contains(&value) {
            known.push(value);
        }
    }
    values.retain(|_, values| values.iter().filter(|value| is_amount(value)).count() > 1);
    let mut sheets = Vec::new();
    for (over, values) in values {
        let names = values.iter().map(|value| of_json(value)).collect();
        sheets.extend(sorted(results, over, names, over_values(results, over, &values)));
    }
    sheets
}

fn is_amount(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()))
}

fn over_values<'a>(results: &'a Results, over: &str, values: &[&Value]) -> Vec<SweepCurve<'a>> {
    let mut curves: Vec<SweepCurve> = Vec::new();
    for trial in counting(&results.trials) {
        let Some(place) = trial.point.get(over).and_then(|value| values.iter().position(|known| *known == value))
        else {
            continue;
        };
        let (variant, at) = (trial.variant.as_deref().unwrap_or_default(), without(&trial.point, over));
        let index = curves.iter().position(|curve| curve.variant == variant && curve.at == at);
        let index = index.unwrap_or_else(|| {
            let points = (0..values.len()).map(|place| (place as f64, Vec::new())).collect();
            curves.push(SweepCurve { name: String::new(), variant, at, scaling: None, points });
            curves.len() - 1
        });
        curves[index].points[place].1.push(trial);
    }
    curves
}

/// Returns the curves on one sheet or, if there are too many, on one sheet for each point of the
/// other paths.
fn sorted<'a>(
    results: &'a Results,
    over: &'a str,
    names: Vec<String>,
    curves: Vec<SweepCurve<'a>>,
) -> Vec<CurveSheet<'a>> {
    if curves.len() <= CURVES {
        let curves = curves.into_iter();
        let curves = curves.map(|curve| SweepCurve { name: curve_name(curve.variant, &curve.at), ..curve }).collect();
        return vec![CurveSheet { results, over, names, curves, of: String::new(), left_out: 0 }];
    }
    let mut sheets: Vec<(BTreeMap<String, Value>, CurveSheet)> = Vec::new();
    for curve in curves {
        let at = curve.at.clone();
        let index = sheets.iter().position(|(known, _)| *known == at).unwrap_or(sheets.len());
        if index == sheets.len() {
            let (of, names) = (curve_name("", &at), names.clone());
            sheets.push((at, CurveSheet { results, over, names, curves: Vec::new(), of, left_out: 0 }));
        }
        let sheet = &mut sheets[index].1;
        if sheet.curves.len() < PATTERNS {
            sheet.curves.push(SweepCurve { name: curve_name(curve.variant, &BTreeMap::new()), ..curve });
        } else {
            sheet.left_out += 1;
        }
    }
    sheets.into_iter().take(SHEETS).map(|(_, sheet)| sheet).collect()
}

impl CurveSheet<'_> {
    /// Returns a chart over the swept load, if it has values.
    fn chart(&self, id: &str, title: &str, note: &str, panels: Vec<Panel>) -> Option<Chart> {
        let of = if self.of.is_empty() { String::new() } else { format!(", {}", self.of) };
        let left_out = match self.left_out {
            0 => String::new(),
            1 => " One more curve has no room here; the tables have it.".to_owned(),
            several => format!(" {several} more curves have no room here; the tables have them."),
        };
        let chart = Chart::new(id, format!("{title}{of}"), format!("{note}{left_out}"), self.axis(), panels);
        Some(chart).filter(Chart::has_values)
    }

    fn axis(&self) -> AxisRange {
        let unit = short(self.over);
        if !self.names.is_empty() {
            let names = self.names.clone();
            return AxisRange { names, ..AxisRange::new(Spacing::Linear, 0.0, (self.names.len() - 1) as f64, unit) };
        }
        let mut loads: Vec<f64> =
            self.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0)).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        let (first, last) = (loads.first().copied().unwrap_or(1.0), loads.last().copied().unwrap_or(1.0));
        if loads.len() > 2 && loads.windows(2).all(|pair| pair[1] >= FACTOR * pair[0]) {
            return AxisRange { ticks: loads, ..AxisRange::new(Spacing::Log, first, last, unit) };
        }
        AxisRange::new(Spacing::Linear, 0.0, last, unit)
    }

    /// Whether cycles give more information than operations: several operations form a cycle.
    fn tells_cycles(&self) -> bool {
        let mut any = false;
        for trial in self.trials() {
            let Some(operations_per_s) = trial.throughput.operations_per_s.filter(|rate| *rate > 0.0) else { continue };
            let Some(cycles_per_s) = trial.throughput.cycles_per_s else { return false };
            any |= cycles_per_s / operations_per_s < ONE_EACH;
        }
        any
    }

    /// Whether throughput counts units of work, as in the analysis's curves.
    fn counts_units(&self) -> bool {
        let is_of_all = !is_offered(self.over) && group_of(self.over).is_none();
        is_of_all && self.trials().any(|trial| trial.throughput.median_units_per_s.is_some())
    }

    fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.curves.iter().flat_map(|curve| &curve.points).flat_map(|(_, trials)| trials.iter().copied())
    }

    /// Returns a line of means for each curve, and a dot for each repeat if there are several. Uses
    /// the analysis's points.
    fn measured(&self, value: impl Fn(&ScalingPoint, f64) -> f64) -> Vec<ChartLine> {
        self.lines(|curve| {
            let points = curve.scaling.iter().flat_map(|scaling| &scaling.points);
            points.map(|point| (point.load, point.per_s.iter().map(|rate| value(point, *rate)).collect())).collect()
        })
    }

    /// Returns lines and dots as [`Self::measured`] does, but for a figure of the trials.
    fn of_trials(&self, value: impl Fn(&Trial, f64) -> Option<f64>) -> Vec<ChartLine> {
        self.lines(|curve| {
            let points = curve.points.iter();
            points.map(|(at, trials)| (*at, trials.iter().filter_map(|trial| value(trial, *at)).collect())).collect()
        })
    }

    fn lines(&self, points: impl Fn(&SweepCurve) -> Vec<(f64, Vec<f64>)>) -> Vec<ChartLine> {
        let mut lines = Vec::new();
        for (index, curve) in self.curves.iter().enumerate() {
            let (ink, shape) = self.pen(index);
            let points = points(curve);
            let repeats = points.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
            for repeat in (0..repeats).filter(|_| repeats > 1) {
                let points = points.iter().filter_map(|(at, values)| Some((*at, Some(*values.get(repeat)?))));
                let name = format!("{} #{}", curve.name, repeat + 1);
                lines.push(ChartLine::new(name, (ink, LineStyle::Dots), points.collect()));
            }
            let means = points.iter().map(|(at, values)| {
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                (*at, Some(mean).filter(|mean| mean.is_finite()))
            });
            lines.push(ChartLine::new(&curve.name, (ink, shape), means.collect()));
        }
        lines
    }

    /// Names lines after their figure if there is only one curve.
    fn named(&self, what: &str, mut lines: Vec<ChartLine>) -> Vec<ChartLine> {
        if let [curve] = self.curves.as_slice() {
            lines.iter_mut().for_each(|line| line.name = line.name.replacen(&curve.name, what, 1));
        }
        lines
    }

    /// Returns colour and pattern of the n-th curve; its dots have the same colour.
    fn pen(&self, index: usize) -> (Ink, LineStyle) {
        if self.has_patterns() {
            return Ink::nth(index);
        }
        (Ink::of_curve(index), LineStyle::Solid)
    }

    /// Whether the curves need patterns in addition to colours.
    fn has_patterns(&self) -> bool {
        self.curves.len() > COLOURS
    }
}

/// Number of line segments with which a law is drawn.
const STEPS: usize = 80;
/// Maximum number of curves whose knees and peaks are marked; more marks would hide the lines.
const MARKED: usize = 4;

/// Label of throughput if operations count units of work.
const MEDIAN_UNITS: &str = "median units of work per second";

/// Draws throughput over a load, with the fitted law.
pub fn scaling(sheet: &CurveSheet) -> Option<Chart> {
    let mut lines = sheet.measured(|_, rate| rate);
    let axis = sheet.axis();
    // If patterns distinguish curves, no pattern is left for their laws; the table has the laws.
    for (index, curve) in sheet.curves.iter().enumerate().filter(|_| !sheet.has_patterns()) {
        let Some((scaling, usl)) = curve.scaling.and_then(|scaling| Some((scaling, scaling.usl.as_ref()?))) else {
            continue;
        };
        let pen = (sheet.pen(index).0, LineStyle::Dashed);
        lines.push(ChartLine::new(law_name(sheet, &curve.name), pen, law(usl, scaling, axis.spacing)));
    }
    let whose = group_of(sheet.over).map_or_else(String::new, |group| format!(" of {group}"));
    let what = if sheet.counts_units() { MEDIAN_UNITS.to_owned() } else { format!("ok operations per second{whose}") };
    let mut panel = Panel::linear(&what, PanelUnit::PerSecond, 220.0, lines);
    if sheet.curves.len() <= MARKED {
        for curve in &sheet.curves {
            let Some(peak) = curve.scaling.and_then(|scaling| scaling.peak_per_s) else { continue };
            panel.levels.push((format!("peak{}: {}", of(sheet, &curve.name), numbers::rate(peak)), peak));
        }
    }
    let has_law = sheet.curves.iter().any(|curve| curve.scaling.is_some_and(|scaling| scaling.usl.is_some()));
    let law = match (has_law, sheet.has_patterns()) {
        (false, _) => "",
        (true, true) => "; the fitted laws are in the table",
        (true, false) => "; the dashed curve is the Universal Scalability Law fitted to them",
    };
    let has_dots = panel.lines.iter().any(|line| line.shape == LineStyle::Dots);
    let measured =
        if has_dots { "Dots are the repeats, lines go through their means" } else { "A point for each load" };
    let marks = marks(sheet);
    let knee = match marks.iter().any(|mark| mark.label.starts_with("knee")) {
        true => " At the knee the line of the lightest loads reaches the plateau: more load mostly adds waiting.",
        false => "",
    };
    let note = format!("{measured}{law}.{knee}");
    let title = format!("Throughput over {}", sheet.over);
    Some(Chart { marks, ..sheet.chart("scaling", &title, &note, vec![panel])? })
}

fn law_name(sheet: &CurveSheet, name: &str) -> String {
    if sheet.curves.len() == 1 { "fitted law".to_owned() } else { format!("{name}, fitted law") }
}

/// Returns ` of pi`, or an empty text for a single curve.
fn of(sheet: &CurveSheet, name: &str) -> String {
    if sheet.curves.len() == 1 { String::new() } else { format!(" of {name}") }
}

/// Returns the fitted law between the lowest and the highest load.
fn law(usl: &Usl, scaling: &Scaling, spacing: Spacing) -> Vec<DataPoint> {
    let (Some(first), Some(last)) = (scaling.points.first(), scaling.points.last()) else { return Vec::new() };
    let (from, to) = (first.load, last.load);
    let mut points = Vec::new();
    for step in 0..=STEPS {
        let share = step as f64 / STEPS as f64;
        let load = if spacing == Spacing::Linear { from + share * (to - from) } else { from * (to / from).powf(share) };
        let rate = usl.lambda * load / (1.0 + usl.sigma * (load - 1.0) + usl.kappa * load * (load - 1.0));
        points.push((load, Some(rate)));
    }
    points
}

/// Returns knees and crossings, ordered by load.
fn marks(sheet: &CurveSheet) -> Vec<Mark> {
    let mut marks = knees(sheet);
    let crossings: Vec<&Crossing> = sheet
        .results
        .crossings
        .iter()
        .filter(|crossing| crossing.over == sheet.over && crossing.lead == Lead::Crosses)
        .filter(|crossing| sheet.curves.iter().any(|curve| curve.at == crossing.point && curve.variant == crossing.a))
        .collect();
    if crossings.len() <= MARKED {
        marks.extend(crossings.iter().filter_map(|crossing| {
            let at = crossing.at?;
            Some(Mark::new(at, format!("{} overtakes {}: {}", crossing.a, crossing.b, numbers::number(at))))
        }));
    }
    marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    marks
}

fn knees(sheet: &CurveSheet) -> Vec<Mark> {
    let mut marks = Vec::new();
    for curve in sheet.curves.iter().filter(|_| sheet.curves.len() <= MARKED) {
        let knee = curve.scaling.and_then(|scaling| scaling.knee);
        marks.extend(
            knee.map(|knee| Mark::new(knee, format!("knee{}: {}", of(sheet, &curve.name), numbers::number(knee)))),
        );
    }
    marks
}

/// Draws throughput at each value of a path whose values are texts.
pub fn by_value(sheet: &CurveSheet) -> Option<Chart> {
    if sheet.names.is_empty() {
        return None;
    }
    let (label, lines) = if sheet.tells_cycles() {
        ("full cycles per second", sheet.of_trials(|trial, _| trial.throughput.cycles_per_s))
    } else {
        ("ok operations per second", sheet.of_trials(|trial, _| trial.throughput.operations_per_s))
    };
    let panel = Panel::linear(label, PanelUnit::PerSecond, 220.0, lines);
    let note =
        "Dots are the repeats, lines go through their means. Values are in the order of the file, at equal distances.";
    let title = format!("Throughput at each {}", short(sheet.over));
    sheet.chart("by-value", &title, note, vec![panel])
}

/// Draws throughput per agent, host or unit of another load.
pub fn per_unit(sheet: &CurveSheet) -> Option<Chart> {
    if !sheet.names.is_empty() {
        return None;
    }
    let name = short(sheet.over);
    let is_rate = is_offered(sheet.over);
    let cycles = sheet.tells_cycles() && group_of(sheet.over).is_none();
    let what = match cycles {
        true => "full cycles",
        false if sheet.counts_units() => "units of work",
        false => "ok operations",
    };
    // Over an offered rate, the figure is a share.
    let (title, label, unit) = match sheet.over {
        over if is_offered_in_sessions(over) => (
            "Operations of a session".to_owned(),
            "ok operations for each session offered".to_owned(),
            PanelUnit::Plain,
        ),
        _ if is_rate => {
            ("Share of the offered rate".to_owned(), "ok operations for each one offered".to_owned(), PanelUnit::Plain)
        }
        "load.agents" => ("Per agent".to_owned(), format!("{what} per second for each agent"), PanelUnit::PerSecond),
        over if name == "agents" && group_of(over).is_some() => (
            format!("Per agent of {}", group_of(over).unwrap_or_default()),
            format!("{what} per second for each agent"),
            PanelUnit::PerSecond,
        ),
        "lab.hosts" => ("Per host".to_owned(), format!("{what} per second for each host"), PanelUnit::PerSecond),
        _ => (format!("Per unit of {name}"), format!("{what} per second for each of {name}"), PanelUnit::PerSecond),
    };
    let mut panels = Vec::new();
    let lines = if cycles && !is_rate {
        let all = sheet.of_trials(|trial, _| trial.throughput.cycles_per_s);
        panels.push(Panel::linear("full cycles per second", PanelUnit::PerSecond, 190.0, all));
        sheet.of_trials(|trial, load| Some(trial.throughput.cycles_per_s? / load))
    } else {
        sheet.measured(|point, rate| rate / point.load)
    };
    panels.push(Panel::linear(&label, unit, 190.0, lines));
    let title = if panels.len() > 1 { format!("Cycles in all, and {}", title.to_lowercase()) } else { title };
    let note = "Level: the target scales linearly. Falling: contention, or the cost of coordination.";
    sheet.chart("per-unit", &title, note, panels)
}

/// Maximum number of agent groups drawn; each has two panels.
const GROUPS: usize = 6;

/// Draws throughput and latency of each agent group over a load or choice. A group that grows can
/// take throughput from the others.
pub fn by_group(sheet: &CurveSheet) -> Option<Chart> {
    let names = distinct(sheet.trials().flat_map(|trial| trial.groups.keys()));
    let mut panels = Vec::new();
    for name in names.into_iter().take(GROUPS) {
        let rates = sheet.of_trials(|trial, _| trial.groups.get(name)?.throughput_per_s);
        let p99 = sheet.of_trials(|trial, _| trial.groups.get(name)?.latency_us.as_ref()?.p99);
        let throughput = format!("{name}: ok operations per second");
        panels.push(Panel::linear(&throughput, PanelUnit::PerSecond, HEIGHT, rates));
        panels.push(Panel::linear(&format!("{name}: p99 latency"), PanelUnit::Micros, HEIGHT, p99));
    }
    panels.retain(Panel::has_values);
    let title = format!("Groups of agents over {}", sheet.over);
    let note = "Dots are the repeats, lines go through their means.";
    sheet.chart("by-group", &title, note, panels)
}

/// Draws units of work over a load or choice, if operations count units and the throughput chart
/// does not show them.
pub fn units(sheet: &CurveSheet) -> Option<Chart> {
    if sheet.names.is_empty() && sheet.counts_units() {
        return None;
    }
    let lines = sheet.of_trials(|trial, _| trial.throughput.median_units_per_s);
    let panel = Panel::linear(MEDIAN_UNITS, PanelUnit::PerSecond, 190.0, lines);
    let note = "The median over the seconds of each trial. Dots are the repeats, lines go through their means.";
    let title = format!("Units of work over {}", short(sheet.over));
    sheet.chart("units", &title, note, vec![panel])
}

/// Returns one of the quantiles.
type QuantileOf = fn(&Quantiles) -> Option<f64>;

/// Draws the latency of `ok` operations from their intended start, over a load or choice. Where the
/// curve bends upwards, more load causes waiting.
pub fn latency(sheet: &CurveSheet) -> Option<Chart> {
    let quantiles: [(&str, QuantileOf); 2] = [("p50", |of| of.p50), ("p99", |of| of.p99)];
    let mut panels = Vec::new();
    for (name, quantile) in quantiles {
        let lines = sheet.named(name, sheet.of_trials(|trial, _| quantile(trial.latency_us.as_ref()?)));
        panels.push(Panel::log(&format!("{name}, log scale"), PanelUnit::Micros, LATENCY_HEIGHT, lines));
    }
    panels.retain(Panel::has_values);
    let mut marks = knees(sheet);
    marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    let note =
        "Intended start to answer, of the ok operations of each trial. A quantile of too few operations has no point.";
    let title = format!("Latency over {}", sheet.over);
    Some(Chart { marks, ..sheet.chart("latency", &title, note, panels)? })
}

/// Height of a latency panel; two of them are as high as the throughput panel.
const LATENCY_HEIGHT: f64 = 96.0;

/// Draws service times over a load or choice: the time from send to answer, all operations
/// together.
pub fn service(sheet: &CurveSheet) -> Option<Chart> {
    let quantiles: [(&str, QuantileOf); 4] =
        [("p50", |of| of.p50), ("p90", |of| of.p90), ("p99", |of| of.p99), ("max", |of| of.max)];
    let mut panels = Vec::new();
    for (name, quantile) in quantiles {
        let lines = sheet.named(name, sheet.of_trials(|trial, _| quantile(trial.service_us.as_ref()?)));
        panels.push(Panel::linear(&format!("service time, {name}"), PanelUnit::Micros, HEIGHT, lines));
    }
    panels.retain(Panel::has_values);
    let note = "From the sending of a request to its answer, of all operations that were ok. Dots are the repeats, lines go through their means.";
    let title = format!("Service time over {}", short(sheet.over));
    sheet.chart("service", &title, note, panels)
}

const HEIGHT: f64 = 110.0;

/// Draws operations that were not ok, over a load or choice.
pub fn not_ok(sheet: &CurveSheet) -> Option<Chart> {
    let timeouts = sheet.of_trials(|trial, _| share_pct(trial, trial.outcomes.timeout));
    let failed = sheet.of_trials(|trial, _| share_pct(trial, trial.outcomes.failed));
    let wrong = sheet.of_trials(|trial, _| trial.wrong_per_1000_cycles);
    let mut panels = vec![
        Panel::linear("timeouts, of the operations", PanelUnit::Percent, HEIGHT, timeouts),
        Panel::linear("failed, of the operations", PanelUnit::Percent, HEIGHT, failed),
        Panel::linear("wrong answers per 1,000 cycles", PanelUnit::Plain, HEIGHT, wrong),
    ];
    panels.retain(|panel| panel.highest() > 0.0);
    let note =
        "Over the whole load. Counts that were 0 everywhere or not checked are not drawn. The table has all counts.";
    let title = format!("Operations that were not ok, over {}", short(sheet.over));
    sheet.chart("not-ok", &title, note, panels)
}

/// Returns `count` as a percentage of the trial's operations, if it had any.
fn share_pct(trial: &Trial, count: u64) -> Option<f64> {
    let all = operations(trial);
    (all > 0).then(|| 100.0 * count as f64 / all as f64)
}

/// Draws energy over a load.
pub fn cost(sheet: &CurveSheet) -> Option<Chart> {
    let lines = sheet.of_trials(|trial, _| trial.cost.joules_per_cycle);
    let panel = Panel::linear("joules per cycle, all hosts", PanelUnit::Plain, 190.0, lines);
    let note = "Modelled from the profile's watts and the measured CPU. Hosts that idle draw power too: the busier they are, the more \
                cycles share it.";
    let title = format!("Energy over {}", short(sheet.over));
    sheet.chart("cost", &title, note, vec![panel])
}

#[cfg(test)]
mod tests {
    use record::results::{Outcomes, Throughput};
    use serde_json::json;

    use record::results::Trust;

    use super::*;
    use crate::drawing::render;

    fn curve(variant: &str, at: &[(&str, Value)], loads: &[f64], repeats: usize) -> Scaling {
        let points = loads.iter().map(|&load| ScalingPoint {
            load,
            per_s: (0..repeats).map(|repeat| load.min(8.0) + repeat as f64).collect(),
        });
        Scaling {
            variant: variant.to_owned(),
            over: "load.agents".to_owned(),
            at: at.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect(),
            points: points.collect(),
            knee: Some(8.0),
            peak_per_s: Some(8.5),
            peak_at: Some(16.0),
            usl: Some(Usl { lambda: 1.0, sigma: 0.1, ..Usl::default() }),
            ..Scaling::default()
        }
    }

    const DOUBLING: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];

    fn results(scaling: Vec<Scaling>) -> Results {
        Results { scaling, ..Results::default() }
    }

    fn titles(charts: &[Chart]) -> Vec<&str> {
        charts.iter().map(|chart| chart.title.as_str()).collect()
    }

    fn labels(panels: &[Panel]) -> Vec<&str> {
        panels.iter().map(|panel| panel.label.as_str()).collect()
    }

    fn has_ticks(svg: &str, ticks: &[&str]) -> bool {
        ticks.iter().all(|tick| svg.contains(&format!(">{tick}</text>")))
    }

    #[test]
    fn a_sweep_has_two_charts_over_its_loads() {
        let charts = of_run(CHARTS, &results(vec![curve("", &[], &DOUBLING, 2)]));
        assert_eq!(titles(&charts), ["Throughput over load.agents", "Per agent"]);
        let (chart, lines) = (&charts[0], &charts[0].panels[0].lines);
        assert_eq!((chart.x.from, chart.x.to, chart.x.spacing), (1.0, 16.0, Spacing::Log));
        let shapes: Vec<LineStyle> = lines.iter().map(|line| line.shape).collect();
        assert_eq!(shapes, [LineStyle::Dots, LineStyle::Dots, LineStyle::Solid, LineStyle::Dashed]);
        assert_eq!(lines[2].points[4], (16.0, Some(8.5)), "the mean of 8 and 9");
        assert_eq!(lines[3].points.first(), Some(&(1.0, Some(1.0))));
        assert_eq!((chart.marks[0].at, chart.marks[0].label.as_str()), (8.0, "knee: 8"));
        assert_eq!(charts[1].panels[0].lines[2].points[4], (16.0, Some(8.5 / 16.0)));
        let drawn = render::drawn(chart);
        assert!(drawn.svg.contains("class=\"line i-1 dots\"") && drawn.svg.contains("peak: 8.5/s"));
        assert!(has_ticks(&drawn.svg, &["agents", "1", "2", "4", "8", "16"]));
    }

    #[test]
    fn axes_of_geometric_loads_have_ticks_at_the_loads() {
        for loads in [vec!["1", "3", "12", "40", "130"], vec!["1", "2", "4", "8", "16", "32", "64", "128", "256"]] {
            let numbers: Vec<f64> = loads.iter().map(|load| load.parse().unwrap()).collect();
            let charts = of_run(CHARTS, &results(vec![curve("", &[], &numbers, 2)]));
            assert!(has_ticks(&render::drawn(&charts[0]).svg, &loads));
        }
    }

    fn note(scaling: Scaling) -> String {
        of_run(CHARTS, &results(vec![scaling])).remove(0).note
    }

    #[test]
    fn a_caption_names_no_curve_that_is_not_drawn() {
        let full = note(curve("", &[], &DOUBLING, 2));
        assert!(full.contains("dashed curve") && full.contains("knee") && full.contains("Dots"), "{full}");
        let bare = note(Scaling { usl: None, knee: None, ..curve("", &[], &DOUBLING, 1) });
        assert_eq!(bare, "A point for each load.");
    }

    #[test]
    fn single_repeats_have_no_dots_and_even_loads_a_linear_axis() {
        let charts = of_run(CHARTS, &results(vec![curve("", &[], &[1.0, 2.0, 3.0, 4.0], 1)]));
        assert_eq!((charts[0].x.from, charts[0].x.spacing), (0.0, Spacing::Linear));
        assert_eq!(charts[0].panels[0].lines.len(), 2);
        let charts = of_run(CHARTS, &results(vec![curve("", &[], &[10.0, 30.0, 100.0], 1)]));
        assert_eq!((charts[0].x.from, charts[0].x.spacing), (10.0, Spacing::Log));
    }

    #[test]
    fn variants_share_a_chart_and_their_crossing_is_marked() {
        let mut results = results(vec![curve("pi", &[], &DOUBLING, 1), curve("xeon", &[], &DOUBLING, 1)]);
        results.crossings = vec![Crossing {
            a: "pi".to_owned(),
            b: "xeon".to_owned(),
            over: "load.agents".to_owned(),
            lead: Lead::Crosses,
            at: Some(3.0),
            ..Crossing::default()
        }];
        let charts = of_run(CHARTS, &results);
        assert_eq!(charts.len(), 2);
        let marks: Vec<&str> = charts[0].marks.iter().map(|mark| mark.label.as_str()).collect();
        assert_eq!(marks, ["pi overtakes xeon: 3", "knee of pi: 8", "knee of xeon: 8"]);
    }

    #[test]
    fn many_curves_have_a_chart_for_each_point_of_the_other_paths() {
        let mut curves = Vec::new();
        for hosts in 1..=3 {
            for variant in ["a", "b", "c", "d"] {
                curves.push(curve(variant, &[("lab.hosts", json!(hosts))], &DOUBLING, 1));
            }
        }
        let charts = of_run(CHARTS, &results(curves));
        assert_eq!(charts.len(), 6);
        assert_eq!(charts[2].title, "Throughput over load.agents, hosts 2");
        let mut ids: Vec<&str> = charts.iter().map(|chart| chart.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 6);
    }

    /// Returns modes over agents and over link rates, which are texts. The first mode gives wrong
    /// answers on slow links.
    fn modes(modes: usize, rates: &[&str]) -> Results {
        let mut results = Results::default();
        for repeat in 1..=2 {
            for mode in 0..modes {
                for rate in rates {
                    for agents in [1_u32, 2, 4, 8] {
                        let operations_per_s = Some(60.0 * f64::from(agents));
                        let wrong = if mode == 0 && *rate == "5mbit" { 3.0 } else { 0.0 };
                        results.trials.push(Trial {
                            variant: Some(format!("m{mode}")),
                            point: [
                                ("load.agents".to_owned(), json!(agents)),
                                ("lab.link.rate".to_owned(), json!(rate)),
                            ]
                            .into(),
                            repeat,
                            throughput: Throughput {
                                operations_per_s,
                                cycles_per_s: operations_per_s.map(|rate| rate / 6.0),
                                ..Throughput::default()
                            },
                            outcomes: Outcomes {
                                ok: 97,
                                timeout: if agents == 8 { 3 } else { 0 },
                                ..Outcomes::default()
                            },
                            wrong_per_1000_cycles: Some(wrong),
                            ..Trial::default()
                        });
                    }
                }
            }
        }
        for mode in 0..modes {
            for rate in rates {
                let point = [("lab.link.rate", json!(rate))];
                results.scaling.push(curve(&format!("m{mode}"), &point, &[1.0, 2.0, 4.0, 8.0], 2));
            }
        }
        results
    }

    #[test]
    fn throughput_counts_units_if_operations_have_any() {
        let mut results = modes(1, &["100mbit"]);
        for trial in &mut results.trials {
            let docs = trial.throughput.operations_per_s.map(|rate| rate * 500.0);
            trial.throughput = Throughput { median_units_per_s: docs, cycles_per_s: None, ..trial.throughput.clone() };
        }
        let charts = of_run(CHARTS, &results);
        let labels: Vec<&str> =
            charts.iter().flat_map(|chart| &chart.panels).map(|panel| panel.label.as_str()).collect();
        assert_eq!(labels[..2], [MEDIAN_UNITS, "units of work per second for each agent"]);
        assert!(charts.iter().all(|chart| chart.id != "units"), "drawn once");
    }

    #[test]
    fn cycles_and_operations_not_ok_are_drawn_from_trials() {
        let charts = of_run(CHARTS, &modes(2, &["100mbit"]));
        assert_eq!(
            titles(&charts),
            ["Throughput over load.agents", "Cycles in all, and per agent", "Operations that were not ok, over agents"]
        );
        let cycles = &charts[1].panels;
        let all = [(1.0, Some(10.0)), (2.0, Some(20.0)), (4.0, Some(40.0)), (8.0, Some(80.0))];
        assert_eq!(cycles[0].lines[2].points, all);
        assert!(cycles[1].lines[2].points.iter().all(|point| point.1 == Some(10.0)), "ten for each agent");
        let not_ok = &charts[2].panels;
        assert_eq!(labels(not_ok), ["timeouts, of the operations"], "nothing failed, nothing was wrong");
        assert_eq!(not_ok[0].lines[2].points[2..], [(4.0, Some(0.0)), (8.0, Some(3.0))]);
    }

    #[test]
    fn service_times_have_a_panel_for_each_known_quantile() {
        let mut results = modes(2, &["100mbit"]);
        for trial in &mut results.trials {
            let agents = trial.point["load.agents"].as_f64();
            let [p50, p90, max] = [10.0, 20.0, 90.0].map(|factor| agents.map(|agents| factor * agents));
            trial.service_us = Some(Quantiles { p50, p90, max, ..Quantiles::default() });
        }
        let charts = of_run(CHARTS, &results);
        let chart = charts.iter().find(|chart| chart.title == "Service time over agents").unwrap();
        let quantiles = ["service time, p50", "service time, p90", "service time, max"];
        assert_eq!(labels(&chart.panels), quantiles, "too few samples for p99");
        assert_eq!(chart.panels[1].lines[2].points[..2], [(1.0, Some(20.0)), (2.0, Some(40.0))]);
    }

    #[test]
    fn latency_is_drawn_over_the_load_with_the_knee() {
        let mut results = modes(1, &["100mbit"]);
        for trial in &mut results.trials {
            let us = trial.point["load.agents"].as_f64().map(|agents| agents * agents * 100.0);
            trial.latency_us = Some(Quantiles { p50: us, ..Quantiles::default() });
        }
        let charts = of_run(CHARTS, &results);
        assert_eq!(charts[1].title, "Latency over load.agents", "beside throughput");
        let panels = &charts[1].panels;
        assert_eq!(panels.len(), 1, "no p99 was told");
        let names: Vec<&str> = panels[0].lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["p50 #1", "p50 #2", "p50"], "it is no throughput");
        assert_eq!(panels[0].lines[2].points[3], (8.0, Some(6_400.0)));
        assert_eq!(charts[1].marks.len(), 1);
        assert!(charts[1].marks[0].label.starts_with("knee"));
    }

    #[test]
    fn text_values_keep_the_order_of_the_file() {
        let charts = of_run(CHARTS, &modes(2, &["1gbit", "100mbit", "5mbit"]));
        let by_rate: Vec<&Chart> = charts.iter().filter(|chart| chart.x.unit == "rate").collect();
        assert_eq!(by_rate[0].title, "Throughput at each rate");
        assert_eq!(by_rate[0].x.names, ["1gbit", "100mbit", "5mbit"]);
        let wrong = by_rate[1].panels.iter().find(|panel| panel.label.starts_with("wrong")).unwrap();
        let of_m0: Vec<_> = wrong.lines.iter().filter(|line| line.name == "m0, agents 1").collect();
        assert_eq!(of_m0[0].points, [(0.0, Some(0.0)), (1.0, Some(0.0)), (2.0, Some(3.0))]);
        let drawn = render::drawn(by_rate[0]);
        assert!(has_ticks(&drawn.svg, &["1gbit", "100mbit", "5mbit rate"]));
        assert_eq!(drawn.data["names"], json!(["1gbit", "100mbit", "5mbit"]));
    }

    #[test]
    fn many_curves_differ_in_pattern_and_omit_their_laws() {
        let charts = of_run(CHARTS, &modes(6, &["100mbit"]));
        let lines = &charts[0].panels[0].lines;
        let mut pens: Vec<String> = lines
            .iter()
            .filter(|line| line.shape != LineStyle::Dots)
            .map(|line| format!("{:?} {:?}", line.ink, line.shape))
            .collect();
        assert_eq!(pens.len(), 6, "no laws");
        pens.sort();
        pens.dedup();
        assert_eq!(pens.len(), 6);
        let many = of_run(CHARTS, &modes(17, &["100mbit"]));
        assert!(many[0].note.ends_with("2 more curves have no room here; the tables have them."));
    }

    #[test]
    fn energy_is_drawn_over_the_loads_of_each_variant() {
        let loads = [4.0, 32.0];
        let mut results = results(vec![curve("pi2c", &[], &loads, 1), curve("devx", &[], &loads, 1)]);
        for (agents, repeat, joules) in [(4, 1, 0.4), (32, 1, 0.25), (32, 2, 0.5), (32, 3, 9.0)] {
            let point = BTreeMap::from([("load.agents".to_owned(), Value::from(agents))]);
            let mut trial = Trial { repeat, variant: Some("devx".to_owned()), point, ..Default::default() };
            trial.cost.joules_per_cycle = Some(joules);
            results.trials.push(trial);
        }
        results.trials[3].verdict.is = Trust::Void;
        let charts = of_run(CHARTS, &results);
        let energy = charts.iter().find(|chart| chart.title == "Energy over agents").unwrap();
        let lines = &energy.panels[0].lines;
        let devx = lines.iter().find(|line| line.name == "devx").unwrap();
        assert_eq!(devx.points, [(4.0, Some(0.4)), (32.0, Some(0.375))], "a void trial is not drawn");
        assert!(energy.note.contains("Modelled"));
    }

    #[test]
    fn a_run_without_a_sweep_has_no_sweep_charts() {
        assert_eq!(of_run(CHARTS, &Results::default()), Vec::new());
    }
}
