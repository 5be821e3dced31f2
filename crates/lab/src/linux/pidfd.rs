//! Signals that reach the process meant and never one that got its number later.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::procfs::{self, Stat};

/// Signals `process` if it still is the one that `stat` describes. False: it is gone, or not ours to signal.
pub fn signal(process: &Stat, signal: Signal) -> bool {
    let Some(pid) = pid(process.pid) else { return false };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    // The handle is of whoever has the number now; only then is it certain whose number it is.
    let same = procfs::stat(process.pid).is_some_and(|now| now.started_ticks == process.started_ticks);
    same && pidfd_send_signal(handle, signal).is_ok()
}

/// A number as a pid.
pub fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}
