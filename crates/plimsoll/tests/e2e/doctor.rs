//! `plimsoll doctor` as a program. The tests change only recorded machines, never this one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sandbox::{Played, Sandbox, root};

const QUEUE: &str = "proc/sys/net/core/somaxconn";
const GOVERNOR: &str = "sys/devices/system/cpu/cpufreq/policy1/scaling_governor";

/// Writes the files of the recorded machine `bad` into this folder.
fn bad_machine(folder: &Path) -> String {
    let recorded = fs::read_to_string(root().join("crates/doctor/tests/machines/bad.txt")).unwrap();
    for file in recorded.split("\n== ").skip(1) {
        let (path, content) = file.split_once('\n').unwrap_or((file, ""));
        fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
        fs::write(folder.join(path), content).unwrap();
    }
    folder.display().to_string()
}

fn says(machine: &str, path: &str) -> String {
    fs::read_to_string(Path::new(machine).join(path)).unwrap().trim().to_owned()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|found| std::os::unix::fs::MetadataExt::uid(&found) == 0)
}

#[test]
fn doctor_checks_this_machine() {
    let sandbox = Sandbox::new();
    let out = sandbox.path().display().to_string();
    let played = sandbox.play(&["doctor", "--out", &out]).exits(0);
    for word in ["open files", "local ports", "CPU used by others", "synced writes", " good, "] {
        assert!(played.stdout.contains(word), "nothing about {word}: {}", played.stdout);
    }
    let is_command = |line: &str| ["echo ", "sysctl "].iter().any(|word| line.trim_start().starts_with(word));
    assert!(played.stdout.lines().all(|line| line.chars().count() <= 100 || is_command(line)), "{}", played.stdout);
    let report = sandbox.play(&["doctor", "--json", "--out", &out]).exits(0).json();
    let checkups = report["checkups"].as_array().unwrap();
    assert!(checkups.len() > 35 && ["unknown", "good", "notice", "bad"].contains(&report["worst"].as_str().unwrap()));
    for one in checkups {
        for field in ["name", "about", "state", "found", "why", "source"] {
            assert!(one[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {one}");
        }
    }
    assert_eq!(report["changes"].as_array().map(Vec::len), Some(0));
    assert!(sandbox.leftovers().is_empty(), "{:?}", sandbox.leftovers());
}

#[test]
fn doctor_checks_the_needs_of_an_experiment() {
    let sandbox = Sandbox::new();
    let machine = bad_machine(&sandbox.path().join("machine"));
    let crash = "experiments/03-name-service-crash.toml";
    let played = sandbox.play(&["doctor", crash, "--root", &machine]).exits(0);
    assert!(played.stdout.contains("its target") && played.stdout.contains("six tunings"), "{}", played.stdout);
    let agents = |agents: &str| {
        let report = sandbox.play(&["doctor", crash, "--set", agents, "--root", &machine, "--json"]).exits(0).json();
        let checkups = report["checkups"].as_array().unwrap().clone();
        let one = |name: &str| checkups.iter().find(|one| one["name"] == name).unwrap()["state"].clone();
        (one("open files"), one("local ports"))
    };
    assert_eq!(agents("load.agents=200"), ("good".into(), "notice".into()));
    // The loopback network has more than one address to connect from.
    assert_eq!(agents("load.agents=8000"), ("bad".into(), "good".into()));
    sandbox.play(&["doctor", "no-such-file.toml"]).exits(2).says(&["no-such-file.toml"]);
    sandbox.play(&["doctor", "--set", "load.agents=1"]).exits(2);
    sandbox.play(&["doctor", "--strict", "--root", &machine]).exits(5);
    let help = sandbox.play(&["doctor", "--help"]).exits(0).stdout;
    assert!(help.contains("--fix") && help.contains("--undo") && !help.contains("--root"), "{help}");
}

#[test]
fn fixes_are_shown_made_and_undone() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let machine = bad_machine(&sandbox.path().join("machine"));
    let fixed = sandbox.play(&["doctor", "--fix", "--root", &machine]).exits(0).stdout;
    assert!(fixed.contains(&format!("/{QUEUE}: 128 -> 4096 … done")), "{fixed}");
    assert_eq!((says(&machine, QUEUE), says(&machine, GOVERNOR)), ("4096".to_owned(), "performance".to_owned()));
    assert!(sandbox.path().join("registry/plimsoll/doctor.undo").is_file());
    // `clean` does not remove the record of the changes.
    sandbox.play(&["clean"]).exits(0);
    let again = sandbox.play(&["doctor", "--fix", "--root", &machine]).exits(0).stdout;
    assert!(again.contains("nothing that --fix could change"), "{again}");
    fs::write(Path::new(&machine).join(QUEUE), "2000\n").unwrap();
    let undone = sandbox.play(&["doctor", "--undo", "--root", &machine]).exits(0).stdout;
    assert!(undone.contains("left alone: the value has changed to 2000 since"), "{undone}");
    assert_eq!((says(&machine, QUEUE), says(&machine, GOVERNOR)), ("2000".to_owned(), "ondemand".to_owned()));
    let nothing = sandbox.play(&["doctor", "--undo", "--root", &machine]).exits(0).stdout;
    assert_eq!(nothing, "there is nothing to undo\n");
}

/// Copy of the program that another user can read. Removed when dropped.
struct ForNobody(PathBuf);

impl Drop for ForNobody {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn non_root_users_get_the_commands() {
    if !is_root() {
        return;
    }
    let nobody = ForNobody(PathBuf::from(format!("/var/tmp/plimsoll-doctor-nobody-{}", std::process::id())));
    let own = nobody.0.join("own");
    fs::create_dir_all(&own).unwrap();
    fs::set_permissions(&nobody.0, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o1777)).unwrap();
    fixture::copy_program(env!("CARGO_BIN_EXE_plimsoll"), nobody.0.join("plimsoll"));
    // Nothing is changed, even if all users can write the files.
    let machine = bad_machine(&nobody.0.join("machine"));
    assert!(Command::new("chmod").args(["-R", "a+rwX", &machine]).status().unwrap().success());
    let play = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(nobody.0.join("plimsoll")).args(words);
        command.env("XDG_RUNTIME_DIR", &own).env("TMPDIR", &own).current_dir(&own);
        Played::from(command.output().unwrap())
    };
    let played = play(&["doctor", "--fix", "--root", &machine]).exits(0).stdout;
    for word in
        ["As root:", "sysctl -w net.core.somaxconn=4096", "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"]
    {
        assert!(played.contains(word), "nothing about {word}: {played}");
    }
    assert_eq!((says(&machine, QUEUE), says(&machine, GOVERNOR)), ("128".to_owned(), "ondemand".to_owned()));
    assert!(play(&["doctor", "--undo", "--root", &machine]).exits(0).stdout.contains("there is nothing to undo"));
    assert!(fs::read_dir(&own).unwrap().next().is_none());
}
