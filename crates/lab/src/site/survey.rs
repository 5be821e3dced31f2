//! What a layout has to know of its hosts, gathered from all of them at once: where the
//! target's folder is, private folders, ports that are free everywhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use experiment::manifest::{self, Manifest};
use record::events::HostFigures;

use super::Build;
use super::layout::Service;
use crate::hosts::{Ended, Host, on_all};
use crate::linux::procfs;
use crate::{Error, plain_text, probes, targets};

/// Choices of ports before giving up: on a real machine one may be taken.
const TRIES: usize = 20;

/// A host as the layout sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surveyed {
    /// Its name.
    pub name: String,
    /// Where the others reach it.
    pub address: String,
    /// The only role that it runs; `None`: all.
    pub role: Option<String>,
    /// The target's folder there; empty for one that is built in.
    pub target: PathBuf,
    /// This program there.
    pub plimsoll: PathBuf,
    /// Role to the private folder of its process.
    pub folders: BTreeMap<String, PathBuf>,
    /// Its cores, if that is known.
    pub cores: Option<u32>,
    /// Its memory, MiB, if that is known.
    pub memory_mb: Option<u64>,
}

impl Surveyed {
    /// Whether it runs this role.
    pub fn runs(&self, role: &str) -> bool {
        self.role.as_deref().is_none_or(|own| own == role)
    }
}

/// Role and name to number: the same on every host, so that peers can be addressed.
pub type Ports = BTreeMap<(String, String), u16>;

/// Brings the target to every host, and looks around there.
pub fn look_around(
    build: &Build<'_>,
    manifest: &Manifest,
    parameters: &BTreeMap<String, String>,
    hosts: &mut [Box<dyn Host>],
) -> Result<Vec<Surveyed>, Error> {
    let folder = build.folder.filter(|folder| !folder.as_os_str().is_empty());
    on_all(hosts, |index, host| {
        let role = build.trial.lab.hosts.get(index).and_then(|host| host.role.clone());
        check_role(manifest, role.as_deref(), host)?;
        let target = folder.map(|folder| host.bring(folder)).transpose()?.unwrap_or_default();
        if host.kind() == "ssh" {
            check_installed(manifest, parameters, &target, host)?;
        }
        let (cores, memory_mb) = size(host.kind(), &host.figures());
        let mut surveyed = Surveyed {
            name: host.name().to_owned(),
            address: host.address().to_owned(),
            role,
            target,
            plimsoll: host.plimsoll(),
            folders: BTreeMap::new(),
            cores,
            memory_mb,
        };
        let here = manifest.processes.iter().filter(|process| surveyed.runs(&process.role));
        let folders = here.map(|process| Ok((process.role.clone(), host.folder(&process.role)?)));
        surveyed.folders = folders.collect::<Result<_, Error>>()?;
        Ok(surveyed)
    })
    .into_iter()
    .collect()
}

fn check_role(manifest: &Manifest, role: Option<&str>, host: &dyn Host) -> Result<(), Error> {
    let known = || manifest.processes.iter().map(|process| process.role.as_str());
    match role {
        Some(role) if !known().any(|known| known == role) => {
            let known: Vec<&str> = known().collect();
            let reason = format!("`{}` has no role `{role}`; it has {}", manifest.name, known.join(", "));
            Err(Error::Host { host: host.name().to_owned(), reason })
        }
        _ => Ok(()),
    }
}

/// Asks the target's hook `install` on a machine that the user prepares.
fn check_installed(
    manifest: &Manifest,
    parameters: &BTreeMap<String, String>,
    target: &Path,
    host: &dyn Host,
) -> Result<(), Error> {
    let Some(hook) = targets::installing(target, manifest, ("install", Some("check")), parameters)? else {
        return Ok(());
    };
    let checked = hook.run_on(host)?;
    let output = plain_text::lines(&checked.output);
    let missing: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let reason = match checked.ended {
        Ended::Exit(0) => return Ok(()),
        Ended::Exit(1) if !missing.is_empty() => {
            let lines = missing.join("\n  ");
            format!("`{}` is not installed completely there; what has to be done on it:\n  {lines}", manifest.name)
        }
        ended => {
            let last = checked.errors.trim().lines().last().unwrap_or("it names nothing");
            format!("`install check` of `{}` failed there: {ended}: {last}", manifest.name)
        }
    };
    Err(Error::Host { host: host.name().to_owned(), reason })
}

/// Cores and MiB of a host: what its profile gives it, or the machine's where it is on this one.
fn size(kind: &str, figures: &HostFigures) -> (Option<u32>, Option<u64>) {
    let is_here = kind != "ssh";
    let cores = figures.cores.or_else(|| {
        let count = figures.cpus.as_deref().map(count_of).filter(|count| *count > 0);
        let machine = || u32::try_from(std::thread::available_parallelism().ok()?.get()).ok();
        count.or_else(|| if is_here { machine() } else { None })
    });
    let memory_bytes = figures.memory_bytes.or_else(|| {
        let text = if is_here { procfs::text(Path::new("/proc/meminfo")) } else { None };
        probes::memory_bytes(&text?, "MemTotal:")
    });
    (cores, memory_bytes.map(|bytes| bytes >> 20))
}

/// How many numbers `0-3,6` holds.
fn count_of(list: &str) -> u32 {
    let count = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        Some(last.checked_sub(first)? + 1)
    };
    list.split(',').filter_map(count).sum()
}

/// Ports for every process, free wherever it runs; the service's may be fixed by a parameter named `port`.
pub fn choose_ports(
    manifest: &Manifest,
    parameters: &BTreeMap<String, String>,
    service: Service<'_>,
    surveyed: &[Surveyed],
    hosts: &[Box<dyn Host>],
) -> Result<Ports, Error> {
    let names: Vec<(String, String)> = manifest.processes.iter().flat_map(names).collect();
    let fixed = match parameters.get("port").filter(|port| !matches!(port.as_str(), "" | "0" | "auto")) {
        Some(port) => {
            Some(port.parse().map_err(|_| Error::Manifest(format!("parameter port: `{port}` is not a port")))?)
        }
        None => None,
    };
    let Some((first, others)) = hosts.split_first() else { return Ok(Ports::new()) };
    let others = || others.iter().map(AsRef::as_ref).zip(surveyed.iter().skip(1));
    let check = |ports: &Ports, (host, surveyed): (&dyn Host, &Surveyed)| {
        let mut here = ports.iter().filter(|((role, _), _)| surveyed.runs(role));
        here.try_for_each(|(_, number)| host.check_port(*number))
    };
    let mut tries = 1;
    loop {
        let mut ports: Ports = names.iter().cloned().zip(first.free_ports(names.len())?).collect();
        if let Some(number) = fixed {
            ports.insert((service.role.to_owned(), service.port.to_owned()), number);
            if surveyed.first().is_some_and(|host| host.runs(service.role)) {
                first.check_port(number)?;
            }
        }
        match others().try_for_each(|other| check(&ports, other)) {
            Ok(()) => return Ok(ports),
            Err(Error::PortTaken { port, .. }) if Some(port) != fixed && tries < TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

fn names(process: &manifest::Process) -> impl Iterator<Item = (String, String)> {
    process.ports.iter().map(|port| (process.role.clone(), port.clone()))
}
