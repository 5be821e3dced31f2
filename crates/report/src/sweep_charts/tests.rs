//! Tests of the charts of a sweep.
#![allow(clippy::unwrap_used)]

use record::results::{Crossing, Lead, Usl};
use serde_json::json;

use super::*;
use crate::drawing::render;

fn curve(variant: &str, at: &[(&str, Value)], loads: &[f64], repeats: usize) -> Scaling {
    let per_s = |load: f64| (0..repeats).map(|repeat| load.min(8.0) + repeat as f64).collect();
    Scaling {
        variant: variant.to_owned(),
        over: "load.agents".to_owned(),
        at: at.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect(),
        points: loads.iter().map(|&load| ScalingPoint { load, per_s: per_s(load) }).collect(),
        knee: Some(8.0),
        peak_per_s: Some(8.5),
        peak_at: Some(16.0),
        usl: Some(Usl { lambda: 1.0, sigma: 0.1, ..Usl::default() }),
        ..Scaling::default()
    }
}

const DOUBLING: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];

fn results(scaling: Vec<Scaling>) -> Results {
    Results { scaling, ..Results::default() }
}

#[test]
fn a_sweep_has_two_charts_over_its_loads() {
    let charts = of_run(&results(vec![curve("", &[], &DOUBLING, 2)]));
    let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
    assert_eq!(titles, ["Throughput over load.agents", "Per agent"]);
    let (chart, lines) = (&charts[0], &charts[0].panels[0].lines);
    assert_eq!((chart.x.from, chart.x.to, chart.x.spacing), (1.0, 16.0, Spacing::Doubling));
    let shapes: Vec<Shape> = lines.iter().map(|line| line.shape).collect();
    assert_eq!(shapes, [Shape::Dots, Shape::Dots, Shape::Solid, Shape::Dashed]);
    assert_eq!(lines[2].points[4], (16.0, Some(8.5)), "the mean of 8 and 9");
    assert_eq!(lines[3].points.first(), Some(&(1.0, Some(1.0))));
    assert_eq!((chart.marks[0].at, chart.marks[0].label.as_str()), (8.0, "knee: 8"));
    assert_eq!(charts[1].panels[0].lines[2].points[4], (16.0, Some(8.5 / 16.0)));
    let drawn = render::drawn(chart);
    assert!(drawn.svg.contains("class=\"line i-1 dots\"") && drawn.svg.contains("peak: 8.5/s"));
    assert!(["1", "2", "4", "8", "16 agents"].iter().all(|tick| drawn.svg.contains(&format!(">{tick}</text>"))));
}

#[test]
fn one_repeat_has_no_dots_and_even_loads_no_logarithm() {
    let charts = of_run(&results(vec![curve("", &[], &[1.0, 2.0, 3.0, 4.0], 1)]));
    assert_eq!((charts[0].x.from, charts[0].x.spacing), (0.0, Spacing::Linear));
    assert_eq!(charts[0].panels[0].lines.len(), 2);
    let charts = of_run(&results(vec![curve("", &[], &[10.0, 30.0, 100.0], 1)]));
    assert_eq!((charts[0].x.from, charts[0].x.spacing), (10.0, Spacing::Log));
}

#[test]
fn variants_share_a_chart_and_their_crossing_is_marked() {
    let mut results = results(vec![curve("pi", &[], &DOUBLING, 1), curve("xeon", &[], &DOUBLING, 1)]);
    results.crossings = vec![Crossing {
        a: "pi".to_owned(),
        b: "xeon".to_owned(),
        over: "load.agents".to_owned(),
        lead: Lead::Crosses,
        at: Some(3.0),
        ..Crossing::default()
    }];
    let charts = of_run(&results);
    assert_eq!(charts.len(), 2);
    let marks: Vec<&str> = charts[0].marks.iter().map(|mark| mark.label.as_str()).collect();
    assert_eq!(marks, ["pi overtakes xeon: 3", "knee of pi: 8", "knee of xeon: 8"]);
}

#[test]
fn many_curves_have_a_chart_for_each_point_of_the_other_paths() {
    let mut curves = Vec::new();
    for hosts in 1..=3 {
        for variant in ["a", "b", "c", "d"] {
            curves.push(curve(variant, &[("lab.hosts", json!(hosts))], &DOUBLING, 1));
        }
    }
    let charts = of_run(&results(curves));
    assert_eq!(charts.len(), 6);
    assert_eq!(charts[2].title, "Throughput over load.agents, hosts 2");
    let mut ids: Vec<&str> = charts.iter().map(|chart| chart.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 6);
}

#[test]
fn without_a_sweep_there_is_nothing() {
    assert_eq!(of_run(&Results::default()), Vec::new());
}
