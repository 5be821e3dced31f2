//! The run folder: its file names, clock, writers, and readers that tolerate a file that was cut
//! off. The live half of Plimsoll writes run folders through this crate; the analysis half reads
//! only run folders. This crate must not know how values are measured or what they mean.

pub mod calibration;
pub mod checked_file;
pub mod clock;
pub mod compared;
pub mod environment;
#[warn(missing_docs)]
pub mod events;
pub mod folder;
pub mod hlog;
pub mod lines;
pub mod looks;
pub mod metric_history;
pub mod private;
pub mod replicas;
#[warn(missing_docs)]
pub mod results;
#[warn(missing_docs)]
pub mod rows;
pub mod selfcheck;
mod table;

pub use checked_file::{ReadError, Records};
