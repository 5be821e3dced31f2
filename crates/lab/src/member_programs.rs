//! Programs that clients run on the host of a member, as operations of the target.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use runner::ProgramSpec;

use crate::Error;
use crate::host_process::ProcessExit;
use crate::sampling::ProbeSources;

/// Of each output of such a program, so much is kept.
const KEPT_BYTES: usize = 2 << 20;

/// Where the programs of a member are run, and what they are told. Copies see what becomes of the host.
#[derive(Debug, Clone)]
pub struct MemberPrograms {
    /// Name of its host.
    pub(crate) host: String,
    /// What `{NAME}` stands for there.
    pub values: BTreeMap<String, String>,
    /// The target's folder there.
    pub folder: PathBuf,
    /// `PLIMSOLL_…`
    pub environment: BTreeMap<String, OsString>,
    /// Whether its host is this machine, without a runner.
    pub is_here: bool,
    /// The runners of the hosts that are up.
    pub(crate) sources: ProbeSources,
}

/// What came of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberProgramEnd {
    /// Its exit status, or the signal that ended it, negative.
    pub how: i32,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
}

impl MemberPrograms {
    /// Has the host's runner run a program to its end; kills it once `goes_on` says no. `None`: it was given up, or the host was lost,
    /// and nobody knows what became of it.
    ///
    /// # Errors
    /// Why it was not started.
    pub fn run(
        &self,
        command: Vec<String>,
        input: &str,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Option<MemberProgramEnd>, Error> {
        let host = || self.host.clone();
        let session = self.sources.session(&self.host);
        let session = session.ok_or_else(|| Error::Host { host: host(), reason: "it is down".to_owned() })?;
        let text = |value: &OsString| value.to_string_lossy().into_owned();
        let program = ProgramSpec {
            // Without a role it has no rows of its own.
            role: String::new(),
            command,
            environment: self.environment.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
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
