//! All records of a trial, in memory; of the log of latencies only sums, so it is read last, when it is known which part of it is
//! measured. It must not draw conclusions.

use experiment::plan;
use record::ReadError;
use record::events::{Ending, Event, History, Phase, What};
use record::folder::TrialFolder;
use record::hlog;
use record::lines;
use record::replicas::{self, Replica};
use record::rows::{self, Attempts, GeneratorSecond, OutcomeSlot, Sample};

use crate::operations::LoadLog;
use crate::sound::{self, Reach};

/// What a trial left behind. A file that is missing is an empty one.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pub load: LoadLog,
    pub slots: Vec<OutcomeSlot>,
    pub attempts: Vec<Attempts>,
    pub samples: Vec<Sample>,
    pub generator: Vec<GeneratorSecond>,
    pub events: Vec<Event>,
    pub history: Vec<History>,
    /// What members told they hold.
    pub replicas: Vec<Replica>,
    /// Names of the files whose last line was cut off.
    pub torn: Vec<&'static str>,
    /// Names of the files that are not there, of those that every load begins with.
    pub absent: Vec<&'static str>,
}

/// What every load begins to write before its first operation, and is not there.
fn absent(folder: &TrialFolder) -> Vec<&'static str> {
    let begun = [
        (folder.load_hlog(), "load.hlog"),
        (folder.outcomes(), "outcomes.csv"),
        (folder.attempts(), "attempts.csv"),
        (folder.generator(), "generator.csv"),
        (folder.samples(), "samples.csv"),
        (folder.history(), "history.jsonl"),
    ];
    begun.into_iter().filter(|(path, _)| !path.exists()).map(|(_, name)| name).collect()
}

impl Evidence {
    /// Reads all but the log of latencies.
    pub fn read(planned: &plan::Trial, folder: &TrialFolder) -> Result<Self, ReadError> {
        let slots = rows::read::<OutcomeSlot>(&folder.outcomes())?;
        let attempts = rows::read::<Attempts>(&folder.attempts())?;
        let samples = rows::read::<Sample>(&folder.samples())?;
        let generator = rows::read::<GeneratorSecond>(&folder.generator())?;
        let events = lines::read_events(&folder.events())?;
        let history = lines::read::<History>(&folder.history())?;
        let replicas = replicas::read(&folder.replicas())?;
        let torn = [
            (slots.torn, "outcomes.csv"),
            (attempts.torn, "attempts.csv"),
            (samples.torn, "samples.csv"),
            (generator.torn, "generator.csv"),
            (events.torn, "events.jsonl"),
            (history.torn, "history.jsonl"),
            (replicas.torn, "replicas.jsonl"),
        ];
        let evidence = Self {
            load: LoadLog::default(),
            slots: slots.items,
            attempts: attempts.items,
            samples: samples.items,
            generator: generator.items,
            events: events.items,
            history: history.items,
            replicas: replicas.items,
            torn: torn.into_iter().filter(|(torn, _)| *torn).map(|(_, name)| name).collect(),
            absent: absent(folder),
        };
        sound::records(folder, Reach::of(planned), &evidence)?;
        Ok(evidence)
    }

    /// Reads the log of latencies; those of intervals that begin at `measured_from_s` or later are also summed up apart.
    pub fn read_log(
        &mut self,
        planned: &plan::Trial,
        folder: &TrialFolder,
        measured_from_s: f64,
    ) -> Result<(), ReadError> {
        self.load = LoadLog::measured_from(measured_from_s);
        let (reach, mut sound) = (Reach::of(planned), Ok(()));
        let log = hlog::visit(&folder.load_hlog(), |interval| {
            if sound.is_ok() {
                sound = sound::interval(folder, reach, &interval);
                self.load.add(&interval);
            }
        })?;
        sound?;
        if log.torn {
            self.torn.insert(0, "load.hlog");
        }
        Ok(())
    }

    /// How the trial ended and why; `None` if its records end in the middle.
    pub fn ending(&self) -> Option<(Ending, Option<&str>)> {
        self.events.iter().rev().find_map(|event| match &event.what {
            What::Ended { how, reason } => Some((*how, reason.as_deref())),
            _ => None,
        })
    }

    /// When the trial entered a phase, seconds since load start.
    pub fn entered_s(&self, wanted: Phase) -> Option<f64> {
        self.events.iter().find(|event| event.what == What::Phase { phase: wanted }).map(|event| event.at_s)
    }

    /// The last moment that any record speaks of, seconds since load start.
    pub fn last_s(&self) -> Option<f64> {
        let slots = self.slots.iter().map(|slot| slot.at_s + slot.slot_s);
        let samples = self.samples.iter().map(|sample| sample.at_s);
        let generator = self.generator.iter().map(|second| second.at_s);
        let events = self.events.iter().map(|event| event.at_s);
        slots.chain(self.load.last_s()).chain(samples).chain(generator).chain(events).max_by(f64::total_cmp)
    }
}
