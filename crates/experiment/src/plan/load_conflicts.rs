//! Settings of a load that exclude each other.

use crate::plan::parallel;
use crate::plan::{Connections, Load};

/// Settings of a load that exclude each other.
#[derive(Debug, Clone, Copy)]
pub struct LoadConflict {
    /// Key of the setting to remove.
    pub(super) key: &'static str,
    pub(super) what: &'static str,
    pub(super) why: &'static str,
    /// Key of the other setting, and a note on it.
    pub(super) with: Option<(&'static str, &'static str)>,
    pub(super) hint: &'static str,
}

impl std::fmt::Display for LoadConflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.what, self.why)
    }
}

impl Load {
    /// Returns the conflicting settings in this load. A load from a plan has none.
    pub fn conflicts(&self) -> impl Iterator<Item = LoadConflict> {
        let Connections { keep_alive, pipeline } = self.connections;
        let starts_operations = self.rate.as_ref().is_some_and(|rate| !rate.is_of_sessions());
        let think = (starts_operations && self.has_pauses()).then_some(LoadConflict {
            key: "think",
            what: "`think` and a `rate` of operations exclude each other",
            why: "a pause belongs to a closed loop or to a session",
            with: Some(("rate", "open loop: operations start on a schedule")),
            hint: "remove one of the two, or start sessions: rate = { sessions = … }",
        });
        let backlog = (self.backlog.is_some() && self.rate.is_none()).then_some(LoadConflict {
            key: "backlog",
            what: "`backlog` belongs to an open loop",
            why: "without `rate` no operation waits: an agent starts one when it is free",
            with: None,
            hint: "add `rate`, or remove it",
        });
        let pipeline = (pipeline > 1 && !keep_alive).then_some(LoadConflict {
            key: "pipeline",
            what: "`pipeline` needs connections that are kept",
            why: "1, or without `keep_alive = false`",
            with: Some(("keep_alive", "each operation makes its own connection")),
            hint: "remove one of the two",
        });
        let sites = (self.connections.pipeline > 1 && !self.sites.is_empty()).then_some(LoadConflict {
            key: "sites",
            what: "`sites` and `pipeline` exclude each other",
            why: "an agent has a connection of its own to each site",
            with: Some(("pipeline", "agents share connections")),
            hint: "remove one of the two",
        });
        let iterations = LoadConflict {
            key: "iterations",
            what: "`iterations` and `rate` exclude each other",
            why: "belongs to a closed loop",
            with: Some(("rate", "open loop: a schedule starts operations or sessions")),
            hint: "remove one of the two",
        };
        let iterations = (self.iterations.is_some() && self.rate.is_some()).then_some(iterations);
        let count = (self.iterations.is_some() && self.count.is_some()).then_some(LoadConflict {
            key: "iterations",
            what: "`iterations` and `count` exclude each other",
            why: "cycles of each agent",
            with: Some(("count", "cycles of all agents together")),
            hint: "remove one of the two",
        });
        [think, backlog, pipeline, sites, parallel::conflict(self), iterations, count]
            .into_iter()
            .flatten()
            .chain(self.conflicts_of_stages())
    }

    /// Returns the settings that conflict with stages of agents.
    fn conflicts_of_stages(&self) -> impl Iterator<Item = LoadConflict> {
        let has_stages = !self.agent_stages.is_empty();
        let stages = Some(("agents", "agents come and go in stages"));
        let rate = LoadConflict {
            key: "agents",
            what: "stages of `agents` and `rate` exclude each other",
            why: "belongs to a closed loop",
            with: Some((
                "rate",
                "open loop: operations or sessions start on a schedule, whatever the number of agents",
            )),
            hint: "let the rate rise and fall, rate = [{ to = 1000, over = \"1m\" }] or rate = { sessions = [{ to = 40, \
                   over = \"1m\" }] }; `agents` is then a plain number, the most at once",
        };
        let ramp = LoadConflict {
            key: "ramp",
            what: "`ramp` and stages of `agents` exclude each other",
            why: "a second way to begin slowly",
            with: stages,
            hint: "remove `ramp` (in a group write ramp = \"0s\"); the first stage says how the agents come",
        };
        let [iterations, count] = [
            ("iterations", "`iterations` and stages of `agents` exclude each other"),
            ("count", "`count` and stages of `agents` exclude each other"),
        ]
        .map(|(key, what)| LoadConflict {
            key,
            what,
            why: "a second rule for when agents end",
            with: stages,
            hint: "remove one of the two",
        });
        [
            self.rate.is_some().then_some(rate),
            (self.ramp_s > 0.0).then_some(ramp),
            self.iterations.is_some().then_some(iterations),
            self.count.is_some().then_some(count),
        ]
        .into_iter()
        .flatten()
        .filter(move |_| has_stages)
    }
}
