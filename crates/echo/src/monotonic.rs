//! The server's clock: monotonic, in nanoseconds, and a wait that signals and `stop` can cut short. The calendar is for its log
//! only.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

/// The longest time for which `stop` goes unnoticed.
pub(crate) const TICK_NS: u64 = 50_000_000;

/// Nanoseconds on a clock that is never set.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// The Unix time in seconds, to tell others when something was.
pub(crate) fn unix_s() -> f64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// For system calls.
pub(crate) fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000).cast_signed(), tv_nsec: (ns % 1_000_000_000).cast_signed() }
}

/// Returns at `end_ns`, or within a tick after `stop` has become true.
pub(crate) fn wait_until(end_ns: u64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left_ns = end_ns.saturating_sub(now_ns());
        if left_ns == 0 {
            return;
        }
        // A signal ends it early, and then the loop looks at `stop` again; there is no other error.
        let _ = poll(&mut [], Some(&timespec(left_ns.min(TICK_NS))));
    }
}
