//! Tests of ports.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

#[test]
fn free_ports_are_different_and_not_of_the_ephemeral_range() {
    let ports = free(20).unwrap();
    let different: std::collections::BTreeSet<_> = ports.iter().collect();
    assert_eq!(different.len(), 20);
    for port in ports {
        assert!(below(ephemeral()).contains(&port) && port >= 1024);
        check(port).unwrap();
    }
}

#[test]
fn the_range_avoids_what_the_kernel_gives_away() {
    assert_eq!(below(None), 10_000..=32_767);
    assert_eq!(below(Some((32_768, 60_999))), 10_000..=32_767);
    assert_eq!(below(Some((1_024, 40_000))), 40_001..=u16::MAX);
    assert_eq!(below(Some((10_100, 65_000))), 10_000..=u16::MAX, "where almost all are given away");
}

#[test]
fn a_taken_port_is_named_with_its_holder() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let number = listener.local_addr().unwrap().port();
    let error = check(number).err().unwrap();
    let us = std::process::id();
    let Error::PortTaken { holder: Some(holder), .. } = &error else { panic!("{error}") };
    assert_eq!(holder.pid, us);
    let program = &holder.program;
    assert_eq!(error.to_string(), format!("port {number} is taken: process {us} ({program}) listens on it"));
    assert_eq!(error.hint().unwrap(), format!("end process {us}, or leave `port` out: then a free one is taken"));
}
