//! A small simulation of a name server with one queue, which crashes at 5 s, and of agents in a
//! closed loop. One seed determines everything.

use std::collections::VecDeque;

use record::events::{By, HistoryEntry, Outcome};

pub const RATE_PER_S: f64 = 2_500.0;
pub const ABORTED: u64 = 99;
/// Times after the crash in which nothing works, operations abort, and service is slow.
pub const DOWN_S: f64 = 0.010;
pub const ABORTING_S: f64 = 0.020;
pub const SLOW_S: f64 = 0.5;
pub const SLOW: f64 = 0.7;

pub const AGENTS: u32 = 200;
pub const RAMP_S: f64 = 1.0;
pub const TIME_S: f64 = 10.0;
pub const CRASH_S: f64 = 5.0;
/// Keys that exist before the load, and the cycles of an agent in which another key is kept.
pub const PREPARED: u64 = 60;
pub const EVERY: u32 = 40;
/// Time before the crash in which saved names are lost, in one trial.
pub const LOST_WITHIN_S: f64 = 0.2;
/// An operation that ended.
pub struct Done {
    pub operation: &'static str,
    pub outcome: Outcome,
    pub from_s: f64,
    pub at_s: f64,
}

/// Agents in a closed loop in front of one queue.
pub struct Simulation {
    random: fastrand::Rng,
    queue: VecDeque<(u32, f64)>,
    /// Current step and cycle of each agent.
    agents: Vec<(usize, u64)>,
    pub done: Vec<Done>,
    pub cycles: Vec<f64>,
    pub history: Vec<HistoryEntry>,
    lost_within_s: f64,
}

/// Steps of a cycle.
const STEPS: [&str; 4] = ["save", "load", "remove", "save_for_good"];

impl Simulation {
    /// Runs a trial to its end.
    pub fn run(seed: u64, lost_within_s: f64) -> Self {
        let mut simulation = Self {
            random: fastrand::Rng::with_seed(seed),
            queue: VecDeque::new(),
            agents: vec![(0, 1); AGENTS as usize],
            done: Vec::new(),
            cycles: Vec::new(),
            history: Vec::new(),
            lost_within_s,
        };
        for number in 1..=PREPARED {
            let at_s = -1.0 + number as f64 * 0.001;
            simulation.saved(at_s, None, "seed", &format!("seed-{number}"), number, Outcome::Ok);
        }
        simulation.play();
        simulation.read_back();
        simulation
    }

    fn play(&mut self) {
        let (mut now_s, mut started, mut crashed) = (0.0_f64, 0, false);
        let mut aborting: VecDeque<(f64, u32, f64)> = VecDeque::new();
        let mut reconnecting: VecDeque<(f64, u32)> = VecDeque::new();
        loop {
            while started < AGENTS && now_s >= RAMP_S * f64::from(started) / f64::from(AGENTS) {
                self.queue.push_back((started, now_s));
                started += 1;
            }
            let down = crashed && now_s < CRASH_S + DOWN_S;
            let slow = crashed && now_s < CRASH_S + SLOW_S;
            let rate = if slow { SLOW * RATE_PER_S } else { RATE_PER_S };
            let step_s = if down { 0.0005 } else { self.random.f64().max(1e-9).ln().abs() / rate };
            now_s += step_s.min(0.01);
            if !crashed && now_s >= CRASH_S {
                crashed = true;
                for number in 0..ABORTED {
                    let (agent, from_s) = self.queue.pop_front().unwrap();
                    let at_s = CRASH_S + ABORTING_S * number as f64 / ABORTED as f64;
                    aborting.push_back((at_s, agent, from_s));
                }
                now_s = CRASH_S;
                continue;
            }
            while aborting.front().is_some_and(|(at_s, ..)| *at_s <= now_s) {
                let (at_s, agent, from_s) = aborting.pop_front().unwrap();
                self.end(agent, from_s, at_s, Outcome::Failed);
                reconnecting.push_back((at_s + 0.002, agent));
            }
            while reconnecting.front().is_some_and(|(at_s, _)| *at_s <= now_s) {
                let (at_s, agent) = reconnecting.pop_front().unwrap();
                self.queue.push_back((agent, at_s));
            }
            if down {
                continue;
            }
            let Some((agent, from_s)) = self.queue.pop_front() else {
                if now_s > TIME_S {
                    return;
                }
                continue;
            };
            self.end(agent, from_s, now_s, Outcome::Ok);
            if now_s < TIME_S {
                self.queue.push_back((agent, now_s));
            }
        }
    }

    fn end(&mut self, agent: u32, from_s: f64, at_s: f64, outcome: Outcome) {
        let (step, cycle) = self.agents[agent as usize];
        self.done.push(Done { operation: STEPS[step], outcome, from_s, at_s });
        if STEPS[step] == "save_for_good" {
            let (space, key) = (format!("kept-{}", agent + 1), format!("kept-{cycle}"));
            self.saved(at_s, Some(agent + 1), &space, &key, cycle, outcome);
        }
        let last = if cycle.is_multiple_of(u64::from(EVERY)) { 3 } else { 2 };
        if outcome == Outcome::Ok && step < last {
            self.agents[agent as usize] = (step + 1, cycle);
        } else {
            self.agents[agent as usize] = (0, cycle + 1);
            if outcome == Outcome::Ok {
                self.cycles.push(at_s);
            }
        }
    }

    fn saved(&mut self, at_s: f64, agent: Option<u32>, space: &str, key: &str, number: u64, outcome: Outcome) {
        self.history.push(HistoryEntry {
            at_s: micros(at_s),
            by: if agent.is_some() { By::Load } else { By::Prepare },
            agent,
            effect: "write".into(),
            space: space.into(),
            key: key.into(),
            value: Some(format!("v-{number}")),
            outcome,
            applied: (outcome == Outcome::Ok).then_some(true),
            ..HistoryEntry::default()
        });
    }

    fn read_back(&mut self) {
        let written = self.history.clone();
        for (number, line) in written.into_iter().enumerate() {
            let lost = (CRASH_S - self.lost_within_s..CRASH_S).contains(&line.at_s) || line.applied.is_none();
            self.history.push(HistoryEntry {
                at_s: micros(TIME_S + 0.5 + number as f64 * 0.0002),
                start_s: None,
                by: By::Audit,
                agent: None,
                effect: "read".into(),
                value: line.value.filter(|_| !lost),
                outcome: Outcome::Ok,
                applied: Some(true),
                ..line
            });
        }
    }
}

/// Rounds to the microsecond, as in a record.
pub fn micros(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
