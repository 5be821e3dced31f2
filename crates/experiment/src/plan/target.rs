//! `[target]` of a trial: the system under test, its parameters and its protocol.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::authority;
use crate::catalog::Protocol;
use crate::keys::section;
use crate::manifest::{Manifest, Parameter, Takes, refusal};
use crate::plan::check_context::CheckContext;
use crate::problem::{Problem, join_words, nearest_hint, nearest_name};
use crate::section::Section;
use crate::socket_url;
use crate::template::{Template, TemplatePart};
use crate::tree::{Node, TextSpan, TomlValue};

/// The system under test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Kind of the target.
    #[serde(flatten)]
    pub kind: TargetKind,
    /// All URLs of a target that has several, over which clients are spread. The first is also the
    /// kind's URL. Empty if there is only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
    /// Processes of this machine that belong to the target, in addition to those found by its URLs.
    #[serde(default, skip_serializing_if = "AlsoTarget::is_default")]
    pub also: AlsoTarget,
    /// Protocol of the load.
    pub protocol: String,
    /// Certificates that clients trust, if the protocol is encrypted.
    #[serde(default, skip_serializing_if = "Tls::is_default")]
    pub tls: Tls,
    /// Trials that share a start of the target.
    #[serde(default, skip_serializing_if = "TargetStart::is_default")]
    pub start: TargetStart,
}

/// Trials that share a start of a target folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetStart {
    /// Each trial has a separate start.
    #[default]
    EachTrial,
    /// All trials of a variant and a repeat that differ only in their load share a start.
    Once,
}

impl TargetStart {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Origin of the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TargetKind {
    /// A target folder: `use = "vsns"`.
    Folder {
        /// Name of the folder.
        name: String,
        /// Every declared parameter with its value, as text.
        with: BTreeMap<String, String>,
    },
    /// A target that already runs: `url = "…"`.
    Running {
        /// URL of the target; empty if there is no URL to reach: `protocol = "command"` alone.
        url: String,
    },
    /// A target that a command starts: `start = "…"`, `url = "…"`.
    Started {
        /// Shell command; killed with its whole process group at the end.
        command: String,
        /// URL that the load goes to.
        url: String,
        /// URL for which a GET must answer 2xx before the load starts; without it, `url` must
        /// accept a connection.
        ready: Option<String>,
        /// Time limit for becoming ready, seconds.
        within_s: f64,
    },
}

impl Default for TargetKind {
    fn default() -> Self {
        Self::Running { url: String::new() }
    }
}

section! {
    const TARGET {
        use: Text, "Name of a target folder; `plimsoll targets` lists them", ["name", "target"];
        with: Map(&Scalar), "Parameters that the target declares", ["parameters", "params"];
        url: Text,
            "URL of the target; without `start`, the target must already run",
            ["host", "address", "endpoint"];
        urls: TEXTS,
            "URLs of all members of a cluster, instead of `url`; clients are spread over them",
            ["hosts", "addresses", "endpoints", "members"];
        also: Table(ALSO),
            "With `url` or `urls`: other processes of this machine that belong to the target but are not found by its \
             connections";
        start: Text,
            "With `url` or `urls`: shell command that starts it; killed with its process group at the end. With `use`: \
             `each trial`, the default, or `once` for all trials of a variant and a repeat that differ only in `load`",
            ["command", "run", "cmd"];
        ready: Text,
            "With `start`: URL that must answer 2xx before the load starts; without it, `url` must accept a connection";
        within = "30s": TIME, "With `start`: time limit for becoming ready";
        protocol: Text, "Protocol of `url`, if its scheme does not imply it; `command` needs no `url`";
        tls: Table(TLS),
            "TLS settings, for URLs with TLS, such as `https`, `grpcs`, `wss` or `rediss`; default: trust the CAs of this machine", ["ssl", "https"];
    }
}

section! {
    /// Processes of this machine that belong to a target, in addition to those found by its URLs
    /// and connections.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct AlsoTarget = ALSO {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        ports: List(&Whole { min: 1, max: 65_535 }) => Vec<u16>,
            "TCP ports that the processes listen on", ["port"];
        #[serde(skip_serializing_if = "Vec::is_empty")]
        units: TEXTS => Vec<String>,
            "systemd units: \"postgresql@15-main\"; a name without a type is a service", ["unit", "services"];
        #[serde(skip_serializing_if = "Vec::is_empty")]
        processes: TEXTS => Vec<String>,
            "Program names, as in the fault `kill`: \"celery\"", ["process", "programs", "program"];
        #[serde(skip_serializing_if = "Vec::is_empty")]
        cgroups: TEXTS => Vec<String>,
            "Control groups, as `/proc/PID/cgroup` shows them: \"/jobs/7\"", ["cgroup"];
    }
}

impl AlsoTarget {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Target {
    /// Returns all URLs that the load goes to. Empty for a target folder, and if only programs are
    /// run.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        match &self.kind {
            TargetKind::Folder { .. } => Vec::new(),
            _ if !self.urls.is_empty() => self.urls.clone(),
            TargetKind::Running { url } | TargetKind::Started { url, .. } => {
                Some(url.clone()).filter(|url| !url.is_empty()).into_iter().collect()
            }
        }
    }
}

section! {
    /// Certificates that a client trusts in a TLS connection. By default, the roots of this
    /// machine.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Tls = TLS {
        #[serde(skip_serializing_if = "Option::is_none")]
        ca: Text => Option<String>,
            "PEM file of CA certificates, relative to the experiment: only these CAs are trusted",
            ["cacert", "ca_file", "cafile", "ca_cert", "root", "roots"];
        insecure = "false": Boolean => bool,
            "Accept any certificate",
            ["skip_verify", "insecure_skip_verify", "no_verify"];
        #[serde(skip_serializing_if = "Option::is_none")]
        server_name: Text => Option<String>,
            "Server name to request and to expect in the certificate; default: the URL's host", ["sni"];
        #[serde(skip_serializing_if = "Option::is_none")]
        cert: Text => Option<String>,
            "PEM file with the client's certificate and the intermediate ones, for a server that asks for it",
            ["client_cert", "certificate"];
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Text => Option<String>,
            "PEM file with the key of `cert`; default: the same file", ["client_key", "private_key"];
        #[serde(skip_serializing_if = "Option::is_none")]
        proxy: Text => Option<String>,
            "Forward proxy that opens a tunnel to the target (CONNECT): \"http://host:port\"", ["https_proxy", "tunnel"];
    }
}

impl Tls {
    /// Returns the files that the section names, as written there.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        [&self.ca, &self.cert, &self.key].into_iter().filter_map(|file| file.as_deref())
    }

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Reads the section. Also finds the protocol for the rest of the trial.
pub(super) fn read(section: &Section<'_>, context: &mut CheckContext<'_>) -> Option<Target> {
    if !is_one_kind(section, context) {
        return None;
    }
    let (kind, protocol) = match section.text("use") {
        Some(name) => folder(name, section, context)?,
        None => address(section, context)?,
    };
    context.protocol = context.catalog.protocols.iter().copied().find(|known| known.name == protocol);
    let urls = texts(section, "urls");
    context.addresses = urls.len();
    let also = section.section("also").map(|also| AlsoTarget::read(&also)).unwrap_or_default();
    let start = if section.has("use") { read_start(section, context) } else { TargetStart::default() };
    Some(Target { kind, urls, also, protocol, tls: read_tls(section, context), start })
}

/// Reads `start` beside `use`.
fn read_start(section: &Section<'_>, context: &mut CheckContext<'_>) -> TargetStart {
    match section.text("start") {
        None | Some("each trial") => TargetStart::EachTrial,
        Some("once") => TargetStart::Once,
        Some(_) => {
            let problem = Problem::new(section.place("start"), "a target folder has its own start command")
                .expected("\"each trial\" or \"once\"")
                .related(section.place("use"), "the target folder")
                .hint("with `use`, `start` is how often it is started; a command needs `url` instead of `use`");
            context.problems.push(problem);
            TargetStart::default()
        }
    }
}

/// Reads `[target] tls`.
fn read_tls(section: &Section<'_>, context: &mut CheckContext<'_>) -> Tls {
    let Some(tls) = section.section("tls") else { return Tls::default() };
    let (key, urls) = written_urls(section);
    let scheme = urls.first().and_then(|url| url.split_once("://")).map_or("https", |(scheme, _)| scheme);
    check_tls(&tls, (scheme, section.place(key), key), context);
    Tls::read(&tls)
}

/// Schemes of connections with TLS.
const ENCRYPTED: [&str; 6] = ["etcds", "grpcs", "h2", "https", "rediss", "wss"];

/// Checks TLS settings for a URL with this scheme and place, which the given key names.
pub(super) fn check_tls(
    tls: &Section<'_>,
    (scheme, url, key): (&str, &TextSpan, &str),
    context: &mut CheckContext<'_>,
) {
    if !ENCRYPTED.contains(&scheme) {
        context.problems.push(
            Problem::new(tls.place, format!("connections to `{scheme}://…` are not encrypted"))
                .expected("not without `https`")
                .related(url, "this is not encrypted")
                .hint(format!(
                    "write {key} = {}, or remove `tls`",
                    if key == "url" { "\"https://…\"" } else { "[\"https://…\", …]" }
                )),
        );
    }
    if tls.boolean("insecure") && tls.has("ca") {
        context.problems.push(
            Problem::new(tls.place("insecure"), "`ca` and `insecure` exclude each other")
                .expected("any certificate is accepted")
                .related(tls.place("ca"), "only certificates of these CAs are accepted")
                .hint("remove `insecure`: certificates that the CAs in this file signed are accepted"),
        );
    }
    if tls.text("proxy").is_some_and(|proxy| !is_proxy(proxy)) {
        context.problems.push(
            Problem::new(tls.place("proxy"), "this is not a URL of a forward proxy")
                .expected("http://host:port")
                .hint("the connection to the proxy is not encrypted, and the URL has no path"),
        );
    }
    if tls.has("key") && !tls.has("cert") {
        context.problems.push(
            Problem::new(tls.place("key"), "a key without a certificate")
                .expected("`cert` is missing")
                .hint("add `cert = \"client.pem\"`, or remove `key`"),
        );
    }
}

fn is_proxy(url: &str) -> bool {
    let authority = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    parse_url(url).is_ok() && authority.is_some_and(|authority| !authority.contains(['/', '?', '#', '@']))
}

/// Whether exactly one of `use`, `url` and `start` + `url` is given, without keys of the others.
fn is_one_kind(section: &Section<'_>, context: &mut CheckContext<'_>) -> bool {
    const KINDS: &str =
        "write `use = \"NAME\"` for a target folder, `url = \"http://…\"` for a running target, or `start` and `url`";
    let is_alone = runs_programs(section, context);
    let has_url = section.has("url") || section.has("urls");
    if !is_alone && !has_url && !["use", "start"].iter().any(|key| section.has(key)) {
        let problem =
            Problem::absent(section.place, "[target] names no target").expected("none of `use`, `url`, `start`");
        context.problems.push(problem.hint(KINDS));
        return false;
    }
    if section.has("use") {
        let others: Vec<&str> = ["url", "urls", "also", "ready", "within", "protocol", "tls"]
            .into_iter()
            .filter(|key| section.has(key))
            .collect();
        for other in &others {
            let problem = Problem::new(section.place(other), format!("`use` and `{other}` exclude each other"))
                .expected("not beside `use`")
                .related(section.place("use"), "a target folder defines this itself");
            context.problems.push(problem.hint(KINDS));
        }
        return others.is_empty();
    }
    if section.has("with") {
        let problem =
            Problem::new(section.place("with"), "parameters belong to a target folder").expected("not without `use`");
        context.problems.push(problem.hint(KINDS));
    }
    if section.has("url") && section.has("urls") {
        let problem =
            Problem::new(section.place("url"), "`url` and `urls` exclude each other").expected("not beside `urls`");
        let problem = problem.related(section.place("urls"), "the load goes to all of these");
        context.problems.push(problem.hint("add it to `urls`, and remove `url`"));
        return false;
    }
    if section.has("also") && !has_url {
        let problem =
            Problem::new(section.place("also"), "`also` belongs to `url` or `urls`").expected("not without them");
        context.problems.push(problem.hint("a load that only runs programs has no target with processes"));
    }
    if !is_alone && !has_url {
        let problem = Problem::absent(section.place("start"), "`start` needs `url`")
            .expected("the address for the load is missing");
        context.problems.push(problem.hint("add url = \"http://127.0.0.1:8080\", or what it listens on"));
        return false;
    }
    for key in ["ready", "within"].into_iter().filter(|key| section.has(key) && !section.has("start")) {
        let problem =
            Problem::new(section.place(key), format!("`{key}` belongs to `start`")).expected("nothing is started");
        context.problems.push(problem.hint("without `start`, `url` has to answer already"));
    }
    true
}

/// Whether `protocol` is the only key of its kind, and names a protocol that runs programs of this
/// machine: then there is no URL to reach.
fn runs_programs(section: &Section<'_>, context: &CheckContext<'_>) -> bool {
    let protocol = context.catalog.protocols.iter().find(|known| Some(known.name) == section.text("protocol"));
    protocol.is_some_and(|protocol| protocol.schemes.is_empty())
        && !["use", "url", "urls", "start"].iter().any(|key| section.has(key))
}

fn folder(name: &str, section: &Section<'_>, context: &mut CheckContext<'_>) -> Option<(TargetKind, String)> {
    if let Some((why, remedy)) = context.catalog.refused_targets.get(name) {
        let what = format!("the target `{name}` is refused: {why}");
        context.problems.push(Problem::new(section.place("use"), what).expected("refused target").hint(remedy));
        return None;
    }
    let Some(manifest) = context.catalog.targets.get(name) else {
        let hint = nearest_hint(name, context.catalog.targets.keys().map(String::as_str));
        let problem =
            Problem::absent(section.place("use"), format!("there is no target `{name}`")).expected("unknown target");
        context.problems.push(problem.maybe(hint));
        return None;
    };
    let mut with = defaults(manifest);
    for entry in section.entries("with") {
        let Some(parameter) = manifest.parameters.get(&entry.key) else {
            let hint = nearest_hint(&entry.key, manifest.parameters.keys().map(String::as_str));
            let what = format!("the target `{name}` has no parameter `{}`", entry.key);
            context.problems.push(Problem::absent(&entry.key_place, what).expected("unknown parameter").maybe(hint));
            continue;
        };
        // Lists and tables are refused by the shape check.
        let Some(text) = entry.node.as_written() else { continue };
        match refused(&entry.key, parameter, &entry.node, &text) {
            Some(problem) => context.problems.push(problem),
            None => {
                with.insert(entry.key.clone(), text);
            }
        }
    }
    let protocol = protocol(manifest, &with, section, context)?;
    Some((TargetKind::Folder { name: name.to_owned(), with }, protocol))
}

/// The problem of a parameter that was given without an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadParameter {
    /// The problem.
    pub what: String,
    /// A suggestion for a valid parameter.
    pub hint: String,
}

/// Returns every parameter of a target with its value: the values of `given`, each `name=value`,
/// and the defaults of the others.
///
/// # Errors
/// The first of `given` that is no parameter of the target or has a value that the parameter does
/// not take.
pub fn parameters(manifest: &Manifest, given: &[String]) -> Result<BTreeMap<String, String>, BadParameter> {
    let mut with = defaults(manifest);
    for text in given {
        let (name, value) = text.split_once('=').ok_or_else(|| BadParameter {
            what: format!("`{text}` gives no parameter a value"),
            hint: "write NAME=VALUE".to_owned(),
        })?;
        let Some(parameter) = manifest.parameters.get(name) else {
            let hint = nearest_hint(name, manifest.parameters.keys().map(String::as_str));
            return Err(BadParameter {
                what: format!("the target `{}` has no parameter `{name}`", manifest.name),
                hint: hint.unwrap_or_else(|| "it has none".to_owned()),
            });
        };
        if let Some(what) = refusal(&parameter.takes, value) {
            return Err(BadParameter {
                what: format!("`{name}` cannot be {what}; it takes {}", words(&parameter.takes)),
                hint: meant(name, parameter, value),
            });
        }
        with.insert(name.to_owned(), value.to_owned());
    }
    Ok(with)
}

fn defaults(manifest: &Manifest) -> BTreeMap<String, String> {
    manifest.parameters.iter().map(|(name, parameter)| (name.clone(), parameter.default.clone())).collect()
}

/// Returns the manifest's protocol, with `{parameter}` filled in.
fn protocol(
    manifest: &Manifest,
    with: &BTreeMap<String, String>,
    section: &Section<'_>,
    context: &mut CheckContext<'_>,
) -> Option<String> {
    let mut protocol = manifest.about.protocol.clone();
    for (name, value) in with {
        protocol = protocol.replace(&format!("{{{name}}}"), value);
    }
    is_known(&protocol, section.place("use"), context).then_some(protocol)
}

fn is_known(protocol: &str, place: &TextSpan, context: &mut CheckContext<'_>) -> bool {
    let names: Vec<&str> = context.catalog.protocols.iter().map(|protocol| protocol.name).collect();
    if names.contains(&protocol) {
        return true;
    }
    let problem = Problem::new(place, format!("there is no protocol `{protocol}`")).expected("unknown protocol");
    context.problems.push(problem.maybe(nearest_hint(protocol, names)));
    false
}

/// Returns the problem of a parameter's value.
fn refused(name: &str, parameter: &Parameter, node: &Node, text: &str) -> Option<Problem> {
    // Values from the environment are not known yet.
    if Template::parse(text)
        .is_ok_and(|template| template.all_parts().iter().any(|part| matches!(part, TemplatePart::Env(_))))
    {
        return None;
    }
    let what = refusal(&parameter.takes, text)?;
    let problem = Problem::new(&node.place, format!("`{name}` cannot be {what}")).expected(words(&parameter.takes));
    Some(problem.hint(meant(name, parameter, text)))
}

/// Returns a hint for a wrong value: the value that may be meant, or the parameter's help.
fn meant(name: &str, parameter: &Parameter, text: &str) -> String {
    let near = match &parameter.takes {
        Takes::Choice { of } => nearest_name(text, of.iter().map(String::as_str)),
        _ => None,
    };
    near.map_or_else(|| format!("{name}: {}", parameter.help), |near| format!("did you mean \"{near}\"?"))
}

fn words(takes: &Takes) -> String {
    let bounded = |noun: &str, min: &Option<i64>, max: &Option<i64>| match (min, max) {
        (Some(min), Some(max)) => format!("{noun} from {min} to {max}"),
        (Some(min), None) => format!("{noun}, {min} or more"),
        (None, Some(max)) => format!("{noun}, {max} or less"),
        (None, None) => noun.to_owned(),
    };
    match takes {
        Takes::Choice { of } => {
            let quoted: Vec<String> = of.iter().map(|choice| format!("\"{choice}\"")).collect();
            join_words(&quoted, "or")
        }
        Takes::Integer { min, max } => bounded("a whole number", min, max),
        Takes::Number { min, max } => bounded("a number", min, max),
        Takes::Boolean => "true or false".to_owned(),
        Takes::Text => "a text".to_owned(),
        Takes::Duration => "a duration such as \"50ms\"".to_owned(),
    }
}

fn address(section: &Section<'_>, context: &mut CheckContext<'_>) -> Option<(TargetKind, String)> {
    if runs_programs(section, context) {
        return Some((TargetKind::Running { url: String::new() }, section.text("protocol")?.to_owned()));
    }
    let scheme = scheme_of_all(section, context)?;
    let url = written_urls(section).1.first().cloned()?;
    if let Some(ready) = section.text("ready") {
        let scheme = parse_url(ready);
        if !matches!(scheme, Ok("http" | "https")) {
            let problem = Problem::new(section.place("ready"), "`ready` must be a URL for a GET");
            context.problems.push(problem.expected("http://host:port/path"));
        }
    }
    let protocol = match section.text("protocol") {
        Some(protocol) => is_known(protocol, section.place("protocol"), context).then(|| protocol.to_owned())?,
        None => by_scheme(&scheme, section, context)?.name.to_owned(),
    };
    let kind = match section.text("start") {
        None => TargetKind::Running { url },
        Some(command) => TargetKind::Started {
            command: command.to_owned(),
            url,
            ready: section.text("ready").map(ToOwned::to_owned),
            within_s: section.number("within")?,
        },
    };
    Some((kind, protocol))
}

/// Returns the elements of a list of texts.
fn texts(section: &Section<'_>, key: &str) -> Vec<String> {
    section.get(key).unwrap_or_default()
}

/// Returns the key that gives the target's URLs, and the URLs.
fn written_urls(section: &Section<'_>) -> (&'static str, Vec<String>) {
    match section.text("url") {
        Some(url) => ("url", vec![url.to_owned()]),
        None => ("urls", texts(section, "urls")),
    }
}

/// Returns the common scheme of all URLs. Checks that each URL is valid and that none is given
/// twice.
fn scheme_of_all(section: &Section<'_>, context: &mut CheckContext<'_>) -> Option<String> {
    let (key, urls) = written_urls(section);
    let elements = match section.node(key).map(|node| &node.value) {
        Some(TomlValue::List(list)) => list.iter().map(|node| node.place.clone()).collect(),
        _ => vec![section.place(key).clone()],
    };
    let Some(first) = urls.first() else {
        let problem = Problem::new(section.place(key), "`urls` names no URL").expected("an empty list");
        context.problems.push(problem.hint("write urls = [\"http://127.0.0.1:8080\", …]"));
        return None;
    };
    let scheme = first.split_once("://").map(|(scheme, _)| scheme);
    for (number, (url, place)) in urls.iter().zip(&elements).enumerate() {
        let problem = match parse_url(url) {
            Err(why) => Problem::new(place, format!("this is not a URL: {why}")).expected("scheme://host:port/path"),
            Ok(_) if urls[..number].contains(url) => Problem::new(place, "this URL is named twice").expected("once"),
            Ok(own) if Some(own) != scheme => Problem::new(place, "all members must use one protocol")
                .expected(format!("{}://…", scheme.unwrap_or_default()))
                .related(&elements[0], "the first one's"),
            Ok(_) => continue,
        };
        context.problems.push(problem);
        return None;
    }
    scheme.map(ToOwned::to_owned)
}

fn by_scheme(scheme: &str, section: &Section<'_>, context: &mut CheckContext<'_>) -> Option<&'static Protocol> {
    let found = context.catalog.protocols.iter().copied().find(|protocol| protocol.schemes.contains(&scheme));
    if found.is_none() {
        let schemes: Vec<&str> =
            context.catalog.protocols.iter().flat_map(|protocol| protocol.schemes).copied().collect();
        let place = match section.node("url") {
            Some(node) => node.inside(0..scheme.len()),
            None => section.place("urls").clone(),
        };
        let problem = Problem::new(&place, format!("no protocol has the scheme `{scheme}`")).expected("unknown scheme");
        let nearest = nearest_hint(scheme, schemes).map(|hint| format!("{hint}; or add `protocol = \"…\"`"));
        let hint = authority::way_round(scheme).map(str::to_owned).or(nearest);
        context.problems.push(problem.maybe(hint));
    }
    found
}

/// Returns the scheme of a URL. Checks that the URL can be connected to.
pub(crate) fn parse_url(url: &str) -> Result<&str, &'static str> {
    let (scheme, rest) = url.split_once("://").ok_or("there is no `://`")?;
    if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')) {
        return Err("it has no scheme");
    }
    if url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("it contains blanks");
    }
    if let Some(socket) = socket_url::socket_of(url) {
        return socket.map(|_| scheme);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
    authority::check(address).map_err(|problem| problem.what)?;
    Ok(scheme)
}
