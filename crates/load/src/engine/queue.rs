//! A bounded backlog: operations that are due and wait for their agent, held one by one, first come first served for each agent. It must
//! not decide when one begins, nor read a clock.
//!
//! Without a bound nothing is held (see `backlog`). With one, whether an operation finds room depends on how many others wait at that very
//! moment, so each has to be looked at when it becomes due.

use experiment::plan::Overflow;

/// Where nothing follows.
const NONE: u32 = u32::MAX;

/// What waits, of one thread's agents.
#[derive(Debug)]
pub struct Queue {
    /// What happens to an operation that finds no room.
    pub overflow: Overflow,
    /// Operations that may wait.
    most: usize,
    /// Operations that wait.
    waiting: usize,
    /// Room for the most that have ever waited at once.
    places: Vec<Place>,
    /// The first place that is free again.
    free: u32,
    lines: Vec<Line>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    start_ns: u64,
    next: u32,
}

/// What waits for an agent.
#[derive(Debug, Clone, Copy)]
struct Line {
    /// When the agent's next operation becomes due.
    arrives_ns: u64,
    first: u32,
    last: u32,
}

impl Queue {
    /// Room for so many operations; `arrivals` is when each agent's first becomes due.
    pub fn new(most: usize, overflow: Overflow, arrivals: impl Iterator<Item = u64>) -> Self {
        let lines = arrivals.map(|arrives_ns| Line { arrives_ns, first: NONE, last: NONE }).collect();
        Self { overflow, most, waiting: 0, places: Vec::new(), free: NONE, lines }
    }

    /// When the agent's next operation becomes due.
    pub fn arrives_ns(&self, index: usize) -> u64 {
        self.lines[index].arrives_ns
    }

    /// The agent's next operation becomes due then.
    pub fn expect(&mut self, index: usize, arrives_ns: u64) {
        self.lines[index].arrives_ns = arrives_ns;
    }

    /// An operation waits for the agent from now on; false if there is no room.
    pub fn push(&mut self, index: usize, start_ns: u64) -> bool {
        if self.waiting >= self.most {
            return false;
        }
        let place = match self.places.get(self.free as usize) {
            Some(freed) => std::mem::replace(&mut self.free, freed.next),
            None => {
                // There are fewer than `most`, which a u32 holds.
                self.places.push(Place { start_ns, next: NONE });
                (self.places.len() - 1) as u32
            }
        };
        self.places[place as usize] = Place { start_ns, next: NONE };
        let line = &mut self.lines[index];
        match std::mem::replace(&mut line.last, place) {
            NONE => line.first = place,
            before => self.places[before as usize].next = place,
        }
        self.waiting += 1;
        true
    }

    /// The operation that has waited longest for the agent.
    pub fn pop(&mut self, index: usize) -> Option<u64> {
        let line = &mut self.lines[index];
        let place = line.first;
        let Place { start_ns, next } = *self.places.get(place as usize)?;
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
            let mut queue = Queue::new(most, Overflow::Drop, (0..5).map(|_| 0));
            let mut plain = vec![VecDeque::new(); 5];
            for (number, (agent, what)) in steps.into_iter().enumerate() {
                if what == 0 {
                    prop_assert_eq!(queue.pop(agent), plain[agent].pop_front());
                } else {
                    let has_room = plain.iter().map(VecDeque::len).sum::<usize>() < most;
                    prop_assert_eq!(queue.push(agent, number as u64), has_room);
                    if has_room {
                        plain[agent].push_back(number as u64);
                    }
                }
                prop_assert!(queue.places.len() <= most, "it holds no more than it may");
            }
        }
    }
}
