//! Configures a host's interfaces. It must not make any.

use std::fmt::Write as _;

use super::{Envelope, Refusal, Wiring};
use crate::linux::network::{self, Trouble, link};

/// Addresses, up, routes, the profile's link limits.
///
/// # Errors
/// What `ip` or `tc` refused, or what of the profile this kernel cannot do.
pub fn wire(wiring: &Wiring, envelope: &Envelope) -> Result<(), Refusal> {
    network::ip(&batch(wiring))?;
    network::forward(wiring.forwards)?;
    for interface in &wiring.interfaces {
        link::impose(&interface.name, link::Limits::of(&envelope.link))?;
    }
    Ok(())
}

/// What `ip` is told.
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

impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::NoProgram(program) => Self::NoProgram { program },
            Trouble::NoKernel(_) => Self::Cannot { reason: trouble.to_string() },
            Trouble::System { doing, error } => Self::System { doing, error },
        }
    }
}

#[cfg(test)]
mod tests;
