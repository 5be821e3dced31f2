//! The options of `plimsoll hit`, read and checked: everything that is wrong with them is said at once. It must not write an experiment
//! or play one.

use std::path::Path;

use experiment::catalog::{Field, Operation, Protocol};
use experiment::duration;
use experiment::pointer::{self, Pointer};

use super::connections::{self, Connections};
use super::place::{Place, place};
use crate::cli;

/// What was asked for, as an experiment says it: texts are templates, durations have units.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Where.
    pub place: Place,
    /// An operation of the protocol.
    pub method: String,
    /// Names and values, in the order given.
    pub headers: Vec<(String, String)>,
    /// What no record may have.
    pub secrets: Vec<String>,
    /// The request's body.
    pub body: Option<String>,
    /// How agents are connected.
    pub connections: Connections,
    /// Fields of the answer or places in them, and what they have to be.
    pub expects: Vec<(String, String)>,
    /// Agents.
    pub agents: u32,
    /// Length of the load.
    pub time: String,
    /// What is cut off before figures are taken.
    pub warmup: String,
    /// Of each request, if not the usual one.
    pub timeout: Option<String>,
    /// In an open loop.
    pub rate: Option<Rate>,
    /// Generator threads, if not the usual number.
    pub threads: Option<u32>,
    /// Where randomness comes from, if not the usual one.
    pub seed: Option<u32>,
}

/// A schedule of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Requests per second.
    pub per_s: f64,
    /// Whether they come at random.
    pub is_poisson: bool,
}

/// An option that cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong with it.
    pub what: String,
    /// What to write instead.
    pub remedy: String,
}

impl Wrong {
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

/// How long, if nobody says.
const TIME: &str = "10s";

/// Reads the options; `protocol` is what URLs of its schemes are spoken to in.
///
/// # Errors
/// Everything that is wrong with them.
pub fn read(words: &cli::Hit, protocol: &Protocol) -> Result<Asked, Vec<Wrong>> {
    let mut wrong = Vec::new();
    let place = place(&words.url, protocol.schemes).map_err(|refused| wrong.push(refused)).ok();
    let body = words.body.as_deref().and_then(|body| self::body(body).map_err(|refused| wrong.push(refused)).ok());
    wrong.extend(duration_as_body(words));
    let operation = operation(words, protocol).map_err(|refused| wrong.push(refused)).ok();
    let headers = headers(&words.headers, &mut wrong);
    let expects = expects(&words.expects, operation, &mut wrong);
    let connections = connections::read(words, place.as_ref(), &mut wrong);
    let time = time(words, &mut wrong);
    at_random(words, &mut wrong);
    if words.warmup != "auto" {
        check_duration("--warmup", &words.warmup, true, &mut wrong);
    }
    if let Some(timeout) = &words.timeout {
        check_duration("--timeout", timeout, false, &mut wrong);
    }
    if let Some(page) = &words.report {
        wrong.extend(unwritable(page));
    }
    let (Some(place), Some(operation)) = (place, operation) else { return Err(wrong) };
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let template = |text: String| if words.templates { text } else { literal(&text) };
    let templates = |pairs: Vec<(String, String)>| -> Vec<(String, String)> {
        pairs.into_iter().map(|(name, text)| (name, template(text))).collect()
    };
    Ok(Asked {
        place: Place { path: template(place.path), ..place },
        method: operation.name.to_owned(),
        headers: templates(headers),
        secrets: words.secrets.clone(),
        body: body.map(template),
        connections,
        expects: templates(expects),
        agents: words.agents,
        time,
        warmup: words.warmup.clone(),
        timeout: words.timeout.clone(),
        rate: words.rate.map(|per_s| Rate { per_s, is_poisson: words.poisson }),
        threads: words.threads,
        seed: words.seed,
    })
}

/// The template that is this text: braces are braces.
fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// wrk's `-d 30s` would put a load of 30-second strings on the target, and for a time that nobody chose.
fn duration_as_body(words: &cli::Hit) -> Option<Wrong> {
    let body = words.body.as_deref().filter(|body| words.method.is_none() && duration::parse_s(body).is_ok())?;
    Some(Wrong::new(
        format!("-d {body}: that is a duration, and -d takes a body, as with curl"),
        format!("a duration is -t {body}; if {body:?} is what to send, say how as well: -m POST -d {body}"),
    ))
}

/// `-d BODY`, `-d @FILE`.
fn body(text: &str) -> Result<String, Wrong> {
    let Some(file) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let read = std::fs::read(file).map_err(|error| {
        Wrong::new(
            format!("-d {text}: cannot read {file}: {error}"),
            "give a file, or a body that does not begin with @",
        )
    })?;
    String::from_utf8(read).map_err(|_| {
        Wrong::new(
            format!("-d {text}: {file} is not a text"),
            "an experiment is a text, and so are the bodies in it (UTF-8)",
        )
    })
}

/// What the method asks for; without one, a body decides.
fn operation(words: &cli::Hit, protocol: &Protocol) -> Result<&'static Operation, Wrong> {
    let usual = if words.body.is_some() { "post" } else { "get" };
    let method = words.method.as_deref().unwrap_or(usual).to_ascii_lowercase();
    protocol.operations.iter().find(|operation| operation.name == method).ok_or_else(|| {
        let known = protocol.operations.iter().map(|operation| operation.name.to_ascii_uppercase());
        let known: Vec<String> = known.collect();
        Wrong::new(
            format!("-m {}: no such method", method.to_ascii_uppercase()),
            format!("there are {}", known.join(", ")),
        )
    })
}

/// `-H 'Name: value'`, each name once.
fn headers(given: &[String], wrong: &mut Vec<Wrong>) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for text in given {
        match header(text) {
            Ok((name, _)) if headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name)) => {
                wrong.push(Wrong::new(
                    format!("-H {name}: it is given twice"),
                    "write its values into one, with commas",
                ));
            }
            Ok(header) => headers.push(header),
            Err(refused) => wrong.push(refused),
        }
    }
    headers
}

fn header(text: &str) -> Result<(String, String), Wrong> {
    const FORM: &str = "write -H 'Name: value'";
    // Of a header only the name: the value may be a secret.
    let shown = text.split_once(':').map_or(text, |(name, _)| name);
    let bad = |why: &str| Wrong::new(format!("-H {shown:?}: {why}"), FORM);
    let (name, value) = text.split_once(':').ok_or_else(|| bad("there is no colon"))?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(bad("what stands before the colon is no name of a header"));
    }
    let value = value.trim();
    if value.chars().any(|character| character.is_control() && character != '\t') {
        return Err(bad("a line break or another control character cannot be in a header"));
    }
    // The one header that the engine looks for, to leave its own out.
    let name = if name.eq_ignore_ascii_case("host") { "host" } else { name };
    Ok((name.to_owned(), value.to_owned()))
}

/// `--expect status=200`, each field once, and a field of the answer to this operation, if that is known.
fn expects(given: &[String], operation: Option<&'static Operation>, wrong: &mut Vec<Wrong>) -> Vec<(String, String)> {
    let mut expects: Vec<(String, String)> = Vec::new();
    for text in given {
        let Some((field, value)) = text.split_once('=') else {
            wrong.push(Wrong::new(format!("--expect {text}: there is no ="), "write --expect status=200"));
            continue;
        };
        let (whole, inside) = pointer::split(field);
        if let Some(operation) =
            operation.filter(|operation| !operation.answers.iter().any(|known| goes_by(known, whole)))
        {
            let known: Vec<&str> = operation.answers.iter().map(|field| field.name).collect();
            wrong.push(Wrong::new(
                format!("--expect {text}: an answer has no `{whole}`"),
                format!("there are {}, and places in JSON such as body/items/0/id", known.join(", ")),
            ));
        } else if let Some(Err(error)) = inside.map(Pointer::parse) {
            wrong.push(Wrong::new(format!("--expect {text}: {error}"), "write --expect body/items/0/id=7"));
        } else if expects.iter().any(|(other, _)| other == field) {
            wrong.push(Wrong::new(format!("--expect {text}: `{field}` is expected twice"), "write it once"));
        } else {
            expects.push((field.to_owned(), value.to_owned()));
        }
    }
    expects
}

/// Whether the field has this name; `header.*` has every name that begins with `header.`.
fn goes_by(field: &Field, name: &str) -> bool {
    match field.name.strip_suffix('*') {
        Some(prefix) => name.len() > prefix.len() && name.starts_with(prefix),
        None => field.name == name,
    }
}

/// What has to do with each other and cannot: a schedule at random without one, or of exactly so many.
fn at_random(words: &cli::Hit, wrong: &mut Vec<Wrong>) {
    if !words.poisson {
        return;
    }
    if words.rate.is_none() {
        wrong.push(Wrong::new("--poisson without --rate: there is no schedule", "add --rate, such as --rate 1000"));
    }
    if let Some(requests) = words.requests {
        wrong.push(Wrong::new(
            format!("-n {requests} with --poisson: how many come is random, too"),
            "write --time; it will be so many on average",
        ));
    }
}

/// `--time`, or how long so many requests take at the rate.
fn time(words: &cli::Hit, wrong: &mut Vec<Wrong>) -> String {
    if let Some(rate) = words.rate
        && !(rate.is_finite() && rate > 0.0)
    {
        wrong.push(Wrong::new(format!("--rate {rate}: not a rate"), "write a number above 0"));
        return TIME.to_owned();
    }
    if let (Some(requests), Some(time)) = (words.requests, &words.time) {
        wrong.push(Wrong::new(
            format!("-n {requests} with --time {time}: each says when the load ends"),
            "leave one of the two out",
        ));
    }
    match (words.requests, words.rate) {
        (Some(requests), Some(rate)) => for_requests(requests, rate),
        (Some(requests), None) if words.time.is_none() => {
            wrong.push(Wrong::new(
                format!("-n {requests} without --rate: a load ends by the clock"),
                "agents that wait for answers share no count, so that none has to ask the others; \
                 write --time, or add --rate: then it is exactly so many",
            ));
            TIME.to_owned()
        }
        _ => {
            let time = words.time.as_deref().unwrap_or(TIME);
            check_duration("--time", time, false, wrong);
            time.to_owned()
        }
    }
}

/// A load at a rate has exactly the requests that are due before its end: the last one of these is, the next is not.
fn for_requests(requests: u64, rate: f64) -> String {
    // Microseconds, rounded down: no more than a microsecond too short, so that up to a million a second none is missing.
    let us = (requests as f64 / rate * 1e6).floor().max(1.0);
    format!("{}s", us / 1e6)
}

fn check_duration(option: &str, text: &str, may_be_zero: bool, wrong: &mut Vec<Wrong>) {
    match duration::parse_s(text) {
        Ok(seconds) if seconds > 0.0 || may_be_zero => {}
        Ok(_) => wrong.push(Wrong::new(format!("{option} {text}: no time at all"), "write a duration such as 10s")),
        Err(duration::DurationError::NoUnit) => {
            wrong.push(Wrong::new(
                format!("{option} {text}: a duration has a unit"),
                format!("write {option} {}s", text.trim()),
            ));
        }
        Err(error) => {
            wrong.push(Wrong::new(format!("{option} {text}: {error}"), "write a duration such as 500ms, 10s or 2m"))
        }
    }
}

/// Why a page cannot be written there, as far as that is known before: nobody should have to load a server for it.
fn unwritable(page: &Path) -> Option<Wrong> {
    let folder = page.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let option = format!("--report {}", page.display());
    if page.is_dir() {
        return Some(Wrong::new(format!("{option}: that is a folder"), "give a file, such as page.html"));
    }
    (!folder.is_dir()).then(|| {
        Wrong::new(format!("{option}: there is no folder {}", folder.display()), "make it first, or give another")
    })
}
