//! The fault `kill`: a signal to a member's process, SIGKILL by default. Healing starts the process
//! again with the same ports and data.

use std::collections::BTreeMap;
use std::time::Instant;

use experiment::catalog::{self, ArgumentProblem, Field, Heals};
use experiment::plan;
use rustix::process::Signal;
use serde_json::Value;

use super::{ActiveFault, Arguments, FaultKind, PROGRAM, argument, choose_running, occurrence, on_host, read, refused};
use crate::deployment::stop_signal;
use crate::{Deployment, Error};

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "kill",
        help: "kill a member's process; with `for`, start it again after that time. Plimsoll does not restart a \
               killed `program`; its supervisor may",
        takes: &[
            Field {
                name: "signal",
                help: "KILL (default), TERM, INT, QUIT, ABRT, SEGV, HUP, USR1 or USR2",
                required: false,
            },
            Field { name: "process", help: "role of the process; default: the members'", required: false },
            PROGRAM,
        ],
        label: "kill",
        colour: "#dc2626",
        heals: Heals::AfterFor,
        check: Some(|with| checked(with).err().unwrap_or_default()),
    },
    inject,
    heal,
};

/// Parses a signal's name, with or without `SIG`.
fn signal(name: &str) -> Option<Signal> {
    Some(match name.strip_prefix("SIG").unwrap_or(name) {
        "ABRT" => Signal::ABORT,
        "SEGV" => Signal::SEGV,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        name => return stop_signal(name),
    })
}

fn checked(with: &BTreeMap<String, Value>) -> Result<(), Vec<ArgumentProblem>> {
    let mut arguments = Arguments::new(with);
    if let Some(name) = arguments.text("signal").filter(|name| signal(name).is_none()) {
        let what = format!("`{name}` is not a signal that `kill` can send");
        arguments.refuse(Some("signal"), what, "KILL, TERM, INT, QUIT, ABRT, SEGV, HUP, USR1 or USR2");
    }
    arguments.finish(())
}

/// Whether a signal is expected to end a process. Servers treat the other signals as commands.
fn ends(signal: Signal) -> bool {
    ![Signal::HUP, Signal::USR1, Signal::USR2].contains(&signal)
}

fn inject(fault: &plan::Fault, number: u32, deployment: &mut Deployment) -> Result<ActiveFault, Error> {
    let role = argument(fault, "process");
    let victims = choose_running(fault, number, deployment, role.as_deref())?;
    read(checked(&fault.with))?;
    let program = argument(fault, "program");
    let signal = argument(fault, "signal").and_then(|name| signal(&name)).unwrap_or(Signal::KILL);
    let at = Instant::now();
    let occurrence = occurrence(fault, number);
    for host in &victims {
        let processes = &mut deployment.processes;
        let slot = processes.slot_of(host, role.as_deref()).map_err(refused)?;
        if let Some(program) = &program {
            let killed = processes.signal_program(slot, program, signal, ends(signal));
            killed.map_err(|error| refused(on_host(host, error)))?;
            continue;
        }
        processes.signal(slot, signal, ends(signal)).map_err(refused)?;
        deployment.faults.remember_killed(&occurrence, slot);
    }
    Ok(ActiveFault { on: victims, at })
}

fn heal(fault: &plan::Fault, number: u32, deployment: &mut Deployment) -> Result<bool, Error> {
    // Only slots are started again. A killed program is left to its supervisor, if it has one.
    let killed = deployment.faults.take_killed(&occurrence(fault, number));
    let started = killed.iter().map(|slot| deployment.processes.start_again(*slot));
    started.fold(Ok(()), Result::and).map(|()| !killed.is_empty())
}
