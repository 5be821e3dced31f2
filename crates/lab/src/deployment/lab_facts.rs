//! Facts about the lab that faults and hooks need: its speed, its limits and the target's ports.

use experiment::plan;
use experiment::profile::{Disk, Link};
use experiment::tier::TierMedium;
use runner::Injection;

use super::discovery::{DiscoveredHost, PortNumbers};
use super::fault_ledger::{HostInjections, InjectionKey};

/// A lab, with the ports of the target in it.
#[derive(Debug, Default)]
pub(crate) struct LabFacts {
    pub lab: plan::Lab,
    /// Ports of the target.
    pub ports: PortNumbers,
}

impl LabFacts {
    /// Returns the time dilation; 1 is real time.
    pub fn speed(&self) -> f64 {
        if self.lab.speed > 0.0 { self.lab.speed } else { 1.0 }
    }

    /// Returns the names of the hosts for generators.
    pub fn generator_hosts(&self) -> Vec<String> {
        self.lab.hosts.iter().filter(|host| host.is_generator).map(|host| host.name.clone()).collect()
    }

    /// Returns the disk limits of a host's profile, at the lab's speed.
    pub fn profiled_disk(&self, host: &str) -> Option<Disk> {
        let host = self.lab.hosts.iter().find(|planned| planned.name == host)?;
        Some(self.lab.profile_of(host)?.disk.times(self.speed()))
    }

    /// Returns the limits of a storage tier at the lab's speed, if the tier is a separate volume.
    pub fn tier_limits(&self, name: &str) -> Option<Disk> {
        let mut volumes = self.lab.tiers.iter().filter(|tier| tier.medium == TierMedium::Volume);
        volumes.find(|tier| tier.name == name).map(|tier| tier.limits_at(self.speed()))
    }

    /// Returns the numbers of all ports with this name, of any role.
    pub fn ports_named(&self, name: &str) -> Vec<u16> {
        self.ports.iter().filter(|((_, other), _)| other == name).map(|(_, number)| *number).collect()
    }

    /// Returns the injections that slow down the lab's slow ports on each host that runs a role
    /// with such a port.
    pub fn slow_ports(&self, hosts: &[DiscoveredHost]) -> Vec<(InjectionKey, HostInjections)> {
        let mut slow = Vec::new();
        for port in &self.lab.ports {
            let link = Link { loss_pct: None, ..port.link.at_speed(self.speed()) };
            let control = Injection::Port { ports: self.ports_named(&port.name), link };
            let mut controls = Vec::new();
            for host in hosts {
                if self.ports.keys().any(|(role, name)| *name == port.name && host.runs(role)) {
                    controls.push((host.name.clone(), control.clone()));
                }
            }
            slow.push((InjectionKey::Lab(format!("lab.port.{}", port.name)), controls));
        }
        slow
    }
}

/// Returns the factor by which time limits grow in a lab of this speed.
pub fn slowdown(speed: f64) -> f64 {
    if speed > 0.0 && speed < 1.0 { 1.0 / speed } else { 1.0 }
}
