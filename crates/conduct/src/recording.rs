//! Recording of a running trial: the event log, and threads that write the measurements, so that
//! neither the load nor the probes wait for the disk.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use analysis::LiveViolation;
use experiment::secrets::Secrets;
use hdrhistogram::Histogram;
use lab::sampling::SampleSenders;
use load::recorder::{Recorder, SampledKeys};
use load::{HistogramSet, ThreadInterval};
use record::clock::Clock;
use record::events::{Event, FailureExample, HistoryEntry, Outcome, What};
use record::folder::TrialFolder;
use record::hlog::Time;
use record::rows::{FleetSecond, Metric, Sample};
use record::{lines, rows};

use crate::Error;
use crate::live_check::{EndedOperations, LiveCheck, LiveCheckReport};
use crate::progress::SecondTotals;

/// Capacity of each channel to a recording thread. If the disk is slow, so many records wait before
/// the sender must wait.
const PENDING: usize = 64;

/// The recording threads of a trial.
pub struct Recording {
    load: JoinHandle<Result<(), Error>>,
    /// Sender of the times around which outcomes are written in detail.
    closely: Sender<f64>,
    probes: JoinHandle<Result<(), Error>>,
    /// May end early: not every target publishes metrics.
    metrics: JoinHandle<Result<(), Error>>,
    /// May end early: not every target has programs.
    programs: JoinHandle<Result<(), Error>>,
    /// May end early: not every load is made by a fleet.
    fleet: JoinHandle<Result<(), Error>>,
}

/// A record that the recording also passes to the trial.
pub enum RecordingEvent {
    /// Totals of a generator thread in a second.
    Second(SecondTotals),
    /// A note for readers of the records.
    Notice(String),
    /// The first failure of its kind in a thread.
    Example(FailureExample),
    /// The first key that was found not to be linearizable.
    Violation(LiveViolation),
    /// Result of the check beside the load.
    Checked(LiveCheckReport),
}

/// Settings for the recording of a load.
pub struct RecordedLoad<'a> {
    /// Members that clients connect to, in the order of the services.
    pub members: &'a [String],
    /// The audited keys whose operations are recorded.
    pub keys: SampledKeys,
    /// Length of the load, seconds.
    pub load_s: f64,
    /// Seed of the check beside the load; `None` without that check.
    pub checked_by: Option<u64>,
    /// Whether to leave out final seconds for which data from some threads is missing.
    pub whole_seconds_only: bool,
}

/// Senders for the measurements of a trial.
pub struct RecordSenders {
    /// Sender for the load.
    pub intervals: SyncSender<ThreadInterval>,
    /// Sender for the probes.
    pub samples: SampleSenders,
    /// Sender for the metrics that the target publishes.
    pub metrics: SyncSender<Metric>,
    /// Sender for comparisons of a fleet's clocks.
    pub clocks: SyncSender<FleetSecond>,
}

impl Recording {
    /// Creates the record files and starts the threads, which end when all senders are gone.
    /// `before` is the history of `[[prepare]]`.
    pub fn begin(
        folder: &TrialFolder,
        clock: Clock,
        before: &[HistoryEntry],
        load: &RecordedLoad<'_>,
        heard: Sender<RecordingEvent>,
    ) -> Result<(Self, RecordSenders), Error> {
        let load_s = load.load_s;
        let mut recorder = Recorder::create(folder, clock, load_s)?;
        recorder.record_members(folder, load.members, load_s)?;
        recorder.audit_only(load.keys);
        if load.whole_seconds_only {
            recorder.keep_whole_seconds_only();
        }
        recorder.history(before)?;
        let prepared = || before.iter().filter(|line| load.keys.have(line)).cloned().collect();
        let begin = |seed| LiveCheck::begin(seed, prepared(), heard.clone());
        let check = load.checked_by.map(begin).transpose()?;
        let rows = rows::CsvWriter::create(&folder.samples()).map_err(Error::Record)?;
        let (intervals, from_load) = sync_channel(PENDING);
        let (samples, from_probes) = sync_channel(PENDING);
        let (metrics, from_target) = sync_channel(PENDING);
        let (programs, of_programs) = sync_channel(PENDING);
        let (clocks, of_fleet) = sync_channel(PENDING);
        let (closely, moments) = channel();
        let load = named("record-load", move || record_load((recorder, check), &from_load, &moments, load_s, &heard))?;
        let probes = named("record-samples", move || record_samples(rows, &from_probes))?;
        let path = folder.metrics();
        let said = named("record-metrics", move || rows::write_all(&path, from_target).map_err(Error::Record))?;
        let path = folder.programs();
        let ran = named("record-programs", move || rows::write_all(&path, of_programs).map_err(Error::Record))?;
        let path = folder.fleet();
        let fleet = named("record-fleet", move || rows::write_all(&path, of_fleet).map_err(Error::Record))?;
        let recording = Self { load, closely, probes, metrics: said, programs: ran, fleet };
        let samples = SampleSenders { samples, programs };
        Ok((recording, RecordSenders { intervals, samples, metrics, clocks }))
    }

    /// Records outcomes in detail around `at_s`, seconds since load start, because a fault begins
    /// or ends.
    pub fn look_closely(&self, at_s: f64) {
        // If the recording has ended, there is nothing to write.
        let _ = self.closely.send(at_s);
    }

    /// Whether the recording of the load has ended, either with the load or because of an error
    /// such as a full disk.
    #[must_use]
    pub fn has_load_stopped(&self) -> bool {
        self.load.is_finished()
    }

    /// Whether the recording of the probes has ended although the probes still run. The thread for
    /// metrics is not checked: most targets publish none, so it may end at the start.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.probes.is_finished()
    }

    /// Waits until everything is on disk.
    ///
    /// # Errors
    /// The first error of a recording thread.
    pub fn end(self) -> Result<(), Error> {
        let ended = [self.load, self.probes, self.metrics, self.programs, self.fleet].map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Error::Broken("a recording thread panicked".to_owned())))
        });
        ended.into_iter().collect()
    }
}

type Recorded = Result<(), Error>;

fn named(name: &str, body: impl FnOnce() -> Recorded + Send + 'static) -> Result<JoinHandle<Recorded>, Error> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(Error::Record)
}

fn record_load(
    (mut recorder, mut check): (Recorder, Option<LiveCheck>),
    intervals: &Receiver<ThreadInterval>,
    moments: &Receiver<f64>,
    load_s: f64,
    heard: &Sender<RecordingEvent>,
) -> Result<(), Error> {
    for interval in intervals {
        let second = RecordingEvent::Second(SecondTotals { of_s: load_s, ..totals(&interval) });
        let notices = interval.notices.clone().into_iter().map(RecordingEvent::Notice);
        let examples = interval.examples.clone().into_iter().map(RecordingEvent::Example);
        let events: Vec<RecordingEvent> = notices.chain(examples).chain([second]).collect();
        moments.try_iter().for_each(|at_s| recorder.look_closely(at_s));
        let (thread, threads) = (interval.thread, interval.threads);
        let open_since_s = if interval.is_last { Some(f64::INFINITY) } else { interval.open_since_s };
        let lines = recorder.take(interval)?;
        if let Some((check, open_since_s)) = check.as_mut().zip(open_since_s) {
            check.take(EndedOperations { lines, thread, threads, open_since_s });
        }
        for news in events {
            // The receiver may be gone; the records do not depend on it.
            let _ = heard.send(news);
        }
    }
    recorder.finish()?;
    if let Some(check) = check {
        let _ = heard.send(RecordingEvent::Checked(check.end()));
    }
    Ok(())
}

fn totals(interval: &ThreadInterval) -> SecondTotals {
    let mut second =
        SecondTotals { at_s: interval.end_s, latency_ns: latency(&interval.sheet), ..SecondTotals::default() };
    for slot in &interval.slots {
        second.ok += u64::from(slot.ok);
        second.failed += u64::from(slot.failed);
        second.timeout += u64::from(slot.timeout);
        second.wrong += u64::from(slot.wrong);
    }
    second
}

/// Significant digits of a latency for observers. The records have more.
const DIGITS: u8 = 2;

/// Returns one histogram with the latencies of all `ok` operations.
fn latency(sheet: &HistogramSet) -> Option<Box<Histogram<u64>>> {
    // The histogram grows as needed, so no value is out of range.
    let mut all = Histogram::new(DIGITS).ok()?;
    for (_, outcome, time, histogram) in sheet.histograms() {
        if (outcome, time) == (Outcome::Ok, Time::Latency) {
            all.add(histogram).ok()?;
        }
    }
    (!all.is_empty()).then(|| Box::new(all))
}

fn record_samples(mut rows: rows::CsvWriter<Sample>, samples: &Receiver<Sample>) -> Result<(), Error> {
    for sample in samples {
        rows.write(&sample).map_err(Error::Record)?;
        rows.flush().map_err(Error::Record)?;
    }
    Ok(())
}

/// The writer of a trial's events.
pub struct EventLog {
    writer: lines::JsonLinesWriter<Event>,
    clock: Option<Clock>,
    before: Vec<(Instant, What)>,
    secrets: Secrets,
}

impl EventLog {
    /// Creates the trial's `events.jsonl`, in which no secret is ever written.
    pub fn begin(folder: &TrialFolder, secrets: &Secrets) -> std::io::Result<Self> {
        let writer = lines::JsonLinesWriter::create(&folder.events())?;
        Ok(Self { writer, clock: None, before: Vec::new(), secrets: secrets.clone() })
    }

    /// Starts the clock, whose zero is load start. Records the calendar time of its zero, and the
    /// events noted so far.
    pub fn start_clock(&mut self, clock: Clock) -> std::io::Result<()> {
        self.clock = Some(clock);
        let first = Event { at_s: 0.0, what: What::Clock { unix_s: clock.unix_s() } };
        self.writer.write(&first)?;
        for (at, what) in std::mem::take(&mut self.before) {
            self.write(clock.at_s_of(at), what)?;
        }
        self.writer.flush()
    }

    /// Records an event at this time.
    pub fn note(&mut self, at: Instant, what: What) -> std::io::Result<()> {
        let Some(clock) = self.clock else {
            self.before.push((at, what));
            return Ok(());
        };
        self.write(clock.at_s_of(at), what)?;
        self.writer.flush()
    }

    fn write(&mut self, at_s: f64, what: What) -> std::io::Result<()> {
        let what = if self.secrets.is_empty() { what } else { self.without_secrets(&what)? };
        self.writer.write(&Event { at_s, what })
    }

    fn without_secrets(&self, what: &What) -> std::io::Result<What> {
        let mut value = serde_json::to_value(what)?;
        self.secrets.hide(&mut value);
        Ok(serde_json::from_value(value)?)
    }

    /// Ends the file. If the load never started, starts the clock now, so that no event is lost.
    pub fn end(mut self) -> std::io::Result<()> {
        if self.clock.is_none() {
            self.start_clock(Clock::starting_in(std::time::Duration::ZERO))?;
        }
        self.writer.flush()
    }
}
