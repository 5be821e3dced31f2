//! All records of a trial, in memory. Samples, the target's own metrics and the latency log are
//! only summed. They are read last, when the measured part is known.

use std::collections::BTreeMap;

use experiment::plan;
use record::ReadError;
use record::events::{Ending, Event, HistoryEntry, Phase, What};
use record::folder::TrialFolder;
use record::hlog;
use record::lines;
use record::replicas::{self, Replica};
use record::results::{LoadStop, TargetMetric};
use record::rows::{
    self, AgentCycles, Attempts, CheckSecond, FleetSecond, GeneratorSecond, MessageSecond, Metric, OutcomeSlot,
    ProgramSample, Sample, UnitSecond,
};

use crate::latency_series::LatencySeries;
use crate::load_groups;
use crate::load_window::LoadWindow;
use crate::operations::LoadLog;
use crate::plausibility::{self, RecordedSpan};
use crate::programs::ProgramSums;
use crate::sampled::Sampled;
use crate::stats::quantile_batches::QuantileBatches;
use crate::stats::quantiles::AskedPercentile;
use crate::target_metrics::TargetMetrics;

const LOG: &str = "load.hlog";
const SAMPLES: &str = "samples.csv";
const MEMBERS: &str = "outcomes.csv of a member";

/// Records of a trial. A missing file counts as an empty one.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pub load: LoadLog,
    pub slots: Vec<OutcomeSlot>,
    /// Narrow slots, which cover only parts of the load.
    pub fine_slots: Vec<OutcomeSlot>,
    pub attempts: Vec<Attempts>,
    pub units: Vec<UnitSecond>,
    /// Messages of streams.
    pub messages: Vec<MessageSecond>,
    pub checks: Vec<CheckSecond>,
    /// Sums of the samples, read once the measured part is known.
    pub sampled: Sampled,
    pub last_sample_s: Option<f64>,
    /// Times at which the load-generating machine was sampled.
    pub machine_sampled_at_s: Vec<f64>,
    /// CPU time of the programs that the target names, also read once the measured part is known.
    pub programs: ProgramSums,
    /// Metrics that the target reports, also read once the measured part is known.
    pub metrics: BTreeMap<String, TargetMetric>,
    pub generator: Vec<GeneratorSecond>,
    /// Clock comparisons between the generators of a fleet and this machine.
    pub fleet: Vec<FleetSecond>,
    pub events: Vec<Event>,
    pub history: Vec<HistoryEntry>,
    /// Database records that members reported.
    pub replicas: Vec<Replica>,
    /// Cycles of each agent, if recorded.
    pub agent_cycles: Option<Vec<AgentCycles>>,
    /// Names of the files whose last line was cut off.
    pub torn: Vec<&'static str>,
    /// Names of missing files that every load creates before its first operation.
    pub absent: Vec<&'static str>,
}

/// Returns the names of missing files that every load creates before its first operation.
fn absent(folder: &TrialFolder) -> Vec<&'static str> {
    let begun = [
        (folder.load_hlog(), LOG),
        (folder.outcomes(), "outcomes.csv"),
        (folder.attempts(), "attempts.csv"),
        (folder.generator(), "generator.csv"),
        (folder.samples(), "samples.csv"),
        (folder.history(), "history.jsonl"),
    ];
    begun.into_iter().filter(|(path, _)| !path.exists()).map(|(_, name)| name).collect()
}

impl Evidence {
    /// Reads all records except the latency log.
    pub fn read(planned: &plan::Trial, folder: &TrialFolder) -> Result<Self, ReadError> {
        let slots = rows::read::<OutcomeSlot>(&folder.outcomes())?;
        let attempts = rows::read::<Attempts>(&folder.attempts())?;
        let units = rows::read::<UnitSecond>(&folder.units())?;
        let messages = rows::read::<MessageSecond>(&folder.messages())?;
        let checks = rows::read::<CheckSecond>(&folder.checks())?;
        let fine_slots = rows::read::<OutcomeSlot>(&folder.fine_outcomes())?;
        let mut last_sample_s: Option<f64> = None;
        let mut machine_sampled_at_s = Vec::new();
        let machine = machine_rows(planned);
        let (reach, mut row, mut sound) = (RecordedSpan::of(planned), 0, Ok(()));
        let samples_torn = rows::visit(&folder.samples(), |sample: rows::Moment| {
            row += 1;
            if sound.is_ok() {
                sound = plausibility::moment(folder, reach, row, &sample);
            }
            last_sample_s = last_sample_s.into_iter().chain([sample.at_s]).max_by(f64::total_cmp);
            if machine(&sample) {
                machine_sampled_at_s.push(sample.at_s);
            }
        })?;
        sound?;
        let generator = rows::read::<GeneratorSecond>(&folder.generator())?;
        let fleet = rows::read::<FleetSecond>(&folder.fleet())?;
        let events = lines::read_events(&folder.events())?;
        let history = lines::read::<HistoryEntry>(&folder.history())?;
        let replicas = replicas::read(&folder.replicas())?;
        let agents = rows::read::<AgentCycles>(&folder.agents())?;
        // A file that was cut off lacks agents, so it is not used.
        let knows_agents = folder.agents().exists() && !agents.torn;
        let torn = [
            (slots.torn, "outcomes.csv"),
            (fine_slots.torn, "outcomes-fine.csv"),
            (attempts.torn, "attempts.csv"),
            (units.torn, "units.csv"),
            (messages.torn, "messages.csv"),
            (checks.torn, "checks.csv"),
            (samples_torn, SAMPLES),
            (generator.torn, "generator.csv"),
            (fleet.torn, "fleet.csv"),
            (events.torn, "events.jsonl"),
            (history.torn, "history.jsonl"),
            (replicas.torn, "replicas.jsonl"),
            (agents.torn, "agents.csv"),
        ];
        let mut evidence = Self {
            load: LoadLog::default(),
            slots: slots.items,
            fine_slots: fine_slots.items,
            attempts: attempts.items,
            units: units.items,
            messages: messages.items,
            checks: checks.items,
            sampled: Sampled::default(),
            last_sample_s,
            machine_sampled_at_s,
            programs: ProgramSums::default(),
            metrics: BTreeMap::new(),
            generator: generator.items,
            fleet: fleet.items,
            events: events.items,
            history: history.items,
            replicas: replicas.items,
            agent_cycles: knows_agents.then_some(agents.items),
            torn: torn.into_iter().filter(|(torn, _)| *torn).map(|(_, name)| name).collect(),
            absent: absent(folder),
        };
        plausibility::records(folder, RecordedSpan::of(planned), &evidence)?;
        // Threads write their rows independently, and a damaged file may have any order.
        evidence.generator.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
        Ok(evidence)
    }

    /// Reads a member's own records, with the events of the whole trial. If a file of the member is
    /// cut off, `self.torn` records this.
    pub fn of_member(&mut self, planned: &plan::Trial, folder: &TrialFolder) -> Result<Self, ReadError> {
        let [slots, fine_slots] = [folder.outcomes(), folder.fine_outcomes()].map(|path| {
            let rows = rows::read::<OutcomeSlot>(&path)?;
            plausibility::slots(&path, RecordedSpan::of(planned), &rows.items).map(|()| rows)
        });
        let (slots, fine_slots) = (slots?, fine_slots?);
        if (slots.torn || fine_slots.torn) && !self.torn.contains(&MEMBERS) {
            self.torn.push(MEMBERS);
        }
        Ok(Self {
            slots: slots.items,
            fine_slots: fine_slots.items,
            events: self.events.clone(),
            last_sample_s: self.last_s(),
            ..Self::default()
        })
    }

    /// Reads the samples of the measured part. [`Self::read`] has already checked their times.
    pub fn read_samples(&mut self, folder: &TrialFolder, window: Option<&LoadWindow>) -> Result<(), ReadError> {
        self.sampled = window.map_or_else(Sampled::default, |window| Sampled::over(window.from_s, window.until_s));
        let (mut row, mut sound) = (0, Ok(()));
        let torn = rows::visit(&folder.samples(), |sample: Sample| {
            row += 1;
            if sound.is_ok() {
                sound = plausibility::sample(folder, row, &sample);
                self.sampled.add(&sample);
            }
        })?;
        sound?;
        self.sampled.settle();
        if torn && !self.torn.contains(&SAMPLES) {
            self.torn.push(SAMPLES);
        }
        Ok(())
    }

    /// Reads the metrics that the target reports, over the measured part, or over the whole trial
    /// if there is no measured part.
    pub fn read_metrics(
        &mut self,
        planned: &plan::Trial,
        folder: &TrialFolder,
        window: Option<&LoadWindow>,
    ) -> Result<(), ReadError> {
        let (from_s, until_s) = window.map_or((0.0, f64::INFINITY), |window| (window.from_s, window.until_s));
        let mut metrics = TargetMetrics::over(from_s, until_s);
        let (reach, mut row, mut sound) = (RecordedSpan::of(planned), 0, Ok(()));
        let torn = rows::visit(&folder.metrics(), |metric: Metric| {
            row += 1;
            if sound.is_ok() {
                sound = plausibility::metric(folder, reach, row, &metric);
                metrics.add(&metric);
            }
        })?;
        sound?;
        self.metrics = metrics.results();
        if torn {
            self.torn.push("metrics.csv");
        }
        Ok(())
    }

    /// Reads the CPU time of the programs that the target names, up to the end of the measured
    /// part.
    pub fn read_programs(
        &mut self,
        planned: &plan::Trial,
        folder: &TrialFolder,
        window: Option<&LoadWindow>,
    ) -> Result<(), ReadError> {
        self.programs = ProgramSums::until(window.map(|window| window.until_s));
        let (reach, mut row, mut sound) = (RecordedSpan::of(planned), 0, Ok(()));
        let torn = rows::visit(&folder.programs(), |sample: ProgramSample| {
            row += 1;
            if sound.is_ok() {
                sound = plausibility::program(folder, reach, row, &sample);
                self.programs.add(&sample);
            }
        })?;
        sound?;
        if torn {
            self.torn.push("programs.csv");
        }
        Ok(())
    }

    /// Reads the latency log. Intervals that begin in the measured part are also summed separately.
    pub fn read_log(
        &mut self,
        planned: &plan::Trial,
        folder: &TrialFolder,
        measured_s: [f64; 2],
        asked: Vec<AskedPercentile>,
    ) -> Result<(), ReadError> {
        let groups = planned.load.as_ref().map(load_groups::by_operation).unwrap_or_default();
        self.load = LoadLog::measured_from(measured_s[0]).with_groups(groups);
        self.load.batches = QuantileBatches::over(measured_s);
        self.load.asked = asked;
        let (reach, mut sound) = (RecordedSpan::of(planned), Ok(()));
        let log = hlog::visit(&folder.load_hlog(), |interval| {
            if sound.is_ok() {
                sound = plausibility::interval(folder, reach, interval);
                self.load.add(interval);
            }
        })?;
        sound?;
        if log.torn {
            self.torn.insert(0, LOG);
        }
        Ok(())
    }

    /// Returns latency over time for the chart.
    pub fn latency_series(self) -> LatencySeries {
        LatencySeries { torn: self.torn.contains(&LOG), ..self.load.series() }
    }

    /// Returns the largest error of a generator's times against the trial's clock, seconds; 0 if
    /// one process made the load.
    pub fn clock_error_s(&self) -> f64 {
        self.fleet.iter().map(|row| row.error_us / 1e6).fold(0.0, f64::max)
    }

    /// Returns how the trial ended and why, or `None` if its records end in the middle.
    pub fn ending(&self) -> Option<(Ending, Option<&str>)> {
        self.events.iter().rev().find_map(|event| match &event.what {
            What::Ended { how, reason } => Some((*how, reason.as_deref())),
            _ => None,
        })
    }

    /// Returns the time at which the trial entered a phase, seconds since load start.
    pub fn entered_s(&self, wanted: Phase) -> Option<f64> {
        self.events.iter().find(|event| event.what == What::Phase { phase: wanted }).map(|event| event.at_s)
    }

    /// Returns the early end of the load at a violation, if there was one.
    pub fn stopped(&self) -> Option<LoadStop> {
        self.events.iter().find_map(|event| match &event.what {
            What::LoadStopped { key, after_fault, .. } => {
                Some(LoadStop { at_s: event.at_s, key: key.clone(), after_fault: after_fault.clone() })
            }
            _ => None,
        })
    }

    /// Returns the last time in any record, seconds since load start.
    pub fn last_s(&self) -> Option<f64> {
        let slots = self.slots.iter().map(|slot| slot.at_s + slot.slot_s);
        let samples = self.last_sample_s.into_iter();
        let generator = self.generator.iter().map(|second| second.at_s);
        let events = self.events.iter().map(|event| event.at_s);
        slots.chain(self.load.last_s()).chain(samples).chain(generator).chain(events).max_by(f64::total_cmp)
    }
}

/// Returns a function that recognizes samples of the load-generating machine. Without a lab it is
/// the only host.
fn machine_rows(planned: &plan::Trial) -> impl Fn(&rows::Moment) -> bool + use<> {
    let is_lab = !planned.lab.hosts.is_empty();
    move |row| row.process.is_empty() && (!is_lab || row.host == rows::THIS_MACHINE)
}
