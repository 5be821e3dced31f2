//! Summary that `run` and `show` print: the answer, the verdict, and the tables that fit on a
//! terminal, in aligned columns.

use std::collections::BTreeMap;

use analysis::answer::{answer, further};
use analysis::trial_groups::groups;
use experiment::plan::Plan;
use record::events::FailureExample;
use record::results::{FleetFigures, Results, Trial};
use record::rows::{is_followed, is_ok};
use text::{Tone, distinct, hanging, numbers, visible, without_controls, wrapped};

use super::meaning;
use crate::ReportInput;
use crate::failed_checks::FailedCheck;
use crate::tables::{Cell, Column, Table, TableOf, comparison, demand, operations, outages, steps, sweeps, verdicts};

/// Maximum width in the terminal, columns.
const WIDTH: usize = 100;
/// Maximum number of rows of tables such as outages and differences. Longer tables are only on the
/// page.
const LONG: usize = 12;

/// A table, its maximum number of rows here, and the text that replaces a longer table.
type SummaryTable = (TableOf, usize, fn(usize, &Results) -> String);

/// Tables below the comparison.
const TABLES: &[SummaryTable] = &[
    (sweeps::safe_loads, usize::MAX, rows),
    (sweeps::stops, LONG, rows),
    (sweeps::search, usize::MAX, rows),
    (operations::agent_groups, LONG, rows),
    (comparison::differences, LONG, |_, results| comparison::count(&results.comparisons)),
    (sweeps::scaling, usize::MAX, rows),
    (sweeps::crossings, sweeps::MANY_CROSSINGS, rows),
    (sweeps::cost, usize::MAX, rows),
    (demand::hosts, LONG, rows),
    (steps::across, 4 * LONG, |many, _| format!("{many} of them")),
    (steps::steps, 4 * LONG, |many, _| format!("{many} of them")),
    (outages::outages, LONG, |many, _| format!("{many} of them")),
    (outages::members, LONG, |many, _| format!("{many} of them")),
    (outages::disturbances, LONG, |many, _| format!("{many} of them")),
    (verdicts::claims, usize::MAX, rows),
    (verdicts::requirements, usize::MAX, rows),
];

fn rows(many: usize, _: &Results) -> String {
    format!("{many} rows")
}

/// Returns the summary, at most 100 columns wide, ending in a newline, with the terminal's colours
/// if `colour`.
pub fn summary(results: &Results, plan: &Plan, colour: bool) -> String {
    let verdict = verdict(results, colour, WIDTH) + &partial(results, WIDTH);
    let mut parts = vec![heading(results), finding(results, plan), verdict];
    let input = ReportInput::without_records(results, plan);
    let groups = groups(results, plan);
    if !groups.is_empty() && plan.find.is_none() {
        let table = comparison::comparison_of(&groups);
        parts.push(match table.folded {
            true => format!("{}: {}, on the page\n", table.title, rows(table.rows.len(), results)),
            false => section("", &set(&table, WIDTH, colour)),
        });
    }
    for &(of, most, rows) in TABLES {
        let Some(table) = of(&input) else { continue };
        parts.push(match table.rows.len() {
            many if many <= most => section(&table.title, &set(&table, WIDTH, colour)),
            many => format!("{}: {}, on the page\n", table.title, rows(many, results)),
        });
    }
    parts.push(fleets(results));
    let note = shared_starts(results).map(|note| hanging(&format!("note: {note}"), "", "      ", WIDTH));
    parts.extend(note);
    let checks = failed_checks(results.trials.iter(), plan, "  check ", WIDTH);
    parts.push(failed_attempts(results) + &checks + &examples(results.trials.iter(), "  e.g. ", WIDTH));
    parts.push(failed_parts(results));
    parts.push(redirects(results));
    parts.retain(|part| !part.is_empty());
    visible(&parts.join("\n")).into_owned()
}

/// Returns the largest differences between generators' starts and between their clocks, over all
/// trials.
fn fleets(results: &Results) -> String {
    let worst = results.trials.iter().filter_map(|trial| trial.generator.fleet).reduce(|a, b| FleetFigures {
        generators: a.generators.max(b.generators),
        began_within_us: a.began_within_us.into_iter().chain(b.began_within_us).reduce(f64::max),
        clock_error_us: a.clock_error_us.into_iter().chain(b.clock_error_us).reduce(f64::max),
    });
    worst.map(|worst| hanging(&format!("fleet: {}", fleet(&worst)), "", "  ", WIDTH)).unwrap_or_default()
}

/// Returns a text such as
/// `3 generators, which began within 420 µs of each other; their times are accurate to 310 µs`.
pub fn fleet(figures: &FleetFigures) -> String {
    let generators = numbers::plural(figures.generators as usize, "generator");
    let began = figures.began_within_us.map(|us| format!(", which began within {} of each other", numbers::micros(us)));
    let clocks = figures.clock_error_us.map(|us| format!("; their times are accurate to {}", numbers::micros(us)));
    generators + &began.unwrap_or_default() + &clocks.unwrap_or_default()
}

/// Returns a note on trials that ran on a target started for an earlier trial, or `None` if there
/// were none.
pub fn shared_starts(results: &Results) -> Option<String> {
    let shared: Vec<_> = results.trials.iter().filter_map(|trial| trial.shared_start.as_ref()).collect();
    let reset = shared.iter().filter(|shared| shared.reset).count();
    let reset = match reset {
        0 => "the target was not reset in between".to_owned(),
        all if all == shared.len() => "the target's hook `reset` ran before each of them".to_owned(),
        some => format!("the target's hook `reset` ran before {some} of them"),
    };
    let (some, all) = (shared.len(), results.trials.len());
    let what = "trials ran on a target that was started for an earlier trial";
    (some > 0).then(|| format!("{some} of {all} {what}; {reset}"))
}

/// Returns a text such as `attempts that were not ok: status 404 (571), timeout (3)`.
fn failed_attempts(results: &Results) -> String {
    let words = causes(results.trials.iter().flat_map(|trial| &trial.attempt_results));
    if words.is_empty() {
        return words;
    }
    hanging(&format!("attempts that were not ok: {words}"), "", "  ", WIDTH)
}

/// Maximum number of failed expectations shown.
const CHECKS: usize = 12;

/// Returns a line for each expectation that failed.
pub(super) fn failed_checks<'a>(
    trials: impl Iterator<Item = &'a Trial>,
    plan: &Plan,
    head: &str,
    width: usize,
) -> String {
    let failed = FailedCheck::of(trials, plan);
    let behind = " ".repeat(head.chars().count());
    let lines = failed.iter().take(CHECKS).map(|check| hanging(&check.text(), head, &behind, width));
    let mut text: String = lines.collect();
    if failed.len() > CHECKS {
        let rest = format!("{} more expectations failed: they are on the page", failed.len() - CHECKS);
        text.push_str(&hanging(&rest, head, &behind, width));
    }
    text
}

/// Maximum number of failures shown beside their counts.
const EXAMPLES: usize = 3;

/// Returns the first failures, one of each kind:
/// `wrong: body = hello did not hold, it was hi (get /x)`.
pub(super) fn examples<'a>(trials: impl Iterator<Item = &'a Trial>, head: &str, width: usize) -> String {
    let examples = distinct(trials.flat_map(|trial| &trial.examples).map(example));
    let behind = " ".repeat(head.chars().count());
    examples.iter().take(EXAMPLES).map(|text| hanging(text, head, &behind, width)).collect()
}

fn example(example: &FailureExample) -> String {
    let FailureExample { result, request, expectation, got, answer, .. } = example;
    match (expectation, answer) {
        (Some(expectation), _) => {
            let got = got.as_ref().map_or_else(|| "it is not in the answer".to_owned(), |got| format!("got `{got}`"));
            format!("{result}: {request}: `{expectation}` does not hold: {got}")
        }
        (None, Some(answer)) => format!("{result}: {request}: answered `{answer}`"),
        (None, None) => format!("{result}: {request}"),
    }
}

/// Returns a text such as
/// `parts of ok answers that were not ok, by status: 429 (571), 400 (3); of 20,000`.
fn failed_parts(results: &Results) -> String {
    let parts: Vec<_> = results.trials.iter().filter_map(|trial| trial.parts.as_ref()).collect();
    let not_ok: u64 = parts.iter().map(|parts| parts.rejected + parts.failed).sum();
    let all = not_ok + parts.iter().map(|parts| parts.ok).sum::<u64>();
    if not_ok == 0 {
        return String::new();
    }
    let statuses = parts.iter().flat_map(|parts| &parts.by_status);
    let words = causes(statuses.filter(|(status, _)| status.len() != 3 || !status.starts_with('2')));
    let text = format!("parts of ok answers that were not ok, by status: {words}; of {}", numbers::count(all));
    hanging(&text, "", "  ", WIDTH)
}

/// Returns the reasons why attempts were not `ok`, by falling count. An operation that is retried
/// has several attempts.
pub(super) fn causes<'a>(results: impl Iterator<Item = (&'a String, &'a u64)>) -> String {
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for (result, count) in results.filter(|(result, _)| !is_ok(result) && !is_followed(result)) {
        let name = if result == "wrong" { "unexpected answer" } else { result };
        *causes.entry(name).or_default() += count;
    }
    let mut causes: Vec<(&str, u64)> = causes.into_iter().collect();
    causes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words = causes.into_iter().map(|(name, count)| format!("{name} ({})", numbers::count(count)));
    words.collect::<Vec<String>>().join(", ")
}

/// Returns a note on answers that were redirects and count as `ok`, because their speed says
/// nothing about the page to which they lead.
fn redirects(results: &Results) -> String {
    let mut statuses: Vec<&str> = results.trials.iter().flat_map(redirected).map(|(status, _)| status).collect();
    let count: u64 = results.trials.iter().flat_map(redirected).map(|(_, count)| count).sum();
    statuses.sort_unstable();
    statuses.dedup();
    if count == 0 {
        return String::new();
    }
    let text = format!(
        "note: {} answers were redirects (status {}), which are not followed and count as ok; use the address of the \
         destination, or expect that status",
        numbers::count(count),
        statuses.join(", ")
    );
    hanging(&text, "", "      ", WIDTH)
}

/// Returns the statuses of redirects with their counts.
pub fn redirected(trial: &Trial) -> impl Iterator<Item = (&str, u64)> {
    let results = trial.attempt_results.iter();
    results.filter_map(|(result, count)| Some((result.strip_prefix("redirect ")?, *count)))
}

fn heading(results: &Results) -> String {
    hanging(&results.title, "", "", WIDTH) + &hanging(&results.asks, "", "", WIDTH)
}

/// Returns the answer and the further findings, wrapped.
fn finding(results: &Results, plan: &Plan) -> String {
    // Recorded answer and findings are preferred, so that terminal, file and page say the same.
    let (answer, findings) = if results.answer.is_empty() {
        (answer(results, plan), further(results, plan))
    } else {
        (results.answer.clone(), results.findings.clone())
    };
    answered(&answer, &findings, WIDTH)
}

/// Returns the answer with the further findings as a list below it, wrapped.
pub(super) fn answered(answer: &str, findings: &[String], width: usize) -> String {
    let findings: String = findings.iter().map(|finding| hanging(finding, "  - ", "    ", width)).collect();
    hanging(answer, "  ", "  ", width) + &findings
}

/// Returns the verdict with its reasons and their remedies.
pub(super) fn verdict(results: &Results, colour: bool, width: usize) -> String {
    let (word, tone) = super::verdict(results);
    let word = toned(word, if colour { tone } else { Tone::Plain });
    let mut text = format!("{word}: {}\n", meaning(results));
    for (index, reason) in results.verdict.reasons.iter().enumerate() {
        if index > 0 && index == results.verdict.decisive() {
            text.push_str("lesser reasons, which alone make a result suspect, not void:\n");
        }
        text.push_str(&hanging(reason, "  - ", "    ", width));
        if let Some(remedy) = results.verdict.remedies.get(index) {
            text.push_str(&hanging(remedy, "    -> ", "       ", width));
        }
    }
    let figures = super::usable_figures(&results.verdict);
    if !figures.is_empty() {
        text.push_str(&hanging(&figures, "  figures: ", "           ", width));
    }
    let notes = results.verdict.notes.iter().map(|note| hanging(note, "  note: ", "        ", width));
    text.extend(notes);
    text
}

/// Returns a note on missing records of the run, if any.
pub(super) fn partial(results: &Results, width: usize) -> String {
    let partial = results.partial.as_ref();
    partial.map_or_else(String::new, |partial| hanging(&format!("partial: {partial}"), "", "  ", width))
}

fn section(title: &str, table: &str) -> String {
    if title.is_empty() { table.to_owned() } else { format!("{title}\n{table}") }
}

const GAP: &str = "  ";
/// Minimum width of wrapped text columns.
const NARROWEST: usize = 12;

/// Returns the table with lines of at most `width` characters, if its columns can be made narrow
/// enough.
pub fn set(table: &Table, width: usize, colour: bool) -> String {
    let with_ranges = SettingColumn::of(table, true);
    let mut setting = if with_ranges.width() <= width { with_ranges } else { SettingColumn::of(table, false) };
    setting.narrow(width);
    setting.write(colour)
}

/// Returns the text of a cell, followed by its smaller text if `with_small`.
fn text_of(cell: &Cell, with_small: bool) -> String {
    if with_small && !cell.small.is_empty() {
        return without_controls(&format!("{} ({})", cell.text, cell.small));
    }
    without_controls(&cell.text)
}

struct SettingColumn<'a> {
    columns: Vec<&'a Column>,
    /// Whether a group of rows begins, and text and tone of each cell.
    rows: Vec<(bool, Vec<(String, Tone)>)>,
    widths: Vec<usize>,
}

impl<'a> SettingColumn<'a> {
    fn of(table: &'a Table, with_ranges: bool) -> Self {
        let shown: Vec<usize> = (0..table.columns.len()).filter(|&index| table.columns[index].brief).collect();
        let columns: Vec<&Column> = shown.iter().map(|&index| &table.columns[index]).collect();
        let mut rows = Vec::new();
        for row in &table.rows {
            let cells = shown.iter().zip(&columns).map(|(&index, column)| {
                let cell = &row.cells[index];
                (text_of(cell, with_ranges && column.numeric), cell.tone)
            });
            rows.push((row.begins, cells.collect::<Vec<_>>()));
        }
        let widths = columns.iter().enumerate().map(|(index, column)| {
            let cells = rows.iter().map(|(_, cells)| text::width(&cells[index].0));
            cells.chain([text::width(&column.head)]).max().unwrap_or(0)
        });
        let widths = widths.collect();
        Self { columns, rows, widths }
    }

    fn width(&self) -> usize {
        self.widths.iter().sum::<usize>() + GAP.len() * self.widths.len().saturating_sub(1) + GAP.len()
    }

    /// Narrows the widest column of text until the table fits. Breaks names and other long words
    /// only as a last resort.
    fn narrow(&mut self, width: usize) {
        let words = (0..self.columns.len()).map(|index| {
            let texts = self.rows.iter().flat_map(|(_, cells)| cells[index].0.split_whitespace());
            texts.map(text::width).max().unwrap_or(0).max(NARROWEST)
        });
        for narrowest in [words.collect(), vec![NARROWEST; self.columns.len()]] {
            while self.width() > width {
                let texts = (0..self.columns.len()).filter(|&index| !self.columns[index].numeric);
                let can_give = texts.filter(|&index| self.widths[index] > narrowest[index]);
                let Some(widest) = can_give.max_by_key(|&index| self.widths[index]) else { break };
                self.widths[widest] -= 1;
            }
        }
    }

    fn write(&self, colour: bool) -> String {
        let heads: Vec<(String, Tone)> = self.columns.iter().map(|column| (column.head.clone(), Tone::Muted)).collect();
        let mut text = self.row(&heads, colour);
        for (begins, cells) in &self.rows {
            if *begins {
                text.push('\n');
            }
            text.push_str(&self.row(cells, colour));
        }
        text
    }

    fn row(&self, cells: &[(String, Tone)], colour: bool) -> String {
        let wrapped: Vec<Vec<String>> =
            cells.iter().zip(&self.widths).map(|((text, _), &width)| wrapped(text, width)).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(1);
        let mut text = String::new();
        for line in 0..height {
            let mut set = GAP.to_owned();
            for (index, column) in self.columns.iter().enumerate() {
                let part = wrapped[index].get(line).map_or("", String::as_str);
                let room = " ".repeat(self.widths[index].saturating_sub(text::width(part)));
                let part = if colour { toned(part, cells[index].1) } else { part.to_owned() };
                set.push_str(&if column.numeric { room + &part } else { part + &room });
                set.push_str(GAP);
            }
            text.push_str(set.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Returns the text in the terminal's own colours, which the user chose.
pub fn toned(text: &str, tone: Tone) -> String {
    let code = match tone {
        Tone::Plain => return text.to_owned(),
        Tone::Good => "32",
        Tone::Doubtful => "33",
        Tone::Bad => "31",
        Tone::Muted => "2",
    };
    if text.is_empty() { String::new() } else { format!("\x1b[{code}m{text}\x1b[0m") }
}
