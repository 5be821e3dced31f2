//! Requirements of an experiment for the machine that runs it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use experiment::manifest::Needs;
use experiment::plan::{Failover, Plan, TargetKind, Trial};
use experiment::socket_url;
use lab::{UrlParts, hosts};

/// Requirements of an experiment's trials. Each number is from the trial that requires most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrialDemand {
    /// Number of connections that the agents open.
    pub agents: u64,
    /// Number of addresses that the agents connect to.
    pub services: u64,
    /// Number of local addresses from which the agents connect. 1 if the experiment names none.
    pub sources: u64,
    /// Whether the services are on the loopback, which has many source addresses.
    pub is_on_loopback: bool,
    /// Number of connections that agents open in the same second.
    pub at_once: u64,
    /// Description of the hosts.
    pub lab: String,
    /// Reason why the hosts cannot be made here, and the remedy.
    pub refused: Option<(String, String)>,
    /// Description of the target.
    pub target: String,
    /// Missing parts of the target, one per line.
    pub missing: Vec<String>,
    /// Settings that the targets need on this machine, by target.
    pub needs: BTreeMap<String, Needs>,
    /// Whether hosts are virtual. Their networks have the kernel's default settings.
    pub is_virtual: bool,
    /// Whether hosts are reached over ssh.
    pub is_remote: bool,
    /// Whether a target is the name service of the article with the tunings.
    pub is_articles: bool,
}

impl TrialDemand {
    /// Returns the requirements of a plan. `missing` is the result of `install check`, and `needs`
    /// comes from the targets' descriptions.
    #[must_use]
    pub fn of(plan: &Plan, missing: Vec<String>, needs: BTreeMap<String, Needs>) -> Self {
        let (mut agents, mut at_once) = (0, 0);
        for trial in &plan.trials {
            let Some((connections, load)) = connections(trial).zip(trial.load.as_ref()) else { continue };
            agents = agents.max(u64::from(connections));
            let share = f64::from(connections) / f64::from(load.agents.max(1));
            at_once = at_once.max((share * load.joins_per_s()).ceil() as u64);
        }
        let refused = hosts::can_make(&plan.trials).err();
        Self {
            agents,
            services: plan.trials.iter().map(addresses).min().unwrap_or(1),
            at_once,
            sources: plan
                .trials
                .iter()
                .filter_map(|trial| trial.load.as_ref())
                .map(|load| load.from.len().max(1) as u64)
                .min()
                .unwrap_or(1),
            is_on_loopback: plan.trials.iter().all(is_on_loopback),
            lab: plan.trials.first().map(lab).unwrap_or_default(),
            refused: refused.map(|error| (error.to_string(), error.hint().unwrap_or_default())),
            target: plan.trials.first().map(target).unwrap_or_default(),
            missing,
            needs,
            is_virtual: plan.trials.iter().any(|trial| trial.lab.is_virtual()),
            is_remote: plan.trials.iter().flat_map(|trial| &trial.lab.hosts).any(|host| host.is_real()),
            is_articles: plan.trials.iter().any(|trial| target(trial) == "vsns"),
        }
    }
}

/// Returns the number of connections of the trial's agents.
fn connections(trial: &Trial) -> Option<u32> {
    let load = trial.load.as_ref()?;
    let to_target = load.connections.of(load.agents, u32::try_from(services(trial)).unwrap_or(u32::MAX));
    Some(to_target.saturating_add(load.further_connections()))
}

/// Returns the number of hosts or URLs to which clients connect. If hosts have roles, it is unknown
/// here how many of them serve clients, and the result is 1.
fn services(trial: &Trial) -> u64 {
    let hosts = &trial.lab.hosts;
    let urls = trial.target.urls().len();
    if urls > 0 {
        return urls as u64;
    }
    if hosts.iter().any(|host| !host.roles.is_empty()) { 1 } else { hosts.len().max(1) as u64 }
}

/// Returns the number of addresses over which connections are certainly distributed. With failover,
/// all connections may use the same address.
fn addresses(trial: &Trial) -> u64 {
    let failover = trial.load.as_ref().map(|load| load.reconnects.failover).unwrap_or_default();
    if failover == Failover::None { services(trial) } else { 1 }
}

/// Whether all services are on the loopback. Of host names, only `localhost` is known to be on the
/// loopback. A socket in the file system needs no ports.
fn is_on_loopback(trial: &Trial) -> bool {
    match &trial.target.kind {
        TargetKind::Folder { .. } => trial.lab.hosts.is_empty(),
        TargetKind::Running { .. } | TargetKind::Started { .. } => {
            let urls = trial.target.urls();
            !urls.is_empty() && urls.iter().all(|url| leads_here(url))
        }
    }
}

fn leads_here(url: &str) -> bool {
    let is_local = |place: UrlParts| {
        let address = place.host.parse::<Ipv4Addr>();
        place.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    };
    socket_url::socket_of(url).is_some() || UrlParts::parse(url).is_ok_and(is_local)
}

fn lab(trial: &Trial) -> String {
    match trial.lab.hosts.len() {
        0 => "this machine itself".to_owned(),
        1 => "one host".to_owned(),
        hosts => format!("{hosts} hosts"),
    }
}

fn target(trial: &Trial) -> String {
    match &trial.target.kind {
        TargetKind::Folder { name, .. } => name.clone(),
        TargetKind::Running { url } if url.is_empty() => trial.target.protocol.clone(),
        TargetKind::Running { url } | TargetKind::Started { url, .. } => url.clone(),
    }
}
