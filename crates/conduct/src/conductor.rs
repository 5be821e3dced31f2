//! Core of the conductor: takes inputs (events) and returns actions. Pure, so that tests need no
//! process to interrupt it after any action.

use analysis::LiveViolation;
use experiment::catalog::Heals;
use experiment::plan;
use record::events::{Ending, Phase, What};

use crate::leader_questions::LeaderQuestions;
use crate::read_back::ReadBack;
use crate::schedule::{FaultSchedule, Occurrence};
use crate::step_sequence::{AuditAnswer, ConditionAnswer, PlannedStep, StepSequence};

/// An event that the conductor reacts to.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The target runs and is ready.
    TargetUp,
    /// The target still runs from an earlier trial and is prepared.
    TargetStands,
    /// Every `[[prepare]]` is done.
    Prepared,
    /// The time of [`Conductor::next_s`] has come.
    Tick,
    /// The target's hook `leader` has answered the question for this fault.
    LeaderNamed(Occurrence, Result<String, String>),
    /// A fault has been injected. The input's time is that at which the fault began to act.
    FaultBegun {
        /// The fault.
        occurrence: Occurrence,
        /// Members that the fault hit, separated by commas.
        on: String,
        /// Time at which the injection was complete, seconds since load start.
        done_s: f64,
    },
    /// A fault could not be injected, with the reason.
    FaultRefused(Occurrence, String),
    /// A fault was healed. The flag says whether there was anything to undo.
    FaultHealed(Occurrence, bool),
    /// The programs of a step's action have ended, with the reason if one failed.
    StepRan(Occurrence, Option<String>),
    /// The condition of the current step was checked on the members.
    ConditionAsked(ConditionAnswer),
    /// The members were audited after a step.
    StepAudited(Vec<AuditAnswer>),
    /// The target was started anew.
    Rebuilt,
    /// The check beside the load found that a key is not linearizable.
    Violated(LiveViolation),
    /// All agents have stopped.
    LoadEnded,
    /// Audited keys were read back, with the result.
    ReadBack(ReadBack),
    /// The target was stopped, or left to the next trial.
    TargetStopped,
    /// The user wants the trial to end.
    Interrupted,
    /// The trial must end in an orderly way without the user's request, with the reason.
    Ending(String),
    /// The user wants the trial to end at once.
    Aborted,
    /// An error occurred after which the trial cannot continue.
    Broke(String),
}

/// An action for the shell to perform. The shell performs actions in order, and reports most of
/// their results with an [`Input`].
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "only a few exist at a time, each for a short time")]
pub enum Action {
    /// Record an event.
    Note(What),
    /// Start the target and wait until it is ready.
    StartTarget,
    /// Do every `[[prepare]]`.
    Prepare,
    /// Start the clock, the probes and the load.
    BeginLoad,
    /// Ask the target for its leader, because this fault will hit the leader.
    AskLeader(Occurrence),
    /// Inject a fault.
    BeginFault(Occurrence),
    /// Heal a fault.
    HealFault(Occurrence),
    /// Heal the faults of the current step. The conductor replaces this action by an
    /// [`Action::HealFault`] for each.
    HealStep,
    /// Check the condition of the current step on the members.
    AskCondition,
    /// Stop all programs of the current step.
    CancelPrograms,
    /// Audit the members after the current step.
    AuditStep,
    /// Start the target anew, without data.
    Rebuild,
    /// Start no more operations.
    EndLoad,
    /// Stop all operations at once.
    DropLoad,
    /// Ask the members for their contents, and read the audited keys back.
    ReadBack,
    /// Stop the target; kill it at once if true.
    StopTarget(bool),
    /// The trial is over.
    Finish(Ending, Option<String>),
}

/// The state of one trial.
#[derive(Debug)]
pub struct Conductor {
    phase: Phase,
    schedule: FaultSchedule,
    steps: StepSequence,
    leaders: LeaderQuestions,
    /// Whether the lab has a host named `leader`, which a fault on `leader` then means.
    has_namesake: bool,
    end_s: f64,
    /// Whether the load has ended and the trial waits only for steps.
    load_ended: bool,
    prepares: bool,
    loads: bool,
    audits: bool,
    /// Name of the last fault that began, unless it stands all the time.
    last_fault: Option<String>,
    ending: Ending,
    reason: Option<String>,
}

impl Conductor {
    /// Returns the conductor of a new trial with these steps. `heals` returns the way in which a
    /// fault kind heals. `has_replicas` says whether the members can list their contents.
    #[must_use]
    pub fn new(
        trial: &plan::Trial,
        steps: Vec<PlannedStep>,
        heals: impl Fn(&str) -> Heals,
        has_replicas: bool,
    ) -> Self {
        let faults_end_s = trial.faults.iter().filter(|fault| !fault.standing).map(fault_end_s).fold(0.0, f64::max);
        let end_s = trial.load.as_ref().map_or(faults_end_s, |load| load.time_s);
        let steps = StepSequence::new(steps, trial.faults.len());
        let faults = trial
            .faults
            .iter()
            .map(|fault| (fault.clone(), if fault.repairs { Heals::ByItself } else { heals(&fault.kind) }));
        Self {
            phase: Phase::Starting,
            schedule: FaultSchedule::new(faults, end_s).with_steps(steps.faults()),
            steps,
            leaders: LeaderQuestions::default(),
            has_namesake: trial.lab.hosts.iter().any(|host| host.name == plan::Victim::Leader.name()),
            end_s,
            load_ended: false,
            prepares: !trial.prepare.is_empty(),
            loads: trial.load.is_some(),
            audits: has_replicas
                || trial.prepare.iter().any(|prepare| prepare.step.audit)
                || trial.load.iter().flat_map(plan::Load::all_steps).any(|step| step.audit),
            last_fault: None,
            ending: Ending::Done,
            reason: None,
        }
    }

    /// Returns the first actions of the trial.
    #[must_use]
    pub fn begin(&self) -> Vec<Action> {
        vec![note_phase(Phase::Starting), Action::StartTarget]
    }

    /// Returns the planned fault of an occurrence.
    #[must_use]
    pub fn fault(&self, occurrence: Occurrence) -> &plan::Fault {
        self.schedule.plan(occurrence)
    }

    /// Returns the time of the next [`Input::Tick`], in seconds since load start; `None` outside
    /// the load.
    #[must_use]
    pub fn next_s(&self) -> Option<f64> {
        let end_s = self.waits_for_end().then_some(self.end_s);
        let ask_s = self.leaders.next_s(self.coming_for_leader());
        let all = [self.schedule.next_s(), self.steps.next_s(), ask_s, end_s];
        let next_s = all.into_iter().flatten().min_by(f64::total_cmp);
        next_s.filter(|_| self.is_playing())
    }

    /// Whether faults and steps continue: during the load, and after it until all steps are
    /// complete.
    fn is_playing(&self) -> bool {
        self.phase == Phase::Load || (self.phase == Phase::Draining && !self.steps.is_over())
    }

    /// Whether the trial waits for `end_s`, at which the load ends.
    fn waits_for_end(&self) -> bool {
        self.phase == Phase::Load && !self.load_ended && (self.loads || self.steps.is_over())
    }

    /// Whether the trial has not been ended early.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.ending == Ending::Done
    }

    #[must_use]
    pub fn steps(&self) -> &StepSequence {
        &self.steps
    }

    /// Returns the actions that follow from `input` at `now_s` (seconds since load start; any value
    /// before it).
    pub fn step(&mut self, now_s: f64, input: Input) -> Vec<Action> {
        let effects = self.react(now_s, input);
        let mut effects = self.worked_out(effects, now_s);
        // After the load, the trial may have waited only for its last step.
        if self.load_ended && self.steps.is_over() && self.is_in_load() {
            self.load_ended = false;
            effects.extend(self.after_load());
        }
        effects
    }

    fn is_in_load(&self) -> bool {
        matches!(self.phase, Phase::Load | Phase::Draining)
    }

    /// Whether the target must name its leader before the fault can begin.
    fn hits_leader(&self, fault: &plan::Fault) -> bool {
        fault.on == plan::Victim::Leader && !self.has_namesake
    }

    /// Returns the planned faults of the leader, each with its time.
    fn coming_for_leader(&self) -> Vec<(Occurrence, f64)> {
        let coming = self.schedule.coming().filter(|(occurrence, _)| self.hits_leader(self.schedule.plan(*occurrence)));
        coming.collect()
    }

    /// Returns the answer of the target's hook `leader` for a fault.
    #[must_use]
    pub fn leader(&self, occurrence: Occurrence) -> Option<&Result<String, String>> {
        self.leaders.answer(occurrence)
    }

    /// Replaces the healing of a step by the healing of each fault. Delays faults of the leader
    /// until the leader is known.
    fn worked_out(&mut self, effects: Vec<Action>, now_s: f64) -> Vec<Action> {
        let mut all = Vec::new();
        for effect in effects {
            match effect {
                Action::HealStep => {
                    let steps = &self.steps;
                    let own = self.schedule.heal_those(|occurrence| steps.owns(occurrence));
                    all.extend(own.into_iter().map(Action::HealFault));
                }
                Action::BeginFault(occurrence)
                    if self.hits_leader(self.fault(occurrence)) && self.leader(occurrence).is_none() =>
                {
                    all.extend(self.leaders.begin(occurrence, now_s));
                }
                Action::CancelPrograms => {
                    let steps = &self.steps;
                    self.leaders.forget(|occurrence| steps.owns(occurrence));
                    all.push(Action::CancelPrograms);
                }
                other => all.push(other),
            }
        }
        all
    }

    fn react(&mut self, now_s: f64, input: Input) -> Vec<Action> {
        // Once the target is being stopped, results of earlier actions no longer change the phase.
        let late = self.phase == Phase::Stopping;
        match input {
            Input::TargetUp | Input::TargetStands | Input::Prepared | Input::LoadEnded | Input::ReadBack(..)
                if late =>
            {
                Vec::new()
            }
            Input::TargetUp if self.prepares => self.enter(Phase::Preparing, Action::Prepare),
            Input::TargetUp | Input::TargetStands | Input::Prepared => self.break_or_load(),
            Input::Tick => self.tick(now_s),
            Input::LeaderNamed(occurrence, answer) => {
                self.leaders.named(occurrence, answer, now_s).into_iter().collect()
            }
            Input::FaultBegun { occurrence, on, done_s } => {
                self.leaders.forget(|named| named == occurrence);
                self.schedule_healing(occurrence, now_s, done_s);
                let fault = self.fault(occurrence);
                if !fault.standing && !fault.repairs {
                    self.last_fault = Some(fault.name.clone());
                }
                let mut effects = vec![Action::Note(begun(self.fault(occurrence), occurrence.number, on))];
                match self.phase {
                    _ if self.is_playing() => effects.extend(self.steps.begun(occurrence, now_s)),
                    Phase::Starting | Phase::Preparing => effects.extend(self.break_or_load()),
                    _ => effects.extend(self.heal_all()),
                }
                effects
            }
            Input::FaultRefused(occurrence, reason) => self.refused(occurrence, reason, now_s),
            Input::FaultHealed(occurrence, was_undone) => {
                self.schedule.healed(occurrence, now_s);
                let mut effects: Vec<Action> = was_undone.then(|| self.note_healed(occurrence)).into_iter().collect();
                effects.extend(self.steps.healed(occurrence, now_s));
                effects
            }
            Input::StepRan(occurrence, failed) => {
                self.schedule.program_ended(occurrence, now_s);
                let is_action = self.fault(occurrence).action.is_some();
                let mut effects: Vec<Action> = is_action.then(|| self.note_healed(occurrence)).into_iter().collect();
                effects.extend(self.steps.ran(occurrence, failed, now_s));
                effects
            }
            Input::ConditionAsked(answer) => self.steps.asked(answer, now_s),
            Input::StepAudited(answers) => self.steps.audited(&answers, now_s),
            Input::Rebuilt => self.steps.rebuilt(now_s),
            Input::Violated(violation) => self.stop_load(violation),
            Input::LoadEnded => {
                self.load_ended = true;
                Vec::new()
            }
            Input::ReadBack(ReadBack { keys, unread, skipped }) => {
                let mut effects = vec![Action::Note(What::Audit { keys, unread, skipped })];
                effects.extend(self.enter(Phase::Stopping, Action::StopTarget(false)));
                effects
            }
            Input::TargetStopped => {
                vec![
                    Action::Note(What::Ended { how: self.ending, reason: self.reason.clone() }),
                    Action::Finish(self.ending, self.reason.clone()),
                ]
            }
            Input::Interrupted => self.interrupt(),
            Input::Ending(reason) => {
                let effects = self.interrupt();
                self.reason = Some(reason);
                effects
            }
            Input::Aborted => self.give_up(Ending::Interrupted, "stopped at once by the user".to_owned()),
            Input::Broke(reason) => self.give_up(Ending::Failed, reason),
        }
    }

    /// Begins the next fault that must act before the load, or the load if no such fault is left.
    fn break_or_load(&mut self) -> Vec<Action> {
        match self.schedule.next_standing() {
            Some(occurrence) => vec![Action::BeginFault(occurrence)],
            None => self.enter(Phase::Load, Action::BeginLoad),
        }
    }

    fn schedule_healing(&mut self, occurrence: Occurrence, now_s: f64, done_s: f64) {
        if self.steps.owns(occurrence) && self.fault(occurrence).is_program() {
            self.schedule.program_begun(occurrence);
        } else {
            self.schedule.begun(occurrence, now_s, done_s);
        }
    }

    fn note_healed(&self, occurrence: Occurrence) -> Action {
        Action::Note(What::FaultHealed { fault: self.fault(occurrence).name.clone(), number: occurrence.number })
    }

    /// Returns failure events for faults that still wait for the leader's name when the load ends.
    fn unanswered(&mut self) -> Vec<Action> {
        let steps = &self.steps;
        let waiting = self.leaders.forget(|occurrence| !steps.owns(occurrence));
        let mut refused = Vec::new();
        for occurrence in waiting {
            let reason = "the load was over before the hook `leader` answered".to_owned();
            refused.push(Action::Note(failed(self.fault(occurrence), occurrence.number, reason)));
        }
        refused
    }

    fn refused(&mut self, occurrence: Occurrence, reason: String, now_s: f64) -> Vec<Action> {
        self.leaders.forget(|named| named == occurrence);
        if self.steps.owns(occurrence) {
            return self.steps.refused(occurrence, reason, now_s);
        }
        let fault = self.fault(occurrence);
        let standing = fault.standing;
        let text = format!("the standing fault \"{}\" could not be injected: {reason}", fault.name);
        let mut effects = vec![Action::Note(failed(fault, occurrence.number, reason))];
        // A trial without its standing fault is not the planned trial.
        if standing && self.phase != Phase::Stopping {
            effects.extend(self.give_up(Ending::Failed, text));
        }
        effects
    }

    fn tick(&mut self, now_s: f64) -> Vec<Action> {
        if !self.is_playing() {
            return Vec::new();
        }
        let mut effects: Vec<Action> = self.schedule.heal_due(now_s).into_iter().map(Action::HealFault).collect();
        effects.extend(self.schedule.due(now_s).into_iter().map(Action::BeginFault));
        effects.extend(self.leaders.ask(now_s, self.coming_for_leader()));
        effects.extend(self.steps.tick(now_s));
        if self.waits_for_end() && now_s >= self.end_s {
            // A step heals its own faults.
            let steps = &self.steps;
            let healed = self.schedule.heal_those(|occurrence| !steps.owns(occurrence));
            effects.extend(healed.into_iter().map(Action::HealFault));
            effects.extend(self.unanswered());
            self.phase = Phase::Draining;
            effects.push(note_phase(Phase::Draining));
            effects.push(Action::EndLoad);
        }
        effects
    }

    fn after_load(&mut self) -> Vec<Action> {
        let mut effects = self.heal_all();
        effects.extend(self.unanswered());
        let next = if self.audits && self.ending == Ending::Done {
            self.enter(Phase::Auditing, Action::ReadBack)
        } else {
            self.enter(Phase::Stopping, Action::StopTarget(false))
        };
        effects.extend(next);
        effects
    }

    fn interrupt(&mut self) -> Vec<Action> {
        self.ending = Ending::Interrupted;
        self.leaders = LeaderQuestions::default();
        // After an interruption by the user, no reason is recorded.
        self.reason = None;
        self.steps.abandon();
        let mut cancelled = vec![Action::CancelPrograms];
        cancelled.extend(self.interrupt_phase());
        cancelled
    }

    /// Ends the load early. The data is read back as after a whole load.
    fn stop_load(&mut self, violation: LiveViolation) -> Vec<Action> {
        if self.phase != Phase::Load || !self.loads || self.load_ended {
            return Vec::new();
        }
        self.leaders = LeaderQuestions::default();
        let LiveViolation { key, explanation } = violation;
        let after_fault = self.last_fault.clone();
        let mut effects = vec![Action::Note(What::LoadStopped { key, explanation, after_fault })];
        effects.extend(self.interrupt_phase());
        effects
    }

    fn interrupt_phase(&mut self) -> Vec<Action> {
        match self.phase {
            Phase::Load | Phase::Draining if self.loads => {
                let mut effects = self.heal_all();
                self.phase = Phase::Draining;
                effects.push(note_phase(Phase::Draining));
                effects.push(Action::EndLoad);
                effects
            }
            Phase::Stopping => Vec::new(),
            _ => {
                let mut effects = self.heal_all();
                effects.extend(self.enter(Phase::Stopping, Action::StopTarget(false)));
                effects
            }
        }
    }

    fn give_up(&mut self, ending: Ending, reason: String) -> Vec<Action> {
        let stopping = self.phase == Phase::Stopping;
        self.ending = ending;
        self.reason = Some(reason);
        self.leaders = LeaderQuestions::default();
        if stopping {
            return vec![Action::StopTarget(true)];
        }
        self.steps.abandon();
        let mut effects = vec![Action::CancelPrograms];
        effects.extend(self.heal_all());
        effects.push(Action::DropLoad);
        effects.extend(self.enter(Phase::Stopping, Action::StopTarget(true)));
        effects
    }

    fn heal_all(&mut self) -> Vec<Action> {
        self.schedule.heal_all().into_iter().map(Action::HealFault).collect()
    }

    fn enter(&mut self, phase: Phase, effect: Action) -> Vec<Action> {
        self.phase = phase;
        vec![note_phase(phase), effect]
    }
}

/// Returns the event that a fault began, or an action was taken.
fn begun(fault: &plan::Fault, number: u32, on: String) -> What {
    let (name, kind) = (fault.name.clone(), fault.kind.clone());
    match fault.repairs {
        true => What::ActionTaken { action: name, number, kind, on },
        false => What::FaultBegun { fault: name, number, kind, on },
    }
}

/// Returns the event that a fault could not be injected, or that an action could not be taken.
fn failed(fault: &plan::Fault, number: u32, reason: String) -> What {
    let name = fault.name.clone();
    match fault.repairs {
        true => What::ActionFailed { action: name, number, reason },
        false => What::FaultFailed { fault: name, number, reason },
    }
}

fn note_phase(phase: Phase) -> Action {
    Action::Note(What::Phase { phase })
}

/// Returns the time at which a fault's first occurrence is over, for a trial without load.
fn fault_end_s(fault: &plan::Fault) -> f64 {
    let at_s = match fault.when {
        plan::When::At(at_s) => at_s,
        plan::When::Every { first_s, .. } => first_s,
        plan::When::After { plus_s, .. } => plus_s,
    };
    at_s + fault.for_s.unwrap_or(0.0) + 1.0
}

#[cfg(test)]
mod tests;
