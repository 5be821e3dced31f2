//! Bad experiment files. The exit code is 2, every mistake is named with its place, nothing is
//! started or written.

use crate::sandbox::Sandbox;

const GOOD: &str = "title = \"t\"\nasks = \"a\"\n[target]\nuse = \"echo\"\n[load]\nagents = 1\ntime = \"1s\"\n\
                    [[load.cycle]]\ncall = \"get\"\nwith = { path = \"/\" }\n";

#[test]
fn the_valid_file_is_accepted() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("good.toml", GOOD);
    sandbox.play(&["check", &file]).exits(0);
}

#[test]
fn each_mistake_is_reported() {
    let sandbox = Sandbox::new();
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
        let file = sandbox.file(&format!("{name}.toml"), GOOD.replace(from, to));
        let checked = sandbox.play(&["check", &file]).exits(2).says(words).says(&[&format!("{name}.toml")]);
        let run = sandbox.run(&[&file]).exits(2);
        assert_eq!(checked.stderr, run.stderr, "`check` and `run` must say the same");
        assert!(run.stdout.is_empty(), "{}", run.stdout);
    }
    assert!(!sandbox.path().join("runs").exists(), "a bad file must not leave a run folder");
}

/// Returns an experiment with this feed and a step that uses it.
fn with_feed(file: &str) -> String {
    let feed = format!("[[load.feed]]\nname = \"f\"\nfile = \"{file}\"\n[[load.cycle]]");
    GOOD.replace("[[load.cycle]]", &feed).replace("\"/\"", "\"/{feed.f.q}\"")
}

#[test]
fn requests_and_files_are_checked_before_the_start() {
    let sandbox = Sandbox::new();
    for (file, text) in [
        ("good.csv", "q\nx\n"),
        ("open.csv", "q\nx\n\"y\n"),
        ("twice.csv", "q,q\n1,2\n"),
        ("ragged.csv", "q,r\n1,2\n3\n4,5\n"),
        ("times.csv", "at_s\n2\n1\n"),
    ] {
        sandbox.file(file, text);
    }
    let with = |with: &str| GOOD.replace("path = \"/\"", with);
    let rate = |file: &str| GOOD.replace("agents = 1", &format!("agents = 1\nrate = {{ replay = \"{file}\" }}"));
    for (name, text, words) in [
        ("connection", with("path = \"/\", header.connection = \"close\""), &["\"close\"", "Plimsoll itself sets"][..]),
        ("length", with("path = \"/\", header.content-length = \"3\""), &["\"3\"", "Plimsoll itself sets"]),
        ("line-end", with("path = \"/\", header.x = \"a\\nb\""), &["header.x", "does not allow"]),
        ("pair", with("path = \"/\", header.x-a = \"1\", header.X-A = \"2\""), &["header.X-A", "the same header"]),
        ("slash", with("path = \"ok\""), &["\"ok\"", "must begin with"]),
        ("blank", with("path = \"/o k\""), &["\"/o k\"", "does not allow"]),
        ("filled", with("path = \"/o k/{seq}\""), &["/o k/{seq}", "does not allow"]),
        ("missing", with_feed("no.csv"), &["\"no.csv\"", "No such file"]),
        ("column", with_feed("good.csv").replace("{feed.f.q}", "{feed.f.nope}"), &["nope}\"", "no column `nope`"]),
        ("quote", with_feed("open.csv"), &["\"open.csv\"", "line 3"]),
        ("twice", with_feed("twice.csv"), &["\"twice.csv\"", "line 1"]),
        ("ragged", with_feed("ragged.csv"), &["\"ragged.csv\"", "line: 3"]),
        ("schedule", rate("no.csv"), &["\"no.csv\"", "No such file"]),
        ("times", rate("times.csv"), &["\"times.csv\"", "line 3"]),
    ] {
        let file = sandbox.file(&format!("{name}.toml"), text);
        let checked = sandbox.play(&["check", &file]).exits(2).says(words).says(&[&format!("{name}.toml:")]);
        let run = sandbox.run(&[&file]).exits(2);
        assert_eq!(checked.stderr, run.stderr, "`check` and `run` must say the same");
    }
    assert!(!sandbox.path().join("runs").exists(), "a bad file must not leave a run folder");
    sandbox.play(&["check", &sandbox.file("feed.toml", with_feed("good.csv"))]).exits(0);
    // The variable may be set where the experiment is played.
    let file = sandbox.file("env.toml", with("path = \"/\", header.x = \"{env:PLIMSOLL_NO_SUCH}\""));
    sandbox.play(&["check", &file]).exits(0);
    sandbox.run(&[&file]).exits(2).says(&["PLIMSOLL_NO_SUCH"]);
    let file = sandbox.file("body.toml", with("path = \"/\", body = \"@body.json\"").replace("\"get\"", "\"post\""));
    sandbox.play(&["check", &file]).exits(0).says(&["note: `post` sends the text `@body.json` itself"]);
}

#[test]
fn request_and_file_mistakes_are_reported_together() {
    let sandbox = Sandbox::new();
    let text = with_feed("no.csv") + "[[load.cycle]]\ncall = \"get\"\nname = \"b\"\nwith = { path = \"x\" }\n";
    sandbox.play(&["check", &sandbox.file("two.toml", text)]).exits(2).says(&["no.csv", "\"x\"", "2 problems"]);
}

#[test]
fn all_mistakes_are_reported_together() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("three.toml", GOOD.replace("agents = 1", "agents = 0").replace("echo", "ehco") + "[lod]\n");
    sandbox.play(&["check", &file]).exits(2).says(&["agents", "ehco", "lod"]);
}

#[test]
fn a_fault_after_the_end_is_a_mistake() {
    let sandbox = Sandbox::new();
    let fault = "[[fault]]\nname = \"late\"\nkind = \"kill\"\nat = \"2s\"\n";
    let file = sandbox.file("late.toml", format!("{GOOD}{fault}"));
    sandbox.play(&["check", &file]).exits(2).says(&["late"]);
}

#[test]
fn empty_and_binary_files_are_refused() {
    let sandbox = Sandbox::new();
    for (name, content) in [("empty.toml", &b""[..]), ("binary.toml", &[0xff, 0xfe, 0, 1, 2])] {
        let file = sandbox.file(name, content);
        sandbox.play(&["check", &file]).exits(2).says(&[name]);
        sandbox.run(&[&file]).exits(2);
    }
    let folder = sandbox.path().to_str().unwrap();
    sandbox.play(&["check", folder]).exits(2);
}
