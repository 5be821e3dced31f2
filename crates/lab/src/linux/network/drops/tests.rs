//! Tests of what `nft` is told.
#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn the_first_rule_that_is_about_a_packet_decides() {
    let peer = Ipv4Addr::new(10, 83, 0, 2);
    let lossy = Link { loss_pct: Some(10.0), ..Link::default() };
    let rules = losses(&Link::default(), &[(vec![peer], lossy)]);
    let mut text = String::new();
    chain(&mut text, "saddr", &rules, None, "drop");
    let expected = "\
ip saddr { 10.83.0.2 } numgen random mod 1000000 < 100000 drop
ip saddr { 10.83.0.2 } accept
meta protocol { ip, ip6 } numgen random mod 1000000 < 0 drop
meta protocol { ip, ip6 } accept
";
    assert_eq!(text, expected);
}

#[test]
fn nobody_is_not_everybody() {
    let mut text = String::new();
    let rule = |whom| Rule { whom, loss_pct: 100.0 };
    chain(&mut text, "daddr", &[rule(Some(Vec::new()))], None, "drop");
    assert_eq!(text, "");
    chain(&mut text, "daddr", &[rule(None)], Some(22), "fwd to \"lo\"");
    assert!(text.starts_with("tcp sport 22 accept\ntcp dport 22 accept\nicmpv6 "), "{text}");
    assert!(text.ends_with("== 00:00:00:00:00:00 fwd to \"lo\"\n"), "{text}");
}

#[test]
fn a_table_name_has_no_odd_characters() {
    assert_eq!(crate::linux::network::ALONE.losses_table("enp1s0.4"), "plimsoll.enp1s0_4");
}
