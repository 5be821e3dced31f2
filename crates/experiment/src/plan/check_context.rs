//! What the sections of a trial need to know of each other, and what is found wrong with them.

use std::collections::BTreeSet;

use crate::catalog::{Catalog, Protocol};
use crate::manifest::TargetOperation;
use crate::plan::target::TargetKind;
use crate::problem::{Problem, nearest_hint};
use crate::tier::Tier;
use crate::tree::TextSpan;

/// What the sections of a trial need to know of each other.
pub(super) struct CheckContext<'a> {
    pub catalog: &'a Catalog,
    /// `None`: not known, because the target is not; nothing is said about its operations then.
    pub protocol: Option<&'static Protocol>,
    /// Operations that the target has of its own, beside the protocol's.
    pub operations: &'a [TargetOperation],
    /// Names of the target's ports.
    pub ports: PortNames,
    /// URLs that the target names, where it names several.
    pub addresses: usize,
    /// The tiers of storage that folders of the target are on.
    pub tiers: Vec<Tier>,
    /// Names of the feeds that templates may use.
    pub feeds: Vec<String>,
    /// Whether there is a script that templates and expectations may ask.
    pub has_script: bool,
    pub problems: Vec<Problem>,
}

/// Names that a port may be called by.
#[derive(Debug)]
pub(super) enum PortNames {
    /// Nobody knows them, because nobody knows the target.
    Unknown,
    /// The target has none: it is no folder.
    Nameless,
    /// Those of this target.
    Of(String, BTreeSet<String>),
}

impl PortNames {
    pub fn of(target: Option<&TargetKind>, catalog: &Catalog) -> Self {
        match target {
            None => Self::Unknown,
            Some(TargetKind::Running { .. } | TargetKind::Started { .. }) => Self::Nameless,
            Some(TargetKind::Folder { name, .. }) => catalog.targets.get(name).map_or(Self::Unknown, |manifest| {
                let ports = manifest.processes.iter().flat_map(|process| process.ports.iter().cloned());
                Self::Of(name.clone(), ports.collect())
            }),
        }
    }

    /// Whether nobody knows the target.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }

    /// What is wrong with a port's name, if anything.
    pub fn refuse(&self, name: &str, place: &TextSpan) -> Option<Problem> {
        match self {
            Self::Unknown => None,
            Self::Nameless => {
                let problem = Problem::absent(place, format!("there is no port `{name}`, for this target names none"));
                Some(problem.expected("unknown port").hint("ports are named by a target folder: `use = \"NAME\"`"))
            }
            Self::Of(_, known) if known.contains(name) => None,
            Self::Of(target, known) => {
                let problem = Problem::absent(place, format!("the target `{target}` has no port `{name}`"));
                Some(problem.expected("unknown port").maybe(nearest_hint(name, known.iter().map(String::as_str))))
            }
        }
    }
}
