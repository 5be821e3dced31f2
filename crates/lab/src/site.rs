//! A site: the target of one trial on its hosts, from the first process to the last. It must not decide when anything
//! is broken or ended.

mod asking;
mod auditing;
mod breaking;
mod bring_up;
mod layout;
mod presence;
mod survey;
mod take_down;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use experiment::manifest::Manifest;
use experiment::plan;
use record::events::What;

use crate::ears::Heard;
use crate::ground::Ground;
use crate::hosts::{Ended, Host};
use crate::process_tree::Sought;
use crate::registry::{Ledger, Registry};
use crate::sampling::Sources;
use crate::{Caller, Error};
pub use auditing::Told;
use bring_up::COMMAND_ROLE;
pub(crate) use layout::stop_signal;
use layout::{HookHost, Post};
use presence::Presence;

/// Of what a process wrote last, if it ended by itself.
const LAST_LINES: usize = 10;

/// The hosts of a site.
pub(crate) type Hosts = Vec<Box<dyn Host>>;

/// What a site is made from.
pub struct Build<'a> {
    /// The run it belongs to.
    pub registry: &'a Registry,
    /// The trial.
    pub trial: &'a plan::Trial,
    /// The target's manifest, for a target that comes from a folder.
    pub manifest: Option<&'a Manifest>,
    /// That folder; empty or `None` for the target that is built in.
    pub folder: Option<&'a Path>,
    /// Where the output of every process goes: `<host>.<role>.log`.
    pub logs: PathBuf,
    /// This program, for targets that are built in.
    pub plimsoll: PathBuf,
    /// Whether the storage of every host is measured first.
    pub measures_storage: bool,
    /// Set by whoever wants an end at once: from then on no host's answer is waited for.
    pub at_once: Arc<AtomicBool>,
}

/// Why a target is not up.
#[derive(Debug)]
pub struct NotUp {
    /// What went wrong.
    pub error: Box<Error>,
    /// What happened to hosts and processes until all were down again.
    pub observed: Vec<Observed>,
}

/// A process of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name of its host.
    pub host: String,
    /// Its role.
    pub role: String,
    /// Its pid on this machine.
    pub pid: u32,
}

/// Something that happened to a host, or to a process of the target.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// When it was seen.
    pub at: Instant,
    /// `HostUp`, `HostDown`, `SwitchLost`, `ProcessUp`, `ProcessDown` or `Log`; or a `Notice` about them.
    pub what: What,
}

/// What the probes look at: kept up to date by the site while they run.
#[derive(Debug, Clone, Default)]
pub struct Watched {
    host: Arc<str>,
    members: Arc<Mutex<Vec<Member>>>,
    pub(crate) sources: Sources,
    /// Where a target answers of which not all was started here, or why that is not known.
    address: Option<Result<SocketAddr, String>>,
    /// CPUs of this machine that are the clients' alone; empty: there are none.
    pub(crate) clients_cpus: Arc<[u32]>,
}

impl Watched {
    /// This machine's name among the hosts; `local` where the target is not ours and may run elsewhere.
    #[must_use]
    pub fn host(&self) -> &str {
        if self.host.is_empty() { "local" } else { &self.host }
    }

    /// The processes of the target that run now.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The target, if it has to be found behind its address.
    pub(crate) fn sought(&self) -> Option<Sought> {
        let name = (self.host().to_owned(), COMMAND_ROLE.to_owned());
        Some(Sought::new(self.address.clone()?, name))
    }

    fn set(&self, members: Vec<Member>) {
        *self.members.lock().unwrap_or_else(PoisonError::into_inner) = members;
    }
}

/// A running target.
pub struct Site {
    hosts: Hosts,
    /// Of each host.
    presence: Vec<Presence>,
    ground: Arc<Ground>,
    /// Role by role, in the order of the start.
    posts: Vec<Post>,
    /// At least one.
    services: Vec<String>,
    /// Calls from where the clients are.
    caller: Arc<dyn Caller>,
    ledger: Arc<Ledger>,
    /// Name to path in the target's folder.
    hooks: BTreeMap<String, String>,
    hook_hosts: Vec<HookHost>,
    observed: VecDeque<Observed>,
    watched: Watched,
    broken: breaking::Broken,
    /// The user wants an end at once.
    at_once: Arc<AtomicBool>,
    /// Whether it was told that the switch is lost.
    is_switch_lost: bool,
}

impl Site {
    /// Starts the target and waits until it is ready. If anything goes wrong, everything is down again.
    ///
    /// # Errors
    /// What is missing, taken, dead or not ready; [`Error::Interrupted`] once `stop` is set.
    pub fn up(build: Build<'_>, caller: Arc<dyn Caller>, stop: &AtomicBool) -> Result<Self, NotUp> {
        bring_up::up(&build, caller, stop)
    }

    /// The same on hosts that are there.
    #[cfg(test)]
    pub(crate) fn up_on(
        hosts: Hosts,
        ground: Ground,
        build: &Build<'_>,
        caller: Arc<dyn Caller>,
        stop: &AtomicBool,
    ) -> Result<Self, NotUp> {
        bring_up::up_on(hosts, ground, build, caller, stop)
    }

    /// Where the load goes: `host:port` of every host that serves, in order, or the URL that the experiment gives.
    #[must_use]
    pub fn services(&self) -> Vec<String> {
        self.services.clone()
    }

    /// The same without those on these hosts: where clients go who know that these are down. All of them if none is left.
    #[must_use]
    pub fn services_but(&self, down: &[String]) -> Vec<String> {
        let up = self.posts.iter().filter(|post| !down.iter().any(|host| host == self.hosts[post.host].name()));
        let services: Vec<String> = up.filter_map(|post| post.service.clone()).collect();
        if services.is_empty() { self.services.clone() } else { services }
    }

    /// The first of them.
    #[must_use]
    pub fn service(&self) -> String {
        self.services.first().cloned().unwrap_or_default()
    }

    /// Where its clients are.
    #[must_use]
    pub fn ground(&self) -> &Ground {
        &self.ground
    }

    /// The processes of the target that run.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.watched.members()
    }

    /// What the probes look at; follows restarts.
    #[must_use]
    pub fn watched(&self) -> Watched {
        self.watched.clone()
    }

    /// What happened to the hosts and processes since the last call.
    pub fn poll(&mut self) -> Vec<Observed> {
        self.look();
        let mut observed: Vec<Observed> = self.observed.drain(..).collect();
        // What was heard meanwhile was heard before it was asked for.
        observed.sort_by_key(|observed| observed.at);
        observed
    }

    /// Notes what happened, for the next [`Site::poll`].
    fn look(&mut self) {
        self.note_hosts();
        self.note_switch();
        for index in 0..self.posts.len() {
            self.note_end(index);
        }
        self.go_on_restarting();
        self.note_heard();
    }

    /// Ends the target in good order: the reverse of the start, each process asked first, then killed with all it
    /// started. Its hosts go with it.
    ///
    /// # Errors
    /// If anything of it is left.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.take_down(take_down::Manner::InOrder)
    }

    /// Ends the target and its hosts at once.
    ///
    /// # Errors
    /// If anything of it is left.
    pub fn kill_all(&mut self) -> Result<(), Error> {
        self.take_down(take_down::Manner::AtOnce)
    }

    /// Queues what processes wrote that belongs into the records.
    fn note_heard(&mut self) {
        for post in &self.posts {
            let host = self.hosts[post.host].name();
            self.observed.extend(post.start.ears.take().into_iter().map(|heard| told(heard, host, &post.start.role)));
        }
    }

    /// Queues the end of a post's process if it has ended, and lets go of it.
    fn note_end(&mut self, index: usize) {
        let Some(post) = self.posts.get_mut(index) else { return };
        let Some(ended) = post.process.as_mut().and_then(|process| process.ended()) else { return };
        let host = post.host;
        // First things first: it may only seem to have ended because its host is gone.
        if self.presence.get(host).is_some_and(Presence::is_up) && !self.hosts[host].is_up() {
            return self.host_down(host, false);
        }
        let Some(post) = self.posts.get_mut(index) else { return };
        let expected = post.end_expected || (post.may_detach && ended == Ended::Exit(0));
        // Whoever ends by itself may have said why.
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
        // The group may live on; its number is needed to end it.
        post.last = post.process.take();
        self.observed.push_back(Observed { at: Instant::now(), what });
        self.watch();
    }

    /// Tells the probes who runs.
    fn watch(&self) {
        let running = self.posts.iter().filter_map(|post| {
            let pid = post.process.as_ref()?.pid();
            Some(Member { host: self.hosts[post.host].name().to_owned(), role: post.start.role.clone(), pid })
        });
        self.watched.set(running.collect());
    }
}

/// A line that a process wrote.
fn told(heard: Heard, host: &str, role: &str) -> Observed {
    let Heard { at, text, alarming, line, left_out } = heard;
    let what = What::Log { host: host.to_owned(), process: role.to_owned(), line, text, alarming, left_out };
    Observed { at, what }
}

#[cfg(test)]
mod tests;
