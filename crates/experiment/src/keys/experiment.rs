//! The keys of an experiment file.

use crate::keys::{Key, KeyType};
use crate::plan::LOAD;
use crate::quantity::Quantity;

const COUNT_MAX: i64 = u32::MAX as i64;
/// Field names have dots (`header.accept`), which TOML reads as tables within tables.
const TEXT_MAP: KeyType = KeyType::Paths(&KeyType::Template);
const TIME: KeyType = KeyType::Duration { zero: false };
const PAUSE: KeyType = KeyType::Duration { zero: true };

/// The whole file.
pub(crate) const EXPERIMENT: &[Key] = &[
    Key::new("title", KeyType::Text, "What the experiment is called; without it, the file's name"),
    Key::new("asks", KeyType::Text, "The question it answers").elsewhere(&["description", "question"]),
    Key::new(
        "repeat",
        KeyType::Whole { min: 1, max: 1000 },
        "Trials of each point; interleaved: A B A B, never A A B B",
    )
    .or("1")
    .elsewhere(&["repeats", "runs", "iterations", "trials"]),
    Key::new("seed", KeyType::Whole { min: 0, max: i64::MAX }, "Seed of all random values; same seed, same choices")
        .or("1"),
    Key::new(
        "secret",
        KeyType::List(&KeyType::Text),
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
        KeyType::Paths(&KeyType::List(&KeyType::Any)),
        "Dotted paths of this file, each with a list of values; trials are the product of all lists",
    )
    .elsewhere(&["matrix", "parameters"]),
    Key::new("variant", KeyType::Overlays(VARIANT), "A named overlay over this file, for environments side by side")
        .elsewhere(&["variants", "scenario", "scenarios"]),
    Key::new("find", KeyType::Table(FIND), "Instead of a sweep: searches for the highest load at which limits hold"),
    Key::new("require", KeyType::Tables(REQUIRE), "A gate: if it does not hold, `plimsoll run` exits with 5")
        .elsewhere(&["threshold", "thresholds", "requirement", "expect"]),
    Key::new("claim", KeyType::Tables(CLAIM), "What a source says, held against this run").elsewhere(&["claims"]),
];

const TARGET_KEY: Key = Key::new("target", KeyType::Table(TARGET), "The system under test");
const LAB_KEY: Key = Key::new("lab", KeyType::Table(LAB), "Where it runs; left out: this machine, unlimited");
const PREPARE_KEY: Key = Key::new(
    "prepare",
    KeyType::Tables(PREPARE),
    "Operations before each trial, in order; not measured, and all must succeed",
)
.elsewhere(&["setup", "before"]);
const LOAD_KEY: Key =
    Key::new("load", KeyType::Table(LOAD), "What clients do; left out: none").elsewhere(&["workload", "options"]);
const FAULT_KEY: Key = Key::new("fault", KeyType::Tables(FAULT), "Something that is broken at a time, and healed")
    .elsewhere(&["faults", "chaos", "nemesis"]);
const STEP_KEY: Key = Key::new(
    "step",
    KeyType::Tables(STEP),
    "An exercise instead of [load] and [[fault]]: do something, wait for a condition",
);

const VARIANT: &[Key] = &[
    Key::new("name", KeyType::Text, "Its name, in results and in `where`").required(),
    TARGET_KEY,
    LAB_KEY,
    PREPARE_KEY,
    LOAD_KEY,
    FAULT_KEY,
    STEP_KEY,
];

const CALL: Key = Key::new("call", KeyType::Text, "An operation of the protocol; `plimsoll protocols NAME` lists them")
    .required()
    .elsewhere(&["do", "operation", "op", "method", "request"]);
const STEP_NAME: Key = Key::new("name", KeyType::Name, "Its name in records and reports; `call` without it");
const WITH: Key =
    Key::new("with", TEXT_MAP, "The operation's arguments: templates").elsewhere(&["args", "arguments", "body"]);
const AUDIT: Key = Key::new(
    "audit",
    KeyType::Either(
        &[KeyType::Boolean, KeyType::Table(AUDITED)],
        "true, or { effect = \"write\", key = \"…\", value = \"request.FIELD\" } where the protocol does not know what it does",
    ),
    "Each operation goes to history.jsonl, and its key is read back after the run",
)
.or("false");

const AUDITED: &[Key] = &[
    Key::new("effect", KeyType::Choice(&["write", "remove", "read"]), "What the operation does to the key")
        .required()
        .elsewhere(&["does", "kind", "type"]),
    Key::new("key", KeyType::Template, "The key: a template, without random numbers")
        .required()
        .elsewhere(&["id", "name"]),
    Key::new("value", KeyType::Text, "What a write sends, \"request.FIELD\", or a read is answered, \"answer.FIELD\""),
    Key::new("space", KeyType::Template, "The space that the key is in: a template; the empty one if left out"),
];

const PREPARE: &[Key] = &[
    CALL,
    STEP_NAME,
    WITH,
    EXPECT,
    Key::new("count", KeyType::Whole { min: 1, max: COUNT_MAX }, "How many times; {seq} counts them")
        .or("1")
        .elsewhere(&["times", "repeat"]),
    AUDIT,
];

pub(crate) const CYCLE: &[Key] = &[
    CALL,
    STEP_NAME,
    WITH,
    EXPECT,
    KEEP,
    Key::new("every", KeyType::Whole { min: 1, max: COUNT_MAX }, "Done only in cycles whose {seq} is a multiple of it")
        .or("1"),
    AUDIT,
];

pub(crate) const MIX: &[Key] = &[
    CALL,
    STEP_NAME,
    WITH,
    EXPECT,
    KEEP,
    Key::new("weight", KeyType::Whole { min: 1, max: 1_000_000 }, "How often, against the others' weights")
        .or("1")
        .elsewhere(&["share", "ratio", "percent"]),
    AUDIT,
];

const FAULT: &[Key] = &[
    Key::new("name", KeyType::Name, "By which paths and other faults speak of it: fault.NAME.at").required(),
    Key::new("kind", KeyType::Text, "What is broken; `plimsoll faults` lists the kinds")
        .required()
        .elsewhere(&["type", "fault", "do"]),
    Key::new("on", KeyType::Text, "one, all, minority, majority, leader, or a member's name")
        .or("one")
        .elsewhere(&["target", "host", "node", "member"]),
    Key::new("with", KeyType::Map(&KeyType::Any), "The kind's own arguments").elsewhere(&["args", "arguments"]),
    Key::new("at", PAUSE, "Once, so long after load start, ramp included; with `every`, the first time")
        .elsewhere(&["start", "when", "time"]),
    Key::new("every", TIME, "Again and again while the load lasts, the first time after one period")
        .elsewhere(&["interval", "period"]),
    Key::new(
        "after",
        KeyType::Text,
        "After another fault: \"fault.NAME.healed\" or \"fault.NAME.begun\", perhaps with \" + 5s\"",
    ),
    Key::new("for", TIME, "Healed after so long; left out: it heals by itself, or at the end of the trial")
        .elsewhere(&["duration", "lasts"]),
    Key::new(
        "seed",
        KeyType::Whole { min: 1, max: i64::MAX },
        "Own seed for the choice of victim; left out: from the trial's",
    ),
];

const STEP: &[Key] = &[
    Key::new("name", KeyType::Name, "Its name in records and reports").required(),
    Key::new("do", KeyType::Map(&KeyType::Any), "What is done").required().elsewhere(&["call", "action"]),
    Key::new("until", KeyType::Text, "A named condition of the target that ends the step"),
    Key::new("within", TIME, "How long it may take").or("60s").elsewhere(&["timeout"]),
];

const METRIC: Key = Key::new(
    "metric",
    KeyType::Text,
    "A path inside a trial of analysis.json, such as latency_us.p99, or a function of such paths",
)
.required();
const WHERE: Key = Key::new(
    "where",
    KeyType::Paths(&KeyType::Scalar),
    "Only trials with this `variant`, or with this value of a swept path",
);
const BELOW: Key = Key::new("below", KeyType::Number, "value < this").elsewhere(&["less_than", "max", "lt"]);
const ABOVE: Key = Key::new("above", KeyType::Number, "value > this").elsewhere(&["greater_than", "min", "gt"]);
const AT_MOST: Key = Key::new("at_most", KeyType::Number, "value <= this").elsewhere(&["le", "lte"]);
const AT_LEAST: Key = Key::new("at_least", KeyType::Number, "value >= this").elsewhere(&["ge", "gte"]);
const EQUALS: Key = Key::new("equals", KeyType::Number, "value == this").elsewhere(&["is", "eq", "equal"]);

const RANGE: &[Key] = &[BELOW, ABOVE, AT_MOST, AT_LEAST, EQUALS];
const LIMIT: &[Key] = &[METRIC, BELOW, ABOVE, AT_MOST, AT_LEAST, EQUALS];
const REQUIRE: &[Key] = &[METRIC, BELOW, ABOVE, AT_MOST, AT_LEAST, EQUALS, WHERE];

const CLAIM: &[Key] = &[
    Key::new("says", KeyType::Text, "The claim, in words").required(),
    Key::new("source", KeyType::Text, "Who says so, and where").required(),
    METRIC,
    Key::new("holds", KeyType::Table(RANGE), "In which range the metric has to be").required(),
    WHERE,
];

const FIND: &[Key] = &[
    Key::new("highest", KeyType::Text, "What is raised: \"load.rate\" or \"load.agents\"").required(),
    Key::new("while", KeyType::Tables(LIMIT), "The limits that have to hold").required(),
    Key::new(
        "surviving",
        KeyType::List(&KeyType::Text),
        "Conditions, each searched by itself: \"nothing lost\", \"one member down\", or the name of a [[fault]]",
    ),
    Key::new("from", KeyType::Positive, "The first value tried; without it, what [load] says"),
    Key::new("up_to", KeyType::Positive, "No higher value is tried; without it, the generator sets the bound"),
    Key::new("precision_pct", KeyType::Positive, "A search is complete when its 95 % interval is no wider than this")
        .or("5"),
    Key::new("trials", KeyType::Whole { min: 3, max: 200 }, "Most trials of each search").or("24"),
];

const TARGET: &[Key] = &[
    Key::new("use", KeyType::Text, "A target folder's name; `plimsoll targets` lists them")
        .elsewhere(&["name", "target"]),
    Key::new("with", KeyType::Map(&KeyType::Scalar), "Parameters that the target declares")
        .elsewhere(&["parameters", "params"]),
    Key::new("url", KeyType::Text, "Where the load goes; without `start`, it runs already and nothing is started")
        .elsewhere(&["host", "address", "endpoint"]),
    Key::new("start", KeyType::Text, "A shell command that starts it; killed with its process group at the end")
        .elsewhere(&["command", "run", "cmd"]),
    Key::new(
        "ready",
        KeyType::Text,
        "With `start`: a URL that must answer 2xx before the load starts; without it, `url` must accept a connection",
    ),
    Key::new("within", TIME, "With `start`: how long it may take to be ready").or("30s"),
    Key::new(
        "protocol",
        KeyType::Text,
        "How to speak to `url`, where its scheme does not tell; `command` needs no `url`",
    ),
    Key::new(
        "tls",
        KeyType::Table(TLS),
        "With an `https` URL: whom to trust there; left out: whom this machine trusts",
    )
    .elsewhere(&["ssl", "https"]),
];

const TLS: &[Key] = &[
    Key::new(
        "ca",
        KeyType::Text,
        "A PEM file, relative to the experiment: only what its certificates vouch for is trusted",
    )
    .elsewhere(&["cacert", "ca_file", "cafile", "ca_cert", "root", "roots"]),
    Key::new("insecure", KeyType::Boolean, "Whether any certificate is taken, whoever it belongs to")
        .or("false")
        .elsewhere(&["skip_verify", "insecure_skip_verify", "no_verify"]),
    Key::new(
        "server_name",
        KeyType::Text,
        "The name that is asked for and must be in the certificate; left out: the URL's",
    )
    .elsewhere(&["sni"]),
];

/// `[lab]`.
const LAB: &[Key] = &[
    Key::new("hosts", KeyType::Whole { min: 1, max: 256 }, "How many hosts, named n1, n2, …")
        .elsewhere(&["nodes", "members"]),
    Key::new("profile", KeyType::Text, "What each host is like; `plimsoll profiles` lists them"),
    Key::new("host", KeyType::Tables(HOST), "Hosts one by one, instead of `hosts`; addressed by name or role"),
    Key::new(
        "ssh",
        KeyType::List(&KeyType::Text),
        "Hosts that are reached over ssh: [\"pi@10.0.0.11\", …], instead of `hosts`",
    ),
    Key::new("speed", KeyType::Positive, "Time dilation for the whole lab: 0.5 runs everything at half the speed").or("1"),
    Key::new(
        "network",
        KeyType::Either(
            &[KeyType::Table(NETWORK), KeyType::Tables(NETWORK)],
            "[[lab.network]] for each network, or [lab.network] for what the only one is like",
        ),
        "The networks between virtual hosts, by name; the clients are on the first; left out: one for all",
    )
    .elsewhere(&["networks"]),
    Key::new(
        "port",
        KeyType::Tables(PORT),
        "Ports of the target that are slower than the links of virtual hosts, by name",
    )
    .elsewhere(&["ports"]),
    Key::new(
        "generator_cpus",
        KeyType::Whole { min: 0, max: 1024 },
        "CPUs of this machine that only the clients use; 0: they share all with the hosts; left out: half of them",
    )
    .elsewhere(&["client_cpus"]),
    Key::new(
        "electricity_per_kwh",
        KeyType::Positive,
        "Price of a kWh, in the currency of the profiles; with it, the price of a cycle includes electricity",
    )
    .elsewhere(&["kwh", "energy_price"]),
    Key::new(
        "measure_storage",
        KeyType::Boolean,
        "Whether the storage of each host is measured before each trial; left out: if a host's profile has a disk",
    ),
    Key::new(
        "quick_start",
        KeyType::Boolean,
        "Whether cores and disks of virtual hosts are as fast as this machine's until the target is ready; then they are as asked",
    )
    .or("false"),
];

const NETWORK: &[Key] = &[
    Key::new("name", KeyType::Name, "Its name, for `networks` of a host; [[lab.network]] needs it"),
    Key::new(
        "link",
        KeyType::Quantity(Quantity::BitRate),
        "Bits/s of each host's link to it, if its profile has no less",
    )
    .elsewhere(&["rate", "bandwidth"]),
    Key::new("delay", KeyType::Duration { zero: false }, "Added to each packet of a host, if its profile has no more")
        .elsewhere(&["latency"]),
    Key::new("loss_pct", KeyType::Number, "Packets lost, percent, if the profile has no more").elsewhere(&["loss"]),
];

const PORT: &[Key] = &[
    Key::new("name", KeyType::Name, "Its name in target.toml, such as \"distribution\"").required(),
    Key::new(
        "rate",
        KeyType::Quantity(Quantity::BitRate),
        "Bits/s that TCP from and to it has of a host's link, in each direction",
    )
    .elsewhere(&["link", "bandwidth"]),
    Key::new("delay", KeyType::Duration { zero: false }, "Added to each packet of it that leaves a host")
        .elsewhere(&["latency"]),
];

const HOST: &[Key] = &[
    Key::new("name", KeyType::Name, "Its name; without it n1, n2, …"),
    Key::new("role", KeyType::Text, "Which of the target's roles runs here; all of them without it"),
    Key::new("count", KeyType::Whole { min: 1, max: 256 }, "So many of them").or("1"),
    Key::new("profile", KeyType::Text, "What it is like; the lab's profile without it"),
    Key::new("ssh", KeyType::Text, "user@address, if it is reached over ssh"),
    Key::new("networks", KeyType::List(&KeyType::Name), "The networks it is on, by name; left out: the first")
        .elsewhere(&["network"]),
    Key::new("routes", KeyType::Boolean, "Whether it passes packets on between its networks").or("false"),
];

/// `expect` of a step. Field names have dots (`header.etag`), which TOML reads as tables within tables.
const EXPECT: Key = Key::new(
    "expect",
    KeyType::Paths(&KeyType::Either(
        &[KeyType::Template, KeyType::Table(COMPARISON)],
        "a template or a comparison, such as \"200\" or { one_of = [\"200\", \"201\"] }",
    )),
    "Field of the answer, or FIELD/JSON/POINTER = what it has to be; an answer that contradicts it is `wrong`",
)
.elsewhere(&["assert", "check"]);

/// `keep` of a step.
const KEEP: Key = Key::new(
    "keep",
    KeyType::Map(&KeyType::Either(
        &[KeyType::Text, KeyType::Table(PART)],
        "\"request.FIELD\", \"answer.FIELD\" or { from = \"answer.FIELD\", matches = \"id=([0-9]+)\" }",
    )),
    "Slot = \"request.FIELD\", \"answer.FIELD\" or \"answer.FIELD/JSON/POINTER\"; later templates of the same cycle use {slot}",
)
.elsewhere(&["capture", "save", "extract"]);

const MATCHES: Key =
    Key::new("matches", KeyType::Text, "A regular expression that matches somewhere in it; `^` and `$` are its ends")
        .elsewhere(&["match", "regex", "regexp", "pattern"]);
const CONTAINS: Key =
    Key::new("contains", KeyType::Template, "A text that it has in it: a template").elsewhere(&["includes"]);
const ONE_OF: Key = Key::new("one_of", KeyType::List(&KeyType::Template), "Texts of which it is one: templates")
    .elsewhere(&["any_of", "oneOf", "in"]);

const LUA: Key =
    Key::new("lua", KeyType::Text, "A function of the load's script that says yes to it: true, or anything but nil");

const COMPARISON: &[Key] = &[
    MATCHES,
    CONTAINS,
    ONE_OF,
    LUA,
    Key::new(
        "not",
        KeyType::Either(
            &[KeyType::Template, KeyType::Table(&[MATCHES, CONTAINS, ONE_OF, LUA])],
            "a template or a comparison, such as \"0\" or { contains = \"error\" }",
        ),
        "What it must not be: a template, or a comparison of which nothing may hold",
    )
    .elsewhere(&["is_not"]),
];

const PART: &[Key] = &[
    Key::new(
        "from",
        KeyType::Text,
        "What it is a part of: \"request.FIELD\", \"answer.FIELD\" or \"answer.FIELD/JSON/POINTER\"",
    )
    .required()
    .elsewhere(&["of", "field"]),
    Key::new(
        "matches",
        KeyType::Text,
        "A regular expression: its group is kept, or all that it matches if it has none",
    )
    .required()
    .elsewhere(&["match", "regex", "regexp", "pattern"]),
];
