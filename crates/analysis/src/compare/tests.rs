//! Checks of comparisons of folders, on copies of the golden run: what is refused, and what is said of what differs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use super::*;

/// A folder for one test, gone when it is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("plimsoll-compare-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A copy of the golden run.
    fn copy(&self, name: &str) -> PathBuf {
        let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../record/golden");
        let from = golden.join("2026-11-20T10-31-05-a-name-server-crashes");
        let to = self.0.join(name);
        copy(&from, &to);
        to
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn edit(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from}");
    std::fs::write(path, text.replace(from, to)).unwrap();
}

fn refused(folders: &[&Path], options: &Options) -> String {
    compare(folders, options).expect_err("that cannot be compared").to_string()
}

#[test]
fn a_run_and_its_copy_do_not_differ() {
    let scratch = Scratch::new("copy");
    let (a, b) = (scratch.copy("a"), scratch.copy("b"));
    let found = compare(&[&a, &b], &Options { gate_pct: Some(5.0), ..Options::default() }).unwrap();
    assert_eq!(found.surroundings, Vec::new());
    assert_eq!(found.sides[0].name, a.display().to_string());
    assert_eq!((found.sides[0].runs, found.sides[0].trials), (1, 2));
    assert!(found.comparisons.len() > 3, "{found:#?}");
    assert!(found.comparisons.iter().all(|judged| !judged.comparison.significant), "{found:#?}");
    assert!(found.gated(Gated::Fails).next().is_none(), "{found:#?}");
    // Two trials that differ among themselves could not have shown 5 %, and the gate says so.
    assert!(found.gated(Gated::CannotTell).count() > 3, "{found:#?}");
    assert!(found.warnings.iter().any(|warning| warning.contains("might not have been shown")), "{:?}", found.warnings);
    assert!(found.warnings.iter().any(|warning| warning.contains("not played in turn")), "{:?}", found.warnings);
}

#[test]
fn what_differs_is_said() {
    let scratch = Scratch::new("differs");
    let (a, b) = (scratch.copy("a"), scratch.copy("b"));
    edit(&b.join("plan.json"), "\"agents\": 200", "\"agents\": 100");
    let kernel = RunFolder::at(&b).read_environment().unwrap().unwrap().kernel.unwrap();
    edit(&b.join("environment.json"), &kernel, "7.0.0");
    let found = compare(&[&a, &b], &Options::default()).unwrap();
    let fields: Vec<(&str, &str)> =
        found.surroundings.iter().map(|one| (one.of.as_str(), one.field.as_str())).collect();
    assert_eq!(fields, [("environment", "kernel"), ("plan", "load.agents")]);
    assert!(found.warnings.iter().any(|warning| warning.contains("different experiments")), "{:?}", found.warnings);
}

#[test]
fn a_folder_of_runs_is_one_side() {
    let scratch = Scratch::new("pool");
    let (base, candidate) = (scratch.0.join("base"), scratch.0.join("candidate"));
    for name in ["1", "2", "3"] {
        copy(&scratch.copy("one"), &base.join(name));
        copy(&scratch.copy("one"), &candidate.join(name));
    }
    let found = compare(&[&base, &candidate], &Options::default()).unwrap();
    assert_eq!((found.sides[0].runs, found.sides[1].trials), (3, 6));
    edit(&base.join("2/plan.json"), "\"agents\": 200", "\"agents\": 100");
    let why = refused(&[&base, &candidate], &Options::default());
    assert!(why.contains("different experiments") && why.contains("load.agents is 200"), "{why}");
}

#[test]
fn what_cannot_be_compared_is_refused_with_a_reason() {
    let scratch = Scratch::new("refused");
    let (a, empty) = (scratch.copy("a"), scratch.0.join("empty"));
    std::fs::create_dir(&empty).unwrap();
    for (folders, metric, word) in [
        (vec![a.as_path(), empty.as_path()], "failed_pct", "not a run folder"),
        (vec![a.as_path(), Path::new("nowhere/at/all")], "failed_pct", "nowhere/at/all"),
        (vec![a.as_path()], "failed_pct", "two folders"),
        (vec![a.as_path(), a.as_path()], "latency_us.p98", "latency_us.p98"),
    ] {
        let why = refused(&folders, &Options { metrics: vec![metric.to_owned()], gate_pct: None });
        assert!(why.contains(word), "{why}");
    }
    let other = scratch.copy("other");
    edit(&other.join("plan.json"), "\"point\": {}", "\"point\": { \"load.agents\": 200 }");
    let why = refused(&[&a, &other], &Options::default());
    assert!(why.contains("no common point"), "{why}");
}
