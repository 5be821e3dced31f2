//! Every fault on virtual hosts, as its clients feel it: service breaks off or slows down while it lasts, and is back after it
//! was healed. Many faults share a lab, one after the other, for a lab each would take long.

use std::path::Path;

use record::events::{Event, What};
use record::rows::OutcomeSlot;

use crate::machine;
use crate::stage::Stage;

/// What the clients got in a stretch of time: operations per second.
#[derive(Debug)]
struct Felt {
    ok_per_s: f64,
    not_ok_per_s: f64,
}

/// A stretch that begins so long after an event is not blurred by it: attempts that hang in it have ended.
const SETTLED_S: f64 = 0.6;

/// Service is back once clients got answers, and nothing else, for so long: twice as long as an attempt may hang.
const CLEAN_S: f64 = 0.5;

/// The records of a trial.
pub struct Seen {
    events: Vec<Event>,
    slots: Vec<OutcomeSlot>,
}

impl Seen {
    pub fn in_run(run: &Path) -> Self {
        let trial = record::folder::RunFolder::at(run).trial("001");
        Self {
            events: record::lines::read_events(&trial.events()).unwrap().items,
            slots: record::rows::read(&trial.outcomes()).unwrap().items,
        }
    }

    fn felt(&self, from_s: f64, until_s: f64) -> Felt {
        let slots = self.slots.iter().filter(|slot| slot.at_s >= from_s && slot.at_s < until_s);
        let (ok, not_ok) =
            slots.fold((0, 0), |(ok, not_ok), slot| (ok + slot.ok, not_ok + slot.failed + slot.timeout + slot.wrong));
        let length_s = until_s - from_s;
        Felt { ok_per_s: f64::from(ok) / length_s, not_ok_per_s: f64::from(not_ok) / length_s }
    }

    /// When a fault began and was healed; a fault that heals by itself was healed at once.
    #[track_caller]
    fn stretch(&self, name: &str) -> (f64, f64) {
        let at = |wanted: &dyn Fn(&What) -> bool| self.events.iter().find(|event| wanted(&event.what)).map(|e| e.at_s);
        let begun = at(&|what| matches!(what, What::FaultBegun { fault, .. } if fault == name));
        let healed = at(&|what| matches!(what, What::FaultHealed { fault, .. } if fault == name));
        let refused = self.events.iter().find_map(|event| match &event.what {
            What::FaultFailed { fault, reason, .. } if fault == name => Some(reason.clone()),
            _ => None,
        });
        let begun = begun.unwrap_or_else(|| panic!("{name} did not begin: {refused:?}"));
        (begun, healed.unwrap_or(begun))
    }

    /// Clients get errors or no answers after the fault began, and after its healing, before the next one begins, there is a
    /// while of nothing but answers. When exactly is a matter of how busy the machine is.
    #[track_caller]
    pub fn broke_and_healed(&self, name: &str, every_s: f64) {
        let (begun_s, healed_s) = self.stretch(name);
        let next_s = begun_s + every_s;
        let during = self.felt(begun_s, next_s);
        assert!(during.not_ok_per_s > 0.0, "{name} was not felt: {during:?}");
        let after = self.slots.iter().filter(|slot| slot.at_s >= healed_s && slot.at_s < next_s);
        let broken = after.filter(|slot| slot.failed + slot.timeout + slot.wrong > 0).map(|slot| slot.at_s);
        let ends: Vec<f64> = std::iter::once(healed_s).chain(broken).chain([next_s]).collect();
        let clean =
            |from_s: f64, until_s: f64| until_s - from_s > CLEAN_S && self.felt(from_s + 0.01, until_s).ok_per_s > 0.0;
        assert!(ends.windows(2).any(|pair| clean(pair[0], pair[1])), "{name} was felt after its healing: {ends:?}");
    }

    /// Clients get less while the fault lasts than before it and after it.
    #[track_caller]
    fn slowed_and_healed(&self, name: &str, to: f64) {
        let (begun_s, healed_s) = self.stretch(name);
        let before = self.felt(begun_s - 1.2, begun_s);
        let during = self.felt(begun_s + 0.2, healed_s);
        let after = self.felt(healed_s + SETTLED_S, healed_s + SETTLED_S + 0.8);
        let normal = before.ok_per_s.min(after.ok_per_s);
        assert!(during.ok_per_s < normal * to, "{name}: {before:?}, then {during:?}, then {after:?}");
    }
}

/// Plays an experiment on the notebook; its faults follow each other.
pub fn play(stage: &Stage, lab: &str, page: &str, faults: &[(&str, &str, &str)], every_s: f64) -> Seen {
    stage.run(&[&experiment(stage, lab, page, faults, every_s)]).exits(0);
    Seen::in_run(&stage.run_folder())
}

/// Writes that experiment: the faults by kind, how long each lasts, and the rest of it.
pub fn experiment(stage: &Stage, lab: &str, page: &str, faults: &[(&str, &str, &str)], every_s: f64) -> String {
    let step = format!("[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"{page}\" }}\n");
    // What takes memory takes its time.
    let agents = if page == "/grab" { "agents = 1\ntimeout = \"3s\"" } else { "agents = 6\ntimeout = \"250ms\"" };
    let timed = faults.iter().enumerate().map(|(index, (kind, lasts, more))| {
        let at_s = 1.5 + every_s * index as f64;
        let lasts = if lasts.is_empty() { String::new() } else { format!("for = \"{lasts}\"\n") };
        format!("[[fault]]\nname = \"{kind}\"\nkind = \"{kind}\"\nat = \"{at_s}s\"\n{lasts}{more}\n")
    });
    let faults_text: String = timed.collect();
    let time_s = 1.5 + every_s * faults.len() as f64;
    let text = format!(
        "title = \"faults\"\nasks = \"are they felt?\"\n[target]\nuse = \"notebook\"\n[lab]\n{lab}\n[load]\n{agents}\n\
         time = \"{time_s}s\"\nthink = \"5ms\"\nwarmup = \"0s\"\n{step}{faults_text}"
    );
    stage.file("faults.toml", text)
}

#[test]
fn faults_of_hosts_and_processes_are_felt_and_healed() {
    let Some(_turn) = machine::turn() else { return };
    let before = machine::inventory();
    let stage = Stage::new().with_shelves();
    let faults = [
        ("partition", "800ms", "on = \"n1\"\nwith = { shape = \"one\", clients = \"majority\" }"),
        ("host_freeze", "800ms", "on = \"n1\""),
        ("pause", "800ms", "on = \"n1\""),
        ("link_flap", "800ms", "on = \"n1\"\nwith = { down = \"10s\" }"),
        ("lossy_link", "800ms", "on = \"n1\"\nwith = { loss_pct = 60 }"),
        ("slow_link", "800ms", "on = \"n1\"\nwith = { rate = \"64kbit\" }"),
        ("slow_port", "800ms", "on = \"n1\"\nwith = { port = \"http\", rate = \"64kbit\" }"),
        ("kill", "500ms", "on = \"n1\""),
        ("restart", "", "on = \"n1\"\nwith = { wait = \"500ms\" }"),
        ("host_crash", "500ms", "on = \"n1\""),
        ("command", "800ms", "on = \"n1\"\nwith = { run = \"touch /tmp/closed\", heal = \"rm /tmp/closed\" }"),
    ];
    let seen = play(&stage, "hosts = 3", "/", &faults, 3.0);
    for (name, ..) in faults {
        seen.broke_and_healed(name, 3.0);
    }
    assert_eq!(stage.leftovers(), [""; 0]);
    assert_eq!(machine::added_since(&before), [""; 0]);
}

#[test]
fn faults_of_a_disk_are_felt_and_healed() {
    let Some(_turn) = machine::turn() else { return };
    let before = machine::inventory();
    let stage = Stage::new().with_shelves();
    stage.file(
        "profiles/disk.toml",
        "what = \"a disk\"\n[disk]\nsource = \"made up\"\nsize = \"256MiB\"\nwrite_iops = 4000\n",
    );
    let faults =
        [("slow_disk", "1500ms", "with = { write_iops = 30 }"), ("full_disk", "1s", "with = { leave = \"0B\" }")];
    let lab = "hosts = 1\nprofile = \"disk\"\nmeasure_storage = false";
    let seen = play(&stage, lab, "/write", &faults, 4.0);
    seen.slowed_and_healed("slow_disk", 0.5);
    seen.broke_and_healed("full_disk", 4.0);
    assert_eq!(machine::added_since(&before), [""; 0]);
}

#[test]
fn faults_of_processor_and_memory_are_felt_and_healed() {
    let Some(_turn) = machine::turn() else { return };
    let stage = Stage::new().with_shelves();
    stage.file("profiles/slow.toml", "what = \"slow\"\n[cpu]\nsource = \"made up\"\ncores = 1\nspeed = 0.5\n");
    let lab = "hosts = 1\nprofile = \"slow\"";
    let seen = play(&stage, lab, "/work", &[("squeeze", "1500ms", "with = { cpu = 0.1 }")], 4.0);
    seen.slowed_and_healed("squeeze", 0.5);
    let stage = Stage::new().with_shelves();
    let limit = [("memory_limit", "1500ms", "with = { size = \"64MiB\" }")];
    let seen = play(&stage, "hosts = 1", "/grab", &limit, 4.0);
    seen.broke_and_healed("memory_limit", 4.0);
}

#[test]
fn a_virtual_hosts_clock_is_left_alone_and_that_is_said() {
    let Some(_turn) = machine::turn() else { return };
    let stage = Stage::new().with_shelves();
    let fault = [("clock_skew", "500ms", "with = { offset = \"5s\" }")];
    let file = experiment(&stage, "hosts = 1", "/", &fault, 2.0);
    let results = stage.run(&[&file]).exits(0).says(&["share the wall clock"]).json();
    assert_eq!(results["trials"][0]["verdict"]["is"], "void", "{results:#}");
}
