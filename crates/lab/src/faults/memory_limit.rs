//! The fault `memory_limit`: a host has less memory than its profile gives.

use std::collections::BTreeMap;

use experiment::catalog::{self, ArgumentProblem, Field, Heals};
use runner::Injection;
use serde_json::Value;

use super::{Arguments, FaultKind, heal_state, inject_state};

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "memory_limit",
        help: "give a host less memory; the kernel kills what does not fit",
        takes: &[Field { name: "size", help: "memory limit of the host, such as \"256MiB\"", required: true }],
        label: "memory limit",
        colour: "#647038",
        heals: Heals::AfterFor,
        check: Some(|with| control(with, 1.0).err().unwrap_or_default()),
    },
    inject: |fault, number, deployment| inject_state(fault, number, deployment, control),
    heal: heal_state,
};

/// Makes the injection. The lab's speed does not scale the size.
fn control(with: &BTreeMap<String, Value>, _speed: f64) -> Result<Injection, Vec<ArgumentProblem>> {
    let mut arguments = Arguments::new(with);
    let bytes = arguments.bytes("size").unwrap_or(1);
    if bytes == 0 {
        arguments.refuse(Some("size"), "a host needs some memory", "to end the host, use the fault `host_crash`");
    }
    arguments.finish(Injection::Memory { bytes })
}
