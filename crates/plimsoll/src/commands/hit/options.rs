//! Options of `plimsoll hit`: reads and checks the options, reports all their problems at once, and
//! writes them as an experiment file.

use std::path::Path;

use experiment::authority;
use experiment::catalog::{Field, Operation, Protocol};
use experiment::duration;
use experiment::plan;
use experiment::pointer::{self, Pointer};
use experiment::socket_url;

use super::message_protocols::{self, MessageProtocol};
use crate::cli;

/// Options of `hit`, in the form that an experiment file needs: texts are templates, and durations
/// have units.
#[derive(Debug, Clone, PartialEq)]
pub struct HitOptions {
    pub place: HitTarget,
    /// Name of an operation of the protocol.
    pub method: String,
    /// The method, if the operation is that for any method.
    pub other_method: Option<String>,
    /// Names and values of headers, in the given order.
    pub headers: Vec<(String, String)>,
    /// Files with the types of messages, for gRPC.
    pub proto: Vec<String>,
    /// Place of the value that a message of WebSocket and its answer share.
    pub match_at: Option<String>,
    /// Names of the request's fields whose values no record may contain.
    pub secrets: Vec<String>,
    pub body: Option<String>,
    pub connections: ConnectionOptions,
    /// Fields of the answer, or JSON pointers into fields, each with the expected value.
    pub expects: Vec<(String, String)>,
    /// Text in the last event, if answers are streams of events. Empty if streams are read to their
    /// end.
    pub stream: Option<String>,
    /// Whether the time to the first byte is recorded.
    pub first_byte: bool,
    pub agents: u32,
    /// Length of the load.
    pub time: String,
    /// Total number of requests in a closed loop, if it is limited.
    pub count: Option<u64>,
    /// Length of the warm-up, or `auto`.
    pub warmup: String,
    /// Timeout of each request, if not the default.
    pub timeout: Option<String>,
    /// Rate of an open loop.
    pub rate: Option<RequestRate>,
    /// Number of generator threads, if not the default.
    pub threads: Option<u32>,
    /// Number of processes that make the load together, if it is not made by this process alone.
    pub generators: Option<u32>,
    /// Location of the generators, if not this machine.
    pub by: Option<GeneratorPlace>,
    /// Seed of random values, if not the default.
    pub seed: Option<u32>,
}

/// Location of generators that this machine does not start as local processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GeneratorPlace {
    /// Machines to reach over ssh.
    Ssh(Vec<String>),
    /// A program with its arguments, which starts a generator.
    Command(Vec<String>),
    /// Pods of Kubernetes: the namespace and the image, if given.
    Kubernetes(Vec<String>),
    /// Jobs of Slurm: the partition, if given.
    Slurm(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestRate {
    pub per_s: f64,
    /// Whether requests are due at random times.
    pub is_poisson: bool,
}

/// An invalid option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionProblem {
    /// Description of the problem.
    pub what: String,
    /// Suggestion of how to correct the option.
    pub remedy: String,
}

impl OptionProblem {
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

/// Default length of the load.
const TIME: &str = "10s";
/// Default time limit of a load that ends after a number of requests, as in k6.
const TIME_OF_COUNT: &str = "10m";

/// Reads the options. `protocol` is the protocol that URLs of `hit` use.
///
/// # Errors
///
/// Returns all problems of the options.
pub fn read(words: &cli::Hit, protocol: &Protocol) -> Result<HitOptions, Vec<OptionProblem>> {
    let mut wrong = Vec::new();
    let place = place(&words.url, protocol.schemes).map_err(|refused| wrong.push(refused)).ok();
    wrong.extend(place.as_ref().and_then(|place| prior_knowledge(words, place)));
    let body = words.body.as_deref().and_then(|body| self::body(body).map_err(|refused| wrong.push(refused)).ok());
    wrong.extend(duration_as_body(words));
    wrong.extend(match MessageProtocol::of(&words.url) {
        Some(messages) => messages.problem(words, place.as_ref()),
        None => message_protocols::not_of(words),
    });
    let called = operation(words, protocol).map_err(|refused| wrong.push(refused)).ok();
    let operation = called.as_ref().map(|(operation, _)| *operation);
    let mut headers = headers(&words.headers, &mut wrong);
    let expects = expects(&words.expects, operation, &mut wrong);
    let mut connections = read_connections(words, place.as_ref(), &mut wrong);
    let time = time(words, &mut wrong);
    at_random(words, &mut wrong);
    divided(words, &mut wrong);
    let by = by(words, &mut wrong);
    if words.warmup != "auto" {
        check_duration("--warmup", &words.warmup, true, &mut wrong);
    }
    if let Some(timeout) = &words.timeout {
        check_duration("--timeout", timeout, false, &mut wrong);
    }
    if let Some(page) = &words.report {
        wrong.extend(unwritable(page));
    }
    let place = place.map(|place| match (&words.unix_socket, &words.proxy) {
        (Some(socket), _) => by_socket(socket, place, &mut headers, &mut wrong),
        (None, Some(proxy)) => through(proxy, place, (&mut headers, &mut connections.tls), &mut wrong),
        (None, None) => place,
    });
    let (Some(place), Some((operation, other_method))) = (place, called) else { return Err(wrong) };
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let (mut place, mut body, mut expects) = (in_one_url(place, &mut headers, !words.templates), body, expects);
    if !words.templates {
        let values = headers.iter_mut().chain(&mut expects).map(|(_, value)| value);
        for text in values.chain(&mut body).chain([&mut place.path]) {
            *text = literal(text);
        }
    }
    let count = words.requests.filter(|_| words.rate.is_none());
    Ok(HitOptions {
        place,
        method: operation.name.to_owned(),
        other_method,
        headers,
        proto: words.proto.clone(),
        match_at: words.match_at.as_ref().map(|place| if words.templates { place.clone() } else { literal(place) }),
        secrets: words.secrets.clone(),
        body,
        connections,
        expects,
        stream: words.stream.clone(),
        first_byte: words.first_byte,
        // No more agents than requests are needed.
        agents: count.and_then(|count| u32::try_from(count).ok()).map_or(words.agents, |most| words.agents.min(most)),
        time,
        count,
        warmup: words.warmup.clone(),
        timeout: words.timeout.clone(),
        rate: words.rate.map(|per_s| RequestRate { per_s, is_poisson: words.poisson }),
        threads: words.threads,
        generators: words.generators,
        by,
        seed: words.seed,
    })
}

/// Returns the target of a WebSocket with path and headers in its URL. Other targets stay as they
/// are.
fn in_one_url(place: HitTarget, headers: &mut Vec<(String, String)>, is_literal: bool) -> HitTarget {
    if MessageProtocol::of(&place.service) != Some(MessageProtocol::Websocket) {
        return place;
    }
    let service = message_protocols::socket_url(&place, &std::mem::take(headers), is_literal);
    HitTarget { service, path: String::new() }
}

/// Returns the template that yields a literal text: the text with doubled braces.
pub fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// Refuses a body that looks like a duration. With wrk, `-d 30s` is the load's duration; here it
/// would be the body `30s` of a load with the default duration.
fn duration_as_body(words: &cli::Hit) -> Option<OptionProblem> {
    let body = words.body.as_deref().filter(|body| words.method.is_none() && duration::parse_s(body).is_ok())?;
    Some(OptionProblem::new(
        format!("-d {body}: expected a body, as in curl, but this is a duration"),
        format!("for a duration write -t {body}; to send {body:?} as the body, add the method: -m POST -d {body}"),
    ))
}

/// Returns the body that `-d BODY` or `-d @FILE` gives.
fn body(text: &str) -> Result<String, OptionProblem> {
    let Some(file) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let read = std::fs::read(file).map_err(|error| {
        OptionProblem::new(
            format!("-d {text}: cannot read {file}: {error}"),
            "give a file, or a body that does not begin with @",
        )
    })?;
    String::from_utf8(read).map_err(|_| {
        OptionProblem::new(
            format!("-d {text}: {file} is not UTF-8 text"),
            "bodies must be UTF-8 text, because they are part of an experiment file",
        )
    })
}

/// Operation that sends any method, and the argument with the method.
const ANY_METHOD: &str = "request";
const METHOD: &str = "method";

/// Returns the operation for `-m METHOD`, and the method if the operation takes it as an argument.
/// If no method is given, it is POST with a body, else GET.
fn operation(words: &cli::Hit, protocol: &Protocol) -> Result<(&'static Operation, Option<String>), OptionProblem> {
    if let Some(messages) = MessageProtocol::of(&words.url) {
        return messages.operation(words, protocol).map(|operation| (operation, None));
    }
    let usual = if words.body.is_some() { "post" } else { "get" };
    let method = words.method.as_deref().unwrap_or(usual);
    let find = |name: &str| protocol.operations.iter().find(|operation| operation.name == name);
    let by_name = find(&method.to_ascii_lowercase()).filter(|operation| operation.name != ANY_METHOD);
    if let Some(operation) = by_name {
        return Ok((operation, None));
    }
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let any = find(ANY_METHOD).filter(|_| !method.is_empty() && method.bytes().all(is_token));
    if method.eq_ignore_ascii_case("CONNECT") {
        return Err(OptionProblem::new(
            format!("-m {method}: CONNECT opens a tunnel and is no request"),
            "to load a target through a proxy, write --proxy URL",
        ));
    }
    any.map(|operation| (operation, Some(method.to_owned()))).ok_or_else(|| {
        let known = protocol.operations.iter().filter(|operation| operation.name != ANY_METHOD);
        let known: Vec<String> = known.map(|operation| operation.name.to_ascii_uppercase()).collect();
        OptionProblem::new(
            format!("-m {method:?}: this is not the name of a method"),
            format!("write one word: {}, or another method", known.join(", ")),
        )
    })
}

/// Parses `-H 'Name: value'`. Each name may appear once, except that cookies are joined.
fn headers(given: &[String], wrong: &mut Vec<OptionProblem>) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for text in given {
        let (name, value) = match header(text) {
            Ok(header) => header,
            Err(refused) => {
                wrong.push(refused);
                continue;
            }
        };
        match headers.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(&name)) {
            None => headers.push((name, value)),
            // One header holds all cookies, as a browser sends them (RFC 6265, 4.2.1).
            Some((_, cookies)) if name.eq_ignore_ascii_case("cookie") => cookies.push_str(&format!("; {value}")),
            Some(_) => wrong.push(OptionProblem::new(
                format!("-H {name}: this header is given twice"),
                "join the values with commas in one -H",
            )),
        }
    }
    headers
}

/// Headers that the engine sets itself, because they describe the framing or the connection. Each
/// has the remedy for a user who gives it.
const OF_THE_ENGINE: [(&str, &str); 3] = [
    ("connection", "connections are kept; --no-keep-alive opens one for each request and sends `Connection: close`"),
    ("content-length", "remove it: Plimsoll sends the length of the body"),
    ("transfer-encoding", "remove it: Plimsoll sends bodies with `Content-Length`"),
];

fn header(text: &str) -> Result<(String, String), OptionProblem> {
    const FORM: &str = "write -H 'Name: value'";
    // Show only the name of a header, because the value may be a secret.
    let shown = text.split_once(':').map_or(text, |(name, _)| name);
    let bad = |why: &str| OptionProblem::new(format!("-H {shown:?}: {why}"), FORM);
    let (name, value) = text.split_once(':').ok_or_else(|| bad("there is no colon"))?;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)) {
        return Err(bad("the text before the colon is not a header name"));
    }
    let value = value.trim();
    if value.chars().any(|character| character.is_control() && character != '\t') {
        return Err(bad("a header cannot contain a line break or another control character"));
    }
    if let Some((_, remedy)) = OF_THE_ENGINE.into_iter().find(|(own, _)| name.eq_ignore_ascii_case(own)) {
        return Err(OptionProblem::new(format!("-H {name}: Plimsoll sets this header itself"), remedy));
    }
    // The engine looks for the header `host`, and leaves out its own if the user gives one.
    let name = if name.eq_ignore_ascii_case("host") { "host" } else { name };
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses `--expect status=200`. Each field may appear once. If the operation is known, its answer
/// must have the field.
fn expects(
    given: &[String],
    operation: Option<&'static Operation>,
    wrong: &mut Vec<OptionProblem>,
) -> Vec<(String, String)> {
    let mut expects: Vec<(String, String)> = Vec::new();
    for text in given {
        let Some((field, value)) = text.split_once('=') else {
            wrong.push(OptionProblem::new(format!("--expect {text}: `=` is missing"), "write --expect status=200"));
            continue;
        };
        let (whole, inside) = pointer::split(field);
        if let Some(operation) =
            operation.filter(|operation| !operation.answers.iter().any(|known| goes_by(known, whole)))
        {
            let known: Vec<&str> = operation.answers.iter().map(|field| field.name).collect();
            wrong.push(OptionProblem::new(
                format!("--expect {text}: an answer has no `{whole}`"),
                format!("the fields are {}, and places in JSON such as body/items/0/id", known.join(", ")),
            ));
        } else if let Some(Err(error)) = inside.map(Pointer::parse) {
            wrong.push(OptionProblem::new(format!("--expect {text}: {error}"), "write --expect body/items/0/id=7"));
        } else if expects.iter().any(|(other, _)| other == field) {
            wrong.push(OptionProblem::new(format!("--expect {text}: `{field}` is expected twice"), "write it once"));
        } else {
            expects.push((field.to_owned(), value.to_owned()));
        }
    }
    expects
}

/// Whether the field has this name. `header.*` matches every name that begins with `header.`.
fn goes_by(field: &Field, name: &str) -> bool {
    match field.name.strip_suffix('*') {
        Some(prefix) => name.len() > prefix.len() && name.starts_with(prefix),
        None => field.name == name,
    }
}

/// Refuses `--poisson` if no rate is given, or if an exact number of requests is given.
fn at_random(words: &cli::Hit, wrong: &mut Vec<OptionProblem>) {
    if !words.poisson {
        return;
    }
    if words.rate.is_none() {
        wrong.push(OptionProblem::new("--poisson needs --rate", "add --rate, such as --rate 1000"));
    }
    if let Some(requests) = words.requests {
        wrong.push(OptionProblem::new(
            format!("-n {requests} with --poisson: random starts do not give an exact number of requests"),
            "write --time: the average number of requests is rate × time",
        ));
    }
}

/// Refuses options that several processes cannot share: a count of requests, or fewer connections
/// than processes.
fn divided(words: &cli::Hit, wrong: &mut Vec<OptionProblem>) {
    let Some(generators) = words.generators else { return };
    if let (Some(requests), None) = (words.requests, words.rate) {
        wrong.push(OptionProblem::new(
            format!("-n {requests} with --generators {generators}: generators cannot share a number of requests"),
            "write --time, or add --rate",
        ));
    }
    let connections = words.agents.div_ceil(words.pipeline.unwrap_or(1));
    if generators > connections {
        wrong.push(OptionProblem::new(
            format!("--generators {generators}: each needs its own connection, but there are only {connections}"),
            format!("write --generators {connections}, or more agents with -c"),
        ));
    }
}

/// Parses `--by`, the location of the generators.
fn by(words: &cli::Hit, wrong: &mut Vec<OptionProblem>) -> Option<GeneratorPlace> {
    let (kind, rest) = words.by.as_ref().map(|by| by.split_once('=').unwrap_or((by, "")))?;
    let separators: &[char] = match kind {
        "command" => &[' '],
        "slurm" => &[],
        _ => &[','],
    };
    let parts = rest.split(separators).filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let place = match kind {
        "local" if rest.is_empty() => return None,
        "ssh" => GeneratorPlace::Ssh(parts),
        "command" => GeneratorPlace::Command(parts),
        "kubernetes" => GeneratorPlace::Kubernetes(parts),
        "slurm" => GeneratorPlace::Slurm(parts),
        _ => {
            wrong.push(OptionProblem::new(
                format!("--by {kind}: unknown location"),
                "write --by local, --by ssh=HOST,HOST,…, --by kubernetes[=NAMESPACE[,IMAGE]], --by slurm[=PARTITION] or --by \
                 \"command=PROGRAM ARGUMENTS\"; [fleet] in an experiment file has more options",
            ));
            return None;
        }
    };
    if matches!(&place, GeneratorPlace::Ssh(named) | GeneratorPlace::Command(named) if named.is_empty()) {
        let what = format!("--by {kind}: nothing follows the =");
        wrong.push(OptionProblem::new(what, "write --by ssh=HOST,HOST,… or --by \"command=PROGRAM ARGUMENTS\""));
    }
    if matches!(&place, GeneratorPlace::Kubernetes(named) if named.len() > 2) {
        let what = format!("--by {kind}={rest}: expected at most a namespace and an image");
        wrong.push(OptionProblem::new(
            what,
            "write --by kubernetes[=NAMESPACE[,IMAGE]]; [fleet.kubernetes] in an experiment file has more options",
        ));
    }
    if let (GeneratorPlace::Ssh(hosts), Some(generators)) = (&place, words.generators)
        && hosts.len() > generators as usize
    {
        let what = format!("--generators {generators} on {} machines: some would have no generator", hosts.len());
        wrong.push(OptionProblem::new(what, format!("write --generators {}", hosts.len())));
    }
    Some(place)
}

/// Returns the length of the load: `--time`, or the time that the number of requests takes at the
/// rate, or the default time limit for a number of requests without a rate.
fn time(words: &cli::Hit, wrong: &mut Vec<OptionProblem>) -> String {
    if let Some(rate) = words.rate
        && !(rate.is_finite() && rate > 0.0)
    {
        wrong.push(OptionProblem::new(format!("--rate {rate}: not a rate"), "write a number above 0"));
        return TIME.to_owned();
    }
    if let (Some(requests), Some(time), Some(_)) = (words.requests, &words.time, words.rate) {
        wrong.push(OptionProblem::new(
            format!("-n {requests} with --time {time}: with --rate, each sets the end of the load"),
            "remove one of the two",
        ));
    }
    match (words.requests, words.rate) {
        (Some(requests), Some(rate)) => for_requests(requests, rate),
        (requests, _) => {
            let usual = if requests.is_some() { TIME_OF_COUNT } else { TIME };
            let time = words.time.as_deref().unwrap_or(usual);
            check_duration("--time", time, false, wrong);
            time.to_owned()
        }
    }
}

/// Returns the length of a load that makes exactly this number of requests at a rate. The load
/// makes all requests that are due before its end.
fn for_requests(requests: u64, rate: f64) -> String {
    // The length in microseconds is rounded down. It is at most 1 µs too short, so up to a million
    // requests per second none is missing.
    let us = (requests as f64 / rate * 1e6).floor().max(1.0);
    format!("{}s", us / 1e6)
}

fn check_duration(option: &str, text: &str, may_be_zero: bool, wrong: &mut Vec<OptionProblem>) {
    match duration::parse_s(text) {
        Ok(seconds) if seconds > 0.0 || may_be_zero => {}
        Ok(_) => wrong
            .push(OptionProblem::new(format!("{option} {text}: the duration is 0"), "write a duration such as 10s")),
        Err(duration::DurationError::NoUnit) => {
            wrong.push(OptionProblem::new(
                format!("{option} {text}: the unit is missing"),
                format!("write {option} {}s", text.trim()),
            ));
        }
        Err(error) => wrong
            .push(OptionProblem::new(format!("{option} {text}: {error}"), "write a duration such as 500ms, 10s or 2m")),
    }
}

/// Returns the problem if the page of `--report` clearly cannot be written. This is checked before
/// the load, so that no server is loaded in vain.
fn unwritable(page: &Path) -> Option<OptionProblem> {
    let folder = page.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let option = format!("--report {}", page.display());
    if page.is_dir() {
        return Some(OptionProblem::new(
            format!("{option}: expected a file, but this is a folder"),
            "give a file, such as page.html",
        ));
    }
    (!folder.is_dir()).then(|| {
        OptionProblem::new(
            format!("{option}: there is no folder {}", folder.display()),
            "create the folder, or choose another one",
        )
    })
}

/// Target of the requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HitTarget {
    /// Scheme, host and port: `http://localhost:8080`. Of a WebSocket, the whole URL.
    pub service: String,
    /// Path and query, at least `/`. With a forward proxy, the whole URL. Empty for a WebSocket.
    pub path: String,
}

impl HitTarget {
    /// Formats the URL for people.
    pub fn shown(&self) -> String {
        let Self { service, path } = self;
        match path.as_str() {
            "" => service.split('#').next().unwrap_or_default().to_owned(),
            path if path.starts_with('/') => format!("{service}{path}"),
            path => format!("{path} through {service}"),
        }
    }
}

/// Scheme that is assumed for a URL without a scheme.
const USUAL: &str = "http";

/// Schemes of HTTP/2.
const HTTP2_CLEAR: &str = "h2c";
const HTTP2_BY_TLS: &str = "h2";

/// Returns the URL's scheme in lower case. Empty if the URL has none.
pub fn scheme_of(url: &str) -> String {
    url.split_once("://").map_or_else(String::new, |(scheme, _)| scheme.to_ascii_lowercase())
}

/// Whether the URL's scheme is one of HTTP/2.
pub fn is_http2(url: &str) -> bool {
    [HTTP2_CLEAR, HTTP2_BY_TLS].contains(&scheme_of(url).as_str())
}

/// Whether connections to the URL use TLS.
pub fn is_encrypted(url: &str) -> bool {
    ["grpcs", "https", "wss", HTTP2_BY_TLS].contains(&scheme_of(url).as_str())
}

/// Refuses `--h2c` for a URL with TLS, and `--proxy` for HTTP/2 without TLS.
fn prior_knowledge(words: &cli::Hit, place: &HitTarget) -> Option<OptionProblem> {
    let is_clear = scheme_of(&place.service) == HTTP2_CLEAR;
    if words.h2c && !is_clear {
        let what = format!("--h2c with {}: it is HTTP/2 without TLS", place.service);
        return Some(OptionProblem::new(what, "write --http2 for an https URL"));
    }
    let proxy = words.proxy.as_ref().filter(|_| is_clear)?;
    let what = format!("--proxy {}: HTTP/2 without TLS has no way through a forward proxy", without_login(proxy));
    Some(OptionProblem::new(what, "write an https URL, or leave out --http2"))
}

/// Replaces the user and password in a URL by `…`.
fn without_login(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    url[start..end].rfind('@').map_or_else(|| url.to_owned(), |at| format!("{}…{}", &url[..start], &url[start + at..]))
}

/// Returns the list of the schemes of all URLs that `hit` loads.
fn all_schemes() -> String {
    let of_web = ["http", "https", "http+unix", HTTP2_BY_TLS, HTTP2_CLEAR].into_iter();
    let known: Vec<String> = of_web.chain(message_protocols::schemes()).map(|known| format!("{known}://")).collect();
    text::listed(&known, "and")
}

/// Parses a URL with one of these schemes. Adds [`USUAL`] if the URL has no scheme. Drops the
/// fragment, which is not sent.
///
/// # Errors
///
/// Returns the problem of the URL.
pub fn place(url: &str, schemes: &[&str]) -> Result<HitTarget, OptionProblem> {
    let bad = |why: &str, remedy: &str| OptionProblem::new(format!("{}: {why}", without_login(url)), remedy);
    if url.chars().any(|character| character.is_whitespace() || character.is_control()) {
        return Err(bad("the URL contains blanks", "write %20 for a blank"));
    }
    let (scheme, rest) = url.split_once("://").unwrap_or((USUAL, url));
    let mut scheme = scheme.to_ascii_lowercase();
    if schemes.contains(&HTTP2_CLEAR) {
        // The protocol is HTTP/2, so only encryption depends on the scheme.
        scheme = match scheme.as_str() {
            "http" => HTTP2_CLEAR.to_owned(),
            "https" => HTTP2_BY_TLS.to_owned(),
            _ => scheme,
        };
    }
    if !schemes.contains(&scheme.as_str()) {
        let remedy = match authority::way_round(&scheme) {
            Some(way_round) => way_round.to_owned(),
            None => format!("`hit` takes {}; for other protocols `plimsoll new URL` writes a file", all_schemes()),
        };
        return Err(bad("`hit` does not load such a URL", &remedy));
    }
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err(bad("credentials in a URL are not supported", "send the header: -H 'Authorization: Basic …'"));
    }
    authority::check(authority).map_err(|problem| bad(problem.what, problem.remedy))?;
    // In the URL of a WebSocket, the headers of the handshake follow the sign.
    let is_socket = MessageProtocol::of(&format!("{scheme}://")) == Some(MessageProtocol::Websocket);
    let rest = if is_socket { rest } else { rest.split('#').next().unwrap_or_default() };
    let slash = if rest.starts_with('/') { "" } else { "/" };
    Ok(HitTarget { service: format!("{scheme}://{authority}"), path: format!("{slash}{rest}") })
}

/// Returns the target for requests through a forward proxy. The proxy gets whole URLs (RFC 9112,
/// 3.2.2) or, for https, opens a tunnel.
fn through(
    proxy: &str,
    place: HitTarget,
    (headers, tls): (&mut Vec<(String, String)>, &mut TlsOptions),
    wrong: &mut Vec<OptionProblem>,
) -> HitTarget {
    const FORM: &str = "write --proxy http://localhost:3128";
    let by = match self::place(proxy, &["http"]) {
        Ok(by) if by.path == "/" => by,
        Ok(_) => {
            let what = format!("--proxy {}: expected a host and a port without a path", without_login(proxy));
            wrong.push(OptionProblem::new(what, FORM));
            return place;
        }
        Err(refused) => {
            wrong.push(OptionProblem::new(format!("--proxy {}", refused.what), FORM));
            return place;
        }
    };
    let Some(authority) = place.service.strip_prefix("http://") else {
        tls.proxy = Some(by.service);
        return place;
    };
    if !headers.iter().any(|(name, _)| name == "host") {
        headers.push(("host".to_owned(), authority.to_owned()));
    }
    HitTarget { path: format!("{}{}", place.service, place.path), service: by.service }
}

/// Returns the target for requests through a Unix socket. Their `Host` header is the URL's host.
fn by_socket(
    socket: &str,
    place: HitTarget,
    headers: &mut Vec<(String, String)>,
    wrong: &mut Vec<OptionProblem>,
) -> HitTarget {
    let Some(authority) = place.service.strip_prefix("http://") else {
        let what = format!("--unix-socket {socket}: {} cannot be reached through a Unix socket", place.service);
        wrong.push(OptionProblem::new(what, "write http://localhost/ with the path"));
        return place;
    };
    let whole = std::path::absolute(socket).map(|path| path.display().to_string());
    let service = socket_url::url_of(whole.as_deref().unwrap_or(socket));
    if let Some(Err(why)) = socket_url::socket_of(&service) {
        wrong.push(OptionProblem::new(
            format!("--unix-socket {socket}: {why}"),
            "give the path of a socket that a server listens on",
        ));
        return place;
    }
    if !headers.iter().any(|(name, _)| name == "host") {
        headers.push(("host".to_owned(), authority.to_owned()));
    }
    HitTarget { service, path: place.path }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionOptions {
    /// Whether each request opens a new connection.
    pub is_closed: bool,
    /// Number of agents on each connection, if more than one.
    pub pipeline: Option<u32>,
    pub tls: TlsOptions,
}

/// Options for `https`. By default, the machine's certificate authorities are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// PEM file with the certificate authorities to trust.
    pub ca: Option<String>,
    /// Whether any certificate is accepted.
    pub is_insecure: bool,
    /// Server name to ask for and to verify, if it is not the URL's host.
    pub server_name: Option<String>,
    /// PEM file with the client's certificate.
    pub cert: Option<String>,
    /// PEM file with the client's key, if the key is not in the file `cert`.
    pub key: Option<String>,
    /// Proxy that opens a tunnel to the target.
    pub proxy: Option<String>,
}

/// Reads the options for connections. `place` is the target of the requests, if it is known.
fn read_connections(words: &cli::Hit, place: Option<&HitTarget>, wrong: &mut Vec<OptionProblem>) -> ConnectionOptions {
    let pipeline = words.pipeline.filter(|agents| *agents > 1);
    if let Some(agents) = pipeline.filter(|_| words.no_keep_alive) {
        wrong.push(OptionProblem::new(
            format!("--pipeline {agents} with --no-keep-alive: a connection for one request cannot be shared"),
            "remove one of the two",
        ));
    }
    ConnectionOptions { is_closed: words.no_keep_alive, pipeline, tls: read_tls(words, place, wrong) }
}

fn read_tls(words: &cli::Hit, place: Option<&HitTarget>, wrong: &mut Vec<OptionProblem>) -> TlsOptions {
    // A redirect may lead to https.
    let service = place.map(|place| place.service.as_str()).filter(|_| !words.location);
    wrong.extend(service.and_then(|service| unencrypted(&words.tls, service)));
    TlsOptions::read(&words.tls, wrong)
}

/// Refuses options for TLS if connections to the URL are not encrypted.
pub fn unencrypted(words: &cli::TlsWords, url: &str) -> Option<OptionProblem> {
    let given = words.given().filter(|_| !is_encrypted(url))?;
    let secure = match MessageProtocol::of(url) {
        Some(MessageProtocol::Grpc) => "grpcs",
        Some(MessageProtocol::Websocket) => "wss",
        None => "https",
    };
    Some(OptionProblem::new(
        format!("{given} without {secure}: connections to {url} are not encrypted"),
        format!("write a URL such as {secure}://localhost:8443/, or remove the option"),
    ))
}

impl TlsOptions {
    /// Reads the options, and checks that the files have what they must.
    pub fn read(words: &cli::TlsWords, wrong: &mut Vec<OptionProblem>) -> Self {
        if words.insecure && words.cacert.is_some() {
            wrong.push(OptionProblem::new(
                "--insecure with --cacert: one accepts any certificate, the other only those that the CAs in the \
                 file signed",
                "remove --insecure",
            ));
        }
        let ca = pem_file("--cacert", words.cacert.as_deref(), CERTIFICATE, wrong);
        let cert = pem_file("--cert", words.cert.as_deref(), CERTIFICATE, wrong);
        let key = pem_file("--key", words.key.as_deref(), KEY, wrong);
        // The certificate and its key may be in one file, as with curl.
        if cert.is_some() && words.key.is_none() {
            let wanted = PemKind { hint: "give the file that has the key with --key", ..KEY };
            pem_file("--cert", words.cert.as_deref(), wanted, wrong);
        }
        Self { ca, is_insecure: words.insecure, server_name: words.server_name.clone(), cert, key, proxy: None }
    }

    /// Returns the same settings in the form of a plan.
    pub fn settings(&self) -> plan::Tls {
        plan::Tls {
            ca: self.ca.clone(),
            insecure: self.is_insecure,
            server_name: self.server_name.clone(),
            cert: self.cert.clone(),
            key: self.key.clone(),
            proxy: self.proxy.clone(),
        }
    }

    /// Returns the inline table `tls` of an experiment file; `None` if no option is set.
    pub fn text(&self) -> Option<String> {
        let insecure = if self.is_insecure { Some("true".to_owned()) } else { None };
        let [ca, server_name, cert, key, proxy] = [&self.ca, &self.server_name, &self.cert, &self.key, &self.proxy]
            .map(|text| text.as_ref().map(|text| text::toml_string(text)));
        let keys = [
            ("ca", ca),
            ("insecure", insecure),
            ("server_name", server_name),
            ("cert", cert),
            ("key", key),
            ("proxy", proxy),
        ];
        let given: Vec<String> =
            keys.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}", value?))).collect();
        (!given.is_empty()).then(|| format!("{{ {} }}", given.join(", ")))
    }
}

/// Content that a PEM file must have (RFC 7468, 5.1).
#[derive(Debug, Clone, Copy)]
struct PemKind {
    what: &'static str,
    /// End of the content's first line.
    label: &'static [u8],
    hint: &'static str,
}

const CERTIFICATE: PemKind = PemKind {
    what: "certificate",
    label: b"BEGIN CERTIFICATE-----",
    hint: "give a PEM file, which contains the line BEGIN CERTIFICATE",
};
const KEY: PemKind = PemKind {
    what: "private key that is not encrypted",
    label: b"PRIVATE KEY-----",
    hint: "give a PEM file, which contains the line BEGIN PRIVATE KEY",
};
const ENCRYPTED: &[u8] = b"BEGIN ENCRYPTED PRIVATE KEY-----";

/// Checks that a given PEM file has the wanted content, and returns its path for the experiment.
fn pem_file(option: &str, file: Option<&Path>, wanted: PemKind, wrong: &mut Vec<OptionProblem>) -> Option<String> {
    read_pem(option, file?, wanted).map_err(|refused| wrong.push(refused)).ok()
}

fn read_pem(option: &str, file: &Path, wanted: PemKind) -> Result<String, OptionProblem> {
    let option = format!("{option} {}", file.display());
    let read = std::fs::read(file)
        .map_err(|error| OptionProblem::new(format!("{option}: cannot read it: {error}"), "give a PEM file"))?;
    let [is_encrypted, is_wanted] =
        [ENCRYPTED, wanted.label].map(|label| read.windows(label.len()).any(|window| window == label));
    if is_encrypted && wanted.label == KEY.label {
        return Err(OptionProblem::new(
            format!("{option}: the private key is encrypted"),
            "decrypt it: openssl pkey -in FILE -out KEY",
        ));
    }
    if !is_wanted {
        return Err(OptionProblem::new(format!("{option}: the file contains no {}", wanted.what), wanted.hint));
    }
    let path = file.to_str().map(str::to_owned);
    path.ok_or_else(|| {
        OptionProblem::new(
            format!("{option}: the path is not UTF-8"),
            "rename the file: experiment files are UTF-8 text",
        )
    })
}

impl HitOptions {
    /// Returns the method as it is sent.
    pub fn shown_method(&self) -> String {
        self.other_method.clone().unwrap_or_else(|| self.method.to_ascii_uppercase())
    }

    /// Returns the protocol, if its requests are messages.
    pub fn messages(&self) -> Option<MessageProtocol> {
        MessageProtocol::of(&self.place.service)
    }

    /// Returns the arguments of the operation: names, and templates of the values.
    pub fn arguments(&self) -> Vec<(String, String)> {
        let (header, body) = if self.messages().is_some() { ("metadata", "message") } else { ("header", "body") };
        let path = match self.messages() {
            Some(MessageProtocol::Grpc) => Some((METHOD, self.place.path.trim_matches('/').to_owned())),
            Some(MessageProtocol::Websocket) => None,
            None => Some(("path", self.place.path.clone())),
        };
        let method = self.other_method.clone().map(|method| (METHOD.to_owned(), method));
        let path = path.map(|(name, value)| (name.to_owned(), value));
        let headers = self.headers.iter().map(|(name, value)| (format!("{header}.{name}"), value.clone()));
        let body = self.body.clone().map(|text| (body.to_owned(), text));
        let match_at = self.match_at.clone().map(|place| ("match".to_owned(), place));
        method.into_iter().chain(path).chain(headers).chain(body).chain(match_at).collect()
    }
}

/// Writes the options as an experiment file.
#[must_use]
pub fn experiment(asked: &HitOptions) -> String {
    let title = format!("{} {}", asked.shown_method(), asked.place.shown());
    let mut head = vec![
        ("title", text::toml_string(&title)),
        ("asks", text::toml_string("How many requests per second, and how fast are they answered?")),
    ];
    if !asked.secrets.is_empty() {
        let names: Vec<String> = asked.secrets.iter().map(|name| text::toml_string(name)).collect();
        head.push(("secret", format!("[{}]", names.join(", "))));
    }
    head.extend(asked.seed.map(|seed| ("seed", seed.to_string())));
    let mut load = vec![("agents", asked.agents.to_string()), ("time", text::toml_string(&asked.time))];
    load.extend(asked.count.map(|count| ("count", count.to_string())));
    load.extend(asked.rate.map(|rate| ("rate", rate_text(rate))));
    load.extend(asked.timeout.as_ref().map(|timeout| ("timeout", text::toml_string(timeout))));
    load.extend(connections_text(&asked.connections));
    load.push(("warmup", text::toml_string(&asked.warmup)));
    load.extend(asked.threads.map(|threads| ("threads", threads.to_string())));
    if !asked.proto.is_empty() {
        let files: Vec<String> = asked.proto.iter().map(|file| text::toml_string(file)).collect();
        load.push(("proto", format!("[{}]", files.join(", "))));
    }
    let mut target = vec![("url", text::toml_string(&asked.place.service))];
    target.extend(asked.connections.tls.text().map(|tls| ("tls", tls)));
    let by = asked.by.as_ref().map_or_else(String::new, generator_place_text);
    let fleet = asked.generators.map(|generators| format!("\n[fleet]\ngenerators = {generators}\n{by}"));
    let mut step = vec![("call", text::toml_string(&asked.method)), ("with", table(&asked.arguments()))];
    if !asked.expects.is_empty() {
        step.push(("expect", table(&asked.expects)));
    }
    step.extend(asked.stream.as_ref().map(|until| match until.as_str() {
        "" => ("stream", "true".to_owned()),
        until => ("stream", format!("{{ until = {} }}", text::toml_string(until))),
    }));
    step.extend(asked.first_byte.then(|| ("first_byte", "true".to_owned())));
    [
        "# Made by `plimsoll hit`; `plimsoll run FILE` plays it, and every line of it can be changed.\n".to_owned(),
        lines(&head),
        "\n[target]\n".to_owned(),
        lines(&target),
        "\n[load]\n".to_owned(),
        lines(&load),
        "\n[[load.cycle]]\n".to_owned(),
        lines(&step),
        fleet.unwrap_or_default(),
    ]
    .concat()
}

fn generator_place_text(place: &GeneratorPlace) -> String {
    let (by, list, keys, values): (_, _, &[&str], _) = match place {
        GeneratorPlace::Ssh(hosts) => ("ssh", Some("hosts"), &[], hosts),
        GeneratorPlace::Command(words) => ("command", Some("start"), &[], words),
        GeneratorPlace::Kubernetes(named) => ("kubernetes", None, &["namespace", "image"], named),
        GeneratorPlace::Slurm(named) => ("slurm", None, &["partition"], named),
    };
    let values: Vec<String> = values.iter().map(|value| text::toml_string(value)).collect();
    let given: Vec<String> = keys.iter().zip(&values).map(|(key, value)| format!("{key} = {value}")).collect();
    let more = match list {
        Some(list) => format!("{list} = [{}]\n", values.join(", ")),
        None if given.is_empty() => String::new(),
        None => format!("{by} = {{ {} }}\n", given.join(", ")),
    };
    format!("by = \"{by}\"\n{more}")
}

fn rate_text(rate: RequestRate) -> String {
    if rate.is_poisson { format!("{{ poisson = {} }}", rate.per_s) } else { rate.per_s.to_string() }
}

fn connections_text(connections: &ConnectionOptions) -> Vec<(&'static str, String)> {
    let closed = connections.is_closed.then(|| ("keep_alive", "false".to_owned()));
    let pipeline = connections.pipeline.map(|agents| ("pipeline", agents.to_string()));
    closed.into_iter().chain(pipeline).collect()
}

/// Formats `key = value` lines with aligned equals signs.
fn lines(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    pairs.iter().map(|(key, value)| format!("{key:width$} = {value}\n")).collect()
}

/// Formats an inline table of texts.
fn table(pairs: &[(String, String)]) -> String {
    let pairs: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{} = {}", key(name), text::toml_string(value))).collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// Formats a TOML key. Quotes it if necessary: a dot in a header's name would separate keys.
fn key(name: &str) -> String {
    let is_bare = name.splitn(2, '.').all(|part| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    });
    if is_bare { name.to_owned() } else { text::toml_string(name) }
}
