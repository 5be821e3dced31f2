//! What happens to a connection between an event and the next: receive, take the requests out, send the
//! answers or hold them until they are due, as many at a time as there are workers.

use std::collections::VecDeque;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::Options;
use crate::connection::{Connection, ConnectionPhase, ConnectionToken, Received, empty};
use crate::protocols::{Codec, NextAction};
use crate::server::now_ns;

/// One receive takes so much at most.
const RECEIVE_BYTES: usize = 64 << 10;
/// Receives from one connection before the others get their turn.
const ROUNDS: usize = 16;
/// Buffers kept for the next answers that have to wait.
const POOL: usize = 1024;

/// Whether a connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionFate {
    /// Nothing to do.
    Keep,
    /// There may be more to read and no event will say so: attend to it again.
    Again,
    /// It has just been shut: attend to it again, and give it up after a while, should the client not close it.
    Linger,
    /// It is to be closed.
    Gone,
}

/// Answers that are not due yet.
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
    /// Whether answers are errors now.
    pub failing: bool,
    /// Answers that were.
    pub errors: u64,
    received: Vec<u8>,
    answers: Vec<u8>,
    /// Requests that `answers` answers.
    answered: u32,
    /// In the order in which they are due: the delay is the same for all.
    held: VecDeque<PendingAnswers>,
    pool: Vec<Vec<u8>>,
}

impl<C: Codec> ConnectionServer<C> {
    /// Nothing held.
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

    /// Does what an event says that can be done.
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

    /// When the next held answer is due.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.held.front().map(|held| held.due_ns)
    }

    /// The next answer that is due at `now_ns`: whose it is, and its bytes for [`ConnectionServer::release`].
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

    /// Takes back a buffer that [`ConnectionServer::pop_due`] gave.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.pool.len() < POOL {
            empty(&mut bytes);
            self.pool.push(bytes);
        }
    }

    /// Reads if there is something to read and room for its answers; closes if all is said.
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

    /// Reads until there is no more: a short read says so, too.
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

    /// Takes requests out of what came, behind what had come before.
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

    /// Takes whole requests off the front of `input` and sends their answers in one go; says how many bytes are done with.
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
                // Behind answers that are held it has to wait with them: order comes first.
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
        // The time is taken after the receive, so that no answer leaves less than the delay after its request was sent.
        let now_ns = now_ns();
        // Answers of requests that came together leave together, when the last has been served.
        let due_ns = (0..answered).map(|_| self.workers.serve(now_ns)).last().unwrap_or(now_ns);
        self.held.push_back(PendingAnswers { due_ns, token, bytes });
        Ok(())
    }

    /// Throws away what a client still sends that has been refused.
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

/// So many rounds of arithmetic, each of which needs the one before (G. Marsaglia, "Xorshift RNGs", 2003).
fn toil(rounds: u64) {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..rounds {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    std::hint::black_box(state);
}

/// Workers that each take so long for a request. Those that find none free wait in the order in which they came, so `workers / delay`
/// requests per second are served, and never more.
#[derive(Debug)]
pub(crate) struct Workers {
    delay_ns: u64,
    /// When each is done with its last request, soonest first. Empty: there is one for everybody.
    done_ns: VecDeque<u64>,
}

impl Workers {
    /// So many of them, idle; 0: as many as it takes.
    pub fn new(count: u32, delay_ns: u64) -> Self {
        Self { delay_ns, done_ns: std::iter::repeat_n(0, count as usize).collect() }
    }

    /// When a request that came at `now_ns` has been served. A worker goes on to the next request at the very moment at which it was to be done,
    /// however late anybody looks: a server that was kept from running loses no capacity.
    pub fn serve(&mut self, now_ns: u64) -> u64 {
        let free_ns = self.done_ns.pop_front();
        let due_ns = free_ns.unwrap_or(0).max(now_ns).saturating_add(self.delay_ns);
        if free_ns.is_some() {
            // All take equally long, so whoever begins last is done last.
            self.done_ns.push_back(due_ns);
        }
        due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_bound_each_takes_its_delay() {
        let mut workers = Workers::new(0, 10);
        assert_eq!([5, 5, 5, 7].map(|now_ns| workers.serve(now_ns)), [15, 15, 15, 17]);
    }

    #[test]
    fn those_that_find_no_worker_wait_in_order() {
        let mut workers = Workers::new(2, 10);
        assert_eq!([0, 0, 0, 1, 19, 40].map(|now_ns| workers.serve(now_ns)), [10, 10, 20, 20, 30, 50]);
    }

    #[test]
    fn the_capacity_is_workers_by_delay() {
        for (count, delay_ns) in [(1, 1000), (3, 1000), (7, 250)] {
            let mut workers = Workers::new(count, delay_ns);
            // Twice as many as they carry, all at the beginning of a million nanoseconds.
            let offered = 2 * u64::from(count) * 1_000_000 / delay_ns;
            let served = (0..offered).filter(|_| workers.serve(0) <= 1_000_000).count() as u64;
            assert_eq!(served, u64::from(count) * 1_000_000 / delay_ns, "{count} workers of {delay_ns} ns");
        }
    }
}
