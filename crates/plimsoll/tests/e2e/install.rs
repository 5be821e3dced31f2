//! Installation before a run: once for each set of parameters in an experiment, and only packages
//! that the targets' hooks name. The tests do not install anything into the system.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::sandbox::{Sandbox, json, root};

const TARGET: &str = r#"
[about]
what = "Writes down what its hooks are told"
version = "1"
licence = "MIT"
protocol = "http"
service = "server.http"
[parameters.size]
type = "integer"
min = 1
default = 1
help = "how large"
[parameters.colour]
type = "choice"
of = ["red", "blue"]
default = "red"
help = "which colour"
[[process]]
role = "server"
run = ["{plimsoll}", "echo", "--listen", "{host}:{port.http}"]
ports = ["http"]
[hooks]
install = "hooks/install"
versions = "hooks/versions"
"#;

/// Install hook that is complete after `apply` with the same parameters.
const INSTALL: &str = r#"#!/bin/sh
one="$PLIMSOLL_WITH_SIZE-$PLIMSOLL_WITH_COLOUR"
echo "$1 $one" >>asked
case $1 in
    check) [ -e "made-$one" ] || { echo "make $one"; exit 1; } ;;
    apply) touch "made-$one" ;;
    *) echo "usage: install check|apply" >&2; exit 2 ;;
esac
"#;
const VERSIONS: &str = "#!/bin/sh\necho \"{\\\"size\\\": $PLIMSOLL_WITH_SIZE, \\\"kit\\\": \\\"1.2\\\"}\"\n";

const EXPERIMENT: &str = r#"
title = "t"
asks = "a"
[target]
use = "diary"
[load]
agents = 1
time = "200ms"
warmup = "0s"
[[load.cycle]]
call = "get"
with = { path = "/" }
[sweep]
"target.with.size" = [1, 2]
[[variant]]
name = "red"
[[variant]]
name = "blue"
target = { with = { colour = "blue" } }
[[variant]]
name = "red again"
"#;

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fixture::program(path, text);
}

/// Returns a sandbox with the target `diary`.
fn diary() -> Sandbox {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("targets/diary");
    script(&folder.join("hooks/install"), INSTALL);
    script(&folder.join("hooks/versions"), VERSIONS);
    fs::write(folder.join("target.toml"), TARGET).unwrap();
    sandbox.with_targets("targets")
}

/// Returns the calls of its hook `install` with this first word.
fn asked(sandbox: &Sandbox, word: &str) -> Vec<String> {
    let all = fs::read_to_string(sandbox.path().join("targets/diary/asked")).unwrap_or_default();
    let of_word = all.lines().filter_map(|line| line.strip_prefix(word)).map(|rest| rest.trim().to_owned());
    of_word.collect()
}

#[test]
fn each_parameter_set_of_an_experiment_is_installed_once() {
    let sandbox = diary();
    let file = sandbox.file("diary.toml", EXPERIMENT);
    let refused = sandbox.run(&[&file]).exits(3);
    refused.says(&[
        "`diary` is not completely installed",
        "make 1-blue",
        "plimsoll install diary --with 'colour=blue'`",
    ]);
    assert_eq!(asked(&sandbox, "apply"), [""; 0]);
    sandbox.run(&[&file, "--install"]).exits(0);
    let applied = asked(&sandbox, "apply");
    assert_eq!(applied.iter().collect::<BTreeSet<_>>().len(), applied.len(), "{applied:?}");
    assert_eq!(applied, ["1-blue", "2-blue", "1-red", "2-red"]);
    // The versions name their parameters.
    let installed = &json(&sandbox.run_folder().join("environment.json"))["installed"]["diary"];
    assert_eq!(installed["kit"], "1.2");
    let sizes = "1 (colour = blue, size = 1); 2 (colour = blue, size = 2); 1 (colour = red, size = 1); 2 (colour = red, size = 2)";
    assert_eq!(installed["size"], sizes);
    // Now everything is installed.
    sandbox.run(&[&file, "--install"]).exits(0);
    assert_eq!(asked(&sandbox, "apply").len(), 4);
}

#[test]
fn install_uses_the_given_parameters() {
    let sandbox = diary();
    let install = |words: &[&str]| sandbox.play(&[&["install", "diary"], words].concat());
    install(&["--check"]).exits(5);
    install(&["--with", "size=2", "--with", "colour=blue"]).exits(0);
    assert_eq!(asked(&sandbox, "apply"), ["2-blue"]);
    install(&["--with", "size=2", "--with", "colour=blue", "--check"]).exits(0);
    install(&["--with", "sise=2"]).exits(2).says(&["no parameter `sise`", "did you mean `size`?"]);
    install(&["--with", "size=0"]).exits(2).says(&["`size` cannot be 0", "a whole number, 1 or more"]);
    install(&["--with", "colour=blu"]).exits(2).says(&["did you mean \"blue\"?"]);
    install(&["--with", "colour"]).exits(2).says(&["NAME=VALUE"]);
    assert_eq!(asked(&sandbox, "apply"), ["2-blue"]);
    sandbox.play(&["install"]).exits(2);
}

/// Returns the packages that a target lacks on a machine without any programs.
fn packages(target: &str, with: &[(&str, &str)]) -> BTreeSet<String> {
    let sandbox = Sandbox::new();
    let bin = sandbox.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    for program in ["bash", "dirname", "env"] {
        symlink(Path::new("/usr/bin").join(program), bin.join(program)).unwrap();
    }
    let output = Command::new("/bin/bash")
        .args([root().join("targets").join(target).join("hooks/install").to_str().unwrap(), "packages"])
        .env_clear()
        .env("PATH", &bin)
        // Daemons are also searched in /usr/sbin. On this machine no program is found.
        .env("BASH_FUNC_command%%", "() { return 1; }")
        .envs(with.iter().map(|(name, value)| (format!("PLIMSOLL_WITH_{name}"), value)))
        .output()
        .unwrap();
    assert!(output.status.success(), "{target}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn packages_depend_on_the_targets_parameters() {
    let court = |proxy: &str, serial: &str| {
        let all = packages("docket", &[("PROXY", proxy), ("SERIAL", serial)]);
        all.into_iter().filter(|name| !name.starts_with("erlang-") && name != "make").collect::<BTreeSet<_>>()
    };
    assert_eq!(court("apache", "false"), set(&["apache2-bin"]));
    assert_eq!(court("haproxy", "false"), set(&["haproxy"]));
    assert_eq!(court("apache", "true"), set(&["apache2-bin", "swi-prolog-nox"]));
    assert_eq!(packages("redis", &[("HOME", "")]), set(&["redis-server"]));
    assert_eq!(packages("redis", &[("HOME", "/opt/redis")]), set(&[]));
    assert_eq!(packages("_template", &[]), set(&["python3"]));
    assert_eq!(packages("vsns", &[]), set(&["erlang-base", "erlang-mnesia", "make"]));
}

#[test]
fn packages_of_search_servers_depend_on_their_home() {
    let search = |target: &str, home: &str| {
        let mut all = packages(target, &[("HOME", home)]);
        // Optional: a file shows whether it is installed.
        all.remove("ca-certificates");
        all
    };
    assert_eq!(search("elasticsearch", ""), set(&["jq", "maven", "openjdk-17-jre-headless", "unzip"]));
    assert_eq!(search("opensearch", ""), set(&["jq", "maven", "openjdk-17-jre-headless"]));
    assert_eq!(search("elasticsearch", "/opt/elasticsearch"), set(&["jq", "openjdk-17-jre-headless"]));
}

/// Applications in Debian's erlang-base.
const BASE: [&str; 4] = ["compiler", "kernel", "sasl", "stdlib"];

/// The hook names the package of every application that a target's `.app` files name, directly or
/// indirectly. Debian's packages do not depend on everything that their applications use.
#[test]
fn every_erlang_application_has_its_package_listed() {
    for (target, started) in [("vsns", &["mnesia"][..]), ("docket", &["mnesia", "mochiweb"])] {
        let walk = "
            Walk = fun Walk([], Seen) -> Seen;
                       Walk([A | Rest], Seen) ->
                case lists:member(A, Seen) of
                    true -> Walk(Rest, Seen);
                    false ->
                        case application:load(A) of ok -> ok; {error, {already_loaded, A}} -> ok end,
                        {ok, Needs} = application:get_key(A, applications),
                        Walk(Needs ++ Rest, [A | Seen])
                end
            end,
            [io:format(\"~s~n\", [A]) || A <- Walk([list_to_atom(A) || A <- init:get_plain_arguments()], [])],
            halt().";
        let erl = Command::new("erl").args(["-noshell", "-noinput", "-eval", walk, "-extra"]).args(started).output();
        let erl = erl.expect("needs Erlang: scripts/need.sh erlang-tests docket");
        assert!(erl.status.success(), "{erl:?}");
        let named = packages(target, &[]);
        let text = String::from_utf8(erl.stdout).unwrap();
        let needed: Vec<&str> = text.lines().filter(|name| !BASE.contains(name)).collect();
        assert!(needed.len() >= started.len(), "{text}");
        for application in needed {
            let package = format!("erlang-{}", application.replace('_', "-"));
            assert!(named.contains(&package), "{target} starts {application} and names no {package}: {named:?}");
        }
        let source = fs::read_to_string(root().join(format!("targets/{target}/src/{target}.app.src"))).unwrap();
        for application in started {
            assert!(source.contains(application), "{target}.app.src does not name {application}");
        }
    }
}
