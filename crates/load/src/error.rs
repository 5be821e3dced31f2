//! What can go wrong before, during and after a load, each with its remedy.

use std::io;
use std::path::PathBuf;

/// Why a load cannot start or had to end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No protocol of this name.
    #[error("there is no protocol `{0}`")]
    Protocol(String),
    /// The service cannot be addressed.
    #[error("service `{service}`: {reason}")]
    Service {
        /// As given.
        service: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A step cannot be turned into requests.
    #[error("step `{step}`: {reason}")]
    Step {
        /// Its name.
        step: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A feed cannot be read.
    #[error("feed `{feed}`: {reason}")]
    Feed {
        /// Its name.
        feed: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A recorded schedule cannot be read.
    #[error("the schedule {}: {reason}", path.display())]
    Replay {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it, and in which line.
        reason: String,
    },
    /// A script cannot be read, or failed while the load ran.
    #[error("script `{script}`: {reason}")]
    Script {
        /// Its file, as given.
        script: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A setting that makes no sense.
    #[error("{0}")]
    Setting(String),
    /// Too few file descriptors.
    #[error(
        "{agents} agents need {needed} open files, and this process may open {limit}: raise the limit as root \
         (`ulimit -n {needed}`, or `nofile` in /etc/security/limits.conf; beyond fs.nr_open that first) or use fewer agents"
    )]
    Files {
        /// Agents asked for.
        agents: u32,
        /// Descriptors they need, with the engine's own.
        needed: u64,
        /// What the process may have at most.
        limit: u64,
    },
    /// Too few local ports.
    #[error(
        "{connections} connections need as many local ports towards one service, and {addresses} local address(es) have {ports} each: widen \
         net.ipv4.ip_local_port_range (`sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"`), name more local addresses in \
         `load.from`, or use fewer agents"
    )]
    Ports {
        /// Connections to the service.
        connections: u32,
        /// Ports in the range.
        ports: u32,
        /// Local addresses that they connect from.
        addresses: usize,
    },
    /// A local address that agents were to connect from.
    #[error("cannot connect from {address}: {reason}")]
    From {
        /// As given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A record file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Disk {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An operation of a prepare failed.
    #[error("`{operation}` number {seq} of the preparation failed: {result}")]
    Prepare {
        /// Its name.
        operation: String,
        /// Which repetition, from 1.
        seq: u64,
        /// Result of its last attempt.
        result: String,
    },
    /// The operating system refused something that the engine cannot do without.
    #[error("{doing}: {source}")]
    System {
        /// What was attempted.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Whoever was to take the records is gone.
    #[error("the recorder of the load has ended")]
    RecorderGone,
    /// A bug of ours.
    #[error("an engine thread panicked; this is a bug")]
    Panicked,
}

impl Error {
    pub(crate) fn system(doing: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::System { doing, source: errno.into() }
    }
}
