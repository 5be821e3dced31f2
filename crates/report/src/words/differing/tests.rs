//! Checks of the words for a comparison: what is shown, what is not, and what could not be.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use serde_json::json;

use super::*;

fn ratio(metric: &str, ratio: f64, ci95: [f64; 2], significant: bool) -> Comparison {
    let more_is_better = metric.ends_with("_per_s");
    let better = if (ratio > 1.0) == more_is_better { "b" } else { "a" };
    Comparison {
        over: "variant".into(),
        a: "a".into(),
        b: "b".into(),
        metric: metric.into(),
        a_value: Some(1_000.0),
        b_value: Some(1_000.0 * ratio),
        ratio: Some(ratio),
        ci95: Some(ci95),
        p: Some(0.01),
        p_adjusted: Some(0.02),
        significant,
        detectable_pct: Some(3.21),
        pairs: 5,
        trials: [5, 5],
        better: significant.then(|| better.to_owned()),
        ..Comparison::default()
    }
}

fn difference(metric: &str, difference: f64, ci95: Option<[f64; 2]>, p: f64) -> Comparison {
    let base = ratio(metric, 1.0, [1.0, 1.0], p < 0.05);
    let better = (p < 0.05).then(|| if difference > 0.0 { "a" } else { "b" }.to_owned());
    Comparison {
        a_value: Some(0.0),
        b_value: Some(difference),
        ratio: None,
        ci95: None,
        difference: Some(difference),
        difference_ci95: ci95,
        p: Some(p),
        detectable_pct: None,
        better,
        ..base
    }
}

#[test]
fn a_comparison_in_words() {
    let (rate, p99, lost) = ("throughput.operations_per_s", "latency_us.p99", "consistency.lost_writes");
    let quiet = |one: Comparison| Comparison { significant: false, better: None, ..one };
    for (comparison, words, tone) in [
        (ratio(rate, 1.123, [1.094, 1.152], true), "12 % faster (9.4–15 %)", Tone::Good),
        (ratio(rate, 0.88, [0.85, 0.91], true), "12 % slower (9–15 %)", Tone::Bad),
        (ratio(p99, 0.88, [0.85, 0.91], true), "12 % lower (9–15 %)", Tone::Good),
        (ratio(p99, 1.031, [1.01, 1.052], true), "3.1 % higher (1–5.2 %)", Tone::Bad),
        (ratio(rate, 3.2, [2.9, 3.5], true), "3.2 times as fast (2.9–3.5 times)", Tone::Good),
        (ratio(rate, 1.01, [0.98, 1.04], false), "no difference shown (3.3 % or more would have been)", Tone::Plain),
        (difference(lost, 2_000.0, Some([1_900.0, 2_100.0]), 0.001), "2,000 more (1,900–2,100)", Tone::Bad),
        (difference(lost, 2_000.0, None, 0.03), "2,000 more", Tone::Bad),
        (difference("failed_pct", -0.3, Some([-0.4, -0.2]), 0.01), "0.3 points fewer (0.2–0.4)", Tone::Good),
        (
            difference(lost, 2_000.0, None, 0.25),
            "no difference shown: too few trials for one without spread",
            Tone::Plain,
        ),
        (difference(lost, 0.0, None, 1.0), "the same in every trial", Tone::Plain),
        (
            Comparison { detectable: Some(12.0), ..difference(lost, 3.0, Some([-5.0, 11.0]), 0.4) },
            "no difference shown (12 or more would have been)",
            Tone::Plain,
        ),
        (
            Comparison { p: None, ci95: None, ..quiet(ratio(rate, 1.2, [1.0, 1.0], false)) },
            "too few trials to tell",
            Tone::Muted,
        ),
        (Comparison { b_value: None, ..ratio(p99, 1.0, [1.0, 1.0], false) }, "not measured in `b`", Tone::Doubtful),
        (
            Comparison { detectable_pct: Some(4_000.0), ..ratio(p99, 1.4, [0.1, 20.0], false) },
            "no difference shown, nor would any but a huge one have been",
            Tone::Plain,
        ),
    ] {
        assert_eq!(verdict(&comparison), (words.to_owned(), tone), "{comparison:?}");
    }
}

#[test]
fn estimates_have_their_interval() {
    let of = |comparison| estimate(&comparison);
    assert_eq!(of(ratio("latency_us.p99", 1.031, [1.01, 1.052], true)), ("1.031".into(), "1.010–1.052".into()));
    let lost = difference("consistency.lost_writes", -20.0, Some([-30.0, 10.0]), 0.2);
    assert_eq!(of(lost), ("−20".into(), "−30 to +10".into()));
    assert_eq!((chance(0.000_2), chance(0.0312)), ("< 0.001".into(), "0.031".into()));
}

#[test]
fn the_answer_tells_each_of_a_few_and_counts_many() {
    let at = |agents: u32, one: Comparison| Comparison {
        at: BTreeMap::from([("load.agents".into(), json!(agents))]),
        ..one
    };
    let rate = "throughput.operations_per_s";
    let (faster, same) = (ratio(rate, 1.123, [1.094, 1.152], true), ratio(rate, 1.01, [0.98, 1.04], false));
    assert_eq!(sentence(&[]), None);
    assert_eq!(sentence(&[ratio("latency_us.p99", 1.5, [1.4, 1.6], true)]), None);
    assert_eq!(sentence(std::slice::from_ref(&faster)).unwrap(), "`b` was 12 % faster than `a` (9.4–15 %).");
    assert_eq!(
        sentence(&[at(8, faster.clone()), at(64, same.clone())]).unwrap(),
        "`b` was 12 % faster than `a` at agents 8 (9.4–15 %); no difference shown between `b` and `a` at agents 64 (3.3 % or more \
         would have been)."
    );
    let slower = ratio(rate, 0.9, [0.85, 0.95], true);
    let many = [at(1, slower), at(2, same.clone()), at(4, same), at(8, faster.clone()), at(16, faster)];
    assert_eq!(
        sentence(&many).unwrap(),
        "Of 5 comparisons of throughput, `b` was faster than `a` in 2, slower in 1 and not shown to differ in 2."
    );
}
