//! Options of the server, their checks, and the schedules of stalls and errors.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::Error;

/// Maximum length of an answer's body, bytes.
const BODY_LIMIT_BYTES: usize = 16 << 20;

/// Maximum number of rounds of arithmetic: some seconds per request.
const WORK_LIMIT: u64 = 10_000_000_000;

/// Maximum number of workers.
const WORKERS_LIMIT: u32 = 1_000_000;

/// Protocol of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedProtocol {
    /// HTTP/1.1 and 1.0.
    Http,
    /// Frames of the target `vsns`, without storing data.
    Vsns,
}

/// Behaviour of the server. The default answers HTTP at once, on a port that the system chooses.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Address to listen on. Port 0: the system chooses.
    pub listen: SocketAddr,
    pub protocol: ServedProtocol,
    /// Delay from the arrival of a request to its answer, seconds. 0: none.
    pub delay_s: f64,
    /// Number of requests served at a time, each for `delay_s`. Others wait. 0: no limit.
    pub workers: u32,
    /// CPU work per request, in rounds of arithmetic of about one nanosecond. 0: none.
    pub work: u64,
    /// Duration of a stall, in which the whole server does nothing, seconds. 0: no stalls.
    pub stall_s: f64,
    /// Seconds from the first accepted connection to the first stall, and from the start of each
    /// stall to the start of the next.
    pub stall_every_s: f64,
    /// Duration of a period with error answers, seconds. 0: no errors.
    pub errors_for_s: f64,
    /// Seconds from the first accepted connection to the first errors, and from the start of each
    /// period to the start of the next.
    pub errors_every_s: f64,
    /// HTTP status of error answers, 400 to 599. Frames have the status `unavailable`.
    pub error_status: u16,
    /// Length of the body of an HTTP answer, at most 16 MiB.
    pub body_bytes: usize,
    /// Maximum length of an HTTP request head, bytes.
    pub head_limit_bytes: usize,
    /// Maximum length of a request frame, bytes, without its length field.
    pub frame_limit_bytes: usize,
    /// Maximum bytes of unsent answers per connection, delayed or waiting for a slow client. Above
    /// this limit the connection is not read. The last answer may exceed the limit.
    pub unsent_limit_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            protocol: ServedProtocol::Http,
            delay_s: 0.0,
            workers: 0,
            work: 0,
            stall_s: 0.0,
            stall_every_s: 0.0,
            errors_for_s: 0.0,
            errors_every_s: 0.0,
            error_status: 503,
            body_bytes: 14,
            head_limit_bytes: 64 << 10,
            frame_limit_bytes: 16 << 20,
            unsent_limit_bytes: 1 << 20,
        }
    }
}

impl Options {
    /// Returns the delays and schedules of these options.
    pub(crate) fn timing(&self) -> Result<Timing, Error> {
        Ok(Timing {
            delay_ns: nanoseconds("delay_s", self.delay_s)?,
            stalls: window(["stall_s", "stall_every_s"], self.stall_s, self.stall_every_s)?,
            errors: window(["errors_for_s", "errors_every_s"], self.errors_for_s, self.errors_every_s)?,
        })
    }

    /// Checks all options.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let timing = self.timing()?;
        if self.workers > WORKERS_LIMIT || (self.workers > 0 && timing.delay_ns == 0) {
            let must_be = "at most 1000000 and used with a delay: without a delay no worker is ever busy";
            return Err(Error::Option { name: "workers", must_be });
        }
        if self.work > WORK_LIMIT {
            return Err(Error::Option { name: "work", must_be: "at most 10000000000" });
        }
        if !(400..=599).contains(&self.error_status) {
            return Err(Error::Option { name: "error_status", must_be: "from 400 to 599" });
        }
        if self.body_bytes > BODY_LIMIT_BYTES {
            return Err(Error::Option { name: "body_bytes", must_be: "at most 16777216" });
        }
        let frame_limit = u32::try_from(self.frame_limit_bytes);
        if self.head_limit_bytes == 0 || self.unsent_limit_bytes == 0 || frame_limit.is_err() {
            return Err(Error::Option { name: "each limit", must_be: "above 0 and below 4 GiB" });
        }
        Ok(())
    }
}

/// Schedules of delays, stalls and errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// Delay from request to answer.
    pub delay_ns: u64,
    /// Schedule of stalls.
    pub stalls: Option<PeriodicWindow>,
    /// Schedule of error answers.
    pub errors: Option<PeriodicWindow>,
}

fn window([lasts, every]: [&'static str; 2], lasts_s: f64, every_s: f64) -> Result<Option<PeriodicWindow>, Error> {
    let lasts_ns = nanoseconds(lasts, lasts_s)?;
    let every_ns = nanoseconds(every, every_s)?;
    if lasts_ns > every_ns {
        return Err(Error::Option { name: lasts, must_be: "at most as long as its period" });
    }
    Ok((lasts_ns > 0).then_some(PeriodicWindow { every_ns, lasts_ns }))
}

fn nanoseconds(name: &'static str, seconds: f64) -> Result<u64, Error> {
    let duration = Duration::try_from_secs_f64(seconds).ok();
    let nanoseconds = duration.filter(|duration| duration.as_secs() < 1_000_000_000);
    let wrong = Error::Option { name, must_be: "a number of seconds from 0 to 1000000000" };
    nanoseconds.and_then(|duration| u64::try_from(duration.as_nanos()).ok()).ok_or(wrong)
}

/// Recurring period of time. It first begins after one interval, and again after each further
/// interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeriodicWindow {
    /// Interval between two beginnings, above 0.
    pub every_ns: u64,
    /// Duration, from 1 to the interval. If it equals the interval, the period never ends once
    /// begun.
    pub lasts_ns: u64,
}

impl PeriodicWindow {
    /// Returns the end of the period that is active at `at_ns`, or `None` if no period is active.
    /// The beginning is included, the end excluded.
    pub fn end_ns(&self, at_ns: u64) -> Option<u64> {
        let begins_ns = at_ns - at_ns % self.every_ns;
        let on = begins_ns > 0 && at_ns - begins_ns < self.lasts_ns;
        on.then(|| begins_ns.saturating_add(self.lasts_ns))
    }

    /// Whether a period is active at `at_ns`.
    pub fn is_on(&self, at_ns: u64) -> bool {
        self.end_ns(at_ns).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::PeriodicWindow;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_stall_of_one_second_every_ten() {
        let stall = PeriodicWindow { every_ns: 10_000 * MS, lasts_ns: 1_000 * MS };
        let table = [
            (0, None),
            (500, None),
            (1_000, None),
            (9_999, None),
            (10_000, Some(11_000)),
            (10_500, Some(11_000)),
            (10_999, Some(11_000)),
            (11_000, None),
            (19_999, None),
            (20_000, Some(21_000)),
            (3_600_999, Some(3_601_000)),
        ];
        for (at_ms, end_ms) in table {
            assert_eq!(stall.end_ns(at_ms * MS), end_ms.map(|end: u64| end * MS), "at {at_ms} ms");
            assert_eq!(stall.is_on(at_ms * MS), end_ms.is_some(), "at {at_ms} ms");
        }
        assert_eq!(stall.end_ns(10_000 * MS - 1), None);
        assert_eq!(stall.end_ns(11_000 * MS - 1), Some(11_000 * MS));
    }

    #[test]
    fn a_window_as_long_as_its_period_never_ends() {
        let errors = PeriodicWindow { every_ns: 2_000 * MS, lasts_ns: 2_000 * MS };
        let table = [(0, false), (1_999, false), (2_000, true), (3_999, true), (4_000, true), (1_000_001, true)];
        for (at_ms, on) in table {
            assert_eq!(errors.is_on(at_ms * MS), on, "at {at_ms} ms");
        }
    }

    #[test]
    fn the_largest_time_does_not_overflow() {
        let schedule = PeriodicWindow { every_ns: 1, lasts_ns: 1 };
        assert_eq!(schedule.end_ns(0), None);
        assert_eq!(schedule.end_ns(u64::MAX), Some(u64::MAX));
    }
}
