//! Feed records that agents take at the beginning of a cycle. A feed in memory gives the next row
//! or a random row. A streamed feed gives the next record that was read ahead. If no such record is
//! ready, the agent waits and is counted as waiting.

use wire::feed_stream::{NextBlock, RecordBlock};
use wire::session::SessionProtocol;
use wire::values::feeds::TakenRecord;

use super::values::AgentValues;
use super::{Agent, AgentEffect, AgentTimer, AgentWork, Agents, EventTime};
use crate::Error;
use crate::engine::agent_group::LoopKind;
use crate::engine::ids::AgentId;
use crate::engine::script::Script;
use crate::engine::thread_stats::ThreadStats;

/// Minimum time after which a waiting agent looks for a record again, nanoseconds.
const LOOK_NS: u64 = 1_000_000;
/// Additional time for each waiting agent, nanoseconds, so that many waiting agents do not keep the
/// thread busy.
const LOOK_EACH_NS: u64 = 10_000;

/// Feed records and rows that the agents of a thread have taken.
pub struct Feeding {
    /// Records of all agents, agent by agent.
    pub taken: Vec<TakenRecord>,
    /// Next row of each feed in memory.
    next_rows: Vec<u32>,
    /// Records that this thread has taken from queues and its agents have not taken yet, indexed by
    /// feed.
    blocks: Vec<RecordBlock>,
    /// Error of a stream, which ends the load early.
    pub failure: Option<Error>,
}

/// State of an agent that needs feed records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedTurn {
    /// The agent has all the records that it needs.
    Has,
    /// A record is not read yet.
    Waits,
    /// No record is left.
    Ends,
}

impl Feeding {
    /// Creates the state for `agents` agents of thread `thread`.
    pub fn new<P: SessionProtocol>(script: &Script<P>, thread: u32, agents: usize) -> Self {
        let feeds = script.feeds.len();
        Self {
            taken: vec![TakenRecord::default(); agents * feeds],
            next_rows: vec![thread; feeds],
            blocks: (0..feeds).map(|_| RecordBlock::default()).collect(),
            failure: None,
        }
    }
}

impl<P: SessionProtocol> AgentValues<P> {
    /// Takes a row of each feed in memory at the beginning of a cycle. Records of streams are taken
    /// later.
    pub(super) fn take_rows(&mut self, id: AgentId, agent: &mut Agent) {
        let feeds = self.script.feeds.len();
        let takes = &self.script.groups[agent.group].takes;
        let feeds_in_memory = self.script.feeds.iter().enumerate().filter(|(_, feed)| feed.stream().is_none());
        for (number, feed) in feeds_in_memory.filter(|(number, _)| takes[*number]) {
            let row = if feed.is_random() {
                agent.random.u32(..feed.rows())
            } else {
                // Each thread takes every n-th row, so threads need not ask each other.
                let row = self.feeding.next_rows[number];
                self.feeding.next_rows[number] = row.wrapping_add(self.script.threads);
                row % feed.rows()
            };
            self.feeding.taken[id.index() * feeds + number].row = row;
        }
    }

    /// Takes the stream records that the agent still needs.
    pub(super) fn take_records(&mut self, id: AgentId, agent: &mut Agent) -> FeedTurn {
        let feeds = self.script.feeds.len();
        while agent.needs != 0 {
            let number = agent.needs.trailing_zeros() as usize;
            let Some(stream) = self.script.feeds[number].stream() else { return FeedTurn::Has };
            let (block, taken) =
                (&mut self.feeding.blocks[number], &mut self.feeding.taken[id.index() * feeds + number]);
            if block.take(taken) {
                agent.needs &= !(1 << number);
                continue;
            }
            match stream.next_block(block) {
                NextBlock::Ready => {}
                NextBlock::Later => return FeedTurn::Waits,
                NextBlock::Ended => return FeedTurn::Ends,
                NextBlock::Broken(reason) => {
                    let feed = stream.name().to_owned();
                    self.feeding.failure.get_or_insert(wire::error::Error::Feed { feed, reason }.into());
                    return FeedTurn::Waits;
                }
            }
        }
        FeedTurn::Has
    }
}

impl<P: SessionProtocol> Agents<P> {
    /// Makes the agent's operation, whose intended start is `intended_ns`, wait for a record.
    pub(super) fn wait_for_record(
        &mut self,
        id: AgentId,
        intended_ns: u64,
        at: EventTime,
        stats: &mut ThreadStats,
    ) -> AgentEffect {
        let agent = &mut self.list[id];
        agent.work = AgentWork::FeedPause;
        agent.intended_ns = intended_ns;
        stats.wait_for_feed(at.now_ns);
        self.look_later(id, at, stats)
    }

    fn look_later(&mut self, id: AgentId, at: EventTime, stats: &ThreadStats) -> AgentEffect {
        let after_ns = LOOK_NS.max(stats.waiting_for_feed() * LOOK_EACH_NS);
        self.timers.set(AgentTimer::Wake(id), at.now_ns.saturating_add(after_ns));
        AgentEffect::Wait
    }

    /// Looks again for the record that an agent waits for. Without fixed starts, the operation
    /// starts when the record arrives.
    pub(super) fn look_for_record(&mut self, id: AgentId, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        let is_scheduled = self.list[id].is_scheduled;
        let kind = self.script.groups[self.list[id].group].kind;
        if kind == LoopKind::OpenSessions && !is_scheduled && at.now_ns >= self.starts.end_ns {
            stats.stop_waiting_for_feed(at.now_ns);
            return self.cut_session(id, at, stats);
        }
        let turn = if !is_scheduled && at.now_ns >= self.starts.end_ns {
            FeedTurn::Ends
        } else {
            self.values.take_records(id, &mut self.list[id])
        };
        if turn == FeedTurn::Waits {
            return self.look_later(id, at, stats);
        }
        stats.stop_waiting_for_feed(at.now_ns);
        let intended_ns = if is_scheduled { self.list[id].intended_ns } else { at.now_ns };
        match turn {
            FeedTurn::Ends => {
                // The start counts as open since it became due, so it returns to the queue.
                if is_scheduled {
                    self.starts.put_back(id, self.list[id].group, intended_ns);
                }
                self.feed_ended(id)
            }
            _ => self.begin_operation(id, intended_ns, at, stats),
        }
    }

    /// Ends an agent for which no record is left. With fixed starts, the load ends too, since
    /// starts would have no agents. The operation counts as due and never begun.
    pub(super) fn feed_ended(&mut self, id: AgentId) -> AgentEffect {
        let effect = self.retire(id);
        if self.script.groups[self.list[id].group].kind.is_fixed() {
            self.control.stop();
        }
        effect
    }

    /// Ends the agent.
    pub(super) fn retire(&mut self, id: AgentId) -> AgentEffect {
        self.list[id].work = AgentWork::Done;
        self.list[id].intended_ns = super::NEVER;
        self.running -= 1;
        AgentEffect::Wait
    }
}
