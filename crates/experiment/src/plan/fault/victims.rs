//! `on` of a fault: whom it may hit in this lab. Whom it does hit is the lab's to choose.

use crate::catalog;
use crate::manifest::Manifest;
use crate::nearest;
use crate::plan::trial::Scene;
use crate::plan::{Lab, TargetKind};
use crate::problem::Problem;
use crate::section::Section;

/// Victims that every lab has.
const GROUPS: [&str; 5] = ["one", "all", "minority", "majority", "leader"];
/// Fewer have no minority.
const MINORITY_FROM: usize = 3;

/// Whom the faults of a trial may hit.
pub(in crate::plan) struct Victims<'a> {
    lab: &'a Lab,
    /// What runs on the hosts, where that is known.
    manifest: Option<&'a Manifest>,
    /// Whether the processes are ours.
    is_ours: bool,
}

impl<'a> Victims<'a> {
    pub fn of(lab: &'a Lab, target: Option<&TargetKind>, catalog: &'a catalog::Catalog) -> Self {
        let manifest = match target {
            Some(TargetKind::Folder { name, .. }) => catalog.targets.get(name),
            _ => None,
        };
        let is_ours = manifest.is_some() || matches!(target, Some(TargetKind::Started { .. }));
        Self { lab, manifest, is_ours }
    }

    /// Names of the hosts. This machine, unlimited, is `n1`.
    fn hosts(&self) -> Vec<&'a str> {
        match self.lab.hosts.as_slice() {
            [] => vec!["n1"],
            hosts => hosts.iter().map(|host| host.name.as_str()).collect(),
        }
    }

    /// Those that run a role.
    fn that_run(&self, role: &str) -> Vec<&'a str> {
        if self.lab.hosts.is_empty() {
            return self.hosts();
        }
        self.lab.that_run(role).map(|host| host.name.as_str()).collect()
    }

    /// Says what is wrong with `on`, and with the role that a fault of processes is for.
    pub fn check(&self, section: &Section<'_>, kind: Option<&catalog::Fault>, scene: &mut Scene<'_>) {
        let Some(on) = section.text("on") else { return };
        let hosts = self.hosts();
        if !GROUPS.contains(&on) && !hosts.contains(&on) {
            let hint = nearest::hint(on, GROUPS.into_iter().chain(hosts));
            let problem = Problem::absent(section.place("on"), format!("there is no `{on}` in this lab"));
            scene.problems.push(problem.expected("unknown victim").maybe(hint));
            return;
        }
        let takes = |name: &str| kind.is_some_and(|kind| kind.takes.iter().any(|field| field.name == name));
        let given = section.entries("with").into_iter().find(|entry| entry.key == "process" && takes("process"));
        if let (Some(entry), Some(manifest)) = (&given, self.manifest)
            && let Some(role) = entry.node.text()
            && !manifest.processes.iter().any(|process| process.role == role)
        {
            let roles = manifest.processes.iter().map(|process| process.role.as_str());
            let problem = Problem::absent(&entry.node.place, format!("`{}` has no role `{role}`", manifest.name));
            scene.problems.push(problem.expected("unknown role").maybe(nearest::hint(role, roles)));
            return;
        }
        let asked = given.as_ref().and_then(|entry| entry.node.text());
        let role = asked.or(self.manifest.map(|manifest| manifest.about.members.as_str()));
        let members = role.map_or_else(|| hosts.clone(), |role| self.that_run(role));
        let of_processes = takes("process") || takes("call");
        if let (true, true, Some(role)) = (hosts.contains(&on), of_processes && !members.contains(&on), role) {
            let what = format!("`{on}` runs no `{role}`");
            let runs = self.lab.hosts.iter().find(|host| host.name == on).and_then(|host| host.role.as_deref());
            let hint = match runs.filter(|_| takes("process") && asked.is_none()) {
                Some(runs) => {
                    format!("add with = {{ process = \"{runs}\" }} to hit what it runs; {}", those(role, &members))
                }
                None => those(role, &members),
            };
            scene.problems.push(Problem::new(section.place("on"), what).expected("no such process there").hint(hint));
        }
        if on == "minority" && self.is_ours && members.len() < MINORITY_FROM {
            let what = match members.len() {
                1 => "one member has no minority".to_owned(),
                count => format!("{count} members have no minority"),
            };
            let problem = Problem::new(section.place("on"), what).expected("takes three members at least");
            scene.problems.push(problem.hint("more hosts in [lab], or on = \"one\""));
        }
    }
}

fn those(role: &str, members: &[&str]) -> String {
    let named: Vec<String> = members.iter().map(|name| format!("`{name}`")).collect();
    match named.as_slice() {
        [] => format!("no host runs `{role}`"),
        named => format!("`{role}` runs on {}", nearest::listed(named, "and")),
    }
}
