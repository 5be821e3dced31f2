//! Open requests of connections: agents that wait for answers, the state of the protocol, and
//! partly received bytes.

use std::ops::{Index, IndexMut};

use transport::buffer_pool::BufferPool;
use transport::conn_id::ConnId;
use wire::answer_budget::BudgetShare;
use wire::cause::AttemptCause;
use wire::session::{Encoded, OpenRequests, Opening, RequestContext, SessionEvent, SessionProtocol};
use wire::values::allowed::NotSendable;

use super::agents::answers::DecodedAnswer;
use super::agents::{Agent, AgentWork, Agents};
use super::ids::AgentId;

/// Open requests of a connection.
pub struct Pipeline<P: SessionProtocol> {
    /// Agents with an attempt on the connection.
    pub waiting: WaitingAgents,
    /// Whether the protocol's opening is complete.
    pub is_open: bool,
    /// Whether the current socket has carried an answer.
    pub is_proven: bool,
    /// Whether the target takes no more requests on the current socket.
    pub is_draining: bool,
    /// Whether the protocol has postponed requests until the target sends bytes.
    pub is_blocked: bool,
    /// Bytes that the protocol has sent by itself since the socket last took all bytes.
    control_bytes: u32,
    /// Number of requests so far, modulo the range of the sequence part of an id.
    sequence: u32,
    session: P::Session,
    /// Bytes of an incomplete answer.
    input: Vec<u8>,
    /// Share of the memory budget that `input` holds.
    held: BudgetShare,
}

impl<P: SessionProtocol> Default for Pipeline<P> {
    fn default() -> Self {
        Self {
            waiting: WaitingAgents::default(),
            is_open: false,
            is_proven: false,
            is_draining: false,
            is_blocked: false,
            control_bytes: 0,
            sequence: 0,
            session: P::Session::default(),
            input: Vec::new(),
            held: BudgetShare::default(),
        }
    }
}

/// Open requests on the connections of a thread.
pub struct Pipelines<P: SessionProtocol> {
    list: Vec<Pipeline<P>>,
    ids: RequestIds,
    /// Connections on which requests became ready in this turn of the event loop. These requests
    /// are sent together.
    pub ready: Vec<ConnId>,
    /// Buffer for encoded requests.
    pub outgoing: Vec<u8>,
    /// Buffer for bytes that a protocol sends by itself, such as acknowledgements.
    pub control: Vec<u8>,
    /// Agents whose requests could not be encoded.
    pub refused: Vec<(AgentId, NotSendable)>,
    memory: P::Memory,
    spare: BufferPool,
}

/// Generator of request ids. The lower bits of an id are the agent's index among the agents of its
/// connection, so an answer's id leads to the agent without a search. The upper bits count the
/// requests.
#[derive(Debug, Clone, Copy)]
struct RequestIds {
    connections: usize,
    place_bits: u32,
}

impl RequestIds {
    fn of(connections: usize, agents: usize) -> Self {
        let places = agents.div_ceil(connections.max(1)).max(1);
        Self { connections, place_bits: usize::BITS - (places - 1).leading_zeros() }
    }

    /// Returns the id of the agent's next request.
    #[inline]
    fn next(self, sequence: &mut u32, agent: AgentId) -> u32 {
        // No request has the id 0: a VSNS server uses 0 in answers that it sends before it reads a
        // request.
        *sequence = (sequence.wrapping_add(1) & (u32::MAX >> self.place_bits)).max(1);
        if self.place_bits == 0 {
            return *sequence;
        }
        let place = agent.index() / self.connections;
        *sequence << self.place_bits | u32::try_from(place).unwrap_or_default()
    }

    /// Returns the connection's agent to which the request id belongs.
    #[inline]
    fn agent(self, conn: ConnId, id: u32) -> AgentId {
        let place = id & !(u32::MAX << self.place_bits);
        AgentId::at(conn.index() + place as usize * self.connections)
    }
}

/// Open requests of a connection, as the protocol sees them.
struct RequestsOf<'a, P: SessionProtocol> {
    agents: &'a Agents<P>,
    oldest: Option<AgentId>,
    conn: ConnId,
    ids: RequestIds,
}

impl<'a, P: SessionProtocol> OpenRequests<'a, P> for RequestsOf<'a, P> {
    #[inline]
    fn oldest(&self) -> Option<RequestContext<'a, P>> {
        self.oldest.map(|id| self.agents.asked(id))
    }

    fn get(&self, id: u32) -> Option<RequestContext<'a, P>> {
        open_agent(self.ids, self.conn, self.agents.all(), self.oldest, id).map(|agent| self.agents.asked(agent))
    }
}

/// Returns the agent whose open request has this id. `oldest` is the agent whose request was sent
/// first; it is the only one on a connection that agents do not share.
#[inline]
fn open_agent(ids: RequestIds, conn: ConnId, agents: &[Agent], oldest: Option<AgentId>, id: u32) -> Option<AgentId> {
    let agent = if ids.place_bits == 0 { oldest? } else { ids.agent(conn, id) };
    let found = agents.get(agent.index())?;
    (id != 0 && found.request_id == id && found.work == AgentWork::Attempt).then_some(agent)
}

impl<P: SessionProtocol> Index<ConnId> for Pipelines<P> {
    type Output = Pipeline<P>;

    #[inline]
    fn index(&self, conn: ConnId) -> &Pipeline<P> {
        &self.list[conn.index()]
    }
}

impl<P: SessionProtocol> IndexMut<ConnId> for Pipelines<P> {
    #[inline]
    fn index_mut(&mut self, conn: ConnId) -> &mut Pipeline<P> {
        &mut self.list[conn.index()]
    }
}

impl<P: SessionProtocol> Pipelines<P> {
    /// Creates the state of idle connections, which `agents` agents share evenly.
    pub fn new(connections: usize, agents: usize) -> Self {
        let list = std::iter::repeat_with(Pipeline::default).take(connections).collect();
        Self {
            list,
            ids: RequestIds::of(connections, agents),
            ready: Vec::new(),
            outgoing: Vec::new(),
            control: Vec::new(),
            refused: Vec::new(),
            memory: P::Memory::default(),
            spare: BufferPool::default(),
        }
    }

    /// Begins a new connection to the service. Bytes to send are in `control`.
    pub fn greet(&mut self, conn: ConnId, service: &P) -> Opening {
        service.greet(&mut self.list[conn.index()].session, &mut self.control)
    }

    /// Continues the opening of a connection. Bytes to send are in `control`.
    pub fn greeted(&mut self, conn: ConnId, service: &P, input: &[u8]) -> Opening {
        service.greeted(&mut self.list[conn.index()].session, input, &mut self.control)
    }

    /// Empties `control` after it was sent. Returns the maximum number of control bytes that the
    /// socket has not taken.
    pub fn count_control(&mut self, conn: ConnId, is_taken: bool) -> u32 {
        let count = &mut self.list[conn.index()].control_bytes;
        *count = if is_taken { 0 } else { count.saturating_add(u32::try_from(self.control.len()).unwrap_or(u32::MAX)) };
        self.control.clear();
        *count
    }

    /// Encodes all requests that wait to be sent. Returns the first agent of these requests if a
    /// script computed any request. Agents whose requests cannot be encoded leave the queue.
    #[inline]
    pub fn encode_unsent(&mut self, conn: ConnId, agents: &mut Agents<P>, now_ns: u64) -> Option<AgentId> {
        self.outgoing.clear();
        let pipeline = &mut self.list[conn.index()];
        if pipeline.is_draining {
            return None;
        }
        pipeline.is_blocked = false;
        let mut next = pipeline.waiting.unsent();
        let mut asks_script = false;
        let mut first = AgentId::NONE;
        while next != AgentId::NONE {
            let id = next;
            let request_id = self.ids.next(&mut pipeline.sequence, id);
            let begin = self.outgoing.len();
            let state = (&mut pipeline.session, &mut self.memory);
            match agents.encode(id, state, request_id, now_ns, &mut self.outgoing) {
                Ok((Encoded::Done, asks)) => {
                    asks_script |= asks;
                    first = if first == AgentId::NONE { id } else { first };
                    next = agents.all()[id].behind;
                }
                Ok((Encoded::NotNow, _)) => {
                    self.outgoing.truncate(begin);
                    pipeline.is_blocked = true;
                    break;
                }
                Err(refusal) => {
                    next = agents.all()[id].behind;
                    self.outgoing.truncate(begin);
                    pipeline.waiting.remove(agents.all_mut(), id);
                    self.refused.push((id, refusal));
                }
            }
        }
        pipeline.waiting.unsent = next;
        asks_script.then_some(first)
    }

    /// Encodes the next parts of requests that the target did not take completely. Returns whether
    /// there are any.
    #[inline]
    pub fn encode_rest(&mut self, conn: ConnId) -> bool {
        self.outgoing.clear();
        P::send_rest(&mut self.list[conn.index()].session, &mut self.memory, &mut self.outgoing);
        !self.outgoing.is_empty()
    }

    /// Reads the next event in received bytes. Bytes to send in return are in `control`.
    #[inline]
    pub fn receive(&mut self, conn: ConnId, agents: &Agents<P>, input: &[u8], ended: bool) -> SessionEvent {
        let pipeline = &mut self.list[conn.index()];
        let open = RequestsOf { agents, oldest: pipeline.waiting.asked(), conn, ids: self.ids };
        P::receive(&mut pipeline.session, &mut self.memory, &open, input, ended, &mut self.control)
    }

    /// Returns the agent whose open request has this id.
    #[inline]
    pub fn agent(&self, conn: ConnId, agents: &[Agent], id: u32) -> Option<AgentId> {
        open_agent(self.ids, conn, agents, self.list[conn.index()].waiting.asked(), id)
    }

    /// Gives up an open request. Returns false if only closing the connection ends the request.
    pub fn cancel(&mut self, conn: ConnId, agents: &mut [Agent], id: AgentId) -> bool {
        let pipeline = &mut self.list[conn.index()];
        let is_cancelled = P::cancel(&mut pipeline.session, &mut self.memory, agents[id].request_id, &mut self.control);
        if is_cancelled {
            pipeline.waiting.remove(agents, id);
        }
        is_cancelled
    }

    /// Writes the bytes that end the connection to `control`.
    pub fn leave(&mut self, conn: ConnId) {
        let pipeline = &mut self.list[conn.index()];
        if pipeline.is_open {
            P::leave(&mut pipeline.session, &mut self.control);
        }
    }

    /// Returns the answer that was just received, from the beginning of `input`.
    #[inline]
    pub fn decoded<'a>(&'a self, conn: ConnId, input: &'a [u8], result: AttemptCause) -> DecodedAnswer<'a, P> {
        DecodedAnswer { session: &self.list[conn.index()].session, input, result }
    }

    /// Removes the answered agent from the queue. Returns whether other agents wait for answers.
    #[inline]
    pub fn finish(&mut self, conn: ConnId, agents: &mut [Agent], id: AgentId) -> bool {
        let pipeline = &mut self.list[conn.index()];
        pipeline.is_proven = true;
        pipeline.waiting.remove(agents, id);
        P::finish(&mut pipeline.session, &mut self.memory);
        pipeline.waiting.asked().is_some()
    }

    /// Whether part of an answer has arrived.
    #[inline]
    pub fn has_partial(&self, conn: ConnId) -> bool {
        !self.list[conn.index()].input.is_empty()
    }

    /// Takes the incomplete answer and appends `more`. Returns `None` if the answer exceeds the
    /// memory budget. The caller must [keep](Self::keep_partial) or [drop](Self::drop_partial) the
    /// bytes.
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

    /// Puts back the bytes of an answer that is still incomplete. The bytes are moved and not
    /// copied, because a long answer arrives in many pieces.
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

    /// Resets the state of a closed connection. Returns the first agent that waited on the
    /// connection, or [`AgentId::NONE`].
    #[must_use = "the waiting agents must be served"]
    pub fn reset(&mut self, conn: ConnId) -> AgentId {
        let pipeline = &mut self.list[conn.index()];
        P::reset(&mut pipeline.session, &mut self.memory);
        (pipeline.is_open, pipeline.is_draining, pipeline.is_blocked) = (false, false, false);
        pipeline.control_bytes = 0;
        let waiting = pipeline.waiting.disband();
        pipeline.held = BudgetShare::default();
        let input = std::mem::take(&mut pipeline.input);
        self.spare.recycle(input);
        waiting
    }
}

/// Agents with an attempt on a connection, in the order of their requests: first the agents whose
/// request was sent, then the agents whose request was not sent. Each agent holds the ids of its
/// neighbours ([`Agent::ahead`], [`Agent::behind`]), so the queue needs no memory and any agent can
/// leave it in constant time.
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
    /// Adds the agent to the end of the queue. Returns whether the agent is the first with an
    /// unsent request.
    #[inline]
    pub fn join(&mut self, agents: &mut [Agent], id: AgentId) -> bool {
        (agents[id].ahead, agents[id].behind, agents[id].request_id) = (self.last, AgentId::NONE, 0);
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

    /// Returns the agent whose request was sent first, if any request was sent.
    #[inline]
    pub fn asked(&self) -> Option<AgentId> {
        (self.first != self.unsent).then_some(self.first)
    }

    /// Removes an agent from the queue.
    #[inline]
    pub fn remove(&mut self, agents: &mut [Agent], id: AgentId) {
        let (ahead, behind) = (agents[id].ahead, agents[id].behind);
        if self.unsent == id {
            self.unsent = behind;
        }
        match ahead {
            AgentId::NONE => self.first = behind,
            ahead => agents[ahead].behind = behind,
        }
        match behind {
            AgentId::NONE => self.last = ahead,
            behind => agents[behind].ahead = ahead,
        }
    }

    /// Returns the first agent whose request is not sent, or [`AgentId::NONE`].
    pub fn unsent(&self) -> AgentId {
        self.unsent
    }

    /// Removes all agents. Returns the first agent of the queue, or [`AgentId::NONE`].
    #[must_use = "the waiting agents must be served"]
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

    /// Removes the agent whose request was sent first.
    fn leave(waiting: &mut WaitingAgents, agents: &mut [Agent]) {
        let first = waiting.first;
        waiting.remove(agents, first);
    }

    #[test]
    fn one_agent_asks_and_is_answered() {
        let mut agents = agents(1);
        let mut waiting = WaitingAgents::default();
        for _ in 0..3 {
            assert_eq!(waiting.asked(), None, "nothing was sent");
            assert!(waiting.join(&mut agents, at(0)));
            assert_eq!((waiting.asked(), waiting.unsent()), (None, at(0)));
            waiting.unsent = AgentId::NONE;
            assert_eq!((waiting.asked(), waiting.unsent()), (Some(at(0)), AgentId::NONE));
            leave(&mut waiting, &mut agents);
        }
        assert_eq!(waiting.disband(), AgentId::NONE);
    }

    #[test]
    fn answers_come_in_the_order_of_the_requests() {
        let mut agents = agents(4);
        let mut waiting = WaitingAgents::default();
        assert!(waiting.join(&mut agents, at(2)));
        assert!(!waiting.join(&mut agents, at(0)));
        waiting.unsent = AgentId::NONE;
        assert!(waiting.join(&mut agents, at(3)), "the first that was not sent");
        assert_eq!((waiting.asked(), waiting.unsent()), (Some(at(2)), at(3)));
        leave(&mut waiting, &mut agents);
        assert_eq!(waiting.asked(), Some(at(0)));
        assert!(!waiting.join(&mut agents, at(2)), "who was answered comes again behind the others");
        leave(&mut waiting, &mut agents);
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
                    waiting.unsent = AgentId::NONE;
                    sent = list.len();
                }
                3..6 if sent > 0 => {
                    leave(&mut waiting, &mut agents);
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
