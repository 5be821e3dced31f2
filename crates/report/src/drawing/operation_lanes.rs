//! Operations of a few clients over time: a lane for each client, a bar from start to end of each
//! operation. Time is not drawn to scale: long gaps are shortened, and the order is kept.

use serde_json::{Value, json};

use super::chart::{Ink, Mark};
use super::render::Drawn;
use super::{escaped, place};

/// Width of the drawing in its own units.
const WIDTH: f64 = 960.0;
const RIGHT: f64 = WIDTH - 12.0;
const TITLE: f64 = 24.0;
/// Height of the row with the names of faults.
const MARKS: f64 = 18.0;
/// Height of an operation: its text and its bar.
const ROW: f64 = 32.0;
const BAR: f64 = 10.0;
const BELOW: f64 = 24.0;
/// Distance between two lanes, and between two texts.
const GAP: f64 = 8.0;
const CHARACTER: f64 = 6.4;
/// Width of a time is its length to this power, so that microseconds are visible beside seconds.
const SHORTENING: f64 = 0.25;

/// The operations and the faults of their time.
pub struct OperationLanes {
    /// Id, unique on the page.
    pub id: String,
    pub title: String,
    pub note: String,
    pub operations: Vec<LaneOperation>,
    /// Faults: start, end and colours.
    pub marks: Vec<Mark>,
}

/// An operation of a client.
pub struct LaneOperation {
    /// Name of the client. Each client has a lane.
    pub client: String,
    /// Description of what the operation did and saw.
    pub label: String,
    pub ink: Ink,
    /// Start, seconds.
    pub start_s: f64,
    /// End, seconds. `None` if it is unknown; the bar then ends with the drawing.
    pub end_s: Option<f64>,
}

/// Horizontal axis: each time has a place, and between two times the scale is even.
struct ShortenedAxis {
    times: Vec<f64>,
    places: Vec<f64>,
}

impl ShortenedAxis {
    fn new(lanes: &OperationLanes, [left, right]: [f64; 2]) -> Self {
        let ends = lanes.operations.iter().flat_map(|one| [Some(one.start_s), one.end_s]).flatten();
        let mut times: Vec<f64> = ends.collect();
        times.sort_by(f64::total_cmp);
        let (first, last) = (times.first().copied().unwrap_or(0.0), times.last().copied().unwrap_or(0.0));
        let edges = lanes.marks.iter().flat_map(|mark| [Some(mark.at), mark.until]).flatten();
        times.extend(edges.filter(|at| (first..=last).contains(at)));
        times.sort_by(f64::total_cmp);
        times.dedup();
        let mut places = vec![0.0];
        for pair in times.windows(2) {
            let before = places.last().copied().unwrap_or(0.0);
            places.push(before + (pair[1] - pair[0]).powf(SHORTENING));
        }
        let whole = places.last().copied().filter(|whole| *whole > 0.0).unwrap_or(1.0);
        places.iter_mut().for_each(|at| *at = left + *at / whole * (right - left));
        Self { times, places }
    }

    /// Returns the place of a time. A time outside is at the edge.
    fn place(&self, at: f64) -> f64 {
        let next = self.times.partition_point(|time| *time < at);
        match (next.checked_sub(1), self.places.get(next)) {
            (None, Some(first)) => *first,
            (Some(last), None) => self.places[last],
            (Some(before), Some(after)) => {
                let share = (at - self.times[before]) / (self.times[next] - self.times[before]);
                self.places[before] + share * (after - self.places[before])
            }
            (None, None) => 0.0,
        }
    }
}

/// Place of an operation in the drawing.
struct PlacedBar<'a> {
    operation: &'a LaneOperation,
    top: f64,
    from: f64,
    to: f64,
    /// Whether the text ends with the bar's start, because it does not fit on its right.
    is_left: bool,
}

/// Draws the operations.
pub fn drawn(lanes: &OperationLanes) -> Drawn {
    let longest = lanes.operations.iter().map(|one| one.client.chars().count()).max().unwrap_or(0) as f64;
    let left = (longest * CHARACTER + 14.0).clamp(60.0, 200.0);
    let axis = ShortenedAxis::new(lanes, [left + 10.0, RIGHT - 30.0]);
    let top = TITLE + if lanes.marks.is_empty() { 0.0 } else { MARKS };
    let (bars, names, bottom) = placed(lanes, &axis, left, top);
    let mut body = format!("<text class=\"title\" x=\"0\" y=\"15\">{}</text>", escaped(&lanes.title));
    body.push_str(&shades(lanes, &axis, [left, top, bottom]));
    body.push_str(&ticks(lanes, &axis, top, bottom));
    for (name, at) in names {
        let line = format!("<path class=\"grid\" d=\"M0 {}H{}\"/>", place(at - GAP / 2.0), place(WIDTH));
        body.push_str(&line);
        body.push_str(&format!("<text x=\"0\" y=\"{}\">{}</text>", place(at + 22.0), escaped(name)));
    }
    bars.iter().for_each(|bar| body.push_str(&bar_markup(bar)));
    let spoken = format!("{}: {}", lanes.title, lanes.note);
    let svg = format!(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{body}</svg>",
        place(WIDTH),
        place(bottom + BELOW),
        escaped(&spoken)
    );
    Drawn { id: lanes.id.clone(), title: lanes.title.clone(), note: lanes.note.clone(), svg, data: data(lanes) }
}

/// Places the bars: a lane for each client, with as many rows as its texts need. Returns the bars,
/// the clients with the top of their lanes, and the bottom.
fn placed<'a>(
    lanes: &'a OperationLanes,
    axis: &ShortenedAxis,
    left: f64,
    top: f64,
) -> (Vec<PlacedBar<'a>>, Vec<(&'a str, f64)>, f64) {
    let clients = text::distinct(lanes.operations.iter().map(|one| one.client.as_str()));
    let (mut bars, mut names, mut top) = (Vec::new(), Vec::new(), top + GAP);
    for client in clients {
        names.push((client, top));
        // Right ends of the rows.
        let mut rows: Vec<f64> = Vec::new();
        for operation in lanes.operations.iter().filter(|one| one.client == client) {
            let from = axis.place(operation.start_s);
            let to = operation.end_s.map_or(RIGHT, |end_s| axis.place(end_s).max(from + 3.0));
            let width = operation.label.chars().count() as f64 * CHARACTER;
            let is_left = from + width > RIGHT && from - left > width;
            let (begins, ends) = if is_left { (from - width, to) } else { (from, to.max(from + width)) };
            let row = rows.iter().position(|end| *end + GAP < begins).unwrap_or(rows.len());
            if row == rows.len() {
                rows.push(ends);
            }
            rows[row] = ends;
            bars.push(PlacedBar { operation, top: top + ROW * row as f64, from, to, is_left });
        }
        top += ROW * rows.len() as f64 + GAP;
    }
    (bars, names, top)
}

fn bar_markup(bar: &PlacedBar<'_>) -> String {
    let class = if bar.is_left { " class=\"last\"" } else { "" };
    let open = if bar.operation.end_s.is_none() { " open" } else { "" };
    format!(
        "<text{class} x=\"{}\" y=\"{}\">{}</text><rect class=\"area {}{open}\" x=\"{}\" y=\"{}\" width=\"{}\" \
         height=\"{}\"/>",
        place(if bar.is_left { bar.from + 3.0 } else { bar.from }),
        place(bar.top + 11.0),
        escaped(&bar.operation.label),
        bar.operation.ink.class(),
        place(bar.from),
        place(bar.top + 15.0),
        place(bar.to - bar.from),
        place(BAR)
    )
}

/// Draws the faults behind the bars, with their names above.
fn shades(lanes: &OperationLanes, axis: &ShortenedAxis, [left, top, bottom]: [f64; 3]) -> String {
    let (mut markup, mut free) = (String::new(), left);
    let (first, last) = (axis.times.first(), axis.times.last());
    let is_seen = |mark: &&Mark| {
        last.is_some_and(|last| mark.at <= *last) && first.is_some_and(|first| mark.until.is_none_or(|at| at >= *first))
    };
    for mark in lanes.marks.iter().filter(is_seen) {
        let from = if first.is_some_and(|first| mark.at < *first) { left } else { axis.place(mark.at) };
        let ends_later = mark.until.is_none_or(|until| last.is_some_and(|last| until > *last));
        let to = if ends_later { WIDTH } else { axis.place(mark.until.unwrap_or(mark.at)).max(from + 1.0) };
        let style = mark.colours.as_ref().map_or_else(
            || "<g class=\"mark\">".to_owned(),
            |(light, dark)| format!("<g class=\"mark own\" style=\"--l:{light};--d:{dark}\">"),
        );
        let (x, height) = (place(from), place(bottom - top));
        markup.push_str(&format!(
            "{style}<rect class=\"shade\" x=\"{x}\" y=\"{}\" width=\"{}\" height=\"{height}\"/><path d=\"M{x} {}v{height}\"/>",
            place(top),
            place(to - from),
            place(top)
        ));
        let width = mark.label.chars().count() as f64 * CHARACTER;
        let at = from.min(WIDTH - width);
        if at >= free {
            markup.push_str(&format!(
                "<text x=\"{}\" y=\"{}\">{}</text>",
                place(at),
                place(top - 5.0),
                escaped(&mark.label)
            ));
            free = at + width + GAP;
        }
        markup.push_str("</g>");
    }
    markup
}

/// Draws the times of starts and ends: the first one since load start, the others since the first.
fn ticks(lanes: &OperationLanes, axis: &ShortenedAxis, top: f64, bottom: f64) -> String {
    let mut times: Vec<f64> =
        lanes.operations.iter().flat_map(|one| [Some(one.start_s), one.end_s]).flatten().collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    let Some(&first) = times.first() else { return String::new() };
    let (mut lines, mut texts, mut free) = (String::new(), String::new(), 0.0);
    for &at in &times {
        let x = axis.place(at);
        lines.push_str(&format!("M{} {}V{}", place(x), place(top), place(bottom)));
        let words =
            if at == first { format!("{at:.6} s") } else { format!("+{}", text::numbers::micros((at - first) * 1e6)) };
        let width = words.chars().count() as f64 * (CHARACTER + 0.6);
        if x - width / 2.0 > free && x + width / 2.0 < WIDTH {
            free = x + width / 2.0 + GAP;
            texts.push_str(&format!("<text x=\"{}\" y=\"{}\">{words}</text>", place(x), place(bottom + 16.0)));
        }
    }
    format!("<path class=\"grid\" d=\"{lines}\"/><g class=\"ticks x\">{texts}</g>")
}

/// Returns the data that a reader can save: a row for each operation.
fn data(lanes: &OperationLanes) -> Value {
    let head = json!(["client", "operation", "start_s", "end_s"]);
    let rows = lanes.operations.iter().map(|one| json!([one.client, one.label, one.start_s, one.end_s]));
    json!({"cells": std::iter::once(head).chain(rows).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(client: &str, start_s: f64, end_s: Option<f64>) -> LaneOperation {
        let label = format!("wrote \"<{client}>\"");
        LaneOperation { client: client.to_owned(), label, ink: Ink::One, start_s, end_s }
    }

    fn lanes(operations: Vec<LaneOperation>) -> OperationLanes {
        let marks = vec![Mark { until: Some(30.0), ..Mark::new(2.0, "pause") }];
        OperationLanes { id: "proof".to_owned(), title: "A key".to_owned(), note: String::new(), operations, marks }
    }

    #[test]
    fn the_order_of_times_is_kept() {
        let all = lanes(vec![operation("a", 1.0, Some(1.000_1)), operation("b", 1.000_05, Some(9.0))]);
        let axis = ShortenedAxis::new(&all, [100.0, 900.0]);
        let places = [0.5, 1.0, 1.000_05, 1.000_1, 2.0, 9.0, 99.0].map(|at| axis.place(at));
        assert!(places.is_sorted() && places[0] == 100.0 && places[1] == 100.0 && places[5] == 900.0, "{places:?}");
        assert!(places[2] - places[1] > 20.0, "short operations are visible: {places:?}");
    }

    #[test]
    fn clients_have_lanes_and_unknown_ends_are_open() {
        let all =
            lanes(vec![operation("a", 1.0, Some(2.0)), operation("a", 1.5, None), operation("b", 4.0, Some(5.0))]);
        let drawn = drawn(&all);
        assert_eq!(drawn.svg.matches("class=\"area i-1\"").count(), 2);
        assert_eq!(drawn.svg.matches("class=\"area i-1 open\"").count(), 1);
        assert!(
            drawn.svg.contains("wrote &quot;&lt;a&gt;&quot;") && drawn.svg.contains(">pause</text>"),
            "{}",
            drawn.svg
        );
        assert_eq!(drawn.data["cells"].as_array().unwrap().len(), 4);
        assert_eq!(drawn.data["cells"][2][3], Value::Null);
    }

    #[test]
    fn nothing_is_drawn_of_no_operations() {
        assert!(!drawn(&lanes(Vec::new())).svg.contains("area"));
    }
}
