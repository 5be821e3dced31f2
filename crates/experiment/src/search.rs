//! The search for the safe load. Derives the next trial and the current result from the finished
//! trials alone, so that a run can continue after any interruption.
//!
//! Method: doubling and halving find a bracket. Then the search bisects at the median of the
//! [`posterior`], until the 95 % interval is narrow enough or another limit ends the search.

mod posterior;

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::plan::{Find, Plan, Trial, trial};

use posterior::{Bracket, HIGH, LOW, Posterior, ProbeAnswer, SearchRange};

/// A finished trial, reduced to the facts that a search needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    pub variant: Option<String>,
    /// Name of the condition (from `find.surviving`) under which the trial ran.
    pub surviving: Option<String>,
    /// Tried value of the raised setting, in the unit of the experiment file.
    pub value: f64,
    pub said: ProbeResult,
    /// Mean time from send to answer, microseconds.
    pub service_us: Option<f64>,
    /// Whether only limits on latency broke, although the times from send to answer are within
    /// those limits: operations were due long before they were sent.
    pub waited: bool,
}

/// Whether the search's limits held in a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbeResult {
    /// All limits hold. Contains the margin of the metric nearest to its bound: the natural
    /// logarithm of their ratio, or `None` if a ratio makes no sense.
    Held(Option<f64>),
    /// One or more limits broke. Contains the margin of the metric farthest beyond its bound.
    Broke(Option<f64>),
    /// No verdict.
    Nothing(Inconclusive),
}

/// Reason why a trial has no verdict, with an explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inconclusive {
    /// The generator was at its limit, so the target's limit is not known.
    Generator(String),
    /// The trial is void for another reason.
    Void(String),
    /// A limit's metric was not measured, and a repeated trial would not measure it either.
    Unmeasured(String),
    /// A limit's metric was not measured for lack of operations; a higher load would start more
    /// operations.
    TooFew(String),
}

impl Plan {
    /// Returns the next trial of the search, if the plan has a search that is not over. Several
    /// searches take turns, so that changes of the machine affect all searches equally.
    #[must_use]
    pub fn next(&self, finished: &[Finished]) -> Option<Trial> {
        let find = self.find.as_ref()?;
        let wanted = find.templates.iter().filter_map(|template| {
            let own = of(template, finished);
            let value = SearchState::of(find, template, &own).next().ok()?;
            Some((own.len(), template, value))
        });
        let (_, template, value) = wanted.min_by_key(|(taken, ..)| *taken)?;
        Some(made(find, template, value, finished))
    }
}

/// Returns the current result of one search: one variant under one condition.
#[must_use]
pub fn line(find: &Find, template: &Trial, finished: &[Finished]) -> SearchSummary {
    SearchState::of(find, template, &of(template, finished)).line()
}

/// Typical growth of a latency near its limit, percent for each percent of load.
const TYPICAL_SLOPE: f64 = 4.0;

/// Returns the number of trials that a search of this template takes if nothing disturbs the
/// trials: the median over assumed edges below, near and above the search's first value.
#[must_use]
pub fn typical_trials(find: &Find, template: &Trial) -> u32 {
    let first = find.first(template);
    let mut counts = [0.3, 1.4, 5.0, 20.0].map(|factor| {
        let edge = first * factor;
        let mut finished = Vec::new();
        while let Ok(value) = SearchState::of(find, template, &finished).next() {
            let margin = Some(TYPICAL_SLOPE * (value / edge).ln().abs());
            let said = if value <= edge { ProbeResult::Held(margin) } else { ProbeResult::Broke(margin) };
            finished.push(Finished {
                variant: template.variant.clone(),
                surviving: template.surviving.clone(),
                value,
                said,
                service_us: None,
                waited: false,
            });
        }
        u32::try_from(finished.len()).unwrap_or(u32::MAX)
    });
    counts.sort_unstable();
    counts[1].midpoint(counts[2])
}

fn of(template: &Trial, finished: &[Finished]) -> Vec<Finished> {
    let mut own = finished.to_vec();
    own.retain(|one| one.variant == template.variant && one.surviving == template.surviving);
    own
}

/// Ratio of the time from send to answer to that at the lowest accepted load. Up to this ratio, the
/// target is not the reason why operations waited.
const GROWN: f64 = 1.25;

/// Marks trials in which the generator was the limit. If operations waited for a free agent while
/// the target answered as fast as at the lowest accepted load, then the generator has too few
/// agents.
fn told_apart(finished: &[Finished]) -> Vec<Finished> {
    let held = finished.iter().filter(|one| matches!(one.said, ProbeResult::Held(_)));
    let calm = held.min_by(|a, b| a.value.total_cmp(&b.value)).and_then(|one| Some((one.value, one.service_us?)));
    let mut told = finished.to_vec();
    for one in told.iter_mut().filter(|one| one.waited && matches!(one.said, ProbeResult::Broke(_))) {
        if let Some((value, calm_us)) = calm
            && value < one.value
            && one.service_us.is_some_and(|us| us <= GROWN * calm_us)
        {
            one.said = ProbeResult::Nothing(Inconclusive::Generator(TOO_FEW_AGENTS.to_owned()));
        }
    }
    told
}

const TOO_FEW_AGENTS: &str =
    "operations waited for a free agent while the target answered as fast as before; `load.agents` is too low";

/// Returns the trial of this template at `value`.
fn made(find: &Find, template: &Trial, value: f64, finished: &[Finished]) -> Trial {
    let before = of(template, finished);
    #[expect(clippy::float_cmp, reason = "values are made here, and the same one is the same number")]
    let played = before.iter().filter(|one| one.value == value).count();
    let repeat = u32::try_from(played + 1).unwrap_or(u32::MAX);
    let point = BTreeMap::from([(find.highest.clone(), json(value))]);
    let seed = trial::seed_of_trial(template.seed, repeat, &point);
    let mut trial = Trial {
        id: format!("{:03}", finished.len() + 1),
        point,
        repeat,
        seed,
        faults: trial::seeded_faults(&template.faults, seed),
        steps: trial::seeded_steps(&template.steps, seed),
        ..template.clone()
    };
    let speed = trial.lab.speed;
    if let Some(load) = &mut trial.load {
        find.raise(load, value, speed);
    }
    trial
}

/// Converts to JSON. A whole number has no decimal point.
fn json(value: f64) -> Json {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and far below 2^53")]
    if value.fract() == 0.0 { Json::from(value as u64) } else { Json::from(value) }
}

/// Ratio of a search's first value to the lowest value that it tries.
const DEEPEST: f64 = 256.0;

/// Divisor for the next lower value, after the limits broke in two trials and held in none.
const DIVE: f64 = 8.0;

/// Factor by which the posterior's range extends beyond the tried values. Leaves space for one
/// wrong answer.
const AROUND: f64 = 4.0;

/// Number of trials at one value in which the generator was at its limit, before the value counts
/// as the generator's limit. A single trial may be an accident.
const GENERATOR_TRIES: usize = 2;
/// Number of trials at one value that are void for other reasons, before the search gives up.
const VOID_TRIES: usize = 3;
/// Number of trials without enough operations to measure a limit's metric, before the search gives
/// up.
const FEW_TRIES: usize = 8;
/// Ratio of the generator's limit to the highest value that held, at which the search ends.
const GENERATOR_RATIO: f64 = 1.25;

/// Minimum number of answers that support each end of the interval.
const CONFIRMED: usize = 2;

/// Current result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchSummary {
    /// The edge: the value at which the wanted share of trials holds, as the posterior median.
    /// `None` if the limits hold at no tried value, or no trial has a verdict.
    pub value: Option<f64>,
    /// 95 % interval; an end is `None` if the search found no value for it.
    pub ci95: [Option<f64>; 2],
    /// Reason why there is no next trial; `None` if there is one.
    pub end: Option<End>,
}

/// Reason why a search is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The interval is narrow enough.
    Narrow,
    /// The limits do not hold at the lowest sensible value.
    Nowhere,
    /// The limits hold at the highest allowed value.
    Bound,
    /// The generator cannot produce a higher load. Contains the reason.
    Generator(String),
    /// Trials had no verdict. Contains the reason.
    Silent(String),
    /// The maximum number of trials is reached.
    Trials,
}

/// One search and its finished trials.
struct SearchState<'a> {
    find: &'a Find,
    finished: Vec<Finished>,
    first: f64,
    answers: Vec<ProbeAnswer>,
}

impl<'a> SearchState<'a> {
    pub fn of(find: &'a Find, template: &Trial, finished: &[Finished]) -> Self {
        let finished = told_apart(finished);
        let mut answers = Vec::new();
        for one in &finished {
            let (held, margin) = match one.said {
                ProbeResult::Held(margin) => (true, margin),
                ProbeResult::Broke(margin) => (false, margin),
                ProbeResult::Nothing(_) => continue,
            };
            answers.push(ProbeAnswer { value: one.value, held, margin });
        }
        Self { find, first: rounded(find, find.first(template)), answers, finished }
    }

    /// Returns the current result.
    pub fn line(&self) -> SearchSummary {
        let end = self.next().err();
        if self.answers.is_empty() {
            return SearchSummary { value: None, ci95: [None, None], end };
        }
        if self.highest(true).is_none() {
            // The limits have held at no value yet, so a value below those that broke would be a
            // guess.
            return SearchSummary { value: None, ci95: [None, self.lowest(false)], end };
        }
        let posterior = self.posterior().long_run(self.log_odds());
        let [low, middle, high] = [LOW, 0.5, HIGH].map(|q| posterior.quantile(q));
        let whole = self.whole();
        let known =
            |value: f64| (value > 0.0 && value.is_finite()).then(|| if whole { value } else { digits(value, 4) });
        // The last cell is unbounded: it is only known that the limits hold up to its lower end.
        let inside = middle.low > 0.0 && middle.high.is_finite() && !whole;
        let value = if inside { rounded(self.find, (middle.low * middle.high).sqrt()) } else { middle.low };
        // The limits may hold at no value. Then the lowest sensible value is the upper end.
        let upper = if high.low > 0.0 { high.high } else { self.floor() };
        SearchSummary { value: known(value), ci95: [known(low.low), known(upper)], end }
    }

    /// Returns the next value, or the reason why there is none.
    pub fn next(&self) -> Result<f64, End> {
        let next = match self.again()? {
            Some(again) => again,
            None => self.goes_on()?,
        };
        if self.finished.len() >= self.find.trials_max as usize { Err(End::Trials) } else { Ok(next) }
    }

    /// Returns the value for another try if the last trial had no verdict. After too few
    /// operations, the value is higher than the last one.
    fn again(&self) -> Result<Option<f64>, End> {
        let Some(Finished { value, said: ProbeResult::Nothing(silence), .. }) = self.finished.last() else {
            return Ok(None);
        };
        let tries = self.silent_at(*value).count();
        match silence {
            // A higher load starts more operations in the same time.
            Inconclusive::TooFew(_)
                if self.answers.is_empty() && self.finished.len() < FEW_TRIES && *value < self.bound() =>
            {
                Ok(Some(rounded(self.find, (value * 2.0).min(self.bound()))))
            }
            Inconclusive::Unmeasured(reason) | Inconclusive::TooFew(reason) => Err(End::Silent(reason.clone())),
            Inconclusive::Void(reason) if tries >= VOID_TRIES => Err(End::Silent(reason.clone())),
            Inconclusive::Generator(_) if tries >= GENERATOR_TRIES => Ok(None),
            Inconclusive::Void(_) | Inconclusive::Generator(_) => Ok(Some(*value)),
        }
    }

    fn silent_at(&self, value: f64) -> impl Iterator<Item = &Inconclusive> {
        self.finished.iter().filter_map(move |one| match &one.said {
            ProbeResult::Nothing(silence) if same(one.value, value) => Some(silence),
            _ => None,
        })
    }

    /// Returns the lowest value that the generator cannot produce, and the reason.
    fn ceiling(&self) -> Option<(f64, &str)> {
        let found = self.finished.iter().filter_map(|one| match &one.said {
            ProbeResult::Nothing(Inconclusive::Generator(reason)) => {
                let answered = self.answers.iter().any(|answer| same(answer.value, one.value));
                (self.silent_at(one.value).count() >= GENERATOR_TRIES && !answered)
                    .then_some((one.value, reason.as_str()))
            }
            _ => None,
        });
        found.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    fn goes_on(&self) -> Result<f64, End> {
        let ceiling = self.ceiling();
        let generator = |reason: &str| End::Generator(reason.to_owned());
        let held = self.highest(true);
        let broke = self.lowest(false);
        let next = match (held, broke, ceiling) {
            (None, None, None) => self.first,
            (None, None, Some((ceiling, reason))) => {
                let lower = self.lower(ceiling);
                if lower >= ceiling {
                    return Err(generator(reason));
                }
                lower
            }
            (Some(held), None, Some((ceiling, reason))) => {
                let close = ceiling / held <= GENERATOR_RATIO || (self.whole() && ceiling - held <= 1.0);
                match (close, self.count(|value, answer| answer && same(value, held)) >= CONFIRMED) {
                    (true, true) => return Err(generator(reason)),
                    (true, false) => held,
                    (false, _) => rounded(self.find, (held * ceiling).sqrt()),
                }
            }
            (Some(held), None, None) if held < self.bound() => rounded(self.find, (held * 2.0).min(self.bound())),
            (None, Some(broke), _) if broke > self.floor() => self.deeper(broke),
            _ => self.bisects()?,
        };
        match ceiling {
            Some((ceiling, reason)) if next >= ceiling => Err(generator(reason)),
            _ => Ok(next),
        }
    }

    fn bisects(&self) -> Result<f64, End> {
        let answers = self.posterior();
        let posterior = answers.these_trials(self.log_odds());
        let [low, high] = [LOW, HIGH].map(|q| posterior.quantile(q));
        let reached = if low.high.is_infinite() {
            Some(End::Bound)
        } else if high.low <= 0.0 {
            Some(End::Nowhere)
        } else if low.low > 0.0 && high.high.is_finite() && self.is_narrow(low, high, answers.memory) {
            Some(End::Narrow)
        } else {
            None
        };
        let Some(end) = reached else { return Ok(rounded(self.find, answers.median())) };
        self.unconfirmed(&end, low, high).ok_or(end)
    }

    /// Whether the interval from `low` to `high` is narrow enough. It does not include the error
    /// that all trials of this search share, because more trials would not reduce it.
    fn is_narrow(&self, low: Bracket, high: Bracket, memory: f64) -> bool {
        let width = (high.high - low.low) * memory;
        width <= low.low * self.find.precision_pct / 100.0 || (self.whole() && width <= 1.0)
    }

    /// Returns a value to try again if too few answers support an end of the interval, so that a
    /// single spoiled trial does not decide.
    fn unconfirmed(&self, end: &End, low: Bracket, high: Bracket) -> Option<f64> {
        let room = 1.0 + 2.0 * self.find.precision_pct / 100.0;
        let one = f64::from(u8::from(self.whole()));
        let (least, most) = ((low.low / room).min(low.low - one), (high.high * room).max(high.high + 2.0 * one));
        let below = self.count(|value, held| held && value >= least);
        let above = self.count(|value, held| !held && value <= most);
        // The ends take turns, so that a drift over time does not look like a difference between
        // them.
        match (*end != End::Nowhere && below < CONFIRMED, *end != End::Bound && above < CONFIRMED) {
            (false, false) => None,
            (true, other) if !other || below <= above => Some(rounded(self.find, low.low)),
            _ if *end == End::Nowhere => Some(self.floor()),
            _ => Some(rounded(self.find, high.high + one)),
        }
    }

    fn posterior(&self) -> Posterior {
        let least = self.answers.iter().map(|answer| answer.value).fold(f64::INFINITY, f64::min);
        let most = self.answers.iter().map(|answer| answer.value).fold(0.0, f64::max);
        let bound = self.ceiling().map_or(self.bound(), |(ceiling, _)| ceiling.min(self.bound()));
        // If no limit broke, nothing is known beyond the tried values.
        let around = if self.lowest(false).is_some() { AROUND } else { 1.0 };
        let from = rounded(self.find, least / AROUND).max(self.floor());
        let to = rounded(self.find, most * around).min(bound).max(from);
        let precision = self.find.precision_pct / 100.0;
        let [a, b] = [self.highest(true), self.lowest(false)].map(|end| end.unwrap_or(from));
        let range = SearchRange { from, to, whole: self.whole(), precision, edge: [a.min(b), a.max(b)] };
        Posterior::of(range, &self.answers)
    }

    /// Returns the logarithm of the odds that the limits hold in a trial at the wanted value; 0 for
    /// the edge.
    fn log_odds(&self) -> f64 {
        let hold = self.find.hold_pct / 100.0;
        (hold / (1.0 - hold)).ln()
    }

    fn whole(&self) -> bool {
        self.find.is_whole()
    }

    /// Returns the lowest sensible value.
    fn floor(&self) -> f64 {
        if self.whole() { 1.0 } else { rounded(self.find, self.first / DEEPEST) }
    }

    fn bound(&self) -> f64 {
        self.find.up_to.unwrap_or(f64::INFINITY)
    }

    fn lower(&self, value: f64) -> f64 {
        rounded(self.find, value / 2.0).max(self.floor())
    }

    /// Returns the next lower value. The step is larger after two trials that broke a limit, to
    /// find out soon if the limits hold at no value.
    fn deeper(&self, broke: f64) -> f64 {
        let by = if self.count(|_, held| !held) < 2 { 2.0 } else { DIVE };
        rounded(self.find, broke / by).max(self.floor())
    }

    fn highest(&self, held: bool) -> Option<f64> {
        let same = self.answers.iter().filter(|answer| answer.held == held);
        same.map(|answer| answer.value).max_by(f64::total_cmp)
    }

    fn lowest(&self, held: bool) -> Option<f64> {
        let same = self.answers.iter().filter(|answer| answer.held == held);
        same.map(|answer| answer.value).min_by(f64::total_cmp)
    }

    fn count(&self, counts: impl Fn(f64, bool) -> bool) -> usize {
        self.answers.iter().filter(|answer| counts(answer.value, answer.held)).count()
    }
}

/// Compares values with a tolerance, because writing to a file and reading back may change the last
/// bit.
fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs()
}

/// Rounds a value for a trial: to a whole number of agents, or to a rate of three digits.
fn rounded(find: &Find, value: f64) -> f64 {
    if find.is_whole() { value.round().max(1.0) } else { digits(value, 3) }
}

fn digits(value: f64, count: i32) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return value;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a power of ten")]
    let power = value.log10().floor() as i32 - (count - 1);
    // Divides by a power of ten, so that 0.3 is the same number as in a user's file.
    let scaled = (value / 10_f64.powi(power)).round();
    if power >= 0 { scaled * 10_f64.powi(power) } else { scaled / 10_f64.powi(-power) }
}

#[cfg(test)]
mod tests;
