//! Selection of the agent that takes the next start of an open loop.
//!
//! The schedule deals starts to *places*, one for each agent, before the load. A start goes to any
//! free agent of its place's group and service. A start therefore waits only while all agents of
//! that group and service are busy, and the load of a service does not depend on the service's
//! speed.
//!
//! In a group whose schedule starts sessions, a start is the first operation of a cycle, and an
//! agent is free between two cycles. The rest of this text is about schedules of operations.
//!
//! If agents took the starts of their own places, all agents would be at the same step of the cycle
//! at once. So each start has a preferred step. Preferred steps follow the proportions of the
//! steps, spread by the golden section (a sequence of low discrepancy: H. Weyl, "Über die
//! Gleichverteilung von Zahlen mod. Eins", 1916). A free agent at the preferred step takes the
//! start. If no agent is free there, the free agent that is farthest in its cycle takes the start.
//! So a new cycle begins only if its first step is preferred or no free agent is within a cycle.
//! Agents at the same step take turns.

use std::sync::Arc;

use wire::session::SessionProtocol;

use super::backlog::{self, Queue};
use super::{Agent, AgentEffect, AgentTimer, AgentWork, Agents, EventTime};
use crate::engine::agent_group::{AgentGroup, GroupId, LoopKind};
use crate::engine::control::LoadControl;
use crate::engine::ids::{AgentId, indexed_by};
use crate::engine::script::{ALWAYS, CompiledStep, Script};
use crate::engine::thread_stats::ThreadStats;

/// Golden section of the range of 64-bit numbers.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Share of a step that each cycle performs once.
const WHOLE: f64 = 4_294_967_296.0;

/// Starts of a thread's open loops, and the agents that are free to take them.
pub struct Turns {
    places: Vec<StartPlace>,
    rosters: Vec<Roster>,
    /// Next agent in the queue, indexed by free agent.
    behind: Vec<AgentId>,
}

/// A place of the schedule. Its id is the id of the agent that joins with the place's first start.
#[derive(Debug, Clone, Copy)]
pub struct StartPlace {
    /// First start without an operation.
    pub next_ns: u64,
    /// Time before which all starts have been counted as due.
    pub counted_ns: u64,
    /// Time before which a late timer, and thus the thread, delayed the starts.
    pub woken_ns: u64,
    roster: u32,
    /// Next place in the queue of places that wait for an agent.
    behind: AgentId,
}

indexed_by!(AgentId, Vec<StartPlace>, StartPlace);
indexed_by!(AgentId, Vec<AgentId>, AgentId);

/// Agents of a thread that perform the same steps at the same service.
struct Roster {
    /// Free agents, by the position of their next step in the cycle.
    free: Vec<Line>,
    /// Running sums of the steps' shares.
    shares: Vec<u64>,
    /// Number of starts that agents have taken.
    taken: u64,
    /// Places whose next start waits for an agent.
    waiting: Line,
    /// Whether an agent has found no cycle left.
    is_spent: bool,
}

/// A first-in, first-out queue of agents or places.
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

    /// Adds an agent or place. Returns the previous last element, or [`AgentId::NONE`].
    #[inline]
    fn join(&mut self, id: AgentId) -> AgentId {
        if self.is_empty() {
            self.first = id;
        }
        std::mem::replace(&mut self.last, id)
    }

    /// Removes the first element of the queue. `behind` is the second element.
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
        let mut sum = 0;
        let mut add = |share: f64| {
            sum += (share.max(f64::MIN_POSITIVE) as u64).max(1);
            sum
        };
        let shares: Vec<u64> = shares(group, steps).into_iter().map(&mut add).collect();
        let lines = shares.len().max(1);
        Self { free: vec![Line::EMPTY; lines], shares, taken: 0, waiting: Line::EMPTY, is_spent: false }
    }

    /// Returns the index of the queue whose first agent takes the next start, if any agent is free.
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

/// Returns the shares of the positions in a sequence: how often starts go to each.
fn shares(group: &AgentGroup, steps: &[CompiledStep]) -> Vec<f64> {
    let mut shares = Vec::new();
    // An agent that waits for a session is at no step.
    if group.kind == LoopKind::OpenSessions {
        return shares;
    }
    let all = group.weights.last().copied().unwrap_or(1).max(1) as f64;
    let mut before = 0;
    for (first, sum) in group.firsts.iter().zip(&group.weights) {
        let weight = (*sum - before) as f64 / all;
        before = *sum;
        for (position, step) in steps[steps[*first].sequence.clone()].iter().enumerate() {
            if position == shares.len() {
                shares.push(0.0);
            }
            let chance = step.chance as f64 / ALWAYS as f64;
            shares[position] += WHOLE * weight * chance * f64::from(step.repeat) / step.every.max(1) as f64;
        }
    }
    shares
}

impl Turns {
    /// Returns the turns of a thread's agents.
    pub fn new<P: SessionProtocol>(script: &Script<P>, agents: &[Agent]) -> Self {
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

    /// Returns the place with id `id`.
    #[inline]
    pub fn place(&self, id: AgentId) -> &StartPlace {
        &self.places[id]
    }

    /// Returns the place with id `id`, for changes.
    #[inline]
    pub fn place_mut(&mut self, id: AgentId) -> &mut StartPlace {
        &mut self.places[id]
    }

    /// Returns the index of the agent's roster.
    #[inline]
    pub fn roster_of(&self, id: AgentId) -> usize {
        self.places[id].roster as usize
    }

    fn has_free(&self, roster: usize) -> bool {
        self.rosters[roster].free.iter().any(|line| !line.is_empty())
    }

    /// Whether an agent of the same roster has found no cycle left. The remaining starts then
    /// belong to no operation.
    pub fn is_spent(&self, id: AgentId) -> bool {
        self.rosters[self.roster_of(id)].is_spent
    }

    /// Records that the agent has found no cycle left.
    pub fn spend(&mut self, id: AgentId) {
        let roster = self.roster_of(id);
        self.rosters[roster].is_spent = true;
    }

    /// Adds the agent to the free agents. Its next step has position `step` in the cycle.
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

    /// Takes a free agent for the roster's next start.
    fn take_free(&mut self, roster: usize) -> Option<AgentId> {
        let roster = &mut self.rosters[roster];
        let line = roster.next_line()?;
        let first = roster.free[line].first;
        roster.free[line].leave(self.behind[first]);
        Some(first)
    }

    /// Makes the place's next start wait for an agent.
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

    /// Returns a place to the front of the queue.
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

/// Starts of a thread's open loops, and the starts that wait for an agent.
pub struct OpenStarts<P: SessionProtocol> {
    pub(super) script: Arc<Script<P>>,
    pub(super) control: Arc<LoadControl>,
    /// Starts, and the agents that are free to take them.
    pub turns: Turns,
    /// Queue of starts that wait for an agent, indexed by group. `None` without a backlog limit.
    pub(super) queues: Vec<Option<Queue>>,
    /// Time from which on no operation starts.
    pub end_ns: u64,
}

impl<P: SessionProtocol> OpenStarts<P> {
    /// Creates the starts of thread `thread` with these agents.
    pub fn new(script: &Arc<Script<P>>, control: &Arc<LoadControl>, thread: u32, agents: &[Agent]) -> Self {
        let groups = script.groups.iter();
        Self {
            turns: Turns::new(script, agents),
            queues: groups.map(|group| backlog::queue(group, &script.places, thread)).collect(),
            end_ns: script.end_ns,
            script: Arc::clone(script),
            control: Arc::clone(control),
        }
    }

    /// Whether the group has a backlog limit.
    fn is_bounded(&self, group: GroupId) -> bool {
        self.queues[group.index()].is_some()
    }

    /// Takes the start that has waited longest for the agent's roster, with its place, or
    /// [`AgentId::NONE`] if the start comes from a queue. A place whose next start is not before
    /// the load's end leaves the line: places wait in the order in which they were queued, so a
    /// place behind it may still have a start before the end.
    fn take_waiting(&mut self, id: AgentId, group: GroupId) -> Option<(u64, AgentId)> {
        let (roster, service) = (self.turns.roster_of(id), self.service_line(id));
        if let Some(queue) = &mut self.queues[group.index()] {
            return queue.pop(service).map(|start_ns| (start_ns, AgentId::NONE));
        }
        while let Some(place) = self.turns.take_waiting(roster) {
            let start_ns = self.turns.places[place].next_ns;
            if start_ns < self.end_ns {
                return Some((start_ns, place));
            }
        }
        None
    }

    /// Returns a start to the front of the service's queue, if the group has a backlog limit.
    pub fn put_back(&mut self, id: AgentId, group: GroupId, start_ns: u64) {
        let service = self.service_line(id);
        if let Some(queue) = &mut self.queues[group.index()] {
            queue.put_back(service, start_ns);
        }
    }

    /// Makes the place's start wait for an agent.
    pub fn wait_for_agent(&mut self, place: AgentId, group: GroupId, start_ns: u64, stats: &mut ThreadStats) {
        match self.queues[group.index()] {
            Some(_) => self.wait_or_drop(place, group, start_ns, stats),
            None => self.turns.wait(place),
        }
    }

    fn has_waiting(&self, place: AgentId, group: GroupId) -> bool {
        match &self.queues[group.index()] {
            Some(queue) => queue.has_waiting(self.service_line(place)),
            None => !self.turns.rosters[self.turns.roster_of(place)].waiting.is_empty(),
        }
    }

    /// Returns the index of the agent's service within the queue of the agent's group.
    pub fn service_line(&self, id: AgentId) -> usize {
        self.turns.roster_of(id) % self.script.places.services.max(1) as usize
    }

    /// Advances the place to its next start. Returns the start.
    fn next_start(&mut self, place: AgentId, agent: &Agent, now_ns: u64) -> u64 {
        let schedule = &self.script.groups[agent.group].schedule;
        let next = &mut self.turns.places[place].next_ns;
        *next = schedule.next_ns(agent.place_in_group, *next, now_ns);
        *next
    }
}

impl<P: SessionProtocol> Agents<P> {
    /// Handles a start that is due at the place: an agent begins an operation, or the start waits
    /// for an agent.
    pub(super) fn arrived(&mut self, place: AgentId, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        let start_ns = self.starts.turns.places[place].next_ns;
        if start_ns >= self.starts.end_ns {
            return AgentEffect::Wait;
        }
        let roster = self.starts.turns.roster_of(place);
        let group = self.list[place].group;
        let is_bounded = self.starts.is_bounded(group);
        if is_bounded {
            self.expect_next(place, at.now_ns);
        }
        if self.list[place].work == AgentWork::Unborn {
            stats.agents += 1;
            if self.starts.has_waiting(place, group) {
                self.starts.wait_for_agent(place, group, start_ns, stats);
                return self.take_next(place, at, stats);
            }
            self.rest(place);
        }
        let mut is_counted = false;
        while let Some(id) = self.starts.turns.take_free(roster) {
            if !std::mem::replace(&mut is_counted, true) {
                self.starts.count_late(place, &self.list[place], start_ns, at.now_ns, stats);
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
        self.starts.wait_for_agent(place, group, start_ns, stats);
        AgentEffect::Wait
    }

    /// Gives a free agent the start that has waited longest, or lets the agent wait for the next
    /// start.
    pub(super) fn take_next(&mut self, id: AgentId, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        let group = self.list[id].group;
        let Some((start_ns, place)) = self.starts.take_waiting(id, group) else {
            self.rest(id);
            return AgentEffect::Wait;
        };
        let woken_ns = if place == AgentId::NONE { 0 } else { self.starts.turns.places[place].woken_ns };
        let agent = &mut self.list[id];
        agent.woken_ns = agent.woken_ns.max(woken_ns);
        agent.start = place;
        let effect = self.begin(id, start_ns, at, stats);
        if self.list[id].work == AgentWork::Done {
            match place {
                AgentId::NONE => self.starts.put_back(id, group, start_ns),
                place => self.starts.turns.put_back(place),
            }
        }
        effect
    }

    /// Counts the agent's operation as open from its intended start, unless the operation was
    /// counted when it became due.
    pub(super) fn count_open(&mut self, id: AgentId, now_ns: u64, stats: &mut ThreadStats) {
        let agent = &mut self.list[id];
        let intended_ns = agent.intended_ns;
        if !agent.is_scheduled {
            stats.begin(intended_ns);
            return;
        }
        let place = std::mem::replace(&mut agent.start, AgentId::NONE);
        if place == AgentId::NONE {
            return;
        }
        if intended_ns >= self.starts.turns.place(place).counted_ns {
            stats.begin(intended_ns);
        }
        self.start_taken(place, now_ns);
    }

    /// Lets the agent wait for a start.
    fn rest(&mut self, id: AgentId) {
        let agent = &mut self.list[id];
        agent.work = AgentWork::Pause;
        let sequence = &self.script.steps[agent.step].sequence;
        let step = if agent.begins_cycle() { 0 } else { agent.step.index() - sequence.start };
        self.starts.turns.rest(id, step);
    }

    /// Handles a start that an operation has taken: queues the place's next start or sets a timer
    /// for it.
    pub(super) fn start_taken(&mut self, place: AgentId, now_ns: u64) {
        let next_ns = self.starts.next_start(place, &self.list[place], now_ns);
        if next_ns <= now_ns && !self.starts.turns.has_free(self.starts.turns.roster_of(place)) {
            self.starts.turns.wait(place);
        } else {
            self.timers.set(AgentTimer::Arrival(place), next_ns);
        }
    }

    fn expect_next(&mut self, place: AgentId, now_ns: u64) {
        let next_ns = self.starts.next_start(place, &self.list[place], now_ns);
        self.timers.set(AgentTimer::Arrival(place), next_ns);
    }
}
