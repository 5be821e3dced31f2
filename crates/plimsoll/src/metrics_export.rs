//! Live figures of a run for monitoring systems. `run --serve-metrics 127.0.0.1:9464` makes the
//! live server answer `GET /metrics` in Prometheus' text format, and `run --otlp
//! http://127.0.0.1:4318` exports to an OpenTelemetry collector. Both export the figures of the
//! live view, which change each second.

mod otlp;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conduct::{Observer, ProgressEvent, SecondTotals};
use experiment::plan::Trial;
use hdrhistogram::Histogram;
use record::clock::Clock;
use record::events::What;

use crate::exit::Failure;
use crate::live_server::MetricsText;

/// Upper bounds of the histogram's buckets: 1, 2 and 5 times powers of ten, from 50 µs to 10 s. The
/// last bucket has no bound.
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

/// Outcomes of operations, in the order of `LiveFigures::outcomes`.
const OUTCOMES: [&str; 4] = ["ok", "failed", "timeout", "wrong"];

/// Figures of the current trial so far.
#[derive(Debug, Clone, Default)]
pub struct LiveFigures {
    /// Number that grows with every change of the figures.
    version: u64,
    /// Labels that identify the trial: the run's title, the trial's number, values of the sweep, …
    attributes: Vec<(String, String)>,
    /// Start of the trial, Unix time in seconds.
    began_unix_s: f64,
    /// End of the last second that the figures count, seconds since load start.
    at_s: f64,
    /// Number of operations by outcome, in the order of `OUTCOMES`.
    outcomes: [u64; 4],
    /// Number of `ok` operations by latency bucket. The last bucket has no bound.
    buckets: [u64; BOUNDS_NS.len() + 1],
    latency_sum_s: f64,
    /// Faults by name; true while the fault is active.
    faults: BTreeMap<String, bool>,
}

/// Observer that updates the figures for scrapes and exports, and passes each event to the observer
/// `behind`.
struct LiveFiguresObserver {
    behind: Box<dyn Observer>,
    title: String,
    figures: Arc<Mutex<LiveFigures>>,
    /// The exporter to a collector. It exports a last time when dropped.
    _exporter: Option<otlp::Exporter>,
}

/// Returns an observer that updates the figures of a run with this title. Exports them to the
/// collector at the URL `collector`, if it is given.
///
/// # Errors
///
/// If the collector's URL is invalid.
pub fn kept(
    figures: &Arc<Mutex<LiveFigures>>,
    collector: Option<&str>,
    title: &str,
    behind: Box<dyn Observer>,
) -> Result<Box<dyn Observer>, Failure> {
    let exporter = collector.map(|url| otlp::Exporter::begin(url, figures)).transpose()?;
    let figures = Arc::clone(figures);
    Ok(Box::new(LiveFiguresObserver { behind, title: title.to_owned(), figures, _exporter: exporter }))
}

/// Locks the figures, also if another thread panicked while it held the lock.
fn locked(figures: &Mutex<LiveFigures>) -> MutexGuard<'_, LiveFigures> {
    figures.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for LiveFiguresObserver {
    fn tell(&mut self, event: &ProgressEvent<'_>) {
        let mut figures = locked(&self.figures);
        let is_figure = match event {
            ProgressEvent::TrialBegins { trial, .. } => {
                *figures = LiveFigures { version: figures.version, ..LiveFigures::of(&self.title, trial) };
                true
            }
            ProgressEvent::Second(second) => {
                figures.add(second);
                true
            }
            ProgressEvent::Happened { what: What::FaultBegun { fault, .. }, .. } => {
                figures.faults.insert(fault.clone(), true);
                true
            }
            ProgressEvent::Happened { what: What::FaultHealed { fault, .. }, .. } => {
                figures.faults.insert(fault.clone(), false);
                true
            }
            _ => false,
        };
        figures.version += u64::from(is_figure);
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

    /// Returns a function that returns the text for a scrape. It rebuilds the text only if the
    /// figures have changed.
    pub fn scraped(figures: &Arc<Mutex<Self>>) -> MetricsText {
        let (figures, mut built) = (Arc::clone(figures), (u64::MAX, Arc::from([])));
        Box::new(move || {
            if built.0 != locked(&figures).version {
                // The text is built without holding the lock, which the run's observer needs.
                let now = locked(&figures).clone();
                built = (now.version, now.text().into_bytes().into());
            }
            Arc::clone(&built.1)
        })
    }

    /// Returns all figures in Prometheus' text format; empty before the first trial.
    fn text(&self) -> String {
        if self.attributes.is_empty() {
            return String::new();
        }
        let labels: String = self.attributes.iter().map(|(name, value)| text::metric_label(name, value)).collect();
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "# HELP plimsoll_operations_total Operations of the trial that ended so far, by outcome");
        let _ = writeln!(text, "# TYPE plimsoll_operations_total counter");
        for (outcome, count) in OUTCOMES.into_iter().zip(self.outcomes) {
            let _ = writeln!(text, "plimsoll_operations_total{{{labels}outcome=\"{outcome}\"}} {count}");
        }
        let _ = writeln!(text, "# HELP plimsoll_latency_seconds Latency of ok operations, from their intended start");
        let _ = writeln!(text, "# TYPE plimsoll_latency_seconds histogram");
        let bounds = BOUNDS_NS.iter().map(|bound| (*bound as f64 / 1e9).to_string()).chain(["+Inf".to_owned()]);
        let mut below = 0;
        for (bound, count) in bounds.zip(self.buckets) {
            below += count;
            let _ = writeln!(text, "plimsoll_latency_seconds_bucket{{{labels}le=\"{bound}\"}} {below}");
        }
        let own = labels.trim_end_matches(',');
        let _ = writeln!(text, "plimsoll_latency_seconds_sum{{{own}}} {}", self.latency_sum_s);
        let _ = writeln!(text, "plimsoll_latency_seconds_count{{{own}}} {below}");
        let _ = writeln!(text, "# HELP plimsoll_load_seconds Seconds since the trial's load began");
        let _ = writeln!(text, "# TYPE plimsoll_load_seconds gauge");
        let _ = writeln!(text, "plimsoll_load_seconds{{{own}}} {}", self.at_s);
        if !self.faults.is_empty() {
            let _ = writeln!(text, "# HELP plimsoll_fault_active Whether the fault has begun and is not healed");
            let _ = writeln!(text, "# TYPE plimsoll_fault_active gauge");
        }
        for (fault, is_active) in &self.faults {
            let fault = text::metric_label("fault", fault);
            let fault = fault.trim_end_matches(',');
            let _ = writeln!(text, "plimsoll_fault_active{{{labels}{fault}}} {}", u8::from(*is_active));
        }
        text
    }
}

/// Returns the number of latencies in each bucket.
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
    fn scraped_totals_and_buckets_add_up() {
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

    #[test]
    fn the_metrics_text_is_cached_until_a_figure_changes() {
        let figures = Arc::new(Mutex::new(LiveFigures::of("Orders", &Trial::default())));
        let mut scraped = LiveFigures::scraped(&figures);
        let first = scraped();
        assert!(Arc::ptr_eq(&first, &scraped()));
        let mut observer = kept(&figures, None, "Orders", Box::new(Nobody)).unwrap();
        observer.tell(&ProgressEvent::Happened { at_s: None, what: &What::Notice { text: "words".into() } });
        assert!(Arc::ptr_eq(&first, &scraped()), "a notice is no figure");
        observer.tell(&ProgressEvent::Second(second(1.0, &[1], 0)));
        assert!(!Arc::ptr_eq(&first, &scraped()));
    }

    struct Nobody;

    impl Observer for Nobody {
        fn tell(&mut self, _: &ProgressEvent<'_>) {}
    }
}
