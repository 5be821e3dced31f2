//! The lab's end of a runner: asks and hears. One thread reads what the runner says; whoever asks waits for the answer to
//! its own number. It must not know how the runner came to its host.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use super::{Answer, Order, Setup};
use crate::Error;
use crate::hosts::{Process, Start};

/// A conversation with a runner. Dropped, its input is closed, and the runner ends with all that it started.
#[derive(Debug)]
pub(crate) struct Session {}

impl Session {
    /// Tells the runner its setup and waits until it is ready.
    ///
    /// # Errors
    /// [`Error::Host`]: in the runner's words; that it said nothing in time, or ended.
    pub fn open(
        input: Box<dyn Write + Send>,
        output: Box<dyn Read + Send>,
        setup: &Setup,
        within: Duration,
    ) -> Result<Arc<Self>, Error> {
        let _ = (input, output, within);
        Err(Error::NotYet(format!("a session with {}", setup.host)))
    }

    /// Has an order carried out.
    ///
    /// # Errors
    /// What the runner refused, [`Error::HostLost`] if it is gone or does not answer in time.
    pub fn ask(&self, order: Order, within: Duration) -> Result<Answer, Error> {
        let _ = (order, within);
        Err(Error::NotYet("a session".to_owned()))
    }

    /// Starts a process; its output goes to `start.log`.
    pub fn start(self: &Arc<Self>, start: &Start) -> Result<Box<dyn Process>, Error> {
        let _ = start;
        Err(Error::NotYet("a session".to_owned()))
    }

    /// Whether the runner still answers, as far as is known.
    pub fn is_open(&self) -> bool {
        false
    }

    /// The pid that the runner gave for itself.
    pub fn pid(&self) -> u32 {
        0
    }
}
