//! Checks of when a member that did not tell what it holds is missed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use record::events::{HostFigures, Phase, What};

use super::{Case, down};

#[test]
fn a_member_that_is_silent_is_missed_unless_a_fault_took_it_down() {
    let host = |up: bool, expected: bool| match up {
        true => What::HostUp { host: "n1".into(), kind: "netns".into(), profile: None, is: HostFigures::default() },
        false => What::HostDown { host: "n1".into(), expected },
    };
    let stopping = || What::Phase { phase: Phase::Stopping };
    let missed = |story: Vec<What>| {
        let found = Case::spoiled(|case| {
            case.silent("n1");
            story.into_iter().rev().for_each(|what| case.event(what));
        });
        found.iter().any(|finding| finding.rule == "unaudited_member")
    };
    assert!(missed(Vec::new()));
    assert!(!missed(vec![host(true, true), host(false, true), down(true)]));
    assert!(missed(vec![host(false, true), down(true), host(true, true)]), "it was to serve again");
    assert!(missed(vec![host(false, false), down(true)]), "nobody meant it to go");
    assert!(missed(vec![stopping(), host(false, true), down(true)]), "that was the end of the trial");
}
