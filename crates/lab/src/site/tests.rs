//! Tests with real processes: order, readiness, resistance, and that nothing is ever left.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;

use experiment::manifest::{Parameter, ReadyCheck, Takes};
use experiment::plan::TargetKind;
use record::events::What;

use super::*;
use crate::fixture::{Adjust as _, Bench, folder_trial, is_alive, manifest, ourselves, server, shell, trial, until};

fn ups_and_downs(observed: &[Observed]) -> Vec<String> {
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
    // In the file the last comes first.
    let manifest = manifest(vec![
        shell("third", &[&stop("third")])
            .ready_when(ReadyCheck::Tcp("server.service".to_owned()), 20.0)
            .after("second"),
        shell("second", &[&stop("second")]).after("server"),
        server("server"),
    ]);
    let mut site = bench.up(&manifest).unwrap();
    assert_eq!(ups_and_downs(&site.poll()), ["up server", "up second", "up third"]);
    assert_eq!(site.members().len(), 3);
    site.stop().unwrap();
    // A trap that is not set yet lets the signal kill the shell: then it wrote nothing, but its end is seen all the same.
    assert_eq!(ups_and_downs(&site.poll()), ["down third true", "down second true", "down server true"]);
    assert!(site.members().is_empty());
    assert_eq!(bench.alive(), 0);
}

#[test]
fn the_service_answers_where_the_site_says() {
    let bench = Bench::new();
    let site = bench.up(&manifest(vec![server("server")])).unwrap();
    let caller = site.caller();
    assert_eq!(caller.call(&site.service(), "ping", &BTreeMap::new()), Ok(()));
    assert_eq!(site.watched().host(), "n1");
    until("its output is in its log", || bench.log("server").contains("running 1 test"));
}

#[test]
fn a_stubborn_process_is_killed() {
    let bench = Bench::new();
    let mark = bench.folder.join("deaf");
    let deaf = format!("trap '' TERM; : > {}; while :; do sleep 0.05; done", mark.display());
    let manifest = manifest(vec![server("server"), shell("deaf", &[&deaf]).after("server").stop_within(0.1)]);
    let mut site = bench.up(&manifest).unwrap();
    until("it ignores TERM", || mark.exists());
    site.poll();
    site.stop().unwrap();
    let downs = site.poll();
    let how = downs.iter().find_map(|observed| match &observed.what {
        What::ProcessDown { process, how, .. } if process == "deaf" => Some(how.clone()),
        _ => None,
    });
    assert_eq!(how.as_deref(), Some("signal 9"));
    assert_eq!(bench.alive(), 0);
}

#[test]
fn what_leaves_its_process_group_is_found_and_killed() {
    let bench = Bench::new();
    let note = bench.folder.join("escaped");
    // In a session and group of its own, and with a parent that is gone.
    let escape = format!("setsid sh -c 'echo $$ > {}; exec sleep 1000' &\nexec sleep 1000", note.display());
    let manifest = manifest(vec![server("server"), shell("parent", &[&escape]).after("server")]);
    let mut site = bench.up(&manifest).unwrap();
    until("it has escaped", || fs::read_to_string(&note).is_ok_and(|text| text.ends_with('\n')));
    let escaped: u32 = fs::read_to_string(&note).unwrap().trim().parse().unwrap();
    assert!(is_alive(escaped));
    site.stop().unwrap();
    assert!(!is_alive(escaped));
}

#[test]
fn a_dropped_site_leaves_nothing() {
    let bench = Bench::new();
    let site = bench.up(&manifest(vec![server("server")])).unwrap();
    let pid = site.members()[0].pid;
    drop(site);
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
    let Error::DiedAtStart { role, how, log } = &error else { panic!("{error}") };
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
fn a_missing_program_is_named() {
    let bench = Bench::new();
    let mut process = server("server");
    process.run = vec!["no-such-program-anywhere".to_owned()];
    let error = bench.up(&manifest(vec![process])).err().unwrap();
    assert_eq!(error.to_string(), "`no-such-program-anywhere`, which `server` runs, is not on this machine");
    assert!(!error.is_targets());
}

#[test]
fn a_fixed_port_is_used_and_a_taken_one_refused_with_its_holder() {
    let bench = Bench::new();
    let free = crate::ports::free(1).unwrap()[0];
    let mut manifest = manifest(vec![server("server")]);
    let port = |default: u16| Parameter {
        takes: Takes::Integer { min: None, max: None },
        default: default.to_string(),
        help: String::new(),
    };
    manifest.parameters.insert("port".to_owned(), port(free));
    let site = bench.up(&manifest).unwrap();
    assert_eq!(site.service(), format!("127.0.0.1:{free}"));
    drop(site);

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
fn an_unknown_placeholder_and_a_circle_are_errors() {
    let bench = Bench::new();
    let mut process = server("server");
    process.run.push("{colour}".to_owned());
    let error = bench.up(&manifest(vec![process])).err().unwrap();
    assert_eq!(error.to_string(), "`{colour}` in `{colour}` of `server` is not a placeholder");
    assert!(error.hint().unwrap().contains("{port.service}"), "{:?}", error.hint());
    let error = bench.up(&manifest(vec![server("server").after("other"), shell("other", &[]).after("server")]));
    assert!(error.err().unwrap().to_string().contains("in a circle"));
}

#[test]
fn a_command_is_started_and_its_group_ended() {
    let bench = Bench::new();
    let port = crate::ports::free(1).unwrap()[0];
    let command = format!("SERVE_PORT={port} {} & wait", ourselves("fixture::serve").join(" "));
    let kind = |ready: Option<String>, command: &str| TargetKind::Started {
        command: command.to_owned(),
        url: format!("http://127.0.0.1:{port}/"),
        ready,
        within_s: 20.0,
    };
    let stop = AtomicBool::new(false);
    let ready = Some(format!("http://127.0.0.1:{port}/health"));
    let mut site = bench.up_with(&trial(kind(ready, &command)), None, &stop).unwrap();
    assert_eq!(site.service(), format!("http://127.0.0.1:{port}/"));
    assert!(bench.alive() >= 2);
    site.stop().unwrap();
    assert_eq!(bench.alive(), 0);
    let error = bench.up_with(&trial(kind(None, "echo it cannot; exit 2")), None, &stop).err().unwrap();
    assert!(error.to_string().contains("(exit 2); its last lines:\n  it cannot"), "{error}");
}

#[test]
fn a_command_whose_url_somebody_else_answers_is_not_started() {
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
fn what_runs_already_is_only_looked_at() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    let running = |url: &str| trial(TargetKind::Running { url: url.to_owned() });
    let mut site = bench.up_with(&running(&url), None, &AtomicBool::new(false)).unwrap();
    assert_eq!((site.service(), site.members()), (url.clone(), Vec::new()));
    assert_eq!((site.inspect(), site.watched().host()), (None, "local"));
    site.stop().unwrap();
    drop(listener);
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
    let delay = Parameter { takes: Takes::Duration, default: "50ms".to_owned(), help: String::new() };
    manifest.parameters.insert("the-delay".to_owned(), delay);
    let site = bench.up(&manifest).unwrap();
    let says = site.inspect().unwrap();
    assert_eq!(says["host"], "127.0.0.1");
    assert_eq!(site.service(), format!("127.0.0.1:{}", says["port"]));
    assert_eq!(says["pid"], site.members()[0].pid);
    assert_eq!(says["with"], "0.05");
    assert!(says["data"].as_str().unwrap().ends_with("n1.server"));

    bench.folder.script("hooks/inspect", "echo broken >&2; exit 4");
    assert_eq!(site.inspect().unwrap()["failed"], "hook `inspect` failed: exit status: 4: broken");
}

#[test]
fn what_processes_say_that_the_target_names_is_observed() {
    let bench = Bench::new();
    let script = "echo all is well; echo oh dear; i=0; while [ $i -lt 25 ]; do i=$((i+1)); echo broken $i >&2; done; \
                  printf 'oh, and'; exec sleep 1000";
    let mut talking = manifest(vec![server("server"), shell("talker", &[script]).after("server")]);
    talking.log.notable = vec!["oh".to_owned()];
    talking.log.alarming = vec!["broken".to_owned()];
    let mut site = bench.up(&talking).unwrap();
    let mut said = Vec::new();
    let hear = |site: &mut Site, said: &mut Vec<(String, bool, u64)>| {
        said.extend(site.poll().into_iter().filter_map(|observed| match observed.what {
            What::Log { host, process, line, alarming, left_out, .. } => {
                assert_eq!((host.as_str(), process.as_str()), ("n1", "talker"));
                Some((line, alarming, left_out))
            }
            _ => None,
        }));
    };
    until("it has said its lines", || {
        hear(&mut site, &mut said);
        said.len() == 21
    });
    assert_eq!(said[0], ("oh dear".to_owned(), false, 0));
    assert_eq!((&said[1], &said[20]), (&("broken 1".to_owned(), true, 0), &("broken 20".to_owned(), true, 0)));
    site.stop().unwrap();
    hear(&mut site, &mut said);
    assert_eq!(said[21..], [("broken 25".to_owned(), true, 5), ("oh, and".to_owned(), false, 0)]);
}

#[test]
fn one_that_ends_by_itself_is_quoted() {
    let bench = Bench::new();
    let mark = bench.folder.join("now");
    let script = format!("until [ -e {} ]; do sleep 0.05; done; echo why; echo that is why; exit 3", mark.display());
    let mut site = bench.up(&manifest(vec![server("server"), shell("mortal", &[&script]).after("server")])).unwrap();
    fs::write(&mark, "").unwrap();
    let mut quoted = Vec::new();
    until("it ends", || {
        quoted.extend(site.poll().into_iter().filter_map(|observed| match observed.what {
            What::ProcessDown { last_lines, expected: false, .. } => Some(last_lines),
            _ => None,
        }));
        !quoted.is_empty()
    });
    assert_eq!(quoted, [["why", "that is why"]]);
    site.stop().unwrap();
    let silent = |observed: &Observed| match &observed.what {
        What::ProcessDown { last_lines, .. } => last_lines.is_empty(),
        _ => true,
    };
    assert!(site.poll().iter().all(silent), "of those that were meant to end nobody asks");
}
