//! An open loop's operations that are due although their agent is busy: counted as open from the moment they are due, without holding
//! one of them in memory. It must not start them: that is the agent's, when it is free.

use record::events::Outcome;

use super::operation::Ending;
use super::worker::Worker;
use crate::protocols::Protocol;

/// A timer that is less late than this delays one operation only, or operations too many to be asked for.
const WORTH_COUNTING_NS: u64 = 1_000_000;

impl<P: Protocol> Worker<P> {
    /// The agent's operation begins: it is open from its intended start on, unless it was counted when it became due.
    pub(super) fn count_open(&mut self, index: usize) {
        let agent = &mut self.agents[index];
        if agent.intended_ns < agent.counted_ns {
            return;
        }
        self.tally.begin(agent.intended_ns);
        if self.script.schedule.is_fixed() {
            agent.counted_ns = agent.intended_ns.saturating_add(1);
        }
    }

    /// The agent was free at `due_ns` and nobody woke it before now: what else has become due for it meanwhile is late because of
    /// this thread, and not because of the target. So after a pause of the generator each operation counts that it delayed.
    pub(super) fn count_late(&mut self, index: usize, due_ns: u64, now: u64) {
        let agent = &self.agents[index];
        if now - due_ns < WORTH_COUNTING_NS || !self.script.schedule.is_fixed() || agent.has_operation() {
            return;
        }
        let until_ns = now.min(self.end_ns);
        let due = self.script.schedule.due(agent.number - 1, due_ns.saturating_add(1), until_ns);
        for place in 0..due.count {
            self.tally.late(now - due.at_ns(place));
        }
    }

    /// Counts as open what is due before `until_ns`, or before the load's end, and has not begun.
    pub(super) fn count_due(&mut self, until_ns: u64) {
        let until_ns = until_ns.min(self.end_ns);
        if !self.script.schedule.is_fixed() {
            return;
        }
        for agent in &mut self.agents {
            if agent.counted_ns >= until_ns || (!agent.has_operation() && agent.intended_ns >= until_ns) {
                continue;
            }
            self.tally.due(&self.script.schedule.due(agent.number - 1, agent.counted_ns, until_ns));
            agent.counted_ns = until_ns;
        }
    }

    /// What is open at the end is unfinished, and so is what was due and never began. That is counted under the step which its
    /// agent was to do next, and has no line in the history: nothing was ever sent.
    pub(super) fn leave_unfinished(&mut self, now: u64) {
        let until_ns = now.min(self.end_ns);
        self.count_due(until_ns);
        let mut never_began = 0;
        for index in 0..self.agents.len() {
            let is_open = self.agents[index].has_operation();
            if is_open {
                let agent = &self.agents[index];
                let applied = (!agent.is_unsure && agent.sent().is_none()).then_some(false);
                self.close_books(index, Ending { outcome: Outcome::Unfinished, read: None, applied }, now);
            }
            let agent = &self.agents[index];
            let from_ns = agent.intended_ns.saturating_add(u64::from(is_open));
            let due = self.script.schedule.due(agent.number - 1, from_ns, until_ns);
            let name = self.script.steps[usize::from(agent.step)].name;
            self.tally.leave(name, &due, now);
            never_began += due.count;
        }
        if never_began > 0 {
            self.tally.notices.push(format!(
                "{never_began} operations were due and never began: their agents still had others open. Either the target \
                 cannot keep up with this rate, or it is waited for by too few agents: a rate needs at least rate × service \
                 time of them"
            ));
        }
    }
}
