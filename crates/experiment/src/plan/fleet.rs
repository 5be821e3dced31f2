//! `[fleet]` of a trial: the processes that make its load together, in place of this one.

use serde::{Deserialize, Serialize};

use crate::keys::section;
use crate::plan::check_context::CheckContext;
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::TextSpan;

section! {
    /// `[fleet]`: generators, each with a part of the load. `agents` and `rate` are those of all together.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Fleet = FLEET {
        generators = required: Whole { min: 1, max: 1000 } => u32,
            "Processes that make the load together; `load.agents` and `load.rate` are those of all", ["processes", "workers", "parallelism"];
        threads = "1": Whole { min: 1, max: 1024 } => u32, "Threads of each generator";
        by = "local": Choice(&["local", "command"])
            => by: FleetEngine = |fleet| fleet.get("by").unwrap_or_default(),
            "What starts them: \"local\", this machine; \"command\", whatever `start` says", ["engine", "on"];
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        start: TEXTS => Vec<String>,
            "With by = \"command\": a program and its arguments that lead to the standard input and output of `plimsoll generator`; \
             {number} is the generator's, from 1, and {plimsoll} this program", ["command", "run"];
    }
}

/// What starts generators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetEngine {
    /// Processes of this machine, where clients are.
    #[default]
    Local,
    /// Whatever a command of the user's leads to.
    Command,
}

impl Fleet {
    /// Threads of all generators.
    #[must_use]
    pub fn all_threads(&self) -> u32 {
        self.generators.saturating_mul(self.threads)
    }
}

/// Reads the section, and holds it against the load that is to be divided.
pub(super) fn read(root: &Section<'_>, scene: &mut CheckContext<'_>) -> Option<Fleet> {
    let section = root.section("fleet")?;
    let fleet = Fleet::read(&section);
    started(&section, &fleet, scene);
    let Some(load) = root.section("load") else {
        let problem = Problem::absent(section.place, "there is no load for the generators").expected("no [load]");
        scene.problems.push(problem.hint("add [load], or remove [fleet]"));
        return Some(fleet);
    };
    divided(&section, &load, scene);
    if let Some(name) = scene.protocol.map(|protocol| protocol.name).filter(|name| *name == "command") {
        let problem =
            Problem::new(section.place, format!("the protocol `{name}` runs programs, which is done by one process"));
        scene.problems.push(problem.expected("not with it").hint("remove [fleet]"));
    }
    Some(fleet)
}

/// `start` belongs to `by = "command"`.
fn started(section: &Section<'_>, fleet: &Fleet, scene: &mut CheckContext<'_>) {
    match fleet.by {
        FleetEngine::Command if fleet.start.is_empty() => {
            let problem =
                Problem::absent(section.place("by"), "nothing says how a generator is started").expected("no `start`");
            scene.problems.push(
                problem.hint(
                    "add start = [\"ssh\", \"gen{number}\", \"plimsoll\", \"generator\"], or whatever leads to one",
                ),
            );
        }
        FleetEngine::Local if section.has("start") => {
            let problem = Problem::new(section.place("start"), "`start` belongs to by = \"command\"")
                .expected("not with \"local\"");
            scene.problems.push(problem.hint("add by = \"command\", or remove `start`"));
        }
        FleetEngine::Local | FleetEngine::Command => {}
    }
}

/// Refuses what several processes cannot share.
fn divided(section: &Section<'_>, load: &Section<'_>, scene: &mut CheckContext<'_>) {
    let mut refuse = |place: &TextSpan, what: &str, expected: &str, remedy: &str| {
        let problem = Problem::new(place, what).expected(expected).related(section.place, "the load is divided here");
        scene.problems.push(problem.hint(remedy));
    };
    if load.has("threads") {
        let remedy = "write `threads` of each generator into [fleet]";
        refuse(load.place("threads"), "`load.threads` is about one process", "not with [fleet]", remedy);
    }
    if load.text("overflow") == Some("stop") {
        let remedy = "write overflow = \"drop\", or play the load without [fleet]";
        refuse(
            load.place("overflow"),
            "a full backlog stops one generator, and not the others",
            "not with [fleet]",
            remedy,
        );
    }
    let populations = std::iter::once(*load).chain(load.sections("group"));
    for population in populations.collect::<Vec<_>>() {
        if population.has("count") {
            let remedy = "bound the load by `time`, or play it without [fleet]";
            let what = "`count` bounds all agents together, and generators do not ask each other";
            refuse(population.place("count"), what, "not with [fleet]", remedy);
        }
    }
    for feed in load.sections("feed").iter().filter(|feed| feed.boolean("stream")) {
        let what = "a stream is dealt out by one process";
        refuse(feed.place("stream"), what, "not with [fleet]", "remove `stream`, or play the load without [fleet]");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn threads_of_all_are_those_of_each_generator() {
        let fleet = Fleet { generators: 3, threads: 4, by: FleetEngine::Local, start: Vec::new() };
        assert_eq!(fleet.all_threads(), 12);
        assert_eq!(Fleet { generators: u32::MAX, ..fleet }.all_threads(), u32::MAX);
    }
}
