//! Ports of the target that are slow for the whole trial, as the lab says, and their numbers for the faults. It must not know how
//! a host slows one.

use experiment::plan;
use experiment::profile::Link;

use crate::Error;
use crate::runner::Control;
use crate::site::Site;
use crate::site::survey::{Ports, Surveyed};

impl Site {
    /// The numbers of all ports of that name, whatever role has them.
    pub(crate) fn ports_named(&self, name: &str) -> Vec<u16> {
        let named = self.broken.ports.iter().filter(|((_, other), _)| other == name);
        named.map(|(_, number)| *number).collect()
    }

    /// Slows the ports that the lab says are slow, on each host that runs a role with one; before anything runs there.
    pub(in crate::site) fn slow_ports(
        &mut self,
        lab: &plan::Lab,
        hosts: &[Surveyed],
        ports: &Ports,
    ) -> Result<(), Error> {
        self.broken.ports.clone_from(ports);
        for port in &lab.ports {
            let roles = || ports.keys().filter(|(_, name)| *name == port.name).map(|(role, _)| role);
            let slowed = hosts.iter().filter(|host| roles().any(|role| host.runs(role)));
            let control =
                Control::Port { ports: self.ports_named(&port.name), link: at_speed(&port.link, self.speed()) };
            let controls: Vec<_> = slowed.map(|host| (host.name.clone(), control.clone())).collect();
            // No fault's key: those have a `#` in them.
            self.impose(&format!("lab.port.{}", port.name), &controls)?;
        }
        Ok(())
    }
}

fn at_speed(link: &Link, speed: f64) -> Link {
    Link {
        rate_bits_per_s: link.rate_bits_per_s.map(|rate| rate * speed),
        delay_s: link.delay_s.map(|delay_s| delay_s / speed),
        loss_pct: None,
    }
}
