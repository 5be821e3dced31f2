//! Reconnects: the time and the service of the next connect, after a failed connect or after the
//! target closed the connection.

use experiment::plan::{Failover, Reconnects};
use transport::conn_id::ConnId;
use wire::cause::AttemptCause;
use wire::session::SessionProtocol;
use wire::values::mix;

use crate::engine::script::{Script, ns};
use crate::schedules::pauses;

/// Service of a connection, and its recent failures.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionRoute {
    service: u32,
    /// Number of failed connects since the last successful connect.
    failures: u32,
    /// Earliest time of the next connect, if the target closed the connection.
    cut_until_ns: u64,
}

impl ConnectionRoute {
    /// Creates the route to a service, without failures.
    pub fn to(service: u32) -> Self {
        Self { service, failures: 0, cut_until_ns: 0 }
    }
}

/// The next connect of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextConnect {
    /// Index of the service to which the connection is made.
    pub service: u32,
    /// Earliest time of the connect.
    pub after_ns: u64,
}

/// Routes of a thread's connections.
pub struct ConnectionRoutes {
    reconnects: Reconnects,
    /// Pause after a failed connect.
    pause_ns: u64,
    services: u32,
    list: Vec<ConnectionRoute>,
    /// Number of connections to the target. They come first.
    to_target: usize,
}

impl ConnectionRoutes {
    /// Creates the routes of thread `thread`.
    pub fn new<P: SessionProtocol>(script: &Script<P>, thread: u32) -> Self {
        Self {
            reconnects: script.reconnects,
            pause_ns: script.reconnect_ns,
            services: script.places.services,
            list: script.services_of_connections(thread).into_iter().map(ConnectionRoute::to).collect(),
            to_target: script.places.connections_of(thread).count(),
        }
    }

    /// Returns the number of connections to the target.
    pub fn count(&self) -> usize {
        self.to_target
    }

    /// Returns the service to which the connection leads.
    pub fn service(&self, conn: ConnId) -> u32 {
        self.list[conn.index()].service
    }

    /// Whether the connection may be made now. After the target closed the connection, a delay must
    /// pass first.
    pub fn may_connect(&self, conn: ConnId, now_ns: u64) -> bool {
        now_ns >= self.list[conn.index()].cut_until_ns
    }

    /// Records that the connection is open.
    pub fn connected(&mut self, conn: ConnId) {
        self.list[conn.index()].failures = 0;
    }

    /// Whether the connection leads to another service after a failure. A site has no other member.
    pub fn fails_over(&self, conn: ConnId) -> bool {
        let is_to_target = self.list[conn.index()].service < self.services;
        self.reconnects.failover == Failover::Next && self.services > 1 && is_to_target
    }

    /// Handles a connect that failed or is not allowed yet, or a service that does not answer. With
    /// failover, the next service is tried at once; a pause follows only when all services have
    /// failed. `draw` is a random number that no other connection shares.
    pub fn connect_failed(&mut self, conn: ConnId, cause: AttemptCause, draw: u64, now_ns: u64) -> NextConnect {
        let paused_ns = self.paused_ns(draw, now_ns);
        let fails_over = self.fails_over(conn);
        let route = &mut self.list[conn.index()];
        let moves = match cause {
            AttemptCause::NotConnected => {
                return NextConnect { service: route.service, after_ns: paused_ns.min(route.cut_until_ns) };
            }
            // Another service would fail in the same way.
            AttemptCause::NoPort | AttemptCause::NoFile => false,
            _ => fails_over,
        };
        if !moves {
            return NextConnect { service: route.service, after_ns: paused_ns };
        }
        route.failures = route.failures.wrapping_add(1);
        route.service = (route.service + 1) % self.services;
        let after_ns = if route.failures.is_multiple_of(self.services) { paused_ns } else { now_ns };
        NextConnect { service: route.service, after_ns }
    }

    /// Handles a connection that the target closed during an operation. Returns the earliest time
    /// of the next connect, or `None` if the connection's agents reconnect at once.
    pub fn connection_cut(&mut self, conn: ConnId, draw: u64, now_ns: u64) -> Option<u64> {
        let delay_ns = ns(self.reconnects.delay_s);
        if delay_ns == 0 {
            return None;
        }
        let until_ns = now_ns.saturating_add(self.spread_ns(draw, delay_ns, now_ns));
        self.list[conn.index()].cut_until_ns = until_ns;
        Some(until_ns.min(self.paused_ns(draw, now_ns)))
    }

    /// Returns the end of a pause after a failed connect, if the pause begins now.
    fn paused_ns(&self, draw: u64, now_ns: u64) -> u64 {
        // At least 1 ns, so that connects do not follow each other without a pause.
        now_ns.saturating_add(self.spread_ns(draw, self.pause_ns, !now_ns).max(1))
    }

    /// Returns a pause with the load's random spread. `draw` and `moment` supply the randomness.
    fn spread_ns(&self, draw: u64, pause_ns: u64, moment: u64) -> u64 {
        pauses::spread_ns(pause_ns, self.reconnects.spread_pct, mix(draw ^ moment))
    }
}
