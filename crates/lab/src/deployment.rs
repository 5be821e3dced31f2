//! A deployment: the target of one trial on its hosts, from its start to its stop, and the
//! operations on it meanwhile.

mod bring_up;
mod generators;
mod host_tasks;
mod injection;
mod layout;
mod shared_start;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use experiment::plan;
use experiment::tier::{Tier, TierMedium};
use record::events::{HostFigures, TierFigures, What};
use record::replicas::{Replica, ReplicaContents, ReplicaValue};
use runner::MARK;
use runner::plain_text;
use runner::process_tree::Member;
use rustix::process::Signal;
use serde_json::Value;

pub use generators::LabGenerator;
pub use host_tasks::{HostTask, TaskEnd};
pub(crate) use layout::stop_signal;

use crate::deployment_spec::{DeploymentSpec, StorageFigures};
use crate::hooks::{self, AUDIT_BYTES, Hook};
use crate::host::{Host, HostKind, on_each_host};
use crate::host_process::ProcessExit;
use crate::member_programs::MemberPrograms;
use crate::placement::ClientPlacement;
use crate::process_log::LogMatch;
use crate::registry::RegistryWriter;
use crate::sampling::{ProbeSources, WatchedProcesses};
use crate::session::{ENDED_AT_ONCE, RUNNER_GONE};
use crate::tiers;
use crate::{Caller, Error};
use bring_up::slowdown;
use layout::{HookHost, ProcessSlot};

/// Number of last output lines that are recorded if a process ends unexpectedly.
const LAST_LINES: usize = 10;

pub(crate) type Hosts = Vec<Box<dyn Host>>;

/// Failure to start a target.
#[derive(Debug)]
pub struct NotUp {
    pub error: Box<Error>,
    /// Events of hosts and processes until all were down again.
    pub observed: Vec<HostEvent>,
}

/// An event of a host or of a target process.
#[derive(Debug, Clone, PartialEq)]
pub struct HostEvent {
    /// Time at which the lab noticed the event.
    pub at: Instant,
    /// `HostUp`, `HostDown`, `SwitchLost`, `ProcessUp`, `ProcessDown` or `Log`, or a `Notice` about
    /// them.
    pub what: What,
}

/// A running target.
pub struct Deployment {
    hosts: Hosts,
    /// State of each host, in the order of `hosts`.
    presence: Vec<HostRecord>,
    client_placement: Arc<ClientPlacement>,
    /// Processes in start order: rank by rank, and role by role.
    posts: Vec<ProcessSlot>,
    /// Destinations of the load; at least one.
    services: Vec<String>,
    /// Sends operations from the place where the clients run.
    caller: Arc<dyn Caller>,
    ledger: Arc<RegistryWriter>,
    /// Name to path in the target's folder.
    hooks: BTreeMap<String, String>,
    hook_hosts: Vec<HookHost>,
    /// Every host, with the environment of the user's commands there.
    command_hosts: Vec<HookHost>,
    observed: VecDeque<HostEvent>,
    watched: WatchedProcesses,
    broken: injection::ActiveFaults,
    /// Whether the user wants to end at once.
    at_once: Arc<AtomicBool>,
    /// Whether the loss of the switch was reported.
    is_switch_lost: bool,
}

impl Deployment {
    /// Starts the target and waits until it is ready. On failure, stops everything again.
    ///
    /// # Errors
    /// The cause, such as a missing program, a taken port, or a process that ended or was not ready
    /// in time. [`Error::Interrupted`] once `stop` is set.
    pub fn up(build: DeploymentSpec<'_>, caller: Arc<dyn Caller>, stop: &AtomicBool) -> Result<Self, NotUp> {
        bring_up::up(&build, caller, stop)
    }

    /// Starts the target on existing hosts.
    #[cfg(test)]
    pub(crate) fn up_on(
        hosts: Hosts,
        client_placement: ClientPlacement,
        build: &DeploymentSpec<'_>,
        caller: Arc<dyn Caller>,
        stop: &AtomicBool,
    ) -> Result<Self, NotUp> {
        bring_up::up_on(hosts, client_placement, build, caller, stop)
    }

    /// Returns the load's destinations: `host:port` of every serving host, in order, or the URLs
    /// that the experiment gives.
    #[must_use]
    pub fn services(&self) -> Vec<String> {
        self.services.clone()
    }

    /// Returns the load's destinations without those on `down` hosts, or all if none remains.
    /// Clients that know about the `down` hosts use these.
    #[must_use]
    pub fn services_but(&self, down: &[String]) -> Vec<String> {
        let services: Vec<String> = self.serving(down).filter_map(|post| post.service.clone()).collect();
        if services.is_empty() { self.services.clone() } else { services }
    }

    /// Returns the host names of [`Self::services_but`], in the same order. With several URLs,
    /// returns their `host:port`. With one URL, returns none.
    #[must_use]
    pub fn members_but(&self, down: &[String]) -> Vec<String> {
        let names = |down| self.serving(down).map(|post| self.hosts[post.host].name().to_owned()).collect::<Vec<_>>();
        let up = names(down);
        let up = if up.is_empty() { names(&[]) } else { up };
        if up.is_empty() && self.services.len() > 1 { crate::readiness::places(&self.services) } else { up }
    }

    /// Returns the places to run the programs of [`Self::services_but`], in the same order. Empty
    /// if clients use a service that is not a member.
    #[must_use]
    pub fn programs_but(&self, down: &[String]) -> Vec<MemberPrograms> {
        let place = |post: &ProcessSlot| self.hook_hosts.iter().find(|place| place.host == post.host);
        let programs = |down| self.serving(down).map(|post| Some(self.programs_at(place(post)?))).collect();
        let up: Option<Vec<_>> = programs(down);
        up.filter(|up| !up.is_empty()).or_else(|| programs(&[])).unwrap_or_default()
    }

    fn programs_at(&self, place: &HookHost) -> MemberPrograms {
        let host = &self.hosts[place.host];
        let mut environment = place.environment.clone();
        environment.insert(MARK.to_owned(), self.ledger.id().into());
        MemberPrograms {
            host: host.name().to_owned(),
            values: place.values.clone(),
            folder: place.folder.clone(),
            environment,
            is_here: host.kind() == HostKind::ThisMachine,
            sources: self.watched.sources.clone(),
        }
    }

    /// Returns the serving processes on hosts that are not `down`.
    fn serving(&self, down: &[String]) -> impl Iterator<Item = &ProcessSlot> {
        let is_down = move |post: &ProcessSlot| down.iter().any(|host| host == self.hosts[post.host].name());
        self.posts.iter().filter(move |post| post.service.is_some() && !is_down(post))
    }

    /// Returns the first destination of the load.
    #[must_use]
    pub fn service(&self) -> String {
        self.services.first().cloned().unwrap_or_default()
    }

    /// Returns where the clients run.
    #[must_use]
    pub fn client_placement(&self) -> &ClientPlacement {
        &self.client_placement
    }

    /// Returns the target's running processes.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.watched.members()
    }

    /// Returns the processes that the probes sample. The value follows restarts.
    #[must_use]
    pub fn watched(&self) -> WatchedProcesses {
        self.watched.clone()
    }

    /// Returns the events of hosts and processes since the previous `poll`.
    pub fn poll(&mut self) -> Vec<HostEvent> {
        self.look();
        let mut observed: Vec<HostEvent> = self.observed.drain(..).collect();
        // Log lines carry the time at which they arrived, which may precede other events.
        observed.sort_by_key(|observed| observed.at);
        observed
    }

    /// Collects events for the next [`Deployment::poll`].
    fn look(&mut self) {
        self.note_hosts();
        self.note_switch();
        for index in 0..self.posts.len() {
            self.note_end(index);
        }
        self.go_on_restarting();
        self.note_heard();
    }

    /// Stops the target in reverse start order. Asks each process to end, then kills it with all
    /// its children. Ends the hosts too.
    ///
    /// # Errors
    /// If any part of the target is left.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.take_down(bring_up::StopMode::InOrder)
    }

    /// Ends the target and its hosts at once.
    ///
    /// # Errors
    /// If any part of the target is left.
    pub fn kill_all(&mut self) -> Result<(), Error> {
        self.take_down(bring_up::StopMode::AtOnce)
    }

    /// Queues the log lines that belong into the records.
    fn note_heard(&mut self) {
        for post in &self.posts {
            let host = self.hosts[post.host].name();
            self.observed
                .extend(post.start.log_watcher.take().into_iter().map(|heard| told(heard, host, &post.start.role)));
        }
    }

    /// Queues the end of a slot's process if it has ended, and drops the process.
    fn note_end(&mut self, index: usize) {
        let Some(post) = self.posts.get_mut(index) else { return };
        let Some(ended) = post.process.as_mut().and_then(|process| process.ended()) else { return };
        let host = post.host;
        // Checks the host first: the process may only seem to have ended because its host is gone.
        if self.presence.get(host).is_some_and(HostRecord::is_up) && !self.hosts[host].is_up() {
            return self.host_down(host, false);
        }
        let Some(post) = self.posts.get_mut(index) else { return };
        let expected = post.end_expected || (post.may_detach && ended == ProcessExit::Exit(0));
        // A process that ends unexpectedly may have printed the reason.
        let said = if expected { None } else { post.process.as_mut().map(|process| process.last_lines()) };
        let mut last_lines = said.unwrap_or_default();
        last_lines.drain(..last_lines.len().saturating_sub(LAST_LINES));
        let what = What::ProcessDown {
            host: self.hosts[post.host].name().to_owned(),
            process: post.start.role.clone(),
            how: ended.to_string(),
            expected,
            last_lines,
        };
        // Keeps the process: its group may live on, and its id is needed to end the group.
        post.last = post.process.take();
        self.observed.push_back(HostEvent { at: Instant::now(), what });
        self.watch();
    }

    /// Passes the running processes to the probes.
    fn watch(&self) {
        let running = self.posts.iter().filter_map(|post| {
            let pid = post.process.as_ref()?.pid();
            let (host, role) = (self.hosts[post.host].name().to_owned(), post.start.role.clone());
            Some(Member { host, role, pid, programs: post.start.programs.clone() })
        });
        self.watched.set(running.collect());
    }
}

/// Converts a log line into an event.
fn told(heard: LogMatch, host: &str, role: &str) -> HostEvent {
    let LogMatch { at, text, alarming, line, left_out } = heard;
    let what = What::Log { host: host.to_owned(), process: role.to_owned(), line, text, alarming, left_out };
    HostEvent { at, what }
}

// The hooks of a deployment's target. They run for the first member that is up: on its host if the
// host has a runner, otherwise on this machine.

/// Time limit of a hook that queries a running target.
const ASK_PATIENCE: Duration = Duration::from_secs(10);

/// A hook with its host.
pub struct HookCall<'a> {
    hook: Hook,
    host: &'a dyn Host,
}

impl HookCall<'_> {
    /// Runs the hook. Returns the JSON object that it prints.
    pub fn ask(&self) -> Result<Value, Error> {
        if self.host.session().is_some() { self.hook.ask_on(self.host) } else { self.hook.ask() }
    }
}

impl Deployment {
    /// Returns the output of the target's hook `inspect`, or `None` without that hook. A failure is
    /// returned as `{"failed": "…"}`.
    #[must_use]
    pub fn inspect(&self) -> Option<Value> {
        let hook = self.hook("inspect", ASK_PATIENCE)?;
        Some(hook.ask().unwrap_or_else(|error| serde_json::json!({ "failed": error.to_string() })))
    }

    fn hook(&self, name: &str, within: Duration) -> Option<HookCall<'_>> {
        let is_up = |index: usize| self.hosts.get(index).is_some_and(|host| host.is_up());
        let place = self.hook_hosts.iter().find(|place| is_up(place.host)).or_else(|| self.hook_hosts.first())?;
        let hook = self.hook_at(place, name, within)?;
        Some(HookCall { hook, host: self.hosts.get(place.host)?.as_ref() })
    }

    /// Returns the environment of a hook or a command on a host.
    fn environment_at(&self, place: &HookHost, host: &str) -> BTreeMap<String, OsString> {
        let mut environment = place.environment.clone();
        environment.insert(MARK.to_owned(), self.ledger.id().into());
        for member in self.members().iter().filter(|member| member.host == host) {
            environment.insert(hooks::variable("PLIMSOLL_PID_", &member.role), member.pid.to_string().into());
        }
        environment
    }

    /// Returns the hook for one member.
    fn hook_at(&self, place: &HookHost, name: &str, within: Duration) -> Option<Hook> {
        let path = hooks::path(&place.folder, &self.hooks, name)?;
        let host = self.hosts.get(place.host)?;
        let environment = self.environment_at(place, host.name());
        Some(Hook {
            name: name.to_owned(),
            folder: place.folder.clone(),
            path,
            arguments: Vec::new(),
            environment,
            within: within.mul_f64(slowdown(self.speed())),
            answer_bytes: hooks::ANSWER_BYTES,
            in_foreground: false,
        })
    }
}

// Reads every member's records with the target's hook `audit`. Asks each member separately, all in
// parallel.

/// Name of the hook.
const AUDIT: &str = "audit";
/// Time limit of the hook. A slow core may need seconds for tens of thousands of records.
const AUDIT_PATIENCE: Duration = Duration::from_secs(60);

/// Result of an audit of one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberAnswer {
    /// Records that the member holds.
    pub replica: Replica,
    /// Whether the member runs. If it does not, a retry is useless.
    pub is_up: bool,
}

impl Deployment {
    /// Whether the target can list its members' records.
    #[must_use]
    pub fn can_audit(&self) -> bool {
        self.hooks.contains_key(AUDIT) && !self.hook_hosts.is_empty()
    }

    /// Reads the records of every member that is up. For the others, returns the reason. Empty
    /// without the hook.
    pub fn audit(&mut self) -> Vec<MemberAnswer> {
        if !self.can_audit() {
            return Vec::new();
        }
        self.look();
        let places = self.hook_hosts.clone();
        let mut asked: Vec<Option<Result<Hook, String>>> = self.hosts.iter().map(|_| None).collect();
        for place in &places {
            if let Some(asked) = asked.get_mut(place.host) {
                *asked = Some(self.question(place));
            }
        }
        let answers = on_each_host(&mut self.hosts, |index, host| {
            Ok(asked.get(index).and_then(Option::as_ref).map(|hook| ask(hook.as_ref(), host)))
        });
        let mut answers: Vec<_> = answers.into_iter().map(Some).collect();
        let of_place = |place: &HookHost| {
            let member = self.hosts.get(place.host).map(|host| host.name().to_owned()).unwrap_or_default();
            let holds = match answers.get_mut(place.host).and_then(Option::take) {
                Some(Ok(Some(holds))) => holds,
                Some(Err(error)) => Err(error.to_string()),
                Some(Ok(None)) | None => Err("nobody asked it".to_owned()),
            };
            let is_up = asked.get(place.host).is_some_and(|asked| matches!(asked, Some(Ok(_))));
            MemberAnswer { replica: Replica { member, holds }, is_up }
        };
        places.iter().map(of_place).collect()
    }

    /// Returns the hook for one member, or the reason for not running it.
    fn question(&self, place: &HookHost) -> Result<Hook, String> {
        if !self.hosts.get(place.host).is_some_and(|host| host.is_up()) {
            return Err("its host is down".to_owned());
        }
        let mut here = self.posts.iter().filter(|post| post.host == place.host && post.member.is_some());
        if let Some(post) = here.find(|post| post.process.is_none()) {
            return Err(format!("its process `{}` does not run", post.start.role));
        }
        let hook = self.hook_at(place, AUDIT, AUDIT_PATIENCE).ok_or("there is no hook")?;
        Ok(Hook { answer_bytes: AUDIT_BYTES, ..hook })
    }
}

fn ask(hook: Result<&Hook, &String>, host: &dyn Host) -> Result<ReplicaContents, String> {
    let hook = hook.map_err(Clone::clone)?;
    let answer = if host.session().is_some() { hook.ask_on(host) } else { hook.ask() };
    table(answer.map_err(|error| error.to_string())?)
}

/// Parses `{"records": {"KEY": "VALUE" | {"value": "VALUE", "version": "VERSION"}}}`.
fn table(answer: Value) -> Result<ReplicaContents, String> {
    let Value::Object(mut answer) = answer else { return Err("its answer is not an object".to_owned()) };
    let Some(Value::Object(records)) = answer.remove("records") else {
        return Err("its answer has no object `records`".to_owned());
    };
    let held = |(key, value): (String, Value)| match held(value) {
        Some(held) => Ok((key, held)),
        None => {
            let key = plain_text::line(&key);
            Err(format!("its record `{key}` is neither a text nor {{\"value\": TEXT, \"version\": TEXT}}"))
        }
    };
    records.into_iter().map(held).collect()
}

fn held(value: Value) -> Option<ReplicaValue> {
    match value {
        Value::String(value) => Some(ReplicaValue { value, version: None }),
        Value::Object(mut record) => {
            let Value::String(value) = record.remove("value")? else { return None };
            let version = match record.remove("version") {
                None | Some(Value::Null) => None,
                Some(Value::String(version)) => Some(version),
                Some(Value::Number(version)) => Some(version.to_string()),
                Some(_) => return None,
            };
            record.is_empty().then_some(ReplicaValue { value, version })
        }
        _ => None,
    }
}

// The state of a deployment's hosts. It reports when a host comes up or goes down.

/// Duration of each storage measurement.
const MEASURE: Duration = Duration::from_secs(1);

/// A deployment's data about a host.
#[derive(Debug, Clone, Default)]
pub struct HostRecord {
    /// Name of its profile.
    profile: Option<String>,
    /// Storage figures, if measured at this trial or an earlier one.
    storage: HostFigures,
    /// Whether the host was last reported as up.
    is_up: bool,
}

impl HostRecord {
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Returns the storage figures from lab-up. Empty if the storage was not measured.
    pub fn storage(&self) -> &HostFigures {
        &self.storage
    }
}

/// Returns the record of every host. No host is reported as up yet.
fn presences(build: &DeploymentSpec<'_>, hosts: &mut [Box<dyn Host>], stop: &AtomicBool) -> Vec<HostRecord> {
    let lab = &build.trial.lab;
    let storage = match &build.storage {
        StorageFigures::NotAsked => Vec::new(),
        StorageFigures::Measured => measure(lab, hosts, stop),
        StorageFigures::Known(known) => {
            hosts.iter().map(|host| known.get(host.name()).cloned().unwrap_or_default()).collect()
        }
    };
    let mut storage = storage.into_iter();
    let record = |index: usize| {
        let mut storage = storage.next().unwrap_or_default();
        if storage.tiers.is_empty() {
            storage.tiers = asked_tiers(lab, index);
        }
        HostRecord { profile: lab.hosts.get(index).and_then(|host| host.profile.clone()), storage, is_up: false }
    };
    (0..hosts.len()).map(record).collect()
}

/// Returns the tiers of a host as requested, without measurements.
fn asked_tiers(lab: &plan::Lab, index: usize) -> BTreeMap<String, TierFigures> {
    let figures = |tier: &Tier, folders: Vec<(&str, &str, &str)>| {
        let limits = tier.limits_at(lab.speed);
        TierFigures {
            folders: folders.into_iter().map(|(.., name)| name.to_owned()).collect(),
            on: match (tier.medium, &tier.path) {
                (TierMedium::Pmem, Some(path)) => path.clone(),
                (TierMedium::Volume, _) => "loop device".to_owned(),
                (TierMedium::Memory, _) => "memory".to_owned(),
                (TierMedium::Disk | TierMedium::Pmem, _) => "disk".to_owned(),
            },
            limit_read_per_s: limits.read_iops,
            limit_write_per_s: limits.write_iops,
            source: tier.source.clone(),
            ..TierFigures::default()
        }
    };
    tiers::on_host(lab, lab.hosts.get(index))
        .map(|(tier, folders)| (tier.name.clone(), figures(tier, folders)))
        .collect()
}

/// Returns the hosts that the probes read, and the host name under which they read this machine.
pub fn watched(run: &str, hosts: &[Box<dyn Host>]) -> WatchedProcesses {
    let local = hosts.iter().find(|host| host.kind() == HostKind::ThisMachine);
    let sources = ProbeSources::of(hosts.iter().map(|host| host.kind()), run);
    WatchedProcesses {
        host: local.map(|host| host.name()).unwrap_or_default().into(),
        sources,
        ..WatchedProcesses::default()
    }
}

/// Measures the storage of every host. Real hosts are measured in parallel. Virtual hosts share
/// this machine's disk and would disturb each other, so they are measured in turn.
fn measure(lab: &plan::Lab, hosts: &mut [Box<dyn Host>], stop: &AtomicBool) -> Vec<HostFigures> {
    let of_one = |index: usize, host: &mut dyn Host| measure_host(lab, index, host, stop);
    let are_apart = hosts.iter().all(|host| host.kind() == HostKind::Remote);
    let measured: Vec<Result<HostFigures, Error>> = if are_apart {
        on_each_host(hosts, |index, host| Ok(of_one(index, host)))
    } else {
        hosts.iter_mut().enumerate().map(|(index, host)| Ok(of_one(index, host.as_mut()))).collect()
    };
    measured.into_iter().map(|figures| figures.unwrap_or_else(unmeasured)).collect()
}

fn unmeasured(error: Error) -> HostFigures {
    HostFigures { storage_unmeasured: Some(error.to_string()), ..HostFigures::default() }
}

/// Measures the storage of a host: its data folder, then each tier that its processes use, in turn.
fn measure_host(lab: &plan::Lab, index: usize, host: &mut dyn Host, stop: &AtomicBool) -> HostFigures {
    let unless_stopped = |measure: &dyn Fn() -> Result<HostFigures, Error>| match stop.load(Ordering::SeqCst) {
        true => unmeasured(Error::Interrupted),
        false => measure().unwrap_or_else(unmeasured),
    };
    let data = unless_stopped(&|| host.measure_storage(MEASURE));
    let mut tiers = asked_tiers(lab, index);
    for (name, figures) in &mut tiers {
        let Some(tier) = lab.tiers.iter().find(|tier| tier.name == *name) else { continue };
        let is_data = tier.medium == TierMedium::Disk && host.kind() != HostKind::ThisMachine;
        let measured = if is_data { data.clone() } else { unless_stopped(&|| host.measure_tier(tier, MEASURE)) };
        figures.read_per_s = measured.storage_read_per_s;
        figures.write_per_s = measured.storage_write_per_s;
        figures.sync_us = measured.storage_sync_us;
        figures.unmeasured = measured.storage_unmeasured;
    }
    HostFigures { tiers, ..data }
}

impl Deployment {
    /// Reports hosts that came up or went down since the previous check. Faults report their own
    /// changes with [`Deployment::host_down`], so a change that is noticed here was not planned.
    fn note_hosts(&mut self) {
        for index in 0..self.presence.len() {
            match (self.presence[index].is_up, self.hosts[index].is_up()) {
                (true, false) => self.host_down(index, false),
                (false, true) => self.host_up(index),
                _ => {}
            }
        }
    }

    /// Reports once if the switch between the hosts was lost without a fault.
    fn note_switch(&mut self) {
        let Some(reason) = self.client_placement.lost_switch() else { return };
        if std::mem::replace(&mut self.is_switch_lost, true) {
            return;
        }
        let mut tell = |what| self.observed.push_back(HostEvent { at: Instant::now(), what });
        tell(What::SwitchLost { reason: reason.clone() });
        let text = format!("the switch between the hosts was lost without a fault: {reason}");
        tell(What::Notice { text });
    }

    /// Reports once that a host is up.
    fn host_up(&mut self, index: usize) {
        let (Some(presence), Some(host)) = (self.presence.get_mut(index), self.hosts.get(index)) else { return };
        if std::mem::replace(&mut presence.is_up, true) {
            return;
        }
        let storage = presence.storage.clone();
        let is = HostFigures {
            storage_read_per_s: storage.storage_read_per_s,
            storage_write_per_s: storage.storage_write_per_s,
            storage_sync_us: storage.storage_sync_us,
            storage_unmeasured: storage.storage_unmeasured,
            tiers: storage.tiers,
            ..host.figures()
        };
        let profile = presence.profile.clone();
        let name = host.name().to_owned();
        let notices = host.session().map(|session| session.notices().to_vec()).unwrap_or_default();
        self.watched.sources.set(&name, host.session());
        let mut tell = |what| self.observed.push_back(HostEvent { at: Instant::now(), what });
        tell(What::HostUp { host: name.clone(), kind: host.kind().name().to_owned(), profile, is });
        for notice in notices {
            tell(What::Notice { text: format!("host {name}: {notice}") });
        }
    }

    /// Reports once that a host is down, with every process on it. If this is not `expected` (by a
    /// fault or the end of the trial), the target cannot have caused it, and a notice says so.
    fn host_down(&mut self, index: usize, expected: bool) {
        let (Some(presence), Some(host)) = (self.presence.get_mut(index), self.hosts.get(index)) else { return };
        if !std::mem::replace(&mut presence.is_up, false) {
            return;
        }
        let (name, kind) = (host.name().to_owned(), host.kind());
        let lost_for = host.session().and_then(|session| session.lost_for());
        let expected = expected || lost_for.as_deref() == Some(ENDED_AT_ONCE);
        self.watched.sources.set(&name, None);
        let mut tell = |what| self.observed.push_back(HostEvent { at: Instant::now(), what });
        tell(What::HostDown { host: name.clone(), expected });
        if !expected {
            let otherwise = if kind == HostKind::Remote {
                "the connection to it broke: whether it went down itself cannot be told from here"
            } else {
                "its runner ended, which is Plimsoll's program and no part of the target"
            };
            let why = lost_for.filter(|why| why != RUNNER_GONE).unwrap_or_else(|| otherwise.to_owned());
            tell(What::Notice { text: format!("host {name} was lost without a fault: {why}") });
        }
        for post in 0..self.posts.len() {
            if self.posts[post].host == index {
                self.lose_post(post, expected);
            }
        }
        self.watch();
    }

    /// Records that a slot's process is gone with its host.
    fn lose_post(&mut self, index: usize, expected: bool) {
        let Some(post) = self.posts.get_mut(index) else { return };
        post.end_expected |= expected;
        let signal = ProcessExit::Signal(Signal::KILL.as_raw());
        let ended = post.process.as_mut().and_then(|process| process.ended());
        // A lost session also reports SIGKILL for every process, so that signal does not prove that
        // the process was killed.
        if ended.is_some_and(|ended| expected || ended != signal) {
            self.note_end(index);
        }
        let Some(post) = self.posts.get_mut(index) else { return };
        // No process of its group can be left, and its exit status is unknown.
        post.last = None;
        if post.process.take().is_none() {
            return;
        }
        let what = What::ProcessDown {
            host: self.hosts[post.host].name().to_owned(),
            process: post.start.role.clone(),
            how: if expected { signal.to_string() } else { "lost with its host".to_owned() },
            // The target did not fail.
            expected: true,
            last_lines: Vec::new(),
        };
        self.observed.push_back(HostEvent { at: Instant::now(), what });
    }
}

#[cfg(test)]
mod tests;
