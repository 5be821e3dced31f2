//! Folders of a process on tiers of storage, and processes that run as another user, on this
//! machine and on virtual hosts. Nothing of them is left behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use record::folder::RunFolder;
use serde_json::Value;

use crate::lab_traces;
use crate::sandbox::{Sandbox, number, root, until};

const LOAD: &str = "[load]\nagents = 2\ntime = \"4s\"\ntimeout = \"700ms\"\nthink = \"20ms\"\nwarmup = \"0s\"\n\
                    [[load.cycle]]\ncall = \"get\"\nwith = { path = \"/\" }\n";

fn experiment(with: &str, lab: &str, more: &str) -> String {
    format!(
        "title = \"tiers\"\nasks = \"Where is what?\"\n[target]\nuse = \"shelf\"\nwith = {{ {with} }}\n{lab}\n{LOAD}{more}"
    )
}

fn events(run: &Path) -> String {
    fs::read_to_string(RunFolder::at(run).trial("001").events()).unwrap()
}

/// Returns the answers of the hook `inspect` before and after the load.
fn inspected(run: &Path) -> Vec<Value> {
    let events = events(run);
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["event"] == "inspected").map(|event| event["says"].clone()).collect()
}

/// The tests' target in a folder that every user may enter. Removed when dropped.
struct OpenFolder(PathBuf);

impl OpenFolder {
    fn new(name: &str) -> Self {
        let folder = PathBuf::from(format!("/var/tmp/plimsoll-test-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for OpenFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().unwrap().stdout == b"0\n"
}

fn of_runs(folder: &str) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("plimsoll-run-")).collect()
}

#[test]
fn local_folders_can_be_in_memory_or_persistent_memory() {
    let sandbox = Sandbox::new().with_shelves();
    let pmem = sandbox.path().join("pmem");
    fs::create_dir(&pmem).unwrap();
    let lab = |dax: &str| format!("[lab.tier.pmem]\npath = {:?}\n{dax}\n", pmem.display().to_string());
    let with = "data_tier = \"memory\", logs_tier = \"pmem\"";
    let strict = sandbox.file("strict.toml", experiment(with, &lab(""), ""));
    sandbox.run(&[&strict]).exits(3).says(&["the tier `pmem` needs a file system mounted with dax", "dax = false"]);

    let file = sandbox.file("tiers.toml", experiment(with, &lab("dax = false"), ""));
    let played = sandbox.run(&[&file]).exits(0);
    let run = sandbox.run_folder();
    let said = inspected(&run);
    assert_eq!(said[0]["data_on"], "tmpfs", "{said:?}");
    assert_ne!(said[0]["logs_on"], "tmpfs", "{said:?}");
    let tiers = &played.json()["trials"][0]["hosts"][0]["figures"]["tiers"];
    assert_eq!(tiers["memory"]["folders"], serde_json::json!(["node.data"]), "{tiers}");
    assert_eq!(tiers["pmem"]["on"], pmem.display().to_string());
    assert!(number(tiers, "/memory/write_per_s") > 0.0 || tiers["memory"]["unmeasured"].is_string(), "{tiers}");
    assert!(fs::read_dir(&pmem).unwrap().next().is_none(), "its folder is gone");
    let report = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(report.contains("Storage tiers") && report.contains("node.data"));
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn check_reports_variants_that_differ_only_in_paths() {
    let variants = "[[variant]]\nname = \"slow\"\n[[variant]]\nname = \"fast\"\n[variant.target]\nwith = { data_tier = \"memory\" }\n";
    let sandbox = Sandbox::new().with_shelves();
    let file = sandbox.file("variants.toml", experiment("", "", variants));
    let listed = sandbox.play(&["check", &file]).exits(0).stdout;
    assert!(listed.contains("differ only in the tiers of folders: node.data on disk or memory"), "{listed}");
    let other = "[variant.load]\nagents = 3\n";
    let file = sandbox.file("others.toml", experiment("", "", &format!("{variants}{other}")));
    assert!(!sandbox.play(&["check", &file]).exits(0).stdout.contains("differ only in"));
}

#[test]
fn a_process_runs_as_the_user_that_its_target_names() {
    if !is_root() {
        eprintln!("skipped: only root can run a process as another user");
        return;
    }
    let (open, sandbox) = (OpenFolder::new("shelf"), Sandbox::new().with_shelves());
    let nobody = sandbox.file("nobody.toml", experiment("user = \"nobody\", data_tier = \"memory\"", "", ""));
    let targets = root().join("crates/plimsoll/tests/targets");
    let copied = Command::new("cp").arg("-r").arg(targets.join("shelf")).arg(open.path()).status().unwrap();
    assert!(copied.success());
    let runs = sandbox.path().join("runs");
    let words = ["run", &nobody, "--json", "--accept", "--out", runs.to_str().unwrap()];
    let mut sandbox = sandbox;
    sandbox.set("PLIMSOLL_TARGETS", open.path());
    sandbox.play_with(("TMPDIR", "/var/tmp"), &words).exits(0);
    assert_eq!(inspected(&sandbox.run_folder())[0]["owner"], "nobody");
    fs::remove_dir_all(&runs).unwrap();

    let ghost = sandbox.file("ghost.toml", experiment("user = \"no-such-user\"", "", ""));
    let refused = sandbox.run(&[&ghost]).exits(3);
    refused.says(&["`node` must run as user `no-such-user`, which does not exist", "useradd --system"]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn missing_kernel_settings_are_reported_before_a_run() {
    let (open, mut sandbox) = (OpenFolder::new("needs"), Sandbox::new());
    let targets = root().join("crates/plimsoll/tests/targets");
    assert!(Command::new("cp").arg("-r").arg(targets.join("shelf")).arg(open.path()).status().unwrap().success());
    let manifest = open.0.join("shelf/target.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"vm.max_map_count\" = 1000", "\"vm.max_map_count\" = 4000000000")).unwrap();
    sandbox.set("PLIMSOLL_TARGETS", open.path());
    let file = sandbox.file("needs.toml", experiment("", "", ""));
    let told = ["vm.max_map_count is", "`shelf` needs at least 4000000000", "sysctl -w vm.max_map_count=4000000000"];
    sandbox.run(&[&file]).exits(3).says(&told);
    let found = sandbox.play(&["doctor", &file]).exits(0).stdout;
    assert!(found.contains("its settings") && found.contains(told[2]), "{found}");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

const LAB: &str = "[lab]\nhosts = 2\n[lab.tier.sata]\nsize = \"64MiB\"\nwrite_iops = 300\n";
const TIERS: &str = "user = \"nobody\", data_tier = \"sata\", logs_tier = \"memory\"";

#[test]
fn a_crash_keeps_volumes_and_clears_memory_tiers() {
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    let sandbox = Sandbox::new().with_shelves();
    let faults = "[[fault]]\nname = \"crash\"\nkind = \"host_crash\"\non = \"n1\"\nat = \"500ms\"\nfor = \"500ms\"\n\
                  [[fault]]\nname = \"slow\"\nkind = \"slow_disk\"\non = \"n2\"\nat = \"1s\"\nfor = \"1s\"\nwith = { write_iops = 20, tier = \"sata\" }\n\
                  [[fault]]\nname = \"full\"\nkind = \"full_disk\"\non = \"n2\"\nat = \"2500ms\"\nfor = \"500ms\"\nwith = { tier = \"sata\" }\n";
    let file = sandbox.file("tiers.toml", experiment(TIERS, LAB, faults));
    let results = sandbox.run(&[&file]).exits(0).json();
    let run = sandbox.run_folder();
    let events = events(&run);
    assert!(!events.contains("fault_failed"), "{events}");
    let said = inspected(&run);
    let last = said.last().unwrap();
    assert_eq!((number(last, "/data_starts"), number(last, "/logs_starts")), (2.0, 1.0), "{said:?}");
    assert_eq!((&last["logs_on"], &last["owner"]), (&"tmpfs".into(), &"nobody".into()), "{said:?}");
    let tiers = &results["trials"][0]["hosts"][1]["figures"]["tiers"];
    assert_eq!((&tiers["sata"]["on"], number(tiers, "/sata/limit_write_per_s")), (&"loop device".into(), 300.0));
    let measured = number(tiers, "/sata/write_per_s");
    assert!(measured < 500.0, "a limit of 300 lets {measured} writes a second pass");
    assert_eq!(sandbox.leftovers(), [""; 0]);
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

#[test]
fn clean_removes_folders_on_tiers_after_a_kill() {
    let Some(_turn) = lab_traces::turn_alone() else { return };
    let before = lab_traces::inventory();
    let sandbox = Sandbox::new().with_shelves();
    let pmem = sandbox.path().join("pmem");
    fs::create_dir(&pmem).unwrap();
    let lab = format!("{LAB}[lab.tier.pmem]\npath = {:?}\ndax = false\n", pmem.display().to_string());
    let on_hosts = experiment("data_tier = \"sata\", logs_tier = \"pmem\"", &lab, "");
    let here = experiment("data_tier = \"memory\"", "", "");
    for text in [on_hosts, here] {
        let file = sandbox.file("killed.toml", text.replace("time = \"4s\"", "time = \"1m\""));
        let mut playing = sandbox.start_run(&[&file, "--set", "lab.measure_storage=false"]);
        playing.wait_for_load(Duration::ZERO);
        let of_this_run = format!("-{}-", playing.pid());
        playing.signal("KILL");
        playing.wait();
        let cleaned = sandbox.play(&["clean"]).exits(0);
        until("the folder is gone", || fs::read_dir(&pmem).unwrap().next().is_none());
        assert_eq!(sandbox.leftovers(), [""; 0], "{}", cleaned.stdout);
        // Other tests may have runs there now.
        let mut left = of_runs("/dev/shm");
        left.retain(|name| name.contains(&of_this_run));
        assert_eq!(left, [""; 0]);
        fs::remove_dir_all(sandbox.runs()).unwrap();
    }
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}
