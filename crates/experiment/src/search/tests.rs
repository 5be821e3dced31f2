//! Tests of searches on simulated targets. docs/find.md counts over many more searches how often
//! their intervals contain the truth; these are just enough to detect a broken search.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use fastrand::Rng;

use super::*;
use crate::plan::{FORMAT, Load, Rate, Target, TargetKind};

fn template(agents: u32, rate: Option<f64>, surviving: &str) -> Trial {
    let load =
        Load { agents, time_s: 10.0, timeout_s: 1.0, drain_s: 1.0, rate: rate.map(Rate::Constant), ..Load::default() };
    Trial {
        repeat: 1,
        seed: 1,
        target: Target {
            kind: TargetKind::Running { url: "http://h/".into() },
            protocol: "http".into(),
            ..Default::default()
        },
        load: Some(load),
        surviving: Some(surviving.into()),
        ..Trial::default()
    }
}

fn plan(highest: &str, templates: Vec<Trial>) -> Plan {
    Plan {
        format: FORMAT,
        title: String::new(),
        asks: String::new(),
        variants: Vec::new(),
        swept: Vec::new(),
        stop: None,
        trials: Vec::new(),
        requirements: Vec::new(),
        claims: Vec::new(),
        demand: None,
        find: Some(Find {
            highest: highest.into(),
            starts: "even".into(),
            limits: Vec::new(),
            surviving: vec!["nothing lost".into()],
            from: None,
            up_to: None,
            precision_pct: 5.0,
            hold_pct: 50.0,
            trials_max: 24,
            accepts_void: false,
            templates,
        }),
    }
}

fn rates(first: f64) -> Plan {
    plan("load.rate", vec![template(10, Some(first), "nothing lost")])
}

fn agents(first: u32) -> Plan {
    plan("load.agents", vec![template(first, None, "nothing lost")])
}

fn value(trial: &Trial) -> f64 {
    trial.point.values().next().unwrap().as_f64().unwrap()
}

fn finished(trial: &Trial, said: ProbeResult) -> Finished {
    let (variant, surviving) = (trial.variant.clone(), trial.surviving.clone());
    Finished { variant, surviving, value: value(trial), said, service_us: None, waited: false }
}

/// Plays a plan to its end; `says` gives the verdict for each value.
fn played(plan: &Plan, mut says: impl FnMut(f64) -> ProbeResult) -> (Vec<Finished>, SearchSummary) {
    let mut done = Vec::new();
    while let Some(trial) = plan.next(&done) {
        done.push(finished(&trial, says(value(&trial))));
        assert!(done.len() <= 100, "no end");
    }
    let find = plan.find.as_ref().unwrap();
    let line = line(find, &find.templates[0], &done);
    (done, line)
}

fn exact(edge: f64) -> impl FnMut(f64) -> ProbeResult {
    move |value| if value <= edge { ProbeResult::Held(None) } else { ProbeResult::Broke(None) }
}

fn noisy(edge: f64, wrong: f64, seed: u64) -> impl FnMut(f64) -> ProbeResult {
    let mut random = Rng::with_seed(seed);
    move |value| {
        if (value <= edge) == (random.f64() >= wrong) { ProbeResult::Held(None) } else { ProbeResult::Broke(None) }
    }
}

fn holds_the_truth(line: &SearchSummary, edge: f64) -> bool {
    line.ci95[0].is_none_or(|low| low <= edge) && line.ci95[1].is_none_or(|high| edge <= high)
}

/// Returns this number of seeds, each with a random edge within these octaves around 1,000/s.
fn edges(count: u64, octaves: f64) -> impl Iterator<Item = (u64, f64)> {
    let mut random = Rng::with_seed(7);
    (0..count).map(move |seed| (seed, 1000.0 * 2_f64.powf(octaves * (random.f64() - 0.5))))
}

#[test]
fn intervals_contain_the_edge_despite_wrong_answers() {
    let (mut held, mut complete) = (0, 0);
    for (seed, edge) in edges(20, 8.0) {
        let (done, line) = played(&rates(1000.0), noisy(edge, 0.07, seed));
        assert!(done.len() <= 24, "{}", done.len());
        held += u32::from(holds_the_truth(&line, edge));
        complete += u32::from(line.end == Some(End::Narrow));
    }
    assert!(held >= 18, "{held} of 20 hold it");
    assert!(complete >= 6, "{complete} of 20 are complete");
}

/// Returns trials whose metric rises with the load. `noise` is the relative error of each trial,
/// `memory` its correlation with the error of the trial before, and `trend` the drift per trial.
fn uneven(edge: f64, noise: f64, memory: f64, trend: f64, seed: u64) -> impl FnMut(f64) -> ProbeResult {
    let mut random = Rng::with_seed(seed);
    let mut normal = move || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
    let (mut state, mut grown) = (normal(), 0.0);
    move |value| {
        state = memory * state + f64::sqrt(1.0 - memory * memory) * normal();
        grown += trend;
        let margin = 4.0 * ((value / edge).ln() + noise * state + grown);
        if margin < 0.0 { ProbeResult::Held(Some(-margin)) } else { ProbeResult::Broke(Some(margin)) }
    }
}

/// Returns how many of 12 intervals contain the truth, and the median of their relative widths.
fn held_of_12(noise: f64, memory: f64, trend: f64) -> (usize, f64) {
    let mut held = 0;
    let mut widths = Vec::new();
    for (seed, edge) in edges(12, 4.0) {
        let (_, line) = played(&rates(1000.0), uneven(edge, noise, memory, trend, seed));
        held += usize::from(holds_the_truth(&line, edge));
        widths.push(line.ci95[1].unwrap_or(f64::INFINITY) / line.ci95[0].unwrap_or(0.0) - 1.0);
    }
    widths.sort_by(f64::total_cmp);
    (held, widths[6])
}

/// Steady trials give a narrow interval. With the sides of answers alone it was 10 % wide.
#[test]
fn steady_trials_give_a_narrow_interval() {
    let (held, width) = held_of_12(0.01, 0.0, 0.0);
    assert!(held >= 11 && width < 0.08, "{held} of 12, {width} wide");
}

#[test]
fn noisy_trials_give_a_wide_interval() {
    let (held, width) = held_of_12(0.1, 0.0, 0.0);
    assert!(held >= 10 && width > 0.15, "{held} of 12, {width} wide");
}

#[test]
fn intervals_allow_for_correlated_errors() {
    let (held, _) = held_of_12(0.03, 0.7, 0.0);
    assert!(held >= 10, "{held} of 12");
}

#[test]
fn intervals_allow_for_drift() {
    let (held, _) = held_of_12(0.03, 0.0, -0.003);
    assert!(held >= 10, "{held} of 12");
}

/// The load at which 95 of 100 trials hold is 1.6 standard deviations below the edge, at which
/// every second trial breaks.
#[test]
fn a_hold_of_95_percent_lowers_the_value() {
    let mut plan = rates(1000.0);
    plan.find.as_mut().unwrap().hold_pct = 95.0;
    let mut below = 0;
    for (seed, edge) in edges(12, 4.0) {
        let (_, line) = played(&plan, uneven(edge, 0.03, 0.0, 0.0, seed));
        assert!(holds_the_truth(&line, edge * f64::exp(-1.645 * 0.03)), "{edge}: {line:?}");
        below += u32::from(line.value.unwrap() < edge);
    }
    assert!(below >= 11, "{below} of 12");
}

#[test]
fn agent_searches_use_whole_numbers() {
    for edge in [1.0, 2.0, 7.0, 8.0, 33.0] {
        let (done, line) = played(&agents(4), exact(edge));
        let [low, high] = line.ci95.map(Option::unwrap);
        assert!(low <= edge && edge <= high && high - low <= (low * 0.12).max(2.0), "{edge}: {line:?}");
        assert_eq!(line.end, Some(End::Narrow));
        assert!(done.len() <= 24 && done.iter().all(|one| one.value.fract() == 0.0 && one.value >= 1.0));
    }
}

#[test]
fn correct_answers_narrow_the_bracket() {
    for edge in [30.0, 999.0, 1001.0, 20_000.0] {
        let (done, line) = played(&rates(1000.0), exact(edge));
        let highest_held = done.iter().filter(|one| one.value <= edge).map(|one| one.value).fold(0.0, f64::max);
        let mut seen: Vec<f64> = Vec::new();
        for one in &done {
            let doubled = seen.iter().all(|value| *value <= edge) || seen.iter().all(|value| *value > edge);
            if !doubled {
                let low = seen.iter().copied().filter(|value| *value <= edge).fold(0.0, f64::max);
                let high = seen.iter().copied().filter(|value| *value > edge).fold(f64::INFINITY, f64::min);
                // Confirmations may go slightly beyond the nearest answers, never far.
                assert!(one.value > low / 1.5 && one.value < high * 1.5, "{edge}: {low} {high} {}", one.value);
            }
            seen.push(one.value);
        }
        assert!(holds_the_truth(&line, edge) && highest_held > edge * 0.93, "{line:?}");
    }
}

#[test]
fn a_single_wrong_answer_does_not_decide() {
    for wrong_one in 0..8 {
        let mut count = 0;
        let (_, line) = played(&rates(1000.0), |value| {
            count += 1;
            if (value <= 2600.0) == (count != wrong_one + 1) {
                ProbeResult::Held(Some(0.5))
            } else {
                ProbeResult::Broke(Some(0.5))
            }
        });
        assert!(holds_the_truth(&line, 2600.0), "wrong at {wrong_one}: {line:?}");
    }
}

#[test]
fn limits_that_never_hold_have_no_value() {
    let (done, line) = played(&agents(16), |_| ProbeResult::Broke(Some(1.0)));
    assert_eq!((line.value, line.ci95[0], line.end), (None, None, Some(End::Nowhere)));
    assert!(done.iter().filter(|one| one.value == 1.0).count() >= 2, "{done:?}");
    let (_, line) = played(&rates(1000.0), |_| ProbeResult::Broke(Some(1.0)));
    assert_eq!((line.value, line.end), (None, Some(End::Nowhere)));
}

/// Found in a run in which the only member was down: 7 agents had broken every limit, and the
/// result was "3 agents".
#[test]
fn no_value_is_reported_if_nothing_held() {
    let mut short = agents(1600);
    short.find.as_mut().unwrap().trials_max = 4;
    let (done, line) = played(&short, |_| ProbeResult::Broke(Some(1.0)));
    assert_eq!(done.iter().map(|one| one.value).collect::<Vec<_>>(), [1600.0, 800.0, 100.0, 13.0]);
    assert_eq!((line.value, line.ci95, line.end), (None, [None, Some(13.0)], Some(End::Trials)));
}

#[test]
fn limits_that_always_hold_reach_the_bound_or_trial_limit() {
    let mut bounded = rates(1000.0);
    bounded.find.as_mut().unwrap().up_to = Some(5000.0);
    let (done, line) = played(&bounded, |_| ProbeResult::Held(Some(1.0)));
    assert_eq!((line.value, line.ci95, line.end), (Some(5000.0), [Some(5000.0), None], Some(End::Bound)));
    assert!(done.len() <= 8 && done.iter().all(|one| one.value <= 5000.0));
    let mut short = rates(1000.0);
    short.find.as_mut().unwrap().trials_max = 5;
    let (done, line) = played(&short, |_| ProbeResult::Held(Some(1.0)));
    assert_eq!((done.len(), line.ci95[1], line.end), (5, None, Some(End::Trials)));
    assert_eq!(line.value, Some(16_000.0));
}

#[test]
fn the_generators_limit_is_never_taken_for_the_targets() {
    let (done, line) = played(&rates(1000.0), |value| {
        if value > 6000.0 {
            ProbeResult::Nothing(Inconclusive::Generator("busy".into()))
        } else {
            ProbeResult::Held(Some(1.0))
        }
    });
    assert_eq!((line.ci95[1], line.end.clone()), (None, Some(End::Generator("busy".into()))));
    assert!(line.value.unwrap() > 4700.0 && line.value.unwrap() <= 6000.0, "{line:?} {done:?}");
    let (_, line) = played(&rates(1000.0), |_| ProbeResult::Nothing(Inconclusive::Generator("busy".into())));
    assert_eq!((line.value, line.ci95), (None, [None, None]));
    assert!(matches!(line.end, Some(End::Generator(_) | End::Trials)));
    // If the limits break before the generator's limit, that limit does not matter.
    let (_, line) = played(&rates(1000.0), |value| match value {
        _ if value > 6000.0 => ProbeResult::Nothing(Inconclusive::Generator("busy".into())),
        _ if value > 3000.0 => ProbeResult::Broke(Some(1.0)),
        _ => ProbeResult::Held(Some(1.0)),
    });
    assert!(line.end == Some(End::Narrow) && holds_the_truth(&line, 3000.0), "{line:?}");
}

#[test]
fn a_void_trial_is_played_again_at_most_twice() {
    let mut voids = 2;
    let (done, line) = played(&rates(1000.0), |value| {
        if value > 3000.0 && voids > 0 {
            voids -= 1;
            return ProbeResult::Nothing(Inconclusive::Void("clock".into()));
        }
        exact(3000.0)(value)
    });
    assert!(line.end == Some(End::Narrow) && holds_the_truth(&line, 3000.0));
    assert_eq!(done[2].value, done[3].value);
    let (done, line) = played(&rates(1000.0), |_| ProbeResult::Nothing(Inconclusive::Void("clock".into())));
    assert_eq!((done.len(), line.end), (3, Some(End::Silent("clock".into()))));
    let (done, _) = played(&rates(1000.0), |_| ProbeResult::Nothing(Inconclusive::Unmeasured("short".into())));
    assert_eq!(done.len(), 1);
}

#[test]
fn the_next_trial_depends_only_on_finished_trials() {
    let plan =
        plan("load.rate", vec![template(9, Some(500.0), "nothing lost"), template(9, Some(500.0), "one member down")]);
    let answer = |trial: &Trial| {
        let edge = if trial.surviving.as_deref() == Some("nothing lost") { 2300.0 } else { 900.0 };
        finished(trial, exact(edge)(value(trial)))
    };
    let (mut done, mut trials) = (Vec::new(), Vec::new());
    while let Some(trial) = plan.next(&done) {
        done.push(answer(&trial));
        trials.push(trial);
    }
    let text = serde_json::to_string(&plan).unwrap();
    let again: Plan = serde_json::from_str(&text).unwrap();
    for stopped in 0..done.len() {
        assert_eq!(again.next(&done[..stopped]).as_ref(), Some(&trials[stopped]), "resumed after {stopped}");
    }
    let ids: Vec<String> = (1..=trials.len()).map(|number| format!("{number:03}")).collect();
    assert_eq!(trials.iter().map(|trial| trial.id.clone()).collect::<Vec<_>>(), ids);
    let turns: Vec<_> = trials.iter().take(4).map(|trial| trial.surviving.as_deref().unwrap()).collect();
    assert_eq!(turns, ["nothing lost", "one member down", "nothing lost", "one member down"]);
    let find = plan.find.as_ref().unwrap();
    assert!(holds_the_truth(&line(find, &find.templates[1], &done), 900.0));
}

#[test]
fn searched_trials_are_scaled_to_the_labs_speed() {
    let mut slow = rates(50.0);
    let half = &mut slow.find.as_mut().unwrap().templates[0];
    half.lab.speed = 0.5;
    let first = slow.next(&[]).unwrap();
    assert_eq!((first.id.as_str(), value(&first), first.repeat), ("001", 100.0, 1));
    assert_eq!(
        first.load.as_ref().unwrap().rate,
        Some(Rate::Constant(50.0)),
        "the file says 100, and the lab runs at half the speed"
    );
    let void = finished(&first, ProbeResult::Nothing(Inconclusive::Void("x".into())));
    let again = slow.next(&[void]).unwrap();
    assert_eq!((value(&again), again.repeat), (100.0, 2));
    assert_ne!(again.seed, first.seed);
    assert_eq!(agents(7).next(&[]).unwrap().load.unwrap().agents, 7);
}

#[test]
fn the_announced_number_of_trials_is_about_right() {
    let plan = rates(1000.0);
    let find = plan.find.as_ref().unwrap();
    let typical = typical_trials(find, &find.templates[0]);
    assert!((8..=24).contains(&typical), "{typical}");
    let mut counts: Vec<usize> = (0..15)
        .map(|seed| played(&plan, uneven(100.0 * 1.5_f64.powi(seed), 0.02, 0.0, 0.0, seed as u64)).0.len())
        .collect();
    counts.sort_unstable();
    assert!(counts[7].abs_diff(typical as usize) <= 6, "{typical} announced, {} taken", counts[7]);
}
