//! Cycles of agents: which step comes next, and where a cycle begins and ends. A cycle performs a
//! sequence of steps: all steps of its group, or a drawn entry of a mix.

use std::ops::Range;

use experiment::plan::StepOrder;
use record::events::Outcome;
use wire::session::SessionProtocol;
use wire::values::mix;

use super::{Agent, Agents};
use crate::LoadPurpose;
use crate::engine::agent_group::LoopKind;
use crate::engine::ids::{AgentId, StepId};
use crate::engine::script::{ALWAYS, Script};
use crate::engine::thread_stats::ThreadStats;

impl<P: SessionProtocol> Script<P> {
    /// Whether the agent's cycle performs the step with index `place`. The answer is the same
    /// during the whole cycle.
    #[inline]
    pub fn performs(&self, agent: &Agent, place: usize) -> bool {
        let step = &self.steps[place];
        if step.every > 1 && !self.turn_of(agent).is_multiple_of(step.every) {
            return false;
        }
        step.chance == ALWAYS || self.draw_of(agent, place) < step.chance
    }

    /// Returns the draw that decides whether the agent's cycle performs the step.
    #[cold]
    fn draw_of(&self, agent: &Agent, place: usize) -> u64 {
        let seed = self.groups[agent.group].seed;
        mix(mix(mix(seed ^ u64::from(agent.place_in_group)) ^ agent.cycle) ^ place as u64)
    }

    /// Returns the first of the steps in `places` that the agent's cycle performs.
    fn step_from(&self, agent: &Agent, mut places: Range<usize>) -> Option<StepId> {
        places.find(|place| self.performs(agent, *place)).and_then(StepId::at)
    }
}

impl<P: SessionProtocol> Agents<P> {
    /// Moves to the next step of the cycle after an operation, or ends the cycle.
    pub(super) fn advance_step(&mut self, id: AgentId, outcome: Outcome, now_ns: u64, stats: &mut ThreadStats) {
        let agent = &mut self.list[id];
        let group = &self.script.groups[agent.group];
        let repeat = std::mem::take(&mut agent.repeat);
        let goes_on = match outcome {
            Outcome::Ok => true,
            Outcome::Wrong => !group.wrong_ends_cycle,
            _ => false,
        };
        if !goes_on {
            return;
        }
        let step = &self.script.steps[agent.step];
        if repeat < step.repeat {
            agent.repeat = repeat + 1;
            return;
        }
        if let Some(next) = self.script.step_from(agent, agent.step.index() + 1..step.sequence.end) {
            (agent.step, agent.repeat) = (next, 1);
            return;
        }
        if !agent.has_started {
            agent.has_started = true;
            // The agent's first cycle belongs to the session that is under way.
            if group.kind == LoopKind::OpenSessions {
                self.choose_step(id);
            }
            return;
        }
        agent.finished_cycles += 1;
        agent.last_cycle_ns = now_ns;
        stats.cycle();
    }

    /// Begins the steps that the agent performs once.
    #[cold]
    fn begin_start(&mut self, id: AgentId) {
        let agent = &mut self.list[id];
        let first = self.script.groups[agent.group].on_start.start;
        agent.kept = 0;
        (agent.step, agent.repeat) = (StepId::at(first).unwrap_or(StepId::FIRST), 1);
        agent.needs = self.script.streams_of(agent);
        self.values.cookies.begin_session(id);
        self.values.take_rows(id, agent);
    }

    /// Chooses the step of the operation that begins. Returns false if there is no step left.
    pub(super) fn choose_step(&mut self, id: AgentId) -> bool {
        if !self.list[id].begins_cycle() {
            return true;
        }
        if !self.list[id].has_started {
            self.begin_start(id);
            return true;
        }
        let id_of_group = self.list[id].group;
        // If every step has an `every` above 1, some cycles have no step at all.
        for _ in 0..self.script.groups[id_of_group].shortest {
            if !self.next_cycle(id) {
                return false;
            }
            let agent = &mut self.list[id];
            let group = &self.script.groups[id_of_group];
            let first = match group.order {
                StepOrder::Cycle => group.firsts[0],
                StepOrder::Mix => {
                    let total = group.weights.last().copied().unwrap_or(1);
                    let drawn = agent.random.u64(..total);
                    group.firsts[group.weights.partition_point(|sum| *sum <= drawn)]
                }
            };
            if let Some(step) = self.script.step_from(agent, self.script.steps[first].sequence.clone()) {
                (agent.step, agent.repeat) = (step, 1);
                agent.needs = self.script.streams_of(agent);
                return true;
            }
        }
        false
    }

    /// Begins the agent's next cycle: empties the agent's slots and jar, and takes feed rows.
    /// Returns false if all cycles of a preparation, or of a load with a cycle limit, are taken.
    fn next_cycle(&mut self, id: AgentId) -> bool {
        let agent = &mut self.list[id];
        let group = &self.script.groups[agent.group];
        match self.script.purpose {
            LoadPurpose::Measure => {
                if !group.take_cycle(agent.cycle) {
                    // Groups without a cycle limit continue until every group with a limit is done.
                    if self.script.groups.iter().all(|group| group.has_done_all() != Some(false)) {
                        self.control.stop();
                    }
                    return false;
                }
                agent.cycle += 1;
            }
            LoadPurpose::Prepare { count } => {
                let next = match agent.cycle {
                    0 => u64::from(agent.number),
                    cycle => cycle + u64::from(group.agents),
                };
                if next > count {
                    return false;
                }
                agent.cycle = next;
            }
        }
        agent.kept &= group.lasting;
        // The cookies of the steps before the cycles last, as the slots do.
        if group.on_start.is_empty() {
            self.values.cookies.begin_session(id);
        }
        self.values.take_rows(id, agent);
        true
    }
}
