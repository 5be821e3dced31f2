//! The fault `memory_limit`: a host has less memory than its profile says.

use std::collections::BTreeMap;

use experiment::catalog::{self, Field, Heals, Wrong};
use serde_json::Value;

use super::{Arguments, Kind, impose, lift};
use crate::runner::Control;

/// The table's entry.
pub static KIND: Kind = Kind {
    info: &catalog::Fault {
        name: "memory_limit",
        help: "give a host less memory; the kernel ends what does not fit",
        takes: &[Field { name: "size", help: "what it has, such as \"256MiB\"", required: true }],
        label: "memory limit",
        colour: "#647038",
        heals: Heals::AfterFor,
        check: Some(|with| control(with, 1.0).err().unwrap_or_default()),
    },
    begin: |fault, number, site| impose(fault, number, site, control),
    heal: lift,
};

/// A size is the same at any speed of the lab.
fn control(with: &BTreeMap<String, Value>, _speed: f64) -> Result<Control, Vec<Wrong>> {
    let mut arguments = Arguments::new(with);
    let bytes = arguments.bytes("size").unwrap_or(1);
    if bytes == 0 {
        arguments.refuse(Some("size"), "a host without memory is a crash", "use the fault `host_crash`");
    }
    arguments.finish(Control::Memory { bytes })
}
