//! Tests of the shell of a trial.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::plan::{FORMAT, Host, Lab, Plan, Target, TargetKind, Trial};
use experiment::secrets::Secrets;
use fixture::TestDir;
use lab::StorageFigures;
use record::events::{HostFigures, Phase};
use record::folder::RunFolder;

use super::target::storage_figures;
use super::*;
use crate::progress::ProgressEvent;
use crate::recording::EventLog;

fn trial(id: &str, hosts: &[&str], measure_storage: bool) -> Trial {
    let hosts = hosts.iter().map(|name| Host { name: (*name).to_owned(), ..Host::default() });
    Trial {
        id: id.to_owned(),
        repeat: 1,
        seed: 1,
        target: Target {
            kind: TargetKind::Running { url: "http://127.0.0.1:1/".to_owned() },
            protocol: "http".to_owned(),
            ..Default::default()
        },
        lab: Lab { hosts: hosts.collect(), measure_storage, speed: 1.0, ..Lab::default() },
        ..Trial::default()
    }
}

fn plan(trials: Vec<Trial>) -> Plan {
    Plan { format: FORMAT, title: "A plan".to_owned(), asks: "?".to_owned(), trials, ..Plan::default() }
}

/// Returns a temporary folder for the test, and a run folder inside.
fn run_folder(test: &str) -> (TestDir, RunFolder) {
    let runs = TestDir::new();
    let folder = RunFolder::create(&runs, test, record::clock::calendar()).unwrap();
    (runs, folder)
}

fn run<'a>(plan: &'a Plan, folder: &'a RunFolder, secrets: &'a Secrets) -> Run<'a> {
    Run {
        plan,
        folder,
        targets: &|_| None,
        files: std::env::temp_dir(),
        secrets,
        plimsoll: std::env::current_exe().unwrap(),
    }
}

#[test]
fn storage_is_measured_once_per_lab() {
    let plan = plan(vec![
        trial("001", &["n1"], true),
        trial("002", &["n1", "n2"], true),
        trial("003", &["n1"], true),
        trial("004", &["n1", "n2", "n3"], false),
    ]);
    let (_runs, folder) = run_folder("storage");
    let secrets = Secrets::default();
    let run = run(&plan, &folder, &secrets);
    let third = storage_figures(&run, &plan.trials[2]);
    assert_eq!(third, StorageFigures::Measured, "nothing is on record of the first");
    for (id, read) in [("001", 100.0), ("002", 200.0)] {
        let mut event_log = EventLog::begin(&folder.create_trial(id).unwrap(), &secrets).unwrap();
        for again in 0..2 {
            let is = HostFigures { storage_read_per_s: Some(read + f64::from(again)), ..HostFigures::default() };
            let what = What::HostUp { host: "n1".to_owned(), kind: "netns".to_owned(), profile: None, is };
            event_log.note(Instant::now(), what).unwrap();
        }
        event_log.end().unwrap();
    }
    let [first, second, third, fourth] = [0, 1, 2, 3].map(|index| storage_figures(&run, &plan.trials[index]));
    assert_eq!((first, second), (StorageFigures::Measured, StorageFigures::Measured));
    let StorageFigures::Known(known) = third else { panic!("{third:?}") };
    assert_eq!(known["n1"].storage_read_per_s, Some(100.0), "as it came up first, on the same hosts");
    assert_eq!(fourth, StorageFigures::NotAsked);
}

fn broken_script() -> load::Error {
    load::Error::Values(load::ValueError::Script { script: "s.lua".to_owned(), reason: "s.lua:1: boom".to_owned() })
}

#[test]
fn an_engine_error_outranks_a_recording_error() {
    let full = Error::Record(std::io::Error::from(std::io::ErrorKind::StorageFull)).to_string();
    let gone = load::Error::RecorderGone.to_string();
    // The order in which the two ended does not matter: both errors are known by then.
    for (engine, is_full, expected) in [
        (Some(broken_script()), false, "script `s.lua`: s.lua:1: boom"),
        (Some(broken_script()), true, "script `s.lua`: s.lua:1: boom"),
        (Some(load::Error::RecorderGone), true, full.as_str()),
        (Some(load::Error::RecorderGone), false, gone.as_str()),
        (None, true, full.as_str()),
        (None, false, "cannot read the records: recording ended before the trial"),
    ] {
        let recording = is_full.then(|| Error::Record(std::io::Error::from(std::io::ErrorKind::StorageFull)));
        assert_eq!(cause(engine.map(Error::from), recording).to_string(), expected);
    }
}

/// An observer that panics.
struct Clumsy;

impl Observer for Clumsy {
    fn tell(&mut self, event: &ProgressEvent<'_>) {
        if matches!(event, ProgressEvent::Happened { what: What::Phase { phase: Phase::Load }, .. }) {
            panic!("dropped the pencil");
        }
    }
}

#[test]
fn a_panic_ends_a_run_with_a_recorded_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut trial = trial("001", &[], false);
    trial.target.kind = TargetKind::Running { url: format!("http://{}/", listener.local_addr().unwrap()) };
    let plan = plan(vec![trial]);
    let (_runs, folder) = run_folder("panic");
    let secrets = Secrets::default();
    let run = run(&plan, &folder, &secrets);
    let played = crate::play(&run, &mut Clumsy, &Interrupts::new());
    let ending = folder.read_ending().unwrap();
    assert!(matches!(&played, Err(Error::Panicked(text)) if text == "dropped the pencil"), "{played:?}");
    let ending = ending.expect("how it ended is recorded");
    assert_eq!(ending.how, Ending::Failed);
    assert!(ending.reason.is_some_and(|reason| reason.contains("dropped the pencil")));
}

#[test]
fn ask_once_counts_a_single_interrupt() {
    let interrupts = Interrupts::new();
    (0..5).for_each(|_| interrupts.ask_once());
    assert_eq!(interrupts.asked(), 1);
    assert_eq!(interrupts.ask(), 2, "the user may still be in a hurry");
}
