//! Versions of Plimsoll and the target in each trial of a run, and their changes.

use std::collections::BTreeMap;

use experiment::plan::{self, TargetKind};
use record::events::{Versions, What};
use serde_json::Value;

use crate::evidence::Evidence;

/// Versions with which earlier trials of a run were made, each with the first trial that used it.
#[derive(Debug, Default)]
pub(crate) struct EarlierVersions {
    /// Version of Plimsoll, fingerprint of its program, and first trial with them.
    plimsoll: Option<(String, Option<String>, String)>,
    /// Files of each target by name, and the first trial with them.
    targets: BTreeMap<String, (BTreeMap<String, String>, String)>,
    /// Target with its parameters, the version that it reported, and first trial with them.
    said: Vec<(plan::Target, Value, String)>,
}

impl EarlierVersions {
    /// Adds the versions that this trial is the first to use.
    pub fn add(&mut self, planned: &plan::Trial, evidence: &Evidence) {
        let id = &planned.id;
        if let Some(versions) = begun_with(evidence) {
            self.plimsoll.get_or_insert_with(|| (versions.plimsoll.clone(), versions.program.clone(), id.clone()));
            if let Some(name) = &versions.target {
                self.targets.entry(name.clone()).or_insert_with(|| (versions.files.clone(), id.clone()));
            }
        }
        if let Some(version) = said_version(evidence)
            && !self.said.iter().any(|(target, ..)| *target == planned.target)
        {
            self.said.push((planned.target.clone(), version.clone(), id.clone()));
        }
    }

    fn change(&self, planned: &plan::Trial, now: &Versions) -> Option<String> {
        if let Some((version, program, trial)) = &self.plimsoll {
            let is_other = *version != now.plimsoll || differ(program.as_ref(), now.program.as_ref());
            if is_other {
                return Some(format!("Plimsoll's program differs from that in trial {trial}"));
            }
        }
        let name = now.target.as_ref()?;
        let (files, trial) = self.targets.get(name).filter(|(_, trial)| *trial != planned.id)?;
        let file = changed_file(files, &now.files)?;
        Some(format!("the file `{file}` of the target `{name}` differs from that in trial {trial}"))
    }

    fn said_otherwise(&self, planned: &plan::Trial, now: &Value) -> Option<String> {
        let (_, then, trial) = self.said.iter().find(|(target, ..)| *target == planned.target)?;
        let name = match &planned.target.kind {
            TargetKind::Folder { name, .. } => format!(" `{name}`"),
            TargetKind::Running { .. } | TargetKind::Started { .. } => String::new(),
        };
        (then != now).then(|| format!("the target{name} reports version {now}, but reported {then} in trial {trial}"))
    }
}

/// Returns the first change since the run's earlier trials, or within this trial, in words.
pub(crate) fn change(planned: &plan::Trial, evidence: &Evidence, earlier: Option<&EarlierVersions>) -> Option<String> {
    let now = begun_with(evidence);
    let since = |earlier: &EarlierVersions| {
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

/// Returns the first value that `inspect` reported as `version`.
fn said_version(evidence: &Evidence) -> Option<&Value> {
    evidence.events.iter().find_map(|event| match &event.what {
        What::Inspected { says, .. } => says.get("version"),
        _ => None,
    })
}

/// Whether both versions are known and differ.
fn differ(then: Option<&String>, now: Option<&String>) -> bool {
    then.zip(now).is_some_and(|(then, now)| then != now)
}

/// Returns a file that is gone or has changed. A new file is no change: a target may store things
/// in its folder.
fn changed_file<'a>(then: &'a BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Option<&'a str> {
    then.iter().find(|(path, mark)| now.get(*path) != Some(mark)).map(|(path, _)| path.as_str())
}

#[cfg(test)]
mod tests {
    use record::events::Event;
    use serde_json::json;

    use super::*;
    use crate::synthetic;

    fn versions(program: &str, files: &[(&str, &str)]) -> Versions {
        Versions {
            plimsoll: "1".to_owned(),
            program: Some(program.to_owned()),
            target: Some("vsns".to_owned()),
            files: files.iter().map(|(path, mark)| ((*path).to_owned(), (*mark).to_owned())).collect(),
        }
    }

    fn evidence(all: &[Versions]) -> Evidence {
        let events = all.iter().map(|is| Event { at_s: 0.0, what: What::Versions { is: is.clone() } });
        Evidence { events: events.collect(), ..Evidence::default() }
    }

    fn planned(id: &str) -> plan::Trial {
        plan::Trial { id: id.to_owned(), ..synthetic::trial(synthetic::load(1, 1.0)) }
    }

    /// Returns the change that is reported for a second trial with the versions `now`, after a
    /// first trial with the versions `then`.
    fn between(then: &Versions, now: &Versions) -> Option<String> {
        let mut earlier = EarlierVersions::default();
        earlier.add(&planned("001"), &evidence(std::slice::from_ref(then)));
        change(&planned("002"), &evidence(std::slice::from_ref(now)), Some(&earlier))
    }

    #[test]
    fn equal_versions_are_no_change() {
        let one = versions("p", &[("target.toml", "1")]);
        assert_eq!(between(&one, &one), None);
        assert_eq!(
            between(&one, &versions("p", &[("target.toml", "1"), ("new", "1")])),
            None,
            "a new file changes nothing"
        );
        assert_eq!(
            between(&one, &Versions { program: None, ..one.clone() }),
            None,
            "what is not known has not changed"
        );
        let other = Versions { target: Some("redis".to_owned()), ..versions("p", &[("target.toml", "2")]) };
        assert_eq!(between(&one, &other), None, "another target has other files");
    }

    #[test]
    fn a_change_is_named_with_the_earlier_trial() {
        let one = versions("p", &[("src/a.erl", "1"), ("target.toml", "1")]);
        let said = between(&one, &versions("p", &[("src/a.erl", "2"), ("target.toml", "1")])).unwrap();
        assert_eq!(said, "the file `src/a.erl` of the target `vsns` differs from that in trial 001");
        assert!(between(&one, &versions("p", &[("src/a.erl", "1")])).unwrap().contains("`target.toml`"), "it is gone");
        assert!(between(&one, &versions("q", &[])).unwrap().starts_with("Plimsoll's program"));
        let newer = Versions { plimsoll: "2".to_owned(), ..one.clone() };
        assert!(between(&one, &newer).unwrap().starts_with("Plimsoll's program"));
    }

    #[test]
    fn a_change_within_a_trial_is_detected() {
        let begun = versions("p", &[("a", "1")]);
        for (ended, words) in [
            (begun.clone(), None),
            (versions("q", &[("a", "1")]), Some("replaced while")),
            (versions("p", &[("a", "2")]), Some("`a` changed while")),
        ] {
            let found = change(&planned("001"), &evidence(&[begun.clone(), ended]), None);
            assert_eq!(found.is_some(), words.is_some(), "{found:?}");
            assert!(found.is_none_or(|found| found.contains(words.unwrap())));
        }
    }

    #[test]
    fn a_target_reporting_another_version_has_changed() {
        let [old, new] = ["7.2.1", "7.2.2"].map(|version| {
            let what =
                What::Inspected { when: "before_load".to_owned(), says: json!({ "version": version, "pid": 3 }) };
            Evidence { events: vec![Event { at_s: -1.0, what }], ..Evidence::default() }
        });
        let mut earlier = EarlierVersions::default();
        earlier.add(&planned("001"), &old);
        assert_eq!(change(&planned("002"), &old, Some(&earlier)), None);
        let found = change(&planned("002"), &new, Some(&earlier)).unwrap();
        assert!(found.contains("7.2.2") && found.contains("trial 001"), "{found}");
        let mut variant = planned("003");
        variant.target.protocol = "other".to_owned();
        assert_eq!(change(&variant, &new, Some(&earlier)), None, "a target with other parameters is another");
    }
}
