//! Bad experiment files: exit code 2, every mistake named with its place, nothing started, nothing written.

use crate::stage::Stage;

const GOOD: &str = "title = \"t\"\nasks = \"a\"\n[target]\nuse = \"echo\"\n[load]\nagents = 1\ntime = \"1s\"\n\
                    [[load.cycle]]\ncall = \"get\"\nwith = { path = \"/\" }\n";

#[test]
fn the_good_one_is_good() {
    let stage = Stage::new();
    let file = stage.file("good.toml", GOOD);
    stage.play(&["check", &file]).exits(0);
}

#[test]
fn each_mistake_is_named() {
    let stage = Stage::new();
    for (name, from, to, words) in [
        ("agents", "agents = 1", "agents = 0", &["agents"][..]),
        ("time", "\"1s\"", "\"-1s\"", &["time"]),
        ("unit", "\"1s\"", "1", &["time", "unit"]),
        ("key", "agents = 1", "agnets = 1", &["agnets", "agents"]),
        ("target", "\"echo\"", "\"ehco\"", &["ehco", "echo"]),
        ("call", "\"get\"", "\"gte\"", &["gte", "get"]),
        ("template", "\"/\"", "\"/{agnet}\"", &["agnet", "agent"]),
        ("toml", "[load]", "[load", &["load"]),
    ] {
        let file = stage.file(&format!("{name}.toml"), GOOD.replace(from, to));
        let checked = stage.play(&["check", &file]).exits(2).says(words).says(&[&format!("{name}.toml")]);
        let run = stage.run(&[&file]).exits(2);
        assert_eq!(checked.stderr, run.stderr, "`check` and `run` must say the same");
        assert!(run.stdout.is_empty(), "{}", run.stdout);
    }
    assert!(!stage.path().join("runs").exists(), "a bad file must not leave a run folder");
}

#[test]
fn all_mistakes_are_named_at_once() {
    let stage = Stage::new();
    let file = stage.file("three.toml", GOOD.replace("agents = 1", "agents = 0").replace("echo", "ehco") + "[lod]\n");
    stage.play(&["check", &file]).exits(2).says(&["agents", "ehco", "lod"]);
}

#[test]
fn a_fault_after_the_end_is_a_mistake() {
    let stage = Stage::new();
    let fault = "[[fault]]\nname = \"late\"\nkind = \"kill\"\nat = \"2s\"\n";
    let file = stage.file("late.toml", format!("{GOOD}{fault}"));
    stage.play(&["check", &file]).exits(2).says(&["late"]);
}

#[test]
fn files_that_are_no_text_are_refused() {
    let stage = Stage::new();
    for (name, content) in [("empty.toml", &b""[..]), ("binary.toml", &[0xff, 0xfe, 0, 1, 2])] {
        let file = stage.file(name, content);
        stage.play(&["check", &file]).exits(2).says(&[name]);
        stage.run(&[&file]).exits(2);
    }
    let folder = stage.path().to_str().unwrap();
    stage.play(&["check", folder]).exits(2);
}
