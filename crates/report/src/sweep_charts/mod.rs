//! The charts of a whole sweep, a file for each kind: over the swept load instead of a clock. They must not fit or interpolate: what
//! they draw stands in the results.

mod by_value;
mod cost;
mod not_ok;
mod per_unit;
mod scaling;

use record::results::{Results, ScalingPoint, Trial};

use crate::drawing::axis::Spacing;
use crate::drawing::chart::{Chart, Ink, Line, Mark, Panel, Range, Shape};
use crate::drawing::thinning::Point;
use crate::sheets::sheets;

pub use crate::sheets::{Sheet, curve_name, short};

/// Loads of which each is so many times the one before are spread by their logarithm.
const FACTOR: f64 = 1.4;
/// Curves told apart by colour alone; beyond, by the pattern of their lines, too.
const COLOURS: usize = 5;
/// Cycles per operation that differ from one by less are one: the figure would only be there twice.
const ONE_EACH: f64 = 0.95;

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
pub const KINDS: &[Kind] = &[by_value::KIND, cost::KIND, not_ok::KIND, per_unit::KIND, scaling::KIND];

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

impl Sheet<'_> {
    /// A chart over the swept load.
    fn chart(&self, title: &str, note: &str, panels: Vec<Panel>, marks: Vec<Mark>) -> Chart {
        let of = if self.of.is_empty() { String::new() } else { format!(", {}", self.of) };
        let left_out = match self.left_out {
            0 => String::new(),
            1 => " One more curve has no room here; the tables have it.".to_owned(),
            several => format!(" {several} more curves have no room here; the tables have them."),
        };
        Chart {
            id: String::new(),
            title: format!("{title}{of}"),
            note: format!("{note}{left_out}"),
            x: self.axis(),
            panels,
            marks,
            measured: None,
        }
    }

    fn axis(&self) -> Range {
        let unit = short(self.over).to_owned();
        if !self.names.is_empty() {
            let to = (self.names.len() - 1) as f64;
            return Range { from: 0.0, to, spacing: Spacing::Linear, unit, signed: false, names: self.names.clone() };
        }
        let mut loads: Vec<f64> =
            self.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0)).collect();
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
        Range { from, to: last, spacing, unit, signed: false, names: Vec::new() }
    }

    /// Whether cycles tell more than operations do: where some operations make a cycle.
    fn tells_cycles(&self) -> bool {
        let per_operation = |trial: &Trial| {
            Some(trial.throughput.cycles_per_s? / trial.throughput.operations_per_s.filter(|rate| *rate > 0.0)?)
        };
        let shares: Vec<f64> = self.trials().filter_map(per_operation).collect();
        shares.len() == self.trials().filter(|trial| trial.throughput.operations_per_s > Some(0.0)).count()
            && shares.iter().any(|share| *share < ONE_EACH)
    }

    fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.curves.iter().flat_map(|curve| &curve.points).flat_map(|(_, trials)| trials.iter().copied())
    }

    /// For each curve the line of its means, and a dot for each repeat where there are several. Of the analysis's own points.
    fn measured(&self, value: impl Fn(&ScalingPoint, f64) -> f64) -> Vec<Line> {
        let points = |index: usize| {
            let points = self.curves[index].scaling.iter().flat_map(|scaling| &scaling.points);
            points.map(|point| (point.load, point.per_s.iter().map(|rate| value(point, *rate)).collect())).collect()
        };
        self.lines(points)
    }

    /// The same of a figure of the trials.
    fn of_trials(&self, value: impl Fn(&Trial, f64) -> Option<f64>) -> Vec<Line> {
        let points = |index: usize| {
            let points = self.curves[index].points.iter();
            points.map(|(at, trials)| (*at, trials.iter().filter_map(|trial| value(trial, *at)).collect())).collect()
        };
        self.lines(points)
    }

    fn lines(&self, points: impl Fn(usize) -> Vec<(f64, Vec<f64>)>) -> Vec<Line> {
        let mut lines = Vec::new();
        for (index, curve) in self.curves.iter().enumerate() {
            let (ink, shape) = self.pen(index);
            let points = points(index);
            let repeats = points.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
            for repeat in (0..repeats).filter(|_| repeats > 1) {
                let of_repeat = |(at, values): &(f64, Vec<f64>)| Some((*at, Some(*values.get(repeat)?)));
                let points: Vec<Point> = points.iter().filter_map(of_repeat).collect();
                lines.push(Line { name: format!("{} #{}", curve.name, repeat + 1), ink, shape: Shape::Dots, points });
            }
            let mean = |(at, values): &(f64, Vec<f64>)| {
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                (*at, Some(mean).filter(|mean| mean.is_finite()))
            };
            lines.push(Line { name: curve.name.clone(), ink, shape, points: points.iter().map(mean).collect() });
        }
        lines
    }

    /// The colour and the pattern of the n-th curve; its dots share the colour.
    fn pen(&self, index: usize) -> (Ink, Shape) {
        if self.has_patterns() {
            return Ink::nth(index);
        }
        let inks = [Ink::One, Ink::Three, Ink::Two, Ink::Four, Ink::Five];
        (inks[index % inks.len()], Shape::Solid)
    }

    /// Whether curves are so many that patterns tell them apart, and not only colours.
    fn has_patterns(&self) -> bool {
        self.curves.len() > COLOURS
    }
}

#[cfg(test)]
mod tests;
