//! Ctrl-C, SIGTERM and a lost terminal become requests to end: the first in good order, the second at once. Only a
//! process that no longer listens is ended here.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conduct::Interrupts;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
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

/// Signals that ask for an end, which a command passes on to the program that works for it.
#[derive(Debug, Default)]
pub struct PassedOn {
    worker: Mutex<Option<OwnedFd>>,
    asked: AtomicBool,
}

impl PassedOn {
    /// Listens from now on.
    ///
    /// # Errors
    /// If the signals cannot be caught.
    pub fn begin() -> Result<Arc<Self>, Failure> {
        let failed = |error| Failure::File { what: "cannot listen for signals".to_owned(), error };
        let passed_on = Arc::new(Self::default());
        let mut signals = Signals::new(caught()).map_err(failed)?;
        let listener = {
            let passed_on = Arc::clone(&passed_on);
            move || signals.forever().for_each(|signal| passed_on.pass_on(signal))
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(listener).map_err(failed)?;
        Ok(passed_on)
    }

    /// Whether an end was asked for.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Runs a program to its end; `None` if an end was asked for before it began. It is in a process group of its own, so that a terminal does
    /// not ask it as well, and it ends with this process.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(&self, command: &mut Command) -> std::io::Result<Option<ExitStatus>> {
        linux::ends_with_us(command.process_group(0));
        let mut worker = {
            let mut known = self.known();
            if self.is_asked() {
                return Ok(None);
            }
            let worker = command.spawn()?;
            *known = linux::pid(worker.id()).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
            worker
        };
        let ended = worker.wait();
        *self.known() = None;
        ended.map(Some)
    }

    fn pass_on(&self, signal: i32) {
        self.asked.store(true, Ordering::SeqCst);
        if let (Some(worker), Some(signal)) = (self.known().as_ref(), Signal::from_named_raw(signal)) {
            // The worker may have ended already.
            let _ = pidfd_send_signal(worker, signal);
        }
    }

    fn known(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that grows past the limit of `ulimit -f` is an error of its write from now on, and no longer the end of this process. The
/// signal is caught and not ignored: programs that are started have it as it was.
pub fn report_full_files() {
    // Only for forbidden signals an error.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Signals that ask for an end.
fn caught() -> impl Iterator<Item = i32> {
    // Who was started by `nohup` outlives its terminal.
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hangup)
}

/// Listens from now on, on a thread of its own.
fn listen(interrupts: Arc<Interrupts>) -> std::io::Result<()> {
    let mut signals = Signals::new(caught())?;
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
