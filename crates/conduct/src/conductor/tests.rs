//! Tests of the conductor: a model of the shell answers its actions, and an interruption is tried
//! at each step. Real targets are left to the end-to-end tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;

use analysis::LiveViolation;
use experiment::catalog::Heals;
use experiment::plan;
use record::events::{Ending, Phase, What};

use super::{Action, Conductor, Input};
use crate::read_back::ReadBack;
use crate::schedule::Occurrence;
use crate::step_sequence::{AuditAnswer, ConditionAnswer, PlannedStep, StepSequence};

fn fault(name: &str, for_s: Option<f64>) -> plan::Fault {
    plan::Fault { name: name.to_owned(), kind: "kill".to_owned(), for_s, seed: 1, ..plan::Fault::default() }
}

fn write(name: &str) -> plan::Fault {
    plan::Fault { action: Some("write".to_owned()), ..fault(name, None) }
}

fn trial() -> plan::Trial {
    let step = plan::Step { call: "save".to_owned(), name: "save".to_owned(), audit: true, ..Default::default() };
    plan::Trial {
        id: "001".to_owned(),
        repeat: 1,
        seed: 1,
        target: plan::Target {
            kind: plan::TargetKind::Running { url: "vsns://127.0.0.1:1".to_owned() },
            protocol: "vsns".to_owned(),
            ..Default::default()
        },
        lab: plan::Lab::default(),
        prepare: vec![plan::Prepare { step: step.clone(), count: 10 }],
        load: Some(plan::Load {
            agents: 1,
            time_s: 10.0,
            timeout_s: 1.0,
            drain_s: 1.0,
            steps: vec![step],
            ..plan::Load::default()
        }),
        faults: vec![
            plan::Fault { when: plan::When::At(2.0), ..fault("brief", Some(3.0)) },
            plan::Fault { when: plan::When::At(4.0), ..fault("lasting", None) },
        ],
        ..plan::Trial::default()
    }
}

/// Returns a trial with a member that is down all the time, and another fault during the load.
fn lopsided() -> plan::Trial {
    let mut trial = trial();
    trial.faults[0].standing = true;
    trial.faults[0].for_s = None;
    trial
}

/// Returns steps that inject a fault with a time and run a program. Their condition holds at the
/// second check or never, and audits follow.
fn exercise(trial: &mut plan::Trial) -> Vec<PlannedStep> {
    trial.steps = [
        ("both", vec![fault("both-1", Some(2.0)), write("both-2")], Some("good"), 60.0),
        ("never", vec![fault("never", None)], Some("never"), 5.0),
        ("stain", Vec::new(), Some("good"), 60.0),
        ("last", vec![write("last")], None, 60.0),
    ]
    .map(|(name, does, until, within_s)| plan::Exercise {
        name: name.to_owned(),
        does,
        until: until.map(str::to_owned),
        within_s,
        ..plan::Exercise::default()
    })
    .to_vec();
    let planned = trial.steps.iter().map(|step| PlannedStep {
        plan: step.clone(),
        heals: step.does.iter().map(heals).collect(),
        every_s: 0.5,
        audits: vec!["clean".to_owned()],
    });
    planned.collect()
}

fn heals(fault: &plan::Fault) -> Heals {
    if fault.action.is_some() { Heals::ByItself } else { Heals::AfterFor }
}

/// A shell in which everything works: it answers each action, keeps the time, and logs the actions.
struct Model {
    conductor: Conductor,
    now_s: f64,
    up: bool,
    loading: bool,
    broken: Vec<String>,
    begun_s: Vec<f64>,
    refused: Vec<String>,
    log: Vec<String>,
    finished: Option<Ending>,
    /// Number of times that a condition was checked.
    asked: u32,
    /// Input that a running program will report.
    running: Option<Input>,
    /// Duration of the hook `leader`, seconds.
    hook_s: f64,
    /// Pending answers of the hook: the time and the fault.
    questions: VecDeque<(f64, Occurrence)>,
}

impl Model {
    fn new() -> Self {
        Self::of(&trial())
    }

    fn of(trial: &plan::Trial) -> Self {
        Self::with_steps(trial, Vec::new())
    }

    fn with_steps(trial: &plan::Trial, steps: Vec<PlannedStep>) -> Self {
        Self {
            asked: 0,
            running: None,
            hook_s: 0.5,
            questions: VecDeque::new(),
            conductor: Conductor::new(trial, steps, |_| Heals::AfterFor, false),
            now_s: -1.0,
            up: false,
            loading: false,
            broken: Vec::new(),
            begun_s: Vec::new(),
            refused: Vec::new(),
            log: Vec::new(),
            finished: None,
        }
    }

    fn perform(&mut self, effect: Action) -> Option<Input> {
        match effect {
            Action::Note(What::Ended { .. }) => self.log.push("ended".to_owned()),
            Action::Note(What::Phase { phase }) => self.log.push(format!("{phase:?}")),
            Action::Note(What::StepEnded { step, result, .. }) => self.log.push(format!("{step} {}", result.words())),
            Action::Note(What::FaultFailed { fault, .. }) => self.refused.push(fault),
            Action::Note(What::LoadStopped { key, after_fault, .. }) => {
                self.log.push(format!("stop at {key} after {after_fault:?}"));
            }
            Action::Note(_) => {}
            Action::HealStep => panic!("the conductor heals one by one"),
            Action::AskCondition => {
                self.asked += 1;
                let never = self.conductor.steps().step().is_some_and(|step| step.plan.name == "never");
                if !never && self.asked.is_multiple_of(2) {
                    return Some(Input::ConditionAsked(ConditionAnswer::Holds));
                }
                return Some(Input::ConditionAsked(ConditionAnswer::NotYet("n2: 1 of 3".to_owned())));
            }
            Action::CancelPrograms => self.running = None,
            Action::AuditStep => {
                let stained = self.conductor.steps().step().is_some_and(|step| step.plan.name == "stain");
                let failed = stained.then(|| "a stain".to_owned());
                let answer = AuditAnswer { audit: "clean".to_owned(), host: "n1".to_owned(), failed };
                return Some(Input::StepAudited(vec![answer]));
            }
            Action::Rebuild => {
                self.log.push("rebuild".to_owned());
                return Some(Input::Rebuilt);
            }
            Action::AskLeader(occurrence) => {
                self.log.push(format!("ask for {}", self.conductor.fault(occurrence).name));
                self.questions.push_back((self.now_s + self.hook_s, occurrence));
            }
            Action::StartTarget => {
                self.up = true;
                return Some(Input::TargetUp);
            }
            Action::Prepare => return Some(Input::Prepared),
            Action::BeginLoad => (self.now_s, self.loading) = (0.0, true),
            Action::BeginFault(occurrence) => {
                let fault = self.conductor.fault(occurrence);
                let name = fault.name.clone();
                self.log.push(format!("break {name}"));
                self.begun_s.push(self.now_s);
                if fault.action.is_some() {
                    self.running = Some(Input::StepRan(occurrence, None));
                } else {
                    self.broken.push(name);
                }
                return Some(Input::FaultBegun { occurrence, on: "server".to_owned(), done_s: self.now_s });
            }
            Action::HealFault(occurrence) => {
                let name = &self.conductor.fault(occurrence).name;
                self.log.push(format!("heal {name}"));
                self.broken.retain(|broken| broken != name);
                return Some(Input::FaultHealed(occurrence, true));
            }
            Action::EndLoad | Action::DropLoad => {
                if std::mem::take(&mut self.loading) && effect == Action::EndLoad {
                    return Some(Input::LoadEnded);
                }
            }
            Action::ReadBack => return Some(Input::ReadBack(ReadBack { keys: 10, ..ReadBack::default() })),
            Action::StopTarget(_) => {
                (self.up, self.loading) = (false, false);
                return Some(Input::TargetStopped);
            }
            Action::Finish(ending, _) => self.finished = Some(ending),
        }
        None
    }

    /// Plays to the end. `intrude` is an input that arrives after this number of actions.
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
            } else if let Some(input) = self.running.take() {
                self.now_s += 0.1;
                effects.extend(self.conductor.step(self.now_s, input));
            } else if let Some(&(answered_s, occurrence)) = self.questions.front()
                && self.conductor.next_s().is_none_or(|next_s| answered_s <= next_s)
            {
                self.questions.pop_front();
                self.now_s = answered_s.max(self.now_s);
                effects.extend(self.conductor.step(self.now_s, Input::LeaderNamed(occurrence, Ok("n1".to_owned()))));
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
fn an_interruption_at_any_moment_leaves_nothing_behind() {
    for trial in [trial(), lopsided()] {
        check_interruptions(&trial, &[]);
    }
    for loads in [false, true] {
        let mut trial = trial();
        trial.load = trial.load.filter(|_| loads);
        let steps = exercise(&mut trial);
        check_interruptions(&trial, &steps);
    }
}

fn check_interruptions(trial: &plan::Trial, steps: &[PlannedStep]) {
    let whole = Model::with_steps(trial, steps.to_vec()).play(None);
    for after in 0..whole {
        for (input, ending) in [
            (Input::Interrupted, Ending::Interrupted),
            (Input::Ending("the disk is nearly full".to_owned()), Ending::Interrupted),
            (Input::Aborted, Ending::Interrupted),
            (Input::Broke("the disk is full".to_owned()), Ending::Failed),
        ] {
            let mut model = Model::with_steps(trial, steps.to_vec());
            model.play(Some((after, input.clone())));
            let moment = format!("{input:?} after {after} effects: {:?}", model.log);
            let is = model.finished.unwrap_or_else(|| panic!("never finished: {moment}"));
            assert!(is == ending || model.log.last().is_some_and(|last| last == "ended"), "{moment}");
            assert!(!model.up && !model.loading && model.broken.is_empty(), "{moment}");
        }
    }
}

#[test]
fn a_violation_ends_the_load_and_the_data_is_read_back() {
    let whole = Model::new().play(None);
    let mut stopped = 0;
    for after in 0..whole {
        let mut model = Model::new();
        let violation = LiveViolation { key: "s/k".to_owned(), explanation: String::new() };
        model.play(Some((after, Input::Violated(violation))));
        assert_eq!(model.finished, Some(Ending::Done), "{:?}", model.log);
        let phases = ["Starting", "Preparing", "Load", "Draining", "Auditing", "Stopping", "ended"];
        assert!(model.log.iter().filter(|line| phases.contains(&&***line)).eq(&phases), "{:?}", model.log);
        assert!(!model.up && !model.loading && model.broken.is_empty(), "{:?}", model.log);
        let stops: Vec<&String> = model.log.iter().filter(|line| line.starts_with("stop")).collect();
        match stops.as_slice() {
            [] => assert!(model.log.contains(&"heal lasting".to_owned()), "{:?}", model.log),
            [stop] => {
                stopped += 1;
                // A fault counts once the shell has told that it began.
                let begun = model.log.iter().filter_map(|line| line.strip_prefix("break ")).map(Some);
                let told = [None].into_iter().chain(begun).map(|fault| format!("stop at s/k after {fault:?}"));
                assert!(told.rev().take(2).any(|told| told == **stop), "{:?}", model.log);
            }
            more => panic!("{more:?}"),
        }
    }
    assert!(stopped > 5, "{stopped} of {whole}");
}

const PLAYED: [&str; 16] = [
    "break both-1",
    "heal both-1",
    "break both-2",
    "both ok",
    "break never",
    "never timed out",
    "heal never",
    "rebuild",
    "stain ok",
    "rebuild",
    "break last",
    "last ok",
    "Draining",
    "Auditing",
    "Stopping",
    "ended",
];

#[test]
fn steps_run_in_order_and_bad_steps_rebuild_the_target() {
    let mut trial = plan::Trial { load: None, faults: Vec::new(), ..trial() };
    let steps = exercise(&mut trial);
    let mut model = Model::with_steps(&trial, steps);
    model.play(None);
    assert_eq!(model.finished, Some(Ending::Done));
    assert_eq!(model.log[3..], PLAYED);
}

#[test]
fn a_trial_lasts_until_load_and_steps_end() {
    let mut trial = plan::Trial { faults: Vec::new(), ..trial() };
    let mut steps = exercise(&mut trial);
    let mut model = Model::with_steps(&trial, steps.clone());
    model.play(None);
    // The load takes 10 s. The steps with a fault and with a condition that never holds take 7 s of
    // them.
    assert_eq!(model.log[3..], PLAYED);
    steps[3].plan.at_s = Some(12.0);
    let mut model = Model::with_steps(&trial, steps);
    model.play(None);
    assert_eq!(model.log[12..16], ["rebuild", "Draining", "break last", "last ok"]);
    assert!(model.finished == Some(Ending::Done) && model.broken.is_empty() && !model.up);
}

#[test]
fn a_step_is_repeated_with_pauses() {
    let mut trial = plan::Trial { faults: Vec::new(), ..trial() };
    let mut steps = exercise(&mut trial);
    let first = &mut steps[0].plan;
    (first.times, first.pause_s) = (3, Some(5.0));
    steps.truncate(1);
    check_interruptions(&trial, &steps);
    let mut sequence = StepSequence::new(steps.clone(), 0);
    let mut begun = Vec::new();
    while let Some(now_s) = sequence.next_s() {
        let Some(&Action::BeginFault(held)) = sequence.tick(now_s).last() else { panic!("at {now_s} s") };
        begun.push((now_s, held.number));
        let _ = sequence.begun(held, now_s);
        let [Action::BeginFault(write)] = sequence.healed(held, now_s + 2.0)[..] else { panic!("at {now_s} s") };
        assert_eq!((write.fault, write.number), (1, held.number));
        let _ = sequence.begun(write, now_s + 2.0);
        let _ = sequence.ran(write, None, now_s + 3.0);
        let _ = sequence.asked(ConditionAnswer::Holds, now_s + 4.0);
        let _ = sequence.audited(&[], now_s + 4.5);
    }
    assert_eq!(begun, [(5.0, 1), (14.5, 2), (24.0, 3)]);
    assert!(sequence.is_over());
    let mut model = Model::with_steps(&trial, steps);
    model.play(None);
    assert_eq!(model.log.iter().filter(|line| *line == "heal both-1").count(), 3, "{:?}", model.log);
}

#[test]
fn a_bad_step_rebuilds_the_target_before_repeating() {
    let mut trial = plan::Trial { load: None, faults: Vec::new(), ..trial() };
    let mut steps = exercise(&mut trial);
    steps.drain(..2);
    steps.truncate(1);
    steps[0].plan.times = 2;
    let mut model = Model::with_steps(&trial, steps);
    model.play(None);
    assert_eq!(model.log[3..6], ["stain ok", "rebuild", "stain ok"], "{:?}", model.log);
    assert_eq!(model.log.iter().filter(|line| *line == "rebuild").count(), 1, "none after the last");
}

#[test]
fn an_interrupted_trial_is_not_read_back() {
    let mut model = Model::new();
    model.play(Some((8, Input::Interrupted)));
    assert_eq!(model.finished, Some(Ending::Interrupted));
    assert!(!model.log.contains(&format!("{:?}", Phase::Auditing)), "{:?}", model.log);
}

#[test]
fn replicas_are_read_back_without_audited_keys() {
    let mut plain = trial();
    plain.prepare.clear();
    plain.load.as_mut().unwrap().steps[0].audit = false;
    for (has_replicas, after_load) in [(true, Action::ReadBack), (false, Action::StopTarget(false))] {
        let mut conductor = Conductor::new(&plain, Vec::new(), |_| Heals::AfterFor, has_replicas);
        let _ = conductor.step(0.0, Input::TargetUp);
        let _ = conductor.step(11.0, Input::Tick);
        assert_eq!(conductor.step(11.0, Input::LoadEnded).last(), Some(&after_load));
    }
}

#[test]
fn a_refused_fault_is_recorded_and_the_trial_continues() {
    let mut conductor = Conductor::new(&trial(), Vec::new(), |_| Heals::AfterFor, false);
    let _ = conductor.step(0.0, Input::TargetUp);
    let _ = conductor.step(0.0, Input::Prepared);
    let effects = conductor.step(2.0, Input::Tick);
    let Action::BeginFault(occurrence) = effects[0] else { panic!("{effects:?}") };
    let effects = conductor.step(2.0, Input::FaultRefused(occurrence, "no such member".to_owned()));
    assert!(matches!(&effects[..], [Action::Note(What::FaultFailed { reason, .. })] if reason == "no such member"));
    assert_eq!(conductor.next_s(), Some(4.0));
}

#[test]
fn a_condition_holds_from_before_the_load_to_its_end() {
    let mut model = Model::of(&lopsided());
    model.play(None);
    let begin = ["Starting", "Preparing", "break brief", "Load", "break lasting"];
    assert_eq!(model.log[..5], begin);
    assert_eq!(model.log.iter().filter(|line| *line == "break brief").count(), 1);
    assert!(!model.up && model.broken.is_empty() && model.finished == Some(Ending::Done));
}

#[test]
fn a_trial_fails_if_its_condition_is_refused() {
    let mut conductor = Conductor::new(&lopsided(), Vec::new(), |_| Heals::AfterFor, false);
    let _ = conductor.step(0.0, Input::TargetUp);
    let effects = conductor.step(0.0, Input::Prepared);
    let [Action::BeginFault(occurrence)] = effects[..] else { panic!("{effects:?}") };
    let effects = conductor.step(0.0, Input::FaultRefused(occurrence, "no such host".to_owned()));
    assert!(effects.contains(&Action::StopTarget(true)), "{effects:?}");
    let effects = conductor.step(0.0, Input::TargetStopped);
    let [.., Action::Finish(Ending::Failed, Some(reason))] = &effects[..] else { panic!("{effects:?}") };
    assert!(reason.contains("no such host"));
}

/// Returns a trial whose faults all hit the leader.
fn headless() -> plan::Trial {
    let mut trial = trial();
    for fault in &mut trial.faults {
        fault.on = plan::Victim::Leader;
    }
    trial
}

#[test]
fn asking_ahead_hides_a_slow_leader_hook() {
    let mut model = Model::of(&headless());
    model.play(None);
    assert_eq!(model.begun_s, [2.0, 4.0]);
    assert_eq!(
        model.log.iter().filter(|line| line.starts_with("ask for")).count(),
        4,
        "each early, and again: {:?}",
        model.log
    );
    assert!(model.finished == Some(Ending::Done) && model.broken.is_empty());
}

#[test]
fn a_late_leader_answer_delays_a_fault() {
    let mut model = Model::of(&headless());
    model.hook_s = 2.5;
    model.play(None);
    assert_eq!(model.begun_s[0], 2.5, "asked at load start for 2 s");
    let broken = model.log.iter().position(|line| line == "break brief").unwrap();
    assert!(model.log[..broken].iter().all(|line| !line.starts_with("heal")), "{:?}", model.log);
    let mut conductor = Conductor::new(&headless(), Vec::new(), |_| Heals::AfterFor, false);
    let _ = conductor.step(0.0, Input::TargetUp);
    let _ = conductor.step(0.0, Input::Prepared);
    let occurrence = Occurrence { fault: 0, number: 1 };
    assert!(conductor.step(0.0, Input::Tick).contains(&Action::AskLeader(occurrence)));
    assert_eq!(conductor.step(2.0, Input::Tick), [], "it waits");
    let begun = conductor.step(2.5, Input::LeaderNamed(occurrence, Ok("n1".to_owned())));
    assert_eq!(begun, [Action::BeginFault(occurrence)]);
    let _ = conductor.step(2.5, Input::FaultBegun { occurrence, on: "n1".to_owned(), done_s: 2.6 });
    assert!(conductor.step(5.4, Input::Tick).iter().all(|effect| *effect != Action::HealFault(occurrence)));
    assert!(conductor.step(5.5, Input::Tick).contains(&Action::HealFault(occurrence)), "3 s after it began");
}

#[test]
fn a_fault_without_a_leader_at_the_end_is_refused() {
    let mut model = Model::of(&headless());
    model.hook_s = 100.0;
    model.play(None);
    assert_eq!((model.finished, model.begun_s.as_slice()), (Some(Ending::Done), [].as_slice()));
    assert_eq!(model.refused, ["brief", "lasting"]);
    check_interruptions(&headless(), &[]);
}

#[test]
fn an_action_follows_its_fault_and_is_not_healed() {
    let mut plan = trial();
    let after = plan::When::After { fault: "lasting".to_owned(), healed: false, plus_s: 2.0 };
    plan.faults[1].for_s = None;
    plan.faults[0] = plan::Fault { name: "promote".to_owned(), repairs: true, when: after, ..plan.faults[0].clone() };
    let mut conductor = Conductor::new(&plan, Vec::new(), |_| Heals::AfterFor, false);
    let _ = conductor.step(0.0, Input::TargetUp);
    let _ = conductor.step(0.0, Input::Prepared);
    let (promote, lasting) = (Occurrence { fault: 0, number: 1 }, Occurrence { fault: 1, number: 1 });
    let begun = |occurrence, done_s| Input::FaultBegun { occurrence, on: "n2".to_owned(), done_s };
    assert_eq!(conductor.step(4.0, Input::Tick), [Action::BeginFault(lasting)]);
    let _ = conductor.step(4.0, begun(lasting, 4.1));
    assert_eq!(conductor.step(6.0, Input::Tick), [Action::BeginFault(promote)]);
    let taken = conductor.step(6.0, begun(promote, 6.5));
    assert!(matches!(&taken[..], [Action::Note(What::ActionTaken { action, .. })] if action == "promote"), "{taken:?}");
    let ended = conductor.step(10.0, Input::Tick);
    assert!(ended.contains(&Action::HealFault(lasting)) && !ended.contains(&Action::HealFault(promote)), "{ended:?}");
    let failed = conductor.step(6.0, Input::FaultRefused(promote, "exit 1".to_owned()));
    assert!(matches!(&failed[..], [Action::Note(What::ActionFailed { .. })]), "{failed:?}");
}

#[test]
fn a_running_target_is_not_prepared_again() {
    for (input, phase) in [(Input::TargetUp, Phase::Preparing), (Input::TargetStands, Phase::Load)] {
        let mut conductor = Conductor::new(&trial(), Vec::new(), |_| Heals::AfterFor, false);
        let effects = conductor.step(-1.0, input);
        assert_eq!(effects.first(), Some(&Action::Note(What::Phase { phase })));
    }
}
