//! A comparison in words: the size of the difference or, if none was shown, the smallest that would
//! have been.

use record::results::Comparison;
use text::{Tone, code, distinct, listed, numbers, of_json};

use crate::trial_groups::short;

/// Smallest ratio that is written as a multiple (`3 times as fast`), and not in percent.
const MULTIPLE: f64 = 2.0;
/// Largest detectable difference that the text gives as a number, percent.
const HUGE_PCT: f64 = 1_000.0;
/// Text for a difference that chance explains.
const NOT_SHOWN: &str = "not significant";
/// Text for a comparison of two single runs: the machine's drift between them is unknown.
pub const ONE_RUN_EACH: &str = "not tested: one run of each";
/// Largest number of comparisons that the answer lists one by one.
const TOLD: usize = 4;

/// Returns the verdict, such as `12 % faster (9–15 %)` or `not significant (minimum detectable
/// change 4 %)`, and its tone.
pub fn verdict(comparison: &Comparison) -> (String, Tone) {
    if comparison.a_value.is_none() || comparison.b_value.is_none() {
        let lacks = if comparison.a_value.is_none() { &comparison.a } else { &comparison.b };
        return (format!("not measured in {}", code(lacks)), Tone::Doubtful);
    }
    if comparison.significant {
        let (change, interval) = change(comparison);
        let tone = if is_b_better(comparison) && comparison.a != comparison.b { Tone::Good } else { Tone::Bad };
        return (change + &interval, tone);
    }
    match (comparison.p, comparison.detectable_pct, comparison.detectable) {
        (None, ..) if comparison.over == "run" => (ONE_RUN_EACH.to_owned(), Tone::Muted),
        (None, ..) => ("not tested: set repeat = 3".to_owned(), Tone::Muted),
        (Some(_), Some(pct), _) if pct > HUGE_PCT => {
            (format!("{NOT_SHOWN} (only a huge change would be)"), Tone::Plain)
        }
        // Percentages are not useful for values near 0.
        (Some(_), _, Some(size)) => {
            let size = numbers::by_metric(&comparison.metric, size);
            (format!("{NOT_SHOWN} (minimum detectable change {size})"), Tone::Plain)
        }
        (Some(_), Some(pct), None) => (format!("{NOT_SHOWN} (minimum detectable change {})", up(pct)), Tone::Plain),
        (Some(_), None, None) if comparison.difference == Some(0.0) || comparison.ratio == Some(1.0) => {
            ("the same in every trial".to_owned(), Tone::Plain)
        }
        (Some(1.0), None, None) => ("the same within the resolution (0.1 %)".to_owned(), Tone::Plain),
        (Some(_), None, None) => (format!("{NOT_SHOWN}: too few trials without spread"), Tone::Plain),
    }
}

/// Returns `0.88` and `0.85–0.91`, or the difference and its interval.
pub fn estimate(comparison: &Comparison) -> (String, String) {
    if let Some(ratio) = comparison.ratio {
        let ends = ratio_interval(comparison).map(|[low, high]| format!("{low:.3}–{high:.3}"));
        return (format!("{ratio:.3}"), ends.unwrap_or_default());
    }
    let Some(difference) = comparison.difference else { return (numbers::NONE.to_owned(), String::new()) };
    let ends = difference_interval(comparison).map(|ends| ends.map(|end| signed(&comparison.metric, end)).join(" to "));
    (signed(&comparison.metric, difference), ends.unwrap_or_default())
}

/// Returns the comparison without adjustment, or `None` if it is not adjusted.
fn without_adjusting(comparison: &Comparison) -> Option<Comparison> {
    let ratio = Some(comparison.raw_ratio?);
    Some(Comparison { ratio, ci95_adjusted: comparison.raw_ci95_adjusted, ci95: None, ..comparison.clone() })
}

/// Returns [`estimate`] without adjustment; empty for a comparison that is not adjusted.
pub fn raw_estimate(comparison: &Comparison) -> (String, String) {
    without_adjusting(comparison).map_or_else(Default::default, |raw| estimate(&raw))
}

/// Returns `without adjusting for steal: 6.3 % slower (5–8 %)`, or `None` for a comparison that is
/// not adjusted.
pub fn raw(comparison: &Comparison) -> Option<String> {
    let (change, interval) = change(&without_adjusting(comparison)?);
    Some(format!("without adjusting for {}: {change}{interval}", listed(&comparison.adjusted_for, "and")))
}

/// Returns a sentence for each covariate for which the comparison is not adjusted.
pub fn unadjusted(comparison: &Comparison) -> Vec<String> {
    let (a, b, place) = (code(&comparison.a), code(&comparison.b), at_place(comparison));
    let sentences = comparison.not_adjusted_for.iter().map(|one| {
        let (points, p) = (numbers::number(one.difference.abs()), chance(one.p));
        let name = &one.name;
        format!("{name} differs between {a} and {b}{place} by {points} points (p {p}): not adjusted, because {b} may cause it")
    });
    sentences.collect()
}

/// Returns the interval that agrees with the verdict. Results of older versions have only the
/// interval of 95 %.
fn ratio_interval(comparison: &Comparison) -> Option<[f64; 2]> {
    comparison.ci95_adjusted.or(comparison.ci95)
}

fn difference_interval(comparison: &Comparison) -> Option<[f64; 2]> {
    comparison.difference_ci95_adjusted.or(comparison.difference_ci95)
}

/// Whether `b` is better.
pub fn is_b_better(comparison: &Comparison) -> bool {
    comparison.better.as_ref() == Some(&comparison.b)
}

/// Returns a p-value as in publications: `0.03`, `< 0.001`.
pub fn chance(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// Returns the name of a figure, such as `p99 latency`, or its path if it has no other name.
pub fn figure(metric: &str) -> &str {
    match metric {
        "throughput.operations_per_s" => "operations/s",
        "throughput.cycles_per_s" => "cycles/s",
        "throughput.median_units_per_s" => "units/s",
        "latency_us.p50" => "p50 latency",
        "latency_us.p95" => "p95 latency",
        "latency_us.p99" => "p99 latency",
        "failed_pct" => "failed",
        "wrong_per_1000_cycles" => "wrong per 1,000 cycles",
        "consistency.lost_writes" => "lost writes",
        "faults.outage.failed" => "failed in outages",
        "faults.outage.back_to_baseline_s" => "recovered after",
        other => other,
    }
}

/// Returns the point of a comparison, such as `agents 32`; empty without a sweep.
pub fn place(comparison: &Comparison) -> String {
    let parts = comparison.at.iter().map(|(path, value)| format!("{} {}", short(path), of_json(value)));
    parts.collect::<Vec<_>>().join(", ")
}

/// Returns the point of a comparison with its preposition, ` at agents 32`; empty without a sweep.
pub fn at_place(comparison: &Comparison) -> String {
    if comparison.at.is_empty() { String::new() } else { format!(" at {}", place(comparison)) }
}

/// Returns the comparisons of throughput as a sentence for the answer, or `None` without
/// comparisons.
pub fn sentence(comparisons: &[Comparison]) -> Option<String> {
    let tested: Vec<&Comparison> = comparisons.iter().filter(|found| found.p.is_some()).collect();
    let metrics = ["throughput.median_units_per_s", "throughput.operations_per_s"];
    let metric = metrics.into_iter().find(|metric| tested.iter().any(|found| found.metric == *metric))?;
    let rates: Vec<&Comparison> = tested.into_iter().filter(|found| found.metric == metric).collect();
    if rates.len() <= TOLD {
        let parts: Vec<String> = rates.into_iter().map(one_by_one).collect();
        return Some(text::capital(&format!("{}.", parts.join("; "))));
    }
    let (better, others): (Vec<&Comparison>, Vec<&Comparison>) =
        rates.iter().partition(|found| found.significant && is_b_better(found));
    let slower = others.iter().filter(|found| found.significant).count();
    let counted = [(better.len(), "faster"), (slower, "slower"), (others.len() - slower, "not shown to differ")];
    let counted = counted.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = counted.map(|(count, what)| format!("{what} in {count}")).collect();
    let others = distinct(rates.iter().map(|found| code(&found.b)));
    let were = if others.len() > 1 { "were" } else { "was" };
    let who = if others.len() > TOLD { format!("the {} others", others.len()) } else { listed(&others, "and") };
    let (all, a, parts) = (rates.len(), code(&rates[0].a), listed(&parts, "and"));
    Some(format!("Of {all} comparisons of throughput with {a}, {who} {were} {parts}."))
}

fn one_by_one(found: &Comparison) -> String {
    let (b, a, place) = (code(&found.b), code(&found.a), at_place(found));
    if found.significant {
        let (change, interval) = change(found);
        let than = if found.ratio.is_some_and(|ratio| ratio >= MULTIPLE) { "as" } else { "than" };
        return format!("{b} was {change} {than} {a}{place}{interval}");
    }
    let words = verdict(found).0;
    match words.strip_prefix(NOT_SHOWN) {
        Some(rest) => format!("no significant difference in throughput between {b} and {a}{place}{rest}"),
        None => format!("no difference in throughput between {b} and {a}{place}: {words}"),
    }
}

/// Returns `12 % faster` and ` (9–15 %)`.
fn change(comparison: &Comparison) -> (String, String) {
    let Some(ratio) = comparison.ratio else { return shift(comparison) };
    let is_rate = comparison.metric.ends_with("_per_s");
    let ends = ratio_interval(comparison);
    if ratio >= MULTIPLE {
        let as_much = if is_rate { "as fast" } else { "as high" };
        return (format!("{} {as_much}", multiple(ratio)), interval(ends.map(|ends| ends.map(multiple)), false));
    }
    let is_more = ratio > 1.0;
    let word = match (is_rate, is_more) {
        (true, true) => "faster",
        (true, false) => "slower",
        (false, true) => "higher",
        (false, false) => "lower",
    };
    let ends = ends.map(|ends| ends.map(|end| percent_off(end, is_more)));
    (format!("{} {word}", percent_off(ratio, is_more)), interval(ends, !is_more))
}

/// Returns the percentage by which a ratio is above 1 (`is_more`) or below 1.
fn percent_off(ratio: f64, is_more: bool) -> String {
    let pct = 100.0 * if is_more { ratio - 1.0 } else { 1.0 - ratio };
    let decimals = usize::from(pct.abs() < 9.95);
    numbers::percent(format!("{pct:.decimals$}").parse().unwrap_or(pct))
}

fn multiple(ratio: f64) -> String {
    format!("{} times", numbers::number(ratio))
}

/// Returns `2,000 more` and ` (1,900–2,100)`.
fn shift(comparison: &Comparison) -> (String, String) {
    let difference = comparison.difference.unwrap_or_default();
    let is_more = difference > 0.0;
    let points = if comparison.metric.ends_with("_pct") { " points" } else { "" };
    let word = if is_more { "more" } else { "fewer" };
    let ends = difference_interval(comparison).map(|ends| ends.map(|end| size(&comparison.metric, end)));
    (format!("{}{points} {word}", size(&comparison.metric, difference)), interval(ends, !is_more))
}

/// Returns the size of a difference. Leaves out the unit of a share, because the text names its
/// points once.
fn size(metric: &str, difference: f64) -> String {
    let size = difference.abs();
    if metric.ends_with("_pct") { numbers::number(size) } else { numbers::by_metric(metric, size) }
}

/// Returns ` (9–15 %)`; empty if there is no interval, or if both ends read the same.
fn interval(ends: Option<[String; 2]>, is_reversed: bool) -> String {
    match ends {
        Some([low, high]) if low != high && is_reversed => format!(" ({})", numbers::from_to(&high, &low)),
        Some([low, high]) if low != high => format!(" ({})", numbers::from_to(&low, &high)),
        _ => String::new(),
    }
}

fn signed(metric: &str, value: f64) -> String {
    let text = numbers::by_metric(metric, value.abs());
    match value {
        0.0 => text,
        value if value > 0.0 => format!("+{text}"),
        _ => format!("−{text}"),
    }
}

/// Returns a percentage, rounded up so that the text does not claim a finer resolution.
fn up(pct: f64) -> String {
    let scale = if pct < 9.9 { 10.0 } else { 1.0 };
    numbers::percent((pct * scale).ceil() / scale)
}

#[cfg(test)]
mod tests {
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
    fn a_comparison_is_put_into_words() {
        let (rate, p99, lost) = ("throughput.operations_per_s", "latency_us.p99", "consistency.lost_writes");
        let untested = Comparison { p: None, ci95: None, ..ratio(rate, 1.2, [1.0, 1.0], false) };
        for (comparison, words, tone) in [
            (ratio(rate, 1.123, [1.094, 1.152], true), "12 % faster (9.4–15 %)", Tone::Good),
            (ratio(rate, 0.88, [0.85, 0.91], true), "12 % slower (9–15 %)", Tone::Bad),
            (ratio(p99, 0.88, [0.85, 0.91], true), "12 % lower (9–15 %)", Tone::Good),
            (ratio(p99, 1.031, [1.01, 1.052], true), "3.1 % higher (1–5.2 %)", Tone::Bad),
            (ratio(rate, 3.2, [2.9, 3.5], true), "3.2 times as fast (2.9–3.5 times)", Tone::Good),
            (ratio(rate, 1.01, [0.98, 1.04], false), "not significant (minimum detectable change 3.3 %)", Tone::Plain),
            (difference(lost, 2_000.0, Some([1_900.0, 2_100.0]), 0.001), "2,000 more (1,900–2,100)", Tone::Bad),
            (difference(lost, 2_000.0, None, 0.03), "2,000 more", Tone::Bad),
            (difference("failed_pct", -0.3, Some([-0.4, -0.2]), 0.01), "0.3 points fewer (0.2–0.4)", Tone::Good),
            (difference(lost, 2_000.0, None, 0.25), "not significant: too few trials without spread", Tone::Plain),
            (difference(lost, 0.0, None, 1.0), "the same in every trial", Tone::Plain),
            (
                Comparison { detectable: Some(12.0), ..difference(lost, 3.0, Some([-5.0, 11.0]), 0.4) },
                "not significant (minimum detectable change 12)",
                Tone::Plain,
            ),
            (untested.clone(), "not tested: set repeat = 3", Tone::Muted),
            (Comparison { over: "run".into(), ..untested }, ONE_RUN_EACH, Tone::Muted),
            (Comparison { b_value: None, ..ratio(p99, 1.0, [1.0, 1.0], false) }, "not measured in `b`", Tone::Doubtful),
            (
                Comparison { detectable_pct: Some(4_000.0), ..ratio(p99, 1.4, [0.1, 20.0], false) },
                "not significant (only a huge change would be)",
                Tone::Plain,
            ),
        ] {
            assert_eq!(verdict(&comparison), (words.to_owned(), tone), "{comparison:?}");
        }
    }

    #[test]
    fn estimates_are_printed_with_their_interval() {
        let p99 = ratio("latency_us.p99", 1.031, [1.01, 1.052], true);
        assert_eq!(estimate(&p99), ("1.031".into(), "1.010–1.052".into()));
        let lost = difference("consistency.lost_writes", -20.0, Some([-30.0, 10.0]), 0.2);
        assert_eq!(estimate(&lost), ("−20".into(), "−30 to +10".into()));
        assert_eq!((chance(0.000_2), chance(0.0312)), ("< 0.001".into(), "0.031".into()));
    }

    fn at(agents: u32, one: &Comparison) -> Comparison {
        Comparison { at: BTreeMap::from([("load.agents".into(), json!(agents))]), ..one.clone() }
    }

    #[test]
    fn few_comparisons_are_listed_and_many_are_counted() {
        let rate = "throughput.operations_per_s";
        let (faster, same) = (ratio(rate, 1.123, [1.094, 1.152], true), ratio(rate, 1.01, [0.98, 1.04], false));
        assert_eq!(sentence(&[]), None);
        assert_eq!(sentence(&[ratio("latency_us.p99", 1.5, [1.4, 1.6], true)]), None);
        assert_eq!(sentence(std::slice::from_ref(&faster)).unwrap(), "`b` was 12 % faster than `a` (9.4–15 %).");
        assert_eq!(
            sentence(&[at(8, &faster), at(64, &same)]).unwrap(),
            "`b` was 12 % faster than `a` at agents 8 (9.4–15 %); no significant difference in throughput between `b` and `a` at agents 64 \
             (minimum detectable change 3.3 %)."
        );
        let equal = Comparison {
            metric: rate.to_owned(),
            ratio: Some(1.0),
            difference: None,
            better: None,
            ..difference("consistency.lost_writes", 0.0, None, 1.0)
        };
        let text = sentence(&[equal]).unwrap();
        assert_eq!(text, "No difference in throughput between `b` and `a`: the same in every trial.");
        let slower = ratio(rate, 0.9, [0.85, 0.95], true);
        let many = [at(1, &slower), at(2, &same), at(4, &same), at(8, &faster), at(16, &faster)];
        assert_eq!(
            sentence(&many).unwrap(),
            "Of 5 comparisons of throughput with `a`, `b` was faster in 2, slower in 1 and not shown to differ in 2."
        );
    }
}
