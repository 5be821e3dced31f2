//! The plan: an experiment resolved into trials, each complete in itself. Printable, serialised to `plan.json`,
//! and all that the live half is told. It holds no file positions, no defaults still to be filled in, no choice
//! still to be made.

use serde::{Deserialize, Serialize};

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
pub(crate) mod load_group;
mod metric;
mod operation;
mod point_repeats;
pub(crate) mod reading;
mod stop_rule;
pub(crate) mod target;
pub(crate) mod trial;

pub use demand::Demand;
pub use exercise::Exercise;
pub use fault::{Fault, Victim, When};
pub(crate) use file_keys::EXPERIMENT;
pub use find::{Find, NOTHING_LOST, ONE_MEMBER_DOWN};
pub use fleet::{Fleet, FleetEngine, GENERATOR_ROLE, KubernetesFleet, SlurmFleet};
pub use gates::{Claim, MetricRange, Requirement};
pub use lab::{Host, Lab, LabPods, MemberDemand, Network, Port};
pub use load::{
    Backlog, Connections, Failover, Feed, FeedFormat, FeedLimits, FeedPacking, Load, LoadConflict, Overflow, Rate,
    RateStage, Reconnects, Retry, StepOrder, Warmup, WhenFailed, is_offered,
};
pub use load_group::group_of;
pub use metric::{LawParameter, MetricExpression, MetricFunction, MetricPath, MetricTerm, percentile, samples_for};
pub use operation::{
    AuditAs, AuditEffect, Expected, MemberProgram, Prepare, SlotContent, Step, TextCondition, UnitAmount,
};
pub use reading::read;
pub use stop_rule::StopRule;
pub use target::{AlsoTarget, BadParameter, Target, TargetKind, TargetStart, Tls, parameters};
pub use trial::Trial;

/// Format of `plan.json`.
pub const FORMAT: u32 = 1;

/// All trials of an experiment, in the order in which they run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`FORMAT`].
    pub format: u32,
    /// The experiment's title.
    pub title: String,
    /// The experiment's question.
    pub asks: String,
    /// Names of the variants, in file order; empty without variants.
    pub variants: Vec<String>,
    /// Paths that are swept, in file order.
    pub swept: Vec<String>,
    /// When the sweep goes no higher, if it has such a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopRule>,
    /// Interleaved: every variant × point once, then the next repeat. Of a search, those that were made so far.
    pub trials: Vec<Trial>,
    /// `[[require]]`.
    pub requirements: Vec<Requirement>,
    /// `[[claim]]`.
    pub claims: Vec<Claim>,
    /// `[find]`, if the experiment searches instead of sweeping.
    pub find: Option<Find>,
    /// `[demand]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<Demand>,
}

impl Plan {
    /// Everything that a trial of this plan can be like: the trials, or what a search makes its trials from.
    #[must_use]
    pub fn possible(&self) -> &[Trial] {
        self.find.as_ref().map_or(&self.trials, |find| &find.templates)
    }

    /// Whether a trial runs on the same start of the target as an earlier one. Trials of a search
    /// have no repeats to tell apart.
    #[must_use]
    pub fn shares_start(&self, trial: &Trial, earlier: &Trial) -> bool {
        trial.shares_start(earlier) && (self.find.is_some() || trial.repeat == earlier.repeat)
    }

    /// Every metric that requirements, claims, limits of a search, the stop rule and the demand name.
    pub fn metrics(&self) -> impl Iterator<Item = &MetricExpression> {
        let limits = self.find.iter().flat_map(|find| &find.limits);
        let required = self.requirements.iter().chain(limits).map(|one| &one.metric);
        let claimed = self.claims.iter().map(|claim| &claim.metric);
        let stop = self.stop.iter().map(|rule| &rule.metric);
        required.chain(claimed).chain(stop).chain(self.demand.iter().map(|demand| &demand.metric))
    }
}
