//! Generators on machines that are reached over ssh: this program is sent there, a guard beside it removes it again, and the stream of each is
//! an ssh of its own.

use std::path::Path;
use std::process::{ChildStdin, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use runner::plain_text;

use super::RemoteHost;
use crate::Error;
use crate::host::{HostBackend as _, all_or_none, in_parallel};
use crate::registry::Registry;
use crate::system_program::KeptOutput;

/// For the last words of a generator that is lost. They are on their way already, or its machine cannot be reached.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The generators of a fleet on their machines. Dropped, they are let go of: each ends, and its guard removes all that is there.
#[derive(Debug)]
pub struct RemoteGenerators {
    all: Vec<RemoteGenerator>,
}

/// What leads to a generator.
#[derive(Debug)]
pub struct RemoteGeneratorStream {
    /// What it is called.
    pub name: String,
    /// Where it is told.
    pub orders: ChildStdin,
    /// What it says.
    pub messages: ChildStdout,
}

#[derive(Debug)]
struct RemoteGenerator {
    host: RemoteHost,
    errors: KeptOutput,
}

impl RemoteGenerators {
    /// Sends `plimsoll` to each of the machines, all at once, and starts a generator there; each place is a generator's name and its
    /// machine, as ssh takes it.
    ///
    /// # Errors
    /// The first that could not be reached, or where this program does not run; nothing is left of the others.
    pub fn raise(
        places: &[(String, String)],
        plimsoll: &Path,
        registry: &Registry,
        (stop, at_once): (&AtomicBool, &Arc<AtomicBool>),
    ) -> Result<(Self, Vec<RemoteGeneratorStream>), Error> {
        let ledger = registry.ledger();
        let raised = in_parallel(places.iter().collect(), |(name, destination): &(String, String)| {
            let mut host = RemoteHost::reach(name, destination, plimsoll, &ledger, (stop, at_once))?;
            match host.carry("generator", &|| stop.load(Ordering::SeqCst)) {
                Ok(program) => {
                    let (orders, messages) = (program.input, program.output);
                    let stream = RemoteGeneratorStream { name: name.clone(), orders, messages };
                    Ok((RemoteGenerator { host, errors: program.errors }, stream))
                }
                Err(error) => {
                    host.close();
                    Err(error)
                }
            }
        });
        let (all, streams) = all_or_none(raised)?.into_iter().unzip();
        Ok((Self { all }, streams))
    }

    /// Waits until those end that were told to, and has everything removed that is there.
    pub fn end(mut self) {
        self.close();
    }

    fn close(&mut self) {
        drop(in_parallel(std::mem::take(&mut self.all), |mut one: RemoteGenerator| {
            one.host.close();
            Ok(())
        }));
    }

    /// The same, but the one of that name is not waited for: what of it is left there goes when its machine notices. What came last to
    /// standard error over its ssh, if anything did.
    #[must_use]
    pub fn end_without(mut self, lost: &str) -> Option<String> {
        let ended = in_parallel(std::mem::take(&mut self.all), |mut one: RemoteGenerator| {
            if one.host.name != lost {
                one.host.close();
                return Ok(None);
            }
            Ok(one.let_go())
        });
        ended.into_iter().find_map(|said| said.ok().flatten())
    }
}

impl Drop for RemoteGenerators {
    fn drop(&mut self) {
        self.close();
    }
}

impl RemoteGenerator {
    fn let_go(&mut self) -> Option<String> {
        // Its input is closed by whoever spoke to it.
        self.host.release_within(LAST_WORDS);
        self.host.guard.dismiss(&|| true);
        let said = self.errors.text();
        let last = said.lines().rfind(|line| !line.trim().is_empty())?;
        Some(plain_text::beginning(last.trim(), plain_text::LINE_CHARACTERS))
    }
}
