//! Makers of a trial's load: the engine's threads in this process, or a fleet of generators. The
//! conductor sees a difference only if a generator is lost.

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

/// Minimum time between the setup of a fleet and the load's start. The recording starts meanwhile.
const LEAD: Duration = Duration::from_secs(1);

/// A running load. Dropping it ends it.
pub enum PlayedLoad {
    /// The load runs in this process.
    Here(RunningLoad),
    /// The load runs in generators.
    Fleet(RunningFleet, Box<FleetPlaces>),
}

/// The reason why a load ended early.
pub enum BadEnd {
    /// A generator was lost. Plimsoll made no error, but the trial did not have the planned load.
    Lost {
        generator: String,
        /// Time of the generator's last message, seconds since load start.
        heard_s: f64,
        reason: String,
    },
    /// Any other error.
    Error(Error),
}

impl PlayedLoad {
    /// Starts no more operations.
    pub fn stop(&self) {
        match self {
            Self::Here(load) => load.stop(),
            Self::Fleet(fleet, _) => fleet.stop(),
        }
    }

    /// Ends the load at once.
    pub fn abort(&self) {
        match self {
            Self::Here(load) => load.abort(),
            Self::Fleet(fleet, _) => fleet.abort(),
        }
    }

    /// Whether the load has ended, for whatever reason.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match self {
            Self::Here(load) => load.is_finished(),
            Self::Fleet(fleet, _) => fleet.is_finished(),
        }
    }

    /// Waits for the load to end. Returns the fleet if another trial can use it; otherwise ends the
    /// fleet.
    ///
    /// # Errors
    /// The reason why the load ended early.
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

/// A fleet's plan and its placed generators.
pub struct FleetPlaces {
    of: Fleet,
    placed: PlacedFleet,
    /// Files that were sent to the generators, by name: size and time of the last change.
    handed_over: BTreeMap<String, (u64, SystemTime)>,
}

/// Generators that wait for a load.
pub struct RaisedFleet {
    session: FleetSession,
    places: FleetPlaces,
}

impl RaisedFleet {
    /// Opens the session with placed generators.
    pub fn begin(of: &Fleet, (placed, streams): (PlacedFleet, Vec<GeneratorStream>)) -> Result<Self, Error> {
        Ok(Self {
            session: FleetSession::begin(streams)?,
            places: FleetPlaces { of: of.clone(), placed, handed_over: BTreeMap::new() },
        })
    }

    /// Returns a caller that reaches the target through the first generator while it runs.
    #[must_use]
    pub fn caller(&self) -> Option<GeneratorCaller> {
        self.session.caller()
    }

    /// Whether a trial with this `[fleet]` can use these generators.
    #[must_use]
    pub fn suits(&self, fleet: &Fleet) -> bool {
        self.places.of == *fleet
    }

    /// Whether all generators still answer.
    pub fn answers(&mut self, given_up: &dyn Fn() -> bool) -> bool {
        self.session.compare_all_clocks(given_up).is_ok()
    }

    /// Sends the files that a trial names, under the names used in the trial. Skips files that have
    /// not changed since they were last sent.
    ///
    /// # Errors
    /// A file cannot be read, or a generator does not accept it. The generators are then ended.
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

    /// Checks that the first generator can connect to a service.
    ///
    /// # Errors
    /// The reason why it cannot connect. The generators are then ended.
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

    /// Plays a preparation on the first generator, because this process may be unable to reach the
    /// target.
    ///
    /// # Errors
    /// An operation fails after all retries, or a generator is lost. The generators are then ended.
    pub fn prepare(mut self, orders: &LoadOrder, given_up: &dyn Fn() -> bool) -> Result<(Self, Preparation), Error> {
        if let Err(error) = self.session.set_up_first(&setup_of(orders, &self.places.of), given_up) {
            return Err(explained(error, self.places.placed).into());
        }
        let Self { session, places } = self;
        let clock = Clock::starting_in(session.lead());
        let (sink, intervals) = sync_channel(preparation::PENDING);
        // Clock comparisons are not needed during a preparation.
        let (clocks, _) = sync_channel(1);
        let running = session.start(clock, 1, sink, clocks)?;
        let history = preparation::recorded(&intervals, given_up, &|| running.abort());
        match running.join() {
            Ok((_, session)) => Ok((Self { session, places }, Preparation::of(clock, history))),
            Err(error) => Err(explained(error, places.placed).into()),
        }
    }

    /// Returns the generators if they are outside this machine, so that another trial can use them.
    /// Otherwise ends them.
    fn kept(self) -> Option<Self> {
        if self.places.of.by.is_elsewhere() {
            return Some(self);
        }
        self.end();
        None
    }

    pub fn end(self) {
        self.session.dismiss();
        self.places.placed.end();
    }
}

/// Converts a fleet's error into the load's, and ends the fleet's processes.
fn bad_end(error: SessionError, placed: PlacedFleet) -> BadEnd {
    match error {
        SessionError::Lost { name, at_s, reason } => {
            let output = placed.end_at_once(&name).map_or_else(String::new, |output| format!("; {output}"));
            BadEnd::Lost { generator: name, heard_s: at_s, reason: format!("{reason}{output}") }
        }
        error => BadEnd::Error(Error::Fleet(explained(error, placed))),
    }
}

/// Adds the failed generator's last standard error output to the error. Ends the fleet.
fn explained(error: SessionError, placed: PlacedFleet) -> SessionError {
    match error {
        SessionError::Generator { name, reason } => {
            let output = placed.end_at_once(&name).map_or_else(String::new, |output| format!("; {output}"));
            SessionError::Generator { reason: format!("{reason}{output}"), name }
        }
        other => other,
    }
}

/// Returns the setup message of a load for the generators.
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

/// Generators that are set up and wait for the start.
pub struct ReadyFleet {
    raised: RaisedFleet,
}

impl ReadyFleet {
    /// Checks each generator's part of the load, as far as this process can.
    pub fn check(fleet: &Fleet, orders: &LoadOrder) -> Result<(), Error> {
        for slice in LoadSlice::deal(fleet.generators, fleet.threads) {
            load::check(&LoadOrder { slice: Some(slice), ..orders.clone() })?;
        }
        Ok(())
    }

    /// Sends each generator its part of the load, and waits until all are set up.
    pub fn set_up(mut raised: RaisedFleet, orders: LoadOrder, given_up: &dyn Fn() -> bool) -> Result<Self, Error> {
        let setup = setup_of(&orders, &raised.places.of);
        let threads = raised.places.of.threads;
        match raised.session.set_up(&setup, threads, given_up) {
            Ok(()) => Ok(Self { raised }),
            Err(error) => Err(explained(error, raised.places.placed).into()),
        }
    }

    /// Returns the time from now to the earliest start of the load.
    #[must_use]
    pub fn lead(&self) -> Duration {
        self.raised.session.lead().max(LEAD)
    }

    /// Starts all generators at the clock's zero.
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
