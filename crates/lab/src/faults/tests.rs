//! Tests of the faults: their arguments and victims, on real processes and on virtual hosts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use experiment::manifest::{Process, ReadyCheck};
use experiment::plan::{self, TargetKind};
use experiment::profile::Link;
use fixture::{is_alive, until};
use record::events::What;
use runner::ProgramSpec;
use rustix::process::geteuid;
use serde_json::{Value, json};

use super::*;
use crate::fakes::{Adjust as _, Bench, FakeDeployment, LineClient, folder_trial, manifest, server, shell, trial};
use crate::faults::{KINDS, find};
use crate::host_process::{ProcessExit, ProgramOutput};
use crate::{ClientPlacement, Deployment, DeploymentSpec, Error};

fn fault(kind: &str, with: &[(&str, &str)]) -> plan::Fault {
    plan::Fault {
        name: "it".to_owned(),
        kind: kind.to_owned(),
        with: with.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect(),
        seed: 1,
        ..plan::Fault::default()
    }
}

fn downs(deployment: &mut Deployment) -> Vec<(String, bool)> {
    let observed = deployment.poll().into_iter().filter_map(|observed| match observed.what {
        What::ProcessDown { how, expected, .. } => Some((how, expected)),
        _ => None,
    });
    observed.collect()
}

#[test]
fn kinds_are_sorted_and_found() {
    assert!(KINDS.is_sorted_by_key(|kind| kind.info.name));
    for kind in KINDS {
        assert_eq!(find(kind.info.name).unwrap().info.help, kind.info.help);
    }
    assert!(find("earthquake").is_none());
}

#[test]
fn a_killed_process_comes_back_with_the_same_port_and_data() {
    let bench = Bench::new();
    let mut deployment = bench.up(&manifest(vec![server("server")])).unwrap();
    let (first, service) = (deployment.members()[0].pid, deployment.service());
    let kill = find("kill").unwrap();
    assert_eq!((kill.inject)(&fault("kill", &[]), 1, &mut deployment).unwrap().on, ["n1"]);
    let mut seen = Vec::new();
    until("its end is seen", || {
        seen.extend(downs(&mut deployment));
        !seen.is_empty()
    });
    assert_eq!(seen, [("signal 9".to_owned(), true)]);
    assert!(!is_alive(first) && deployment.members().is_empty());

    (kill.heal)(&fault("kill", &[]), 1, &mut deployment).unwrap();
    until("it answers again", || deployment.caller().call(&service, "ping", &BTreeMap::new()).is_ok());
    assert_ne!(deployment.members()[0].pid, first);
    let mut stream = TcpStream::connect(&service).unwrap();
    stream.write_all(b"starts\n").unwrap();
    let mut starts = String::new();
    stream.read_to_string(&mut starts).unwrap();
    assert_eq!(starts.lines().count(), 2, "the data folder is the same: {starts}");
    assert!(matches!(deployment.poll().first().unwrap().what, What::ProcessUp { .. }));

    // The end of the restarted process is not expected.
    deployment.caller().provoke(&service, "crash", &BTreeMap::new()).unwrap();
    until("its end is seen", || {
        seen.extend(downs(&mut deployment));
        seen.len() == 2
    });
    assert_eq!(seen[1], ("exit 101".to_owned(), false));
}

#[test]
fn healing_without_a_fault_does_nothing() {
    let bench = Bench::new();
    let mut deployment = bench.up(&manifest(vec![server("server")])).unwrap();
    let pid = deployment.members()[0].pid;
    (find("kill").unwrap().heal)(&fault("kill", &[]), 1, &mut deployment).unwrap();
    assert_eq!(deployment.members()[0].pid, pid);
}

#[test]
fn kill_refuses_unknown_signals_and_processes() {
    let bench = Bench::new();
    let mut deployment = bench.up(&manifest(vec![server("server")])).unwrap();
    let mut refused = |with: &[(&str, &str)]| {
        (find("kill").unwrap().inject)(&fault("kill", with), 1, &mut deployment).err().unwrap().to_string()
    };
    assert_eq!(refused(&[("signal", "STOP")]), "`STOP` is not a signal that `kill` can send");
    assert_eq!(refused(&[("process", "hub")]), "n1 has no process `hub`");
}

#[test]
fn a_call_that_crashes_the_target_succeeds() {
    let bench = Bench::new();
    let mut deployment = bench.up(&manifest(vec![server("server")])).unwrap();
    let call = find("call").unwrap();
    assert_eq!((call.inject)(&fault("call", &[("call", "ping")]), 1, &mut deployment).unwrap().on, ["n1"]);
    let refused = (call.inject)(&fault("call", &[("call", "refuse")]), 2, &mut deployment).err().unwrap();
    assert!(refused.to_string().ends_with("answered no"), "{refused}");
    (call.inject)(&fault("call", &[("call", "crash")]), 3, &mut deployment).unwrap();
    let mut seen = Vec::new();
    until("its end is seen", || {
        seen.extend(downs(&mut deployment));
        !seen.is_empty()
    });
    // An operation crashed it, not a fault, so the events call it unexpected.
    assert_eq!(seen, [("exit 101".to_owned(), false)]);
}

#[test]
fn only_command_faults_work_on_a_running_target() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let mut deployment = bench.up_with(&trial(TargetKind::Running { url }), None, &AtomicBool::new(false)).unwrap();
    for kind in KINDS.iter().filter(|kind| kind.info.name != "command") {
        let name = kind.info.name;
        let error = (kind.inject)(&fault(name, &[("call", "ping")]), 1, &mut deployment).err().unwrap();
        assert!(matches!(&error, Error::NotOurs { kind } if kind == name), "{error}");
    }
}

/// The user's own command can break a container, a unit of systemd or a cluster.
#[test]
fn a_command_fault_can_break_a_running_target() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let note = bench.folder.join("note");
    let write = |word: &str| format!("echo {word} >>{}", note.display());
    let fault = fault("command", &[("run", &write("broken")), ("heal", &write("healed"))]);
    let trial = plan::Trial { faults: vec![fault.clone()], ..trial(TargetKind::Running { url }) };
    let mut deployment = bench.up_with(&trial, None, &AtomicBool::new(false)).unwrap();
    let kind = find("command").unwrap();
    assert_eq!((kind.inject)(&fault, 1, &mut deployment).unwrap().on.len(), 1);
    (kind.heal)(&fault, 1, &mut deployment).unwrap();
    assert_eq!(std::fs::read_to_string(note).unwrap(), "broken\nhealed\n");
}

#[test]
fn a_command_gets_the_environment_of_a_hook() {
    let bench = Bench::new();
    let mut deployment = bench.up(&manifest(vec![server("server")])).unwrap();
    let note = bench.folder.join("note");
    let run = format!(
        "echo $PLIMSOLL_HOST:$PLIMSOLL_PORT_SERVICE $PLIMSOLL_NAME $PLIMSOLL_PID_SERVER {{port.service}} >{}",
        note.display()
    );
    (find("command").unwrap().inject)(&fault("command", &[("run", &run)]), 1, &mut deployment).unwrap();
    let (service, pid) = (deployment.service(), deployment.members()[0].pid);
    let port = service.rsplit_once(':').unwrap().1;
    assert_eq!(std::fs::read_to_string(note).unwrap(), format!("{service} n1 {pid} {port}\n"));
}

#[test]
fn heal_returns_whether_a_fault_was_undone() {
    let mut stage = FakeDeployment::of(1);
    let healed = |stage: &mut FakeDeployment, fault: plan::Fault| {
        let kind = find(&fault.kind).unwrap();
        (kind.inject)(&fault, 1, &mut stage.deployment).unwrap();
        (kind.heal)(&fault, 1, &mut stage.deployment).unwrap()
    };
    assert!(healed(&mut stage, with("command", "n1", json!({"run": "break it", "heal": "mend it"}))));
    assert!(!healed(&mut stage, with("command", "n1", json!({"run": "break it"}))));
    assert!(!healed(&mut stage, with("kill", "n1", json!({"program": "worker"}))), "nothing here starts it again");
    assert!(healed(&mut stage, with("host_crash", "n1", json!({}))));
    assert!(!healed(&mut stage, plan::Fault { for_s: None, ..with("host_crash", "n1", json!({})) }), "it stays down");
}

#[test]
fn a_leader_fault_hits_the_named_leader() {
    let bench = Bench::new();
    bench.folder.script("hooks/leader", "echo '{\"leader\": \"n1\"}'");
    let mut manifest = manifest(vec![server("server")]);
    manifest.hooks.insert("leader".to_owned(), "hooks/leader".to_owned());
    let mut deployment = bench.up(&manifest).unwrap();
    let (kill, fault) =
        (find("kill").unwrap(), plan::Fault { on: "leader".into(), ..fault("kill", &[("signal", "USR1")]) });
    let answer = deployment.leader_task().unwrap().run(&|| false).leader();
    assert_eq!(answer, Ok("n1".to_owned()));
    bench.folder.script("hooks/leader", "echo lost >&2; exit 1");
    let answered = Instant::now();
    deployment.know_leader(Some(answer));
    let begun = (kill.inject)(&fault, 1, &mut deployment).unwrap();
    assert!(begun.on == ["n1"] && begun.at >= answered);
    deployment.know_leader(None);
    let refused = (kill.inject)(&fault, 2, &mut deployment).err().unwrap();
    assert_eq!(refused.to_string(), "hook `leader`: lost");
}

fn with(kind: &str, on: &str, with: Value) -> plan::Fault {
    let with = with.as_object().unwrap().clone().into_iter().collect();
    plan::Fault { on: on.into(), with, for_s: Some(1.0), ..fault(kind, &[]) }
}

impl FakeDeployment {
    fn inject(&mut self, fault: &plan::Fault, number: u32) -> Result<String, Error> {
        (find(&fault.kind).unwrap().inject)(fault, number, &mut self.deployment).map(|begun| begun.on.join(", "))
    }

    fn heal(&mut self, fault: &plan::Fault, number: u32) -> Result<(), Error> {
        (find(&fault.kind).unwrap().heal)(fault, number, &mut self.deployment).map(drop)
    }
}

#[test]
fn host_faults_are_injected_and_healed() {
    let link = r#""control":"link","link":"#;
    let table = [
        ("clock_skew", json!({"offset": "-5s"}), r#"{"control":"clock","offset_s":-5.0}"#.to_owned()),
        ("full_disk", json!({}), r#"{"control":"full_disk","leave_bytes":0}"#.to_owned()),
        ("full_disk", json!({"leave": "4KiB"}), r#"{"control":"full_disk","leave_bytes":4096}"#.to_owned()),
        ("host_freeze", json!({}), r#"{"control":"freeze"}"#.to_owned()),
        ("link_flap", json!({}), r#"{"control":"link_flap","down_s":0.5,"up_s":2.0}"#.to_owned()),
        (
            "lossy_link",
            json!({"loss_pct": 5}),
            format!(r#"{{{link}{{"rate_bits_per_s":null,"delay_s":null,"loss_pct":5.0}},"peers":null}}"#),
        ),
        ("memory_limit", json!({"size": "1MiB"}), r#"{"control":"memory","bytes":1048576}"#.to_owned()),
        (
            "slow_link",
            json!({"rate": "10mbit", "delay": "50ms"}),
            format!(r#"{{{link}{{"rate_bits_per_s":10000000.0,"delay_s":0.05,"loss_pct":null}},"peers":null}}"#),
        ),
        ("squeeze", json!({"cpu": 0.25}), r#"{"control":"cpu","of_profile":0.25}"#.to_owned()),
    ];
    let mut stage = FakeDeployment::of(3);
    for (kind, arguments, control) in table {
        let fault = with(kind, "n2", arguments);
        assert_eq!(stage.inject(&fault, 7).unwrap(), "n2", "{kind}");
        assert_eq!(stage.done(), [format!("n2 inject it#7 {control}")], "{kind}");
        stage.heal(&fault, 6).unwrap();
        assert_eq!(stage.done(), [] as [&str; 0], "{kind}: another occurrence has nothing to heal");
        stage.heal(&fault, 7).unwrap();
        assert_eq!(stage.done(), ["n2 heal it#7"], "{kind}");
    }
}

#[test]
fn a_group_of_hosts_is_hit_together_or_not_at_all() {
    let mut stage = FakeDeployment::of(3);
    let all = with("squeeze", "all", json!({"cpu": 0.5}));
    assert_eq!(stage.inject(&all, 1).unwrap(), "n1, n2, n3");
    stage.done();
    stage.heal(&all, 1).unwrap();
    assert_eq!(stage.done(), ["n1 heal it#1", "n2 heal it#1", "n3 heal it#1"]);
    stage.refuse(Some("n3 inject"));
    assert_eq!(stage.inject(&all, 2).err().unwrap().to_string(), "n3: it cannot");
    let mut healed: Vec<_> = stage.done().into_iter().filter(|line| line.contains("heal")).collect();
    healed.sort();
    assert_eq!(
        healed,
        ["n1 heal it#2", "n2 heal it#2", "n3 heal it#2"],
        "also where it was refused: nobody knows how far it came"
    );
    stage.heal(&all, 2).unwrap();
    assert_eq!(stage.done(), [] as [&str; 0]);
    let error = stage.inject(&with("squeeze", "n9", json!({"cpu": 0.5})), 3).err().unwrap();
    assert_eq!(error.hint().unwrap(), "there are: n1, n2, n3");
}

#[test]
fn fault_arguments_scale_with_the_lab_speed() {
    let lab = plan::Lab { speed: 0.5, ..plan::Lab::default() };
    let mut stage = FakeDeployment::with(1, lab, |_| {});
    stage.inject(&with("slow_link", "n1", json!({"rate": "10mbit", "delay": "50ms"})), 1).unwrap();
    stage.inject(&with("slow_disk", "n1", json!({"write_iops": 100})), 1).unwrap();
    stage.inject(&with("link_flap", "n1", json!({"down": "1s", "up": "1s"})), 1).unwrap();
    let done = stage.done().join("\n");
    for expected in ["5000000.0", r#""delay_s":0.1"#, r#""write_iops":50.0"#, r#""down_s":2.0"#] {
        assert!(done.contains(expected), "{expected}: {done}");
    }
}

#[test]
fn slow_disk_is_relative_to_profile_or_measurement() {
    let by = with("slow_disk", "n1", json!({"factor": 0.1}));
    let mut stage = FakeDeployment::of(1);
    assert!(stage.inject(&by, 1).err().unwrap().to_string().contains("the speed of the disk of n1 is unknown"));

    let mut stage = FakeDeployment::with(1, plan::Lab::default(), |host| {
        host.runner.storage =
            Some(record::events::HostFigures { storage_write_per_s: Some(500.0), ..Default::default() });
    });
    stage.inject(&by, 1).unwrap();
    assert!(stage.done()[0].contains(r#""write_iops":50.0"#));

    let disk = experiment::profile::Disk { write_iops: Some(200.0), ..Default::default() };
    let profile = experiment::profile::Profile { name: "pi".to_owned(), disk, ..Default::default() };
    let host = plan::Host { name: "n1".to_owned(), profile: Some("pi".to_owned()), ..plan::Host::default() };
    let lab = plan::Lab { speed: 0.5, hosts: vec![host], profiles: vec![profile], ..plan::Lab::default() };
    let mut stage = FakeDeployment::with(1, lab, |_| {});
    stage.inject(&by, 1).unwrap();
    assert!(stage.done()[0].contains(r#""write_iops":10.0"#));
}

#[test]
fn a_partition_cuts_hosts_according_to_its_shape() {
    let mut stage = FakeDeployment::of(3);
    let cut = |host: &str, from: &[&str], to: &[&str]| {
        format!("{host} inject it#1 {}", json!({"control": "cut", "from": from, "to": to}))
    };
    let halves = with("partition", "n2", json!({}));
    assert_eq!(stage.inject(&halves, 1).unwrap(), "n2");
    let (n1, n2, n3) = ("127.0.0.1", "127.0.0.2", "127.0.0.3");
    assert_eq!(stage.done(), [cut("n1", &[n2], &[]), cut("n2", &[n1, n3], &[]), cut("n3", &[n2], &[])]);
    stage.heal(&halves, 1).unwrap();
    assert_eq!(stage.done(), ["n1 heal it#1", "n2 heal it#1", "n3 heal it#1"]);

    stage.inject(&with("partition", "n2", json!({"shape": "one_way"})), 1).unwrap();
    assert_eq!(stage.done(), [cut("n1", &[n2], &[]), cut("n3", &[n2], &[])]);

    // This machine reaches 127.0.0.2 from the address 127.0.0.1, as the clients do here.
    stage.inject(&with("partition", "n2", json!({"clients": "majority"})), 1).unwrap();
    assert_eq!(stage.done()[1], cut("n2", &[n1, n3, n1], &[n1]));

    let refused = stage.inject(&with("partition", "n1", json!({"shape": "ring"})), 1).err().unwrap();
    assert_eq!(refused.to_string(), "a ring needs at least 4 hosts, but the lab has 3: all of them are neighbours");
}

#[test]
fn a_crashed_host_boots_again_only_with_a_duration() {
    let mut stage = FakeDeployment::of(2);
    let mut crash = with("host_crash", "n2", json!({}));
    stage.inject(&crash, 1).unwrap();
    assert!(stage.inject(&crash, 2).err().unwrap().to_string().contains("n2 is already down"));
    assert_eq!(stage.done(), ["n2 crash"]);
    stage.heal(&crash, 1).unwrap();
    assert_eq!(stage.done(), ["n2 boot", "n2 start server", "n2 start agent"]);
    crash.for_s = None;
    stage.inject(&crash, 3).unwrap();
    stage.heal(&crash, 3).unwrap();
    assert_eq!(stage.done(), ["n2 crash"]);
}

#[test]
fn processes_are_paused_and_restarted() {
    let mut stage = FakeDeployment::of(2);
    let pause = with("pause", "all", json!({"process": "agent"}));
    assert_eq!(stage.inject(&pause, 1).unwrap(), "n1, n2");
    stage.heal(&pause, 1).unwrap();
    let group = |host: &str, signal: u8| format!("{host} agent group signal {signal}");
    assert_eq!(stage.done(), [group("n1", 19), group("n2", 19), group("n1", 18), group("n2", 18)]);

    assert_eq!(stage.inject(&with("restart", "n1", json!({})), 1).unwrap(), "n1");
    stage.deployment.poll();
    assert_eq!(stage.done(), ["n1 server signal 15", "n1 start server"]);
    let refused = stage.inject(&with("restart", "n1", json!({"process": "hub"})), 1).err().unwrap();
    assert_eq!(refused.to_string(), "n1 has no process `hub`");
}

#[test]
fn a_command_is_run_and_undone() {
    let mut stage = FakeDeployment::of(2);
    let command = with("command", "n2", json!({"run": "break it", "heal": "mend it", "within": "3s"}));
    assert_eq!(stage.inject(&command, 1).unwrap(), "n2");
    stage.heal(&command, 1).unwrap();
    stage.heal(&command, 1).unwrap();
    assert_eq!(stage.done(), ["n2 run `break it` within 3 s", "n2 run `mend it` within 3 s"]);
    let refused = stage.inject(&with("command", "n1", json!({"run": "fail"})), 1).err().unwrap();
    assert_eq!(refused.to_string(), "`run` on n1: exit 1: it is broken");
}

#[test]
fn host_faults_are_refused_on_this_machine() {
    let mut stage =
        FakeDeployment::with(1, plan::Lab::default(), |host| host.kind = crate::host::HostKind::ThisMachine);
    let of_hosts = [
        "clock_skew",
        "full_disk",
        "host_crash",
        "host_freeze",
        "link_flap",
        "lossy_link",
        "memory_limit",
        "partition",
        "slow_disk",
        "slow_link",
        "squeeze",
    ];
    for kind in of_hosts {
        let error = stage.inject(&with(kind, "n1", json!({})), 1).err().unwrap();
        assert!(matches!(error, Error::NotAHost), "{kind}: {error}");
        assert!(error.hint().unwrap().contains("hosts = 3"));
    }
    assert_eq!(stage.done(), [] as [&str; 0]);
    stage.inject(&with("pause", "n1", json!({})), 1).unwrap();
}

mod arguments {
    use super::*;

    fn with(value: impl Into<Value>) -> BTreeMap<String, Value> {
        BTreeMap::from([("x".to_owned(), value.into())])
    }

    /// Returns the value, or the problem with it.
    fn read<T>(value: impl Into<Value>, read: impl Fn(&mut Arguments<'_>) -> T) -> Result<T, String> {
        let with = with(value);
        let mut arguments = Arguments::new(&with);
        let made = read(&mut arguments);
        arguments.finish(made).map_err(|wrongs| wrongs[0].what.clone())
    }

    #[test]
    fn quantities_have_units() {
        let bits = |text: &str| read(text, |arguments| arguments.bits_per_s("x"));
        assert_eq!(bits("10mbit"), Ok(Some(1e7)));
        assert_eq!(bits("1.5 Gbit/s"), Ok(Some(1.5e9)));
        assert_eq!(bits("fast").unwrap_err(), "`x = \"fast\"` is not a rate");
        for bad in ["10", "10mb", "0mbit", "mbit", "", "1.2.3mbit", "-1mbit"] {
            assert!(bits(bad).is_err(), "{bad}");
        }
        let bytes = |text: &str| read(text, |arguments| arguments.bytes("x"));
        assert_eq!(
            (bytes("512MiB"), bytes("0B"), bytes("2GB")),
            (Ok(Some(512 << 20)), Ok(Some(0)), Ok(Some(2_000_000_000)))
        );
        assert!(bytes("512").is_err() && bytes("9999999999TiB").is_err());
        let rate = |text: &str| read(text, |arguments| arguments.bytes_per_s("x"));
        assert_eq!(rate("20MB/s"), Ok(Some(2e7)));
        assert!(rate("20MB").is_err());
    }

    #[test]
    fn a_bare_number_is_no_quantity() {
        assert_eq!(read(10, |arguments| arguments.bits_per_s("x")).unwrap_err(), "`x = 10` is not a rate");
        assert_eq!(read(10, |arguments| arguments.seconds("x")).unwrap_err(), "`x = 10` is not a duration");
    }

    #[test]
    fn numbers_have_bounds() {
        let number = |value: Value| read(value, |arguments| arguments.number("x", 0.0, 100.0));
        assert_eq!(
            (number(5.into()), number("5%".into()), number(100.into())),
            (Ok(Some(5.0)), Ok(Some(5.0)), Ok(Some(100.0)))
        );
        for bad in [Value::from(0), 101.into(), "much".into(), "NaN".into(), "-1".into()] {
            assert!(number(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn offsets_may_be_negative() {
        let offset = |text: &str| read(text, |arguments| arguments.signed_seconds("x"));
        assert_eq!((offset("-5s"), offset("250ms"), offset("+1m")), (Ok(Some(-5.0)), Ok(Some(0.25)), Ok(Some(60.0))));
        assert!(offset("--5s").is_err() && offset("5").is_err());
    }

    #[test]
    fn an_unknown_word_lists_the_allowed_words() {
        let word = |text: &str| read(text, |arguments| arguments.word("x", &["halves", "ring"]));
        assert_eq!(word("ring"), Ok("ring"));
        let with = with("rings");
        let mut arguments = Arguments::new(&with);
        assert_eq!(
            (arguments.word("y", &["halves", "ring"]), arguments.word("x", &["halves", "ring"])),
            ("halves", "halves")
        );
        let wrongs = arguments.finish(()).unwrap_err();
        assert_eq!(wrongs[0].argument, Some("x"));
        assert_eq!(wrongs[0].hint.as_deref(), Some("known values: halves, ring"));
    }
}

#[test]
fn wrong_arguments_are_found_before_the_run() {
    let wrong = |kind: &str, arguments: Value| {
        let check = find(kind).unwrap().info.check.unwrap();
        check(&with(kind, "one", arguments).with).into_iter().map(|wrong| wrong.what).collect::<Vec<_>>().join("; ")
    };
    let table = [
        ("clock_skew", json!({"offset": 5}), "`offset = 5` is not a duration"),
        ("command", json!({"run": "x", "within": "long"}), "`within = \"long\"` is not a duration"),
        ("full_disk", json!({"leave": "none"}), "`leave = \"none\"` is not a size"),
        ("kill", json!({"signal": "STOP"}), "`STOP` is not a signal that `kill` can send"),
        ("link_flap", json!({"down": "1ms"}), "`down` is too short"),
        ("lossy_link", json!({"loss_pct": 0}), "`loss_pct = 0` is not valid"),
        ("memory_limit", json!({"size": "0B"}), "a host needs some memory"),
        ("partition", json!({"shape": "half"}), "`shape = \"half\"` is not a known value"),
        ("restart", json!({"wait": "1"}), "`wait = \"1\"` is not a duration"),
        ("slow_disk", json!({}), "the limit is missing"),
        ("slow_disk", json!({"factor": 0.5, "write_iops": 5}), "`factor` cannot be combined with rates"),
        (
            "slow_link",
            json!({"rate": "fast", "delay": "-1s"}),
            "`rate = \"fast\"` is not a rate; `delay = \"-1s\"` is not a duration",
        ),
        ("slow_port", json!({"port": "bulk"}), "the limit is missing"),
        ("slow_port", json!({"port": "bulk", "rate": "0mbit"}), "`rate = \"0mbit\"` is not a rate"),
        ("squeeze", json!({"cpu": 1}), "`cpu` must be below 1"),
        ("squeeze", json!({"cpu": "half"}), "`cpu = \"half\"` is not valid"),
    ];
    for (kind, arguments, expected) in table {
        assert_eq!(wrong(kind, arguments), expected, "{kind}");
    }
    for (kind, arguments) in [
        ("slow_link", json!({"delay": "50ms"})),
        ("slow_port", json!({"port": "bulk", "delay": "50ms"})),
        ("slow_disk", json!({"write_rate": "10MB/s"})),
        ("lossy_link", json!({"loss_pct": 100})),
        ("kill", json!({})),
    ] {
        assert_eq!(wrong(kind, arguments), "", "{kind}");
    }
}

#[test]
fn checks_name_only_accepted_arguments() {
    for kind in KINDS {
        let info = kind.info;
        let Some(check) = info.check else { continue };
        for field in info.takes {
            let with = BTreeMap::from([(field.name.to_owned(), Value::from(vec![1]))]);
            for wrong in check(&with) {
                let named = wrong.argument.is_none_or(|name| info.takes.iter().any(|field| field.name == name));
                assert!(named && wrong.hint.is_some(), "{}: {wrong:?}", info.name);
            }
        }
    }
}

#[test]
fn fault_colours_are_distinct_on_light_and_dark() {
    let parts = |colour: &str| [1, 3, 5].map(|at| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()));
    let luminance = |colour: &str| {
        let linear = parts(colour).map(|part| {
            let part = part / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    };
    for (index, kind) in KINDS.iter().enumerate() {
        let light = luminance(kind.info.colour);
        // The contrast is 3 : 1 against white and against the background of a dark page.
        assert!((0.13..=0.3).contains(&light), "{}: {light}", kind.info.name);
        for other in &KINDS[..index] {
            let (a, b) = (parts(kind.info.colour), parts(other.info.colour));
            let apart: f64 = (0..3).map(|at| (a[at] - b[at]).abs()).sum();
            assert!(apart >= 50.0, "{} and {}: {apart}", kind.info.name, other.info.name);
        }
    }
}

/// Tests of the faults on virtual hosts, with the program itself. Build it first with `cargo build
/// -p plimsoll`, then run `cargo test -p plimsoll-lab -- --ignored faults::tests::hosts` as root.
mod hosts {
    use super::*;

    /// Server that sends its name and then the requested number of bytes, on each of its ports.
    const SPEAK: &str = "
import socket, sys, threading
def serve(port):
    s = socket.socket()
    s.setsockopt(1, 2, 1)
    s.bind((sys.argv[1], int(port)))
    s.listen(9)
    while 1:
        c, _ = s.accept()
        threading.Thread(target=answer, args=(c,)).start()
def answer(c):
    c.send(socket.gethostname().encode())
    try:
        c.sendall(bytes(int(c.recv(20) or 0)))
    except OSError:
        pass
    c.close()
threading.Thread(target=serve, args=(sys.argv[3],)).start()
serve(sys.argv[2])
";
    const ASK: &str = "
import socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 0.5)
sys.exit(0 if c.recv(99) else 1)
";

    /// Client that prints the rate in bits/s at which the requested bytes arrive.
    const MEASURE: &str = "
import socket, sys, time
c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
c.recv(99)
left = int(sys.argv[3])
began = time.monotonic()
c.send(str(left).encode())
while left > 0:
    left -= len(c.recv(65536))
print(8 * int(sys.argv[3]) / (time.monotonic() - began))
";

    /// A deployment with such a server on each of three hosts, and its faults.
    struct TestLab {
        deployment: Deployment,
    }

    impl TestLab {
        fn inject(&mut self, kind: &str, on: &str, with: Value) -> Result<plan::Fault, Error> {
            let fault = plan::Fault { for_s: Some(1.0), ..super::with(kind, on, with) };
            (find(kind).unwrap().inject)(&fault, 1, &mut self.deployment).map(|_| fault)
        }

        fn heal(&mut self, fault: &plan::Fault) {
            (find(&fault.kind).unwrap().heal)(fault, 1, &mut self.deployment).unwrap();
        }

        fn run(&self, host: &str, command: &[&str]) -> ProgramOutput {
            let command = command.iter().map(|part| (*part).to_owned()).collect();
            let program = ProgramSpec { role: "test".to_owned(), command, ..ProgramSpec::default() };
            self.deployment.processes.hosts.run(host, &program, Duration::from_secs(20)).unwrap()
        }

        /// Whether one host gets an answer from the other.
        fn hears(&self, from: &str, to: &str) -> bool {
            let service = self.deployment.service_of(to);
            let (host, port) = service.split_once(':').unwrap();
            self.run(from, &["python3", "-c", ASK, host, port]).ended == ProcessExit::Exit(0)
        }

        /// Returns the payload rate in bits/s from a port of another host.
        fn gets(&self, from: &str, to: &str, port: &str, bytes: u32) -> f64 {
            let address = self.deployment.service_of(to).split(':').next().unwrap().to_owned();
            let (port, bytes) = (self.deployment.lab.ports_named(port)[0].to_string(), bytes.to_string());
            self.run(from, &["python3", "-c", MEASURE, &address, &port, &bytes]).output.trim().parse().unwrap()
        }

        /// Returns the queues of a host, without the numbers that the kernel assigns.
        fn queues(&self, host: &str) -> Vec<String> {
            let says = self.run(host, &["tc", "qdisc"]).output;
            says.lines().map(|line| line.split(" refcnt").next().unwrap().trim().to_owned()).collect()
        }

        /// Whether a client gets an answer. Call it in the clients' placement.
        fn answers(&self, host: &str) -> bool {
            let place: SocketAddr = self.deployment.service_of(host).parse().unwrap();
            let Ok(mut stream) = TcpStream::connect_timeout(&place, Duration::from_millis(500)) else { return false };
            stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            stream.read_exact(&mut [0]).is_ok()
        }

        fn refused(&mut self, kind: &str, with: Value) -> String {
            self.inject(kind, "n1", with).unwrap_err().to_string()
        }
    }

    /// Makes the deployment and runs `play` in the clients' placement.
    fn on_three_hosts(play: impl FnOnce(&mut TestLab) + Send) {
        on_three_hosts_with(Vec::new(), play);
    }

    fn on_three_hosts_with(ports: Vec<plan::Port>, play: impl FnOnce(&mut TestLab) + Send) {
        if !geteuid().is_root() {
            println!("skipped: virtual hosts need root");
            return;
        }
        let bench = Bench::new();
        let mut trial = folder_trial();
        let host = |name: &str| plan::Host { name: name.to_owned(), ..plan::Host::default() };
        trial.lab =
            plan::Lab { hosts: ["n1", "n2", "n3"].map(host).to_vec(), speed: 1.0, ports, ..plan::Lab::default() };
        let speak =
            ["python3", "-c", &SPEAK.replace('{', "{{").replace('}', "}}"), "{host}", "{port.service}", "{port.bulk}"];
        let server = shell("server", &[]).running(speak.map(str::to_owned).to_vec());
        let server = Process { ports: vec!["service".to_owned(), "bulk".to_owned()], data: true, ..server };
        let manifest = manifest(vec![server.ready_when(ReadyCheck::Tcp("server.service".to_owned()), 20.0)]);
        let built = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("plimsoll");
        assert!(built.exists(), "cargo build -p plimsoll");
        let build = DeploymentSpec { plimsoll: built, ..bench.build(&trial, Some(&manifest)) };
        let (hosts, client_placement) = crate::hosts::of(&build, &AtomicBool::new(false)).unwrap();
        let inside = || {
            let deployment = Deployment::up_on(
                hosts,
                ClientPlacement::default(),
                &build,
                Arc::new(LineClient),
                &AtomicBool::new(false),
            )
            .unwrap();
            let mut lab = TestLab { deployment };
            play(&mut lab);
            lab.deployment.stop().unwrap();
        };
        client_placement.inside(inside).unwrap();
        drop(client_placement);
        bench.registry.end();
    }

    #[test]
    #[ignore = "needs the built program"]
    fn partitions_and_crashes_of_virtual_hosts() {
        on_three_hosts(|lab| {
            assert!(lab.hears("n2", "n1") && lab.answers("n1"));
            let halves = lab.inject("partition", "n1", json!({})).unwrap();
            assert!(!lab.hears("n2", "n1") && !lab.hears("n1", "n3") && lab.hears("n2", "n3"));
            assert!(lab.answers("n1"), "clients reach all");

            // The fault stays active after the host's crash.
            let crash = lab.inject("host_crash", "n1", json!({})).unwrap_or_else(|error| panic!("{error}"));
            assert!(!lab.answers("n1"));
            lab.heal(&crash);
            until("it serves again", || lab.answers("n1"));
            assert!(!lab.hears("n2", "n1"));
            lab.heal(&halves);
            assert!(lab.hears("n2", "n1"));

            let hidden = lab.inject("partition", "n3", json!({"clients": "majority"})).unwrap();
            assert!(!lab.answers("n3") && lab.answers("n1"));
            lab.heal(&hidden);
            assert!(lab.answers("n3"));
        });
    }

    #[test]
    #[ignore = "needs the built program"]
    fn links_and_limits_of_virtual_hosts() {
        on_three_hosts(|lab| {
            let frozen = lab.inject("host_freeze", "n1", json!({})).unwrap();
            assert!(!lab.answers("n1"));
            lab.heal(&frozen);
            until("it thaws", || lab.answers("n1"));

            let flap = lab.inject("link_flap", "n1", json!({"down": "50ms", "up": "50ms"})).unwrap();
            lab.heal(&flap);
            until("its link is back", || lab.answers("n1") && lab.hears("n1", "n2"));

            let slow = lab.inject("slow_link", "n1", json!({"rate": "1mbit"})).unwrap();
            assert!(lab.run("n1", &["tc", "qdisc"]).output.contains("rate 1Mbit"));
            let lossy = lab.inject("lossy_link", "n2", json!({"loss_pct": 100})).unwrap();
            assert!(!lab.answers("n2"));
            lab.heal(&slow);
            // The faults have the same name and number, so both are healed.
            lab.heal(&lossy);
            assert!(lab.answers("n2") && !lab.run("n1", &["tc", "qdisc"]).output.contains("tbf"));

            let paused = lab.inject("pause", "n1", json!({})).unwrap();
            assert!(!lab.answers("n1"));
            lab.heal(&paused);
            until("it goes on", || lab.answers("n1"));

            for (kind, with) in [("squeeze", json!({"cpu": 0.25})), ("memory_limit", json!({"size": "256MiB"}))] {
                let fault = lab.inject(kind, "n1", with).unwrap();
                lab.heal(&fault);
            }
            assert!(lab.refused("clock_skew", json!({"offset": "5s"})).contains("share the wall clock"));
            assert!(lab.refused("full_disk", json!({})).contains("give its profile a disk"));
            assert!(lab.refused("slow_disk", json!({"write_iops": 5})).contains("volume of its own"));
            let refused = lab.refused("command", json!({"run": "hostname >&2; exit 3"}));
            assert_eq!(refused, "`run` on n1: exit 3: n1");
            lab.inject("restart", "n1", json!({})).unwrap();
            until("it is down", || !lab.answers("n1"));
            until("it serves again", || {
                lab.deployment.poll();
                lab.answers("n1")
            });
        });
    }

    #[test]
    #[ignore = "needs the built program"]
    fn slow_port_slows_only_its_port_in_both_directions() {
        let of_rate = |rate: f64, expected: f64| {
            // Headers are 4 % of a full packet.
            assert!((0.8..=1.2).contains(&(rate / expected)), "{rate} bit/s, and {expected} were asked for");
        };
        let rate = |rate| Link { rate_bits_per_s: Some(rate), ..Link::default() };
        on_three_hosts_with(vec![plan::Port { name: "bulk".to_owned(), link: rate(8e6) }], |lab| {
            let before = lab.queues("n1");
            assert_eq!(
                before.iter().filter(|queue| queue.contains("tbf") && queue.contains("8Mbit")).count(),
                2,
                "{before:?}"
            );
            of_rate(lab.gets("n2", "n1", "bulk", 2_000_000), 8e6);
            assert!(lab.gets("n2", "n1", "service", 20_000_000) > 40e6, "another port is not slowed");

            let slow = lab.inject("slow_port", "n1", json!({"port": "bulk", "rate": "2mbit"})).unwrap();
            of_rate(lab.gets("n2", "n1", "bulk", 500_000), 2e6);
            of_rate(lab.gets("n1", "n2", "bulk", 500_000), 2e6);
            of_rate(lab.gets("n3", "n2", "bulk", 2_000_000), 8e6);
            assert!(lab.gets("n2", "n1", "service", 20_000_000) > 40e6, "another port is not slowed");
            lab.heal(&slow);
            assert_eq!(lab.queues("n1"), before);

            // The port's traffic counts against the link's limit.
            let link = plan::Fault {
                name: "link".to_owned(),
                for_s: Some(1.0),
                ..with("slow_link", "n1", json!({"rate": "1mbit"}))
            };
            (find("slow_link").unwrap().inject)(&link, 1, &mut lab.deployment).unwrap();
            of_rate(lab.gets("n2", "n1", "bulk", 250_000), 1e6);
            // A booted host gets the limit too, before its processes start.
            let crash = lab.inject("host_crash", "n1", json!({})).unwrap_or_else(|error| panic!("{error}"));
            lab.heal(&crash);
            until("it serves again", || lab.answers("n1"));
            (find("slow_link").unwrap().heal)(&link, 1, &mut lab.deployment).unwrap();
            assert_eq!(lab.queues("n1"), before);
            assert!(lab.refused("slow_port", json!({"port": "blk", "rate": "2mbit"})).contains("no port `blk`"));
        });
    }
}

/// A proxy on n1, members on n2, n3, n4.
fn stage() -> FakeDeployment {
    FakeDeployment::behind_a_proxy(3)
}

fn hit(stage: &mut FakeDeployment, kind: &str, on: &str, seed: u64) -> String {
    let fault = plan::Fault { seed, ..with(kind, on, json!({})) };
    let on = stage.inject(&fault, 1).unwrap();
    stage.heal(&fault, 1).unwrap();
    on
}

#[test]
fn groups_contain_only_members() {
    let mut stage = stage();
    assert_eq!(stage.deployment.processes.member_hosts(), ["n2", "n3", "n4"]);
    assert_eq!(stage.deployment.processes.fronts(), ["n1"]);
    for kind in ["host_freeze", "pause"] {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..40 {
            seen.insert(hit(&mut stage, kind, "one", seed));
            assert_eq!(hit(&mut stage, kind, "all", seed), "n2, n3, n4");
            assert!(!hit(&mut stage, kind, "minority", seed).contains("n1"));
            assert_eq!(hit(&mut stage, kind, "majority", seed).split(", ").filter(|host| *host != "n1").count(), 2);
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["n2", "n3", "n4"], "{kind}");
    }
}

#[test]
fn the_proxy_is_hit_only_by_name() {
    let mut stage = stage();
    stage.inject(&with("host_crash", "n1", json!({})), 1).unwrap();
    assert_eq!(stage.done(), ["n1 crash"]);
    let mut stage = self::stage();
    let refused = stage.inject(&with("kill", "n1", json!({})), 1).err().unwrap();
    assert_eq!(refused.to_string(), "no member `n1`");
    stage.inject(&with("kill", "n1", json!({"process": "proxy"})), 1).unwrap();
    stage.inject(&with("kill", "n3", json!({})), 1).unwrap();
    assert_eq!(stage.done(), ["n1 proxy signal 9", "n3 member signal 9"]);
}

#[test]
fn members_are_called_directly_and_clients_use_the_proxy() {
    let stage = stage();
    let [service] = stage.deployment.services().try_into().unwrap();
    assert!(service.starts_with("127.0.0.1:"), "{service}");
    let called = stage.deployment.service_of("n3");
    assert!(called.starts_with("127.0.0.3:") && !called.ends_with(":0"), "{called}");
    // Clients that use the proxy do not depend on a member that is down.
    assert_eq!(stage.deployment.services_but(&["n3".to_owned()]), [service]);
}

#[test]
fn a_partition_leaves_the_proxy_with_the_clients() {
    let mut stage = stage();
    let cut = |host: &str, from: &[&str], to: &[&str]| {
        format!("{host} inject it#1 {}", json!({"control": "cut", "from": from, "to": to}))
    };
    let (proxy, n2, n3, n4) = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4");
    let halves = with("partition", "n2", json!({}));
    assert_eq!(stage.inject(&halves, 1).unwrap(), "n2");
    // The proxy still reaches both sides, like the clients.
    assert_eq!(stage.done(), [cut("n2", &[n3, n4], &[]), cut("n3", &[n2], &[]), cut("n4", &[n2], &[])]);
    stage.heal(&halves, 1).unwrap();
    stage.done();

    stage.inject(&with("partition", "n2", json!({"clients": "majority"})), 1).unwrap();
    // The clients of this machine also have the address 127.0.0.1 here.
    assert_eq!(stage.done()[0], cut("n2", &[n3, n4, proxy, proxy], &[proxy, proxy]));

    // If a fault names it, the proxy's host is treated like any other.
    stage.inject(&with("partition", "n1", json!({})), 1).unwrap();
    assert_eq!(stage.done()[0], cut("n1", &[n2, n3, n4], &[]));
}

#[test]
fn a_member_stops_and_starts_with_its_host() {
    let mut stage = stage();
    let crash = plan::Fault { for_s: Some(1.0), ..with("host_crash", "one", json!({})) };
    let on = stage.inject(&crash, 1).unwrap();
    stage.heal(&crash, 1).unwrap();
    assert_eq!(stage.done(), [format!("{on} crash"), format!("{on} boot"), format!("{on} start member")]);
    stage.inject(&with("host_freeze", "n1", json!({})), 9).unwrap();
}

fn members(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("n{number}")).collect()
}

#[test]
fn groups_have_the_right_size() {
    for (count, minority, majority) in [(1, 0, 1), (2, 0, 2), (3, 1, 2), (4, 1, 3), (5, 2, 3), (16, 7, 9)] {
        let chosen = |on: &str| among(&on.into(), 7, &members(count)).map_or(0, |chosen| chosen.len());
        assert_eq!((chosen("one"), chosen("all")), (1, count));
        assert_eq!((chosen("minority"), chosen("majority")), (minority, majority), "of {count}");
    }
}

#[test]
fn the_seed_decides_the_choice() {
    let chosen = |seed| among(&"one".into(), seed, &members(5)).unwrap();
    assert_eq!(chosen(3), chosen(3));
    let all: std::collections::BTreeSet<_> = (0..100).map(chosen).collect();
    assert_eq!(all.len(), 5);
}

#[test]
fn an_unknown_member_name_is_refused() {
    assert_eq!(among(&"n2".into(), 1, &members(3)).unwrap(), ["n2"]);
    let error = among(&"n9".into(), 1, &members(2)).err().unwrap();
    assert_eq!((error.to_string().as_str(), error.hint().unwrap().as_str()), ("no member `n9`", "there are: n1, n2"));
    assert!(
        among(&"minority".into(), 1, &members(2)).err().unwrap().hint().unwrap().contains("too few for a minority")
    );
}
