//! Load of a trial: its preparation, its generators, its start and its end.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use experiment::plan::{self, FleetEngine};
use load::recorder::SampledKeys;
use load::{InputFiles, LoadOrder, LoadPurpose, ThreadInterval};
use record::clock::Clock;

use super::TrialContext;
use super::records::TrialRecords;
use super::target::TrialTarget;
use crate::Error;
use crate::fleet_placement::PlacedFleet;
use crate::load_makers::{BadEnd, PlayedLoad, RaisedFleet, ReadyFleet};
use crate::preparation::{self, Preparation};
use crate::recording::RecordedLoad;
use crate::weight::audits_one_in;

/// Time between the decision to start the load and its first operation. Meanwhile threads start and
/// record files are created.
const LEAD: Duration = Duration::from_millis(50);

/// Length of a slot in which the engine counts ended operations, seconds. The recorder merges slots
/// where detail is not needed.
const SLOT_S: f64 = 0.001;

/// The load of a trial.
pub struct LoadPhase<'a> {
    context: &'a TrialContext<'a>,
    /// Generators that outlast a trial, while no load uses them.
    kept: &'a mut Option<RaisedFleet>,
    /// Operations of each `[[prepare]]` on audited keys.
    prepared: Vec<Preparation>,
    /// Values that the preparation has kept, by slot.
    values: BTreeMap<String, String>,
    running: Option<PlayedLoad>,
    /// The recorder's channel in a trial without load. It stays open, because the recorder would
    /// take a closed channel for the end of the load.
    no_load: Option<SyncSender<ThreadInterval>>,
}

impl<'a> LoadPhase<'a> {
    pub fn new(context: &'a TrialContext<'a>, kept: &'a mut Option<RaisedFleet>) -> Self {
        Self { context, kept, prepared: Vec::new(), values: BTreeMap::new(), running: None, no_load: None }
    }

    /// Does every `[[prepare]]`.
    pub fn prepare(&mut self, target: &TrialTarget<'_>) -> Result<(), Error> {
        let interrupts = &self.context.interrupts;
        let is_interrupted = || interrupts.is_pending();
        let fleet = self.context.trial.fleet.as_ref().filter(|fleet| fleet.by.is_elsewhere());
        for prepare in &self.context.trial.prepare {
            let load = preparation::load_of(prepare, self.context.trial.load.as_ref());
            let orders = self.order(target, load, LoadPurpose::Prepare { count: prepare.count });
            let done = match fleet {
                Some(fleet) => {
                    let raised = self.raise_elsewhere(target, fleet)?;
                    let (raised, done) = raised.prepare(&orders, &is_interrupted)?;
                    *self.kept = Some(raised);
                    done
                }
                None => target.inside(|| preparation::perform(orders, &is_interrupted))?,
            };
            // An interrupted preparation keeps nothing.
            if !is_interrupted() {
                done.check(&prepare.step)?;
            }
            self.values.extend(done.kept.clone());
            self.prepared.push(done);
        }
        Ok(())
    }

    /// Starts the clock, the probes and the load.
    pub fn begin(&mut self, target: &mut TrialTarget<'_>, records: &mut TrialRecords<'_>) -> Result<(), Error> {
        target.inspect("before_load", records);
        let load = self.context.trial.load.as_ref();
        let fleet = self.raise_fleet(target, records)?;
        // The load is compiled before the clock is set, because long requests take a while.
        let here = match load {
            Some(load) if fleet.is_none() => {
                let orders = self.order(target, load.clone(), LoadPurpose::Measure);
                Some(target.inside(|| Ok(load::compile(orders)?))?)
            }
            _ => None,
        };
        let clock = Clock::starting_in(fleet.as_ref().map_or(LEAD, ReadyFleet::lead));
        records.start_clock(clock)?;
        let before = preparation::history(std::mem::take(&mut self.prepared), clock);
        let one_in = load.map_or(1, audits_one_in);
        if one_in > 1 {
            records.notice(format!(
                "only one of {one_in} audited keys is checked, with all its operations: this machine lacks the disk \
                 space or memory to check all keys"
            ));
        }
        let recorded = RecordedLoad {
            members: &target.members(),
            keys: SampledKeys::of(one_in, self.context.trial.seed),
            load_s: load.map_or(0.0, |load| load.time_s),
            checked_by: load.filter(|load| load.stop_at_violation).map(|_| self.context.trial.seed),
            whole_seconds_only: fleet.is_some(),
        };
        let (intervals, clocks) = records.begin_measuring(clock, &before, &recorded, target)?;
        match (fleet, here) {
            (Some(fleet), _) => self.running = Some(fleet.start(clock, intervals, clocks)?),
            (None, Some(compiled)) => {
                self.running = Some(target.inside(|| Ok(PlayedLoad::Here(compiled.start(clock, intervals)?)))?);
            }
            (None, None) => self.no_load = Some(intervals),
        }
        Ok(())
    }

    /// Starts the generators and sets up their load. Returns `None` if this process makes the load.
    fn raise_fleet(
        &mut self,
        target: &mut TrialTarget<'_>,
        records: &TrialRecords<'_>,
    ) -> Result<Option<ReadyFleet>, Error> {
        let trial = self.context.trial;
        let Some((fleet, load)) = trial.fleet.as_ref().zip(trial.load.as_ref()) else { return Ok(None) };
        let orders = self.order(target, load.clone(), LoadPurpose::Measure);
        let given_up = || self.context.interrupts.is_pending();
        target.inside(|| ReadyFleet::check(fleet, &orders))?;
        if fleet.by.is_elsewhere() {
            let raised = self.raise_elsewhere(target, fleet)?;
            return ReadyFleet::set_up(raised, orders, &given_up).map(Some);
        }
        let placed = if fleet.by == FleetEngine::Virtual {
            let deployment = target.deployment.as_mut().ok_or_else(|| Error::Broken("there is no lab".to_owned()))?;
            PlacedFleet::on_hosts(fleet, deployment, &records.folder.logs(), &given_up)?
        } else {
            let plimsoll = &self.context.run.plimsoll;
            target.inside(|| PlacedFleet::processes(fleet, plimsoll))?
        };
        ReadyFleet::set_up(RaisedFleet::begin(fleet, placed)?, orders, &given_up).map(Some)
    }

    /// Returns generators that outlast trials: those of the previous trial, or new ones. All of
    /// them answer. If the target already runs, the first new generator can connect to it.
    fn raise_elsewhere(&mut self, target: &TrialTarget<'_>, fleet: &plan::Fleet) -> Result<RaisedFleet, Error> {
        let given_up = || self.context.interrupts.is_pending();
        let tls = &self.context.trial.target.tls;
        let files: Vec<String> = self.context.trial.load.iter().flat_map(|load| load.files()).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).chain(tls.files()).collect();
        let kept = self.kept.take().and_then(|mut kept| {
            // If a generator was lost between two trials, no trial fails: all generators are
            // started anew.
            if kept.suits(fleet) && kept.answers(&given_up) {
                return Some(kept);
            }
            kept.end();
            None
        });
        let raised = match kept {
            Some(kept) => kept.with_files(&files, &self.context.run.files, &given_up)?,
            None => new_fleet(self.context, fleet, &files)?,
        };
        target.call_through(raised.caller());
        Ok(raised)
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether the load was started and has ended.
    pub fn is_finished(&self) -> bool {
        self.running.as_ref().is_some_and(PlayedLoad::is_finished)
    }

    /// Starts no more operations. Returns whether the load was running.
    pub fn stop(&self) -> bool {
        self.running.as_ref().map(PlayedLoad::stop).is_some()
    }

    /// Ends the load at once.
    pub fn abort(&self) {
        if let Some(load) = &self.running {
            load.abort();
        }
    }

    /// Waits for the end of a started load.
    pub fn join(&mut self) -> Option<Result<(), BadEnd>> {
        let load = self.running.take()?;
        Some(load.join().map(|kept| *self.kept = kept))
    }

    /// Closes the recorder's channel in a trial without load.
    pub fn close(&mut self) {
        self.no_load = None;
    }

    fn order(&self, target: &TrialTarget<'_>, mut load: plan::Load, purpose: LoadPurpose) -> LoadOrder {
        let own_cpus = target.deployment.as_ref().map_or(0, |deployment| deployment.client_placement().cpus().len());
        if let (None, Ok(threads @ 1..)) = (load.threads, u32::try_from(own_cpus)) {
            load.threads = Some(threads);
        }
        load.fill_in(&self.values);
        LoadOrder {
            protocol: self.context.trial.target.protocol.clone(),
            services: target.services(),
            slot_s: SLOT_S,
            load,
            purpose,
            seed: self.context.trial.seed,
            tls: self.context.trial.target.tls.clone(),
            files: InputFiles::below(&self.context.run.files),
            tether: Some(linux::ends_with_us),
            hosts: target.program_hosts(),
            without_ring: false,
            slice: None,
        }
    }
}

/// Starts new generators over ssh or on a platform.
fn new_fleet(context: &TrialContext<'_>, fleet: &plan::Fleet, files: &[&str]) -> Result<RaisedFleet, Error> {
    let TrialContext { run, registry, interrupts, .. } = context;
    let given_up = || interrupts.is_pending();
    let placed = if fleet.by == FleetEngine::Ssh {
        PlacedFleet::over_ssh(fleet, &run.plimsoll, registry, (interrupts.all.flag(), &interrupts.all.at_once()))?
    } else {
        let takes = Duration::from_secs_f64(experiment::timeline::longest_s(run.plan));
        PlacedFleet::on_platform(fleet, takes, &run.plimsoll, registry, interrupts.all.flag())?
    };
    let mut raised = RaisedFleet::begin(fleet, placed)?.with_files(files, &run.files, &given_up)?;
    let target = &context.trial.target;
    if let plan::TargetKind::Running { .. } = &target.kind {
        for url in target.urls() {
            raised = raised.reaching((&target.protocol, &url), (&target.tls, &run.files), &given_up)?;
        }
    }
    Ok(raised)
}
