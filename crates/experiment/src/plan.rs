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
mod operation;
mod reading;
pub(crate) mod target;
pub(crate) mod trial;

pub use find::{Find, NOTHING_LOST, ONE_MEMBER_DOWN};
pub use lab::{Host, Lab, Network, Port};
pub(crate) use load::LOAD;
pub use load::{
    Backlog, Connections, Feed, Load, Overflow, Rate, RateStage, Retry, StepOrder, Tls, Warmup, WhenFailed, is_offered,
};
pub use operation::{AuditAs, AuditEffect, Expected, SlotContent, TextCondition};
pub use reading::read;
pub use target::{BadParameter, parameters};
pub use trial::Exercise;

/// Format of `plan.json`.
pub const FORMAT: u32 = 1;

/// All trials of an experiment, in the order in which they run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// `[[prepare]]`: operations done once before each trial, not measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// The operation and its arguments.
    pub step: Step,
    /// How many times.
    pub count: u64,
}

/// One operation of a cycle or mix.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Operation of the protocol.
    pub call: String,
    /// Name in records and reports; `call` where the file gives none. `[a-z0-9_-]+`.
    pub name: String,
    /// Argument to template.
    pub with: BTreeMap<String, String>,
    /// Field of the answer, or `FIELD/JSON/POINTER`, to what it must be; contradicted: outcome `wrong`.
    pub expect: BTreeMap<String, Expected>,
    /// Slot to what it keeps; later templates use it as `{slot}`.
    pub keep: BTreeMap<String, SlotContent>,
    /// For a mix; 1 where the file gives none.
    pub weight: u32,
    /// For a cycle: done only in every n-th cycle; 1 is always.
    pub every: u32,
    /// Every operation goes to `history.jsonl`, and its key is read back after the run.
    pub audit: bool,
    /// What an audited operation does, where its protocol does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_as: Option<AuditAs>,
}

/// `[[fault]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// Addressed by it: `fault.NAME.at`, `fault.NAME.healed`.
    pub name: String,
    /// Kind, from the lab's table.
    pub kind: String,
    /// Victim: `one`, `all`, `minority`, `majority`, `leader`, or a member's name.
    pub on: String,
    /// The kind's own arguments.
    pub with: BTreeMap<String, Value>,
    /// When.
    pub when: When,
    /// Healed after so long; `None`: it heals by itself or at the end of the trial.
    pub for_s: Option<f64>,
    /// Own seed for the choice of victim.
    pub seed: u64,
    /// For charts.
    pub label: String,
    /// For charts, `#rrggbb`.
    pub colour: String,
    /// A condition and no event: there before the load begins, and until its end. `when` is not looked at then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub standing: bool,
}

/// When a fault begins. Seconds from load start, ramp included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// Once, at this second.
    At(f64),
    /// At `first_s` and then every `every_s`, while the load lasts.
    Every {
        /// First time.
        first_s: f64,
        /// Period.
        every_s: f64,
    },
    /// So long after another fault began or healed.
    After {
        /// The other fault's name.
        fault: String,
        /// `healed` if true, else `begun`.
        healed: bool,
        /// Seconds after that.
        plus_s: f64,
    },
}

/// The range a metric has to be in; all that are given must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricRange {
    /// value < this
    pub below: Option<f64>,
    /// value > this
    pub above: Option<f64>,
    /// value <= this
    pub at_most: Option<f64>,
    /// value >= this
    pub at_least: Option<f64>,
    /// value == this
    pub equals: Option<f64>,
}

impl MetricRange {
    /// Whether `value` satisfies every bound given.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        self.below.is_none_or(|bound| value < bound)
            && self.above.is_none_or(|bound| value > bound)
            && self.at_most.is_none_or(|bound| value <= bound)
            && self.at_least.is_none_or(|bound| value >= bound)
            && self.equals.is_none_or(|bound| (value - bound).abs() <= f64::EPSILON * bound.abs().max(1.0))
    }
}

/// `[[require]]`: a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Requirement {
    /// Path inside a trial of `analysis.json`, or a function of such paths.
    pub metric: String,
    /// What must hold.
    pub range: MetricRange,
    /// Only trials that match: `variant`, or a swept path.
    pub filter: BTreeMap<String, Value>,
}

/// `[[claim]]`: what a source says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// In words.
    pub says: String,
    /// Where.
    pub source: String,
    /// As in [`Requirement`].
    pub metric: String,
    /// What must hold for the claim to hold here.
    pub range: MetricRange,
    /// As in [`Requirement`].
    pub filter: BTreeMap<String, Value>,
}
