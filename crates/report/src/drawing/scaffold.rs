//! What stands around the lines of a chart: grid, ticks, the veil over what is not measured, the marks of faults. It must not
//! draw the lines.

use super::axis::{Axis, Spacing, doubling_ticks, linear_ticks, log_ticks};
use super::chart::{Chart, Mark, Unit};
use super::markup::{escaped, place};
use super::render::{LEFT, RIGHT};
use crate::numbers;

/// Room a character of a mark's label takes.
const CHARACTER: f64 = 7.5;

/// Level lines, and what they stand for on the left.
pub fn grid(unit: Unit, y: &Axis, ticks: &[f64]) -> String {
    let (mut lines, mut texts) = (String::new(), String::new());
    for &tick in ticks {
        let Some(at) = y.place(tick) else { continue };
        lines.push_str(&format!("M{} {}H{}", place(LEFT), place(at), place(RIGHT)));
        let (x, baseline) = (place(LEFT - 7.0), place(at + 4.0));
        texts.push_str(&format!("<text x=\"{x}\" y=\"{baseline}\">{}</text>", escaped(&unit.tick(tick))));
    }
    format!("<path class=\"grid\" d=\"{lines}\"/><g class=\"ticks y\">{texts}</g>")
}

/// The axis below all panels.
pub fn axis_below(chart: &Chart, x: &Axis, bottom: f64) -> String {
    let names = &chart.x.names;
    let ticks = match chart.x.spacing {
        _ if !names.is_empty() => (0..names.len()).map(|index| index as f64).collect(),
        Spacing::Linear => linear_ticks(chart.x.from, chart.x.to, 10),
        Spacing::Log => log_ticks(chart.x.from, chart.x.to, 10),
        Spacing::Doubling => doubling_ticks(chart.x.from, chart.x.to, 12),
    };
    let (mut lines, mut texts) = (String::new(), String::new());
    for (index, &tick) in ticks.iter().enumerate() {
        let Some(at) = x.place(tick) else { continue };
        lines.push_str(&format!("M{} {}v5", place(at), place(bottom)));
        let sign = if chart.x.signed && tick > 0.0 { "+" } else { "" };
        let unit = if index + 1 == ticks.len() { format!(" {}", chart.x.unit) } else { String::new() };
        // The last one would reach over the edge of the sheet.
        let (at, class) = if at > RIGHT - 20.0 { (RIGHT + 10.0, " class=\"last\"") } else { (at, "") };
        texts.push_str(&format!(
            "<text{class} x=\"{}\" y=\"{}\">{sign}{}{}</text>",
            place(at),
            place(bottom + 18.0),
            names.get(index).map_or_else(|| numbers::number(tick), |name| escaped(name)),
            escaped(&unit)
        ));
    }
    format!("<path class=\"grid\" d=\"{lines}\"/><g class=\"ticks x\">{texts}</g>")
}

/// What lies outside the measured stretch is veiled: it is in no rate.
pub fn veil(chart: &Chart, x: &Axis, top: f64, bottom: f64) -> String {
    let Some([from, to]) = chart.measured else { return String::new() };
    let mut markup = String::new();
    for (from, to) in [(chart.x.from, from), (to, chart.x.to)] {
        if let (Some(left), Some(right)) = (x.place(from), x.place(to))
            && right - left > 1.0
        {
            markup.push_str(&rectangle("veil", [left, right], [top, bottom]));
        }
    }
    markup
}

fn rectangle(class: &str, [left, right]: [f64; 2], [top, bottom]: [f64; 2]) -> String {
    let (width, height) = (place(right - left), place(bottom - top));
    format!(
        "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{height}\"/>",
        place(left),
        place(top)
    )
}

/// Faults: a line through all panels, the shade of what they did, and a label where there is room for it.
pub fn marks(marks: &[Mark], x: &Axis, labels_at: f64, panels: &[(f64, f64)]) -> String {
    let mut markup = String::new();
    let mut free_from = 0.0;
    for mark in marks.iter().filter(|mark| (x.from..=x.to).contains(&mark.at)) {
        let Some(at) = x.place(mark.at) else { continue };
        markup.push_str(&match &mark.colours {
            Some((light, dark)) => format!("<g class=\"mark own\" style=\"--l:{light};--d:{dark}\">"),
            None => "<g class=\"mark\">".to_owned(),
        });
        let until = mark.until.and_then(|until| x.place(until)).map(|until| until.max(at + 1.0));
        let mut line = String::new();
        for &(top, bottom) in panels {
            markup.extend(until.map(|until| rectangle("shade", [at, until], [top, bottom])));
            line.push_str(&format!("M{} {}V{}", place(at), place(top), place(bottom)));
        }
        markup.push_str(&format!("<path d=\"{line}\"/>"));
        let (label, begins, ends) = label(mark, at, x.end, labels_at);
        if begins >= free_from {
            markup.push_str(&label);
            free_from = ends + 16.0;
        }
        markup.push_str("</g>");
    }
    markup
}

/// The flag and words of a mark, and where they begin and end; left of the mark if they do not fit right of it.
fn label(mark: &Mark, at: f64, end: f64, top: f64) -> (String, f64, f64) {
    let room = mark.label.chars().count() as f64 * CHARACTER + 10.0;
    let (text, class, begins) = if at + room > end { (at - 7.0, "last", at - room) } else { (at + 7.0, "first", at) };
    let flag = format!("<path class=\"flag\" d=\"M{} {}l-4-7h8z\"/>", place(at), place(top + 13.0));
    let (x, baseline) = (place(text), place(top + 12.0));
    let words = format!("<text class=\"{class}\" x=\"{x}\" y=\"{baseline}\">{}</text>", escaped(&mark.label));
    (flag + &words, begins, begins + room)
}
