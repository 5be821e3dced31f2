//! Steps of an experiment, from the requests of a recording: requests to one host, without what the
//! engine writes itself, each once.

use std::collections::HashMap;

use crate::ImportError;
use crate::credentials::Variables;
use crate::header_rules;
use crate::left_out::LeftOut;
use crate::multipart;
use crate::placeholder::{shown, template};
use crate::recording::{ImportedRecording, RecordedBody, RecordedRequest, RequestOrder};
use crate::web_address::WebAddress;

/// Maximum number of steps.
const STEPS: usize = 60;
/// Methods with an operation of their own. Others are an argument of the operation `request`.
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
/// Longest name of a step, characters.
const LONGEST_NAME: usize = 48;

/// A step of the experiment. Its texts are templates.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedStep {
    pub name: String,
    pub call: String,
    /// Arguments: `path`, `header.NAME` and `body`.
    pub with: Vec<(String, String)>,
    pub expected_status: Option<u16>,
    /// Reason why the step has no body.
    pub missing_body: Option<String>,
    pub think_s: Option<f64>,
    /// Number of equal requests in the source.
    pub count: usize,
}

impl ImportedStep {
    /// Whether the request may change data.
    pub fn may_change(&self) -> bool {
        let method = self.with.iter().find(|(name, _)| name == "method").map_or(&self.call, |(_, method)| method);
        !matches!(method.as_str(), "get" | "head" | "OPTIONS" | "PROPFIND" | "QUERY" | "REPORT" | "SEARCH" | "TRACE")
    }
}

/// Steps with the service that they go to.
#[derive(Debug, Clone, PartialEq)]
pub struct StepList {
    pub service: String,
    pub steps: Vec<ImportedStep>,
    pub variables: Variables,
}

/// Turns the requests of a recording into steps.
///
/// # Errors
/// No request can be sent.
pub fn of(recording: &mut ImportedRecording, recorded: bool) -> Result<StepList, ImportError> {
    let requests = std::mem::take(&mut recording.requests);
    let (service, requests) = to_one_service(requests, &mut recording.left_out)?;
    let base = recording.base.as_deref().and_then(|base| base.strip_prefix(&service)).unwrap_or_default().to_owned();
    let mut variables = Variables::default();
    let mut steps: Vec<ImportedStep> = Vec::new();
    let mut places: HashMap<_, usize> = HashMap::new();
    let pauses = pauses(requests.iter().map(|(_, request)| request));
    for ((address, request), think_s) in requests.into_iter().zip(pauses) {
        let step = ImportedStep {
            think_s,
            ..step(&address, request, &base, recorded, (&mut variables, &mut recording.left_out))
        };
        let known = places.entry((step.call.clone(), step.with.clone(), step.missing_body.clone()));
        let place = *known.or_insert(steps.len());
        match steps.get_mut(place) {
            Some(known) => {
                known.count += 1;
                known.think_s = known.think_s.or(step.think_s);
            }
            None => steps.push(step),
        }
    }
    if recording.order == RequestOrder::Mix {
        // The sort is stable: steps of one count stay in the order of the source.
        steps.sort_by_key(|step| std::cmp::Reverse(step.count));
    }
    for step in steps.drain(STEPS.min(steps.len())..) {
        let path = step.with.first().map(|(_, path)| path.as_str()).unwrap_or_default();
        let item = format!("{} {path}", step.call.to_ascii_uppercase());
        recording.left_out.add_many("requests beyond the first 60 different ones", &item, step.count);
    }
    name(&mut steps);
    Ok(StepList { service: format!("{service}{base}"), steps, variables })
}

/// Shortest pause between two requests that counts as the user's, seconds.
const PAUSE_S: f64 = 1.0;

/// Returns the pause after each request, until the next one begins, seconds.
fn pauses<'a>(requests: impl Iterator<Item = &'a RecordedRequest> + Clone) -> Vec<Option<f64>> {
    let mut ended_s = f64::MIN;
    let next = requests.clone().skip(1).map(|request| request.at_s).chain([None]);
    requests
        .zip(next)
        .map(|(request, next_s)| {
            ended_s = ended_s.max(request.at_s? + request.took_s);
            Some(next_s? - ended_s).filter(|pause_s| *pause_s >= PAUSE_S)
        })
        .collect()
}

/// Returns the most frequent service with its requests. Leaves out the others.
fn to_one_service(
    requests: Vec<RecordedRequest>,
    left_out: &mut LeftOut,
) -> Result<(String, Vec<(WebAddress, RecordedRequest)>), ImportError> {
    let mut sendable = Vec::new();
    for request in requests {
        match WebAddress::parse(&request.url) {
            Err(why) => left_out.add("requests with a URL that Plimsoll cannot load", &why),
            Ok(_) if !is_sendable(&request.method) => {
                left_out.add("requests with a method that Plimsoll does not send", &request.method);
            }
            Ok(address) => sendable.push((address, request)),
        }
    }
    let mut services: Vec<(String, usize)> = Vec::new();
    for (address, _) in &sendable {
        match services.iter_mut().find(|(service, _)| *service == address.service) {
            Some((_, count)) => *count += 1,
            None => services.push((address.service.clone(), 1)),
        }
    }
    // The first of equally frequent services counts.
    let most = services.iter().map(|(_, count)| *count).max();
    let Some((service, _)) = services.iter().find(|(_, count)| Some(*count) == most).cloned() else {
        let why: Vec<String> = left_out.paragraphs().collect();
        let why = if why.is_empty() { String::new() } else { format!(" (left out: {})", why.join("; ")) };
        return Err(ImportError::new(
            format!("there is no request that Plimsoll can send{why}"),
            "at least one request of an http:// or https:// URL",
        ));
    };
    for (other, count) in services.iter().filter(|(other, _)| *other != service) {
        left_out.add_many("requests to other hosts", other, *count);
    }
    sendable.retain(|(address, _)| address.service == service);
    Ok((service, sendable))
}

fn step(
    address: &WebAddress,
    request: RecordedRequest,
    base: &str,
    recorded: bool,
    (variables, left_out): (&mut Variables, &mut LeftOut),
) -> ImportedStep {
    let path = address.path.strip_prefix(base).filter(|rest| rest.starts_with('/')).unwrap_or(&address.path);
    let path = variables.path(path);
    let has_operation = METHODS.contains(&request.method.as_str());
    let method = (!has_operation).then(|| ("method".to_owned(), template(&request.method)));
    let mut with: Vec<(String, String)> = method.into_iter().chain([("path".to_owned(), template(&path))]).collect();
    let mut headers = headers(&request, address, recorded, left_out);
    if let Some(login) = address.login.as_deref().filter(|_| !headers.iter().any(|(name, _)| name == "authorization")) {
        headers.push(("authorization".to_owned(), format!("Basic {}", shown(login))));
    }
    for (name, value) in headers {
        with.push((format!("header.{name}"), template(&variables.header(&name, &value))));
    }
    let missing_body = add_body(request.body, &mut with, variables);
    missing_body.iter().for_each(|why| left_out.add("bodies", why));
    // An answer that is no success is expected: the recording had it, too. A conditional request
    // is left out, so a 304 becomes a 200.
    let expected_status = request.status.filter(|status| (300..500).contains(status) && *status != 304);
    ImportedStep {
        name: step_name(&request.name, &request.method, &path),
        call: if has_operation { request.method.to_ascii_lowercase() } else { "request".to_owned() },
        with,
        expected_status,
        missing_body,
        think_s: None,
        count: 1,
    }
}

/// Adds the body to a step's arguments. Returns the reason why it is left out, if it is.
fn add_body(body: RecordedBody, with: &mut Vec<(String, String)>, variables: &mut Variables) -> Option<String> {
    if let RecordedBody::Parts(parts) = &body
        && let Some(arguments) = multipart::arguments(parts, variables)
    {
        with.retain(|(name, _)| name != "header.content-type");
        with.extend(arguments);
        return None;
    }
    match body.in_one_text() {
        RecordedBody::None | RecordedBody::Parts(_) => None,
        RecordedBody::Text(body) => {
            with.push(("body".to_owned(), template(&variables.body(&body))));
            None
        }
        RecordedBody::LeftOut(why) => Some(why),
    }
}

/// Whether Plimsoll can send a request with this method: a token, but not CONNECT, which opens a
/// tunnel.
pub fn is_sendable(method: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !method.is_empty() && method.bytes().all(is_token) && method != "CONNECT"
}

/// Returns the headers of a step, each once, with names in lower case.
pub fn headers(
    request: &RecordedRequest,
    address: &WebAddress,
    recorded: bool,
    left_out: &mut LeftOut,
) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    let host = address.service.split_once("://").map(|(_, host)| host).unwrap_or_default();
    for (name, value) in &request.headers {
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        let is_other_host = name == "host" && !value.eq_ignore_ascii_case(host) && !value.is_empty();
        let kind = header_rules::left_out_as(&name, value, (recorded, &request.method)).filter(|_| !is_other_host);
        if let Some(kind) = kind {
            left_out.add(kind, &name);
            continue;
        }
        match headers.iter_mut().find(|(known, _)| *known == name) {
            None => headers.push((name, value.to_owned())),
            // One header holds all cookies (RFC 6265, 4.2.1).
            Some((_, known)) if name == "cookie" => known.push_str(&format!("; {value}")),
            Some((_, known)) if known != value => known.push_str(&format!(", {value}")),
            Some(_) => {}
        }
    }
    headers
}

/// Returns a name of small letters, digits and `-`.
fn step_name(given: &Option<String>, method: &str, path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let wanted = match given {
        Some(name) if name.bytes().any(|byte| byte.is_ascii_alphanumeric()) => shown(name),
        _ => format!("{method} {}", without_placeholders(path)),
    };
    let mut name = String::new();
    let mut was_small = false;
    for one in wanted.chars() {
        // `findPetById` becomes `find-pet-by-id`.
        if one.is_ascii_uppercase() && was_small && !name.ends_with('-') {
            name.push('-');
        }
        was_small = one.is_ascii_lowercase();
        match one.is_ascii_alphanumeric() {
            true => name.push(one.to_ascii_lowercase()),
            false if !name.ends_with('-') && !name.is_empty() => name.push('-'),
            false => {}
        }
        if name.len() >= LONGEST_NAME {
            break;
        }
    }
    let name = name.trim_matches('-');
    if name.is_empty() { method.to_ascii_lowercase() } else { name.to_owned() }
}

/// Returns the text without its placeholders: a random number is no part of a name.
fn without_placeholders(path: &str) -> String {
    let mut literal = path.to_owned();
    while let (Some(from), Some(to)) = (literal.find('\u{fdd0}'), literal.find('\u{fdd1}')) {
        if from > to {
            break;
        }
        literal.replace_range(from..to + '\u{fdd1}'.len_utf8(), "");
    }
    literal
}

/// Makes the names different: `get-items`, `get-items-2`.
fn name(steps: &mut [ImportedStep]) {
    for index in 1..steps.len() {
        let (before, rest) = steps.split_at_mut(index);
        let Some(step) = rest.first_mut() else { continue };
        let is_known = |name: &str| before.iter().any(|other| other.name == name);
        if is_known(&step.name) {
            let numbered = (2..).map(|number: u32| format!("{}-{number}", step.name));
            step.name = numbered.into_iter().find(|name| !is_known(name)).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, url: &str) -> RecordedRequest {
        RecordedRequest { method: method.to_owned(), url: url.to_owned(), ..RecordedRequest::default() }
    }

    fn steps(requests: Vec<RecordedRequest>, order: RequestOrder) -> (StepList, ImportedRecording) {
        let mut recording = ImportedRecording { order, requests, ..ImportedRecording::default() };
        let steps = of(&mut recording, false).unwrap();
        (steps, recording)
    }

    #[test]
    fn the_most_frequent_host_is_kept_and_repeats_are_counted() {
        let requests = vec![
            request("GET", "http://a/x"),
            request("GET", "http://b/x"),
            request("GET", "http://b/x"),
            request("GET", "http://b/y"),
            request("PROPFIND", "http://b/y"),
            request("CONNECT", "http://b/y"),
            request("NO WAY", "http://b/y"),
        ];
        let (list, recording) = steps(requests, RequestOrder::Session);
        assert_eq!(list.service, "http://b");
        let counts: Vec<(&str, usize)> = list.steps.iter().map(|step| (step.name.as_str(), step.count)).collect();
        assert_eq!(counts, [("get-x", 2), ("get-y", 1), ("propfind-y", 1)]);
        let other = &list.steps[2];
        assert_eq!((other.call.as_str(), &other.with[0]), ("request", &("method".to_owned(), "PROPFIND".to_owned())));
        assert_eq!(list.steps.iter().filter(|step| step.may_change()).count(), 0);
        let left_out: Vec<String> = recording.left_out.paragraphs().collect();
        assert_eq!(left_out.len(), 2, "{left_out:?}");
    }

    #[test]
    fn steps_beyond_the_limit_are_listed() {
        let mut requests: Vec<_> = (0..65).map(|number| request("GET", &format!("http://a/{number}"))).collect();
        requests.push(request("GET", "http://a/64"));
        let (list, recording) = steps(requests.clone(), RequestOrder::Session);
        assert_eq!((list.steps.len(), list.steps[59].with[0].1.as_str()), (60, "/59"));
        assert!(
            recording
                .left_out
                .paragraphs()
                .next()
                .unwrap()
                .starts_with("requests beyond the first 60 different ones (6): ")
        );
        let (list, _) = steps(requests, RequestOrder::Mix);
        assert_eq!(list.steps[0].with[0].1, "/64", "a mix keeps the most frequent");
    }

    #[test]
    fn names_are_different_and_short() {
        let of = |given: Option<&str>, path: &str| step_name(&given.map(str::to_owned), "GET", path);
        assert_eq!(of(Some("findPetById"), "/"), "find-pet-by-id");
        assert_eq!(of(None, "/"), "get");
        assert_eq!(of(None, "/API/v1/Items?x=1"), "get-api-v1-items");
        assert_eq!(of(Some("日本"), "/a"), "get-a");
        assert!(of(Some(&"long ".repeat(30)), "/").len() <= LONGEST_NAME);
        let (list, _) = steps(vec![request("GET", "http://a/x?1"), request("GET", "http://a/x?2")], RequestOrder::Mix);
        assert_eq!(list.steps[1].name, "get-x-2");
    }

    #[test]
    fn a_recording_without_requests_is_refused_with_the_reason() {
        let mut recording =
            ImportedRecording { requests: vec![request("GET", "ws://a/")], ..ImportedRecording::default() };
        let error = of(&mut recording, false).unwrap_err();
        assert!(error.what.contains("ws://") && error.expected.contains("http://"), "{error:?}");
    }
}
