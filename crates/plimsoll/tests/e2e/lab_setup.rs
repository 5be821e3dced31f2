//! Labs that cannot be made, or not as requested. Each gives the reason, does without what is
//! optional, and leaves nothing behind. Also the output about labs that can be made.
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::lab_traces;
use crate::sandbox::{Played, Sandbox, root};

const HEAD: &str =
    "title = \"lab\"\nasks = \"can it be made?\"\n[target]\nuse = \"notebook\"\n[lab]\nmeasure_storage = false\n";
const LOAD: &str = "[load]\nagents = 2\ntime = \"1s\"\ntimeout = \"300ms\"\nthink = \"10ms\"\nwarmup = \"0s\"\n\
                    [[load.cycle]]\ncall = \"get\"\nwith = { path = \"/write\" }\n";
const SMALL: &str = "what = \"small\"\n[disk]\nsource = \"made up\"\nsize = \"64MiB\"\nwrite_iops = 500\n";
const FAR: &str = "what = \"far\"\n[link]\nsource = \"made up\"\ndelay = \"20ms\"\n";
const CUT: &str = "[[fault]]\nname = \"cut\"\nkind = \"partition\"\non = \"one\"\nat = \"300ms\"\nfor = \"300ms\"\n";
const SLOW: &str =
    "[[fault]]\nname = \"slow\"\nkind = \"slow_link\"\nat = \"300ms\"\nfor = \"300ms\"\nwith = { delay = \"5ms\" }\n";

/// Returns a sandbox with an experiment: `lab` follows `[lab]`, then come the faults.
pub fn sandbox(lab: &str, faults: &str) -> (Sandbox, String) {
    let sandbox = Sandbox::new().with_shelves();
    sandbox.file("profiles/small.toml", SMALL);
    sandbox.file("profiles/far.toml", FAR);
    let file = sandbox.file("lab.toml", format!("{HEAD}{lab}\n{LOAD}{faults}"));
    (sandbox, file)
}

/// Checks that a run is refused before anything is made, even a folder.
#[track_caller]
fn refused(sandbox: &Sandbox, played: Played, words: &[&str]) {
    played.exits(3).says(words);
    assert!(!sandbox.path().join("runs").exists(), "a refused run has left a folder");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

/// Folder with links to programs, without some of them, outside of the folders that a host
/// replaces. Removed when dropped.
struct Programs(PathBuf);

impl Programs {
    fn without(missing: &[&str]) -> Self {
        let folder =
            PathBuf::from(format!("/var/tmp/plimsoll-test-programs-{}-{}", std::process::id(), missing.join("-")));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        for from in ["/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"] {
            for program in fs::read_dir(from).into_iter().flatten().flatten() {
                if !missing.iter().any(|missing| program.file_name() == *missing) {
                    // The first program of a name counts.
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
    let Some(_turn) = lab_traces::turn() else { return };
    let before = lab_traces::inventory();
    for (program, package, needing, not_needing) in [
        ("ip", "iproute2", ("hosts = 2", ""), None),
        ("tc", "iproute2", ("hosts = 1", SLOW), Some(("hosts = 2\nprofile = \"small\"", CUT))),
        ("nft", "nftables", ("hosts = 2", CUT), Some(("hosts = 1\nprofile = \"small\"", ""))),
        ("mkfs.ext4", "e2fsprogs", ("hosts = 1\nprofile = \"small\"", ""), Some(("hosts = 2", CUT))),
    ] {
        let programs = Programs::without(&[program]);
        let (sandbox, file) = sandbox(needing.0, needing.1);
        let played = sandbox.play_with(("PATH", programs.path()), &["run", &file]);
        refused(&sandbox, played, &[&format!("`{program}`"), package, "work without"]);
        if let Some(works) = not_needing {
            let (sandbox, file) = self::sandbox(works.0, works.1);
            let runs = sandbox.path().join("runs");
            let words = ["run", &file, "--accept", "--out", runs.to_str().unwrap()];
            sandbox.play_with(("PATH", programs.path()), &words).exits(0).says(&["up"]);
        }
    }
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

#[test]
fn a_delay_without_netem_is_refused() {
    let Some(_turn) = lab_traces::turn() else { return };
    let own_network = ["--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"];
    if Command::new("unshare").args(own_network).output().unwrap().status.success() {
        eprintln!("NOT TESTED: this kernel has netem");
        return;
    }
    let before = lab_traces::inventory();
    for (lab, faults) in [("hosts = 2\nprofile = \"far\"", ""), ("hosts = 2", SLOW)] {
        let (sandbox, file) = sandbox(lab, faults);
        let checked = sandbox.play(&["check", &file]).exits(0).stdout;
        assert!(checked.contains("cannot run these hosts") && checked.contains("netem"), "{checked}");
        let played = sandbox.start_run(&[&file]).wait();
        refused(&sandbox, played, &["netem", "this kernel lacks", "without"]);
    }
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

/// Plays in a mount namespace whose /sys/fs/cgroup is empty.
#[test]
fn only_limited_labs_need_control_groups() {
    let Some(_turn) = lab_traces::turn() else { return };
    const EMPTY: &str =
        "mount --make-rprivate / && umount -lR /sys/fs/cgroup && mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";
    let before = lab_traces::inventory();
    let play = |sandbox: &Sandbox, file: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", EMPTY, "sh", env!("CARGO_BIN_EXE_plimsoll"), "run", file, "--accept"]);
        played(command.arg("--out").arg(sandbox.path().join("runs")), sandbox)
    };
    let (unlimited, file) = sandbox("hosts = 2", CUT);
    let done = play(&unlimited, &file).exits(0).says(&["share all CPUs", "host n2: no control groups", "are refused"]);
    assert!(!done.stderr.contains("n2: n2"), "{}", done.stderr);
    assert_eq!(unlimited.leftovers(), [""; 0]);
    let (limited, file) = sandbox("hosts = 2\nprofile = \"small\"", "");
    let done = play(&limited, &file);
    refused(&limited, done, &["a profile's disk", "blkio", "work without it"]);
    assert_eq!(lab_traces::added_since(&before), [""; 0]);
}

/// Plays with the sandbox's own registry and profiles.
pub fn played(command: &mut Command, sandbox: &Sandbox) -> Played {
    let played = command
        .current_dir(root())
        .env("PLIMSOLL_TEST_STAGE", sandbox.path())
        .env("PLIMSOLL_TARGETS", root().join("crates/plimsoll/tests/targets"))
        .env("PLIMSOLL_PROFILES", sandbox.path().join("profiles"))
        .env("XDG_RUNTIME_DIR", sandbox.path().join("registry"))
        .env("TMPDIR", sandbox.path().join("scratch"))
        .output()
        .unwrap();
    Played::from(played)
}

/// An update or a build replaces the program in this way.
#[test]
fn a_run_survives_the_replacement_of_its_program() {
    let Some(_turn) = lab_traces::turn() else { return };
    let (mut sandbox, file) = sandbox("hosts = 2", "");
    let program = sandbox.path().join("plimsoll");
    sandbox.within("cp \"$1\" \"$0\" && shift && exec \"$0\" \"$@\"", &program);
    let mut running = sandbox.start_run(&[&file, "--set", "repeat=2"]);
    running.wait_for_load(Duration::ZERO);
    fs::remove_file(&program).unwrap();
    fs::write(&program, "half of another version").unwrap();
    let results = running.wait().exits(0).json();
    assert_eq!(results["trials"].as_array().unwrap().len(), 2);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

/// Copy of the program and its files that another user can read. Removed when dropped.
struct ForNobody(PathBuf);

impl ForNobody {
    fn new() -> Self {
        let folder = PathBuf::from(format!("/var/tmp/plimsoll-test-nobody-{}", std::process::id()));
        for room in ["profiles", "own"] {
            fs::create_dir_all(folder.join(room)).unwrap();
        }
        fs::write(folder.join("profiles/small.toml"), SMALL).unwrap();
        fixture::copy_program(env!("CARGO_BIN_EXE_plimsoll"), folder.join("plimsoll"));
        let targets = root().join("crates/plimsoll/tests/targets");
        assert!(Command::new("cp").arg("-r").args([targets, folder.join("targets")]).status().unwrap().success());
        assert!(Command::new("chmod").args(["-R", "a+rX"]).arg(&folder).status().unwrap().success());
        fs::set_permissions(folder.join("own"), fs::Permissions::from_mode(0o1777)).unwrap();
        Self(folder)
    }

    /// Plays an experiment of this text as a user who is not root.
    fn play(&self, text: &str, words: &[&str]) -> Played {
        let own = self.0.join("own");
        fs::write(own.join("lab.toml"), text).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(self.0.join("plimsoll")).args(words);
        command.env("PLIMSOLL_TARGETS", self.0.join("targets")).env("PLIMSOLL_PROFILES", self.0.join("profiles"));
        command.env("XDG_RUNTIME_DIR", &own).env("TMPDIR", &own).current_dir(own);
        Played::from(command.output().unwrap())
    }
}

impl Drop for ForNobody {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn labs_that_need_root_are_refused_to_other_users() {
    let Some(_turn) = lab_traces::turn() else { return };
    let nobody = ForNobody::new();
    for (lab, faults) in [("hosts = 3", ""), ("hosts = 3\nprofile = \"small\"", ""), ("hosts = 3", CUT)] {
        let text = format!("{HEAD}{lab}\n{LOAD}{faults}");
        let done = nobody.play(&text, &["run", "lab.toml"]).exits(3);
        done.says(&["virtual hosts", "needs root", "profile", "fault", "without root", "leave out [lab]", "ssh"]);
        let checked = nobody.play(&text, &["check", "lab.toml"]).exits(0).stdout;
        assert!(checked.contains("n1 … n3 (3 hosts)") && checked.contains("needs root"), "{checked}");
        assert!(!nobody.0.join("own/runs").exists());
        assert!(nobody.play(&text, &["clean"]).exits(0).stdout.contains("nothing was left"));
    }
    let text = format!("{}{LOAD}", HEAD.replace("[lab]\nmeasure_storage = false\n", ""));
    nobody.play(&text, &["run", "lab.toml", "--accept"]).exits(0);
}

#[test]
fn a_lab_that_does_not_fit_is_refused_with_a_remedy() {
    let Some(_turn) = lab_traces::turn() else { return };
    let (sandbox, file) = sandbox("hosts = 2\ngenerator_cpus = 0", "");
    let profile = |core: &str, memory: &str| {
        sandbox.file(
            "profiles/odd.toml",
            format!("what = \"odd\"\n[cpu]\nsource = \"x\"\n{core}\n[memory]\nsource = \"x\"\nsize = \"{memory}\"\n"),
        );
    };
    let run = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let words: Vec<&str> = [file.as_str(), "--set", "lab.profile=odd"].into_iter().chain(sets).collect();
        sandbox.start_run(&words).wait()
    };
    profile("cores = 1\nspeed = 0.1", "900TiB");
    refused(&sandbox, run(&[]), &["1800TiB of memory in total", "is available"]);
    profile("cores = 1\nspeed = 0.1", "64MiB");
    refused(&sandbox, run(&["lab.speed=0.05"]), &["below the minimum of 0.01", "lab.speed must be at least 0.1"]);
    let (many, many_file) = self::sandbox("hosts = 255", "");
    refused(&many, many.start_run(&[&many_file]).wait(), &["255 virtual hosts are too many: a lab has at most 253"]);
    let all = std::thread::available_parallelism().unwrap().get();
    profile(&format!("cores = {}\nspeed = 1", 2 * all), "64MiB");
    let done = run(&[]);
    let speed =
        done.stderr.lines().find_map(|line| line.split_once("the largest speed that fits is ")).unwrap().1.to_owned();
    refused(&sandbox, done, &[&format!("need {} of this machine's cores", 4 * all)]);
    run(&[&speed, "load.agents=1"]).exits(0).says(&["all 2 hosts are up"]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn hosts_that_cannot_reach_each_other_are_refused() {
    let host = |name: &str, more: &str| format!("[[lab.host]]\nname = \"{name}\"\n{more}\n");
    let networks = "[[lab.network]]\nname = \"x\"\n[[lab.network]]\nname = \"y\"\n";
    let apart = host("a", "networks = [\"x\"]") + &host("b", "networks = [\"y\"]") + networks;
    let mixed = host("a", "") + &host("b", "ssh = \"pi@192.0.2.1\"");
    let Some(_turn) = lab_traces::turn() else { return };
    for (lab, words) in
        [(apart, ["cannot reach network `y`", "routes = true"]), (mixed, ["over ssh", "all hosts virtual"])]
    {
        let (sandbox, file) = sandbox(&lab, "");
        let checked = sandbox.play(&["check", &file]).exits(0).stdout;
        assert!(checked.contains("no machine can run these hosts") && checked.contains(words[0]), "{checked}");
        let done = sandbox.start_run(&[&file]).wait();
        refused(&sandbox, done, &words);
    }
}

#[test]
fn check_shows_equal_hosts_in_one_line() {
    let (sandbox, file) = sandbox("hosts = 16\nprofile = \"small\"\ngenerator_cpus = 0", "");
    let checked = sandbox.play(&["check", &file]).exits(0).stdout;
    let line = "  n1 … n16 (16 hosts)  small  all the CPU it gets, disk of 64MiB, disk 500 writes/s\n";
    assert!(checked.contains(line) && !checked.contains("n2"), "{checked}");
}

#[test]
fn host_states_are_shown_during_and_after_a_run() {
    let Some(_turn) = lab_traces::turn() else { return };
    let crash = "[[fault]]\nname = \"boom\"\nkind = \"host_crash\"\non = \"n2\"\nat = \"300ms\"\nfor = \"300ms\"\n";
    let (sandbox, file) = sandbox("hosts = 2\nprofile = \"small\"", crash);
    let done = sandbox.run(&[&file]).exits(0);
    let order = ["starting 2 hosts", "all 2 hosts are up", "host n2 is down", "host n2 is up again", "stopping"];
    let at: Vec<Option<usize>> = order.iter().map(|words| done.stderr.find(words)).collect();
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{}", done.stderr);
    assert!(!done.stderr.contains("n1 is down"), "{}", done.stderr);
    let folder = sandbox.run_folder();
    let shown = sandbox.play(&["show", folder.to_str().unwrap()]).exits(0).stdout;
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("(small) are emulated"), "{shown}");
    let results = sandbox.play(&["show", folder.to_str().unwrap(), "--json"]).exits(0).json();
    let hosts = results.pointer("/trials/0/hosts").and_then(Value::as_array).unwrap();
    let names: Vec<_> = hosts.iter().map(|host| host["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["n1", "n2"]);
    assert!(hosts.iter().all(|host| host["kind"] == "netns" && host["profile"] == "small"), "{hosts:?}");
    assert_eq!(results.pointer("/trials/0/emulated/profiles/0"), Some(&Value::from("small")));
}
