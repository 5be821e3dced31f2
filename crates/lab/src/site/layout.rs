//! What runs where: a manifest and a trial's parameters, worked out into a post for every process, with its ports, folders
//! and command line. Nothing is started here.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use experiment::manifest::{self, Manifest, ReadyCheck};
use rustix::process::Signal;

use super::Build;
use crate::Error;
use crate::hosts::{Host, Process, Start};
use crate::placeholders::{self, Values};
use crate::readiness::Check;

/// A process of the target and all that is needed to start it again.
pub struct Post {
    /// Index of its host.
    pub host: usize,
    /// What is started.
    pub start: Start,
    /// When it is ready.
    pub check: Check,
    /// Seconds it may take.
    pub ready_within_s: f64,
    /// How it is asked to stop.
    pub stop_signal: Signal,
    /// … and how long it is given.
    pub stop_within_s: f64,
    /// Whether the stop signal goes to all that it started as well.
    pub stops_group: bool,
    /// Whether it may end with exit 0 while what it started goes on.
    pub may_detach: bool,
    /// Whether clients go to it.
    pub serves: bool,
    /// Where, if they do.
    pub service: Option<String>,
    /// Name of its private folder.
    pub folder: Option<String>,
    /// The process, while it runs.
    pub process: Option<Box<dyn Process>>,
    /// The one before, of whose group something may be left.
    pub last: Option<Box<dyn Process>>,
    /// Its end is meant.
    pub end_expected: bool,
}

/// Every post of a target folder, in the order of the start, and the environment of its hooks.
pub struct Layout {
    /// The target's folder; empty for one that is built in.
    pub folder: PathBuf,
    /// In the order of the start.
    pub posts: Vec<Post>,
    /// `PLIMSOLL_…`
    pub hook_environment: BTreeMap<String, OsString>,
}

/// The signal of that name in `target.toml`.
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

/// Role and name to number, on one host.
type Ports = BTreeMap<(String, String), u16>;

/// Works out the posts of `manifest` on every host.
pub fn lay_out(
    build: &Build<'_>,
    manifest: &Manifest,
    with: &BTreeMap<String, String>,
    hosts: &[Box<dyn Host>],
) -> Result<Layout, Error> {
    let service = Service::of(manifest)?;
    let parameters = placeholders::parameters(manifest, with)?;
    let target = match build.folder.filter(|folder| !folder.as_os_str().is_empty()) {
        // Processes run in folders of their own.
        Some(folder) => std::path::absolute(folder).map_err(Error::system(format!("find {}", folder.display())))?,
        None => PathBuf::new(),
    };
    let mut layout = Layout { folder: target.clone(), posts: Vec::new(), hook_environment: BTreeMap::new() };
    for (index, host) in hosts.iter().enumerate() {
        let ports = choose_ports(manifest, &parameters, service, host.as_ref())?;
        let on_host = OnHost {
            build,
            manifest,
            parameters: &parameters,
            target: &target,
            host: host.as_ref(),
            index,
            ports,
            service,
        };
        for process in in_order(&manifest.processes)? {
            layout.posts.push(on_host.post(process)?);
        }
        // Hooks are run for the first host; a target on many asks its members from there.
        if index == 0 {
            layout.hook_environment = on_host.hook_environment(&layout.posts);
        }
    }
    Ok(layout)
}

/// `[about] service = "role.port"`.
#[derive(Clone, Copy)]
struct Service<'a> {
    role: &'a str,
    port: &'a str,
}

impl<'a> Service<'a> {
    fn of(manifest: &'a Manifest) -> Result<Self, Error> {
        let service = &manifest.about.service;
        let found = service.split_once('.').filter(|(role, port)| {
            let mut processes = manifest.processes.iter();
            processes.any(|process| process.role == *role && process.ports.iter().any(|name| name == port))
        });
        let (role, port) =
            found.ok_or_else(|| Error::Manifest(format!("service `{service}` is no role.port of it")))?;
        Ok(Self { role, port })
    }

    fn address(self, host: &dyn Host, ports: &Ports) -> String {
        let number = ports.get(&(self.role.to_owned(), self.port.to_owned())).copied().unwrap_or_default();
        format!("{}:{number}", host.address())
    }
}

/// Free ports for every process; the service's may be fixed by a parameter named `port`.
fn choose_ports(
    manifest: &Manifest,
    parameters: &BTreeMap<String, String>,
    service: Service<'_>,
    host: &dyn Host,
) -> Result<Ports, Error> {
    let names = manifest
        .processes
        .iter()
        .flat_map(|process| process.ports.iter().map(|port| (process.role.clone(), port.clone())));
    let names: Vec<(String, String)> = names.collect();
    let mut ports: Ports = names.iter().cloned().zip(host.free_ports(names.len())?).collect();
    if let Some(fixed) = parameters.get("port").filter(|port| !matches!(port.as_str(), "" | "0" | "auto")) {
        let number = fixed.parse().map_err(|_| Error::Manifest(format!("parameter port: `{fixed}` is not a port")))?;
        host.check_port(number)?;
        ports.insert((service.role.to_owned(), service.port.to_owned()), number);
    }
    Ok(ports)
}

/// Processes so that each comes after the one it names in `after`, and else in file order.
fn in_order(processes: &[manifest::Process]) -> Result<Vec<&manifest::Process>, Error> {
    let mut ordered: Vec<&manifest::Process> = Vec::new();
    let mut waiting: Vec<&manifest::Process> = processes.iter().collect();
    while !waiting.is_empty() {
        let next = waiting.iter().position(|process| {
            process.after.as_ref().is_none_or(|role| ordered.iter().any(|before| before.role == *role))
        });
        let Some(next) = next else {
            let roles: Vec<&str> = waiting.iter().map(|process| process.role.as_str()).collect();
            return Err(Error::Manifest(format!("`after` of {} leads nowhere or in a circle", roles.join(", "))));
        };
        ordered.push(waiting.remove(next));
    }
    Ok(ordered)
}

struct OnHost<'a> {
    build: &'a Build<'a>,
    manifest: &'a Manifest,
    parameters: &'a BTreeMap<String, String>,
    target: &'a Path,
    host: &'a dyn Host,
    index: usize,
    ports: Ports,
    service: Service<'a>,
}

impl OnHost<'_> {
    fn post(&self, process: &manifest::Process) -> Result<Post, Error> {
        let folder = self.host.folder(&process.role)?;
        let values = self.values(process, &folder);
        let mut run = process.run.iter().map(|text| values.fill(text).map(OsString::from));
        let program = run.next().ok_or_else(|| Error::Manifest(format!("`{}` has nothing to run", process.role)))??;
        let arguments = run.collect::<Result<_, Error>>()?;
        let environment = process.env.iter().map(|(name, text)| Ok((name.into(), values.fill(text)?.into())));
        let serves = process.role == self.service.role;
        Ok(Post {
            host: self.index,
            start: Start {
                role: process.role.clone(),
                program,
                arguments,
                environment: environment.collect::<Result<_, Error>>()?,
                folder: Some(folder),
                log: self.build.logs.join(format!("{}.{}.log", self.host.name(), process.role)),
            },
            check: self.check(process, &values)?,
            ready_within_s: process.ready.within_s,
            stop_signal: stop_signal(&process.stop.signal)
                .ok_or_else(|| Error::Manifest(format!("`{}` is not a stop signal", process.stop.signal)))?,
            stop_within_s: process.stop.within_s,
            stops_group: false,
            may_detach: false,
            serves,
            service: serves.then(|| self.service.address(self.host, &self.ports)),
            folder: Some(process.role.clone()),
            process: None,
            last: None,
            end_expected: false,
        })
    }

    fn values(&self, process: &manifest::Process, folder: &Path) -> Values {
        let mut values = self.parameters.clone();
        let mut set = |name: &str, value: String| drop(values.insert(name.to_owned(), value));
        set("target", self.target.display().to_string());
        set("plimsoll", self.build.plimsoll.display().to_string());
        set("host", self.host.address().to_owned());
        if process.data {
            set("data", folder.display().to_string());
        }
        for ((role, name), number) in &self.ports {
            set(&format!("port.{role}.{name}"), number.to_string());
        }
        // The short form is the process's own port, or that of the only other process which has one of that name.
        for ((role, name), number) in &self.ports {
            let namesakes = self.ports.keys().filter(|(_, other)| other == name).count();
            let own = process.ports.contains(name);
            if *role == process.role || (!own && namesakes == 1) {
                set(&format!("port.{name}"), number.to_string());
            }
        }
        Values { role: process.role.clone(), values }
    }

    fn check(&self, process: &manifest::Process, values: &Values) -> Result<Check, Error> {
        Ok(match &process.ready.check {
            ReadyCheck::Call(operation) => {
                Check::Call { service: self.service.address(self.host, &self.ports), operation: operation.clone() }
            }
            ReadyCheck::Tcp(port) => {
                Check::Tcp(format!("{}:{}", self.host.address(), values.fill(&format!("{{port.{port}}}"))?))
            }
            ReadyCheck::Http(url) => Check::Http(values.fill(url)?),
        })
    }

    fn hook_environment(&self, posts: &[Post]) -> BTreeMap<String, OsString> {
        use crate::hooks::variable;
        let mut environment: BTreeMap<String, OsString> = BTreeMap::new();
        environment.insert("PLIMSOLL_TARGET".to_owned(), self.target.into());
        environment.insert("PLIMSOLL_HOST".to_owned(), self.host.address().into());
        for ((_, name), number) in &self.ports {
            environment.entry(variable("PLIMSOLL_PORT_", name)).or_insert_with(|| number.to_string().into());
        }
        // Where two roles name a port alike, the serving one's is meant.
        for ((role, name), number) in &self.ports {
            if role == self.service.role {
                environment.insert(variable("PLIMSOLL_PORT_", name), number.to_string().into());
            }
        }
        for (name, value) in self.parameters {
            environment.insert(variable("PLIMSOLL_WITH_", name), value.into());
        }
        if let Some(data) = self.data_folder(posts) {
            environment.insert("PLIMSOLL_DATA".to_owned(), data.into());
        }
        environment
    }

    /// The serving process's private folder, or else the first that any has.
    fn data_folder(&self, posts: &[Post]) -> Option<PathBuf> {
        let has_data = |post: &&Post| {
            let mut processes = self.manifest.processes.iter();
            processes.any(|process| process.role == post.start.role && process.data)
        };
        let serving = posts.iter().filter(has_data).find(|post| post.serves);
        serving.or_else(|| posts.iter().find(has_data))?.start.folder.clone()
    }
}
