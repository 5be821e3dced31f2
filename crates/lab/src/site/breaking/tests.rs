//! Tests of what faults do to a site, on hosts that only write down.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use record::events::What;

use crate::fixture::stage::Stage;
use crate::fixture::until;
use crate::runner::Control;
use crate::site::Site;

const SQUEEZE: Control = Control::Cpu { of_profile: 0.5 };
const SQUEEZED: &str = r#"{"control":"cpu","of_profile":0.5}"#;

/// What `poll` saw, a line each.
fn seen(site: &mut Site) -> Vec<String> {
    let line = |what| match what {
        What::ProcessUp { host, process, .. } => format!("{host} {process} up"),
        What::ProcessDown { host, process, how, expected, .. } => format!("{host} {process} down {how} {expected}"),
        What::HostUp { host, kind, .. } => format!("{host} up {kind}"),
        What::HostDown { host, expected } => format!("{host} down {expected}"),
        other => format!("{other:?}"),
    };
    site.poll().into_iter().map(|observed| line(observed.what)).collect()
}

#[test]
fn what_one_occurrence_imposed_only_it_lifts() {
    let mut stage = Stage::of(3);
    stage.site.impose("a#1", &[("n1".to_owned(), SQUEEZE), ("n3".to_owned(), SQUEEZE)]).unwrap();
    stage.site.impose("a#2", &[("n3".to_owned(), SQUEEZE)]).unwrap();
    stage.done();
    stage.site.lift("a#1").unwrap();
    assert_eq!(stage.done(), ["n1 lift a#1", "n3 lift a#1"]);
    stage.site.lift("a#1").unwrap();
    assert_eq!(stage.done(), [] as [&str; 0]);
    assert!(
        stage.site.impose("a#3", &[("n9".to_owned(), SQUEEZE)]).err().unwrap().to_string().contains("no member `n9`")
    );
}

#[test]
fn a_control_outlives_a_crash() {
    let mut stage = Stage::of(2);
    seen(&mut stage.site);
    stage.site.impose("cut#1", &[("n2".to_owned(), SQUEEZE)]).unwrap();
    stage.site.crash_host("n2", "crash#1").unwrap();
    assert_eq!(stage.done(), [&format!("n2 impose cut#1 {SQUEEZED}"), "n2 crash"]);
    assert_eq!(seen(&mut stage.site), ["n2 down true", "n2 server down signal 9 true", "n2 agent down signal 9 true"]);
    assert_eq!(stage.site.members().len(), 2);

    // What is imposed on a host that is down waits for it; what is lifted meanwhile is gone.
    stage.site.impose("cut#2", &[("n2".to_owned(), SQUEEZE)]).unwrap();
    stage.site.lift("cut#1").unwrap();
    assert!(stage.site.crash_host("n2", "crash#2").err().unwrap().to_string().contains("n2 is down already"));
    assert_eq!(stage.done(), [] as [&str; 0]);

    stage.site.boot_hosts("crash#2").unwrap();
    assert_eq!(stage.done(), [] as [&str; 0], "it crashed nothing");
    stage.site.boot_hosts("crash#1").unwrap();
    let expected = ["n2 boot", &format!("n2 impose cut#2 {SQUEEZED}"), "n2 start server", "n2 start agent"];
    assert_eq!(stage.done(), expected);
    assert_eq!(seen(&mut stage.site), ["n2 up netns", "n2 server up", "n2 agent up"]);
    stage.site.boot_hosts("crash#1").unwrap();
    assert_eq!(stage.done(), [] as [&str; 0]);
}

#[test]
fn a_host_that_does_not_come_back_is_said() {
    let mut stage = Stage::of(2);
    stage.site.crash_host("n1", "crash#1").unwrap();
    stage.refuse(Some("boot"));
    assert_eq!(stage.site.boot_hosts("crash#1").err().unwrap().to_string(), "it cannot");
    stage.refuse(None);
    stage.done();
    stage.site.stop().unwrap();
    assert!(stage.done().iter().all(|line| line.starts_with("n2")), "nothing is asked of a host that is down");
}

#[test]
fn two_that_hold_a_process_let_it_go_together() {
    let mut stage = Stage::of(1);
    let post = stage.site.post_of("n1", None).unwrap();
    stage.site.pause(post, "a#1").unwrap();
    stage.site.pause(post, "b#1").unwrap();
    stage.site.unpause("a#1");
    assert_eq!(stage.done(), ["n1 server group signal 19", "n1 server group signal 19"]);
    stage.site.unpause("b#1");
    stage.site.unpause("b#1");
    assert_eq!(stage.done(), ["n1 server group signal 18"]);
}

#[test]
fn a_restart_goes_on_with_every_look() {
    let mut stage = Stage::of(1);
    seen(&mut stage.site);
    let post = stage.site.post_of("n1", Some("agent")).unwrap();
    stage.site.restart(post, Duration::from_millis(1)).unwrap();
    assert!(stage.site.restart(post, Duration::ZERO).err().unwrap().to_string().contains("already"));
    let mut all = Vec::new();
    until("it is up again", || {
        all.extend(seen(&mut stage.site));
        all.len() == 2
    });
    assert_eq!(all, ["n1 agent down signal 15 true", "n1 agent up"]);
    assert_eq!(stage.done(), ["n1 agent signal 15", "n1 start agent"]);
    stage.site.restart(post, Duration::ZERO).unwrap();
}

#[test]
fn a_restart_that_fails_is_said_once() {
    let mut stage = Stage::of(1);
    let post = stage.site.post_of("n1", None).unwrap();
    stage.site.restart(post, Duration::ZERO).unwrap();
    stage.refuse(Some("start server"));
    let mut all = Vec::new();
    until("it is noticed", || {
        all.extend(seen(&mut stage.site));
        all.iter().any(|line| line.contains("could not be started again: it cannot"))
    });
    assert!(seen(&mut stage.site).is_empty());
}

#[test]
fn everything_is_mended_before_the_end() {
    let mut stage = Stage::of(2);
    let post = stage.site.post_of("n1", None).unwrap();
    stage.site.pause(post, "a#1").unwrap();
    stage.site.impose("b#1", &[("n2".to_owned(), Control::Freeze)]).unwrap();
    stage.done();
    stage.site.stop().unwrap();
    assert_eq!(stage.done()[..2], ["n2 lift b#1", "n1 server group signal 18"]);
}
