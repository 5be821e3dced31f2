//! Redirects that operations follow. All requests of an operation are attempts of it; its latency
//! runs to the last answer.

use wire::cause::AttemptCause;
use wire::redirection::Redirection;
use wire::session::SessionProtocol;
use wire::values::OperationValues;

use super::answers::{AnswerClass, DecodedAnswer};
use super::values::{AgentValues, source};
use super::{AgentEffect, Agents, EventTime};
use crate::engine::ids::AgentId;
use crate::engine::thread_stats::ThreadStats;

/// Redirects that a thread's agents have followed in their operations.
#[derive(Debug, Default)]
pub struct FollowedRedirects {
    /// Indexed by agent or lane. Empty if no step follows redirects.
    list: Vec<Redirection>,
}

impl FollowedRedirects {
    /// Creates the redirects of this many agents and lanes.
    pub fn new(agents: usize) -> Self {
        Self { list: vec![Redirection::default(); agents] }
    }

    /// Begins an operation of the agent.
    #[inline]
    pub fn begin(&mut self, id: AgentId) {
        if let Some(redirection) = self.list.get_mut(id.index()) {
            redirection.begin();
        }
    }

    /// Returns the redirects of the agent's operation, or `None` if it has followed none.
    #[inline]
    pub fn of(&self, id: AgentId) -> Option<&Redirection> {
        self.list.get(id.index()).filter(|redirection| redirection.count > 0)
    }
}

impl<P: SessionProtocol> AgentValues<P> {
    /// Sets the agent's next request if the answer is a redirect that the step follows.
    fn follow(&mut self, id: AgentId, agent: &super::Agent, answer: &DecodedAnswer<'_, P>) -> Option<AnswerClass> {
        let step = &self.script.steps[agent.step];
        let owner = self.owner(id);
        let source =
            source(agent, owner, &self.script, self.zero_ns, (&self.slots, &self.feeding.taken, self.counters.of(id)));
        let values = OperationValues { source, arguments: &step.arguments, cookies: None, redirection: None };
        let redirection = self.redirects.list.get_mut(id.index())?;
        let (request, scratch) = (self.script.request(agent), self.captures.scratch());
        let followed = P::follow(request, answer.session, answer.input, &values, redirection, scratch)?;
        Some(followed.map_or_else(AnswerClass::Unfollowed, AnswerClass::Followed))
    }
}

impl<P: SessionProtocol> Agents<P> {
    /// Follows the redirect in the answer to the agent's attempt, if the answer is one.
    #[cold]
    pub(super) fn follow(
        &mut self,
        id: AgentId,
        answer: &DecodedAnswer<'_, P>,
        stats: &mut ThreadStats,
    ) -> Option<AnswerClass> {
        let agent = &self.list[id];
        let class = self.values.follow(id, agent, answer)?;
        match class {
            AnswerClass::Followed(status) => {
                let step = &self.script.steps[agent.step];
                stats.attempt(step.name, AttemptCause::Followed(status));
                // The answered request may have had the operation's effect.
                self.list[id].is_unsure |= step.audit.is_some();
            }
            AnswerClass::Unfollowed(why) => {
                let shown = P::shown(answer.session, answer.input);
                self.values.note_failure(id, agent, AttemptCause::Unfollowed(why), Some(shown), stats);
                // Another attempt would get the same answer.
                let tries = self.script.groups[agent.group].tries;
                self.list[id].tries = tries;
            }
            _ => {}
        }
        Some(class)
    }

    /// Sends the request that follows a redirect. It has an attempt's timeout, but is no retry.
    pub(super) fn send_followed(&mut self, id: AgentId, at: EventTime) -> AgentEffect {
        let agent = &mut self.list[id];
        agent.tries = agent.tries.saturating_sub(1);
        self.attempt(id, at)
    }
}
