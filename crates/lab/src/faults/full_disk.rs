//! The fault `full_disk`: the file system with a host's data is full.

use std::collections::BTreeMap;

use experiment::catalog::{self, ArgumentProblem, Field, Heals};
use experiment::plan;
use runner::Injection;
use serde_json::Value;

use super::{ActiveFault, Arguments, FaultKind, choose_hosts, heal_state, inject_states, read, tier_of};
use crate::{Deployment, Error};

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "full_disk",
        help: "fill the file system with a host's data",
        takes: &[Field { name: "leave", help: "space that stays free; default: 0B", required: false }, super::TIER],
        label: "full disk",
        colour: "#999900",
        heals: Heals::AfterFor,
        check: Some(|with| control(with, None).err().unwrap_or_default()),
    },
    inject,
    heal: heal_state,
};

/// Makes the injection. The lab's speed does not scale the size.
fn control(with: &BTreeMap<String, Value>, tier: Option<String>) -> Result<Injection, Vec<ArgumentProblem>> {
    let mut arguments = Arguments::new(with);
    let leave_bytes = arguments.bytes("leave").unwrap_or(0);
    arguments.tier();
    arguments.finish(Injection::FullDisk { leave_bytes, tier })
}

fn inject(fault: &plan::Fault, number: u32, deployment: &mut Deployment) -> Result<ActiveFault, Error> {
    let hosts = choose_hosts(fault, number, deployment)?;
    let control = read(control(&fault.with, tier_of(&fault.with, deployment)?))?;
    let at =
        inject_states(fault, number, deployment, hosts.iter().map(|host| (host.clone(), control.clone())).collect())?;
    Ok(ActiveFault { on: hosts, at })
}
