//! What becomes of those who wait on a connection when it ends or cannot be made. It must not touch a socket, nor decide whether a
//! failed attempt is followed by another.

use super::agent::{NEVER, Work};
use super::connection::{Link, NOBODY, Stream};
use super::worker::Worker;
use crate::protocols::{Cause, Protocol};

impl<P: Protocol> Worker<P> {
    /// The connection is of no use any more. An idle one is made again at once, if it ever served.
    pub(super) fn link_lost(&mut self, number: usize, cause: Cause, now: u64) {
        if matches!(self.connections[number].link, Link::Greeting(_)) {
            // Nothing was asked on it.
            self.connect_failed(number, Cause::ConnectFailed, now);
            return;
        }
        let was_proven = self.connections[number].is_proven;
        let waiting = self.close(number);
        if waiting != NOBODY {
            self.fail_those_who_asked(waiting, now, |_| cause);
        } else if was_proven
            && now < self.end_ns
            && self.may_serve(number)
            && let Err(cause) = self.connect(number)
        {
            self.connect_failed(number, cause, now);
        }
    }

    /// Nothing can be sent on the connection any more. What was answered before is still there to be read.
    pub(super) fn broke_in_writing(&mut self, number: usize, cause: Cause, now: u64) {
        let connection = &mut self.connections[number];
        // Where the target has ended in order a write is told just that.
        connection.broken = (cause != Cause::Closed).then_some(cause);
        if matches!(connection.link, Link::Up(Stream::Carried(_))) {
            // The ring tells of it in turn.
            connection.output.clear();
            return;
        }
        let generation = connection.generation;
        self.read(number, true);
        if self.connections[number].generation == generation {
            self.link_lost(number, cause, now);
        }
    }

    /// Whether an agent of the connection has begun to work and is not done.
    fn may_serve(&self, number: usize) -> bool {
        let mut own = self.agents.iter().skip(number).step_by(self.connections.len());
        own.any(|agent| matches!(agent.work, Work::Pause | Work::RetryPause))
    }

    /// Of those who waited on a connection that is closed, from `next` on: whose request was sent has failed, and the others' goes
    /// out on the next connection.
    pub(super) fn fail_those_who_asked(&mut self, mut next: u32, now: u64, cause_of: impl Fn(usize) -> Cause) {
        while next != NOBODY {
            let index = next as usize;
            // Each may be in line again at once.
            next = self.agents[index].behind;
            if self.agents[index].sent_ns == NEVER {
                self.send(index, now);
            } else {
                self.attempt_failed(index, cause_of(index), now);
            }
        }
    }

    /// There is no connection, and none is tried for a while: everybody's attempt has failed.
    pub(super) fn connect_failed(&mut self, number: usize, cause: Cause, now: u64) {
        let mut next = self.close(number);
        self.tally.connect_failed();
        self.connections[number].connect_after_ns = now.saturating_add(self.script.reconnect_ns.max(1));
        while next != NOBODY {
            let index = next as usize;
            next = self.agents[index].behind;
            self.attempt_failed(index, cause, now);
        }
    }

    /// The agent's attempt has timed out. Its answer may still come, and could not be told from the next one's, so the connection is
    /// closed: whoever else asked there finds it so.
    pub(super) fn give_up(&mut self, index: usize, now: u64) {
        let agent = &mut self.agents[index];
        let number = agent.connection as usize;
        if !self.connections[number].is_up() {
            self.connect_failed(number, Cause::ConnectTimeout, now);
        } else if agent.sent_ns == NEVER {
            // It is ready in this very turn of the loop, and the time that has passed is the generator's.
            agent.deadline_ns = now.saturating_add(self.script.timeout_ns);
            agent.has_looked = false;
            self.arm_timeout(index);
        } else {
            let waiting = self.close(number);
            self.fail_those_who_asked(
                waiting,
                now,
                |other| if other == index { Cause::Timeout } else { Cause::Closed },
            );
        }
    }

    /// The target has said that it answers no more on a connection, so it has not looked at what else was sent there (RFC 9112, 9.6).
    /// This goes out again on the next one, and the attempt goes on; since nobody can prove it, the attempt may have had an effect.
    pub(super) fn ask_again(&mut self, mut next: u32, now: u64) {
        while next != NOBODY {
            let index = next as usize;
            let agent = &mut self.agents[index];
            next = agent.behind;
            if agent.sent_ns != NEVER {
                agent.sent_ns = NEVER;
                agent.is_unsure = true;
                self.tell_of_again();
            }
            self.send(index, now);
        }
    }

    fn tell_of_again(&mut self) {
        if !std::mem::replace(&mut self.has_told_of_again, true) {
            let text = "the target ended connections on which requests were still in flight; those were sent again on the next";
            self.tally.notices.push(text.to_owned());
        }
    }
}
