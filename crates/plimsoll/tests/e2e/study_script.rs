//! `scripts/study.sh` with a stand-in for Plimsoll that ends as its files say: the experiments that
//! are played or skipped, and the exit code. The real command makes the page, over prepared runs.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::sandbox::{Sandbox, root, signal, until};

const GOLDEN: &str = "crates/record/golden/2026-11-20T10-31-05-a-name-server-crashes";

/// Stand-in for Plimsoll, which notes its arguments. `check` fails for a file `bad`. `run` leaves a
/// run folder and exits with the number at the end of the file's name, or waits for SIGINT if that
/// is `waits`. All other commands run the real program.
const STAND_IN: &str = r#"#!/bin/bash
echo "$*" >>"$NOTES"
case $1 in
check) case $2 in *bad*) echo "bad file" >&2; exit 2 ;; esac; exit 0 ;;
run) ;;
*) exec "$REAL" "$@" ;;
esac
name=$(basename "$2" .toml)
out=$(sed 's/.*--out \([^ ]*\).*/\1/' <<<"$*")
mkdir -p "$out/2026-$name"
cp "$GOLDEN/plan.json" "$GOLDEN/analysis.json" "$out/2026-$name/"
echo '<!doctype html>' >"$out/2026-$name/report.html"
printf 'Title of %s\nIts question?\n\n  Its answer.\n\nvalid: nothing speaks against it\n\n  a table\n' "$name"
case $name in *waits) trap 'exit 130' INT; echo waiting >>"$NOTES"; while true; do sleep 0.05; done ;; esac
exit "${name##*-}"
"#;

struct StagedStudy {
    sandbox: Sandbox,
}

impl StagedStudy {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        sandbox.program("plimsoll", STAND_IN);
        sandbox.file("notes", "");
        Self { sandbox }
    }

    fn experiment(&self, name: &str) -> PathBuf {
        PathBuf::from(self.sandbox.file(
            &format!("{name}.toml"),
            "# A question?\n# short: --set 'sweep.\"a b\"=[1, 8]'\ntitle = \"x\"\n# short: no\n",
        ))
    }

    fn script(&self, experiments: &[PathBuf]) -> Command {
        let mut command = Command::new(root().join("scripts/study.sh"));
        command.arg("pi").args(experiments).env("PLIMSOLL", self.sandbox.path().join("plimsoll"));
        command.env("NOTES", self.sandbox.path().join("notes")).env("REAL", env!("CARGO_BIN_EXE_plimsoll"));
        command.env("GOLDEN", root().join(GOLDEN)).env("STUDY_RUNS", self.sandbox.path().join("runs"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Returns the exit code, standard output and standard error.
    fn plays(&self, experiments: &[PathBuf]) -> (i32, String, String) {
        let played = self.script(experiments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (played.status.code().unwrap(), text(played.stdout), text(played.stderr))
    }

    /// Returns the experiments that the stand-in played.
    fn played(&self) -> Vec<String> {
        let notes = fs::read_to_string(self.sandbox.path().join("notes")).unwrap();
        notes.lines().filter(|line| line.starts_with("run ")).map(str::to_owned).collect()
    }

    fn page(&self) -> Option<String> {
        let runs = fs::read_dir(self.sandbox.path().join("runs")).ok()?.next()?.unwrap().path();
        fs::read_to_string(runs.join("contents.html")).ok()
    }
}

#[test]
fn bad_verdicts_do_not_stop_a_study() {
    let study = StagedStudy::new();
    let experiments = ["07-a-6", "08-b-5", "09-c-0", "10-d-4"].map(|name| study.experiment(name));
    let (code, stdout, stderr) = study.plays(&experiments);
    assert_eq!(code, 4, "the first of 130, 2, 1, 3, 4, 6, 5\n{stderr}");
    let played = study.played();
    assert_eq!(played.len(), 4, "{played:?}");
    assert!(played[0].contains("07-a-6.toml --install") && !played[0].contains("--set"), "{played:?}");
    assert!(
        stdout.contains("Title of 09-c-0\nIts question?\n\n  Its answer.\n\nvalid: nothing")
            && !stdout.contains("a table")
    );
    assert!(stderr.contains("07-a-6: the result is void") && stderr.contains("08-b-5: a requirement was violated"));
    assert!(stdout.lines().last().unwrap().ends_with("contents.html"), "{stdout}");
    let page = study.page().unwrap();
    assert_eq!(page.matches("The whole report</a>").count(), 4);
    assert!(page.contains("href=\"2026-07-a-6/report.html\""));
    let short = study.script(&experiments[2..3]).env("SHORT", "1").output().unwrap();
    assert!(short.status.success());
    assert!(study.played()[4].ends_with("--set sweep.\"a b\"=[1, 8]"), "{:?}", study.played());
}

#[test]
fn a_bad_file_plays_nothing_and_a_bad_run_ends_the_study() {
    let study = StagedStudy::new();
    let good = study.experiment("07-a-0");
    let (code, _, stderr) = study.plays(&[good.clone(), study.experiment("11-bad-0")]);
    assert_eq!((code, study.played().len()), (2, 0));
    assert!(stderr.contains("bad file"), "{stderr}");
    assert_eq!(study.page(), None);

    let two = study.experiment("08-b-2");
    let (code, ..) = study.plays(&[good.clone(), two, good]);
    assert_eq!((code, study.played().len()), (2, 2), "nothing is played after it");
    assert_eq!(study.page().unwrap().matches("The whole report</a>").count(), 2, "what there is, is linked");
}

#[test]
fn a_signal_ends_the_study() {
    let study = StagedStudy::new();
    let experiments = ["07-a-6", "08-waits", "09-c-0"].map(|name| study.experiment(name));
    let script = study.script(&experiments).spawn().unwrap();
    let notes = study.sandbox.path().join("notes");
    until("the second run waits", || fs::read_to_string(&notes).unwrap().contains("waiting"));
    // Only the script gets the signal, as from a supervisor. A terminal would signal the whole
    // group.
    signal("INT", script.id());
    let ended = script.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(study.played().len(), 2);
    assert_eq!(study.page().unwrap().matches("The whole report</a>").count(), 2);
}
