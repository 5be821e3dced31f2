//! What the page's template is filled with. It must not hold markup other than what charts and tables give it.

use record::results::{Trial, Verdict};
use serde::Serialize;

use super::figures::{Figure, key_figures};
use super::{SCRIPT, STYLE, Templates};
use crate::charts::{self, View};
use crate::drawing::bar_rows::{self, BarColumn, BarRows};
use crate::drawing::markup::{escaped, json_in_script};
use crate::drawing::render::{self, Drawn};
use crate::facts::{self, Group, trial_name};
use crate::recovery;
use crate::tables::{self, comparison, trust_word};
use crate::{Error, Input};
use crate::{search_charts, sweep_charts, words};

/// Points of all lines of a page together; some 12 bytes each.
const POINTS: usize = 120_000;
/// Points of a line, at most and at least.
const POINTS_OF_LINE: (usize, usize) = (1_500, 100);
/// Lines that a trial's charts have, roughly, and each host of a lab beside the first.
const LINES: usize = 35;
const LINES_OF_HOST: usize = 11;

/// All that stands on the page.
#[derive(Serialize)]
pub struct Page {
    style: &'static str,
    script: &'static str,
    title: String,
    asks: String,
    answer: String,
    verdict: &'static str,
    meaning: String,
    reasons: Vec<Reason>,
    partial: Option<String>,
    figures: Vec<Figure>,
    /// Tables that were filled already.
    before: Vec<String>,
    /// Charts that were filled already, of the whole sweep.
    sweep_charts: Vec<String>,
    after: Vec<String>,
    trials: Vec<TrialCharts>,
    data: String,
    started: Option<String>,
    trial_count: usize,
    folder: String,
    files: Vec<(&'static str, &'static str)>,
    torn: Vec<String>,
    format: u32,
    plimsoll: Option<String>,
}

/// The charts of a trial, filled already.
#[derive(Serialize)]
struct TrialCharts {
    id: String,
    name: String,
    verdict: &'static str,
    reasons: Vec<Reason>,
    notices: Vec<(String, String)>,
    charts: Vec<String>,
}

/// What speaks against a result, and what can be done about it.
#[derive(Serialize)]
pub struct Reason {
    what: String,
    remedy: String,
}

#[derive(Serialize)]
struct Figures<'a> {
    id: &'a str,
    title: &'a str,
    note: &'a str,
    svg: &'a str,
    hover: bool,
}

/// Fills all parts of the page.
pub fn page(input: &Input, templates: &Templates) -> Result<Page, Error> {
    let results = input.results;
    let mut data = serde_json::Map::new();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (kind, table) in tables::of_run(input) {
        let place = if kind.place < tables::AFTER_CHARTS { &mut before } else { &mut after };
        place.push(templates.fill("table.html", &table)?);
        if kind.name == "comparison"
            && let Some(drawn) = comparison_bars(input)
        {
            place.push(chart(&drawn, false, templates, &mut data)?);
        }
        if kind.name == "recovery" {
            for drawn in recovery::charts(input).iter().map(render::drawn) {
                place.push(chart(&drawn, true, templates, &mut data)?);
            }
        }
    }
    let sweeps: Vec<Drawn> =
        search_charts::of_run(input).iter().chain(&sweep_charts::of_run(results)).map(render::drawn).collect();
    let sweep_charts: Vec<String> =
        sweeps.iter().map(|drawn| chart(drawn, true, templates, &mut data)).collect::<Result<_, _>>()?;
    let trials = trials(input, templates, &mut data)?;
    let answer = if results.answer.is_empty() { words::answer(results, input.plan) } else { results.answer.clone() };
    let started = input.trials.iter().filter_map(crate::Series::start_unix_s).reduce(f64::min);
    Ok(Page {
        style: STYLE,
        script: SCRIPT,
        title: results.title.clone(),
        asks: results.asks.clone(),
        answer: with_code(&answer),
        verdict: words::verdict(results).0,
        meaning: words::stopped(&words::capital(words::meaning(results))),
        reasons: reasons(&results.verdict),
        partial: results.partial.as_deref().map(words::stopped),
        figures: key_figures(input),
        before,
        sweep_charts,
        after,
        trials,
        data: json_in_script(&serde_json::Value::Object(data).to_string()),
        started: started.map(crate::calendar::utc),
        trial_count: results.trials.len(),
        folder: input.folder.clone(),
        files: FILES.to_vec(),
        torn: torn(input),
        format: results.format,
        plimsoll: input.environment.as_ref().and_then(|environment| environment.plimsoll.clone()),
    })
}

pub fn reasons(verdict: &Verdict) -> Vec<Reason> {
    let remedy = |index: usize| verdict.remedies.get(index).map_or_else(String::new, |remedy| words::stopped(remedy));
    let what = |reason: &String| words::stopped(&words::capital(reason));
    verdict.reasons.iter().enumerate().map(|(index, it)| Reason { what: what(it), remedy: remedy(index) }).collect()
}

/// Names between backquotes become code; everything is escaped.
pub fn with_code(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(escaped).collect();
    // An odd number of backquotes: nothing is meant by them.
    if parts.len().is_multiple_of(2) {
        return escaped(text);
    }
    let marked = parts
        .iter()
        .enumerate()
        .map(|(index, part)| if index % 2 == 1 { format!("<code>{part}</code>") } else { part.clone() });
    marked.collect()
}

fn chart(
    drawn: &Drawn,
    hover: bool,
    templates: &Templates,
    data: &mut serde_json::Map<String, serde_json::Value>,
) -> Result<String, Error> {
    data.insert(drawn.id.clone(), drawn.data.clone());
    let figure = Figures { id: &drawn.id, title: &drawn.title, note: &drawn.note, svg: &drawn.svg, hover };
    templates.fill("chart.html", &figure)
}

fn trials(
    input: &Input,
    templates: &Templates,
    data: &mut serde_json::Map<String, serde_json::Value>,
) -> Result<Vec<TrialCharts>, Error> {
    let (most, least) = POINTS_OF_LINE;
    let of_hosts = |series| {
        let view = View { trial: &Trial::default(), series, points: 0 };
        LINES_OF_HOST * view.hosts().len().saturating_sub(1)
    };
    let lines: usize = input.trials.iter().map(|series| LINES + of_hosts(series)).sum();
    let points = (POINTS / lines.max(1)).clamp(least, most);
    let mut shown = Vec::new();
    for series in &input.trials {
        let Some(trial) = input.results.trials.iter().find(|trial| trial.id == series.trial) else { continue };
        let view = View { trial, series, points };
        let drawn: Vec<Drawn> = charts::of_trial(&view).iter().map(render::drawn).collect();
        shown.push(TrialCharts {
            id: trial.id.clone(),
            name: trial_name(trial, input.results, input.plan),
            verdict: trust_word(trial.verdict.is),
            reasons: reasons(&trial.verdict),
            notices: charts::notices(series),
            charts: drawn.iter().map(|drawn| chart(drawn, true, templates, data)).collect::<Result<_, _>>()?,
        });
    }
    Ok(shown)
}

/// The key columns of the comparison, drawn.
fn comparison_bars(input: &Input) -> Option<Drawn> {
    let groups = facts::groups(input.results, input.plan);
    if groups.len() < 2 || comparison::is_long(&groups) {
        return None;
    }
    let columns: Vec<BarColumn> = comparison::measured(&groups)
        .filter(|measure| measure.bars)
        .map(|measure| {
            let value =
                |group: &Group| group.spread(measure.value).map(|spread| [spread.median, spread.least, spread.most]);
            BarColumn {
                head: measure.head.to_owned(),
                values: groups.iter().map(value).collect(),
                write: measure.write,
                loss: measure.loss,
            }
        })
        .collect();
    let rows = groups.iter().enumerate().map(|(index, group)| (group.name(), tables::begins(index, &groups))).collect();
    let note = "Medians; the whiskers run from the smallest to the largest repeat.".to_owned();
    let bars = BarRows { id: "comparison".to_owned(), title: "The same, drawn".to_owned(), note, rows, columns };
    (!bars.columns.is_empty()).then(|| bar_rows::drawn(&bars))
}

fn torn(input: &Input) -> Vec<String> {
    let trials = input.trials.iter().filter(|series| !series.torn.is_empty());
    trials.map(|series| format!("{}: {}", series.trial, series.torn.join(", "))).collect()
}

/// What lies in a run folder, for the page's last section.
const FILES: [(&str, &str); 12] = [
    ("experiment.toml", "the experiment as it was given"),
    ("plan.json", "what it was resolved into"),
    ("environment.json", "what it ran on"),
    ("analysis.json", "all figures of this page"),
    ("trials/…/load.hlog", "latencies each second: HdrHistogram V2 interval log, nanoseconds"),
    ("trials/…/outcomes.csv", "operations by outcome, in slots of milliseconds"),
    ("trials/…/attempts.csv", "attempts by operation and result, each second"),
    ("trials/…/samples.csv", "hosts and processes, each second"),
    ("trials/…/generator.csv", "the load generator's threads, each second"),
    ("trials/…/events.jsonl", "phases, faults, processes, on one clock"),
    ("trials/…/history.jsonl", "operations on audited keys, and their read-back"),
    ("trials/…/logs/", "what the processes wrote"),
];
