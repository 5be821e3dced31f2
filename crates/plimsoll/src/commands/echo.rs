//! `plimsoll echo`: runs the built-in target. Started by the lab; hidden from the help.

use std::sync::atomic::AtomicBool;

use crate::cli;
use crate::exit::{Done, Failure};

/// Serves until it is told to stop.
pub fn run(arguments: &cli::Echo) -> Result<Done, Failure> {
    let protocol = match arguments.protocol.as_str() {
        "vsns" => echo::Protocol::Vsns,
        _ => echo::Protocol::Http,
    };
    let options = echo::Options {
        listen: arguments.listen,
        protocol,
        delay_s: arguments.delay,
        stall_s: arguments.stall,
        stall_every_s: arguments.stall_every,
        errors_for_s: arguments.errors_for,
        errors_every_s: arguments.errors_every,
        error_status: arguments.error_status,
        body_bytes: arguments.body_bytes,
        ..echo::Options::default()
    };
    echo::serve(&options, &AtomicBool::new(false))?;
    Ok(Done::Well)
}
