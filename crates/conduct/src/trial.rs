//! Shell of a trial: performs the conductor's actions on the lab and the load (preparation, load,
//! faults, read-back), and reports their results to the conductor, which alone decides on the next
//! action.

mod load_phase;
mod records;
mod step_runner;
mod target;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use experiment::catalog::Heals;
use experiment::manifest::Manifest;
use experiment::plan;
use fleet::session::SessionError;
use lab::registry::Registry;
use record::events::{Ending, What};

use crate::Error;
use crate::conductor::{Action, Conductor, Input};
use crate::examples::ExampleBook;
use crate::load_makers::BadEnd;
use crate::playing::Run;
use crate::progress::{Interrupts, Observer};
use crate::read_back::{ReadBack, ReadBackResult, ReadBackSetting, read_back, read_replicas};
use crate::schedule::Occurrence;
use crate::shared_start::KeptParts;
use crate::step_sequence::PlannedStep;
use crate::weight::DiskWatch;
use load_phase::LoadPhase;
use records::TrialRecords;
use step_runner::{StepRunner, left};
use target::TrialTarget;

/// Interval at which processes, signals and the load are checked.
const GLANCE: Duration = Duration::from_millis(10);

/// Plays one trial into its folder, after removing the files of an earlier attempt. `earlier` is a
/// notice about that attempt, for the trial's records.
///
/// # Errors
/// The reason why the trial could not be played. Everything that the trial started is down again.
pub fn play(
    run: &Run<'_>,
    registry: &Registry,
    trial: &plan::Trial,
    earlier: Option<String>,
    kept: &mut KeptParts,
    observer: &mut dyn Observer,
    interrupts: &Interrupts,
) -> Result<(Ending, Option<String>), Error> {
    run.folder.discard_trial(&trial.id).map_err(Error::Record)?;
    let folder = run.folder.create_trial(&trial.id).map_err(Error::Record)?;
    let examples = ExampleBook::of(trial.load.as_ref().map(load::environment_of).unwrap_or_default());
    let interrupts = PendingInterrupts { all: interrupts, answered: AtomicU8::new(0) };
    let context = &TrialContext { run, registry, trial, interrupts };
    let mut shell = TrialShell {
        context,
        records: TrialRecords::begin(run, folder, examples, observer)?,
        target: TrialTarget::new(context, &mut kept.target),
        load: LoadPhase::new(context, &mut kept.fleet),
        steps: StepRunner::default(),
        disk: DiskWatch::new(),
        is_ending: false,
    };
    if let Some(text) = earlier {
        shell.records.notice(text);
    }
    let ended = shell.play();
    shell.records.end()?;
    ended
}

/// The user's interruptions, and how many of them the conductor knows.
struct PendingInterrupts<'a> {
    all: &'a Interrupts,
    /// Number of interruptions that the conductor knows.
    answered: AtomicU8,
}

impl PendingInterrupts<'_> {
    /// Whether there are interruptions that the conductor does not know.
    fn is_pending(&self) -> bool {
        self.all.asked() > self.answered.load(Ordering::SeqCst)
    }

    /// Returns the input for interruptions that the conductor does not know.
    fn take(&self) -> Option<Input> {
        let asked = self.all.asked();
        let is_new = asked > self.answered.swap(asked, Ordering::SeqCst);
        is_new.then_some(if asked > 1 { Input::Aborted } else { Input::Interrupted })
    }
}

/// Inputs from which a trial is played.
struct TrialContext<'a> {
    run: &'a Run<'a>,
    registry: &'a Registry,
    trial: &'a plan::Trial,
    interrupts: PendingInterrupts<'a>,
}

impl TrialContext<'_> {
    /// Returns the target's name, if the target is a folder.
    fn target_name(&self) -> Option<&str> {
        match &self.trial.target.kind {
            plan::TargetKind::Folder { name, .. } => Some(name),
            plan::TargetKind::Running { .. } | plan::TargetKind::Started { .. } => None,
        }
    }

    /// Returns the target's manifest and folder, if the target is a folder.
    fn target_folder(&self) -> Option<(Manifest, PathBuf)> {
        (self.run.targets)(self.target_name()?)
    }

    fn manifest(&self) -> Option<Manifest> {
        self.target_folder().map(|(manifest, _)| manifest)
    }
}

struct TrialShell<'a> {
    context: &'a TrialContext<'a>,
    records: TrialRecords<'a>,
    target: TrialTarget<'a>,
    load: LoadPhase<'a>,
    steps: StepRunner,
    /// Check for free disk space. The trial ends when there is too little.
    disk: DiskWatch,
    is_ending: bool,
}

impl TrialShell<'_> {
    fn play(&mut self) -> Result<(Ending, Option<String>), Error> {
        let manifest = self.context.manifest();
        // Whether the target can list the contents of its members.
        let has_replicas = manifest.as_ref().is_some_and(|manifest| manifest.hooks.contains_key("audit"));
        let trial = self.context.trial;
        let mut conductor = Conductor::new(trial, planned_steps(trial, manifest.as_ref()), heals, has_replicas);
        // The queue has actions, each with the time of the event that caused the action.
        let begun = Instant::now();
        let mut queue: VecDeque<_> = conductor.begin().into_iter().map(|action| (begun, action)).collect();
        loop {
            let (at, input) = match queue.pop_front() {
                Some((_, Action::Finish(how, reason))) => return Ok((how, reason)),
                Some((since, action)) => match self.perform(&conductor, since, action) {
                    Some(result) => result,
                    None => continue,
                },
                None => {
                    let input = self.wait(&conductor);
                    (Instant::now(), input)
                }
            };
            let actions = conductor.step(self.records.at_s(at), input);
            queue.extend(actions.into_iter().map(|action| (at, action)));
        }
    }

    /// Performs an action whose cause happened at `since`. Returns the action's result and the time
    /// of the result.
    fn perform(&mut self, conductor: &Conductor, since: Instant, action: Action) -> Option<(Instant, Input)> {
        let (target, records) = (&mut self.target, &mut self.records);
        let result = match action {
            Action::Note(what) => {
                // A fault may act before its injection is complete, so its start is recorded.
                let is_begin = matches!(what, What::FaultBegun { .. } | What::ActionTaken { .. });
                records.note(if is_begin { since } else { Instant::now() }, what);
                return None;
            }
            Action::StartTarget => target.start(records).map(|input| self.unless_interrupted(input)),
            Action::Prepare => self.load.prepare(target).map(|()| self.unless_interrupted(Input::Prepared)),
            Action::BeginLoad => self.load.begin(target, records).map(|()| None),
            Action::AskLeader(occurrence) => Ok(self.steps.ask_leader(target.deployment.as_ref(), occurrence)),
            Action::BeginFault(occurrence) => return Some(self.begin_fault(conductor, occurrence)),
            Action::HealFault(occurrence) => Ok(Some(self.heal_fault(conductor, occurrence))),
            Action::AskCondition => self.ask_condition(conductor).map(|()| None),
            Action::AuditStep => self.steps.audit(target.deployment.as_ref(), conductor).map(|()| None),
            Action::CancelPrograms => {
                self.steps.cancel();
                Ok(None)
            }
            Action::Rebuild => target.rebuild(records).map(|()| self.unless_interrupted(Input::Rebuilt)),
            Action::EndLoad => Ok((!self.load.stop()).then_some(Input::LoadEnded)),
            Action::DropLoad => {
                self.load.abort();
                Ok(None)
            }
            Action::ReadBack => self.read_back().map(Some),
            Action::StopTarget(at_once) => {
                self.stop_target(at_once, conductor.is_well());
                Ok(Some(Input::TargetStopped))
            }
            Action::HealStep | Action::Finish(..) => Ok(None),
        };
        let input = match result {
            Ok(input) => input?,
            // An interruption stops work with an error, which is ignored here: `wait` returns the
            // interruption itself.
            Err(_) if self.context.interrupts.is_pending() => return None,
            Err(error) => self.broke(error),
        };
        Some((Instant::now(), input))
    }

    /// Returns the input, or `None` if the user has interrupted: `wait` then returns the
    /// interruption.
    fn unless_interrupted(&self, input: Input) -> Option<Input> {
        (!self.context.interrupts.is_pending()).then_some(input)
    }

    /// Keeps the error for the exit code, and returns it as the reason for the trial's end.
    fn broke(&mut self, error: Error) -> Input {
        let reason = error.to_string();
        self.records.keep_error(error);
        Input::Broke(reason)
    }

    /// Waits for the next event that concerns the conductor.
    fn wait(&mut self, conductor: &Conductor) -> Input {
        loop {
            if let Some(input) = self.context.interrupts.take() {
                return input;
            }
            if !self.is_ending
                && let Some(reason) = self.disk.runs_out(self.records.folder.path())
            {
                self.is_ending = true;
                self.records.notice(reason.clone());
                return Input::Ending(reason);
            }
            self.target.poll(&mut self.records);
            if self.load.is_finished() {
                return self.end_load();
            }
            if self.records.has_stopped() {
                return self.recording_broke();
            }
            // The load's records also end with the load, perhaps shortly before its end is noticed.
            // If the recording failed instead, the load cannot deliver its records, and ends with
            // an error.
            if self.load.is_running() && self.records.has_load_stopped() {
                return self.end_load();
            }
            if let Some(input) = self.steps.poll() {
                return input;
            }
            if let Some(violation) = self.records.take_violation() {
                return Input::Violated(violation);
            }
            let due_in_s = conductor.next_s().map_or(f64::INFINITY, |next_s| next_s - self.records.now_s());
            if due_in_s <= 0.0 {
                return Input::Tick;
            }
            self.records.wait(GLANCE.min(Duration::try_from_secs_f64(due_in_s).unwrap_or(GLANCE)));
        }
    }

    /// Injects a fault. Returns the time at which the fault began to act, and the result.
    fn begin_fault(&mut self, conductor: &Conductor, occurrence: Occurrence) -> (Instant, Input) {
        match self.inject(conductor, occurrence) {
            Ok((at, on)) => {
                let (on, done_s) = (on.join(", "), self.records.now_s());
                (at, Input::FaultBegun { occurrence, on, done_s })
            }
            Err(reason) => (Instant::now(), Input::FaultRefused(occurrence, reason)),
        }
    }

    /// Injects a fault, or starts the programs of a step's action. Returns the time at which the
    /// fault began to act, and the members that it hit.
    fn inject(&mut self, conductor: &Conductor, occurrence: Occurrence) -> Result<(Instant, Vec<String>), String> {
        let fault = conductor.fault(occurrence);
        let deployment = self.target.deployment.as_mut().ok_or("there is no target")?;
        deployment.know_leader(conductor.leader(occurrence).cloned());
        let steps = conductor.steps();
        if steps.owns(occurrence) && fault.is_program() {
            let begun = Instant::now();
            let on = self.steps.begin_action(deployment, steps, (fault, occurrence), self.records.now_s())?;
            return Ok((begun, on));
        }
        let kind = lab::faults::find(&fault.kind).ok_or_else(|| format!("no fault of kind `{}`", fault.kind))?;
        let begun = (kind.inject)(fault, occurrence.number, deployment).map_err(|error| error.to_string())?;
        if fault.standing {
            self.target.down.extend_from_slice(&begun.on);
        }
        Ok((begun.at, begun.on))
    }

    fn heal_fault(&mut self, conductor: &Conductor, occurrence: Occurrence) -> Input {
        let fault = conductor.fault(occurrence);
        let healed = match (&mut self.target.deployment, lab::faults::find(&fault.kind)) {
            (Some(deployment), Some(kind)) => {
                (kind.heal)(fault, occurrence.number, deployment).map_err(|error| error.to_string())
            }
            _ => Err("there is no target".to_owned()),
        };
        let was_undone = healed.unwrap_or_else(|reason| {
            self.records.notice(format!("fault `{}` could not be healed: {reason}", fault.name));
            true
        });
        Input::FaultHealed(occurrence, was_undone)
    }

    fn ask_condition(&mut self, conductor: &Conductor) -> Result<(), Error> {
        let steps = conductor.steps();
        let condition = steps.step().and_then(|step| step.plan.until.as_deref()).unwrap_or_default();
        let manifest = self.context.manifest();
        let on = manifest.and_then(|manifest| Some(manifest.conditions.get(condition)?.on)).unwrap_or_default();
        let within = left(steps, self.records.now_s());
        self.steps.ask_condition(self.target.deployment.as_ref(), condition, on, within)
    }

    fn end_load(&mut self) -> Input {
        let Some(ended) = self.load.join() else { return Input::LoadEnded };
        let input = match ended {
            Ok(()) => Input::LoadEnded,
            Err(BadEnd::Lost { generator, heard_s, reason }) => {
                let text = format!("generator {generator} was lost at {heard_s:.1} s: {reason}");
                self.records.note_now(What::GeneratorLost { generator, heard_s, reason });
                Input::Broke(text)
            }
            Err(BadEnd::Error(error)) => self.records_broke(Some(error)),
        };
        // The hook `inspect` may take a long time, so the reason for the end is recorded first.
        self.target.inspect("after_load", &mut self.records);
        input
    }

    fn recording_broke(&mut self) -> Input {
        // The recording's threads end only after the load has dropped its senders.
        self.load.abort();
        let engine = match self.load.join() {
            Some(Err(BadEnd::Error(error))) => Some(error),
            // The engine has no error, so the recording's error is the reason.
            Some(Ok(()) | Err(BadEnd::Lost { .. })) | None => None,
        };
        self.records_broke(engine)
    }

    /// Ends the recording. Returns its error or the engine's as the reason for the trial's end.
    fn records_broke(&mut self, engine: Option<Error>) -> Input {
        let recording = self.close_records().err();
        self.broke(cause(engine, recording))
    }

    fn close_records(&mut self) -> Result<(), Error> {
        self.load.close();
        self.records.close()
    }

    fn read_back(&mut self) -> Result<Input, Error> {
        // The load's recorder holds the history until it is closed.
        self.close_records()?;
        let TrialContext { trial, interrupts, .. } = self.context;
        let give_up = || interrupts.is_pending();
        // The members are asked before the services: a read through a service may repair a member's
        // contents.
        let asked = match &mut self.target.deployment {
            Some(deployment) => read_replicas(deployment, &self.records.folder, trial.has_audited_keys(), &give_up)?,
            None => None,
        };
        if let Some(ReadBackResult { rounds, settled, .. }) = asked {
            self.records.note_now(What::Replicas { rounds, settled });
        }
        let (Some(_), Some(clock)) = (&self.target.deployment, self.records.clock()) else {
            return Ok(Input::ReadBack(ReadBack::default()));
        };
        let setting = ReadBackSetting {
            calls: &self.target.calls(),
            services: &self.target.services(),
            failover: trial.load.as_ref().map(|load| load.reconnects.failover).unwrap_or_default(),
            members_told: asked.is_some_and(|asked| asked.answered > 0),
            clock,
            within: Duration::from_secs_f64(trial.read_back_s()),
            seed: trial.seed,
            give_up: &give_up,
        };
        let folder = &self.records.folder;
        Ok(Input::ReadBack(self.target.inside(|| read_back(folder, &setting))?))
    }

    /// Stops the target or leaves it to the next trial.
    fn stop_target(&mut self, at_once: bool, is_well: bool) {
        self.steps.stop();
        self.load.abort();
        match self.load.join() {
            Some(Err(BadEnd::Lost { generator, heard_s, reason })) => {
                self.records.note_now(What::GeneratorLost { generator, heard_s, reason });
            }
            Some(Err(BadEnd::Error(error))) => self.records.keep_error(error),
            Some(Ok(())) | None => {}
        }
        if let Err(error) = self.close_records() {
            self.records.keep_error(error);
        }
        let is_interrupted = self.context.interrupts.all.asked() > 0;
        let may_stand = !at_once && is_well && !self.records.has_error() && !is_interrupted;
        self.target.stop(&mut self.records, (may_stand, at_once));
    }
}

fn heals(kind: &str) -> Heals {
    lab::faults::find(kind).map_or(Heals::ByItself, |kind| kind.info.heals)
}

/// Returns the trial's steps, with settings from the target's manifest and the lab's speed.
fn planned_steps(trial: &plan::Trial, manifest: Option<&Manifest>) -> Vec<PlannedStep> {
    let mut planned = Vec::new();
    for step in &trial.steps {
        let condition = step.until.as_ref().and_then(|until| manifest?.conditions.get(until));
        let heals =
            step.does.iter().map(|fault| if fault.action.is_some() { Heals::ByItself } else { heals(&fault.kind) });
        planned.push(PlannedStep {
            heals: heals.collect(),
            every_s: condition.map_or(1.0, |condition| condition.every_s) / trial.lab.speed.clamp(0.01, 1.0),
            audits: step.audits(manifest.iter().flat_map(|manifest| manifest.audits.keys())),
            plan: step.clone(),
        });
    }
    planned
}

/// Returns the error that ended a trial whose engine or recording ended early. If the engine's
/// error is only that its recorder is gone, the recording's error is returned. Otherwise the
/// engine's error is, whichever of the two ended first.
fn cause(engine: Option<Error>, recording: Option<Error>) -> Error {
    match (engine, recording) {
        (Some(error), None) => error,
        (Some(error), Some(_)) if !is_only_recorder_gone(&error) => error,
        (_, Some(error)) => error,
        (None, None) => Error::Broken("recording ended before the trial".to_owned()),
    }
}

fn is_only_recorder_gone(error: &Error) -> bool {
    matches!(error, Error::Load(load::Error::RecorderGone) | Error::Fleet(SessionError::RecorderGone))
}

#[cfg(test)]
mod tests;
