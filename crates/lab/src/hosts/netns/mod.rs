//! Virtual hosts on this machine: namespaces of their own, wired by a switch, each with a runner as its init.

pub(crate) mod keeper;

use std::sync::Arc;

use super::ground::Ground;
use super::placement::Placement;
use super::{Host, Kind};
use crate::Error;
use crate::registry::Ledger;
use crate::site::Build;

/// The table's entry.
pub static KIND: Kind =
    Kind { name: "netns", help: "a virtual host on this machine, with a profile's limits; needs root" };

/// Makes all hosts of the lab, in its order, and the ground that the clients stand on. If one cannot be made, none is left.
pub(super) fn raise(
    build: &Build<'_>,
    placement: &Placement,
    ledger: &Arc<Ledger>,
) -> Result<(Vec<Box<dyn Host>>, Ground), Error> {
    let _ = (build, placement, ledger);
    Err(Error::NotYet("virtual hosts".to_owned()))
}
