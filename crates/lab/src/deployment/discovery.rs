//! Facts about the hosts that a layout needs, collected from all hosts in parallel: the path of the
//! target's folder, private folders, and ports that are free on all hosts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;

use experiment::manifest::Manifest;
use linux::account::Account;
use linux::procfs;
use record::events::HostFigures;
use runner::{plain_text, probes};

use super::layout::Service;
use crate::deployment_spec::DeploymentSpec;
use crate::host::{Host, HostKind, on_each_host};
use crate::host_process::ProcessExit;
use crate::tiers::user_of;
use crate::{Error, targets};

/// Number of attempts to choose ports. On a real machine, a port may be taken.
const TRIES: usize = 20;

/// The facts about a host that a layout needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredHost {
    pub name: String,
    /// Address at which other hosts reach the host.
    pub address: String,
    /// Roles that the host runs. Empty if it runs all roles.
    pub roles: Vec<String>,
    /// Path of the target's folder on the host. Empty for a built-in target.
    pub target: PathBuf,
    /// Path of this program on the host.
    pub plimsoll: PathBuf,
    /// Private folder of each process, by role, and each folder on a storage tier, by
    /// `role.folder`.
    pub folders: BTreeMap<String, PathBuf>,
    /// Number of the host's cores, if known.
    pub cores: Option<u32>,
    /// The host's memory, MiB, if known.
    pub memory_mb: Option<u64>,
}

impl DiscoveredHost {
    /// Whether the host runs this role.
    pub fn runs(&self, role: &str) -> bool {
        self.roles.is_empty() || self.roles.iter().any(|own| own == role)
    }
}

/// Port numbers, by role and port name. They are the same on every host, so that members can
/// address each other.
pub type PortNumbers = BTreeMap<(String, String), u16>;

/// Copies the target to every host, makes the private folders, and collects the facts for the
/// layout.
pub fn discover(
    build: &DeploymentSpec<'_>,
    manifest: &Manifest,
    parameters: &BTreeMap<String, String>,
    hosts: &mut [Host],
) -> Result<Vec<DiscoveredHost>, Error> {
    let folder = build.folder.filter(|folder| !folder.as_os_str().is_empty());
    on_each_host(hosts, |index, host| {
        let planned = build.trial.lab.hosts.get(index);
        let roles = planned.map(|host| host.roles.clone()).unwrap_or_default();
        if !planned.is_some_and(|host| host.is_generator) {
            roles.iter().try_for_each(|role| check_role(manifest, role, host))?;
        }
        let target = folder.map(|folder| host.bring(folder)).transpose()?.unwrap_or_default();
        if host.kind() == HostKind::Remote {
            check_installed(manifest, parameters, &target, host)?;
        }
        let (cores, memory_mb) = size(host.kind(), &host.figures());
        let mut discovered = DiscoveredHost {
            name: host.name().to_owned(),
            address: host.address().to_owned(),
            roles,
            target,
            plimsoll: host.plimsoll().to_owned(),
            folders: BTreeMap::new(),
            cores,
            memory_mb,
        };
        for process in &manifest.processes {
            if !discovered.runs(&process.role) {
                continue;
            }
            let user = user_of(process, parameters);
            discovered.folders.insert(process.role.clone(), owned(host, host.folder(&process.role)?, user.as_deref())?);
            for name in process.folders.keys().map(|name| format!("{}.{name}", process.role)) {
                let tier = build.trial.lab.tiers.iter().find(|tier| tier.folders.contains(&name));
                let tier = tier.ok_or_else(|| Error::Manifest(format!("the plan has no tier for `{name}`")))?;
                let folder = owned(host, host.tier_folder(tier, &name)?, user.as_deref())?;
                discovered.folders.insert(name, folder);
            }
            if let (true, Some(user)) = (host.is_here(), &user) {
                reaches(&process.role, user, &discovered.target)?;
            }
        }
        Ok(discovered)
    })
    .into_iter()
    .collect()
}

/// Makes a process's user the owner of the process's folder. Returns the folder.
fn owned(host: &Host, folder: PathBuf, user: Option<&str>) -> Result<PathBuf, Error> {
    user.map_or(Ok(()), |user| host.give(&folder, user)).map(|()| folder)
}

/// Checks that a user of this machine can reach the target's folder.
fn reaches(role: &str, user: &str, target: &Path) -> Result<(), Error> {
    let Ok(Some(account)) = Account::to_become(user) else { return Ok(()) };
    let Some(closed) = account.is_kept_from(&target.join("target.toml")) else { return Ok(()) };
    Err(Error::Needs {
        what: format!("`{role}`, which runs as the user `{user}`,"),
        needs: format!("access to {}, but may not enter {}", target.display(), closed.display()),
        instead: "copy the target to a folder that all users may read, and name that folder in PLIMSOLL_TARGETS; or \
                  use a virtual host ([lab] hosts = 1), where any folder works"
            .to_owned(),
    })
}

fn check_role(manifest: &Manifest, role: &str, host: &Host) -> Result<(), Error> {
    let known: Vec<&str> = manifest.processes.iter().map(|process| process.role.as_str()).collect();
    if known.contains(&role) {
        return Ok(());
    }
    let reason = format!("`{}` has no role `{role}`; it has {}", manifest.name, known.join(", "));
    Err(Error::Host { host: host.name().to_owned(), reason })
}

/// Runs the target's hook `install check` on a machine that the user prepares.
fn check_installed(
    manifest: &Manifest,
    parameters: &BTreeMap<String, String>,
    target: &Path,
    host: &Host,
) -> Result<(), Error> {
    let Some(hook) = targets::installing(target, manifest, ("install", Some("check")), parameters)? else {
        return Ok(());
    };
    let checked = hook.run_on(host)?;
    let output = plain_text::lines(&checked.output);
    let missing: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let reason = match checked.ended {
        ProcessExit::Exit(0) => return Ok(()),
        ProcessExit::Exit(1) if !missing.is_empty() => {
            let lines = missing.join("\n  ");
            format!("`{}` is not completely installed there; missing steps:\n  {lines}", manifest.name)
        }
        ended => {
            let last = checked.errors.trim().lines().last().unwrap_or("no error message");
            format!("`install check` of `{}` failed there: {ended}: {last}", manifest.name)
        }
    };
    Err(Error::Host { host: host.name().to_owned(), reason })
}

/// Returns the cores and the memory in MiB of a host, from its profile, or from this machine if the
/// host runs here.
fn size(kind: HostKind, figures: &HostFigures) -> (Option<u32>, Option<u64>) {
    let (mut cores, mut memory_bytes) = (figures.cores, figures.memory_bytes);
    if kind != HostKind::Remote {
        let parallelism = thread::available_parallelism().ok();
        cores = cores.or_else(|| u32::try_from(parallelism?.get()).ok());
        memory_bytes =
            memory_bytes.or_else(|| probes::memory_bytes(&procfs::text(Path::new("/proc/meminfo"))?, "MemTotal:"));
    }
    (cores, memory_bytes.map(|bytes| bytes >> 20))
}

/// Chooses ports for every process, each free on all hosts of the process. A parameter named `port`
/// may set the service's port.
pub fn choose_ports(
    manifest: &Manifest,
    parameters: &BTreeMap<String, String>,
    service: Service<'_>,
    discovered: &[DiscoveredHost],
    hosts: &[Host],
) -> Result<PortNumbers, Error> {
    let mut names: Vec<(String, String)> = Vec::new();
    for process in &manifest.processes {
        names.extend(process.ports.iter().map(|port| (process.role.clone(), port.clone())));
    }
    let fixed = match parameters.get("port").filter(|port| !matches!(port.as_str(), "" | "0" | "auto")) {
        Some(port) if !service.role.is_empty() => {
            Some(port.parse().map_err(|_| Error::Manifest(format!("parameter port: `{port}` is not a port")))?)
        }
        _ => None,
    };
    let Some((first, others)) = hosts.split_first() else { return Ok(PortNumbers::new()) };
    let mut tries = 1;
    loop {
        let mut ports: PortNumbers = names.iter().cloned().zip(first.free_ports(names.len())?).collect();
        if let Some(number) = fixed {
            ports.insert((service.role.to_owned(), service.port.to_owned()), number);
            if discovered.first().is_some_and(|host| host.runs(service.role)) {
                first.check_port(number)?;
            }
        }
        let mut others = others.iter().zip(discovered.iter().skip(1));
        match others.try_for_each(|(host, discovered)| check_ports(&ports, host, discovered)) {
            Ok(()) => return Ok(ports),
            Err(Error::PortTaken { port, .. }) if Some(port) != fixed && tries < TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Checks that the ports of all processes on a host are free there.
fn check_ports(ports: &PortNumbers, host: &Host, discovered: &DiscoveredHost) -> Result<(), Error> {
    let mut here = ports.iter().filter(|((role, _), _)| discovered.runs(role));
    here.try_for_each(|(_, number)| host.check_port(*number))
}
