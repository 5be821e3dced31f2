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
    ] {
        let text = SMALL.replacen(from, to, 1);
        let problems = read(&text).unwrap_err();
        assert!(problems.contains(&told.to_owned()), "{told}\n{problems:#?}");
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
