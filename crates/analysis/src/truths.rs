//! Checks of results against known truths: queues with calculable times, outages that the server
//! itself has logged, comparisons of a system with itself, and comparisons with a known difference
//! in work.

use record::results::{Comparison, Disturbance, DisturbanceKind, Results, Trial, Trust};
use record::selfcheck::{HeldTruth, SmallestDifference, TruthOutcome, TruthUnit};

use crate::stats::quantiles::median;
use crate::stats::queue;

/// Largest time that loopback and thread wake-ups may add to a latency, seconds.
const CARRIED_S: f64 = 0.001;
/// Largest error of a time, seconds.
const OFF_S: f64 = 0.010;
/// Largest error of a rate, as a share.
const RATE_OFF: f64 = 0.01;
/// Largest time between the start of a planted outage and the start of its disturbance, seconds.
const NEAR_S: f64 = 0.5;
/// Share of repeated checks that may fail by chance.
const BY_CHANCE: f64 = 0.1;

/// A period in which the server deliberately did not serve, from its log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlantedOutage {
    /// Start, seconds since load start.
    pub from_s: f64,
    /// End, seconds since load start; for error answers, the time of the last one.
    pub until_s: f64,
    /// Number of error answers; `None` for a stall.
    pub errors: Option<u64>,
}

/// Checks a server with one worker and more agents than it can serve: each agent waits for all
/// others.
#[must_use]
pub fn full_queue(trial: &Trial, agents: u32, service_s: f64) -> Vec<HeldTruth> {
    let ask = Asker { of: "a full queue", trust: trial.verdict.is };
    let per_s = 1.0 / service_s;
    let turn_s = f64::from(agents) * service_s;
    let latency = trial.latency_us.clone().unwrap_or_default();
    vec![
        ask.held("throughput", TruthUnit::PerS, [per_s; 2], [RATE_OFF * per_s; 2], trial.throughput.operations_per_s),
        ask.held("median latency", TruthUnit::S, [turn_s; 2], [CARRIED_S; 2], latency.p50.map(seconds)),
    ]
}

/// Checks a server with one worker, random arrivals and a constant service time. Waiting times are
/// random: the truth is a range that contains the result of nearly every load of this length.
#[must_use]
pub fn random_queue(trial: &Trial, rate_per_s: f64, service_s: f64) -> Vec<HeldTruth> {
    let ask = Asker { of: "a random queue", trust: trial.verdict.is };
    let Some(measured) = trial.measured_s else {
        return vec![ask.held("measured", TruthUnit::Count, [1.0; 2], [0.0; 2], None)];
    };
    let range = queue::fixed_service(rate_per_s, service_s, measured);
    let latency = trial.latency_us.clone().unwrap_or_default();
    let lasted_s = measured[1] - measured[0];
    let per_s = range.served.map(|served| served / lasted_s);
    let mut held = vec![ask.held("throughput", TruthUnit::PerS, per_s, [0.0; 2], trial.throughput.operations_per_s)];
    for (asked, truth_s, value_us) in [
        ("mean latency", range.mean_s, latency.mean),
        ("median latency", range.p50_s, latency.p50),
        ("p99 latency", range.p99_s, latency.p99),
    ] {
        held.push(ask.held(asked, TruthUnit::S, truth_s, [0.1 * CARRIED_S, CARRIED_S], value_us.map(seconds)));
    }
    held
}

/// Checks that each outage that a server has logged is a disturbance, and that there are no others.
/// `gap_s` is the time from one operation to the next.
#[must_use]
pub fn outages(of: &str, trial: &Trial, planted: &[PlantedOutage], gap_s: f64) -> Vec<HeldTruth> {
    let ask = Asker { of, trust: trial.verdict.is };
    let found: Vec<&Disturbance> =
        trial.disturbances.iter().filter(|found| found.kind == DisturbanceKind::Outage).collect();
    let count = planted.len() as f64;
    let mut held = vec![ask.held("outages", TruthUnit::Count, [count; 2], [0.0; 2], Some(found.len() as f64))];
    for one in planted {
        let distances = found.iter().map(|found| ((found.at_s - one.from_s).abs(), found));
        let nearest = distances.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(distance_s, _)| *distance_s < NEAR_S);
        let began_s = nearest.map(|(_, found)| found.at_s);
        let back_s = nearest.and_then(|(_, found)| Some(found.at_s + found.outage.first_ok_s?));
        held.push(ask.held("start of the outage", TruthUnit::S, [one.from_s; 2], [OFF_S + gap_s, OFF_S], began_s));
        held.push(ask.held(
            "first answer after the outage",
            TruthUnit::S,
            [one.until_s; 2],
            [OFF_S, OFF_S + gap_s],
            back_s,
        ));
    }
    if let Some(errors) = planted.iter().map(|one| one.errors).sum::<Option<u64>>().filter(|_| !planted.is_empty()) {
        let failed = Some(trial.outcomes.failed as f64);
        held.push(ask.held("failed operations", TruthUnit::Count, [errors as f64; 2], [0.0; 2], failed));
    }
    held
}

/// Checks that an undisturbed load is valid and has no disturbance.
#[must_use]
pub fn undisturbed(trial: &Trial) -> Vec<HeldTruth> {
    let ask = Asker { of: "an undisturbed open loop", trust: Trust::Valid };
    let is_valid = f64::from(u8::from(trial.verdict.is == Trust::Valid));
    let found = trial.disturbances.len() as f64;
    let valid = ask.held("valid", TruthUnit::Count, [1.0; 2], [0.0; 2], Some(is_valid));
    let calm = ask.held("disturbances", TruthUnit::Count, [0.0; 2], [0.0; 2], Some(found));
    vec![HeldTruth { by_chance: true, ..valid }, HeldTruth { by_chance: true, ..calm }]
}

const THROUGHPUT: &str = "throughput.operations_per_s";

/// Largest overhead of a request, as a share of its work. Overhead makes the measured difference
/// smaller than the planted one.
const BESIDE_WORK: f64 = 0.15;

/// Checks two variants against the first: `same` does the same work, and `more` does `more_pct`
/// percent more work.
#[must_use]
pub fn differences(results: &Results, same: &str, more: &str, more_pct: f64) -> Vec<HeldTruth> {
    let ask = Asker { of: "comparisons", trust: results.verdict.is };
    let beside_itself: Vec<&Comparison> = results.comparisons.iter().filter(|one| one.b == same).collect();
    let flagged = beside_itself.iter().filter(|one| one.significant).count() as f64;
    let known = (!beside_itself.is_empty()).then_some(flagged);
    let found = results.comparisons.iter().find(|one| one.b == more && one.metric == THROUGHPUT);
    let is_found = found.map(|one| f64::from(u8::from(one.significant && one.better.as_deref() == Some(&one.a))));
    let more = more_pct / 100.0;
    let least = 100.0 * ((1.0 + BESIDE_WORK) / (1.0 + more + BESIDE_WORK) - 1.0);
    let most = 100.0 * (1.0 / (1.0 + more) - 1.0);
    // Half the width of the interval is the allowed error.
    let reach = found.and_then(|one| one.ci95).map_or(0.0, |[low, high]| 50.0 * (high - low));
    let seen = found.and_then(|one| one.ratio).map(|ratio| 100.0 * (ratio - 1.0));
    let held = vec![
        ask.held("the same work: figures reported to differ", TruthUnit::Count, [0.0; 2], [0.0; 2], known),
        ask.held(&format!("{more_pct} % more work: found"), TruthUnit::Count, [1.0; 2], [0.0; 2], is_found),
        ask.held(&format!("{more_pct} % more work: throughput"), TruthUnit::Pct, [most, least], [reach; 2], seen),
    ];
    held.into_iter().map(|one| HeldTruth { by_chance: true, ..one }).collect()
}

/// Checks that the interval of a search contains the known capacity.
#[must_use]
pub fn capacity(results: &Results, truth_per_s: f64) -> Vec<HeldTruth> {
    let ask = Asker { of: "a search for a known capacity", trust: results.verdict.is };
    let line = results.safe_load.as_ref();
    // Distances of the interval's ends from the value found.
    let ends = line.and_then(|line| Some((line.value?, line.ci95[0]?, line.ci95[1]?)));
    let reach = ends.map_or([0.0; 2], |(value, low, high)| [high - value, value - low]);
    let value = line.and_then(|line| line.value);
    let held =
        ask.held("highest rate, with its interval", TruthUnit::PerS, [truth_per_s; 2], [reach[1], reach[0]], value);
    // The interval decides: a value above the truth is right if the lower end is not above it.
    let inside = ends.map(|(_, low, high)| low <= truth_per_s && truth_per_s <= high);
    let held = if ends.is_some() { ask.decided(held, inside == Some(true)) } else { held };
    vec![HeldTruth { by_chance: true, ..held }]
}

/// Returns, for each metric, the smallest difference that comparisons of a system with itself
/// report as detectable: the median over the runs.
#[must_use]
pub fn smallest(runs: &[&Results], same: &str) -> Vec<SmallestDifference> {
    let mut smallest = Vec::new();
    let pairs = runs.iter().flat_map(|run| &run.comparisons).filter(|one| one.b == same && one.ratio.is_some());
    for metric in text::distinct(pairs.clone().map(|one| one.metric.clone())) {
        let own = pairs.clone().filter(|one| one.metric == metric);
        let pcts: Vec<f64> = own.filter_map(|one| one.detectable_pct).collect();
        smallest.extend(median(&pcts).map(|pct| SmallestDifference { pct, metric }));
    }
    smallest
}

/// Merges the same check of several rounds, or of several outages in one round, into one row: the
/// number of right results, and the worst result.
#[must_use]
pub fn folded(held: Vec<HeldTruth>) -> Vec<HeldTruth> {
    let mut rows: Vec<HeldTruth> = Vec::new();
    for one in held {
        match rows.iter_mut().find(|row| row.of == one.of && row.asked == one.asked) {
            Some(row) => fold(row, one),
            None => rows.push(one),
        }
    }
    rows.iter_mut().for_each(judge);
    rows
}

fn fold(row: &mut HeldTruth, one: HeldTruth) {
    let counts = (row.times + one.times, row.right + one.right, row.marked + one.marked);
    let trust = row.trust.max(one.trust);
    let is_worse = (one.came, off(&one)) > (row.came, off(row));
    if is_worse {
        *row = one;
    }
    (row.times, row.right, row.marked) = counts;
    row.trust = trust;
}

/// Returns the distance of the measured value from the truth; infinite if nothing was measured.
fn off(one: &HeldTruth) -> f64 {
    let Some(measured) = one.measured else { return f64::INFINITY };
    (one.truth[0] - measured).max(measured - one.truth[1]).max(0.0)
}

/// Judges repeated checks: all must be right, except for the share that may fail by chance.
fn judge(row: &mut HeldTruth) {
    let wrong = row.times - row.right - row.marked;
    let may_be = if row.by_chance && row.times > 1 { (BY_CHANCE * f64::from(row.times)).ceil() as u32 } else { 0 };
    row.came = if wrong + row.marked <= may_be {
        TruthOutcome::Right
    } else if wrong <= may_be {
        TruthOutcome::Marked
    } else {
        TruthOutcome::Wrong
    };
}

fn seconds(us: f64) -> f64 {
    us / 1e6
}

/// Part of the self-check, with the verdict on its trial.
struct Asker<'a> {
    of: &'a str,
    trust: Trust,
}

impl Asker<'_> {
    /// Checks a figure against a truth; `allowed` is the largest distance below and above it.
    fn held(
        &self,
        asked: &str,
        unit: TruthUnit,
        truth: [f64; 2],
        allowed: [f64; 2],
        measured: Option<f64>,
    ) -> HeldTruth {
        let is_right = measured.is_some_and(|value| value >= truth[0] - allowed[0] && value <= truth[1] + allowed[1]);
        let one = HeldTruth {
            of: self.of.to_owned(),
            asked: asked.to_owned(),
            unit,
            truth,
            allowed,
            measured,
            times: 1,
            trust: self.trust,
            ..HeldTruth::default()
        };
        self.decided(one, is_right)
    }

    fn decided(&self, one: HeldTruth, is_right: bool) -> HeldTruth {
        let is_marked = !is_right && self.trust != Trust::Valid;
        let came = match (is_right, is_marked) {
            (true, _) => TruthOutcome::Right,
            (false, true) => TruthOutcome::Marked,
            (false, false) => TruthOutcome::Wrong,
        };
        HeldTruth { right: u32::from(is_right), marked: u32::from(is_marked), came, ..one }
    }
}

#[cfg(test)]
mod tests {
    use record::results::{Outage, Outcomes, Quantiles, SafeLoad, Throughput, Verdict};

    use super::*;

    fn trial(per_s: f64, p50_us: f64) -> Trial {
        Trial {
            throughput: Throughput { operations_per_s: Some(per_s), ..Throughput::default() },
            latency_us: Some(Quantiles {
                p50: Some(p50_us),
                mean: Some(p50_us),
                p99: Some(9.0 * p50_us),
                ..Quantiles::default()
            }),
            measured_s: Some([1.0, 20.0]),
            ..Trial::default()
        }
    }

    fn outcomes_of(held: &[HeldTruth]) -> Vec<TruthOutcome> {
        held.iter().map(|one| one.came).collect()
    }

    use TruthOutcome::{Marked, Right, Wrong};

    #[test]
    fn a_full_queue_is_checked_against_theory() {
        assert_eq!(outcomes_of(&full_queue(&trial(199.5, 40_100.0), 8, 0.005)), [Right, Right]);
        assert_eq!(outcomes_of(&full_queue(&trial(190.0, 42_000.0), 8, 0.005)), [Wrong, Wrong]);
        let mut suspect = trial(190.0, 40_000.0);
        suspect.verdict = Verdict { is: Trust::Suspect, ..Verdict::default() };
        assert_eq!(outcomes_of(&full_queue(&suspect, 8, 0.005)), [Marked, Right]);
        assert_eq!(
            outcomes_of(&full_queue(&Trial::default(), 8, 0.005)),
            [Wrong, Wrong],
            "what was not measured is not right"
        );
    }

    #[test]
    fn a_random_queue_is_checked_against_theory() {
        // rho 0.7: mean 4 ms × (1 + 0.7 / 0.6) = 8.67 ms, p50 7 ms.
        for ([mean_us, p50_us, p99_us], outcomes) in
            [([8_700.0, 7_000.0, 30_000.0], [Right; 4]), ([4_000.0, 3_900.0, 100_000.0], [Right, Wrong, Wrong, Wrong])]
        {
            let mut one = trial(175.0, p50_us);
            one.latency_us =
                Some(Quantiles { mean: Some(mean_us), p50: Some(p50_us), p99: Some(p99_us), ..Quantiles::default() });
            assert_eq!(outcomes_of(&random_queue(&one, 175.0, 0.004)), outcomes);
        }
        let mut nothing = trial(175.0, 1.0);
        nothing.measured_s = None;
        assert_eq!(outcomes_of(&random_queue(&nothing, 175.0, 0.004)), [Wrong]);
    }

    fn disturbance(at_s: f64, first_ok_s: f64) -> Disturbance {
        Disturbance {
            at_s,
            outage: Outage { first_ok_s: Some(first_ok_s), ..Outage::default() },
            ..Disturbance::default()
        }
    }

    #[test]
    fn outages_are_checked_by_time_and_failures() {
        let planted = [
            PlantedOutage { from_s: 4.0, until_s: 4.3, errors: Some(60) },
            PlantedOutage { from_s: 9.0, until_s: 9.3, errors: Some(60) },
        ];
        let mut one = trial(400.0, 100.0);
        one.outcomes = Outcomes { failed: 120, ..Outcomes::default() };
        one.disturbances = vec![disturbance(3.998, 0.305), disturbance(9.001, 0.3)];
        let held = outages("errors", &one, &planted, 0.0025);
        assert_eq!(outcomes_of(&held), [Right; 6]);
        assert_eq!(outcomes_of(&folded(held)), [Right; 4], "two outages are asked the same");
        one.disturbances[1].at_s = 9.02;
        one.outcomes.failed = 121;
        let held = outages("errors", &one, &planted, 0.0025);
        assert_eq!(outcomes_of(&held), [Right, Right, Right, Wrong, Wrong, Wrong]);
        let rows = folded(held);
        assert_eq!((rows[1].measured, rows[1].times, rows[1].right), (Some(9.02), 2, 1), "the worst is shown");
        one.disturbances.clear();
        let missed = outages("stalls", &one, &planted[..1], 0.0025);
        assert_eq!(outcomes_of(&missed), [Wrong, Wrong, Wrong, Wrong]);
        // A slow time is no outage.
        one.disturbances = vec![Disturbance { kind: DisturbanceKind::Slow, ..disturbance(4.0, 0.3) }];
        assert_eq!(outcomes_of(&outages("stalls", &one, &planted[..1], 0.0025))[0], Wrong);
    }

    fn comparison(b: &str, ratio: f64, significant: bool) -> Comparison {
        Comparison {
            a: "one".to_owned(),
            b: b.to_owned(),
            metric: THROUGHPUT.to_owned(),
            ratio: Some(ratio),
            ci95: Some([ratio - 0.01, ratio + 0.01]),
            detectable_pct: Some(3.0),
            significant,
            better: significant.then(|| if ratio < 1.0 { "one" } else { b }.to_owned()),
            ..Comparison::default()
        }
    }

    #[test]
    fn differences_are_found_only_with_more_work() {
        let [good, bad, faster] = [
            (comparison("same", 1.0, false), comparison("more", 0.915, true), [Right; 3]),
            (comparison("same", 1.1, true), comparison("more", 0.99, false), [Wrong; 3]),
            (comparison("same", 1.0, false), comparison("more", 1.1, true), [Right, Wrong, Wrong]),
        ]
        .map(|(same, more, outcomes)| {
            let results = Results { comparisons: vec![same, more], ..Results::default() };
            assert_eq!(outcomes_of(&differences(&results, "same", "more", 10.0)), outcomes);
            results
        });
        drop(faster);
        assert_eq!(outcomes_of(&differences(&Results::default(), "same", "more", 10.0)), [Wrong; 3]);
        assert_eq!(smallest(&[&good, &bad], "same"), [SmallestDifference { metric: THROUGHPUT.to_owned(), pct: 3.0 }]);
    }

    #[test]
    fn one_of_ten_rounds_may_fail_by_chance() {
        let with =
            |flagged: bool| Results { comparisons: vec![comparison("same", 1.0, flagged)], ..Results::default() };
        let rounds = |flagged: usize| -> Vec<HeldTruth> {
            let all = (0..10).flat_map(|round| differences(&with(round < flagged), "same", "more", 10.0));
            folded(all.filter(|one| one.asked.starts_with("the same")).collect())
        };
        assert_eq!((outcomes_of(&rounds(1)), rounds(1)[0].right), (vec![Right], 9));
        assert_eq!(outcomes_of(&rounds(2)), [Wrong]);
    }

    #[test]
    fn a_search_is_checked_by_its_interval() {
        for (high, outcome) in [(Some(1_020.0), Right), (Some(1_005.0), Wrong), (None, Wrong)] {
            let line = SafeLoad { value: Some(1_000.0), ci95: [Some(970.0), high], ..SafeLoad::default() };
            let results = Results { safe_load: Some(line), ..Results::default() };
            assert_eq!(outcomes_of(&capacity(&results, 1_010.0)), [outcome]);
        }
        assert_eq!(outcomes_of(&capacity(&Results::default(), 1_010.0)), [Wrong]);
    }

    #[test]
    fn an_undisturbed_load_is_valid() {
        assert_eq!(outcomes_of(&undisturbed(&trial(1.0, 1.0))), [Right, Right]);
        let mut one = trial(1.0, 1.0);
        one.verdict.is = Trust::Suspect;
        one.disturbances = vec![disturbance(1.0, 1.0)];
        assert_eq!(outcomes_of(&undisturbed(&one)), [Wrong, Wrong]);
    }
}
