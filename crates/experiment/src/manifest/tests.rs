//! Tests of the manifest's parser.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{HoldsOn, ReadyCheck, Takes, parse};
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
fn the_plimsoll_placeholder_sets_runs_plimsoll() {
    assert!(!read(SMALL).unwrap().runs_plimsoll());
    assert!(read(&SMALL.replace("{target}/bin/thing", "{plimsoll}")).unwrap().runs_plimsoll());
    assert!(read(&format!("{SMALL}env = {{ BY = \"{{plimsoll}}\" }}\n")).unwrap().runs_plimsoll());
}

#[test]
fn folders_are_on_tiers_and_a_process_may_have_a_user() {
    let text = |folders: &str, user: &str| {
        let tier = "[parameters.tier]\ntype = \"choice\"\nof = [\"disk\", \"nvme\"]\ndefault = \"disk\"\nhelp = \"Where\"\n[[process]]";
        let run = "ports = [\"main\"]\nenv = { AT = \"{folder.data}\" }";
        SMALL.replace("[[process]]", tier).replace("ports = [\"main\"]", run)
            + &format!("folders = {{ {folders} }}\nuser = \"{user}\"\n")
    };
    let manifest = read(&text("data = \"{tier}\", logs = \"memory\"", "{speaks}")).unwrap();
    let process = &manifest.processes[0];
    assert_eq!((process.folders["data"].as_str(), process.user.as_deref()), ("{tier}", Some("{speaks}")));
    let json = serde_json::to_string(&manifest).unwrap();
    assert_eq!(serde_json::from_str::<super::Manifest>(&json).unwrap(), manifest);
    for (folders, user, told) in [
        ("data = \"stata\"", "", "there is no tier `stata`"),
        ("data = \"{teir}\"", "", "there is no parameter `teir`"),
        ("data = \"{speaks}\"", "", "`speaks` may be `http`, and there is no such tier"),
        ("data = \"disk\", Logs = \"disk\"", "", "a folder cannot be called `Logs`"),
        ("logs = \"disk\"", "", "there is no placeholder {folder.data}"),
        ("data = \"disk\"", "{host}", "there is no placeholder {host}"),
    ] {
        let problems = read(&text(folders, user)).unwrap_err();
        assert!(problems.iter().any(|problem| problem.contains(told)), "{told}: {problems:?}");
    }
}

#[test]
fn needs_are_read_in_base_units() {
    let text = |needs: &str| format!("{SMALL}\n[needs]\n{needs}\n");
    let needs = "sysctl = { \"vm.max_map_count\" = 262144 }\nnofile = 65535\nmemlock = \"64MiB\"";
    let needs = read(&text(needs)).unwrap().needs;
    assert_eq!(needs.sysctl["vm.max_map_count"], 262_144);
    assert_eq!((needs.nofile, needs.memlock_bytes, needs.nproc), (Some(65_535), Some(64 << 20), None));
    assert_eq!(read(&text("memlock = \"unlimited\"")).unwrap().needs.memlock_bytes, Some(u64::MAX));
    let members = read(&text("member_memory = \"160MiB\"\nmembers_per_cpu = 16")).unwrap().needs;
    assert_eq!((members.member_memory_bytes, members.members_per_cpu), (Some(160 << 20), Some(16)));
    assert!(read(SMALL).unwrap().needs.is_empty());
    for (needs, told) in [
        ("sysctl = { max_map_count = 1 }", "`max_map_count` is not a setting of the kernel"),
        ("memlock = 64", "memlock"),
        ("nofile = \"many\"", "nofile"),
        ("files = 3", "files"),
    ] {
        let problems = read(&text(needs)).unwrap_err();
        assert!(problems.iter().any(|problem| problem.contains(told)), "{told}: {problems:?}");
    }
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
fn a_manifest_may_omit_the_service() {
    let text = SMALL
        .replace("service = \"server.main\"\n", "")
        .replace("ports = [\"main\"]", "ready = { run = [\"hooks/ready\", \"{size}\"], within = \"2m\" }")
        .replace("\"{port.main}\", ", "");
    let manifest = read(&format!(
        "{text}\n[actions]\nstop = \"hooks/stop\"\n[audits]\nsane = \"hooks/sane\"\n[conditions]\nup = \"hooks/up\"\n\
         led = {{ run = \"hooks/led\", on = \"one\", every = \"2s\" }}\n"
    ))
    .unwrap();
    assert_eq!((manifest.about.service.as_str(), manifest.about.members.as_str()), ("", "server"));
    let run = ["hooks/ready", "{size}"].map(str::to_owned).to_vec();
    assert_eq!(manifest.processes[0].ready.check, ReadyCheck::Run(run));
    assert_eq!((manifest.actions["stop"].as_str(), manifest.audits["sane"].as_str()), ("hooks/stop", "hooks/sane"));
    let (up, led) = (&manifest.conditions["up"], &manifest.conditions["led"]);
    assert_eq!((up.run.as_str(), up.on, up.every_s), ("hooks/up", HoldsOn::All, 0.5));
    assert_eq!((led.run.as_str(), led.on, led.every_s), ("hooks/led", HoldsOn::One, 2.0));
    for (more, told) in [
        ("[conditions]\nup = \"../up\"", "a hook is a file of the target's folder"),
        ("[conditions]\nup = { run = \"/bin/up\" }", "a hook is a file of the target's folder"),
        ("[conditions]\nup = { on = \"one\" }", "needs `run`"),
    ] {
        let problems = read(&format!("{text}\n{more}\n")).unwrap_err();
        assert!(problems.iter().any(|problem| problem.contains(told)), "{problems:?}");
    }
    let called = text.replace("ready = { run = [\"hooks/ready\", \"{size}\"]", "ready = { call = \"ping\"");
    assert!(read(&called).unwrap_err()[0].contains("no service to call"));
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
        ("{size}", "{sise}", "target.toml:23:67: there is no placeholder {sise}"),
        ("ports = [\"main\"]", "ports = [\"main\"]\nafter = \"db\"", "target.toml:25:9: there is no process `db`"),
        (
            "min = 1",
            "min = 1\nlab_time = true",
            "target.toml:18:12: `lab_time` belongs to a parameter of type \"duration\"",
        ),
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
fn install_with_defaults_to_all_parameters() {
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
fn given_parameters_are_checked_against_the_manifest() {
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
fn metrics_have_names_and_an_http_url() {
    assert_eq!(read(SMALL).unwrap().metrics, None);
    let with = |url: &str, keep: &str| read(&format!("{SMALL}\n[metrics]\nurl = \"{url}\"\nkeep = {keep}\n"));
    let metrics = with("http://{host}:{port.main}/metrics", "[\"up\", \"vm:memory_bytes\"]").unwrap().metrics.unwrap();
    assert_eq!((metrics.url.as_str(), metrics.keep.len()), ("http://{host}:{port.main}/metrics", 2));
    assert_eq!((metrics.kind, metrics.counters.len()), (super::MetricsFormat::Prometheus, 0));
    for (url, keep, told) in [
        ("https://{host}/metrics", "[\"up\"]", "target.toml:27:7: metrics are read over http only"),
        ("http://{host}:{port.mian}/", "[\"up\"]", "target.toml:27:23: there is no placeholder {port.mian}"),
        ("http://{host}/", "[]", "target.toml:28:8: none of the metrics is recorded"),
        ("http://{host}/", "[\"up{a}\"]", "target.toml:28:9: `up{a}` is not a metric's name"),
        ("http://{host}/", "[\"1st\", \"\"]", "target.toml:28:16: `` is not a metric's name"),
    ] {
        let problems = with(url, keep).unwrap_err();
        assert!(problems.contains(&told.to_owned()), "{told}\n{problems:#?}");
    }
}

#[test]
fn json_metrics_have_pointers() {
    let with = |rest: &str| read(&format!("{SMALL}\n[metrics]\nurl = \"http://{{host}}/stats\"\n{rest}\n"));
    let metrics =
        with("kind = \"json\"\ncounters = [\"hits\"]\n[metrics.keep]\nqueue = \"/queue/0\"\nhits = \"/*/hits\"");
    let metrics = metrics.unwrap().metrics.unwrap();
    let kept = [("hits", "/*/hits"), ("queue", "/queue/0")];
    assert!(metrics.keep.iter().map(|(name, pointer)| (name.as_str(), pointer.as_str())).eq(kept));
    assert_eq!((metrics.kind, metrics.counters), (super::MetricsFormat::Json, vec!["hits".to_owned()]));
    for (rest, told) in [
        ("kind = \"jsn\"\nkeep = [\"up\"]", "target.toml:28:8: `metrics.kind` cannot be \"jsn\""),
        ("kind = \"json\"\nkeep = [\"up\"]", "target.toml:29:8: these metrics have no JSON pointers"),
        ("keep = { up = \"/up\" }", "target.toml:28:8: Prometheus' text format has names and no pointers"),
        ("kind = \"json\"\nkeep = {}", "target.toml:29:8: none of the metrics is recorded"),
        ("kind = \"json\"\nkeep = { up = \"up\" }", "target.toml:29:16: a JSON pointer begins with `/`"),
        ("kind = \"json\"\nkeep = { \"a-b\" = \"/up\" }", "target.toml:29:10: `a-b` is not a metric's name"),
        ("keep = [\"up\"]\ncounters = [\"ups\"]", "target.toml:29:13: `keep` does not name `ups`"),
    ] {
        let problems = with(rest).unwrap_err();
        assert!(problems.contains(&told.to_owned()), "{told}\n{problems:#?}");
    }
    let many: Vec<String> = (0..=super::KEPT_MAX).map(|number| format!("\"m{number}\"")).collect();
    let problems = with(&format!("keep = [{}]", many.join(", "))).unwrap_err();
    assert_eq!(problems, ["target.toml:28:8: these are 201 metrics"]);
}

#[test]
fn log_texts_are_read_and_checked() {
    assert_eq!(read(SMALL).unwrap().log, super::LogTexts::default());
    let with = |log: &str| read(&format!("{SMALL}\n[log]\n{log}\n"));
    let log = with("alarming = [\"split\"]").unwrap().log;
    assert_eq!((log.notable.len(), log.alarming), (0, vec!["split".to_owned()]));
    for (log, told) in [
        ("", "target.toml:26:1: [log] names no text"),
        ("notable = [\"a\", \" \"]", "target.toml:27:17: every line contains the empty text"),
        ("notabel = [\"a\"]", "target.toml:27:1: `log` has no key `notabel`"),
    ] {
        let problems = with(log).unwrap_err();
        assert!(problems.contains(&told.to_owned()), "{told}\n{problems:#?}");
    }
}

#[test]
fn missing_sections_are_reported() {
    assert_eq!(
        read("").unwrap_err(),
        ["target.toml:1:1: the section [about] is missing", "target.toml:1:1: the section [process] is missing"]
    );
}

#[test]
fn an_argument_may_be_empty_and_a_program_may_not() {
    let with = |run: &str| {
        let process = format!("ports = [\"main\"]\nenv = {{ SAVE = \"\" }}\nready = {{ run = {run} }}\n");
        read(&SMALL.replace("\"{size}\"", "\"{size}\", \"--save\", \"\"").replace("ports = [\"main\"]\n", &process))
    };
    let manifest = with("[\"hooks/ready\", \"\"]").unwrap();
    let process = &manifest.processes[0];
    assert!(process.run.contains(&String::new()) && process.env["SAVE"].is_empty());
    assert_eq!(process.ready.check, ReadyCheck::Run(vec!["hooks/ready".to_owned(), String::new()]));
    for run in ["[\"\", \"x\"]", "[]"] {
        let told = with(run).unwrap_err();
        assert!(told[0].contains("the program is missing"), "{told:?}");
    }
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
    assert!(told[0].contains("there is no placeholder {host.sever}"), "{told:?}");
}

#[test]
fn a_number_may_have_decimals_and_keeps_its_bounds() {
    let text = |default: &str| {
        let number =
            format!("[parameters.work_ms]\ntype = \"number\"\nmin = 0\nmax = 9\ndefault = {default}\nhelp = \"Work\"");
        SMALL.replace("[[process]]", &format!("{number}\n[[process]]"))
    };
    for default in ["0", "0.5", "9"] {
        assert_eq!(read(&text(default)).unwrap().parameters["work_ms"].default, default);
    }
    for default in ["-0.5", "9.1", "inf", "\"3ms\"", "true"] {
        let problems = read(&text(default)).unwrap_err();
        assert!(problems.join("\n").contains("the default of `work_ms` cannot be"), "{default}: {problems:?}");
    }
}
