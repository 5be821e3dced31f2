//! The fault `lossy_link`: a host loses some of its packets, at random.

use std::collections::BTreeMap;

use experiment::catalog::{self, ArgumentProblem, Field, Heals};
use experiment::profile::Link;
use runner::Injection;
use serde_json::Value;

use super::{Arguments, FaultKind, heal_state, inject_state};

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "lossy_link",
        help: "lose some of a host's packets, in both directions",
        takes: &[Field { name: "loss_pct", help: "percent of packets to lose, such as 5", required: true }],
        label: "lossy link",
        colour: "#c026d3",
        heals: Heals::AfterFor,
        check: Some(|with| control(with, 1.0).err().unwrap_or_default()),
    },
    inject: |fault, number, deployment| inject_state(fault, number, deployment, control),
    heal: heal_state,
};

/// Makes the injection. The lab's speed does not scale the loss.
fn control(with: &BTreeMap<String, Value>, _speed: f64) -> Result<Injection, Vec<ArgumentProblem>> {
    let mut arguments = Arguments::new(with);
    let loss_pct = arguments.number("loss_pct", 0.0, 100.0);
    arguments.finish(Injection::Link { link: Link { loss_pct, ..Link::default() }, peers: None })
}
