//! Ctrl-C, SIGTERM and a lost terminal become requests to end: the first in good order, the second at once. Only a
//! process that no longer listens is ended here.

use std::sync::Arc;

use conduct::Interrupts;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Failure;
use crate::output;

/// Requests after which the process is left without further care; the next start cleans up behind it.
const PATIENCE: u8 = 4;

/// What the user asks for from now on, by signals and by no longer watching.
///
/// # Errors
/// If the signals cannot be caught.
pub fn interrupts() -> Result<Arc<Interrupts>, Failure> {
    let interrupts = Arc::new(Interrupts::new());
    listen(Arc::clone(&interrupts))
        .and_then(|()| output::ends(&interrupts))
        .map_err(|error| Failure::File { what: "cannot listen for signals".to_owned(), error })?;
    Ok(interrupts)
}

/// Listens from now on, on a thread of its own.
fn listen(interrupts: Arc<Interrupts>) -> std::io::Result<()> {
    // Who was started by `nohup` outlives its terminal.
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    let mut signals = Signals::new([SIGINT, SIGTERM].into_iter().chain(hangup))?;
    let listener = move || {
        for signal in &mut signals {
            // A terminal that goes may say so more than once, and is not in a hurry.
            if signal == SIGHUP {
                interrupts.ask_once();
                continue;
            }
            match interrupts.ask() {
                1 => output::say("\nplimsoll: stopping gracefully; press Ctrl-C again to abort"),
                2 => output::say("\nplimsoll: ending at once"),
                asked if asked >= PATIENCE => leave(),
                _ => {}
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(listener).map(drop)
}

/// Whether whoever started this process has it ignore the signal.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Leaves at once. What is left behind is in the registry, and the next start removes it.
#[expect(clippy::disallowed_methods, reason = "the user has asked four times")]
fn leave() {
    std::process::exit(130);
}
