//! `load.rate` and `load.backlog`: when operations start in an open loop, and how many of them may wait. It must not work out a single
//! start: that is the engine's.

use serde::{Deserialize, Serialize};

use crate::duration::show;
use crate::keys::{self, rate::STAGE};
use crate::plan::trial::Scene;
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::{Node, Table, Value};

/// What to write, for whoever wrote something else.
const FORMS: &str = "{ poisson = 5000 } or { replay = \"starts.csv\" }";
const STAGE_FORMS: &str = "{ to = 1000, over = \"10s\" } goes there evenly, { at = 1000, for = \"30s\" } stays";

/// When operations start, whatever became of those before: an open loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Rate {
    /// So many operations/s, evenly spaced.
    Constant(f64),
    /// At random and independently of each other.
    Poisson {
        /// Operations/s in the mean.
        poisson: f64,
    },
    /// As a file says.
    Replay {
        /// Path as written, relative to the experiment file: CSV with a column `at_s`.
        replay: String,
        /// Each time in it is taken so many times as long.
        #[serde(default = "once")]
        stretch: f64,
    },
    /// The rate rises, falls and stays; after the last     } else if has_rates && stages.iter().all(|stage| stage.from <= 0.0 && stage.to <= 0.0) { its rate holds.
    Stages(Vec<Stage>),
}

fn once() -> f64 {
    1.0
}

/// A time in which the rate changes evenly, or stays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Operations/s at its beginning.
    pub from: f64,
    /// Operations/s at its end.
    pub to: f64,
    /// Its length, seconds.
    pub over_s: f64,
}

/// A bound on the operations that are due and have not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// So many may wait, of all agents together.
    pub most: u32,
    /// What happens when another one becomes due.
    pub overflow: Overflow,
}

/// What happens to an operation that becomes due when as many wait as may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overflow {
    /// It never begins, and is counted.
    #[default]
    Drop,
    /// The load ends there.
    Stop,
}

/// Whether a swept path is an offered rate: nobody in it hinders another, as agents do.
#[must_use]
pub fn is_offered(path: &str) -> bool {
    path == "load.rate" || path.starts_with("load.rate.")
}

impl Rate {
    /// Operations/s, if it is written as a plain number.
    #[must_use]
    pub fn constant(&self) -> Option<f64> {
        if let Self::Constant(per_s) = self { Some(*per_s) } else { None }
    }

    /// Operations/s in the mean, if that is the same at any time.
    #[must_use]
    pub fn per_s(&self) -> Option<f64> {
        match self {
            Self::Constant(per_s) | Self::Poisson { poisson: per_s } => Some(*per_s),
            Self::Replay { .. } | Self::Stages(_) => None,
        }
    }

    /// In the time of a lab of this speed.
    pub(super) fn slow(&mut self, speed: f64) {
        match self {
            Self::Constant(per_s) | Self::Poisson { poisson: per_s } => *per_s *= speed,
            Self::Replay { stretch, .. } => *stretch /= speed,
            Self::Stages(stages) => {
                for stage in stages {
                    stage.from *= speed;
                    stage.to *= speed;
                    stage.over_s /= speed;
                }
            }
        }
    }
}

/// Reads `rate`. What is wrong is reported; the load is not used then.
pub(super) fn read(section: &Section<'_>, scene: &mut Scene<'_>) -> Option<Rate> {
    let node = section.node("rate")?;
    match &node.value {
        Value::Table(table) => drawn(section, table, node, scene),
        Value::List(list) => stages(section, list, node, scene),
        _ => node.number().map(Rate::Constant),
    }
}

fn drawn(section: &Section<'_>, table: &Table, node: &Node, scene: &mut Scene<'_>) -> Option<Rate> {
    match (table.get("poisson"), table.get("replay")) {
        (Some(poisson), Some(replay)) => {
            scene.problems.push(
                Problem::new(&replay.place, "`poisson` and `replay` exclude each other")
                    .expected("as recorded")
                    .related(&poisson.place, "at random")
                    .hint("remove one of the two"),
            );
            None
        }
        (Some(poisson), None) => poisson.number().map(|poisson| Rate::Poisson { poisson }),
        (None, Some(replay)) => {
            without_ramp(section, node, scene);
            Some(Rate::Replay { replay: replay.text()?.to_owned(), stretch: 1.0 })
        }
        (None, None) => {
            // Of a key that is none, the shape check speaks.
            if table.entries.is_empty() {
                let problem = Problem::absent(&node.place, "`load.rate` says nothing").expected("an empty table");
                scene.problems.push(problem.hint(format!("write a number of operations/s, {FORMS}, or stages")));
            }
            None
        }
    }
}

fn stages(section: &Section<'_>, list: &[Node], node: &Node, scene: &mut Scene<'_>) -> Option<Rate> {
    let mut stages = Vec::new();
    let mut last = 0.0;
    // Of a stage without one, that is said.
    let has_rate = |table: &Table| table.get("at").or_else(|| table.get("to")).is_some();
    let has_rates = list.iter().all(|item| item.table().is_some_and(has_rate));
    for item in list {
        let part = Section { table: item.table()?, keys: STAGE, place: &item.place };
        let stage = stage(&part, last, scene);
        last = stage.to;
        stages.push(stage);
    }
    if stages.is_empty() {
        let problem = Problem::absent(&node.place, "`load.rate` has no stage").expected("an empty list");
        scene.problems.push(problem.hint(STAGE_FORMS));
    } else if has_rates && stages.iter().all(|stage| stage.from <= 0.0 && stage.to <= 0.0) {
        let problem = Problem::new(&node.place, "no operation ever starts at this rate").expected("0 all the time");
        scene.problems.push(problem.hint("give one of the stages a rate above 0"));
    }
    too_long(section, &stages, list, scene);
    without_ramp(section, node, scene);
    Some(Rate::Stages(stages))
}

/// Where a schedule says how it begins, agents do not join one after the other.
fn without_ramp(section: &Section<'_>, node: &Node, scene: &mut Scene<'_>) {
    if section.seconds("ramp").is_some_and(|ramp_s| ramp_s > 0.0) {
        scene.problems.push(
            Problem::new(section.place("ramp"), "`ramp` and a `rate` that changes exclude each other")
                .expected("a second way to begin slowly")
                .related(&node.place, "says when operations start")
                .hint("remove `ramp`; a rate rises in a stage such as { to = 1000, over = \"10s\" }"),
        );
    }
}

/// A stage; what is wrong with it stands as 0. It begins with the rate of the one before, if it does not say otherwise.
fn stage(part: &Section<'_>, last: f64, scene: &mut Scene<'_>) -> Stage {
    let rates = ["from", "to", "at"].into_iter().filter_map(|key| part.node(key));
    for node in rates.filter(|node| node.number().is_some_and(|rate| rate < 0.0)) {
        let problem = Problem::new(&node.place, "a rate is not negative");
        scene.problems.push(problem.expected("operations/s, 0 or more"));
    }
    let has = |keys: &[&str]| keys.iter().any(|key| part.has(key));
    // Of a key that is none, the shape check speaks.
    let is_known = part.table.entries.iter().all(|entry| keys::find(STAGE, &entry.key).is_some());
    let lacking = |scene: &mut Scene<'_>, key: &str| {
        if !is_known {
            return;
        }
        let problem = Problem::absent(part.place, format!("this stage needs `{key}`"));
        scene.problems.push(problem.expected(format!("`{key}` is missing")).hint(STAGE_FORMS));
    };
    match (has(&["at", "for"]), has(&["from", "to", "over"])) {
        (true, true) => {
            let problem = Problem::new(part.place, "a stage either goes to a rate or stays at one");
            scene.problems.push(problem.expected("says both").hint(STAGE_FORMS));
        }
        (true, false) => ["at", "for"].into_iter().filter(|key| !part.has(key)).for_each(|key| lacking(scene, key)),
        (false, true) => ["to", "over"].into_iter().filter(|key| !part.has(key)).for_each(|key| lacking(scene, key)),
        (false, false) => lacking(scene, "to"),
    }
    let at = part.number("at");
    Stage {
        from: at.or_else(|| part.number("from")).unwrap_or(last),
        to: at.or_else(|| part.number("to")).unwrap_or(0.0),
        over_s: part.seconds("for").or_else(|| part.seconds("over")).unwrap_or(0.0),
    }
}

/// Stages that `time` cuts off are not played, and somebody waits for them.
fn too_long(section: &Section<'_>, stages: &[Stage], list: &[Node], scene: &mut Scene<'_>) {
    let Some(time_s) = section.seconds("time") else { return };
    let mut ends_s = 0.0;
    for (stage, node) in stages.iter().zip(list) {
        ends_s += stage.over_s;
        // Sums of decimal fractions are not exact.
        if ends_s > time_s * (1.0 + 1e-9) {
            let all_s: f64 = stages.iter().map(|stage| stage.over_s).sum();
            scene.problems.push(
                Problem::new(&node.place, "the stages are longer than the load")
                    .expected(format!("ends after {}", show(ends_s)))
                    .related(section.place("time"), "the whole load")
                    .hint(format!("all stages take {}: write that as `time`, or leave some out", show(all_s))),
            );
            return;
        }
    }
}

/// Reads `backlog` and `overflow`.
pub(super) fn backlog(section: &Section<'_>, scene: &mut Scene<'_>) -> Option<Backlog> {
    if section.has("backlog") && !section.has("rate") {
        scene.problems.push(
            Problem::new(section.place("backlog"), "`backlog` belongs to an open loop")
                .expected("without `rate` nothing waits: an agent starts an operation when it is free")
                .hint("add `rate`, or remove it"),
        );
    }
    if section.has("overflow") && !section.has("backlog") {
        scene.problems.push(
            Problem::new(section.place("overflow"), "`overflow` needs `backlog`")
                .expected("what happens when too many wait")
                .hint("add `backlog`, the most operations that may wait; without it there is no bound"),
        );
    }
    let overflow = match section.text("overflow") {
        Some("stop") => Overflow::Stop,
        _ => Overflow::Drop,
    };
    section.whole("backlog").map(|most| Backlog { most, overflow })
}
