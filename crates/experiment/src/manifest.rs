//! `target.toml`: what a target is, takes, runs and offers. Parsing only; finding the folder is the lab's work.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod placeholders;
mod reading;

pub use reading::parse;

/// A target folder's `target.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The folder's name.
    pub name: String,
    /// `[about]`.
    pub about: About,
    /// `[parameters.NAME]`.
    pub parameters: BTreeMap<String, Parameter>,
    /// `[[process]]`, in file order.
    pub processes: Vec<Process>,
    /// `[hooks]`: hook name to path inside the folder.
    pub hooks: BTreeMap<String, String>,
    /// `[hooks] install_with`: the parameters that the hooks `install` and `versions` are told; `None`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_with: Option<Vec<String>>,
    /// `[metrics]`.
    pub metrics: Option<Metrics>,
    /// `[log]`.
    pub log: LogTexts,
}

impl Manifest {
    /// Of a trial's parameters those that decide what has to be installed.
    #[must_use]
    pub fn installed_with(&self, with: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let decides = |name: &String| self.install_with.as_ref().is_none_or(|listed| listed.contains(name));
        with.iter().filter(|(name, _)| decides(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// `[log]`: a line of a process's output that has one of these texts in it becomes an event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogTexts {
    /// Worth reading.
    pub notable: Vec<String>,
    /// Signs that the target is not whole: they make a trial suspect.
    pub alarming: Vec<String>,
}

/// `[metrics]`: figures that the target gives of itself, in Prometheus' text format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Where each host has them; placeholders as for the process that serves.
    pub url: String,
    /// Names, without labels, of those that are recorded.
    pub keep: Vec<String>,
}

/// `[about]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// One line.
    pub what: String,
    /// Version of the target, or of its sources.
    pub version: String,
    /// SPDX expression.
    pub licence: String,
    /// The article it comes from, if any.
    pub article: Option<String>,
    /// The protocol that its service port speaks. A parameter may decide: `"{protocol}"`.
    pub protocol: String,
    /// `role.port`: where clients go.
    pub service: String,
    /// The role whose hosts are the members: whom faults hit, hooks ask and metrics are asked of. The service's, unless said.
    pub members: String,
}

/// `[parameters.NAME]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its type and the values it takes.
    #[serde(flatten)]
    pub takes: Takes,
    /// Used where the experiment gives none. Always a text; `takes` says what it must parse as.
    pub default: String,
    /// One line.
    pub help: String,
}

/// The values a parameter takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Takes {
    /// One of a list.
    Choice {
        /// The list.
        of: Vec<String>,
    },
    /// A whole number.
    Integer {
        /// Smallest allowed.
        min: Option<i64>,
        /// Largest allowed.
        max: Option<i64>,
    },
    /// true or false.
    Boolean,
    /// Any text.
    Text,
    /// A duration such as `"50ms"`; handed to the target in seconds.
    Duration,
}

/// `[[process]]`: one program of the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its name within the target.
    pub role: String,
    /// Program and arguments, with placeholders `{target}`, `{data}`, `{host}`, `{port.NAME}`, `{plimsoll}`
    /// and `{PARAMETER}`.
    pub run: Vec<String>,
    /// More environment, with the same placeholders.
    pub env: BTreeMap<String, String>,
    /// Names of the ports it listens on.
    pub ports: Vec<String>,
    /// Whether it wants a private data folder.
    pub data: bool,
    /// The role that must be ready before this one starts.
    pub after: Option<String>,
    /// When it counts as ready.
    pub ready: Ready,
    /// How it is asked to stop.
    pub stop: Stop,
}

/// When a process counts as ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// The check.
    pub check: ReadyCheck,
    /// Seconds after which the target is said to have failed to start.
    pub within_s: f64,
}

/// What is tried until it succeeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadyCheck {
    /// This operation of the target's protocol, sent to the service port, is `ok`.
    Call(String),
    /// This port (by name) accepts a connection.
    Tcp(String),
    /// A GET of this URL (placeholders allowed) answers 2xx.
    Http(String),
}

/// How a process is asked to stop, before it is killed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// `TERM`, `INT`, `QUIT`, `HUP` or `KILL`.
    pub signal: String,
    /// Seconds it is given.
    pub within_s: f64,
}

#[cfg(test)]
mod tests {
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
        let metrics =
            with("http://{host}:{port.main}/metrics", "[\"up\", \"vm:memory_bytes\"]").unwrap().metrics.unwrap();
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
}
