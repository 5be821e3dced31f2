//! Load generators on machines reached over ssh. This program is copied to each machine. A guard
//! there removes the copy at the end. Each generator's stream uses its own ssh process.

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

/// Time limit for the last error lines of a lost generator. The lines are already on the way, or
/// the machine cannot be reached.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The generators of a fleet on their machines. Dropping it ends the generators; their guards then
/// remove all files from the machines.
#[derive(Debug)]
pub struct RemoteGenerators {
    all: Vec<RemoteGenerator>,
}

/// The stream to and from a generator.
#[derive(Debug)]
pub struct RemoteGeneratorStream {
    pub name: String,
    /// Input of the generator.
    pub orders: ChildStdin,
    /// Output of the generator.
    pub messages: ChildStdout,
}

#[derive(Debug)]
struct RemoteGenerator {
    host: RemoteHost,
    errors: KeptOutput,
}

impl RemoteGenerators {
    /// Copies `plimsoll` to all machines in parallel, and starts a generator on each. Each place is
    /// a generator's name and its machine's ssh destination.
    ///
    /// # Errors
    /// The first machine that cannot be reached or cannot run this program. The other machines are
    /// cleaned up.
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

    /// Waits until the generators end, and has their guards remove all files from the machines.
    pub fn end(mut self) {
        self.close();
    }

    fn close(&mut self) {
        drop(in_parallel(std::mem::take(&mut self.all), |mut one: RemoteGenerator| {
            one.host.close();
            Ok(())
        }));
    }

    /// Like [`Self::end`], but does not wait for the generator `lost`. The guard of `lost` removes
    /// the files once its machine notices the broken connection. Returns the last line of standard
    /// error from the ssh process of `lost`.
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
        // The caller has already closed the generator's input.
        self.host.release_within(LAST_WORDS);
        self.host.guard.dismiss(&|| true);
        let printed = self.errors.text();
        let last = printed.lines().rfind(|line| !line.trim().is_empty())?;
        Some(plain_text::beginning(last.trim(), plain_text::LINE_CHARACTERS))
    }
}
