//! The switch: a network namespace with a bridge for each network, into which the hosts are plugged and where the clients are.
//! It must not make anything in the machine's own network.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::machine::Kept;
use super::needs;
use super::wiring::Cables;
use crate::Error;
use crate::hosts::Ended;
use crate::linux::network::{self, Trouble};
use crate::registry::Ledger;
use crate::runner::session::Session;
use crate::runner::{Isolation, Program, Setup, VERSION};

/// Its name where it has to be called something.
const NAME: &str = "switch";
const PATIENCE: Duration = Duration::from_secs(30);
const END_PATIENCE: Duration = Duration::from_secs(5);

/// The switch of a lab. Gone with all cables when it is dropped.
#[derive(Debug)]
pub struct Switch {
    cables: Cables,
    session: Arc<Session>,
    kept: Mutex<Kept>,
}

impl Switch {
    /// Makes it, with its bridges.
    pub fn make(
        cables: Cables,
        plimsoll: &Path,
        folder: &Path,
        ledger: &Ledger,
        at_once: &Arc<AtomicBool>,
    ) -> Result<Self, Error> {
        let setup = Setup {
            version: VERSION.to_owned(),
            host: NAME.to_owned(),
            run: ledger.id().to_owned(),
            folder: folder.join(NAME),
            isolation: Some(Isolation { is_switch: true, ..Isolation::default() }),
            ..Setup::default()
        };
        let (kept, session) = Kept::start(plimsoll, &setup, &folder.join("switch.log"), ledger, at_once)?;
        let switch = Self { cables, session, kept: Mutex::new(kept) };
        switch.ip(&switch.cables.bridges())?;
        Ok(switch)
    }

    /// Plugs hosts in, each by its number and the process that holds its network, in one go.
    pub fn plug(&self, hosts: &[(usize, u32)]) -> Result<(), Error> {
        self.ip(&hosts.iter().map(|(host, pid)| self.cables.plug(*host, *pid)).collect::<String>())
    }

    /// Pulls a host's cables out.
    pub fn unplug(&self, host: usize) {
        for command in self.cables.unplug(host) {
            // It may have gone with the host.
            let _ = self.ip(&command);
        }
    }

    /// Lets the clients reach networks that they are not on, once the hosts in between are plugged in.
    pub fn route_clients(&self) -> Result<(), Error> {
        let routes = self.cables.clients_routes();
        if routes.is_empty() { Ok(()) } else { self.ip(&routes) }
    }

    /// The network namespace.
    pub fn network(&self) -> Result<OwnedFd, Error> {
        let pid = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pid();
        let path = format!("/proc/{pid}/ns/net");
        Ok(File::open(&path).map_err(Error::system(format!("open {path}")))?.into())
    }

    /// The conversation with its runner: as long as that lives, so does the switch.
    pub fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }

    fn ip(&self, batch: &str) -> Result<(), Error> {
        let program = Program {
            role: String::new(),
            command: ["ip", "-batch", "-"].map(str::to_owned).to_vec(),
            ..Program::default()
        };
        let done = self.session.run(&program, batch, PATIENCE)?;
        if done.ended == Ended::Exit(0) {
            return Ok(());
        }
        Err(match network::understood("wire the lab", batch, &done.errors) {
            Trouble::NoKernel(part) => needs::of_kernel("a lab of virtual hosts", &part),
            trouble => Error::Host { host: NAME.to_owned(), reason: trouble.to_string() },
        })
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.session.close(END_PATIENCE);
        // What is left is found by its mark at the end of the run.
        let _ = self.kept.lock().unwrap_or_else(PoisonError::into_inner).end();
    }
}
