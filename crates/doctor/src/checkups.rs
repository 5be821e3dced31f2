//! Check-ups of a machine: each finds a setting or state that spoils or changes measurements, and
//! suggests a remedy. Each is a pure function of text files and of the values in [`Measured`].

mod erlang;
mod lab;
mod network;
mod processor;
mod resources;

use std::str::FromStr;

use runner::environment::{RecordedRoot, chosen};
use serde::Serialize;

use crate::measured::Measured;
use crate::trial_demand::TrialDemand;

/// A check-up.
#[derive(Debug)]
pub struct CheckKind {
    /// Name of the check-up, in a few words.
    pub name: &'static str,
    /// Subject of the check-up.
    pub about: CheckScope,
    /// Data that the check-up reads.
    pub reads: &'static str,
    /// Effect of a bad state on a measurement, in one sentence.
    pub why: &'static str,
    /// Reference for the effect.
    pub source: &'static str,
    /// Rules of the verdict that detect the effect in a trial.
    pub caught_by: &'static [&'static str],
    /// Tuning that the check-up covers, from the article on the name service vsns.
    pub article: Option<Tuning>,
    /// Function that performs the check-up.
    pub look: fn(&MachineSnapshot<'_>) -> CheckResult,
}

/// Subject of a check-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckScope {
    /// Requirements of the given experiment.
    Experiment,
    /// Other programs on the machine.
    Noise,
    /// Processors.
    Processor,
    Memory,
    /// Clocks and timers.
    Time,
    /// Network.
    Network,
    /// Limits of processes.
    Limits,
    /// Disk of the run folder.
    Disk,
    /// Prerequisites of virtual hosts.
    Lab,
    /// Energy meters and persistent memory.
    Hardware,
    /// Runtime of targets in Erlang.
    Erlang,
}

/// A tuning from the article.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tuning {
    /// Index in the article's list of tunings, from 1 to 6.
    pub number: u8,
    /// Description in the article.
    pub says: &'static str,
    /// Assessment of the tuning for today's systems.
    pub worth: &'static str,
}

/// Result state of a check-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// The state cannot be determined on this machine.
    Unknown,
    /// The state is good.
    Good,
    /// The state changes measured values. It must be the same on both sides of a comparison, or be
    /// reported with the values.
    Notice,
    /// The state spoils a measurement.
    Bad,
}

/// Result of a check-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckResult {
    pub state: CheckState,
    /// Finding, in a few words. For [`CheckState::Unknown`], the reason why the state is unknown.
    pub found: String,
    /// Remedy: a command or advice.
    pub remedy: Option<String>,
    /// Changes that `--fix` would make.
    pub fixes: Vec<Fix>,
    /// Commands that the user must run, in order, because `--fix` does not run them. A line that
    /// begins with `#` describes the commands below it.
    pub commands: Vec<String>,
}

/// A change to a value of the running kernel, which can be undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// Path of the file, relative to the root folder.
    pub path: String,
    /// Current value.
    pub from: String,
    /// New value.
    pub to: String,
}

/// All check-ups, sorted by file.
pub const KINDS: &[&CheckKind] = &[
    &erlang::POLL,
    &erlang::PORTS,
    &erlang::PROCESSES,
    &erlang::SCHEDULERS,
    &lab::CONTROLLERS,
    &lab::LAB,
    &lab::LINKS,
    &lab::NAMESPACES,
    &lab::QUOTA,
    &lab::RIGHTS,
    &lab::SETTINGS,
    &lab::TARGET,
    &network::ACCEPT,
    &network::ANY,
    &network::HALF_OPEN,
    &network::RANGE,
    &network::REUSE,
    &network::TCP,
    &network::TRACKED,
    &processor::COUNT,
    &processor::ENERGY,
    &processor::GOVERNOR,
    &processor::ISOLATED,
    &processor::MITIGATIONS,
    &processor::NEIGHBOURS,
    &processor::SIBLINGS,
    &processor::SOURCE,
    &processor::STEAL,
    &processor::STRANGERS,
    &processor::SYNC,
    &processor::TIMERS,
    &processor::TURBO,
    &resources::AVAILABLE,
    &resources::FREE,
    &resources::HUGE_PAGES,
    &resources::LAYOUTS,
    &resources::NODES,
    &resources::OPEN_FILES,
    &resources::PERSISTENT,
    &resources::PROCESSES,
    &resources::SWAP,
    &resources::SYNC,
    &resources::WATCHES,
];

/// Reason for an unknown state: the kernel does not provide the information.
const NOT_TOLD: &str = "this kernel does not report it";

/// Reason why a network setting of this machine is good: the networks of a virtual lab do not
/// inherit it.
const OF_LAB: &str = "the lab's own networks have the kernel's defaults";

/// Data about the examined machine.
pub struct MachineSnapshot<'a> {
    pub(crate) root: &'a RecordedRoot,
    pub(crate) measured: &'a Measured,
    pub(crate) asked: Option<&'a TrialDemand>,
}

impl MachineSnapshot<'_> {
    fn text(&self, path: &str) -> Option<String> {
        self.root.text(path)
    }

    fn number<N: FromStr>(&self, path: &str) -> Option<N> {
        self.root.number(path)
    }

    /// Returns a kernel setting such as `net.core.somaxconn`. A setting may consist of several
    /// numbers.
    fn sysctl(&self, name: &str) -> Option<Vec<u64>> {
        let text = self.text(&sysctl_path(name))?;
        text.split_ascii_whitespace().map(|number| number.parse().ok()).collect()
    }

    /// Returns the change of a file to this value. `None` if the file is missing or has the value.
    fn fix(&self, path: &str, to: &str) -> Option<Fix> {
        let from = chosen(&self.text(path)?);
        (from != to).then(|| Fix { path: path.to_owned(), from, to: to.to_owned() })
    }

    fn fix_sysctl(&self, name: &str, to: &str) -> Option<Fix> {
        self.fix(&sysctl_path(name), to)
    }

    fn is_guest(&self) -> bool {
        runner::environment::virtualisation(self.root).is_some_and(|kind| kind != "none")
    }

    /// Whether clients and target are in networks that the lab makes. The settings of these
    /// networks are independent of the machine's (network_namespaces(7)).
    fn is_in_lab(&self) -> bool {
        self.asked.is_some_and(|asked| asked.is_virtual)
    }

    /// Returns the number of connections that the agents of the given experiment open.
    fn agents(&self) -> Option<u64> {
        self.asked.map(|asked| asked.agents)
    }
}

impl CheckResult {
    fn good(found: impl Into<String>) -> Self {
        Self::of(CheckState::Good, found)
    }

    fn notice(found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..Self::of(CheckState::Notice, found) }
    }

    fn bad(found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..Self::of(CheckState::Bad, found) }
    }

    fn unknown(why: impl Into<String>) -> Self {
        Self::of(CheckState::Unknown, why)
    }

    fn of(state: CheckState, found: impl Into<String>) -> Self {
        Self { state, found: found.into(), remedy: None, fixes: Vec::new(), commands: Vec::new() }
    }

    fn fixed_by(mut self, fixes: impl IntoIterator<Item = Fix>) -> Self {
        self.fixes.extend(fixes);
        self
    }
}

impl Fix {
    /// Returns the command that makes the change.
    #[must_use]
    pub fn command(&self) -> String {
        match self.path.strip_prefix("proc/sys/") {
            Some(name) if self.to.contains(' ') => format!("sysctl -w {}=\"{}\"", name.replace('/', "."), self.to),
            Some(name) => format!("sysctl -w {}={}", name.replace('/', "."), self.to),
            None => format!("echo {} > /{}", self.to, self.path),
        }
    }
}

/// Returns the commands that make these changes. Files whose paths differ only in numbers, such as
/// one per CPU, share a command.
#[must_use]
pub fn commands(fixes: &[Fix]) -> Vec<String> {
    let mut groups: Vec<(String, Vec<&Fix>)> = Vec::new();
    for fix in fixes {
        let paths = with_stars(&fix.path);
        match groups.iter_mut().find(|(known, alike)| *known == paths && alike[0].to == fix.to) {
            Some((_, alike)) => alike.push(fix),
            None => groups.push((paths, vec![fix])),
        }
    }
    let commands = groups.into_iter().map(|(paths, alike)| match alike[..] {
        [only] => only.command(),
        _ => format!("echo {} | tee /{paths}", alike[0].to),
    });
    commands.collect()
}

fn with_stars(path: &str) -> String {
    let mut text = String::new();
    for letter in path.chars() {
        match letter {
            digit if digit.is_ascii_digit() => {
                if !text.ends_with('*') {
                    text.push('*');
                }
            }
            other => text.push(other),
        }
    }
    text
}

fn sysctl_path(name: &str) -> String {
    format!("proc/sys/{}", name.replace('.', "/"))
}

/// Formats a number with its noun, such as `1 core` or `2 cores`.
fn count(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use ::lab::hosts::LinkSupport;
    use experiment::manifest::Needs;
    use fixture::TestDir;

    use super::*;
    use crate::machine;
    use crate::measured::{CpuNoise, Erlang, MeasuredSpread};

    /// Returns measurements of an undisturbed machine.
    pub(crate) fn calm() -> Measured {
        Measured {
            is_root: Some(true),
            cpus: Some(8),
            noise: Some(CpuNoise { others_pct: 0.4, busiest: Vec::new(), steal_pct: Some(0.0) }),
            timer_resolution_ns: Some(1),
            late_us: Some(MeasuredSpread { p50: 58.0, max: 210.0 }),
            is_synchronised: Some(true),
            time_keeper: Some("chronyd".to_owned()),
            folder: "runs".to_owned(),
            free_bytes: Some(100 << 30),
            file_system: Some("ext4".to_owned()),
            sync_us: Some(MeasuredSpread { p50: 80.0, max: 910.0 }),
            links: Some(LinkSupport { has_tc: true, rate: true, delay: true }),
            erlang: Some(Erlang {
                release: 25,
                version: "25.2.3".to_owned(),
                schedulers_online: 8,
                processes: 262_144,
                ports: 65_536,
            }),
            persistent: Default::default(),
        }
    }

    pub(crate) fn tests_needs() -> Needs {
        Needs { sysctl: BTreeMap::from([("vm.max_map_count".to_owned(), 262_144)]), ..Needs::default() }
    }

    fn looks(tree: &TestDir, measured: &Measured, asked: Option<&TrialDemand>) -> Vec<(&'static str, CheckResult)> {
        let root = RecordedRoot::at(tree);
        let snapshot = MachineSnapshot { root: &root, measured, asked };
        KINDS.iter().map(|kind| (kind.name, (kind.look)(&snapshot))).collect()
    }

    fn of<'a>(looks: &'a [(&'static str, CheckResult)], name: &str) -> &'a CheckResult {
        &looks.iter().find(|(one, _)| *one == name).unwrap().1
    }

    fn names(looks: &[(&'static str, CheckResult)], state: CheckState) -> BTreeSet<&'static str> {
        looks.iter().filter(|(_, finding)| finding.state == state).map(|(name, _)| *name).collect()
    }

    #[test]
    fn a_good_machine_is_good_throughout() {
        let tree = machine("good");
        let asked = TrialDemand {
            agents: 1000,
            services: 1,
            at_once: 100,
            target: "echo".to_owned(),
            ..TrialDemand::default()
        };
        let looks = looks(&tree, &calm(), Some(&asked));
        for (name, finding) in &looks {
            assert_eq!(finding.state, CheckState::Good, "{name}: {finding:?}");
            assert!(finding.fixes.is_empty() && finding.remedy.is_none(), "{name}: {finding:?}");
        }
    }

    #[test]
    fn a_bad_machine_has_a_remedy_for_everything() {
        let tree = machine("bad");
        let measured = Measured {
            is_root: Some(false),
            cpus: Some(1),
            noise: Some(CpuNoise { others_pct: 40.0, busiest: vec![("rustc".to_owned(), 38.0)], steal_pct: Some(3.0) }),
            late_us: Some(MeasuredSpread { p50: 3000.0, max: 9000.0 }),
            is_synchronised: Some(false),
            time_keeper: None,
            free_bytes: Some(100 << 20),
            file_system: Some("tmpfs".to_owned()),
            links: Some(LinkSupport { has_tc: true, rate: false, delay: false }),
            erlang: Some(Erlang { release: 19, processes: 1024, ports: 1024, ..Erlang::default() }),
            ..calm()
        };
        let asked = TrialDemand {
            agents: 5000,
            services: 1,
            at_once: 5000,
            refused: Some(("it needs root".to_owned(), "run it as root".to_owned())),
            missing: vec!["build it".to_owned()],
            needs: BTreeMap::from([("search".to_owned(), tests_needs())]),
            is_remote: true,
            ..TrialDemand::default()
        };
        let looks = looks(&tree, &measured, Some(&asked));
        let good = names(&looks, CheckState::Good);
        assert_eq!(good, BTreeSet::from(["Erlang: schedulers", "root", "shared hardware"]), "{looks:?}");
        assert!(names(&looks, CheckState::Unknown).is_empty(), "{looks:?}");
        for (name, finding) in looks.iter().filter(|(_, finding)| finding.state > CheckState::Good) {
            assert!(finding.remedy.as_ref().is_some_and(|remedy| !remedy.is_empty()), "{name}: {finding:?}");
        }
        let strangers = of(&looks, "CPU used by others");
        assert_eq!(strangers.found, "40 % of the machine in the last second: rustc 38 %");
        assert_eq!(of(&looks, "quota on ourselves").state, CheckState::Bad);
        let governor = of(&looks, "frequency governor");
        assert_eq!((governor.found.as_str(), governor.fixes.len()), ("ondemand, performance, powersave", 2));
        let command = "echo performance | tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor";
        assert_eq!(commands(&governor.fixes), [command]);
        let ports = &of(&looks, "local ports").fixes;
        assert_eq!(commands(ports), ["sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\""]);
        assert_eq!(ports[0].from, "50000 51000");
        let pages = &of(&looks, "transparent huge pages").fixes;
        assert_eq!((pages[0].from.as_str(), pages[0].to.as_str()), ("always", "madvise"));
    }

    #[test]
    fn a_container_sees_its_limits() {
        let tree = machine("container");
        let measured = Measured { is_root: Some(false), links: None, erlang: None, ..calm() };
        let looks = looks(&tree, &measured, None);
        assert_eq!(
            of(&looks, "quota on ourselves").found,
            "this container may use 0.5 cores, and is stopped when they are used up"
        );
        assert_eq!(of(&looks, "memory available").found, "512MiB of 512MiB that this container may use");
        assert_eq!(of(&looks, "shared hardware").state, CheckState::Notice);
        assert_eq!(of(&looks, "frequency governor").found, "not visible in here: the host decides");
        assert_eq!(of(&looks, "emulated links").found, "can only be tested as root");
        assert_eq!(of(&looks, "socket buffers").state, CheckState::Unknown);
        assert_eq!(of(&looks, "Erlang: ports").found, "Erlang is not installed");
    }

    #[test]
    fn an_old_kernel_leaves_results_unknown() {
        let tree = machine("old");
        let looks = looks(&tree, &Measured::default(), None);
        for name in
            ["turbo", "memory available", "TCP buffers", "mitigations", "timers", "CPUs", "stolen CPU", "free disk"]
        {
            assert_eq!(of(&looks, name).state, CheckState::Unknown, "{name}");
        }
        assert_eq!(of(&looks, "control groups").found, "version 1: no controller for cpuset, memory, disks");
        assert_eq!(of(&looks, "quota on ourselves").found, "none");
        assert_eq!(of(&looks, "swap").state, CheckState::Good);
        assert_eq!(of(&looks, "virtual hosts").state, CheckState::Notice);
    }

    #[test]
    fn an_empty_machine_is_never_bad() {
        let tree = TestDir::new();
        for (name, finding) in looks(&tree, &Measured::default(), None) {
            assert_ne!(finding.state, CheckState::Bad, "{name}: {finding:?}");
            assert!(finding.fixes.is_empty(), "{name}: {finding:?}");
        }
    }

    #[test]
    fn results_depend_on_the_experiments_demand() {
        let tree = machine("old");
        for (agents, name, state) in [
            (100, "open files", CheckState::Good),
            (2000, "open files", CheckState::Notice),
            (5000, "open files", CheckState::Bad),
            (28_233, "local ports", CheckState::Good),
            (28_234, "local ports", CheckState::Bad),
            (128, "accept queue", CheckState::Good),
            (129, "accept queue", CheckState::Bad),
            (64_512, "Erlang: ports", CheckState::Good),
            (64_513, "Erlang: ports", CheckState::Bad),
        ] {
            let asked = TrialDemand { agents, services: 1, at_once: agents, ..TrialDemand::default() };
            assert_eq!(of(&looks(&tree, &calm(), Some(&asked)), name).state, state, "{name} for {agents} agents");
        }
        // A wider range does not suffice for this many agents.
        for (sources, is_on_loopback, state) in [
            (0, true, CheckState::Good),
            (0, false, CheckState::Bad),
            (2, false, CheckState::Bad),
            (3, false, CheckState::Good),
        ] {
            let asked = TrialDemand { agents: 70_000, services: 1, sources, is_on_loopback, ..TrialDemand::default() };
            let looks = looks(&tree, &calm(), Some(&asked));
            let ports = of(&looks, "local ports");
            assert!(ports.state == state && (sources > 0 || ports.fixes.is_empty()), "{ports:?}");
        }
    }

    #[test]
    fn a_virtual_lab_ignores_the_machines_network_settings() {
        let tree = machine("bad");
        let [few, many] = [2000, 28_233].map(|agents| {
            let asked =
                TrialDemand { agents, services: 1, at_once: agents, is_virtual: true, ..TrialDemand::default() };
            looks(&tree, &calm(), Some(&asked))
        });
        for name in ["local ports", "reuse of ports", "accept queue", "SYN backlog"] {
            assert_eq!(of(&few, name), &CheckResult::good(OF_LAB), "{name}");
        }
        let ports = of(&many, "local ports");
        assert!(ports.state == CheckState::Bad && ports.fixes.is_empty(), "{ports:?}");
    }

    #[test]
    fn thresholds_are_those_of_the_verdict() {
        let tree = machine("good");
        for (others_pct, steal_pct, others, stolen) in
            [(9.9, 1.9, CheckState::Notice, CheckState::Good), (10.0, 2.0, CheckState::Bad, CheckState::Bad)]
        {
            let noise = CpuNoise { others_pct, busiest: Vec::new(), steal_pct: Some(steal_pct) };
            let looks = looks(&tree, &Measured { noise: Some(noise), ..calm() }, None);
            assert_eq!((of(&looks, "CPU used by others").state, of(&looks, "stolen CPU").state), (others, stolen));
        }
    }

    #[test]
    fn all_six_tunings_of_the_article_are_there() {
        let numbers: BTreeSet<u8> = KINDS.iter().filter_map(|kind| kind.article).map(|tuning| tuning.number).collect();
        assert_eq!(numbers, (1..=6).collect());
    }

    #[test]
    fn names_are_unique_and_fit_their_column() {
        let names: BTreeSet<&str> = KINDS.iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), KINDS.len());
        assert!(names.iter().all(|name| name.len() <= 23), "{names:?}");
    }
}
