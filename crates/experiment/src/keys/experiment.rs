//! The keys of an experiment file.

use super::expectation::{EXPECT, KEEP};
use super::lab::LAB;
use super::rate::{BACKLOG, OVERFLOW, RATE};
use super::service::{KEEP_ALIVE, PIPELINE, TARGET};
use super::{Key, Kind};

const COUNT_MAX: i64 = u32::MAX as i64;
/// Field names have dots (`header.accept`), which TOML reads as tables within tables.
const TEXT_MAP: Kind = Kind::Paths(&Kind::Template);
const TIME: Kind = Kind::Duration { zero: false };
const PAUSE: Kind = Kind::Duration { zero: true };

/// The whole file.
pub(crate) const EXPERIMENT: &[Key] = &[
    Key::new("title", Kind::Text, "What the experiment is called; without it, the file's name"),
    Key::new("asks", Kind::Text, "The question it answers").elsewhere(&["description", "question"]),
    Key::new("repeat", Kind::Whole { min: 1, max: 1000 }, "Trials of each point; interleaved: A B A B, never A A B B")
        .or("1")
        .elsewhere(&["repeats", "runs", "iterations", "trials"]),
    Key::new("seed", Kind::Whole { min: 0, max: i64::MAX }, "Where all randomness comes from; same seed, same choices")
        .or("1"),
    Key::new(
        "secret",
        Kind::List(&Kind::Text),
        "Values that no record may have, each by the end of its path: header.x-token, body, target.with.key",
    )
    .elsewhere(&["secrets", "redact", "hide"]),
    TARGET_KEY.required(),
    LAB_KEY,
    PREPARE_KEY,
    LOAD_KEY,
    FAULT_KEY,
    STEP_KEY,
    Key::new(
        "sweep",
        Kind::Paths(&Kind::List(&Kind::Any)),
        "Dotted paths of this file, each with a list of values; trials are the product of all lists",
    )
    .elsewhere(&["matrix", "parameters"]),
    Key::new("variant", Kind::Overlays(VARIANT), "A named overlay over this file, for environments side by side")
        .elsewhere(&["variants", "scenario", "scenarios"]),
    Key::new("find", Kind::Table(FIND), "Instead of a sweep: searches for the highest load at which limits hold"),
    Key::new("require", Kind::Tables(REQUIRE), "A gate: if it does not hold, `plimsoll run` exits with 5")
        .elsewhere(&["threshold", "thresholds", "requirement", "expect"]),
    Key::new("claim", Kind::Tables(CLAIM), "What a source says, held against this run").elsewhere(&["claims"]),
];

const TARGET_KEY: Key = Key::new("target", Kind::Table(TARGET), "The system under test");
const LAB_KEY: Key = Key::new("lab", Kind::Table(LAB), "Where it runs; left out: this machine, unlimited");
const PREPARE_KEY: Key = Key::new(
    "prepare",
    Kind::Tables(PREPARE),
    "Operations before each trial, in order; not measured, and all must succeed",
)
.elsewhere(&["setup", "before"]);
const LOAD_KEY: Key =
    Key::new("load", Kind::Table(LOAD), "What clients do; left out: none").elsewhere(&["workload", "options"]);
const FAULT_KEY: Key = Key::new("fault", Kind::Tables(FAULT), "Something that is broken at a time, and healed")
    .elsewhere(&["faults", "chaos", "nemesis"]);
const STEP_KEY: Key = Key::new(
    "step",
    Kind::Tables(STEP),
    "An exercise instead of [load] and [[fault]]: do something, wait for a condition",
);

const VARIANT: &[Key] = &[
    Key::new("name", Kind::Text, "Its name, in results and in `where`").required(),
    TARGET_KEY,
    LAB_KEY,
    PREPARE_KEY,
    LOAD_KEY,
    FAULT_KEY,
    STEP_KEY,
];

const CALL: Key = Key::new("call", Kind::Text, "An operation of the protocol; `plimsoll protocols NAME` lists them")
    .required()
    .elsewhere(&["do", "operation", "op", "method", "request"]);
const STEP_NAME: Key = Key::new("name", Kind::Name, "Its name in records and reports; `call` without it");
const WITH: Key =
    Key::new("with", TEXT_MAP, "The operation's arguments: templates").elsewhere(&["args", "arguments", "body"]);
const AUDIT: Key = Key::new(
    "audit",
    Kind::Either(
        &[Kind::Boolean, Kind::Table(AUDITED)],
        "true, or { effect = \"write\", key = \"…\", value = \"request.FIELD\" } where the protocol does not know what it does",
    ),
    "Each operation goes to history.jsonl, and its key is read back after the run",
)
.or("false");

const AUDITED: &[Key] = &[
    Key::new("effect", Kind::Choice(&["write", "remove", "read"]), "What the operation does to the key")
        .required()
        .elsewhere(&["does", "kind", "type"]),
    Key::new("key", Kind::Template, "The key: a template, without random numbers")
        .required()
        .elsewhere(&["id", "name"]),
    Key::new("value", Kind::Text, "What a write sends, \"request.FIELD\", or a read is answered, \"answer.FIELD\""),
    Key::new("space", Kind::Template, "The space that the key is in: a template; the empty one if left out"),
];

const PREPARE: &[Key] = &[
    CALL,
    STEP_NAME,
    WITH,
    EXPECT,
    Key::new("count", Kind::Whole { min: 1, max: COUNT_MAX }, "How many times; {seq} counts them")
        .or("1")
        .elsewhere(&["times", "repeat"]),
    AUDIT,
];

const CYCLE: &[Key] = &[
    CALL,
    STEP_NAME,
    WITH,
    EXPECT,
    KEEP,
    Key::new("every", Kind::Whole { min: 1, max: COUNT_MAX }, "Done only in cycles whose {seq} is a multiple of it")
        .or("1"),
    AUDIT,
];

const MIX: &[Key] = &[
    CALL,
    STEP_NAME,
    WITH,
    EXPECT,
    KEEP,
    Key::new("weight", Kind::Whole { min: 1, max: 1_000_000 }, "How often, against the others' weights")
        .or("1")
        .elsewhere(&["share", "ratio", "percent"]),
    AUDIT,
];

const FEED: &[Key] = &[
    Key::new("name", Kind::Name, "Its name in templates: {feed.NAME.COLUMN}").required(),
    Key::new("file", Kind::Text, "A CSV file with a header line, relative to the experiment").required(),
    Key::new("order", Kind::Choice(&["sequential", "random"]), "Which row each cycle takes").or("sequential"),
];

const RETRY: &[Key] = &[
    Key::new(
        "tries",
        Kind::Whole { min: 1, max: COUNT_MAX },
        "Attempts in all; without it, until it works or the drain ends",
    ),
    Key::new("wait", PAUSE, "Pause between attempts").or("50ms"),
];

const LOAD: &[Key] = &[
    Key::new("agents", Kind::Whole { min: 1, max: COUNT_MAX }, "Virtual users").required().elsewhere(&[
        "vus",
        "users",
        "clients",
        "connections",
        "concurrency",
        "workers",
    ]),
    Key::new(
        "from",
        Kind::List(&Kind::Text),
        "Local addresses that agents connect from in turn, [\"10.0.0.5\", …]; left out: the kernel's choice, and several of 127.0.0.0/8 for more agents on the loopback than one has ports",
    )
    .elsewhere(&["source", "sources", "bind", "local_addr", "local_ips", "localIPs"]),
    Key::new("ramp", PAUSE, "Over which the agents start, evenly; part of `time`")
        .or("0s")
        .elsewhere(&["ramp_up", "rampup", "rampUp"]),
    Key::new("time", TIME, "From load start to the last new operation")
        .required()
        .elsewhere(&["duration", "for", "length"]),
    Key::new("timeout", TIME, "Of each attempt").or("10s"),
    Key::new(
        "drain",
        PAUSE,
        "Given to open operations at the end; what is still open then is `unfinished`, and in no rate",
    )
    .or("5s")
    .elsewhere(&["graceful_stop", "gracefulStop"]),
    Key::new("think", PAUSE, "An agent's pause between operations; closed loop only").or("0s").elsewhere(&[
        "pause",
        "sleep",
        "think_time",
        "pacing",
    ]),
    Key::new(
        "think_spread_pct",
        Kind::Number,
        "Each pause is drawn evenly from `think` less and more this percent, as people do not think in step",
    )
    .or("0")
    .elsewhere(&["jitter"]),
    Key::new(
        "warmup",
        Kind::Either(&[Kind::Choice(&["auto"]), PAUSE], "\"auto\", or a duration such as \"10s\""),
        "Cut off before rates are taken; \"auto\" detects the steady state",
    )
    .or("auto")
    .elsewhere(&["warm_up", "warmup_time"]),
    Key::new(
        "retry",
        Kind::Either(
            &[Kind::Choice(&["fail-fast", "wait"]), Kind::Table(RETRY)],
            "\"fail-fast\", \"wait\", { wait = \"50ms\" } or { tries = 3, wait = \"50ms\" }",
        ),
        "What an agent does when an attempt fails; \"wait\" is { wait = \"50ms\" }",
    )
    .or("fail-fast")
    .elsewhere(&["retries"]),
    Key::new(
        "when_failed",
        Kind::Choice(&["go on", "next cycle"]),
        "What follows a wrong answer: the rest of its cycle, or the next one; after a failure or timeout it is always the next",
    )
    .or("go on")
    .elsewhere(&["on_failure", "on_error", "abort_on_fail"]),
    Key::new("reconnect", PAUSE, "An agent's pause after a connect that failed, so that a dead target is not hammered")
        .or("100ms"),
    KEEP_ALIVE,
    PIPELINE,
    RATE,
    BACKLOG,
    OVERFLOW,
    Key::new("threads", Kind::Whole { min: 1, max: 1024 }, "Generator threads; left out: one for every two cores"),
    Key::new("cycle", Kind::Tables(CYCLE), "The operations, in this order, again and again")
        .elsewhere(&["steps", "operations"]),
    Key::new("mix", Kind::Tables(MIX), "The operations, at random by `weight`; each is a cycle of its own")
        .elsewhere(&["weighted"]),
    Key::new("feed", Kind::Tables(FEED), "CSV files that values come from").elsewhere(&["feeds", "data"]),
    Key::new("script", Kind::Text, "A file of functions in Luau for {lua.NAME} and { lua = \"NAME\" }, relative to the experiment"),
];

const FAULT: &[Key] = &[
    Key::new("name", Kind::Name, "By which paths and other faults speak of it: fault.NAME.at").required(),
    Key::new("kind", Kind::Text, "What is broken; `plimsoll faults` lists the kinds")
        .required()
        .elsewhere(&["type", "fault", "do"]),
    Key::new("on", Kind::Text, "one, all, minority, majority, leader, or a member's name")
        .or("one")
        .elsewhere(&["target", "host", "node", "member"]),
    Key::new("with", Kind::Map(&Kind::Any), "The kind's own arguments").elsewhere(&["args", "arguments"]),
    Key::new("at", PAUSE, "Once, so long after load start, ramp included; with `every`, the first time")
        .elsewhere(&["start", "when", "time"]),
    Key::new("every", TIME, "Again and again while the load lasts, the first time after one period")
        .elsewhere(&["interval", "period"]),
    Key::new(
        "after",
        Kind::Text,
        "After another fault: \"fault.NAME.healed\" or \"fault.NAME.begun\", perhaps with \" + 5s\"",
    ),
    Key::new("for", TIME, "Healed after so long; left out: it heals by itself, or at the end of the trial")
        .elsewhere(&["duration", "lasts"]),
    Key::new(
        "seed",
        Kind::Whole { min: 1, max: i64::MAX },
        "Own seed for the choice of victim; left out: from the trial's",
    ),
];

const STEP: &[Key] = &[
    Key::new("name", Kind::Name, "Its name in records and reports").required(),
    Key::new("do", Kind::Map(&Kind::Any), "What is done").required().elsewhere(&["call", "action"]),
    Key::new("until", Kind::Text, "A named condition of the target that ends the step"),
    Key::new("within", TIME, "How long it may take").or("60s").elsewhere(&["timeout"]),
];

const METRIC: Key = Key::new(
    "metric",
    Kind::Text,
    "A path inside a trial of analysis.json, such as latency_us.p99, or a function of such paths",
)
.required();
const WHERE: Key = Key::new(
    "where",
    Kind::Paths(&Kind::Scalar),
    "Only trials with this `variant`, or with this value of a swept path",
);
const BELOW: Key = Key::new("below", Kind::Number, "value < this").elsewhere(&["less_than", "max", "lt"]);
const ABOVE: Key = Key::new("above", Kind::Number, "value > this").elsewhere(&["greater_than", "min", "gt"]);
const AT_MOST: Key = Key::new("at_most", Kind::Number, "value <= this").elsewhere(&["le", "lte"]);
const AT_LEAST: Key = Key::new("at_least", Kind::Number, "value >= this").elsewhere(&["ge", "gte"]);
const EQUALS: Key = Key::new("equals", Kind::Number, "value == this").elsewhere(&["is", "eq", "equal"]);

const RANGE: &[Key] = &[BELOW, ABOVE, AT_MOST, AT_LEAST, EQUALS];
const LIMIT: &[Key] = &[METRIC, BELOW, ABOVE, AT_MOST, AT_LEAST, EQUALS];
const REQUIRE: &[Key] = &[METRIC, BELOW, ABOVE, AT_MOST, AT_LEAST, EQUALS, WHERE];

const CLAIM: &[Key] = &[
    Key::new("says", Kind::Text, "The claim, in words").required(),
    Key::new("source", Kind::Text, "Who says so, and where").required(),
    METRIC,
    Key::new("holds", Kind::Table(RANGE), "In which range the metric has to be").required(),
    WHERE,
];

const FIND: &[Key] = &[
    Key::new("highest", Kind::Text, "What is raised: \"load.rate\" or \"load.agents\"").required(),
    Key::new("while", Kind::Tables(LIMIT), "The limits that have to hold").required(),
    Key::new(
        "surviving",
        Kind::List(&Kind::Text),
        "Conditions, each searched by itself: \"nothing lost\", \"one member down\", or the name of a [[fault]]",
    ),
    Key::new("from", Kind::Positive, "The first value tried; without it, what [load] says"),
    Key::new("up_to", Kind::Positive, "No higher value is tried; without it, the generator sets the bound"),
    Key::new("precision_pct", Kind::Positive, "A search is complete when its 95 % interval is no wider than this")
        .or("5"),
    Key::new("trials", Kind::Whole { min: 3, max: 200 }, "Most trials of each search").or("24"),
];
