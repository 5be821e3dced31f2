//! The fault `restart`: a member's process gets its stop signal, is killed if it does not end in
//! time, and starts again with the same ports and data.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use experiment::catalog::{self, ArgumentProblem, Field, Heals};
use experiment::plan;
use serde_json::Value;

use super::{ActiveFault, Arguments, FaultKind, argument, choose_running, read, refused};
use crate::{Deployment, Error};

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "restart",
        help: "stop a member's process gracefully and start it again",
        takes: &[
            Field { name: "process", help: "role of the process; default: the members'", required: false },
            Field { name: "wait", help: "time between its end and its start; default: 0s", required: false },
        ],
        label: "restart",
        colour: "#007a24",
        heals: Heals::ByItself,
        check: Some(|with| wait_s(with).err().unwrap_or_default()),
    },
    inject,
    heal: |_, _, _| Ok(false),
};

fn wait_s(with: &BTreeMap<String, Value>) -> Result<f64, Vec<ArgumentProblem>> {
    let mut arguments = Arguments::new(with);
    let wait_s = arguments.seconds("wait").unwrap_or(0.0);
    arguments.finish(wait_s)
}

fn inject(fault: &plan::Fault, number: u32, deployment: &mut Deployment) -> Result<ActiveFault, Error> {
    let role = argument(fault, "process");
    let hosts = choose_running(fault, number, deployment, role.as_deref())?;
    let wait_s = read(wait_s(&fault.with))? / deployment.speed();
    let wait = Duration::try_from_secs_f64(wait_s).unwrap_or_default();
    let at = Instant::now();
    for host in &hosts {
        let slot = deployment.processes.slot_of(host, role.as_deref()).map_err(refused)?;
        deployment.processes.restart(slot, wait).map_err(refused)?;
    }
    Ok(ActiveFault { on: hosts, at })
}
