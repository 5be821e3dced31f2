//! Selection of the agent that takes the next start of an open loop.
//!
//! The schedule deals starts to *places*, one for each agent, before the load. A start goes to any free agent of its place's group
//! and service, so it waits only while all of them are busy, and the load of a service does not depend on its speed.
//!
//! Agents that took their places' starts themselves would all be at the same step of the cycle at once. So each start has a step
//! that is wished for: step numbers in their proportions, spread by the golden section (a sequence of low discrepancy: H. Weyl,
//! "Über die Gleichverteilung von Zahlen mod. Eins", 1916). A free agent at that step takes the start. If there is none, the agent
//! that is farthest in its cycle takes it, and only if none is under way, a cycle begins. Agents at the same step take turns.

use experiment::plan::StepOrder;

use super::{Agent, AgentEffect, AgentTimer, AgentWork, Agents, EventTime};
use crate::engine::agent_group::AgentGroup;
use crate::engine::ids::{AgentId, indexed_by};
use crate::engine::script::{CompiledStep, Script};
use crate::engine::thread_stats::ThreadStats;
use crate::protocols::Protocol;

/// The golden section of all 64-bit numbers.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The starts of a thread's open loops, and the agents that are free to take them.
pub struct Turns {
    places: Vec<StartPlace>,
    rosters: Vec<Roster>,
    /// The agent behind each free agent in its line.
    behind: Vec<AgentId>,
}

/// A place of the schedule. It has the number of the agent that joins with its first start.
#[derive(Debug, Clone, Copy)]
pub struct StartPlace {
    /// The first start without an operation.
    pub next_ns: u64,
    /// All starts before this moment have been counted as due.
    pub counted_ns: u64,
    /// A timer was late for the starts before this moment: the thread delayed them.
    pub woken_ns: u64,
    roster: u32,
    /// The place behind it in the line of those that wait for an agent.
    behind: AgentId,
}

indexed_by!(AgentId, Vec<StartPlace>, StartPlace);
indexed_by!(AgentId, Vec<AgentId>, AgentId);

/// The agents of a thread that go through the same steps at the same service.
struct Roster {
    /// Free agents, by the place of their next step in the cycle.
    free: Vec<Line>,
    /// Sums of the shares of the steps.
    shares: Vec<u64>,
    /// Starts that agents have taken.
    taken: u64,
    /// Places whose next start waits for an agent.
    waiting: Line,
    /// Whether an agent has found no cycle left.
    is_spent: bool,
}

/// First come, first served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    first: AgentId,
    last: AgentId,
}

impl Line {
    const EMPTY: Self = Self { first: AgentId::NONE, last: AgentId::NONE };

    fn is_empty(self) -> bool {
        self.first == AgentId::NONE
    }

    /// The last of the line before it was joined, or [`AgentId::NONE`].
    #[inline]
    fn join(&mut self, id: AgentId) -> AgentId {
        if self.is_empty() {
            self.first = id;
        }
        std::mem::replace(&mut self.last, id)
    }

    /// Takes out the first of the line; `behind` is the next one.
    #[inline]
    fn leave(&mut self, behind: AgentId) {
        self.first = behind;
        if behind == AgentId::NONE {
            self.last = AgentId::NONE;
        }
    }
}

impl Roster {
    fn new(group: &AgentGroup, steps: &[CompiledStep]) -> Self {
        // In a mix an agent's next step is drawn when it begins.
        let own = match group.order {
            StepOrder::Cycle => &steps[group.steps.clone()],
            StepOrder::Mix => &[],
        };
        let mut sum = 0;
        let mut add = |step: &CompiledStep| {
            sum += ((1 << 32) / step.every.max(1)).max(1);
            sum
        };
        let shares: Vec<u64> = own.iter().map(&mut add).collect();
        let lines = shares.len().max(1);
        Self { free: vec![Line::EMPTY; lines], shares, taken: 0, waiting: Line::EMPTY, is_spent: false }
    }

    /// The line that the next start is taken from, if any agent is free.
    #[inline]
    fn next_line(&mut self) -> Option<usize> {
        let total = u128::from(self.shares.last().copied().unwrap_or(1));
        let drawn = (u128::from(self.taken.wrapping_mul(GOLDEN)) * total) >> 64;
        let wished = self.shares.partition_point(|sum| u128::from(*sum) <= drawn);
        let line = match self.free[wished].is_empty() {
            false => wished,
            true => self.free.iter().rposition(|line| !line.is_empty())?,
        };
        self.taken += 1;
        Some(line)
    }
}

impl Turns {
    /// Returns the turns of a thread's agents.
    pub fn new<P: Protocol>(script: &Script<P>, agents: &[Agent]) -> Self {
        let services = script.places.services.max(1);
        let place = |agent: &Agent| StartPlace {
            next_ns: script.groups[agent.group].schedule.first_ns(agent.place_in_group),
            counted_ns: 0,
            woken_ns: 0,
            roster: agent.group.index() as u32 * services + agent.place.service,
            behind: AgentId::NONE,
        };
        let roster = |number: usize| Roster::new(&script.groups[number / services as usize], &script.steps);
        Self {
            places: agents.iter().map(place).collect(),
            rosters: (0..script.groups.len() * services as usize).map(roster).collect(),
            behind: vec![AgentId::NONE; agents.len()],
        }
    }

    /// The place of that number.
    #[inline]
    pub fn place(&self, id: AgentId) -> &StartPlace {
        &self.places[id]
    }

    /// The same, to be changed.
    #[inline]
    pub fn place_mut(&mut self, id: AgentId) -> &mut StartPlace {
        &mut self.places[id]
    }

    /// The number of the roster that the agent is on.
    #[inline]
    pub fn roster_of(&self, id: AgentId) -> usize {
        self.places[id].roster as usize
    }

    fn has_free(&self, roster: usize) -> bool {
        self.rosters[roster].free.iter().any(|line| !line.is_empty())
    }

    /// Whether an agent of the same roster has found no cycle left: the starts that are left belong to no operation.
    pub fn is_spent(&self, id: AgentId) -> bool {
        self.rosters[self.roster_of(id)].is_spent
    }

    /// The agent has found no cycle left.
    pub fn spend(&mut self, id: AgentId) {
        let roster = self.roster_of(id);
        self.rosters[roster].is_spent = true;
    }

    /// The agent is free for a start; its next step is at that place of the cycle.
    fn rest(&mut self, id: AgentId, step: usize) {
        let roster = self.roster_of(id);
        self.behind[id] = AgentId::NONE;
        let lines = &mut self.rosters[roster].free;
        let line = step.min(lines.len() - 1);
        match lines[line].join(id) {
            AgentId::NONE => {}
            before => self.behind[before] = id,
        }
    }

    /// Takes the agent that takes the roster's next start, if one is free.
    fn take_free(&mut self, roster: usize) -> Option<AgentId> {
        let roster = &mut self.rosters[roster];
        let line = roster.next_line()?;
        let first = roster.free[line].first;
        roster.free[line].leave(self.behind[first]);
        Some(first)
    }

    /// The place's next start waits for an agent.
    fn wait(&mut self, place: AgentId) {
        let roster = self.roster_of(place);
        self.places[place].behind = AgentId::NONE;
        match self.rosters[roster].waiting.join(place) {
            AgentId::NONE => {}
            before => self.places[before].behind = place,
        }
    }

    /// Takes the place whose start has waited longest for an agent of the roster.
    fn take_waiting(&mut self, roster: usize) -> Option<AgentId> {
        let line = &mut self.rosters[roster].waiting;
        let first = Some(line.first).filter(|_| !line.is_empty())?;
        line.leave(self.places[first].behind);
        Some(first)
    }

    /// The start of a place that was taken from the line goes back to its front.
    fn put_back(&mut self, place: AgentId) {
        let roster = self.roster_of(place);
        let line = &mut self.rosters[roster].waiting;
        self.places[place].behind = line.first;
        line.first = place;
        if line.last == AgentId::NONE {
            line.last = place;
        }
    }
}

impl<P: Protocol> Agents<P> {
    /// A start of the place is due: an agent begins with it, or it waits for one.
    pub(super) fn arrived(&mut self, place: AgentId, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        let start_ns = self.turns.places[place].next_ns;
        if start_ns >= self.end_ns() {
            return AgentEffect::Wait;
        }
        let roster = self.turns.roster_of(place);
        let is_bounded = self.queues[self.list[place].group.index()].is_some();
        if is_bounded {
            self.expect_next(place, at.now_ns);
        }
        if self.list[place].work == AgentWork::Unborn {
            stats.agents += 1;
            if self.has_waiting(place) {
                self.wait_for_agent(place, start_ns, stats);
                return self.take_next(place, at, stats);
            }
            self.rest(place);
        }
        let mut is_counted = false;
        while let Some(id) = self.turns.take_free(roster) {
            if !std::mem::replace(&mut is_counted, true) {
                self.count_late(place, start_ns, at.now_ns, stats);
            }
            self.list[id].woken_ns = at.now_ns;
            self.list[id].start = if is_bounded { AgentId::NONE } else { place };
            let effect = self.begin(id, start_ns, at, stats);
            if self.list[id].work != AgentWork::Done {
                if is_bounded {
                    stats.open(start_ns);
                }
                return effect;
            }
        }
        self.wait_for_agent(place, start_ns, stats);
        AgentEffect::Wait
    }

    /// The agent is free: it takes the start that has waited longest, or waits for the next one.
    pub(super) fn take_next(&mut self, id: AgentId, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        let roster = self.turns.roster_of(id);
        let service = self.service_line(id);
        let waiting = match &mut self.queues[self.list[id].group.index()] {
            Some(queue) => queue.pop(service).map(|start_ns| (start_ns, AgentId::NONE)),
            None => self.turns.take_waiting(roster).map(|place| (self.turns.places[place].next_ns, place)),
        };
        let Some((start_ns, place)) = waiting else {
            self.rest(id);
            return AgentEffect::Wait;
        };
        let woken_ns = if place == AgentId::NONE { 0 } else { self.turns.places[place].woken_ns };
        let agent = &mut self.list[id];
        agent.woken_ns = agent.woken_ns.max(woken_ns);
        agent.start = place;
        let effect = self.begin(id, start_ns, at, stats);
        if self.list[id].work == AgentWork::Done {
            match &mut self.queues[self.list[id].group.index()] {
                Some(queue) => queue.put_back(service, start_ns),
                None => self.turns.put_back(place),
            }
        }
        effect
    }

    /// The agent waits for a start.
    fn rest(&mut self, id: AgentId) {
        let agent = &mut self.list[id];
        agent.work = AgentWork::Pause;
        let first = self.script.groups[agent.group].steps.start;
        let step = if agent.begins_cycle { 0 } else { agent.step.index() - first };
        self.turns.rest(id, step);
    }

    fn wait_for_agent(&mut self, place: AgentId, start_ns: u64, stats: &mut ThreadStats) {
        match self.queues[self.list[place].group.index()] {
            Some(_) => self.wait_or_drop(place, start_ns, stats),
            None => self.turns.wait(place),
        }
    }

    fn has_waiting(&self, place: AgentId) -> bool {
        match &self.queues[self.list[place].group.index()] {
            Some(queue) => queue.has_waiting(self.service_line(place)),
            None => !self.turns.rosters[self.turns.roster_of(place)].waiting.is_empty(),
        }
    }

    /// The line of the agent's service in the queue of its group.
    pub(super) fn service_line(&self, id: AgentId) -> usize {
        self.turns.roster_of(id) % self.script.places.services.max(1) as usize
    }

    /// An operation begins with the start of the place: the next one is expected.
    pub(super) fn start_taken(&mut self, place: AgentId, now_ns: u64) {
        let next_ns = self.next_start(place, now_ns);
        if next_ns <= now_ns && !self.turns.has_free(self.turns.roster_of(place)) {
            self.turns.wait(place);
        } else {
            self.set_timer(AgentTimer::Arrival(place), next_ns);
        }
    }

    fn expect_next(&mut self, place: AgentId, now_ns: u64) {
        let next_ns = self.next_start(place, now_ns);
        self.set_timer(AgentTimer::Arrival(place), next_ns);
    }

    fn next_start(&mut self, place: AgentId, now_ns: u64) -> u64 {
        let agent = &self.list[place];
        let schedule = &self.script.groups[agent.group].schedule;
        let next = &mut self.turns.places[place].next_ns;
        *next = schedule.next_ns(agent.place_in_group, *next, now_ns);
        *next
    }
}
