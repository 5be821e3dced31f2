//! The states that faults put a host into: kept by key, worked out into what holds now, and
//! performed. What cannot be performed is not imposed.

mod hands;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use experiment::profile::{Disk, Link};

use super::groups::Groups;
use super::{Control, Envelope, Refusal, Setup};
use hands::HostHands;

/// What controls need done to a host. Each call says how it is to be from now on, not what changes.
pub(super) trait Hands: Send + Sync {
    /// Lets the target's processes stand still, or go on.
    fn freeze(&self, still: bool) -> Result<(), Refusal>;
    /// Drops these packets and no others.
    fn cut(&self, cuts: &Cuts) -> Result<(), Refusal>;
    /// Shapes the link.
    fn link(&self, links: &Links) -> Result<(), Refusal>;
    /// Takes the link up or down.
    fn carrier(&self, up: bool) -> Result<(), Refusal>;
    /// Lets the cores do this part of what the profile says.
    fn cpu(&self, of_profile: f64) -> Result<(), Refusal>;
    /// Limits the memory.
    fn memory(&self, bytes: Option<u64>) -> Result<(), Refusal>;
    /// Limits the disk.
    fn disk(&self, disk: &Disk) -> Result<(), Refusal>;
    /// Fills the disk but for so much, or not at all.
    fn fill(&self, leave_bytes: Option<u64>) -> Result<(), Refusal>;
    /// Sets the wall clock so far off.
    fn clock(&self, offset_s: f64) -> Result<(), Refusal>;
}

/// What is imposed on this host.
pub(super) struct Controls {
    envelope: Envelope,
    hands: Arc<dyn Hands>,
    inner: Mutex<Inner>,
}

struct Inner {
    /// In the order in which they were imposed.
    list: Vec<(String, Control)>,
    /// What was performed last.
    now: State,
    flapper: Option<Flapper>,
}

impl Controls {
    /// Nothing imposed on this host.
    pub fn new(setup: &Setup, groups: Arc<Groups>) -> Self {
        Self::over(setup.envelope.clone(), Arc::new(HostHands::of(setup, groups)))
    }

    /// Nothing imposed on what these hands do.
    fn over(envelope: Envelope, hands: Arc<dyn Hands>) -> Self {
        let now = State::of(&[], &envelope);
        Self { envelope, hands, inner: Mutex::new(Inner { list: Vec::new(), now, flapper: None }) }
    }

    /// Imposes a fault under a key; of an earlier one with this key nothing stays.
    ///
    /// # Errors
    /// If it cannot be performed; then everything is as before.
    pub fn impose(&self, key: &str, control: &Control) -> Result<(), Refusal> {
        let mut inner = self.lock();
        let before = inner.list.clone();
        inner.list.retain(|(other, _)| other != key);
        inner.list.push((key.to_owned(), control.clone()));
        let wanted = State::of(&inner.list, &self.envelope);
        let was = inner.now.clone();
        let done = inner.go_to(&wanted, &self.hands, Manner::UntilRefused);
        if done.is_err() {
            inner.list = before;
            // What was not done yet is as it was; what cannot be undone is said no more about.
            let _ = inner.go_to(&was, &self.hands, Manner::AllTheSame);
        }
        done
    }

    /// Lifts it; harmless if there is none.
    ///
    /// # Errors
    /// The first thing that could not be undone; the rest is, and this is tried again with the next change.
    pub fn lift(&self, key: &str) -> Result<(), Refusal> {
        let mut inner = self.lock();
        inner.list.retain(|(other, _)| other != key);
        let wanted = State::of(&inner.list, &self.envelope);
        inner.go_to(&wanted, &self.hands, Manner::AllTheSame)
    }

    /// Lifts everything, as far as it can be.
    pub fn lift_all(&self) {
        let mut inner = self.lock();
        inner.list.clear();
        let wanted = State::of(&[], &self.envelope);
        let _ = inner.go_to(&wanted, &self.hands, Manner::AllTheSame);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Controls {
    fn drop(&mut self) {
        self.lift_all();
    }
}

impl std::fmt::Debug for Controls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controls").field("list", &self.lock().list).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    UntilRefused,
    AllTheSame,
}

impl Inner {
    /// Performs what changes between now and `wanted`; `now` follows what was done.
    fn go_to(&mut self, wanted: &State, hands: &Arc<dyn Hands>, manner: Manner) -> Result<(), Refusal> {
        let mut first = None;
        for step in steps(&self.now, wanted) {
            match self.perform(&step, hands) {
                Ok(()) => self.now.follow(step),
                Err(refusal) => {
                    first.get_or_insert(refusal);
                    if manner == Manner::UntilRefused {
                        break;
                    }
                }
            }
        }
        first.map_or(Ok(()), Err)
    }

    fn perform(&mut self, step: &Step, hands: &Arc<dyn Hands>) -> Result<(), Refusal> {
        match step {
            Step::Still(still) => hands.freeze(*still),
            Step::Cut(cuts) => hands.cut(cuts),
            Step::Link(links) => hands.link(links),
            Step::Carrier(carrier) => self.carry(*carrier, hands),
            Step::Cpu(of_profile) => hands.cpu(*of_profile),
            Step::Memory(bytes) => hands.memory(*bytes),
            Step::Disk(disk) => hands.disk(disk),
            Step::Fill(leave_bytes) => hands.fill(*leave_bytes),
            Step::Clock(offset_s) => hands.clock(*offset_s),
        }
    }

    fn carry(&mut self, carrier: Carrier, hands: &Arc<dyn Hands>) -> Result<(), Refusal> {
        // One that flaps stops first, however its link stands.
        self.flapper = None;
        match carrier {
            Carrier::Up => hands.carrier(true),
            Carrier::Down => hands.carrier(false),
            Carrier::Flaps { down_s, up_s } => {
                hands.carrier(false)?;
                match Flapper::start(Arc::clone(hands), down_s, up_s) {
                    Ok(flapper) => self.flapper = Some(flapper),
                    Err(error) => {
                        hands.carrier(true)?;
                        let doing = "start the thread that flaps the link".to_owned();
                        return Err(Refusal::System { doing, error: error.to_string() });
                    }
                }
                Ok(())
            }
        }
    }
}

// A link that goes up and down again and again, on a thread of its own.

/// Flaps until it is dropped, and leaves the link as it stands then.
struct Flapper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Flapper {
    /// The link is down already.
    pub fn start(hands: Arc<dyn Hands>, down_s: f64, up_s: f64) -> io::Result<Self> {
        let time = |time_s: f64| Duration::try_from_secs_f64(time_s).unwrap_or_default();
        let (down, up) = (time(down_s), time(up_s));
        let (stop, stopped) = channel();
        let thread =
            std::thread::Builder::new().name("flapper".to_owned()).spawn(move || flap(&*hands, &stopped, down, up))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

fn flap(hands: &dyn Hands, stopped: &Receiver<()>, down: Duration, up: Duration) {
    // What is refused now may not be the next time, and nobody is there to tell.
    let waits = |time| matches!(stopped.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    while waits(down) {
        let _ = hands.carrier(true);
        if !waits(up) {
            return;
        }
        let _ = hands.carrier(false);
    }
}

impl Drop for Flapper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

// What holds on a host under everything imposed on it, and the steps from one such state to
// another. Pure: nothing is performed here.

/// What holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
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
pub(super) struct Cuts {
    /// When they come from there.
    pub from: Peers,
    /// When they go there.
    pub to: Peers,
    /// All of them, for the host stands still.
    pub silent: bool,
}

/// Some hosts of a network, or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Peers {
    These(BTreeSet<Ipv4Addr>),
    Everybody,
}

/// What a link is like.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Links {
    /// Toward everybody who is not in `toward`.
    pub all: Link,
    /// Toward some; whoever is in two of them belongs to the first.
    pub toward: Vec<(BTreeSet<Ipv4Addr>, Link)>,
    /// What TCP ports have of it.
    pub ports: BTreeMap<u16, Link>,
}

/// Whether a link is there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Carrier {
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
pub(super) enum Step {
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
pub(super) fn steps(from: &State, to: &State) -> Vec<Step> {
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
mod tests {
    use super::*;

    /// Writes down what it is told to do, and refuses what contains a word.
    struct Recorder {
        said: Sender<String>,
        refuses: Mutex<Option<&'static str>>,
    }

    impl Recorder {
        fn note(&self, text: String) -> Result<(), Refusal> {
            let refused = self.refuses.lock().unwrap().is_some_and(|word| text.contains(word));
            let _ = self.said.send(if refused { format!("{text}: refused") } else { text.clone() });
            if refused { Err(Refusal::Cannot { reason: text }) } else { Ok(()) }
        }
    }

    impl Hands for Recorder {
        fn freeze(&self, still: bool) -> Result<(), Refusal> {
            self.note(format!("freeze {still}"))
        }
        fn cut(&self, cuts: &Cuts) -> Result<(), Refusal> {
            self.note(match cuts.from {
                _ if cuts.silent => "cut all".to_owned(),
                Peers::Everybody => "cut from all".to_owned(),
                Peers::These(ref some) => format!("cut {}", some.len()),
            })
        }
        fn link(&self, links: &Links) -> Result<(), Refusal> {
            self.note(format!("link {:?}", links.all.rate_bits_per_s))
        }
        fn carrier(&self, up: bool) -> Result<(), Refusal> {
            self.note(format!("carrier {up}"))
        }
        fn cpu(&self, of_profile: f64) -> Result<(), Refusal> {
            self.note(format!("cpu {of_profile}"))
        }
        fn memory(&self, bytes: Option<u64>) -> Result<(), Refusal> {
            self.note(format!("memory {bytes:?}"))
        }
        fn disk(&self, disk: &Disk) -> Result<(), Refusal> {
            self.note(format!("disk {:?}", disk.write_iops))
        }
        fn fill(&self, leave_bytes: Option<u64>) -> Result<(), Refusal> {
            self.note(format!("fill {leave_bytes:?}"))
        }
        fn clock(&self, offset_s: f64) -> Result<(), Refusal> {
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
            let hands: Arc<dyn Hands> = Arc::clone(&recorder) as Arc<dyn Hands>;
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
    fn what_was_before_holds_again() {
        let stage = Stage::new();
        stage.controls.impose("a#1", &Control::Cpu { of_profile: 0.5 }).unwrap();
        stage.controls.impose("b#1", &Control::Cpu { of_profile: 0.1 }).unwrap();
        stage.controls.lift("a#1").unwrap();
        assert_eq!(stage.said(), ["cpu 0.5", "cpu 0.1"], "the later one holds all the time");
        stage.controls.lift("b#1").unwrap();
        stage.controls.lift("b#1").unwrap();
        stage.controls.lift("c#1").unwrap();
        assert_eq!(stage.said(), ["cpu 1"]);
    }

    #[test]
    fn what_is_refused_is_not_imposed() {
        let stage = Stage::new();
        stage
            .controls
            .impose("a#1", &Control::Cut { from: Some(vec![[10, 0, 0, 1].into()]), to: Some(Vec::new()) })
            .unwrap();
        stage.refuse(Some("cut all"));
        let refusal = stage.controls.impose("b#1", &Control::Freeze).unwrap_err();
        assert_eq!(refusal, Refusal::Cannot { reason: "cut all".to_owned() });
        assert_eq!(stage.said(), ["cut 1", "freeze true", "cut all: refused", "freeze false"]);
        stage.refuse(None);
        stage.controls.lift("b#1").unwrap();
        assert_eq!(stage.said(), [] as [&str; 0]);
        stage.controls.lift("a#1").unwrap();
        assert_eq!(stage.said(), ["cut 0"]);
    }

    #[test]
    fn a_lift_that_is_refused_is_tried_again() {
        let stage = Stage::new();
        stage.controls.impose("a#1", &Control::Memory { bytes: 5 }).unwrap();
        stage.refuse(Some("memory None"));
        stage.controls.lift("a#1").unwrap_err();
        stage.refuse(None);
        stage.controls.impose("b#1", &Control::Cpu { of_profile: 0.5 }).unwrap();
        assert_eq!(stage.said(), ["memory Some(5)", "memory None: refused", "cpu 0.5", "memory None"]);
    }

    #[test]
    fn everything_is_lifted_at_the_end() {
        let stage = Stage::new();
        stage.controls.impose("a#1", &Control::FullDisk { leave_bytes: 0 }).unwrap();
        stage.controls.impose("b#1", &Control::Clock { offset_s: 5.0 }).unwrap();
        assert_eq!(stage.said(), ["fill Some(0)", "clock 5"]);
        let Stage { controls, said, .. } = stage;
        drop(controls);
        assert_eq!(said.try_iter().collect::<Vec<_>>(), ["fill None", "clock 0"]);
    }

    #[test]
    fn a_link_flaps_until_it_is_lifted() {
        let stage = Stage::new();
        stage.controls.impose("a#1", &Control::LinkFlap { down_s: 0.001, up_s: 0.001 }).unwrap();
        let seen: Vec<String> = stage.said.iter().take(5).collect();
        assert_eq!(seen, ["carrier false", "carrier true", "carrier false", "carrier true", "carrier false"]);
        stage.controls.lift("a#1").unwrap();
        assert_eq!(stage.said().last().unwrap(), "carrier true");
        // Whoever flapped does so no more.
        stage.controls.impose("b#1", &Control::LinkDown).unwrap();
        assert_eq!(stage.said(), ["carrier false"]);
    }

    #[test]
    fn the_same_key_replaces() {
        let stage = Stage::new();
        stage.controls.impose("a#1", &Control::Cpu { of_profile: 0.5 }).unwrap();
        stage.controls.impose("a#1", &Control::Memory { bytes: 5 }).unwrap();
        stage.controls.lift("a#1").unwrap();
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

    fn everywhere(link: Link) -> Control {
        Control::Link { link, peers: None }
    }

    fn cut(from: &[u8], to: &[u8]) -> Control {
        let some = |lasts: &[u8]| Some(lasts.iter().map(|last| address(*last)).collect());
        Control::Cut { from: some(from), to: some(to) }
    }

    fn these(lasts: &[u8]) -> Peers {
        Peers::These(lasts.iter().map(|last| address(*last)).collect())
    }

    fn envelope() -> Envelope {
        let disk = Disk { size_bytes: Some(1 << 30), write_iops: Some(200.0), ..Disk::default() };
        Envelope { link: rate(1e8), disk, memory_bytes: Some(1 << 30), ..Envelope::default() }
    }

    fn of(controls: &[Control]) -> State {
        let list: Vec<_> =
            controls.iter().enumerate().map(|(n, control)| (format!("k#{n}"), control.clone())).collect();
        State::of(&list, &envelope())
    }

    #[test]
    fn nothing_imposed_is_the_envelope() {
        let state = of(&[]);
        assert_eq!((state.still, state.carrier, state.cpu, state.offset_s), (false, Carrier::Up, 1.0, 0.0));
        assert_eq!((state.links.all, state.links.toward.len()), (rate(1e8), 0));
        assert_eq!((state.memory_bytes, state.leave_bytes, state.disk), (Some(1 << 30), None, envelope().disk));
        assert_eq!(state.cuts, Cuts { from: these(&[]), to: these(&[]), silent: false });
    }

    #[test]
    fn the_later_of_a_kind_holds() {
        type Shown = fn(&State) -> String;
        let table: [(Control, Control, Shown, &str); 6] = [
            (Control::Cpu { of_profile: 0.5 }, Control::Cpu { of_profile: 0.25 }, |s| s.cpu.to_string(), "0.25"),
            (
                Control::Memory { bytes: 5 },
                Control::Memory { bytes: 7 },
                |s| format!("{:?}", s.memory_bytes),
                "Some(7)",
            ),
            (
                Control::FullDisk { leave_bytes: 5 },
                Control::FullDisk { leave_bytes: 0 },
                |s| format!("{:?}", s.leave_bytes),
                "Some(0)",
            ),
            (Control::Clock { offset_s: 5.0 }, Control::Clock { offset_s: -1.0 }, |s| s.offset_s.to_string(), "-1"),
            (Control::LinkFlap { down_s: 1.0, up_s: 2.0 }, Control::LinkDown, |s| format!("{:?}", s.carrier), "Down"),
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
    fn figures_that_a_control_does_not_give_stay() {
        let state = of(&[everywhere(rate(1e6)), everywhere(loss(5.0))]);
        assert_eq!(state.links.all, Link { rate_bits_per_s: Some(1e6), delay_s: None, loss_pct: Some(5.0) });
        let disk = Disk { read_iops: Some(10.0), ..Disk::default() };
        let expected = Disk { read_iops: Some(10.0), ..envelope().disk };
        assert_eq!(of(&[Control::Disk { disk }]).disk, expected);
    }

    #[test]
    fn links_toward_some_lie_over_those_toward_all() {
        let toward = |link, last| Control::Link { link, peers: Some(vec![address(last)]) };
        let state = of(&[toward(loss(1.0), 2), everywhere(rate(1e6)), toward(loss(2.0), 3), toward(rate(5.0), 2)]);
        assert_eq!(state.links.all, rate(1e6));
        let one = |last: u8| BTreeSet::from([address(last)]);
        let over = |rate: f64, loss: f64| Link { rate_bits_per_s: Some(rate), delay_s: None, loss_pct: Some(loss) };
        assert_eq!(state.links.toward, [(one(2), over(5.0, 1.0)), (one(3), over(1e6, 2.0))]);
    }

    #[test]
    fn cuts_add_up() {
        let state = of(&[cut(&[2], &[]), cut(&[2, 3], &[4])]);
        assert_eq!(state.cuts, Cuts { from: these(&[2, 3]), to: these(&[4]), silent: false });
        let state = of(&[cut(&[2], &[]), Control::Cut { from: None, to: Some(Vec::new()) }, cut(&[3], &[])]);
        assert_eq!(state.cuts, Cuts { from: Peers::Everybody, to: these(&[]), silent: false });
        let state = of(&[Control::Freeze, cut(&[2], &[3])]);
        assert_eq!((state.still, state.cuts), (true, Cuts { from: these(&[2]), to: these(&[3]), silent: true }));
    }

    #[test]
    fn only_what_changes_is_a_step() {
        let squeezed = of(&[Control::Cpu { of_profile: 0.5 }]);
        assert_eq!(steps(&of(&[]), &squeezed), [Step::Cpu(0.5)]);
        assert_eq!(steps(&squeezed, &of(&[])), [Step::Cpu(1.0)]);
        assert_eq!(steps(&squeezed, &squeezed), []);
    }

    #[test]
    fn a_freeze_is_left_in_reverse() {
        let (free, frozen) = (of(&[cut(&[2], &[])]), of(&[cut(&[2], &[]), Control::Freeze]));
        let silent = Cuts { silent: true, ..free.cuts.clone() };
        assert_eq!(steps(&free, &frozen), [Step::Still(true), Step::Cut(silent)]);
        assert_eq!(steps(&frozen, &free), [Step::Cut(free.cuts), Step::Still(false)]);
    }

    #[test]
    fn steps_lead_where_they_should() {
        let all = [
            Control::Freeze,
            cut(&[2], &[3]),
            everywhere(rate(1e6)),
            Control::LinkDown,
            Control::LinkFlap { down_s: 1.0, up_s: 1.0 },
            Control::Cpu { of_profile: 0.5 },
            Control::Memory { bytes: 5 },
            Control::Disk { disk: Disk { write_iops: Some(5.0), ..Disk::default() } },
            Control::FullDisk { leave_bytes: 0 },
            Control::Clock { offset_s: 5.0 },
        ];
        let states: Vec<State> =
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
    fn of_two_that_slow_a_port_the_later_holds_figure_by_figure() {
        let slow = |ports: &[u16], link: Link| Control::Port { ports: ports.to_vec(), link };
        let late = Link { delay_s: Some(0.1), ..Link::default() };
        let state = of(&[slow(&[7000, 7001], rate(5e6)), slow(&[7000], late.clone()), slow(&[7000], rate(1e6))]);
        assert_eq!(state.links.ports[&7000], Link { rate_bits_per_s: Some(1e6), ..late });
        assert_eq!((&state.links.ports[&7001], &state.links.all), (&rate(5e6), &rate(1e8)));
        assert_eq!(steps(&state, &of(&[])), [Step::Link(of(&[]).links)]);
    }
}
