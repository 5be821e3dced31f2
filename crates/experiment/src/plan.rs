//! The plan: an experiment resolved into trials, each complete in itself. Printable, serialised to `plan.json`,
//! and all that the live half is told. It holds no file positions, no defaults still to be filled in, no choice
//! still to be made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

mod fault;
mod find;
mod gates;
mod lab;
mod load;
mod metric;
mod operation;
mod reading;
pub(crate) mod target;
pub(crate) mod trial;

pub use fault::{Fault, When};
pub use find::{Find, NOTHING_LOST, ONE_MEMBER_DOWN};
pub use gates::{Claim, MetricRange, Requirement};
pub use lab::{Host, Lab, Network, Port};
pub use load::{
    Backlog, Connections, Feed, Load, Overflow, Rate, RateStage, Retry, StepOrder, Warmup, WhenFailed, is_offered,
};
pub use metric::{LawParameter, MetricExpression, MetricFunction, MetricPath, MetricTerm};
pub use operation::{AuditAs, AuditEffect, Expected, SlotContent, Step, TextCondition};
pub(crate) use reading::EXPERIMENT;
pub use reading::read;
pub use target::{BadParameter, Tls, parameters};
pub use trial::Exercise;

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
    /// Interleaved: every variant × point once, then the next repeat. Of a search, those that were made so far.
    pub trials: Vec<Trial>,
    /// `[[require]]`.
    pub requirements: Vec<Requirement>,
    /// `[[claim]]`.
    pub claims: Vec<Claim>,
    /// `[find]`, if the experiment searches instead of sweeping.
    pub find: Option<Find>,
}

impl Plan {
    /// Everything that a trial of this plan can be like: the trials, or what a search makes its trials from.
    #[must_use]
    pub fn possible(&self) -> &[Trial] {
        self.find.as_ref().map_or(&self.trials, |find| &find.templates)
    }
}

/// One point of the sweep × variant × repeat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// `001`, `002`, …; also the name of its folder.
    pub id: String,
    /// Name of the variant, if the experiment has any.
    pub variant: Option<String>,
    /// Swept path to the value it has here.
    pub point: BTreeMap<String, Value>,
    /// From 1.
    pub repeat: u32,
    /// All randomness of the trial comes from here.
    pub seed: u64,
    /// The system under test.
    pub target: Target,
    /// Where it runs.
    pub lab: Lab,
    /// What is done before the load, in order.
    pub prepare: Vec<Prepare>,
    /// The load, if any.
    pub load: Option<Load>,
    /// What is broken, and when.
    pub faults: Vec<Fault>,
    /// In a search: the condition under which the limits have to hold, one of [`Find::surviving`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surviving: Option<String>,
    /// `[[step]]`: an exercise instead of load and faults.
    pub steps: Vec<Exercise>,
}

/// The system under test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Which kind it is.
    #[serde(flatten)]
    pub kind: TargetKind,
    /// Protocol that the load speaks to it.
    pub protocol: String,
    /// Whom it trusts there, where the protocol is encrypted.
    #[serde(default, skip_serializing_if = "Tls::is_default")]
    pub tls: Tls,
}

/// Where the target comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TargetKind {
    /// A target folder: `use = "vsns"`.
    Folder {
        /// Its name.
        name: String,
        /// Every declared parameter with its value, as text.
        with: BTreeMap<String, String>,
    },
    /// Runs already: `url = "…"`.
    Running {
        /// Where; empty where nothing is to be reached: `protocol = "command"` alone.
        url: String,
    },
    /// Started by a command: `start = "…"`, `url = "…"`.
    Started {
        /// Shell command; killed with its whole process group at the end.
        command: String,
        /// Where the load goes.
        url: String,
        /// URL whose GET must answer 2xx before the load starts; without it, `url` must accept a connection.
        ready: Option<String>,
        /// Seconds it may take.
        within_s: f64,
    },
}

impl Default for TargetKind {
    fn default() -> Self {
        Self::Running { url: String::new() }
    }
}

/// `[[prepare]]`: operations done once before each trial, not measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// The operation and its arguments.
    pub step: Step,
    /// How many times.
    pub count: u64,
}
