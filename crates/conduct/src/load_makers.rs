//! Who makes a trial's load: the engine's threads in this process, or a fleet of generators. The conductor does not tell them apart but
//! where one of a fleet is lost.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use experiment::plan::Fleet;
use fleet::messages::{GeneratorSetup, VERSION};
use fleet::session::{FleetSession, GeneratorStream, RunningFleet, SessionError};
use load::{LoadOrder, LoadSlice, RunningLoad, ThreadInterval};
use record::clock::Clock;
use record::rows::FleetSecond;

use crate::Error;
use crate::fleet_placement::PlacedFleet;

/// Between the setup of a fleet and its beginning: time for the records to be begun as well.
const LEAD: Duration = Duration::from_secs(1);

/// A load that runs. Dropping it ends it.
pub enum PlayedLoad {
    /// In this process.
    Here(RunningLoad),
    /// In generators.
    Fleet(RunningFleet, PlacedFleet),
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

    /// Waits for the end, and lets the generators go.
    ///
    /// # Errors
    /// What ended it early.
    pub fn join(self) -> Result<(), BadEnd> {
        match self {
            Self::Here(load) => load.join().map(drop).map_err(|error| BadEnd::Error(error.into())),
            Self::Fleet(fleet, placed) => match fleet.join() {
                Ok((_, session)) => {
                    session.dismiss();
                    placed.end();
                    Ok(())
                }
                Err(error) => Err(bad_end(error, placed)),
            },
        }
    }
}

/// What a fleet's end comes to; its processes are gone then.
fn bad_end(error: SessionError, placed: PlacedFleet) -> BadEnd {
    match error {
        SessionError::Lost { name, at_s, reason } => {
            let said =
                placed.end_at_once(&name).map_or_else(String::new, |said| format!("; it wrote last: \"{said}\""));
            BadEnd::Lost { generator: name, heard_s: at_s, reason: format!("{reason}{said}") }
        }
        error => BadEnd::Error(Error::Fleet(explained(error, placed))),
    }
}

/// The error, with what the generator said of it where nobody reads.
fn explained(error: SessionError, placed: PlacedFleet) -> SessionError {
    match error {
        SessionError::Generator { name, reason } => {
            let said =
                placed.end_at_once(&name).map_or_else(String::new, |said| format!("; it wrote last: \"{said}\""));
            SessionError::Generator { reason: format!("{reason}{said}"), name }
        }
        other => other,
    }
}

/// Generators that are set up and wait for the moment to begin.
pub struct ReadyFleet {
    session: FleetSession,
    placed: PlacedFleet,
    threads: u32,
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
    pub fn set_up(
        fleet: &Fleet,
        orders: LoadOrder,
        (placed, streams): (PlacedFleet, Vec<GeneratorStream>),
        given_up: &dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        let setup = GeneratorSetup {
            version: VERSION,
            slice: LoadSlice { threads: fleet.all_threads(), first: 0, count: fleet.threads },
            protocol: orders.protocol.clone(),
            services: orders.services.clone(),
            load: orders.load.clone(),
            seed: orders.seed,
            tls: orders.tls.clone(),
            files: std::path::absolute(&orders.files).unwrap_or_else(|_| orders.files.clone()),
            slot_s: orders.slot_s,
        };
        let mut session = FleetSession::begin(streams)?;
        match session.set_up(&setup, fleet.threads, given_up) {
            Ok(()) => Ok(Self { session, placed, threads: fleet.threads }),
            Err(error) => Err(explained(error, placed).into()),
        }
    }

    /// How far in the future its load has to begin at least.
    #[must_use]
    pub fn lead(&self) -> Duration {
        self.session.lead().max(LEAD)
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
        let running = self.session.start(clock, self.threads, sink, clocks)?;
        Ok(PlayedLoad::Fleet(running, self.placed))
    }
}
