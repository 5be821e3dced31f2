//! Simulated comparisons of a variant with itself and with a slower variant, in some settings while
//! other programs take CPU time. Also checks gates.

use analysis::noise::normal;
use analysis::{CompareOptions, InterimLook, level_of_look};
use experiment::plan::Warmup;
use fastrand::Rng;
use record::compared::Gated;

use super::synthetic_run::{SyntheticTrial, planned};
use super::{Bench, COVERAGE, Job, Rows, at_least, at_most, row};

/// Length of a trial, seconds.
const TIME_S: f64 = 10.0;
/// Length of a slot, seconds.
const SLOT_S: f64 = 0.1;
/// Mean number of operations in a slot.
const IN_SLOT: f64 = 200.0;

const VARIANTS: [&str; 4] = ["a", "b", "c", "d"];
/// Numbers of turns after which the runs are compared, if they are played until a gate decides.
const LOOKS: [u32; 4] = [5, 10, 20, 40];

const THROUGHPUT: &str = "throughput.operations_per_s";

/// CPU time that other programs take in a trial.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    /// Another virtual machine takes up to 40 % in some trials. Each percent costs this share of
    /// the throughput.
    Steal(f64),
    /// The target has a back end that Plimsoll did not start. The back end takes 10 %, and by this
    /// much more in trials of the last variant.
    BackEnd(f64),
}

/// Setting of a comparison of variants that are played in turns.
#[derive(Clone, Copy)]
struct ComparisonSetting {
    name: &'static str,
    groups: usize,
    rounds: u32,
    /// Throughput of the last variant, as a share of the others' throughput.
    last: f64,
    /// Standard deviation of the last variant's trials, in units of the others'.
    wilder: f64,
    beside: Beside,
}

/// Standard deviation of trials' throughput, as a share of the mean.
const SPREAD: f64 = 0.01;

const SAME: ComparisonSetting =
    ComparisonSetting { name: "", groups: 2, rounds: 10, last: 1.0, wilder: 1.0, beside: Beside::Nothing };

/// Settings with variants that do not differ.
const NULLS: [ComparisonSetting; 6] = [
    ComparisonSetting { name: "5 pairs", rounds: 5, ..SAME },
    ComparisonSetting { name: "10 pairs", ..SAME },
    ComparisonSetting { name: "10 pairs, steal", beside: Beside::Steal(0.003), ..SAME },
    ComparisonSetting { name: "10 pairs, steal without effect", beside: Beside::Steal(0.0), ..SAME },
    ComparisonSetting {
        name: "4 variants, 5 rounds, steal, the last spreads 3 times as much",
        groups: 4,
        rounds: 5,
        wilder: 3.0,
        beside: Beside::Steal(0.0),
        ..SAME
    },
    ComparisonSetting { name: "4 variants, 5 rounds", groups: 4, rounds: 5, ..SAME },
];

/// Settings with a slower last variant.
const SLOWER: [ComparisonSetting; 4] = [
    ComparisonSetting { name: "5 % slower, 10 pairs", last: 0.95, ..SAME },
    ComparisonSetting {
        name: "5 % slower by its back end, 10 pairs",
        last: 0.95,
        beside: Beside::BackEnd(5.0),
        ..SAME
    },
    ComparisonSetting { name: "3 % slower, 10 pairs", last: 0.97, ..SAME },
    ComparisonSetting { name: "3 % slower amid steal, 10 pairs", last: 0.97, beside: Beside::Steal(0.003), ..SAME },
];

/// Returns the settings.
pub fn jobs() -> Vec<Job> {
    let nulls = NULLS.into_iter().map(|setting| -> Job { Box::new(move |bench| setting.without_difference(bench)) });
    let slower = SLOWER.into_iter().map(|setting| -> Job { Box::new(move |bench| setting.with_difference(bench)) });
    let looked_at = [(1.0, at_most(0.05)), (0.9925, at_least(0.75))].into_iter().map(|(last, goal)| -> Job {
        Box::new(move |bench| ComparisonSetting { last, rounds: 40, ..SAME }.until_shown(bench, goal))
    });
    nulls.chain(slower).chain(looked_at).collect()
}

impl ComparisonSetting {
    fn trials(&self, random: &mut Rng) -> Vec<SyntheticTrial> {
        let mut trials = Vec::new();
        let (mut drift, mut order): (f64, Vec<usize>) = (0.0, (0..self.groups).collect());
        for round in 1..=self.rounds {
            // Each second round has the reversed order of the previous round.
            if round % 2 == 0 {
                order.reverse()
            } else {
                random.shuffle(&mut order)
            }
            for &group in &order {
                drift = 0.9 * drift + 0.5 * SPREAD * normal(random);
                trials.push(self.trial(trials.len() as u32 + 1, round, group, drift, random));
            }
        }
        trials
    }

    fn trial(&self, number: u32, round: u32, group: usize, drift: f64, random: &mut Rng) -> SyntheticTrial {
        let is_last = group + 1 == self.groups;
        let stolen = if random.f64() < 0.3 { 40.0 * random.f64() } else { 2.0 * random.f64() };
        let (beside_pct, cost) = match self.beside {
            Beside::Nothing => ([0.0; 2], 0.0),
            Beside::Steal(cost) => ([stolen, 0.0], cost * stolen),
            Beside::BackEnd(more) => ([0.0, 10.0 + normal(random) + if is_last { more } else { 0.0 }], 0.0),
        };
        let spread = SPREAD * if is_last { self.wilder } else { 1.0 };
        let level = if is_last { self.last } else { 1.0 };
        let per_slot = IN_SLOT * level * (drift - cost + spread * normal(random)).exp();
        let ok = (0..(TIME_S / SLOT_S) as usize).map(|_| (per_slot + random.f64()) as u32).collect();
        let mut planned = planned(number, TIME_S, Warmup::Seconds(0.0));
        planned.variant = Some(VARIANTS[group].to_owned());
        planned.repeat = round;
        let trial = SyntheticTrial::of(planned, SLOT_S, ok);
        SyntheticTrial { beside_pct, started_unix_s: 1_800_000_000.0 + 20.0 * f64::from(number), ..trial }
    }

    fn options(gate_pct: Option<f64>) -> CompareOptions {
        // Only the statistics are checked, so void trials count, too.
        CompareOptions { gate_pct, accepts_void: true, ..CompareOptions::default() }
    }

    fn without_difference(&self, bench: &Bench<'_>) -> Rows {
        let mut random = bench.random(self.name);
        let mut flagged = row("comparison of the same", self.name, "a figure is said to differ", at_most(0.05));
        for _ in 0..bench.replicates(60) {
            let found = bench.compared(&VARIANTS[..self.groups], &self.trials(&mut random), &Self::options(None))?;
            flagged.count(Some(found.comparisons.iter().any(|judged| judged.comparison.significant)));
        }
        Ok(vec![flagged])
    }

    fn with_difference(&self, bench: &Bench<'_>) -> Rows {
        let mut random = bench.random(self.name);
        let of = "comparison of a slower variant";
        let mut held = row(of, self.name, "interval of the throughput ratio holds it", COVERAGE);
        let mut shown = row(of, self.name, "shown", at_least(0.9));
        let mut undone = row(of, self.name, "the gate contradicts the interval", at_most(0.0));
        let gate_pct = 5.0;
        for _ in 0..bench.replicates(40) {
            let options = CompareOptions { metrics: vec![THROUGHPUT.to_owned()], ..Self::options(Some(gate_pct)) };
            let found = bench.compared(&VARIANTS[..self.groups], &self.trials(&mut random), &options)?;
            let Some(judged) = found.comparisons.first() else { continue };
            let one = &judged.comparison;
            held.count_interval(one.ci95, self.last);
            shown.count(Some(one.significant && one.better.as_deref() == Some(&one.a)));
            let bound = 1.0 - gate_pct / 100.0;
            // A gate may also fail by the unadjusted ratio, so that interval is checked, too.
            let excluded = one.raw_ci95_adjusted.is_none_or(|[low, _]| low > bound);
            undone.count(one.ci95_adjusted.map(|[low, high]| match judged.gate {
                Some(Gated::Fails) => low > bound && excluded,
                Some(Gated::Passes) => high < bound,
                _ => false,
            }));
        }
        Ok(vec![held, shown, undone])
    }

    /// Compares the runs after each number of turns in `LOOKS`, until a comparison finds a
    /// difference in throughput.
    fn until_shown(&self, bench: &Bench<'_>, goal: [Option<f64>; 2]) -> Rows {
        let slower = 100.0 * (1.0 - self.last);
        let setting = format!("{slower:.2} % slower, looks after 5, 10, 20 and 40 pairs");
        let mut random = bench.random(&setting);
        let mut shown = row("looks until decided", &setting, "said to differ at any look", goal);
        for _ in 0..bench.replicates(40) {
            let trials = self.trials(&mut random);
            let (mut spent, mut differs) = (0.0, false);
            for (turns, number) in LOOKS.into_iter().zip(1..) {
                let level = level_of_look(turns, LOOKS[LOOKS.len() - 1], spent);
                spent += level;
                let options = CompareOptions {
                    metrics: vec![THROUGHPUT.to_owned()],
                    look: Some(InterimLook { number, level }),
                    ..Self::options(None)
                };
                let played = &trials[..turns as usize * self.groups];
                let found = bench.compared(&VARIANTS[..self.groups], played, &options)?;
                differs = found.comparisons.iter().any(|judged| judged.comparison.significant);
                if differs {
                    break;
                }
            }
            shown.count(Some(differs));
        }
        Ok(vec![shown])
    }
}
