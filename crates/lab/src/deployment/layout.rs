//! Layout of a target on its hosts: computes a slot with a command line for every process, from the
//! manifest, the trial's parameters and the facts about the hosts. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use experiment::manifest::{self, Manifest, Metrics, ReadyCheck};
use rustix::process::Signal;

use super::discovery::{DiscoveredHost, PortNumbers};
use super::process_slots::ProcessSlot;
use crate::Error;
use crate::hooks::{ANSWER_BYTES, Hook, variable};
use crate::host_process::Start;
use crate::process_log::LogWatcher;
use crate::readiness::ReadinessCheck;
use crate::scrape::Endpoint;
use crate::targets::PlaceholderValues;
use crate::tiers::user_of;

/// Time limit of a hook that queries a running target.
pub(super) const ASK_PATIENCE: Duration = Duration::from_secs(10);

/// A host on which hooks can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookHost {
    /// Index of the host.
    pub host: usize,
    /// Path of the target's folder on the host.
    pub folder: PathBuf,
    /// Environment variables `PLIMSOLL_…`.
    pub environment: BTreeMap<String, OsString>,
    /// Placeholder values of the member's process.
    pub values: BTreeMap<String, String>,
}

/// All slots of a target, and the hosts for its hooks.
#[derive(Default)]
pub struct DeploymentLayout {
    /// Slots in start order: by rank, then by role, then by host.
    pub slots: Vec<ProcessSlot>,
    /// Hosts of the members, in the lab's order.
    pub hook_hosts: Vec<HookHost>,
    /// Every host, with the environment of the user's commands there.
    pub command_hosts: Vec<HookHost>,
    /// Metrics endpoints of the members.
    pub endpoints: Vec<Endpoint>,
}

/// Parses a stop signal's name from `target.toml`.
pub fn stop_signal(name: &str) -> Option<Signal> {
    Some(match name {
        "TERM" => Signal::TERM,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "HUP" => Signal::HUP,
        "KILL" => Signal::KILL,
        _ => return None,
    })
}

/// The parts of `[about] service = "role.port"`. Both are empty if clients use no port of the
/// target.
#[derive(Clone, Copy)]
pub struct Service<'a> {
    pub role: &'a str,
    pub port: &'a str,
}

impl<'a> Service<'a> {
    pub fn of(manifest: &'a Manifest) -> Result<Self, Error> {
        let service = &manifest.about.service;
        if !manifest.operations.is_empty() && manifest.processes.iter().any(|process| process.role == *service) {
            // Clients run programs on these hosts.
            return Ok(Self { role: service, port: "" });
        }
        if service.is_empty() {
            return Ok(Self { role: "", port: "" });
        }
        let found = service.split_once('.').filter(|(role, port)| {
            let mut processes = manifest.processes.iter();
            processes.any(|process| process.role == *role && process.ports.iter().any(|name| name == port))
        });
        let (role, port) = found.ok_or_else(|| {
            Error::Manifest(format!("service `{service}` is unknown: expected role.port of a process in this file"))
        })?;
        Ok(Self { role, port })
    }
}

/// Input of a layout.
pub struct LayoutInput<'a> {
    pub manifest: &'a Manifest,
    /// All parameters of the target.
    pub parameters: &'a BTreeMap<String, String>,
    /// The service that clients use.
    pub service: Service<'a>,
    pub hosts: &'a [DiscoveredHost],
    /// Port numbers. They are the same on every host.
    pub ports: &'a PortNumbers,
    /// Folder for the output of every process.
    pub logs: &'a Path,
    /// Factor for all time limits; 1 on a machine at full speed.
    pub slowdown: f64,
}

/// Sorts processes by rank: first those without `after`, then those whose `after` is in the ranks
/// before, and so on. Keeps the file's order within a rank.
fn by_rank(processes: &[manifest::Process]) -> Result<Vec<Vec<&manifest::Process>>, Error> {
    let mut ranks: Vec<Vec<&manifest::Process>> = Vec::new();
    let mut waiting: Vec<&manifest::Process> = processes.iter().collect();
    while !waiting.is_empty() {
        let started: BTreeSet<&str> = ranks.iter().flatten().map(|process| process.role.as_str()).collect();
        let (next, others): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|process| process.after.as_ref().is_none_or(|role| started.contains(role.as_str())));
        if next.is_empty() {
            let roles: Vec<&str> = others.iter().map(|process| process.role.as_str()).collect();
            return Err(Error::Manifest(format!(
                "`after` of {} names an unknown role or forms a cycle",
                roles.join(", ")
            )));
        }
        ranks.push(next);
        waiting = others;
    }
    Ok(ranks)
}

impl LayoutInput<'_> {
    /// Computes the layout.
    pub fn lay_out(&self) -> Result<DeploymentLayout, Error> {
        for (who, role) in [("clients connect to", self.service.role), ("members run", self.members())] {
            if !role.is_empty() && !self.hosts.iter().any(|host| host.runs(role)) {
                return Err(Error::Manifest(format!("{who} `{role}`, but no host of the lab has this role")));
            }
        }
        let mut slots = Vec::new();
        for (rank, processes) in by_rank(&self.manifest.processes)?.into_iter().enumerate() {
            for process in processes {
                for (index, host) in self.hosts.iter().enumerate().filter(|(_, host)| host.runs(&process.role)) {
                    slots.push(OnHost { basis: self, host, index }.slot(process, rank)?);
                }
            }
        }
        let mut layout = DeploymentLayout { slots, ..DeploymentLayout::default() };
        for (index, host) in self.hosts.iter().enumerate() {
            let here = OnHost { basis: self, host, index };
            let hook_host = HookHost {
                host: index,
                folder: host.target.clone(),
                environment: here.hook_environment(),
                values: here.member_values(),
            };
            if host.runs(self.members()) {
                layout.hook_hosts.push(hook_host.clone());
                layout.endpoints.extend(here.endpoint()?);
            }
            layout.command_hosts.push(hook_host);
        }
        Ok(layout)
    }

    /// Returns the role whose hosts are the members.
    fn members(&self) -> &str {
        &self.manifest.about.members
    }

    /// Returns the address of this host for clients.
    fn address(&self, host: &DiscoveredHost) -> String {
        if self.service.port.is_empty() {
            return host.address.clone();
        }
        self.address_of(self.service.role, host).unwrap_or_else(|| format!("{}:0", host.address))
    }

    /// Returns the address of this role on this host, if it listens on a port with the service's
    /// port name.
    fn address_of(&self, role: &str, host: &DiscoveredHost) -> Option<String> {
        let number = self.ports.get(&(role.to_owned(), self.service.port.to_owned()))?;
        Some(format!("{}:{number}", host.address))
    }

    /// Returns the address of a member: its own, or else that of the first host with the service.
    fn address_of_member(&self, host: &DiscoveredHost) -> String {
        let own = self.address_of(self.members(), host);
        own.or_else(|| Some(self.address(self.that_run(self.service.role).next()?))).unwrap_or_default()
    }

    /// Returns the hosts that run a role, in order.
    fn that_run<'h>(&'h self, role: &'h str) -> impl Iterator<Item = &'h DiscoveredHost> {
        self.hosts.iter().filter(move |host| host.runs(role))
    }
}

/// Joins one field of several hosts, as the value of a placeholder.
fn joined<'h>(hosts: impl Iterator<Item = &'h DiscoveredHost>, field: fn(&DiscoveredHost) -> &str) -> String {
    hosts.map(field).collect::<Vec<_>>().join(",")
}

fn address_of(host: &DiscoveredHost) -> &str {
    &host.address
}

fn name_of(host: &DiscoveredHost) -> &str {
    &host.name
}

struct OnHost<'a> {
    basis: &'a LayoutInput<'a>,
    host: &'a DiscoveredHost,
    index: usize,
}

impl OnHost<'_> {
    fn slot(&self, process: &manifest::Process, rank: usize) -> Result<ProcessSlot, Error> {
        let values = self.values(process);
        let mut run = process.run.iter().map(|text| self.fill(&values, text).map(OsString::from));
        let program =
            run.next().ok_or_else(|| Error::Manifest(format!("`{}` has no program to run", process.role)))??;
        let arguments = run.collect::<Result<_, Error>>()?;
        let environment = process.env.iter().map(|(name, text)| Ok((name.into(), self.fill(&values, text)?.into())));
        let serves = process.role == self.basis.service.role;
        let is_member = process.role == self.basis.members();
        let start = Start {
            role: process.role.clone(),
            program,
            arguments,
            environment: environment.collect::<Result<_, Error>>()?,
            folder: self.host.folders.get(&process.role).cloned(),
            user: user_of(process, self.basis.parameters),
            log: self.basis.logs.join(format!("{}.{}.log", self.host.name, process.role)),
            log_watcher: LogWatcher::of(&self.basis.manifest.log),
            programs: process.programs.clone(),
        };
        Ok(ProcessSlot {
            rank,
            check: self.check(process, &values)?,
            ready_within_s: process.ready.within_s * self.basis.slowdown,
            stop_signal: stop_signal(&process.stop.signal)
                .ok_or_else(|| Error::Manifest(format!("`{}` is not a valid stop signal", process.stop.signal)))?,
            stop_within_s: process.stop.within_s * self.basis.slowdown,
            service: serves.then(|| self.basis.address(self.host)),
            member: is_member.then(|| self.basis.address_of_member(self.host)),
            folder: Some(process.role.clone()),
            ..ProcessSlot::new(self.index, start)
        })
    }

    /// Returns the endpoint from `[metrics]`, with the placeholders of the member's process.
    fn endpoint(&self) -> Result<Option<Endpoint>, Error> {
        let basis = self.basis;
        let member = basis.manifest.processes.iter().find(|process| process.role == basis.members());
        let Some((metrics, process)) = basis.manifest.metrics.as_ref().zip(member) else { return Ok(None) };
        let url = self.fill(&self.values(process), &metrics.url)?;
        Ok(Some(Endpoint { host: self.host.name.clone(), metrics: Metrics { url, ..metrics.clone() } }))
    }

    /// Replaces the placeholders in the text. The error distinguishes an unknown placeholder from a
    /// role that no host runs.
    fn fill(&self, values: &PlaceholderValues, text: &str) -> Result<String, Error> {
        values.fill(text).map_err(|error| match &error {
            Error::Placeholder { name, role, .. } => {
                let of = name.strip_prefix("host.").or_else(|| name.strip_prefix("hosts."));
                let mut processes = self.basis.manifest.processes.iter();
                match of.filter(|of| processes.any(|process| process.role == *of)) {
                    Some(of) => Error::Manifest(format!("`{role}` uses {{{name}}}, but no host runs `{of}`")),
                    None => error,
                }
            }
            _ => error,
        })
    }

    fn values(&self, process: &manifest::Process) -> PlaceholderValues {
        let (basis, host, role) = (self.basis, self.host, process.role.as_str());
        let mut values = basis.parameters.clone();
        let mut set = |name: &str, value: String| drop(values.insert(name.to_owned(), value));
        let peers = basis.that_run(role).filter(|other| other.name != host.name);
        set("target", host.target.display().to_string());
        set("plimsoll", host.plimsoll.display().to_string());
        set("host", host.address.clone());
        set("name", host.name.clone());
        let place = basis.that_run(role).position(|other| other.name == host.name);
        set("index", place.unwrap_or_default().to_string());
        set("hosts", joined(basis.that_run(role), address_of));
        set("names", joined(basis.that_run(role), name_of));
        set("peers", joined(peers, address_of));
        set("first", basis.that_run(role).next().map(|first| first.address.clone()).unwrap_or_default());
        if let Some(cores) = host.cores {
            set("cores", cores.to_string());
        }
        if let Some(memory_mb) = host.memory_mb {
            set("memory_mb", memory_mb.to_string());
        }
        if let Some(folder) = host.folders.get(role).filter(|_| process.data) {
            set("data", folder.display().to_string());
        }
        for name in process.folders.keys() {
            if let Some(folder) = host.folders.get(&format!("{role}.{name}")) {
                set(&format!("folder.{name}"), folder.display().to_string());
            }
        }
        for other in &basis.manifest.processes {
            if let Some(first) = basis.that_run(&other.role).next() {
                set(&format!("host.{}", other.role), first.address.clone());
                set(&format!("hosts.{}", other.role), joined(basis.that_run(&other.role), address_of));
            }
        }
        self.set_ports(process, &mut set);
        PlaceholderValues { role: role.to_owned(), values }
    }

    fn set_ports(&self, process: &manifest::Process, set: &mut dyn FnMut(&str, String)) {
        let ports = self.basis.ports;
        for ((role, name), number) in ports {
            set(&format!("port.{role}.{name}"), number.to_string());
        }
        // The short form means the process's own port, or else a port name that is unique among all
        // roles.
        for ((role, name), number) in ports {
            let namesakes = ports.keys().filter(|(_, other)| other == name).count();
            let own = process.ports.contains(name);
            if *role == process.role || (!own && namesakes == 1) {
                set(&format!("port.{name}"), number.to_string());
            }
        }
    }

    fn check(&self, process: &manifest::Process, values: &PlaceholderValues) -> Result<ReadinessCheck, Error> {
        Ok(match &process.ready.check {
            ReadyCheck::Call(operation) => {
                // A member is checked directly. Another process is checked through the service on
                // its host, or through the first service.
                let own =
                    (process.role == self.basis.members()).then(|| self.basis.address_of(&process.role, self.host));
                let beside = self.host.runs(self.basis.service.role).then_some(self.host);
                let asked = beside.or_else(|| self.basis.that_run(self.basis.service.role).next());
                let service = own.flatten().or_else(|| asked.map(|host| self.basis.address(host))).unwrap_or_default();
                ReadinessCheck::Call { service, operation: operation.clone() }
            }
            ReadyCheck::Tcp(port) => {
                let port = values.fill(&format!("{{port.{port}}}"))?;
                ReadinessCheck::Tcp(vec![format!("{}:{port}", self.host.address)])
            }
            ReadyCheck::Http(url) => ReadinessCheck::Http(self.fill(values, url)?),
            ReadyCheck::Run(run) => ReadinessCheck::Run(Box::new(self.ready_hook(process, values, run)?)),
        })
    }

    /// Returns the program that checks whether a process is ready. It runs in the target's folder,
    /// like a hook.
    fn ready_hook(
        &self,
        process: &manifest::Process,
        values: &PlaceholderValues,
        run: &[String],
    ) -> Result<Hook, Error> {
        let words: Vec<String> = run.iter().map(|text| self.fill(values, text)).collect::<Result<_, _>>()?;
        let [program, arguments @ ..] = words.as_slice() else {
            return Err(Error::Manifest(format!("`{}` has no program to run for its readiness check", process.role)));
        };
        let is_own = program.contains('/');
        let mut environment = self.hook_environment();
        if let Some(folder) = self.host.folders.get(&process.role).filter(|_| process.data) {
            environment.insert("PLIMSOLL_DATA".to_owned(), folder.clone().into());
        }
        Ok(Hook {
            name: "ready".to_owned(),
            folder: self.host.target.clone(),
            path: if is_own { self.host.target.join(program) } else { program.into() },
            arguments: arguments.to_vec(),
            environment,
            within: ASK_PATIENCE.mul_f64(self.basis.slowdown),
            answer_bytes: ANSWER_BYTES,
            in_foreground: false,
        })
    }

    /// Returns the placeholder values of the member's process.
    fn member_values(&self) -> BTreeMap<String, String> {
        let mut processes = self.basis.manifest.processes.iter();
        let member = processes.find(|process| process.role == self.basis.members());
        member.map(|process| self.values(process).values).unwrap_or_default()
    }

    fn hook_environment(&self) -> BTreeMap<String, OsString> {
        let (basis, role) = (self.basis, self.basis.members());
        let mut environment: BTreeMap<String, OsString> = BTreeMap::new();
        environment.insert("PLIMSOLL_TARGET".to_owned(), self.host.target.clone().into());
        environment.insert("PLIMSOLL_HOST".to_owned(), self.host.address.clone().into());
        environment.insert("PLIMSOLL_NAME".to_owned(), self.host.name.clone().into());
        environment.insert("PLIMSOLL_HOSTS".to_owned(), joined(basis.that_run(role), address_of).into());
        environment.insert("PLIMSOLL_NAMES".to_owned(), joined(basis.that_run(role), name_of).into());
        for ((_, name), number) in basis.ports {
            environment.entry(variable("PLIMSOLL_PORT_", name)).or_insert_with(|| number.to_string().into());
        }
        // If two roles have a port of the same name, the members' port wins.
        for ((owner, name), number) in basis.ports {
            if owner == role {
                environment.insert(variable("PLIMSOLL_PORT_", name), number.to_string().into());
            }
        }
        for (name, value) in basis.parameters {
            environment.insert(variable("PLIMSOLL_WITH_", name), value.into());
        }
        if let Some(data) = self.data_folder() {
            environment.insert("PLIMSOLL_DATA".to_owned(), data.into());
        }
        let member = basis.manifest.processes.iter().find(|process| process.role == role);
        for name in member.iter().flat_map(|process| process.folders.keys()) {
            if let Some(folder) = self.host.folders.get(&format!("{role}.{name}")) {
                environment.insert(variable("PLIMSOLL_FOLDER_", name), folder.into());
            }
        }
        environment
    }

    /// Returns the member's private folder, or else the first private folder of any process.
    fn data_folder(&self) -> Option<PathBuf> {
        let mut with_data: Vec<_> = self.basis.manifest.processes.iter().filter(|process| process.data).collect();
        // The sort is stable.
        with_data.sort_by_key(|process| process.role != self.basis.members());
        with_data.into_iter().find_map(|process| self.host.folders.get(&process.role).cloned())
    }
}

#[cfg(test)]
mod tests {
    use experiment::manifest::{Metrics, Process as Wanted};

    use super::*;
    use crate::fakes::{Adjust as _, manifest, server, shell};
    use crate::targets;

    fn host(number: usize, role: Option<&str>, roles: &[&str]) -> DiscoveredHost {
        let folder = |role: &&str| ((*role).to_owned(), PathBuf::from(format!("/data/{role}")));
        DiscoveredHost {
            name: format!("n{number}"),
            address: format!("10.83.0.{number}"),
            roles: role.into_iter().map(str::to_owned).collect(),
            target: PathBuf::from("/run/plimsoll/target"),
            plimsoll: PathBuf::from("/run/plimsoll/plimsoll"),
            folders: roles.iter().map(folder).collect(),
            cores: Some(4),
            memory_mb: Some(512),
        }
    }

    fn saying(role: &str, text: &str) -> Wanted {
        Wanted { run: vec!["say".to_owned(), text.to_owned()], ..shell(role, &[]) }
    }

    fn lay_out(manifest: &Manifest, hosts: &[DiscoveredHost]) -> Result<DeploymentLayout, Error> {
        let parameters = &targets::parameters(manifest, &BTreeMap::new())?;
        let mut ports = PortNumbers::new();
        for process in &manifest.processes {
            for name in &process.ports {
                ports.insert((process.role.clone(), name.clone()), 7000 + u16::try_from(ports.len()).unwrap());
            }
        }
        let service = Service::of(manifest)?;
        LayoutInput { manifest, parameters, service, hosts, ports: &ports, logs: Path::new("/logs"), slowdown: 1.0 }
            .lay_out()
    }

    /// Formats each slot as a line: its host, its role and its arguments.
    fn lines(layout: &DeploymentLayout) -> String {
        let line = |slot: &ProcessSlot| {
            let words = slot.start.arguments.iter().map(|word| word.to_string_lossy().into_owned());
            format!("n{} {}: {}", slot.host + 1, slot.start.role, words.collect::<Vec<_>>().join(" "))
        };
        layout.slots.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn hosts_without_roles_run_all_roles_in_order() {
        let server = Wanted {
            run: ["say", "{name} {index} {host}:{port.service} all {hosts} {names} peers [{peers}] first {first}"]
                .map(str::to_owned)
                .to_vec(),
            ..server("server")
        };
        let with =
            saying("beside", "{cores} cores {memory_mb} MiB {target} {plimsoll} {host.server} {port.server.service}");
        let manifest = manifest(vec![Wanted { after: Some("server".to_owned()), ..with }, server]);
        let hosts = [1, 2, 3].map(|number| host(number, None, &["server", "beside"]));
        let layout = lay_out(&manifest, &hosts).unwrap();
        let expected = "\
n1 server: n1 0 10.83.0.1:7000 all 10.83.0.1,10.83.0.2,10.83.0.3 n1,n2,n3 peers [10.83.0.2,10.83.0.3] first 10.83.0.1
n2 server: n2 1 10.83.0.2:7000 all 10.83.0.1,10.83.0.2,10.83.0.3 n1,n2,n3 peers [10.83.0.1,10.83.0.3] first 10.83.0.1
n3 server: n3 2 10.83.0.3:7000 all 10.83.0.1,10.83.0.2,10.83.0.3 n1,n2,n3 peers [10.83.0.1,10.83.0.2] first 10.83.0.1
n1 beside: 4 cores 512 MiB /run/plimsoll/target /run/plimsoll/plimsoll 10.83.0.1 7000
n2 beside: 4 cores 512 MiB /run/plimsoll/target /run/plimsoll/plimsoll 10.83.0.1 7000
n3 beside: 4 cores 512 MiB /run/plimsoll/target /run/plimsoll/plimsoll 10.83.0.1 7000";
        assert_eq!(lines(&layout), expected);
        let services: Vec<_> = layout.slots.iter().filter_map(|slot| slot.service.as_deref()).collect();
        assert_eq!(services, ["10.83.0.1:7000", "10.83.0.2:7000", "10.83.0.3:7000"]);
        let checks: Vec<_> = layout.slots.iter().map(|slot| slot.check.to_string()).collect();
        assert_eq!(checks[1], "call `ping` to 10.83.0.2:7000");
        assert_eq!(checks[4], "a connection to 10.83.0.2:7000");
        assert_eq!(layout.slots[1].start.log, Path::new("/logs/n2.server.log"));
        assert_eq!(layout.slots[1].start.folder.as_deref(), Some(Path::new("/data/server")));
    }

    #[test]
    fn hosts_run_their_roles_and_clients_use_the_service() {
        let balancer = Wanted {
            run: ["say", "{name} {index} to {hosts.web} first {host.web} port {port.http} as {hosts} peers [{peers}]"]
                .map(str::to_owned)
                .to_vec(),
            after: Some("web".to_owned()),
            ..server("balancer")
        };
        let mut web = saying("web", "{name} {index} of {names}, behind {host.balancer}:{port.balancer.service}");
        web.ports = vec!["http".to_owned()];
        web.ready.check = ReadyCheck::Tcp("http".to_owned());
        let mut manifest = manifest(vec![balancer, web]);
        manifest.about.service = "balancer.service".to_owned();
        manifest.about.members = "balancer".to_owned();
        let url = "http://{host}:{port.service}/{name}/metrics".to_owned();
        manifest.metrics = Some(Metrics { url, ..Metrics::default() });
        let hosts =
            [host(1, Some("web"), &["web"]), host(2, Some("balancer"), &["balancer"]), host(3, Some("web"), &["web"])];
        let layout = lay_out(&manifest, &hosts).unwrap();
        let expected = "\
n1 web: n1 0 of n1,n3, behind 10.83.0.2:7000
n3 web: n3 1 of n1,n3, behind 10.83.0.2:7000
n2 balancer: n2 0 to 10.83.0.1,10.83.0.3 first 10.83.0.1 port 7001 as 10.83.0.2 peers []";
        assert_eq!(lines(&layout), expected);
        let services: Vec<_> = layout.slots.iter().filter_map(|slot| slot.service.as_deref()).collect();
        assert_eq!(services, ["10.83.0.2:7000"]);
        let [endpoint] = layout.endpoints.as_slice() else { panic!("{:?}", layout.endpoints) };
        assert_eq!((endpoint.host.as_str(), endpoint.metrics.url.as_str()), ("n2", "http://10.83.0.2:7000/n2/metrics"));
        // Hooks run on the hosts of the members.
        let [hooks] = layout.hook_hosts.as_slice() else { panic!("{:?}", layout.hook_hosts) };
        let told = |name: &str| hooks.environment[name].to_string_lossy().into_owned();
        assert_eq!((hooks.host, told("PLIMSOLL_HOST"), told("PLIMSOLL_NAME")), (1, "10.83.0.2".into(), "n2".into()));
        assert_eq!((told("PLIMSOLL_HOSTS"), told("PLIMSOLL_NAMES")), ("10.83.0.2".into(), "n2".into()));
        assert_eq!((told("PLIMSOLL_PORT_HTTP"), told("PLIMSOLL_DATA")), ("7001".into(), "/data/balancer".into()));
    }

    #[test]
    fn roles_without_after_have_one_rank() {
        let beside = saying("beside", "x").after("server");
        let manifest = manifest(vec![beside, server("server"), saying("m2", "x"), saying("last", "x").after("beside")]);
        let layout = lay_out(&manifest, &[host(1, None, &["server"])]).unwrap();
        let ranks: Vec<_> = layout.slots.iter().map(|slot| (slot.start.role.as_str(), slot.rank)).collect();
        assert_eq!(ranks, [("server", 0), ("m2", 0), ("beside", 1), ("last", 2)]);
    }

    #[test]
    fn a_host_can_run_some_of_the_roles() {
        let process = |role: &str| Wanted { run: vec!["say".to_owned(), "{names}".to_owned()], ..shell(role, &[]) };
        let manifest = manifest(vec![server("server"), process("sentinel"), process("proxy")]);
        let some = |number, roles: &[&str]| DiscoveredHost {
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            ..host(number, None, roles)
        };
        let hosts = [some(1, &["server", "sentinel"]), some(2, &["sentinel", "server"]), some(3, &["proxy"])];
        let layout = lay_out(&manifest, &hosts).unwrap();
        let runs: Vec<_> = layout.slots.iter().map(|slot| (slot.host, slot.start.role.as_str())).collect();
        assert_eq!(runs, [(0, "server"), (1, "server"), (0, "sentinel"), (1, "sentinel"), (2, "proxy")]);
        assert!(lines(&layout).contains("n2 sentinel: n1,n2\nn3 proxy: n3"), "{}", lines(&layout));
        assert_eq!(layout.hook_hosts.len(), 2);
    }

    #[test]
    fn hooks_reach_members_and_clients_reach_the_proxy() {
        let http = |role: &str| Wanted {
            ports: vec!["http".to_owned()],
            data: true,
            ..saying(role, "{port.http}").ready_when(ReadyCheck::Call("ping".to_owned()), 20.0)
        };
        let mut manifest = manifest(vec![http("proxy").after("member"), http("member")]);
        manifest.about.service = "proxy.http".to_owned();
        manifest.about.members = "member".to_owned();
        let url = "http://{host}:{port.member.http}/metrics".to_owned();
        manifest.metrics = Some(Metrics { url, ..Metrics::default() });
        let dealt = [
            host(1, Some("proxy"), &["proxy"]),
            host(2, Some("member"), &["member"]),
            host(3, Some("member"), &["member"]),
        ];
        let layout = lay_out(&manifest, &dealt).unwrap();
        assert_eq!(lines(&layout), "n2 member: 7001\nn3 member: 7001\nn1 proxy: 7000");
        let of = |field: fn(&ProcessSlot) -> Option<&str>| layout.slots.iter().map(field).collect::<Vec<_>>();
        assert_eq!(of(|slot| slot.service.as_deref()), [None, None, Some("10.83.0.1:7000")]);
        assert_eq!(of(|slot| slot.member.as_deref()), [Some("10.83.0.2:7001"), Some("10.83.0.3:7001"), None]);
        // A member that waited for the proxy would never be ready.
        let checks: Vec<_> = layout.slots.iter().map(|slot| slot.check.to_string()).collect();
        assert_eq!(
            checks,
            ["call `ping` to 10.83.0.2:7001", "call `ping` to 10.83.0.3:7001", "call `ping` to 10.83.0.1:7000"]
        );
        let endpoints: Vec<_> = layout.endpoints.iter().map(|endpoint| endpoint.metrics.url.as_str()).collect();
        assert_eq!(endpoints, ["http://10.83.0.2:7001/metrics", "http://10.83.0.3:7001/metrics"]);
        let [_, second] = layout.hook_hosts.as_slice() else { panic!("{:?}", layout.hook_hosts) };
        let told = |name: &str| second.environment[name].to_string_lossy().into_owned();
        assert_eq!((second.host, told("PLIMSOLL_NAME"), told("PLIMSOLL_HOST")), (2, "n3".into(), "10.83.0.3".into()));
        assert_eq!((told("PLIMSOLL_NAMES"), told("PLIMSOLL_HOSTS")), ("n2,n3".into(), "10.83.0.2,10.83.0.3".into()));
        assert_eq!((told("PLIMSOLL_PORT_HTTP"), told("PLIMSOLL_DATA")), ("7001".into(), "/data/member".into()));

        // A host without a role runs both, and is a member.
        let layout = lay_out(&manifest, &[host(1, None, &["proxy", "member"])]).unwrap();
        assert_eq!(
            layout.slots.iter().map(|slot| slot.member.as_deref()).collect::<Vec<_>>(),
            [Some("10.83.0.1:7001"), None]
        );
        let error = lay_out(&manifest, &dealt[..1]).err().unwrap();
        assert_eq!(error.to_string(), "target.toml: members run `member`, but no host of the lab has this role");
    }

    #[test]
    fn an_unassigned_role_is_an_error_only_if_needed() {
        let asking = Wanted { run: vec!["say".to_owned(), "{host.db}".to_owned()], ..server("server") };
        let mut wanted = manifest(vec![asking, saying("db", "x")]);
        let hosts = [host(1, Some("server"), &["server"])];
        let error = lay_out(&wanted, &hosts).err().unwrap();
        assert_eq!(error.to_string(), "target.toml: `server` uses {host.db}, but no host runs `db`");
        wanted.processes[0].run.pop();
        assert_eq!(lines(&lay_out(&wanted, &hosts).unwrap()), "n1 server: ");
        let error = lay_out(&wanted, &[host(1, Some("db"), &["db"])]).err().unwrap();
        assert_eq!(error.to_string(), "target.toml: clients connect to `server`, but no host of the lab has this role");
    }

    #[test]
    fn unknown_host_figures_are_no_placeholders() {
        let asking = Wanted { run: vec!["say".to_owned(), "{cores}".to_owned()], ..server("server") };
        let unknown = DiscoveredHost { cores: None, ..host(1, None, &["server"]) };
        assert!(matches!(lay_out(&manifest(vec![asking]), &[unknown]), Err(Error::Placeholder { .. })));
    }

    #[test]
    fn metrics_are_scraped_from_serving_hosts_only() {
        let mut manifest = manifest(vec![server("server"), shell("beside", &[])]);
        let hosts = [host(1, Some("beside"), &["beside"]), host(2, Some("server"), &["server"])];
        assert_eq!(lay_out(&manifest, &hosts).unwrap().endpoints, []);
        let metrics = |url: &str| {
            let keep = [("up".to_owned(), String::new())].into();
            Metrics { url: url.to_owned(), keep, ..Metrics::default() }
        };
        manifest.metrics = Some(metrics("http://{host}:{port.service}/metrics"));
        let wanted = Endpoint { host: "n2".to_owned(), metrics: metrics("http://10.83.0.2:7000/metrics") };
        assert_eq!(lay_out(&manifest, &hosts).unwrap().endpoints, [wanted]);
        manifest.metrics = Some(metrics("http://{host}:{port.none}/"));
        assert!(matches!(lay_out(&manifest, &hosts), Err(Error::Placeholder { .. })));
    }
}
