//! Checks of the functions of curves, against curves whose figures are known.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::plan::Range;
use record::results::{Holds, Throughput};
use serde_json::json;

use super::*;

/// Loads doubled from 1 to 64, `repeats` times, off by up to a share of `off`.
fn trials(variant: Option<&str>, repeats: u32, off: f64, per_s: impl Fn(f64) -> f64) -> Vec<Trial> {
    let mut trials = Vec::new();
    for repeat in 1..=repeats {
        for power in 0..7_u32 {
            let agents = 1 << power;
            let off = 1.0 + off * (f64::from((repeat + power) % 3) - 1.0);
            let rate = per_s(f64::from(agents)) * off;
            trials.push(Trial {
                variant: variant.map(str::to_owned),
                point: BTreeMap::from([("load.agents".to_owned(), json!(agents))]),
                repeat,
                throughput: Throughput {
                    operations_per_s: Some(rate),
                    cycles_per_s: Some(rate / 6.0),
                    ..Throughput::default()
                },
                ..Trial::default()
            });
        }
    }
    trials
}

/// 24 slow cores, which carry 240, and 2 fast ones, which carry 120.
fn two(repeats: u32, off: f64) -> Vec<Trial> {
    let mut both = trials(Some("pi"), repeats, off, |n| 10.0 * n.min(24.0));
    both.extend(trials(Some("xeon"), repeats, off, |n| 60.0 * n.min(2.0)));
    both
}

fn each(trials: &[Trial]) -> Vec<&Trial> {
    trials.iter().collect()
}

fn at_least(bound: f64) -> Range {
    Range { at_least: Some(bound), ..Range::default() }
}

fn above(bound: f64) -> Range {
    Range { above: Some(bound), ..Range::default() }
}

const OVER: &str = "load.agents";
const RATE: &str = "throughput.operations_per_s";

#[test]
fn the_ratio_of_peaks_has_an_interval() {
    let trials = two(3, 0.02);
    let found = peak_ratios(["pi", "xeon"], &each(&trials));
    let [low, high] = found.range.unwrap();
    assert!(
        (found.value.unwrap() - 2.0).abs() < 0.1 && low > 1.8 && low < 2.0 && high > 2.0 && high < 2.2,
        "{found:?}"
    );
    assert_eq!((found.holds(&at_least(1.7)), found.holds(&at_least(2.0))), (Holds::Yes, Holds::NotShown));
    assert_eq!(found.holds(&at_least(2.5)), Holds::No);
    let back = peak_ratios(["xeon", "pi"], &each(&trials));
    assert!((found.value.unwrap() * back.value.unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn with_one_trial_each_the_value_decides_and_it_is_said() {
    let trials = two(1, 0.0);
    let found = peak_ratios(["pi", "xeon"], &each(&trials));
    assert_eq!((found.value, found.range, found.note.as_str()), (Some(2.0), None, "one trial each: no interval"));
    assert_eq!(found.holds(&at_least(2.0)), Holds::Yes);
    assert_eq!(peak_ratios(["pi", "none"], &each(&trials)), Found::default());
}

#[test]
fn cycles_per_agent_stay_flat_longer_on_more_cores() {
    // Per agent 60 up to 2 agents and 120 / N beyond: four fifths at 2.5. With 24 slow cores, 1 at 16 and 3/4 at 32: on the way between
    // at 16 · 2^(ln 0.8 / ln 0.75).
    let trials = two(3, 0.01);
    let xeon = flats(Some("xeon"), OVER, &each(&trials));
    assert!((xeon.value.unwrap() - 2.5).abs() < 0.1, "{xeon:?}");
    let pi = flats(Some("pi"), OVER, &each(&trials));
    assert!((pi.value.unwrap() - 16.0 * 2_f64.powf(0.8_f64.ln() / 0.75_f64.ln())).abs() < 0.1, "{pi:?}");
    let ratio = flat_ratio(["pi", "xeon"], OVER, &each(&trials));
    assert!((ratio.value.unwrap() - 10.96).abs() < 0.2 && ratio.range.unwrap()[0] > 10.0, "{ratio:?}");
    assert_eq!(ratio.holds(&above(1.0)), Holds::Yes);
}

#[test]
fn what_stays_flat_to_the_end_is_longer_than_what_does_not() {
    let mut trials = trials(Some("linear"), 3, 0.01, |n| n);
    trials.extend(two(3, 0.01));
    let found = flat_ratio(["linear", "xeon"], OVER, &each(&trials));
    assert_eq!((found.value, found.note.as_str()), (None, "linear still has as much for each at 64"));
    assert_eq!((found.holds(&above(1.0)), found.holds(&above(20.0))), (Holds::Yes, Holds::Yes));
    assert_eq!(found.holds(&above(30.0)), Holds::NotShown, "64 / 2.5 is 25.6, and it may be more");
    let back = flat_ratio(["xeon", "linear"], OVER, &each(&trials));
    assert_eq!((back.holds(&above(1.0)), back.holds(&above(0.01))), (Holds::No, Holds::NotShown));
    let both = flat_ratio(["linear", "linear2"], OVER, &each(&trials));
    assert_eq!(both.holds(&above(1.0)), Holds::NotMeasured);
}

#[test]
fn knees_are_held_against_each_other() {
    let trials = two(3, 0.01);
    let found = knee_ratio(["pi", "xeon"], OVER, &each(&trials));
    assert!((found.value.unwrap() - 12.0).abs() < 0.6 && found.range.is_some(), "{found:?}");
}

#[test]
fn what_is_kept_at_a_load_is_a_share_of_the_peak() {
    // Falls to three quarters of the peak at 64.
    let falls = |n: f64| if n <= 16.0 { 100.0 * n } else { 1_600.0 * (1.0 - 0.25 * (n / 16.0).log2() / 2.0) };
    let trials = trials(None, 3, 0.01, falls);
    let at = |load: &str| retained(RATE, None, [OVER, load], &each(&trials));
    let found = at("64");
    assert!((found.value.unwrap() - 0.75).abs() < 0.02, "{found:?}");
    assert_eq!((found.holds(&at_least(0.7)), found.holds(&at_least(0.9))), (Holds::Yes, Holds::No));
    assert_eq!((at("16").value, at("16").range), (Some(1.0), Some([1.0, 1.0])));
    assert_eq!(at("48").holds(&at_least(0.0)), Holds::NotMeasured);
    let cycles = retained("throughput.cycles_per_s", None, [OVER, "64"], &each(&trials));
    assert!((cycles.value.unwrap() - found.value.unwrap()).abs() < 1e-9);
}

#[test]
fn without_variants_none_is_named() {
    let trials = trials(None, 3, 0.01, |n| 60.0 * n.min(2.0));
    let knee = knees(None, OVER, &each(&trials));
    assert!((knee.value.unwrap() - 2.0).abs() < 0.1, "{knee:?}");
    assert!((peaks(None, &each(&trials)).value.unwrap() - 120.0).abs() < 2.0);
    assert_eq!(knees(Some("pi"), OVER, &each(&trials)), Found::default());
}

#[test]
fn two_swept_paths_give_a_figure_at_each_point_and_all_of_them_count() {
    // The slower link halves what 2 fast cores carry, and not the knee; its texts are no load.
    let mut all = Vec::new();
    for (rate, factor) in [("100mbit", 1.0), ("5mbit", 0.5)] {
        for mut trial in trials(Some("xeon"), 3, 0.01, |n| 60.0 * factor * n.min(2.0)) {
            trial.point.insert("lab.port.distribution.rate".to_owned(), json!(rate));
            all.push(trial);
        }
    }
    let knee = knees(Some("xeon"), OVER, &each(&all));
    assert!((knee.value.unwrap() - 2.0).abs() < 0.1, "{knee:?}");
    assert!((peaks(Some("xeon"), &each(&all)).value.unwrap() - 120.0).abs() < 2.0);
    assert_eq!(knees(Some("xeon"), "lab.port.distribution.rate", &each(&all)), Found::default());
    let slow = trials(Some("xeon"), 3, 0.01, |n| 60.0 * n.min(16.0));
    for mut trial in slow {
        trial.point.insert("lab.port.distribution.rate".to_owned(), json!("1mbit"));
        all.push(trial);
    }
    let at_most = |bound| Range { at_most: Some(bound), ..Range::default() };
    let knee = knees(Some("xeon"), OVER, &each(&all));
    assert_eq!((knee.holds(&at_most(4.0)), knee.holds(&at_most(20.0))), (Holds::NotShown, Holds::Yes));
}

/// Of 200 sweeps with repeats that differ by 4 %, in how many an interval holds what curves without noise give.
#[test]
fn intervals_hold_the_truth_about_as_often_as_they_say() {
    let mut random = fastrand::Rng::with_seed(11);
    let smooth = |cores: f64| move |n: f64| 10.0 * n / (1.0 + (n / cores).powi(3)).cbrt();
    let run = |noise: f64, random: &mut fastrand::Rng| {
        let mut both = trials(Some("a"), 3, 0.0, smooth(24.0));
        both.extend(trials(Some("b"), 3, 0.0, smooth(6.0)));
        for trial in &mut both {
            let off = 1.0 + noise * crate::made_up::normal(random);
            let throughput = &mut trial.throughput;
            for rate in [&mut throughput.operations_per_s, &mut throughput.cycles_per_s] {
                *rate = rate.map(|rate| rate * off);
            }
        }
        both
    };
    type Asked = fn(&[&Trial]) -> Found;
    let asked: [(&str, Asked); 4] = [
        ("peak_ratio", |trials| peak_ratios(["a", "b"], trials)),
        ("flat_until", |trials| flats(Some("a"), OVER, trials)),
        ("flat_ratio", |trials| flat_ratio(["a", "b"], OVER, trials)),
        ("retained", |trials| retained(RATE, Some("a"), [OVER, "16"], trials)),
    ];
    let exact = run(0.0, &mut random);
    let truths: Vec<f64> = asked.iter().map(|(_, of)| of(&each(&exact)).value.unwrap()).collect();
    let mut held = [0; 4];
    for _ in 0..200 {
        let noisy = run(0.04, &mut random);
        for (index, (_, of)) in asked.iter().enumerate() {
            let [low, high] = of(&each(&noisy)).range.unwrap();
            held[index] += u32::from((low..=high).contains(&truths[index]));
        }
    }
    let names = asked.map(|(name, _)| name);
    assert!(held.iter().all(|held| (180..=200).contains(held)), "{names:?}: {held:?} of 200");
}
