//! Orders as calls: what goes in and what comes out of each. It must not keep anything.

use std::path::PathBuf;
use std::time::Duration;

use record::events::HostFigures;
use record::rows::Sample;

use super::{PATIENCE, START_PATIENCE, Session};
use crate::Error;
use crate::hosts::{Ended, Output};
use crate::runner::{Answer, Control, Order, Program};

/// For a machine to be measured, which takes about ten seconds where nothing else runs.
const MEASURE_PATIENCE: Duration = Duration::from_secs(120);
/// For what may have to wait for a disk: folders; and for faults.
const SLOW_PATIENCE: Duration = Duration::from_secs(60);
/// For a fault to be lifted. Nothing is started or measured for that.
const LIFT_PATIENCE: Duration = Duration::from_secs(30);

impl Session {
    /// Runs a program to its end; killed after `within`.
    pub fn run(&self, program: &Program, input: &str, within: Duration) -> Result<Output, Error> {
        let (program, input, within_s) = (program.clone(), input.to_owned(), within.as_secs_f64());
        match self.ask(Order::Run { program, input, within_s }, within.saturating_add(START_PATIENCE))? {
            Answer::Ran { how, output, errors } => Ok(Output { ended: Ended::from_code(how), output, errors }),
            other => Err(self.unexpected(&other)),
        }
    }

    /// So many different ports on which nothing listens.
    pub fn ports(&self, count: usize) -> Result<Vec<u16>, Error> {
        match self.ask(Order::Ports { count }, PATIENCE)? {
            Answer::Ports { ports } if ports.len() == count => Ok(ports),
            other => Err(self.unexpected(&other)),
        }
    }

    /// An empty private folder of that name.
    pub fn make_folder(&self, name: &str) -> Result<PathBuf, Error> {
        match self.ask(Order::Folder { name: name.to_owned() }, SLOW_PATIENCE)? {
            Answer::Folder { path } => Ok(path),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Removes it.
    pub fn remove_folder(&self, name: &str) -> Result<(), Error> {
        self.ask(Order::RemoveFolder { name: name.to_owned() }, SLOW_PATIENCE).map(drop)
    }

    /// Reads the probes; `at_s` and `host` are left to be filled in.
    pub fn sample(&self, within: Duration) -> Result<Vec<Sample>, Error> {
        match self.ask(Order::Sample, within)? {
            Answer::Samples { rows } => Ok(rows),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Imposes a fault under a key.
    pub fn impose(&self, key: &str, control: &Control) -> Result<(), Error> {
        self.ask(Order::Impose { key: key.to_owned(), control: control.clone() }, SLOW_PATIENCE).map(drop)
    }

    /// Lifts it.
    pub fn lift(&self, key: &str) -> Result<(), Error> {
        self.ask(Order::Lift { key: key.to_owned() }, LIFT_PATIENCE).map(drop)
    }

    /// Measures the storage in the host's folder, for so long.
    pub fn measure_storage(&self, for_: Duration) -> Result<HostFigures, Error> {
        let order = Order::MeasureStorage { for_s: for_.as_secs_f64() };
        self.figures_of(order, for_.saturating_mul(2).saturating_add(SLOW_PATIENCE))
    }

    /// Measures the machine for a profile.
    pub fn measure_machine(&self) -> Result<String, Error> {
        match self.ask(Order::MeasureMachine, MEASURE_PATIENCE)? {
            Answer::Text { text } => Ok(text),
            other => Err(self.unexpected(&other)),
        }
    }

    /// What the host is and got.
    pub fn figures(&self) -> Result<HostFigures, Error> {
        self.figures_of(Order::Figures, PATIENCE)
    }

    fn figures_of(&self, order: Order, within: Duration) -> Result<HostFigures, Error> {
        match self.ask(order, within)? {
            Answer::Figures { figures } => Ok(*figures),
            other => Err(self.unexpected(&other)),
        }
    }
}
