//! Run folders of simulated trials, in the formats that `plimsoll run` writes.

use std::path::Path;

use experiment::plan::{self, Claim, Fault, Load, Plan, Step, Target, TargetKind, Trial, Warmup, When};
use hdrhistogram::Histogram;
use record::events::{Ending, Event, Outcome, Phase, RunEnding, What};
use record::folder::{RunFolder, TrialFolder};
use record::hlog::{HlogWriter, Tag, Time};
use record::lines::JsonLinesWriter;
use record::results::Results;
use record::rows::{Attempts, CsvWriter, GeneratorSecond, OutcomeSlot, Sample};
use serde::Serialize;

use crate::exit::Failure;

/// Number of agents of each simulated load.
pub const AGENTS: u32 = 64;
/// Name of the operation of each simulated load.
const OPERATION: &str = "get";
/// Name of the host of each simulated run.
const HOST: &str = "local";

/// A simulated trial.
pub struct SyntheticTrial {
    /// The trial as planned.
    pub planned: Trial,
    /// Length of a slot, seconds.
    pub slot_s: f64,
    /// Number of operations that ended `ok`, per slot.
    pub ok: Vec<u32>,
    /// Latencies of each second, nanoseconds. If `None`, they are those of a closed loop of
    /// [`AGENTS`] agents whose operations end as `ok` says.
    pub latencies: Option<Vec<Histogram<u64>>>,
    /// CPU time that the hypervisor stole, and CPU time that other processes took, percent.
    pub beside_pct: [f64; 2],
    /// Start of the load, Unix time in seconds.
    pub started_unix_s: f64,
}

impl SyntheticTrial {
    /// Returns a trial of a closed loop in which these operations end in each slot. No other
    /// program uses its machine.
    pub fn of(planned: Trial, slot_s: f64, ok: Vec<u32>) -> Self {
        let started_unix_s = 1_800_000_000.0 + 100.0 * f64::from(planned.repeat);
        Self { planned, slot_s, ok, latencies: None, beside_pct: [0.0; 2], started_unix_s }
    }
}

/// Returns the plan of a trial of this length. `number` is the trial's position, from 1.
pub fn planned(number: u32, time_s: f64, warmup: Warmup) -> Trial {
    let load = Load {
        agents: AGENTS,
        time_s,
        timeout_s: 1.0,
        drain_s: 1.0,
        warmup,
        steps: vec![Step { call: OPERATION.into(), name: OPERATION.into(), ..Step::default() }],
        ..Load::default()
    };
    Trial {
        id: format!("{number:03}"),
        repeat: number,
        seed: 1,
        target: Target {
            kind: TargetKind::Running { url: "http://127.0.0.1:1".into() },
            protocol: "http".into(),
            ..Target::default()
        },
        load: Some(load),
        ..Trial::default()
    }
}

/// Name of the simulated fault.
pub const FAULT: &str = "planted";

/// Adds a fault at `at_s` to the plan of a trial.
pub fn with_fault(mut planned: Trial, at_s: f64) -> Trial {
    planned.faults = vec![Fault {
        name: FAULT.into(),
        kind: "call".into(),
        when: When::At(at_s),
        seed: 1,
        label: "a call".into(),
        colour: "#cc0000".into(),
        ..Fault::default()
    }];
    planned
}

/// Returns a plan of these trials.
pub fn plan_of(trials: Vec<Trial>) -> Plan {
    Plan {
        format: plan::FORMAT,
        title: "Simulated".into(),
        asks: "Does the analysis find the known truth?".into(),
        variants: Vec::new(),
        swept: Vec::new(),
        stop: None,
        trials,
        requirements: Vec::new(),
        claims: Vec::new(),
        find: None,
        demand: None,
    }
}

/// The variants, swept paths and claims of a simulated run.
#[derive(Default)]
pub struct SimulatedPlan<'a> {
    pub variants: &'a [&'a str],
    pub swept: &'a [&'a str],
    pub claims: &'a [Claim],
}

/// Writes a run of these trials into a new folder.
pub fn write(path: &Path, plan: &SimulatedPlan<'_>, trials: &[SyntheticTrial]) -> Result<RunFolder, Failure> {
    write_records(path, plan, trials).map_err(Failure::file(format!("cannot write {}", path.display())))
}

fn write_records(path: &Path, plan: &SimulatedPlan<'_>, trials: &[SyntheticTrial]) -> std::io::Result<RunFolder> {
    std::fs::create_dir_all(path)?;
    let folder = RunFolder::at(path);
    let trials_planned = trials.iter().map(|trial| trial.planned.clone()).collect();
    let [variants, swept] =
        [plan.variants, plan.swept].map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    let plan = Plan { variants, swept, claims: plan.claims.to_vec(), ..plan_of(trials_planned) };
    write_json(&folder.plan(), &plan)?;
    for trial in trials {
        trial.write(&folder.create_trial(&trial.planned.id)?)?;
    }
    write_json(&folder.ending(), &RunEnding { how: Ending::Done, reason: None, stops: Vec::new() })?;
    Ok(folder)
}

/// Writes a file without waiting for the disk: the file is read at once, and then removed.
fn write_json<T: Serialize>(path: &Path, value: &T) -> std::io::Result<()> {
    std::fs::write(path, serde_json::to_vec(value)?)
}

/// Writes a run with results but without records.
pub fn write_results(path: &Path, results: &Results) -> Result<(), Failure> {
    let folder = RunFolder::at(path);
    std::fs::create_dir_all(path)
        .and_then(|()| write_json(&folder.plan(), &plan_of(vec![planned(1, 10.0, Warmup::Seconds(0.0))])))
        .and_then(|()| write_json(&folder.analysis(), results))
        .map_err(Failure::file(format!("cannot write {}", path.display())))
}

impl SyntheticTrial {
    fn write(&self, files: &TrialFolder) -> std::io::Result<()> {
        let seconds = self.seconds()?;
        self.write_slots(files)?;
        self.write_log(files, &seconds)?;
        self.write_generator(files, &seconds)?;
        self.write_samples(files, seconds.len())?;
        self.write_events(files)?;
        CsvWriter::<Attempts>::create(&files.attempts())?.flush()?;
        std::fs::write(files.history(), "")
    }

    fn length_s(&self) -> f64 {
        self.ok.len() as f64 * self.slot_s
    }

    fn slots_in_second(&self) -> usize {
        (1.0 / self.slot_s).round() as usize
    }

    fn write_slots(&self, files: &TrialFolder) -> std::io::Result<()> {
        let mut rows = CsvWriter::create(&files.outcomes())?;
        for (slot, &ok) in self.ok.iter().enumerate().filter(|(_, ok)| **ok > 0) {
            // `outcomes.csv` has six decimals for a slot's start.
            let at_s = (slot as f64 * self.slot_s * 1e6).round() / 1e6;
            rows.write(&OutcomeSlot { at_s, slot_s: self.slot_s, ok, ..OutcomeSlot::default() })?;
        }
        rows.flush()
    }

    /// Returns a histogram for each second, with the latencies of the operations that ended in it,
    /// nanoseconds.
    fn seconds(&self) -> std::io::Result<Vec<Histogram<u64>>> {
        if let Some(latencies) = &self.latencies {
            return Ok(latencies.clone());
        }
        let (ok, slot_s) = (&self.ok, self.slot_s);
        let mut times = ClosedLoop { ok, slot_s, slot: 0, ended: 0.0, begun: 0, ended_before_begun: 0.0 };
        let mut seconds = Vec::new();
        for slots in self.ok.chunks(self.slots_in_second()) {
            let mut histogram = histogram()?;
            for &ok in slots {
                let latency_ns = (times.next() * 1e9) as u64;
                histogram.record_n(latency_ns, u64::from(ok)).map_err(std::io::Error::other)?;
            }
            seconds.push(histogram);
        }
        Ok(seconds)
    }

    fn write_log(&self, files: &TrialFolder, seconds: &[Histogram<u64>]) -> std::io::Result<()> {
        let mut log = HlogWriter::create(&files.load_hlog(), self.started_unix_s)?;
        let tag = Tag { operation: OPERATION.into(), outcome: Outcome::Ok, time: Time::Latency }.to_string();
        for (second, histogram) in seconds.iter().enumerate().filter(|(_, histogram)| !histogram.is_empty()) {
            log.write(&tag, second as f64, 1.0, histogram)?;
        }
        log.flush()
    }

    fn write_generator(&self, files: &TrialFolder, seconds: &[Histogram<u64>]) -> std::io::Result<()> {
        let mut rows = CsvWriter::create(&files.generator())?;
        for (second, histogram) in seconds.iter().enumerate() {
            let latency_sum_s = histogram.mean() / 1e9 * histogram.len() as f64;
            rows.write(&GeneratorSecond {
                at_s: second as f64 + 1.0,
                interval_s: 1.0,
                cpu_pct: 10.0,
                run_delay_pct: Some(0.1),
                late_us_p99: Some(20.0),
                late_us_max: Some(50.0),
                agents: AGENTS,
                in_flight_mean: latency_sum_s,
                operations: histogram.len(),
                latency_sum_s,
                cycles: histogram.len(),
                connects: if second == 0 { u64::from(AGENTS) } else { 0 },
                ..GeneratorSecond::default()
            })?;
        }
        rows.flush()
    }

    fn write_samples(&self, files: &TrialFolder, seconds: usize) -> std::io::Result<()> {
        let mut rows = CsvWriter::create(&files.samples())?;
        let [steal, strangers] = self.beside_pct;
        for second in 0..=seconds {
            rows.write(&Sample {
                at_s: second as f64 + 0.25,
                host: HOST.into(),
                cpu_user_pct: Some(20.0),
                cpu_system_pct: Some(5.0),
                cpu_iowait_pct: Some(0.0),
                cpu_steal_pct: Some(steal),
                cpu_strangers_pct: Some(strangers),
                memory_used_bytes: Some(1 << 30),
                memory_available_bytes: Some(8 << 30),
                ..Sample::default()
            })?;
        }
        rows.flush()
    }

    fn write_events(&self, files: &TrialFolder) -> std::io::Result<()> {
        let until_s = self.length_s();
        let begun = self.planned.faults.iter().filter_map(|fault| match fault.when {
            When::At(at_s) => Some((at_s, FAULT.to_owned(), fault.kind.clone())),
            _ => None,
        });
        let begun =
            begun.map(|(at_s, fault, kind)| (at_s, What::FaultBegun { fault, number: 1, kind, on: HOST.into() }));
        let mut events =
            vec![(0.0, What::Clock { unix_s: self.started_unix_s }), (0.0, What::Phase { phase: Phase::Load })];
        events.extend(begun);
        events.push((until_s, What::Phase { phase: Phase::Draining }));
        events.push((until_s + 0.1, What::Phase { phase: Phase::Stopping }));
        events.push((until_s + 0.2, What::Ended { how: Ending::Done, reason: None }));
        let mut writer = JsonLinesWriter::create(&files.events())?;
        for (at_s, what) in events {
            writer.write(&Event { at_s, what })?;
        }
        writer.flush()
    }
}

/// Returns an empty histogram for nanoseconds.
pub fn histogram() -> std::io::Result<Histogram<u64>> {
    // The histogram resizes as needed.
    Histogram::new(3).map_err(std::io::Error::other)
}

/// Latencies of agents in a closed loop. Each agent starts its next operation when the last one
/// ends, and the server serves agents in turn. So an operation began when the operation [`AGENTS`]
/// places earlier ended.
struct ClosedLoop<'a> {
    ok: &'a [u32],
    slot_s: f64,
    /// Index of the next slot.
    slot: usize,
    /// Number of operations that ended before the next slot.
    ended: f64,
    /// Index of the slot in which the next operation began.
    begun: usize,
    /// Number of operations that ended before the slot `begun`.
    ended_before_begun: f64,
}

impl ClosedLoop<'_> {
    /// Returns the mean latency of the operations that end in the next slot, seconds.
    fn next(&mut self) -> f64 {
        let count = f64::from(self.ok[self.slot]);
        let place = self.ended + count / 2.0 - f64::from(AGENTS);
        while self.begun < self.slot && self.ended_before_begun + f64::from(self.ok[self.begun]) <= place {
            self.ended_before_begun += f64::from(self.ok[self.begun]);
            self.begun += 1;
        }
        let within = (place - self.ended_before_begun) / f64::from(self.ok[self.begun].max(1));
        let began = if place <= 0.0 { 0.0 } else { self.begun as f64 + within.min(1.0) };
        let latency_s = (self.slot as f64 + 0.5 - began) * self.slot_s;
        self.ended += count;
        self.slot += 1;
        latency_s.max(1e-5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_loop_keeps_littles_law_through_a_stall() {
        // 64 agents at 1,000/s wait 64 ms. Operations that a stall of 0.5 s holds up wait 0.5 s
        // longer.
        let mut ok = vec![10; 400];
        ok[200..250].fill(0);
        let mut times = ClosedLoop { ok: &ok, slot_s: 0.01, slot: 0, ended: 0.0, begun: 0, ended_before_begun: 0.0 };
        let latencies: Vec<f64> = ok.iter().map(|_| times.next()).collect();
        assert!((latencies[150] - 0.064).abs() < 0.006, "{}", latencies[150]);
        assert!((latencies[251] - 0.564).abs() < 0.006, "{}", latencies[251]);
        assert!((latencies[300] - 0.064).abs() < 0.006, "{}", latencies[300]);
    }
}
