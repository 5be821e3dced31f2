//! Facts that the sections of a trial share while they are checked, and the problems found.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::{Catalog, Protocol};
use crate::manifest::TargetOperation;
use crate::plan::target::TargetKind;
use crate::problem::{Problem, nearest_hint};
use crate::tier::Tier;
use crate::tree::TextSpan;

/// Facts that the sections of a trial share, and the problems found.
pub(super) struct CheckContext<'a> {
    pub catalog: &'a Catalog,
    /// The target's protocol; `None` if the target is not known. Then its operations are not
    /// checked.
    pub protocol: Option<&'static Protocol>,
    /// Operations that the target defines, in addition to the protocol's.
    pub operations: &'a [TargetOperation],
    /// Names of the target's ports.
    pub ports: PortNames,
    /// Number of URLs that the target names.
    pub addresses: usize,
    /// Tiers of storage that folders of the target are on.
    pub tiers: Vec<Tier>,
    /// Names of the feeds that templates may use.
    pub feeds: Vec<String>,
    /// Names of the sites that steps may go to.
    pub sites: BTreeSet<String>,
    /// Whether there is a script for templates and expectations.
    pub has_script: bool,
    /// Slots that the preparation keeps, as in the scope of a step.
    pub prepared: BTreeMap<String, Vec<u32>>,
    pub problems: Vec<Problem>,
}

/// Names of ports that an experiment may use.
#[derive(Debug)]
pub(super) enum PortNames {
    /// Unknown, because the target is not known.
    Unknown,
    /// No names, because the target is not a target folder.
    Nameless,
    /// The target's name, and the names of its ports.
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

    /// Whether the names are unknown.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }

    /// Returns the problem of a port's name.
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
