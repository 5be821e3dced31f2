//! The hooks of a site's target: run for the first member that is up, there where it has a runner and otherwise here.
//! It must not interpret what they answer.

use std::time::Duration;

use serde_json::Value;

use super::Site;
use super::bring_up::slowdown;
use super::layout::HookHost;
use crate::Error;
use crate::hooks::{self, Hook};
use crate::hosts::Host;
use crate::registry::MARK;

/// Time limit of a hook that asks a running target something.
const PATIENCE: Duration = Duration::from_secs(10);

/// A hook, and the host that it is run on.
pub struct Question<'a> {
    hook: Hook,
    /// `None`: here.
    on: Option<&'a dyn Host>,
}

impl Question<'_> {
    /// Runs it, and gives the JSON object that it answers with.
    pub fn ask(&self) -> Result<Value, Error> {
        match self.on {
            Some(host) => self.hook.ask_on(host),
            None => self.hook.ask(),
        }
    }
}

impl Site {
    /// What the target's hook `inspect` says; `None` without that hook. Its failure is an answer, too: `{"failed": "…"}`.
    #[must_use]
    pub fn inspect(&self) -> Option<Value> {
        let hook = self.hook("inspect")?;
        Some(hook.ask().unwrap_or_else(|error| serde_json::json!({ "failed": error.to_string() })))
    }

    pub(super) fn hook(&self, name: &str) -> Option<Question<'_>> {
        let is_up = |index: usize| self.hosts.get(index).is_some_and(|host| host.is_up());
        let place = self.hook_hosts.iter().find(|place| is_up(place.host)).or_else(|| self.hook_hosts.first())?;
        let hook = self.hook_at(place, name, PATIENCE)?;
        let host = self.hosts.get(place.host)?;
        Some(Question { hook, on: host.session().is_some().then_some(host.as_ref()) })
    }

    /// The hook as it is asked of one member.
    pub(super) fn hook_at(&self, place: &HookHost, name: &str, within: Duration) -> Option<Hook> {
        let path = hooks::path(&place.folder, &self.hooks, name)?;
        let host = self.hosts.get(place.host)?;
        let mut environment = place.environment.clone();
        environment.insert(MARK.to_owned(), self.ledger.id().into());
        for member in self.members().iter().filter(|member| member.host == host.name()) {
            environment.insert(hooks::variable("PLIMSOLL_PID_", &member.role), member.pid.to_string().into());
        }
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
