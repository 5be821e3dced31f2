//! The run folder: every name in it, the clock, the writers, and readers that survive a torn tail.
//! The hinge between the live half (which writes here) and the cold half (which reads only here).
//! It must not know how anything is measured or what it means.

pub mod clock;
pub mod compared;
pub mod course;
pub mod environment;
pub mod events;
pub mod folder;
pub mod hlog;
pub mod lines;
pub mod private;
pub mod replicas;
pub mod results;
pub mod rows;
mod table;
pub mod whole;

pub use whole::{ReadError, Records};
