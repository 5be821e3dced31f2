//! Records of a trial while it runs: its event log, its probes and the recording of its load.
//! Passes events on to the observer.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::time::{Duration, Instant};

use analysis::LiveViolation;
use lab::HostEvent;
use lab::sampling::Probes;
use load::ThreadInterval;
use record::clock::Clock;
use record::events::{HistoryEntry, What};
use record::folder::TrialFolder;
use record::rows::FleetSecond;

use super::target::TrialTarget;
use crate::Error;
use crate::examples::ExampleBook;
use crate::live_check::LiveCheckReport;
use crate::playing::Run;
use crate::progress::{Observer, ProgressEvent};
use crate::recording::{EventLog, RecordedLoad, Recording, RecordingEvent};

/// The records of a running trial.
pub struct TrialRecords<'a> {
    /// Folder of the trial.
    pub folder: TrialFolder,
    event_log: EventLog,
    /// Examples of failures: one of each kind is recorded.
    examples: ExampleBook,
    observer: &'a mut dyn Observer,
    clock: Option<Clock>,
    recording: Option<Recording>,
    probes: Option<Probes>,
    heard_in: Sender<RecordingEvent>,
    heard: Receiver<RecordingEvent>,
    /// First violation of linearizability, until the conductor knows it.
    violation: Option<LiveViolation>,
    /// The trial's first error, which decides the exit code.
    error: Option<Error>,
}

impl<'a> TrialRecords<'a> {
    /// Creates the trial's event log.
    pub fn begin(
        run: &Run<'_>,
        folder: TrialFolder,
        examples: ExampleBook,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, Error> {
        let (heard_in, heard) = channel();
        Ok(Self {
            event_log: EventLog::begin(&folder, run.secrets).map_err(Error::Record)?,
            folder,
            examples,
            observer,
            clock: None,
            recording: None,
            probes: None,
            heard_in,
            heard,
            violation: None,
            error: None,
        })
    }

    /// Returns the trial's clock; `None` before the load.
    pub fn clock(&self) -> Option<Clock> {
        self.clock
    }

    pub fn now_s(&self) -> f64 {
        self.at_s(Instant::now())
    }

    /// Returns a time as seconds since load start; -1 before the clock starts.
    pub fn at_s(&self, at: Instant) -> f64 {
        self.clock.map_or(-1.0, |clock| clock.at_s_of(at))
    }

    pub fn start_clock(&mut self, clock: Clock) -> Result<(), Error> {
        self.clock = Some(clock);
        self.event_log.start_clock(clock).map_err(Error::Record)
    }

    pub fn note(&mut self, at: Instant, what: What) {
        let is_of_fault = matches!(what, What::FaultBegun { .. } | What::FaultHealed { .. } | What::ActionTaken { .. });
        if let (true, Some(recording)) = (is_of_fault, &self.recording) {
            recording.look_closely(self.clock.map_or(0.0, |clock| clock.at_s_of(at)));
        }
        self.observer.tell(&ProgressEvent::Happened { at_s: self.clock.map(|clock| clock.at_s_of(at)), what: &what });
        if let Err(error) = self.event_log.note(at, what) {
            self.keep_error(Error::Record(error));
        }
    }

    pub fn note_now(&mut self, what: What) {
        self.note(Instant::now(), what);
    }

    pub fn notice(&mut self, text: String) {
        self.note_now(What::Notice { text });
    }

    pub fn note_all(&mut self, observed: Vec<HostEvent>) {
        for HostEvent { at, what } in observed {
            self.note(at, what);
        }
    }

    /// Starts the recording of the load and the probes. `before` is the history of `[[prepare]]`.
    /// Returns the senders for the load.
    pub fn begin_measuring(
        &mut self,
        clock: Clock,
        before: &[HistoryEntry],
        load: &RecordedLoad<'_>,
        target: &TrialTarget<'_>,
    ) -> Result<(SyncSender<ThreadInterval>, SyncSender<FleetSecond>), Error> {
        let (recording, senders) = Recording::begin(&self.folder, clock, before, load, self.heard_in.clone())?;
        self.recording = Some(recording);
        let watched = target.watched();
        let probes = self.probes.insert(Probes::start(watched.clone(), clock, senders.samples)?);
        target.inside(|| Ok(probes.scrape(&watched, clock, &senders.metrics)?))?;
        Ok((senders.intervals, senders.clocks))
    }

    /// Whether the recording of the probes has ended, although the probes still run.
    pub fn has_stopped(&self) -> bool {
        self.recording.as_ref().is_some_and(Recording::has_stopped)
    }

    /// Whether the recording of the load has ended.
    pub fn has_load_stopped(&self) -> bool {
        self.recording.as_ref().is_some_and(Recording::has_load_stopped)
    }

    /// Waits for an event of the recording, and passes it to the observer or the event log.
    pub fn wait(&mut self, at_most: Duration) {
        if let Ok(heard) = self.heard.recv_timeout(at_most) {
            self.pass_on(heard);
        }
    }

    fn pass_on(&mut self, heard: RecordingEvent) {
        match heard {
            RecordingEvent::Second(second) => self.observer.tell(&ProgressEvent::Second(second)),
            RecordingEvent::Notice(text) => self.notice(text),
            RecordingEvent::Example(example) => {
                if let Some(is) = self.examples.take(example) {
                    self.note_now(What::Example { is });
                }
            }
            RecordingEvent::Violation(violation) => self.violation = Some(violation),
            RecordingEvent::Checked(LiveCheckReport { operations, most_waiting, gave_up }) => {
                self.note_now(What::CheckedBeside { operations, most_waiting, gave_up });
            }
        }
    }

    /// Returns the first violation of linearizability, once.
    pub fn take_violation(&mut self) -> Option<LiveViolation> {
        self.violation.take()
    }

    /// Ends the probes and the recording. The load's senders must be gone.
    pub fn close(&mut self) -> Result<(), Error> {
        if let Some(probes) = self.probes.take() {
            let shares = probes.stop();
            self.note_now(shares);
        }
        let ended = self.recording.take().map_or(Ok(()), Recording::end);
        while let Ok(heard) = self.heard.try_recv() {
            self.pass_on(heard);
        }
        ended
    }

    /// Keeps the error if it is the trial's first error.
    pub fn keep_error(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    pub fn has_error(&self) -> bool {
        self.error.is_some()
    }

    /// Ends the event log.
    ///
    /// # Errors
    /// The log's error, or else the trial's first error.
    pub fn end(self) -> Result<(), Error> {
        self.event_log.end().map_err(Error::Record)?;
        self.error.map_or(Ok(()), Err)
    }
}
