//! Closed loop in stages: the times at which each agent is present, if agents come and go.
//!
//! In a stage, the number of agents changes in a straight line. Agent i (from 0) is present while
//! the line is above i. So agents come in the order of their numbers and leave in the reverse
//! order, and a first stage that rises to all agents is the same as a ramp.

use experiment::plan::AgentStage;

use super::{Schedule, joins_ns};

/// Presence of an agent at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentPresence {
    /// The agent is present until this time.
    Until(u64),
    /// The agent is absent until this time, which is `u64::MAX` if it does not return.
    AbsentUntil(u64),
}

/// A stage in nanoseconds. The last one never ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PresenceStretch {
    from_ns: u64,
    until_ns: u64,
    from: u32,
    to: u32,
}

impl PresenceStretch {
    /// Returns the part of the stage in which the agent is present. It is empty if the agent is
    /// absent.
    fn of(self, agent: u32) -> (u64, u64) {
        let length_ns = self.until_ns - self.from_ns;
        let crossed_ns = |before: u32, all: u32| self.from_ns + joins_ns(before, all, length_ns);
        let (starts, ends) = (agent < self.from, agent < self.to);
        match (starts, ends) {
            (true, true) => (self.from_ns, self.until_ns),
            (false, false) => (self.from_ns, self.from_ns),
            (false, true) => (crossed_ns(agent - self.from, self.to - self.from), self.until_ns),
            (true, false) => (self.from_ns, crossed_ns(self.from - agent, self.from - self.to)),
        }
    }
}

/// Times at which the agents of a group are present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presence {
    stretches: Vec<PresenceStretch>,
    /// Time from which on no operation starts.
    end_ns: u64,
}

impl Presence {
    /// Creates the times for consecutive stages. The last number of agents stays until the end.
    pub fn new(stages: &[AgentStage], end_ns: u64) -> Self {
        let mut stretches: Vec<PresenceStretch> = Vec::new();
        let mut from_ns = 0_u64;
        for stage in stages {
            let length_ns = (stage.over_s.max(0.0) * 1e9).round() as u64;
            let until_ns = from_ns.saturating_add(length_ns);
            stretches.push(PresenceStretch { from_ns, until_ns, from: stage.from, to: stage.to });
            from_ns = until_ns;
        }
        let last = stages.last().map_or(0, |stage| stage.to);
        stretches.push(PresenceStretch { from_ns, until_ns: u64::MAX, from: last, to: last });
        Self { stretches, end_ns }
    }

    /// Returns whether the agent is present at a time, and until when.
    pub fn at(&self, agent: u32, at_ns: u64) -> AgentPresence {
        let mut leaves_ns = None;
        for (from_ns, until_ns) in self.stretches.iter().map(|stretch| stretch.of(agent)) {
            if until_ns <= at_ns || from_ns == until_ns {
                continue;
            }
            match leaves_ns {
                None if from_ns > at_ns => return AgentPresence::AbsentUntil(from_ns),
                Some(left_ns) if left_ns < from_ns => break,
                _ => leaves_ns = Some(until_ns),
            }
        }
        leaves_ns.map_or(AgentPresence::AbsentUntil(u64::MAX), AgentPresence::Until)
    }
}

impl Schedule for Presence {
    fn first_ns(&self, agent: u32) -> u64 {
        match self.at(agent, 0) {
            AgentPresence::Until(_) => 0,
            AgentPresence::AbsentUntil(joins_ns) => joins_ns,
        }
    }

    fn next_ns(&self, _agent: u32, _intended_ns: u64, ended_ns: u64) -> u64 {
        ended_ns
    }

    fn end_ns(&self) -> u64 {
        self.end_ns
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::AgentPresence::{AbsentUntil, Until};
    use super::*;
    use crate::schedules::closed::Closed;

    const S: u64 = 1_000_000_000;

    fn stages(stages: &[(u32, u32, f64)]) -> Presence {
        let stage = |&(from, to, over_s): &(u32, u32, f64)| AgentStage { from, to, over_s };
        Presence::new(&stages.iter().map(stage).collect::<Vec<_>>(), 100 * S)
    }

    #[test]
    fn agents_come_in_order_and_leave_in_reverse() {
        let presence = stages(&[(0, 4, 4.0), (4, 4, 2.0), (4, 0, 8.0)]);
        let spells: Vec<(u64, AgentPresence)> = (0..4)
            .map(|agent| {
                let joins_ns = presence.first_ns(agent);
                (joins_ns, presence.at(agent, joins_ns))
            })
            .collect();
        assert_eq!(spells, [(0, Until(14 * S)), (S, Until(12 * S)), (2 * S, Until(10 * S)), (3 * S, Until(8 * S))]);
        assert_eq!(presence.at(0, 14 * S), AbsentUntil(u64::MAX));
        assert_eq!(presence.at(3, 8 * S - 1), Until(8 * S));
    }

    #[test]
    fn an_agent_returns_and_jumps_take_no_time() {
        let presence = stages(&[(3, 3, 1.0), (1, 1, 1.0), (1, 3, 2.0)]);
        assert_eq!([0, 1, 2].map(|agent| presence.first_ns(agent)), [0, 0, 0]);
        assert_eq!(presence.at(0, 0), Until(u64::MAX), "stretches without a gap are one");
        assert_eq!(presence.at(1, 0), Until(S));
        assert_eq!(presence.at(1, S), AbsentUntil(2 * S));
        assert_eq!(presence.at(2, S), AbsentUntil(3 * S));
        assert_eq!(presence.at(2, 3 * S), Until(u64::MAX), "the last number stays");
    }

    #[test]
    fn a_rising_stage_is_a_ramp() {
        let presence = stages(&[(0, 7, 3.0), (7, 7, 1.0)]);
        let ramp = Closed { agents: 7, ramp_ns: 3 * S, end_ns: 100 * S };
        for agent in 0..7 {
            assert_eq!(presence.first_ns(agent), ramp.first_ns(agent));
        }
    }

    #[test]
    fn the_agents_at_a_time_are_the_number_of_the_stage() {
        let mut random = Rng::with_seed(7);
        for _ in 0..50 {
            let parts: Vec<(u32, u32, f64)> =
                (0..4).map(|_| (random.u32(0..40), random.u32(0..40), 0.5 + random.f64())).collect();
            let presence = stages(&parts);
            for _ in 0..50 {
                let at_s = random.f64() * 7.0;
                let mut begun_s = 0.0;
                let mut exact = f64::from(parts[3].1);
                for (from, to, over_s) in &parts {
                    if at_s < begun_s + over_s {
                        exact = f64::from(*from) + (f64::from(*to) - f64::from(*from)) * (at_s - begun_s) / over_s;
                        break;
                    }
                    begun_s += over_s;
                }
                let is_there = |agent: &u32| matches!(presence.at(*agent, (at_s * 1e9) as u64), Until(_));
                let there = (0..40).filter(is_there).count() as f64;
                // The line may cross a whole number within the nanosecond.
                assert!((there - exact.ceil()).abs() <= 1.0 && (exact - there).abs() < 1.001, "{there} {exact}");
            }
        }
    }
}
