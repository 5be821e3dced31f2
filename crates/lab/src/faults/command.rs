//! The fault `command`: a user's shell command on a host, and a second command that undoes it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use experiment::catalog::{self, ArgumentProblem, Field, Heals};
use experiment::plan;
use runner::ProgramSpec;
use serde_json::Value;

use super::{ActiveFault, Arguments, FaultKind, argument, choose_any_hosts, occurrence, read, refused};
use crate::host_process::ProcessExit;
use crate::{Deployment, Error};

/// Default time limit of a command, seconds.
const WITHIN_S: f64 = 5.0;

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "command",
        help: "run a shell command on a host, as the user of the host's processes, with the environment of the \
               target's hooks",
        takes: &[
            Field {
                name: "run",
                help: "the command, with the target's placeholders, such as {host} and {port.NAME}; any exit code \
                       other than 0 is a failure",
                required: true,
            },
            Field { name: "heal", help: "the command that undoes it", required: false },
            Field {
                name: "within",
                help: "time limit, after which the command is killed; default: 5s. No other fault begins or heals \
                       while it runs",
                required: false,
            },
        ],
        label: "command",
        colour: "#666384",
        heals: Heals::AfterFor,
        check: Some(|with| within_s(with).err().unwrap_or_default()),
    },
    inject,
    heal,
};

fn within_s(with: &BTreeMap<String, Value>) -> Result<f64, Vec<ArgumentProblem>> {
    let mut arguments = Arguments::new(with);
    let within_s = arguments.seconds("within").unwrap_or(WITHIN_S);
    arguments.finish(within_s)
}

/// Returns the hosts for the fault's commands. For a target that already runs and has no members
/// here, this is this machine; the command itself decides where it acts.
fn hosts_of(fault: &plan::Fault, number: u32, deployment: &Deployment) -> Result<Vec<String>, Error> {
    if deployment.processes.member_hosts().is_empty() && deployment.processes.hosts.is_this_machine() {
        return Ok(deployment.processes.hosts.names());
    }
    choose_any_hosts(fault, number, deployment)
}

fn inject(fault: &plan::Fault, number: u32, deployment: &mut Deployment) -> Result<ActiveFault, Error> {
    let hosts = hosts_of(fault, number, deployment)?;
    let at = Instant::now();
    for host in &hosts {
        // A failed command may also have had an effect.
        deployment.faults.remember_commanded(&occurrence(fault, number), host);
        run(fault, "run", host, deployment)?;
    }
    Ok(ActiveFault { on: hosts, at })
}

/// Returns the fault's command for each host, for a step that runs it without waiting. Stores the
/// hosts for healing.
pub(crate) fn commands(
    fault: &plan::Fault,
    number: u32,
    deployment: &mut Deployment,
) -> Result<Vec<(String, ProgramSpec)>, Error> {
    let hosts = hosts_of(fault, number, deployment)?;
    for host in &hosts {
        deployment.faults.remember_commanded(&occurrence(fault, number), host);
    }
    Ok(hosts.into_iter().map(|host| (host.clone(), program(fault, "run", &host, deployment))).collect())
}

fn heal(fault: &plan::Fault, number: u32, deployment: &mut Deployment) -> Result<bool, Error> {
    let hosts = deployment.faults.take_commanded(&occurrence(fault, number));
    if !fault.with.contains_key("heal") {
        return Ok(false);
    }
    let healed = hosts.iter().map(|host| run(fault, "heal", host, deployment));
    healed.fold(Ok(()), Result::and).map(|()| true)
}

fn program(fault: &plan::Fault, which: &str, host: &str, deployment: &Deployment) -> ProgramSpec {
    let command = argument(fault, which).unwrap_or_default();
    deployment.hooks.command_on(&deployment.processes, host, &fault.name, &command)
}

/// Runs one of the fault's commands on a host.
fn run(fault: &plan::Fault, which: &str, host: &str, deployment: &Deployment) -> Result<(), Error> {
    // The lab's speed does not scale this limit, because it only limits a program on this machine.
    let within_s = read(within_s(&fault.with))?;
    let within = Duration::try_from_secs_f64(within_s).unwrap_or_default();
    let output = deployment.processes.hosts.run(host, &program(fault, which, host, deployment), within)?;
    if output.ended == ProcessExit::Exit(0) {
        return Ok(());
    }
    let last = output.errors.lines().rev().find(|line| !line.trim().is_empty());
    let says = last.map_or_else(String::new, |line| format!(": {}", line.trim()));
    Err(refused(format!("`{which}` on {host}: {}{says}", output.ended)))
}
