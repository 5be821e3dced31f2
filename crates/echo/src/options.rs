//! What a user may ask of the server, and whether it makes sense. It must not know a command line.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::Error;
use crate::schedule::Schedule;

/// Bytes of the longest body an answer may have.
const BODY_LIMIT_BYTES: usize = 16 << 20;

/// Most workers.
const WORKERS_LIMIT: u32 = 1_000_000;

/// What the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, and 1.0.
    Http,
    /// The frames of the target `vsns`, without storing anything.
    Vsns,
}

/// How the server behaves. The default answers HTTP at once, on a port that the system chooses.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Where to listen; port 0: the system chooses.
    pub listen: SocketAddr,
    /// What to speak.
    pub protocol: Protocol,
    /// Each answer leaves so many seconds after its request has arrived; 0: at once.
    pub delay_s: f64,
    /// So many requests are served at a time, each for `delay_s`; others wait for their turn. 0: all at once.
    pub workers: u32,
    /// Seconds for which the whole server does nothing; 0: never.
    pub stall_s: f64,
    /// Seconds from the first accepted connection to the first stall, and from each stall's beginning to the next one's.
    pub stall_every_s: f64,
    /// Seconds for which requests are answered with an error; 0: never.
    pub errors_for_s: f64,
    /// Seconds from the first accepted connection to the first errors, and from one beginning to the next.
    pub errors_every_s: f64,
    /// The HTTP status of these errors, 400 to 599. Frames have the status `unavailable`.
    pub error_status: u16,
    /// Bytes of the body of an HTTP answer, at most 16 MiB.
    pub body_bytes: usize,
    /// Bytes of the longest HTTP request head.
    pub head_limit_bytes: usize,
    /// Bytes of the longest request frame, its length not counted.
    pub frame_limit_bytes: usize,
    /// Bytes of answers kept for one connection, whether they wait for their time or for a slow client. Above it
    /// the connection is not read; the last answer may go beyond.
    pub unsent_limit_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            protocol: Protocol::Http,
            delay_s: 0.0,
            workers: 0,
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
    /// The behaviour in time that these options ask for.
    pub(crate) fn timing(&self) -> Result<Timing, Error> {
        Ok(Timing {
            delay_ns: nanoseconds("delay_s", self.delay_s)?,
            stalls: window(["stall_s", "stall_every_s"], self.stall_s, self.stall_every_s)?,
            errors: window(["errors_for_s", "errors_every_s"], self.errors_for_s, self.errors_every_s)?,
        })
    }

    /// Whether every option makes sense.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let timing = self.timing()?;
        if self.workers > WORKERS_LIMIT || (self.workers > 0 && timing.delay_ns == 0) {
            let must_be = "at most 1000000, and with a delay: without one, nobody is ever busy";
            return Err(Error::Option { name: "workers", must_be });
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

/// When the server answers late, not at all, or with errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// From request to answer.
    pub delay_ns: u64,
    /// When it does nothing.
    pub stalls: Option<Schedule>,
    /// When it answers with errors.
    pub errors: Option<Schedule>,
}

fn window([lasts, every]: [&'static str; 2], lasts_s: f64, every_s: f64) -> Result<Option<Schedule>, Error> {
    let lasts_ns = nanoseconds(lasts, lasts_s)?;
    let every_ns = nanoseconds(every, every_s)?;
    if lasts_ns > every_ns {
        return Err(Error::Option { name: lasts, must_be: "at most as long as the period it recurs with" });
    }
    Ok((lasts_ns > 0).then_some(Schedule { every_ns, lasts_ns }))
}

fn nanoseconds(name: &'static str, seconds: f64) -> Result<u64, Error> {
    let duration = Duration::try_from_secs_f64(seconds).ok();
    let nanoseconds = duration.filter(|duration| duration.as_secs() < 1_000_000_000);
    let wrong = Error::Option { name, must_be: "a number of seconds from 0 to 1000000000" };
    nanoseconds.and_then(|duration| u64::try_from(duration.as_nanos()).ok()).ok_or(wrong)
}
