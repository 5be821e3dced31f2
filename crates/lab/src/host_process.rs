//! A process on a host: what it is to be, what can be asked of it, and how it ended.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use crate::Error;
use crate::process_log::LogWatcher;

/// What a host is asked to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    pub role: String,
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// More environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it runs; `None`: where this program does.
    pub folder: Option<PathBuf>,
    /// The user that it runs as; `None`: whoever runs this program.
    pub user: Option<String>,
    /// Gets standard output and error.
    pub log: PathBuf,
    /// Hear what goes there.
    pub log_watcher: LogWatcher,
    /// Programs in its tree that have samples of their own.
    pub programs: Vec<String>,
}

/// What a program that ran to its end came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProgramOutput {
    pub ended: ProcessExit,
    pub output: String,
    pub errors: String,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessExit {
    /// With this code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl ProcessExit {
    /// From the way a runner says it: the exit code, or the signal, negative.
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

/// A process that a host started.
pub(crate) trait HostProcess: Send {
    /// Its pid on this machine.
    fn pid(&self) -> u32;

    /// How it ended, once it has.
    fn ended(&mut self) -> Option<ProcessExit>;

    /// Waits for its end.
    fn wait(&mut self, within: Duration) -> Option<ProcessExit>;

    /// Signals it; nothing happens if it has ended.
    fn signal(&mut self, signal: Signal);

    /// Signals it and all that it started that has not left its process group, also when it has ended itself.
    fn signal_group(&mut self, signal: Signal);

    /// Signals every process of a program in its tree; gives their pids.
    fn signal_program(&mut self, program: &str, signal: Signal) -> Result<Vec<u32>, Error>;

    /// The last lines it wrote, oldest first. After its end, all that it wrote counts.
    fn last_lines(&mut self) -> Vec<String>;
}
