//! Tests of how interfaces are configured.
#![allow(clippy::unwrap_used)]

use std::net::Ipv4Addr;

use super::*;
use crate::runner::Interface;

#[test]
fn addresses_come_before_the_routes_that_need_them() {
    let interface =
        |number: u8| Interface { name: format!("eth{number}"), address: Ipv4Addr::new(10, 83, number, 1), prefix: 24 };
    let wiring = Wiring {
        interfaces: vec![interface(0), interface(1)],
        routes: vec![(Ipv4Addr::new(10, 83, 2, 0), 24, Ipv4Addr::new(10, 83, 1, 7))],
        forwards: true,
    };
    let expected = "\
link set lo up
address add 10.83.0.1/24 brd + dev eth0
link set eth0 up
address add 10.83.1.1/24 brd + dev eth1
link set eth1 up
route add 224.0.0.0/4 dev eth0
route add 10.83.2.0/24 via 10.83.1.7
";
    assert_eq!(batch(&wiring), expected);
}

#[test]
fn what_the_kernel_cannot_do_is_refused_as_such() {
    let refusal = Refusal::from(Trouble::NoKernel("netem is missing".to_owned()));
    assert_eq!(refusal, Refusal::Cannot { reason: "not on this kernel: netem is missing".to_owned() });
}
