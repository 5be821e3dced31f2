//! Whom the probes ask: the runners of a lab's hosts, as they come and go, and what this machine is to that lab. It must not
//! know how a host is made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::scrape::Endpoint;
use crate::runner::session::Session;

/// Whom the probes ask besides this machine. The default: nobody, for this machine is the target's host.
///
/// The site keeps one and hands out copies, which see what it is told: that a host has another runner since it was booted
/// again, or none since it crashed.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    is_lab: bool,
    /// Id of the run whose control group on this machine holds the lab.
    run: Option<String>,
    sessions: Arc<Mutex<BTreeMap<String, Option<Arc<Session>>>>>,
    endpoints: Arc<[Endpoint]>,
}

impl Sources {
    /// Of hosts of these kinds, in the run of that id; none of them is up yet.
    pub(crate) fn of<'k>(kinds: impl Iterator<Item = &'k str> + Clone, run: &str) -> Self {
        let has = |kind: &str| kinds.clone().any(|has| has == kind);
        Self {
            is_lab: has("netns") || has("ssh"),
            // Other machines' hosts are in no control group of this one.
            run: has("netns").then(|| run.to_owned()),
            ..Self::default()
        }
    }

    /// Says by which runner a host of a lab is asked from now on; `None`: it is down. To be said of every host before the
    /// probes start, for they ask only those.
    pub(crate) fn set(&self, host: &str, session: Option<Arc<Session>>) {
        if self.is_lab {
            self.lock().insert(host.to_owned(), session);
        }
    }

    /// Says where the target gives figures of its own; also to be said before.
    pub(crate) fn set_endpoints(&mut self, endpoints: Vec<Endpoint>) {
        self.endpoints = endpoints.into();
    }

    pub(super) fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    pub(super) fn hosts(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    pub(super) fn session(&self, host: &str) -> Option<Arc<Session>> {
        self.lock().get(host).cloned().flatten()
    }

    pub(crate) fn is_lab(&self) -> bool {
        self.is_lab
    }

    pub(super) fn run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<Arc<Session>>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
