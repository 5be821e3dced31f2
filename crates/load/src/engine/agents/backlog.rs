//! Backlog of an open loop: operations that are due while all agents are busy. An operation counts
//! as open from the time at which it is due. With a backlog limit, waiting operations are held in a
//! queue.

use experiment::plan::{Backlog, Overflow};
use wire::session::SessionProtocol;

use super::Agent;
use super::turns::OpenStarts;
use crate::engine::agent_group::{AgentGroup, GroupId, LoopKind};
use crate::engine::ids::AgentId;
use crate::engine::places::Places;
use crate::engine::script::Script;
use crate::engine::thread_stats::ThreadStats;
use crate::schedules::Due;

/// Minimum lateness of a start for which the place's other late starts are counted too,
/// nanoseconds. A shorter delay affects a single operation, or a rate too high to enumerate the
/// starts.
const WORTH_COUNTING_NS: u64 = 1_000_000;

/// Returns the group's queue in a thread, or `None` without a backlog limit. Each thread with
/// agents of the group gets an equal share of the limit, so threads need not ask each other.
pub fn queue(group: &AgentGroup, places: &Places, thread: u32) -> Option<Queue> {
    let threads = places.threads;
    let backlog = group.backlog.filter(|_| group.kind.is_fixed())?;
    let parts = threads.min(group.agents).max(1);
    // The group's first agent is in the thread after the thread of the previous group's last agent.
    let place = (thread + threads - group.before % threads) % threads;
    let part = backlog.most / parts + u32::from(place < backlog.most % parts);
    Some(Queue::new(part as usize, backlog, places.services.max(1) as usize))
}

impl<P: SessionProtocol> OpenStarts<P> {
    /// Counts late starts at a place. The start at `start_ns` was due and an agent was free, but no
    /// timer fired before `now`. Every other start of the place that became due before `now` is
    /// late because of this thread, not because of the target. After a pause of the generator, each
    /// delayed operation is counted.
    pub fn count_late(&mut self, place: AgentId, agent: &Agent, start_ns: u64, now: u64, stats: &mut ThreadStats) {
        let counted_ns = std::mem::replace(&mut self.turns.place_mut(place).woken_ns, now);
        if start_ns >= counted_ns {
            stats.late(now - start_ns);
        }
        if now - start_ns < WORTH_COUNTING_NS {
            return;
        }
        let from_ns = counted_ns.max(start_ns.saturating_add(1));
        let schedule = &self.script.groups[agent.group].schedule;
        schedule.due(agent.place_in_group, from_ns, now.min(self.end_ns), &mut |due| {
            for place in 0..due.count {
                stats.late(now.saturating_sub(due.at_ns(place)));
            }
        });
    }

    /// Counts operations that are due before `until_ns` and before the load's end, and have not
    /// begun. Without a backlog limit, these operations also count as open.
    pub fn count_due(&mut self, agents: &[Agent], until_ns: u64, stats: &mut ThreadStats) {
        let until_ns = until_ns.min(self.end_ns);
        if !self.script.is_paced {
            return;
        }
        for (index, agent) in agents.iter().enumerate() {
            let id = AgentId::at(index);
            let AgentGroup { schedule, kind, .. } = &self.script.groups[agent.group];
            let is_spent = self.turns.is_spent(id);
            let place = self.turns.place_mut(id);
            if place.counted_ns >= until_ns || !kind.is_fixed() || is_spent {
                continue;
            }
            let counted_ns = std::mem::replace(&mut place.counted_ns, until_ns);
            match self.queues[agent.group.index()] {
                // Each start is counted as open when it enters the queue.
                Some(_) => {
                    schedule.due(agent.place_in_group, counted_ns, until_ns, &mut |due| stats.fall_due(due.count));
                }
                None => {
                    let from_ns = counted_ns.max(place.next_ns);
                    schedule.due(agent.place_in_group, from_ns, until_ns, &mut |due| stats.due(&due));
                }
            }
        }
    }

    /// Queues the start for an agent of the place's service, or drops it if the queue is full.
    pub fn wait_or_drop(&mut self, place: AgentId, group: GroupId, start_ns: u64, stats: &mut ThreadStats) {
        let service = self.service_line(place);
        let Some(queue) = &mut self.queues[group.index()] else { return };
        if queue.push(service, start_ns) {
            stats.open(start_ns);
            return;
        }
        if self.turns.is_spent(place) {
            return;
        }
        stats.drop_starts(1);
        queue.dropped += 1;
        if queue.bound.overflow == Overflow::Stop {
            self.control.flood();
        }
    }

    /// Records the starts of the place that are due and have not begun, when the load ends. Returns
    /// the number of operations that never began.
    pub fn leave(&mut self, id: AgentId, agent: &Agent, now: u64, stats: &mut ThreadStats) -> u64 {
        let until_ns = now.min(self.end_ns);
        match self.queues[agent.group.index()] {
            Some(_) => self.leave_queue(id, agent, until_ns, now, stats),
            None => self.leave_due(id, agent, until_ns, now, stats),
        }
    }

    /// Returns the index of the name under which a start that never began counts: the agent's next
    /// step, or the first step of a session.
    fn name_of_start(&self, agent: &Agent) -> usize {
        let group = &self.script.groups[agent.group];
        let place = match group.kind {
            LoopKind::OpenSessions => group.firsts[0],
            _ => agent.step.index(),
        };
        self.script.steps.get(place).map_or(0, |step| step.name)
    }

    /// Records the starts at the place that are due and have not begun. Returns the number of
    /// operations that never began.
    fn leave_due(&self, id: AgentId, agent: &Agent, until_ns: u64, now: u64, stats: &mut ThreadStats) -> u64 {
        let AgentGroup { schedule, kind, .. } = &self.script.groups[agent.group];
        let from_ns = self.turns.place(id).next_ns;
        let name = self.name_of_start(agent);
        let mut count = 0;
        if !kind.is_fixed() {
            return 0;
        }
        if self.turns.is_spent(id) {
            // Starts up to `counted_ns` were counted as open before the last cycle was taken.
            let until_ns = until_ns.min(self.turns.place(id).counted_ns);
            schedule.due(agent.place_in_group, from_ns, until_ns, &mut |due| stats.withdraw(&due, now));
            return 0;
        }
        schedule.due(agent.place_in_group, from_ns, until_ns, &mut |due| {
            stats.leave(name, &due, now);
            count += due.count;
        });
        count
    }

    /// Records the starts in the queue of the place's service, and the starts that the place's
    /// timer did not reach. Returns the number of operations that never began. If an overflow has
    /// stopped the load, drops the rest of the schedule.
    fn leave_queue(&mut self, id: AgentId, agent: &Agent, until_ns: u64, now: u64, stats: &mut ThreadStats) -> u64 {
        let (group, place) = (agent.group, agent.place_in_group);
        let (is_spent, service) = (self.turns.is_spent(id), self.service_line(id));
        let schedule = |script: &Script<P>, from_ns, until_ns, take: &mut dyn FnMut(Due)| {
            script.groups[group].schedule.due(place, from_ns, until_ns, take);
        };
        let mut starts = Vec::new();
        if !is_spent {
            schedule(&self.script, self.turns.place(id).next_ns, until_ns, &mut |due| {
                starts.extend((0..due.count).map(|number| due.at_ns(number)));
            });
        }
        for start_ns in starts {
            self.wait_or_drop(id, group, start_ns, stats);
        }
        let name = self.name_of_start(agent);
        let mut count = 0;
        while let Some(start_ns) = self.queues[group.index()].as_mut().and_then(|queue| queue.pop(service)) {
            match is_spent {
                true => stats.withdraw(&Due::one(start_ns), now),
                false => {
                    stats.leave(name, &Due::one(start_ns), now);
                    count += 1;
                }
            }
        }
        if self.control.is_flooded() {
            let mut dropped = 0;
            let end_ns = self.script.groups[group].schedule.end_ns();
            schedule(&self.script, self.end_ns, end_ns, &mut |due| dropped += due.count);
            stats.drop_starts(dropped);
            self.queues[group.index()].iter_mut().for_each(|queue| queue.dropped += dropped);
        }
        count
    }

    pub fn notice_dropped(&self, stats: &mut ThreadStats) {
        let at_s = self.end_ns as f64 / 1e9;
        let queues = self.queues.iter().zip(&self.script.groups).filter_map(|(queue, group)| {
            let things = if group.kind == LoopKind::OpenSessions { "sessions" } else { "operations" };
            Some((queue.as_ref()?, things))
        });
        for (Queue { bound: Backlog { most, overflow }, dropped, .. }, things) in queues {
            if *dropped == 0 {
                continue;
            }
            stats.notices.push(match overflow {
                Overflow::Drop => format!(
                    "{dropped} {things} were due but were dropped: {most} others already waited, the limit set by \
                     `backlog`. Dropped {things} are not in any latency"
                ),
                Overflow::Stop => format!(
                    "the load was stopped at {at_s:.1} s: more than {most} {things} were due and could not begin. \
                     {dropped} {things} due then or later were dropped; they are not in any latency"
                ),
            });
        }
    }
}

// Without a limit, starts are computed and not stored. With a limit, whether an operation may wait
// depends on the current length of the queue, so each start is handled when it becomes due.

/// End of a linked list.
const NONE: u32 = u32::MAX;

/// Starts of one thread that wait for an agent.
#[derive(Debug)]
pub struct Queue {
    /// Limit over all threads, and the action when the limit is exceeded.
    bound: Backlog,
    /// Number of operations dropped because the queue was full.
    dropped: u64,
    /// Maximum number of waiting operations in this thread.
    most: usize,
    /// Number of operations that wait.
    waiting: usize,
    /// Storage of waiting operations. It grows to the largest number of operations that waited at
    /// once.
    places: Vec<QueuePlace>,
    /// First unused place, the head of a linked list.
    free: u32,
    /// One queue for each service.
    lines: Vec<ServiceQueue>,
}

#[derive(Debug, Clone, Copy)]
struct QueuePlace {
    start_ns: u64,
    next: u32,
}

/// Operations that wait for an agent of one service.
#[derive(Debug, Clone, Copy)]
struct ServiceQueue {
    first: u32,
    last: u32,
}

impl Queue {
    /// Creates a queue of at most `most` operations in this thread.
    pub fn new(most: usize, bound: Backlog, services: usize) -> Self {
        let lines = vec![ServiceQueue { first: NONE, last: NONE }; services];
        Self { bound, dropped: 0, most, waiting: 0, places: Vec::new(), free: NONE, lines }
    }

    /// Whether an operation waits for the service.
    pub fn has_waiting(&self, service: usize) -> bool {
        self.lines[service].first != NONE
    }

    /// Returns an operation to the front of its service's queue.
    pub fn put_back(&mut self, service: usize, start_ns: u64) {
        let place = self.place_for(start_ns);
        let line = &mut self.lines[service];
        self.places[place as usize].next = std::mem::replace(&mut line.first, place);
        if line.last == NONE {
            line.last = place;
        }
        self.waiting += 1;
    }

    fn place_for(&mut self, start_ns: u64) -> u32 {
        let place = match self.places.get(self.free as usize) {
            Some(freed) => std::mem::replace(&mut self.free, freed.next),
            None => {
                // `places` holds at most `most` entries, which fits into a u32.
                self.places.push(QueuePlace { start_ns, next: NONE });
                (self.places.len() - 1) as u32
            }
        };
        self.places[place as usize] = QueuePlace { start_ns, next: NONE };
        place
    }

    /// Adds an operation to the service's queue. Returns false if the limit is reached.
    pub fn push(&mut self, service: usize, start_ns: u64) -> bool {
        if self.waiting >= self.most {
            return false;
        }
        let place = self.place_for(start_ns);
        let line = &mut self.lines[service];
        match std::mem::replace(&mut line.last, place) {
            NONE => line.first = place,
            before => self.places[before as usize].next = place,
        }
        self.waiting += 1;
        true
    }

    /// Takes the operation that has waited longest for the service.
    pub fn pop(&mut self, service: usize) -> Option<u64> {
        let line = &mut self.lines[service];
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
            let mut queue = Queue::new(most, bound, 5);
            let mut plain = vec![VecDeque::new(); 5];
            for (number, (service, what)) in steps.into_iter().enumerate() {
                if what == 0 {
                    let first = queue.pop(service);
                    prop_assert_eq!(first, plain[service].pop_front());
                    if let Some(start_ns) = first.filter(|start_ns| start_ns % 3 == 0) {
                        queue.put_back(service, start_ns);
                        plain[service].push_front(start_ns);
                    }
                } else {
                    let has_room = plain.iter().map(VecDeque::len).sum::<usize>() < most;
                    prop_assert_eq!(queue.push(service, number as u64), has_room);
                    if has_room {
                        plain[service].push_back(number as u64);
                    }
                }
                prop_assert!(plain.iter().enumerate().all(|(service, line)| queue.has_waiting(service) != line.is_empty()));
                prop_assert!(queue.places.len() <= most, "it holds no more than it may");
            }
        }
    }
}
