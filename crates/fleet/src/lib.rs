//! Load from several processes: the messages between conductor and generators, the generator
//! itself, and the comparison of the clocks of both.

pub mod calls;
pub mod clock_offset;
pub mod engines;
pub mod generator;
pub mod messages;
mod order_writer;
pub mod roll_call;
pub mod session;
