//! `rate` of a load: start times of operations or of sessions in an open loop.

use serde::{Deserialize, Serialize};

use crate::keys::section;
use crate::plan::check_context::CheckContext;
use crate::plan::load_group;
use crate::plan::stage_lines::{self, StageKind, StageLine};
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::{Node, TomlTable, TomlValue};

section! {
    const STARTS {
        poisson: Positive,
            "Mean operations/s or sessions/s, started at random and independently of each other",
            ["random", "exponential"];
        replay: Text,
            "CSV file, relative to the experiment: its column `at_s` says when operations or sessions start, seconds \
             since load start, in order", ["file", "recorded"];
    }
}

section! {
    const STAGE {
        to: Number, "Operations/s or sessions/s at its end, reached in a straight line", ["target", "until", "end"];
        over: TIME, "Time to reach the rate `to`", ["duration", "in", "within", "time"];
        from: Number,
            "Operations/s or sessions/s at its beginning; default: the last of the stage before, or 0",
            ["start", "start_rate", "startRate"];
        at: Number, "Constant operations/s or sessions/s", ["rate", "hold"];
        for: TIME, "Time at the rate `at`", ["lasts"];
    }
}

section! {
    const DRAWN {
        ..STARTS: poisson, replay;
        sessions: Either(
            &[Positive, Table(STARTS), Tables(STAGE)],
            "sessions/s such as 40, { poisson = 40 }, { replay = \"starts.csv\" }, or stages",
        ),
            "Sessions/s, in any form of `rate`: the schedule starts cycles, and the steps of a cycle follow each \
             other as in a closed loop, with their pauses",
            ["users", "cycles", "iterations", "usersPerSec"];
    }
}

/// Forms of a rate, for hints.
const FORMS: &str = "{ poisson = 5000 }, { replay = \"starts.csv\" }, { sessions = 40 }";
/// Stages of a rate.
const KIND: StageKind = StageKind {
    keys: STAGE,
    forms: "{ to = 1000, over = \"10s\" } changes the rate evenly, { at = 1000, for = \"30s\" } keeps it",
    negative: ["a rate is not negative", "operations/s, 0 or more"],
    both: "a stage either goes to a rate or stays at one",
};

/// Start times of operations or sessions in an open loop. They do not depend on earlier operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Rate {
    /// Operations/s, evenly spaced.
    Constant(f64),
    /// Random start times that do not depend on each other.
    Poisson {
        /// Mean operations/s.
        poisson: f64,
    },
    /// Start times from a file.
    Replay {
        /// Path as written, relative to the experiment file: CSV with a column `at_s`.
        replay: String,
        /// Factor by which all times in the file are multiplied.
        #[serde(default = "once")]
        stretch: f64,
    },
    /// A rate that rises, falls and stays. After the last stage it stays at that stage's final
    /// rate.
    Stages(Vec<RateStage>),
    /// Start times of sessions. A session is a cycle, whose later operations follow as in a closed
    /// loop.
    Sessions {
        /// Sessions/s, in one of the other forms.
        sessions: Box<Self>,
    },
}

fn once() -> f64 {
    1.0
}

/// A time in which the rate changes evenly or stays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateStage {
    /// Operations/s at the stage's start.
    pub from: f64,
    /// Operations/s at the stage's end.
    pub to: f64,
    /// Duration of the stage, seconds.
    pub over_s: f64,
}

/// Whether a swept path is an offered rate. Operations of an open loop do not hinder each other, as
/// agents do.
#[must_use]
pub fn is_offered(path: &str) -> bool {
    let (_, key) = load_group::named(path).unwrap_or_default();
    key == "rate" || key.starts_with("rate.")
}

/// Whether a swept path is an offered rate of sessions.
#[must_use]
pub fn is_offered_in_sessions(path: &str) -> bool {
    let (_, key) = load_group::named(path).unwrap_or_default();
    key == "rate.sessions" || key.starts_with("rate.sessions.")
}

impl Rate {
    /// Returns the starts/s, if the rate is a plain number.
    #[must_use]
    pub fn constant(&self) -> Option<f64> {
        if let Self::Constant(per_s) = self.starts() { Some(*per_s) } else { None }
    }

    /// Returns the mean starts/s, of operations or of sessions, if it is the same at all times.
    #[must_use]
    pub fn per_s(&self) -> Option<f64> {
        match self {
            Self::Constant(per_s) | Self::Poisson { poisson: per_s } => Some(*per_s),
            Self::Replay { .. } | Self::Stages(_) => None,
            Self::Sessions { sessions } => sessions.per_s(),
        }
    }

    /// Returns the mean operations/s, if the rate starts operations and is the same at all times.
    #[must_use]
    pub fn operations_per_s(&self) -> Option<f64> {
        if self.is_of_sessions() { None } else { self.per_s() }
    }

    /// Whether the schedule starts sessions and not operations.
    #[must_use]
    pub fn is_of_sessions(&self) -> bool {
        matches!(self, Self::Sessions { .. })
    }

    /// Returns the schedule of the starts, whether of operations or of sessions.
    #[must_use]
    pub fn starts(&self) -> &Self {
        if let Self::Sessions { sessions } = self { sessions.starts() } else { self }
    }

    /// Returns the path of the file with recorded starts, if the rate is recorded.
    #[must_use]
    pub fn recorded(&self) -> Option<&str> {
        if let Self::Replay { replay, .. } = self.starts() { Some(replay) } else { None }
    }

    /// Scales the rate to a lab of this speed.
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
            Self::Sessions { sessions } => sessions.slow(speed),
        }
    }
}

/// Reads `rate`. Problems are reported; the load is not used then.
pub(super) fn read(section: &Section<'_>, context: &mut CheckContext<'_>) -> Option<Rate> {
    let node = section.node("rate")?;
    let Some(sessions) = node.table().and_then(|table| table.get("sessions")) else {
        return starts(section, node, context);
    };
    for key in ["poisson", "replay"] {
        let Some(other) = node.table().and_then(|table| table.get(key)) else { continue };
        context.problems.push(
            Problem::new(&other.place, format!("`{key}` and `sessions` exclude each other"))
                .expected("starts of operations")
                .related(&sessions.place, "starts of sessions")
                .hint(format!("for sessions write {{ sessions = {{ {key} = … }} }}")),
        );
    }
    Some(Rate::Sessions { sessions: Box::new(starts(section, sessions, context)?) })
}

/// Reads the start times, of operations or of sessions.
fn starts(section: &Section<'_>, node: &Node, context: &mut CheckContext<'_>) -> Option<Rate> {
    match &node.value {
        TomlValue::Table(table) => drawn(section, table, node, context),
        TomlValue::List(list) => stages(section, list, node, context),
        _ => node.number().map(Rate::Constant),
    }
}

fn drawn(section: &Section<'_>, table: &TomlTable, node: &Node, context: &mut CheckContext<'_>) -> Option<Rate> {
    match (table.get("poisson"), table.get("replay")) {
        (Some(poisson), Some(replay)) => {
            context.problems.push(
                Problem::new(&replay.place, "`poisson` and `replay` exclude each other")
                    .expected("as recorded")
                    .related(&poisson.place, "at random")
                    .hint("remove one of the two"),
            );
            None
        }
        (Some(poisson), None) => poisson.number().map(|poisson| Rate::Poisson { poisson }),
        (None, Some(replay)) => {
            without_ramp(section, node, context);
            Some(Rate::Replay { replay: replay.text()?.to_owned(), stretch: 1.0 })
        }
        (None, None) => {
            // Unknown keys are reported by the shape check.
            if table.entries.is_empty() {
                let problem = Problem::absent(&node.place, "`load.rate` is empty").expected("an empty table");
                context.problems.push(problem.hint(format!("write a number of operations/s, {FORMS}, or stages")));
            }
            None
        }
    }
}

fn stages(section: &Section<'_>, list: &[Node], node: &Node, context: &mut CheckContext<'_>) -> Option<Rate> {
    let lines = stage_lines::read(section, list, &KIND, context)?;
    if lines.is_empty() {
        let problem = Problem::absent(&node.place, "`load.rate` has no stage").expected("an empty list");
        context.problems.push(problem.hint(KIND.forms));
    } else if stage_lines::are_at_zero(list, &lines) {
        let problem = Problem::new(&node.place, "no operation ever starts at this rate").expected("0 all the time");
        context.problems.push(problem.hint("give one of the stages a rate above 0"));
    }
    without_ramp(section, node, context);
    let stage = |line: StageLine| RateStage { from: line.from, to: line.to, over_s: line.over_s };
    Some(Rate::Stages(lines.into_iter().map(stage).collect()))
}

/// Reports `ramp` beside a rate that changes: the schedule already says how the load begins, so
/// agents do not join one by one.
fn without_ramp(section: &Section<'_>, node: &Node, context: &mut CheckContext<'_>) {
    if section.number("ramp").is_some_and(|ramp_s| ramp_s > 0.0) {
        context.problems.push(
            Problem::new(section.place("ramp"), "`ramp` and a `rate` that changes exclude each other")
                .expected("a second way to begin slowly")
                .related(&node.place, "says when operations start")
                .hint("remove `ramp`; a rate rises in a stage such as { to = 1000, over = \"10s\" }"),
        );
    }
}
