//! The hosts of a deployment, their records, and the events that the lab observed.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use experiment::plan;
use experiment::tier::{Tier, TierMedium};
use record::events::{HostFigures, TierFigures, What};
use runner::ProgramSpec;

use super::{HostEvent, Hosts};
use crate::Error;
use crate::deployment_spec::{DeploymentSpec, StorageFigures};
use crate::host::{Host, HostKind, in_parallel, on_each_host};
use crate::host_process::ProgramOutput;
use crate::process_log::LogMatch;
use crate::sampling::WatchedProcesses;
use crate::session::{ENDED_AT_ONCE, RUNNER_GONE, RunnerSession};
use crate::tiers;

/// Duration of each storage measurement.
const MEASURE: Duration = Duration::from_secs(1);
/// Interval between checks whether the user wants to end.
const GLANCE: Duration = Duration::from_millis(20);

/// The hosts of a deployment.
pub(crate) struct LabHosts {
    pub all: Hosts,
    /// Record of each host, in the order of `all`.
    records: Vec<HostRecord>,
    /// Processes and runners for the probes.
    pub watched: WatchedProcesses,
    /// Events for the next poll.
    events: VecDeque<HostEvent>,
}

/// A deployment's data about a host.
#[derive(Debug)]
struct HostRecord {
    /// Name of the host's profile.
    profile: Option<String>,
    /// Storage figures from the start of the lab. Empty if the storage was not measured.
    storage: HostFigures,
    /// Whether the host was last reported as up.
    is_up: bool,
}

impl LabHosts {
    /// Measures the hosts' storage if the specification wants it. No host is reported as up yet.
    pub fn new(mut hosts: Hosts, build: &DeploymentSpec<'_>, watched: WatchedProcesses, stop: &AtomicBool) -> Self {
        let records = interruptible(&sessions(&hosts), stop, || records(build, &mut hosts, stop));
        Self { all: hosts, records, watched, events: VecDeque::new() }
    }

    pub fn name(&self, index: usize) -> &str {
        self.all.get(index).map(|host| host.name()).unwrap_or_default()
    }

    /// Returns the names of all hosts, in the order of `all`.
    pub fn names(&self) -> Vec<String> {
        self.all.iter().map(|host| host.name().to_owned()).collect()
    }

    pub fn index(&self, name: &str) -> Result<usize, Error> {
        let found = self.all.iter().position(|host| host.name() == name);
        found.ok_or_else(|| Error::NoVictim { on: name.to_owned(), known: self.names() })
    }

    pub fn is_up(&self, index: usize) -> bool {
        self.all.get(index).is_some_and(|host| host.is_up())
    }

    /// Returns the indexes of the hosts that are down.
    pub fn down(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|index| !self.is_up(*index)).collect()
    }

    /// Whether the target's host is this machine itself, on which no faults are injected.
    pub fn is_this_machine(&self) -> bool {
        self.all.iter().any(Host::is_here)
    }

    /// Returns the addresses of every host, in the order of `all`: one for each of the host's
    /// networks.
    pub fn addresses(&self) -> Result<Vec<Vec<Ipv4Addr>>, Error> {
        let hosts = self.all.iter();
        hosts.map(|host| host.addresses().iter().map(|address| ipv4(host.name(), address)).collect()).collect()
    }

    /// Returns the measured figures of a host's storage.
    pub fn storage_of(&self, host: &str) -> Result<HostFigures, Error> {
        let record = self.records.get(self.index(host)?);
        Ok(record.map(|record| record.storage.clone()).unwrap_or_default())
    }

    /// Runs a program on a host to its end.
    pub fn run(&self, host: &str, program: &ProgramSpec, within: Duration) -> Result<ProgramOutput, Error> {
        self.all[self.index(host)?].run(program, "", within)
    }

    /// Returns an error for a host that was lost during the start, if there is one. The state of
    /// its processes is unknown.
    pub fn lost_at_start(&self) -> Option<Error> {
        let lost = self.all.iter().find(|host| !host.is_up())?;
        let why = lost.session().lost_for().map_or_else(String::new, |why| format!(": {why}"));
        let reason = format!("the host was lost while the target was being started{why}");
        Some(Error::HostLost { host: lost.name().to_owned(), reason })
    }

    /// Queries all hosts in parallel after one host did not answer. Hosts that do not answer now
    /// count as lost. Otherwise the time limits of silent hosts would pass one after the other.
    pub fn query_all(&self) {
        let sessions = self.all.iter().filter(|host| host.is_up()).map(Host::session).collect();
        drop(in_parallel(sessions, |session: Arc<RunnerSession>| session.figures().map(drop)));
    }

    /// Queues an event for the next poll.
    pub fn report(&mut self, what: What) {
        self.events.push_back(HostEvent { at: Instant::now(), what });
    }

    pub fn notice(&mut self, text: String) {
        self.report(What::Notice { text });
    }

    /// Queues the event for a log line of a process.
    pub fn report_line(&mut self, host: usize, role: &str, line: LogMatch) {
        let LogMatch { at, text, alarming, line, left_out } = line;
        let (host, process) = (self.name(host).to_owned(), role.to_owned());
        self.events.push_back(HostEvent { at, what: What::Log { host, process, line, text, alarming, left_out } });
    }

    /// Returns the events since the previous call, sorted by time.
    pub fn take_events(&mut self) -> Vec<HostEvent> {
        let mut events: Vec<HostEvent> = self.events.drain(..).collect();
        // Log lines carry the time at which they were read. Later events may be queued already.
        events.sort_by_key(|event| event.at);
        events
    }

    /// Returns the hosts whose state differs from the last report, with their state.
    pub fn changed(&self) -> Vec<(usize, bool)> {
        let states = self.records.iter().zip(&self.all).map(|(record, host)| (record.is_up, host.is_up()));
        states.enumerate().filter(|(_, (was, is))| was != is).map(|(index, (_, is))| (index, is)).collect()
    }

    /// Whether the host is down although it was last reported as up.
    pub fn is_unreported_loss(&self, index: usize) -> bool {
        self.records.get(index).is_some_and(|record| record.is_up) && !self.all[index].is_up()
    }

    /// Reports once that a host is up.
    pub fn report_up(&mut self, index: usize) {
        let (Some(record), Some(host)) = (self.records.get_mut(index), self.all.get(index)) else { return };
        if std::mem::replace(&mut record.is_up, true) {
            return;
        }
        let storage = record.storage.clone();
        let is = HostFigures {
            storage_read_per_s: storage.storage_read_per_s,
            storage_write_per_s: storage.storage_write_per_s,
            storage_sync_us: storage.storage_sync_us,
            storage_unmeasured: storage.storage_unmeasured,
            tiers: storage.tiers,
            ..host.figures()
        };
        let (name, kind, profile) = (host.name().to_owned(), host.kind().name().to_owned(), record.profile.clone());
        let notices = host.session().notices().to_vec();
        self.watched.sources.set(&name, Some(host.session()));
        self.report(What::HostUp { host: name.clone(), kind, profile, is });
        for notice in notices {
            self.notice(format!("host {name}: {notice}"));
        }
    }

    /// Reports every host as up again, for another trial.
    pub fn report_all_up(&mut self) {
        for index in 0..self.all.len() {
            self.records[index].is_up = false;
            self.report_up(index);
        }
    }

    /// Reports once that a host is down. If that was not `expected` (by a fault or the end of the
    /// trial), adds a notice that the target cannot have caused it. Returns whether it was
    /// expected, or `None` if the host was reported as down before.
    pub fn report_down(&mut self, index: usize, expected: bool) -> Option<bool> {
        let (record, host) = (self.records.get_mut(index)?, self.all.get(index)?);
        if !std::mem::replace(&mut record.is_up, false) {
            return None;
        }
        let (name, kind) = (host.name().to_owned(), host.kind());
        let lost_for = host.session().lost_for();
        let expected = expected || lost_for.as_deref() == Some(ENDED_AT_ONCE);
        self.watched.sources.set(&name, None);
        self.report(What::HostDown { host: name.clone(), expected });
        if !expected {
            let otherwise = if kind == HostKind::Remote {
                "the connection broke; whether the host itself went down is unknown"
            } else {
                "Plimsoll's runner on it ended; the runner is not part of the target"
            };
            let why = lost_for.filter(|why| why != RUNNER_GONE).unwrap_or_else(|| otherwise.to_owned());
            self.notice(format!("host {name} was lost without a fault: {why}"));
        }
        Some(expected)
    }

    /// Removes these folders of each host, then drops the host; all hosts in parallel. A dropped
    /// virtual host ends every process in it.
    pub fn release(&mut self, folders: Vec<Vec<String>>) {
        self.records.clear();
        let hosts = std::mem::take(&mut self.all).into_iter().zip(folders).collect();
        drop(in_parallel(hosts, |(host, folders): (Host, Vec<String>)| {
            folders.iter().for_each(|name| host.remove_folder(name));
            Ok(())
        }));
    }
}

fn ipv4(host: &str, address: &str) -> Result<Ipv4Addr, Error> {
    let found = (address, 0).to_socket_addrs().map_err(Error::system(format!("find the address of {host}")))?;
    let mut v4 = found.filter_map(|address| match address.ip() {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    v4.next().ok_or_else(|| Error::Fault(format!("{host} ({address}) has no IPv4 address, which a partition needs")))
}

/// Returns the record of every host.
fn records(build: &DeploymentSpec<'_>, hosts: &mut [Host], stop: &AtomicBool) -> Vec<HostRecord> {
    let lab = &build.trial.lab;
    let storage = match &build.storage {
        StorageFigures::NotAsked => vec![HostFigures::default(); hosts.len()],
        StorageFigures::Measured => measure(lab, hosts, stop),
        StorageFigures::Known(known) => {
            hosts.iter().map(|host| known.get(host.name()).cloned().unwrap_or_default()).collect()
        }
    };
    let mut records = Vec::new();
    for (index, mut storage) in storage.into_iter().enumerate() {
        if storage.tiers.is_empty() {
            storage.tiers = requested_tiers(lab, index);
        }
        let profile = lab.hosts.get(index).and_then(|host| host.profile.clone());
        records.push(HostRecord { profile, storage, is_up: false });
    }
    records
}

/// Returns the figures of a host's tiers as requested in the plan, without measurements.
fn requested_tiers(lab: &plan::Lab, index: usize) -> BTreeMap<String, TierFigures> {
    let mut tiers = BTreeMap::new();
    for (tier, folders) in tiers::on_host(lab, lab.hosts.get(index)) {
        let limits = tier.limits_at(lab.speed);
        let figures = TierFigures {
            folders: folders.into_iter().map(|(.., name)| name.to_owned()).collect(),
            on: medium(tier),
            limit_read_per_s: limits.read_iops,
            limit_write_per_s: limits.write_iops,
            source: tier.source.clone(),
            ..TierFigures::default()
        };
        tiers.insert(tier.name.clone(), figures);
    }
    tiers
}

fn medium(tier: &Tier) -> String {
    match (tier.medium, &tier.path) {
        (TierMedium::Pmem, Some(path)) => path.clone(),
        (TierMedium::Volume, _) => "loop device".to_owned(),
        (TierMedium::Memory, _) => "memory".to_owned(),
        (TierMedium::Disk | TierMedium::Pmem, _) => "disk".to_owned(),
    }
}

/// Measures the storage of every host. Real hosts are measured in parallel. Virtual hosts share
/// this machine's disk and would disturb each other, so they are measured in turn.
fn measure(lab: &plan::Lab, hosts: &mut [Host], stop: &AtomicBool) -> Vec<HostFigures> {
    if hosts.iter().any(|host| host.kind() != HostKind::Remote) {
        let hosts = hosts.iter_mut().enumerate();
        return hosts.map(|(index, host)| measure_host(lab, index, host, stop)).collect();
    }
    let measured = on_each_host(hosts, |index, host| Ok(measure_host(lab, index, host, stop)));
    measured.into_iter().map(|figures| figures.unwrap_or_else(unmeasured)).collect()
}

fn unmeasured(error: Error) -> HostFigures {
    HostFigures { storage_unmeasured: Some(error.to_string()), ..HostFigures::default() }
}

fn unless_stopped(stop: &AtomicBool, measure: impl Fn() -> Result<HostFigures, Error>) -> HostFigures {
    match stop.load(Ordering::SeqCst) {
        true => unmeasured(Error::Interrupted),
        false => measure().unwrap_or_else(unmeasured),
    }
}

/// Measures the storage of a host: its data folder, then each tier that its processes use, in turn.
fn measure_host(lab: &plan::Lab, index: usize, host: &Host, stop: &AtomicBool) -> HostFigures {
    let data = unless_stopped(stop, || host.measure_storage(None, MEASURE));
    let mut tiers = requested_tiers(lab, index);
    for (name, figures) in &mut tiers {
        let Some(tier) = lab.tiers.iter().find(|tier| tier.name == *name) else { continue };
        let is_data = tier.medium == TierMedium::Disk && !host.is_here();
        let measured =
            if is_data { data.clone() } else { unless_stopped(stop, || host.measure_storage(Some(tier), MEASURE)) };
        figures.read_per_s = measured.storage_read_per_s;
        figures.write_per_s = measured.storage_write_per_s;
        figures.sync_us = measured.storage_sync_us;
        figures.unmeasured = measured.storage_unmeasured;
    }
    HostFigures { tiers, ..data }
}

/// Returns the sessions that an interrupt ends. Work on this machine is quick and may go on.
pub fn sessions(hosts: &Hosts) -> Vec<Arc<RunnerSession>> {
    hosts.iter().filter(|host| !host.is_here()).map(Host::session).collect()
}

/// Does slow work on hosts. Once `stop` is set, ends the sessions, so that no reply is awaited.
/// Each host then ends its work by itself.
pub fn interruptible<T>(sessions: &[Arc<RunnerSession>], stop: &AtomicBool, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        // If the thread cannot start, the user only waits longer.
        let _watching = thread::Builder::new().name("stop".to_owned()).spawn_scoped(scope, move || {
            while is_done.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) {
                if stop.load(Ordering::SeqCst) {
                    return sessions.iter().for_each(|session| session.give_up("interrupted"));
                }
            }
        });
        let did = work();
        drop(done);
        did
    })
}

#[cfg(test)]
mod tests {
    use fixture::TestDir;

    use super::*;
    use crate::fakes::setup_in;

    #[test]
    fn a_stop_request_aborts_a_long_operation_on_a_host() {
        let folder = TestDir::new();
        let (session, serving) = RunnerSession::on_thread(&setup_in(&folder), &Default::default()).unwrap();
        let long = Duration::from_secs(600);
        let program = ProgramSpec { command: vec!["sleep".to_owned(), "600".to_owned()], ..ProgramSpec::default() };
        let sessions = [session];
        let ran = interruptible(&sessions, &AtomicBool::new(true), || sessions[0].run(&program, "", long));
        assert!(matches!(ran, Err(Error::HostLost { .. })), "{ran:?}");
        assert_eq!(serving.join().unwrap(), 0, "it has ended what it was doing");
    }
}
