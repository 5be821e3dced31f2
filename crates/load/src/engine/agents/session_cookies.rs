//! Cookie jars of a thread's agents. A jar lasts as long as its agent's session.

use experiment::mistake::{Mistake, TrialPart};
use experiment::plan::{Load, Step, StepOrder};
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

/// Returns a note for each population whose cookie jars no request uses.
pub fn notes_on_unused_jars(load: &Load) -> Vec<Mistake> {
    load.populations().iter().filter_map(note_of_unused_jars).collect()
}

/// Returns a note on cookie jars that no request uses: every cycle is a single operation, and no
/// step comes before the cycles.
fn note_of_unused_jars(load: &Load) -> Option<Mistake> {
    let is_single = |steps: &[Step]| matches!(steps, [step] if step.repeat <= 1);
    if !load.cookies || load.steps_on_start() > 0 || !load.sequences().all(is_single) {
        return None;
    }
    let group = load.name.as_ref().map_or_else(String::new, |name| format!(" of group `{name}`"));
    let (what, remedy) = match load.order {
        StepOrder::Mix => (
            "each operation of the mix is a cycle of its own",
            "put the operations of a session into the `steps` of an entry of the mix",
        ),
        StepOrder::Cycle => ("the cycle has one operation", "add the other operations of the session to the cycle"),
    };
    Some(Mistake {
        part: TrialPart::Load,
        reason: format!(
            "`cookies`{group} has no effect: each cycle begins with an empty jar, and {what}, so no request has a \
             cookie. Log in with [[load.on_start]], whose cookies last for all cycles of an agent, or {remedy}"
        ),
        is_note: true,
    })
}

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
        let (redirection, owner) = (self.redirects.of(id), self.owner(id));
        let now_s = self.cookies.unix_s(now_ns);
        let step = &self.script.steps[agent.step];
        let source =
            source(agent, owner, &self.script, self.zero_ns, (&self.slots, &self.feeding.taken, self.counters.of(id)));
        let values = OperationValues { source, arguments: &step.arguments, cookies: None, redirection };
        let SessionCookies { jars, held, bytes, .. } = &mut self.cookies;
        let Some(jar) = jars.get_mut(owner.index()) else { return };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jars_that_no_request_uses_have_a_note() {
        let step = || Step { repeat: 1, weight: 1, ..Step::default() };
        let mix = Load { cookies: true, order: StepOrder::Mix, steps: vec![step(), step()], ..Load::default() };
        let note = note_of_unused_jars(&mix).unwrap();
        assert!(note.is_note && note.reason.contains("each operation of the mix is a cycle"), "{}", note.reason);
        let one = Load { order: StepOrder::Cycle, steps: vec![step()], name: Some("a".into()), ..mix.clone() };
        let reason = note_of_unused_jars(&one).unwrap().reason;
        assert!(reason.contains("of group `a`") && reason.contains("the cycle has one operation"), "{reason}");
        let follows = Step { follows: true, ..step() };
        let once = Step { once: true, ..step() };
        let repeated = Step { repeat: 2, ..step() };
        for used in [
            Load { cookies: false, ..mix.clone() },
            Load { steps: vec![step(), follows], ..mix.clone() },
            Load { steps: vec![once, step(), step()], ..mix.clone() },
            Load { steps: vec![repeated, step()], ..mix.clone() },
            Load { order: StepOrder::Cycle, ..mix },
        ] {
            assert_eq!(note_of_unused_jars(&used), None);
        }
    }
}
