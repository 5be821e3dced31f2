//! Open requests of connections: agents that wait for answers, in the order of their requests, and
//! partly received answers.

use std::ops::{Index, IndexMut};

use transport::buffer_pool::BufferPool;
use transport::conn_id::ConnId;
use wire::answer_budget::BudgetShare;
use wire::cause::AttemptCause;
use wire::protocols::{Progress, Protocol};
use wire::values::allowed::NotSendable;

use super::agents::answers::DecodedAnswer;
use super::agents::{Agent, Agents};
use super::ids::AgentId;

/// Open requests of a connection.
pub struct Pipeline<P: Protocol> {
    /// Agents with an attempt on the connection.
    pub waiting: WaitingAgents,
    /// Whether the current socket has carried an answer.
    pub is_proven: bool,
    /// Number of the last request.
    last_id: u32,
    /// Decoder of the next answer.
    decoder: P::Decoder,
    /// Bytes of an incomplete answer.
    input: Vec<u8>,
    /// Share of the memory budget that these bytes hold.
    held: BudgetShare,
}

impl<P: Protocol> Default for Pipeline<P> {
    fn default() -> Self {
        Self {
            waiting: WaitingAgents::default(),
            is_proven: false,
            last_id: 0,
            decoder: P::Decoder::default(),
            input: Vec::new(),
            held: BudgetShare::default(),
        }
    }
}

/// Open requests on the connections of a thread.
pub struct Pipelines<P: Protocol> {
    list: Vec<Pipeline<P>>,
    /// Connections on which requests became ready in this turn of the loop. They are sent together.
    pub ready: Vec<ConnId>,
    /// Buffer for encoded requests.
    pub outgoing: Vec<u8>,
    /// Agents whose requests could not be encoded.
    pub refused: Vec<(AgentId, NotSendable)>,
    memory: P::Memory,
    spare: BufferPool,
}

impl<P: Protocol> Index<ConnId> for Pipelines<P> {
    type Output = Pipeline<P>;

    #[inline]
    fn index(&self, conn: ConnId) -> &Pipeline<P> {
        &self.list[conn.index()]
    }
}

impl<P: Protocol> IndexMut<ConnId> for Pipelines<P> {
    #[inline]
    fn index_mut(&mut self, conn: ConnId) -> &mut Pipeline<P> {
        &mut self.list[conn.index()]
    }
}

impl<P: Protocol> Pipelines<P> {
    /// Creates the state of idle connections.
    pub fn new(connections: usize) -> Self {
        let list = std::iter::repeat_with(Pipeline::default).take(connections).collect();
        Self {
            list,
            ready: Vec::new(),
            outgoing: Vec::new(),
            refused: Vec::new(),
            memory: P::Memory::default(),
            spare: BufferPool::default(),
        }
    }

    /// Encodes the requests that wait to be sent, one after the other. Returns the first agent if a
    /// script computed any of the requests. Agents whose requests cannot be encoded leave the line.
    #[inline]
    pub fn encode_unsent(&mut self, conn: ConnId, agents: &mut Agents<P>, now_ns: u64) -> Option<AgentId> {
        let pipeline = &mut self.list[conn.index()];
        let mut next = pipeline.waiting.unsent();
        pipeline.waiting.all_sent();
        self.outgoing.clear();
        let mut asks_script = false;
        let mut first = AgentId::NONE;
        while next != AgentId::NONE {
            let id = next;
            next = agents.all()[id].behind;
            // Answers without a request have the number 0.
            pipeline.last_id = pipeline.last_id.wrapping_add(1).max(1);
            let begin = self.outgoing.len();
            match agents.encode(id, pipeline.last_id, now_ns, &mut self.outgoing) {
                Ok(asks) => {
                    asks_script |= asks;
                    first = if first == AgentId::NONE { id } else { first };
                }
                Err(refusal) => {
                    self.outgoing.truncate(begin);
                    pipeline.waiting.remove(agents.all_mut(), id);
                    self.refused.push((id, refusal));
                }
            }
        }
        asks_script.then_some(first)
    }

    /// Tries to decode the answer to agent `id`, which is the first that waits for an answer.
    #[inline]
    pub fn decode(&mut self, conn: ConnId, agents: &Agents<P>, id: AgentId, input: &[u8], ended: bool) -> Progress {
        P::decode(&agents.asked(id), &mut self.list[conn.index()].decoder, &mut self.memory, input, ended)
    }

    /// Returns the answer that was just decoded from the beginning of `input`.
    #[inline]
    pub fn decoded<'a>(&'a self, conn: ConnId, input: &'a [u8], result: AttemptCause) -> DecodedAnswer<'a, P> {
        DecodedAnswer { decoder: &self.list[conn.index()].decoder, input, result }
    }

    /// Removes the answered agent from the line. Returns whether other agents wait for answers.
    #[inline]
    pub fn finish(&mut self, conn: ConnId, agents: &Agents<P>) -> bool {
        let pipeline = &mut self.list[conn.index()];
        pipeline.is_proven = true;
        pipeline.waiting.leave(agents.all());
        P::rest(&mut pipeline.decoder, &mut self.memory);
        pipeline.waiting.asked().is_some()
    }

    /// Whether part of an answer has arrived.
    #[inline]
    pub fn has_partial(&self, conn: ConnId) -> bool {
        !self.list[conn.index()].input.is_empty()
    }

    /// Takes the incomplete answer and appends `more`. Returns `None` if it exceeds the memory
    /// budget. The caller must [keep](Self::keep_partial) or [drop](Self::drop_partial) the bytes.
    pub fn take_partial(&mut self, conn: ConnId, more: &[u8]) -> Option<Vec<u8>> {
        let pipeline = &mut self.list[conn.index()];
        let mut input = std::mem::take(&mut pipeline.input);
        if !more.is_empty() && !pipeline.held.grow_to(input.len() + more.len()) {
            self.spare.recycle(input);
            return None;
        }
        input.extend_from_slice(more);
        Some(input)
    }

    /// Puts back bytes that are still incomplete. They are moved and not copied, because a long
    /// answer arrives in many pieces.
    pub fn keep_partial(&mut self, conn: ConnId, input: Vec<u8>) {
        self.list[conn.index()].input = input;
    }

    /// Drops bytes that are no longer needed.
    pub fn drop_partial(&mut self, conn: ConnId, input: Vec<u8>) {
        self.list[conn.index()].held = BudgetShare::default();
        self.spare.recycle(input);
    }

    /// Stores the beginning of an incomplete answer.
    pub fn stash_partial(&mut self, conn: ConnId, piece: &[u8]) {
        if !piece.is_empty() {
            let mut input = self.spare.take();
            input.extend_from_slice(piece);
            self.list[conn.index()].input = input;
        }
    }

    /// Resets the state of a closed connection. Returns the first agent that waited there, or
    /// [`AgentId::NONE`].
    #[must_use = "who waits must not be forgotten"]
    pub fn reset(&mut self, conn: ConnId) -> AgentId {
        let pipeline = &mut self.list[conn.index()];
        P::rest(&mut pipeline.decoder, &mut self.memory);
        let waiting = pipeline.waiting.disband();
        pipeline.held = BudgetShare::default();
        let input = std::mem::take(&mut pipeline.input);
        self.spare.recycle(input);
        waiting
    }
}

/// Agents with an attempt on a connection, in the order of their requests: first the agents whose
/// request was sent, then the others. Each agent holds the id of the next ([`Agent::behind`]), so
/// the line needs no memory.
#[derive(Debug, Clone, Copy)]
pub struct WaitingAgents {
    first: AgentId,
    last: AgentId,
    /// First agent whose request is not sent.
    unsent: AgentId,
}

impl Default for WaitingAgents {
    fn default() -> Self {
        Self { first: AgentId::NONE, last: AgentId::NONE, unsent: AgentId::NONE }
    }
}

impl WaitingAgents {
    /// Adds the agent to the end of the line. Returns whether it is the first with an unsent
    /// request.
    #[inline]
    pub fn join(&mut self, agents: &mut [Agent], id: AgentId) -> bool {
        agents[id].behind = AgentId::NONE;
        match self.last {
            AgentId::NONE => self.first = id,
            last => agents[last].behind = id,
        }
        self.last = id;
        let is_first_unsent = self.unsent == AgentId::NONE;
        if is_first_unsent {
            self.unsent = id;
        }
        is_first_unsent
    }

    /// Returns the agent to which the next answer belongs, if a request was sent.
    #[inline]
    pub fn asked(&self) -> Option<AgentId> {
        (self.first != self.unsent).then_some(self.first)
    }

    /// Removes the first agent, whose request is answered.
    #[inline]
    pub fn leave(&mut self, agents: &[Agent]) {
        if self.first == AgentId::NONE {
            return;
        }
        let behind = agents[self.first].behind;
        if self.unsent == self.first {
            self.unsent = behind;
        }
        self.first = behind;
        if behind == AgentId::NONE {
            self.last = AgentId::NONE;
        }
    }

    /// Removes an agent whose request could not be encoded. All other requests in the line must be
    /// marked as sent.
    #[cold]
    pub fn remove(&mut self, agents: &mut [Agent], id: AgentId) {
        let behind = agents[id].behind;
        let mut before = AgentId::NONE;
        let mut next = self.first;
        while next != id && next != AgentId::NONE {
            before = next;
            next = agents[next].behind;
        }
        match before {
            AgentId::NONE => self.first = behind,
            before => agents[before].behind = behind,
        }
        if self.last == id {
            self.last = before;
        }
    }

    /// Returns the first agent whose request is not sent, or [`AgentId::NONE`].
    pub fn unsent(&self) -> AgentId {
        self.unsent
    }

    /// Marks all requests as sent.
    pub fn all_sent(&mut self) {
        self.unsent = AgentId::NONE;
    }

    /// Removes all agents. Returns the first of the line, or [`AgentId::NONE`].
    #[must_use = "who waits must not be forgotten"]
    pub fn disband(&mut self) -> AgentId {
        std::mem::take(self).first
    }
}

#[cfg(test)]
mod tests {
    use transport::connections::Connection;
    use wire::protocols::http::Http;
    use wire::protocols::vsns::Vsns;

    use super::*;
    use crate::engine::agents::AgentService;

    fn agents(count: u32) -> Vec<Agent> {
        let place = AgentService { service: 0, requests: 0 };
        (1..=count).map(|number| Agent::new(number, 0, place, ConnId::at(0))).collect()
    }

    fn at(index: usize) -> AgentId {
        AgentId::at(index)
    }

    /// Returns the agents of the line, in order.
    fn line(agents: &[Agent], first: AgentId) -> Vec<usize> {
        let present = |id: AgentId| Some(id).filter(|id| *id != AgentId::NONE);
        std::iter::successors(present(first), |id| present(agents[*id].behind)).map(AgentId::index).collect()
    }

    #[test]
    fn one_agent_asks_and_is_answered() {
        let mut agents = agents(1);
        let mut waiting = WaitingAgents::default();
        for _ in 0..3 {
            assert_eq!(waiting.asked(), None, "nothing was sent");
            assert!(waiting.join(&mut agents, at(0)));
            assert_eq!((waiting.asked(), waiting.unsent()), (None, at(0)));
            waiting.all_sent();
            assert_eq!((waiting.asked(), waiting.unsent()), (Some(at(0)), AgentId::NONE));
            waiting.leave(&agents);
        }
        assert_eq!(waiting.disband(), AgentId::NONE);
    }

    #[test]
    fn answers_come_in_the_order_of_the_requests() {
        let mut agents = agents(4);
        let mut waiting = WaitingAgents::default();
        assert!(waiting.join(&mut agents, at(2)));
        assert!(!waiting.join(&mut agents, at(0)));
        waiting.all_sent();
        assert!(waiting.join(&mut agents, at(3)), "the first that was not sent");
        assert_eq!((waiting.asked(), waiting.unsent()), (Some(at(2)), at(3)));
        waiting.leave(&agents);
        assert_eq!(waiting.asked(), Some(at(0)));
        assert!(!waiting.join(&mut agents, at(2)), "who was answered comes again behind the others");
        waiting.leave(&agents);
        assert_eq!((waiting.asked(), waiting.unsent()), (None, at(3)), "nobody else was sent");
        assert_eq!(line(&agents, waiting.disband()), [3, 2]);
        assert_eq!((waiting.asked(), waiting.unsent(), waiting.disband()), (None, AgentId::NONE, AgentId::NONE));
    }

    #[test]
    fn the_queue_agrees_with_a_list() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut agents = agents(6);
        let (mut waiting, mut list, mut sent) = (WaitingAgents::default(), Vec::new(), 0);
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
                    let free: Vec<usize> = (0..6).filter(|index| !list.contains(index)).collect();
                    let Some(index) = random.choice(free) else { continue };
                    assert_eq!(waiting.join(&mut agents, at(index)), sent == list.len());
                    list.push(index);
                }
            }
            assert_eq!(waiting.asked(), list.first().filter(|_| sent > 0).copied().map(at));
            assert_eq!(waiting.unsent(), list.get(sent).copied().map_or(AgentId::NONE, at));
        }
    }

    /// Size of an idle agent with its own connection, without its two timers (32 bytes) and the
    /// values that its cycle keeps.
    #[test]
    fn an_idle_agent_is_small() {
        assert!(size_of::<Agent>() <= 136, "{}", size_of::<Agent>());
        assert!(
            size_of::<Connection>() + size_of::<Pipeline<Http>>() <= 320,
            "{}",
            size_of::<Connection>() + size_of::<Pipeline<Http>>()
        );
        assert!(
            size_of::<Connection>() + size_of::<Pipeline<Vsns>>() <= 128,
            "{}",
            size_of::<Connection>() + size_of::<Pipeline<Vsns>>()
        );
    }
}
