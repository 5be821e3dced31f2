//! Tests of addresses, with what `ssh -G` of OpenSSH 9 prints.
#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn what_matters_of_the_configuration_is_read() {
    let text = "host pi1\nuser pi\nhostname 10.0.0.11\nport 22\nconnecttimeout none\nproxyusefdpass no\n";
    assert_eq!(read(text), Resolved { hostname: "10.0.0.11".to_owned(), connect_timeout_s: None, is_behind: false });
    let text = "hostname pi1.inside\nconnecttimeout 30\nproxyjump gate\n";
    assert_eq!(
        read(text),
        Resolved { hostname: "pi1.inside".to_owned(), connect_timeout_s: Some(30), is_behind: true }
    );
    assert!(!read("hostname x\nproxycommand none\n").is_behind);
}

#[test]
fn an_address_is_honoured_as_given() {
    let at = |hostname: &str, is_behind, from| {
        of(&Resolved { hostname: hostname.to_owned(), is_behind, ..Resolved::default() }, from)
    };
    let from = "10.84.0.254 50000 10.84.0.7 22";
    assert_eq!(at("10.0.0.11", false, from).unwrap(), Ipv4Addr::new(10, 0, 0, 11));
    assert_eq!(at("localhost", false, from).unwrap(), Ipv4Addr::LOCALHOST);
    // A name that only the jump host knows.
    assert_eq!(at("pi1.invalid", true, from).unwrap(), Ipv4Addr::new(10, 84, 0, 7));
    assert!(at("pi1.invalid", false, from).unwrap_err().contains("no IPv4 address"));
    assert!(at("fe80::1", true, from).unwrap_err().contains("no IPv4 address"));
    assert_eq!(at("::ffff:10.0.0.1", true, "").unwrap(), Ipv4Addr::new(10, 0, 0, 1));
}
