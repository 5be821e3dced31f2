//! Hosts, targets, faults and probes: the target of one trial is put on its hosts, watched,
//! broken, and always taken down.

pub mod checkups;
mod deployment;
pub mod doctor;
mod error;
#[cfg(test)]
mod fakes;
pub mod faults;
pub mod fingerprints;
mod hooks;
mod host_process;
pub mod hosts;
pub mod placement;
mod process_log;
pub mod profiles;
mod readiness;
pub mod registry;
pub mod sampling;
mod session;
pub mod targets;
pub mod trusted;

use std::collections::BTreeMap;

pub use deployment::{Deployment, DeploymentSpec, HostEvent, MemberAnswer, NotUp};
pub use error::Error;
pub use placement::ClientPlacement;

/// Speaks the target's protocol for the lab, which does not know it.
pub trait Caller: Send + Sync {
    /// Sends one operation to `service` (`host:port`, or the target's URL) on a connection of its own.
    ///
    /// # Errors
    /// In words, if there was no connection or no `ok` answer. Readiness is asked like this.
    fn call(&self, service: &str, operation: &str, with: &BTreeMap<String, String>) -> Result<(), String>;

    /// The same for the fault `call`, whose operation may well destroy what would have answered: a connection
    /// that broke after the operation was sent is no error here.
    ///
    /// # Errors
    /// In words, if the operation could not be sent or was refused.
    fn provoke(&self, service: &str, operation: &str, with: &BTreeMap<String, String>) -> Result<(), String> {
        self.call(service, operation, with)
    }

    /// A GET by `https`, which the lab does not speak itself: `service` is the URL up to its path.
    ///
    /// # Errors
    /// In words, if there was no answer of status 2xx.
    fn get(&self, _service: &str, _path: &str) -> Result<(), String> {
        Err("readiness cannot be asked by `https` here".to_owned())
    }
}
