//! Manifests: defaults, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{ReadyCheck, Takes, parse};
use crate::source::Source;

const SMALL: &str = r#"
[about]
what = "A thing"
version = "1"
licence = "MIT"
protocol = "{speaks}"
service = "server.main"

[parameters.speaks]
type = "choice"
of = ["http", "lines"]
default = "http"
help = "What it speaks"

[parameters.size]
type = "integer"
min = 1
default = 3
help = "How large"

[[process]]
role = "server"
run = ["{target}/bin/thing", "--port", "{port.main}", "--size", "{size}", "-eval", "{{error, [x]}}"]
ports = ["main"]
"#;

fn read(text: &str) -> Result<super::Manifest, Vec<String>> {
    let source = Source { name: "target.toml".to_owned(), text: text.to_owned() };
    parse("thing", &source).map_err(|problems| problems.as_slice().iter().map(ToString::to_string).collect())
}

#[test]
fn defaults_are_filled_in() {
    let manifest = read(SMALL).unwrap();
    let process = &manifest.processes[0];
    assert_eq!(process.ready.check, ReadyCheck::Tcp("main".to_owned()));
    assert!((process.ready.within_s - 30.0).abs() < f64::EPSILON);
    assert_eq!((process.stop.signal.as_str(), process.data), ("TERM", false));
    assert_eq!(manifest.parameters["size"].default, "3");
    assert_eq!(manifest.parameters["size"].takes, Takes::Integer { min: Some(1), max: None });
    let json = serde_json::to_string(&manifest).unwrap();
    assert_eq!(serde_json::from_str::<super::Manifest>(&json).unwrap(), manifest);
}

#[test]
fn each_mistake_has_its_line() {
    for (from, to, told) in [
        (
            "service = \"server.main\"",
            "service = \"server.mian\"",
            "target.toml:7:11: no process has the port `server.mian`",
        ),
        ("default = \"http\"", "default = \"htp\"", "target.toml:12:11: the default of `speaks` cannot be \"htp\""),
        ("min = 1", "min = 1\nmax = 0", "target.toml:18:7: no number is in this range"),
        ("{size}", "{sise}", "target.toml:23:67: {sise} stands for nothing"),
        ("ports = [\"main\"]", "ports = [\"main\"]\nafter = \"db\"", "target.toml:25:9: there is no process `db`"),
        (
            "ports = [\"main\"]",
            "ports = [\"main\"]\nready = { tcp = \"x\" }",
            "target.toml:25:17: this process has no port `x`",
        ),
        ("[parameters.size]", "[parameters.host]", "target.toml:15:13: a parameter cannot be called `host`"),
        ("licence = \"MIT\"\n", "", "target.toml:2:1: `about` needs `licence`"),
        (
            "help = \"How large\"",
            "help = \"How large\"\n[hooks]\ninstall = \"../x\"",
            "target.toml:21:11: a hook is a file of the target's folder",
        ),
        (
            "help = \"How large\"",
            "help = \"How large\"\n[hooks]\ninstall_with = [\"speaks\", \"sise\"]",
            "target.toml:21:27: there is no parameter `sise`",
        ),
    ] {
        let text = SMALL.replacen(from, to, 1);
        let problems = read(&text).unwrap_err();
        assert!(problems.contains(&told.to_owned()), "{told}\n{problems:#?}");
    }
}

#[test]
fn parameters_that_decide_what_is_installed_are_all_unless_some_are_named() {
    let kept = |hooks: &str| {
        let manifest = read(&format!("{SMALL}\n{hooks}")).unwrap();
        let with = crate::plan::parameters(&manifest, &[]).unwrap();
        manifest.installed_with(&with).into_keys().collect::<Vec<_>>()
    };
    assert_eq!(kept(""), ["size", "speaks"]);
    assert_eq!(kept("[hooks]\ninstall_with = [\"size\"]"), ["size"]);
    assert_eq!(kept("[hooks]\ninstall_with = []"), [""; 0]);
}

#[test]
fn parameters_given_one_by_one_are_held_against_the_manifest() {
    let manifest = read(SMALL).unwrap();
    let given = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        crate::plan::parameters(&manifest, &words).map_err(|bad| format!("{}; {}", bad.what, bad.hint))
    };
    let with = given(&["size=7", "size=8"]).unwrap();
    assert_eq!((with["size"].as_str(), with["speaks"].as_str()), ("8", "http"));
    for (word, told) in [
        ("sise=7", "the target `thing` has no parameter `sise`; did you mean `size`?"),
        ("size=0", "`size` cannot be 0; it takes a whole number, 1 or more; size: How large"),
        ("size=many", "`size` cannot be \"many\"; it takes a whole number, 1 or more; size: How large"),
        ("speaks=htp", "`speaks` cannot be \"htp\"; it takes \"http\" or \"lines\"; did you mean \"http\"?"),
        ("size", "`size` gives no parameter a value; write NAME=VALUE"),
    ] {
        assert_eq!(given(&[word]).unwrap_err(), told);
    }
}

#[test]
fn metrics_are_named_and_asked_for_by_http() {
    assert_eq!(read(SMALL).unwrap().metrics, None);
    let with = |url: &str, keep: &str| read(&format!("{SMALL}\n[metrics]\nurl = \"{url}\"\nkeep = {keep}\n"));
    let metrics = with("http://{host}:{port.main}/metrics", "[\"up\", \"vm:memory_bytes\"]").unwrap().metrics.unwrap();
    assert_eq!((metrics.url.as_str(), metrics.keep.len()), ("http://{host}:{port.main}/metrics", 2));
    for (url, keep, told) in [
        ("https://{host}/metrics", "[\"up\"]", "target.toml:27:7: metrics are asked for by http only"),
        ("http://{host}:{port.mian}/", "[\"up\"]", "target.toml:27:23: {port.mian} stands for nothing"),
        ("http://{host}/", "[]", "target.toml:28:8: none of the metrics is recorded"),
        ("http://{host}/", "[\"up{a}\"]", "target.toml:28:9: `up{a}` is not a metric's name"),
        ("http://{host}/", "[\"1st\", \"\"]", "target.toml:28:16: `` is not a metric's name"),
    ] {
        let problems = with(url, keep).unwrap_err();
        assert!(problems.contains(&told.to_owned()), "{told}\n{problems:#?}");
    }
}

#[test]
fn the_texts_of_a_log_are_named() {
    assert_eq!(read(SMALL).unwrap().log, super::LogTexts::default());
    let with = |log: &str| read(&format!("{SMALL}\n[log]\n{log}\n"));
    let log = with("alarming = [\"split\"]").unwrap().log;
    assert_eq!((log.notable.len(), log.alarming), (0, vec!["split".to_owned()]));
    for (log, told) in [
        ("", "target.toml:26:1: [log] names no text"),
        ("notable = [\"a\", \" \"]", "target.toml:27:17: this text is in every line"),
        ("notabel = [\"a\"]", "target.toml:27:1: `log` has no key `notabel`"),
    ] {
        let problems = with(log).unwrap_err();
        assert!(problems.contains(&told.to_owned()), "{told}\n{problems:#?}");
    }
}

#[test]
fn an_empty_file_says_what_is_missing() {
    assert_eq!(
        read("").unwrap_err(),
        ["target.toml:1:1: the section [about] is missing", "target.toml:1:1: the section [process] is missing"]
    );
}

#[test]
fn placeholders_of_several_hosts_are_known() {
    for placeholder in [
        "name",
        "index",
        "hosts",
        "names",
        "peers",
        "first",
        "cores",
        "memory_mb",
        "host.server",
        "hosts.server",
        "port.server.main",
    ] {
        assert!(read(&SMALL.replace("{size}", &format!("{{{placeholder}}}"))).is_ok(), "{placeholder}");
    }
    let told = read(&SMALL.replace("{size}", "{host.sever}")).unwrap_err();
    assert!(told[0].contains("{host.sever} stands for nothing"), "{told:?}");
}
