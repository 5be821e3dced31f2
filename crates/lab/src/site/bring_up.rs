//! Bringing a target up, process by process, each ready before the next starts. It must leave nothing behind when it fails.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use experiment::manifest::Manifest;
use experiment::plan::TargetKind;
use record::events::What;
use rustix::process::Signal;

use super::breaking::Broken;
use super::layout::{self, Post};
use super::{Build, Observed, Site, Watched};
use crate::hosts::ground::Ground;
use crate::hosts::{self, Host, Start};
use crate::readiness::{self, Check, Waiting};
use crate::url::Place;
use crate::{Caller, Error, hooks, ports};

/// Role of a target that is started by a command.
const COMMAND_ROLE: &str = "target";
/// Seconds that such a target is given to stop.
const COMMAND_STOP_S: f64 = 10.0;

pub fn up(build: &Build<'_>, caller: Arc<dyn Caller>, stop: &AtomicBool) -> Result<Site, Error> {
    let (hosts, ground) = hosts::of(build)?;
    up_on(hosts, ground, build, caller, stop)
}

/// The same on hosts that are there already.
pub fn up_on(
    hosts: Vec<Box<dyn Host>>,
    ground: Ground,
    build: &Build<'_>,
    caller: Arc<dyn Caller>,
    stop: &AtomicBool,
) -> Result<Site, Error> {
    let mut site = empty(hosts, ground, build, caller);
    match &build.trial.target.kind {
        TargetKind::Folder { name, with } => {
            let manifest = build.manifest.ok_or_else(|| Error::Manifest(format!("there is none of `{name}`")))?;
            site.prepare_folder(build, manifest, with)?;
        }
        TargetKind::Running { url } => {
            readiness::reach(url).map_err(|reason| Error::Unreachable { url: url.clone(), reason })?;
            site.service.clone_from(url);
            site.hosts.clear();
            site.watched = Watched::default();
        }
        TargetKind::Started { command, url, ready, within_s } => {
            must_be_free(url)?;
            site.service.clone_from(url);
            let check = ready.clone().map_or_else(|| Check::Tcp(url.clone()), Check::Http);
            let post = started(build, command, check, *within_s, site.hosts[0].name());
            site.posts.push(post);
        }
    }
    for index in 0..site.posts.len() {
        if stop.load(Ordering::SeqCst) {
            return Err(Error::Interrupted);
        }
        site.start_post(index)?;
        site.await_ready(index, stop)?;
    }
    Ok(site)
}

fn empty(hosts: Vec<Box<dyn Host>>, ground: Ground, build: &Build<'_>, caller: Arc<dyn Caller>) -> Site {
    let watched = Watched { host: hosts[0].name().into(), ..Watched::default() };
    Site {
        hosts,
        ground,
        posts: Vec::new(),
        service: String::new(),
        caller,
        ledger: build.registry.ledger(),
        folder: PathBuf::new(),
        hooks: BTreeMap::new(),
        hook_environment: BTreeMap::new(),
        observed: VecDeque::new(),
        watched,
        broken: Broken::of(&build.trial.lab),
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
fn started(build: &Build<'_>, command: &str, check: Check, within_s: f64, host: &str) -> Post {
    Post {
        host: 0,
        start: Start {
            role: COMMAND_ROLE.to_owned(),
            program: "sh".into(),
            arguments: vec!["-c".into(), command.into()],
            environment: Vec::new(),
            folder: None,
            log: build.logs.join(format!("{host}.{COMMAND_ROLE}.log")),
        },
        check,
        ready_within_s: within_s,
        stop_signal: Signal::TERM,
        stop_within_s: COMMAND_STOP_S,
        stops_group: true,
        may_detach: true,
        serves: true,
        service: None,
        folder: None,
        process: None,
        last: None,
        end_expected: false,
    }
}

impl Site {
    fn prepare_folder(
        &mut self,
        build: &Build<'_>,
        manifest: &Manifest,
        with: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let laid_out = layout::lay_out(build, manifest, with, &self.hosts)?;
        self.posts = laid_out.posts;
        self.hook_environment = laid_out.hook_environment;
        self.service = self.posts.iter().find_map(|post| post.service.clone()).unwrap_or_default();
        self.folder = laid_out.folder;
        let named = manifest.hooks.keys();
        self.hooks =
            named.filter_map(|name| Some((name.clone(), hooks::path(&self.folder, &manifest.hooks, name)?))).collect();
        Ok(())
    }

    /// Starts a post's process; it is not waited for.
    pub(super) fn start_post(&mut self, index: usize) -> Result<(), Error> {
        let Some(post) = self.posts.get_mut(index) else { return Ok(()) };
        let host = &self.hosts[post.host];
        let process = host.start(&post.start)?;
        let what =
            What::ProcessUp { host: host.name().to_owned(), process: post.start.role.clone(), pid: process.pid() };
        post.process = Some(process);
        post.end_expected = false;
        self.observed.push_back(Observed { at: Instant::now(), what });
        self.watch();
        Ok(())
    }

    fn await_ready(&mut self, index: usize, stop: &AtomicBool) -> Result<(), Error> {
        let Some(post) = self.posts.get_mut(index) else { return Ok(()) };
        let waiting = Waiting {
            role: &post.start.role,
            check: &post.check,
            within_s: post.ready_within_s,
            may_detach: post.may_detach,
        };
        match post.process.as_deref_mut() {
            Some(process) => readiness::wait(&waiting, process, self.caller.as_ref(), stop),
            None => Ok(()),
        }
    }
}
