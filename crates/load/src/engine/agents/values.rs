//! Values of a thread's agents: the slots that they keep, their feed records, and the inputs from
//! which requests are made and answers are checked.

use std::sync::Arc;

use wire::session::{Encoded, SessionProtocol};
use wire::values::allowed::NotSendable;
use wire::values::feeds::{FeedRows, TakenRecord};
use wire::values::{OperationValues, ValueSource};

use super::Agent;
use super::answers::CaptureMemory;
use super::feeding::Feeding;
use super::lanes::Lanes;
use super::redirects::FollowedRedirects;
use super::session_cookies::SessionCookies;
use crate::engine::control::LoadControl;
use crate::engine::counters::SharedCounters;
use crate::engine::ids::AgentId;
use crate::engine::script::Script;

/// The values of a thread's agents.
pub struct AgentValues<P: SessionProtocol> {
    pub(super) script: Arc<Script<P>>,
    pub(super) control: Arc<LoadControl>,
    /// Slots of all agents, agent by agent.
    pub(super) slots: Vec<Vec<u8>>,
    /// Number of agents, and the agent of each lane.
    agents: usize,
    lane_owners: Box<[AgentId]>,
    pub(super) feeding: Feeding,
    pub(super) cookies: SessionCookies,
    pub(super) redirects: FollowedRedirects,
    pub(super) counters: SharedCounters,
    /// Unix time of load start, nanoseconds.
    pub(super) zero_ns: u64,
    /// Memory for values that are read from answers and kept.
    pub(super) captures: CaptureMemory,
}

impl<P: SessionProtocol> AgentValues<P> {
    /// Creates the values of the agents of thread `thread` with these lanes.
    pub fn new(script: &Arc<Script<P>>, control: &Arc<LoadControl>, thread: u32, lanes: &Lanes) -> Self {
        let agents = lanes.agents();
        Self {
            agents,
            lane_owners: lanes.owners().into(),
            slots: vec![Vec::new(); agents * script.slots],
            feeding: Feeding::new(script, thread, agents),
            cookies: SessionCookies::new(if script.has_cookies() { agents } else { 0 }),
            counters: SharedCounters::new(script.counters, (thread, script.threads), agents + lanes.owners().len()),
            zero_ns: 0,
            redirects: FollowedRedirects::new(if script.follows() { agents + lanes.owners().len() } else { 0 }),
            captures: CaptureMemory::default(),
            script: Arc::clone(script),
            control: Arc::clone(control),
        }
    }

    /// Returns the agent whose values the agent or lane uses.
    #[inline]
    pub(super) fn owner(&self, id: AgentId) -> AgentId {
        match id.index().checked_sub(self.agents) {
            None => id,
            Some(lane) => self.lane_owners[lane],
        }
    }

    /// Appends the request of the agent's step. Returns whether the protocol takes the request now,
    /// and whether a script computed part of the request.
    ///
    /// # Errors
    /// If a slot of the request is not filled, or the protocol cannot represent one of the values.
    #[inline]
    pub fn encode(
        &self,
        id: AgentId,
        agent: &Agent,
        (session, memory): (&mut P::Session, &mut P::Memory),
        (request_id, now_ns): (u32, u64),
        out: &mut Vec<u8>,
    ) -> Result<(Encoded, bool), NotSendable> {
        let step = &self.script.steps[agent.step];
        let missing = step.needs & !agent.kept;
        if missing != 0 {
            return Err(NotSendable::NoSlot(self.script.slot_names[missing.trailing_zeros() as usize]));
        }
        let redirection = if step.follows { self.redirects.of(id) } else { None };
        let owner = self.owner(id);
        let source =
            source(agent, owner, &self.script, self.zero_ns, (&self.slots, &self.feeding.taken, self.counters.of(id)));
        let cookies = if step.keeps_cookies { self.cookies.of(owner, now_ns) } else { None };
        let values = OperationValues { source, arguments: &step.arguments, cookies, redirection };
        let encoded = P::encode(session, memory, self.script.request(agent), request_id, &values, out)?;
        Ok((encoded, step.asks_script))
    }

    /// Returns the inputs from which the values of the agent's operation are computed.
    pub(super) fn source_of(&self, id: AgentId, agent: &Agent) -> ValueSource<'_> {
        let counters = self.counters.of(id);
        source(agent, self.owner(id), &self.script, self.zero_ns, (&self.slots, &self.feeding.taken, counters))
    }
}

/// Returns the inputs from which the values of the agent's operation are computed. `id` is the
/// agent whose values the operation uses, `zero_ns` is the Unix time of load start.
#[inline]
pub(super) fn source<'a, P: SessionProtocol>(
    agent: &Agent,
    id: AgentId,
    script: &'a Script<P>,
    zero_ns: u64,
    (slots, records, counters): (&'a [Vec<u8>], &'a [TakenRecord], &'a [u64]),
) -> ValueSource<'a> {
    let feeds: &'a [FeedRows] = &script.feeds;
    ValueSource {
        agent: u64::from(agent.number),
        seq: agent.cycle,
        repeat: u64::from(agent.repeat),
        copy: u64::from(script.groups[agent.group].copy_of(agent.place_in_group)),
        draw: agent.draw,
        counters,
        unix_ns: zero_ns.saturating_add(agent.intended_ns),
        slots: &slots[id.index() * script.slots..][..script.slots],
        kept: agent.kept,
        feeds,
        records: &records[id.index() * feeds.len()..][..feeds.len()],
    }
}
