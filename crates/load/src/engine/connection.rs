//! A connection: its socket, what is under way on it, and which agents wait for its answers. Plain state, kept small because there may
//! be 50,000 of them; what happens to it is decided in the rooms beside this one. It must not know what its agents are doing.

use rustix::fd::OwnedFd;

use super::agent::Agent;
use super::sealed::Sealed;
use crate::answer_budget::Held;
use crate::protocols::{Cause, Protocol};

/// No agent.
pub const NOBODY: u32 = u32::MAX;

/// The state of a socket.
#[derive(Debug)]
pub enum Link {
    /// There is none.
    Down,
    /// On its way.
    Connecting(OwnedFd),
    /// Connected, and the two sides agree on keys.
    Shaking(Box<Sealed>),
    /// Open in the clear, and the greeting is not answered yet.
    Greeting(OwnedFd),
    /// Open, and takes requests.
    Up(Stream),
}

/// An open connection, in the clear or not.
#[derive(Debug)]
pub enum Stream {
    /// In the clear.
    Plain(OwnedFd),
    /// In the clear, by the ring.
    Carried(OwnedFd),
    /// By TLS. Apart, so that the others stay small.
    Tls(Box<Sealed>),
}

/// A connection to a service. Agents keep to theirs for the whole load; its socket comes and goes.
pub struct Connection<P: Protocol> {
    /// Number of the service it leads to. It never changes.
    pub service: u32,
    /// Its socket.
    pub link: Link,
    /// Counts its sockets, so that late events of an old one are recognised.
    pub generation: u32,
    /// Whether this socket has carried an answer.
    pub is_proven: bool,
    /// How this socket broke, where a write was told of it: the system says it once, and a read hears of an end in order.
    pub broken: Option<Cause>,
    /// Number of the last request.
    pub last_id: u32,
    /// Agents whose attempts wait for an answer.
    pub waiting: Waiting,
    /// No connect before this moment.
    pub connect_after_ns: u64,
    /// Of the answer that comes next.
    pub decoder: P::Decoder,
    /// Bytes of an answer that is not whole.
    pub input: Vec<u8>,
    /// What these have of the budget of answers.
    pub held: Held,
    /// Bytes of requests that the socket did not take yet.
    pub output: Vec<u8>,
}

impl<P: Protocol> Connection<P> {
    /// A new connection to that service, without a socket.
    pub fn new(service: u32) -> Self {
        Self {
            service,
            link: Link::Down,
            generation: 0,
            is_proven: false,
            broken: None,
            last_id: 0,
            waiting: Waiting::default(),
            connect_after_ns: 0,
            decoder: P::Decoder::default(),
            input: Vec::new(),
            held: Held::default(),
            output: Vec::new(),
        }
    }

    /// Whether there is no socket, nor one on its way.
    pub fn is_down(&self) -> bool {
        matches!(self.link, Link::Down)
    }

    /// Whether requests can be sent.
    pub fn is_up(&self) -> bool {
        matches!(self.link, Link::Up(_))
    }

    /// Its socket, if there is one.
    pub fn socket(&self) -> Option<&OwnedFd> {
        match &self.link {
            Link::Down => None,
            Link::Connecting(socket)
            | Link::Greeting(socket)
            | Link::Up(Stream::Plain(socket) | Stream::Carried(socket)) => Some(socket),
            Link::Shaking(sealed) | Link::Up(Stream::Tls(sealed)) => Some(&sealed.socket),
        }
    }

    /// Its socket with its session, where it has one.
    #[inline]
    pub fn sealed(&mut self) -> Option<&mut Sealed> {
        match &mut self.link {
            Link::Shaking(sealed) | Link::Up(Stream::Tls(sealed)) => Some(sealed),
            _ => None,
        }
    }

    /// Whether there are bytes that the socket did not take yet.
    #[inline]
    pub fn has_unwritten(&self) -> bool {
        match &self.link {
            Link::Shaking(sealed) | Link::Up(Stream::Tls(sealed)) => sealed.session.wants_write(),
            _ => !self.output.is_empty(),
        }
    }
}

/// Agents whose attempts wait, in the order of their requests: first those whose request was sent, then those whose was not. Each
/// knows who comes behind it ([`Agent::behind`]), so that the line takes no memory of its own.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    first: u32,
    last: u32,
    /// The first whose request was not sent.
    unsent: u32,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { first: NOBODY, last: NOBODY, unsent: NOBODY }
    }
}

impl Waiting {
    /// The agent comes to the end of the line; whether it is the first there whose request is to be sent.
    #[inline]
    pub fn join(&mut self, agents: &mut [Agent], index: usize) -> bool {
        // Indices fit: there are fewer agents than numbers for them.
        let number = index as u32;
        agents[index].behind = NOBODY;
        match self.last {
            NOBODY => self.first = number,
            last => agents[last as usize].behind = number,
        }
        self.last = number;
        let is_first_unsent = self.unsent == NOBODY;
        if is_first_unsent {
            self.unsent = number;
        }
        is_first_unsent
    }

    /// The agent that the next answer is for, if one was asked for.
    #[inline]
    pub fn asked(&self) -> Option<usize> {
        (self.first != self.unsent).then_some(self.first as usize)
    }

    /// The first of the line is answered and leaves it.
    #[inline]
    pub fn leave(&mut self, agents: &[Agent]) {
        if self.first == NOBODY {
            return;
        }
        let behind = agents[self.first as usize].behind;
        if self.unsent == self.first {
            self.unsent = behind;
        }
        self.first = behind;
        if behind == NOBODY {
            self.last = NOBODY;
        }
    }

    /// The first whose request is to be sent, or [`NOBODY`].
    pub fn unsent(&self) -> u32 {
        self.unsent
    }

    /// All requests are sent from now on.
    pub fn all_sent(&mut self) {
        self.unsent = NOBODY;
    }

    /// Everybody leaves: the first of the line, or [`NOBODY`].
    #[must_use = "who waits must not be forgotten"]
    pub fn disband(&mut self) -> u32 {
        std::mem::take(self).first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::agent::Place;
    use crate::protocols::http::Http;
    use crate::protocols::vsns::Vsns;

    fn agents(count: u32) -> Vec<Agent> {
        (1..=count).map(|number| Agent::new(number, 0, Place { service: 0, requests: 0 }, 0)).collect()
    }

    /// Everybody in the line, in order.
    fn line(agents: &[Agent], first: u32) -> Vec<u32> {
        let behind = |number: &u32| Some(agents[*number as usize].behind).filter(|number| *number != NOBODY);
        std::iter::successors(Some(first).filter(|number| *number != NOBODY), behind).collect()
    }

    #[test]
    fn one_agent_asks_and_is_answered() {
        let mut agents = agents(1);
        let mut waiting = Waiting::default();
        for _ in 0..3 {
            assert_eq!(waiting.asked(), None, "nothing was sent");
            assert!(waiting.join(&mut agents, 0));
            assert_eq!((waiting.asked(), waiting.unsent()), (None, 0));
            waiting.all_sent();
            assert_eq!((waiting.asked(), waiting.unsent()), (Some(0), NOBODY));
            waiting.leave(&agents);
        }
        assert_eq!(waiting.disband(), NOBODY);
    }

    #[test]
    fn answers_come_in_the_order_of_the_requests() {
        let mut agents = agents(4);
        let mut waiting = Waiting::default();
        assert!(waiting.join(&mut agents, 2));
        assert!(!waiting.join(&mut agents, 0));
        waiting.all_sent();
        assert!(waiting.join(&mut agents, 3), "the first that was not sent");
        assert_eq!((waiting.asked(), waiting.unsent()), (Some(2), 3));
        waiting.leave(&agents);
        assert_eq!(waiting.asked(), Some(0));
        assert!(!waiting.join(&mut agents, 2), "who was answered comes again behind the others");
        waiting.leave(&agents);
        assert_eq!((waiting.asked(), waiting.unsent()), (None, 3), "nobody else was sent");
        assert_eq!(line(&agents, waiting.disband()), [3, 2]);
        assert_eq!((waiting.asked(), waiting.unsent(), waiting.disband()), (None, NOBODY, NOBODY));
    }

    #[test]
    fn whatever_happens_the_line_is_what_a_list_would_be() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut agents = agents(6);
        let (mut waiting, mut list, mut sent) = (Waiting::default(), Vec::new(), 0);
        for _ in 0..20_000 {
            match random.u8(..10) {
                0 => {
                    let first = waiting.disband();
                    assert_eq!(line(&agents, first), list);
                    (list, sent) = (Vec::new(), 0);
                }
                1 | 2 => {
                    waiting.all_sent();
                    sent = list.len();
                }
                3..6 if sent > 0 => {
                    waiting.leave(&agents);
                    list.remove(0);
                    sent -= 1;
                }
                _ => {
                    let free: Vec<u32> = (0..6).filter(|number| !list.contains(number)).collect();
                    let Some(number) = random.choice(free) else { continue };
                    assert_eq!(waiting.join(&mut agents, number as usize), sent == list.len());
                    list.push(number);
                }
            }
            let asked = list.first().filter(|_| sent > 0).map(|number| *number as usize);
            assert_eq!(waiting.asked(), asked);
            assert_eq!(waiting.unsent(), list.get(sent).copied().unwrap_or(NOBODY));
        }
    }

    /// What an idle agent with a connection of its own takes, beside its two timers (32 bytes) and whatever its cycle keeps.
    #[test]
    fn an_idle_agent_is_small() {
        assert!(size_of::<Agent>() <= 112, "{}", size_of::<Agent>());
        assert!(size_of::<Connection<Http>>() <= 320, "{}", size_of::<Connection<Http>>());
        assert!(size_of::<Connection<Vsns>>() <= 128, "{}", size_of::<Connection<Vsns>>());
    }
}
