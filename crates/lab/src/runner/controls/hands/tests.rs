//! Tests of what the hands of a real host refuse and of what they read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use super::*;

const LAB: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

fn some(addresses: &[Ipv4Addr]) -> Peers {
    Peers::These(addresses.iter().copied().collect::<BTreeSet<_>>())
}

fn connection() -> Option<Connection> {
    Connection::parse("10.0.0.1 51234 10.0.0.2 22")
}

#[test]
fn the_connection_is_read() {
    assert_eq!(connection(), Some(Connection { lab: LAB, here: Ipv4Addr::new(10, 0, 0, 2) }));
    assert_eq!(Connection::parse("::ffff:10.0.0.1 5 ::ffff:10.0.0.2 22"), connection());
    assert_eq!(Connection::parse("fe80::1 5 fe80::2 22"), None);
    assert_eq!(Connection::parse(""), None);
}

#[test]
fn a_real_host_is_cut_off_from_some_only() {
    let cuts = Cuts { from: some(&[PEER]), to: some(&[]), silent: false };
    let expected = Cut { from: Some(vec![PEER]), to: Some(Vec::new()) };
    assert_eq!(rules(&cuts, false, connection()), Ok(vec![expected.clone()]));
    assert_eq!(rules(&cuts, true, None), Ok(vec![expected]));
    assert_eq!(rules(&Cuts::default(), false, connection()), Ok(Vec::new()));

    let everybody = Cuts { from: Peers::Everybody, ..Cuts::default() };
    assert!(rules(&everybody, false, connection()).unwrap_err().contains("never from everybody"));
    assert_eq!(rules(&everybody, true, None), Ok(vec![Cut { from: None, to: Some(Vec::new()) }]));

    let lab = Cuts { from: some(&[PEER, LAB]), ..Cuts::default() };
    assert!(rules(&lab, false, connection()).unwrap_err().starts_with("10.0.0.1 is where the orders come from"));
}

#[test]
fn only_a_host_of_ours_falls_silent() {
    let silent = Cuts { silent: true, ..Cuts::default() };
    assert_eq!(rules(&silent, true, None), Ok(vec![Cut { from: None, to: None }]));
    assert_eq!(rules(&silent, false, connection()), Ok(Vec::new()));
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

#[test]
fn a_virtual_host_sets_no_clock_and_fills_no_disk_of_others() {
    let setup = Setup { isolation: Some(crate::runner::Isolation::default()), ..Setup::default() };
    let hands = HostHands::of(&setup, Arc::new(Groups::make(&Setup::default()).unwrap().0));
    let reason = |done: Result<(), Refusal>| match done {
        Err(Refusal::Cannot { reason }) => reason,
        other => panic!("{other:?}"),
    };
    assert!(reason(hands.clock(5.0)).contains("share the wall clock"));
    assert!(reason(hands.fill(Some(0))).contains("give its profile a disk"));
    let setup = Setup::default();
    let hands = HostHands::of(&setup, Arc::new(Groups::make(&setup).unwrap().0));
    assert!(reason(hands.carrier(false)).contains("use `partition`"));
}
