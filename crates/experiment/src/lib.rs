//! What a user writes: experiment files and target manifests, parsed, checked and turned into a plan.
//! Pure: text in, values and problems out. No file, process, network or clock is touched here.

pub mod catalog;
pub mod duration;
pub mod manifest;
pub mod plan;
pub mod problem;
mod quoting;
pub mod source;
mod syntax;
pub mod template;
mod tree;

pub use tree::Place;
