//! Who is compared with whom, and what makes a pair: trials of one repeat, or runs that were played in turn. It must not
//! look at figures.

use std::collections::BTreeMap;

use record::results::{Trial, Trust};
use serde_json::Value;

use super::figures::Figure;
use crate::stats::order::mean;

/// A choice with more values than this is no choice but a scale, and not compared value by value.
const CHOICES: usize = 6;

/// A trial and the run it belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Played<'a> {
    /// The trial.
    pub trial: &'a Trial,
    /// The run, counted from 0 among those of its side.
    pub run: usize,
    /// When its load began, by the calendar, if that is known.
    pub started_unix_s: Option<f64>,
}

/// One or several runs of an experiment, taken together.
#[derive(Debug, Clone)]
pub(crate) struct Side<'a> {
    /// Its name.
    pub name: String,
    /// Its trials.
    pub trials: Vec<Played<'a>>,
}

/// Two that are compared.
#[derive(Debug)]
pub(super) struct Couple<'a> {
    pub over: String,
    pub a: String,
    pub b: String,
    pub at: BTreeMap<String, Value>,
    pub units: Units<'a>,
}

/// What counts as one observation: a trial, or a run of several repeats that was played in turn with others.
#[derive(Debug, Clone)]
pub(super) struct Unit<'a>(Vec<&'a Trial>);

/// The observations.
#[derive(Debug)]
pub(super) enum Units<'a> {
    /// Played beside each other, so that what drifts falls out.
    Paired(Vec<(Unit<'a>, Unit<'a>)>),
    /// One after the other.
    Apart(Vec<Unit<'a>>, Vec<Unit<'a>>),
}

impl Unit<'_> {
    /// A figure of it: the mean over its trials, the geometric one where a ratio will be taken. `None` if one of them lacks it.
    pub fn value(&self, figure: &Figure) -> Option<f64> {
        let values: Vec<f64> = self.0.iter().map(|trial| figure.value(trial)).collect::<Option<_>>()?;
        if !figure.can_be_zero && values.iter().all(|value| *value > 0.0) {
            let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            return mean(&logarithms).map(f64::exp);
        }
        mean(&values)
    }
}

impl<'a> Couple<'a> {
    /// All trials of both.
    pub fn trials(&self) -> impl Iterator<Item = &'a Trial> + use<'a> {
        let units: Vec<Unit<'a>> = match &self.units {
            Units::Paired(pairs) => pairs.iter().flat_map(|(a, b)| [a.clone(), b.clone()]).collect(),
            Units::Apart(a, b) => a.iter().chain(b).cloned().collect(),
        };
        units.into_iter().flat_map(|unit| unit.0)
    }
}

/// Variants of one experiment, each beside the first, paired by repeat; without variants the first swept path that is a choice.
pub(super) fn within<'a>(variants: &[String], swept: &[String], played: &[Played<'a>]) -> Vec<Couple<'a>> {
    let usable = usable(played);
    let (over, names) = if variants.is_empty() {
        let Some(choice) = choice(swept, &usable) else { return Vec::new() };
        choice
    } else {
        ("variant".to_owned(), variants.to_vec())
    };
    let name = |trial: &Trial| match over.as_str() {
        "variant" => trial.variant.clone(),
        path => trial.point.get(path).map(plain),
    };
    let mut couples = Vec::new();
    let Some((a, others)) = names.split_first() else { return couples };
    for (at, of_point) in by_point(&usable, |trial| without(&trial.point, &over)) {
        for b in others {
            let is = |played: &Played<'a>, wanted: &str| name(played.trial).as_deref() == Some(wanted);
            let pair = |one: &Played<'a>| {
                let same = |other: &&Played<'a>| (other.run, other.trial.repeat) == (one.run, one.trial.repeat);
                let other = of_point.iter().filter(|played| is(played, b)).find(same)?;
                Some((Unit(vec![one.trial]), Unit(vec![other.trial])))
            };
            let pairs: Vec<_> = of_point.iter().filter(|played| is(played, a)).filter_map(pair).collect();
            if !pairs.is_empty() {
                let (over, a, b, at) = (over.clone(), a.clone(), b.clone(), at.clone());
                couples.push(Couple { over, a, b, at, units: Units::Paired(pairs) });
            }
        }
    }
    couples
}

/// Every side beside the first, at each variant and point that both have.
pub(super) fn between<'a>(sides: &[Side<'a>]) -> Vec<Couple<'a>> {
    let mut couples = Vec::new();
    let Some((a, others)) = sides.split_first() else { return couples };
    let points = |side: &Side<'a>| {
        by_point(&usable(&side.trials), |trial| {
            let variant = trial.variant.clone().map(|name| ("variant".to_owned(), Value::String(name)));
            trial.point.clone().into_iter().chain(variant).collect()
        })
    };
    let of_a = points(a);
    for b in others {
        let of_b = points(b);
        for (at, trials) in &of_a {
            if let Some((_, other)) = of_b.iter().find(|(other, _)| other == at) {
                let units = in_turn(trials, other).unwrap_or_else(|| Units::Apart(each(trials), each(other)));
                let (a, b) = (a.name.clone(), b.name.clone());
                couples.push(Couple { over: "run".to_owned(), a, b, at: at.clone(), units });
            }
        }
    }
    couples
}

/// Runs that were played in turn, paired in the order in which they began; `None` if they were not, or only once.
fn in_turn<'a>(a: &[Played<'a>], b: &[Played<'a>]) -> Option<Units<'a>> {
    let mut begun: Vec<(f64, bool, Unit<'a>)> = runs(a, true)?;
    begun.extend(runs(b, false)?);
    begun.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut pairs = Vec::new();
    // What is left over at the end has no partner.
    for two in begun.chunks_exact(2) {
        match two {
            [(_, true, a), (_, false, b)] | [(_, false, b), (_, true, a)] => pairs.push((a.clone(), b.clone())),
            _ => return None,
        }
    }
    (pairs.len() > 1).then_some(Units::Paired(pairs))
}

/// The runs of a side with the time at which each began; `None` if that is not known of all.
fn runs<'a>(played: &[Played<'a>], is_a: bool) -> Option<Vec<(f64, bool, Unit<'a>)>> {
    let mut runs: BTreeMap<usize, (f64, Unit<'a>)> = BTreeMap::new();
    for one in played {
        let started = one.started_unix_s?;
        let run = runs.entry(one.run).or_insert((started, Unit(Vec::new())));
        run.0 = run.0.min(started);
        run.1.0.push(one.trial);
    }
    Some(runs.into_values().map(|(started, unit)| (started, is_a, unit)).collect())
}

fn each<'a>(played: &[Played<'a>]) -> Vec<Unit<'a>> {
    played.iter().map(|played| Unit(vec![played.trial])).collect()
}

fn usable<'a>(played: &[Played<'a>]) -> Vec<Played<'a>> {
    played.iter().filter(|played| played.trial.verdict.is != Trust::Void).copied().collect()
}

/// Trials by point, in the order in which the points first appear.
fn by_point<'a>(
    played: &[Played<'a>],
    point: impl Fn(&Trial) -> BTreeMap<String, Value>,
) -> Vec<(BTreeMap<String, Value>, Vec<Played<'a>>)> {
    let mut points: Vec<(BTreeMap<String, Value>, Vec<Played<'a>>)> = Vec::new();
    for played in played {
        let at = point(played.trial);
        match points.iter_mut().find(|(known, _)| *known == at) {
            Some((_, trials)) => trials.push(*played),
            None => points.push((at, vec![*played])),
        }
    }
    points
}

/// The first swept path whose values are not numbers, with its values in the order of the plan, if they are few.
fn choice(swept: &[String], played: &[Played<'_>]) -> Option<(String, Vec<String>)> {
    swept.iter().find_map(|path| {
        let mut values: Vec<&Value> = Vec::new();
        for value in played.iter().filter_map(|played| played.trial.point.get(path)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let is_choice = (2..=CHOICES).contains(&values.len()) && !values.iter().any(|value| is_amount(value));
        is_choice.then(|| (path.clone(), values.into_iter().map(plain).collect()))
    })
}

/// A number, or a text that begins like one: `10ms`, `1GiB`.
fn is_amount(value: &Value) -> bool {
    value.is_number() || value.as_str().is_some_and(|text| text.starts_with(|first: char| first.is_ascii_digit()))
}

fn without(point: &BTreeMap<String, Value>, path: &str) -> BTreeMap<String, Value> {
    point.iter().filter(|(key, _)| *key != path).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::tests::trial;
    use super::super::{Played, Side, between};
    use super::*;

    /// A side whose runs began at these times, each of so many trials.
    fn side<'a>(name: &str, trials: &'a [Trial], begun: &[f64], repeats: usize) -> Side<'a> {
        let played = begun.iter().enumerate().flat_map(|(run, begun)| {
            (0..repeats).map(move |repeat| Played {
                trial: &trials[run * repeats + repeat],
                run,
                started_unix_s: Some(begun + repeat as f64),
            })
        });
        Side { name: name.to_owned(), trials: played.collect() }
    }

    fn trials(rates: &[f64]) -> Vec<Trial> {
        rates.iter().zip(1..).map(|(rate, repeat)| trial("", repeat, *rate)).collect()
    }

    const A: [f64; 4] = [1_000.0, 1_200.0, 900.0, 1_100.0];

    #[test]
    fn runs_in_turn_are_pairs() {
        let (a, b) = (trials(&A), trials(&A.map(|rate| rate * 1.05 + rate.sqrt() / 100.0)));
        for begun in [[10.0, 30.0, 50.0, 70.0], [10.0, 35.0, 50.0, 75.0]] {
            let sides = [side("a", &a, &[0.0, 20.0, 40.0, 60.0], 1), side("b", &b, &begun, 1)];
            let found = between(&sides, &[]);
            assert_eq!((found[0].pairs, found[0].significant, found[0].over.as_str()), (4, true, "run"));
        }
        // A B B A A B B A.
        let sides = [side("a", &a, &[0.0, 30.0, 40.0, 70.0], 1), side("b", &b, &[10.0, 20.0, 50.0, 60.0], 1)];
        assert_eq!(between(&sides, &[])[0].pairs, 4);
        // The last has no partner.
        let sides = [side("a", &a, &[0.0, 30.0, 40.0, 70.0], 1), side("b", &b, &[10.0, 20.0, 50.0], 1)];
        assert_eq!(between(&sides, &[])[0].pairs, 3);
    }

    #[test]
    fn runs_one_after_the_other_are_none() {
        let (a, b) = (trials(&A), trials(&A.map(|rate| rate * 1.05)));
        let sides = [side("a", &a, &[0.0, 10.0, 20.0, 30.0], 1), side("b", &b, &[40.0, 50.0, 60.0, 70.0], 1)];
        let found = between(&sides, &[]);
        // The spread among the trials hides what the pairs would have shown.
        assert_eq!((found[0].pairs, found[0].significant, found[0].trials), (0, false, [4, 4]));
        assert!(found[0].p.is_some() && found[0].detectable_pct.is_some());
        // Nor where nobody knows when they began.
        let mut sides = [side("a", &a, &[0.0, 20.0, 40.0, 60.0], 1), side("b", &b, &[10.0, 30.0, 50.0, 70.0], 1)];
        sides[1].trials[0].started_unix_s = None;
        assert_eq!(between(&sides, &[])[0].pairs, 0);
    }

    /// Of runs that have repeats of their own, the run is the observation: its repeats share a moment of the machine.
    #[test]
    fn repeats_of_a_run_in_turn_count_once() {
        let (a, b) = (trials(&A), trials(&A.map(|rate| rate * 1.05)));
        let sides = [side("a", &a, &[0.0, 40.0], 2), side("b", &b, &[20.0, 60.0], 2)];
        let found = between(&sides, &[]);
        assert_eq!((found[0].pairs, found[0].trials), (2, [2, 2]));
        assert!((found[0].a_value.unwrap().ln() - A.iter().map(|rate| rate.ln()).sum::<f64>() / 4.0).abs() < 1e-9);
    }

    #[test]
    fn only_points_of_both_are_compared() {
        let at = |rate, agents: i64| Trial {
            point: BTreeMap::from([("load.agents".to_owned(), Value::from(agents))]),
            ..trial("v", 1, rate)
        };
        let (a, b) = ([at(10.0, 1), at(20.0, 2)], [at(21.0, 2), at(30.0, 3)]);
        let sides = [side("a", &a, &[0.0], 2), side("b", &b, &[5.0], 2)];
        let found = between(&sides, &[]);
        assert!(found.iter().all(|found| found.at["load.agents"] == 2 && found.at["variant"] == "v"), "{found:#?}");
        assert!((found[0].ratio.unwrap() - 1.05).abs() < 1e-9);
        assert_eq!(between(&sides[..1], &[]), Vec::new());
    }

    #[test]
    fn every_side_is_held_against_the_first() {
        let (a, b, c) = (trials(&A), trials(&A), trials(&A));
        let sides = [side("a", &a, &[0.0], 4), side("b", &b, &[10.0], 4), side("c", &c, &[20.0], 4)];
        let found = between(&sides, &["throughput.operations_per_s".to_owned()]);
        let of: Vec<(&str, &str)> = found.iter().map(|found| (found.a.as_str(), found.b.as_str())).collect();
        assert_eq!(of, [("a", "b"), ("a", "c")]);
    }
}
