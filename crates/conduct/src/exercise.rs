//! The steps of an exercise, one after the other: what is done, what is waited for, what is checked, and what follows from a step
//! that leaves the target bad. Pure, told the time from outside.

use experiment::catalog::Heals;
use experiment::plan::{Exercise, Fault};
use record::events::{StepResult, What};

use crate::conductor::Action;
use crate::schedule::Occurrence;

/// A step as it is to be played.
#[derive(Debug, Clone)]
pub struct PlannedStep {
    /// The plan's words.
    pub plan: Exercise,
    /// Of each thing that it does, how it heals.
    pub heals: Vec<Heals>,
    /// Between two questions for its condition, seconds.
    pub every_s: f64,
    /// The audits that follow it.
    pub audits: Vec<String>,
}

/// What members said of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConditionAnswer {
    /// It holds.
    Holds,
    /// It does not hold yet: why.
    NotYet(String),
    /// It could not be asked.
    Error(String),
}

/// What a member said when it was audited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditAnswer {
    /// The audit.
    pub audit: String,
    /// The member.
    pub host: String,
    /// Why it did not pass.
    pub failed: Option<String>,
}

/// What the step at hand is at.
#[derive(Debug, Clone, Copy, PartialEq)]
enum StepState {
    /// It has not begun.
    Waiting,
    /// The thing of this index is being done.
    Doing(usize),
    /// The thing of this index is done, and held until it is healed.
    Holding(usize),
    /// Its condition is being asked.
    Asking,
    /// Its condition is asked again then.
    Pausing(f64),
    /// The members are audited.
    Auditing,
    /// The target is started anew.
    Rebuilding,
}

/// The steps of a trial against its clock.
#[derive(Debug)]
pub struct StepSequence {
    steps: Vec<PlannedStep>,
    /// Where what the steps do begins in the trial's schedule of faults.
    first_fault: usize,
    current: usize,
    /// The how-manieth time the step at hand is played, from 1.
    number: u32,
    state: StepState,
    /// When what was before it was through.
    free_s: f64,
    begun_s: f64,
    done_s: Option<f64>,
    /// Why its condition did not hold when it was asked last.
    not_yet: Option<String>,
    is_bad: bool,
}

impl StepSequence {
    /// Steps that all are still to be played.
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

    /// What the steps do, with how it heals, in the order of the schedule.
    pub fn faults(&self) -> impl Iterator<Item = (Fault, Heals)> + '_ {
        self.steps.iter().flat_map(|step| step.plan.does.iter().cloned().zip(step.heals.iter().copied()))
    }

    /// Whether all are through.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.current >= self.steps.len()
    }

    /// Nothing more is played.
    pub fn abandon(&mut self) {
        self.current = self.steps.len();
    }

    /// Whether nothing comes after the step at hand.
    fn is_last(&self) -> bool {
        self.current + 1 == self.steps.len() && self.step().is_some_and(|step| self.number >= step.plan.times)
    }

    /// Whether an occurrence is of a step.
    #[must_use]
    pub fn owns(&self, occurrence: Occurrence) -> bool {
        occurrence.fault >= self.first_fault
    }

    /// The step at hand.
    #[must_use]
    pub fn step(&self) -> Option<&PlannedStep> {
        self.steps.get(self.current)
    }

    /// When the step at hand may begin.
    fn due_s(&self) -> f64 {
        self.step().map_or(0.0, |step| {
            let after_pause_s = step.plan.pause_s.map_or(0.0, |pause_s| self.free_s + pause_s);
            step.plan.at_s.unwrap_or(0.0).max(after_pause_s)
        })
    }

    /// Seconds that the step at hand still has.
    #[must_use]
    pub fn left_s(&self, now_s: f64) -> f64 {
        self.step().map_or(0.0, |step| self.begun_s + step.plan.within_s - now_s).max(0.0)
    }

    /// The next second at which [`StepSequence::tick`] has something to give.
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

    /// Time has passed.
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

    /// Does the thing of this index, or waits for the condition after the last.
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

    /// Which of the step's things an occurrence is, if it is what is being done or held.
    fn index_of(&self, occurrence: Occurrence) -> Option<usize> {
        match self.state {
            StepState::Doing(index) | StepState::Holding(index) if self.occurrence(index) == occurrence => Some(index),
            _ => None,
        }
    }

    /// Something has begun that the step does. A program goes on, and a fault with a time is held.
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

    /// The program that does it has ended: what is wrong, if anything is.
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

    /// It could not be done.
    pub fn refused(&mut self, occurrence: Occurrence, reason: String, now_s: f64) -> Vec<Action> {
        match self.index_of(occurrence) {
            Some(_) => self.end(StepResult::ActionFailed, Some(reason), now_s),
            None => Vec::new(),
        }
    }

    /// What was held is healed.
    pub fn healed(&mut self, occurrence: Occurrence, now_s: f64) -> Vec<Action> {
        match (self.index_of(occurrence), self.state) {
            (Some(index), StepState::Holding(_)) => self.do_next(index + 1, now_s),
            _ => Vec::new(),
        }
    }

    /// What the members say of its condition.
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
            _ => format!("not done within {within_s} s"),
        };
        let why = self.not_yet.take().map_or_else(|| what.clone(), |last| format!("{what}: {last}"));
        self.end(StepResult::TimedOut, Some(why), now_s)
    }

    /// What it broke is healed, and the members are audited.
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

    /// What the members said; then the next step, on a target that is good.
    pub fn audited(&mut self, answers: &[AuditAnswer], now_s: f64) -> Vec<Action> {
        let Some(step) = self.step().filter(|_| self.state == StepState::Auditing) else { return Vec::new() };
        let (name, is_last) = (&step.plan.name, self.is_last());
        let note = |answer: &AuditAnswer| {
            let AuditAnswer { audit, host, failed } = answer.clone();
            Action::Note(What::StepAudited { step: name.clone(), audit, host, failed })
        };
        let mut effects: Vec<Action> = answers.iter().map(note).collect();
        self.is_bad |= answers.iter().any(|answer| answer.failed.is_some());
        if self.is_bad && !is_last {
            self.state = StepState::Rebuilding;
            effects.push(Action::Rebuild);
        } else {
            self.next(now_s);
        }
        effects
    }

    /// The target has been started anew.
    pub fn rebuilt(&mut self, now_s: f64) -> Vec<Action> {
        let Some(step) = self.step().filter(|_| self.state == StepState::Rebuilding) else { return Vec::new() };
        let note = Action::Note(What::TargetRebuilt { after: step.plan.name.clone() });
        self.next(now_s);
        vec![note]
    }

    /// The same step once more, or the next one.
    fn next(&mut self, now_s: f64) {
        let times = self.step().map_or(1, |step| step.plan.times);
        (self.current, self.number) =
            if self.number < times { (self.current, self.number + 1) } else { (self.current + 1, 1) };
        self.free_s = now_s;
        self.state = StepState::Waiting;
    }
}
