//! The commands, those of one subject in one file. What several of them share stands in the crates they call, not here.

pub mod experiments;
pub mod export;
pub mod folders;
pub mod hit;
pub mod install;
pub mod lists;
pub mod machine;
pub mod program;
pub mod run;
pub mod selfcheck;
pub mod turns;
