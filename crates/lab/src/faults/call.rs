//! The fault `call`: an operation of the target's own protocol that makes the target fail, such as
//! a name server's `oops`.

use std::collections::BTreeMap;
use std::time::Instant;

use experiment::catalog::{self, Field, Heals};
use experiment::plan;

use super::{ActiveFault, FaultKind, argument, choose_members, refused};
use crate::{Deployment, Error};

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "call",
        help: "call an operation of the target that makes it fail",
        takes: &[Field { name: "call", help: "the operation; put its arguments into `with`, too", required: true }],
        label: "call",
        colour: "#d97706",
        heals: Heals::ByItself,
        check: None,
    },
    inject,
    heal: |_, _, _| Ok(false),
};

fn inject(fault: &plan::Fault, number: u32, deployment: &mut Deployment) -> Result<ActiveFault, Error> {
    let operation = argument(fault, "call").ok_or_else(|| refused("with.call names no operation"))?;
    let names = fault.with.keys().filter(|name| *name != "call");
    let with: BTreeMap<String, String> =
        names.filter_map(|name| Some((name.clone(), argument(fault, name)?))).collect();
    let victims = choose_members(fault, number, deployment)?;
    let at = Instant::now();
    for host in &victims {
        let service = deployment.service_of(host);
        deployment
            .caller()
            .provoke(&service, &operation, &with)
            .map_err(|reason| refused(format!("call `{operation}` to {host} ({service}): {reason}")))?;
    }
    Ok(ActiveFault { on: victims, at })
}
