//! Tests of the plan of cables.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use experiment::plan::{Host, Lab, Network};

use super::*;

fn lab(networks: &[&str], hosts: &[(&str, &[&str], bool)]) -> Lab {
    let hosts = hosts.iter().map(|(name, networks, routes)| Host {
        name: (*name).to_owned(),
        networks: networks.iter().map(|network| (*network).to_owned()).collect(),
        routes: *routes,
        ..Host::default()
    });
    let networks = networks.iter().map(|name| Network { name: (*name).to_owned(), ..Network::default() });
    Lab { networks: networks.collect(), hosts: hosts.collect(), ..Lab::default() }
}

fn routes(cables: &Cables, host: usize) -> Vec<String> {
    let routes = &cables.hosts[host].wiring.routes;
    routes.iter().map(|(network, prefix, through)| format!("{network}/{prefix} via {through}")).collect()
}

fn address_of(cables: &Cables, host: usize) -> String {
    cables.wirings()[host].interfaces[0].address.to_string()
}

#[test]
fn one_network_needs_no_routes() {
    let cables = Cables::plan(&lab(&[], &[("n1", &[], false), ("n2", &[], false)]), false).unwrap();
    assert_eq!(address_of(&cables, 1), "10.83.0.2");
    assert!(routes(&cables, 0).is_empty() && cables.clients_routes().is_empty());
    let expected = "\
127.0.0.1\tlocalhost
::1\tip6-localhost ip6-loopback
10.83.0.1\tn1
10.83.0.2\tn2
10.83.0.254\tclients
";
    assert_eq!(cables.hosts_file(), expected);
    let bridges = "\
link set lo up
link add net0 address 02:50:4c:53:00:fe type bridge mcast_snooping 0
link set net0 up
address add 10.83.0.254/24 brd + dev net0
";
    assert_eq!(cables.bridges(), bridges);
    let plug = "\
link add h2n0 type veth peer name eth0 address 02:50:4c:53:00:02 netns 77
link set h2n0 master net0 up
";
    assert_eq!(cables.plug(1, 77), plug);
    assert_eq!(cables.unplug(1), ["link del h2n0\n"]);
}

#[test]
fn others_go_through_the_host_that_routes() {
    let hosts: [(&str, &[&str], bool); 3] =
        [("proxy", &["front", "back"], true), ("n1", &["back"], false), ("n2", &["back"], false)];
    let cables = Cables::plan(&lab(&["front", "back"], &hosts), true).unwrap();
    let proxy = &cables.hosts[0].wiring;
    assert!(proxy.forwards && proxy.routes.is_empty());
    assert_eq!(
        proxy.interfaces.iter().map(|one| one.address.to_string()).collect::<Vec<_>>(),
        ["10.83.0.1", "10.83.1.1"]
    );
    assert_eq!(address_of(&cables, 1), "10.83.1.2");
    assert_eq!(routes(&cables, 1), ["10.83.0.0/24 via 10.83.1.1"]);
    assert_eq!(cables.clients_routes(), "route add 10.83.1.0/24 via 10.83.0.1\n");
    assert!(cables.plug(0, 5).contains("link set h1n1 master net1 gso_max_segs 1 up\n"));
    assert!(cables.hosts_file().contains("10.83.0.1\tproxy\n10.83.1.1\tproxy\n"));
}

#[test]
fn the_way_may_be_long() {
    let hosts: [(&str, &[&str], bool); 3] =
        [("r1", &["a", "b"], true), ("r2", &["b", "c"], true), ("end", &["c"], false)];
    let cables = Cables::plan(&lab(&["a", "b", "c"], &hosts), false).unwrap();
    assert_eq!(routes(&cables, 0), ["10.83.2.0/24 via 10.83.1.2"]);
    assert_eq!(routes(&cables, 2), ["10.83.0.0/24 via 10.83.2.2", "10.83.1.0/24 via 10.83.2.2"]);
    assert_eq!(cables.clients_routes(), "route add 10.83.1.0/24 via 10.83.0.1\nroute add 10.83.2.0/24 via 10.83.0.1\n");
}

#[test]
fn what_cannot_be_reached_is_named() {
    let hosts: [(&str, &[&str], bool); 2] = [("n1", &["a"], false), ("n2", &["a", "b"], false)];
    let error = Cables::plan(&lab(&["a", "b"], &hosts), false).unwrap_err().to_string();
    assert_eq!(error, "host n1: it is on a and cannot reach network `b`: no host with `routes = true` leads there");
    let error = Cables::plan(&lab(&["a"], &[("n1", &["c"], false)]), false).unwrap_err().to_string();
    assert_eq!(error, "host n1: there is no network `c`; there are: a");
}

#[test]
fn a_lab_has_room_for_so_many() {
    let hosts = |count: usize| Lab { hosts: vec![Host::default(); count], ..Lab::default() };
    assert!(Cables::plan(&hosts(MOST_HOSTS), false).is_ok());
    let error = Cables::plan(&hosts(MOST_HOSTS + 1), false).unwrap_err();
    assert_eq!(error.to_string(), "254 virtual hosts are more than the 253 that fit into a lab");
}
