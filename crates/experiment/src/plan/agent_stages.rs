//! `agents` in stages: a closed loop whose number of agents rises, falls and stays.

use serde::{Deserialize, Serialize};

use crate::keys::section;
use crate::plan::check_context::CheckContext;
use crate::plan::load::Load;
use crate::plan::stage_lines::{self, StageKind, StageLine};
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::Node;

section! {
    const AGENT_STAGE {
        to: Whole { min: 0, max: u32::MAX as i64 }, "Number of agents at its end, reached one by one in a straight line",
            ["target", "until", "end", "users", "vus"];
        over: TIME, "Time to reach the number `to`", ["duration", "in", "within", "time"];
        from: Whole { min: 0, max: u32::MAX as i64 },
            "Number of agents at its beginning; default: the last of the stage before, or 0",
            ["start", "start_vus", "startVUs"];
        at: Whole { min: 0, max: u32::MAX as i64 }, "Constant number of agents", ["hold"];
        for: TIME, "Time with the number `at`", ["lasts"];
    }
}

/// Stages of agents.
const KIND: StageKind = StageKind {
    keys: AGENT_STAGE,
    forms: "{ to = 50, over = \"1m\" } lets agents come or go evenly, { at = 50, for = \"3m\" } keeps them",
    negative: ["a number of agents is not negative", "0 or more"],
    both: "a stage either goes to a number of agents or stays at one",
};

/// A time in which the number of agents changes evenly or stays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AgentStage {
    /// Number of agents at the stage's start.
    pub from: u32,
    /// Number of agents at the stage's end.
    pub to: u32,
    /// Duration of the stage, seconds.
    pub over_s: f64,
}

/// Reads `agents`, if it is a list of stages. Problems are reported; the load is not used then.
pub(super) fn read(section: &Section<'_>, context: &mut CheckContext<'_>) -> Vec<AgentStage> {
    let Some((node, list)) = section.node("agents").and_then(|node| Some((node, node.list()?))) else {
        return Vec::new();
    };
    let Some(lines) = stage_lines::read(section, list, &KIND, context) else { return Vec::new() };
    if lines.is_empty() {
        let problem = Problem::absent(&node.place, "`agents` has no stage").expected("an empty list");
        context.problems.push(problem.hint(KIND.forms));
    } else if stage_lines::are_at_zero(list, &lines) {
        let problem = Problem::new(&node.place, "no agent ever starts").expected("0 all the time");
        context.problems.push(problem.hint("give one of the stages a number above 0"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; others are reported")]
    let stage = |line: StageLine| AgentStage { from: line.from as u32, to: line.to as u32, over_s: line.over_s };
    lines.into_iter().map(stage).collect()
}

/// Returns the value of `agents`: the number, or the largest number in its stages.
pub(super) fn most(section: &Section<'_>) -> u32 {
    let whole = |node: &Node| node.number().unwrap_or_default();
    let stages = section.node("agents").and_then(Node::list).unwrap_or_default().iter().filter_map(Node::table);
    let values = stages.flat_map(|stage| ["from", "to", "at"].into_iter().filter_map(|key| stage.get(key)));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; others are reported")]
    let most = values.map(|node| whole(node) as u32).max();
    most.unwrap_or_else(|| section.get("agents").unwrap_or_default())
}

impl Load {
    /// Whether the number of agents changes by plan, other than by `ramp`.
    #[must_use]
    pub fn changes_agents(&self) -> bool {
        self.populations().iter().any(|population| !population.agent_stages.is_empty())
    }

    /// Returns the mean number of agents over the load's time. `ramp` is left out.
    #[must_use]
    pub fn mean_agents(&self) -> f64 {
        self.populations().iter().map(|population| population.mean_own_agents(self.time_s)).sum()
    }

    fn mean_own_agents(&self, time_s: f64) -> f64 {
        let Some(last) = self.agent_stages.last().filter(|_| time_s > 0.0) else { return f64::from(self.agents) };
        let (mut agents_s, mut left_s) = (0.0, time_s);
        for stage in &self.agent_stages {
            agents_s += (f64::from(stage.from) + f64::from(stage.to)) / 2.0 * stage.over_s;
            left_s -= stage.over_s;
        }
        (agents_s + f64::from(last.to) * left_s.max(0.0)) / time_s
    }

    /// Returns the largest number of agents that join within a second.
    #[must_use]
    pub fn joins_per_s(&self) -> f64 {
        self.populations().iter().map(Self::own_joins_per_s).sum()
    }

    fn own_joins_per_s(&self) -> f64 {
        if self.agent_stages.is_empty() {
            return f64::from(self.agents) / self.ramp_s.max(1.0);
        }
        let mut before = 0;
        let joins = self.agent_stages.iter().map(|stage| {
            let jump = stage.from.saturating_sub(std::mem::replace(&mut before, stage.to));
            f64::from(jump) + f64::from(stage.to.saturating_sub(stage.from)) / stage.over_s.max(1.0)
        });
        joins.fold(0.0, f64::max)
    }
}
