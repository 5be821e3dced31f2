//! `[find]`: what a search raises, from where, how far, under which conditions, and the trials that it is made of but for the
//! value. It must not know which value comes next: that is `search`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::overlay::Setting;
use crate::plan::gates::{self, Names};
use crate::plan::trial::Parts;
use crate::plan::{Fault, Lab, Load, Rate, Requirement, TargetKind, Trial, When, seed};
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::{Node, Place};

mod checks;

/// The condition that nothing is broken, whatever faults the file has.
pub const NOTHING_LOST: &str = "nothing lost";
/// The condition that one member is down from before the load to its end.
pub const ONE_MEMBER_DOWN: &str = "one member down";

/// The paths that a search can raise.
const RATE: &str = "load.rate";
const AGENTS: &str = "load.agents";

/// `[find]`: the search for the highest load at which the limits hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Find {
    /// The path that is raised.
    pub highest: String,
    /// The limits.
    pub limits: Vec<Requirement>,
    /// Conditions under which it is searched, each by itself. An empty one: the file's faults as written.
    pub surviving: Vec<String>,
    /// The first value tried; `None`: what each template says.
    #[serde(default)]
    pub from: Option<f64>,
    /// No higher value is tried.
    #[serde(default)]
    pub up_to: Option<f64>,
    /// A search is complete when its 95 % interval is no wider than this.
    #[serde(default = "precision_pct")]
    pub precision_pct: f64,
    /// Most trials of each search.
    #[serde(default = "trials_max")]
    pub trials_max: u32,
    /// Void trials count as well (`run --accept`); the result is void all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepts_void: bool,
    /// A trial without id, value and repeat for every variant under every condition. Times and rates are the lab's, the seeds of its
    /// faults still 0 where the file gives none.
    #[serde(default)]
    pub templates: Vec<Trial>,
}

fn precision_pct() -> f64 {
    5.0
}

fn trials_max() -> u32 {
    24
}

impl Find {
    /// Whether only whole values make sense.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.highest == AGENTS
    }

    /// What the value counts: `operations/s`, `agents`.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        if self.is_whole() { "agents" } else { "operations/s" }
    }

    /// The first value that is tried of a template, in the file's terms.
    #[must_use]
    pub fn first(&self, template: &Trial) -> f64 {
        let load = template.load.as_ref();
        let own = if self.is_whole() {
            load.map(|load| f64::from(load.agents))
        } else {
            load.and_then(|load| load.rate.as_ref()?.constant()).map(|rate| rate / template.lab.speed)
        };
        self.from.or(own).unwrap_or(1.0)
    }

    /// Gives a load the value, which is in the file's terms: with time dilation a rate is slowed like everything else.
    pub(crate) fn raise(&self, load: &mut Load, value: f64, speed: f64) {
        if self.is_whole() {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and within u32")]
            {
                load.agents = value as u32;
            }
        } else {
            load.rate = Some(Rate::Constant(value * speed));
        }
    }
}

/// Reads the section; without the templates, which need every trial to be right.
pub(super) fn read(
    root: &Section<'_>,
    parts: &[Option<Parts>],
    names: &Names<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Find> {
    let section = root.section("find")?;
    checks::alone(root, &section, names, problems);
    let highest = section.text("highest").unwrap_or_default();
    let sections = section.sections("while");
    let limits = gates::limits(&sections, names, problems);
    if section.has("while") && limits.is_empty() {
        problems.push(Problem::new(section.place("while"), "a search needs a limit").expected("an empty list"));
    }
    let nodes = section.node("surviving").and_then(Node::list).unwrap_or_default();
    let conditions: Vec<(&str, &Place)> = nodes.iter().filter_map(|node| Some((node.text()?, &node.place))).collect();
    checks::raised(&section, highest, parts, problems);
    checks::bounds(&section, highest == AGENTS, parts, problems);
    checks::conditions(&conditions, parts, names.catalog, problems);
    let faulty = parts.iter().flatten().any(|parts| !parts.faults.is_empty());
    let surviving: Vec<String> = match conditions.as_slice() {
        [] if faulty => vec![String::new()],
        [] => vec![NOTHING_LOST.to_owned()],
        given => given.iter().map(|(name, _)| (*name).to_owned()).collect(),
    };
    Some(Find {
        highest: highest.to_owned(),
        limits,
        surviving,
        from: section.number("from"),
        up_to: section.number("up_to"),
        precision_pct: section.number("precision_pct").unwrap_or_else(precision_pct),
        trials_max: section.whole("trials").unwrap_or_else(trials_max),
        accepts_void: false,
        templates: Vec::new(),
    })
}

/// A template for every variant under every condition.
pub(super) fn templates(
    find: &Find,
    settings: &[Setting],
    parts: &[Parts],
    catalog: &Catalog,
    file_seed: u64,
) -> Vec<Trial> {
    let pairs = settings.iter().zip(parts);
    pairs
        .flat_map(|(setting, parts)| find.surviving.iter().map(move |condition| (setting, parts, condition)))
        .map(|(setting, parts, condition)| Trial {
            id: String::new(),
            variant: setting.variant.clone(),
            point: BTreeMap::new(),
            repeat: 1,
            seed: file_seed,
            target: parts.target.clone(),
            lab: parts.lab.clone(),
            prepare: parts.prepare.clone(),
            load: parts.load.clone(),
            faults: faults(condition, parts, catalog, file_seed),
            surviving: Some(condition.clone()),
            steps: Vec::new(),
        })
        .collect()
}

/// What is broken under a condition.
fn faults(condition: &str, parts: &Parts, catalog: &Catalog, file_seed: u64) -> Vec<Fault> {
    match condition {
        "" => parts.faults.clone(),
        NOTHING_LOST => Vec::new(),
        ONE_MEMBER_DOWN => member_down(parts, catalog, file_seed).into_iter().collect(),
        name => parts.faults.iter().filter(|fault| fault.name == name).cloned().collect(),
    }
}

/// A member that is down all the time. Which one follows from the seed, and is the same in all trials of a search: they are to
/// differ in their load alone.
fn member_down(parts: &Parts, catalog: &Catalog, file_seed: u64) -> Option<Fault> {
    let (role, members) = members(&parts.lab, &parts.target.kind, catalog);
    let index = seed::of_fault(file_seed, ONE_MEMBER_DOWN) % (members.len() as u64).max(1);
    let on = members.get(usize::try_from(index).ok()?)?;
    // Only what Plimsoll has made can be switched off.
    let made = parts.lab.hosts.iter().any(|host| host.name == *on && host.ssh.is_none());
    let kind = if made { "host_crash" } else { "kill" };
    let with = role.filter(|_| !made).map(|role| ("process".to_owned(), role.into())).into_iter().collect();
    let known = catalog.faults.iter().find(|fault| fault.name == kind);
    Some(Fault {
        name: ONE_MEMBER_DOWN.to_owned(),
        kind: kind.to_owned(),
        on: on.clone(),
        with,
        when: When::At(0.0),
        for_s: None,
        seed: 0,
        label: ONE_MEMBER_DOWN.to_owned(),
        colour: known.map_or_else(String::new, |known| known.colour.to_owned()),
        standing: true,
    })
}

/// The hosts that are members, and their role.
fn members(lab: &Lab, target: &TargetKind, catalog: &Catalog) -> (Option<String>, Vec<String>) {
    let TargetKind::Folder { name, .. } = target else { return (None, Vec::new()) };
    let Some(manifest) = catalog.targets.get(name) else { return (None, Vec::new()) };
    let role = &manifest.about.members;
    (Some(role.clone()), lab.that_run(role).map(|host| host.name.clone()).collect())
}
