//! Checks of the run folder: its name, its trials, and files that are written whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::events::Ending;
use crate::scratch::Scratch;
use crate::whole::write_whole;

#[test]
fn titles_become_names() {
    let table = [
        ("A name server crashes at full load", "a-name-server-crashes-at-full-load"),
        ("  What? -- a/b\\c \"d\" ..", "what-a-b-c-d"),
        ("Étude de l'Übung", "étude-de-l-übung"),
        ("名字服务崩溃", "名字服务崩溃"),
        ("../..", "run"),
        ("", "run"),
    ];
    for (title, name) in table {
        assert_eq!(slug(title), name, "{title}");
    }
    assert_eq!(slug(&"ab ".repeat(100)).chars().count(), 59);
}

#[test]
fn two_runs_of_one_second_get_two_folders() {
    let scratch = Scratch::new("folder");
    let now = UNIX_EPOCH + Duration::from_secs(1_795_170_665);
    let parent = scratch.path("runs/deep");
    let names: Vec<_> = (0..3)
        .map(|_| RunFolder::create(&parent, "A crash", now).unwrap())
        .map(|folder| folder.path().file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert!(names[0].starts_with("2026-11-") && names[0].ends_with("-a-crash"), "{}", names[0]);
    assert_eq!(names[1], format!("{}-2", names[0]));
    assert_eq!(names[2], format!("{}-3", names[0]));
}

#[test]
fn trials_are_listed_sorted_and_never_overwritten() {
    let scratch = Scratch::new("folder");
    let folder = RunFolder::at(&scratch.path("run"));
    assert!(folder.trial_ids().unwrap().is_empty());
    for id in ["002", "010", "001"] {
        assert!(folder.create_trial(id).unwrap_or_else(|error| panic!("{id}: {error}")).logs().is_dir());
    }
    fs::write(folder.trials().join("stray"), "").unwrap();
    assert_eq!(folder.trial_ids().unwrap(), ["001", "002", "010"]);
    assert_eq!(folder.create_trial("002").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    folder.discard_trial("002").unwrap();
    folder.discard_trial("002").unwrap();
    folder.create_trial("002").unwrap();
}

#[test]
fn whole_files_are_replaced_and_leave_nothing_beside_them() {
    let scratch = Scratch::new("folder");
    let path = scratch.path("report.html");
    write_whole(&path, b"one").unwrap();
    write_whole(&path, b"two").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 1);
    assert!(write_whole(&scratch.path("none/report.html"), b"").is_err());
}

#[test]
fn typed_files_are_read_as_written_and_may_be_missing() {
    let scratch = Scratch::new("folder");
    let folder = RunFolder::at(&scratch.path(""));
    assert_eq!(folder.read_ending().unwrap(), None);
    assert_eq!(folder.read_environment().unwrap(), None);
    assert_eq!(folder.read_results().unwrap(), None);
    let ending = RunEnding { how: Ending::Interrupted, reason: Some("SIGTERM".into()) };
    let environment = Environment { plimsoll: Some("0.1.0".into()), ..Environment::default() };
    let results = Results { format: 1, title: "A crash".into(), ..Results::default() };
    folder.write_ending(&ending).unwrap();
    folder.write_environment(&environment).unwrap();
    folder.write_results(&results).unwrap();
    assert_eq!(folder.read_ending().unwrap(), Some(ending));
    assert_eq!(folder.read_environment().unwrap(), Some(environment));
    assert_eq!(folder.read_results().unwrap(), Some(results));
    fs::write(folder.environment(), "{\"cpu\":{\"cores\":2,\"later\":1},\"later\":{}}").unwrap();
    assert_eq!(folder.read_environment().unwrap().unwrap().cpu.cores, Some(2));
    fs::write(folder.ending(), "{\"how\":").unwrap();
    assert!(folder.read_ending().unwrap_err().to_string().contains("ending.json: "));
}

#[test]
fn a_trial_is_never_outside_of_its_run() {
    let scratch = Scratch::new("outside");
    let folder = RunFolder::create(&scratch.path("runs"), "run", UNIX_EPOCH).unwrap();
    let victim = scratch.path("victim");
    fs::create_dir(&victim).unwrap();
    for id in ["../../../victim", "../../victim", victim.to_str().unwrap(), "..", ".", "", "a/b", "001\0"] {
        assert_eq!(folder.discard_trial(id).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{id}");
        assert_eq!(folder.create_trial(id).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{id}");
    }
    assert!(victim.is_dir());
    assert!(["", ".", "..", "a/b", "/a", "../a"].iter().all(|name| !is_folder_name(name)) && is_folder_name("n1.a"));
    assert!(is_trial_id("001") && is_trial_id("edge-12_b"));
}
