//! With what the trials of a run were played, and whether that changed. It must not judge what a change does.

use std::collections::BTreeMap;

use experiment::plan::{self, TargetKind};
use record::events::{Versions, What};
use serde_json::Value;

use crate::evidence::Evidence;

/// With what the earlier trials of a run were played: the first that used each thing.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// Version of Plimsoll, its program's mark, and in which trial.
    plimsoll: Option<(String, Option<String>, String)>,
    /// Name of a target to its files, and in which trial.
    targets: BTreeMap<String, (BTreeMap<String, String>, String)>,
    /// Target with its parameters to the version that it said it had, and in which trial.
    said: Vec<(plan::Target, Value, String)>,
}

impl Earlier {
    /// Keeps what this trial is the first to use.
    pub fn add(&mut self, planned: &plan::Trial, evidence: &Evidence) {
        let id = || planned.id.clone();
        if let Some(versions) = begun_with(evidence) {
            self.plimsoll.get_or_insert_with(|| (versions.plimsoll.clone(), versions.program.clone(), id()));
            if let Some(name) = &versions.target {
                self.targets.entry(name.clone()).or_insert_with(|| (versions.files.clone(), id()));
            }
        }
        if let Some(version) = said_version(evidence)
            && !self.said.iter().any(|(target, ..)| *target == planned.target)
        {
            self.said.push((planned.target.clone(), version.clone(), id()));
        }
    }

    fn change(&self, planned: &plan::Trial, now: &Versions) -> Option<String> {
        if let Some((version, program, trial)) = &self.plimsoll {
            let is_other = *version != now.plimsoll || differ(program.as_ref(), now.program.as_ref());
            if is_other {
                return Some(format!("Plimsoll's program is not what it was in trial {trial}"));
            }
        }
        let name = now.target.as_ref()?;
        let (files, trial) = self.targets.get(name).filter(|(_, trial)| *trial != planned.id)?;
        let file = changed_file(files, &now.files)?;
        Some(format!("the file `{file}` of the target `{name}` is not what it was in trial {trial}"))
    }

    fn said_otherwise(&self, planned: &plan::Trial, now: &Value) -> Option<String> {
        let (_, then, trial) = self.said.iter().find(|(target, ..)| *target == planned.target)?;
        let name = match &planned.target.kind {
            TargetKind::Folder { name, .. } => format!(" `{name}`"),
            TargetKind::Running { .. } | TargetKind::Started { .. } => String::new(),
        };
        (then != now).then(|| format!("the target{name} says that it is {now}, and in trial {trial} it said {then}"))
    }
}

/// The first change against the run's earlier trials, or within this one, in words.
pub(crate) fn change(planned: &plan::Trial, evidence: &Evidence, earlier: Option<&Earlier>) -> Option<String> {
    let now = begun_with(evidence);
    let since = |earlier: &Earlier| {
        now.and_then(|now| earlier.change(planned, now))
            .or_else(|| said_version(evidence).and_then(|version| earlier.said_otherwise(planned, version)))
    };
    earlier.and_then(since).or_else(|| {
        let (begun, ended) = (now?, all(evidence).last()?);
        if differ(begun.program.as_ref(), ended.program.as_ref()) {
            return Some("Plimsoll's program was replaced while the trial ran".to_owned());
        }
        let file = changed_file(&begun.files, &ended.files)?;
        Some(format!("the target's file `{file}` changed while the trial ran"))
    })
}

fn all(evidence: &Evidence) -> impl Iterator<Item = &Versions> {
    evidence.events.iter().filter_map(|event| match &event.what {
        What::Versions { is } => Some(is),
        _ => None,
    })
}

fn begun_with(evidence: &Evidence) -> Option<&Versions> {
    all(evidence).next()
}

/// What `inspect` first said under `version`.
fn said_version(evidence: &Evidence) -> Option<&Value> {
    evidence.events.iter().find_map(|event| match &event.what {
        What::Inspected { says, .. } => says.get("version"),
        _ => None,
    })
}

/// Whether both are known and not the same.
fn differ(then: Option<&String>, now: Option<&String>) -> bool {
    then.zip(now).is_some_and(|(then, now)| then != now)
}

/// A file that is gone or has another content. One that is new changes nothing by itself: a target may keep things there.
fn changed_file<'a>(then: &'a BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Option<&'a str> {
    then.iter().find(|(path, mark)| now.get(*path) != Some(mark)).map(|(path, _)| path.as_str())
}

#[cfg(test)]
mod tests;
