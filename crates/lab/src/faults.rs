//! What can be broken in a target that the experiment itself started, and on its hosts, and how it is healed. A fault must
//! not decide when it happens, nor what came of it.

mod call;
mod clock_skew;
mod command;
mod full_disk;
mod host_crash;
mod host_freeze;
mod kill;
mod link_flap;
mod lossy_link;
mod memory_limit;
mod partition;
mod pause;
mod restart;
mod slow_disk;
mod slow_link;
mod slow_port;
mod squeeze;

use std::collections::BTreeMap;

use experiment::catalog::Wrong;
use experiment::{catalog, plan};
use serde_json::Value;

use crate::arguments;
use crate::runner::Control;
use crate::{Error, Site, victims};

/// A kind of fault.
pub struct Kind {
    /// What an experiment sees of it.
    pub info: &'static catalog::Fault,
    /// Injects an occurrence, counted from 1. If it hits several members, those before one that fails are hit; a state of
    /// hosts is lifted again.
    pub begin: fn(&plan::Fault, u32, &mut Site) -> Result<Begun, Error>,
    /// Undoes it. Nothing happens if there is nothing to undo.
    pub heal: fn(&plan::Fault, u32, &mut Site) -> Result<(), Error>,
}

/// A fault that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The member or host it hit; several are separated by `, `.
    pub on: String,
}

/// Every kind, sorted by name.
pub static KINDS: &[&Kind] = &[
    &call::KIND,
    &clock_skew::KIND,
    &command::KIND,
    &full_disk::KIND,
    &host_crash::KIND,
    &host_freeze::KIND,
    &kill::KIND,
    &link_flap::KIND,
    &lossy_link::KIND,
    &memory_limit::KIND,
    &partition::KIND,
    &pause::KIND,
    &restart::KIND,
    &slow_disk::KIND,
    &slow_link::KIND,
    &slow_port::KIND,
    &squeeze::KIND,
];

/// The kind of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.info.name == name).copied()
}

/// An argument of `[fault] with` as text.
fn argument(fault: &plan::Fault, name: &str) -> Option<String> {
    arguments::text(&fault.with, name)
}

/// The name of an occurrence, under which it is imposed and lifted.
fn key(fault: &plan::Fault, number: u32) -> String {
    format!("{}#{number}", fault.name)
}

/// Why it was not done. Whoever tells that says which fault it was.
fn refused(reason: impl std::fmt::Display) -> Error {
    Error::Fault(reason.to_string())
}

/// What came of reading the arguments; the plan has seen them, so that this is for whoever did not ask it.
fn read<T>(read: Result<T, Vec<Wrong>>) -> Result<T, Error> {
    read.map_err(|wrongs| {
        let whats: Vec<String> = wrongs.into_iter().map(|wrong| wrong.what).collect();
        refused(whats.join("; "))
    })
}

/// Makes a state of hosts out of a fault's arguments and the lab's speed.
type Reads = fn(&BTreeMap<String, Value>, f64) -> Result<Control, Vec<Wrong>>;

/// Begins a fault that is a state of every host it hits: the one that `control` makes of the arguments and the lab's speed.
fn impose(fault: &plan::Fault, number: u32, site: &mut Site, control: Reads) -> Result<Begun, Error> {
    let hosts = victims::hosts(fault, number, site)?;
    let control = read(control(&fault.with, site.speed()))?;
    let on = hosts.join(", ");
    impose_each(fault, number, site, hosts.into_iter().map(|host| (host, control.clone())).collect())?;
    Ok(Begun { on })
}

/// Imposes a control on each host; all of them or none.
fn impose_each(
    fault: &plan::Fault,
    number: u32,
    site: &mut Site,
    controls: Vec<(String, Control)>,
) -> Result<(), Error> {
    site.impose(&key(fault, number), &controls).map_err(refused)
}

/// Ends a fault that is a state of hosts.
fn lift(fault: &plan::Fault, number: u32, site: &mut Site) -> Result<(), Error> {
    site.lift(&key(fault, number))
}

#[cfg(test)]
mod tests;
