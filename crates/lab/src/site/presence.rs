//! Which hosts of a site are up: told when they come and when they go.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use record::events::{HostFigures, What};
use rustix::process::Signal;

use super::{Build, Observed, Site, Watched};
use crate::Error;
use crate::hosts::{Ended, Host, on_all};
use crate::runner::session::{ENDED_AT_ONCE, RUNNER_GONE};
use crate::sampling::Sources;

/// The kind of host that is this machine, which the probes read directly.
const LOCAL: &str = "local";
/// How long the storage of each host is measured.
const MEASURE: Duration = Duration::from_secs(1);

/// What a site knows of a host, beside it.
#[derive(Debug, Clone, Default)]
pub struct Presence {
    /// Name of its profile.
    profile: Option<String>,
    /// How its storage did, if that was measured.
    storage: HostFigures,
    /// Whether it was said to be up last.
    is_up: bool,
}

impl Presence {
    /// Whether it was said to be up last.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// How its storage did at lab-up; nothing is filled in if that was not measured.
    pub fn storage(&self) -> &HostFigures {
        &self.storage
    }
}

/// Every host's presence, none of them told yet.
pub fn of(build: &Build<'_>, hosts: &mut [Box<dyn Host>], stop: &AtomicBool) -> Vec<Presence> {
    let storage = if build.measures_storage { measure(hosts, stop) } else { Vec::new() };
    let mut storage = storage.into_iter();
    let planned = &build.trial.lab.hosts;
    (0..hosts.len())
        .map(|index| Presence {
            profile: planned.get(index).and_then(|host| host.profile.clone()),
            storage: storage.next().unwrap_or_default(),
            is_up: false,
        })
        .collect()
}

/// Whom the probes ask, and under which host's name they read this machine.
pub fn watched(run: &str, hosts: &[Box<dyn Host>]) -> Watched {
    let local = hosts.iter().find(|host| host.kind() == LOCAL);
    let sources = Sources::of(hosts.iter().map(|host| host.kind()), run);
    Watched { host: local.map(|host| host.name()).unwrap_or_default().into(), sources, ..Watched::default() }
}

/// Virtual hosts share this machine's disk, and would measure each other; real ones are measured at once.
fn measure(hosts: &mut [Box<dyn Host>], stop: &AtomicBool) -> Vec<HostFigures> {
    let of_one = |host: &mut dyn Host| match stop.load(Ordering::SeqCst) {
        true => Err(Error::Interrupted),
        false => host.measure_storage(MEASURE),
    };
    let measured: Vec<Result<HostFigures, Error>> = if hosts.iter().all(|host| host.kind() == "ssh") {
        on_all(hosts, |_, host| of_one(host))
    } else {
        hosts.iter_mut().map(|host| of_one(host.as_mut())).collect()
    };
    let unmeasured =
        |error: Error| HostFigures { storage_unmeasured: Some(error.to_string()), ..HostFigures::default() };
    measured.into_iter().map(|figures| figures.unwrap_or_else(unmeasured)).collect()
}

impl Site {
    /// Looks which hosts have come and gone since it looked last. What a fault did was told by the fault, with
    /// [`Site::host_down`], so whatever is noticed here went by itself.
    pub(super) fn note_hosts(&mut self) {
        for index in 0..self.presence.len() {
            match (self.presence[index].is_up, self.hosts[index].is_up()) {
                (true, false) => self.host_down(index, false),
                (false, true) => self.host_up(index),
                _ => {}
            }
        }
    }

    /// Looks whether the switch between the hosts went by itself; tells so, once.
    pub(super) fn note_switch(&mut self) {
        let Some(reason) = self.ground.lost_switch() else { return };
        if std::mem::replace(&mut self.is_switch_lost, true) {
            return;
        }
        let mut tell = |what| self.observed.push_back(Observed { at: Instant::now(), what });
        tell(What::SwitchLost { reason: reason.clone() });
        let text = format!("the switch between the hosts was lost without a fault: {reason}");
        tell(What::Notice { text });
    }

    /// A host is up (again): tells so, once.
    pub(super) fn host_up(&mut self, index: usize) {
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
            ..host.figures()
        };
        let profile = presence.profile.clone();
        let name = host.name().to_owned();
        let notices = host.session().map(|session| session.notices().to_vec()).unwrap_or_default();
        self.watched.sources.set(&name, host.session());
        let mut tell = |what| self.observed.push_back(Observed { at: Instant::now(), what });
        tell(What::HostUp { host: name.clone(), kind: host.kind().to_owned(), profile, is });
        for notice in notices {
            tell(What::Notice { text: format!("host {name}: {notice}") });
        }
    }

    /// A host is down, and with it everything that ran there: tells so, once. Without a fault or the end of the trial
    /// (`expected`) it is nothing that the target could have done, and that is told, too.
    pub(super) fn host_down(&mut self, index: usize, expected: bool) {
        let (Some(presence), Some(host)) = (self.presence.get_mut(index), self.hosts.get(index)) else { return };
        if !std::mem::replace(&mut presence.is_up, false) {
            return;
        }
        let (name, kind) = (host.name().to_owned(), host.kind());
        let lost_for = host.session().and_then(|session| session.lost_for());
        let expected = expected || lost_for.as_deref() == Some(ENDED_AT_ONCE);
        self.watched.sources.set(&name, None);
        let mut tell = |what| self.observed.push_back(Observed { at: Instant::now(), what });
        tell(What::HostDown { host: name.clone(), expected });
        if !expected {
            let otherwise = if kind == "ssh" {
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

    /// A post's process is gone with its host.
    fn lose_post(&mut self, index: usize, expected: bool) {
        let Some(post) = self.posts.get_mut(index) else { return };
        post.end_expected |= expected;
        let signal = Ended::Signal(Signal::KILL.as_raw());
        let ended = post.process.as_mut().and_then(|process| process.ended());
        // That one was killed is also what is said of all when nobody is left to say anything.
        if ended.is_some_and(|ended| expected || ended != signal) {
            self.note_end(index);
        }
        let Some(post) = self.posts.get_mut(index) else { return };
        // Of its group nothing can be left, and nobody is there to say how it ended.
        post.last = None;
        if post.process.take().is_none() {
            return;
        }
        let what = What::ProcessDown {
            host: self.hosts[post.host].name().to_owned(),
            process: post.start.role.clone(),
            how: if expected { signal.to_string() } else { "lost with its host".to_owned() },
            // It is not the target that failed.
            expected: true,
            last_lines: Vec::new(),
        };
        self.observed.push_back(Observed { at: Instant::now(), what });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::fixture::hosts::{Lab, story};
    use crate::fixture::{Bench, Lines, manifest, server};
    use crate::{Ground, Site};

    #[test]
    fn a_host_that_is_lost_takes_its_processes_with_it_and_the_rest_goes_on() {
        let bench = Bench::new();
        let lab = Lab::new(&bench, &["", ""]);
        let mut site = lab.up(&manifest(vec![server("server")])).unwrap();
        site.poll();
        lab.strings[1].is_lost.store(true, Ordering::SeqCst);
        let told = story(&site.poll());
        assert_eq!((told[0].as_str(), told[2].as_str(), told.len()), ("!n2", "-n2.server", 3));
        assert!(told[1].starts_with("host n2 was lost without a fault: its runner ended"), "{}", told[1]);
        assert_eq!(site.members().len(), 1);
        assert!(site.poll().is_empty());
        lab.strings[1].is_lost.store(false, Ordering::SeqCst);
        assert_eq!(story(&site.poll()), ["+n2"]);
        site.stop().unwrap();
        assert_eq!(story(&site.poll()), ["-n1.server", "-n1", "-n2"]);
        assert_eq!(bench.alive(), 0);
    }

    #[test]
    fn a_host_that_a_fault_takes_down_is_expected_to_be() {
        let bench = Bench::new();
        let mut site = Lab::new(&bench, &["", ""]).up(&manifest(vec![server("server")])).unwrap();
        site.poll();
        site.hosts[0].crash().unwrap();
        site.host_down(0, true);
        assert_eq!(story(&site.poll()), ["-n1", "-n1.server"]);
        site.hosts[0].boot().unwrap();
        site.host_up(0);
        let post = site.post_of("n1", None).unwrap();
        site.start_again(post).unwrap();
        assert_eq!(story(&site.poll()), ["+n1", "+n1.server"]);
    }

    #[test]
    fn what_a_host_got_is_told_with_its_storage_where_that_was_measured() {
        let bench = Bench::new();
        let lab = Lab::new(&bench, &["", ""]);
        let manifest = manifest(vec![server("server")]);
        let build = Build { measures_storage: true, ..bench.build(&lab.trial, Some(&manifest)) };
        let stop = AtomicBool::new(false);
        let mut site = Site::up_on(lab.hosts(), Ground::default(), &build, Arc::new(Lines), &stop).unwrap();
        let observed = site.poll();
        let told: Vec<_> = observed
            .iter()
            .filter_map(|observed| match &observed.what {
                What::HostUp { kind, profile, is, .. } => Some((kind.as_str(), profile.as_deref(), is)),
                _ => None,
            })
            .collect();
        assert_eq!((told[0].0, told[0].1, told[0].2.cores), ("fake", Some("slow"), Some(4)));
        assert_eq!((told[0].2.storage_sync_us, &told[0].2.storage_unmeasured), (Some(600.0), &None));
        assert_eq!(told[1].2.storage_unmeasured.as_deref(), Some("host n2: no room"));
    }
}
