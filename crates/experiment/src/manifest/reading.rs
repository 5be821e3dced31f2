//! A `target.toml` into a manifest: parsed, with every default filled in, and everything that is wrong at once.
//! Whether its files and programs exist is the lab's question.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::keys::target::TARGET;
use crate::manifest::placeholders;
use crate::manifest::{About, LogTexts, Manifest, Metrics, Parameter, Process, Ready, ReadyCheck, Stop, Takes};
use crate::nearest;
use crate::plan::target::refusal;
use crate::problem::{Problem, Problems};
use crate::section::Section;
use crate::shape::{Mode, Shape};
use crate::source::Source;
use crate::syntax;
use crate::tree::{Entry, Node, Place};

/// Reads the manifest of the target folder `name`.
///
/// # Errors
/// Everything that is wrong with the file.
pub fn parse(name: &str, source: &Source) -> Result<Manifest, Problems> {
    let file = Arc::new(source.clone());
    let (table, mut problems) = syntax::parse(&file);
    let syntax_is_broken = !problems.is_empty();
    let start = Place::new(&file, 0, 0..0);
    Shape { root: TARGET, mode: Mode::Whole, problems: &mut problems }.table("", TARGET, &table, &start);
    let root = Section { table: &table, keys: TARGET, place: &start };
    let manifest = Manifest {
        name: name.to_owned(),
        about: about(&root),
        parameters: parameters(&root, &mut problems),
        processes: processes(&root, &mut problems),
        hooks: hooks(&root, &mut problems),
        install_with: root
            .section("hooks")
            .filter(|hooks| hooks.has("install_with"))
            .map(|hooks| texts(&hooks, "install_with")),
        metrics: metrics(&root, &mut problems),
        log: log(&root, &mut problems),
    };
    members(&root, &manifest, &mut problems);
    install_with(&root, &manifest, &mut problems);
    service(&root, &manifest, &mut problems);
    placeholders::check(&root, &manifest, &mut problems);
    if problems.is_empty() { Ok(manifest) } else { Err(Problems::new(problems, syntax_is_broken)) }
}

/// A text; empty where there is none, which has been reported.
fn text(section: &Section<'_>, key: &str) -> String {
    section.text(key).unwrap_or_default().to_owned()
}

fn texts(section: &Section<'_>, key: &str) -> Vec<String> {
    let list = section.node(key).and_then(Node::list).unwrap_or_default();
    list.iter().filter_map(Node::text).map(ToOwned::to_owned).collect()
}

fn about(root: &Section<'_>) -> About {
    let empty = Section { table: &crate::tree::Table::default(), ..*root };
    let about = root.section("about").unwrap_or(empty);
    let serving = about.text("service").and_then(|service| service.split('.').next());
    let members = about.text("members").or(serving).unwrap_or_default();
    About {
        what: text(&about, "what"),
        version: text(&about, "version"),
        licence: text(&about, "licence"),
        article: about.text("article").map(ToOwned::to_owned),
        protocol: text(&about, "protocol"),
        service: text(&about, "service"),
        members: members.to_owned(),
    }
}

/// `members` has to be a role.
fn members(root: &Section<'_>, manifest: &Manifest, problems: &mut Vec<Problem>) {
    let Some(about) = root.section("about").filter(|about| about.has("members")) else { return };
    let roles = || manifest.processes.iter().map(|process| process.role.as_str());
    let members = &manifest.about.members;
    if !roles().any(|role| role == members) {
        let problem = Problem::absent(about.place("members"), format!("there is no process `{members}`"));
        problems.push(problem.expected("unknown role").maybe(nearest::hint(members, roles())));
    }
}

/// `install_with` has to name parameters.
fn install_with(root: &Section<'_>, manifest: &Manifest, problems: &mut Vec<Problem>) {
    let Some(hooks) = root.section("hooks") else { return };
    let known = || manifest.parameters.keys().map(String::as_str);
    for node in hooks.node("install_with").and_then(Node::list).unwrap_or_default() {
        let name = node.text().unwrap_or_default();
        if !known().any(|known| known == name) {
            let problem = Problem::absent(&node.place, format!("there is no parameter `{name}`"));
            problems.push(problem.expected("unknown parameter").maybe(nearest::hint(name, known())));
        }
    }
}

fn parameters(root: &Section<'_>, problems: &mut Vec<Problem>) -> BTreeMap<String, Parameter> {
    let mut parameters = BTreeMap::new();
    let keys = crate::keys::find(TARGET, "parameters").map(|key| key.kind.below()).unwrap_or_default();
    for entry in root.entries("parameters") {
        let Some(table) = entry.node.table() else { continue };
        if !is_parameter_name(&entry.key) {
            let problem = Problem::new(&entry.key_place, format!("a parameter cannot be called `{}`", entry.key));
            problems.push(
                problem
                    .expected("small letters, digits and `_`, a letter first")
                    .hint(format!("{} stand for other things in `run`", placeholders::OWN.join(", "))),
            );
        }
        let section = Section { table, keys, place: &entry.node.place };
        if let Some(parameter) = parameter(&entry, &section, problems) {
            parameters.insert(entry.key.clone(), parameter);
        }
    }
    parameters
}

fn is_parameter_name(name: &str) -> bool {
    crate::template::is_slot_name(name) && !placeholders::OWN.contains(&name)
}

fn parameter(entry: &Entry, section: &Section<'_>, problems: &mut Vec<Problem>) -> Option<Parameter> {
    let kind = section.text("type")?;
    for (key, of) in [("of", "choice"), ("min", "integer"), ("max", "integer")] {
        if section.has(key) && kind != of {
            let problem = Problem::new(section.place(key), format!("`{key}` belongs to a parameter of type \"{of}\""));
            problems.push(problem.expected("has no meaning here").related(section.place("type"), "another type"));
        }
    }
    let takes = match kind {
        "choice" => Takes::Choice { of: texts(section, "of") },
        "integer" => Takes::Integer { min: section.whole("min"), max: section.whole("max") },
        "boolean" => Takes::Boolean,
        "text" => Takes::Text,
        "duration" => Takes::Duration,
        _ => return None,
    };
    if matches!(&takes, Takes::Choice { of } if of.is_empty()) {
        let problem =
            Problem::absent(section.place("of"), format!("the choice `{}` has nothing to choose from", entry.key));
        problems.push(problem.expected("`of` is missing or empty").hint("of = [\"one\", \"other\"]"));
        return None;
    }
    if matches!(takes, Takes::Integer { min: Some(min), max: Some(max) } if min > max) {
        problems.push(Problem::new(section.place("max"), "no number is in this range").expected("below `min`"));
    }
    let default = section.node("default")?;
    let value = default.as_written()?;
    if let Some(what) = refusal(&takes, &value) {
        let problem = Problem::new(&default.place, format!("the default of `{}` cannot be {what}", entry.key));
        problems.push(problem.expected("not a value it takes"));
    }
    Some(Parameter { takes, default: value, help: text(section, "help") })
}

fn processes(root: &Section<'_>, problems: &mut Vec<Problem>) -> Vec<Process> {
    let sections = root.sections("process");
    let roles: Vec<&str> = sections.iter().filter_map(|section| section.text("role")).collect();
    let mut processes: Vec<Process> = Vec::new();
    for section in &sections {
        if processes.iter().any(|known| Some(known.role.as_str()) == section.text("role")) {
            let what = format!("two processes are called `{}`", text(section, "role"));
            problems.push(Problem::new(section.place("role"), what).expected("the second"));
        }
        // One can only wait for what is started before: the file's order is the order of starting.
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
                problem.expected("stands later in the file")
            } else {
                problem.maybe(nearest::hint(after, roles.iter().copied()))
            };
            problems.push(problem);
        }
        let run = texts(section, "run");
        if section.has("run") && run.is_empty() {
            problems.push(Problem::new(section.place("run"), "there is no program to run").expected("an empty list"));
        }
        let env =
            section.entries("env").into_iter().filter_map(|entry| Some((entry.key, entry.node.text()?.to_owned())));
        processes.push(Process {
            role: text(section, "role"),
            run,
            env: env.collect(),
            ports: texts(section, "ports"),
            data: section.boolean("data"),
            after: section.text("after").map(ToOwned::to_owned),
            ready: ready(section, problems),
            stop: stop(section),
        });
    }
    processes
}

fn ready(process: &Section<'_>, problems: &mut Vec<Problem>) -> Ready {
    let ports = texts(process, "ports");
    let first = ports.first().cloned();
    let Some(section) = process.section("ready") else {
        if first.is_none() {
            let problem = Problem::absent(process.place, "nothing tells when this process is ready");
            problems.push(
                problem
                    .expected("neither `ports` nor `ready`")
                    .hint("ready = { http = \"http://{host}:…\" }, for example"),
            );
        }
        return Ready { check: ReadyCheck::Tcp(first.unwrap_or_default()), within_s: WITHIN_S };
    };
    let within_s = section.seconds("within").unwrap_or(WITHIN_S);
    let given: Vec<&str> = ["call", "tcp", "http"].into_iter().filter(|key| section.has(key)).collect();
    let check = match given.as_slice() {
        ["call"] => ReadyCheck::Call(text(&section, "call")),
        ["tcp"] => {
            let port = text(&section, "tcp");
            if !ports.contains(&port) {
                let problem = Problem::absent(section.place("tcp"), format!("this process has no port `{port}`"));
                problems.push(
                    problem.expected("unknown port").maybe(nearest::hint(&port, ports.iter().map(String::as_str))),
                );
            }
            ReadyCheck::Tcp(port)
        }
        [] => match first {
            Some(first) => ReadyCheck::Tcp(first),
            None => {
                let problem = Problem::absent(section.place, "nothing tells when this process is ready");
                problems.push(problem.expected("none of `call`, `tcp`, `http`"));
                ReadyCheck::Tcp(String::new())
            }
        },
        [_] => ReadyCheck::Http(text(&section, "http")),
        [first, second, ..] => {
            let problem = Problem::new(section.place(second), format!("`{first}` and `{second}` exclude each other"));
            problems.push(problem.expected("a second way to be ready").related(section.place(first), "a first way"));
            ReadyCheck::Tcp(String::new())
        }
    };
    Ready { check, within_s }
}

/// As in the table of keys; for a process without `ready`.
const WITHIN_S: f64 = 30.0;

fn stop(process: &Section<'_>) -> Stop {
    match process.section("stop") {
        Some(stop) => Stop { signal: text(&stop, "signal"), within_s: stop.seconds("within").unwrap_or(0.0) },
        None => Stop { signal: "TERM".to_owned(), within_s: 5.0 },
    }
}

fn hooks(root: &Section<'_>, problems: &mut Vec<Problem>) -> BTreeMap<String, String> {
    let mut hooks = BTreeMap::new();
    for entry in root.entries("hooks") {
        let Some(path) = entry.node.text() else { continue };
        if path.starts_with('/') || path.split('/').any(|part| part == "..") {
            let problem = Problem::new(&entry.node.place, "a hook is a file of the target's folder");
            problems.push(problem.expected("leads out of the folder"));
        }
        hooks.insert(entry.key.clone(), path.to_owned());
    }
    hooks
}

fn metrics(root: &Section<'_>, problems: &mut Vec<Problem>) -> Option<Metrics> {
    let section = root.section("metrics")?;
    let url = text(&section, "url");
    if section.has("url") && !url.starts_with("http://") {
        let problem = Problem::new(section.place("url"), "metrics are asked for by http only");
        problems.push(problem.expected("not http://").hint("url = \"http://{host}:{port.NAME}/metrics\""));
    }
    let names = section.node("keep").and_then(Node::list).unwrap_or_default();
    if section.has("keep") && names.is_empty() {
        let problem = Problem::new(section.place("keep"), "none of the metrics is recorded");
        problems.push(problem.expected("an empty list").hint("leave out [metrics], or name some"));
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    for node in names {
        let name = node.text().unwrap_or_default();
        if name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() || !name.chars().all(is_part) {
            let problem = Problem::new(&node.place, format!("`{name}` is not a metric's name"));
            problems.push(problem.expected("letters, digits, `_` and `:`, without labels"));
        }
    }
    Some(Metrics { url, keep: texts(&section, "keep") })
}

fn log(root: &Section<'_>, problems: &mut Vec<Problem>) -> LogTexts {
    let Some(section) = root.section("log") else { return LogTexts::default() };
    let keys = ["notable", "alarming"];
    if !keys.iter().any(|key| section.has(key)) {
        let problem =
            Problem::absent(section.place, "[log] names no text").expected("neither `notable` nor `alarming`");
        problems.push(problem.hint("notable = [\"cannot\"], for example"));
    }
    let given = keys.iter().filter_map(|key| section.node(key)?.list()).flatten();
    for node in given.filter(|node| node.text().is_some_and(|text| text.trim().is_empty())) {
        let problem = Problem::new(&node.place, "this text is in every line").expected("an empty text");
        problems.push(problem.hint("name some words that only a line has which matters"));
    }
    LogTexts { notable: texts(&section, "notable"), alarming: texts(&section, "alarming") }
}

/// `service = "role.port"` names a port of a process.
fn service(root: &Section<'_>, manifest: &Manifest, problems: &mut Vec<Problem>) {
    let Some(about) = root.section("about") else { return };
    let Some(service) = about.text("service") else { return };
    let known: Vec<String> = manifest
        .processes
        .iter()
        .flat_map(|process| process.ports.iter().map(move |port| format!("{}.{port}", process.role)))
        .collect();
    if !known.iter().any(|known| known == service) {
        let problem = Problem::absent(about.place("service"), format!("no process has the port `{service}`"));
        let hint = nearest::hint(service, known.iter().map(String::as_str));
        problems
            .push(problem.expected("\"role.port\"").hint(hint.unwrap_or_else(|| "no process has `ports`".to_owned())));
    }
}
