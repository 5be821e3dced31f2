//! The conductor: plays a plan, trial by trial. It can be interrupted at any time. A pure core
//! decides which actions follow, and a thin shell performs them. This crate does not measure, judge
//! or print.

pub mod conductor;
mod examples;
mod fleet_placement;
pub mod leader_questions;
mod live_check;
mod load_makers;
mod mistakes;
mod playing;
mod preparation;
pub mod progress;
mod read_back;
mod recording;
mod running_tasks;
pub mod schedule;
mod shared_start;
pub mod step_sequence;
mod target_calls;
mod trial;
mod weight;

pub use mistakes::mistakes;
pub use playing::{Run, play, recorded};
pub use progress::{Interrupts, Observer, ProgressEvent, SecondTotals};
pub use weight::{heavy, weight_bytes};

/// The reason why a run could not continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lab could not be built, or the target did not start.
    #[error(transparent)]
    Lab(#[from] lab::Error),
    /// The load could not be started, or `[[prepare]]` failed.
    #[error(transparent)]
    Load(#[from] load::Error),
    /// A fleet of generators failed, or a generator was lost.
    #[error(transparent)]
    Fleet(#[from] fleet::session::SessionError),
    /// A generator could not be started.
    #[error(transparent)]
    Placement(#[from] fleet::engines::PlacementError),
    /// A record could not be written.
    #[error("cannot write the records: {0}")]
    Record(#[source] std::io::Error),
    /// A record could not be read back.
    #[error("cannot read the records: {0}")]
    Broken(String),
    /// A bug in Plimsoll.
    #[error("a bug ended the run: {0}")]
    Panicked(String),
}

impl From<analysis::Error> for Error {
    fn from(error: analysis::Error) -> Self {
        Self::Broken(error.to_string())
    }
}
