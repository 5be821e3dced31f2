//! Repeats put together: the trials of each variant at each point, and which of them are used. It must not work out any figure.

use std::collections::BTreeMap;

use record::results::{Trial, Trust};
use serde_json::Value;

/// The trials of a variant at a point.
pub(crate) struct Group<'a> {
    /// Variant, if any.
    pub variant: Option<&'a str>,
    /// Swept path to value.
    pub point: &'a BTreeMap<String, Value>,
    /// At least one.
    pub trials: Vec<&'a Trial>,
}

/// Each variant at each point, in the order of the trials.
pub(crate) fn groups<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for trial in trials {
        let variant = trial.variant.as_deref();
        match groups.iter_mut().find(|group| group.variant == variant && *group.point == trial.point) {
            Some(group) => group.trials.push(trial),
            None => groups.push(Group { variant, point: &trial.point, trials: vec![trial] }),
        }
    }
    groups
}

/// The trials that are not void; all of them if all are, which the verdict says.
pub(crate) fn usable<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Vec<&'a Trial> {
    let trials: Vec<&Trial> = trials.into_iter().collect();
    let all_void = trials.iter().all(|trial| trial.verdict.is == Trust::Void);
    trials.into_iter().filter(|trial| all_void || trial.verdict.is != Trust::Void).collect()
}
