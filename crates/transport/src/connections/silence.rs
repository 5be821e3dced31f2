//! Silence of a connection's service: how requests notice that it answers nothing.

use super::ConnectionSet;
use crate::conn_id::ConnId;

/// Time of the first timeout since the service last sent bytes, also on earlier sockets; 0 if there
/// was none. Coarse, see [`coarse`].
#[derive(Debug, Default)]
pub(super) struct Silence {
    since: u32,
}

impl ConnectionSet {
    /// Notes that the service has sent bytes.
    #[inline]
    pub fn heard(&mut self, conn: ConnId) {
        self.list[conn.index()].silence.since = 0;
    }

    /// Notes that a request timed out. Returns whether the service has been silent for two timeouts
    /// in a row: the request was sent after another had timed out, and nothing has come since.
    pub fn timed_out(&mut self, conn: ConnId, sent_ns: u64, now_ns: u64) -> bool {
        let silence = &mut self.list[conn.index()].silence;
        if silence.since == 0 {
            silence.since = coarse(now_ns);
            return false;
        }
        coarse(sent_ns) >= silence.since
    }
}

/// Returns the time as a small number, about one for each millisecond, that is not 0.
fn coarse(time_ns: u64) -> u32 {
    u32::try_from(time_ns >> 20).map_or(u32::MAX, |time| time.saturating_add(1))
}
