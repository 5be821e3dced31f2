//! Results of the consistency checks: a part of `analysis.json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Results of the consistency checks. A value is null if it was not checked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Consistency {
    /// Number of audited keys that were judged.
    pub checked: Option<u64>,
    /// Number of keys with an acknowledged write or removal.
    pub acknowledged: Option<u64>,
    /// Number of judged keys with an acknowledged write or removal.
    pub acknowledged_checked: Option<u64>,
    /// Operations whose answer contradicts an expectation or an earlier operation of the client.
    /// Null if nothing was expected.
    pub wrong: Option<u64>,
    /// Wrong answers in each of up to 20 equal parts of the load's time, none shorter than a
    /// second. One incident can cause many wrong answers. Empty if nothing was expected.
    pub wrong_by_part: Vec<u64>,
    /// Cycles of the whole load that ended, full or not: the base of the rate of wrong answers.
    /// Null if cycles were not counted.
    pub cycles: Option<u64>,
    /// Acknowledged writes that were lost or changed after the run, on every member that could be
    /// asked.
    pub lost_writes: Option<u64>,
    /// Examples of lost writes, as `space/key`.
    pub lost_examples: Vec<String>,
    /// Keys that differ between members or that a member lacks, among the members that were asked.
    /// Null if fewer than two members reported their data.
    pub diverged_keys: Option<u64>,
    /// Diverged keys with different values or versions on members.
    pub diverged_differing: Option<u64>,
    /// Diverged keys that a member lacks. A key can also count in `diverged_differing`.
    pub diverged_missing: Option<u64>,
    /// Examples of diverged keys: the key, and the value on each member.
    pub diverged_examples: Vec<String>,
    /// Each member's table after the load. Empty if the target cannot report its tables.
    pub replicas: Vec<ReplicaTable>,
    /// Whether the members' data had stopped changing when they were last asked. Null if they were
    /// not asked.
    pub replicas_settled: Option<bool>,
    /// Whether a single copy of each audited key explains all that clients saw during the load:
    /// `yes`, `no`, `unknown` or `not checked`.
    pub linearizable: String,
    /// Number of keys that were checked for this.
    pub linearizable_checked: Option<u64>,
    /// Number of these keys that no single copy explains.
    pub not_linearizable: Option<u64>,
    /// Number of these keys for which the check found no answer.
    pub linearizable_unknown: Option<u64>,
    /// The operations that prove it, for the first few keys.
    pub not_linearizable_examples: Vec<String>,
    /// Check of the keys while the load ran. Left out without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked_beside: Option<CheckBesideLoad>,
    /// Reads of these keys that returned an older value than the same client's last write.
    pub not_read_your_writes: Option<u64>,
    /// Reads of these keys that returned an older value than an earlier read of the same client.
    pub not_monotonic_reads: Option<u64>,
    /// Operations that prove that one of these guarantees is broken, for the first few keys.
    #[schemars(extend("x-figures" = false))]
    pub proofs: Vec<ConsistencyProof>,
}

/// Check of audited keys while the load ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CheckBesideLoad {
    /// Number of operations that were checked.
    pub operations: u64,
    /// Largest number of operations that waited for the check.
    pub most_waiting: u64,
    /// Reason why the check ended before the load, so that it could not stop the load. Null if it
    /// did not.
    pub gave_up: Option<String>,
}

/// Early end of a load, because a key was found not to be linearizable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LoadStop {
    /// Time of the stop, seconds since load start. The violation was up to about two seconds
    /// earlier.
    pub at_s: f64,
    /// The key, as `space/key`.
    pub key: String,
    /// Name of the last fault that had begun. Null if none had.
    pub after_fault: Option<String>,
}

/// Operations on one key that contradict a guarantee.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConsistencyProof {
    /// The guarantee: `linearizable`, `read your writes` or `monotonic reads`.
    pub guarantee: String,
    /// The key, as `space/key`.
    pub key: String,
    /// Reason why the operations fit no order. Operations have their numbers, from 1.
    pub explanation: String,
    /// The operations, by start.
    pub operations: Vec<ProvingOperation>,
    /// Number of further operations of the proof, which are not listed.
    pub left_out: u64,
}

/// An operation of a proof.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProvingOperation {
    /// Number of the agent. Null for the preparation.
    pub agent: Option<u32>,
    /// Description of what it did and saw: `wrote "a"`, `found nothing`.
    pub did: String,
    /// Start, seconds since load start.
    pub start_s: f64,
    /// End, seconds since load start. Null if the outcome is unknown: the operation may have taken
    /// effect at any later time.
    pub end_s: Option<f64>,
}

/// A member's table after the load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReplicaTable {
    /// Name of the member.
    pub name: String,
    /// Number of records. Null if the member reported none.
    pub records: Option<u64>,
    /// Reason why the member reported no number.
    pub failed: Option<String>,
}

/// Results of the checks at one variant and point, over the repeats that are not void. If all
/// repeats are void, over all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PooledConsistency {
    /// Variant, if any.
    pub variant: Option<String>,
    /// Values of the swept paths.
    pub point: BTreeMap<String, Value>,
    /// Number of repeats in these figures.
    pub repeats: u64,
    /// Cycles that ended, full or not, in all repeats. Null if cycles were not counted.
    pub cycles: Option<u64>,
    /// Operations that ended, in all repeats.
    pub operations: u64,
    /// Wrong answers in all repeats. Null if nothing was expected.
    pub wrong: Option<u64>,
    /// Wrong answers per 1,000 cycles.
    pub wrong_per_1000_cycles: Option<f64>,
    /// 95 % interval of the rate that very many cycles would have.
    pub ci95: Option<[f64; 2]>,
    /// Wrong answers per 1,000 operations.
    pub wrong_per_1000_operations: Option<f64>,
    /// 95 % interval of the rate that very many operations would have.
    pub operations_ci95: Option<[f64; 2]>,
    /// Method of the intervals: `ratio`, `Korn-Graubard` or `Clopper-Pearson`. Empty without
    /// intervals.
    pub method: String,
    /// Diverged keys of each repeat, in order. Null for a repeat that was not checked.
    pub diverged_keys: Vec<Option<u64>>,
    /// Lost writes of each repeat, likewise.
    pub lost_writes: Vec<Option<u64>>,
}
