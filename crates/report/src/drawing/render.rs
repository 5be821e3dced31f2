//! A chart drawn: SVG whose colours come from the page's style, and its values for the page's script. It must not thin,
//! smooth or leave out what it is given.

use serde_json::{Value, json};

use super::axis::{Axis, Spacing, ceiling, linear_ticks, log_range, log_ticks};
use super::chart::{Chart, Line, Mark, Panel, Shape};
use super::legend;
use super::markup::{escaped, place};
use super::path;
use super::thinning::Point;

/// Width of a chart in its own units; the page scales it.
pub const WIDTH: f64 = 960.0;
/// Where the axes stand.
const LEFT: f64 = 74.0;
const RIGHT: f64 = WIDTH - 14.0;
const TITLE: f64 = 24.0;
const MARKS: f64 = 18.0;
const BELOW: f64 = 24.0;
const BETWEEN: f64 = 8.0;
/// A bar of 1 among thousands is still this high.
const LEAST_BAR: f64 = 2.5;

/// A drawn chart.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its note.
    pub note: String,
    /// The markup.
    pub svg: String,
    /// Where and what its values are, for the page's script; null for a chart without an axis below.
    pub data: Value,
}

/// Draws a chart.
pub fn drawn(chart: &Chart) -> Drawn {
    let x = Axis { spacing: chart.x.spacing, from: chart.x.from, to: chart.x.to, start: LEFT, end: RIGHT };
    let mut body = String::new();
    let mut top = TITLE;
    let title = format!("<text class=\"title\" x=\"0\" y=\"15\">{}</text>", escaped(&chart.title));
    let marks_at = top;
    if !chart.marks.is_empty() {
        top += MARKS;
    }
    let mut plots = Vec::new();
    for panel in &chart.panels {
        let (markup, height) = legend::legend(panel, LEFT, RIGHT, top);
        body.push_str(&markup);
        top += height;
        let bottom = top + panel.height;
        plots.push((top, bottom));
        body.push_str(&draw_panel(panel, chart, &x, top, bottom));
        top = bottom + BETWEEN;
    }
    let bottom = top - BETWEEN;
    // Marks lie below the lines, so that a bar at the moment of a fault is seen.
    body = title + &draw_marks(&chart.marks, &x, marks_at, &plots) + &body;
    body.push_str(&draw_axis_below(chart, &x, bottom));
    let first = plots.first().map_or(TITLE, |plot| plot.0);
    body.push_str(&format!("<path class=\"cross\" d=\"M0 {}V{}\"/>", place(first), place(bottom)));
    let height = bottom + BELOW;
    let svg = format!(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{body}</svg>",
        place(WIDTH),
        place(height),
        escaped(&spoken(chart))
    );
    Drawn { id: chart.id.clone(), title: chart.title.clone(), note: chart.note.clone(), svg, data: data(chart) }
}

fn draw_panel(panel: &Panel, chart: &Chart, x: &Axis, top: f64, bottom: f64) -> String {
    if !panel.has_values() {
        let (at, middle) = (place(LEFT + 8.0), place((top + bottom) / 2.0 + 4.0));
        let frame = format!("<path class=\"base\" d=\"M{} {}H{}\"/>", place(LEFT), place(bottom), place(RIGHT));
        return format!("{frame}<text class=\"remark\" x=\"{at}\" y=\"{middle}\">{}</text>", escaped(&panel.remark));
    }
    let (y, ticks) = upright(panel, top, bottom);
    let mut markup = veil(chart, x, top, bottom) + &grid(panel, &y, &ticks);
    let mut before: Option<Vec<Point>> = None;
    for line in &panel.lines {
        markup.push_str(&draw_line(line, x, &y, &mut before));
    }
    for (_, value) in &panel.levels {
        if let Some(at) = y.place(*value) {
            markup.push_str(&format!("<path class=\"level\" d=\"M{} {}H{}\"/>", place(LEFT), place(at), place(RIGHT)));
        }
    }
    markup + &format!("<path class=\"base\" d=\"M{} {}H{}\"/>", place(LEFT), place(bottom), place(RIGHT))
}

/// The upright axis of a panel and its ticks.
fn upright(panel: &Panel, top: f64, bottom: f64) -> (Axis, Vec<f64>) {
    let count = ((bottom - top) / 29.0).floor().max(1.0) as usize;
    let values = panel.lines.iter().flat_map(|line| line.points.iter().filter_map(|point| point.1));
    let values: Vec<f64> = values.chain(panel.levels.iter().map(|(_, value)| *value)).collect();
    let (from, to, ticks) = match panel.spacing {
        Spacing::Linear => {
            let stacked = stacked_top(&panel.lines);
            let largest = values.iter().copied().fold(stacked, f64::max).max(panel.at_least_to.unwrap_or(0.0));
            let to = ceiling(largest, count);
            (0.0, to, linear_ticks(0.0, to, count))
        }
        Spacing::Log => {
            let positive = || values.iter().copied().filter(|value| *value > 0.0);
            let least = positive().reduce(f64::min).unwrap_or(1.0);
            let (from, to) = log_range(least, positive().reduce(f64::max).unwrap_or(1.0));
            (from, to, log_ticks(from, to, ((bottom - top) / 22.0).max(4.0) as usize))
        }
    };
    (Axis { spacing: panel.spacing, from, to, start: bottom, end: top }, ticks)
}

fn stacked_top(lines: &[Line]) -> f64 {
    let stacked: Vec<&Line> = lines.iter().filter(|line| line.shape == Shape::Stacked).collect();
    let length = stacked.iter().map(|line| line.points.len()).max().unwrap_or(0);
    let sum = |index: usize| stacked.iter().filter_map(|line| line.points.get(index)?.1).sum::<f64>();
    (0..length).map(sum).fold(0.0, f64::max)
}

fn grid(panel: &Panel, y: &Axis, ticks: &[f64]) -> String {
    let mut markup = String::new();
    for &tick in ticks {
        let Some(at) = y.place(tick) else { continue };
        markup.push_str(&format!(
            "<path class=\"grid\" d=\"M{} {}H{}\"/><text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            place(LEFT),
            place(at),
            place(RIGHT),
            place(LEFT - 7.0),
            place(at + 4.0),
            escaped(&panel.unit.tick(tick))
        ));
    }
    markup
}

/// What lies outside the measured stretch is veiled: it is in no rate.
fn veil(chart: &Chart, x: &Axis, top: f64, bottom: f64) -> String {
    let Some([from, to]) = chart.measured else { return String::new() };
    let mut markup = String::new();
    for (from, to) in [(chart.x.from, from), (to, chart.x.to)] {
        if let (Some(left), Some(right)) = (x.place(from), x.place(to))
            && right - left > 1.0
        {
            markup.push_str(&rectangle("veil", "", left, right, top, bottom));
        }
    }
    markup
}

fn rectangle(class: &str, style: &str, left: f64, right: f64, top: f64, bottom: f64) -> String {
    format!(
        "<rect class=\"{class}\"{style} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
        place(left),
        place(top),
        place(right - left),
        place(bottom - top)
    )
}

/// `before` holds the points of the line before, which areas end on.
fn draw_line(line: &Line, x: &Axis, y: &Axis, before: &mut Option<Vec<Point>>) -> String {
    let class = line.ink.class();
    let flat = || line.points.iter().map(|point| (point.0, Some(0.0))).collect::<Vec<_>>();
    let stroke = |points: &[Point]| {
        let pattern = legend::pattern(line.shape);
        format!("<path class=\"line {class}{pattern}\" d=\"{}\"/>", path::line(points, x, y))
    };
    let filled = |kind: &str, upper: &[Point], lower: &[Point]| {
        format!("<path class=\"{kind} {class}\" d=\"{}\"/>", path::area(upper, lower, x, y))
    };
    let lower = before.take();
    let mut upper = line.points.clone();
    let markup = match line.shape {
        Shape::Solid | Shape::Dashed | Shape::Dotted => stroke(&upper),
        Shape::Filled => filled("wash", &upper, &flat()) + &stroke(&upper),
        Shape::Band => filled("wash", &upper, &lower.unwrap_or_else(flat)) + &stroke(&upper),
        Shape::Stacked => {
            let lower = lower.unwrap_or_else(flat);
            for (point, low) in upper.iter_mut().zip(&lower) {
                point.1 = point.1.zip(low.1).map(|(value, low)| value + low);
            }
            filled("area", &upper, &lower)
        }
        Shape::Bars(thousandths) => {
            let width = f64::from(thousandths) / 1e3 / (x.to - x.from) * (x.end - x.start);
            let width = (width * 0.9).clamp(1.5, 14.0);
            format!("<path class=\"area {class}\" d=\"{}\"/>", path::bars(&upper, x, y, width, LEAST_BAR))
        }
    };
    *before = Some(upper);
    markup
}

fn draw_marks(marks: &[Mark], x: &Axis, labels_at: f64, plots: &[(f64, f64)]) -> String {
    let mut markup = String::new();
    let mut free_from = 0.0;
    for mark in marks.iter().filter(|mark| (x.from..=x.to).contains(&mark.at)) {
        let Some(at) = x.place(mark.at) else { continue };
        let (class, style) = match &mark.colours {
            Some((light, dark)) => ("mark own", format!(" style=\"--l:{light};--d:{dark}\"")),
            None => ("mark", String::new()),
        };
        for &(top, bottom) in plots {
            if let Some(until) = mark.until.and_then(|until| x.place(until)) {
                let right = until.max(at + 1.0);
                markup.push_str(&rectangle(&format!("{class} shade"), &style, at, right, top, bottom));
            }
            let (at, top, bottom) = (place(at), place(top), place(bottom));
            markup.push_str(&format!("<path class=\"{class}\"{style} d=\"M{at} {top}V{bottom}\"/>"));
        }
        let room = mark.label.chars().count() as f64 * 7.5;
        let (label, anchor) = if at + room > x.end { (at + 3.0 - room, "end") } else { (at - 3.0, "start") };
        if label >= free_from {
            let text = if anchor == "end" { at + 3.0 } else { at - 3.0 };
            markup.push_str(&format!(
                "<path class=\"{class} flag\"{style} d=\"M{x0} {y0}l-4 -7h8z\"/><text class=\"mark-label\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
                place(if anchor == "end" { text - 10.0 } else { text + 10.0 }),
                place(labels_at + 12.0),
                escaped(&mark.label),
                x0 = place(at),
                y0 = place(labels_at + 13.0),
            ));
            free_from = label + room + 16.0;
        }
    }
    markup
}

fn draw_axis_below(chart: &Chart, x: &Axis, bottom: f64) -> String {
    let ticks = match chart.x.spacing {
        Spacing::Linear => linear_ticks(chart.x.from, chart.x.to, 10),
        Spacing::Log => log_ticks(chart.x.from, chart.x.to, 10),
    };
    let mut markup = String::new();
    for (index, &tick) in ticks.iter().enumerate() {
        let Some(at) = x.place(tick) else { continue };
        let sign = if chart.x.signed && tick > 0.0 { "+" } else { "" };
        let unit = if index + 1 == ticks.len() { format!(" {}", chart.x.unit) } else { String::new() };
        let anchor = if at > RIGHT - 20.0 { "end" } else { "middle" };
        let at_text = if anchor == "end" { RIGHT + 10.0 } else { at };
        markup.push_str(&format!(
            "<path class=\"grid\" d=\"M{0} {1}v5\"/><text class=\"tick\" x=\"{2}\" y=\"{3}\" text-anchor=\"{anchor}\">{sign}{4}{5}</text>",
            place(at),
            place(bottom),
            place(at_text),
            place(bottom + 18.0),
            crate::numbers::number(tick),
            escaped(&unit)
        ));
    }
    markup
}

/// For who cannot see it: each line's name and range.
fn spoken(chart: &Chart) -> String {
    let mut words = vec![chart.title.clone()];
    for panel in &chart.panels {
        for line in &panel.lines {
            let values = || line.points.iter().filter_map(|point| point.1);
            if let (Some(least), Some(most)) = (values().reduce(f64::min), values().reduce(f64::max)) {
                words.push(format!("{}: {} to {}", line.name, panel.unit.tick(least), panel.unit.tick(most)));
            }
        }
    }
    words.join("; ")
}

/// `x` is left out of a line that has the moments of the line before it.
fn data(chart: &Chart) -> Value {
    let mut lines = Vec::new();
    let mut before: Vec<f64> = Vec::new();
    for panel in &chart.panels {
        for line in &panel.lines {
            let moments: Vec<f64> = line.points.iter().map(|point| point.0).collect();
            let values: Vec<Value> = line.points.iter().map(|point| short(point.1)).collect();
            let mut entry = json!({"n": line.name, "u": panel.unit.name(), "c": line.ink.class(), "y": values});
            if moments != before {
                entry["x"] = moments.iter().map(|moment| json!((moment * 1e4).round() / 1e4)).collect();
                before = moments;
            }
            lines.push(entry);
        }
    }
    json!({
        "left": LEFT / WIDTH, "right": RIGHT / WIDTH, "from": chart.x.from, "to": chart.x.to, "width": WIDTH,
        "log": chart.x.spacing == Spacing::Log, "unit": chart.x.unit, "lines": lines,
    })
}

/// Five significant digits: more than anybody reads off a chart, and a third of the size.
fn short(value: Option<f64>) -> Value {
    let Some(value) = value else { return Value::Null };
    if value == 0.0 || !value.is_finite() {
        return json!(0);
    }
    let power = 4 - value.abs().log10().floor() as i32;
    let rounded = if power >= 0 {
        let scale = 10_f64.powi(power);
        (value * scale).round() / scale
    } else {
        let scale = 10_f64.powi(-power);
        (value / scale).round() * scale
    };
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 { json!(rounded as i64) } else { json!(rounded) }
}
