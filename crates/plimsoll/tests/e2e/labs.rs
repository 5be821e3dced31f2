//! Labs that cannot be made, or not as asked: each says why, what works without, and leaves nothing; and what a user sees of
//! those that can.
#![allow(clippy::disallowed_methods, reason = "a test waits for another process by looking again")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::machine;
use crate::stage::{Played, Stage, root};

const HEAD: &str = "title = \"lab\"\nasks = \"can it be made?\"\n[target]\nuse = \"notebook\"\n[lab]\nmeasure_storage = false\n";
const LOAD: &str = "[load]\nagents = 2\ntime = \"1s\"\ntimeout = \"300ms\"\nthink = \"10ms\"\nwarmup = \"0s\"\n\
                    [[load.cycle]]\ncall = \"get\"\nwith = { path = \"/write\" }\n";
const SMALL: &str = "what = \"small\"\n[disk]\nsource = \"made up\"\nsize = \"64MiB\"\nwrite_iops = 500\n";
const FAR: &str = "what = \"far\"\n[link]\nsource = \"made up\"\ndelay = \"20ms\"\n";
const CUT: &str = "[[fault]]\nname = \"cut\"\nkind = \"partition\"\non = \"one\"\nat = \"300ms\"\nfor = \"300ms\"\n";
const SLOW: &str =
    "[[fault]]\nname = \"slow\"\nkind = \"slow_link\"\nat = \"300ms\"\nfor = \"300ms\"\nwith = { delay = \"5ms\" }\n";

/// A stage with an experiment: what follows `[lab]`, and faults.
fn stage(lab: &str, faults: &str) -> (Stage, String) {
    let stage = Stage::new().with_shelves();
    stage.file("profiles/small.toml", SMALL);
    stage.file("profiles/far.toml", FAR);
    let file = stage.file("lab.toml", format!("{HEAD}{lab}\n{LOAD}{faults}"));
    (stage, file)
}

/// A run that is refused before there is anything of it, not even a folder.
#[track_caller]
fn refused(stage: &Stage, played: Played, words: &[&str]) {
    played.exits(3).says(words);
    assert!(!stage.path().join("runs").exists(), "a refused run has left a folder");
    assert_eq!(stage.leftovers(), [""; 0]);
}

/// A folder of programs as links, without some, outside of what a host has of its own. Gone when dropped.
struct Programs(PathBuf);

impl Programs {
    fn without(missing: &[&str]) -> Self {
        let folder = PathBuf::from(format!("/var/tmp/plimsoll-test-programs-{}-{}", std::process::id(), missing.join("-")));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        for from in ["/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"] {
            for program in fs::read_dir(from).into_iter().flatten().flatten() {
                if !missing.iter().any(|missing| program.file_name() == *missing) {
                    // The first of a name counts.
                    let _ = symlink(program.path(), folder.join(program.file_name()));
                }
            }
        }
        Self(folder)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_missing_program_stops_only_labs_that_need_it() {
    let Some(_turn) = machine::turn() else { return };
    let before = machine::inventory();
    for (program, package, needing, not_needing) in [
        ("ip", "iproute2", ("hosts = 2", ""), None),
        ("tc", "iproute2", ("hosts = 1", SLOW), Some(("hosts = 2\nprofile = \"small\"", CUT))),
        ("nft", "nftables", ("hosts = 2", CUT), Some(("hosts = 1\nprofile = \"small\"", ""))),
        ("mkfs.ext4", "e2fsprogs", ("hosts = 1\nprofile = \"small\"", ""), Some(("hosts = 2", CUT))),
    ] {
        let programs = Programs::without(&[program]);
        let (stage, file) = stage_of(needing);
        let played = stage.play_with(("PATH", programs.path()), &["run", &file]);
        refused(&stage, played, &[&format!("`{program}`"), package, "work without"]);
        if let Some(works) = not_needing {
            let (stage, file) = stage_of(works);
            let runs = stage.path().join("runs");
            let words = ["run", &file, "--accept", "--out", runs.to_str().unwrap()];
            stage.play_with(("PATH", programs.path()), &words).exits(0).says(&["up"]);
        }
    }
    assert_eq!(machine::added_since(&before), [""; 0]);
}

fn stage_of((lab, faults): (&str, &str)) -> (Stage, String) {
    stage(lab, faults)
}

#[test]
fn a_delay_without_netem_is_refused_before_anything_is_made() {
    let Some(_turn) = machine::turn() else { return };
    let own_network = ["--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"];
    if Command::new("unshare").args(own_network).status().unwrap().success() {
        eprintln!("NOT TESTED: this kernel has netem");
        return;
    }
    let before = machine::inventory();
    for (lab, faults) in [("hosts = 2\nprofile = \"far\"", ""), ("hosts = 2", SLOW)] {
        let (stage, file) = stage(lab, faults);
        let checked = stage.play(&["check", &file]).exits(0).stdout;
        assert!(checked.contains("cannot make them") && checked.contains("netem"), "{checked}");
        let played = stage.start_run(&[&file]).wait();
        refused(&stage, played, &["netem", "this kernel has not", "without"]);
    }
    assert_eq!(machine::added_since(&before), [""; 0]);
}

/// In a mount namespace whose /sys/fs/cgroup is empty.
#[test]
fn without_control_groups_an_unlimited_lab_works_and_a_limited_one_is_refused() {
    let Some(_turn) = machine::turn() else { return };
    const EMPTY: &str = "mount --make-rprivate / && umount -lR /sys/fs/cgroup && mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";
    let before = machine::inventory();
    let play = |stage: &Stage, file: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", EMPTY, "sh", env!("CARGO_BIN_EXE_plimsoll"), "run", file, "--accept"]);
        played(command.arg("--out").arg(stage.path().join("runs")), stage)
    };
    let (unlimited, file) = stage("hosts = 2", CUT);
    let done = play(&unlimited, &file).exits(0).says(&["share all CPUs", "host n2: no control groups", "are refused"]);
    assert!(!done.stderr.contains("n2: n2"), "{}", done.stderr);
    assert_eq!(unlimited.leftovers(), [""; 0]);
    let (limited, file) = stage("hosts = 2\nprofile = \"small\"", "");
    let done = play(&limited, &file);
    refused(&limited, done, &["a profile's disk", "blkio", "without that"]);
    assert_eq!(machine::added_since(&before), [""; 0]);
}

/// Plays with the stage's own registry and shelves.
fn played(command: &mut Command, stage: &Stage) -> Played {
    let output = command
        .current_dir(root())
        .env("PLIMSOLL_TEST_STAGE", stage.path())
        .env("PLIMSOLL_TARGETS", root().join("crates/plimsoll/tests/targets"))
        .env("PLIMSOLL_PROFILES", stage.path().join("profiles"))
        .env("XDG_RUNTIME_DIR", stage.path().join("registry"))
        .env("TMPDIR", stage.path().join("scratch"))
        .output()
        .unwrap();
    Played {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn who_is_not_root_is_told_what_needs_root_and_what_does_not() {
    let Some(_turn) = machine::turn() else { return };
    // Where another user can read: what the tests are built in need not be.
    let (own, _) = stage("hosts = 3", "");
    let copy = PathBuf::from(format!("/var/tmp/plimsoll-test-user-{}", std::process::id()));
    fs::create_dir_all(copy.join("out")).unwrap();
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let targets = root().join("crates/plimsoll/tests/targets");
    let copied = Command::new("cp").args(["-r".as_ref(), targets.as_os_str(), copy.join("targets").as_os_str()]).status();
    assert!(copied.unwrap().success());
    fs::create_dir_all(copy.join("profiles")).unwrap();
    fs::write(copy.join("profiles/small.toml"), SMALL).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_plimsoll"), copy.join("plimsoll")).unwrap();
    for lab in ["hosts = 3", "hosts = 3\nprofile = \"small\"", "hosts = 3 # with a fault"] {
        let faults = if lab.ends_with("fault") { CUT } else { "" };
        fs::write(copy.join("lab.toml"), format!("{HEAD}{lab}\n{LOAD}{faults}")).unwrap();
        let done = as_nobody(&copy, &["run", "lab.toml", "--out", "out/runs"]).exits(3);
        done.says(&["virtual hosts", "needs root", "profile", "fault", "works without", "leave [lab] out", "ssh"]);
        let checked = as_nobody(&copy, &["check", "lab.toml"]).exits(0).stdout;
        assert!(checked.contains("n1 … n3 (3 hosts)") && checked.contains("needs root"), "{checked}");
        assert!(!copy.join("out/runs").exists());
        assert!(as_nobody(&copy, &["clean"]).exits(0).stdout.contains("nothing was left"));
    }
    let local = HEAD.replace("[lab]\nmeasure_storage = false\n", "");
    fs::write(copy.join("lab.toml"), format!("{local}{LOAD}")).unwrap();
    as_nobody(&copy, &["run", "lab.toml", "--accept", "--out", "out/runs"]).exits(0);
    fs::remove_dir_all(&copy).unwrap();
    drop(own);

    fn as_nobody(copy: &Path, words: &[&str]) -> Played {
        let out = copy.join("out");
        fs::set_permissions(&out, fs::Permissions::from_mode(0o1777)).unwrap();
        fs::set_permissions(copy.join("plimsoll"), fs::Permissions::from_mode(0o755)).unwrap();
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(copy.join("plimsoll"))
            .args(words)
            .current_dir(copy)
            .env("PLIMSOLL_TARGETS", copy.join("targets"))
            .env("PLIMSOLL_PROFILES", copy.join("profiles"))
            .env("XDG_RUNTIME_DIR", &out)
            .env("TMPDIR", &out)
            .output()
            .unwrap();
        Played {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
