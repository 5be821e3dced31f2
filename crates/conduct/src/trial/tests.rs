//! Tests of what a trial decides from the plan alone; what it does is tested with the binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use experiment::plan::{FORMAT, Host, Lab, Plan, Target, TargetKind, Trial};

use record::events::Phase;

use super::*;

fn trial(id: &str, hosts: &[&str], measure_storage: bool) -> Trial {
    let host = |name: &&str| Host { name: (*name).to_owned(), ..Host::default() };
    Trial {
        id: id.to_owned(),
        variant: None,
        point: BTreeMap::new(),
        repeat: 1,
        seed: 1,
        target: Target {
            kind: TargetKind::Running { url: "http://127.0.0.1:1/".to_owned() },
            protocol: "http".to_owned(),
            tls: Default::default(),
        },
        lab: Lab { hosts: hosts.iter().map(host).collect(), measure_storage, speed: 1.0, ..Lab::default() },
        prepare: Vec::new(),
        load: None,
        faults: Vec::new(),
        surviving: None,
        steps: Vec::new(),
    }
}

fn plan(trials: Vec<Trial>) -> Plan {
    Plan {
        format: FORMAT,
        title: "A plan".to_owned(),
        asks: "?".to_owned(),
        variants: Vec::new(),
        swept: Vec::new(),
        trials,
        requirements: Vec::new(),
        claims: Vec::new(),
        find: None,
    }
}

#[test]
fn storage_is_measured_at_the_first_trial_of_each_lab() {
    let plan = plan(vec![
        trial("001", &["n1"], true),
        trial("002", &["n1", "n2"], true),
        trial("003", &["n1"], true),
        trial("004", &["n1", "n2", "n3"], false),
    ]);
    let measures: Vec<bool> = plan.trials.iter().map(|trial| measures_storage(&plan, trial)).collect();
    assert_eq!(measures, [true, true, false, false]);
}

#[test]
fn a_plan_with_hosts_can_be_played() {
    assert!(crate::can_play(&plan(vec![trial("001", &["n1", "n2"], false)])).is_ok());
}

#[test]
fn an_engines_own_error_outranks_that_the_recording_ended() {
    let script = || load::Error::Script { script: "s.lua".to_owned(), reason: "s.lua:1: boom".to_owned() };
    let full = || Error::Record(std::io::Error::from(std::io::ErrorKind::StorageFull));
    let cause = |engine, recording| loading::cause(engine, recording).to_string();
    // The order in which the two were seen to end changes nothing: both are known by then.
    assert_eq!(cause(Some(script()), None), "script `s.lua`: s.lua:1: boom");
    assert_eq!(cause(Some(script()), Some(full())), "script `s.lua`: s.lua:1: boom");
    assert_eq!(cause(Some(load::Error::RecorderGone), Some(full())), full().to_string());
    assert_eq!(cause(Some(load::Error::RecorderGone), None), load::Error::RecorderGone.to_string());
    assert_eq!(cause(None, Some(full())), full().to_string());
    assert!(cause(None, None).contains("ended before the trial"));
}

/// Somebody who watches and panics.
struct Clumsy;

impl Audience for Clumsy {
    fn tell(&mut self, news: &News<'_>) {
        if matches!(news, News::Happened { what: What::Phase { phase: Phase::Load }, .. }) {
            panic!("dropped the pencil");
        }
    }
}

#[test]
fn a_panic_ends_a_run_in_order_and_with_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut trial = trial("001", &[], false);
    trial.target.kind = TargetKind::Running { url: format!("http://{}/", listener.local_addr().unwrap()) };
    let plan = plan(vec![trial]);
    let runs = std::env::temp_dir().join(format!("plimsoll-conduct-panic-{}", std::process::id()));
    let folder = record::folder::RunFolder::create(&runs, "a panic", record::clock::calendar()).unwrap();
    let run = Run {
        plan: &plan,
        folder: &folder,
        targets: &|_| None,
        files: runs.clone(),
        secrets: &Default::default(),
        plimsoll: std::env::current_exe().unwrap(),
    };
    let played = crate::play(&run, &mut Clumsy, &Interrupts::new());
    let ending = folder.read_ending().unwrap();
    std::fs::remove_dir_all(&runs).unwrap();
    assert!(matches!(&played, Err(Error::Panicked(text)) if text == "dropped the pencil"), "{played:?}");
    let ending = ending.expect("how it ended is recorded");
    assert_eq!(ending.how, Ending::Failed);
    assert!(ending.reason.is_some_and(|reason| reason.contains("dropped the pencil")));
}

#[test]
fn who_has_nobody_to_watch_is_asked_once() {
    let interrupts = Interrupts::new();
    (0..5).for_each(|_| interrupts.ask_once());
    assert_eq!(interrupts.asked(), 1);
    assert_eq!(interrupts.ask(), 2, "the user may still be in a hurry");
}
