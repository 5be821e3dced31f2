//! The conductor: plays a plan, trial by trial, and is interruptible anywhere. A pure core decides, a thin shell does.
//! It must not measure, judge or print.

pub mod conductor;
pub mod schedule;
