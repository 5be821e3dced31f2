//! Who goes where: agents are dealt out to connections, and connections to services and to threads, each in turn. Arithmetic only; it
//! must not connect.

use experiment::plan::{Connections, Load};

use crate::Error;

/// How agents, connections, services and threads are dealt out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// Agents in all.
    pub agents: u32,
    /// Connections in all; at most as many.
    pub connections: u32,
    /// Services.
    pub services: u32,
    /// Threads; at most as many as connections.
    pub threads: u32,
}

impl Places {
    /// Of a load; without a number of threads, one for every two cores.
    ///
    /// # Errors
    /// If it asks for connections that cannot be.
    pub fn of(load: &Load, services: usize) -> Result<Self, Error> {
        let Connections { keep_alive, pipeline } = load.connections;
        if pipeline == 0 || (pipeline > 1 && !keep_alive) {
            return Err(Error::Setting("`pipeline` is at least 1, and above that connections are kept".to_owned()));
        }
        let services = u32::try_from(services).unwrap_or(u32::MAX);
        let connections = load.connections.of(load.agents, services);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let half = u32::try_from(cores / 2).unwrap_or(1).max(1);
        let threads = load.threads.unwrap_or(half).clamp(1, connections.max(1));
        Ok(Self { agents: load.agents, connections, services, threads })
    }

    /// Whether agents share connections.
    #[inline]
    pub fn is_pipelined(&self) -> bool {
        self.connections < self.agents
    }

    /// The connection of agent `number` (from 1), over all threads. So every connection has as many agents as any other, give or take
    /// one, and with as many connections as agents each has its own.
    fn connection_of(&self, number: u32) -> u32 {
        number.wrapping_sub(1) % self.connections.max(1)
    }

    /// The service that agent `number` (from 1) goes to.
    pub fn service_of(&self, number: u32) -> u32 {
        self.connection_of(number) % self.services.max(1)
    }

    /// Numbers of the agents of a thread, ascending.
    pub fn agents_of(self, thread: u32) -> impl Iterator<Item = u32> {
        (1..=self.agents).filter(move |number| self.connection_of(*number) % self.threads.max(1) == thread)
    }

    /// The number, over all threads, of a thread's connection.
    pub fn number_of(&self, thread: u32, connection: usize) -> u32 {
        // It fits: there are fewer connections than numbers for them.
        thread + connection as u32 * self.threads.max(1)
    }

    /// The service of each connection of a thread. The thread's agents take them in turn: its first agent has the first of them, the
    /// next the next, and so on, again and again.
    pub fn connections_of(self, thread: u32) -> impl Iterator<Item = u32> {
        (thread..self.connections)
            .step_by(self.threads.max(1) as usize)
            .map(move |number| number % self.services.max(1))
    }
}

/// From each step's requests, one for each service, to each service's requests, one for each step.
pub fn by_service<R>(by_step: Vec<Vec<R>>) -> Vec<R> {
    let mut by_step: Vec<_> = by_step.into_iter().map(Vec::into_iter).collect();
    let mut requests = Vec::new();
    loop {
        let before = requests.len();
        requests.extend(by_step.iter_mut().filter_map(Iterator::next));
        if requests.len() == before {
            return requests;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every combination of a few numbers that a load can have.
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
    fn with_a_connection_each_agents_go_to_services_and_threads_in_turn() {
        let places = Places { agents: 7, connections: 7, services: 3, threads: 2 };
        assert_eq!((1..=7).map(|number| places.service_of(number)).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(places.agents_of(0).collect::<Vec<_>>(), [1, 3, 5, 7]);
        assert_eq!(places.agents_of(1).collect::<Vec<_>>(), [2, 4, 6]);
        assert_eq!(places.connections_of(1).collect::<Vec<_>>(), [1, 0, 2]);
    }

    #[test]
    fn everybody_is_in_one_thread_and_takes_its_connections_in_turn() {
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
    fn a_pipeline_holds_no_more_than_it_was_asked_to() {
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

    #[test]
    fn requests_by_service() {
        assert_eq!(by_service(vec![vec!["a1", "b1"], vec!["a2", "b2"]]), ["a1", "a2", "b1", "b2"]);
        assert_eq!(by_service::<u8>(Vec::new()), [0; 0]);
    }
}
