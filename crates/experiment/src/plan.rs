//! The plan: an experiment resolved into trials, each complete in itself. It is printable, is
//! serialised to `plan.json`, and is the only input of a run. It holds no file positions, no open
//! defaults and no open choices.

use serde::{Deserialize, Serialize};

mod agent_stages;
mod answer_stream;
mod audited;
mod check_context;
mod demand;
mod exercise;
mod fault;
pub(crate) mod file_keys;
mod find;
mod fleet;
mod gates;
mod lab;
mod load;
mod load_conflicts;
pub(crate) mod load_group;
mod metric;
mod operation;
mod parallel;
mod pause;
mod point_repeats;
mod prepare;
mod rate;
pub(crate) mod reading;
mod redirects;
mod site;
mod stage_lines;
mod step_keys;
mod stop_rule;
pub(crate) mod target;
pub(crate) mod trial;
mod violation_stop;

pub use agent_stages::AgentStage;
pub use answer_stream::StreamEnd;
pub use audited::{AuditAs, AuditEffect};
pub use demand::Demand;
pub use exercise::Exercise;
pub use fault::{Fault, Victim, When};
pub(crate) use file_keys::EXPERIMENT;
pub use find::{Find, NOTHING_LOST, ONE_MEMBER_DOWN};
pub use fleet::{Fleet, FleetEngine, GENERATOR_ROLE, KubernetesFleet, SlurmFleet};
pub use gates::{Claim, MetricRange, Requirement};
pub use lab::{Host, Lab, LabPods, MemberDemand, Network, Port};
pub use load::{
    Backlog, Connections, Failover, Feed, FeedFormat, FeedLimits, FeedPacking, Load, Overflow, Reconnects, Retry,
    StepOrder, Warmup, WhenFailed,
};
pub use load_conflicts::LoadConflict;
pub use load_group::group_of;
pub use metric::{LawParameter, MetricExpression, MetricFunction, MetricPath, MetricTerm, percentile, samples_for};
pub use operation::{Expected, MemberProgram, SlotContent, Step, TextCondition, UnitAmount};
pub use pause::Pause;
pub use prepare::Prepare;
pub use rate::{Rate, RateStage, is_offered, is_offered_in_sessions};
pub use reading::read;
pub use site::Site;
pub use stop_rule::StopRule;
pub use target::{AlsoTarget, BadParameter, Target, TargetKind, TargetStart, Tls, parameters};
pub use trial::Trial;

/// Format of `plan.json`.
pub const FORMAT: u32 = 1;

/// All trials of an experiment, in the order in which they run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of the format, see [`FORMAT`].
    pub format: u32,
    /// The experiment's title.
    pub title: String,
    /// The experiment's question.
    pub asks: String,
    /// Names of the variants, in file order; empty without variants.
    pub variants: Vec<String>,
    /// Swept paths, in file order.
    pub swept: Vec<String>,
    /// Rule that ends the sweep early, if the experiment has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopRule>,
    /// Trials, interleaved: every variant × point once, then the next repeat. In a search, the
    /// trials made so far.
    pub trials: Vec<Trial>,
    /// Requirements: `[[require]]`.
    pub requirements: Vec<Requirement>,
    /// Claims: `[[claim]]`.
    pub claims: Vec<Claim>,
    /// `[find]`, if the experiment searches instead of sweeping.
    pub find: Option<Find>,
    /// Measured demand: `[demand]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<Demand>,
}

impl Plan {
    /// Returns all trials that this plan can lead to: its trials, or the templates from which a
    /// search makes trials.
    #[must_use]
    pub fn possible(&self) -> &[Trial] {
        self.find.as_ref().map_or(&self.trials, |find| &find.templates)
    }

    /// Whether a trial runs on the same start of the target as an earlier one. In a search, the
    /// repeats are not compared.
    #[must_use]
    pub fn shares_start(&self, trial: &Trial, earlier: &Trial) -> bool {
        trial.shares_start(earlier) && (self.find.is_some() || trial.repeat == earlier.repeat)
    }

    /// Returns every metric named in requirements, claims, limits of a search, the stop rule and
    /// the demand.
    pub fn metrics(&self) -> impl Iterator<Item = &MetricExpression> {
        let limits = self.find.iter().flat_map(|find| &find.limits);
        let required = self.requirements.iter().chain(limits).map(|one| &one.metric);
        let claimed = self.claims.iter().map(|claim| &claim.metric);
        let stop = self.stop.iter().map(|rule| &rule.metric);
        required.chain(claimed).chain(stop).chain(self.demand.iter().map(|demand| &demand.metric))
    }
}
