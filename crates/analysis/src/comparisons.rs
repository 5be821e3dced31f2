//! Variants, swept values and runs beside each other: ratio or difference with its interval, whether it is more than chance,
//! and how small a difference would have shown. One figure per trial is what is compared.
//!
//! Variants of one run, and choices, are judged by one model of all of them over all repeats ([`blocks`]), adjusted for the CPU that the
//! hypervisor and other processes took beside each trial, unless it differs between those that are compared. A trial that is void for what it
//! is adjusted for is used. The ratio without adjusting stands beside the adjusted one.
//!
//! In a sweep, the error of a ratio at one point is estimated with the help of the errors at the
//! other points ([`moderated`]).
//!
//! Ratios are taken of logarithms, so that b over a and a over b give the same answer. Chances are corrected over all
//! comparisons made together (Holm); those where not one value differs from another could not have shown anything and do not
//! count among them (R. E. Tarone, "A modified Bonferroni method for discrete data", Biometrics 46, 1990). Each comparison also has an
//! interval at the level at which it is tested, so that the two never contradict each other (K. Strassburger, F. Bretz, "Compatible simultaneous
//! lower confidence bounds for the Holm procedure and other Bonferroni-based closed tests", Statistics in Medicine 27, 2008: these are
//! consistent with the test, but not simultaneous); by it a gate is judged.

use std::collections::{BTreeMap, BTreeSet};

use experiment::plan::Plan;
use record::compared::{Gated, GatedComparison};
use record::results::{Comparison, Trial, UnadjustedCovariate};
use serde_json::Value;

use crate::metrics::metric;
use crate::stats::blocks::{self, COVARIATES, Covariates, Observed};
use crate::stats::moderated::{Variance, moderated};
use crate::stats::quantiles::{largest, mean};
use crate::stats::significance::{self, Difference, StandardError, apart, detectable_errors, of_error, paired};
use crate::verdict::can_void;
use crate::verdict::figures::class_of_path;

/// Chance of calling something a difference that is none, over all comparisons made together.
const LEVEL: f64 = 0.05;
/// Share of comparisons that show a difference of the size given as detectable.
const POWER: f64 = 0.9;

/// How to compare.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompareOptions {
    /// Paths of the figures; the usual ones if empty.
    pub metrics: Vec<String>,
    /// How much worse is too much, percent; `None` without a gate.
    pub gate_pct: Option<f64>,
    /// Whether void trials are taken like others.
    pub accepts_void: bool,
    /// Whether a gate fails only where the whole interval is beyond it, and not as soon as the estimate is.
    pub is_sure: bool,
    /// The look, of several at runs that go on until a gate decides.
    pub look: Option<InterimLook>,
    /// Whether the runs were played in turn for this comparison.
    pub in_turn: bool,
}

/// One look of several at runs that are played until a gate decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InterimLook {
    /// Number, from 1.
    pub number: u32,
    /// Chance of a false alarm that it may have, of the 5 % that all looks have together.
    pub level: f64,
}

/// Returns the chance of a false alarm that a look after `turns` of at most `at_most` turns may have, if earlier looks have spent so much.
/// Whoever looks again and again, and stops as soon as something shows, would find something at last, so all looks together have the 5 % of
/// a single one (a union bound). Most of it is spent late, where there is most to see: α·t² of the share t of the turns (K. Kim, D. L. DeMets,
/// "Design and analysis of group sequential tests based on the type I error spending rate function", Biometrika 74, 1987). 0: nothing is left.
#[must_use]
pub fn level_of_look(turns: u32, at_most: u32, spent: f64) -> f64 {
    let share = f64::from(turns) / f64::from(at_most.max(turns).max(1));
    let left = LEVEL * share.powi(2) - spent;
    // Sums of shares differ in their last digits.
    if left > SMALLEST_LEVEL { left } else { 0.0 }
}

impl CompareOptions {
    /// Chance of calling something a difference that is none which this comparison may have.
    fn level(&self) -> f64 {
        self.look.map_or(LEVEL, |look| look.level.max(SMALLEST_LEVEL))
    }
}

/// Level of a look for which nothing is left, so that its intervals have ends.
const SMALLEST_LEVEL: f64 = 1e-9;

/// Each variant beside the first, at each point; without variants, each value of a swept choice beside its first.
pub(crate) fn within(plan: &Plan, trials: &[Trial]) -> Vec<Comparison> {
    let played: Vec<PlayedTrial> =
        trials.iter().map(|trial| PlayedTrial { trial, run: 0, started_unix_s: None }).collect();
    let compared = compared(&couples_within(&plan.variants, &plan.swept, &played), &CompareOptions::default());
    compared.into_iter().map(|one| one.comparison).collect()
}

/// The same of runs of one experiment, their repeats taken together.
pub(crate) fn within_runs(plan: &Plan, played: &[PlayedTrial<'_>], options: &CompareOptions) -> Vec<GatedComparison> {
    judged(compared(&couples_within(&plan.variants, &plan.swept, played), options), options)
}

/// Every side beside the first, at each variant and point that both have.
pub(crate) fn between(sides: &[ComparisonSide<'_>], options: &CompareOptions) -> Vec<GatedComparison> {
    judged(compared(&couples_between(sides), options), options)
}

fn compared(couples: &[ComparedPair<'_>], options: &CompareOptions) -> Vec<WeighedComparison> {
    let figures: Vec<TrialFigure> = if options.metrics.is_empty() {
        usual(couples.iter().flat_map(ComparedPair::trials))
    } else {
        options.metrics.iter().map(|path| TrialFigure::of(path)).collect()
    };
    let of_couple = |couple| figures.iter().filter_map(move |figure| weighed(couple, figure));
    let mut weighed: Vec<WeighedComparison> = couples.iter().flat_map(of_couple).collect();
    pool(&mut weighed);
    correct(&mut weighed, options.level());
    weighed
}

/// A comparison, and from what its conclusions are drawn.
struct WeighedComparison {
    comparison: Comparison,
    difference: Option<Difference>,
    /// The same without adjusting for covariates; `None` where there are none.
    raw: Option<Difference>,
    more_is_better: bool,
    /// Chance of a false alarm that each of those made together may have.
    level: f64,
}

/// One figure of a couple; `None` if neither has it.
fn weighed(couple: &ComparedPair<'_>, figure: &TrialFigure) -> Option<WeighedComparison> {
    let sample = ComparedValues::of(&couple.units, figure);
    let all = || sample.a.iter().chain(&sample.b);
    all().next()?;
    let as_ratio = !figure.can_be_zero && all().all(|value| *value > 0.0);
    let scaled = |value: f64| if as_ratio { value.ln() } else { value };
    let a: Vec<f64> = sample.a.iter().copied().map(scaled).collect();
    let b: Vec<f64> = sample.b.iter().copied().map(scaled).collect();
    let observed = if as_ratio && sample.pairs > 0 { couple.observed(figure) } else { Vec::new() };
    let covariates = blocks::explaining(&observed);
    let resolution = if as_ratio { figure.resolution() } else { 0.0 };
    let modelled = |used: &[usize]| {
        let difference = match (sample.pairs > 0, couple.group) {
            (true, Some(group)) if !observed.is_empty() => blocks::difference(&observed, group, used),
            (true, _) => paired(&a.iter().copied().zip(b.iter().copied()).collect::<Vec<_>>()),
            (false, _) => apart(&a, &b),
        };
        difference.map(|difference| difference.resolved(resolution))
    };
    let difference = modelled(&covariates.used);
    let raw = if covariates.used.is_empty() { None } else { modelled(&[]) };
    let (mean_a, mean_b) = (mean(&a), mean(&b));
    let of_means = mean_a.zip(mean_b).map(|(a, b)| b - a);
    let estimate = difference.map(|difference| difference.estimate).or(of_means);
    let unscaled = |value: f64| if as_ratio { value.exp() } else { value };
    let comparison = Comparison {
        over: couple.over.clone(),
        a: couple.a.clone(),
        b: couple.b.clone(),
        at: couple.at.clone(),
        metric: figure.path.clone(),
        a_value: mean_a.map(unscaled),
        b_value: mean_b.map(unscaled),
        ratio: estimate.filter(|_| as_ratio).map(f64::exp),
        difference: estimate.filter(|_| !as_ratio),
        adjusted_for: covariates.used.iter().map(|index| BESIDE[*index].0.to_owned()).collect(),
        raw_ratio: raw.map(|raw| raw.estimate.exp()),
        not_adjusted_for: unadjusted(&covariates, &observed, couple.group),
        pairs: sample.pairs,
        trials: [sample.a.len(), sample.b.len()].map(|count| count as u32),
        without: sample.without,
        ..Comparison::default()
    };
    Some(WeighedComparison { comparison, difference, raw, more_is_better: figure.more_is_better, level: LEVEL })
}

/// Moderates the error of each ratio by the errors of the same two variants and the same figure at
/// the other points: a point with two pairs has one degree of freedom, all points together have
/// many. Then fills in the intervals and chances, before they are corrected for the number of
/// comparisons.
fn pool(weighed: &mut [WeighedComparison]) {
    let mut of_figure: BTreeMap<[String; 4], Vec<&mut WeighedComparison>> = BTreeMap::new();
    for one in weighed.iter_mut().filter(|one| one.comparison.ratio.is_some() && one.comparison.pairs > 0) {
        let Comparison { over, a, b, metric, .. } = &one.comparison;
        of_figure.entry([over, a, b, metric].map(Clone::clone)).or_default().push(one);
    }
    for points in of_figure.values_mut() {
        let pooled = moderate(points, |one| &mut one.difference);
        moderate(points, |one| &mut one.raw);
        points.iter_mut().for_each(|one| one.comparison.error_points = pooled);
    }
    for WeighedComparison { comparison, difference, .. } in weighed {
        let interval = difference.and_then(|difference| difference.interval(LEVEL));
        comparison.p = difference.map(|difference| difference.p);
        if comparison.ratio.is_some() {
            comparison.ci95 = interval.map(|ends| ends.map(f64::exp));
        } else {
            comparison.difference_ci95 = interval;
        }
    }
}

/// Moderates the errors of these points' differences. Returns the number of points used, or `None`
/// if fewer than two have a spread.
fn moderate(
    points: &mut [&mut WeighedComparison],
    difference: impl Fn(&mut WeighedComparison) -> &mut Option<Difference>,
) -> Option<u32> {
    let mut known: Vec<(f64, &mut Difference, StandardError)> = Vec::new();
    for one in points {
        let pairs = f64::from(one.comparison.pairs);
        let Some(difference) = difference(one) else { continue };
        let Some(error) = difference.error else { continue };
        known.push((pairs, difference, error));
    }
    let variance = |(pairs, _, error): &(f64, &mut Difference, StandardError)| Variance {
        value: pairs * error.of_mean.powi(2),
        freedom: error.freedom,
    };
    let variances = moderated(&known.iter().map(variance).collect::<Vec<_>>())?;
    let count = known.len() as u32;
    for ((pairs, difference, error), Variance { value, freedom }) in known.into_iter().zip(variances) {
        let of_mean = (value / pairs).sqrt();
        *difference = of_error(difference.estimate, StandardError { of_mean, freedom, ..error });
    }
    Some(count)
}

/// Covariates that differ between the groups.
fn unadjusted(covariates: &Covariates, observed: &[Observed], group: Option<usize>) -> Vec<UnadjustedCovariate> {
    let one = |(index, p): &(usize, f64)| {
        let difference = blocks::covariate_difference(observed, group?, *index)?;
        Some(UnadjustedCovariate { name: BESIDE[*index].0.to_owned(), difference, p: *p })
    };
    covariates.unbalanced.iter().filter_map(one).collect()
}

/// The values that are compared: of pairs, one of each for every pair that has both.
struct ComparedValues {
    a: Vec<f64>,
    b: Vec<f64>,
    pairs: u32,
    without: [u32; 2],
}

impl ComparedValues {
    fn of(units: &Units<'_>, figure: &TrialFigure) -> Self {
        let value = |unit: &ObservationUnit<'_>| unit.value(figure);
        let missing = |values: &[Option<f64>]| values.iter().filter(|value| value.is_none()).count() as u32;
        match units {
            Units::Paired(pairs) => {
                let (a, b): (Vec<_>, Vec<_>) = pairs.iter().map(|(a, b)| (value(a), value(b))).unzip();
                let without = [missing(&a), missing(&b)];
                let both: Vec<(f64, f64)> = a.iter().zip(&b).filter_map(|(a, b)| (*a).zip(*b)).collect();
                if both.is_empty() {
                    // One of them is there to be shown, though with nothing beside it.
                    return Self { a: flat(a), b: flat(b), pairs: 0, without };
                }
                let pairs = both.len() as u32;
                let (a, b) = both.into_iter().unzip();
                Self { a, b, pairs, without }
            }
            Units::Apart(a, b) => {
                let (a, b): (Vec<_>, Vec<_>) = (a.iter().map(value).collect(), b.iter().map(value).collect());
                let without = [missing(&a), missing(&b)];
                Self { a: flat(a), b: flat(b), pairs: 0, without }
            }
        }
    }
}

fn flat(values: Vec<Option<f64>>) -> Vec<f64> {
    values.into_iter().flatten().collect()
}

/// Corrects the chances for their number and, where this is one look of several, for that; and draws the conclusions that hang on it.
fn correct(weighed: &mut [WeighedComparison], family_level: f64) {
    let counts =
        |weighed: &&mut WeighedComparison| weighed.difference.is_some_and(|difference| !difference.nothing_to_show);
    let family: Vec<&mut WeighedComparison> = weighed.iter_mut().filter(counts).collect();
    let chances: Vec<f64> = family.iter().filter_map(|weighed| weighed.comparison.p).collect();
    let level = family_level / chances.len().max(1) as f64;
    let mut known: Vec<(f64, Option<f64>)> = Vec::new();
    let raw_chances: Vec<f64> = family.iter().filter_map(|one| one.raw.or(one.difference)).map(|raw| raw.p).collect();
    let raw_levels = significance::holm_levels(&raw_chances, family_level);
    let corrected = significance::holm(&chances).into_iter().zip(significance::holm_levels(&chances, family_level));
    for ((one, (adjusted, decided_at)), raw_level) in family.into_iter().zip(corrected).zip(raw_levels) {
        let (comparison, Some(difference)) = (&mut one.comparison, one.difference) else { continue };
        one.level = level;
        let raw = one.raw.and_then(|raw| raw.interval(raw_level));
        comparison.raw_ci95_adjusted = raw.map(|ends| ends.map(f64::exp));
        let adjusted = (adjusted * LEVEL / family_level).min(1.0);
        comparison.p_adjusted = Some(adjusted);
        comparison.significant = adjusted < LEVEL;
        if comparison.significant {
            let b_is_better = (difference.estimate > 0.0) == one.more_is_better;
            comparison.better = Some(if b_is_better { comparison.b.clone() } else { comparison.a.clone() });
        }
        let Some((error, interval)) = difference.error.zip(difference.interval(decided_at)) else { continue };
        let smallest = errors(error.freedom, level, &mut known);
        let smallest = smallest.map(|errors| error.of_mean * errors + error.resolution);
        if comparison.ratio.is_some() {
            comparison.ci95_adjusted = Some(interval.map(f64::exp));
            comparison.detectable_pct = smallest.map(|smallest| 100.0 * smallest.exp_m1());
        } else {
            comparison.difference_ci95_adjusted = Some(interval);
            comparison.detectable = smallest;
            let of_a = comparison.a_value.filter(|a| *a != 0.0);
            comparison.detectable_pct = smallest.zip(of_a).map(|(smallest, a)| 100.0 * smallest / a.abs());
        }
    }
    for WeighedComparison { comparison, difference, .. } in weighed.iter_mut() {
        if difference.is_some_and(|difference| difference.nothing_to_show) {
            comparison.p_adjusted = Some(1.0);
        }
    }
}

/// [`detectable_errors`], worked out once for each number of degrees of freedom: most comparisons of a run have the same.
fn errors(freedom: f64, level: f64, known: &mut Vec<(f64, Option<f64>)>) -> Option<f64> {
    if let Some((_, errors)) = known.iter().find(|(other, _)| *other == freedom) {
        return *errors;
    }
    let errors = detectable_errors(level, POWER, freedom);
    known.push((freedom, errors));
    errors
}

/// A choice with more values than this is no choice but a scale, and not compared value by value.
const CHOICES: usize = 6;

/// A trial and the run it belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlayedTrial<'a> {
    /// The trial.
    pub trial: &'a Trial,
    /// The run, counted from 0 among those of its side.
    pub run: usize,
    /// When its load began, by the calendar, if that is known.
    pub started_unix_s: Option<f64>,
}

/// One or several runs of an experiment, taken together.
#[derive(Debug, Clone)]
pub(crate) struct ComparisonSide<'a> {
    /// Its name.
    pub name: String,
    /// Its trials.
    pub trials: Vec<PlayedTrial<'a>>,
}

/// Two that are compared.
#[derive(Debug)]
struct ComparedPair<'a> {
    pub over: String,
    pub a: String,
    pub b: String,
    pub at: BTreeMap<String, Value>,
    pub units: Units<'a>,
    /// The place of `b` among all that were played in turn with these two.
    pub group: Option<usize>,
    /// All of them, each with its round and its place.
    pub together: Vec<(usize, usize, &'a Trial)>,
}

/// Reads a figure of a trial.
type MachineFigure = fn(&Trial) -> Option<f64>;

/// What the machine is like beside a trial, as [`blocks`] takes it.
const BESIDE: [(&str, MachineFigure); COVARIATES] =
    [("steal", |trial| trial.machine.steal_pct), ("strangers", strangers_pct)];

/// CPU that other processes took. Where the target's processes were found by their connections, a back end that was not found is among the
/// others, so this is no covariate.
fn strangers_pct(trial: &Trial) -> Option<f64> {
    trial.machine.strangers_cpu_pct.filter(|_| trial.machine.target_processes.is_empty())
}

/// What counts as one observation: a trial, or a run of several repeats that was played in turn with others.
#[derive(Debug, Clone)]
struct ObservationUnit<'a>(Vec<&'a Trial>);

/// The observations.
#[derive(Debug)]
enum Units<'a> {
    /// Played beside each other, so that what drifts falls out.
    Paired(Vec<(ObservationUnit<'a>, ObservationUnit<'a>)>),
    /// One after the other.
    Apart(Vec<ObservationUnit<'a>>, Vec<ObservationUnit<'a>>),
}

impl<'a> ObservationUnit<'a> {
    /// Without its void trials; `None` if no other is left.
    pub fn usable(&self) -> Option<Self> {
        let trials: Vec<&'a Trial> = self.0.iter().filter(|trial| trial.counts()).copied().collect();
        (!trials.is_empty()).then_some(Self(trials))
    }

    /// A figure of it: the mean over its trials, the geometric one where a ratio will be taken. `None` if one of them lacks it.
    pub fn value(&self, figure: &TrialFigure) -> Option<f64> {
        let values: Vec<f64> = self.0.iter().map(|trial| figure.value(trial)).collect::<Option<_>>()?;
        if !figure.can_be_zero && values.iter().all(|value| *value > 0.0) {
            let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            return mean(&logarithms).map(f64::exp);
        }
        mean(&values)
    }
}

impl<'a> ComparedPair<'a> {
    /// A figure of all that were played in turn, as logarithms; nothing where a logarithm does not exist.
    fn observed(&self, figure: &TrialFigure) -> Vec<Observed> {
        let one = |(round, group, trial): &(usize, usize, &Trial)| {
            let value = figure.value(trial)?;
            let beside = BESIDE.map(|(_, of)| of(trial));
            Some(Observed {
                round: *round,
                group: *group,
                value: if value > 0.0 { value.ln() } else { f64::NAN },
                beside,
            })
        };
        let observed: Vec<Observed> = self.together.iter().filter_map(one).collect();
        if observed.iter().any(|one| one.value.is_nan()) { Vec::new() } else { observed }
    }

    /// All trials of both.
    pub fn trials(&self) -> impl Iterator<Item = &'a Trial> + use<'a> {
        let units: Vec<ObservationUnit<'a>> = match &self.units {
            Units::Paired(pairs) => pairs.iter().flat_map(|(a, b)| [a.clone(), b.clone()]).collect(),
            Units::Apart(a, b) => a.iter().chain(b).cloned().collect(),
        };
        units.into_iter().flat_map(|unit| unit.0)
    }
}

/// Variants of one experiment, each beside the first, paired by repeat; without variants the first swept path that is a choice.
fn couples_within<'a>(variants: &[String], swept: &[String], played: &[PlayedTrial<'a>]) -> Vec<ComparedPair<'a>> {
    let comparable: Vec<PlayedTrial<'a>> = played.iter().filter(|one| is_comparable(one.trial)).copied().collect();
    let (over, names) = if variants.is_empty() {
        let Some(choice) = choice(swept, &comparable) else { return Vec::new() };
        choice
    } else {
        ("variant".to_owned(), variants.to_vec())
    };
    let name = |trial: &Trial| match over.as_str() {
        "variant" => trial.variant.clone(),
        path => trial.point.get(path).map(text::of_json),
    };
    let mut couples = Vec::new();
    let Some((a, others)) = names.split_first() else { return couples };
    for (at, of_point) in by_point(&comparable, |trial| without(&trial.point, &over)) {
        let mut of_point: Vec<PlayedTrial<'a>> = of_point;
        let mut together = in_rounds(&of_point, |trial| names.iter().position(|one| Some(one) == name(trial).as_ref()));
        if !is_allowed_for(&together) {
            of_point.retain(|one| one.trial.counts());
            together.retain(|(_, _, trial)| trial.counts());
        }
        for (group, b) in others.iter().enumerate() {
            let is = |played: &PlayedTrial<'a>, wanted: &str| name(played.trial).as_deref() == Some(wanted);
            let pair = |one: &PlayedTrial<'a>| {
                let same = |other: &&PlayedTrial<'a>| (other.run, other.trial.repeat) == (one.run, one.trial.repeat);
                let other = of_point.iter().filter(|played| is(played, b)).find(same)?;
                Some((ObservationUnit(vec![one.trial]), ObservationUnit(vec![other.trial])))
            };
            let pairs: Vec<_> = of_point.iter().filter(|played| is(played, a)).filter_map(pair).collect();
            if !pairs.is_empty() {
                couples.push(ComparedPair {
                    over: over.clone(),
                    a: a.clone(),
                    b: b.clone(),
                    at: at.clone(),
                    units: Units::Paired(pairs),
                    group: Some(group + 1),
                    together: together.clone(),
                });
            }
        }
    }
    couples
}

/// Each trial with the number of its round, which is a repeat of a run, and the place of its group.
fn in_rounds<'a>(
    played: &[PlayedTrial<'a>],
    place: impl Fn(&Trial) -> Option<usize>,
) -> Vec<(usize, usize, &'a Trial)> {
    let mut rounds: Vec<(usize, u32)> = Vec::new();
    let numbered = played.iter().filter_map(|one| {
        let key = (one.run, one.trial.repeat);
        let round = rounds.iter().position(|known| *known == key).unwrap_or_else(|| {
            rounds.push(key);
            rounds.len() - 1
        });
        Some((round, place(one.trial)?, one.trial))
    });
    numbered.collect()
}

/// Whether the comparison of these trials is adjusted for whatever others took of the machine beside them.
fn is_allowed_for(together: &[(usize, usize, &Trial)]) -> bool {
    let beside = |trial: &Trial| BESIDE.map(|(_, of)| of(trial));
    let observed: Vec<Observed> = together
        .iter()
        .map(|(round, group, trial)| Observed { round: *round, group: *group, value: 0.0, beside: beside(trial) })
        .collect();
    let covariates = blocks::explaining(&observed);
    !covariates.used.is_empty() && covariates.unbalanced.is_empty()
}

/// Rules about what others took of the machine: where a comparison is adjusted for that, it is no reason to leave a trial out.
const OF_OTHERS: [&str; 3] = ["delayed", "steal", "strangers"];

/// Whether a trial may stand in a comparison: it counts, or nothing can have voided it but what others took of the machine.
fn is_comparable(trial: &Trial) -> bool {
    let rules = &trial.verdict.rules;
    let is_of_others = |rule: &String| OF_OTHERS.contains(&rule.as_str());
    trial.counts() || rules.iter().any(is_of_others) && !rules.iter().any(|rule| !is_of_others(rule) && can_void(rule))
}

/// Every side beside the first, at each variant and point that both have.
fn couples_between<'a>(sides: &[ComparisonSide<'a>]) -> Vec<ComparedPair<'a>> {
    let mut couples = Vec::new();
    let Some((a, others)) = sides.split_first() else { return couples };
    let points = |side: &ComparisonSide<'a>| {
        by_point(&side.trials, |trial| {
            let variant = trial.variant.clone().map(|name| ("variant".to_owned(), Value::String(name)));
            trial.point.clone().into_iter().chain(variant).collect()
        })
    };
    let of_a = points(a);
    for b in others {
        let of_b = points(b);
        for (at, trials) in &of_a {
            if let Some((_, other)) = of_b.iter().find(|(other, _)| other == at) {
                let Some((units, together)) = units_between(trials, other) else { continue };
                let (a, b, over) = (a.name.clone(), b.name.clone(), "run".to_owned());
                let group = (!together.is_empty()).then_some(1);
                couples.push(ComparedPair { over, a, b, at: at.clone(), units, group, together });
            }
        }
    }
    couples
}

/// What is compared of two sides, and, if the comparison is adjusted for what others took of the machine, all of it with rounds and sides.
type BetweenSides<'a> = (Units<'a>, Vec<(usize, usize, &'a Trial)>);

/// `None` if nothing can be used. Whether runs took turns is seen from all of them: one that is void must not bring the others out of step.
fn units_between<'a>(a: &[PlayedTrial<'a>], b: &[PlayedTrial<'a>]) -> Option<BetweenSides<'a>> {
    if let Some(pairs) = in_turn(a, b) {
        let together: Vec<(usize, usize, &Trial)> =
            pairs.iter().enumerate().filter_map(|(round, pair)| in_round(round, pair)).flatten().collect();
        if is_allowed_for(&together) {
            let is_in = |pair: &(ObservationUnit<'_>, ObservationUnit<'_>)| in_round(0, pair).is_some();
            return Some((Units::Paired(pairs.into_iter().filter(is_in).collect()), together));
        }
        let usable: Vec<_> = pairs.iter().filter_map(|(a, b)| Some((a.usable()?, b.usable()?))).collect();
        if usable.len() > 1 {
            let rounds: Option<Vec<_>> = usable.iter().enumerate().map(|(round, pair)| in_round(round, pair)).collect();
            let together = rounds.map_or_else(Vec::new, |rounds| rounds.into_iter().flatten().collect());
            return Some((Units::Paired(usable), together));
        }
    }
    let (a, b) = (usable(a), usable(b));
    let units = in_turn(&a, &b).map_or_else(|| Units::Apart(by_run(&a), by_run(&b)), Units::Paired);
    (!a.is_empty() && !b.is_empty()).then_some((units, Vec::new()))
}

/// Both of a pair, if they are a trial each and nothing but what others took can have voided them.
fn in_round<'a>(
    round: usize,
    (a, b): &(ObservationUnit<'a>, ObservationUnit<'a>),
) -> Option<[(usize, usize, &'a Trial); 2]> {
    match (a.0.as_slice(), b.0.as_slice()) {
        ([a], [b]) if is_comparable(a) && is_comparable(b) => Some([(round, 0, *a), (round, 1, *b)]),
        _ => None,
    }
}

/// Runs that were played in turn, paired in the order in which they began; `None` if they were not, or only once.
fn in_turn<'a>(
    a: &[PlayedTrial<'a>],
    b: &[PlayedTrial<'a>],
) -> Option<Vec<(ObservationUnit<'a>, ObservationUnit<'a>)>> {
    let mut begun: Vec<(f64, bool, ObservationUnit<'a>)> = runs(a, true)?;
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
    (pairs.len() > 1).then_some(pairs)
}

/// The runs of a side with the time at which each began; `None` if that is not known of all.
fn runs<'a>(played: &[PlayedTrial<'a>], is_a: bool) -> Option<Vec<(f64, bool, ObservationUnit<'a>)>> {
    let mut runs: BTreeMap<usize, (f64, ObservationUnit<'a>)> = BTreeMap::new();
    for one in played {
        let started = one.started_unix_s?;
        let run = runs.entry(one.run).or_insert((started, ObservationUnit(Vec::new())));
        run.0 = run.0.min(started);
        run.1.0.push(one.trial);
    }
    Some(runs.into_values().map(|(started, unit)| (started, is_a, unit)).collect())
}

/// Each run is one observation: its trials share a moment of the machine.
fn by_run<'a>(played: &[PlayedTrial<'a>]) -> Vec<ObservationUnit<'a>> {
    let mut runs: BTreeMap<usize, Vec<&'a Trial>> = BTreeMap::new();
    for one in played {
        runs.entry(one.run).or_default().push(one.trial);
    }
    runs.into_values().map(ObservationUnit).collect()
}

fn usable<'a>(played: &[PlayedTrial<'a>]) -> Vec<PlayedTrial<'a>> {
    played.iter().filter(|played| played.trial.counts()).copied().collect()
}

/// Trials by point, in the order in which the points first appear.
fn by_point<'a>(
    played: &[PlayedTrial<'a>],
    point: impl Fn(&Trial) -> BTreeMap<String, Value>,
) -> Vec<(BTreeMap<String, Value>, Vec<PlayedTrial<'a>>)> {
    let mut points: Vec<(BTreeMap<String, Value>, Vec<PlayedTrial<'a>>)> = Vec::new();
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
fn choice(swept: &[String], played: &[PlayedTrial<'_>]) -> Option<(String, Vec<String>)> {
    swept.iter().find_map(|path| {
        let mut values: Vec<&Value> = Vec::new();
        for value in played.iter().filter_map(|played| played.trial.point.get(path)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let is_choice = (2..=CHOICES).contains(&values.len()) && !values.iter().any(|value| is_amount(value));
        is_choice.then(|| (path.clone(), values.into_iter().map(text::of_json).collect()))
    })
}

/// A number, or a text that begins like one: `10ms`, `1GiB`.
fn is_amount(value: &Value) -> bool {
    value.is_number() || value.as_str().is_some_and(|text| text.starts_with(|first: char| first.is_ascii_digit()))
}

fn without(point: &BTreeMap<String, Value>, path: &str) -> BTreeMap<String, Value> {
    point.iter().filter(|(key, _)| *key != path).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A figure of a trial.
#[derive(Debug, Clone, PartialEq)]
struct TrialFigure {
    /// Its path.
    pub path: String,
    /// Whether more of it is better; otherwise less is.
    pub more_is_better: bool,
    /// Whether it is a count or a share that can be 0, so that ratios of it mean nothing.
    pub can_be_zero: bool,
}

const OPERATIONS: &str = "throughput.operations_per_s";
const CYCLES: &str = "throughput.cycles_per_s";
const UNITS: &str = "throughput.median_units_per_s";

/// What is compared if nobody asks for something else; cycles only where they tell more than operations do.
const USUAL: [&str; 9] = [
    OPERATIONS,
    CYCLES,
    "latency_us.p50",
    "latency_us.p99",
    "failed_pct",
    "wrong_per_1000_cycles",
    "consistency.lost_writes",
    "faults.outage.failed",
    "faults.outage.back_to_baseline_s",
];

/// Words of a path that make it a count or a share.
const COUNTED: [&str; 14] = [
    "count",
    "_pct",
    "failed",
    "wrong",
    "timeout",
    "unfinished",
    "lost",
    "diverged",
    "dropped",
    "failures",
    "attempt",
    "kills",
    "outcomes",
    "threads",
];

/// Units of which more is better; of everything else (times, losses, memory, cost) less is.
const GAINS: [&str; 3] = ["_per_s", "outcomes.ok", "checked"];

/// What a target tells of itself may be 0 at any time.
const TOLD: &str = "metrics.";

/// What runs takes CPU, and a rate is a rate also of losses.
const NEVER_ZERO: [&str; 2] = ["_per_s", "cpu_pct"];

/// Part of the paths of figures that are read from histograms.
const FROM_HISTOGRAMS: &str = "_us.";

/// Width of a histogram's bucket, as a share of its value, at most: histograms have three significant digits.
const BUCKET: f64 = 0.001;

/// Cycles per operation that differ by no more than this are the same: the figure would only count twice.
const SAME_CYCLES: f64 = 0.05;

impl TrialFigure {
    /// The figure at a path, judged by its words.
    pub fn of(path: &str) -> Self {
        let gains = GAINS.iter().any(|gain| path.ends_with(gain));
        let counted = COUNTED.iter().any(|word| path.contains(word));
        Self {
            path: path.to_owned(),
            more_is_better: gains,
            can_be_zero: path.starts_with(TOLD) || counted && !NEVER_ZERO.iter().any(|unit| path.ends_with(unit)),
        }
    }

    /// Error that its logarithm may have in all trials alike.
    fn resolution(&self) -> f64 {
        if self.path.contains(FROM_HISTOGRAMS) { BUCKET.ln_1p() } else { 0.0 }
    }

    /// Value in a trial; of several, the worst. `None` where the trial's verdict says that it must not be used.
    pub fn value(&self, trial: &Trial) -> Option<f64> {
        let path = self.path.as_str().into();
        // A trial that does not count is compared only where the comparison is adjusted for what it is void for.
        if trial.counts() && trial.verdict.voids(class_of_path(&path)) {
            return None;
        }
        let values = metric(trial, &path);
        if self.more_is_better {
            largest(values.into_iter().map(|value| -value)).map(|value| -value)
        } else if values.len() < self.expected(trial) {
            None
        } else {
            largest(values)
        }
    }

    /// How many values a trial must have. A service that was once not back within the trial has no worst time of coming back,
    /// and the times of those that did come back must not stand for it.
    fn expected(&self, trial: &Trial) -> usize {
        let Some(of) =
            self.path.strip_prefix("faults.").and_then(|path| path.strip_suffix("outage.back_to_baseline_s"))
        else {
            return 0;
        };
        let meant = |name: &str| of.is_empty() || of.strip_suffix('.') == Some(name);
        trial.faults.iter().filter(|fault| fault.outage.is_some() && meant(&fault.name)).count()
    }
}

/// What is compared if nobody asks for something else. Where operations count units of work, these are its throughput, and the service time of
/// those operations is compared as well: latency over all is of what is asked for beside them.
fn usual<'a>(trials: impl Iterator<Item = &'a Trial>) -> Vec<TrialFigure> {
    let trials: Vec<&Trial> = trials.collect();
    let counting_units = trials.iter().flat_map(|trial| &trial.operations).filter(|(_, of)| of.units.is_some());
    let names: BTreeSet<&String> = counting_units.map(|(name, _)| name).collect();
    let units = (!names.is_empty()).then(|| UNITS.to_owned());
    let service = names.iter().map(|name| format!("operations.{name}.service_us.p50"));
    let of_work: Vec<TrialFigure> = units.into_iter().chain(service).map(|path| TrialFigure::of(&path)).collect();
    let of_each: Vec<f64> = trials
        .iter()
        .filter_map(|trial| {
            Some(trial.throughput.cycles_per_s? / trial.throughput.operations_per_s.filter(|rate| *rate > 0.0)?)
        })
        .collect();
    let most = of_each.iter().copied().fold(0.0, f64::max);
    let least = of_each.iter().copied().fold(f64::INFINITY, f64::min);
    let cycles_tell_more = most > least * (1.0 + SAME_CYCLES);
    let usual = USUAL.into_iter().filter(|path| *path != CYCLES || cycles_tell_more).map(TrialFigure::of);
    of_work.into_iter().chain(usual).collect()
}

/// What a gate makes of each, if there is one.
fn judged(weighed: Vec<WeighedComparison>, options: &CompareOptions) -> Vec<GatedComparison> {
    let mut known = Vec::new();
    let judge = |one: WeighedComparison| {
        let gate = options.gate_pct.map(|gate_pct| gated(&one.comparison, gate_pct, options.is_sure));
        let needed = options.gate_pct.filter(|_| gate == Some(Gated::CannotTell));
        let worse = Worsening::of(&one.comparison).map(|worse| worse.estimate_pct);
        GatedComparison {
            worse_pct: worse.filter(|worse| worse.is_finite()),
            gate,
            repeats_needed: needed.and_then(|gate_pct| repeats_needed(&one, gate_pct, &mut known)),
            comparison: one.comparison,
        }
    };
    weighed.into_iter().map(judge).collect()
}

/// Holds a comparison against a gate of so many percent, by the ratio and its interval, and by those without adjusting.
fn gated(comparison: &Comparison, gate_pct: f64, is_sure: bool) -> Gated {
    let fails = |worse: Worsening, is_shown: bool| {
        let least = worse.interval_pct.filter(|_| is_sure).map_or(worse.estimate_pct, |[near, _]| near);
        is_shown && least >= gate_pct
    };
    let worse = Worsening::of(comparison);
    let raw = Worsening::raw_of(comparison);
    let raw_is_shown = comparison.raw_ci95_adjusted.is_some_and(|[low, high]| 1.0 < low || high < 1.0);
    if worse.is_some_and(|worse| fails(worse, comparison.significant))
        || raw.is_some_and(|raw| fails(raw, raw_is_shown))
    {
        return Gated::Fails;
    }
    // Of a share in percent, which may be 0, points are excluded.
    let in_points = comparison.difference_ci95_adjusted.filter(|_| is_share(comparison));
    let far = match in_points {
        Some([_, high]) => Some(high),
        None => worse.and_then(|worse| worse.interval_pct).map(|[_, far]| far),
    };
    let passes = match far {
        Some(far) => far < gate_pct,
        // Without spread there is no interval: either not one value differs from another, or the number of trials has to speak.
        None => comparison.significant || comparison.p == Some(1.0),
    };
    if passes { Gated::Passes } else { Gated::CannotTell }
}

/// Change for the worse of the other side of a comparison, percent of `a`; negative if it is better, infinite where `a` is 0 and `b` is not.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Worsening {
    estimate_pct: f64,
    /// The corrected interval, the end at which it is least worse first; `None` without one.
    interval_pct: Option<[f64; 2]>,
}

impl Worsening {
    /// Returns that of the ratio, or the difference.
    fn of(comparison: &Comparison) -> Option<Self> {
        if let Some(ratio) = comparison.ratio {
            return Some(Self::of_ratio(comparison, ratio, comparison.ci95_adjusted));
        }
        let a = comparison.a_value?.abs();
        let pct = |difference: f64| if difference == 0.0 { 0.0 } else { 100.0 * difference / a };
        let ends = comparison.difference_ci95_adjusted.map(|ends| ends.map(pct));
        Some(Self::signed(comparison, pct(comparison.difference?), ends))
    }

    /// Returns that of the ratio without adjusting.
    fn raw_of(comparison: &Comparison) -> Option<Self> {
        Some(Self::of_ratio(comparison, comparison.raw_ratio?, comparison.raw_ci95_adjusted))
    }

    fn of_ratio(comparison: &Comparison, ratio: f64, ends: Option<[f64; 2]>) -> Self {
        let pct = |ratio: f64| 100.0 * (ratio - 1.0);
        Self::signed(comparison, pct(ratio), ends.map(|ends| ends.map(pct)))
    }

    fn signed(comparison: &Comparison, more_pct: f64, ends: Option<[f64; 2]>) -> Self {
        if TrialFigure::of(&comparison.metric).more_is_better {
            return Self { estimate_pct: -more_pct, interval_pct: ends.map(|[low, high]| [-high, -low]) };
        }
        Self { estimate_pct: more_pct, interval_pct: ends }
    }
}

/// Whether percent of a baseline, which may be 0, mean less than points.
fn is_share(comparison: &Comparison) -> bool {
    comparison.ratio.is_none() && comparison.metric.ends_with("_pct")
}

/// Repeats that are tried at most when it is worked out how many would do.
const REPEATS_MAX: u32 = 1_000;

/// Repeats of each side with which a change as large as the gate would be shown in nine of ten comparisons, by the spread of these
/// trials; `known` as in [`errors`].
fn repeats_needed(one: &WeighedComparison, gate_pct: f64, known: &mut Vec<(f64, Option<f64>)>) -> Option<u32> {
    let (comparison, difference) = (&one.comparison, one.difference?);
    let is_paired = comparison.pairs > 0;
    let trials = comparison.trials.map(f64::from);
    let now = if is_paired { f64::from(comparison.pairs) } else { 2.0 / (1.0 / trials[0] + 1.0 / trials[1]) };
    let Some(error) = difference.error else {
        return (2..=REPEATS_MAX).find(|repeats| significance::rarest_chance(*repeats, is_paired) < one.level);
    };
    let wanted = if comparison.ratio.is_some() {
        if one.more_is_better && gate_pct < 100.0 { -(-gate_pct / 100.0).ln_1p() } else { (gate_pct / 100.0).ln_1p() }
    } else if is_share(comparison) {
        gate_pct
    } else {
        gate_pct / 100.0 * comparison.a_value?.abs()
    };
    let mut would_do = |repeats: u32| {
        let repeats = f64::from(repeats);
        let freedom = error.freedom * (repeats - 1.0) / (now - 1.0);
        let of_mean = error.of_mean * (now / repeats).sqrt();
        errors(freedom, one.level, known).is_some_and(|errors| of_mean * errors + error.resolution <= wanted)
    };
    let (mut few, mut many) = (now as u32, now as u32 + 1);
    while !would_do(many) {
        if many >= REPEATS_MAX {
            return None;
        }
        (few, many) = (many, (2 * many).min(REPEATS_MAX));
    }
    while many - few > 1 {
        let middle = few.midpoint(many);
        (few, many) = if would_do(middle) { (few, middle) } else { (middle, many) };
    }
    Some(many)
}

#[cfg(test)]
mod tests;
