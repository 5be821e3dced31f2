//! The charts of a whole sweep, a file for each kind: over the swept load instead of a clock. They must not fit or interpolate: what
//! they draw stands in the results.

mod cost;
mod per_unit;
mod scaling;

use std::collections::BTreeMap;

use record::results::{Results, Scaling, ScalingPoint};
use serde_json::Value;

use crate::drawing::axis::Spacing;
use crate::drawing::chart::{Chart, Ink, Line, Mark, Panel, Range, Shape};
use crate::drawing::thinning::Point;
use crate::facts::plain;

/// Curves on a chart at most; of more, each point of the other swept paths has a chart of its own.
const CURVES: usize = 8;
/// Charts of a kind for each swept path, at most; the table has all figures.
const SHEETS: usize = 6;
/// Loads of which each is so many times the one before are spread by their logarithm.
const FACTOR: f64 = 1.4;

/// A kind of chart.
pub struct Kind {
    /// Its name; the file's.
    pub name: &'static str,
    /// Where it stands among the others, from 1.
    pub place: u8,
    /// Draws it; `None` where it would show nothing.
    pub draw: fn(&Sheet) -> Option<Chart>,
}

/// Every kind, by name.
pub const KINDS: &[Kind] = &[cost::KIND, per_unit::KIND, scaling::KIND];

/// Curves that are drawn together.
pub struct Sheet<'a> {
    /// What was found.
    pub results: &'a Results,
    /// The swept path.
    pub over: &'a str,
    /// The curves, with their names.
    pub curves: Vec<(String, &'a Scaling)>,
    /// What the sheet is of, if there are several; may be empty.
    pub of: String,
}

/// All charts of a run's sweeps, in page order; none without one.
pub fn of_run(results: &Results) -> Vec<Chart> {
    let mut kinds: Vec<&Kind> = KINDS.iter().collect();
    kinds.sort_by_key(|kind| kind.place);
    let mut charts = Vec::new();
    for sheet in sheets(results) {
        charts.extend(kinds.iter().filter_map(|kind| {
            let chart = (kind.draw)(&sheet)?;
            Some((kind.name, chart))
        }));
    }
    let numbered = charts.into_iter().enumerate();
    numbered
        .map(|(index, (name, chart))| Chart { id: format!("sweep-{}-{}", name.replace('_', "-"), index + 1), ..chart })
        .collect()
}

fn sheets(results: &Results) -> Vec<Sheet<'_>> {
    let mut paths: Vec<&str> = Vec::new();
    for scaling in &results.scaling {
        if !paths.contains(&scaling.over.as_str()) {
            paths.push(&scaling.over);
        }
    }
    paths.into_iter().flat_map(|over| of_path(results, over)).collect()
}

fn of_path<'a>(results: &'a Results, over: &'a str) -> Vec<Sheet<'a>> {
    let curves: Vec<&Scaling> = results.scaling.iter().filter(|scaling| scaling.over == over).collect();
    if curves.len() <= CURVES {
        let curves = curves.iter().map(|scaling| (curve_name(&scaling.variant, &scaling.at), *scaling)).collect();
        return vec![Sheet { results, over, curves, of: String::new() }];
    }
    let mut points: Vec<&BTreeMap<String, Value>> = Vec::new();
    for scaling in &curves {
        if !points.contains(&&scaling.at) {
            points.push(&scaling.at);
        }
    }
    let sheet = |at: &BTreeMap<String, Value>| {
        let of_point = curves.iter().filter(|scaling| scaling.at == *at).take(CURVES);
        let curves = of_point.map(|scaling| (curve_name(&scaling.variant, &BTreeMap::new()), *scaling)).collect();
        Sheet { results, over, curves, of: curve_name("", at) }
    };
    points.into_iter().take(SHEETS).map(sheet).collect()
}

/// `pi, hosts 3`: what tells a curve from others; `throughput` where nothing does.
pub fn curve_name(variant: &str, at: &BTreeMap<String, Value>) -> String {
    let labels = at.iter().map(|(path, value)| format!("{} {}", short(path), plain(value)));
    let parts: Vec<String> =
        std::iter::once(variant.to_owned()).filter(|name| !name.is_empty()).chain(labels).collect();
    if parts.is_empty() { "throughput".to_owned() } else { parts.join(", ") }
}

/// `agents` of `load.agents`.
pub fn short(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

impl Sheet<'_> {
    /// A chart over the swept load.
    fn chart(&self, title: &str, note: &str, panel: Panel, marks: Vec<Mark>) -> Chart {
        let of = if self.of.is_empty() { String::new() } else { format!(", {}", self.of) };
        Chart {
            id: String::new(),
            title: format!("{title}{of}"),
            note: note.to_owned(),
            x: self.axis(),
            panels: vec![panel],
            marks,
            measured: None,
        }
    }

    fn axis(&self) -> Range {
        let mut loads: Vec<f64> =
            self.curves.iter().flat_map(|(_, scaling)| scaling.points.iter().map(|point| point.load)).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        let (first, last) = (loads.first().copied().unwrap_or(1.0), loads.last().copied().unwrap_or(1.0));
        let spread = loads.len() > 2 && loads.windows(2).all(|pair| pair[1] >= FACTOR * pair[0]);
        let doubled = loads.iter().all(|load| load.log2().fract() == 0.0);
        let (from, spacing) = match (spread, doubled) {
            (true, true) => (first, Spacing::Doubling),
            (true, false) => (first, Spacing::Log),
            (false, _) => (0.0, Spacing::Linear),
        };
        Range { from, to: last, spacing, unit: short(self.over).to_owned(), signed: false }
    }

    /// For each curve the line of its means, and a dot for each repeat where there are several.
    fn measured(&self, value: impl Fn(&ScalingPoint, f64) -> f64) -> Vec<Line> {
        let mut lines = Vec::new();
        for (index, (name, scaling)) in self.curves.iter().enumerate() {
            let ink = ink(index);
            let repeats = scaling.points.iter().map(|point| point.per_s.len()).max().unwrap_or(0);
            for repeat in (0..repeats).filter(|_| repeats > 1) {
                let of_repeat =
                    |point: &ScalingPoint| Some((point.load, Some(value(point, *point.per_s.get(repeat)?))));
                let points: Vec<Point> = scaling.points.iter().filter_map(of_repeat).collect();
                lines.push(Line { name: format!("{name} #{}", repeat + 1), ink, shape: Shape::Dots, points });
            }
            let mean = |point: &ScalingPoint| {
                let mean = point.per_s.iter().sum::<f64>() / point.per_s.len() as f64;
                (point.load, Some(value(point, mean)).filter(|value| value.is_finite()))
            };
            let points = scaling.points.iter().map(mean).collect();
            lines.push(Line { name: name.clone(), ink, shape: Shape::Solid, points });
        }
        lines
    }
}

/// The colour of the n-th curve; its lines and dots share it.
fn ink(index: usize) -> Ink {
    let inks = [Ink::One, Ink::Three, Ink::Two, Ink::Four, Ink::Five];
    inks[index % inks.len()]
}

#[cfg(test)]
mod tests;
