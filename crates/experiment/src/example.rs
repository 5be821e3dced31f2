//! Generator of commented example experiments, for a URL, for the calls that a target describes, or
//! for a target folder. The file is valid without changes.

use crate::authority;
use crate::catalog::{Catalog, Effect, Heals, Operation, Protocol};
use crate::manifest::{Manifest, Takes};
use crate::plan::target::parse_url;
use crate::problem::nearest_hint;

/// Subject of the example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Example {
    /// URL of a running target.
    Url(String),
    /// Calls of a running target.
    Calls {
        /// URL of the target, without a path.
        url: String,
        /// Files that describe the calls, if the target does not.
        proto: Vec<String>,
        /// Settings for TLS, as an inline table.
        tls: Option<String>,
        calls: Vec<DescribedCall>,
    },
    /// A target folder, by name.
    Target(String),
}

/// A call that a target or a file describes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DescribedCall {
    pub operation: &'static str,
    /// Name of the step.
    pub name: String,
    /// Names and templates of the arguments.
    pub arguments: Vec<(&'static str, String)>,
    /// Reason why the call is not an ordinary step, such as `answers with a stream of messages`.
    pub special: Option<&'static str>,
}

/// Reason why there is no example.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExampleError {
    /// No such target folder.
    #[error("there is no target `{name}`{}", suffix(.hint))]
    NoTarget {
        /// The requested name.
        name: String,
        /// The nearest name.
        hint: Option<String>,
    },
    /// The text is not a URL.
    #[error("`{url}` is not a URL: {why}")]
    NotAUrl {
        /// The requested URL.
        url: String,
        /// The problem of the URL.
        why: &'static str,
    },
    /// No protocol has this name.
    #[error("no protocol is called `{name}`{}", suffix(.hint))]
    NoProtocol {
        /// Scheme of the URL, or the target's protocol.
        name: String,
        /// The nearest name.
        hint: Option<String>,
    },
}

fn suffix(hint: &Option<String>) -> String {
    hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default()
}

/// Generates the example experiment.
///
/// # Errors
/// The catalog has no such target, or no protocol for the URL.
pub fn example(for_what: &Example, catalog: &Catalog) -> Result<String, ExampleError> {
    let text = match for_what {
        Example::Url(url) => for_url(url, None, catalog, load),
        Example::Calls { url, tls, proto, calls } => for_url(url, tls.as_deref(), catalog, |_, _| {
            [LOAD.to_owned(), proto_files(proto), described_steps(calls)].concat()
        }),
        Example::Target(name) => for_target(name, catalog),
    };
    Ok(format!("{SCHEMA}{}", text?))
}

/// Reference to the JSON Schema in the form that the language server Taplo reads: a path relative
/// to the file, in the first comment.
const SCHEMA: &str = "#:schema ./experiment.schema.json\n\
    # With this schema an editor completes and checks the file (VS Code: Even Better TOML). To make it:\n\
    # plimsoll schema experiment > experiment.schema.json\n\n";

/// Returns the example for a URL. `tls` is the inline table of that name, and `load` returns the
/// text of the load for a protocol and the URL's path.
fn for_url(
    url: &str,
    tls: Option<&str>,
    catalog: &Catalog,
    load: impl FnOnce(&Protocol, &str) -> String,
) -> Result<String, ExampleError> {
    let scheme = parse_url(url).map_err(|why| ExampleError::NotAUrl { url: url.to_owned(), why })?;
    let found = catalog.protocols.iter().find(|protocol| protocol.schemes.contains(&scheme));
    let protocol = found.ok_or_else(|| {
        let schemes = catalog.protocols.iter().flat_map(|protocol| protocol.schemes).copied();
        let hint = authority::way_round(scheme).map(str::to_owned).or_else(|| nearest_hint(scheme, schemes));
        ExampleError::NoProtocol { name: scheme.to_owned(), hint }
    })?;
    let path = url.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..])).unwrap_or("/");
    Ok([
        "title = \"Is it fast enough?\"\n\
         asks  = \"How many requests per second, and how fast are they answered?\"\n\
         # repeat = 3                  # trials of each point, to see how much they differ\n\n\
         [target]\n"
            .to_owned(),
        format!("url = {}\n", text::toml_string(url)),
        tls.map_or_else(String::new, |tls| format!("tls = {tls}\n")),
        "# start = \"docker compose up\"  # command that starts the target; without it, it must already run\n\
         # ready = \"http://localhost:8080/health\"   # URL that must answer 2xx before the load starts\n"
            .to_owned(),
        load(protocol, path),
        "\n# A gate: if it does not hold, `plimsoll run` exits with 5.\n[[require]]\nmetric = \"latency_us.p99\"\nbelow  = \"50ms\"\n"
            .to_owned(),
        SWEEP.to_owned(),
    ]
    .concat())
}

fn for_target(name: &str, catalog: &Catalog) -> Result<String, ExampleError> {
    let manifest = catalog.targets.get(name).ok_or_else(|| ExampleError::NoTarget {
        name: name.to_owned(),
        hint: nearest_hint(name, catalog.targets.keys().map(String::as_str)),
    })?;
    let mut spoken = manifest.about.protocol.clone();
    for (name, parameter) in &manifest.parameters {
        spoken = spoken.replace(&format!("{{{name}}}"), &parameter.default);
    }
    let protocol = catalog.protocols.iter().find(|protocol| protocol.name == spoken).ok_or_else(|| {
        let known = catalog.protocols.iter().map(|protocol| protocol.name);
        ExampleError::NoProtocol { name: spoken.clone(), hint: nearest_hint(&spoken, known) }
    })?;
    Ok([
        format!("# {}\n\n", one_line(&manifest.about.what)),
        format!("title = {}\n", text::toml_string(&format!("How much does {name} carry?"))),
        "asks  = \"How many operations per second, how fast, and what happens when a member is killed?\"\n\
         # repeat = 3                  # trials of each point, interleaved\n\n\
         [target]\n"
            .to_owned(),
        format!("use = {}\n", text::toml_string(name)),
        parameters(manifest),
        load(protocol, "/"),
        fault(catalog),
        REQUIRE.to_owned(),
        SWEEP.to_owned(),
    ]
    .concat())
}

/// Lists every parameter with its default, as TOML comments.
fn parameters(manifest: &Manifest) -> String {
    if manifest.parameters.is_empty() {
        return String::new();
    }
    let mut text = "\n# Parameters, each with its default:\n# [target.with]\n".to_owned();
    for (name, parameter) in &manifest.parameters {
        let value = match parameter.takes {
            Takes::Integer { .. } | Takes::Number { .. } | Takes::Boolean => parameter.default.clone(),
            Takes::Choice { .. } | Takes::Text | Takes::Duration => text::toml_string(&parameter.default),
        };
        let choices = match &parameter.takes {
            Takes::Choice { of } => format!("{}: ", of.join(" | ")),
            _ => String::new(),
        };
        text.push_str(&format!("# {name} = {value}   # {choices}{}\n", one_line(&parameter.help)));
    }
    text
}

const LOAD: &str = "\n[load]\n\
        agents = 64                   # virtual users; each does the next operation when the last is answered\n\
        ramp   = \"2s\"                 # time over which they start\n\
        time   = \"30s\"                # in total, ramp included\n\
        # rate  = 5000                # operations/s on a schedule, independent of the answers: open loop\n\
        # think = \"10ms\"              # an agent's pause between operations\n\
        # retry = { tries = 3, wait = \"50ms\" }\n";

fn load(protocol: &Protocol, path: &str) -> String {
    let mut text = LOAD.to_owned();
    let named = |name: &str| protocol.operations.iter().find(|operation| operation.name == name);
    let by_effect = |effect: Effect| protocol.operations.iter().find(|operation| operation.effect == effect);
    match (by_effect(Effect::Write), by_effect(Effect::Read)) {
        (Some(write), Some(read)) if takes(write, "value") && answers(read, "value") => {
            text.push_str(&step(write, path, "keep   = { saved = \"request.value\" }\n"));
            text.push_str("\n# Read it back; an answer that contradicts what was written counts as `wrong`.");
            text.push_str(&step(read, path, "expect = { value = \"{saved}\" }\n"));
            if let Some(remove) = by_effect(Effect::Remove) {
                text.push_str(&step(remove, path, ""));
            }
        }
        _ => {
            let operation = named("get").or_else(|| protocol.operations.first());
            let expect = operation.filter(|operation| protocol.name == "http" && answers(operation, "status"));
            let rest = expect.map_or("", |_| "expect = { status = \"200\" }   # another status counts as `wrong`\n");
            text.push_str(&operation.map(|operation| step(operation, path, rest)).unwrap_or_default());
        }
    }
    text
}

fn takes(operation: &Operation, name: &str) -> bool {
    operation.takes.iter().any(|field| field.name == name)
}

fn answers(operation: &Operation, name: &str) -> bool {
    operation.answers.iter().any(|field| field.name == name)
}

/// Returns a `[[load.cycle]]` that calls `operation` with a value for each required argument.
fn step(operation: &Operation, path: &str, rest: &str) -> String {
    let has_space = operation.takes.iter().any(|field| field.required && field.name == "space");
    let argument = |name: &str| match name {
        "path" => path.replace('{', "{{").replace('}', "}}"),
        "space" => "agent-{agent}".to_owned(),
        "key" if has_space => "name-{seq}".to_owned(),
        // A value from another agent under the same key would contradict this agent's expectation.
        "key" => "name-{agent}-{seq}".to_owned(),
        "line" => "hello".to_owned(),
        _ => "{bytes:100}".to_owned(),
    };
    let required = operation.takes.iter().filter(|field| field.required);
    let with: Vec<String> =
        required.map(|field| format!("{} = {}", field.name, text::toml_string(&argument(field.name)))).collect();
    let with = if with.is_empty() { String::new() } else { format!("with   = {{ {} }}\n", with.join(", ")) };
    format!("\n[[load.cycle]]\ncall   = \"{}\"\n{with}{rest}", operation.name)
}

fn proto_files(proto: &[String]) -> String {
    let files: Vec<String> = proto.iter().map(|file| text::toml_string(file)).collect();
    if files.is_empty() { String::new() } else { format!("proto  = [{}]\n", files.join(", ")) }
}

/// Returns a `[[load.cycle]]` for each call. Special calls are comments, unless all calls are
/// special: then the first one is a step.
fn described_steps(calls: &[DescribedCall]) -> String {
    let only = if calls.iter().all(|call| call.special.is_some()) { calls.first() } else { None };
    let mut steps = String::new();
    for call in calls {
        let step = described_step(call);
        let is_step = call.special.is_none() || only == Some(call);
        match call.special {
            Some(special) => steps.push_str(&format!("\n# `{}` {special}.\n", call.name)),
            None => steps.push('\n'),
        }
        for line in step.lines() {
            let mark = if is_step { "" } else { "# " };
            steps.push_str(&format!("{mark}{line}\n"));
        }
    }
    steps
}

fn described_step(call: &DescribedCall) -> String {
    let arguments: Vec<String> =
        call.arguments.iter().map(|(name, value)| format!("{name} = {}", literal(value))).collect();
    format!(
        "[[load.cycle]]\nname = {}\ncall = {}\nwith = {{ {} }}\n",
        text::toml_string(&call.name),
        text::toml_string(call.operation),
        arguments.join(", ")
    )
}

/// Formats a text without escapes if possible.
fn literal(value: &str) -> String {
    let is_plain = value.contains('"') && !value.chars().any(|one| one == '\'' || one.is_control() && one != '\n');
    match is_plain {
        true if value.contains('\n') => format!("'''\n{value}'''"),
        true => format!("'{value}'"),
        false => text::toml_string(value),
    }
}

/// Returns a `[[fault]]` that kills a process and restarts it, or nothing if the catalog has no
/// such fault.
fn fault(catalog: &Catalog) -> String {
    let kill = catalog.faults.iter().find(|fault| fault.name == "kill" && fault.heals == Heals::AfterFor);
    let Some(kill) = kill else { return String::new() };
    format!(
        "\n[[fault]]\n\
         name = \"killed\"               # in results: faults.killed.outage.failed\n\
         kind = \"{}\"                 # `plimsoll faults` lists the kinds\n\
         on   = \"one\"                  # one of the members\n\
         at   = \"15s\"                  # after load start\n\
         for  = \"2s\"                   # then it is healed\n",
        kill.name
    )
}

const REQUIRE: &str = "\n# A gate: if it does not hold, `plimsoll run` exits with 5.\n\
    # [[require]]\n\
    # metric = \"faults.killed.outage.back_to_baseline_s\"\n\
    # below  = 5\n";

const SWEEP: &str = "\n# The same for a list of values of any line above:\n\
    # [sweep]\n\
    # \"load.agents\" = [1, 2, 4, 8, 16, 32, 64, 128]\n";

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{Example, example};
    use crate::catalog::Catalog;

    #[test]
    fn unknown_targets_and_protocols_are_reported() {
        let catalog = Catalog::default();
        let told = |example_for| example(&example_for, &catalog).unwrap_err().to_string();
        assert_eq!(told(Example::Target("vsns".into())), "there is no target `vsns`");
        assert_eq!(told(Example::Url("localhost".into())), "`localhost` is not a URL: there is no `://`");
        assert_eq!(told(Example::Url("gopher://x".into())), "no protocol is called `gopher`");
        for known in ["mongodb", "postgres"] {
            let told = told(Example::Url(format!("{known}://x:1")));
            assert!(told.contains("not supported"), "{told}");
        }
    }
}
