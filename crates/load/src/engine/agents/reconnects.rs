//! When and where a connection is made again that could not be made, or that the target has cut.

use experiment::plan::Failover;

use super::Agents;
use crate::engine::ids::ConnId;
use crate::engine::script::ns;
use crate::protocols::{AttemptCause, Protocol};
use crate::schedules::closed;
use crate::values::mix;

/// Where a connection leads, and what has become of it lately.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionRoute {
    /// Number of its service.
    service: u32,
    /// Connects that have failed since one got through.
    failures: u32,
    /// The target has cut it, and it is not made before this moment.
    cut_until_ns: u64,
}

impl ConnectionRoute {
    /// To that service, so far without trouble.
    pub fn to(service: u32) -> Self {
        Self { service, failures: 0, cut_until_ns: 0 }
    }
}

/// The next connect of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextConnect {
    /// To this service.
    pub service: u32,
    /// Not before this moment.
    pub after_ns: u64,
}

impl<P: Protocol> Agents<P> {
    /// Whether its agents would make the connection now: not so soon after it was cut.
    pub fn may_connect(&self, conn: ConnId, now_ns: u64) -> bool {
        now_ns >= self.routes[conn.index()].cut_until_ns
    }

    /// The connection is open.
    pub fn connected(&mut self, conn: ConnId) {
        self.routes[conn.index()].failures = 0;
    }

    /// The connection could not be made, or was not to be made yet. With failover the next service
    /// is tried at once, and only who has tried them all pauses.
    pub fn connect_failed(&mut self, conn: ConnId, cause: AttemptCause, now_ns: u64) -> NextConnect {
        let services = self.script.places.services;
        let paused_ns = self.paused_ns(conn, now_ns);
        let route = &mut self.routes[conn.index()];
        let moves = match cause {
            AttemptCause::NotConnected => {
                return NextConnect { service: route.service, after_ns: paused_ns.min(route.cut_until_ns) };
            }
            // Another service would do no better.
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

    /// The target has cut the connection in mid-operation: the moment before which nothing is tried
    /// on it, if its agents do not connect at once.
    pub fn connection_cut(&mut self, conn: ConnId, now_ns: u64) -> Option<u64> {
        let delay_ns = ns(self.script.reconnects.delay_s);
        if delay_ns == 0 {
            return None;
        }
        let until_ns = now_ns.saturating_add(self.spread_ns(conn, delay_ns, now_ns));
        self.routes[conn.index()].cut_until_ns = until_ns;
        Some(until_ns.min(self.paused_ns(conn, now_ns)))
    }

    /// The end of a pause after a failed connect, from now on.
    fn paused_ns(&self, conn: ConnId, now_ns: u64) -> u64 {
        // Whatever is asked for, a moment: or else one connect would follow the other.
        now_ns.saturating_add(self.spread_ns(conn, self.script.reconnect_ns, !now_ns).max(1))
    }

    /// A pause of the connection's agents, drawn as the load says, another one at another moment.
    fn spread_ns(&self, conn: ConnId, pause_ns: u64, moment: u64) -> u64 {
        // Its first agent's operation: no two connections share it.
        let draw = mix(self.list[conn.index()].draw ^ moment);
        closed::spread_ns(pause_ns, self.script.reconnects.spread_pct, draw)
    }
}
