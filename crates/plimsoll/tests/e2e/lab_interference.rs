//! Events from outside of a lab: another lab beside it with the same addresses, and a lost host,
//! which is not the target's fault.

use std::process::Command;
use std::time::Duration;

use record::events::{Event, What};
use record::rows::OutcomeSlot;

use crate::lab_traces;
use crate::sandbox::{Sandbox, children, signal};

/// Writes an experiment with hosts that serve pages.
fn experiment(sandbox: &Sandbox, hosts: u32, time_s: u32, faults: &str) -> String {
    let text = format!(
        "title = \"lab\"\nasks = \"Is it left alone?\"\n[target]\nuse = \"notebook\"\n\
         [lab]\nhosts = {hosts}\nmeasure_storage = false\n\
         [load]\nagents = 4\ntime = \"{time_s}s\"\ntimeout = \"30s\"\nthink = \"10ms\"\nwarmup = \"0s\"\n\
         [[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n{faults}"
    );
    sandbox.file("lab.toml", text)
}

/// A partition, and a host that crashes again and again.
const FAULTS: &str = r#"
[[fault]]
name = "cut"
kind = "partition"
on   = "minority"
at   = "500ms"
for  = "500ms"
[[fault]]
name  = "crash"
kind  = "host_crash"
on    = "n4"
every = "800ms"
for   = "300ms"
"#;

fn events(sandbox: &Sandbox) -> Vec<Event> {
    let trial = record::folder::RunFolder::at(&sandbox.run_folder()).trial("001");
    record::lines::read_events(&trial.events()).unwrap().items
}

fn slots(sandbox: &Sandbox) -> Vec<OutcomeSlot> {
    let trial = record::folder::RunFolder::at(&sandbox.run_folder()).trial("001");
    record::rows::read(&trial.outcomes()).unwrap().items
}

fn not_ok(slots: &[OutcomeSlot]) -> u32 {
    slots.iter().map(|slot| slot.failed + slot.timeout + slot.wrong).sum()
}

#[test]
fn two_labs_at_once_do_not_touch_each_other() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    let (broken, whole) = (Sandbox::new().with_shelves(), Sandbox::new().with_shelves());
    let (broken_file, whole_file) = (experiment(&broken, 4, 3, FAULTS), experiment(&whole, 4, 6, ""));
    // The lab without faults is there before the other one, and after it.
    let mut going_on = whole.start_run(&[&whole_file]);
    going_on.wait_for_load(Duration::ZERO);
    broken.run(&[&broken_file]).exits(0);
    going_on.wait().exits(0);
    let begun = |event: &&Event| matches!(event.what, What::FaultBegun { .. });
    assert!(events(&broken).iter().filter(begun).count() > 2, "or else this test shows nothing");
    assert_eq!(not_ok(&slots(&whole)), 0, "nobody was there to break it");
    let events = events(&whole);
    let disturbed = events.iter().filter(|event| match &event.what {
        What::HostDown { expected, .. } | What::ProcessDown { expected, .. } => !expected,
        What::FaultBegun { .. } | What::FaultFailed { .. } => true,
        _ => false,
    });
    assert_eq!(disturbed.collect::<Vec<_>>(), [] as [&Event; 0]);
    for sandbox in [&broken, &whole] {
        assert_eq!(sandbox.leftovers(), [""; 0]);
    }
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

#[test]
fn a_lost_host_is_reported_and_not_blamed_on_the_target() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    let sandbox = Sandbox::new().with_shelves();
    let file = experiment(&sandbox, 3, 4, "");
    let mut playing = sandbox.start_run(&[&file]);
    playing.wait_for_load(Duration::ZERO);
    let shim = children(playing.pid()).into_iter().find(|pid| name_of_host(*pid) == "n2").unwrap();
    signal("KILL", shim);
    let played = playing.wait().exits(0).says(&["host n2 was lost without a fault"]);
    let trial = &played.json()["trials"][0];
    assert_eq!(trial["ended"], "done", "{trial:#}");
    assert_eq!(trial["verdict"]["is"], "void", "{trial:#}");
    let reasons = trial["verdict"]["reasons"].to_string();
    assert!(reasons.contains("the host n2 was lost"), "{reasons}");
    assert!(!reasons.contains("the target's process"), "{reasons}");
    let lost = |event: &&Event| matches!(&event.what, What::HostDown { host, expected: false } if host == "n2");
    let lost_s = events(&sandbox).iter().find(lost).unwrap().at_s;
    let after = slots(&sandbox).into_iter().filter(|slot| slot.at_s > lost_s);
    assert!(after.map(|slot| slot.ok).sum::<u32>() > 0, "the rest goes on");
    assert_eq!(sandbox.leftovers(), [""; 0]);
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

/// Returns the hostname that a process sees.
fn name_of_host(pid: u32) -> String {
    let output = Command::new("nsenter").args(["--target", &pid.to_string(), "--uts", "hostname"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
