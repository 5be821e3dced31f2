//! Signals that reach the process meant and never one that got its number later, and waits that end when it does.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
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

/// Waits until the process or zombie with this number has ended, or the time is over.
pub fn await_end(number: u32, within: Duration) {
    let Some(handle) = pid(number).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else { return };
    let within = Timespec {
        tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(within.subsec_nanos()),
    };
    // A signal may cut it short: whoever waits looks again.
    let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&within));
}

/// A number as a pid.
pub fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}
