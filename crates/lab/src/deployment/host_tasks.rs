//! Programs that the steps of an exercise run on a deployment's members, on any thread. Also
//! restarts the target if a step leaves it in a bad state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use experiment::manifest::Manifest;
use experiment::plan;
use runner::{ProgramSpec, plain_text};

use super::bring_up::slowdown;
use super::layout::HookHost;
use super::{ASK_PATIENCE, AUDIT_PATIENCE, Deployment};
use crate::faults;
use crate::hooks::{Hook, variable};
use crate::host::{Host, HostKind, on_each_host};
use crate::host_process::ProcessExit;
use crate::session::RunnerSession;
use crate::{Caller, Error};

/// Folder in which a virtual host keeps the content of the target's private folders.
const PRIVATE_FOLDERS: &str = ".private";

/// A program to run on a host. It does not borrow the deployment.
pub struct HostTask {
    /// The host's name.
    pub host: String,
    program: TaskProgram,
}

enum TaskProgram {
    /// A program on this machine.
    Here(Hook),
    /// A program inside a host, with its time limit.
    Inside(Arc<RunnerSession>, ProgramSpec, Duration),
}

/// Result of a [`HostTask`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEnd {
    /// Exit code 0, with the standard output.
    Ok(String),
    /// Another exit code, with the last line of standard output, or else of standard error.
    Exit(i32, String),
    /// The reason why the program was ended or did not run, or why its host was lost.
    Broken(String),
}

impl TaskEnd {
    /// Returns the reason for the failure, if the task failed.
    #[must_use]
    pub fn failed(&self) -> Option<String> {
        match self {
            Self::Ok(_) => None,
            Self::Exit(code, said) if said.is_empty() => Some(format!("exit {code}")),
            Self::Exit(_, said) => Some(said.clone()),
            Self::Broken(why) => Some(why.clone()),
        }
    }

    /// Returns the member that the hook `leader` named.
    ///
    /// # Errors
    /// If the hook failed or its answer names no member.
    pub fn leader(&self) -> Result<String, String> {
        let Self::Ok(answer) = self else {
            return Err(format!("hook `leader`: {}", self.failed().unwrap_or_default()));
        };
        let answer: Option<serde_json::Value> = serde_json::from_str(answer).ok();
        let leader = answer.as_ref().and_then(|answer| answer.get("leader")?.as_str());
        leader.map(str::to_owned).ok_or_else(|| "the hook `leader` names none".to_owned())
    }
}

impl HostTask {
    pub(super) fn of_hook(host: &dyn Host, hook: Hook) -> Self {
        let program = match host.session() {
            Some(session) => TaskProgram::Inside(session, hook.program(), hook.within),
            None => TaskProgram::Here(hook),
        };
        Self { host: host.name().to_owned(), program }
    }

    /// Whether the program runs on this machine, as a child of this program.
    #[must_use]
    pub fn is_here(&self) -> bool {
        matches!(self.program, TaskProgram::Here(_))
    }

    /// Runs the program to its end. Ends it early once `must_stop` returns true. Inside a host,
    /// only the time limit or the end of the host ends it early.
    #[must_use]
    pub fn run(&self, must_stop: &dyn Fn() -> bool) -> TaskEnd {
        let ran = match &self.program {
            TaskProgram::Inside(session, program, within) => session.run(program, "", *within),
            TaskProgram::Here(hook) => hook.run_here(must_stop),
        };
        let ran = match ran {
            Ok(ran) => ran,
            Err(error) => return TaskEnd::Broken(error.to_string()),
        };
        match ran.ended {
            ProcessExit::Exit(0) => TaskEnd::Ok(ran.output),
            ProcessExit::Exit(code) => TaskEnd::Exit(code, said(&ran.output, &ran.errors)),
            killed => {
                let last = said("", &ran.errors);
                TaskEnd::Broken(if last.is_empty() { killed.to_string() } else { last })
            }
        }
    }
}

/// Returns the last line of standard output, or else of standard error.
fn said(output: &str, errors: &str) -> String {
    let last = |text: &str| text.lines().rev().find(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned());
    let line = last(output).or_else(|| last(errors)).unwrap_or_default();
    plain_text::line(&line)
}

/// Returns the hooks of an exercise, named by kind and name.
pub(super) fn hook_names(manifest: &Manifest) -> BTreeMap<String, String> {
    let of = |kind: &'static str, (name, path): (&String, &String)| (format!("{kind} {name}"), path.clone());
    let actions = manifest.actions.iter().map(|entry| of("action", entry));
    let conditions = manifest.conditions.iter().map(|(name, condition)| of("condition", (name, &condition.run)));
    actions.chain(conditions).chain(manifest.audits.iter().map(|entry| of("audit", entry))).collect()
}

impl Deployment {
    /// Returns the programs of a step that is performed for the `number`th time, each with its host
    /// and time limit.
    ///
    /// # Errors
    /// If the step has no possible victim.
    pub fn step_tasks(
        &mut self,
        step: &str,
        fault: &plan::Fault,
        number: u32,
        within: Duration,
    ) -> Result<Vec<HostTask>, Error> {
        let Some(action) = &fault.action else { return self.command_tasks(fault, number, within) };
        let chosen = faults::choose_members(fault, number, self)?;
        let places = self.hook_hosts.iter().filter(|place| chosen.iter().any(|name| name == self.name_of(place)));
        let tasks: Vec<HostTask> = places
            .filter_map(|place| {
                let mut hook = self.hook_of(place, &format!("action {action}"), within)?;
                hook.environment.insert("PLIMSOLL_STEP".to_owned(), step.into());
                for name in fault.with.keys() {
                    let value = faults::text(&fault.with, name).unwrap_or_default();
                    hook.environment.insert(variable("PLIMSOLL_ARG_", name), value.into());
                }
                Some(HostTask::of_hook(self.hosts.get(place.host)?.as_ref(), hook))
            })
            .collect();
        if tasks.len() < chosen.len() {
            return Err(Error::Fault(format!("the action `{action}` cannot be run on {}", chosen.join(", "))));
        }
        Ok(tasks)
    }

    /// Returns the programs of the fault `command`. Other callers run and await them.
    fn command_tasks(&mut self, fault: &plan::Fault, number: u32, within: Duration) -> Result<Vec<HostTask>, Error> {
        let mut tasks = Vec::new();
        for (host, program) in faults::commands(fault, number, self)? {
            let index = self.host_index(&host)?;
            let session = self.hosts[index].session().ok_or(Error::NotAHost)?;
            tasks.push(HostTask { host, program: TaskProgram::Inside(session, program, within) });
        }
        Ok(tasks)
    }

    /// Returns a check of a condition on every member whose host is up.
    #[must_use]
    pub fn condition_tasks(&self, name: &str, within: Duration) -> Vec<HostTask> {
        let within = within.min(ASK_PATIENCE.mul_f64(slowdown(self.speed())));
        self.tasks_of_all(&format!("condition {name}"), within)
    }

    /// Returns an audit of every member whose host is up.
    #[must_use]
    pub fn audit_tasks(&self, name: &str) -> Vec<HostTask> {
        self.tasks_of_all(&format!("audit {name}"), AUDIT_PATIENCE.mul_f64(slowdown(self.speed())))
    }

    fn tasks_of_all(&self, hook: &str, within: Duration) -> Vec<HostTask> {
        let up = self.hook_hosts.iter().filter(|place| self.hosts.get(place.host).is_some_and(|host| host.is_up()));
        let task = |place: &HookHost| {
            let hook = self.hook_of(place, hook, within)?;
            Some(HostTask::of_hook(self.hosts.get(place.host)?.as_ref(), hook))
        };
        up.filter_map(task).collect()
    }

    /// Returns the hook for one member, with exactly this time limit.
    fn hook_of(&self, place: &HookHost, hook: &str, within: Duration) -> Option<Hook> {
        Some(Hook { within, ..self.hook_at(place, hook, within)? })
    }

    fn name_of(&self, place: &HookHost) -> &str {
        self.hosts.get(place.host).map(|host| host.name()).unwrap_or_default()
    }

    /// Ends the target's processes, empties their folders, and starts the target again on the same
    /// hosts and ports. Ends and boots virtual hosts, so that no process on them is left.
    ///
    /// # Errors
    /// The same as for the first start; [`Error::Interrupted`] once `stop` is set.
    pub fn rebuild(&mut self, lab: &plan::Lab, caller: &dyn Caller, stop: &AtomicBool) -> Result<(), Error> {
        self.look();
        self.forget_faults();
        self.end_posts(0..self.posts.len());
        for post in &mut self.posts {
            (post.process, post.last) = (None, None);
        }
        let are_virtual: Vec<bool> = self.hosts.iter().map(|host| host.kind() == HostKind::Virtual).collect();
        for (index, _) in are_virtual.iter().enumerate().filter(|(_, is_virtual)| **is_virtual) {
            self.host_down(index, true);
        }
        let booted = on_each_host(&mut self.hosts, |index, host| {
            if are_virtual[index] {
                if !host.is_up() {
                    host.boot()?;
                }
                // The host mounts the folder at boot, so it boots again after the removal.
                host.remove_folder(PRIVATE_FOLDERS);
                host.crash()?;
            }
            if host.is_up() { Ok(()) } else { host.boot() }
        });
        booted.into_iter().collect::<Result<(), Error>>()?;
        for (index, is_virtual) in are_virtual.into_iter().enumerate() {
            self.host_up(index);
            if is_virtual {
                self.inject_again(index)?;
            }
        }
        self.empty_folders()?;
        self.watch();
        self.start_in(lab, caller, stop)
    }

    fn empty_folders(&mut self) -> Result<(), Error> {
        let mut folders: Vec<Vec<String>> = self.hosts.iter().map(|_| Vec::new()).collect();
        for post in &self.posts {
            folders[post.host].extend(post.folder.clone());
        }
        let emptied = on_each_host(&mut self.hosts, |index, host| {
            folders[index].iter().try_for_each(|name| host.folder(name).map(drop))
        });
        emptied.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use fixture::TestDir;
    use runner::Injection;

    use super::*;
    use crate::fakes::{AlwaysOk, Bench, FakeDeployment, FakeHost, HostFailures};

    const SQUEEZE: Injection = Injection::Cpu { of_profile: 0.5 };

    #[test]
    fn a_rebuild_heals_faults_and_keeps_the_hosts() {
        let mut stage = FakeDeployment::of(2);
        let services = stage.deployment.services();
        stage.deployment.inject("cut#1", &[("n2".to_owned(), SQUEEZE)]).unwrap();
        stage.deployment.inject("lab.port.main", &[("n1".to_owned(), SQUEEZE)]).unwrap();
        stage.deployment.crash_host("n2", "crash#1").unwrap();
        stage.done();
        stage.deployment.rebuild(&plan::Lab::default(), &AlwaysOk, &AtomicBool::new(false)).unwrap();
        let mut done = stage.done();
        done.retain(|line| !line.contains("signal"));
        done.sort();
        let again = "n1 inject lab.port.main {\"control\":\"cpu\",\"of_profile\":0.5}";
        let starts = [
            "n1 start agent",
            "n1 start server",
            "n2 boot",
            "n2 boot",
            "n2 crash",
            "n2 start agent",
            "n2 start server",
        ];
        assert_eq!(done[..3], ["n1 boot", "n1 crash", again]);
        assert_eq!(done[3..], starts);
        assert_eq!((stage.deployment.members().len(), stage.deployment.services()), (4, services));
        stage.deployment.boot_hosts("crash#1").unwrap();
        stage.deployment.heal("cut#1").unwrap();
        assert_eq!(stage.done(), [""; 0], "what was broken is forgotten");
    }

    #[test]
    fn a_failed_rebuild_is_an_error() {
        let mut stage = FakeDeployment::of(1);
        stage.refuse(Some("start server"));
        let built = stage.deployment.rebuild(&plan::Lab::default(), &AlwaysOk, &AtomicBool::new(false));
        assert_eq!(built.err().unwrap().to_string(), "it cannot");
        stage.refuse(None);
        let built = stage.deployment.rebuild(&plan::Lab::default(), &AlwaysOk, &AtomicBool::new(true));
        assert!(matches!(built, Err(Error::Interrupted)), "{built:?}");
    }

    #[test]
    fn ends_of_programs_are_distinguished() {
        let (bench, folder) = (Bench::new(), TestDir::new());
        let host = FakeHost::new(2, &bench.registry, HostFailures::default());
        let ends = |script: &str, within: u64, stops: bool| {
            let hook = Hook {
                name: "condition good".to_owned(),
                folder: folder.to_path_buf(),
                path: folder.script("hooks/good", script),
                arguments: Vec::new(),
                environment: BTreeMap::new(),
                within: Duration::from_millis(within),
                answer_bytes: crate::hooks::ANSWER_BYTES,
                in_foreground: false,
            };
            HostTask::of_hook(&host, hook).run(&|| stops)
        };
        assert_eq!(ends("echo fine", 20_000, false), TaskEnd::Ok("fine\n".to_owned()));
        assert_eq!(ends("echo one; echo two; exit 1", 20_000, false), TaskEnd::Exit(1, "two".to_owned()));
        assert_eq!(ends("echo bad >&2; exit 3", 20_000, false), TaskEnd::Exit(3, "bad".to_owned()));
        assert!(matches!(ends("kill -9 $$", 20_000, false), TaskEnd::Broken(_)));
        assert!(matches!(ends("sleep 1000", 300, false), TaskEnd::Broken(why) if why.contains("not done within")));
        assert_eq!(ends("sleep 1000", 600_000, true), TaskEnd::Broken(Error::Interrupted.to_string()));
    }
}
