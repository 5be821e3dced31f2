//! The hooks of a deployment's target. A hook runs for a member: on the member's host if that host
//! has a runner, otherwise on this machine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use experiment::manifest::Manifest;
use record::replicas::{Replica, ReplicaContents, ReplicaValue};
use runner::{MARK, ProgramSpec, plain_text};
use serde_json::Value;

use super::host_tasks::HostTask;
use super::lab_facts::slowdown;
use super::lab_hosts::LabHosts;
use super::layout::{ASK_PATIENCE, HookHost};
use super::process_slots::ProcessSlots;
use crate::Error;
use crate::hooks::{self, AUDIT_BYTES, Hook};
use crate::host::{Host, in_parallel};
use crate::member_programs::MemberPrograms;

/// Name of the hook that lists a member's records.
const AUDIT: &str = "audit";
/// Time limit of the hook `audit`. A slow core may need seconds for tens of thousands of records.
pub(super) const AUDIT_PATIENCE: Duration = Duration::from_secs(60);

/// The target's hooks, and the hosts on which they run.
#[derive(Debug, Default)]
pub(crate) struct HookRunner {
    /// Id of the run.
    run: String,
    /// Factor for time limits; 1 on a machine at full speed.
    slowdown: f64,
    /// Path of each hook in the target's folder, by name.
    pub(super) paths: BTreeMap<String, String>,
    /// Hosts of the members, in the lab's order.
    pub(super) members: Vec<HookHost>,
    /// Every host, with the environment of the user's commands there.
    pub(super) all: Vec<HookHost>,
    /// Answer of the hook `leader` for the next faults. With `None`, each fault runs the hook.
    pub leader: Option<Result<String, String>>,
}

/// Result of an audit of one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberAnswer {
    /// Records that the member holds.
    pub replica: Replica,
    /// Whether the member runs. If it does not, a retry is useless.
    pub is_up: bool,
}

/// Returns the paths of a target's hooks by name. The name of an exercise's hook starts with its
/// kind, such as `action NAME`.
pub(super) fn paths(manifest: &Manifest) -> BTreeMap<String, String> {
    let mut paths = manifest.hooks.clone();
    let conditions = manifest.conditions.iter().map(|(name, condition)| (name, &condition.run));
    paths.extend(manifest.actions.iter().map(|(name, path)| (format!("action {name}"), path.clone())));
    paths.extend(conditions.map(|(name, path)| (format!("condition {name}"), path.clone())));
    paths.extend(manifest.audits.iter().map(|(name, path)| (format!("audit {name}"), path.clone())));
    paths
}

impl HookRunner {
    /// Creates a runner without hooks.
    pub fn new(run: &str, speed: f64) -> Self {
        Self { run: run.to_owned(), slowdown: slowdown(speed), ..Self::default() }
    }

    /// Returns a time limit scaled to the lab's speed.
    pub fn scaled(&self, within: Duration) -> Duration {
        within.mul_f64(self.slowdown)
    }

    /// Returns the hook for the first member whose host is up, with that host.
    pub fn for_first_up<'a>(
        &self,
        processes: &'a ProcessSlots,
        name: &str,
        within: Duration,
    ) -> Option<(Hook, &'a Host)> {
        let mut members = self.members.iter();
        let member = members.find(|member| processes.hosts.is_up(member.host)).or_else(|| self.members.first())?;
        let hook = self.hook_at(processes, member, name, self.scaled(within))?;
        Some((hook, processes.hosts.all.get(member.host)?))
    }

    /// Returns the hook for one member, with this time limit, which is not scaled.
    pub(super) fn hook_at(
        &self,
        processes: &ProcessSlots,
        member: &HookHost,
        name: &str,
        within: Duration,
    ) -> Option<Hook> {
        Some(Hook {
            name: name.to_owned(),
            folder: member.folder.clone(),
            path: hooks::path(&member.folder, &self.paths, name)?,
            arguments: Vec::new(),
            environment: self.environment_at(processes, member),
            within,
            answer_bytes: hooks::ANSWER_BYTES,
            in_foreground: false,
        })
    }

    /// Returns the environment of a hook or a command on a host.
    fn environment_at(&self, processes: &ProcessSlots, place: &HookHost) -> BTreeMap<String, OsString> {
        let mut environment = place.environment.clone();
        environment.insert(MARK.to_owned(), self.run.clone().into());
        let host = processes.hosts.name(place.host);
        for process in processes.hosts.watched.members().iter().filter(|process| process.host == host) {
            environment.insert(hooks::variable("PLIMSOLL_PID_", &process.role), process.pid.to_string().into());
        }
        environment
    }

    /// Returns the place and environment in which operations that are programs run on this host, if
    /// the host is a member's.
    pub fn member_programs(&self, hosts: &LabHosts, host: usize) -> Option<MemberPrograms> {
        let member = self.members.iter().find(|member| member.host == host)?;
        let mut environment = member.environment.clone();
        environment.insert(MARK.to_owned(), self.run.clone().into());
        Some(MemberPrograms {
            host: hosts.name(host).to_owned(),
            values: member.values.clone(),
            folder: member.folder.clone(),
            environment,
            is_here: hosts.all[host].is_here(),
            sources: hosts.watched.sources.clone(),
        })
    }

    /// Returns a user's shell command as a program for a host: with the environment of a hook
    /// there, and with the target's placeholders replaced.
    pub fn command_on(&self, processes: &ProcessSlots, host: &str, role: &str, command: &str) -> ProgramSpec {
        let place = self.all.iter().find(|place| processes.hosts.name(place.host) == host);
        let (environment, command) = match place {
            Some(place) => (self.environment_at(processes, place), with_placeholders(command, &place.values)),
            // Only the host's name is known of a target that already runs.
            None => {
                let names = ["PLIMSOLL_HOST", "PLIMSOLL_NAME"].map(|name| (name.to_owned(), host.into()));
                (names.into(), command.to_owned())
            }
        };
        ProgramSpec {
            role: role.to_owned(),
            command: vec!["sh".to_owned(), "-c".to_owned(), command],
            environment: hooks::as_text(&environment),
            ..ProgramSpec::default()
        }
    }

    /// Returns a task that runs the hook, for every member whose host is up.
    pub fn tasks_of_all(&self, processes: &ProcessSlots, hook: &str, within: Duration) -> Vec<HostTask> {
        let up = self.members.iter().filter(|member| processes.hosts.is_up(member.host));
        up.filter_map(|member| self.task(processes, member, hook, within, &BTreeMap::new())).collect()
    }

    /// Returns a task that runs the hook with additional variables, for each of these members.
    pub fn tasks_of(
        &self,
        processes: &ProcessSlots,
        members: &[String],
        hook: &str,
        within: Duration,
        environment: &BTreeMap<String, OsString>,
    ) -> Vec<HostTask> {
        let mut tasks = Vec::new();
        for member in &self.members {
            if members.iter().any(|name| name == processes.hosts.name(member.host)) {
                tasks.extend(self.task(processes, member, hook, within, environment));
            }
        }
        tasks
    }

    fn task(
        &self,
        processes: &ProcessSlots,
        member: &HookHost,
        hook: &str,
        within: Duration,
        environment: &BTreeMap<String, OsString>,
    ) -> Option<HostTask> {
        let mut hook = self.hook_at(processes, member, hook, within)?;
        hook.environment.extend(environment.clone());
        Some(HostTask::of_hook(processes.hosts.all.get(member.host)?, hook))
    }

    /// Returns the task that finds the leader.
    pub fn leader_task(&self, processes: &ProcessSlots) -> Result<HostTask, Error> {
        let hook = self.for_first_up(processes, "leader", ASK_PATIENCE);
        let (hook, host) = hook.ok_or_else(|| Error::Fault("this target has no hook `leader`".to_owned()))?;
        Ok(HostTask::of_hook(host, hook))
    }

    /// Returns the member that the target's hook `leader` names.
    pub fn leader(&self, processes: &ProcessSlots) -> Result<String, Error> {
        let answer = match &self.leader {
            Some(known) => known.clone(),
            None => self.leader_task(processes)?.run(&|| false).leader(),
        };
        answer.map_err(Error::Fault)
    }

    /// Whether the target can list its members' records.
    pub fn can_audit(&self) -> bool {
        self.paths.contains_key(AUDIT) && !self.members.is_empty()
    }

    /// Reads the records of every member that is up, in parallel. Returns the reason for each
    /// member that was not read. Empty if the target cannot list its members' records.
    pub fn audit(&self, processes: &mut ProcessSlots) -> Vec<MemberAnswer> {
        if !self.can_audit() {
            return Vec::new();
        }
        let hooks = self.members.iter().map(|member| self.audit_hook(processes, member));
        let hooks: Vec<Result<Hook, String>> = hooks.collect();
        // The hosts and the hooks are both in the lab's order, so they match.
        let hosts = processes.hosts.all.iter_mut().enumerate();
        let hosts = hosts.filter(|(index, _)| self.members.iter().any(|member| member.host == *index));
        let items = hosts.map(|(_, host)| host).zip(&hooks).collect();
        let answers = in_parallel(items, |(host, hook): (&mut Host, _)| Ok(ask(hook, host)));
        let mut members = Vec::new();
        for ((place, hook), answer) in self.members.iter().zip(&hooks).zip(answers) {
            let member = processes.hosts.name(place.host).to_owned();
            let holds = answer.unwrap_or_else(|error| Err(error.to_string()));
            members.push(MemberAnswer { replica: Replica { member, holds }, is_up: hook.is_ok() });
        }
        members
    }

    /// Returns the audit of one member, or the reason for not running it.
    fn audit_hook(&self, processes: &ProcessSlots, member: &HookHost) -> Result<Hook, String> {
        if !processes.hosts.is_up(member.host) {
            return Err("its host is down".to_owned());
        }
        let mut here = processes.slots.iter().filter(|slot| slot.host == member.host && slot.member.is_some());
        if let Some(slot) = here.find(|slot| slot.process.is_none()) {
            return Err(format!("its process `{}` is not running", slot.start.role));
        }
        let hook = self
            .hook_at(processes, member, AUDIT, self.scaled(AUDIT_PATIENCE))
            .ok_or("the target has no hook `audit`")?;
        Ok(Hook { answer_bytes: AUDIT_BYTES, ..hook })
    }
}

fn ask(hook: &Result<Hook, String>, host: &Host) -> Result<ReplicaContents, String> {
    let answer = hook.as_ref().map_err(Clone::clone)?.ask_on(host);
    table(answer.map_err(|error| error.to_string())?)
}

/// Parses `{"records": {"KEY": "VALUE" | {"value": "VALUE", "version": "VERSION"}}}`.
pub(super) fn table(answer: Value) -> Result<ReplicaContents, String> {
    let Value::Object(mut answer) = answer else { return Err("its answer is not an object".to_owned()) };
    let Some(Value::Object(records)) = answer.remove("records") else {
        return Err("its answer has no object `records`".to_owned());
    };
    let mut contents = ReplicaContents::new();
    for (key, value) in records {
        let Some(held) = held(value) else {
            let key = plain_text::line(&key);
            return Err(format!(
                "its record `{key}` is invalid: expected a text or {{\"value\": TEXT, \"version\": TEXT}}"
            ));
        };
        contents.insert(key, held);
    }
    Ok(contents)
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

/// Replaces the known placeholders in a command. All other braces, also those of `${host}`, are
/// left to the shell.
fn with_placeholders(command: &str, values: &BTreeMap<String, String>) -> String {
    let (mut filled, mut rest) = (String::new(), command);
    while let Some(open) = rest.find('{') {
        let (before, inside) = rest.split_at(open);
        filled.push_str(before);
        let name = inside[1..].split_once('}').map(|(name, _)| name).filter(|_| !before.ends_with('$'));
        let value = name.and_then(|name| Some((name, values.get(name)?)));
        filled.push_str(value.map_or("{", |(_, value)| value.as_str()));
        rest = &inside[value.map_or(1, |(name, _)| name.len() + 2)..];
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_known_placeholders_are_replaced() {
        let values = [("host", "10.83.0.1"), ("port.pg", "5432")];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let filled = |command: &str| super::with_placeholders(command, &values);
        assert_eq!(filled("psql -h {host} -p {port.pg}; {host}"), "psql -h 10.83.0.1 -p 5432; 10.83.0.1");
        for own in ["echo ${host}", "awk '{print $1}'", "f() { echo; }", "a{b", "{port.other}", "}{"] {
            assert_eq!(filled(own), own);
        }
    }
}
