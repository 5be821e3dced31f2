//! `plimsoll echo`: runs the built-in target. Started by the lab; hidden from the help.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::cli::{self, EchoProtocol};
use crate::exit::{Done, Failure};
use crate::output;

/// Serves until it is told to stop; then says when it answered with errors, a line of JSON for each spell, so that what clients felt can be
/// held against it.
pub fn run(arguments: &cli::Echo) -> Result<Done, Failure> {
    let protocol = match arguments.protocol {
        EchoProtocol::Http => echo::Protocol::Http,
        EchoProtocol::Vsns => echo::Protocol::Vsns,
    };
    let options = echo::Options {
        listen: arguments.listen,
        protocol,
        delay_s: arguments.delay,
        workers: arguments.workers,
        stall_s: arguments.stall,
        stall_every_s: arguments.stall_every,
        errors_for_s: arguments.errors_for,
        errors_every_s: arguments.errors_every,
        error_status: arguments.error_status,
        body_bytes: arguments.body_bytes,
        ..echo::Options::default()
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::File { what: "cannot listen for signals".to_owned(), error })?;
    }
    for errors in echo::serve(&options, &stop)? {
        let echo::Errors { first_unix_s, last_unix_s, answers } = errors;
        let line = serde_json::json!({
            "errors": answers, "first_unix_s": first_unix_s, "last_unix_s": last_unix_s,
        });
        output::text(&format!("{line}\n"))?;
    }
    Ok(Done::Well)
}
