//! Programs that a trial runs beside its load: the actions, conditions and audits of a step, and
//! the hook that names the leader.

use std::time::Duration;

use experiment::manifest::HoldsOn;
use experiment::plan::Fault;
use lab::{Deployment, HostTask};

use crate::Error;
use crate::conductor::{Conductor, Input};
use crate::running_tasks::{RunningTasks, TaskPurpose};
use crate::schedule::Occurrence;
use crate::step_sequence::StepSequence;

/// Time by which a program's limit exceeds that of its step, so that the step times out first.
const BEYOND_STEP: Duration = Duration::from_millis(500);

/// The running programs.
#[derive(Default)]
pub struct StepRunner {
    /// Programs of the current step.
    tasks: Option<RunningTasks>,
    /// Runs of the hook that names the leader.
    questions: Vec<RunningTasks>,
}

impl StepRunner {
    /// Returns the result of a step's programs or of a hook, if they have ended.
    pub fn poll(&mut self) -> Option<Input> {
        if let Some(input) = self.tasks.as_mut().and_then(RunningTasks::poll) {
            self.tasks = None;
            return Some(input);
        }
        let mut questions = self.questions.iter_mut().enumerate();
        let (index, input) = questions.find_map(|(index, question)| Some((index, question.poll()?)))?;
        drop(self.questions.swap_remove(index));
        Some(input)
    }

    /// Stops the programs of the current step, but not the hooks.
    pub fn cancel(&mut self) {
        self.tasks = None;
    }

    /// Stops all programs and hooks.
    pub fn stop(&mut self) {
        self.tasks = None;
        self.questions.clear();
    }

    /// Starts the hook that names the leader. [`StepRunner::poll`] returns its answer. Returns an
    /// input at once if the hook cannot run.
    pub fn ask_leader(&mut self, deployment: Option<&Deployment>, occurrence: Occurrence) -> Option<Input> {
        match question(deployment, occurrence) {
            Ok(question) => {
                self.questions.push(question);
                None
            }
            Err(reason) => Some(Input::LeaderNamed(occurrence, Err(reason))),
        }
    }

    /// Starts the programs of an action, without waiting for them. Returns their hosts.
    pub fn begin_action(
        &mut self,
        deployment: &mut Deployment,
        steps: &StepSequence,
        (action, occurrence): (&Fault, Occurrence),
        now_s: f64,
    ) -> Result<Vec<String>, String> {
        let step = steps.step().map(|step| step.plan.name.as_str()).unwrap_or_default();
        let within = left(steps, now_s) + BEYOND_STEP;
        let tasks =
            deployment.step_tasks(step, action, occurrence.number, within).map_err(|error| error.to_string())?;
        let on = tasks.iter().map(|task| task.host.clone()).collect();
        let running = RunningTasks::start(TaskPurpose::Do(occurrence), tasks).map_err(|error| error.to_string())?;
        self.tasks = Some(running);
        Ok(on)
    }

    /// Starts the checks of the current step's condition. `on` says whether it must hold on one
    /// member or on all.
    pub fn ask_condition(
        &mut self,
        deployment: Option<&Deployment>,
        condition: &str,
        on: HoldsOn,
        within: Duration,
    ) -> Result<(), Error> {
        let tasks = deployment.map(|deployment| deployment.condition_tasks(condition, within)).unwrap_or_default();
        self.run(TaskPurpose::Ask(on), tasks)
    }

    /// Starts the audits of the current step.
    pub fn audit(&mut self, deployment: Option<&Deployment>, conductor: &Conductor) -> Result<(), Error> {
        let (mut names, mut tasks) = (Vec::new(), Vec::new());
        for audit in conductor.steps().step().iter().flat_map(|step| &step.audits) {
            let of_audit = deployment.map(|deployment| deployment.audit_tasks(audit)).unwrap_or_default();
            names.extend(of_audit.iter().map(|_| audit.clone()));
            tasks.extend(of_audit);
        }
        self.run(TaskPurpose::Audit(names), tasks)
    }

    fn run(&mut self, purpose: TaskPurpose, tasks: Vec<HostTask>) -> Result<(), Error> {
        let running = RunningTasks::start(purpose, tasks).map_err(lab::Error::system("start a thread"))?;
        self.tasks = Some(running);
        Ok(())
    }
}

fn question(deployment: Option<&Deployment>, occurrence: Occurrence) -> Result<RunningTasks, String> {
    let deployment = deployment.ok_or("there is no target")?;
    let task = deployment.leader_task().map_err(|error| error.to_string())?;
    RunningTasks::start(TaskPurpose::AskLeader(occurrence), vec![task]).map_err(|error| error.to_string())
}

/// Returns the time left for the current step.
pub fn left(steps: &StepSequence, now_s: f64) -> Duration {
    Duration::try_from_secs_f64(steps.left_s(now_s)).unwrap_or_default()
}
