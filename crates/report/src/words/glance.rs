//! Overview of one load for a terminal of 80 columns: answer, requests, latencies, outcomes, causes
//! of failures, latency distribution, and verdict.

use analysis::answer::{self, steadiness};
use analysis::trial_groups::{operations, planned};
use experiment::plan::{Load, Plan, samples_for};
use hdrhistogram::Histogram;
use record::results::{Generator, Quantiles, Results, SURE_MOMENTS, Trial};
use text::{capital, hanging, numbers, visible};

use super::summary::{self, answered, partial, redirected, verdict};

/// Width in the terminal, columns.
const WIDTH: usize = 80;
/// Maximum number of bars in the distribution.
const BARS: usize = 12;
/// Width of a line's heading, columns.
const HEAD: usize = 12;
/// Rule that reports a load that was cut off.
const CUT_OFF: &str = "cut_off";
/// Width of a quantile, columns.
const FIGURE: usize = 8;

/// Returns the first trial's results, ending in a newline, with the terminal's colours if `colour`.
/// `latency_ns` contains the latencies of its `ok` operations, if there are any.
pub fn at_a_glance(results: &Results, plan: &Plan, latency_ns: Option<&Histogram<u64>>, colour: bool) -> String {
    let answer = answer::beside_the_verdict(results, plan);
    let mut parts = vec![answered(&answer, &answer::further(results, plan), WIDTH)];
    if let Some(trial) = results.trials.first().filter(|trial| operations(trial) + trial.outcomes.unfinished > 0) {
        let at_rate = planned(plan, &trial.id).and_then(|trial| trial.load.as_ref()).is_some_and(Load::is_open);
        parts.push(
            requests(trial)
                + &doubt(trial)
                + &answers(trial, is_web(plan, trial))
                + &messages(trial)
                + &outcomes(trial)
                + &causes(trial, plan)
                + &redirects(trial),
        );
        parts.push(latencies(trial, at_rate));
        parts.extend(latency_ns.map(distribution));
    }
    let generator = results.trials.first().and_then(|trial| generator(&trial.generator)).unwrap_or_default();
    // If the load was cut off, the verdict already says so.
    let is_told = results.verdict.rules.iter().any(|rule| rule == CUT_OFF);
    let partial = if is_told { String::new() } else { partial(results, WIDTH) };
    parts.push(verdict(results, colour, WIDTH) + &partial + &generator);
    parts.retain(|part| !part.is_empty());
    visible(&parts.join("\n")).into_owned()
}

/// Returns a text such as
/// `  operations  634,567 in all; 63,412/s ok over 10 s (95 % interval 62,900–63,900/s)`.
fn requests(trial: &Trial) -> String {
    let all = numbers::count(operations(trial) + trial.outcomes.unfinished);
    let ok = numbers::or_none(trial.throughput.operations_per_s, numbers::rate);
    // The interval over a few seconds can be wider than the rate.
    let ends = trial.throughput.operations_per_s_ci95.map(|[low, high]| [low.max(0.0), high]);
    let range =
        numbers::interval(ends, numbers::rate).map_or_else(String::new, |range| format!(" (95 % interval {range})"));
    let range = trial.throughput.without_ci95.as_ref().map_or(range, |why| format!(" (no 95 % interval: {why})"));
    let over = trial.measured_s.map_or_else(String::new, |[from_s, to_s]| {
        let since =
            if from_s > 0.0 { format!(" after {} of warm-up", numbers::seconds(from_s)) } else { String::new() };
        format!(" over {}{since}", numbers::seconds(to_s - from_s))
    });
    line("operations", &format!("{all} in all; {ok} ok{over}{range}"))
}

/// Returns a text such as `  steadiness  whether the load was steady is unknown: …`. Empty if
/// the answer says so, or if there is no doubt.
fn doubt(trial: &Trial) -> String {
    let words = trial.steady.as_ref().and_then(steadiness::beside_the_answer);
    words.map_or_else(String::new, |doubt| line("steadiness", &doubt))
}

/// Whether the statuses of the trial's answers are those of HTTP.
fn is_web(plan: &Plan, trial: &Trial) -> bool {
    planned(plan, &trial.id).is_none_or(|trial| ["http", "http2"].contains(&trial.target.protocol.as_str()))
}

/// Returns a text such as `  answers     status 200 (9,900), 201 (100), 503 (12); 5.12 MB/s`.
/// Without HTTP the statuses are those of the protocol, such as `ok` and `unavailable`. Empty if
/// bytes were not counted.
fn answers(trial: &Trial, is_web: bool) -> String {
    let Some(bytes_per_s) = trial.throughput.received_bytes_per_s.filter(|bytes_per_s| *bytes_per_s > 0.0) else {
        return String::new();
    };
    let mut statuses = Vec::new();
    for (result, count) in &trial.attempt_results {
        let starts = ["ok ", "redirect ", "followed ", "status ", "answer: "];
        let status = starts.iter().find_map(|start| result.strip_prefix(start));
        let ok = if is_web { "200" } else { "ok" };
        statuses.extend(status.or((result == "ok").then_some(ok)).map(|status| (status, *count)));
    }
    statuses.sort_unstable();
    let words: Vec<String> =
        statuses.iter().map(|(status, count)| format!("{status} ({})", numbers::count(*count))).collect();
    let words = if words.is_empty() { String::new() } else { format!("status {}; ", words.join(", ")) };
    line("answers", &format!("{words}{}/s received", numbers::bytes(bytes_per_s)))
}

/// Returns a text such as `  messages    12,345 of streams in all; 1,234/s`. Empty without streams
/// and without messages that answered no operation.
fn messages(trial: &Trial) -> String {
    let streams = trial.arrival.messages.map(|all| {
        let per_s = numbers::or_none(trial.arrival.messages_per_s, numbers::rate);
        format!("{} of streams in all; {per_s}", numbers::count(all))
    });
    let pushed = trial.arrival.pushed_messages.filter(|pushed| *pushed > 0);
    let pushed = pushed.map(|pushed| format!("{} that answered no operation", numbers::count(pushed)));
    let parts: Vec<String> = streams.into_iter().chain(pushed).collect();
    if parts.is_empty() { String::new() } else { line("messages", &parts.join("; ")) }
}

/// Returns all five outcomes, including those that are 0, because the absence of failures is a
/// result.
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
    let words = named.map(|(name, count)| match count {
        0 => format!("{name} 0"),
        some => format!("{name} {} ({})", numbers::count(some), numbers::share(some, all)),
    });
    line("outcomes", &words.join(", "))
}

/// Returns the reasons why attempts were not `ok`.
fn causes(trial: &Trial, plan: &Plan) -> String {
    let words = summary::causes(trial.attempt_results.iter());
    if words.is_empty() {
        return String::new();
    }
    let head = |word: &str| format!("  {word:HEAD$}");
    line("causes", &words)
        + &summary::failed_checks(std::iter::once(trial), plan, &head("check"), WIDTH)
        + &summary::examples(std::iter::once(trial), &head("for example"), WIDTH)
}

/// Returns a note on answers that were only redirects. They count as `ok`.
fn redirects(trial: &Trial) -> String {
    let words: Vec<String> =
        redirected(trial).map(|(status, count)| format!("{} of status {status}", numbers::count(count))).collect();
    if words.is_empty() {
        return String::new();
    }
    let what = "which count as ok and are not followed: the figures are not those of their destinations";
    line("redirects", &format!("{}, {what}", words.join(", ")))
}

const QUANTILES: [&str; 7] = ["p50", "p75", "p90", "p95", "p99", "p99.9", "max"];

/// Returns a table of quantiles: latency and, if it differs, service time.
fn latencies(trial: &Trial, at_rate: bool) -> String {
    let rows: Vec<(&str, &Quantiles)> =
        trial.latency_us.iter().map(|latency| ("latency", latency)).chain(of_failures(trial)).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut table = set("", &QUANTILES);
    for (head, times) in rows {
        let mut cells = figures(times);
        if head != "latency" {
            table.push_str(&set(head, &cells));
            continue;
        }
        for (quantile, cell) in QUANTILES.iter().zip(&mut cells) {
            if trial.unsure_moments(quantile).is_some() {
                cell.insert(0, '~');
            }
        }
        table.push_str(&set(head, &cells));
        if let Some(sure) = &trial.latency_intervals_us {
            let ends =
                [sure.p50_ci95, sure.p75_ci95, sure.p90_ci95, sure.p95_ci95, sure.p99_ci95, sure.p999_ci95, None];
            for (end, head) in ["95 % from", "to"].into_iter().enumerate() {
                let cells = ends.map(|ends| ends.map(|ends| numbers::micros(ends[end])).unwrap_or_default());
                table.push_str(&set(head, &cells));
            }
        }
        if let Some(all) = &trial.latency_of_all_us {
            table.push_str(&set("of all", &figures_of_all(all)));
        }
    }
    table.push_str(&few_moments(trial));
    let service = at_rate.then_some(trial.service_us.as_ref()).flatten();
    table.extend(service.map(|service| set("service", &figures(service))));
    let arrival = &trial.arrival;
    let arriving =
        [("first byte", &arrival.first_byte_us), ("1st message", &arrival.first_message_us), ("gap", &arrival.gap_us)];
    let arriving = arriving.into_iter().filter_map(|(head, times)| Some(set(head, &figures(times.as_ref()?))));
    table.extend(arriving);
    if service.is_some() {
        let note = if arrival.first_byte_us.is_some() { FIRST_BYTE_FROM_SEND } else { FROM_WHEN_DUE };
        table.push_str(&hanging(note, "  ", "  ", WIDTH));
    }
    table
}

/// Returns a row of the table of quantiles.
fn set(head: &str, cells: &[impl std::fmt::Display]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>FIGURE$}")).collect();
    format!("  {head:HEAD$}{}", cells.join(" ")).trim_end().to_owned() + "\n"
}

/// Returns a text such as
/// `~ from few separate moments: p99 from 6, p99.9 from 2; 10 are needed to be sure.` Empty if each
/// quantile is reliable.
fn few_moments(trial: &Trial) -> String {
    let few = QUANTILES.iter().filter_map(|head| Some(format!("{head} from {}", trial.unsure_moments(head)?)));
    let few: Vec<String> = few.collect();
    if few.is_empty() {
        return String::new();
    }
    let text = format!("~ from few separate moments: {}; {SURE_MOMENTS} are needed to be sure.", few.join(", "));
    hanging(&text, "  ", "  ", WIDTH)
}

/// Returns latencies of operations that did not end `ok`, by outcome.
fn of_failures(trial: &Trial) -> impl Iterator<Item = (&str, &Quantiles)> {
    let outcomes = ["failed", "timeout", "wrong"].into_iter();
    outcomes.filter_map(|outcome| Some((outcome, trial.by_outcome.get(outcome).filter(|times| times.count > 0)?)))
}

const FROM_WHEN_DUE: &str =
    "Latency counts from when an operation was due, service time from when its request was sent.";

const FIRST_BYTE_FROM_SEND: &str = "Latency counts from when an operation was due, service time, first byte and first \
                                    message from when its request was sent.";

fn figures(times: &Quantiles) -> [String; 7] {
    let quantiles = [times.p50, times.p75, times.p90, times.p95, times.p99, times.p999, times.max];
    quantiles.map(|quantile| quantile.map_or_else(|| "too few".to_owned(), numbers::micros))
}

/// Returns the quantiles of all operations, if some had an error or no answer and therefore no
/// latency.
fn figures_of_all(times: &Quantiles) -> [String; 7] {
    let quantiles = [times.p50, times.p75, times.p90, times.p95, times.p99, times.p999, None];
    let shares = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.5];
    std::array::from_fn(|place| match quantiles[place] {
        Some(us) => numbers::micros(us),
        None if times.count < samples_for(shares[place]) => "too few".to_owned(),
        None => "never".to_owned(),
    })
}

fn distribution(latency_ns: &Histogram<u64>) -> String {
    let head = format!("  latency of all {} that were ok\n", numbers::count(latency_ns.len()));
    let bars = bars(latency_ns, BARS, WIDTH - 4);
    bars.iter().fold(head, |text, bar| text + &format!("    {bar}\n"))
}

/// Returns figures of the generator that help to explain the verdict.
fn generator(generator: &Generator) -> Option<String> {
    let cpu = generator.cpu_pct.map(|pct| format!("{} of a core in the busiest thread", numbers::percent(pct)));
    let late = generator.late_us_p99.map(|us| format!("timers {} late at p99", numbers::micros(us)));
    let dropped = generator.dropped.filter(|dropped| *dropped > 0);
    let dropped = dropped.map(|dropped| format!("{} starts dropped", numbers::count(dropped)));
    let limit = match generator.limit.as_str() {
        "" | "none" => None,
        limit => Some(format!("limited by {limit}")),
    };
    let fleet = generator.fleet.as_ref().map(summary::fleet);
    let words: Vec<String> = [cpu, late, dropped, limit, fleet].into_iter().flatten().collect();
    (!words.is_empty())
        .then(|| hanging(&format!("{}.", capital(&words.join(", "))), "  generator: ", "             ", WIDTH))
}

/// Returns a heading with a text beside it, wrapped into lines.
fn line(head: &str, text: &str) -> String {
    hanging(text, &format!("  {head:HEAD$}"), &" ".repeat(HEAD + 2), WIDTH)
}

const NS_PER_US: f64 = 1e3;

/// Edges in each decade, from the finest grid to the coarsest. Round numbers make rows comparable
/// between runs.
const GRIDS: [&[f64]; 4] =
    [&[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0]];
/// Number of decades, from a nanosecond to over an hour.
const DECADES: i32 = 13;
/// Quantiles that the ranges cover. Faster and slower times go into the first and the last row.
const FITTED: [f64; 2] = [0.01, 0.99];
/// Space between a range, its bar, its share and its count.
const GAP: &str = "  ";
/// Width of a share, columns: `> 99.9 %`.
const SHARE: usize = 8;
const SHORTEST: usize = 5;

/// A row of the distribution: upper edge of its range, and number of times in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HistogramRow {
    /// Upper edge in nanoseconds. `None` for times slower than the row above.
    up_to_ns: Option<u64>,
    count: u64,
}

/// Returns a line for each range of times: upper edge, bar, share, count. At most `most` lines (at
/// least 3) of at most `width` characters. Empty if there are no times.
pub fn bars(times_ns: &Histogram<u64>, most: usize, width: usize) -> Vec<String> {
    let rows = rows(times_ns, most.max(3));
    let all: u64 = rows.iter().map(|row| row.count).sum();
    let largest = rows.iter().map(|row| row.count).max().unwrap_or(0).max(1);
    let cells: Vec<[String; 3]> = rows
        .iter()
        .map(|row| [range(row, times_ns.max()), numbers::share(row.count, all), numbers::count(row.count)])
        .collect();
    let [ranges, _, counts] =
        [0, 1, 2].map(|column| cells.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0));
    let room = width.saturating_sub(ranges + SHARE + counts + 3 * GAP.len()).max(SHORTEST);
    rows.iter()
        .zip(&cells)
        .map(|(row, [range, share, count])| {
            let bar = bar(row.count as f64 / largest as f64, room);
            format!("{range:>ranges$}{GAP}{bar:room$}{GAP}{share:>SHARE$}{GAP}{count:>counts$}")
        })
        .collect()
}

fn range(row: &HistogramRow, slowest_ns: u64) -> String {
    match row.up_to_ns {
        Some(up_to_ns) => format!("≤ {}", numbers::micros(up_to_ns as f64 / NS_PER_US)),
        None => format!("up to {}", numbers::micros(slowest_ns as f64 / NS_PER_US)),
    }
}

fn rows(times_ns: &Histogram<u64>, most: usize) -> Vec<HistogramRow> {
    if times_ns.is_empty() {
        return Vec::new();
    }
    let edges = edges(FITTED.map(|q| times_ns.lowest_equivalent(times_ns.value_at_quantile(q))), most - 1);
    let mut rows: Vec<HistogramRow> =
        edges.iter().map(|edge| HistogramRow { up_to_ns: Some(*edge), count: 0 }).collect();
    rows.push(HistogramRow { up_to_ns: None, count: 0 });
    for bucket in times_ns.iter_recorded() {
        // A time on an edge belongs below the edge, although its bucket extends beyond.
        let at_ns = times_ns.lowest_equivalent(bucket.value_iterated_to());
        let place = edges.partition_point(|edge| *edge < at_ns);
        if let Some(row) = rows.get_mut(place) {
            row.count += bucket.count_at_value();
        }
    }
    if rows.last().is_some_and(|row| row.count == 0) {
        rows.pop();
    }
    rows
}

/// Returns the upper edges over these times on the finest grid that needs at most `most` of them.
fn edges(times_ns: [u64; 2], most: usize) -> Vec<u64> {
    let mut edges = Vec::new();
    for grid in GRIDS {
        edges = edges_on(grid, times_ns);
        if edges.len() <= most {
            return edges;
        }
    }
    // There are more decades than rows, so the fastest decades share a row.
    edges.split_off(edges.len() - most)
}

fn edges_on(grid: &[f64], [low_ns, high_ns]: [u64; 2]) -> Vec<u64> {
    let points = (0..DECADES).flat_map(|decade| grid.iter().map(move |point| point * 10_f64.powi(decade)));
    let mut edges: Vec<u64> = points.map(|point| point.round() as u64).collect();
    edges.dedup();
    let first = edges.partition_point(|edge| *edge < low_ns);
    let last = edges.partition_point(|edge| *edge < high_ns).min(edges.len() - 1);
    edges[first.min(last)..=last].to_vec()
}

/// Returns a bar in proportion to its value, to an eighth of a character. A value above 0 is always
/// visible.
fn bar(part: f64, room: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part * room as f64 * 8.0).round() as usize;
    let eighths = if part > 0.0 { eighths.max(1) } else { 0 };
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use record::folder::RunFolder;
    use record::results::{Outcomes, QuantileIntervals, QuantileMoments, Steady, Trust, Verdict};

    use super::*;
    use crate::example;

    fn golden() -> RunFolder {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/golden/2026-11-20T10-31-05-a-name-server-crashes");
        RunFolder::at(Path::new(folder))
    }

    fn glance(plan: &Plan, results: &Results, latency_ns: Option<&Histogram<u64>>) -> String {
        let text = at_a_glance(results, plan, latency_ns, false);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
            assert_eq!(line.trim_end(), line);
        }
        assert!(!text.contains('\x1b'), "no colours where none were asked for");
        text
    }

    fn one() -> (Plan, Results) {
        let plan = example::plan(&[], &[], 1);
        let results = example::results(&plan);
        (plan, results)
    }

    #[test]
    fn the_golden_run() {
        let folder = golden();
        let results = folder.read_results().unwrap().unwrap();
        let mut latency_ns = None;
        analysis::analyze_to_draw(&folder).unwrap().latencies[0].all_ns.add_to(&mut latency_ns);
        let latency_ns = latency_ns.unwrap();
        assert_eq!(latency_ns.len(), results.trials[0].outcomes.ok, "none is left out");
        insta::assert_snapshot!(glance(&example::plan_of(&folder), &results, Some(&latency_ns)));
    }

    #[test]
    fn a_load_with_failures() {
        let (plan, mut results) = one();
        let trial = &mut results.trials[0];
        trial.outcomes = Outcomes { ok: 1_834_567, failed: 1_234, timeout: 3, wrong: 17, unfinished: 64 };
        trial.attempt_results.extend([
            ("timeout".to_owned(), 3),
            ("status 503".to_owned(), 1_000),
            ("connect refused".to_owned(), 234),
            ("wrong".to_owned(), 17),
        ]);
        trial.throughput.operations_per_s_ci95 = Some([62_900.0, 63_900.0]);
        insta::assert_snapshot!(glance(&plan, &results, None));
    }

    #[test]
    fn a_void_load_with_too_few_operations_for_quantiles() {
        let (mut plan, mut results) = one();
        plan.trials[0].load.as_mut().unwrap().rate = Some(experiment::plan::Rate::Constant(20.0));
        let trial = &mut results.trials[0];
        trial.outcomes = Outcomes { ok: 40, ..Outcomes::default() };
        trial.measured_s = Some([0.0, 2.0]);
        let latency = trial.latency_us.as_mut().unwrap();
        (latency.p99, latency.p999, latency.count) = (None, None, 40);
        trial.service_us = trial.latency_us.clone();
        trial.generator.limit = "cpu".to_owned();
        results.verdict = Verdict {
            is: Trust::Void,
            reasons: vec![
                "the busiest engine thread used 99 % of its core, so that it is the generator that was measured"
                    .to_owned(),
            ],
            remedies: vec!["Give the generator more `load.threads` or cores of its own, or lower the load".to_owned()],
            rules: vec!["generator_cpu".to_owned()],
            severities: vec![Trust::Void],
            ..Verdict::default()
        };
        insta::assert_snapshot!(glance(&plan, &results, None));
    }

    #[test]
    fn a_quantile_from_few_separate_moments_is_marked() {
        let (plan, mut results) = one();
        let moments = QuantileMoments { p50: Some(5_000), p99: Some(40), p999: Some(2), ..QuantileMoments::default() };
        results.trials[0].latency_moments = Some(moments);
        let text = glance(&plan, &results, None);
        assert!(text.contains("~ from few separate moments: p99.9 from 2; 10 are needed"), "{text}");
        assert_eq!(text.matches('~').count(), 2, "{text}");
        results.trials[0].latency_intervals_us =
            Some(QuantileIntervals { p999_ci95: Some([9_000.0, 14_000.0]), ..QuantileIntervals::default() });
        assert!(!glance(&plan, &results, None).contains('~'), "its interval says how sure it is");
    }

    #[test]
    fn unclear_steadiness_is_reported() {
        let (plan, mut results) = one();
        let why =
            "throughput changed by +3.8 % over the load (90 % interval -6.2 to +12.1 %), but steady means -8 to +8 %";
        results.trials[0].steady = Some(Steady { cannot_tell: Some(why.to_owned()), ..Steady::default() });
        let text = glance(&plan, &results, None);
        assert!(text.contains("steadiness  whether the load was steady is unknown"), "{text}");
    }

    #[test]
    fn minor_reasons_of_a_void_result_are_listed_separately() {
        let (plan, mut results) = one();
        results.verdict = Verdict {
            is: Trust::Void,
            reasons: ["other processes used 53 % of the CPU", "only 4 s were measured"].map(str::to_owned).to_vec(),
            severities: vec![Trust::Void, Trust::Suspect],
            ..Verdict::default()
        };
        let text = glance(&plan, &results, None);
        assert!(text.contains("for the reason below"), "{text}");
        let [others, minor, short] = ["53 %", "lesser reasons", "only 4 s"].map(|words| text.find(words).unwrap());
        assert!(others < minor && minor < short, "{text}");
        results.verdict.is = Trust::Suspect;
        results.verdict.severities = vec![Trust::Suspect; 2];
        assert!(!glance(&plan, &results, None).contains("lesser reasons"));
    }

    #[test]
    fn control_characters_of_a_target_are_removed() {
        let (plan, mut results) = one();
        results.trials[0].attempt_results.insert("\x1b[2Jbad".to_owned(), 3);
        assert!(glance(&plan, &results, None).contains("[2Jbad (3)"));
    }

    #[test]
    fn nothing_measured() {
        let (plan, mut results) = one();
        results.trials.clear();
        results.partial = Some("the target failed to start".to_owned());
        insta::assert_snapshot!(glance(&plan, &results, None));
    }

    #[test]
    fn each_reason_appears_once() {
        let (plan, mut results) = one();
        let reasons = ["interrupted at 6.4 s", "other processes used 53 % of the CPU"];
        results.verdict = Verdict {
            is: Trust::Void,
            reasons: reasons.map(str::to_owned).to_vec(),
            rules: ["cut_off", "strangers"].map(str::to_owned).to_vec(),
            ..Verdict::default()
        };
        results.partial = Some("the run was interrupted: 0 of 1 trials are complete".to_owned());
        // As the analysis writes the answer into the results, for readers of `analysis.json` alone.
        results.answer = answer::answer(&results, &plan);
        let text = glance(&plan, &results, None);
        assert!(
            text.starts_with("  This result must not be used, for 2 reasons below. This is a partial result."),
            "{text}"
        );
        for once in ["interrupted", "other processes"] {
            assert_eq!(text.matches(once).count(), 1, "{once}: {text}");
        }
        results.verdict.reasons.pop();
        results.verdict.rules = vec!["strangers".to_owned()];
        let text = glance(&plan, &results, None);
        assert!(text.contains("for the reason below") && text.contains("partial: the run was interrupted"), "{text}");
    }

    #[test]
    fn only_the_verdict_has_a_colour() {
        let (plan, results) = one();
        let coloured = at_a_glance(&results, &plan, None, true);
        assert_eq!(coloured.matches('\x1b').count(), 2, "{coloured}");
    }

    fn of(times_us: impl IntoIterator<Item = (u64, u64)>) -> Histogram<u64> {
        let mut times = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        for (us, count) in times_us {
            times.record_n(us * 1_000, count).unwrap();
        }
        times
    }

    #[test]
    fn every_latency_is_in_exactly_one_row() {
        let shapes = [
            of([(1_000, 1)]),
            of((1..=10_000).map(|us| (us, 1))),
            of([(100, 1_000), (2_000_000, 3)]),
            of([(1, 1), (1_000_000_000, 1)]),
            of((0..31).map(|power| (1 << power, 5))),
        ];
        for times in &shapes {
            for most in [3, 8, 12] {
                let rows = rows(times, most);
                assert!(rows.len() <= most, "{rows:?}");
                assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), times.len(), "{rows:?}");
                let edges: Vec<u64> = rows.iter().filter_map(|row| row.up_to_ns).collect();
                assert!(edges.is_sorted() && edges.windows(2).all(|pair| pair[0] < pair[1]), "{edges:?}");
            }
        }
        assert!(bars(&of([]), 8, 80).is_empty());
    }

    #[test]
    fn a_time_on_an_edge_is_below_it() {
        let rows = rows(&of([(1_000, 50), (1_150, 30), (1_900, 20)]), 8);
        let told: Vec<(Option<u64>, u64)> = rows.iter().map(|row| (row.up_to_ns, row.count)).collect();
        assert_eq!(told, [(Some(1_000_000), 50), (Some(1_200_000), 30), (Some(1_500_000), 0), (Some(2_000_000), 20)]);
    }

    #[test]
    fn lines_fit_and_the_largest_bar_is_the_longest() {
        let times = of([(300, 400), (450, 90_000), (700, 8_000), (1_200, 1_500), (48_000, 2)]);
        for width in [40, 80] {
            let lines = bars(&times, 8, width);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
            let longest = lines.iter().max_by_key(|line| line.matches('█').count()).unwrap();
            assert!(longest.contains("≤ 500 µs"), "{lines:#?}");
        }
        insta::assert_snapshot!(bars(&times, 8, 80).join("\n"));
    }

    #[test]
    fn nonzero_shares_have_a_visible_bar() {
        assert_eq!([bar(0.0, 10), bar(1e-9, 10), bar(0.5, 10), bar(1.0, 10)], ["", "▏", "█████", "██████████"]);
    }
}
