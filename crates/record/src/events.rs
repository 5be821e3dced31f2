//! Formats of a trial's `events.jsonl` and `history.jsonl`: one JSON object per line, `at_s` first.
//! Time zero on the trial's clock is load start. Events before load start have a negative `at_s`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One line of `events.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds since load start.
    pub at_s: f64,
    /// Kind of the event and its fields.
    #[serde(flatten)]
    pub what: What,
}

/// Returns the Unix time of load start, seconds. `None` if the events do not include it.
#[must_use]
pub fn start_unix_s(events: &[Event]) -> Option<f64> {
    events.iter().find_map(|event| match event.what {
        What::Clock { unix_s } => Some(unix_s),
        _ => None,
    })
}

/// Kinds of events. Readers skip kinds that they do not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// The first event, which ties the trial's clock to the calendar.
    Clock {
        /// Unix time of load start, seconds.
        unix_s: f64,
    },
    /// The trial entered a phase.
    Phase {
        /// The phase.
        phase: Phase,
    },
    /// A fault began.
    FaultBegun {
        /// Name in the experiment.
        fault: String,
        /// Occurrence, from 1.
        number: u32,
        /// Kind of the fault.
        kind: String,
        /// The member that the fault hit.
        on: String,
    },
    /// A fault ended.
    FaultHealed {
        /// Name in the experiment.
        fault: String,
        /// Occurrence, from 1.
        number: u32,
    },
    /// A fault could not be injected, so the trial is not as planned.
    FaultFailed {
        /// Name in the experiment.
        fault: String,
        /// Occurrence, from 1.
        number: u32,
        /// Reason for the failure.
        reason: String,
    },
    /// A repairing action of the operator began.
    ActionTaken {
        /// Name in the experiment.
        action: String,
        /// Occurrence, from 1.
        number: u32,
        /// Kind of the action.
        kind: String,
        /// The members that the action was for.
        on: String,
    },
    /// An action failed, so the trial is not as planned.
    ActionFailed {
        /// Name in the experiment.
        action: String,
        /// Occurrence, from 1.
        number: u32,
        /// Reason for the failure.
        reason: String,
    },
    /// A step of an exercise began.
    StepBegun {
        /// Name in the experiment.
        step: String,
    },
    /// A step ended: its condition held, or its wait was over.
    StepEnded {
        /// Name in the experiment.
        step: String,
        /// Result, audits not included.
        result: StepResult,
        /// Seconds from the start of the step until everything was done and only the condition was
        /// open. Null if that point was not reached.
        done_s: Option<f64>,
        /// Reason, if the result is not `ok`.
        why: Option<String>,
    },
    /// A member was audited after a step.
    StepAudited {
        /// Name of the step.
        step: String,
        /// Name of the audit.
        audit: String,
        /// The member.
        host: String,
        /// Reason why the member did not pass. Null if it passed.
        failed: Option<String>,
    },
    /// The target was started again with empty data, because a step had left it in a bad state.
    TargetRebuilt {
        /// Name of the step that left the target in a bad state.
        after: String,
    },
    /// The trial uses the target that was started for an earlier trial. The events of its hosts and
    /// processes are recorded again after this one.
    StartShared {
        /// Id of the trial for which the target was started.
        of: String,
        /// Whether the target's hook `reset` ran before this trial.
        reset: bool,
    },
    /// A process of the target started.
    ProcessUp {
        /// Name of the host.
        host: String,
        /// Role of the process.
        process: String,
        /// Process id on this machine.
        pid: u32,
    },
    /// A process of the target ended.
    ProcessDown {
        /// Name of the host.
        host: String,
        /// Role of the process.
        process: String,
        /// Ending: `exit 1`, `signal 9`, `lost with its host`.
        how: String,
        /// Whether the target is not to blame: Plimsoll ended the process (a fault, or the end of
        /// the trial), or its host was lost.
        expected: bool,
        /// Last lines of output of a process that ended unexpectedly, oldest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        last_lines: Vec<String>,
    },
    /// A host of the lab is up.
    HostUp {
        /// Name of the host.
        host: String,
        /// Kind: `local`, `netns` or `ssh`.
        kind: String,
        /// Name of the profile, if any.
        profile: Option<String>,
        /// Resources of the host, and the measured speed of its storage.
        is: HostFigures,
    },
    /// A host of the lab is down.
    HostDown {
        /// Name of the host.
        host: String,
        /// Whether Plimsoll took the host down (a fault, or the end of the trial).
        expected: bool,
    },
    /// The switch between a lab's virtual hosts was lost unexpectedly.
    SwitchLost {
        /// Reason, as far as it is known.
        reason: String,
    },
    /// A generator of a fleet was lost. The load is lost with it.
    GeneratorLost {
        /// Name of the generator.
        generator: String,
        /// Time of the last message from the generator, seconds since load start.
        heard_s: f64,
        /// Sign by which the loss was noticed.
        reason: String,
    },
    /// A line of a target's log that its `[log]` calls notable.
    Log {
        /// Name of the host.
        host: String,
        /// Role of the process.
        process: String,
        /// The line.
        line: String,
        /// The text of `[log]` that the line contains.
        #[serde(default)]
        text: String,
        /// Whether `[log]` calls that text alarming.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        alarming: bool,
        /// Number of lines that this event summarises because there were too many; `line` is the
        /// last of them. 0 for a single line.
        #[serde(default, skip_serializing_if = "is_zero")]
        left_out: u64,
    },
    /// The first failure of its kind that a thread of the load generator met.
    Example {
        /// The failure.
        is: FailureExample,
    },
    /// A message of the generator or the recorder that a reader must know.
    Notice {
        /// The message.
        text: String,
    },
    /// Output of the hook `inspect`.
    Inspected {
        /// Time of the call: `before_load` or `after_load`.
        when: String,
        /// JSON output of the hook.
        says: Value,
    },
    /// Versions of the programs and files that the trial uses. Written at the start and at the end
    /// of the trial, so that a change in between is visible.
    Versions {
        /// The versions.
        is: Versions,
    },
    /// The load was ended early, because a key was found not to be linearizable.
    LoadStopped {
        /// The key, as `space/key`.
        key: String,
        /// Reason why its operations fit no order. Empty in a record of an older version.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        explanation: String,
        /// Name of the last fault that had begun, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_fault: Option<String>,
    },
    /// Result of the check of audited keys beside the load.
    CheckedBeside {
        /// Number of operations that were checked.
        operations: u64,
        /// Largest number of operations that waited for the check.
        most_waiting: u64,
        /// Reason why the check ended before the load. The check after the load is not affected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gave_up: Option<String>,
    },
    /// Result of reading back the audited keys.
    Audit {
        /// Number of keys that were read back.
        keys: u64,
        /// Number of keys that could not be read back.
        unread: u64,
        /// Number of keys that were not read back for lack of time. The keys that were read are
        /// then a random sample.
        #[serde(default, skip_serializing_if = "is_zero")]
        skipped: u64,
    },
    /// Result of asking the members for their data, in rounds until two rounds gave the same data.
    Replicas {
        /// Number of rounds.
        rounds: u32,
        /// Whether the last two rounds were equal or, without audited keys, all members agreed in
        /// the last round. If not, replication may still have been in progress.
        settled: bool,
    },
    /// CPU time of this machine by process, over the time in which it was sampled. Each list has at
    /// most 16 processes, the busiest first.
    CpuShares {
        /// Processes of a target that Plimsoll started only partly or not at all. Empty for other
        /// targets.
        #[serde(default)]
        target_processes: Vec<ProcessShare>,
        /// Processes that are neither the target nor Plimsoll.
        #[serde(default)]
        other_processes: Vec<ProcessShare>,
        /// Reason why the target's processes cannot be identified. `other_processes` is empty then.
        #[serde(default)]
        not_judged: Option<String>,
        /// CPU time of other processes that started and ended between two readings, percent of the
        /// machine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        short_lived_cpu_pct: Option<f64>,
        /// CPU time of the programs that run as operations, percent of the machine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        programs_cpu_pct: Option<f64>,
        /// CPU time of the target, percent of the machine. Absent if the target is not on this
        /// machine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target_cpu_pct: Option<f64>,
    },
    /// The trial is over. A trial without this event was cut off.
    Ended {
        /// Ending: `done`, `interrupted` or `failed`.
        how: Ending,
        /// Reason, if not `done`.
        reason: Option<String>,
    },
    /// A kind that this version does not know. [`crate::lines::read_events`] skips it.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// Result of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepResult {
    /// Everything was done, the condition held in time, and every audit passed.
    Ok,
    /// The actions were not done in time, or the condition did not hold in time.
    TimedOut,
    /// An action failed.
    ActionFailed,
    /// The condition could not be checked: its program ended with an error.
    ConditionFailed,
    /// An audit did not pass.
    AuditFailed,
    /// The step was cut off.
    #[default]
    Unfinished,
}

impl StepResult {
    /// Returns the name for readers.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::TimedOut => "timed out",
            Self::ActionFailed => "action failed",
            Self::ConditionFailed => "condition failed",
            Self::AuditFailed => "audit failed",
            Self::Unfinished => "unfinished",
        }
    }
}

/// A failure that is safe to show: bounded in length, without control characters, without values of
/// headers and of the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FailureExample {
    /// Name of the operation.
    pub operation: String,
    /// Result of the attempt, as in `attempts.csv`.
    pub result: String,
    /// The request: path without its query, or the key.
    pub request: String,
    /// The expectation that did not hold, such as `body = hello`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expectation: Option<String>,
    /// Actual value, for comparison with the expected value. Null if the answer had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub got: Option<String>,
    /// Beginning of the answer. Null if there was no answer, or nothing was kept of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// CPU time that a process used on a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProcessShare {
    /// Name of the program; the kernel keeps 15 bytes of it.
    pub name: String,
    /// Process id on that machine.
    pub pid: u32,
    /// Mean CPU time, percent of the whole machine. Child processes count separately.
    pub cpu_pct: f64,
}

/// Versions of the programs and files on this machine that a trial uses. The mark of a file is its
/// size and a checksum of its content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Versions {
    /// Version of Plimsoll.
    pub plimsoll: String,
    /// Mark of Plimsoll's program file. Null if the file cannot be read.
    pub program: Option<String>,
    /// Name of the target, if it comes from a folder.
    pub target: Option<String>,
    /// Marks of the files in the target's folder, by path within the folder. At most the first
    /// thousand files.
    pub files: BTreeMap<String, String>,
}

/// Resources of a host. A value that does not apply or was not measured is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostFigures {
    /// Address at which other hosts reach the host.
    pub address: Option<String>,
    /// Number of cores.
    pub cores: Option<u32>,
    /// Speed of each core, in cores of the machine that runs the host, `lab.speed` included.
    pub core_speed: Option<f64>,
    /// Shortest time over which a slowed core has the intended speed, seconds: the period of its
    /// CPU quota.
    pub quota_period_s: Option<f64>,
    /// CPUs of this machine that the host runs on, such as `0-3,6`.
    pub cpus: Option<String>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Rate of the host's link, bits/s, `lab.speed` included.
    pub link_bits_per_s: Option<f64>,
    /// Random reads of 4 KiB per second in the host's data folder, one at a time.
    pub storage_read_per_s: Option<f64>,
    /// Random writes of 4 KiB per second in the host's data folder, each synced.
    pub storage_write_per_s: Option<f64>,
    /// Mean time to sync such a write, microseconds.
    pub storage_sync_us: Option<f64>,
    /// Reason why the storage was not measured.
    pub storage_unmeasured: Option<String>,
    /// Storage tiers that hold folders of the target's processes, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tiers: BTreeMap<String, TierFigures>,
}

/// A storage tier of a host. A value that was not requested or not measured is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TierFigures {
    /// Folders on the tier, each as `role.folder`.
    pub folders: Vec<String>,
    /// Medium: `disk`, `loop device`, `memory`, or the mount point of persistent memory.
    pub on: String,
    /// Limit of reads per second, `lab.speed` included.
    pub limit_read_per_s: Option<f64>,
    /// Limit of writes per second, `lab.speed` included.
    pub limit_write_per_s: Option<f64>,
    /// Source of the limits.
    pub source: Option<String>,
    /// Random reads of 4 KiB per second, one at a time.
    pub read_per_s: Option<f64>,
    /// Random writes of 4 KiB per second, each synced.
    pub write_per_s: Option<f64>,
    /// Mean time to sync such a write, microseconds.
    pub sync_us: Option<f64>,
    /// Reason why the tier was not measured.
    pub unmeasured: Option<String>,
}

/// Phase of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The target is being started.
    Starting,
    /// `[[prepare]]` runs.
    Preparing,
    /// The load runs.
    Load,
    /// No new operations start; open operations can finish.
    Draining,
    /// Audited keys are read back.
    Auditing,
    /// The target is being stopped.
    Stopping,
}

/// Ending of a trial or run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The trial or run is complete.
    Done,
    /// The user interrupted the trial or run.
    Interrupted,
    /// An error ended the trial or run.
    Failed,
}

/// Content of `ending.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnding {
    /// Ending.
    pub how: Ending,
    /// Reason, if not done.
    pub reason: Option<String>,
    /// Sweeps that stopped early, so that trials of the plan were skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<SweepStop>,
}

/// A sweep that stopped early, because one of its trials met the condition of `[sweep] stop`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct SweepStop {
    /// Variant, if any.
    pub variant: Option<String>,
    /// Values of the swept paths at which the sweep stopped.
    pub point: BTreeMap<String, Value>,
    /// The swept path whose higher values were skipped.
    pub over: String,
    /// The trial that met the condition.
    pub trial: String,
    /// The figure of that trial and the condition: `outcomes.timeout was 12 (above 0)`.
    pub because: String,
    /// Ids of the trials that were skipped.
    pub not_played: Vec<String>,
}

/// One line of `history.jsonl`: an operation on an audited key, or the read-back of a key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// Time at which the operation ended or the key was read back, seconds since load start.
    pub at_s: f64,
    /// Time at which the operation was sent, or was due if it had several attempts or an unknown
    /// effect, seconds since load start. Absent if it was not sent, and in records of older
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_s: Option<f64>,
    /// Origin of the operation.
    pub by: By,
    /// Number of the agent. Null for prepare and audit.
    pub agent: Option<u32>,
    /// Effect on data: `read`, `write`, `remove`, `remove_all`, `cas` (compare-and-set), `enqueue`,
    /// `dequeue`, `add_to_set` or `members` (a read of all members of a set).
    pub effect: String,
    /// The space. Empty if the protocol has no spaces.
    pub space: String,
    /// The key. Empty for `remove_all`.
    pub key: String,
    /// The value that was written, read, put into or taken from a queue, or added to a set; for
    /// `members` a JSON list of texts. Null for removals, for a read that found nothing and for a
    /// dequeue that found the queue empty.
    pub value: Option<String>,
    /// Value that a compare-and-set expects. Absent if it expects no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Whether a compare-and-set found the expected value. Absent if unknown, and for other
    /// effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equal: Option<bool>,
    /// Value that a compare-and-set found instead of the expected one, if its answer told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Version of the value in the answer, which grows with each write of the key. Absent if the
    /// answer has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Outcome of the operation.
    pub outcome: Outcome,
    /// Whether the operation took effect. False after a definite refusal; null if unknown.
    pub applied: Option<bool>,
}

impl HistoryEntry {
    /// Whether the operation sets or removes its key.
    #[must_use]
    pub fn changes_key(&self) -> bool {
        matches!(self.effect.as_str(), "write" | "remove" | "cas")
    }

    /// Whether the operation uses its key as a queue.
    #[must_use]
    pub fn is_of_queue(&self) -> bool {
        matches!(self.effect.as_str(), "enqueue" | "dequeue")
    }

    /// Whether the operation uses its key as a set.
    #[must_use]
    pub fn is_of_set(&self) -> bool {
        matches!(self.effect.as_str(), "add_to_set" | "members")
    }
}

/// Origin of an operation in the history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// `[[prepare]]`.
    Prepare,
    /// An agent of the load.
    #[default]
    Load,
    /// The read-back after the load.
    Audit,
}

/// Outcome of an operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Answered as expected.
    #[default]
    Ok,
    /// A definite error.
    Failed,
    /// No answer in time. It is unknown whether the operation took effect.
    Timeout,
    /// Answered, but the answer contradicts an expectation or an earlier operation of the client.
    Wrong,
    /// Still open when the drain ended. Counts in no rate.
    Unfinished,
}

impl Outcome {
    /// All outcomes, in the order of reports.
    pub const ALL: [Self; 5] = [Self::Ok, Self::Failed, Self::Timeout, Self::Wrong, Self::Unfinished];

    /// Returns the name in records and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Wrong => "wrong",
            Self::Unfinished => "unfinished",
        }
    }
}
