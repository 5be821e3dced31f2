//! The fault `slow_link`: a host's link has a lower rate, or delays every outgoing packet.

use std::collections::BTreeMap;

use experiment::catalog::{self, ArgumentProblem, Field, Heals};
use experiment::profile::Link;
use runner::Injection;
use serde_json::Value;

use super::{Arguments, FaultKind, heal_state, inject_state};

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "slow_link",
        help: "lower the rate of a host's link, or delay its packets",
        takes: &[
            Field { name: "rate", help: "rate of the link in each direction, such as \"10mbit\"", required: false },
            Field {
                name: "delay",
                help: "delay of every outgoing packet, such as \"50ms\"; needs a kernel with netem",
                required: false,
            },
        ],
        label: "slow link",
        colour: "#2563eb",
        heals: Heals::AfterFor,
        check: Some(|with| control(with, 1.0).err().unwrap_or_default()),
    },
    inject: |fault, number, deployment| inject_state(fault, number, deployment, control),
    heal: heal_state,
};

/// Makes the injection. The lab's speed scales the rate and the delay.
fn control(with: &BTreeMap<String, Value>, speed: f64) -> Result<Injection, Vec<ArgumentProblem>> {
    let mut arguments = Arguments::new(with);
    let link = slowness(&mut arguments, with, speed);
    arguments.finish(Injection::Link { link, peers: None })
}

/// Parses `rate` and `delay`. At least one is required.
pub(super) fn slowness(arguments: &mut Arguments<'_>, with: &BTreeMap<String, Value>, speed: f64) -> Link {
    let (rate_bits_per_s, delay_s) = (arguments.bits_per_s("rate"), arguments.seconds("delay"));
    if !with.contains_key("rate") && !with.contains_key("delay") {
        arguments.refuse(None, "the limit is missing", "give `rate` or `delay`");
    }
    Link { rate_bits_per_s, delay_s, loss_pct: None }.at_speed(speed)
}
