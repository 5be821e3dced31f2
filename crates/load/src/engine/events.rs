//! What a thread waits for, and the waiting itself: by epoll, or by the ring that watches it. It must not deal with what came.

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::script::NS_PER_S;
use super::worker::Worker;
use crate::Error;
use crate::protocols::Protocol;
use crate::ring::Arrival;

/// Most events or timers that are handled before the other kind gets its turn.
pub const BATCH: usize = 256;

/// What has happened.
pub struct Events {
    /// Sockets that can be read or written.
    pub ready: Vec<epoll::Event>,
    /// What the ring has done.
    pub arrivals: Vec<Arrival>,
}

impl Default for Events {
    fn default() -> Self {
        Self { ready: Vec::with_capacity(BATCH), arrivals: Vec::with_capacity(BATCH) }
    }
}

impl Events {
    /// Whether nothing has happened.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.arrivals.is_empty()
    }
}

impl<P: Protocol> Worker<P> {
    /// Waits for events, at most so long. With a ring, what was made ready before goes out first.
    pub(super) fn wait(&mut self, events: &mut Events, left_ns: u64) -> Result<(), Error> {
        events.ready.clear();
        events.arrivals.clear();
        let gathering = self.gathering();
        let Some(ring) = &mut self.ring else { return self.ask_epoll(events, left_ns) };
        let left_ns = if ring.is_watched_ready() { 0 } else { left_ns };
        let waited = ring.wait(left_ns, gathering, &mut events.arrivals);
        waited.map_err(|source| Error::System { doing: "cannot wait for events", source })?;
        if ring.is_watched_ready() {
            self.ask_epoll(events, 0)?;
            // As long as there may be more it is asked again.
            if events.ready.len() < BATCH
                && let Some(ring) = &mut self.ring
            {
                ring.watched_was_emptied();
            }
        }
        Ok(())
    }

    fn ask_epoll(&self, events: &mut Events, left_ns: u64) -> Result<(), Error> {
        let timeout =
            Timespec { tv_sec: (left_ns / NS_PER_S).cast_signed(), tv_nsec: (left_ns % NS_PER_S).cast_signed() };
        match epoll::wait(&self.epoll, spare_capacity(&mut events.ready), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::system("cannot wait for events")(errno)),
        }
    }
}
