//! Faults that are injected on a host. They are kept by key, combined into one wanted state, and
//! applied. A fault that cannot be applied is not injected.

mod apply;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use experiment::profile::{Disk, Link};

use super::control_groups::Groups;
use super::{Envelope, Injection, OrderRefusal, Setup};
use crate::stoppable_thread::StoppableThread;
use apply::KernelControls;

/// Actions on a host. Each call sets the complete new state of one property.
pub(super) trait HostControls: Send + Sync {
    /// Freezes or resumes the target's processes.
    fn freeze(&self, still: bool) -> Result<(), OrderRefusal>;
    /// Drops the packets in `cuts` and no others.
    fn cut(&self, cuts: &PacketCuts) -> Result<(), OrderRefusal>;
    /// Shapes the link.
    fn link(&self, links: &LinkState) -> Result<(), OrderRefusal>;
    /// Takes the link up or down.
    fn carrier(&self, up: bool) -> Result<(), OrderRefusal>;
    /// Sets the cores to this share of their speed in the profile.
    fn cpu(&self, of_profile: f64) -> Result<(), OrderRefusal>;
    /// Limits the memory.
    fn memory(&self, bytes: Option<u64>) -> Result<(), OrderRefusal>;
    /// Limits the disk.
    fn disk(&self, disk: &Disk) -> Result<(), OrderRefusal>;
    /// Fills the disk except for this space. `None`: removes the filler file.
    fn fill(&self, leave_bytes: Option<u64>) -> Result<(), OrderRefusal>;
    /// Limits each storage tier.
    fn tiers(&self, tiers: &BTreeMap<String, Disk>) -> Result<(), OrderRefusal>;
    /// Fills the tiers in `leave_bytes` except for the given space. Removes the filler file from
    /// all others.
    fn fill_tiers(&self, leave_bytes: &BTreeMap<String, u64>) -> Result<(), OrderRefusal>;
    /// Sets the offset of the wall clock.
    fn clock(&self, offset_s: f64) -> Result<(), OrderRefusal>;
}

/// Faults that are injected on this host.
pub(super) struct Controls {
    envelope: Envelope,
    hands: Arc<dyn HostControls>,
    inner: Mutex<ControlsState>,
}

struct ControlsState {
    /// Faults in the order of injection.
    list: Vec<(String, Injection)>,
    /// State that was last applied.
    now: HostState,
    flapper: Option<StoppableThread>,
}

impl Controls {
    /// Starts without faults on this host.
    pub fn new(setup: &Setup, groups: Arc<Groups>) -> Self {
        Self::over(setup.envelope.clone(), Arc::new(KernelControls::of(setup, groups)))
    }

    /// Starts without faults on the host that `hands` controls.
    fn over(envelope: Envelope, hands: Arc<dyn HostControls>) -> Self {
        let now = HostState::of(&[], &envelope);
        Self { envelope, hands, inner: Mutex::new(ControlsState { list: Vec::new(), now, flapper: None }) }
    }

    /// Injects a fault under a key. Replaces an earlier fault with this key.
    ///
    /// # Errors
    /// The fault cannot be applied. Then the previous state is restored.
    pub fn inject(&self, key: &str, control: &Injection) -> Result<(), OrderRefusal> {
        let mut inner = self.lock();
        let before = inner.list.clone();
        inner.list.retain(|(other, _)| other != key);
        inner.list.push((key.to_owned(), control.clone()));
        let wanted = HostState::of(&inner.list, &self.envelope);
        let was = inner.now.clone();
        let done = inner.go_to(&wanted, &self.hands, OnRefusal::UntilRefused);
        if done.is_err() {
            inner.list = before;
            // Restore what was changed. Further failures are ignored.
            let _ = inner.go_to(&was, &self.hands, OnRefusal::AllTheSame);
        }
        done
    }

    /// Heals a fault. An unknown key has no effect.
    ///
    /// # Errors
    /// The first action that failed. All other actions are carried out, and failed ones are tried
    /// again with the next change.
    pub fn heal(&self, key: &str) -> Result<(), OrderRefusal> {
        let mut inner = self.lock();
        inner.list.retain(|(other, _)| other != key);
        let wanted = HostState::of(&inner.list, &self.envelope);
        inner.go_to(&wanted, &self.hands, OnRefusal::AllTheSame)
    }

    /// Heals all faults as far as possible.
    pub fn heal_all(&self) {
        let mut inner = self.lock();
        inner.list.clear();
        let wanted = HostState::of(&[], &self.envelope);
        let _ = inner.go_to(&wanted, &self.hands, OnRefusal::AllTheSame);
    }

    fn lock(&self) -> MutexGuard<'_, ControlsState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Controls {
    fn drop(&mut self) {
        self.heal_all();
    }
}

impl std::fmt::Debug for Controls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controls").field("list", &self.lock().list).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OnRefusal {
    UntilRefused,
    AllTheSame,
}

impl ControlsState {
    /// Applies the differences between `now` and `wanted`. `now` is updated with each success.
    fn go_to(
        &mut self,
        wanted: &HostState,
        hands: &Arc<dyn HostControls>,
        manner: OnRefusal,
    ) -> Result<(), OrderRefusal> {
        let mut first = None;
        for step in steps(&self.now, wanted) {
            match self.perform(&step, hands) {
                Ok(()) => self.now.follow(step),
                Err(refusal) => {
                    first.get_or_insert(refusal);
                    if manner == OnRefusal::UntilRefused {
                        break;
                    }
                }
            }
        }
        first.map_or(Ok(()), Err)
    }

    fn perform(&mut self, step: &HostAction, hands: &Arc<dyn HostControls>) -> Result<(), OrderRefusal> {
        match step {
            HostAction::Still(still) => hands.freeze(*still),
            HostAction::Cut(cuts) => hands.cut(cuts),
            HostAction::Link(links) => hands.link(links),
            HostAction::Carrier(carrier) => self.carry(*carrier, hands),
            HostAction::Cpu(of_profile) => hands.cpu(*of_profile),
            HostAction::Memory(bytes) => hands.memory(*bytes),
            HostAction::Disk(disk) => hands.disk(disk),
            HostAction::Fill(leave_bytes) => hands.fill(*leave_bytes),
            HostAction::Tiers(tiers) => hands.tiers(tiers),
            HostAction::FillTiers(leave_bytes) => hands.fill_tiers(leave_bytes),
            HostAction::Clock(offset_s) => hands.clock(*offset_s),
        }
    }

    fn carry(&mut self, carrier: LinkCarrier, hands: &Arc<dyn HostControls>) -> Result<(), OrderRefusal> {
        // Stop flapping first, in whichever state the link is.
        self.flapper = None;
        match carrier {
            LinkCarrier::Up => hands.carrier(true),
            LinkCarrier::Down => hands.carrier(false),
            LinkCarrier::Flaps { down_s, up_s } => {
                hands.carrier(false)?;
                match flap(Arc::clone(hands), down_s, up_s) {
                    Ok(flapper) => self.flapper = Some(flapper),
                    Err(error) => {
                        hands.carrier(true)?;
                        let doing = "start the thread that flaps the link".to_owned();
                        return Err(OrderRefusal::System { doing, error: error.to_string() });
                    }
                }
                Ok(())
            }
        }
    }
}

// Link that alternates between down and up, on its own thread.

/// Flaps the link until the thread is dropped, and leaves the link in its current state. The link
/// is already down at the start.
fn flap(hands: Arc<dyn HostControls>, down_s: f64, up_s: f64) -> io::Result<StoppableThread> {
    let [down, up] = [down_s, up_s].map(|time_s| Duration::try_from_secs_f64(time_s).unwrap_or_default());
    StoppableThread::start("flapper", move |stop| {
        // An attempt may fail and the next may succeed. No caller waits for the error.
        while stop.waits(down) {
            let _ = hands.carrier(true);
            if !stop.waits(up) {
                return;
            }
            let _ = hands.carrier(false);
        }
    })
}

// State of a host under all injected faults, and the steps from one state to another. These
// functions are pure.

/// State of a host.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HostState {
    /// Whether processes are frozen.
    pub still: bool,
    pub cuts: PacketCuts,
    pub links: LinkState,
    pub carrier: LinkCarrier,
    /// Speed of the cores, as a share of the profile's.
    pub cpu: f64,
    pub memory_bytes: Option<u64>,
    pub disk: Disk,
    /// Space left on a full disk. `None` if it is not full.
    pub leave_bytes: Option<u64>,
    /// Limits of the storage tiers.
    pub tiers: BTreeMap<String, Disk>,
    /// Space left on each full tier.
    pub full_tiers: BTreeMap<String, u64>,
    /// Offset of the wall clock, seconds.
    pub offset_s: f64,
}

/// Packets that are dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PacketCuts {
    /// Peers from which packets are dropped.
    pub from: PeerSet,
    /// Peers to which packets are dropped.
    pub to: PeerSet,
    /// Whether all packets are dropped, because the host is frozen.
    pub silent: bool,
}

/// Some hosts of a network, or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PeerSet {
    These(BTreeSet<Ipv4Addr>),
    Everybody,
}

/// Properties of a link.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LinkState {
    /// Link toward all hosts that are not in `toward`.
    pub all: Link,
    /// Link toward some hosts. The first entry that contains a host applies to it.
    pub toward: Vec<(BTreeSet<Ipv4Addr>, Link)>,
    /// Limits of TCP ports within the link.
    pub ports: BTreeMap<u16, Link>,
}

/// State of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum LinkCarrier {
    Up,
    Down,
    /// Alternates: down for `down_s` seconds, then up for `up_s` seconds.
    Flaps {
        down_s: f64,
        up_s: f64,
    },
}

/// One action on a host.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum HostAction {
    Still(bool),
    Cut(PacketCuts),
    Link(LinkState),
    Carrier(LinkCarrier),
    Cpu(f64),
    Memory(Option<u64>),
    Disk(Disk),
    Fill(Option<u64>),
    Tiers(BTreeMap<String, Disk>),
    FillTiers(BTreeMap<String, u64>),
    Clock(f64),
}

impl Default for PeerSet {
    fn default() -> Self {
        Self::These(BTreeSet::new())
    }
}

impl PeerSet {
    fn add(&mut self, more: Option<&Vec<Ipv4Addr>>) {
        match (&mut *self, more) {
            (_, None) => *self = Self::Everybody,
            (Self::These(some), Some(more)) => some.extend(more),
            (Self::Everybody, Some(_)) => {}
        }
    }
}

impl HostState {
    /// Returns the state when these faults are injected in this order. Of two faults of one kind,
    /// each value that the later one sets applies; cuts add up.
    pub fn of(list: &[(String, Injection)], envelope: &Envelope) -> Self {
        let mut state = Self {
            still: false,
            cuts: PacketCuts::default(),
            links: LinkState { all: envelope.link.clone(), ..LinkState::default() },
            carrier: LinkCarrier::Up,
            cpu: 1.0,
            memory_bytes: envelope.memory_bytes,
            disk: envelope.disk.clone(),
            leave_bytes: None,
            tiers: envelope.tiers.clone(),
            full_tiers: BTreeMap::new(),
            offset_s: 0.0,
        };
        for (_, control) in list {
            state.add(control);
        }
        state.links = links(list, state.links.all);
        state
    }

    fn add(&mut self, control: &Injection) {
        match control {
            Injection::Freeze => {
                self.still = true;
                self.cuts.silent = true;
            }
            Injection::Cut { from, to } => {
                self.cuts.from.add(from.as_ref());
                self.cuts.to.add(to.as_ref());
            }
            // `links` handles all link faults together: limits toward some hosts override limits
            // toward all.
            Injection::Link { .. } | Injection::Port { .. } => {}
            Injection::LinkDown => self.carrier = LinkCarrier::Down,
            Injection::LinkFlap { down_s, up_s } => self.carrier = LinkCarrier::Flaps { down_s: *down_s, up_s: *up_s },
            Injection::Cpu { of_profile } => self.cpu = *of_profile,
            Injection::Memory { bytes } => self.memory_bytes = Some(*bytes),
            Injection::Disk { disk, tier: None } => overlay_disk(&mut self.disk, disk),
            Injection::Disk { disk, tier: Some(tier) } => {
                overlay_disk(self.tiers.entry(tier.clone()).or_default(), disk);
            }
            Injection::FullDisk { leave_bytes, tier: None } => self.leave_bytes = Some(*leave_bytes),
            Injection::FullDisk { leave_bytes, tier: Some(tier) } => {
                self.full_tiers.insert(tier.clone(), *leave_bytes);
            }
            Injection::Clock { offset_s } => self.offset_s = *offset_s,
        }
    }

    /// Records that the step was done.
    pub fn follow(&mut self, step: HostAction) {
        match step {
            HostAction::Still(still) => self.still = still,
            HostAction::Cut(cuts) => self.cuts = cuts,
            HostAction::Link(links) => self.links = links,
            HostAction::Carrier(carrier) => self.carrier = carrier,
            HostAction::Cpu(of_profile) => self.cpu = of_profile,
            HostAction::Memory(bytes) => self.memory_bytes = bytes,
            HostAction::Disk(disk) => self.disk = disk,
            HostAction::Fill(leave_bytes) => self.leave_bytes = leave_bytes,
            HostAction::Tiers(tiers) => self.tiers = tiers,
            HostAction::FillTiers(leave_bytes) => self.full_tiers = leave_bytes,
            HostAction::Clock(offset_s) => self.offset_s = offset_s,
        }
    }
}

/// Returns the link state. Limits toward some hosts override limits toward all hosts. A later
/// limit, also of a port, overrides an earlier one.
fn links(list: &[(String, Injection)], mut all: Link) -> LinkState {
    let controls = list.iter().filter_map(|(_, control)| match control {
        Injection::Link { link, peers } => Some((link, peers)),
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
        let Injection::Port { ports: slow, link } = control else { continue };
        slow.iter().for_each(|port| overlay_link(ports.entry(*port).or_default(), link));
    }
    LinkState { all, toward, ports }
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

/// Returns the steps from one state to the other. A freeze stops the processes before it silences
/// the network. A resume restores the network before the processes. A disk is filled before it
/// becomes slow, and emptied after it is fast again.
pub(super) fn steps(from: &HostState, to: &HostState) -> Vec<HostAction> {
    let freezes = to.still && !from.still;
    let fills = to.leave_bytes.is_some();
    let fill = (from.leave_bytes != to.leave_bytes).then_some(HostAction::Fill(to.leave_bytes));
    let fill_tiers = (from.full_tiers != to.full_tiers).then(|| HostAction::FillTiers(to.full_tiers.clone()));
    let fills_tiers = to.full_tiers.len() > from.full_tiers.len();
    let steps = [
        freezes.then_some(HostAction::Still(true)),
        (from.cuts != to.cuts).then(|| HostAction::Cut(to.cuts.clone())),
        (from.still && !to.still).then_some(HostAction::Still(false)),
        (from.carrier != to.carrier).then_some(HostAction::Carrier(to.carrier)),
        (from.links != to.links).then(|| HostAction::Link(to.links.clone())),
        from.cpu.ne(&to.cpu).then_some(HostAction::Cpu(to.cpu)),
        (from.memory_bytes != to.memory_bytes).then_some(HostAction::Memory(to.memory_bytes)),
        fill.clone().filter(|_| fills),
        (from.disk != to.disk).then(|| HostAction::Disk(to.disk.clone())),
        fill.filter(|_| !fills),
        fill_tiers.clone().filter(|_| fills_tiers),
        (from.tiers != to.tiers).then(|| HostAction::Tiers(to.tiers.clone())),
        fill_tiers.filter(|_| !fills_tiers),
        from.offset_s.ne(&to.offset_s).then_some(HostAction::Clock(to.offset_s)),
    ];
    steps.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Records the actions, and refuses those that contain a word.
    struct Recorder {
        said: Sender<String>,
        refuses: Mutex<Option<&'static str>>,
    }

    impl Recorder {
        fn note(&self, text: String) -> Result<(), OrderRefusal> {
            let refused = self.refuses.lock().unwrap().is_some_and(|word| text.contains(word));
            let _ = self.said.send(if refused { format!("{text}: refused") } else { text.clone() });
            if refused { Err(OrderRefusal::Cannot { reason: text }) } else { Ok(()) }
        }
    }

    impl HostControls for Recorder {
        fn freeze(&self, still: bool) -> Result<(), OrderRefusal> {
            self.note(format!("freeze {still}"))
        }
        fn cut(&self, cuts: &PacketCuts) -> Result<(), OrderRefusal> {
            self.note(match cuts.from {
                _ if cuts.silent => "cut all".to_owned(),
                PeerSet::Everybody => "cut from all".to_owned(),
                PeerSet::These(ref some) => format!("cut {}", some.len()),
            })
        }
        fn link(&self, links: &LinkState) -> Result<(), OrderRefusal> {
            self.note(format!("link {:?}", links.all.rate_bits_per_s))
        }
        fn carrier(&self, up: bool) -> Result<(), OrderRefusal> {
            self.note(format!("carrier {up}"))
        }
        fn cpu(&self, of_profile: f64) -> Result<(), OrderRefusal> {
            self.note(format!("cpu {of_profile}"))
        }
        fn memory(&self, bytes: Option<u64>) -> Result<(), OrderRefusal> {
            self.note(format!("memory {bytes:?}"))
        }
        fn disk(&self, disk: &Disk) -> Result<(), OrderRefusal> {
            self.note(format!("disk {:?}", disk.write_iops))
        }
        fn tiers(&self, tiers: &BTreeMap<String, Disk>) -> Result<(), OrderRefusal> {
            let figures: Vec<_> = tiers.iter().map(|(name, disk)| (name.as_str(), disk.write_iops)).collect();
            self.note(format!("tiers {figures:?}"))
        }
        fn fill_tiers(&self, leave_bytes: &BTreeMap<String, u64>) -> Result<(), OrderRefusal> {
            self.note(format!("fill tiers {leave_bytes:?}"))
        }
        fn fill(&self, leave_bytes: Option<u64>) -> Result<(), OrderRefusal> {
            self.note(format!("fill {leave_bytes:?}"))
        }
        fn clock(&self, offset_s: f64) -> Result<(), OrderRefusal> {
            self.note(format!("clock {offset_s}"))
        }
    }

    struct Stage {
        controls: Controls,
        recorder: Arc<Recorder>,
        said: Receiver<String>,
    }

    impl Stage {
        fn new() -> Self {
            let (sender, said) = channel();
            let recorder = Arc::new(Recorder { said: sender, refuses: Mutex::new(None) });
            let hands: Arc<dyn HostControls> = Arc::clone(&recorder) as Arc<dyn HostControls>;
            Self { controls: Controls::over(Envelope::default(), hands), recorder, said }
        }

        fn said(&self) -> Vec<String> {
            self.said.try_iter().collect()
        }

        fn refuse(&self, word: Option<&'static str>) {
            *self.recorder.refuses.lock().unwrap() = word;
        }
    }

    #[test]
    fn a_tier_is_slowed_or_filled_separately() {
        let limits = |write_iops| Disk { write_iops, ..Disk::default() };
        let envelope = Envelope { tiers: BTreeMap::from([("sata".to_owned(), limits(Some(500.0)))]), ..envelope() };
        let on =
            |tier: &str, injection: fn(Option<String>) -> Injection| ("a".to_owned(), injection(Some(tier.to_owned())));
        let slow =
            on("sata", |tier| Injection::Disk { disk: Disk { write_iops: Some(50.0), ..Disk::default() }, tier });
        let full = on("sata", |tier| Injection::FullDisk { leave_bytes: 7, tier });
        let healthy = HostState::of(&[], &envelope);
        let ill = HostState::of(&[slow, full], &envelope);
        assert_eq!((&ill.disk, ill.leave_bytes), (&envelope.disk, None), "its data is where it was");
        assert_eq!(ill.tiers["sata"], limits(Some(50.0)));
        let filled = BTreeMap::from([("sata".to_owned(), 7)]);
        assert_eq!(steps(&healthy, &ill), [HostAction::FillTiers(filled), HostAction::Tiers(ill.tiers.clone())]);
        let emptied = HostAction::FillTiers(BTreeMap::new());
        assert_eq!(steps(&ill, &healthy), [HostAction::Tiers(healthy.tiers.clone()), emptied]);
    }

    #[test]
    fn healing_restores_the_state_before() {
        let stage = Stage::new();
        stage.controls.inject("a#1", &Injection::Cpu { of_profile: 0.5 }).unwrap();
        stage.controls.inject("b#1", &Injection::Cpu { of_profile: 0.1 }).unwrap();
        stage.controls.heal("a#1").unwrap();
        assert_eq!(stage.said(), ["cpu 0.5", "cpu 0.1"], "the later one holds all the time");
        stage.controls.heal("b#1").unwrap();
        stage.controls.heal("b#1").unwrap();
        stage.controls.heal("c#1").unwrap();
        assert_eq!(stage.said(), ["cpu 1"]);
    }

    #[test]
    fn a_refused_injection_is_undone() {
        let stage = Stage::new();
        stage
            .controls
            .inject("a#1", &Injection::Cut { from: Some(vec![[10, 0, 0, 1].into()]), to: Some(Vec::new()) })
            .unwrap();
        stage.refuse(Some("cut all"));
        let refusal = stage.controls.inject("b#1", &Injection::Freeze).unwrap_err();
        assert_eq!(refusal, OrderRefusal::Cannot { reason: "cut all".to_owned() });
        assert_eq!(stage.said(), ["cut 1", "freeze true", "cut all: refused", "freeze false"]);
        stage.refuse(None);
        stage.controls.heal("b#1").unwrap();
        assert_eq!(stage.said(), [] as [&str; 0]);
        stage.controls.heal("a#1").unwrap();
        assert_eq!(stage.said(), ["cut 0"]);
    }

    #[test]
    fn a_refused_heal_is_retried() {
        let stage = Stage::new();
        stage.controls.inject("a#1", &Injection::Memory { bytes: 5 }).unwrap();
        stage.refuse(Some("memory None"));
        stage.controls.heal("a#1").unwrap_err();
        stage.refuse(None);
        stage.controls.inject("b#1", &Injection::Cpu { of_profile: 0.5 }).unwrap();
        assert_eq!(stage.said(), ["memory Some(5)", "memory None: refused", "cpu 0.5", "memory None"]);
    }

    #[test]
    fn everything_is_healed_at_the_end() {
        let stage = Stage::new();
        stage.controls.inject("a#1", &Injection::FullDisk { leave_bytes: 0, tier: None }).unwrap();
        stage.controls.inject("b#1", &Injection::Clock { offset_s: 5.0 }).unwrap();
        assert_eq!(stage.said(), ["fill Some(0)", "clock 5"]);
        let Stage { controls, said, .. } = stage;
        drop(controls);
        assert_eq!(said.try_iter().collect::<Vec<_>>(), ["fill None", "clock 0"]);
    }

    #[test]
    fn a_link_flaps_until_it_is_healed() {
        let stage = Stage::new();
        stage.controls.inject("a#1", &Injection::LinkFlap { down_s: 0.001, up_s: 0.001 }).unwrap();
        let seen: Vec<String> = stage.said.iter().take(5).collect();
        assert_eq!(seen, ["carrier false", "carrier true", "carrier false", "carrier true", "carrier false"]);
        stage.controls.heal("a#1").unwrap();
        assert_eq!(stage.said().last().unwrap(), "carrier true");
        // The earlier flapping has ended.
        stage.controls.inject("b#1", &Injection::LinkDown).unwrap();
        assert_eq!(stage.said(), ["carrier false"]);
    }

    #[test]
    fn the_same_key_replaces_the_injection() {
        let stage = Stage::new();
        stage.controls.inject("a#1", &Injection::Cpu { of_profile: 0.5 }).unwrap();
        stage.controls.inject("a#1", &Injection::Memory { bytes: 5 }).unwrap();
        stage.controls.heal("a#1").unwrap();
        assert_eq!(stage.said(), ["cpu 0.5", "cpu 1", "memory Some(5)", "memory None"]);
    }

    fn address(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 83, 0, last)
    }

    fn rate(rate: f64) -> Link {
        Link { rate_bits_per_s: Some(rate), ..Link::default() }
    }

    fn loss(loss: f64) -> Link {
        Link { loss_pct: Some(loss), ..Link::default() }
    }

    fn everywhere(link: Link) -> Injection {
        Injection::Link { link, peers: None }
    }

    fn cut(from: &[u8], to: &[u8]) -> Injection {
        let some = |lasts: &[u8]| Some(lasts.iter().map(|last| address(*last)).collect());
        Injection::Cut { from: some(from), to: some(to) }
    }

    fn these(lasts: &[u8]) -> PeerSet {
        PeerSet::These(lasts.iter().map(|last| address(*last)).collect())
    }

    fn envelope() -> Envelope {
        let disk = Disk { size_bytes: Some(1 << 30), write_iops: Some(200.0), ..Disk::default() };
        Envelope { link: rate(1e8), disk, memory_bytes: Some(1 << 30), ..Envelope::default() }
    }

    fn of(controls: &[Injection]) -> HostState {
        let list: Vec<_> =
            controls.iter().enumerate().map(|(n, control)| (format!("k#{n}"), control.clone())).collect();
        HostState::of(&list, &envelope())
    }

    #[test]
    fn the_state_without_injections_is_the_envelope() {
        let state = of(&[]);
        assert_eq!((state.still, state.carrier, state.cpu, state.offset_s), (false, LinkCarrier::Up, 1.0, 0.0));
        assert_eq!((state.links.all, state.links.toward.len()), (rate(1e8), 0));
        assert_eq!((state.memory_bytes, state.leave_bytes, state.disk), (Some(1 << 30), None, envelope().disk));
        assert_eq!(state.cuts, PacketCuts { from: these(&[]), to: these(&[]), silent: false });
    }

    #[test]
    fn the_latest_injection_of_a_kind_applies() {
        type Shown = fn(&HostState) -> String;
        let table: [(Injection, Injection, Shown, &str); 6] = [
            (Injection::Cpu { of_profile: 0.5 }, Injection::Cpu { of_profile: 0.25 }, |s| s.cpu.to_string(), "0.25"),
            (
                Injection::Memory { bytes: 5 },
                Injection::Memory { bytes: 7 },
                |s| format!("{:?}", s.memory_bytes),
                "Some(7)",
            ),
            (
                Injection::FullDisk { leave_bytes: 5, tier: None },
                Injection::FullDisk { leave_bytes: 0, tier: None },
                |s| format!("{:?}", s.leave_bytes),
                "Some(0)",
            ),
            (Injection::Clock { offset_s: 5.0 }, Injection::Clock { offset_s: -1.0 }, |s| s.offset_s.to_string(), "-1"),
            (
                Injection::LinkFlap { down_s: 1.0, up_s: 2.0 },
                Injection::LinkDown,
                |s| format!("{:?}", s.carrier),
                "Down",
            ),
            (
                everywhere(rate(1e6)),
                everywhere(rate(2e6)),
                |s| format!("{:?}", s.links.all.rate_bits_per_s),
                "Some(2000000.0)",
            ),
        ];
        for (first, second, shown, expected) in table {
            assert_eq!(shown(&of(&[first.clone(), second.clone()])), expected, "{first:?}, {second:?}");
            assert_ne!(shown(&of(&[second, first.clone()])), expected, "{first:?} last");
        }
    }

    #[test]
    fn omitted_figures_keep_their_values() {
        let state = of(&[everywhere(rate(1e6)), everywhere(loss(5.0))]);
        assert_eq!(state.links.all, Link { rate_bits_per_s: Some(1e6), delay_s: None, loss_pct: Some(5.0) });
        let disk = Disk { read_iops: Some(10.0), ..Disk::default() };
        let expected = Disk { read_iops: Some(10.0), ..envelope().disk };
        assert_eq!(of(&[Injection::Disk { disk, tier: None }]).disk, expected);
    }

    #[test]
    fn links_toward_some_peers_override_the_general_link() {
        let toward = |link, last| Injection::Link { link, peers: Some(vec![address(last)]) };
        let state = of(&[toward(loss(1.0), 2), everywhere(rate(1e6)), toward(loss(2.0), 3), toward(rate(5.0), 2)]);
        assert_eq!(state.links.all, rate(1e6));
        let one = |last: u8| BTreeSet::from([address(last)]);
        let over = |rate: f64, loss: f64| Link { rate_bits_per_s: Some(rate), delay_s: None, loss_pct: Some(loss) };
        assert_eq!(state.links.toward, [(one(2), over(5.0, 1.0)), (one(3), over(1e6, 2.0))]);
    }

    #[test]
    fn cuts_add_up() {
        let state = of(&[cut(&[2], &[]), cut(&[2, 3], &[4])]);
        assert_eq!(state.cuts, PacketCuts { from: these(&[2, 3]), to: these(&[4]), silent: false });
        let state = of(&[cut(&[2], &[]), Injection::Cut { from: None, to: Some(Vec::new()) }, cut(&[3], &[])]);
        assert_eq!(state.cuts, PacketCuts { from: PeerSet::Everybody, to: these(&[]), silent: false });
        let state = of(&[Injection::Freeze, cut(&[2], &[3])]);
        assert_eq!((state.still, state.cuts), (true, PacketCuts { from: these(&[2]), to: these(&[3]), silent: true }));
    }

    #[test]
    fn steps_contain_only_changes() {
        let squeezed = of(&[Injection::Cpu { of_profile: 0.5 }]);
        assert_eq!(steps(&of(&[]), &squeezed), [HostAction::Cpu(0.5)]);
        assert_eq!(steps(&squeezed, &of(&[])), [HostAction::Cpu(1.0)]);
        assert_eq!(steps(&squeezed, &squeezed), []);
    }

    #[test]
    fn a_freeze_is_undone_in_reverse_order() {
        let (free, frozen) = (of(&[cut(&[2], &[])]), of(&[cut(&[2], &[]), Injection::Freeze]));
        let silent = PacketCuts { silent: true, ..free.cuts.clone() };
        assert_eq!(steps(&free, &frozen), [HostAction::Still(true), HostAction::Cut(silent)]);
        assert_eq!(steps(&frozen, &free), [HostAction::Cut(free.cuts), HostAction::Still(false)]);
    }

    #[test]
    fn steps_lead_from_any_state_to_any_other() {
        let all = [
            Injection::Freeze,
            cut(&[2], &[3]),
            everywhere(rate(1e6)),
            Injection::LinkDown,
            Injection::LinkFlap { down_s: 1.0, up_s: 1.0 },
            Injection::Cpu { of_profile: 0.5 },
            Injection::Memory { bytes: 5 },
            Injection::Disk { disk: Disk { write_iops: Some(5.0), ..Disk::default() }, tier: None },
            Injection::FullDisk { leave_bytes: 0, tier: None },
            Injection::Clock { offset_s: 5.0 },
        ];
        let states: Vec<HostState> =
            all.iter().map(|control| of(std::slice::from_ref(control))).chain([of(&[]), of(&all)]).collect();
        for from in &states {
            for to in &states {
                let mut state = from.clone();
                steps(from, to).into_iter().for_each(|step| state.follow(step));
                assert_eq!(&state, to);
            }
        }
    }

    #[test]
    fn later_port_injections_override_single_figures() {
        let slow = |ports: &[u16], link: Link| Injection::Port { ports: ports.to_vec(), link };
        let late = Link { delay_s: Some(0.1), ..Link::default() };
        let state = of(&[slow(&[7000, 7001], rate(5e6)), slow(&[7000], late.clone()), slow(&[7000], rate(1e6))]);
        assert_eq!(state.links.ports[&7000], Link { rate_bits_per_s: Some(1e6), ..late });
        assert_eq!((&state.links.ports[&7001], &state.links.all), (&rate(5e6), &rate(1e8)));
        assert_eq!(steps(&state, &of(&[])), [HostAction::Link(of(&[]).links)]);
    }
}
