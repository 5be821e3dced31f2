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
mod tests {
    use std::collections::BTreeMap;

    use record::results::{Crossing, Lead, Outcomes, Scaling, Throughput, Usl};
    use serde_json::{Value, json};

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

    /// Modes over agents and over the rates of a link, which are texts; slow links make the first mode err.
    fn modes(modes: usize, rates: &[&str]) -> Results {
        let mut results = Results::default();
        for repeat in 1..=2 {
            for mode in 0..modes {
                for rate in rates {
                    for agents in [1_u32, 2, 4, 8] {
                        let operations_per_s = Some(60.0 * f64::from(agents));
                        let wrong = if mode == 0 && *rate == "5mbit" { 3.0 } else { 0.0 };
                        results.trials.push(Trial {
                            variant: Some(format!("m{mode}")),
                            point: [
                                ("load.agents".to_owned(), json!(agents)),
                                ("lab.link.rate".to_owned(), json!(rate)),
                            ]
                            .into(),
                            repeat,
                            throughput: Throughput {
                                operations_per_s,
                                cycles_per_s: operations_per_s.map(|rate| rate / 6.0),
                                ..Throughput::default()
                            },
                            outcomes: Outcomes {
                                ok: 97,
                                timeout: if agents == 8 { 3 } else { 0 },
                                ..Outcomes::default()
                            },
                            wrong_per_1000_cycles: Some(wrong),
                            ..Trial::default()
                        });
                    }
                }
            }
        }
        for mode in 0..modes {
            for rate in rates {
                let point = [("lab.link.rate", json!(rate))];
                results.scaling.push(curve(&format!("m{mode}"), &point, &[1.0, 2.0, 4.0, 8.0], 2));
            }
        }
        results
    }

    #[test]
    fn cycles_and_what_was_not_ok_are_drawn_from_the_trials() {
        let charts = of_run(&modes(2, &["100mbit"]));
        let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
        assert_eq!(
            titles,
            ["Throughput over load.agents", "Cycles in all, and per agent", "What was not ok, over agents"]
        );
        let cycles = &charts[1].panels;
        let line = |panel: &Panel| panel.lines[2].points.clone();
        assert_eq!(line(&cycles[0]), [(1.0, Some(10.0)), (2.0, Some(20.0)), (4.0, Some(40.0)), (8.0, Some(80.0))]);
        assert!(line(&cycles[1]).iter().all(|point| point.1 == Some(10.0)), "ten for each agent");
        let not_ok: Vec<&str> = charts[2].panels.iter().map(|panel| panel.label.as_str()).collect();
        assert_eq!(not_ok, ["timeouts, of the operations"], "nothing failed, nothing was wrong");
        assert_eq!(line(&charts[2].panels[0])[2..], [(4.0, Some(0.0)), (8.0, Some(3.0))]);
    }

    #[test]
    fn texts_stand_on_an_axis_in_the_order_of_the_file() {
        let charts = of_run(&modes(2, &["1gbit", "100mbit", "5mbit"]));
        let by_rate: Vec<&Chart> = charts.iter().filter(|chart| chart.x.unit == "rate").collect();
        assert_eq!(by_rate[0].title, "Throughput at each rate");
        assert_eq!(by_rate[0].x.names, ["1gbit", "100mbit", "5mbit"]);
        let wrong = by_rate[1].panels.iter().find(|panel| panel.label.starts_with("wrong")).unwrap();
        let of_m0: Vec<_> = wrong.lines.iter().filter(|line| line.name == "m0, agents 1").collect();
        assert_eq!(of_m0[0].points, [(0.0, Some(0.0)), (1.0, Some(0.0)), (2.0, Some(3.0))]);
        let drawn = render::drawn(by_rate[0]);
        assert!(["1gbit", "100mbit", "5mbit rate"].iter().all(|tick| drawn.svg.contains(&format!(">{tick}</text>"))));
        assert_eq!(drawn.data["names"], json!(["1gbit", "100mbit", "5mbit"]));
    }

    #[test]
    fn more_than_five_curves_differ_in_pattern_too_and_leave_their_laws_out() {
        let charts = of_run(&modes(6, &["100mbit"]));
        let lines = &charts[0].panels[0].lines;
        let mut pens: Vec<String> = lines
            .iter()
            .filter(|line| line.shape != Shape::Dots)
            .map(|line| format!("{:?} {:?}", line.ink, line.shape))
            .collect();
        assert_eq!(pens.len(), 6, "no laws");
        pens.sort();
        pens.dedup();
        assert_eq!(pens.len(), 6);
        let many = of_run(&modes(17, &["100mbit"]));
        assert!(many[0].note.ends_with("2 more curves have no room here; the tables have them."));
    }

    #[test]
    fn energy_is_drawn_over_the_loads_of_each_variant() {
        let loads = [4.0, 32.0];
        let mut results = results(vec![curve("pi2c", &[], &loads, 1), curve("devx", &[], &loads, 1)]);
        let point = |agents: u32| BTreeMap::from([("load.agents".to_owned(), Value::from(agents))]);
        let trial = |agents: u32, repeat: u32, joules: f64| {
            let mut trial =
                Trial { repeat, variant: Some("devx".to_owned()), point: point(agents), ..Default::default() };
            trial.cost.joules_per_cycle = Some(joules);
            trial
        };
        let void = record::results::Verdict { is: record::results::Trust::Void, ..Default::default() };
        let spoiled = Trial { verdict: void, ..trial(32, 3, 9.0) };
        results.trials = vec![trial(4, 1, 0.4), trial(32, 1, 0.25), trial(32, 2, 0.5), spoiled];
        let charts = of_run(&results);
        let energy = charts.iter().find(|chart| chart.title == "Energy over agents").unwrap();
        let lines = &energy.panels[0].lines;
        let devx = lines.iter().find(|line| line.name == "devx").unwrap();
        assert_eq!(devx.points, [(4.0, Some(0.4)), (32.0, Some(0.375))], "a void trial is not drawn");
        assert!(energy.note.contains("Modelled"));
    }

    #[test]
    fn without_a_sweep_there_is_nothing() {
        assert_eq!(of_run(&Results::default()), Vec::new());
    }
}
