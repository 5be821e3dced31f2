//! `plimsoll runner`: the runner of a host, on standard input and output. Started by the lab; hidden from the help.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use crate::cli;

/// Serves until its input ends. Why it could not is said to whoever started it, as a message.
pub fn run(arguments: &cli::Runner) -> ExitCode {
    // Both without a buffer: whoever gets them next must find every byte.
    let input = io::stdin().as_fd().try_clone_to_owned();
    let output = io::stdout().as_fd().try_clone_to_owned();
    match (input, output) {
        (Ok(input), Ok(output)) => {
            ExitCode::from(lab::runner::serve(arguments.inside, File::from(input), File::from(output)))
        }
        _ => ExitCode::FAILURE,
    }
}
