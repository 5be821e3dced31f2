//! Drawing of a chart: SVG with lines, axes, marks and a legend above each panel; colours come from
//! the page's style. Also the data for the page's script: exactly the values that are drawn.

use serde_json::{Value, json};
use text::numbers;

use super::axis::{Axis, Spacing, ceiling, linear_ticks, log_range, log_ticks, nines_ticks};
use super::chart::{Chart, ChartLine, Ink, LineStyle, Mark, Panel, PanelUnit};
use super::path::{self, DataPoint, SCALE};
use super::{escaped, place};

/// Width of a chart in its own units; the page scales it. It fits half of a wide page, and a phone.
pub const WIDTH: f64 = 560.0;
/// Left end of the horizontal axes.
const LEFT: f64 = 66.0;
/// Right end of the horizontal axes.
const RIGHT: f64 = WIDTH - 14.0;
const TITLE: f64 = 24.0;
const MARKS: f64 = 18.0;
const BELOW: f64 = 24.0;
const BETWEEN: f64 = 8.0;
/// Distance between lanes that share a legend: it leaves space for the tick texts of both lanes.
const BETWEEN_LANES: f64 = 15.0;
/// Minimum height of a bar, so that a value of 1 among thousands is visible.
const LEAST_BAR: f64 = 2.5;

#[derive(Debug, Clone)]
pub struct Drawn {
    pub id: String,
    pub title: String,
    pub note: String,
    pub svg: String,
    /// Values and positions for the page's script. Null for a chart without a horizontal axis.
    pub data: Value,
}

pub fn drawn(chart: &Chart) -> Drawn {
    let x = Axis { spacing: chart.x.spacing, from: chart.x.from, to: chart.x.to, start: LEFT, end: RIGHT };
    let mut body = String::new();
    let mut top = TITLE;
    let title = format!("<text class=\"title\" x=\"0\" y=\"15\">{}</text>", escaped(&chart.title));
    let marks_at = top;
    let rows = label_rows(&chart.marks, &x);
    top += MARKS * rows.iter().flatten().max().map_or(0.0, |row| (row + 1) as f64);
    let (mut plots, mut paper, mut first_line) = (Vec::new(), String::new(), 0);
    let is_shared = shared_legends(&chart.panels);
    for (number, panel) in chart.panels.iter().enumerate() {
        if is_shared[number] {
            top += BETWEEN_LANES - BETWEEN;
            body.push_str(&lane_name(panel, top));
        } else {
            let below = chart.panels.iter().zip(&is_shared).skip(number + 1).take_while(|(_, is_shared)| **is_shared);
            let lanes = std::iter::once(panel).chain(below.map(|(panel, _)| panel));
            let (markup, height) = legend(panel, &same_lines(lanes, first_line), LEFT, RIGHT, top);
            body.push_str(&markup);
            top += height;
        }
        let bottom = top + panel.height;
        let drawn = draw_panel(panel, number, first_line, chart, &x, top, bottom);
        body.push_str(&drawn.texts);
        paper.push_str(&drawn.paper);
        plots.push((top, bottom, drawn.upright));
        first_line += panel.lines.len();
        top = bottom + BETWEEN;
    }
    let bottom = top - BETWEEN;
    let sides: Vec<(f64, f64)> = plots.iter().map(|(top, bottom, _)| (*top, *bottom)).collect();
    let (lines, labels) = marks(&chart.marks, &rows, &x, marks_at, &sides);
    // The part that a zoom stretches is a separate SVG. Marks are drawn behind the lines, so that a
    // bar at the time of a fault is visible.
    let (left, width, height) = (place(LEFT), place(RIGHT - LEFT), place(bottom));
    let plot = format!(
        "<svg class=\"plot\" x=\"{left}\" y=\"0\" width=\"{width}\" height=\"{height}\" viewBox=\"{left} 0 {width} {height}\" \
         preserveAspectRatio=\"none\">{lines}{paper}</svg>"
    );
    // Texts are drawn in front of the lines: the names of lanes, and texts that replace a line.
    body = title + &labels + &plot + &body;
    body.push_str(&axis_below(chart, &x, bottom));
    let first = plots.first().map_or(TITLE, |plot| plot.0);
    body.push_str(&format!("<path class=\"cross\" d=\"M0 {}V{}\"/>", place(first), place(bottom)));
    let height = bottom + BELOW;
    let svg = format!(
        "<svg viewBox=\"0 0 {} {}\" role=\"group\" aria-label=\"{}\">{body}</svg>",
        place(WIDTH),
        place(height),
        escaped(&spoken(chart))
    );
    let mut data = values_of(chart);
    let upright = chart.panels.iter().zip(&plots).map(|(panel, (_, _, axis))| axis_data(panel, axis.as_ref()));
    data["panels"] = upright.collect();
    Drawn { id: chart.id.clone(), title: chart.title.clone(), note: chart.note.clone(), svg, data }
}

/// A drawn panel: the part that a zoom stretches, texts that it does not stretch, and the vertical
/// axis, if there is one.
struct DrawnPanel {
    paper: String,
    texts: String,
    upright: Option<Axis>,
}

fn draw_panel(
    panel: &Panel,
    number: usize,
    first_line: usize,
    chart: &Chart,
    x: &Axis,
    top: f64,
    bottom: f64,
) -> DrawnPanel {
    let base = format!("<path class=\"base\" d=\"M{} {}H{}\"/>", place(LEFT), place(bottom), place(RIGHT));
    if !panel.has_values() {
        let (at, middle) = (place(LEFT + 8.0), place((top + bottom) / 2.0 + 4.0));
        let remark = format!("<text class=\"remark\" x=\"{at}\" y=\"{middle}\">{}</text>", escaped(&panel.remark));
        return DrawnPanel { paper: base, texts: remark, upright: None };
    }
    let (y, ticks) = upright(panel, top, bottom);
    let (grid, texts) = grid(panel.unit, number, &y, &ticks);
    let mut paper = veil(chart, x, top, bottom) + &grid;
    // The page's script uses these groups to give a panel another axis, and to hide a line with its
    // dots.
    paper.push_str(&format!("<g data-panel=\"{number}\"><g transform=\"{SCALE}\">"));
    let mut before: Option<Vec<DataPoint>> = None;
    for (index, line) in panel.lines.iter().enumerate() {
        let of = first_line + whose(&panel.lines, index);
        paper.push_str(&format!("<g data-line=\"{of}\">{}</g>", draw_line(line, x, &y, &mut before)));
    }
    paper.push_str("</g>");
    for (_, value) in &panel.levels {
        if let Some(at) = y.place(*value) {
            paper.push_str(&format!("<path class=\"level\" d=\"M{} {}H{}\"/>", place(LEFT), place(at), place(RIGHT)));
        }
    }
    DrawnPanel { paper: paper + "</g>" + &base, texts, upright: Some(y) }
}

/// Returns the index of the line with which a line is shown or hidden: for dots of repeats, the
/// line of their means; for other lines, the line itself.
fn whose(lines: &[ChartLine], index: usize) -> usize {
    if lines[index].shape != LineStyle::Dots {
        return index;
    }
    let mut further = lines.iter().enumerate().skip(index);
    let mean = further.find(|(_, other)| other.shape != LineStyle::Dots && other.ink == lines[index].ink);
    mean.map_or(index, |(mean, _)| mean)
}

/// Returns a vertical axis for the script: its unit, whether it is logarithmic, its ends and their
/// coordinates.
fn axis_data(panel: &Panel, axis: Option<&Axis>) -> Value {
    let Some(axis) = axis else { return Value::Null };
    let is_log = axis.spacing != Spacing::Linear;
    json!({"n": panel.label, "u": panel.unit.name(), "log": is_log, "y": [axis.from, axis.to, axis.start, axis.end]})
}

/// Returns the vertical axis of a panel and its ticks.
pub fn upright(panel: &Panel, top: f64, bottom: f64) -> (Axis, Vec<f64>) {
    let count = ((bottom - top) / 29.0).floor().max(1.0) as usize;
    let values = panel.lines.iter().flat_map(ChartLine::values);
    let values: Vec<f64> = values.chain(panel.levels.iter().map(|(_, value)| *value)).collect();
    let (from, to, ticks) = match panel.spacing {
        Spacing::Linear => {
            let stacked = stacked_top(&panel.lines);
            let largest = values.iter().copied().fold(stacked, f64::max).max(panel.at_least_to.unwrap_or(0.0));
            let to = ceiling(largest, count).min(panel.at_most_to.unwrap_or(f64::INFINITY));
            // A metric of the target can be below 0.
            let least = values.iter().copied().fold(0.0, f64::min);
            let from = if least < 0.0 { -ceiling(-least, count) } else { 0.0 };
            (from, to, linear_ticks(from, to, count))
        }
        Spacing::Log | Spacing::Nines => {
            let positive = values.iter().copied().filter(|value| *value > 0.0);
            let least = positive.clone().reduce(f64::min).unwrap_or(1.0);
            let (from, to) = log_range(least, positive.reduce(f64::max).unwrap_or(1.0));
            (from, to, log_ticks(from, to, ((bottom - top) / 22.0).max(4.0) as usize))
        }
    };
    (Axis { spacing: panel.spacing, from, to, start: bottom, end: top }, ticks)
}

fn stacked_top(lines: &[ChartLine]) -> f64 {
    let stacked: Vec<&ChartLine> = lines.iter().filter(|line| line.shape == LineStyle::Stacked).collect();
    let length = stacked.iter().map(|line| line.points.len()).max().unwrap_or(0);
    let mut highest = 0.0_f64;
    for index in 0..length {
        highest = highest.max(stacked.iter().filter_map(|line| line.points.get(index)?.1).sum());
    }
    highest
}

/// Draws a line. `before` holds the points of the previous line, which are the lower edge of an
/// area.
fn draw_line(line: &ChartLine, x: &Axis, y: &Axis, before: &mut Option<Vec<DataPoint>>) -> String {
    let class = line.ink.class();
    let lower = before.take().filter(|_| line.shape != LineStyle::Filled);
    let lower = lower.unwrap_or_else(|| line.points.iter().map(|point| (point.0, Some(0.0))).collect());
    let mut upper = line.points.clone();
    let markup = match line.shape {
        LineStyle::Solid | LineStyle::Dashed | LineStyle::Dotted => stroke(line, &path::line(&upper, x, y)),
        LineStyle::Dots => stroke(line, &path::dots(&upper, x, y)),
        LineStyle::Filled | LineStyle::Band => {
            let area = path::area(&upper, &lower, x, y);
            format!("<path class=\"wash {class}\" d=\"{area}\"/>") + &stroke(line, &path::line(&upper, x, y))
        }
        LineStyle::Stacked => {
            for (point, low) in upper.iter_mut().zip(&lower) {
                point.1 = point.1.zip(low.1).map(|(value, low)| value + low);
            }
            format!("<path class=\"area {class}\" d=\"{}\"/>", path::area(&upper, &lower, x, y))
        }
        LineStyle::Bars(thousandths) => {
            let width = f64::from(thousandths) / 1e3 / (x.to - x.from) * (x.end - x.start);
            let width = (width * 0.9).clamp(1.5, 14.0);
            format!("<path class=\"area {class}\" d=\"{}\"/>", path::bars(&upper, x, y, width, LEAST_BAR))
        }
    };
    *before = Some(upper);
    markup
}

fn stroke(line: &ChartLine, path: &str) -> String {
    format!("<path class=\"line {}{}\" d=\"{path}\"/>", line.ink.class(), pattern(line.shape))
}

/// Returns the text for screen readers: name and range of each line.
fn spoken(chart: &Chart) -> String {
    let mut words = vec![chart.title.clone()];
    for panel in &chart.panels {
        for line in &panel.lines {
            if let (Some(least), Some(most)) = (line.values().reduce(f64::min), line.values().reduce(f64::max)) {
                words.push(format!("{}: {} to {}", line.name, panel.unit.tick(least), panel.unit.tick(most)));
            }
        }
    }
    words.join("; ")
}

/// Returns the grid lines, and their values on the left.
fn grid(unit: PanelUnit, panel: usize, y: &Axis, ticks: &[f64]) -> (String, String) {
    let (mut lines, mut texts) = (String::new(), String::new());
    for &tick in ticks {
        let Some(at) = y.place(tick) else { continue };
        lines.push_str(&format!("M{} {}H{}", place(LEFT), place(at), place(RIGHT)));
        let (x, baseline) = (place(LEFT - 7.0), place(at + 4.0));
        let words = unit.tick(tick);
        // The label of the axis already says that the values are per second.
        let words = words.strip_suffix("/s").unwrap_or(&words);
        texts.push_str(&format!("<text x=\"{x}\" y=\"{baseline}\">{}</text>", escaped(words)));
    }
    let lines = format!("<path class=\"grid\" data-grid=\"{panel}\" d=\"{lines}\"/>");
    (lines, format!("<g class=\"ticks y\" data-ticks=\"{panel}\">{texts}</g>"))
}

/// Draws the horizontal axis below all panels.
fn axis_below(chart: &Chart, x: &Axis, bottom: f64) -> String {
    let names = &chart.x.names;
    let ticks = match chart.x.spacing {
        _ if !names.is_empty() => (0..names.len()).map(|index| index as f64).collect(),
        _ if !chart.x.ticks.is_empty() => chart.x.ticks.clone(),
        Spacing::Linear => linear_ticks(chart.x.from, chart.x.to, 8),
        Spacing::Log => log_ticks(chart.x.from, chart.x.to, 8),
        Spacing::Nines => nines_ticks(chart.x.from, chart.x.to),
    };
    // With ticks at every load, the unit does not fit behind the last tick.
    let is_before = !chart.x.ticks.is_empty() && chart.x.unit.chars().count() as f64 * TICK_CHARACTER <= LEFT;
    let (mut lines, mut texts) = (String::new(), Vec::new());
    for (index, &tick) in ticks.iter().enumerate() {
        let Some(at) = x.place(tick) else { continue };
        lines.push_str(&format!("M{} {}v5", place(at), place(bottom)));
        let sign = if chart.x.signed && tick > 0.0 { "+" } else { "" };
        let has_unit = index + 1 == ticks.len() && !is_before;
        let unit = if has_unit { format!(" {}", chart.x.unit) } else { String::new() };
        let value = names.get(index).cloned().unwrap_or_else(|| x_tick(chart.x.spacing, tick));
        let words = format!("{sign}{value}{unit}");
        let room = words.chars().count() as f64 * TICK_CHARACTER;
        // If centred, the last text would extend beyond the edge of the drawing.
        let (at, class, begins, ends) = match RIGHT + 10.0 {
            end if at > RIGHT - 20.0 => (end, " class=\"last\"", end - room, end),
            _ => (at, "", at - room / 2.0, at + room / 2.0),
        };
        let (at, baseline) = (place(at), place(bottom + 18.0));
        texts.push((begins, ends, format!("<text{class} x=\"{at}\" y=\"{baseline}\">{}</text>", escaped(&words))));
    }
    // With names, every text is needed.
    let texts = if names.is_empty() { apart(texts) } else { texts };
    let texts: String = texts.into_iter().map(|text| text.2).collect();
    let unit = if is_before {
        format!("<text class=\"unit\" x=\"0\" y=\"{}\">{}</text>", place(bottom + 18.0), escaped(&chart.x.unit))
    } else {
        String::new()
    };
    format!("<path class=\"grid\" d=\"{lines}\"/>{unit}<g class=\"ticks x\">{texts}</g>")
}

/// Returns the texts from left to right, without those that would touch the next text. Each tuple
/// has left end, right end and text. The last text stays, because it has the unit.
fn apart(texts: Vec<(f64, f64, String)>) -> Vec<(f64, f64, String)> {
    let mut kept: Vec<(f64, f64, String)> = Vec::new();
    for text in texts.into_iter().rev() {
        if kept.last().is_none_or(|next| text.1 + TICK_GAP < next.0) {
            kept.push(text);
        }
    }
    kept.reverse();
    kept
}

/// Minimum distance between two tick texts, and width of one character: digits are wider than
/// letters.
const TICK_GAP: f64 = 6.0;
const TICK_CHARACTER: f64 = 9.6;

fn x_tick(spacing: Spacing, tick: f64) -> String {
    // Other formatting would round 99.99 to 100.
    if spacing == Spacing::Nines { rounded(100.0 - 100.0 / tick) } else { numbers::number(tick) }
}

/// Formats a percentage with up to five decimals, as quantiles of millions of operations need.
fn rounded(pct: f64) -> String {
    let text = format!("{pct:.5}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Draws a veil over the time outside the measured part, because no rate includes that time.
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

/// Maximum number of label rows, so that labels do not fill the chart.
const LABEL_ROWS: usize = 4;

/// Returns the row in which each mark's label fits. `None` if it fits in none, or if the mark is
/// outside the axis.
fn label_rows(marks: &[Mark], x: &Axis) -> Vec<Option<usize>> {
    let mut taken: Vec<Vec<(f64, f64)>> = vec![Vec::new(); LABEL_ROWS];
    marks.iter().map(|mark| free_row(&mut taken, mark, x)).collect()
}

/// Takes the first row with space for the mark's label. `taken` has the ends of each row's labels.
fn free_row(taken: &mut [Vec<(f64, f64)>], mark: &Mark, x: &Axis) -> Option<usize> {
    let at = x.place(mark.at).filter(|_| (x.from..=x.to).contains(&mark.at))?;
    let (_, begins, ends) = label(mark, at, x.end, 0.0);
    let row = taken.iter().position(|row| row.iter().all(|(from, to)| ends + GAP < *from || *to + GAP < begins))?;
    taken[row].push((begins, ends));
    Some(row)
}

/// Draws each mark: a line through all panels, the shade of the effect, and a label in its row.
/// Returns lines and labels separately.
fn marks(marks: &[Mark], rows: &[Option<usize>], x: &Axis, labels_at: f64, panels: &[(f64, f64)]) -> (String, String) {
    let (mut lines, mut labels) = (String::new(), String::new());
    for (mark, row) in marks.iter().zip(rows).filter(|(mark, _)| (x.from..=x.to).contains(&mark.at)) {
        let Some(at) = x.place(mark.at) else { continue };
        let begin = match &mark.colours {
            Some((light, dark)) => format!("<g class=\"mark own\" style=\"--l:{light};--d:{dark}\""),
            None => "<g class=\"mark\"".to_owned(),
        };
        lines.push_str(&format!("{begin}>"));
        let until = mark.until.and_then(|until| x.place(until)).map(|until| until.max(at + 1.0));
        let mut line = String::new();
        for &(top, bottom) in panels {
            let since = mark.since.and_then(|since| x.place(since)).unwrap_or(at);
            lines.extend(until.map(|until| rectangle("shade", [since, until], [top, bottom])));
            line.push_str(&format!("M{} {}V{}", place(at), place(top), place(bottom)));
        }
        lines.push_str(&format!("<path d=\"{line}\"/></g>"));
        if let Some(row) = row {
            let label = label(mark, at, x.end, labels_at + MARKS * *row as f64).0;
            labels.push_str(&format!("{begin} data-x=\"{}\">{label}</g>", place(at)));
        }
    }
    (lines, labels)
}

/// Returns the flag and text of a mark, and their left and right end. The text is left of the mark
/// if it does not fit on the right and the left has more space.
fn label(mark: &Mark, at: f64, end: f64, top: f64) -> (String, f64, f64) {
    let room = text_width(&mark.label) + 10.0;
    let is_left = at + room > end && at > end - at;
    let (text, class, begins) = if is_left { (at - 7.0, "last", at - room) } else { (at + 7.0, "first", at) };
    let flag = format!("<path class=\"flag\" d=\"M{} {}l-4-7h8z\"/>", place(at), place(top + 13.0));
    let (x, baseline) = (place(text), place(top + 12.0));
    let words = format!("<text class=\"{class}\" x=\"{x}\" y=\"{baseline}\">{}</text>", escaped(&mark.label));
    (flag + &words, begins, begins + room)
}

/// Width of a character in a wide font on a phone, where the page enlarges the text of charts.
const CHARACTER: f64 = 8.2;
const SWATCH: f64 = 22.0;
const GAP: f64 = 18.0;

const LEGEND_ROW: f64 = 20.0;

/// Maximum height of a lane.
const LANE: f64 = 40.0;

/// Returns, for each panel, whether it is a lane that shares the legend of the previous lane,
/// because both have the same lines.
fn shared_legends(panels: &[Panel]) -> Vec<bool> {
    let below = panels.windows(2).map(|pair| {
        let (one, next) = (&pair[0], &pair[1]);
        let are_lanes = one.height <= LANE && next.height <= LANE && next.levels.is_empty();
        are_lanes && next.has_values() && one.unit == next.unit && line_names(one).eq(line_names(next))
    });
    std::iter::once(false).chain(below).collect()
}

fn line_names(panel: &Panel) -> impl Iterator<Item = (&str, Ink, LineStyle)> {
    panel.lines.iter().map(|line| (line.name.as_str(), line.ink, line.shape))
}

/// Returns the name of a lane without its own legend.
fn lane_name(panel: &Panel, top: f64) -> String {
    let (x, baseline) = (place(LEFT + 4.0), place(top + 12.0));
    format!("<text class=\"unit lane\" x=\"{x}\" y=\"{baseline}\">{}</text>", escaped(&panel.label))
}

/// Returns, for each line of the first lane, the indexes in the chart of all lines of the same name
/// in `lanes`, separated by blanks.
fn same_lines<'a>(lanes: impl Iterator<Item = &'a Panel>, first_line: usize) -> Vec<String> {
    let (mut first, mut same) = (first_line, Vec::new());
    for lane in lanes {
        same.resize(lane.lines.len().max(same.len()), String::new());
        for (index, of_line) in same.iter_mut().enumerate() {
            let blank = if of_line.is_empty() { "" } else { " " };
            of_line.push_str(&format!("{blank}{}", first + index));
        }
        first += lane.lines.len();
    }
    same
}

/// Returns the markup and height of a panel's legend, from `top` down, within `left..right`.
/// `switched` has the lines that each entry shows or hides.
fn legend(panel: &Panel, switched: &[String], left: f64, right: f64, top: f64) -> (String, f64) {
    let mut baseline = top + 14.0;
    let mut markup = format!(
        "<text class=\"unit\" x=\"{}\" y=\"{}\">{}</text>",
        place(left),
        place(baseline),
        escaped(&panel.label)
    );
    let entries = entries(panel);
    let mut x = left + text_width(&panel.label) + GAP + 4.0;
    for LegendEntry { class, swatch, name, line } in entries {
        let needed = SWATCH + text_width(&name);
        if x + needed > right {
            x = left;
            baseline += LEGEND_ROW;
        }
        let (swatch, text) = (swatch_markup(&class, swatch, x, baseline - 4.0), place(x + SWATCH));
        let text = format!("<text x=\"{text}\" y=\"{}\">{}</text>", place(baseline), escaped(&name));
        markup.push_str(&match line {
            Some(line) => format!("<g class=\"entry\" data-line=\"{}\">{swatch}{text}</g>", switched[line]),
            None => swatch + &text,
        });
        x += needed + GAP;
    }
    (markup, baseline - top - 14.0 + LEGEND_ROW)
}

/// An entry of a legend.
struct LegendEntry {
    class: String,
    swatch: Option<LineStyle>,
    name: String,
    /// Index in the panel of the line that the entry shows or hides.
    line: Option<usize>,
}

/// Returns the entries of a panel. A single line that the panel's label names needs no entry.
fn entries(panel: &Panel) -> Vec<LegendEntry> {
    // Dots belong to the line of their colour, if there are lines.
    let only_dots = panel.lines.iter().all(|line| line.shape == LineStyle::Dots);
    let is_named = matches!(panel.lines.as_slice(), [line] if panel.label.contains(&line.name));
    let named = panel.lines.iter().enumerate().filter(|(_, line)| only_dots || line.shape != LineStyle::Dots);
    let lines = named.map(|(index, line)| LegendEntry {
        class: line.ink.class().to_owned(),
        swatch: Some(line.shape),
        name: line.name.clone(),
        line: Some(index),
    });
    let levels = panel.levels.iter().map(|(name, _)| LegendEntry {
        class: "level".to_owned(),
        swatch: None,
        name: name.clone(),
        line: None,
    });
    if is_named && !only_dots { levels.collect() } else { lines.chain(levels).collect() }
}

fn swatch_markup(class: &str, shape: Option<LineStyle>, x: f64, y: f64) -> String {
    let class = match shape {
        Some(LineStyle::Stacked | LineStyle::Bars(_)) => {
            return format!(
                "<rect class=\"area {class}\" x=\"{}\" y=\"{}\" width=\"14\" height=\"10\"/>",
                place(x),
                place(y - 5.0)
            );
        }
        Some(shape) => format!("line {class}{}\" transform=\"{SCALE}", pattern(shape)),
        None => return format!("<path class=\"{class}\" d=\"M{} {}h16\"/>", place(x), place(y)),
    };
    format!("<path class=\"{class}\" d=\"M{} {}h160\"/>", place(x * 10.0), place(y * 10.0))
}

/// Returns the class of a line's pattern.
fn pattern(shape: LineStyle) -> &'static str {
    match shape {
        LineStyle::Dashed => " dashed",
        LineStyle::Dotted => " dotted",
        LineStyle::Dots => " dots",
        _ => "",
    }
}

fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// Number of significant digits in the data: more than a chart can show, in a third of the size of
/// full precision.
const SIGNIFICANT: i32 = 4;

/// Returns the position of the axis and the data of each line: name, unit, class, values `y` and x
/// values.
///
/// The x values are in `x` as they are, or in `s` and `d`: `s` has the first x value and the step,
/// `d` the number of steps since the previous x value, left out if always 1. Without any of these,
/// the x values are those of the previous line.
pub fn values_of(chart: &Chart) -> Value {
    let mut lines = Vec::new();
    let mut before: Vec<f64> = Vec::new();
    for panel in &chart.panels {
        for line in &panel.lines {
            let moments: Vec<f64> = line.points.iter().map(|point| point.0).collect();
            let values: Vec<Value> = line.points.iter().map(|point| short(point.1)).collect();
            let mut entry = json!({"n": line.name, "u": panel.unit.name(), "c": line.ink.class(), "y": values});
            if moments != before {
                match steps(&moments) {
                    Some((step, counts)) => {
                        entry["s"] = json!([exact(moments[0]), exact(step)]);
                        if counts[1..].iter().any(|count| *count != 1) {
                            entry["d"] = json!(counts);
                        }
                    }
                    None => entry["x"] = moments.iter().map(|moment| exact(*moment)).collect(),
                }
                before = moments;
            }
            lines.push(entry);
        }
    }
    let mut data = json!({
        "left": LEFT / WIDTH, "right": RIGHT / WIDTH, "from": chart.x.from, "to": chart.x.to, "width": WIDTH,
        "log": chart.x.spacing != Spacing::Linear, "unit": chart.x.unit, "lines": lines,
    });
    if chart.x.spacing == Spacing::Nines {
        data["nines"] = json!(true);
    }
    if !chart.x.names.is_empty() {
        data["names"] = json!(chart.x.names);
    }
    data
}

/// Returns the step and the number of steps between x values, or `None` if an x value is more than
/// 0.0001 (of times: 0.1 ms) from a whole step.
fn steps(moments: &[f64]) -> Option<(f64, Vec<u64>)> {
    let gaps = moments.windows(2).map(|pair| pair[1] - pair[0]);
    let least = gaps.clone().reduce(f64::min).filter(|least| *least > 0.0)?;
    // The mean over all steps, because the rounding error of the smallest gap would add up.
    let whole: u64 = gaps.map(|gap| (gap / least).round() as u64).sum();
    let step = (moments[moments.len() - 1] - moments[0]) / whole as f64;
    let mut counts = vec![0];
    let mut at = 0;
    for moment in &moments[1..] {
        let next = ((moment - moments[0]) / step).round() as u64;
        if (moments[0] + next as f64 * step - moment).abs() > 1e-4 || next <= at {
            return None;
        }
        counts.push(next - at);
        at = next;
    }
    Some((step, counts))
}

fn exact(moment: f64) -> Value {
    whole_if_it_is((moment * 1e6).round() / 1e6)
}

fn whole_if_it_is(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

fn short(value: Option<f64>) -> Value {
    let Some(value) = value else { return Value::Null };
    if value == 0.0 || !value.is_finite() {
        return json!(0);
    }
    let power = SIGNIFICANT - 1 - value.abs().log10().floor() as i32;
    let scale = 10_f64.powi(power.abs());
    whole_if_it_is(if power >= 0 { (value * scale).round() / scale } else { (value / scale).round() * scale })
}
