//! Figures of a run while it goes on: `run --serve-metrics 127.0.0.1:9464` answers `GET /metrics` in Prometheus' text format, and
//! `run --otlp http://127.0.0.1:4318` tells a collector of OpenTelemetry. They are what the live view is told each second; neither who asks
//! nor who is told ever holds up the load.

mod otlp;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use conduct::{Observer, ProgressEvent, SecondTotals};
use experiment::plan::Trial;
use hdrhistogram::Histogram;
use record::clock::Clock;
use record::events::What;

use crate::exit::Failure;

/// Upper bounds of the histogram's buckets: 1, 2 and 5 times powers of ten, from 50 µs to 10 s. The last bucket has no bound.
const BOUNDS_NS: [u64; 17] = [
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Outcomes of operations that ended, in the order of the figures.
const OUTCOMES: [&str; 4] = ["ok", "failed", "timeout", "wrong"];

/// Whoever asks has so long to do so, and a question has so many bytes at most.
const PATIENCE: Duration = Duration::from_secs(2);
const QUESTION: u64 = 8 * 1024;

/// What the current trial has done so far.
#[derive(Debug, Clone, Default)]
struct LiveFigures {
    /// What tells the trial from others: title, its number, the values of its sweep, …
    attributes: Vec<(String, String)>,
    /// When it began, seconds of Unix time.
    began_unix_s: f64,
    /// Seconds since load start.
    at_s: f64,
    /// As `OUTCOMES`.
    outcomes: [u64; 4],
    /// Latencies of what was `ok`, by bucket, the last without a bound.
    buckets: [u64; BOUNDS_NS.len() + 1],
    latency_sum_s: f64,
    /// Faults by name, and whether they are active.
    faults: BTreeMap<String, bool>,
}

/// Keeps the figures for whoever asks or is told, and tells the one behind it.
struct LiveFiguresObserver {
    behind: Box<dyn Observer>,
    title: String,
    figures: Arc<Mutex<LiveFigures>>,
    /// Dropped, the collector is told a last time.
    _exporter: Option<otlp::Exporter>,
}

/// From now on serves the figures of a run of this title at the address, and tells the collector of that URL, where there are such.
///
/// # Errors
/// If nobody can listen there, or the URL is none.
pub fn published(
    address: Option<SocketAddr>,
    collector: Option<&str>,
    title: &str,
    behind: Box<dyn Observer>,
) -> Result<Box<dyn Observer>, Failure> {
    if address.is_none() && collector.is_none() {
        return Ok(behind);
    }
    let figures = Arc::new(Mutex::new(LiveFigures::default()));
    if let Some(address) = address {
        serve(address, &figures)?;
    }
    let exporter = collector.map(|url| otlp::Exporter::begin(url, &figures)).transpose()?;
    Ok(Box::new(LiveFiguresObserver { behind, title: title.to_owned(), figures, _exporter: exporter }))
}

fn serve(address: SocketAddr, figures: &Arc<Mutex<LiveFigures>>) -> Result<(), Failure> {
    let asked = Arc::clone(figures);
    let listening = TcpListener::bind(address).and_then(|listener| {
        let serve = move || listener.incoming().flatten().for_each(|stream| drop(answer(stream, &asked)));
        thread::Builder::new().name("metrics".to_owned()).spawn(serve)
    });
    listening.map_err(|error| Failure::Bad {
        what: format!("--serve-metrics {address}: {error}"),
        remedy: "name an address of this machine and a free port, such as 127.0.0.1:9464".to_owned(),
    })?;
    Ok(())
}

fn answer(stream: TcpStream, figures: &Mutex<LiveFigures>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new((&stream).take(QUESTION)).lines();
    let asked = lines.next().transpose()?.unwrap_or_default();
    // What is not read would be answered by a reset.
    lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
    let (status, body) = match asked.split(' ').nth(1) {
        Some("/metrics") => ("200 OK", locked(figures).text()),
        _ => ("404 Not Found", "GET /metrics\n".to_owned()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    (&stream).write_all(format!("{head}{body}").as_bytes())
}

/// A thread that panicked while it wrote left figures that are whole all the same.
fn locked(figures: &Mutex<LiveFigures>) -> MutexGuard<'_, LiveFigures> {
    figures.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for LiveFiguresObserver {
    fn tell(&mut self, event: &ProgressEvent<'_>) {
        let mut figures = locked(&self.figures);
        match event {
            ProgressEvent::TrialBegins { trial, .. } => *figures = LiveFigures::of(&self.title, trial),
            ProgressEvent::Second(second) => figures.add(second),
            ProgressEvent::Happened { what: What::FaultBegun { fault, .. }, .. } => {
                figures.faults.insert(fault.clone(), true);
            }
            ProgressEvent::Happened { what: What::FaultHealed { fault, .. }, .. } => {
                figures.faults.insert(fault.clone(), false);
            }
            _ => {}
        }
        drop(figures);
        self.behind.tell(event);
    }
}

impl LiveFigures {
    fn of(title: &str, trial: &Trial) -> Self {
        let mut attributes = vec![
            ("title".to_owned(), title.to_owned()),
            ("trial".to_owned(), trial.id.clone()),
            ("repeat".to_owned(), trial.repeat.to_string()),
        ];
        attributes.extend(trial.variant.iter().map(|variant| ("variant".to_owned(), variant.clone())));
        let point = trial.point.iter().map(|(path, value)| (format!("point_{path}"), text::of_json(value)));
        attributes.extend(point);
        let faults = trial.faults.iter().map(|fault| (fault.name.clone(), false)).collect();
        let began_unix_s = Clock::starting_in(Duration::ZERO).unix_s();
        Self { attributes, began_unix_s, faults, ..Self::default() }
    }

    fn add(&mut self, second: &SecondTotals) {
        self.at_s = self.at_s.max(second.at_s);
        let counts = [second.ok, second.failed, second.timeout, second.wrong];
        self.outcomes.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        let Some(latency_ns) = &second.latency_ns else { return };
        self.latency_sum_s += latency_ns.mean() * latency_ns.len() as f64 / 1e9;
        self.buckets.iter_mut().zip(counted(latency_ns)).for_each(|(sum, count)| *sum += count);
    }

    /// All of it; nothing before the first trial.
    fn text(&self) -> String {
        if self.attributes.is_empty() {
            return String::new();
        }
        let labels: String = self.attributes.iter().map(|(name, value)| text::metric_label(name, value)).collect();
        let mut text = String::new();
        // Writing to a String cannot fail.
        let mut line = |line: std::fmt::Arguments<'_>| {
            let _ = writeln!(text, "{line}");
        };
        line(format_args!("# HELP plimsoll_operations_total Operations of the trial that ended so far, by outcome"));
        line(format_args!("# TYPE plimsoll_operations_total counter"));
        for (outcome, count) in OUTCOMES.into_iter().zip(self.outcomes) {
            line(format_args!("plimsoll_operations_total{{{labels}outcome=\"{outcome}\"}} {count}"));
        }
        line(format_args!("# HELP plimsoll_latency_seconds Latency of ok operations, from their intended start"));
        line(format_args!("# TYPE plimsoll_latency_seconds histogram"));
        let bounds = BOUNDS_NS.iter().map(|bound| (*bound as f64 / 1e9).to_string()).chain(["+Inf".to_owned()]);
        let mut below = 0;
        for (bound, count) in bounds.zip(self.buckets) {
            below += count;
            line(format_args!("plimsoll_latency_seconds_bucket{{{labels}le=\"{bound}\"}} {below}"));
        }
        let own = labels.trim_end_matches(',');
        line(format_args!("plimsoll_latency_seconds_sum{{{own}}} {}", self.latency_sum_s));
        line(format_args!("plimsoll_latency_seconds_count{{{own}}} {below}"));
        line(format_args!("# HELP plimsoll_load_seconds Seconds since the trial's load began"));
        line(format_args!("# TYPE plimsoll_load_seconds gauge"));
        line(format_args!("plimsoll_load_seconds{{{own}}} {}", self.at_s));
        if !self.faults.is_empty() {
            line(format_args!("# HELP plimsoll_fault_active Whether the fault has begun and is not healed"));
            line(format_args!("# TYPE plimsoll_fault_active gauge"));
        }
        for (fault, is_active) in &self.faults {
            let fault = text::metric_label("fault", fault);
            let fault = fault.trim_end_matches(',');
            line(format_args!("plimsoll_fault_active{{{labels}{fault}}} {}", u8::from(*is_active)));
        }
        text
    }
}

/// How many latencies are in each bucket.
fn counted(latency_ns: &Histogram<u64>) -> [u64; BOUNDS_NS.len() + 1] {
    let mut counts = [0; BOUNDS_NS.len() + 1];
    for value in latency_ns.iter_recorded() {
        let at = value.value_iterated_to();
        let bucket =
            BOUNDS_NS.iter().position(|bound| latency_ns.lowest_equivalent(at) <= *bound).unwrap_or(BOUNDS_NS.len());
        counts[bucket] += value.count_at_value();
    }
    counts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn second(at_s: f64, latencies_ms: &[u64], failed: u64) -> SecondTotals {
        let mut latency_ns = Histogram::new(2).unwrap();
        latencies_ms.iter().for_each(|ms| latency_ns.record(ms * 1_000_000).unwrap());
        let latency_ns = (!latencies_ms.is_empty()).then(|| Box::new(latency_ns));
        SecondTotals { at_s, ok: latencies_ms.len() as u64, failed, latency_ns, ..SecondTotals::default() }
    }

    #[test]
    fn what_is_scraped_adds_up() {
        let trial = Trial { id: "002".into(), repeat: 1, variant: Some("a \"b\"".into()), ..Trial::default() };
        let mut figures = LiveFigures::of("Orders", &trial);
        figures.add(&second(1.0, &[1, 3, 3], 2));
        figures.add(&second(2.0, &[20_000], 0));
        figures.add(&second(2.0, &[], 1));
        let text = figures.text();
        let value = |series: &str| {
            let line = text.lines().find(|line| !line.starts_with('#') && line.contains(series));
            line.unwrap_or_else(|| panic!("no {series} in\n{text}")).rsplit(' ').next().unwrap().parse::<f64>().unwrap()
        };
        assert_eq!((value("outcome=\"ok\""), value("outcome=\"failed\""), value("outcome=\"wrong\"")), (4.0, 3.0, 0.0));
        assert_eq!(value("le=\"0.0005\""), 0.0);
        assert_eq!((value("le=\"0.001\""), value("le=\"0.005\""), value("le=\"10\"")), (1.0, 3.0, 3.0));
        assert_eq!((value("le=\"+Inf\""), value("latency_seconds_count")), (4.0, 4.0));
        assert!((value("latency_seconds_sum") - 20.007).abs() < 0.2, "{text}");
        assert_eq!(value("plimsoll_load_seconds{"), 2.0);
        assert!(text.contains("variant=\"a \\\"b\\\"\""), "{text}");
        assert_eq!(LiveFigures::default().text(), "", "before the first trial");
    }
}
