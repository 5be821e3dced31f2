//! The conductor at every moment: a model of the shell answers its effects, and an interruption is tried at each step.
//! Not here: real targets (the end-to-end tests have them).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;

use experiment::catalog::Heals;
use experiment::plan;
use record::events::{Ending, Phase, What};

use super::{Action, Conductor, Input};

fn trial() -> plan::Trial {
    let step = plan::Step { call: "save".to_owned(), name: "save".to_owned(), audit: true, ..Default::default() };
    let fault = |name: &str, at_s, for_s| plan::Fault {
        name: name.to_owned(),
        kind: "kill".to_owned(),
        when: plan::When::At(at_s),
        for_s,
        seed: 1,
        ..plan::Fault::default()
    };
    plan::Trial {
        id: "001".to_owned(),
        repeat: 1,
        seed: 1,
        target: plan::Target {
            kind: plan::TargetKind::Running { url: "vsns://127.0.0.1:1".to_owned() },
            protocol: "vsns".to_owned(),
            tls: Default::default(),
        },
        lab: plan::Lab::default(),
        prepare: vec![plan::Prepare { step: step.clone(), count: 10 }],
        load: Some(plan::Load {
            agents: 1,
            from: Vec::new(),
            ramp_s: 0.0,
            count: None,
            time_s: 10.0,
            timeout_s: 1.0,
            drain_s: 1.0,
            think_s: 0.0,
            think_spread_pct: 0.0,
            warmup: plan::Warmup::Auto,
            retry: plan::Retry::FailFast,
            reconnect_s: 0.1,
            reconnects: Default::default(),
            connections: Default::default(),
            rate: None,
            backlog: None,
            threads: None,
            order: plan::StepOrder::Cycle,
            when_failed: plan::WhenFailed::GoOn,
            steps: vec![step],
            feeds: Vec::new(),
            script: None,
        }),
        faults: vec![fault("brief", 2.0, Some(3.0)), fault("lasting", 4.0, None)],
        ..plan::Trial::default()
    }
}

/// With a member that is down all the time, and another fault in the load.
fn lopsided() -> plan::Trial {
    let mut trial = trial();
    trial.faults[0].standing = true;
    trial.faults[0].for_s = None;
    trial
}

/// A shell in which everything works: it answers each effect, keeps the time, and writes down what it did.
struct Model {
    conductor: Conductor,
    now_s: f64,
    up: bool,
    loading: bool,
    broken: Vec<String>,
    log: Vec<String>,
    finished: Option<Ending>,
}

impl Model {
    fn new() -> Self {
        Self::of(&trial())
    }

    fn of(trial: &plan::Trial) -> Self {
        Self {
            conductor: Conductor::new(trial, |_| Heals::AfterFor, false),
            now_s: -1.0,
            up: false,
            loading: false,
            broken: Vec::new(),
            log: Vec::new(),
            finished: None,
        }
    }

    fn perform(&mut self, effect: Action) -> Option<Input> {
        match effect {
            Action::Note(What::Ended { .. }) => self.log.push("ended".to_owned()),
            Action::Note(What::Phase { phase }) => self.log.push(format!("{phase:?}")),
            Action::Note(_) => {}
            Action::StartTarget => {
                self.up = true;
                return Some(Input::TargetUp);
            }
            Action::Prepare => return Some(Input::Prepared),
            Action::BeginLoad => {
                self.now_s = 0.0;
                self.loading = true;
            }
            Action::BeginFault(occurrence) => {
                let name = self.conductor.fault(occurrence).name.clone();
                self.log.push(format!("break {name}"));
                self.broken.push(name);
                return Some(Input::FaultBegun(occurrence, "server".to_owned()));
            }
            Action::HealFault(occurrence) => {
                let name = self.conductor.fault(occurrence).name.clone();
                self.log.push(format!("heal {name}"));
                self.broken.retain(|broken| *broken != name);
                return Some(Input::FaultHealed(occurrence));
            }
            Action::EndLoad | Action::DropLoad => {
                if std::mem::take(&mut self.loading) && effect == Action::EndLoad {
                    return Some(Input::LoadEnded);
                }
            }
            Action::ReadBack => return Some(Input::ReadBack(10, 0)),
            Action::StopTarget(_) => {
                self.up = false;
                self.loading = false;
                return Some(Input::TargetStopped);
            }
            Action::Finish(ending, _) => self.finished = Some(ending),
        }
        None
    }

    /// Plays to the end; `intrude` comes after so many effects.
    fn play(&mut self, intrude: Option<(usize, Input)>) -> usize {
        let mut effects: VecDeque<Action> = self.conductor.begin().into();
        let mut inputs: VecDeque<Input> = VecDeque::new();
        let mut intrude = intrude;
        let mut done = 0;
        while self.finished.is_none() && done < 1000 {
            if let Some((after, input)) = intrude.take() {
                if done == after {
                    effects.extend(self.conductor.step(self.now_s, input));
                } else {
                    intrude = Some((after, input));
                }
            }
            if let Some(effect) = effects.pop_front() {
                inputs.extend(self.perform(effect));
                done += 1;
            } else if let Some(input) = inputs.pop_front() {
                effects.extend(self.conductor.step(self.now_s, input));
            } else {
                self.now_s = self.conductor.next_s().expect("the conductor waits for nothing").max(self.now_s);
                effects.extend(self.conductor.step(self.now_s, Input::Tick));
            }
        }
        done
    }
}

#[test]
fn a_whole_trial_in_order() {
    let mut model = Model::new();
    model.play(None);
    assert_eq!(model.finished, Some(Ending::Done));
    let expected = [
        "Starting",
        "Preparing",
        "Load",
        "break brief",
        "break lasting",
        "heal brief",
        "heal lasting",
        "Draining",
        "Auditing",
        "Stopping",
        "ended",
    ];
    assert_eq!(model.log, expected);
    assert!(!model.up && model.broken.is_empty());
}

#[test]
fn an_intrusion_at_every_moment_ends_with_nothing_running_and_nothing_broken() {
    for trial in [trial(), lopsided()] {
        intruded(&trial);
    }
}

fn intruded(trial: &plan::Trial) {
    let whole = Model::of(trial).play(None);
    for after in 0..whole {
        for (input, ending) in [
            (Input::Interrupted, Ending::Interrupted),
            (Input::Ending("the disk is nearly full".to_owned()), Ending::Interrupted),
            (Input::Aborted, Ending::Interrupted),
            (Input::Broke("the disk is full".to_owned()), Ending::Failed),
        ] {
            let mut model = Model::of(trial);
            model.play(Some((after, input.clone())));
            let moment = format!("{input:?} after {after} effects: {:?}", model.log);
            let is = model.finished.unwrap_or_else(|| panic!("never finished: {moment}"));
            assert!(is == ending || model.log.last().is_some_and(|last| last == "ended"), "{moment}");
            assert!(!model.up && !model.loading && model.broken.is_empty(), "{moment}");
        }
    }
}

#[test]
fn an_interrupted_trial_is_not_read_back() {
    let mut model = Model::new();
    model.play(Some((8, Input::Interrupted)));
    assert_eq!(model.finished, Some(Ending::Interrupted));
    assert!(!model.log.contains(&format!("{:?}", Phase::Auditing)), "{:?}", model.log);
}

#[test]
fn members_are_asked_where_they_can_be_though_no_key_is_audited() {
    let mut plain = trial();
    plain.prepare.clear();
    plain.load.as_mut().unwrap().steps[0].audit = false;
    let after_load = |has_replicas| {
        let mut conductor = Conductor::new(&plain, |_| Heals::AfterFor, has_replicas);
        let _ = conductor.step(0.0, Input::TargetUp);
        let _ = conductor.step(11.0, Input::Tick);
        conductor.step(11.0, Input::LoadEnded).pop().unwrap()
    };
    assert_eq!(after_load(true), Action::ReadBack);
    assert_eq!(after_load(false), Action::StopTarget(false));
}

#[test]
fn a_fault_that_cannot_be_injected_is_written_down_and_the_trial_goes_on() {
    let mut conductor = Conductor::new(&trial(), |_| Heals::AfterFor, false);
    let _ = conductor.step(0.0, Input::TargetUp);
    let _ = conductor.step(0.0, Input::Prepared);
    let effects = conductor.step(2.0, Input::Tick);
    let Action::BeginFault(occurrence) = effects[0] else { panic!("{effects:?}") };
    let effects = conductor.step(2.0, Input::FaultRefused(occurrence, "no such member".to_owned()));
    assert!(matches!(&effects[..], [Action::Note(What::FaultFailed { reason, .. })] if reason == "no such member"));
    assert_eq!(conductor.next_s(), Some(4.0));
}

#[test]
fn a_condition_stands_from_before_the_load_to_its_end() {
    let mut model = Model::of(&lopsided());
    model.play(None);
    let begin = ["Starting", "Preparing", "break brief", "Load", "break lasting"];
    assert_eq!(model.log[..5], begin);
    assert_eq!(model.log.iter().filter(|line| *line == "break brief").count(), 1);
    assert!(!model.up && model.broken.is_empty() && model.finished == Some(Ending::Done));
}

#[test]
fn without_its_condition_a_trial_fails() {
    let mut conductor = Conductor::new(&lopsided(), |_| Heals::AfterFor, false);
    let _ = conductor.step(0.0, Input::TargetUp);
    let effects = conductor.step(0.0, Input::Prepared);
    let [Action::BeginFault(occurrence)] = effects[..] else { panic!("{effects:?}") };
    let effects = conductor.step(0.0, Input::FaultRefused(occurrence, "no such host".to_owned()));
    assert!(effects.contains(&Action::StopTarget(true)), "{effects:?}");
    let effects = conductor.step(0.0, Input::TargetStopped);
    let failed = |effect: &Action| matches!(effect, Action::Finish(Ending::Failed, Some(reason)) if reason.contains("no such host"));
    assert!(effects.iter().any(failed), "{effects:?}");
}
