//! SVG path data (`d`) for points: lines with gaps, areas between two lines, and bars. Reduces the
//! number of points without losing an extreme. Steps are relative whole numbers in tenths of the
//! chart's unit ([`SCALE`] compensates), because a page has many steps.

use super::axis::Axis;

/// Transformation that scales paths to the chart's unit.
pub const SCALE: &str = "scale(.1)";

/// A point in the drawing. `None` is a gap.
type PlotPoint = Option<(f64, f64)>;

/// Writes relative steps without accumulating rounding errors: each step starts at the rounded
/// position.
#[derive(Default)]
struct PathPen {
    text: String,
    at: (i64, i64),
}

impl PathPen {
    fn go(&mut self, verb: char, (x, y): (f64, f64)) {
        let (x, y) = (tenths(x), tenths(y));
        if verb == 'M' {
            self.text.push_str(&format!("M{x} {y}"));
        } else {
            let (dx, dy) = (x - self.at.0, y - self.at.1);
            let gap = if dy < 0 { "" } else { " " };
            self.text.push_str(&format!("l{dx}{gap}{dy}"));
        }
        self.at = (x, y);
    }
}

fn tenths(place: f64) -> i64 {
    (place * 10.0).round() as i64
}

/// Returns a line through the points. A gap stays a gap. A single point between gaps becomes a dot
/// (a line of length zero with round ends).
pub fn line(points: &[DataPoint], x: &Axis, y: &Axis) -> String {
    let mut pen = PathPen::default();
    for run in runs(points, x, y) {
        pen.go('M', run[0]);
        for &place in &run[1..] {
            pen.go('l', place);
        }
        if run.len() == 1 {
            pen.text.push_str("h1");
        }
    }
    pen.text
}

/// Returns a dot for each point.
pub fn dots(points: &[DataPoint], x: &Axis, y: &Axis) -> String {
    let mut pen = PathPen::default();
    for place in points.iter().filter_map(|point| placed(point, x, y)) {
        pen.go('M', place);
        pen.text.push_str("h1");
    }
    pen.text
}

/// Returns the area between an upper and a lower line over the same x values.
pub fn area(upper: &[DataPoint], lower: &[DataPoint], x: &Axis, y: &Axis) -> String {
    let both: Vec<DataPoint> = upper.iter().zip(lower).map(|(up, low)| (up.0, up.1.and(low.1).and(up.1))).collect();
    let mut pen = PathPen::default();
    let mut start = 0;
    while start < both.len() {
        let length = both[start..].iter().position(|point| point.1.is_none()).unwrap_or(both.len() - start);
        let stretch = start..start + length;
        let there: Vec<(f64, f64)> = upper[stretch.clone()].iter().filter_map(|point| placed(point, x, y)).collect();
        let back = lower[stretch].iter().rev().filter_map(|point| placed(point, x, y));
        if let Some((&first, rest)) = there.split_first() {
            pen.go('M', first);
            rest.iter().for_each(|&place| pen.go('l', place));
            back.for_each(|place| pen.go('l', place));
            pen.text.push('z');
        }
        start += length + 1;
    }
    pen.text
}

/// Returns vertical bars from the axis' start to each value, `width` wide and centred on the x
/// value. A value of 0 and a gap have no bar. A bar is at least `least` high, so that 1 among
/// thousands is visible.
pub fn bars(points: &[DataPoint], x: &Axis, y: &Axis, width: f64, least: f64) -> String {
    let mut text = String::new();
    for point in points.iter().filter(|point| point.1.is_some_and(|value| value > 0.0)) {
        let Some((at, top)) = placed(point, x, y) else { continue };
        let top = top.min(y.start - least);
        let (left, height) = (tenths(at - width / 2.0), tenths(y.start - top));
        text.push_str(&format!("M{left} {}v-{height}h{}v{height}z", tenths(y.start), tenths(width)));
    }
    text
}

fn placed(point: &DataPoint, x: &Axis, y: &Axis) -> PlotPoint {
    Some((x.place(point.0)?, y.place(point.1?)?))
}

/// Returns the runs of points without a gap.
fn runs(points: &[DataPoint], x: &Axis, y: &Axis) -> Vec<Vec<(f64, f64)>> {
    let mut runs = vec![Vec::new()];
    for point in points {
        match (placed(point, x, y), runs.last_mut()) {
            (Some(place), Some(run)) => run.push(place),
            _ => runs.push(Vec::new()),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

/// A point of a line. `None` is a gap.
pub type DataPoint = (f64, Option<f64>);

/// Returns at most about `most` points. Each stretch keeps its smallest and largest value, in their
/// order, and its gap if it has one.
pub fn thinned(points: &[DataPoint], most: usize) -> Vec<DataPoint> {
    if points.len() <= most.max(3) {
        return points.to_vec();
    }
    // Two points per stretch, three with a gap.
    let stretch = points.len().div_ceil((most / 2).max(1));
    let mut kept = Vec::with_capacity(most);
    for stretch in points.chunks(stretch) {
        let values = stretch.iter().enumerate().filter_map(|(index, point)| Some((index, point.1?)));
        let ends = [
            values.clone().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index),
            values.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index),
            stretch.iter().position(|point| point.1.is_none()),
        ];
        let mut indices: Vec<usize> = ends.into_iter().flatten().collect();
        indices.sort_unstable();
        indices.dedup();
        kept.extend(indices.into_iter().map(|index| stretch[index]));
    }
    kept
}

/// Thins the lines of a stack as [`thinned`] does. All lines keep points at the same x values:
/// those of the smallest and the largest sum, and of gaps.
pub fn thinned_together(lines: &[Vec<DataPoint>], most: usize) -> Vec<Vec<DataPoint>> {
    let length = lines.iter().map(Vec::len).max().unwrap_or(0);
    let mut sums: Vec<DataPoint> = Vec::new();
    for index in 0..length {
        sums.push((index as f64, lines.iter().filter_map(|line| line.get(index)?.1).reduce(|a, b| a + b)));
    }
    let kept: Vec<usize> = thinned(&sums, most).into_iter().map(|(index, _)| index as usize).collect();
    lines.iter().map(|line| kept.iter().filter_map(|&index| line.get(index).copied()).collect()).collect()
}
