//! Ctrl-C and SIGTERM become requests to end: the first in good order, the second at once. It must not end anything itself,
//! except a process that no longer listens.

use std::sync::Arc;

use conduct::Interrupts;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Failure;

/// Requests after which the process is left without further care; the next start cleans up behind it.
const PATIENCE: u8 = 4;

/// What the user asks for by signals from now on.
///
/// # Errors
/// If the signals cannot be caught.
pub fn interrupts() -> Result<Arc<Interrupts>, Failure> {
    let interrupts = Arc::new(Interrupts::new());
    listen(Arc::clone(&interrupts))
        .map_err(|error| Failure::File { what: "cannot listen for signals".to_owned(), error })?;
    Ok(interrupts)
}

/// Listens from now on, on a thread of its own.
fn listen(interrupts: Arc<Interrupts>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let listener = move || {
        for _ in &mut signals {
            match interrupts.ask() {
                1 => eprintln!("\nplimsoll: ending in good order; once more to end at once"),
                2 => eprintln!("\nplimsoll: ending at once"),
                asked if asked >= PATIENCE => leave(),
                _ => {}
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(listener).map(drop)
}

/// Leaves at once. What is left behind is in the registry, and the next start removes it.
#[expect(clippy::disallowed_methods, reason = "the user has asked four times")]
fn leave() {
    std::process::exit(130);
}
