//! Target of a trial: started for the trial or taken over from an earlier one, and stopped or left
//! to the next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use experiment::plan;
use fleet::calls::GeneratorCaller;
use lab::fingerprints::fingerprints;
use lab::sampling::WatchedProcesses;
use lab::{Deployment, DeploymentSpec, NotUp, StorageFigures};
use load::program_worker::{ProgramHost, ProgramResult, ProgramRunner};
use load::{InputFiles, TlsTrust};
use record::events::{HostFigures, What};
use record::folder::TrialFolder;

use super::TrialContext;
use super::records::TrialRecords;
use crate::Error;
use crate::conductor::Input;
use crate::playing::Run;
use crate::shared_start::StandingTarget;
use crate::target_calls::{ProtocolCaller, TargetCalls};

/// The target of a trial.
pub struct TrialTarget<'a> {
    context: &'a TrialContext<'a>,
    /// Target that outlasts a trial, while no trial uses it.
    standing: &'a mut Option<StandingTarget>,
    /// The running target.
    pub deployment: Option<Deployment>,
    /// Id of the trial for which the target was started.
    started_for: String,
    /// Generator that calls the target in place of this process, once the generators run.
    /// `None` otherwise.
    elsewhere: Arc<Mutex<Option<GeneratorCaller>>>,
    /// Hosts that standing faults keep down from before the load to its end.
    pub down: Vec<String>,
}

impl<'a> TrialTarget<'a> {
    pub fn new(context: &'a TrialContext<'a>, standing: &'a mut Option<StandingTarget>) -> Self {
        Self {
            context,
            standing,
            deployment: None,
            started_for: context.trial.id.clone(),
            elsewhere: Arc::default(),
            down: Vec::new(),
        }
    }

    /// Starts the target, unless this trial can take over the target of an earlier trial.
    pub fn start(&mut self, records: &mut TrialRecords<'_>) -> Result<Input, Error> {
        self.note_versions(records);
        if let Some(input) = self.take_over(records)? {
            return Ok(input);
        }
        let (manifest, path) = self.context.target_folder().unzip();
        let build = DeploymentSpec {
            registry: self.context.registry,
            trial: self.context.trial,
            manifest: manifest.as_ref(),
            folder: path.as_deref(),
            logs: records.folder.logs(),
            plimsoll: self.context.run.plimsoll.clone(),
            storage: storage_figures(self.context.run, self.context.trial),
            at_once: self.context.interrupts.all.at_once(),
        };
        match Deployment::up(build, Arc::new(self.caller()), self.context.interrupts.all.flag()) {
            Ok(deployment) => {
                self.deployment = Some(deployment);
                self.poll(records);
                Ok(Input::TargetUp)
            }
            Err(NotUp { error, observed }) => {
                records.note_all(observed);
                Err((*error).into())
            }
        }
    }

    /// Takes over the target of an earlier trial if the plan lets both share a start. Stops that
    /// target otherwise. Returns `None` if a target has to be started.
    fn take_over(&mut self, records: &mut TrialRecords<'_>) -> Result<Option<Input>, Error> {
        let Some(mut standing) = self.standing.take() else { return Ok(None) };
        if !self.context.run.plan.shares_start(self.context.trial, &standing.last) {
            standing.deployment.stop()?;
            return Ok(None);
        }
        self.elsewhere = Arc::clone(&standing.elsewhere);
        let (logs, caller) = (records.folder.logs(), self.caller());
        match standing.deployment.resume(&logs, &caller, self.context.interrupts.all.flag()) {
            Ok(reset) => {
                records.note_now(What::StartShared { of: standing.of.clone(), reset });
                self.started_for = standing.of;
                self.deployment = Some(standing.deployment);
                self.poll(records);
                Ok(Some(if reset { Input::TargetUp } else { Input::TargetStands }))
            }
            Err(error) if self.context.interrupts.is_pending() => Err(error.into()),
            Err(error) => {
                records.notice(format!("the target of trial {} is started again: {error}", standing.of));
                standing.deployment.kill_all()?;
                self.elsewhere = Arc::default();
                Ok(None)
            }
        }
    }

    /// Starts the target anew, without data.
    pub fn rebuild(&mut self, records: &mut TrialRecords<'_>) -> Result<(), Error> {
        let caller = self.caller();
        let Some(deployment) = &mut self.deployment else { return Ok(()) };
        let built = deployment.rebuild(&self.context.trial.lab, &caller, self.context.interrupts.all.flag());
        self.poll(records);
        Ok(built?)
    }

    /// Stops the target, or leaves it to the next trial if `may_stand` is set, the plan lets trials
    /// share a start, and all of the target runs. `at_once` kills it.
    pub fn stop(&mut self, records: &mut TrialRecords<'_>, (may_stand, at_once): (bool, bool)) {
        let Some(mut deployment) = self.deployment.take() else { return };
        let trial = self.context.trial;
        let stands = may_stand && self.context.run.plan.shares_start(trial, trial) && deployment.is_whole();
        let stopped = match (stands, at_once) {
            (true, _) => {
                deployment.leave();
                Ok(())
            }
            (false, true) => deployment.kill_all(),
            (false, false) => deployment.stop(),
        };
        records.note_all(deployment.poll());
        if let Err(error) = stopped {
            records.keep_error(error.into());
        }
        if stands {
            *self.standing = Some(StandingTarget {
                deployment,
                elsewhere: Arc::clone(&self.elsewhere),
                of: self.started_for.clone(),
                last: trial.clone(),
            });
        }
        self.note_versions(records);
    }

    /// Records the events of hosts and processes.
    pub fn poll(&mut self, records: &mut TrialRecords<'_>) {
        records.note_all(self.deployment.as_mut().map(Deployment::poll).unwrap_or_default());
    }

    /// Runs the target's hook `inspect`, and records its output.
    pub fn inspect(&self, when: &str, records: &mut TrialRecords<'_>) {
        if let Some(says) = self.deployment.as_ref().and_then(Deployment::inspect) {
            records.note_now(What::Inspected { when: when.to_owned(), says });
        }
    }

    /// Records the versions of the trial's software that is on this machine.
    fn note_versions(&self, records: &mut TrialRecords<'_>) {
        let folder = self.context.target_folder().map(|(_, folder)| folder);
        let (plimsoll, name) = (&self.context.run.plimsoll, self.context.target_name());
        records.note_now(What::Versions { is: fingerprints(plimsoll, name, folder.as_deref()) });
    }

    /// Does work on the CPUs and in the network of the clients.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        match &self.deployment {
            Some(deployment) => deployment.client_placement().inside(work)?,
            None => work(),
        }
    }

    /// Calls the target through this generator from now on.
    pub fn call_through(&self, generator: Option<GeneratorCaller>) {
        *self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner) = generator;
    }

    fn caller(&self) -> ProtocolCaller {
        ProtocolCaller { calls: self.calls(), speed: self.context.trial.lab.speed }
    }

    /// Returns the way to call the target, from this process or from a generator.
    pub fn calls(&self) -> TargetCalls {
        let target = &self.context.trial.target;
        TargetCalls {
            protocol: target.protocol.clone(),
            trust: TlsTrust { tls: target.tls.clone(), files: InputFiles::below(&self.context.run.files) },
            elsewhere: Arc::clone(&self.elsewhere),
        }
    }

    /// Returns the services for clients, without those of members that are down for the whole load.
    pub fn services(&self) -> Vec<String> {
        self.deployment.as_ref().map(|deployment| deployment.services_but(&self.down)).unwrap_or_default()
    }

    /// Returns the members that clients connect to, in the order of the services.
    pub fn members(&self) -> Vec<String> {
        self.deployment.as_ref().map(|deployment| deployment.members_but(&self.down)).unwrap_or_default()
    }

    pub fn watched(&self) -> WatchedProcesses {
        self.deployment.as_ref().map(Deployment::watched).unwrap_or_default()
    }

    /// Returns the host on which the load's programs run, for each service.
    pub fn program_hosts(&self) -> Vec<ProgramHost> {
        let Some(deployment) = &self.deployment else { return Vec::new() };
        deployment.programs_but(&self.down).into_iter().map(program_host).collect()
    }
}

fn program_host(programs: lab::MemberPrograms) -> ProgramHost {
    ProgramHost {
        values: programs.values.clone(),
        folder: programs.folder.clone(),
        environment: programs.environment.clone(),
        runner: (!programs.is_here).then(|| Arc::new(OnMember(programs)) as Arc<dyn ProgramRunner>),
    }
}

/// Runs the load's programs on a member's host.
#[derive(Debug)]
struct OnMember(lab::MemberPrograms);

impl ProgramRunner for OnMember {
    fn run(
        &self,
        command: Vec<String>,
        input: &str,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<ProgramResult, Option<String>> {
        match self.0.run(command, input, goes_on) {
            Ok(Some(end)) => Ok(ProgramResult { how: end.how, stdout: end.output, stderr: end.errors }),
            Ok(None) => Err(None),
            Err(error) => Err(Some(error.to_string())),
        }
    }
}

/// Returns the source of the storage figures of the trial's hosts. They are measured once for each
/// set of hosts in a run. Later trials, also of a resumed run, read them from the records.
pub fn storage_figures(run: &Run<'_>, trial: &plan::Trial) -> StorageFigures {
    if !trial.lab.measure_storage {
        return StorageFigures::NotAsked;
    }
    let before = run.plan.trials.iter().take_while(|other| other.id != trial.id);
    let known = before
        .filter(|other| other.lab.has_same_hosts(&trial.lab))
        .find_map(|other| hosts_up(&run.folder.trial(&other.id)));
    known.map_or(StorageFigures::Measured, StorageFigures::Known)
}

/// Returns the figures that each host had when it first came up in the trial; `None` if no host
/// came up.
fn hosts_up(folder: &TrialFolder) -> Option<BTreeMap<String, HostFigures>> {
    let events = record::lines::read_events(&folder.events()).ok()?;
    let mut hosts = BTreeMap::new();
    for event in events.items {
        if let What::HostUp { host, is, .. } = event.what {
            hosts.entry(host).or_insert(is);
        }
    }
    (!hosts.is_empty()).then_some(hosts)
}
