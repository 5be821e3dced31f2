//! Schedules: the start times of operations or sessions. A schedule computes nanoseconds since the
//! start of the load. It reads no clock and sets no timer.
//!
//! In an open loop, the starts of all agents form one sequence. Starts are dealt in turn to places,
//! of which there are as many as agents. A free agent of the same thread takes a place's start
//! (`engine/agents/turns`), so threads need not ask each other. Each start can be computed by
//! itself, so only the starts of a recorded schedule are held in memory.

use experiment::plan::{Load, Rate};

use crate::{Error, InputFiles};

pub mod closed;
pub mod constant;
pub mod pauses;
pub mod poisson;
pub mod presence;
pub mod replay;
pub mod stages;

pub const NS_PER_S: u64 = 1_000_000_000;

/// Source of the intended starts of operations. Latency counts from the intended start. `agent` is
/// the index of an agent, or in an open loop the index of a place.
pub trait Schedule: Send + Sync {
    /// Returns the intended start of the agent's first operation.
    fn first_ns(&self, agent: u32) -> u64;

    /// Returns the intended start of the agent's next operation, after the one that was intended at
    /// `intended_ns` and ended at `ended_ns`. Returns `u64::MAX` if there is none.
    fn next_ns(&self, agent: u32, intended_ns: u64, ended_ns: u64) -> u64;

    /// Returns the time from which on no operation is intended.
    fn end_ns(&self) -> u64;

    /// Passes to `take` the agent's operations that are intended from `from_ns` to before
    /// `until_ns`, in order and in evenly spaced rows. The result does not depend on earlier
    /// operations. A closed loop passes none, because an agent's start depends on its last
    /// operation.
    fn due(&self, _agent: u32, _from_ns: u64, _until_ns: u64, _take: &mut dyn FnMut(Due)) {}

    /// Returns a notice for the reader, if any.
    fn notice(&self) -> Option<String> {
        None
    }
}

/// Creates the schedule of a load. `closed` is the load's schedule without a rate, which supplies
/// agents, ramp and end. A recorded schedule is read from `files`.
///
/// # Errors
/// If a recorded schedule cannot be read.
pub fn of(load: &Load, closed: closed::Closed, seed: u64, files: &InputFiles) -> Result<Box<dyn Schedule>, Error> {
    let closed::Closed { agents, ramp_ns, end_ns } = closed;
    Ok(match load.rate.as_ref().map(Rate::starts) {
        None if !load.agent_stages.is_empty() => Box::new(presence::Presence::new(&load.agent_stages, end_ns)),
        None | Some(Rate::Sessions { .. }) => Box::new(closed),
        Some(Rate::Constant(per_s)) => Box::new(constant::Constant::new(agents, *per_s, ramp_ns, end_ns)),
        Some(Rate::Poisson { poisson }) => Box::new(poisson::Poisson::new(agents, *poisson, ramp_ns, end_ns, seed)),
        Some(Rate::Replay { replay, stretch }) => {
            Box::new(replay::Replay::read(&files.path(replay), *stretch, agents, end_ns)?)
        }
        Some(Rate::Stages(given)) => Box::new(stages::Stages::new(agents, given, end_ns)),
    })
}

/// Returns the index of the agent's first start at or after start `number`, if agents take starts
/// in turn.
fn own_from(agent: u32, agents: u32, number: u128) -> u128 {
    let (agent, agents) = (u128::from(agent), u128::from(agents));
    agent + number.saturating_sub(agent).div_ceil(agents) * agents
}

/// Returns the time at which the agent joins, if `agents` agents join evenly over a ramp.
fn joins_ns(agent: u32, agents: u32, ramp_ns: u64) -> u64 {
    let share = u128::from(ramp_ns) * u128::from(agent) / u128::from(agents.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// Operations of an agent, evenly spaced in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Due {
    pub count: u64,
    /// Intended start of the first operation.
    pub first_ns: u64,
    /// Intended start of the last operation.
    pub last_ns: u64,
}

impl Due {
    /// A single operation.
    pub fn one(at_ns: u64) -> Self {
        Self { count: 1, first_ns: at_ns, last_ns: at_ns }
    }

    /// Returns the intended start of operation `place` (from 0), exact to 2 ns.
    pub fn at_ns(&self, place: u64) -> u64 {
        let length = u128::from(self.last_ns - self.first_ns);
        let share = length * u128::from(place) / u128::from(self.count.saturating_sub(1).max(1));
        self.first_ns + u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Returns the sum of the times for which the operations have been due at `now_ns`, in
    /// nanoseconds, exact to 2 ns per operation.
    pub fn waited_ns(&self, now_ns: u64) -> i64 {
        let by_pairs = 2 * i128::from(now_ns) - i128::from(self.first_ns) - i128::from(self.last_ns);
        let waited = i128::from(self.count) * by_pairs / 2;
        i64::try_from(waited).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    //! Tests for open loops of any rate: each agent's starts ascend, are found again from any time,
    //! and are counted once no matter how time is divided.

    use experiment::plan::RateStage;
    use fastrand::Rng;
    use fixture::TestDir;

    use super::constant::Constant;
    use super::poisson::Poisson;
    use super::replay::Replay;
    use super::stages::Stages;
    use super::*;

    pub const S: u64 = 1_000_000_000;

    /// Returns every start of an agent before the end, in order.
    pub fn starts(schedule: &dyn Schedule, agent: u32) -> Vec<u64> {
        let inside = |at_ns: &u64| *at_ns < schedule.end_ns();
        let first = Some(schedule.first_ns(agent)).filter(inside);
        std::iter::successors(first, |at_ns| Some(schedule.next_ns(agent, *at_ns, u64::MAX)).filter(inside)).collect()
    }

    /// Returns every start of all agents, in order.
    pub fn all_starts(schedule: &dyn Schedule, agents: u32) -> Vec<u64> {
        let mut all: Vec<u64> = (0..agents).flat_map(|agent| starts(schedule, agent)).collect();
        all.sort_unstable();
        all
    }

    /// Returns the rows of operations that are due.
    pub fn due(schedule: &dyn Schedule, agent: u32, from_ns: u64, until_ns: u64) -> Vec<Due> {
        let mut rows = Vec::new();
        schedule.due(agent, from_ns, until_ns, &mut |due| rows.push(due));
        rows
    }

    /// Returns a stage from one rate to another over `over_s` seconds.
    pub fn stage(from: f64, to: f64, over_s: f64) -> RateStage {
        RateStage { from, to, over_s }
    }

    /// Returns a recorded schedule from the text of a file.
    pub fn recorded(text: &str, agents: u32, end_ns: u64) -> Result<Replay, Error> {
        Replay::read(&TestDir::new().write("recorded.csv", text), 1.0, agents, end_ns)
    }

    /// Returns a schedule of each kind, for four seconds.
    fn each_kind(agents: u32, random: &mut Rng) -> Vec<Box<dyn Schedule>> {
        let rate = random.f64() * 500.0 + 0.1;
        let ramp_ns = random.u64(0..4) * S / 2;
        let mut stages =
            vec![stage(0.0, rate, 0.7), stage(rate, rate, 0.6), stage(rate, 0.0, 0.8), stage(0.0, 0.0, 0.3)];
        stages.truncate(random.usize(1..=4));
        if random.bool() {
            stages.push(stage(rate, rate / 3.0, 1.1));
        }
        let mut times: Vec<u64> = (0..random.usize(1..900)).map(|_| random.u64(0..450)).collect();
        times.sort_unstable();
        let rows: String = times.iter().map(|at| format!("{}.{:02}\n", at / 100, at % 100)).collect();
        vec![
            Box::new(Constant::new(agents, rate, ramp_ns, 4 * S)),
            Box::new(Poisson::new(agents, rate, ramp_ns, 4 * S, random.u64(..))),
            Box::new(recorded(&format!("at_s\n{rows}"), agents, 4 * S).unwrap()),
            Box::new(Stages::new(agents, &stages, 4 * S)),
        ]
    }

    #[test]
    fn a_finished_agent_has_no_more_starts_due() {
        let mut random = Rng::with_seed(8);
        for (kind, schedule) in each_kind(4, &mut random).iter().enumerate() {
            for from_ns in [4 * S, u64::MAX - 1, u64::MAX] {
                assert_eq!(due(schedule.as_ref(), 3, from_ns, 4 * S), [], "kind {kind}, from {from_ns}");
            }
        }
    }

    #[test]
    fn starts_ascend_and_are_counted_once_in_any_windows() {
        let mut random = Rng::with_seed(5);
        for _ in 0..60 {
            let agents = random.u32(1..20);
            for (kind, schedule) in each_kind(agents, &mut random).iter().enumerate() {
                for agent in 0..agents {
                    let own = starts(schedule.as_ref(), agent);
                    assert!(own.is_sorted_by(|one, next| one < next), "kind {kind}: {own:?}");
                    let mut cuts: Vec<u64> = (0..6).map(|_| random.u64(0..4 * S)).chain([0, 4 * S]).collect();
                    // Times at which something starts, and right after.
                    cuts.extend(own.iter().take(2).flat_map(|at| [*at, at + 1]));
                    cuts.sort_unstable();
                    for cut in cuts.windows(2) {
                        let inside: Vec<u64> = own.iter().copied().filter(|at| (cut[0]..cut[1]).contains(at)).collect();
                        let rows = due(schedule.as_ref(), agent, cut[0], cut[1]);
                        let listed: Vec<u64> =
                            rows.iter().flat_map(|due| (0..due.count).map(|place| due.at_ns(place))).collect();
                        assert_eq!(listed.len(), inside.len(), "kind {kind}, agent {agent} of {agents}, {cut:?}");
                        assert!(
                            listed.iter().zip(&inside).all(|(listed, at)| listed.abs_diff(*at) <= 2),
                            "kind {kind}"
                        );
                        let waited: i64 = inside.iter().map(|at| (5 * S - at).cast_signed()).sum();
                        let told: i64 = rows.iter().map(|due| due.waited_ns(5 * S)).sum();
                        assert!(told.abs_diff(waited) <= 2 * inside.len() as u64, "kind {kind}: {told} and {waited}");
                    }
                }
            }
        }
    }

    #[test]
    fn agents_have_equal_parts() {
        let mut random = Rng::with_seed(6);
        for agents in [1, 2, 3, 7, 19] {
            for (kind, schedule) in each_kind(agents, &mut random).iter().enumerate() {
                let counts: Vec<usize> = (0..agents).map(|agent| starts(schedule.as_ref(), agent).len()).collect();
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                // Agents that join late have fewer starts, and random starts vary.
                let fair = counts.iter().sum::<usize>() as f64 / f64::from(agents);
                let (is_random, is_ramped) = (kind == 1, kind < 2);
                assert!(is_random || is_ramped || most - least <= 1, "kind {kind}: {counts:?}");
                assert!((*most as f64) <= 2.1 * fair + 6.0 * fair.sqrt() + 2.0, "kind {kind}: {counts:?}");
            }
        }
    }
}
