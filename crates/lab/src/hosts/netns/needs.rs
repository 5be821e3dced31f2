//! Requirements of virtual hosts on this machine, checked before any host is made.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use experiment::plan;
use experiment::profile::{Disk, Link};
use experiment::quantity::show_bytes;
use linux::cgroup::{self, Controller, Hierarchies};
use linux::network::{LinkLimits, NetworkError, PortLink, inject};
use runner::Envelope;
use rustix::process::geteuid;

use super::{SIZE_BYTES, free_bytes};
use crate::Error;
use crate::error::install_command;
use crate::placement::Placement;

/// Space that a host's disk file is expected to take, bytes. The file grows with its content.
const EXPECTED_BYTES: u64 = 1 << 30;

/// Kernel features that a host needs, each with a file that exists if the feature does.
const PARTS: [(&str, &str); 5] = [
    ("network namespaces (CONFIG_NET_NS)", "/proc/self/ns/net"),
    ("pid namespaces (CONFIG_PID_NS)", "/proc/self/ns/pid"),
    ("mount namespaces", "/proc/self/ns/mnt"),
    ("ipc namespaces (CONFIG_IPC_NS)", "/proc/self/ns/ipc"),
    ("uts namespaces (CONFIG_UTS_NS)", "/proc/self/ns/uts"),
];

/// Faults that drop packets.
const CUTTING: [&str; 3] = ["host_freeze", "lossy_link", "partition"];
/// Faults that shape a link.
const SHAPING: [&str; 3] = ["lossy_link", "slow_link", "slow_port"];
/// Faults that need a separate file system for the host.
const OF_DISKS: [&str; 2] = ["full_disk", "slow_disk"];

/// Whether the trial has a fault of one of these kinds.
fn has_fault(trial: &plan::Trial, kinds: &[&str]) -> bool {
    trial.faults.iter().any(|fault| kinds.contains(&fault.kind.as_str()))
}

/// Whether a host gets a separate file system.
pub fn needs_volume(trial: &plan::Trial, envelope: &Envelope) -> bool {
    envelope.disk.is_throttled() || envelope.disk.size_bytes.is_some() || has_fault(trial, &OF_DISKS)
}

/// Whether links of the trial lose packets at random.
pub fn loses_packets(trial: &plan::Trial, envelopes: &[Envelope]) -> bool {
    has_fault(trial, &["lossy_link"]) || envelopes.iter().any(|envelope| envelope.link.loss_pct.is_some())
}

/// Returns a link with every kind of limit that a profile, port or fault of the trial uses. Serves
/// to test whether the kernel can make such links.
fn hardest_link(trial: &plan::Trial, envelopes: &[Envelope]) -> Link {
    let of_profiles = |figure: fn(&Link) -> Option<f64>| envelopes.iter().find_map(|envelope| figure(&envelope.link));
    let slowing = trial.faults.iter().filter(|fault| ["slow_link", "slow_port"].contains(&fault.kind.as_str()));
    let of_faults = |key: &str| slowing.clone().any(|fault| fault.with.contains_key(key));
    let of_ports = |figure: fn(&Link) -> Option<f64>| trial.lab.ports.iter().find_map(|port| figure(&port.link));
    Link {
        rate_bits_per_s: of_profiles(|link| link.rate_bits_per_s)
            .or_else(|| of_ports(|link| link.rate_bits_per_s))
            .or_else(|| of_faults("rate").then_some(1e9)),
        delay_s: of_profiles(|link| link.delay_s)
            .or_else(|| of_ports(|link| link.delay_s))
            .or_else(|| of_faults("delay").then_some(0.001)),
        loss_pct: of_profiles(|link| link.loss_pct).or_else(|| has_fault(trial, &["lossy_link"]).then_some(1.0)),
    }
}

/// Whether single ports of a link have limits.
fn slows_ports(trial: &plan::Trial) -> bool {
    !trial.lab.ports.is_empty() || has_fault(trial, &["slow_port"])
}

/// A program that is used to make hosts or to measure them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HostTool {
    program: &'static str,
    /// Debian package of the program.
    package: &'static str,
    /// The part of a lab that needs the program.
    needed_for: &'static str,
    /// Features that work without the program, or `None` if hosts can be made without it.
    without: Option<&'static str>,
}

const HOSTS: HostTool = HostTool {
    program: "ip",
    package: "iproute2",
    needed_for: "a virtual host",
    without: Some("targets on this machine itself work without it"),
};
const LINKS: HostTool = HostTool {
    program: "tc",
    package: "iproute2",
    needed_for: "a link with limits, or a fault that limits links,",
    without: Some("labs without limits or faults on links work without it"),
};
const FILTERS: HostTool = HostTool {
    program: "nft",
    package: "nftables",
    needed_for: "a host whose packets are dropped",
    without: Some("labs without loss, partitions, lossy links and frozen hosts work without it"),
};
const VOLUMES: HostTool = HostTool {
    program: "mkfs.ext4",
    package: "e2fsprogs",
    needed_for: "a disk of a host's own",
    without: Some(
        "profiles without [disk], the tiers disk, memory and pmem, and all faults except slow_disk and full_disk \
         work without it",
    ),
};
/// The program that measures disks. If it is missing, disks are not measured, and the records say
/// so.
const DISK_METER: HostTool = HostTool { program: "fio", package: "fio", needed_for: "measuring a disk", without: None };
const TOOLS: [HostTool; 5] = [HOSTS, LINKS, FILTERS, VOLUMES, DISK_METER];

/// Returns the programs that this trial's hosts need.
fn tools(trial: &plan::Trial, envelopes: &[Envelope]) -> Vec<HostTool> {
    let limited = envelopes.iter().any(|envelope| !envelope.link.is_unlimited());
    let asked = [
        (HOSTS, true),
        (LINKS, limited || slows_ports(trial) || has_fault(trial, &SHAPING)),
        (FILTERS, loses_packets(trial, envelopes) || has_fault(trial, &CUTTING)),
        (VOLUMES, envelopes.iter().any(|envelope| needs_volume(trial, envelope) || !envelope.tiers.is_empty())),
        (DISK_METER, trial.lab.measure_storage),
    ];
    asked.into_iter().filter(|(_, is_asked)| *is_asked).map(|(tool, _)| tool).collect()
}

/// Returns the Debian packages that this machine lacks for this trial's hosts.
///
/// # Errors
/// If this user is not root, because packages would not help then.
pub fn lacking(trial: &plan::Trial, envelopes: &[Envelope]) -> Result<Vec<&'static str>, Error> {
    root()?;
    Ok(absent(&tools(trial, envelopes)))
}

/// Returns the Debian packages that this machine lacks for any lab.
pub fn lacking_for_any() -> Vec<&'static str> {
    absent(&TOOLS)
}

fn absent(tools: &[HostTool]) -> Vec<&'static str> {
    let mut packages: Vec<&str> = tools.iter().filter(|tool| folder(tool).is_err()).map(|tool| tool.package).collect();
    packages.dedup();
    packages
}

fn root() -> Result<(), Error> {
    if geteuid().is_root() {
        return Ok(());
    }
    Err(Error::Needs {
        what: "a lab of virtual hosts (with its profiles and faults)".to_owned(),
        needs: "root".to_owned(),
        instead: "run Plimsoll as root; without root you can use a target on this machine (leave out [lab]), a \
                  running target (`url`), a target that a command starts (`start`), faults of their processes, and \
                  real machines ([lab] ssh = [...])"
            .to_owned(),
    })
}

/// Checks that all requirements are met.
///
/// # Errors
/// [`Error::Needs`], with the features that work without the missing requirement.
pub fn check(trial: &plan::Trial, envelopes: &[Envelope]) -> Result<(), Error> {
    root()?;
    for (part, file) in PARTS {
        if !Path::new(file).exists() {
            return Err(of_kernel("a virtual host", part));
        }
    }
    let tools = tools(trial, envelopes);
    if tools.contains(&VOLUMES) && !Path::new("/dev/loop-control").exists() {
        return Err(of_kernel("a disk of a host's own", "loop devices (CONFIG_BLK_DEV_LOOP; try `modprobe loop`)"));
    }
    // The error explains the first missing program. The suggested command installs all packages.
    let packages: Vec<String> = absent(&tools).into_iter().map(str::to_owned).collect();
    for (tool, without) in tools.iter().filter_map(|tool| Some((tool, tool.without?))) {
        folder(tool).map_err(|needs| Error::Needs {
            what: tool.needed_for.to_owned(),
            needs,
            instead: format!(
                "`plimsoll run --install` and `plimsoll install --lab` install it; or run: {}\n  {without}",
                install_command(&packages)
            ),
        })?;
    }
    controllers(envelopes)?;
    links(&hardest_link(trial, envelopes), slows_ports(trial))
}

/// A tested link: its limits, whether ports had limits, and the result.
type LinkTrial = (Link, bool, Result<(), NetworkError>);

/// Checks that the kernel can make such a link. Tests it in a temporary network namespace, which
/// ends with the thread that made it.
fn links(hardest: &Link, of_ports: bool) -> Result<(), Error> {
    /// Results of earlier tests, so that each kind of link is tested once.
    static TRIED: Mutex<Vec<LinkTrial>> = Mutex::new(Vec::new());
    if hardest.is_unlimited() {
        return Ok(());
    }
    let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    let known =
        tried.iter().find(|(link, ports, _)| link == hardest && *ports == of_ports).map(|(.., result)| result.clone());
    let result = match known {
        Some(result) => result,
        None => {
            let result = try_link(hardest, of_ports)?;
            tried.push((hardest.clone(), of_ports, result.clone()));
            result
        }
    };
    let Err(NetworkError::NoKernel(part)) = result else {
        // The affected host reports any other error.
        return Ok(());
    };
    Err(match part.contains("netem") {
        true => Error::Needs {
            what: "a link with a delay (`delay` of a profile, a network, a port, or of the faults slow_link and \
                   slow_port)"
                .to_owned(),
            needs: "netem (CONFIG_NET_SCH_NETEM; try `modprobe sch_netem`), which this kernel lacks".to_owned(),
            instead: "leave out the delay, or use a distribution's kernel; rates, loss and partitions work without \
                      netem"
                .to_owned(),
        },
        false => of_kernel("a limited link", &part),
    })
}

/// Kinds of limits that links of virtual hosts support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSupport {
    /// Whether the program `tc` exists.
    pub has_tc: bool,
    /// Whether links can have a rate limit.
    pub rate: bool,
    /// Whether links can have a delay.
    pub delay: bool,
}

/// Tests which kinds of limits this machine can set on a link.
pub fn what_links_can_be() -> LinkSupport {
    let attempt = |link: Link| {
        try_link(&link, false).unwrap_or_else(|error| {
            Err(NetworkError::System { doing: "test a link".to_owned(), error: error.to_string() })
        })
    };
    let rate = attempt(Link { rate_bits_per_s: Some(1e9), delay_s: None, loss_pct: None });
    let delay = attempt(Link { rate_bits_per_s: None, delay_s: Some(0.001), loss_pct: None });
    LinkSupport { has_tc: !matches!(rate, Err(NetworkError::NoProgram(_))), rate: rate.is_ok(), delay: delay.is_ok() }
}

fn try_link(link: &Link, of_ports: bool) -> Result<Result<(), NetworkError>, Error> {
    let trying = std::thread::Builder::new().name("try a link".to_owned()).spawn({
        let ports: Vec<PortLink> = of_ports.then(|| (1, link.clone())).into_iter().collect();
        let link = link.clone();
        move || linux::leave_network().map(|()| inject("lo", LinkLimits { ports: &ports, ..LinkLimits::of(&link) }))
    });
    let trying = trying.map_err(Error::system("start a thread"))?;
    let tried = trying.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    tried.map_err(Error::system("leave the machine's network"))
}

/// Checks that the system has the control groups that the limits need.
fn controllers(envelopes: &[Envelope]) -> Result<(), Error> {
    let any = |limits: fn(&Envelope) -> bool| envelopes.iter().any(limits);
    let slows = |envelope: &Envelope| envelope.core_speed.is_some_and(|speed| speed < 1.0) || envelope.cores.is_some();
    let needed = [
        (any(slows), Controller::Cpu, "a profile's cores or lab.speed"),
        (any(|envelope| !envelope.cpus.is_empty()), Controller::Cpuset, "a choice of CPUs (lab.generator_cpus)"),
        (any(|envelope| envelope.memory_bytes.is_some()), Controller::Memory, "a profile's memory"),
        (any(|envelope| envelope.disk.is_throttled()), Controller::Block, "a profile's disk with limits"),
        (any(|envelope| envelope.tiers.values().any(Disk::is_throttled)), Controller::Block, "a tier with limits"),
    ];
    let there = Hierarchies::detect();
    for (_, controller, needed_for) in needed.into_iter().filter(|(is_needed, ..)| *is_needed) {
        if let Err(error) = there.need(controller, needed_for) {
            return Err(match error {
                cgroup::CgroupError::Missing { controller, why, .. } => Error::Needs {
                    what: needed_for.to_owned(),
                    needs: format!("the control group controller `{controller}`, {why}"),
                    instead: "virtual hosts and the faults of processes and of the network work without it".to_owned(),
                },
                error => Error::Host { host: "of the lab".to_owned(), reason: error.to_string() },
            });
        }
    }
    Ok(())
}

/// Returns notices for the user about a lab that can be made.
pub fn notices(trial: &plan::Trial, placement: &Placement, scratch: &Path) -> Vec<String> {
    let mut notices = Vec::new();
    if placement.generator_cpus.is_empty() && Hierarchies::detect().of(Controller::Cpuset).is_none() {
        let text =
            "hosts and clients share all CPUs: the control group controller `cpuset`, which separates them, is missing";
        notices.push(text.to_owned());
    }
    let disks = placement.envelopes.iter().filter(|envelope| needs_volume(trial, envelope));
    let tiers = placement.envelopes.iter().flat_map(|envelope| envelope.tiers.values());
    let asked = disks.map(|envelope| &envelope.disk).chain(tiers);
    let asked = asked.map(|disk| disk.size_bytes.unwrap_or(SIZE_BYTES).min(EXPECTED_BYTES));
    let asked = asked.fold(0, u64::saturating_add);
    if let Some(free) = free_bytes(scratch).filter(|free| *free < asked) {
        notices.push(format!(
            "the disks of the hosts are files in {}, where only {} is free: writes beyond that fail in the host",
            scratch.display(),
            show_bytes(free)
        ));
    }
    notices
}

/// Returns an error for a missing kernel feature.
pub fn of_kernel(what: &str, part: &str) -> Error {
    Error::Needs {
        what: what.to_owned(),
        needs: format!("{}, which this kernel lacks", part.trim_end_matches(" is missing")),
        instead: "use a machine with a distribution's ordinary kernel".to_owned(),
    }
}

/// Returns the folder of a program that hosts can start, or a text about the missing program.
fn folder(tool: &HostTool) -> Result<PathBuf, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let program = tool.program;
    let folders: Vec<PathBuf> = env::split_paths(&path).filter(|folder| folder.join(program).is_file()).collect();
    // A host hides these folders of the machine behind its own.
    let is_hidden = |folder: &&PathBuf| ["/tmp", "/run", "/dev/shm"].iter().any(|own| folder.starts_with(own));
    if let Some(folder) = folders.iter().find(|folder| !is_hidden(folder)) {
        return Ok(folder.clone());
    }
    let package = format!("from Debian's package {}", tool.package);
    Err(match folders.first() {
        // `/usr/sbin` has such programs, and an ordinary user's PATH may lack it.
        None if Path::new("/usr/sbin").join(program).is_file() => {
            format!("the program `{program}`, which is in /usr/sbin: add /usr/sbin to PATH")
        }
        None => format!("the program `{program}` ({package})"),
        Some(folder) => {
            format!("the program `{program}` ({package}): hosts cannot see the one in {}", folder.display())
        }
    })
}

#[cfg(test)]
mod tests {
    use experiment::plan::TargetKind;

    use super::*;
    use crate::fakes::trial;

    fn packages(trial: &plan::Trial, envelope: Envelope) -> Vec<&'static str> {
        tools(trial, &[envelope]).iter().map(|tool| tool.package).collect()
    }

    #[test]
    fn needed_packages_depend_on_the_lab() {
        let mut plain = trial(TargetKind::Running { url: String::new() });
        assert_eq!(packages(&plain, Envelope::default()), ["iproute2"]);
        let mut lossy = Envelope::default();
        lossy.link.loss_pct = Some(1.0);
        assert_eq!(packages(&plain, lossy), ["iproute2", "iproute2", "nftables"]);
        let mut small = Envelope::default();
        small.disk.size_bytes = Some(1 << 30);
        plain.lab.measure_storage = true;
        assert_eq!(packages(&plain, small), ["iproute2", "e2fsprogs", "fio"]);
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let tool = HostTool { program: "no such program", package: "none", needed_for: "this", without: None };
        assert_eq!(folder(&tool), Err("the program `no such program` (from Debian's package none)".to_owned()));
        assert_eq!(absent(&[tool, tool]), ["none"]);
        assert!(absent(&[HostTool { program: "sh", ..tool }]).is_empty());
    }
}
