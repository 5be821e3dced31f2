//! `[[load.group]]`: several populations of agents in one load, each with its own cycle or mix and
//! its own pace. A group is read as a load, so every rule for a load also applies to a group.

use crate::keys::{self, Key, section};
use crate::plan::check_context::CheckContext;
use crate::plan::load::{self, LOAD, Load};
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::TomlTable;

section! {
    const GROUP {
        name = required: Name, "Name in results, and in paths such as load.group.NAME.agents";
        ..LOAD: agents = required, on_start, cycle, mix, rate, backlog, overflow, count, iterations, ramp, timeout, think, think_spread_pct,
            retry, when_failed, cookies, follow;
    }
}

section! {
    const GROUPS {
        group: Tables(GROUP),
            "Several populations in one load, each with its own agents, cycle or mix, and pace; defaults of `ramp`, \
             `timeout`, `think`, `retry`, `when_failed`, `cookies` and `follow` are those of the load",
            ["groups", "population", "scenarios"];
    }
}

/// All keys of `[load]`, including those of its groups.
pub(crate) const LOAD_WITH_GROUPS: &[Key] = &keys::joined::<{ LOAD.len() + GROUPS.len() }>(LOAD, GROUPS);

/// Keys that belong into the groups, and not into `[load]`, if there are groups.
const OWN: [&str; 9] = ["agents", "on_start", "cycle", "mix", "rate", "backlog", "overflow", "count", "iterations"];

/// Returns `load.group` for a group that is read as a load, else `load`.
pub(super) fn path(section: &Section<'_>) -> &'static str {
    if section.table.get("name").is_some() { "load.group" } else { "load" }
}

/// Splits a path into a load into the group's name, if it names one, and the rest. The rest is
/// `rate` for both `load.rate` and `load.group.readers.rate`.
pub(crate) fn named(path: &str) -> Option<(Option<&str>, &str)> {
    let rest = path.strip_prefix("load.")?;
    match rest.strip_prefix("group.") {
        Some(rest) => rest.split_once('.').map(|(name, key)| (Some(name), key)),
        None => Some((None, rest)),
    }
}

/// Returns the group's name in a path such as `load.group.readers.agents`.
#[must_use]
pub fn group_of(path: &str) -> Option<&str> {
    named(path)?.0
}

/// Reads a load with groups.
pub(super) fn read(section: &Section<'_>, context: &mut CheckContext<'_>) -> Load {
    let sections = section.sections("group");
    check_alone(section, context);
    check_names(&sections, context);
    let mut groups = Vec::new();
    for group in &sections {
        let alone = alone(section.table, group.table);
        groups.push(load::read_population(&Section { table: &alone, keys: LOAD, place: group.place }, context));
    }
    check_operations(&sections, &groups, context);
    let mut load = Load { groups, rate: None, backlog: None, count: None, iterations: None, ..Load::read(section) };
    load.add_up_groups();
    load
}

/// Returns the group as a load: its own keys, and the shared keys of `[load]`.
fn alone(load: &TomlTable, group: &TomlTable) -> TomlTable {
    let shared = load.entries.iter().filter(|entry| {
        let key = entry.key.as_str();
        key != "group" && !OWN.contains(&key) && group.get(key).is_none()
    });
    TomlTable { entries: shared.chain(&group.entries).cloned().collect() }
}

impl Load {
    /// Sets the agents of a load with groups to their sum, and its ramp to the longest ramp.
    pub(crate) fn add_up_groups(&mut self) {
        if !self.groups.is_empty() {
            self.agents = self.groups.iter().map(|group| group.agents).fold(0, u32::saturating_add);
            self.ramp_s = self.groups.iter().map(|group| group.ramp_s).fold(0.0, f64::max);
        }
    }

    /// Returns the group of that name, or the load itself if no name is given and it has no groups.
    #[must_use]
    pub fn population(&self, name: Option<&str>) -> Option<&Self> {
        self.populations().iter().find(|population| population.name.as_deref() == name)
    }

    /// Returns the same group or load as [`Load::population`], mutably.
    pub(crate) fn population_mut(&mut self, name: Option<&str>) -> Option<&mut Self> {
        if self.groups.is_empty() {
            return (self.name.as_deref() == name).then_some(self);
        }
        self.groups.iter_mut().find(|group| group.name.as_deref() == name)
    }
}

/// Checks that `[load]` has no keys that conflict with groups.
fn check_alone(section: &Section<'_>, context: &mut CheckContext<'_>) {
    let place = section.place("group");
    if section.sections("group").is_empty() {
        let problem = Problem::absent(place, "`load.group` is empty").expected("no group");
        context.problems.push(problem.hint("add [[load.group]] with `name`, `agents` and a [[load.group.cycle]]"));
    }
    for key in OWN.into_iter().filter(|key| section.has(key)) {
        context.problems.push(
            Problem::new(section.place(key), format!("`{key}` and `group` exclude each other"))
                .expected("of the whole load")
                .related(place, "each group has its own")
                .hint(format!("move `{key}` into the groups")),
        );
    }
    // A slow operation of one group would delay the operations of the others behind it.
    if section.number("pipeline").is_some_and(|depth| depth > 1.0) {
        context.problems.push(
            Problem::new(section.place("pipeline"), "`pipeline` and `group` exclude each other")
                .expected("agents of several groups would share connections")
                .related(place, "the groups")
                .hint("remove one of the two"),
        );
    }
}

fn check_names(sections: &[Section<'_>], context: &mut CheckContext<'_>) {
    for (index, group) in sections.iter().enumerate() {
        if let Some(name) = group.text("name")
            && let Some(first) = sections[..index].iter().find(|earlier| earlier.text("name") == Some(name))
        {
            let problem = Problem::new(group.place("name"), format!("two groups are called `{name}`"));
            context.problems.push(problem.expected("the second").related(first.place("name"), "the first"));
        }
    }
}

/// Checks that no two groups have an operation of the same name. Records identify operations by
/// their names, and groups by their operations.
fn check_operations(sections: &[Section<'_>], groups: &[Load], context: &mut CheckContext<'_>) {
    for (index, (section, group)) in sections.iter().zip(groups).enumerate() {
        for step in load::step_sections(section) {
            let Some(name) = step.text("name").or(step.text("call")) else { continue };
            let mut before = groups[..index].iter();
            let other = before.find(|other| other.steps.iter().any(|known| known.name == name));
            let Some(other) = other else { continue };
            // A repeated name in the same group means the same operation.
            let (own, others) = (group.name.as_deref().unwrap_or("?"), other.name.as_deref().unwrap_or("?"));
            let key = if step.has("name") { "name" } else { "call" };
            let problem = Problem::new(step.place(key), format!("the group `{others}` has an operation `{name}`, too"));
            context.problems.push(
                problem
                    .expected("a second one of this name")
                    .hint(format!("results distinguish groups by their operations: name = \"{own}-{name}\"")),
            );
        }
    }
}
