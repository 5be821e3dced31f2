//! A comparison in words: the size of the difference, or that none was shown and how large it would
//! have to be.

use record::results::{Comparison, UnadjustedCovariate};
use text::{Tone, code, listed, numbers, of_json};

/// Smallest ratio that is given as a multiple.
const MULTIPLE: f64 = 2.0;
/// Largest detectable difference that is given as a number, percent.
const HUGE_PCT: f64 = 1_000.0;
/// Text for a difference that chance explains.
const NOT_SHOWN: &str = "not significant";
/// Text for two runs: the drift of the machine between them is unknown.
pub const ONE_RUN_EACH: &str = "not tested: one run of each";
/// Most comparisons that the answer gives one by one.
const TOLD: usize = 4;

/// Returns the verdict, such as `12 % faster (9–15 %)` or `not significant (minimum detectable
/// change 4 %)`, and its tone.
pub fn verdict(comparison: &Comparison) -> (String, Tone) {
    if comparison.a_value.is_none() || comparison.b_value.is_none() {
        let lacks = if comparison.a_value.is_none() { &comparison.a } else { &comparison.b };
        return (format!("not measured in {}", code(lacks)), Tone::Doubtful);
    }
    if comparison.significant {
        let better = comparison.better.as_deref() == Some(comparison.b.as_str()) && comparison.a != comparison.b;
        let (change, interval) = change(comparison);
        return (change + &interval, if better { Tone::Good } else { Tone::Bad });
    }
    match (comparison.p, comparison.detectable_pct, comparison.detectable) {
        (None, ..) if comparison.over == "run" => (ONE_RUN_EACH.to_owned(), Tone::Muted),
        (None, ..) => ("not tested: set repeat = 3".to_owned(), Tone::Muted),
        (Some(_), Some(pct), _) if pct > HUGE_PCT => {
            (format!("{NOT_SHOWN} (only a huge change would have been)"), Tone::Plain)
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
    let number = |value: f64| format!("{value:.3}");
    let by_metric = |value: f64| signed(&comparison.metric, value);
    match (comparison.ratio, comparison.difference) {
        (Some(ratio), _) => (
            number(ratio),
            ratio_interval(comparison)
                .map_or_else(String::new, |[low, high]| format!("{}–{}", number(low), number(high))),
        ),
        (None, Some(difference)) => {
            let interval = difference_interval(comparison)
                .map_or_else(String::new, |[low, high]| format!("{} to {}", by_metric(low), by_metric(high)));
            (by_metric(difference), interval)
        }
        (None, None) => (numbers::NONE.to_owned(), String::new()),
    }
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

/// Returns a sentence for each covariate that a comparison is not adjusted for.
pub fn unadjusted(comparison: &Comparison) -> Vec<String> {
    let (a, b) = (code(&comparison.a), code(&comparison.b));
    let place = if comparison.at.is_empty() { String::new() } else { format!(" at {}", place(comparison)) };
    let sentence = |one: &UnadjustedCovariate| {
        let points = numbers::number(one.difference.abs());
        format!(
            "{} differs between {a} and {b}{place} by {points} points (p {}): not adjusted, because {b} may cause it",
            one.name,
            chance(one.p)
        )
    };
    comparison.not_adjusted_for.iter().map(sentence).collect()
}

/// Returns the interval that agrees with the verdict. Results of older versions have only the
/// interval of 95 %.
fn ratio_interval(comparison: &Comparison) -> Option<[f64; 2]> {
    comparison.ci95_adjusted.or(comparison.ci95)
}

fn difference_interval(comparison: &Comparison) -> Option<[f64; 2]> {
    comparison.difference_ci95_adjusted.or(comparison.difference_ci95)
}

/// Returns a p-value as in publications: `0.03`, `< 0.001`.
pub fn chance(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// Returns the name of a figure, such as `p99 latency`, or its path if it has no other name.
pub fn figure(metric: &str) -> &str {
    match metric {
        "throughput.operations_per_s" => "calls/s",
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
    let parts = comparison.at.iter().map(|(path, value)| {
        let last = path.rsplit('.').next().unwrap_or(path);
        format!("{last} {}", of_json(value))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Returns the comparisons of throughput as a sentence for the answer, or `None` without
/// comparisons.
pub fn sentence(comparisons: &[Comparison]) -> Option<String> {
    let of = |metric: &str| comparisons.iter().filter(|found| found.metric == metric && found.p.is_some()).collect();
    let units: Vec<&Comparison> = of("throughput.median_units_per_s");
    let rates = if units.is_empty() { of("throughput.operations_per_s") } else { units };
    if rates.is_empty() {
        return None;
    }
    let one_by_one = |found: &&Comparison| {
        let (b, a) = (code(&found.b), code(&found.a));
        let place = if found.at.is_empty() { String::new() } else { format!(" at {}", place(found)) };
        if found.significant {
            let (change, interval) = change(found);
            let than = if found.ratio.is_some_and(|ratio| ratio >= MULTIPLE) { "as" } else { "than" };
            format!("{b} was {change} {than} {a}{place}{interval}")
        } else {
            let said = verdict(found).0;
            said.strip_prefix(NOT_SHOWN).map_or_else(
                || format!("no difference in throughput between {b} and {a}{place}: {said}"),
                |rest| format!("no significant difference in throughput between {b} and {a}{place}{rest}"),
            )
        }
    };
    if rates.len() <= TOLD {
        let parts: Vec<String> = rates.iter().map(one_by_one).collect();
        return Some(text::capital(&format!("{}.", parts.join("; "))));
    }
    let count = |better: bool| {
        let found = rates
            .iter()
            .filter(|found| found.significant && (found.better.as_deref() == Some(found.b.as_str())) == better);
        found.count()
    };
    let (faster, slower) = (count(true), count(false));
    let counted = [("faster", faster), ("slower", slower), ("not shown to differ", rates.len() - faster - slower)];
    let parts: Vec<String> =
        counted.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{what} in {count}")).collect();
    let others: Vec<String> = rates.iter().fold(Vec::new(), |mut names, found| {
        let name = code(&found.b);
        if !names.contains(&name) {
            names.push(name);
        }
        names
    });
    let were = if others.len() > 1 { "were" } else { "was" };
    let who = if others.len() > TOLD { format!("the {} others", others.len()) } else { listed(&others, "and") };
    Some(format!(
        "Of {} comparisons of throughput with {}, {who} {were} {}.",
        rates.len(),
        code(&rates[0].a),
        listed(&parts, "and")
    ))
}

/// Returns `12 % faster` and ` (9–15 %)`.
fn change(comparison: &Comparison) -> (String, String) {
    let Some(ratio) = comparison.ratio else { return shift(comparison) };
    let is_rate = comparison.metric.ends_with("_per_s");
    if ratio >= MULTIPLE {
        let times = |ratio: f64| format!("{} times", numbers::number(ratio));
        let as_much = if is_rate { "as fast" } else { "as high" };
        return (format!("{} {as_much}", times(ratio)), interval(ratio_interval(comparison), &times));
    }
    let (word, sign) = match (is_rate, ratio > 1.0) {
        (true, true) => ("faster", 1.0),
        (true, false) => ("slower", -1.0),
        (false, true) => ("higher", 1.0),
        (false, false) => ("lower", -1.0),
    };
    let pct = |ratio: f64| digits(100.0 * (ratio - 1.0) * sign);
    let ends = ratio_interval(comparison).map(|[low, high]| if sign > 0.0 { [low, high] } else { [high, low] });
    (format!("{} {word}", pct(ratio)), interval(ends, &pct))
}

/// Returns `2,000 more` and ` (1,900–2,100)`.
fn shift(comparison: &Comparison) -> (String, String) {
    let difference = comparison.difference.unwrap_or_default();
    let is_share = comparison.metric.ends_with("_pct");
    let write = |value: f64| {
        if is_share { numbers::number(value.abs()) } else { numbers::by_metric(&comparison.metric, value.abs()) }
    };
    let points = if is_share { " points" } else { "" };
    let word = if difference > 0.0 { "more" } else { "fewer" };
    let ends =
        difference_interval(comparison).map(|[low, high]| if difference > 0.0 { [low, high] } else { [high, low] });
    (format!("{}{points} {word}", write(difference)), interval(ends, &write))
}

/// Returns ` (9–15 %)`; empty if there is no interval, or if both ends read the same.
fn interval(ends: Option<[f64; 2]>, write: &dyn Fn(f64) -> String) -> String {
    let Some([least, most]) = ends.map(|ends| ends.map(write)) else { return String::new() };
    if least == most { String::new() } else { format!(" ({})", numbers::from_to(&least, &most)) }
}

fn signed(metric: &str, value: f64) -> String {
    let text = numbers::by_metric(metric, value.abs());
    match value {
        0.0 => text,
        value if value > 0.0 => format!("+{text}"),
        _ => format!("−{text}"),
    }
}

/// Returns percent with two digits, three from 100 on.
fn digits(pct: f64) -> String {
    let decimals = usize::from(pct.abs() < 9.95);
    numbers::percent(format!("{pct:.decimals$}").parse().unwrap_or(pct))
}

/// Returns percent rounded up, so that the text does not promise more than holds.
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
        let quiet = |one: Comparison| Comparison { significant: false, better: None, ..one };
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
            (
                Comparison { p: None, ci95: None, ..quiet(ratio(rate, 1.2, [1.0, 1.0], false)) },
                "not tested: set repeat = 3",
                Tone::Muted,
            ),
            (
                Comparison { p: None, over: "run".into(), ..quiet(ratio(rate, 1.2, [1.0, 1.0], false)) },
                ONE_RUN_EACH,
                Tone::Muted,
            ),
            (Comparison { b_value: None, ..ratio(p99, 1.0, [1.0, 1.0], false) }, "not measured in `b`", Tone::Doubtful),
            (
                Comparison { detectable_pct: Some(4_000.0), ..ratio(p99, 1.4, [0.1, 20.0], false) },
                "not significant (only a huge change would have been)",
                Tone::Plain,
            ),
        ] {
            assert_eq!(verdict(&comparison), (words.to_owned(), tone), "{comparison:?}");
        }
    }

    #[test]
    fn estimates_are_printed_with_their_interval() {
        let of = |comparison| estimate(&comparison);
        assert_eq!(of(ratio("latency_us.p99", 1.031, [1.01, 1.052], true)), ("1.031".into(), "1.010–1.052".into()));
        let lost = difference("consistency.lost_writes", -20.0, Some([-30.0, 10.0]), 0.2);
        assert_eq!(of(lost), ("−20".into(), "−30 to +10".into()));
        assert_eq!((chance(0.000_2), chance(0.0312)), ("< 0.001".into(), "0.031".into()));
    }

    #[test]
    fn few_comparisons_are_listed_and_many_are_counted() {
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
        let told = sentence(&[equal]).unwrap();
        assert_eq!(told, "No difference in throughput between `b` and `a`: the same in every trial.");
        let slower = ratio(rate, 0.9, [0.85, 0.95], true);
        let many = [at(1, slower), at(2, same.clone()), at(4, same), at(8, faster.clone()), at(16, faster)];
        assert_eq!(
            sentence(&many).unwrap(),
            "Of 5 comparisons of throughput with `a`, `b` was faster in 2, slower in 1 and not shown to differ in 2."
        );
    }
}
