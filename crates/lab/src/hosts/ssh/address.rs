//! What other hosts reach a host by: the address that ssh's configuration gives it. It must not ask the machine itself, which
//! may have many.

use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs as _};

/// What matters of `ssh -G`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The name or address that ssh connects to.
    pub hostname: String,
    /// Seconds, where the user's configuration says how long connecting may take.
    pub connect_timeout_s: Option<u32>,
    /// Whether another host is in between.
    pub is_behind: bool,
}

/// Reads what `ssh -G` prints: an option a line, in small letters.
#[must_use]
pub fn read(text: &str) -> Resolved {
    let mut resolved = Resolved::default();
    for (option, value) in text.lines().filter_map(|line| line.split_once(' ')) {
        match option {
            "hostname" => value.clone_into(&mut resolved.hostname),
            "connecttimeout" => resolved.connect_timeout_s = value.parse().ok(),
            "proxyjump" | "proxycommand" => resolved.is_behind |= value != "none",
            _ => {}
        }
    }
    resolved
}

/// The address. `from` is what the host's `SSH_CONNECTION` says: client, its port, server, its port; it counts for a name that
/// only the host in between can look up.
///
/// # Errors
/// In words, if there is no IPv4 address.
pub fn of(resolved: &Resolved, from: &str) -> Result<Ipv4Addr, String> {
    let name = &resolved.hostname;
    let none = || format!("`{name}` has no IPv4 address, by which the lab's hosts and the load reach it");
    if let Ok(address) = name.parse::<IpAddr>() {
        return v4(address).ok_or_else(none);
    }
    let mut found = (name.as_str(), 0).to_socket_addrs().into_iter().flatten();
    if let Some(address) = found.find_map(|found| v4(found.ip())) {
        return Ok(address);
    }
    let served = from.split_whitespace().nth(2).and_then(|address| address.parse().ok()).and_then(v4);
    served.filter(|_| resolved.is_behind).ok_or_else(none)
}

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(address) => address.to_ipv4_mapped(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_of_the_configuration_is_read() {
        let text = "host pi1\nuser pi\nhostname 10.0.0.11\nport 22\nconnecttimeout none\nproxyusefdpass no\n";
        assert_eq!(
            read(text),
            Resolved { hostname: "10.0.0.11".to_owned(), connect_timeout_s: None, is_behind: false }
        );
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
}
