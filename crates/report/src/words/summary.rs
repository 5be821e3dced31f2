//! The summary that `run` and `show` print: the answer, the verdict, and the tables that fit on a terminal.

use experiment::plan::Plan;
use record::results::{Results, Trial};

use super::aligned::{plain, set, toned, wrapped};
use super::{answer, meaning, visible};
use crate::facts::groups;
use crate::tables::{self, Tone, comparison};
use crate::{Input, numbers};

/// Columns of the terminal that are used at most.
const WIDTH: usize = 100;
/// Rows of the tables of outages and differences at most; beyond, they are on the page only.
const LONG: usize = 12;

/// The summary, at most 100 columns wide, ending in a newline; with the terminal's colours if `colour`.
#[must_use]
pub fn summary(results: &Results, plan: &Plan, colour: bool) -> String {
    let verdict = verdict(results, colour, WIDTH) + &partial(results, WIDTH);
    let mut parts = vec![heading(results), finding(results, plan), verdict];
    let input = Input { results, plan, environment: None, folder: String::new(), trials: Vec::new() };
    let groups = groups(results, plan);
    if !groups.is_empty() && plan.find.is_none() {
        let table = comparison::comparison_of(&groups);
        parts.push(match table.folded {
            true => format!("{}: {} rows, on the page\n", table.title, table.rows.len()),
            false => section("", &set(&table, WIDTH, colour)),
        });
    }
    const TABLES: [&str; 10] = [
        "safe_loads",
        "search",
        "differences",
        "scaling",
        "crossings",
        "cost",
        "outages",
        "disturbances",
        "claims",
        "requirements",
    ];
    for name in TABLES {
        let Some(table) = tables::named(name, &input) else { continue };
        parts.push(if matches!(name, "outages" | "disturbances") && table.rows.len() > LONG {
            format!("{}: {} of them, on the page\n", table.title, table.rows.len())
        } else if name == "crossings" && table.folded {
            format!("{}: {} rows, on the page\n", table.title, table.rows.len())
        } else if name == "differences" && table.rows.len() > LONG {
            format!("{}: {}, on the page\n", table.title, comparison::count(&results.comparisons))
        } else {
            section(&table.title, &set(&table, WIDTH, colour))
        });
    }
    parts.push(redirects(results));
    parts.retain(|part| !part.is_empty());
    visible(&parts.join("\n")).into_owned()
}

/// Answers that were only redirects, which count as `ok`: nobody should take their speed for that of what they lead to.
fn redirects(results: &Results) -> String {
    let mut told: Vec<&str> = results.trials.iter().flat_map(redirected).map(|(status, _)| status).collect();
    let count: u64 = results.trials.iter().flat_map(redirected).map(|(_, count)| count).sum();
    told.sort_unstable();
    told.dedup();
    if count == 0 {
        return String::new();
    }
    let text = format!(
        "note: {} answers were redirects (status {}), which are not followed and count as ok; give the address that they lead to, \
         or expect that status",
        numbers::count(count),
        told.join(", ")
    );
    lines(&text, "", "      ", WIDTH)
}

/// Statuses of redirects, and how many there were of each.
pub fn redirected(trial: &Trial) -> impl Iterator<Item = (&str, u64)> {
    let results = trial.attempt_results.iter();
    results.filter_map(|(result, count)| Some((result.strip_prefix("redirect ")?, *count)))
}

fn heading(results: &Results) -> String {
    lines(&results.title, "", "", WIDTH) + &lines(&results.asks, "", "", WIDTH)
}

/// The answer, wrapped.
fn finding(results: &Results, plan: &Plan) -> String {
    // The one that was written into the results, so that terminal, file and page say the same.
    let answer = if results.answer.is_empty() { answer(results, plan) } else { results.answer.clone() };
    lines(&answer, "  ", "  ", WIDTH)
}

/// The verdict with its reasons and what can be done about each.
pub(super) fn verdict(results: &Results, colour: bool, width: usize) -> String {
    let (word, tone) = super::verdict(results);
    let word = toned(word, if colour { tone } else { Tone::Plain });
    let mut text = format!("{word}: {}\n", meaning(results));
    for (index, reason) in results.verdict.reasons.iter().enumerate() {
        text.push_str(&lines(reason, "  - ", "    ", width));
        if let Some(remedy) = results.verdict.remedies.get(index) {
            text.push_str(&lines(remedy, "    -> ", "       ", width));
        }
    }
    text
}

/// What is missing of the run, if anything.
pub(super) fn partial(results: &Results, width: usize) -> String {
    let partial = results.partial.as_ref();
    partial.map_or_else(String::new, |partial| lines(&format!("partial: {partial}"), "", "  ", width))
}

fn section(title: &str, table: &str) -> String {
    if title.is_empty() { table.to_owned() } else { format!("{title}\n{table}") }
}

/// Wrapped; the first line begins with `first`, the others with `rest`.
pub(super) fn lines(text: &str, first: &str, rest: &str, width: usize) -> String {
    let wrapped = wrapped(&plain(text), width - first.len().max(rest.len()));
    let lines = wrapped.iter().enumerate().map(|(index, line)| {
        let indent = if index == 0 { first } else { rest };
        format!("{indent}{line}").trim_end().to_owned() + "\n"
    });
    if text.trim().is_empty() { String::new() } else { lines.collect() }
}
