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

#[test]
fn only_listening_sockets_of_that_port_count() {
    let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100 0 0 10 0
   2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0 100 0 0 10 0
";
    assert_eq!(listening(table, 8080), [4711]);
    assert_eq!(listening(table, 80), [4713]);
    assert_eq!(listening(table, 9999), [0; 0]);
    let table6 = "header\n   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 99 1\n";
    assert_eq!(listening(table6, 8080), [99]);
}
