//! Installation of the software that targets and virtual hosts need, for `plimsoll install` and
//! `plimsoll run --install`. All packages are printed before they are installed.

use std::collections::{BTreeMap, BTreeSet};

use experiment::manifest::Needs;
use experiment::plan::{self, Plan, TargetKind};

use crate::catalog::{self, TargetCatalog};
use crate::cli;
use crate::exit::{Exit, Failure};
use crate::output;

/// A target with the parameters that decide what must be installed for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Installation {
    pub target: String,
    /// Values of the parameters that the target's hooks for installing get, by name.
    pub with: BTreeMap<String, String>,
}

impl Installation {
    /// Returns the installation of a target. `with` has all parameters of the target.
    fn of(known: &TargetCatalog, target: &str, with: &BTreeMap<String, String>) -> Self {
        let with = known.target(target).map(|target| target.manifest.installed_with(with)).unwrap_or_default();
        Self { target: target.to_owned(), with }
    }

    /// Returns a line for each item that is missing on this machine.
    fn missing(&self, known: &TargetCatalog) -> Result<Vec<String>, Failure> {
        let target = known.trusted_target(&self.target)?;
        Ok(lab::targets::missing(&target.path, &target.manifest, &self.with)?)
    }

    /// Returns the Debian packages that are missing.
    fn packages(&self, known: &TargetCatalog) -> Result<Vec<String>, Failure> {
        let target = known.trusted_target(&self.target)?;
        Ok(lab::targets::packages(&target.path, &target.manifest, &self.with)?)
    }

    /// Does the steps of the installation that follow the installation of packages.
    fn apply(&self, known: &TargetCatalog) -> Result<(), Failure> {
        let target = known.trusted_target(&self.target)?;
        Ok(lab::targets::apply(&target.path, &target.manifest, &self.with, &mut |line| {
            output::say(&format!("  {line}"))
        })?)
    }

    /// Returns the version of each part of the target that is installed on this machine.
    pub fn versions(&self, known: &TargetCatalog) -> BTreeMap<String, String> {
        known
            .trusted_target(&self.target)
            .map(|target| lab::targets::versions(&target.path, &target.manifest, &self.with))
            .unwrap_or_default()
    }

    /// Returns the `plimsoll install` command for this installation, with the parameters that
    /// differ from their defaults.
    fn command(&self, known: &TargetCatalog) -> String {
        let defaults = known.target(&self.target).map(|target| &target.manifest.parameters);
        let given = self.with.iter().filter(|(name, value)| {
            defaults.and_then(|defaults| defaults.get(*name)).is_none_or(|parameter| parameter.default != **value)
        });
        given.fold(format!("plimsoll install {}", self.target), |words, (name, value)| {
            format!("{words} --with '{name}={value}'")
        })
    }
}

/// Returns the installations that the plan's trials need on this machine, without duplicates. Real
/// hosts are checked on the hosts themselves.
pub fn installations(known: &TargetCatalog, plan: &Plan) -> Vec<Installation> {
    let here = plan.possible().iter().filter(|trial| trial.lab.hosts.is_empty() || trial.lab.is_virtual());
    let all: BTreeSet<Installation> = here
        .filter_map(|trial| match &trial.target.kind {
            TargetKind::Folder { name, with } => Some(Installation::of(known, name, with)),
            TargetKind::Running { .. } | TargetKind::Started { .. } => None,
        })
        .collect();
    all.into_iter().collect()
}

/// Installs, or only lists, the software that a target, virtual hosts or both need.
pub fn run(arguments: &cli::Install) -> Result<Exit, Failure> {
    let known = catalog::known(None)?;
    let target = arguments.target.as_deref();
    let all: Vec<Installation> =
        target.map(|target| asked(&known, target, &arguments.with)).transpose()?.into_iter().collect();
    let packages = if arguments.lab { lab::hosts::lacking_for_any() } else { Vec::new() };
    if arguments.check {
        let missing = missing(&known, &all)?;
        for line in &missing {
            output::text(&format!("{line}\n"))?;
        }
        if !packages.is_empty() {
            output::text(&format!("install the packages {} (as root)\n", packages.join(" ")))?;
        }
        return Ok(if missing.is_empty() && packages.is_empty() { Exit::Well } else { Exit::Violated });
    }
    install(&known, &all, packages)?;
    Ok(Exit::Well)
}

fn asked(known: &TargetCatalog, name: &str, given: &[String]) -> Result<Installation, Failure> {
    let target = known.trusted_target(name)?;
    let with = plan::parameters(&target.manifest, given)
        .map_err(|bad| Failure::Bad { what: format!("--with: {}", bad.what), remedy: bad.hint })?;
    Ok(Installation::of(known, name, &with))
}

/// Installs all software that the plan's virtual hosts and targets need on this machine.
pub fn for_plan(known: &TargetCatalog, plan: &Plan) -> Result<(), Failure> {
    install(known, &installations(known, plan), lab::hosts::lacking(plan.possible())?)
}

fn install(known: &TargetCatalog, all: &[Installation], mut packages: Vec<String>) -> Result<(), Failure> {
    for one in all {
        packages.extend(one.packages(known)?);
    }
    packages.sort_unstable();
    packages.dedup();
    if !packages.is_empty() {
        output::say(&format!("installing {}", packages.join(" ")));
        lab::targets::install_packages(&packages)?;
    }
    for one in all {
        if !one.missing(known)?.is_empty() {
            one.apply(known)?;
        }
    }
    Ok(())
}

/// Refuses a plan if software that it needs is not installed on this machine.
pub fn ensure(known: &TargetCatalog, plan: &Plan) -> Result<(), Failure> {
    for one in installations(known, plan) {
        let missing = one.missing(known)?;
        if !missing.is_empty() {
            let command = one.command(known);
            return Err(Failure::Lab(lab::Error::NotInstalled { target: one.target, command, missing }));
        }
    }
    Ok(())
}

/// Refuses a plan if its targets need settings, users or file systems that this machine lacks.
pub fn settings(known: &TargetCatalog, plan: &Plan) -> Result<(), Failure> {
    for (target, needs) in needs(known, plan) {
        for unmet in lab::needs::ensure(&target, &needs)? {
            output::say(&format!("{}, and does without ({})", unmet.what, unmet.remedy));
        }
    }
    for trial in plan.possible() {
        let TargetKind::Folder { name, .. } = &trial.target.kind else { continue };
        lab::check_storage(known.target(name).map(|target| &target.manifest), trial)?;
    }
    Ok(())
}

/// Returns the needs of the plan's targets on this machine, by target. Real hosts are used as they
/// are.
pub fn needs(known: &TargetCatalog, plan: &Plan) -> BTreeMap<String, Needs> {
    let here = plan.possible().iter().filter(|trial| trial.lab.hosts.iter().all(|host| !host.is_real()));
    here.filter_map(|trial| match &trial.target.kind {
        TargetKind::Folder { name, .. } => Some((name.clone(), known.target(name)?.manifest.needs.clone())),
        TargetKind::Running { .. } | TargetKind::Started { .. } => None,
    })
    .filter(|(_, needs)| !needs.is_empty())
    .collect()
}

/// Returns a line for each item of the installations that is missing here, without duplicates.
pub fn missing(known: &TargetCatalog, all: &[Installation]) -> Result<Vec<String>, Failure> {
    let mut missing: Vec<String> = Vec::new();
    for one in all {
        let new: Vec<String> = one.missing(known)?.into_iter().filter(|line| !missing.contains(line)).collect();
        missing.extend(new);
    }
    Ok(missing)
}

/// Returns the installed versions that the plan's targets use on this machine, by target and part.
/// A version that depends on parameters is followed by the parameters' values.
pub fn versions(known: &TargetCatalog, plan: &Plan) -> BTreeMap<String, BTreeMap<String, String>> {
    let installed: Vec<(Installation, BTreeMap<String, String>)> =
        installations(known, plan).into_iter().map(|one| (one.clone(), one.versions(known))).collect();
    let mut all: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (one, parts) in &installed {
        let others = installed.iter().filter(|(other, _)| other.target == one.target);
        for (part, version) in parts {
            let agree = others.clone().all(|(_, parts)| parts.get(part).is_none_or(|other| other == version));
            let apart = if agree { String::new() } else { apart(one, others.clone().map(|(one, _)| one)) };
            let text = format!("{version}{apart}");
            let listed = all.entry(one.target.clone()).or_default().entry(part.clone()).or_default();
            if !listed.split("; ").any(|listed| listed == text) {
                *listed = if listed.is_empty() { text } else { format!("{listed}; {text}") };
            }
        }
    }
    all
}

/// Returns the parameters in which an installation differs from others of its target, such as
/// ` (home = /opt/7)`.
fn apart<'a>(one: &Installation, others: impl Iterator<Item = &'a Installation>) -> String {
    let others: Vec<&Installation> = others.collect();
    let with = one.with.iter();
    let own = with.filter(|(name, value)| others.iter().any(|other| other.with.get(*name) != Some(value)));
    let own: Vec<String> = own.map(|(name, value)| format!("{name} = {value}")).collect();
    if own.is_empty() { String::new() } else { format!(" ({})", own.join(", ")) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use experiment::source::Source;

    use super::*;
    use crate::commands::experiments;

    const COURT: &str = r#"
title = "t"
asks = "a"
repeat = 2
[target]
use = "docket"
[load]
agents = 1
time = "1s"
[[load.cycle]]
call = "get"
with = { path = "/" }
[sweep]
"target.with.write" = ["transaction", "sync_dirty"]
"load.agents" = [1, 2]
[[variant]]
name = "plain"
[[variant]]
name = "serial"
target = { with = { serial = true } }
[[variant]]
name = "serial behind haproxy"
target = { with = { serial = true, proxy = "haproxy" } }
"#;

    /// Returns the commands that install what an experiment needs.
    fn commands(known: &TargetCatalog, text: &str) -> Vec<String> {
        let source = Source { name: "court.toml".to_owned(), text: text.to_owned() };
        let plan = experiments::plan(&source, &[], known).unwrap_or_else(|failure| panic!("{failure}"));
        installations(known, &plan).iter().map(|one| one.command(known)).collect()
    }

    #[test]
    fn each_parameter_set_is_installed_once() {
        let mut known = catalog::known(None).unwrap();
        let plain = "plimsoll install docket";
        assert_eq!(
            commands(&known, COURT),
            [
                plain.to_owned(),
                format!("{plain} --with 'serial=true'"),
                format!("{plain} --with 'proxy=haproxy' --with 'serial=true'")
            ]
        );
        // If the target does not say which parameters matter, all of them matter, also swept ones.
        known.targets.iter_mut().find(|one| one.manifest.name == "docket").unwrap().manifest.install_with = None;
        let all = commands(&known, COURT);
        assert_eq!(all.len(), 6, "{all:#?}");
        assert!(all.contains(&format!("{plain} --with 'serial=true' --with 'write=sync_dirty'")), "{all:#?}");
    }

    #[test]
    fn targets_on_ssh_hosts_are_not_installed_here() {
        let known = catalog::known(None).unwrap();
        let there = COURT.replace("[load]", "[lab]\nssh = [\"one.example\"]\n[load]");
        assert_eq!(commands(&known, &there), [""; 0]);
    }

    #[test]
    fn versions_name_the_parameters_that_distinguish_them() {
        let one = |home: &str| Installation {
            target: "redis".to_owned(),
            with: BTreeMap::from([("home".to_owned(), home.to_owned()), ("port".to_owned(), "0".to_owned())]),
        };
        let all = [one("/opt/6"), one("/opt/7")];
        assert_eq!(apart(&all[1], all.iter()), " (home = /opt/7)");
        assert_eq!(apart(&all[0], all[..1].iter()), "");
    }
}
