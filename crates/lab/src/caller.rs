//! What the lab needs of the target's protocol, which it does not know.

use std::collections::BTreeMap;

/// Speaks the target's protocol for the lab.
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
