//! The charts of a search: each trial by its load and the figures of the limits, and the interval that came of it. They must not
//! decide what held: that stands in the results.

use experiment::plan::{Find, Range as Limits, Requirement};
use record::results::{SafeLoad, SearchStep};

use crate::Input;
use crate::drawing::axis::Spacing;
use crate::drawing::chart::{Chart, Ink, Line, Mark, Panel, Range, Shape, Unit};
use crate::numbers;
use crate::sweep_charts::short;
use crate::tables::condition;

/// Limits that have panels, at most; the table has all.
const PANELS: usize = 4;

/// A chart for each search that has trials.
pub fn of_run(input: &Input) -> Vec<Chart> {
    let Some(find) = &input.plan.find else { return Vec::new() };
    let lines = input.results.safe_loads.iter().filter(|line| !line.steps.is_empty());
    let charts = lines.enumerate().map(|(index, line)| chart(find, line, index + 1));
    charts.filter(Chart::has_values).collect()
}

fn chart(find: &Find, line: &SafeLoad, number: usize) -> Chart {
    let variant = line.variant.as_ref().map_or_else(String::new, |variant| format!(", {variant}"));
    let values = || line.steps.iter().map(|step| step.value);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    Chart {
        id: format!("search-{number}"),
        title: format!("The search: {}{variant}", condition(&line.surviving)),
        note: "A dot for each trial: whether all limits held there, and the figure of this one. Shaded: the 95 % interval of the edge."
            .to_owned(),
        x: Range {
            from: least / 1.2,
            to: most * 1.2,
            spacing: Spacing::Log,
            unit: short(&line.over).to_owned(),
            signed: false,
            names: Vec::new(),
        },
        panels: find.limits.iter().take(PANELS).map(|limit| panel(limit, line)).collect(),
        marks: mark(line, most * 1.2).into_iter().collect(),
        measured: None,
    }
}

/// The interval; an end that was not met is that of the chart.
fn mark(line: &SafeLoad, end: f64) -> Option<Mark> {
    let at = line.ci95[0].or(line.value)?;
    let label =
        line.value.map_or_else(String::new, |value| format!("{} {}", short(&line.over), numbers::number(value)));
    Some(Mark { at, until: Some(line.ci95[1].unwrap_or(end)), label, colours: None })
}

fn panel(limit: &Requirement, line: &SafeLoad) -> Panel {
    let dots = |name: &str, ink, held: Option<bool>| {
        let of = line.steps.iter().filter(|step| step.held == held);
        let mut points: Vec<(f64, Option<f64>)> =
            of.map(|step: &SearchStep| (step.value, step.figures.get(&limit.metric).copied())).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line { name: name.to_owned(), ink, shape: Shape::Dots, points }
    };
    let lines = vec![
        dots("held", Ink::Ok, Some(true)),
        dots("broke", Ink::Failed, Some(false)),
        dots("says nothing", Ink::Steal, None),
    ];
    let lines: Vec<Line> = lines.into_iter().filter(|line| !line.points.is_empty()).collect();
    let mut panel = Panel::linear(&limit.metric, unit(&limit.metric), 150.0, lines);
    // Beyond the edge a latency is soon a hundred times the bound.
    let positive =
        panel.lines.iter().flat_map(|line| &line.points).filter_map(|point| point.1).all(|value| value > 0.0);
    if positive && limit.metric.contains("_us") {
        panel.spacing = Spacing::Log;
    }
    panel.levels = levels(&limit.range, panel.unit);
    panel
}

fn levels(range: &Limits, unit: Unit) -> Vec<(String, f64)> {
    let bounds = [
        ("below", range.below),
        ("above", range.above),
        ("at least", range.at_least),
        ("at most", range.at_most),
        ("equal to", range.equals),
    ];
    let given = bounds.into_iter().filter_map(|(word, bound)| bound.map(|bound| (word, bound)));
    given.map(|(word, bound)| (format!("asked: {word} {}", unit.tick(bound)), bound)).collect()
}

fn unit(metric: &str) -> Unit {
    if metric.contains("_us") {
        Unit::Micros
    } else if metric.ends_with("_pct") {
        Unit::Percent
    } else if metric.ends_with("_per_s") {
        Unit::PerSecond
    } else if metric.ends_with("_bytes") {
        Unit::Bytes
    } else {
        Unit::Plain
    }
}
