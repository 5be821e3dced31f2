//! Tests of the network's verbs, in network namespaces of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use experiment::profile::Link;
use rustix::process::geteuid;

use super::drops::{self, Cut};
use super::link::Limits;
use super::*;
use crate::linux::namespace;

const HERE: Ipv4Addr = Ipv4Addr::new(10, 83, 0, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(10, 83, 0, 2);

/// Does something on a thread in a network namespace of its own.
fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if !geteuid().is_root() {
        println!("skipped: namespaces need root");
        return None;
    }
    let there = move || {
        namespace::leave_network().unwrap();
        ip("link set lo up\n").unwrap();
        work()
    };
    Some(std::thread::Builder::new().spawn(there).unwrap().join().unwrap())
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn link(rate: Option<f64>, loss: Option<f64>) -> Link {
    Link { rate_bits_per_s: rate, delay_s: None, loss_pct: loss }
}

#[test]
fn a_link_is_limited_in_both_directions_and_restored() {
    let profile = link(Some(100e6), None);
    apart(move || {
        ip("link add eth0 type veth peer name far\nlink set eth0 up\nlink set far up\n").unwrap();
        assert_eq!(interfaces(), ["far", "eth0"]);
        link::shape("eth0", Limits::of(&profile)).unwrap();
        let qdiscs = || said("tc", &["qdisc"]);
        let before = qdiscs();
        assert_eq!(before.matches("qdisc tbf").count(), 2, "{before}");
        assert!(before.contains("rate 100Mbit"), "{before}");
        // Worse, only toward one; then loss on top.
        link::shape("eth0", Limits { toward: &[(vec![THERE], link(Some(1e6), None))], ..Limits::of(&profile) })
            .unwrap();
        let now = qdiscs();
        assert_eq!(now.matches("qdisc htb").count(), 2, "{now}");
        assert_eq!((now.matches("rate 1Mbit").count(), now.matches("rate 100Mbit").count()), (2, 2), "{now}");
        link::shape("eth0", Limits { toward: &[(vec![THERE], link(None, Some(1.5)))], ..Limits::of(&profile) })
            .unwrap();
        assert!(said("nft", &["list", "ruleset"]).contains("numgen random mod 1000000 < 15000"));
        link::shape("eth0", Limits::of(&profile)).unwrap();
        let handles = |text: &str| text.replace(char::is_numeric, "");
        assert_eq!(handles(&qdiscs()), handles(&before));
        link::shape("eth0", Limits::of(&Link::default())).unwrap();
        assert!(!qdiscs().contains("tbf"));
        assert!(!said("ip", &["link"]).contains("ifb"));
        assert_eq!(said("nft", &["list", "ruleset"]), "");
    });
}

#[test]
fn an_interface_comes_up_again_with_its_routes() {
    apart(|| {
        ip("link add eth0 type veth peer name far\nlink set far up\naddress add 10.83.0.1/24 dev eth0\n").unwrap();
        ip("link set eth0 up\nroute add 10.83.1.0/24 via 10.83.0.9\n").unwrap();
        let before = said("ip", &["route"]);
        link::down("eth0").unwrap();
        link::down("eth0").unwrap();
        assert_eq!(said("ip", &["route"]), "");
        link::up("eth0").unwrap();
        assert_eq!(said("ip", &["route"]), before);
    });
}

#[test]
fn a_delay_needs_netem_and_leaves_nothing_without() {
    apart(|| {
        ip("link add eth0 type veth peer name far\nlink set eth0 up\n").unwrap();
        let slow = Link { rate_bits_per_s: Some(1e6), delay_s: Some(0.01), loss_pct: None };
        match link::shape("eth0", Limits::of(&slow)) {
            Ok(()) => assert!(said("tc", &["qdisc"]).contains("delay 10ms")),
            Err(trouble) => {
                assert_eq!(trouble.to_string(), "not on this kernel: netem is missing");
                assert!(!said("tc", &["qdisc"]).contains("tbf"));
                assert!(!said("ip", &["link"]).contains("ifb"));
            }
        }
    });
}

/// Two namespaces with a cable between them. What arrives in the second is sent to the channel.
fn with_a_neighbour(work: impl FnOnce(&UdpSocket, &Receiver<u8>) + Send + 'static) {
    apart(|| {
        let (tid_in, tid) = channel::<i32>();
        let (go_in, go) = channel::<()>();
        let (heard_in, heard) = channel::<u8>();
        let listen = move || neighbour(&tid_in, &go, &heard_in);
        let neighbour = std::thread::Builder::new().spawn(listen).unwrap();
        let tid = tid.recv().unwrap();
        ip(&format!(
            "link add eth0 type veth peer name eth0 netns {tid}\naddress add {HERE}/24 dev eth0\nlink set eth0 up\n"
        ))
        .unwrap();
        go_in.send(()).unwrap();
        assert_eq!(heard.recv().unwrap(), 0, "it listens");
        let socket = UdpSocket::bind((HERE, 0)).unwrap();
        socket.connect((THERE, 9)).unwrap();
        work(&socket, &heard);
        drops::uncut_all(&ALONE).unwrap();
        socket.send(&[255]).unwrap();
        neighbour.join().unwrap();
    });
}

fn neighbour(tid: &Sender<i32>, go: &Receiver<()>, heard: &Sender<u8>) {
    namespace::leave_network().unwrap();
    tid.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
    go.recv().unwrap();
    ip(&format!("address add {THERE}/24 dev eth0\nlink set eth0 up\n")).unwrap();
    let socket = UdpSocket::bind((THERE, 9)).unwrap();
    heard.send(0).unwrap();
    let mut byte = [0];
    while socket.recv(&mut byte).is_ok() && byte[0] != 255 {
        heard.send(byte[0]).unwrap();
    }
}

#[test]
fn what_is_cut_off_vanishes_and_nobody_is_told() {
    let only = |whom: &[Ipv4Addr]| Some(whom.to_vec());
    with_a_neighbour(move |socket, heard| {
        let send = |byte: u8| socket.send(&[byte]).expect("whoever sends is not told");
        send(1);
        assert_eq!(heard.recv().unwrap(), 1);
        let cuts = [Cut { from: only(&[]), to: only(&[THERE]) }, Cut { from: None, to: None }];
        for cut in &cuts {
            drops::cut(std::slice::from_ref(cut), None, &ALONE).unwrap();
            send(2);
        }
        drops::cut(&[Cut { from: only(&[THERE]), to: only(&[HERE]) }], None, &ALONE).unwrap();
        send(4);
        assert_eq!(heard.recv().unwrap(), 4);
        drops::uncut_all(&ALONE).unwrap();
        send(5);
        assert_eq!(heard.recv().unwrap(), 5);
        assert_eq!(said("nft", &["list", "ruleset"]), "");
    });
}

#[test]
fn a_link_that_loses_all_loses_both_ways() {
    with_a_neighbour(|socket, heard| {
        link::shape("eth0", Limits::of(&link(Some(1e9), Some(100.0)))).unwrap();
        socket.send(&[1]).unwrap();
        link::shape("eth0", Limits::of(&Link::default())).unwrap();
        socket.send(&[2]).unwrap();
        assert_eq!(heard.recv_timeout(Duration::from_secs(20)).unwrap(), 2);
    });
}

#[test]
fn what_one_run_takes_off_a_shared_interface_is_its_own() {
    let (one, other) = (Ownership::of("plimsoll-run-1-n1"), Ownership::of("plimsoll-run-2-n1"));
    assert_ne!(one.root_handle(), other.root_handle());
    apart(move || {
        ip("link add eth0 type veth peer name far\nlink set eth0 up\nlink set far up\n").unwrap();
        let slow = link(Some(1e6), Some(5.0));
        let limits = Limits { spared: Some(22), owner: &one, ..Limits::of(&slow) };
        link::shape("eth0", limits).unwrap();
        drops::cut(&[Cut { from: None, to: None }], Some(22), &one).unwrap();
        let in_force = || said("tc", &["qdisc"]) + &said("ip", &["-o", "link"]) + &said("nft", &["list", "ruleset"]);
        let before = in_force();
        assert!(one.has_shaped(&said("tc", &["qdisc", "show", "dev", "eth0"])), "{before}");
        let tables = said("nft", &["list", "tables"]);
        assert_eq!(other.others_losses("eth0", &tables).as_deref(), Some("plimsoll-run-1-n1.eth0"));
        assert_eq!((one.others_losses("eth0", &tables), other.others_losses("eth1", &tables)), (None, None));

        drops::uncut_all(&other).unwrap();
        link::shape("eth0", Limits { spared: Some(22), owner: &other, ..Limits::of(&Link::default()) }).unwrap();
        assert_eq!(in_force(), before);
        drops::uncut_all(&one).unwrap();
        link::shape("eth0", Limits { spared: Some(22), owner: &one, ..Limits::of(&Link::default()) }).unwrap();
        assert_eq!(said("nft", &["list", "ruleset"]), "");
        assert!(!said("tc", &["qdisc"]).contains("htb") && !said("ip", &["-o", "link"]).contains("ifb"));
    });
}

#[test]
fn what_the_programs_say_is_put_in_words() {
    let missing = understood(
        "limit a link",
        "a\nqdisc add dev x root netem delay 1ms\n",
        "Error: Specified qdisc kind is unknown.\nCommand failed -:2\n",
    );
    assert_eq!(missing.to_string(), "not on this kernel: netem is missing");
    let wrong = understood("set up interfaces", "link set x up\n", "Cannot find device \"x\"\nCommand failed -:1\n");
    assert_eq!(wrong.to_string(), "cannot set up interfaces: Cannot find device \"x\" (at `link set x up`)");
    let none = run("plimsoll-no-such-program", &[], "", "do it").unwrap_err();
    assert_eq!(none, Trouble::NoProgram("plimsoll-no-such-program".to_owned()));
}
