//! The names that an experiment can refer to: protocols, faults, targets, profiles, metrics. The
//! binary fills the catalog from the `KINDS` tables of other crates, so this crate can check names
//! without depending on those crates.

use std::collections::BTreeMap;

use crate::manifest::Manifest;
use crate::profile::Profile;

/// Placeholder for any percentile in a metric path: `latency_us.p*`.
pub const ANY_PERCENTILE: &str = "p*";

/// Everything that an experiment file may refer to by name.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Target folders that were found, by name.
    pub targets: BTreeMap<String, Manifest>,
    /// Target folders that may not be run, by name, each with the reason and a remedy.
    pub refused_targets: BTreeMap<String, (String, String)>,
    /// Profiles that were found, by name.
    pub profiles: BTreeMap<String, Profile>,
    /// Protocols that the load engine supports.
    pub protocols: Vec<&'static Protocol>,
    /// Faults that the lab can inject.
    pub faults: Vec<&'static Fault>,
    /// Every metric path of a trial in `analysis.json`, such as `latency_us.p99`. `*` is a variable
    /// part of a path: `operations.*.latency_us.p99`. A path that may end in any percentile has
    /// [`ANY_PERCENTILE`].
    pub metrics: Vec<String>,
}

/// A protocol as an experiment sees it: its operations with their arguments and answers.
#[derive(Debug)]
pub struct Protocol {
    /// Name in `[target] protocol` and in `target.toml`.
    pub name: &'static str,
    /// URL schemes that select it, such as `http`.
    pub schemes: &'static [&'static str],
    /// Description, one line.
    pub help: &'static str,
    /// Operations that `call` may name.
    pub operations: &'static [Operation],
}

/// One operation of a protocol.
#[derive(Debug)]
pub struct Operation {
    /// Name in `call =`.
    pub name: &'static str,
    /// Description, one line.
    pub help: &'static str,
    /// Arguments that `with` may give.
    pub takes: &'static [Field],
    /// Fields that `expect` may check and `keep` may capture.
    pub answers: &'static [Field],
    /// Effect on stored data, for the consistency checks. An answer's field `version` is a whole
    /// number that grows with each write of the key.
    pub effect: Effect,
}

/// One argument of an operation or one field of its answer.
#[derive(Debug)]
pub struct Field {
    /// Name, on the left of the `=`. A name that ends in `.*` takes any suffix (`header.accept`).
    pub name: &'static str,
    /// Description, one line.
    pub help: &'static str,
    /// Whether the operation needs this argument.
    pub required: bool,
}

/// Effect of an operation on the target's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Leaves data unchanged.
    None,
    /// Reads `key` of `space`.
    Read,
    /// Writes `value` to `key` of `space`.
    Write,
    /// Removes `key` of `space`.
    Remove,
    /// Removes every key of `space`.
    RemoveAll,
    /// Writes `value` to `key` of `space` if the key has the value `from`, or without `from`, if it
    /// is absent. The answer's field `succeeded` says whether it did, or else the answer's status;
    /// `value` is the value that it found instead.
    CompareAndSet,
    /// Adds `value` to the end of the queue `key` of `space`.
    Enqueue,
    /// Takes the first value from the queue `key` of `space`. An `ok` answer without `value` says
    /// that the queue was empty.
    Dequeue,
    /// Adds `value` to the set `key` of `space`.
    AddToSet,
    /// Reads all members of the set `key` of `space`. The answer's `value` is a JSON list of texts.
    ReadMembers,
}

/// A fault as an experiment sees it.
#[derive(Debug)]
pub struct Fault {
    /// Name of the fault in `kind =`.
    pub name: &'static str,
    /// Description, one line.
    pub help: &'static str,
    /// Arguments that `with` may give.
    pub takes: &'static [Field],
    /// Label of the fault in charts.
    pub label: &'static str,
    /// Colour of the fault in charts, `#rrggbb`.
    pub colour: &'static str,
    /// Event that ends the fault.
    pub heals: Heals,
    /// Check of the values in `with`; `None` if all values are allowed. It does not check for
    /// unknown and missing arguments.
    pub check: Option<ArgumentCheck>,
}

/// Checks the arguments of a fault, before anything is started.
pub type ArgumentCheck = fn(&BTreeMap<String, serde_json::Value>) -> Vec<ArgumentProblem>;

/// A wrong argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentProblem {
    /// Name of the argument in `with`; `None` if the problem concerns all of them.
    pub argument: Option<&'static str>,
    /// Description of the problem, such as `rate = "fast"` is not a rate.
    pub what: String,
    /// A suggestion for a correct value.
    pub hint: Option<String>,
}

/// Way in which a fault ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heals {
    /// The fault is an instant; the target recovers by itself or not at all.
    ByItself,
    /// Plimsoll undoes the fault after the time `for`. Without `for`, the fault stays until the
    /// trial ends.
    AfterFor,
}
