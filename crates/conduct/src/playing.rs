//! Playing of a run: the run's inputs, its trials in order, and its ending.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use experiment::manifest::Manifest;
use experiment::plan::{Plan, Trial};
use experiment::search::Finished;
use experiment::secrets::Secrets;
use record::events::{Ending, Phase, RunEnding, SweepStop, What};
use record::folder::RunFolder;
use record::results::SearchStep;

use crate::shared_start::KeptParts;
use crate::{Error, Interrupts, Observer, ProgressEvent, trial};

/// Inputs of a run.
#[derive(Clone)]
pub struct Run<'a> {
    pub plan: &'a Plan,
    /// The run's folder, which already contains `experiment.toml`, `plan.json` and
    /// `environment.json`.
    pub folder: &'a RunFolder,
    /// Returns a target's manifest and folder, by the target's name.
    pub targets: &'a dyn Fn(&str) -> Option<(Manifest, PathBuf)>,
    /// The folder that feed files are relative to.
    pub files: PathBuf,
    /// Secrets that no record may contain.
    pub secrets: &'a Secrets,
    /// Path of this program, which is started as built-in target, generator and runner.
    pub plimsoll: PathBuf,
}

/// Plays every trial that has no complete records yet, and writes `ending.json`.
///
/// # Errors
/// The reason why the run could not continue. The records up to that point are kept.
pub fn play(run: &Run<'_>, observer: &mut dyn Observer, interrupts: &Interrupts) -> Result<Ending, Error> {
    let registry = lab::registry::Registry::begin(run.folder.path())?;
    // After a panic everything is taken down as usual, and the measurements so far are kept.
    let (mut stops, mut kept) = (Vec::new(), KeptParts::default());
    let playing = AssertUnwindSafe(|| play_trials(run, &registry, observer, interrupts, &mut kept, &mut stops));
    let played = catch_unwind(playing).unwrap_or_else(|panic| Err(Error::Panicked(panic_text(&*panic))));
    let ended = kept.end();
    let played = played.and_then(|played| ended.map(|()| played));
    registry.end();
    let (how, reason) = match &played {
        Ok((how, reason)) => (*how, reason.clone()),
        Err(error) => (Ending::Failed, Some(error.to_string())),
    };
    let reason = reason.map(|reason| run.secrets.hidden(&reason).into_owned());
    run.folder.write_ending(&RunEnding { how, reason, stops }).map_err(Error::Record)?;
    played.map(|(how, _)| how)
}

/// Returns the plan as it is recorded in `plan.json`: without secrets.
pub fn recorded(plan: &Plan, secrets: &Secrets) -> std::io::Result<serde_json::Value> {
    let mut plan = serde_json::to_value(plan)?;
    secrets.hide(&mut plan);
    Ok(plan)
}

/// Returns the message of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no reason given").to_owned()
}

fn play_trials(
    run: &Run<'_>,
    registry: &lab::registry::Registry,
    observer: &mut dyn Observer,
    interrupts: &Interrupts,
    kept: &mut KeptParts,
    stops: &mut Vec<SweepStop>,
) -> Result<(Ending, Option<String>), Error> {
    let mut queue = TrialQueue::begin(run)?;
    let mut number = 0;
    while let Some(trial) = queue.next(run)? {
        // If the user interrupted while the last trial was taken down, no lab is made for the next.
        if number > 0 && interrupts.asked() > 0 {
            return Ok((Ending::Interrupted, None));
        }
        number += 1;
        if let Some(stop) = queue.left_out(&trial, stops) {
            observer.tell(&ProgressEvent::NotPlayed { trial: &trial, number, of: queue.count, stop });
            continue;
        }
        observer.tell(&ProgressEvent::TrialBegins { trial: &trial, number, of: queue.count });
        let run_now = Run { plan: &queue.plan, ..run.clone() };
        // If the run's first start fails, a wrong file is more likely than bad luck, so it is not
        // repeated. A search repeats it anyway, because a failed trial gives no answer.
        let starts = if number > 1 || queue.plan.find.is_some() { STARTS } else { 1 };
        let (how, reason) = started(&run_now, registry, &trial, kept, observer, interrupts, starts)?;
        observer.tell(&ProgressEvent::TrialEnds { how, reason: reason.as_deref() });
        if how != Ending::Done {
            return Ok((how, reason));
        }
        if let Some(step) = queue.learn(run, &trial)? {
            let limits = queue.plan.find.as_ref().map(|find| find.limits.as_slice()).unwrap_or_default();
            observer.tell(&ProgressEvent::Answered { trial: &trial, step: &step, limits });
        }
    }
    Ok((Ending::Done, None))
}

/// Number of times that a target is started before its trial is given up.
const STARTS: u32 = 3;

/// Plays a trial. If its target does not start, repeats the trial with a notice, up to `starts`
/// starts in all.
fn started(
    run: &Run<'_>,
    registry: &lab::registry::Registry,
    trial: &Trial,
    kept: &mut KeptParts,
    observer: &mut dyn Observer,
    interrupts: &Interrupts,
    starts: u32,
) -> Result<(Ending, Option<String>), Error> {
    let mut earlier = None;
    for start in 2..=starts {
        match trial::play(run, registry, trial, earlier.take(), kept, observer, interrupts) {
            Err(error) if interrupts.asked() == 0 && did_not_start(run.folder, &trial.id, &error) => {
                earlier = Some(format!("{error}; the target is started again ({start} of {starts})"));
            }
            ended => return ended,
        }
    }
    trial::play(run, registry, trial, earlier, kept, observer, interrupts)
}

/// Whether a trial ended because its target did not start at first. A failed restart during the
/// trial does not count.
fn did_not_start(folder: &RunFolder, id: &str, error: &Error) -> bool {
    let events = record::lines::read_events(&folder.trial(id).events()).map(|events| events.items).unwrap_or_default();
    let mut phases = events.iter().map(|event| &event.what);
    let has_started = phases.any(|what| matches!(what, What::Phase { phase: Phase::Preparing | Phase::Load }));
    matches!(error, Error::Lab(error) if error.is_targets()) && !has_started
}

/// Trials that are still to be played: the plan's trials without complete records, and for a search
/// the trials that follow from the finished ones. The state is read from the run folder, so that a
/// run can be resumed.
struct TrialQueue {
    plan: Plan,
    /// Trials of the plan without complete records.
    open: VecDeque<Trial>,
    /// Number of trials to play; `None` if it depends on their results.
    count: Option<usize>,
    finished: Vec<Finished>,
    /// Trials that met the condition of the sweep's stop rule, each with an explanation.
    met: Vec<(Trial, String)>,
}

impl TrialQueue {
    fn begin(run: &Run<'_>) -> Result<Self, Error> {
        let (done, open): (Vec<&Trial>, Vec<&Trial>) =
            run.plan.trials.iter().partition(|trial| is_done(run.folder, &trial.id));
        let mut queue = Self {
            plan: run.plan.clone(),
            count: run.plan.find.is_none().then_some(open.len()),
            open: open.into_iter().cloned().collect(),
            finished: Vec::new(),
            met: Vec::new(),
        };
        for trial in done {
            queue.learn(run, trial)?;
        }
        Ok(queue)
    }

    /// Returns the stop that excludes a trial, if there is one. Adds the trial to the stop's list
    /// of trials that were not played.
    fn left_out<'s>(&self, trial: &Trial, stops: &'s mut Vec<SweepStop>) -> Option<&'s SweepStop> {
        let rule = self.plan.stop.as_ref()?;
        let met = self.met.iter().filter(|(met, _)| rule.leaves_out(trial, met));
        let met = met.map(|(met, because)| (rule.value(met).unwrap_or(f64::INFINITY), met, because));
        let (_, met, because) = met.min_by(|(a, ..), (b, ..)| a.total_cmp(b))?;
        let index = stops.iter().position(|stop| stop.trial == met.id).unwrap_or_else(|| {
            stops.push(SweepStop {
                variant: met.variant.clone(),
                point: met.point.clone(),
                over: rule.over.clone(),
                trial: met.id.clone(),
                because: because.clone(),
                not_played: Vec::new(),
            });
            stops.len() - 1
        });
        stops[index].not_played.push(trial.id.clone());
        stops.get(index)
    }

    /// Returns the next trial. Adds a trial made by a search to `plan.json` before it is played.
    fn next(&mut self, run: &Run<'_>) -> Result<Option<Trial>, Error> {
        if let Some(open) = self.open.pop_front() {
            return Ok(Some(open));
        }
        let Some(next) = self.plan.next(&self.finished) else { return Ok(None) };
        self.plan.trials.push(next.clone());
        recorded(&self.plan, run.secrets)
            .and_then(|plan| record::checked_file::write_json(&run.folder.plan(), &plan))
            .map_err(Error::Record)?;
        Ok(Some(next))
    }

    /// Adds the result of a finished trial to the search, and checks the stop rule of the sweep.
    fn learn(&mut self, run: &Run<'_>, trial: &Trial) -> Result<Option<SearchStep>, Error> {
        let folder = run.folder.trial(&trial.id);
        let because = analysis::stops_sweep(&self.plan, trial, &folder)?;
        self.met.extend(because.map(|because| (trial.clone(), because)));
        let results = analysis::finished(&self.plan, trial, &folder)?;
        let Some((finished, step)) = results else { return Ok(None) };
        self.finished.push(finished);
        Ok(Some(step))
    }
}

/// Whether the folder has the complete records of this trial.
fn is_done(folder: &RunFolder, id: &str) -> bool {
    let Ok(events) = record::lines::read_events(&folder.trial(id).events()) else { return false };
    events.items.last().is_some_and(|event| matches!(event.what, What::Ended { how: Ending::Done, .. }))
}
