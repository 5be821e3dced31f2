//! Where a fleet's generators are, and how they are let go of: processes beside the clients, hosts of the lab, machines behind ssh.

use std::io::BufReader;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use experiment::plan::Fleet;
use fleet::engines::PlacedGenerators;
use fleet::session::GeneratorStream;
use lab::Deployment;
use lab::hosts::RemoteGenerators;
use lab::registry::Registry;

use crate::Error;

/// What holds the generators. Whoever drops this ends them.
pub enum PlacedFleet {
    /// Processes that this one started.
    Processes(PlacedGenerators),
    /// Processes on hosts of the lab; they end with it, or with their streams.
    OnHosts(Vec<HostedGenerator>),
    /// On other machines.
    OverSsh(RemoteGenerators),
}

/// A generator on a host of the lab.
pub struct HostedGenerator {
    name: String,
    /// Another handle of the stream, to cut it.
    stream: UnixStream,
    /// What it wrote to its standard error.
    log: PathBuf,
}

impl PlacedFleet {
    /// Starts processes where the calling thread is.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn processes(fleet: &Fleet, plimsoll: &Path) -> Result<(Self, Vec<GeneratorStream>), Error> {
        let (placed, streams) = PlacedGenerators::raise(fleet, plimsoll)?;
        Ok((Self::Processes(placed), streams))
    }

    /// Starts them on the lab's hosts that are theirs.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn on_hosts(
        fleet: &Fleet,
        deployment: &mut Deployment,
        logs: &Path,
        given_up: &dyn Fn() -> bool,
    ) -> Result<(Self, Vec<GeneratorStream>), Error> {
        let hosts: Vec<String> = (1..=fleet.generators).map(|number| fleet.name(number)).collect();
        let (mut held, mut streams) = (Vec::new(), Vec::new());
        for generator in deployment.start_generators(&hosts, logs, given_up)? {
            let copy = || generator.stream.try_clone().map_err(lab::Error::system("speak to a generator"));
            let (orders, messages) = (Box::new(copy()?), Box::new(BufReader::new(copy()?)));
            streams.push(GeneratorStream { name: generator.name.clone(), orders, messages });
            held.push(HostedGenerator { name: generator.name, stream: generator.stream, log: generator.log });
        }
        Ok((Self::OnHosts(held), streams))
    }

    /// Sends this program to other machines, and starts them there.
    ///
    /// # Errors
    /// If one cannot be reached, or cannot run this program.
    pub fn over_ssh(
        fleet: &Fleet,
        plimsoll: &Path,
        registry: &Registry,
        ends: (&AtomicBool, &Arc<AtomicBool>),
    ) -> Result<(Self, Vec<GeneratorStream>), Error> {
        let place = |number| (fleet.name(number), fleet.host(number).unwrap_or_default().to_owned());
        let places: Vec<(String, String)> = (1..=fleet.generators).map(place).collect();
        let (placed, streams) = RemoteGenerators::raise(&places, plimsoll, registry, ends)?;
        let streams = streams.into_iter().map(|stream| GeneratorStream {
            name: stream.name,
            orders: Box::new(stream.orders),
            messages: Box::new(BufReader::new(stream.messages)),
        });
        Ok((Self::OverSsh(placed), streams.collect()))
    }

    /// Waits until those end that were told to, and ends the others.
    pub fn end(self) {
        match self {
            Self::Processes(placed) => placed.end(),
            // The lab waits for them when it is taken down.
            Self::OnHosts(_) => {}
            Self::OverSsh(placed) => placed.end(),
        }
    }

    /// Ends all at once; what that generator, which is lost, wrote last to its standard error, if it wrote anything.
    #[must_use]
    pub fn end_at_once(self, lost: &str) -> Option<String> {
        match self {
            Self::Processes(placed) => placed.end_at_once(lost),
            Self::OnHosts(held) => {
                for generator in &held {
                    // One that has ended has cut it itself.
                    let _ = generator.stream.shutdown(Shutdown::Both);
                }
                let lost = held.iter().find(|generator| generator.name == lost)?;
                last_line(&lost.log)
            }
            Self::OverSsh(placed) => placed.end_without(lost),
        }
    }
}

/// The last line of a file that says something.
fn last_line(path: &Path) -> Option<String> {
    let text = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().rfind(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned())
}
