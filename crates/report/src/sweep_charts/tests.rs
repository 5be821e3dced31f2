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
fn energy_is_drawn_over_the_loads_of_each_variant() {
    let loads = [4.0, 32.0];
    let mut results = results(vec![curve("pi2c", &[], &loads, 1), curve("devx", &[], &loads, 1)]);
    results.costs = crate::example::costs();
    let mut trial = record::results::Trial { repeat: 2, variant: Some("devx".to_owned()), ..Default::default() };
    trial.point = results.costs[3].point.clone();
    trial.cost.joules_per_cycle = Some(0.5);
    let void = record::results::Verdict { is: record::results::Trust::Void, ..Default::default() };
    results.trials = vec![trial.clone(), record::results::Trial { repeat: 1, verdict: void, ..trial }];
    let charts = of_run(&results);
    assert_eq!(charts[2].title, "Energy over load.agents");
    let lines = &charts[2].panels[0].lines;
    let devx: Vec<&Line> = lines.iter().filter(|line| line.name.starts_with("devx")).collect();
    let shapes: Vec<Shape> = devx.iter().map(|line| line.shape).collect();
    assert_eq!(shapes, [Shape::Dots, Shape::Solid], "a void trial is not drawn");
    assert_eq!(devx[0].points, [(32.0, Some(0.5))]);
    assert_eq!(devx[1].points, [(4.0, Some(41.7 / 98.0)), (32.0, Some(41.7 / 100.0))]);
    assert!(charts[2].note.contains("Modelled"));
}

#[test]
fn without_a_sweep_there_is_nothing() {
    assert_eq!(of_run(&Results::default()), Vec::new());
}
