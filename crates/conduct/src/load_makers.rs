//! Who makes a trial's load: the engine's threads in this process, or a fleet of generators. The conductor does not tell them apart but
//! where one of a fleet is lost.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use experiment::plan::{Fleet, Tls};
use fleet::calls::GeneratorCaller;
use fleet::messages::{GeneratorSetup, VERSION};
use fleet::session::{FleetSession, GeneratorStream, RunningFleet, SessionError};
use load::{LoadOrder, LoadSlice, RunningLoad, ThreadInterval};
use record::clock::Clock;
use record::rows::FleetSecond;

use crate::Error;
use crate::fleet_placement::PlacedFleet;
use crate::preparation::{self, Preparation};

/// Between the setup of a fleet and its beginning: time for the records to be begun as well.
const LEAD: Duration = Duration::from_secs(1);

/// A load that runs. Dropping it ends it.
pub enum PlayedLoad {
    /// In this process.
    Here(RunningLoad),
    /// In generators.
    Fleet(RunningFleet, Box<FleetPlaces>),
}

/// How a load ended badly.
pub enum BadEnd {
    /// A generator was lost: nobody's error, but the trial is not the one that was asked for.
    Lost {
        /// What the generator is called.
        generator: String,
        /// When it was last heard, seconds since load start.
        heard_s: f64,
        /// In words.
        reason: String,
    },
    /// Anything else.
    Error(Error),
}

impl PlayedLoad {
    /// No new operations from now on.
    pub fn stop(&self) {
        match self {
            Self::Here(load) => load.stop(),
            Self::Fleet(fleet, _) => fleet.stop(),
        }
    }

    /// Ends now.
    pub fn abort(&self) {
        match self {
            Self::Here(load) => load.abort(),
            Self::Fleet(fleet, _) => fleet.abort(),
        }
    }

    /// Whether it is over, well or badly.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match self {
            Self::Here(load) => load.is_finished(),
            Self::Fleet(fleet, _) => fleet.is_finished(),
        }
    }

    /// Waits for the end; the generators that another trial can have, and lets others go.
    ///
    /// # Errors
    /// What ended it early.
    pub fn join(self) -> Result<Option<RaisedFleet>, BadEnd> {
        match self {
            Self::Here(load) => load.join().map(|_| None).map_err(|error| BadEnd::Error(error.into())),
            Self::Fleet(fleet, places) => match fleet.join() {
                Ok((_, session)) => Ok(RaisedFleet { session, places: *places }.kept()),
                Err(error) => Err(bad_end(error, places.placed)),
            },
        }
    }
}

/// Generators where they are.
pub struct FleetPlaces {
    of: Fleet,
    placed: PlacedFleet,
    /// Files that they have, by name: size and time of the last change.
    handed_over: BTreeMap<String, (u64, SystemTime)>,
}

/// Generators that wait for a load.
pub struct RaisedFleet {
    session: FleetSession,
    places: FleetPlaces,
}

impl RaisedFleet {
    /// Begins to speak to generators that were placed.
    ///
    /// # Errors
    /// If the system refuses what that takes.
    pub fn begin(of: &Fleet, (placed, streams): (PlacedFleet, Vec<GeneratorStream>)) -> Result<Self, Error> {
        Ok(Self {
            session: FleetSession::begin(streams)?,
            places: FleetPlaces { of: of.clone(), placed, handed_over: BTreeMap::new() },
        })
    }

    /// Has the first of them call the target, as long as it is there.
    #[must_use]
    pub fn caller(&self) -> Option<GeneratorCaller> {
        self.session.caller()
    }

    /// Whether a trial that asks for such a fleet can have them.
    #[must_use]
    pub fn suits(&self, fleet: &Fleet) -> bool {
        self.places.of == *fleet
    }

    /// Whether all of them answer still.
    pub fn answers(&mut self, given_up: &dyn Fn() -> bool) -> bool {
        self.session.compare_all_clocks(given_up).is_ok()
    }

    /// Hands over the files that a trial names, as they are written there; those that have not changed since they were last, are there
    /// already.
    ///
    /// # Errors
    /// If one cannot be read, or a generator does not take it; they are gone then.
    pub fn with_files(mut self, names: &[&str], folder: &Path, given_up: &dyn Fn() -> bool) -> Result<Self, Error> {
        match self.hand_over(names, folder, given_up) {
            Ok(()) => Ok(self),
            Err(error) => Err(explained(error, self.places.placed).into()),
        }
    }

    fn hand_over(&mut self, names: &[&str], folder: &Path, given_up: &dyn Fn() -> bool) -> Result<(), SessionError> {
        for name in names {
            let wrong = |error| SessionError::File { name: (*name).to_owned(), error };
            let file = File::open(folder.join(name)).map_err(wrong)?;
            let is = file.metadata().and_then(|is| Ok((is.len(), is.modified()?))).map_err(wrong)?;
            if self.places.handed_over.get(*name) != Some(&is) {
                self.session.hand_over(name, file, given_up)?;
                self.places.handed_over.insert((*name).to_owned(), is);
            }
        }
        Ok(())
    }

    /// The same, if the first of them can connect to a service.
    ///
    /// # Errors
    /// Why it cannot; they are gone then.
    pub fn reaching(
        mut self,
        service: (&str, &str),
        (tls, files): (&Tls, &Path),
        given_up: &dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        match self.session.reach(service, (tls, files), given_up) {
            Ok(()) => Ok(self),
            Err(error) => Err(explained(error, self.places.placed).into()),
        }
    }

    /// Has the first of them play a preparation, since this process may not reach the target.
    ///
    /// # Errors
    /// If an operation fails for good, or a generator is lost; they are gone then.
    pub fn prepare(mut self, orders: &LoadOrder, given_up: &dyn Fn() -> bool) -> Result<(Self, Preparation), Error> {
        if let Err(error) = self.session.set_up_first(&setup_of(orders, &self.places.of), given_up) {
            return Err(explained(error, self.places.placed).into());
        }
        let Self { session, places } = self;
        let clock = Clock::starting_in(session.lead());
        let (sink, intervals) = sync_channel(preparation::PENDING);
        // Nobody wants to know how clocks compare meanwhile.
        let (clocks, _) = sync_channel(1);
        let running = session.start(clock, 1, sink, clocks)?;
        let history = preparation::recorded(&intervals, given_up, &|| running.abort());
        match running.join() {
            Ok((_, session)) => Ok((Self { session, places }, Preparation { clock, history })),
            Err(error) => Err(explained(error, places.placed).into()),
        }
    }

    /// The same, if they can outlast a trial; they are let go of if not.
    fn kept(self) -> Option<Self> {
        if self.places.of.by.is_elsewhere() {
            return Some(self);
        }
        self.end();
        None
    }

    /// Lets them go.
    pub fn end(self) {
        self.session.dismiss();
        self.places.placed.end();
    }
}

/// What a fleet's end comes to; its processes are gone then.
fn bad_end(error: SessionError, placed: PlacedFleet) -> BadEnd {
    match error {
        SessionError::Lost { name, at_s, reason } => {
            let said = placed.end_at_once(&name).map_or_else(String::new, |said| format!("; {said}"));
            BadEnd::Lost { generator: name, heard_s: at_s, reason: format!("{reason}{said}") }
        }
        error => BadEnd::Error(Error::Fleet(explained(error, placed))),
    }
}

/// The error, with what the generator said of it where nobody reads.
fn explained(error: SessionError, placed: PlacedFleet) -> SessionError {
    match error {
        SessionError::Generator { name, reason } => {
            let said = placed.end_at_once(&name).map_or_else(String::new, |said| format!("; {said}"));
            SessionError::Generator { reason: format!("{reason}{said}"), name }
        }
        other => other,
    }
}

/// What generators are told of a load.
fn setup_of(orders: &LoadOrder, fleet: &Fleet) -> GeneratorSetup {
    GeneratorSetup {
        version: VERSION,
        purpose: orders.purpose,
        slice: LoadSlice { threads: fleet.all_threads(), first: 0, count: fleet.threads },
        protocol: orders.protocol.clone(),
        services: orders.services.clone(),
        load: if fleet.by.is_elsewhere() { load::with_environment(&orders.load) } else { orders.load.clone() },
        seed: orders.seed,
        tls: orders.tls.clone(),
        files: orders.files.absolute_folder(),
        slot_s: orders.slot_s,
    }
}

/// Generators that are set up and wait for the moment to begin.
pub struct ReadyFleet {
    raised: RaisedFleet,
}

impl ReadyFleet {
    /// Finds what is wrong with the parts of the load and does not depend on a machine: without any of them, and once.
    ///
    /// # Errors
    /// The first part that cannot be played.
    pub fn check(fleet: &Fleet, orders: &LoadOrder) -> Result<(), Error> {
        for slice in LoadSlice::deal(fleet.generators, fleet.threads) {
            load::check(&LoadOrder { slice: Some(slice), ..orders.clone() })?;
        }
        Ok(())
    }

    /// Has the generators set up their parts of the load.
    ///
    /// # Errors
    /// If one cannot play its part.
    pub fn set_up(mut raised: RaisedFleet, orders: LoadOrder, given_up: &dyn Fn() -> bool) -> Result<Self, Error> {
        let setup = setup_of(&orders, &raised.places.of);
        let threads = raised.places.of.threads;
        match raised.session.set_up(&setup, threads, given_up) {
            Ok(()) => Ok(Self { raised }),
            Err(error) => Err(explained(error, raised.places.placed).into()),
        }
    }

    /// How far in the future its load has to begin at least.
    #[must_use]
    pub fn lead(&self) -> Duration {
        self.raised.session.lead().max(LEAD)
    }

    /// Has all begin at the clock's zero.
    ///
    /// # Errors
    /// If that is no moment of a generator's clock.
    pub fn start(
        self,
        clock: Clock,
        sink: SyncSender<ThreadInterval>,
        clocks: SyncSender<FleetSecond>,
    ) -> Result<PlayedLoad, Error> {
        let RaisedFleet { session, places } = self.raised;
        let running = session.start(clock, places.of.threads, sink, clocks)?;
        Ok(PlayedLoad::Fleet(running, Box::new(places)))
    }
}
