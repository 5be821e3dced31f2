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
mod tests;
