//! An open loop's operations that are due although their agent is busy: counted as open from the
//! moment they are due, and held in a queue where their number is bounded.

use experiment::plan::{Backlog, Overflow};
use record::events::Outcome;

use super::{Agent, AgentEffect, AgentTimer, AgentWork, Agents, EventTime, NEVER, OperationEnd};
use crate::engine::agent_group::AgentGroup;
use crate::engine::ids::AgentId;
use crate::engine::thread_stats::ThreadStats;
use crate::protocols::Protocol;
use crate::schedules::Due;

/// A timer that is less late than this delays one operation only, or operations too many to be
/// asked for.
const WORTH_COUNTING_NS: u64 = 1_000_000;

/// The group's queue in a thread that has these agents; none where what waits has no bound. Each thread that has
/// agents of the group has an equal part of the room, so that none has to ask another.
pub fn queue(group: &AgentGroup, threads: u32, thread: u32, agents: &[Agent]) -> Option<Queue> {
    let backlog = group.backlog.filter(|_| group.schedule.is_fixed())?;
    let parts = threads.min(group.agents).max(1);
    // The group's first agent is in the thread after that of the last agent before it.
    let place = (thread + threads - group.before % threads) % threads;
    let part = backlog.most / parts + u32::from(place < backlog.most % parts);
    let arrivals = agents.iter().map(|agent| {
        let is_own = (group.before + 1..=group.before + group.agents).contains(&agent.number);
        if is_own { group.schedule.first_ns(agent.place_in_group) } else { NEVER }
    });
    Some(Queue::new(part as usize, backlog, arrivals))
}

impl<P: Protocol> Agents<P> {
    /// The agent's operation begins: it is open from its intended start on, unless it was counted
    /// when it became due.
    pub(super) fn count_open(&mut self, id: AgentId, stats: &mut ThreadStats) {
        let agent = &mut self.list[id];
        if self.queues[agent.group.index()].is_some() || agent.intended_ns < agent.counted_ns {
            return;
        }
        stats.begin(agent.intended_ns);
        if self.script.groups[agent.group].schedule.is_fixed() {
            agent.counted_ns = agent.intended_ns.saturating_add(1);
        }
    }

    /// The agent was free at `due_ns` and nobody woke it before now: what else has become due for
    /// it meanwhile is late because of this thread, and not because of the target. So after a pause
    /// of the generator each operation counts that it delayed.
    pub(super) fn count_late(&self, id: AgentId, due_ns: u64, now: u64, stats: &mut ThreadStats) {
        let agent = &self.list[id];
        let schedule = &self.script.groups[agent.group].schedule;
        if now - due_ns < WORTH_COUNTING_NS || !schedule.is_fixed() || agent.has_operation() {
            return;
        }
        let until_ns = now.min(self.end_ns());
        schedule.due(agent.place_in_group, due_ns.saturating_add(1), until_ns, &mut |due| {
            for place in 0..due.count {
                stats.late(now.saturating_sub(due.at_ns(place)));
            }
        });
    }

    /// Counts what is due before `until_ns`, or before the load's end, and has not begun: as open,
    /// where nothing bounds it.
    pub fn count_due(&mut self, until_ns: u64, stats: &mut ThreadStats) {
        let until_ns = until_ns.min(self.end_ns());
        if !self.script.is_paced {
            return;
        }
        for agent in &mut self.list {
            let (counted_ns, place) = (agent.counted_ns, agent.place_in_group);
            let schedule = &self.script.groups[agent.group].schedule;
            if counted_ns >= until_ns || !schedule.is_fixed() {
                continue;
            }
            agent.counted_ns = until_ns;
            let is_waiting = agent.has_operation() || agent.intended_ns < until_ns;
            match self.queues[agent.group.index()] {
                // Each is counted as open when it finds room.
                Some(_) => schedule.due(place, counted_ns, until_ns, &mut |due| stats.fall_due(due.count)),
                None if is_waiting => schedule.due(place, counted_ns, until_ns, &mut |due| stats.due(&due)),
                // Nothing of it is due yet.
                None => {}
            }
        }
    }

    /// The agent's next operation is due, and what waits is bounded: it begins, waits, or finds no
    /// room.
    pub(super) fn arrived(&mut self, id: AgentId, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        let (now, end_ns) = (at.now_ns, self.end_ns());
        let agent = &self.list[id];
        let Some(queue) = &mut self.queues[agent.group.index()] else { return AgentEffect::Wait };
        let start_ns = queue.arrives_ns(id);
        if start_ns >= end_ns {
            return AgentEffect::Wait;
        }
        let next_ns = self.script.groups[agent.group].schedule.next_ns(agent.place_in_group, start_ns, now);
        queue.expect(id, next_ns);
        self.set_timer(AgentTimer::Arrival(id), next_ns);
        let is_unborn = self.list[id].work == AgentWork::Unborn;
        if is_unborn || self.list[id].work == AgentWork::Pause {
            stats.late(now - start_ns);
            self.count_late(id, start_ns, now, stats);
            self.list[id].woken_ns = now;
            stats.agents += u32::from(is_unborn);
            stats.open(start_ns);
            self.begin(id, start_ns, at, stats)
        } else {
            self.wait_or_drop(id, start_ns, stats);
            AgentEffect::Wait
        }
    }

    fn wait_or_drop(&mut self, id: AgentId, start_ns: u64, stats: &mut ThreadStats) {
        let Some(queue) = &mut self.queues[self.list[id].group.index()] else { return };
        if queue.push(id, start_ns) {
            stats.open(start_ns);
            return;
        }
        stats.drop_starts(1);
        queue.dropped += 1;
        if queue.bound.overflow == Overflow::Stop {
            self.control.flood();
        }
    }

    /// The agent is free, and what waits is bounded: it begins what has waited longest for it.
    pub(super) fn take_next(&mut self, id: AgentId, at: EventTime, stats: &mut ThreadStats) -> AgentEffect {
        let queue = &mut self.queues[self.list[id].group.index()];
        match queue.as_mut().and_then(|queue| queue.pop(id)) {
            Some(start_ns) => self.begin(id, start_ns, at, stats),
            None => {
                self.list[id].work = AgentWork::Pause;
                AgentEffect::Wait
            }
        }
    }

    /// What is open at the end is unfinished, and so is what was due and never began. That is
    /// counted under the step which its agent was to do next, and has no line in the history:
    /// nothing was ever sent.
    pub fn leave_unfinished(&mut self, now: u64, stats: &mut ThreadStats) {
        let until_ns = now.min(self.end_ns());
        self.count_due(until_ns, stats);
        let mut never_began = 0;
        for id in self.ids() {
            let is_open = self.list[id].has_operation();
            if is_open {
                let agent = &self.list[id];
                let applied = (!agent.is_unsure && agent.sent().is_none()).then_some(false);
                self.record_end(
                    id,
                    OperationEnd { outcome: Outcome::Unfinished, read: None, applied, parts: None },
                    now,
                    stats,
                );
            }
            never_began += match self.queues[self.list[id].group.index()] {
                Some(_) => self.leave_queue(id, until_ns, now, stats),
                None => self.leave_due(id, is_open, until_ns, now, stats),
            };
        }
        if never_began > 0 {
            stats.notices.push(format!(
                "{never_began} operations were due and never began: their agents still had others open. Either the target \
                 cannot keep up with this rate, or it is waited for by too few agents: a rate needs at least rate × service \
                 time of them"
            ));
        }
        self.notice_dropped(stats);
    }

    /// What is due for the agent and has not begun; how many that are.
    fn leave_due(&self, id: AgentId, is_open: bool, until_ns: u64, now: u64, stats: &mut ThreadStats) -> u64 {
        let agent = &self.list[id];
        let from_ns = agent.intended_ns.saturating_add(u64::from(is_open));
        let name = self.script.steps[agent.step].name;
        let mut count = 0;
        let schedule = &self.script.groups[agent.group].schedule;
        schedule.due(agent.place_in_group, from_ns, until_ns, &mut |due| {
            stats.leave(name, &due, now);
            count += due.count;
        });
        count
    }

    /// What waits for the agent, and what its timer did not come to; how many never begin. After a
    /// stop the rest of the schedule is dropped.
    fn leave_queue(&mut self, id: AgentId, until_ns: u64, now: u64, stats: &mut ThreadStats) -> u64 {
        let (group, place) = (self.list[id].group, self.list[id].place_in_group);
        let mut starts = Vec::new();
        if let Some(queue) = &self.queues[group.index()] {
            self.script.groups[group].schedule.due(place, queue.arrives_ns(id), until_ns, &mut |due| {
                starts.extend((0..due.count).map(|number| due.at_ns(number)));
            });
        }
        for start_ns in starts {
            self.wait_or_drop(id, start_ns, stats);
        }
        let name = self.script.steps[self.list[id].step].name;
        let mut count = 0;
        while let Some(start_ns) = self.queues[group.index()].as_mut().and_then(|queue| queue.pop(id)) {
            stats.leave(name, &Due::one(start_ns), now);
            count += 1;
        }
        if self.control.is_flooded() {
            let (from_ns, schedule) = (self.end_ns(), &self.script.groups[group].schedule);
            let mut dropped = 0;
            schedule.due(place, from_ns, schedule.end_ns(), &mut |due| dropped += due.count);
            stats.drop_starts(dropped);
            self.queues[group.index()].iter_mut().for_each(|queue| queue.dropped += dropped);
        }
        count
    }

    fn notice_dropped(&self, stats: &mut ThreadStats) {
        let at_s = self.end_ns() as f64 / 1e9;
        for Queue { bound: Backlog { most, overflow }, dropped, .. } in self.queues.iter().flatten() {
            if *dropped == 0 {
                continue;
            }
            stats.notices.push(match overflow {
                Overflow::Drop => format!(
                    "{dropped} operations were due and were dropped: {most} others waited already, as many as `backlog` lets \
                     wait. They are in no latency"
                ),
                Overflow::Stop => format!(
                    "the load was stopped at {at_s:.1} s: more than {most} operations were due and could not begin. \
                     {dropped} were due then or later, and were dropped; they are in no latency"
                ),
            });
        }
    }
}

// Without a bound nothing is held. With one, whether an operation finds room depends on how many
// others wait at that very moment, so each has to be looked at when it becomes due.

/// Where nothing follows.
const NONE: u32 = u32::MAX;

/// What waits, of one thread's agents.
#[derive(Debug)]
pub struct Queue {
    /// What may wait in all threads, and what happens to an operation that finds no room.
    bound: Backlog,
    /// Operations that found none.
    dropped: u64,
    /// Operations that may wait.
    most: usize,
    /// Operations that wait.
    waiting: usize,
    /// Room for the most that have ever waited at once.
    places: Vec<QueuePlace>,
    /// The first place that is free again.
    free: u32,
    lines: Vec<AgentQueue>,
}

#[derive(Debug, Clone, Copy)]
struct QueuePlace {
    start_ns: u64,
    next: u32,
}

/// What waits for an agent.
#[derive(Debug, Clone, Copy)]
struct AgentQueue {
    /// When the agent's next operation becomes due.
    arrives_ns: u64,
    first: u32,
    last: u32,
}

impl Queue {
    /// Room for so many operations; `arrivals` is when each agent's first becomes due.
    pub fn new(most: usize, bound: Backlog, arrivals: impl Iterator<Item = u64>) -> Self {
        let lines = arrivals.map(|arrives_ns| AgentQueue { arrives_ns, first: NONE, last: NONE }).collect();
        Self { bound, dropped: 0, most, waiting: 0, places: Vec::new(), free: NONE, lines }
    }

    /// When the agent's next operation becomes due.
    fn arrives_ns(&self, id: AgentId) -> u64 {
        self.lines[id.index()].arrives_ns
    }

    /// The agent's next operation becomes due then.
    pub fn expect(&mut self, id: AgentId, arrives_ns: u64) {
        self.lines[id.index()].arrives_ns = arrives_ns;
    }

    /// An operation waits for the agent from now on; false if there is no room.
    pub fn push(&mut self, id: AgentId, start_ns: u64) -> bool {
        if self.waiting >= self.most {
            return false;
        }
        let place = match self.places.get(self.free as usize) {
            Some(freed) => std::mem::replace(&mut self.free, freed.next),
            None => {
                // There are fewer than `most`, which a u32 holds.
                self.places.push(QueuePlace { start_ns, next: NONE });
                (self.places.len() - 1) as u32
            }
        };
        self.places[place as usize] = QueuePlace { start_ns, next: NONE };
        let line = &mut self.lines[id.index()];
        match std::mem::replace(&mut line.last, place) {
            NONE => line.first = place,
            before => self.places[before as usize].next = place,
        }
        self.waiting += 1;
        true
    }

    /// The operation that has waited longest for the agent.
    pub fn pop(&mut self, id: AgentId) -> Option<u64> {
        let line = &mut self.lines[id.index()];
        let place = line.first;
        let QueuePlace { start_ns, next } = *self.places.get(place as usize)?;
        line.first = next;
        if next == NONE {
            line.last = NONE;
        }
        self.places[place as usize].next = std::mem::replace(&mut self.free, place);
        self.waiting -= 1;
        Some(start_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_plain_queues(most in 0_usize..12, steps in prop::collection::vec((0_usize..5, 0_u32..3), 1..200)) {
            let bound = Backlog { most: most as u32, overflow: Overflow::Drop };
            let mut queue = Queue::new(most, bound, (0..5).map(|_| 0));
            let mut plain = vec![VecDeque::new(); 5];
            for (number, (agent, what)) in steps.into_iter().enumerate() {
                if what == 0 {
                    prop_assert_eq!(queue.pop(AgentId::at(agent)), plain[agent].pop_front());
                } else {
                    let has_room = plain.iter().map(VecDeque::len).sum::<usize>() < most;
                    prop_assert_eq!(queue.push(AgentId::at(agent), number as u64), has_room);
                    if has_room {
                        plain[agent].push_back(number as u64);
                    }
                }
                prop_assert!(queue.places.len() <= most, "it holds no more than it may");
            }
        }
    }
}
