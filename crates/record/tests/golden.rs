//! Tests that the readers still read the golden run folder: files of an old version stay readable
//! for ever. `analysis` tests their meaning.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use record::events::{Ending, Event, HistoryEntry, Outcome, What};
use record::folder::{RunFolder, TrialFolder};
use record::hlog::{self, Tag};
use record::lines;
use record::rows::{self, Attempts, GeneratorSecond, OutcomeSlot, Sample};

fn folder() -> RunFolder {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden");
    RunFolder::at(&golden.join("2026-11-20T10-31-05-a-name-server-crashes"))
}

/// Returns the number of items of a trial's files, and whether they were cut off.
fn read(trial: &TrialFolder) -> [(usize, bool); 7] {
    let log = hlog::read(&trial.load_hlog()).unwrap();
    assert!(log.start_unix_s.is_some());
    assert!(log.intervals.iter().all(|interval| Tag::parse(&interval.tag).is_some()));
    let slots = rows::read::<OutcomeSlot>(&trial.outcomes()).unwrap();
    let attempts = rows::read::<Attempts>(&trial.attempts()).unwrap();
    let samples = rows::read::<Sample>(&trial.samples()).unwrap();
    let generator = rows::read::<GeneratorSecond>(&trial.generator()).unwrap();
    let events = lines::read_events(&trial.events()).unwrap();
    let history = lines::read::<HistoryEntry>(&trial.history()).unwrap();
    assert!(matches!(events.items[0], Event { at_s: 0.0, what: What::Clock { .. } }));
    assert!(history.items.iter().any(|line| line.outcome == Outcome::Ok && line.applied == Some(true)));
    [
        (log.intervals.len(), log.torn),
        (slots.items.len(), slots.torn),
        (attempts.items.len(), attempts.torn),
        (samples.items.len(), samples.torn),
        (generator.items.len(), generator.torn),
        (events.items.len(), events.torn),
        (history.items.len(), history.torn),
    ]
}

#[test]
fn a_complete_trial_is_read_completely() {
    let whole = read(&folder().trial("001"));
    assert!(whole.iter().all(|(items, torn)| *items > 0 && !torn), "{whole:?}");
}

#[test]
fn a_truncated_trial_is_read_up_to_the_cut() {
    let trial = folder().trial("002");
    let cut = read(&trial);
    assert!(cut.iter().all(|(items, torn)| *items > 0 && *torn), "{cut:?}");
    let events = lines::read_events(&trial.events()).unwrap();
    assert!(!events.items.iter().any(|event| matches!(event.what, What::Ended { how: Ending::Done, .. })));
}

#[test]
fn files_about_the_run_are_read() {
    let folder = folder();
    assert_eq!(folder.trial_ids().unwrap(), ["001", "002"]);
    assert_eq!(folder.read_ending().unwrap(), None, "it was killed");
    assert_eq!(folder.read_environment().unwrap().unwrap().cpu.cores, Some(2));
    assert_eq!(folder.read_results().unwrap().unwrap().trials.len(), 2);
}
