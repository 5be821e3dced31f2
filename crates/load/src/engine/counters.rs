//! Counters that all agents share: `{counter:NAME}` in templates. Each operation that names a
//! counter takes the next number, so a number is taken once over all agents, threads and
//! generators. Threads take numbers in turn, as they take rows of feeds, so they need not ask each
//! other.

use experiment::plan::{Load, Step};
use experiment::template::{self, TemplatePart};

use super::ids::AgentId;
use crate::Error;

/// Maximum number of counters of a load: the bits of `CompiledStep::counters`.
const COUNTERS: usize = 64;

/// Returns the names of all counters that steps of the load name.
///
/// # Errors
/// If there are too many.
pub fn names(load: &Load) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for step in load.all_steps() {
        visit_counters(step, &mut |name| names.push(name.to_owned()));
    }
    names.sort_unstable();
    names.dedup();
    if names.len() > COUNTERS {
        let count = names.len();
        return Err(Error::Setting(format!("a load may have at most {COUNTERS} counters, but this load has {count}")));
    }
    Ok(names)
}

/// Returns the counters that the step names, one bit per counter.
pub fn of_step(step: &Step, names: &[String]) -> u64 {
    let mut counters = 0;
    // Most loads have no counter.
    if !names.is_empty() {
        visit_counters(step, &mut |name| {
            let place = names.iter().position(|known| known == name);
            counters |= place.map_or(0, |place| 1_u64 << place);
        });
    }
    counters
}

/// Passes the name of each counter in the templates of the step to `take`.
fn visit_counters(step: &Step, take: &mut dyn FnMut(&str)) {
    let Ok(step) = serde_json::to_value(step) else { return };
    template::visit_parts(&step, &mut |part| {
        if let TemplatePart::Counter { name, .. } = part {
            take(name);
        }
    });
}

/// Numbers that a thread takes from counters.
pub struct SharedCounters {
    /// Next number of each counter.
    next: Vec<u64>,
    /// Number of threads, over all processes.
    threads: u64,
    /// Last numbers that the agents have taken, agent by agent.
    taken: Vec<u64>,
}

impl SharedCounters {
    /// Creates the counters of thread `thread` for `agents` agents.
    pub fn new(counters: usize, (thread, threads): (u32, u32), agents: usize) -> Self {
        Self {
            next: vec![u64::from(thread) + 1; counters],
            threads: u64::from(threads.max(1)),
            taken: vec![0; agents * counters],
        }
    }

    /// Takes the next number of each of these counters for an operation of the agent.
    #[cold]
    pub fn take(&mut self, id: AgentId, mut counters: u64) {
        let first = id.index() * self.next.len();
        while counters != 0 {
            let counter = counters.trailing_zeros() as usize;
            self.taken[first + counter] = self.next[counter];
            self.next[counter] += self.threads;
            counters &= counters - 1;
        }
    }

    /// Returns the numbers that the agent has taken last.
    #[inline]
    pub fn of(&self, id: AgentId) -> &[u64] {
        &self.taken[id.index() * self.next.len()..][..self.next.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_each_number_once() {
        let mut threads = [0, 1, 2].map(|thread| SharedCounters::new(2, (thread, 3), 4));
        let mut numbers = Vec::new();
        for (round, thread) in (0..10).flat_map(|round| (0..3).map(move |thread| (round, thread))) {
            let counters = &mut threads[thread];
            let id = AgentId::at(round % 4);
            counters.take(id, 0b10);
            numbers.push(counters.of(id)[1]);
            assert_eq!(counters.of(id)[0], 0, "the other counter stays");
        }
        assert_eq!(numbers, (1..=30).collect::<Vec<_>>());
    }
}
