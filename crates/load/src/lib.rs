//! The load engine: schedules (when), values (what), protocols (how), and the engine that combines
//! them. This crate knows nothing about labs, targets and faults: it takes an address and a load,
//! and returns records.

use std::sync::mpsc::SyncSender;

use experiment::mistake::{Mistake, TrialPart};
use experiment::plan::{Load, Tls};
use record::clock::Clock;
use serde::{Deserialize, Serialize};

pub mod client;
mod engine;
mod error;
#[cfg(feature = "testing")]
pub mod fuzzing;
mod interval;
mod interval_text;
pub mod protocols;
pub mod recorder;
mod schedules;
mod slice;

pub use engine::script::operation_names;
pub use engine::{RunningLoad, Summary};
pub use error::Error;
pub use interval::{AttemptCount, CheckCount, HistogramSet, SlotCounts, ThreadInterval, UnitCount};
pub use interval_text::{IntervalTerms, IntervalText, IntervalTextError};
pub use slice::LoadSlice;
pub use transport::error::Error as TransportError;
pub use transport::program_worker;
pub use transport::tls::TlsTrust;
pub use wire::error::Error as ValueError;
pub use wire::input_files::InputFiles;
pub use wire::values::{environment_of, with_environment};

/// A load and its destination.
#[derive(Debug, Clone)]
pub struct LoadOrder {
    /// Name of the protocol.
    pub protocol: String,
    /// Addresses of the services, at least one: `host:port`, or a URL if the protocol has one.
    /// Agents are spread over the services evenly, the first agent on the first service, the second
    /// on the second. Each agent stays on its service, unless the service is gone and the load has
    /// failover.
    pub services: Vec<String>,
    pub load: Load,
    pub purpose: LoadPurpose,
    /// Seed of all random choices.
    pub seed: u64,
    /// Trust settings for services with TLS.
    pub tls: Tls,
    /// Locations of feeds, scripts, recorded schedules and certificates.
    pub files: InputFiles,
    /// Length of the time slots in which outcomes are counted, seconds.
    pub slot_s: f64,
    /// Prepares a program to be killed when this process ends, if the protocol runs programs.
    /// `None`: programs are killed when the load ends, but outlive this process if it is killed.
    pub tether: Option<program_worker::DeathSignal>,
    /// Host on which the target's programs run, for each service. Empty if the target names no
    /// host.
    pub hosts: Vec<program_worker::ProgramHost>,
    /// Whether each transfer uses its own system call even if the kernel has io_uring.
    pub without_ring: bool,
    /// The threads of the load that this process starts, or `None` for all threads.
    pub slice: Option<LoadSlice>,
}

/// Effect of a line of a preparation's history that is no operation: a value that the preparation
/// has kept, with its slot as the key.
pub const KEPT: &str = "keep";

/// The purpose of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadPurpose {
    /// A measurement that lasts `load.time_s`.
    #[default]
    Measure,
    /// Preparation of the target's state. Ends after `count` cycles, or at the first operation that
    /// is not `ok`. `{seq}` of the cycles runs from 1 to `count` over all agents.
    Prepare {
        /// Number of cycles over all agents.
        count: u64,
    },
}

/// Checks that the load can run here: compiles every request, reads every feed, and compares the
/// number of agents with the limits of this process and machine. Sends nothing. Raises the soft
/// limit on open files if necessary and possible.
///
/// # Errors
/// Returns the first obstacle, with its remedy.
pub fn check(orders: &LoadOrder) -> Result<(), Error> {
    (kind(orders)?.check)(orders)
}

/// Returns all mistakes that prevent the load on any machine: invalid requests, and files that are
/// missing or broken. Notes name values that their place changes. Unlike [`check`], this function
/// ignores the limits of this machine. Programs that a target names are not checked, because only
/// its hosts have them. Only regular files are read.
#[must_use]
pub fn mistakes(orders: &LoadOrder) -> Vec<Mistake> {
    match kind(orders) {
        Ok(kind) => (kind.mistakes)(orders),
        Err(error) => vec![Mistake { part: TrialPart::Load, reason: error.to_string(), is_note: false }],
    }
}

/// Starts the engine's threads. The threads wait for the clock's zero. Each sends a
/// [`ThreadInterval`] at every whole second and drops the sender when it has finished.
///
/// # Errors
/// Returns the errors of [`check`], and an error if a service's name cannot be resolved or a thread
/// cannot be started.
pub fn start(orders: LoadOrder, clock: Clock, sink: SyncSender<ThreadInterval>) -> Result<RunningLoad, Error> {
    compile(orders)?.start(clock, sink)
}

/// Compiles a load ahead of time, so that it starts at its clock's zero even if compiling takes
/// long.
///
/// # Errors
/// Returns the errors of [`check`], and an error if a service's name cannot be resolved.
pub fn compile(orders: LoadOrder) -> Result<CompiledLoad, Error> {
    (kind(&orders)?.compile)(&orders).map(CompiledLoad)
}

/// A load that is ready to start.
pub struct CompiledLoad(StartLoad);

/// Starts the threads of a compiled load.
pub(crate) type StartLoad = Box<dyn FnOnce(Clock, SyncSender<ThreadInterval>) -> Result<RunningLoad, Error> + Send>;

impl CompiledLoad {
    /// Starts the engine's threads, as [`start`] does.
    pub fn start(self, clock: Clock, sink: SyncSender<ThreadInterval>) -> Result<RunningLoad, Error> {
        (self.0)(clock, sink)
    }
}

impl std::fmt::Debug for CompiledLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompiledLoad").finish_non_exhaustive()
    }
}

fn kind(orders: &LoadOrder) -> Result<&'static protocols::ProtocolKind, Error> {
    protocols::find(&orders.protocol).ok_or_else(|| Error::Protocol(orders.protocol.clone()))
}
