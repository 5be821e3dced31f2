//! The interface to the target's protocol, which the lab itself does not implement.

use std::collections::BTreeMap;

/// A client for the target's protocol.
pub trait Caller: Send + Sync {
    /// Sends one operation to `service` (`host:port`, or the target's URL) on a new connection.
    /// Readiness checks use this.
    ///
    /// # Errors
    /// A message for the user, if there was no connection or no `ok` answer.
    fn call(&self, service: &str, operation: &str, with: &BTreeMap<String, String>) -> Result<(), String>;

    /// Sends the operation of the fault `call`. Unlike [`Caller::call`], accepts a connection that
    /// breaks after the operation was sent: the operation may destroy the process that would
    /// answer.
    ///
    /// # Errors
    /// A message for the user, if the operation could not be sent or was refused.
    fn provoke(&self, service: &str, operation: &str, with: &BTreeMap<String, String>) -> Result<(), String> {
        self.call(service, operation, with)
    }

    /// Sends a GET over `https`, with the experiment's trust settings. `service` is the URL before
    /// its path.
    ///
    /// # Errors
    /// A message for the user, if there was no answer with status 2xx.
    fn get(&self, _service: &str, _path: &str) -> Result<(), String> {
        Err("readiness checks over `https` are not supported here".to_owned())
    }
}
