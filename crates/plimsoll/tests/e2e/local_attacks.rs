//! Attacks of the local user `nobody` on root's Plimsoll, in a temporary folder that all users may
//! write, as /tmp is. No attack may do harm or keep root from working. /run is private, so that
//! other runs on this machine are not affected.
#![allow(clippy::disallowed_methods, reason = "a test waits for another process by looking again")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fixture::TestDir;

use crate::sandbox::{Played, root};

/// User id of the attacker.
const NOBODY: u32 = 65534;
/// Time limit of a command. A slower command waits for a resource that the attacker holds.
const PATIENCE: Duration = Duration::from_secs(300);
/// Memory limit of a command, which normal work does not reach.
const MEMORY_KB: u64 = 512 << 10;
/// Runs a command in a mount namespace with a private /run.
const PRIVATELY: &str = "mount -t tmpfs none /run && exec \"$@\"";

/// Root's folder with a temporary folder in it that all users may write.
struct Ground(TestDir);

impl Ground {
    fn new() -> Self {
        let ground = Self(TestDir::new());
        fs::create_dir(ground.shared()).unwrap();
        fs::set_permissions(ground.shared(), fs::Permissions::from_mode(0o1777)).unwrap();
        ground
    }

    /// Returns the folder that all users may write, but only owners may remove entries.
    fn shared(&self) -> PathBuf {
        self.0.join("shared")
    }

    /// Returns the folder of root's registry on a machine without /run.
    fn registry(&self) -> PathBuf {
        self.shared().join("plimsoll-0")
    }

    /// Makes root's folder in the shared one, with an experiment on the built-in target.
    fn experiment(&self, folder: &str) -> PathBuf {
        let text = fs::read_to_string(root().join("experiments/01-first-run.toml")).unwrap();
        let path = self.shared().join(folder).join("first.toml");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Runs a shell script as `nobody` in the shared folder, with `input` on its standard input.
    fn nobody(&self, script: &str, input: &str) {
        let mut shell = Command::new("sh")
            .args(["-ec", script])
            .current_dir(self.shared())
            .uid(NOBODY)
            .gid(NOBODY)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        shell.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        assert!(shell.wait().unwrap().success(), "the attack itself does not work: {script}");
    }

    /// Runs `plimsoll WORDS…` as root in a folder. Returns an error that describes harm, if any.
    fn root_plays(&self, folder: &Path, words: &[&str]) -> Result<Played, String> {
        let child = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", PRIVATELY, "sh"])
            .arg(env!("CARGO_BIN_EXE_plimsoll"))
            .args(words)
            .current_dir(folder)
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("PLIMSOLL_TARGETS")
            .env("TMPDIR", self.shared())
            .env("PLIMSOLL_DATA", self.0.join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        watched(child).map_err(|what| format!("`plimsoll {}` {what}", words.join(" ")))
    }

    /// Checks that `clean`, `run` and `hit`, which look for leftovers of killed runs, work and name
    /// what is not root's.
    fn root_works(&self, names: &str) -> Result<(), String> {
        let file = self.experiment("work");
        let work = self.shared().join("work");
        let run = ["run", file.to_str().unwrap(), "--set", "load.time=300ms", "--set", "load.warmup=0s", "--accept"];
        // Nothing answers there. The command finds out only after it has looked for leftovers.
        let hit = ["hit", "http://127.0.0.1:9/", "-t", "1s"];
        for (words, code) in [(&["clean"][..], 0), (&run, 0), (&hit, 4)] {
            let played = self.root_plays(&work, words)?;
            if played.code != code {
                return Err(format!("`plimsoll {}` ended with {}: {}", words[0], played.code, played.stderr));
            }
            if !played.stderr.contains(names) {
                return Err(format!("`plimsoll {}` does not name {names}: {}", words[0], played.stderr));
            }
        }
        Ok(())
    }
}

/// Waits for the end of a command. Kills it if it waits forever or takes too much memory.
fn watched(mut child: Child) -> Result<Played, String> {
    let status = format!("/proc/{}/status", child.id());
    let begun = Instant::now();
    let harm = loop {
        if child.try_wait().unwrap().is_some() {
            break None;
        }
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        if peak.is_some_and(|peak: u64| peak > MEMORY_KB) {
            break Some("takes memory without end");
        }
        if begun.elapsed() > PATIENCE {
            break Some("does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    if harm.is_some() {
        let _ = child.kill();
    }
    let played = Played::from(child.wait_with_output().unwrap());
    harm.map_or(Ok(played), |harm| Err(harm.to_owned()))
}

/// Plants a target `echo` with a hook of `nobody` near root's experiments, and runs `words` as root
/// with each.
fn planted_target(words: &[&str]) -> Result<(), String> {
    let ground = Ground::new();
    let manifest = fs::read_to_string(root().join("targets/echo/target.toml")).unwrap();
    let trap = format!(
        "mkdir -p targets/echo
         cat > targets/echo/target.toml
         printf '\\n[hooks]\\ninstall = \"hook\"\\nversions = \"hook\"\\n' >> targets/echo/target.toml
         printf '#!/bin/sh\\nid > {0}/pwned; echo {{}}\\n' > targets/echo/hook
         chmod +x targets/echo/hook",
        ground.0.display()
    );
    ground.nobody(&trap, &manifest);
    // Above the working folder, in it, next to the experiment file, and next to the experiments.
    for (folder, working) in [("alice/experiments", "alice"), (".", "."), ("experiments", "."), ("alice", "alice")] {
        let file = ground.experiment(folder);
        let working = ground.shared().join(working);
        ground.root_plays(&working, &[words, &[file.to_str().unwrap()]].concat())?;
        if let Ok(whose) = fs::read_to_string(ground.0.join("pwned")) {
            return Err(format!("a hook of nobody's ran as {}", whose.trim()));
        }
    }
    Ok(())
}

fn a_target_above_the_working_folder_is_run() -> Result<(), String> {
    planted_target(&["run", "--set", "load.time=300ms", "--set", "load.warmup=0s", "--accept"])
}

fn a_target_above_the_working_folder_is_examined() -> Result<(), String> {
    planted_target(&["doctor"])
}

/// Attack: a registry of `nobody` has an entry that names root's process as a leftover of a run.
fn a_forged_entry_kills_a_process_of_root() -> Result<(), String> {
    let ground = Ground::new();
    let mut victim = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", victim.id())).unwrap();
    let started_ticks = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let entry = format!(
        "{{\"made\":\"run\",\"id\":\"forged\",\"owner\":{{\"pid\":4194304,\"started_ticks\":1,\"boot\":\"{}\"}},\"folder\":\"x\"}}
{{\"made\":\"group\",\"pid\":{},\"started_ticks\":{started_ticks}}}\n",
        boot.trim(),
        victim.id()
    );
    ground.nobody("mkdir plimsoll-0; cat > plimsoll-0/forged.jsonl", &entry);
    let worked = ground.root_works("plimsoll-0");
    let is_dead = victim.try_wait().unwrap().is_some();
    let _ = victim.kill();
    victim.wait().unwrap();
    let is_kept = ground.registry().join("forged.jsonl").exists();
    match (is_dead, is_kept) {
        (true, _) => Err("a process of root's was killed".to_owned()),
        (false, false) => Err("what is nobody's was removed".to_owned()),
        (false, true) => worked,
    }
}

/// Attack: a link to root's folder replaces the registry. Files in that folder are no entries, and
/// must not be removed.
fn a_linked_registry_deletes_files_of_root() -> Result<(), String> {
    let ground = Ground::new();
    let precious = ground.0.join("records");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("history.jsonl"), "{\"key\": 1}\n").unwrap();
    ground.nobody(&format!("ln -s {} plimsoll-0", precious.display()), "");
    let worked = ground.root_works("plimsoll-0");
    if !precious.join("history.jsonl").exists() {
        return Err("a file of root's was removed".to_owned());
    }
    worked
}

fn a_pipe_in_the_registry_holds_root_up() -> Result<(), String> {
    let ground = Ground::new();
    ground.nobody("mkdir plimsoll-0; mkfifo plimsoll-0/a.jsonl", "");
    ground.root_works("plimsoll-0")
}

fn an_endless_entry_takes_all_memory() -> Result<(), String> {
    let ground = Ground::new();
    ground.nobody("mkdir plimsoll-0; ln -s /dev/zero plimsoll-0/a.jsonl", "");
    ground.root_works("plimsoll-0")
}

/// Plays a short run as root, in this folder of the ground.
fn played_run(ground: &Ground, out: &str) -> Result<PathBuf, String> {
    let (file, out) = (ground.experiment("work"), ground.0.join(out));
    let words =
        ["run", file.to_str().unwrap(), "--set", "load.time=300ms", "--set", "load.warmup=0s", "--accept", "--out"];
    let played = ground.root_plays(&ground.0, &[&words[..], &[out.to_str().unwrap()]].concat())?;
    let made = fs::read_dir(&out).ok().and_then(|mut entries| Some(entries.next()?.ok()?.path()));
    made.ok_or(played.stderr)
}

/// Attack: a folder of `nobody` has links to root's file, under every name to which `analyze` has
/// ever written.
fn links_in_an_analysed_folder_overwrite_files_of_root() -> Result<(), String> {
    let ground = Ground::new();
    let victim = ground.0.join("victim");
    fs::write(&victim, "precious").unwrap();
    let run = played_run(&ground, "runs")?;
    let theirs = ground.shared().join("theirs");
    assert!(Command::new("cp").arg("-r").args([&run, &theirs]).status().unwrap().success());
    assert!(Command::new("chown").args(["-R", "65534:65534"]).arg(&theirs).status().unwrap().success());
    let next = std::process::id();
    let plant = format!(
        "cd theirs; rm report.html analysis.json; for name in report.html analysis.json; do ln -s {0} $name
         for pid in $(seq {next} {1}); do ln -s {0} .$name.$pid; done; done",
        victim.display(),
        next + 2000
    );
    ground.nobody(&plant, "");
    let played = ground.root_plays(&ground.0, &["analyze", theirs.to_str().unwrap()])?;
    match (fs::read_to_string(&victim).unwrap() == "precious", played.code) {
        (false, _) => Err("a file of root's was overwritten".to_owned()),
        (true, 2) => Ok(()),
        (true, code) => Err(format!("`analyze` ended with {code}: {}", played.stderr)),
    }
}

/// Attack on root's results in folders that all users may write. A folder that is not sticky is
/// refused; in a sticky folder, links of other users are replaced.
fn links_in_the_place_of_results_overwrite_files_of_root() -> Result<(), String> {
    let ground = Ground::new();
    let victim = ground.0.join("victim");
    fs::write(&victim, "precious").unwrap();
    let run = played_run(&ground, "runs")?;
    let run = run.to_str().unwrap();
    ground.nobody(&format!("ln -s {} figures.csv; mkdir open; chmod 777 open", victim.display()), "");
    let (sticky, open) = (ground.shared().join("figures.csv"), ground.shared().join("open"));
    for (words, code) in [
        (vec!["export", "--csv", run, "--out", sticky.to_str().unwrap()], 0),
        (vec!["show", run, "--junit", sticky.to_str().unwrap()], 0),
        (vec!["export", "--csv", run, "--out", &format!("{}/figures.csv", open.display())], 2),
        (vec!["contents", run, "--out", &format!("{}/contents.html", open.display())], 2),
        (vec!["run", ground.experiment("work").to_str().unwrap(), "--accept", "--out", open.to_str().unwrap()], 2),
    ] {
        let played = ground.root_plays(&ground.0, &words)?;
        if fs::read_to_string(&victim).unwrap() != "precious" {
            return Err(format!("`plimsoll {}` overwrote a file of root's", words.join(" ")));
        }
        if played.code != code {
            return Err(format!("`plimsoll {}` ended with {}: {}", words.join(" "), played.code, played.stderr));
        }
    }
    let left = fs::read_dir(&open).unwrap().count();
    if left == 0 { Ok(()) } else { Err("root wrote into a folder of nobody's".to_owned()) }
}

/// Attack: files of `nobody` have the name of a built-in experiment, in the folder in which root
/// runs it.
fn a_file_stands_in_for_a_built_in_experiment() -> Result<(), String> {
    let ground = Ground::new();
    let trap = ground.0.join("pwned");
    let file = format!(
        "title = \"first\"\nasks = \"?\"\n[target]\nurl = \"http://127.0.0.1:9/\"\nstart = \"touch {}\"\n[load]\nagents = 1\ntime = \"300ms\"\n\
         [[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n",
        trap.display()
    );
    ground.nobody(
        "cat > 01-first-run; cp 01-first-run 01-first-run.toml; mkdir experiments; cp 01-first-run.toml experiments",
        &file,
    );
    for (name, code) in [("01-first-run", 0), ("01-first-run.toml", 2), ("experiments/01-first-run.toml", 2)] {
        let words =
            ["run", name, "--set", "load.time=300ms", "--set", "load.warmup=0s", "--accept", "--out", "/run/runs"];
        let played = ground.root_plays(&ground.shared(), &words)?;
        if trap.exists() {
            return Err(format!("a command of nobody's ran as root by `run {name}`"));
        }
        if played.code != code {
            return Err(format!("`run {name}` ended with {}: {}", played.code, played.stderr));
        }
    }
    Ok(())
}

type Attack = (&'static str, fn() -> Result<(), String>);

const ATTACKS: [Attack; 9] = [
    ("a target above the working folder is run", a_target_above_the_working_folder_is_run),
    ("a target above the working folder is examined", a_target_above_the_working_folder_is_examined),
    ("a forged entry kills a process of root's", a_forged_entry_kills_a_process_of_root),
    ("a linked registry deletes files of root's", a_linked_registry_deletes_files_of_root),
    ("a pipe in the registry holds root up", a_pipe_in_the_registry_holds_root_up),
    ("an endless entry takes all memory", an_endless_entry_takes_all_memory),
    ("links in an analysed folder overwrite files of root's", links_in_an_analysed_folder_overwrite_files_of_root),
    ("links in the place of results overwrite files of root's", links_in_the_place_of_results_overwrite_files_of_root),
    ("a file stands in for a built-in experiment", a_file_stands_in_for_a_built_in_experiment),
];

/// Prints a line past the test harness, which hides output of passed tests.
fn report(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[test]
fn no_attack_of_a_local_user_on_root_succeeds() {
    if !is_root() {
        report("skipped: the attacks of a local user are on root's Plimsoll");
        return;
    }
    let mut succeeded = Vec::new();
    for (name, attack) in ATTACKS {
        if let Err(harm) = attack() {
            succeeded.push(format!("{name}: {harm}"));
        }
    }
    // `make siege` reads this line.
    println!("campaign: attacks={} succeeded={}", ATTACKS.len(), succeeded.len());
    assert!(succeeded.is_empty(), "{}", succeeded.join("\n"));
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|found| std::os::unix::fs::MetadataExt::uid(&found) == 0)
}
