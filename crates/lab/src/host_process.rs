//! A process on a host: its specification, its output and its exit status.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::process_log::LogWatcher;

/// A process to start on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Start {
    pub role: String,
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Additional environment variables.
    pub environment: Vec<(OsString, OsString)>,
    /// Working folder. `None` for this program's working folder.
    pub folder: Option<PathBuf>,
    /// User as which the process runs. `None` for this program's user.
    pub user: Option<String>,
    /// File for standard output and error.
    pub log: PathBuf,
    /// Watches the process's output.
    pub log_watcher: LogWatcher,
    /// Programs in the process's tree that get separate samples.
    pub programs: Vec<String>,
}

/// Result of a program that ran to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProgramOutput {
    pub ended: ProcessExit,
    pub output: String,
    pub errors: String,
}

/// Exit status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessExit {
    /// Exit code.
    Exit(i32),
    /// Signal number.
    Signal(i32),
}

impl ProcessExit {
    /// Converts a runner's code: the exit code, or the negated signal number.
    pub fn from_code(how: i32) -> Self {
        if how < 0 { Self::Signal(-how) } else { Self::Exit(how) }
    }
}

impl std::fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Signal(number) => write!(f, "signal {number}"),
        }
    }
}
