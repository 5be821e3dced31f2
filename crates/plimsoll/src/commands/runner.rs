//! `plimsoll runner`: the runner of a host, on standard input and output. Started by the lab; hidden from the help.

use std::process::ExitCode;

use crate::cli;
use crate::output;

/// Serves until its input ends. Why it could not is said to whoever started it, as a message.
pub fn run(arguments: &cli::Runner) -> ExitCode {
    match output::bare() {
        Ok((input, output)) => ExitCode::from(lab::runner::serve(arguments.inside, input, output)),
        Err(_) => ExitCode::FAILURE,
    }
}
