//! Operations of an agent that are sent at once. An agent of a group with such operations has
//! *lanes*: further places in the table of agents, each with an operation and a connection. The
//! agent sleeps while its lanes perform a block of its cycle, and goes on when all have ended. The
//! first lane uses the agent's own connections, which are free meanwhile. Lanes use the values,
//! feed records and cookies of their agent, and are no agents in any figure.

use record::events::Outcome;
use wire::session::SessionProtocol;
use wire::values::mix;

use super::{Agent, AgentEffect, AgentTimer, AgentWork, Agents, EventTime};
use crate::engine::ids::{AgentId, StepId};
use crate::engine::script::Script;
use crate::engine::thread_stats::ThreadStats;

/// Lanes of a thread's agents.
#[derive(Debug, Default)]
pub struct Lanes {
    /// Number of agents. Lanes follow them.
    agents: usize,
    /// Agent of each lane.
    owners: Vec<AgentId>,
    /// First lane of each agent, and the end of the last agent's lanes. Empty without lanes.
    first: Vec<u32>,
    /// Block of each agent. Empty without lanes.
    blocks: Vec<OpenBlock>,
}

/// Block of operations that an agent performs.
#[derive(Debug, Clone, Copy, Default)]
struct OpenBlock {
    /// Index of the next step, and number of its next repetition.
    next: (usize, u16),
    /// Number of lanes at work.
    open: u16,
    /// Worst result so far.
    worst: BlockResult,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum BlockResult {
    #[default]
    Ok,
    Wrong,
    /// An operation failed, or the load ended before all operations began.
    Failed,
}

impl BlockResult {
    fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ok => Self::Ok,
            Outcome::Wrong => Self::Wrong,
            _ => Self::Failed,
        }
    }

    fn outcome(self) -> Outcome {
        match self {
            Self::Ok => Outcome::Ok,
            Self::Wrong => Outcome::Wrong,
            Self::Failed => Outcome::Failed,
        }
    }
}

impl Lanes {
    /// Appends the lanes of a thread's agents to the list of agents.
    pub fn add<P: SessionProtocol>(script: &Script<P>, list: &mut Vec<Agent>) -> Self {
        let agents = list.len();
        if !script.has_lanes {
            return Self { agents, ..Self::default() };
        }
        let (mut owners, mut first) = (Vec::new(), vec![agents as u32]);
        for index in 0..agents {
            let (group, number, place) = (list[index].group, list[index].number, list[index].place);
            let connection = list[index].connection;
            let of_group = &script.groups[group];
            for lane in 0..of_group.lanes {
                let seed = mix(of_group.seed ^ u64::from(lane + 1));
                let alone = Agent::new(number - of_group.before, seed, place, connection);
                list.push(Agent { number, group, work: AgentWork::Done, ..alone });
                owners.push(AgentId::at(index));
            }
            first.push(list.len() as u32);
        }
        Self { agents, owners, first, blocks: vec![OpenBlock::default(); agents] }
    }

    /// Returns the number of agents, without lanes.
    #[inline]
    pub fn agents(&self) -> usize {
        self.agents
    }

    /// Returns the agent whose values the agent or lane uses.
    #[inline]
    pub fn owner(&self, id: AgentId) -> AgentId {
        match id.index().checked_sub(self.agents) {
            None => id,
            Some(lane) => self.owners[lane],
        }
    }

    /// Returns the agent of each lane.
    pub fn owners(&self) -> &[AgentId] {
        &self.owners
    }

    /// Whether this is a lane.
    #[inline]
    pub fn has(&self, id: AgentId) -> bool {
        id.index() >= self.agents
    }

    /// Returns the lanes of an agent.
    pub fn of(&self, agent: AgentId) -> impl Iterator<Item = AgentId> + use<> {
        let bound = |place: usize| self.first.get(place).map_or(0, |first| *first as usize);
        (bound(agent.index())..bound(agent.index() + 1)).map(AgentId::at)
    }
}

impl<P: SessionProtocol> Agents<P> {
    /// Whether the agent's step belongs to a block that its lanes perform.
    pub(super) fn begins_block(&self, id: AgentId) -> bool {
        self.script.steps[self.list[id].step].at_once > 0 && !self.lanes.has(id)
    }

    /// Begins the block of the agent's step. Its lanes start at once.
    pub(super) fn begin_block(&mut self, id: AgentId, at: EventTime) -> AgentEffect {
        let agent = &mut self.list[id];
        agent.work = AgentWork::Block;
        let first = agent.step.index();
        let at_once = usize::from(self.script.steps[first].at_once);
        self.lanes.blocks[id.index()] = OpenBlock { next: (first, 1), ..OpenBlock::default() };
        for lane in self.lanes.of(id).take(at_once) {
            let Some(operation) = self.next_in_block(id) else { break };
            self.lanes.blocks[id.index()].open += 1;
            self.set_lane(id, lane, operation, at.now_ns);
            self.timers.set(AgentTimer::Wake(lane), at.now_ns);
        }
        AgentEffect::Wait
    }

    /// Takes the block's next operation: a step that the cycle performs, and the repetition.
    fn next_in_block(&mut self, owner: AgentId) -> Option<(StepId, u16)> {
        let agent = &self.list[owner];
        let block = &mut self.lanes.blocks[owner.index()];
        let end = self.script.steps[agent.step].block_end;
        while block.next.0 < end && !self.script.performs(agent, block.next.0) {
            block.next = (block.next.0 + 1, 1);
        }
        let (place, repeat) = block.next;
        let step = self.script.steps.get(place).filter(|_| place < end)?;
        block.next = if repeat < step.repeat { (place, repeat + 1) } else { (place + 1, 1) };
        Some((StepId::at(place)?, repeat))
    }

    /// Gives the lane an operation that begins at `now_ns`.
    fn set_lane(&mut self, owner: AgentId, lane: AgentId, (step, repeat): (StepId, u16), now_ns: u64) {
        let &Agent { kept, cycle, place_in_group, .. } = &self.list[owner];
        let lane = &mut self.list[lane];
        (lane.step, lane.repeat, lane.kept, lane.cycle) = (step, repeat, kept, cycle);
        (lane.place_in_group, lane.intended_ns, lane.work) = (place_in_group, now_ns, AgentWork::Pause);
    }

    /// Continues after the operation of a lane: with the block's next operation, or with the agent
    /// if this was the last.
    pub(super) fn lane_ended(
        &mut self,
        lane: AgentId,
        outcome: Outcome,
        at: EventTime,
        stats: &mut ThreadStats,
    ) -> AgentEffect {
        let owner = self.lanes.owner(lane);
        let keeps = self.script.steps[self.list[lane].step].keeps.iter().fold(0, |slots, keep| slots | 1 << keep.slot);
        self.list[owner].kept = self.list[owner].kept & !keeps | self.list[lane].kept & keeps;
        let block = &mut self.lanes.blocks[owner.index()];
        block.worst = block.worst.max(BlockResult::of(outcome));
        let Some(operation) = self.next_in_block(owner) else { return self.lane_done(lane, at, stats) };
        let next_ns = at.now_ns.max(at.connect_after_ns);
        self.set_lane(owner, lane, operation, next_ns);
        if next_ns <= at.now_ns {
            return self.begin(lane, next_ns, at, stats);
        }
        self.timers.set(AgentTimer::Wake(lane), next_ns);
        AgentEffect::Wait
    }

    /// Ends the lane's part of the block because the load ends.
    pub(super) fn cut_lane(&mut self, lane: AgentId, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        let owner = self.lanes.owner(lane);
        self.lanes.blocks[owner.index()].worst = BlockResult::Failed;
        self.lane_done(lane, at, stats)
    }

    /// Lets the lane sleep. The last lane of the block wakes its agent.
    fn lane_done(&mut self, lane: AgentId, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        self.list[lane].work = AgentWork::Done;
        let owner = self.lanes.owner(lane);
        let block = &mut self.lanes.blocks[owner.index()];
        block.open -= 1;
        if block.open > 0 {
            return AgentEffect::Wait;
        }
        let outcome = block.worst.outcome();
        // The agent goes on as after the last operation of the block.
        let last = self.script.steps[self.list[owner].step].block_end.saturating_sub(1);
        let agent = &mut self.list[owner];
        agent.step = StepId::at(last).unwrap_or(agent.step);
        agent.repeat = self.script.steps[agent.step].repeat;
        self.go_on(owner, outcome, at, stats)
    }
}
