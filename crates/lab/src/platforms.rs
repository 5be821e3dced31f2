//! Load generators on a platform that the user already runs: Kubernetes or Slurm. The platform's
//! own command-line program connects to each generator and carries Plimsoll's program there. At the
//! end, everything requested from the platform is removed.

pub(crate) mod delivery;
pub(crate) mod kubernetes;
mod slurm;

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use experiment::plan::{Fleet, FleetEngine, KubernetesFleet};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::host::{all_or_none, in_parallel};
use crate::hosts::{RemoteGeneratorStream, packed};
use crate::registry::Registry;
use crate::system_program::{KeptOutput, await_end, never};
use delivery::{Delivery, NotDelivered};

/// Time limit for generators to end when asked to.
const TO_END: Duration = Duration::from_secs(5);
/// Time limit for the program to arrive once the pods run.
const TO_ARRIVE: Duration = Duration::from_secs(60);
/// Allowance for a platform job in addition to the load: for placement, setup and records.
const BESIDE_THE_LOAD: Duration = Duration::from_secs(600);

/// Id of the next fleet of this process. It makes the fleet's names on the platform unique.
static RAISED: AtomicU32 = AtomicU32::new(1);

/// A run's resources on a platform. Their names or labels contain the run's id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "platform", rename_all = "snake_case")]
pub enum PlatformUse {
    /// Jobs of a Kubernetes cluster, labelled with the run.
    Kubernetes {
        /// Settings of the cluster.
        of: KubernetesFleet,
    },
    /// Slurm jobs whose name contains the run's id.
    Slurm,
}

impl PlatformUse {
    /// Removes the run's resources. Returns one line per removed item.
    ///
    /// # Errors
    /// A message for the user, if the platform was not reached.
    pub(crate) fn remove(&self, run: &str) -> Result<Vec<String>, String> {
        match self {
            Self::Kubernetes { of } => kubernetes::remove(of, run),
            Self::Slurm => slurm::remove(run),
        }
    }
}

/// A request to a platform.
struct Request<'a> {
    run: &'a str,
    /// Id of the fleet in this process.
    number: u32,
    /// Shell script that receives and runs the generator.
    script: &'a str,
    /// Time limit for the job.
    longest: Duration,
    /// A private folder on this machine.
    scratch: &'a Path,
    /// Returns whether the user wants to end.
    stop: &'a dyn Fn() -> bool,
}

/// A connection to a generator.
struct GeneratorConnection {
    /// Name of the generator.
    name: String,
    /// Description of the generator's location, for messages.
    place: String,
    /// Command on this machine whose standard input and output are the connection.
    command: Command,
}

/// The generators of a fleet on a platform. Dropping it ends them and removes the fleet's
/// resources.
#[derive(Debug)]
pub struct PlatformGenerators {
    all: Vec<PlatformGenerator>,
    /// Declared last, so that the resources are removed after the generators have ended.
    _asked: AskedPlaces,
}

#[derive(Debug)]
struct PlatformGenerator {
    name: String,
    place: String,
    carrier: Child,
    errors: KeptOutput,
}

/// Resources on a platform. Dropping it removes them.
#[derive(Debug)]
struct AskedPlaces {
    of: PlatformUse,
    run: String,
}

impl PlatformGenerators {
    /// Has the platform place all generators of a fleet, and sends `plimsoll` to each. `load` is
    /// the duration of the load.
    ///
    /// # Errors
    /// The platform's message, or a timeout if not all generators could be placed. In both cases,
    /// removes everything that was requested.
    pub fn raise(
        fleet: &Fleet,
        load: Duration,
        plimsoll: &Path,
        registry: &Registry,
        stop: &AtomicBool,
    ) -> Result<(Self, Vec<RemoteGeneratorStream>), Error> {
        let stop: &(dyn Fn() -> bool + Sync) = &|| stop.load(Ordering::SeqCst);
        let (ledger, run) = (registry.ledger(), registry.id());
        let scratch = ledger.scratch()?;
        let (program, unpack) = packed(plimsoll, &scratch, true).unwrap_or_else(|| (plimsoll.to_path_buf(), "cat"));
        let delivery = Delivery::of(&program, unpack).map_err(Error::on("read", &program))?;
        let of = match fleet.by {
            FleetEngine::Slurm => PlatformUse::Slurm,
            _ => PlatformUse::Kubernetes { of: kubernetes::settled(&fleet.kubernetes) },
        };
        ledger.on_platform(&of)?;
        let asked = AskedPlaces { of, run: run.to_owned() };
        let wait = Duration::from_secs_f64(fleet.wait_s);
        let script = delivery.script("generator");
        let request = Request {
            run,
            number: RAISED.fetch_add(1, Ordering::Relaxed),
            script: &script,
            longest: load + wait + BESIDE_THE_LOAD,
            scratch: &scratch,
            stop,
        };
        let (connections, within) = match fleet.by {
            FleetEngine::Slurm => (slurm::connections(fleet, &request), wait),
            _ => (kubernetes::raise(fleet, &request)?, TO_ARRIVE),
        };
        let until = Instant::now() + within;
        let raised = in_parallel(connections, |connection| {
            PlatformGenerator::reach(connection, &delivery, until, stop)
                .map_err(|(name, failed)| asked.explain(&name, failed, within))
        });
        let (all, streams) = all_or_none(raised)?.into_iter().unzip();
        Ok((Self { all, _asked: asked }, streams))
    }

    /// Waits until the generators end, kills late ones, and removes the fleet's resources.
    pub fn end(mut self) {
        let until = Instant::now() + TO_END;
        for generator in &mut self.all {
            // The drop kills a generator that does not end.
            let _ = await_end(&mut generator.carrier, until.saturating_duration_since(Instant::now()), &never);
        }
    }

    /// Ends all generators at once. Returns the location of the generator `lost` and the last line
    /// of its standard error, if any.
    #[must_use]
    pub fn end_without(mut self, lost: &str) -> Option<(String, Option<String>)> {
        let generator = self.all.iter_mut().find(|generator| generator.name == lost)?;
        delivery::end(&mut generator.carrier);
        Some((generator.place.clone(), delivery::last_words(&generator.errors)))
    }
}

impl PlatformGenerator {
    fn reach(
        mut connection: GeneratorConnection,
        delivery: &Delivery,
        until: Instant,
        stop: &dyn Fn() -> bool,
    ) -> Result<(Self, RemoteGeneratorStream), (String, NotDelivered)> {
        let pipe = KeptOutput::pipe();
        let (errors, held) = pipe.map_err(|error| (connection.name.clone(), NotDelivered::System(error)))?;
        let program = connection.command.get_program().to_string_lossy().into_owned();
        connection.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(held);
        let carrier = linux::spawn(connection.command).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                (connection.name.clone(), NotDelivered::Ended(no_program(&program, &error).to_string()))
            }
            _ => (connection.name.clone(), NotDelivered::System(error)),
        })?;
        let mut generator = Self { name: connection.name, place: connection.place, carrier, errors };
        let sent = delivery.send(&mut generator.carrier, &generator.errors, until, stop);
        let orders = sent.map_err(|error| (generator.name.clone(), error))?;
        let Some(messages) = generator.carrier.stdout.take() else {
            let error = io::Error::other("it was started without pipes");
            return Err((generator.name.clone(), NotDelivered::System(error)));
        };
        let stream = RemoteGeneratorStream { name: generator.name.clone(), orders, messages };
        Ok((generator, stream))
    }
}

impl Drop for PlatformGenerator {
    fn drop(&mut self) {
        delivery::end(&mut self.carrier);
    }
}

impl AskedPlaces {
    /// Explains why a generator could not be reached, with the platform's own reason if it has one.
    fn explain(&self, name: &str, failed: NotDelivered, within: Duration) -> Error {
        let reason = match failed {
            NotDelivered::Stopped => return Error::Interrupted,
            NotDelivered::System(error) => error.to_string(),
            NotDelivered::Ended(said) => format!("it ended before it connected: {said}"),
            NotDelivered::Waited => {
                let why = match &self.of {
                    PlatformUse::Slurm => slurm::why_waiting(&self.run),
                    PlatformUse::Kubernetes { .. } => None,
                };
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                let waited_s = within.as_secs_f64();
                format!("it did not connect within {waited_s} s{why}; `[fleet] wait` sets this time limit")
            }
        };
        Error::Platform { reason: format!("generator {name}: {reason}") }
    }
}

impl Drop for AskedPlaces {
    fn drop(&mut self) {
        // The registry still lists resources that could not be removed, for `clean`.
        let _ = self.of.remove(&self.run);
    }
}

/// Explains why a platform's program was not started.
fn no_program(program: &str, error: &io::Error) -> Error {
    let reason = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("`{program}` is not on this machine: install it, or run Plimsoll on a machine that has it")
        }
        _ => format!("`{program}` could not be started: {error}"),
    };
    Error::Platform { reason }
}
