//! Reconnects: when and where a connection is made again after a failed connect or after the target
//! closed it.

use experiment::plan::Failover;
use transport::conn_id::ConnId;
use wire::cause::AttemptCause;
use wire::protocols::Protocol;
use wire::values::mix;

use super::Agents;
use crate::engine::script::ns;
use crate::schedules::closed;

/// Service of a connection, and its recent failures.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionRoute {
    service: u32,
    /// Failed connects since the last success.
    failures: u32,
    /// The target closed the connection, which is not made again before this time.
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
    /// Service to connect to.
    pub service: u32,
    /// Earliest time of the connect.
    pub after_ns: u64,
}

impl<P: Protocol> Agents<P> {
    /// Whether the connection may be made now. After the target closed it, a delay must pass first.
    pub fn may_connect(&self, conn: ConnId, now_ns: u64) -> bool {
        now_ns >= self.routes[conn.index()].cut_until_ns
    }

    /// Notes that the connection is open.
    pub fn connected(&mut self, conn: ConnId) {
        self.routes[conn.index()].failures = 0;
    }

    /// Handles a connect that failed or is not allowed yet. With failover the next service is tried
    /// at once; a pause follows only when all services have failed.
    pub fn connect_failed(&mut self, conn: ConnId, cause: AttemptCause, now_ns: u64) -> NextConnect {
        let services = self.script.places.services;
        let paused_ns = self.paused_ns(conn, now_ns);
        let route = &mut self.routes[conn.index()];
        let moves = match cause {
            AttemptCause::NotConnected => {
                return NextConnect { service: route.service, after_ns: paused_ns.min(route.cut_until_ns) };
            }
            // Another service would fail in the same way.
            AttemptCause::NoPort | AttemptCause::NoFile => false,
            _ => self.script.reconnects.failover == Failover::Next && services > 1,
        };
        if !moves {
            return NextConnect { service: route.service, after_ns: paused_ns };
        }
        route.failures = route.failures.wrapping_add(1);
        route.service = (route.service + 1) % services;
        let after_ns = if route.failures.is_multiple_of(services) { paused_ns } else { now_ns };
        let next = NextConnect { service: route.service, after_ns };
        let place = self.script.place_at(next.service);
        self.list.iter_mut().skip(conn.index()).step_by(self.routes.len()).for_each(|agent| agent.place = place);
        next
    }

    /// Handles a connection that the target closed during an operation. Returns the time before
    /// which nothing is tried on it, or `None` if its agents reconnect at once.
    pub fn connection_cut(&mut self, conn: ConnId, now_ns: u64) -> Option<u64> {
        let delay_ns = ns(self.script.reconnects.delay_s);
        if delay_ns == 0 {
            return None;
        }
        let until_ns = now_ns.saturating_add(self.spread_ns(conn, delay_ns, now_ns));
        self.routes[conn.index()].cut_until_ns = until_ns;
        Some(until_ns.min(self.paused_ns(conn, now_ns)))
    }

    /// Returns the end of a pause after a failed connect, if the pause begins now.
    fn paused_ns(&self, conn: ConnId, now_ns: u64) -> u64 {
        // At least 1 ns, so that connects do not follow each other without a pause.
        now_ns.saturating_add(self.spread_ns(conn, self.script.reconnect_ns, !now_ns).max(1))
    }

    /// Returns a pause for the connection's agents, spread at random as the load says. Another
    /// `moment` gives another pause.
    fn spread_ns(&self, conn: ConnId, pause_ns: u64, moment: u64) -> u64 {
        // No other connection shares the draw of this connection's first agent.
        let draw = mix(self.list[conn.index()].draw ^ moment);
        closed::spread_ns(pause_ns, self.script.reconnects.spread_pct, draw)
    }
}
