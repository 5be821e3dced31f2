//! The doctor: has check-ups look at a machine, and makes and undoes the changes they propose. What is good or bad is judged
//! in [`checkups`].

pub mod checkups;
mod demand;
mod fixes;
mod measured;
pub mod persistent_memory;
pub mod text;

use std::path::Path;

use runner::environment::RecordedRoot;
use serde::Serialize;

pub use demand::TrialDemand;
pub use fixes::{Applied, FixSession, Undone};
pub use measured::{CpuNoise, Erlang, Measured, MeasuredSpread, sync_us};

use checkups::{CheckKind, CheckResult, CheckScope, CheckState, KINDS, MachineSnapshot};

/// What one check-up came to.
#[derive(Debug)]
pub struct CheckOutcome {
    /// Which.
    pub kind: &'static CheckKind,
    /// What it found.
    pub finding: CheckResult,
}

/// Looks at a machine whose files are below `root`, with what was measured of it, and with what an experiment asks of it. The
/// worst comes first; what is alike stays together.
#[must_use]
pub fn examine(root: &Path, measured: &Measured, asked: Option<&TrialDemand>) -> Vec<CheckOutcome> {
    let root = RecordedRoot::at(root);
    let snapshot = MachineSnapshot { root: &root, measured, asked };
    // What an experiment needs is no question without one.
    let kinds = KINDS.iter().filter(|kind| asked.is_some() || kind.about != CheckScope::Experiment);
    let mut examined: Vec<CheckOutcome> =
        kinds.map(|kind| CheckOutcome { kind, finding: (kind.look)(&snapshot) }).collect();
    examined.sort_by_key(|one| (std::cmp::Reverse(one.finding.state), one.kind.about, one.kind.name));
    examined
}

/// The worst state among them.
#[must_use]
pub fn worst(examined: &[CheckOutcome]) -> CheckState {
    examined.iter().map(|one| one.finding.state).max().unwrap_or(CheckState::Unknown)
}

/// As `doctor --json` prints it.
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

/// A recorded machine of `tests/machines`, as files below a folder: after `== PATH` comes what the file says.
#[cfg(test)]
fn machine(name: &str) -> fixture::TestDir {
    let folder = fixture::TestDir::new();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/machines/{name}.txt"));
    for file in std::fs::read_to_string(recorded).unwrap().split("\n== ").skip(1) {
        let (path, content) = file.split_once('\n').unwrap_or((file, ""));
        folder.write(path, &format!("{content}\n"));
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
