//! The fault `call`: an operation of the target's own protocol that makes it fail, such as a
//! name server's `oops`.

use std::collections::BTreeMap;

use experiment::catalog::{self, Field, Heals};
use experiment::plan;

use super::{Begun, Kind, argument, choose_members, refused};
use crate::{Error, Site};

/// The table's entry.
pub static KIND: Kind = Kind {
    info: &catalog::Fault {
        name: "call",
        help: "call an operation of the target that makes it fail",
        takes: &[Field { name: "call", help: "the operation; its own arguments stand beside it", required: true }],
        label: "call",
        colour: "#d97706",
        heals: Heals::ByItself,
        check: None,
    },
    begin,
    heal: |_, _, _| Ok(()),
};

fn begin(fault: &plan::Fault, number: u32, site: &mut Site) -> Result<Begun, Error> {
    let operation = argument(fault, "call").ok_or_else(|| refused("with.call names no operation"))?;
    let names = fault.with.keys().filter(|name| *name != "call");
    let with: BTreeMap<String, String> =
        names.filter_map(|name| Some((name.clone(), argument(fault, name)?))).collect();
    let victims = choose_members(fault, number, site)?;
    for host in &victims {
        let service = site.service_of(host);
        site.caller()
            .provoke(&service, &operation, &with)
            .map_err(|reason| refused(format!("call `{operation}` to {host} ({service}): {reason}")))?;
    }
    Ok(Begun { on: victims.join(", ") })
}
