//! A chart drawn: SVG whose colours come from the page's style, and its values for the page's script. It must not thin,
//! smooth or leave out what it is given.

use serde_json::Value;

use super::axis::{Axis, Spacing, ceiling, linear_ticks, log_range, log_ticks};
use super::chart::{Chart, Line, Panel, Shape};
use super::legend;
use super::markup::{escaped, place};
use super::path;
use super::scaffold::{axis_below, grid, marks, veil};
use super::thinning::Point;
use super::values;

/// Width of a chart in its own units; the page scales it.
pub const WIDTH: f64 = 960.0;
/// Where the axes stand.
pub const LEFT: f64 = 74.0;
/// Where they end.
pub const RIGHT: f64 = WIDTH - 14.0;
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
    body = title + &marks(&chart.marks, &x, marks_at, &plots) + &body;
    body.push_str(&axis_below(chart, &x, bottom));
    let first = plots.first().map_or(TITLE, |plot| plot.0);
    body.push_str(&format!("<path class=\"cross\" d=\"M0 {}V{}\"/>", place(first), place(bottom)));
    let height = bottom + BELOW;
    let svg = format!(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{body}</svg>",
        place(WIDTH),
        place(height),
        escaped(&spoken(chart))
    );
    Drawn { id: chart.id.clone(), title: chart.title.clone(), note: chart.note.clone(), svg, data: values::of(chart) }
}

fn draw_panel(panel: &Panel, chart: &Chart, x: &Axis, top: f64, bottom: f64) -> String {
    if !panel.has_values() {
        let (at, middle) = (place(LEFT + 8.0), place((top + bottom) / 2.0 + 4.0));
        let frame = format!("<path class=\"base\" d=\"M{} {}H{}\"/>", place(LEFT), place(bottom), place(RIGHT));
        return format!("{frame}<text class=\"remark\" x=\"{at}\" y=\"{middle}\">{}</text>", escaped(&panel.remark));
    }
    let (y, ticks) = upright(panel, top, bottom);
    let mut markup = veil(chart, x, top, bottom) + &grid(panel.unit, &y, &ticks);
    markup.push_str(&format!("<g transform=\"{}\">", path::SCALE));
    let mut before: Option<Vec<Point>> = None;
    for line in &panel.lines {
        markup.push_str(&draw_line(line, x, &y, &mut before));
    }
    markup.push_str("</g>");
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
        Spacing::Log | Spacing::Doubling => {
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

/// `before` holds the points of the line before, which areas end on.
fn draw_line(line: &Line, x: &Axis, y: &Axis, before: &mut Option<Vec<Point>>) -> String {
    let class = line.ink.class();
    let flat = || line.points.iter().map(|point| (point.0, Some(0.0))).collect::<Vec<_>>();
    let stroke = |points: &[Point]| {
        let pattern = legend::pattern(line.shape);
        let drawn = if line.shape == Shape::Dots { path::dots(points, x, y) } else { path::line(points, x, y) };
        format!("<path class=\"line {class}{pattern}\" d=\"{drawn}\"/>")
    };
    let filled = |kind: &str, upper: &[Point], lower: &[Point]| {
        format!("<path class=\"{kind} {class}\" d=\"{}\"/>", path::area(upper, lower, x, y))
    };
    let lower = before.take();
    let mut upper = line.points.clone();
    let markup = match line.shape {
        Shape::Solid | Shape::Dashed | Shape::Dotted | Shape::Dots => stroke(&upper),
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
