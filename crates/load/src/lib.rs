//! The load engine: schedules (when), values (what), protocols (how), and the engine that brings them together.
//! It must not know a lab, a target or a fault: it is given an address and a load, and hands over records.

use std::sync::mpsc::SyncSender;

use experiment::mistake::{Mistake, TrialPart};
use experiment::plan::{Load, Tls};
use record::clock::Clock;
use serde::{Deserialize, Serialize};

pub(crate) mod answer_budget;
pub mod client;
mod engine;
mod error;
mod excerpt;
mod feed_stream;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod input_files;
mod interval;
mod open_words;
pub mod program_worker;
pub mod protocols;
pub mod recorder;
mod ring;
mod schedules;
mod service_address;
mod slice;
mod tls;
mod tunnel;
mod values;
mod wire;

pub use engine::script::operation_names;
pub use engine::{RunningLoad, Summary};
pub use error::Error;
pub use input_files::InputFiles;
pub use interval::{AttemptCount, HistogramSet, SlotCounts, ThreadInterval, UnitCount};
pub use slice::LoadSlice;
pub use tls::TlsTrust;
pub use values::{environment_of, with_environment};
pub use wire::{WireError, WireInterval, WireTerms};

/// A load to be put on a service.
#[derive(Debug, Clone)]
pub struct LoadOrder {
    /// Name of the protocol.
    pub protocol: String,
    /// Where: `host:port`, or a URL if the protocol has one; at least one. Agents are spread over them evenly: the first goes to
    /// the first, the second to the second, and each stays there, unless the load says where it goes when that is gone.
    pub services: Vec<String>,
    /// What: agents, steps, times.
    pub load: Load,
    /// What for.
    pub purpose: LoadPurpose,
    /// Every random choice follows from it.
    pub seed: u64,
    /// Whom to trust, where the services are spoken to by TLS.
    pub tls: Tls,
    /// Where feeds, scripts, recorded starts and certificates are.
    pub files: InputFiles,
    /// Length of the slots in which outcomes are counted, seconds.
    pub slot_s: f64,
    /// What ties programs that are run to this process, where the protocol runs some. Without it they are killed when the load ends, and
    /// outlive a kill of this process.
    pub tether: Option<program_worker::DeathSignal>,
    /// Where programs that the target names are run: for each of the services its host; empty where it names none.
    pub hosts: Vec<program_worker::ProgramHost>,
    /// Whether bytes go by a system call each also where the kernel has an io_uring for them.
    pub without_ring: bool,
    /// Which of the load's threads are started here; `None`: all.
    pub slice: Option<LoadSlice>,
}

/// What a load is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadPurpose {
    /// To be measured, for `load.time_s`.
    #[default]
    Measure,
    /// To bring the target into a state: ends after `count` cycles, whose `{seq}` runs from 1 to `count` over all agents, or
    /// with the first operation that is not `ok`.
    Prepare {
        /// Cycles in all.
        count: u64,
    },
}

/// Whether the orders can be carried out here: compiles every request, reads every feed, and holds the number of agents against
/// the limits of this process and machine. Nothing is sent. The soft limit on open files is raised where that is enough.
///
/// # Errors
/// What stands in the way, with the remedy.
pub fn check(orders: &LoadOrder) -> Result<(), Error> {
    (kind(orders)?.check)(orders)
}

/// Every part of the orders that cannot be played anywhere: requests that make no sense, and files that are missing or broken. Unlike
/// [`check`] it does not look at this machine's limits. Programs that a target names are left out; they are known on its hosts. Files
/// that are not regular are not read.
#[must_use]
pub fn mistakes(orders: &LoadOrder) -> Vec<Mistake> {
    match kind(orders) {
        Ok(kind) => (kind.mistakes)(orders),
        Err(error) => vec![Mistake { part: TrialPart::Load, reason: error.to_string() }],
    }
}

/// Starts the engine's threads. They wait for the clock's zero, hand over an [`ThreadInterval`] each at every whole second, and drop
/// the sender when they are done.
///
/// # Errors
/// As [`check`], or if a service's name cannot be resolved or a thread not be started.
pub fn start(orders: LoadOrder, clock: Clock, sink: SyncSender<ThreadInterval>) -> Result<RunningLoad, Error> {
    compile(orders)?.start(clock, sink)
}

/// Compiles a load: so that it begins at its clock's zero, however long its requests are.
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
    ///
    /// # Errors
    /// If a thread cannot be started.
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
