//! Chart: energy for each cycle over the swept load: what a service that is busier costs.

use record::results::{PointCost, Scaling, Trial, Trust};
use serde_json::Value;

use super::{Kind, Sheet, ink};
use crate::drawing::chart::{Chart, Line, Panel, Shape, Unit};
use crate::drawing::thinning::Point;

pub const KIND: Kind = Kind { name: "cost", place: 3, draw };

fn draw(sheet: &Sheet) -> Option<Chart> {
    let mut lines = Vec::new();
    for (index, (name, scaling)) in sheet.curves.iter().enumerate() {
        let costs: Vec<(f64, &PointCost)> =
            sheet.results.costs.iter().filter_map(|cost| Some((load_of(cost, scaling)?, cost))).collect();
        if costs.iter().any(|(_, cost)| cost.trials > 1) {
            lines.extend(repeats(sheet, scaling, &costs).into_iter().map(|(repeat, points)| Line {
                name: format!("{name} #{repeat}"),
                ink: ink(index),
                shape: Shape::Dots,
                points,
            }));
        }
        let mut points: Vec<Point> = costs.iter().map(|(load, cost)| (*load, cost.joules_per_cycle)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        lines.push(Line { name: name.clone(), ink: ink(index), shape: Shape::Solid, points });
    }
    let panel = Panel::linear("joules for each cycle, all hosts", Unit::Plain, 190.0, lines);
    let note = "Modelled from the profile's watts and the measured CPU. Hosts that idle draw power too: the busier they are, the more \
                cycles share it.";
    panel.has_values().then(|| sheet.chart(&format!("Energy over {}", sheet.over), note, panel, Vec::new()))
}

/// The load of a point that lies on this curve.
fn load_of(cost: &PointCost, scaling: &Scaling) -> Option<f64> {
    lies_on(&cost.variant, &cost.point, scaling)
}

fn lies_on(variant: &str, point: &std::collections::BTreeMap<String, Value>, scaling: &Scaling) -> Option<f64> {
    let load = point.get(&scaling.over)?.as_f64()?;
    let mut others = point.iter().filter(|(path, _)| **path != scaling.over);
    let same = variant == scaling.variant && others.all(|(path, value)| scaling.at.get(path) == Some(value));
    same.then_some(load)
}

/// What each repeat took, by rising load.
fn repeats(sheet: &Sheet, scaling: &Scaling, costs: &[(f64, &PointCost)]) -> Vec<(u32, Vec<Point>)> {
    let trials = &sheet.results.trials;
    let all_void = trials.iter().all(|trial| trial.verdict.is == Trust::Void);
    let of_trial = |trial: &Trial| {
        let load = lies_on(trial.variant.as_deref().unwrap_or_default(), &trial.point, scaling)?;
        let is_used = all_void || trial.verdict.is != Trust::Void;
        is_used.then_some((trial.repeat, load, trial.cost.joules_per_cycle?))
    };
    let measured: Vec<(u32, f64, f64)> = trials.iter().filter_map(of_trial).collect();
    let last = measured.iter().map(|(repeat, ..)| *repeat).max().unwrap_or(0);
    let mut loads: Vec<f64> = costs.iter().map(|(load, _)| *load).collect();
    loads.sort_by(f64::total_cmp);
    let of_repeat = |repeat: u32| {
        let at = |load: &f64| {
            let found = measured.iter().find(|(other, at, _)| *other == repeat && at == load)?;
            Some((*load, Some(found.2)))
        };
        (repeat, loads.iter().filter_map(at).collect())
    };
    (1..=last).map(of_repeat).filter(|(_, points): &(u32, Vec<Point>)| !points.is_empty()).collect()
}
