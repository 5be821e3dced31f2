//! Parts that one trial leaves to the next: a running target, and waiting generators.

use std::sync::{Arc, Mutex};

use experiment::plan::Trial;
use fleet::calls::GeneratorCaller;
use lab::Deployment;

use crate::Error;
use crate::load_makers::RaisedFleet;

/// A target that still runs after its trial.
pub struct StandingTarget {
    /// Hosts and processes of the target.
    pub deployment: Deployment,
    /// Generator that calls the target in place of this process, if there is one.
    pub elsewhere: Arc<Mutex<Option<GeneratorCaller>>>,
    /// Id of the trial for which the target was started.
    pub of: String,
    /// The last trial that used the target.
    pub last: Trial,
}

/// Parts that outlast a trial.
#[derive(Default)]
pub struct KeptParts {
    /// Generators that no trial uses at present.
    pub fleet: Option<RaisedFleet>,
    /// Target that no trial uses at present.
    pub target: Option<StandingTarget>,
}

impl KeptParts {
    /// Stops the target and ends the generators.
    pub fn end(self) -> Result<(), Error> {
        let stopped = self.target.map_or(Ok(()), |mut standing| standing.deployment.stop());
        if let Some(generators) = self.fleet {
            generators.end();
        }
        Ok(stopped?)
    }
}
