//! Attendants of agents whose protocol runs programs: summoned for a connection, dismissed with the load. It must not know what they do.

use std::io;

use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::worker::Worker;
use crate::attendant::attend;
use crate::protocols::{Cause, Protocol};

impl<P: Protocol> Worker<P> {
    /// A new attendant for the connection: the load's end of their socket.
    pub(super) fn summon(&mut self, number: usize) -> Result<OwnedFd, Cause> {
        let service = &self.script.services[self.connections[number].service as usize];
        let attended = attend(self.script.tether, service.authority());
        let lacks = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let (socket, attendant) = attended.map_err(|error| self.lack(lacks(error)))?;
        // Those whose agents have hung up need not be waited for.
        self.attendants.retain(|attendant| !attendant.is_finished());
        self.attendants.push(attendant);
        Ok(socket)
    }

    /// Every agent hangs up; waits until no program of theirs is left.
    pub(super) fn dismiss_attendants(&mut self) {
        if !P::RUNS_PROGRAMS {
            return;
        }
        for number in 0..self.connections.len() {
            // Nobody waits any more.
            let _ = self.close(number);
        }
        for attendant in self.attendants.drain(..) {
            // One that panicked has dropped its program, and so killed it.
            let _ = attendant.join();
        }
    }
}
