//! Handling of a connection's events: receives data, extracts requests, and sends answers or delays
//! them. With workers, limits the requests in progress.

use std::collections::VecDeque;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::Options;
use crate::connection::{Connection, ConnectionPhase, ConnectionToken, Received, empty};
use crate::protocols::{Codec, NextAction};
use crate::server::now_ns;

/// Maximum number of bytes per receive.
const RECEIVE_BYTES: usize = 64 << 10;
/// Maximum number of receives from one connection before other connections are handled.
const ROUNDS: usize = 16;
/// Maximum number of buffers that are kept for delayed answers.
const POOL: usize = 1024;

/// Whether a connection continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionFate {
    /// Continues.
    Keep,
    /// Continues, and must be handled again: no event reports data that is still unread.
    Again,
    /// The server's side was just shut. The connection must be handled again, and dropped later if
    /// the client does not close it.
    Linger,
    /// The connection must be closed.
    Gone,
}

/// Delayed answers.
#[derive(Debug)]
struct PendingAnswers {
    due_ns: u64,
    token: ConnectionToken,
    bytes: Vec<u8>,
}

/// Serves connections with one protocol.
#[derive(Debug)]
pub(crate) struct ConnectionServer<C> {
    codec: C,
    delay_ns: u64,
    work: u64,
    workers: Workers,
    unsent_limit_bytes: usize,
    /// Whether answers are errors at present.
    pub failing: bool,
    /// Number of answers that were errors.
    pub errors: u64,
    received: Vec<u8>,
    answers: Vec<u8>,
    /// Number of requests that `answers` answers.
    answered: u32,
    /// Delayed answers, in order of due time, because the delay is the same for all.
    held: VecDeque<PendingAnswers>,
    pool: Vec<Vec<u8>>,
}

impl<C: Codec> ConnectionServer<C> {
    /// Makes a server without delayed answers.
    pub fn new(codec: C, delay_ns: u64, options: &Options) -> Self {
        Self {
            codec,
            delay_ns,
            work: options.work,
            workers: Workers::new(options.workers, delay_ns),
            unsent_limit_bytes: options.unsent_limit_bytes,
            failing: false,
            errors: 0,
            received: vec![0; RECEIVE_BYTES],
            answers: Vec::new(),
            answered: 0,
            held: VecDeque::new(),
            pool: Vec::new(),
        }
    }

    /// Handles an event.
    pub fn attend(
        &mut self,
        token: ConnectionToken,
        connection: &mut Connection<C::Memory>,
        flags: EventFlags,
    ) -> ConnectionFate {
        if flags.intersects(EventFlags::ERR | EventFlags::HUP) {
            return ConnectionFate::Gone;
        }
        if flags.contains(EventFlags::OUT) && connection.flush().is_err() {
            return ConnectionFate::Gone;
        }
        connection.peer_ended |= flags.contains(EventFlags::RDHUP);
        let readable = flags.intersects(EventFlags::IN | EventFlags::RDHUP);
        self.go_on(token, connection, readable).unwrap_or(ConnectionFate::Gone)
    }

    /// Returns the time at which the next delayed answer is due.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.held.front().map(|held| held.due_ns)
    }

    /// Removes the next answer that is due at `now_ns`. Returns its connection and its bytes for
    /// [`ConnectionServer::release`].
    pub fn pop_due(&mut self, now_ns: u64) -> Option<(ConnectionToken, Vec<u8>)> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        self.held.pop_front().map(|held| (held.token, held.bytes))
    }

    /// Sends an answer that is due.
    pub fn release(
        &mut self,
        token: ConnectionToken,
        connection: &mut Connection<C::Memory>,
        bytes: &[u8],
    ) -> ConnectionFate {
        connection.held -= 1;
        connection.held_bytes -= bytes.len();
        let sent = connection.send(bytes);
        sent.and_then(|()| self.go_on(token, connection, false)).unwrap_or(ConnectionFate::Gone)
    }

    /// Takes back a buffer from [`ConnectionServer::pop_due`].
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.pool.len() < POOL {
            empty(&mut bytes);
            self.pool.push(bytes);
        }
    }

    /// Reads if there is input and space for its answers. Closes if everything is sent.
    fn go_on(
        &mut self,
        token: ConnectionToken,
        connection: &mut Connection<C::Memory>,
        readable: bool,
    ) -> Result<ConnectionFate, Errno> {
        let mut fate = ConnectionFate::Keep;
        if connection.phase == ConnectionPhase::Lingering {
            return if readable { self.discard(connection) } else { Ok(ConnectionFate::Keep) };
        }
        if connection.paused && connection.unsent_bytes() < self.unsent_limit_bytes {
            connection.paused = false;
            let mut input = std::mem::take(&mut connection.input);
            let used = self.digest(token, connection, &input)?;
            input.drain(..used);
            connection.input = input;
            fate = self.read(token, connection)?;
        } else if readable && !connection.paused {
            fate = self.read(token, connection)?;
        }
        match connection.phase {
            ConnectionPhase::Ending { linger: false } if connection.is_done() => Ok(ConnectionFate::Gone),
            ConnectionPhase::Ending { linger: true } if connection.is_done() => {
                connection.phase = ConnectionPhase::Lingering;
                connection.shut();
                Ok(ConnectionFate::Linger)
            }
            _ => Ok(fate),
        }
    }

    /// Reads until there is no more input. A short read also indicates the end of the available
    /// input.
    fn read(
        &mut self,
        token: ConnectionToken,
        connection: &mut Connection<C::Memory>,
    ) -> Result<ConnectionFate, Errno> {
        let mut received = std::mem::take(&mut self.received);
        let fate = self.read_into(&mut received, token, connection);
        self.received = received;
        fate
    }

    fn read_into(
        &mut self,
        received: &mut [u8],
        token: ConnectionToken,
        connection: &mut Connection<C::Memory>,
    ) -> Result<ConnectionFate, Errno> {
        for _ in 0..ROUNDS {
            if connection.paused || connection.phase != ConnectionPhase::Open {
                return Ok(ConnectionFate::Keep);
            }
            let count = match connection.receive(received)? {
                Received::Bytes(count) => count,
                Received::Nothing => return Ok(ConnectionFate::Keep),
                Received::End => {
                    connection.phase = ConnectionPhase::Ending { linger: false };
                    return Ok(ConnectionFate::Keep);
                }
            };
            self.take(token, connection, &received[..count])?;
            if count < received.len() && !connection.peer_ended {
                return Ok(ConnectionFate::Keep);
            }
        }
        Ok(ConnectionFate::Again)
    }

    /// Extracts requests from the input: the unused rest of earlier input, then `bytes`.
    fn take(
        &mut self,
        token: ConnectionToken,
        connection: &mut Connection<C::Memory>,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        if connection.input.is_empty() {
            let used = self.digest(token, connection, bytes)?;
            connection.input.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        let mut input = std::mem::take(&mut connection.input);
        input.extend_from_slice(bytes);
        let used = self.digest(token, connection, &input)?;
        if used == input.len() {
            empty(&mut input);
        } else {
            input.drain(..used);
        }
        connection.input = input;
        Ok(())
    }

    /// Extracts whole requests from the front of `input` and sends their answers together. Returns
    /// the number of bytes used.
    fn digest(
        &mut self,
        token: ConnectionToken,
        connection: &mut Connection<C::Memory>,
        input: &[u8],
    ) -> Result<usize, Errno> {
        let mut used = 0;
        let mut at_once = self.delay_ns == 0;
        while used < input.len() {
            if connection.unsent_bytes() + self.answers.len() >= self.unsent_limit_bytes {
                self.deliver(token, connection, at_once)?;
                if connection.unsent_bytes() >= self.unsent_limit_bytes {
                    connection.paused = true;
                    break;
                }
            }
            let first = self.answers.is_empty();
            let before = self.answers.len();
            let step = self.codec.advance(&mut connection.memory, &input[used..], self.failing, &mut self.answers);
            used += step.consumed;
            if self.answers.len() > before {
                self.answered += 1;
                toil(self.work);
            }
            self.errors += u64::from(self.failing && matches!(step.then, NextAction::Next | NextAction::Close));
            match step.then {
                NextAction::Next => continue,
                NextAction::Wait => {}
                // Answers must stay in order, so an invitation after delayed answers waits too.
                NextAction::Invite => at_once |= first && connection.held == 0,
                NextAction::Close => connection.phase = ConnectionPhase::Ending { linger: false },
                NextAction::Refuse => connection.phase = ConnectionPhase::Ending { linger: true },
            }
            break;
        }
        if connection.phase != ConnectionPhase::Open {
            used = input.len();
        }
        self.deliver(token, connection, at_once)?;
        Ok(used)
    }

    fn deliver(
        &mut self,
        token: ConnectionToken,
        connection: &mut Connection<C::Memory>,
        at_once: bool,
    ) -> Result<(), Errno> {
        if self.answers.is_empty() {
            return Ok(());
        }
        let answered = std::mem::take(&mut self.answered).max(1);
        if at_once {
            let sent = connection.send(&self.answers);
            empty(&mut self.answers);
            return sent;
        }
        let bytes = std::mem::replace(&mut self.answers, self.pool.pop().unwrap_or_default());
        connection.held += 1;
        connection.held_bytes += bytes.len();
        // Take the time after the receive, so that no answer leaves earlier than the delay after
        // its request was sent.
        let now_ns = now_ns();
        // Answers of requests that arrived together leave together, when the last has been served.
        let due_ns = (0..answered).map(|_| self.workers.serve(now_ns)).last().unwrap_or(now_ns);
        self.held.push_back(PendingAnswers { due_ns, token, bytes });
        Ok(())
    }

    /// Discards what a refused client still sends.
    fn discard(&mut self, connection: &Connection<C::Memory>) -> Result<ConnectionFate, Errno> {
        for _ in 0..ROUNDS {
            match connection.receive(&mut self.received)? {
                Received::Bytes(_) => {}
                Received::Nothing => return Ok(ConnectionFate::Keep),
                Received::End => return Ok(ConnectionFate::Gone),
            }
        }
        Ok(ConnectionFate::Again)
    }
}

/// Performs rounds of arithmetic, each dependent on the one before (G. Marsaglia, "Xorshift RNGs",
/// 2003).
fn toil(rounds: u64) {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..rounds {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    std::hint::black_box(state);
}

/// Simulated workers that each take `delay` per request. Requests without a free worker wait in
/// order of arrival, so at most `workers / delay` requests per second are served.
#[derive(Debug)]
pub(crate) struct Workers {
    delay_ns: u64,
    /// Time at which each worker finishes its last request, earliest first. Empty: no limit on
    /// workers.
    done_ns: VecDeque<u64>,
}

impl Workers {
    /// Makes this many idle workers. 0: no limit.
    pub fn new(count: u32, delay_ns: u64) -> Self {
        Self { delay_ns, done_ns: std::iter::repeat_n(0, count as usize).collect() }
    }

    /// Returns the time at which a request that arrived at `now_ns` is served. A worker starts its
    /// next request exactly when the last one was due, so a late call of this function costs no
    /// capacity.
    pub fn serve(&mut self, now_ns: u64) -> u64 {
        let free_ns = self.done_ns.pop_front();
        let due_ns = free_ns.unwrap_or(0).max(now_ns).saturating_add(self.delay_ns);
        if free_ns.is_some() {
            // All requests take equally long, so the worker that starts last finishes last.
            self.done_ns.push_back(due_ns);
        }
        due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlimited_workers_add_only_the_delay() {
        let mut workers = Workers::new(0, 10);
        assert_eq!([5, 5, 5, 7].map(|now_ns| workers.serve(now_ns)), [15, 15, 15, 17]);
    }

    #[test]
    fn requests_without_a_free_worker_wait_in_order() {
        let mut workers = Workers::new(2, 10);
        assert_eq!([0, 0, 0, 1, 19, 40].map(|now_ns| workers.serve(now_ns)), [10, 10, 20, 20, 30, 50]);
    }

    #[test]
    fn the_capacity_is_workers_divided_by_delay() {
        for (count, delay_ns) in [(1, 1000), (3, 1000), (7, 250)] {
            let mut workers = Workers::new(count, delay_ns);
            // Twice the capacity, all at the start of one million nanoseconds.
            let offered = 2 * u64::from(count) * 1_000_000 / delay_ns;
            let served = (0..offered).filter(|_| workers.serve(0) <= 1_000_000).count() as u64;
            assert_eq!(served, u64::from(count) * 1_000_000 / delay_ns, "{count} workers of {delay_ns} ns");
        }
    }
}
