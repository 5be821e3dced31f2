//! The search for the safe load: from the trials that are finished, and nothing else, to the one that comes next, and to what all
//! of them say. Pure, so that a run goes on after any interruption.
//!
//! Its course: bracket by doubling and halving, then bisect, until the interval is narrow or
//! something else ends it. Where the edge may be, given answers that are sometimes wrong, is the
//! posterior of probabilistic bisection (M. Horstein, "Sequential transmission using noiseless
//! feedback", IEEE Transactions on Information Theory 9, 1963; R. Waeber, P. I. Frazier, S. G.
//! Henderson, "Bisection search with noisy responses", SIAM Journal on Control and Optimization
//! 51, 2013): the places of a grid start out equally likely by the logarithm of their value, and
//! each answer multiplies those on its side by 1 − e and the others by e, e being the chance that
//! it is wrong. Near the value tried, 1 − e passes into e along a logistic curve instead of a step
//! (as in A. B. Watson, D. G. Pelli, "QUEST: a Bayesian adaptive psychometric method", Perception
//! & Psychophysics 33, 1983): a load just above the edge holds as often as it breaks. How wide that
//! curve is, which is how much trials of one value differ, is learnt together with the edge (L. L.
//! Kontsevich, C. W. Tyler, "Bayesian adaptive estimation of psychometric slope and threshold",
//! Vision Research 39, 1999). Trials that follow each other may be off together: what the interval
//! says of the edge in the long run is wider by that.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::plan::{Find, Plan, Trial, trial};

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

/// How many trials a search of this template takes if nothing disturbs it: the median over edges below, near and above its first
/// value.
#[must_use]
pub fn typical_trials(find: &Find, template: &Trial) -> u32 {
    let first = find.first(template);
    let mut counts = [0.3, 1.4, 5.0, 20.0].map(|factor| {
        let edge = first * factor;
        let mut finished = Vec::new();
        while let Ok(value) = SearchState::of(find, template, &finished).next() {
            let said = if value <= edge { ProbeResult::Held(None) } else { ProbeResult::Broke(None) };
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

/// Ends of the interval.
const LOW: f64 = 0.025;
const HIGH: f64 = 0.975;

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
    /// The highest value at which the limits hold: the median of what is possible; `None` if they hold nowhere, or nothing is known.
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
    /// Value, whether the limits held, and how far from their bound.
    answers: Vec<(f64, bool, Option<f64>)>,
}

impl<'a> SearchState<'a> {
    pub fn of(find: &'a Find, template: &Trial, finished: &[Finished]) -> Self {
        let finished = told_apart(finished);
        let answer = |one: &Finished| match one.said {
            ProbeResult::Held(margin) => Some((one.value, true, margin)),
            ProbeResult::Broke(margin) => Some((one.value, false, margin)),
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
        let posterior = self.posterior().in_the_long_run();
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
                let answered = self.answers.iter().any(|(value, ..)| same(*value, one.value));
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
        let posterior = self.posterior();
        let [low, high] = [LOW, HIGH].map(|q| posterior.quantile(q));
        let reached = if low.high.is_infinite() {
            Some(End::Bound)
        } else if high.low <= 0.0 {
            Some(End::Nowhere)
        } else if low.low > 0.0 && high.high.is_finite() && self.is_narrow(low, high) {
            Some(End::Narrow)
        } else {
            None
        };
        let Some(end) = reached else { return Ok(rounded(self.find, posterior.median())) };
        self.unconfirmed(&end, low, high).ok_or(end)
    }

    fn is_narrow(&self, low: Bracket, high: Bracket) -> bool {
        let width = high.high - low.low;
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
        let tried = || self.answers.iter().map(|(value, ..)| *value);
        let (least, most) = (tried().fold(f64::INFINITY, f64::min), tried().fold(0.0, f64::max));
        let bound = self.ceiling().map_or(self.bound(), |(ceiling, _)| ceiling.min(self.bound()));
        // Without a broken limit, nothing is known beyond what was tried.
        let around = if self.lowest(false).is_some() { AROUND } else { 1.0 };
        let from = rounded(self.find, least / AROUND).max(self.floor());
        let to = rounded(self.find, most * around).min(bound).max(from);
        let precision = self.find.precision_pct / 100.0;
        let mut posterior = Posterior::new(SearchRange { from, to, whole: self.whole(), precision });
        for &(value, held, margin) in &self.answers {
            posterior.learn(value, held, wrong(margin));
        }
        posterior
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
        let same = self.answers.iter().filter(|answer| answer.1 == held);
        same.map(|answer| answer.0).max_by(f64::total_cmp)
    }

    fn lowest(&self, held: bool) -> Option<f64> {
        let same = self.answers.iter().filter(|answer| answer.1 == held);
        same.map(|answer| answer.0).min_by(f64::total_cmp)
    }

    fn count(&self, counts: impl Fn(f64, bool) -> bool) -> usize {
        self.answers.iter().filter(|(value, held, _)| counts(*value, *held)).count()
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

/// Cells for each width that the search is to reach.
const CELLS: f64 = 10.0;

/// How likely, in octaves, an edge below the lowest or above the highest cell is at first: about as likely as next to them.
const BEYOND: f64 = 0.5;

/// How wrong an answer may be whose figure is far from its bound: a trial that something spoiled which nobody saw.
const WRONG_FAR: f64 = 0.03;
/// What comes on top of that at the bound itself. How trials differ near it is in [`SPREADS`], and must not be explained twice.
const WRONG_NEAR: f64 = 0.02;
/// The distance, as a logarithm of a ratio, over which that fades.
const FADES: f64 = 0.2;
/// How far around the edge trials disagree by nature: what the standard deviation of a trial's own edge may be, as the logarithm of a
/// ratio.
const SPREADS: [f64; 6] = [0.005, 0.01, 0.02, 0.04, 0.08, 0.16];
/// How likely each of them is at first, compared with the next smaller one.
const RARER: f64 = 0.65;
/// Scale of a logistic curve for its standard deviation.
const LOGISTIC: f64 = 0.551_328_9;
/// How far all trials of a search may be off together, as a share of how far each is by itself: so far that in simulated searches nine of
/// ten intervals hold the truth also where trials differ by 10 %, or are off for ten trials on end.
const DRIFT: f64 = 0.8;
/// How wrong an answer without a distance may be.
const WRONG: f64 = 0.1;

/// The chance that an answer with this distance from its bound is wrong.
fn wrong(margin: Option<f64>) -> f64 {
    margin.map_or(WRONG, |margin| WRONG_FAR + WRONG_NEAR * (-margin.abs() / FADES).exp())
}

/// Where the search looks.
#[derive(Debug, Clone, Copy)]
struct SearchRange {
    /// Lowest value; an edge below it is one cell.
    pub from: f64,
    /// Highest value; an edge at or above it is one cell.
    pub to: f64,
    /// Whether only whole values count.
    pub whole: bool,
    /// The width to reach, as a share.
    pub precision: f64,
}

/// The edge is in here: the limits hold at `low`, and no more above `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bracket {
    /// 0 in the first cell.
    pub low: f64,
    /// Infinite in the last.
    pub high: f64,
    /// Logarithm of where in it the edge is taken to be.
    edge_ln: f64,
    /// With each of the spreads.
    likely: [f64; SPREADS.len()],
}

impl Bracket {
    /// A cell that is so likely; the edge of whole numbers is between the last that holds and the first that does not.
    fn new(low: f64, high: f64, whole: bool, likely: f64) -> Self {
        let edge = if whole { f64::midpoint(low, high) + 0.5 } else { (low * high).sqrt() };
        let edge_ln = if low <= 0.0 { f64::NEG_INFINITY } else { edge.ln() };
        let prior: [f64; SPREADS.len()] = std::array::from_fn(|index| RARER.powi(index as i32));
        let sum: f64 = prior.iter().sum();
        Self { low, high, edge_ln, likely: prior.map(|share| likely * share / sum) }
    }

    /// How likely limits with the edge in here hold at a value, spoiled trials aside, if trials differ by so much.
    fn holds(&self, value_ln: f64, spread: f64) -> f64 {
        // Beyond that it is 0 or 1 to 13 digits.
        match (value_ln - self.edge_ln) / (spread * LOGISTIC) {
            far if far > 30.0 => 0.0,
            far if far < -30.0 => 1.0,
            near => 1.0 / (1.0 + near.exp()),
        }
    }

    fn likely(&self) -> f64 {
        self.likely.iter().sum()
    }
}

/// How likely the edge is where, and how much trials differ; the shares add up to 1.
#[derive(Debug, Clone)]
struct Posterior {
    cells: Vec<Bracket>,
}

impl Posterior {
    /// Before any answer.
    pub fn new(span: SearchRange) -> Self {
        let ratio = 1.0 + span.precision / CELLS;
        let next = |low: f64| if span.whole { (low + 1.0).max((low * ratio).round()) } else { low * ratio };
        let octaves = |low: f64, high: f64| (high / low).log2();
        let last = if span.whole { 1.0 } else { 0.0 };
        let cell = |low: f64, high: f64, likely: f64| Bracket::new(low, high, span.whole, likely);
        let mut cells = vec![cell(0.0, span.from - last, BEYOND)];
        let mut low = span.from;
        while low < span.to {
            let high = next(low).min(span.to);
            cells.push(cell(low, high - last, octaves(low, high)));
            low = high;
        }
        cells.push(cell(span.to, f64::INFINITY, BEYOND));
        let mut posterior = Self { cells };
        posterior.balance();
        posterior
    }

    /// Takes in an answer that is wrong with this chance.
    pub fn learn(&mut self, value: f64, held: bool, wrong: f64) {
        let value_ln = value.ln();
        for cell in &mut self.cells {
            for (index, spread) in SPREADS.into_iter().enumerate() {
                let holds = wrong + (1.0 - 2.0 * wrong) * cell.holds(value_ln, spread);
                cell.likely[index] *= if held { holds } else { 1.0 - holds };
            }
        }
        self.balance();
    }

    /// Of the edge that trials on other days would have, too: these here may all be off by the same.
    pub fn in_the_long_run(&self) -> Self {
        let mut cells = self.cells.clone();
        cells.iter_mut().for_each(|cell| cell.likely = [0.0; SPREADS.len()]);
        let inner = 1..self.cells.len() - 1;
        for (from, cell) in self.cells.iter().enumerate() {
            for (index, spread) in SPREADS.into_iter().enumerate() {
                let near = |to: &usize| (self.cells[*to].edge_ln - cell.edge_ln).abs() <= 3.0 * DRIFT * spread;
                // Cells are in order.
                let below = (inner.start..from).rev().take_while(near);
                let reached: Vec<usize> = match inner.contains(&from) {
                    true => below.chain((from..inner.end).take_while(near)).collect(),
                    false => vec![from],
                };
                let weight = |to: usize| {
                    let far = (cells[to].edge_ln - cell.edge_ln) / (DRIFT * spread);
                    if to == from { 1.0 } else { (-far * far / 2.0).exp() }
                };
                let weights: Vec<f64> = reached.iter().map(|to| weight(*to)).collect();
                let sum: f64 = weights.iter().sum();
                for (to, weight) in reached.into_iter().zip(weights) {
                    cells[to].likely[index] += cell.likely[index] * weight / sum;
                }
            }
        }
        Self { cells }
    }

    fn balance(&mut self) {
        let sum: f64 = self.cells.iter().map(Bracket::likely).sum();
        self.cells.iter_mut().flat_map(|cell| &mut cell.likely).for_each(|likely| *likely /= sum);
    }

    /// The cell below whose upper end the edge is with this probability.
    pub fn quantile(&self, q: f64) -> Bracket {
        let mut sum = 0.0;
        let found = self.cells.iter().find(|cell| {
            sum += cell.likely();
            sum >= q
        });
        // The shares may add up to a hair less than 1.
        found.or(self.cells.last()).copied().unwrap_or(Bracket::new(0.0, f64::INFINITY, false, 1.0))
    }

    /// The value that is as likely to hold as to break.
    pub fn median(&self) -> f64 {
        let mut below = 0.0;
        let mut best = (f64::INFINITY, 0.0);
        for pair in self.cells.windows(2) {
            below += pair[0].likely();
            let off = f64::abs(below - 0.5);
            if off < best.0 {
                best = (off, pair[1].low);
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests;
