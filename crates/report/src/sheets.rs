//! Which curves of a sweep are drawn together. It must not draw.

use std::collections::BTreeMap;

use record::results::{Results, Scaling, Trial, Trust};
use serde_json::Value;

use crate::facts::plain;

/// Curves on a chart at most; of more, each point of the other swept paths has a chart of its own.
const CURVES: usize = 8;
/// Curves of one point on a chart at most: so many patterns and colours there are.
const PATTERNS: usize = 15;
/// Charts of a kind for each swept path, at most; the table has all figures.
const SHEETS: usize = 6;

/// Curves that are drawn together.
pub struct Sheet<'a> {
    /// What was found.
    pub results: &'a Results,
    /// The swept path.
    pub over: &'a str,
    /// Its values, where they are texts, in the order of the file; else empty.
    pub names: Vec<String>,
    /// The curves.
    pub curves: Vec<Curve<'a>>,
    /// What the sheet is of, if there are several; may be empty.
    pub of: String,
    /// Curves that had no room.
    pub left_out: usize,
}

/// A variant at one point of the other swept paths.
pub struct Curve<'a> {
    /// What tells it from the others.
    pub name: String,
    /// The variant; empty without variants.
    pub variant: &'a str,
    /// Values of the other swept paths.
    pub at: BTreeMap<String, Value>,
    /// What the analysis made of it; `None` over texts.
    pub scaling: Option<&'a Scaling>,
    /// The trials that can be used at each load, or at each place among the names.
    pub points: Vec<(f64, Vec<&'a Trial>)>,
}

/// The sheets of a run's sweeps, those over numbers first.
pub fn sheets(results: &Results) -> Vec<Sheet<'_>> {
    let mut paths: Vec<&str> = Vec::new();
    for scaling in &results.scaling {
        if !paths.contains(&scaling.over.as_str()) {
            paths.push(&scaling.over);
        }
    }
    let over_numbers = paths.into_iter().flat_map(|over| sorted(results, over, Vec::new(), over_loads(results, over)));
    over_numbers.chain(over_texts(results)).collect()
}

/// The trials that are not void; all of them if all are.
fn usable(results: &Results) -> impl Iterator<Item = &Trial> {
    let all_void = results.trials.iter().all(|trial| trial.verdict.is == Trust::Void);
    results.trials.iter().filter(move |trial| all_void || trial.verdict.is != Trust::Void)
}

fn without(point: &BTreeMap<String, Value>, path: &str) -> BTreeMap<String, Value> {
    point.iter().filter(|(key, _)| *key != path).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn over_loads<'a>(results: &'a Results, over: &str) -> Vec<Curve<'a>> {
    let curve = |scaling: &'a Scaling| {
        let own = |trial: &&Trial| {
            trial.variant.as_deref().unwrap_or_default() == scaling.variant && without(&trial.point, over) == scaling.at
        };
        let at = |load: f64| {
            let here = |trial: &&Trial| trial.point.get(over).and_then(Value::as_f64) == Some(load);
            usable(results).filter(own).filter(here).collect()
        };
        Curve {
            name: String::new(),
            variant: &scaling.variant,
            at: scaling.at.clone(),
            scaling: Some(scaling),
            points: scaling.points.iter().map(|point| (point.load, at(point.load))).collect(),
        }
    };
    results.scaling.iter().filter(|scaling| scaling.over == over).map(curve).collect()
}

/// Sheets over paths that take amounts written as texts, such as `5mbit`. Other texts are a choice without an order.
fn over_texts(results: &Results) -> Vec<Sheet<'_>> {
    let mut values: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for trial in &results.trials {
        for (path, value) in &trial.point {
            let known = values.entry(path).or_default();
            if !known.contains(&value) {
                known.push(value);
            }
        }
    }
    let is_amount = |value: &&&Value| value.as_str().is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()));
    values.retain(|_, values| values.iter().filter(is_amount).count() > 1);
    let of_path = |(over, values): (&'_ str, Vec<&Value>)| {
        let mut curves: Vec<Curve> = Vec::new();
        for trial in usable(results) {
            let Some(place) = trial.point.get(over).and_then(|value| values.iter().position(|known| *known == value))
            else {
                continue;
            };
            let (variant, at) = (trial.variant.as_deref().unwrap_or_default(), without(&trial.point, over));
            let index = curves.iter().position(|curve| curve.variant == variant && curve.at == at);
            let index = index.unwrap_or_else(|| {
                let points = (0..values.len()).map(|place| (place as f64, Vec::new())).collect();
                curves.push(Curve { name: String::new(), variant, at, scaling: None, points });
                curves.len() - 1
            });
            curves[index].points[place].1.push(trial);
        }
        (over.to_owned(), values.iter().map(|value| plain(value)).collect::<Vec<String>>(), curves)
    };
    let made: Vec<(String, Vec<String>, Vec<Curve>)> = values.into_iter().map(of_path).collect();
    let path = |over: &str| results.trials.iter().find_map(|trial| trial.point.get_key_value(over)).map(|(key, _)| key);
    made.into_iter()
        .flat_map(|(over, names, curves)| {
            path(&over).map_or_else(Vec::new, |over| sorted(results, over, names, curves))
        })
        .collect()
}

/// The curves on one sheet, or where they are too many on one for each point of the other paths.
fn sorted<'a>(results: &'a Results, over: &'a str, names: Vec<String>, curves: Vec<Curve<'a>>) -> Vec<Sheet<'a>> {
    if curves.len() <= CURVES {
        let named = |curve: Curve<'a>| Curve { name: curve_name(curve.variant, &curve.at), ..curve };
        let curves = curves.into_iter().map(named).collect();
        return vec![Sheet { results, over, names, curves, of: String::new(), left_out: 0 }];
    }
    let mut sheets: Vec<(BTreeMap<String, Value>, Sheet)> = Vec::new();
    for curve in curves {
        let at = curve.at.clone();
        let index = sheets.iter().position(|(known, _)| *known == at).unwrap_or(sheets.len());
        if index == sheets.len() {
            let (of, names) = (curve_name("", &at), names.clone());
            sheets.push((at, Sheet { results, over, names, curves: Vec::new(), of, left_out: 0 }));
        }
        let sheet = &mut sheets[index].1;
        if sheet.curves.len() < PATTERNS {
            sheet.curves.push(Curve { name: curve_name(curve.variant, &BTreeMap::new()), ..curve });
        } else {
            sheet.left_out += 1;
        }
    }
    sheets.into_iter().take(SHEETS).map(|(_, sheet)| sheet).collect()
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
