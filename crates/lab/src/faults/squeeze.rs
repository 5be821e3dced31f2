//! The fault `squeeze`: a host's cores reach only a part of the speed that its profile gives.

use std::collections::BTreeMap;

use experiment::catalog::{self, ArgumentProblem, Field, Heals};
use runner::Injection;
use serde_json::Value;

use super::{Arguments, FaultKind, heal_state, inject_state};

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "squeeze",
        help: "reduce the speed of a host's cores to a fraction",
        takes: &[Field { name: "cpu", help: "the fraction, above 0 and below 1: 0.25 is a quarter", required: true }],
        label: "squeeze",
        colour: "#009bc1",
        heals: Heals::AfterFor,
        check: Some(|with| control(with, 1.0).err().unwrap_or_default()),
    },
    inject: |fault, number, deployment| inject_state(fault, number, deployment, control),
    heal: heal_state,
};

/// Makes the injection. The lab's speed does not scale a share.
fn control(with: &BTreeMap<String, Value>, _speed: f64) -> Result<Injection, Vec<ArgumentProblem>> {
    let mut arguments = Arguments::new(with);
    let of_profile = arguments.number("cpu", 0.0, 1.0).unwrap_or(0.5);
    if of_profile >= 1.0 {
        arguments.refuse(Some("cpu"), "`cpu` must be below 1", "above 0 and below 1: 0.25 is a quarter");
    }
    arguments.finish(Injection::Cpu { of_profile })
}
