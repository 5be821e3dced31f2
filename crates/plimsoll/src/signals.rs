//! Signals that end a run: Ctrl-C, SIGTERM and a lost terminal become requests to end. The first
//! request ends the run in good order, the second at once. The signal thread exits the process
//! after the fourth request.

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

/// Number of requests after which the process exits without cleaning up. The next start cleans up.
const PATIENCE: u8 = 4;

/// Starts to collect the user's requests to end: signals and closed outputs.
pub fn interrupts() -> Result<Arc<Interrupts>, Failure> {
    let interrupts = Arc::new(Interrupts::new());
    listen(Arc::clone(&interrupts))
        .and_then(|()| output::ends(&interrupts))
        .map_err(Failure::file("cannot listen for signals"))?;
    Ok(interrupts)
}

/// Forwarder of signals that ask for an end, to the program that a command runs.
#[derive(Debug, Default)]
pub struct PassedOn {
    worker: Mutex<Option<OwnedFd>>,
    asked: AtomicBool,
}

const CANNOT_LISTEN: &str = "cannot listen for signals";

impl PassedOn {
    /// Starts to listen for signals.
    pub fn begin() -> Result<Arc<Self>, Failure> {
        let passed_on = Arc::new(Self::default());
        let mut signals = Signals::new(caught()).map_err(Failure::file(CANNOT_LISTEN))?;
        let listener = {
            let passed_on = Arc::clone(&passed_on);
            move || signals.forever().for_each(|signal| passed_on.pass_on(signal))
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(listener).map_err(Failure::file(CANNOT_LISTEN))?;
        Ok(passed_on)
    }

    /// Whether a signal has asked for an end.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Runs a program to its end. Returns `None` if a signal asked for an end before the program
    /// began. The program ends with this process. It has a separate process group, so that a
    /// terminal does not signal it as well.
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

/// Makes a write that exceeds the limit of `ulimit -f` fail, instead of ending this process. The
/// signal is caught, not ignored, because started programs would inherit that it is ignored.
pub fn report_full_files() {
    // The registration fails only for signals that must not be caught.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Returns the signals that ask for an end.
fn caught() -> impl Iterator<Item = i32> {
    // A process started by `nohup` outlives its terminal.
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hangup)
}

/// Starts a thread that listens for signals.
fn listen(interrupts: Arc<Interrupts>) -> std::io::Result<()> {
    let mut signals = Signals::new(caught())?;
    let listener = std::thread::Builder::new().name("signals".to_owned());
    let listening = listener.spawn(move || {
        for signal in &mut signals {
            // A closing terminal may send SIGHUP more than once, which is no request to abort.
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
    });
    listening.map(drop)
}

/// Whether the process that started this one made it ignore the signal.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Exits at once. The registry lists the leftovers, and the next start removes them.
#[expect(clippy::disallowed_methods, reason = "the user has asked four times")]
fn leave() {
    std::process::exit(130);
}
