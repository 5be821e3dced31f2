//! `events.jsonl` of one trial. Its clock's zero is load start, which is not known while the target is still being
//! started: what happens before is kept until then. It must not decide what is worth writing.

use std::time::Instant;

use experiment::secrets::Secrets;
use record::clock::Clock;
use record::events::{Event, What};
use record::folder::TrialFolder;
use record::lines::Writer;

/// The writer of a trial's events.
pub struct Diary {
    writer: Writer<Event>,
    clock: Option<Clock>,
    before: Vec<(Instant, What)>,
    secrets: Secrets,
}

impl Diary {
    /// Begins the trial's `events.jsonl`, in which none of the secrets is ever written.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn begin(folder: &TrialFolder, secrets: &Secrets) -> std::io::Result<Self> {
        let writer = Writer::create(&folder.events())?;
        Ok(Self { writer, clock: None, before: Vec::new(), secrets: secrets.clone() })
    }

    /// Load starts at this clock's zero: ties the clock to the calendar and writes down what happened before.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn start_clock(&mut self, clock: Clock) -> std::io::Result<()> {
        self.clock = Some(clock);
        let first = Event { at_s: 0.0, what: What::Clock { unix_s: clock.unix_s() } };
        self.writer.write(&first)?;
        for (at, what) in std::mem::take(&mut self.before) {
            self.write(clock.at_s_of(at), what)?;
        }
        self.writer.flush()
    }

    /// Writes down what happened at that moment.
    ///
    /// # Errors
    /// If the file cannot be written.
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

    /// Ends the file. A trial whose load never started gets its clock here, so that its events are not lost.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn end(mut self) -> std::io::Result<()> {
        if self.clock.is_none() {
            self.start_clock(Clock::starting_in(std::time::Duration::ZERO))?;
        }
        self.writer.flush()
    }
}
