//! Cookie jars of a thread's agents. A jar lasts as long as its agent's session.

use wire::answer_budget::BudgetShare;
use wire::cookies::{CookieJar, RequestCookies};
use wire::session::SessionProtocol;
use wire::values::OperationValues;

use super::Agent;
use super::answers::DecodedAnswer;
use super::values::{AgentValues, source};
use crate::engine::ids::AgentId;
use crate::engine::thread_stats::ThreadStats;
use crate::schedules::NS_PER_S;

/// Cookie jars of a thread's agents.
#[derive(Debug, Default)]
pub struct SessionCookies {
    /// Jars, indexed by agent. Empty if no group keeps cookies.
    jars: Vec<CookieJar>,
    /// Unix time of load start, seconds.
    zero_s: f64,
    /// Share of the memory budget that the jars hold.
    held: BudgetShare,
    /// Size of all jars, bytes.
    bytes: usize,
}

impl SessionCookies {
    /// Creates empty jars for this many agents.
    pub fn new(agents: usize) -> Self {
        Self { jars: vec![CookieJar::default(); agents], ..Self::default() }
    }

    /// Sets the Unix time of load start, seconds.
    pub fn set_zero(&mut self, zero_s: f64) {
        self.zero_s = zero_s;
    }

    /// Begins a session of the agent.
    #[inline]
    pub fn begin_session(&mut self, id: AgentId) {
        if let Some(jar) = self.jars.get_mut(id.index()) {
            jar.clear();
        }
    }

    /// Returns the agent's cookies for a request.
    pub fn of(&self, id: AgentId, now_ns: u64) -> Option<RequestCookies<'_>> {
        Some(RequestCookies { jar: self.jars.get(id.index())?, now_s: self.unix_s(now_ns) })
    }

    fn unix_s(&self, now_ns: u64) -> i64 {
        (self.zero_s + now_ns as f64 / NS_PER_S as f64) as i64
    }
}

impl<P: SessionProtocol> AgentValues<P> {
    /// Stores the cookies that an answer sets in the agent's jar.
    pub(super) fn take_cookies(
        &mut self,
        id: AgentId,
        agent: &Agent,
        answer: &DecodedAnswer<'_, P>,
        now_ns: u64,
        stats: &mut ThreadStats,
    ) {
        let now_s = self.cookies.unix_s(now_ns);
        let step = &self.script.steps[agent.step];
        let source = source(agent, id, &self.script, self.zero_ns, (&self.slots, &self.feeding.taken));
        let values =
            OperationValues { source, arguments: &step.arguments, cookies: None, redirection: self.redirects.of(id) };
        let SessionCookies { jars, held, bytes, .. } = &mut self.cookies;
        let Some(jar) = jars.get_mut(id.index()) else { return };
        let before = jar.capacity();
        let scratch = self.captures.scratch();
        P::take_cookies(self.script.request(agent), answer.session, answer.input, &values, now_s, jar, scratch);
        let more = jar.capacity().saturating_sub(before);
        if more == 0 {
            return;
        }
        *bytes += more;
        if !held.grow_to(*bytes) {
            *bytes -= jar.capacity();
            *jar = CookieJar::default();
            stats.notices.extend(self.control.budget_notice());
        }
    }
}
