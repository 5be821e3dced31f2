//! Checks of what counts as a change between trials, and within one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use record::events::Event;
use serde_json::json;

use super::*;
use crate::made_up;

fn versions(program: &str, files: &[(&str, &str)]) -> Versions {
    Versions {
        plimsoll: "1".to_owned(),
        program: Some(program.to_owned()),
        target: Some("vsns".to_owned()),
        files: files.iter().map(|(path, mark)| ((*path).to_owned(), (*mark).to_owned())).collect(),
    }
}

fn evidence(all: &[Versions]) -> Evidence {
    let event = |is: &Versions| Event { at_s: 0.0, what: What::Versions { is: is.clone() } };
    Evidence { events: all.iter().map(event).collect(), ..Evidence::default() }
}

fn planned(id: &str) -> plan::Trial {
    plan::Trial { id: id.to_owned(), ..made_up::trial(made_up::load(1, 1.0)) }
}

/// What is said of a second trial that was played with this, after a first that was played with that.
fn between(then: &Versions, now: &Versions) -> Option<String> {
    let mut earlier = Earlier::default();
    earlier.add(&planned("001"), &evidence(std::slice::from_ref(then)));
    change(&planned("002"), &evidence(std::slice::from_ref(now)), Some(&earlier))
}

#[test]
fn the_same_is_no_change() {
    let one = versions("p", &[("target.toml", "1")]);
    assert_eq!(between(&one, &one), None);
    assert_eq!(
        between(&one, &versions("p", &[("target.toml", "1"), ("new", "1")])),
        None,
        "a new file changes nothing"
    );
    assert_eq!(between(&one, &Versions { program: None, ..one.clone() }), None, "what is not known has not changed");
    let other = Versions { target: Some("redis".to_owned()), ..versions("p", &[("target.toml", "2")]) };
    assert_eq!(between(&one, &other), None, "another target has other files");
}

#[test]
fn a_change_is_named_with_the_trial_that_had_it_otherwise() {
    let one = versions("p", &[("src/a.erl", "1"), ("target.toml", "1")]);
    let said = between(&one, &versions("p", &[("src/a.erl", "2"), ("target.toml", "1")])).unwrap();
    assert_eq!(said, "the file `src/a.erl` of the target `vsns` is not what it was in trial 001");
    assert!(between(&one, &versions("p", &[("src/a.erl", "1")])).unwrap().contains("`target.toml`"), "it is gone");
    assert!(between(&one, &versions("q", &[])).unwrap().starts_with("Plimsoll's program"));
    let newer = Versions { plimsoll: "2".to_owned(), ..one.clone() };
    assert!(between(&one, &newer).unwrap().starts_with("Plimsoll's program"));
}

#[test]
fn a_change_within_a_trial_is_seen() {
    let begun = versions("p", &[("a", "1")]);
    let ended = |ended: Versions| change(&planned("001"), &evidence(&[begun.clone(), ended]), None);
    assert_eq!(ended(begun.clone()), None);
    assert!(ended(versions("q", &[("a", "1")])).unwrap().contains("replaced while"));
    assert!(ended(versions("p", &[("a", "2")])).unwrap().contains("`a` changed while"));
}

#[test]
fn a_target_that_says_another_version_has_changed() {
    let said = |version: &str| {
        let what = What::Inspected { when: "before_load".to_owned(), says: json!({ "version": version, "pid": 3 }) };
        Evidence { events: vec![Event { at_s: -1.0, what }], ..Evidence::default() }
    };
    let mut earlier = Earlier::default();
    earlier.add(&planned("001"), &said("7.2.1"));
    assert_eq!(change(&planned("002"), &said("7.2.1"), Some(&earlier)), None);
    let found = change(&planned("002"), &said("7.2.2"), Some(&earlier)).unwrap();
    assert!(found.contains("7.2.2") && found.contains("trial 001"), "{found}");
    let mut variant = planned("003");
    variant.target.protocol = "other".to_owned();
    assert_eq!(change(&variant, &said("7.2.2"), Some(&earlier)), None, "a target with other parameters is another");
}
