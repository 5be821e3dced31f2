//! Shell of a trial: performs the conductor's actions on the lab and the load (preparation, load,
//! faults, read-back), and reports their results to the conductor, which alone decides on the next
//! action.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use experiment::catalog::Heals;
use experiment::manifest::Manifest;
use experiment::plan::{self, FleetEngine};
use fleet::calls::GeneratorCaller;
use fleet::session::SessionError;
use lab::registry::Registry;
use lab::sampling::Probes;
use lab::{Deployment, DeploymentSpec, HostTask, NotUp, StorageFigures};
use load::program_worker::{ProgramHost, ProgramResult, ProgramRunner};
use load::recorder::SampledKeys;
use load::{InputFiles, LoadOrder, LoadPurpose, ThreadInterval, TlsTrust};
use record::clock::Clock;
use record::events::{Ending, HostFigures, What};
use record::folder::TrialFolder;

use crate::Error;
use crate::conductor::{Action, Conductor, Input};
use crate::examples::ExampleBook;
use crate::fleet_placement::PlacedFleet;
use crate::load_makers::{BadEnd, PlayedLoad, RaisedFleet, ReadyFleet};
use crate::playing::Run;
use crate::preparation::{self, Preparation};
use crate::progress::{Interrupts, Observer, ProgressEvent};
use crate::read_back::{ReadBack, ReadBackResult, ReadBackSetting, read_back, read_replicas};
use crate::recording::{EventLog, RecordedLoad, Recording, RecordingEvent};
use crate::running_tasks::{RunningTasks, TaskPurpose};
use crate::schedule::Occurrence;
use crate::shared_start::{KeptParts, StandingTarget};
use crate::step_sequence::PlannedStep;
use crate::target_calls::{ProtocolCaller, TargetCalls};
use crate::weight::{DiskWatch, audits_one_in};

/// Interval at which processes, signals and the load are checked.
const GLANCE: Duration = Duration::from_millis(10);

/// Plays one trial into its folder, after removing the files of an earlier attempt. `earlier` is a
/// note on that attempt for readers of the records.
///
/// # Errors
/// The reason why the trial could not be played. Everything that it started is down again.
pub fn play(
    run: &Run<'_>,
    registry: &Registry,
    trial: &plan::Trial,
    earlier: Option<String>,
    kept: &mut KeptParts,
    observer: &mut dyn Observer,
    interrupts: &Interrupts,
) -> Result<(Ending, Option<String>), Error> {
    run.folder.discard_trial(&trial.id).map_err(Error::Record)?;
    let folder = run.folder.create_trial(&trial.id).map_err(Error::Record)?;
    let (heard_in, heard) = channel();
    let mut shell = TrialShell {
        run,
        registry,
        trial,
        kept,
        elsewhere: Arc::default(),
        event_log: EventLog::begin(&folder, run.secrets).map_err(Error::Record)?,
        examples: ExampleBook::of(trial.load.as_ref().map(load::environment_of).unwrap_or_default()),
        folder,
        observer,
        interrupts,
        answered: 0,
        disk: DiskWatch::new(),
        is_ending: false,
        clock: None,
        deployment: None,
        started_for: trial.id.clone(),
        load: None,
        probes: None,
        recording: None,
        tasks: None,
        questions: Vec::new(),
        prepared: Vec::new(),
        down: Vec::new(),
        no_load: None,
        heard_in,
        heard,
        error: None,
    };
    if let Some(text) = earlier {
        shell.note(Instant::now(), What::Notice { text });
    }
    let ended = shell.play();
    shell.event_log.end().map_err(Error::Record)?;
    match shell.error {
        Some(error) => Err(error),
        None => ended,
    }
}

struct TrialShell<'a> {
    run: &'a Run<'a>,
    registry: &'a Registry,
    trial: &'a plan::Trial,
    /// Parts that outlast a trial, while no trial uses them.
    kept: &'a mut KeptParts,
    /// Generator that calls the target in place of this process, once the generators run.
    elsewhere: Arc<Mutex<Option<GeneratorCaller>>>,
    folder: TrialFolder,
    event_log: EventLog,
    /// Failures, of which one per kind is recorded.
    examples: ExampleBook,
    observer: &'a mut dyn Observer,
    interrupts: &'a Interrupts,
    /// Number of the user's interruptions that the conductor knows.
    answered: u8,
    /// Check for free space on the disk; the trial ends when there is too little.
    disk: DiskWatch,
    is_ending: bool,
    clock: Option<Clock>,
    deployment: Option<Deployment>,
    /// Id of the trial for which the target was started.
    started_for: String,
    load: Option<PlayedLoad>,
    probes: Option<Probes>,
    recording: Option<Recording>,
    /// Programs of the current step.
    tasks: Option<RunningTasks>,
    /// Runs of the hook that names the leader.
    questions: Vec<RunningTasks>,
    /// Operations of `[[prepare]]` on audited keys.
    prepared: Vec<Preparation>,
    /// Hosts that are down from before the load to its end.
    down: Vec<String>,
    /// Kept open in a trial without load, because its recorder would take a closed channel for a
    /// failure.
    no_load: Option<SyncSender<ThreadInterval>>,
    heard_in: Sender<RecordingEvent>,
    heard: Receiver<RecordingEvent>,
    /// The first error, kept whole for the exit code.
    error: Option<Error>,
}

impl TrialShell<'_> {
    fn play(&mut self) -> Result<(Ending, Option<String>), Error> {
        let heals = |kind: &str| lab::faults::find(kind).map_or(Heals::ByItself, |kind| kind.info.heals);
        let mut conductor = Conductor::new(self.trial, self.planned_steps(heals), heals, self.has_replicas());
        // Actions, each with the time of the event that caused it.
        let mut effects: VecDeque<(Instant, Action)> = VecDeque::new();
        let queue = |effects: &mut VecDeque<_>, since, more: Vec<Action>| {
            effects.extend(more.into_iter().map(|effect| (since, effect)));
        };
        queue(&mut effects, Instant::now(), conductor.begin());
        loop {
            while let Some((since, effect)) = effects.pop_front() {
                if let Action::Finish(how, reason) = effect {
                    return Ok((how, reason));
                }
                if let Some((at, input)) = self.perform(&conductor, since, effect) {
                    queue(&mut effects, at, conductor.step(self.at_s(at), input));
                }
            }
            let input = self.wait(&conductor);
            queue(&mut effects, Instant::now(), conductor.step(self.now_s(), input));
        }
    }

    /// Whether the target can list the contents of its members.
    fn has_replicas(&self) -> bool {
        self.manifest().is_some_and(|manifest| manifest.hooks.contains_key("audit"))
    }

    /// Returns the target's manifest, if the target is a folder.
    fn manifest(&self) -> Option<Manifest> {
        let plan::TargetKind::Folder { name, .. } = &self.trial.target.kind else { return None };
        (self.run.targets)(name).map(|(manifest, _)| manifest)
    }

    /// Returns the steps, with the settings from the target and the lab.
    fn planned_steps(&self, heals: impl Fn(&str) -> Heals) -> Vec<PlannedStep> {
        let manifest = self.manifest();
        let planned = |step: &plan::Exercise| {
            let condition = step.until.as_ref().and_then(|until| manifest.as_ref()?.conditions.get(until));
            let audits = manifest.iter().flat_map(|manifest| manifest.audits.keys());
            let heals = |fault: &plan::Fault| match fault.action {
                Some(_) => Heals::ByItself,
                None => heals(&fault.kind),
            };
            PlannedStep {
                heals: step.does.iter().map(heals).collect(),
                every_s: condition.map_or(1.0, |condition| condition.every_s) / self.trial.lab.speed.clamp(0.01, 1.0),
                audits: step.audits(audits),
                plan: step.clone(),
            }
        };
        self.trial.steps.iter().map(planned).collect()
    }

    fn now_s(&self) -> f64 {
        self.at_s(Instant::now())
    }

    fn at_s(&self, at: Instant) -> f64 {
        self.clock.map_or(-1.0, |clock| clock.at_s_of(at))
    }

    /// Performs an action, whose cause happened at `since`. Returns its result with the time.
    fn perform(&mut self, conductor: &Conductor, since: Instant, effect: Action) -> Option<(Instant, Input)> {
        let mut at = None;
        let came = match effect {
            Action::Note(what) => {
                // The effect of a fault may appear before its injection is complete.
                let at = if matches!(what, What::FaultBegun { .. } | What::ActionTaken { .. }) {
                    since
                } else {
                    Instant::now()
                };
                self.note(at, what);
                return None;
            }
            Action::StartTarget => self.start_target().map(|input| self.unless_interrupted(input)),
            Action::Prepare => self.prepare().map(|()| self.unless_interrupted(Input::Prepared)),
            Action::BeginLoad => self.begin_load().map(|()| None),
            Action::AskLeader(occurrence) => Ok(self.ask_leader(occurrence)),
            Action::BeginFault(occurrence) => {
                let (begun, input) = self.begin_fault(conductor, occurrence);
                at = begun;
                Ok(Some(input))
            }
            Action::HealFault(occurrence) => Ok(Some(self.heal_fault(conductor, occurrence))),
            Action::AskCondition => self.ask_condition(conductor).map(|()| None),
            Action::AuditStep => self.audit_step(conductor).map(|()| None),
            Action::CancelPrograms => {
                self.tasks = None;
                Ok(None)
            }
            Action::Rebuild => self.rebuild().map(|()| self.unless_interrupted(Input::Rebuilt)),
            Action::EndLoad => match &self.load {
                Some(load) => {
                    load.stop();
                    Ok(None)
                }
                None => Ok(Some(Input::LoadEnded)),
            },
            Action::DropLoad => {
                if let Some(load) = &self.load {
                    load.abort();
                }
                Ok(None)
            }
            Action::ReadBack => self.read_back().map(Some),
            Action::StopTarget(at_once) => {
                self.stop_target(at_once, conductor.is_well());
                Ok(Some(Input::TargetStopped))
            }
            Action::HealStep | Action::Finish(..) => Ok(None),
        };
        let at = at.unwrap_or_else(Instant::now);
        match came {
            Ok(input) => input.map(|input| (at, input)),
            // An interruption stops work with an error, which is ignored here: `wait` returns the
            // interruption itself.
            Err(_) if self.interrupts.asked() > self.answered => None,
            Err(error) => {
                let reason = error.to_string();
                self.error.get_or_insert(error);
                Some((at, Input::Broke(reason)))
            }
        }
    }

    /// Returns the input, or `None` if the user has interrupted: `wait` then returns the
    /// interruption.
    fn unless_interrupted(&self, input: Input) -> Option<Input> {
        (self.interrupts.asked() <= self.answered).then_some(input)
    }

    /// Waits for the next event that concerns the conductor.
    fn wait(&mut self, conductor: &Conductor) -> Input {
        loop {
            let asked = self.interrupts.asked();
            if asked > self.answered {
                let again = asked > 1;
                self.answered = asked;
                return if again { Input::Aborted } else { Input::Interrupted };
            }
            if !self.is_ending
                && let Some(reason) = self.disk.runs_out(self.folder.path())
            {
                self.is_ending = true;
                self.note(Instant::now(), What::Notice { text: reason.clone() });
                return Input::Ending(reason);
            }
            self.watch_deployment();
            if self.load.as_ref().is_some_and(PlayedLoad::is_finished) {
                return self.end_load();
            }
            if let Some(input) = self.look_at_recording() {
                return input;
            }
            if let Some(input) = self.tasks.as_mut().and_then(RunningTasks::poll) {
                self.tasks = None;
                return input;
            }
            if let Some((index, input)) = self.answered() {
                drop(self.questions.swap_remove(index));
                return input;
            }
            let due_in_s = conductor.next_s().map_or(f64::INFINITY, |next_s| next_s - self.now_s());
            if due_in_s <= 0.0 {
                return Input::Tick;
            }
            let pause = GLANCE.min(Duration::try_from_secs_f64(due_in_s).unwrap_or(GLANCE));
            if let Ok(heard) = self.heard.recv_timeout(pause) {
                self.pass_on(heard);
            }
        }
    }

    /// Returns the first leader question with an answer, and the answer.
    fn answered(&mut self) -> Option<(usize, Input)> {
        self.questions.iter_mut().enumerate().find_map(|(index, question)| Some((index, question.poll()?)))
    }

    /// Takes over the target of an earlier trial if this trial can run on the same start, and stops
    /// that target if not. Returns `None` if the target has to be started.
    fn take_over(&mut self) -> Result<Option<Input>, Error> {
        let Some(mut standing) = self.kept.target.take() else { return Ok(None) };
        if !self.run.plan.shares_start(self.trial, &standing.last) {
            standing.deployment.stop()?;
            return Ok(None);
        }
        self.elsewhere = Arc::clone(&standing.elsewhere);
        let resumed = standing.deployment.resume(&self.folder.logs(), &self.caller(), self.interrupts.flag());
        match resumed {
            Ok(reset) => {
                self.note(Instant::now(), What::StartShared { of: standing.of.clone(), reset });
                self.started_for = standing.of;
                self.deployment = Some(standing.deployment);
                self.watch_deployment();
                Ok(Some(if reset { Input::TargetUp } else { Input::TargetStands }))
            }
            Err(error) if self.interrupts.asked() > self.answered => Err(error.into()),
            Err(error) => {
                let text = format!("the target of trial {} is started anew: {error}", standing.of);
                self.note(Instant::now(), What::Notice { text });
                standing.deployment.kill_all()?;
                self.elsewhere = Arc::default();
                Ok(None)
            }
        }
    }

    fn start_target(&mut self) -> Result<Input, Error> {
        self.note_versions();
        if let Some(input) = self.take_over()? {
            return Ok(input);
        }
        let (manifest, path) = match &self.trial.target.kind {
            plan::TargetKind::Folder { name, .. } => (self.run.targets)(name).unzip(),
            plan::TargetKind::Running { .. } | plan::TargetKind::Started { .. } => (None, None),
        };
        let build = DeploymentSpec {
            registry: self.registry,
            trial: self.trial,
            manifest: manifest.as_ref(),
            folder: path.as_deref(),
            logs: self.folder.logs(),
            plimsoll: self.run.plimsoll.clone(),
            storage: storage_figures(self.run, self.trial),
            at_once: self.interrupts.at_once(),
        };
        match Deployment::up(build, Arc::new(self.caller()), self.interrupts.flag()) {
            Ok(deployment) => {
                self.deployment = Some(deployment);
                self.watch_deployment();
                Ok(Input::TargetUp)
            }
            Err(NotUp { error, observed }) => {
                observed.into_iter().for_each(|observed| self.note(observed.at, observed.what));
                Err((*error).into())
            }
        }
    }

    fn caller(&self) -> ProtocolCaller {
        ProtocolCaller { calls: self.target_calls(), speed: self.trial.lab.speed }
    }

    /// Returns the way to call the target, from this process or from a generator.
    fn target_calls(&self) -> TargetCalls {
        TargetCalls {
            protocol: self.trial.target.protocol.clone(),
            trust: TlsTrust { tls: self.trial.target.tls.clone(), files: InputFiles::below(&self.run.files) },
            elsewhere: Arc::clone(&self.elsewhere),
        }
    }

    /// Stops the target or leaves it to the next trial.
    fn stop_target(&mut self, at_once: bool, is_well: bool) {
        self.tasks = None;
        self.questions.clear();
        if let Some(load) = self.load.take() {
            load.abort();
            match load.join() {
                Ok(kept) => self.kept.fleet = kept,
                Err(BadEnd::Lost { generator, heard_s, reason }) => {
                    self.note(Instant::now(), What::GeneratorLost { generator, heard_s, reason });
                }
                Err(BadEnd::Error(error)) => {
                    self.error.get_or_insert(error);
                }
            }
        }
        if let Err(error) = self.close_records() {
            self.error.get_or_insert(error);
        }
        if let Some(mut deployment) = self.deployment.take() {
            let (plan, trial) = (self.run.plan, self.trial);
            let may_stand = !at_once && is_well && self.error.is_none() && self.interrupts.asked() == 0;
            let stands = may_stand && plan.shares_start(trial, trial) && deployment.is_whole();
            let stopped = match (stands, at_once) {
                (true, _) => {
                    deployment.leave();
                    Ok(())
                }
                (false, true) => deployment.kill_all(),
                (false, false) => deployment.stop(),
            };
            for observed in deployment.poll() {
                self.note(observed.at, observed.what);
            }
            if let Err(error) = stopped {
                self.error.get_or_insert(error.into());
            }
            if stands {
                let (of, last) = (self.started_for.clone(), trial.clone());
                let elsewhere = Arc::clone(&self.elsewhere);
                self.kept.target = Some(StandingTarget { deployment, elsewhere, of, last });
            }
            self.note_versions();
        }
    }

    fn close_records(&mut self) -> Result<(), Error> {
        if let Some(probes) = self.probes.take() {
            let shares = probes.stop();
            self.note(Instant::now(), shares);
        }
        self.no_load = None;
        let ended = self.recording.take().map_or(Ok(()), Recording::end);
        while let Ok(heard) = self.heard.try_recv() {
            self.pass_on(heard);
        }
        ended
    }

    fn pass_on(&mut self, heard: RecordingEvent) {
        match heard {
            RecordingEvent::Second(second) => self.observer.tell(&ProgressEvent::Second(second)),
            RecordingEvent::Notice(text) => self.note(Instant::now(), What::Notice { text }),
            RecordingEvent::Example(example) => {
                if let Some(is) = self.examples.take(example) {
                    self.note(Instant::now(), What::Example { is });
                }
            }
        }
    }

    fn inspect(&mut self, when: &str) {
        if let Some(says) = self.deployment.as_ref().and_then(Deployment::inspect) {
            self.note(Instant::now(), What::Inspected { when: when.to_owned(), says });
        }
    }

    /// Records the versions of all software in the trial, as far as it is on this machine.
    fn note_versions(&mut self) {
        let name = match &self.trial.target.kind {
            plan::TargetKind::Folder { name, .. } => Some(name.as_str()),
            plan::TargetKind::Running { .. } | plan::TargetKind::Started { .. } => None,
        };
        let folder = name.and_then(|name| (self.run.targets)(name)).map(|(_, folder)| folder);
        let is = lab::fingerprints::fingerprints(&self.run.plimsoll, name, folder.as_deref());
        self.note(Instant::now(), What::Versions { is });
    }

    fn watch_deployment(&mut self) {
        let observed = self.deployment.as_mut().map(Deployment::poll).unwrap_or_default();
        for observed in observed {
            self.note(observed.at, observed.what);
        }
    }

    fn note(&mut self, at: Instant, what: What) {
        let is_of_fault = matches!(what, What::FaultBegun { .. } | What::FaultHealed { .. } | What::ActionTaken { .. });
        if let (true, Some(recording)) = (is_of_fault, &self.recording) {
            recording.look_closely(self.clock.map_or(0.0, |clock| clock.at_s_of(at)));
        }
        self.observer.tell(&ProgressEvent::Happened { at_s: self.clock.map(|clock| clock.at_s_of(at)), what: &what });
        if let Err(error) = self.event_log.note(at, what) {
            self.error.get_or_insert(Error::Record(error));
        }
    }
}

/// Returns the storage figures of the trial's hosts. They are measured once for each lab of the
/// run. Later trials, including those of a resumed run, read them from the records.
fn storage_figures(run: &Run<'_>, trial: &plan::Trial) -> StorageFigures {
    if !trial.lab.measure_storage {
        return StorageFigures::NotAsked;
    }
    let before = run.plan.trials.iter().take_while(|other| other.id != trial.id);
    let known = before
        .filter(|other| other.lab.has_same_hosts(&trial.lab))
        .find_map(|other| hosts_up(&run.folder.trial(&other.id)));
    known.map_or(StorageFigures::Measured, StorageFigures::Known)
}

/// Returns the figures of each host when it first came up in the trial; `None` if no host came up.
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

/// Time between the decision to start the load and its first operation, for threads and files to
/// get ready.
const LEAD: Duration = Duration::from_millis(50);

/// Length of a slot in which ended operations are counted. The recorder decides how many slots are
/// written.
const SLOT_S: f64 = 0.001;

impl TrialShell<'_> {
    fn orders(&self, mut load: plan::Load, purpose: LoadPurpose) -> LoadOrder {
        let own_cpus = self.deployment.as_ref().map_or(0, |deployment| deployment.client_placement().cpus().len());
        if let (None, Ok(threads @ 1..)) = (load.threads, u32::try_from(own_cpus)) {
            load.threads = Some(threads);
        }
        LoadOrder {
            protocol: self.trial.target.protocol.clone(),
            services: self.services(),
            slot_s: SLOT_S,
            load,
            purpose,
            seed: self.trial.seed,
            tls: self.trial.target.tls.clone(),
            files: InputFiles::below(&self.run.files),
            tether: Some(linux::ends_with_us),
            hosts: self.program_hosts(),
            without_ring: false,
            slice: None,
        }
    }

    /// Returns the services for clients, without the members that are down from before the load.
    fn services(&self) -> Vec<String> {
        self.deployment.as_ref().map(|deployment| deployment.services_but(&self.down)).unwrap_or_default()
    }

    /// Returns the hosts on which the programs of each service run.
    fn program_hosts(&self) -> Vec<ProgramHost> {
        let programs =
            self.deployment.as_ref().map(|deployment| deployment.programs_but(&self.down)).unwrap_or_default();
        let host = |programs: lab::MemberPrograms| ProgramHost {
            values: programs.values.clone(),
            folder: programs.folder.clone(),
            environment: programs.environment.clone(),
            runner: (!programs.is_here).then(|| Arc::new(OnMember(programs)) as Arc<dyn ProgramRunner>),
        };
        programs.into_iter().map(host).collect()
    }

    fn prepare(&mut self) -> Result<(), Error> {
        let (interrupts, answered) = (self.interrupts, self.answered);
        let interrupted = || interrupts.asked() > answered;
        let fleet = self.trial.fleet.as_ref().filter(|fleet| fleet.by.is_elsewhere());
        for prepare in &self.trial.prepare {
            let load = preparation::load_of(prepare, self.trial.load.as_ref());
            let orders = self.orders(load, LoadPurpose::Prepare { count: prepare.count });
            let done = match fleet {
                Some(fleet) => {
                    let (raised, done) = self.raise_elsewhere(fleet)?.prepare(&orders, &interrupted)?;
                    self.kept.fleet = Some(raised);
                    done
                }
                None => inside(self.deployment.as_ref(), || preparation::perform(orders, &interrupted))?,
            };
            self.prepared.push(done);
        }
        Ok(())
    }

    fn begin_load(&mut self) -> Result<(), Error> {
        self.inspect("before_load");
        let fleet = self.raise_fleet()?;
        // Compiled before the clock is set, because long requests take a while.
        let here = self.trial.load.clone().filter(|_| fleet.is_none());
        let here = here.map(|load| self.orders(load, LoadPurpose::Measure));
        let compile = |orders| inside(self.deployment.as_ref(), || Ok(load::compile(orders)?));
        let here = here.map(compile).transpose()?;
        let clock = Clock::starting_in(fleet.as_ref().map_or(LEAD, ReadyFleet::lead));
        self.clock = Some(clock);
        self.event_log.start_clock(clock).map_err(Error::Record)?;
        let load_s = self.trial.load.as_ref().map_or(0.0, |load| load.time_s);
        let before = preparation::history(std::mem::take(&mut self.prepared), clock);
        let one_in = self.trial.load.as_ref().map_or(1, audits_one_in);
        if one_in > 1 {
            let text = format!(
                "one of {one_in} audited keys is checked, with all its operations: all of them together would be too many for the \
                 disk and the memory of this machine"
            );
            self.note(Instant::now(), What::Notice { text });
        }
        let keys = SampledKeys::of(one_in, self.trial.seed);
        let members = self.deployment.as_ref().map(|deployment| deployment.members_but(&self.down)).unwrap_or_default();
        let whole_seconds_only = fleet.is_some();
        let load = RecordedLoad { members: &members, keys, load_s, whole_seconds_only };
        let (recording, sinks) = Recording::begin(&self.folder, clock, &before, &load, self.heard_in.clone())?;
        self.recording = Some(recording);
        let watched = self.deployment.as_ref().map(Deployment::watched).unwrap_or_default();
        let probes = self.probes.insert(Probes::start(watched.clone(), clock, sinks.samples)?);
        inside(self.deployment.as_ref(), || Ok(probes.scrape(&watched, clock, &sinks.metrics)?))?;
        match (fleet, here) {
            (Some(fleet), _) => self.load = Some(fleet.start(clock, sinks.intervals, sinks.clocks)?),
            (None, Some(compiled)) => {
                let start = || Ok(PlayedLoad::Here(compiled.start(clock, sinks.intervals)?));
                self.load = Some(inside(self.deployment.as_ref(), start)?);
            }
            (None, None) => self.no_load = Some(sinks.intervals),
        }
        Ok(())
    }

    /// Starts the generators, if the load is not made by this process.
    fn raise_fleet(&mut self) -> Result<Option<ReadyFleet>, Error> {
        let Some((fleet, load)) = self.trial.fleet.as_ref().zip(self.trial.load.as_ref()) else { return Ok(None) };
        let orders = self.orders(load.clone(), LoadPurpose::Measure);
        let (interrupts, answered, plimsoll) = (self.interrupts, self.answered, &self.run.plimsoll);
        let given_up = || interrupts.asked() > answered;
        inside(self.deployment.as_ref(), || ReadyFleet::check(fleet, &orders))?;
        if fleet.by.is_elsewhere() {
            let raised = self.raise_elsewhere(fleet)?;
            return ReadyFleet::set_up(raised, orders, &given_up).map(Some);
        }
        let placed = if fleet.by == FleetEngine::Virtual {
            let logs = self.folder.logs();
            let deployment = self.deployment.as_mut().ok_or_else(|| Error::Broken("there is no lab".to_owned()))?;
            PlacedFleet::on_hosts(fleet, deployment, &logs, &given_up)?
        } else {
            inside(self.deployment.as_ref(), || PlacedFleet::processes(fleet, plimsoll))?
        };
        ReadyFleet::set_up(RaisedFleet::begin(fleet, placed)?, orders, &given_up).map(Some)
    }

    /// Returns generators that outlast trials: those of the trial before, or new ones. All of them
    /// answer, and the first reaches a target that already runs.
    fn raise_elsewhere(&mut self, fleet: &plan::Fleet) -> Result<RaisedFleet, Error> {
        let raised = self.raised_elsewhere(fleet)?;
        *self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner) = raised.caller();
        Ok(raised)
    }

    fn raised_elsewhere(&mut self, fleet: &plan::Fleet) -> Result<RaisedFleet, Error> {
        let (interrupts, answered, plimsoll) = (self.interrupts, self.answered, &self.run.plimsoll);
        let given_up = || interrupts.asked() > answered;
        let (load, tls) = (self.trial.load.as_ref(), &self.trial.target.tls);
        let files: Vec<&str> = load.into_iter().flat_map(|load| load.files()).chain(tls.files()).collect();
        if let Some(mut kept) = self.kept.fleet.take() {
            // If a generator was lost between two trials, no trial is to blame: all are started
            // anew.
            if kept.suits(fleet) && kept.answers(&given_up) {
                return kept.with_files(&files, &self.run.files, &given_up);
            }
            kept.end();
        }
        let placed = if fleet.by == FleetEngine::Ssh {
            PlacedFleet::over_ssh(fleet, plimsoll, self.registry, (interrupts.flag(), &interrupts.at_once()))?
        } else {
            let takes = Duration::from_secs_f64(experiment::timeline::longest_s(self.run.plan));
            PlacedFleet::on_platform(fleet, takes, plimsoll, self.registry, interrupts.flag())?
        };
        let mut raised = RaisedFleet::begin(fleet, placed)?.with_files(&files, &self.run.files, &given_up)?;
        let target = &self.trial.target;
        if let plan::TargetKind::Running { .. } = &target.kind {
            for url in target.urls() {
                raised = raised.reaching((&target.protocol, &url), (&target.tls, &self.run.files), &given_up)?;
            }
        }
        Ok(raised)
    }

    fn end_load(&mut self) -> Input {
        let Some(load) = self.load.take() else { return Input::LoadEnded };
        let ended = match load.join() {
            Ok(kept) => {
                self.kept.fleet = kept;
                Input::LoadEnded
            }
            Err(BadEnd::Lost { generator, heard_s, reason }) => {
                let told = format!("generator {generator} was lost at {heard_s:.1} s: {reason}");
                self.note(Instant::now(), What::GeneratorLost { generator, heard_s, reason });
                Input::Broke(told)
            }
            Err(BadEnd::Error(error)) => self.broke(Some(error)),
        };
        // A hook of the target may take a long time, so the reason for the end is recorded first.
        self.inspect("after_load");
        ended
    }

    /// Returns the input for a recording that has stopped.
    fn look_at_recording(&mut self) -> Option<Input> {
        let recording = self.recording.as_ref()?;
        if recording.has_stopped() {
            return Some(self.recording_broke());
        }
        // The load's records also end with the load, perhaps shortly before its end is noticed. In
        // the other case the load cannot deliver its records, and ends with an error.
        (self.load.is_some() && recording.has_load_stopped()).then(|| self.end_load())
    }

    fn recording_broke(&mut self) -> Input {
        // The recording's threads end only after all their senders have ended.
        let engine = self.load.take().and_then(|load| {
            load.abort();
            match load.join() {
                Err(BadEnd::Error(error)) => Some(error),
                // The recording ended the trial.
                Ok(_) | Err(BadEnd::Lost { .. }) => None,
            }
        });
        self.broke(engine)
    }

    /// Ends the recording as well, and returns the cause of the trial's end.
    fn broke(&mut self, engine: Option<Error>) -> Input {
        let error = cause(engine, self.close_records().err());
        let reason = error.to_string();
        self.error.get_or_insert(error);
        Input::Broke(reason)
    }

    fn read_back(&mut self) -> Result<Input, Error> {
        // The load's recorder holds the history until it is closed.
        self.close_records()?;
        let (interrupts, answered) = (self.interrupts, self.answered);
        let give_up = || interrupts.asked() > answered;
        // The members come first, in their present state: a read through the service may repair
        // them.
        let asked = match &mut self.deployment {
            Some(deployment) => read_replicas(deployment, &self.folder, self.trial.has_audited_keys(), &give_up)?,
            None => None,
        };
        if let Some(ReadBackResult { rounds, settled, .. }) = asked {
            self.note(Instant::now(), What::Replicas { rounds, settled });
        }
        let (Some(deployment), Some(clock)) = (&self.deployment, self.clock) else {
            return Ok(Input::ReadBack(ReadBack::default()));
        };
        let (folder, calls, services) = (&self.folder, self.target_calls(), self.services());
        let members_told = asked.is_some_and(|asked| asked.answered > 0);
        let setting = ReadBackSetting {
            calls: &calls,
            services: &services,
            failover: self.trial.load.as_ref().map(|load| load.reconnects.failover).unwrap_or_default(),
            members_told,
            clock,
            within: Duration::from_secs_f64(self.trial.read_back_s()),
            seed: self.trial.seed,
            give_up: &give_up,
        };
        Ok(Input::ReadBack(inside(Some(deployment), || read_back(folder, &setting))?))
    }
}

/// Returns the cause of a trial whose engine or recording ended early. If the engine only found its
/// recorder gone, the recording's error is the cause. Any other error of the engine is the cause,
/// in whatever order the two ended.
fn cause(engine: Option<Error>, recording: Option<Error>) -> Error {
    match (engine, recording) {
        (Some(error), None) => error,
        (Some(error), Some(_)) if !is_only_recorder_gone(&error) => error,
        (_, Some(error)) => error,
        (None, None) => Error::Broken("recording ended before the trial".to_owned()),
    }
}

fn is_only_recorder_gone(error: &Error) -> bool {
    matches!(error, Error::Load(load::Error::RecorderGone) | Error::Fleet(SessionError::RecorderGone))
}

/// Does work in the place of the clients.
fn inside<T: Send>(
    deployment: Option<&Deployment>,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    match deployment {
        Some(deployment) => deployment.client_placement().inside(work)?,
        None => work(),
    }
}

impl TrialShell<'_> {
    /// Starts the hook that names the leader. Its answer is a later input. Returns an input at once
    /// if the hook cannot run.
    fn ask_leader(&mut self, occurrence: Occurrence) -> Option<Input> {
        let task = match self.deployment.as_ref().map(Deployment::leader_task) {
            Some(task) => task.map_err(|error| error.to_string()),
            None => Err("there is no target".to_owned()),
        };
        let start = |task| RunningTasks::start(TaskPurpose::AskLeader(occurrence), vec![task]);
        match task.and_then(|task| start(task).map_err(|error| error.to_string())) {
            Ok(question) => {
                self.questions.push(question);
                None
            }
            Err(reason) => Some(Input::LeaderNamed(occurrence, Err(reason))),
        }
    }

    /// Injects a fault. Also returns the time at which it began to act, if it did.
    fn begin_fault(&mut self, conductor: &Conductor, occurrence: Occurrence) -> (Option<Instant>, Input) {
        let fault = conductor.fault(occurrence);
        let refused = |reason: String| (None, Input::FaultRefused(occurrence, reason));
        let Some(deployment) = &mut self.deployment else { return refused("there is no target".to_owned()) };
        deployment.know_leader(conductor.leader(occurrence).cloned());
        if conductor.steps().owns(occurrence) && fault.is_program() {
            return self.begin_programs(conductor, occurrence);
        }
        let Some(kind) = lab::faults::find(&fault.kind) else {
            return refused(format!("no fault of kind `{}`", fault.kind));
        };
        match (kind.inject)(fault, occurrence.number, deployment) {
            Ok(begun) => {
                if fault.standing {
                    self.down.extend_from_slice(&begun.on);
                }
                let on = begun.on.join(", ");
                (Some(begun.at), Input::FaultBegun { occurrence, on, done_s: self.now_s() })
            }
            Err(error) => refused(error.to_string()),
        }
    }

    fn heal_fault(&mut self, conductor: &Conductor, occurrence: Occurrence) -> Input {
        let fault = conductor.fault(occurrence);
        let healed = match (&mut self.deployment, lab::faults::find(&fault.kind)) {
            (Some(deployment), Some(kind)) => {
                (kind.heal)(fault, occurrence.number, deployment).map_err(|error| error.to_string())
            }
            _ => Err("there is no target".to_owned()),
        };
        let was_undone = healed.unwrap_or_else(|reason| {
            let text = format!("fault `{}` could not be healed: {reason}", fault.name);
            self.note(Instant::now(), What::Notice { text });
            true
        });
        Input::FaultHealed(occurrence, was_undone)
    }
}

// Programs and audits of a step, and the new start of the target.

/// Additional time for a program beyond that of its step, so that the step times out first.
const BEYOND_STEP: Duration = Duration::from_millis(500);

impl TrialShell<'_> {
    /// Starts the programs of an action. It does not wait for them.
    fn begin_programs(&mut self, conductor: &Conductor, occurrence: Occurrence) -> (Option<Instant>, Input) {
        let at = Instant::now();
        let fault = conductor.fault(occurrence);
        let (step, within) = (self.step_name(conductor), self.left(conductor) + BEYOND_STEP);
        let Some(deployment) = &mut self.deployment else {
            return (None, Input::FaultRefused(occurrence, "there is no target".to_owned()));
        };
        let tasks = deployment.step_tasks(&step, fault, occurrence.number, within).map_err(|error| error.to_string());
        let started = tasks.and_then(|tasks| {
            let on: Vec<String> = tasks.iter().map(|task| task.host.clone()).collect();
            let running = RunningTasks::start(TaskPurpose::Do(occurrence), tasks);
            running.map(|running| (running, on)).map_err(|error| error.to_string())
        });
        match started {
            Ok((running, on)) => {
                self.tasks = Some(running);
                (Some(at), Input::FaultBegun { occurrence, on: on.join(", "), done_s: self.now_s() })
            }
            Err(reason) => (None, Input::FaultRefused(occurrence, reason)),
        }
    }

    fn ask_condition(&mut self, conductor: &Conductor) -> Result<(), Error> {
        let step = conductor.steps().step();
        let name = step.and_then(|step| step.plan.until.clone()).unwrap_or_default();
        let on = self.manifest().and_then(|manifest| Some(manifest.conditions.get(&name)?.on)).unwrap_or_default();
        let within = self.left(conductor);
        let tasks =
            self.deployment.as_ref().map(|deployment| deployment.condition_tasks(&name, within)).unwrap_or_default();
        self.run_tasks(TaskPurpose::Ask(on), tasks)
    }

    fn audit_step(&mut self, conductor: &Conductor) -> Result<(), Error> {
        let audits = conductor.steps().step().map(|step| step.audits.clone()).unwrap_or_default();
        let (mut names, mut tasks) = (Vec::new(), Vec::new());
        for audit in audits {
            let of_audit =
                self.deployment.as_ref().map(|deployment| deployment.audit_tasks(&audit)).unwrap_or_default();
            names.extend(of_audit.iter().map(|_| audit.clone()));
            tasks.extend(of_audit);
        }
        self.run_tasks(TaskPurpose::Audit(names), tasks)
    }

    fn run_tasks(&mut self, purpose: TaskPurpose, tasks: Vec<HostTask>) -> Result<(), Error> {
        let running = RunningTasks::start(purpose, tasks).map_err(lab::Error::system("start a thread"))?;
        self.tasks = Some(running);
        Ok(())
    }

    fn rebuild(&mut self) -> Result<(), Error> {
        let caller = self.caller();
        if let Some(deployment) = &mut self.deployment {
            let built = deployment.rebuild(&self.trial.lab, &caller, self.interrupts.flag());
            self.watch_deployment();
            built?;
        }
        Ok(())
    }

    fn step_name(&self, conductor: &Conductor) -> String {
        conductor.steps().step().map(|step| step.plan.name.clone()).unwrap_or_default()
    }

    /// Returns the time left for the current step.
    fn left(&self, conductor: &Conductor) -> Duration {
        Duration::try_from_secs_f64(conductor.steps().left_s(self.now_s())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
