//! Real machines over the system's ssh, each with a runner that was copied there.

use std::sync::Arc;

use experiment::plan;

use super::{Host, Kind};
use crate::Error;
use crate::registry::Ledger;
use crate::site::Build;

/// The table's entry.
pub static KIND: Kind = Kind { name: "ssh", help: "a real machine over ssh; nothing has to be installed there" };

/// Reaches one host and puts a runner on it.
pub(super) fn reach(build: &Build<'_>, host: &plan::Host, ledger: &Arc<Ledger>) -> Result<Box<dyn Host>, Error> {
    let _ = (build, ledger);
    Err(Error::NotYet(format!("hosts over ssh, such as {}", host.name)))
}
