//! Faults on virtual hosts, as clients feel them: service breaks or slows down during the fault,
//! and is back after healing. Many faults share a lab, one after the other, because a lab for each
//! would take long.

use std::path::Path;

use record::events::{Event, What};
use record::rows::OutcomeSlot;

use crate::lab_traces;
use crate::sandbox::Sandbox;

/// Results of the clients in a period, in operations per second.
#[derive(Debug)]
struct Felt {
    ok_per_s: f64,
    not_ok_per_s: f64,
}

/// Service is back after this time with answers only: twice the longest time that an attempt may
/// hang.
const CLEAN_S: f64 = 0.5;

/// Records of a trial.
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

    /// Returns the begin and the healing of a fault. A fault that heals by itself is healed at
    /// once.
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

    /// Returns the begin of the next fault, or the end of the load.
    fn next_s(&self, begun_s: f64) -> f64 {
        let begun = self.events.iter().filter(|event| matches!(event.what, What::FaultBegun { .. }));
        let end_s = self.slots.iter().map(|slot| slot.at_s).fold(begun_s, f64::max);
        begun.map(|event| event.at_s).find(|at_s| *at_s > begun_s).unwrap_or(end_s)
    }

    /// Checks that clients get errors or no answers during the fault, and that between its healing
    /// and the next fault there is a period with answers only.
    fn broke_and_healed(&self, name: &str) -> Result<(), String> {
        let (begun_s, healed_s) = self.stretch(name);
        let next_s = self.next_s(begun_s);
        let during = self.felt(begun_s, next_s);
        if during.not_ok_per_s == 0.0 {
            return Err(format!("{name} was not felt between {begun_s} and {next_s}: {during:?}"));
        }
        let after = self.slots.iter().filter(|slot| slot.at_s >= healed_s && slot.at_s < next_s);
        let broken = after.filter(|slot| slot.failed + slot.timeout + slot.wrong > 0).map(|slot| slot.at_s);
        let ends: Vec<f64> = std::iter::once(healed_s).chain(broken).chain([next_s]).collect();
        let clean =
            |from_s: f64, until_s: f64| until_s - from_s > CLEAN_S && self.felt(from_s + 0.01, until_s).ok_per_s > 0.0;
        let is_healed = ends.windows(2).any(|pair| clean(pair[0], pair[1]));
        is_healed.then_some(()).ok_or_else(|| format!("{name} was felt after its healing: {ends:?}"))
    }

    /// Checks that clients get less during the fault than in the best periods before and after it.
    fn slowed_and_healed(&self, name: &str, to: f64) -> Result<(), String> {
        let (begun_s, healed_s) = self.stretch(name);
        let during = self.felt(begun_s + 0.2, healed_s);
        let best = |from_s: f64, until_s: f64| {
            let begins =
                (0..).map(|step| from_s + 0.1 * f64::from(step)).take_while(|begin_s| begin_s + 0.5 <= until_s);
            begins.map(|begin_s| self.felt(begin_s, begin_s + 0.5).ok_per_s).fold(0.0, f64::max)
        };
        let (before, after) = (best(0.0, begun_s), best(healed_s, self.next_s(begun_s)));
        let is_slower = during.ok_per_s < before.min(after) * to;
        is_slower.then_some(()).ok_or_else(|| format!("{name}: {before}/s, then {during:?}, then {after}/s"))
    }
}

/// Effect of a fault on clients.
#[derive(Debug, Clone, Copy)]
pub enum Shows {
    /// Clients get errors or no answers.
    Broken,
    /// Clients get less than this share of their former throughput.
    Slower(f64),
}

/// Kind of a fault, its length in seconds, and its other keys.
pub type Wanted = (&'static str, f64, &'static str);

/// Plays these faults on the notebook, one after the other, and expects that each is felt, and
/// healed before the next begins. Faults that fail are played again, longer and with more time. A
/// fault fails the test only if it fails again, however busy the machine is.
#[track_caller]
pub fn felt_and_healed(sandbox: impl Fn() -> Sandbox, lab: &str, page: &str, faults: &[(Wanted, Shows)], every_s: f64) {
    let mut left = faults.to_vec();
    let mut why = Vec::new();
    for longer in [1.0, 3.0, 10.0] {
        let timed: Vec<(&str, String, &str)> = left
            .iter()
            .map(|((kind, lasts_s, more), _)| {
                (*kind, if *lasts_s > 0.0 { format!("{}ms", lasts_s * longer * 1e3) } else { String::new() }, *more)
            })
            .collect();
        let timed: Vec<(&str, &str, &str)> =
            timed.iter().map(|(kind, lasts, more)| (*kind, lasts.as_str(), *more)).collect();
        let sandbox = sandbox();
        sandbox.run(&[&experiment(&sandbox, lab, page, &timed, every_s * longer)]).exits(0);
        let seen = Seen::in_run(&sandbox.run_folder());
        assert_eq!(sandbox.leftovers(), [""; 0]);
        left.retain(|((name, ..), shows)| {
            let judged = match shows {
                Shows::Broken => seen.broke_and_healed(name),
                Shows::Slower(to) => seen.slowed_and_healed(name, *to),
            };
            why.extend(judged.clone().err());
            judged.is_err()
        });
        if left.is_empty() {
            return;
        }
    }
    panic!("{why:#?}");
}

/// Writes an experiment on the notebook with consecutive faults: kind, length, and other keys of
/// each.
pub fn experiment(sandbox: &Sandbox, lab: &str, page: &str, faults: &[(&str, &str, &str)], every_s: f64) -> String {
    let step = format!("[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"{page}\" }}\n");
    // Taking memory takes time.
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
    sandbox.file("faults.toml", text)
}

/// Expects that all of these faults break the service.
pub fn breaking(faults: &[Wanted]) -> Vec<(Wanted, Shows)> {
    faults.iter().map(|fault| (*fault, Shows::Broken)).collect()
}

#[test]
fn faults_of_hosts_and_processes_are_felt_and_healed() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    let faults = breaking(&[
        ("partition", 0.8, "on = \"n1\"\nwith = { shape = \"one\", clients = \"majority\" }"),
        ("host_freeze", 0.8, "on = \"n1\""),
        ("pause", 0.8, "on = \"n1\""),
        ("link_flap", 0.8, "on = \"n1\"\nwith = { down = \"10s\" }"),
        ("lossy_link", 0.8, "on = \"n1\"\nwith = { loss_pct = 60 }"),
        ("slow_link", 0.8, "on = \"n1\"\nwith = { rate = \"64kbit\" }"),
        ("slow_port", 0.8, "on = \"n1\"\nwith = { port = \"http\", rate = \"64kbit\" }"),
        ("kill", 0.5, "on = \"n1\""),
        ("restart", 0.0, "on = \"n1\"\nwith = { wait = \"500ms\" }"),
        ("host_crash", 0.5, "on = \"n1\""),
        ("command", 0.8, "on = \"n1\"\nwith = { run = \"touch /tmp/closed\", heal = \"rm /tmp/closed\" }"),
    ]);
    felt_and_healed(|| Sandbox::new().with_shelves(), "hosts = 3", "/", &faults, 3.0);
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

/// Returns a sandbox with a profile.
fn with_profile(name: &str, text: &str) -> Sandbox {
    let sandbox = Sandbox::new().with_shelves();
    sandbox.file(&format!("profiles/{name}.toml"), text);
    sandbox
}

#[test]
fn faults_of_a_disk_are_felt_and_healed() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    let faults = [
        (("slow_disk", 1.5, "with = { write_iops = 10 }"), Shows::Slower(0.5)),
        (("full_disk", 1.0, "with = { leave = \"0B\" }"), Shows::Broken),
    ];
    let lab = "hosts = 1\nprofile = \"disk\"\nmeasure_storage = false";
    let disk = "what = \"a disk\"\n[disk]\nsource = \"made up\"\nsize = \"256MiB\"\nwrite_iops = 4000\n";
    felt_and_healed(|| with_profile("disk", disk), lab, "/write", &faults, 4.0);
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

#[test]
fn faults_of_processor_and_memory_are_felt_and_healed() {
    let Some(_turn) = lab_traces::turn() else { return };
    let slow = "what = \"slow\"\n[cpu]\nsource = \"made up\"\ncores = 1\nspeed = 0.5\n";
    let squeeze = [(("squeeze", 1.5, "with = { cpu = 0.04 }"), Shows::Slower(0.5))];
    felt_and_healed(|| with_profile("slow", slow), "hosts = 1\nprofile = \"slow\"", "/work", &squeeze, 4.0);
    let limit = breaking(&[("memory_limit", 1.5, "with = { size = \"64MiB\" }")]);
    felt_and_healed(|| Sandbox::new().with_shelves(), "hosts = 1", "/grab", &limit, 4.0);
}

#[test]
fn clock_skew_on_a_virtual_host_voids_the_trial() {
    let Some(_turn) = lab_traces::turn() else { return };
    let sandbox = Sandbox::new().with_shelves();
    let fault = [("clock_skew", "500ms", "with = { offset = \"5s\" }")];
    let file = experiment(&sandbox, "hosts = 1", "/", &fault, 2.0);
    let results = sandbox.run(&[&file]).exits(0).says(&["share the wall clock"]).json();
    assert_eq!(results["trials"][0]["verdict"]["is"], "void", "{results:#}");
}
