//! One load at a glance, on a terminal of 80 columns: the answer, requests, latencies, outcomes and why, how the latency is
//! distributed, and whether it can be trusted. It must not say what to do next: it does not know how it was asked.

use experiment::plan::Plan;
use hdrhistogram::Histogram;
use record::results::{Generator, Quantiles, Results, Trial};

use super::summary::{lines, partial, redirected, verdict};
use super::{answer, bars, capital, visible};
use crate::facts::{operations, planned};
use crate::numbers;

/// Columns of the terminal that are used.
const WIDTH: usize = 80;
/// Most bars of the distribution.
const BARS: usize = 12;
/// Columns of what a line is about.
const HEAD: usize = 12;
/// The rule that tells of it where a load did not end as it should.
const CUT_OFF: &str = "cut_off";
/// Columns of a quantile.
const FIGURE: usize = 9;

/// The first trial's results, ending in a newline; with the terminal's colours if `colour`. `latency_ns` are the latencies of its `ok`
/// operations, if there were any.
#[must_use]
pub fn at_a_glance(results: &Results, plan: &Plan, latency_ns: Option<&Histogram<u64>>, colour: bool) -> String {
    let mut parts = vec![lines(&answer::beside_the_verdict(results, plan), "  ", "  ", WIDTH)];
    if let Some(trial) = results.trials.first().filter(|trial| operations(trial) + trial.outcomes.unfinished > 0) {
        let at_rate = planned(plan, &trial.id).and_then(|trial| trial.load.as_ref()?.rate.as_ref()).is_some();
        parts.push(requests(trial) + &outcomes(trial) + &causes(trial) + &redirects(trial));
        parts.push(latencies(trial, at_rate));
        parts.extend(latency_ns.map(distribution));
    }
    let generator = results.trials.first().and_then(|trial| generator(&trial.generator)).unwrap_or_default();
    // Of a load that was cut off the verdict has said it, and when that was.
    let is_told = results.verdict.rules.iter().any(|rule| rule == CUT_OFF);
    let partial = if is_told { String::new() } else { partial(results, WIDTH) };
    parts.push(verdict(results, colour, WIDTH) + &partial + &generator);
    parts.retain(|part| !part.is_empty());
    visible(&parts.join("\n")).into_owned()
}

/// `  requests    634,567 in all; 63,412/s ok over 10 s (95 % interval 62,900–63,900/s)`
fn requests(trial: &Trial) -> String {
    let all = numbers::count(operations(trial) + trial.outcomes.unfinished);
    let ok = numbers::or_none(trial.throughput.operations_per_s, numbers::rate);
    let range = trial.throughput.operations_per_s_ci95.map_or_else(String::new, |[low, high]| {
        // Of few seconds the interval may be wider than the rate.
        format!(" (95 % interval {})", numbers::from_to(&numbers::rate(low.max(0.0)), &numbers::rate(high)))
    });
    let over = trial.measured_s.map_or_else(String::new, |[from_s, to_s]| {
        let since =
            if from_s > 0.0 { format!(" after {} of warm-up", numbers::seconds(from_s)) } else { String::new() };
        format!(" over {}{since}", numbers::seconds(to_s - from_s))
    });
    line("requests", &format!("{all} in all; {ok} ok{over}{range}"))
}

/// All five of them, also those that are 0: that nothing failed is a result.
fn outcomes(trial: &Trial) -> String {
    let counts = &trial.outcomes;
    let all = operations(trial) + counts.unfinished;
    let named = [
        ("ok", counts.ok),
        ("failed", counts.failed),
        ("timeout", counts.timeout),
        ("wrong", counts.wrong),
        ("unfinished", counts.unfinished),
    ];
    let told = named.map(|(name, count)| match count {
        0 => format!("{name} 0"),
        some => format!("{name} {} ({})", numbers::count(some), numbers::share(some, all)),
    });
    line("outcomes", &told.join(", "))
}

/// Why attempts were not `ok`, what happened most first. An operation that is tried again is several attempts.
fn causes(trial: &Trial) -> String {
    let mut causes: Vec<(&String, &u64)> = trial
        .attempt_results
        .iter()
        .filter(|(result, _)| *result != "ok" && !result.starts_with("redirect "))
        .collect();
    causes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let named = |result: &str| match result {
        "wrong" => "an answer that is not the expected one".to_owned(),
        other => other.to_owned(),
    };
    let told: Vec<String> =
        causes.into_iter().map(|(result, count)| format!("{} ({})", named(result), numbers::count(*count))).collect();
    if told.is_empty() { String::new() } else { line("causes", &told.join(", ")) }
}

/// Answers that only say where another one is to be had. They count as `ok`.
fn redirects(trial: &Trial) -> String {
    let told: Vec<String> =
        redirected(trial).map(|(status, count)| format!("{} of status {status}", numbers::count(count))).collect();
    if told.is_empty() {
        return String::new();
    }
    let what = "which count as ok and are not followed: these are not the figures of what they lead to";
    line("redirects", &format!("{}, {what}", told.join(", ")))
}

/// A table of quantiles: of the latency and, where it is something else, of the service time.
fn latencies(trial: &Trial, at_rate: bool) -> String {
    let Some(latency) = &trial.latency_us else { return String::new() };
    let heads = ["p50", "p75", "p90", "p99", "p99.9", "max"];
    let set = |head: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("  {cell:>FIGURE$}")).collect();
        format!("  {head:HEAD$}{}\n", cells.strip_prefix("  ").unwrap_or(&cells))
    };
    let mut table = set("", &heads.map(str::to_owned)) + &set("latency", &figures(latency));
    if at_rate && let Some(service) = &trial.service_us {
        table.push_str(&set("service", &figures(service)));
        table.push_str(&lines(FROM_WHEN_DUE, "  ", "  ", WIDTH));
    }
    table
}

const FROM_WHEN_DUE: &str =
    "Latency counts from the moment a request was due, service time from the moment it was sent.";

fn figures(times: &Quantiles) -> [String; 6] {
    let told = |quantile: Option<f64>| quantile.map_or_else(|| "too few".to_owned(), numbers::micros);
    [times.p50, times.p75, times.p90, times.p99, times.p999, times.max].map(told)
}

fn distribution(latency_ns: &Histogram<u64>) -> String {
    let head = format!("  latency of all {} that were ok\n", numbers::count(latency_ns.len()));
    let bars = bars(latency_ns, BARS, WIDTH - 4);
    bars.iter().fold(head, |text, bar| text + &format!("    {bar}\n"))
}

/// How the generator was, for whoever wants to know why the verdict is what it is.
fn generator(generator: &Generator) -> Option<String> {
    let cpu = generator.cpu_pct.map(|pct| format!("{} of a core in the busiest thread", numbers::percent(pct)));
    let late = generator.late_us_p99.map(|us| format!("timers {} late at p99", numbers::micros(us)));
    let dropped = generator.dropped.filter(|dropped| *dropped > 0);
    let dropped = dropped.map(|dropped| format!("{} requests never begun", numbers::count(dropped)));
    let limit = match generator.limit.as_str() {
        "" | "none" => None,
        limit => Some(format!("limited by {limit}")),
    };
    let told: Vec<String> = [cpu, late, dropped, limit].into_iter().flatten().collect();
    (!told.is_empty())
        .then(|| lines(&format!("{}.", capital(&told.join(", "))), "  generator: ", "             ", WIDTH))
}

/// What a line is about, and beside it a text of as many lines as it needs.
fn line(head: &str, text: &str) -> String {
    lines(text, &format!("  {head:HEAD$}"), &" ".repeat(HEAD + 2), WIDTH)
}

#[cfg(test)]
mod tests;
