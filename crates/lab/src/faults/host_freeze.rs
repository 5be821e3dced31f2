//! The fault `host_freeze`: a host stands still as one that hangs: its processes do nothing and its
//! network is silent.

use experiment::catalog::{self, Heals};

use super::{Kind, impose, lift};
use crate::runner::Control;

/// The table's entry.
pub static KIND: Kind = Kind {
    info: &catalog::Fault {
        name: "host_freeze",
        help: "let a whole host stand still: its processes do nothing and its network is silent, but for ssh",
        takes: &[],
        label: "host freeze",
        colour: "#0092f4",
        heals: Heals::AfterFor,
        check: None,
    },
    begin: |fault, number, site| impose(fault, number, site, |_, _| Ok(Control::Freeze)),
    heal: lift,
};
