//! The fault `partition`: hosts do not hear each other any more. It must not touch a link or a process.

mod shapes;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use experiment::catalog::{self, Field, Heals, Wrong};
use experiment::plan;
use serde_json::Value;

use super::{Begun, Kind, impose_each, lift, read, refused};
use crate::arguments::Arguments;
use crate::runner::Control;
use crate::{Error, Site, victims};
use shapes::{Group, Shape};

/// The table's entry.
pub static KIND: Kind = Kind {
    info: &catalog::Fault {
        name: "partition",
        help: "keep hosts from hearing each other; whom it hits is one side, and a proxy in front of the members on neither",
        takes: &[
            Field {
                name: "shape",
                help: "halves (default): the side against the others; one: each of the side against everybody; one_way: the \
                       others do not hear the side, it hears them; ring: each host of the lab, whatever `on` says, hears \
                       only its two neighbours",
                required: false,
            },
            Field {
                name: "clients",
                help: "both (default): clients reach every host; majority: only those of the larger side, of two equal ones \
                       those that are not hit",
                required: false,
            },
        ],
        label: "partition",
        colour: "#8256ad",
        heals: Heals::AfterFor,
        check: Some(|with| shape(with).err().unwrap_or_default()),
    },
    begin,
    heal: lift,
};

/// The shape, and whether clients are cut off from the smaller side.
fn shape(with: &BTreeMap<String, Value>) -> Result<(Shape, bool), Vec<Wrong>> {
    let mut arguments = Arguments::new(with);
    let shape = match arguments.word("shape", &["halves", "one", "one_way", "ring"]) {
        "one" => Shape::One,
        "one_way" => Shape::OneWay,
        "ring" => Shape::Ring,
        _ => Shape::Halves,
    };
    let majority = arguments.word("clients", &["both", "majority"]) == "majority";
    if majority && shape == Shape::Ring {
        arguments.refuse(Some("clients"), "a ring has no larger side", "leave `clients` out");
    }
    arguments.finish((shape, majority))
}

fn begin(fault: &plan::Fault, number: u32, site: &mut Site) -> Result<Begun, Error> {
    let side = victims::hosts(fault, number, site)?;
    let (shape, majority) = read(shape(&fault.with))?;
    // What is between the clients and the members goes with the clients, unless it is hit itself.
    let fronts = site.fronts();
    let (fronts, parted): (Vec<_>, Vec<_>) = (site.host_names().into_iter().zip(site.addresses()?))
        .partition(|(name, _)| fronts.contains(name) && !side.contains(name));
    let fronts: Vec<Ipv4Addr> = fronts.into_iter().flat_map(|(_, addresses)| addresses).collect();
    let (names, addresses): (Vec<String>, Vec<Vec<Ipv4Addr>>) = parted.into_iter().unzip();
    let group = Group { count: names.len(), side: indices(&side, &names) };
    let deaf = shapes::deaf(shape, &group).map_err(refused)?;
    let hidden = if majority { shapes::smaller(shape, &group) } else { Vec::new() };
    let mut controls = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let mut clients = Vec::new();
        if let Some(address) = addresses[index].first().filter(|_| hidden.contains(&index)) {
            clients.push(site.clients_toward(*address)?);
            clients.extend(&fronts);
        }
        let speakers = deaf.iter().filter(|(listener, _)| *listener == index).map(|(_, speaker)| *speaker);
        let from = speakers.flat_map(|speaker| addresses[speaker].iter().copied());
        controls.extend(cut(from.collect(), clients).map(|control| (name.clone(), control)));
    }
    impose_each(fault, number, site, controls)?;
    let on = if shape == Shape::Ring { names } else { side };
    Ok(Begun { on: on.join(", ") })
}

fn indices(some: &[String], all: &[String]) -> Vec<usize> {
    (0..all.len()).filter(|index| some.contains(&all[*index])).collect()
}

/// What is imposed on a host that does not hear these; `None` if nothing. Packets are dropped where they arrive: whoever
/// sends one learns nothing of it, where a drop on its own host would be an error of the call. Only toward clients, of
/// which no host is in our hands, and toward what is in front of them they are dropped at the source.
fn cut(from: Vec<Ipv4Addr>, clients: Vec<Ipv4Addr>) -> Option<Control> {
    let from: Vec<Ipv4Addr> = from.into_iter().chain(clients.iter().copied()).collect();
    (!from.is_empty()).then_some(Control::Cut { from: Some(from), to: Some(clients) })
}

#[cfg(test)]
mod tests;
