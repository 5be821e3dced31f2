//! Export of live figures to an OpenTelemetry collector: OTLP over HTTP in its JSON form
//! (opentelemetry-proto 1.x, `ExportMetricsServiceRequest`). Figures are posted every few seconds
//! and a last time at the end. A collector that does not answer misses figures, but does not affect
//! the run.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lab::UrlParts;
use record::clock::Clock;
use serde_json::{Value, json};

use super::{BOUNDS_NS, LiveFigures, OUTCOMES, locked};
use crate::exit::Failure;
use crate::output;

/// Time between two posts.
const EACH: Duration = Duration::from_secs(5);
/// Timeout for the collector's answer. The last export may delay the end of a run by this time.
const TO_ANSWER: Duration = Duration::from_secs(2);
/// Path for metrics, relative to the collector's URL.
const PATH: &str = "v1/metrics";
/// OTLP's temporality of sums and histograms that count from the start of the trial.
const CUMULATIVE: u8 = 2;

/// Exporter of figures to a collector. When dropped, it exports a last time.
pub struct Exporter {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Starts to export to the collector at this URL.
    ///
    /// # Errors
    ///
    /// If the URL is invalid.
    pub fn begin(url: &str, figures: &Arc<Mutex<LiveFigures>>) -> Result<Self, Failure> {
        let bad = |reason: String| Failure::Bad {
            what: format!("--otlp {url}: {reason}"),
            remedy: "give the URL of a collector that accepts OTLP over HTTP, such as http://127.0.0.1:4318".to_owned(),
        };
        let parts = UrlParts::parse(url).map_err(bad)?;
        if !matches!(parts.scheme.as_str(), "http" | "https") {
            return Err(bad("expected http:// or https://".to_owned()));
        }
        let (service, path) = (parts.origin(), format!("{}/{PATH}", parts.path.trim_end_matches('/')));
        let (end, ended) = channel();
        let figures = Arc::clone(figures);
        let thread = thread::Builder::new().name("otlp".to_owned()).spawn(move || {
            let mut is_silent = false;
            loop {
                let is_last = !matches!(ended.recv_timeout(EACH), Err(RecvTimeoutError::Timeout));
                let posted = post(&service, &path, &locked(&figures).clone());
                // A failure is printed only if the previous export succeeded.
                if let (Err(reason), false) = (&posted, is_silent) {
                    output::say(&format!("--otlp {service}: {reason}; the next export contains these figures, too"));
                }
                is_silent = posted.is_err();
                if is_last {
                    return;
                }
            }
        });
        let thread = thread.map_err(|error| bad(format!("a thread could not be started: {error}")))?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the last export is missing, but no record is lost.
            let _ = thread.join();
        }
    }
}

/// Posts the figures, if there are any yet.
fn post(service: &str, path: &str, figures: &LiveFigures) -> Result<(), String> {
    let Some(request) = request(figures) else { return Ok(()) };
    let client = load::client::connect("http", service, TO_ANSWER);
    let mut client = client.map_err(|error| error.to_string())?;
    let with = [("path", path), ("header.Content-Type", "application/json"), ("body", &request.to_string())];
    let with: BTreeMap<String, String> =
        with.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let answer = client.call("post", &with).map_err(|error| error.to_string())?;
    if answer.status.starts_with('2') { Ok(()) } else { Err(format!("the collector answered {}", answer.status)) }
}

/// Builds the export request; `None` before the first trial.
fn request(figures: &LiveFigures) -> Option<Value> {
    if figures.attributes.is_empty() {
        return None;
    }
    let attributes: Vec<Value> = figures.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    // OTLP's JSON form writes 64-bit numbers as strings.
    let [began, now] = [figures.began_unix_s, Clock::starting_in(Duration::ZERO).unix_s()]
        .map(|unix_s| ((unix_s * 1e9) as u64).to_string());
    let mut operations = Vec::new();
    for (outcome, count) in OUTCOMES.into_iter().zip(figures.outcomes) {
        let attributes = [attributes.as_slice(), &[attribute("outcome", outcome)]].concat();
        operations.push(json!({ "attributes": attributes, "startTimeUnixNano": began, "timeUnixNano": now,
            "asInt": count.to_string() }));
    }
    let latency = json!({
        "attributes": attributes,
        "startTimeUnixNano": began,
        "timeUnixNano": now,
        "count": figures.buckets.iter().sum::<u64>().to_string(),
        "sum": figures.latency_sum_s,
        "bucketCounts": figures.buckets.iter().map(u64::to_string).collect::<Vec<_>>(),
        "explicitBounds": BOUNDS_NS.iter().map(|bound| *bound as f64 / 1e9).collect::<Vec<_>>(),
    });
    let mut faults = Vec::new();
    for (fault, is_active) in &figures.faults {
        let attributes = [attributes.as_slice(), &[attribute("fault", fault)]].concat();
        faults.push(json!({ "attributes": attributes, "startTimeUnixNano": began, "timeUnixNano": now,
            "asInt": u8::from(*is_active).to_string() }));
    }
    let load_time = json!({ "attributes": attributes, "startTimeUnixNano": began, "timeUnixNano": now,
        "asDouble": figures.at_s });
    let mut metrics = vec![
        json!({ "name": "plimsoll.operations", "description": "Operations of the trial that ended so far, by outcome",
            "unit": "{operation}",
            "sum": { "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": operations } }),
        json!({ "name": "plimsoll.latency", "description": "Latency of ok operations, from their intended start", "unit": "s",
            "histogram": { "aggregationTemporality": CUMULATIVE, "dataPoints": [latency] } }),
        json!({ "name": "plimsoll.load.time", "description": "Seconds since the trial's load began", "unit": "s",
            "gauge": { "dataPoints": [load_time] } }),
    ];
    if !faults.is_empty() {
        metrics.push(
            json!({ "name": "plimsoll.fault.active", "description": "Whether the fault has begun and is not healed",
            "unit": "1", "gauge": { "dataPoints": faults } }),
        );
    }
    Some(json!({ "resourceMetrics": [{
        "resource": { "attributes": [attribute("service.name", "plimsoll")] },
        "scopeMetrics": [{ "scope": { "name": "plimsoll", "version": env!("CARGO_PKG_VERSION") }, "metrics": metrics }],
    }] }))
}

fn attribute(name: &str, value: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": value } })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use experiment::plan::Trial;

    use super::*;

    #[test]
    fn exported_otlp_metrics_match_the_figures() {
        let trial = Trial { id: "002".into(), repeat: 1, ..Trial::default() };
        let mut figures = LiveFigures::of("Orders", &trial);
        figures.outcomes = [4, 3, 0, 0];
        figures.buckets[4] = 3;
        figures.buckets[BOUNDS_NS.len()] = 1;
        figures.faults.insert("oops".into(), true);
        let request = request(&figures).unwrap();
        let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let point = |name: &str, kind: &str, place: usize| {
            let metric = metrics.iter().find(|metric| metric["name"] == name).unwrap();
            metric[kind]["dataPoints"][place].clone()
        };
        assert_eq!(point("plimsoll.operations", "sum", 1)["asInt"], "3");
        let latency = point("plimsoll.latency", "histogram", 0);
        assert_eq!((&latency["count"], &latency["bucketCounts"][4]), (&json!("4"), &json!("3")));
        let [buckets, bounds] = ["bucketCounts", "explicitBounds"].map(|name| latency[name].as_array().unwrap().len());
        assert_eq!(buckets, bounds + 1);
        assert_eq!(point("plimsoll.fault.active", "gauge", 0)["asInt"], "1");
        assert!(point("plimsoll.load.time", "gauge", 0)["attributes"].to_string().contains("\"002\""));
        assert!(super::request(&LiveFigures::default()).is_none(), "before the first trial");
    }

    #[test]
    fn invalid_collector_urls_are_refused() {
        for url in ["127.0.0.1:4318", "ftp://x", "http://"] {
            let error = Exporter::begin(url, &Arc::default()).err().unwrap();
            assert!(format!("{error:?}").contains("--otlp"), "{url}");
        }
    }
}
