//! The fault `host_crash`: a host ends at once, like a power failure. After `for`, it boots with
//! its name, address and data, and its processes start in order.

use std::time::Instant;

use experiment::catalog::{self, Heals};
use experiment::plan;

use super::{ActiveFault, FaultKind, choose_hosts, occurrence, refused};
use crate::{Deployment, Error};

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "host_crash",
        help: "end a host at once; with `for`, boot it again after that time and start its processes; without `for`, \
               it stays down",
        takes: &[],
        label: "host crash",
        colour: "#a35159",
        heals: Heals::AfterFor,
        check: None,
    },
    inject,
    heal,
};

fn inject(fault: &plan::Fault, number: u32, deployment: &mut Deployment) -> Result<ActiveFault, Error> {
    let hosts = choose_hosts(fault, number, deployment)?;
    let at = Instant::now();
    let occurrence = occurrence(fault, number);
    for host in &hosts {
        deployment.faults.crash(&mut deployment.processes, host, &occurrence).map_err(refused)?;
    }
    Ok(ActiveFault { on: hosts, at })
}

fn heal(fault: &plan::Fault, number: u32, deployment: &mut Deployment) -> Result<bool, Error> {
    // Without `for`, the host stays down. A boot at the end of the trial would be useless.
    if fault.for_s.is_none() {
        return Ok(false);
    }
    deployment.faults.boot(&mut deployment.processes, &occurrence(fault, number)).map(|()| true)
}
