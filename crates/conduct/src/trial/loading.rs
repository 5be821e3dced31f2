//! The load as a trial performs it: preparation, start, end, read-back, all from where the clients are. It must not decide when.

use std::time::{Duration, Instant};

use experiment::plan;
use lab::Site;
use lab::probes::Probes;
use load::recorder::SampledKeys;
use load::{Orders, Purpose};
use record::clock::Clock;
use record::events::What;

use super::Shell;
use crate::Error;
use crate::conductor::Input;
use crate::preparation;
use crate::read_back::read_back;
use crate::recording::Recording;
use crate::replicas::{Asked, read_replicas};
use crate::weight::audits_one_in;

/// Between the decision to start the load and its first operation: time for threads and files to get ready.
const LEAD: Duration = Duration::from_millis(50);

/// What ended is counted in slots so long; how many of them are written one by one is for the recorder.
const SLOT_S: f64 = 0.001;

impl Shell<'_> {
    fn orders(&self, mut load: plan::Load, purpose: Purpose) -> Orders {
        let own_cpus = self.site.as_ref().map_or(0, |site| site.ground().cpus().len());
        if let (None, Ok(threads @ 1..)) = (load.threads, u32::try_from(own_cpus)) {
            load.threads = Some(threads);
        }
        Orders {
            protocol: self.trial.target.protocol.clone(),
            services: self.services(),
            slot_s: SLOT_S,
            load,
            purpose,
            seed: self.trial.seed,
            tls: self.trial.target.tls.clone(),
            files: self.run.files.clone(),
            tether: Some(lab::ends_with_us),
            without_ring: false,
        }
    }

    /// Where clients go: not to a member that was down before they came.
    fn services(&self) -> Vec<String> {
        self.site.as_ref().map(|site| site.services_but(&self.down)).unwrap_or_default()
    }

    pub(super) fn prepare(&mut self) -> Result<(), Error> {
        let (interrupts, answered) = (self.interrupts, self.answered);
        for prepare in &self.trial.prepare {
            let load = preparation::load(prepare, self.trial.load.as_ref());
            let orders = self.orders(load, Purpose::Prepare { count: prepare.count });
            let interrupted = || interrupts.asked() > answered;
            let done = inside(self.site.as_ref(), || preparation::perform(orders, &interrupted))?;
            self.prepared.push(done);
        }
        Ok(())
    }

    pub(super) fn begin_load(&mut self) -> Result<(), Error> {
        self.inspect("before_load");
        let clock = Clock::starting_in(LEAD);
        self.clock = Some(clock);
        self.diary.start_clock(clock).map_err(Error::Record)?;
        let load_s = self.trial.load.as_ref().map_or(0.0, |load| load.time_s);
        let before = preparation::history(std::mem::take(&mut self.prepared), clock);
        let one_in = self.trial.load.as_ref().map_or(1, audits_one_in);
        if one_in > 1 {
            let text = format!(
                "one of {one_in} audited keys is checked, with all its operations: all of them together would be too many for the \
                 disk and the memory of this machine"
            );
            self.note(Instant::now(), What::Notice { text });
        }
        let keys = SampledKeys::of(one_in, self.trial.seed);
        let (recording, sinks) = Recording::begin(&self.folder, clock, &before, keys, load_s, self.heard_in.clone())?;
        self.recording = Some(recording);
        let watched = self.site.as_ref().map(Site::watched).unwrap_or_default();
        let probes = self.probes.insert(Probes::start(watched.clone(), clock, sinks.samples)?);
        inside(self.site.as_ref(), || Ok(probes.scrape(&watched, clock, &sinks.metrics)?))?;
        match &self.trial.load {
            Some(load) => {
                let orders = self.orders(load.clone(), Purpose::Measure);
                let start = || Ok(load::start(orders, clock, sinks.intervals)?);
                self.load = Some(inside(self.site.as_ref(), start)?);
            }
            None => self.no_load = Some(sinks.intervals),
        }
        Ok(())
    }

    pub(super) fn end_load(&mut self) -> Input {
        let Some(load) = self.load.take() else { return Input::LoadEnded };
        let summary = load.join();
        self.inspect("after_load");
        match summary {
            Ok(_) => Input::LoadEnded,
            Err(error) => self.broke(Some(error)),
        }
    }

    /// What has come of the recording, if it has stopped.
    pub(super) fn look_at_recording(&mut self) -> Option<Input> {
        let recording = self.recording.as_ref()?;
        if recording.has_stopped() {
            return Some(self.recording_broke());
        }
        // The load's records also end when it does, and that may be seen a moment before its own end. Else nobody takes what it
        // records, and it ends with an error.
        (self.load.is_some() && recording.has_load_stopped()).then(|| self.end_load())
    }

    fn recording_broke(&mut self) -> Input {
        // The recording's threads end only when all who give them something have.
        let engine = self.load.take().and_then(|load| {
            load.abort();
            load.join().err()
        });
        self.broke(engine)
    }

    /// Ends the recording too, and says what ended the trial.
    fn broke(&mut self, engine: Option<load::Error>) -> Input {
        let error = cause(engine, self.close_records().err());
        let reason = error.to_string();
        self.error.get_or_insert(error);
        Input::Broke(reason)
    }

    pub(super) fn read_back(&mut self) -> Result<Input, Error> {
        // The load's recorder holds the history until it is closed.
        self.close_records()?;
        let (interrupts, answered) = (self.interrupts, self.answered);
        let give_up = || interrupts.asked() > answered;
        // First: a read through the service may repair what it finds, and the members are to be seen as they are.
        let asked = match &mut self.site {
            Some(site) => read_replicas(site, &self.folder, &give_up)?,
            None => None,
        };
        if let Some(Asked { rounds, settled, .. }) = asked {
            self.note(Instant::now(), What::Replicas { rounds, settled });
        }
        let (Some(site), Some(clock)) = (&self.site, self.clock) else { return Ok(Input::ReadBack(0, 0)) };
        let (folder, protocol, services) = (&self.folder, self.trial.target.protocol.as_str(), self.services());
        let members_told = asked.is_some_and(|asked| asked.answered > 0);
        let read = || read_back(folder, protocol, &services, clock, members_told, &give_up);
        let done = inside(Some(site), read)?;
        Ok(Input::ReadBack(done.keys, done.unread))
    }
}

/// What ended a trial whose engine or recording ended early. An engine that only found that nobody takes its records says nothing
/// of why; any other error of its own is the cause, whichever of the two was seen to end first.
pub(super) fn cause(engine: Option<load::Error>, recording: Option<Error>) -> Error {
    match (engine, recording) {
        (Some(error), None) => error.into(),
        (Some(error), Some(_)) if !matches!(error, load::Error::RecorderGone) => error.into(),
        (_, Some(error)) => error,
        (None, None) => Error::Broken("recording ended before the trial".to_owned()),
    }
}

/// Does something where the clients are.
fn inside<T: Send>(site: Option<&Site>, work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    match site {
        Some(site) => site.ground().inside(work)?,
        None => work(),
    }
}
