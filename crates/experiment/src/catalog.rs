//! What exists to be named in an experiment: protocols, faults, targets, profiles, metrics. Filled by the binary from
//! the live crates' `KINDS` tables, so that this crate can check names without knowing who implements them.

use std::collections::BTreeMap;

use crate::manifest::Manifest;
use crate::profile::Profile;

/// Stands in a metric path for any percentile: `latency_us.p*`.
pub const ANY_PERCENTILE: &str = "p*";

/// Everything an experiment file may refer to by name.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Target folders found, by name.
    pub targets: BTreeMap<String, Manifest>,
    /// Target folders found that may not be run, by name: why, and what to do.
    pub refused_targets: BTreeMap<String, (String, String)>,
    /// Profiles found, by name.
    pub profiles: BTreeMap<String, Profile>,
    /// Protocols the load engine speaks.
    pub protocols: Vec<&'static Protocol>,
    /// Faults the lab can inject.
    pub faults: Vec<&'static Fault>,
    /// Every metric path of a trial in `analysis.json`, such as `latency_us.p99`. Where a path has a free
    /// part it is written `*`: `operations.*.latency_us.p99`; where it may end in any percentile, [`ANY_PERCENTILE`].
    pub metrics: Vec<String>,
}

/// A protocol as an experiment sees it: which operations it has and what they take and answer.
#[derive(Debug)]
pub struct Protocol {
    /// Name in `[target] protocol` and in `target.toml`.
    pub name: &'static str,
    /// URL schemes that select it, such as `http`.
    pub schemes: &'static [&'static str],
    /// One line.
    pub help: &'static str,
    /// The operations that `call` may name.
    pub operations: &'static [Operation],
}

/// One operation of a protocol.
#[derive(Debug)]
pub struct Operation {
    /// The word after `call =`.
    pub name: &'static str,
    /// One line.
    pub help: &'static str,
    /// What goes into `with`.
    pub takes: &'static [Field],
    /// What `expect` may check and `keep` may capture.
    pub answers: &'static [Field],
    /// What it does to stored data; the consistency checks go by this.
    pub effect: Effect,
}

/// One argument of an operation or one field of its answer.
#[derive(Debug)]
pub struct Field {
    /// The word on the left of the `=`. A name that ends in `.*` takes any suffix (`header.accept`).
    pub name: &'static str,
    /// One line.
    pub help: &'static str,
    /// An argument without which the operation makes no sense.
    pub required: bool,
}

/// What an operation does to the target's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Leaves data as it is.
    None,
    /// Reads `key` of `space`.
    Read,
    /// Writes `value` to `key` of `space`.
    Write,
    /// Removes `key` of `space`.
    Remove,
    /// Removes every key of `space`.
    RemoveAll,
}

/// A fault as an experiment sees it.
#[derive(Debug)]
pub struct Fault {
    /// The word after `kind =`.
    pub name: &'static str,
    /// One line.
    pub help: &'static str,
    /// What goes into `with`.
    pub takes: &'static [Field],
    /// How a chart names it.
    pub label: &'static str,
    /// How a chart draws it, `#rrggbb`.
    pub colour: &'static str,
    /// What ends it.
    pub heals: Heals,
    /// What is wrong with the values in `with`; `None`: any are right. Names and missing ones are not its business.
    pub check: Option<ArgumentCheck>,
}

/// Finds what is wrong with the arguments of a fault, before anything is started.
pub type ArgumentCheck = fn(&BTreeMap<String, serde_json::Value>) -> Vec<ArgumentProblem>;

/// An argument that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentProblem {
    /// Its name in `with`; `None`: it is about all of them.
    pub argument: Option<&'static str>,
    /// What is wrong: `rate = "fast"` is not a rate.
    pub what: String,
    /// What would be right.
    pub hint: Option<String>,
}

/// How a fault ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heals {
    /// The fault is an instant; the target recovers by itself or not at all.
    ByItself,
    /// With `for`, Plimsoll undoes it after that time; without, it stays until the trial ends.
    AfterFor,
}
