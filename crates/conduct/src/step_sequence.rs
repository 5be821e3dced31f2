//! Steps of an exercise, played in order: their actions, their conditions, their audits, and the
//! rebuild of the target after a failed step. Pure; the caller supplies the time.

use experiment::catalog::Heals;
use experiment::plan::{Exercise, Fault};
use record::events::{StepResult, What};

use crate::conductor::Action;
use crate::schedule::Occurrence;

/// A step, ready to be played.
#[derive(Debug, Clone)]
pub struct PlannedStep {
    /// The step in the plan.
    pub plan: Exercise,
    /// Way in which each action of the step heals.
    pub heals: Vec<Heals>,
    /// Seconds between two checks of the step's condition.
    pub every_s: f64,
    /// Names of the audits that follow the step.
    pub audits: Vec<String>,
}

/// Result of checking a condition on the members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConditionAnswer {
    /// The condition holds.
    Holds,
    /// The condition does not hold yet, with the reason.
    NotYet(String),
    /// The condition could not be checked.
    Error(String),
}

/// Result of an audit on a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditAnswer {
    /// Name of the audit.
    pub audit: String,
    /// Name of the member.
    pub host: String,
    /// Reason why the audit failed, if it did.
    pub failed: Option<String>,
}

/// State of the current step.
#[derive(Debug, Clone, Copy, PartialEq)]
enum StepState {
    /// The step has not begun.
    Waiting,
    /// The step's action with this index is being done.
    Doing(usize),
    /// The fault of the action with this index acts until it is healed.
    Holding(usize),
    /// The condition is being checked.
    Asking,
    /// The next check of the condition is at this second.
    Pausing(f64),
    /// The members are audited.
    Auditing,
    /// The target is started anew.
    Rebuilding,
}

/// Steps of a trial, and the current position in them.
#[derive(Debug)]
pub struct StepSequence {
    steps: Vec<PlannedStep>,
    /// Index that the steps' first action has in the trial's fault schedule.
    first_fault: usize,
    current: usize,
    /// Repetition of the current step, from 1.
    number: u32,
    state: StepState,
    /// Time at which the previous step was complete, with its audits and rebuild.
    free_s: f64,
    begun_s: f64,
    done_s: Option<f64>,
    /// Reason why the condition did not hold at the last check.
    not_yet: Option<String>,
    is_bad: bool,
}

impl StepSequence {
    /// Returns a sequence in which no step has been played.
    #[must_use]
    pub fn new(steps: Vec<PlannedStep>, first_fault: usize) -> Self {
        Self {
            steps,
            first_fault,
            current: 0,
            number: 1,
            state: StepState::Waiting,
            free_s: 0.0,
            begun_s: 0.0,
            done_s: None,
            not_yet: None,
            is_bad: false,
        }
    }

    /// Returns the actions of all steps, each with its way of healing, in the order of the fault
    /// schedule.
    pub fn faults(&self) -> impl Iterator<Item = (Fault, Heals)> + '_ {
        self.steps.iter().flat_map(|step| step.plan.does.iter().cloned().zip(step.heals.iter().copied()))
    }

    /// Whether all steps are complete.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.current >= self.steps.len()
    }

    /// Drops all steps that have not been played.
    pub fn abandon(&mut self) {
        self.current = self.steps.len();
    }

    /// Whether the current step is the last repetition of the last step.
    fn is_last(&self) -> bool {
        self.current + 1 == self.steps.len() && self.step().is_some_and(|step| self.number >= step.plan.times)
    }

    /// Whether an occurrence belongs to a step.
    #[must_use]
    pub fn owns(&self, occurrence: Occurrence) -> bool {
        occurrence.fault >= self.first_fault
    }

    /// Returns the current step.
    #[must_use]
    pub fn step(&self) -> Option<&PlannedStep> {
        self.steps.get(self.current)
    }

    /// Returns the earliest time at which the current step may begin.
    fn due_s(&self) -> f64 {
        self.step().map_or(0.0, |step| {
            let after_pause_s = step.plan.pause_s.map_or(0.0, |pause_s| self.free_s + pause_s);
            step.plan.at_s.unwrap_or(0.0).max(after_pause_s)
        })
    }

    /// Returns the seconds left until the time limit of the current step.
    #[must_use]
    pub fn left_s(&self, now_s: f64) -> f64 {
        self.step().map_or(0.0, |step| self.begun_s + step.plan.within_s - now_s).max(0.0)
    }

    /// Returns the next second at which [`StepSequence::tick`] has actions to return.
    #[must_use]
    pub fn next_s(&self) -> Option<f64> {
        let step = self.step()?;
        let deadline_s = self.begun_s + step.plan.within_s;
        match self.state {
            StepState::Waiting => Some(self.due_s()),
            StepState::Doing(_) | StepState::Holding(_) | StepState::Asking => Some(deadline_s),
            StepState::Pausing(until_s) => Some(until_s.min(deadline_s)),
            StepState::Auditing | StepState::Rebuilding => None,
        }
    }

    /// Handles the passing of time.
    pub fn tick(&mut self, now_s: f64) -> Vec<Action> {
        let Some(step) = self.step() else { return Vec::new() };
        let is_late = now_s >= self.begun_s + step.plan.within_s;
        match self.state {
            StepState::Waiting if now_s >= self.due_s() => self.begin(now_s),
            StepState::Doing(_) | StepState::Holding(_) | StepState::Asking | StepState::Pausing(_) if is_late => {
                self.time_out(now_s)
            }
            StepState::Pausing(until_s) if now_s >= until_s => {
                self.state = StepState::Asking;
                vec![Action::AskCondition]
            }
            _ => Vec::new(),
        }
    }

    fn begin(&mut self, now_s: f64) -> Vec<Action> {
        let Some(step) = self.step() else { return Vec::new() };
        let mut effects = vec![Action::Note(What::StepBegun { step: step.plan.name.clone() })];
        (self.begun_s, self.done_s, self.not_yet, self.is_bad) = (now_s, None, None, false);
        effects.extend(self.do_next(0, now_s));
        effects
    }

    /// Does the action with this index. After the last action, checks the condition.
    fn do_next(&mut self, index: usize, now_s: f64) -> Vec<Action> {
        let Some(step) = self.step() else { return Vec::new() };
        if index < step.plan.does.len() {
            self.state = StepState::Doing(index);
            return vec![Action::BeginFault(self.occurrence(index))];
        }
        let waits = step.plan.until.is_some();
        self.done_s = Some(now_s - self.begun_s);
        if !waits {
            return self.end(StepResult::Ok, None, now_s);
        }
        self.state = StepState::Asking;
        vec![Action::AskCondition]
    }

    fn occurrence(&self, index: usize) -> Occurrence {
        let before: usize = self.steps[..self.current].iter().map(|step| step.plan.does.len()).sum();
        Occurrence { fault: self.first_fault + before + index, number: self.number }
    }

    /// Returns the index that an occurrence has among the step's actions, if that action is being
    /// done or its fault acts.
    fn index_of(&self, occurrence: Occurrence) -> Option<usize> {
        match self.state {
            StepState::Doing(index) | StepState::Holding(index) if self.occurrence(index) == occurrence => Some(index),
            _ => None,
        }
    }

    /// Handles the start of an action. The next action waits for the end of a program, or for the
    /// healing of a fault with a duration.
    pub fn begun(&mut self, occurrence: Occurrence, now_s: f64) -> Vec<Action> {
        let (Some(index), Some(step)) = (self.index_of(occurrence), self.step()) else { return Vec::new() };
        let fault = &step.plan.does[index];
        if fault.is_program() {
            return Vec::new();
        }
        if fault.for_s.is_some() && step.heals[index] == Heals::AfterFor {
            self.state = StepState::Holding(index);
            return Vec::new();
        }
        self.do_next(index + 1, now_s)
    }

    /// Handles the end of an action's programs. `failed` is the reason if a program failed.
    pub fn ran(&mut self, occurrence: Occurrence, failed: Option<String>, now_s: f64) -> Vec<Action> {
        let (Some(index), Some(step)) = (self.index_of(occurrence), self.step()) else { return Vec::new() };
        let fault = &step.plan.does[index];
        match failed {
            Some(why) if now_s >= self.begun_s + step.plan.within_s => {
                self.not_yet = Some(why);
                self.time_out(now_s)
            }
            Some(why) => self.end(StepResult::ActionFailed, Some(why), now_s),
            None if fault.for_s.is_some() => {
                self.state = StepState::Holding(index);
                Vec::new()
            }
            None => self.do_next(index + 1, now_s),
        }
    }

    /// Handles an action that could not be done.
    pub fn refused(&mut self, occurrence: Occurrence, reason: String, now_s: f64) -> Vec<Action> {
        match self.index_of(occurrence) {
            Some(_) => self.end(StepResult::ActionFailed, Some(reason), now_s),
            None => Vec::new(),
        }
    }

    /// Handles the healing of a fault.
    pub fn healed(&mut self, occurrence: Occurrence, now_s: f64) -> Vec<Action> {
        match (self.index_of(occurrence), self.state) {
            (Some(index), StepState::Holding(_)) => self.do_next(index + 1, now_s),
            _ => Vec::new(),
        }
    }

    /// Handles the result of checking the condition.
    pub fn asked(&mut self, answer: ConditionAnswer, now_s: f64) -> Vec<Action> {
        let Some(step) = self.step().filter(|_| self.state == StepState::Asking) else { return Vec::new() };
        let every_s = step.every_s;
        match answer {
            ConditionAnswer::Holds => self.end(StepResult::Ok, None, now_s),
            ConditionAnswer::Error(why) => self.end(StepResult::ConditionFailed, Some(why), now_s),
            ConditionAnswer::NotYet(why) => {
                self.not_yet = Some(why);
                self.state = StepState::Pausing(now_s + every_s);
                Vec::new()
            }
        }
    }

    fn time_out(&mut self, now_s: f64) -> Vec<Action> {
        let Some(step) = self.step() else { return Vec::new() };
        let (within_s, done) = (step.plan.within_s, self.done_s.is_some());
        let what = match (&step.plan.until, done) {
            (Some(until), true) => format!("`{until}` did not hold within {within_s} s"),
            _ => format!("the step did not end within {within_s} s"),
        };
        let why = self.not_yet.take().map_or_else(|| what.clone(), |last| format!("{what}: {last}"));
        self.end(StepResult::TimedOut, Some(why), now_s)
    }

    /// Ends the step: heals its faults and audits the members.
    fn end(&mut self, result: StepResult, why: Option<String>, now_s: f64) -> Vec<Action> {
        let Some(step) = self.step() else { return Vec::new() };
        let ended = What::StepEnded { step: step.plan.name.clone(), result, done_s: self.done_s, why };
        let audits = !step.audits.is_empty();
        let mut effects = vec![Action::CancelPrograms, Action::Note(ended), Action::HealStep];
        self.is_bad = result != StepResult::Ok;
        self.state = StepState::Auditing;
        if audits {
            effects.push(Action::AuditStep);
        } else {
            effects.extend(self.audited(&[], now_s));
        }
        effects
    }

    /// Handles the results of the audits. If the step or an audit failed, the target is rebuilt
    /// before the next step.
    pub fn audited(&mut self, answers: &[AuditAnswer], now_s: f64) -> Vec<Action> {
        let Some(step) = self.step().filter(|_| self.state == StepState::Auditing) else { return Vec::new() };
        let (name, is_last) = (&step.plan.name, self.is_last());
        let notes = answers.iter().cloned().map(|AuditAnswer { audit, host, failed }| {
            Action::Note(What::StepAudited { step: name.clone(), audit, host, failed })
        });
        let mut effects: Vec<Action> = notes.collect();
        self.is_bad |= answers.iter().any(|answer| answer.failed.is_some());
        if self.is_bad && !is_last {
            self.state = StepState::Rebuilding;
            effects.push(Action::Rebuild);
        } else {
            self.next(now_s);
        }
        effects
    }

    /// Handles the end of a rebuild of the target.
    pub fn rebuilt(&mut self, now_s: f64) -> Vec<Action> {
        let Some(step) = self.step().filter(|_| self.state == StepState::Rebuilding) else { return Vec::new() };
        let note = Action::Note(What::TargetRebuilt { after: step.plan.name.clone() });
        self.next(now_s);
        vec![note]
    }

    /// Moves on to the next repetition of the step, or to the next step.
    fn next(&mut self, now_s: f64) {
        let times = self.step().map_or(1, |step| step.plan.times);
        (self.current, self.number) =
            if self.number < times { (self.current, self.number + 1) } else { (self.current + 1, 1) };
        self.free_s = now_s;
        self.state = StepState::Waiting;
    }
}
