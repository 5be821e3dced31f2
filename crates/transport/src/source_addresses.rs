//! Local addresses from which connections are made, and the number of their ports.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, bind, socket};

use crate::error::Error;
use crate::service_address::ServiceAddress;

/// Linux's default port range, if the setting cannot be read.
const DEFAULT_PORTS: (u32, u32) = (32768, 60999);

/// Returns the number of local ports that the kernel assigns, for each pair of local address and
/// service.
pub fn ports() -> u32 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut words = text.split_whitespace().map(str::parse);
    let (first, last) = match (words.next(), words.next()) {
        (Some(Ok(first)), Some(Ok(last))) => (first, last),
        _ => DEFAULT_PORTS,
    };
    last.saturating_sub(first) + 1
}

/// First source address on the loopback. The whole of 127.0.0.0/8 is this machine (RFC 1122,
/// 3.2.1.3). 127.0.0.1 is left to other programs.
const FIRST: u32 = u32::from_be_bytes([127, 0, 0, 2]);
/// Divisor of an address's number of ports, for addresses that the engine chooses. Only this part
/// is used, because the kernel finds a free port by trial, and the port of a closed connection
/// stays reserved for a minute.
const PART: u32 = 2;

/// Source addresses of the connections to each service.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SourceAddresses {
    /// Source addresses for each service. If a service has none, the kernel chooses.
    by_service: Vec<Vec<SocketAddr>>,
    /// Number of ports of one address, if this was too small and the engine therefore chose several
    /// addresses.
    too_few_ports: Option<u32>,
}

impl SourceAddresses {
    /// Chooses the source addresses for `services`, each with `connections` connections. `from`
    /// lists the addresses that the load names.
    ///
    /// # Errors
    /// If there are too few local ports, or if none of the named addresses can reach a service.
    pub fn of(from: &[IpAddr], services: &[ServiceAddress], connections: u32, ports: u32) -> Result<Self, Error> {
        let mut sources = Self::default();
        for service in services {
            let service = match service {
                ServiceAddress::Network(address) => address,
                // A Unix socket takes no port.
                ServiceAddress::File(_) if from.is_empty() => {
                    sources.by_service.push(Vec::new());
                    continue;
                }
                ServiceAddress::File(path) => return Err(no_address(from, path)),
            };
            let several =
                if from.is_empty() { on_loopback(service, connections, ports) } else { of_kind(from, service)? };
            let room = u64::from(ports) * several.len().max(1) as u64;
            if u64::from(connections) > room {
                return Err(Error::Ports { connections, ports, addresses: several.len().max(1) });
            }
            if from.is_empty() && !several.is_empty() {
                sources.too_few_ports = Some(ports);
            }
            sources.by_service.push(several);
        }
        Ok(sources)
    }

    /// Returns the source address of the connection with index `number` (over all threads of this
    /// process), or `None` if the kernel chooses.
    pub fn of_connection(&self, number: u32, service: u32) -> Option<SocketAddr> {
        let several = self.by_service.get(service as usize)?;
        // Connections are assigned to services in turn. A service's connections are assigned to its
        // source addresses in turn.
        let turn = number as usize / self.by_service.len();
        several.get(turn.checked_rem(several.len())?).copied()
    }

    /// Checks that this machine has all the addresses in the calling thread's network namespace.
    ///
    /// # Errors
    /// The first address that this machine does not have.
    pub fn try_out(&self) -> Result<(), Error> {
        for source in self.by_service.iter().flatten() {
            let family = if source.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let bound = socket(family, SocketType::STREAM, None).and_then(|socket| use_for(&socket, source));
            bound.map_err(|errno| Error::From {
                address: source.ip().to_string(),
                reason: match errno {
                    Errno::ADDRNOTAVAIL => {
                        "this machine does not have this address (`ip address` lists its addresses)".to_owned()
                    }
                    errno => errno.to_string(),
                },
            })?;
        }
        Ok(())
    }

    /// Returns a notice if the engine chose several addresses that the load does not name.
    pub fn notice(&self) -> Option<String> {
        let ports = self.too_few_ports?;
        let several = self.by_service.iter().max_by_key(|several| several.len())?;
        let (first, last) = (several.first()?.ip(), several.last()?.ip());
        let count = several.len();
        Some(format!(
            "agents connect from {count} local addresses in turn, {first} to {last}: one address has only {ports} \
             ports to a service"
        ))
    }
}

/// Binds the socket to a source address. The kernel chooses the port at connect time, so that the
/// port need only differ from those of other connections to the same service (ip(7),
/// `IP_BIND_ADDRESS_NO_PORT`).
pub fn use_for(socket: &OwnedFd, source: &SocketAddr) -> Result<(), Errno> {
    // A kernel before 4.2 does not know this option and chooses a port now, from one range for all
    // services.
    let _ = setsockopt(socket, IpBindAddressNoPort, &true);
    bind(socket.as_fd(), source)
}

/// Returns several addresses for a service on the loopback, if the ports of one address do not
/// suffice.
fn on_loopback(service: &SocketAddr, connections: u32, ports: u32) -> Vec<SocketAddr> {
    // IPv6 has a single loopback address.
    if connections <= ports || !service.is_ipv4() || !service.ip().is_loopback() {
        return Vec::new();
    }
    let count = connections.div_ceil((ports / PART).max(1));
    (0..count).map(|number| SocketAddr::from((Ipv4Addr::from(FIRST.saturating_add(number)), 0))).collect()
}

/// Returns the error for source addresses towards a Unix socket, which permits none.
fn no_address(named: &[IpAddr], path: &Path) -> Error {
    let address = named.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Error::From { address, reason: format!("the service listens on the socket {}", path.display()) }
}

/// Returns the named addresses of the same IP version as the service.
fn of_kind(named: &[IpAddr], service: &SocketAddr) -> Result<Vec<SocketAddr>, Error> {
    let alike = named.iter().filter(|address| address.is_ipv4() == service.is_ipv4());
    let mut sources: Vec<SocketAddr> = alike.map(|address| SocketAddr::from((*address, 0))).collect();
    sources.sort_unstable();
    sources.dedup();
    if sources.is_empty() {
        let kind = if service.is_ipv4() { "IPv4" } else { "IPv6" };
        let address = named.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(Error::From { address, reason: format!("the service {service} needs an {kind} address") });
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::IpAddr;

    use super::{ServiceAddress, SourceAddresses};
    use crate::error::Error;

    fn services(texts: &[&str]) -> Vec<ServiceAddress> {
        texts.iter().map(|text| ServiceAddress::written(text).unwrap()).collect()
    }

    fn named(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// Counts agents by their source address.
    fn spread(sources: &SourceAddresses, agents: u32, services: u32) -> BTreeMap<String, u32> {
        let mut spread = BTreeMap::new();
        for number in 1..=agents {
            let source = sources.of_connection(number - 1, (number - 1) % services);
            *spread.entry(source.map_or("any".to_owned(), |source| source.ip().to_string())).or_default() += 1;
        }
        spread
    }

    #[test]
    fn the_kernel_chooses_the_address_if_ports_suffice() {
        for service in ["127.0.0.1:80", "[::1]:80", "192.0.2.7:80"] {
            let sources = SourceAddresses::of(&[], &services(&[service]), 100, 100).unwrap();
            assert_eq!((sources.of_connection(0, 0), sources.of_connection(99, 0)), (None, None));
            assert_eq!(sources.notice(), None);
        }
    }

    #[test]
    fn loopback_agents_use_several_addresses_with_a_notice() {
        let sources = SourceAddresses::of(&[], &services(&["127.0.0.1:80"]), 101, 100).unwrap();
        let spread = spread(&sources, 101, 1);
        assert_eq!(
            spread,
            BTreeMap::from([("127.0.0.2".into(), 34), ("127.0.0.3".into(), 34), ("127.0.0.4".into(), 33)])
        );
        let notice = sources.notice().unwrap();
        assert!(notice.contains("3 local addresses in turn, 127.0.0.2 to 127.0.0.4"), "{notice}");
        assert!(notice.contains("only 100 ports"), "{notice}");
        sources.try_out().unwrap();
    }

    #[test]
    fn too_few_ports_are_an_error_with_a_remedy() {
        for service in ["192.0.2.7:80", "[::1]:80"] {
            let error = SourceAddresses::of(&[], &services(&[service]), 101, 100).unwrap_err();
            assert!(matches!(error, Error::Ports { connections: 101, ports: 100, addresses: 1 }), "{error}");
            assert!(error.to_string().contains("load.from"), "{error}");
        }
    }

    #[test]
    fn named_addresses_share_the_agents_of_each_service_evenly() {
        let two = services(&["192.0.2.7:80", "192.0.2.8:80"]);
        let sources =
            SourceAddresses::of(&named(&["10.0.0.6", "10.0.0.5", "10.0.0.6", "fe80::1"]), &two, 50, 25).unwrap();
        assert_eq!(spread(&sources, 100, 2), BTreeMap::from([("10.0.0.5".into(), 50), ("10.0.0.6".into(), 50)]));
        for service in [0, 1] {
            let of_service = (1..=100).filter(|number| (number - 1) % 2 == service);
            let from_first = of_service.filter(|number| {
                sources.of_connection(*number - 1, service).is_some_and(|source| source.ip().to_string() == "10.0.0.5")
            });
            assert_eq!(from_first.count(), 25, "service {service}");
        }
        assert_eq!(sources.notice(), None, "they were asked for");
        let error = SourceAddresses::of(&named(&["10.0.0.5", "10.0.0.6"]), &two, 51, 25).unwrap_err();
        assert!(matches!(error, Error::Ports { addresses: 2, .. }), "{error}");
    }

    #[test]
    fn a_unix_socket_needs_no_port_or_address() {
        let here = services(&["unix:/run/app.sock"]);
        let sources = SourceAddresses::of(&[], &here, 1_000, 100).unwrap();
        assert_eq!((sources.of_connection(999, 0), sources.notice()), (None, None));
        let error = SourceAddresses::of(&named(&["10.0.0.5"]), &here, 1, 100).unwrap_err().to_string();
        assert!(error.contains("10.0.0.5") && error.contains("the socket /run/app.sock"), "{error}");
    }

    #[test]
    fn unusable_addresses_are_named() {
        let here = services(&["127.0.0.1:80"]);
        let error = |from: &[&str]| SourceAddresses::of(&named(from), &here, 1, 100).unwrap_err().to_string();
        assert!(error(&["::1"]).contains("needs an IPv4 address"), "{}", error(&["::1"]));
        // TEST-NET-1 (RFC 5737) belongs to no machine.
        let sources = SourceAddresses::of(&named(&["192.0.2.1"]), &here, 1, 100).unwrap();
        let error = sources.try_out().unwrap_err().to_string();
        assert!(error.contains("192.0.2.1: this machine does not have this address"), "{error}");
    }
}
