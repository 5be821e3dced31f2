//! The fault `slow_disk`: a host's disk is slower than its profile gives, by absolute figures or by
//! a factor.

use std::collections::BTreeMap;

use experiment::catalog::{self, ArgumentProblem, Field, Heals};
use experiment::plan;
use experiment::profile::Disk;
use runner::Injection;
use serde_json::Value;

use super::{ActiveFault, Arguments, FaultKind, choose_hosts, heal_state, inject_states, read, refused};
use crate::{Deployment, Error};

pub static KIND: FaultKind = FaultKind {
    info: &catalog::Fault {
        name: "slow_disk",
        help: "slow a host's disk down",
        takes: &[
            Field { name: "read_iops", help: "reads/s, such as 100", required: false },
            Field { name: "write_iops", help: "writes/s, such as 100", required: false },
            Field { name: "read_rate", help: "read rate, such as \"20MB/s\"", required: false },
            Field { name: "write_rate", help: "write rate, such as \"10MB/s\"", required: false },
            Field {
                name: "factor",
                help: "instead of the rates: fraction of the disk's speed in the profile, or of its measured speed",
                required: false,
            },
            super::TIER,
        ],
        label: "slow disk",
        colour: "#9a5a10",
        heals: Heals::AfterFor,
        check: Some(|with| slower(with).err().unwrap_or_default()),
    },
    inject,
    heal: heal_state,
};

/// The slowdown of a disk.
#[derive(Debug, PartialEq)]
enum DiskSlowdown {
    /// Absolute limits.
    To(Disk),
    /// A factor for the disk's speed.
    By(f64),
}

const FIGURES: [&str; 4] = ["read_iops", "write_iops", "read_rate", "write_rate"];

fn slower(with: &BTreeMap<String, Value>) -> Result<DiskSlowdown, Vec<ArgumentProblem>> {
    let mut arguments = Arguments::new(with);
    let disk = Disk {
        size_bytes: None,
        read_iops: arguments.number("read_iops", 0.0, f64::INFINITY),
        write_iops: arguments.number("write_iops", 0.0, f64::INFINITY),
        read_bytes_per_s: arguments.bytes_per_s("read_rate"),
        write_bytes_per_s: arguments.bytes_per_s("write_rate"),
    };
    let factor = arguments.number("factor", 0.0, 1.0);
    let figures = FIGURES.iter().any(|name| with.contains_key(*name));
    arguments.tier();
    match (with.contains_key("factor"), figures) {
        (true, true) => {
            arguments.refuse(Some("factor"), "`factor` cannot be combined with rates", "give `factor` or rates")
        }
        (false, false) => arguments.refuse(None, "the limit is missing", "give `write_iops`, … or `factor`"),
        _ => {}
    }
    arguments.finish(factor.map_or(DiskSlowdown::To(disk), DiskSlowdown::By))
}

/// Multiplies every limit of a disk by `factor`, except its size.
fn times(disk: &Disk, factor: f64) -> Disk {
    Disk { size_bytes: None, ..disk.times(factor) }
}

/// Returns the speed of a host's disk or tier before the fault: the limits of the profile or tier,
/// else the figures measured when the lab started.
fn so_far(host: &str, tier: Option<&str>, deployment: &Deployment) -> Result<Disk, Error> {
    let limits = match tier {
        Some(tier) => deployment.lab.tier_limits(tier),
        None => deployment.lab.profiled_disk(host),
    };
    if let Some(disk) = limits.filter(Disk::is_throttled) {
        return Ok(disk);
    }
    let figures = deployment.processes.hosts.storage_of(host)?;
    let of_tier = tier.and_then(|tier| figures.tiers.get(tier));
    let (read_iops, write_iops) = match tier {
        Some(_) => (of_tier.and_then(|tier| tier.read_per_s), of_tier.and_then(|tier| tier.write_per_s)),
        None => (figures.storage_read_per_s, figures.storage_write_per_s),
    };
    let measured = Disk { read_iops, write_iops, ..Disk::default() };
    if measured.is_throttled() {
        return Ok(measured);
    }
    Err(refused(format!(
        "the speed of the disk of {host} is unknown, so `factor` cannot be applied: give `write_iops`, use a profile \
         with a disk, or let Plimsoll measure the storage"
    )))
}

fn inject(fault: &plan::Fault, number: u32, deployment: &mut Deployment) -> Result<ActiveFault, Error> {
    let hosts = choose_hosts(fault, number, deployment)?;
    let slower = read(slower(&fault.with))?;
    let tier = super::tier_of(&fault.with, deployment)?;
    let mut controls = Vec::new();
    for host in &hosts {
        let disk = match &slower {
            DiskSlowdown::To(disk) => times(disk, deployment.speed()),
            DiskSlowdown::By(factor) => times(&so_far(host, tier.as_deref(), deployment)?, *factor),
        };
        controls.push((host.clone(), Injection::Disk { disk, tier: tier.clone() }));
    }
    let at = inject_states(fault, number, deployment, controls)?;
    Ok(ActiveFault { on: hosts, at })
}
