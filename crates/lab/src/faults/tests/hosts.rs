//! Tests of the faults on virtual hosts, with the program itself, which has to be built before: `cargo build -p plimsoll`, then
//! as root `cargo test -p lab -- --ignored faults::tests::hosts`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use experiment::manifest::{Process, ReadyCheck};
use experiment::plan;
use experiment::profile::Link;
use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::fixture::{Adjust as _, Bench, Lines, folder_trial, manifest, shell, until};
use crate::hosts::{self, Ended, Output};
use crate::runner::Program;
use crate::{Build, Error, Ground, Site};

/// Says its name, and then as many bytes as it is asked for, on each of its ports.
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

/// Prints the bits/s at which so many bytes come.
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

/// A site with a speaker on each of three hosts, and its faults.
struct Ward {
    site: Site,
}

impl Ward {
    fn begin(&mut self, kind: &str, on: &str, with: Value) -> Result<plan::Fault, Error> {
        let fault = plan::Fault { for_s: Some(1.0), ..super::with(kind, on, with) };
        (super::find(kind).unwrap().begin)(&fault, 1, &mut self.site).map(|_| fault)
    }

    fn heal(&mut self, fault: &plan::Fault) {
        (super::find(&fault.kind).unwrap().heal)(fault, 1, &mut self.site).unwrap();
    }

    fn run(&self, host: &str, command: &[&str]) -> Output {
        let command = command.iter().map(|part| (*part).to_owned()).collect();
        let program = Program { role: "test".to_owned(), command, ..Program::default() };
        self.site.run_on(host, &program, Duration::from_secs(20)).unwrap()
    }

    /// Whether one host gets an answer of the other.
    fn hears(&self, from: &str, to: &str) -> bool {
        let service = self.site.service_of(to);
        let (host, port) = service.split_once(':').unwrap();
        self.run(from, &["python3", "-c", ASK, host, port]).ended == Ended::Exit(0)
    }

    /// Bits/s of payload that one host gets from a port of the other.
    fn gets(&self, from: &str, to: &str, port: &str, bytes: u32) -> f64 {
        let address = self.site.service_of(to).split(':').next().unwrap().to_owned();
        let (port, bytes) = (self.site.ports_named(port)[0].to_string(), bytes.to_string());
        self.run(from, &["python3", "-c", MEASURE, &address, &port, &bytes]).output.trim().parse().unwrap()
    }

    /// The queues of a host, without what the kernel numbers by itself.
    fn queues(&self, host: &str) -> Vec<String> {
        let says = self.run(host, &["tc", "qdisc"]).output;
        says.lines().map(|line| line.split(" refcnt").next().unwrap().trim().to_owned()).collect()
    }

    /// Whether a client does; to be asked inside.
    fn answers(&self, host: &str) -> bool {
        let place: SocketAddr = self.site.service_of(host).parse().unwrap();
        let Ok(mut stream) = TcpStream::connect_timeout(&place, Duration::from_millis(500)) else { return false };
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        matches!(stream.read(&mut [0; 99]), Ok(count) if count > 0)
    }

    fn refused(&mut self, kind: &str, with: Value) -> String {
        self.begin(kind, "n1", with).unwrap_err().to_string()
    }
}

/// Makes the site and plays with it where the clients are.
fn on_three_hosts(play: impl FnOnce(&mut Ward) + Send) {
    on_three_hosts_with(Vec::new(), play);
}

fn on_three_hosts_with(ports: Vec<plan::Port>, play: impl FnOnce(&mut Ward) + Send) {
    if !geteuid().is_root() {
        println!("skipped: virtual hosts need root");
        return;
    }
    let bench = Bench::new();
    let mut trial = folder_trial();
    let host = |name: &str| plan::Host { name: name.to_owned(), ..plan::Host::default() };
    trial.lab = plan::Lab { hosts: ["n1", "n2", "n3"].map(host).to_vec(), speed: 1.0, ports, ..plan::Lab::default() };
    let speak =
        ["python3", "-c", &SPEAK.replace('{', "{{").replace('}', "}}"), "{host}", "{port.service}", "{port.bulk}"];
    let server = shell("server", &[]).running(speak.map(str::to_owned).to_vec());
    let server = Process { ports: vec!["service".to_owned(), "bulk".to_owned()], data: true, ..server };
    let manifest = manifest(vec![server.ready_when(ReadyCheck::Tcp("server.service".to_owned()), 20.0)]);
    let built = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("plimsoll");
    assert!(built.exists(), "cargo build -p plimsoll");
    let build = Build { plimsoll: built, ..bench.build(&trial, Some(&manifest)) };
    let (hosts, ground) = hosts::of(&build, &AtomicBool::new(false)).unwrap();
    let inside = || {
        let site = Site::up_on(hosts, Ground::default(), &build, Arc::new(Lines), &AtomicBool::new(false)).unwrap();
        let mut ward = Ward { site };
        play(&mut ward);
        ward.site.stop().unwrap();
    };
    ground.inside(inside).unwrap();
    drop(ground);
    bench.registry.end();
}

#[test]
#[ignore = "needs the built program"]
fn partitions_and_crashes_of_virtual_hosts() {
    on_three_hosts(|ward| {
        assert!(ward.hears("n2", "n1") && ward.answers("n1"));
        let halves = ward.begin("partition", "n1", json!({})).unwrap();
        assert!(!ward.hears("n2", "n1") && !ward.hears("n1", "n3") && ward.hears("n2", "n3"));
        assert!(ward.answers("n1"), "clients reach all");

        // It outlives the host.
        let crash = ward.begin("host_crash", "n1", json!({})).unwrap_or_else(|error| panic!("{error}"));
        assert!(!ward.answers("n1"));
        ward.heal(&crash);
        until("it serves again", || ward.answers("n1"));
        assert!(!ward.hears("n2", "n1"));
        ward.heal(&halves);
        assert!(ward.hears("n2", "n1"));

        let hidden = ward.begin("partition", "n3", json!({"clients": "majority"})).unwrap();
        assert!(!ward.answers("n3") && ward.answers("n1"));
        ward.heal(&hidden);
        assert!(ward.answers("n3"));
    });
}

#[test]
#[ignore = "needs the built program"]
fn links_and_limits_of_virtual_hosts() {
    on_three_hosts(|ward| {
        let frozen = ward.begin("host_freeze", "n1", json!({})).unwrap();
        assert!(!ward.answers("n1"));
        ward.heal(&frozen);
        until("it thaws", || ward.answers("n1"));

        let flap = ward.begin("link_flap", "n1", json!({"down": "50ms", "up": "50ms"})).unwrap();
        ward.heal(&flap);
        until("its link is back", || ward.answers("n1") && ward.hears("n1", "n2"));

        let slow = ward.begin("slow_link", "n1", json!({"rate": "1mbit"})).unwrap();
        assert!(ward.run("n1", &["tc", "qdisc"]).output.contains("rate 1Mbit"));
        let lossy = ward.begin("lossy_link", "n2", json!({"loss_pct": 100})).unwrap();
        assert!(!ward.answers("n2"));
        ward.heal(&slow);
        // Of the same name and number: both went.
        ward.heal(&lossy);
        assert!(ward.answers("n2") && !ward.run("n1", &["tc", "qdisc"]).output.contains("tbf"));

        let paused = ward.begin("pause", "n1", json!({})).unwrap();
        assert!(!ward.answers("n1"));
        ward.heal(&paused);
        until("it goes on", || ward.answers("n1"));

        for (kind, with) in [("squeeze", json!({"cpu": 0.25})), ("memory_limit", json!({"size": "256MiB"}))] {
            let fault = ward.begin(kind, "n1", with).unwrap();
            ward.heal(&fault);
        }
        assert!(ward.refused("clock_skew", json!({"offset": "5s"})).contains("share the wall clock"));
        assert!(ward.refused("full_disk", json!({})).contains("give its profile a disk"));
        assert!(ward.refused("slow_disk", json!({"write_iops": 5})).contains("volume of its own"));
        let refused = ward.refused("command", json!({"run": "hostname >&2; exit 3"}));
        assert_eq!(refused, "`run` on n1: exit 3: n1");
        ward.begin("restart", "n1", json!({})).unwrap();
        until("it is down", || !ward.answers("n1"));
        until("it serves again", || {
            ward.site.poll();
            ward.answers("n1")
        });
    });
}

#[test]
#[ignore = "needs the built program"]
fn a_slow_port_is_slow_alone_and_both_ways() {
    let of_rate = |rate: f64, expected: f64| {
        // Of a full packet, 4 % are headers.
        assert!((0.8..=1.2).contains(&(rate / expected)), "{rate} bit/s, and {expected} were asked for");
    };
    let rate = |rate| Link { rate_bits_per_s: Some(rate), ..Link::default() };
    on_three_hosts_with(vec![plan::Port { name: "bulk".to_owned(), link: rate(8e6) }], |ward| {
        let before = ward.queues("n1");
        assert_eq!(
            before.iter().filter(|queue| queue.contains("tbf") && queue.contains("8Mbit")).count(),
            2,
            "{before:?}"
        );
        of_rate(ward.gets("n2", "n1", "bulk", 2_000_000), 8e6);
        assert!(ward.gets("n2", "n1", "service", 20_000_000) > 40e6, "another port is not slowed");

        let slow = ward.begin("slow_port", "n1", json!({"port": "bulk", "rate": "2mbit"})).unwrap();
        of_rate(ward.gets("n2", "n1", "bulk", 500_000), 2e6);
        of_rate(ward.gets("n1", "n2", "bulk", 500_000), 2e6);
        of_rate(ward.gets("n3", "n2", "bulk", 2_000_000), 8e6);
        assert!(ward.gets("n2", "n1", "service", 20_000_000) > 40e6, "another port is not slowed");
        ward.heal(&slow);
        assert_eq!(ward.queues("n1"), before);

        // What passes there counts against the link.
        let link = plan::Fault {
            name: "link".to_owned(),
            for_s: Some(1.0),
            ..super::with("slow_link", "n1", json!({"rate": "1mbit"}))
        };
        (super::find("slow_link").unwrap().begin)(&link, 1, &mut ward.site).unwrap();
        of_rate(ward.gets("n2", "n1", "bulk", 250_000), 1e6);
        // A host that boots again has it, too, before anything runs there.
        let crash = ward.begin("host_crash", "n1", json!({})).unwrap_or_else(|error| panic!("{error}"));
        ward.heal(&crash);
        until("it serves again", || ward.answers("n1"));
        (super::find("slow_link").unwrap().heal)(&link, 1, &mut ward.site).unwrap();
        assert_eq!(ward.queues("n1"), before);
        assert!(ward.refused("slow_port", json!({"port": "blk", "rate": "2mbit"})).contains("no port `blk`"));
    });
}
