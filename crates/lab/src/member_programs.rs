//! Programs that clients run on a member's host as operations of the target.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use runner::ProgramSpec;

use crate::host_process::ProcessExit;
use crate::sampling::ProbeSources;
use crate::{Error, hooks};

/// Limit for each output stream of a program, bytes.
const KEPT_BYTES: usize = 2 << 20;

/// The place and environment for a member's programs. Copies share the state of the host.
#[derive(Debug, Clone)]
pub struct MemberPrograms {
    /// Name of the member's host.
    pub(crate) host: String,
    /// Values of the placeholders `{NAME}` on that host.
    pub values: BTreeMap<String, String>,
    /// Path of the target's folder on that host.
    pub folder: PathBuf,
    /// Environment variables `PLIMSOLL_…`.
    pub environment: BTreeMap<String, OsString>,
    /// Whether the host is this machine, on which programs run without a runner.
    pub is_here: bool,
    /// Runners of the hosts that are up.
    pub(crate) sources: ProbeSources,
}

/// Result of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberProgramEnd {
    /// Exit code, or the negated signal number.
    pub how: i32,
    pub output: String,
    pub errors: String,
}

impl MemberPrograms {
    /// Runs a program on the host to its end. Kills it once `goes_on` returns false. Returns `None`
    /// if the program was killed or the host was lost, so that its result is unknown.
    ///
    /// # Errors
    /// The reason why the program did not start.
    pub fn run(
        &self,
        command: Vec<String>,
        input: &str,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Option<MemberProgramEnd>, Error> {
        let Some(session) = self.sources.session(&self.host) else {
            return Err(Error::Host { host: self.host.clone(), reason: "the host is down".to_owned() });
        };
        let program = ProgramSpec {
            // Without a role, the program gets no rows in the samples.
            role: String::new(),
            command,
            environment: hooks::as_text(&self.environment),
            folder: Some(self.folder.clone()),
            keeps_bytes: Some(KEPT_BYTES),
            programs: Vec::new(),
            user: None,
        };
        match session.run_while(&program, input, goes_on) {
            Ok(ran) => Ok(ran.map(|ran| {
                let how = match ran.ended {
                    ProcessExit::Exit(code) => code,
                    ProcessExit::Signal(number) => -number,
                };
                MemberProgramEnd { how, output: ran.output, errors: ran.errors }
            })),
            Err(Error::HostLost { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
