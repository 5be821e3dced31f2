//! Comparisons of variants, swept values and runs: ratio or difference with its interval, whether
//! it is more than chance, and the smallest difference that the test would have detected. Each
//! trial contributes one value per metric.
//!
//! Variants of one run, and values of a swept choice, are judged by one model over all repeats
//! ([`blocks`]). It is adjusted for the CPU time that the hypervisor and other processes took
//! during each trial, unless that time differs between the compared groups. A trial that is void
//! only because of this CPU time is used. The results also have the ratio without the adjustment.
//!
//! In a sweep, the error of a ratio at one point is estimated with the help of the errors at the
//! other points ([`moderated`]).
//!
//! Ratios are computed from logarithms, so that b over a and a over b give the same answer.
//! P-values are corrected over all comparisons made together (Holm). Comparisons whose values are
//! all equal could not have shown anything and are left out of the correction (R. E. Tarone, "A
//! modified Bonferroni method for discrete data", Biometrics 46, 1990). Each comparison also has an
//! interval at the level at which it is tested, so that interval and test never contradict each
//! other (K. Strassburger, F. Bretz, "Compatible simultaneous lower confidence bounds for the Holm
//! procedure and other Bonferroni-based closed tests", Statistics in Medicine 27, 2008: these
//! intervals are consistent with the test, but not simultaneous). Gates are judged by this
//! interval.

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

/// Chance of a false alarm, over all comparisons made together.
const LEVEL: f64 = 0.05;
/// Share of comparisons that find a true difference of the detectable size.
const POWER: f64 = 0.9;

/// Options of a comparison.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompareOptions {
    /// Paths of the compared figures; if empty, the default figures are compared.
    pub metrics: Vec<String>,
    /// Smallest change for the worse that fails the gate, percent; `None` without a gate.
    pub gate_pct: Option<f64>,
    /// Whether void trials are used as valid ones are.
    pub accepts_void: bool,
    /// Whether a gate fails only if the whole interval is beyond it. Otherwise the estimate alone
    /// is enough.
    pub is_sure: bool,
    /// The interim look at runs that continue until a gate decides; `None` for a single comparison.
    pub look: Option<InterimLook>,
    /// Whether the runs alternated for this comparison.
    pub in_turn: bool,
}

/// One of several looks at runs that continue until a gate decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InterimLook {
    /// Index of this look, from 1.
    pub number: u32,
    /// Chance of a false alarm at this look; all looks together have 5 %.
    pub level: f64,
}

/// Returns the chance of a false alarm for a look after `turns` of at most `at_most` turns, if
/// earlier looks have spent `spent`. Repeated looks that stop at the first sign would find a
/// difference sooner or later, so all looks share the 5 % of a single comparison (a union bound).
/// After a share t of the turns, α·t² may be spent: most of it late, when there is most data (K.
/// Kim, D. L. DeMets, "Design and analysis of group sequential tests based on the type I error
/// spending rate function", Biometrika 74, 1987). Returns 0 if earlier looks have spent it all.
pub fn level_of_look(turns: u32, at_most: u32, spent: f64) -> f64 {
    let share = f64::from(turns) / f64::from(at_most.max(turns).max(1));
    let left = LEVEL * share.powi(2) - spent;
    // `spent` is a sum of floats, so its last digits are not exact.
    if left > SMALLEST_LEVEL { left } else { 0.0 }
}

impl CompareOptions {
    /// Returns the chance of a false alarm that this comparison may have.
    fn level(&self) -> f64 {
        self.look.map_or(LEVEL, |look| look.level.max(SMALLEST_LEVEL))
    }
}

/// Level of a look if earlier looks have spent the whole chance. It is above 0, so that intervals
/// are finite.
const SMALLEST_LEVEL: f64 = 1e-9;

/// Compares each variant with the first, at each point. Without variants, compares each value of a
/// swept choice with its first value.
pub(crate) fn within(plan: &Plan, trials: &[Trial]) -> Vec<Comparison> {
    let played = of_one_run(trials);
    let compared = compared(&couples_within(&plan.variants, &plan.swept, &played), &CompareOptions::default());
    compared.into_iter().map(|one| one.comparison).collect()
}

/// Returns the trials of a single run.
fn of_one_run(trials: &[Trial]) -> Vec<PlayedTrial<'_>> {
    trials.iter().map(|trial| PlayedTrial { trial, run: 0, started_unix_s: None }).collect()
}

/// Compares as [`within`] does, but over several runs of one experiment, with all repeats together.
pub(crate) fn within_runs(plan: &Plan, played: &[PlayedTrial<'_>], options: &CompareOptions) -> Vec<GatedComparison> {
    judged(compared(&couples_within(&plan.variants, &plan.swept, played), options), options)
}

/// Compares every side with the first, at each variant and point that both have.
pub(crate) fn between(sides: &[ComparisonSide<'_>], options: &CompareOptions) -> Vec<GatedComparison> {
    judged(compared(&couples_between(sides), options), options)
}

fn compared(couples: &[ComparedPair<'_>], options: &CompareOptions) -> Vec<WeighedComparison> {
    let figures: Vec<TrialFigure> = if options.metrics.is_empty() {
        usual(couples.iter().flat_map(ComparedPair::trials))
    } else {
        options.metrics.iter().map(|path| TrialFigure::of(path)).collect()
    };
    let mut weighed: Vec<WeighedComparison> =
        couples.iter().flat_map(|couple| figures.iter().filter_map(|figure| weighed(couple, figure))).collect();
    pool(&mut weighed);
    correct(&mut weighed, options.level());
    weighed
}

/// A comparison with the values on which its conclusions are based.
struct WeighedComparison {
    comparison: Comparison,
    difference: Option<Difference>,
    /// Difference without adjustment for covariates; `None` if there are no covariates.
    raw: Option<Difference>,
    more_is_better: bool,
    /// Chance of a false alarm for this comparison: the overall chance divided by the number of
    /// comparisons.
    level: f64,
}

/// Compares one figure of a pair. Returns `None` if neither side has it.
fn weighed(couple: &ComparedPair<'_>, figure: &TrialFigure) -> Option<WeighedComparison> {
    let mut sample = ComparedValues::of(&couple.units, figure);
    let mut all: Vec<&mut f64> = sample.a.iter_mut().chain(&mut sample.b).collect();
    if all.is_empty() {
        return None;
    }
    let as_ratio = !figure.can_be_zero && all.iter().all(|value| **value > 0.0);
    if as_ratio {
        all.iter_mut().for_each(|value| **value = value.ln());
    }
    let observed = if as_ratio && sample.pairs > 0 { couple.observed(figure) } else { Vec::new() };
    let covariates = blocks::explaining(&observed);
    let resolution = if as_ratio { figure.resolution() } else { 0.0 };
    let difference = sample.difference(&observed, couple.group, &covariates.used);
    let is_adjusted = !covariates.used.is_empty();
    let raw = if is_adjusted { sample.difference(&observed, couple.group, &[]) } else { None };
    let [difference, raw] = [difference, raw].map(|found| found.map(|found| found.resolved(resolution)));
    let means = [mean(&sample.a), mean(&sample.b)];
    let of_means = means[0].zip(means[1]).map(|(a, b)| b - a);
    let estimate = difference.map(|difference| difference.estimate).or(of_means);
    let [a_value, b_value] = means.map(|mean| if as_ratio { mean.map(f64::exp) } else { mean });
    let comparison = Comparison {
        over: couple.over.clone(),
        a: couple.a.clone(),
        b: couple.b.clone(),
        at: couple.at.clone(),
        metric: figure.path.clone(),
        a_value,
        b_value,
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
/// many. Then fills in the intervals and p-values, before they are corrected for the number of
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
    let variances =
        known.iter().map(|(pairs, _, error)| Variance { value: pairs * error.of_mean.powi(2), freedom: error.freedom });
    let variances = moderated(&variances.collect::<Vec<_>>())?;
    let count = known.len() as u32;
    for ((pairs, difference, error), Variance { value, freedom }) in known.into_iter().zip(variances) {
        let of_mean = (value / pairs).sqrt();
        *difference = of_error(difference.estimate, StandardError { of_mean, freedom, ..error });
    }
    Some(count)
}

/// Returns the covariates that differ between the groups, so that no adjustment uses them.
fn unadjusted(covariates: &Covariates, observed: &[Observed], group: Option<usize>) -> Vec<UnadjustedCovariate> {
    let unbalanced = covariates.unbalanced.iter().filter_map(|&(index, p)| {
        let difference = blocks::covariate_difference(observed, group?, index)?;
        Some(UnadjustedCovariate { name: BESIDE[index].0.to_owned(), difference, p })
    });
    unbalanced.collect()
}

/// Values of both sides. Paired values come only from pairs in which both sides have the figure.
struct ComparedValues {
    a: Vec<f64>,
    b: Vec<f64>,
    pairs: u32,
    without: [u32; 2],
}

impl ComparedValues {
    fn of(units: &Units<'_>, figure: &TrialFigure) -> Self {
        let [a, b] =
            [&units.a, &units.b].map(|side| side.iter().map(|unit| unit.value(figure)).collect::<Vec<Option<f64>>>());
        let without = [&a, &b].map(|values| values.iter().filter(|value| value.is_none()).count() as u32);
        if units.are_paired {
            let both: Vec<(f64, f64)> = a.iter().zip(&b).filter_map(|(a, b)| (*a).zip(*b)).collect();
            // The results show the values of one side even if the other side has none.
            if !both.is_empty() {
                let pairs = both.len() as u32;
                let (a, b) = both.into_iter().unzip();
                return Self { a, b, pairs, without };
            }
        }
        Self { a: a.into_iter().flatten().collect(), b: b.into_iter().flatten().collect(), pairs: 0, without }
    }

    /// Returns the difference of b from a, adjusted for these covariates.
    fn difference(&self, observed: &[Observed], group: Option<usize>, covariates: &[usize]) -> Option<Difference> {
        match group {
            _ if self.pairs == 0 => apart(&self.a, &self.b),
            Some(group) if !observed.is_empty() => blocks::difference(observed, group, covariates),
            _ => paired(&self.a.iter().copied().zip(self.b.iter().copied()).collect::<Vec<_>>()),
        }
    }
}

/// Corrects the p-values for their number and for interim looks, and draws the conclusions from
/// them.
fn correct(weighed: &mut [WeighedComparison], family_level: f64) {
    let family = weighed.iter_mut().filter(|one| one.difference.is_some_and(|found| !found.nothing_to_show));
    let family: Vec<&mut WeighedComparison> = family.collect();
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

/// Returns [`detectable_errors`], computed once per number of degrees of freedom: most comparisons
/// of a run have the same number.
fn errors(freedom: f64, level: f64, known: &mut Vec<(f64, Option<f64>)>) -> Option<f64> {
    if let Some((_, errors)) = known.iter().find(|(other, _)| *other == freedom) {
        return *errors;
    }
    let errors = detectable_errors(level, POWER, freedom);
    known.push((freedom, errors));
    errors
}

/// Largest number of values of a choice. A path with more values is a scale and is not compared
/// value by value.
const CHOICES: usize = 6;

/// A trial and its run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlayedTrial<'a> {
    pub trial: &'a Trial,
    /// Index of the run among the runs of its side.
    pub run: usize,
    /// Calendar time at which the trial's load began, if known.
    pub started_unix_s: Option<f64>,
}

/// A side of a comparison: one or several runs of an experiment.
#[derive(Debug, Clone)]
pub(crate) struct ComparisonSide<'a> {
    pub name: String,
    pub trials: Vec<PlayedTrial<'a>>,
}

/// Two sides that are compared, at one point.
#[derive(Debug)]
struct ComparedPair<'a> {
    pub over: String,
    pub a: String,
    pub b: String,
    pub at: BTreeMap<String, Value>,
    pub units: Units<'a>,
    /// Index of `b` among the groups that alternated.
    pub group: Option<usize>,
    /// Trials of all groups that alternated.
    pub together: Vec<PlacedTrial<'a>>,
}

/// A trial with its round (a repeat of a run, or a pair of runs) and the index of its group.
type PlacedTrial<'a> = (usize, usize, &'a Trial);

/// Function that reads a figure of a trial.
type MachineFigure = fn(&Trial) -> Option<f64>;

/// Covariates of a trial for [`blocks`]: the state of the machine.
const BESIDE: [(&str, MachineFigure); COVARIATES] =
    [("steal", |trial| trial.machine.steal_pct), ("strangers", strangers_pct)];

fn beside(trial: &Trial) -> [Option<f64>; COVARIATES] {
    BESIDE.map(|(_, figure)| figure(trial))
}

/// Returns the CPU time that other processes took. Returns `None` if the target's processes were
/// found by their connections: an undetected back end would count among the other processes.
fn strangers_pct(trial: &Trial) -> Option<f64> {
    trial.machine.strangers_cpu_pct.filter(|_| trial.machine.target_processes.is_empty())
}

/// One observation: a trial, or a run of several repeats that alternated with others.
#[derive(Debug, Clone)]
struct ObservationUnit<'a>(Vec<&'a Trial>);

/// One observation of each side, both made in the same round.
type UnitPair<'a> = (ObservationUnit<'a>, ObservationUnit<'a>);

/// Observations of both sides.
#[derive(Debug)]
struct Units<'a> {
    a: Vec<ObservationUnit<'a>>,
    b: Vec<ObservationUnit<'a>>,
    /// Whether observations of `a` and `b` at the same index were made in the same round, so that
    /// drift cancels out.
    are_paired: bool,
}

impl<'a> Units<'a> {
    fn paired(pairs: impl IntoIterator<Item = UnitPair<'a>>) -> Self {
        let (a, b) = pairs.into_iter().unzip();
        Self { a, b, are_paired: true }
    }
}

impl<'a> ObservationUnit<'a> {
    /// Returns the observation without its void trials, or `None` if no trial is left.
    pub fn usable(&self) -> Option<Self> {
        let trials: Vec<&'a Trial> = self.0.iter().filter(|trial| trial.counts()).copied().collect();
        (!trials.is_empty()).then_some(Self(trials))
    }

    /// Returns the mean of a figure over the trials (the geometric mean if a ratio will be
    /// computed). Returns `None` if a trial lacks the figure.
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
    /// Returns the logarithms of a figure for all trials that alternated, or an empty list if a
    /// logarithm does not exist.
    fn observed(&self, figure: &TrialFigure) -> Vec<Observed> {
        let mut observed = Vec::new();
        for &(round, group, trial) in &self.together {
            let Some(value) = figure.value(trial) else { continue };
            if value <= 0.0 {
                return Vec::new();
            }
            observed.push(Observed { round, group, value: value.ln(), beside: beside(trial) });
        }
        observed
    }

    fn trials(&self) -> impl Iterator<Item = &'a Trial> {
        self.units.a.iter().chain(&self.units.b).flat_map(|unit| unit.0.iter().copied())
    }
}

/// Pairs each variant of an experiment with the first, by repeat. Without variants, uses the first
/// swept path that is a choice.
fn couples_within<'a>(variants: &[String], swept: &[String], played: &[PlayedTrial<'a>]) -> Vec<ComparedPair<'a>> {
    let comparable: Vec<PlayedTrial<'a>> = played.iter().filter(|one| is_comparable(one.trial)).copied().collect();
    let (over, names) = if variants.is_empty() {
        let Some(choice) = choice(swept, &comparable) else { return Vec::new() };
        choice
    } else {
        ("variant".to_owned(), variants.to_vec())
    };
    let mut couples = Vec::new();
    let Some((a, others)) = names.split_first() else { return couples };
    for (at, of_point) in by_point(&comparable, |trial| without(&trial.point, &over)) {
        let mut together = in_rounds(&of_point, &over, &names);
        if !is_allowed_for(&together) {
            together.retain(|(_, _, trial)| trial.counts());
        }
        for (group, b) in (1..).zip(others) {
            let pairs: Vec<_> = together.iter().filter_map(|of_a| pair_of(of_a, group, &together)).collect();
            if !pairs.is_empty() {
                couples.push(ComparedPair {
                    over: over.clone(),
                    a: a.clone(),
                    b: b.clone(),
                    at: at.clone(),
                    units: Units::paired(pairs),
                    group: Some(group),
                    together: together.clone(),
                });
            }
        }
    }
    couples
}

/// Pairs a trial of the first group with the trial of `group` in the same round. Returns `None` for
/// a trial of another group.
fn pair_of<'a>(
    &(round, first, a): &PlacedTrial<'a>,
    group: usize,
    together: &[PlacedTrial<'a>],
) -> Option<UnitPair<'a>> {
    let (.., b) = together.iter().find(|(other, of, _)| first == 0 && (*other, *of) == (round, group))?;
    Some((ObservationUnit(vec![a]), ObservationUnit(vec![b])))
}

/// Adds to each trial its round and the index of its group: its variant, or its value of a swept
/// path.
fn in_rounds<'a>(played: &[PlayedTrial<'a>], over: &str, names: &[String]) -> Vec<PlacedTrial<'a>> {
    let mut rounds: Vec<(usize, u32)> = Vec::new();
    let placed = played.iter().filter_map(|one| {
        let key = (one.run, one.trial.repeat);
        let round = rounds.iter().position(|known| *known == key).unwrap_or_else(|| {
            rounds.push(key);
            rounds.len() - 1
        });
        let name = match over {
            "variant" => one.trial.variant.clone()?,
            path => text::of_json(one.trial.point.get(path)?),
        };
        Some((round, names.iter().position(|known| *known == name)?, one.trial))
    });
    placed.collect()
}

/// Whether the comparison of these trials is adjusted for all CPU time that other processes and the
/// hypervisor took.
fn is_allowed_for(together: &[PlacedTrial<'_>]) -> bool {
    let observed =
        together.iter().map(|&(round, group, trial)| Observed { round, group, value: 0.0, beside: beside(trial) });
    let observed: Vec<Observed> = observed.collect();
    let covariates = blocks::explaining(&observed);
    !covariates.used.is_empty() && covariates.unbalanced.is_empty()
}

/// Rules about CPU time that other processes or the hypervisor took. If a comparison is adjusted
/// for this time, such a rule is no reason to leave a trial out.
const OF_OTHERS: [&str; 3] = ["delayed", "steal", "strangers"];

/// Whether a trial may be compared: it counts, or only a rule in [`OF_OTHERS`] can have voided it.
fn is_comparable(trial: &Trial) -> bool {
    let (of_others, others): (Vec<&String>, Vec<&String>) =
        trial.verdict.rules.iter().partition(|rule| OF_OTHERS.contains(&rule.as_str()));
    trial.counts() || !of_others.is_empty() && !others.into_iter().any(|rule| can_void(rule))
}

/// Pairs every side with the first, at each variant and point that both have.
fn couples_between<'a>(sides: &[ComparisonSide<'a>]) -> Vec<ComparedPair<'a>> {
    let mut couples = Vec::new();
    let Some((a, others)) = sides.split_first() else { return couples };
    let of_a = by_point(&a.trials, variant_and_point);
    for b in others {
        let of_b = by_point(&b.trials, variant_and_point);
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

fn variant_and_point(trial: &Trial) -> BTreeMap<String, Value> {
    let variant = trial.variant.clone().map(|name| ("variant".to_owned(), Value::String(name)));
    trial.point.clone().into_iter().chain(variant).collect()
}

/// Observations of two sides. If the comparison is adjusted for covariates, also all trials with
/// their rounds and sides.
type BetweenSides<'a> = (Units<'a>, Vec<PlacedTrial<'a>>);

/// Returns the observations of two sides, or `None` if none is usable. Void runs are included in
/// the check whether the sides alternated, because leaving one out would shift all later pairs.
fn units_between<'a>(a: &[PlayedTrial<'a>], b: &[PlayedTrial<'a>]) -> Option<BetweenSides<'a>> {
    if let Some(pairs) = in_turn(a, b) {
        let together: Vec<PlacedTrial<'_>> =
            pairs.iter().enumerate().filter_map(|(round, pair)| in_round(round, pair)).flatten().collect();
        if is_allowed_for(&together) {
            return Some((Units::paired(pairs.into_iter().filter(|pair| in_round(0, pair).is_some())), together));
        }
        let usable: Vec<_> = pairs.iter().filter_map(|(a, b)| Some((a.usable()?, b.usable()?))).collect();
        if usable.len() > 1 {
            let rounds: Option<Vec<_>> = usable.iter().enumerate().map(|(round, pair)| in_round(round, pair)).collect();
            let together = rounds.map_or_else(Vec::new, |rounds| rounds.into_iter().flatten().collect());
            return Some((Units::paired(usable), together));
        }
    }
    let (a, b) = (usable(a), usable(b));
    let apart = || Units { a: by_run(&a), b: by_run(&b), are_paired: false };
    let units = in_turn(&a, &b).map_or_else(apart, Units::paired);
    (!a.is_empty() && !b.is_empty()).then_some((units, Vec::new()))
}

/// Returns both trials of a pair, if each side has exactly one trial and both are comparable.
fn in_round<'a>(round: usize, (a, b): &UnitPair<'a>) -> Option<[PlacedTrial<'a>; 2]> {
    match (a.0.as_slice(), b.0.as_slice()) {
        ([a], [b]) if is_comparable(a) && is_comparable(b) => Some([(round, 0, *a), (round, 1, *b)]),
        _ => None,
    }
}

/// Pairs runs that alternated, in the order in which they began. Returns `None` if they did not
/// alternate, or only once.
fn in_turn<'a>(a: &[PlayedTrial<'a>], b: &[PlayedTrial<'a>]) -> Option<Vec<UnitPair<'a>>> {
    let mut begun: Vec<(f64, bool, ObservationUnit<'a>)> = runs(a, true)?;
    begun.extend(runs(b, false)?);
    begun.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut pairs = Vec::new();
    // A run without a partner at the end is left out.
    for two in begun.chunks_exact(2) {
        match two {
            [(_, true, a), (_, false, b)] | [(_, false, b), (_, true, a)] => pairs.push((a.clone(), b.clone())),
            _ => return None,
        }
    }
    (pairs.len() > 1).then_some(pairs)
}

/// Returns the runs of a side with the time at which each began, or `None` if a time is unknown.
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

/// Returns each run as one observation, because its trials share a state of the machine.
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

/// Groups trials by point, in the order in which the points first appear.
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

/// Returns the first swept path whose values are few and not numbers, with its values in the order
/// of the plan.
fn choice(swept: &[String], played: &[PlayedTrial<'_>]) -> Option<(String, Vec<String>)> {
    swept.iter().find_map(|path| {
        let values = text::distinct(played.iter().filter_map(|played| played.trial.point.get(path)));
        let is_choice = (2..=CHOICES).contains(&values.len()) && !values.iter().any(|value| is_amount(value));
        is_choice.then(|| (path.clone(), values.into_iter().map(text::of_json).collect()))
    })
}

/// Whether the value is a number, or a text that begins with one: `10ms`, `1GiB`.
fn is_amount(value: &Value) -> bool {
    value.is_number() || value.as_str().is_some_and(|text| text.starts_with(|first: char| first.is_ascii_digit()))
}

fn without(point: &BTreeMap<String, Value>, path: &str) -> BTreeMap<String, Value> {
    point.iter().filter(|(key, _)| *key != path).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A figure of a trial.
#[derive(Debug, Clone, PartialEq)]
struct TrialFigure {
    pub path: String,
    /// Whether more is better; otherwise less is.
    pub more_is_better: bool,
    /// Whether the figure is a count or a share that can be 0, so that ratios are meaningless.
    pub can_be_zero: bool,
}

const OPERATIONS: &str = "throughput.operations_per_s";
const CYCLES: &str = "throughput.cycles_per_s";
const UNITS: &str = "throughput.median_units_per_s";

/// Figures that are compared by default. Cycles are compared only if cycles per operation differ
/// between trials.
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

/// Parts of a path that mark a count or a share.
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

/// Endings of paths for which more is better. For all others (times, losses, memory, cost), less is
/// better.
const GAINS: [&str; 3] = ["_per_s", "outcomes.ok", "checked"];

/// Path prefix of the metrics that the target reports. Their values may be 0 at any time.
const TOLD: &str = "metrics.";

/// Endings of paths that are never 0: a running process uses CPU, and a rate is a rate even for
/// losses.
const NEVER_ZERO: [&str; 2] = ["_per_s", "cpu_pct"];

/// Part of the paths of figures that are read from histograms.
const FROM_HISTOGRAMS: &str = "_us.";

/// Largest width of a histogram's bucket, as a share of its value: histograms have three
/// significant digits.
const BUCKET: f64 = 0.001;

/// Largest relative difference between trials' cycles per operation at which cycles are not
/// compared: they would only repeat the operations.
const SAME_CYCLES: f64 = 0.05;

impl TrialFigure {
    /// Derives the properties of a figure from the words of its path.
    pub fn of(path: &str) -> Self {
        let gains = GAINS.iter().any(|gain| path.ends_with(gain));
        let counted = COUNTED.iter().any(|word| path.contains(word));
        Self {
            path: path.to_owned(),
            more_is_better: gains,
            can_be_zero: path.starts_with(TOLD) || counted && !NEVER_ZERO.iter().any(|unit| path.ends_with(unit)),
        }
    }

    /// Returns the largest error that histogram buckets may cause in the figure's logarithm, in all
    /// trials alike.
    fn resolution(&self) -> f64 {
        if self.path.contains(FROM_HISTOGRAMS) { BUCKET.ln_1p() } else { 0.0 }
    }

    /// Returns the value in a trial; the worst, if there are several. Returns `None` if the trial's
    /// verdict excludes the figure.
    pub fn value(&self, trial: &Trial) -> Option<f64> {
        let path = self.path.as_str().into();
        // A trial that does not count is compared only if the comparison is adjusted for the cause
        // of its verdict.
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

    /// Returns the number of values that a trial must have. If service did not recover from one
    /// fault within the trial, recovery times of other faults must not pass for the worst.
    fn expected(&self, trial: &Trial) -> usize {
        let Some(of) =
            self.path.strip_prefix("faults.").and_then(|path| path.strip_suffix("outage.back_to_baseline_s"))
        else {
            return 0;
        };
        let meant = trial.faults.iter().filter(|one| of.is_empty() || of.strip_suffix('.') == Some(&one.name));
        meant.filter(|fault| fault.outage.is_some()).count()
    }
}

/// Returns the figures that are compared by default. If operations count units of work, their
/// throughput and the service time of these operations are compared as well: the overall latency
/// also covers the other operations.
fn usual<'a>(trials: impl Iterator<Item = &'a Trial>) -> Vec<TrialFigure> {
    let trials: Vec<&Trial> = trials.collect();
    let counting_units = trials.iter().flat_map(|trial| &trial.operations).filter(|(_, of)| of.units.is_some());
    let names: BTreeSet<&String> = counting_units.map(|(name, _)| name).collect();
    let units = (!names.is_empty()).then(|| UNITS.to_owned());
    let service = names.iter().map(|name| format!("operations.{name}.service_us.p50"));
    let of_work: Vec<TrialFigure> = units.into_iter().chain(service).map(|path| TrialFigure::of(&path)).collect();
    let rates = trials.iter().filter_map(|trial| trial.throughput.cycles_per_s.zip(trial.throughput.operations_per_s));
    let of_each: Vec<f64> = rates.filter(|(_, rate)| *rate > 0.0).map(|(cycles, rate)| cycles / rate).collect();
    let most = of_each.iter().copied().fold(0.0, f64::max);
    let least = of_each.iter().copied().fold(f64::INFINITY, f64::min);
    let cycles_tell_more = most > least * (1.0 + SAME_CYCLES);
    let usual = USUAL.into_iter().filter(|path| *path != CYCLES || cycles_tell_more).map(TrialFigure::of);
    of_work.into_iter().chain(usual).collect()
}

/// Applies the gate, if there is one, to each comparison.
fn judged(weighed: Vec<WeighedComparison>, options: &CompareOptions) -> Vec<GatedComparison> {
    let mut known = Vec::new();
    let judged = weighed.into_iter().map(|one| {
        let gate = options.gate_pct.map(|gate_pct| gated(&one.comparison, gate_pct, options.is_sure));
        let needed = options.gate_pct.filter(|_| gate == Some(Gated::CannotTell));
        let worse = Worsening::of(&one.comparison).map(|worse| worse.estimate_pct);
        GatedComparison {
            worse_pct: worse.filter(|worse| worse.is_finite()),
            gate,
            repeats_needed: needed.and_then(|gate_pct| repeats_needed(&one, gate_pct, &mut known)),
            comparison: one.comparison,
        }
    });
    judged.collect()
}

/// Applies a gate of `gate_pct` to a comparison. Both the adjusted ratio and the ratio without
/// adjustment can fail the gate.
fn gated(comparison: &Comparison, gate_pct: f64, is_sure: bool) -> Gated {
    let worse = Worsening::of(comparison);
    let raw_is_shown = comparison.raw_ci95_adjusted.is_some_and(|[low, high]| 1.0 < low || high < 1.0);
    let shown = [worse.filter(|_| comparison.significant), Worsening::raw_of(comparison).filter(|_| raw_is_shown)];
    if shown.into_iter().flatten().any(|worse| worse.least_pct(is_sure) >= gate_pct) {
        return Gated::Fails;
    }
    // The limit of a share in percent, which may be 0, is in percentage points.
    let in_points = comparison.difference_ci95_adjusted.filter(|_| is_share(comparison));
    let far = match in_points {
        Some([_, high]) => Some(high),
        None => worse.and_then(|worse| worse.interval_pct).map(|[_, far]| far),
    };
    let passes = match far {
        Some(far) => far < gate_pct,
        // Without spread there is no interval: the gate passes if the difference is significant or
        // all values are equal.
        None => comparison.significant || comparison.p == Some(1.0),
    };
    if passes { Gated::Passes } else { Gated::CannotTell }
}

/// Change for the worse from `a` to `b`, percent of `a`. Negative if `b` is better; infinite if `a`
/// is 0 and `b` is not.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Worsening {
    estimate_pct: f64,
    /// Corrected interval, its better end first; `None` if there is none.
    interval_pct: Option<[f64; 2]>,
}

impl Worsening {
    /// Returns the change by the ratio or, without a ratio, by the difference.
    fn of(comparison: &Comparison) -> Option<Self> {
        if let Some(ratio) = comparison.ratio {
            return Some(Self::of_ratio(comparison, ratio, comparison.ci95_adjusted));
        }
        let (a, difference) = (comparison.a_value?.abs(), comparison.difference?);
        let more_pct = if difference == 0.0 { 0.0 } else { 100.0 * difference / a };
        let ends = comparison.difference_ci95_adjusted;
        let ends = ends.map(|ends| ends.map(|end| if end == 0.0 { 0.0 } else { 100.0 * end / a }));
        Some(Self::signed(comparison, more_pct, ends))
    }

    /// Returns the change that a gate judges: the better end of the interval if `is_sure`,
    /// otherwise the estimate.
    fn least_pct(self, is_sure: bool) -> f64 {
        self.interval_pct.filter(|_| is_sure).map_or(self.estimate_pct, |[near, _]| near)
    }

    /// Returns the change of the ratio without adjustment.
    fn raw_of(comparison: &Comparison) -> Option<Self> {
        Some(Self::of_ratio(comparison, comparison.raw_ratio?, comparison.raw_ci95_adjusted))
    }

    fn of_ratio(comparison: &Comparison, ratio: f64, ends: Option<[f64; 2]>) -> Self {
        let ends = ends.map(|ends| ends.map(|end| 100.0 * (end - 1.0)));
        Self::signed(comparison, 100.0 * (ratio - 1.0), ends)
    }

    fn signed(comparison: &Comparison, more_pct: f64, ends: Option<[f64; 2]>) -> Self {
        if TrialFigure::of(&comparison.metric).more_is_better {
            return Self { estimate_pct: -more_pct, interval_pct: ends.map(|[low, high]| [-high, -low]) };
        }
        Self { estimate_pct: more_pct, interval_pct: ends }
    }
}

/// Whether the figure is a share. Its difference is judged in percentage points, because its
/// baseline may be 0.
fn is_share(comparison: &Comparison) -> bool {
    comparison.ratio.is_none() && comparison.metric.ends_with("_pct")
}

/// Largest number of repeats for which [`repeats_needed`] searches.
const REPEATS_MAX: u32 = 1_000;

/// Returns the number of repeats per side with which nine of ten comparisons would show a change as
/// large as the gate, given the spread of these trials. `known` is as in [`errors`].
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
