//! `[fleet]` of a trial: processes that generate the load together, instead of the conductor's
//! process.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::keys::section;
use crate::plan::check_context::CheckContext;
use crate::plan::lab::{Host, Lab};
use crate::plan::target::TargetKind;
use crate::problem::{Problem, nearest_hint};
use crate::section::Section;
use crate::tree::TextSpan;

section! {
    /// `[fleet]`: generators, each with a part of the load. `agents` and `rate` are their totals.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Fleet = FLEET {
        generators = required: Whole { min: 1, max: 1000 } => u32,
            "Processes that generate the load together; `load.agents` and `load.rate` are their totals",
            ["processes", "workers", "parallelism"];
        threads = "1": Whole { min: 1, max: 1024 } => u32, "Threads of each generator";
        by = "local": Choice(&["local", "command", "kubernetes", "slurm", "ssh", "virtual"])
            => by: FleetEngine = |fleet| fleet.get("by").unwrap_or_default(),
            "Where generators run: \"local\", this machine; \"virtual\", separate hosts of the lab, gen1, gen2, …; \
             \"ssh\", the machines of `hosts`; \"kubernetes\", pods of a Job; \"slurm\", jobs of srun; \"command\", \
             where `start` connects to",
            ["engine", "on"];
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        start: ARGUMENTS => Vec<String>,
            "With by = \"command\": program and arguments that connect to the standard input and output of `plimsoll \
             generator`; {number} is the generator's, from 1, and {plimsoll} this program", ["command", "run"];
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hosts: TEXTS => Vec<String>,
            "With by = \"ssh\": machines, [\"user@10.0.0.21\", …], given to generators in turn; this program is sent \
             there",
            ["ssh", "machines"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Text => Option<String>,
            "With by = \"virtual\": profile of each generator's host; `plimsoll profiles` lists them";
        #[serde(default = "two_minutes", skip_serializing_if = "is_two_minutes")]
        wait = "2m": Duration { zero: false } => wait_s: f64,
            "With by = \"kubernetes\" or \"slurm\": time limit for generators to be scheduled", ["start_timeout"];
        #[serde(default, skip_serializing_if = "KubernetesFleet::is_default")]
        kubernetes: Table(KUBERNETES) => kubernetes: KubernetesFleet = |fleet| {
            fleet.section("kubernetes").map_or_else(KubernetesFleet::default, |section| KubernetesFleet::read(&section))
        }, "With by = \"kubernetes\": cluster, and requests of each pod", ["k8s"];
        #[serde(default, skip_serializing_if = "SlurmFleet::is_default")]
        slurm: Table(SLURM) => slurm: SlurmFleet = |fleet| {
            fleet.section("slurm").map_or_else(SlurmFleet::default, |section| SlurmFleet::read(&section))
        }, "With by = \"slurm\": options of each generator's job", ["srun"];
    }
}

section! {
    /// `[fleet.kubernetes]`: a pod for each generator, from one indexed Job. `kubectl` supplies the
    /// missing values.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct KubernetesFleet = KUBERNETES {
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Text => Option<String>, "kubectl context: cluster and user; default: the current one";
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Text => Option<String>, "Namespace of the Job; default: the context's";
        image = "debian:12-slim": Text => String,
            "Image with a shell, head, mktemp and a C library like this machine's; this program is sent there over the \
             stream";
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        nodes: Map(&Text) => BTreeMap<String, String>,
            "Labels of nodes that pods may run on, { pool = \"load\" }; pods are spread over them evenly",
            ["node_selector", "nodeSelector"];
        #[serde(skip_serializing_if = "Option::is_none")]
        cpu: Scalar => Option<String>,
            "CPU request of each pod, as in Kubernetes (2, \"500m\"); default: its threads. A request, not a limit: a \
             limit throttles";
        memory = "256Mi": Text => String, "Memory request of each pod, as in Kubernetes";
    }
}

section! {
    /// `[fleet.slurm]`: a job of `srun` for each generator.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct SlurmFleet = SLURM {
        #[serde(skip_serializing_if = "Option::is_none")]
        partition: Text => Option<String>, "Partition; default: Slurm's default", ["queue"];
        #[serde(skip_serializing_if = "Vec::is_empty")]
        options: ARGUMENTS => Vec<String>, "More options for srun, [\"--account=load\", \"--exclusive\", …]", ["args"];
    }
}

impl KubernetesFleet {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl SlurmFleet {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

const TWO_MINUTES_S: f64 = 120.0;

fn two_minutes() -> f64 {
    TWO_MINUTES_S
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_two_minutes(wait_s: &f64) -> bool {
    (*wait_s - TWO_MINUTES_S).abs() < f64::EPSILON
}

/// Way in which generators are started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetEngine {
    /// Processes of this machine, in the same place as clients.
    #[default]
    Local,
    /// Processes that a command of the user starts.
    Command,
    /// Pods of a Job in a Kubernetes cluster.
    Kubernetes,
    /// Jobs in a cluster that Slurm manages.
    Slurm,
    /// Machines that are reached over ssh.
    Ssh,
    /// Hosts of the lab that run only a generator.
    Virtual,
}

impl FleetEngine {
    /// Whether generators run on other machines, which outlast a trial's lab and may reach
    /// addresses that this machine cannot.
    #[must_use]
    pub fn is_elsewhere(self) -> bool {
        matches!(self, Self::Ssh | Self::Kubernetes | Self::Slurm)
    }
}

/// Role of the lab's hosts for generators, and of the process on them.
pub const GENERATOR_ROLE: &str = "load_generator";

impl Fleet {
    /// Returns the number of threads in all generators.
    #[must_use]
    pub fn all_threads(&self) -> u32 {
        self.generators.saturating_mul(self.threads)
    }

    /// Returns the name of a generator. Numbers start at 1.
    #[must_use]
    pub fn name(&self, number: u32) -> String {
        match self.by {
            FleetEngine::Virtual => format!("gen{number}"),
            FleetEngine::Local
            | FleetEngine::Command
            | FleetEngine::Kubernetes
            | FleetEngine::Slurm
            | FleetEngine::Ssh => format!("g{number}"),
        }
    }

    /// Returns the machine of a generator, if `hosts` names it.
    #[must_use]
    pub fn host(&self, number: u32) -> Option<&str> {
        let place = (number as usize).checked_sub(1)?.checked_rem(self.hosts.len())?;
        self.hosts.get(place).map(String::as_str)
    }
}

/// Reads the section, and checks that the load can be divided.
pub(super) fn read(root: &Section<'_>, context: &mut CheckContext<'_>) -> Option<Fleet> {
    let section = root.section("fleet")?;
    let fleet = Fleet::read(&section);
    started(&section, &fleet, context);
    let Some(load) = root.section("load") else {
        let problem = Problem::absent(section.place, "there is no load for the generators").expected("no [load]");
        context.problems.push(problem.hint("add [load], or remove [fleet]"));
        return Some(fleet);
    };
    divided(&section, &load, context);
    if let Some(name) = context.protocol.map(|protocol| protocol.name).filter(|name| *name == "command") {
        let problem =
            Problem::new(section.place, format!("the protocol `{name}` runs programs, which is done by one process"));
        context.problems.push(problem.expected("not with it").hint("remove [fleet]"));
    }
    Some(fleet)
}

/// Checks keys that belong to one engine each: `start`, `hosts`, `profile` and the tables.
fn started(section: &Section<'_>, fleet: &Fleet, context: &mut CheckContext<'_>) {
    let own = [
        ("start", FleetEngine::Command, "command"),
        ("hosts", FleetEngine::Ssh, "ssh"),
        ("profile", FleetEngine::Virtual, "virtual"),
        ("kubernetes", FleetEngine::Kubernetes, "kubernetes"),
        ("slurm", FleetEngine::Slurm, "slurm"),
    ];
    for (key, _, by) in own.into_iter().filter(|(key, engine, _)| section.has(key) && fleet.by != *engine) {
        let problem = Problem::new(section.place(key), format!("`{key}` belongs to by = \"{by}\""));
        let problem = problem.expected(format!("not with \"{}\"", section.text("by").unwrap_or("local")));
        context.problems.push(problem.hint(format!("add by = \"{by}\", or remove `{key}`")));
    }
    if section.has("wait") && !matches!(fleet.by, FleetEngine::Kubernetes | FleetEngine::Slurm) {
        let problem = Problem::new(
            section.place("wait"),
            "these generators are started at once: there is no placement to wait for",
        );
        let problem = problem.expected(format!("not with \"{}\"", section.text("by").unwrap_or("local")));
        context.problems.push(problem.hint("remove `wait`, or write by = \"kubernetes\" or \"slurm\""));
    }
    if fleet.by == FleetEngine::Command && fleet.start.first().is_none_or(|program| program.trim().is_empty()) {
        let problem = Problem::absent(section.place("by"), "the command that starts a generator is missing");
        context.problems.push(problem.expected("no `start`").hint(
            "add start = [\"ssh\", \"gen{number}\", \"plimsoll\", \"generator\"], or another command that \
                       connects to a generator",
        ));
    }
    if fleet.by == FleetEngine::Ssh {
        over_ssh(section, fleet, context);
    }
}

fn over_ssh(section: &Section<'_>, fleet: &Fleet, context: &mut CheckContext<'_>) {
    if fleet.hosts.is_empty() {
        let problem =
            Problem::absent(section.place("by"), "the machines of the generators are missing").expected("no `hosts`");
        context.problems.push(problem.hint("add hosts = [\"user@10.0.0.21\", …], as ssh takes them"));
    } else if fleet.hosts.len() > fleet.generators as usize {
        let what = format!("{} machines for {} generators", fleet.hosts.len(), fleet.generators);
        let problem = Problem::new(section.place("hosts"), what).expected("some would have no generator");
        context.problems.push(problem.hint(format!("write generators = {}, or leave machines out", fleet.hosts.len())));
    }
}

/// Checks that generators can reach the target from their place, and adds the hosts of generators
/// to the lab.
pub(super) fn place(
    root: &Section<'_>,
    fleet: Option<&Fleet>,
    target: Option<&TargetKind>,
    lab: &mut Lab,
    context: &mut CheckContext<'_>,
) {
    let Some((section, fleet)) = root.section("fleet").zip(fleet) else { return };
    let is_running = matches!(target, Some(TargetKind::Running { .. }));
    let mut refuse = |what: &str, expected: &str, remedy: &str| {
        context.problems.push(Problem::new(section.place("by"), what).expected(expected).hint(remedy));
    };
    match fleet.by {
        FleetEngine::Local | FleetEngine::Command => {}
        FleetEngine::Ssh | FleetEngine::Kubernetes | FleetEngine::Slurm
            if !lab.hosts.is_empty() && lab.is_virtual() && !is_running =>
        {
            refuse(
                "other machines do not reach the lab's virtual hosts",
                "not with virtual hosts",
                "write by = \"virtual\", or put the target on machines of its own with `lab.ssh`",
            )
        }
        FleetEngine::Ssh | FleetEngine::Kubernetes | FleetEngine::Slurm
            if lab.hosts.is_empty() && matches!(target, Some(TargetKind::Folder { .. })) =>
        {
            refuse(
                "the target listens on 127.0.0.1 of this machine, which other machines do not reach",
                "not with a target on this machine alone",
                "put the target on a machine with `lab.ssh`, or name one that runs with `target.url`",
            )
        }
        FleetEngine::Ssh | FleetEngine::Kubernetes | FleetEngine::Slurm => {}
        FleetEngine::Virtual if is_running => refuse(
            "the target runs already, and not on the lab's network",
            "no lab",
            "write by = \"local\", or have the target started in [lab] with `use` or `start`",
        ),
        FleetEngine::Virtual if lab.hosts.is_empty() || lab.hosts.iter().any(|host| host.is_real()) => refuse(
            "virtual generators are on the network of virtual hosts, and the target is not",
            "no virtual hosts",
            "add [lab] with hosts = 1, or write by = \"local\"",
        ),
        FleetEngine::Virtual => add_hosts(&section, fleet, lab, context),
    }
}

fn add_hosts(section: &Section<'_>, fleet: &Fleet, lab: &mut Lab, context: &mut CheckContext<'_>) {
    let profile = fleet.profile.as_ref().and_then(|name| context.catalog.profiles.get(name));
    if let Some(name) = fleet.profile.as_ref().filter(|_| profile.is_none()) {
        let hint = nearest_hint(name, context.catalog.profiles.keys().map(String::as_str));
        let problem = Problem::absent(section.place("profile"), format!("there is no profile `{name}`"));
        let problem = problem.expected("unknown profile").hint("`plimsoll profiles` lists them");
        context.problems.push(problem.maybe(hint));
    }
    if let Some(profile) = profile.filter(|profile| !lab.profiles.contains(profile)) {
        lab.profiles.push(profile.clone());
    }
    for name in (1..=fleet.generators).map(|number| fleet.name(number)) {
        if lab.hosts.iter().any(|host| host.name == name) {
            let problem =
                Problem::new(section.place("by"), format!("a host of the lab is called `{name}`, as a generator's is"));
            context.problems.push(problem.expected("the second").hint("give the lab's host another name"));
        }
        let roles = vec![GENERATOR_ROLE.to_owned()];
        lab.hosts.push(Host { name, roles, profile: fleet.profile.clone(), is_generator: true, ..Host::default() });
    }
}

/// Reports keys of the load that several processes cannot share.
fn divided(section: &Section<'_>, load: &Section<'_>, context: &mut CheckContext<'_>) {
    let mut refuse = |place: &TextSpan, what: &str, expected: &str, remedy: &str| {
        let problem = Problem::new(place, what).expected(expected).related(section.place, "the load is divided here");
        context.problems.push(problem.hint(remedy));
    };
    if load.has("threads") {
        let remedy = "write `threads` of each generator into [fleet]";
        refuse(load.place("threads"), "`load.threads` is for one process", "not with [fleet]", remedy);
    }
    if load.text("overflow") == Some("stop") {
        let remedy = "write overflow = \"drop\", or play the load without [fleet]";
        refuse(
            load.place("overflow"),
            "a full backlog stops one generator, and not the others",
            "not with [fleet]",
            remedy,
        );
    }
    let populations = std::iter::once(*load).chain(load.sections("group"));
    for population in populations.collect::<Vec<_>>() {
        if population.has("count") {
            let remedy = "bound the load by `time`, or play it without [fleet]";
            let what = "`count` bounds all agents together, and generators cannot share it";
            refuse(population.place("count"), what, "not with [fleet]", remedy);
        }
    }
    for feed in load.sections("feed").iter().filter(|feed| feed.boolean("stream")) {
        let what = "only one process can read a stream";
        refuse(feed.place("stream"), what, "not with [fleet]", "remove `stream`, or play the load without [fleet]");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn threads_are_summed_over_generators() {
        let fleet = Fleet { generators: 3, threads: 4, ..Fleet::default() };
        assert_eq!(fleet.all_threads(), 12);
        assert_eq!(Fleet { generators: u32::MAX, ..fleet }.all_threads(), u32::MAX);
    }

    #[test]
    fn machines_are_assigned_round_robin() {
        let hosts = vec!["a".to_owned(), "b".to_owned()];
        let fleet = Fleet { generators: 3, by: FleetEngine::Ssh, hosts, ..Fleet::default() };
        assert_eq!([1, 2, 3].map(|number| fleet.host(number)), [Some("a"), Some("b"), Some("a")]);
        assert_eq!((fleet.host(0), Fleet::default().host(1)), (None, None));
        assert_eq!((fleet.name(2), Fleet { by: FleetEngine::Virtual, ..fleet }.name(2)), ("g2".into(), "gen2".into()));
    }
}
