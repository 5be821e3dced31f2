//! Results of the consistency checks: a part of `analysis.json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Results of the consistency checks. A value is null if it was not checked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Consistency {
    /// Audited keys that were judged.
    pub checked: Option<u64>,
    /// Keys with an acknowledged write or removal.
    pub acknowledged: Option<u64>,
    /// Judged keys with an acknowledged write or removal.
    pub acknowledged_checked: Option<u64>,
    /// Operations whose answer contradicted what their client did; null where nothing was expected.
    pub wrong: Option<u64>,
    /// Wrong answers in each of up to 20 equal parts of the load's time, none shorter than a second: one incident makes many of them.
    /// Empty where nothing was expected.
    pub wrong_by_part: Vec<u64>,
    /// Cycles of the whole load that ended, full or not, for the wrong answers to be held against; null where nobody counted.
    pub cycles: Option<u64>,
    /// Acknowledged writes that were gone (or changed) after the run: on every member that could be asked.
    pub lost_writes: Option<u64>,
    /// A few of the lost ones, as `space/key`, for a reader to look into.
    pub lost_examples: Vec<String>,
    /// Keys on which members that were asked differ, or that some of them lack; null where fewer than two told what they hold.
    pub diverged_keys: Option<u64>,
    /// Diverged keys with different values or versions on members.
    pub diverged_differing: Option<u64>,
    /// Diverged keys that a member lacks. A key can also count in `diverged_differing`.
    pub diverged_missing: Option<u64>,
    /// A few of the diverged ones: the key, and who holds what.
    pub diverged_examples: Vec<String>,
    /// Each member's table after the load. Empty if the target cannot report its tables.
    pub replicas: Vec<ReplicaTable>,
    /// Whether what members held still changed when they were asked for the last time; null where nobody asked.
    pub replicas_settled: Option<bool>,
    /// `yes`, `no`, `unknown` or `not checked`.
    pub linearizable: String,
}

/// A member's table after the load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReplicaTable {
    /// The member.
    pub name: String,
    /// Number of records. Null if the member reported none.
    pub records: Option<u64>,
    /// Reason why the member reported no number.
    pub failed: Option<String>,
}

/// Results of the checks at one variant and point, over the repeats that are not void. If all
/// repeats are void, the results are over all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PooledConsistency {
    /// Variant, if any.
    pub variant: Option<String>,
    /// Swept path to value.
    pub point: BTreeMap<String, Value>,
    /// Repeats that these figures are of.
    pub repeats: u64,
    /// Cycles that ended, full or not, in all of them; null where nobody counted.
    pub cycles: Option<u64>,
    /// Operations that ended, in all of them.
    pub operations: u64,
    /// Wrong answers in all of them; null where nothing was expected.
    pub wrong: Option<u64>,
    /// Wrong answers per 1,000 cycles.
    pub wrong_per_1000_cycles: Option<f64>,
    /// 95 % interval of the rate that very many cycles would have.
    pub ci95: Option<[f64; 2]>,
    /// Wrong answers per 1,000 operations.
    pub wrong_per_1000_operations: Option<f64>,
    /// 95 % interval of the rate that very many operations would have.
    pub operations_ci95: Option<[f64; 2]>,
    /// How the intervals were found: `ratio`, `Korn-Graubard` or `Clopper-Pearson`; empty without any.
    pub method: String,
    /// Diverged keys of each repeat, in their order; null where it was not looked.
    pub diverged_keys: Vec<Option<u64>>,
    /// Lost writes of each repeat, likewise.
    pub lost_writes: Vec<Option<u64>>,
}
