//! The fault `host_freeze`: a host hangs. Its processes are frozen and its network is silent.

use experiment::catalog::{self, Heals};
use runner::Injection;

use super::{FaultKind, heal_state, inject_state};

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "host_freeze",
        help: "freeze a whole host: its processes do nothing and its network is silent, except for ssh",
        takes: &[],
        label: "host freeze",
        colour: "#0092f4",
        heals: Heals::AfterFor,
        check: None,
    },
    inject: |fault, number, deployment| inject_state(fault, number, deployment, |_, _| Ok(Injection::Freeze)),
    heal: heal_state,
};
