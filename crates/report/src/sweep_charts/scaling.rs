//! Chart: throughput over the swept load, with the fitted law, peaks, knees and crossings.

use record::results::{Crossing, Lead, Scaling, Usl};

use super::{Kind, Sheet, ink};
use crate::drawing::axis::Spacing;
use crate::drawing::chart::{Chart, Line, Mark, Panel, Shape, Unit};
use crate::drawing::thinning::Point;
use crate::numbers;

pub const KIND: Kind = Kind { name: "scaling", place: 1, draw };

/// Steps in which a law is drawn.
const STEPS: usize = 80;
/// Curves whose knees and peaks are marked, at most: more would hide the lines.
const MARKED: usize = 4;

fn draw(sheet: &Sheet) -> Option<Chart> {
    let mut lines = sheet.measured(|_, rate| rate);
    let axis = sheet.axis();
    for (index, (name, scaling)) in sheet.curves.iter().enumerate() {
        let Some(usl) = &scaling.usl else { continue };
        let points = law(usl, scaling, axis.spacing);
        lines.push(Line { name: law_name(sheet, name), ink: ink(index), shape: Shape::Dashed, points });
    }
    let mut panel = Panel::linear("ok operations per second", Unit::PerSecond, 300.0, lines);
    if sheet.curves.len() <= MARKED {
        for (name, scaling) in &sheet.curves {
            let Some(peak) = scaling.peak_per_s else { continue };
            panel.levels.push((format!("peak{}: {}", of(sheet, name), numbers::rate(peak)), peak));
        }
    }
    let note = "Dots are the repeats, lines go through their means; the dashed curve is the Universal Scalability Law fitted to them. \
                At the knee the line of the lightest loads reaches the plateau: more load brings little but waiting.";
    panel.has_values().then(|| sheet.chart(&format!("Throughput over {}", sheet.over), note, panel, marks(sheet)))
}

fn law_name(sheet: &Sheet, name: &str) -> String {
    if sheet.curves.len() == 1 { "fitted law".to_owned() } else { format!("{name}, fitted law") }
}

/// ` of pi`, where there are several curves.
fn of(sheet: &Sheet, name: &str) -> String {
    if sheet.curves.len() == 1 { String::new() } else { format!(" of {name}") }
}

/// The fitted law between the lowest and the highest load.
fn law(usl: &Usl, scaling: &Scaling, spacing: Spacing) -> Vec<Point> {
    let (Some(first), Some(last)) = (scaling.points.first(), scaling.points.last()) else { return Vec::new() };
    let (from, to) = (first.load, last.load);
    let at = |step: usize| {
        let share = step as f64 / STEPS as f64;
        let load = if spacing == Spacing::Linear { from + share * (to - from) } else { from * (to / from).powf(share) };
        let rate = usl.lambda * load / (1.0 + usl.sigma * (load - 1.0) + usl.kappa * load * (load - 1.0));
        (load, Some(rate))
    };
    (0..=STEPS).map(at).collect()
}

/// Knees and crossings, by rising load.
fn marks(sheet: &Sheet) -> Vec<Mark> {
    let shown = |text: String, at: f64| Mark { at, until: None, label: text, colours: None };
    let mut marks = Vec::new();
    if sheet.curves.len() <= MARKED {
        for (name, scaling) in &sheet.curves {
            let knee = |knee: f64| shown(format!("knee{}: {}", of(sheet, name), numbers::number(knee)), knee);
            marks.extend(scaling.knee.map(knee));
        }
    }
    let here = |crossing: &&Crossing| {
        crossing.over == sheet.over
            && crossing.lead == Lead::Crosses
            && sheet.curves.iter().any(|(_, curve)| curve.at == crossing.point && curve.variant == crossing.a)
    };
    let crossings: Vec<&Crossing> = sheet.results.crossings.iter().filter(here).collect();
    if crossings.len() <= MARKED {
        let crossing = |crossing: &&Crossing| {
            let at = crossing.at?;
            Some(shown(format!("{} overtakes {}: {}", crossing.a, crossing.b, numbers::number(at)), at))
        };
        marks.extend(crossings.iter().filter_map(crossing));
    }
    marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    marks
}
