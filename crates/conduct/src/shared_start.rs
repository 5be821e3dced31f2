//! What one trial leaves for the next: a target that stands, and generators that wait.

use std::sync::{Arc, Mutex};

use experiment::plan::Trial;
use fleet::calls::GeneratorCaller;
use lab::Deployment;

use crate::Error;
use crate::load_makers::RaisedFleet;

/// A target that stands after its trial.
pub struct StandingTarget {
    /// Its hosts and processes.
    pub deployment: Deployment,
    /// The generator that calls it in this process's place, if one does.
    pub elsewhere: Arc<Mutex<Option<GeneratorCaller>>>,
    /// Id of the trial for which it was started.
    pub of: String,
    /// The trial that used it last.
    pub last: Trial,
}

/// What outlasts a trial.
#[derive(Default)]
pub struct KeptParts {
    /// Generators that no trial plays.
    pub fleet: Option<RaisedFleet>,
    /// A target that no trial loads.
    pub target: Option<StandingTarget>,
}

impl KeptParts {
    /// Lets go of everything.
    ///
    /// # Errors
    /// If anything of the target is left.
    pub fn end(self) -> Result<(), Error> {
        let stopped = self.target.map_or(Ok(()), |mut standing| standing.deployment.stop());
        if let Some(generators) = self.fleet {
            generators.end();
        }
        Ok(stopped?)
    }
}
