//! What agents take of feeds at the beginning of a cycle: the next row or a random one of those in memory, the next record of
//! those that are read ahead. For a record that has not been read yet an agent waits, and is counted as waiting.

use super::{AgentEffect, AgentTimer, AgentWork, Agents, EventTime};
use crate::Error;
use crate::engine::ids::AgentId;
use crate::engine::script::Script;
use crate::engine::thread_stats::ThreadStats;
use crate::feed_stream::{NextBlock, RecordBlock};
use crate::protocols::Protocol;
use crate::values::feeds::TakenRecord;

/// An agent that waits looks again so long after …
const LOOK_NS: u64 = 1_000_000;
/// … and for each one that waits so much longer, so that they do nothing else the less.
const LOOK_EACH_NS: u64 = 10_000;

/// What the agents of a thread have taken of the feeds.
pub struct Feeding {
    /// Of all agents, one agent's after the other's.
    pub taken: Vec<TakenRecord>,
    /// The next row of each feed in memory.
    next_rows: Vec<u32>,
    /// What this thread has taken of each stream and its agents have not.
    blocks: Vec<RecordBlock>,
}

/// What becomes of an agent that needs a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedTurn {
    /// It has all that it needs.
    Has,
    /// What it needs has not been read yet.
    Waits,
    /// There is none left.
    Ends,
}

impl Feeding {
    /// Of so many agents of thread `thread`.
    pub fn new<P: Protocol>(script: &Script<P>, thread: u32, agents: usize) -> Self {
        let feeds = script.feeds.len();
        Self {
            taken: vec![TakenRecord::default(); agents * feeds],
            next_rows: vec![thread; feeds],
            blocks: (0..feeds).map(|_| RecordBlock::default()).collect(),
        }
    }
}

impl<P: Protocol> Agents<P> {
    /// A cycle begins: the agent takes a row of each feed in memory, and needs records of streams.
    pub(super) fn take_rows(&mut self, id: AgentId) {
        let feeds = self.script.feeds.len();
        let takes = &self.script.groups[self.list[id].group].takes;
        let feeds_in_memory = self.script.feeds.iter().enumerate().filter(|(_, feed)| feed.stream().is_none());
        for (number, feed) in feeds_in_memory.filter(|(number, _)| takes[*number]) {
            let row = if feed.is_random() {
                self.list[id].random.u32(..feed.rows())
            } else {
                // Dealt out: each thread takes every n-th row, so that none has to ask another.
                let row = self.feeding.next_rows[number];
                self.feeding.next_rows[number] = row.wrapping_add(self.script.threads);
                row % feed.rows()
            };
            self.feeding.taken[id.index() * feeds + number].row = row;
        }
    }

    /// The agent takes those records that it needs and has not yet.
    pub(super) fn take_records(&mut self, id: AgentId) -> FeedTurn {
        let feeds = self.script.feeds.len();
        while self.list[id].needs != 0 {
            let number = self.list[id].needs.trailing_zeros() as usize;
            let Some(stream) = self.script.feeds[number].stream() else { return FeedTurn::Has };
            let (block, taken) =
                (&mut self.feeding.blocks[number], &mut self.feeding.taken[id.index() * feeds + number]);
            if block.take(taken) {
                self.list[id].needs &= !(1 << number);
                continue;
            }
            match stream.next_block(block) {
                NextBlock::Ready => {}
                NextBlock::Later => return FeedTurn::Waits,
                NextBlock::Ended => return FeedTurn::Ends,
                NextBlock::Broken(reason) => {
                    let feed = stream.name().to_owned();
                    self.failure.get_or_insert(Error::Feed { feed, reason });
                    return FeedTurn::Waits;
                }
            }
        }
        FeedTurn::Has
    }

    /// The agent's operation was to start at `intended_ns`, and waits for a record.
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
        self.set_timer(AgentTimer::Wake(id), at.now_ns.saturating_add(after_ns));
        AgentEffect::Wait
    }

    /// The agent that waits for a record looks again. Without a schedule its operation starts when the record is there.
    pub(super) fn look_for_record(&mut self, id: AgentId, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        let is_fixed = self.script.groups[self.list[id].group].schedule.is_fixed();
        let turn = if !is_fixed && at.now_ns >= self.end_ns { FeedTurn::Ends } else { self.take_records(id) };
        if turn == FeedTurn::Waits {
            return self.look_later(id, at, stats);
        }
        stats.stop_waiting_for_feed(at.now_ns);
        let intended_ns = if is_fixed { self.list[id].intended_ns } else { at.now_ns };
        match turn {
            FeedTurn::Ends => {
                // The start has counted as open since it became due. It goes back into the queue.
                let service = self.service_line(id);
                if let Some(queue) = &mut self.queues[self.list[id].group.index()] {
                    queue.put_back(service, intended_ns);
                }
                self.feed_ended(id)
            }
            _ => self.begin_operation(id, intended_ns, at, stats),
        }
    }

    /// There is no record for the agent's operation. Where starts are fixed nobody is left to make them, so the load ends, and
    /// the operation is one that was due and never began.
    pub(super) fn feed_ended(&mut self, id: AgentId) -> AgentEffect {
        let effect = self.retire(id);
        if self.script.groups[self.list[id].group].schedule.is_fixed() {
            self.control.stop();
        }
        effect
    }

    /// The agent will do nothing more.
    pub(super) fn retire(&mut self, id: AgentId) -> AgentEffect {
        self.list[id].work = AgentWork::Done;
        self.list[id].intended_ns = super::NEVER;
        self.running -= 1;
        AgentEffect::Wait
    }
}
