//! Errors of addresses, sockets and the system calls that wait for them.

use std::io;

/// The reason why connections cannot be made or watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service cannot be addressed.
    #[error("service `{service}`: {reason}")]
    Service {
        /// The address, as given.
        service: String,
        reason: String,
    },
    /// Too few local ports.
    #[error(
        "{connections} connections to one service need as many local ports, but {addresses} local address(es) have \
         {ports} each: widen net.ipv4.ip_local_port_range (`sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"`), \
         name more local addresses in `load.from`, or use fewer agents"
    )]
    Ports {
        /// Number of connections to the service.
        connections: u32,
        /// Number of ports in the kernel's range.
        ports: u32,
        /// Number of local addresses from which the agents connect.
        addresses: usize,
    },
    /// A local address from which agents cannot connect.
    #[error("cannot connect from {address}: {reason}")]
    From {
        /// The address, as given.
        address: String,
        reason: String,
    },
    /// The operating system refused an operation that the engine needs.
    #[error("{doing}: {source}")]
    System {
        /// The attempted action.
        doing: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl Error {
    pub fn system(doing: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::System { doing, source: errno.into() }
    }
}
