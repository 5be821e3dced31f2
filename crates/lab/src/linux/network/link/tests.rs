//! Tests of what `tc` and `ip` are told.
#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn nothing_is_said_about_a_link_without_limits() {
    assert_eq!(commands("eth0", Limits::of(&Link::default())), Commands::default());
}

#[test]
fn a_rate_holds_both_ways_and_a_delay_one_way() {
    let link = Link { rate_bits_per_s: Some(10e6), delay_s: Some(0.0015), loss_pct: None };
    let text = commands("eth0", Limits::of(&link));
    assert_eq!(text.ip, "link add ifb-eth0 type ifb\nlink set ifb-eth0 up\n");
    let expected = "\
qdisc add dev eth0 root handle 1: netem delay 1500us limit 1500
qdisc add dev eth0 parent 1:1 handle 2: tbf rate 10000000bit burst 5000 limit 156400
qdisc add dev eth0 ingress
filter add dev eth0 parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev ifb-eth0
qdisc add dev ifb-eth0 root handle 1: tbf rate 10000000bit burst 5000 limit 156400
";
    assert_eq!(text.tc, expected);
}

#[test]
fn large_segments_are_cut_up_before_they_are_lost() {
    let link = Link { loss_pct: Some(1.0), ..Link::default() };
    let text = commands("eth0", Limits::of(&link));
    assert_eq!((text.ip.as_str(), text.tc.as_str()), ("link set eth0 gso_max_segs 1\n", ""));
}

#[test]
fn routes_that_went_with_an_interface_are_made_again() {
    let routes = "10.83.0.0/24 proto kernel scope link src 10.83.0.2 linkdown\n10.83.1.0/24 via 10.83.0.1 linkdown \n";
    assert_eq!(again("eth0", routes), "route replace 10.83.1.0/24 via 10.83.0.1 dev eth0\n");
}

#[test]
fn a_slow_port_has_a_part_of_the_link_both_ways() {
    let link = Link { rate_bits_per_s: Some(100e6), ..Link::default() };
    let ports = [(7000, Link { rate_bits_per_s: Some(2e6), delay_s: Some(0.005), loss_pct: None })];
    let text = commands("eth0", Limits { ports: &ports, ..Limits::of(&link) });
    let expected = "\
qdisc add dev eth0 root handle 1: tbf rate 100000000bit burst 50000 limit 675000
qdisc add dev eth0 parent 1:1 handle 2: htb default 1
class add dev eth0 parent 2: classid 2:1 htb rate 400gbit quantum 200000
qdisc add dev eth0 parent 2:1 handle 3: bfifo limit 675000
class add dev eth0 parent 2: classid 2:2 htb rate 400gbit quantum 200000
qdisc add dev eth0 parent 2:2 handle 4: netem delay 5000us limit 5000
qdisc add dev eth0 parent 4:1 handle 5: tbf rate 2000000bit burst 3028 limit 78028
filter add dev eth0 parent 2: prio 1 protocol ip u32 match ip protocol 6 0xff match ip sport 7000 0xffff flowid 2:2
filter add dev eth0 parent 2: prio 2 protocol ipv6 u32 match ip6 protocol 6 0xff match ip6 sport 7000 0xffff flowid 2:2
filter add dev eth0 parent 2: prio 1 protocol ip u32 match ip protocol 6 0xff match ip dport 7000 0xffff flowid 2:2
filter add dev eth0 parent 2: prio 2 protocol ipv6 u32 match ip6 protocol 6 0xff match ip6 dport 7000 0xffff flowid 2:2
";
    let (leaving, arriving) = text.tc.split_once("qdisc add dev eth0 ingress\n").unwrap();
    assert_eq!(leaving, expected);
    assert!(!arriving.contains("netem"), "{arriving}");
    assert!(
        arriving.contains("dev ifb-eth0 parent 2:2 handle 4: tbf rate 2000000bit burst 3028 limit 78028"),
        "{arriving}"
    );
}

#[test]
fn a_port_that_is_only_late_is_so_one_way() {
    let ports = [(7000, Link { delay_s: Some(0.005), ..Link::default() })];
    let text = commands("eth0", Limits { ports: &ports, ..Limits::of(&Link::default()) });
    assert_eq!((text.ip.as_str(), text.tc.matches("netem").count()), ("", 1));
}

#[test]
fn a_slow_port_is_slow_toward_everybody_and_spares_the_way_of_orders() {
    let (link, slow) = (Link::default(), Link { rate_bits_per_s: Some(1e6), ..Link::default() });
    let toward = [(vec![[10, 83, 0, 2].into()], Link { rate_bits_per_s: Some(5e6), ..Link::default() })];
    let text = commands(
        "eth0",
        Limits { all: &link, toward: &toward, ports: &[(7000, slow)], spared: Some(22), owner: &ALONE },
    );
    assert_eq!((text.tc.matches("rate 1000000bit").count(), text.tc.matches("rate 5000000bit").count()), (4, 2));
    assert!(text.tc.contains("match ip dport 22 0xffff flowid 9e83:3\n"));
    assert!(text.tc.starts_with("qdisc add dev eth0 root handle 9e83: htb default 1\n"));
}
