//! The ports of a trial's target, by name, and what of a lab's links they have: `[[lab.port]]`, and the argument `port` of a
//! fault. It must not know their numbers, which are chosen when the target is started.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::nearest;
use crate::plan::trial::Scene;
use crate::plan::{Lab, TargetKind};
use crate::problem::Problem;
use crate::profile::Link;
use crate::section::Section;
use crate::tree::Place;

/// `[[lab.port]]`: what packets from and to a port of the target have of every link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Its name in `target.toml`; where several roles have one of this name, all of them are meant.
    pub name: String,
    /// Rate and delay, at the lab's own speed.
    pub link: Link,
}

/// Names that a port may be called by.
#[derive(Debug)]
pub(super) enum Ports {
    /// Nobody knows them, because nobody knows the target.
    Unknown,
    /// The target has none: it is no folder.
    Nameless,
    /// Those of this target.
    Of(String, BTreeSet<String>),
}

impl Ports {
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

    /// What is wrong with a port's name, if anything.
    pub fn refuse(&self, name: &str, place: &Place) -> Option<Problem> {
        match self {
            Self::Unknown => None,
            Self::Nameless => {
                let problem = Problem::absent(place, format!("there is no port `{name}`, for this target names none"));
                Some(problem.expected("unknown port").hint("ports are named by a target folder: `use = \"NAME\"`"))
            }
            Self::Of(_, known) if known.contains(name) => None,
            Self::Of(target, known) => {
                let problem = Problem::absent(place, format!("the target `{target}` has no port `{name}`"));
                Some(problem.expected("unknown port").maybe(nearest::hint(name, known.iter().map(String::as_str))))
            }
        }
    }
}

/// `[[lab.port]]`.
pub(super) fn read(lab: &Section<'_>, scene: &mut Scene<'_>) -> Vec<Port> {
    let mut ports: Vec<Port> = Vec::new();
    for section in lab.sections("port") {
        // Reported where it is missing.
        let Some(name) = section.text("name") else { continue };
        scene.problems.extend(scene.ports.refuse(name, section.place("name")));
        if ports.iter().any(|known| known.name == name) {
            let problem = Problem::new(section.place("name"), format!("the port `{name}` is slowed twice"));
            scene.problems.push(problem.expected("the second time"));
        }
        if !section.has("rate") && !section.has("delay") {
            let problem = Problem::new(section.place, format!("nothing says how slow the port `{name}` is"));
            scene.problems.push(problem.expected("neither `rate` nor `delay`").hint("rate = \"5mbit\", for example"));
        }
        let link = Link { rate_bits_per_s: section.amount("rate"), delay_s: section.seconds("delay"), loss_pct: None };
        ports.push(Port { name: name.to_owned(), link });
    }
    ports
}

/// Ports are slowed on hosts that Plimsoll makes.
pub(super) fn only_virtual(section: &Section<'_>, lab: &Lab, scene: &mut Scene<'_>) {
    let Some(place) = section.sections("port").first().map(|port| port.place.clone()) else { return };
    let (what, expected, hint) = if lab.hosts.is_empty() {
        ("without hosts no port can be slowed", "only ports of virtual hosts can be slowed", "add `hosts = 1`")
    } else if lab.hosts.iter().all(|host| host.ssh.is_some()) {
        let hint = "the machines are taken as they are; the fault `slow_port` can slow a port of them for a time";
        ("`port` is for virtual hosts", "all hosts are reached over ssh", hint)
    } else {
        return;
    };
    scene.problems.push(Problem::new(&place, what).expected(expected).hint(hint));
}
