//! Times of answers while they arrive: first byte, first message, and gaps between messages. Kept
//! beside the agents, because few loads ask for them.

use record::events::Outcome;
use record::hlog::Time;
use wire::session::SessionProtocol;

use super::{Agent, NEVER};
use crate::engine::ids::AgentId;
use crate::engine::script::Script;
use crate::engine::thread_stats::ThreadStats;

/// Times of the answer to an agent's last request; [`NEVER`] until the event.
#[derive(Debug, Clone, Copy)]
struct AnswerTimes {
    first_byte_ns: u64,
    first_message_ns: u64,
    last_message_ns: u64,
}

impl AnswerTimes {
    const NONE: Self = Self { first_byte_ns: NEVER, first_message_ns: NEVER, last_message_ns: NEVER };
}

/// Times of the answers to the agents of a thread, by agent. Empty if no step asks for them.
#[derive(Debug, Default)]
pub struct ArrivingAnswers(Vec<AnswerTimes>);

impl ArrivingAnswers {
    /// Creates the times of `agents` agents if a step of the script asks for them.
    pub fn new<P: SessionProtocol>(script: &Script<P>, agents: usize) -> Self {
        Self(vec![AnswerTimes::NONE; if script.times_answers() { agents } else { 0 }])
    }

    /// Forgets the times, before the agent's next request is sent.
    #[inline]
    pub fn reset(&mut self, id: AgentId) {
        if let Some(times) = self.0.get_mut(id.index()) {
            *times = AnswerTimes::NONE;
        }
    }

    /// Whether any step asks for times.
    #[inline]
    pub fn are_timed(&self) -> bool {
        !self.0.is_empty()
    }

    /// Notes bytes of the answer to the agent's request, in which `messages` messages end.
    pub fn arrived(&mut self, id: AgentId, operation: usize, messages: u32, now_ns: u64, stats: &mut ThreadStats) {
        let Some(times) = self.0.get_mut(id.index()) else { return };
        times.first_byte_ns = times.first_byte_ns.min(now_ns);
        if messages > 0 {
            let is_first = times.first_message_ns == NEVER;
            times.first_message_ns = times.first_message_ns.min(now_ns);
            let gap_ns = (!is_first).then(|| now_ns.saturating_sub(times.last_message_ns));
            times.last_message_ns = now_ns;
            stats.messages(operation, messages, gap_ns);
        }
    }

    /// Records the times of the agent's operation, which ends.
    pub fn record(&self, id: AgentId, agent: &Agent, operation: usize, outcome: Outcome, stats: &mut ThreadStats) {
        let (Some(times), Some(sent_ns)) = (self.0.get(id.index()), agent.sent()) else { return };
        let from_sent_and_intended = [
            (times.first_byte_ns, Time::FirstByte, Time::FirstByteLatency),
            (times.first_message_ns, Time::FirstMessage, Time::FirstMessageLatency),
        ];
        for (at_ns, from_sent, from_intended) in from_sent_and_intended {
            if at_ns != NEVER {
                stats.answer_time(operation, outcome, from_sent, at_ns.saturating_sub(sent_ns));
                stats.answer_time(operation, outcome, from_intended, at_ns.saturating_sub(agent.intended_ns));
            }
        }
    }
}
