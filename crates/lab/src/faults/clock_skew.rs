//! The fault `clock_skew`: a host's wall clock is wrong.

use std::collections::BTreeMap;

use experiment::catalog::{self, ArgumentProblem, Field, Heals};
use runner::Injection;
use serde_json::Value;

use super::{Arguments, FaultKind, heal_state, inject_state};

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "clock_skew",
        help: "set a real host's wall clock wrong; refused on virtual hosts, which share this machine's",
        takes: &[Field { name: "offset", help: "difference: \"5s\" ahead, \"-5s\" behind", required: true }],
        label: "clock skew",
        colour: "#653fff",
        heals: Heals::AfterFor,
        check: Some(|with| control(with, 1.0).err().unwrap_or_default()),
    },
    inject: |fault, number, deployment| inject_state(fault, number, deployment, control),
    heal: heal_state,
};

/// Makes the injection. The lab's speed scales the offset.
fn control(with: &BTreeMap<String, Value>, speed: f64) -> Result<Injection, Vec<ArgumentProblem>> {
    let mut arguments = Arguments::new(with);
    let offset_s = arguments.signed_seconds("offset").unwrap_or(0.0);
    arguments.finish(Injection::Clock { offset_s: offset_s / speed })
}
