//! Places of agents: their connections, services and threads.

use std::ops::Range;

use experiment::plan::Load;

/// Assignment of agents, connections, services and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    pub agents: u32,
    /// Number of connections, at most the number of agents.
    pub connections: u32,
    pub services: u32,
    /// Number of threads, at most the number of connections.
    pub threads: u32,
}

impl Places {
    /// Computes the assignment of a load. By default there is one thread for every two cores.
    pub fn of(load: &Load, services: usize) -> Self {
        let services = u32::try_from(services).unwrap_or(u32::MAX);
        let connections = load.connections.of(load.agents, services);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let half = u32::try_from(cores / 2).unwrap_or(1).max(1);
        let threads = load.threads.unwrap_or(half).clamp(1, connections.max(1));
        Self { agents: load.agents, connections, services, threads }
    }

    /// Whether agents share connections.
    #[inline]
    pub fn is_pipelined(&self) -> bool {
        self.connections < self.agents
    }

    /// Returns the connection of agent `number` (from 1), over all threads. Connections differ by
    /// at most one in their number of agents. With as many connections as agents, each agent has
    /// its own.
    fn connection_of(&self, number: u32) -> u32 {
        number.wrapping_sub(1) % self.connections.max(1)
    }

    /// Returns the service of agent `number` (from 1).
    pub fn service_of(&self, number: u32) -> u32 {
        self.connection_of(number) % self.services.max(1)
    }

    /// Returns the numbers of a thread's agents, ascending.
    pub fn agents_of(self, thread: u32) -> impl Iterator<Item = u32> {
        (1..=self.agents).filter(move |number| self.connection_of(*number) % self.threads.max(1) == thread)
    }

    /// Returns the number of connections of these threads together.
    pub fn connections_in(&self, threads: Range<u32>) -> u32 {
        threads.map(|thread| self.connections.saturating_sub(thread).div_ceil(self.threads.max(1))).sum()
    }

    /// Returns the service of each connection of a thread. The thread's agents take the connections
    /// in turn: its first agent has the first connection, the next agent the next, and so on
    /// cyclically.
    pub fn connections_of(self, thread: u32) -> impl Iterator<Item = u32> {
        (thread..self.connections)
            .step_by(self.threads.max(1) as usize)
            .map(move |number| number % self.services.max(1))
    }
}

#[cfg(test)]
mod tests {
    use experiment::plan::Connections;

    use super::*;

    /// Returns every combination of a few numbers that a load can have.
    fn all() -> Vec<Places> {
        let mut all = Vec::new();
        for agents in [1, 2, 3, 7, 16, 100, 101] {
            for pipeline in [1, 2, 3, 16, 1000] {
                for services in [1, 2, 3, 5] {
                    let connections = connections(agents, services, pipeline);
                    for threads in 1..=connections.min(4) {
                        all.push(Places { agents, connections, services, threads });
                    }
                }
            }
        }
        all
    }

    fn connections(agents: u32, services: u32, pipeline: u32) -> u32 {
        Connections { keep_alive: true, pipeline }.of(agents, services)
    }

    #[test]
    fn agents_with_own_connections_take_services_in_turn() {
        let places = Places { agents: 7, connections: 7, services: 3, threads: 2 };
        assert_eq!((1..=7).map(|number| places.service_of(number)).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(places.agents_of(0).collect::<Vec<_>>(), [1, 3, 5, 7]);
        assert_eq!(places.agents_of(1).collect::<Vec<_>>(), [2, 4, 6]);
        assert_eq!(places.connections_of(1).collect::<Vec<_>>(), [1, 0, 2]);
    }

    #[test]
    fn agents_are_spread_evenly_over_threads_and_connections() {
        for places in all() {
            let mut seen = Vec::new();
            let mut loads = Vec::new();
            for thread in 0..places.threads {
                let services: Vec<u32> = places.connections_of(thread).collect();
                let mut load = vec![0_u32; services.len()];
                for (index, number) in places.agents_of(thread).enumerate() {
                    let connection = index % services.len();
                    assert_eq!(services[connection], places.service_of(number), "agent {number} of {places:?}");
                    assert_eq!(services[connection], (number - 1) % places.services, "as without a pipeline");
                    load[connection] += 1;
                    seen.push(number);
                }
                loads.extend(load);
            }
            seen.sort_unstable();
            assert_eq!(seen, (1..=places.agents).collect::<Vec<_>>(), "{places:?}");
            assert_eq!(loads.len(), places.connections as usize, "{places:?}");
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            assert!(*least > 0 && most - least <= 1, "{places:?}: {loads:?}");
        }
    }

    #[test]
    fn a_connection_has_no_more_agents_than_its_pipeline() {
        for (agents, services, pipeline, expected) in [
            (1, 1, 1, 1),
            (100, 1, 16, 7),
            (96, 1, 16, 6),
            (3, 1, 1000, 1),
            (50_000, 1, 1, 50_000),
            (100, 3, 16, 9),
            (4, 3, 1, 4),
            (10, 3, 1000, 3),
            (2, 3, 1000, 2),
        ] {
            assert_eq!(
                connections(agents, services, pipeline),
                expected,
                "{agents} agents, {services} services, {pipeline}"
            );
        }
        for places in all() {
            let most =
                (0..places.connections).map(|own| places.agents.saturating_sub(own).div_ceil(places.connections)).max();
            let pipelines = [1, 2, 3, 16, 1000];
            let fits = |pipeline: &&u32| connections(places.agents, places.services, **pipeline) == places.connections;
            assert!(most.unwrap() <= *pipelines.iter().filter(fits).min().unwrap(), "{places:?}");
        }
    }
}
