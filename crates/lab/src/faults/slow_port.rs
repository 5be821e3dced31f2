//! The fault `slow_port`: TCP traffic of one port of the target gets only a part of a host's link,
//! or a delay.

use std::collections::BTreeMap;

use experiment::catalog::{self, ArgumentProblem, Field, Heals};
use experiment::plan;
use experiment::profile::Link;
use runner::Injection;
use serde_json::Value;

use super::slow_link::slowness;
use super::{ActiveFault, Arguments, FaultKind, choose_hosts, heal_state, inject_states, read, refused};
use crate::{Deployment, Error};

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "slow_port",
        help: "slow down one port of the target on a host; other traffic is unaffected",
        takes: &[
            Field {
                name: "port",
                help: "name in target.toml, such as \"distribution\"; applies to all roles with a port of this name",
                required: true,
            },
            Field {
                name: "rate",
                help: "rate of TCP on this port in each direction, such as \"2mbit\"",
                required: false,
            },
            Field {
                name: "delay",
                help: "delay of each outgoing packet of this port, such as \"50ms\"; needs a kernel with netem",
                required: false,
            },
        ],
        label: "slow port",
        colour: "#4d7c0f",
        heals: Heals::AfterFor,
        check: Some(|with| slower(with, 1.0).err().unwrap_or_default()),
    },
    inject,
    heal: heal_state,
};

/// Parses the port's name and its limits.
fn slower(with: &BTreeMap<String, Value>, speed: f64) -> Result<(String, Link), Vec<ArgumentProblem>> {
    let mut arguments = Arguments::new(with);
    let port = arguments.text("port").unwrap_or_default();
    let link = slowness(&mut arguments, with, speed);
    arguments.finish((port, link))
}

fn inject(fault: &plan::Fault, number: u32, deployment: &mut Deployment) -> Result<ActiveFault, Error> {
    let hosts = choose_hosts(fault, number, deployment)?;
    let (port, link) = read(slower(&fault.with, deployment.speed()))?;
    let ports = deployment.lab.ports_named(&port);
    if ports.is_empty() {
        return Err(refused(format!("the target has no port `{port}`")));
    }
    let control = Injection::Port { ports, link };
    let at =
        inject_states(fault, number, deployment, hosts.iter().map(|host| (host.clone(), control.clone())).collect())?;
    Ok(ActiveFault { on: hosts, at })
}
