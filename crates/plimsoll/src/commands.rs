//! Commands, grouped by subject. Code that several commands share is in the crates that they use.

pub mod audit;
pub mod experiments;
pub mod export;
pub mod folders;
pub mod hit;
pub mod imports;
pub mod install;
pub mod lists;
pub mod machine;
pub mod methods;
pub mod program;
pub mod run;
pub mod selfcheck;
pub mod turns;
