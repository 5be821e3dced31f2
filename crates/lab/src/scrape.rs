//! A target's own metrics, requested over HTTP like Prometheus does: in Prometheus' text format, or
//! as a JSON document with pointers to the values.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use experiment::manifest::{Metrics, MetricsFormat};
use experiment::pointer::{self, Pointer};
use record::rows::{Metric, MetricKind};
use runner::plain_text;
use serde_json::Value;
use transport::client;
use transport::tls::TlsTrust;
use wire::protocols::http::Http;

use crate::readiness::UrlParts;

/// Time limit of a request, from the connection to the last byte.
const SCRAPE_PATIENCE: Duration = Duration::from_millis(800);
/// Size limit of a response, bytes. Longer responses are rejected.
const ANSWER_BYTES: usize = 4 << 20;

/// Largest number of values from a response. A name can have any number of label sets.
const FIGURES: usize = 2000;

/// Metrics endpoint of a host, with the metrics to record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoint {
    pub host: String,
    /// Section `[metrics]` of the target, with the complete URL: `http://10.83.0.1:9100/metrics`.
    pub metrics: Metrics,
}

impl Endpoint {
    /// Requests the current values. Empty without a response of status 200 in time.
    pub fn ask(&self, at_s: f64) -> Vec<Metric> {
        let Some(body) = fetch(&self.metrics.url) else { return Vec::new() };
        match self.metrics.kind {
            MetricsFormat::Prometheus => self.of_text(at_s, &String::from_utf8_lossy(&body)),
            MetricsFormat::Json => self.of_json(at_s, &body),
        }
    }

    fn of_text(&self, at_s: f64, text: &str) -> Vec<Metric> {
        let types = types(text);
        let kept = figures(text).filter(|figure| self.metrics.keep.contains_key(figure.name));
        let metric = |figure: ScrapedValue<'_>| {
            let kind = said_kind(figure.name, &types);
            self.metric(at_s, (figure.name, figure.labels), figure.value, kind)
        };
        kept.take(FIGURES).map(metric).collect()
    }

    fn of_json(&self, at_s: f64, body: &[u8]) -> Vec<Metric> {
        let Ok(document) = serde_json::from_slice::<Value>(body) else { return Vec::new() };
        let mut metrics = Vec::new();
        for (name, pointer) in &self.metrics.keep {
            let Ok(pointer) = Pointer::parse(pointer) else { continue };
            let mut found = Vec::new();
            numbers_at(&document, &pointer.steps, "", &mut found);
            metrics.extend(found.into_iter().map(|(labels, value)| self.metric(at_s, (name, &labels), value, None)));
        }
        metrics.truncate(FIGURES);
        metrics
    }

    fn metric(&self, at_s: f64, (name, labels): (&str, &str), value: f64, said: Option<MetricKind>) -> Metric {
        let declared = self.metrics.counters.iter().any(|counter| counter == name).then_some(MetricKind::Counter);
        Metric {
            at_s,
            host: self.host.clone(),
            name: plain_text::line(&format!("{name}{labels}")),
            value,
            kind: Some(declared.or(said).unwrap_or_else(|| MetricKind::of_name(name))),
        }
    }
}

/// Collects every finite number at a pointer; true is 1 and false is 0. A step `*` matches any
/// member or element; the label `key` names the match.
fn numbers_at(value: &Value, steps: &[String], key: &str, found: &mut Vec<(String, f64)>) {
    let Some((step, rest)) = steps.split_first() else {
        let number = value.as_f64().or_else(|| value.as_bool().map(|is| f64::from(u8::from(is))));
        let labels = if key.is_empty() { String::new() } else { format!("{{key={}}}", Value::from(key)) };
        found.extend(number.filter(|number| number.is_finite()).map(|number| (labels, number)));
        return;
    };
    let with = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}/{name}") };
    match value {
        Value::Object(members) if step == "*" => {
            members.iter().for_each(|(name, member)| numbers_at(member, rest, &with(name), found));
        }
        Value::Array(elements) if step == "*" => {
            let each = elements.iter().enumerate();
            each.for_each(|(index, element)| numbers_at(element, rest, &with(&index.to_string()), found));
        }
        Value::Object(members) => {
            members.get(step).into_iter().for_each(|member| numbers_at(member, rest, key, found));
        }
        Value::Array(elements) => {
            let element = pointer::index(step).and_then(|index| elements.get(index));
            element.into_iter().for_each(|element| numbers_at(element, rest, key, found));
        }
        _ => {}
    }
}

/// Requests a URL. Returns the body of a response with status 200.
fn fetch(url: &str) -> Option<Vec<u8>> {
    let until = Instant::now() + SCRAPE_PATIENCE;
    let place = UrlParts::parse(url).ok()?;
    let mut client = client::connect::<Http>(&place.origin(), &TlsTrust::default(), SCRAPE_PATIENCE).ok()?;
    client.limit(until.saturating_duration_since(Instant::now()), ANSWER_BYTES);
    let accept = "text/plain;version=0.0.4, application/json".to_owned();
    let with = [("path".to_owned(), place.path), ("header.Accept".to_owned(), accept)].into();
    let answer = client.call("get", &with).ok()?;
    if answer.status == "200" { answer.field("body").map(<[u8]>::to_vec) } else { None }
}

// Prometheus' text format: names, types and values. Help texts, timestamps and exemplars are
// ignored.

/// Returns the types from the `# TYPE` lines, by name.
fn types(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(type_line).collect()
}

fn type_line(line: &str) -> Option<(&str, &str)> {
    let mut words = line.trim().strip_prefix('#')?.split_ascii_whitespace();
    if words.next()? == "TYPE" { words.next().zip(words.next()) } else { None }
}

/// Returns the kind of a value from its declared type. The counts of a histogram or summary have
/// names with a suffix, and are counters.
fn said_kind(name: &str, types: &BTreeMap<&str, &str>) -> Option<MetricKind> {
    let is_count = |end: &str| {
        let of = name.strip_suffix(end).and_then(|base| types.get(base));
        of.is_some_and(|of| ["histogram", "summary"].contains(of))
    };
    match types.get(name) {
        Some(&"counter") => Some(MetricKind::Counter),
        Some(&"gauge") => Some(MetricKind::Gauge),
        _ => ["_count", "_sum", "_bucket"].into_iter().any(is_count).then_some(MetricKind::Counter),
    }
}

/// A value with its name and labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScrapedValue<'a> {
    /// Name, such as `http_requests_total`.
    pub name: &'a str,
    /// Labels, such as `{method="get"}`, or empty.
    pub labels: &'a str,
    /// Value; always finite.
    pub value: f64,
}

/// Returns every finite value. NaN means that there was nothing to measure.
pub fn figures(text: &str) -> impl Iterator<Item = ScrapedValue<'_>> {
    text.lines().filter_map(figure)
}

fn figure(line: &str) -> Option<ScrapedValue<'_>> {
    let line = line.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let (name, rest) = line.split_at(line.find(|c| !is_name(c))?);
    if !name.starts_with(|c: char| !c.is_ascii_digit()) {
        return None;
    }
    let rest = rest.trim_start();
    let (labels, rest) = rest.split_at(if rest.starts_with('{') { labels_end(rest)? } else { 0 });
    // Without labels, a space must follow the name; the end of the name ensures that. After labels,
    // the space is optional.
    let value = rest.split_ascii_whitespace().next()?.parse().ok().filter(|value: &f64| value.is_finite())?;
    Some(ScrapedValue { name, labels: if labels == "{}" { "" } else { labels }, value })
}

/// Returns the position after the closing brace. Ignores braces inside quotes.
fn labels_end(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '}' if !is_quoted => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Starts a server that sends everyone this response, and keeps connections open while the
    /// sender lives.
    fn server(answer: &str) -> (String, Sender<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics?a=b", listener.local_addr().unwrap());
        let (alive, end) = channel();
        let answer = answer.to_owned();
        let serve = move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let count = stream.read(&mut request).unwrap();
            assert!(request[..count].starts_with(b"GET /metrics?a=b HTTP/1.1\r\nHost: 127.0.0.1:"));
            let _ = stream.write_all(answer.as_bytes());
            let _ = end.recv();
        };
        std::thread::Builder::new().spawn(serve).unwrap();
        (url, alive)
    }

    fn asked(answer: &str, stays_open: bool) -> Vec<Metric> {
        let (url, alive) = server(answer);
        if !stays_open {
            drop(alive);
        }
        let keep = [("up".to_owned(), String::new()), ("queue".to_owned(), String::new())].into();
        Endpoint { host: "n1".to_owned(), metrics: Metrics { url, keep, ..Metrics::default() } }.ask(3.0)
    }

    fn metric(name: &str, value: f64) -> Metric {
        let kind = Some(MetricKind::Gauge);
        Metric { at_s: 3.0, host: "n1".to_owned(), name: name.to_owned(), value, kind }
    }

    #[test]
    fn kept_metrics_are_read_with_their_labels() {
        let body = "# TYPE up gauge\nup 1\nups 2\nqueue{of=\"a\"} 3\nqueue{of=\"b\"} 4.5\nother 6\n";
        let wanted = [metric("up", 1.0), metric("queue{of=\"a\"}", 3.0), metric("queue{of=\"b\"}", 4.5)];
        assert_eq!(asked(&format!("HTTP/1.0 200 OK\r\n\r\n{body}"), false), wanted);
        let sized = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        assert_eq!(asked(&sized, true), wanted);
        let (first, second) = body.split_at(21);
        let chunked = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n15;x=y\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n",
            second.len()
        );
        assert_eq!(asked(&chunked, true), wanted);
    }

    #[test]
    fn invalid_responses_give_no_metrics() {
        for answer in [
            "",
            "up 1\n",
            "HTTP/1.1 503 Busy\r\n\r\nup 1\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nup 1\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nup 1",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nup 1",
        ] {
            assert_eq!(asked(answer, false), [], "{answer:?}");
        }
        let long = format!("HTTP/1.1 200 OK\r\n\r\nup 1\n{}", "#\n".repeat(ANSWER_BYTES / 2));
        assert_eq!(asked(&long, false), []);
        for url in [format!("http://{}/", fixture::refusing_address()), "nonsense".to_owned()] {
            let metrics = Metrics { url, ..Metrics::default() };
            assert_eq!(Endpoint { metrics, ..Endpoint::default() }.ask(0.0), []);
        }
    }

    fn read(text: &str) -> Vec<(String, f64)> {
        figures(text).map(|figure| (format!("{}{}", figure.name, figure.labels), figure.value)).collect()
    }

    #[test]
    fn the_format_descriptions_example_is_read() {
        let text = r#"# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"}    3 1395066363000

# Escaping in label values:
msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find file:\n\"FILE.TXT\""} 1.458255915e9
metric_without_timestamp_and_labels 12.47
something_weird{problem="division by zero"} +Inf -3982045
http_request_duration_seconds_bucket{le="+Inf"} 144320
rpc_duration_seconds{quantile="0.01"} NaN
"#;
        let names: Vec<String> = read(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [
                r#"http_requests_total{method="post",code="200"}"#,
                r#"http_requests_total{method="post",code="400"}"#,
                r#"msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find file:\n\"FILE.TXT\""}"#,
                "metric_without_timestamp_and_labels",
                r#"http_request_duration_seconds_bucket{le="+Inf"}"#,
            ]
        );
        assert_eq!(read(text)[2].1, 1.458_255_915e9);
    }

    #[test]
    fn unusual_lines_are_read_or_skipped() {
        assert_eq!(read("\ta_b:c\t 1\r\n"), [("a_b:c".to_owned(), 1.0)]);
        assert_eq!(read(r#"x{a="}{",b="\\"} -0.5"#), [(r#"x{a="}{",b="\\"}"#.to_owned(), -0.5)]);
        assert_eq!(read("x {a=\"1\"} 2"), [("x{a=\"1\"}".to_owned(), 2.0)]);
        assert_eq!(read("x{} 2 # {trace=\"1\"} 0.5"), [("x".to_owned(), 2.0)]);
        for nothing in [
            "",
            "#",
            "x",
            "x ",
            "x{a=\"1\" 2",
            "x{a=\"1}\" 2",
            "1x 2",
            "x two",
            "<html> 1",
            "é 1",
            "{a=\"1\"} 2",
            "x{é",
        ] {
            assert_eq!(read(nothing), [], "{nothing}");
        }
    }

    #[test]
    fn counters_are_recognised_by_type_name_or_manifest() {
        let text = "# TYPE a counter\na 1\n# TYPE b_total gauge\nb_total 1\nc_total 1\nd 1\n# TYPE e histogram\ne_count 1\n\
                    # HELP f_count of\nf_count 1\n";
        let names = ["a", "b_total", "c_total", "d", "e_count", "f_count"];
        let endpoint = |counters: &[&str]| {
            let keep = names.map(|name| (name.to_owned(), String::new())).into();
            let counters = counters.iter().map(|name| (*name).to_owned()).collect();
            Endpoint { host: "n1".to_owned(), metrics: Metrics { keep, counters, ..Metrics::default() } }
        };
        let counters = |endpoint: &Endpoint| -> Vec<String> {
            let metrics = endpoint.of_text(0.0, text).into_iter();
            metrics.filter(|metric| metric.kind() == MetricKind::Counter).map(|metric| metric.name).collect()
        };
        assert_eq!(counters(&endpoint(&[])), ["a", "c_total", "e_count"]);
        assert_eq!(counters(&endpoint(&["b_total", "d"])), ["a", "b_total", "c_total", "d", "e_count"]);
    }

    #[test]
    fn json_numbers_are_found_by_pointer() {
        let told = |document: &str, pointer: &str| -> Vec<(String, f64)> {
            let keep = [("it".to_owned(), pointer.to_owned())].into();
            let endpoint = Endpoint { host: "n1".to_owned(), metrics: Metrics { keep, ..Metrics::default() } };
            let metrics = endpoint.of_json(0.0, document.as_bytes());
            metrics.into_iter().map(|metric| (metric.name, metric.value)).collect()
        };
        let one = |value: f64| vec![("it".to_owned(), value)];
        let document = r#"{"queue": {"length": 7, "slots": [1, 2.5]}, "up": true, "a/b": -1e3,
                           "nodes": {"x\"y": {"heap": 5}, "z": {"heap": 6, "of": {"heap": 9}}, "late": {}}, "text": "5", "none": null}"#;
        for (pointer, value) in [("/queue/length", 7.0), ("/queue/slots/1", 2.5), ("/up", 1.0), ("/a~1b", -1000.0)] {
            assert_eq!(told(document, pointer), one(value), "{pointer}");
        }
        for pointer in ["/queue", "/queue/slots/2", "/queue/slots/01", "/text", "/none", "/no/way", "/"] {
            assert_eq!(told(document, pointer), [], "{pointer}");
        }
        let heaps = [(r#"it{key="x\"y"}"#.to_owned(), 5.0), (r#"it{key="z"}"#.to_owned(), 6.0)];
        assert_eq!(told(document, "/nodes/*/heap"), heaps);
        assert_eq!(told(document, "/*/*/of/heap"), [(r#"it{key="nodes/z"}"#.to_owned(), 9.0)]);
        assert_eq!(told("[[1], [2]]", "/*/0")[1], (r#"it{key="1"}"#.to_owned(), 2.0));
        for document in ["", "{", "[1] 2", "1e999", &"[".repeat(100_000)] {
            assert_eq!(told(document, "/0"), [], "{:.9}", document);
        }
        let wide = format!("[{}]", vec!["1"; FIGURES + 5].join(","));
        assert_eq!(told(&wide, "/*").len(), FIGURES);
    }
}
