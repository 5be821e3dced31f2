//! Who connects from where, worked out without a socket; the last test binds some.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::Sources;
use crate::Error;

fn services(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn named(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Agents by the address they come from.
fn spread(sources: &Sources, agents: u32, services: u32) -> BTreeMap<String, u32> {
    let mut spread = BTreeMap::new();
    for number in 1..=agents {
        let source = sources.of_connection(number - 1, (number - 1) % services);
        *spread.entry(source.map_or("any".to_owned(), |source| source.ip().to_string())).or_default() += 1;
    }
    spread
}

#[test]
fn where_ports_suffice_the_kernel_chooses() {
    for service in ["127.0.0.1:80", "[::1]:80", "192.0.2.7:80"] {
        let sources = Sources::of(&[], &services(&[service]), 100, 100).unwrap();
        assert_eq!((sources.of_connection(0, 0), sources.of_connection(99, 0)), (None, None));
        assert_eq!(sources.notice(), None);
    }
}

#[test]
fn on_the_loopback_agents_take_turns_and_a_notice_says_so() {
    let sources = Sources::of(&[], &services(&["127.0.0.1:80"]), 101, 100).unwrap();
    let spread = spread(&sources, 101, 1);
    assert_eq!(spread, BTreeMap::from([("127.0.0.2".into(), 34), ("127.0.0.3".into(), 34), ("127.0.0.4".into(), 33)]));
    let notice = sources.notice().unwrap();
    assert!(notice.contains("3 local addresses in turn, 127.0.0.2 to 127.0.0.4"), "{notice}");
    assert!(notice.contains("only 100 ports"), "{notice}");
    sources.try_out().unwrap();
}

#[test]
fn elsewhere_too_few_ports_are_an_error_with_a_remedy() {
    for service in ["192.0.2.7:80", "[::1]:80"] {
        let error = Sources::of(&[], &services(&[service]), 101, 100).unwrap_err();
        assert!(matches!(error, Error::Ports { connections: 101, ports: 100, addresses: 1 }), "{error}");
        assert!(error.to_string().contains("load.from"), "{error}");
    }
}

#[test]
fn named_addresses_share_the_agents_of_each_service_evenly() {
    let two = services(&["192.0.2.7:80", "192.0.2.8:80"]);
    let sources = Sources::of(&named(&["10.0.0.6", "10.0.0.5", "10.0.0.6", "fe80::1"]), &two, 50, 25).unwrap();
    assert_eq!(spread(&sources, 100, 2), BTreeMap::from([("10.0.0.5".into(), 50), ("10.0.0.6".into(), 50)]));
    for service in [0, 1] {
        let of_service = (1..=100).filter(|number| (number - 1) % 2 == service);
        let from_first = of_service.filter(|number| {
            sources.of_connection(*number - 1, service).is_some_and(|source| source.ip().to_string() == "10.0.0.5")
        });
        assert_eq!(from_first.count(), 25, "service {service}");
    }
    assert_eq!(sources.notice(), None, "they were asked for");
    let error = Sources::of(&named(&["10.0.0.5", "10.0.0.6"]), &two, 51, 25).unwrap_err();
    assert!(matches!(error, Error::Ports { addresses: 2, .. }), "{error}");
}

#[test]
fn addresses_that_cannot_be_used_are_named() {
    let here = services(&["127.0.0.1:80"]);
    let error = |from: &[&str]| Sources::of(&named(from), &here, 1, 100).unwrap_err().to_string();
    assert!(error(&["eth0"]).contains("eth0: this is no IP address"), "{}", error(&["eth0"]));
    assert!(error(&["::1"]).contains("takes an IPv4 address"), "{}", error(&["::1"]));
    // TEST-NET-1 (RFC 5737) is nobody's.
    let sources = Sources::of(&named(&["192.0.2.1"]), &here, 1, 100).unwrap();
    let error = sources.try_out().unwrap_err().to_string();
    assert!(error.contains("192.0.2.1: this machine has no such address"), "{error}");
}
