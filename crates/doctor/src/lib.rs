//! The doctor: examines a machine with check-ups, and makes and undoes the changes that they
//! propose. [`checkups`] contains the criteria.

pub mod checkups;
mod fixes;
mod measured;
pub mod persistent_memory;
pub mod text;
mod trial_demand;

use std::path::Path;

use runner::environment::RecordedRoot;
use serde::Serialize;

pub use fixes::{Applied, FixSession, Undone};
pub use measured::{CpuNoise, Erlang, Measured, MeasuredSpread, sync_us};
pub use trial_demand::TrialDemand;

use checkups::{CheckKind, CheckResult, CheckScope, CheckState, KINDS, MachineSnapshot};

/// A check-up and its result.
#[derive(Debug)]
pub struct CheckOutcome {
    pub kind: &'static CheckKind,
    pub finding: CheckResult,
}

/// Examines a machine whose files are below `root`, with its measurements and the requirements of
/// an experiment. Sorts the results by state, worst first, then by subject.
#[must_use]
pub fn examine(root: &Path, measured: &Measured, asked: Option<&TrialDemand>) -> Vec<CheckOutcome> {
    let root = RecordedRoot::at(root);
    let snapshot = MachineSnapshot { root: &root, measured, asked };
    // Requirements can only be examined for an experiment.
    let kinds = KINDS.iter().filter(|kind| asked.is_some() || kind.about != CheckScope::Experiment);
    let mut examined: Vec<CheckOutcome> =
        kinds.map(|kind| CheckOutcome { kind, finding: (kind.look)(&snapshot) }).collect();
    examined.sort_by_key(|one| (std::cmp::Reverse(one.finding.state), one.kind.about, one.kind.name));
    examined
}

/// Returns the worst state of the results.
#[must_use]
pub fn worst(examined: &[CheckOutcome]) -> CheckState {
    examined.iter().map(|one| one.finding.state).max().unwrap_or(CheckState::Unknown)
}

/// Serialises a result for `doctor --json`.
impl Serialize for CheckOutcome {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let (kind, finding) = (self.kind, &self.finding);
        let mut object = serializer.serialize_struct("checkup", 12)?;
        object.serialize_field("name", kind.name)?;
        object.serialize_field("about", &kind.about)?;
        object.serialize_field("state", &finding.state)?;
        object.serialize_field("found", &finding.found)?;
        object.serialize_field("remedy", &finding.remedy)?;
        object.serialize_field("fixes", &finding.fixes)?;
        object.serialize_field("commands", &finding.commands)?;
        object.serialize_field("reads", kind.reads)?;
        object.serialize_field("why", kind.why)?;
        object.serialize_field("source", kind.source)?;
        object.serialize_field("caught_by", kind.caught_by)?;
        object.serialize_field("article", &kind.article)?;
        object.end()
    }
}

/// Restores a recorded machine of `tests/machines` as files below a folder. A line `== PATH`
/// precedes each file's contents.
#[cfg(test)]
fn machine(name: &str) -> fixture::TestDir {
    let folder = fixture::TestDir::new();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/machines/{name}.txt"));
    for file in std::fs::read_to_string(recorded).unwrap().split("\n== ").skip(1) {
        let (path, content) = file.split_once('\n').unwrap_or((file, ""));
        folder.write(path, format!("{content}\n"));
    }
    folder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first() {
        let tree = machine("bad");
        let examined = examine(&tree, &Measured::default(), None);
        assert!(examined.is_sorted_by_key(|one| std::cmp::Reverse(one.finding.state)));
        assert_eq!(worst(&examined), CheckState::Bad);
        assert_eq!(worst(&[]), CheckState::Unknown);
    }
}
