//! The ground that the clients stand on: the network from which the hosts are reached, and the CPUs that are theirs. Threads
//! that are started inside inherit both. It must not know what is done inside.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};
use std::os::fd::AsFd as _;

use crate::Error;
use crate::runner::session::Session;

/// Where the clients are. The default: this machine as it is.
#[derive(Debug, Default)]
pub struct Ground {
    /// The network namespace; `None`: this program's own.
    pub(crate) network: Option<OwnedFd>,
    /// Who keeps that network, if somebody does.
    pub(crate) switch: Option<Arc<Session>>,
    /// CPUs of the machine; empty: all.
    pub(crate) cpus: Vec<u32>,
    /// What the user should know of how it was made.
    pub(crate) notices: Vec<String>,
}

impl Ground {
    /// CPUs that the clients have to themselves; empty: they share all.
    #[must_use]
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// Why the network has no keeper any more, if that went by itself.
    pub(crate) fn lost_switch(&self) -> Option<String> {
        self.switch.as_ref()?.lost_by_itself()
    }

    /// Does `work` on a thread that is there; threads that it starts stay there.
    ///
    /// # Errors
    /// If no thread can be started or it cannot go there.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        if self.network.is_none() && self.cpus.is_empty() {
            return Ok(work());
        }
        std::thread::scope(|scope| {
            let there = std::thread::Builder::new().name("inside".to_owned()).spawn_scoped(scope, || {
                self.enter()?;
                Ok(work())
            });
            let there = there.map_err(Error::system("start a thread"))?;
            // A panic inside is one outside.
            there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn enter(&self) -> Result<(), Error> {
        if let Some(network) = &self.network {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|errno| Error::System { doing: "enter the lab's network".to_owned(), error: errno.into() })?;
        }
        if !self.cpus.is_empty() {
            let mut set = CpuSet::new();
            for cpu in &self.cpus {
                set.set(*cpu as usize);
            }
            sched_setaffinity(None, &set)
                .map_err(|errno| Error::System { doing: "take the clients' CPUs".to_owned(), error: errno.into() })?;
        }
        Ok(())
    }
}
