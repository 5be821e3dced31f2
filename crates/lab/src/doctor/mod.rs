//! The doctor: gathers what check-ups look at, has them look, and makes and undoes the changes they propose. What is good
//! or bad is judged in [`crate::checkups`]; nothing here prints.

mod asked;
mod measured;
mod remedies;
mod runtime;
mod sample;

use std::path::Path;

use serde::Serialize;

pub use asked::Asked;
pub use measured::{Links, Measured, Spread, sync_us};
pub use remedies::{Applied, Remedies, Undone};
pub use runtime::Erlang;
pub use sample::Noise;

use crate::checkups::{About, Finding, KINDS, Kind, Patient, State};
use crate::environment::Root;

/// What one check-up came to.
#[derive(Debug)]
pub struct Examined {
    /// Which.
    pub kind: &'static Kind,
    /// What it found.
    pub finding: Finding,
}

/// Looks at a machine whose files are below `root`, with what was measured of it, and with what an experiment asks of it. The
/// worst comes first; what is alike stays together.
#[must_use]
pub fn examine(root: &Path, measured: &Measured, asked: Option<&Asked>) -> Vec<Examined> {
    let root = Root::at(root);
    let patient = Patient { root: &root, measured, asked };
    // What an experiment needs is no question without one.
    let kinds = KINDS.iter().filter(|kind| asked.is_some() || kind.about != About::Experiment);
    let mut examined: Vec<Examined> = kinds.map(|kind| Examined { kind, finding: (kind.look)(&patient) }).collect();
    examined.sort_by_key(|one| (std::cmp::Reverse(one.finding.state), one.kind.about, one.kind.name));
    examined
}

/// The worst state among them.
#[must_use]
pub fn worst(examined: &[Examined]) -> State {
    examined.iter().map(|one| one.finding.state).max().unwrap_or(State::Unknown)
}

/// As `doctor --json` prints it.
impl Serialize for Examined {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let (kind, finding) = (self.kind, &self.finding);
        let mut object = serializer.serialize_struct("checkup", 11)?;
        object.serialize_field("name", kind.name)?;
        object.serialize_field("about", &kind.about)?;
        object.serialize_field("state", &finding.state)?;
        object.serialize_field("found", &finding.found)?;
        object.serialize_field("remedy", &finding.remedy)?;
        object.serialize_field("fixes", &finding.fixes)?;
        object.serialize_field("reads", kind.reads)?;
        object.serialize_field("why", kind.why)?;
        object.serialize_field("source", kind.source)?;
        object.serialize_field("caught_by", kind.caught_by)?;
        object.serialize_field("article", &kind.article)?;
        object.end()
    }
}

#[cfg(test)]
mod tests;
