//! The fault `link_flap`: a host's link goes down and up repeatedly.

use std::collections::BTreeMap;

use experiment::catalog::{self, ArgumentProblem, Field, Heals};
use runner::Injection;
use serde_json::Value;

use super::{Arguments, FaultKind, heal_state, inject_state};

/// Shortest time down or up, seconds. A link takes milliseconds to change.
const SHORTEST_S: f64 = 0.01;

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "link_flap",
        help: "take a host's link down and up, again and again",
        takes: &[
            Field { name: "down", help: "how long the link stays down; default: 500ms", required: false },
            Field { name: "up", help: "how long the link stays up in between; default: 2s", required: false },
        ],
        label: "link flap",
        colour: "#ff3f79",
        heals: Heals::AfterFor,
        check: Some(|with| control(with, 1.0).err().unwrap_or_default()),
    },
    inject: |fault, number, deployment| inject_state(fault, number, deployment, control),
    heal: heal_state,
};

/// Makes the injection. The lab's speed scales the times.
fn control(with: &BTreeMap<String, Value>, speed: f64) -> Result<Injection, Vec<ArgumentProblem>> {
    let mut arguments = Arguments::new(with);
    let down_s = arguments.seconds("down").unwrap_or(0.5);
    let up_s = arguments.seconds("up").unwrap_or(2.0);
    for (name, time_s) in [("down", down_s), ("up", up_s)] {
        if time_s < SHORTEST_S {
            arguments.refuse(Some(name), format!("`{name}` is too short"), "at least 10ms");
        }
    }
    arguments.finish(Injection::LinkFlap { down_s: down_s / speed, up_s: up_s / speed })
}
