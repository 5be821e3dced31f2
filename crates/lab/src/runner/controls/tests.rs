//! Tests of what is performed and what is undone, on hands that only write down.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
