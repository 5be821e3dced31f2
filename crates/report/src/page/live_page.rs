//! Page of a run in progress, in parts that are replaced one by one: state of the run, key figures,
//! faults with a running clock, the plan, and the report's charts and tables of the current trial.

use experiment::plan::Plan;
use record::results::{Results, Trial, Trust};
use serde::Serialize;
use serde_json::json;
use text::{Tone, numbers};

use super::{FilledCharts, HeadlineFigure, Part, SCRIPT, STYLE, Templates, with_code};
use crate::drawing::json_in_script;
use crate::tables::{Cell, Column, Row, Table, hosts, operations, outages, tone_of, trust_word};
use crate::{Error, ReportInput, charts, sweep_charts};

/// Script that replaces the parts of the page in the browser.
const LIVE_SCRIPT: &str = include_str!("live.js");

/// Parts of the report that are drawn for the current trial.
const OF_TRIAL: &[Part] = &[
    Part::Trials(charts::CHARTS),
    Part::Table(outages::outages),
    Part::Table(operations::each_operation),
    Part::Table(hosts::hosts),
];
/// Parts of the report that are drawn for the trials that have ended.
const OF_ENDED: &[Part] = &[Part::Sweep(sweep_charts::CHARTS)];

/// Maximum number of trials listed before the first trial that has not started, and from it on.
/// Also the maximum number of findings listed.
const LISTED: usize = 8;

/// State of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunPhase {
    /// The trial: `Trial 3 of 9 · agents=4`.
    pub heading: String,
    /// Phase of the trial, in words; may be empty.
    pub phase: String,
    /// Start of the phase, Unix time in seconds.
    pub since_unix_s: Option<f64>,
    /// Planned duration of the phase; may be empty.
    pub of: String,
    /// Reason why the trial's load was stopped, as a sentence; empty if it was not.
    pub stopped: String,
    /// Sentence on the verdict that is still to come.
    pub pending: String,
}

/// A trial of the plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveTrial {
    pub id: String,
    /// Variant, values and repeat that distinguish the trial from others; may be empty.
    pub name: String,
    /// State: `ended`, `running`, …. Empty if the trial has not started.
    pub state: String,
    /// `ok` operations per second, warm-up included.
    pub ok_per_s: Option<f64>,
    /// Operations that were not `ok`.
    pub not_ok: Option<u64>,
    /// Median latency, warm-up included, microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile of the latency, warm-up included, microseconds.
    pub p99_us: Option<f64>,
}

/// A fault of the current trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveFault {
    /// Name in the experiment.
    pub name: String,
    /// Kind and victim: `crash on n2`.
    pub what: String,
    /// Planned time, in words.
    pub planned: String,
    /// State: `acts`, `healed`, …. Empty if the fault has not begun.
    pub state: String,
    /// Whether the fault acts now.
    pub acts: bool,
    /// Baseline: `ok` operations per second before the fault.
    pub before_per_s: Option<f64>,
    /// Rate of `ok` operations in the last second, as a percentage of the baseline.
    pub share_pct: Option<f64>,
    /// Time for which the fault has affected the service.
    pub recovery: RecoveryClock,
}

/// Time for which a fault has affected the service, in whole seconds of load.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum RecoveryClock {
    /// The fault has not begun, or there is no baseline.
    #[default]
    Unknown,
    /// Service is not back. Contains the start of the fault, Unix time in seconds.
    Runs(f64),
    /// Service is back. Contains the recovery time, seconds.
    Took(f64),
    /// The load ended before service was back.
    NotBack,
}

#[derive(Serialize)]
struct FaultRow<'a> {
    name: &'a str,
    what: &'a str,
    planned: &'a str,
    state: &'a str,
    tone: Tone,
    before: String,
    share: String,
    share_tone: Tone,
    since_ms: Option<u64>,
    took: String,
}

#[derive(Serialize)]
struct FinalReason {
    word: &'static str,
    trial: String,
    what: String,
}

/// Templates of the page.
pub struct LivePage(Templates);

impl LivePage {
    pub fn new() -> Result<Self, Error> {
        Templates::new().map(Self)
    }

    /// Returns the page without its parts.
    pub fn shell(&self, plan: &Plan) -> Result<String, Error> {
        let (title, asks) = (&plan.title, &plan.asks);
        self.0.fill(
            "live.html",
            &json!({ "style": STYLE, "script": SCRIPT, "live": LIVE_SCRIPT, "title": title, "asks": asks }),
        )
    }

    /// Returns the state of the run and the verdict so far: verdicts of trials that have ended, and
    /// findings on the current trial that its remaining time cannot change.
    pub fn verdict(&self, phase: &RunPhase, trials: &[Trial]) -> Result<String, Error> {
        let ended = trials.iter().filter(|trial| trial.ended.is_some());
        let mut done = Vec::new();
        for is in [Trust::Valid, Trust::Suspect, Trust::Void] {
            let count = ended.clone().filter(|trial| trial.verdict.is == is).count();
            done.extend((count > 0).then(|| format!("{count} {}", trust_word(is))));
        }
        let done = text::listed(&done, "and");
        let mut reasons = Vec::new();
        for trial in trials.iter().rev() {
            let said = trial.verdict.reasons.iter().zip(&trial.verdict.severities);
            reasons.extend(said.map(|(reason, is)| FinalReason {
                word: trust_word(*is),
                trial: if trials.len() > 1 { trial.id.clone() } else { String::new() },
                what: with_code(&text::stopped(reason)),
            }));
        }
        // Only the reasons of the last trials, because a long list is not readable.
        reasons.truncate(LISTED);
        let since_ms = phase.since_unix_s.map(milliseconds);
        let RunPhase { heading, phase, of, stopped, pending, .. } = phase;
        self.0.fill(
            "live_verdict.html",
            &json!({
                "heading": heading, "phase": phase, "since_ms": since_ms, "of": of, "stopped": stopped, "pending": pending, "done": done,
                "reasons": reasons,
            }),
        )
    }

    pub fn figures(&self, figures: &[HeadlineFigure]) -> Result<String, Error> {
        self.0.fill("live_figures.html", &json!({ "figures": figures }))
    }

    /// Returns the faults of the current trial; empty without any.
    pub fn faults(&self, faults: &[LiveFault]) -> Result<String, Error> {
        let faults: Vec<FaultRow<'_>> = faults.iter().map(row_of_fault).collect();
        self.0.fill("live_faults.html", &json!({ "faults": faults }))
    }

    /// Returns the plan around the current trial: the last trials that have ended, and the next
    /// ones.
    pub fn plan(&self, trials: &[LiveTrial], judged: &[Trial]) -> Result<String, Error> {
        let first_open = trials.iter().position(|trial| trial.state.is_empty()).unwrap_or(trials.len());
        let from = first_open.saturating_sub(LISTED);
        let until = trials.len().min(first_open + LISTED);
        let before = if from > 0 { format!("{from} earlier trials are not listed. ") } else { String::new() };
        let after = match trials.len() - until {
            0 => String::new(),
            left => format!("{left} follow."),
        };
        let columns = vec![
            Column::text("trial"),
            Column::text("state"),
            Column::numeric("ok/s", "`ok` operations per second over the whole load, warm-up included"),
            Column::numeric("not ok", "operations that failed, timed out or were wrong"),
            Column::numeric("p50", "median latency of `ok` operations, warm-up included"),
            Column::numeric("p99", "99th percentile of the same latency"),
            Column::text("verdict"),
        ];
        let note = format!("{before}{after} The report leaves out the warm-up.");
        let rows = trials[from..until].iter().map(|trial| row_of_trial(trial, judged)).collect();
        Table::new("The plan", note.trim().to_owned(), columns)
            .filled(rows)
            .map_or(Ok(String::new()), |table| self.0.table(table))
    }

    /// Returns the report's charts and tables of the current trial.
    pub fn trial(&self, input: &ReportInput) -> Result<String, Error> {
        self.parts(OF_TRIAL, input)
    }

    /// Returns the report's charts over the swept paths, of trials that have ended.
    pub fn sweep(&self, results: &Results, plan: &Plan) -> Result<String, Error> {
        self.parts(OF_ENDED, &ReportInput::without_records(results, plan))
    }

    /// Returns parts of the report with the data of their charts. A part without content is left
    /// out.
    fn parts(&self, parts: &[Part], input: &ReportInput) -> Result<String, Error> {
        let mut filled = FilledCharts { templates: &self.0, data: serde_json::Map::new() };
        let mut markup = String::new();
        for part in parts {
            markup.extend(filled.part(part, false, input)?.map(|part| part.markup));
        }
        if !filled.data.is_empty() {
            let data = json_in_script(&serde_json::Value::Object(filled.data).to_string());
            markup.push_str(&format!("<script type=\"application/json\" class=\"part-data\">{data}</script>"));
        }
        Ok(markup)
    }
}

fn row_of_fault(fault: &LiveFault) -> FaultRow<'_> {
    let is_low = matches!(fault.recovery, RecoveryClock::Runs(_) | RecoveryClock::NotBack);
    FaultRow {
        name: &fault.name,
        what: &fault.what,
        planned: &fault.planned,
        state: if fault.state.is_empty() { "to come" } else { &fault.state },
        tone: if fault.acts { Tone::Doubtful } else { Tone::Plain },
        before: fault.before_per_s.map_or_else(String::new, |per_s| format!("{} ok/s", numbers::number(per_s))),
        share: numbers::or_none(fault.share_pct, |pct| format!("{pct:.0} %")),
        share_tone: if is_low { Tone::Bad } else { Tone::Plain },
        since_ms: if let RecoveryClock::Runs(since_unix_s) = fault.recovery {
            Some(milliseconds(since_unix_s))
        } else {
            None
        },
        took: match fault.recovery {
            RecoveryClock::Took(0.0) => "no second below 90 %".to_owned(),
            RecoveryClock::Took(s) => numbers::seconds(s),
            RecoveryClock::NotBack => "not within the load".to_owned(),
            RecoveryClock::Unknown | RecoveryClock::Runs(_) => numbers::NONE.to_owned(),
        },
    }
}

fn row_of_trial(trial: &LiveTrial, judged: &[Trial]) -> Row {
    let verdict =
        judged.iter().find(|known| known.id == trial.id && known.ended.is_some()).map(|known| known.verdict.is);
    let verdict = verdict.map_or_else(|| Cell::new(numbers::NONE), |is| Cell::new(trust_word(is)).toned(tone_of(is)));
    let state = if trial.state.is_empty() { "to come" } else { &trial.state };
    Row::of(vec![
        Cell::new(trial.id.clone()).with(trial.name.clone()),
        Cell::new(state),
        Cell::of(trial.ok_per_s, numbers::number),
        trial.not_ok.map_or_else(|| Cell::new(numbers::NONE), Cell::loss),
        Cell::of(trial.p50_us, numbers::micros),
        Cell::of(trial.p99_us, numbers::micros),
        verdict,
    ])
}

/// Returns Unix time in milliseconds, as browsers use it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2⁵³ until the year 287396")]
fn milliseconds(unix_s: f64) -> u64 {
    (unix_s.max(0.0) * 1e3).round() as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::example;

    const EVIL: &str = "</script><script>alert(1)</script><img src=x onerror=y>";

    #[test]
    fn texts_of_a_running_experiment_are_escaped() {
        let evil = || EVIL.to_owned();
        let (mut plan, mut results) = example::policies();
        (plan.title, plan.asks) = (evil(), evil());
        for trial in &mut results.trials {
            (trial.variant, trial.verdict.reasons, trial.verdict.severities) =
                (Some(evil()), vec![evil()], vec![Trust::Void]);
            trial.operations.insert(evil(), record::results::Operation::default());
        }
        let page = LivePage::new().unwrap();
        let phase = RunPhase {
            heading: evil(),
            phase: evil(),
            since_unix_s: Some(1.0),
            of: evil(),
            stopped: evil(),
            pending: evil(),
        };
        let fault = LiveFault { name: evil(), what: evil(), planned: evil(), state: evil(), ..LiveFault::default() };
        let trial = LiveTrial { id: evil(), name: evil(), ..LiveTrial::default() };
        let series = example::series(&results.trials[0], 9);
        let input = ReportInput { trials: vec![series], ..ReportInput::without_records(&results, &plan) };
        let parts = [
            page.verdict(&phase, &results.trials).unwrap(),
            page.faults(&[fault]).unwrap(),
            page.plan(&[trial], &results.trials).unwrap(),
            page.trial(&input).unwrap(),
            page.sweep(&results, &plan).unwrap(),
        ];
        for part in parts {
            crate::tests::assert_balanced(&part);
            assert!(!part.contains("<img") && !part.contains("<script>"), "{part}");
        }
        let shell = page.shell(&plan).unwrap();
        crate::tests::assert_balanced(&shell);
        assert_eq!((shell.matches("<script").count(), shell.matches("<img").count()), (3, 0));
    }

    #[test]
    fn a_running_clock_is_rendered_as_its_start() {
        let page = LivePage::new().unwrap();
        let running = LiveFault { recovery: RecoveryClock::Runs(1_700_000_000.5), ..LiveFault::default() };
        let text = page.faults(std::slice::from_ref(&running)).unwrap();
        assert!(
            text.contains("data-since=\"1700000000500\"></span>"),
            "the browser's clock runs, not the text: {text}"
        );
    }

    #[test]
    fn a_long_plan_is_listed_around_the_current_trial() {
        let page = LivePage::new().unwrap();
        let mut trials = Vec::new();
        for number in 1..=90 {
            let state = if number <= 50 { "ended".to_owned() } else { String::new() };
            trials.push(LiveTrial { id: format!("{number:03}"), state, ..LiveTrial::default() });
        }
        let text = page.plan(&trials, &[]).unwrap();
        assert!(text.contains("42 earlier trials are not listed. 32 follow."), "{text}");
        assert!(text.contains(">043<") && text.contains(">058<") && !text.contains(">042<") && !text.contains(">059<"));
    }
}
