//! One file per command. What several of them share stands in the crates they call, not here.

pub mod analyze;
pub mod check;
pub mod clean;
pub mod compare;
pub mod completions;
pub mod contents;
pub mod doctor;
pub mod echo;
pub mod history;
pub mod hit;
pub mod install;
pub mod lists;
pub mod man;
pub mod new;
pub mod open;
pub mod profile;
pub mod run;
pub mod runner;
pub mod schema;
pub mod show;
