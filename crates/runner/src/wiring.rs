//! Configuration of a host's interfaces.

use std::fmt::Write as _;

use linux::network::{self, NetworkError};

use crate::{Envelope, OrderRefusal, Wiring};

/// Sets addresses, state, routes and the profile's link limits.
///
/// # Errors
/// `ip` or `tc` failed, or this kernel cannot apply a limit of the profile.
pub fn wire(wiring: &Wiring, envelope: &Envelope) -> Result<(), OrderRefusal> {
    network::ip(&batch(wiring))?;
    network::forward(wiring.forwards)?;
    for interface in &wiring.interfaces {
        network::inject(&interface.name, network::LinkLimits::of(&envelope.link))?;
    }
    Ok(())
}

/// Returns the commands for `ip`.
fn batch(wiring: &Wiring) -> String {
    let mut text = "link set lo up\n".to_owned();
    for interface in &wiring.interfaces {
        let name = &interface.name;
        let _ = writeln!(text, "address add {}/{} brd + dev {name}", interface.address, interface.prefix);
        let _ = writeln!(text, "link set {name} up");
    }
    if let Some(first) = wiring.interfaces.first() {
        let _ = writeln!(text, "route add 224.0.0.0/4 dev {}", first.name);
    }
    for (network, prefix, through) in &wiring.routes {
        let _ = writeln!(text, "route add {network}/{prefix} via {through}");
    }
    text
}

impl From<NetworkError> for OrderRefusal {
    fn from(trouble: NetworkError) -> Self {
        match trouble {
            NetworkError::NoProgram(program) => Self::NoProgram { program },
            NetworkError::NoKernel(_) => Self::Cannot { reason: trouble.to_string() },
            NetworkError::System { doing, error } => Self::System { doing, error },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::InterfaceSpec;

    #[test]
    fn addresses_come_before_the_routes_that_need_them() {
        let interface = |number: u8| InterfaceSpec {
            name: format!("eth{number}"),
            address: Ipv4Addr::new(10, 83, number, 1),
            prefix: 24,
        };
        let wiring = Wiring {
            interfaces: vec![interface(0), interface(1)],
            routes: vec![(Ipv4Addr::new(10, 83, 2, 0), 24, Ipv4Addr::new(10, 83, 1, 7))],
            forwards: true,
        };
        let expected = "\
link set lo up
address add 10.83.0.1/24 brd + dev eth0
link set eth0 up
address add 10.83.1.1/24 brd + dev eth1
link set eth1 up
route add 224.0.0.0/4 dev eth0
route add 10.83.2.0/24 via 10.83.1.7
";
        assert_eq!(batch(&wiring), expected);
    }

    #[test]
    fn a_missing_kernel_feature_is_refused() {
        let refusal = OrderRefusal::from(NetworkError::NoKernel("netem is missing".to_owned()));
        assert_eq!(
            refusal,
            OrderRefusal::Cannot { reason: "not supported by this kernel: netem is missing".to_owned() }
        );
    }
}
