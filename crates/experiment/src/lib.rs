//! Experiment files and target manifests: parses them, checks them and resolves them into a plan.
//! Pure: text in, values and problems out. This crate touches no file, process, network or clock.

pub mod authority;
pub mod catalog;
pub mod duration;
pub mod example;
mod keys;
pub mod manifest;
pub mod mistake;
mod overlay;
mod path;
pub mod pattern;
#[warn(missing_docs)]
pub mod plan;
pub mod pointer;
pub mod problem;
pub mod profile;
pub mod quantity;
pub mod schema;
pub mod search;
pub mod secrets;
mod section;
pub mod socket_url;
pub mod source;
pub mod template;
pub mod tier;
pub mod timeline;
mod tree;
mod trial_setting;

pub use plan::read;
pub use tree::TextSpan;
