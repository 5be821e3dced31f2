//! Tests of what the hands of a real host refuse and of what they read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use experiment::profile::Link;

use super::*;
use crate::fixture::until;
use crate::linux::{cgroup, namespace};
use crate::runner::controls::Controls;
use crate::runner::{Control, Isolation, groups};

const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

fn some(addresses: &[Ipv4Addr]) -> Peers {
    Peers::These(addresses.iter().copied().collect::<BTreeSet<_>>())
}

#[test]
fn the_connection_is_read() {
    let here = |address: &str, port| Some(Connection { address: address.parse().unwrap(), port });
    assert_eq!(Connection::parse("10.0.0.1 51234 10.0.0.2 22"), here("10.0.0.2", 22));
    assert_eq!(Connection::parse("::ffff:10.0.0.1 5 ::ffff:10.0.0.2 2222"), here("10.0.0.2", 2222));
    assert_eq!(Connection::parse("fe80::1%eth0 5 fe80::2%eth0 22"), here("fe80::2", 22));
    assert_eq!(Connection::parse("UNKNOWN 65535 UNKNOWN 65535"), None);
    assert_eq!(Connection::parse(""), None);
}

#[test]
fn cuts_become_rules() {
    let cuts = Cuts { from: some(&[PEER]), to: some(&[]), silent: false };
    assert_eq!(rules(&cuts), [Cut { from: Some(vec![PEER]), to: Some(Vec::new()) }]);
    assert_eq!(rules(&Cuts::default()), []);
    let everybody = Cuts { from: Peers::Everybody, ..Cuts::default() };
    assert_eq!(rules(&everybody), [Cut { from: None, to: Some(Vec::new()) }]);
    let silent = Cuts { silent: true, ..Cuts::default() };
    assert_eq!(rules(&silent), [Cut { from: None, to: None }]);
}

#[test]
fn the_network_is_left_alone_where_the_way_of_the_orders_is_not_known() {
    let made = Made::new("d", None);
    let hands = HostHands { connection: None, ..made.hands() };
    let everybody = Cuts { from: Peers::Everybody, ..Cuts::default() };
    assert!(reason(hands.cut(&everybody)).contains("SSH_CONNECTION"));
    let slow = Link { rate_bits_per_s: Some(1e6), ..Link::default() };
    assert!(reason(hands.link(&Links { all: slow, ..Links::default() })).contains("SSH_CONNECTION"));
}

#[test]
fn a_file_system_of_the_network_is_found() {
    let mounts = "/dev/sda / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n";
    assert_eq!(remote_mount(mounts), Some("/home"));
    assert_eq!(remote_mount("proc /proc proc rw 0 0\n"), None);
}

#[test]
fn a_clock_is_shifted_both_ways() {
    let at = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    assert_eq!(shifted(at(100, 500_000_000), 2.75), at(103, 250_000_000));
    assert_eq!(shifted(at(100, 500_000_000), -2.75), at(97, 750_000_000));
    assert_eq!(shifted(at(100, 0), -5.0), at(95, 0));
}

#[test]
fn what_ip_says_is_understood() {
    let line = "2: eth0@if5    inet 10.0.0.2/24 brd 10.0.0.255 scope global eth0\\       valid_lft forever\n";
    assert_eq!(interface_in(line).as_deref(), Some("eth0"));
    assert_eq!(interface_in(""), None);
    let link = "2: eth0: <UP> mtu 1500 qdisc fq_codel state UP gso_max_size 65536 gso_max_segs 65535";
    assert_eq!((word_after(link, "qdisc"), word_after(link, "gso_max_segs")), (Some("fq_codel"), Some("65535")));
    assert_eq!(word_after(link, "none"), None);
}

/// A host of its own name, so that tests do not meet; its groups are removed when it goes.
struct Made {
    setup: Setup,
    groups: Arc<Groups>,
}

impl Made {
    fn new(host: &str, isolation: Option<Isolation>) -> Self {
        let run = format!("test-hands-{host}-{}", std::process::id());
        let setup = Setup { run, host: host.to_owned(), isolation, ..Setup::default() };
        let groups = Arc::new(Groups::make(&setup).unwrap().0);
        Self { setup, groups }
    }

    fn hands(&self) -> HostHands {
        HostHands::of(&self.setup, Arc::clone(&self.groups))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = self.groups.remove();
        let _ = cgroup::remove_tree(&groups::top_of(&self.setup.run));
    }
}

fn reason(done: Result<(), Refusal>) -> String {
    match done {
        Err(Refusal::Cannot { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_virtual_host_sets_no_clock_and_fills_no_disk_of_others() {
    let made = Made::new("a", Some(Isolation::default()));
    assert!(reason(made.hands().clock(5.0)).contains("share the wall clock"));
    assert!(reason(made.hands().fill(Some(0))).contains("give its profile a disk"));
    let made = Made::new("b", None);
    assert!(reason(made.hands().carrier(false)).contains("use `partition`"));
}

fn says(program: &str, arguments: &[&str]) -> String {
    let output = std::process::Command::new(program).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// What is in force in this network namespace, without hardware addresses and numbers that only count.
fn in_force() -> String {
    let links = says("ip", &["-o", "link"]).replace(char::is_numeric, "");
    let links: String = links.lines().filter_map(|line| line.split("link/").next()).collect();
    links + &says("tc", &["qdisc"]).replace(char::is_numeric, "") + &says("nft", &["list", "ruleset"])
}

#[test]
fn everything_is_performed_for_real_and_undone() {
    if !geteuid().is_root() {
        println!("skipped: namespaces need root");
        return;
    }
    let play = || {
        namespace::leave_network().unwrap();
        network::ip("link add eth0 type veth peer name far\naddress add 10.83.0.1/24 dev eth0\n").unwrap();
        network::ip("link set lo up\nlink set eth0 up\nlink set far up\nroute add 10.84.0.0/24 via 10.83.0.2\n")
            .unwrap();
        let made = Made::new("c", Some(Isolation::default()));
        let controls = Controls::new(&made.setup, Arc::clone(&made.groups));
        until("both ends are up", || in_force().matches("state UP").count() == 2);
        let before = in_force();
        let limited = |link: Link| Control::Link { link, peers: None };
        let all = [
            Control::Cut { from: Some(vec![PEER]), to: Some(vec![PEER]) },
            Control::Cut { from: None, to: None },
            limited(Link { rate_bits_per_s: Some(1e7), delay_s: None, loss_pct: None }),
            limited(Link { rate_bits_per_s: None, delay_s: None, loss_pct: Some(5.0) }),
            Control::LinkDown,
            Control::LinkFlap { down_s: 0.01, up_s: 0.01 },
            Control::Freeze,
        ];
        for (number, control) in all.iter().enumerate() {
            let key = format!("it#{number}");
            match controls.impose(&key, control) {
                Ok(()) => assert_ne!(in_force(), before, "{control:?}"),
                // Without control groups nothing can be frozen.
                Err(refusal) => assert!(*control == Control::Freeze && !made.groups.are_there(), "{refusal:?}"),
            }
            controls.lift(&key).unwrap();
            // A carrier is noticed a little later.
            until(&format!("{control:?} is undone"), || in_force() == before);
        }
        for control in &all[..3] {
            controls.impose(&format!("{control:?}"), control).unwrap();
        }
        let delayed = limited(Link { rate_bits_per_s: None, delay_s: Some(0.05), loss_pct: None });
        let with_rate = in_force();
        if let Err(refusal) = controls.impose("delay", &delayed) {
            assert!(format!("{refusal:?}").contains("netem"), "{refusal:?}");
            assert_eq!(in_force(), with_rate, "what was in force still is");
        }
        controls.lift_all();
        assert_eq!(in_force(), before);
        assert!(says("ip", &["route"]).contains("10.84.0.0/24"), "routes come back with the link");
        if made.groups.are_there() {
            for control in [Control::Cpu { of_profile: 0.5 }, Control::Memory { bytes: 1 << 28 }] {
                controls.impose("it", &control).unwrap();
                controls.lift("it").unwrap();
            }
            let disk = Disk { write_iops: Some(10.0), ..Disk::default() };
            let refused = reason(controls.impose("it", &Control::Disk { disk }));
            assert!(refused.contains("volume of its own"), "{refused}");
        }
    };
    std::thread::Builder::new().spawn(play).unwrap().join().unwrap();
}
