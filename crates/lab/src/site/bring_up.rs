//! Bringing a target up, role by role, each ready on all its hosts before the next starts; and
//! taking it down, in good order or at once.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use experiment::manifest::Manifest;
use experiment::plan::{self, TargetKind};
use experiment::profile::Disk;
use record::events::What;
use rustix::process::Signal;

use super::breaking::Broken;
use super::layout::{Basis, Post, Service};
use super::{Build, Hosts, NotUp, Observed, Site, presence, survey};
use crate::ears::Ears;
use crate::ground::Ground;
use crate::hosts::{self, Process, Start, at_once, on_all};
use crate::readiness::{self, Check, Waiting};
use crate::runner::Control;
use crate::runner::session::Session;
use crate::url::Place;
use crate::{Caller, Error, placeholders, ports};

/// Role of a target that is started by a command, or runs already.
pub(super) const COMMAND_ROLE: &str = "target";
/// Seconds that such a target is given to stop.
const COMMAND_STOP_S: f64 = 10.0;
/// Keys of what is imposed on hosts while the target starts.
const QUICK_CORES: &str = "quick start";
const QUICK_DISKS: &str = "quick start, disks";
/// More than any slow core falls short of one of this machine's.
const UNHINDERED: f64 = 1e6;
/// More than any disk does.
const UNHINDERED_DISK: Disk = Disk {
    size_bytes: None,
    read_iops: Some(1e9),
    write_iops: Some(1e9),
    read_bytes_per_s: Some(1e12),
    write_bytes_per_s: Some(1e12),
};
/// How often it is looked whether the user wants an end.
const GLANCE: Duration = Duration::from_millis(20);

pub fn up(build: &Build<'_>, caller: Arc<dyn Caller>, stop: &AtomicBool) -> Result<Site, NotUp> {
    let lab = match &build.trial.target.kind {
        // It is wherever it is: hosts would stand idle.
        TargetKind::Running { .. } => Ok((Vec::new(), Ground::default())),
        TargetKind::Folder { .. } | TargetKind::Started { .. } => hosts::of(build, stop),
    };
    match lab {
        Ok((hosts, ground)) => up_on(hosts, ground, build, caller, stop),
        Err(error) => Err(NotUp { error: Box::new(error), observed: Vec::new() }),
    }
}

/// The same on hosts that are there.
pub fn up_on(
    mut hosts: Hosts,
    ground: Ground,
    build: &Build<'_>,
    caller: Arc<dyn Caller>,
    stop: &AtomicBool,
) -> Result<Site, NotUp> {
    let presence = interruptible(&sessions(&hosts), stop, || presence::of(build, &mut hosts, stop));
    let mut watched = presence::watched(build.registry.id(), &hosts);
    watched.clients_cpus = ground.cpus().into();
    let ground = Arc::new(ground);
    let mut site = Site {
        hosts,
        presence,
        posts: Vec::new(),
        services: Vec::new(),
        caller: Arc::new(There { ground: Arc::clone(&ground), caller: Arc::clone(&caller) }),
        ground,
        ledger: build.registry.ledger(),
        hooks: BTreeMap::new(),
        hook_hosts: Vec::new(),
        observed: VecDeque::new(),
        watched,
        broken: Broken::of(&build.trial.lab),
        at_once: Arc::clone(&build.at_once),
        is_switch_lost: false,
    };
    site.note_hosts();
    let notices = site.ground.notices.iter().cloned();
    site.observed.extend(notices.map(|text| Observed { at: Instant::now(), what: What::Notice { text } }));
    let prepared = interruptible(&sessions(&site.hosts), stop, || site.prepare(build));
    match prepared.and_then(|()| site.start_in(&build.trial.lab, caller.as_ref(), stop)) {
        Ok(()) => {
            site.watched.address = address(build, &site);
            Ok(site)
        }
        Err(error) => {
            let interrupted = stop.load(Ordering::SeqCst);
            if interrupted {
                // Those that were given up were not lost.
                let down: Vec<usize> = (0..site.hosts.len()).filter(|index| !site.hosts[*index].is_up()).collect();
                down.into_iter().for_each(|index| site.host_down(index, true));
            }
            let lost = || site.lost_host().unwrap_or(error);
            let error = if interrupted { Error::Interrupted } else { lost() };
            // What cannot be ended is in the registry's entry; why there is no target matters more.
            let _ = site.kill_all();
            Err(NotUp { error: Box::new(error), observed: site.poll() })
        }
    }
}

/// Where a target answers of which not all was started here: it runs already, or a command may have left it behind. On the hosts of
/// a lab all belongs to the target; and where programs are run they are the target.
fn address(build: &Build<'_>, site: &Site) -> Option<Result<SocketAddr, String>> {
    match &build.trial.target.kind {
        TargetKind::Running { url } | TargetKind::Started { url, .. } if !url.is_empty() => {
            (!site.watched.sources.is_lab()).then(|| readiness::address(url))
        }
        _ => None,
    }
}

/// How many times longer than at its own speed a target may take in a lab of this speed.
pub fn slowdown(speed: f64) -> f64 {
    if speed > 0.0 && speed < 1.0 { 1.0 / speed } else { 1.0 }
}

fn sessions(hosts: &Hosts) -> Vec<Arc<Session>> {
    hosts.iter().filter_map(|host| host.session()).collect()
}

/// Does work that asks hosts for what may take long. Once `stop` is set, the hosts are given up, so that no answer is waited
/// for any more; each then ends all that it was doing by itself.
fn interruptible<T>(sessions: &[Arc<Session>], stop: &AtomicBool, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        let watch = move || {
            while is_done.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) {
                if stop.load(Ordering::SeqCst) {
                    return sessions.iter().for_each(|session| session.give_up("interrupted"));
                }
            }
        };
        // Without a thread it is only less patient with the user.
        let _watching = thread::Builder::new().name("stop".to_owned()).spawn_scoped(scope, watch);
        let did = work();
        drop(done);
        did
    })
}

/// Calls from where the clients are.
struct There {
    ground: Arc<Ground>,
    caller: Arc<dyn Caller>,
}

impl Caller for There {
    fn call(&self, service: &str, operation: &str, with: &BTreeMap<String, String>) -> Result<(), String> {
        let called = self.ground.inside(|| self.caller.call(service, operation, with));
        called.unwrap_or_else(|error| Err(error.to_string()))
    }

    fn provoke(&self, service: &str, operation: &str, with: &BTreeMap<String, String>) -> Result<(), String> {
        let provoked = self.ground.inside(|| self.caller.provoke(service, operation, with));
        provoked.unwrap_or_else(|error| Err(error.to_string()))
    }
}

/// What answers there before the command has run is somebody else's, and would be measured in the target's place.
fn must_be_free(url: &str) -> Result<(), Error> {
    if readiness::reach(url).is_err() {
        return Ok(());
    }
    let place = Place::parse(url).map_err(|reason| Error::Unreachable { url: url.to_owned(), reason })?;
    Err(Error::PortTaken { port: place.port, holder: ports::holder(place.port) })
}

/// A target that is started by a command: it runs where the user's shell would, and is reached by its URL.
fn started(build: &Build<'_>, command: &str, url: &str, check: Check, within_s: f64, host: &str) -> Post {
    Post {
        host: 0,
        start: Start {
            role: COMMAND_ROLE.to_owned(),
            program: "sh".into(),
            arguments: vec!["-c".into(), command.into()],
            environment: Vec::new(),
            folder: None,
            log: build.logs.join(format!("{host}.{COMMAND_ROLE}.log")),
            ears: Ears::default(),
        },
        check,
        ready_within_s: within_s,
        stop_signal: Signal::TERM,
        stop_within_s: COMMAND_STOP_S * slowdown(build.trial.lab.speed),
        stops_group: true,
        may_detach: true,
        service: None,
        member: Some(url.to_owned()),
        folder: None,
        process: None,
        last: None,
        end_expected: false,
    }
}

impl Site {
    /// Everything up to the first process.
    fn prepare(&mut self, build: &Build<'_>) -> Result<(), Error> {
        match &build.trial.target.kind {
            TargetKind::Folder { name, with } => {
                let manifest = build.manifest.ok_or_else(|| Error::Manifest(format!("there is none of `{name}`")))?;
                self.prepare_folder(build, manifest, with)?;
            }
            TargetKind::Running { url } => {
                // Where programs are run there may be nothing to reach.
                if !url.is_empty() {
                    readiness::reach(url).map_err(|reason| Error::Unreachable { url: url.clone(), reason })?;
                }
                self.services = vec![url.clone()];
            }
            TargetKind::Started { command, url, ready, within_s } => {
                self.ground.inside(|| must_be_free(url))??;
                self.services = vec![url.clone()];
                let check = ready.clone().map_or_else(|| Check::Tcp(url.clone()), Check::Http);
                let host = self.hosts.first().map(|host| host.name()).unwrap_or_default();
                let post = started(build, command, url, check, *within_s, host);
                self.posts.push(post);
            }
        }
        Ok(())
    }

    fn prepare_folder(
        &mut self,
        build: &Build<'_>,
        manifest: &Manifest,
        with: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let service = Service::of(manifest)?;
        let parameters = &placeholders::parameters(manifest, with)?;
        let hosts = &survey::look_around(build, manifest, parameters, &mut self.hosts)?;
        let ports = &survey::choose_ports(manifest, parameters, service, hosts, &self.hosts)?;
        let laid_out = Basis {
            manifest,
            parameters,
            service,
            hosts,
            ports,
            logs: &build.logs,
            slowdown: slowdown(build.trial.lab.speed),
        }
        .lay_out()?;
        self.slow_ports(&build.trial.lab, hosts, ports)?;
        self.posts = laid_out.posts;
        self.hook_hosts = laid_out.hook_hosts;
        self.watched.sources.set_endpoints(laid_out.endpoints);
        self.services = self.posts.iter().filter_map(|post| post.service.clone()).collect();
        self.hooks.clone_from(&manifest.hooks);
        Ok(())
    }

    /// The host that went by itself, if one did: of what ran there nothing can be said.
    fn lost_host(&self) -> Option<Error> {
        let lost = self.hosts.iter().find(|host| !host.is_up())?;
        let why =
            lost.session().and_then(|session| session.lost_for()).map_or_else(String::new, |why| format!(": {why}"));
        let reason = format!("it went while the target was being started{why}");
        Some(Error::HostLost { host: lost.name().to_owned(), reason })
    }

    /// [`Site::start`], on cores and disks that are not slow yet where the lab says so.
    fn start_in(&mut self, lab: &plan::Lab, caller: &dyn Caller, stop: &AtomicBool) -> Result<(), Error> {
        if !(lab.quick_start && lab.is_virtual()) {
            return self.start(caller, stop);
        }
        let cores = |host: &plan::Host| (host.name.clone(), Control::Cpu { of_profile: UNHINDERED });
        let disk = |host: &plan::Host| (host.name.clone(), Control::Disk { disk: UNHINDERED_DISK });
        let has_slow_disk =
            |host: &&plan::Host| lab.profile_of(host).is_some_and(|profile| profile.disk.is_throttled());
        self.impose(QUICK_CORES, &lab.hosts.iter().map(cores).collect::<Vec<_>>())?;
        self.impose(QUICK_DISKS, &lab.hosts.iter().filter(has_slow_disk).map(disk).collect::<Vec<_>>())?;
        self.start(caller, stop)?;
        self.lift(QUICK_DISKS)?;
        self.lift(QUICK_CORES)
    }

    fn start(&mut self, caller: &dyn Caller, stop: &AtomicBool) -> Result<(), Error> {
        for role in self.roles() {
            if stop.load(Ordering::SeqCst) {
                return Err(Error::Interrupted);
            }
            self.start_posts(role.clone())?;
            self.await_ready(role, caller, stop)?;
        }
        Ok(())
    }

    /// Starts the posts of a role, at most one on each host, everywhere at once; they are not waited for.
    fn start_posts(&mut self, role: Range<usize>) -> Result<(), Error> {
        let mut starts: Vec<Option<&Start>> = self.hosts.iter().map(|_| None).collect();
        for post in &self.posts[role.clone()] {
            starts[post.host] = Some(&post.start);
        }
        let started = on_all(&mut self.hosts, |index, host| starts[index].map(|start| host.start(start)).transpose());
        let mut started: Vec<_> = started.into_iter().map(Some).collect();
        let mut failed = None;
        for index in role {
            match started[self.posts[index].host].take() {
                Some(Ok(Some(process))) => self.has_started(index, process),
                Some(Err(error)) => drop(failed.get_or_insert(error)),
                Some(Ok(None)) | None => {}
            }
        }
        self.watch();
        failed.map_or(Ok(()), Err)
    }

    /// Starts a post's process; it is not waited for.
    pub(super) fn start_post(&mut self, index: usize) -> Result<(), Error> {
        let Some(post) = self.posts.get(index) else { return Ok(()) };
        let process = self.hosts[post.host].start(&post.start)?;
        self.has_started(index, process);
        self.watch();
        Ok(())
    }

    fn has_started(&mut self, index: usize, process: Box<dyn Process>) {
        let Some(post) = self.posts.get_mut(index) else { return };
        let host = self.hosts[post.host].name().to_owned();
        let what = What::ProcessUp { host, process: post.start.role.clone(), pid: process.pid() };
        post.process = Some(process);
        post.end_expected = false;
        self.observed.push_back(Observed { at: Instant::now(), what });
    }

    /// Waits for all posts of a role at once; when one has failed, the others are not waited for any longer.
    fn await_ready(&mut self, role: Range<usize>, caller: &dyn Caller, stop: &AtomicBool) -> Result<(), Error> {
        let hosts: Vec<&str> = self.hosts.iter().map(|host| host.name()).collect();
        let posts = self.posts[role].iter_mut().map(|post| {
            let role = &post.start.role;
            let name = if hosts.len() > 1 { format!("{role} on {}", hosts[post.host]) } else { role.clone() };
            (name, post)
        });
        let posts: Vec<(String, &mut Post)> = posts.collect();
        let places: Vec<usize> = posts.iter().map(|(_, post)| post.host).collect();
        let failed = AtomicBool::new(false);
        let must_stop = || stop.load(Ordering::SeqCst) || failed.load(Ordering::SeqCst);
        let ready = self.ground.inside(|| {
            at_once(posts, |(name, post)| {
                let waiting = Waiting {
                    role: &name,
                    check: &post.check,
                    within_s: post.ready_within_s,
                    may_detach: post.may_detach,
                };
                let Some(process) = post.process.as_deref_mut() else { return Ok(()) };
                let ready = readiness::wait(&waiting, process, caller, &must_stop);
                failed.fetch_or(ready.is_err(), Ordering::SeqCst);
                ready
            })
        })?;
        let failures = places.into_iter().zip(ready).filter_map(|(host, ready)| Some((host, ready.err()?)));
        // Where there is no host any more, it is not the target that failed.
        let mut failures: Vec<Error> = failures
            .map(|(index, error)| match self.hosts[index].is_up() {
                false if error.is_targets() => {
                    let reason = "it was lost while the target was being started".to_owned();
                    Error::HostLost { host: self.hosts[index].name().to_owned(), reason }
                }
                _ => error,
            })
            .collect();
        // Those that were only told to stop are not why.
        let why = failures.iter().position(|error| !matches!(error, Error::Interrupted)).unwrap_or(0);
        if failures.is_empty() { Ok(()) } else { Err(failures.swap_remove(why)) }
    }
}

#[cfg(test)]
mod tests;
