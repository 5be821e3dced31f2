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
mod tests;
