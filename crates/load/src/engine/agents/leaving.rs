//! Agents that leave and return, if the number of agents changes in stages. An agent leaves between
//! two cycles. It returns as a new agent, except that the numbers of its cycles go on, so that
//! `{agent}-{seq}` names each cycle once.

use wire::session::SessionProtocol;

use super::{AgentEffect, AgentTimer, AgentWork, Agents, EventTime, NEVER};
use crate::engine::ids::AgentId;
use crate::engine::thread_stats::ThreadStats;
use crate::schedules::presence::AgentPresence;

impl<P: SessionProtocol> Agents<P> {
    /// Returns the time at which an agent between two cycles leaves, or the past if it should have
    /// left.
    #[cold]
    pub(super) fn leaves_ns(&self, id: AgentId, now_ns: u64) -> u64 {
        let agent = &self.list[id];
        match self.presence_of(id, now_ns) {
            Some(AgentPresence::AbsentUntil(_)) if agent.begins_cycle() => 0,
            Some(AgentPresence::Until(leaves_ns)) if agent.begins_cycle() => leaves_ns,
            _ => NEVER,
        }
    }

    fn presence_of(&self, id: AgentId, now_ns: u64) -> Option<AgentPresence> {
        let agent = &self.list[id];
        let presence = self.script.groups[agent.group].presence.as_ref()?;
        Some(presence.at(agent.place_in_group, now_ns))
    }

    /// Lets the agent leave, and return when the stages say so. Its connection is closed if no
    /// other agent uses it.
    pub(super) fn leave(&mut self, id: AgentId, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        let returns_ns = match self.presence_of(id, at.now_ns) {
            Some(AgentPresence::AbsentUntil(returns_ns)) => returns_ns,
            _ => at.now_ns,
        };
        let agent = &mut self.list[id];
        agent.work = AgentWork::Unborn;
        agent.has_started = self.script.groups[agent.group].on_start.is_empty();
        agent.kept = 0;
        agent.intended_ns = returns_ns;
        let connection = agent.connection;
        stats.agents = stats.agents.saturating_sub(1);
        if returns_ns < self.starts.end_ns {
            self.timers.set(AgentTimer::Wake(id), returns_ns);
        }
        if self.script.changes_connections {
            return AgentEffect::Disconnect(self.sites.home(id));
        }
        let mut own = self.list.iter().skip(connection.index()).step_by(self.routes.count());
        match own.all(|agent| matches!(agent.work, AgentWork::Unborn | AgentWork::Done)) {
            true => AgentEffect::Disconnect(connection),
            false => AgentEffect::Wait,
        }
    }
}
