//! The search for the safe load: from the trials that are finished, and nothing else, to the one that comes next, and to what all
//! of them say. Pure, so that a run goes on after any interruption.
//!
//! Its course: bracket by doubling and halving, then bisect at the median of the [`posterior`], until the interval is narrow or
//! something else ends it.

mod posterior;

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::plan::{Find, Plan, Trial, trial};

use posterior::{Bracket, HIGH, LOW, Posterior, ProbeAnswer, SearchRange};

/// A finished trial, as far as a search has to know it.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Its variant.
    pub variant: Option<String>,
    /// Its condition.
    pub surviving: Option<String>,
    /// The value it had, in the file's terms.
    pub value: f64,
    /// What it says.
    pub said: ProbeResult,
    /// Mean time from send to answer, microseconds.
    pub service_us: Option<f64>,
    /// Whether it broke nothing but limits on latency that the times from send to answer are within: operations were due long before they
    /// were sent.
    pub waited: bool,
}

/// What a trial says of the limits.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbeResult {
    /// All hold; how far the nearest one is from its bound, as the natural logarithm of their ratio, if that makes sense.
    Held(Option<f64>),
    /// One does not; how far the farthest is beyond its bound.
    Broke(Option<f64>),
    /// Nothing.
    Nothing(Inconclusive),
}

/// Why a trial says nothing, with the reason in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inconclusive {
    /// The generator was at its limit: what the target would have done is not known.
    Generator(String),
    /// It is void for another reason.
    Void(String),
    /// A limit's metric was not measured; that will not change with another try.
    Unmeasured(String),
    /// Likewise, for want of operations: a higher load would make more.
    TooFew(String),
}

impl Plan {
    /// The next trial of the search, if the plan has one and it is not over. Several searches take turns, so that what the machine
    /// does in the meantime is shared by all.
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

/// What the finished trials say about one search: one variant under one condition.
#[must_use]
pub fn line(find: &Find, template: &Trial, finished: &[Finished]) -> SearchSummary {
    SearchState::of(find, template, &of(template, finished)).line()
}

/// How fast a latency grows with the load near its limit: by 4 % for each percent.
const TYPICAL_SLOPE: f64 = 4.0;

/// How many trials a search of this template takes if nothing disturbs it: the median over edges below, near and above its first
/// value.
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
    let same = |one: &&Finished| one.variant == template.variant && one.surviving == template.surviving;
    finished.iter().filter(same).cloned().collect()
}

/// With so little growth of the time from send to answer, the target is not what operations waited for.
const GROWN: f64 = 1.25;

/// Where operations waited for an agent to be free, while the target answered as fast as at the lowest load that held, it is the
/// generator that has too few agents, and the target that was not asked for more.
fn told_apart(finished: &[Finished]) -> Vec<Finished> {
    let held = finished.iter().filter(|one| matches!(one.said, ProbeResult::Held(_)));
    let calm = held.min_by(|a, b| a.value.total_cmp(&b.value)).and_then(|one| Some((one.value, one.service_us?)));
    let is_generator = |one: &Finished| {
        let broke = one.waited && matches!(one.said, ProbeResult::Broke(_));
        let grown =
            |(value, calm_us): (f64, f64)| value >= one.value || one.service_us.is_none_or(|us| us > GROWN * calm_us);
        broke && calm.is_some_and(|calm| !grown(calm))
    };
    let told = |one: &Finished| match is_generator(one) {
        true => {
            Finished { said: ProbeResult::Nothing(Inconclusive::Generator(TOO_FEW_AGENTS.to_owned())), ..one.clone() }
        }
        false => one.clone(),
    };
    finished.iter().map(told).collect()
}

const TOO_FEW_AGENTS: &str =
    "operations waited for a free agent while the target answered as fast as before; `load.agents` is too low";

/// A trial of this template with this value.
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

/// A whole number without a point.
fn json(value: f64) -> Json {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and far below 2^53")]
    if value.fract() == 0.0 { Json::from(value as u64) } else { Json::from(value) }
}

/// A search gives up that far below its first value.
const DEEPEST: f64 = 256.0;

/// By so much the next value is lower where two have broken and none has held.
const DIVE: f64 = 8.0;

/// The first answers cover so much around the values tried: room for one of them to be wrong.
const AROUND: f64 = 4.0;

/// Trials of a value at which the generator was at its limit, until that counts as its limit: it is no accident twice.
const GENERATOR_TRIES: usize = 2;
/// Trials of a value that are void otherwise, until the search gives up.
const VOID_TRIES: usize = 3;
/// Values that have too few operations for a limit, until the search gives up.
const FEW_TRIES: usize = 8;
/// The generator's limit is not searched more closely than this.
const GENERATOR_RATIO: f64 = 1.25;

/// Answers that each end of the interval rests on at least.
const CONFIRMED: usize = 2;

/// What a search says so far.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchSummary {
    /// The edge: the value at which the wanted share of trials holds, as the median of what is possible; `None` if the limits hold
    /// nowhere, or nothing is known.
    pub value: Option<f64>,
    /// 95 % interval; an end is `None` where the search met none.
    pub ci95: [Option<f64>; 2],
    /// Why there is no next trial; `None`: there is one.
    pub end: Option<End>,
}

/// Why a search is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The interval is as narrow as was asked for.
    Narrow,
    /// The limits do not hold at the lowest value that makes sense.
    Nowhere,
    /// They hold at the highest value that was to be tried.
    Bound,
    /// The generator cannot make a higher load; why.
    Generator(String),
    /// Trials said nothing; why.
    Silent(String),
    /// No more trials were allowed.
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
        let answer = |one: &Finished| match one.said {
            ProbeResult::Held(margin) => Some(ProbeAnswer { value: one.value, held: true, margin }),
            ProbeResult::Broke(margin) => Some(ProbeAnswer { value: one.value, held: false, margin }),
            ProbeResult::Nothing(_) => None,
        };
        let first = rounded(find, find.first(template));
        Self { find, first, answers: finished.iter().filter_map(answer).collect(), finished }
    }

    /// What is known by now.
    pub fn line(&self) -> SearchSummary {
        let end = self.next().err();
        if self.answers.is_empty() {
            return SearchSummary { value: None, ci95: [None, None], end };
        }
        if self.highest(true).is_none() {
            // Below what broke nothing is known: a value there would be a guess.
            return SearchSummary { value: None, ci95: [None, self.lowest(false)], end };
        }
        let posterior = self.posterior().long_run(self.log_odds());
        let [low, middle, high] = [LOW, 0.5, HIGH].map(|q| posterior.quantile(q));
        let whole = self.whole();
        let known =
            |value: f64| (value > 0.0 && value.is_finite()).then(|| if whole { value } else { digits(value, 4) });
        // In the last cell there is no middle: all that is known is that it holds that far.
        let inside = middle.low > 0.0 && middle.high.is_finite() && !whole;
        let value = if inside { rounded(self.find, (middle.low * middle.high).sqrt()) } else { middle.low };
        // They may hold nowhere: then all that is known is where they broke.
        let upper = if high.low > 0.0 { high.high } else { self.floor() };
        SearchSummary { value: known(value), ci95: [known(low.low), known(upper)], end }
    }

    /// The next value, or why there is none.
    pub fn next(&self) -> Result<f64, End> {
        let taken = self.finished.len();
        let out_of_trials =
            |value: f64| if taken >= self.find.trials_max as usize { Err(End::Trials) } else { Ok(value) };
        if let Some(again) = self.again()? {
            return out_of_trials(again);
        }
        out_of_trials(self.goes_on()?)
    }

    /// The value of a last trial that said nothing, if it is to be played again.
    fn again(&self) -> Result<Option<f64>, End> {
        let Some(Finished { value, said: ProbeResult::Nothing(silence), .. }) = self.finished.last() else {
            return Ok(None);
        };
        let tries = self.silent_at(*value).count();
        match silence {
            // Too short for the first value is long enough for a higher one.
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
        let same = move |one: &&Finished| same(one.value, value);
        self.finished.iter().filter(same).filter_map(|one| match &one.said {
            ProbeResult::Nothing(silence) => Some(silence),
            _ => None,
        })
    }

    /// The lowest value that the generator cannot make, and why.
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

    /// Whether the trials of this search leave this little room. What others may be off by is no reason to go on: more trials
    /// would not show it.
    fn is_narrow(&self, low: Bracket, high: Bracket, memory: f64) -> bool {
        let width = (high.high - low.low) * memory;
        width <= low.low * self.find.precision_pct / 100.0 || (self.whole() && width <= 1.0)
    }

    /// The end that rests on a single answer: a trial that went wrong cannot decide alone.
    fn unconfirmed(&self, end: &End, low: Bracket, high: Bracket) -> Option<f64> {
        let room = 1.0 + 2.0 * self.find.precision_pct / 100.0;
        let one = f64::from(u8::from(self.whole()));
        let below = |value: f64, held: bool| held && value >= (low.low / room).min(low.low - one);
        let above = |value: f64, held: bool| !held && value <= (high.high * room).max(high.high + 2.0 * one);
        let is_asked = [*end != End::Nowhere, *end != End::Bound];
        let answered = [self.count(below), self.count(above)];
        let lacks = |side: usize| is_asked[side] && answered[side] < CONFIRMED;
        // In turns, so that what drifts meanwhile does not look like a difference of the two.
        match (lacks(0), lacks(1)) {
            (false, false) => None,
            (true, other) if !other || answered[0] <= answered[1] => Some(rounded(self.find, low.low)),
            _ if *end == End::Nowhere => Some(self.floor()),
            _ => Some(rounded(self.find, high.high + one)),
        }
    }

    fn posterior(&self) -> Posterior {
        let tried = || self.answers.iter().map(|answer| answer.value);
        let (least, most) = (tried().fold(f64::INFINITY, f64::min), tried().fold(0.0, f64::max));
        let bound = self.ceiling().map_or(self.bound(), |(ceiling, _)| ceiling.min(self.bound()));
        // Without a broken limit, nothing is known beyond what was tried.
        let around = if self.lowest(false).is_some() { AROUND } else { 1.0 };
        let from = rounded(self.find, least / AROUND).max(self.floor());
        let to = rounded(self.find, most * around).min(bound).max(from);
        let precision = self.find.precision_pct / 100.0;
        let [a, b] = [self.highest(true), self.lowest(false)].map(|end| end.unwrap_or(from));
        let range = SearchRange { from, to, whole: self.whole(), precision, edge: [a.min(b), a.max(b)] };
        Posterior::of(range, &self.answers)
    }

    /// Logarithm of the odds that a trial at the wanted value holds: 0 at the edge itself.
    fn log_odds(&self) -> f64 {
        let hold = self.find.hold_pct / 100.0;
        (hold / (1.0 - hold)).ln()
    }

    fn whole(&self) -> bool {
        self.find.is_whole()
    }

    /// The lowest value that makes sense.
    fn floor(&self) -> f64 {
        if self.whole() { 1.0 } else { rounded(self.find, self.first / DEEPEST) }
    }

    fn bound(&self) -> f64 {
        self.find.up_to.unwrap_or(f64::INFINITY)
    }

    fn lower(&self, value: f64) -> f64 {
        rounded(self.find, value / 2.0).max(self.floor())
    }

    /// Where the limits have not held at all, twice: perhaps they hold nowhere, which is soon known.
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

/// Values are made here, and the same one is the same number; through a file and back it may differ by a bit.
fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs()
}

/// A value as it is tried: whole agents, rates of three digits.
fn rounded(find: &Find, value: f64) -> f64 {
    if find.is_whole() { value.round().max(1.0) } else { digits(value, 3) }
}

fn digits(value: f64, count: i32) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return value;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a power of ten")]
    let power = value.log10().floor() as i32 - (count - 1);
    // Through text, so that 0.3 is the number that a user would write.
    let scaled = (value / 10_f64.powi(power)).round();
    if power >= 0 { scaled * 10_f64.powi(power) } else { scaled / 10_f64.powi(-power) }
}

#[cfg(test)]
mod tests;
