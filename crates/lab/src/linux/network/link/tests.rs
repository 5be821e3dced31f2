//! Tests of what `tc` and `ip` are told.
#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn nothing_is_said_about_a_link_without_limits() {
    assert_eq!(commands("eth0", &Link::default(), &[], None), Commands::default());
}

#[test]
fn a_rate_holds_both_ways_and_a_delay_one_way() {
    let link = Link { rate_bits_per_s: Some(10e6), delay_s: Some(0.0015), loss_pct: None };
    let text = commands("eth0", &link, &[], None);
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
    let text = commands("eth0", &link, &[], None);
    assert_eq!((text.ip.as_str(), text.tc.as_str()), ("link set eth0 gso_max_segs 1\n", ""));
}

#[test]
fn routes_that_went_with_an_interface_are_made_again() {
    let routes = "10.83.0.0/24 proto kernel scope link src 10.83.0.2 linkdown\n10.83.1.0/24 via 10.83.0.1 linkdown \n";
    assert_eq!(again("eth0", routes), "route replace 10.83.1.0/24 via 10.83.0.1 dev eth0\n");
}
