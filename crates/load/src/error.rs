//! Errors before, during and after a load, each with a remedy.

use std::io;
use std::path::PathBuf;

/// The reason why a load cannot start or had to end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No protocol of this name.
    #[error("there is no protocol `{0}`")]
    Protocol(String),
    /// A step cannot be compiled into requests.
    #[error("step `{step}`: {reason}")]
    Step { step: String, reason: String },
    /// A recorded schedule cannot be read.
    #[error("the schedule {}: {reason}", path.display())]
    Replay {
        path: PathBuf,
        /// The problem and its line.
        reason: String,
    },
    /// No connection can be made.
    #[error(transparent)]
    Transport(#[from] transport::error::Error),
    /// A feed or a script cannot be used.
    #[error(transparent)]
    Values(#[from] wire::error::Error),
    /// An invalid setting.
    #[error("{0}")]
    Setting(String),
    /// Too few file descriptors.
    #[error(
        "{agents} agents need {needed} open files, but this process may open {limit}: raise the limit as root \
         (`ulimit -n {needed}`, or `nofile` in /etc/security/limits.conf; beyond fs.nr_open, raise fs.nr_open first) \
         or use fewer agents"
    )]
    Files {
        /// Number of agents in the load.
        agents: u32,
        /// Number of descriptors needed, including the engine's descriptors.
        needed: u64,
        /// Limit on open files of the process.
        limit: u64,
    },
    /// A record file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Disk { path: PathBuf, source: io::Error },
    /// An operation of a preparation failed.
    #[error("`{operation}` number {seq} of the preparation failed: {result}")]
    Prepare {
        operation: String,
        /// Number of the repetition, from 1.
        seq: u64,
        /// Result of the last attempt.
        result: String,
    },
    /// The receiver of the records has ended.
    #[error("the recorder of the load has ended")]
    RecorderGone,
    /// A bug in Plimsoll.
    #[error("an engine thread panicked; this is a bug")]
    Panicked,
}
