//! Tests of deployments on this machine and on several hosts: start order, readiness, failures, the
//! events of a failed start, and that nothing is left behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use experiment::manifest::{Manifest, Parameter, ReadyCheck, Takes};
use experiment::plan::TargetKind;
use fixture::{is_alive, ourselves, stays_alive, until};
use record::events::What;
use record::replicas::{ReplicaContents, ReplicaValue};
use rustix::process::Signal;
use serde_json::json;

use super::hook_runner::table;
use super::lab_facts::slowdown;
use super::*;
use crate::fakes::{Adjust as _, Bench, FakeLab, LineClient, folder_trial, manifest, server, shell, story, trial};
use crate::{ClientPlacement, Deployment, StorageFigures};

fn ups_and_downs(observed: &[HostEvent]) -> Vec<String> {
    let words = observed.iter().filter_map(|observed| match &observed.what {
        What::HostUp { .. } | What::HostDown { .. } => None,
        What::ProcessUp { process, .. } => Some(format!("up {process}")),
        What::ProcessDown { process, expected, .. } => Some(format!("down {process} {expected}")),
        other => panic!("{other:?}"),
    });
    words.collect()
}

#[test]
fn processes_come_up_in_order_and_go_down_in_reverse() {
    let bench = Bench::new();
    let note = bench.folder.join("stops");
    let stop =
        |name: &str| format!("trap 'echo {name} >> {}; exit 0' TERM; while :; do sleep 0.05; done", note.display());
    // The last role comes first in the file.
    let manifest = manifest(vec![
        shell("third", &[&stop("third")])
            .ready_when(ReadyCheck::Tcp("server.service".to_owned()), 20.0)
            .after("second"),
        shell("second", &[&stop("second")]).after("server"),
        server("server"),
    ]);
    let mut deployment = bench.up(&manifest).unwrap();
    assert_eq!(ups_and_downs(&deployment.poll()), ["up server", "up second", "up third"]);
    assert_eq!(deployment.members().len(), 3);
    deployment.stop().unwrap();
    // If a trap is not set yet, the signal kills the shell. The shell then writes nothing, but its
    // end is still reported.
    assert_eq!(ups_and_downs(&deployment.poll()), ["down third true", "down second true", "down server true"]);
    assert!(deployment.members().is_empty());
    assert_eq!(bench.alive(), 0);
}

#[test]
fn the_service_answers_at_its_address() {
    let bench = Bench::new();
    let deployment = bench.up(&manifest(vec![server("server")])).unwrap();
    let caller = deployment.caller();
    assert_eq!(caller.call(&deployment.service(), "ping", &BTreeMap::new()), Ok(()));
    assert_eq!(deployment.watched().host(), "n1");
    until("its output is in its log", || bench.log("server").contains("running 1 test"));
}

#[test]
fn a_stubborn_process_is_killed() {
    let bench = Bench::new();
    let mark = bench.folder.join("deaf");
    let deaf = format!("trap '' TERM; : > {}; while :; do sleep 0.05; done", mark.display());
    let manifest = manifest(vec![server("server"), shell("deaf", &[&deaf]).after("server").stop_within(0.1)]);
    let mut deployment = bench.up(&manifest).unwrap();
    until("it ignores TERM", || mark.exists());
    deployment.poll();
    deployment.stop().unwrap();
    let downs = deployment.poll();
    let how = downs.iter().find_map(|observed| match &observed.what {
        What::ProcessDown { process, how, .. } if process == "deaf" => Some(how.clone()),
        _ => None,
    });
    assert_eq!(how.as_deref(), Some("signal 9"));
    assert_eq!(bench.alive(), 0);
}

#[test]
fn a_process_that_leaves_its_group_is_killed() {
    let bench = Bench::new();
    let note = bench.folder.join("escaped");
    // The process has its own session and group, and its parent is gone.
    let escape = format!("setsid sh -c 'echo $$ > {}; exec sleep 1000' &\nexec sleep 1000", note.display());
    let manifest = manifest(vec![server("server"), shell("parent", &[&escape]).after("server")]);
    let mut deployment = bench.up(&manifest).unwrap();
    until("it has escaped", || fs::read_to_string(&note).is_ok_and(|text| text.ends_with('\n')));
    let escaped: u32 = fs::read_to_string(&note).unwrap().trim().parse().unwrap();
    assert!(is_alive(escaped));
    deployment.stop().unwrap();
    assert!(!stays_alive(escaped));
}

#[test]
fn a_dropped_deployment_leaves_nothing() {
    let bench = Bench::new();
    let deployment = bench.up(&manifest(vec![server("server")])).unwrap();
    let pid = deployment.members()[0].pid;
    drop(deployment);
    assert!(!is_alive(pid));
    assert_eq!(fs::read_dir(bench.registry.scratch().unwrap()).unwrap().count(), 0);
}

#[test]
fn a_process_that_dies_at_start_is_quoted() {
    let bench = Bench::new();
    let dying =
        shell("server", &["i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo line $i; done; echo oh no >&2; exit 7"]);
    let mut process = dying.ready_when(ReadyCheck::Tcp("service".to_owned()), 20.0);
    process.ports = vec!["service".to_owned()];
    let error = bench.up(&manifest(vec![process])).err().unwrap();
    let Error::DiedAtStart { role, how, log, .. } = &error else { panic!("{error}") };
    assert_eq!((role.as_str(), how.as_str(), log.len()), ("server", "exit 7", 20));
    assert_eq!(log.last().unwrap(), "oh no");
    assert!(error.is_targets());
    assert!(error.to_string().contains("\n  line 30\n  oh no"), "{error}");
}

#[test]
fn a_process_that_is_never_ready_is_taken_down() {
    let bench = Bench::new();
    let mut process = shell("server", &["echo thinking; sleep 1000"]);
    process.ports = vec!["service".to_owned()];
    let process = process.ready_when(ReadyCheck::Tcp("service".to_owned()), 0.3);
    let error = bench.up(&manifest(vec![process])).err().unwrap();
    let Error::NotReady { tried, last, log, .. } = &error else { panic!("{error}") };
    assert!(tried.starts_with("a connection to 127.0.0.1:"), "{tried}");
    assert_eq!((last.as_str(), log.as_slice()), ("connection refused", ["thinking".to_owned()].as_slice()));
    assert_eq!(bench.alive(), 0);
}

#[test]
fn roles_that_wait_for_each_other_start_together() {
    let bench = Bench::new();
    let member = |role: &str, other: &str| {
        let note = |role: &str| bench.folder.join(role).display().to_string();
        let check = ["test", "-e", &note(other)].map(str::to_owned).to_vec();
        shell(role, &[&format!(": > {}; sleep 1000", note(role))]).ready_when(ReadyCheck::Run(check), 20.0)
    };
    let manifest = manifest(vec![member("m1", "m2"), member("m2", "m1"), server("server").after("m2")]);
    let deployment = bench.up(&manifest).unwrap();
    let started: Vec<_> = deployment.members().into_iter().map(|member| member.role).collect();
    assert_eq!(started, ["m1", "m2", "server"]);
}

#[test]
fn all_roles_that_did_not_start_are_named_at_once() {
    let bench = Bench::new();
    let never = |role: &str| {
        let check = ReadyCheck::Run(["test", "-e", "/nowhere"].map(str::to_owned).to_vec());
        shell(role, &["sleep 1000"]).ready_when(check, 0.3)
    };
    let error = bench.up(&manifest(vec![server("server"), never("m1"), never("m2")])).err().unwrap();
    let Error::Several(errors) = &error else { panic!("{error}") };
    let role = |error: &Error| match error {
        Error::NotReady { role, .. } => role.clone(),
        other => panic!("{other}"),
    };
    assert_eq!(errors.iter().map(role).collect::<Vec<_>>(), ["m1", "m2"]);
    assert!(
        error.is_targets() && error.to_string().contains("2 processes of the target did not start:\n- `m1` was not")
    );
    assert_eq!(bench.alive(), 0);
}

#[test]
fn a_missing_program_is_named() {
    let bench = Bench::new();
    let mut process = server("server");
    process.run = vec!["no-such-program-anywhere".to_owned()];
    let error = bench.up(&manifest(vec![process])).err().unwrap();
    assert_eq!(error.to_string(), "`no-such-program-anywhere`, which `server` runs, is not on this machine");
    assert!(!error.is_targets());
}

#[test]
fn a_fixed_port_is_used_or_refused_if_taken() {
    let bench = Bench::new();
    let free = runner::ports::free(1).unwrap()[0];
    let mut manifest = manifest(vec![server("server")]);
    let port = |default: u16| Parameter {
        takes: Takes::Integer { min: None, max: None },
        default: default.to_string(),
        help: String::new(),
        lab_time: false,
    };
    manifest.parameters.insert("port".to_owned(), port(free));
    let deployment = bench.up(&manifest).unwrap();
    assert_eq!(deployment.service(), format!("127.0.0.1:{free}"));
    drop(deployment);

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let number = taken.local_addr().unwrap().port();
    manifest.parameters.insert("port".to_owned(), port(number));
    let error = bench.up(&manifest).err().unwrap();
    let Error::PortTaken { port, holder: Some(holder) } = &error else { panic!("{error}") };
    assert_eq!((*port, holder.pid), (number, std::process::id()));
}

#[test]
fn an_interrupt_ends_the_wait() {
    let bench = Bench::new();
    let error = bench.up_with(&folder_trial(), Some(&manifest(vec![server("server")])), &AtomicBool::new(true));
    assert!(matches!(error.err().unwrap(), Error::Interrupted));
    assert_eq!(bench.alive(), 0);
}

#[test]
fn unknown_placeholders_and_cycles_are_errors() {
    let bench = Bench::new();
    let mut process = server("server");
    process.run.push("{colour}".to_owned());
    let error = bench.up(&manifest(vec![process])).err().unwrap();
    assert_eq!(error.to_string(), "`{colour}` in `{colour}` of `server` is not a placeholder");
    assert!(error.hint().unwrap().contains("{port.service}"), "{:?}", error.hint());
    let error = bench.up(&manifest(vec![server("server").after("other"), shell("other", &[]).after("server")]));
    assert!(error.err().unwrap().to_string().contains("forms a cycle"));
}

#[test]
fn a_command_is_started_and_its_group_ended() {
    let bench = Bench::new();
    let port = runner::ports::free(1).unwrap()[0];
    let command = format!("SERVE_PORT={port} {} & wait", ourselves("fakes::serve").join(" "));
    let kind = |ready: Option<String>, command: &str| TargetKind::Started {
        command: command.to_owned(),
        url: format!("http://127.0.0.1:{port}/"),
        ready,
        within_s: 20.0,
    };
    let stop = AtomicBool::new(false);
    let ready = Some(format!("http://127.0.0.1:{port}/health"));
    let mut deployment = bench.up_with(&trial(kind(ready, &command)), None, &stop).unwrap();
    assert_eq!(deployment.service(), format!("http://127.0.0.1:{port}/"));
    assert!(bench.alive() >= 2);
    deployment.stop().unwrap();
    assert_eq!(bench.alive(), 0);
    let error = bench.up_with(&trial(kind(None, "echo it cannot; exit 2")), None, &stop).err().unwrap();
    assert!(error.to_string().contains("(exit 2); its last lines:\n  it cannot"), "{error}");
}

#[test]
fn a_command_whose_url_is_taken_is_not_started() {
    let bench = Bench::new();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stranger.local_addr().unwrap().port();
    let kind = TargetKind::Started {
        command: "sleep 60".to_owned(),
        url: format!("http://127.0.0.1:{port}/"),
        ready: None,
        within_s: 20.0,
    };
    let error = bench.up_with(&trial(kind), None, &AtomicBool::new(false)).err().unwrap();
    let (pid, program) = (std::process::id(), "lab");
    assert!(error.to_string().starts_with(&format!("port {port} is taken")), "{error}");
    assert!(error.to_string().contains(program) && error.to_string().contains(&pid.to_string()), "{error}");
    assert_eq!(bench.alive(), 0);
}

#[test]
fn a_running_target_is_only_observed() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    let running = |url: &str| trial(TargetKind::Running { url: url.to_owned() });
    let mut deployment = bench.up_with(&running(&url), None, &AtomicBool::new(false)).unwrap();
    assert_eq!((deployment.service(), deployment.members()), (url.clone(), Vec::new()));
    assert_eq!((deployment.inspect(), deployment.watched().host()), (None, "local"));
    deployment.stop().unwrap();
    // Bound but not listening, so no other process gets this port meanwhile.
    let bound = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&bound, &"127.0.0.1:0".parse::<std::net::SocketAddrV4>().unwrap()).unwrap();
    let port = std::net::SocketAddrV4::try_from(rustix::net::getsockname(&bound).unwrap()).unwrap().port();
    let url = format!("http://127.0.0.1:{port}/x");
    let error = bench.up_with(&running(&url), None, &AtomicBool::new(false)).err().unwrap();
    assert_eq!(error.to_string(), format!("nothing answers at {url}: connection refused"));
}

#[test]
fn hooks_are_asked_with_the_documented_environment() {
    let bench = Bench::new();
    bench.folder.script(
        "hooks/inspect",
        r#"printf '{"host": "%s", "port": %s, "pid": %s, "with": "%s", "data": "%s"}' "$PLIMSOLL_HOST" "$PLIMSOLL_PORT_SERVICE" "$PLIMSOLL_PID_SERVER" "$PLIMSOLL_WITH_THE_DELAY" "$PLIMSOLL_DATA""#,
    );
    let mut manifest = manifest(vec![server("server")]);
    manifest.hooks.insert("inspect".to_owned(), "hooks/inspect".to_owned());
    let delay = Parameter { takes: Takes::Duration, default: "50ms".to_owned(), help: String::new(), lab_time: false };
    manifest.parameters.insert("the-delay".to_owned(), delay);
    let deployment = bench.up(&manifest).unwrap();
    let says = deployment.inspect().unwrap();
    assert_eq!(says["host"], "127.0.0.1");
    assert_eq!(deployment.service(), format!("127.0.0.1:{}", says["port"]));
    assert_eq!(says["pid"], deployment.members()[0].pid);
    assert_eq!(says["with"], "0.05");
    assert!(says["data"].as_str().unwrap().ends_with("n1.server"));

    bench.folder.script("hooks/inspect", "echo broken >&2; exit 4");
    assert_eq!(deployment.inspect().unwrap()["failed"], "hook `inspect` failed: exit status: 4: broken");
}

#[test]
fn log_lines_named_by_the_target_are_observed() {
    let bench = Bench::new();
    let script = "echo all is well; echo oh dear; i=0; while [ $i -lt 25 ]; do i=$((i+1)); echo broken $i >&2; done; \
                  printf 'oh, and'; exec sleep 1000";
    let mut talking = manifest(vec![server("server"), shell("talker", &[script]).after("server")]);
    talking.log.notable = vec!["oh".to_owned()];
    talking.log.alarming = vec!["broken".to_owned()];
    let mut deployment = bench.up(&talking).unwrap();
    let mut said = Vec::new();
    let hear = |deployment: &mut Deployment, said: &mut Vec<(String, bool, u64)>| {
        said.extend(deployment.poll().into_iter().filter_map(|observed| match observed.what {
            What::Log { host, process, line, alarming, left_out, .. } => {
                assert_eq!((host.as_str(), process.as_str()), ("n1", "talker"));
                Some((line, alarming, left_out))
            }
            _ => None,
        }));
    };
    until("it has said its lines", || {
        hear(&mut deployment, &mut said);
        said.len() == 21
    });
    assert_eq!(said[0], ("oh dear".to_owned(), false, 0));
    assert_eq!((&said[1], &said[20]), (&("broken 1".to_owned(), true, 0), &("broken 20".to_owned(), true, 0)));
    deployment.stop().unwrap();
    hear(&mut deployment, &mut said);
    assert_eq!(said[21..], [("broken 25".to_owned(), true, 5), ("oh, and".to_owned(), false, 0)]);
}

#[test]
fn a_process_that_ends_unexpectedly_is_quoted() {
    let bench = Bench::new();
    let mark = bench.folder.join("now");
    let script = format!("until [ -e {} ]; do sleep 0.05; done; echo why; echo that is why; exit 3", mark.display());
    let mut deployment =
        bench.up(&manifest(vec![server("server"), shell("mortal", &[&script]).after("server")])).unwrap();
    fs::write(&mark, "").unwrap();
    let mut quoted = Vec::new();
    until("it ends", || {
        quoted.extend(deployment.poll().into_iter().filter_map(|observed| match observed.what {
            What::ProcessDown { last_lines, expected: false, .. } => Some(last_lines),
            _ => None,
        }));
        !quoted.is_empty()
    });
    assert_eq!(quoted, [["why", "that is why"]]);
    deployment.stop().unwrap();
    let silent = |observed: &HostEvent| match &observed.what {
        What::ProcessDown { last_lines, .. } => last_lines.is_empty(),
        _ => true,
    };
    assert!(deployment.poll().iter().all(silent), "of those that were meant to end nobody asks");
}

/// Returns a target with a proxy and its members.
fn target() -> Manifest {
    let mut manifest = manifest(vec![server("server"), server("proxy").after("server")]);
    manifest.about.service = "proxy.service".to_owned();
    manifest.about.members = "server".to_owned();
    manifest.hooks.insert("audit".to_owned(), "hooks/audit".to_owned());
    manifest
}

fn held(value: &str, version: Option<&str>) -> ReplicaValue {
    ReplicaValue { value: value.to_owned(), version: version.map(str::to_owned) }
}

fn one(key: &str, value: &str) -> Result<ReplicaContents, String> {
    Ok(ReplicaContents::from([(key.to_owned(), held(value, None))]))
}

#[test]
fn a_record_is_a_text_or_a_value_with_its_version() {
    let read = |records: Value| table(json!({ "records": records, "more": 1 }));
    assert_eq!(read(json!({ "a": "x" })), one("a", "x"));
    let whole = read(
        json!({ "a": { "value": "x", "version": "2" }, "b": { "value": "y", "version": 3 }, "c": { "value": "" } }),
    );
    let expected = [("a", held("x", Some("2"))), ("b", held("y", Some("3"))), ("c", held("", None))];
    assert_eq!(whole, Ok(expected.map(|(key, held)| (key.to_owned(), held)).into()));
    for bad in
        [json!(1), json!(null), json!(["x"]), json!({}), json!({ "value": 1 }), json!({ "value": "x", "verison": "1" })]
    {
        let error = read(json!({ "k": bad })).unwrap_err();
        assert!(error.starts_with("its record `k` is invalid: expected a text or "), "{bad}: {error}");
    }
    assert_eq!(table(json!({})).unwrap_err(), "its answer has no object `records`");
    assert_eq!(table(json!({ "records": [] })).unwrap_err(), "its answer has no object `records`");
}

#[test]
fn only_members_that_are_up_are_audited() {
    let bench = Bench::new();
    // The member on n3 fails.
    let script = r#"echo "$PLIMSOLL_NAME" >> asked
[ "$PLIMSOLL_NAME" = n3 ] && { echo "tables are not loaded" >&2; exit 7; }
printf '{"records": {"at": "%s", "of": "%s"}}' "$PLIMSOLL_HOST" "$PLIMSOLL_NAMES""#;
    bench.folder.script("hooks/audit", script);
    let lab = FakeLab::new(&bench, &["proxy", "server", "server", "server"]);
    let mut deployment = lab.up(&target()).unwrap();
    assert!(deployment.can_audit());
    // The process on n4 is gone, but its host is still up.
    let slot = deployment.processes.slot_of("n4", None).unwrap();
    deployment.processes.signal(slot, Signal::KILL, true).unwrap();
    until("it is down", || {
        deployment.processes.slots[slot].process.is_none() || {
            deployment.look();
            false
        }
    });
    let [two, three, four] = deployment.audit().try_into().unwrap();
    assert_eq!(
        [&two, &three, &four].map(|told| (told.replica.member.as_str(), told.is_up)),
        [("n2", true), ("n3", true), ("n4", false)]
    );
    let expected = [("at", "127.0.0.2"), ("of", "n2,n3,n4")].map(|(key, value)| (key.to_owned(), held(value, None)));
    assert_eq!(two.replica.holds, Ok(expected.into()));
    assert_eq!(three.replica.holds.unwrap_err(), "hook `audit` failed: exit 7 on n3: tables are not loaded");
    assert_eq!(four.replica.holds.unwrap_err(), "its process `server` is not running");
    let mut asked: Vec<String> =
        fs::read_to_string(bench.folder.join("asked")).unwrap().lines().map(str::to_owned).collect();
    asked.sort();
    assert_eq!(asked, ["n2", "n3"]);

    lab.failures[1].lose();
    assert_eq!(deployment.audit()[0].replica.holds.clone().unwrap_err(), "its host is down");
}

#[test]
fn members_are_not_audited_without_the_hook() {
    let bench = Bench::new();
    let mut manifest = target();
    manifest.hooks.clear();
    let mut deployment = FakeLab::new(&bench, &["", ""]).up(&manifest).unwrap();
    assert_eq!((deployment.can_audit(), deployment.audit()), (false, Vec::new()));
}

/// 50,000 records of 200 quotes, which take 400 bytes of JSON each, on a single line.
const LARGE: &str = r#"awk 'BEGIN { v = ""; for (i = 0; i < 200; i++) v = v "\\\""; printf "{\"records\": {";
for (i = 0; i < 50000; i++) printf "%s\"k%d\": \"%s\"", i ? ", " : "", i, v; print "}}" }'"#;

#[test]
fn a_large_table_is_read_completely() {
    let bench = Bench::new();
    bench.folder.script("hooks/audit", LARGE);
    let mut deployment = FakeLab::new(&bench, &[""]).up(&target()).unwrap();
    let table = deployment.audit().remove(0).replica.holds.unwrap();
    assert_eq!((table.len(), table["k49999"].value.len()), (50_000, 200));
    // Other hooks keep their limit.
    let hook =
        deployment.hooks.hook_at(&deployment.processes, &deployment.hooks.members[0], "audit", AUDIT_PATIENCE).unwrap();
    assert_eq!(hook.ask().unwrap_err().to_string(), "hook `audit` failed: its answer is longer than 8 MiB");
}

fn as_set(words: &[String]) -> BTreeSet<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn roles_start_in_order_and_stop_in_reverse() {
    let bench = Bench::new();
    let beside = shell("beside", &["exec sleep 1000"]).after("server");
    let lab = FakeLab::new(&bench, &["", "", ""]);
    let mut deployment = lab.up(&manifest(vec![beside, server("server")])).unwrap();
    let ups = story(&deployment.poll());
    let expected =
        ["+n1", "+n2", "+n3", "+n1.server", "+n2.server", "+n3.server", "+n1.beside", "+n2.beside", "+n3.beside"];
    assert_eq!(ups, expected);
    assert_eq!(deployment.members().len(), 6);
    assert_eq!(deployment.processes.member_hosts(), ["n1", "n2", "n3"]);
    let services = deployment.services();
    let port = services[0].strip_prefix("127.0.0.1:").unwrap();
    assert_eq!(services, ["127.0.0.1", "127.0.0.2", "127.0.0.3"].map(|host| format!("{host}:{port}")));
    assert_eq!(deployment.service(), services[0]);
    for service in &services {
        assert_eq!(deployment.caller().call(service, "ping", &BTreeMap::new()), Ok(()));
    }
    deployment.stop().unwrap();
    let downs = story(&deployment.poll());
    assert_eq!(as_set(&downs[..3]), ["-n1.beside", "-n2.beside", "-n3.beside"].into());
    assert_eq!(as_set(&downs[3..6]), ["-n1.server", "-n2.server", "-n3.server"].into());
    assert_eq!(downs[6..], ["-n1", "-n2", "-n3"]);
    assert_eq!(bench.alive(), 0);
    assert_eq!(fs::read_dir(bench.registry.scratch().unwrap()).unwrap().count(), 0);
    // A second call does nothing.
    deployment.kill_all().unwrap();
    assert!(deployment.poll().is_empty() && deployment.processes.member_hosts().is_empty());
}

#[test]
fn time_limits_grow_on_slow_hosts() {
    assert_eq!([0.1, 0.5, 1.0, 2.0, 0.0].map(slowdown), [10.0, 2.0, 1.0, 1.0, 1.0]);
    let bench = Bench::new();
    let mut lab = FakeLab::new(&bench, &[""]);
    lab.trial.lab.speed = 0.1;
    let deployment = lab.up(&manifest(vec![server("server").stop_within(0.5)])).unwrap();
    assert_eq!(
        (deployment.processes.slots[0].ready_within_s, deployment.processes.slots[0].stop_within_s),
        (200.0, 5.0)
    );
}

#[test]
fn the_hosts_of_a_role_do_not_wait_for_each_other() {
    let bench = Bench::new();
    let seen = bench.folder.join("seen");
    fs::create_dir(&seen).unwrap();
    // No process is ready before all have started.
    let all = (1..=3).map(|number| format!("[ -e {}/n{number} ]", seen.display())).collect::<Vec<_>>().join(" && ");
    let serve = ourselves("fakes::serve").join(" ");
    let script = format!(": > {}/{{name}}; until {all}; do sleep 0.02; done; exec {serve}", seen.display());
    let waiting = server("server").running(["sh", "-c", &script].map(str::to_owned).to_vec());
    let deployment = FakeLab::new(&bench, &["", "", ""]).up(&manifest(vec![waiting])).unwrap();
    assert_eq!(deployment.members().len(), 3);
}

#[test]
fn hosts_with_roles_run_nothing_else() {
    let bench = Bench::new();
    let lab = FakeLab::new(&bench, &["beside", "server", "server"]);
    let mut beside = shell("beside", &["exec sleep 1000"]);
    beside.ready.check = ReadyCheck::Http("http://{host.server}:{port.server.service}/".to_owned());
    let mut deployment = lab.up(&manifest(vec![server("server"), beside.after("server")])).unwrap();
    assert_eq!(story(&deployment.poll())[3..], ["+n2.server", "+n3.server", "+n1.beside"]);
    assert_eq!(deployment.processes.member_hosts(), ["n2", "n3"]);
    assert_eq!(deployment.services().len(), 2);
    drop(deployment);
    assert_eq!(bench.alive(), 0);
}

#[test]
fn an_unknown_role_is_named_with_its_host() {
    let bench = Bench::new();
    let failed = FakeLab::new(&bench, &["", "sever"]).up(&manifest(vec![server("server")])).err().unwrap();
    assert_eq!(failed.error.to_string(), "host n2: `test` has no role `sever`; it has server");
    assert_eq!(story(&failed.observed), ["+n1", "+n2", "-n1", "-n2"]);
}

#[test]
fn a_process_that_dies_ends_the_start() {
    let bench = Bench::new();
    let serve = ourselves("fakes::serve").join(" ");
    // The others would be ready only much later.
    let script = format!("[ {{name}} = n2 ] && exit 7; sleep 1000; exec {serve}");
    let dying = server("server").running(["sh", "-c", &script].map(str::to_owned).to_vec());
    let failed = FakeLab::new(&bench, &["", "", ""]).up(&manifest(vec![dying])).err().unwrap();
    let Error::DiedAtStart { role, how, .. } = &*failed.error else { panic!("{}", failed.error) };
    assert_eq!((role.as_str(), how.as_str()), ("server on n2", "exit 7"));
    let events = story(&failed.observed);
    assert_eq!(events[..6], ["+n1", "+n2", "+n3", "+n1.server", "+n2.server", "+n3.server"]);
    let downs = ["!n2.server", "-n1.server", "-n3.server", "-n1", "-n2", "-n3"];
    assert_eq!(as_set(&events[6..]), downs.into());
    assert_eq!(bench.alive(), 0);
}

#[test]
fn events_survive_a_missing_program_on_one_host() {
    let bench = Bench::new();
    let lab = FakeLab::new(&bench, &["", ""]);
    // The link exists on n1 only.
    let link = bench.folder.join("n1");
    std::os::unix::fs::symlink("/bin/sleep", &link).unwrap();
    let program = format!("{}/{{name}}", bench.folder.display());
    let failed = lab.up(&manifest(vec![server("server").running(vec![program, "1000".to_owned()])])).err().unwrap();
    assert!(matches!(&*failed.error, Error::Missing { .. }), "{}", failed.error);
    assert_eq!(story(&failed.observed), ["+n1", "+n2", "+n1.server", "-n1.server", "-n1", "-n2"]);
    assert_eq!(bench.alive(), 0);
}

#[test]
fn ports_are_free_on_every_host() {
    let bench = Bench::new();
    let lab = FakeLab::new(&bench, &["", ""]);
    lab.failures[1].refuses_ports.store(3, Ordering::SeqCst);
    let deployment = lab.up(&manifest(vec![server("server")])).unwrap();
    assert_eq!(lab.failures[1].refuses_ports.load(Ordering::SeqCst), 0);
    drop(deployment);
    lab.failures[1].refuses_ports.store(usize::MAX, Ordering::SeqCst);
    let failed = lab.up(&manifest(vec![server("server")])).err().unwrap();
    assert!(matches!(*failed.error, Error::PortTaken { .. }), "{}", failed.error);
}

#[test]
fn hooks_are_run_where_the_service_is_up() {
    let bench = Bench::new();
    bench.folder.script(
        "hooks/inspect",
        r#"printf '{"name": "%s", "pid": %s, "all": "%s"}' "$PLIMSOLL_NAME" "$PLIMSOLL_PID_SERVER" "$PLIMSOLL_NAMES""#,
    );
    let mut manifest = manifest(vec![server("server")]);
    manifest.hooks.insert("inspect".to_owned(), "hooks/inspect".to_owned());
    let lab = FakeLab::new(&bench, &["", ""]);
    let mut deployment = lab.up(&manifest).unwrap();
    let members = deployment.members();
    let says = deployment.inspect().unwrap();
    assert_eq!((says["name"].as_str(), says["all"].as_str()), (Some("n1"), Some("n1,n2")));
    assert_eq!(says["pid"], members[0].pid);
    lab.failures[0].lose();
    deployment.poll();
    let says = deployment.inspect().unwrap();
    assert_eq!((says["name"].as_str(), &says["pid"]), (Some("n2"), &members[1].pid.into()));
}

#[test]
fn an_incomplete_installation_is_reported_before_the_start() {
    let bench = Bench::new();
    bench
        .folder
        .script("hooks/install", "[ $1 = check ] && [ -n \"$PLIMSOLL_TARGET\" ] && echo apt install it; exit 1");
    let mut manifest = manifest(vec![server("server")]);
    manifest.hooks.insert("install".to_owned(), "hooks/install".to_owned());
    let mut lab = FakeLab::new(&bench, &["", ""]);
    assert!(lab.up(&manifest).is_ok(), "virtual hosts have what this machine has");
    lab.failures[1].is_real = true;
    let failed = lab.up(&manifest).err().unwrap();
    let expected = "host n2: `test` is not completely installed there; missing steps:\n  apt install it";
    assert_eq!(failed.error.to_string(), expected);
    assert_eq!(story(&failed.observed), ["+n1", "+n2", "-n1", "-n2"]);
    bench.folder.script("hooks/install", "echo no >&2; exit 3");
    let failed = lab.up(&manifest).err().unwrap();
    assert_eq!(failed.error.to_string(), "host n2: `install check` of `test` failed there: exit 3: no");
    bench.folder.script("hooks/install", "exit 0");
    assert!(lab.up(&manifest).is_ok());
}

#[test]
fn a_quick_start_is_over_before_the_target_is_up() {
    let bench = Bench::new();
    let up = |quick_start: bool, refused: Option<&'static str>| {
        let mut lab = FakeLab::new(&bench, &["", ""]);
        lab.trial.lab.quick_start = quick_start;
        *lab.failures[1].refuses.lock().unwrap() = refused;
        lab.up(&manifest(vec![server("server")])).map(|mut deployment| deployment.kill_all().unwrap())
    };
    // The host refuses an operation only if the deployment requested it.
    for refused in [Some("n2 inject quick start"), Some("n2 heal quick start")] {
        assert!(up(false, refused).is_ok());
        assert!(up(true, refused).is_err_and(|not_up| not_up.error.to_string().contains("it cannot")));
    }
    assert!(up(true, None).is_ok());
    assert_eq!(bench.alive(), 0);
}

#[test]
fn a_lost_host_takes_only_its_processes_down() {
    let bench = Bench::new();
    let lab = FakeLab::new(&bench, &["", ""]);
    let mut deployment = lab.up(&manifest(vec![server("server")])).unwrap();
    deployment.poll();
    lab.failures[1].lose();
    let events = story(&deployment.poll());
    assert_eq!((events[0].as_str(), events[2].as_str(), events.len()), ("!n2", "-n2.server", 3));
    assert!(events[1].starts_with("host n2 was lost without a fault: Plimsoll's runner"), "{}", events[1]);
    assert_eq!(deployment.members().len(), 1);
    assert!(deployment.poll().is_empty());
    deployment.processes.hosts.all[1].boot().unwrap();
    assert_eq!(story(&deployment.poll()), ["+n2"]);
    deployment.stop().unwrap();
    assert_eq!(story(&deployment.poll()), ["-n1.server", "-n1", "-n2"]);
    assert_eq!(bench.alive(), 0);
}

#[test]
fn a_crash_by_a_fault_is_expected() {
    let bench = Bench::new();
    let mut deployment = FakeLab::new(&bench, &["", ""]).up(&manifest(vec![server("server")])).unwrap();
    deployment.poll();
    deployment.processes.hosts.all[0].crash().unwrap();
    deployment.processes.note_host_down(0, true);
    assert_eq!(story(&deployment.poll()), ["-n1", "-n1.server"]);
    deployment.processes.hosts.all[0].boot().unwrap();
    deployment.processes.hosts.report_up(0);
    let slot = deployment.processes.slot_of("n1", None).unwrap();
    deployment.processes.start_again(slot).unwrap();
    assert_eq!(story(&deployment.poll()), ["+n1", "+n1.server"]);
}

#[test]
fn host_events_carry_resources_and_measured_storage() {
    let bench = Bench::new();
    let lab = FakeLab::new(&bench, &["", ""]);
    let manifest = manifest(vec![server("server")]);
    let build = DeploymentSpec { storage: StorageFigures::Measured, ..bench.build(&lab.trial, Some(&manifest)) };
    let stop = AtomicBool::new(false);
    let mut deployment =
        Deployment::up_on(lab.hosts(), ClientPlacement::default(), &build, Arc::new(LineClient), &stop).unwrap();
    let observed = deployment.poll();
    let events: Vec<_> = observed
        .iter()
        .filter_map(|observed| match &observed.what {
            What::HostUp { kind, profile, is, .. } => Some((kind.as_str(), profile.as_deref(), is)),
            _ => None,
        })
        .collect();
    assert_eq!((events[0].0, events[0].1, events[0].2.cores), ("netns", Some("slow"), Some(4)));
    assert_eq!((events[0].2.storage_sync_us, &events[0].2.storage_unmeasured), (Some(600.0), &None));
    assert_eq!(events[1].2.storage_unmeasured.as_deref(), Some("host n2: no room"));
}
