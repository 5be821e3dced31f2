//! Chart: throughput over the swept load, with the fitted law, peaks, knees and crossings.

use record::results::{Crossing, Lead, Scaling, Usl};

use super::{Kind, Sheet};
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
    // A pattern that tells curves apart leaves none for their laws; the table has them.
    for (index, curve) in sheet.curves.iter().enumerate().filter(|_| !sheet.has_patterns()) {
        let Some((scaling, usl)) = curve.scaling.and_then(|scaling| Some((scaling, scaling.usl.as_ref()?))) else {
            continue;
        };
        let (points, ink) = (law(usl, scaling, axis.spacing), sheet.pen(index).0);
        lines.push(Line { name: law_name(sheet, &curve.name), ink, shape: Shape::Dashed, points });
    }
    let mut panel = Panel::linear("ok operations per second", Unit::PerSecond, 300.0, lines);
    if sheet.curves.len() <= MARKED {
        for curve in &sheet.curves {
            let Some(peak) = curve.scaling.and_then(|scaling| scaling.peak_per_s) else { continue };
            panel.levels.push((format!("peak{}: {}", of(sheet, &curve.name), numbers::rate(peak)), peak));
        }
    }
    let law = "the dashed curve is the Universal Scalability Law fitted to them";
    let law = if sheet.has_patterns() { "the fitted laws stand in the table" } else { law };
    let note = format!(
        "Dots are the repeats, lines go through their means; {law}. At the knee the line of the lightest loads reaches the plateau: \
         more load brings little but waiting."
    );
    let title = format!("Throughput over {}", sheet.over);
    panel.has_values().then(|| sheet.chart(&title, &note, vec![panel], marks(sheet)))
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
        for curve in &sheet.curves {
            let knee = |knee: f64| shown(format!("knee{}: {}", of(sheet, &curve.name), numbers::number(knee)), knee);
            marks.extend(curve.scaling.and_then(|scaling| scaling.knee).map(knee));
        }
    }
    let here = |crossing: &&Crossing| {
        crossing.over == sheet.over
            && crossing.lead == Lead::Crosses
            && sheet.curves.iter().any(|curve| curve.at == crossing.point && curve.variant == crossing.a)
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
