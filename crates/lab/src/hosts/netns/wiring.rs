//! The cables of a lab: their plan (bridges, addresses and routes), and the switch to which they
//! connect. The plan is pure.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use experiment::plan;
use linux::network::{self, NetworkError};
use runner::{InterfaceSpec, Isolation, ProgramSpec, Setup, VERSION, Wiring};

use super::{HostShim, needs};
use crate::Error;
use crate::host_process::ProcessExit;
use crate::registry::RegistryWriter;
use crate::session::RunnerSession;

/// Largest number of hosts. The last byte of a host's address counts from 1; the clients have 254.
const MOST_HOSTS: usize = 253;
const CLIENTS: u8 = 254;
/// Largest number of networks. One byte of an address is the network's index.
const MOST_NETWORKS: usize = 256;
const PREFIX: u8 = 24;
/// Host name of the clients.
const CLIENTS_NAME: &str = "clients";

/// The cables of a lab.
#[derive(Debug, Clone, PartialEq)]
pub struct Cables {
    networks: Vec<String>,
    /// Hosts in the order of the lab.
    hosts: Vec<ConnectedHost>,
    /// Networks that the clients reach through a host: address, prefix length, gateway.
    clients_routes: Vec<(Ipv4Addr, u8, Ipv4Addr)>,
    /// Whether the kernel splits large segments before they enter a cable.
    cuts_segments: bool,
}

/// A host with its cables.
#[derive(Debug, Clone, PartialEq)]
struct ConnectedHost {
    name: String,
    /// Indexes of the host's networks, in the order of its interfaces.
    networks: Vec<usize>,
    wiring: Wiring,
}

impl Cables {
    /// Plans the cables of a lab.
    ///
    /// # Errors
    /// Too many hosts or networks, an unknown network, or a network that a host cannot reach.
    pub fn plan(lab: &plan::Lab, cuts_segments: bool) -> Result<Self, Error> {
        too_many("virtual hosts", lab.hosts.len(), MOST_HOSTS)?;
        too_many("networks", lab.networks.len(), MOST_NETWORKS)?;
        let named = lab.networks.iter().map(|network| network.name.clone());
        let networks = if lab.networks.is_empty() { vec!["lab".to_owned()] } else { named.collect() };
        let on: Vec<Vec<usize>> =
            lab.hosts.iter().map(|host| networks_of(host, &networks)).collect::<Result<_, _>>()?;
        let routers = RouterHosts::of(lab, &on);
        let mut hosts = Vec::with_capacity(lab.hosts.len());
        for (index, (host, own)) in lab.hosts.iter().zip(&on).enumerate() {
            let routes = routers.routes(own, networks.len(), Some(index));
            let routes = routes.map_err(|unreached| unreachable(&host.name, own, unreached, &networks))?;
            let interfaces = own.iter().enumerate().map(|(number, network)| InterfaceSpec {
                name: format!("eth{number}"),
                address: address(*network, index),
                prefix: PREFIX,
            });
            let wiring = Wiring { interfaces: interfaces.collect(), routes, forwards: host.routes };
            hosts.push(ConnectedHost { name: host.name.clone(), networks: own.clone(), wiring });
        }
        let clients_routes = routers.routes(&[0], networks.len(), None);
        let clients_routes =
            clients_routes.map_err(|unreached| unreachable(CLIENTS_NAME, &[0], unreached, &networks))?;
        Ok(Self { networks, hosts, clients_routes, cuts_segments })
    }

    /// Returns the interfaces and routes of each host.
    pub fn wirings(&self) -> Vec<Wiring> {
        self.hosts.iter().map(|host| host.wiring.clone()).collect()
    }

    /// Returns the content of every host's `/etc/hosts`.
    pub fn hosts_file(&self) -> String {
        // `localhost` gets no IPv6 address: only the loopback interface has one.
        let mut text = "127.0.0.1\tlocalhost\n::1\tip6-localhost ip6-loopback\n".to_owned();
        for host in &self.hosts {
            for interface in &host.wiring.interfaces {
                let _ = writeln!(text, "{}\t{}", interface.address, host.name);
            }
        }
        let _ = writeln!(text, "{}\t{CLIENTS_NAME}", clients());
        text
    }

    /// Returns the `ip` commands that make the bridges, and the clients' address on the first
    /// bridge.
    pub fn bridges(&self) -> String {
        let mut text = "link set lo up\n".to_owned();
        for network in 0..self.networks.len() {
            // A fixed address. Otherwise the bridge would take the address of a port, and change it
            // when that port is removed.
            let _ = writeln!(
                text,
                "link add net{network} address {} type bridge mcast_snooping 0",
                hardware(network, CLIENTS.into())
            );
            let _ = writeln!(text, "link set net{network} up");
        }
        let _ = writeln!(text, "address add {}/{PREFIX} brd + dev net0", clients());
        text
    }

    /// Returns the `ip` commands for the clients' routes. They must run after the hosts are plugged
    /// in.
    pub fn clients_routes(&self) -> String {
        let mut text = String::new();
        for (network, prefix, through) in &self.clients_routes {
            let _ = writeln!(text, "route add {network}/{prefix} via {through}");
        }
        text
    }

    /// Returns the `ip` commands that connect a host. Process `pid` holds the host's network
    /// namespace.
    pub fn plug(&self, host: usize, pid: u32) -> String {
        let mut text = String::new();
        let Some(plugged) = self.hosts.get(host) else { return text };
        for (number, network) in plugged.networks.iter().enumerate() {
            let port = port(host, *network);
            let _ = writeln!(
                text,
                "link add {port} type veth peer name eth{number} address {} netns {pid}",
                hardware(*network, host + 1)
            );
            let segments = if self.cuts_segments { " gso_max_segs 1" } else { "" };
            let _ = writeln!(text, "link set {port} master net{network}{segments} up");
        }
        text
    }

    /// Returns the `ip` commands that disconnect a host. Each must run separately, so that a
    /// missing cable does not block the others.
    pub fn unplug(&self, host: usize) -> Vec<String> {
        let networks = self.hosts.get(host).map(|host| host.networks.as_slice()).unwrap_or_default();
        networks.iter().map(|network| format!("link del {}\n", port(host, *network))).collect()
    }
}

fn too_many(what: &str, count: usize, most: usize) -> Result<(), Error> {
    if count <= most {
        return Ok(());
    }
    Err(Error::DoesNotFit { what: format!("{count} {what} are too many: a lab has at most {most}"), speed: None })
}

/// Returns the indexes of a host's networks.
fn networks_of(host: &plan::Host, networks: &[String]) -> Result<Vec<usize>, Error> {
    if host.networks.is_empty() {
        return Ok(vec![0]);
    }
    let number = |name: &String| {
        let found = networks.iter().position(|network| network == name);
        let reason = || format!("unknown network `{name}`; known networks: {}", networks.join(", "));
        found.ok_or_else(|| Error::Host { host: host.name.clone(), reason: reason() })
    };
    host.networks.iter().map(number).collect()
}

fn address(network: usize, host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 83, byte(network), byte(host + 1))
}

fn clients() -> Ipv4Addr {
    Ipv4Addr::new(10, 83, 0, CLIENTS)
}

fn network_address(network: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 83, byte(network), 0)
}

/// Returns a hardware address. It is the same after every boot, so that other hosts need not look
/// it up again.
fn hardware(network: usize, station: usize) -> String {
    // The first byte marks a locally administered unicast address.
    format!("02:50:4c:53:{:02x}:{:02x}", byte(network), byte(station))
}

fn byte(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// Returns the name of the switch's end of a cable.
fn port(host: usize, network: usize) -> String {
    format!("h{}n{network}", host + 1)
}

fn unreachable(from: &str, own: &[usize], unreached: usize, networks: &[String]) -> Error {
    let name = |network: &usize| networks.get(*network).cloned().unwrap_or_default();
    let own = own.iter().map(name).collect::<Vec<_>>().join(", ");
    let reason = format!(
        "the host is on {own} and cannot reach network `{}`: a host with `routes = true` must connect them",
        name(&unreached)
    );
    Error::Host { host: from.to_owned(), reason }
}

/// The hosts that forward packets.
struct RouterHosts {
    /// Index and networks of each of these hosts.
    all: Vec<(usize, Vec<usize>)>,
}

impl RouterHosts {
    fn of(lab: &plan::Lab, on: &[Vec<usize>]) -> Self {
        let hosts = lab.hosts.iter().zip(on).enumerate().filter(|(_, (host, _))| host.routes);
        Self { all: hosts.map(|(index, (_, networks))| (index, networks.clone())).collect() }
    }

    /// Returns the shortest routes from the networks `own` to all others, or the index of a network
    /// that cannot be reached.
    fn routes(
        &self,
        own: &[usize],
        networks: usize,
        ourselves: Option<usize>,
    ) -> Result<Vec<(Ipv4Addr, u8, Ipv4Addr)>, usize> {
        // Gateway address for each reached network.
        let mut through: BTreeMap<usize, Ipv4Addr> = BTreeMap::new();
        let mut next: VecDeque<usize> = own.iter().copied().collect();
        while let Some(network) = next.pop_front() {
            for (router, on) in
                self.all.iter().filter(|(router, on)| Some(*router) != ourselves && on.contains(&network))
            {
                let gate = through.get(&network).copied().unwrap_or_else(|| address(network, *router));
                for further in on.iter().filter(|further| !own.contains(further)) {
                    if !through.contains_key(further) {
                        through.insert(*further, gate);
                        next.push_back(*further);
                    }
                }
            }
        }
        let unreached = (0..networks).find(|network| !own.contains(network) && !through.contains_key(network));
        unreached.map_or_else(
            || Ok(through.iter().map(|(network, gate)| (network_address(*network), PREFIX, *gate)).collect()),
            Err,
        )
    }
}

// The switch: a network namespace with a bridge for each network. The hosts connect to it, and the
// clients run in it.

/// Name of the switch in messages and records.
const NAME: &str = "switch";
const PATIENCE: Duration = Duration::from_secs(30);
const END_PATIENCE: Duration = Duration::from_secs(5);

/// The switch of a lab. Dropping it removes all cables.
#[derive(Debug)]
pub struct Switch {
    cables: Cables,
    session: Arc<RunnerSession>,
    shim: Mutex<HostShim>,
}

impl Switch {
    /// Makes the switch and its bridges.
    pub fn make(
        cables: Cables,
        plimsoll: &Path,
        folder: &Path,
        ledger: &RegistryWriter,
        at_once: &Arc<AtomicBool>,
    ) -> Result<Self, Error> {
        let setup = Setup {
            version: VERSION.to_owned(),
            host: NAME.to_owned(),
            run: ledger.id().to_owned(),
            folder: folder.join(NAME),
            isolation: Some(Isolation { is_switch: true, ..Isolation::default() }),
            ..Setup::default()
        };
        let (shim, session) = HostShim::start(plimsoll, &setup, &folder.join("switch.log"), ledger, at_once)?;
        let switch = Self { cables, session, shim: Mutex::new(shim) };
        switch.ip(&switch.cables.bridges())?;
        Ok(switch)
    }

    /// Connects hosts in one step. Each host is given by its index and the id of the process that
    /// holds its network namespace.
    pub fn plug(&self, hosts: &[(usize, u32)]) -> Result<(), Error> {
        self.ip(&hosts.iter().map(|(host, pid)| self.cables.plug(*host, *pid)).collect::<String>())
    }

    /// Disconnects a host.
    pub fn unplug(&self, host: usize) {
        for command in self.cables.unplug(host) {
            // The cable may be gone with its host.
            let _ = self.ip(&command);
        }
    }

    /// Sets the clients' routes to networks to which they are not connected. The forwarding hosts
    /// must be connected before.
    pub fn route_clients(&self) -> Result<(), Error> {
        let routes = self.cables.clients_routes();
        if routes.is_empty() { Ok(()) } else { self.ip(&routes) }
    }

    /// Returns the switch's network namespace.
    pub fn network(&self) -> Result<OwnedFd, Error> {
        let pid = self.shim.lock().unwrap_or_else(PoisonError::into_inner).pid();
        let path = format!("/proc/{pid}/ns/net");
        Ok(File::open(&path).map_err(Error::system(format!("open {path}")))?.into())
    }

    /// Returns the session with the switch's runner. The switch lives as long as its runner.
    pub fn session(&self) -> Arc<RunnerSession> {
        Arc::clone(&self.session)
    }

    fn ip(&self, batch: &str) -> Result<(), Error> {
        let program = ProgramSpec {
            role: String::new(),
            command: ["ip", "-batch", "-"].map(str::to_owned).to_vec(),
            ..ProgramSpec::default()
        };
        let done = self.session.run(&program, batch, PATIENCE)?;
        if done.ended == ProcessExit::Exit(0) {
            return Ok(());
        }
        Err(match network::understood("connect the lab's hosts", batch, &done.errors) {
            NetworkError::NoKernel(part) => needs::of_kernel("a lab of virtual hosts", &part),
            trouble => Error::Host { host: NAME.to_owned(), reason: trouble.to_string() },
        })
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.session.close(END_PATIENCE);
        // Leftovers are found by their mark at the end of the run.
        let _ = self.shim.lock().unwrap_or_else(PoisonError::into_inner).end();
    }
}

#[cfg(test)]
mod tests {
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
    fn routes_lead_through_the_routing_host() {
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
    fn routes_may_cross_several_hosts() {
        let hosts: [(&str, &[&str], bool); 3] =
            [("r1", &["a", "b"], true), ("r2", &["b", "c"], true), ("end", &["c"], false)];
        let cables = Cables::plan(&lab(&["a", "b", "c"], &hosts), false).unwrap();
        assert_eq!(routes(&cables, 0), ["10.83.2.0/24 via 10.83.1.2"]);
        assert_eq!(routes(&cables, 2), ["10.83.0.0/24 via 10.83.2.2", "10.83.1.0/24 via 10.83.2.2"]);
        assert_eq!(
            cables.clients_routes(),
            "route add 10.83.1.0/24 via 10.83.0.1\nroute add 10.83.2.0/24 via 10.83.0.1\n"
        );
    }

    #[test]
    fn an_unreachable_network_is_named() {
        let hosts: [(&str, &[&str], bool); 2] = [("n1", &["a"], false), ("n2", &["a", "b"], false)];
        let error = Cables::plan(&lab(&["a", "b"], &hosts), false).unwrap_err().to_string();
        assert_eq!(
            error,
            "host n1: the host is on a and cannot reach network `b`: a host with `routes = true` must connect them"
        );
        let error = Cables::plan(&lab(&["a"], &[("n1", &["c"], false)]), false).unwrap_err().to_string();
        assert_eq!(error, "host n1: unknown network `c`; known networks: a");
    }

    #[test]
    fn too_many_virtual_hosts_are_refused() {
        let hosts = |count: usize| Lab { hosts: vec![Host::default(); count], ..Lab::default() };
        assert!(Cables::plan(&hosts(MOST_HOSTS), false).is_ok());
        let error = Cables::plan(&hosts(MOST_HOSTS + 1), false).unwrap_err();
        assert_eq!(error.to_string(), "254 virtual hosts are too many: a lab has at most 253");
    }
}
