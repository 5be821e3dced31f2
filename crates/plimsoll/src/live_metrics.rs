//! Figures of a run while it goes on: `run --serve-metrics 127.0.0.1:9464` answers `GET /metrics` in Prometheus' text format, and
//! `run --otlp http://127.0.0.1:4318` tells a collector of OpenTelemetry. They are what the live view is told each second; neither who asks
//! nor who is told ever holds up the load.

mod otlp;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

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

/// Time for a whole question, and for its answer; bytes of a question.
const PATIENCE: Duration = Duration::from_secs(2);
const QUESTION: usize = 8 * 1024;
/// Questions that are answered at a time; a further connection is closed.
const ASKERS: usize = 16;

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
        let askers = Arc::new(());
        let serve = move || {
            for stream in listener.incoming().flatten() {
                let (asked, asker) = (Arc::clone(&asked), Arc::clone(&askers));
                if Arc::strong_count(&asker) > ASKERS + 1 {
                    continue;
                }
                let answer = move || (drop(answer(stream, address, &asked)), drop(asker));
                // Without a thread for it, nobody is answered.
                let _ = thread::Builder::new().name("metrics-answer".to_owned()).spawn(answer);
            }
        };
        thread::Builder::new().name("metrics".to_owned()).spawn(serve)
    });
    listening.map_err(|error| Failure::Bad {
        what: format!("--serve-metrics {address}: {error}"),
        remedy: "name an address of this machine and a free port, such as 127.0.0.1:9464".to_owned(),
    })?;
    Ok(())
}

fn answer(mut stream: TcpStream, address: SocketAddr, figures: &Mutex<LiveFigures>) -> io::Result<()> {
    let question = question(&mut stream)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = question.lines();
    let asked = lines.next().unwrap_or_default();
    let host = lines.filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let (status, body) = match asked.split(' ').nth(1) {
        _ if host.is_some_and(|(_, host)| !is_meant(host.trim(), address)) => {
            ("403 Forbidden", "this is not the host that --serve-metrics names\n".to_owned())
        }
        Some("/metrics") => ("200 OK", locked(figures).text()),
        _ => ("404 Not Found", "GET /metrics\n".to_owned()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    (&stream).write_all(format!("{head}{body}").as_bytes())
}

/// The head of a request, as far as it came in time. All of it is read: what is not would be answered by a reset.
fn question(stream: &mut TcpStream) -> io::Result<String> {
    let until = Instant::now() + PATIENCE;
    let (mut head, mut part) = (Vec::new(), [0; 1024]);
    while head.len() < QUESTION && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => break,
            read => head.extend_from_slice(&part[..read]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Whether a question to this host is for an endpoint at this address. A page of the web can have its own name lead to a browser's own
/// machine (DNS rebinding); what listens on more than that machine answers by any name.
fn is_meant(host: &str, address: SocketAddr) -> bool {
    let named = |name: &str| name == "localhost" || name.ends_with(".localhost");
    let is_loopback = |ip: IpAddr| ip.is_loopback() || ip == address.ip();
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name);
    let ip = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    !address.ip().is_loopback() || ip.map_or_else(|_| named(&name.to_ascii_lowercase()), is_loopback)
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

    fn asked(address: SocketAddr, question: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(question.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_slow_reader_holds_up_nobody() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        serve(address, &Arc::default()).unwrap();
        // The first asks for half of it and says no more; the second is answered before it.
        let mut slow = TcpStream::connect(address).unwrap();
        slow.write_all(b"GET /met").unwrap();
        let host = format!("Host: {address}\r\n\r\n");
        assert!(asked(address, &format!("GET /metrics HTTP/1.1\r\n{host}")).starts_with("HTTP/1.1 200"));
        slow.write_all(format!("rics HTTP/1.1\r\n{host}").as_bytes()).unwrap();
        let mut answer = String::new();
        slow.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let rebound = asked(address, "GET /metrics HTTP/1.1\r\nhost: evil.example.com\r\n\r\n");
        assert!(rebound.starts_with("HTTP/1.1 403"), "{rebound}");
    }

    #[test]
    fn a_loopback_endpoint_answers_by_the_names_of_this_machine_alone() {
        let (own, open) = ("127.0.0.1:9464".parse().unwrap(), "0.0.0.0:9464".parse().unwrap());
        for host in ["127.0.0.1:9464", "localhost", "LOCALHOST:1", "[::1]:9464", "x.localhost:9464"] {
            assert!(is_meant(host, own), "{host}");
        }
        for host in ["evil.example.com", "evil.example.com:9464", "10.0.0.1:9464", "", "localhost.evil.com"] {
            assert!(!is_meant(host, own), "{host}");
            assert!(is_meant(host, open), "{host}");
        }
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
