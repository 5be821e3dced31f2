//! Storage tiers that hold the folders of a target's processes. Defines the built-in tiers, reads
//! `[lab.tier.NAME]`, which changes or adds a tier, and assigns a trial's folders to tiers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::keys::section;
use crate::manifest::{Manifest, Process, Takes};
use crate::plan::{FeedLimits, Plan, TargetKind, Trial};
use crate::problem::{Problem, join_words, nearest_hint};
use crate::profile::{DISK, Disk};
use crate::section::Section;
use crate::tree::{TableEntry, TextSpan};

section! {
    const TIER {
        path: Text, "Mount point of a DAX file system on this machine; only for `pmem`, and required there", ["mount"];
        dax = "true": Boolean, "Whether that file system must bypass the page cache; for `pmem`";
        ..DISK: size, read_iops, write_iops, read_rate, write_rate;
        source: Text, "Source of these figures";
    }
}

/// Medium of a tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TierMedium {
    /// The host's normal data folder.
    #[default]
    Disk,
    /// A separate file system on a loop device, with limits.
    Volume,
    /// A file system in memory.
    Memory,
    /// A DAX file system on persistent memory.
    Pmem,
}

/// A tier that holds folders of a trial's target. Its settings are the same on every host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tier {
    pub name: String,
    pub medium: TierMedium,
    /// Size, and limits at full speed: `lab.speed` is not applied yet.
    #[serde(default, skip_serializing_if = "is_unlimited")]
    pub limits: Disk,
    /// Reference for the limits, such as a data sheet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Mount point on this machine, for persistent memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether the file system must bypass the page cache.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dax: bool,
    /// Target parameters whose only use is to place folders on this tier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
    /// Folders that the tier holds, each as `role.folder`.
    pub folders: Vec<String>,
}

fn is_unlimited(limits: &Disk) -> bool {
    *limits == Disk::default()
}

/// The default tier, which every folder can use.
pub const DISK_TIER: &str = "disk";
const MEMORY: &str = "memory";
const PMEM: &str = "pmem";

/// A device and its limits, as in its data sheet.
struct CitedDevice {
    name: &'static str,
    read_iops: f64,
    write_iops: f64,
    read_bytes_per_s: f64,
    write_bytes_per_s: f64,
    source: &'static str,
}

const CITED: [CitedDevice; 2] = [
    CitedDevice {
        name: "sata",
        read_iops: 72_000.0,
        write_iops: 33_000.0,
        read_bytes_per_s: 500e6,
        write_bytes_per_s: 490e6,
        source: "Intel SSD DC S4500, product specification: up to, random 4 KB at queue depth 32",
    },
    CitedDevice {
        name: "nvme",
        read_iops: 645_000.0,
        write_iops: 62_500.0,
        read_bytes_per_s: 3.2e9,
        write_bytes_per_s: 1.8e9,
        source: "Intel SSD DC P4500 4 TB, in Lenovo's product guide: up to, 4 KB blocks",
    },
];

/// Names of the built-in tiers. They need no `[lab.tier.NAME]`.
pub const NAMES: [&str; 5] = [DISK_TIER, MEMORY, "nvme", PMEM, "sata"];

impl Tier {
    /// Returns the tier of this name with its default settings.
    fn named(name: &str) -> Self {
        let cited = CITED.iter().find(|device| device.name == name);
        let medium = match name {
            DISK_TIER => TierMedium::Disk,
            MEMORY => TierMedium::Memory,
            PMEM => TierMedium::Pmem,
            _ => TierMedium::Volume,
        };
        let limits = cited.map_or_else(Disk::default, |device| Disk {
            size_bytes: None,
            read_iops: Some(device.read_iops),
            write_iops: Some(device.write_iops),
            read_bytes_per_s: Some(device.read_bytes_per_s),
            write_bytes_per_s: Some(device.write_bytes_per_s),
        });
        let source = cited.map(|device| device.source.to_owned());
        let dax = medium == TierMedium::Pmem;
        Self { name: name.to_owned(), medium, limits, source, dax, ..Self::default() }
    }

    /// Applies `[lab.tier.NAME]`. A single limit there replaces all cited limits, because the cited
    /// limits describe one device.
    fn with(self, section: &Section<'_>) -> Self {
        let given = Disk::read(section);
        let size_bytes = given.size_bytes.or(self.limits.size_bytes);
        let source = section.text("source").map(str::to_owned);
        let (limits, source) =
            if given.is_throttled() { (given, source) } else { (self.limits, source.or(self.source)) };
        let path = section.text("path").map(str::to_owned);
        let dax = self.dax && section.boolean("dax");
        Self { limits: Disk { size_bytes, ..limits }, source, path, dax, ..self }
    }

    /// Returns the limits in a lab with this `lab.speed`.
    #[must_use]
    pub fn limits_at(&self, speed: f64) -> Disk {
        self.limits.times(speed)
    }
}

/// A folder of a process on its tier.
#[derive(Debug)]
pub(crate) struct PlacedFolder {
    /// The folder, as `role.folder`.
    folder: String,
    tier: String,
    /// Name of the parameter that selects the tier, if the parameter has no other use.
    parameter: Option<String>,
}

/// Returns the folders of a target's processes, each with the tier that these parameters select.
pub(crate) fn folders_of(manifest: &Manifest, with: &BTreeMap<String, String>) -> Vec<PlacedFolder> {
    let mut placed = Vec::new();
    for process in &manifest.processes {
        for (name, tier) in &process.folders {
            placed.push(PlacedFolder {
                folder: format!("{}.{name}", process.role),
                tier: parameter(tier).and_then(|parameter| with.get(parameter)).unwrap_or(tier).clone(),
                parameter: parameter(tier).filter(|name| !is_told(manifest, name)).map(str::to_owned),
            });
        }
    }
    placed
}

/// Whether a parameter is also used outside `folders`: in other settings of a process or in
/// `protocol`.
fn is_told(manifest: &Manifest, parameter: &str) -> bool {
    let placeholder = format!("{{{parameter}}}");
    let settings = manifest.processes.iter().map(|process| Process { folders: BTreeMap::new(), ..process.clone() });
    let texts = settings.filter_map(|process| serde_json::to_string(&process).ok());
    texts.chain([manifest.about.protocol.clone()]).any(|text| text.contains(&placeholder))
}

/// Returns `data_tier` of a text such as `{data_tier}`.
fn parameter(tier: &str) -> Option<&str> {
    tier.strip_prefix('{')?.strip_suffix('}')
}

/// Returns the problem of a folder's tier in `target.toml`.
pub(crate) fn refuse_in_manifest(tier: &str, manifest: &Manifest, place: &TextSpan) -> Option<Problem> {
    let known = join_words(&NAMES.map(|name| format!("`{name}`")), "or");
    let Some(name) = parameter(tier) else {
        let problem = Problem::absent(place, format!("there is no tier `{tier}`")).expected("unknown tier");
        let problem = problem.hint(format!("{known}; a parameter can decide: \"{{data_tier}}\""));
        return (!NAMES.contains(&tier)).then_some(problem);
    };
    let Some(parameter) = manifest.parameters.get(name) else {
        let problem = Problem::absent(place, format!("there is no parameter `{name}`")).expected("unknown parameter");
        return Some(problem.maybe(nearest_hint(name, manifest.parameters.keys().map(String::as_str))));
    };
    let values = match &parameter.takes {
        Takes::Choice { of } => of.clone(),
        _ => vec![parameter.default.clone()],
    };
    let unknown = values.iter().find(|value| !NAMES.contains(&value.as_str()))?;
    let problem = Problem::absent(place, format!("`{name}` may be `{unknown}`, and there is no such tier"));
    Some(problem.expected("unknown tier").hint(format!("the tiers are {known}")))
}

/// Returns a sentence, without full stop, for each variant that differs from the first only in the
/// tiers of its folders.
#[must_use]
pub fn only_storage(plan: &Plan) -> Vec<String> {
    let Some((first, others)) = plan.variants.split_first() else { return Vec::new() };
    let mut sentences = Vec::new();
    for other in others {
        let [a, b] =
            [first, other].map(|variant| plan.possible().iter().find(|trial| trial.variant.as_ref() == Some(variant)));
        if let Some(moved) = a.zip(b).and_then(|(a, b)| only_difference(a, b)) {
            sentences.push(format!("`{first}` and `{other}` differ only in the tiers of folders: {moved}"));
        }
    }
    sentences
}

/// Returns the different tiers of two trials that differ only in the tiers of their folders. `None`
/// if they differ in more, or not at all.
fn only_difference(a: &Trial, b: &Trial) -> Option<String> {
    let parameters: Vec<&String> = a.lab.tiers.iter().chain(&b.lab.tiers).flat_map(|tier| &tier.parameters).collect();
    if without_tiers(a, &parameters) != without_tiers(b, &parameters) {
        return None;
    }
    let mut moved: Vec<String> = Vec::new();
    for folder in a.lab.tiers.iter().flat_map(|tier| &tier.folders) {
        let (from, to) = (tier_of(a, folder)?, tier_of(b, folder)?);
        if from.name != to.name {
            moved.push(format!("`{folder}` on {} or {}", from.name, to.name));
        } else if (&from.limits, &from.path) != (&to.limits, &to.path) {
            moved.push(format!("`{folder}` on {} with other limits", from.name));
        }
    }
    let [from, to] = [a, b].map(|trial| trial.load.iter().flat_map(|load| &load.feeds));
    for (from, to) in from.zip(to) {
        let [was, is] = [from, to].map(|feed| feed.tier.as_deref().unwrap_or(DISK_TIER));
        if was != is {
            moved.push(format!("the feed `{}` as from {was} or {is}", from.name));
        }
    }
    (!moved.is_empty()).then(|| join_words(&moved, "and"))
}

/// Returns the trial without tiers, without these target parameters, and without the fields that
/// differ in each trial, such as id and seed.
fn without_tiers(trial: &Trial, parameters: &[&String]) -> Trial {
    let mut bare = Trial { id: String::new(), variant: None, place: 0, repeat: 0, seed: 0, ..trial.clone() };
    // A fault's seed is derived from its trial's seed.
    bare.faults.iter_mut().for_each(|fault| fault.seed = 0);
    bare.lab.tiers = Vec::new();
    if let Some(load) = &mut bare.load {
        let of_groups = load.groups.iter_mut().flat_map(|group| &mut group.feeds);
        for feed in of_groups.chain(&mut load.feeds) {
            (feed.tier, feed.limits) = (None, FeedLimits::default());
        }
    }
    if let TargetKind::Folder { with, .. } = &mut bare.target.kind {
        with.retain(|name, _| !parameters.contains(&name));
    }
    bare
}

/// Returns the tier that holds a folder of the trial.
fn tier_of<'a>(trial: &'a Trial, folder: &String) -> Option<&'a Tier> {
    trial.lab.tiers.iter().find(|tier| tier.folders.contains(folder))
}

/// Kind of a trial's hosts, as far as tiers depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TierHosts {
    /// This machine itself.
    ThisMachine,
    /// Virtual hosts on this machine.
    Virtual,
    /// Hosts reached over ssh.
    Remote,
}

/// Returns the tiers of these folders, by name, with the settings in `[lab]`. `lab` is `None` if
/// the file has no `[lab]`. `target` is the section with the parameters.
pub(crate) fn of_trial(
    folders: Vec<PlacedFolder>,
    lab: Option<&Section<'_>>,
    target: &Section<'_>,
    hosts: TierHosts,
    problems: &mut Vec<Problem>,
) -> Vec<Tier> {
    let entries = lab.map(|lab| lab.entries("tier")).unwrap_or_default();
    let mut tiers: BTreeMap<String, Tier> = BTreeMap::new();
    for PlacedFolder { folder, tier: name, parameter } in folders {
        let Some(configured) = configured(&name, &entries) else {
            let what = format!("`{folder}` is on the tier `{name}`, which does not exist");
            problems.push(unknown(&name, &entries, Problem::absent(target.place("with"), what)));
            continue;
        };
        let tier = tiers.entry(name).or_insert(configured);
        tier.folders.push(folder);
        tier.parameters.extend(parameter);
        tier.parameters.dedup();
    }
    let tiers: Vec<Tier> = tiers.into_values().collect();
    for tier in &tiers {
        let place = entries.iter().find(|entry| entry.key == tier.name).map(|entry| &entry.node.place);
        problems.extend(refuse_on(tier, hosts, place.unwrap_or_else(|| target.place("with"))));
    }
    tiers
}

/// Returns the tier whose limits apply to reading a feed. `tier` is the place of the tier's name in
/// the file.
pub(crate) fn of_feed(
    name: &str,
    lab: Option<&Section<'_>>,
    tier: &TextSpan,
    problems: &mut Vec<Problem>,
) -> Option<Tier> {
    let entries = lab.map(|lab| lab.entries("tier")).unwrap_or_default();
    let found = configured(name, &entries);
    if found.is_none() {
        problems.push(unknown(name, &entries, Problem::absent(tier, format!("there is no tier `{name}`"))));
    }
    found
}

/// Returns the tier of this name with the settings of its `[lab.tier.NAME]`; `None` if there is
/// no such tier.
fn configured(name: &str, entries: &[TableEntry]) -> Option<Tier> {
    let own = entries.iter().find(|entry| entry.key == name).and_then(|entry| Some((entry, entry.node.table()?)));
    match own {
        Some((entry, table)) => Some(Tier::named(name).with(&Section { table, keys: TIER, place: &entry.node.place })),
        None => NAMES.contains(&name).then(|| Tier::named(name)),
    }
}

/// Completes the problem of a tier that does not exist.
fn unknown(name: &str, entries: &[TableEntry], problem: Problem) -> Problem {
    let known = NAMES.iter().copied().chain(entries.iter().map(|entry| entry.key.as_str()));
    let own = format!("add [lab.tier.{name}] with its limits, or take one of {}", NAMES.join(", "));
    problem.expected("unknown tier").hint(nearest_hint(name, known).unwrap_or(own))
}

/// Returns the problem of a tier that these hosts cannot have.
fn refuse_on(tier: &Tier, hosts: TierHosts, place: &TextSpan) -> Option<Problem> {
    let name = &tier.name;
    let on = join_words(&tier.folders.iter().map(|folder| format!("`{folder}`")).collect::<Vec<_>>(), "and");
    let (what, expected, hint) = match (tier.medium, hosts) {
        (TierMedium::Volume, TierHosts::ThisMachine) => (
            format!("{on}: without hosts no disk can be limited, and so there is no tier `{name}`"),
            "only virtual hosts can have it",
            "add `hosts = 1` to [lab], or take `disk`, `memory` or `pmem`",
        ),
        (TierMedium::Volume | TierMedium::Memory | TierMedium::Pmem, TierHosts::Remote) => (
            format!("{on}: hosts that are reached over ssh have no tier `{name}`"),
            "these machines are used as they are",
            "take `disk`, which is the machine's own",
        ),
        (TierMedium::Pmem, _) if tier.path.is_none() => (
            format!("{on}: the mount point of persistent memory is missing"),
            "no `path`",
            "add [lab.tier.pmem] with path = \"/mnt/pmem0\"; `plimsoll doctor` says what this machine has",
        ),
        (TierMedium::Memory, TierHosts::ThisMachine) if tier.limits.size_bytes.is_some() => (
            "without hosts the tier `memory` is this machine's /dev/shm, which has a size".to_owned(),
            "cannot be set",
            "remove `size`, or add `hosts = 1`",
        ),
        _ => return None,
    };
    Some(Problem::new(place, what).expected(expected).hint(hint))
}

/// Checks that `[lab.tier.NAME]` has only keys that apply to the tier's medium.
pub(crate) fn check(lab: &Section<'_>, problems: &mut Vec<Problem>) {
    for entry in lab.entries("tier") {
        let Some(table) = entry.node.table() else { continue };
        let section = Section { table, keys: TIER, place: &entry.node.place };
        let medium = Tier::named(&entry.key).medium;
        let takes: &[&str] = match medium {
            TierMedium::Disk => &[],
            TierMedium::Memory => &["size"],
            TierMedium::Pmem => &["path", "dax"],
            TierMedium::Volume => &["size", "read_iops", "write_iops", "read_rate", "write_rate", "source"],
        };
        for key in TIER.iter().map(|key| key.name).filter(|key| section.has(key) && !takes.contains(key)) {
            let problem = Problem::new(section.place(key), format!("the tier `{}` has no `{key}`", entry.key));
            let hint = match medium {
                TierMedium::Disk => {
                    "the host's profile limits it; `sata`, `nvme` or a name of your own can be limited".to_owned()
                }
                _ => format!(
                    "it takes {}",
                    join_words(&takes.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>(), "and")
                ),
            };
            problems.push(problem.expected("has no meaning here").hint(hint));
        }
        if section.text("path").is_some_and(|path| !path.starts_with('/')) {
            let problem = Problem::new(section.place("path"), "this is not the mount point of a file system");
            problems.push(problem.expected("does not begin with `/`").hint("path = \"/mnt/pmem0\""));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cited_device_has_a_source_and_a_known_name() {
        for device in &CITED {
            let tier = Tier::named(device.name);
            assert_eq!(tier.medium, TierMedium::Volume);
            assert!(NAMES.contains(&device.name) && tier.limits.is_throttled() && tier.source.is_some());
        }
        assert!(NAMES.is_sorted());
        assert_eq!(Tier::named("disk").limits, Disk::default());
    }

    /// Returns a trial of a store with its data on one tier and its logs on another.
    fn trial(variant: &str, data: &str, logs: &str) -> Trial {
        let tier = |name: &str, folder: &str, parameter: &str| Tier {
            parameters: vec![parameter.to_owned()],
            folders: vec![folder.to_owned()],
            ..Tier::named(name)
        };
        let mut trial = Trial { variant: Some(variant.to_owned()), ..Trial::default() };
        let with =
            BTreeMap::from([("data_tier".to_owned(), data.to_owned()), ("logs_tier".to_owned(), logs.to_owned())]);
        trial.target.kind = TargetKind::Folder { name: "store".to_owned(), with };
        trial.lab.tiers = vec![tier(data, "node.data", "data_tier"), tier(logs, "node.logs", "logs_tier")];
        trial
    }

    #[test]
    fn variants_that_differ_only_in_storage_are_listed() {
        let plan = |trials: Vec<Trial>| {
            let variants = trials.iter().filter_map(|trial| trial.variant.clone()).collect();
            only_storage(&Plan { variants, trials, ..Plan::default() })
        };
        let (slow, data, all) =
            (trial("slow", "disk", "disk"), trial("data", "nvme", "disk"), trial("all", "nvme", "nvme"));
        assert_eq!(
            plan(vec![slow.clone(), data.clone(), all.clone()]),
            [
                "`slow` and `data` differ only in the tiers of folders: `node.data` on disk or nvme",
                "`slow` and `all` differ only in the tiers of folders: `node.data` on disk or nvme and `node.logs` on disk or nvme",
            ]
        );
        let mut other = data.clone();
        other.lab.speed = 0.5;
        let mut told = vec![slow.clone(), data.clone()];
        // The parameters have another use as well, so their difference counts.
        told.iter_mut().flat_map(|trial| &mut trial.lab.tiers).for_each(|tier| tier.parameters.clear());
        assert!(plan(vec![slow.clone(), other]).is_empty() && plan(told).is_empty());
        assert!(plan(vec![slow.clone(), Trial { variant: Some("same".to_owned()), ..slow }]).is_empty());
        let mut slower = Trial { variant: Some("slower".to_owned()), ..data.clone() };
        slower.lab.tiers[0].limits.write_iops = Some(500.0);
        let expected = "`data` and `slower` differ only in the tiers of folders: `node.data` on nvme with other limits";
        assert_eq!(plan(vec![data, slower]), [expected]);
    }

    #[test]
    fn a_slow_lab_slows_a_tier_and_leaves_its_size() {
        let limits = Disk { size_bytes: Some(1 << 30), write_iops: Some(500.0), ..Disk::default() };
        let tier = Tier { limits, ..Tier::named("sata") };
        let slow = Disk { size_bytes: Some(1 << 30), write_iops: Some(125.0), ..Disk::default() };
        assert_eq!(tier.limits_at(0.25), slow);
    }
}
