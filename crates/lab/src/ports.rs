//! Ports of this machine: finding free ones, and who holds one that is not. It must not hold any itself.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::error::{Error, Holder};
use crate::linux::procfs;
use crate::listeners;

/// Tries for each port before giving up.
const TRIES: usize = 200;

/// So many different ports of 127.0.0.1 on which nothing listens.
pub fn free(count: usize) -> Result<Vec<u16>, Error> {
    free_at(Ipv4Addr::LOCALHOST, count)
}

/// So many different ports of an address of this machine on which nothing listens; of all addresses if it is 0.0.0.0. They are taken from outside of the range that the kernel
/// gives to outgoing connections: a client that reconnects to a dead port of that range can get the same number for its own
/// end and then be connected to itself, and a port of that range may be in use when its server comes back.
pub fn free_at(address: Ipv4Addr, count: usize) -> Result<Vec<u16>, Error> {
    let range = below(ephemeral());
    let mut held = Vec::with_capacity(count);
    let mut ports = Vec::with_capacity(count);
    for _ in 0..count.saturating_mul(TRIES) {
        if ports.len() == count {
            break;
        }
        // All are held until the last is found, so that none is found twice.
        if let Ok(listener) = TcpListener::bind((address, fastrand::u16(range.clone())))
            && let Ok(bound) = listener.local_addr()
        {
            ports.push(bound.port());
            held.push(listener);
        }
    }
    if ports.len() < count {
        let error = std::io::Error::from(ErrorKind::AddrInUse);
        return Err(Error::System { doing: format!("find {count} free ports"), error });
    }
    Ok(ports)
}

/// The larger part of the unprivileged ports that the kernel leaves alone; all of them if it leaves too few.
fn below(ephemeral: Option<(u16, u16)>) -> RangeInclusive<u16> {
    const FIRST: u16 = 10_000;
    const ENOUGH: u16 = 1_000;
    let Some((low, high)) = ephemeral else { return FIRST..=32_767 };
    let (under, over) = (low.saturating_sub(FIRST), u16::MAX - high);
    if under < ENOUGH && over < ENOUGH {
        FIRST..=u16::MAX
    } else if under >= over {
        FIRST..=low - 1
    } else {
        high + 1..=u16::MAX
    }
}

fn ephemeral() -> Option<(u16, u16)> {
    let text = procfs::text(Path::new("/proc/sys/net/ipv4/ip_local_port_range"))?;
    let mut bounds = text.split_whitespace().map(str::parse);
    Some((bounds.next()?.ok()?, bounds.next()?.ok()?))
}

/// Whether something can listen on this port of 127.0.0.1.
pub fn check(port: u16) -> Result<(), Error> {
    check_at(Ipv4Addr::LOCALHOST, port)
}

/// Whether something can listen on this port of an address; of all addresses if it is 0.0.0.0.
pub fn check_at(address: Ipv4Addr, port: u16) -> Result<(), Error> {
    match TcpListener::bind((address, port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Err(Error::PortTaken { port, holder: holder(port) }),
        Err(error) => Err(Error::System { doing: format!("listen on port {port}"), error }),
    }
}

/// Who listens on this port, if we may see it.
pub fn holder(port: u16) -> Option<Holder> {
    let inodes = listeners::all(Path::new("/proc/net")).into_iter().filter(|one| one.address.port() == port);
    let links: Vec<String> = inodes.map(|one| one.link()).collect();
    procfs::numbers(Path::new("/proc")).into_iter().find_map(|pid| {
        let files = PathBuf::from(format!("/proc/{pid}/fd"));
        listeners::holds(&files, &links).filter(|holds| *holds)?;
        Some(Holder { pid, program: procfs::stat(pid)?.name })
    })
}

#[cfg(test)]
mod tests {
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
}
