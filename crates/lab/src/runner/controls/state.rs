//! What holds on a host under everything imposed on it, and the steps from one such state to another. Pure: nothing is
//! performed here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use experiment::profile::{Disk, Link};

use crate::runner::{Control, Envelope};

/// What holds.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::runner) struct State {
    /// Its processes stand still.
    pub still: bool,
    pub cuts: Cuts,
    pub links: Links,
    pub carrier: Carrier,
    /// What its cores do, of what the profile says.
    pub cpu: f64,
    pub memory_bytes: Option<u64>,
    pub disk: Disk,
    /// Its disk is full but for so much.
    pub leave_bytes: Option<u64>,
    /// Its wall clock is so far off, seconds.
    pub offset_s: f64,
}

/// Whose packets are dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::runner) struct Cuts {
    /// When they come from there.
    pub from: Peers,
    /// When they go there.
    pub to: Peers,
    /// All of them, for the host stands still.
    pub silent: bool,
}

/// Some hosts of a network, or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::runner) enum Peers {
    These(BTreeSet<Ipv4Addr>),
    Everybody,
}

/// What a link is like.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::runner) struct Links {
    /// Toward everybody who is not in `toward`.
    pub all: Link,
    /// Toward some; whoever is in two of them belongs to the first.
    pub toward: Vec<(BTreeSet<Ipv4Addr>, Link)>,
    /// What TCP ports have of it.
    pub ports: BTreeMap<u16, Link>,
}

/// Whether a link is there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::runner) enum Carrier {
    Up,
    Down,
    /// Down, up, down, … seconds.
    Flaps {
        down_s: f64,
        up_s: f64,
    },
}

/// One thing to be done to a host.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::runner) enum Step {
    Still(bool),
    Cut(Cuts),
    Link(Links),
    Carrier(Carrier),
    Cpu(f64),
    Memory(Option<u64>),
    Disk(Disk),
    Fill(Option<u64>),
    Clock(f64),
}

impl Default for Peers {
    fn default() -> Self {
        Self::These(BTreeSet::new())
    }
}

impl Peers {
    fn add(&mut self, more: Option<&Vec<Ipv4Addr>>) {
        match (&mut *self, more) {
            (_, None) => *self = Self::Everybody,
            (Self::These(some), Some(more)) => some.extend(more),
            (Self::Everybody, Some(_)) => {}
        }
    }
}

impl State {
    /// What holds when these are imposed, in this order: of two of one kind the later, figure by figure; cuts add up.
    pub fn of(list: &[(String, Control)], envelope: &Envelope) -> Self {
        let mut state = Self {
            still: false,
            cuts: Cuts::default(),
            links: Links { all: envelope.link.clone(), ..Links::default() },
            carrier: Carrier::Up,
            cpu: 1.0,
            memory_bytes: envelope.memory_bytes,
            disk: envelope.disk.clone(),
            leave_bytes: None,
            offset_s: 0.0,
        };
        for (_, control) in list {
            state.add(control);
        }
        state.links = links(list, state.links.all);
        state
    }

    fn add(&mut self, control: &Control) {
        match control {
            Control::Freeze => {
                self.still = true;
                self.cuts.silent = true;
            }
            Control::Cut { from, to } => {
                self.cuts.from.add(from.as_ref());
                self.cuts.to.add(to.as_ref());
            }
            // All at once, below: those toward some lie over those toward everybody.
            Control::Link { .. } | Control::Port { .. } => {}
            Control::LinkDown => self.carrier = Carrier::Down,
            Control::LinkFlap { down_s, up_s } => self.carrier = Carrier::Flaps { down_s: *down_s, up_s: *up_s },
            Control::Cpu { of_profile } => self.cpu = *of_profile,
            Control::Memory { bytes } => self.memory_bytes = Some(*bytes),
            Control::Disk { disk } => overlay_disk(&mut self.disk, disk),
            Control::FullDisk { leave_bytes } => self.leave_bytes = Some(*leave_bytes),
            Control::Clock { offset_s } => self.offset_s = *offset_s,
        }
    }

    /// The step was done.
    pub fn follow(&mut self, step: Step) {
        match step {
            Step::Still(still) => self.still = still,
            Step::Cut(cuts) => self.cuts = cuts,
            Step::Link(links) => self.links = links,
            Step::Carrier(carrier) => self.carrier = carrier,
            Step::Cpu(of_profile) => self.cpu = of_profile,
            Step::Memory(bytes) => self.memory_bytes = bytes,
            Step::Disk(disk) => self.disk = disk,
            Step::Fill(leave_bytes) => self.leave_bytes = leave_bytes,
            Step::Clock(offset_s) => self.offset_s = offset_s,
        }
    }
}

/// The link toward everybody, then over it those toward some, the later over the earlier; and so of each port.
fn links(list: &[(String, Control)], mut all: Link) -> Links {
    let controls = list.iter().filter_map(|(_, control)| match control {
        Control::Link { link, peers } => Some((link, peers)),
        _ => None,
    });
    let (some, every): (Vec<_>, Vec<_>) = controls.partition(|(_, peers)| peers.is_some());
    for (link, _) in every {
        overlay_link(&mut all, link);
    }
    let mut toward: Vec<(BTreeSet<Ipv4Addr>, Link)> = Vec::new();
    for (link, peers) in some {
        let peers: BTreeSet<Ipv4Addr> = peers.iter().flatten().copied().collect();
        let at = toward.iter().position(|(others, _)| *others == peers);
        let mut like = at.map_or_else(|| all.clone(), |at| toward.remove(at).1);
        overlay_link(&mut like, link);
        toward.insert(0, (peers, like));
    }
    let mut ports: BTreeMap<u16, Link> = BTreeMap::new();
    for (_, control) in list {
        let Control::Port { ports: slow, link } = control else { continue };
        slow.iter().for_each(|port| overlay_link(ports.entry(*port).or_default(), link));
    }
    Links { all, toward, ports }
}

fn overlay_link(under: &mut Link, over: &Link) {
    under.rate_bits_per_s = over.rate_bits_per_s.or(under.rate_bits_per_s);
    under.delay_s = over.delay_s.or(under.delay_s);
    under.loss_pct = over.loss_pct.or(under.loss_pct);
}

fn overlay_disk(under: &mut Disk, over: &Disk) {
    under.read_iops = over.read_iops.or(under.read_iops);
    under.write_iops = over.write_iops.or(under.write_iops);
    under.read_bytes_per_s = over.read_bytes_per_s.or(under.read_bytes_per_s);
    under.write_bytes_per_s = over.write_bytes_per_s.or(under.write_bytes_per_s);
}

/// What leads from one state to the other. Who freezes stands still before the network falls silent, and goes on after it
/// speaks again; a disk is filled before it is slow, and emptied when it is fast again.
pub(in crate::runner) fn steps(from: &State, to: &State) -> Vec<Step> {
    let freezes = to.still && !from.still;
    let fills = to.leave_bytes.is_some();
    let fill = (from.leave_bytes != to.leave_bytes).then_some(Step::Fill(to.leave_bytes));
    let steps = [
        freezes.then_some(Step::Still(true)),
        (from.cuts != to.cuts).then(|| Step::Cut(to.cuts.clone())),
        (from.still && !to.still).then_some(Step::Still(false)),
        (from.carrier != to.carrier).then_some(Step::Carrier(to.carrier)),
        (from.links != to.links).then(|| Step::Link(to.links.clone())),
        from.cpu.ne(&to.cpu).then_some(Step::Cpu(to.cpu)),
        (from.memory_bytes != to.memory_bytes).then_some(Step::Memory(to.memory_bytes)),
        fill.clone().filter(|_| fills),
        (from.disk != to.disk).then(|| Step::Disk(to.disk.clone())),
        fill.filter(|_| !fills),
        from.offset_s.ne(&to.offset_s).then_some(Step::Clock(to.offset_s)),
    ];
    steps.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
