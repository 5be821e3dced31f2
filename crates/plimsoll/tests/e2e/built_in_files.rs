//! The program away from its checkout, with the targets and experiments that are built into it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::sandbox::{Sandbox, json};

/// A copy of the program in a folder without other files.
struct Alone {
    sandbox: Sandbox,
    program: PathBuf,
}

impl Alone {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        // The program is so deep below the checkout that the search for targets above the program
        // does not reach it.
        let program = sandbox.path().join("a/b/c/d/bin/plimsoll");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::create_dir_all(sandbox.path().join("work")).unwrap();
        if fs::hard_link(env!("CARGO_BIN_EXE_plimsoll"), &program).is_err() {
            fixture::copy_program(env!("CARGO_BIN_EXE_plimsoll"), &program);
        }
        Self { sandbox, program }
    }

    fn play(&self, words: &[&str]) -> Output {
        let mark = self.sandbox.mark();
        let (name, value) = mark.split_once('=').unwrap();
        let mut command = Command::new(&self.program);
        command.args(words).current_dir(self.sandbox.path().join("work")).env(name, value).stdin(Stdio::null());
        command.env("XDG_RUNTIME_DIR", self.sandbox.path().join("registry"));
        command.env("TMPDIR", self.sandbox.path().join("scratch")).env("PLIMSOLL_DATA", self.data());
        command.env_remove("PLIMSOLL_TARGETS").output().unwrap()
    }

    #[track_caller]
    fn exits(&self, words: &[&str], code: i32) -> (String, String) {
        let output = self.play(words);
        let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert_eq!(output.status.code(), Some(code), "{words:?}\n{stdout}\n{stderr}");
        (stdout, stderr)
    }

    fn data(&self) -> PathBuf {
        self.sandbox.path().join("data")
    }
}

#[test]
fn an_experiment_is_played_by_its_name() {
    let alone = Alone::new();
    let (listed, _) = alone.exits(&["experiments"], 0);
    assert!(listed.contains("01-first-run") && listed.contains("A name server crashes at full load"), "{listed}");
    let (printed, _) = alone.exits(&["experiments", "01-first-run"], 0);
    assert!(printed.contains("title = \"First run\""), "{printed}");
    assert!(!alone.data().exists(), "nothing is written out to look at it");
    let shorter = ["--set", "load.time=300ms", "--set", "load.warmup=0s", "--accept", "--json"];
    let (_, said) = alone.exits(&[&["run", "01-first-run"][..], &shorter].concat(), 0);
    assert!(said.contains("01-first-run is built in: ") && said.contains("/data/"), "{said}");
    alone.exits(&["check", "experiments/03-name-service-crash.toml"], 0);
    let (_, said) = alone.exits(&["check", "name-service-crash"], 0);
    assert!(said.contains("03-name-service-crash is built in: "), "{said}");
    let (_, said) = alone.exits(&["run", "no-such-experiment"], 2);
    assert!(said.contains("`plimsoll experiments` lists those that are built in"), "{said}");
    assert_eq!(alone.sandbox.leftovers(), [""; 0]);
}

#[test]
fn a_target_is_written_out_before_it_is_used() {
    let alone = Alone::new();
    let (listed, _) = alone.exits(&["targets"], 0);
    for target in ["docket", "echo", "elasticsearch", "etcd", "opensearch", "pacemaker", "redis", "vsns"] {
        assert!(listed.lines().any(|line| line.starts_with(target)), "no {target} in\n{listed}");
    }
    assert!(!alone.data().exists(), "nothing is written out to list it");
    let (said, _) = alone.exits(&["install", "vsns", "--check"], 5);
    assert!(said.contains("build the name service") && said.contains("/data/"), "{said}");
    let runs = alone.sandbox.path().join("runs");
    let shorter = ["--set", "load.time=6s", "--set", "load.ramp=0s", "--set", "fault.oops.at=3s", "--install"];
    let words = ["run", "03-name-service-crash", "--accept", "--json", "--out", runs.to_str().unwrap()];
    // A requirement for half a minute of load may be violated in six seconds of it.
    let output = alone.play(&[&words[..], &shorter].concat());
    assert!(matches!(output.status.code(), Some(0 | 5)), "{}", String::from_utf8_lossy(&output.stderr));
    let results = json(&alone.sandbox.run_folder().join("analysis.json"));
    assert_eq!(results["trials"][0]["faults"][0]["name"], "oops", "{results:#}");
    assert_eq!(alone.sandbox.leftovers(), [""; 0]);
}

/// Files that another user could have written are not run.
#[test]
fn a_folder_that_others_can_write_to_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let alone = Alone::new();
    fs::create_dir(alone.data()).unwrap();
    fs::set_permissions(alone.data(), fs::Permissions::from_mode(0o777)).unwrap();
    let (_, said) = alone.exits(&["run", "01-first-run"], 2);
    assert!(said.contains("/data"), "{said}");
    assert_eq!(fs::read_dir(alone.data()).unwrap().count(), 0);
}
