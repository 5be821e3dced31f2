//! Programs of a step on hosts, each on a separate thread, so that nothing else waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use experiment::manifest::HoldsOn;
use lab::{HostTask, TaskEnd};

use crate::conductor::Input;
use crate::schedule::Occurrence;
use crate::step_sequence::{AuditAnswer, ConditionAnswer};

/// Time limit for a local program to end after it was killed.
const KILLED_WITHIN: Duration = Duration::from_secs(2);

/// Purpose of the programs.
#[derive(Debug, Clone)]
pub enum TaskPurpose {
    /// An action of a step.
    Do(Occurrence),
    /// A check of a condition, and the members on which it must hold.
    Ask(HoldsOn),
    /// Audits of a step: the name of the audit that each program belongs to.
    Audit(Vec<String>),
    /// The hook that names the leader, for this fault.
    AskLeader(Occurrence),
}

/// Running programs.
pub struct RunningTasks {
    purpose: TaskPurpose,
    hosts: Vec<String>,
    ends: Vec<Option<TaskEnd>>,
    ended: Receiver<(usize, TaskEnd)>,
    must_stop: Arc<AtomicBool>,
    /// Whether some programs are child processes on this machine, which must be waited for.
    any_here: bool,
}

impl RunningTasks {
    /// Starts all programs at once.
    pub fn start(purpose: TaskPurpose, tasks: Vec<HostTask>) -> std::io::Result<Self> {
        let must_stop = Arc::new(AtomicBool::new(false));
        let (sender, ended) = channel();
        let hosts: Vec<String> = tasks.iter().map(|task| task.host.clone()).collect();
        let any_here = tasks.iter().any(HostTask::is_here);
        let running = Self { purpose, ends: hosts.iter().map(|_| None).collect(), hosts, ended, must_stop, any_here };
        for (index, task) in tasks.into_iter().enumerate() {
            let (sender, must_stop): (Sender<_>, _) = (sender.clone(), Arc::clone(&running.must_stop));
            std::thread::Builder::new().name("step".to_owned()).spawn(move || {
                let end = task.run(&|| must_stop.load(Ordering::SeqCst));
                // After a cancellation the receiver is gone.
                let _ = sender.send((index, end));
            })?;
        }
        Ok(running)
    }

    /// Returns the combined result of the programs once all have ended.
    pub fn poll(&mut self) -> Option<Input> {
        for (index, end) in self.ended.try_iter() {
            self.ends[index] = Some(end);
        }
        let ends: Option<Vec<(&str, &TaskEnd)>> =
            self.hosts.iter().zip(&self.ends).map(|(host, end)| Some((host.as_str(), end.as_ref()?))).collect();
        let ends = ends?;
        Some(match &self.purpose {
            TaskPurpose::Do(occurrence) => Input::StepRan(*occurrence, failed(&ends)),
            TaskPurpose::Ask(on) => Input::ConditionAsked(answer(*on, &ends)),
            TaskPurpose::AskLeader(occurrence) => {
                let leader = ends.first().map_or_else(|| Err("no member is up".to_owned()), |(_, end)| end.leader());
                Input::LeaderNamed(*occurrence, leader)
            }
            TaskPurpose::Audit(audits) => {
                let answers = audits.iter().zip(&ends).map(|(audit, (host, end))| AuditAnswer {
                    audit: audit.clone(),
                    host: (*host).to_owned(),
                    failed: end.failed(),
                });
                Input::StepAudited(answers.collect())
            }
        })
    }
}

impl Drop for RunningTasks {
    fn drop(&mut self) {
        self.must_stop.store(true, Ordering::SeqCst);
        // A program inside a host ends with the host. The drop waits for local programs, so that
        // none of them outlives the trial.
        let until = Instant::now() + KILLED_WITHIN;
        while self.any_here && self.ends.iter().any(Option::is_none) {
            match self.ended.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((index, end)) => self.ends[index] = Some(end),
                Err(_) => return,
            }
        }
    }
}

/// Returns the failures with their hosts, or `None` if there are none.
fn failed(ends: &[(&str, &TaskEnd)]) -> Option<String> {
    let failures: Vec<String> =
        ends.iter().filter_map(|(host, end)| Some(format!("{host}: {}", end.failed()?))).collect();
    (!failures.is_empty()).then(|| failures.join("; "))
}

/// Combines the members' answers about a condition. On a member whose answer is lost or late, the
/// condition does not hold.
fn answer(on: HoldsOn, ends: &[(&str, &TaskEnd)]) -> ConditionAnswer {
    let broken: Vec<(&str, &TaskEnd)> =
        ends.iter().filter(|(_, end)| matches!(end, TaskEnd::Exit(code, _) if *code != 1)).copied().collect();
    if let Some(error) = failed(&broken) {
        return ConditionAnswer::Error(error);
    }
    let holding = ends.iter().filter(|(_, end)| matches!(end, TaskEnd::Ok(_))).count();
    let holds = match on {
        HoldsOn::All => holding == ends.len() && holding > 0,
        HoldsOn::One => holding > 0,
    };
    match failed(ends) {
        _ if holds => ConditionAnswer::Holds,
        Some(why) => ConditionAnswer::NotYet(why),
        None => ConditionAnswer::NotYet("no member is up".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: i32, said: &str) -> TaskEnd {
        TaskEnd::Exit(code, said.to_owned())
    }

    #[test]
    fn a_condition_holds_on_all_or_on_one() {
        let not_yet = |why: &str| ConditionAnswer::NotYet(why.to_owned());
        let (ok, later, lost) =
            (TaskEnd::Ok(String::new()), exit(1, "1 of 3 nodes"), TaskEnd::Broken("host n3 is lost".to_owned()));
        for (ends, all, one) in [
            (vec![("n1", &ok), ("n2", &ok)], ConditionAnswer::Holds, ConditionAnswer::Holds),
            (vec![("n1", &ok), ("n2", &later)], not_yet("n2: 1 of 3 nodes"), ConditionAnswer::Holds),
            (vec![("n2", &later)], not_yet("n2: 1 of 3 nodes"), not_yet("n2: 1 of 3 nodes")),
            (vec![("n3", &lost), ("n1", &ok)], not_yet("n3: host n3 is lost"), ConditionAnswer::Holds),
            (vec![], not_yet("no member is up"), not_yet("no member is up")),
        ] {
            assert_eq!(answer(HoldsOn::All, &ends), all);
            assert_eq!(answer(HoldsOn::One, &ends), one);
        }
    }

    #[test]
    fn any_other_exit_code_is_an_error() {
        let broken = exit(127, "");
        let ends = [("n1", &TaskEnd::Ok(String::new())), ("n2", &broken)];
        assert_eq!(answer(HoldsOn::One, &ends), ConditionAnswer::Error("n2: exit 127".to_owned()));
    }

    #[test]
    fn problems_are_listed_by_host() {
        let (first, second) = (exit(1, "two DCs"), TaskEnd::Broken("signal 9".to_owned()));
        assert_eq!(failed(&[("n1", &first), ("n2", &second)]), Some("n1: two DCs; n2: signal 9".to_owned()));
        assert_eq!(failed(&[("n1", &TaskEnd::Ok(String::new()))]), None);
    }
}
