//! A catalog for tests: protocols, faults and metrics that golden files refer to, and the golden
//! manifests. It is frozen on purpose: golden files must be accepted for ever.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use experiment::catalog::{ArgumentProblem, Catalog, Effect, Fault, Field, Heals, Operation, Protocol};
use experiment::manifest;
use experiment::plan::Plan;
use experiment::profile;
use experiment::source::Source;

const fn must(name: &'static str, help: &'static str) -> Field {
    Field { name, help, required: true }
}

const fn may(name: &'static str, help: &'static str) -> Field {
    Field { name, help, required: false }
}

const SPACE: Field = must("space", "a set of keys");
const KEY: Field = must("key", "the name");
const STATUS: Field = may("status", "how it went");

const REQUEST: &[Field] = &[
    must("path", "path and query, from the first `/`"),
    may("body", "the request's body"),
    may("header.*", "a header"),
];
const ANSWER: &[Field] = &[
    may("status", "the status code, such as 200"),
    may("body", "the answer's body"),
    may("header.*", "a header of it"),
];

const fn request(name: &'static str) -> Operation {
    Operation { name, help: "an HTTP request", takes: REQUEST, answers: ANSWER, effect: Effect::None }
}

static HTTP: Protocol = Protocol {
    name: "http",
    schemes: &["http", "https"],
    help: "HTTP/1.1 with keep-alive",
    operations: &[
        request("get"),
        request("head"),
        request("post"),
        request("put"),
        request("patch"),
        request("delete"),
    ],
};

const fn frame(name: &'static str, takes: &'static [Field], answers: &'static [Field], effect: Effect) -> Operation {
    Operation { name, help: "a frame of the name service", takes, answers, effect }
}

static VSNS: Protocol = Protocol {
    name: "vsns",
    schemes: &["vsns"],
    help: "frames of the very simple name service over TCP",
    operations: &[
        frame("save", &[SPACE, KEY, must("value", "what to store")], &[STATUS], Effect::Write),
        frame("load", &[SPACE, KEY], &[may("value", "what is stored"), STATUS], Effect::Read),
        frame("remove", &[SPACE, KEY], &[may("removed", "1 if there was one"), STATUS], Effect::Remove),
        frame(
            "load_all",
            &[SPACE, may("after", "the key before the page"), may("limit", "entries of the page")],
            &[may("count", "entries"), STATUS],
            Effect::None,
        ),
        frame("remove_all", &[SPACE], &[STATUS], Effect::RemoveAll),
        frame("oops", &[], &[STATUS], Effect::None),
        frame("ping", &[], &[STATUS], Effect::None),
    ],
};

static COMMAND: Protocol = Protocol {
    name: "command",
    schemes: &[],
    help: "runs a program",
    operations: &[Operation {
        name: "run",
        help: "runs a program",
        takes: &[must("command", "the program and its arguments"), may("stdin", "what it reads")],
        answers: &[
            STATUS,
            may("stdout", "its output"),
            may("stderr", "its errors"),
            may("cut", "whether there was more"),
        ],
        effect: Effect::None,
    }],
};

/// A protocol newer than the golden files, reduced to the parts that the documentation mentions.
static LINES: Protocol = Protocol {
    name: "lines",
    schemes: &["tcp"],
    help: "lines of text over TCP",
    operations: &[Operation {
        name: "send",
        help: "sends a line",
        takes: &[
            must("line", "what is sent"),
            may("end", "behind it"),
            may("until", "the last"),
            may("fails", "that fail"),
        ],
        answers: &[may("line", "the first"), may("last", "the last"), may("text", "all"), STATUS],
        effect: Effect::None,
    }],
};

static KILL: Fault = Fault {
    name: "kill",
    help: "kill a member's process; with `for`, start it again after that time",
    takes: &[may("signal", "KILL, TERM, …"), may("process", "role of the process")],
    label: "kill",
    colour: "#dc2626",
    heals: Heals::AfterFor,
    check: None,
};

static HOST_CRASH: Fault = Fault {
    name: "host_crash",
    help: "end a host at once; with `for`, boot it again after that time",
    takes: &[],
    label: "host crash",
    colour: "#a35159",
    heals: Heals::AfterFor,
    check: None,
};

static CALL: Fault = Fault {
    name: "call",
    help: "call an operation of the target that makes it fail",
    takes: &[must("call", "the operation"), may("*", "an argument of the operation")],
    label: "call",
    colour: "#d97706",
    heals: Heals::ByItself,
    check: None,
};

static SLOW_DISK: Fault = Fault {
    name: "slow_disk",
    help: "make a host's disk slow",
    takes: &[may("write_iops", "writes/s"), may("tier", "the tier of storage")],
    label: "slow disk",
    colour: "#9a5a10",
    heals: Heals::AfterFor,
    check: None,
};

static ETCD: Protocol = Protocol {
    name: "etcd",
    schemes: &["etcd", "etcds"],
    help: "a replicated key-value store",
    operations: &[
        Operation {
            name: "get",
            help: "reads a key",
            takes: &[KEY, may("consistency", "serializable or linearizable")],
            answers: &[may("value", "what is stored"), STATUS],
            effect: Effect::Read,
        },
        Operation {
            name: "put",
            help: "stores a value",
            takes: &[KEY, must("value", "what to store")],
            answers: &[STATUS],
            effect: Effect::Write,
        },
        Operation { name: "delete", help: "removes a key", takes: &[KEY], answers: &[STATUS], effect: Effect::Remove },
        Operation {
            name: "cas",
            help: "stores a value if the key has another one",
            takes: &[KEY, may("from", "the expected value"), must("value", "what to store")],
            answers: &[may("succeeded", "whether it was stored"), may("value", "what is stored instead"), STATUS],
            effect: Effect::CompareAndSet,
        },
    ],
};

static PAUSE: Fault = Fault {
    name: "pause",
    help: "suspend a member's processes",
    takes: &[may("process", "role of the process")],
    label: "pause",
    colour: "#00a382",
    heals: Heals::AfterFor,
    check: None,
};

static SQUEEZE: Fault = Fault {
    name: "squeeze",
    help: "leave a host less CPU",
    takes: &[must("cpu", "what is left")],
    label: "squeeze",
    colour: "#7c5c10",
    heals: Heals::AfterFor,
    check: None,
};

static SLOW_LINK: Fault = Fault {
    name: "slow_link",
    help: "make a host's link slow",
    takes: &[may("rate", "its rate"), may("delay", "its delay")],
    label: "slow link",
    colour: "#2563eb",
    heals: Heals::AfterFor,
    check: Some(|with| {
        let wrong = |argument, what: &str, hint: &str| ArgumentProblem {
            argument,
            what: what.to_owned(),
            hint: Some(hint.to_owned()),
        };
        match with.get("rate").map(ToString::to_string) {
            None if !with.contains_key("delay") => {
                vec![wrong(None, "there is nothing to change", "give `rate` or `delay`")]
            }
            Some(rate) if !rate.ends_with("bit\"") => {
                vec![wrong(Some("rate"), &format!("`rate = {rate}` is not a rate"), "such as \"10mbit\"")]
            }
            _ => Vec::new(),
        }
    }),
};

static PARTITION: Fault = Fault {
    name: "partition",
    help: "cut members off from the others",
    takes: &[],
    label: "partition",
    colour: "#b45309",
    heals: Heals::AfterFor,
    check: None,
};

static SLOW_PORT: Fault = Fault {
    name: "slow_port",
    help: "make a port of the target slow",
    takes: &[must("port", "its name"), may("rate", "its rate"), may("delay", "its delay")],
    label: "slow port",
    colour: "#0f766e",
    heals: Heals::AfterFor,
    check: None,
};

const QUANTILES: [&str; 10] = ["p50", "p75", "p90", "p95", "p99", "p999", "p*", "max", "mean", "count"];
const OUTCOMES: [&str; 5] = ["ok", "failed", "timeout", "wrong", "unfinished"];

fn metrics() -> Vec<String> {
    let mut metrics: Vec<String> = [
        "failed_pct",
        "attempts",
        "throughput.operations_per_s",
        "throughput.cycles_per_s",
        "throughput.median_units_per_s",
        "throughput.units_per_s",
        "throughput.before_first_fault_per_s",
        "operations.*.throughput_per_s",
        "checks.*.answers",
        "checks.*.failed",
        "checks.*.failed_pct",
        "checks.*.*.failed",
        "checks.*.*.failed_pct",
        "faults.*.outage.failed",
        "steps.*.failed",
        "steps.*.time_s",
        "faults.*.outage.back_to_baseline_s",
        "faults.*.outage.first_ok_s",
        "faults.*.outage.memory_released_bytes",
        "faults.*.outage.last_failure_s",
        "faults.*.outage.partial_s",
        "consistency.diverged_keys",
        "consistency.lost_writes",
        "consistency.not_linearizable",
        "consistency.wrong",
        "machine.iowait_pct",
        "hosts.*.cpu_pct",
        "hosts.*.figures.storage_read_per_s",
        "hosts.*.figures.storage_write_per_s",
        "hosts.*.io_wait_threads",
        "hosts.*.load1_max",
        "hosts.*.load1_own_max",
        "hosts.*.rss_max_bytes",
        "generator.cpu_pct",
        "attempt_results.*",
        "by_outcome.*.mean",
        "cost.joules_per_cycle",
        "cost.price_per_million_cycles",
        "cost.watts",
        "wrong_per_1000_cycles",
    ]
    .map(ToOwned::to_owned)
    .to_vec();
    for prefix in ["latency_us", "service_us", "operations.*.latency_us", "operations.*.service_us"] {
        metrics.extend(QUANTILES.map(|quantile| format!("{prefix}.{quantile}")));
    }
    for prefix in ["outcomes", "operations.*.outcomes"] {
        metrics.extend(OUTCOMES.map(|outcome| format!("{prefix}.{outcome}")));
    }
    metrics
}

/// The crate's folder.
pub fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A file as a source, named by its file name.
pub fn source(path: &Path) -> Source {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Source { name: path.file_name().unwrap().to_string_lossy().into_owned(), text }
}

/// The `.toml` files of a folder, by name.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .collect();
    files.sort();
    files
}

pub fn catalog() -> Catalog {
    let mut catalog = Catalog {
        protocols: vec![&COMMAND, &HTTP, &VSNS],
        faults: vec![&CALL, &HOST_CRASH, &KILL, &PARTITION, &SLOW_DISK, &SLOW_LINK, &SLOW_PORT],
        metrics: metrics(),
        ..Catalog::default()
    };
    for name in ["docket", "echo", "elasticsearch", "pacemaker", "vsns"] {
        let source = source(&here().join("golden/targets").join(name).join("target.toml"));
        let manifest =
            manifest::parse(name, &source).unwrap_or_else(|problems| panic!("{name}: {}", problems.render(false)));
        catalog.targets.insert(name.to_owned(), manifest);
    }
    // These are newer than the golden files.
    let crew = source(&here().join("tests/known/targets/crew/target.toml"));
    let crew = manifest::parse("crew", &crew).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
    catalog.targets.insert(crew.name.clone(), crew);
    let store = manifest::parse("store", &source(&here().join("tests/known/store.toml")));
    let store = store.unwrap_or_else(|problems| panic!("{}", problems.render(false)));
    catalog.targets.insert("store".to_owned(), store);
    for path in files(&here().join("golden/profiles")) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let profile =
            profile::parse(&name, &source(&path)).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        catalog.profiles.insert(name, profile);
    }
    catalog
}

/// Returns the catalog with the current targets and profiles.
pub fn catalog_of_today() -> Catalog {
    let (mut catalog, root) = (catalog(), here().join("../.."));
    catalog.metrics.push("emulated.latency_us.p99".to_owned());
    catalog.metrics.push("agents_without_cycle".to_owned());
    catalog.metrics.push("generator.feed.wait_pct".to_owned());
    catalog.metrics.push("steady.throughput_change_pct".to_owned());
    catalog.protocols.extend([&ETCD, &LINES]);
    catalog.faults.extend([&PAUSE, &SQUEEZE]);
    catalog.metrics.push("emulated.latency_us.p50".to_owned());
    catalog.metrics.extend(["max", "mean", "last", "increase", "per_s"].map(|figure| format!("metrics.*.{figure}")));
    catalog.metrics.push("metrics.*.hosts.*.increase".to_owned());
    for name in ["docket", "elasticsearch", "etcd", "opensearch", "pacemaker", "vsns"] {
        let manifest = manifest::parse(name, &source(&root.join("targets").join(name).join("target.toml")));
        catalog
            .targets
            .insert(name.to_owned(), manifest.unwrap_or_else(|problems| panic!("{}", problems.render(false))));
    }
    for path in files(&root.join("profiles")) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let profile = profile::parse(&name, &source(&path));
        catalog.profiles.insert(name, profile.unwrap_or_else(|problems| panic!("{}", problems.render(false))));
    }
    catalog
}

/// Reads an experiment; problems are rendered as text.
pub fn read(text: &str, sets: &[&str]) -> Result<Plan, String> {
    let source = Source { name: "experiment.toml".to_owned(), text: text.to_owned() };
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    experiment::read(&source, &sets, &catalog()).map_err(|problems| problems.render(false))
}
