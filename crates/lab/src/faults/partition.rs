//! The fault `partition`: hosts no longer receive each other's packets.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use experiment::catalog::{self, ArgumentProblem, Field, Heals};
use experiment::plan;
use runner::Injection;
use serde_json::Value;

use super::{ActiveFault, Arguments, FaultKind, choose_hosts, heal_state, inject_states, read, refused};
use crate::{Deployment, Error};

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "partition",
        help: "cut hosts off from each other; the hosts in `on` are one side; a proxy in front of the members is on \
               neither side",
        takes: &[
            Field {
                name: "shape",
                help: "halves (default): that side is cut off from the others; one: each host of that side is cut \
                       off from all; one_way: packets from that side to the others are dropped; ring: each host of \
                       the lab, whatever `on` is, reaches only its two neighbours",
                required: false,
            },
            Field {
                name: "clients",
                help: "both (default): clients reach every host; majority: clients reach only the larger side or, if \
                       both are equal, the side not in `on`",
                required: false,
            },
        ],
        label: "partition",
        colour: "#8256ad",
        heals: Heals::AfterFor,
        check: Some(|with| shape(with).err().unwrap_or_default()),
    },
    inject,
    heal: heal_state,
};

/// Parses the shape, and whether clients reach only the larger side.
fn shape(with: &BTreeMap<String, Value>) -> Result<(PartitionShape, bool), Vec<ArgumentProblem>> {
    let mut arguments = Arguments::new(with);
    let shape = match arguments.word("shape", &["halves", "one", "one_way", "ring"]) {
        "one" => PartitionShape::One,
        "one_way" => PartitionShape::OneWay,
        "ring" => PartitionShape::Ring,
        _ => PartitionShape::Halves,
    };
    let majority = arguments.word("clients", &["both", "majority"]) == "majority";
    if majority && shape == PartitionShape::Ring {
        arguments.refuse(Some("clients"), "a ring has no larger side", "leave `clients` out");
    }
    arguments.finish((shape, majority))
}

fn inject(fault: &plan::Fault, number: u32, deployment: &mut Deployment) -> Result<ActiveFault, Error> {
    let side = choose_hosts(fault, number, deployment)?;
    let (shape, majority) = read(shape(&fault.with))?;
    // Hosts between the clients and the members stay on the clients' side, unless the fault hits
    // them.
    let mut fronts = deployment.processes.fronts();
    // Hosts of generators are clients, so they stay on that side too.
    fronts.extend(deployment.lab.generator_hosts());
    let hosts = &deployment.processes.hosts;
    let (fronts, parted): (Vec<_>, Vec<_>) = (hosts.names().into_iter().zip(hosts.addresses()?))
        .partition(|(name, _)| fronts.contains(name) && !side.contains(name));
    let fronts: Vec<Ipv4Addr> = fronts.into_iter().flat_map(|(_, addresses)| addresses).collect();
    let (names, addresses): (Vec<String>, Vec<Vec<Ipv4Addr>>) = parted.into_iter().unzip();
    let group = PartitionSides { count: names.len(), side: indices(&side, &names) };
    let deaf = deaf(shape, &group).map_err(refused)?;
    let hidden = if majority { smaller(shape, &group) } else { Vec::new() };
    let mut controls = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let mut clients = Vec::new();
        if let Some(address) = addresses[index].first().filter(|_| hidden.contains(&index)) {
            clients.push(deployment.clients_toward(*address)?);
            clients.extend(&fronts);
        }
        let speakers = deaf.iter().filter(|(listener, _)| *listener == index).map(|(_, speaker)| *speaker);
        let from = speakers.flat_map(|speaker| addresses[speaker].iter().copied());
        controls.extend(cut(from.collect(), clients).map(|control| (name.clone(), control)));
    }
    let at = inject_states(fault, number, deployment, controls)?;
    Ok(ActiveFault { on: if shape == PartitionShape::Ring { names } else { side }, at })
}

fn indices(some: &[String], all: &[String]) -> Vec<usize> {
    (0..all.len()).filter(|index| some.contains(&all[*index])).collect()
}

/// Returns the injection for a host that must not receive packets from these addresses, or `None`
/// if there are none. Packets are dropped where they arrive, so that the sender gets no error; a
/// drop on the sender's host would fail its system call. Packets to clients and to the hosts in
/// front of the members are dropped at the source, because Plimsoll must not change the clients'
/// own host.
fn cut(from: Vec<Ipv4Addr>, clients: Vec<Ipv4Addr>) -> Option<Injection> {
    let from: Vec<Ipv4Addr> = from.into_iter().chain(clients.iter().copied()).collect();
    (!from.is_empty()).then_some(Injection::Cut { from: Some(from), to: Some(clients) })
}

// Pairs of hosts that are cut off from each other, computed from host indexes.

/// The shape of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartitionShape {
    /// One side against the others. Within each side, all hosts receive each other.
    Halves,
    /// Each host of the side is cut off from all other hosts.
    One,
    /// The other hosts do not receive packets from the side. The side receives their packets.
    OneWay,
    /// Each host receives packets only from its two neighbours. The last and the first are
    /// neighbours.
    Ring,
}

/// The number of hosts, and the hosts on one side.
#[derive(Debug, Clone)]
pub struct PartitionSides {
    /// Number of hosts.
    pub count: usize,
    /// Indexes of the hosts on the side.
    pub side: Vec<usize>,
}

impl PartitionSides {
    fn has(&self, host: usize) -> bool {
        self.side.contains(&host)
    }
}

/// Returns every pair of a receiver and a sender that are cut off, or the reason why there is none.
fn deaf(shape: PartitionShape, group: &PartitionSides) -> Result<Vec<(usize, usize)>, String> {
    let mut deaf: Vec<_> =
        (0..group.count).flat_map(|listener| (0..group.count).map(move |speaker| (listener, speaker))).collect();
    deaf.retain(|&(listener, speaker)| match shape {
        _ if listener == speaker => false,
        PartitionShape::Halves => group.has(listener) != group.has(speaker),
        PartitionShape::One => group.has(listener) || group.has(speaker),
        PartitionShape::OneWay => group.has(speaker) && !group.has(listener),
        PartitionShape::Ring => !are_neighbours(listener, speaker, group.count),
    });
    if !deaf.is_empty() {
        return Ok(deaf);
    }
    Err(match (shape, group.count) {
        (_, 1) => "a partition needs at least two hosts".to_owned(),
        (PartitionShape::Ring, count) => {
            format!("a ring needs at least 4 hosts, but the lab has {count}: all of them are neighbours")
        }
        _ => "all hosts are on one side: leave at least one on the other".to_owned(),
    })
}

fn are_neighbours(a: usize, b: usize, count: usize) -> bool {
    (a + 1) % count == b || (b + 1) % count == a
}

/// Returns the smaller side: the hosts that clients do not reach if they reach only the larger
/// side. If both sides are equal, returns the side that is hit. With the shape `one`, always
/// returns the hosts that are cut off alone.
fn smaller(shape: PartitionShape, group: &PartitionSides) -> Vec<usize> {
    let others = (0..group.count).filter(|host| !group.has(*host));
    match shape {
        PartitionShape::Ring => Vec::new(),
        PartitionShape::Halves | PartitionShape::OneWay if group.side.len() * 2 > group.count => others.collect(),
        PartitionShape::Halves | PartitionShape::OneWay | PartitionShape::One => group.side.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deaf(shape: PartitionShape, count: usize, side: &[usize]) -> Vec<(usize, usize)> {
        super::deaf(shape, &PartitionSides { count, side: side.to_vec() }).unwrap()
    }

    #[test]
    fn each_shape_cuts_the_expected_pairs() {
        assert_eq!(deaf(PartitionShape::Halves, 2, &[1]), [(0, 1), (1, 0)]);
        assert_eq!(deaf(PartitionShape::Halves, 3, &[2]), [(0, 2), (1, 2), (2, 0), (2, 1)]);
        let five = [(0, 1), (0, 3), (1, 0), (1, 2), (1, 4), (2, 1), (2, 3), (3, 0), (3, 2), (3, 4), (4, 1), (4, 3)];
        assert_eq!(deaf(PartitionShape::Halves, 5, &[1, 3]), five);

        assert_eq!(deaf(PartitionShape::One, 2, &[1]), [(0, 1), (1, 0)]);
        assert_eq!(deaf(PartitionShape::One, 3, &[0]), [(0, 1), (0, 2), (1, 0), (2, 0)]);
        // All pairs except those of the three hosts that are not hit.
        assert_eq!(deaf(PartitionShape::One, 5, &[1, 3]).len(), 20 - 6);
        assert!(
            deaf(PartitionShape::One, 5, &[1, 3]).contains(&(1, 3)),
            "the side's hosts do not hear each other either"
        );

        assert_eq!(deaf(PartitionShape::OneWay, 2, &[0]), [(1, 0)]);
        assert_eq!(deaf(PartitionShape::OneWay, 3, &[0]), [(1, 0), (2, 0)]);
        assert_eq!(deaf(PartitionShape::OneWay, 5, &[1, 3]), [(0, 1), (0, 3), (2, 1), (2, 3), (4, 1), (4, 3)]);

        let ring = [(0, 2), (0, 3), (1, 3), (1, 4), (2, 0), (2, 4), (3, 0), (3, 1), (4, 1), (4, 2)];
        assert_eq!(deaf(PartitionShape::Ring, 5, &[0]), ring);
        assert_eq!(deaf(PartitionShape::Ring, 4, &[0]), [(0, 2), (1, 3), (2, 0), (3, 1)]);
    }

    #[test]
    fn all_shapes_but_one_way_are_symmetric() {
        for count in 2..8 {
            for bits in 1_usize..1 << count {
                let side: Vec<usize> = (0..count).filter(|host| bits & 1 << host != 0).collect();
                for shape in [PartitionShape::Halves, PartitionShape::One, PartitionShape::OneWay, PartitionShape::Ring]
                {
                    let Ok(deaf) = super::deaf(shape, &PartitionSides { count, side: side.clone() }) else { continue };
                    let mirrored = deaf.iter().all(|(a, b)| deaf.contains(&(*b, *a)));
                    let one_way = deaf.iter().all(|(a, b)| !deaf.contains(&(*b, *a)));
                    assert_eq!(
                        (mirrored, one_way),
                        (shape != PartitionShape::OneWay, shape == PartitionShape::OneWay),
                        "{shape:?} {side:?}"
                    );
                    assert!(deaf.iter().all(|(a, b)| a != b && *a < count && *b < count));
                }
            }
        }
    }

    #[test]
    fn a_partition_that_separates_no_hosts_is_refused() {
        let refused = |shape, count, side: &[usize]| {
            super::deaf(shape, &PartitionSides { count, side: side.to_vec() }).unwrap_err()
        };
        assert_eq!(
            refused(PartitionShape::Ring, 3, &[0]),
            "a ring needs at least 4 hosts, but the lab has 3: all of them are neighbours"
        );
        assert!(refused(PartitionShape::Halves, 3, &[0, 1, 2]).contains("on one side"));
        assert!(refused(PartitionShape::OneWay, 2, &[0, 1]).contains("on one side"));
        for shape in [PartitionShape::Halves, PartitionShape::One, PartitionShape::OneWay, PartitionShape::Ring] {
            assert!(refused(shape, 1, &[0]).contains("needs at least two hosts"));
        }
    }

    #[test]
    fn clients_lose_the_smaller_side() {
        let smaller = |shape, count, side: &[usize]| smaller(shape, &PartitionSides { count, side: side.to_vec() });
        assert_eq!(smaller(PartitionShape::Halves, 5, &[1, 3]), [1, 3]);
        assert_eq!(smaller(PartitionShape::Halves, 5, &[0, 1, 3]), [2, 4]);
        assert_eq!(smaller(PartitionShape::Halves, 2, &[0]), [0]);
        assert_eq!(smaller(PartitionShape::One, 3, &[0, 1]), [0, 1]);
    }

    #[test]
    fn packets_are_dropped_where_they_arrive() {
        let (a, b) = (Ipv4Addr::new(10, 83, 0, 1), Ipv4Addr::new(10, 83, 0, 254));
        assert_eq!(cut(Vec::new(), Vec::new()), None);
        assert_eq!(cut(vec![a], Vec::new()), Some(Injection::Cut { from: Some(vec![a]), to: Some(Vec::new()) }));
        assert_eq!(cut(vec![a], vec![b]), Some(Injection::Cut { from: Some(vec![a, b]), to: Some(vec![b]) }));
    }

    #[test]
    fn shape_arguments_are_parsed() {
        let with = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), Value::from(value))]);
        assert_eq!(shape(&BTreeMap::new()), Ok((PartitionShape::Halves, false)));
        assert_eq!(shape(&with("shape", "one_way")), Ok((PartitionShape::OneWay, false)));
        assert_eq!(shape(&with("clients", "majority")), Ok((PartitionShape::Halves, true)));
        assert_eq!(shape(&with("shape", "rings")).unwrap_err()[0].what, "`shape = \"rings\"` is not a known value");
        let both = BTreeMap::from([("shape".to_owned(), "ring".into()), ("clients".to_owned(), "majority".into())]);
        assert_eq!(shape(&both).unwrap_err()[0].argument, Some("clients"));
    }
}
