//! What a trial's `events.jsonl` and `history.jsonl` hold: one JSON object a line, `at_s` first.
//! Zero on the trial's clock is load start; what happened before it has a negative `at_s`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One line of `events.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds since load start.
    pub at_s: f64,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// Returns the Unix time of load start, seconds; `None` if the events do not have it.
#[must_use]
pub fn start_unix_s(events: &[Event]) -> Option<f64> {
    events.iter().find_map(|event| match event.what {
        What::Clock { unix_s } => Some(unix_s),
        _ => None,
    })
}

/// What happened. Readers skip kinds they do not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// First line: ties the clock to the calendar.
    Clock {
        /// Unix time of load start, seconds.
        unix_s: f64,
    },
    /// The trial entered a phase.
    Phase {
        /// Which.
        phase: Phase,
    },
    /// A fault began; `number` counts its occurrences from 1.
    FaultBegun {
        /// Name in the experiment.
        fault: String,
        /// Occurrence, from 1.
        number: u32,
        /// Kind.
        kind: String,
        /// The member it hit.
        on: String,
    },
    /// A fault ended.
    FaultHealed {
        /// Name in the experiment.
        fault: String,
        /// Occurrence, from 1.
        number: u32,
    },
    /// A fault could not be injected; the trial is not what was asked for.
    FaultFailed {
        /// Name in the experiment.
        fault: String,
        /// Occurrence, from 1.
        number: u32,
        /// Reason for the failure.
        reason: String,
    },
    /// An operator's action, which repairs, began; `number` counts its occurrences from 1.
    ActionTaken {
        /// Name in the experiment.
        action: String,
        /// Occurrence, from 1.
        number: u32,
        /// Kind.
        kind: String,
        /// The members it was for.
        on: String,
    },
    /// An action could not be done; the trial is not what was asked for.
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
    /// It ended: its condition held, or nothing more was waited for.
    StepEnded {
        /// Name in the experiment.
        step: String,
        /// What came of it, its audits not counted.
        result: StepResult,
        /// Seconds from its beginning until all was done and only the condition was waited for; null if that was not reached.
        done_s: Option<f64>,
        /// Why, if not `ok`.
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
        /// Why it did not pass; null if it did.
        failed: Option<String>,
    },
    /// The target was started anew, with nothing in it, because a step had left it bad.
    TargetRebuilt {
        /// Name of the step.
        after: String,
    },
    /// The target runs on the start of an earlier trial. The events of its hosts and processes
    /// follow again.
    StartShared {
        /// Id of the trial for which it was started.
        of: String,
        /// Whether the target's hook `reset` ran before this trial.
        reset: bool,
    },
    /// A process of the target started.
    ProcessUp {
        /// Host.
        host: String,
        /// Role.
        process: String,
        /// Its pid on this machine.
        pid: u32,
    },
    /// A process of the target ended.
    ProcessDown {
        /// Host.
        host: String,
        /// Role.
        process: String,
        /// `exit 1`, `signal 9`, `lost with its host`.
        how: String,
        /// Whether that is no fault of the target's: Plimsoll meant it to (a fault, or the end of the trial), or its host was
        /// lost.
        expected: bool,
        /// The last lines that it wrote, oldest first, if nobody meant it to end.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        last_lines: Vec<String>,
    },
    /// A host of the lab is up.
    HostUp {
        /// Its name.
        host: String,
        /// Kind: `local`, `netns`, `ssh`.
        kind: String,
        /// Its profile, if it has one.
        profile: Option<String>,
        /// What it got and how its storage did.
        is: HostFigures,
    },
    /// A host of the lab is down.
    HostDown {
        /// Its name.
        host: String,
        /// Whether Plimsoll meant it to be (a fault, or the end of the trial).
        expected: bool,
    },
    /// The switch between a lab's virtual hosts was lost, although nobody meant it to be.
    SwitchLost {
        /// Why, as far as is known.
        reason: String,
    },
    /// A generator of a fleet was lost, and with it the load.
    GeneratorLost {
        /// What it is called.
        generator: String,
        /// When it was last heard, seconds since load start.
        heard_s: f64,
        /// How that was seen.
        reason: String,
    },
    /// A line of a target's log that its `[log]` calls notable.
    Log {
        /// Host.
        host: String,
        /// Role.
        process: String,
        /// The line.
        line: String,
        /// The text of `[log]` that the line has in it.
        #[serde(default)]
        text: String,
        /// Whether `[log]` calls that text alarming.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        alarming: bool,
        /// Above 0: stands for so many lines that are no events of their own, since there were too many; this is the last.
        #[serde(default, skip_serializing_if = "is_zero")]
        left_out: u64,
    },
    /// The first failure of its kind that a thread of the load met.
    Example {
        /// The failure.
        is: FailureExample,
    },
    /// Something of the generator or the recorder that a reader must know.
    Notice {
        /// In words.
        text: String,
    },
    /// What `inspect` said; `when` is `before_load`, `after_load`.
    Inspected {
        /// At which moment.
        when: String,
        /// The hook's JSON.
        says: Value,
    },
    /// With what the trial is played; written when it begins and when it ends, so that a change in between is seen.
    Versions {
        /// With what.
        is: Versions,
    },
    /// Where the read-back of audited keys stands.
    Audit {
        /// Keys read back.
        keys: u64,
        /// Keys that could not be read back.
        unread: u64,
        /// Keys that were not read back for lack of time. The others are a random sample then.
        #[serde(default, skip_serializing_if = "is_zero")]
        skipped: u64,
    },
    /// The members were asked what they hold, round by round until two rounds told the same.
    Replicas {
        /// Rounds that were asked.
        rounds: u32,
        /// Whether the last two rounds were equal or, without audited keys, all members agreed in
        /// the last round. If not, replication may still have been under way.
        settled: bool,
    },
    /// To whom the CPU time of this machine was put down while it was sampled. At most 16 processes of a kind, the busiest first.
    CpuShares {
        /// Processes of a target that Plimsoll did not start, or not all of it; empty for others.
        #[serde(default)]
        target_processes: Vec<ProcessShare>,
        /// Processes that are neither the target nor Plimsoll.
        #[serde(default)]
        other_processes: Vec<ProcessShare>,
        /// Why it cannot be told which processes are the target's, so that none is called another.
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
    /// The trial is over. Without this line it was cut off.
    Ended {
        /// `done`, `interrupted` or `failed`.
        how: Ending,
        /// Why, if not `done`.
        reason: Option<String>,
    },
    /// A kind that this version does not know; [`crate::lines::read_events`] leaves it out.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// What came of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepResult {
    /// All was done, the condition held in time, and every audit passed.
    Ok,
    /// Not done, or the condition did not hold, within its time.
    TimedOut,
    /// Something could not be done.
    ActionFailed,
    /// The condition could not be asked: its program ended with an error.
    ConditionFailed,
    /// An audit did not pass.
    AuditFailed,
    /// It was cut off.
    #[default]
    Unfinished,
}

impl StepResult {
    /// For readers.
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

/// A failure, as far as it may be shown: bounded, without control characters, without values of headers and of the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FailureExample {
    /// Name of the operation.
    pub operation: String,
    /// Result of the attempt, as `attempts.csv` has it.
    pub result: String,
    /// The request: path without its query, or key.
    pub request: String,
    /// The expectation that did not hold, as `body = hello`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expectation: Option<String>,
    /// Value that came in the expected one's place; null if the answer had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub got: Option<String>,
    /// Beginning of the answer; null if nothing came, or nothing was kept of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What a process used of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProcessShare {
    /// Name of its program, of which the kernel keeps 15 bytes.
    pub name: String,
    /// Its pid on that machine.
    pub pid: u32,
    /// Mean CPU time, percent of the whole machine; that of processes which it started is theirs.
    pub cpu_pct: f64,
}

/// What a trial is played with, as far as it lies on this machine. A file's mark is its size and a check sum of its content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Versions {
    /// Version of Plimsoll.
    pub plimsoll: String,
    /// Mark of its program; null if it cannot be read.
    pub program: Option<String>,
    /// Name of the target, if it comes from a folder.
    pub target: Option<String>,
    /// The files of that folder: path within it to mark. Of a large folder the first thousand.
    pub files: BTreeMap<String, String>,
}

/// What a host got. What does not apply or was not measured is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostFigures {
    /// Where the others reach it.
    pub address: Option<String>,
    /// Its cores.
    pub cores: Option<u32>,
    /// What each can do, in cores of the machine that plays it, `lab.speed` included.
    pub core_speed: Option<f64>,
    /// Over how long a slow core is true at best, seconds: the period of its CPU quota.
    pub quota_period_s: Option<f64>,
    /// CPUs of this machine that it runs on, as `0-3,6`.
    pub cpus: Option<String>,
    /// Its memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Rate of its link, bits/s, `lab.speed` included.
    pub link_bits_per_s: Option<f64>,
    /// Random reads of 4 KiB in its data folder, each waited for.
    pub storage_read_per_s: Option<f64>,
    /// Random writes of 4 KiB there, each synced.
    pub storage_write_per_s: Option<f64>,
    /// Mean time of a sync of such a write, microseconds.
    pub storage_sync_us: Option<f64>,
    /// Why the storage was not measured.
    pub storage_unmeasured: Option<String>,
    /// The tiers of storage that folders of the target's processes are on, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tiers: BTreeMap<String, TierFigures>,
}

/// A tier of storage of a host. What was not asked for or not measured is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TierFigures {
    /// What is on it, each as `role.folder`.
    pub folders: Vec<String>,
    /// What it is: `disk`, `loop device`, `memory`, or where persistent memory is mounted.
    pub on: String,
    /// Reads/s that it is limited to, `lab.speed` included.
    pub limit_read_per_s: Option<f64>,
    /// Writes/s that it is limited to, likewise.
    pub limit_write_per_s: Option<f64>,
    /// Where its limits come from.
    pub source: Option<String>,
    /// Random reads of 4 KiB, each waited for.
    pub read_per_s: Option<f64>,
    /// Random writes of 4 KiB, each synced.
    pub write_per_s: Option<f64>,
    /// Mean time of a sync of such a write, microseconds.
    pub sync_us: Option<f64>,
    /// Why it was not measured.
    pub unmeasured: Option<String>,
}

/// Where a trial is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The target is being started.
    Starting,
    /// `[[prepare]]`.
    Preparing,
    /// The load runs.
    Load,
    /// No new operations; open ones may end.
    Draining,
    /// Audited keys are read back.
    Auditing,
    /// The target is being stopped.
    Stopping,
}

/// How a trial or run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// To its end.
    Done,
    /// By the user.
    Interrupted,
    /// By an error.
    Failed,
}

/// `ending.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnding {
    /// How.
    pub how: Ending,
    /// Why, if not done.
    pub reason: Option<String>,
    /// Sweeps that went no higher, so that trials of the plan were not played.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<SweepStop>,
}

/// A sweep that went no higher, because one of its trials met the condition of `[sweep] stop`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct SweepStop {
    /// Variant, if any.
    pub variant: Option<String>,
    /// Swept path to the value at which it stopped.
    pub point: BTreeMap<String, Value>,
    /// The path whose higher values were left out.
    pub over: String,
    /// The trial that met the condition.
    pub trial: String,
    /// Its figure, and what was asked: `outcomes.timeout was 12 (above 0)`.
    pub because: String,
    /// Trials of the plan that were not played for it.
    pub not_played: Vec<String>,
}

/// One line of `history.jsonl`: an operation on audited keys, or the read-back of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// When it ended (operations) or was read (read-back).
    pub at_s: f64,
    /// Who did it.
    pub by: By,
    /// The agent; null for prepare and audit.
    pub agent: Option<u32>,
    /// What it does to data: `read`, `write`, `remove`, `remove_all`.
    pub effect: String,
    /// The space; empty where the protocol has none.
    pub space: String,
    /// The key; empty for `remove_all`.
    pub key: String,
    /// What was written, or what was read; null for removals and for a read that found nothing.
    pub value: Option<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether the operation took effect: no for a definite refusal, null where nobody knows.
    pub applied: Option<bool>,
}

/// Who did an operation of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// `[[prepare]]`.
    Prepare,
    /// An agent of the load.
    Load,
    /// The read-back after the load.
    Audit,
}

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Answered as expected.
    Ok,
    /// A definite error.
    Failed,
    /// No answer in time; unknown whether it took effect.
    Timeout,
    /// Answered, and the answer contradicts what this client did.
    Wrong,
    /// Still open when the drain ended; in no rate.
    Unfinished,
}

impl Outcome {
    /// All outcomes, in the order of reports.
    pub const ALL: [Self; 5] = [Self::Ok, Self::Failed, Self::Timeout, Self::Wrong, Self::Unfinished];

    /// The word in records and reports.
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
