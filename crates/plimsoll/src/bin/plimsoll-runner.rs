//! Runner of a host as a small program, so that ssh machines need not receive all of Plimsoll.

use std::process::ExitCode;

fn main() -> ExitCode {
    // After an upload, the program is first started with another argument to test that it runs.
    match std::env::args().nth(1).as_deref() {
        Some("runner") => ExitCode::from(runner::serve_standard_streams(false)),
        _ => ExitCode::SUCCESS,
    }
}
