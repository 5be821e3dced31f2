//! `target.toml`: description, parameters, processes and hooks of a target. Reads the file, fills
//! in every default and reports all problems at once. The lab finds the target's folder and checks
//! that the files and programs exist.

mod operations;
mod private_folders;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use operations::OPERATION;
pub use operations::TargetOperation;
pub use private_folders::refused_private;

use crate::duration;
use crate::keys::section;
use crate::pointer::Pointer;
use crate::problem::{Problem, Problems, join_words, nearest_hint, nearest_name};
use crate::quantity::Quantity;
use crate::section::{self, Section};
use crate::source::Source;
use crate::tier;
use crate::tree::{Node, TableEntry, TextSpan};

section! {
    const MANIFEST {
        about = required: Table(ABOUT), "Description";
        parameters: Map(&Table(PARAMETER)), "Parameters that an experiment may set, by name";
        process = required: Tables(PROCESS), "Programs that make up the target";
        hooks: Table(HOOKS), "Executables in the folder; each answers with one JSON object";
        metrics: Table(METRICS), "Figures that it publishes, in Prometheus' text format or as JSON";
        log: Table(LOG), "Output lines of its processes that become events";
        operation: Tables(OPERATION), "Programs that clients run on the members, for the protocol `command`";
        private: TEXTS,
            "Folders of the machine that are private to each virtual host, empty at first and kept over its crash; \
             above all sections";
        needs: Table(NEEDS), "Settings of the machine that it needs to start or to work properly";
        actions: Map(&Text), "Programs in the folder that a step runs on members, by name";
        conditions: Map(&Either(&[Text, Table(CONDITION)], "a path in the folder, or a table with `run`")),
            "Programs in the folder that check a condition on a member, by name";
        audits: Map(&Text), "Programs in the folder that check every member after each step, by name";
    }
}

section! {
    /// `[conditions.NAME]`: a condition that a step waits for.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Condition = CONDITION {
        run = required: Text => String, "Path in the folder: exit 0 if it holds, 1 if not yet";
        on = "all": Choice(&["all", "one"]) => HoldsOn, "Members on which it must hold, of those that are up";
        every = "500ms": TIME => every_s: f64, "Time from one check to the next", ["interval", "period"];
    }
}

/// Members on which a condition must hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HoldsOn {
    /// All members that are up.
    #[default]
    All,
    /// One or more members.
    One,
}

section! {
    const PARAMETER {
        type = required: Choice(&["choice", "integer", "number", "boolean", "text", "duration"]), "Type of the value";
        of: TEXTS, "For a choice: the values";
        min: Whole { min: i64::MIN, max: i64::MAX }, "For an integer or a number: the smallest";
        max: Whole { min: i64::MIN, max: i64::MAX }, "For an integer or a number: the largest";
        default = required: Scalar, "Value if the experiment gives none";
        help = required: Text, "Description, one line";
        lab_time = "false": Boolean,
            "For a duration: whether it is divided by `lab.speed`, as all times of the experiment are";
    }
}

section! {
    const HOOKS {
        install: Text, "install check, install apply: list what is missing, and install it";
        inspect: Text, "Versions and settings, for the records";
        leader: Text, "Member that leads";
        audit: Text, "Data of the members, for the checks after a run";
        reset: Text, "Resets it to its first state";
        versions: Text, "Versions of installed software, before anything is started";
        install_with: TEXTS,
            "Parameters that install and versions get, once for each set of their values; default: all";
    }
}

/// A target folder's `target.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Name of the target's folder.
    pub name: String,
    /// Description: `[about]`.
    pub about: About,
    /// Parameters, by name: `[parameters.NAME]`.
    pub parameters: BTreeMap<String, Parameter>,
    /// Processes, in file order: `[[process]]`.
    pub processes: Vec<Process>,
    /// Hooks: `[hooks]`, hook name to path inside the folder.
    pub hooks: BTreeMap<String, String>,
    /// `[hooks] install_with`: the parameters that the hooks `install` and `versions` receive;
    /// `None` means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_with: Option<Vec<String>>,
    /// Metrics of the target: `[metrics]`.
    pub metrics: Option<Metrics>,
    /// Texts in logs: `[log]`.
    pub log: LogTexts,
    /// `private`: folders of this machine that are separate on each virtual host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub private: Vec<String>,
    /// Operations that run a program of the target, in file order: `[[operation]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<TargetOperation>,
    /// Requirements on the machine: `[needs]`.
    #[serde(default, skip_serializing_if = "Needs::is_empty")]
    pub needs: Needs,
    /// Actions: `[actions]`, action name to path inside the folder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub actions: BTreeMap<String, String>,
    /// Conditions, by name: `[conditions.NAME]`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, Condition>,
    /// Audits: `[audits]`, audit name to path inside the folder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub audits: BTreeMap<String, String>,
}

impl Manifest {
    /// Returns the parameters in `with` (those of a trial) that determine the installation.
    #[must_use]
    pub fn installed_with(&self, with: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut deciding = with.clone();
        deciding.retain(|name, _| self.install_with.as_ref().is_none_or(|listed| listed.contains(name)));
        deciding
    }

    /// Whether a process runs Plimsoll or receives the path of Plimsoll.
    #[must_use]
    pub fn runs_plimsoll(&self) -> bool {
        let mut texts = self.processes.iter().flat_map(|process| process.run.iter().chain(process.env.values()));
        texts.any(|text| text.contains("{plimsoll}"))
    }
}

section! {
    /// `[needs]`: requirements on the machine that runs the processes.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Needs = NEEDS {
        sysctl: Map(&Whole { min: 0, max: i64::MAX }) => sysctl: BTreeMap<String, u64> = sysctls,
            "Lowest values of kernel settings: \"vm.max_map_count\" = 262144", ["kernel"];
        nofile: COUNT => Option<u64>, "Files that a process may have open", ["open_files"];
        memlock: Either(&[Choice(&["unlimited"]), SIZE], "a size such as \"64MiB\", or \"unlimited\"")
            => memlock_bytes: Option<u64> = memlock,
            "Memory that a process may lock", ["locked_memory"];
        nproc: COUNT => Option<u64>, "Processes and threads that its user may have", ["processes", "threads"];
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        advised = "false": Boolean => bool,
            "Whether it works without them: `run` then prints what is missing and continues";
        member_memory: SIZE => member_memory_bytes: Option<u64> = member_memory,
            "Memory of an idle member: a lab of more members than this machine has memory for is refused",
            ["memory"];
        members_per_cpu: COUNT => Option<u64>,
            "Members that a CPU can carry: a lab of more members than this machine has CPUs for is refused", ["per_cpu"];
    }
}

impl Needs {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn sysctls(needs: &Section<'_>) -> BTreeMap<String, u64> {
    let sysctls = needs.entries("sysctl").into_iter();
    sysctls.filter_map(|entry| Some((entry.key, entry.node.json().as_u64()?))).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "above 0, and at most 10^18")]
fn member_memory(needs: &Section<'_>) -> Option<u64> {
    Quantity::Size.parse(needs.text("member_memory")?).ok().map(|bytes| bytes as u64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "above 0, and at most 10^18")]
fn memlock(needs: &Section<'_>) -> Option<u64> {
    match needs.text("memlock")? {
        "unlimited" => Some(u64::MAX),
        size => Quantity::Size.parse(size).ok().map(|bytes| bytes as u64),
    }
}

section! {
    /// `[log]`: texts that turn a line of a process's output into an event.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct LogTexts = LOG {
        notable: TEXTS => Vec<String>, "Lines that contain one of these texts become events, unchanged";
        alarming: TEXTS => Vec<String>,
            "Like `notable`, but they also make the trial suspect; the verdict quotes the line";
    }
}

section! {
    /// `[metrics]`: metrics that the target publishes.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Metrics = METRICS {
        kind = "prometheus": Choice(&["prometheus", "json"]) => MetricsFormat,
            "Format: Prometheus' text format, or one JSON document", ["format", "type", "data_format"];
        url = required: Text => String,
            "URL of each host: \"http://{host}:{port.NAME}/metrics\"", ["endpoint", "urls"];
        /// Pointers into the JSON document, by metric name. Empty texts for other formats.
        keep = required: Either(
            &[TEXTS, Map(&Text)],
            "a list of names; for JSON a table of names, each with its pointer: queue = \"/queue/length\""
        ) => keep: BTreeMap<String, String> = kept,
            "Names, without labels, of those to record each second; for JSON each with the pointer to its value, in \
             which `*` is any member or element",
            ["metrics", "fields", "include"];
        counters: TEXTS => Vec<String>,
            "Those in `keep` that only rise, if neither a name that ends in `_total` nor a `# TYPE` line says so";
    }
}

impl Metrics {
    /// Whether this metric is known to be a gauge, which has no rate, before the target has
    /// answered. JSON has no metric types, so the name and `counters` decide.
    #[must_use]
    pub fn is_gauge(&self, name: &str) -> bool {
        let is_counter = name.ends_with("_total") || self.counters.iter().any(|counter| counter == name);
        self.kind == MetricsFormat::Json && !is_counter
    }
}

/// Format of a target's metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricsFormat {
    /// Prometheus' text format.
    #[default]
    Prometheus,
    /// A JSON document.
    Json,
}

/// Maximum number of metrics that a target's `keep` may name. Each is recorded every second.
const KEPT_MAX: usize = 200;

fn kept(metrics: &Section<'_>) -> BTreeMap<String, String> {
    let Some(node) = metrics.node("keep") else { return BTreeMap::new() };
    match node.table() {
        Some(table) => {
            let entries = table.entries.iter();
            entries.filter_map(|entry| Some((entry.key.clone(), entry.node.text()?.to_owned()))).collect()
        }
        None => node
            .list()
            .unwrap_or_default()
            .iter()
            .filter_map(|node| Some((node.text()?.to_owned(), String::new())))
            .collect(),
    }
}

section! {
    /// `[about]`: description of the target.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct About = ABOUT {
        what = required: Text => String, "Description, one line";
        version = required: Text => String, "Version of the target, or of its sources";
        licence = required: Text => String, "SPDX expression", ["license"];
        article: Text => Option<String>, "Article it comes from";
        protocol = required: Text => String, "Protocol of its service port; a parameter may decide: \"{protocol}\"";
        service: Text => String,
            "\"role.port\" that clients connect to; left out if steps and programs are all it needs";
        /// Role of the members: faults hit them, and hooks and metrics are read from them.
        members: Text => members: String = |about| {
            let serving = about.text("service").and_then(|service| service.split('.').next());
            about.text("members").or(serving).unwrap_or_default().to_owned()
        }, "Role whose hosts are its members, if clients connect to something in front of them";
        #[serde(default, skip_serializing_if = "Option::is_none")]
        around: TIME => around_s: Option<f64>,
            "Usual time to start and stop it, for the estimate of `check`; default: 3 s";
    }
}

impl About {
    /// Returns the role that clients connect to. If clients connect to a balancer, the members have
    /// another role.
    #[must_use]
    pub fn service_role(&self) -> &str {
        self.service.split('.').next().unwrap_or_default()
    }
}

/// A parameter of a target: `[parameters.NAME]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Type and allowed values.
    #[serde(flatten)]
    pub takes: Takes,
    /// Value if the experiment sets none. Always a text; `takes` defines the format.
    pub default: String,
    /// Description, one line.
    pub help: String,
    /// Whether the value is a time that a slowed lab lengthens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lab_time: bool,
}

/// Values that a parameter takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Takes {
    /// One of the listed values.
    Choice {
        /// The allowed values.
        of: Vec<String>,
    },
    /// A whole number.
    Integer {
        /// Smallest allowed value.
        min: Option<i64>,
        /// Largest allowed value.
        max: Option<i64>,
    },
    /// A number, with or without decimals.
    Number {
        /// Smallest allowed value.
        min: Option<i64>,
        /// Largest allowed value.
        max: Option<i64>,
    },
    /// true or false.
    Boolean,
    /// Any text.
    Text,
    /// A duration such as `"50ms"`; passed to the target in seconds.
    Duration,
}

section! {
    /// `[[process]]`: one program of the target.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Process = PROCESS {
        role = required: Name => String, "Name within the target", ["name"];
        run = required: ARGUMENTS => Vec<String>,
            "Program and arguments, with placeholders such as {target}, {host}, {port.NAME}",
            ["command", "cmd", "exec"];
        env: Map(&Argument) => BTreeMap<String, String>, "More environment variables, with the same placeholders";
        ports: List(&Name) => Vec<String>, "Names of the ports it listens on";
        data = "false": Boolean => bool, "Whether it needs a private data folder";
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        folders: Map(&Text) => BTreeMap<String, String>,
            "More private folders, each with its storage tier: disk, sata, nvme, memory, pmem, or a parameter that \
             names one", ["dirs", "volumes", "paths"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Text => Option<String>,
            "User that it runs as and that owns its folders; default: Plimsoll's user", ["run_as", "uid"];
        after: Text => Option<String>, "Role that must be ready before this one starts";
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        programs: TEXTS => Vec<String>,
            "Programs in its tree of processes, by file name, that get separate figures";
        ready: Table(READY) => ready: Ready = |_| Ready::default(),
            "Condition for being ready; default: its first port accepts a connection";
        stop: Table(STOP)
            => stop: Stop = |process| process.section("stop").map(|stop| Stop::read(&stop)).unwrap_or_default(),
            "How it is stopped";
    }
}

section! {
    /// Condition under which a process counts as ready.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Ready = READY {
        => check: ReadyCheck = |_| ReadyCheck::Tcp(String::new()), "Check";
        call: Text, "Operation of the protocol that must be ok";
        tcp: Text, "Name of a port that must accept a connection";
        http: Text, "URL of which a GET must answer 2xx";
        run: ARGUMENTS,
            "Program of the folder that must exit with 0; run on the host again and again", ["program", "hook"];
        within = "30s": TIME => within_s: f64, "Time limit", ["timeout"];
    }
}

section! {
    /// Signal and time limit for stopping a process, before it is killed.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Stop = STOP {
        signal = "TERM": Choice(&["TERM", "INT", "QUIT", "HUP", "KILL"]) => String, "Signal to send";
        within = "5s": PAUSE => within_s: f64, "Time until it is killed", ["timeout"];
    }
}

/// Check that is repeated until it succeeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadyCheck {
    /// This operation of the target's protocol, sent to the service port, is `ok`.
    Call(String),
    /// This port (by name) accepts a connection.
    Tcp(String),
    /// A GET of this URL (placeholders allowed) answers 2xx.
    Http(String),
    /// This program with its arguments (placeholders allowed), run on the host, exits with 0.
    Run(Vec<String>),
}

/// Reads the manifest of the target folder `name`.
///
/// # Errors
/// All problems in the file.
pub fn parse(name: &str, source: &Source) -> Result<Manifest, Problems> {
    section::read_file(source, MANIFEST, |root, problems| {
        let mut manifest = Manifest {
            name: name.to_owned(),
            about: root.section("about").map(|about| About::read(&about)).unwrap_or_default(),
            parameters: parameters(root, problems),
            processes: processes(root, problems),
            hooks: paths(root, "hooks", problems),
            install_with: root.section("hooks").and_then(|hooks| hooks.get("install_with")),
            metrics: metrics(root, problems),
            log: log(root, problems),
            private: private_folders::read(root, problems),
            operations: operations::read(root, problems),
            needs: root.section("needs").map(|needs| Needs::read(&needs)).unwrap_or_default(),
            actions: paths(root, "actions", problems),
            conditions: conditions(root, problems),
            audits: paths(root, "audits", problems),
        };
        if manifest.about.members.is_empty() {
            manifest.about.members = manifest.processes.first().map(|first| first.role.clone()).unwrap_or_default();
        }
        // Clients that run programs connect to the members' hosts, but to no port.
        if !manifest.operations.is_empty() && manifest.about.service.is_empty() {
            manifest.about.service.clone_from(&manifest.about.members);
        }
        members(root, &manifest, problems);
        install_with(root, &manifest, problems);
        service(root, &manifest, problems);
        folders(root, &manifest, problems);
        needs(root, problems);
        check_placeholders(root, &manifest, problems);
        manifest
    })
}

/// Checks that `members` is a role.
fn members(root: &Section<'_>, manifest: &Manifest, problems: &mut Vec<Problem>) {
    let Some(about) = root.section("about").filter(|about| about.has("members")) else { return };
    let roles = || manifest.processes.iter().map(|process| process.role.as_str());
    let members = &manifest.about.members;
    if !roles().any(|role| role == members) {
        let problem = Problem::absent(about.place("members"), format!("there is no process `{members}`"));
        problems.push(problem.expected("unknown role").maybe(nearest_hint(members, roles())));
    }
}

/// Checks that `install_with` names parameters.
fn install_with(root: &Section<'_>, manifest: &Manifest, problems: &mut Vec<Problem>) {
    let Some(hooks) = root.section("hooks") else { return };
    let known = || manifest.parameters.keys().map(String::as_str);
    for node in hooks.node("install_with").and_then(Node::list).unwrap_or_default() {
        let name = node.text().unwrap_or_default();
        if !known().any(|known| known == name) {
            let problem = Problem::absent(&node.place, format!("there is no parameter `{name}`"));
            problems.push(problem.expected("unknown parameter").maybe(nearest_hint(name, known())));
        }
    }
}

fn parameters(root: &Section<'_>, problems: &mut Vec<Problem>) -> BTreeMap<String, Parameter> {
    let mut parameters = BTreeMap::new();
    for entry in root.entries("parameters") {
        let Some(table) = entry.node.table() else { continue };
        if !is_parameter_name(&entry.key) {
            let problem = Problem::new(&entry.key_place, format!("a parameter cannot be called `{}`", entry.key));
            problems.push(
                problem
                    .expected("small letters, digits and `_`, a letter first")
                    .hint(format!("{} have another meaning in `run`", PLACEHOLDERS.join(", "))),
            );
        }
        let section = Section { table, keys: PARAMETER, place: &entry.node.place };
        if let Some(parameter) = parameter(&entry, &section, problems) {
            parameters.insert(entry.key.clone(), parameter);
        }
    }
    parameters
}

fn is_parameter_name(name: &str) -> bool {
    crate::template::is_slot_name(name) && !PLACEHOLDERS.contains(&name)
}

fn parameter(entry: &TableEntry, section: &Section<'_>, problems: &mut Vec<Problem>) -> Option<Parameter> {
    let kind = section.text("type")?;
    let bounded: &[&str] = &["integer", "number"];
    for (key, of) in [("of", &["choice"][..]), ("min", bounded), ("max", bounded), ("lab_time", &["duration"])] {
        if section.has(key) && !of.contains(&kind) {
            let types = join_words(&of.iter().map(|of| format!("\"{of}\"")).collect::<Vec<_>>(), "or");
            let problem = Problem::new(section.place(key), format!("`{key}` belongs to a parameter of type {types}"));
            problems.push(problem.expected("has no meaning here").related(section.place("type"), "another type"));
        }
    }
    let takes = match kind {
        "choice" => Takes::Choice { of: section.get("of").unwrap_or_default() },
        "integer" => Takes::Integer { min: section.get("min"), max: section.get("max") },
        "number" => Takes::Number { min: section.get("min"), max: section.get("max") },
        "boolean" => Takes::Boolean,
        "text" => Takes::Text,
        "duration" => Takes::Duration,
        _ => return None,
    };
    if matches!(&takes, Takes::Choice { of } if of.is_empty()) {
        let problem = Problem::absent(section.place("of"), format!("the choice `{}` has no values", entry.key));
        problems.push(problem.expected("`of` is missing or empty").hint("of = [\"one\", \"other\"]"));
        return None;
    }
    if let Takes::Integer { min: Some(min), max: Some(max) } | Takes::Number { min: Some(min), max: Some(max) } = takes
        && min > max
    {
        problems.push(Problem::new(section.place("max"), "no number is in this range").expected("below `min`"));
    }
    let default = section.node("default")?;
    let value = default.as_written()?;
    if let Some(what) = refusal(&takes, &value) {
        let problem = Problem::new(&default.place, format!("the default of `{}` cannot be {what}", entry.key));
        problems.push(problem.expected("not an allowed value"));
    }
    let (help, lab_time) = (section.get("help").unwrap_or_default(), section.boolean("lab_time"));
    Some(Parameter { takes, default: value, help, lab_time })
}

fn processes(root: &Section<'_>, problems: &mut Vec<Problem>) -> Vec<Process> {
    let sections = root.sections("process");
    let roles: Vec<&str> = sections.iter().filter_map(|section| section.text("role")).collect();
    let mut processes: Vec<Process> = Vec::new();
    for section in &sections {
        let process = Process::read(section);
        if processes.iter().any(|known| known.role == process.role) {
            let what = format!("two processes are called `{}`", process.role);
            problems.push(Problem::new(section.place("role"), what).expected("the second"));
        }
        // Processes start in file order, so `after` can only name an earlier process.
        if let Some(after) = section.text("after")
            && !processes.iter().any(|earlier| earlier.role == after)
        {
            let known = roles.contains(&after);
            let what = if known {
                format!("`{after}` is not started before this one")
            } else {
                format!("there is no process `{after}`")
            };
            let problem = Problem::absent(section.place("after"), what).expected("unknown role");
            let problem = if known {
                problem.expected("is later in the file")
            } else {
                problem.maybe(nearest_hint(after, roles.iter().copied()))
            };
            problems.push(problem);
        }
        problems.extend(no_program(section));
        processes.push(Process { ready: ready(section, &process.ports, problems), ..process });
    }
    processes
}

/// Returns the problem of a `run` that does not begin with a program. Arguments may be empty texts.
fn no_program(section: &Section<'_>) -> Option<Problem> {
    let run = section.node("run")?;
    let place = match run.list()? {
        [] => Some((&run.place, "an empty list")),
        [first, ..] => first.text().filter(|text| text.trim().is_empty()).map(|_| (&first.place, "an empty text")),
    };
    place.map(|(place, found)| Problem::new(place, "the program is missing").expected(found))
}

fn ready(process: &Section<'_>, ports: &[String], problems: &mut Vec<Problem>) -> Ready {
    let first = ports.first().cloned();
    let Some(section) = process.section("ready") else {
        if first.is_none() {
            let problem = Problem::absent(process.place, "this process has no condition for being ready");
            problems.push(
                problem
                    .expected("neither `ports` nor `ready`")
                    .hint("ready = { http = \"http://{host}:…\" }, for example"),
            );
        }
        return Ready { check: ReadyCheck::Tcp(first.unwrap_or_default()), ..Ready::default() };
    };
    let text = |key: &str| section.text(key).unwrap_or_default().to_owned();
    let given: Vec<&str> = ["call", "tcp", "http", "run"].into_iter().filter(|key| section.has(key)).collect();
    let check = match given.as_slice() {
        ["call"] => ReadyCheck::Call(text("call")),
        ["tcp"] => {
            let port = text("tcp");
            if !ports.contains(&port) {
                let problem = Problem::absent(section.place("tcp"), format!("this process has no port `{port}`"));
                problems.push(
                    problem.expected("unknown port").maybe(nearest_hint(&port, ports.iter().map(String::as_str))),
                );
            }
            ReadyCheck::Tcp(port)
        }
        [] => match first {
            Some(first) => ReadyCheck::Tcp(first),
            None => {
                let problem = Problem::absent(section.place, "this process has no condition for being ready");
                problems.push(problem.expected("none of `call`, `tcp`, `http`, `run`"));
                ReadyCheck::Tcp(String::new())
            }
        },
        ["run"] => {
            problems.extend(no_program(&section));
            ReadyCheck::Run(section.get("run").unwrap_or_default())
        }
        [_] => ReadyCheck::Http(text("http")),
        [first, second, ..] => {
            let problem = Problem::new(section.place(second), format!("`{first}` and `{second}` exclude each other"));
            problems.push(problem.expected("a second way to be ready").related(section.place(first), "a first way"));
            ReadyCheck::Tcp(String::new())
        }
    };
    Ready { check, ..Ready::read(&section) }
}

/// Reads a section whose keys are names and whose values are paths of programs.
fn paths(root: &Section<'_>, key: &str, problems: &mut Vec<Problem>) -> BTreeMap<String, String> {
    let mut paths = BTreeMap::new();
    for entry in root.entries(key) {
        let Some(path) = entry.node.text() else { continue };
        problems.extend(leads_out(&entry.node));
        paths.insert(entry.key.clone(), path.to_owned());
    }
    paths
}

fn conditions(root: &Section<'_>, problems: &mut Vec<Problem>) -> BTreeMap<String, Condition> {
    let mut conditions = BTreeMap::new();
    for entry in root.entries("conditions") {
        let condition = match (entry.node.table(), entry.node.text()) {
            (Some(table), _) => {
                problems.extend(table.get("run").and_then(leads_out));
                Condition::read(&Section { table, keys: CONDITION, place: &entry.node.place })
            }
            (None, Some(path)) => {
                problems.extend(leads_out(&entry.node));
                Condition { run: path.to_owned(), ..Condition::default() }
            }
            (None, None) => continue,
        };
        conditions.insert(entry.key.clone(), condition);
    }
    conditions
}

/// Returns the problem of a hook's path that leads out of the folder.
fn leads_out(node: &Node) -> Option<Problem> {
    let path = node.text()?;
    let leads_out = path.starts_with('/') || path.split('/').any(|part| part == "..");
    let problem = Problem::new(&node.place, "a hook is a file of the target's folder");
    leads_out.then(|| problem.expected("leads out of the folder"))
}

fn metrics(root: &Section<'_>, problems: &mut Vec<Problem>) -> Option<Metrics> {
    let section = root.section("metrics")?;
    let metrics = Metrics::read(&section);
    if section.has("url") && !metrics.url.starts_with("http://") {
        let problem = Problem::new(section.place("url"), "metrics are read over http only");
        problems.push(problem.expected("not http://").hint("url = \"http://{host}:{port.NAME}/metrics\""));
    }
    check_kept(&section, &metrics, problems);
    for node in section.node("counters").and_then(Node::list).unwrap_or_default() {
        let name = node.text().unwrap_or_default();
        if !metrics.keep.contains_key(name) {
            let problem = Problem::absent(&node.place, format!("`keep` does not name `{name}`"));
            let known = metrics.keep.keys().map(String::as_str);
            problems.push(problem.expected("not recorded").maybe(nearest_hint(name, known)));
        }
    }
    Some(metrics)
}

/// Checks the form of `keep`, which depends on the metrics' format, its names and its pointers.
fn check_kept(section: &Section<'_>, metrics: &Metrics, problems: &mut Vec<Problem>) {
    let Some(keep) = section.node("keep") else { return };
    let (list, table) = (keep.list(), keep.table());
    if list.is_none() && table.is_none() {
        return;
    }
    if metrics.keep.is_empty() {
        let problem = Problem::new(&keep.place, "none of the metrics is recorded");
        problems.push(problem.expected("empty").hint("leave out [metrics], or name some"));
    }
    if metrics.keep.len() > KEPT_MAX {
        let problem = Problem::new(&keep.place, format!("these are {} metrics", metrics.keep.len()));
        let problem = problem.expected(format!("at most {KEPT_MAX}"));
        problems.push(problem.hint("each has a row for each host and second, and a chart for each trial"));
    }
    match metrics.kind {
        MetricsFormat::Json if list.is_some() => {
            let problem = Problem::new(&keep.place, "these metrics have no JSON pointers");
            let problem = problem.expected("a list of names");
            problems.push(problem.hint("write [metrics.keep] with a line for each: queue_length = \"/queue/length\""));
        }
        MetricsFormat::Prometheus if table.is_some() => {
            let problem = Problem::new(&keep.place, "Prometheus' text format has names and no pointers");
            let problem = problem.expected("a table");
            problems
                .push(problem.hint("write keep = [\"queue_length\"], or kind = \"json\" if a document is answered"));
        }
        _ => {}
    }
    for node in list.unwrap_or_default() {
        problems.extend(metric_name(node.text().unwrap_or_default(), &node.place));
    }
    for entry in table.iter().flat_map(|table| &table.entries) {
        problems.extend(metric_name(&entry.key, &entry.key_place));
        if let Some(Err(error)) = entry.node.text().map(Pointer::parse) {
            let problem = Problem::new(&entry.node.inside(error.at), error.what);
            problems.push(
                problem.expected("not a JSON pointer").hint("such as \"/queue/length\", or \"/queues/*/length\""),
            );
        }
    }
}

/// Returns the problem of an invalid metric name.
fn metric_name(name: &str, place: &TextSpan) -> Option<Problem> {
    let is_name = !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':'));
    let problem = Problem::new(place, format!("`{name}` is not a metric's name"));
    (!is_name).then(|| problem.expected("letters, digits, `_` and `:`, without labels"))
}

fn log(root: &Section<'_>, problems: &mut Vec<Problem>) -> LogTexts {
    let Some(section) = root.section("log") else { return LogTexts::default() };
    if !LOG.iter().any(|key| section.has(key.name)) {
        let problem =
            Problem::absent(section.place, "[log] names no text").expected("neither `notable` nor `alarming`");
        problems.push(problem.hint("notable = [\"cannot\"], for example"));
    }
    let given = LOG.iter().filter_map(|key| section.node(key.name)?.list()).flatten();
    for node in given.filter(|node| node.text().is_some_and(|text| text.trim().is_empty())) {
        let problem = Problem::new(&node.place, "every line contains the empty text").expected("an empty text");
        problems.push(problem.hint("give words that only the lines of interest contain"));
    }
    LogTexts::read(&section)
}

/// Checks that `service = "role.port"` names a port of a process.
fn service(root: &Section<'_>, manifest: &Manifest, problems: &mut Vec<Problem>) {
    let Some(about) = root.section("about") else { return };
    let Some(service) = about.text("service") else {
        for process in root.sections("process") {
            if let Some(call) = process.section("ready").and_then(|ready| ready.node("call")) {
                let problem = Problem::absent(&call.place, "this target has no service to call");
                problems.push(problem.expected("`about` has no `service`").hint("ready = { run = [\"hooks/ready\"] }"));
            }
        }
        return;
    };
    let known: Vec<String> = manifest
        .processes
        .iter()
        .flat_map(|process| process.ports.iter().map(move |port| format!("{}.{port}", process.role)))
        .collect();
    if !known.iter().any(|known| known == service) {
        let problem = Problem::absent(about.place("service"), format!("no process has the port `{service}`"));
        let hint = nearest_hint(service, known.iter().map(String::as_str));
        problems
            .push(problem.expected("\"role.port\"").hint(hint.unwrap_or_else(|| "no process has `ports`".to_owned())));
    }
}

/// Checks that the names in `[needs] sysctl` have the form of kernel settings.
fn needs(root: &Section<'_>, problems: &mut Vec<Problem>) {
    let is_name =
        |name: &str| name.contains('.') && name.split('.').all(|part| !part.is_empty()) && !name.contains(['/', ' ']);
    for entry in root.section("needs").iter().flat_map(|needs| needs.entries("sysctl")) {
        if !is_name(&entry.key) {
            let problem = Problem::new(&entry.key_place, format!("`{}` is not a setting of the kernel", entry.key));
            problems.push(problem.expected("as sysctl names it").hint("\"vm.max_map_count\" = 262144, in quotes"));
        }
    }
}

/// Checks that `folders` has valid folder names and known tiers.
fn folders(root: &Section<'_>, manifest: &Manifest, problems: &mut Vec<Problem>) {
    for entry in root.sections("process").iter().flat_map(|process| process.entries("folders")) {
        if !crate::template::is_slot_name(&entry.key) {
            let problem = Problem::new(&entry.key_place, format!("a folder cannot be called `{}`", entry.key));
            problems.push(problem.expected("small letters, digits and `_`, a letter first"));
        }
        let refused = entry.node.text().and_then(|tier| tier::refuse_in_manifest(tier, manifest, &entry.node.place));
        problems.extend(refused);
    }
}

/// Placeholders that every target has, in addition to `{port.NAME}`, `{host.ROLE}`, `{hosts.ROLE}`
/// and `{PARAMETER}`.
const PLACEHOLDERS: [&str; 12] =
    ["cores", "data", "first", "host", "hosts", "index", "memory_mb", "name", "names", "peers", "plimsoll", "target"];

/// Checks every text of the manifest that may contain placeholders.
fn check_placeholders(root: &Section<'_>, manifest: &Manifest, problems: &mut Vec<Problem>) {
    let mut known: Vec<String> = PLACEHOLDERS.iter().map(|own| (*own).to_owned()).collect();
    for process in &manifest.processes {
        let role = &process.role;
        known.extend(process.ports.iter().flat_map(|port| [format!("port.{port}"), format!("port.{role}.{port}")]));
        known.extend([format!("host.{role}"), format!("hosts.{role}")]);
    }
    known.extend(manifest.parameters.keys().cloned());
    let parameters: Vec<String> = manifest.parameters.keys().cloned().collect();
    for process in root.sections("process") {
        let folders = process.entries("folders").into_iter().map(|folder| format!("folder.{}", folder.key));
        let known: Vec<String> = folders.chain(known.iter().cloned()).collect();
        for node in process.node("run").and_then(Node::list).unwrap_or_default() {
            check_text(node, &known, problems);
        }
        for entry in process.entries("env") {
            check_text(&entry.node, &known, problems);
        }
        if let Some(ready) = process.section("ready") {
            let run = ready.node("run").and_then(Node::list).unwrap_or_default();
            ready.node("http").into_iter().chain(run).for_each(|node| check_text(node, &known, problems));
        }
        if let Some(user) = process.node("user") {
            check_text(user, &parameters, problems);
        }
    }
    if let Some(url) = root.section("metrics").and_then(|metrics| metrics.node("url")) {
        check_text(url, &known, problems);
    }
    operations::check(root, manifest, &known, problems);
    if let Some(protocol) = root.section("about").and_then(|about| about.node("protocol")) {
        check_text(protocol, &parameters, problems);
    }
}

/// Checks the placeholders of a text. `{{` and `}}` are literal braces.
fn check_text(node: &Node, known: &[String], problems: &mut Vec<Problem>) {
    let Some(text) = node.text() else { return };
    let mut rest = 0;
    while let Some(open) = text[rest..].find(['{', '}']).map(|found| rest + found) {
        let brace = &text[open..=open];
        rest = open + 1;
        if text[rest..].starts_with(brace) {
            rest += 1;
            continue;
        }
        let Some(length) = text[rest..].find('}').filter(|_| brace == "{") else {
            let problem = Problem::new(&node.inside(open..open + 1), "this brace is unmatched");
            problems.push(problem.expected("alone").hint("write a literal brace twice: `{{`, `}}`"));
            return;
        };
        let word = &text[rest..rest + length];
        if !known.iter().any(|known| known == word) {
            let problem =
                Problem::absent(&node.inside(rest..rest + length), format!("there is no placeholder {{{word}}}"));
            let hint =
                nearest_name(word, known.iter().map(String::as_str)).map(|near| format!("did you mean {{{near}}}?"));
            problems.push(problem.expected("unknown placeholder").hint(
                hint.unwrap_or_else(|| {
                    format!("the placeholders are {}; write a literal brace twice", known.join(", "))
                }),
            ));
        }
        rest += length + 1;
    }
}

/// Returns the text if `takes` does not allow it, in quotes unless it is a number.
pub(crate) fn refusal(takes: &Takes, text: &str) -> Option<String> {
    let fits = match takes {
        Takes::Choice { of } => of.iter().any(|choice| choice == text),
        Takes::Integer { min, max } => text
            .parse::<i64>()
            .is_ok_and(|number| min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max)),
        Takes::Number { min, max } => text.parse::<f64>().is_ok_and(|number| {
            number.is_finite()
                && min.is_none_or(|min| number >= min as f64)
                && max.is_none_or(|max| number <= max as f64)
        }),
        Takes::Boolean => matches!(text, "true" | "false"),
        Takes::Text => true,
        Takes::Duration => duration::parse_s(text).is_ok(),
    };
    (!fits).then(|| if text.parse::<f64>().is_ok() { text.to_owned() } else { format!("\"{text}\"") })
}

#[cfg(test)]
mod tests;
