//! Trials of a plan. Turns one setting (a variant at a point) into the parts of a trial:
//! preparation, exercise, times and seeds. All checks that need only one trial are made here.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::catalog::Catalog;
use crate::plan::check_context::{CheckContext, PortNames};
use crate::plan::exercise::{self, Exercise};
use crate::plan::fault::{self, Fault, When};
use crate::plan::fleet::{self, Fleet};
use crate::plan::lab::{self, Lab};
use crate::plan::load::{self, Load, Retry, Warmup};
use crate::plan::prepare::{self, Prepare};
use crate::plan::site;
use crate::plan::target::{self, Target, TargetKind, TargetStart};
use crate::plan::violation_stop;
use crate::problem::Problem;
use crate::section::{Mode, Section, SectionWalk};
use crate::tree::TomlTable;

/// One trial: a point of the sweep × variant × repeat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Number of the trial, `001`, `002`, …; also the name of its folder.
    pub id: String,
    /// Name of the variant, if the experiment has any.
    pub variant: Option<String>,
    /// Values of the swept paths in this trial.
    pub point: BTreeMap<String, Json>,
    /// Position of the variant and point in the order of the file, from 0. Trials are played in
    /// another order.
    #[serde(default, skip_serializing_if = "is_first")]
    pub place: usize,
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// Source of all randomness in the trial.
    pub seed: u64,
    /// The system under test.
    pub target: Target,
    /// Hosts on which the trial runs.
    pub lab: Lab,
    /// Operations before the load, in order.
    pub prepare: Vec<Prepare>,
    /// The load, if any.
    pub load: Option<Load>,
    /// Generators of the load, if not the conductor's own process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Fleet>,
    /// Faults, each with its time.
    pub faults: Vec<Fault>,
    /// Condition under which the limits of a search must hold, one of
    /// [`Find::surviving`](super::Find::surviving).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surviving: Option<String>,
    /// Exercise: `[[step]]`, beside the load or without one.
    pub steps: Vec<Exercise>,
}

fn is_first(place: &usize) -> bool {
    *place == 0
}

/// Seconds at full speed that reading back may take after a short load.
const READ_BACK_S: f64 = 10.0;

impl Trial {
    /// Returns the faults of the clock and of the steps.
    #[must_use]
    pub fn all_faults(&self) -> Vec<Fault> {
        let of_steps = self.steps.iter().flat_map(|step| &step.does);
        self.faults.iter().chain(of_steps).cloned().collect()
    }

    /// Whether two trials differ only in their load, and their target has `start = "once"`. Trials
    /// with a fault or a step do not share a start, because these may change the target's state.
    pub(super) fn shares_start(&self, other: &Self) -> bool {
        let fed = |trial: &Self| trial.load.as_ref().map(|load| (load.feeds.clone(), load.script.clone()));
        let is_left_alone = |trial: &Self| trial.faults.is_empty() && trial.steps.is_empty();
        self.target.start == TargetStart::Once
            && is_left_alone(self)
            && is_left_alone(other)
            && (&self.variant, &self.target, &self.lab) == (&other.variant, &other.target, &other.lab)
            && self.prepare == other.prepare
            && (self.prepare.is_empty() || fed(self) == fed(other))
    }

    /// Whether any operation has `audit`.
    #[must_use]
    pub fn has_audited_keys(&self) -> bool {
        is_audited(self.load.as_ref(), &self.prepare)
    }

    /// Returns the seconds that reading back audited keys may take: a quarter of the load's time,
    /// but at least 10 s of the lab's time. 0 without audited keys.
    #[must_use]
    pub fn read_back_s(&self) -> f64 {
        if self.has_audited_keys() {
            (READ_BACK_S / self.lab.speed).max(0.25 * self.load.as_ref().map_or(0.0, |load| load.time_s))
        } else {
            0.0
        }
    }
}

fn is_audited(load: Option<&Load>, prepare: &[Prepare]) -> bool {
    let of_load = load.into_iter().flat_map(Load::all_steps);
    of_load.chain(prepare.iter().map(|prepare| &prepare.step)).any(|step| step.audit)
}

/// A trial without the values that differ between its repeats.
#[derive(Debug)]
pub(super) struct TrialTemplate {
    pub target: Target,
    pub lab: Lab,
    pub prepare: Vec<Prepare>,
    pub load: Option<Load>,
    pub fleet: Option<Fleet>,
    pub faults: Vec<Fault>,
    pub steps: Vec<Exercise>,
}

/// Reads a trial. Returns `None` only if there are problems.
pub(super) fn read(root: &Section<'_>, catalog: &Catalog) -> (Option<TrialTemplate>, Vec<Problem>) {
    let mut context = CheckContext {
        catalog,
        protocol: None,
        operations: &[],
        ports: PortNames::Unknown,
        addresses: 0,
        tiers: Vec::new(),
        feeds: Vec::new(),
        sites: BTreeSet::new(),
        has_script: false,
        prepared: BTreeMap::new(),
        problems: Vec::new(),
    };
    SectionWalk { root: root.keys, mode: Mode::Whole, problems: &mut context.problems }
        .table("", root.keys, root.table, root.place);
    let target = root.section("target").and_then(|section| target::read(&section, &mut context));
    let kind = target.as_ref().map(|target| &target.kind);
    context.ports = PortNames::of(kind, catalog);
    if let Some(TargetKind::Folder { name, .. }) = kind {
        context.operations = catalog.targets.get(name).map_or(&[], |manifest| &manifest.operations);
    }
    let mut lab = root.section("lab").map_or_else(Lab::default, |section| lab::read(&section, kind, &mut context));
    lab::private_only_virtual(root, &lab, kind, &mut context);
    lab::add_tiers(root, kind, &mut lab, &mut context);
    context.tiers.clone_from(&lab.tiers);
    context.feeds = load::feed_names(root);
    context.sites = site::names(root);
    site::check_lab(root, &lab, &mut context);
    context.has_script = root.section("load").is_some_and(|load| load.has("script"));
    let prepare = prepare::read(root, &mut context);
    let mut load = root.section("load").map(|section| load::read(&section, &mut context));
    load.iter_mut().for_each(|load| load::limit_feeds(root, load, &mut context));
    let fleet = fleet::read(root, &mut context);
    violation_stop::check(root, load.as_ref(), &mut context);
    fleet::place(root, fleet.as_ref(), kind, &mut lab, &mut context);
    needs_service(root, kind, &mut context);
    let end = root.section("load").and_then(|section| Some((section.number("time")?, section.place("time").clone())));
    let victims = fault::Victims::of(&lab, kind, catalog);
    let faults = fault::read(root, &victims, end.as_ref(), &mut context);
    let steps = exercise::read(root, &victims, &mut context);
    if ["load", "fault", "step"].iter().all(|section| !has_something(root.table, section)) {
        context.problems.push(
            Problem::absent(root.place, "nothing happens in this experiment")
                .expected("neither [load] nor [[fault]] nor [[step]]")
                .hint("add [load] with `agents`, `time` and a [[load.cycle]]; `plimsoll new URL` writes a whole file"),
        );
    }
    if let Some(target) = target.as_ref().filter(|target| target.start == TargetStart::Once) {
        may_share_start(root, target, (load.as_ref(), &prepare), &mut context);
    }
    let mut parts = target.map(|target| TrialTemplate { target, lab, prepare, load, fleet, faults, steps });
    // This is the last step, because problems refer to the file's own times.
    parts.iter_mut().for_each(dilate);
    (parts, context.problems)
}

/// Checks that each trial of a shared start finds the target in the state it had at the start.
fn may_share_start(
    root: &Section<'_>,
    target: &Target,
    (load, prepare): (Option<&Load>, &[Prepare]),
    context: &mut CheckContext<'_>,
) {
    let start = root.section("target").map(|section| section.place("start").clone());
    let Some(start) = start else { return };
    for section in ["fault", "step"].into_iter().filter(|section| has_something(root.table, section)) {
        let problem = Problem::new(&start, format!("trials with a [[{section}]] need a start of the target each"))
            .expected("not beside faults and steps")
            .hint("remove `start = \"once\"`: what a trial breaks would be measured in the next one");
        let entry = root.table.entry(section);
        context.problems.push(match entry {
            Some(entry) => problem.related(&entry.key_place, "this changes the target"),
            None => problem,
        });
    }
    let TargetKind::Folder { name, .. } = &target.kind else {
        prepare::check_start(&start, prepare, false, context);
        return;
    };
    let resets = context.catalog.targets.get(name).is_some_and(|manifest| manifest.hooks.contains_key("reset"));
    prepare::check_start(&start, prepare, resets, context);
    if is_audited(load, prepare) && !resets {
        let what = format!("audited keys need a start each: the target `{name}` has no hook `reset`");
        let problem = Problem::new(&start, what).expected("a later trial would find the keys of an earlier one");
        let hint = "remove `start = \"once\"` or `audit = true`, or give the target a hook `reset`";
        context.problems.push(problem.hint(hint));
    }
}

/// Checks that the target has a service if clients use a protocol.
fn needs_service(root: &Section<'_>, kind: Option<&TargetKind>, context: &mut CheckContext<'_>) {
    let Some(TargetKind::Folder { name, .. }) = kind else { return };
    let lacks = context.catalog.targets.get(name).is_some_and(|manifest| manifest.about.service.is_empty());
    if !lacks || context.protocol.is_none_or(|protocol| protocol.name == "command") {
        return;
    }
    for section in ["load", "prepare"] {
        if let Some(entry) = root.table.entry(section) {
            let problem =
                Problem::new(&entry.key_place, format!("the target `{name}` has no service that clients go to"));
            let hint = "its target.toml has no `service`; it can be used with steps, and with the protocol `command`";
            context.problems.push(problem.expected("no service").hint(hint));
        }
    }
}

/// Whether the section exists and is not an empty list.
fn has_something(tree: &TomlTable, section: &str) -> bool {
    tree.get(section).is_some_and(|node| node.list().is_none_or(|list| !list.is_empty()))
}

/// Divides every duration by the lab's speed and multiplies every rate by it.
fn dilate(parts: &mut TrialTemplate) {
    let speed = parts.lab.speed;
    // A wrong speed has been reported.
    if speed <= 0.0 || (speed - 1.0).abs() < f64::EPSILON {
        return;
    }
    if let TargetKind::Started { within_s, .. } = &mut parts.target.kind {
        *within_s /= speed;
    }
    if let Some(load) = &mut parts.load {
        slow_load(load, speed);
    }
    for fault in &mut parts.faults {
        slow_fault(fault, speed);
    }
    for step in &mut parts.steps {
        step.within_s /= speed;
        step.usual_s = step.usual_s.map(|usual_s| usual_s / speed);
        step.at_s = step.at_s.map(|at_s| at_s / speed);
        step.pause_s = step.pause_s.map(|pause_s| pause_s / speed);
        step.does.iter_mut().for_each(|fault| slow_fault(fault, speed));
    }
}

fn slow_load(load: &mut Load, speed: f64) {
    for time_s in [
        &mut load.ramp_s,
        &mut load.time_s,
        &mut load.timeout_s,
        &mut load.drain_s,
        &mut load.think_s,
        &mut load.reconnect_s,
        &mut load.reconnects.delay_s,
    ] {
        *time_s /= speed;
    }
    if let Warmup::Seconds(warmup_s) = &mut load.warmup {
        *warmup_s /= speed;
    }
    match &mut load.retry {
        Retry::FailFast => {}
        Retry::Wait { wait_s } | Retry::Tries { wait_s, .. } => *wait_s /= speed,
    }
    if let Some(rate) = &mut load.rate {
        rate.slow(speed);
    }
    load.agent_stages.iter_mut().for_each(|stage| stage.over_s /= speed);
    let pauses = load.steps.iter_mut().filter_map(|step| step.think.as_mut());
    load.think.iter_mut().chain(pauses).for_each(|pause| pause.slow(speed));
    load.feeds.iter_mut().for_each(|feed| feed.limits.slow(speed));
    load.groups.iter_mut().for_each(|group| slow_load(group, speed));
}

fn slow_fault(fault: &mut Fault, speed: f64) {
    match &mut fault.when {
        When::At(at_s) => *at_s /= speed,
        When::Every { first_s, every_s } => {
            *first_s /= speed;
            *every_s /= speed;
        }
        When::After { plus_s, .. } => *plus_s /= speed,
    }
    if let Some(for_s) = &mut fault.for_s {
        *for_s /= speed;
    }
}

/// Returns the seed of a trial. It depends on the point's content, so a longer sweep does not
/// change the other trials.
pub(crate) fn seed_of_trial(seed: u64, repeat: u32, point: &BTreeMap<String, Json>) -> u64 {
    let mut state = mix(seed, u64::from(repeat));
    for (path, value) in point {
        state = mix_text(mix_text(state, path), &value.to_string());
    }
    state
}

/// Returns the seed of a fault without a seed.
pub(crate) fn seed_of_fault(trial_seed: u64, name: &str) -> u64 {
    mix_text(trial_seed, name)
}

/// Returns the faults, each with a seed. A fault without a seed (0) gets one that depends on the
/// trial's seed.
pub(crate) fn seeded_faults(faults: &[Fault], trial_seed: u64) -> Vec<Fault> {
    let mut seeded = faults.to_vec();
    for fault in seeded.iter_mut().filter(|fault| fault.seed == 0) {
        fault.seed = seed_of_fault(trial_seed, &fault.name);
    }
    seeded
}

/// Returns the steps with seeded actions. All actions of a step have the same seed, so that `one`
/// selects the same member in each of them.
pub(crate) fn seeded_steps(steps: &[Exercise], trial_seed: u64) -> Vec<Exercise> {
    let mut seeded = steps.to_vec();
    for step in &mut seeded {
        let seed = seed_of_fault(trial_seed, &step.name);
        step.does.iter_mut().filter(|fault| fault.seed == 0).for_each(|fault| fault.seed = seed);
    }
    seeded
}

fn mix_text(state: u64, text: &str) -> u64 {
    text.bytes().fold(mix(state, text.len() as u64), |state, byte| mix(state, u64::from(byte)))
}

/// One step of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// 2014).
fn mix(state: u64, input: u64) -> u64 {
    let mut z = (state ^ input.wrapping_mul(0xff51_afd7_ed55_8ccd)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
