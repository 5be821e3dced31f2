//! The fault `host_crash`: a host ends at once, as if its power failed; after `for` it is made
//! again with its name, address and data, and everything that ran on it is started in order.

use std::time::Instant;

use experiment::catalog::{self, Heals};
use experiment::plan;

use super::{ActiveFault, FaultKind, choose_hosts, key, refused};
use crate::{Deployment, Error};

/// The table's entry.
pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "host_crash",
        help: "end a host at once; with `for`, boot it again after that time and start what ran there, else it stays down",
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
    for host in &hosts {
        deployment.crash_host(host, &key(fault, number)).map_err(refused)?;
    }
    Ok(ActiveFault { on: hosts, at })
}

fn heal(fault: &plan::Fault, number: u32, deployment: &mut Deployment) -> Result<bool, Error> {
    // Nobody asked for it back; at the end of the trial that would only be a boot for nothing.
    if fault.for_s.is_none() {
        return Ok(false);
    }
    deployment.boot_hosts(&key(fault, number)).map(|()| true)
}
