//! `plimsoll compare` on copies of the golden run with some changed figures: its output, files and
//! exit codes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::{Sandbox, root, until};

const GOLDEN: &str = "crates/record/golden/2026-11-20T10-31-05-a-name-server-crashes";

/// Factors of the machine's drift over four runs, the same for both sides.
const DRIFT: [f64; 4] = [1.0, 1.2, 0.9, 1.1];

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Rewrites a column of a CSV file.
fn rewrite(path: &Path, column: &str, value: impl Fn(&str) -> String) {
    let text = fs::read_to_string(path).unwrap();
    let index = text.lines().next().unwrap().split(',').position(|name| name == column).unwrap();
    let row = |(number, line): (usize, &str)| {
        let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
        // The last line of a killed trial is incomplete.
        if let Some(cell) = cells.get_mut(index).filter(|cell| number > 0 && !cell.is_empty()) {
            *cell = value(cell);
        }
        cells.join(",") + "\n"
    };
    fs::write(path, text.lines().enumerate().map(row).collect::<String>()).unwrap();
}

/// Makes four runs whose generators use `share` of the golden run's CPU. Each run begins `offset_s`
/// into a minute.
fn runs(sandbox: &Sandbox, name: &str, share: f64, offset_s: f64) -> PathBuf {
    // The two sides differ slightly, because tests need a spread.
    let shares = DRIFT.iter().zip([1e-4, -1e-4, 1e-4, -1e-4]).map(|(drift, by)| share * drift * (1.0 + offset_s * by));
    runs_of(sandbox, name, &shares.collect::<Vec<f64>>(), offset_s)
}

/// Makes the same runs with a share for each.
fn runs_of(sandbox: &Sandbox, name: &str, shares: &[f64], offset_s: f64) -> PathBuf {
    let side = sandbox.path().join(name);
    for (run, share) in shares.iter().enumerate() {
        let folder = side.join(format!("run-{run}"));
        copy(&root().join(GOLDEN), &folder);
        for trial in ["001", "002"] {
            let trial = folder.join("trials").join(trial);
            rewrite(&trial.join("generator.csv"), "cpu_pct", |cpu| (cpu.parse::<f64>().unwrap() * share).to_string());
            let events = fs::read_to_string(trial.join("events.jsonl")).unwrap();
            let begin = 1_795_170_000.0 + 60.0 * run as f64 + offset_s;
            let (_, rest) = events.split_once('\n').unwrap();
            let clock = format!("{{\"at_s\":0.0,\"event\":\"clock\",\"unix_s\":{begin:?}}}\n");
            fs::write(trial.join("events.jsonl"), clock + rest).unwrap();
        }
    }
    side
}

#[test]
fn a_regression_fails_the_gate_and_equal_runs_pass() {
    let sandbox = Sandbox::new();
    let base = runs(&sandbox, "base", 1.0, 0.0);
    let (same, slower) = (runs(&sandbox, "same", 1.001, 30.0), runs(&sandbox, "slower", 1.2, 30.0));
    let [base, same, slower] = [&base, &same, &slower].map(|path| path.to_str().unwrap());
    let (junit, markdown) = (sandbox.path().join("out.xml"), sandbox.path().join("out.md"));
    let files = ["--junit", junit.to_str().unwrap(), "--markdown", markdown.to_str().unwrap()];
    let metric = ["--metric", "generator.cpu_pct", "--gate", "5%"];

    let played = sandbox.play(&[&["compare", base, slower], &metric[..], &files].concat()).exits(5);
    for words in ["are the same", "generator.cpu_pct", "20 % higher", "4 pairs", "The gate of 5 % fails for one figure"]
    {
        assert!(played.stdout.contains(words), "no `{words}` in\n{}", played.stdout);
    }
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(xml.contains("failures=\"1\"") && xml.contains("<failure type=\"regression\" message=\""), "{xml}");
    assert!(fs::read_to_string(&markdown).unwrap().starts_with("### Plimsoll: The gate of 5 % fails"));

    // Compared the other way round, it is an improvement. A regression of 20 % passes a gate of 25
    // %.
    sandbox.play(&[&["compare", slower, base], &metric[..]].concat()).exits(0);
    sandbox.play(&["compare", base, slower, "--metric", "generator.cpu_pct", "--gate", "25"]).exits(0);
    sandbox.play(&[&["compare", base, same], &metric[..], &files].concat()).exits(0);
    assert!(fs::read_to_string(&junit).unwrap().contains("failures=\"0\""));

    let json = sandbox
        .play(&["compare", base, slower, "--metric", "generator.cpu_pct", "--gate", "5%", "--json"])
        .exits(5)
        .json();
    let one = &json["comparisons"][0];
    assert_eq!((&one["gate"], &one["pairs"], &one["significant"]), (&"fails".into(), &4.into(), &true.into()));
    assert!((one["worse_pct"].as_f64().unwrap() - 20.0).abs() < 0.01, "{one}");
}

#[test]
fn a_46_pct_regression_never_passes_with_3_repeats() {
    let sandbox = Sandbox::new();
    for (noise, code) in [(0.02, 5), (0.25, 7), (0.5, 7)] {
        let base = runs_of(&sandbox, &format!("base-{noise}"), &[1.0, 1.0 + noise, 1.0 - noise], 0.0);
        let shares = [1.0 - noise, 1.0 + noise, 1.0].map(|share| 1.46 * share);
        let other = runs_of(&sandbox, &format!("other-{noise}"), &shares, 30.0);
        let words = ["compare", base.to_str().unwrap(), other.to_str().unwrap()];
        let words = [&words[..], &["--metric", "generator.cpu_pct", "--gate", "5%"]].concat();
        let played = sandbox.play(&words).exits(code);
        assert!(played.stdout.contains("3 pairs") && !played.stdout.contains("holds"), "{}", played.stdout);
        if code == 7 {
            // The text may be wrapped anywhere.
            let said = played.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
            for words in ["The gate of 5 % is inconclusive", "generator.cpu_pct (", "would decide)"] {
                assert!(said.contains(words), "no `{words}` in\n{}", played.stdout);
            }
            sandbox.play(&[&words[..], &["--allow-inconclusive"]].concat()).exits(0);
        }
    }
    // One run of one trial on each side allows no test.
    let [base, other] = ["base", "other"].map(|name| runs_of(&sandbox, name, &[1.0], 0.0));
    for side in [&base, &other] {
        fs::remove_dir_all(side.join("run-0/trials/002")).unwrap();
    }
    let words = ["compare", base.to_str().unwrap(), other.to_str().unwrap(), "--gate", "5%"];
    let played = sandbox.play(&words).exits(7);
    assert!(played.stdout.contains("not tested: one run of each"), "{}", played.stdout);
}

#[test]
fn show_and_analyze_write_junit_and_markdown() {
    let sandbox = Sandbox::new();
    let run = sandbox.path().join("run");
    copy(&root().join(GOLDEN), &run);
    let (junit, markdown) = (sandbox.path().join("run.xml"), sandbox.path().join("run.md"));
    let files = ["--junit", junit.to_str().unwrap(), "--markdown", markdown.to_str().unwrap()];
    for command in ["show", "analyze"] {
        sandbox.play(&[&[command, run.to_str().unwrap()], &files[..]].concat()).exits(0);
        let xml = fs::read_to_string(&junit).unwrap();
        assert!(xml.contains("tests=\"3\"") && xml.contains("below 2 s\" classname=\"requirement\""), "{xml}");
        let text = fs::read_to_string(&markdown).unwrap();
        assert!(text.starts_with("### Plimsoll: ") && text.contains("#### Requirements"), "{text}");
        fs::remove_file(&junit).unwrap();
        fs::remove_file(&markdown).unwrap();
    }
}

#[test]
fn void_trials_in_a_comparison_exit_6() {
    let sandbox = Sandbox::new();
    let (base, other) = (runs(&sandbox, "base", 1.0, 0.0), runs(&sandbox, "other", 1.2, 30.0));
    for trial in ["001", "002"] {
        let generator = other.join("run-3/trials").join(trial).join("generator.csv");
        rewrite(&generator, "in_flight_mean", |_| "900".to_owned());
    }
    let [base, other] = [&base, &other].map(|path| path.to_str().unwrap());
    let words = ["compare", base, other, "--metric", "generator.cpu_pct", "--gate", "5%"];
    let played = sandbox.play(&words).exits(6);
    assert!(played.stdout.contains("2 of 8 trials are void and left out"), "{}", played.stdout);
    // With --accept, all runs of the two are compared, and the output says so.
    let played = sandbox.play(&[&words[..], &["--accept"]].concat()).exits(5);
    let said = played.stdout.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "");
    for words in
        ["2 of 8 trials are void (littles_law)", "but used (--accept)", "4 pairs", "Void trials are used as well"]
    {
        assert!(said.contains(words), "no {words} in\n{}", played.stdout);
    }
    let json = sandbox.play(&[&words[..], &["--accept", "--json"]].concat()).exits(5).json();
    assert_eq!((&json["sides"][1]["void"], &json["sides"][1]["accepted"]), (&2.into(), &2.into()));
    assert_eq!(json["sides"][1]["verdict"], "void", "the verdict stays");
}

/// Regression on a busy machine: when all runs of `compare --play` were void, the error asked for
/// runs of one experiment.
#[test]
fn a_fully_void_side_is_reported_as_void() {
    let sandbox = Sandbox::new();
    let (base, other) = (runs(&sandbox, "base", 1.0, 0.0), runs(&sandbox, "other", 1.2, 30.0));
    for (run, trial) in (0..4).flat_map(|run| ["001", "002"].map(|trial| (run, trial))) {
        let generator = other.join(format!("run-{run}/trials/{trial}/generator.csv"));
        rewrite(&generator, "in_flight_mean", |_| "900".to_owned());
    }
    let [base, other] = [&base, &other].map(|path| path.to_str().unwrap());
    let words = ["compare", base, other, "--metric", "generator.cpu_pct"];
    let played = sandbox.play(&words).exits(6);
    for said in
        ["8 of 8 trials are void and left out", "all trials are void (littles_law", "Nothing could be compared."]
    {
        let text = played.stdout.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "");
        assert!(text.contains(said), "no {said} in\n{}", played.stdout);
    }
    // With --accept, the runs are compared in pairs: 20 % more.
    let played = sandbox.play(&[&words[..], &["--accept"]].concat()).exits(0);
    assert!(played.stdout.contains("20 % higher") && played.stdout.contains("--accept"), "{}", played.stdout);
    sandbox.play(&[&words[..], &["--accept", "--gate", "5%"]].concat()).exits(5);
}

/// Writes an experiment on the echo server with this delay and a step of this name.
fn experiment(sandbox: &Sandbox, name: &str, delay: &str, step: &str) -> String {
    let text = format!(
        "title = \"turns\"\nasks = \"?\"\n[target]\nuse = \"echo\"\nwith = {{ delay = \"{delay}\" }}\n[load]\nagents = 2\n\
         time = \"1s\"\nwarmup = \"0s\"\n[[load.cycle]]\nname = \"{step}\"\ncall = \"get\"\nwith = {{ path = \"/\" }}\n"
    );
    sandbox.file(&format!("{name}.toml"), text)
}

#[test]
fn turns_are_played_until_the_gate_decides() {
    let sandbox = Sandbox::new();
    let (base, slower) = (experiment(&sandbox, "base", "5ms", "get"), experiment(&sandbox, "slower", "100ms", "get"));
    let out = sandbox.path().join("decided");
    let words = |base: &str, other: &str, out: &Path, more: &[&str]| -> Vec<String> {
        let words = ["compare", "--play", base, other, "--until-decided", "--gate", "5%", "--accept", "--out"];
        let words = words.iter().copied().chain([out.to_str().unwrap()]).chain(more.iter().copied());
        words.map(str::to_owned).collect()
    };
    let play = |words: Vec<String>| sandbox.play(&words.iter().map(String::as_str).collect::<Vec<_>>());
    // The slower side takes twenty times as long: three turns are enough.
    let more = ["--turns", "3", "--at-most", "24", "--metric", "latency_us.p50"];
    let played = play(words(&base, &slower, &out, &more)).exits(5);
    assert_eq!(fs::read_dir(out.join("candidate")).unwrap().count(), 3, "{}", played.stderr);
    let said = played.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("this is look 1 at runs") && said.contains("The gate of 5 % fails"), "{}", played.stdout);
    let looks = |out: &Path| -> Vec<(u64, f64)> {
        let text = fs::read_to_string(out.join("looks.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let one = |look: &serde_json::Value| (look["turns"].as_u64().unwrap(), look["level"].as_f64().unwrap());
        json["looks"].as_array().unwrap().iter().map(one).collect()
    };
    assert_eq!(looks(&out), [(3, 0.05 / 64.0)], "what was spent is written down");
    // A figure that only one side has is never decided.
    let (other, out) = (experiment(&sandbox, "other", "5ms", "fetch"), sandbox.path().join("open"));
    let more = ["--turns", "2", "--at-most", "3", "--metric", "operations.get.latency_us.p50"];
    let played = play(words(&base, &other, &out, &more)).exits(7);
    played.says(&["turn 2 of 3: base", "after 2 turns the gate is inconclusive", "continuing to 3"]);
    // Earlier runs count: no turn is left to play, and the last look is repeated.
    let again = play(words(&base, &other, &out, &[&more[..], &["--allow-inconclusive"]].concat())).exits(0);
    assert!(!again.stderr.contains("turn "), "{}", again.stderr);
    let taken = looks(&out);
    assert!(taken.len() == 2 && (taken.iter().map(|look| look.1).sum::<f64>() - 0.05).abs() < 1e-12, "{taken:?}");
    // With another plan, nothing of the error rate is left for further looks at these runs.
    let further = ["--turns", "2", "--at-most", "2", "--metric", "latency_us.p50"];
    let played = play(words(&base, &other, &out, &further));
    let said = played.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("no difference can be shown any more"), "{}", played.stdout);
    let few = ["--turns", "5", "--at-most", "3"];
    play(words(&base, &other, &out, &few)).exits(2).says(&["--at-most 3", "first checked after 5 turns"]);
    sandbox.play(&["compare", &base, &other, "--until-decided"]).exits(2).says(&["--play", "--gate"]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn a_void_turn_is_played_again_twice_and_kept_aside() {
    let sandbox = Sandbox::new();
    // One agent makes 20 operations of 50 ms in a second, and the others are dropped, which voids
    // the trial.
    let base = experiment(&sandbox, "base", "50ms", "get");
    let text = fs::read_to_string(&base).unwrap().replace("agents = 2", "agents = 1\nrate = 1000\nbacklog = 1");
    fs::write(&base, text).unwrap();
    let (candidate, out) = (experiment(&sandbox, "candidate", "5ms", "get"), sandbox.path().join("out"));
    let words = ["compare", "--play", &base, &candidate, "--turns", "2", "--plain", "--out", out.to_str().unwrap()];
    let played = sandbox.play(&words).exits(6);
    let count = |folder: &str| fs::read_dir(out.join(folder)).map_or(0, |entries| entries.count());
    assert_eq!(count("base"), 2, "the last of three tries stays: {}", played.stderr);
    assert!(count("void") >= 4, "{}", played.stderr);
    let said = "base is void and is played again (try 3 of 3)";
    assert_eq!(played.stderr.matches(said).count(), 2, "{}", played.stderr);
    assert!(!played.stdout.contains("--play"), "it is what was played: {}", played.stdout);
}

/// Regression from a review: SIGTERM ended only the comparison, while its run went on with load and
/// faults.
#[test]
fn an_ended_or_killed_comparison_ends_its_run() {
    let sandbox = Sandbox::new();
    let file = experiment(&sandbox, "long", "5ms", "get");
    let text = fs::read_to_string(&file).unwrap().replace("time = \"1s\"", "time = \"1000s\"");
    fs::write(&file, text).unwrap();
    for (number, signal) in ["TERM", "INT", "KILL"].into_iter().enumerate() {
        let out = sandbox.path().join(format!("out-{number}"));
        let words = ["compare", "--play", &file, &file, "--plain", "--out", out.to_str().unwrap()];
        let mut playing = sandbox.start(&words);
        playing.wait_for_words("  load\n");
        assert_eq!(sandbox.processes("run").len(), 1);
        playing.signal(signal);
        let played = playing.wait();
        until("the run has ended", || sandbox.processes("run").is_empty());
        if signal == "KILL" {
            continue;
        }
        assert_eq!(played.code, 130, "{signal}: {}", played.stderr);
        assert!(played.stderr.contains("stopping gracefully"), "{}", played.stderr);
        let run = fs::read_dir(out.join("base")).unwrap().next().unwrap().unwrap().path();
        assert!(fs::read_to_string(run.join("ending.json")).unwrap().contains("interrupted"), "{signal}");
        assert_eq!(sandbox.leftovers(), [""; 0], "{signal}");
    }
}

#[test]
fn invalid_arguments_of_compare_exit_2() {
    let sandbox = Sandbox::new();
    let golden = root().join(GOLDEN);
    let (golden, empty) = (golden.to_str().unwrap(), sandbox.path().join("registry"));
    let empty = empty.to_str().unwrap();
    for (words, said) in [
        (vec!["compare"], "DIR"),
        (vec!["compare", golden, empty], "not a run folder"),
        (vec!["compare", golden, "no/such/folder"], "no/such/folder"),
        (vec!["compare", golden], "give two folders"),
        (vec!["compare", golden, golden, "--metric", "latency_us.q42"], "latency_us.q42"),
        (vec!["compare", golden, golden, "--gate", "much"], "expected a percentage"),
        (vec!["compare", golden, golden, "--gate", "-5%"], "-5%"),
        (vec!["compare", golden, golden, "--gate", "0%"], "expected a percentage"),
    ] {
        sandbox.play(&words).exits(2).says(&[said]);
    }
}
