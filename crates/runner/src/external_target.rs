//! A target that the lab did not start, or only in part. Its processes on this machine are those
//! that serve its addresses, those connected to them, and those that the experiment names.

use std::collections::HashMap;
use std::net::SocketAddr;

use experiment::plan::AlsoTarget;
use linux::procfs::Stat;

use crate::connected::ConnectedProcesses;
use crate::ports::{Finder, ServerProcesses, TargetLocation};
use crate::sample_source::ProcDir;

/// A target that the lab did not start, or only in part.
pub struct ExternalTarget {
    pub(crate) addresses: Vec<TargetAddress>,
    /// Processes that belong to the target by connections, or that the experiment names.
    connected: ConnectedProcesses,
    /// Host and role of the target's row.
    pub(crate) name: (String, String),
    /// Result of the last search.
    pub found: Option<TargetLocation>,
}

/// An address of the target.
pub(crate) struct TargetAddress {
    /// Search for the processes at the address. `None` if the address is unknown.
    finder: Option<Finder>,
    /// Result of the last search. A server that was found and no longer listens is down.
    pub(crate) found: Option<TargetLocation>,
}

impl TargetAddress {
    fn look(&mut self, proc: &ProcDir, all: &HashMap<u32, Stat>) -> Option<&TargetLocation> {
        let was_here = matches!(self.found, Some(TargetLocation::Here(_)));
        if let Some(finder) = &mut self.finder {
            self.found = Some(match finder.look(proc, all) {
                TargetLocation::Unknown(_) if was_here => TargetLocation::Here(ServerProcesses::default()),
                found => found,
            });
        }
        self.found.as_ref()
    }
}

impl ExternalTarget {
    /// Returns a target with these addresses and the processes that the experiment names. An `Err`
    /// in `addresses` is the reason why an address is unknown. `name` is the host and role of the
    /// target's row.
    pub fn new(addresses: Vec<Result<SocketAddr, String>>, also: AlsoTarget, name: (String, String)) -> Self {
        let us = std::process::id();
        let addresses = addresses.into_iter().map(|address| match address {
            Ok(address) => TargetAddress { finder: Some(Finder::new(address, us)), found: None },
            Err(why) => TargetAddress { finder: None, found: Some(TargetLocation::Unknown(why)) },
        });
        let addresses = addresses.collect();
        Self { addresses, connected: ConnectedProcesses::new(also, us), name, found: None }
    }

    /// Searches again among all processes. `started` holds the processes of the target that the lab
    /// started. Returns `None` if no process of the target is known to be on this machine.
    pub(crate) fn look(
        &mut self,
        proc: &ProcDir,
        all: &HashMap<u32, Stat>,
        started: &[u32],
    ) -> Option<ServerProcesses> {
        // Processes that the experiment names are on this machine, wherever the address is.
        let mut is_here = self.connected.is_named();
        let (mut here, mut unknown) = (ServerProcesses::default(), None);
        for address in &mut self.addresses {
            match address.look(proc, all) {
                Some(TargetLocation::Here(found)) => {
                    is_here = true;
                    here.roots.extend(&found.roots);
                    here.more.extend(&found.more);
                }
                Some(TargetLocation::Unknown(why)) => unknown = unknown.or_else(|| Some(why.clone())),
                Some(TargetLocation::Elsewhere) | None => {}
            }
        }
        self.found = Some(match unknown {
            Some(why) if !self.connected.is_named() => TargetLocation::Unknown(why),
            _ if is_here => {
                self.connected.look(proc, all, started, &mut here);
                here.more.retain(|pid| !here.roots.contains(pid));
                TargetLocation::Here(here)
            }
            _ => TargetLocation::Elsewhere,
        });
        match &self.found {
            Some(TargetLocation::Here(found)) => Some(found.clone()),
            _ => None,
        }
    }
}
