//! The states that faults put a host into: kept by key, worked out into what holds now, and performed. What cannot be
//! performed is not imposed. It must not decide how a state is made: that is what the hands are for.

mod flapper;
mod hands;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::groups::Groups;
use super::{Control, Envelope, Refusal, Setup};
use experiment::profile::Disk;
use flapper::Flapper;
use hands::HostHands;
use state::{Carrier, Cuts, Links, State, Step};

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
        for step in state::steps(&self.now, wanted) {
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

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
                state::Peers::Everybody => "cut from all".to_owned(),
                state::Peers::These(ref some) => format!("cut {}", some.len()),
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
        said: std::sync::mpsc::Receiver<String>,
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
}
