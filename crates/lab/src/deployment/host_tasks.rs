//! Programs that run on a deployment's hosts, on any thread.

use std::sync::Arc;
use std::time::Duration;

use runner::{ProgramSpec, plain_text};

use crate::hooks::Hook;
use crate::host::Host;
use crate::host_process::ProcessExit;
use crate::session::RunnerSession;

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
        leader.map(str::to_owned).ok_or_else(|| "the hook `leader` names no leader".to_owned())
    }
}

impl HostTask {
    pub(super) fn of_hook(host: &Host, hook: Hook) -> Self {
        let program = if host.is_here() {
            TaskProgram::Here(hook)
        } else {
            TaskProgram::Inside(host.session(), hook.program(), hook.within)
        };
        Self { host: host.name().to_owned(), program }
    }

    /// Creates a task for a program inside a host.
    pub(super) fn inside(host: String, session: Arc<RunnerSession>, program: ProgramSpec, within: Duration) -> Self {
        Self { host, program: TaskProgram::Inside(session, program, within) }
    }

    /// Whether the program runs on this machine, as a child of this program.
    #[must_use]
    pub fn is_here(&self) -> bool {
        matches!(self.program, TaskProgram::Here(_))
    }

    /// Runs the program to its end. On this machine, ends it early once `must_stop` returns true.
    /// Inside a host, only the time limit or the end of the host ends it early.
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
    let mut last = [output, errors].into_iter().flat_map(|text| text.lines().rev());
    plain_text::line(last.find(|line| !line.trim().is_empty()).unwrap_or_default().trim())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fixture::TestDir;

    use super::*;
    use crate::Error;
    use crate::fakes::Bench;

    #[test]
    fn ends_of_programs_are_distinguished() {
        let (bench, folder) = (Bench::new(), TestDir::new());
        let host = crate::hosts::local(&bench.registry);
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
        assert!(matches!(ends("sleep 1000", 300, false), TaskEnd::Broken(why) if why.contains("did not end within")));
        assert_eq!(ends("sleep 1000", 600_000, true), TaskEnd::Broken(Error::Interrupted.to_string()));
    }
}
