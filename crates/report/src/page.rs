//! The report page: one self-contained HTML file. Defines its layout, the data of its templates,
//! and the key figures.

pub mod contents;
pub mod live_page;

use analysis::trial_groups::{self, FigureOf, Group, MedianRange, counted, longest, trial_name};
use experiment::plan::samples_for;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, UndefinedBehavior};
use record::results::{Outage, SafeLoad, Trust, Verdict};
use serde::Serialize;
use text::{Tone, distinct, numbers, visible};

use crate::charts::{self, TrialChart, TrialView};
use crate::drawing::bar_rows::{self, BarRows};
use crate::drawing::chart::Chart;
use crate::drawing::operation_lanes::{self, OperationLanes};
use crate::drawing::render::{self, Drawn};
use crate::drawing::{escaped, json_in_script};
use crate::sweep_charts::SweepChart;
use crate::tables::{
    Table, TableOf, comparison, demand, generators, hosts, operations, outages, programs, steps, sweeps,
    target_metrics, trust_word, verdicts,
};
use crate::{Error, ReportInput, proofs, run_charts, sweep_charts, words};

const TEMPLATES: [(&str, &str); 11] = [
    ("chart.html", include_str!("page/chart.html")),
    ("contents.html", include_str!("page/contents.html")),
    ("files.html", include_str!("page/files.html")),
    ("live.html", include_str!("page/live.html")),
    ("live_faults.html", include_str!("page/live_faults.html")),
    ("live_figures.html", include_str!("page/live_figures.html")),
    ("live_verdict.html", include_str!("page/live_verdict.html")),
    ("page.html", include_str!("page/page.html")),
    ("selfcheck.html", include_str!("page/selfcheck.html")),
    ("table.html", include_str!("page/table.html")),
    ("trials.html", include_str!("page/trials.html")),
];
pub(crate) const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/page.js");

/// A part of the page.
enum Part {
    Table(TableOf),
    /// Charts of the whole run.
    Charts(fn(&ReportInput) -> Vec<Chart>),
    /// Charts over the swept values.
    Sweep(&'static [SweepChart]),
    Bars(fn(&ReportInput) -> Option<BarRows>),
    /// Drawings of operations by client.
    Lanes(fn(&ReportInput) -> Vec<OperationLanes>),
    /// Charts of every trial, in three lists: on the first screen, small, and folded.
    Trials([&'static [TrialChart]; 3]),
    /// Files of the run folder, and the command that runs the experiment again.
    Files,
}

/// A section of the page, with an entry in the navigation.
struct PageSection {
    id: &'static str,
    name: &'static str,
    parts: &'static [Part],
    /// Whether the section's tables are folded, because they are of secondary interest.
    is_folded: bool,
}

/// Id of the section with the charts of trials. If the run has one trial, the page starts with this
/// section.
const TRIALS: &str = "trials";

/// Sections of the page below the answer and the key figures, from top to bottom.
const PAGE: &[PageSection] = &[
    PageSection {
        id: "load",
        name: "Load",
        parts: &[
            Part::Charts(run_charts::searches),
            Part::Charts(run_charts::load_averages),
            Part::Sweep(sweep_charts::CHARTS),
            Part::Table(sweeps::safe_loads),
            Part::Table(sweeps::stops),
            Part::Table(comparison::comparison),
            Part::Bars(run_charts::comparison),
            Part::Table(comparison::differences),
            Part::Table(sweeps::scaling),
            Part::Table(sweeps::crossings),
            Part::Table(sweeps::cost),
            Part::Table(demand::hosts),
        ],
        is_folded: false,
    },
    PageSection { id: TRIALS, name: "Charts", parts: &[Part::Trials(charts::CHARTS)], is_folded: false },
    PageSection {
        id: "faults",
        name: "Faults",
        parts: &[
            Part::Table(steps::across),
            Part::Table(steps::steps),
            Part::Table(outages::outages),
            Part::Table(outages::members),
            Part::Table(outages::recovery),
            Part::Charts(run_charts::recoveries),
            Part::Table(outages::disturbances),
            Part::Table(outages::said),
        ],
        is_folded: false,
    },
    PageSection {
        id: "operations",
        name: "Operations and checks",
        parts: &[
            Part::Table(operations::agent_groups),
            Part::Table(operations::each_operation),
            Part::Table(operations::outcomes),
            Part::Table(operations::attempts),
            Part::Table(operations::failed_checks),
            Part::Table(operations::examples),
            Part::Table(verdicts::consistency),
            Part::Lanes(proofs::proofs),
            Part::Table(verdicts::claims),
            Part::Table(verdicts::requirements),
        ],
        is_folded: false,
    },
    PageSection {
        id: "environment",
        name: "Environment and data",
        parts: &[
            Part::Table(hosts::lab),
            Part::Table(hosts::tiers),
            Part::Table(hosts::hosts),
            Part::Table(programs::programs),
            Part::Table(target_metrics::metrics),
            Part::Table(hosts::environment),
            Part::Table(hosts::generator),
            Part::Table(generators::generators),
            Part::Table(verdicts::trials),
            Part::Table(sweeps::search),
            Part::Table(operations::warmup),
            Part::Files,
        ],
        is_folded: true,
    },
];

/// Returns the whole page.
pub fn page(input: &ReportInput) -> Result<String, Error> {
    let templates = Templates::new()?;
    let page = filled(input, &templates)?;
    templates.fill("page.html", &page)
}

/// The templates, ready to be filled. Every value is escaped, except values that a template marks
/// as safe: charts, tables filled by another template, and Plimsoll's own style and script.
pub struct Templates(minijinja::Environment<'static>);

impl Templates {
    pub fn new() -> Result<Self, Error> {
        let mut environment = minijinja::Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.set_formatter(|out, state, value| match value.as_str() {
            Some(text) if !value.is_safe() => {
                let seen = Value::from(visible(text).into_owned());
                minijinja::escape_formatter(out, state, &seen)
            }
            _ => minijinja::escape_formatter(out, state, value),
        });
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        for (name, source) in TEMPLATES {
            environment.add_template(name, source).map_err(|error| broken(name, &error))?;
        }
        Ok(Self(environment))
    }

    pub fn fill(&self, name: &'static str, with: &impl Serialize) -> Result<String, Error> {
        let template = self.0.get_template(name).map_err(|error| broken(name, &error))?;
        template.render(Value::from(Serde(with))).map_err(|error| broken(name, &error))
    }

    /// Returns a table as markup.
    pub fn table(&self, table: Table) -> Result<String, Error> {
        self.fill("table.html", &FilledTable { is_half: table.fits_half(), table })
    }
}

fn broken(template: &'static str, error: &minijinja::Error) -> Error {
    Error::Template { template, reason: format!("{error:#}") }
}

/// Limit of points in all lines of a page together. It limits the page's size: a point takes about
/// 12 bytes.
const POINTS: usize = 105_000;
/// Highest and lowest limit of points in a line.
const POINTS_OF_LINE: (usize, usize) = (1_500, 80);
/// Approximate number of lines in a trial's charts, and of additional lines for each further host
/// of a lab.
const LINES: usize = 35;
const LINES_OF_HOST: usize = 11;

/// Data of the page's template.
#[derive(Serialize)]
pub struct Page {
    style: &'static str,
    script: &'static str,
    title: String,
    asks: String,
    answer: String,
    /// Further findings, as markup.
    findings: Vec<String>,
    verdict: &'static str,
    meaning: String,
    reasons: Vec<Reason>,
    /// Figures by verdict, in words; empty if all have the same verdict.
    usable_figures: String,
    /// Notes that do not limit the use of the figures, as markup.
    notes: Vec<String>,
    partial: Option<String>,
    figures: Vec<HeadlineFigure>,
    requirements: Vec<RequirementChip>,
    /// Sections of [`PAGE`] that are not empty.
    sections: Vec<FilledSection>,
    data: String,
    started: Option<String>,
    trial_count: usize,
    folder: String,
    format: u32,
    plimsoll: Option<String>,
}

/// A section, already filled.
#[derive(Serialize)]
struct FilledSection {
    id: &'static str,
    name: &'static str,
    parts: Vec<String>,
    /// Folded parts, shown side by side below the other parts.
    folded: Vec<String>,
}

/// Markup of a part, and whether it is folded.
struct FilledPart {
    markup: String,
    is_folded: bool,
}

/// A requirement, and whether it is met.
#[derive(Serialize)]
struct RequirementChip {
    word: String,
    is_met: bool,
    says: String,
}

/// The charts of a trial, already filled.
#[derive(Serialize)]
struct TrialCharts {
    id: String,
    name: String,
    verdict: &'static str,
    reasons: Vec<Reason>,
    notices: Vec<(String, String)>,
    first: Vec<String>,
    small: Vec<String>,
    folded: Vec<String>,
    /// Names of the folded charts, in words.
    why: String,
}

/// Data of the page's last section.
#[derive(Serialize)]
struct FilesFigures {
    files: Vec<(&'static str, &'static str)>,
    torn: Vec<String>,
}

/// A row of the matrix for selecting trials: the repeats of a case.
#[derive(Serialize)]
struct TrialRow {
    name: String,
    trials: Vec<(String, &'static str)>,
}

#[derive(Serialize)]
struct TrialsFigures {
    trials: Vec<TrialCharts>,
    matrix: Vec<TrialRow>,
}

/// A reason against a result and its remedy, as markup.
#[derive(Serialize)]
pub struct Reason {
    what: String,
    remedy: String,
    /// Whether the reason is less severe than the verdict.
    is_minor: bool,
}

#[derive(Serialize)]
struct PageFigures<'a> {
    id: &'a str,
    title: &'a str,
    note: &'a str,
    svg: &'a str,
    hover: bool,
}

/// Fills all parts of the page.
pub fn filled(input: &ReportInput, templates: &Templates) -> Result<Page, Error> {
    let results = input.results;
    let mut filled = FilledCharts { templates, data: serde_json::Map::new() };
    let mut sections = Vec::new();
    for section in PAGE {
        let (mut parts, mut folded) = (Vec::new(), Vec::new());
        for part in section.parts {
            if let Some(FilledPart { markup, is_folded }) = filled.part(part, section.is_folded, input)? {
                if is_folded { folded.push(markup) } else { parts.push(markup) }
            }
        }
        if !parts.is_empty() || !folded.is_empty() {
            sections.push(FilledSection { id: section.id, name: section.name, parts, folded });
        }
    }
    if results.trials.len() == 1 {
        sections.sort_by_key(|section| section.id != TRIALS);
    }
    // The page shows the verdict and its reasons next to the answer.
    let answer = analysis::answer::beside_the_verdict(results, input.plan);
    let started = input.trials.iter().filter_map(crate::TrialSeries::start_unix_s).reduce(f64::min);
    Ok(Page {
        style: STYLE,
        script: SCRIPT,
        title: results.title.clone(),
        asks: results.asks.clone(),
        answer: with_code(&answer),
        findings: analysis::answer::further(results, input.plan).iter().map(|finding| with_code(finding)).collect(),
        verdict: words::verdict(results).0,
        // The answer of a void result already starts with the meaning of the verdict.
        meaning: match results.verdict.is {
            Trust::Void => String::new(),
            _ => text::stopped(&text::capital(words::meaning(results))),
        },
        reasons: reasons(&results.verdict),
        usable_figures: words::usable_figures(&results.verdict),
        notes: results.verdict.notes.iter().map(|note| with_code(&text::stopped(&text::capital(note)))).collect(),
        partial: results.partial.as_deref().map(text::stopped),
        figures: key_figures(input),
        requirements: requirement_chips(input),
        sections,
        data: json_in_script(&serde_json::Value::Object(filled.data).to_string()),
        started: started.map(numbers::utc),
        trial_count: results.trials.len(),
        folder: input.folder.clone(),
        format: results.format,
        plimsoll: input.environment.as_ref().and_then(|environment| environment.plimsoll.clone()),
    })
}

pub fn reasons(verdict: &Verdict) -> Vec<Reason> {
    let reasons = verdict.reasons.iter().enumerate().map(|(index, reason)| Reason {
        what: with_code(&text::stopped(&text::capital(reason))),
        remedy: verdict.remedies.get(index).map_or_else(String::new, |remedy| with_code(&text::stopped(remedy))),
        is_minor: verdict.is_minor(index),
    });
    reasons.collect()
}

/// Escapes the text and formats names between backquotes as code.
pub fn with_code(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(escaped).collect();
    // With an odd number of backquotes, none of them marks code.
    if parts.len().is_multiple_of(2) {
        return escaped(text);
    }
    let marked = parts
        .iter()
        .enumerate()
        .map(|(index, part)| if index % 2 == 1 { format!("<code>{part}</code>") } else { part.clone() });
    marked.collect()
}

/// Data of the table template.
#[derive(Serialize)]
struct FilledTable {
    #[serde(flatten)]
    table: Table,
    /// Whether another table fits beside this one.
    is_half: bool,
}

/// Filler of the page's parts, with the data of all charts filled so far.
struct FilledCharts<'a> {
    templates: &'a Templates,
    data: serde_json::Map<String, serde_json::Value>,
}

impl FilledCharts<'_> {
    /// Fills a part. Returns `None` if the run has no data for it.
    fn part(&mut self, part: &Part, is_folded: bool, input: &ReportInput) -> Result<Option<FilledPart>, Error> {
        let markup = match part {
            Part::Table(of) => {
                let Some(table) = of(input) else { return Ok(None) };
                let is_folded = is_folded || table.folded;
                let markup = self.templates.table(Table { folded: is_folded, ..table })?;
                return Ok(Some(FilledPart { markup, is_folded }));
            }
            Part::Charts(of) => self.block(&of(input))?,
            Part::Sweep(kinds) => self.block(&sweep_charts::of_run(kinds, input.results))?,
            Part::Bars(of) => {
                let drawn = of(input).map(|bars| bar_rows::drawn(&bars));
                let drawn = drawn.map(|drawn| self.chart(&drawn, false)).transpose()?;
                drawn.map(|drawn| format!("<section class=\"block bars\">\n{drawn}\n</section>"))
            }
            Part::Lanes(of) => {
                let drawn = of(input).into_iter().map(|lanes| self.chart(&operation_lanes::drawn(&lanes), false));
                let drawn = drawn.collect::<Result<Vec<_>, _>>()?.join("\n");
                (!drawn.is_empty()).then(|| format!("<section class=\"block bars\">\n{drawn}\n</section>"))
            }
            Part::Trials(_) if input.trials.is_empty() => None,
            Part::Trials(kinds) => Some(self.trials(kinds, input)?),
            Part::Files => {
                let files = FilesFigures { files: FILES.to_vec(), torn: torn(input) };
                let markup = self.templates.fill("files.html", &files)?;
                return Ok(Some(FilledPart { markup, is_folded: true }));
            }
        };
        Ok(markup.map(|markup| FilledPart { markup, is_folded: false }))
    }

    fn chart(&mut self, drawn: &Drawn, hover: bool) -> Result<String, Error> {
        self.data.insert(drawn.id.clone(), drawn.data.clone());
        let figure = PageFigures { id: &drawn.id, title: &drawn.title, note: &drawn.note, svg: &drawn.svg, hover };
        self.templates.fill("chart.html", &figure)
    }

    fn charts(&mut self, charts: &[Chart]) -> Result<Vec<String>, Error> {
        charts.iter().map(|chart| self.chart(&render::drawn(chart), true)).collect()
    }

    fn block(&mut self, charts: &[Chart]) -> Result<Option<String>, Error> {
        let charts = self.charts(charts)?.join("\n");
        Ok((!charts.is_empty()).then(|| format!("<section class=\"block grid\">\n{charts}\n</section>")))
    }

    fn trials(&mut self, kinds: &[&[TrialChart]; 3], input: &ReportInput) -> Result<String, Error> {
        let (most, least) = POINTS_OF_LINE;
        let lines: usize = input.trials.iter().map(line_count).sum();
        let points = (POINTS / lines.max(1)).clamp(least, most);
        let mut trials = Vec::new();
        for series in &input.trials {
            let Some(trial) = input.results.trials.iter().find(|trial| trial.id == series.trial) else { continue };
            let view = TrialView { trial, series, points };
            let [first, small, folded] = kinds.map(|kinds| charts::of_trial(kinds, &view));
            trials.push(TrialCharts {
                id: trial.id.clone(),
                name: trial_name(trial, input.results, input.plan),
                verdict: trust_word(trial.verdict.is),
                // If the run has one trial, the page already shows its reasons as those of the run.
                reasons: if input.results.trials.len() > 1 { reasons(&trial.verdict) } else { Vec::new() },
                notices: charts::notices(series),
                first: self.charts(&first)?,
                small: self.charts(&small)?,
                why: charts::hosts::in_words(&folded),
                folded: self.charts(&folded)?,
            });
        }
        self.templates.fill("trials.html", &TrialsFigures { matrix: matrix(&trials, input), trials })
    }
}

/// Returns the approximate number of lines in the charts of a trial.
fn line_count(series: &crate::TrialSeries) -> usize {
    let hosts = distinct(series.samples.iter().map(|sample| sample.host.as_str())).len();
    let operations = series.by_operation.len() + series.by_result.len();
    LINES + LINES_OF_HOST * hosts.saturating_sub(1) + operations + series.metrics.len()
}

/// Returns the trials that have charts, one row per case. Empty for a single trial.
fn matrix(drawn: &[TrialCharts], input: &ReportInput) -> Vec<TrialRow> {
    if drawn.len() < 2 {
        return Vec::new();
    }
    let groups = trial_groups::groups(input.results, input.plan);
    let rows = groups.iter().map(|group| {
        let trials = group.trials.iter().filter(|trial| drawn.iter().any(|drawn| drawn.id == trial.id));
        TrialRow {
            name: group.name(),
            trials: trials.map(|trial| (trial.id.clone(), trust_word(trial.verdict.is))).collect(),
        }
    });
    rows.filter(|row| !row.trials.is_empty()).collect()
}

/// Returns the requirements that the page shows next to the verdict, in the words of the
/// requirements table.
fn requirement_chips(input: &ReportInput) -> Vec<RequirementChip> {
    let mut chips = Vec::new();
    for row in verdicts::requirements(input).map(|table| table.rows).unwrap_or_default() {
        let [metric, asked, value, word] = row.cells.as_slice() else { continue };
        let of = if metric.small.is_empty() { String::new() } else { format!(" ({})", metric.small) };
        chips.push(RequirementChip {
            word: word.text.clone(),
            is_met: word.tone == Tone::Good,
            says: format!("{}{of} {}: {}", metric.text, asked.text, value.text),
        });
    }
    chips
}

fn torn(input: &ReportInput) -> Vec<String> {
    let trials = input.trials.iter().filter(|series| !series.torn.is_empty());
    trials.map(|series| format!("{}: {}", series.trial, series.torn.join(", "))).collect()
}

/// Files of a run folder, for the page's last section.
const FILES: [(&str, &str); 15] = [
    ("experiment.toml", "the experiment file"),
    ("plan.json", "the experiment with all defaults and references resolved"),
    ("environment.json", "the machine and its software"),
    ("analysis.json", "all figures of this page"),
    ("trials/…/load.hlog", "latencies each second: HdrHistogram V2 interval log, nanoseconds"),
    ("trials/…/outcomes.csv", "operations by outcome, in slots of milliseconds"),
    ("trials/…/attempts.csv", "attempts by operation and result, each second"),
    ("trials/…/checks.csv", "answers that contradict expectations, each second, where there are any"),
    ("trials/…/samples.csv", "hosts and processes, each second"),
    ("trials/…/programs.csv", "programs that the target names (if any), each second"),
    ("trials/…/metrics.csv", "the target's own metrics (if any), each second"),
    ("trials/…/generator.csv", "the load generator's threads, each second"),
    ("trials/…/events.jsonl", "phases, faults, processes, on one clock"),
    ("trials/…/history.jsonl", "operations on audited keys, and their read-back"),
    ("trials/…/logs/", "output of the processes"),
];

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeadlineFigure {
    pub name: String,
    pub value: String,
    /// Unit, if it is not part of the value.
    pub unit: String,
    /// Range, share, or source of the value.
    pub small: String,
    /// Tone: good, bad or neutral.
    pub tone: Tone,
}

/// Returns the key figures of a run.
fn key_figures(input: &ReportInput) -> Vec<HeadlineFigure> {
    if !input.results.safe_loads.is_empty() {
        return input.results.safe_loads.iter().map(safe_load).collect();
    }
    let groups = trial_groups::groups(input.results, input.plan);
    match groups.as_slice() {
        [] => Vec::new(),
        [group] => of_one(group, input),
        groups => of_several(groups),
    }
}

fn figure(name: &str, value: String, unit: &str, small: String, tone: Tone) -> HeadlineFigure {
    HeadlineFigure { name: name.to_owned(), value, unit: unit.to_owned(), small, tone }
}

fn safe_load(line: &SafeLoad) -> HeadlineFigure {
    use analysis::answer::sweeps as safe;

    let variant = line.variant.as_ref().map_or_else(String::new, |variant| format!(", {variant}"));
    let name = format!("safe load, {}{variant}", sweeps::condition(&line.surviving));
    let unit = safe::unit_of(&line.over);
    let tone = if line.complete { Tone::Plain } else { Tone::Doubtful };
    let edge = line.value.map(|value| {
        format!("{} near {}, 95 % {}", safe::edge(line), numbers::number(value), safe::interval(Some(line.ci95)))
    });
    match (safe::surely(line).map(numbers::number), safe::nowhere(line)) {
        (Some(low), _) => figure(&name, format!("≥ {low}"), unit, edge.unwrap_or_default(), tone),
        (None, Some(least)) => {
            let broke = format!("{} breaks there", line.limited_by);
            figure(&name, format!("not even {}", numbers::number(least)), unit, broke, Tone::Bad)
        }
        (None, None) => {
            let why = edge.unwrap_or_else(|| line.limited_by.clone());
            figure(&name, "not known".to_owned(), "", why, Tone::Bad)
        }
    }
}

fn spread_figure(
    name: &str,
    spread: Option<MedianRange>,
    write: fn(f64) -> String,
    unit: &str,
) -> Option<HeadlineFigure> {
    let spread = spread?;
    let small = spread.range(write).map_or_else(String::new, |range| format!("{range} over {} trials", spread.of));
    Some(figure(name, write(spread.median), unit, small, Tone::Plain))
}

fn of_one(group: &Group, input: &ReportInput) -> Vec<HeadlineFigure> {
    let count = numbers::median_count_in_words;
    let before = group.spread(|trial| trial.throughput.before_first_fault_per_s);
    let rate = match before {
        Some(_) => spread_figure("throughput before", before, numbers::number, "operations/s"),
        None => spread_figure(
            "throughput",
            group.spread(|t| t.throughput.operations_per_s),
            numbers::number,
            "operations/s",
        ),
    };
    let median = spread_figure("median latency", group.spread(|t| t.latency_us.as_ref()?.p50), numbers::micros, "");
    let mut p99 = spread_figure("p99 latency", group.spread(|t| t.latency_us.as_ref()?.p99), numbers::micros, "");
    if let (Some(p99), Some(of_all)) = (&mut p99, p99_of_all(group)) {
        p99.small = [p99.small.as_str(), &of_all].join("; ").trim_start_matches("; ").to_owned();
    }
    if let (Some(p99), Some(moments)) = (&mut p99, moments_of_p99(group)) {
        p99.value.insert(0, '~');
        p99.small = [p99.small.as_str(), &moments].join("; ").trim_start_matches("; ").to_owned();
    }
    let faulty = group.counting().any(|trial| trial_groups::outages(trial).next().is_some());
    let failed = loss(
        "operations not ok",
        group.spread(|t| counted(t, |t| t.outcomes.failed + t.outcomes.timeout)),
        share_of(group),
    );
    let back = faulty.then(|| back(group)).flatten();
    let lost = group.spread(|trial| trial.consistency.lost_writes.map(|lost| lost as f64));
    let checked = group.spread(|trial| {
        let found = &trial.consistency;
        found.acknowledged_checked.or(found.checked).map(|checked| checked as f64)
    });
    let of = checked.map_or_else(String::new, |checked| format!("of {} checked", checked.text(count)));
    let wrong = group.spread(|trial| trial.consistency.wrong.map(|wrong| wrong as f64));
    let wrong = wrong.filter(|wrong| wrong.most > 0.0 || lost.is_none());
    let idle = group.spread(|trial| trial.agents_without_cycle.map(|agents| agents as f64));
    let idle = idle.filter(|idle| idle.most > 0.0);
    let diverged = group.spread(|trial| trial.consistency.diverged_keys.map(|keys| keys as f64));
    let figures = [
        rate,
        if faulty { None } else { median },
        p99,
        failed,
        back,
        loss("lost writes", lost, of),
        loss("wrong answers", wrong, String::new()),
        loss("agents without a cycle", idle, String::new()),
        loss("diverged keys", diverged, String::new()),
        cost(group, input),
    ];
    figures.into_iter().flatten().collect()
}

/// Returns a text such as `from 2 separate moments`, or `None` if p99 is reliable.
fn moments_of_p99(group: &Group) -> Option<String> {
    let moments = group.counting().filter_map(|trial| trial.unsure_moments("p99")).min()?;
    Some(format!("from {moments} separate {}", if moments == 1 { "moment" } else { "moments" }))
}

/// Returns a note on p99 over all operations, if some had no answer or an error. The key figure
/// covers only operations that succeeded.
fn p99_of_all(group: &Group) -> Option<String> {
    let of_all: Vec<_> = group.counting().filter_map(|trial| trial.latency_of_all_us.as_ref()).collect();
    let enough = of_all.iter().filter(|all| all.count >= samples_for(0.99));
    let p99_us: Option<Vec<f64>> = enough.map(|all| all.p99).collect();
    match p99_us.map(|all| all.into_iter().reduce(f64::max)) {
        Some(worst_us) => worst_us.map(|us| format!("of ok operations; of all operations {}", numbers::micros(us))),
        None => Some("of ok operations; over 1 % of all operations had no answer or an error".to_owned()),
    }
}

fn share_of(group: &Group) -> String {
    let all = group.spread(|trial| counted(trial, trial_groups::operations));
    let pct = group.spread(|trial| trial.failed_pct).filter(|pct| pct.most > 0.0);
    let pct = pct.map_or_else(String::new, |pct| format!("{} ", numbers::percent(pct.median)));
    all.map_or_else(String::new, |all| format!("{pct}of {}", numbers::median_count_in_words(all.median)))
}

fn loss(name: &str, spread: Option<MedianRange>, of: String) -> Option<HeadlineFigure> {
    let spread = spread?;
    let tone = if spread.most > 0.0 { Tone::Bad } else { Tone::Good };
    let write = numbers::median_count_in_words;
    let small = match spread.range(write) {
        Some(range) => format!("{range}; {of}"),
        None => of,
    };
    Some(figure(name, write(spread.median), "", small.trim_end_matches("; ").to_owned(), tone))
}

fn back(group: &Group) -> Option<HeadlineFigure> {
    let name = "recovered after";
    let outages: Vec<&Outage> = group.counting().flat_map(trial_groups::outages).map(|(_, outage)| outage).collect();
    if outages.iter().any(|outage| outage.is_never_back()) {
        return Some(figure(name, "never".to_owned(), "", "within the trial".to_owned(), Tone::Bad));
    }
    if let Some(why) = outages.iter().find_map(|outage| outage.cannot_tell.clone()) {
        return Some(figure(name, "unknown".to_owned(), "", why, Tone::Doubtful));
    }
    let figure = spread_figure(name, group.spread(|t| longest(t, |o| o.back_to_baseline_s)), numbers::seconds, "")?;
    let total = group.spread(|trial| longest(trial, |outage| outage.total_s));
    let small = match total {
        Some(total) if figure.small.is_empty() => format!("{} without an ok answer", numbers::seconds(total.median)),
        _ => figure.small,
    };
    Some(HeadlineFigure { small, ..figure })
}

/// Returns the energy per cycle, if known, otherwise the target's CPU time per operation.
fn cost(group: &Group, input: &ReportInput) -> Option<HeadlineFigure> {
    if let Some(joules) = group.spread(|trial| trial.cost.joules_per_cycle) {
        let how = "modelled from the profile's watts".to_owned();
        return Some(figure("energy per cycle", numbers::joules(joules.median), "", how, Tone::Plain));
    }
    let cores = f64::from(input.environment.as_ref()?.cpu.cores?);
    let time_us = group.spread(|trial| {
        trial_groups::planned(input.plan, &trial.id).filter(|planned| planned.lab.hosts.is_empty())?;
        let host = trial.hosts.first().filter(|_| trial.hosts.len() == 1)?;
        let rate = trial.throughput.operations_per_s.filter(|rate| *rate > 0.0)?;
        Some(host.target_cpu_pct? / 100.0 * cores / rate * 1e6)
    })?;
    let small = "of the target".to_owned();
    Some(figure("CPU time per operation", numbers::micros(time_us.median), "", small, Tone::Plain))
}

fn of_several(groups: &[Group]) -> Vec<HeadlineFigure> {
    let counts_units = groups.iter().any(|group| group.spread(|trial| trial.throughput.median_units_per_s).is_some());
    let work = if counts_units { "units/s" } else { "operations/s" };
    let p99: FigureOf = |trial| trial.latency_us.as_ref()?.p99;
    let figures = [
        extreme(groups, "highest throughput", (|trial| trial.throughput.work_per_s(), numbers::number, work), true),
        extreme(groups, "lowest p99", (p99, numbers::micros, ""), false),
        extreme(groups, "highest p99", (p99, numbers::micros, ""), true),
        cases(groups, "operations not ok in", |trial| counted(trial, |t| t.outcomes.failed + t.outcomes.timeout)),
        cases(groups, "wrong answers in", |trial| trial.consistency.wrong.map(|count| count as f64)),
        cases(groups, "lost writes in", |trial| trial.consistency.lost_writes.map(|count| count as f64)),
        cases(groups, "diverged keys in", |trial| trial.consistency.diverged_keys.map(|count| count as f64)),
    ];
    figures.into_iter().flatten().collect()
}

/// Returns the largest or the smallest median of a figure over the groups, with the name of its
/// group. `write` formats the figure.
fn extreme(
    groups: &[Group],
    name: &str,
    (value, write, unit): (FigureOf, fn(f64) -> String, &str),
    largest: bool,
) -> Option<HeadlineFigure> {
    let medians = groups.iter().filter_map(|group| Some((group, group.spread(value)?.median)));
    let (group, best) = medians.reduce(|best, next| {
        let is_better = if largest { next.1 > best.1 } else { next.1 < best.1 };
        if is_better { next } else { best }
    })?;
    Some(figure(name, write(best), unit, group.name(), Tone::Plain))
}

/// Returns the number of groups in which the count `value` is above 0.
fn cases(groups: &[Group], name: &str, value: FigureOf) -> Option<HeadlineFigure> {
    let known: Vec<MedianRange> = groups.iter().filter_map(|group| group.spread(value)).collect();
    let hit = known.iter().filter(|spread| spread.most > 0.0).count();
    let most = known.iter().map(|spread| spread.most).fold(0.0, f64::max);
    let tone = if hit > 0 { Tone::Bad } else { Tone::Good };
    let small = if hit > 0 { format!("at worst {}", numbers::count_in_words(most as u64)) } else { String::new() };
    (!known.is_empty()).then(|| figure(name, format!("{hit} of {}", known.len()), "cases", small, tone))
}

/// Returns all tables of the page, in order.
#[cfg(test)]
pub fn tables(input: &ReportInput) -> impl Iterator<Item = Option<Table>> {
    PAGE.iter()
        .flat_map(|section| section.parts)
        .filter_map(move |part| if let Part::Table(of) = part { Some(of(input)) } else { None })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn saved_cells_are_guarded_against_spreadsheet_formulas() {
        // The script runs only in a browser. This test can only check that every cell passes the
        // guard.
        let guard = r"typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text";
        let cell = SCRIPT.split("const cell =").nth(1).and_then(|rest| rest.split("};").next()).unwrap();
        assert!(cell.contains(guard), "{cell}");
        assert!(SCRIPT.contains("row.map(cell)"));
    }

    fn is_folded(part: &str) -> bool {
        part.trim_start().starts_with("<details")
    }

    #[test]
    fn folded_parts_are_kept_apart_from_open_parts() {
        let (plan, mut results) = crate::example::plain();
        results.trials[0].consistency.checked = Some(10);
        let input = ReportInput::without_records(&results, &plan);
        let page = filled(&input, &Templates::new().unwrap()).unwrap();
        let operations = page.sections.iter().find(|section| section.id == "operations").unwrap();
        assert!(!operations.parts.is_empty() && !operations.parts.iter().any(|part| is_folded(part)));
        assert!(
            operations.folded.iter().all(|part| is_folded(part)) && operations.folded[0].contains("Attempts by result")
        );
        let environment = page.sections.iter().find(|section| section.id == "environment").unwrap();
        assert_eq!(environment.parts, Vec::<String>::new());
    }

    #[test]
    fn templates_show_bidi_control_characters() {
        let mut templates = Templates::new().unwrap();
        templates.0.add_template("x.html", "{{ name }}{{ drawn|safe }}").unwrap();
        let page = templates.fill("x.html", &serde_json::json!({ "name": "a\u{202e}<b", "drawn": "<i>" })).unwrap();
        assert_eq!(page, "a[U+202E]&lt;b<i>");
    }
}
