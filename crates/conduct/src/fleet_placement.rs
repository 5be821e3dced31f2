//! Placement of a fleet's generators, and their end. Generators run as processes on this machine,
//! on hosts of the lab, on machines reached over ssh, or in places of a platform.

use std::io::BufReader;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use experiment::plan::Fleet;
use fleet::engines::PlacedGenerators;
use fleet::session::GeneratorStream;
use lab::Deployment;
use lab::hosts::{RemoteGeneratorStream, RemoteGenerators};
use lab::platforms::PlatformGenerators;
use lab::registry::Registry;

use crate::Error;

/// Placed generators. Dropping the value ends them.
pub enum PlacedFleet {
    /// Processes that this process started.
    Processes(PlacedGenerators),
    /// Processes on hosts of the lab. They end when the lab or their streams end.
    OnHosts(Vec<HostedGenerator>),
    /// Processes on other machines.
    OverSsh(RemoteGenerators),
    /// Processes in places of a platform.
    OnPlatform(PlatformGenerators),
}

/// A generator on a host of the lab.
pub struct HostedGenerator {
    name: String,
    /// A second handle of the generator's stream, to close the stream.
    stream: UnixStream,
    /// File with the generator's standard error output.
    log: PathBuf,
}

impl PlacedFleet {
    /// Starts generators as processes on the CPUs and in the network of the calling thread.
    pub fn processes(fleet: &Fleet, plimsoll: &Path) -> Result<(Self, Vec<GeneratorStream>), Error> {
        let (placed, streams) = PlacedGenerators::raise(fleet, plimsoll)?;
        Ok((Self::Processes(placed), streams))
    }

    /// Starts generators on the lab's hosts for generators.
    pub fn on_hosts(
        fleet: &Fleet,
        deployment: &mut Deployment,
        logs: &Path,
        given_up: &dyn Fn() -> bool,
    ) -> Result<(Self, Vec<GeneratorStream>), Error> {
        let hosts: Vec<String> = (1..=fleet.generators).map(|number| fleet.name(number)).collect();
        let (mut held, mut streams) = (Vec::new(), Vec::new());
        for generator in deployment.start_generators(&hosts, logs, given_up)? {
            let [orders, messages] = [(); 2].map(|()| generator.stream.try_clone());
            let orders = Box::new(orders.map_err(lab::Error::system("connect to a generator"))?);
            let messages = Box::new(BufReader::new(messages.map_err(lab::Error::system("connect to a generator"))?));
            streams.push(GeneratorStream { name: generator.name.clone(), orders, messages });
            held.push(HostedGenerator { name: generator.name, stream: generator.stream, log: generator.log });
        }
        Ok((Self::OnHosts(held), streams))
    }

    /// Sends this program to the fleet's machines, and starts a generator on each.
    pub fn over_ssh(
        fleet: &Fleet,
        plimsoll: &Path,
        registry: &Registry,
        ends: (&AtomicBool, &Arc<AtomicBool>),
    ) -> Result<(Self, Vec<GeneratorStream>), Error> {
        let numbers = 1..=fleet.generators;
        let places: Vec<(String, String)> =
            numbers.map(|number| (fleet.name(number), fleet.host(number).unwrap_or_default().to_owned())).collect();
        let (placed, streams) = RemoteGenerators::raise(&places, plimsoll, registry, ends)?;
        Ok((Self::OverSsh(placed), streams.into_iter().map(spoken_to).collect()))
    }

    /// Lets a platform place the generators, and sends this program to them. `load` is the longest
    /// time for which they are needed.
    pub fn on_platform(
        fleet: &Fleet,
        load: Duration,
        plimsoll: &Path,
        registry: &Registry,
        stop: &AtomicBool,
    ) -> Result<(Self, Vec<GeneratorStream>), Error> {
        let (placed, streams) = PlatformGenerators::raise(fleet, load, plimsoll, registry, stop)?;
        Ok((Self::OnPlatform(placed), streams.into_iter().map(spoken_to).collect()))
    }

    /// Waits for generators that were asked to end, and kills the others.
    pub fn end(self) {
        match self {
            Self::Processes(placed) => placed.end(),
            // The lab waits for its generators when it is taken down.
            Self::OnHosts(_) => {}
            Self::OverSsh(placed) => placed.end(),
            Self::OnPlatform(placed) => placed.end(),
        }
    }

    /// Ends all generators at once. Returns the lost generator's place and last standard error
    /// output, as far as they are known.
    #[must_use]
    pub fn end_at_once(self, lost: &str) -> Option<String> {
        let wrote = |said: String| format!("its last output: \"{said}\"");
        match self {
            Self::Processes(placed) => placed.end_at_once(lost).map(wrote),
            Self::OnHosts(held) => {
                for generator in &held {
                    // A generator that has ended has closed the stream itself.
                    let _ = generator.stream.shutdown(Shutdown::Both);
                }
                let lost = held.iter().find(|generator| generator.name == lost)?;
                last_line(&lost.log).map(wrote)
            }
            Self::OverSsh(placed) => placed.end_without(lost).map(wrote),
            Self::OnPlatform(placed) => {
                let (place, said) = placed.end_without(lost)?;
                let said = said.map_or_else(String::new, |said| format!("; {}", wrote(said)));
                Some(format!("it ran as {place}{said}"))
            }
        }
    }
}

fn spoken_to(stream: RemoteGeneratorStream) -> GeneratorStream {
    let (orders, messages) = (Box::new(stream.orders), Box::new(BufReader::new(stream.messages)));
    GeneratorStream { name: stream.name, orders, messages }
}

/// Returns the last non-blank line of a file.
fn last_line(path: &Path) -> Option<String> {
    let text = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().rfind(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned())
}
