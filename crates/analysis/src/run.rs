//! A run: combines its plan and every trial with records into results. Also finds the run folders
//! that a user names.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::path::Path;

use experiment::plan::{self, MetricExpression, MetricFunction, MetricPath, MetricTerm, Plan};
use record::checked_file::read_json_up_to;
use record::events::{Ending, RunEnding, What};
use record::folder::RunFolder;
use record::results::{Claim, FORMAT, Requirement, Results, SafeLoad, Trial};
use record::{ReadError, lines};

use crate::answer::{answer, further};
use crate::audit::pooled;
use crate::evidence::Evidence;
use crate::latency_series::LatencySeries;
use crate::safe_load::{self, SearchTrial};
use crate::trial::judged;
use crate::trial_groups::counting_by_variant;
use crate::verdict::{RuleFinding, RunContext, lost_trial, of_used, run_verdict, without_success};
use crate::versions::EarlierVersions;
use crate::{Error, claims, comparisons, cost, demanded_hosts, faults, plausibility, scaling};

/// Results of a run, and the latency of its trials for charts.
#[derive(Debug, Clone)]
pub struct AnalyzedRun {
    /// `analysis.json`.
    pub results: Results,
    /// Latency over time of each trial in `results`.
    pub latencies: Vec<LatencySeries>,
}

/// Returns the results of a run, as far as its records go.
///
/// # Errors
/// If the folder has no plan, if a later version wrote it, or if a record is damaged elsewhere than
/// at its end.
pub fn analyze(folder: &RunFolder) -> Result<Results, Error> {
    analyze_for(folder, &[])
}

/// Analyzes a run with the percentiles of these metrics, in addition to those of the plan.
///
/// # Errors
/// Fails as [`analyze`] does.
pub(crate) fn analyze_for(folder: &RunFolder, metrics: &[String]) -> Result<Results, Error> {
    let metrics: Vec<MetricPath> = metrics.iter().map(|path| path.as_str().into()).collect();
    analyzed(folder, &metrics).map(|run| run.results)
}

/// Analyzes a run and also returns the latency series for its charts.
///
/// # Errors
/// Fails as [`analyze`] does.
pub fn analyze_to_draw(folder: &RunFolder) -> Result<AnalyzedRun, Error> {
    analyzed(folder, &[])
}

fn analyzed(folder: &RunFolder, metrics: &[MetricPath]) -> Result<AnalyzedRun, Error> {
    let plan = plan_of(folder)?;
    folder.refuse_later_results()?;
    let ids = folder.trial_ids().map_err(Error::List)?;
    let ending = folder.read_ending()?;
    let is_over = ending.as_ref().is_some_and(|ending| ending.how == Ending::Done);
    let mut trials: Vec<Trial> = Vec::new();
    let mut latencies: Vec<LatencySeries> = Vec::new();
    let mut findings: Vec<(String, Vec<RuleFinding>)> = Vec::new();
    let mut steps: Vec<SearchTrial> = Vec::new();
    let mut earlier = EarlierVersions::default();
    for planned in plan.trials.iter().filter(|planned| ids.contains(&planned.id)) {
        let trial_folder = folder.trial(&planned.id);
        let mut evidence = Evidence::read(planned, &trial_folder)?;
        let of_run = RunContext { plan: Some(&plan), metrics, earlier: Some(&earlier), is_over };
        let (trial, found) = judged(planned, &trial_folder, &mut evidence, of_run)?;
        earlier.add(planned, &evidence);
        steps.extend(plan.find.as_ref().map(|find| safe_load::step(find, &trial, &found)));
        findings.push((trial.id.clone(), found));
        trials.push(trial);
        latencies.push(evidence.latency_series());
    }
    let sweep_stops = ending.as_ref().map(|ending| ending.stops.clone()).unwrap_or_default();
    let left_out: Vec<&String> = sweep_stops.iter().flat_map(|stop| &stop.not_played).collect();
    let partial = partial(ending.as_ref(), plan.trials.len() - left_out.len().min(plan.trials.len()), &trials);
    let safe_loads = plan.find.as_ref().map(|find| safe_load::safe_loads(find, &steps)).unwrap_or_default();
    if let Some(find) = &plan.find {
        let used = safe_load::used(find, &steps);
        findings.retain(|(id, _)| used.contains(id));
    } else {
        findings = of_used(&trials, findings);
    }
    without_success(&trials, &mut findings);
    let lost =
        plan.trials.iter().filter(|planned| is_over && !ids.contains(&planned.id) && !left_out.contains(&&planned.id));
    findings.extend(lost.map(|planned| (planned.id.clone(), vec![lost_trial()])));
    let (claims, requirements) = held_gates(&plan, &trials, &safe_loads);
    let drawn = counting_by_variant(&trials, &plan.variants);
    let mut results = Results {
        format: FORMAT,
        partial,
        verdict: run_verdict(&findings),
        planned_trials: u32::try_from(plan.trials.len()).unwrap_or(u32::MAX),
        claims,
        requirements,
        safe_load: safe_load::lowest(&safe_loads),
        // Trials of a search have different loads and are not compared.
        comparisons: if plan.find.is_some() { Vec::new() } else { comparisons::within(&plan, &trials) },
        scaling: scaling::scaling(&drawn, &plan.swept),
        crossings: scaling::crossings(&drawn, &plan.swept),
        outages: faults::distributions(&trials),
        // A search has no points whose repeats could be combined.
        costs: if plan.find.is_some() { Vec::new() } else { cost::points(&drawn) },
        demanded_hosts: demanded_hosts::hosts(&plan, &trials, &safe_loads),
        safe_loads,
        // Each trial of a search has a different load, and some loads exceed the target's capacity.
        consistencies: if plan.find.is_some() { Vec::new() } else { pooled(&trials) },
        title: plan.title.clone(),
        asks: plan.asks.clone(),
        trials,
        sweep_stops,
        ..Results::default()
    };
    (results.answer, results.findings) = (answer(&results, &plan), further(&results, &plan));
    Ok(AnalyzedRun { results, latencies })
}

/// Checks the plan's claims and requirements against the trials to which they apply. In a search,
/// those are the trials at the safe load, because a search overloads the target on purpose.
fn held_gates(plan: &Plan, trials: &[Trial], safe_loads: &[SafeLoad]) -> (Vec<Claim>, Vec<Requirement>) {
    let at_safe_load = plan.find.as_ref().map(|_| safe_load::at_safe_loads(safe_loads, trials));
    let in_file_order = LazyCell::new(|| in_file_order(plan, trials));
    let of = |metric: &MetricExpression| match metric.term() {
        MetricTerm::Function(MetricFunction::Onset(..)) => in_file_order.as_slice(),
        MetricTerm::Path(_) => at_safe_load.as_deref().unwrap_or(trials),
        _ => trials,
    };
    let claims = plan.claims.iter().map(|claim| claims::claim(claim, of(&claim.metric), safe_loads)).collect();
    let required = plan.requirements.iter().map(|gate| {
        let held = claims::requirement(gate, of(&gate.metric), safe_loads);
        let searched = plan.find.is_some() && gate.metric.path().is_some();
        if searched { safe_load::said_of_it(held, of(&gate.metric)) } else { held }
    });
    (claims, required.collect())
}

/// Returns the trials in the order in which the file lists variants and points, for functions that
/// search for an onset.
fn in_file_order(plan: &Plan, trials: &[Trial]) -> Vec<Trial> {
    let places: BTreeMap<&str, usize> = plan.trials.iter().map(|trial| (trial.id.as_str(), trial.place)).collect();
    let mut trials = trials.to_vec();
    trials.sort_by_key(|trial| places.get(trial.id.as_str()).copied());
    trials
}

pub(crate) fn plan_of(folder: &RunFolder) -> Result<Plan, Error> {
    let plan = read_json_up_to(&folder.plan(), plan::FORMAT)?;
    let plan = plan.ok_or_else(|| Error::NotARun(folder.path().to_path_buf()))?;
    plausibility::plan(&folder.plan(), &plan)?;
    Ok(plan)
}

/// Returns the reason if the results do not cover all planned trials.
fn partial(ending: Option<&RunEnding>, planned: usize, trials: &[Trial]) -> Option<String> {
    let done = trials.iter().filter(|trial| trial.ended == Some(Ending::Done)).count();
    let how = match ending.map(|ending| ending.how) {
        Some(Ending::Done) if done == planned => return None,
        Some(Ending::Done) => "the run ended",
        Some(Ending::Interrupted) => "the run was interrupted",
        Some(Ending::Failed) => "the run failed",
        None => "the run is still going on, or was killed",
    };
    let reason = ending.filter(|ending| ending.how != Ending::Done).and_then(|ending| ending.reason.as_ref());
    let how = format!("{how}{}", reason.map_or_else(String::new, |reason| format!(" ({reason})")));
    let without = planned - trials.len().min(planned);
    Some(match without {
        0 => format!("{how}: {done} of {planned} trials are complete"),
        _ => format!("{how}: {done} of {planned} trials are complete, {without} have no records"),
    })
}

/// Returns the run folder at `path`, or the run folders in it. `hint` is the advice in the error
/// message.
pub(crate) fn found(path: &Path, hint: &str) -> Result<Vec<RunFolder>, Error> {
    let nothing = |what: String| Error::Incomparable { what, hint: hint.to_owned() };
    let folders = RunFolder::found_at(path).map_err(|error| nothing(format!("{}: {error}", path.display())))?;
    if folders.is_empty() {
        return Err(nothing(format!("{} is not a run folder and contains none: plan.json is missing", path.display())));
    }
    Ok(folders)
}

/// Returns the calendar time at which a trial's load began, or `None` if the load did not begin.
pub(crate) fn started_unix_s(folder: &RunFolder, id: &str) -> Result<Option<f64>, ReadError> {
    let events = lines::read_events(&folder.trial(id).events())?.items;
    Ok(events.iter().find_map(|event| match event.what {
        What::Clock { unix_s } => Some(unix_s),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use fixture::TestDir;
    use record::checked_file::{read_json, write_json};
    use record::events::{Event, SweepStop};
    use record::lines::JsonLinesWriter;
    use record::results::{Outcomes, Trust};

    use super::*;
    use crate::synthetic;

    /// A run folder for one test.
    struct TestRun {
        folder: RunFolder,
        _removed: TestDir,
    }

    impl TestRun {
        fn new(trials: u32) -> Self {
            let scratch = TestDir::new();
            let folder = RunFolder::at(&scratch);
            let trial =
                |number: u32| plan::Trial { id: format!("{number:03}"), ..synthetic::trial(synthetic::load(10, 20.0)) };
            let plan = Plan {
                format: 1,
                title: "t".into(),
                asks: "a".into(),
                variants: Vec::new(),
                swept: Vec::new(),
                stop: None,
                trials: (1..=trials).map(trial).collect(),
                requirements: Vec::new(),
                claims: Vec::new(),
                find: None,
                demand: None,
            };
            write_json(&folder.plan(), &plan).unwrap();
            Self { folder, _removed: scratch }
        }

        fn play(&self, id: &str, how: Option<Ending>) {
            let trial = self.folder.create_trial(id).unwrap();
            let mut events = JsonLinesWriter::create(&trial.events()).unwrap();
            events.write(&Event { at_s: 0.0, what: What::Clock { unix_s: 1.0 } }).unwrap();
            if let Some(how) = how {
                events.write(&Event { at_s: 21.0, what: What::Ended { how, reason: None } }).unwrap();
            }
        }

        fn end(&self, how: Ending, reason: Option<&str>) {
            self.folder.write_ending(&RunEnding { how, reason: reason.map(str::to_owned), stops: Vec::new() }).unwrap();
        }

        fn partial(&self) -> Option<String> {
            analyze(&self.folder).unwrap().partial
        }
    }

    #[test]
    fn a_run_is_partial_until_all_trials_are_complete() {
        let run = TestRun::new(2);
        assert_eq!(
            run.partial().unwrap(),
            "the run is still going on, or was killed: 0 of 2 trials are complete, 2 have no records"
        );
        run.play("001", Some(Ending::Done));
        run.play("002", None);
        run.end(Ending::Interrupted, Some("SIGTERM"));
        assert_eq!(run.partial().unwrap(), "the run was interrupted (SIGTERM): 1 of 2 trials are complete");
        run.end(Ending::Done, None);
        assert_eq!(run.partial().unwrap(), "the run ended: 1 of 2 trials are complete");
        run.folder.discard_trial("002").unwrap();
        run.play("002", Some(Ending::Done));
        assert_eq!(run.partial(), None);
        let results = analyze(&run.folder).unwrap();
        assert_eq!((results.format, results.planned_trials, results.trials.len()), (1, 2, 2));
        assert!(results.answer.ends_with("Nothing was measured: no operation ended."), "{}", results.answer);
    }

    #[test]
    fn an_onset_follows_the_order_of_the_experiment_file() {
        let order = [("001", 2, 256), ("002", 0, 64), ("003", 1, 128)];
        let planned = |(id, place, _): &(&str, usize, u64)| plan::Trial {
            id: (*id).to_owned(),
            place: *place,
            ..synthetic::trial(synthetic::load(10, 20.0))
        };
        let played = |(id, _, agents): &(&str, usize, u64)| Trial {
            id: (*id).to_owned(),
            point: BTreeMap::from([("load.agents".to_owned(), (*agents).into())]),
            outcomes: Outcomes { timeout: agents - 64, ..Outcomes::default() },
            ..Trial::default()
        };
        let claim = plan::Claim {
            says: String::new(),
            source: String::new(),
            metric: "onset(outcomes.timeout, load.agents)".into(),
            range: plan::MetricRange::default(),
            filter: BTreeMap::new(),
            on_void: false,
        };
        let plan = Plan { trials: order.iter().map(planned).collect(), claims: vec![claim], ..synthetic::plan() };
        let trials: Vec<Trial> = order.iter().map(played).collect();
        let (claims, _) = held_gates(&plan, &trials, &[]);
        assert_eq!((claims[0].value, claims[0].note.as_str()), (Some(128.0), "at 128 in 1 of 1 trials, none at 64"));
    }

    #[test]
    fn trials_skipped_by_a_stopped_sweep_are_not_missing() {
        let run = TestRun::new(3);
        run.play("001", Some(Ending::Done));
        let stop = SweepStop { trial: "001".into(), not_played: vec!["002".into()], ..SweepStop::default() };
        let end = |stops| run.folder.write_ending(&RunEnding { how: Ending::Done, reason: None, stops }).unwrap();
        end(vec![stop.clone()]);
        let results = analyze(&run.folder).unwrap();
        assert_eq!(results.partial.unwrap(), "the run ended: 1 of 2 trials are complete, 1 have no records");
        assert!(results.verdict.reasons.concat().contains("(and 1 more)"), "002 is not missed: {:?}", results.verdict);
        end(vec![SweepStop { not_played: vec!["002".into(), "003".into()], ..stop.clone() }]);
        let results = analyze(&run.folder).unwrap();
        assert_eq!((results.partial, results.planned_trials), (None, 3));
        assert!(!results.verdict.reasons.concat().contains("more)"), "{:?}", results.verdict);
        assert_eq!(results.sweep_stops[0].trial, "001");
    }

    #[test]
    fn unreadable_and_newer_runs_are_refused() {
        let run = TestRun::new(1);
        std::fs::write(run.folder.plan(), "{\"format\":99,\"new\":[]}").unwrap();
        let message = analyze(&run.folder).unwrap_err().to_string();
        assert!(message.contains("later version of Plimsoll (format 99"), "{message}");
        std::fs::write(run.folder.plan(), "{\"format\":1,\"title\":3}").unwrap();
        assert!(analyze(&run.folder).unwrap_err().to_string().contains("plan.json: "));
        std::fs::remove_file(run.folder.plan()).unwrap();
        assert!(analyze(&run.folder).unwrap_err().to_string().contains("is not a run folder"));
    }

    #[test]
    fn a_trial_without_any_file_has_results_without_figures() {
        let run = TestRun::new(1);
        run.folder.create_trial("001").unwrap();
        let results = analyze(&run.folder).unwrap();
        let trial = &results.trials[0];
        assert_eq!((trial.measured_s, trial.throughput.operations_per_s, &trial.latency_us), (None, None, &None));
        assert_eq!((trial.consistency.checked, trial.consistency.wrong), (None, None));
        assert_eq!(trial.generator.limit, "");
        assert!(!trial.verdict.reasons.is_empty());
    }

    #[test]
    fn a_broken_line_is_named_in_the_error() {
        let run = TestRun::new(1);
        let trial = run.folder.create_trial("001").unwrap();
        std::fs::write(trial.attempts(), "at_s,operation,result,count\n1,save,ok\n2,save,ok,7\n").unwrap();
        let message = analyze(&run.folder).unwrap_err().to_string();
        assert!(message.contains("attempts.csv:2: "), "{message}");
    }

    #[test]
    fn records_cut_off_anywhere_give_results() {
        let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../record/golden/2026-11-20T10-31-05-a-name-server-crashes/trials/001");
        let planned: Plan = read_json(&golden.join("../../plan.json")).unwrap().unwrap();
        let run = TestRun::new(1);
        let files = [
            "load.hlog",
            "outcomes.csv",
            "attempts.csv",
            "samples.csv",
            "generator.csv",
            "events.jsonl",
            "history.jsonl",
        ];
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..8 {
            run.folder.discard_trial("001").unwrap();
            let trial = run.folder.create_trial("001").unwrap();
            for file in files {
                let bytes = std::fs::read(golden.join(file)).unwrap();
                let cut = if random.bool() { random.usize(..=bytes.len()) } else { bytes.len() };
                std::fs::write(trial.path().join(file), &bytes[..cut]).unwrap();
            }
            let found = crate::trial(&planned.trials[0], &trial).unwrap();
            let all = found.outcomes;
            assert!(found.with_warmup.latency_us.is_none_or(|latency| latency.count == all.ok));
            assert!(found.measured_s.is_none_or(|[from_s, until_s]| from_s <= until_s));
        }
    }

    #[test]
    fn a_missing_trial_folder_voids_a_finished_run() {
        let run = TestRun::new(1);
        run.end(Ending::Interrupted, None);
        let is_lost =
            || analyze(&run.folder).unwrap().verdict.reasons.iter().any(|reason| reason.contains("no records"));
        assert!(!is_lost(), "the trial was not played yet");
        run.end(Ending::Done, None);
        assert!(is_lost());
        assert_eq!(analyze(&run.folder).unwrap().verdict.is, Trust::Void);
    }
}
