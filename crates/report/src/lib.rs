//! Report page and short texts from a run's results. Reads the results that the analysis wrote to
//! the run folder. The report must not judge again or invent values: it marks a value that was not
//! measured as such.

pub mod calibration;
mod charts;
pub mod compared;
mod drawing;
#[cfg(test)]
mod example;
mod failed_checks;
mod junit;
mod markdown;
mod page;
mod proofs;
mod run_charts;
pub mod selfcheck;
mod series;
pub mod summaries;
mod sweep_charts;
mod tables;
pub mod words;

use analysis::AnalyzedRun;
use experiment::plan::Plan;
use record::environment::Environment;
use record::folder::RunFolder;
use record::results::Results;

pub use page::contents::{ListedRun, contents, first_chart};
pub use page::live_page::{LiveFault, LivePage, LiveTrial, RecoveryClock, RunPhase};
pub use page::{HeadlineFigure, page};
pub use series::{CountSeries, LatencyDistribution, MemberSeries, TrialSeries, read_series};

/// Error when a page is made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A record exists and cannot be read.
    #[error(transparent)]
    Record(#[from] record::ReadError),
    /// One of Plimsoll's own templates is broken.
    #[error("the page's template `{template}`: {reason}")]
    Template {
        /// Name of the template.
        template: &'static str,
        /// Message of the template engine.
        reason: String,
    },
}

/// Data of the page.
#[derive(Debug, Clone)]
pub struct ReportInput<'a> {
    /// `analysis.json`.
    pub results: &'a Results,
    /// The plan of the run.
    pub plan: &'a Plan,
    /// Environment of the run. `None` if it was not recorded.
    pub environment: Option<Environment>,
    /// Name of the run folder, without its path. Empty if there is none.
    pub folder: String,
    /// Records per second of each trial that has records.
    pub trials: Vec<TrialSeries>,
}

impl<'a> ReportInput<'a> {
    /// Returns the input from results and plan alone.
    #[must_use]
    pub fn without_records(results: &'a Results, plan: &'a Plan) -> Self {
        Self { results, plan, environment: None, folder: String::new(), trials: Vec::new() }
    }
}

/// Reads the page's other data: the environment and the records of every trial. A missing record
/// counts as empty.
pub fn read<'a>(folder: &RunFolder, run: &'a AnalyzedRun, plan: &'a Plan) -> Result<ReportInput<'a>, Error> {
    let results = &run.results;
    let trials = results.trials.iter().zip(&run.latencies);
    let trials = trials.map(|(trial, latency)| read_series(&folder.trial(&trial.id), latency));
    let trials = trials.collect::<Result<Vec<_>, _>>()?;
    let name = folder.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(ReportInput { results, plan, environment: folder.read_environment()?, folder: name, trials })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use experiment::plan::Plan;
    use record::events::{Event, What};
    use record::results::Results;

    use super::*;

    fn input<'a>(results: &'a Results, plan: &'a Plan, seconds: u32) -> ReportInput<'a> {
        let trials = results.trials.iter().map(|trial| example::series(trial, seconds)).collect();
        ReportInput { results, plan, environment: Some(example::environment()), folder: "run".to_owned(), trials }
    }

    fn golden() -> RunFolder {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/golden/2026-11-20T10-31-05-a-name-server-crashes");
        RunFolder::at(&PathBuf::from(folder))
    }

    /// Returns the golden run with its recorded analysis.
    fn golden_run(folder: &RunFolder) -> AnalyzedRun {
        let latencies = analysis::analyze_to_draw(folder).unwrap().latencies;
        AnalyzedRun { results: folder.read_results().unwrap().unwrap(), latencies }
    }

    /// Checks that all tags are balanced, except elements without an end tag.
    pub(crate) fn assert_balanced(html: &str) {
        const VOID: [&str; 3] = ["!doctype", "meta", "br"];
        let (mut open, mut rest) = (Vec::new(), html);
        while let Some(at) = rest.find('<') {
            rest = &rest[at + 1..];
            let end = rest.find('>').expect("a tag that does not end");
            let tag = &rest[..end];
            assert!(!tag.contains('<'), "a raw `<` before: {tag}");
            rest = &rest[end + 1..];
            let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap().to_owned();
            if let Some(closed) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(closed), "at {}", &rest[..rest.len().min(80)]);
            } else if !tag.ends_with('/') && !VOID.contains(&name.as_str()) {
                open.push(name.clone());
            }
            // Script and style contain no markup.
            if matches!(name.as_str(), "script" | "style") && !tag.starts_with('/') {
                let close = format!("</{name}>");
                rest = &rest[rest.find(&close).expect("an element that does not end")..];
            }
        }
        assert_eq!(open, Vec::<String>::new());
    }

    #[test]
    fn the_page_is_balanced_and_loads_nothing() {
        let (plan, results) = example::policies();
        let page = page(&input(&results, &plan, 9)).unwrap();
        assert_balanced(&page);
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        let mut ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "two elements of one id");
    }

    #[test]
    fn the_answer_and_the_verdict_come_first() {
        let (plan, results) = example::one_crash();
        let page = page(&input(&results, &plan, 30)).unwrap();
        let order = [
            "<h1>A name server crashes at full load</h1>",
            "How many calls fail",
            "made 99 of 1,834,666 operations fail over 12 ms",
            "class=\"verdict\"",
            "p99 latency",
            "<h2>Charts</h2>",
            "Operations by outcome</text>",
            "Latency</text>",
            "Latency distribution</text>",
            "Around the fault, in steps of 5 ms</text>",
            "Effect of each fault on clients",
            "<h2>Operations",
            "Attempts by result",
            "Consistency",
            "<h2>Environment",
            "<h2>Load generator",
            "To run it again",
        ];
        let places: Vec<usize> =
            order.iter().map(|text| page.find(text).unwrap_or_else(|| panic!("no {text}"))).collect();
        assert!(places.is_sorted(), "{places:?}");
    }

    #[test]
    fn the_warning_of_a_void_result_appears_once() {
        let (plan, mut results) = example::one_crash();
        results.verdict = record::results::Verdict {
            is: record::results::Trust::Void,
            reasons: vec!["the clock jumped".to_owned()],
            ..Default::default()
        };
        results.trials[0].verdict = results.verdict.clone();
        let page = page(&input(&results, &plan, 9)).unwrap();
        assert_eq!(page.matches("must not be used").count(), 1);
    }

    #[test]
    fn texts_of_experiments_and_targets_are_escaped() {
        const EVIL: &str = "</script><script>alert(1)</script>'\"><img onerror=x>`{{ 7 * 6 }}";
        let evil = || EVIL.to_owned();
        let (mut plan, mut results) = example::policies();
        (results.title, results.asks, results.partial) = (evil(), evil(), Some(evil()));
        results.verdict.reasons = vec![evil()];
        results.claims[0].says = evil();
        results.requirements[0].metric = evil();
        plan.variants = vec![evil()];
        for trial in &mut results.trials {
            trial.variant = Some(evil());
            trial.verdict.reasons = vec![evil()];
            trial.attempt_results.insert(evil(), 3);
            let example =
                record::events::FailureExample { request: evil(), answer: Some(evil()), ..Default::default() };
            trial.examples = vec![example];
            let mut checks = example::failed_checks();
            checks.extend(checks.get("login").cloned().map(|login| (evil(), login)));
            trial.checks = checks;
            trial.operations.insert(evil(), record::results::Operation::default());
            trial.consistency.lost_examples = vec![evil()];
            trial.generator.limit = evil();
            trial.hosts[0].name = evil();
            trial.metrics.insert(evil(), record::results::TargetMetric::default());
            let fault = &mut trial.faults[0];
            (fault.name, fault.label, fault.on, fault.colour) = (evil(), evil(), evil(), evil());
        }
        let mut input = input(&results, &plan, 9);
        input.folder = evil();
        input.environment.as_mut().unwrap().more.insert(evil(), evil());
        for series in &mut input.trials {
            series.samples.iter_mut().for_each(|sample| (sample.host, sample.process) = (evil(), evil()));
            series.samples.truncate(20);
            let points = vec![(1.0, Some(1.0)), (2.0, Some(3.0))];
            series.metrics = vec![series::MetricSeries { name: evil(), host: evil(), points, ..Default::default() }];
            series.events.push(Event {
                at_s: 1.0,
                what: What::Log {
                    host: evil(),
                    process: evil(),
                    line: evil(),
                    text: evil(),
                    alarming: true,
                    left_out: 0,
                },
            });
        }
        let page = page(&input).unwrap();
        assert_balanced(&page);
        assert_eq!(page.matches("<script").count(), 2);
        assert!(!page.contains("<img") && page.contains("{{ 7 * 6 }}"));
    }

    #[test]
    fn an_empty_run_has_a_page() {
        let plan = example::plan(&[], &[], 1);
        let results = Results { partial: Some("the target failed to start".to_owned()), ..Results::default() };
        let input =
            ReportInput { environment: None, folder: String::new(), trials: Vec::new(), ..input(&results, &plan, 1) };
        let page = page(&input).unwrap();
        assert_balanced(&page);
        assert!(page.contains("Nothing was measured"));
    }

    #[test]
    fn thirty_long_trials_stay_below_3_mb() {
        let plan = example::plan(&["a", "b", "c", "d", "e"], &[("x", &["1", "2"])], 3);
        let mut results = example::results(&plan);
        results.trials.iter_mut().for_each(example::crash);
        let mut input = input(&results, &plan, 180);
        for series in &mut input.trials {
            let counts: Vec<u64> = (0..180).map(|second| 900 + second % 17 * 31).collect();
            series.by_operation = ["save", "load", "remove"].map(|name| (name.to_owned(), counts.clone())).to_vec();
            series.by_result = ["ok", "status 503"].map(|name| (name.to_owned(), counts.clone())).to_vec();
        }
        let page = page(&input).unwrap();
        assert!(page.len() < 3_000_000, "{} bytes", page.len());
    }

    #[test]
    fn the_golden_run_has_a_page_and_a_summary() {
        let folder = golden();
        let (run, plan) = (golden_run(&folder), example::plan_of(&folder));
        let (input, results) = (read(&folder, &run, &plan).unwrap(), &run.results);
        assert!(input.trials.iter().all(|series| !series.latency.is_empty() && !series.samples.is_empty()));
        let page = page(&input).unwrap();
        assert_balanced(&page);
        for trial in &results.trials {
            assert!(page.contains(&format!("id=\"t{}-outcomes-1\"", trial.id)));
        }
        insta::assert_snapshot!(words::summary(results, &plan, false));
    }

    /// Writes pages for visual inspection:
    /// `PAGES=folder cargo test -p plimsoll-report -- --ignored look`.
    #[test]
    #[ignore = "writes pages to look at"]
    fn look() {
        let to = PathBuf::from(std::env::var_os("PAGES").expect("PAGES"));
        let write = |name: &str, page: String| std::fs::write(to.join(name), page).unwrap();
        let (plan, mut results) = example::one_crash();
        write("crash.html", page(&input(&results, &plan, 30)).unwrap());
        results.trials[0].consistency = example::violated();
        write("violated.html", page(&input(&results, &plan, 30)).unwrap());
        let (plan, results) = example::policies();
        write("policies.html", page(&input(&results, &plan, 30)).unwrap());
        let folder = golden();
        let (run, plan) = (golden_run(&folder), example::plan_of(&folder));
        write("golden.html", page(&read(&folder, &run, &plan).unwrap()).unwrap());
    }
}
