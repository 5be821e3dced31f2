//! The fault `full_disk`: the file system with a host's data is full.

use std::collections::BTreeMap;

use experiment::catalog::{self, ArgumentProblem, Field, Heals};
use runner::Injection;
use serde_json::Value;

use super::{Arguments, FaultKind, heal_state, inject_state};

/// The table's entry.
pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "full_disk",
        help: "fill the file system with a host's data",
        takes: &[Field { name: "leave", help: "how much stays free; 0B without it", required: false }],
        label: "full disk",
        colour: "#999900",
        heals: Heals::AfterFor,
        check: Some(|with| control(with, 1.0).err().unwrap_or_default()),
    },
    inject: |fault, number, deployment| inject_state(fault, number, deployment, control),
    heal: heal_state,
};

/// A size is the same at any speed of the lab.
fn control(with: &BTreeMap<String, Value>, _speed: f64) -> Result<Injection, Vec<ArgumentProblem>> {
    let mut arguments = Arguments::new(with);
    let leave_bytes = arguments.bytes("leave").unwrap_or(0);
    arguments.finish(Injection::FullDisk { leave_bytes })
}
