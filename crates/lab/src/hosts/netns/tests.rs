//! Tests of virtual hosts with the program itself. Build it first with `cargo build -p plimsoll`,
//! then run `cargo test -p plimsoll-lab -- --ignored hosts::netns` as root. The tests also check
//! that nothing is left on the machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use experiment::plan;
use experiment::profile::{Disk, Link};
use fixture::until;
use runner::ProgramSpec;

use super::*;
use crate::StorageFigures;
use crate::fakes::{Bench, folder_trial};
use crate::host_process::{ProcessExit, Start};

/// Returns the path of `target/debug/plimsoll`.
fn built() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let built = tests.ancestors().nth(2).unwrap().join("plimsoll");
    assert!(built.exists(), "cargo build -p plimsoll");
    built
}

/// Lists the parts of this machine that hosts could change, one per line.
fn machine() -> BTreeSet<String> {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let texts = [
        said("ip", &["-o", "link"]),
        said("nft", &["list", "ruleset"]),
        said("losetup", &["--list", "--noheadings", "--output", "BACK-FILE"]),
        said("sh", &["-c", "find /sys/fs/cgroup -name 'plimsoll*' -type d"]),
        fs::read_to_string("/proc/self/mountinfo").unwrap(),
        fs::read_to_string("/proc/sys/kernel/hostname").unwrap(),
        fs::read_to_string("/etc/hosts").unwrap(),
    ];
    texts.iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
}

/// Waits until everything new on the machine is gone. Ignores changes by other programs.
fn nothing_is_left(before: &BTreeSet<String>, run: &str) {
    let others = |line: &str| line.contains("plimsoll-") && !line.contains(run);
    let left = || machine().difference(before).filter(|line| !others(line)).cloned().collect::<Vec<_>>();
    until("nothing is left", || left().is_empty());
}

fn host(name: &str, networks: &[&str], routes: bool) -> plan::Host {
    let networks = networks.iter().map(|network| (*network).to_owned()).collect();
    plan::Host { name: name.to_owned(), networks, routes, ..plan::Host::default() }
}

type Hosts = Vec<Host>;

/// Makes a lab, runs `work` with it, stops it, and compares the machine with its state before.
fn with_lab(trial: &plan::Trial, envelopes: Vec<Envelope>, work: impl FnOnce(&mut Hosts, &ClientPlacement, &Bench)) {
    let before = machine();
    let bench = Bench::new();
    let build = DeploymentSpec { plimsoll: built(), ..bench.build(trial, None) };
    let placement = Placement { generator_cpus: vec![0], envelopes };
    let begin = Instant::now();
    let (mut hosts, client_placement) =
        raise(&build, &placement, &bench.registry.ledger(), &AtomicBool::new(false)).unwrap();
    println!("up after {:?}", begin.elapsed());
    work(&mut hosts, &client_placement, &bench);
    let begin = Instant::now();
    drop(hosts);
    drop(client_placement);
    println!("down after {:?}", begin.elapsed());
    let folder = bench.registry.scratch().unwrap();
    let run = bench.registry.id().to_owned();
    bench.registry.end();
    assert!(!folder.exists());
    nothing_is_left(&before, &run);
}

fn trial(hosts: Vec<plan::Host>) -> plan::Trial {
    let mut trial = folder_trial();
    trial.lab.hosts = hosts;
    trial
}

fn run(host: &Host, command: &[&str]) -> String {
    let command = command.iter().map(|part| (*part).to_owned()).collect();
    let program = ProgramSpec { role: String::new(), command, ..ProgramSpec::default() };
    let output = host.run(&program, "", Duration::from_secs(20)).unwrap();
    assert_eq!(output.ended, ProcessExit::Exit(0), "{} {}", output.output, output.errors);
    output.output
}

fn sh(host: &Host, script: &str) -> String {
    run(host, &["sh", "-c", script])
}

/// Starts a server on port 7000 that sends its host's name to every client.
fn start_speaker(host: &Host, bench: &Bench) -> crate::session::HostProcess {
    let script = "import socket\ns=socket.socket()\ns.setsockopt(1,2,1)\ns.bind(('0.0.0.0',7000))\ns.listen(9)\nwhile 1:\n c,_=s.accept()\n c.send(socket.gethostname().encode())\n c.close()";
    let start = Start {
        role: "speaker".to_owned(),
        program: "python3".into(),
        arguments: vec!["-c".into(), script.into()],
        log: bench.folder.join(format!("{}.log", host.name())),
        ..Start::default()
    };
    host.start(&start).unwrap()
}

const ASK: &str = "import socket,sys,time\nfor i in range(200):\n try: c=socket.create_connection((sys.argv[1],7000),2)\n except OSError: time.sleep(0.05); continue\n print(c.recv(99).decode()); break";

#[test]
#[ignore = "needs the built program"]
fn three_hosts_know_and_reach_each_other() {
    let hosts = ["n1", "n2", "n3"].map(|name| host(name, &[], false)).to_vec();
    with_lab(&trial(hosts), vec![Envelope::default(); 3], |hosts, client_placement, bench| {
        let mut speakers: Vec<_> = hosts.iter().map(|host| start_speaker(host, bench)).collect();
        assert_eq!(sh(&hosts[0], "hostname; cat /etc/hostname"), "n1\nn1\n");
        for host in hosts.iter() {
            for name in ["n1", "n2", "n3"] {
                assert_eq!(run(host, &["python3", "-c", ASK, name]).trim(), name);
            }
        }
        let mut answer = String::new();
        client_placement
            .inside(|| TcpStream::connect("10.83.0.2:7000").unwrap().read_to_string(&mut answer).unwrap())
            .unwrap();
        assert_eq!(answer, "n2");
        // The host has its own processes, mounts and network, and sees the machine's users and
        // groups.
        assert_eq!(
            sh(&hosts[1], "ls /run /tmp /sys/class/net | tr '\n' ' '"),
            "/run:\nlock\nplimsoll\n\n/sys/class/net:\neth0\nlo\n\n/tmp:\n".replace('\n', " ")
        );
        assert!(sh(&hosts[1], "cat /proc/1/comm; ls /sys/fs/cgroup").starts_with("plimsoll\n"));
        assert_eq!(sh(&hosts[1], "cat /etc/resolv.conf; stat -c %a /tmp /dev/shm"), "1777\n1777\n");
        sh(&hosts[1], "cmp /proc/loadavg /run/plimsoll/loadavg");
        bench.folder.write("program", "hello");
        let target = hosts[2].bring(&bench.folder).unwrap();
        assert_eq!(run(&hosts[2], &["cat", &target.join("program").display().to_string()]), "hello");
        // Power off and on: the name, address and data stay, and the other hosts reach it at once.
        sh(&hosts[1], "echo kept > /run/plimsoll/data/file; echo kept > /tmp/file");
        hosts[1].crash().unwrap();
        assert!(!hosts[1].is_up());
        assert!(speakers[1].wait(Duration::from_secs(60)).is_some());
        hosts[1].boot().unwrap();
        assert_eq!(sh(&hosts[1], "cat /run/plimsoll/data/file; hostname -i"), "kept\n10.83.0.2\n");
        speakers[1] = start_speaker(&hosts[1], bench);
        assert_eq!(run(&hosts[0], &["python3", "-c", ASK, "n2"]).trim(), "n2");
    });
}

#[test]
#[ignore = "needs the built program"]
fn sixteen_hosts_come_up_and_go() {
    let hosts: Vec<_> = (1..=16).map(|number| host(&format!("n{number}"), &[], false)).collect();
    for _ in 0..3 {
        with_lab(&trial(hosts.clone()), vec![Envelope::default(); 16], |_, _, _| {});
    }
}

#[test]
#[ignore = "needs the built program"]
fn hosts_behind_a_router_are_reached_through_it() {
    let mut trial = trial(vec![host("proxy", &["front", "back"], true), host("n1", &["back"], false)]);
    let network = |name: &str| plan::Network { name: name.to_owned(), ..plan::Network::default() };
    trial.lab.networks = vec![network("front"), network("back")];
    with_lab(&trial, vec![Envelope::default(); 2], |hosts, client_placement, bench| {
        let _speaker = start_speaker(&hosts[1], bench);
        assert_eq!(run(&hosts[0], &["python3", "-c", ASK, "n1"]).trim(), "n1");
        let mut answer = String::new();
        client_placement
            .inside(|| TcpStream::connect("10.83.1.2:7000").unwrap().read_to_string(&mut answer).unwrap())
            .unwrap();
        assert_eq!(answer, "n1");
        assert_eq!(
            sh(&hosts[1], "python3 -c 'import socket; print(socket.gethostbyname(\"clients\"))'"),
            "10.83.0.254\n"
        );
    });
}

#[test]
#[ignore = "needs the built program"]
fn a_profile_limits_link_and_disk() {
    let limited = Envelope {
        link: Link { rate_bits_per_s: Some(10e6), ..Link::default() },
        disk: Disk { size_bytes: Some(64 << 20), write_iops: Some(50.0), ..Disk::default() },
        ..Envelope::default()
    };
    let hosts = vec![host("n1", &[], false), host("n2", &[], false)];
    with_lab(&trial(hosts), vec![limited, Envelope::default()], |hosts, _, _| {
        assert!(sh(&hosts[0], "tc qdisc").contains("rate 10Mbit"));
        let size: u64 = sh(&hosts[0], "df -B1 --output=size /run/plimsoll/data | tail -1").trim().parse().unwrap();
        assert!((50 << 20..64 << 20).contains(&size), "{size}");
        let script = "import os,time\nf=os.open('/run/plimsoll/data/x',os.O_CREAT|os.O_WRONLY)\nt=time.time()\nfor i in range(100): os.write(f,b'x'*4096); os.fsync(f)\nprint((time.time()-t)/100*1000)";
        println!("fsync, ms: {}", run(&hosts[0], &["python3", "-c", script]));
        hosts[0].crash().unwrap();
        hosts[0].boot().unwrap();
        assert_eq!(sh(&hosts[0], "ls /run/plimsoll/data/x; tc qdisc | grep -c tbf"), "/run/plimsoll/data/x\n2\n");
    });
}

// The kernel counts a flush as a write, so a disk limited to 50 writes per second did 25 synced
// writes.
#[test]
#[ignore = "needs the built program"]
fn a_throttled_disk_is_mounted_without_barriers() {
    let disk = Disk { size_bytes: Some(64 << 20), write_iops: Some(50.0), ..Disk::default() };
    let limited = vec![Envelope { disk, ..Envelope::default() }];
    with_lab(&trial(vec![host("n1", &[], false)]), limited, |hosts, _, _| {
        let options = sh(&hosts[0], "grep ' /run/plimsoll/data ' /proc/mounts");
        assert!(options.contains("nobarrier"), "{options}");
    });
}

#[test]
#[ignore = "needs the built program"]
fn a_host_that_fails_to_start_leaves_nothing() {
    let before = machine();
    let bench = Bench::new();
    let slow = Envelope { link: Link { delay_s: Some(0.01), ..Link::default() }, ..Envelope::default() };
    let trial = trial(vec![host("n1", &[], false), host("n2", &[], false)]);
    let build = DeploymentSpec { plimsoll: built(), folder: None, ..bench.build(&trial, None) };
    let placement = Placement { generator_cpus: Vec::new(), envelopes: vec![Envelope::default(), slow] };
    match raise(&build, &placement, &bench.registry.ledger(), &AtomicBool::new(false)) {
        Ok(_) => println!("this kernel has netem"),
        Err(error) => assert!(error.to_string().contains("netem is missing"), "{error}"),
    }
    let run = bench.registry.id().to_owned();
    drop(bench);
    nothing_is_left(&before, &run);
}

/// Makes a lab that is not stopped. This is no test; another test starts it.
#[test]
#[ignore = "started by another test"]
fn own() {
    let Ok(folder) = std::env::var("OWNED_LAB") else { return };
    let folder = PathBuf::from(folder);
    let registry = crate::registry::Registry::begin_in(&folder.join("registry"), &folder).unwrap();
    let trial = trial(vec![host("n1", &[], false), host("n2", &[], false)]);
    let build = DeploymentSpec {
        registry: &registry,
        trial: &trial,
        manifest: None,
        folder: None,
        logs: folder.join("logs"),
        plimsoll: built(),
        storage: StorageFigures::NotAsked,
        at_once: Default::default(),
    };
    let disk = Disk { write_iops: Some(100.0), ..Disk::default() };
    let envelopes = vec![Envelope { disk, ..Envelope::default() }, Envelope::default()];
    let raised = raise(
        &build,
        &Placement { generator_cpus: Vec::new(), envelopes },
        &registry.ledger(),
        &AtomicBool::new(false),
    )
    .unwrap();
    // A process that leaves its group, its parent and its environment.
    sh(&raised.0[0], "setsid env -i sleep 1000 >/dev/null 2>&1 &");
    fs::write(folder.join("up"), registry.id()).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
#[ignore = "needs the built program"]
fn leftovers_of_a_killed_lab_are_removed() {
    let before = machine();
    let folder = fixture::TestDir::new();
    let ourselves = fixture::ourselves("hosts::netns::tests::own");
    let mut owner = Command::new(&ourselves[0]).args(&ourselves[1..]).env("OWNED_LAB", &*folder).spawn().unwrap();
    until("it is up", || folder.join("up").exists());
    let run = fs::read_to_string(folder.join("up")).unwrap();
    owner.kill().unwrap();
    owner.wait().unwrap();
    let mut cleaned = crate::CleanupReport::default();
    crate::registry::cleanup::clean_in(&folder.join("registry"), &mut cleaned);
    println!("{:#?}", cleaned.removed);
    assert!(cleaned.removed.iter().any(|line| line.starts_with("control groups plimsoll-")));
    nothing_is_left(&before, &run);
}

/// Prints the requested and the measured values of links, in both directions. Checks nothing.
#[test]
#[ignore = "it measures, and needs the built program"]
fn requested_and_measured_links() {
    for rate in [1e6, 10e6, 100e6, 1e9] {
        let limited = Envelope { link: Link { rate_bits_per_s: Some(rate), ..Link::default() }, ..Envelope::default() };
        let hosts = vec![host("n1", &[], false), host("n2", &[], false)];
        with_lab(&trial(hosts), vec![limited, Envelope::default()], |hosts, _, bench| {
            for (from, to) in [(0, 1), (1, 0)] {
                let start = Start {
                    role: "sink".to_owned(),
                    program: "python3".into(),
                    arguments: vec!["-c".into(), SINK.into()],
                    log: bench.folder.join(format!("sink{from}.log")),
                    ..Start::default()
                };
                let sink = hosts[to].start(&start).unwrap();
                run(&hosts[from], &["python3", "-c", SOURCE, if to == 0 { "n1" } else { "n2" }]);
                sink.wait(Duration::from_secs(20));
                let way = if from == 0 { "out" } else { "in " };
                println!("asked {:7.1} Mbit/s, {way}: {:?}", rate / 1e6, sink.last_lines());
            }
        });
    }
}

const SINK: &str = "import socket,time\ns=socket.socket()\ns.setsockopt(1,2,1)\ns.bind(('0.0.0.0',7001))\ns.listen(1)\nc,_=s.accept()\nn=0\nt0=time.time()\na=None\nwhile 1:\n b=c.recv(1<<18)\n if not b: break\n t=time.time()\n if t-t0>1.5:\n  if a is None: a=t; n=0\n  else: n+=len(b); z=t\nprint('%.3f Mbit/s of payload'%(n*8/(z-a)/1e6))";
const SOURCE: &str = "import socket,sys,time\nfor i in range(200):\n try: c=socket.create_connection((sys.argv[1],7001),2); break\n except OSError: time.sleep(0.05)\nt=time.time()\nc.settimeout(9)\nwhile time.time()-t<6: c.send(b'x'*16384)\nc.close()";

#[test]
fn cpus_are_named_by_ranges() {
    assert_eq!(ranges(&[0, 1, 2, 6, 8, 9]), "0-2,6,8-9");
    assert_eq!(ranges(&[3]), "3");
}
