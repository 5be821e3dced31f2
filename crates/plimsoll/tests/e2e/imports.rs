//! Experiments that are made from files of other tools: `check` accepts them, and their requests
//! reach a server.

use std::fs;

use crate::hit::echo;
use crate::sandbox::{Sandbox, number, root};

#[test]
fn check_accepts_an_experiment_of_every_format() {
    let sandbox = Sandbox::new();
    // A command and a collection upload this file.
    fs::write(sandbox.path().join("cat.png"), [0, 1, 2, 255]).unwrap();
    for entry in fs::read_dir(root().join("fuzz/corpus/import")).unwrap() {
        let source = entry.unwrap().path();
        let made = sandbox.path().join(format!("{}.toml", source.file_name().unwrap().display()));
        let made = made.to_str().unwrap();
        sandbox.play(&["new", "--from", source.to_str().unwrap(), "--out", made]).exits(0).says(&["is written"]);
        sandbox.play(&["check", made]).exits(0);
        sandbox.play(&["new", "--from", source.to_str().unwrap(), "--out", made]).exits(2).says(&["exists already"]);
    }
}

#[test]
fn an_access_log_is_played_again() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let log = root().join("fuzz/corpus/import/access.log");
    let made = sandbox.path().join("replay.toml");
    let (log, made) = (log.to_str().unwrap(), made.to_str().unwrap());
    sandbox.play(&["new", "--from", log]).exits(2).says(&["access log", "--out replay.toml"]);
    sandbox.play(&["new", "--from", log, "--out", made]).exits(0);
    let target = format!("target.url={url}");
    let results = sandbox.run(&[made, "--set", &target]).exits(0).json();
    assert_eq!(number(&results, "/trials/0/outcomes/ok"), 3.0);
    drop(server);
}

#[test]
fn hit_takes_a_curl_command() {
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let curl = ["--", "curl", "-s", "-d", "{\"a\": 1}", "-H", "X-A: {b}", &url];
    let played = sandbox.play(&[&["hit", "--print"][..], &curl].concat()).exits(0);
    for words in ["call = \"post\"", "header.X-A = \"{{b}}\"", "application/x-www-form-urlencoded"] {
        assert!(played.stdout.to_lowercase().contains(&words.to_lowercase()), "no `{words}` in:\n{}", played.stdout);
    }
    let results = sandbox.play(&[&["hit", "-n", "5", "--json", "--accept"][..], &curl].concat()).exits(0).json();
    assert_eq!(number(&results, "/trials/0/outcomes/ok"), 5.0);
    drop(server);
    sandbox.play(&["hit", "--", "wget", &url]).exits(2).says(&["no curl command"]);
    sandbox.play(&["hit", "--", "curl", "-s"]).exits(2).says(&["no URL"]);
}

#[test]
fn a_source_that_is_not_understood_is_an_error_with_the_expectation() {
    let sandbox = Sandbox::new();
    let file = sandbox.path().join("source");
    for (text, format, words) in [
        ("hello", None, ["format of this file is not known", "openapi"]),
        ("GET http://a/\nrubbish\n", None, ["line 2", "GET http://localhost:8080/"]),
        ("{}", Some("har"), ["no `log`", "entries"]),
    ] {
        fs::write(&file, text).unwrap();
        let mut arguments = vec!["new", "--from", file.to_str().unwrap()];
        arguments.extend(format.into_iter().flat_map(|format| ["--format", format]));
        sandbox.play(&arguments).exits(2).says(&words);
    }
    sandbox.play(&["new", "--from", "no-such-file"]).exits(2).says(&["no-such-file"]);
}
