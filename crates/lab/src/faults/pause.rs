//! The fault `pause`: freezes a member's process and its process group (SIGSTOP), and resumes them
//! later (SIGCONT). Processes that left the group keep running.

use std::time::Instant;

use experiment::catalog::{self, Field, Heals};
use experiment::plan;

use super::{ActiveFault, FaultKind, PROGRAM, argument, choose_running, occurrence, on_host, refused};
use crate::deployment::PausedProcess;
use crate::{Deployment, Error};

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "pause",
        help: "suspend a member's process group (SIGSTOP); `host_freeze` suspends a whole host",
        takes: &[
            Field { name: "process", help: "role of the process; default: the members'", required: false },
            PROGRAM,
        ],
        label: "pause",
        colour: "#00a382",
        heals: Heals::AfterFor,
        check: None,
    },
    inject,
    heal: |fault, number, deployment| {
        deployment.faults.unpause(&mut deployment.processes, &occurrence(fault, number));
        Ok(true)
    },
};

fn inject(fault: &plan::Fault, number: u32, deployment: &mut Deployment) -> Result<ActiveFault, Error> {
    let role = argument(fault, "process");
    let program = argument(fault, "program");
    let hosts = choose_running(fault, number, deployment, role.as_deref())?;
    let at = Instant::now();
    let occurrence = occurrence(fault, number);
    for host in &hosts {
        let paused = deployment.processes.slot_of(host, role.as_deref()).and_then(|slot| {
            let paused = PausedProcess { slot, program: program.clone() };
            let paused = deployment.faults.pause(&mut deployment.processes, paused, &occurrence);
            paused.map_err(|error| on_host(host, error))
        });
        if let Err(error) = paused {
            deployment.faults.unpause(&mut deployment.processes, &occurrence);
            return Err(refused(error));
        }
    }
    Ok(ActiveFault { on: hosts, at })
}
