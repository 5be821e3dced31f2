//! Load from several processes: what a generator is told and says, the generator itself, and how its clock is compared with another.

pub mod calls;
pub mod clock_offset;
pub mod engines;
pub mod generator;
pub mod messages;
mod order_writer;
pub mod roll_call;
pub mod session;
