//! Access logs of web servers: common and combined lines, and JSON lines as of nginx, Caddy and
//! Traefik. Their requests are played again at their times.

use jiff::Timestamp;
use serde_json::Value;

use super::{Content, Format};
use crate::credentials::is_secret;
use crate::experiment_text::{ExperimentHead, seconds};
use crate::left_out::{LeftOut, comment};
use crate::recording::{ImportedRecording, RecordedRequest, RequestOrder};
use crate::web_address::WebAddress;
use crate::{ImportError, ImportSource, ImportedExperiment};

pub const FORMAT: Format =
    Format { name: "access-log", title: "an access log", is_of_a_browser: false, recognises, read };

const ENTRY: &str = "lines such as `::1 - - [10/Oct/2025:13:55:36 +0000] \"GET /index.html HTTP/1.1\" 200 2326`, or JSON \
                     lines with a time, a method and a path";
/// Number of lines that the detection looks at.
const LOOKED_AT: usize = 50;
/// Host of requests whose log does not name one.
const UNKNOWN_HOST: &str = "http://127.0.0.1:8080";
/// Longest load that is written without being asked for, seconds.
const LONGEST_S: f64 = 600.0;

fn recognises(content: &Content<'_>) -> bool {
    content.text.lines().take(LOOKED_AT).any(|line| entry(line).is_some())
}

fn read(source: &ImportSource<'_>) -> Result<ImportedRecording, ImportError> {
    let mut recording = ImportedRecording { order: RequestOrder::Log, ..ImportedRecording::default() };
    let mut first_bad = None;
    for (index, line) in source.text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match entry(line) {
            Some(request) => recording.requests.push(request),
            None => {
                first_bad = first_bad.or(Some(index + 1));
                recording.left_out.add("lines that are not entries of an access log", "");
            }
        }
    }
    match (recording.requests.is_empty(), first_bad) {
        (false, _) => Ok(recording),
        (true, Some(line)) => Err(ImportError::at(line, "this is no entry of an access log", ENTRY)),
        (true, None) => Err(ImportError::new("the file is empty", ENTRY)),
    }
}

fn entry(line: &str) -> Option<RecordedRequest> {
    let line = line.trim();
    if line.starts_with('{') { json_entry(&serde_json::from_str(line).ok()?) } else { text_entry(line) }
}

/// Reads a line in the common or combined format, also with fields before or after it.
fn text_entry(line: &str) -> Option<RecordedRequest> {
    let (time, behind) = line.match_indices('[').find_map(|(at, _)| {
        let (time, behind) = line.get(at + 1..)?.split_once(']')?;
        Some((clock_time(time)?, behind))
    })?;
    let quoted = behind.split_once('"')?.1;
    let mut end = 0;
    let mut is_escaped = false;
    for byte in quoted.bytes() {
        match byte {
            b'"' if !is_escaped => break,
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
        end += 1;
    }
    let (method, path) = request_line(quoted.get(..end)?)?;
    let status = quoted.get(end + 1..)?.split_whitespace().next().and_then(|status| status.parse().ok());
    Some(RecordedRequest { method, url: path, status, at_s: Some(time), ..RecordedRequest::default() })
}

/// Splits `GET /path HTTP/1.1`. Requests that are no HTTP have an empty method.
fn request_line(line: &str) -> Option<(String, String)> {
    let (method, rest) = line.split_once(' ').unwrap_or(("", line));
    let path = rest.rsplit_once(" HTTP/").map_or(rest, |(path, _)| path);
    let is_method =
        !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_' || byte == b'-');
    Some(if is_method { (method.to_owned(), path.to_owned()) } else { (String::new(), line.to_owned()) })
}

/// Returns the Unix time of `10/Oct/2025:13:55:36 +0000` or of an ISO 8601 time, seconds.
fn clock_time(text: &str) -> Option<f64> {
    let text = text.trim();
    let time = jiff::fmt::strtime::parse("%d/%b/%Y:%H:%M:%S%.f %z", text).and_then(|parsed| parsed.to_timestamp());
    let time =
        time.or_else(|_| text.parse::<Timestamp>()).or_else(|_| format!("{}Z", text.replacen(' ', "T", 1)).parse());
    Some(time.ok()?.as_nanosecond() as f64 / 1e9)
}

const TIMES: [&str; 12] = [
    "ts",
    "time",
    "timestamp",
    "@timestamp",
    "time_iso8601",
    "time_local",
    "msec",
    "StartUTC",
    "start_time",
    "StartLocal",
    "datetime",
    "date",
];
const METHODS: [&str; 6] = ["method", "request_method", "RequestMethod", "http_method", "requestMethod", "verb"];
const PATHS: [&str; 10] = [
    "uri",
    "request_uri",
    "RequestPath",
    "path",
    "url",
    "requestUrl",
    "request_url",
    "request_path",
    "target",
    "x-envoy-original-path",
];
const HOSTS: [&str; 7] = ["host", "http_host", "RequestHost", "server_name", "vhost", "authority", "domain"];
const STATUSES: [&str; 5] = ["status", "DownstreamStatus", "status_code", "response_code", "code"];
/// Members in which the fields of a request may be.
const NESTED: [&str; 4] = ["request", "httpRequest", "http", "req"];

fn json_entry(json: &Value) -> Option<RecordedRequest> {
    let nested: Vec<&Value> = std::iter::once(json)
        .chain(NESTED.iter().filter_map(|name| json.get(name)).filter(|value| value.is_object()))
        .collect();
    let find = |names: &[&str]| nested.iter().rev().find_map(|value| names.iter().find_map(|name| value.get(name)));
    let find_text = |names: &[&str]| find(names).and_then(Value::as_str).map(str::to_owned);
    let at_s = find(&TIMES).and_then(json_time)?;
    let line = json.get("request").and_then(Value::as_str).and_then(request_line);
    let (method, mut path) = match (find_text(&METHODS), find_text(&PATHS), line) {
        (Some(method), Some(path), _) => (method.to_ascii_uppercase(), path),
        (_, _, Some(line)) => line,
        _ => return None,
    };
    let query = find_text(&["query", "args", "query_string"]).filter(|query| !query.is_empty() && query != "-");
    if let Some(query) = query.filter(|_| !path.contains('?')) {
        path = format!("{path}?{}", query.trim_start_matches('?'));
    }
    let host = find_text(&HOSTS).filter(|host| !host.is_empty() && !matches!(host.as_str(), "-" | "_" | "localhost"));
    let is_tls = find(&["tls"]).is_some_and(|tls| !tls.is_null())
        || find_text(&["scheme", "RequestScheme"]).is_some_and(|scheme| scheme == "https");
    let url = match host.filter(|_| path.starts_with('/')) {
        Some(host) => format!("{}://{host}{path}", if is_tls { "https" } else { "http" }),
        None => path,
    };
    let status = find(&STATUSES).and_then(|status| status.as_u64().or(status.as_str()?.parse().ok()));
    let status = status.and_then(|status| u16::try_from(status).ok());
    Some(RecordedRequest { method, url, status, at_s: Some(at_s), ..RecordedRequest::default() })
}

/// Returns the Unix time of a JSON value, seconds. Large numbers are in milli-, micro- or
/// nanoseconds.
fn json_time(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => match clock_time(text) {
            Some(time) => return Some(time),
            None => text.parse().ok()?,
        },
        other => other.as_f64()?,
    };
    let scale = [(1e17, 1e9), (1e14, 1e6), (1e11, 1e3)].into_iter().find(|(from, _)| number >= *from);
    Some(number / scale.map_or(1.0, |(_, scale)| scale)).filter(|time| time.is_finite() && *time >= 0.0)
}

/// Writes a log as an experiment with a CSV file of starts and paths.
///
/// # Errors
/// No request of the log can be played again.
pub fn experiment(
    source: &ImportSource<'_>,
    mut recording: ImportedRecording,
    csv_name: &str,
) -> Result<ImportedExperiment, ImportError> {
    let requests = std::mem::take(&mut recording.requests);
    let (service, mut starts) = starts(requests, &mut recording.left_out);
    if starts.is_empty() {
        let why: Vec<String> = recording.left_out.paragraphs().collect();
        return Err(ImportError::new(
            format!("there is no request that can be played again (left out: {})", why.join("; ")),
            "at least one GET request for a path that begins with `/`",
        ));
    }
    starts.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let is_in_seconds = starts.iter().all(|(at_s, _)| at_s.fract() == 0.0);
    if is_in_seconds {
        spread(&mut starts);
    }
    let first_s = starts.first().map_or(0.0, |(at_s, _)| *at_s);
    let mut hidden = 0;
    let mut csv = String::from("at_s,path\n");
    for (at_s, path) in &starts {
        let path = without_credentials(path, &mut hidden);
        csv.push_str(&format!("{:.6},\"{}\"\n", at_s - first_s, path.replace('"', "\"\"")));
    }
    let length_s = starts.last().map_or(0.0, |(at_s, _)| at_s - first_s).ceil() + 1.0;
    let notes = notes(starts.len(), length_s, service.is_none(), is_in_seconds, hidden);
    let service = service.unwrap_or_else(|| UNKNOWN_HOST.to_owned());
    let title = format!("Requests of {}", comment(source.name));
    let head = ExperimentHead {
        source: source.name,
        format: FORMAT.title,
        notes: &notes,
        variables: &[],
        left_out: &recording.left_out,
        title: &title,
        service: &service,
        is_insecure: false,
    };
    let csv_name = text::toml_string(csv_name);
    let text = format!(
        "{}\n[load]\nagents = {}\ntime   = \"{}\"\nrate   = {{ replay = {csv_name} }}\n\n\
         [[load.feed]]\nname = \"requests\"\nfile = {csv_name}\n\n\
         [[load.cycle]]\nname = \"get\"\ncall = \"get\"\nwith = {{ path = \"{{feed.requests.path}}\" }}\n",
        head.text(),
        agents(&starts),
        seconds(length_s.min(LONGEST_S)),
    );
    Ok(ImportedExperiment { text, csv: Some(csv) })
}

/// Returns the most frequent host, if the log names hosts, and the times and paths of its requests.
fn starts(requests: Vec<RecordedRequest>, left_out: &mut LeftOut) -> (Option<String>, Vec<(f64, String)>) {
    let mut sendable: Vec<(Option<String>, f64, String)> = Vec::new();
    for request in requests {
        let (service, path) = match WebAddress::parse(&request.url) {
            Ok(address) if request.url.contains("://") && !request.url.starts_with('/') => {
                (Some(address.service), address.path)
            }
            _ => (None, request.url),
        };
        match request.method.as_str() {
            "" => left_out.add("requests that are not HTTP", ""),
            "GET" if !path.starts_with('/') || path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) => {
                left_out.add("requests with a path that cannot be sent", "");
            }
            "GET" => sendable.push((service, request.at_s.unwrap_or(0.0), path)),
            other => left_out.add("requests other than GET, whose bodies the log does not have", other),
        }
    }
    let mut services: Vec<(Option<String>, usize)> = Vec::new();
    for (service, _, _) in &sendable {
        match services.iter_mut().find(|(known, _)| known == service) {
            Some((_, count)) => *count += 1,
            None => services.push((service.clone(), 1)),
        }
    }
    let most = services.iter().map(|(_, count)| *count).max();
    let service = services.iter().find(|(_, count)| Some(*count) == most).and_then(|(service, _)| service.clone());
    for (other, count) in services.iter().filter(|(other, _)| *other != service) {
        left_out.add_many("requests to other hosts", other.as_deref().unwrap_or("no host"), *count);
    }
    let kept = sendable.into_iter().filter(|(other, _, _)| *other == service);
    let kept = kept.map(|(_, at_s, path)| (at_s, path)).collect();
    (service, kept)
}

/// Spreads the requests of each second evenly over it.
fn spread(starts: &mut [(f64, String)]) {
    for second in starts.chunk_by_mut(|(one, _), (other, _)| one == other) {
        let count = second.len() as f64;
        for (index, (at_s, _)) in second.iter_mut().enumerate() {
            *at_s += index as f64 / count;
        }
    }
}

/// Returns a path with the values of credentials in its query replaced.
fn without_credentials(path: &str, hidden: &mut usize) -> String {
    let Some((before, query)) = path.split_once('?') else { return path.to_owned() };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) if is_secret(name) && !value.is_empty() => {
            *hidden += 1;
            format!("{name}=redacted")
        }
        _ => pair.to_owned(),
    });
    format!("{before}?{}", pairs.collect::<Vec<String>>().join("&"))
}

/// Returns the number of agents: as many as requests in the busiest second, from 16 to 1,000.
fn agents(starts: &[(f64, String)]) -> usize {
    let busiest = starts.chunk_by(|(one, _), (other, _)| one.floor() == other.floor()).map(<[_]>::len).max();
    busiest.unwrap_or(0).clamp(16, 1000)
}

fn notes(count: usize, length_s: f64, is_host_unknown: bool, is_in_seconds: bool, hidden: usize) -> Vec<String> {
    let requests = if count == 1 { "1 request".to_owned() } else { format!("{count} requests") };
    let mut notes = vec![format!(
        "The load has the {requests} of the log at their times, over {}. Write `rate` as a number for another load.",
        seconds(length_s)
    )];
    if length_s > LONGEST_S {
        notes.push(format!("`time` ends the load after {}; later requests are skipped.", seconds(LONGEST_S)));
    }
    if is_host_unknown {
        notes.push("The log does not name its host: write the URL of a server to load.".to_owned());
    }
    if is_in_seconds {
        notes.push("The log has whole seconds. The requests of a second are spread evenly over it.".to_owned());
    }
    if hidden > 0 {
        notes.push(format!("Credentials in queries are replaced by `redacted` ({hidden})."));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"::1 - - [10/Oct/2025:13:55:36 +0000] "GET /a?token=x HTTP/1.1" 200 12 "-" "agent"
::1 - - [10/Oct/2025:13:55:36 +0000] "GET /\"b\" HTTP/1.1" 404 12
h.example:80 ::1 - me [10/Oct/2025:13:55:38 +0000] "POST /c HTTP/1.1" 200 12
::1 - - [10/Oct/2025:13:55:39 +0000] "\x16\x03" 400 0
rubbish
"#;

    fn imported(text: &str) -> Result<ImportedExperiment, ImportError> {
        let source = ImportSource { name: "access.log", text, attached: &|_| None };
        experiment(&source, read(&source)?, "a.csv")
    }

    #[test]
    fn a_combined_log_is_played_again() {
        let made = imported(LOG).unwrap();
        assert_eq!(made.csv.unwrap(), "at_s,path\n0.000000,\"/a?token=redacted\"\n0.500000,\"/\\\"\"b\\\"\"\"\n");
        for words in [
            "does not have (1): POST",
            "lines that are not entries of an access log (1)",
            "not HTTP (1)",
            "replay = \"a.csv\"",
        ] {
            assert!(made.text.contains(words), "{words}: {}", made.text);
        }
    }

    #[test]
    fn json_lines_of_several_servers_are_read() {
        for (line, url) in [
            (
                r#"{"ts": 1700000000.25, "request": {"method": "GET", "host": "a.example", "uri": "/x", "tls": {"v": 1}}, "status": 200}"#,
                "https://a.example/x",
            ),
            (r#"{"time_local": "10/Oct/2025:13:55:36 +0000", "request": "GET /x HTTP/1.1", "status": "200"}"#, "/x"),
            (
                r#"{"time_iso8601": "2025-10-10T13:55:36+00:00", "request_method": "GET", "uri": "/x", "args": "a=1"}"#,
                "/x?a=1",
            ),
            (
                r#"{"StartUTC": "2025-10-10T13:55:36.5Z", "RequestMethod": "GET", "RequestHost": "b", "RequestPath": "/x"}"#,
                "http://b/x",
            ),
        ] {
            let request = entry(line).unwrap();
            assert_eq!((request.method.as_str(), request.url.as_str()), ("GET", url));
        }
        assert_eq!(json_time(&serde_json::json!(1_700_000_000_250_u64)), Some(1_700_000_000.25));
        assert_eq!(entry("{\"level\": \"info\"}"), None);
    }

    #[test]
    fn a_log_without_entries_is_refused_with_its_line() {
        assert_eq!(imported("\nrubbish").unwrap_err().line, Some(2));
        let post = "::1 - - [10/Oct/2025:13:55:36 +0000] \"POST /c HTTP/1.1\" 200 12";
        assert!(imported(post).unwrap_err().what.contains("POST"));
    }
}
